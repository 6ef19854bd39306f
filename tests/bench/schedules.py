"""Stored schedules in numbers: looks among 100,000 entries, a start beside them, and very many that are due at once.

A look's bytes are the emulator's, of a looker that asks at each of its beats. A start is that of a process of its own,
beside 100,000 entries and beside none, in turn. Then the emulator is a process, each request takes 20 ms, and three
instances in this process run what is due: 1,000 entries at one instant, and a few each second beside 10,000 that are
an hour late, as after an outage.
"""

from __future__ import annotations

import logging
import os
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import goals
from handover import child, told
from serving import resident_mib, serving

from firecron import FireCron, Run, scheduled
from firecron.cron.bounded import Bounded
from firecron.lock.stored import LookOptions, WantedSchedule, put
from firecron.settings import load
from rtdb_emulator import Emulator

ENTRIES = 100_000
IN_A_MINUTE = 100
LOOKS = 3
STARTS = 2
DUE = 1_000
OVERDUE = 10_000
FRESH, SECONDS = 4, 6
DELAY = 0.02
INSTANCES = 3
PART = 5_000
ARGS = '{"event": "42", "channel": "mail"}'
# Until a process has made its first look.
PATIENCE = 60
SERVE = str(Path(__file__).with_name("serve.py"))
RULES = str(Path(__file__).parents[2] / "emulator" / "database.rules.json")


class Job:
    """A stored job that notes when the bodies of so many entries begin, whose keys begin so."""

    def __init__(self, number: int = DUE, prefix: str = "") -> None:
        self._number = number
        self._prefix = f"remind:{prefix}"
        self.begun: dict[str, float] = {}
        self.all = threading.Event()

    @scheduled("remind", lock_ttl=60, grace=300)
    def remind(self, run: Run, event: str, channel: str) -> None:
        if run.name.startswith(self._prefix):
            self.begun.setdefault(run.idempotency_key, time.time())
            if len(self.begun) >= self._number:
                self.all.set()


def main() -> None:
    match sys.argv[1:]:
        case ["start", url]:
            start(url)
        case _:
            among_very_many()
            at_one_instant()
            after_an_outage()


def among_very_many() -> None:
    """What an hour of looks takes, and what a start takes more than without entries."""
    with Emulator() as emulator:
        url, empty = (emulator.database_url(name) for name in ("bench", "empty"))
        crons = FireCron(Job(), settings=load(database_url=url), enabled=False)
        for one in (crons, FireCron(settings=load(database_url=empty), enabled=False)):
            deploy(one, emulator.host)
        fill(crons, ENTRIES - IN_A_MINUTE, datetime.now(UTC) + timedelta(days=1), "far")
        fill(crons, IN_A_MINUTE, datetime.now(UTC) + timedelta(seconds=50), "soon")
        look, job = crons.engine.lookers.look, crons.registry.get("remind")
        look(job)  # the first one also asks for what is to be mended, and opens a stream
        emulator.requests.clear()
        for _ in range(LOOKS):
            look(job)
        size = sum(request.request_bytes + request.response_bytes for request in emulator.requests) / LOOKS
        # An instance alone looks at each beat; three of a large fleet do.
        hour = 3_600 / crons.database.settings.heartbeat * size / 1e6
        crons.database.close()
        print(f"a look among {ENTRIES:,} entries, {IN_A_MINUTE} due in a minute: {size:,.0f} bytes,", end=" ")
        print(f"{hour:.1f} MB an hour (wanted: 10)")
        goals.at_most(f"{ENTRIES:,} entries, {IN_A_MINUTE} due in a minute: an hour of looks", hour, 10, "MB")
        starts(url, empty)


def starts(full: str, empty: str) -> None:
    found: dict[str, list[tuple[float, float]]] = {full: [], empty: []}
    for url in (full, empty) * STARTS:
        with child("start", url, script=__file__) as process:
            took = told(process)
            found[url].append((took, told(process)))
    took, memory = (
        statistics.median(one[column] for one in found[full]) - statistics.median(one[column] for one in found[empty])
        for column in range(2)
    )
    print(f"a start with {ENTRIES:,} entries, beside one with none: {took * 1000:+.0f} ms (wanted: 50),", end=" ")
    print(f"{memory:+.2f} MB resident after its first look (wanted: 1)")
    goals.at_most(f"a start, {ENTRIES:,} entries more", took * 1000, 50, "ms")
    goals.at_most(f"memory of a start, {ENTRIES:,} entries more", memory, 1, "MB")


def start(url: str) -> None:
    """Start an instance; tell how long that took, and, after its first look, what is resident."""
    crons = FireCron(Job(), settings=load(database_url=url), enabled=True)
    looked = threading.Event()
    crons.engine.lookers.asked = looked.set  # instead of nothing
    began = time.perf_counter()
    crons.start()
    print(time.perf_counter() - began, flush=True)
    assert looked.wait(PATIENCE), "it has not looked"
    print(resident_mib(os.getpid()), flush=True)
    sys.stdin.read()


def at_one_instant() -> None:
    """How long it takes until the last of many entries that are due at one instant has begun."""
    job = Job()
    with fleet(job) as crons:
        due = (datetime.now(UTC) + timedelta(seconds=6)).replace(microsecond=0)
        fill(crons[0], DUE, due, "e")
        for one in crons:
            one.start()
        assert job.all.wait(PATIENCE), f"{len(job.begun)} of {DUE} have begun"
    last = max(job.begun.values()) - due.timestamp()
    title = f"{DUE:,} due at one instant, {INSTANCES} instances, {DELAY * 1000:.0f} ms a request"
    print(f"{title}: the last body begins after {last:.2f} s (wanted: 3)")
    goals.at_most(f"{title}: the last body", last, 3, "s")


def after_an_outage() -> None:
    """How late fresh ticks start beside very many that are long due."""
    job = Job(FRESH * SECONDS, "fresh")
    with fleet(job) as crons:
        began = (datetime.now(UTC) + timedelta(seconds=4)).replace(microsecond=0)
        fill(crons[0], OVERDUE, began - timedelta(hours=1), "old")
        for second in range(SECONDS):
            fill(crons[0], FRESH, began + timedelta(seconds=second), f"fresh-{second}-")
        for one in crons:
            one.start()
        assert job.all.wait(PATIENCE), f"{len(job.begun)} of {FRESH * SECONDS} have begun"
        nodes = crons[0].database.node(crons[0].database.paths.schedules_of("remind"))
    assert isinstance(nodes, dict)
    settled = sum("closed" in node for key, node in nodes.items() if key.startswith(":old"))
    lags = [begun - datetime.fromisoformat(key[-20:]).timestamp() for key, begun in job.begun.items()]
    title = f"{FRESH * SECONDS} ticks beside {OVERDUE:,} that are long due"
    print(f"{title}, of which {settled:,} are settled by then: the latest begins after {max(lags):.2f} s (wanted: 1)")
    goals.at_most(f"{title}: the latest body", max(lags), 1, "s")


@contextmanager
def fleet(job: Job) -> Iterator[list[FireCron]]:
    """Yield instances that are not started yet, on a slow database with the shipped rules. Stop them at the end."""
    with serving([sys.executable, SERVE, str(DELAY)]) as (port, _), ExitStack() as ending:
        url = f"http://127.0.0.1:{port}?ns=bench"
        crons = [FireCron(job, settings=load(database_url=url), enabled=True) for _ in range(INSTANCES)]
        deploy(crons[0], f"127.0.0.1:{port}")
        for one in crons:
            ending.callback(one.stop)
        yield crons


def fill(crons: FireCron, entries: int, at: datetime, name: str) -> None:
    """Put so many entries, by large writes: as `put` would write them, two hours before they are due."""
    database = crons.database
    now = round((at - timedelta(hours=2)).timestamp() * 1000)
    node = put(None, WantedSchedule(Bounded(at=at), args=ARGS), LookOptions(database.margin), now)
    assert isinstance(node, dict)
    for begin in range(0, entries, PART):
        part: dict[str, object] = {f":{name}{number}": node for number in range(begin, min(begin + PART, entries))}
        database.store.merge(database.paths.schedules_of("remind"), part, database.deadline(60), echo=False)


def deploy(crons: FireCron, host: str) -> None:
    """Give the emulator the shipped rules, which have the index."""
    import requests

    namespace = crons.database.target().parameters.get("ns", "")
    address = f"http://{host}/.settings/rules.json?ns={namespace}"
    reply = requests.put(address, Path(RULES).read_bytes(), headers={"Authorization": "Bearer owner"}, timeout=30)
    reply.raise_for_status()


if __name__ == "__main__":
    logging.getLogger("firecron").setLevel(logging.CRITICAL)
    main()
