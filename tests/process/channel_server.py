"""A chat's webhook for tests: it notes each message, and behaves as badly as it is told to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

# Seconds. Nothing here takes a tenth of it.
BOUND = 20.0
# What is in every URL, and nowhere else.
SECRET = "T0P5ecr3tV4lue"


@dataclass(frozen=True)
class Posted:
    """A message that came: the channel, its JSON, its bytes, and its headers in lower case."""

    channel: str
    message: Any
    body: bytes
    headers: dict[str, str]


class ChannelServer:
    """`replies` are the next ones of each channel, as status and headers; 200 after them.

    A channel that is `bad` keeps its messages without a reply (`hangs`), drips one, or closes the connection, all
    without noting that any has come. A message to a channel that `stalls` or `swallows` is noted, and gets no reply:
    the one keeps the connection, the other closes it.
    """

    def __init__(self, host: str) -> None:
        self.host = host
        self.posted: list[Posted] = []
        self.replies: dict[str, list[tuple[int, dict[str, str]]]] = {}
        self.bad: dict[str, Literal["hangs", "drips", "closes", "stalls", "swallows"]] = {}
        self.reached: list[str] = []
        self._changed = threading.Condition()
        self.is_over = threading.Event()

    def url(self, channel: str) -> str:
        return f"{self.host}/{channel}/{SECRET}?key={SECRET}"

    def reach(self, channel: str) -> str | None:
        with self._changed:
            self.reached.append(channel)
            self._changed.notify_all()
            return self.bad.get(channel)

    def take(self, posted: Posted) -> tuple[int, dict[str, str]]:
        with self._changed:
            self.posted.append(posted)
            self._changed.notify_all()
            replies = self.replies.get(posted.channel)
            return replies.pop(0) if replies else (200, {})

    def wait_until_reached(self, number: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.reached) >= number, BOUND), self.reached

    def wait_for(self, number: int) -> list[Posted]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.posted) >= number, BOUND), self.posted
            return list(self.posted)

    def of(self, channel: str) -> list[Posted]:
        return [one for one in self.posted if one.channel == channel]


@contextmanager
def channel_server() -> Iterator[ChannelServer]:
    """A server on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            channel = self.path.split("/")[1]
            badness = service.reach(channel)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if badness == "drips":
                with suppress(OSError):
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Drip: ")
                    while not service.is_over.wait(0.01):
                        self.wfile.write(b"x")
            if badness == "hangs":
                service.is_over.wait(BOUND)
            if badness in ("closes", "drips", "hangs"):
                self.close_connection = True
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, sent = service.take(Posted(channel, json.loads(body), body, headers))
            if badness in ("stalls", "swallows"):
                service.is_over.wait(0 if badness == "swallows" else BOUND)
                self.close_connection = True
                return
            self.send_response(status)
            for name, value in {**sent, "Content-Length": "0"}.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        service = ChannelServer(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield service
        finally:
            service.is_over.set()
            server.shutdown()
            thread.join()
