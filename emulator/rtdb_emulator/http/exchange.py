"""A request under way, over HTTP or a socket, as a fault sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias

from rtdb_emulator.http.matching import Criteria
from rtdb_emulator.http.messages import Answer, Reply


class Which(Criteria, total=False):
    """The requests that a fault applies to.

    The criteria say which requests fit. `nth` is the first of those that the fault applies to, and `times` how many.
    """

    nth: int
    times: int | None


class Exchange(Protocol):
    """One request under way, as a fault sees it."""

    def serve(self, *, rules_first: bool = False) -> Answer:
        """Let the database handle the request, and return its answer."""

    async def pause(self, seconds: float) -> None:
        """Wait for these seconds. Raises `Ended` if the emulator stops meanwhile."""

    async def until(self, event: asyncio.Event) -> None:
        """Wait for the event. Raises `Ended` if the emulator stops meanwhile."""


# Applies a fault to a request. Returns the answer to send, or None to close the connection without an answer.
Effect: TypeAlias = Callable[[Exchange], Awaitable[Answer | None]]

NO_ANSWER: Final = Reply(0)
"""Over a socket: the connection stays open, and the request never gets an answer."""


class SocketExchange(Exchange, Protocol):
    """One request of a socket, or the socket's opening, to which the server's hello is the answer."""

    def serve_answer_first(self) -> None:
        """Let the database handle the request, and send the answer before the pushes that the request causes."""

    def control(self, kind: str, data: object) -> None:
        """Send a control message."""

    def expire(self, text: str) -> None:
        """Send the message that the client's credential has expired."""

    def cut(self) -> None:
        """Handle the request, send half of the answer's segments, and close the connection."""

    def freeze(self) -> None:
        """Read and write nothing more, until the emulator's `silence` has passed."""

    def skew(self, milliseconds: int) -> None:
        """Put a wrong time into the hello, off by these milliseconds."""
