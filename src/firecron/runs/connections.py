"""Django's database connections around a job's function, as Django has them around a request.

Too old or broken connections are closed before and after the call. For an async job this is done on the thread that has
the connections of Django's async queries. Where Django isn't loaded and configured, nothing of it is imported.
"""

from __future__ import annotations

import sys
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext, suppress

from firecron.jobs.around import Context


def connections(subject: object) -> Context:
    """Return the context manager around a run or a term. It does nothing in a program without Django."""
    return _Connections() if has_django() else nullcontext()


def has_django() -> bool:
    """Return whether this program has loaded and configured Django."""
    if "django.db" not in sys.modules:
        return False
    from django.conf import settings

    return bool(settings.configured)


class _Connections(AbstractContextManager[None], AbstractAsyncContextManager[None]):
    def __enter__(self) -> None:
        _close_old()

    def __exit__(self, *raised: object) -> None:
        _close_old()

    async def __aenter__(self) -> None:
        from asgiref.sync import SyncToAsync

        # Let Django's async work of this task use another thread than the request's. Else a run that a sync view starts
        # under ASGI would wait for the request's only thread, and the view, which waits for the run, occupies it.
        # asgiref reads None as "in no context", but its types have no such value.
        SyncToAsync.thread_sensitive_context.set(None)  # type: ignore[arg-type]  # see above
        await _close_old_async()

    async def __aexit__(self, *raised: object) -> None:
        # At the end of the process that thread takes no more work, and its connections end with the process.
        with suppress(RuntimeError):
            await _close_old_async()


def _close_old() -> None:
    from django.db import close_old_connections

    close_old_connections()


async def _close_old_async() -> None:
    from asgiref.sync import sync_to_async

    await sync_to_async(_close_old)()
