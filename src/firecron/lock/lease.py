"""A lease: the acquired lock in the program, and the keeper, which renews leases and declares them lost.

A lease is good until `expires_at` less the margin, measured on this machine's monotonic clock. Only a renewal makes it
last longer: the keeper renews it (in `hold`, `with_lock` and runs), or the program calls `renew()`. A lease that ends
before its release is lost: `lost` is set, the callbacks of the lease are called, and an ERROR is logged. A lost lease
stays lost, even if no other holder has taken the lock. A release also ends the lease: `lost` is set, but no loss is
reported.

The holder of a lease with a fence may be asked to stop (`firecron cancel`). A renewal finds that in the record:
`cancelled` is set, and the callbacks for it are called. The lease stays trusted and is renewed until its holder
releases it.

The keeper is one thread. It works while the holder blocks its own thread or its event loop. A failed renewal is tried
again, with growing pauses, until the lease ends. Then the lease is lost, and the loss is logged. One renewal takes at
most a third of the time left of its lease. The lease that ends first is renewed first. Renewals run one after another,
so an instance can keep only as many leases as renewals fit into a third of their ttl. In a forked child the keeper
starts empty. Its thread is a daemon and ends with the process.

A lease also protects writes on a node beside the lock, for as long as it is trusted (`write_under`). They are repeated
as a renewal is: after a failure comes a pause that grows, and lasts as long as the server asks for, within a third of
the time that the lease has left. So a database that asks for more than that gets a few requests a lease.
"""

from __future__ import annotations

import logging
import math
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol, TypeVar

from firecron.base.clocks import Timing, pause_within
from firecron.base.events import Events, Slug
from firecron.base.flag import Flag
from firecron.base.instants import to_datetime, to_text
from firecron.errors import Cancelled, Denied, LeaseLost, StoreError, Unavailable
from firecron.lock.protocol import Driver, Exchange, Held, reading, releasing, renewing
from firecron.lock.record import LockRecord, Lost, renewed
from firecron.store import Snapshot

T = TypeVar("T")


class Lease:
    """An acquired lock. It is always true, so that `if lease:` distinguishes it from a refusal."""

    def __init__(
        self,
        name: str,
        path: str,
        held: Held,
        *,
        ttl: int,
        hold_at_least: int,
        is_fenced: bool,
        has_slot: bool,
        driver: Driver,
        events: Events,
        on_end: Callable[[Lease, Snapshot | None], None],
        on_record: Callable[[str, LockRecord], None],
    ) -> None:
        self.name = name
        self._path = path
        self._held = held
        self._ttl = ttl
        self._hold_at_least = hold_at_least
        # These are values of this lease only: a record also carries over values of earlier claims.
        record = held.record
        self._fence = int(record.fence) if is_fenced and record.fence is not None else None
        self._slot = record.unfinished if has_slot else None
        self._attempt = int(record.attempt) if has_slot and record.attempt is not None else None
        self.driver = driver
        self._events = events
        self._on_end = on_end
        self._on_record = on_record
        self._lost = Flag()
        self._was_lost = False
        self._state: Literal["held", "releasing", "released", "lost"] = "held"
        self._state_lock = threading.Lock()
        # Locked during each request for this lease, so a release waits for a renewal that is under way.
        self._request_lock = driver.timing.lock()
        self._on_lost: list[Callable[[], object]] = []
        self._cancelled = Flag()
        self._why_cancelled: str | None = None
        self._on_cancelled: list[Callable[[], object]] = []
        self._on_renewed: Callable[[LockRecord], object] | None = None

    def __bool__(self) -> Literal[True]:
        return True

    def __repr__(self) -> str:
        return f"<Lease {self.name} {self._state} until {to_text(self._held.term.expires_at)}>"

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
        return to_datetime(self._held.term.expires_at)

    @property
    def lost(self) -> Flag:
        """Set when the lease is over, lost or released: `if lease.lost:`, or `lease.lost.wait(1)`."""
        if self.driver.timing.mono() >= self.ends:
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
        return self.keep(self.driver.settings.acquire_timeout)

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
        with self._state_lock:
            if self._state in ("releasing", "released"):
                return False
            self._state = "releasing"  # from here on the lease is neither trusted nor renewed
            self._lost.set()
        self._on_end(self, None)
        left = self._release(outcome, finished, tick, before)
        with self._state_lock:
            self._state = "released"
            was_lost = self._was_lost
            self._was_lost = was_lost or isinstance(left, Lost)
        if isinstance(left, Snapshot):
            self._on_end(self, left)
            if not was_lost:
                self._emit("lock.released", logging.INFO, f'Lock "{self.name}" released')
            return True
        if isinstance(left, Lost) and not was_lost:
            self._report_lost(left.why)
        return False

    # What follows is for the keeper and the service.

    @property
    def ends(self) -> float:
        """When the holder stops trusting the lease, on the monotonic clock in milliseconds."""
        return self._held.term.ends(self.driver.margin)

    @property
    def renewal_due(self) -> float:
        """When the next renewal is due, on the same clock: a third of the ttl after the last write."""
        return self._held.term.reading.mono + self._ttl / 3

    @property
    def was_lost(self) -> bool:
        """Whether the lease was lost before it was released, as far as the release has found out."""
        return self._was_lost

    def is_held(self) -> bool:
        """Return whether the lease is neither lost nor released."""
        return self._state == "held"

    def tell_acquired(self) -> None:
        """Emit the event for the acquired lock."""
        until = to_text(self._held.term.expires_at)
        self._emit("lock.acquired", logging.INFO, f'Lock "{self.name}" acquired until {until}')

    def keep(self, seconds: float) -> bool:
        """Renew once, within `seconds` and within the time that the lease has left.

        Return False if the lease is lost. Raise StoreError if the renewal fails.
        """
        if not self.is_held() or self.lost:
            return False
        deadline = self.driver.deadline(min(seconds, (self.ends - self.driver.timing.mono()) / 1000))
        if not self._request_lock.acquire(timeout=deadline.remaining()):
            raise Unavailable("another renewal, or the release, is still under way")
        try:
            if not self.is_held():
                return False
            exchange = renewing(self._held, self._ttl, self.driver.margin)
            answer = self.driver.run(exchange, self._path, deadline, self.ends)
            if isinstance(answer, Held):
                self._held = answer
        finally:
            self._request_lock.release()
        if isinstance(answer, Lost):
            self.lose(answer.why)
            return False
        self._emit("lock.renewed", logging.DEBUG, f'Lock "{self.name}" renewed')
        self._on_record(self.name, answer.record)
        self._look_for_cancel()
        if self._on_renewed is not None:
            self._on_renewed(answer.record)
        return True

    def stands(self) -> bool:
        """Return whether the lease stands by its node, and lose it if not. It is not renewed.

        Raise StoreError if the node can't be read.
        """
        if self.lost or not self.is_held():
            return False
        driver, seconds = self.driver, (self.ends - self.driver.timing.mono()) / 1000
        deadline = driver.deadline(min(driver.settings.acquire_timeout, seconds))
        node = driver.run(reading(), self._path, deadline, lease_ends=self.ends).node
        now = driver.clock.now(deadline)
        kind = self._held.record.kept.get("kind")
        match renewed(node, self.holder, self._ttl, now, self._held.term, driver.margin, kind):
            case Lost(why):
                self.lose(why)
                return False
            case _:
                return True

    def lose(self, why: str) -> None:
        """Declare the lease lost. This has no effect once it is lost or released."""
        with self._state_lock:
            if self._state != "held":
                return
            self._state = "lost"
            self._was_lost = True
            self._lost.set()  # before the loss is reported: listeners and log handlers may be slow
        self._report_lost(why)
        self._on_end(self, None)

    def when_lost(self, callback: Callable[[], object]) -> None:
        """Call this when the lease is lost, on the thread that notices it. If it is lost already, call it now."""
        with self._state_lock:
            if not self._was_lost:
                self._on_lost.append(callback)
                return
        self._tell(callback)

    @property
    def why_cancelled(self) -> str | None:
        """Why the holder is asked to stop, if anybody has said."""
        return self._why_cancelled

    def cancel(self, why: str | None = None) -> None:
        """Tell the holder that it is asked to stop, once. This has no effect once the lease is lost or released."""
        with self._state_lock:
            if self._state != "held" or self._cancelled:
                return
            self._why_cancelled = why
            self._cancelled.set()
            callbacks, self._on_cancelled = self._on_cancelled, []
        message = f'Lock "{self.name}" cancelled, its holder is asked to stop{f": {why}" if why else ""}'
        self._emit("lock.cancelled", logging.INFO, message, why=why)
        for callback in callbacks:
            self._tell(callback, "cancellation")

    def when_cancelled(self, callback: Callable[[], object]) -> None:
        """Call this when the holder is asked to stop, on the thread that notices it. If it was asked, call it now."""
        with self._state_lock:
            if not self._cancelled:
                self._on_cancelled.append(callback)
                return
        self._tell(callback, "cancellation")

    def when_renewed(self, callback: Callable[[LockRecord], object]) -> None:
        """Call this with the record after each renewal, on the thread that renews. It must not block."""
        self._on_renewed = callback

    def disown(self) -> None:
        """End the lease in a forked child, without an event: it is the parent's."""
        self._state_lock = threading.Lock()
        self._request_lock = self.driver.timing.lock()
        self._state = "released"
        # A new flag, because a thread that only the parent has may hold the lock of the old one.
        self._lost = Flag()
        self._lost.set()

    def _report_lost(self, why: str) -> None:
        self._emit("lock.lost", logging.ERROR, f'Lock "{self.name}" lost: {why}', why=why)
        with self._state_lock:
            callbacks, self._on_lost = self._on_lost, []
        for callback in callbacks:
            self._tell(callback)

    def _look_for_cancel(self) -> None:
        """Tell the holder if the record asks for its stop. A lease without a fence of its own is never asked."""
        if self._fence is not None and self._held.record.is_cancelled:
            why = self._held.record.cancelWhy
            self.cancel(why if isinstance(why, str) else None)

    def _tell(self, callback: Callable[[], object], what: str = "loss") -> None:
        try:
            callback()
        except Exception as error:
            # This may run on the keeper's thread or in a release. A closed event loop must break neither.
            message = f'The callback for the {what} of lock "{self.name}" raised {error!r}'
            self._emit("listener.failed", logging.ERROR, message, why=repr(error))

    def _release(
        self, outcome: str | None, finished: str | None, tick: str | None, before: LockRecord | None
    ) -> Snapshot | Lost | None:
        deadline = self.driver.deadline(self.driver.settings.release_timeout)
        if not self._request_lock.acquire(timeout=deadline.remaining()):
            self._emit_unreleased("a renewal under way did not end in time")
            return None
        try:
            exchange = releasing(
                self._held,
                margin=self.driver.margin,
                hold_at_least=self._hold_at_least,
                outcome=outcome,
                finished=finished,
                tick=tick,
                before=before,
            )
            return self.driver.run(exchange, self._path, deadline)
        except Exception as error:
            # Every exception counts, not only StoreError: the result of the work under the lock must reach its caller.
            self._emit_unreleased(str(error) if isinstance(error, StoreError) else repr(error))
            return None
        finally:
            self._request_lock.release()

    def _emit_unreleased(self, why: str) -> None:
        until = to_text(self._held.term.expires_at)
        message = f'Failed to release lock "{self.name}": {why}. It expires at {until}'
        self._emit("lock.release_failed", logging.ERROR, message, why=why)

    def _emit(self, slug: Slug, level: int, message: str, **fields: str | None) -> None:
        self._events.emit(
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
    timing, failures = lease.driver.timing, 0
    while not lease.lost:
        deadline = lease.driver.deadline((lease.ends - timing.mono()) / 1000)
        try:
            try:
                answer = lease.driver.run(exchange(), path, deadline, lease.ends)
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
            timing.sleep(min(left, pause_within(left, error, failures, random.random())))
        else:
            match answer:
                case Lost(why):
                    lease.lose(why)
                case found:
                    return found
    raise LeaseLost


# --- the keeper


class Keepable(Protocol):
    """What the keeper needs of a lease. Times are in milliseconds on the monotonic clock."""

    name: str

    @property
    def ends(self) -> float: ...

    @property
    def renewal_due(self) -> float: ...

    def keep(self, seconds: float) -> bool: ...

    def lose(self, why: str) -> None: ...

    def disown(self) -> None: ...


@dataclass(slots=True)
class _Kept:
    lease: Keepable
    renews: bool
    limit: float
    due: float
    failures: int = 0


_LONGEST_WAIT = 2.0  # seconds


class Keeper:
    """Keeps each lease from `keep` to `forget`. `attempt` is the most seconds that one renewal may take.

    With `has_thread=False` it has no thread, and keeps its leases only inside `work`: tests that move the clock by hand
    need this.
    """

    def __init__(self, timing: Timing, events: Events, attempt: float, *, has_thread: bool = True) -> None:
        self._timing = timing
        self._events = events
        self._attempt = attempt
        self._has_thread = has_thread
        self._changed = threading.Condition()
        self._kept: dict[Keepable, _Kept] = {}
        self._thread: threading.Thread | None = None
        # Whether the thread waits until it is woken. As long as it keeps a lease, it looks again by itself.
        self._sleeps = False

    def keep(self, lease: Keepable, *, renews: bool, limit: float | None = None) -> None:
        """Watch the lease, and renew it if `renews` is true.

        At `limit` (on the monotonic clock) the lease is lost, even if it could be renewed.
        """
        limit = math.inf if limit is None else limit
        with self._changed:
            if self._has_thread and (self._thread is None or not self._thread.is_alive()):
                self._start()
            due = min(lease.renewal_due if renews else lease.ends, limit)
            self._kept[lease] = _Kept(lease, renews, limit, due)
            if self._sleeps or due < self._timing.mono() + _LONGEST_WAIT * 1000:
                self._changed.notify()

    def forget(self, lease: Keepable) -> None:
        with self._changed:
            self._kept.pop(lease, None)

    def stop(self) -> None:
        """End the thread, and keep none of the leases any more. The next `keep` starts another thread."""
        with self._changed:
            self._thread = None
            self._kept.clear()
            self._changed.notify_all()

    def rest(self) -> None:
        """End the thread if it has no lease to keep. The next `keep` starts another thread."""
        with self._changed:
            if not self._kept:
                self._thread = None
                self._changed.notify_all()

    def work(self) -> float | None:
        """Do everything that is due. Return when the next lease will be due (None: no lease is kept)."""
        while (kept := self._most_urgent()) is not None:
            self._attend(kept)
        return self.due

    @property
    def due(self) -> float | None:
        """When the next lease is due, on the monotonic clock; None if no lease is kept."""
        with self._changed:
            return self._next_due()

    def leases(self) -> list[Keepable]:
        """Return the leases that are kept now."""
        with self._changed:
            return list(self._kept)

    def after_fork(self) -> None:
        """Disown the parent's leases in a forked child, and keep none."""
        kept, self._kept = self._kept, {}
        self._changed = threading.Condition()
        self._thread = None
        for lease in kept:
            lease.disown()

    def _run(self) -> None:
        me = threading.current_thread()
        while self._thread is me:
            self.work()
            with self._changed:
                # A stop or another lease may have come while this thread worked, so both are checked under the lock.
                if self._thread is not me:
                    return
                next_due = self._next_due()
                now = self._timing.mono()
                self._sleeps = next_due is None
                if next_due is None:
                    self._timing.wait(self._changed, None)
                elif next_due > now:
                    # The steps are short, because this wait stops while the machine is suspended, but leases age on.
                    self._timing.wait(self._changed, min((next_due - now) / 1000, _LONGEST_WAIT))

    def _next_due(self) -> float | None:
        return min((kept.due for kept in self._kept.values()), default=None)

    def _start(self) -> None:
        # The attribute is set before the start, because the thread checks whether it is still the keeper's thread.
        self._thread = threading.Thread(target=self._run, name="firecron-keeper", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            raise Unavailable(f"no thread could be started to keep the lease: {error}") from error

    def _most_urgent(self) -> _Kept | None:
        """Return the lease that is due and ends first; None if none is due.

        The keeper calls this again after each renewal, because others may have become due meanwhile. A lease that is
        already over comes first and takes no time.
        """
        now = self._timing.mono()
        with self._changed:
            due = [kept for kept in self._kept.values() if kept.due <= now]
        return min(due, key=lambda kept: min(kept.lease.ends, kept.limit), default=None)

    def _attend(self, kept: _Kept) -> None:
        lease = kept.lease
        now = self._timing.mono()
        if now >= kept.limit:
            self.forget(lease)
            lease.lose("it was held for as long as max_runtime allows")
            return
        left = lease.ends - now
        if left <= 0:
            self.forget(lease)
            lease.lose("its lease ran out and could not be renewed" if kept.renews else "its lease ran out")
            return
        if not kept.renews:
            kept.due = min(lease.ends, kept.limit)
            return
        try:
            if not lease.keep(min(self._attempt, left / 3000)):
                self.forget(lease)
                return
            kept.failures = 0
            kept.due = min(lease.renewal_due, kept.limit)
        except StoreError as error:
            kept.failures += 1
            pause = pause_within(left / 1000, error, kept.failures, random.random())
            kept.due = min(self._timing.mono() + pause * 1000, lease.ends, kept.limit)
            self._events.emit(
                "lock.renewal_failed",
                lease.name,
                logging.WARNING,
                f'Lock "{lease.name}" could not be renewed, trying again: {error}',
                why=str(error),
                failures=kept.failures,
            )
        except BaseException as error:
            # No exception may end this thread: the other leases would then be lost without a report.
            self.forget(lease)
            lease.lose(f"its renewal raised {error!r}")


class Alarm:
    """Calls `ring` once the monotonic clock shows `ends` (in milliseconds), unless the keeper has forgotten it before.

    The call must not block. The keeper knows an alarm as a lease that is not renewed. So it needs no thread and no
    clock of its own, and rings wherever leases are kept: on the keeper's thread, and in a test without threads.
    """

    renewal_due = math.inf

    def __init__(self, name: str, ends: float, ring: Callable[[], object]) -> None:
        self.name = name
        self.ends = ends
        self._ring = ring

    def keep(self, seconds: float) -> bool:
        """Return True: there is nothing to renew."""
        return True

    def lose(self, why: str) -> None:
        """Ring: the time has come."""
        self._ring()

    def disown(self) -> None:
        """Never ring in a forked child."""
        self._ring = lambda: None
