"""Holds: an operator pauses all jobs at once for a while, and takes that back. The schema of `cron-hold` is here.

`cron-hold/<hold>` says who holds what:

    by, at     who, and when, in milliseconds of RTDB's clock; the hold's name is a digest of both (`hold_name`)
    until      when the hold ends by itself; 0 once it is taken back
    why        the reason that was given, without what looks like a secret
    service    the jobs that this service has declared, and no others; missing: of all services
    match      the names that match this pattern, such as `mail-*`; missing: all names
    leaders    true: leaders, too

Each lock that a hold covers is paused in the fields that any pause has, so that every version obeys: `pausedBy`,
`pausedAt`, `pausedWhy`, `pausedUntil` are the hold's, and `pausedWith` is its name. A node may have several pauses, of
which the one that ends last is in force, in these fields. The others lie below it, in `pausedOver`: an operator's pause
that ends before the hold, and holds that end before it. So a node says by itself what is left once a hold is taken
back, and each change of it is one compare-and-swap. An operator's pause that ends later than the hold, or never, is
left alone. An operator's later word, a pause or a resume, replaces all that was there.

    hold      1. write `cron-hold/<hold>`   2. read the catalogue   3. pause each lock   4. does the hold still stand?
              If not, it was taken back meanwhile: take back what was written
    unhold    1. set `until` to 0   2. read the locks, then `cron-hold`   3. take the hold out of each lock, and what
              else lies there and does not stand   4. read the locks again, until none has it   5. delete the hold
    declare   1. write the job's entry in the catalogue   2. read `cron-hold`   3. pause the lock by each hold that
              covers it   4. read `cron-hold` again, and if it has changed go on at 3.: what was taken back goes out

What may interleave with the pausing of one lock, and what becomes of it:

    a claim, a renewal, a release       the swap finds the node changed, and is decided again. A run that has begun goes
                                        on, and all of them keep the fields of the pause
    a pause by hand, before             one that ends sooner goes below the hold's, another one is left alone
    a pause by hand, after              it replaces the hold's: it is the operator's, and unhold leaves it
    a resume by hand, before            there is nothing to keep
    a resume by hand, after             the job runs. It is named among those that are not held, and a declaration that
                                        comes later does not pause it again (`resumedAt`)
    an edit in the console              an edited `pausedBy` or `pausedAt` makes the pause the operator's; `paused` =
                                        false is a resume, but a later declaration does not see when it was
    an older version's pause            it leaves `pausedWith`, which does not vouch for the new `pausedBy` and
                                        `pausedAt`: the pause is that operator's, and what lies below counts no more
    an older version's resume           it leaves `pausedWith` without a pause: nothing is paused
    another hold, before or after       in both orders the later end is in force, and the other one lies below
    another hold is taken back          it is taken out of the node, wherever it lies there
    this hold is taken back             before the swap: step 4 finds out, and takes it out again. After it: unhold
                                        reads the lock, or reads it again
    a declaration                       it writes its entry before it reads `cron-hold`, and a hold writes that before
                                        it reads the catalogue: one of the two sees the other. If both do, the second
                                        finds the lock paused already
    a declaration by an older version   nobody pauses it: it is named among those that are not held
    the node is deleted in the console  the job runs, and is named
    rules that don't know `cron-hold`   they deny step 1 alone. The locks are paused without it, whoever declares a job
                                        later does not see it, and unhold finds it in the locks
    rules that come to know it          such a hold stays until its end, or until another one is taken back: that takes
                                        it out, too, because these rules let nobody put back a hold without a node
    the end of the hold                 `pausedUntil` ends by RTDB's time, whatever became of the hold's node

A reply that is lost:

    to the write of the hold            it is read back. If it is not there, nothing was paused, and that is an error;
                                        it may still land, and is shown as a hold that holds nothing
    to a swap of a lock                 the node is read, and decides again: what was applied is recognised. If that
                                        can't be read, the lock is named. The write may land later: under the rules only
                                        while the hold stands, else it is named by status and doctor
    to `until` = 0                      the node is read again
    to the deletion                     another unhold deletes it, and so does the next hold, or an instance that looks
                                        for dead ones

What is cut in the middle, as by `kill -9`:

    a hold after 1.       it stands, and so does each declaration's look. The jobs that are not held are named; another
                          hold holds them, or unhold takes all of it back
    a hold before 4.      if it was taken back meanwhile, what it wrote since stays paused until its end, and is named;
                          unhold takes it back
    an unhold after 1.    nobody pauses by this hold any more. What it still pauses is named; unhold takes it back
    a declaration         before 2.: the job is named as not held. Before 4.: as for a hold

So nothing stays paused by a hold that was taken back, unless it is named; and nothing for longer than the hold was to
last. `ops/holds` is the operator's side, `scheduler/publishing` that of declarations.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from math import inf
from typing import TypeAlias

from firecron.base.instants import number
from firecron.base.texts import cut, plain
from firecron.base.threads import Workers
from firecron.errors import Denied, StoreError, Unavailable
from firecron.lock.audit_log import LONGEST_WHO
from firecron.lock.database import Database
from firecron.lock.fields import LONGEST_WHY, PAUSE_FIELDS, Pause, noted_pauses, pause_in, vouches
from firecron.lock.protocol import ABSENT, editing

# --- a hold

LONGEST_SCOPE = 100


@dataclass(frozen=True, slots=True)
class JobHold:
    """A hold. Instants are milliseconds of RTDB's clock. `service` and `match` are None if they leave nothing out."""

    name: str
    by: str
    at: int
    until: int
    why: str | None = None
    service: str | None = None
    match: str | None = None
    leaders: bool = False

    def stands(self, now: int) -> bool:
        """Return whether it is neither over nor taken back."""
        return now < self.until

    def covers(self, name: str, service: str | None) -> bool:
        """Return whether it is for the job of this name, which this service has declared last."""
        return self._matches(name) and self.service in (None, service)

    def covers_leader(self, name: str) -> bool:
        """Return whether it is for the leader of this name. Nothing says which service a leader is of."""
        return self.leaders and self.service is None and self._matches(name)

    @property
    def what(self) -> str:
        """What it is for, in words: `every job`, `the jobs of api that match mail-*`."""
        jobs = "jobs and leaders" if self.leaders else "jobs"
        if self.service is None and self.match is None:
            return "every job and leader" if self.leaders else "every job"
        of = "" if self.service is None else f" of {plain(self.service)}"
        return f"the {jobs}{of}" + ("" if self.match is None else f" that match {plain(self.match)}")

    def to_node(self) -> dict[str, object]:
        """Return the hold as it is stored."""
        fields = {"by": self.by, "at": self.at, "until": self.until, "why": self.why}
        scope = {"service": self.service, "match": self.match, "leaders": self.leaders or None}
        return {field: value for field, value in {**fields, **scope}.items() if value is not None}

    def _matches(self, name: str) -> bool:
        return self.match is None or fnmatchcase(name, self.match)


def read_holds(node: object) -> dict[str, JobHold]:
    """Return what `cron-hold` says, by the holds' names. A hold whose name does not vouch for it is none."""
    found = node if isinstance(node, Mapping) else {}
    read = (_read_hold(str(name), child) for name, child in sorted(found.items()))
    return {hold.name: hold for hold in read if hold is not None}


def _read_hold(name: str, node: object) -> JobHold | None:
    if not isinstance(node, Mapping):
        return None
    by, at, until = node.get("by"), number(node.get("at")), number(node.get("until"))
    if not isinstance(by, str) or at is None or until is None or not vouches(name, by, at):
        return None
    why, service, match = (
        value if isinstance(value := node.get(field), str) else None for field in ("why", "service", "match")
    )
    return JobHold(name, by, at, until, why, service, match, node.get("leaders") is True)


# --- what becomes of a lock's node: pure

Node: TypeAlias = dict[str, object]

# In characters, as the security rules count them.
LONGEST_OVER = 8_000
# A `pausedAt` that is later than that was typed by hand. In milliseconds.
_AHEAD = 30_000
_FIELDS = tuple(field for field in PAUSE_FIELDS if field != "pausedOver")


@dataclass(frozen=True, slots=True)
class Stays:
    """The node stays as it is. `why` says why that is not as it should be, None if it is."""

    why: str | None = None


# Says what to write in place of a node at a time of RTDB's clock.
Decide: TypeAlias = Callable[[object, int], Node | Stays]


def pauses_in(fields: Mapping[str, object], now: int) -> list[Pause]:
    """Return the pauses in a node that are not over: the one in force, then those below it."""
    force = pause_in(fields)
    if force is None or not force.holds(now):
        return []
    # An operator's pause has replaced all others, also where an older version has left them.
    return [force] if force.hold is None else [force, *_below(fields, now)]


def _below(fields: Mapping[str, object], now: int) -> list[Pause]:
    text = fields.get("pausedOver")
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        found = None
    pauses = (pause_in(entry) for entry in found if isinstance(entry, dict)) if isinstance(found, list) else ()
    return [pause for pause in pauses if pause is not None and pause.holds(now)]


def held(node: object, now: int, hold: JobHold) -> Node | Stays:
    """Return the node with the pause of this hold, which is in force if no other one ends later."""
    if node is not None and not isinstance(node, dict):
        return Stays(f"its node holds {node!r:.40} instead of a lock, so nobody can claim it either")
    if not hold.stands(now):
        return Stays("the hold is over")
    fields: Node = node or {}
    pauses = pauses_in(fields, now)
    if _has(pauses, hold.name):
        return Stays()
    if pauses and pauses[0].hold is None and end_of(pauses[0]) >= hold.until:
        return Stays(f"it is {pauses[0]}")
    after = with_pauses(fields, [*pauses, _pause_of(hold)], now)
    return after if _has(pauses_in(after, now), hold.name) else Stays("it has as many pauses as a node can keep")


def held_when_declared(node: object, now: int, holds: Iterable[JobHold]) -> Node | Stays:
    """Return the node of a job that was just declared with the pauses of these holds.

    A hold is left out if somebody has resumed the job since it began.
    """
    fields: Mapping[str, object] = node if isinstance(node, dict) else {}
    # A resume in the console leaves no time.
    by_console = fields.get("pausedWith") if fields.get("paused") is False else None
    resumed_at = number(fields.get("resumedAt")) or 0
    after: Node | Stays = Stays()
    for hold in holds:
        if hold.name != by_console and resumed_at <= hold.at:
            found = held(node, now, hold)
            if not isinstance(found, Stays):
                node = after = found
    return after


def taken_back(node: object, now: int, gone: Collection[str]) -> Node | Stays:
    """Return the node without the holds of these names. What lies below them and is not over is in force again.

    Only holds that are known to be gone may be named: another one may have been written just now.
    """
    fields: Node = node if isinstance(node, dict) else {}
    pauses = pauses_in(fields, now)
    left = [pause for pause in pauses if pause.hold not in gone]
    return Stays() if left == pauses else with_pauses(fields, left, now)


def with_pauses(fields: Node, pauses: list[Pause], now: int) -> Node:
    """Return the node with these pauses. Without any it is resumed."""
    noted = noted_pauses(fields, now)
    others: Node = {field: value for field, value in fields.items() if field not in PAUSE_FIELDS}
    others |= {} if noted is None else {"pausedBefore": noted}
    if not pauses:
        return {**others, "resumedAt": now}
    force = max(pauses, key=lambda pause: (end_of(pause), pause.hold is None))
    if force.hold is None:
        return {**others, **_to_fields(force, now)}  # it outlasts every hold that is left, which leaves it alone
    below = [_to_fields(pause, now) for pause in pauses if pause is not force]
    # There is no room for any number of holds. Those that end first go first, and an operator's pause never.
    below.sort(key=lambda entry: ("pausedWith" not in entry, number(entry.get("pausedUntil")) or inf))
    while _length(below) > LONGEST_OVER:
        del below[0]
    over = {"pausedOver": json.dumps(below, ensure_ascii=False)} if below else {}
    return {**others, **_to_fields(force, now), **over}


def _pause_of(hold: JobHold) -> Pause:
    return Pause(True, hold.by, hold.at, hold.why, hold.until, hold=hold.name)


def _to_fields(pause: Pause, now: int) -> Node:
    """Return the fields of a pause, without what the security rules would refuse of one that was typed by hand."""
    is_short = isinstance(pause.value, bool | int | float | str) and len(str(pause.value)) <= LONGEST_WHY
    is_known = pause.hold is not None or (pause.at is not None and 0 <= pause.at <= now + _AHEAD)
    by, why = pause.by and cut(pause.by, LONGEST_WHO), pause.why and cut(pause.why, LONGEST_WHY)
    values = (pause.value if is_short else True, by, pause.at if is_known else None, why, pause.until, pause.hold)
    return {field: value for field, value in zip(_FIELDS, values, strict=True) if value is not None}


def _has(pauses: Iterable[Pause], name: str) -> bool:
    return any(pause.hold == name for pause in pauses)


def end_of(pause: Pause) -> float:
    return inf if pause.until is None else pause.until


def _length(below: list[Node]) -> int:
    return len(json.dumps(below, ensure_ascii=False).encode("utf-16-le")) // 2


# --- the change of many locks

AT_A_TIME = 32

# What became of a lock: None if it was written.
Edited: TypeAlias = Stays | StoreError | None


class Edits:
    """Changes many locks, `AT_A_TIME` at once. `told` is called with each name that is done, under a lock.

    Once as many in a row could not be reached, the others are not tried: the database is away.
    """

    def __init__(self, database: Database, told: Callable[[str], object] = lambda name: None) -> None:
        self._database = database
        self._told = told
        self._changed = threading.Condition()
        self._done: dict[str, Edited] = {}
        self._broken: BaseException | None = None
        self._in_a_row = 0

    def make(self, decisions: Mapping[str, Decide], absent: Collection[str] = ()) -> dict[str, Edited]:
        """Return what became of each lock. Those that are `absent` were seen to have no node."""
        work = [partial(self._edit, name, decisions[name], name in absent) for name in sorted(decisions)]
        if len(work) < 2 or not self._database.has_threads:
            for edit in work:
                edit()
            return self._done
        workers = Workers(AT_A_TIME, lingers=0)
        try:
            for edit in work:
                workers.submit(edit)
            with self._changed:
                while len(self._done) < len(work) and self._broken is None:
                    self._changed.wait()
        finally:
            workers.dismiss()  # Ctrl-C: what has not begun is left
        if self._broken is not None:
            raise self._broken
        return self._done

    def _edit(self, name: str, decide: Decide, is_absent: bool) -> None:
        try:
            done = self._tried(name, decide, is_absent)
        except BaseException as error:
            with self._changed:
                self._broken = error
                self._changed.notify_all()
            raise
        with self._changed:
            self._in_a_row = self._in_a_row + 1 if isinstance(done, Unavailable) else 0
            self._done[name] = done
            self._told(name)
            self._changed.notify_all()

    def _tried(self, name: str, decide: Decide, is_absent: bool) -> Edited:
        database = self._database
        if self._in_a_row >= AT_A_TIME:
            return Unavailable("it was not tried, because the database could not be reached for the others")
        deadline = database.deadline(database.settings.acquire_timeout)
        try:
            known = ABSENT if is_absent else None
            return database.run(editing(decide, known), database.paths.lock(name), deadline)[1]
        except StoreError as error:
            return error


# --- what whoever declares a job does

# How often it looks at the holds, if they change while it does.
_LOOKS = 5


def hold_declared(database: Database, services: Mapping[str, str]) -> None:
    """Pause those of these jobs that a hold covers. Their entries were just written, with these services.

    Raise StoreError if that is not known, or not done, of each of them.
    """
    try:
        holds = standing_holds(database)
    except Denied:
        return  # the rules are older than the holds
    gone: set[str] = set()
    made: dict[str, Edited] = {}
    for _ in range(_LOOKS):
        wanted = {name: [hold for hold in holds if hold.covers(name, of)] for name, of in services.items()}
        changes = {
            name: partial(_settled, holds=covering, gone=gone)
            for name, covering in wanted.items()
            if covering or name in made
        }
        if not changes:
            return
        made |= Edits(database).make(changes)
        # What was taken back meanwhile is taken out again, and what has come is added.
        before, holds = holds, standing_holds(database)
        if holds == before:
            break
        gone |= {hold.name for hold in before if hold not in holds}
    for edited in made.values():
        if isinstance(edited, StoreError):
            raise edited


def _settled(node: object, now: int, holds: Iterable[JobHold], gone: Collection[str]) -> Node | Stays:
    """Return the node of a job that was just declared, with these holds, and without those that are gone."""
    found = held_when_declared(node, now, holds)
    left = taken_back(node if isinstance(found, Stays) else found, now, gone)
    return found if isinstance(left, Stays) else left


def standing_holds(database: Database) -> list[JobHold]:
    holds = read_holds(database.node(database.paths.holds))
    now = database.clock.now(database.deadline()).server if holds else 0
    return [hold for hold in holds.values() if hold.stands(now)]
