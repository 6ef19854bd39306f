"""A REST request and its answer as an operation, for the emulator's page."""

from __future__ import annotations

import json
import time

from rtdb_emulator.errors import Refusal
from rtdb_emulator.http.credentials import identify
from rtdb_emulator.http.matching import RequestFacts
from rtdb_emulator.http.messages import Answer, Reply, RestRequest
from rtdb_emulator.operations import Account, Operation, Verdict

# Credentials, and parameters that other fields of an operation show.
_HIDDEN = ("ns", "auth", "access_token", "auth_variable_override")
_VERDICTS: dict[int, Verdict] = {401: "denied", 403: "denied", 412: "stale"}
_LONGEST_ERROR = 1_000


def is_operation(request: RestRequest) -> bool:
    """Return whether a request is for data or rules."""
    return request.method != "OPTIONS" and request.path.endswith(".json") and not request.path.startswith("/.inspect/")


def account(facts: RequestFacts, answer: Answer | None) -> Account:
    """Return a function that describes the operation later, and keeps no more of the answer than that needs.

    `answer` is None if a fault has dropped the request.
    """
    status = None if answer is None else answer.status if isinstance(answer, Reply) else 200
    refused = answer.refused if isinstance(answer, Reply) else None
    error = answer.body if isinstance(answer, Reply) and answer.status >= 400 and answer.status != 412 else b""
    error = bytes(error[:_LONGEST_ERROR])
    at = time.time_ns() // 1_000_000

    def describe() -> Operation:
        detail = "&".join(f"{name}={value}" for name, value in facts.parameters.items() if name not in _HIDDEN)
        try:
            access = identify(facts.headers, facts.parameters)
        except Refusal:
            access = None
        how = "LISTEN" if "text/event-stream" in facts.headers.get("accept", "") else facts.method
        if status is not None and "if-match" in facts.headers:
            detail = f"{detail} if-match".strip()
        return Operation(at, facts.namespace, how, facts.path, access, _verdict(status), detail, _text(error), refused)

    return describe


def _verdict(status: int | None) -> Verdict:
    if status is None:
        return "dropped"
    if status < 400:
        return "allowed"
    return _VERDICTS.get(status, "failed" if status >= 500 else "refused")


def _text(body: bytes) -> str:
    """Return the error in an answer's body."""
    text = body.decode(errors="replace")
    try:
        return str(json.loads(text)["error"])
    except (ValueError, LookupError, TypeError):
        return text
