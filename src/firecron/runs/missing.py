"""The spans of time in which a lock was free: how a record shows them, and which of them a claim has to remember.

A tick counts as skipped if the lock was held at its slot (overlap), and as missed if the lock was free. The record
alone must tell the two apart, because the claim that replaces it is decided inside the compare-and-swap.

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

from collections.abc import Iterator
from dataclasses import dataclass

from firecron.base.instants import to_milliseconds, to_text
from firecron.cron.schedule import Schedule
from firecron.cron.ticks import has_tick
from firecron.lock.record import LockRecord
from firecron.lock.request import NONE_MISSED, Missed

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
    bounds = [to_milliseconds(record.slot)]
    for span in free(record, end, silent_since):
        bounds += [span.start, span.end]
    bounds.append(end)
    return [Span(start, stop) for start, stop in zip(bounds[::2], bounds[1::2], strict=True) if start < stop]


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
    spans: list[Span] = []
    for span in _in_order(free(record, now - 1), 0 if slot is None else to_milliseconds(slot), now - 1):
        if not has_tick(schedule, span.start, span.end):
            continue
        if spans and not has_tick(schedule, spans[-1].end, span.start):
            spans[-1] = Span(spans[-1].start, span.end)
        else:
            spans.append(span)
    if not spans:
        return NONE_MISSED
    oldest, *more = [(to_text(span.start), to_text(span.end)) for span in spans[-MOST_SPANS:]]
    return Missed(*oldest, " ".join("/".join(pair) for pair in more) or None)


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


def _in_order(spans: list[Span], after: int, end: int) -> Iterator[Span]:
    """Yield the parts of the spans between two instants. No part overlaps another, even if the record was edited."""
    for span in spans:
        start, stop = max(span.start, after), min(span.end, end)
        if start < stop:
            yield Span(start, stop)
            after = stop
