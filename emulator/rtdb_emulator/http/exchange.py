"""What a fault sees of a request under way, over HTTP or a socket, and what it makes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias

from rtdb_emulator.http.matching import Criteria
from rtdb_emulator.http.messages import Answer, Reply


class Which(Criteria, total=False):
    """The requests that a fault befalls: what they are like, the first of them that it takes, and how many."""

    nth: int
    times: int | None


class Exchange(Protocol):
    """One request under way, as a fault sees it."""

    def serve(self, *, rules_first: bool = False) -> Answer:
        """Have the database do what is asked, and get what it would answer."""

    async def pause(self, seconds: float) -> None:
        """Wait that long, but not past the end of the emulator."""

    async def until(self, event: asyncio.Event) -> None:
        """Wait for the event, but not past the end of the emulator."""


# What a fault makes of a request: the answer that goes out, or None to close the connection without one.
Effect: TypeAlias = Callable[[Exchange], Awaitable[Answer | None]]

NO_ANSWER: Final = Reply(0)
"""Over a socket: the connection stays, and this request is never answered."""


class SocketExchange(Exchange, Protocol):
    """One request of a socket's, or its opening, which is answered by the server's hello."""

    def serve_answer_first(self) -> None:
        """The same, but the answer goes out before what the request means for listens."""

    def control(self, kind: str, data: object) -> None:
        """Send a control message."""

    def expire(self, text: str) -> None:
        """Tell the client that its credential is no longer good."""

    def cut(self) -> None:
        """Do what is asked, send half of the answer's segments, and close the connection."""

    def freeze(self) -> None:
        """Read nothing more and write nothing more, until the silence is long enough."""

    def skew(self, milliseconds: int) -> None:
        """Have the hello tell a time that is off."""
