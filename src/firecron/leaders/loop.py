"""The terms of a leader, as a loop in a block:

    with locks.lead("price-feed", ttl=15) as terms:
        for term in terms:
            ...  # runs while this instance leads

Each item is one term, and the loop's body is the work under it. When the body reaches its end, the term is released,
and the loop waits for the next election. Leaving the block releases, too. `async with` and `async for` do the same on
an event loop, without blocking it.

A loop needs its block: a `break` out of an `async for` closes nothing, so only the block can promise a release. The
body is not cancelled when its term is lost: it looks at `term.lost` and `term.stopping`, or calls `term.check()`.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

from firecron.errors import Stopping
from firecron.leaders.candidate import ActiveTerm, Candidate
from firecron.leaders.leader import Term, leading
from firecron.lock.database import Database

_LEFT = "its block was left"


class LeaderLoop:
    """The terms of one leader, for one loop. `LockService.lead` makes it; its block can be entered once."""

    def __init__(self, database: Database, candidate: Candidate) -> None:
        self._database = database
        self._candidate = candidate
        self._name = candidate.election.name
        self._unused = threading.Lock()
        self._is_inside = False
        self._active: ActiveTerm | None = None
        self._outside: Term | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = asyncio.Event()

    def stop(self) -> None:
        """Tell the term to end, and end the loop after it. This returns at once, also in a signal's handler."""
        # On a thread of its own, because the line that a signal has interrupted may hold the lock of a flag.
        threading.Thread(target=self._stop, name="firecron-stop", daemon=True).start()

    def __enter__(self) -> Self:
        self._enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_inside = False
        self._candidate.stop(_LEFT)
        self._finish(error)

    def __iter__(self) -> Self:
        self._check()
        return self

    def __next__(self) -> Term:
        self._check()
        self._finish(None)
        while (seconds := self._candidate.due_in()) is not None:
            if seconds:
                self._candidate.wait(seconds)
            elif (active := self._candidate.stand()) is not None:
                return self._begin(active)
        raise StopIteration

    async def __aenter__(self) -> Self:
        self._enter()
        self._loop = asyncio.get_running_loop()
        self._candidate.wake = self._wake
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_inside = False
        self._candidate.stop(_LEFT)
        await self._finish_async(error)

    def __aiter__(self) -> Self:
        self._check()
        return self

    async def __anext__(self) -> Term:
        self._check()
        await self._finish_async(None)
        while (seconds := self._candidate.due_in()) is not None:
            if seconds:
                self._candidate.listen()
                # Not `wait_for`: in Python 3.11 it loses a cancellation that comes together with what it waits for.
                with suppress(TimeoutError):  # the pause is over
                    async with asyncio.timeout(seconds):
                        await self._woken.wait()
                self._woken.clear()
                continue
            active = await self._database.off_loop("acquire", self._candidate.stand, unwanted=self._give_back)
            if active is not None:
                return self._begin(active)
        raise StopAsyncIteration

    def _enter(self) -> None:
        if not self._unused.acquire(blocking=False):
            raise RuntimeError(f"these terms of {self._name} were used before: call lead() again for each block")
        self._is_inside = True

    def _check(self) -> None:
        if not self._is_inside:
            raise RuntimeError(
                f"the terms of {self._name} need a block, which releases them: "
                f'write "with locks.lead({self._name!r}) as terms:" around the loop, or "async with" on an event loop'
            )

    def _begin(self, active: ActiveTerm) -> Term:
        self._active = active
        self._outside = leading.get()
        leading.set(active.term)
        return active.term

    def _finish(self, error: BaseException | None) -> None:
        """Release the term of the last item, if there is one. Its body has ended."""
        active = self._leave()
        if active is not None:
            self._candidate.end(active, error)

    async def _finish_async(self, error: BaseException | None) -> None:
        active = self._leave()
        if active is not None:
            release = self._database.off_loop("release", lambda: self._candidate.end(active, error))
            await asyncio.shield(release)

    def _leave(self) -> ActiveTerm | None:
        active = self._candidate.active if self._active is None else self._active
        if self._active is not None:
            leading.set(self._outside)
        self._active = None
        return active

    def _give_back(self, active: ActiveTerm | None) -> None:
        """End the active term that came after its task was cancelled."""
        if active is not None:
            self._candidate.request_end(_LEFT)
            self._candidate.end(active, Stopping())

    def _stop(self) -> None:
        self._candidate.stop("the program has called stop()")
        self._wake()

    def _wake(self) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # a closed loop has nothing left to wake
                self._loop.call_soon_threadsafe(self._woken.set)
