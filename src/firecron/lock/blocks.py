"""Work under a lock: the tries for it, the block of `hold`, and the function that `with_lock` calls.

    with closing(Tries(database, name, wait)) as tries:
        if tries.joins():  # others of this process wait already
            tries.wait()
        answer = ...  # one try, for `tries.start(least)` seconds at most
        while tries.goes_on(answer):
            tries.wait()
            answer = ...

The loop is the same on a thread, on an event loop, and where a signal ends the pause. `try_once` makes one try and, if
it takes the lock, makes the lease and hands it to the keeper. `acquire` and `acquire_async` try until the wait is over,
and emit the answer. A run claims its tick by `Database.try_to_acquire`, and makes its lease when it begins.

No work runs without its lock. The lock is renewed while the work runs, and released when the work ends, also by an
exception.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from inspect import isasyncgen, isasyncgenfunction, isawaitable, iscoroutine, isgenerator, isgeneratorfunction
from math import inf
from types import TracebackType

from firecron.errors import LeaseLost, Unavailable
from firecron.lock.database import Database
from firecron.lock.lease import Lease
from firecron.lock.protocol import Bid, Held
from firecron.lock.refusal import NotAcquired, Refusal, not_known
from firecron.lock.waiting import Follow, RetryPolicy, Update

# --- the tries of a waiter


# Milliseconds that a thread may sleep too long, rather than be woken for them: RTDB's time is a whole number of them.
_CLOSE = 1.0


class Tries:
    """The tries of one waiter for the lock of this name. The last try comes when `wait` seconds are over.

    Without a wait there is one try. `wake` is called on another thread when `seconds` may have become less; without
    one of the caller's own, it ends `wait`.
    """

    def __init__(self, database: Database, name: str, wait: float, wake: Callable[[], object] | None = None) -> None:
        self._database = database
        self._deadline = database.deadline(wait)
        self._has_none = wait <= 0
        self._policy = RetryPolicy(database.margin, database.chance)
        self._changed = threading.Condition()
        # Made before it is added, so that it can be discarded at any moment.
        self._follow = Follow(database.paths.lock(name), wake or self._wake)
        self._update: Update | None = None
        self._asked = 0.0
        self._wakes_at: float | None = None

    def joins(self) -> bool:
        """Wait behind those of this process that hear of the lock already. Return whether there are any."""
        if self._has_none or not self._database.streams.join(self._follow):
            return False
        self._policy.joined(self._database.timing.mono())
        return True

    def start(self, least: float) -> float:
        """Begin a try. Return how many seconds it may take: the rest of the wait, but not less than `least`."""
        self._update, self._asked = self._follow.update, self._database.timing.mono()
        return inf if self._has_none else max(self._deadline.remaining(), least)

    def goes_on(self, answer: object) -> bool:
        """Take the answer of a try. Return whether there is another try, after a pause."""
        if not isinstance(answer, Refusal) or not may_change(answer) or self._deadline.remaining() <= 0:
            return False
        self._policy.refused(answer, self._update, self._asked)
        if answer.reason == "held":
            self._database.streams.add(self._follow)
        return True

    @property
    def can_hear(self) -> bool:
        """Whether a pause can become shorter while it lasts."""
        return self._database.streams.can_watch

    @property
    def hears(self) -> bool:
        """Whether changes of the lock's node are heard now."""
        return self._follow.update is not None

    def seconds(self) -> float:
        """Return the seconds until the next try, by what is heard now."""
        database, follow = self._database, self._follow
        ahead = database.streams.ahead(follow)
        due = self._policy.seconds(follow.update, database.clock.peek(), database.timing.mono(), ahead)
        return min(due, self._deadline.remaining())

    def wait(self) -> None:
        """Wait until the next try."""
        if not self.can_hear:
            self._database.timing.sleep(self.seconds())
            return
        timing = self._database.timing
        with self._changed:
            while (seconds := self.seconds()) > 0:
                self._wakes_at = timing.mono() + 1000 * seconds
                timing.wait(self._changed, seconds)
            self._wakes_at = None

    def close(self) -> None:
        """Follow the lock no more."""
        self._database.streams.discard(self._follow)

    def _wake(self) -> None:
        """Wake the waiter if it would sleep for too long. Most that is heard puts its next try off.

        While it makes a try, its policy is left alone: the answer needs what was known before.
        """
        with self._changed:
            at = self._wakes_at
            if at is not None and self._database.timing.mono() + 1000 * self.seconds() < at - _CLOSE:
                self._changed.notify_all()


class AsyncSleep:
    """Ends the pauses of a task, from any thread. Made on the task's loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_woken = asyncio.Event()

    def wake(self) -> None:
        with suppress(RuntimeError):  # the loop has ended, and the task with it
            self._loop.call_soon_threadsafe(self._is_woken.set)

    async def wait(self, tries: Tries) -> None:
        """Wait until the next try, without blocking the loop."""
        if not tries.can_hear:
            await asyncio.sleep(tries.seconds())
            return
        while (seconds := tries.seconds()) > 0:
            # Not `wait_for`: in Python 3.11 it loses a cancellation that comes together with what it waits for.
            with suppress(TimeoutError):  # the pause is over
                async with asyncio.timeout(seconds):
                    await self._is_woken.wait()
            self._is_woken.clear()


def may_change(answer: object) -> bool:
    """Return whether a later try may have another answer: a lock becomes free, or a database becomes reachable."""
    return isinstance(answer, Refusal) and answer.reason in ("held", "unavailable")


# --- one try, and all of them


def try_once(database: Database, bid: Bid, within: float = inf) -> Lease | Refusal:
    """Try once, for `within` seconds at most, without an event.

    Return the lease, which the keeper keeps from now on, or the refusal.
    """
    answer = database.try_to_acquire(bid, within)
    if isinstance(answer, Refusal):
        return answer
    try:
        return keep(database, bid, answer)
    except Unavailable as error:
        return not_known(bid.name, "unavailable", error)


def keep(database: Database, bid: Bid, held: Held) -> Lease:
    """Make the lease of an acquired lock, and give it to the keeper.

    If the keeper can't take it, the lock is released, and this raises Unavailable.
    """
    lease = Lease(database, bid, held)
    try:
        limit = None if bid.max_runtime is None else held.trust.reading.mono + bid.max_runtime
        database.keeper.keep(lease, renews=bid.renews, limit=limit)
        return lease
    except BaseException:
        # This includes Ctrl-C and exceptions of a signal handler: the caller gets no lease, so it is released here.
        lease.release()
        raise


def acquire(database: Database, bid: Bid, wait: float) -> Lease | Refusal:
    """Try until the answer is final or `wait` seconds are over. Emit the answer and return it."""
    tries: Tries | None = None
    answer: Lease | Refusal | None = None
    timeout = database.settings.request_timeout
    try:
        try:
            if wait <= 0:
                answer = try_once(database, bid)
            else:
                tries = Tries(database, bid.name, wait)
                if tries.joins():
                    tries.wait()
                answer = try_once(database, bid, tries.start(timeout))
                while tries.goes_on(answer):
                    tries.wait()
                    answer = try_once(database, bid, tries.start(timeout))
        finally:
            if tries is not None:
                tries.close()
        emit_answer(database, answer)
        return answer
    except BaseException:
        # Ctrl-C may come at any line, and a listener may raise. The caller then has no lease, so nothing may renew it.
        give_back(database, answer)
        raise


async def acquire_async(database: Database, bid: Bid, wait: float) -> Lease | Refusal:
    """Do the same as `acquire` without blocking the event loop.

    If the task is cancelled, a lease that is acquired later is released.
    """
    sleep = AsyncSleep()
    tries = Tries(database, bid.name, wait, sleep.wake)
    try:
        if tries.joins():
            await sleep.wait(tries)
        answer = await _try_async(database, bid, tries)
        while tries.goes_on(answer):
            await sleep.wait(tries)
            answer = await _try_async(database, bid, tries)
    finally:
        tries.close()
    try:
        emit_answer(database, answer)
    except BaseException:
        give_back(database, answer)
        raise
    return answer


async def _try_async(database: Database, bid: Bid, tries: Tries) -> Lease | Refusal:
    # The wait for a free thread counts against the deadline.
    settings = database.settings
    deadline = database.deadline(min(tries.start(settings.request_timeout), settings.acquire_timeout))
    attempt = lambda: try_once(database, bid, deadline.remaining())  # noqa: E731
    return await database.off_loop("acquire", attempt, unwanted=lambda answer: give_back(database, answer))


def emit_answer(database: Database, answer: Lease | Refusal) -> None:
    """Emit the event of the answer to a bid."""
    if isinstance(answer, Lease):
        answer.emit_acquired()
    else:
        database.emit_refusal(answer)


def give_back(database: Database, answer: object) -> None:
    """Release the answer if it is a lease.

    If the release is interrupted, the lock is not renewed any more, and expires.
    """
    if isinstance(answer, Lease):
        try:
            answer.release()
        finally:
            database.keeper.forget(answer)


async def release_async(database: Database, lease: Lease) -> None:
    """Release the lease without blocking the event loop. If the task is cancelled, the release goes on."""
    await asyncio.shield(database.off_loop("release", lease.release))


# --- the block, and the function

_UNFINISHED = (
    "returns a generator, whose body would run later, without the lock: give with_lock a function that does all its "
    "work before it returns, or iterate in a block under hold()"
)


class Hold:
    """A block under a lock. `LockService.hold` makes it; it can be used once."""

    def __init__(self, database: Database, bid: Bid, wait: float) -> None:
        self._database = database
        self._bid = bid
        self._wait = wait
        self._lease: Lease | None = None
        self._unused = threading.Lock()

    def __enter__(self) -> Lease:
        self._use()
        answer: Lease | Refusal | None = None
        try:
            answer = acquire(self._database, self._bid, self._wait)
            return self._enter(answer)
        except BaseException:
            give_back(self._database, answer)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        lease = self._lease
        try:
            self._leave().release()
        finally:
            if lease is not None:
                self._database.keeper.forget(lease)

    async def __aenter__(self) -> Lease:
        self._use()
        return self._enter(await acquire_async(self._database, self._bid, self._wait))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await release_async(self._database, self._leave())

    def _use(self) -> None:
        # The bid has one token, so two blocks under it would look like one holder.
        if not self._unused.acquire(blocking=False):
            raise RuntimeError(f"this hold of {self._bid.name} was used before: call hold() again for each block")

    def _enter(self, answer: Lease | Refusal) -> Lease:
        if isinstance(answer, Refusal):
            raise NotAcquired(answer) from answer.error
        self._lease = answer
        return answer

    def _leave(self) -> Lease:
        lease, self._lease = self._lease, None
        if lease is None:
            raise RuntimeError(
                f"the block under {self._bid.name} was left but never entered: use it in a with statement"
            )
        return lease


def call(database: Database, bid: Bid, fn: Callable[[], object]) -> object:
    """Call `fn` under the lock and return its result. Return the Refusal, without a call, if the lock is refused."""
    lease: Lease | Refusal | None = None
    try:
        lease = acquire(database, bid, 0)
        if isinstance(lease, Refusal):
            return lease
        result = fn()
    finally:
        give_back(database, lease)
    if isawaitable(result):
        if iscoroutine(result):
            result.close()
        raise TypeError(
            f"{fn!r} returned an awaitable, which would run without the lock: give with_lock the async function itself"
        )
    return _done(fn, result)


async def call_async(database: Database, bid: Bid, fn: Callable[[], Awaitable[object]]) -> object:
    """Await `fn()` under the lock and return its result. Return the Refusal, without a call, if the lock is refused.

    If the lease is lost, the work is cancelled and this raises LeaseLost.
    """
    lease = await acquire_async(database, bid, 0)
    if isinstance(lease, Refusal):
        return lease
    try:
        return _done(fn, await while_held(lease, fn))
    finally:
        await release_async(database, lease)


async def while_held(lease: Lease, fn: Callable[[], Awaitable[object]]) -> object:
    """Await `fn()` and return its result. If the lease is lost, cancel it and raise LeaseLost."""
    work = asyncio.ensure_future(fn())
    loop = asyncio.get_running_loop()
    lease.when_lost(lambda: loop.call_soon_threadsafe(work.cancel))
    try:
        return await work
    except asyncio.CancelledError:
        task = asyncio.current_task()
        was_asked_to = task is not None and task.cancelling() > 0
        if lease.lost and work.cancelled() and not was_asked_to:
            raise LeaseLost from None
        work.cancel()
        raise


def check_no_generator(fn: object) -> None:
    """Raise TypeError for a generator function: its body would run when the caller iterates, without the lock."""
    if isgeneratorfunction(fn) or isasyncgenfunction(fn):
        raise TypeError(f"{fn!r} {_UNFINISHED}")


def _done(fn: object, result: object) -> object:
    """Return the result of a function. Raise TypeError for a generator: its work has not begun."""
    if isgenerator(result) or isasyncgen(result):
        raise TypeError(f"{fn!r} {_UNFINISHED}")
    return result
