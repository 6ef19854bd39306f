"""The policy: which tick to claim, and what to record of the ticks that a claim passes over. Pure decisions.

`choose` is called inside the compare-and-swap, for each record that is read on the way. So its claim is right for the
very record that it replaces. `between` is called after the claim. It returns the history's entries for the ticks
between the replaced record's slot and the claim's own slot. No other instance writes these entries.
"""

from __future__ import annotations

from dataclasses import dataclass

from firecron.base.instants import to_datetime, to_milliseconds
from firecron.cron.ticks import newest
from firecron.jobs.options import JobOptions
from firecron.jobs.run import Outcome, Trigger
from firecron.lock.record import LockRecord
from firecron.lock.request import NONE_MISSED, Missed
from firecron.runs.entry import Entry, unrun
from firecron.runs.missing import Span, free, held, remember, was_held

MOST_CLAIMS = 3
MOST_MISSED = 100
MOST_ENTRIES = 50
MOST_COUNTED = 500


@dataclass(frozen=True, slots=True)
class Claim:
    """The slot to claim, and the trigger of its run.

    `missed` is what the new record has to remember of missed ticks. `is_rerun` means that the slot is the record's
    unfinished one. Only `choose` sets it.
    """

    slot: str
    trigger: Trigger
    missed: Missed = NONE_MISSED
    is_rerun: bool = False


# A tick that is handed over within its own second is never late.
_LEAST_GRACE = 1_000


def start_ends(options: JobOptions, due: str) -> int:
    """Return until when a tick may start, in RTDB's time: the end of its grace.

    With an overlap policy that waits until the next tick, it is the slot of the next tick.
    """
    if options.waits_until_next_tick:
        return to_milliseconds(options.schedule.after(to_datetime(due)))
    return to_milliseconds(due) + max(options.grace, _LEAST_GRACE)


def time_to_start(options: JobOptions, due: str) -> int:
    """Return for how long a tick may start, in milliseconds: until the end of its grace, or until the next tick."""
    slot = to_milliseconds(due)
    return min(start_ends(options, due), to_milliseconds(options.schedule.after(to_datetime(slot)))) - slot


def is_late_for(record: LockRecord | None, due: str, now: int, margin: int) -> bool:
    """Return whether an instance that asks in a later wave has to skip the tick, because it would have been refused at
    once: the lock was held when the tick came. A lock that is still held doesn't count: it is refused anyway.
    """
    if record is None or record.is_live(now, margin):
        return False
    return was_held(record, to_milliseconds(due), margin)


def choose(
    record: LockRecord | None,
    options: JobOptions,
    due: str | None,
    now: int,
    margin: int,
    trigger: Trigger = "schedule",
) -> Claim | None:
    """Return what to claim, given the record: an abandoned run, else a missed tick, else the tick that is `due`.

    `trigger` is the trigger of a run of the due tick. Return None if there is nothing to claim.
    """
    own = None if due is None else Claim(due, trigger)
    if record is None or not options.once_per_tick or record.is_live(now, margin):
        return own
    if needs_rerun(record, options, now, margin):
        assert record.unfinished is not None
        return Claim(record.unfinished, "rerun", remember(record, options.schedule, now), is_rerun=True)
    if options.catches_up:
        late = missed(record, options, now, due)
        if late:
            slot = late[0] if options.catches_up_all else late[-1]
            return Claim(slot, "catch_up", remember(record, options.schedule, now, slot))
    return None if due is None else Claim(due, trigger, remember(record, options.schedule, now, due))


def needs_rerun(record: LockRecord, options: JobOptions, now: int, margin: int) -> bool:
    """Return whether a run has begun and not ended, its lock is free, and its tick is to be run again.

    A run that is cancelled is never run again.
    """
    is_abandoned = record.open_slot is not None and not record.is_live(now, margin)
    return is_abandoned and may_rerun(options, int(record.attempt or 1))


def may_rerun(options: JobOptions, attempt: int) -> bool:
    """Return whether a tick whose run is unfinished after this attempt is to be run again."""
    return options.reruns and attempt < MOST_CLAIMS


def missed(record: LockRecord, options: JobOptions, now: int, due: str | None) -> list[str]:
    """Return the missed ticks, oldest first: the lock was free at their slots, and no instance will run them.

    With a `due` tick, they are the ticks before it, which its claim would pass over. Without one, they are the ticks
    older than grace, which no live instance tries. At most the newest 100 inside the catch-up window are returned.
    """
    end = now - max(options.grace, _LEAST_GRACE) - 1 if due is None else to_milliseconds(due) - 1
    found: list[str] = []
    for span in reversed(free(record, end)):
        oldest = max(span.start, now - options.catch_up_window)
        found = newest(options.schedule, oldest, span.end, MOST_MISSED - len(found)) + found
    return found


def between(
    record: LockRecord | None, options: JobOptions, claim: Claim, silent_since: int | None = None
) -> list[Entry]:
    """Return the history's entries that a claim which replaced this record has to write.

    `silent_since` is the last sign of life of the holder's instance, if that is known to be silent.
    """
    if record is None or not options.once_per_tick:
        return []
    entries = []
    if record.unfinished is not None and not claim.is_rerun:
        entries.append(_cut_short(record, record.unfinished))
    end = to_milliseconds(claim.slot) - 1
    passed: list[tuple[Outcome, list[Span]]] = [
        ("skipped", held(record, end, silent_since)),
        ("missed", free(record, end, silent_since)),
    ]
    for outcome, spans in passed:
        slots: list[str] = []
        for span in reversed(spans):
            slots = newest(options.schedule, span.start, span.end, MOST_COUNTED + 1 - len(slots)) + slots
        entries += _entries(slots, outcome)
    return entries


def before_manual(record: LockRecord | None) -> list[Entry]:
    """Return the history's entries that a run by hand which replaced this record has to write.

    It leaves all ticks to the next claim but one, the tick of a run that was cancelled and died: it removes the cancel.
    """
    if record is None or record.unfinished is None or not record.is_cancelled:
        return []
    return [_cut_short(record, record.unfinished)]


def _cut_short(record: LockRecord, slot: str) -> Entry:
    fence = None if record.fence is None else int(record.fence)
    return unrun(slot, "cancelled" if record.is_cancelled else "abandoned", int(record.attempt or 1), fence)


def _entries(slots: list[str], outcome: Outcome) -> list[Entry]:
    if len(slots) <= MOST_ENTRIES:
        return [unrun(slot, outcome) for slot in slots]
    return [unrun(slots[-1], outcome, count=min(len(slots), MOST_COUNTED), at_least=len(slots) > MOST_COUNTED)]
