"""The trigger as an ASGI application, mounted (Starlette, FastAPI) or served alone.

    app.mount("/cron", crons.trigger_app(...))
    uvicorn program:cron_app                        # cron_app = crons.trigger_app(...)

The application never blocks the event loop: one bounded set of threads receives requests, another one performs runs.
A run goes on to its end under its lock, even if the client hangs up or the server cancels the request.

Served alone, the application starts and stops the jobs with the server, as `crons.lifespan` does. A mounted application
gets no lifespan events, so there the outer application has to start and stop the jobs.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

from firecron.base.forks import tell_after_fork
from firecron.base.off_loop import off_loop
from firecron.base.tracing import trace_of
from firecron.base.workers import Workers
from firecron.triggers.handler import Call, Handler
from firecron.triggers.responses import Answer
from firecron.triggers.schedule_time import HEADER

# ASGI's own form: the fields depend on the "type".
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

_RECEIVING = 8


class TriggerApp:
    """The ASGI application that `FireCron.trigger_app` returns.

    `life` is entered and left with the server's lifespan. At most `workers` runs go on at the same time.
    """

    def __init__(self, handler: Handler, life: AbstractAsyncContextManager[object], workers: int) -> None:
        self._handler = handler
        self._life = life
        # Two sets, so that requests without a run get their response at once while every worker runs a job.
        self._receiving = Workers(_RECEIVING)
        self._running = Workers(workers)
        tell_after_fork(self)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        await serve_http(self._serve, self._life, scope, receive, send)

    def after_fork(self) -> None:
        """Forget the threads in a forked child: they are the parent's."""
        self._receiving.after_fork()
        self._running.after_fork()

    async def _serve(self, scope: Message, receive: Receive, send: Send) -> None:
        call = Call(
            scope["method"],
            path_below(scope["path"], scope.get("root_path", "")),
            _header(scope, "authorization"),
            _header(scope, HEADER),
            trace_of({key.decode("latin-1").lower(): value.decode("latin-1") for key, value in scope["headers"]}),
        )
        received = await off_loop(lambda: self._handler.receive(call), self._receiving.submit)
        answer = received if isinstance(received, Answer) else await off_loop(received, self._running.submit)
        body = json.dumps(answer.body).encode()
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **answer.headers}
        encoded = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": answer.status, "headers": encoded})
        await send({"type": "http.response.body", "body": body})


async def serve_http(
    serve: Application, life: AbstractAsyncContextManager[object], scope: Message, receive: Receive, send: Send
) -> None:
    """Serve a request by `serve`. Enter and leave `life` with the server's lifespan, and close a WebSocket."""
    match scope["type"]:
        case "http":
            await serve(scope, receive, send)
        case "lifespan":
            await _lifespan(life, receive, send)
        case "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1000})
        case other:
            raise ValueError(f"the ASGI scope {other!r} is not supported: firecron serves http")


async def _lifespan(life: AbstractAsyncContextManager[object], receive: Receive, send: Send) -> None:
    """Enter and leave `life` with the server's lifespan."""
    has_started = False
    await receive()
    try:
        async with life:
            has_started = True
            await send({"type": "lifespan.startup.complete"})
            await receive()
    except Exception as error:
        what = "shutdown" if has_started else "startup"
        await send({"type": f"lifespan.{what}.failed", "message": str(error)})
        return
    await send({"type": "lifespan.shutdown.complete"})


def _header(scope: Message, name: str) -> str | None:
    wanted = name.lower().encode("latin-1")
    values = [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == wanted]
    return ", ".join(values) if values else None


def path_below(path: str, root: str) -> str:
    """Return the path below the mount.

    By the ASGI specification `path` begins with the mount's path `root`; some servers leave that out.
    """
    below = path.removeprefix(root.rstrip("/"))
    return below if below[:1] in ("", "/") else path
