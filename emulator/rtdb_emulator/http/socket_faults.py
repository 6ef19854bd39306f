"""Faults that only a socket can have. `faults` has those that HTTP has too, and the choice of requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeAlias, TypeVar, Unpack, cast

from rtdb_emulator.http.exchange import NO_ANSWER, Effect, SocketExchange, Which
from rtdb_emulator.http.messages import Answer, Reply

FaultT = TypeVar("FaultT")
_Act: TypeAlias = Callable[[SocketExchange], object]
_SocketEffect: TypeAlias = Callable[[SocketExchange], Awaitable[Answer | None]]


class SocketFaults(Generic[FaultT]):
    """The faults of an emulator's sockets. Each method takes the keywords of `Faults` for its requests.

    A socket's opening is a request with the method "OPEN", and the hello is its answer. The others are
    "LISTEN", "UNLISTEN", "GET", "PUT", "PATCH" and "ONDISCONNECT", and "AUTH", "GAUTH" and so on for actions without a
    path.
    """

    def __init__(self, add: Callable[[Effect, Which], FaultT]) -> None:
        self._make = add

    def swallow(self, **which: Unpack[Which]) -> FaultT:
        """Handle the request, and never answer it; the connection stays open.

        Args:
            which: The requests that the fault applies to.
        """
        return self._instead(lambda exchange: exchange.serve(), which)

    def answer_first(self, **which: Unpack[Which]) -> FaultT:
        """Send the answer before the pushes that the request causes: the wrong way round.

        Args:
            which: The requests that the fault applies to.
        """
        return self._instead(lambda exchange: exchange.serve_answer_first(), which)

    def stale(self, **which: Unpack[Which]) -> FaultT:
        """Answer a write that its hash is stale, whatever the database holds. The client runs its transaction again.

        Args:
            which: The requests that the fault applies to; PUTs, unless a method is given.
        """

        async def effect(exchange: SocketExchange) -> Answer:
            return Reply(412, b"Transaction hash does not match")

        return self._add(effect, Which(method="PUT") | which)

    def reset(self, host: str, **which: Unpack[Which]) -> FaultT:
        """Send the client to another host, in place of an answer. The request has no effect.

        Args:
            host: The other host, as `host:port`.
            which: The requests that the fault applies to; an opening, unless a method is given.
        """
        return self._instead(lambda exchange: exchange.control("r", host), Which(method="OPEN") | which)

    def expire(self, text: str = "Auth token is expired", **which: Unpack[Which]) -> FaultT:
        """Send the message that the client's credential has expired, then handle the request.

        Args:
            text: The reason in the message.
            which: The requests that the fault applies to.
        """
        return self._before(lambda exchange: exchange.expire(text), which)

    def cut(self, **which: Unpack[Which]) -> FaultT:
        """Handle the request, and close the connection in the middle of the answer, which is in segments.

        Args:
            which: The requests that the fault applies to.
        """
        return self._instead(lambda exchange: exchange.cut(), which)

    def freeze(self, **which: Unpack[Which]) -> FaultT:
        """Read and write nothing from this request on, until the emulator's `silence` has passed: a pulled cable.

        Args:
            which: The requests that the fault applies to.
        """
        return self._instead(lambda exchange: exchange.freeze(), which)

    def skew(self, seconds: float, **which: Unpack[Which]) -> FaultT:
        """Put a wrong time into the hello. The client computes its `.info/serverTimeOffset` from it.

        Args:
            seconds: The difference from the right time; a negative one is in the past.
            which: The openings that the fault applies to.
        """
        return self._before(lambda exchange: exchange.skew(round(seconds * 1000)), Which(method="OPEN") | which)

    def _instead(self, act: _Act, which: Which) -> FaultT:
        """Act in place of an answer."""

        async def effect(exchange: SocketExchange) -> Answer:
            act(exchange)
            return NO_ANSWER

        return self._add(effect, which)

    def _before(self, act: _Act, which: Which) -> FaultT:
        """Act, then handle the request."""

        async def effect(exchange: SocketExchange) -> Answer:
            act(exchange)
            return exchange.serve()

        return self._add(effect, which)

    def _add(self, effect: _SocketEffect, which: Which) -> FaultT:
        # With this wire, only requests of sockets fit, and their exchange is a `SocketExchange`.
        return self._make(cast(Effect, effect), which | Which(wire="socket"))
