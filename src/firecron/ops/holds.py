"""The operator's side of holds: all jobs are paused for a while, and that is taken back. Who holds what.

    holds = Holds(Database())
    made = holds.hold(until, "migrating", service="api")
    holds.unhold(made.hold.name)

`lock/holds` says in which order this happens, what may come between, and what a lock's node says afterwards. Nothing
is all or none here: a lock that could not be written is named, and the others are held.

What is shown of a hold comes from its own node and from the locks. A lock vouches for the hold that pauses it, so a
hold is also seen where its node is not there: because the security rules are older than holds, because somebody has
deleted it, or because the hold was taken back while somebody still paused a lock by it.

Every method raises StoreError if the database can't be reached or refuses.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TypeAlias

from firecron.base.instants import aware_milliseconds, to_text
from firecron.base.texts import plain
from firecron.errors import ConfigurationError, Denied, Malformed, StoreError, Unavailable
from firecron.jobs.catalogue import CatalogueEntry, read_declared
from firecron.lock.audit_log import AuditLog
from firecron.lock.database import Database
from firecron.lock.fields import LEADER, hold_name, pause_in, reason
from firecron.lock.holds import (
    LONGEST_SCOPE,
    Edited,
    Edits,
    JobHold,
    Node,
    Stays,
    held,
    pauses_in,
    read_holds,
    taken_back,
)
from firecron.lock.protocol import editing
from firecron.lock.record import LockRecord, parse
from firecron.ops.views import children, claimed_user
from firecron.store import check_name

# --- what is seen of the holds: pure


@dataclass(frozen=True, slots=True)
class HoldView:
    """A hold at one instant.

    `stands` is false once it is taken back, and where its node is missing. `jobs` are the locks that it pauses, also
    those that another hold pauses for longer. `not_held` are those that it covers and that nothing pauses for as long.
    """

    hold: JobHold
    stands: bool
    jobs: tuple[str, ...]
    not_held: tuple[str, ...] = ()

    def concerns(self, names: Collection[str]) -> bool:
        """Return whether it pauses one of these, or is to pause it and doesn't."""
        return not {*self.jobs, *self.not_held}.isdisjoint(names)

    def to_json(self) -> dict[str, object]:
        """Return the hold for programs: it always has every field, and instants are texts."""
        return {
            **hold_json(self.hold),
            "stands": self.stands,
            "held": len(self.jobs),
            "notHeld": list(self.not_held),
        }


def hold_json(hold: JobHold) -> dict[str, object]:
    """Return what a hold says, for programs."""
    return {
        "hold": hold.name,
        "by": plain(hold.by),
        "at": to_text(hold.at),
        "until": to_text(hold.until),
        "why": None if hold.why is None else plain(hold.why),
        "what": hold.what,
        "service": None if hold.service is None else plain(hold.service),
        "match": None if hold.match is None else plain(hold.match),
        "leaders": hold.leaders,
    }


Catalogue: TypeAlias = Mapping[str, CatalogueEntry | None]
Locks: TypeAlias = Mapping[str, object]


def inspect_holds(
    recorded: Mapping[str, JobHold], catalogue: Catalogue, locks: Locks, now: int
) -> tuple[HoldView, ...]:
    """Return the holds that stand, and those that pause a lock although they don't, by the time that they were made."""
    pausing: dict[str, list[str]] = {}
    seen = {hold.name: hold for hold in recorded.values() if hold.stands(now)}
    standing = frozenset(seen)
    for name, node in sorted(locks.items()):
        for pause in pauses_in(node, now) if isinstance(node, dict) and "pausedWith" in node else ():
            if pause.hold is None or pause.by is None or pause.at is None or pause.until is None:
                continue
            pausing.setdefault(pause.hold, []).append(plain(name))
            seen.setdefault(pause.hold, JobHold(pause.hold, pause.by, pause.at, pause.until, pause.why))
    views = (
        HoldView(
            hold,
            hold.name in standing,
            tuple(pausing.get(hold.name, ())),
            tuple(_not_held(hold, catalogue, locks)) if hold.name in standing else (),
        )
        for hold in seen.values()
    )
    return tuple(sorted(views, key=lambda view: (view.hold.at, view.hold.name)))


def holds_of(node: object, now: int) -> frozenset[str]:
    """Return the names of the holds that pause a lock, given its node."""
    if not isinstance(node, dict) or "pausedWith" not in node:
        return frozenset()
    return frozenset(pause.hold for pause in pauses_in(node, now) if pause.hold is not None)


def covered(hold: JobHold, catalogue: Catalogue, locks: Locks) -> list[str]:
    """Return the names of the locks that a hold is for, in their order."""
    jobs = {
        name
        for name, entry in catalogue.items()
        if _is_name(name) and hold.covers(name, None if entry is None else entry.service)
    }
    return sorted(jobs.union(name for name, node in locks.items() if _is_leaders(node) and hold.covers_leader(name)))


def _not_held(hold: JobHold, catalogue: Catalogue, locks: Locks) -> Iterator[str]:
    for name in covered(hold, catalogue, locks):
        node = locks.get(name)
        pause = pause_in(node) if isinstance(node, dict) else None
        if pause is None or (pause.until is not None and pause.until < hold.until):
            yield plain(name)


def _is_name(name: str) -> bool:
    try:
        check_name(name)
    except ConfigurationError:
        return False  # no job can have it, so it has no lock
    return True


def _is_leaders(node: object) -> bool:
    return isinstance(node, dict) and node.get("kind") == LEADER


# --- what a hold has done


@dataclass(frozen=True, slots=True)
class Running:
    """A run or a term that is under way. `deaf` says why its holder can't be asked to stop, None if it can."""

    name: str
    is_cancelled: bool
    deaf: str | None = None

    def to_json(self) -> dict[str, object]:
        return {"job": self.name, "cancelled": self.is_cancelled, "why": self.deaf}


@dataclass(frozen=True, slots=True)
class HeldJobs:
    """What has become of a hold.

    `left` are the locks that stay as they are, each with the reason, such as a longer pause. `failed` are those that
    could not be written. `running` is what was under way afterwards. Without `is_recorded` the rules don't know holds.
    `is_taken_back` says that somebody took the hold back meanwhile, so nothing stays paused by it but what `failed`.
    """

    hold: JobHold
    held: tuple[str, ...]
    left: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    running: tuple[Running, ...] = ()
    is_recorded: bool = True
    is_taken_back: bool = False

    def to_json(self) -> dict[str, object]:
        """Return it for programs: it always has every field."""
        return {
            **hold_json(self.hold),
            "held": list(self.held),
            "left": _named(self.left),
            "failed": _named(self.failed),
            "running": [run.to_json() for run in self.running],
            "recorded": self.is_recorded,
            "takenBack": self.is_taken_back,
        }


@dataclass(frozen=True, slots=True)
class ResumedJobs:
    """What has become of an unhold. `paused` are the locks that another pause has again, each with its words."""

    hold: str
    what: str
    resumed: tuple[str, ...]
    paused: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """Return it for programs: it always has every field."""
        return {
            "hold": self.hold,
            "what": self.what,
            "resumed": list(self.resumed),
            "paused": _named(self.paused),
            "failed": _named(self.failed),
        }


def _named(reasons: Mapping[str, str]) -> list[dict[str, object]]:
    return [{"job": name, "why": why} for name, why in sorted(reasons.items())]


# How often an unhold writes one lock.
_TRIES = 5

# Is called with the number of locks that are done, and how many there are.
Told: TypeAlias = Callable[[int, int], object]


def _quietly(done: int, of: int) -> None:
    """Tell nobody."""


class Holds:
    """Holds the jobs of one database, and takes holds back."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self) -> dict[str, JobHold] | None:
        """Return the holds that are recorded, by name; None where the security rules don't know them."""
        try:
            return read_holds(self._database.node(self._database.paths.holds))
        except Denied:
            return None

    def seen(self) -> tuple[HoldView, ...]:
        """Return the holds that stand, and those that still pause a lock."""
        return inspect_holds(self.read() or {}, self._catalogue(), self._locks(), self._now())

    def hold(
        self,
        until: datetime,
        why: str,
        *,
        service: str | None = None,
        match: str | None = None,
        leaders: bool = False,
        cancel: bool = False,
        by: str | None = None,
        told: Told = _quietly,
    ) -> HeldJobs:
        """Pause every job of the catalogue, or those of a service, or those whose names match a pattern.

        With `cancel`, the runs that are under way are asked to end. Raise ConfigurationError if `until` is over, or
        there is nothing to hold.
        """
        audit_log = AuditLog(self._database)
        if not (reason(why) or "").strip():
            raise ConfigurationError("a hold needs a reason (why), for those who wonder later")
        scope = JobHold("", "", 0, 0, reason(why), service, match, leaders)
        self._check(scope)
        act = audit_log.act("hold", scope.what, by or claimed_user(), why, aware_milliseconds(until, "until"))
        assert act.at is not None, "an act that is made has its time"
        name, ends = hold_name(secrets.token_hex(2), act.who, act.at), aware_milliseconds(until, "until")
        hold = replace(scope, name=name, by=act.who, at=act.at, until=ends, why=act.why)
        is_recorded = self._record(hold, lambda changes: audit_log.write(changes, act))
        if not is_recorded:
            audit_log.record("hold", scope.what, act.who, why)
        # After the hold was written: who declares a job after this reads it.
        locks = self._locks()
        names = covered(hold, self._catalogue(), locks)
        left: dict[str, str] = {}
        decisions = {name: partial(_held, hold=hold, name=name, left=left, cancel=cancel) for name in names}
        absent = frozenset(names).difference(locks)
        failed = _failed(self._edits(len(names), told).make(decisions, absent))
        if is_recorded and not self.still_stands(hold):
            undone = self._edits(len(names), told).make(dict.fromkeys(names, partial(taken_back, gone={name})))
            return HeldJobs(hold, (), failed=_failed(undone), is_taken_back=True)
        left = {name: why for name, why in sorted(left.items()) if name not in failed}
        is_held = tuple(name for name in names if name not in left and name not in failed)
        self._ring(is_held)
        return HeldJobs(hold, is_held, left, failed, self._running(names), is_recorded)

    def unhold(self, name: str, why: str | None = None, *, by: str | None = None, told: Told = _quietly) -> ResumedJobs:
        """Take a hold back: resume what it has paused, or put back the pause that it has replaced."""
        recorded, what = self.read(), f"hold {name}"
        if recorded is not None and name in recorded:
            what = recorded[name].what
            self._end(name)
        resumed: dict[str, Edited] = {}
        tries = Counter[str]()
        while found := self._held_by(name):
            # Rules refuse to put a hold back that was taken back this moment: the next look knows that.
            names = [lock for lock in found if tries[lock] < _TRIES and not isinstance(resumed.get(lock), Unavailable)]
            if not names:
                break
            tries.update(names)
            gone = {name, *self.gone_of(set[str]().union(*found.values()))}
            resumed |= self._edits(len(names), told).make(dict.fromkeys(names, partial(taken_back, gone=gone)))
        failed = _failed(resumed)
        if not failed and recorded is not None:
            self._delete(name)
        AuditLog(self._database).record("unhold", what, by or claimed_user(), why)
        done = [one for one in sorted(resumed) if one not in failed]
        self._ring(done)
        paused = dict(self._paused(done))
        return ResumedJobs(name, what, tuple(one for one in done if one not in paused), paused, failed)

    def _ring(self, names: Collection[str]) -> None:
        """Let those that look at the entries of the stored jobs among these know of it."""
        if not names:
            return
        with suppress(StoreError):  # it is done; else lookers see it at a beat of theirs
            catalogue = self._catalogue()
            declared = ((name, catalogue.get(name)) for name in names)
            self._database.ring(*(name for name, entry in declared if entry is not None and entry.stored is not None))

    def _check(self, scope: JobHold) -> None:
        """Raise ConfigurationError if there is nothing that a hold would be for."""
        for option, value in (("service", scope.service), ("match", scope.match)):
            if value is not None and not 0 < len(value) <= LONGEST_SCOPE:
                raise ConfigurationError(f"{option}={value!r:.120} must have from 1 to {LONGEST_SCOPE} characters")
        if scope.leaders and scope.service is not None:
            raise ConfigurationError("no leader says which service it is of: name leaders by a pattern (match)")
        catalogue = self._catalogue()
        if covered(scope, catalogue, self._locks()):
            return
        services = sorted({plain(entry.service) for entry in catalogue.values() if entry is not None and entry.service})
        there = f": the services are {', '.join(services)}" if scope.service is not None and services else ""
        raise ConfigurationError(f"there is nothing to hold: {scope.what}, and the catalogue has none{there}")

    def _record(self, hold: JobHold, write: Callable[[Node], None]) -> bool:
        """Write a hold, and delete those that are over. Return whether the rules know holds."""
        recorded = self.read()
        if recorded is None:
            return False
        paths, now = self._database.paths, self._now()
        over = [paths.hold(name) for name, other in recorded.items() if not other.stands(now)]
        changes: Node = {paths.relative(path): None for path in over}
        try:
            write({**changes, paths.relative(paths.hold(hold.name)): hold.to_node()})
        except Unavailable as error:
            # It may have been written although its reply was lost.
            if hold.name not in (self.read() or {}):
                raise Unavailable(f"nothing is held, because the hold could not be written: {error}") from error
        return True

    def still_stands(self, hold: JobHold) -> bool:
        recorded = (self.read() or {}).get(hold.name)
        return recorded is not None and recorded.until > 0

    def _end(self, name: str) -> None:
        """Let nobody pause by this hold any more."""
        deadline = self._database.deadline(self._database.settings.acquire_timeout)
        self._database.run(editing(_ended), self._database.paths.hold(name), deadline)

    def _delete(self, name: str) -> None:
        path = self._database.paths.hold(name)
        snapshot = self._database.snapshot(path)
        if snapshot.node is None:
            return
        try:
            self._database.store.swap(path, snapshot.etag, None, self._database.deadline())
        except Unavailable:
            if self._database.node(path) is not None:
                raise

    def _held_by(self, name: str) -> dict[str, frozenset[str]]:
        """Return the locks that this hold pauses, each with all holds that pause it."""
        now = self._now()
        holds = {lock: holds_of(node, now) for lock, node in self._locks().items()}
        return {lock: names for lock, names in holds.items() if name in names}

    def gone_of(self, names: Collection[str]) -> set[str]:
        """Return those of these holds, which were seen in locks, that do not stand: none is to be put back."""
        recorded, now = self.read(), self._now()
        if recorded is None:
            return set()
        # A hold is written before its locks: one that is seen there, and not here, was taken back since, or deleted.
        return {name for name in names if not (name in recorded and recorded[name].stands(now))}

    def _paused(self, names: Collection[str]) -> Iterator[tuple[str, str]]:
        locks, now = self._locks() if names else {}, self._now()
        for name in names:
            node = locks.get(name)
            pause = pause_in(node) if isinstance(node, dict) else None
            if pause is not None and pause.holds(now):
                yield name, str(pause)

    def _running(self, names: Collection[str]) -> tuple[Running, ...]:
        try:
            locks, now = self._locks(), self._now()
        except StoreError:
            return ()  # what was held has to be said nevertheless
        records = {name: _live(locks.get(name), now) for name in names}
        return tuple(
            Running(name, record.is_cancelled, None if record.hears_cancel else _DEAF)
            for name, record in records.items()
            if record is not None
        )

    def _edits(self, of: int, told: Told) -> Edits:
        done: list[str] = []

        def note(name: str) -> None:
            done.append(name)
            told(len(done), of)

        return Edits(self._database, note)

    def _catalogue(self) -> Catalogue:
        path = self._database.paths.jobs
        return {name: read_declared(name, node) for name, node in children(self._database.node(path), path).items()}

    def _locks(self) -> Locks:
        path = self._database.paths.locks
        return children(self._database.node(path), path)

    def _now(self) -> int:
        return self._database.now(self._database.deadline())


_DEAF = "it would not notice, because it has no fence or does not renew its lease"


def _held(node: object, now: int, *, hold: JobHold, name: str, left: dict[str, str], cancel: bool) -> Node | Stays:
    """Return the node with the pause of this hold. Note in `left` why it is not paused by it.

    With `cancel`, the holder is asked to stop, also where another pause stays.
    """
    found = held(node, now, hold)
    left.pop(name, None)
    if isinstance(found, Stays) and found.why is not None:
        left[name] = found.why
    record = _live(node if isinstance(found, Stays) else found, now) if cancel else None
    if record is None or record.is_cancelled or not record.hears_cancel:
        return found
    return record.changed(cancel=record.fence, cancelWhy=hold.why).to_json()


def _live(node: object, now: int) -> LockRecord | None:
    """Return the record of a lock that is held; None if it isn't, or its node can't be read."""
    try:
        record = parse(node, now)
    except Malformed:
        return None
    is_held = isinstance(record, LockRecord) and record.releasedAt is None and record.is_live(now, 0)
    return record if isinstance(record, LockRecord) and is_held else None


def _ended(node: object, now: int) -> Node | Stays:
    return Stays() if not isinstance(node, dict) or node.get("until") == 0 else {**node, "until": 0}


def _failed(edited: Mapping[str, Edited]) -> dict[str, str]:
    return {name: str(error) for name, error in edited.items() if isinstance(error, StoreError)}
