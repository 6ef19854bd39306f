"""Calling a job's function: sync on this thread, async on the application's loop if it has one, else on a loop of its
own.

Whatever the function does, the answer is an `Ending`: nothing that a job raises goes further than here.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Literal, TypeAlias

from firecron.explorer import Job
from firecron.lease import LeaseLost
from firecron.run import Run, Stopping, _current

How: TypeAlias = Literal["succeeded", "failed", "stopped", "lost"]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a call ended; `stopped` if the shutdown ended it, `lost` if the loss of the lease did."""

    how: How
    error: BaseException | None = None


class Body:
    """One call of a job's function, which can be cancelled from another thread if it is async."""

    def __init__(self, job: Job, run: Run, loop: asyncio.AbstractEventLoop | None) -> None:
        self._job = job
        self._run = run
        self._loop = loop
        self._future: concurrent.futures.Future[object] | None = None
        self._is_cancelled = False

    def call(self) -> Ending:
        """Call it, and wait for its end."""
        try:
            if self._job.is_async:
                self._await()
            else:
                self._call()
        except Stopping as error:
            return Ending("stopped", error)
        except LeaseLost as error:
            return Ending("lost", error)
        except (asyncio.CancelledError, concurrent.futures.CancelledError) as error:
            if self._run.lost:
                return Ending("lost", error)
            return Ending("stopped" if self._run.stopping else "failed", error)
        except Exception as error:
            return Ending("failed", error)
        except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
            # On a worker thread these end nothing but the job.
            return Ending("failed", error)
        return Ending("succeeded")

    def cancel(self) -> None:
        """Cancel it if it is async; a sync one sees `run.lost` and `run.stopping`."""
        self._is_cancelled = True
        future = self._future
        if future is not None:
            future.cancel()

    def _call(self) -> None:
        token = _current.set(self._run)
        try:
            result = self._job.call(self._run)
            if inspect.isawaitable(result):
                # A sync function that hands out a coroutine, such as a lambda or a partial: it has to run under the
                # lock as well.
                _run_to_its_end(lambda: _awaited(result))
        finally:
            _current.reset(token)

    def _await(self) -> None:
        if self._loop is not None and self._loop.is_running():
            self._future = asyncio.run_coroutine_threadsafe(self._coroutine(), self._loop)
            if self._is_cancelled:
                self._future.cancel()
            self._future.result()
        else:
            _run_to_its_end(self._on_own_loop)

    async def _on_own_loop(self) -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(self._coroutine())
        future: concurrent.futures.Future[object] = concurrent.futures.Future()
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(task.cancel))
        self._future = future
        if self._is_cancelled:
            future.cancel()
        try:
            await task
        finally:
            self._future = None

    def _coroutine(self) -> Coroutine[object, object, None]:
        async def call() -> None:
            _current.set(self._run)
            result = self._job.call(self._run)
            assert inspect.isawaitable(result), "an async function gives something to await"
            await result

        return call()


def _run_to_its_end(work: Callable[[], Coroutine[object, object, None]]) -> None:
    """On a loop of its own; where this thread has one that runs (a test's, mostly), on a thread of its own as well."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(work())
        return
    with concurrent.futures.ThreadPoolExecutor(1) as elsewhere:
        elsewhere.submit(lambda: asyncio.run(work())).result()


async def _awaited(thing: object) -> None:
    assert inspect.isawaitable(thing)
    await thing
