"""firecron's jobs beside procrastinate's, which PostgreSQL keeps: the second half of `make bench ARGS=peers`.

    starts        the processor time of a process from its first line to the first body of a job that ticks each second,
                  with so many daily jobs beside it
    fleets        five processes with the same jobs, 20 ms a round trip: one job that ticks each second, and a hundred
                  that tick once a minute. Trips, bytes and processor time are those of all, for each tick
    host          what is left of the processor time for a program's own loop while 20 jobs tick each second in its
                  process: its turns for each second of the process's processor, with the jobs and before them

procrastinate's worker runs in a thread of its own, with an event loop; firecron has its threads. Both have the settings
that they have by default, but for procrastinate's concurrency, which is that of firecron's workers.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass

from handover import Child, child, tell
from peers import DELAYS, through

from firecron import FireCron, Run, distributed_cron
from firecron.jobs.job import Job, explore
from firecron.settings import load

STARTS = (1_000, 10_000)
INSTANCES = 5
# Until all instances tick, and then for so long.
SETTLES, WINDOW = 8, 20
RUNS_A_SECOND = 20
ALONE, TOGETHER = 3.0, 8.0
PATIENCE = 60
WORKERS = 50

# A job's name, and its second of each minute; None for each second, below zero for a daily job.
Ticks = tuple[str, int | None]
Note = Callable[[str, float], object]

EACH_SECOND: Sequence[Ticks] = (("each-second", None),)
FLEETS = {
    "one job a second": EACH_SECOND,
    "a hundred jobs a minute": tuple((f"job-{number}", number * 60 // 100) for number in range(100)),
}


def compare_jobs(ports: dict[str, int]) -> None:
    """Print the three tables, for the servers at these ports."""
    print(f"\n{'':40}{'CPU':>10}{'bytes':>12}")
    for number in STARTS:
        print(f"a start with {number:,} jobs, to the first body of one")
        for name, port in ports.items():
            processor, size = start_of(name, port, number)
            print(f"  {name:38}{processor:7.2f} s{size:13,}", flush=True)
    print(f"\n{'':24}{'lag, p50':>12}{'last':>10}{'twice':>7}{'missed':>8}{'trips':>8}{'bytes':>9}{'CPU':>11}")
    for title, jobs in FLEETS.items():
        print(f"{title}, {INSTANCES} instances, {DELAYS[-1] * 1000:.0f} ms a round trip, for each tick")
        for name, port in ports.items():
            found = fleet_of(name, port, title, jobs)
            lags = f"{found.median * 1000:9.0f} ms{found.last * 1000:7.0f} ms"
            counts = f"{found.twice:7}{found.missed:8}{found.trips:8.1f}{found.size:9,.0f}"
            print(f"  {name:22}{lags}{counts}{found.processor * 1000:8.1f} ms", flush=True)
    print(f"\na program's own loop while {RUNS_A_SECOND} jobs tick each second in its process")
    for name, port in ports.items():
        with through(port, 0.0) as (front, _), jobs_of("host", name, front) as one:
            assert one.stdout is not None
            print(f"  {name:22}{float(one.stdout.readline()):+8.1%} turns for each second of the processor", flush=True)


def jobs_of(*arguments: object) -> AbstractContextManager[Child]:
    """Return a process of this script."""
    return child(*map(str, arguments), script=__file__)


# --- what is measured


def start_of(name: str, port: int, number: int) -> tuple[float, int]:
    with through(port, 0.0) as (front, counted), jobs_of("start", name, front, number) as one:
        assert one.stdout is not None
        processor = float(one.stdout.readline())
        return processor, counted()[1]


@dataclass(frozen=True, slots=True)
class Found:
    """What a fleet has shown: lags in seconds, and for each tick trips, bytes and seconds of the processor."""

    median: float
    last: float
    twice: int
    missed: int
    trips: float
    size: float
    processor: float


def fleet_of(name: str, port: int, title: str, jobs: Sequence[Ticks]) -> Found:
    with through(port, DELAYS[-1]) as (front, counted), ExitStack() as stack:
        members = [Member(stack.enter_context(jobs_of("fleet", name, front, title))) for _ in range(INSTANCES)]
        for member in members:
            member.processor()  # it answers once it has started
        time.sleep(SETTLES)
        start = float(int(time.time()) + 2)
        time.sleep(start - 0.3 - time.time())
        counted()
        before = sum(member.processor() for member in members)
        time.sleep(WINDOW)
        trips, size = counted()
        processor = sum(member.processor() for member in members) - before
        time.sleep(1)  # for what is late
        begun = [run for member in members for run in member.begun]
    wanted = {
        (job, start + second)
        for second in range(WINDOW)
        for job, at in jobs
        if at is None or (start + second) % 60 == at
    }
    lags = sorted(at - slot for job, slot, at in begun if (job, slot) in wanted)
    runs = Counter((job, slot) for job, slot, _ in begun)
    ticks = len(wanted)
    return Found(
        lags[len(lags) // 2],
        lags[-1],
        sum(runs[tick] > 1 for tick in wanted),
        sum(not runs[tick] for tick in wanted),
        trips / ticks,
        size / ticks,
        processor / ticks,
    )


class Member:
    """A process of a fleet, and what it tells: bodies that begin, and its processor time when it is asked."""

    def __init__(self, process: Child) -> None:
        self._process = process
        self.begun: list[tuple[str, float, float]] = []
        self._used: list[float] = []
        self._told = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def processor(self) -> float:
        tell(self._process, "used")
        with self._told:
            assert self._told.wait_for(lambda: self._used, PATIENCE), "a process doesn't answer"
            return self._used.pop()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            job, *numbers = line.split()
            with self._told:
                if job == "used":
                    self._used.append(float(numbers[0]))
                else:
                    self.begun.append((job, float(numbers[0]), float(numbers[1])))
                self._told.notify_all()


# --- the processes


def start(name: str, port: int, number: int) -> None:
    """Tell the processor time of this process when the first body begins."""
    begun = threading.Event()
    daily: list[Ticks] = [(f"daily-{at}", -1) for at in range(number - 1)]
    HOSTS[name](port, [*EACH_SECOND, *daily], lambda job, slot: begun.set())
    assert begun.wait(PATIENCE), "no body has begun"
    print(time.process_time(), flush=True)
    sys.stdin.read()


def fleet(name: str, port: int, title: str) -> None:
    def note(job: str, slot: float) -> None:
        os.write(sys.stdout.fileno(), f"{job} {slot:.0f} {time.time():.4f}\n".encode())  # in one write

    HOSTS[name](port, FLEETS[title], note)
    for _ in sys.stdin:
        os.write(sys.stdout.fileno(), f"used {time.process_time():.6f}\n".encode())


def host(name: str, port: int) -> None:
    """Tell how many turns of a loop a second of the process's processor has, with jobs, beside how many without."""
    alone = turns(ALONE)
    HOSTS[name](port, [(f"job-{number}", None) for number in range(RUNS_A_SECOND)], lambda job, slot: None)
    turns(ALONE)  # the start is none of it
    print(turns(TOGETHER) / alone - 1, flush=True)
    sys.stdin.read()


def turns(seconds: float) -> float:
    ends, used, done = time.monotonic() + seconds, time.process_time(), 0
    while time.monotonic() < ends:
        for number in range(1_000):
            done += number & 1
    return done / (time.process_time() - used)


# --- the hosts of jobs


def firecron(port: int, jobs: Sequence[Ticks], note: Note) -> None:
    def declared(name: str, at: int | None) -> Job:
        line = "0 3 * * *" if at is not None and at < 0 else f"{'*' if at is None else at} * * * * *"

        @distributed_cron(name, line, lock_ttl=30)
        def body(run: Run) -> None:
            assert run.slot is not None
            note(name, run.slot.timestamp())

        return explore(body)[0]

    crons = FireCron(settings=load(database_url=f"http://127.0.0.1:{port}?ns=jobs-{port}"), enabled=True)
    for name, at in jobs:
        crons.registry.add(declared(name, at))
    crons.start()


def procrastinate(port: int, jobs: Sequence[Ticks], note: Note) -> None:
    from procrastinate import App, PsycopgConnector

    app = App(connector=PsycopgConnector(conninfo=f"host=127.0.0.1 port={port} user=postgres dbname=postgres"))

    def declare(name: str, at: int | None) -> None:
        line = "0 3 * * *" if at is not None and at < 0 else f"* * * * * {'*' if at is None else at}"

        def body(timestamp: int) -> None:
            note(name, timestamp)

        app.periodic(cron=line)(app.task(name=name, queue=f"jobs-{port}")(body))

    for name, at in jobs:
        declare(name, at)

    async def serve() -> None:
        async with app.open_async():
            await app.run_worker_async(queues=[f"jobs-{port}"], concurrency=WORKERS, install_signal_handlers=False)

    threading.Thread(target=lambda: asyncio.run(serve()), daemon=True).start()


def make_schema(port: int) -> None:
    """Give PostgreSQL the tables that procrastinate needs."""
    from procrastinate import App, PsycopgConnector

    app = App(connector=PsycopgConnector(conninfo=f"host=127.0.0.1 port={port} user=postgres dbname=postgres"))
    with app.open():
        app.schema_manager.apply_schema()


HOSTS: dict[str, Callable[[int, Sequence[Ticks], Note], None]] = {"firecron": firecron, "procrastinate": procrastinate}


if __name__ == "__main__":
    logging.getLogger("firecron").setLevel(logging.CRITICAL)
    logging.getLogger("procrastinate").setLevel(logging.CRITICAL)
    match sys.argv[1:]:
        case ["start", kind, port, number]:
            start(kind, int(port), int(number))
        case ["fleet", kind, port, title]:
            fleet(kind, int(port), title)
        case ["host", kind, port]:
            host(kind, int(port))
