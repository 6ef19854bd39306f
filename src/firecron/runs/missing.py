"""When nobody held a lock: what a record says of it, and what a claim has to remember.

A tick at which somebody held the lock is skipped (overlap); one at which nobody held it was missed. The record alone
must tell the two apart, because the claim that replaces it is decided inside the compare-and-swap.

    slot    missedAfter   missedUntil     acquiredAt     expiresAt or releasedAt      now
      |  held   |    free      |     held                     |         free           |

A record of one claim says when that claim's own time began to be free. A claim that leaves ticks behind which nobody
ran (a catch-up of an older tick, a rerun, a run by hand, or a claim that came late) takes the free spans before it
along. The oldest span is in `missedAfter` and `missedUntil`; `missedMore` has the later ones, as pairs with a slash.
Spans without a tick are left out, and two spans with no tick between them are one, so there are rarely two.

What it doesn't promise: after an unlock (`expiresAt = 0`) nothing tells when the lock was freed. It counts as free
from `acquiredAt` on. Of more than ten spans the newest ten are remembered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from firecron.base.instants import to_datetime, to_milliseconds, to_text
from firecron.cron.schedule import Schedule
from firecron.lock.record import NONE_MISSED, LockRecord, Missed

MOST_SPANS = 10


@dataclass(frozen=True, slots=True)
class Span:
    """A time, in milliseconds: later than `start`, up to and including `end`."""

    start: int
    end: int


def free(record: LockRecord, end: int, silent_since: int | None = None) -> list[Span]:
    """When nobody held the lock, after the record's slot and up to `end`; oldest first. With `silent_since`, the time
    that its holder was dead counts as free, too: for the history only, because no record tells it.
    """
    if record.slot is None:
        return []
    ended = _ended(record) if silent_since is None else min(_ended(record), silent_since)
    found = [*_remembered(record), Span(ended, end)]
    return list(_in_order(found, to_milliseconds(record.slot), end))


def held(record: LockRecord, end: int, silent_since: int | None = None) -> list[Span]:
    """When somebody held the lock: all other time after the record's slot and up to `end`; oldest first."""
    if record.slot is None:
        return []
    bounds = [to_milliseconds(record.slot)]
    for span in free(record, end, silent_since):
        bounds += [span.start, span.end]
    bounds.append(end)
    return [Span(start, stop) for start, stop in zip(bounds[::2], bounds[1::2], strict=True) if start < stop]


def remember(record: LockRecord, schedule: Schedule, now: int, slot: str | None = None) -> Missed:
    """What a claim at `now` has to remember: the free spans with ticks that are later than its own slot, or, where it
    claims no later slot, than the record's.
    """
    spans: list[Span] = []
    for span in _in_order(free(record, now - 1), 0 if slot is None else to_milliseconds(slot), now - 1):
        if not _has_tick(schedule, span):
            continue
        if spans and not _has_tick(schedule, Span(spans[-1].end, span.start)):
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


def _ended(record: LockRecord) -> int:
    """When the claim's own time began to be free. Others are kept out to the end of a minimum hold, which may be later
    than the release; an unlock is an expiry in the past.
    """
    return max(int(number or 0) for number in (record.expiresAt, record.releasedAt, record.acquiredAt))


def _in_order(spans: list[Span], after: int, end: int) -> Iterator[Span]:
    """The spans between two instants; none overlaps the one before, whatever somebody typed into the record."""
    for span in spans:
        start, stop = max(span.start, after), min(span.end, end)
        if start < stop:
            yield Span(start, stop)
            after = stop


def _has_tick(schedule: Schedule, span: Span) -> bool:
    # Ticks are whole seconds, so most claims, which come in their tick's own second, need no look at the schedule.
    if span.start // 1000 >= span.end // 1000:
        return False
    return schedule.after(to_datetime(span.start)) <= to_datetime(span.end)
