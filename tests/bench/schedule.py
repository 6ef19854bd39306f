"""What the scheduler costs: `make bench`, or `python tests/bench/schedule.py`."""

from __future__ import annotations

import logging
import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from firecron import FireCron, distributed_cron
from firecron.explorer import Job, explore
from firecron.instants import to_text
from firecron.settings import load
from firecron.testing import MemoryStore
from rtdb_emulator import Emulator

MANY = 10_000
AT_ONCE = 1_000
ROUNDS = 6
IDLE_SECONDS = 10.0
SLOTS = 12
DAY_TICKS = 24 * 60
HEARTBEATS = 24 * 60 * 2


def main() -> None:
    start_many()
    dispatch_at_once()
    idle()
    requests_per_slot()


def jobs(number: int, line: Callable[[int], str]) -> list[Job]:
    """So many jobs that do nothing."""

    def make(index: int) -> Job:
        @distributed_cron(f"job-{index}", line(index), lock_ttl=30)
        def nothing() -> None:
            pass

        return explore(nothing)[0]

    return [make(index) for index in range(number)]


class Noting:
    """A crew that does nothing but note when it was given something to do."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.enough = threading.Event()

    def submit(self, work: Callable[[], object]) -> None:
        self.times.append(time.time())
        if len(self.times) >= AT_ONCE * ROUNDS:
            self.enough.set()

    def after_fork(self) -> None:
        pass


def firecron(crew: Noting | None = None) -> FireCron:
    return FireCron(enabled=True, settings=load(), store=MemoryStore(lambda: int(time.time() * 1000)), crew=crew)


def start_many() -> None:
    """How long `start` takes with very many jobs, until the first tick of each is planned."""
    found = jobs(MANY, lambda index: f"{index % 60} {index % 24} * * *")
    crons = firecron(Noting())
    for job in found:
        crons.registry.add(job)
    started = time.perf_counter()
    crons._check_jobs()
    crons.work()
    took = time.perf_counter() - started
    print(f"{MANY:,} jobs start within     {took:8.2f} s (wanted: 2)")


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


def requests_per_slot() -> None:
    """Requests and bytes of one slot, and what they sum up to at one tick a minute, as the emulator counts them."""
    print("\none tick, all instances at the same instant, as the emulator counts it:")
    print("  instances   requests   each loser      bytes     a job, an instance and a day at one tick a minute")
    for number in (1, 5, 50, 200):
        requests, size = one_slot(number)
        losers = (requests - winner_requests(requests, number)) / (number - 1) if number > 1 else 0.0
        a_day = size / number * DAY_TICKS
        print(f"  {number:9}{requests:11.1f}{losers:13.2f}{size:11,.0f}     {a_day / 1e6:6.2f} MB")
    with Emulator() as emulator:
        crons = FireCron(settings=load(database_url=emulator.database_url("bench")), enabled=True)
        crons._heartbeat.beat()
        emulator.requests.clear()
        crons._heartbeat.beat()
        size = sum(request.request_bytes + request.response_bytes for request in emulator.requests)
    print(f"  and a heartbeat each 30 s: {size:,} bytes, {size * HEARTBEATS / 1e6:.2f} MB an instance and a day")


def winner_requests(requests: float, number: int) -> float:
    """The winner's share: acquire (one or two), release, record; the rest are the losers'."""
    return min(requests, 4.0) if number == 1 else 3.5


def one_slot(number: int) -> tuple[float, float]:
    """The mean requests and bytes of a slot."""

    @distributed_cron("bench", "* * * * * *", lock_ttl=30)
    def job() -> None:
        time.sleep(0.05)

    with Emulator() as emulator, ThreadPoolExecutor(number) as pool:
        settings = load(database_url=emulator.database_url("bench"))
        fleet = [FireCron(job, settings=settings, enabled=True) for _ in range(number)]
        for crons in fleet:
            crons.locks.clock.now(crons.locks.deadline(30))
        base = datetime.now(UTC).replace(microsecond=0).timestamp() - SLOTS - 5

        def turn(crons: FireCron, slot: str, barrier: threading.Barrier) -> None:
            found = crons.registry.get("bench")
            barrier.wait(30)
            crons._runner.take_turn(found, slot)

        totals = []
        for index in range(SLOTS):
            slot = to_text(round((base + index) * 1000))
            barrier = threading.Barrier(number)
            emulator.requests.clear()
            for done in [pool.submit(turn, crons, slot, barrier) for crons in fleet]:
                done.result()
            sizes = [request.request_bytes + request.response_bytes for request in emulator.requests]
            totals.append((len(sizes), sum(sizes)))
    kept = totals[2:]  # the first slots have no record to begin with
    return statistics.mean(requests for requests, _ in kept), statistics.mean(size for _, size in kept)


if __name__ == "__main__":
    logging.getLogger("firecron").setLevel(logging.CRITICAL)
    main()
