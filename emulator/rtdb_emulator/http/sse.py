"""Server-sent events: a view of a database as an endless text.

The official Python SDK decides the form: LF only, no comments, `data: null` for keep-alive and cancel. If more than
`BACKLOG` events wait for a client that doesn't read, the connection closes; the client reconnects and gets the whole
value again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

from rtdb_emulator.database import Commit
from rtdb_emulator.errors import Refusal
from rtdb_emulator.http.messages import Stream
from rtdb_emulator.jsondata import encode
from rtdb_emulator.streaming import Event

BACKLOG = 10_000
HEADERS = {"cache-control": "no-cache"}
CONTENT_TYPE = "text/event-stream; charset=utf-8"

KEEP_ALIVE = b"event: keep-alive\ndata: null\n\n"
CANCEL = b"event: cancel\ndata: null\n\n"


class Subscription:
    """One client of a stream. Commits come in on the thread that wrote; frames go out on the event loop.

    None in the queue is the end.
    """

    def __init__(self, stream: Stream, cut_off: Callable[[], None]) -> None:
        self._stream = stream
        self._cut_off = cut_off
        self._loop = asyncio.get_running_loop()
        self._frames: asyncio.Queue[bytes | None] = asyncio.Queue()

    def committed(self, commit: Commit) -> None:
        if not self._may_read():
            self._send(CANCEL, None)
        elif events := self._stream.view.events(commit):
            self._send(*map(_frame, events))

    def rules_changed(self) -> None:
        if not self._may_read():
            self._send(CANCEL, None)

    def close(self) -> None:
        """End the stream, from any thread."""
        self._send(None)

    async def frames(self, keep_alive: float) -> AsyncGenerator[bytes, None]:
        """Yield the frames to send, with a keep-alive after each `keep_alive` seconds without one."""
        with self._stream.database.listening(self) as root:
            if not self._may_read():  # the rules may have changed since the request was allowed
                yield CANCEL
                return
            yield _frame(self._stream.view.first(root))
            while True:
                try:
                    frame = await asyncio.wait_for(self._frames.get(), keep_alive)
                except TimeoutError:
                    frame = KEEP_ALIVE
                if frame is None:
                    return
                yield frame

    def _may_read(self) -> bool:
        try:
            self._stream.database.check_read(self._stream.view.path, self._stream.access, self._stream.view.query)
        except Refusal:
            return False
        return True

    def _send(self, *frames: bytes | None) -> None:
        for frame in frames:
            self._loop.call_soon_threadsafe(self._put, frame)

    def _put(self, frame: bytes | None) -> None:
        self._frames.put_nowait(frame)
        if self._frames.qsize() > BACKLOG:
            self._cut_off()


def _frame(event: Event) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (
        event.name.encode(),
        encode({"path": event.path, "data": event.data}),
    )
