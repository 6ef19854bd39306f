"""The requests of a connection: first the opening, whose answer is the hello, then the operations of the client."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from rtdb_emulator.http.matching import RequestFacts
from rtdb_emulator.operations import Account
from rtdb_emulator.paths import MAX_DEPTH, MAX_KEY_BYTES, PRIORITY
from rtdb_emulator.ws.messages import VERSION, Answer, Request, answered, dumps, refusal
from rtdb_emulator.ws.segments import Message
from rtdb_emulator.ws.session import Session
from rtdb_emulator.ws.verdicts import account

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


class Asked(Protocol):
    """A request that can be done and answered."""

    @property
    def facts(self) -> RequestFacts:
        """The facts of the request, for faults and the log."""

    def do(self, *, rules_first: bool = False) -> Answer:
        """Do the request, and return its answer."""

    def undisturbed(self) -> AbstractContextManager[object]:
        """Return a block to do and answer a read in. No write happens in it: so its answer is in the commits' order."""

    def message(self, answer: Answer) -> Message:
        """Return the message of an answer to the request."""

    def account(self, answer: Answer | None) -> Account | None:
        """Return the entry for the emulator's page, if the request has one. `answer` is None if there was no answer."""


class Operation:
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
        try:
            return self._session.handle(self._request, rules_first=rules_first)
        except Exception:
            logger.exception("%s %s over WebSocket broke the emulator", self.facts.method, self.facts.path)
            return refusal("error", "Internal Server Error: see the emulator's log")

    def undisturbed(self) -> AbstractContextManager[object]:
        # Without this, another thread may write between the read and its answer. The client would get the write's push
        # first, and the older value after it.
        return self._session.undisturbed() if self._request.action == "g" else nullcontext()

    def message(self, answer: Answer) -> Message:
        return answered(self._request.number, answer)

    def account(self, answer: Answer | None) -> Account | None:
        return account(self.facts, self._session.access, self._request, answer)


class Opening:
    """The start of a connection. The hello says the server's name and time."""

    def __init__(self, facts: RequestFacts, size: int, now: Callable[[], int], session: str) -> None:
        self.facts = facts
        self.size = size
        self.skew = 0
        self._now = now
        self._session = session

    def do(self, *, rules_first: bool = False) -> Answer:
        host = self.facts.headers.get("host", "")
        return Answer("ok", dumps({"ts": self._now() + self.skew, "v": VERSION, "h": host, "s": self._session}))

    def undisturbed(self) -> AbstractContextManager[object]:
        return nullcontext()

    def message(self, answer: Answer) -> Message:
        return Message(f'{{"t":"c","d":{{"t":"h","d":{answer.data}}}}}')

    def account(self, answer: Answer | None) -> Account | None:
        return None
