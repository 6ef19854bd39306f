"""The surroundings of a job's function: context managers, each entered before the call and left after it.

    Django's connections      `runs.connections`
    Flask's context           after `init_app`
    what the program gave     `FireCron(around=…)`, for jobs

They are entered on the thread, or in the task, in which the function is called, and inside the lease. What was entered
is left in the opposite order, also if a later one can't be entered, and if the task is cancelled. Each is told how the
function ended, as in a `with` statement. None of them can hide an exception from the others, or from the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, ExitStack
from types import TracebackType
from typing import TypeAlias, TypeVar

from firecron.errors import ConfigurationError
from firecron.jobs.around import Context, no_context, not_entered

S = TypeVar("S")
Arounds: TypeAlias = Iterable[Callable[[S], Context]]
Kind: TypeAlias = type[BaseException] | None


def enter(stack: ExitStack, arounds: Arounds[S], subject: S, name: str) -> None:
    """Surround a sync function, on the thread that calls it. `name` is the job's."""
    for around in arounds:
        made = around(subject)
        if not isinstance(made, AbstractContextManager):
            is_async = isinstance(made, AbstractAsyncContextManager)
            raise ConfigurationError(not_entered(around, repr(name)) if is_async else no_context(around, made))
        _enter(stack, made)


async def enter_async(stack: AsyncExitStack, arounds: Arounds[S], subject: S) -> None:
    """Surround an async function, in the task that awaits it."""
    for around in arounds:
        made = around(subject)
        if isinstance(made, AbstractAsyncContextManager):
            await _enter_async(stack, made)
        elif isinstance(made, AbstractContextManager):
            _enter(stack, made)
        else:
            raise ConfigurationError(no_context(around, made))


# The stack isn't told what the exits return: it would take a true value for a wish to hide the error from the others.


def _enter(stack: ExitStack | AsyncExitStack, made: AbstractContextManager[object]) -> None:
    def leave(kind: Kind, error: BaseException | None, traceback: TracebackType | None) -> None:
        made.__exit__(kind, error, traceback)

    made.__enter__()
    stack.push(leave)


async def _enter_async(stack: AsyncExitStack, made: AbstractAsyncContextManager[object]) -> None:
    async def leave(kind: Kind, error: BaseException | None, traceback: TracebackType | None) -> None:
        await made.__aexit__(kind, error, traceback)

    await made.__aenter__()
    stack.push_async_exit(leave)
