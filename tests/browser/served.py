"""A page behind a real server, with the database of the test: what the browser's tests look at."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import requests
import uvicorn
from playwright.sync_api import Locator, Page, expect
from tests.page.paging import OWN, attend, declare

from firecron import Access, FireCron, Run, distributed_cron
from firecron.errors import FirecronError
from rtdb_emulator.pytest_plugin import Rtdb

ACTING = Access("ops@example.com", can_act=True)
JOBS = (("digest", "0 9 * * *"), ("invoices", "*/15 * * * *"), ("cleanup", "30 2 * * *"))
LOCK = {
    "acquiredAt": 1794992400123,
    "expiresAt": 1794992460123,
    "releasedAt": 1794992401123,
    "holder": "fd8vTbinVRUGgjv7",
    "instanceId": "api-00042-kex",
    "instance": "00bf4b",
    "slot": "2026-11-18T09:00:00Z",
    "outcome": "succeeded",
    "fence": 1794992400123,
    "renews": True,
}


@dataclass
class Served:
    """The address of a page, and its jobs: `digest` runs until the test lets it go."""

    url: str
    rtdb: Rtdb
    crons: FireCron
    server: uvicorn.Server
    thread: threading.Thread
    end_streams: Callable[[], None]
    may_end: threading.Event = field(default_factory=threading.Event)
    has_begun: threading.Event = field(default_factory=threading.Event)
    runs: list[threading.Thread] = field(default_factory=list)

    def claim(self, days: int = 0, crons: FireCron | None = None) -> None:
        """Claim the tick of `digest` so many days ago, in a thread; the run goes on until `let_go`."""
        day = datetime.now(UTC) - timedelta(days=days + 1)
        slot = day.replace(hour=9, minute=0, second=0, microsecond=0)

        def run() -> None:
            with suppress(FirecronError):  # the run of a lock that was taken away is lost
                (crons or self.crons).registry.trigger("digest", slot=slot)

        self.runs.append(threading.Thread(target=run))
        self.runs[-1].start()

    def pause(self) -> None:
        """Pause `digest`, as another visitor of the page does."""
        reply = requests.post(f"{self.url}api/jobs/digest/pause", json={}, headers=OWN, timeout=10)
        assert reply.status_code == 200, reply.text

    def stop(self) -> None:
        """End the server at once, with all streams: on its thread it hears no signal. Return when it has ended."""
        self.server.should_exit = True
        self.end_streams()
        self.thread.join()

    def let_go(self) -> None:
        """Let the runs of `digest` end, and wait for it."""
        self.may_end.set()
        for run in self.runs:
            run.join()
        self.runs.clear()
        self.may_end.clear()

    def another(self) -> FireCron:
        """Another instance with the same job."""
        return _instance(self.may_end, self.has_begun)


def _instance(may_end: threading.Event, has_begun: threading.Event, name: str = "digest") -> FireCron:
    @distributed_cron(name, "0 9 * * *")
    def digest(run: Run) -> None:
        has_begun.set()
        may_end.wait(30)
        run.note("1,204 mails")

    return FireCron(digest, enabled=False)


@contextmanager
def served(
    rtdb: Rtdb, port: int = 0, jobs: tuple[tuple[str, str], ...] = JOBS, name: str = "digest", **access: Any
) -> Iterator[Served]:
    """The page of an instance that could run the job of this name, over a database with these jobs."""
    now = int(time.time() * 1000)
    for job, line in jobs:
        declare(rtdb, job, line, since=now, declared_at=now)
    if jobs:
        attend(rtdb, *(job for job, _ in jobs))
    may_end, has_begun = threading.Event(), threading.Event()
    crons = _instance(may_end, has_begun, name)
    app = crons.status_app(**(access or {"access": lambda visitor: ACTING}))
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error", log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.005)
    [listening] = server.servers[0].sockets
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
    page = Served(url, rtdb, crons, server, thread, app.end, may_end, has_begun)
    try:
        yield page
    finally:
        page.let_go()
        page.stop()
        crons.stop()


def row(page: Page, job: str) -> Locator:
    return page.locator(".jobs > [role=row]", has=page.locator(".name", has_text=re.compile(f"^{job}$")))


def is_live(page: Page) -> None:
    expect(page.locator("#live")).to_have_text("live")


def width(page: Page) -> int:
    found: int = page.evaluate("() => document.documentElement.scrollWidth")
    return found
