"""What may be around a run, and what a FireCron refuses before any job runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from functools import partial
from types import TracebackType
from typing import Any, Self

import pytest

from firecron import ConfigurationError, FireCron, Run, distributed_cron


@contextmanager
def sync_one(run: Run) -> Iterator[None]:
    yield


@asynccontextmanager
async def async_one(run: Run) -> AsyncIterator[None]:
    yield


def generator(run: Run) -> Iterator[None]:
    yield


async def async_generator(run: Run) -> AsyncIterator[None]:
    yield


async def coroutine(run: Run) -> None: ...


def of_nothing() -> nullcontext[None]:
    return nullcontext()


class Session:
    """An async context manager, made with the run."""

    def __init__(self, run: Run) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


class Both(Session):
    """One that is sync as well."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None: ...


class Arounds:
    @asynccontextmanager
    async def method(self, run: Run) -> AsyncIterator[None]:
        yield

    def annotated(self, run: Run) -> AbstractAsyncContextManager[object]:
        return Session(run)


def annotated_session(run: Run) -> Session:
    return Session(run)


@asynccontextmanager
async def named(name: str, run: Run) -> AsyncIterator[None]:
    yield


@distributed_cron("sync-job", "* * * * *")
def sync_job() -> None: ...


@distributed_cron("async-job", "* * * * *")
async def async_job() -> None:
    await asyncio.sleep(0)


WRONG: dict[str, tuple[Any, str]] = {
    "no list": (sync_one, "is not a list: give around="),
    "no list, and one context manager": (nullcontext(), "is not a list: give around="),
    "nothing": (None, "is not a list: give around="),
    "no function": (["sync_one"], "can't be called: give around="),
    "a context manager": ([nullcontext()], "is one context manager, and each try needs its own: write lambda run"),
    "a context manager that can be called": ([sync_one(Any)], "is one context manager"),  # type: ignore[arg-type]  # no run
    "a generator": ([generator], "generator, which yields, but is no .* decorate it with contextlib.contextmanager"),
    "an async generator": ([async_generator], "decorate it with contextlib.asynccontextmanager"),
    "a coroutine": ([sync_one, coroutine], "coroutine, which returns a coroutine: let it yield"),
    "a function of nothing": ([of_nothing], r"can't be called with the run alone \(\(\) -> .*: write lambda run"),
    "a function of more": ([named], "can't be called with the run alone"),
}


@pytest.mark.parametrize(("around", "why"), WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_around_a_run_is_refused(around: Any, why: str) -> None:
    """A FireCron with it isn't made, and the error names it and the remedy."""
    with pytest.raises(ConfigurationError, match=rf"around=.*{why}"):
        FireCron(async_job, enabled=False, around=around)


ASYNC: dict[str, Callable[[Run], AbstractAsyncContextManager[object]]] = {
    "a function": async_one,
    "a method": Arounds().method,
    "a class": Session,
    "a partial": partial(named, "x"),
    "a function with an annotation": annotated_session,
    "a method with an annotation": Arounds().annotated,
}


@pytest.mark.parametrize("around", ASYNC.values(), ids=ASYNC.keys())
def test_an_async_one_is_around_async_jobs_alone(around: Callable[[Run], AbstractAsyncContextManager[object]]) -> None:
    """Beside a sync job it is refused when the jobs are found, with the job's name, its place, and the remedy."""
    FireCron(async_job, enabled=False, around=[around])
    place = r"\(.*test_job_around\.sync_job\)"
    why = f"an async context manager, and the job 'sync-job' {place} is sync: declare the job with"
    with pytest.raises(ConfigurationError, match=why):
        FireCron(sync_job, enabled=False, around=[sync_one, around])
    crons = FireCron(async_job, enabled=False, around=[around])
    with pytest.raises(ConfigurationError, match=why):
        crons.registry.add(sync_job)
    assert [job.name for job in crons.registry.jobs()] == ["async-job"]


@pytest.mark.parametrize("around", [sync_one, Both, lambda run: nullcontext(), print], ids=["sync", "both", "?", "C"])
def test_what_may_be_sync_is_around_all_jobs(around: Any) -> None:
    """A sync one fits any job, and so does one that is both; of some it is known only when they are called."""
    FireCron(sync_job, async_job, enabled=False, around=[around])
