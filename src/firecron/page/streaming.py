"""The response of `/api/events` under ASGI: Server-Sent Events for one viewer.

It ends when the viewer leaves, after four minutes (Cloud Run cuts a response after five, and the browser comes back by
itself), when the viewer takes nothing any more, and at once when the process is asked to end.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial

from firecron.page.live import Viewer
from firecron.triggers.asgi import Receive, Send

# In seconds.
LASTS = 240.0
SILENCE = 15.0
_GOODBYE = 1.0


class Stream:
    """The response with the events of one viewer."""

    def __init__(self, send: Send, headers: list[tuple[bytes, bytes]]) -> None:
        self._send = send
        self._headers = headers
        self._loop = asyncio.get_running_loop()
        self._messages: asyncio.Queue[bytes] = asyncio.Queue()
        self._is_over = asyncio.Event()

    def push(self, message: bytes | None) -> None:
        """Send this message, None to end. Any thread may call this, and a signal's handler."""
        put = self._is_over.set if message is None else partial(self._messages.put_nowait, message)
        with suppress(RuntimeError):  # the loop was closed, and with it the connection
            self._loop.call_soon_threadsafe(put)

    async def run(self, viewer: Viewer, receive: Receive) -> None:
        """Send the messages until the viewer leaves, the stream has lasted long enough, or the process ends."""
        await self._send({"type": "http.response.start", "status": 200, "headers": self._headers})
        writing = asyncio.ensure_future(self._write(viewer))
        leaving = asyncio.ensure_future(_left(receive))
        ending = asyncio.ensure_future(self._is_over.wait())
        parts = (writing, leaving, ending)
        try:
            await asyncio.wait(parts, timeout=LASTS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for part in parts:
                part.cancel()
            done, _ = await asyncio.wait(parts, timeout=_GOODBYE)
        if not leaving.done() or leaving.cancelled():
            # A client that takes nothing must not keep the server from ending.
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(_GOODBYE):
                    await self._send({"type": "http.response.body", "body": b""})
        for one in done:
            error = None if one.cancelled() else one.exception()
            if error is not None and not isinstance(error, OSError):  # which a client that has gone may cause
                raise error

    async def _write(self, viewer: Viewer) -> None:
        await self._part(b"retry: 2000\n\n")
        while True:
            try:
                # Not by `wait_for`: until Python 3.12 it loses a cancellation that comes together with a message.
                async with asyncio.timeout(SILENCE):
                    message = await self._messages.get()
                viewer.took()
            except TimeoutError:
                message = b": alive\n\n"
            await self._part(message)

    async def _part(self, body: bytes) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": True})


async def _left(receive: Receive) -> None:
    """Return once the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
