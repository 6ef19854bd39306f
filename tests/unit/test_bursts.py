"""Very many jobs due at one instant: as many claims as workers are under way, and whatever happens, nothing is left."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import pytest
from tests.simulation.world import START, slot
from tests.unit.threads import PATIENCE, Followed, ended, named

from firecron import FireCron, Run, distributed_cron
from firecron.base.clocks import Deadline, Timing
from firecron.base.threads import OpenWork, Workers
from firecron.errors import Unavailable
from firecron.settings import load
from firecron.store import Node, Snapshot
from firecron.testing import MemoryStore

JOBS = 120
THREADS = ("firecron-worker", "firecron-ticker", "firecron-heartbeat", "firecron-keeper")


class Gated(MemoryStore):
    """A store whose writes of locks wait until they may go on; `waiting` counts them, and `is_down` lets them fail."""

    def __init__(self, now: Callable[[], int]) -> None:
        super().__init__(now)
        self.waiting = threading.Semaphore(0)
        self.opened = threading.Event()
        self.is_down = False
        self.tried: set[str] = set()

    def swap(self, path: str, etag: str, node: Node, deadline: Deadline) -> str | Snapshot:
        if path.startswith("cron-locks"):
            self.tried.add(path)
            self.waiting.release()
            assert self.opened.wait(PATIENCE)
            if self.is_down:
                raise Unavailable("down")
        return super().swap(path, etag, node, deadline)

    def wait_for(self, number: int) -> None:
        for _ in range(number):
            assert self.waiting.acquire(timeout=PATIENCE)


class Counted(Workers):
    """Workers that know what they have not done yet."""

    def __init__(self, number: int, timing: Timing) -> None:
        super().__init__(number)
        self.open_work = OpenWork(timing)

    def submit(self, work: Callable[[], object]) -> None:
        mark = object()

        def marked() -> None:
            try:
                work()
            finally:
                self.open_work.remove(mark)

        self.open_work.add(mark)
        super().submit(marked)


class Burst:
    """An instance with real threads and the default number of workers, whose jobs are all due."""

    def __init__(self) -> None:
        self.timing = Followed(wall=START)
        self.store = Gated(self.timing.now)
        self.before = {name: named(name) for name in THREADS}
        self.begun: list[str] = []
        settings = load()
        self.workers = settings.workers
        self.crew = Counted(settings.workers, self.timing)
        self.crons = FireCron(store=self.store, timing=self.timing, settings=settings, crew=self.crew, enabled=True)
        self.crons.locks.clock.now(self.crons.locks.deadline(5))
        for number in range(JOBS):
            self.crons.registry.add(self._job(number))

    def _job(self, number: int) -> Callable[..., object]:
        @distributed_cron(f"job{number}", "0 0 1 1 *", lock_ttl=86_000, grace=86_400)
        def work(run: Run) -> None:
            self.begun.append(run.name)

        return work

    def begin(self) -> None:
        """Start, hand all ticks over, and return when as many claims are under way as there can be."""
        self.crons.start()
        for job in self.crons.registry.jobs():
            self.crons.engine.lanes.due(job, slot())
        self.store.wait_for(self.workers)

    def pass_by(self) -> None:
        """Let a second pass, but not for any work under way: it would find its deadline over. Hand over what is due."""
        changed = self.crew.open_work.changed
        with changed:
            assert changed.wait_for(lambda: len(self.crew.open_work) == 0, PATIENCE)
            self.timing.advance(1)
        for ticker in named("firecron-ticker") - self.before["firecron-ticker"]:
            self.timing.await_rest(ticker)

    def locks(self) -> dict[str, dict[str, object]]:
        found = self.store.get("cron-locks")
        return found if isinstance(found, dict) else {}

    def assert_nothing_is_left(self) -> None:
        """No thread, no run, no lease that is renewed, no place that is taken; every lock that was claimed is free."""
        for name, before in self.before.items():
            assert all(map(ended, named(name) - before)), name
        engine = self.crons.engine
        assert engine.runner.running() == {}
        assert self.crons.locks.database.keeper.due is None
        assert all(engine.lanes.lane(job).free > 0 for job in self.crons.registry.jobs())
        assert all("releasedAt" in node for node in self.locks().values())


def test_as_many_claims_as_workers_are_under_way() -> None:
    """Each claim has a worker, so no claimed body waits for one; in the end each job has run once."""
    burst = Burst()
    burst.begin()
    assert burst.workers == 50
    assert not burst.store.waiting.acquire(blocking=False), "more claims than workers"
    assert burst.crons.engine.crew.is_full
    burst.store.opened.set()
    while len(burst.locks()) < JOBS or not all("releasedAt" in node for node in burst.locks().values()):
        burst.store.wait_for(1)
    burst.crons.stop()
    assert sorted(burst.begun) == sorted(job.name for job in burst.crons.registry.jobs())
    burst.assert_nothing_is_left()


def test_a_stop_in_a_burst_leaves_nothing_behind() -> None:
    """What was being claimed is run or was never claimed, and is released; what had no worker is not claimed at all."""
    burst = Burst()
    burst.begin()
    stop = threading.Thread(target=burst.crons.stop)
    stop.start()
    assert burst.crons.engine.runner.stopping.wait(PATIENCE)
    burst.store.opened.set()
    assert ended(stop)
    assert len(burst.begun) == len(burst.locks()) == burst.workers
    burst.assert_nothing_is_left()


@pytest.mark.parametrize("comes_back", [False, True])
def test_a_dead_database_in_a_burst_leaves_nothing_behind(comes_back: bool) -> None:
    """Claims that can't be made leave their workers to the next, and are tried again when the database is back."""
    burst = Burst()
    burst.store.is_down = True
    burst.begin()
    burst.store.opened.set()
    while len(burst.store.tried) < JOBS:
        burst.store.wait_for(1)
    burst.store.is_down = not comes_back
    while comes_back and len(burst.begun) < JOBS:
        burst.pass_by()
    burst.crons.stop()
    assert len(burst.begun) == JOBS * comes_back
    burst.assert_nothing_is_left()


# From 3.15 on the warning is raised where the fork is called. This child only looks, and ends.
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_in_a_burst_leaves_nothing_of_it_in_the_child() -> None:
    """The child has the jobs, and none of the parent's claims, threads and places; the parent goes on."""
    burst = Burst()
    burst.begin()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            engine = burst.crons.engine
            said = [
                engine.crew.is_full,
                bool(engine.runner.running()),
                burst.crons.locks.database.keeper.due is not None,
                any(engine.lanes.lane(job).free <= 0 for job in burst.crons.registry.jobs()),
                len(burst.crons.registry.jobs()) != JOBS,
                engine.group.size() is not None,
            ]
            os.write(writing, repr(said).encode())
        finally:
            os.kill(os.getpid(), signal.SIGKILL)  # nothing that is the parent's may be ended here
    os.close(writing)
    told = os.read(reading, 1000).decode()
    os.close(reading)
    os.waitpid(child, 0)
    assert told == repr([False] * 6)
    burst.store.opened.set()
    while len(burst.begun) < JOBS:
        burst.store.wait_for(1)
    burst.crons.stop()
    burst.assert_nothing_is_left()
