"""The lock, for everything that is not a cron job.

    locks = LockService()
    with locks.hold("nightly-import", ttl=60) as lease:
        ...  # runs on one instance at a time; the lease is renewed while the block runs

The guarantee: from an acquire until its lease is lost or released, no other holder trusts a lease of the same name.
This holds as long as RTDB answers truthfully and the instances' clocks don't run at wildly different speeds. It does
not mean that a process that was frozen for longer than its lease notices this before its next line. Work that must not
happen twice needs the fence (`fenced=True`), or has to be idempotent.

An acquire has one of three answers. A `Lease` (true): the lock is acquired. A `Refusal` (false) that says which holder
stands in the way. A `Refusal` whose reason is `unavailable`, `denied` or `malformed`: the holder is not known, so
nothing runs.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, TypeVar, cast, overload

from firecron.base.clocks import Deadline, ServerClock, Timing
from firecron.base.events import LastValues
from firecron.base.identity import Identity
from firecron.base.instants import DAY, Duration, doubt, milliseconds
from firecron.leaders.candidate import Candidate
from firecron.leaders.leader import make_election
from firecron.leaders.loop import LeaderLoop
from firecron.lock.audit_log import pause_lock
from firecron.lock.blocks import Hold, acquire, acquire_async, call, call_async, check_no_generator
from firecron.lock.database import Database
from firecron.lock.fields import ONCE
from firecron.lock.lease import Lease
from firecron.lock.protocol import Bid
from firecron.lock.refusal import Refusal
from firecron.settings import Settings
from firecron.steps.once import Done, Once, call_once, call_once_async
from firecron.store import Store

if TYPE_CHECKING:
    import firebase_admin

    from firecron.ops.schedules import Schedules

T = TypeVar("T")


class LockService:
    """Locks in one Realtime Database.

    Making a service does no I/O; the first acquire connects. All threads may share it. After a fork the child's copy
    starts empty, and the parent's leases stay with the parent. `database` is for firecron's own parts.

    Args:
        app: A Firebase app. Without one, the default app is used, or an app that is made from `FIREBASE_CONFIG` and
            `FIRECRON_DATABASE_URL`.
        settings: Settings. Without them, those of the environment are used.
        store: A store to use instead of the Realtime Database, such as `firecron.testing.MemoryStore`.
        timing: The clocks, such as a `firecron.testing.FakeClock`.
        has_threads: False in a test without threads. Then no lease is renewed automatically.
        database: What firecron's own parts share, instead of all of these.
    """

    def __init__(
        self,
        app: firebase_admin.App | None = None,
        settings: Settings | None = None,
        *,
        store: Store | None = None,
        timing: Timing | None = None,
        has_threads: bool = True,
        database: Database | None = None,
    ) -> None:
        self.database = database or Database(app, settings, store=store, timing=timing, has_threads=has_threads)
        self.settings = self.database.settings
        self.events = self.database.events
        self.store = self.database.store
        self._doubted: LastValues[str, None] = LastValues()

    @property
    def identity(self) -> Identity:
        """Who holds the locks of this process: `instance_id`, its revision, and `instance`."""
        return self.database.identity

    @property
    def clock(self) -> ServerClock:
        """RTDB's time, as this process knows it."""
        return self.database.clock

    @property
    def schedules(self) -> Schedules:
        """The stored schedules of this database's jobs, for a program that has none of their code."""
        from firecron.ops.schedules import Schedules

        return Schedules(self.database)

    def acquire(
        self,
        name: str,
        ttl: Duration,
        *,
        wait: Duration | None = None,
        hold_at_least: Duration = 0,
        fenced: bool = False,
    ) -> Lease | Refusal:
        """Acquire the lock, or return why not.

        The lease lasts its ttl. Only `lease.renew()` makes it last longer; in `hold` it is renewed for you. Durations
        are seconds or `timedelta`.

        Args:
            name: The lock's name, and its node in the database.
            ttl: How long the lock lasts unless it is renewed.
            wait: How long to try again while the lock is held, or the database can't be reached.
            hold_at_least: How long from now other holders are kept out, even if the lock is released sooner.
            fenced: Give the lease a fencing token.
        """
        return acquire(self.database, *self._asked(name, ttl, wait, hold_at_least, fenced=fenced))

    async def acquire_async(
        self,
        name: str,
        ttl: Duration,
        *,
        wait: Duration | None = None,
        hold_at_least: Duration = 0,
        fenced: bool = False,
    ) -> Lease | Refusal:
        """Do the same as `acquire` without blocking the event loop.

        If the task is cancelled, a lease that is acquired later is released.

        Args:
            name, ttl, wait, hold_at_least, fenced: As with `acquire`.
        """
        return await acquire_async(self.database, *self._asked(name, ttl, wait, hold_at_least, fenced=fenced))

    def hold(
        self,
        name: str,
        ttl: Duration,
        *,
        wait: Duration | None = None,
        hold_at_least: Duration = 0,
        fenced: bool = False,
    ) -> Hold:
        """Return a block under the lock, for `with` or `async with`.

        Entering the block raises NotAcquired if the lock is refused, so the block never runs without its lock. The
        lease is renewed while the block runs, even if the block occupies its thread or the event loop.

        Args:
            name, ttl, wait, hold_at_least, fenced: As with `acquire`.
        """
        return Hold(self.database, *self._asked(name, ttl, wait, hold_at_least, fenced=fenced, renews=True))

    @overload
    def with_lock(self, name: str, fn: Callable[[], Awaitable[T]], ttl: Duration = ...) -> Awaitable[T | Refusal]: ...

    @overload
    def with_lock(self, name: str, fn: Callable[[], T], ttl: Duration = ...) -> T | Refusal: ...

    def with_lock(self, name: str, fn: Callable[[], object], ttl: Duration = 60) -> object:
        """Call `fn` under the lock, which is renewed while `fn` runs.

        Returns the result of `fn`. If the lock is refused, it returns the Refusal without calling `fn`. For an async
        `fn` it returns an awaitable. If the lease is lost, the async `fn` is cancelled, and the awaitable raises
        LeaseLost. A generator function is refused, because its body would run when the caller iterates, without the
        lock.

        Args:
            name: The lock's name, and its node in the database.
            fn: A function, or an async function, that needs no arguments.
            ttl: How long the lock lasts if this process dies.
        """
        check_no_generator(fn)
        bid, _ = self._asked(name, ttl, renews=True)
        if iscoroutinefunction(fn):
            return call_async(self.database, bid, fn)
        return call(self.database, bid, fn)

    def lead(
        self, name: str, ttl: Duration = 15, *, pause: Duration = 1, max_term: Duration | None = None
    ) -> LeaderLoop:
        """Return the terms of a leader, for a loop in a `with` or `async with` block.

            with locks.lead("price-feed") as terms:
                for term in terms:
                    ...  # runs while this instance leads

        Each item is one term. The term's lease is renewed while the loop's body runs, and released when the body
        reaches its end or the block is left. The body is not cancelled: it has to look at `term.lost` and
        `term.stopping`, or to call `term.check()`. If it raises, the block is left.

        Args:
            name: The leader's name, and its node in the database. No job or plain lock may have it.
            ttl: How long the node lasts if this process dies: so long nobody leads then, and a margin.
            pause: How long this instance waits after a term before it stands again. After several terms in a row that
                end within a minute by themselves it waits for longer, up to a minute.
            max_term: The longest time that one term may last: then it is lost.
        """
        self._asked(name, ttl)
        return LeaderLoop(self.database, Candidate(self.database, make_election(name, ttl, pause, max_term)))

    def once(self, name: str, function: Callable[[], T], ttl: Duration = 60, wait: Duration | None = None) -> Done[T]:
        """Call `function` once and for all, whichever process comes first, and return what was done: `Done`.

        For a migration at the start. If its result is recorded, it is not called. While another process is at it, this
        waits. If it raises, or its process dies or loses the lock before the result is recorded, the next caller calls
        it again. Raise NotAcquired if the lock is refused, and LeaseLost if the lock is lost before the record.

        Args:
            name: The name of the work, and of its lock; not that of a job.
            function: A function that needs no arguments. Its result is JSON of 65,536 bytes at the most.
            ttl: How long the lock lasts if this process dies. It is renewed while the function runs.
            wait: How long to wait for another process; None: as long as it is at it.
        """
        once = self._once(name, ttl, wait)
        return cast("Done[T]", call_once(once, self.database, function))

    async def once_async(
        self, name: str, function: Callable[[], Awaitable[T]], ttl: Duration = 60, wait: Duration | None = None
    ) -> Done[T]:
        """Do the same as `once` with an async function, without blocking the event loop.

        If the lease is lost, the function is cancelled, and this raises LeaseLost.

        Args:
            name, function, ttl, wait: As with `once`; the function is async.
        """
        return cast("Done[T]", await call_once_async(self._once(name, ttl, wait), self.database, function))

    def read(self, name: str) -> object:
        """Return the content of the lock's node as it is. Raise StoreError if that fails.

        Args:
            name: The lock's name.
        """
        return self.database.node(self.database.paths.lock(name))

    def pause(
        self, name: str, is_paused: bool = True, *, why: str | None = None, until: datetime | None = None
    ) -> None:
        """Pause the lock, so that nothing can acquire it, or end the pause. Raise StoreError if that fails.

        Args:
            name: The lock's name.
            is_paused: False ends the pause.
            why: The reason, for people.
            until: When the pause ends by itself, an aware `datetime`.
        """
        pause_lock(self.database, name, is_paused, why, until)

    def connect(self) -> str:
        """Find the database now instead of at the first acquire, and return its address for people. No I/O.

        Raise ConfigurationError if no database is named.
        """
        return self.database.connect()

    def deadline(self, seconds: float) -> Deadline:
        """Return a deadline on this service's clock.

        Args:
            seconds: How long from now.
        """
        return self.database.deadline(seconds)

    def close(self) -> None:
        """Close the connections and end the threads. The next acquire makes new ones.

        Leases are not renewed any more, but stay until they expire: release them first.
        """
        self.database.close()

    def _once(self, name: str, ttl: Duration, wait: Duration | None) -> Once:
        _, seconds = self._asked(name, ttl, wait)
        bid = self.database.bid(name, ttl, fenced=True, renews=True, kind=ONCE)
        return Once(self.database, bid, None if wait is None else seconds)

    def _asked(
        self,
        name: str,
        ttl: Duration,
        wait: Duration | None = None,
        hold_at_least: Duration = 0,
        *,
        fenced: bool = False,
        renews: bool = False,
    ) -> tuple[Bid, float]:
        """Return the bid for the arguments of a caller, and the seconds to wait.

        A number that looks like milliseconds gets a WARNING, once.
        """
        bid = self.database.bid(name, ttl, hold_at_least=hold_at_least, fenced=fenced, renews=renews)
        seconds = 0 if wait is None else milliseconds(wait, "wait", most=7 * DAY) / 1000
        for said in (doubt(ttl, "ttl"), doubt(wait, "wait"), doubt(hold_at_least, "hold_at_least")):
            if said is not None and said not in self._doubted:
                self._doubted.put(said, None)
                self.events.emit("lock.suspicious", name, logging.WARNING, f'Lock "{name}": {said}')
        return bid, seconds
