"""A lease: the acquired lock in the program.

A lease is good until `expires_at` less the margin, measured on this machine's monotonic clock. Only a renewal makes it
last longer: the keeper renews it (in `hold`, `with_lock` and runs), or the program calls `renew()`. A lease that ends
before its release is lost: `lost` is set, the callbacks of the lease are called, and an ERROR is logged. A lost lease
stays lost, even if no other holder has taken the lock. A release also ends the lease: `lost` is set, but no loss is
reported.

The holder of a lease with a fence may be asked to stop (`firecron cancel`). A renewal finds that in the record:
`cancelled` is set, and the callbacks for it are called. The lease stays trusted and is renewed until its holder
releases it.

A lease also protects writes on a node beside the lock, for as long as it is trusted (`write_under`). They are repeated
as a renewal is: after a failure comes a pause that grows, and lasts as long as the server asks for, within a third of
the time that the lease has left. So a database that asks for more than that gets a few requests a lease.

A lease belongs to its process. In a forked child it is over without an event: neither lost nor released, for the parent
has it. A thread of the parent may have held one of its locks as the process forked. So each way into a lease asks first
whether it is at home, and gives the child's copy new locks if it is not.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import datetime
from typing import Literal, TypeVar

from firecron.base.clocks import back_off_within
from firecron.base.events import Slug
from firecron.base.flag import Flag
from firecron.base.instants import to_datetime, to_text
from firecron.errors import Cancelled, Denied, LeaseLost, StoreError, Unavailable
from firecron.lock.database import Database
from firecron.lock.protocol import Bid, Exchange, Held, reading, releasing, renewing
from firecron.lock.record import LockRecord, Lost, renewed
from firecron.store import Snapshot

T = TypeVar("T")


class Lease:
    """An acquired lock. It is always true, so that `if lease:` distinguishes it from a refusal."""

    def __init__(self, database: Database, bid: Bid, held: Held) -> None:
        self.name = bid.name
        self.database = database
        self._process = database.process
        self._path = database.paths.lock(bid.name)
        self._held = held
        self._ttl = bid.ttl
        self._look = bid.look
        self._hold_at_least = bid.hold_at_least
        # These are values of this lease only: a record also carries over values of earlier claims.
        record, has_slot = held.record, bid.slot is not None or bid.choose is not None
        self._fence = int(record.fence) if bid.fenced and record.fence is not None else None
        self._slot = record.unfinished if has_slot else None
        self._attempt = int(record.attempt) if has_slot and record.attempt is not None else None
        self._lost = Flag()
        self._was_lost = False
        self._state: Literal["held", "releasing", "released", "lost"] = "held"
        self._state_lock = threading.Lock()
        # Locked during each request for this lease, so a release waits for a renewal that is under way.
        self._request_lock = database.timing.lock()
        self._on_lost: list[Callable[[], object]] = []
        self._cancelled = Flag()
        self._why_cancelled: str | None = None
        self._on_cancelled: list[Callable[[], object]] = []
        self._on_renewed: Callable[[LockRecord], object] | None = None

    def __bool__(self) -> Literal[True]:
        return True

    def __repr__(self) -> str:
        return f"<Lease {self.name} {self._state} until {to_text(self._held.trust.expires_at)}>"

    @property
    def holder(self) -> str:
        """The random token of this lease in the record."""
        return str(self._held.record.holder)

    @property
    def fence(self) -> int | None:
        """The fencing token, higher than that of every earlier holder; None if none was asked for.

        Pass it to the systems that you write to.
        """
        return self._fence

    @property
    def slot(self) -> str | None:
        """The tick that was claimed with the lock."""
        return self._slot

    @property
    def attempt(self) -> int | None:
        """The number of this claim of its slot."""
        return self._attempt

    @property
    def expires_at(self) -> datetime:
        """When the record expires, in RTDB's time."""
        return to_datetime(self._held.trust.expires_at)

    @property
    def lost(self) -> Flag:
        """Set when the lease is over, lost or released: `if lease.lost:`, or `lease.lost.wait(1)`."""
        if self.is_held() and self.database.timing.mono() >= self.ends:
            self.lose("its lease ran out and was not renewed")
        return self._lost

    @property
    def cancelled(self) -> Flag:
        """Set when the holder is asked to stop. The lease lasts until the holder releases it."""
        return self._cancelled

    def check(self) -> None:
        """Raise LeaseLost if the lease is over, or Cancelled if its holder is asked to stop.

        Call it in the middle of long work.
        """
        if self.lost:
            raise LeaseLost
        if self.cancelled:
            raise Cancelled

    def renew(self) -> bool:
        """Extend the lease to its whole ttl from now. Return False if it is lost.

        Raise Unavailable or Denied if RTDB does not say.
        """
        return self.keep(self.database.settings.acquire_timeout)

    def release(
        self,
        *,
        outcome: str | None = None,
        finished: str | None = None,
        tick: str | None = None,
        before: LockRecord | None = None,
    ) -> bool:
        """Release the lock. Return True if this call did it.

        This never raises, so it can't hide an exception of the work under the lock. The record of a later holder stays
        as it is, byte for byte.

        Args:
            outcome: A word for the node's `outcome`, such as `succeeded`.
            finished: The slot whose run has ended; without it, the node's `unfinished` stays.
            tick: The slot that was run under the lock, ended or not.
            before: The record that was acquired, if nothing was run: its `outcome` and its `attempt` stay.
        """
        self._leave_to_parent()
        with self._state_lock:
            if self._state in ("releasing", "released"):
                return False
            self._lost.set()
            self._state = "releasing"  # from here on the lease is neither trusted nor renewed
        self.database.ended(self, None)
        left = self._release(outcome, finished, tick, before)
        with self._state_lock:
            self._state = "released"
            was_lost = self._was_lost
            self._was_lost = was_lost or isinstance(left, Lost)
        if isinstance(left, Snapshot):
            self.database.ended(self, left)
            if not was_lost:
                self._emit("lock.released", logging.INFO, f'Lock "{self.name}" released')
        elif isinstance(left, Lost) and not was_lost:
            self._report_lost(left.why)
        with self._state_lock:
            # What they belong to has this lease: without them, neither waits for the collector of garbage.
            self._on_lost, self._on_cancelled = [], []
        return isinstance(left, Snapshot)

    # What follows is for firecron's own parts.

    @property
    def ends(self) -> float:
        """When the holder stops trusting the lease, on the monotonic clock in milliseconds."""
        return self._held.trust.ends(self.database.margin)

    @property
    def renewal_due(self) -> float:
        """When the next renewal is due, on the same clock: a third of the ttl after the last write."""
        return self._held.trust.reading.mono + self._ttl / 3

    @property
    def was_lost(self) -> bool:
        """Whether the lease was lost before it was released, as far as the release has found out."""
        return self._was_lost

    def is_held(self) -> bool:
        """Return whether the lease is neither lost nor released, and this process's own."""
        self._leave_to_parent()
        return self._state == "held"

    def emit_acquired(self) -> None:
        """Emit the event for the acquired lock."""
        if not self.database.events.are_heard(logging.INFO):
            return
        until = to_text(self._held.trust.expires_at)
        self._emit("lock.acquired", logging.INFO, f'Lock "{self.name}" acquired until {until}')

    def keep(self, seconds: float) -> bool:
        """Renew once, within `seconds` and within the time that the lease has left.

        Return False if the lease is lost. Raise StoreError if the renewal fails.
        """
        if self.lost:
            return False
        database = self.database
        deadline = database.deadline(min(seconds, (self.ends - database.timing.mono()) / 1000))
        if not self._request_lock.acquire(timeout=deadline.remaining()):
            raise Unavailable("another renewal, or the release, is still under way")
        try:
            if not self.is_held():
                return False
            exchange = renewing(self._held, self._ttl, database.margin, self._look)
            answer = database.run(exchange, self._path, deadline, self.ends)
            if isinstance(answer, Held):
                self._held = answer
        finally:
            self._request_lock.release()
        if isinstance(answer, Lost):
            self.lose(answer.why)
            return False
        self._emit("lock.renewed", logging.DEBUG, f'Lock "{self.name}" renewed')
        database.emit_if_large(self.name, answer.record)
        self._look_for_cancel()
        if self._on_renewed is not None:
            self._on_renewed(answer.record)
        return True

    def stands(self) -> bool:
        """Return whether the lease stands by its node, and lose it if not. It is not renewed.

        Raise StoreError if the node can't be read.
        """
        if self.lost:
            return False
        database, seconds = self.database, (self.ends - self.database.timing.mono()) / 1000
        deadline = database.deadline(min(database.settings.acquire_timeout, seconds))
        node = database.run(reading(), self._path, deadline, lease_ends=self.ends).node
        now = database.clock.now(deadline)
        kind = self._held.record.kept.get("kind")
        match renewed(node, self.holder, self._ttl, now, self._held.trust, database.margin, kind):
            case Lost(why):
                self.lose(why)
                return False
            case _:
                return True

    def lose(self, why: str) -> None:
        """Declare the lease lost. This has no effect once it is lost or released."""
        self._leave_to_parent()
        with self._state_lock:
            if self._state != "held":
                return
            self._lost.set()  # before the loss is reported: listeners and log handlers may be slow
            self._state = "lost"  # after the flag, which tells all others once the lease is not held
            self._was_lost = True
        self._report_lost(why)
        self.database.ended(self, None)

    def when_lost(self, callback: Callable[[], object]) -> None:
        """Call this when the lease is lost, on the thread that notices it. If it is lost already, call it now."""
        self._leave_to_parent()
        with self._state_lock:
            if not self._was_lost:
                self._on_lost.append(callback)
                return
        self._notify(callback)

    @property
    def why_cancelled(self) -> str | None:
        """Why the holder is asked to stop, if anybody has said."""
        return self._why_cancelled

    def cancel(self, why: str | None = None) -> None:
        """Tell the holder that it is asked to stop, once. This has no effect once the lease is lost or released."""
        self._leave_to_parent()
        with self._state_lock:
            if self._state != "held" or self._cancelled:
                return
            self._why_cancelled = why
            self._cancelled.set()
            callbacks, self._on_cancelled = self._on_cancelled, []
        message = f'Lock "{self.name}" cancelled, its holder is asked to stop{f": {why}" if why else ""}'
        self._emit("lock.cancelled", logging.INFO, message, why=why)
        for callback in callbacks:
            self._notify(callback, "cancellation")

    def when_cancelled(self, callback: Callable[[], object]) -> None:
        """Call this when the holder is asked to stop, on the thread that notices it. If it was asked, call it now."""
        self._leave_to_parent()
        with self._state_lock:
            if not self._cancelled:
                self._on_cancelled.append(callback)
                return
        self._notify(callback, "cancellation")

    def when_renewed(self, callback: Callable[[LockRecord], object]) -> None:
        """Call this with the record after each renewal, on the thread that renews. It must not block."""
        self._on_renewed = callback

    def _leave_to_parent(self) -> None:
        """End the lease in a forked child, without an event: it is the parent's."""
        if self._process is self.database.process:
            return
        self._state_lock = threading.Lock()
        self._request_lock = self.database.timing.lock()
        self._state = "released"
        # A new flag, because a thread that only the parent has may hold the lock of the old one.
        lost = Flag()
        lost.set()
        self._lost = lost
        self._process = self.database.process  # last: until then, another thread of the child must not trust the lease

    def _report_lost(self, why: str) -> None:
        self._emit("lock.lost", logging.ERROR, f'Lock "{self.name}" lost: {why}', why=why)
        with self._state_lock:
            callbacks, self._on_lost = self._on_lost, []
        for callback in callbacks:
            self._notify(callback)

    def _look_for_cancel(self) -> None:
        """Tell the holder if the record asks for its stop. A lease without a fence of its own is never asked."""
        if self._fence is not None and self._held.record.is_cancelled:
            why = self._held.record.cancelWhy
            self.cancel(why if isinstance(why, str) else None)

    def _notify(self, callback: Callable[[], object], what: str = "loss") -> None:
        try:
            callback()
        except Exception as error:
            # This may run on the keeper's thread or in a release. A closed event loop must break neither.
            message = f'The callback for the {what} of lock "{self.name}" raised {error!r}'
            self._emit("listener.failed", logging.ERROR, message, why=repr(error))

    def _release(
        self, outcome: str | None, finished: str | None, tick: str | None, before: LockRecord | None
    ) -> Snapshot | Lost | None:
        database = self.database
        deadline = database.deadline(database.settings.release_timeout)
        if not self._request_lock.acquire(timeout=deadline.remaining()):
            self._emit_unreleased("a renewal under way did not end in time")
            return None
        try:
            exchange = releasing(
                self._held,
                margin=database.margin,
                hold_at_least=self._hold_at_least,
                outcome=outcome,
                finished=finished,
                tick=tick,
                before=before,
                look=self._look,
            )
            return database.run(exchange, self._path, deadline)
        except Exception as error:
            # Every exception counts, not only StoreError: the result of the work under the lock must reach its caller.
            self._emit_unreleased(str(error) if isinstance(error, StoreError) else repr(error))
            return None
        finally:
            self._request_lock.release()

    def _emit_unreleased(self, why: str) -> None:
        until = to_text(self._held.trust.expires_at)
        message = f'Failed to release lock "{self.name}": {why}. It expires at {until}'
        self._emit("lock.release_failed", logging.ERROR, message, why=why)

    def _emit(self, slug: Slug, level: int, message: str, **fields: str | None) -> None:
        self.database.events.emit(
            slug,
            self.name,
            level,
            message,
            holder=self.holder,
            fence=self.fence,
            slot=self.slot,
            attempt=self.attempt,
            **fields,
        )


def write_under(lease: Lease, exchange: Callable[[], Exchange[T | Lost]], path: str) -> T:
    """Make an exchange on a node that is written under this lease, and again while the database doesn't answer.

    Raise LeaseLost once the lease is over, also if another holder has the node. Raise Denied if the rules refuse
    it although the lock is still held. Each round calls `exchange` anew.
    """
    database, timing, failures = lease.database, lease.database.timing, 0
    while not lease.lost:
        deadline = database.deadline((lease.ends - timing.mono()) / 1000)
        try:
            try:
                answer = database.run(exchange(), path, deadline, lease.ends)
            except Denied:
                # The rules refuse the writes of a holder that has lost its lock, before the holder knows. The lock is
                # read, not renewed: a lease without renewals has to end in its time.
                if lease.stands():
                    raise
                continue
        except Unavailable as error:
            # The lease may be renewed meanwhile.
            failures += 1
            left = max(0.0, (lease.ends - timing.mono()) / 1000)
            timing.sleep(min(left, back_off_within(left, error, failures, database.chance())))
        else:
            match answer:
                case Lost(why):
                    lease.lose(why)
                case found:
                    return found
    raise LeaseLost
