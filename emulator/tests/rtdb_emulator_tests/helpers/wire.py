"""Clients of REST: `call` is for what a client sees. `Wire` is one TCP connection, for what a client library would
hide, and `Stream` an event stream on it.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import requests

from rtdb_emulator.emulator import Emulator
from rtdb_emulator.pytest_plugin import Rtdb

KEEP_ALIVE = b"event: keep-alive\ndata: null\n\n"
OWNER = {"authorization": "Bearer owner"}


def call(
    rtdb: Rtdb, method: str, target: str, body: str | bytes | None = None, headers: Mapping[str, str] | None = None
) -> requests.Response:
    """One request to the test's own database; `target` is path and query, without `ns`."""
    url = f"{rtdb.emulator.url}{target}{'&' if '?' in target else '?'}ns={rtdb.namespace}"
    with requests.Session() as session:
        session.trust_env = False
        return session.request(method, url, data=body, headers=headers, timeout=20, allow_redirects=False)


class Wire:
    """One connection; everything that waits gives up after ten seconds."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._incoming = connection.makefile("rb")

    def ask(self, method: str, target: str, body: bytes = b"", *headers: str) -> None:
        """Send one request; `target` is sent as it is."""
        lines = [f"{method} {target} HTTP/1.1", "Host: localhost", *headers]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        self.send("\r\n".join([*lines, "", ""]).encode() + body)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def head(self) -> bytes:
        """The head of the next answer, up to and with its empty line."""
        lines = [self._incoming.readline()]
        while lines[-1] not in (b"\r\n", b""):
            lines.append(self._incoming.readline())
        return b"".join(lines)

    def read(self, size: int) -> bytes:
        return self._incoming.read(size)

    def line(self) -> bytes:
        return self._incoming.readline()

    def answer(self) -> tuple[int, bytes]:
        """Status and body of the next answer, which must tell its length."""
        head = self.head()
        length = re.search(rb"content-length: (\d+)", head)
        return int(head.split()[1]), self.read(int(length[1])) if length else b""

    def to_the_end(self) -> bytes:
        """All that comes before the server closes, or resets, the connection."""
        received = b""
        try:
            while chunk := self._incoming.read1():
                received += chunk
        except ConnectionResetError:
            pass
        return received

    def close(self) -> None:
        self._incoming.close()
        self.socket.close()


@contextmanager
def wire(emulator: Emulator, port: int | None = None) -> Iterator[Wire]:
    opened = Wire(socket.create_connection(("127.0.0.1", port or emulator.port), timeout=10))
    try:
        yield opened
    finally:
        opened.close()


class Stream:
    """One open stream; the server sends each frame as a chunk of its own."""

    def __init__(self, connection: Wire) -> None:
        self.wire = connection
        self.head = connection.head()

    def frame(self) -> bytes:
        """The next frame that is no keep-alive, which may come between any two; empty at the end of the stream."""
        while (frame := self.any_frame()) == KEEP_ALIVE:
            pass
        return frame

    def any_frame(self) -> bytes:
        """The next frame, or keep-alive."""
        size = int(self.wire.line(), 16)
        frame = self.wire.read(size)
        assert self.wire.line() == b"\r\n"
        return frame

    def event(self) -> tuple[str, object, object]:
        """Name, path and data of the next event."""
        frame = self.frame().decode()
        event, data, *end = frame.split("\n")
        assert end == ["", ""], frame
        message = json.loads(data.removeprefix("data: "))
        return event.removeprefix("event: "), message["path"], message["data"]


@contextmanager
def stream(emulator: Emulator, namespace: str, target: str, *headers: str, port: int | None = None) -> Iterator[Stream]:
    """A stream of which nothing but the head was read yet."""
    joint = "&" if "?" in target else "?"
    with wire(emulator, port) as connection:
        connection.ask("GET", f"{target}{joint}ns={namespace}", b"", "Accept: text/event-stream", *headers)
        yield Stream(connection)
