"""The policy: which tick a claim takes, and what it owes to the ticks that it passes over. Pure decisions.

    choose             which tick to claim: an abandoned run, else a missed tick, else the tick that is due
    between            the history's entries for the ticks that the claim has passed over
    remember           what the claim's record keeps of the ticks that it leaves behind
    evaluate_resume    which tick of the history may be resumed by hand, and as which attempt

`choose` and `remember` are called inside the compare-and-swap, for each record that is read on the way. So the claim is
right for the very record that it replaces. `between` is called after the claim, and for the ticks between the replaced
record's slot and the claim's own slot. No other instance writes these entries.

A tick counts as skipped if the lock was held at its slot (overlap) or paused, and else as missed. A pause leaves its
times in the record (`lock/fields`); to what is caught up it makes no difference. The record alone must tell when the
lock was held:

    slot    missedAfter   missedUntil     acquiredAt     expiresAt or releasedAt      now
      |  held   |    free      |     held                     |         free           |

The record of a claim shows when the lock became free after that claim. A claim may leave missed ticks behind: a
catch-up of an older tick, a rerun, a run by hand, or a late claim. Such a claim copies the free spans before it into
its own record. `missedAfter` and `missedUntil` are the oldest span. `missedMore` has the later spans, as pairs with a
slash. Spans without a tick are left out, and two spans with no tick between them become one, so there are rarely two.

Limits: after an unlock (`expiresAt = 0`) the record doesn't show when the lock was freed. The lock then counts as free
from `acquiredAt` on. Of more than ten spans only the newest ten are remembered. A job's first claim replaces no record,
so it remembers nothing: if it is late, the ticks between its slot and itself count as skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf

from firecron.base.instants import check_instant, to_milliseconds, to_text
from firecron.cron.schedule import Schedule, due_after, has_tick, newest
from firecron.errors import ConfigurationError
from firecron.jobs.options import JobOptions
from firecron.jobs.run import Outcome, Trigger
from firecron.lock.fields import Pause, past_pauses
from firecron.lock.record import MOST_CLAIMS, NONE_MISSED, LockRecord, Missed
from firecron.runs.entry import MANUAL, PAUSED, Entry, is_manual, read_entry, unrun

MOST_MISSED = 100


@dataclass(frozen=True, slots=True)
class Claim:
    """The slot to claim, and the trigger of its run.

    `missed` is what the new record has to remember of missed ticks. `is_rerun` means that the slot is the record's
    unfinished one. Only `choose` sets it.
    """

    slot: str
    trigger: Trigger
    missed: Missed = field(default_factory=lambda: NONE_MISSED)
    is_rerun: bool = False


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
    """Return whether a tick is run again if this attempt at it did not end."""
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


# --- when a tick may start

# A tick that is handed over within its own second is never late.
_LEAST_GRACE = 1_000
_DAY = 86_400_000


def start_ends(options: JobOptions, due: str) -> int:
    """Return until when a tick may start, in RTDB's time: the end of its grace.

    With an overlap policy that waits until the next tick, it is the slot of the next tick; for the last one of its
    schedule, a day later.
    """
    if options.waits_until_next_tick:
        slot = to_milliseconds(due)
        following = due_after(options.schedule, slot)
        return slot + _DAY if following == inf else int(following)
    return to_milliseconds(due) + max(options.grace, _LEAST_GRACE)


def time_to_start(options: JobOptions, due: str) -> int:
    """Return for how long a tick may start, in milliseconds: until the end of its grace, or until the next tick."""
    slot = to_milliseconds(due)
    return int(min(start_ends(options, due), due_after(options.schedule, slot))) - slot


def is_late_for(record: LockRecord | None, due: str, now: int, margin: int) -> bool:
    """Return whether an instance that asks in a later wave has to skip the tick, because it would have been refused at
    once: the lock was held when the tick came. A lock that is still held doesn't count: it is refused anyway.
    """
    if record is None or record.is_live(now, margin):
        return False
    return was_held(record, to_milliseconds(due), margin)


# --- what a claim writes to the history

MOST_ENTRIES = 50
MOST_COUNTED = 500


def between(
    record: LockRecord | None,
    options: JobOptions,
    claim: Claim,
    silent_since: int | None = None,
    pause: Pause | None = None,
) -> list[Entry]:
    """Return the history's entries that a claim which replaced this record has to write.

    `silent_since` is the last sign of life of the holder's instance, if that is known to be silent. `pause` is one that
    the record need not have: that of a stored job is in another node.
    """
    if record is None or not options.once_per_tick:
        return []
    entries = []
    if record.unfinished is not None and not claim.is_rerun:
        entries.append(cut_short(record, record.unfinished))
    end = to_milliseconds(claim.slot) - 1
    fields = record.to_json()
    if pause is not None:
        fields |= {"paused": True, "pausedAt": pause.at, "pausedUntil": pause.until}
    paused = [Span(start - 1, last) for start, last in past_pauses(fields, end)]
    unclaimed = free(record, end, silent_since)
    passed: list[tuple[Outcome, str | None, list[Span]]] = [
        ("skipped", None, held(record, end, silent_since)),
        ("skipped", PAUSED, list(_within(unclaimed, paused))),
        ("missed", None, list(_within(unclaimed, _around(paused, end)))),
    ]
    for outcome, why, spans in passed:
        slots: list[str] = []
        for span in reversed(spans):
            slots = newest(options.schedule, span.start, span.end, MOST_COUNTED + 1 - len(slots)) + slots
        entries += _entries(slots, outcome, why)
    return entries


def unclaimed(
    record: LockRecord, options: JobOptions, start: int, last: int, pause: Pause | None = None
) -> list[Entry]:
    """Return the entries for the ticks after `start`, up to the tick `last`, which nobody may claim any more."""
    beyond = record.changed(slot=to_text(start), unfinished=None)
    return between(beyond, options, Claim(to_text(last + 1_000), "schedule"), pause=pause)


def owes_entries(record: LockRecord, options: JobOptions, claim: Claim | None) -> bool:
    """Return whether a claim that replaced this record may have entries to write. Mostly it has none."""
    if claim is None or record.unfinished is not None:
        return record.unfinished is not None
    return record.slot is not None and has_tick(
        options.schedule, to_milliseconds(record.slot), to_milliseconds(claim.slot) - 1
    )


def before_manual(record: LockRecord | None) -> list[Entry]:
    """Return the history's entries that a run by hand which replaced this record has to write.

    It leaves all ticks to the next claim but one, the tick of a run that was cancelled and died: it removes the cancel.
    """
    if record is None or record.unfinished is None or not record.is_cancelled:
        return []
    return [cut_short(record, record.unfinished)]


def cut_short(record: LockRecord, slot: str) -> Entry:
    """Return the entry of a run that has not finished. The run's own entry outranks it, if there is one."""
    fence = None if record.fence is None else int(record.fence)
    outcome: Outcome = "cancelled" if record.is_cancelled else "abandoned"
    return unrun(slot, record.ended_as or outcome, int(record.attempt or 1), fence)


def _entries(slots: list[str], outcome: Outcome, why: str | None) -> list[Entry]:
    if len(slots) <= MOST_ENTRIES:
        return [unrun(slot, outcome, why=why) for slot in slots]
    is_more, count = len(slots) > MOST_COUNTED, min(len(slots), MOST_COUNTED)
    return [unrun(slots[-1], outcome, count=count, at_least=is_more, why=why)]


# --- when the lock was free

MOST_SPANS = 10


@dataclass(frozen=True, slots=True)
class Span:
    """A span of time in milliseconds: after `start`, up to and including `end`."""

    start: int
    end: int


def free(record: LockRecord, end: int, silent_since: int | None = None) -> list[Span]:
    """Return the spans in which the lock was free, after the record's slot and up to `end`, oldest first.

    With `silent_since`, the time since the holder's last sign of life counts as free, too. This is for the history
    only, because the record doesn't show it.
    """
    if record.slot is None:
        return []
    ended = freed_at(record) if silent_since is None else min(freed_at(record), silent_since)
    found = [*_remembered(record), Span(ended, end)]
    return list(_in_order(found, to_milliseconds(record.slot), end))


def held(record: LockRecord, end: int, silent_since: int | None = None) -> list[Span]:
    """Return the spans in which the lock was held: all other time after the slot and up to `end`, oldest first."""
    if record.slot is None:
        return []
    return _around(free(record, end, silent_since), end, to_milliseconds(record.slot))


def was_held(record: LockRecord, at: int, margin: int) -> bool:
    """Return whether the lock was held at an instant, from before it until more than a margin after it."""
    spans = held(record, at + margin + 1)
    if record.slot is None:
        # No tick was claimed yet, so only the last acquisition is known, such as that of a run by hand.
        spans = [Span(int(record.acquiredAt or 0), freed_at(record))]
    return any(span.start < at and span.end > at + margin for span in spans)


def remember(record: LockRecord, schedule: Schedule, now: int, slot: str | None = None) -> Missed:
    """Return what the record of a claim at `now` has to remember: the free spans with ticks after the claim's slot.

    If the claim has no `slot`, or one that is not later than the record's, the spans after the record's slot count.
    """
    since = None if record.slot is None else to_milliseconds(max(record.slot, slot or ""))
    if since is None or not has_tick(schedule, since, now - 1):
        return NONE_MISSED  # mostly no tick has come since, so no span has one
    spans: list[Span] = []
    for span in _in_order(free(record, now - 1), since, now - 1):
        if not has_tick(schedule, span.start, span.end):
            continue
        if spans and not has_tick(schedule, spans[-1].end, span.start):
            spans[-1] = Span(spans[-1].start, span.end)
        else:
            spans.append(span)
    if not spans:
        return NONE_MISSED
    oldest, *more = [(to_text(span.start), to_text(span.end)) for span in spans[-MOST_SPANS:]]
    after, until = oldest
    return Missed(missedAfter=after, missedUntil=until, missedMore=" ".join("/".join(pair) for pair in more) or None)


def _remembered(record: LockRecord) -> Iterator[Span]:
    if record.missedAfter is None or record.acquiredAt is None:
        return
    claimed = int(record.acquiredAt) - 1
    until = claimed if record.missedUntil is None else min(to_milliseconds(record.missedUntil), claimed)
    yield Span(to_milliseconds(record.missedAfter), until)
    for pair in (record.missedMore or "").split():
        start, _, end = pair.partition("/")
        yield Span(to_milliseconds(start), min(to_milliseconds(end), claimed))


def freed_at(record: LockRecord) -> int:
    """Return when the lock became free after the record's claim.

    A minimum hold keeps the lock held beyond the release. An unlock sets an expiry in the past.
    """
    return max(int(number or 0) for number in (record.expiresAt, record.releasedAt, record.acquiredAt))


def _around(spans: Iterable[Span], end: int, start: int = 0) -> list[Span]:
    """Return all other time after `start` and up to `end` than these spans, which are in order."""
    bounds = [start, *(bound for span in spans for bound in (span.start, span.end)), end]
    return [Span(low, high) for low, high in zip(bounds[::2], bounds[1::2], strict=True) if low < high]


def _within(spans: Iterable[Span], others: Sequence[Span]) -> Iterator[Span]:
    """Yield the parts of the spans that are in one of the others, oldest first."""
    for span in spans:
        for other in others:
            start, end = max(span.start, other.start), min(span.end, other.end)
            if start < end:
                yield Span(start, end)


def _in_order(spans: list[Span], after: int, end: int) -> Iterator[Span]:
    """Yield the parts of the spans between two instants. No part overlaps another, even if the record was edited."""
    for span in spans:
        start, stop = max(span.start, after), min(span.end, end)
        if start < stop:
            yield Span(start, stop)
            after = stop


# --- resuming a tick by hand, with its slot, its idempotency key, its steps and its next attempt
#
# A run that failed is not begun again by itself, and a run by hand is another run: it would do everything anew.
# Resuming claims the lock as a run by hand does, so it moves no slot, its crash is rerun by nobody, and no later tick
# cancels it. What the history says is judged under the lock, so no run of the tick is under way, and none begins
# meanwhile.
#
# The unfinished tick is an exception: in the node, the resumed run is one more claim of that tick. If it dies, the tick
# is run again where died runs are, and with `overlap="cancel_previous"` the next tick cancels it, on any instance.

_RUN_ID = re.compile(r"[0-9a-f]{6}")


@dataclass(frozen=True, slots=True)
class Resumed:
    """A tick that is resumed, by the key of its entry in the history, and the number of the attempt."""

    key: str
    attempt: int

    @property
    def slot(self) -> str | None:
        """The tick; None if a run by hand is resumed."""
        return None if is_manual(self.key) else self.key


def check_key(key: str) -> str:
    """Return the key of a tick: an instant, or a run by hand. Raise ConfigurationError for any other text."""
    instant, manual, run_id = key.partition(MANUAL)
    try:
        check_instant(instant)
    except ValueError:
        instant = ""
    if not instant or (manual and not _RUN_ID.fullmatch(run_id)):
        raise ConfigurationError(
            f"{key!r} can't be resumed: name a tick, such as 2026-11-18T09:00:00Z, or the key of a run by hand, such "
            "as 2026-11-18T09:00:00Z-manual-a1b2c3"
        )
    return key


def evaluate_resume(key: str, entry: object, unfinished: str | None, attempt: int) -> Resumed | str:
    """Return the resumed tick, or why it may not be resumed.

    `entry` is the node of its entry in the history. `unfinished` is that of the lock's record, and `attempt` how often
    that tick was claimed before.
    """
    is_unfinished = key == unfinished
    if entry is None and not is_unfinished:
        why = (
            "it may have been pruned, or its instance died, for a run by hand that dies leaves no entry. See what it "
            "has recorded as steps, and run the job by hand anew"
            if is_manual(key)
            else "it may have been pruned, or never claimed"
        )
        return f"the history has no run of {key}: {why}"
    last = attempt if is_unfinished else 0
    if entry is not None:
        seen = read_entry(key, entry)
        if seen.outcome == "succeeded":
            return f"{key} has succeeded"
        if seen.outcome == "malformed":
            return f"the history of {key} can't be read: {seen.error}"
        last = max(last, seen.attempt or 0)
    return Resumed(key, last + 1)
