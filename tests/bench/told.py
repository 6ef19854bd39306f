"""What it delays and costs to tell people and monitoring services: `make bench`, or `python tests/bench/told.py`.

The time from the end of a job's function to the release of its lock: without a service, and beside one that hangs,
that returns 500, or that sends its reply a byte at a time. The emulator is a process of its own. Beside a chat that
hangs each run changes the job's verdict: it fails, or is well again.

Then five instances notify. One has a run that fails, and one that is well: the messages, and the requests that notify
adds to such a run. Their service dies, and two rounds of looks tell of that: the messages, and a look's requests.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

import goals
import sentry_sdk
from serving import serving

sys.path.append(str(Path(__file__).parents[2]))
from tests.process.channel_server import ChannelServer, channel_server
from tests.process.ping_server import PingServer, ping_server

from firecron import FireCron, Run, distributed_cron
from firecron.base.clocks import Deadline
from firecron.jobs.catalogue import declared
from firecron.notify import notify
from firecron.pings import pings
from firecron.sentry import monitor
from firecron.settings import load
from firecron.store import Snapshot
from firecron.testing import FakeTiming, MemoryStore

SERVE = str(Path(__file__).with_name("serve.py"))
RUNS = 50
MOST = 50
TICK = datetime(2026, 11, 18, 9, tzinfo=UTC)
INSTANCES = 5


def main() -> None:
    os.environ["RUNTIME_INSTANCE"] = "production"
    logging.getLogger("firecron").setLevel(logging.CRITICAL)  # the failures are meant
    services: dict[str, Callable[[FireCron], AbstractContextManager[object]]] = {
        "no service": nullcontext,
        "pings, which hang": lambda crons: pinged(crons, lambda server: server.may_answer.clear()),
        "pings, 500 each": lambda crons: pinged(crons, lambda server: server.statuses.extend([500] * 4 * RUNS)),
        "pings, byte by byte": lambda crons: pinged(crons, dripping),
        "Sentry, which hangs": checked_in,
        "notify, which hangs": notified,
    }
    print(f"from the end of a function to the release, {RUNS} runs:")
    usual = 0.0
    for name, told in services.items():
        with serving([sys.executable, SERVE, "0"]) as (port, _):
            delays = releases(port, told, turns=told is notified)
        print(f"  {name:<20} {median(delays):6.1f} ms   the longest {max(delays):6.1f} ms")
        usual = usual or median(delays)
        if told is not nullcontext:
            goals.at_most(f"{name}: what it delays the latest release", max(delays) - usual, MOST, "ms")
    with channel_server() as server:
        fleet(server)


def releases(
    port: int, told: Callable[[FireCron], AbstractContextManager[object]], *, turns: bool = False
) -> list[float]:
    """Return how long after each run its lock was released, in milliseconds. With `turns` every other run fails."""
    ended: list[float] = []
    released: list[float] = []

    @distributed_cron("Report", "* * * * *", lock_ttl=60, expected_runtime=30, alert_after=1)
    def report(run: Run) -> None:
        ended.append(time.perf_counter())
        if turns and len(ended) % 2:
            raise OSError("every other run fails")

    settings = load(database_url=f"http://127.0.0.1:{port}?ns=bench", history_limit=1000)
    crons = FireCron(report, settings=settings)
    crons.events.subscribe(
        lambda event: released.append(time.perf_counter()) if event.slug == "lock.released" else None
    )
    with told(crons):
        for index in range(RUNS):
            with suppress(OSError):
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


@contextmanager
def notified(crons: FireCron) -> Iterator[None]:
    with channel_server() as server:
        server.bad["webhook"] = "hangs"
        stop = notify(crons, webhook=server.url("webhook"))
        yield
        server.is_over.set()
        stop()


# --- what a fleet sends, and asks for


class CountingStore(MemoryStore):
    """A store that counts the requests."""

    def __init__(self, timing: FakeTiming) -> None:
        super().__init__(timing.now)
        self.requests = 0

    def read(self, path: str, deadline: Deadline) -> Snapshot:
        self.requests += 1
        return super().read(path, deadline)

    def swap(self, path: str, etag: str, data: dict[str, object] | None, deadline: Deadline) -> str | Snapshot:
        self.requests += 1
        return super().swap(path, etag, data, deadline)

    def merge(
        self, path: str, values: dict[str, object], deadline: Deadline, *, echo: bool = True
    ) -> dict[str, object]:
        self.requests += 1
        return super().merge(path, values, deadline, echo=echo)


class Fleet:
    """Instances with one job, in virtual time. `fails` says how its next run ends."""

    def __init__(self, number: int) -> None:
        self.timing = FakeTiming()
        self.store = CountingStore(self.timing)
        self.fails = False
        self.instances = [self._instance() for _ in range(number)]
        self.live(True)
        options = self.instances[0].registry.get("report").options
        entry = declared(options, where="jobs", ticks=True, service="local", revision="r").to_node()
        self.store.set("cron-jobs/report", {**entry, "since": self.timing.now(), "declaredAt": 1})

    def _instance(self) -> FireCron:
        @distributed_cron("report", "0 9 * * *", alert_after=1)
        def report() -> None:
            if self.fails:
                raise OSError("the feed is away")

        return FireCron(report, store=self.store, timing=self.timing, settings=load(), enabled=True, has_threads=False)

    def live(self, is_alive: bool) -> None:
        seen = self.timing.now() + 900_000_000 if is_alive else 1
        node = {"seenAt": seen, "jobs": "report", "service": "local", "heartbeat": 30}
        self.store.set("cron-groups/0123456789abcdef", node)

    def run(self, *, fails: bool) -> int:
        """Run the next tick on the first instance, and return the requests until all is told."""
        self.fails, crons = fails, self.instances[0]
        self.timing.advance(3_600)
        before = self.store.requests
        with suppress(OSError):
            crons.registry.trigger("report", slot=datetime.fromtimestamp(self.timing.now() / 1000, UTC))
        self.flush()
        return self.store.requests - before

    def look(self) -> int:
        """Have each instance look, and return the requests of all."""
        self.timing.advance(300)
        before = self.store.requests
        for crons in self.instances:
            for look in crons.engine.lateness.rounds:
                look()
            self.flush()
        return self.store.requests - before

    def flush(self) -> None:
        for crons in self.instances:
            for look in crons.engine.lateness.rounds:
                look.__self__.outbox.flush()  # type: ignore[attr-defined]  # a bound method of the notifier


def fleet(server: ChannelServer) -> None:
    turns = (True, False)
    silent = Fleet(1)
    alone = [silent.run(fails=False), *(silent.run(fails=fails) for fails in turns)][1:]
    told = Fleet(INSTANCES)
    ends = [notify(crons, webhook=server.url("webhook")) for crons in told.instances]
    told.run(fails=False)
    added = [told.run(fails=fails) - usual for fails, usual in zip(turns, alone, strict=True)]
    messages = [one.message["event"] for one in server.posted]
    print(f"{INSTANCES} instances that notify: {', '.join(messages)}; {added} requests added to these runs")
    goals.at_most("notify: messages of a fleet for a change of verdict", len(messages) / len(turns), 1, "")
    goals.at_most("notify: requests that a change of verdict adds to its run", max(added), 6, "")
    told.live(False)
    looks = [told.look() for _ in range(3)]
    words = [one.message["event"] for one in server.posted[len(messages) :]]
    print(f"their service dies: {', '.join(words)}; {looks} requests of three rounds of {INSTANCES} looks")
    goals.at_most("notify: messages of a fleet whose job nobody runs", len(words), 1, "")
    goals.at_most("notify: requests of a look that finds nothing new", looks[-1] / INSTANCES, 6, "")
    for end in ends:
        end()


if __name__ == "__main__":
    main()
