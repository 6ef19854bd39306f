"""The keeper: one thread that renews leases, and tells those that are over.

It works while the holder blocks its thread or its event loop. A renewal that fails is tried again with a growing
pause until the lease's own end; then the lease is lost, loudly. One renewal takes no longer than a third of what is
left of its lease, so a slow one costs the others little. In a forked child the keeper starts empty; with the process
it ends (its thread is a daemon).
"""

from __future__ import annotations

import logging
import math
import random
import threading
from dataclasses import dataclass
from typing import Protocol

from firecron.backoff import backoff
from firecron.errors import StoreError
from firecron.events import Events
from firecron.timing import Timing


class Keepable(Protocol):
    """What the keeper needs of a lease; times are on the monotonic clock, in milliseconds."""

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


class Keeper:
    """Keeps leases from `keep` to `forget`. `attempt` is how many seconds one renewal may take at the most.

    Without a thread of its own (`has_thread=False`) it keeps what it is told to in `work`, for tests that move the
    clock by hand.
    """

    def __init__(self, timing: Timing, events: Events, attempt: float, *, has_thread: bool = True) -> None:
        self._timing = timing
        self._events = events
        self._attempt = attempt
        self._has_thread = has_thread
        self._changed = threading.Condition()
        self._kept: dict[Keepable, _Kept] = {}
        self._thread: threading.Thread | None = None

    def keep(self, lease: Keepable, *, renews: bool, limit: float | None = None) -> None:
        """Watch the lease, and renew it if it `renews`; at the `limit` (on the monotonic clock) it is lost in any
        case.
        """
        limit = math.inf if limit is None else limit
        with self._changed:
            due = min(lease.renewal_due if renews else lease.ends, limit)
            self._kept[lease] = _Kept(lease, renews, limit, due)
            if self._has_thread and (self._thread is None or not self._thread.is_alive()):
                self._thread = threading.Thread(target=self._run, name="firecron-keeper", daemon=True)
                self._thread.start()
            self._changed.notify()

    def forget(self, lease: Keepable) -> None:
        with self._changed:
            self._kept.pop(lease, None)

    def work(self) -> float | None:
        """Do what is due; answers with when the next thing will be (None: nothing to keep)."""
        for kept in self._due():
            self._attend(kept)
        with self._changed:
            return min((kept.due for kept in self._kept.values()), default=None)

    def after_fork(self) -> None:
        """In a forked child: nothing is kept here, and what the parent keeps is not the child's."""
        kept, self._kept = self._kept, {}
        self._changed = threading.Condition()
        self._thread = None
        for lease in kept:
            lease.disown()

    def _run(self) -> None:
        me = threading.current_thread()
        while self._thread is me:
            next_due = self.work()
            with self._changed:
                # Something may have come while this thread was at work, so the wait is reckoned anew under the lock.
                next_due = min((kept.due for kept in self._kept.values()), default=None)
                now = self._timing.mono()
                if next_due is None:
                    self._timing.wait(self._changed, None)
                elif next_due > now:
                    self._timing.wait(self._changed, (next_due - now) / 1000)

    def _due(self) -> list[_Kept]:
        now = self._timing.mono()
        with self._changed:
            return sorted((kept for kept in self._kept.values() if kept.due <= now), key=lambda kept: kept.lease.ends)

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
            kept.due = min(self._timing.mono() + backoff(kept.failures, random.random()) * 1000, lease.ends, kept.limit)
            self._events.emit(
                "lock.renewal_failed",
                lease.name,
                logging.WARNING,
                f'Lock "{lease.name}" could not be renewed, trying again: {error}',
                why=str(error),
                failures=kept.failures,
            )
        except Exception as error:
            # Whatever it is, it must end neither this thread nor the other leases: they would be lost in silence.
            self.forget(lease)
            lease.lose(f"its renewal broke: {error!r}")
