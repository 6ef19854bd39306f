"""One socket: its requests in their order, its way out, and its end.

A connection ends once, for one of these reasons: a close frame, a reset, silence, too many bytes that wait, a client
that is back. Requests that arrived before the end are done before it.

The way out is a queue that any thread may put messages into, and that the event loop empties. A message is queued
inside its commit, so the queue has the order of the commits. A client that reads slowly holds up no other client: bytes
that the system doesn't take wait for it. When there is more to send and more than `MAX_WAITING` bytes still wait, the
client is dropped. So what waits has at most these bytes and the messages of one `flush`, often those of one commit: one
value may be larger than the bound, and a client that reads gets it whole.

Everything here runs on the event loop, except `SendQueue.send`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from asyncio import AbstractEventLoop, Transport
from collections import deque
from collections.abc import Callable, Generator
from itertools import chain
from typing import Final, final

from websockets.frames import Frame, Opcode
from websockets.protocol import OPEN
from websockets.server import ServerProtocol

from rtdb_emulator.http.faults import NO_ANSWER, Ended, Fault, Faults
from rtdb_emulator.http.log import LoggedRequest, RequestFacts, RequestLog
from rtdb_emulator.http.messages import Reply
from rtdb_emulator.steps import has_more, in_slices
from rtdb_emulator.store import Operations
from rtdb_emulator.ws.messages import (
    INSPECT,
    Answer,
    Assembler,
    Broken,
    Message,
    Request,
    control,
    cut,
    expired,
    framed,
    parse,
    refusal,
)
from rtdb_emulator.ws.requests import Asked, ClientRequest, Opening
from rtdb_emulator.ws.session import Session

logger = logging.getLogger("rtdb_emulator")

# Seconds that the requests of one client may take before others get their turn.
_TURN: Final = 0.005
_GONE: Final = None
_STATUSES = {"ok": 200, "permission_denied": 401, "invalid_token": 401, "datastale": 412}
# Bytes that may wait for a client when there is more to send.
MAX_WAITING: Final = 64 * 1024 * 1024
# Seconds that one client may take to answer our close frame.
_CLOSE_GRACE = 2.0


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
        self.output = SendQueue(transport, protocol, loop, self.drop)
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

    def drop(self) -> None:
        """Close the connection at once; its client is gone."""
        self._transport.abort()
        self._end()

    def stop(self) -> None:
        """Close the connection because the emulator stops. The client's onDisconnect writes don't run."""
        self.output.close(1001, "the emulator stops")
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
            self.output.write_frames()
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
        self.output.write_frames()

    def eof_received(self) -> None:
        self._protocol.receive_eof()
        self.output.write_frames()

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
        self.output.flush()
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
                self.output.send(asked.message(asked.do()))
            else:
                self._begin(asked, len(text))
        elif said == "p":
            self.output.send(control("o", {}))

    def _begin(self, asked: Asked, size: int) -> None:
        logged = LoggedRequest(asked.facts, size)
        self._log.add(logged)
        fault = self._faults.take(asked.facts)
        if fault is not None:
            self._held_up = self._loop.create_task(self._apply(fault, asked, logged))
            return
        steps = asked.preparing()
        if has_more(steps):
            self._held_up = self._loop.create_task(self._prepare(steps, asked, logged))
        else:
            self._answer(asked, logged)

    def _answer(self, asked: Asked, logged: LoggedRequest) -> None:
        with asked.without_writes():
            self.output.send(self._answered(asked, logged, asked.do()))
        self._session.settle()

    async def _prepare(self, steps: Generator[None], asked: Asked, logged: LoggedRequest) -> None:
        await in_slices(steps)
        self._held_up = None
        if not self._is_over:
            self._answer(asked, logged)
            self._work()

    async def _apply(self, fault: Fault, asked: Asked, logged: LoggedRequest) -> None:
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
                    await self.output.write_slowly(message.text, reply.pause, self.over)
                else:
                    self.output.send(self._answered(asked, logged, outcome))
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
            self.output.close(broken.code, broken.reason)
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

    def freeze(self) -> None:
        self.output.freeze()
        self._read_if(False)
        self._is_frozen = True


# --- a request under way, as a fault sees it

_WORDS = {401: "permission_denied", 403: "permission_denied", 412: "datastale", 413: "too_big", 503: "unavailable"}


class Exchange:
    """A socket's request under way (`http.faults.SocketExchange`)."""

    def __init__(self, connection: Connection, asked: Asked) -> None:
        self._connection = connection
        self._output = connection.output
        self._asked = asked
        self._served: tuple[Reply, Answer] | None = None
        # The answer that the client has got already.
        self.answered: Answer | None = None

    @property
    def over(self) -> asyncio.Event:
        return self._connection.over

    def serve(self, *, rules_first: bool = False) -> Reply:
        answer = self._asked.do(rules_first=rules_first)
        data = answer.data.encode() if isinstance(answer.data, str) else bytes(answer.data.whole)
        reply = Reply(200, data)
        self._served = reply, answer
        return reply

    def serve_answer_first(self) -> None:
        mark = self._output.mark()
        self.answered = self._asked.do()
        self._output.send_before(mark, self._asked.message(self.answered))

    def control(self, kind: str, data: object) -> None:
        self._output.send(control(kind, data))

    def expire(self, text: str) -> None:
        self._output.send(expired(text))

    def cut(self) -> None:
        self._output.cut(self._asked.message(self._asked.do()))

    def freeze(self) -> None:
        self._connection.freeze()

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


def _error_in(text: str) -> str:
    """Return the text of a REST error."""
    try:
        data = json.loads(text)
    except ValueError:
        return text
    return data["error"] if isinstance(data, dict) and isinstance(data.get("error"), str) else text


# --- the way out


@final
class SendQueue:
    """The way out of one connection. It calls `give_up` when too many bytes wait."""

    __slots__ = (
        "_give_up",
        "_is_frozen",
        "_is_held",
        "_is_woken",
        "_long",
        "_loop",
        "_protocol",
        "_queue",
        "_thread",
        "_transport",
    )  # fmt: skip

    def __init__(
        self, transport: Transport, protocol: ServerProtocol, loop: AbstractEventLoop, give_up: Callable[[], None]
    ) -> None:
        self._transport = transport
        self._protocol = protocol
        self._loop = loop
        self._give_up = give_up
        self._thread = threading.get_ident()
        self._queue: deque[Message] = deque()
        self._is_woken = False
        self._long: asyncio.Task[None] | None = None
        self._is_held = False
        self._is_frozen = False

    def send(self, message: Message) -> None:
        """Queue a message, on any thread. Everything else runs on the event loop."""
        if self._is_frozen:
            return
        self._queue.append(message)
        # If `flush` runs meanwhile, it has either put the flag back, or not yet looked into the queue.
        if not self._is_woken:
            self._is_woken = True
            if threading.get_ident() == self._thread:
                self._loop.call_soon(self.flush)
            else:
                self._loop.call_soon_threadsafe(self.flush)

    def flush(self) -> None:
        """Write the messages that wait."""
        self._is_woken = False
        if self._is_held or self._long is not None or not self._queue:
            return
        wires = []
        while self._queue and not self._queue[0].is_long:
            wires.append(self._queue.popleft().wire)
        if self._is_shut():
            self._queue.clear()
            return
        if wires:
            self._transport.write(wires[0] if len(wires) == 1 else b"".join(wires))
        # Another thread may have queued a message since, which is written by the next call.
        if self._queue and self._queue[0].is_long:
            self._long = self._loop.create_task(self._send_long(self._queue[0]))

    async def _send_long(self, message: Message) -> None:
        """Make and write the next message, which is long. The messages behind it wait."""
        try:
            await in_slices(message.making())
            # A fault may have emptied the queue meanwhile.
            if self._queue and not self._is_shut():
                self._queue.popleft()
                for frames in message.frames():
                    self._transport.write(frames)
                    await asyncio.sleep(0)
                    # A client that reads gets a message of any size, so here nothing depends on how much waits.
                    if self._is_frozen or self._is_closed():
                        break
        except Exception:
            logger.exception("a message that can't be made broke the connection")
            self._give_up()
        self._long = None
        self.flush()

    def _is_closed(self) -> bool:
        return self._protocol.state is not OPEN or self._transport.is_closing()

    def _is_shut(self) -> bool:
        """Whether nothing more can be written. A client that reads nothing is dropped."""
        if self._is_closed():
            return True
        if self._transport.get_write_buffer_size() > MAX_WAITING:
            logger.info("a client that reads nothing is dropped: more than %d bytes wait for it", MAX_WAITING)
            self._give_up()
            return True
        return False

    def write_frames(self) -> None:
        """Write the frames of WebSocket itself: the answer to a handshake, pongs, the close."""
        for data in self._protocol.data_to_send():
            if not data:
                self._transport.close()
            elif not self._is_frozen:
                self._transport.write(data)

    def close(self, code: int, reason: str) -> None:
        """Send a close frame, and give the client a moment to answer it."""
        self.flush()
        if self._protocol.state is OPEN:
            self._protocol.send_close(code, reason)
            self.write_frames()
            self._loop.call_later(_CLOSE_GRACE, self._transport.abort)

    # The rest is for faults.

    def mark(self) -> int:
        """Return the present end of the queue."""
        return len(self._queue)

    def send_before(self, mark: int, message: Message) -> None:
        """Queue a message before all messages that were queued after the mark."""
        self._queue.insert(mark, message)
        self.flush()

    def freeze(self) -> None:
        """Write nothing more at all."""
        self.flush()
        self._is_held = self._is_frozen = True
        self._queue.clear()

    def cut(self, message: Message) -> None:
        """Write a message's count, which is at least 2, and half of its segments; and close the connection."""
        self.flush()
        segments = cut(message.text)[1:]
        if not segments:
            middle = len(message.text) // 2
            segments = [message.text[:middle], message.text[middle:]]
        frames = [str(len(segments)), *segments[: len(segments) // 2]]
        self._transport.write(b"".join(map(framed, frames)))
        self._transport.close()

    async def write_slowly(self, text: str, seconds: float, over: asyncio.Event) -> None:
        """Write a message in segments of one character, with a pause before each."""
        self.flush()
        self._is_held = True
        for frame in chain([str(len(text))], text):
            try:
                await asyncio.wait_for(over.wait(), seconds)
            except TimeoutError:
                self._transport.write(framed(frame))
            else:
                return
        self._is_held = False
        self.flush()
