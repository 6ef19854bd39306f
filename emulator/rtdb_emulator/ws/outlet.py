"""The way out of a socket: a queue that any thread may put messages into, and that the event loop empties.

A message is queued inside its commit, so the queue has the order of the commits. A client that reads slowly holds up no
other client: bytes that the system doesn't take wait for it. When there is more to send and more than `MAX_WAITING`
bytes still wait, the client is dropped. So what waits has at most these bytes and the messages of one `flush`, often
those of one commit: one value may be larger than the bound, and a client that reads gets it whole.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from asyncio import AbstractEventLoop, Transport
from collections import deque
from collections.abc import Callable
from itertools import chain
from typing import Final, final

from websockets.protocol import OPEN
from websockets.server import ServerProtocol

from rtdb_emulator.steps import in_slices
from rtdb_emulator.ws.messages import Message, cut, framed

logger = logging.getLogger("rtdb_emulator")

# Bytes that may wait for a client when there is more to send.
MAX_WAITING: Final = 64 * 1024 * 1024
# Seconds that one client may take to answer our close frame.
_CLOSE_GRACE = 2.0


@final
class Outlet:
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

    def write_half(self, message: Message) -> None:
        """Write a message's count, which is at least 2, and half of its segments."""
        self.flush()
        segments = cut(message.text)[1:]
        if not segments:
            middle = len(message.text) // 2
            segments = [message.text[:middle], message.text[middle:]]
        frames = [str(len(segments)), *segments[: len(segments) // 2]]
        self._transport.write(b"".join(map(framed, frames)))

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
