"""Blocking calls of coroutines: the loop goes on meanwhile, whatever becomes of who waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest
from tests.unit.threads import PATIENCE

from firecron.base.off_loop import off_loop


def test_who_is_cancelled_does_not_wait_for_the_call() -> None:
    """A coroutine that is cancelled ends at once, and the call goes on to its own end."""
    go_on, over = threading.Event(), threading.Event()

    def call(begin: Callable[[], object]) -> None:
        begin()
        go_on.wait(PATIENCE)
        over.set()

    async def main() -> None:
        begun, here = asyncio.Event(), asyncio.get_running_loop()
        task = asyncio.create_task(off_loop(lambda: call(lambda: here.call_soon_threadsafe(begun.set))))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not over.is_set()
        go_on.set()

    asyncio.run(main())
    assert over.wait(PATIENCE)
