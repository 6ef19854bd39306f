"""What the scheduler costs: `make bench`, or `python tests/bench/schedule.py`."""

from __future__ import annotations

import logging
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import goals

from firecron import FireCron, distributed_cron
from firecron.base.clocks import SystemTiming
from firecron.jobs.job import Job, explore
from firecron.rtdb.store import RtdbStore
from firecron.rtdb.target import find_target
from firecron.settings import load
from firecron.store import Store
from firecron.testing import MemoryStore
from firecron.testing.rehearsal import Inline
from rtdb_emulator import Emulator

AT_ONCE = 1_000
ROUNDS = 3
IDLE_SECONDS = 4.0
SLOTS = 9
DAY_TICKS = 24 * 60
HEARTBEATS = 24 * 60 * 2
ROUNDS_A_DAY = 24 * 12
PATIENCE = 60
REQUESTS = {"read", "swap", "timestamp", "merge", "keys"}


def main() -> None:
    dispatch_at_once()
    idle()
    requests_per_slot()
    recovery()
    heartbeats()
    catalogue()
    rehearsal()


def jobs(number: int, line: Callable[[int], str], on_abandoned: str = "skip") -> list[Job]:
    """So many jobs that do nothing."""

    def make(index: int) -> Job:
        @distributed_cron(f"job-{index}", line(index), lock_ttl=30, on_abandoned=on_abandoned)  # type: ignore[arg-type]  # one of its words
        def nothing() -> None:
            pass

        return explore(nothing)[0]

    return [make(index) for index in range(number)]


class Noting:
    """A crew that does nothing but note when it was given something to do."""

    is_full = False

    def __init__(self) -> None:
        self.times: list[float] = []
        self.enough = threading.Event()

    def submit(self, work: Callable[[], object]) -> None:
        self.times.append(time.time())
        if len(self.times) >= AT_ONCE * ROUNDS:
            self.enough.set()

    def dismiss(self) -> None:
        """It has no threads."""


def firecron(crew: Noting | None = None) -> FireCron:
    return FireCron(enabled=True, settings=load(), store=MemoryStore(lambda: int(time.time() * 1000)), crew=crew)


def dispatch_at_once() -> None:
    """How late a slot is handed over when very many jobs tick at the same instant."""
    crew = Noting()
    crons = firecron(crew)
    for job in jobs(AT_ONCE, lambda index: "*/2 * * * * *"):
        crons.registry.add(job)
    crons.start()
    crew.enough.wait(60)
    crons.stop()
    late = sorted((moment % 2) * 1000 for moment in crew.times[AT_ONCE:])
    threads = sum(thread.name == "firecron-ticker" for thread in threading.enumerate())
    p99 = late[int(len(late) * 0.99)]
    median = statistics.median(late)
    print(
        f"{AT_ONCE:,} jobs at one instant: handed over after {median:.1f} ms (median), {p99:.1f} ms (p99; wanted: 20)"
    )
    goals.at_most(f"{AT_ONCE:,} jobs at one instant are handed over, p99", p99, 20, "ms")
    assert threads <= 1


def idle() -> None:
    """How much CPU a process takes that has jobs and nothing to do."""
    crons = firecron(Noting())
    for job in jobs(100, lambda index: "0 0 1 1 *"):
        crons.registry.add(job)
    crons.start()
    time.sleep(1)
    before, started = time.process_time(), time.perf_counter()
    time.sleep(IDLE_SECONDS)
    share = (time.process_time() - before) / (time.perf_counter() - started)
    crons.stop()
    print(f"idle, 100 jobs: {share:.3%} CPU (wanted: under 0.2 %)")
    goals.at_most("idle, 100 jobs", share * 100, 0.2, "% of a processor")


class Counted:
    """A store that counts what one instance asks of it, by the name of the method."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)
        if name not in REQUESTS:
            return call

        def counted(*arguments: object) -> object:
            self.calls[name] += 1
            return call(*arguments)

        return counted


@dataclass(frozen=True, slots=True)
class Instance:
    """One of a fleet in this process, with what it asks."""

    crons: FireCron
    asked: Counted


@dataclass(frozen=True, slots=True)
class Tick:
    """What one tick cost: the requests of its winner and of each loser, and the bytes of all."""

    winner: int
    losers: list[int]
    size: int


def requests_per_slot() -> None:
    """Requests and bytes of one slot, and what they sum up to at one tick a minute, as the emulator counts them."""
    print("\none tick, all instances at the same instant; requests counted by each instance, and all by the emulator:")
    print("  instances   winner   losers: mean, most      bytes     a job, an instance and a day at one tick a minute")
    for number in (1, 5, 50, 200):
        ticks = some_ticks(number)
        winner = statistics.mean(tick.winner for tick in ticks)
        losers = [count for tick in ticks for count in tick.losers] or [0]
        size = statistics.mean(tick.size for tick in ticks)
        a_day = size / number * DAY_TICKS
        if number == 5:
            goals.at_most("bytes of a tick, 5 that ask", size, 8_000, "bytes")
        goals.at_most(f"requests of a winner, {number} that ask", winner, 4, "requests")
        goals.at_most(f"requests of a loser, {number} that ask", max(losers), 2, "requests")
        most = f"{statistics.mean(losers):14.2f}{max(losers):6}"
        print(f"  {number:9}{winner:9.1f}{most}{size:11,.0f}     {a_day / 1e6:6.2f} MB")


def some_ticks(number: int) -> list[Tick]:
    """What each of some slots costs so many instances."""

    @distributed_cron("bench", "* * * * * *", lock_ttl=30)
    def job() -> None:
        time.sleep(0.05)

    with Emulator() as emulator, ThreadPoolExecutor(number) as pool:
        fleet = [instance(emulator, job) for _ in range(number)]
        base = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=SLOTS + 5)

        def turn(one: Instance, slot: datetime, barrier: threading.Barrier) -> bool:
            barrier.wait(PATIENCE)
            return one.crons.registry.trigger("bench", slot=slot).outcome == "succeeded"

        ticks = []
        for index in range(SLOTS):
            slot = base + timedelta(seconds=index)
            barrier = threading.Barrier(number)
            emulator.requests.clear()
            for one in fleet:
                one.asked.calls.clear()
            ran = [done.result() for done in [pool.submit(turn, one, slot, barrier) for one in fleet]]
            assert ran.count(True) == 1
            counts = [one.asked.calls.total() for one in fleet]
            assert sum(counts) == len(emulator.requests), "an instance asked for something that it did not count"
            ticks.append(Tick(counts.pop(ran.index(True)), counts, sizes(emulator)))
    return ticks[2:]  # the first slots have no record to begin with


def recovery() -> None:
    """Requests and bytes of the rounds, of jobs that rerun, at the default of one round in five minutes."""
    print("\nthe rounds for what others left behind:")
    print("       jobs   requests a round      bytes     a job, an instance and a day")
    for number in (1, 10, 100, 1_000):

        @distributed_cron("none", "0 0 * * *", lock_ttl=30)
        def none() -> None: ...

        with Emulator() as emulator:
            one = instance(emulator, none)
            for job in jobs(number, lambda index: "* * * * *", on_abandoned="rerun"):
                one.crons.registry.add(job)
                assert one.crons.locks.acquire(job.name, 60, fenced=True)
            emulator.requests.clear()
            assert one.crons.engine.recovery.make(one.crons.locks.deadline(PATIENCE))
            one.crons.locks.close()
            requests, size = len(emulator.requests), sizes(emulator)
        print(f"  {number:9,}{requests:19}{size:11,}     {size * ROUNDS_A_DAY / number / 1e6:6.2f} MB")


def heartbeats() -> None:
    """Bytes of a heartbeat: the third one, because the first two also say what the group runs, and since when."""
    print()
    with Emulator() as emulator:
        crons = FireCron(settings=load(database_url=emulator.database_url("bench")), enabled=True)
        for _ in range(3):
            emulator.requests.clear()
            crons.engine.heartbeat.beat()
        size = sizes(emulator)
    print(f"a heartbeat each 30 s: {size:,} bytes, {size * HEARTBEATS / 1e6:.2f} MB an instance and a day")


def catalogue() -> None:
    """Requests and bytes of a start: the first one of a program, and one that finds its jobs declared."""
    print()
    print("     jobs    the first start: requests, bytes    another start: requests, bytes")
    sent, told = 0, 0
    for number in (10, 100, 1000):
        with Emulator() as emulator:
            found = []
            for _ in range(2):
                jobs = [distributed_cron(f"job-{one}", "* * * * *")(lambda: None) for one in range(number)]
                settings = load(database_url=emulator.database_url("bench"))
                crons = FireCron(*jobs, settings=settings, enabled=True, has_threads=False, crew=Inline())
                emulator.requests.clear()
                crons.engine.publisher.begin()
                crons.locks.close()
                writes = [request for request in emulator.requests if request.method == "PATCH"]
                sent += sum(request.request_bytes for request in writes)
                told += sum(request.response_bytes for request in writes)
                found += [len(emulator.requests), sizes(emulator)]
        print(f"{number:9,}{found[0]:29}{found[1]:10,}{found[2]:28}{found[3]:10,}")
    goals.at_most("the first start's catalogue, sent back to what is written", told / sent, 0.02, "of the bytes")


def rehearsal() -> None:
    """How long a rehearsal takes of a year of a daily job."""

    @distributed_cron("nightly", "0 2 * * *", lock_ttl=30)
    def nightly() -> None: ...

    with FireCron(nightly).testing("2026-01-01T00:00:00Z") as test:
        started = time.perf_counter()
        test.advance(timedelta(days=365))
        took = time.perf_counter() - started
        assert test.history("nightly")[-1]["slot"] == "2026-12-31T02:00:00Z"
    print(f"\na rehearsal of a daily job over a year: {took:.2f} s (wanted: under 2)")
    goals.at_most("a rehearsal of a daily job over a year", took, 2, "s")


def instance(emulator: Emulator, job: object) -> Instance:
    """One instance, that knows the time already, and prunes nothing by chance."""
    settings = load(database_url=emulator.database_url("bench"))
    timing = SystemTiming()
    asked = Counted(RtdbStore(lambda: find_target(None, settings.database_url), timing))
    store = cast("Store", asked)
    crons = FireCron(job, settings=settings, enabled=True, store=store, timing=timing, chance=lambda: 1.0)
    crons.locks.clock.now(crons.locks.deadline(PATIENCE))
    return Instance(crons, asked)


def sizes(emulator: Emulator) -> int:
    return sum(request.request_bytes + request.response_bytes for request in emulator.requests)


if __name__ == "__main__":
    logging.getLogger("firecron").setLevel(logging.CRITICAL)
    main()
