"""Faults: what a network, an overloaded server or a proxy does to a client, scripted and deterministic.

A fault waits for the requests that fit it, lets the first `nth - 1` of them pass, and applies to the next `times`
(None: to all that follow). Only one fault applies to a request: the oldest that is due. A fault counts its requests in
`hits`. It ends with `remove()`, with its `with` block, or with `Faults.clear()`.

`Faults` has those for requests over HTTP and over sockets, `SocketFaults` those that only a socket can have.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Final, Literal, Protocol, Self, TypeAlias, TypeVar, Unpack, cast

from rtdb_emulator.http.log import Criteria, RequestFacts, check, fits
from rtdb_emulator.http.messages import Answer, Reply
from rtdb_emulator.http.sse import Stream

# --- a request under way, over HTTP or a socket, as a fault sees it


class Which(Criteria, total=False):
    """The requests that a fault applies to.

    The criteria say which requests fit. `nth` is the first of those that the fault applies to, and `times` how many.
    """

    nth: int
    times: int | None


class Ended(Exception):
    """A request is over while a fault holds it up: it has no effect then."""


class Exchange(Protocol):
    """One request under way, as a fault sees it."""

    @property
    def over(self) -> asyncio.Event:
        """Set when the emulator stops, or the client is gone."""

    def serve(self, *, rules_first: bool = False) -> Answer:
        """Let the database handle the request, and return its answer."""


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


# --- faults

Moment: TypeAlias = Literal["before", "after"]

PORTAL_PAGE = b"<!doctype html><title>Sign in to the network</title>\xff\x00"
FAULT_BODY = b'{\n  "error" : "scripted fault"\n}\n'


_KNOWN = frozenset({*Criteria.__annotations__, *Which.__annotations__})


class Fault:
    """A fault that waits for its requests, made by `Faults`. `hits` is the number of requests that it was applied to.

    The end of a `with` block removes the fault.
    """

    def __init__(self, faults: Faults, effect: Effect, which: Which) -> None:
        check(which, _KNOWN)
        self._faults = faults
        self._criteria: Criteria = which
        self.effect = effect
        self._to_pass = which.get("nth", 1) - 1
        self._left = which.get("times", 1)
        self.hits = 0
        if self._to_pass < 0 or (self._left is not None and self._left < 1):
            raise ValueError(f"nth and times count from 1, not {which}")

    def take(self, request: RequestFacts) -> bool:
        """Return whether the fault applies to this request, and count the request if so."""
        if self._left == 0 or not fits(self._criteria, request):
            return False
        if self._to_pass:
            self._to_pass -= 1
            return False
        if self._left is not None:
            self._left -= 1
        self.hits += 1
        return True

    def remove(self) -> None:
        """Apply to no more requests."""
        self._faults.discard(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.remove()


FaultT = TypeVar("FaultT", bound=Fault)


class Hold(Fault):
    """A fault that stops requests until the test releases them. So a test needs no sleep."""

    def __init__(self, faults: Faults, moment: Moment, which: Which) -> None:
        super().__init__(faults, self._hold, which)
        self._moment = moment
        self._reached = threading.Event()
        self._lock = threading.Lock()
        self._released = False
        self._held: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def wait(self, timeout: float = 10.0) -> None:
        """Return once a request is held. Raises TimeoutError if none comes.

        Args:
            timeout: The seconds to wait.
        """
        if not self._reached.wait(timeout):
            raise TimeoutError(f"no request reached the hold within {timeout} s; it waits for {self._criteria}")

    @property
    def has_reached(self) -> bool:
        """Whether a request was held so far."""
        return self._reached.is_set()

    def release(self) -> None:
        """Let the held requests go on, and let later ones pass."""
        with self._lock:
            self._released = True
            held, self._held = self._held, []
        for loop, event in held:
            # The loop may have ended with the emulator, and the held request with it.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(event.set)

    def remove(self) -> None:
        self.release()
        super().remove()

    async def _hold(self, exchange: Exchange) -> Answer:
        answer = exchange.serve() if self._moment == "after" else None
        event = asyncio.Event()
        with self._lock:
            if self._released:
                event.set()
            self._held.append((asyncio.get_running_loop(), event))
        self._reached.set()
        await _until(exchange, event)
        return exchange.serve() if answer is None else answer


class Faults:
    """The faults of one emulator, for requests over HTTP and over sockets; call it from any thread.

    Each method takes the same keywords for the requests that its fault applies to: `method`, `path` (decoded and
    without `.json`; wildcards as in "/cron-locks/*"), `namespace`, `header` (name and value; a socket has the headers
    of its handshake), `port`, `wire` ("http" or "socket"), `nth` and `times`. Without any, a fault applies to the next
    request. `sockets` has the faults that only sockets can have.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self.sockets = SocketFaults(self._make)
        self.interrupt: Callable[[Criteria], None] = lambda criteria: None

    def drop_request(self, **which: Unpack[Which]) -> Fault:
        """Close the connection before the request has any effect.

        Args:
            which: The requests that the fault applies to.
        """

        async def effect(exchange: Exchange) -> None:
            return None

        return self._make(effect, which)

    def drop_reply(self, **which: Unpack[Which]) -> Fault:
        """Handle the request, then close the connection without a reply.

        Args:
            which: The requests that the fault applies to.
        """

        async def effect(exchange: Exchange) -> None:
            exchange.serve()

        return self._make(effect, which)

    def delay(self, seconds: float, *, moment: Moment = "before", **which: Unpack[Which]) -> Fault:
        """Wait before the request is handled, or before the reply is sent.

        The request takes effect, even if the client has given up by then.

        Args:
            seconds: The seconds to wait.
            moment: "before" the request is handled, or "after" that and before the reply.
            which: The requests that the fault applies to.
        """

        async def effect(exchange: Exchange) -> Answer:
            if moment == "before":
                await _pause(exchange, seconds)
                return exchange.serve()
            answer = exchange.serve()
            await _pause(exchange, seconds)
            return answer

        return self._make(effect, which)

    def hold(self, *, moment: Moment = "before", **which: Unpack[Which]) -> Hold:
        """Stop the request until `release()`.

        Args:
            moment: "before" the request is handled, or "after" that and before the reply.
            which: The requests that the fault applies to.
        """
        return self._add(Hold(self, moment, which))

    def drip(self, seconds: float, **which: Unpack[Which]) -> Fault:
        """Handle the request, and send the reply's body byte by byte, over a socket in frames of one character.

        Streams are sent as usual.

        Args:
            seconds: The pause before each byte.
            which: The requests that the fault applies to.
        """

        async def effect(exchange: Exchange) -> Answer:
            answer = exchange.serve()
            if isinstance(answer, Stream):
                return answer
            body = answer.body if answer.long is None else bytes(answer.long.whole)
            return replace(answer, body=body, long=None, pause=seconds)

        return self._make(effect, which)

    def answer(
        self,
        status: int,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = FAULT_BODY,
        applied: bool = False,
        **which: Unpack[Which],
    ) -> Fault:
        """Reply in place of the database: a 401, a 429 with `{"Retry-After": "3600"}`, a 500, a 503, anything.

        Args:
            status: The status code.
            headers: The reply's headers.
            body: The reply's body.
            applied: Handle the request first, as if a proxy had lost the reply and made one up.
            which: The requests that the fault applies to.
        """

        async def effect(exchange: Exchange) -> Answer:
            if applied:
                exchange.serve()
            return Reply(status, body, headers or {})

        return self._make(effect, which)

    def garbage(self, *, applied: bool = False, **which: Unpack[Which]) -> Fault:
        """Reply 200 with a page instead of JSON, as a captive portal does.

        Args:
            applied: Handle the request first.
            which: The requests that the fault applies to.
        """
        return self.answer(200, body=PORTAL_PAGE, applied=applied, **which)

    def rules_first(self, **which: Unpack[Which]) -> Fault:
        """Evaluate the rules of a conditional write before its ETag is compared: a stale write may get 401, not 412.

        Args:
            which: The requests that the fault applies to.
        """

        async def effect(exchange: Exchange) -> Answer:
            return exchange.serve(rules_first=True)

        return self._make(effect, which)

    def cut_off(self, *, header: tuple[str, str] | None = None, port: int | None = None) -> Fault:
        """Cut one client off until `remove()`: close its connections, streams too, and every later one.

        Give either a header that the client sends, or a port of its own (`Emulator.add_port`).

        Args:
            header: The header's name and value.
            port: The client's port.
        """
        which: Which = {"times": None}
        if header is not None:
            which["header"] = header
        if port is not None:
            which["port"] = port
        if len(which) != 2:
            raise ValueError("cut_off needs either a header or a port, to know the client by")
        fault = self.drop_request(**which)
        self.interrupt(which)
        return fault

    def clear(self) -> None:
        """Remove all faults; held requests go on."""
        with self._lock:
            faults = list(self._faults)
        for fault in faults:
            fault.remove()

    def __contains__(self, fault: Fault) -> bool:
        """Return whether nobody has removed this fault."""
        with self._lock:
            return any(other is fault for other in self._faults)

    def take(self, request: RequestFacts) -> Fault | None:
        """Return the fault that applies to this request, if any."""
        with self._lock:
            return next((fault for fault in self._faults if fault.take(request)), None)

    def discard(self, fault: Fault) -> None:
        with self._lock:
            self._faults = [other for other in self._faults if other is not fault]

    def _make(self, effect: Effect, which: Which) -> Fault:
        return self._add(Fault(self, effect, which))

    def _add(self, fault: FaultT) -> FaultT:
        with self._lock:
            self._faults.append(fault)
        return fault


async def _pause(exchange: Exchange, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(exchange.over.wait(), seconds)
    _check_not_over(exchange)


async def _until(exchange: Exchange, event: asyncio.Event) -> None:
    waits = [asyncio.ensure_future(either.wait()) for either in (event, exchange.over)]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
    _check_not_over(exchange)


def _check_not_over(exchange: Exchange) -> None:
    if exchange.over.is_set():
        raise Ended


# --- faults that only a socket can have

_Act: TypeAlias = Callable[[SocketExchange], object]
_SocketEffect: TypeAlias = Callable[[SocketExchange], Awaitable[Answer | None]]


class SocketFaults:
    """The faults of an emulator's sockets. Each method takes the keywords of `Faults` for its requests.

    A socket's opening is a request with the method "OPEN", and the hello is its answer. The others are
    "LISTEN", "UNLISTEN", "GET", "PUT", "PATCH" and "ONDISCONNECT", and "AUTH", "GAUTH" and so on for actions without a
    path.
    """

    def __init__(self, add: Callable[[Effect, Which], Fault]) -> None:
        self._make = add

    def swallow(self, **which: Unpack[Which]) -> Fault:
        """Handle the request, and never answer it; the connection stays open.

        Args:
            which: The requests that the fault applies to.
        """
        return self._instead(lambda exchange: exchange.serve(), which)

    def answer_first(self, **which: Unpack[Which]) -> Fault:
        """Send the answer before the pushes that the request causes: the wrong way round.

        Args:
            which: The requests that the fault applies to.
        """
        return self._instead(lambda exchange: exchange.serve_answer_first(), which)

    def stale(self, **which: Unpack[Which]) -> Fault:
        """Answer a write that its hash is stale, whatever the database holds. The client runs its transaction again.

        Args:
            which: The requests that the fault applies to; PUTs, unless a method is given.
        """

        async def effect(exchange: SocketExchange) -> Answer:
            return Reply(412, b"Transaction hash does not match")

        return self._add(effect, Which(method="PUT") | which)

    def reset(self, host: str, **which: Unpack[Which]) -> Fault:
        """Send the client to another host, in place of an answer. The request has no effect.

        Args:
            host: The other host, as `host:port`.
            which: The requests that the fault applies to; an opening, unless a method is given.
        """
        return self._instead(lambda exchange: exchange.control("r", host), Which(method="OPEN") | which)

    def expire(self, text: str = "Auth token is expired", **which: Unpack[Which]) -> Fault:
        """Send the message that the client's credential has expired, then handle the request.

        Args:
            text: The reason in the message.
            which: The requests that the fault applies to.
        """
        return self._before(lambda exchange: exchange.expire(text), which)

    def cut(self, **which: Unpack[Which]) -> Fault:
        """Handle the request, and close the connection in the middle of the answer, which is in segments.

        Args:
            which: The requests that the fault applies to.
        """
        return self._instead(lambda exchange: exchange.cut(), which)

    def freeze(self, **which: Unpack[Which]) -> Fault:
        """Read and write nothing from this request on, until the emulator's `silence` has passed: a pulled cable.

        Args:
            which: The requests that the fault applies to.
        """
        return self._instead(lambda exchange: exchange.freeze(), which)

    def skew(self, seconds: float, **which: Unpack[Which]) -> Fault:
        """Put a wrong time into the hello. The client computes its `.info/serverTimeOffset` from it.

        Args:
            seconds: The difference from the right time; a negative one is in the past.
            which: The openings that the fault applies to.
        """
        return self._before(lambda exchange: exchange.skew(round(seconds * 1000)), Which(method="OPEN") | which)

    def _instead(self, act: _Act, which: Which) -> Fault:
        """Act in place of an answer."""

        async def effect(exchange: SocketExchange) -> Answer:
            act(exchange)
            return NO_ANSWER

        return self._add(effect, which)

    def _before(self, act: _Act, which: Which) -> Fault:
        """Act, then handle the request."""

        async def effect(exchange: SocketExchange) -> Answer:
            act(exchange)
            return exchange.serve()

        return self._add(effect, which)

    def _add(self, effect: _SocketEffect, which: Which) -> Fault:
        # With this wire, only requests of sockets fit, and their exchange is a `SocketExchange`.
        return self._make(cast(Effect, effect), which | Which(wire="socket"))
