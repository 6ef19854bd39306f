"""The ASGI application: a thin shell that reads a request, applies a fault, and sends the answer.

`Service` makes the answer. If it raises, the client gets 500 and the log has the traceback; the next request is served
as usual.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from asyncio import Transport
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from http.client import responses
from urllib.parse import unquote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from rtdb_emulator.errors import BadRequest
from rtdb_emulator.http.bodies import read_large
from rtdb_emulator.http.credentials import is_admin
from rtdb_emulator.http.faults import Faults
from rtdb_emulator.http.log import LoggedRequest, RequestLog
from rtdb_emulator.http.matching import Criteria, RequestFacts, fits
from rtdb_emulator.http.messages import CORS, Answer, Reply, RestRequest, Stream, error_reply
from rtdb_emulator.http.parameters import MAX_BODY, WRITE_TOO_LARGE
from rtdb_emulator.http.service import Service
from rtdb_emulator.http.slices import sent_in_slices
from rtdb_emulator.http.sse import CONTENT_TYPE, HEADERS, Subscription
from rtdb_emulator.http.verdicts import account, is_operation
from rtdb_emulator.large import writing
from rtdb_emulator.paths import parse_url_query
from rtdb_emulator.tree import Node
from rtdb_emulator.ws.server import Sockets

logger = logging.getLogger("rtdb_emulator")

# The scope's key for the connection of a request, so that a fault can close it. `Listener` sets it.
TRANSPORT = "rtdb_emulator.transport"


class Ended(Exception):
    """The emulator stops while a fault holds a request up."""


class App:
    """One emulator's HTTP. `stopping` ends all waits and streams."""

    def __init__(self, service: Service, log: RequestLog, faults: Faults, keep_alive: float, sockets: Sockets) -> None:
        self.sockets = sockets
        self._service = service
        self._log = log
        self._faults = faults
        self._keep_alive = keep_alive
        self._open: set[HttpExchange] = set()
        self.stopping = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = HttpExchange(self, scope, receive)
        self._open.add(exchange)
        try:
            await self._handle(exchange, scope, receive, send)
        except ClientDisconnect:
            logger.debug("the client disconnected before its request was whole")
        finally:
            self._open.discard(exchange)

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
        fault = self._faults.take(exchange.facts)
        try:
            answer = await fault.effect(exchange) if fault else exchange.serve()
        except Ended:
            answer = None
        if is_operation(request):
            self._service.note(account(exchange.facts, answer))
        if answer is None:
            await exchange.drop()
            return
        if isinstance(answer, Stream):
            frames = self._frames(answer, exchange.transport)
            response: Response = StreamingResponse(frames, headers={**CORS, **HEADERS}, media_type=CONTENT_TYPE)
            body_size = 0
        else:
            response = _response(answer, self.stopping, logged)
            body_size = 0 if request.method == "HEAD" else len(answer.body)
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
    """One request under way, for a fault (`http.exchange.Exchange`)."""

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
        self._request = await read_large(RestRequest(self._scope["method"], path, parameters, headers, body))
        return self._request

    def serve(self, *, rules_first: bool = False) -> Answer:
        assert self._request is not None, "a request is read before it is served"
        return self._app.serve(replace(self._request, rules_first=True) if rules_first else self._request)

    async def pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._app.stopping.wait(), seconds)
        self._check_running()

    async def until(self, event: asyncio.Event) -> None:
        waits = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(self._app.stopping.wait())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        self._check_running()

    def _check_running(self) -> None:
        """Raise Ended if the emulator stops: a request that a fault holds up has no effect then."""
        if self._app.stopping.is_set():
            raise Ended

    async def drop(self) -> None:
        """Close the connection at once, and return when it is closed. The server sees a client that disconnects."""
        self.transport.abort()
        while (await self._receive())["type"] != "http.disconnect":
            pass


async def _counted(node: Node, logged: LoggedRequest) -> AsyncIterator[bytes]:
    async for piece in sent_in_slices(writing(node)):
        logged.response_bytes += len(piece)
        yield piece


def _response(reply: Reply, stopping: asyncio.Event, logged: LoggedRequest) -> Response:
    headers = {**CORS, "cache-control": "no-cache", **reply.headers}
    if reply.shown is not None:
        return StreamingResponse(_counted(reply.shown, logged), reply.status, headers, reply.content_type)
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
