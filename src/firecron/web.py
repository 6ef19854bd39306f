"""The web: one request and one reply for every framework, for the triggers and the page, which are the sites.

    door    makes a `SiteRequest` of what its framework has, and sends the `SiteReply`: `AsgiApp` for ASGI, mounted
            (Starlette, FastAPI) or served alone, `make_blueprint` for Flask, `make_urls` for Django: patterns for
            `include`
    site    makes the reply, in two steps, which both may block: the triggers' `Handler`, the page's `PageSite`

        receive    who asks, and for what: whoever is refused gets a `SiteReply` at once, and a request that is served
                   becomes `Work`
        do         the work: what it reads of the database, or a run until its end

The steps are two, because the threads of a door are few: a refusal must not wait until the jobs of others have ended.
A site decides, and knows no framework. A door carries out, and decides nothing.

**ASGI.** The application never blocks the event loop. It has bounded sets of threads: one receives requests, one reads
the database, one performs runs. A run goes on to its end under its lock, even if the client hangs up or the server
cancels the request. A site receives a request in a copy of its context, so it has the context variables that the
program has set for this request, and none of another's. Served alone, the application starts and stops the jobs with
the server, as `crons.lifespan` does. A mounted application gets no lifespan events, so there the outer application has
to start and stop the jobs.

**Flask and Django.** A request is served on the thread that the framework gives it, from beginning to end. There are no
streams: each would keep a thread of the server. Every method comes to the site, so that the site and not the framework
refuses the wrong ones. Django's own check of a POST is off: a site does without cookies, or has a check of its own.

What a request reads and runs belongs to the trace that its headers name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass, field
from http import HTTPStatus
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias
from urllib.parse import unquote

from firecron.base.threads import Workers, off_loop
from firecron.base.tracing import trace_of, traced
from firecron.errors import ConfigurationError

if TYPE_CHECKING:
    import flask
    from django.http import HttpRequest, HttpResponse
    from flask.blueprints import BlueprintSetupState

# --- a request and its reply, and what a door serves

MOST_BODY = 65_536


class Headers(Mapping[str, str]):
    """The headers of a request, by names in upper or lower case. The values of a repeated header are joined."""

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._values: dict[str, str] = {}
        for name, value in pairs:
            key = name.lower()
            self._values[key] = f"{self._values[key]}, {value}" if key in self._values else value

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


@dataclass(frozen=True, slots=True)
class SiteRequest:
    """The parts of a request that a site needs.

    `path` is the decoded path below the mount; it is empty for the mount without its slash. `full_path` is the path
    with the mount. `original` is the framework's own request.
    """

    method: str
    path: str
    headers: Headers = field(default_factory=Headers)
    query: str = ""
    full_path: str = ""
    scheme: str = "http"
    original: object = None


@dataclass(frozen=True, slots=True)
class SiteReply:
    """An HTTP response. In reply to HEAD the door leaves the body out."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


def all_headers(reply: SiteReply) -> dict[str, str]:
    """Return the headers, with the body's length. A 304 has none: it would be that of the 200."""
    length = {} if reply.status == HTTPStatus.NOT_MODIFIED else {"Content-Length": str(len(reply.body))}
    return {**reply.headers, **length}


# The threads of a door, in sets: so the page opens while all readers wait for a database that doesn't reply, and is
# read while all workers run jobs.
Threads: TypeAlias = Literal["receiving", "reading", "running"]


@dataclass(frozen=True, slots=True)
class Work:
    """What is left to do of a request that is served.

    `do` returns the reply, and doesn't raise. It gets the body if `has_body`: None for one of more than `MOST_BODY`
    bytes, and an empty one if it has not come whole, because half of a wish is none. Where a door can send a stream, it
    sends one instead for work that `is_stream`.
    """

    do: Callable[[bytes | None], SiteReply]
    threads: Threads = "running"
    has_body: bool = False
    is_stream: bool = False


Received: TypeAlias = SiteReply | Work


class Site(Protocol):
    """What a door serves. It is called on many threads at the same time."""

    def receive(self, request: SiteRequest) -> Received | Awaitable[Received]:
        """Return the reply, or the work that returns it. Don't raise. An awaitable is only for a door of ASGI."""


# --- what every door does


def _receive(site: Site, request: SiteRequest) -> Received | Awaitable[Received]:
    with traced(trace_of(request.headers)):
        return site.receive(request)


def _do(work: Work, request: SiteRequest, body: bytes | None) -> SiteReply:
    with traced(trace_of(request.headers)):
        return work.do(body)


# --- ASGI

# ASGI's own form: the fields depend on the "type".
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

_FEW = 8


class StreamSender(Protocol):
    """Sends the streams of a site."""

    def serving(self) -> None:
        """Note that a request is served now. Called on the event loop, for each request that is not refused."""

    async def stream(self, method: str, receive: Receive, send: Send) -> None:
        """Send the response to a request for a stream."""

    def end(self) -> None:
        """End all streams at once."""


class AsgiApp:
    """A site as an ASGI application. At most `workers` runs go on at the same time.

    `life` is entered and left with the server's lifespan. Without `streams` there are none.
    """

    def __init__(
        self,
        site: Site,
        workers: int,
        life: AbstractAsyncContextManager[object] | None = None,
        streams: StreamSender | None = None,
    ) -> None:
        self._site = site
        self._life = life or nullcontext()
        self._streams = streams
        self._threads: dict[Threads, Workers] = {
            "receiving": Workers(_FEW),
            "reading": Workers(_FEW),
            "running": Workers(workers),
        }

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await self._serve(scope, receive, send)
            case "lifespan":
                await _lifespan(self._life, receive, send)
            case "websocket":
                await receive()
                await send({"type": "websocket.close", "code": 1000})
            case other:
                raise ValueError(f"the ASGI scope {other!r} is not supported: firecron serves http")

    def end(self) -> None:
        """End all streams at once, as a server's signal does. For a server that is stopped otherwise."""
        if self._streams is not None:
            self._streams.end()

    async def _serve(self, scope: Message, receive: Receive, send: Send) -> None:
        request, context = _request(scope), copy_context()
        call = lambda: context.run(_receive, self._site, request)  # noqa: E731
        received = await off_loop(call, self._threads["receiving"].submit)
        if isawaitable(received):
            received = await received
        if isinstance(received, Work):
            work = received
            if self._streams is not None:
                self._streams.serving()
                if work.is_stream:
                    await self._streams.stream(request.method, receive, send)
                    return
            body = await _asgi_body(receive) if work.has_body else None
            received = await off_loop(lambda: _do(work, request, body), self._threads[work.threads].submit)
        await send_reply(received, request.method, send)


async def send_reply(reply: SiteReply, method: str, send: Send) -> None:
    await send({"type": "http.response.start", "status": reply.status, "headers": encoded(all_headers(reply))})
    await send({"type": "http.response.body", "body": b"" if method == "HEAD" else reply.body})


def encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Return headers as ASGI wants them."""
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


async def _lifespan(life: AbstractAsyncContextManager[object], receive: Receive, send: Send) -> None:
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


async def _asgi_body(receive: Receive) -> bytes | None:
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


def _request(scope: Message) -> SiteRequest:
    path, root = scope["path"], scope.get("root_path", "")
    return SiteRequest(
        scope["method"],
        path_below(scope),
        Headers((key.decode("latin-1"), value.decode("latin-1")) for key, value in scope["headers"]),
        query=scope.get("query_string", b"").decode("latin-1"),
        full_path=_asked_path(scope) or (path if path.startswith(root) else f"{root}{path}"),
        scheme=scope.get("scheme", "http"),
        original=_original(scope),
    )


def _original(scope: Message) -> object:
    """Return Starlette's request where the site is mounted in a Starlette application, else the scope."""
    if "app" not in scope:
        return scope
    try:
        from starlette.applications import Starlette
        from starlette.requests import Request as StarletteRequest
    except ModuleNotFoundError:
        return scope
    return StarletteRequest(scope) if isinstance(scope["app"], Starlette) else scope


def path_below(scope: Message) -> str:
    """Return the request's path below the mount; empty for the mount without its slash.

    By the ASGI specification the path begins with the mount's path, `root_path`. Some frameworks leave that out: then
    `raw_path` has it before the path. Where a proxy takes its own prefix off the path, both paths begin with the rest
    of `root_path`. And some frameworks put a slash at the end of each path, which `raw_path` doesn't have.
    """
    path, root, asked = scope["path"], scope.get("root_path", "").rstrip("/"), _asked_path(scope)
    below = path if _is_below(path, root, asked or "") else _below(path, root)
    if asked is None:
        return below.rstrip("/") or below[:1]
    return below if asked.endswith("/") else below.rstrip("/")


def _asked_path(scope: Message) -> str | None:
    """Return the path as the client has sent it, but decoded; None where the server doesn't tell."""
    raw: bytes = scope.get("raw_path") or b""
    return unquote(raw.partition(b"?")[0].decode("latin-1")) or None


def _is_below(path: str, root: str, asked: str) -> bool:
    """Return whether the mount's path was taken off the path: the client has asked for both."""
    mount = asked.rstrip("/").removesuffix(path.rstrip("/"))
    return mount != asked.rstrip("/") and mount != "" and root.endswith(mount)


def _below(path: str, root: str) -> str:
    segments = root.split("/")
    for first in range(1, len(segments)):
        below = path.removeprefix("/" + "/".join(segments[first:]))
        if below != path and below[:1] in ("", "/"):
            return below
    return path


# --- a thread of the framework's


def _serve(site: Site, request: SiteRequest, read: Callable[[], bytes]) -> SiteReply:
    """Return the reply. `read` returns the body, or its beginning if it is too long."""
    received = _receive(site, request)
    assert not isinstance(received, Awaitable), "the site knows that nothing can wait here"
    if isinstance(received, SiteReply):
        return received
    return _do(received, request, _body(request, read) if received.has_body else None)


def _body(request: SiteRequest, read: Callable[[], bytes]) -> bytes | None:
    try:
        body = read()
    except OSError:
        return b""  # a server's or a framework's, for a client that has left
    if len(body) > MOST_BODY:
        return None
    # A server may take the end of a connection for that of the body.
    return body if request.headers.get("content-length", "") in ("", str(len(body))) else b""


# --- Flask

_METHODS = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"]


def make_blueprint(site: Site, name: str, endpoint: str) -> flask.Blueprint:
    """Return the blueprint. Flask needs a different `name` for each one in an application.

    Raise ConfigurationError if Flask is not installed.
    """
    try:
        import flask
    except ModuleNotFoundError as error:
        if error.name != "flask":
            raise
        raise ConfigurationError("Flask is not installed: pip install 'firecron[flask]'") from None

    def serve(path: str | None = "") -> flask.Response:
        asked = flask.request
        request = SiteRequest(
            asked.method,
            "" if path is None else f"/{path}",
            Headers(asked.headers.items()),
            query=asked.query_string.decode("latin-1"),
            full_path=f"{asked.script_root}{asked.path}",
            scheme=asked.scheme,
            original=asked,
        )
        # Where the program has read the body before, as some log it, Flask has kept it.
        reply = _serve(site, request, lambda: asked.stream.read(MOST_BODY + 1) or asked.get_data())
        return flask.Response(reply.body, reply.status, all_headers(reply))

    blueprint = flask.Blueprint(name, __name__)
    for rule in ("/", "/<path:path>"):
        # Two slashes are nothing here: Flask would redirect them to an absolute URL, which a proxy may not know.
        blueprint.add_url_rule(
            rule, endpoint, serve, methods=_METHODS, merge_slashes=False, provide_automatic_options=False
        )

    def add_mount(state: BlueprintSetupState) -> None:
        # Else Flask itself would redirect to an absolute URL.
        if state.url_prefix:
            state.add_url_rule(
                "",
                "mount",
                lambda: serve(None),
                methods=_METHODS,
                strict_slashes=True,
                provide_automatic_options=False,
            )

    blueprint.record(add_mount)
    return blueprint


# --- Django


def make_urls(site: Site) -> list[object]:
    """Return the patterns. Raise ConfigurationError if Django is not installed."""
    try:
        from django.http import HttpResponse
        from django.urls import re_path
        from django.views.decorators.csrf import csrf_exempt
    except ModuleNotFoundError as error:
        if error.name != "django":
            raise
        raise ConfigurationError("Django is not installed: pip install django") from None

    def serve(asked: HttpRequest, path: str) -> HttpResponse:
        request = SiteRequest(
            asked.method or "",
            f"/{path}",
            Headers(asked.headers.items()),
            query=asked.META.get("QUERY_STRING", ""),
            full_path=asked.path,
            scheme=asked.scheme or "http",
            original=asked,
        )
        reply = _serve(site, request, lambda: asked.read(MOST_BODY + 1))
        body = b"" if asked.method == "HEAD" else reply.body
        return HttpResponse(body, status=reply.status, headers=all_headers(reply))

    return [re_path(r"^(?P<path>.*)$", csrf_exempt(serve))]
