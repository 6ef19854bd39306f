"""Faults: what a network, an overloaded server or a proxy does to a client, scripted and deterministic.

A fault waits for the requests that fit it, lets the first `nth - 1` of them pass, and applies to the next `times`
(None: to all that follow). Only one fault applies to a request: the oldest that is due. A fault counts its requests in
`hits`. It ends with `remove()`, with its `with` block, or with `Faults.clear()`.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Literal, Self, TypeAlias, TypeVar, Unpack

from rtdb_emulator.http.exchange import Effect, Exchange, Which
from rtdb_emulator.http.matching import Criteria, RequestFacts, check, fits
from rtdb_emulator.http.messages import Answer, Reply, Stream
from rtdb_emulator.http.socket_faults import SocketFaults
from rtdb_emulator.large import writing

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
        await exchange.until(event)
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
        self.sockets = SocketFaults(lambda effect, which: self._add(Fault(self, effect, which)))
        self.interrupt: Callable[[Criteria], None] = lambda criteria: None

    def drop_request(self, **which: Unpack[Which]) -> Fault:
        """Close the connection before the request has any effect.

        Args:
            which: The requests that the fault applies to.
        """

        async def effect(exchange: Exchange) -> None:
            return None

        return self._add(Fault(self, effect, which))

    def drop_reply(self, **which: Unpack[Which]) -> Fault:
        """Handle the request, then close the connection without a reply.

        Args:
            which: The requests that the fault applies to.
        """

        async def effect(exchange: Exchange) -> None:
            exchange.serve()

        return self._add(Fault(self, effect, which))

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
                await exchange.pause(seconds)
                return exchange.serve()
            answer = exchange.serve()
            await exchange.pause(seconds)
            return answer

        return self._add(Fault(self, effect, which))

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
            body = answer.body if answer.shown is None else b"".join(writing(answer.shown))
            return replace(answer, body=body, shown=None, pause=seconds)

        return self._add(Fault(self, effect, which))

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

        return self._add(Fault(self, effect, which))

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

        return self._add(Fault(self, effect, which))

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

    def _add(self, fault: FaultT) -> FaultT:
        with self._lock:
            self._faults.append(fault)
        return fault
