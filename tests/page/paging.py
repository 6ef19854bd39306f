"""Pages for tests: raw requests over each framework, and a database with jobs in it."""

from __future__ import annotations

import asyncio
import base64
import functools
import io
import json
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, ParamSpec, TypeAlias
from urllib.parse import quote
from uuid import uuid4

from flask import Flask
from tests.simulation.chance import Chance

from firecron import Access, FireCron
from firecron.base.clocks import Timing
from firecron.base.events import Event
from firecron.cron.schedule import Schedule
from firecron.jobs.catalogue import CatalogueEntry
from firecron.settings import load
from rtdb_emulator.pytest_plugin import Rtdb

P = ParamSpec("P")
Shell: TypeAlias = Literal["asgi", "flask", "django"]
# What each framework mounts, as a FireCron's methods are named.
MAKES: dict[Shell, str] = {"asgi": "app", "flask": "blueprint", "django": "urls"}
MOUNT = "/crons"
# What the page's own script sends with a POST.
OWN = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}
OPEN: dict[str, Any] = {"open_to_all": "read"}
WHO = "ops@example.com"
ACTING: dict[str, Any] = {"access": lambda visitor: Access(WHO, can_act=True)}


def on_a_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test on an event loop of its own."""

    @functools.wraps(test)
    def run(*fixtures: P.args, **parameters: P.kwargs) -> None:
        asyncio.run(test(*fixtures, **parameters))

    return run


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.raw)

    @property
    def said(self) -> tuple[int, str]:
        """The status, and the word for what came of it, or for what was wrong."""
        return self.status, self.body.get("error") or self.body["result"]


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def asgi_call(app: Any, method: str, path: str, /, *sent: Any, **scope: Any) -> Reply:
    """One request to an ASGI application, on an event loop of its own."""
    return asyncio.run(asgi_request(app, method, path, *sent, **scope))


async def asgi_request(
    app: Any, method: str, path: str, /, headers: Iterable[tuple[str, str]] = (), body: bytes = b"", **scope: Any
) -> Reply:
    """One request to an ASGI application. The client leaves if it has said more than it sends (Content-Length)."""
    sent: list[dict[str, Any]] = []
    headers = list(headers)
    whole: list[dict[str, Any]] = [
        {"type": "http.request", "body": part, "more_body": True} for part in (body[:10], body[10:])
    ]
    leaves = any(name == "Content-Length" and int(value) > len(body) for name, value in headers)
    coming = [*whole, {"type": "http.disconnect"}] if leaves else [whole[0], {**whole[1], "more_body": False}]

    async def receive() -> dict[str, Any]:
        return coming.pop(0)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
    path, _, query = path.partition("?")
    made = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": quote(path).encode(),
        "query_string": query.encode(),
        "headers": raw,
        "root_path": "",
        "scheme": "http",
        "client": ("127.0.0.1", 1),
        **scope,
    }
    await app(made, receive, send)
    start, *rest = sent
    shown = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
    return Reply(start["status"], shown, b"".join(part["body"] for part in rest))


def wsgi_call(
    app: Any, method: str, path: str, headers: Iterable[tuple[str, str]] = (), body: bytes = b"", script: str = ""
) -> Reply:
    """One request to a WSGI application, with the bytes on the way as a server passes them on."""
    started: list[tuple[str, list[tuple[str, str]]]] = []
    path, _, query = path.partition("?")
    names = {"content-type": "CONTENT_TYPE", "content-length": "CONTENT_LENGTH"}
    environ: dict[str, Any] = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": script,
        "PATH_INFO": path.encode().decode("latin-1"),
        "QUERY_STRING": query,
        "SERVER_NAME": "page.example",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": io.StringIO(),
        "wsgi.version": (1, 0),
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, value in headers:
        environ[names.get(name.lower(), f"HTTP_{name.upper().replace('-', '_')}")] = value
    sent = app(environ, lambda status, given, error=None: started.append((status, given)))
    raw = b"".join(sent)
    getattr(sent, "close", lambda: None)()
    [(status, given)] = started
    return Reply(int(status.split()[0]), {name.lower(): value for name, value in given}, raw)


def django_app(patterns: list[Any], mount: str = MOUNT) -> Any:
    """A Django application with these patterns alone, mounted as a program does."""
    import django
    from django.conf import settings
    from django.core.handlers.wsgi import WSGIHandler
    from django.urls import include, path

    if not settings.configured:
        settings.configure(
            ALLOWED_HOSTS=["*"],
            SECRET_KEY="x" * 50,
            MIDDLEWARE=["django.middleware.common.CommonMiddleware", "django.middleware.csrf.CsrfViewMiddleware"],
            LOGGING_CONFIG=None,
        )
        django.setup()
    module = ModuleType(f"urls_{uuid4().hex}")
    module.__dict__["urlpatterns"] = [path(f"{mount[1:]}/", include(patterns))]
    handler = WSGIHandler()

    def app(environ: dict[str, Any], start: Any) -> Any:
        # The tests have many pages in one process; a program has one.
        from django.urls import clear_url_caches, set_urlconf

        sys.modules[module.__name__] = module
        settings.ROOT_URLCONF = module.__name__
        clear_url_caches()
        set_urlconf(None)
        return handler(environ, start)

    return app


class Served:
    """One instance with what it serves, its page or its triggers, mounted in a framework, and how that is called.

    `events` are what it said.
    """

    def __init__(self, crons: FireCron, what: Literal["status", "trigger"], shell: Shell, mount: str, **access: Any):
        self.crons = crons
        self.events: list[Event] = []
        crons.events.subscribe(self.events.append)
        self._mount = mount
        self.app: Any = None
        self.wsgi: Any = None
        make = getattr(crons, f"{what}_{MAKES[shell]}")
        if shell == "asgi":
            self.app = make(**access)
        elif shell == "flask":
            flask = Flask("test")
            flask.register_blueprint(make(**access), url_prefix=mount)
            self.wsgi = flask.wsgi_app
        else:
            self.wsgi = django_app(make(**access), mount)

    def call(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b"", **scope: Any
    ) -> Reply:
        given = (headers or {}).items()
        if self.wsgi is not None:
            return wsgi_call(self.wsgi, method, f"{self._mount}{path}", given, body)
        return asgi_call(self.app, method, f"{self._mount}{path}", given, body, **{"root_path": self._mount, **scope})

    def said(self, slug: str) -> list[Event]:
        return [event for event in self.events if event.slug == slug]


class Page(Served):
    """One instance with a page."""

    def __init__(
        self,
        *jobs: object,
        shell: Shell = "asgi",
        settings: Mapping[str, Any] | None = None,
        timing: Timing | None = None,
        **access: Any,
    ) -> None:
        crons = FireCron(*jobs, enabled=False, settings=load(**(settings or {})), timing=timing, chance=Chance())
        super().__init__(crons, "status", shell, MOUNT, **(access or OPEN))

    def call(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b"", **scope: Any
    ) -> Reply:
        return super().call(method, path, {"Host": "page.example", **(headers or {})}, body, **scope)

    def get(self, path: str, headers: Mapping[str, str] | None = None, **scope: Any) -> Reply:
        return self.call("GET", path, headers, **scope)

    def post(self, path: str, body: object = None, headers: Mapping[str, str] | None = None, **scope: Any) -> Reply:
        """A POST as the page's own script sends it."""
        return self.call("POST", path, {**OWN, **(headers or {})}, json.dumps(body or {}).encode(), **scope)


def until(is_so: Callable[[], bool], what: str) -> None:
    """Return once it is so: some things happen beside the reply."""
    ends = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < ends, f"it never came to this: {what}"
        time.sleep(0.005)


def now() -> int:
    return int(time.time() * 1000)


def declare(rtdb: Rtdb, name: str, line: str = "0 9 * * *", **fields: Any) -> None:
    """Put a job into the catalogue, as a program that has it does, and into a group that is alive."""
    schedule = fields.pop("schedule", None) or Schedule(line, fields.pop("timezone", "UTC"))
    declared = CatalogueEntry(
        **{
            "name": name,
            "schedule": schedule,
            "grace": 60_000,
            "overlap": "skip",
            "catch_up": "skip",
            "once_per_tick": True,
            "disabled": False,
            "expected_runtime": None,
            "alert_after": 1,
            "role": None,
            "where": "shop.jobs:digest (shop/jobs.py:7)",
            "ticks": True,
            "service": "shop",
            "revision": "shop-00042",
            "since": 1_600_000_000_000,
            "declared_at": 1_600_000_000_000,
            **fields,
        }
    )
    rtdb.set(f"/cron-jobs/{name}", declared.to_node())


def attend(rtdb: Rtdb, *names: str, service: str = "shop") -> None:
    """Let a live group of instances have these jobs."""
    at = now()
    group = {"seenAt": at, "firstSeenAt": at - 60_000, "service": service, "jobs": " ".join(names)}
    rtdb.set("/cron-groups/group-1", group)


def declare_live(rtdb: Rtdb, *names: str) -> None:
    """Put jobs into the catalogue that a live group of instances has since just now."""
    for name in names:
        declare(rtdb, name, since=now())
    attend(rtdb, *names)
