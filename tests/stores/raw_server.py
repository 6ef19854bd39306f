"""A server of raw sockets that misbehaves as a test wants."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

# Seconds between two bytes of a reply that is dripped.
DRIP = 0.02
LONG = 20.0


class Wire:
    """One connection, as its server sees it."""

    def __init__(self, connection: socket.socket, server: Raw) -> None:
        self.connection = connection
        self.server = server

    def request(self) -> bytes | None:
        """The next request, without its body; None when the client has closed."""
        received = b""
        while not received.endswith(b"\r\n\r\n"):
            byte = self.connection.recv(1)
            if not byte:
                return None
            received += byte
        self.server.requests.append(received)
        return received

    def drip(self, reply: bytes) -> None:
        for byte in reply:
            self.connection.sendall(bytes([byte]))
            if self.server.stopping.wait(DRIP):
                return


Behaviour = Callable[[Wire], object]


class Raw:
    """A server of raw sockets, which does with each connection what it is told."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.connections = 0
        self.requests: list[bytes] = []
        self.stopping = threading.Event()
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.pool = ThreadPoolExecutor(8)
        self.open: list[socket.socket] = []
        # So that each connection is either served, or closed by who stops.
        self._lock = threading.Lock()

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            with self._lock:
                if self.stopping.is_set():
                    connection.close()
                    return
                self.connections += 1
                self.open.append(connection)
                self.pool.submit(self._behave, connection)

    def _behave(self, connection: socket.socket) -> None:
        # The client may go away at any time.
        with connection, suppress(OSError):
            self.behaviour(Wire(connection, self))

    def stop(self) -> None:
        with self._lock:
            self.stopping.set()
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        for connection in self.open:
            # It may be closed already.
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.pool.shutdown()


@contextmanager
def serving(behaviour: Behaviour) -> Iterator[Raw]:
    server = Raw(behaviour)
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join(LONG)


def answering(reply: bytes) -> Behaviour:
    """Answers every request of a connection with this."""

    def behave(wire: Wire) -> None:
        while wire.request() is not None:
            wire.connection.sendall(reply)
            if b"Connection: close" in reply:
                return

    return behave
