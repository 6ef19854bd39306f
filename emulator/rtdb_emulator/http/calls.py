"""Calls the functions that writes have triggered: one request to the Firebase CLI's functions emulator for each event.

The events of a write are found after it, in the order of the writes, on a thread of their own, because a large value
takes long to compare and to encode. Their requests begin in that order and run side by side: a function may wait for
another one. A function that fails, or that is gone, is a line in the log. What is under way when the emulator stops is
given up.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from rtdb_emulator.functions import Call, Functions

logger = logging.getLogger("rtdb_emulator")

# The functions emulator starts a process for each function that runs beside others.
MOST_AT_ONCE = 16
# Seconds. No function of the first generation may take as long; one of the second may, and goes on.
PATIENCE = 600.0


class Caller:
    """Makes the calls on the event loop that it was made on. `address` is the functions emulator's, as `host:port`."""

    def __init__(self, functions: Functions, address: str | None) -> None:
        self._functions = functions
        self._address = address
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Semaphore(MOST_AT_ONCE)
        self._calling: asyncio.Task[None] | None = None
        self._under_way: set[asyncio.Task[None]] = set()
        self._has_more = False
        self._has_warned = False

    def wake(self) -> None:
        """Look at the writes that wait. Any thread may call this."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        self._has_more = True
        if self._calling is None or self._calling.done():
            self._calling = self._loop.create_task(self._call_all())

    async def _call_all(self) -> None:
        # A write may come while the thread finds that there is none.
        while self._has_more:
            self._has_more = False
            while (calls := await asyncio.to_thread(self._functions.next_calls)) is not None:
                for call in calls:
                    await self._start(call)

    async def _start(self, call: Call) -> None:
        if self._address is None:
            if not self._has_warned:
                logger.warning("no function is called: --functions HOST:PORT names the functions emulator")
            self._has_warned = True
            return
        await self._room.acquire()
        task = self._loop.create_task(self._call(call, self._address))
        self._under_way.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._room.release()

    async def _call(self, call: Call, address: str) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                status = await _posted(call, address)
        except (OSError, EOFError, ValueError, IndexError, asyncio.LimitOverrunError) as error:
            logger.warning("%s was not called: the functions emulator at %s: %r", call.function, address, error)
            return
        if status == 404:
            logger.info("%s is gone", call.function)
        elif not 200 <= status < 300:
            logger.warning("%s has failed: %s", call.function, status)


async def _posted(call: Call, address: str) -> int:
    """Send the request, and return the status of its answer, which comes when the function has ended."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    try:
        head = (
            f"POST {call.target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n"
            f"Content-Type: {call.content_type}\r\nContent-Length: {len(call.body)}\r\n\r\n"
        )
        writer.write(head.encode() + call.body)
        await writer.drain()
        line = await reader.readuntil(b"\r\n")
        return int(line.split()[1])
    finally:
        writer.close()
