"""The requests of a socket, each from its arrival to its answer.

The first request of a connection is its opening, whose answer is the hello; then come the operations of the client.
Requests for data, and refused credentials, are also operations on the emulator's page.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias

from rtdb_emulator.database import Access
from rtdb_emulator.http.log import RequestFacts
from rtdb_emulator.paths import MAX_DEPTH, MAX_KEY_BYTES, PRIORITY
from rtdb_emulator.steps import Later, at_once
from rtdb_emulator.store import Account, Operation, Verdict
from rtdb_emulator.ws.messages import VERSION, Answer, Message, Request, answered, dumps, refusal
from rtdb_emulator.ws.session import Session

logger = logging.getLogger("rtdb_emulator")

_METHODS = {
    "q": "LISTEN",
    "n": "UNLISTEN",
    "g": "GET",
    "p": "PUT",
    "m": "PATCH",
    **dict.fromkeys(("o", "om", "oc"), "ONDISCONNECT"),
}
# The most characters of a path in the log and in operations. No node has a longer path.
_LONGEST_PATH = MAX_DEPTH * (MAX_KEY_BYTES + 1) + len(PRIORITY) + 1
_LONGEST_ACTION = 40


class ClientRequest:
    """A client's request. `where` has the facts of the connection."""

    __slots__ = ("_request", "_session", "facts")

    def __init__(self, session: Session, request: Request, where: RequestFacts) -> None:
        path = request.body.get("p")
        self._session = session
        self._request = request
        self.facts = RequestFacts(
            _METHODS.get(request.action) or request.action[:_LONGEST_ACTION].upper(),
            "/" + "/".join(filter(None, path.split("/")))[:_LONGEST_PATH] if isinstance(path, str) else "/",
            where.namespace,
            where.parameters,
            where.headers,
            where.port,
            where.wire,
        )

    def do(self, *, rules_first: bool = False) -> Answer:
        """Do the request, and return its answer."""
        try:
            return self._session.handle(self._request, rules_first=rules_first)
        except Exception:
            logger.exception("%s %s over WebSocket broke the emulator", self.facts.method, self.facts.path)
            return refusal("error", "Internal Server Error: see the emulator's log")

    def without_writes(self) -> AbstractContextManager[object]:
        """Return a block to do and answer a read in. No write happens in it: so its answer is in the commits' order."""
        # Without this, another thread may write between the read and its answer. The client would get the write's push
        # first, and the older value after it.
        return self._session.without_writes() if self._request.action == "g" else nullcontext()

    def preparing(self) -> Generator[None]:
        """Make the request quick, in steps."""
        return self._session.preparing(self._request)

    def message(self, answer: Answer) -> Message:
        """Return the message of an answer to the request."""
        return answered(self._request.number, answer)

    def account(self, answer: Answer | None) -> Account | None:
        """Return the entry for the emulator's page, if the request has one. `answer` is None if there was no answer."""
        return account(self.facts, self._session.access, self._request, answer)


class Opening:
    """The start of a connection. The hello says the server's name and time.

    It comes after `former`, the end of the client's last session.
    """

    def __init__(
        self, facts: RequestFacts, size: int, now: Callable[[], int], session: str, former: Later[None] | None
    ) -> None:
        self.facts = facts
        self.size = size
        self.skew = 0
        self._now = now
        self._session = session
        self._former = former

    def do(self, *, rules_first: bool = False) -> Answer:
        at_once(self.preparing())
        host = self.facts.headers.get("host", "")
        return Answer("ok", dumps({"ts": self._now() + self.skew, "v": VERSION, "h": host, "s": self._session}))

    def without_writes(self) -> AbstractContextManager[object]:
        return nullcontext()

    def preparing(self) -> Generator[None]:
        if self._former is not None:
            yield from self._former.making()

    def message(self, answer: Answer) -> Message:
        return Message(f'{{"t":"c","d":{{"t":"h","d":{answer.data}}}}}')

    def account(self, answer: Answer | None) -> Account | None:
        return None


Asked: TypeAlias = ClientRequest | Opening

# --- as an operation, for the emulator's page

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
    data = "" if answer is None or answer.status in ("ok", "datastale") else answer.data
    text = str(json.loads(data)) if isinstance(data, str) and data else ""
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
