"""Work under a lock: the block of `hold`, and the function that `with_lock` calls.

Neither runs without its lock. The lock is renewed while the work runs, and released when the work ends, also by an
exception.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from inspect import isasyncgen, isasyncgenfunction, isawaitable, iscoroutine, isgenerator, isgeneratorfunction
from types import TracebackType

from firecron.errors import LeaseLost
from firecron.lock.contender import Contender
from firecron.lock.lease import Lease
from firecron.lock.protocol import Bid
from firecron.lock.refusal import NotAcquired, Refusal

_UNFINISHED = (
    "returns a generator, whose body would run later, without the lock: give with_lock a function that does all its "
    "work before it returns, or iterate in a block under hold()"
)


class Hold:
    """A block under a lock. `LockService.hold` makes it; it can be used once."""

    def __init__(self, contender: Contender, bid: Bid, wait: float) -> None:
        self._contender = contender
        self._bid = bid
        self._wait = wait
        self._lease: Lease | None = None
        self._unused = threading.Lock()

    def __enter__(self) -> Lease:
        self._use()
        answer: Lease | Refusal | None = None
        try:
            answer = self._contender.acquire(self._bid, self._wait)
            return self._enter(answer)
        except BaseException:
            self._contender.give_back(answer)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        lease = self._lease
        try:
            self._leave().release()
        finally:
            if lease is not None:
                self._contender.keeper.forget(lease)

    async def __aenter__(self) -> Lease:
        self._use()
        return self._enter(await self._contender.acquire_async(self._bid, self._wait))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._contender.release_async(self._leave())

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


def call(contender: Contender, bid: Bid, fn: Callable[[], object]) -> object:
    """Call `fn` under the lock and return its result. Return the Refusal, without a call, if the lock is refused."""
    lease: Lease | Refusal | None = None
    try:
        lease = contender.acquire(bid, 0)
        if isinstance(lease, Refusal):
            return lease
        result = fn()
    finally:
        contender.give_back(lease)
    if isawaitable(result):
        if iscoroutine(result):
            result.close()
        raise TypeError(
            f"{fn!r} returned an awaitable, which would run without the lock: give with_lock the async function itself"
        )
    return _done(fn, result)


async def call_async(contender: Contender, bid: Bid, fn: Callable[[], Awaitable[object]]) -> object:
    """Await `fn()` under the lock and return its result. Return the Refusal, without a call, if the lock is refused.

    If the lease is lost, the work is cancelled and this raises LeaseLost.
    """
    lease = await contender.acquire_async(bid, 0)
    if isinstance(lease, Refusal):
        return lease
    try:
        return _done(fn, await while_held(lease, fn))
    finally:
        await contender.release_async(lease)


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
