"""A look at a stored schedule: what there is to do with an entry now. Pure decisions.

    claimable    what a claim has to see of the node: a record and options of the entry, or why it may not be claimed
    evaluate     what a look makes of the node: an attempt, a write, a deletion, or a later look
    mended       the node with a time to look at it, where a hand has left none

`lock/stored` has what a node says, and when it is looked at. A look decides nothing about a claim: it has an attempt
made, which reads the node again. What it writes itself, it writes as the next claim's bookkeeper would:

    a run that died and is not rerun       it is ended: released as it expired, `abandoned`, one more failure
    ticks that nobody may claim any more   they are `passed`: their grace is over, they are paused, or the lock was held
    the only tick of an `at`               the same, and the entry is closed as `missed`
    a schedule that can't be read          it is looked at each hour, and closed after a day
    a time that is not the node's own      it is set anew: that of another `keep_closed`, or one that a hand has left

Nothing is written while a run holds the entry. The history follows the write, each entry only where there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from firecron.base.instants import number, to_milliseconds
from firecron.cron.bounded import Bounded
from firecron.cron.schedule import is_tick, newest
from firecron.errors import Malformed
from firecron.jobs.options import JobOptions
from firecron.lock.fields import Pause, pause_in
from firecron.lock.record import DAY, Current, LockRecord, Refused, after_claim, parse
from firecron.lock.stored import (
    BROKEN,
    HOUR,
    MISSED,
    LookOptions,
    Node,
    as_of_since,
    checked,
    closed,
    closed_to_claims,
    finished,
    is_closed,
    next_at,
    read_args,
    read_schedule,
)
from firecron.runs.entry import Entry
from firecron.runs.policy import choose, cut_short, is_late_for, start_ends, unclaimed

# How long a schedule may be malformed until its entry is closed.
_MALFORMED_FOR = DAY


@dataclass(frozen=True, slots=True)
class Attempted:
    """There is something to claim: the tick that is due, or (None) what the record leaves to do."""

    due: str | None


@dataclass(frozen=True, slots=True)
class Written:
    """The node is to be written, and after it these entries of the history, where there are none."""

    node: Node
    entries: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True)
class Deleted:
    """The entry is closed, and its time is over: its steps are to be deleted, and then the node."""


@dataclass(frozen=True, slots=True)
class Later:
    """There is nothing to do until this instant. `problem` is what an operator has to mend, if there is anything."""

    at: int
    problem: str | None = None


Look: TypeAlias = Attempted | Written | Deleted | Later


def claimable(
    current: Current,
    options: JobOptions,
    due: str | None,
    problem_of: Callable[[Mapping[str, object]], str | None] = lambda args: None,
) -> tuple[LockRecord, JobOptions, str | None] | Refused:
    """Return what a claim has to see of an entry, or why it is refused: the record, the options, and the due tick.

    The tick is None if the schedule of the entry doesn't have it any more. `problem_of` says why the function can't be
    called with the arguments of the entry.
    """
    refused = closed_to_claims(current)
    if refused is not None:
        return refused
    if (problem := problem_of(read_args(current.kept))) is not None:
        return Refused("malformed", current, problem)
    schedule = read_schedule(current.kept)
    assert schedule is not None, "an entry that may be claimed has a schedule"
    record = as_of_since(current)
    if due is not None and (due <= (record.slot or "") or not is_tick(schedule, due)):
        due = None
    return record, replace(options, schedule=schedule), due


def evaluate(node: object, options: JobOptions, now: int, margin: int, hold: Pause | None = None) -> Look:
    """Return what there is to do with the node of an entry. `hold` is the pause of its job, if that is paused now."""
    look = options.look(margin)
    assert look is not None, "only a stored job has entries"
    if not isinstance(node, dict):
        return Later(now + HOUR, None if node is None else f"it holds {node!r:.40} instead of an entry")
    try:
        current = parse(node, now)
    except Malformed as error:
        return Later(now + HOUR, str(error))  # only an operator may touch it
    record = current if isinstance(current, LockRecord) else None
    is_live = record is not None and record.is_live(now, margin)
    if is_closed(node):
        at = next_at(node, look, now)
        return Deleted() if at <= now and not is_live else _later(node, look, now, at, is_live=is_live)
    try:
        schedule, problem = checked(node), "it has no schedule"
    except Malformed as error:
        schedule, problem = None, str(error)
    if schedule is None:
        return Later(now + HOUR) if is_live else Written(_malformed(node, problem, look, now))
    seen, options = as_of_since(current), replace(options, schedule=schedule)
    due, pause = _due(schedule, seen, options, now), _pause(node, hold, now)
    if is_live:
        assert record is not None, "what is live has a record"
        may_wait = options.waits and due is not None and record.releasedAt is None and pause is None
        return Attempted(due) if may_wait else _later(node, look, now, record.free_at(margin), is_live=True)
    if pause is None:
        is_late = due is not None and options.asks_in_waves and is_late_for(seen, due, now, margin)
        if choose(seen, options, None if is_late else due, now, margin) is not None:
            return Attempted(due)
    return _settled(node, record, seen, options, look, now, pause)


def _due(schedule: Bounded, seen: LockRecord, options: JobOptions, now: int) -> str | None:
    """Return the newest tick that has come and may still start."""
    found = newest(schedule, to_milliseconds(str(seen.slot)), now, 1)
    return found[0] if found and now <= start_ends(options, found[0]) else None


def _pause(node: Mapping[str, object], hold: Pause | None, now: int) -> Pause | None:
    own = pause_in(node)
    return own if own is not None and own.holds(now) else hold


def _settled(
    node: Node,
    record: LockRecord | None,
    seen: LockRecord,
    options: JobOptions,
    look: LookOptions,
    now: int,
    pause: Pause | None,
) -> Look:
    """Return what is to be written where nothing is to be claimed: how a died run has ended, and what is passed."""
    after, entries = dict(node), list[Entry]()
    if record is not None and record.releasedAt is None and not (pause is not None and _may_rerun(seen, options)):
        outcome = "abandoned"
        if record.unfinished is not None:
            ended = cut_short(record, record.unfinished)
            entries.append(ended)
            outcome = ended.outcome
        failures = after_claim(record.failures, seen.open_slot, None, record.outcome)
        after |= {"releasedAt": record.expiresAt, "outcome": outcome, "failures": failures, "unfinished": None}
        after = {name: value for name, value in after.items() if value is not None}
    schedule = options.schedule
    assert isinstance(schedule, Bounded), "an entry's schedule may end"
    start = max(to_milliseconds(str(seen.slot)), number(node.get("passed")) or 0)
    last = newest(schedule, start, now, 1)
    if last:
        passed = after["passed"] = to_milliseconds(last[0])
        entries += unclaimed(seen, options, start, passed, pause)
        if schedule.at is not None:
            after = closed(after, MISSED, now, _why_missed(options, entries, pause))
    after = finished(after, look, now)
    return Written(after, tuple(entries)) if after != node else Later(number(node.get("nextAt")) or now)


def _may_rerun(seen: LockRecord, options: JobOptions) -> bool:
    return seen.open_slot is not None and options.reruns


def _why_missed(options: JobOptions, entries: list[Entry], pause: Pause | None) -> str:
    if pause is not None:
        return str(pause)
    if any(entry.outcome == "skipped" for entry in entries):
        return "its lock was held when it was due"
    return f"no instance has started it within its grace of {options.grace / 1000:g} s"


def _malformed(node: Node, problem: str, look: LookOptions, now: int) -> Node:
    """Return the node of a schedule that can't be read: closed if that is so for a day."""
    since = number(node.get("closedAt"))
    if since is not None and now - since >= _MALFORMED_FOR:
        return finished(closed(node, BROKEN, now, problem), look, now)
    after = {**node, "passed": now, "closedAt": now if since is None else since, "closedWhy": problem[:500]}
    return finished(after, look, now)


def _later(node: Node, look: LookOptions, now: int, at: int, *, is_live: bool) -> Look:
    """Return a later look; or a write of its time, if the node says another one. A run sets its own."""
    there = number(node.get("nextAt"))
    is_kept = there is not None and there > 0 and (is_live or there == at)
    return Later(at) if is_kept else Written(finished(node, look, now))


def mended(node: object, options: JobOptions, now: int, margin: int) -> Node | None:
    """Return the node with a time at which it is looked at; None if it has one, or if only an operator may touch it."""
    look = options.look(margin)
    assert look is not None, "only a stored job has entries"
    if not isinstance(node, dict) or (number(node.get("nextAt")) or 0) > 0:
        return None
    try:
        parse(node, now)
    except Malformed:
        return None
    return finished(node, look, now)
