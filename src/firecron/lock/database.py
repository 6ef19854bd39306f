"""One database, for one process: the one thing that each part of firecron gets.

    database.store, .paths, .settings, .events, .identity       what it is, and who asks
    database.clock, .timing, .deadline(), .now()                what time it is there, and here
    database.run(exchange, path, deadline)                      an exchange, carried out on this thread
    database.try_to_acquire(database.bid(name, ttl))            one try for a lock: what is held now, or a refusal
    database.streams, .keeper                                   the threads that work for all parts

`blocks` tries until the wait is over, and makes leases. `LockService` is the same database for users.

All tries of a bid share its token. A failure of the database is a `Refusal`, never an exception.

A forked child has a copy of this. What belongs to a process is made anew there (`after_fork`): so no part keeps one of
these things beyond a call, but asks the database for it. What may interleave with a fork, which copies all memory at
once, but only the thread that forks:

    another thread holds a lock, or is waiting for RTDB's time    the copy of the lock is never used: the child has new
                                                                  clocks, streams, a new keeper and new pools
    the keeper is renewing a lease                                the parent's renewal goes on. In the child the lease
                                                                  is over (`Lease`): it is neither renewed nor released
    a request is under way                                        the store drops its sockets in the child
    the forking thread is between two lines of this module        it is the child's only thread, and goes on with what
                                                                  it had: a try that it made is refused or expires
"""

from __future__ import annotations

import logging
import os
import random
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

from firecron.base.clocks import Deadline, ServerClock, SystemTiming, Timing, wait_or_raise
from firecron.base.events import Events, LastValues, Seldom
from firecron.base.flag import in_each_child
from firecron.base.identity import Identity
from firecron.base.instants import Duration, milliseconds
from firecron.base.threads import off_loop
from firecron.errors import ConfigurationError, Denied, StoreError, Unavailable
from firecron.lock.fields import Pause, much, pause_in, reason
from firecron.lock.keeper import Keepable, Keeper
from firecron.lock.protocol import (
    ABSENT,
    Action,
    Answer,
    BackOff,
    Bid,
    Exchange,
    Held,
    Now,
    Read,
    Swap,
    Swapped,
    acquiring,
    cancelling,
    reading,
)
from firecron.lock.record import Choose, LockRecord, Lost, Refused
from firecron.lock.refusal import LEVELS, Refusal, SignsOfLife, not_known, refusal_of
from firecron.lock.stored import LookOptions
from firecron.lock.waiting import NodeStreams, Places, on_thread, places_of
from firecron.rtdb.store import RtdbStore
from firecron.rtdb.target import Target, find_target, warn_of_host
from firecron.settings import Settings, given
from firecron.store import (
    SERVER_TIME,
    Dated,
    Paths,
    Resting,
    Snapshot,
    Store,
    check_entry_name,
    check_name,
    is_entry_name,
)

if TYPE_CHECKING:
    import firebase_admin

T = TypeVar("T")
# What a thread of the pools is for.
Purpose: TypeAlias = Literal["acquire", "release"]
# Threads besides the workers whose connections are kept open: the program's own, the keeper's, the heartbeat's.
_OTHER_THREADS = 32


def new_holder() -> str:
    """Return a random token for a holder, short enough for the console to show it whole."""
    return secrets.token_urlsafe(12)


class Database:
    """The database as the parts of this process share it. All threads may use it. Making one does no I/O.

    `known` has each lock's node as it was last seen, by the lock's name. It only saves requests: a bid writes by it,
    but the answer to a bid never rests on it. `process` is another object in a forked child. `chance` returns a random
    number from 0 to 1. Without `has_threads` nothing is renewed or watched by itself.
    """

    def __init__(
        self,
        app: firebase_admin.App | None = None,
        settings: Settings | None = None,
        *,
        store: Store | None = None,
        timing: Timing | None = None,
        has_threads: bool = True,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._app = app
        self.settings = given(settings)
        self.margin = self.settings.margin_ms
        self._least_ttl = self.settings.least_ttl
        self.timing = timing or SystemTiming()
        self.has_threads = has_threads
        self.chance = chance
        self.events = Events()
        connections = self.settings.workers + _OTHER_THREADS
        self.store = store or RtdbStore(self.target, self.timing, partial(warn_of_host, self.events), connections)
        self.paths = Paths(self.settings.prefix)
        self.identity = Identity()
        self.signs_of_life = SignsOfLife()
        self.known: LastValues[str, Snapshot] = LastValues()
        # The refusals that were logged at their higher level, as lock name and reason.
        self._told: LastValues[tuple[str, str], None] = LastValues()
        # With clocks of its own it is a test's, and the test may have many.
        self._has_own_places = timing is not None
        self._begin()
        in_each_child(self.after_fork)

    def _begin(self) -> None:
        """Make what belongs to one process: what has threads or locks."""
        settings, timeout = self.settings, self.settings.request_timeout
        self.process = object()
        self.clock = self._clock_of(
            lambda deadline: self.store.timestamp(self.paths.clock, deadline), settings.clock_samples
        )
        self._readers_clock = self._clock_of(self._date, 1)
        self.streams = NodeStreams(
            self.store,
            self.timing,
            self.events,
            timeout,
            begin=on_thread if self.has_threads and settings.watch else None,
            places=Places() if self._has_own_places else places_of(os.getpid()),
            chance=self.chance,
        )
        self.keeper = Keeper(self.timing, self.events, timeout, has_thread=self.has_threads)
        self._seldom = Seldom(self.deadline)
        self._pools: dict[str, ThreadPoolExecutor] = {}

    def after_fork(self) -> None:
        """Begin anew in a forked child: sockets, threads and leases are the parent's."""
        estimate, readers = self.clock.estimate, self._readers_clock.estimate
        self.identity = self.identity.settled()
        self.keeper.abandon()
        self.streams.abandon()
        self._begin()
        self.clock.estimate, self._readers_clock.estimate = estimate, readers
        self.store.after_fork()  # last: if a user's store raises here, no lease of the parent is trusted all the same

    # --- time, and exchanges with it

    def deadline(self, seconds: float | None = None) -> Deadline:
        """Return the deadline in so many seconds; without them, in what one request may take."""
        return Deadline.after(self.timing, self.settings.request_timeout if seconds is None else seconds)

    def now(self, deadline: Deadline) -> int:
        """Return RTDB's time for what is shown. Raise StoreError if it can't be known.

        Where it is not known, to ask for it takes a write, mostly one alone. A user that may only read has the time of
        the database's answers instead, which is right to the second, or else this machine's. No lock depends on that
        time: such a user can't acquire any.
        """
        moment = self.clock.peek() or self._readers_clock.peek()
        if moment is None:
            try:
                moment = self.clock.now(deadline, to_show=True)
            except Denied:
                moment = self._readers_clock.now(deadline)
        return moment.server

    def node(self, path: str, deadline: Deadline | None = None) -> object:
        """Return the content of a node, by one request. Raise StoreError if that fails."""
        return self.store.read(path, deadline or self.deadline()).node

    def pause_of(self, name: str) -> Pause | None:
        """Return the pause that holds this lock now, by its node. Raise StoreError."""
        node = self.node(self.paths.lock(name))
        pause = pause_in(node) if isinstance(node, dict) else None
        return pause if pause is not None and pause.holds(self.now(self.deadline())) else None

    def run(self, exchange: Exchange[T], path: str, deadline: Deadline, lease_ends: float | None = None) -> T:
        """Run an exchange on one node, and return its result. Raise StoreError if the exchange fails.

        Each action is carried out. Its answer is sent into the exchange, or its failure is raised there.
        """
        try:
            action = next(exchange)
            while True:
                try:
                    answer = self._carry_out(action, path, deadline, lease_ends)
                except StoreError as error:
                    action = exchange.throw(error)
                else:
                    action = exchange.send(answer)
        except StopIteration as done:
            outcome: T = done.value
            return outcome

    def _carry_out(self, action: Action, path: str, deadline: Deadline, lease_ends: float | None) -> Answer:
        match action:
            case Now():
                return self.clock.now(deadline)
            case Read():
                return self.store.read(path, self._request(deadline, lease_ends))
            case Swap(etag, node):
                found = self.store.swap(path, etag, node, self._request(deadline, lease_ends))
                return Swapped(found, self.timing.mono()) if isinstance(found, str) else found
            case BackOff(tries, error, first):
                try:
                    wait_or_raise(error, tries, deadline, self.timing, self.chance())
                except StoreError:
                    raise (first or error) from None
                return None

    def _request(self, deadline: Deadline, lease_ends: float | None) -> Deadline:
        seconds = self.settings.request_timeout
        if lease_ends is not None:
            seconds = min(seconds, (lease_ends - self.timing.mono()) / 3000)
        request = deadline.within(seconds)
        if request.remaining() <= 0:
            raise Unavailable("the deadline has passed")
        return request

    def snapshot(self, path: str) -> Snapshot:
        """Return a node, and try again for a while if that fails. Raise StoreError."""
        return self.run(reading(), path, self.deadline(self.settings.acquire_timeout))

    # --- one try for a lock

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
        look: LookOptions | None = None,
    ) -> Bid:
        """Check the arguments of a request for a lock, and make the bid.

        `slot` claims a tick in the write that takes the lock. `momentary` releases the lock in the same write. `choose`
        fits the claim to the record that is found. After `max_runtime` (milliseconds) the lease is lost, even if it is
        renewed. `kind` is what the name belongs to. With `look`, and only then, the name is that of an entry.
        """
        check_name(name) if look is None else check_entry_name(name)
        for_ms = milliseconds(ttl, "ttl")
        if for_ms / 1000 < self._least_ttl:
            self.settings.check_ttl(for_ms)  # it knows the rule, and the words
        at_least = milliseconds(hold_at_least, "hold_at_least")
        if at_least > for_ms:
            raise ConfigurationError(
                f"hold_at_least ({at_least / 1000:g} s) must not be longer than ttl ({for_ms / 1000:g} s)"
            )
        return Bid(
            name=name,
            holder=new_holder(),
            ttl=for_ms,
            instance_id=self.identity.instance_id,
            instance=self.identity.instance,
            margin=self.margin,
            fenced=fenced,
            slot=slot,
            momentary=momentary,
            renews=renews,
            kind=kind,
            hold_at_least=at_least,
            choose=choose,
            max_runtime=max_runtime,
            look=look,
        )

    def try_to_acquire(self, bid: Bid, within: float = inf) -> Held | Refusal:
        """Try once, for `within` seconds at most. Return the acquired lock, or the refusal, without an event."""
        deadline = self.deadline(min(self.settings.acquire_timeout, bid.ttl / 3000, within))
        known = self.known.get(bid.name)
        exchange = acquiring(bid, known, bid.written, bid.replaced, bid.choose, bid.look)
        try:
            answer = self.run(exchange, self.paths.lock(bid.name), deadline)
        except Unavailable as error:
            return not_known(bid.name, "unavailable", error)
        except Denied as error:
            return not_known(bid.name, "denied", error)
        if isinstance(answer, Refused):
            current = answer.current
            is_kept = isinstance(current, LockRecord) and (current.slot or current.fence)
            if answer.seen is not None and bid.look is None and is_kept:
                # It stays after its release. If the next try comes before its lease is over, it begins with a read,
                # which is shorter than a write in vain.
                self.known.put(bid.name, answer.seen)
            return refusal_of(bid.name, answer, bid, self.signs_of_life)
        if bid.look is None:
            self.known.put(bid.name, answer.snapshot)
        self.emit_if_large(bid.name, answer.record)
        return answer

    def ring(self, *jobs: str) -> None:
        """Tell the lookers of these stored jobs to look now. If that fails, they do at their next beat."""
        with suppress(StoreError):
            if jobs:
                self.store.merge(self.paths.bells, dict.fromkeys(jobs, SERVER_TIME), self.deadline())

    def cancel(self, name: str, holder: str, fence: int, why: str | None = None) -> bool:
        """Ask the holder of one acquisition to stop: it learns of that at its next renewal. `why` is for people.

        Return False if the acquisition is over. Raise StoreError if it is not known whether the holder is asked.
        """
        look = LookOptions(self.margin) if is_entry_name(name) else None
        asked, deadline = cancelling(holder, fence, reason(why), look), self.deadline(self.settings.acquire_timeout)
        return not isinstance(self.run(asked, self.paths.lock(name), deadline), Lost)

    def emit_refusal(self, refusal: Refusal, *, quietly: bool = False) -> None:
        """Emit the event of a refusal: at level DEBUG if its cause is logged elsewhere."""
        self.events.emit(
            "lock.unavailable" if refusal.reason == "unavailable" else "lock.refused",
            refusal.name,
            logging.DEBUG if quietly else self._level(refusal),
            refusal.message,
            reason=refusal.reason,
            holder=refusal.holder,
            instance_id=refusal.instance_id,
            instance=refusal.instance,
            slot=refusal.slot,
        )

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

    def emit_if_large(self, name: str, record: LockRecord) -> None:
        """Emit what a node carries beside the lock if that is much: once a minute, because each renewal finds it."""
        found = much(record.kept)
        if found is not None and self._seldom.count(name) is not None:
            message = f'The node of lock "{name}" is large: {found}. Remove what is not needed in the Firebase console'
            self.events.emit("lock.large", name, logging.WARNING, message, why=found)

    def ended(self, lease: Keepable, left: Snapshot | None) -> None:
        """Keep a lease no more that is over. `left` is the node that its release has left, if it is known."""
        self.keeper.forget(lease)
        if left == ABSENT:
            self.known.forget(lease.name)  # a node that isn't known is taken for absent
        elif left is not None and not is_entry_name(lease.name):
            self.known.put(lease.name, left)

    # --- where it is, its threads, and their end

    def connect(self) -> str:
        """Find the database now instead of at the first request, and return its address for people. No I/O.

        Raise ConfigurationError if no database is named.
        """
        self.store.connect()
        return self.store.name

    def target(self) -> Target:
        """Return the Realtime Database that the app and the settings name. No I/O.

        Raise ConfigurationError if none is named.
        """
        return find_target(self._app, self.settings.database_url, uid=self.settings.uid)

    async def off_loop(
        self, purpose: Purpose, call: Callable[[], T], *, unwanted: Callable[[T], object] | None = None
    ) -> T:
        """Make the call on a thread of this purpose. If the task is cancelled, `unwanted` gets its result.

        Releases have threads of their own, so they never wait for slow acquires.
        """
        if purpose not in self._pools:
            self._pools[purpose] = ThreadPoolExecutor(max_workers=16, thread_name_prefix=f"firecron-{purpose}")
        return await off_loop(call, self._pools[purpose].submit, unwanted=unwanted)

    def rest(self) -> None:
        """Close the sockets that no request uses. Leases are renewed as before, and locks can be acquired."""
        if isinstance(self.store, Resting):
            self.store.rest()

    def close(self) -> None:
        """Close the connections and end the threads. Leases are not renewed any more."""
        self.streams.close()
        self.keeper.stop()
        for pool in self._pools.values():
            pool.shutdown(wait=False)
        self._pools = {}
        self.store.close()

    def _clock_of(self, sample: Callable[[Deadline], int], samples: int) -> ServerClock:
        return ServerClock(
            sample,
            self.timing,
            margin=self.margin,
            samples=samples,
            drift=self.settings.clock_drift,
            interval=self.settings.clock_interval,
            request_timeout=self.settings.request_timeout,
        )

    def _date(self, deadline: Deadline) -> int:
        found = self.store.date(self.paths.clock, deadline) if isinstance(self.store, Dated) else None
        return round(self.timing.wall()) if found is None else found
