"""Blocking calls of a coroutine, made on other threads, so that the event loop goes on meanwhile.

`asyncio.to_thread` won't do: the executor of the loop has few threads, and the jobs that such a call is to stop may
occupy all of them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import TypeAlias, TypeVar

T = TypeVar("T")
# A function that makes a call on another thread.
Submit: TypeAlias = Callable[[Callable[[], object]], object]


def on_new_thread(call: Callable[[], object]) -> None:
    """Make the call on a new thread. The end of the process waits for this thread."""
    threading.Thread(target=call, name="firecron-call", daemon=False).start()


async def off_loop(
    call: Callable[[], T], submit: Submit = on_new_thread, *, unwanted: Callable[[T], object] | None = None
) -> T:
    """Make the call on another thread, by `submit`. Return what the call returns, or raise what it raises.

    If the task is cancelled, a call that has begun goes on to its end, and a call that has not begun is never made. Its
    result then goes to `unwanted` (if given), on a thread that `submit` provides.
    """
    future: Future[T] = Future()

    def make_the_call() -> None:
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)

    def hand_on(ended: Future[T]) -> None:
        if unwanted is not None and not ended.cancelled() and ended.exception() is None:
            result = ended.result()
            try:
                submit(lambda: unwanted(result))
            except RuntimeError:  # the threads were closed meanwhile, but a lease must still be released
                on_new_thread(lambda: unwanted(result))

    submit(make_the_call)
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        future.add_done_callback(hand_on)
        raise


async def in_thread(call: Callable[[], T]) -> T:
    """Make somebody's blocking call on a thread of the loop's executor, in the context of this task."""
    return await asyncio.to_thread(call)


async def to_its_end(
    work: Coroutine[object, object, T],
) -> tuple[asyncio.Task[T], asyncio.CancelledError | None]:
    """Let the work end even if this task is cancelled meanwhile. Return the work, and the cancellation if one came.

    The caller raises the cancellation once it has done with the work.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as raised:
            cancelled = raised
    return task, cancelled
