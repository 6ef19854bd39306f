"""Faults on request: what a network, an overloaded server or a proxy does to a client, scripted and deterministic.

A fault waits for the requests that fit it, lets the first `nth - 1` of them pass, and befalls the next `times` (None:
all that follow). One fault befalls a request: the oldest that is due. A fault counts what it has befallen in `hits`,
and is over after `remove()`, at the end of its `with` block, or with `Faults.clear()`.
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
    """A fault that waits for its requests, made by `Faults`; `hits` is how many it has befallen. `with` ends it."""

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
        """Whether the fault befalls this request; counted if so."""
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
        """Befall nothing more."""
        self._faults.discard(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.remove()


FaultT = TypeVar("FaultT", bound=Fault)


class Hold(Fault):
    """A fault that stops requests until the test lets them go on: no sleeping, no guessing."""

    def __init__(self, faults: Faults, moment: Moment, which: Which) -> None:
        super().__init__(faults, self._hold, which)
        self._moment = moment
        self._reached = threading.Event()
        self._lock = threading.Lock()
        self._released = False
        self._held: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def wait(self, timeout: float = 10.0) -> None:
        """Return once a request is held; TimeoutError if none comes.

        Args:
            timeout: How many seconds to wait.
        """
        if not self._reached.wait(timeout):
            raise TimeoutError(f"no request reached the hold within {timeout} s; it waits for {self._criteria}")

    @property
    def has_reached(self) -> bool:
        """Whether a request was held."""
        return self._reached.is_set()

    def release(self) -> None:
        """Let go on what is held, and let pass what comes later."""
        with self._lock:
            self._released = True
            held, self._held = self._held, []
        for loop, event in held:
            with contextlib.suppress(RuntimeError):  # the loop has ended with the emulator, and what was held with it
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

    Which requests are meant is said everywhere in the same words: `method`, `path` (decoded and without `.json`;
    wildcards as in "/cron-locks/*"), `namespace`, `header` (name and value; a socket's are those of its handshake),
    `port`, `wire` ("http" or "socket"), `nth` and `times`. None of them: the next request. What only a socket can have
    is in `sockets`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self.sockets = SocketFaults(lambda effect, which: self._add(Fault(self, effect, which)))
        self.interrupt: Callable[[Criteria], None] = lambda criteria: None

    def drop_request(self, **which: Unpack[Which]) -> Fault:
        """Close the connection before anything is done.

        Args:
            which: The requests that are meant.
        """

        async def effect(exchange: Exchange) -> None:
            return None

        return self._add(Fault(self, effect, which))

    def drop_reply(self, **which: Unpack[Which]) -> Fault:
        """Do what is asked, then close the connection without a reply.

        Args:
            which: The requests that are meant.
        """

        async def effect(exchange: Exchange) -> None:
            exchange.serve()

        return self._add(Fault(self, effect, which))

    def delay(self, seconds: float, *, moment: Moment = "before", **which: Unpack[Which]) -> Fault:
        """Wait before it is done (also when the client has given up by then), or after, before the reply.

        Args:
            seconds: How long.
            moment: Before what is asked is done, or after, before the reply.
            which: The requests that are meant.
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
            moment: Before what is asked is done, or after, before the reply.
            which: The requests that are meant.
        """
        return self._add(Hold(self, moment, which))

    def drip(self, seconds: float, **which: Unpack[Which]) -> Fault:
        """Do what is asked, and send the reply's body byte by byte (over a socket: in frames of one character); streams
        are spared.

        Args:
            seconds: The pause before each byte.
            which: The requests that are meant.
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
        """Answer this in the database's place: a 401, a 429 with `{"Retry-After": "3600"}`, a 500, a 503, anything.

        Args:
            status: The status code.
            headers: The answer's headers.
            body: The body.
            applied: Do what is asked first, as when a proxy loses the reply and makes one up.
            which: The requests that are meant.
        """

        async def effect(exchange: Exchange) -> Answer:
            if applied:
                exchange.serve()
            return Reply(status, body, headers or {})

        return self._add(Fault(self, effect, which))

    def garbage(self, *, applied: bool = False, **which: Unpack[Which]) -> Fault:
        """Answer 200 with what is no JSON, as a captive portal does.

        Args:
            applied: Do what is asked first.
            which: The requests that are meant.
        """
        return self.answer(200, body=PORTAL_PAGE, applied=applied, **which)

    def rules_first(self, **which: Unpack[Which]) -> Fault:
        """Ask the rules about a conditional write before its ETag is compared: a stale one may be 401, not 412."""

        async def effect(exchange: Exchange) -> Answer:
            return exchange.serve(rules_first=True)

        return self._add(Fault(self, effect, which))

    def cut_off(self, *, header: tuple[str, str] | None = None, port: int | None = None) -> Fault:
        """Cut one client off until `remove()`: what it has under way, streams too, and all that it asks later.

        The client is known by a header that it sends, or by a port of its own (`Emulator.add_port`).

        Args:
            header: The header's name and value.
            port: The port.
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
        """No faults any more; what is held goes on."""
        with self._lock:
            faults = list(self._faults)
        for fault in faults:
            fault.remove()

    def take(self, request: RequestFacts) -> Fault | None:
        """The fault that befalls this request."""
        with self._lock:
            return next((fault for fault in self._faults if fault.take(request)), None)

    def discard(self, fault: Fault) -> None:
        with self._lock:
            self._faults = [other for other in self._faults if other is not fault]

    def _add(self, fault: FaultT) -> FaultT:
        with self._lock:
            self._faults.append(fault)
        return fault
