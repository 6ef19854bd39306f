"""A blocking call from a coroutine, on a thread of its own.

Not `asyncio.to_thread`: the threads of the loop's executor are few, and may all be busy with the very jobs that the
call is to stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


async def off_loop(call: Callable[[], T]) -> T:
    """What it answers, or raises."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="firecron-call")
    try:
        return await asyncio.get_running_loop().run_in_executor(thread, call)
    finally:
        thread.shutdown(wait=False)
