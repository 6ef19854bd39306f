"""A run under way, as the threads around it see it."""

from __future__ import annotations

import asyncio
import math
import threading
from contextlib import suppress
from dataclasses import replace

import pytest
from tests.unit.locks import lock_of
from tests.unit.runs.bodies import Passing, job_of, make_run, raising, running_loop
from tests.unit.threads import PATIENCE, ended

from firecron import Run
from firecron.base.clocks import Timing
from firecron.base.events import Event
from firecron.base.flag import begin_child
from firecron.jobs.job import Job
from firecron.lock.database import Database
from firecron.lock.lease import Lease
from firecron.locks import LockService
from firecron.runs.execution import Execution, Unlocked
from firecron.testing import FakeTiming, MemoryStore


def unlocked(job: Job, run: Run, loop: asyncio.AbstractEventLoop | None, timing: Timing | None = None) -> Execution:
    """An execution without a lock."""
    timing = timing or FakeTiming()
    database = Database(store=MemoryStore(FakeTiming().now), timing=timing, has_threads=False)
    return Execution(database, job, run, None, Unlocked(database, "job"), loop)


def test_a_run_that_is_cancelled_before_its_first_call_begins_nothing() -> None:
    """A stop's last seconds may come before the function is called: then it is not, and whoever cancels goes on."""
    ran: list[int] = []
    execution = unlocked(job_of(lambda: ran.append(1)), make_run(), None)
    execution.cancel()
    execution.call_with_retries()
    assert (execution.outcome, type(execution.error).__name__) == ("interrupted", "Stopping")
    assert ran == []


def test_a_lease_that_is_lost_before_the_first_call_breaks_nothing() -> None:
    """The keeper's thread tells of a loss that comes before the function is called: then it is not."""
    execution = unlocked(job_of(lambda: None), make_run(), None)
    execution.lease.lose("it ran out")
    execution.call_with_retries()
    assert execution.outcome == "lost"


def test_a_run_that_blocks_the_loop_says_so_once() -> None:
    """A job that blocks the application's loop at each of its tries is told of once a run."""
    heard: list[Event] = []
    go_on = threading.Event()
    timing = Passing(0, go_on.set)
    tries: list[float] = []

    async def work() -> None:
        tries.append(timing.mono())
        go_on.clear()
        timing.until = timing.mono() + 5_000
        timing.begun.set()
        assert go_on.wait(PATIENCE)
        timing.begun.clear()
        raise ValueError

    job = job_of(work)
    job = replace(job, options=replace(job.options, retries=1, retry_backoff=0))
    with running_loop() as loop:
        execution = unlocked(job, make_run(), loop, timing)
        execution.lease.database.events.subscribe(heard.append)
        execution.call_with_retries()
    assert execution.outcome == "failed"
    assert tries == [0, 5_000]
    blocked = [event.fields["blocked"] for event in heard if event.slug == "loop.blocked"]
    assert blocked == [5_000]


def test_a_body_that_forks_waits_in_the_child_for_no_thread_of_the_parent() -> None:
    """Another thread may be telling the run to stop at that moment: the child ends its try all the same, as lost."""
    executions: list[Execution] = []

    def work() -> None:
        telling = threading.Thread(target=lock_of(executions[0], "_changed").acquire)
        telling.start()
        assert ended(telling)
        begin_child()
        raise ValueError

    job = job_of(work)
    executions.append(unlocked(replace(job, options=replace(job.options, retries=1)), make_run(), None))
    calling = threading.Thread(target=executions[0].call_with_retries, daemon=True)
    calling.start()
    assert ended(calling)
    assert executions[0].outcome == "lost"


class Waiting(FakeTiming):
    """Time in which who waits is woken by nothing but a notification."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = threading.Event()

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        self.waits.set()
        assert condition.wait(PATIENCE), "nobody has woken it"


@pytest.mark.parametrize(
    ("is_lost", "is_stopping", "outcome"), [(True, False, "lost"), (False, True, "interrupted"), (True, True, "lost")]
)
def test_a_pause_between_tries_ends_with_the_run(is_lost: bool, is_stopping: bool, outcome: str) -> None:
    """A loss of the lease, or a stop, ends the pause before the next try at once; of both the loss is what counts."""
    job = job_of(raising(ValueError("no")))
    job = replace(job, options=replace(job.options, retries=3, retry_backoff=100_000))
    timing, run = Waiting(), make_run()
    execution = unlocked(job, run, None, timing)
    thread = threading.Thread(target=execution.call_with_retries)
    thread.start()
    assert timing.waits.wait(PATIENCE)
    if is_stopping:
        run.stopping.set()
    if is_lost:
        execution.lease.lose("it ran out")
    else:
        execution.stop()
    assert ended(thread)
    assert execution.outcome == outcome


def leased(timing: FakeTiming) -> Lease:
    """A lease of a fenced lock, which may be cancelled."""
    locks = LockService(store=MemoryStore(timing.now), timing=timing, has_threads=False)
    lease = locks.acquire("job", 60, fenced=True)
    assert isinstance(lease, Lease)
    return lease


def test_a_run_that_was_cancelled_before_its_first_call_begins_nothing() -> None:
    """An operator may be faster than the run: then its function is not called."""
    ran: list[int] = []
    lease = leased(FakeTiming())
    lease.cancel()
    execution = Execution(lease.database, job_of(lambda: ran.append(1)), make_run(), None, lease, None)
    execution.call_with_retries()
    assert (execution.outcome, type(execution.error).__name__, ran) == ("cancelled", "Cancelled", [])


@pytest.mark.parametrize("is_stopping", [False, True])
def test_a_cancel_ends_the_pause_between_tries(is_stopping: bool) -> None:
    """It ends at once, and the run is `cancelled`, also while its instance stops."""
    job = job_of(raising(ValueError("no")))
    job = replace(job, options=replace(job.options, retries=3, retry_backoff=100_000))
    timing, run = Waiting(), make_run()
    lease = leased(timing)
    execution = Execution(lease.database, job, run, None, lease, None)
    thread = threading.Thread(target=execution.call_with_retries)
    thread.start()
    assert timing.waits.wait(PATIENCE)
    if is_stopping:
        run.stopping.set()
    lease.cancel()
    assert ended(thread)
    assert execution.outcome == "cancelled"


def test_an_async_body_is_cancelled_and_may_clean_up() -> None:
    """The line that it awaits raises CancelledError, once, and the run is over when the body has cleaned up."""
    begun, cleaned = threading.Event(), list[bool]()

    async def work() -> None:
        try:
            begun.set()
            await asyncio.sleep(PATIENCE)
        finally:
            await asyncio.sleep(0)
            cleaned.append(bool(lease.lost))

    lease = leased(FakeTiming())
    with running_loop() as loop:
        execution = Execution(lease.database, job_of(work), make_run(), None, lease, loop)
        thread = threading.Thread(target=execution.call_with_retries)
        thread.start()
        assert begun.wait(PATIENCE)
        lease.cancel()
        assert ended(thread)
    assert execution.outcome == "cancelled"
    assert cleaned == [False]


def test_an_async_body_that_swallows_its_cancellation_keeps_its_outcome() -> None:
    """A body that goes on to its end has succeeded."""
    begun = threading.Event()

    async def work() -> None:
        begun.set()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(PATIENCE)

    lease = leased(FakeTiming())
    with running_loop() as loop:
        execution = Execution(lease.database, job_of(work), make_run(), None, lease, loop)
        thread = threading.Thread(target=execution.call_with_retries)
        thread.start()
        assert begun.wait(PATIENCE)
        lease.cancel()
        assert ended(thread)
    assert (execution.outcome, execution.error) == ("succeeded", None)


def test_a_stand_in_for_a_lease_is_over_when_it_is_told_so() -> None:
    """Where no lock is held, the longest time of a run ends it, whether somebody listens or not."""
    lease = unlocked(job_of(lambda: None), make_run(), None).lease
    assert isinstance(lease, Unlocked)
    assert not lease.was_lost
    lease.lose("it took too long")
    assert (lease.was_lost, bool(lease.lost), lease.release()) == (True, True, False)


def test_a_stand_in_for_a_lease_needs_nobody_who_listens() -> None:
    """The time of a run may be over before anything has asked to be told of it."""
    lease = Unlocked(Database(store=MemoryStore(FakeTiming().now), timing=FakeTiming(), has_threads=False), "job")
    lease.lose("it took too long")
    assert lease.was_lost


def test_a_stand_in_for_a_lease_is_lost_in_a_forked_child() -> None:
    """Also if another thread of the parent was just setting its flag: the child waits for no such thread."""
    lease = Unlocked(Database(store=MemoryStore(FakeTiming().now), timing=FakeTiming(), has_threads=False), "job")
    setting = threading.Thread(target=lock_of(lock_of(lease, "_lost"), "_cond").acquire)
    setting.start()
    assert ended(setting)
    begin_child()
    asking = threading.Thread(target=lambda: lease.lost, daemon=True)
    asking.start()
    assert ended(asking)
    assert lease.was_lost


class Interrupting(FakeTiming):
    """Time in which Ctrl-C comes as soon as something waits."""

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        raise KeyboardInterrupt


def test_a_run_whose_thread_is_interrupted_has_no_end_of_its_own() -> None:
    """Ctrl-C between two tries leaves a run that is `interrupted`, not one that has failed; it has no limit yet."""
    job = job_of(raising(ValueError("no")))
    job = replace(job, options=replace(job.options, retries=1, retry_backoff=1_000))
    execution = unlocked(job, make_run(), None, Interrupting())
    with pytest.raises(KeyboardInterrupt):
        execution.call_with_retries()
    assert (execution.outcome, execution.error, execution.limit) == ("interrupted", None, math.inf)
