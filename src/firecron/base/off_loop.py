"""Blocking calls of a coroutine, on other threads: the event loop goes on meanwhile.

Not `asyncio.to_thread`: the threads of the loop's executor are few, and may all be busy with the very jobs that the
call is to stop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeAlias, TypeVar

T = TypeVar("T")

# Has a call made on another thread.
Submit: TypeAlias = Callable[[Callable[[], object]], object]


def on_new_thread(call: Callable[[], object]) -> None:
    """Make the call on a thread of its own. The end of the process waits for it."""
    threading.Thread(target=call, name="firecron-call", daemon=False).start()


async def off_loop(
    call: Callable[[], T], submit: Submit = on_new_thread, *, unwanted: Callable[[T], object] | None = None
) -> T:
    """Return what the call returns, or raise what it raises.

    If the task is cancelled meanwhile, a call that has begun goes on to its end, and another is not made. `unwanted`
    then gets the result that nobody waits for, by way of `submit` as well.
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
            submit(lambda: unwanted(result))

    submit(make_the_call)
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        future.add_done_callback(hand_on)
        raise
