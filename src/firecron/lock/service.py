"""The lock, for everything that is not a cron job.

    locks = LockService()
    with locks.hold("nightly-import", ttl=60) as lease:
        ...  # runs on one instance at a time; renewed while it runs

The guarantee: between an acquire and the loss or the release of its lease no other holder trusts a lease of the same
name, as long as RTDB answers truthfully and instance clocks don't run at wildly different speeds. It is no guarantee
that a process that was frozen past its lease notices before its next line: what must not happen twice needs the fence
(`fenced=True`), or to be idempotent.

There are three answers to an acquire: a `Lease` (true), a `Refusal` that says who stands in the way (false), and a
`Refusal` whose reason is `unavailable`, `denied` or `malformed`: it is not known who holds the lock, so nothing runs.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from inspect import (
    isasyncgen,
    isasyncgenfunction,
    isawaitable,
    iscoroutine,
    iscoroutinefunction,
    isgenerator,
    isgeneratorfunction,
)
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Literal, TypeVar, cast, overload

from firecron.base.clocks import Deadline, SystemTiming, Timing
from firecron.base.durations import DAY, Duration, doubt, milliseconds
from firecron.base.events import Events
from firecron.base.forks import tell_after_fork
from firecron.base.identity import Identity, new_holder
from firecron.base.instants import to_text
from firecron.base.off_loop import off_loop
from firecron.base.server_clock import ServerClock
from firecron.errors import ConfigurationError, Denied, LeaseLost, Unavailable
from firecron.lock.driver import Driver
from firecron.lock.instances import Roster
from firecron.lock.keeper import Keeper
from firecron.lock.lease import Lease
from firecron.lock.lease_term import LeaseTerm
from firecron.lock.names import check_name
from firecron.lock.protocol import ABSENT, Choose, Held, acquiring
from firecron.lock.record import Number, Refused, Request
from firecron.lock.refusal import LEVELS, NotAcquired, Refusal, not_known, refusal_of
from firecron.lock.waiting import Patience, may_change
from firecron.rtdb.store import RtdbStore
from firecron.rtdb.target import Target, find_target
from firecron.settings import Settings, load
from firecron.store import Paths, Snapshot, Store

if TYPE_CHECKING:
    import firebase_admin

K = TypeVar("K")
T = TypeVar("T")

# Names that may be made of data (an order's number) are without end.
_MOST_REMEMBERED = 10_000
_UNFINISHED = (
    "gives a generator, whose body would run without the lock, when it is iterated: give with_lock a function that "
    "does all its work before it returns, or iterate in a block under hold()"
)


@dataclass(frozen=True, slots=True)
class Bid:
    """One wish to have a lock, through all its tries: they share the token, so that a write whose reply was lost
    becomes a win.
    """

    name: str
    request: Request
    hold_at_least: int
    renews: bool
    choose: Choose | None = None
    max_runtime: int | None = None
    written: dict[Number, LeaseTerm] = field(default_factory=dict)
    replaced: dict[Number, object] = field(default_factory=dict)


class LockService:
    """Locks in one Realtime Database.

    Give it a Firebase app, or none: then the default app is used, or one of its own, from `FIREBASE_CONFIG` and
    `FIRECRON_DATABASE_URL`. Making one does no I/O; the first acquire connects. It may be shared by all threads;
    after a fork the child's copy begins anew, and what the parent holds stays the parent's.
    """

    def __init__(
        self,
        app: firebase_admin.App | None = None,
        settings: Settings | None = None,
        *,
        store: Store | None = None,
        timing: Timing | None = None,
        has_threads: bool = True,
    ) -> None:
        self._app = app
        self.settings = settings or load()
        self.events = Events()
        self._timing = timing or SystemTiming()
        self.store = store or RtdbStore(self.target, self._timing, self._note_target)
        self.identity = Identity()
        self.roster = Roster()
        self.paths = Paths(self.settings.prefix)
        self.clock = ServerClock(
            lambda deadline: self.store.timestamp(self.paths.clock, deadline),
            self._timing,
            margin=self.settings.margin_ms,
            samples=self.settings.clock_samples,
            drift=self.settings.clock_drift,
            interval=self.settings.clock_interval,
            request_timeout=self.settings.request_timeout,
        )
        self._driver = Driver(self.store, self.clock, self._timing, self.settings)
        self.keeper = Keeper(self._timing, self.events, self.settings.request_timeout, has_thread=has_threads)
        # What was last seen of a node, and what was told of a name at its higher level.
        self._known: OrderedDict[str, Snapshot] = OrderedDict()
        self._told_once: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._pools: dict[str, ThreadPoolExecutor] = {}
        tell_after_fork(self)

    def acquire(
        self,
        name: str,
        ttl: Duration,
        *,
        wait: Duration | None = None,
        hold_at_least: Duration = 0,
        fenced: bool = False,
    ) -> Lease | Refusal:
        """Acquire the lock for `ttl`, or say why not.

        With `wait`, a lock that is held (or a database that can't be reached) is tried again for so long.
        `hold_at_least` keeps others out for a time from now even if it is released sooner. `fenced` gives the lease a
        fencing token.

        The lease lasts its ttl, and longer only by `lease.renew()`; in `hold` it is renewed for you.
        """
        return self._acquire(*self._asked(name, ttl, wait, hold_at_least, fenced=fenced))

    async def acquire_async(
        self,
        name: str,
        ttl: Duration,
        *,
        wait: Duration | None = None,
        hold_at_least: Duration = 0,
        fenced: bool = False,
    ) -> Lease | Refusal:
        """`acquire`, without blocking the event loop. If it is cancelled, what it may still acquire is released."""
        return await self._acquire_async(*self._asked(name, ttl, wait, hold_at_least, fenced=fenced))

    def hold(
        self,
        name: str,
        ttl: Duration,
        *,
        wait: Duration | None = None,
        hold_at_least: Duration = 0,
        fenced: bool = False,
    ) -> Hold:
        """A block under the lock, `with` or `async with`; NotAcquired is raised on entering, so the block never runs
        without it.

        The lease is renewed while the block runs, also while it blocks its thread or the event loop.
        """
        return Hold(self, *self._asked(name, ttl, wait, hold_at_least, fenced=fenced, renews=True))

    @overload
    def with_lock(self, name: str, fn: Callable[[], Awaitable[T]], ttl: Duration = ...) -> Awaitable[T | Refusal]: ...

    @overload
    def with_lock(self, name: str, fn: Callable[[], T], ttl: Duration = ...) -> T | Refusal: ...

    def with_lock(self, name: str, fn: Callable[[], object], ttl: Duration = 60) -> object:
        """Call `fn` under the lock, renewed while it runs; answers with its result, or with the Refusal, without a
        call.

        An async `fn` gives something to await; it is cancelled if the lease is lost, which then raises LeaseLost. A
        generator function is refused: its body would run when the caller iterates, without the lock.
        """
        if isgeneratorfunction(fn) or isasyncgenfunction(fn):
            raise TypeError(f"{fn!r} {_UNFINISHED}")
        bid, _ = self._asked(name, ttl, renews=True)
        if iscoroutinefunction(fn):
            return self._with_lock_async(bid, cast("Callable[[], Awaitable[object]]", fn))
        lease: Lease | Refusal | None = None
        try:
            lease = self._acquire(bid, 0)
            if isinstance(lease, Refusal):
                return lease
            result = fn()
        finally:
            self._release_if_any(lease)
        if isawaitable(result):
            if iscoroutine(result):
                result.close()
            raise TypeError(
                f"{fn!r} returned something to await, which would run without the lock: "
                "give with_lock the async function itself"
            )
        return _done(fn, result)

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
    ) -> Bid:
        """What a lock is asked for with, checked. Tries that share a bid share its token.

        `slot` claims a tick in the same write, `momentary` lets the lock go in it as well, `choose` makes the claim
        fit the record that is found, and after `max_runtime` (milliseconds) the lease is lost, renewed or not.
        """
        check_name(name)
        for_ms = milliseconds(ttl, "ttl")
        self.settings.check_ttl(for_ms)
        at_least = milliseconds(hold_at_least, "hold_at_least")
        if at_least > for_ms:
            raise ConfigurationError(
                f"hold_at_least ({at_least / 1000:g} s) must not be longer than ttl ({for_ms / 1000:g} s)"
            )
        request = Request(
            holder=new_holder(),
            ttl=for_ms,
            instance_id=self.identity.instance_id,
            instance=self.identity.instance,
            margin=self._driver.margin,
            fenced=fenced,
            slot=slot,
            momentary=momentary,
        )
        return Bid(name, request, at_least, renews, choose, max_runtime)

    def try_once(self, bid: Bid, within: float = inf) -> Lease | Refusal:
        """One try, without a word to the log. Never raises for what the database does: that is a Refusal."""
        answer = self.attempt(bid, within)
        if isinstance(answer, Refusal):
            return answer
        try:
            return self.lease(bid, answer)
        except Unavailable as error:
            return not_known(bid.name, "unavailable", error)

    def attempt(self, bid: Bid, within: float = inf) -> Held | Refusal:
        """`try_once`, `within` so many seconds, but what is held is not yet a lease that anybody keeps."""
        deadline = self._driver.deadline(min(self.settings.acquire_timeout, bid.request.ttl / 3000, within))
        exchange = acquiring(bid.request, self._known.get(bid.name), bid.written, bid.replaced, bid.choose)
        try:
            answer = self._driver.run(exchange, self.paths.lock(bid.name), deadline)
        except Unavailable as error:
            return not_known(bid.name, "unavailable", error)
        except Denied as error:
            return not_known(bid.name, "denied", error)
        if isinstance(answer, Refused):
            return refusal_of(bid.name, answer, bid.request, self.roster)
        _remember(self._known, bid.name, answer.snapshot)
        return answer

    def read(self, name: str) -> object:
        """What the lock's node holds, as it is. Raises StoreError."""
        return self.store.read(self.paths.lock(name), self.deadline(self.settings.request_timeout)).node

    def pause(self, name: str, is_paused: bool = True) -> None:
        """Keep everybody from acquiring the lock, or let them again. Raises StoreError."""
        deadline = self.deadline(self.settings.request_timeout)
        self.store.merge(self.paths.lock(check_name(name)), {"paused": True if is_paused else None}, deadline)

    def connect(self) -> str:
        """Find the database now, rather than with the first acquire, and return its address, for people.
        ConfigurationError if none is named. No I/O.
        """
        self.store.connect()
        return self.store.name

    def target(self) -> Target:
        """Which Realtime Database the app and the settings name; ConfigurationError as from `connect`. No I/O."""
        return find_target(self._app, self.settings.database_url, uid=self.settings.uid)

    def deadline(self, seconds: float) -> Deadline:
        """So many seconds from now, on this service's clock."""
        return Deadline.after(self._timing, seconds)

    def close(self) -> None:
        """Let go of connections and threads; another acquire would make new ones. Leases are renewed no more, and stay
        until they expire: release them first.
        """
        self.keeper.stop()
        for pool in self._pools.values():
            pool.shutdown(wait=False)
        self._pools = {}
        self.store.close()

    def after_fork(self) -> None:
        """In a forked child: no socket, thread or lease of the parent's is used."""
        self.keeper.after_fork()
        self.store.after_fork()
        self.clock.after_fork()
        self.events.after_fork()
        self.identity.after_fork()
        self._pools = {}

    def _note_target(self, target: Target) -> None:
        if target.unknown_host is not None:
            message = (
                f"The database URL's host is {target.unknown_host!r}, which is none of Firebase's (*.firebaseio.com, "
                "*.firebasedatabase.app): this service's access token is sent there. Check FIRECRON_DATABASE_URL"
            )
            self.events.emit("database.unknown_host", "firecron", logging.WARNING, message)

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
        """The bid that a caller asks for, and the seconds to wait. A number that was hardly meant in seconds gets a
        WARNING, once.
        """
        bid = self.bid(name, ttl, hold_at_least=hold_at_least, fenced=fenced, renews=renews)
        seconds = _waiting(wait)
        for said in (doubt(ttl, "ttl"), doubt(wait, "wait"), doubt(hold_at_least, "hold_at_least")):
            if said is not None and (said, "suspicious") not in self._told_once:
                _remember(self._told_once, (said, "suspicious"), None)
                self.events.emit("lock.suspicious", name, logging.WARNING, f'Lock "{name}": {said}')
        return bid, seconds

    def _acquire(self, bid: Bid, wait: float) -> Lease | Refusal:
        patience = Patience(wait, self._timing)
        answer: Lease | Refusal | None = None
        try:
            for pause in patience:
                if pause:
                    self._timing.sleep(pause)
                answer = self.try_once(bid, patience.within(self.settings.request_timeout))
                if not may_change(answer):
                    break
            assert answer is not None, "there is a try in any case"
            self.tell(answer)
            return answer
        except BaseException:
            # Ctrl-C may come at any line, and a listener may raise: a lease that nobody got must not be renewed.
            self._release_if_any(answer)
            raise

    async def _acquire_async(self, bid: Bid, wait: float) -> Lease | Refusal:
        patience = Patience(wait, self._timing)
        for pause in patience:
            if pause:
                await asyncio.sleep(pause)
            # The time in the queue for a thread counts.
            within = min(patience.within(self.settings.request_timeout), self.settings.acquire_timeout)
            deadline = self.deadline(within)
            attempt = lambda: self.try_once(bid, deadline.remaining())  # noqa: B023, E731  # run before the next round
            answer = await off_loop(attempt, self._pool("acquire").submit, unwanted=self._release_if_any)
            if not may_change(answer):
                break
        return self._told(answer)

    async def _with_lock_async(self, bid: Bid, fn: Callable[[], Awaitable[object]]) -> object:
        lease = await self._acquire_async(bid, 0)
        if isinstance(lease, Refusal):
            return lease
        try:
            work = asyncio.ensure_future(fn())
            loop = asyncio.get_running_loop()
            lease.when_lost(lambda: loop.call_soon_threadsafe(work.cancel))
            try:
                return _done(fn, await work)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                was_asked_to = task is not None and task.cancelling() > 0
                if lease.lost and work.cancelled() and not was_asked_to:
                    raise LeaseLost from None
                work.cancel()
                raise
        finally:
            await self._release_async(lease)

    async def _release_async(self, lease: Lease) -> None:
        # Shielded: if the task is cancelled meanwhile, the release goes on in its thread.
        await asyncio.shield(off_loop(lease.release, self._pool("release").submit))

    def _pool(self, purpose: Literal["acquire", "release"]) -> ThreadPoolExecutor:
        """Threads for asyncio callers; releases have their own, so that they don't wait behind slow acquires."""
        if purpose not in self._pools:
            self._pools[purpose] = ThreadPoolExecutor(max_workers=16, thread_name_prefix=f"firecron-{purpose}")
        return self._pools[purpose]

    def _told(self, answer: Lease | Refusal) -> Lease | Refusal:
        """The answer, once it is told. What interrupts the telling must not leave a lease behind that nobody knows
        of.
        """
        try:
            self.tell(answer)
        except BaseException:
            self._release_if_any(answer)
            raise
        return answer

    def _release_if_any(self, answer: Lease | Refusal | None) -> None:
        if isinstance(answer, Lease):
            try:
                answer.release()
            finally:
                # Where Ctrl-C cuts the release short, the lock expires by itself.
                self.keeper.forget(answer)

    def lease(self, bid: Bid, held: Held) -> Lease:
        """The lease of what is held, kept from now on. Raises Unavailable, the lock released, if it can't be kept."""
        lease = self.unkept(bid, held)
        try:
            self.keep(lease, bid, held)
            return lease
        except BaseException:
            # Also Ctrl-C, and what a signal's handler raises: nobody would know of the lease.
            lease.release()
            raise

    def unkept(self, bid: Bid, held: Held) -> Lease:
        """The lease of what is held, which nobody renews yet."""
        return Lease(
            bid.name,
            self.paths.lock(bid.name),
            held,
            ttl=bid.request.ttl,
            hold_at_least=bid.hold_at_least,
            is_fenced=bid.request.fenced,
            has_slot=bid.request.slot is not None or bid.choose is not None,
            driver=self._driver,
            events=self.events,
            on_end=self._ended,
        )

    def keep(self, lease: Lease, bid: Bid, held: Held) -> None:
        """Have the lease renewed, if the bid says so, and told when it is lost. Raises Unavailable if that can't be."""
        limit = None if bid.max_runtime is None else held.term.reading.mono + bid.max_runtime
        self.keeper.keep(lease, renews=bid.renews, limit=limit)

    def _ended(self, lease: Lease, left: Snapshot | None) -> None:
        self.keeper.forget(lease)
        if left == ABSENT:
            self._known.pop(lease.name, None)  # what isn't known is taken for absent
        elif left is not None:
            _remember(self._known, lease.name, left)

    def tell(self, answer: Lease | Refusal) -> None:
        """Say in an event what came of a bid."""
        if isinstance(answer, Lease):
            message = f'Lock "{answer.name}" acquired until {to_text(answer.expires_at)}'
            self.events.emit(
                "lock.acquired",
                answer.name,
                logging.INFO,
                message,
                holder=answer.holder,
                fence=answer.fence,
                slot=answer.slot,
                attempt=answer.attempt,
            )
            return
        slug = "lock.unavailable" if answer.reason == "unavailable" else "lock.refused"
        self.events.emit(
            slug,
            answer.name,
            self._level(answer),
            answer.message,
            reason=answer.reason,
            holder=answer.holder,
            instance_id=answer.instance_id,
            instance=answer.instance,
            slot=answer.slot,
        )

    def _level(self, refusal: Refusal) -> int:
        """A fleet's losers are cheap: the first spent tick of a name shows that the lock works, the others are for
        debugging. What is strange is told to an operator once.
        """
        level = LEVELS[refusal.reason]
        higher = logging.WARNING if refusal.is_strange else logging.INFO if refusal.reason == "slot_done" else level
        key = refusal.name, refusal.reason
        if higher == level or key in self._told_once:
            return level
        _remember(self._told_once, key, None)
        return higher


class Hold:
    """A block under a lock; made by `LockService.hold`, for one use."""

    def __init__(self, service: LockService, bid: Bid, wait: float) -> None:
        self._service = service
        self._bid = bid
        self._wait = wait
        self._lease: Lease | None = None
        self._unused = threading.Lock()

    def __enter__(self) -> Lease:
        self._use()
        answer: Lease | Refusal | None = None
        try:
            answer = self._service._acquire(self._bid, self._wait)
            return self._enter(answer)
        except BaseException:
            self._service._release_if_any(answer)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        lease = self._lease
        try:
            self._leave().release()
        finally:
            if lease is not None:
                self._service.keeper.forget(lease)

    async def __aenter__(self) -> Lease:
        self._use()
        return self._enter(await self._service._acquire_async(self._bid, self._wait))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._service._release_async(self._leave())

    def _use(self) -> None:
        # Its bid has one token: two blocks under it would pass for each other.
        if not self._unused.acquire(blocking=False):
            raise RuntimeError(f"this hold of {self._bid.name} was used before: call hold() anew for each block")

    def _enter(self, answer: Lease | Refusal) -> Lease:
        if isinstance(answer, Refusal):
            raise NotAcquired(answer) from answer.error
        self._lease = answer
        return answer

    def _leave(self) -> Lease:
        lease, self._lease = self._lease, None
        if lease is None:
            raise RuntimeError(f"the block under {self._bid.name} was left without having been entered")
        return lease


def _done(fn: object, result: object) -> object:
    """The result of a function whose work is done; TypeError if the work would only begin with the caller."""
    if isgenerator(result) or isasyncgen(result):
        raise TypeError(f"{fn!r} {_UNFINISHED}")
    return result


def _remember(memory: OrderedDict[K, T], key: K, value: T) -> None:
    """Keep the value as the newest, and forget the oldest if there are too many."""
    memory.pop(key, None)
    memory[key] = value
    if len(memory) > _MOST_REMEMBERED:
        memory.popitem(last=False)


def _waiting(wait: Duration | None) -> float:
    return 0 if wait is None else milliseconds(wait, "wait", most=7 * DAY) / 1000
