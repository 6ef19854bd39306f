"""An office: one leader on this instance. Its thread stands for it, and calls the body while this instance leads.

    candidate     decides when to stand, and knows the term (`lock/candidate`)
    body          one call of the function (`runs/body`), on this thread, or on the application's event loop
    history       one entry a term; a leader that died gets its entry, `abandoned`, from the next one

The thread goes on after a stop until the body has ended, and takes up the work again after a start in between: so a
body of an old term has always ended before a new term begins. It is a daemon, and none of the workers.

An async body is cancelled at once when its term is lost. If it is told to end, it has until 2 s before the end of the
`shutdown_grace`, as a run has at SIGTERM. A body that is not async is told, and no more.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from firecron.base.clocks import Timing
from firecron.base.exact import whole
from firecron.base.outstanding import Outstanding
from firecron.base.redaction import described
from firecron.base.workers import Crew
from firecron.errors import Malformed, Stopping
from firecron.leaders.leader import Leader
from firecron.lock.alarm import Alarm
from firecron.lock.kinds import LEADER
from firecron.lock.record import LockRecord, parse
from firecron.lock.refusal import NotAcquired
from firecron.lock.service import LockService
from firecron.lock.tenure import Ended, Tenure
from firecron.lock.term import Term
from firecron.runs.body import Body, Loop
from firecron.runs.entry import Entry, abandoned_term, term_key
from firecron.runs.history import History

# Seconds before the end of the grace at which an async body is cancelled, as with runs.
_CANCEL_AHEAD = 2.0
# Milliseconds to stay away after a defect of firecron, so that it does not fill the log.
_AFTER_A_DEFECT = 30_000

Loops: TypeAlias = Callable[[], "Loop | None"]


@dataclass(frozen=True, slots=True)
class Staff:
    """What all offices of an instance share. The `scribe` writes the entries of leaders that died."""

    locks: LockService
    timing: Timing
    history: History
    scribe: Crew
    outstanding: Outstanding
    loop: Loops


class Office:
    """Stands and leads for one leader, from `open` to `close`."""

    def __init__(self, leader: Leader, staff: Staff) -> None:
        self.leader = leader
        self._staff = staff
        self._keeper = staff.locks.contender.keeper
        self.candidate = staff.locks.candidate(leader.options.election, self._on_change)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._body: Body[Term] | None = None
        self._alarm: Alarm | None = None

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

    def leave_behind(self) -> None:
        """Renew the term of a body that has not ended no more: it is released when the body ends, or it expires."""
        tenure = self.candidate.tenure
        if tenure is not None and not tenure.has_ended:
            self._keeper.forget(tenure.lease)
            message = f'"{self.leader.name}" still leads as the instance stops; its node stays held until it expires'
            self._staff.locks.events.emit(
                "leader.lingers", self.leader.name, logging.WARNING, message, fence=tenure.term.fence
            )

    def after_fork(self) -> None:
        """Forget the thread and the body in a forked child: they are the parent's."""
        self._lock = threading.Lock()
        self._thread = None
        self._body = None

    def elect(self) -> Term:
        """For a rehearsal: stand once, and call the body on a thread. Return the term, or raise NotAcquired."""
        tenure = self.candidate.stand()
        if tenure is None:
            assert self.candidate.refusal is not None
            raise NotAcquired(self.candidate.refusal)
        with self._lock:
            self._thread = threading.Thread(target=lambda: self.serve(tenure), name="firecron-leader", daemon=True)
            self._thread.start()
        return tenure.term

    def depose(self, patience: float) -> bool:
        """For a rehearsal: let the lease be lost. Return whether the body has ended within so many seconds."""
        tenure, thread = self.candidate.tenure, self._thread
        if tenure is None or thread is None:
            return True
        tenure.lease.lose("the test has deposed it")
        thread.join(patience)
        return not thread.is_alive()

    def serve(self, tenure: Tenure) -> None:
        """Call the body under this tenure, release after it, and record the term."""
        mark = object()
        self._staff.outstanding.add(mark)
        try:
            self._note_the_dead(tenure)
            ended = self.candidate.end(tenure, self._call(tenure))
            if ended is not None:
                self._staff.history.record(self.leader.name, self._entry(tenure, ended))
        finally:
            self._staff.outstanding.remove(mark)

    def _run(self) -> None:
        while self._goes_on():
            try:
                pause = self.candidate.pause()
                if pause:
                    self.candidate.wait(pause)
                elif pause is not None:
                    self._stand()
            except BaseException as error:
                # A defect: errors of the body are caught where it is called. This thread must go on.
                self.candidate.stay_away(_AFTER_A_DEFECT)
                message = f'The thread of the leader "{self.leader.name}" failed, and goes on: {described(error)}'
                self._staff.locks.events.emit("worker.failed", self.leader.name, logging.ERROR, message, error)

    def _stand(self) -> None:
        """Stand once, and serve the term. A stop waits for the try: what it brings after the stop is given back."""
        mark = object()
        self._staff.outstanding.add(mark)
        try:
            # Looked at again: a stop before the mark waits for nothing, so nothing may begin after it.
            if self.candidate.pause() == 0 and (tenure := self.candidate.stand()) is not None:
                self.serve(tenure)
        finally:
            self._staff.outstanding.remove(mark)

    def _goes_on(self) -> bool:
        """Return whether this thread goes on. Under the lock, so that `open` finds it, or starts another one."""
        with self._lock:
            if self._thread is not threading.current_thread():
                return False  # a forked child's copy, or one that the child has replaced
            if self.candidate.pause() is None:
                self._thread = None
                return False
            return True

    def _call(self, tenure: Tenure) -> BaseException | None:
        """Call the function, and return what it raised. What the end of its term has cancelled counts as Stopping."""
        body = Body(self.leader, tenure.term, self._staff.loop(), self._staff.timing, self._tell_blocked)
        self._body = body
        try:
            if tenure.lease.lost:
                return Stopping()
            if tenure.told is not None:
                self._cancel_later(tenure)
            ending = body.call()
        finally:
            self._body = None
            if self._alarm is not None:
                self._keeper.forget(self._alarm)
        return Stopping() if ending.outcome in ("interrupted", "cancelled") else ending.error

    def _on_change(self, tenure: Tenure) -> None:
        """Have the body cancelled: at once if its term is lost, else when it had time to end by itself."""
        if tenure.lease.is_held():
            self._cancel_later(tenure)
        elif (body := self._body) is not None:
            body.cancel()

    def _cancel_later(self, tenure: Tenure) -> None:
        body = self._body
        if body is not None:
            ahead = max(0.0, self._staff.locks.settings.shutdown_grace - _CANCEL_AHEAD)
            self._alarm = Alarm(self.leader.name, self._staff.timing.mono() + ahead * 1000, body.cancel)
            self._keeper.keep(self._alarm, renews=False)

    def _tell_blocked(self, blocked: int) -> None:
        message = (
            f'"{self.leader.name}" blocked the event loop for {blocked / 1000:.0f} s, and nothing else ran there: '
            "declare the leader with def (it then has a thread), or await asyncio.to_thread(...) where it blocks"
        )
        key = "" if self.candidate.tenure is None else str(self.candidate.tenure.term.fence)
        self._staff.locks.events.emit(
            "loop.blocked", self.leader.name, logging.WARNING, message, key=key, blocked=blocked
        )

    def _note_the_dead(self, tenure: Tenure) -> None:
        """Have the entry of the term before this one written if its leader died: it has not released its node."""
        try:
            before = parse(tenure.replaced, tenure.started.server)
        except Malformed:
            return  # no claim replaces a malformed record
        if not isinstance(before, LockRecord) or before.releasedAt is not None or before.kept.get("kind") != LEADER:
            return
        if before.fence is None or before.acquiredAt is None:
            return
        identity = self._staff.locks.identity
        entry = abandoned_term(
            whole(before.acquiredAt),
            whole(before.fence),
            instance_id=identity.instance_id,
            instance=identity.instance,
        )
        mark = object()
        self._staff.outstanding.add(mark)
        try:
            self._staff.scribe.submit(lambda: self._record_the_dead(entry, mark))
        except RuntimeError as error:
            # No thread can be started: the term begins nevertheless.
            self._staff.outstanding.remove(mark)
            message = f'The history of "{self.leader.name}" may lack the entry {entry.key}: {error}'
            self._staff.locks.events.emit(
                "history.failed", self.leader.name, logging.WARNING, message, key=entry.key, why=str(error)
            )

    def _record_the_dead(self, entry: Entry, mark: object) -> None:
        try:
            self._staff.history.record(self.leader.name, entry)
        finally:
            self._staff.outstanding.remove(mark)

    def _entry(self, tenure: Tenure, ended: Ended) -> Entry:
        started, identity = tenure.started.server, self._staff.locks.identity
        return Entry(
            term_key(started, tenure.term.fence),
            ended.outcome,
            started_at=started,
            ended_at=started + ended.took,
            duration=ended.took,
            fence=tenure.term.fence,
            instance_id=identity.instance_id,
            instance=identity.instance,
            error=described(ended.error) if ended.outcome == "failed" else None,
        )
