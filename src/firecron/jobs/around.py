"""Around a run: the context managers in which a program's jobs are called, such as a span, a session or a log context.

    @contextmanager
    def session(run: Run) -> Iterator[None]:
        with Session() as current, current.begin():
            yield

    crons = FireCron(Digests(), around=[session])

Each function is called with the run, anew for each try, and returns a context manager. The first one is the outermost.
Around a sync job all of them are sync. Around an async job they may be of both kinds: `async with` enters those that
have it, and `with` the others. This module checks what is given; `runs.surroundings` enters it.
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
    """Return what is around a job or a leader without a FireCron: nothing."""
    return ()


def checked(around: Iterable[Around]) -> tuple[Around, ...]:
    """Return the functions given as `around`. Raise ConfigurationError for one that can't be around a run."""
    if not isinstance(around, Iterable):
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
    """Return why an async context manager can't be around a sync job, and the remedy."""
    return (
        f"around= has {_named(around)}, an async context manager, and the job {job} is sync: declare the job with "
        "async def, or give a sync one, such as a function with contextlib.contextmanager"
    )


def no_context(around: object, made: object) -> str:
    """Return why the object that was returned can't be entered, and the remedy."""
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
