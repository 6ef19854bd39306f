"""A fleet's database for the page's pictures and its bench: jobs with a history of fifty ticks each, made up."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from tests.page.paging import declare

from firecron.base.instants import to_milliseconds
from firecron.cron.schedule import Schedule, newest
from firecron.jobs.run import Outcome
from firecron.runs.entry import Entry, unrun
from rtdb_emulator.pytest_plugin import Rtdb

Node: TypeAlias = dict[str, object]

_DAY = 86_400_000
_MINUTE = 60_000
_OWNER: Node = {"instanceId": "api-00042-kex", "instance": "00bf4bd1c2aa"}


@dataclass(frozen=True)
class Sample:
    """A job: its schedule, how long a run takes, and which of its fifty ticks, from the newest, ended otherwise."""

    name: str
    line: str
    timezone: str = "UTC"
    takes: int = 1200
    odd: tuple[tuple[int, Outcome], ...] = ()
    note: str | None = None


SAMPLES = (
    Sample("billing-close", "0 2 * * *", "America/New_York", 410_000, ((17, "failed"), (31, "interrupted"))),
    Sample("cache-warmup", "*/5 * * * *", takes=900, odd=((6, "skipped"), (7, "skipped")), note="212 keys"),
    Sample("daily-report", "0 9 * * *", "Europe/Berlin", 41_000, ((39, "abandoned"),), "1 report, 14 pages"),
    Sample("digest-mails", "0 18 * * 1-5", "Europe/London", 92_000, ((3, "failed"),), "1,204 mails"),
    Sample("expire-carts", "*/10 * * * *", takes=2300, note="38 carts"),
    Sample("fx-rates", "*/20 * * * *", takes=640, odd=((0, "failed"), (1, "failed"), (2, "failed"), (28, "failed"))),
    Sample("inventory-sync", "*/15 * * * *", takes=9100, odd=((21, "missed"), (22, "missed"))),
    Sample("invoice-mails", "*/6 * * * *", takes=74_000, odd=((12, "cancelled"),)),
    Sample("ledger-snapshot", "30 0 1 * *", "America/New_York", 620_000),
    Sample("partner-export", "0 4 * * 1", "Asia/Tokyo", 305_000, ((5, "lost"),)),
    Sample("search-reindex", "30 1 * * *", takes=1_240_000, odd=((9, "failed"),), note="88,410 documents"),
    Sample("thumbnail-sweep", "*/30 * * * *", takes=5400, note="nothing to do"),
)


def seed(rtdb: Rtdb, samples: Iterable[Sample] = SAMPLES, *, in_need: bool = True) -> None:
    """Fill the database. `in_need`: some of the jobs fail, are late, paused or retired, and one of them runs."""
    now = int(time.time() * 1000)
    samples = tuple(samples)
    for sample in samples:
        declare(rtdb, sample.name, sample.line, timezone=sample.timezone, service="api", declared_at=now - 3 * _DAY)
        ticks = newest(Schedule(sample.line, sample.timezone), now - 5 * 365 * _DAY, now, 50)
        entries = _history(sample, ticks)
        rtdb.set(f"/cron-runs/{sample.name}", {entry.key: _noted(entry, sample.note) for entry in entries})
        rtdb.set(f"/cron-locks/{sample.name}", _released(entries[-1]))
    rtdb.set("/cron-groups/3f1c", _group(now, "api", samples))
    for number, name in enumerate(("00bf4bd1c2aa", "00c1aa09e7f3", "00d9e2b40c11")):
        seen = {"instanceId": "api-00042-kex", "startedAt": now - 5 * 60 * _MINUTE, "seenAt": now - number * 4000}
        rtdb.set(f"/cron-instances/{name}-1", seen)
    rtdb.set("/cron-locks/outbox-relay", {**_held(now, 190 * _MINUTE), "kind": "leader", "renews": True})
    if in_need:
        _disturb(rtdb, now)


def _history(sample: Sample, ticks: list[str]) -> list[Entry]:
    chance, odd = random.Random(sample.name), dict(sample.odd)
    return [
        _entry(slot, odd.get(len(ticks) - 1 - number, "succeeded"), sample, chance) for number, slot in enumerate(ticks)
    ]


def _entry(slot: str, outcome: Outcome, sample: Sample, chance: random.Random) -> Entry:
    if outcome in ("skipped", "missed"):
        return unrun(slot, outcome)
    started = to_milliseconds(slot) + chance.randrange(20, 900)
    duration = int(sample.takes * chance.lognormvariate(0, 0.3))
    return Entry(
        slot,
        outcome,
        slot=slot,
        trigger="schedule",
        started_at=started,
        ended_at=started + duration,
        duration=duration,
        attempt=1,
        fence=started,
        instance_id="api-00042-kex",
        instance="00bf4bd1c2aa",
        error="ReadTimeout: rates.example.com did not reply within 10 s" if outcome == "failed" else None,
    )


def _noted(entry: Entry, note: str | None) -> Node:
    return entry.to_node() if note is None else {**entry.to_node(), "note": note}


def _released(entry: Entry) -> Node:
    at = entry.started_at or to_milliseconds(entry.key)
    return {
        **_OWNER,
        "acquiredAt": at,
        "releasedAt": entry.ended_at or at,
        "expiresAt": entry.ended_at or at,
        "holder": "fd8vTbinVRUGgjv7",
        "slot": entry.slot,
        "outcome": entry.outcome,
        "fence": at,
        "failures": 3 if entry.outcome == "failed" else None,
    }


def _held(now: int, since: int) -> Node:
    at = now - since
    return {**_OWNER, "acquiredAt": at, "expiresAt": now + 45_000, "holder": "fd8vTbinVRUGgjv7", "fence": at}


def _group(now: int, service: str, samples: Iterable[Sample]) -> Node:
    names = " ".join(sample.name for sample in samples)
    return {"seenAt": now, "firstSeenAt": now - 2 * _DAY, "service": service, "jobs": names, "heartbeat": 30}


def _disturb(rtdb: Rtdb, now: int) -> None:
    """Let one job be late, one paused, one retired, and one run; the rates fail by themselves."""
    [newest_slot] = newest(Schedule("*/6 * * * *", "UTC"), now - _DAY, now, 1)
    running = {**_held(now, 72_000), "slot": newest_slot, "unfinished": newest_slot, "attempt": 1, "renews": True}
    rtdb.set("/cron-locks/invoice-mails", running)
    rtdb.set(f"/cron-runs/invoice-mails/{newest_slot}", None)
    ticks = newest(Schedule("*/10 * * * *", "UTC"), now - _DAY, now, 4)
    for slot in ticks[2:]:
        rtdb.set(f"/cron-runs/expire-carts/{slot}", None)
    rtdb.set("/cron-locks/expire-carts", _released(_entry(ticks[1], "succeeded", SAMPLES[4], random.Random(1))))
    for field, value in {
        "paused": True,
        "pausedBy": "ops@example.com",
        "pausedAt": now - 95 * _MINUTE,
        "pausedWhy": "the partner's server moves",
        "pausedUntil": now + 2 * _DAY,
    }.items():
        rtdb.set(f"/cron-locks/partner-export/{field}", value)
    declare(rtdb, "legacy-export", "0 3 * * *", service="api", declared_at=now - 9 * _DAY)
    acts = (("pause", "partner-export", 95, "the partner's server moves"), ("run", "fx-rates", 31, None))
    for act, name, minutes, why in acts:
        rtdb.set(
            f"/cron-acts/{act}", {"act": act, "at": now - minutes * _MINUTE, "name": name, "who": "ops@example.com"}
        )
        rtdb.set(f"/cron-acts/{act}/why", why)
