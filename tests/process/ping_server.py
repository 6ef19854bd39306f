"""A monitoring service for tests: it notes each ping, and behaves as badly as it is told to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

# Seconds. Nothing here takes a tenth of it.
BOUND = 20.0


@dataclass(frozen=True)
class Pinged:
    """A ping that came: its path without the key, its run's id, its body, and who it says it is."""

    path: str
    rid: str
    body: str
    authorization: str | None


class PingServer:
    """`statuses` are those of the next replies, 200 after them. While `may_answer` isn't set, none ends.

    With `drips` a head comes a byte at a time, and its end when `may_answer` is set. With `floods` a body has no
    end. `longest` is the length of the longest path with its query.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.pinged: list[Pinged] = []
        self.longest = 0
        self.statuses: list[int] = []
        self.drips = False
        self.floods = False
        self.may_answer = threading.Event()
        self.may_answer.set()
        self._changed = threading.Condition()

    def take(self, path: str, body: str, authorization: str | None) -> int:
        parts = urlsplit(path)
        with self._changed:
            self.longest = max(self.longest, len(path))
            rid = parse_qs(parts.query)["rid"][0]
            self.pinged.append(Pinged(parts.path.removeprefix("/ping/key/"), rid, body, authorization))
            self._changed.notify_all()
            return self.statuses.pop(0) if self.statuses else 200

    def wait_for(self, number: int) -> list[Pinged]:
        """Return once so many pings have come."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.pinged) >= number, BOUND), self.pinged
            return list(self.pinged)


@contextmanager
def ping_server() -> Iterator[PingServer]:
    """A server on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            status = service.take(self.path, body, self.headers.get("Authorization"))
            if service.drips:
                for byte in b"HTTP/1.1 200 OK\r\nX-Drip: ":
                    self.wfile.write(bytes([byte]))
                    self.wfile.flush()
            service.may_answer.wait(BOUND)
            if service.drips:
                self.close_connection = True
                return
            self.send_response(status)
            if service.floods:
                self.end_headers()
                with suppress(OSError):  # the sender hangs up
                    while True:
                        self.wfile.write(bytes(1 << 20))
                self.close_connection = True
                return
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_POST = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        service = PingServer(f"http://127.0.0.1:{server.server_port}/ping/key")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield service
        finally:
            service.may_answer.set()
            server.shutdown()
            thread.join()
