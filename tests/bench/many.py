"""What very many jobs cost where nothing ticks: the start, the looks for late jobs, and the bytes of an idle fleet.

python tests/bench/many.py          with ten thousand jobs
python tests/bench/many.py month    the tables of docs/reference/cost.md: an idle month by jobs and instances
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from math import inf
from pathlib import Path

import goals
from croniter import croniter
from serving import serving

from firecron import FireCron, distributed_cron
from firecron.base.clocks import SystemTiming
from firecron.base.instants import to_milliseconds, to_text
from firecron.jobs.catalogue import declared, group_fields
from firecron.jobs.job import Job, explore
from firecron.ops.late import LateJobs
from firecron.rtdb.store import RtdbStore
from firecron.rtdb.target import find_target
from firecron.settings import load
from firecron.testing import FakeTiming, MemoryStore
from firecron.testing.rehearsal import Inline
from rtdb_emulator import Emulator

MANY = 10_000
SHOWN = 1_000
SLOWER = 0.02
FLEET = 10
TIMES = 2
PATIENCE = 60.0
PART = 1_000
NOW = to_milliseconds("2026-11-18T09:00:00Z")
# What croniter needs to read the lines and to find their next ticks: half of what the start needed before.
TO_CRONITER = 1.84
# A quarter of what the looks and the heartbeats moved before.
MONTH = 38.5
HALF_AN_HOUR = 1_800
HEARTBEATS_A_DAY = 24 * 60 * 2
INTERVALS_A_DAY = 24 * 12
DAYS = 30
LOOKERS = 3
CLOCKED = 12
FREE, PRICE = 10.0, 1.0


def main() -> None:
    start()
    look()
    idle()
    status()


# --- the start


def start() -> None:
    """Processor time and memory until the first tick of each job is planned, in processes of their own."""
    found = [child("starting") for _ in range(TIMES)]
    cpu, memory = min(one["cpu"] for one in found), min(one["memory"] for one in found)
    lines = reading()
    print(f"{MANY:,} jobs start: {cpu:.2f} s of a processor, {cpu / lines:.2f} of what croniter needs for their lines")
    print(f"  {memory:.0f} MB when start() returns, of which {min(one['before'] for one in found):.0f} before the jobs")
    goals.at_most(f"{MANY:,} jobs start", min(one["took"] for one in found), 2, "s")
    goals.at_most(f"{MANY:,} jobs start, processor time", cpu, 1.3, "s")
    goals.at_most(f"{MANY:,} jobs start, to croniter's reading of their lines", cpu / lines, TO_CRONITER, "times")
    goals.at_most(f"{MANY:,} jobs: memory when start() returns", memory, 95, "MB")


def starting() -> dict[str, float]:
    """Declare the jobs and start them, in this process."""
    memory = resident()
    began, started = time.process_time(), time.perf_counter()
    jobs = [distributed_cron(f"job-{index}", line(index), lock_ttl=30)(nothing()) for index in range(MANY)]
    store = MemoryStore(lambda: int(time.time() * 1000))
    crons = FireCron(*jobs, enabled=True, settings=load(), store=store)
    crons.start()
    after = resident()
    until = time.monotonic() + PATIENCE
    while crons.engine.ticker.planned < MANY and time.monotonic() < until:
        time.sleep(0.005)
    cpu, took = time.process_time() - began, time.perf_counter() - started
    assert crons.engine.ticker.planned == MANY
    crons.stop()
    return {"cpu": cpu, "took": took, "memory": after, "before": memory}


def reading() -> float:
    """The processor time in which croniter reads the lines of the jobs, and finds the next tick of each."""
    now, began = datetime.now(UTC), time.process_time()
    for index in range(MANY):
        croniter(line(index), now).get_next()
    return time.process_time() - began


def resident() -> float:
    """The memory of this process, in MB."""
    (found,) = (one for one in Path("/proc/self/status").read_text("ascii").splitlines() if one.startswith("VmRSS"))
    return int(found.split()[1]) / 1024


# --- the looks for late jobs


def look() -> None:
    """Processor time of a look, and for how long an event loop beside it stands still."""
    found = [child("looking") for _ in range(TIMES)]
    first, later, stall = (min(one[name] for one in found) for name in ("first", "later", "stall"))
    wall = min(one["wall"] for one in found)
    print(f"the look for late jobs, {MANY:,}: {first:.3f} s of a processor the first time, {later:.3f} s later")
    print(f"  an event loop beside it stands still for {stall:.1f} ms at most, by the clock for {wall:.1f} ms")
    goals.at_most(f"{MANY:,} jobs: processor time of the first look for late ones", first, 0.15, "s")
    goals.at_most(f"{MANY:,} jobs: processor time of another look", later, 0.15, "s")
    goals.at_most(f"{MANY:,} jobs: the longest stall of an event loop in a look", stall, 15, "ms")


def looking() -> dict[str, float]:
    """Look twice, on another thread than an event loop, in this process: at jobs of which nothing is known, and again.

    A stall is the processor time of the process between two turns of the loop: what other programs need is not in it.
    """
    with serving([sys.executable, str(Path(__file__).with_name("serve.py"))]) as (port, _):
        found = ticking(MANY)
        crons = FireCron(enabled=True, settings=load(database_url=f"http://127.0.0.1:{port}?ns=many"))
        for job in found:
            crons.registry.add(job)

        def write(path: str, nodes: dict[str, object]) -> None:
            items = list(nodes.items())
            for at in range(0, MANY, PART):
                deadline = crons.locks.deadline(PATIENCE)
                crons.database.store.merge(path, dict(items[at : at + PART]), deadline, echo=False)

        fill(write, found, crons.locks.clock.now(crons.locks.deadline(PATIENCE)).server)
        late, jobs = evaluator(crons), {job.name: job for job in crons.registry.jobs()}
        took: list[float] = []

        def work() -> None:
            began = time.thread_time()
            assert late.evaluate(jobs, lambda name: None, (), inf) == []
            took.append(time.thread_time() - began)

        stalls = [asyncio.run(beside(work)) for _ in range(2)]
        crons.locks.close()
    return {"first": took[0], "later": took[1], "stall": stalls[0][0], "wall": stalls[0][1]}


async def beside(work: Callable[[], None]) -> tuple[float, float]:
    """The longest time between two turns of this loop while a thread works: of a processor, and of the clock."""
    doing = asyncio.ensure_future(asyncio.to_thread(work))
    cpu = wall = 0.0
    while not doing.done():
        began = time.process_time(), time.perf_counter()
        await asyncio.sleep(0.001)
        cpu = max(cpu, time.process_time() - began[0])
        wall = max(wall, time.perf_counter() - began[1])
    await doing
    return cpu * 1000, wall * 1000


# --- an idle fleet


def idle() -> None:
    """What ten instances move in half an hour of virtual time in which no job ticks, as the emulator counts it."""
    timing = FakeTiming(wall=NOW)
    with Emulator(now=timing.now) as emulator:
        jobs = ticking(MANY)
        fill(partial(emulator.set, "many"), jobs, NOW)
        fleet = [quiet(emulator, timing, jobs, number / FLEET) for number in range(FLEET)]
        until = timing.mono() + 90_000
        live(fleet, timing, until)
        for one in fleet:
            evaluator(one).evaluate({job.name: job for job in one.registry.jobs()}, lambda name: None, (), inf)
        emulator.requests.clear()
        live(fleet, timing, until + HALF_AN_HOUR * 1000)
        moved = sum(request.request_bytes + request.response_bytes for request in emulator.requests)
        looks = sum("shallow" in request.facts.parameters for request in emulator.requests)
        for one in fleet:
            one.locks.close()
    month = moved * DAYS * 86_400 / HALF_AN_HOUR / 1e9
    print(f"an idle fleet, {MANY:,} jobs, {FLEET} instances: {month:.2f} GB a month (wanted: {MONTH}), {looks} looks")
    goals.at_most(f"an idle month of {MANY:,} jobs on {FLEET} instances", month, MONTH, "GB")


def live(fleet: list[FireCron], timing: FakeTiming, until: float) -> None:
    """Let the instances beat until then."""
    while timing.mono() < until:
        wait = min(one.engine.heartbeat.work_if_due() for one in fleet)
        timing.advance(max(0.001, wait))


# --- the status


def status() -> None:
    """The requests and the time of `firecron status`, and of the page's first reply, each request 20 ms slower."""
    with Emulator() as emulator:
        now = int(time.time() * 1000)
        jobs = ticking(SHOWN)
        fill(partial(emulator.set, "many"), jobs, now)
        names = {job.name: job.options.schedule for job in jobs}
        group = {**group_fields(names, "local", 30.0), "seenAt": now + 3_600_000, "firstSeenAt": 0}
        emulator.set("many", "cron-groups/0123456789abcdef", group)
        emulator.faults.delay(SLOWER, times=None)
        settings = load(database_url=emulator.database_url("many"))
        board = FireCron(settings=settings).board
        for what, work in (("firecron status", partial(command, emulator)), ("the page's first reply", board.jobs)):
            emulator.requests.clear()
            began = time.perf_counter()
            work()
            took = time.perf_counter() - began
            moved = sum(request.request_bytes + request.response_bytes for request in emulator.requests)
            trips = len(emulator.requests)
            print(
                f"{what}, {SHOWN:,} jobs: {trips} requests, {moved / 1e6:.2f} MB, {took:.2f} s with 20 ms added to each"
            )
            goals.at_most(f"{what}, {SHOWN:,} jobs: requests", trips, 8, "requests")
            goals.at_most(f"{what}, {SHOWN:,} jobs, with 20 ms added to each request", took, 1, "s")


def command(emulator: Emulator) -> None:
    environment = {**os.environ, "FIRECRON_DATABASE_URL": emulator.database_url("many")}
    arguments = [sys.executable, "-m", "firecron", "status"]
    done = subprocess.run(arguments, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE)
    assert done.stdout.count("; last succeeded") == SHOWN, done.stdout[-1_000:]


# --- a month


@dataclass(frozen=True, slots=True)
class Cost:
    """What a request, or some, move: all bytes, and those that the database sends, which are billed."""

    moved: int
    sent: int


def month() -> None:
    """What an idle fleet moves in a month, by its jobs and its instances, and what that costs."""
    print("                      bytes of a     of a look       of a look for    GB a month,       sent by")
    print(
        "   jobs   instances    heartbeat     for late jobs   dead instances   both directions   the database  dollars"
    )
    for number in (10, 1_000, 10_000):
        for size in (1, 10, 100, 1_000):
            costs = parts(number, size)
            pruned = size * INTERVALS_A_DAY if size <= CLOCKED else HEARTBEATS_A_DAY
            rates = (size * HEARTBEATS_A_DAY, min(size, LOOKERS) * INTERVALS_A_DAY, pruned)
            moved = sum(cost.moved * rate for cost, rate in zip(costs, rates, strict=True)) * DAYS / 1e9
            sent = sum(cost.sent * rate for cost, rate in zip(costs, rates, strict=True)) * DAYS / 1e9
            beat, look, prune = (cost.moved for cost in costs)
            dollars = max(0.0, sent - FREE) * PRICE
            print(f"{number:7,}{size:12,}{beat:13,}{look:18,}{prune:17,}{moved:18.1f}{sent:15.1f}{dollars:9.0f}")


def parts(number: int, size: int) -> tuple[Cost, Cost, Cost]:
    """What a heartbeat, a look for late jobs and one for dead instances move, of so many jobs and instances."""
    timing = FakeTiming(wall=NOW)
    with Emulator(now=timing.now) as emulator:
        jobs = ticking(number)
        fill(partial(emulator.set, "many"), jobs, NOW)
        node = {"seenAt": NOW, "startedAt": NOW, "instanceId": "api-v3-00042-abc", "jobs": number, "running": 0}
        others = {f"00bf4b9c{index:04x}-a1b2c3": node for index in range(size - 1)}
        emulator.set("many", "cron-instances", others)
        one = quiet(emulator, timing, jobs, 0)
        late, own = evaluator(one), {job.name: job for job in jobs}
        late.evaluate(own, lambda name: None, (), inf)
        beats = one.engine.heartbeat
        for _ in range(2):
            beats.beat()

        def cost(work: Callable[[], object]) -> Cost:
            emulator.requests.clear()
            work()
            asked, sent = (
                sum(getattr(one, what) for one in emulator.requests) for what in ("request_bytes", "response_bytes")
            )
            return Cost(asked + sent, sent)

        found = (
            cost(beats.beat),
            cost(lambda: late.evaluate(own, lambda name: None, (), inf)),
            cost(lambda: beats.prune(one.locks.deadline(PATIENCE))),
        )
        one.locks.close()
    return found


# --- jobs


def line(index: int) -> str:
    return f"{index % 60} {index % 24} * * *"


def nothing() -> Callable[[], None]:
    def work() -> None: ...

    return work


def ticking(number: int) -> list[Job]:
    """Jobs that tick once a year."""
    return explore(
        *(distributed_cron(f"job-{index}", f"{index % 60} {index % 24} 1 1 *")(nothing()) for index in range(number))
    )


def fill(write: Callable[[str, dict[str, object]], object], jobs: list[Job], now: int) -> None:
    """Write the jobs' entries into the catalogue, and the locks that their last runs have left."""
    entries: dict[str, object] = {}
    locks: dict[str, object] = {}
    for job in jobs:
        entry = declared(job.options, where=job.where, ticks=True, service="local", revision=None).to_node()
        entries[job.name] = {**entry, "since": now - 400 * 86_400_000, "declaredAt": now - 400 * 86_400_000}
        at = now - 60_000
        slot = to_text(at)
        locks[job.name] = {
            "acquired": slot,
            "acquiredAt": at,
            "attempt": 1,
            "expires": slot,
            "expiresAt": at,
            "fence": at,
            "holder": "f3QkAAAABBBBCCCC",
            "instance": "00bf4b9c3f2a",
            "instanceId": "api-v3-00042-abc",
            "outcome": "succeeded",
            "releasedAt": at,
            "slot": slot,
            "succeededSlot": slot,
        }
    write("cron-jobs", entries)
    write("cron-locks", locks)


def quiet(emulator: Emulator, timing: FakeTiming, jobs: list[Job], chance: float) -> FireCron:
    """An instance without threads, which beats and does not tick."""
    settings = load(database_url=emulator.database_url("many"))
    store = RtdbStore(lambda: find_target(None, settings.database_url), SystemTiming())
    crons = FireCron(
        settings=settings,
        enabled=True,
        store=store,
        timing=timing,
        crew=Inline(),
        has_threads=False,
        chance=lambda: chance,
    )
    for job in jobs:
        crons.registry.add(job)
    crons.locks.clock.now(crons.locks.deadline(PATIENCE))
    return crons


def evaluator(crons: FireCron) -> LateJobs:
    found = crons.engine.lateness.evaluator
    assert isinstance(found, LateJobs)
    return found


# --- processes of their own


def child(what: str) -> dict[str, float]:
    """What this function measures in a process of its own."""
    done = subprocess.run([sys.executable, __file__, what], stdout=subprocess.PIPE, check=True, timeout=PATIENCE)
    found: dict[str, float] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    logging.getLogger("firecron").setLevel(logging.CRITICAL)
    match sys.argv[1:]:
        case ["starting"]:
            print(json.dumps(starting()))
        case ["looking"]:
            print(json.dumps(looking()))
        case ["month"]:
            month()
        case _:
            main()
