"""Which tick to claim, and what becomes of the ticks in between: pure decisions over a record just read.

`choose` is asked inside the compare-and-swap, for every record that is read on the way, so that what it answers is
right for the very record that the claim replaces. `between` says, after a claim, what its claimer owes to the
history: whoever's claim replaces a record owns what lies between the two slots, and alone writes it.

A claim overwrites when the lock was free before it. Where ticks lie there that nobody has accounted for, it leaves
that behind in the record: those later than `missedAfter` and earlier than `acquiredAt` found nobody either.

    slot    missedAfter      acquiredAt     expiresAt or releasedAt      now
      |  held   |     missed      |   held            |     missed        |
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate, islice, pairwise

from firecron.instants import to_datetime, to_milliseconds, to_text
from firecron.job_options import JobOptions
from firecron.record import LockRecord
from firecron.run import Outcome, Trigger
from firecron.schedule import Schedule

MOST_CLAIMS = 3
MOST_MISSED = 100
MOST_ENTRIES = 50
MOST_COUNTED = 500

_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Claim:
    """The slot to claim and why; `missed_after` is what the record has to remember of the time before it."""

    slot: str
    trigger: Trigger
    missed_after: str | None = None

    @property
    def is_rerun(self) -> bool:
        return self.trigger == "rerun"


@dataclass(frozen=True, slots=True)
class Entry:
    """A tick that did not run, for the history; `count` of them (or more: `at_least`), the last of which is `slot`."""

    slot: str
    outcome: Outcome
    attempt: int | None = None
    fence: int | None = None
    count: int = 1
    at_least: bool = False


# A tick that is handed over within its own second is never late.
_LEAST_GRACE = 1_000


def start_ends(options: JobOptions, due: str) -> int:
    """Until when a tick may start, in RTDB's time: its grace; a queued one waits until the next tick, or for a grace
    that was given.
    """
    if options.overlap == "queue" and not options.grace_given:
        return round(options.schedule.after(to_datetime(to_milliseconds(due))).timestamp() * 1000)
    return to_milliseconds(due) + max(options.grace, _LEAST_GRACE)


def choose(record: LockRecord | None, options: JobOptions, due: str | None, now: int, margin: int) -> Claim | None:
    """What to claim of a record: what was abandoned first, then what was missed, then the tick that is due. None:
    nothing.
    """
    own = None if due is None else Claim(due, "schedule")
    if record is None or not options.once_per_tick or record.is_live(now, margin):
        return own
    if needs_rerun(record, options, now, margin):
        assert record.unfinished is not None
        return Claim(record.unfinished, "rerun", missed_after(record, options, now))
    if options.catch_up != "skip":
        late = missed(record, options, now, due)
        if late:
            slot = late[0] if options.catch_up == "all" else late[-1]
            return Claim(slot, "catch_up", _if_ticks(options, to_milliseconds(slot), now))
    return own


def needs_rerun(record: LockRecord, options: JobOptions, now: int, margin: int) -> bool:
    """Whether a run was begun, not ended, nobody is at it, and the job wants it run again."""
    is_abandoned = record.unfinished is not None and not record.is_live(now, margin)
    return is_abandoned and options.on_abandoned == "rerun" and (record.attempt or 1) < MOST_CLAIMS


def missed(record: LockRecord, options: JobOptions, now: int, due: str | None) -> list[str]:
    """The ticks that nobody could claim: while nobody held the lock, older than grace, inside the window, the newest
    100. Oldest first.
    """
    end = now - options.grace - 1
    if due is not None:
        end = min(end, to_milliseconds(due) - 1)
    # What lies before a claim that has caught up was its own to choose from: with "once" that was all.
    was_once = options.catch_up == "once" and record.missedAfter is not None and record.missedAfter == record.slot
    oldest_start = int(record.acquiredAt or 0) if was_once else 0
    found: list[str] = []
    for start, stop, was_held in reversed(_spans(record, end)):
        if not was_held and start >= oldest_start:
            oldest = max(start, now - options.catch_up_window)
            found = newest(options.schedule, oldest, stop, MOST_MISSED - len(found)) + found
    return found


def missed_after(record: LockRecord, options: JobOptions, now: int) -> str | None:
    """What a claim that isn't for a later tick has to leave behind, so that what was missed before it isn't forgotten,
    nor taken for skipped.
    """
    free = [start for start, _, was_held in _spans(record, now) if not was_held]
    return _if_ticks(options, free[0], now) if free else None


def between(record: LockRecord | None, options: JobOptions, claim: Claim) -> list[Entry]:
    """What a claim that replaced this record has to write to the history."""
    if record is None or not options.once_per_tick:
        return []
    entries = []
    if record.unfinished is not None and not (claim.is_rerun and claim.slot == record.unfinished):
        fence = None if record.fence is None else int(record.fence)
        entries.append(Entry(record.unfinished, "abandoned", int(record.attempt or 1), fence))
    if record.slot is None or claim.slot <= record.slot:
        return entries
    spans = _spans(record, to_milliseconds(claim.slot) - 1)
    for outcome, held in (("skipped", True), ("missed", False)):
        slots: list[str] = []
        for start, stop, was_held in reversed(spans):
            if was_held == held:
                slots = newest(options.schedule, start, stop, MOST_COUNTED + 1 - len(slots)) + slots
        entries += _entries(slots, outcome)  # type: ignore[arg-type]  # they are two of its words
    return entries


def newest(schedule: Schedule, start: int, end: int, most: int) -> list[str]:
    """The newest ticks after `start`, up to and including `end`, that many at the most; oldest first.

    Looked for from the end, in spans that grow where ticks are few: a day of every-second ticks is never walked
    through.
    """
    found: list[datetime] = []
    first, last = to_datetime(start), to_datetime(end)
    span = _SECOND
    while first < last and len(found) < most:
        low = max(first, last - span)
        ticks = list(islice(schedule.between(low, last), 2 * most + 1))
        if len(ticks) > 2 * most and span > _SECOND:
            span = max(span / 32, _SECOND)
            continue
        found = ticks + found
        last = low
        if len(ticks) <= most // 2:
            span *= 4
    return [to_text(round(tick.timestamp() * 1000)) for tick in found[-most:]] if most > 0 else []


def is_tick(schedule: Schedule, slot: str) -> bool:
    """Whether a slot is on this schedule."""
    instant = to_datetime(to_milliseconds(slot))
    return schedule.after(instant - _SECOND) == instant


def _spans(record: LockRecord, end: int) -> list[tuple[int, int, bool]]:
    """The time after the record's slot, up to `end`: each span's start (not part of it), its end, and whether the lock
    was held then.
    """
    if record.slot is None:
        return []
    slot = to_milliseconds(record.slot)
    # Others are kept out to the end of a minimum hold, which may be later than the release.
    ended = max(int(record.expiresAt), int(record.releasedAt or 0))
    marks = [(slot, True), (ended, False)]
    if record.missedAfter is not None and record.acquiredAt is not None:
        free = to_milliseconds(record.missedAfter)
        marks[1:1] = [(free, False), (int(record.acquiredAt) - 1, True)]
    # An operator's unlock is an expiry in the past.
    starts = accumulate((mark for mark, _ in marks), max)
    bounds = [(min(start, end), held) for start, (_, held) in zip(starts, marks, strict=True)] + [(end, True)]
    return [(start, stop, held) for (start, held), (stop, _) in pairwise(bounds) if start < stop]


def _if_ticks(options: JobOptions, after: int, now: int) -> str | None:
    """This instant, if there are ticks after it by now."""
    instant = to_datetime(after)
    return to_text(after) if options.schedule.after(instant) <= to_datetime(now) else None


def _entries(slots: list[str], outcome: Outcome) -> list[Entry]:
    if len(slots) <= MOST_ENTRIES:
        return [Entry(slot, outcome) for slot in slots]
    return [Entry(slots[-1], outcome, count=min(len(slots), MOST_COUNTED), at_least=len(slots) > MOST_COUNTED)]
