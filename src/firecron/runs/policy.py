"""Which tick to claim, and what becomes of the ticks in between: pure decisions over a record just read.

`choose` is called inside the compare-and-swap, for each record that is read on the way, so its claim is right for the
very record that it replaces. `between` returns, after a claim, the ticks that the claimer has to write to the history:
those between the slot of the record that the claim replaced and its own. No other instance writes them.
"""

from __future__ import annotations

from dataclasses import dataclass

from firecron.base.instants import to_datetime, to_milliseconds
from firecron.cron.ticks import newest
from firecron.jobs.options import JobOptions
from firecron.jobs.run import Outcome, Trigger
from firecron.lock.record import NONE_MISSED, LockRecord, Missed
from firecron.runs.entry import Entry, unrun
from firecron.runs.missing import Span, free, held, remember

MOST_CLAIMS = 3
MOST_MISSED = 100
MOST_ENTRIES = 50
MOST_COUNTED = 500


@dataclass(frozen=True, slots=True)
class Claim:
    """The slot to claim, and what its run is called. `missed` is what the record has to remember of ticks that nobody
    ran. `is_rerun` is said by `choose` alone: the slot is the one that the record has as unfinished.
    """

    slot: str
    trigger: Trigger
    missed: Missed = NONE_MISSED
    is_rerun: bool = False


# A tick that is handed over within its own second is never late.
_LEAST_GRACE = 1_000


def start_ends(options: JobOptions, due: str) -> int:
    """Until when a tick may start, in RTDB's time: to the end of its grace, or until the next tick if it waits for
    that.
    """
    if options.waits_until_next_tick:
        return to_milliseconds(options.schedule.after(to_datetime(due)))
    return to_milliseconds(due) + max(options.grace, _LEAST_GRACE)


def choose(
    record: LockRecord | None,
    options: JobOptions,
    due: str | None,
    now: int,
    margin: int,
    trigger: Trigger = "schedule",
) -> Claim | None:
    """What to claim, given the record: an abandoned run first, then a missed tick, then the tick that is due, whose run
    is called `trigger`. None if there is nothing to claim.
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
    """Whether a run was begun and has not ended, nobody holds its lock, and it is to be run again."""
    is_abandoned = record.unfinished is not None and not record.is_live(now, margin)
    return is_abandoned and may_rerun(options, int(record.attempt or 1))


def may_rerun(options: JobOptions, attempt: int) -> bool:
    """Whether a run that this attempt leaves unfinished is to be run again."""
    return options.reruns and attempt < MOST_CLAIMS


def missed(record: LockRecord, options: JobOptions, now: int, due: str | None) -> list[str]:
    """The ticks that nobody ran, and nobody will: nobody held the lock, and the claim of the tick that is due passes
    them over; without such a tick, they are older than grace, so no live instance tries them. Inside the window, the
    newest 100; oldest first.
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
    """What a claim that replaced this record has to write to the history. `silent_since` is the last sign of life of
    the record's holder, if its instance is known to be silent.
    """
    if record is None or not options.once_per_tick:
        return []
    entries = []
    if record.unfinished is not None and not claim.is_rerun:
        fence = None if record.fence is None else int(record.fence)
        entries.append(unrun(record.unfinished, "abandoned", int(record.attempt or 1), fence))
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


def _entries(slots: list[str], outcome: Outcome) -> list[Entry]:
    if len(slots) <= MOST_ENTRIES:
        return [unrun(slot, outcome) for slot in slots]
    return [unrun(slots[-1], outcome, count=min(len(slots), MOST_COUNTED), at_least=len(slots) > MOST_COUNTED)]
