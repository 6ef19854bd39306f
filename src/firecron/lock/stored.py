"""A stored schedule: a lock's node that says when somebody has to look at it. Pure decisions.

`cron-schedules/<job>/:<key>` is an entry: one schedule of a stored job, with the lock of its runs. It has all fields of
a lock (`lock/record`), the fields of a schedule (`line, timezone` or `every, starting` or `at`; `until`), and

    written     the line as it was put, if it has an `H`. Nothing reads it but people
    args        the arguments of the job's function, as JSON
    by          who has put it
    nextAt      when to look at it, in milliseconds of RTDB's clock. A hint: what ticks comes from the schedule
    since       ticks at or before this instant don't exist: nobody claims or reruns them
    passed      up to this instant a look has found nothing to claim
    closed      nobody claims it any more: `removed`, `over` (no tick is left), `missed` (its only tick), `malformed`
    closedAt, closedWhy

Each write ends with `finished`, which sets `nextAt` anew from what the node then says. So no write can forget it.

    state            nextAt                                                   who ends the state
    waiting          the first tick after slot, since and passed              a claim; a look, if there is none to make
    held             when the lock may be taken: its expiry and a margin; if  the release; else, at that time, a look
                     ticks wait for the run, the next tick, if it is sooner
    died, reruns     the same: the record was not released                    the claim that reruns it
    died, no rerun   the same                                                 a look: it ends the run in the record
    stopped, reruns  when it was released                                     the claim that reruns it
    released         as waiting, not before a minimum hold is over            a claim
    no tick left     the release, or a look, closes it as `over`
    closed           `closedAt` and `keep_closed`; not while it is held       a put opens it; a look deletes it
    paused           as waiting, but at `pausedUntil` at the latest, and not  a resume; the end of the pause
                     while a run holds it
    paused by hand   what was there: a look finds it paused, and sets it      a look
    malformed, or    an hour after `passed`                                   a put; after a day a look closes it
    no schedule
    a record that    an hour later, and nothing is written: nobody but an operator may touch it
    can't be read

What may interleave. Each of these is one compare-and-swap on the node, decided by what was read with its ETag. Who
finds another ETag reads, and decides again:

    put      put                 the later one counts, as a whole
    put      claim               the claim first: the put keeps the lock's fields. The put first: the claim has the new
                                 arguments, and takes a tick of the new schedule only
    put      renewal, release    the run goes on with its arguments. With another schedule `since` is now, so it is not
                                 rerun if it dies. `nextAt` moves only to an earlier instant while a run is unfinished
    remove   claim               the claim first: the run goes on, and `remove` says so. `remove` first: no claim
    remove   renewal, release    they carry `closed` over: the run ends as any other
    remove   put                 the later one counts. After a put that follows, `since` keeps all earlier ticks away
    look     put, remove, claim  the look is decided again. What it has planned is a claim like any other
    prune    put                 the put first: the node is open, and stays. The deletion first: the put finds nothing,
                                 and counts from `now` and three margins: later than any slot that was claimed
    prune    claim, renewal      a closed node is not claimed; while a run holds it, it is not deleted
    a frozen looker              what it claims or writes later needs the ETag of what it has read. `since` and the
                                 slots only rise, so no state comes back
    a reply that is lost         the node is read again: a put, a remove or a look that was applied finds what it has
                                 sent, and a claim finds its own token. Its run has what the entry had when it was
                                 claimed, although the node may say something else since
    a looker that dies between   the node has the outcome and what was passed. The entries of the history are lacking:
      its write and the history  those of missed ticks come with the next claim, that of a died run doesn't
    a put that lands late        it needs the ETag of then. Onto an absent node it could land only after a removal and
                                 a deletion, and a day must be between the two (`keep_closed`)
                                 Or before the first put is answered: a removal that finds no node writes nothing, and
                                 the put that lands after it counts, as the later one

So once `remove` has returned, nothing claims the entry until a put, and then no tick up to its `since`; and no tick of
an entry begins twice. A node that is absent is never created but by a put: a claim reads first, and compares.

The console may change anything. What it leaves without a positive `nextAt` no query finds: a round mends it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import TypeAlias

from firecron.base.instants import number, to_milliseconds, to_text
from firecron.cron.bounded import FIELDS, Bounded, read_fields
from firecron.errors import Malformed
from firecron.lock.fields import pause_in
from firecron.lock.record import DAY, LOCK_FIELDS, MOST_CLAIMS, Current, LockRecord, Refused, parse

Node: TypeAlias = dict[str, object]

HOUR = 3_600_000
LONGEST_ARGS = 4_096
_CLOSING = ("closed", "closedAt", "closedWhy")
# What `remove` drops: all that a later put says anew. The fields of the lock stay.
DROPPED = (*FIELDS, "args", "by", "failures", "passed", "closedWhy")
REMOVED, OVER, MISSED, BROKEN = "removed", "over", "missed", "malformed"


@dataclass(frozen=True, slots=True)
class LookOptions:
    """What of a job's options decides when its entries are looked at, in milliseconds.

    Where the job is not known, these are the earliest cases: to look too early costs a look.
    """

    margin: int
    waits: bool = True
    reruns: bool = True
    keep_closed: int = DAY


@dataclass(frozen=True, slots=True)
class Kept:
    """The node stays as it is."""


KEPT = Kept()


# --- what a node says


def read_schedule(node: Mapping[str, object]) -> Bounded | None:
    """Return the schedule of an entry; None if it has none. Raise Malformed if it can't be read."""
    try:
        return read_fields(node)
    except ValueError as error:
        raise Malformed(f"its schedule is wrong: {error}") from None


def read_args(node: Mapping[str, object]) -> dict[str, object]:
    """Return the arguments of an entry. Raise Malformed if they can't be read."""
    text = node.get("args")
    if text is None:
        return {}
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Malformed(f"its args are {text!r:.60}, which is no JSON object")
    return found


def checked(node: Mapping[str, object]) -> Bounded | None:
    """Return the schedule of an entry whose schedule and arguments can be read. Raise Malformed for any other."""
    read_args(node)
    return read_schedule(node)


def is_closed(node: Mapping[str, object]) -> bool:
    """Return whether nobody may claim the entry."""
    return node.get("closed") not in (None, False)


def floor_of(node: Mapping[str, object]) -> int:
    """Return the instant up to which no tick can be claimed any more: a later one of `slot` and `since`."""
    slot = node.get("slot")
    try:
        claimed = to_milliseconds(slot) if isinstance(slot, str) else 0
    except ValueError:
        claimed = 0
    return max(claimed, number(node.get("since")) or 0)


def _passed(node: Mapping[str, object]) -> int:
    return max(floor_of(node), number(node.get("passed")) or 0)


def is_running(node: object, now: int, margin: int) -> bool:
    """Return whether a run holds the entry."""
    if not isinstance(node, dict):
        return False
    try:
        current = parse(node, now, is_mine=True)
    except Malformed:
        return True  # it may be, and nothing is taken from it
    return isinstance(current, LockRecord) and current.releasedAt is None and current.is_live(now, margin)


def as_of_since(current: Current) -> LockRecord:
    """Return the record as a claim has to see it: ticks at or before `since` don't exist.

    A node without a lock counts as one that was free since then.
    """
    since = number(current.kept.get("since")) or 0
    if not isinstance(current, LockRecord):
        return LockRecord.of({**current.kept, "slot": to_text(since), "expiresAt": since, "releasedAt": since})
    start = to_text(since)
    is_moot = current.unfinished is not None and current.unfinished <= start
    return current.changed(
        slot=max(current.slot or "", start), unfinished=None if is_moot else current.unfinished, kept=current.kept
    )


def closed_to_claims(current: Current) -> Refused | None:
    """Return why nobody may claim the entry: it is absent, closed, or has no schedule that can be read."""
    if is_closed(current.kept):
        return Refused("removed", current, str(current.kept["closed"]))
    try:
        return None if checked(current.kept) is not None else Refused("removed", current, "absent")
    except Malformed as error:
        return Refused("malformed", current, str(error))


# --- when to look


def finished(node: Mapping[str, object], options: LookOptions, now: int) -> Node:
    """Return the node as it is written: closed if no tick is left, and with the time of the next look."""
    after = dict(node)
    if not is_closed(after):
        try:
            schedule = checked(after)
        except Malformed:
            schedule = None
        if schedule is not None:
            for name in _CLOSING:
                after.pop(name, None)  # of a schedule that was malformed
            if schedule.tick_after(_passed(after)) is None and not _is_unended(after, options, now):
                after = closed(after, OVER, now)
    after["nextAt"] = next_at(after, options, now)
    return after


def next_at(node: Mapping[str, object], options: LookOptions, now: int) -> int:
    """Return when somebody has to look at the entry. The table above says when that is."""
    record = _record(node, now)
    if is_closed(node):
        held_until = 0 if record is None else record.free_at(options.margin)
        return max((number(node.get("closedAt")) or 0) + options.keep_closed, held_until)
    try:
        schedule = checked(node)
    except Malformed:
        schedule = None
    if schedule is None:
        return _passed(node) + HOUR
    tick = schedule.tick_after(_passed(node))
    free_at = record.free_at(options.margin) if record is not None and record.releasedAt is None else 0
    pause = pause_in(node)
    if pause is not None and pause.holds(now):
        ends = [instant for instant in (tick, pause.until) if instant is not None]
        return max(min(ends, default=now + HOUR), free_at, 1)
    if free_at:
        return max(1, min(free_at, tick) if options.waits and tick is not None else free_at)
    if record is not None and record.releasedAt is not None:
        held_until = ceil(record.expiresAt)
        if _reruns(record, node, options):
            return max(ceil(record.releasedAt), held_until)
        return max(now if tick is None else tick, held_until)
    return max(1, now if tick is None else tick)


def _record(node: Mapping[str, object], now: int) -> LockRecord | None:
    """Return the record of the lock; None if there is none, or if it can't be read."""
    if not LOCK_FIELDS & node.keys():
        return None
    try:
        return LockRecord.read(node, now)
    except Malformed:
        return None


def _reruns(record: LockRecord, node: Mapping[str, object], options: LookOptions) -> bool:
    """Return whether a run that has not ended is to be run again."""
    open_slot = record.open_slot
    if open_slot is None or not options.reruns or int(record.attempt or 1) >= MOST_CLAIMS:
        return False
    return to_milliseconds(open_slot) > (number(node.get("since")) or 0)


def _is_unended(node: Mapping[str, object], options: LookOptions, now: int) -> bool:
    """Return whether a run holds the entry, has died with it, or is to be run again."""
    record = _record(node, now)
    return record is not None and (record.releasedAt is None or _reruns(record, node, options))


def closed(node: Mapping[str, object], how: str, now: int, why: str | None = None) -> Node:
    """Return the node, closed."""
    after: Node = {**node, "closed": how, "closedAt": now}
    after.pop("closedWhy", None)
    return after if why is None else {**after, "closedWhy": why[:500]}


# --- put and remove


@dataclass(frozen=True, slots=True)
class WantedSchedule:
    """What a put asks for: the schedule, the arguments as JSON (None for none), and who asks, if that is told."""

    schedule: Bounded
    args: str | None = None
    by: str | None = None
    if_absent: bool = False


def put(node: object, wanted: WantedSchedule, options: LookOptions, now: int) -> Node | Kept:
    """Return the node after a put; `KEPT` if it says all that already. Raise ValueError if nothing would ever tick."""
    before = _node(node)
    fields = wanted.schedule.to_fields()
    if wanted.if_absent and before and before.get("closed") != REMOVED and _has_schedule(before):
        return KEPT
    is_same = _equal(before, fields, ("until", "written")) and before.get("closed") != REMOVED
    rest: Node = {"until": fields.get("until"), "written": fields.get("written"), "args": wanted.args}
    if wanted.by is not None:
        rest["by"] = wanted.by
    if is_same and all(before.get(name) == value for name, value in rest.items()):
        return KEPT
    is_known, was_closed = "since" in before, is_closed(before)
    since = number(before.get("since")) or 0
    if not is_known:
        since = now + 3 * options.margin  # what was claimed before the node was deleted is not known any more
    elif was_closed or not is_same:
        since = max(since, now)
    after = {name: value for name, value in before.items() if name not in (*FIELDS, *_CLOSING)}
    after |= {**fields, **rest, "since": since}
    if not is_same or was_closed:
        after.pop("passed", None)
    after = {name: value for name, value in after.items() if value is not None}
    first = wanted.schedule.tick_after(_passed(after))
    if first is None and (was_closed or not is_same or not _is_unended(after, options, now)):
        raise ValueError(
            f"{wanted.schedule} has no tick after {to_text(floor_of(after))}: give an instant that is later"
        )
    after = finished(after, options, now)
    old = number(before.get("nextAt"))
    if old is not None and not was_closed and is_busy(before, now, options.margin):
        # The run under way, or its rerun, has its own time, which this put doesn't know.
        after["nextAt"] = min(old, number(after["nextAt"]) or old)
    return after


def remove(node: object, options: LookOptions, now: int, *, by: str | None = None, cancel: bool = False) -> Node | Kept:
    """Return the node after a removal: closed, with all fields of its lock. `KEPT` if there is nothing to remove."""
    before = _node(node)
    asks = cancel and is_running(before, now, options.margin) and before.get("fence") is not None
    is_asked = before.get("cancel") == before.get("fence")
    if not before or (before.get("closed") == REMOVED and (is_asked or not asks)):
        return KEPT
    after = {name: value for name, value in before.items() if name not in DROPPED}
    if before.get("closed") != REMOVED:
        after = closed(after, REMOVED, now)
    if by is not None:
        after["by"] = by
    if asks:
        after["cancel"] = before["fence"]
    return finished(after, options, now)


def _node(node: object) -> Node:
    if node is None:
        return {}
    if not isinstance(node, dict):
        raise Malformed(f"it holds {node!r:.40} instead of a stored schedule: delete it in the Firebase console")
    return node


def _has_schedule(node: Mapping[str, object]) -> bool:
    return any(node.get(name) is not None for name in FIELDS)


def _equal(node: Mapping[str, object], fields: Mapping[str, object], but: tuple[str, ...]) -> bool:
    """Return whether the node has the same schedule, apart from these fields."""
    return all(node.get(name) == fields.get(name) for name in FIELDS if name not in but)


def is_busy(node: Mapping[str, object], now: int, margin: int) -> bool:
    return is_running(node, now, margin) or node.get("unfinished") is not None
