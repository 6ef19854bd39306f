"""What a tick costs a large fleet, and when it starts after most of it has died: real instances against the emulator.

    python tests/bench/fleet.py            200 instances, and 120 that die: about one minute
    python tests/bench/fleet.py all        also with all that ask, and with 50: about three; fails if a goal is missed

Each process has several instances: started FireCrons with heartbeats of 5 s, and a job that ticks every 20 s. The
emulator counts the requests and bytes for the lock, of all instances together. Each step is told as it begins.
"""

from __future__ import annotations

import contextlib
import logging
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import goals
from beats import wait_until_all_know, wait_until_all_live

from firecron import FireCron, Run, distributed_cron
from firecron.settings import load
from rtdb_emulator import Emulator

EVERY = 20
HEARTBEAT = 5
NAME = "fleet"
# Of the time between two ticks; then all waves have asked.
SETTLED = 18
GOAL = 24
# The first may be the first of all, which finds no record yet.
TICKS = 2
# Processes, instances in each, contenders. The fleets of a line start at once: what is counted doesn't depend on speed.
# But a start during another fleet's tick would delay beats, and an instance that misses them asks in doubt.
COMPARED = [[(5, 10, 0), (5, 10, 3)], [(5, 40, 0)]]
# Beside the one that dies.
LARGE = (5, 40, 3)


@distributed_cron(NAME, f"*/{EVERY} * * * * *", lock_ttl=15)
def job(run: Run) -> None:
    assert run.slot is not None
    print(f"{run.slot.timestamp():.0f} {time.time() - run.slot.timestamp():.3f}", flush=True)


def child(url: str, number: int, contenders: int) -> None:
    """Run so many instances until standard input ends, or until this process is killed."""
    settings = load(database_url=url, heartbeat=HEARTBEAT, contenders=contenders, workers=2)
    with contextlib.ExitStack() as ending:
        for _ in range(number):
            ending.enter_context(FireCron(job, settings=settings, enabled=True))
            time.sleep(0.02)
        sys.stdin.read()


@dataclass(frozen=True, slots=True)
class Tick:
    """What a tick has cost, and how many seconds after its slot it started; None if it did not run."""

    requests: int
    size: int
    lag: float | None


class Fleet:
    """Processes with instances, and what they have run."""

    def __init__(self, emulator: Emulator, contenders: int) -> None:
        self.emulator = emulator
        self._contenders = contenders
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, processes: int, each: int) -> None:
        for _ in range(processes):
            url = self.emulator.database_url("bench")
            arguments = [sys.executable, __file__, url, str(each), str(self._contenders)]
            process = subprocess.Popen(
                arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            self.processes.append(process)

    def ticks(self, slot: float, number: int) -> list[Tick]:
        """What each tick costs: that of this slot, and those after it."""
        found = []
        for at in range(int(slot), int(slot) + number * EVERY, EVERY):
            sleep_until(at - 0.5)
            self.emulator.requests.clear()
            sleep_until(at + SETTLED)
            asked = self.emulator.requests.matching(path=f"/cron-locks/{NAME}")
            key = f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"
            run = self.emulator.get("bench", f"/cron-runs/{NAME}/{key}")
            started = run.get("startedAt") if isinstance(run, dict) and run["outcome"] == "succeeded" else None
            lag = started / 1000 - at if isinstance(started, int) else None
            size = sum(request.request_bytes + request.response_bytes for request in asked)
            found.append(Tick(len(asked), size, lag))
        return found

    def kill(self, number: int) -> None:
        """Kill so many processes at once."""
        dying = self.processes[:number]
        del self.processes[:number]
        for process in dying:
            process.kill()
        for process in dying:
            process.wait()


def next_slot(seconds: float) -> float:
    """The first instant of a tick that is at least so many seconds away."""
    return math.ceil((time.time() + seconds) / EVERY) * EVERY


def sleep_until(instant: float) -> None:
    time.sleep(max(0.0, instant - time.time()))


@contextlib.contextmanager
def fleet(contenders: int = 3) -> Iterator[Fleet]:
    with Emulator() as emulator:
        one = Fleet(emulator, contenders)
        try:
            yield one
        finally:
            one.kill(len(one.processes))


def cost(processes: int, each: int, contenders: int) -> bool:
    """Print what a tick costs. Return whether that is few enough requests, for a fleet with tickets."""
    number = processes * each
    say(f"{number} instances start, contenders={contenders}")
    with fleet(contenders) as one:
        one.start(processes, each)
        (wait_until_all_know if contenders else wait_until_all_live)(one.emulator, number)
        ticks = one.ticks(next_slot(1), TICKS)
    most = max(tick.requests for tick in ticks)
    verdict = f"\n    the most requests for the lock: {most} (wanted: {GOAL})" if contenders else ""
    show(f"{number} instances, contenders={contenders}", ticks, verdict)
    if contenders:
        goals.at_most(f"the most requests for a tick, {number} instances", most, GOAL, "requests")
    return not contenders or most <= GOAL


def deaths() -> bool:
    """Print when ticks start after most of a fleet has died. Return whether all do, and each before the next one."""
    say("120 instances start")
    with fleet() as one:
        one.start(12, 10)
        wait_until_all_know(one.emulator, 120)
        slot = next_slot(1.5)
        sleep_until(slot - 1)
        say("110 of them are killed")
        one.kill(11)
        ticks = one.ticks(slot, TICKS)
    lags = [tick.lag for tick in ticks if tick.lag is not None]
    missed, latest = len(ticks) - len(lags), max(lags, default=0.0)
    verdict = f"\n    missed: {missed} (wanted: 0); the latest start {latest:.1f} s (wanted: {EVERY})"
    show("120 instances, of which 110 are killed just before the first of these ticks", ticks, verdict)
    goals.at_most("ticks missed after 110 of 120 instances died", missed, 0, "ticks")
    goals.at_most("the latest start after 110 of 120 instances died", latest, EVERY, "s")
    return not missed and latest <= EVERY


def say(what: str) -> None:
    """Print what begins, and at what time."""
    print(f"[{datetime.now(UTC):%H:%M:%S}] {what}", flush=True)


def show(title: str, ticks: list[Tick], verdict: str) -> None:
    """Print what was measured, at once, because another fleet may tell something, too."""
    requests = statistics.mean(tick.requests for tick in ticks)
    size = statistics.mean(tick.size for tick in ticks)
    lags = ", ".join("missed" if tick.lag is None else f"{tick.lag:.2f} s" for tick in ticks)
    print(
        f"{title}: {requests:.0f} requests and {size:,.0f} bytes a tick; they start after {lags}{verdict}", flush=True
    )


def main(*, compares: bool) -> int:
    """Measure. Return the exit code: a benchmark that compares fails if a goal is missed."""
    batches: list[list[Callable[[], bool]]] = []
    if compares:
        batches += [[partial(cost, *fleet) for fleet in fleets] for fleets in COMPARED]
    batches.append([partial(cost, *LARGE), deaths])
    with ThreadPoolExecutor() as pool:
        kept = [is_kept for batch in batches for is_kept in list(pool.map(lambda measure: measure(), batch))]
    return int(compares and not all(kept))


if __name__ == "__main__":
    logging.getLogger("firecron").setLevel(logging.CRITICAL)
    if len(sys.argv) > 2:
        child(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    else:
        sys.exit(main(compares=sys.argv[1:] == ["all"]))
