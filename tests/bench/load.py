"""A load generator that costs next to nothing: requests that are bytes already, replies that are only looked at.

`Connection` sends the next request when the last reply is whole, as a keep-alive client does. It reads of a reply the
status and the length, so it is several times as fast as a server that does any work; `make bench` prints both.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from functools import partial


class Connection(asyncio.Protocol):
    """One keep-alive connection that sends request after request, and notes when each reply was whole."""

    def __init__(self, requests: Iterator[bytes]) -> None:
        self._requests = requests
        self._buffer = b""
        self._sent = 0.0
        self._transport: asyncio.Transport | None = None
        self.latencies: list[float] = []
        self.failures: list[bytes] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._next()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, end, body = self._buffer.partition(b"\r\n\r\n")
        if not end or len(body) < _content_length(head):
            return
        self.latencies.append(time.perf_counter() - self._sent)
        if not self._buffer.startswith(b"HTTP/1.1 200"):
            self.failures.append(self._buffer)
        self._buffer = b""
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError("the server closed the connection"))

    def _next(self) -> None:
        assert self._transport is not None
        request = next(self._requests, None)
        if request is None:
            self.done.set_result(None)
            self._transport.close()
            return
        self._sent = time.perf_counter()
        self._transport.write(request)


async def run(host: str, port: int, streams: list[Iterator[bytes]]) -> tuple[float, list[float]]:
    """Send each stream over a connection of its own; returns requests a second, and all latencies in seconds."""
    loop = asyncio.get_running_loop()
    started = time.perf_counter()
    made = [await loop.create_connection(partial(Connection, requests), host, port) for requests in streams]
    connections = [connection for _, connection in made]
    await asyncio.gather(*(connection.done for connection in connections))
    took = time.perf_counter() - started
    failures = [failure for connection in connections for failure in connection.failures]
    if failures:
        raise RuntimeError(f"{len(failures)} replies were not 200, the first: {failures[0]!r}")
    latencies = [latency for connection in connections for latency in connection.latencies]
    return len(latencies) / took, latencies


def request(method: str, target: str, body: bytes = b"", headers: str = "") -> bytes:
    head = f"{method} {target} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer owner\r\n{headers}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0
