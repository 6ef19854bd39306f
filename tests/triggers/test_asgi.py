"""The ASGI application by itself: paths below a mount, the event loop, clients that hang up, and the lifespan."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.page.paging import Reply, asgi_call, asgi_request, on_a_loop
from tests.triggers.triggering import HEADER, NINE, TEN, Fleet, Gate, Instance, aside

from firecron import ConfigurationError, FireCron, Run, distributed_cron
from firecron.base.tracing import Trace, current_trace
from firecron.web import AsgiApp, Message, path_below
from rtdb_emulator.pytest_plugin import Rtdb


@pytest.mark.parametrize(
    ("path", "root", "status"),
    [
        ("/digest", "", 200),
        ("/cron/digest", "/cron", 200),
        ("/cron/digest", "/cron/", 200),
        ("/a/cron/digest", "/a/cron", 200),
        ("/digest", "/cron", 200),
        ("/cron/digest", "", 404),
        ("/crondigest", "/cron", 404),
    ],
)
def test_a_path_is_looked_at_below_the_mount(rtdb: Rtdb, path: str, root: str, status: int) -> None:
    """Whether the server's path has the mount's in it, as ASGI says, or not."""
    assert asgi_call(Fleet().instance().app, "POST", path, [(HEADER, NINE)], root_path=root).status == status


@pytest.mark.parametrize(
    ("path", "root", "raw", "below"),
    [
        ("/api/jobs", "/v1/api", "/v1/api/api/jobs", "/api/jobs"),
        ("/api/jobs", "/v1/api", "/api/api/jobs", "/api/jobs"),
        ("/api/jobs", "/v1/api", "/api/jobs", "/jobs"),
        ("/v1/api/api/jobs", "/v1/api", "/v1/api/api/jobs", "/api/jobs"),
        ("/health", "/cron/health", "/cron/health/health", "/health"),
        ("/health/", "/cron/health/", "/cron/health/health", "/health"),
        ("/health", "/cron/health", "/health", ""),
        ("/", "/cron", "/cron", ""),
        ("/", "/cron", "/cron/", "/"),
        ("/b c", "/a d", "/a%20d/b%20c", "/b c"),
    ],
)
def test_a_mount_is_taken_off_once(path: str, root: str, raw: str, below: str) -> None:
    """What the client has asked for shows whether the mount is in the path, also where a job has the mount's name."""
    assert path_below({"path": path, "root_path": root, "raw_path": raw.encode()}) == below


def test_the_event_loop_goes_on_while_jobs_run(rtdb: Rtdb) -> None:
    """While every worker runs a job, the loop is free, and all but runs is answered; more runs wait their turn."""
    authenticator = Gate()
    fleet = Fleet({"overlap": "allow"}, body=authenticator)
    one = fleet.instance(workers=1, max_concurrent=20)

    async def all_of_it() -> tuple[list[Reply], Reply, int]:
        # More than there are threads for anything.
        tasks = [asyncio.create_task(asgi_request(one.app, "POST", "/digest")) for _ in range(10)]
        await asyncio.to_thread(authenticator.wait)
        overview = await asyncio.wait_for(asgi_request(one.app, "GET", "/"), 20)
        running = len(fleet.runs)
        authenticator.open()
        return [await task for task in tasks], overview, running

    replies, overview, running = asyncio.run(all_of_it())
    assert (overview.body["jobs"][0]["state"], running) == ("running", 1)
    assert [reply.said for reply in replies] == [(200, "succeeded")] * 10


def test_a_run_goes_on_when_the_client_hangs_up(rtdb: Rtdb) -> None:
    """A request that is cancelled leaves its run alone: it ends under its lock, and is recorded."""
    authenticator, done = Gate(), threading.Event()
    fleet = Fleet(body=authenticator)
    one = fleet.instance()
    one.crons.events.subscribe(lambda event: done.set() if event.slug == "run.succeeded" else None)

    async def hang_up() -> None:
        task = asyncio.create_task(asgi_request(one.app, "POST", "/digest", [(HEADER, NINE)]))
        await asyncio.to_thread(authenticator.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(hang_up())
    lock: Any = rtdb.get("/cron-locks/digest")
    assert "releasedAt" not in lock
    authenticator.open()
    assert done.wait(20)
    lock = rtdb.get("/cron-locks/digest")
    assert (lock["slot"], lock["outcome"]) == (NINE, "succeeded")


def test_a_run_is_part_of_the_requests_trace(rtdb: Rtdb) -> None:
    """What is logged of a run, and by it, belongs to the request that it runs in; the next one has its own trace."""
    traces: list[object] = []
    one = Fleet(body=lambda run: traces.append(current_trace.get())).instance()
    for digit in "12":
        header = ("Traceparent", f"00-{digit * 32}-{digit * 16}-01")
        assert asgi_call(one.app, "POST", "/digest", [header]).status == 200
    assert asgi_call(one.app, "POST", "/digest").status == 200
    assert traces == [Trace("1" * 32, "1" * 16, True), Trace("2" * 32, "2" * 16, True), None]


class Server:
    """What a server does of the lifespan: it says when it starts and ends, and hears how that went."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.sent: list[dict[str, Any]] = []
        self._to_tell: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._heard = asyncio.Event()

    async def start(self) -> None:
        self._task = asyncio.create_task(self._app({"type": "lifespan"}, self._to_tell.get, self._send))
        await self._tell("lifespan.startup")

    async def stop(self) -> None:
        await self._tell("lifespan.shutdown")
        await self._task

    async def _tell(self, what: str) -> None:
        self._heard.clear()
        await self._to_tell.put({"type": what})
        await asyncio.wait_for(self._heard.wait(), 20)

    async def _send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)
        self._heard.set()


def types(server: Server) -> list[str]:
    return [message["type"] for message in server.sent]


@on_a_loop
async def test_alone_it_starts_and_stops_the_jobs(rtdb: Rtdb) -> None:
    """Served alone, jobs start and stop with the server, and async ones run on its event loop."""
    loops: list[object] = []

    @distributed_cron("digest", "0 9 * * *", lock_ttl=30)
    async def digest() -> None:
        loops.append(asyncio.get_running_loop())

    crons = FireCron(digest, enabled=True)
    app = crons.trigger_app(trust_cloud_run_iam=True)

    server = Server(app)
    await server.start()
    assert crons.registry.state("digest") == "ticking"
    reply = await asgi_request(app, "POST", "/digest", [(HEADER, NINE)])
    assert reply.said == (200, "succeeded")
    assert loops == [asyncio.get_running_loop()]
    await server.stop()
    assert types(server) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert (await asgi_request(app, "POST", "/digest", [(HEADER, TEN)])).said == (503, "stopping")
    assert crons.registry.state("digest") == "idle"


@on_a_loop
async def test_a_start_that_fails_is_told_to_the_server(rtdb: Rtdb) -> None:
    """A job that can't be started fails the server's startup, with what is wrong."""

    @distributed_cron("digest", "0 9 * * *", lock_ttl=2)
    def digest(run: Run) -> None: ...

    crons = FireCron(digest, enabled=True)

    server = Server(crons.trigger_app(trust_cloud_run_iam=True))
    await server.start()
    (message,) = server.sent
    assert message["type"] == "lifespan.startup.failed"
    with pytest.raises(ConfigurationError) as caught:
        crons.start()
    assert message["message"] == str(caught.value)


@on_a_loop
async def test_an_async_job_without_a_lifespan_has_a_loop_of_its_own(rtdb: Rtdb) -> None:
    """Where nothing was started, an async job runs on a loop of its own, and not on the one that serves."""
    loops: list[object] = []

    @distributed_cron("digest", "0 9 * * *", lock_ttl=30)
    async def digest() -> None:
        loops.append(asyncio.get_running_loop())

    one = Instance(FireCron(digest, enabled=False), "asgi", {"trust_cloud_run_iam": True})

    assert (await asgi_request(one.app, "POST", "/digest", [(HEADER, NINE)])).said == (200, "succeeded")
    assert loops != [asyncio.get_running_loop()]
    assert len(loops) == 1


def test_a_job_that_wants_to_end_the_program_fails(rtdb: Rtdb) -> None:
    """A KeyboardInterrupt or a SystemExit of a job's is its failure, and the server's loop goes on."""
    fleet = Fleet()
    one = fleet.instance()
    for error, slot in ((KeyboardInterrupt("no"), NINE), (SystemExit(3), TEN)):

        def body(run: Run, error: BaseException = error) -> None:
            raise error

        fleet.body = body
        assert asgi_call(one.app, "POST", "/digest", [(HEADER, slot)]).said == (500, "failed")
        assert asgi_call(one.app, "POST", "/digest").said == (500, "failed")


def test_a_websocket_is_closed(rtdb: Rtdb) -> None:
    """Another protocol than HTTP is turned away."""
    sent: list[Message] = []

    async def receive() -> Message:
        sent.append({"type": "websocket.connect"})
        return sent[0]

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(Fleet().instance().app({"type": "websocket", "path": "/"}, receive, send))
    assert sent == [{"type": "websocket.connect"}, {"type": "websocket.close", "code": 1000}]


def test_calls_on_many_threads_run_a_tick_once(rtdb: Rtdb) -> None:
    """The same tick asked for by two clients at the same time is one run."""
    fleet = Fleet()
    one, two = fleet.instance(), fleet.instance("flask")
    with aside(lambda: one.post(NINE)) as first:
        second = two.post(NINE)
    assert {reply.status for reply in (*first, second)} == {200}
    assert fleet.slots() == [NINE]


@pytest.mark.parametrize("when", ["startup", "shutdown"])
def test_a_life_that_fails_is_told_to_the_server(when: str) -> None:
    """What goes wrong at a start or a stop is the lifespan's answer, under its name."""

    @contextlib.asynccontextmanager
    async def life() -> AsyncIterator[None]:
        if when == "startup":
            raise ValueError("no")
        yield
        raise ValueError("no")

    sent: list[Message] = []

    async def receive() -> Message:
        return {}

    async def send(message: Message) -> None:
        sent.append(message)

    app = AsgiApp(None, 1, life())  # type: ignore[arg-type]  # a life without requests
    asyncio.run(app({"type": "lifespan"}, receive, send))
    assert sent[-1] == {"type": f"lifespan.{when}.failed", "message": "no"}
    assert len(sent) == (1 if when == "startup" else 2)


def test_a_trigger_serves_nothing_but_http() -> None:
    """A scope of a kind that a trigger doesn't know is an error that names it."""
    app = AsgiApp(None, 1)  # type: ignore[arg-type]  # without requests

    async def never() -> Message:
        raise AssertionError

    async def send(message: Message) -> None:
        raise AssertionError

    with pytest.raises(ValueError, match="scope 'telnet' is not supported: firecron serves http"):
        asyncio.run(app({"type": "telnet"}, never, send))
