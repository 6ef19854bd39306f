"""The HTTP server: uvicorn's protocol on ports of our own, and behind it a shell that reads a request, applies a fault,
and sends the answer.

`Service` makes the answer. If it raises, the client gets 500 and the log has the traceback; the next request is served
as usual.

uvicorn's `Server` would serve a fixed set of sockets and poll for its end ten times a second. An emulator opens ports
while it runs (a port for each client that a test wants to cut off), and tests start and stop many; so this runs
uvicorn's protocol class on sockets that it opens and closes itself, in a thread of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import socket
import threading
import time
from asyncio import Transport
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from contextlib import aclosing
from dataclasses import replace
from http.client import responses
from itertools import chain
from typing import TypeVar

from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from rtdb_emulator.errors import BadRequest, Refusal
from rtdb_emulator.http.faults import Ended, Faults
from rtdb_emulator.http.log import Criteria, LoggedRequest, RequestFacts, RequestLog, fits
from rtdb_emulator.http.messages import (
    CORS,
    MAX_BODY,
    READ_TOO_LARGE,
    WRITE_TOO_LARGE,
    Answer,
    Content,
    Reply,
    RestRequest,
    error_reply,
    identify,
    is_admin,
    method_of,
)
from rtdb_emulator.http.service import Service
from rtdb_emulator.http.sse import CONTENT_TYPE, HEADERS, Stream, Subscription
from rtdb_emulator.jsondata import NeedsServer
from rtdb_emulator.large import LARGE, reading, reading_patch
from rtdb_emulator.paths import PRIORITY, parse_url_path, parse_url_query, shown_path
from rtdb_emulator.steps import has_more, in_slices, sent_in_slices
from rtdb_emulator.store import Account, Operation, Store, Verdict
from rtdb_emulator.tree import Path
from rtdb_emulator.ws.server import PATH, Sockets

logger = logging.getLogger("rtdb_emulator")

T = TypeVar("T")

# The scope's key for the connection of a request, so that a fault can close it. `Listener` sets it.
TRANSPORT = "rtdb_emulator.transport"
MAX_READ = 256 * 1024 * 1024
# Seconds that requests under way may take to finish at the end, before their connections are closed.
STOP_GRACE = 2.0
_BACKLOG = 2048
# The statuses of answers without a body.
_BODILESS = (204, 304)
# The headers of every answer.
_ALWAYS = {**CORS, "cache-control": "no-cache"}
_ALWAYS_ENCODED = {name.encode(): value.encode() for name, value in _ALWAYS.items()}


class App:
    """One emulator's HTTP. `stopping` ends all waits and streams."""

    def __init__(
        self,
        store: Store,
        service: Service,
        log: RequestLog,
        faults: Faults,
        keep_alive: float,
        sockets: Sockets,
    ) -> None:
        self.sockets = sockets
        self._store = store
        self._service = service
        self._log = log
        self._faults = faults
        self._keep_alive = keep_alive
        self._open: set[HttpExchange] = set()
        self.stopping = asyncio.Event()
        self._freeing: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = HttpExchange(self, scope, receive)
        self._open.add(exchange)
        try:
            await self._handle(exchange, scope, receive, send)
        except ClientDisconnect:
            logger.debug("the client disconnected before its request was whole")
        finally:
            self._open.discard(exchange)

    def wake(self) -> None:
        """Free large nodes that were deleted, in slices. Any thread may call this."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._free)

    def _free(self) -> None:
        if self._freeing is None or self._freeing.done():
            self._freeing = self._loop.create_task(in_slices(self._store.discarded.freeing()))

    def interrupt(self, criteria: Criteria) -> None:
        """Close the connections of all requests under way that fit the criteria, and the sockets that fit."""
        self.sockets.interrupt(criteria)
        for exchange in tuple(self._open):
            if exchange.facts is not None and fits(criteria, exchange.facts):
                exchange.transport.abort()

    def serve(self, request: RestRequest) -> Answer:
        try:
            return self._service.answer(request)
        except Exception:
            logger.exception("%s %s broke the emulator", request.method, request.path)
            return error_reply(500, "Internal Server Error: see the emulator's log")

    async def _handle(self, exchange: HttpExchange, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            request = await exchange.read()
        except BadRequest as error:
            await _Whole(error_reply(400, error.text))(scope, receive, send)
            return
        if self._service.is_script(request):
            reply = self.serve(request)
            assert isinstance(reply, Reply)
            await _Whole(reply)(scope, receive, send)
            return
        exchange.facts = _facts(request, self._service.namespace(request), scope)
        logged = LoggedRequest(exchange.facts, _request_size(scope, request))
        self._log.add(logged)
        steps = self._service.preparing(request)
        if has_more(steps):
            await in_slices(steps)
        fault = self._faults.take(exchange.facts)
        try:
            answer = await fault.effect(exchange) if fault else exchange.serve()
        except Ended:
            answer = None
        if _is_operation(request):
            self._store.operations.add(_account(exchange.facts, answer))
        if answer is None:
            await exchange.drop()
            return
        if isinstance(answer, Stream):
            frames = self._frames(answer, exchange.transport)
            response: Response | _Whole = StreamingResponse(
                frames, headers={**CORS, **HEADERS}, media_type=CONTENT_TYPE
            )
            body_size = 0
        else:
            answer = await _made(answer, request)
            response = _response(answer, self.stopping)
            body = answer.body if answer.long is None else answer.long.whole
            body_size = 0 if request.method == "HEAD" or answer.status in _BODILESS else len(body)
        logged.status = response.status_code
        logged.response_bytes = _head_size(response) + body_size
        await response(scope, receive, send)

    async def _frames(self, stream: Stream, transport: Transport) -> AsyncIterator[bytes]:
        subscription = Subscription(stream, transport.abort)
        ending = asyncio.ensure_future(self.stopping.wait())
        ending.add_done_callback(lambda _: subscription.close())
        try:
            async with aclosing(subscription.frames(self._keep_alive)) as frames:
                async for frame in frames:
                    yield frame
        finally:
            ending.cancel()


class HttpExchange:
    """One request under way, for a fault (`http.faults.Exchange`)."""

    def __init__(self, app: App, scope: Scope, receive: Receive) -> None:
        self._app = app
        self._scope = scope
        self._receive = receive
        self._request: RestRequest | None = None
        self.facts: RequestFacts | None = None

    @property
    def transport(self) -> Transport:
        transport: Transport = self._scope["extensions"][TRANSPORT]
        return transport

    @property
    def over(self) -> asyncio.Event:
        return self._app.stopping

    async def read(self) -> RestRequest:
        """The whole request; BadRequest if its query is broken, or its body larger than this client's may be."""
        parameters = parse_url_query(self._scope["query_string"].decode("latin-1"))
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in self._scope["headers"]}
        body = bytearray()
        is_whole = False
        while not is_whole:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            body += message.get("body", b"")
            if len(body) > MAX_BODY and not is_admin(headers, parameters):
                raise BadRequest(WRITE_TOO_LARGE)
            is_whole = not message.get("more_body", False)
        path = self._scope["raw_path"].decode("latin-1")
        self._request = await _read_large(RestRequest(self._scope["method"], path, parameters, headers, body))
        return self._request

    def serve(self, *, rules_first: bool = False) -> Answer:
        assert self._request is not None, "a request is read before it is served"
        return self._app.serve(replace(self._request, rules_first=True) if rules_first else self._request)

    async def drop(self) -> None:
        """Close the connection at once, and return when it is closed. The server sees a client that disconnects."""
        self.transport.abort()
        while (await self._receive())["type"] != "http.disconnect":
            pass


async def _made(reply: Reply, request: RestRequest) -> Reply:
    """Return a reply whose long body is made, or the refusal of a read that is too large."""
    if reply.long is not None:
        await in_slices(reply.long.making())
        if len(reply.long.whole) > MAX_READ and method_of(request) in ("GET", "HEAD"):
            return error_reply(400, READ_TOO_LARGE)
    return reply


def _response(reply: Reply, stopping: asyncio.Event) -> Response | _Whole:
    if reply.long is None and (not reply.pause or reply.status in _BODILESS):
        return _Whole(reply)
    headers = {**_ALWAYS, **reply.headers}
    if reply.long is not None:
        body = reply.long.whole
        headers["content-length"] = str(len(body))
        return StreamingResponse(sent_in_slices(body), reply.status, headers, reply.content_type)
    headers["content-length"] = str(len(reply.body))
    return StreamingResponse(_dripping(reply, stopping), reply.status, headers, reply.content_type)


class _Whole:
    """A reply whose body is all there, as an ASGI application."""

    def __init__(self, reply: Reply) -> None:
        own = {name.lower().encode("latin-1"): value.encode("latin-1") for name, value in reply.headers.items()}
        headers = {**_ALWAYS_ENCODED, **own}
        self._body = b"" if reply.status in _BODILESS else reply.body
        if reply.status not in _BODILESS:
            headers.setdefault(b"content-length", b"%d" % len(reply.body))
            headers.setdefault(b"content-type", reply.content_type.encode())
        self.status_code = reply.status
        self.raw_headers = [*headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self._body})


async def _dripping(reply: Reply, stopping: asyncio.Event) -> AsyncIterator[bytes]:
    for position in range(len(reply.body)):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), reply.pause)
        yield reply.body[position : position + 1]


def _facts(request: RestRequest, namespace: str, scope: Scope) -> RequestFacts:
    return RequestFacts(
        request.method,
        shown_path(request.path),
        namespace,
        dict(request.parameters),
        dict(request.headers),
        scope["server"][1],
    )


def _request_size(scope: Scope, request: RestRequest) -> int:
    target = len(scope["raw_path"]) + (1 + len(scope["query_string"]) if scope["query_string"] else 0)
    line = len(request.method) + 1 + target + len(" HTTP/1.1\r\n")
    return line + _headers_size(scope["headers"]) + request.size


def _head_size(response: Response | _Whole) -> int:
    status = response.status_code
    return len(f"HTTP/1.1 {status} {responses.get(status, '')}\r\n") + _headers_size(response.raw_headers)


def _headers_size(headers: list[tuple[bytes, bytes]]) -> int:
    return len("\r\n") + len(headers) * len(": \r\n") + sum(map(len, chain.from_iterable(headers)))


# --- large bodies
#
# They are read before the request is answered, without holding up other requests. `Service` reads a body of usual size
# itself. An error in a large body is kept until its turn comes: errors of the credentials and of the request itself
# come first.


async def _read_large(request: RestRequest) -> RestRequest:
    """Return the request, with the content of its body in place of the body where that is large."""
    if len(request.body) < LARGE or method_of(request) not in ("PUT", "POST", "PATCH"):
        return request
    try:
        path = parse_url_path(request.path.removesuffix(".json"))
    except BadRequest:
        return request
    if path[-1:] == (PRIORITY,):
        return request
    try:
        content = await in_slices(_content(request, path))
    except NeedsServer:
        return request  # its server values are known only at the write
    except BadRequest as error:
        content = error
    return replace(request, body=b"", content=content, size=request.size)


def _content(request: RestRequest, path: Path) -> Generator[None, None, Content]:
    if method_of(request) == "PATCH":
        return (yield from reading_patch(request.body, len(path)))
    return (yield from reading(request.body, len(path) + (method_of(request) == "POST")))


# --- a request and its answer as an operation, for the emulator's page

# Credentials, and parameters that other fields of an operation show.
_HIDDEN = ("ns", "auth", "access_token", "auth_variable_override")
_VERDICTS: dict[int, Verdict] = {401: "denied", 403: "denied", 412: "stale"}
_LONGEST_ERROR = 1_000


def _is_operation(request: RestRequest) -> bool:
    """Return whether a request is for data or rules."""
    return request.method != "OPTIONS" and request.path.endswith(".json") and not request.path.startswith("/.inspect/")


def _account(facts: RequestFacts, answer: Answer | None) -> Account:
    """Return a function that describes the operation later, and keeps no more of the answer than that needs.

    `answer` is None if a fault has dropped the request.
    """
    status = None if answer is None else answer.status if isinstance(answer, Reply) else 200
    refused = answer.refused if isinstance(answer, Reply) else None
    error = answer.body if isinstance(answer, Reply) and answer.status >= 400 and answer.status != 412 else b""
    error = bytes(error[:_LONGEST_ERROR])
    at = time.time_ns() // 1_000_000

    def describe() -> Operation:
        detail = "&".join(f"{name}={value}" for name, value in facts.parameters.items() if name not in _HIDDEN)
        try:
            access = identify(facts.headers, facts.parameters)
        except Refusal:
            access = None
        how = "LISTEN" if "text/event-stream" in facts.headers.get("accept", "") else facts.method
        if status is not None and "if-match" in facts.headers:
            detail = f"{detail} if-match".strip()
        return Operation(at, facts.namespace, how, facts.path, access, _verdict(status), detail, _text(error), refused)

    return describe


def _verdict(status: int | None) -> Verdict:
    if status is None:
        return "dropped"
    if status < 400:
        return "allowed"
    return _VERDICTS.get(status, "failed" if status >= 500 else "refused")


def _text(body: bytes) -> str:
    """Return the error in an answer's body."""
    text = body.decode(errors="replace")
    try:
        return str(json.loads(text)["error"])
    except (ValueError, LookupError, TypeError):
        return text


# --- ports


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
    config = Config(
        app, lifespan="off", ws="none", log_config=None, access_log=False, proxy_headers=False, timeout_keep_alive=3600
    )
    config.load()
    return config
