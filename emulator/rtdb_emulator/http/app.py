"""The ASGI application: a thin shell that reads a request, applies a fault, and sends the answer.

`Service` makes the answer. If it raises, the client gets 500 and the log has the traceback; the next request is served
as usual.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from asyncio import Transport
from collections.abc import AsyncIterator, Generator
from contextlib import aclosing
from dataclasses import replace
from http.client import responses
from urllib.parse import unquote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

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
from rtdb_emulator.paths import PRIORITY, parse_url_path, parse_url_query
from rtdb_emulator.steps import has_more, in_slices, sent_in_slices
from rtdb_emulator.store import Account, Operation, Remains, Verdict
from rtdb_emulator.tree import Path
from rtdb_emulator.ws.server import Sockets

logger = logging.getLogger("rtdb_emulator")

# The scope's key for the connection of a request, so that a fault can close it. `Listener` sets it.
TRANSPORT = "rtdb_emulator.transport"
MAX_READ = 256 * 1024 * 1024


class App:
    """One emulator's HTTP. `stopping` ends all waits and streams."""

    def __init__(
        self,
        service: Service,
        log: RequestLog,
        faults: Faults,
        keep_alive: float,
        sockets: Sockets,
        remains: Remains,
    ) -> None:
        self.sockets = sockets
        self._service = service
        self._log = log
        self._faults = faults
        self._keep_alive = keep_alive
        self._open: set[HttpExchange] = set()
        self.stopping = asyncio.Event()
        self._remains = remains
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
        """Free what remains of large nodes, in slices. Any thread may call this."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._free)

    def _free(self) -> None:
        if self._freeing is None or self._freeing.done():
            self._freeing = self._loop.create_task(in_slices(self._remains.freeing()))

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
            await _whole(error_reply(400, error.text))(scope, receive, send)
            return
        if self._service.is_door(request):
            reply = self.serve(request)
            assert isinstance(reply, Reply)
            await _whole(reply)(scope, receive, send)
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
            self._service.note(_account(exchange.facts, answer))
        if answer is None:
            await exchange.drop()
            return
        if isinstance(answer, Stream):
            frames = self._frames(answer, exchange.transport)
            response: Response = StreamingResponse(frames, headers={**CORS, **HEADERS}, media_type=CONTENT_TYPE)
            body_size = 0
        else:
            answer = await _made(answer, request)
            response = _response(answer, self.stopping)
            body = answer.body if answer.long is None else answer.long.whole
            body_size = 0 if request.method == "HEAD" else len(body)
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
        limit = None if is_admin(headers, parameters) else MAX_BODY
        body = bytearray()
        async with aclosing(Request(self._scope, self._receive).stream()) as chunks:
            async for chunk in chunks:
                body += chunk
                if limit is not None and len(body) > limit:
                    raise BadRequest(WRITE_TOO_LARGE)
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


def _response(reply: Reply, stopping: asyncio.Event) -> Response:
    headers = {**CORS, "cache-control": "no-cache", **reply.headers}
    if reply.long is not None:
        body = reply.long.whole
        headers["content-length"] = str(len(body))
        return StreamingResponse(sent_in_slices(body), reply.status, headers, reply.content_type)
    if reply.status in (204, 304):
        return Response(None, reply.status, headers)
    if not reply.pause:
        return _whole(reply)
    headers["content-length"] = str(len(reply.body))
    return StreamingResponse(_dripping(reply, stopping), reply.status, headers, reply.content_type)


def _whole(reply: Reply) -> Response:
    headers = {**CORS, "cache-control": "no-cache", **reply.headers}
    return Response(reply.body, reply.status, headers, reply.content_type)


async def _dripping(reply: Reply, stopping: asyncio.Event) -> AsyncIterator[bytes]:
    for position in range(len(reply.body)):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), reply.pause)
        yield reply.body[position : position + 1]


def _facts(request: RestRequest, namespace: str, scope: Scope) -> RequestFacts:
    path = "/" + "/".join(filter(None, unquote(request.path.removesuffix(".json")).split("/")))
    return RequestFacts(
        request.method, path, namespace, dict(request.parameters), dict(request.headers), scope["server"][1]
    )


def _request_size(scope: Scope, request: RestRequest) -> int:
    target = len(scope["raw_path"]) + (1 + len(scope["query_string"]) if scope["query_string"] else 0)
    line = len(request.method) + 1 + target + len(" HTTP/1.1\r\n")
    return line + _headers_size(scope["headers"]) + request.size


def _head_size(response: Response) -> int:
    status = response.status_code
    return len(f"HTTP/1.1 {status} {responses.get(status, '')}\r\n") + _headers_size(response.raw_headers)


def _headers_size(headers: list[tuple[bytes, bytes]]) -> int:
    return sum(len(name) + len(value) + len(": \r\n") for name, value in headers) + len("\r\n")


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
