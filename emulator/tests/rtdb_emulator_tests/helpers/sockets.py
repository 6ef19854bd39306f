"""A client of the WebSocket protocol, for tests: it says what it wants, and reads what it is told."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar
from urllib.parse import quote

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from rtdb_emulator import Emulator

# Seconds; nothing here ever takes so long.
PATIENCE = 10.0


T = TypeVar("T")
Message: TypeAlias = dict[str, Any]


class SocketClient:
    """One connection. What is pushed while it waits for an answer is kept in `pushes`, and other control messages in
    `controls`.
    """

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.pushes: list[Message] = []
        self.controls: list[Message] = []
        self._numbers = 0
        self.hello = self.read()["d"]["d"]

    def read(self) -> Message:
        """The next message, put together."""
        frame = self._frame()
        if frame.isdigit():
            frame = "".join(self._frame() for _ in range(int(frame)))
        message: Message = json.loads(frame)
        return message

    def send(self, action: str, **body: object) -> int:
        """Ask for something, and return the number of the request."""
        self._numbers += 1
        text = json.dumps({"t": "d", "d": {"r": self._numbers, "a": action, "b": body}})
        self.connection.send(text.replace("Infinity", "1e999"))  # which is JSON
        return self._numbers

    def ask(self, action: str, **body: object) -> tuple[str, object]:
        """Ask for something; the status and the data of its answer."""
        return self.answer(self.send(action, **body))

    def listen(self, path: str, **query: object) -> None:
        """Begin to listen, and forget what there was then."""
        assert self.ask("q", p=path, h="", **query)[0] == "ok"
        self.pushes.clear()

    def answer(self, number: int) -> tuple[str, object]:
        """The answer to this request, which has to be the next one."""
        while True:
            message = self.read()
            inner = message["d"]
            if message["t"] == "c":
                self.controls.append(inner)
            elif "r" not in inner:
                self.pushes.append(inner)
            else:
                assert inner["r"] == number
                return inner["b"]["s"], inner["b"]["d"]

    def push(self) -> Message:
        """The next push, or the oldest that has come beside an answer."""
        if self.pushes:
            return self.pushes.pop(0)
        inner: Message = self.read()["d"]
        assert "r" not in inner
        return inner

    def pushed(self) -> list[Message]:
        """All pushes up to now."""
        self.ask("s", c={})
        pushes, self.pushes = self.pushes, []
        return pushes

    def closed(self) -> int:
        """The code that the server closes with, after whatever else it says."""
        try:
            while True:
                self.connection.recv(timeout=PATIENCE)
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd is not None else 1006

    def _frame(self) -> str:
        frame = self.connection.recv(timeout=PATIENCE)
        assert isinstance(frame, str)
        return frame


@contextmanager
def socket_client(
    emulator: Emulator, namespace: str, *, port: int | None = None, headers: dict[str, str] | None = None, **query: str
) -> Iterator[SocketClient]:
    """A client of one database, which has read its hello."""
    more = "".join(f"&{name}={quote(value)}" for name, value in query.items())
    with opened(f"/.ws?v=5&ns={namespace}{more}", port or emulator.port, headers) as connection:
        yield SocketClient(connection)


def opened(target: str, port: int, headers: dict[str, str] | None = None) -> ClientConnection:
    """A connection, to use in a `with` block; through no proxy that the environment may name."""
    plain = socket.create_connection(("127.0.0.1", port), PATIENCE)
    return connect(
        f"ws://127.0.0.1:{port}{target}", sock=plain, compression=None, max_size=None, additional_headers=headers
    )


def handshaken(emulator: Emulator, namespace: str) -> socket.socket:
    """A socket whose handshake is sent and answered, with nobody who reads it."""
    raw = socket.create_connection(("127.0.0.1", emulator.port), PATIENCE)
    raw.sendall(
        f"GET /.ws?v=5&ns={namespace} HTTP/1.1\r\nHost: here\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    assert raw.recv(12) == b"HTTP/1.1 101"
    return raw


def frame_of(first: int, data: bytes) -> bytes:
    """A client's frame of fewer than 64 KiB, with a mask of zeros."""
    size = bytes([0x80 | len(data)]) if len(data) < 126 else bytes([0x80 | 126]) + len(data).to_bytes(2, "big")
    return bytes([first]) + size + bytes(4) + data


def until(look: Callable[[], T], patience: float = PATIENCE) -> T:
    """What this says at last that is true."""
    deadline = time.monotonic() + patience
    while not (seen := look()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.001)
    return seen
