"""`/api/events` under ASGI: what is sent, when it ends, and what fifty browsers cost."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.page.paging import Page, asgi_call, declare_live, on_a_loop, until

from firecron.page import live as streaming
from firecron.page.live import MOST_VIEWERS, Viewer, end_with_process
from firecron.testing import FakeTiming
from rtdb_emulator.pytest_plugin import Rtdb

BOUND = 20.0


class Browser:
    """One that has opened the stream; `sent` is what it got."""

    def __init__(self, app: Any, method: str = "GET") -> None:
        self.sent: list[dict[str, Any]] = []
        self.changed = asyncio.Condition()
        self.left = asyncio.Event()
        scope = {"type": "http", "method": method, "path": "/api/events", "headers": [(b"host", b"page.example")]}
        self.task = asyncio.ensure_future(app(scope, self.receive, self.send))

    async def receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        async with self.changed:
            self.sent.append(message)
            self.changed.notify_all()

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def text(self) -> str:
        return b"".join(message.get("body", b"") for message in self.sent).decode()

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Return once it is so, by what was sent."""
        async with asyncio.timeout(BOUND), self.changed:
            await self.changed.wait_for(is_so)

    async def ended(self) -> None:
        async with asyncio.timeout(BOUND):
            await self.task


def is_over(browser: Browser) -> bool:
    return browser.sent[-1] == {"type": "http.response.body", "body": b""}


@pytest.fixture
def page(rtdb: Rtdb) -> Page:
    declare_live(rtdb, "digest")
    return Page()


@asynccontextmanager
async def browsers(page: Page, number: int = 1) -> AsyncIterator[list[Browser]]:
    """So many browsers, each with its first event; the streams end with the block."""
    opened = [Browser(page.app) for _ in range(number)]
    try:
        for one in opened:
            await one.until(lambda one=one: "event: jobs" in one.text)  # type: ignore[misc]  # bound at once
        yield opened
    finally:
        page.app.end()
        await asyncio.gather(*(one.ended() for one in opened))


@on_a_loop
async def test_a_stream_begins_with_everything_and_goes_on(rtdb: Rtdb, page: Page) -> None:
    """The first event has all jobs; a change in the database comes as the next one."""
    async with browsers(page) as [browser]:
        headers = dict(browser.sent[0]["headers"])
        assert headers[b"content-type"] == b"text/event-stream"
        assert headers[b"cache-control"] == b"no-store"
        assert b"content-length" not in headers
        assert browser.text.startswith("retry: ")
        await asyncio.to_thread(rtdb.set, "/cron-locks/digest", {"paused": True})
        await browser.until(lambda: browser.text.count("event: jobs") == 2)
        last = browser.text.strip().rpartition("data: ")[2]
        assert [row["verdict"] for row in json.loads(last)["jobs"]] == ["paused"]
    assert is_over(browser)


@on_a_loop
async def test_a_quiet_stream_says_that_it_is_alive(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing changes, a comment keeps proxies from closing the connection."""
    monkeypatch.setattr(streaming, "SILENCE", 0.01)

    async with browsers(page) as [browser]:
        await browser.until(lambda: browser.text.count(": alive\n\n") >= 3)


@on_a_loop
async def test_a_stream_ends_by_itself_in_time(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends in order before Cloud Run would cut it, and its place is free again."""
    monkeypatch.setattr(streaming, "LASTS", 0.05)

    browser = Browser(page.app)
    await browser.ended()
    assert is_over(browser)


@on_a_loop
async def test_a_browser_that_leaves_is_forgotten(page: Page) -> None:
    """Its stream ends without another word, and its place is free: more may come one after another than at once."""
    for _ in range(MOST_VIEWERS + 1):
        browser = Browser(page.app)
        await browser.until(lambda: "retry: " in browser.text)  # noqa: B023  # called at once
        browser.left.set()
        await browser.ended()
        assert (browser.status, is_over(browser)) == (200, False)
    page.app.end()


@pytest.mark.parametrize("turns", range(8))
@on_a_loop
async def test_a_message_that_comes_with_the_end_delays_nothing(turns: int) -> None:
    """However many turns of the loop lie between a message and the end, the stream ends."""
    begun, left = asyncio.Event(), asyncio.Event()

    async def receive() -> dict[str, Any]:
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        if message.get("body"):
            begun.set()

    stream = streaming.EventStream(send, [])
    running = asyncio.ensure_future(stream.run(Viewer(stream.push), receive))
    await begun.wait()
    stream.push(b"a message")
    for _ in range(turns):
        await asyncio.sleep(0)
    left.set()
    async with asyncio.timeout(BOUND):
        await running


@on_a_loop
async def test_a_browser_that_takes_nothing_does_not_delay_the_end(page: Page) -> None:
    """The end of the process doesn't wait for a client whose connection is full."""

    class Stuck(Browser):
        async def send(self, message: dict[str, Any]) -> None:
            await super().send(message)
            if len(self.sent) > 1:
                await asyncio.Event().wait()

    browser = Stuck(page.app)
    await browser.until(lambda: len(browser.sent) == 2)
    page.app.end()
    await browser.ended()


@on_a_loop
async def test_a_connection_that_breaks_is_no_error(page: Page) -> None:
    """A server may raise when the client has gone: nothing is logged, and the others go on."""

    class Broken(Browser):
        async def send(self, message: dict[str, Any]) -> None:
            await super().send(message)
            if len(self.sent) > 1:
                raise OSError("the client has gone")

    async with browsers(page) as [browser]:
        broken = Broken(page.app)
        await broken.ended()
        assert not is_over(browser)
    assert page.said("page.failed") == []


def test_head_opens_no_stream(page: Page) -> None:
    """HEAD says that there are streams, and takes no place."""
    assert asgi_call(page.app, "HEAD", "/api/events").status == 200


@on_a_loop
async def test_fifty_browsers_cost_what_one_costs(rtdb: Rtdb, page: Page) -> None:
    """Fifty streams are one stream of the database and one look; the fifty-first browser is told to poll, and polling
    reads nothing more.
    """
    async with browsers(page) as [_]:
        # A thread of its own opens it, maybe only after the first look.
        await asyncio.to_thread(until, lambda: page.crons.database.streams.open == 1, "the stream is open")
        await asyncio.to_thread(page.get, "/api/jobs")
        for_one = rtdb.count()
        more = [Browser(page.app) for _ in range(MOST_VIEWERS - 1)]
        for one in more:
            await one.until(lambda one=one: "event: jobs" in one.text)  # type: ignore[misc]  # bound at once
        refused = Browser(page.app)
        await refused.ended()
        assert refused.status == 503
        assert rtdb.count() == for_one
        assert rtdb.count(path="/cron-locks", header=("Accept", "text/event-stream")) == 1
        page.app.end()
        for one in more:
            await one.ended()


@pytest.mark.usefixtures("page")
def test_fifty_polling_browsers_cost_what_one_costs(rtdb: Rtdb) -> None:
    """Fifty who ask at once share one read of each node."""
    page = Page(timing=FakeTiming(wall=time.time() * 1000))
    with ThreadPoolExecutor(50) as pool:
        replies = list(pool.map(lambda _: page.get("/api/jobs"), range(50)))
    assert {reply.status for reply in replies} == {200}
    assert len({reply.headers["etag"] for reply in replies}) == 1
    for path in ("/cron-jobs", "/cron-groups", "/cron-runs/*", "/cron-locks"):
        assert rtdb.count(path=path) == 1, path


# --- the end of the process


class Ending:
    """Something that has to end; `ended` counts how often it was told."""

    def __init__(self) -> None:
        self.ended = 0

    def end(self) -> None:
        self.ended += 1


@pytest.fixture
def sigterm() -> Iterator[None]:
    """The handler of SIGTERM is what it was once the test is over."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("sigterm")
def test_the_servers_handler_is_called_after_the_streams_were_ended() -> None:
    """At the signal, the streams are told first, and then the server's own handler is called as ever; a second call
    changes nothing, and what is gone is not told.
    """
    seen: list[tuple[int, int]] = []
    one, gone = Ending(), Ending()
    signal.signal(signal.SIGTERM, lambda number, frame: seen.append((number, one.ended)))
    for thing in (one, gone, one):
        end_with_process(thing)
    del gone, thing
    signal.raise_signal(signal.SIGTERM)
    assert (seen, one.ended) == ([(signal.SIGTERM, 1)], 1)
    # As a server does that starts later in the same process.
    signal.signal(signal.SIGTERM, lambda number, frame: seen.append((number, -one.ended)))
    end_with_process(one)
    signal.raise_signal(signal.SIGTERM)
    assert (seen[1:], one.ended) == ([(signal.SIGTERM, -2)], 2)


@pytest.mark.usefixtures("sigterm")
@pytest.mark.parametrize("handler", [signal.SIG_DFL, signal.SIG_IGN])
def test_a_signal_without_a_handler_is_left_as_it_is(handler: signal.Handlers) -> None:
    """A process that a signal ends at once, or that ignores it, does so still."""
    signal.signal(signal.SIGTERM, handler)
    end_with_process(Ending())
    assert signal.getsignal(signal.SIGTERM) is handler
