"""A program that uses firecron, for type checkers only: what they must accept, and, behind each `type: ignore`, what
not.

A signature that didn't survive the decorator fails an `assert_type`; a mistake that a checker lets through leaves an
unused `type: ignore`, which is an error here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from functools import partial
from types import TracebackType
from typing import assert_type
from zoneinfo import ZoneInfo

from firecron import (
    Access,
    CronExpression,
    Done,
    FireCron,
    Lease,
    LockService,
    Refusal,
    Run,
    Schedule,
    Settings,
    Visitor,
    distributed_cron,
)


@distributed_cron("function", "0 9 * * *")
def function(one: int, *, other: str = "") -> float:
    return one / len(other)


@distributed_cron("async-function", CronExpression.EVERY_HOUR, lock_ttl=timedelta(seconds=30))
async def async_function(run: Run) -> str:
    return run.name


@distributed_cron("evening", "0 18 * * *")
@distributed_cron("morning", "0 9 * * *")
def stacked() -> bytes:
    return b""


class Jobs:
    @distributed_cron("method", "* * * * *", timezone=ZoneInfo("Europe/Berlin"), overlap="queue", grace=5)
    def method(self, run: Run | None = None) -> int:
        return 5

    @distributed_cron("async-method", "* * * * *", on_abandoned="rerun", catch_up="all", alert_after=3)
    async def async_method(self) -> list[int]:
        return []

    @distributed_cron("static-below", "* * * * *")
    @staticmethod
    def static_below(one: int = 1) -> int:
        return one

    @staticmethod
    @distributed_cron("static-above", "* * * * *")
    def static_above(one: int = 1) -> int:
        return one

    @distributed_cron("class-below", "* * * * *")
    @classmethod
    def class_below(cls, one: int = 1) -> type[Jobs]:
        return cls

    @classmethod
    @distributed_cron("class-above", "* * * * *")
    def class_above(cls, one: int = 1) -> type[Jobs]:
        return cls


async def signatures_survive(jobs: Jobs, run: Run) -> None:
    assert_type(function(1, other="x"), float)
    assert_type(await async_function(run), str)
    assert_type(stacked, Callable[[], bytes])
    assert_type(jobs.method(run), int)
    assert_type(await jobs.async_method(), list[int])
    assert_type(jobs.static_below(2), int)
    assert_type(Jobs.static_above(2), int)
    assert_type(Jobs.class_below(2), type[Jobs])
    assert_type(jobs.class_above(2), type[Jobs])
    assert_type(distributed_cron("partial", "* * * * *")(partial(function, 1)), partial[float])


# The reason of every `type: ignore` below: its error is what the test wants. Without the error mypy complains of it.
def calls_are_checked(jobs: Jobs) -> None:
    function("one")  # type: ignore[arg-type]  # wanted
    function(1, "other")  # type: ignore[call-arg]  # wanted
    async_function()  # type: ignore[call-arg,unused-coroutine]  # wanted
    jobs.method(5)  # type: ignore[arg-type]  # wanted
    jobs.static_below("two")  # type: ignore[arg-type]  # wanted
    Jobs.static_above("two")  # type: ignore[arg-type]  # wanted
    Jobs.class_below("two")  # type: ignore[arg-type]  # wanted
    jobs.class_above("two")  # type: ignore[arg-type]  # wanted
    jobs.method().upper()  # type: ignore[attr-defined]  # wanted


def options_are_checked() -> None:
    distributed_cron("name", every=timedelta(minutes=45), starting=datetime.now(UTC))
    distributed_cron("name", every="45m")  # type: ignore[arg-type]  # wanted
    distributed_cron("name", every=60, starting="2026-11-18")  # type: ignore[arg-type]  # wanted
    distributed_cron(5, "* * * * *")  # type: ignore[arg-type]  # wanted
    distributed_cron("name", 60)  # type: ignore[arg-type]  # wanted
    distributed_cron("name", "* * * * *", "UTC")  # type: ignore[call-arg]  # wanted
    distributed_cron("name", "* * * * *", lock_ttl="60")  # type: ignore[arg-type]  # wanted
    distributed_cron("name", "* * * * *", overlap="wait")  # type: ignore[arg-type]  # wanted
    distributed_cron("name", "* * * * *", catch_up=True)  # type: ignore[arg-type]  # wanted
    distributed_cron("name", "* * * * *", alert_after=timedelta(minutes=5))  # type: ignore[arg-type]  # wanted
    distributed_cron("name", "* * * * *", on_abandoned="retry")  # type: ignore[arg-type]  # wanted
    distributed_cron("name", "* * * * *", ttl=60)  # type: ignore[call-arg]  # wanted
    distributed_cron("name", "* * * * *")(5)  # type: ignore[type-var]  # wanted
    distributed_cron(function)  # type: ignore[arg-type]  # wanted


async def awaited(value: int) -> str:
    return str(value)


def steps_of_a_sync_job(run: Run) -> None:
    assert_type(run.step("a", function, 1), float)
    assert_type(run.step("b", function, 1, other="x"), float)
    assert_type(run.step("c", function, 1, returns=list[int]), list[int])
    assert_type(run.step("d", function, 1, at_most_once=True), float)
    assert_type(run.key("a"), str)
    run.retry("a")
    run.step("e", function, "one")  # type: ignore[call-overload]  # wanted
    run.step("f", function)  # type: ignore[call-overload]  # wanted
    run.step("g", 5)  # type: ignore[call-overload]  # wanted
    run.step(5, function, 1)  # type: ignore[call-overload]  # wanted


async def steps_of_an_async_job(run: Run) -> None:
    assert_type(await run.step("a", awaited, 1), str)
    assert_type(await run.step("b", awaited, 1, returns=int), int)
    assert_type(await run.step("c", awaited, 1, at_most_once=True), str)
    async with asyncio.TaskGroup() as group:
        assert_type(group.create_task(run.step("e", awaited, 1)), asyncio.Task[str])
    await run.step("f", awaited, "one")  # type: ignore[call-overload]  # wanted


def is_weekend(day: date) -> bool:
    return day.weekday() >= 5


def schedules() -> None:
    Schedule("0 9 * * *", ZoneInfo("Europe/Berlin"))
    schedule = Schedule("0 9 * * *", "Europe/Berlin")
    assert_type(schedule.after(datetime.now(UTC)), datetime)
    assert_type(list(schedule.between(datetime.now(UTC), datetime.now(UTC))), list[datetime])
    Schedule(every=2700, starting=datetime.now(UTC))
    Schedule("0 9 * * *", except_days=[date(2026, 12, 25)])
    Schedule("0 9 * * *", except_days=lambda day: day.weekday() >= 5)
    Schedule("0 9 * * *", except_days={"weekend": is_weekend, "holiday": [date(2026, 12, 25)]})
    Schedule("H 9 * * *", name="digest", starting=datetime.now(UTC), until=datetime.now(UTC))
    schedule.after("2026-11-18")  # type: ignore[arg-type]  # wanted
    Schedule("0 9 * * *", UTC)  # type: ignore[arg-type]  # wanted


def settings() -> None:
    settings = Settings(prefix="ops/cron")
    assert_type(settings.margin, float)
    assert_type(Settings().roles, tuple[str, ...])
    Settings(margin=0.5, uid="firecron", roles=("mail", "reports"), history_limit=200)
    Settings("ops/cron")  # type: ignore[call-arg]  # wanted
    Settings(margin="half a second")  # type: ignore[arg-type]  # wanted
    Settings(margn=0.5)  # type: ignore[call-arg]  # wanted


async def a_program(jobs: Jobs) -> None:
    crons = FireCron(function, jobs, Jobs, settings=Settings(prefix="ops/cron"), enabled=True)
    assert_type(crons.start(), FireCron)
    assert_type(crons.locks, LockService)
    assert_type(crons.settings, Settings)
    with crons as started:
        assert_type(started, FireCron)
    async with crons as started:
        assert_type(started, FireCron)
    FireCron(function, settings={"prefix": "ops/cron"})  # type: ignore[arg-type]  # wanted
    FireCron(function, enabled="yes")  # type: ignore[arg-type]  # wanted


@contextmanager
def sync_around(run: Run) -> Generator[int, None, None]:
    yield run.attempt


@asynccontextmanager
async def async_around(run: Run) -> AsyncGenerator[str, None]:
    yield run.name


class Session:
    def __init__(self, run: Run) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


@contextmanager
def around_nothing() -> Generator[None, None, None]:
    yield


def around_runs() -> None:
    FireCron(function, around=[sync_around, async_around, Session, lambda run: suppress(OSError)])
    FireCron(function, around=(sync_around,))
    FireCron(function, around=sync_around)  # type: ignore[arg-type]  # wanted
    FireCron(function, around=[around_nothing])  # type: ignore[list-item]  # wanted
    FireCron(function, around=[function])  # type: ignore[list-item]  # wanted
    FireCron(function, around=[around_nothing()])  # type: ignore[list-item]  # wanted


def what_a_run_says(run: Run) -> None:
    run.note("1,204 mails")
    assert_type(run.noted, str | None)
    assert_type(run.previous_slot, datetime | None)
    assert_type(run.last_success, datetime | None)
    run.note(1204)  # type: ignore[arg-type]  # wanted
    run.previous_slot = None  # type: ignore[misc]  # wanted


def sync_access(visitor: Visitor) -> Access | None:
    return Access(visitor.headers["x-user"], can_act=visitor.method == "GET")


async def async_access(visitor: Visitor) -> Access | None:
    return sync_access(visitor)


def typed_access(visitor: Visitor) -> Access | None:
    request = assert_type(visitor.request_as(Jobs), Jobs)
    return Access(str(request.method()))


def no_access(visitor: Visitor) -> bool:
    return visitor.path == "/"


def triggers(crons: FireCron) -> None:
    crons.trigger_app(trust_cloud_run_iam=True)
    crons.trigger_blueprint(name="cron", audience="https://api.example", email=["scheduler@example.com"])
    crons.trigger_urls(audience="https://api.example", email="a@b.example", health_email="c@d.example")
    crons.trigger_blueprint(trust_cloud_run_iam="yes")  # type: ignore[arg-type]  # wanted
    crons.trigger_urls(name="cron")  # type: ignore[call-arg]  # wanted


def pages(crons: FireCron) -> None:
    crons.status_app(access=sync_access)
    crons.status_app(access=typed_access)
    crons.status_app(access=async_access, read_only=True, open_health=True)
    crons.status_app(basic=("ops", "password"))
    crons.status_app(audience="https://api.example", email=["ops@example.com"])
    crons.status_app(open_to_all="read")
    crons.status_blueprint(name="page", access=sync_access)
    crons.status_urls(iap_audience="/projects/1")
    crons.status_app(access=no_access)  # type: ignore[arg-type]  # wanted
    crons.status_app(basic="ops:password")  # type: ignore[arg-type]  # wanted
    crons.status_app(open_to_all="write")  # type: ignore[arg-type]  # wanted
    crons.status_blueprint(access=no_access)  # type: ignore[arg-type]  # wanted
    crons.status_urls(read_only="yes")  # type: ignore[arg-type]  # wanted


async def locks() -> None:
    locks = LockService(settings=Settings(margin=0.5))
    assert_type(locks.acquire("name", 60), Lease | Refusal)
    assert_type(await locks.acquire_async("name", timedelta(minutes=1), wait=5, fenced=True), Lease | Refusal)
    if lease := locks.acquire("name", 60):
        assert_type(lease, Lease)
        assert_type(lease.fence, int | None)
    else:
        assert_type(lease, Refusal)
    with locks.hold("name", ttl=60) as held:
        assert_type(held, Lease)
    async with locks.hold("name", ttl=60, wait=5) as held:
        assert_type(held, Lease)
    assert_type(locks.with_lock("name", lambda: function(1)), float | Refusal)
    assert_type(locks.with_lock("name", Jobs().async_method, 60), Awaitable[list[int] | Refusal])
    assert_type(locks.once("name", lambda: function(1)), Done[float])
    assert_type(await locks.once_async("name", Jobs().async_method, ttl=30, wait=5), Done[list[int]])
    locks.once("name", function)  # type: ignore[arg-type]  # wanted
    locks.acquire("name")  # type: ignore[call-arg]  # wanted
    locks.hold("name", ttl="60")  # type: ignore[arg-type]  # wanted
    locks.with_lock("name", 5)  # type: ignore[call-overload]  # wanted
