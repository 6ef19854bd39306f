"""The page as an ASGI application, mounted (Starlette, FastAPI) or served alone.

    app.mount("/crons", crons.status_app(access=access))
    uvicorn program:page                            # page = crons.status_app(...)

The application never blocks the event loop: one bounded set of threads admits visitors, a second one reads the
database, a third one performs runs. A run goes on to its end under its lock, even if the visitor leaves.

`access` is called in a copy of the request's context, so it has the context variables that the program has set for this
request, and none of another visitor's.

Served alone, the application starts and stops the jobs with the server, as `crons.lifespan` does. A mounted application
gets no lifespan events, so there the outer application has to start and stop the jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import copy_context
from inspect import isawaitable

from firecron.base.forks import tell_after_fork
from firecron.base.off_loop import off_loop
from firecron.base.workers import Workers
from firecron.page.desk import Desk, Plan
from firecron.page.ending import end_with_process
from firecron.page.live import Live
from firecron.page.messages import PageRequest, Reply, problem
from firecron.page.safety import HEADERS, MOST_BODY, all_headers
from firecron.page.streaming import Stream
from firecron.page.visitor import Headers
from firecron.triggers.asgi import Message, Receive, Send, path_below, serve_http

_ADMITTING = 8
_READING = 8
_STREAMING = {**HEADERS, "Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}


class StatusApp:
    """The ASGI application that `FireCron.status_app` returns. At most `workers` runs go on at the same time.

    `life` is entered and left with the server's lifespan.
    """

    def __init__(
        self, desk: Desk, live: Live, workers: int, life: AbstractAsyncContextManager[object] | None = None
    ) -> None:
        self._desk = desk
        self._live = live
        self._life = life or nullcontext()
        # Three sets, so that the page can be read while every worker runs a job, and be opened while every reader waits
        # for a database that doesn't reply.
        self._admitting = Workers(_ADMITTING)
        self._reading = Workers(_READING)
        self._running = Workers(workers)
        tell_after_fork(self)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        await serve_http(self._serve, self._life, scope, receive, send)

    def after_fork(self) -> None:
        """Forget the threads in a forked child: they are the parent's."""
        self._admitting.after_fork()
        self._reading.after_fork()
        self._running.after_fork()

    def end(self) -> None:
        """End all streams at once, as a server's signal does. For a server that is stopped otherwise."""
        self._live.end()

    async def _stream(self, receive: Receive, send: Send) -> None:
        stream = Stream(send, encoded(_STREAMING))
        viewer = self._live.join(stream.push)
        if viewer is None:
            await _send(problem(503, "no_stream", "there are as many streams as there may be"), "GET", send)
            return
        try:
            await stream.run(viewer, receive)
        finally:
            self._live.leave(viewer)

    async def _serve(self, scope: Message, receive: Receive, send: Send) -> None:
        request = _request(scope)
        context = copy_context()
        admitted = await off_loop(lambda: context.run(self._desk.admit, request), self._admitting.submit)
        if isawaitable(admitted):
            admitted = await admitted
        plan = admitted if isinstance(admitted, Reply) else self._desk.plan(request, admitted)
        if isinstance(plan, Reply):
            await _send(plan, request.method, send)
            return
        end_with_process(self._live)
        if plan.route.kind == "events":
            await (self._stream(receive, send) if request.method == "GET" else _head(send))
            return
        body = await _body(receive) if plan.has_body else None
        reply = await off_loop(lambda: self._desk.do(plan, body), self._workers(plan).submit)
        await _send(reply, request.method, send)

    def _workers(self, plan: Plan) -> Workers:
        if plan.is_long:
            return self._running
        return self._admitting if plan.route.kind == "file" else self._reading


def encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Return headers as ASGI wants them."""
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]


async def _head(send: Send) -> None:
    """Send the headers of a stream alone."""
    await send({"type": "http.response.start", "status": 200, "headers": encoded(_STREAMING)})
    await send({"type": "http.response.body", "body": b""})


async def _send(reply: Reply, method: str, send: Send) -> None:
    await send({"type": "http.response.start", "status": reply.status, "headers": encoded(all_headers(reply))})
    await send({"type": "http.response.body", "body": b"" if method == "HEAD" else reply.body})


async def _body(receive: Receive) -> bytes | None:
    """Return the body of a request; None if it is too long. One that has not come whole is empty."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return b""
        part = message.get("body", b"")
        size += len(part)
        if size > MOST_BODY:
            return None
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def _request(scope: Message) -> PageRequest:
    root = scope.get("root_path", "")
    return PageRequest(
        scope["method"],
        path_below(scope["path"], root),
        Headers((key.decode("latin-1"), value.decode("latin-1")) for key, value in scope["headers"]),
        query=scope.get("query_string", b"").decode("latin-1"),
        full_path=scope["path"] if scope["path"].startswith(root) else f"{root}{scope['path']}",
        scheme=scope.get("scheme", "http"),
        original=_original(scope),
    )


def _original(scope: Message) -> object:
    """Return Starlette's request where the page is mounted in a Starlette application, else the scope."""
    if "app" not in scope:
        return scope
    try:
        from starlette.requests import Request
    except ModuleNotFoundError:
        return scope
    return Request(scope)
