"""A socket's request and its answer as an operation, for the emulator's page."""

from __future__ import annotations

import json
import time

from rtdb_emulator.database import Access
from rtdb_emulator.http.matching import RequestFacts
from rtdb_emulator.operations import Account, Operation, Verdict
from rtdb_emulator.ws.messages import Answer, Request

# The actions for data, without the end of a listen, which can't fail.
_FOR_DATA = frozenset(("q", "g", "p", "m", "o", "om", "oc"))
_SIGN_INS = frozenset(("auth", "gauth"))
_VERDICTS: dict[str, Verdict] = {
    "ok": "allowed",
    "permission_denied": "denied",
    "invalid_token": "denied",
    "expired_token": "denied",
    "datastale": "stale",
}
_LONGEST_QUERY = 1_000
_LONGEST_ERROR = 2_000


def account(facts: RequestFacts, access: Access, request: Request, answer: Answer | None) -> Account | None:
    """Return a function that describes the operation later, and keeps at most a line of each part of the request.

    Operations are the requests for data, and refused credentials; None for other requests. `answer` is None if a fault
    has withheld it.
    """
    is_refused_sign_in = request.action in _SIGN_INS and answer is not None and answer.status != "ok"
    if request.action not in _FOR_DATA and not is_refused_sign_in:
        return None
    at = time.time_ns() // 1_000_000
    query = request.body.get("q")
    detail = _shown(query) if query else ""
    if "h" in request.body and request.action == "p":
        detail = "conditional"
    status = None if answer is None else answer.status
    text = "" if answer is None or answer.status in ("ok", "datastale") else str(json.loads(answer.data))
    text = text[:_LONGEST_ERROR]
    refused = None if answer is None else answer.refused

    def describe() -> Operation:
        return Operation(
            at,
            facts.namespace,
            facts.method,
            facts.path,
            access,
            "dropped" if status is None else _VERDICTS.get(status, "refused"),
            detail,
            text,
            refused,
        )

    return describe


def _shown(query: object) -> str:
    """Return a query as JSON, cut if it is long: a query may be as long and as deep as a message."""
    try:
        return json.dumps(query, ensure_ascii=False)[:_LONGEST_QUERY]
    except RecursionError:
        return ""
