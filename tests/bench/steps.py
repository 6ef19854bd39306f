"""What steps cost: `make bench`, or `python tests/bench/steps.py`.

A job of 100 steps, sync and async, against an emulator in a process of its own. Its requests are counted, and timed
with 20 ms added to each; the processor's time of a step is that of its run less the same run's without steps.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import goals
from serving import serving

from firecron import FireCron, Run, distributed_cron
from firecron.settings import load
from rtdb_emulator import Emulator

SERVE = str(Path(__file__).with_name("serve.py"))
STEPS = 100
ROUNDS = 7
DELAY = 0.02
TICK = datetime(2026, 11, 18, 9, tzinfo=UTC)


def work(number: int) -> dict[str, int]:
    return {"number": number}


async def work_async(number: int) -> dict[str, int]:
    return {"number": number}


def job(steps: int, *, at_most_once: bool = False) -> Callable[..., None]:
    @distributed_cron("job", "* * * * *", lock_ttl=60)
    def run(run: Run) -> None:
        for number in range(steps):
            run.step(f"step {number}", work, number, at_most_once=at_most_once)

    return run


def job_async(steps: int) -> Callable[..., Awaitable[None]]:
    @distributed_cron("job", "* * * * *", lock_ttl=60)
    async def run(run: Run) -> None:
        for number in range(steps):
            await run.step(f"step {number}", work_async, number)

    return run


def crons_at(port: int, function: Callable[..., object]) -> FireCron:
    settings = load(database_url=f"http://127.0.0.1:{port}?ns=bench", history_limit=1000)
    return FireCron(function, enabled=False, settings=settings)


def run_once(crons: FireCron, number: int) -> tuple[float, float]:
    """Run a tick; gives its seconds, and those of the processor."""
    began, cpu = time.perf_counter(), time.process_time()
    result = crons.registry.trigger("job", slot=TICK + timedelta(minutes=number))
    assert result.outcome == "succeeded", result
    return time.perf_counter() - began, time.process_time() - cpu


def count_requests() -> None:
    print(f"requests of a run with {STEPS} steps, of a first attempt")
    for title, function, a_step in (
        ("plain", job(STEPS), 1),
        ("at_most_once", job(STEPS, at_most_once=True), 2),
        ("async", job_async(STEPS), 1),
    ):
        with Emulator() as emulator:
            crons = crons_at(emulator.port, function)
            run_once(crons, 0)
            emulator.requests.clear()
            run_once(crons, 1)
            methods = [request.method for request in emulator.requests.matching(path="/cron-steps/*")]
            crons.stop()
            crons.locks.close()
        print(f"  {title}: {methods.count('PUT')} writes, {methods.count('GET')} reads")
        assert methods == ["PUT"] * STEPS * a_step, methods
        goals.at_most(f"requests of {STEPS} steps, {title}", len(methods), STEPS * a_step + 1, "requests")


def measure(title: str, make: Callable[[int], Callable[..., object]], delay: float) -> None:
    with serving([sys.executable, SERVE, str(delay)]) as (port, _):
        number = 0
        found: dict[int, list[tuple[float, float]]] = {0: [], STEPS: []}
        crons = {steps: crons_at(port, make(steps)) for steps in found}
        for steps in found:
            run_once(crons[steps], number := number + 1)  # connects
        # With a delay there is no goal, and the round trips hardly differ.
        for _ in range(1 if delay else ROUNDS):
            for steps, timed in found.items():
                timed.append(run_once(crons[steps], number := number + 1))
        for one in crons.values():
            one.stop()
            one.locks.close()
    wall, cpu = (
        statistics.median(pair[part] for pair in found[STEPS]) - statistics.median(pair[part] for pair in found[0])
        for part in (0, 1)
    )
    trips = f", {wall / delay:.1f} round trips of {delay * 1000:g} ms" if delay else ""
    print(f"  {title}: {wall * 1000:.0f} ms for {STEPS} steps{trips}; {cpu / STEPS * 1000:.2f} ms of CPU a step")
    if not delay:
        goals.at_most(f"CPU of a step, {title}", cpu / STEPS * 1000, 0.3, "ms")


def main() -> None:
    count_requests()
    for title, delay in (("on loopback", 0.0), ("with 20 ms added to each request", DELAY)):
        print(f"what {STEPS} steps add to a run, {title}")
        measure("sync", job, delay)
        measure("async", job_async, delay)


if __name__ == "__main__":
    main()
