"""Which tick to claim, and what becomes of the ticks in between: pure decisions over a record just read.

`choose` is asked inside the compare-and-swap, for every record that is read on the way, so that what it answers is
right for the very record that the claim replaces. `between` says, after a claim, what its claimer owes to the
history: whoever's claim replaces a record owns what lies between the two slots, and alone writes it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from firecron.instants import to_datetime, to_milliseconds, to_text
from firecron.job_options import JobOptions
from firecron.record import LockRecord
from firecron.run import Outcome, Trigger

MOST_CLAIMS = 3
MOST_MISSED = 100
MOST_ENTRIES = 50


@dataclass(frozen=True, slots=True)
class Claim:
    """The slot to claim, why, and whether that is a rerun of a slot that was claimed before."""

    slot: str
    trigger: Trigger

    @property
    def is_rerun(self) -> bool:
        return self.trigger == "rerun"


@dataclass(frozen=True, slots=True)
class Entry:
    """A tick that did not run, for the history; `count` of them, the last of which is `slot`."""

    slot: str
    outcome: Outcome
    attempt: int | None = None
    fence: int | None = None
    count: int = 1


def choose(record: LockRecord | None, options: JobOptions, due: str | None, now: int, margin: int) -> Claim | None:
    """What to claim of a record: what was abandoned first, then what was missed, then the tick that is due. None:
    nothing.
    """
    own = None if due is None else Claim(due, "schedule")
    if record is None or not options.once_per_tick:
        return own
    if options.on_abandoned == "rerun" and is_abandoned(record, now, margin) and (record.attempt or 1) < MOST_CLAIMS:
        assert record.unfinished is not None
        return Claim(record.unfinished, "rerun")
    if options.catch_up != "skip" and not record.is_live(now, margin):
        late = missed(record, options, now, due)
        if late:
            return Claim(late[0] if options.catch_up == "all" else late[-1], "catch_up")
    return own


def is_abandoned(record: LockRecord, now: int, margin: int) -> bool:
    """Whether a run was begun, not ended, and nobody is at it."""
    return record.unfinished is not None and not record.is_live(now, margin)


def missed(record: LockRecord, options: JobOptions, now: int, due: str | None) -> list[str]:
    """The ticks that nobody could claim: since the record was let go, older than grace, inside the window, the newest
    100.
    """
    if record.slot is None:
        return []
    start = max(_ended(record), to_milliseconds(record.slot), now - options.catch_up_window)
    end = now - options.grace - 1
    if due is not None:
        end = min(end, to_milliseconds(due) - 1)
    if end <= start:
        return []
    # Those after `start`: the ticks while it was held were skipped, not missed.
    return list(deque(_ticks(options, start, end), maxlen=MOST_MISSED))


def between(record: LockRecord | None, options: JobOptions, claim: Claim) -> list[Entry]:
    """What a claim that replaced this record has to write to the history."""
    if record is None or not options.once_per_tick:
        return []
    entries = []
    if record.unfinished is not None and not (claim.is_rerun and claim.slot == record.unfinished):
        attempt = int(record.attempt or 1)
        entries.append(
            Entry(record.unfinished, "abandoned", attempt, None if record.fence is None else int(record.fence))
        )
    if record.slot is None or claim.slot <= record.slot:
        return entries
    last, ended = to_milliseconds(record.slot), _ended(record)
    end = to_milliseconds(claim.slot) - 1
    if end > last:
        ticks = list(deque(_ticks(options, last, end), maxlen=10 * MOST_ENTRIES))
        entries += _entries([slot for slot in ticks if to_milliseconds(slot) <= ended], "skipped")
        entries += _entries([slot for slot in ticks if to_milliseconds(slot) > ended], "missed")
    return entries


def newest_due(options: JobOptions, since: datetime, now: datetime) -> datetime | None:
    """The newest tick after `since`, up to now; None if there is none. Found without walking through all of them."""
    span = timedelta(seconds=1)
    while True:
        start = max(since, now - span)
        ticks = deque(options.schedule.between(start, now), maxlen=1)
        if ticks:
            return ticks[0]
        if start == since:
            return None
        span *= 4


def _ticks(options: JobOptions, start: int, end: int) -> Iterator[str]:
    for tick in options.schedule.between(to_datetime(start), to_datetime(end)):
        yield to_text(round(tick.timestamp() * 1000))


def _ended(record: LockRecord) -> int:
    """When the record's holder let go: it released, or its lease expired."""
    return int(record.expiresAt if record.releasedAt is None else record.releasedAt)


def _entries(slots: list[str], outcome: Outcome) -> list[Entry]:
    if len(slots) <= MOST_ENTRIES:
        return [Entry(slot, outcome) for slot in slots]
    return [Entry(slots[-1], outcome, count=len(slots))]
