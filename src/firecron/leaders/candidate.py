"""A candidate: stands for the terms of one leader, one after another, on behalf of one body in this process.

    candidate.due_in()           seconds until it stands again; None: it stands no more
    candidate.stand()            one try: an active term, if it is elected
    candidate.end(active)        the body has ended: release, and plan when to stand again
    candidate.request_end(...)   the body is asked to end, and the lease is kept until it has ended
    candidate.stop()             the same, and it stands no more

The owner of the body calls `due_in`, `stand` and `end`, in this order, from one thread or task at a time: `loop` for a
loop, `leaders` for a declared leader. Everything else may be called from any thread.

A term is one fenced lease of a node with `kind: "leader"`, which the keeper renews. So all that the lock promises of a
lease holds for a term: two terms of one name are never both trusted, and their fences rise. An active
term is a term with its lease, from the election until the body has ended.

What may interleave, and what becomes of it:

    the body returns, and a renewal is under way     the release ends the trust, and waits for the renewal
    the lease is lost while the body runs            `term.lost` is set; it stays active until the body has ended, so
                                                     this process has no new term beside an old body
    the lease is lost while the body ends            the release says so: the term counts as lost
    told to end (stop, step down, cancel, pause)     told once; the lease is renewed until the body has ended, and then
                                                     released. If the body ends first, there is nobody to tell
    stopped while a try is under way                 the lease that the try brings is released at once
    stopped, opened again, the old body still runs   its term is still active: it stands once the body has ended
    told to end twice                                the first reason counts, and the longest time to stay away
    told to end, then lost                           it is lost
    two calls of `end`                               the second does nothing
    the body forks                                   in the child the lease is nobody's: `lost` is set, nothing is
                                                     released, and nothing is said
    Ctrl-C at any line                               a lease without a term is given back; `end` forgets its lease
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from firecron.base.clocks import Moment
from firecron.base.events import Slug
from firecron.base.flag import in_each_process
from firecron.base.instants import to_datetime
from firecron.base.texts import described
from firecron.errors import Cancelled, Stopping, Unavailable
from firecron.leaders.following import LOOK, Following, Turnout
from firecron.leaders.leader import Election, Term
from firecron.lock.blocks import give_back, keep
from firecron.lock.database import Database
from firecron.lock.fields import LEADER, pause_in
from firecron.lock.keeper import Alarm
from firecron.lock.lease import Lease
from firecron.lock.protocol import Bid
from firecron.lock.record import Current, LockRecord
from firecron.lock.refusal import Refusal, not_known
from firecron.lock.waiting import Follow, Update

TermOutcome: TypeAlias = Literal["succeeded", "failed", "lost", "interrupted", "cancelled"]

# How long a leader stays away after `firecron cancel`, in milliseconds: so that another instance is elected.
AWAY = 30_000


@dataclass(frozen=True, slots=True)
class EndRequest:
    """Why a term was told to end, what it then counts as, and how long the candidate stays away (in milliseconds)."""

    why: str
    outcome: TermOutcome
    away_for: int = 0


@dataclass(eq=False)
class ActiveTerm:
    """A term with its lease. `replaced` is what the node before the election said."""

    term: Term
    lease: Lease
    started: Moment
    replaced: Current
    end_request: EndRequest | None = None
    has_ended: bool = False
    alarm: Alarm | None = None


@dataclass(frozen=True, slots=True)
class EndedTerm:
    """How a term ended. `took` is milliseconds."""

    outcome: TermOutcome
    took: int
    error: BaseException | None = None


def outcome_of(error: BaseException | None, end_request: EndRequest | None) -> TermOutcome:
    """Return what a term counts as that was not lost, by the error that its body has raised.

    It is as for runs: a body that returns has succeeded, also after it was told to end.
    """
    if error is None:
        return "succeeded"
    if end_request is not None and (isinstance(error, Stopping | Cancelled) or not isinstance(error, Exception)):
        return end_request.outcome
    return "failed"


# After a body that raises, or returns again and again, there is a pause: a second, doubled each time up to a minute.
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
# A term that lasted for as long as this, in milliseconds, was good: the pauses after failures begin anew.
GOOD_TERM = 60_000


def back_off_after(failures: int, chance: float) -> float:
    """Return the seconds before a candidate stands again whose body has raised so many times in a row."""
    longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(failures - 1, 10))
    return max(_FIRST_PAUSE, longest * (0.5 + 0.5 * chance))


class Candidate:
    """Stands for one leader. `on_change` is called, on any thread, when a term is lost or is to end.

    With `has_ticker` a ticker runs beside it, and says why RTDB's time is not known.
    """

    def __init__(
        self,
        database: Database,
        election: Election,
        on_change: Callable[[ActiveTerm], object] | None = None,
        *,
        has_ticker: bool = False,
    ) -> None:
        self.election = election
        self._has_ticker = has_ticker
        self._database = database
        self._on_change = on_change
        self._active: ActiveTerm | None = None
        self._due = database.timing.mono()
        self.turnout = Turnout(election.name, election.ttl + database.margin)
        self.wake: Callable[[], object] = lambda: None  # called, by any thread, when `pause` may have become shorter
        self._path = database.paths.lock(election.name)
        self._followed = Follow(self._path, self._hear)
        self._asked = 0.0
        self._update: Update | None = None
        # Since the last good term: how many raised, how many returned, and whether it was said that this slows it.
        self._failures = self._returns = 0
        self._is_slowed = False
        self._is_over = False
        self._said: object = None
        # Why the last try was in vain; None after an election.
        self.refusal: Refusal | None = None
        in_each_process(self._begin_process)

    def _begin_process(self) -> None:
        """Begin without a term. In a forked child it is the parent's."""
        self._changed = threading.Condition()
        self._bid: Bid | None = None
        self._following: Following | None = None
        if self._active is not None:
            self._active.has_ended = True
            self._active = None

    @property
    def active(self) -> ActiveTerm | None:
        """The active term whose body has not ended; None if there is none."""
        return self._active

    @property
    def is_mine(self) -> bool:
        """Whether this candidate leads now. This is arithmetic on the lease, and asks nobody."""
        active = self._active
        return active is not None and active.lease.is_held() and self._database.timing.mono() < active.lease.ends

    def due_in(self) -> float | None:
        """Return the seconds until the next try; 0: now. None: it stands no more."""
        with self._changed:
            if self._is_over:
                return None
            now = self._database.timing.mono()
            left = self._due - now
            if self._following is not None:
                followed, moment = self._followed, self._database.clock.peek()
                due = self._following.due(followed.fresh(), moment, now, is_node=followed.path == self._path)
                left = min(max(left, due - now), LOOK * 1000, followed.stale_in())
            # A millisecond at least: a wait for what is left of a float's rounding would never end.
            return max(left, 1.0) / 1000 if left > 0 else 0.0

    def wait(self, seconds: float) -> None:
        """Wait for so long, or until `stop` is called or the node changes."""
        self.listen()
        with self._changed:
            if left := self.due_in():  # what was heard since the caller asked has woken nobody
                self._database.timing.wait(self._changed, min(seconds, left))

    def listen(self) -> None:
        """Follow the part of the node that this candidate should hear of while it waits."""
        streams, following = self._database.streams, self._following
        if following is None:
            return
        path = self._path if following.needs_node(self._database.clock.peek()) else f"{self._path}/releasedAt"
        if self._followed.path != path:
            streams.discard(self._followed)
            self._followed = Follow(path, self._hear)
            following.turns(self._database.timing.mono())
        streams.add(self._followed)
        if self._is_over:
            streams.discard(self._followed)  # stopped meanwhile

    def stand(self) -> ActiveTerm | None:
        """Try once to be elected. Return the active term; None if another leads, nobody knows, or this was stopped."""
        assert self._active is None, f"the body of an old term of {self.election.name} has not ended"
        bid = self._bid = self._bid or self._make_bid()
        self._asked, self._update = self._database.timing.mono(), self._followed.update
        held = self._database.try_to_acquire(bid)
        if isinstance(held, Refusal):
            self._follow(held)
            return None
        lease: Lease | None = None
        try:
            lease = keep(self._database, bid, held)
            active = self._begin(lease, held.trust.reading, held.replaced)
        except Unavailable as error:
            self._follow(not_known(bid.name, "unavailable", error))
            return None
        except BaseException:
            self._active = None
            give_back(self._database, lease)
            raise
        if active is None:
            give_back(self._database, lease)
            self._database.keeper.rest()  # as in `end`: the try may have outlived the stop
            return None
        try:
            message = f'"{bid.name}" is led by this instance now (fence {active.term.fence})'
            self._emit("leader.elected", logging.INFO, message, active)
            lease.when_lost(lambda: self._lost(active))
            lease.when_cancelled(lambda: self.request_end("it was cancelled", "cancelled", AWAY))
            lease.when_renewed(self._end_if_paused)
        except BaseException as error:
            self.end(active, error)
            raise
        return active

    def end(self, active: ActiveTerm, error: BaseException | None = None) -> EndedTerm | None:
        """Release after the end of the body, which has raised `error` or returned. Return how the term has ended.

        Return None, and do nothing, after the first call, and in a forked child.
        """
        with self._changed:
            if active.has_ended:
                return None
            active.has_ended = True
        try:
            ended = self._released(active, error)
        finally:
            for kept in (active.lease, active.alarm):
                if kept is not None:
                    self._database.keeper.forget(kept)
            with self._changed:
                self._active = None
                self._due = self._database.timing.mono() + self.election.pause
                self._changed.notify_all()
                is_over = self._is_over
            if is_over:
                # An alarm of this term may have begun the keeper's thread after the stop that has ended it.
                self._database.keeper.rest()
        self._plan(active, ended)
        return ended

    def request_end(self, why: str, outcome: TermOutcome = "interrupted", away_for: int = 0) -> bool:
        """Tell the body that its term is to end. Return False if there is none, or if it was told already.

        The first reason counts, and the longest `away_for`.
        """
        with self._changed:
            active = self._active
            if active is None or active.has_ended or not active.lease.is_held():
                return False
            if (end_request := active.end_request) is not None:
                active.end_request = replace(end_request, away_for=max(end_request.away_for, away_for))
                return False
            active.end_request = EndRequest(why, outcome, away_for)
        if outcome == "cancelled":
            active.term.cancelled.set()
        active.term.stopping.set()
        self._notify(active)
        return True

    def stop(self, why: str = "this instance stops") -> None:
        """Stand no more, and tell the body that its term is to end."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        self._database.streams.discard(self._followed)
        self.request_end(why)

    def open(self) -> None:
        """Stand again after a stop, but not before the pauses after the last term are over."""
        with self._changed:
            self._is_over, self._following = False, None
            self._changed.notify_all()

    def _hear(self) -> None:
        with self._changed:
            self._changed.notify_all()
        self.wake()

    def _make_bid(self) -> Bid:
        election = self.election
        return self._database.bid(
            election.name,
            election.ttl / 1000,
            fenced=True,
            renews=True,
            max_runtime=election.max_term,
            kind=LEADER,
        )

    def _begin(self, lease: Lease, started: Moment, replaced: Current) -> ActiveTerm | None:
        """Make the active term of a lease; None if this was stopped meanwhile."""
        assert lease.fence is not None, "a leader's lease is fenced"
        term = Term(self.election.name, lease.fence, to_datetime(started.server), lambda: lease.lost)
        with self._changed:
            self._bid, self._said, self.refusal = None, None, None  # the next term needs a token of its own
            if self._is_over:
                return None
            self._active = ActiveTerm(term, lease, started, replaced)
            self._following = None
        self._database.streams.discard(self._followed)
        return self._active

    def _follow(self, refusal: Refusal) -> None:
        """Plan the next try. The refusal is logged if it says something new."""
        self.refusal = refusal
        with self._changed:
            if self._following is None:
                self._following = Following(self._database.margin, self.turnout, self._database.chance)
            self._following.refused(refusal, self._update, self._asked)
        # Before RTDB's time is known the ticker, which runs beside a declared leader's candidate, logs the cause.
        is_told = self._has_ticker and refusal.error is not None and self._database.clock.peek() is None
        said = refusal.reason, refusal.holder, is_told
        if said != self._said:
            self._said = said
            self._database.emit_refusal(refusal, quietly=is_told)

    def _released(self, active: ActiveTerm, error: BaseException | None) -> EndedTerm:
        lease = active.lease
        outcome: TermOutcome = "lost" if lease.lost else outcome_of(error, active.end_request)
        lease.release(outcome=outcome)
        took = round(self._database.timing.mono() - active.started.mono)
        return EndedTerm("lost" if lease.was_lost else outcome, took, error)

    def _plan(self, active: ActiveTerm, ended: EndedTerm) -> None:
        """Say how the term has ended, and plan when to stand again: when all the pauses that it calls for are over."""
        name, end_request = self.election.name, active.end_request
        if end_request is not None:
            self.stay_away(end_request.away_for)
        if ended.took >= GOOD_TERM:
            self._failures = self._returns = 0
            self._is_slowed = False
        if ended.outcome == "failed":
            self._failures += 1
            self._back_off(self._failures + self._returns)
            left = max(0.0, self._due - self._database.timing.mono()) / 1000
            message = (
                f'"{name}" failed as the leader, and stands again in {left:.1f} s at the earliest: '
                f"{described(ended.error)}"
            )
            self._emit("leader.failed", logging.ERROR, message, active, ended.error, failures=self._failures)
            return
        if ended.outcome == "lost":  # that was said when it was lost
            return
        why, level, remedy = "its body returned" if end_request is None else end_request.why, logging.INFO, ""
        if end_request is None and ended.took < GOOD_TERM:
            self._returns += 1
            # One return is as the program wishes: only `pause` follows it.
            pause = self._back_off(self._failures + self._returns - 1)
            if pause > self.election.pause and not self._is_slowed:
                self._is_slowed, level = True, logging.WARNING
                remedy = (
                    f" after {ended.took / 1000:.1f} s. This instance stands again in {pause / 1000:.1f} s, and later "
                    "after each such term, up to a minute: let the body go on until its term ends, or declare a job"
                )
        message = f'"{name}" is led by this instance no more: {why}{remedy}'
        self._emit("leader.stepped_down", level, message, active, took=ended.took, why=why)

    def _back_off(self, times: int) -> float:
        """Stay away after so many short terms in a row, and return for how long (in milliseconds)."""
        pause = 1000 * back_off_after(times, self._database.chance()) if times else 0.0
        self.stay_away(pause)
        return pause

    def stay_away(self, milliseconds: float) -> None:
        """Don't stand for so long, or for longer if that is planned already."""
        with self._changed:
            self._due = max(self._due, self._database.timing.mono() + milliseconds)

    def _lost(self, active: ActiveTerm) -> None:
        """Say that the term is lost. If its body goes on for a whole ttl, that is said, too."""
        took = round(self._database.timing.mono() - active.started.mono)
        message = f'"{self.election.name}" is led by this instance no more: its lease was lost'
        self._emit("leader.lost", logging.ERROR, message, active, took=took)
        if not active.has_ended:
            ends = self._database.timing.mono() + self.election.ttl
            active.alarm = Alarm(self.election.name, ends, lambda: self._say_it_lingers(active))
            self._database.keeper.keep(active.alarm, renews=False)
        self._notify(active)

    def _say_it_lingers(self, active: ActiveTerm) -> None:
        if not active.has_ended:
            message = (
                f'The body of "{self.election.name}" still runs {self.election.ttl / 1000:g} s after its term was lost'
                ", perhaps beside the next leader's: let it look at term.lost, and pass term.fence to what it writes to"
            )
            self._emit("leader.lingers", logging.WARNING, message, active)

    def _end_if_paused(self, record: LockRecord) -> None:
        pause, now = pause_in(record.kept), self._database.clock.peek()
        if pause is not None and (now is None or pause.holds(now.server)):
            self.request_end(f"it is {pause}")

    def _notify(self, active: ActiveTerm) -> None:
        if self._on_change is not None:
            self._on_change(active)

    def _emit(
        self,
        slug: Slug,
        level: int,
        message: str,
        active: ActiveTerm,
        error: BaseException | None = None,
        **fields: int | str,
    ) -> None:
        self._database.events.emit(slug, self.election.name, level, message, error, fence=active.term.fence, **fields)
