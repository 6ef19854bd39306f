"""A proxy between a client and the emulator that spoils replies or connections as a test wants."""

from __future__ import annotations

import http.client
import select
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal, TypeAlias

# Before the proxy has read the request, after that, or after the request was applied.
HangUp: TypeAlias = Literal["unread", "read", "applied"]
_PASSED_ON = ("authorization", "content-type", "if-match", "x-firebase-etag")


class Proxy:
    """What it does to whatever passes; a test may change it at any time."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.host = ""
        self.connections = 0
        self.weakens_etags = False
        self.drops_etags = False
        # Each connection is good for one request: to the second one the proxy hangs up.
        self.serves_once = False
        # The next request on a connection that has served one already gets no reply: the proxy hangs up.
        self.hangs_up: HangUp | None = None
        # What it answers to everything, as the sign-in page of a network does, with an ETag or without.
        self.page: bytes | None = None
        self.page_etag: str | None = None
        self.page_status = 200


@contextmanager
def between(upstream: str) -> Iterator[Proxy]:
    """A proxy to this host and port."""
    proxy = Proxy(upstream)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        requests = 0

        def setup(self) -> None:
            proxy.connections += 1
            super().setup()

        def handle_one_request(self) -> None:
            if self.requests and proxy.hangs_up == "unread":
                # The connection is reset, because there is something to read that nobody reads.
                readable, _, _ = select.select([self.connection], [], [], 20)
                assert readable, "no request came"
                proxy.hangs_up = None
                self.close_connection = True
                return
            super().handle_one_request()

        def pass_on(self) -> None:
            self.requests += 1
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            is_used_again = self.requests > 1
            if is_used_again and proxy.hangs_up is not None:
                if proxy.hangs_up == "applied":
                    self.ask(body)
                proxy.hangs_up = None
                self.close_connection = True
                return
            if proxy.serves_once and is_used_again:
                self.close_connection = True
                return
            status, etag, reply = (
                self.ask(body) if proxy.page is None else (proxy.page_status, proxy.page_etag, proxy.page)
            )
            self.send_response(status)
            if etag is not None and not proxy.drops_etags:
                self.send_header("ETag", f"W/{etag}" if proxy.weakens_etags else etag)
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        do_GET = do_PUT = do_PATCH = do_DELETE = pass_on  # what the server calls

        def ask(self, body: bytes) -> tuple[int, str | None, bytes]:
            headers = {name: value for name, value in self.headers.items() if name.lower() in _PASSED_ON}
            with closing(http.client.HTTPConnection(proxy.upstream)) as onward:
                onward.request(self.command, self.path, body or None, headers)
                with onward.getresponse() as reply:
                    return reply.status, reply.getheader("ETag"), reply.read()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is logged."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """A client may go away at any time; nothing else is as it should be."""
            if not isinstance(sys.exc_info()[1], ConnectionError):
                super().handle_error(request, client_address)  # type: ignore[arg-type]  # as it came

    server = Server(("127.0.0.1", 0), Handler)
    proxy.host = f"127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
