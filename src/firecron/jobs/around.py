"""Around a run: what a program wants its jobs to be called in, such as a span, a session or a log context.

    @contextmanager
    def session(run: Run) -> Iterator[None]:
        with Session() as current, current.begin():
            yield

    crons = FireCron(Digests(), around=[session])

Each is called with the run, anew for each try, and gives a context manager. The first is the outermost. `with` enters
those around a sync job, and `async with` those around an async job that can be entered so. An async job may have sync
ones as well. This module says what may be given; `runs.surroundings` enters them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TypeAlias, get_origin

from firecron.errors import ConfigurationError
from firecron.jobs.declarations import where_of
from firecron.jobs.run import Run

Context: TypeAlias = AbstractContextManager[object] | AbstractAsyncContextManager[object]
Around: TypeAlias = Callable[[Run], Context]

_EXAMPLE = "give around=[…] functions of the run that return a context manager"


def nothing() -> tuple[()]:
    """Return what is around a job or a leader that no FireCron has yet."""
    return ()


def checked(around: Iterable[Around]) -> tuple[Around, ...]:
    """Return what was given as `around`. Raise ConfigurationError for what can't be around a run."""
    if callable(around):
        raise ConfigurationError(f"around={_named(around)} is not a list: {_EXAMPLE}")
    arounds = tuple(around)
    for one in arounds:
        why = _why_not(one)
        if why is not None:
            raise ConfigurationError(f"around= has {_named(one)}, which {why}")
    return arounds


def check_fit(arounds: Sequence[Around], name: str, where: str, *, is_async: bool) -> None:
    """Raise ConfigurationError if one of these is async, and the job isn't."""
    for around in arounds:
        if not is_async and _is_async(around):
            raise ConfigurationError(not_entered(around, f"{name!r} ({where})"))


def not_entered(around: object, job: str) -> str:
    """Return why an async one can't be around a sync job, and the remedy."""
    return (
        f"around= has {_named(around)}, an async context manager, and the job {job} is sync: declare the job with "
        "async def, or give a sync one, such as a function with contextlib.contextmanager"
    )


def no_context(around: object, made: object) -> str:
    """Return why what it returned can't be entered, and the remedy."""
    return f"around= has {_named(around)}, which returned {made!r:.80}, and that is no context manager: {_EXAMPLE}"


def _why_not(around: object) -> str | None:
    if isinstance(around, AbstractContextManager | AbstractAsyncContextManager):
        return "is one context manager, and each try needs its own: write lambda run: … around the call that makes it"
    if not callable(around):
        return f"can't be called: {_EXAMPLE}"
    if inspect.isgeneratorfunction(around) or inspect.isasyncgenfunction(around):
        kind = "async" if inspect.isasyncgenfunction(around) else ""
        return f"yields, but is no context manager: decorate it with contextlib.{kind}contextmanager"
    if inspect.iscoroutinefunction(around):
        return "returns a coroutine: let it yield, and decorate it with contextlib.asynccontextmanager"
    try:
        signature = inspect.signature(around)
    except (TypeError, ValueError):
        return None  # of a function in C nothing is known
    try:
        signature.bind(None)
    except TypeError:
        return f"can't be called with the run alone ({signature}): write lambda run: … around the call"
    return None


def _is_async(around: Around) -> bool:
    """Return whether only `async with` enters what this one returns, as far as that can be told before a call."""
    function = inspect.unwrap(around.func if isinstance(around, functools.partial) else around)
    if inspect.isasyncgenfunction(function):
        return True  # with contextlib.asynccontextmanager
    made: object = around
    if not isinstance(around, type):
        try:
            made = inspect.signature(around, eval_str=True).return_annotation
        except Exception:
            return False  # an annotation that can't be evaluated says nothing
    kind = get_origin(made) or made
    return (
        isinstance(kind, type)
        and issubclass(kind, AbstractAsyncContextManager)
        and not issubclass(kind, AbstractContextManager)
    )


def _named(around: object) -> str:
    return where_of(around.func if isinstance(around, functools.partial) else around)
