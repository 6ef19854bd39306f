"""The page as an ASGI application: served alone, its threads, and what is no request."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.page.paging import Page, asgi_call

from firecron import FireCron, distributed_cron
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


def test_a_socket_is_closed(rtdb: Rtdb) -> None:
    """The page has no WebSocket, and says so in order."""
    sent: list[dict[str, Any]] = []

    async def main() -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "websocket.connect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await Page().app({"type": "websocket", "path": "/"}, receive, send)

    asyncio.run(main())
    assert [message["type"] for message in sent] == ["websocket.close"]


def test_other_protocols_are_refused(rtdb: Rtdb) -> None:
    """What is neither is an error of the server's."""
    with pytest.raises(ValueError, match="serves http"):
        asyncio.run(Page().app({"type": "carrier-pigeon"}, None, None))


def test_a_path_that_already_lacks_its_mount_is_right(rtdb: Rtdb) -> None:
    """Some servers take the mount off the path, and say it beside."""
    app = Page().app
    for path, root in (("/crons/page.css", "/crons"), ("/page.css", "/crons"), ("/page.css", ""), ("/page.css", "/")):
        assert asgi_call(app, "GET", path, root_path=root).status == 200
