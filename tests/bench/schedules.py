"""Stored schedules in numbers: a look among 100,000 entries, and 1,000 that are due at one instant.

The emulator is a process of its own. Three instances in this process look for what is due, with 20 ms added to each
request; only their bodies' first lines are timed.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import goals
from serving import serving

from firecron import FireCron, Run, scheduled
from firecron.cron.bounded import Bounded
from firecron.lock.stored import LookOptions, WantedSchedule, put
from firecron.settings import load
from firecron.store import Querying

ENTRIES = 100_000
DUE = 1_000
DELAY = 0.02
INSTANCES = 3
PART = 5_000
SERVE = str(Path(__file__).with_name("serve.py"))
RULES = str(Path(__file__).parents[2] / "emulator" / "database.rules.json")


class Job:
    """A stored job that notes when its bodies begin."""

    def __init__(self) -> None:
        self.begun: dict[str, float] = {}
        self.all = threading.Event()

    @scheduled("remind", lock_ttl=60, grace=300)
    def remind(self, run: Run) -> None:
        self.begun.setdefault(run.idempotency_key, time.time())
        if len(self.begun) >= DUE:
            self.all.set()


def fill(crons: FireCron, entries: int, at: datetime, name: str) -> None:
    """Put so many entries, by large writes: as `put` would write them."""
    database = crons.database
    now = database.now(database.deadline())
    node = put(None, WantedSchedule(Bounded(at=at)), LookOptions(database.margin), now)
    assert isinstance(node, dict)
    for start in range(0, entries, PART):
        part: dict[str, object] = {f":{name}{number}": node for number in range(start, min(start + PART, entries))}
        database.store.merge(database.paths.schedules_of("remind"), part, database.deadline(60), echo=False)


def of_a_look() -> None:
    """What one question among many entries takes: only those that are due soon come back."""
    with serving([sys.executable, SERVE, "0"]) as (port, _):
        os.environ["FIREBASE_DATABASE_EMULATOR_HOST"] = f"127.0.0.1:{port}"
        crons = FireCron(Job(), settings=load(), enabled=False)
        deploy(crons)
        fill(crons, ENTRIES, datetime.now(UTC) + timedelta(days=1), "far")
        fill(crons, 100, datetime.now(UTC) + timedelta(seconds=50), "soon")
        store, now = crons.database.store, crons.database.now(crons.database.deadline())
        assert isinstance(store, Querying)
        path = crons.database.paths.schedules_of("remind")
        began = time.perf_counter()
        found = store.query(
            path, "nextAt", crons.database.deadline(30), start=now - 300_000, end=now + 60_000, most=1000
        )
        took = time.perf_counter() - began
        crons.database.close()
    assert len(found) == 100
    size = sum(len(str(node)) for _, node in found)
    print(f"a query among {ENTRIES:,} entries, 100 due: {took * 1000:.0f} ms, {size / 1000:.0f} kB")
    # 120 beats an hour, of which three in a fleet's are a looker's; an instance alone makes all of them.
    goals.at_most(f"{ENTRIES:,} entries, 100 due: bytes of an hour of looks", 120 * size / 1e6, 10, "MB")


def of_many_at_once() -> None:
    """How long it takes until the last of many entries that are due at one instant has begun."""
    with serving([sys.executable, SERVE, str(DELAY)]) as (port, _):
        os.environ["FIREBASE_DATABASE_EMULATOR_HOST"] = f"127.0.0.1:{port}"
        job = Job()
        fleet = [FireCron(job, settings=load(), enabled=True) for _ in range(INSTANCES)]
        deploy(fleet[0])
        due = (datetime.now(UTC) + timedelta(seconds=15)).replace(microsecond=0)
        fill(fleet[0], DUE, due, "e")
        for crons in fleet:
            crons.start()
        job.all.wait(90)
        for crons in fleet:
            crons.stop()
    assert len(job.begun) == DUE, len(job.begun)
    last = max(job.begun.values()) - due.timestamp()
    print(
        f"{DUE:,} due at one instant, {INSTANCES} instances, {DELAY * 1000:.0f} ms: the last begins after {last:.2f} s"
    )
    goals.at_most(f"{DUE:,} due at one instant, {INSTANCES} instances: the last body", last, 3, "s")


def deploy(crons: FireCron) -> None:
    """Give the emulator the shipped rules, which have the index."""
    import requests

    host = os.environ["FIREBASE_DATABASE_EMULATOR_HOST"]
    namespace = crons.database.target().parameters.get("ns", "")
    address = f"http://{host}/.settings/rules.json?ns={namespace}"
    reply = requests.put(address, Path(RULES).read_bytes(), headers={"Authorization": "Bearer owner"}, timeout=30)
    reply.raise_for_status()


def main() -> None:
    of_a_look()
    of_many_at_once()


if __name__ == "__main__":
    main()
