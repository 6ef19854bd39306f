"""Starts and stops that come in each other's way."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.simulation.world import NAME, START
from tests.unit.threads import PATIENCE, ended_stops

from firecron import FireCron, distributed_cron
from firecron.settings import load
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
