"""One request of a socket under way, as a fault sees it, and the answer that the fault makes of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Protocol

from rtdb_emulator.http.messages import Reply
from rtdb_emulator.ws.asked import Asked, Opening
from rtdb_emulator.ws.messages import Answer, control, expired, refusal
from rtdb_emulator.ws.segments import Message

_WORDS = {401: "permission_denied", 403: "permission_denied", 412: "datastale", 413: "too_big", 503: "unavailable"}


class Ended(Exception):
    """The emulator stops, or the client is gone, while a fault holds a request up."""


class Line(Protocol):
    """The parts of a connection that faults need."""

    @property
    def over(self) -> asyncio.Event: ...

    def send(self, message: Message) -> None: ...

    def send_before(self, mark: int, message: Message) -> None: ...

    def mark(self) -> int: ...

    def cut(self, message: Message) -> None: ...

    def freeze(self) -> None: ...


class Exchange:
    """A socket's request under way (`http.exchange.SocketExchange`)."""

    def __init__(self, line: Line, asked: Asked) -> None:
        self._line = line
        self._asked = asked
        self._served: tuple[Reply, Answer] | None = None
        # The answer that the client has got already.
        self.answered: Answer | None = None

    def serve(self, *, rules_first: bool = False) -> Reply:
        answer = self._asked.do(rules_first=rules_first)
        reply = Reply(200, answer.data.encode())
        self._served = reply, answer
        return reply

    def serve_answer_first(self) -> None:
        mark = self._line.mark()
        self.answered = self._asked.do()
        self._line.send_before(mark, self._asked.message(self.answered))

    async def pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._line.over.wait(), seconds)
        self._check_running()

    async def until(self, event: asyncio.Event) -> None:
        waits = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(self._line.over.wait())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        self._check_running()

    def control(self, kind: str, data: object) -> None:
        self._line.send(control(kind, data))

    def expire(self, text: str) -> None:
        self._line.send(expired(text))

    def cut(self) -> None:
        self._line.cut(self._asked.message(self._asked.do()))

    def freeze(self) -> None:
        self._line.freeze()

    def skew(self, milliseconds: int) -> None:
        if isinstance(self._asked, Opening):
            self._asked.skew = milliseconds

    def outcome(self, reply: Reply) -> Answer | str:
        """Return the answer that a fault has made, or a frame that is not an answer."""
        if self._served is not None and reply is self._served[0]:
            return self._served[1]
        text = reply.body.decode(errors="replace")
        if reply.status != 200:
            return refusal(_WORDS.get(reply.status, "failed"), _error_in(text))
        try:
            json.loads(text)
        except ValueError:
            return text
        return Answer("ok", text)

    def _check_running(self) -> None:
        if self._line.over.is_set():
            raise Ended


def _error_in(text: str) -> str:
    """Return the text of a REST error."""
    try:
        data = json.loads(text)
    except ValueError:
        return text
    return data["error"] if isinstance(data, dict) and isinstance(data.get("error"), str) else text
