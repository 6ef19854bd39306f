"""What a monitoring service delays: `make bench`, or `python tests/bench/told.py`.

The time from the end of a job's function to the release of its lock: without a service, and beside one that hangs,
that returns 500, or that sends its reply a byte at a time. The emulator is a process of its own.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

import goals
import sentry_sdk
from serving import serving

sys.path.append(str(Path(__file__).parents[2]))
from tests.process.ping_server import PingServer, ping_server

from firecron import FireCron, Run, distributed_cron
from firecron.pings import pings
from firecron.sentry import monitor
from firecron.settings import load

SERVE = str(Path(__file__).with_name("serve.py"))
RUNS = 50
MOST = 50
TICK = datetime(2026, 11, 18, 9, tzinfo=UTC)


def main() -> None:
    os.environ["RUNTIME_INSTANCE"] = "production"
    services: dict[str, Callable[[FireCron], AbstractContextManager[object]]] = {
        "no service": nullcontext,
        "pings, which hang": lambda crons: pinged(crons, lambda server: server.may_answer.clear()),
        "pings, 500 each": lambda crons: pinged(crons, lambda server: server.statuses.extend([500] * 4 * RUNS)),
        "pings, byte by byte": lambda crons: pinged(crons, dripping),
        "Sentry, which hangs": checked_in,
    }
    print(f"from the end of a function to the release, {RUNS} runs:")
    usual = 0.0
    for name, told in services.items():
        with serving([sys.executable, SERVE, "0"]) as (port, _):
            delays = releases(port, told)
        print(f"  {name:<20} {median(delays):6.1f} ms   the longest {max(delays):6.1f} ms")
        usual = usual or median(delays)
        if told is not nullcontext:
            goals.at_most(f"{name}: what it delays the latest release", max(delays) - usual, MOST, "ms")


def releases(port: int, told: Callable[[FireCron], AbstractContextManager[object]]) -> list[float]:
    """Return how long after each run its lock was released, in milliseconds."""
    ended: list[float] = []
    released: list[float] = []

    @distributed_cron("Report", "* * * * *", lock_ttl=60, expected_runtime=30)
    def report(run: Run) -> None:
        ended.append(time.perf_counter())

    settings = load(database_url=f"http://127.0.0.1:{port}?ns=bench", history_limit=1000)
    crons = FireCron(report, settings=settings)
    crons.events.subscribe(
        lambda event: released.append(time.perf_counter()) if event.slug == "lock.released" else None
    )
    with told(crons):
        for index in range(RUNS):
            crons.registry.trigger("Report", slot=TICK + timedelta(minutes=index))
    return [(after - before) * 1000 for before, after in zip(ended, released, strict=True)]


@contextmanager
def pinged(crons: FireCron, behave: Callable[[PingServer], None]) -> Iterator[None]:
    with ping_server() as server:
        behave(server)
        stop = pings(crons, healthchecks=server.url)
        yield
        server.may_answer.set()
        stop()


def dripping(server: PingServer) -> None:
    server.drips = True
    server.may_answer.clear()


@contextmanager
def checked_in(crons: FireCron) -> Iterator[None]:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        dsn = f"http://key@127.0.0.1:{silent.getsockname()[1]}/1"
        sentry_sdk.init(dsn=dsn, default_integrations=False, shutdown_timeout=0)
        stop = monitor(crons)
        yield
        stop()


if __name__ == "__main__":
    main()
