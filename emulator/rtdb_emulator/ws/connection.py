"""One socket: its requests in their order, and its end.

A connection ends once, for one of these reasons: a close frame, a reset, silence, too many bytes that wait, a client
that is back. Requests that arrived before the end are done before it. Everything here runs on the event loop, except
`send`.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import AbstractEventLoop, Transport
from collections import deque
from collections.abc import Callable, Generator
from typing import Final

from websockets.frames import Frame, Opcode
from websockets.protocol import OPEN
from websockets.server import ServerProtocol

from rtdb_emulator.http.faults import NO_ANSWER, Ended, Fault, Faults
from rtdb_emulator.http.log import LoggedRequest, RequestFacts, RequestLog
from rtdb_emulator.http.messages import Reply
from rtdb_emulator.steps import has_more, in_slices
from rtdb_emulator.store import Operations
from rtdb_emulator.ws.exchange import Asked, ClientRequest, Exchange, Opening
from rtdb_emulator.ws.messages import INSPECT, Answer, Assembler, Broken, Message, Request, control, framed, parse
from rtdb_emulator.ws.outlet import Outlet
from rtdb_emulator.ws.session import Session

logger = logging.getLogger("rtdb_emulator")

# Seconds that the requests of one client may take before others get their turn.
_TURN: Final = 0.005
_GONE: Final = None
_STATUSES = {"ok": 200, "permission_denied": 401, "invalid_token": 401, "datastale": 412}


class Connection(asyncio.Protocol):
    """A socket whose handshake is done. When its client is gone, `ended` gets the steps of its session's end."""

    def __init__(
        self,
        transport: Transport,
        protocol: ServerProtocol,
        loop: AbstractEventLoop,
        *,
        log: RequestLog,
        faults: Faults,
        operations: Operations,
        silence: float,
        ended: Callable[[Generator[None]], None],
    ) -> None:
        self._transport = transport
        self._protocol = protocol
        self._loop = loop
        self._log = log
        self._faults = faults
        self._operations = operations
        self._silence = silence
        self._ended = ended
        self._outlet = Outlet(transport, protocol, loop, self.drop)
        self._assembler = Assembler()
        self._fragments: bytearray | None = None
        # The work to do: requests, and at the end the client's leave.
        self._inbox: deque[str | Broken | None] = deque()
        self._held_up: asyncio.Task[None] | None = None
        self._over: asyncio.Event | None = None
        self._is_paused = False
        self._is_frozen = False
        self._is_over = False
        self._heard = loop.time()
        self._timer = loop.call_later(silence, self._check_silence)

    def open(self, session: Session, opening: Opening) -> None:
        """Begin to serve: the server speaks first."""
        self.facts: RequestFacts = opening.facts
        self._session = session
        self._begin(opening, opening.size)

    def send(self, message: Message) -> None:
        """Queue a message. Any thread may call this."""
        self._outlet.send(message)

    def drop(self) -> None:
        """Close the connection at once; its client is gone."""
        self._transport.abort()
        self._end()

    def stop(self) -> None:
        """Close the connection because the emulator stops. The client's onDisconnect writes don't run."""
        self._outlet.close(1001, "the emulator stops")
        self._end(writes=False)
        # The loop ends before the client answers, and bytes that the client doesn't read would keep the socket open.
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self._transport.abort()

    # asyncio calls these four.

    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        self._protocol.receive_data(data)
        events = self._protocol.events_received()
        if self._is_over:
            self._outlet.write_frames()
            return
        try:
            for event in events:
                if isinstance(event, Frame):
                    self._take(event)
        except Broken as broken:
            self._inbox.append(broken)
        if self._protocol.state is not OPEN:
            self._inbox.append(_GONE)
        self._work()
        self._outlet.write_frames()

    def eof_received(self) -> None:
        self._protocol.receive_eof()
        self._outlet.write_frames()

    def connection_lost(self, exc: Exception | None) -> None:
        self._inbox.append(_GONE)
        self._work()

    def _take(self, frame: Frame) -> None:
        """Take one frame of the client. Raises Broken."""
        if frame.opcode is Opcode.BINARY:
            raise Broken(1003, "a frame is a text")
        if frame.opcode not in (Opcode.TEXT, Opcode.CONT):
            return
        data = bytes(frame.data)
        if self._fragments is not None or not frame.fin:
            self._fragments = self._fragments or bytearray()
            self._fragments += data
            if not frame.fin:
                return
            data, self._fragments = bytes(self._fragments), None
        try:
            message = self._assembler.feed(data.decode())
        except UnicodeDecodeError:
            raise Broken(1007, "a frame is UTF-8") from None
        if message is not None:
            self._inbox.append(message)

    def _work(self) -> None:
        """Do the client's requests in their order, until others get their turn, or a fault holds a request up."""
        if self._is_frozen:
            return
        until = self._loop.time() + _TURN
        while self._inbox and self._held_up is None and not self._is_over:
            item = self._inbox.popleft()
            if isinstance(item, str):
                self._do(item)
            else:
                self._refuse(item)
            if self._loop.time() > until:
                break
        self._outlet.flush()
        if self._is_over:
            return
        if self._inbox and self._held_up is None:
            self._loop.call_soon(self._work)
        self._read_if(not self._inbox)

    def _read_if(self, wanted: bool) -> None:
        """Read on, or stop reading: so the inbox holds no more than one read's requests."""
        if wanted is self._is_paused and not self._is_frozen and not self._transport.is_closing():
            self._is_paused = not wanted
            if wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _do(self, text: str) -> None:
        try:
            said = parse(text)
        except Broken as broken:
            self._refuse(broken)
            return
        if isinstance(said, Request):
            asked = ClientRequest(self._session, said, self.facts)
            if said.action == INSPECT:  # the page's own requests are not in the log, and no fault applies to them
                self.send(asked.message(asked.do()))
            else:
                self._begin(asked, len(text))
        elif said.kind == "p":
            self.send(control("o", {}))

    def _begin(self, asked: Asked, size: int) -> None:
        logged = LoggedRequest(asked.facts, size)
        self._log.add(logged)
        fault = self._faults.take(asked.facts)
        if fault is not None:
            self._held_up = self._loop.create_task(self._befall(fault, asked, logged))
            return
        steps = asked.preparing()
        if has_more(steps):
            self._held_up = self._loop.create_task(self._prepare(steps, asked, logged))
        else:
            self._answer(asked, logged)

    def _answer(self, asked: Asked, logged: LoggedRequest) -> None:
        with asked.undisturbed():
            self.send(self._answered(asked, logged, asked.do()))
        self._session.settle()

    async def _prepare(self, steps: Generator[None], asked: Asked, logged: LoggedRequest) -> None:
        await in_slices(steps)
        self._held_up = None
        if not self._is_over:
            self._answer(asked, logged)
            self._work()

    async def _befall(self, fault: Fault, asked: Asked, logged: LoggedRequest) -> None:
        exchange = Exchange(self, asked)
        try:
            reply = await fault.effect(exchange)
            if reply is None:
                self._note(asked, None)
                self.drop()
            elif reply is NO_ANSWER:
                if exchange.answered is None:
                    self._note(asked, None)
                else:
                    self._answered(asked, logged, exchange.answered)
            elif isinstance(reply, Reply):
                outcome = exchange.outcome(reply)
                if isinstance(outcome, str):
                    self._note(asked, None)
                    self._transport.write(framed(outcome))
                elif isinstance(asked, Opening) and outcome.status != "ok":
                    self._refuse(Broken(1013, outcome.status))
                elif reply.pause:
                    message = self._answered(asked, logged, outcome)
                    await self._outlet.write_slowly(message.text, reply.pause, self.over)
                else:
                    self.send(self._answered(asked, logged, outcome))
        except Ended:
            pass  # no client waits for the answer
        except Exception:
            logger.exception("a fault broke the emulator")
            self.drop()
        self._held_up = None
        self._session.settle()
        self._work()

    def _answered(self, asked: Asked, logged: LoggedRequest, answer: Answer) -> Message:
        """Return the message of an answer, after the answer is in the log and on the emulator's page."""
        message = asked.message(answer)
        self._note(asked, answer)
        logged.status = _STATUSES.get(answer.status, 400)
        if message.is_long:
            message.on_made = lambda size: setattr(logged, "response_bytes", size)
        else:
            logged.response_bytes = len(message.text)
        return message

    def _note(self, asked: Asked, answer: Answer | None) -> None:
        if account := asked.account(answer):
            self._operations.add(account)

    def _refuse(self, broken: Broken | None) -> None:
        """End the connection: the client is gone, or has sent something that is not a message."""
        if broken is not None:
            self._outlet.close(broken.code, broken.reason)
        self._end()

    def _check_silence(self) -> None:
        left = self._heard + self._silence - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._check_silence)
        else:
            logger.info("a client was silent for %g s and is taken for gone", self._silence)
            self.drop()

    def _end(self, *, writes: bool = True) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._timer.cancel()
        self._inbox.clear()
        if self._over is not None:
            self._over.set()
        self._ended(self._session.ending(writes=writes))

    # The rest is for faults.

    @property
    def over(self) -> asyncio.Event:
        """Set at the end of this connection."""
        if self._over is None:
            self._over = asyncio.Event()
            if self._is_over:
                self._over.set()
        return self._over

    def mark(self) -> int:
        return self._outlet.mark()

    def send_before(self, mark: int, message: Message) -> None:
        self._outlet.send_before(mark, message)

    def cut(self, message: Message) -> None:
        self._outlet.write_half(message)
        self._transport.close()

    def freeze(self) -> None:
        self._outlet.freeze()
        self._read_if(False)
        self._is_frozen = True
