"""What a job's function is called in, so that it finds what a request's handler finds.

    Flask    the application's context, once `init_app` was called: the job's own `around`
    Django   connections that are too old or broken are closed before and after, as Django does around a request. For
             an async job that is done on the thread where Django's async queries have their connections.

Each try of a run is called in surroundings of its own.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from firecron.jobs.job import Job


@contextmanager
def surrounded(job: Job) -> Iterator[None]:
    """For a sync function, on the thread that calls it."""
    _close_old_connections()
    try:
        with job.around():
            yield
    finally:
        _close_old_connections()


@asynccontextmanager
async def surrounded_async(job: Job) -> AsyncIterator[None]:
    """For an async function, in the task that awaits it."""
    _leave_the_request()
    await _close_old_connections_async()
    try:
        with job.around():
            yield
    finally:
        # At the end of the process that thread takes nothing any more, and its connections end with it.
        with suppress(RuntimeError):
            await _close_old_connections_async()


def _has_django() -> bool:
    """Whether this program is one of Django's; nothing of it is imported to find out."""
    if "django.db" not in sys.modules:
        return False
    from django.conf import settings

    return bool(settings.configured)


def _close_old_connections() -> None:
    if _has_django():
        from django.db import close_old_connections

        close_old_connections()


def _leave_the_request() -> None:
    """Have Django's async work of this task done on a thread that is free: a run that a sync view asked for under ASGI
    would else wait for the request's only thread, which the view occupies while it waits for the run.
    """
    if _has_django():
        from asgiref.sync import SyncToAsync

        # asgiref reads None as "in no context", but its types have no such value.
        SyncToAsync.thread_sensitive_context.set(None)  # type: ignore[arg-type]  # see above


async def _close_old_connections_async() -> None:
    if _has_django():
        from asgiref.sync import sync_to_async

        await sync_to_async(_close_old_connections)()
