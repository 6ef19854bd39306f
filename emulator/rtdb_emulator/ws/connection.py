"""One socket: frames in, frames out, and its end.

Everything but `send` runs on the event loop. `send` is called in a commit, on whatever thread that is: it puts the
message into a queue and wakes the loop. So the queue has the order of the commits, and a client that reads slowly holds
up nobody: one for which too much waits is dropped.

A connection ends once, whatever ends it: a close frame, a reset, silence, too much that waits, a client that is back.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from asyncio import AbstractEventLoop, Transport
from collections import deque
from collections.abc import Callable
from typing import Final

from websockets.frames import Frame, Opcode
from websockets.server import ServerProtocol

from rtdb_emulator.http.log import LoggedRequest, RequestLog
from rtdb_emulator.http.matching import RequestFacts
from rtdb_emulator.ws.messages import Answer, Control, Request, answered, control, hello, parse, refusal
from rtdb_emulator.ws.segments import Assembler, Broken, Message
from rtdb_emulator.ws.session import Session

logger = logging.getLogger("rtdb_emulator")

# Bytes that may wait for a client that doesn't read.
MAX_WAITING: Final = 64 * 1024 * 1024
# Seconds that one client's requests may take before it is others' turn.
_TURN = 0.005
# Seconds that a client may take to answer our close frame.
_CLOSE_GRACE = 2.0

_GONE = None
_METHODS = {"q": "LISTEN", "n": "UNLISTEN", "g": "GET", "p": "PUT", "m": "PATCH"} | dict.fromkeys(
    ("o", "om", "oc"), "ONDISCONNECT"
)
_STATUSES = {"ok": 200, "permission_denied": 401, "invalid_token": 401, "datastale": 412}


class Connection(asyncio.Protocol):
    """A socket whose handshake is done."""

    def __init__(
        self,
        ended: Callable[[], None],
        name: str,
        facts: RequestFacts,
        transport: Transport,
        protocol: ServerProtocol,
        loop: AbstractEventLoop,
        log: RequestLog,
        silence: float,
    ) -> None:
        self.facts = facts
        self._ended = ended
        self._name = name
        self._transport = transport
        self._protocol = protocol
        self._loop = loop
        self._log = log
        self._silence = silence
        self._thread = threading.get_ident()
        self._assembler = Assembler()
        self._fragments: bytearray | None = None
        # Messages to do, and at the end that the client is gone.
        self._inbox: deque[str | None] = deque()
        self._outbox: deque[Message] = deque()
        self._is_woken = False
        self._is_paused = False
        self._is_over = False
        self._heard = loop.time()
        self._timer = loop.call_later(silence, self._check_silence)

    def open(self, session: Session, now: int, host: str) -> None:
        """Begin to serve: the server speaks first."""
        self._session = session
        self.send(hello(now, host, self._name))

    def send(self, message: Message) -> None:
        """Queue a message, on any thread."""
        self._outbox.append(message)
        if not self._is_woken:
            self._is_woken = True
            if threading.get_ident() == self._thread:
                self._loop.call_soon(self._flush)
            else:
                self._loop.call_soon_threadsafe(self._flush)

    def drop(self) -> None:
        """Close the connection at once; its client is gone."""
        self._transport.abort()
        self._end()

    def stop(self) -> None:
        """The emulator ends: say so, and write nothing for the client."""
        self._flush()
        self._end(writes=False)
        self._close(1001, "the emulator stops")

    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        self._protocol.receive_data(data)
        events = self._protocol.events_received()
        try:
            for event in events if not self._is_over else ():
                if isinstance(event, Frame):
                    self._take(event)
        except Broken as broken:
            self._inbox.append(_GONE)
            self._close(broken.code, broken.reason)
        self._write_frames()
        if self._protocol.parser_exc is not None:
            self._inbox.append(_GONE)
        self._work()

    def eof_received(self) -> None:
        self._protocol.receive_eof()
        self._write_frames()

    def connection_lost(self, exc: Exception | None) -> None:
        self._inbox.append(_GONE)
        self._work()

    def _take(self, frame: Frame) -> None:
        """One frame of the client's. Raises Broken."""
        if frame.opcode is Opcode.CLOSE:
            self._inbox.append(_GONE)
        if frame.opcode is Opcode.BINARY:
            raise Broken(1003, "frames are texts")
        if frame.opcode not in (Opcode.TEXT, Opcode.CONT):
            return
        data = frame.data
        if frame.opcode is Opcode.CONT or not frame.fin:
            self._fragments = self._fragments or bytearray()
            self._fragments += data
            if not frame.fin:
                return
            data, self._fragments = bytes(self._fragments), None
        try:
            text = str(data, "utf-8")
        except UnicodeDecodeError:
            raise Broken(1007, "a frame is UTF-8") from None
        message = self._assembler.feed(text)
        if message is not None:
            self._inbox.append(message)

    def _work(self) -> None:
        """Do what the client has asked, in its order, until it is others' turn."""
        until = self._loop.time() + _TURN
        while self._inbox and not self._is_over:
            message = self._inbox.popleft()
            if message is _GONE:
                self._end()
                break
            self._do(message)
            if self._loop.time() > until:
                break
        self._flush()
        self._wait_for_work()

    def _wait_for_work(self) -> None:
        if self._is_over:
            return
        if self._inbox:
            self._loop.call_soon(self._work)
        if bool(self._inbox) != self._is_paused and not self._transport.is_closing():
            self._is_paused = bool(self._inbox)
            if self._is_paused:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _do(self, text: str) -> None:
        try:
            asked = parse(text)
        except Broken as broken:
            self._inbox.clear()
            self._inbox.append(_GONE)
            self._close(broken.code, broken.reason)
            return
        if isinstance(asked, Control):
            if asked.kind == "p":
                self.send(control("o", {}))
            return
        logged = LoggedRequest(self._facts(asked), len(text))
        self._log.add(logged)
        self._answer(asked, logged, self._serve(asked))

    def _serve(self, request: Request) -> Answer:
        try:
            return self._session.handle(request)
        except Exception:
            logger.exception("%s over WebSocket broke the emulator", request.action)
            return refusal("error", "Internal Server Error: see the emulator's log")

    def _answer(self, request: Request, logged: LoggedRequest, answer: Answer) -> None:
        message = answered(request.number, answer)
        logged.status = _STATUSES.get(answer.status, 400)
        logged.response_bytes = len(message.text)
        self.send(message)
        self._session.settle()

    def _facts(self, request: Request) -> RequestFacts:
        path = request.body.get("p")
        return RequestFacts(
            _METHODS.get(request.action, request.action.upper()),
            "/" + "/".join(filter(None, path.split("/"))) if isinstance(path, str) else "/",
            self.facts.namespace,
            self.facts.parameters,
            self.facts.headers,
            self.facts.port,
        )

    def _flush(self) -> None:
        self._is_woken = False
        wires = []
        while self._outbox:
            wires.append(self._outbox.popleft().wire)
        if not wires or self._is_over:
            return
        if self._transport.get_write_buffer_size() > MAX_WAITING:
            logger.info("a client that reads nothing is dropped: more than %d bytes wait for it", MAX_WAITING)
            self.drop()
            return
        self._transport.write(wires[0] if len(wires) == 1 else b"".join(wires))

    def _write_frames(self) -> None:
        """Write what the protocol itself has to say: pongs, and the end."""
        for data in self._protocol.data_to_send():
            if data:
                self._transport.write(data)
            else:
                self._transport.close()

    def _close(self, code: int, reason: str) -> None:
        self._flush()
        if self._protocol.state.name == "OPEN":
            self._protocol.send_close(code, reason)
            self._write_frames()
            self._loop.call_later(_CLOSE_GRACE, self._transport.abort)

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
        self._ended()
        self._session.end(writes=writes)
