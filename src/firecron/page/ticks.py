"""The ticks of a job: what became of each, and why one did not run. Pure.

Ticks come from the schedule, outcomes from the history. A tick that did not run is a hole, and has a word for it:

    missed       nobody ran it, although its lock was free: an outage
    skipped      the run before it had not ended
    paused       somebody had paused the job
    disabled     the job was declared disabled, or taken out
    excluded     its day is one of the schedule's `except_days`, so it is no tick at all
    due          it may still be claimed
    unrecorded   nothing is known of it: its entry is not kept, or was never written

The history has most of the holes, but late: whoever claims the next tick writes those before it. Until then the node of
the lock shows when it was held and when it was free (`runs/policy`), as that claim will see it. So no tick after the
last one that was claimed is unrecorded. Whose pause it was that is over, the acts of operators show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise
from math import inf
from typing import Literal, TypeAlias

from firecron.base.instants import to_datetime, to_milliseconds, to_text
from firecron.base.texts import plain
from firecron.cron.schedule import Schedule, due_after, has_tick, newest
from firecron.errors import Malformed
from firecron.jobs.catalogue import CatalogueEntry
from firecron.lock.audit_log import Act
from firecron.lock.fields import past_pauses, pause_in, resumed_at
from firecron.lock.record import LockRecord, parse
from firecron.runs.entry import PAUSED, Entry
from firecron.runs.policy import Span, cut_short, freed_at, held

Hole: TypeAlias = Literal["missed", "skipped", "paused", "disabled", "excluded", "due", "unrecorded"]

MOST_TICKS = 50
# Ticks are counted up to here.
_MOST_COUNTED = 500
_SECOND = 1_000

_REASONS = {
    "skipped": "the run before it had not ended",
    "missed": "no instance claimed it in time",
    "abandoned": "its instance died",
    "malformed": "its entry can't be read",
}


@dataclass(frozen=True, slots=True)
class Tick:
    """What became of a tick.

    A tick that ran has an `outcome`, `running` until its end; None if the history has no entry of it. A tick that did
    not run has a `hole`. `why` is a sentence about either.
    """

    slot: str
    outcome: str | None = None
    duration: int | None = None
    why: str | None = None
    hole: Hole | None = None

    def to_json(self) -> dict[str, object]:
        return {
            "slot": self.slot,
            "outcome": self.outcome,
            "durationMs": self.duration,
            "why": self.why,
            "hole": self.hole,
        }


@dataclass(frozen=True, slots=True)
class Stretch:
    """Ticks in a row that did not run for one reason: from the slot `first` to the slot `last`.

    With `is_more` there are more than `count`.
    """

    hole: Hole
    why: str | None
    first: str
    last: str
    count: int = 1
    is_more: bool = False

    def to_json(self) -> dict[str, object]:
        return {
            "hole": self.hole,
            "why": self.why,
            "first": self.first,
            "last": self.last,
            "count": self.count,
            "isMore": self.is_more,
        }


@dataclass(frozen=True, slots=True)
class _Pause:
    """A pause: from its start on, and before its end."""

    start: float
    end: float
    why: str


@dataclass(frozen=True)
class Known:
    """What is known of a job at the time `now` of RTDB's clock: its ticks follow from it.

    That is its declaration, its history, the node of its lock and the acts of operators. `margin` is the lock's. A job
    that `is_retired` was taken out on purpose.
    """

    declared: CatalogueEntry | None
    entries: Sequence[Entry]
    node: object
    acts: Sequence[Act]
    now: int
    margin: int
    is_retired: bool = False

    def newest_ticks(self, most: int = MOST_TICKS) -> list[Tick]:
        """Return the newest ticks up to now, oldest first.

        Those from before the schedule was declared are there if the history has them. Of a stored job each run is
        one, because its entries share their ticks.
        """
        if self.declared is not None and self.declared.stored is not None:
            runs = [entry for entry in self.entries if entry.slot is not None][-most:]
            return [
                Tick(run.slot or "", run.outcome, run.duration, run.error or _REASONS.get(run.outcome)) for run in runs
            ]
        slots = set(self._by_slot)
        if self._running is not None and _is_slot(self._running):
            slots.add(self._running)
        if self.declared is not None:
            since = self.since
            if since is None:
                since = to_milliseconds(min(slots)) - 1 if slots else self.now
            slots |= set(newest(self.declared.schedule.whole, since, self.now, most))
        covered = _covered([slot for slot in sorted(slots) if self._excluded(slot) is None], self._by_slot)
        return [self._tick(slot, covered) for slot in sorted(slots)[-most:]]

    # --- the ticks of a long time that did not run
    #
    # They may be very many, as of a job of each second that was paused for a week. So the time is cut where the reason
    # may change, and of each part one tick is judged for all.

    @cached_property
    def kept_from(self) -> int:
        """From when on the ticks are known: since the oldest entry, else since the last tick that was claimed."""
        starts = [to_milliseconds(slot) for slot in self._by_slot]
        starts += [entry.started_at for entry in self.entries if entry.started_at is not None]
        return min(starts, default=self._claimed or self.since or self.now)

    def stretches(self, start: int) -> list[Stretch]:
        """Return the ticks after `start` that did not run, and are known, as stretches, oldest first."""
        schedule = None if self.declared is None else self.declared.schedule.whole
        found: list[Stretch] = []
        before = max(start, self.kept_from - _SECOND, (self.since or 0) - _SECOND)
        known = {slot for slot in (*self._by_slot, self._running) if slot is not None and _is_slot(slot)}
        for slot in sorted(slot for slot in known if to_milliseconds(slot) > before):
            at, entry = to_milliseconds(slot), self._by_slot.get(slot)
            ticks = [slot]
            if self.declared is not None and entry is not None and entry.count > 1:
                ticks = newest(self.declared.schedule, before, at, min(entry.count, _MOST_COUNTED)) or ticks
            if schedule is not None:
                found += self._between(schedule, before, to_milliseconds(ticks[0]) - _SECOND)
            hole = None if slot == self._running else self._tick(slot, {}).hole
            if hole is not None and entry is not None:
                why = self._tick(slot, {}).why
                found.append(Stretch(hole, why, ticks[0], slot, entry.count, entry.at_least))
            before = at
        if schedule is not None:
            found += self._between(schedule, before, self.now)
        return _merged(found, set(known) - {one.last for one in found})

    def _between(self, schedule: Schedule, start: int, end: int) -> Iterator[Stretch]:
        """Yield the ticks after `start`, up to and including `end`, of which no entry is there."""
        if start >= end:
            return
        edges = [edge for edge in (*self._edges(schedule), *self._days(start, end)) if start < edge < end]
        for low, high in pairwise(sorted({start, *edges, end})):
            if not has_tick(schedule, low, high):
                continue
            ticks = [
                to_text(tick)
                for tick in islice(schedule.between(to_datetime(low), to_datetime(high)), _MOST_COUNTED + 1)
            ]
            one = self._cut_short(ticks[0]) or self._hole(ticks[0])
            if one.hole is not None:
                is_more = len(ticks) > _MOST_COUNTED
                last = newest(schedule, low, high, 1)[0] if is_more else ticks[-1]
                yield Stretch(one.hole, one.why, ticks[0], last, min(len(ticks), _MOST_COUNTED), is_more)

    def _edges(self, schedule: Schedule) -> Iterator[int]:
        """Yield the instants after which a tick may have another reason than before."""
        yield from (self._claimed - _SECOND, self._claimed)
        for span in self._held:
            yield from (span.start, span.end)
        for pause in self._pauses:
            yield from (int(at) - 1 for at in (pause.start, pause.end) if at != inf)
        record, declared = self._record, self.declared
        if record is not None:
            yield int(record.acquiredAt or 0) - 1
            if record.unfinished is not None:
                yield from (to_milliseconds(record.unfinished) + after for after in (-_SECOND, 0))
        if declared is not None:
            yield self.now - declared.grace - 1
            if declared.declared_at is not None:
                yield declared.declared_at - 1
            if declared.waits and (last := newest(declared.schedule, self._claimed, self.now, 1)):
                yield to_milliseconds(last[0]) - _SECOND

    def _days(self, start: int, end: int) -> Iterator[int]:
        """Yield the instants after which an excluded day begins, or another one."""
        if self.declared is None:
            return
        schedule = self.declared.schedule
        for tick, _ in schedule.days_excluded(to_datetime(start), to_datetime(end)):
            yield to_milliseconds(tick) - 1
            yield to_milliseconds(schedule.day_ends(tick)) - 1

    # --- one tick

    def _tick(self, slot: str, covered: Mapping[str, Entry]) -> Tick:
        if slot == self._running:
            return Tick(slot, "running")
        own = self._by_slot.get(slot)
        entry = own or covered.get(slot)
        if entry is None:
            return self._cut_short(slot) or self._hole(slot)
        outcome, why = entry.outcome, _REASONS.get(entry.outcome)
        paused = self._paused(to_milliseconds(slot)) if outcome in ("skipped", "missed") else None
        if outcome == "skipped" and entry.error == PAUSED:
            return Tick(slot, outcome, why=paused or "the job was paused", hole="paused")
        if outcome == "skipped":
            return Tick(slot, outcome, why=why, hole="skipped")
        if outcome == "missed":  # also one that a pause held back, by an older version's entry
            return Tick(slot, outcome, why=paused or why, hole="missed" if paused is None else "paused")
        return Tick(slot, outcome, None if own is None else own.duration, (own and own.error) or why)

    def _cut_short(self, slot: str) -> Tick | None:
        """Return the tick if its run has not finished, and the next claim has still to write that."""
        record = self._record
        if record is None or slot != record.unfinished:
            return None
        return Tick(slot, cut_short(record, slot).outcome, why=f"nobody has seen its end on {plain(record.owner)}")

    def _hole(self, slot: str) -> Tick:
        """Return a tick that no entry has, with why it did not run, as far as lock, catalogue and acts tell."""
        at = to_milliseconds(slot)
        if (excluded := self._excluded(slot)) is not None:
            return Tick(slot, why=f"its day is excluded: {plain(excluded)}", hole="excluded")
        if (paused := self._paused(at)) is not None:
            return Tick(slot, why=paused, hole="paused")
        declared = self.declared
        if declared is not None and declared.disabled and at >= (declared.declared_at or inf):
            return Tick(slot, why="the job was declared disabled", hole="disabled")
        if (behind := self._behind(at)) is not None:
            waits = declared is not None and declared.waits and self._is_newest(at, declared)
            return Tick(slot, why=f"{'it waits: ' if waits else ''}{behind}", hole="due" if waits else "skipped")
        if self.is_retired and at > self._claimed:
            return Tick(slot, why="the job was taken out", hole="disabled")
        if declared is not None and self.now - at <= declared.grace:
            return Tick(slot, why="it is due", hole="due")
        if self._is_malformed and at > to_milliseconds(max(self._by_slot, default="1970-01-01T00:00:00Z")):
            return Tick(slot, why="nobody can claim the node of its lock", hole="missed")
        if at > self._claimed and (declared is None or declared.once_per_tick):
            return Tick(slot, why="no instance has claimed it", hole="missed")
        said = (
            "it was claimed, and its run's entry is not there" if at == self._claimed else "nothing is recorded of it"
        )
        return Tick(slot, why=said, hole="unrecorded")

    def _excluded(self, slot: str) -> str | None:
        return None if self.declared is None else self.declared.schedule.excluded(to_datetime(slot))

    def _is_newest(self, at: int, declared: CatalogueEntry) -> bool:
        return due_after(declared.schedule, at) > self.now

    def _behind(self, at: int) -> str | None:
        """Return which run held the lock at this instant, after the last tick that was claimed; None if it was free."""
        record = self._record
        if record is None:
            return None
        claimed, is_live = int(record.acquiredAt or 0), record.is_live(self.now, self.margin)
        if record.slot is None:
            # By once_per_tick=False no tick is remembered, so only the last acquisition is known.
            is_held = claimed <= at and is_live
        else:
            is_held = any(span.start < at <= span.end for span in self._held)
        if not is_held:
            return None
        if not is_live or at < claimed:
            return f"the run of {record.slot} held the lock" if at >= claimed else "another run held the lock"
        if record.releasedAt is not None:
            return f"the lock is kept until {to_text(int(record.expiresAt))}, as the job asks"
        return "a run by hand holds the lock" if self._running is None else f"the run of {self._running} holds the lock"

    def _paused(self, at: int) -> str | None:
        """Return whose pause this instant was in; None if it was in none."""
        return next((pause.why for pause in self._pauses if pause.start <= at < pause.end), None)

    @cached_property
    def _pauses(self) -> list[_Pause]:
        return list(self._find_pauses())

    def _find_pauses(self) -> Iterator[_Pause]:
        # Nothing says when some pauses began: then they have lasted since the lock was free.
        free_since = self.since or 0 if self._record is None else freed_at(self._record) + 1
        fields = self.node if isinstance(self.node, dict) else {}
        pause, resumed = pause_in(fields), resumed_at(fields, self.now)
        if pause is not None:
            start = free_since if pause.at is None else pause.at
            yield _Pause(start, inf if pause.until is None else pause.until, f"the job was {pause}")
        name = "" if self.declared is None else plain(self.declared.name)
        acts = [act for act in self.acts if act.name == name and act.act in ("pause", "resume")]
        # Whoever claimed a tick was not paused any more: the pause had ended by itself, or in the console.
        ends = [act.at or 0 for act in acts] + [entry.started_at or 0 for entry in self._by_slot.values()]
        for act in acts:
            if act.act == "pause" and act.at is not None:
                why = "" if act.why is None else f" ({act.why})"
                end = min((at for at in ends if at > act.at), default=inf)
                yield _Pause(act.at, end, f"the job was paused by {act.who}{why}")
        noted = past_pauses({**fields, "paused": None}, self.now)
        for first, last in noted:
            yield _Pause(first, last + 1, f"the job was paused until {to_text(last)}")
        if not acts and not noted and pause is None and resumed is not None:  # an older version has ended it
            yield _Pause(free_since, resumed + 1, f"the job was paused until {to_text(resumed)}")

    @cached_property
    def _held(self) -> list[Span]:
        """The spans after the last tick that was claimed in which the lock was held."""
        return [] if self._record is None else held(self._record, self.now)

    @cached_property
    def _by_slot(self) -> dict[str, Entry]:
        return {entry.slot: entry for entry in self.entries if entry.slot is not None and _is_slot(entry.slot)}

    @cached_property
    def _parsed(self) -> LockRecord | str | None:
        """What the node says of the lock: nothing, or why nobody can claim it."""
        try:
            current = parse(self.node, self.now)
        except Malformed as error:
            return str(error)
        return current if isinstance(current, LockRecord) else None

    @property
    def _record(self) -> LockRecord | None:
        return self._parsed if isinstance(self._parsed, LockRecord) else None

    @property
    def _is_malformed(self) -> bool:
        return isinstance(self._parsed, str)

    @cached_property
    def _running(self) -> str | None:
        """The tick that runs now."""
        record = self._record
        if record is None or record.releasedAt is not None or not record.is_live(self.now, self.margin):
            return None
        return record.unfinished

    @property
    def running_since(self) -> int | None:
        """When the run began that is under way; None if none is."""
        record = self._record
        if record is None or record.releasedAt is not None or not record.is_live(self.now, self.margin):
            return None
        return None if record.acquiredAt is None else int(record.acquiredAt)

    @cached_property
    def since(self) -> int | None:
        """Since when the job has its schedule."""
        if self.declared is None:
            return None
        return self.declared.declared_at if self.declared.since is None else self.declared.since

    @cached_property
    def _claimed(self) -> int:
        """The last tick that was claimed; 0 if none was."""
        slot = None if self._record is None else self._record.slot
        return 0 if slot is None else to_milliseconds(slot)


def _merged(stretches: Sequence[Stretch], runs: set[str]) -> list[Stretch]:
    """Return the stretches, those of one reason together, if no run is between them."""
    merged: list[Stretch] = []
    for one in stretches:
        last = merged[-1] if merged else None
        if (
            last is None
            or (last.hole, last.why) != (one.hole, one.why)
            or any(last.last < slot < one.first for slot in runs)
        ):
            merged.append(one)
        else:
            count, is_more = last.count + one.count, last.is_more or one.is_more
            merged[-1] = Stretch(one.hole, one.why, last.first, one.last, count, is_more)
    return merged


def _covered(slots: list[str], found: Mapping[str, Entry]) -> dict[str, Entry]:
    """Return the ticks that an entry of several ticks counts, besides its own slot."""
    covered: dict[str, Entry] = {}
    for place, slot in enumerate(slots):
        entry = found.get(slot)
        if entry is not None and entry.count > 1:
            before = slots[max(0, place - entry.count + 1) : place]
            covered.update({one: entry for one in before if one not in found})
    return covered


def _is_slot(slot: str | None) -> bool:
    try:
        return slot is not None and to_milliseconds(slot) > 0
    except ValueError:
        return False
