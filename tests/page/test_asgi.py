"""The page as an ASGI application: served alone, and its threads."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import pytest
from tests.page.paging import Page, asgi_call

from firecron import Access, FireCron, Visitor, distributed_cron
from rtdb_emulator.pytest_plugin import Rtdb


def lives(app: Any) -> list[str]:
    """What an application says to the server's lifespan: the types of its messages."""
    sent: list[str] = []
    coming = ["lifespan.startup", "lifespan.shutdown"]

    async def receive() -> dict[str, Any]:
        return {"type": coming.pop(0)}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message["type"])

    asyncio.run(app({"type": "lifespan"}, receive, send))
    return sent


def test_alone_it_starts_and_stops_the_jobs(rtdb: Rtdb) -> None:
    """Served by itself, the jobs start and stop with the server."""

    @distributed_cron("digest", "0 9 * * *", lock_ttl=30)
    def digest() -> None: ...

    crons = FireCron(digest, enabled=True)
    slugs: list[str] = []
    crons.events.subscribe(lambda event: slugs.append(event.slug))
    assert lives(crons.status_app(open_to_all="read")) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert [slug for slug in slugs if slug in ("crons.started", "crons.stopped")] == ["crons.started", "crons.stopped"]


def test_a_start_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the jobs can't start, the server is told, and doesn't serve."""
    for variable in ("FIRECRON_DATABASE_URL", "FIREBASE_DATABASE_EMULATOR_HOST", "FIREBASE_CONFIG"):
        monkeypatch.delenv(variable, raising=False)

    @distributed_cron("digest", "0 9 * * *", lock_ttl=30)
    def digest() -> None: ...

    assert lives(FireCron(digest, enabled=True).status_app(open_to_all="read")) == ["lifespan.startup.failed"]


def test_a_path_that_already_lacks_its_mount_is_right(rtdb: Rtdb) -> None:
    """Some servers take the mount off the path, and say it beside."""
    app = Page().app
    for path, root in (("/crons/page.css", "/crons"), ("/page.css", "/crons"), ("/page.css", ""), ("/page.css", "/")):
        assert asgi_call(app, "GET", path, root_path=root).status == 200


def test_the_page_opens_while_the_database_does_not_reply(rtdb: Rtdb) -> None:
    """However many wait for the database, visitors are admitted, and get the page's files."""
    admitted = threading.Semaphore(0)

    def access(visitor: Visitor) -> Access:
        admitted.release()
        return Access("ops@example.com")

    page = Page(access=access)
    with rtdb.faults.hold() as held, ThreadPoolExecutor(20) as pool:
        waiting = [pool.submit(page.get, "/api/jobs") for _ in range(20)]
        assert all(admitted.acquire(timeout=20) for _ in waiting)
        held.wait()
        for path in ("/", "/page.js", "/page.css", "/nothing"):
            assert page.get(path).status == (404 if path == "/nothing" else 200)
        assert not any(one.done() for one in waiting)
        held.release()
    assert {one.result().status for one in waiting} == {200}


def test_access_has_the_context_of_its_request_alone(rtdb: Rtdb) -> None:
    """What the program's middleware has set for a request is there, and nothing that was set for another visitor."""
    user: ContextVar[str | None] = ContextVar("user", default=None)
    found: ContextVar[str | None] = ContextVar("found", default=None)

    def access(visitor: Visitor) -> Access:
        if found.get() is None:  # as a program does that asks for its user once
            found.set(user.get())
        return Access(found.get() or "nobody")

    page = Page(access=access)
    for name in ("ann", "bob", "cid"):
        user.set(name)
        assert page.get("/api/jobs").body["visitor"]["who"] == name
