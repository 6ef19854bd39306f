"""What the verdicts about a thousand jobs cost: `python tests/bench/verdict.py`. It measures processor time, no I/O."""

from __future__ import annotations

import time

import goals

from firecron.base.instants import to_milliseconds, to_text
from firecron.jobs.catalogue import group_fields, read_declared, read_groups
from firecron.ops.health import evaluate

JOBS = 1_000
NOW = to_milliseconds("2026-11-18T09:00:00Z")
DAY = 86_400_000


def main() -> None:
    began = time.process_time()
    names = [f"job-{index}" for index in range(JOBS)]
    entries = {name: entry(index) for index, name in enumerate(names)}
    catalogue = [read_declared(name, node) for name, node in entries.items()]
    read = time.process_time() - began
    told = group_fields({one.name: one.schedule for one in catalogue if one is not None}, "api", 30)
    groups = read_groups({name * 16: {**told, "seenAt": NOW} for name in "01"})
    print(f"{JOBS:,} jobs, of which each ran last two days ago, and is late:")
    print(f"  read the catalogue      {read * 1000:6.0f} ms")
    for what, now in (("judge them", NOW), ("judge them again", NOW + 10_000)):
        began = time.process_time()
        words = {evaluate(one, LAST, groups, now, 1_000).word for one in catalogue if one is not None}
        took = time.process_time() - began
        assert words == {"late"}
        print(f"  {what:<23} {took * 1000:6.0f} ms")
        goals.at_most(f"{JOBS:,} jobs: {what}", took * 1000, 500, "ms")


def entry(index: int) -> dict[str, object]:
    """A job of its own minute of the day, as the catalogue has it."""
    line = f"{index % 60} {index % 24} * * *"
    return {"line": line, "timezone": "Europe/Berlin", "since": 0, "grace": 60, "service": "api", "declaredAt": 0}


LAST: dict[str, object] = {
    "acquiredAt": NOW - 2 * DAY,
    "expiresAt": NOW - 2 * DAY + 5_000,
    "releasedAt": NOW - 2 * DAY + 5_000,
    "slot": to_text(NOW - 2 * DAY),
    "outcome": "succeeded",
    "holder": "theirs",
}


if __name__ == "__main__":
    main()
