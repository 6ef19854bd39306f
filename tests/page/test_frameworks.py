"""The page and the triggers below a mount, as each framework mounts them.

Litestar, Quart and aiohttp are not installed for the tests: what they make of a request was seen, and is made here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from fastapi import FastAPI
from flask import Flask
from starlette.applications import Starlette
from starlette.routing import Mount
from tests.page.paging import MOUNT, OPEN, Reply, asgi_call, declare_live, django_app, wsgi_call
from tests.simulation.chance import Chance

from firecron import FireCron
from firecron.settings import load
from rtdb_emulator.pytest_plugin import Rtdb

Call = Callable[[str], Reply]
Making = Callable[[FireCron, str], Call]

PREFIX = "/behind"
CONTENT = {
    "/": "text/html",
    "/page.js": "text/javascript",
    "/page.css": "text/css",
    "/icon.svg": "image/svg+xml",
    "/health": "application/json",
    "/api/jobs": "application/json",
    "/api/jobs/digest": "application/json",
}


def _asgi(app: Any, **scope: Any) -> Call:
    def call(path: str) -> Reply:
        method = "POST" if path == "/digest" else "GET"
        return asgi_call(app, method, f"{MOUNT}{path}", **scope)

    return call


def _mounted(crons: FireCron, door: str) -> Any:
    return crons.status_app(**OPEN) if door == "page" else crons.trigger_app(trust_cloud_run_iam=True)


def _starlette(crons: FireCron, door: str) -> Call:
    return _asgi(Starlette(routes=[Mount(MOUNT, app=_mounted(crons, door))]))


def _fastapi(crons: FireCron, door: str) -> Call:
    app = FastAPI()
    app.mount(MOUNT, _mounted(crons, door))
    return _asgi(app)


def _litestar(crons: FireCron, door: str) -> Call:
    """`Litestar([asgi("/crons", is_mount=True)(mounted)])`, as seen of Litestar 2.25.0."""

    async def litestar(scope: dict[str, Any], receive: Any, send: Any) -> None:
        below = scope["path"].removeprefix(MOUNT).strip("/")
        seen = {**scope, "path": f"/{below}/" if below else "/", "app": object()}
        await _mounted(crons, door)(seen, receive, send)

    return _asgi(litestar)


def _quart(crons: FireCron, door: str) -> Call:
    """Beside a Quart in Hypercorn's `DispatcherMiddleware`, as seen of Hypercorn 0.18.0 with Quart 0.22.0."""
    return _asgi(_mounted(crons, door), root_path=MOUNT)


def _quart_behind(crons: FireCron, door: str) -> Call:
    """The same behind a proxy that takes its prefix off the path, which Hypercorn is told by `--root-path`."""
    return _asgi(_mounted(crons, door), root_path=f"{PREFIX}{MOUNT}")


def _aiohttp(crons: FireCron, door: str) -> Call:
    """`aiohttp_asgi.ASGIResource(mounted, root_path="/crons")`, as seen of aiohttp-asgi 0.7.1 with aiohttp 3.14.5."""

    def call(path: str) -> Reply:
        return _asgi(_mounted(crons, door), root_path=MOUNT, raw_path=f"{MOUNT}{path}?x=1".encode())(path)

    return call


def _flask(crons: FireCron, door: str) -> Call:
    app = Flask("test")
    if door == "page":
        app.register_blueprint(crons.status_blueprint(**OPEN), url_prefix=MOUNT)
    else:
        app.register_blueprint(crons.trigger_blueprint(trust_cloud_run_iam=True), url_prefix=MOUNT)
    return _wsgi(app.wsgi_app)


def _django(crons: FireCron, door: str) -> Call:
    patterns = crons.status_urls(**OPEN) if door == "page" else crons.trigger_urls(trust_cloud_run_iam=True)
    return _wsgi(django_app(patterns))


def _wsgi(app: Any) -> Call:
    return lambda path: wsgi_call(app, "POST" if path == "/digest" else "GET", f"{MOUNT}{path}")


ASGI: list[Making] = [_starlette, _fastapi, _litestar, _quart, _quart_behind, _aiohttp]
ALL: list[Making] = [*ASGI, _flask, _django]


@pytest.fixture
def crons(rtdb: Rtdb) -> FireCron:
    declare_live(rtdb, "digest")
    return FireCron(enabled=False, settings=load(), chance=Chance())


@pytest.mark.parametrize("make", ALL)
def test_each_framework_serves_the_page_below_its_mount(crons: FireCron, make: Making) -> None:
    """All paths of the page are what they are; the mount without its slash leads to the page."""
    call = make(crons, "page")
    replies = {path: call(path) for path in CONTENT}
    assert {path: reply.headers["content-type"].partition(";")[0] for path, reply in replies.items()} == CONTENT
    assert {reply.status for reply in replies.values()} == {200}
    assert call("/nothing").status == 404
    assert call("/api/jobs/").status == 404, "not even where frameworks put a slash there themselves"
    redirect = call("")
    assert (redirect.status in (301, 307), redirect.headers["location"].endswith("/crons/")) == (True, True)


@pytest.mark.parametrize("make", ALL)
def test_each_framework_serves_the_triggers_below_its_mount(crons: FireCron, make: Making) -> None:
    """The overview, the health check, and a job; the mount without its slash is, or leads to, the overview."""
    call = make(crons, "trigger")
    assert [call(path).status for path in ("/", "/health", "/digest")] == [200, 200, 404]
    redirects: dict[Making, int] = {_starlette: 307, _fastapi: 307, _django: 301}
    assert call("").status == redirects.get(make, 200)
    assert json.loads(call("/digest").raw)["result"] == "unknown_job"
    assert "digest" in json.loads(call("/digest").raw)["message"]
