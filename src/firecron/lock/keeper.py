"""The keeper: renews leases, and declares them lost.

The keeper is one thread. It works while the holder blocks its own thread or its event loop. A failed renewal is tried
again, with growing pauses, until the lease ends. Then the lease is lost, and the loss is logged. One renewal takes at
most a third of the time left of its lease. The lease that ends first is renewed first. Renewals run one after another,
so an instance can keep only as many leases as renewals fit into a third of their ttl. Its thread is a daemon and ends
with the process. A forked child has a keeper of its own, which keeps nothing yet.

To wake the thread costs as much as a tenth of a lock, so most leases come and go without it. It looks every two seconds
for as long as it finds a lease, or leases have come since its last look; only then does it sleep. Each step of this is
under one lock. What may come in between:

    a lease that is due within two seconds      wakes the thread
    a later one, while it looks by itself       is found by its next look, within two seconds
    one that comes and goes between two looks   is never seen, and keeps the thread from sleeping for one look more
    one that comes while it works               is seen before it waits
    one that comes while it sleeps              wakes it
"""

from __future__ import annotations

import logging
import math
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from firecron.base.clocks import Timing, back_off_within
from firecron.base.events import Events
from firecron.errors import StoreError, Unavailable


class Keepable(Protocol):
    """What the keeper needs of a lease. Times are in milliseconds on the monotonic clock."""

    name: str

    @property
    def ends(self) -> float: ...

    @property
    def renewal_due(self) -> float: ...

    def keep(self, seconds: float) -> bool: ...

    def lose(self, why: str) -> None: ...


@dataclass(slots=True)
class _Kept:
    lease: Keepable
    renews: bool
    limit: float
    due: float
    failures: int = 0


_LONGEST_WAIT = 2.0  # seconds


class Keeper:
    """Keeps each lease from `keep` to `forget`. `renewal_timeout` is the most seconds that one renewal may take.

    With `has_thread=False` it has no thread, and keeps its leases only inside `work`: tests that move the clock by hand
    need this.
    """

    def __init__(self, timing: Timing, events: Events, renewal_timeout: float, *, has_thread: bool = True) -> None:
        self._timing = timing
        self._events = events
        self._renewal_timeout = renewal_timeout
        self._has_thread = has_thread
        self._changed = threading.Condition()
        self._kept: dict[Keepable, _Kept] = {}
        self._thread: threading.Thread | None = None
        # Whether the thread waits until it is woken, and whether a lease has come since its last look.
        self._sleeps = False
        self._has_come = False

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
            self._has_come = True
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

    def abandon(self) -> None:
        """Keep nothing in a forked child, which has a keeper of its own. If the thread has forked, it ends there."""
        self._changed = threading.Condition()
        self._thread = None
        self._kept = {}

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
                self._sleeps = next_due is None and not self._has_come
                self._has_come = False
                if self._sleeps:
                    self._timing.wait(self._changed, None)
                elif next_due is None or next_due > now:
                    # The steps are short, because this wait stops while the machine is suspended, but leases age on.
                    left = math.inf if next_due is None else (next_due - now) / 1000
                    self._timing.wait(self._changed, min(left, _LONGEST_WAIT))

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
            if not lease.keep(min(self._renewal_timeout, left / 3000)):
                self.forget(lease)
                return
            kept.failures = 0
            kept.due = min(lease.renewal_due, kept.limit)
        except StoreError as error:
            kept.failures += 1
            pause = back_off_within(left / 1000, error, kept.failures, random.random())
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
