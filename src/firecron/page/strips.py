"""A strip: the newest ticks of a job, each with the outcome of its run, or with why it did not run. Pure.

Ticks come from the schedule, outcomes from the history. A tick that has neither an entry nor a run under way is a hole:
it was before the history that is kept, or nobody ran it. Ticks from before the schedule was declared are shown only if
the history has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf

from firecron.base.instants import to_milliseconds
from firecron.cron.ticks import newest
from firecron.jobs.catalogue import Declared
from firecron.ops.views import LockView
from firecron.runs.entry import Entry

MOST_TICKS = 50

_REASONS = {
    "skipped": "the run before it had not ended",
    "missed": "no instance claimed it in time",
    "abandoned": "its instance died",
    "malformed": "its entry can't be read",
}


@dataclass(frozen=True, slots=True)
class Tick:
    """A tick. `outcome` is None if it did not run, `running` while it runs; `why` says more about both."""

    slot: str
    outcome: str | None = None
    duration: int | None = None
    why: str | None = None

    def to_json(self) -> dict[str, object]:
        return {"slot": self.slot, "outcome": self.outcome, "durationMs": self.duration, "why": self.why}


def make_strip(declared: Declared | None, entries: Iterable[Entry], lock: LockView | None, now: int) -> list[Tick]:
    """Return the newest ticks up to `now`, oldest first."""
    found = {entry.slot: entry for entry in entries if _is_slot(entry.slot)}
    slots = {slot for slot in found if slot is not None}
    running = None if lock is None or lock.state != "held" else lock.unfinished
    if running is not None and _is_slot(running):
        slots.add(running)
    slots |= set(_ticks(declared, slots, now))
    covered = _covered(sorted(slots), found)
    return [
        _tick(slot, found.get(slot), covered, running) or _hole(slot, declared, lock, now)
        for slot in sorted(slots)[-MOST_TICKS:]
    ]


def _ticks(declared: Declared | None, slots: set[str], now: int) -> list[str]:
    if declared is None:
        return []
    start = declared.since if declared.since is not None else declared.declared_at
    if start is None:
        if not slots:
            return []
        start = to_milliseconds(min(slots)) - 1
    # A tick that is due may be claimed at any moment until its grace is over.
    return newest(declared.schedule, start, now, MOST_TICKS)


def _covered(slots: list[str], found: Mapping[str | None, Entry]) -> dict[str, Entry]:
    """Return the ticks that an entry of several ticks counts, besides its own slot."""
    covered: dict[str, Entry] = {}
    for number, slot in enumerate(slots):
        entry = found.get(slot)
        if entry is not None and entry.count > 1:
            before = slots[max(0, number - entry.count + 1) : number]
            covered.update({one: entry for one in before if one not in found})
    return covered


def _tick(slot: str, entry: Entry | None, covered: Mapping[str, Entry], running: str | None) -> Tick | None:
    """Return the tick as it is known; None if nothing is."""
    if slot == running:
        return Tick(slot, "running")
    if entry is None and slot in covered:
        outcome = covered[slot].outcome
        return Tick(slot, outcome, why=_REASONS.get(outcome))
    if entry is not None:
        return Tick(slot, entry.outcome, entry.duration, entry.error or _REASONS.get(entry.outcome))
    return None


def _hole(slot: str, declared: Declared | None, lock: LockView | None, now: int) -> Tick:
    """Return a tick of which nothing is known, with why it did not run, as far as lock and catalogue tell."""
    at = to_milliseconds(slot)
    if lock is not None and (lock.paused_at or inf) <= at < (lock.paused_until or inf):
        return Tick(slot, why="the job was paused")
    if declared is not None and declared.disabled and at >= (declared.declared_at or inf):
        return Tick(slot, why="the job was declared disabled")
    grace = 0 if declared is None else declared.grace
    return Tick(slot, why="it is due" if now - at <= grace else "nothing is recorded of it")


def _is_slot(slot: str | None) -> bool:
    try:
        return slot is not None and to_milliseconds(slot) > 0
    except ValueError:
        return False
