"""Waiters in real threads and tasks, with real streams: how many there are, what they hear, and how they end."""

from __future__ import annotations

import asyncio
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from firecron import Lease, LockService, Refusal
from firecron.base.events import Event
from firecron.lock.waiting import Follow
from firecron.settings import load
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.processes import Run

TTL = 60
# Seconds; nothing here takes a tenth of it.
BOUND = 40.0


def opened(rtdb: Rtdb) -> list[str]:
    """The paths of the streams that were opened, in their order."""
    requests = list(rtdb.emulator.requests)
    return [request.path for request in requests if request.facts.headers.get("accept") == "text/event-stream"]


def until(condition: object) -> None:
    """Wait until this is true."""
    assert callable(condition)
    ends = time.monotonic() + BOUND
    while not condition():
        assert time.monotonic() < ends, "it never became true"
        time.sleep(0.002)


@pytest.fixture(params=[True, False], ids=["hears", "polls"])
def waiter(rtdb: Rtdb, request: pytest.FixtureRequest) -> Iterator[LockService]:
    service = LockService(settings=load(watch=request.param))
    yield service
    assert service.database.streams.open == 0
    service.close()


@pytest.fixture
def holder(rtdb: Rtdb) -> Iterator[LockService]:
    service = LockService()
    yield service
    service.close()


def take(service: LockService, name: str = "job") -> Lease:
    lease = service.acquire(name, TTL)
    assert isinstance(lease, Lease), lease
    return lease


def test_tasks_and_blocks_get_the_lock_in_turn(rtdb: Rtdb, waiter: LockService, holder: LockService) -> None:
    """`hold` and `acquire_async` wait for a lock in threads and tasks, and each gets it once it is free."""
    lease = take(holder)
    turns: list[str] = []

    def block() -> None:
        with waiter.hold("job", TTL, wait=BOUND):
            turns.append("block")

    async def main() -> None:
        async def task() -> None:
            async with waiter.hold("job", TTL, wait=BOUND):
                turns.append("task")

        async def acquire() -> None:
            mine = await waiter.acquire_async("job", TTL, wait=BOUND)
            assert isinstance(mine, Lease), mine
            turns.append("acquire")
            mine.release()

        def all_wait() -> bool:
            streams = waiter.database.streams
            return not waiter.settings.watch or (streams.followers, streams.open) == (3, 1)

        waiting = asyncio.gather(task(), acquire(), asyncio.to_thread(block))
        await asyncio.to_thread(until, all_wait)
        await asyncio.to_thread(lease.release)
        await waiting

    asyncio.run(main())
    assert sorted(turns) == ["acquire", "block", "task"]
    assert opened(rtdb) == ["/cron-locks/job"] * waiter.settings.watch


def test_a_task_that_is_cancelled_follows_nothing(rtdb: Rtdb, holder: LockService, waiter: LockService) -> None:
    """Once the waiting task is cancelled, its stream ends."""
    lease = take(holder)

    async def main() -> None:
        task = asyncio.create_task(waiter.acquire_async("job", TTL, wait=BOUND))
        await asyncio.to_thread(until, lambda: waiter.settings.watch == bool(waiter.database.streams.open))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    until(lambda: waiter.database.streams.open == 0)
    lease.release()


def wait_for(service: LockService, names: list[str], number: int) -> list[threading.Thread]:
    """Have so many threads wait for the locks, each for its own turn. They end with the service's streams."""

    def work(name: str) -> None:
        lease = service.acquire(name, TTL, wait=BOUND)
        assert isinstance(lease, Lease), lease
        lease.release()

    threads = [threading.Thread(target=work, args=[names[index % len(names)]]) for index in range(number)]
    for thread in threads:
        thread.start()
    return threads


def test_two_hundred_waiters_of_an_instance_share_a_stream(rtdb: Rtdb, holder: LockService) -> None:
    """However many wait for one lock in a process, its node has one stream, and all of them hear by it."""
    take(holder)
    service = LockService()
    answers: list[Lease | Refusal] = []
    wait = lambda: answers.append(service.acquire("job", TTL, wait=BOUND))  # noqa: E731
    threads = [threading.Thread(target=wait) for _ in range(200)]
    for thread in threads:
        thread.start()
    until(lambda: service.database.streams.followers == 200)
    rtdb.set("/cron-locks/job/paused", True)
    for thread in threads:
        thread.join(BOUND)
    assert [answer.reason for answer in answers if isinstance(answer, Refusal)] == ["paused"] * 200
    assert opened(rtdb) == ["/cron-locks/job"]
    service.close()


def test_of_twenty_nodes_eight_have_a_stream(rtdb: Rtdb, holder: LockService) -> None:
    """200 waiters for 20 locks have eight streams at a time. The others poll, and get their locks as well."""
    names = [f"job-{number}" for number in range(20)]
    leases, service = [take(holder, name) for name in names], LockService()
    threads = wait_for(service, names, 200)
    until(lambda: service.database.streams.followers == 200)
    until(lambda: service.database.streams.open == 8)
    assert len(opened(rtdb)) == 8
    for lease in leases:
        lease.release()
    for thread in threads:
        thread.join(BOUND)
    assert not any(thread.is_alive() for thread in threads)
    service.close()


@pytest.mark.parametrize("how", ["rules", "held back", "cut off"])
def test_a_waiter_without_a_stream_gets_the_lock_by_asking(rtdb: Rtdb, holder: LockService, how: str) -> None:
    """Where streams are refused, held back or cut, the lock is had as soon as by polling."""
    service = LockService(settings=load(request_timeout=0.5))
    stream = ("Accept", "text/event-stream")
    if how == "rules":
        rtdb.faults.answer(401, header=stream, times=None)
    elif how == "held back":
        rtdb.faults.hold(header=stream, times=None)
    told: list[Event] = []
    service.events.subscribe(told.append)
    lease = take(holder)
    (thread,) = wait_for(service, ["job"], 1)
    until(lambda: opened(rtdb))
    if how == "cut off":
        until(lambda: service.database.streams.open == 1)
        rtdb.faults.answer(401, header=stream, times=None)
        rtdb.faults.cut_off(header=stream)
    until(lambda: any(event.slug == "watch.failed" for event in told))
    lease.release()
    thread.join(BOUND)
    assert not thread.is_alive()
    service.close()
    rtdb.faults.clear()


def test_a_close_waits_for_no_stream(rtdb: Rtdb, holder: LockService) -> None:
    """A stream that is open, and one that is just being opened, end when the streams are closed, at once."""
    # A close that waits for the stream that is being opened lasts longer than the test waits for the close.
    service = LockService(settings=load(request_timeout=60, acquire_timeout=60, release_timeout=60))
    hold = rtdb.faults.hold(path="/cron-locks/opening", header=("Accept", "text/event-stream"))
    for name in ("open", "opening"):
        take(holder, name)
        # Not a waiter, which would follow again after its next try.
        service.database.streams.add(Follow(service.database.paths.lock(name), lambda: None))
    hold.wait()
    until(lambda: service.database.streams.open == 1)
    closing = threading.Thread(target=service.database.streams.close)
    closing.start()
    closing.join(BOUND)
    assert not closing.is_alive()
    assert service.database.streams.open == 0
    hold.release()
    until(lambda: rtdb.emulator.listeners(rtdb.namespace) == 0)
    service.close()


FORKS = """
import os, sys, threading, time
from firecron import LockService

one, other = LockService(), LockService()
lease = other.acquire("job", 60)
got = []
thread = threading.Thread(target=lambda: got.append(one.acquire("job", 60, wait=30)))
thread.start()
while not one.database.streams.open:
    time.sleep(0.002)
child = os.fork()
if child == 0:
    held = one.database.streams.open
    one.database.streams.close()
    one.close()
    mine = one.acquire("childs", 60, wait=5)
    again = one.acquire("childs", 60, wait=0.2)
    os._exit(10 * held + (0 if mine and not again else 1))
print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print("open", one.database.streams.open)
lease.release()
thread.join(20)
print("got", bool(got and got[0]))
"""


def test_a_forked_child_leaves_the_parents_streams_alone(rtdb: Rtdb, tmp_path: Path, run: Run) -> None:
    """The child has no stream, closes none of its parent's, and waits with streams of its own."""
    script = tmp_path / "forks.py"
    script.write_text(textwrap.dedent(FORKS), "utf-8")
    done = run("-W", "ignore", str(script))
    assert done.stdout.splitlines() == ["child 0", "open 1", "got True"], done.stderr


ENDS = """
import threading, time
from firecron import FireCron, Run, distributed_cron

@distributed_cron("job", "* * * * * *", overlap="queue", grace=600)
def job(run: Run) -> None: ...

crons = FireCron(job, enabled=True)
other = crons.locks.acquire("job", 60)
crons.start()
while not crons.locks.database.streams.open:
    time.sleep(0.002)
crons.stop()
print(crons.locks.database.streams.open)
"""


def test_a_stop_ends_the_streams_within_its_time(
    rtdb: Rtdb, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An instance whose tick waits with a stream stops before its grace is over, and the process ends."""
    # So long that `run` kills a process that waits for its end.
    monkeypatch.setenv("FIRECRON_SHUTDOWN_GRACE", "3600")
    script = tmp_path / "ends.py"
    script.write_text(textwrap.dedent(ENDS), "utf-8")
    done = run(str(script))
    assert (done.stdout, done.returncode) == ("0\n", 0), done.stderr
