"""From a tick's instant to its body: one instance with very many jobs, and fleets: `make bench`, or
`python tests/bench/lags.py`.

Alone, 1,000 jobs are due at one instant, with the default settings. Fleets are started `FireCron`s, several in each of
two processes, with heartbeats of 5 s; four of their 48 jobs are due each second, each every 12 s. Requests take what
they take on loopback, then 20 ms more. Bodies return at once, and tell how late they began.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import goals
from beats import wait_until_all_know
from serving import serving

from firecron import FireCron, Run, distributed_cron
from firecron.jobs.job import Job, explore
from firecron.settings import load
from rtdb_emulator import Emulator

SERVE = str(Path(__file__).with_name("serve.py"))
AT_ONCE = 1_000
EVERY_ALONE = 5
ROUNDS = 3
PATIENCE = 120
DELAY = 0.02

PROCESSES = 2
HEARTBEAT = 5
EVERY = 12
PER_SECOND = 4
# When a tick that has not run by then is missed.
MISSED = 6
# Of an instance of a fleet. The instances share two processors, so a tick may find one busy.
HALF, MOST = 0.25, 1.0
# What the lock of a tick may cost a fleet, as in `fleet.py`.
REQUESTS = 24


def main() -> None:
    for delay in (0.0, DELAY):
        alone(delay)
    for instances in (50, 200):
        fleet(instances)


def show(title: str, lags: list[float], half: float, last: float) -> None:
    """Print and report when half of the bodies have begun, when 99 in 100 have, and when all have."""
    found = sorted(lags)
    p50, p99 = (found[int(len(found) * part)] for part in (0.5, 0.99))
    print(f"  {title}: bodies begin after {p50:.2f} s (p50, wanted: {half:g}), {p99:.2f} s (p99),", end=" ")
    print(f"{found[-1]:.2f} s (the last of {len(found):,}, wanted: {last:g})")
    goals.at_most(f"slot to body, {title}, p50", p50, half, "s")
    goals.at_most(f"slot to body, {title}, p99", p99, last, "s")
    goals.at_most(f"slot to body, {title}, the last", found[-1], last, "s")


# --- one instance


def alone(delay: float) -> None:
    """How late bodies begin when very many jobs tick at one instant, and what a run costs."""
    title = f"{AT_ONCE:,} jobs at one instant, {delay * 1000:.0f} ms a request"
    with serving([sys.executable, SERVE, str(delay)]) as (port, _):
        rounds, cpu = _rounds(f"http://127.0.0.1:{port}?ns=bench")
    show(title, sorted(rounds, key=max)[len(rounds) // 2], half=1, last=2)
    print(f"    CPU of a run, from its plan to its history: {cpu * 1e6:,.0f} µs (wanted: 750)")
    goals.at_most(f"CPU of a run, {title}", cpu * 1e6, 750, "µs")


def _rounds(url: str) -> tuple[list[list[float]], float]:
    """Return how many seconds after their slot bodies began, in each round, and the CPU of a run, in seconds.

    The first round finds no connections yet, and is left out.
    """
    begun: dict[float, list[float]] = {}
    changed = threading.Condition()

    def make(index: int) -> Job:
        @distributed_cron(f"bench-{index}", f"*/{EVERY_ALONE} * * * * *", lock_ttl=30)
        def body(run: Run) -> None:
            assert run.slot is not None
            slot = run.slot.timestamp()
            with changed:
                begun.setdefault(slot, []).append(time.time() - slot)
                changed.notify_all()

        return explore(body)[0]

    def full() -> list[list[float]]:
        return [lags for lags in begun.values() if len(lags) == AT_ONCE]

    crons = FireCron(enabled=True, settings=load(database_url=url))
    for index in range(AT_ONCE):
        crons.registry.add(make(index))
    crons.start()
    with changed:
        assert changed.wait_for(lambda: len(full()) == 1, PATIENCE), "the first bodies have not begun"
        before, ran = time.process_time(), sum(map(len, begun.values()))
        assert changed.wait_for(lambda: len(full()) == ROUNDS, PATIENCE), "not all bodies have begun"
        rounds = full()[1:]
    crons.stop()
    ran = sum(map(len, begun.values())) - ran
    return rounds, (time.process_time() - before) / ran


# --- fleets


@dataclass(frozen=True, slots=True)
class Window:
    """The ticks of so many seconds from `start` on, and what their locks cost all instances together."""

    start: float
    requests: int
    size: int


class Fleet:
    """Processes with instances, and what they tell of each body that begins."""

    def __init__(self, url: str, instances: int) -> None:
        self._changed = threading.Condition()
        self._begun: list[tuple[float, float]] = []
        command = [sys.executable, __file__, url, str(instances // PROCESSES)]
        self._processes = [
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            for _ in range(PROCESSES)
        ]
        self._readers = [threading.Thread(target=self._read, args=[process]) for process in self._processes]
        for reader in self._readers:
            reader.start()

    def wait_for(self, window: Window) -> None:
        """Wait until all ticks of the window have begun, or until those that have not are missed."""
        ends = window.start + EVERY + MISSED
        with self._changed:
            while len(self.lags(window)) < EVERY * PER_SECOND and (left := ends - time.time()) > 0:
                self._changed.wait(left)

    def lags(self, window: Window) -> list[float]:
        """Return how many seconds after its slot each body of the window began."""
        return [lag for slot, lag in self._begun if window.start <= slot < window.start + EVERY]

    def end(self) -> None:
        for process in self._processes:
            process.kill()
        for process, reader in zip(self._processes, self._readers, strict=True):
            reader.join()
            process.communicate()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            slot, lag = map(float, line.split())
            with self._changed:
                self._begun.append((slot, lag))
                self._changed.notify_all()


def fleet(instances: int) -> None:
    with Emulator() as emulator, _started(emulator, instances) as one:
        wait_until_all_know(emulator, instances)
        windows = [_window(emulator, one)]
        emulator.faults.delay(DELAY, times=None)
        windows.append(_window(emulator, one))
    for window, delay in zip(windows, (0.0, DELAY), strict=True):
        lags, ticks = one.lags(window), EVERY * PER_SECOND
        assert len(lags) <= ticks, "a tick has run twice"
        title = f"{instances} instances, {delay * 1000:.0f} ms a request"
        show(title, lags, HALF, MOST)
        requests = window.requests / ticks
        print(f"    a tick: {requests:.1f} requests (wanted: {REQUESTS}), {window.size / ticks:,.0f} bytes;", end=" ")
        print(f"missed: {ticks - len(lags)} of {ticks} (wanted: 0)")
        goals.at_most(f"requests for the lock of a tick, {title}", requests, REQUESTS, "requests")
        goals.at_most(f"missed ticks, {title}", ticks - len(lags), 0, "ticks")


@contextlib.contextmanager
def _started(emulator: Emulator, instances: int) -> Iterator[Fleet]:
    one = Fleet(emulator.database_url("bench"), instances)
    try:
        yield one
    finally:
        one.end()


def _window(emulator: Emulator, one: Fleet) -> Window:
    """Wait while each job ticks once."""
    start = float(int(time.time()) + 2)
    time.sleep(start - 0.5 - time.time())
    emulator.requests.clear()
    time.sleep(start + EVERY - 0.5 - time.time())
    asked = [request for request in emulator.requests if request.facts.path.startswith("/cron-locks/")]
    # What the later waves of the last ticks cost is left out, and so much of the ticks before is counted instead.
    size = sum(request.request_bytes + request.response_bytes for request in asked)
    window = Window(start, len(asked), size)
    one.wait_for(window)
    return window


def _job(index: int) -> Job:
    @distributed_cron(f"bench-{index}", f"{index % EVERY}-59/{EVERY} * * * * *", lock_ttl=15)
    def body(run: Run) -> None:
        assert run.slot is not None
        slot = run.slot.timestamp()
        # In one write, because other bodies write at the same time.
        os.write(sys.stdout.fileno(), f"{slot:.0f} {time.time() - slot:.3f}\n".encode())

    return explore(body)[0]


def child(url: str, number: int) -> None:
    """Run so many instances until standard input ends, or until this process is killed."""
    settings = load(database_url=url, heartbeat=HEARTBEAT)
    with contextlib.ExitStack() as ending:
        for _ in range(number):
            crons = FireCron(settings=settings, enabled=True)
            for index in range(EVERY * PER_SECOND):
                crons.registry.add(_job(index))
            ending.enter_context(crons)
            time.sleep(0.02)
        sys.stdin.read()


if __name__ == "__main__":
    logging.getLogger("firecron").setLevel(logging.CRITICAL)
    if len(sys.argv) > 1:
        child(sys.argv[1], int(sys.argv[2]))
    else:
        main()
