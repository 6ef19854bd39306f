"""A contender for locks: carries a bid from its first try to the lease that is kept.

All tries of a bid share its token. `attempt` makes one try. `try_once` makes one try and, if it takes the lock, makes
the lease and hands it to the keeper. `acquire` and `acquire_async` try until the wait is over, and emit the answer. A
failure of the database is a `Refusal`, never an exception.

`service` has the methods for users. A run claims its tick by `attempt`, and makes its lease when the run begins.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import inf
from typing import Literal, TypeAlias, TypeVar

from firecron.base.clocks import Deadline, Timing
from firecron.base.events import Events
from firecron.base.identity import Identity, new_holder
from firecron.base.instants import Duration, milliseconds
from firecron.base.names import check_name
from firecron.base.off_loop import off_loop
from firecron.base.recent import Recent
from firecron.base.seldom import Seldom
from firecron.base.server_clock import ServerClock
from firecron.errors import ConfigurationError, Denied, Unavailable
from firecron.lock.fields import much
from firecron.lock.lease import Keeper, Lease
from firecron.lock.protocol import ABSENT, Bid, Driver, Held, acquiring, cancelling, reading
from firecron.lock.record import Choose, LockRecord, Lost, Refused, Request
from firecron.lock.refusal import LEVELS, Refusal, Roster, not_known, refusal_of
from firecron.lock.trail import reason
from firecron.lock.waiting import Streams, Waiting, Waking
from firecron.settings import Settings
from firecron.store import Paths, Snapshot, Store

T = TypeVar("T")
# What a thread of the pools is for.
Purpose: TypeAlias = Literal["acquire", "release"]


class Contender:
    """Contends for the locks of one database, on behalf of one process. All threads of the process share it.

    `known` has each lock's node as it was last seen, by the lock's name. It only saves requests: a bid writes by it,
    but the answer to a bid never rests on it.
    """

    def __init__(
        self,
        store: Store,
        paths: Paths,
        clock: ServerClock,
        timing: Timing,
        settings: Settings,
        identity: Identity,
        events: Events,
        streams: Streams,
        *,
        has_threads: bool = True,
    ) -> None:
        self._timing = timing
        self._settings = settings
        self._identity = identity
        self._events = events
        self._paths = paths
        self._clock = clock
        self._driver = Driver(store, clock, timing, settings)
        self.streams = streams
        self.margin = self._driver.margin
        self.keeper = Keeper(timing, events, settings.request_timeout, has_thread=has_threads)
        self.roster = Roster()
        self.known: Recent[str, Snapshot] = Recent()
        # The refusals that were logged at their higher level, as lock name and reason.
        self._told: Recent[tuple[str, str], None] = Recent()
        self._seldom = Seldom(lambda seconds: Deadline.after(timing, seconds))
        self._pools: dict[str, ThreadPoolExecutor] = {}

    def path(self, name: str) -> str:
        """Return the path of a lock's node."""
        return self._paths.lock(name)

    def bid(
        self,
        name: str,
        ttl: Duration,
        *,
        hold_at_least: Duration = 0,
        fenced: bool = False,
        renews: bool = False,
        slot: str | None = None,
        momentary: bool = False,
        choose: Choose | None = None,
        max_runtime: int | None = None,
        kind: str | None = None,
    ) -> Bid:
        """Check the arguments of a request for a lock, and make the bid.

        `slot` claims a tick in the write that takes the lock. `momentary` releases the lock in the same write. `choose`
        fits the claim to the record that is found. After `max_runtime` (milliseconds) the lease is lost, even if it is
        renewed. `kind` is what the name belongs to.
        """
        check_name(name)
        for_ms = milliseconds(ttl, "ttl")
        self._settings.check_ttl(for_ms)
        at_least = milliseconds(hold_at_least, "hold_at_least")
        if at_least > for_ms:
            raise ConfigurationError(
                f"hold_at_least ({at_least / 1000:g} s) must not be longer than ttl ({for_ms / 1000:g} s)"
            )
        request = Request(
            holder=new_holder(),
            ttl=for_ms,
            instance_id=self._identity.instance_id,
            instance=self._identity.instance,
            margin=self._driver.margin,
            fenced=fenced,
            slot=slot,
            momentary=momentary,
            renews=renews,
            kind=kind,
        )
        return Bid(name, request, at_least, choose, max_runtime)

    def acquire(self, bid: Bid, wait: float) -> Lease | Refusal:
        """Try until the answer is final or `wait` seconds are over. Emit the answer and return it."""
        waiting = self.waiting(bid.name, wait)
        answer: Lease | Refusal | None = None
        try:
            try:
                answer = self.try_once(bid, waiting.start(self._settings.request_timeout))
                while waiting.goes_on(answer):
                    waiting.pause()
                    answer = self.try_once(bid, waiting.start(self._settings.request_timeout))
            finally:
                waiting.close()
            self.tell(answer)
            return answer
        except BaseException:
            # Ctrl-C may come at any line, and a listener may raise. The caller then has no lease, so nothing may renew
            # it.
            self.give_back(answer)
            raise

    async def acquire_async(self, bid: Bid, wait: float) -> Lease | Refusal:
        """Do the same as `acquire` without blocking the event loop.

        If the task is cancelled, a lease that is acquired later is released.
        """
        waking = Waking()
        waiting = self.waiting(bid.name, wait, waking.wake)
        try:
            answer = await self._try_async(bid, waiting)
            while waiting.goes_on(answer):
                await waking.pause(waiting)
                answer = await self._try_async(bid, waiting)
        finally:
            waiting.close()
        try:
            self.tell(answer)
        except BaseException:
            self.give_back(answer)
            raise
        return answer

    async def _try_async(self, bid: Bid, waiting: Waiting) -> Lease | Refusal:
        # The wait for a free thread counts against the deadline.
        within = min(waiting.start(self._settings.request_timeout), self._settings.acquire_timeout)
        deadline = Deadline.after(self._timing, within)
        attempt = lambda: self.try_once(bid, deadline.remaining())  # noqa: E731
        return await off_loop(attempt, self._pool("acquire").submit, unwanted=self.give_back)

    def waiting(self, name: str, wait: float, wake: Callable[[], object] | None = None) -> Waiting:
        """Return the tries for a lock, for who makes them himself. `wake` is called when a pause may be over sooner."""
        path = self._paths.lock(name)
        return Waiting(wait, self.streams, path, self._clock, self._timing, self._driver.margin, wake=wake)

    def try_once(self, bid: Bid, within: float = inf) -> Lease | Refusal:
        """Try once, for `within` seconds at most, without an event.

        Return the lease, which the keeper keeps from now on, or the refusal.
        """
        answer = self.attempt(bid, within)
        if isinstance(answer, Refusal):
            return answer
        try:
            return self.lease(bid, answer)
        except Unavailable as error:
            return not_known(bid.name, "unavailable", error)

    def attempt(self, bid: Bid, within: float = inf) -> Held | Refusal:
        """Try once, for `within` seconds at most. Return the acquired lock, or the refusal.

        `lease` or `unkept` makes a lease of an acquired lock.
        """
        deadline = self._driver.deadline(min(self._settings.acquire_timeout, bid.request.ttl / 3000, within))
        exchange = acquiring(bid.request, self.known.get(bid.name), bid.written, bid.replaced, bid.choose)
        try:
            answer = self._driver.run(exchange, self._paths.lock(bid.name), deadline)
        except Unavailable as error:
            return not_known(bid.name, "unavailable", error)
        except Denied as error:
            return not_known(bid.name, "denied", error)
        if isinstance(answer, Refused):
            return refusal_of(bid.name, answer, bid.request, self.roster)
        self.known.put(bid.name, answer.snapshot)
        self._weigh(bid.name, answer.record)
        return answer

    def lease(self, bid: Bid, held: Held) -> Lease:
        """Make the lease of an acquired lock, and give it to the keeper.

        If the keeper can't take it, the lock is released, and this raises Unavailable.
        """
        lease = self.unkept(bid, held)
        try:
            limit = None if bid.max_runtime is None else held.term.reading.mono + bid.max_runtime
            self.keeper.keep(lease, renews=bid.request.renews, limit=limit)
            return lease
        except BaseException:
            # This includes Ctrl-C and exceptions of a signal handler: the caller gets no lease, so it is released here.
            lease.release()
            raise

    def unkept(self, bid: Bid, held: Held) -> Lease:
        """Make the lease of an acquired lock, without giving it to the keeper."""
        return Lease(
            bid.name,
            self._paths.lock(bid.name),
            held,
            ttl=bid.request.ttl,
            hold_at_least=bid.hold_at_least,
            is_fenced=bid.request.fenced,
            has_slot=bid.request.slot is not None or bid.choose is not None,
            driver=self._driver,
            events=self._events,
            on_end=self._ended,
            on_record=self._weigh,
        )

    def cancel(self, name: str, holder: str, fence: int, why: str | None = None) -> bool:
        """Ask the holder of one acquisition to stop: it learns of that at its next renewal. `why` is for people.

        Return False if the acquisition is over. Raise StoreError if it is not known whether the holder is asked.
        """
        deadline = self._driver.deadline(self._settings.acquire_timeout)
        asked = cancelling(holder, fence, reason(why))
        return not isinstance(self._driver.run(asked, self._paths.lock(name), deadline), Lost)

    def give_back(self, answer: object) -> None:
        """Release the answer if it is a lease.

        If the release is interrupted, the lock is not renewed any more, and expires.
        """
        if isinstance(answer, Lease):
            try:
                answer.release()
            finally:
                self.keeper.forget(answer)

    async def off_loop(
        self, purpose: Purpose, call: Callable[[], T], *, unwanted: Callable[[T], object] | None = None
    ) -> T:
        """Make the call on a thread of this purpose. If the task is cancelled, `unwanted` gets its result."""
        return await off_loop(call, self._pool(purpose).submit, unwanted=unwanted)

    async def release_async(self, lease: Lease) -> None:
        """Release the lease without blocking the event loop. If the task is cancelled, the release goes on."""
        await asyncio.shield(off_loop(lease.release, self._pool("release").submit))

    def tell(self, answer: Lease | Refusal, *, quietly: bool = False) -> None:
        """Emit the event for the answer to a bid: a refusal at level DEBUG if its cause is logged elsewhere."""
        if isinstance(answer, Lease):
            answer.tell_acquired()
            return
        self._events.emit(
            "lock.unavailable" if answer.reason == "unavailable" else "lock.refused",
            answer.name,
            logging.DEBUG if quietly else self._level(answer),
            answer.message,
            reason=answer.reason,
            holder=answer.holder,
            instance_id=answer.instance_id,
            instance=answer.instance,
            slot=answer.slot,
        )

    @property
    def request_timeout(self) -> float:
        """The most seconds that one request may take."""
        return self._settings.request_timeout

    def read(self, path: str) -> Snapshot:
        """Return a node, and try again for a while if that fails. Raise StoreError."""
        return self._driver.run(reading(), path, self._driver.deadline(self._settings.acquire_timeout))

    def now(self) -> int:
        """Return RTDB's time. Raise Unavailable if it can't be known."""
        return self._driver.clock.now(self._driver.deadline(self._settings.acquire_timeout)).server

    def close(self) -> None:
        """End the threads. Leases are not renewed any more."""
        self.streams.close()
        self.keeper.stop()
        for pool in self._pools.values():
            pool.shutdown(wait=False)
        self._pools = {}

    def after_fork(self) -> None:
        """Drop the parent's threads and leases in a forked child."""
        self.streams.after_fork()
        self.keeper.after_fork()
        self._pools = {}

    def _pool(self, purpose: Purpose) -> ThreadPoolExecutor:
        """Return the threads for asyncio callers. Releases have their own, so they never wait for slow acquires."""
        if purpose not in self._pools:
            self._pools[purpose] = ThreadPoolExecutor(max_workers=16, thread_name_prefix=f"firecron-{purpose}")
        return self._pools[purpose]

    def _ended(self, lease: Lease, left: Snapshot | None) -> None:
        self.keeper.forget(lease)
        if left == ABSENT:
            self.known.forget(lease.name)  # a node that isn't known is taken for absent
        elif left is not None:
            self.known.put(lease.name, left)

    def _weigh(self, name: str, record: LockRecord) -> None:
        """Say what a node carries beside the lock if that is much: once a minute, because each renewal finds it."""
        found = much(record.kept)
        if found is not None and self._seldom.count(name) is not None:
            message = f'The node of lock "{name}" is large: {found}. Remove what is not needed in the Firebase console'
            self._events.emit("lock.large", name, logging.WARNING, message, why=found)

    def _level(self, refusal: Refusal) -> int:
        """Return the level at which a refusal is logged.

        In a fleet most tries are refused. The first `slot_done` of a name shows that the lock works, so it is INFO;
        later ones are DEBUG. A refusal that an operator should look at is a WARNING, once per name and reason.
        """
        level = LEVELS[refusal.reason]
        higher = logging.WARNING if refusal.is_strange else logging.INFO if refusal.reason == "slot_done" else level
        key = refusal.name, refusal.reason
        if higher == level or key in self._told:
            return level
        self._told.put(key, None)
        return higher
