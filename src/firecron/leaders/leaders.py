"""The leaders of a FireCron: they stand on this instance from `start` to `stop`, unless the program has paused them.

    Leaders       all leaders of this process
    LeaderThread  one of them: its thread stands for it, and calls the body while this instance leads
    Leadership    what a program asks about a leader, and how it steps down

A leader stands only where the guard lets jobs tick, where its role is, and if it is not disabled. Leaders and jobs
share nothing but the database: jobs tick whether or not anybody leads.

A leader's thread has a candidate, which decides when to stand, and knows the term; the body, which is one call of the
function on this thread or on the application's event loop (`runs/body`); and the history: one entry a term. A leader
that died gets its entry, `abandoned`, from the next one.

The thread goes on after a stop until the body has ended, and takes up the work again after a start in between: so a
body of an old term has always ended before a new term begins. It is a daemon, and none of the workers.

An async body is cancelled at once when its term is lost. If it is told to end, it has until 2 s before the end of the
`shutdown_grace`, as a run has at SIGTERM. A body that is not async is told, and no more.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

from firecron.base.flag import in_each_process
from firecron.base.instants import Duration, milliseconds, to_datetime, whole
from firecron.base.texts import described
from firecron.base.threads import OpenWork
from firecron.errors import Stopping, UnknownJob
from firecron.jobs.job import nothing
from firecron.leaders.candidate import ActiveTerm, Candidate, EndedTerm
from firecron.leaders.following import GroupTickets, NoTickets
from firecron.leaders.leader import Leader, Term, TermContexts
from firecron.lock.database import Database
from firecron.lock.fields import LEADER
from firecron.lock.keeper import Alarm
from firecron.lock.record import LockRecord, parse
from firecron.lock.refusal import NotAcquired
from firecron.runs.body import CANCEL_AHEAD, Body, Loop, outcome_of
from firecron.runs.entry import Entry, abandoned_term, term_key
from firecron.runs.history import History

# Milliseconds to stay away after a defect of firecron, so that it does not fill the log.
_AFTER_A_DEFECT = 30_000

Loops: TypeAlias = Callable[[], "Loop | None"]


@dataclass(frozen=True, slots=True)
class LeaderParts:
    """What the threads of all leaders of an instance share. The history's thread writes the entries of leaders that
    died."""

    database: Database
    history: History
    open_work: OpenWork
    loop: Loops


class LeaderThread:
    """Stands and leads for one leader, from `open` to `close`."""

    def __init__(self, leader: Leader, parts: LeaderParts) -> None:
        self.leader = leader
        self._parts = parts
        self._database = parts.database
        self.candidate = Candidate(parts.database, leader.options.election, self._on_change, has_ticker=True)
        self._alarm: Alarm | None = None
        in_each_process(self._begin_process)

    def _begin_process(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._body: Body[Term] | None = None

    def open(self) -> None:
        """Stand from now on. If the body of an old term still runs, its thread goes on once it has ended."""
        with self._lock:
            self.candidate.open()
            if self._thread is None:
                name = f"firecron-leader-{self.leader.name}"
                self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._thread.start()

    def close(self, why: str = "this instance stops") -> None:
        """Stand no more, and tell the body to end. This returns at once."""
        self.candidate.stop(why)

    def hurry(self) -> None:
        """Cancel the body now, if it is async and was told to end."""
        body = self._body
        if body is not None:
            body.cancel()

    def abandon(self) -> None:
        """Renew the term of a body that has not ended no more: it is released when the body ends, or it expires."""
        active = self.candidate.active
        if active is not None and not active.has_ended:
            self._database.keeper.forget(active.lease)
            message = f'"{self.leader.name}" still leads as the instance stops; its node stays held until it expires'
            self._database.events.emit(
                "leader.lingers", self.leader.name, logging.WARNING, message, fence=active.term.fence
            )

    def start_term(self) -> Term:
        """For a rehearsal: stand once, and call the body on a thread. Return the term, or raise NotAcquired."""
        active = self.candidate.stand()
        if active is None:
            assert self.candidate.refusal is not None
            raise NotAcquired(self.candidate.refusal)
        with self._lock:
            self._thread = threading.Thread(target=lambda: self.serve(active), name="firecron-leader", daemon=True)
            self._thread.start()
        return active.term

    def lose_term(self, patience: float) -> bool:
        """For a rehearsal: let the lease be lost. Return whether the body has ended within so many seconds."""
        active, thread = self.candidate.active, self._thread
        if active is None or thread is None:
            return True
        active.lease.lose("the test has deposed it")
        thread.join(patience)
        return not thread.is_alive()

    def serve(self, active: ActiveTerm) -> None:
        """Call the body under this active term, release after it, and record the term."""
        mark = object()
        self._parts.open_work.add(mark)
        try:
            self._submit_abandoned(active)
            ended = self.candidate.end(active, self._call(active))
            if ended is not None:
                error = ended.error if ended.outcome == "failed" else None
                self._parts.history.record(self.leader.name, self._entry(active, ended), error)
        finally:
            self._parts.open_work.remove(mark)

    def _run(self) -> None:
        while self._goes_on():
            try:
                seconds = self.candidate.due_in()
                if seconds:
                    self.candidate.wait(seconds)
                elif seconds is not None:
                    self._stand()
            except BaseException as error:
                # A defect: errors of the body are caught where it is called. This thread must go on.
                self.candidate.stay_away(_AFTER_A_DEFECT)
                message = f'The thread of the leader "{self.leader.name}" failed, and goes on: {described(error)}'
                self._database.events.emit("worker.failed", self.leader.name, logging.ERROR, message, error)

    def _stand(self) -> None:
        """Stand once, and serve the term. A stop waits for the try: what it brings after the stop is given back."""
        mark = object()
        self._parts.open_work.add(mark)
        try:
            # Looked at again: a stop before the mark waits for nothing, so nothing may begin after it.
            if self.candidate.due_in() == 0 and (active := self.candidate.stand()) is not None:
                self.serve(active)
        finally:
            self._parts.open_work.remove(mark)

    def _goes_on(self) -> bool:
        """Return whether this thread goes on. Under the lock, so that `open` finds it, or starts another one."""
        with self._lock:
            if self._thread is not threading.current_thread():
                return False  # a forked child's copy, or one that the child has replaced
            if self.candidate.due_in() is None:
                self._thread = None
                return False
            return True

    def _call(self, active: ActiveTerm) -> BaseException | None:
        """Call the function, and return what it raised. What the end of its term has cancelled counts as Stopping."""
        body = Body(self.leader, active.term, self._parts.loop(), self._database.timing, self._emit_blocked)
        self._body = body
        try:
            if active.lease.lost:
                return Stopping()
            if active.end_request is not None:
                self._cancel_later(active)
            error = body.call()
        finally:
            self._body = None
            if self._alarm is not None:
                self._database.keeper.forget(self._alarm)
        return Stopping() if outcome_of(active.term, error) in ("interrupted", "cancelled") else error

    def _on_change(self, active: ActiveTerm) -> None:
        """Have the body cancelled: at once if its term is lost, else when it had time to end by itself."""
        if active.lease.is_held():
            self._cancel_later(active)
        elif (body := self._body) is not None:
            body.cancel()

    def _cancel_later(self, active: ActiveTerm) -> None:
        body = self._body
        if body is not None:
            ahead = max(0.0, self._database.settings.shutdown_grace - CANCEL_AHEAD)
            self._alarm = Alarm(self.leader.name, self._database.timing.mono() + ahead * 1000, body.cancel)
            self._database.keeper.keep(self._alarm, renews=False)

    def _emit_blocked(self, blocked: int) -> None:
        message = (
            f'"{self.leader.name}" blocked the event loop for {blocked / 1000:.0f} s, and nothing else ran there: '
            "declare the leader with def (it then has a thread), or await asyncio.to_thread(...) where it blocks"
        )
        key = "" if self.candidate.active is None else str(self.candidate.active.term.fence)
        self._database.events.emit("loop.blocked", self.leader.name, logging.WARNING, message, key=key, blocked=blocked)

    def _submit_abandoned(self, active: ActiveTerm) -> None:
        """Have the entry of the term before this one written if its leader died: it has not released its node."""
        before = active.replaced
        if not isinstance(before, LockRecord) or before.releasedAt is not None or before.kept.get("kind") != LEADER:
            return
        if before.fence is None or before.acquiredAt is None:
            return
        identity = self._database.identity
        entry = abandoned_term(
            whole(before.acquiredAt),
            whole(before.fence),
            instance_id=identity.instance_id,
            instance=identity.instance,
        )
        mark = object()
        self._parts.open_work.add(mark)
        try:
            self._parts.history.crew.submit(lambda: self._record_abandoned(entry, mark))
        except RuntimeError as error:
            # No thread can be started: the term begins nevertheless.
            self._parts.open_work.remove(mark)
            message = f'The history of "{self.leader.name}" may lack the entry {entry.key}: {error}'
            self._database.events.emit(
                "history.failed", self.leader.name, logging.WARNING, message, key=entry.key, why=str(error)
            )

    def _record_abandoned(self, entry: Entry, mark: object) -> None:
        try:
            self._parts.history.record(self.leader.name, entry)
        finally:
            self._parts.open_work.remove(mark)

    def _entry(self, active: ActiveTerm, ended: EndedTerm) -> Entry:
        started, identity = active.started.server, self._database.identity
        return Entry(
            term_key(started, active.term.fence),
            ended.outcome,
            started_at=started,
            ended_at=started + ended.took,
            duration=ended.took,
            fence=active.term.fence,
            instance_id=identity.instance_id,
            instance=identity.instance,
            error=described(ended.error) if ended.outcome == "failed" else None,
        )


# What stands in place of the cron line: no line is like it.
LEADER_LINE = "leader"


class Leaders:
    """The leaders of this process, by name, in the order in which they were found."""

    def __init__(self, parts: LeaderParts, around: TermContexts) -> None:
        self._settings = parts.database.settings
        self._parts = parts
        self._around = around
        self._threads: dict[str, LeaderThread] = {}
        # The leaders that the program has paused here.
        self._paused: set[str] = set()
        # Set by the engine before leaders are added: the waves, which know the tickets.
        self.tickets: GroupTickets = NoTickets()
        in_each_process(self._begin_process)

    def _begin_process(self) -> None:
        # A signal handler that stops may take the lock once more. What it guards: who is paused, and whether this
        # instance stands, from `start` to `stop`.
        self._lock = threading.RLock()
        self._is_standing = False

    def add(self, leader: Leader) -> None:
        """Add a leader before the start. Its function is called in the application's context."""
        one = leader if leader.around is not nothing else replace(leader, around=self._around)
        thread = self._threads[leader.name] = LeaderThread(one, self._parts)
        thread.candidate.turnout.tickets = self.tickets

    def all(self) -> list[Leader]:
        """Return all leaders."""
        return [thread.leader for thread in self._threads.values()]

    def thread(self, name: str) -> LeaderThread:
        """Return the thread of the leader of this name. Raise UnknownJob if there is none."""
        if name not in self._threads:
            raise UnknownJob(f"there is no leader {name!r}; the leaders are: {', '.join(self._threads) or 'none'}")
        return self._threads[name]

    def has(self, name: str) -> bool:
        """Return whether a leader has this name."""
        return name in self._threads

    def check(self) -> None:
        """Raise ConfigurationError if a leader's ttl is too short for the lock's promises."""
        for leader in self.all():
            self._settings.check_ttl(leader.options.election.ttl, f"ttl of the leader {leader.name!r}")

    def stands_here(self, leader: Leader) -> bool:
        """Return whether this instance stands for the leader while it ticks."""
        options = leader.options
        return not options.disabled and (options.role is None or options.role in self._settings.roles)

    def members(self) -> list[tuple[str, ...]]:
        """Return what the leaders that stand here contribute to the name of the instance's group."""
        return [(leader.name, LEADER_LINE, "") for leader in self.all() if self.stands_here(leader)]

    def leading(self) -> list[str]:
        """Return the names of the leaders that this instance is now."""
        return [name for name, thread in self._threads.items() if thread.candidate.is_mine]

    def start(self) -> None:
        """Stand for all leaders that belong here, and are not paused here."""
        with self._lock:
            self._is_standing = True
            for name, thread in self._threads.items():
                if self._is_standing and self.stands_here(thread.leader) and name not in self._paused:
                    thread.open()

    def stop(self) -> None:
        """Stand no more, and tell the bodies to end. This returns at once."""
        with self._lock:
            self._is_standing = False
            for thread in self._threads.values():
                thread.close()

    def pause(self, name: str, is_paused: bool) -> None:
        """Stand no more for this leader on this instance, and step down; or stand again. It lasts across a restart."""
        thread = self.thread(name)
        with self._lock:
            if is_paused:
                self._paused.add(name)
                thread.close("it is paused on this instance")
            elif name in self._paused:
                self._paused.remove(name)
                if self._is_standing and self.stands_here(thread.leader):
                    thread.open()

    def hurry(self) -> None:
        """Cancel the async bodies now: the stop is to end soon."""
        for thread in self._threads.values():
            thread.hurry()

    def abandon(self) -> None:
        """Stop renewing the terms of bodies that have not ended within the grace."""
        for thread in self._threads.values():
            thread.abandon()


@dataclass(frozen=True, slots=True)
class Holder:
    """The instance that leads, as the database shows it.

    Args:
        instance_id: Its revision.
        instance: Which instance of the revision it is.
        fence: The fence of its term.
        since: When it was elected, in RTDB's time.
        until: When its node expires unless it is renewed, in RTDB's time.
    """

    instance_id: str | None
    instance: str | None
    fence: int | None
    since: datetime | None
    until: datetime


class Leadership:
    """One leader, as this instance sees it: `crons.leadership(name)` returns it."""

    def __init__(self, thread: LeaderThread, database: Database) -> None:
        self._thread = thread
        self._database = database

    @property
    def name(self) -> str:
        """The leader's name."""
        return self._thread.leader.name

    @property
    def is_mine(self) -> bool:
        """Whether this instance leads. It asks nobody, and is never true on two instances.

        It is false from a margin before the lease ends, once the release has begun, and in a forked child.
        """
        return self._thread.candidate.is_mine

    def holder(self) -> Holder | None:
        """Return which instance leads, None if none does: one request, and one more if RTDB's time is not known.

        Raise StoreError if the database can't be reached or refuses, and Malformed if the node can't be read.
        """
        database = self._database
        node = database.node(database.paths.lock(self.name))
        now = database.clock.now(database.deadline()).server
        record = parse(node, now)
        if not isinstance(record, LockRecord) or not record.is_live(now, database.margin):
            return None
        return Holder(
            record.instanceId,
            record.instance,
            None if record.fence is None else whole(record.fence),
            None if record.acquiredAt is None else to_datetime(whole(record.acquiredAt)),
            to_datetime(whole(record.expiresAt)),
        )

    def step_down(self, away_for: Duration = 30) -> bool:
        """Tell the body that its term is to end. Return False if this instance doesn't lead, or was told before.

        This returns at once. The term is released when the body has ended.

        Args:
            away_for: How long this instance doesn't stand after that. If it is told twice, the longer one counts.
        """
        away = milliseconds(away_for, "away_for")
        return self._thread.candidate.request_end("it stepped down", away_for=away)
