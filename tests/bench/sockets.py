"""Load over WebSocket that costs next to nothing: frames that are bytes already, and replies that are only counted."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import TypeVar

HANDSHAKE = (
    "GET /.ws?v=5&ns={} HTTP/1.1\r\nHost: bench\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


SocketT = TypeVar("SocketT", bound="Socket")


class Socket(asyncio.Protocol):
    """One client. It waits for one text of bytes after the other; what else comes is passed over."""

    def __init__(self, namespace: str) -> None:
        self._handshake = HANDSHAKE.format(namespace).encode()
        self._buffer = b""
        self._wanted = b""
        self._found: asyncio.Future[float] | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self._handshake)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._found is not None and not self._found.done():
            self._found.set_exception(exc or ConnectionError("the server closed the connection"))

    def until(self, wanted: bytes) -> asyncio.Future[float]:
        """When this has come."""
        self._wanted = wanted
        self._found = asyncio.get_running_loop().create_future()
        self._look()
        return self._found

    def send(self, frame: bytes) -> None:
        assert self.transport is not None
        self.transport.write(frame)

    def close(self) -> None:
        assert self.transport is not None
        self.transport.abort()

    def _look(self) -> None:
        if self._found is None or self._found.done():
            return
        at = self._buffer.find(self._wanted)
        if at >= 0:
            self._buffer = self._buffer[at + len(self._wanted) :]
            self._found.set_result(time.perf_counter())


class Puts(Socket):
    """A client that sends one frame after the other, each as soon as the one before is answered."""

    def __init__(self, namespace: str, frames: Iterator[bytes]) -> None:
        super().__init__(namespace)
        self._frames = frames
        self._number = 0
        self.done: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def start(self) -> None:
        self._buffer = b""
        self._next()

    def data_received(self, data: bytes) -> None:
        if not self._number:
            super().data_received(data)
            return
        self._buffer += data
        if b'"r":%d,' % self._number in self._buffer:
            if b'"s":"ok"' not in self._buffer:
                self.done.set_exception(RuntimeError(f"refused: {self._buffer!r}"))
                return
            self._buffer = b""
            self._next()

    def _next(self) -> None:
        frame = next(self._frames, None)
        if frame is None:
            self.done.set_result(self._number)
            self.close()
        else:
            self._number += 1
            self.send(frame)


def ask(number: int, action: str, **body: object) -> bytes:
    return framed(json.dumps({"t": "d", "d": {"r": number, "a": action, "b": body}}).encode())


def framed(text: bytes) -> bytes:
    """A client's frame; its mask is zero, which is legal and costs nothing."""
    size = len(text)
    head = bytes([0x81, 0x80 | size]) if size < 126 else bytes([0x81, 0x80 | 126]) + size.to_bytes(2, "big")
    return head + bytes(4) + text


async def connected(port: int, namespace: str) -> Socket:
    """A client that has read its hello."""
    return await ready(port, Socket(namespace))


async def ready(port: int, socket: SocketT) -> SocketT:
    """This client, when it has read its hello."""
    await asyncio.get_running_loop().create_connection(lambda: socket, "127.0.0.1", port)
    await socket.until(b'"s":"')
    return socket
