"""uvicorn's HTTP protocol on ports of our own, in a thread of its own.

uvicorn's `Server` would serve a fixed set of sockets and poll for its end ten times a second. An emulator opens ports
while it runs (a port for each client that a test wants to cut off), and tests start and stop many; so this runs
uvicorn's protocol class on sockets that it opens and closes itself.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import threading
from collections.abc import Callable, Coroutine
from typing import TypeVar

from starlette.types import ASGIApp
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from rtdb_emulator.http.app import TRANSPORT, App
from rtdb_emulator.ws.server import PATH, Sockets

logger = logging.getLogger("rtdb_emulator")

T = TypeVar("T")

# Seconds that requests under way may take to finish at the end, before their connections are closed.
STOP_GRACE = 2.0
_BACKLOG = 2048


class Protocol(HttpToolsProtocol):
    """uvicorn's protocol. The application can see its connection, and `ws` takes over WebSockets."""

    def __init__(self, config: Config, state: ServerState, loop: asyncio.AbstractEventLoop, sockets: Sockets) -> None:
        super().__init__(config, state, {}, loop)
        self._sockets = sockets

    def handle_websocket_upgrade(self) -> None:
        self.connections.discard(self)
        head = [self.scope["method"].encode(), b" ", self.url, b" HTTP/1.1\r\n"]
        for name, value in self.headers:
            head += [name, b": ", value, b"\r\n"]
        self._sockets.adopt(
            self.transport, b"".join([*head, b"\r\n"]), self.transport.get_extra_info("sockname")[1], self.loop
        )

    def _should_upgrade_to_ws(self) -> bool:
        # Taking the connection over in the middle of a reply would mix both.
        under_way: RequestResponseCycle | None = self.cycle
        is_idle = under_way is None or under_way.response_complete
        return is_idle and self.url.partition(b"?")[0] == PATH.encode()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        # In ASGI an extension is a dictionary; this one never leaves the process.
        self.scope["extensions"] = {TRANSPORT: self.transport}  # type: ignore[dict-item]  # it lacks the extensions that are no dicts

    def _unsupported_upgrade_warning(self) -> None:
        """Say that the upgrade is ignored. uvicorn advises to install a package, which would change nothing."""
        logger.info("an upgrade to another protocol was asked for; the request is served as plain HTTP")


def open_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises OSError, which names the address, if it is taken or isn't this machine's."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named, because asyncio turns Nagle's algorithm off only for sockets whose protocol is TCP. With
    # that algorithm a reply, written as a head and a body, waits 40 ms for the client's delayed acknowledgement.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        remedy = "; another port, or 0 for any free one, would do" if error.errno == errno.EADDRINUSE else ""
        raise OSError(error.errno, f"can't listen on {host}:{port}: {error.strerror or error}{remedy}") from error
    return listening


class Listener:
    """Serves an application on any number of sockets, from `start` to `stop`."""

    def __init__(self, make_app: Callable[[], App]) -> None:
        self._make_app = make_app
        self._state = ServerState()
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.SelectorEventLoop()
        self._thread = threading.Thread(target=self._run, name="rtdb-emulator", daemon=True)

    def start(self, listening: socket.socket) -> None:
        try:
            self._thread.start()
        except RuntimeError:
            # No thread could start: free the port.
            self._loop.close()
            listening.close()
            raise
        self.call(self._begin(listening))

    def stop(self) -> None:
        """Close all connections, streams too, and end the thread."""
        self.call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def add(self, listening: socket.socket) -> None:
        self.call(self._serve(listening))

    def call(self, work: Coroutine[object, object, T]) -> T:
        """Run a coroutine on the event loop, and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def call_soon(self, work: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(work)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _begin(self, listening: socket.socket) -> None:
        self._app = self._make_app()
        self._config = _config(self._app)
        await self._serve(listening)

    async def _serve(self, listening: socket.socket) -> None:
        server = await self._loop.create_server(self._make_protocol, sock=listening, backlog=_BACKLOG)
        self._servers.append(server)

    def _make_protocol(self) -> Protocol:
        return Protocol(self._config, self._state, self._loop, self._app.sockets)

    async def _end(self) -> None:
        # If a server closes, connections that asyncio has accepted and not yet attached are lost, and their clients
        # wait for ever. So accept no more first, then let two turns of the loop attach them, and only then close.
        for server in self._servers:
            for listening in server.sockets:
                self._loop.remove_reader(listening)
        for _ in range(2):
            await asyncio.sleep(0)
        for server in self._servers:
            server.close()
        self._app.stopping.set()
        self._app.sockets.stop()
        for connection in tuple(self._state.connections):
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(tuple(self._state.tasks), timeout=STOP_GRACE)
        for connection in tuple(self._state.connections):
            if connection.transport is not None:
                connection.transport.abort()
        await asyncio.sleep(0)  # let the connections see their end
        if self._state.tasks:
            await asyncio.wait(tuple(self._state.tasks), timeout=STOP_GRACE)
        # Long work that nobody waits for any more: messages of sockets, the end of large nodes.
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=STOP_GRACE)


def _config(app: ASGIApp) -> Config:
    config = Config(app, lifespan="off", ws="none", log_config=None, access_log=False, timeout_keep_alive=3600)
    config.load()
    return config
