"""Starts and stops that come in each other's way."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.simulation.world import NAME, START
from tests.unit.threads import PATIENCE, ended_stops

from firecron import Event, FireCron, Run, distributed_cron, leader
from firecron.base.clocks import Deadline
from firecron.errors import NoCredentials
from firecron.jobs import decorator as declarations
from firecron.settings import load
from firecron.store import Snapshot
from firecron.testing import FakeTiming, MemoryStore


@pytest.fixture
def crons() -> FireCron:
    timing = FakeTiming(wall=START)
    job = distributed_cron(NAME, "* * * * *")(lambda: None)
    return FireCron(job, store=MemoryStore(timing.now), timing=timing, settings=load(), enabled=True)


def is_ticking(crons: FireCron) -> bool:
    return crons.registry.state(NAME) == "ticking"


def test_a_start_that_is_cancelled_is_undone(crons: FireCron, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that is cancelled while it enters leaves nothing that ticks."""
    begun, go_on = threading.Event(), threading.Event()
    check = crons.check_jobs

    def slowly() -> None:
        begun.set()
        assert go_on.wait(PATIENCE)
        check()

    monkeypatch.setattr(crons, "check_jobs", slowly)

    async def main() -> None:
        task = asyncio.ensure_future(crons.__aenter__())
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        task.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert not is_ticking(crons)
    crons.start()
    assert is_ticking(crons)
    crons.stop()


def test_a_start_that_is_cancelled_is_undone_when_it_is_done(crons: FireCron, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop before the start has begun would find nothing to stop, so it comes after it."""
    begun, go_on, order = threading.Event(), threading.Event(), list[str]()
    start, stop, wait = crons.start, crons.engine.stop, asyncio.wait

    def slowly() -> FireCron:
        begun.set()
        assert go_on.wait(PATIENCE)
        order.append("start")
        return start()

    def stopping(ends: float) -> None:
        order.append("stop")
        stop(ends)

    def waiting(tasks: list[asyncio.Future[object]]) -> object:
        go_on.set()
        return wait(tasks)

    monkeypatch.setattr(crons, "start", slowly)
    monkeypatch.setattr(crons.engine, "stop", stopping)
    monkeypatch.setattr(asyncio, "wait", waiting)

    async def main() -> None:
        task = asyncio.ensure_future(crons.__aenter__())
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()

    asyncio.run(main())
    assert order == ["start", "stop"]
    assert not is_ticking(crons)


class Refusing(MemoryStore):
    """One that no request reaches: no access token could be had."""

    def timestamp(self, path: str, deadline: Deadline) -> int:
        raise NoCredentials("no token")

    def merge(
        self, path: str, values: dict[str, object], deadline: Deadline, *, echo: bool = True
    ) -> dict[str, object]:
        raise NoCredentials("no token")

    def read(self, path: str, deadline: Deadline) -> Snapshot:
        raise NoCredentials("no token")


def test_one_cause_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without credentials one line says that no job runs, and why: the ticker's, beside whatever else has failed."""
    monkeypatch.setattr(declarations, "REMEMBERED", {})  # other tests' jobs
    timing = FakeTiming(wall=START)
    job = distributed_cron(NAME, "* * * * *")(lambda: None)
    stands = leader("stands", ttl=15)(lambda: None)
    crons = FireCron(job, stands, store=Refusing(timing.now), timing=timing, settings=load(), enabled=True)
    said: list[Event] = []
    failed = {slug: threading.Event() for slug in ("clock.unavailable", "heartbeat.failed", "catalogue.failed")}
    failed["lock.refused"] = threading.Event()

    def hear(event: Event) -> None:
        said.append(event)
        if event.slug in failed:
            failed[event.slug].set()

    crons.events.subscribe(hear)
    with crons:
        assert all(event.wait(PATIENCE) for event in failed.values())
    assert [event.slug for event in said if event.level >= logging.WARNING] == ["clock.unavailable"]


def test_a_second_ctrl_c_ends_what_a_server_waits_for(crons: FireCron) -> None:
    """A job and a leader that sleep are cancelled when Ctrl-C comes while the lifespan ends: the grace isn't over."""
    runs: list[Run] = []
    begun, leads = threading.Event(), threading.Event()

    @leader("leads", ttl=15)
    async def stands() -> None:
        leads.set()
        await asyncio.Event().wait()

    @distributed_cron("sleeps", "0 0 1 1 *")
    async def sleeps(run: Run) -> None:
        runs.append(run)
        begun.set()
        await asyncio.Event().wait()

    crons.registry.add(sleeps)
    crons.engine.explore(stands)

    async def main() -> str | None:
        async with crons:
            assert await asyncio.to_thread(leads.wait, PATIENCE)
            result = asyncio.ensure_future(asyncio.to_thread(crons.registry.trigger, "sleeps"))
            assert await asyncio.to_thread(begun.wait, PATIENCE)
            stopping = asyncio.get_running_loop().run_in_executor(None, runs[0].stopping.wait, PATIENCE)
            stopping.add_done_callback(lambda _: signal.raise_signal(signal.SIGINT))
        return (await result).outcome

    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        assert asyncio.run(main()) == "interrupted"
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_stop_needs_none_of_the_loops_threads(crons: FireCron) -> None:
    """Leaving the block ends at once also where jobs occupy all threads of the loop's executor."""
    go_on = threading.Event()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        async with crons:
            busy = asyncio.ensure_future(asyncio.to_thread(go_on.wait, PATIENCE))
            await asyncio.sleep(0)
        assert not is_ticking(crons)
        go_on.set()
        await busy

    asyncio.run(main())


@pytest.mark.parametrize("moment", ["check_jobs", "crons.started", "job.registered"])
def test_a_handler_may_stop_what_its_thread_starts(
    crons: FireCron, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """A stop in the middle of a start on the same thread, as by a signal's handler, ends it, and it stays so."""
    stopped: list[int] = []

    def interrupt() -> None:
        if not stopped:
            stopped.append(1)
            crons.stop()

    monkeypatch.setattr(crons, "check_jobs", interrupt if moment == "check_jobs" else crons.check_jobs)
    crons.events.subscribe(lambda event: interrupt() if event.slug == moment else None)
    crons.start()
    assert ended_stops()
    assert not is_ticking(crons)
    assert not [thread for thread in threading.enumerate() if thread.name == "firecron-ticker"]
    crons.start()
    assert is_ticking(crons)
    crons.stop()
