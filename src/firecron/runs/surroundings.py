"""The surroundings of a job's function: the same that a web framework gives to a request's handler.

    Flask    the application's context, after `init_app` was called. It is the job's `around`.
    Django   too old or broken database connections are closed before and after the call, as Django does around a
             request. For an async job this is done on the thread that has the connections of Django's async queries.

Each call of the function, also each retry, has surroundings of its own.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from typing import Protocol


class HasContext(Protocol):
    """A job or a leader: `around` is the context in which its function is called."""

    @property
    def around(self) -> Callable[[], AbstractContextManager[object]]: ...


@contextmanager
def surrounded(job: HasContext) -> Iterator[None]:
    """Surround a sync function, on the thread that calls it."""
    _close_old_connections()
    try:
        with job.around():
            yield
    finally:
        _close_old_connections()


@asynccontextmanager
async def surrounded_async(job: HasContext) -> AsyncIterator[None]:
    """Surround an async function, in the task that awaits it."""
    _leave_the_request()
    await _close_old_connections_async()
    try:
        with job.around():
            yield
    finally:
        # At the end of the process that thread takes no more work, and its connections end with the process.
        with suppress(RuntimeError):
            await _close_old_connections_async()


def has_django() -> bool:
    """Return whether this program has loaded and configured Django. If it has not, nothing of Django is imported."""
    if "django.db" not in sys.modules:
        return False
    from django.conf import settings

    return bool(settings.configured)


def _close_old_connections() -> None:
    if has_django():
        from django.db import close_old_connections

        close_old_connections()


def _leave_the_request() -> None:
    """Let Django's async work of this task use another thread than the request's.

    Else a run that a sync view starts under ASGI would wait for the request's only thread, and the view, which waits
    for the run, occupies that thread.
    """
    if has_django():
        from asgiref.sync import SyncToAsync

        # asgiref reads None as "in no context", but its types have no such value.
        SyncToAsync.thread_sensitive_context.set(None)  # type: ignore[arg-type]  # see above


async def _close_old_connections_async() -> None:
    if has_django():
        from asgiref.sync import sync_to_async

        await sync_to_async(_close_old_connections)()
