"""Work that is done once and for all, such as a migration at the start: `locks.once(name, function)`.

    read       what is recorded under `cron-steps/<name>/once/done` is returned; it is never pruned
    acquire    the lock of that name, with a fence, renewed; while another process has it, wait and look again
    read       once more, under the lock: the last holder may have recorded between the first look and its release
    call       the function
    record     its result, as a step of a run is recorded: while the lease is trusted, under its fence
    release    in any case

The promise is that of a step, not "exactly once": after a record nobody calls any more, and never do two call under
trusted leases. A process that raises, dies or loses its lease before the record leaves nothing: the next one calls. So
what was done by half is done again, and the function has to bear that.

What may come between is what may come between for a step (`protocol`): a late record of a zombie stands, if it
arrives before the next holder looks; otherwise that holder's own replaces it. All callers that learn of a result
after that learn the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from inspect import isawaitable, iscoroutine, iscoroutinefunction
from math import inf
from typing import Generic, TypeVar

from firecron.base.instants import to_datetime
from firecron.base.threads import off_loop
from firecron.errors import ConfigurationError, Denied, Malformed, StoreError
from firecron.lock.blocks import (
    AsyncSleep,
    Tries,
    check_no_generator,
    emit_answer,
    give_back,
    release_async,
    try_once,
    while_held,
)
from firecron.lock.database import Database
from firecron.lock.lease import Lease, write_under
from firecron.lock.protocol import Bid
from firecron.lock.refusal import NotAcquired, Refusal, not_known
from firecron.steps.protocol import StepRecord, from_result, read_step, recording, to_result
from firecron.store import Snapshot

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """What was done once and for all.

    Args:
        result: What the function has returned, in whichever process.
        at: When its result was recorded, in UTC.
        by: The instance that recorded it, as far as the record says.
    """

    result: T
    at: datetime
    by: str | None


class Once:
    """One call of `once`: what is asked and written."""

    def __init__(self, database: Database, bid: Bid, wait: float | None) -> None:
        self._database = database
        self._bid = bid
        self._path = database.paths.once(bid.name)
        self._wait = wait
        self._known: Snapshot | None = None

    def tries(self, wake: Callable[[], object] | None = None) -> Tries:
        """Return the tries for the lock."""
        return Tries(self._database, self._bid.name, inf if self._wait is None else self._wait, wake)

    def ask(self, tries: Tries) -> Done[object] | Lease | Refusal:
        """Look, and if nothing is recorded, try once for the lock. Raise Malformed if the record can't be read."""
        within = tries.start(self._database.settings.request_timeout)
        try:
            done = self.read()
        except Malformed:
            raise
        except StoreError as error:
            return not_known(self._bid.name, "denied" if isinstance(error, Denied) else "unavailable", error)
        return done or try_once(self._database, self._bid, within)

    def read(self) -> Done[object] | None:
        """Return what is recorded, if anything is. Raise Malformed if it can't be read: it may have been done."""
        self._known = self._database.snapshot(self._path)
        try:
            record = read_step(self._known.node)
            return None if record is None or not record.is_done else self._done(record)
        except (Malformed, ConfigurationError) as error:
            why = str(error) if isinstance(error, Malformed) else "its result is no JSON"
            raise Malformed(
                f'"{self._bid.name}" may have been done, but {self._path} can\'t be read: {why}. Mend the node, or '
                "delete it, and the next caller does the work again"
            ) from error

    def goes_on(self, answer: Done[object] | Lease | Refusal, tries: Tries) -> bool:
        """Return whether to ask again. Without a `wait`, only another process that is at it is a reason."""
        is_for_nothing = self._wait is None and isinstance(answer, Refusal) and answer.reason != "held"
        return not is_for_nothing and tries.goes_on(answer)

    def refuse(self, answer: Done[object] | Lease | Refusal | None) -> NotAcquired:
        """Emit the last refusal, and return it as the error."""
        assert isinstance(answer, Refusal), "only a refusal ends the tries"
        emit_answer(self._database, answer)
        return NotAcquired(answer)

    def begin(self, lease: Lease) -> int:
        """Emit that the lock is acquired, and return RTDB's time."""
        emit_answer(self._database, lease)
        return self._now()

    def record(self, lease: Lease, started_at: int, value: object) -> Done[object]:
        """Record the result. Raise LeaseLost if the lease is over: the next process calls again."""
        fence = lease.fence
        assert fence is not None, "the lock has a fence"
        try:
            text = to_result(self._bid.name, value, None)
        except ConfigurationError as error:
            raise ConfigurationError(
                f'"{self._bid.name}" was called, and is called again by the next caller, because its result can\'t be '
                f"recorded: {value!r:.80}. Return None, or at most 64 kB of what JSON gives back as it was"
            ) from error
        done_at = max(started_at, self._now())
        own = StepRecord(fence, started_at, None, self._bid.instance, done_at, text)
        settled = write_under(lease, lambda: recording(own, self._take_known(), lambda: not lease.lost), self._path)
        return self._done(settled.record)

    def _now(self) -> int:
        database = self._database
        return database.clock.now(database.deadline(database.settings.acquire_timeout)).server

    def _take_known(self) -> Snapshot | None:
        known, self._known = self._known, None
        return known

    def _done(self, record: StepRecord) -> Done[object]:
        value = from_result(self._bid.name, record.result or "", None)
        return Done(value, to_datetime(record.done_at or 0), record.instance)


def call_once(once: Once, database: Database, function: Callable[[], object]) -> Done[object]:
    """Call the function unless that was done, and return what was done."""
    check_no_generator(function)
    if iscoroutinefunction(function):
        raise ConfigurationError(f"{function!r} is async: await locks.once_async(…)")
    answer: Done[object] | Lease | Refusal | None = None
    try:
        with closing(once.tries()) as tries:
            answer = once.ask(tries)
            while once.goes_on(answer, tries):
                tries.wait()
                answer = once.ask(tries)
        if isinstance(answer, Done):
            return answer
        if not isinstance(answer, Lease):
            raise once.refuse(answer)
        started_at = once.begin(answer)
        return once.read() or once.record(answer, started_at, _no_awaitable(function))
    finally:
        give_back(database, answer)


async def call_once_async(once: Once, database: Database, function: Callable[[], Awaitable[object]]) -> Done[object]:
    """Await the function unless that was done, and return what was done. If the lease is lost, it is cancelled."""
    check_no_generator(function)
    answer: Done[object] | Lease | Refusal | None = None
    try:
        sleep = AsyncSleep()
        with closing(once.tries(sleep.wake)) as tries:
            answer = await _ask(once, tries, database)
            while once.goes_on(answer, tries):
                await sleep.wait(tries)
                answer = await _ask(once, tries, database)
        if isinstance(answer, Done):
            return answer
        if not isinstance(answer, Lease):
            raise once.refuse(answer)
        lease = answer
        started_at = await off_loop(lambda: once.begin(lease))
        if (done := await off_loop(once.read)) is not None:
            return done
        value = await while_held(lease, function)
        return await off_loop(lambda: once.record(lease, started_at, value))
    finally:
        if isinstance(answer, Lease):
            await release_async(database, answer)


async def _ask(once: Once, tries: Tries, database: Database) -> Done[object] | Lease | Refusal:
    return await off_loop(lambda: once.ask(tries), unwanted=lambda late: give_back(database, late))


def _no_awaitable(function: Callable[[], object]) -> object:
    result = function()
    if isawaitable(result):
        if iscoroutine(result):
            result.close()
        raise ConfigurationError(f"{function!r} returned an awaitable: await locks.once_async(…)")
    return result
