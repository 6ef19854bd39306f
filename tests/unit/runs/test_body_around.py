"""What is around a run: when it is entered and left, where, and what it may change."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import flask
import pytest
from tests.unit.test_app import new_crons

from firecron import FireCron, Run, Term, current_run, distributed_cron, leader
from firecron.jobs.job import Around
from firecron.testing import Rehearsal

NINE = "2026-11-18T09:00:00Z"
LOCK = "cron-locks/job"
said: ContextVar[str] = ContextVar("said", default="nothing")

Function = Callable[[Run], object]
Told = Callable[[BaseException | None], object]
# Makes a job of a function.
Kind = Callable[[Function], Callable[..., object]]


def sync_job(function: Function) -> Callable[..., object]:
    def work(run: Run) -> None:
        function(run)

    return work


def async_job(function: Function) -> Callable[..., object]:
    async def work(run: Run) -> None:
        await asyncio.sleep(0)
        function(run)

    return work


def awaitable_job(function: Function) -> Callable[..., object]:
    """A sync function that returns something to await."""
    work = async_job(function)

    def hand_out(run: Run) -> object:
        return work(run)

    return hand_out


def sync_around(enters: Function, leaves: Told) -> Around:
    @contextmanager
    def around(run: Run) -> Iterator[None]:
        enters(run)
        try:
            yield
        except BaseException as error:
            leaves(error)
            raise
        leaves(None)

    return around


def async_around(enters: Function, leaves: Told) -> Around:
    @asynccontextmanager
    async def around(run: Run) -> AsyncIterator[None]:
        await asyncio.sleep(0)
        enters(run)
        try:
            yield
        except BaseException as error:
            leaves(error)
            await asyncio.sleep(0)
            raise
        await asyncio.sleep(0)
        leaves(None)

    return around


MakeAround = Callable[[Function, Told], Around]
each = pytest.mark.parametrize(
    ("kind", "make"),
    [(sync_job, sync_around), (awaitable_job, sync_around), (async_job, sync_around), (async_job, async_around)],
    ids=["sync", "sync, awaited", "sync around async", "async"],
)


def nothing(_: object) -> None: ...


def swallowing(run: Run) -> Any:
    return suppress(BaseException)


def rehearsed(job: Callable[..., object], *around: Around, **options: Any) -> Rehearsal:
    declared = distributed_cron("job", "0 9 * * *", retry_backoff=1, **options)(job)
    return FireCron(declared, enabled=False, around=around).testing("2026-11-18T08:59:00Z")


def where() -> object:
    """The task that this code is part of, or its thread."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return threading.current_thread()


def node(test: Rehearsal) -> dict[str, object]:
    found = test.store.get(LOCK)
    assert isinstance(found, dict)
    return found


@each
def test_each_try_has_its_own_inside_the_lease(kind: Kind, make: MakeAround) -> None:
    """Each try enters all of them, the first outermost, after the claim, and leaves them before the release."""
    happened: list[str] = []

    def say(what: str) -> None:
        happened.append(f"{what} {'released' if 'releasedAt' in node(test) else 'held'}")

    def work(run: Run) -> None:
        say("works")
        if happened.count("works held") < 2:
            raise ValueError("once more")

    def around(name: str) -> Around:
        return make(
            lambda run: say(f"{name} enters {run.idempotency_key}"), lambda error: say(f"{name} leaves with {error!r}")
        )

    key = f"job:{NINE}"
    with rehearsed(kind(work), around("outer"), around("inner"), retries=1) as test:
        test.move_to(NINE)
        test.advance(2)
        assert test.outcomes("job") == ["succeeded"]
    first, second = (
        [
            f"outer enters {key} held",
            f"inner enters {key} held",
            "works held",
            f"inner leaves with {error} held",
            f"outer leaves with {error} held",
        ]
        for error in ("ValueError('once more')", "None")
    )
    assert happened == first + second


@each
def test_it_is_where_the_function_is(kind: Kind, make: MakeAround) -> None:
    """They are entered and left in the task of an async job, else on its thread, as a part of the run; what they set in
    the context is there for the function, and gone after the run.
    """
    seen: list[object] = []

    def enter(run: Run) -> None:
        seen.append((where() if make is sync_around and kind is not async_job else None, current_run()))
        said.set("by what is around")

    def work(run: Run) -> None:
        seen.append((None, current_run(), said.get()))

    with rehearsed(kind(work), make(enter, lambda _: seen.append(current_run()))) as test:
        result = test.run("job")
    is_async = kind is async_job
    expected = None if is_async else threading.current_thread()
    assert seen == [(expected, result.run), (None, result.run, "by what is around"), result.run]
    assert said.get() == "nothing"


@pytest.mark.parametrize("make", [sync_around, async_around])
def test_an_async_job_has_all_of_it_in_one_task(make: MakeAround) -> None:
    """An async job is awaited in the very task that enters and leaves what is around it."""
    tasks: list[object] = []
    note = lambda _: tasks.append(where())  # noqa: E731
    with rehearsed(async_job(note), make(note, note)) as test:
        assert test.run("job").outcome == "succeeded"
    assert len(tasks) == 3
    assert isinstance(tasks[0], asyncio.Task)
    assert len(set(tasks)) == 1


def raising(error: BaseException) -> Any:
    def fail(_: object) -> None:
        raise error

    return fail


@each
def test_what_cannot_be_entered_is_a_failure_of_the_try(kind: Kind, make: MakeAround) -> None:
    """An error of entering is the try's failure: the function isn't called, what was entered is left, and the next try
    enters anew.
    """
    happened: list[object] = []
    errors = [OSError("no session")]

    def enter(run: Run) -> None:
        if errors:
            raise errors.pop()
        happened.append("enters")

    outer = make(nothing, happened.append)
    with rehearsed(kind(lambda run: happened.append("works")), outer, make(enter, nothing), retries=1) as test:
        test.move_to(NINE)
        test.advance(2)
        assert [event.message for event in test.events if event.slug == "run.retried"] == [
            '"job" failed and is called again in 1 s: OSError: no session'
        ]
        assert test.outcomes("job") == ["succeeded"]
    assert [str(one) for one in happened] == ["no session", "enters", "works", "None"]


@each
def test_what_raises_as_it_is_left_is_a_failure_of_the_try(kind: Kind, make: MakeAround) -> None:
    """A function that returned has failed if leaving raised, as a commit may; the others learn of that error."""
    told: list[object] = []
    error = OSError("the commit failed")
    with rehearsed(kind(nothing), make(nothing, told.append), make(nothing, raising(error))) as test:
        result = test.run("job")
        assert (result.outcome, result.error) == ("failed", error)
        assert [entry["error"] for entry in test.history("job")] == ["OSError: the commit failed"]
    assert told == [error]


@each
def test_the_functions_own_error_decides(kind: Kind, make: MakeAround) -> None:
    """If leaving raises after the function has, the function's error is the run's, with a note of the other one."""
    own = ValueError("its own")
    with rehearsed(kind(raising(own)), make(nothing, raising(OSError("no rollback")))) as test:
        result = test.run("job")
    assert (result.outcome, result.error) == ("failed", own)
    assert own.__notes__ == ["leaving the job's surroundings raised, too: OSError: no rollback"]


@dataclass(frozen=True)
class Frozen(Exception):
    """An exception that takes neither a traceback nor a note: contextlib fails at it."""

    code: int


@each
def test_an_error_that_takes_no_note_decides_as_well(kind: Kind, make: MakeAround) -> None:
    """Leaving what contextlib makes of a generator raises then, and the function's error is the run's all the same."""
    with rehearsed(kind(raising(Frozen(7))), make(nothing, nothing)) as test:
        result = test.run("job")
        assert (result.outcome, result.error) == ("failed", Frozen(7))
        assert [entry["error"] for entry in test.history("job")] == ["Frozen: 7"]


late = async_around(nothing, nothing)


class Swallowing:
    """An async context manager that suppresses all errors."""

    def __init__(self, run: Run) -> None: ...

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, *raised: object) -> bool:
        return True


@each
def test_what_swallows_an_error_changes_nothing(kind: Kind, make: MakeAround) -> None:
    """An error of the function, of entering or of leaving stays the run's, and all further out learn of it."""
    swallows: list[Around] = [swallowing] if kind is not async_job else [swallowing, Swallowing]
    for one in swallows:
        for function, inner in (
            (raising(ValueError("x")), make(nothing, nothing)),
            (nothing, make(raising(ValueError("x")), nothing)),
            (nothing, make(nothing, raising(ValueError("x")))),
        ):
            told: list[object] = []
            with rehearsed(kind(function), make(nothing, told.append), one, inner) as test:
                result = test.run("job")
            assert (result.outcome, repr(result.error)) == ("failed", "ValueError('x')")
            assert told == [result.error]


@each
def test_it_is_left_when_the_run_is_cancelled(kind: Kind, make: MakeAround) -> None:
    """A run that ends by a cancel leaves what is around it, which learns of that, before its lock is released."""
    happened: list[object] = []

    def work(run: Run) -> None:
        assert test.cancel("job", "for the test")
        test.clock.advance(60)  # the renewal that finds it
        run.check()

    def leave(error: BaseException | None) -> None:
        happened.append((type(error).__name__, "releasedAt" in node(test)))

    with rehearsed(kind(work), make(nothing, leave), lock_ttl=60) as test:
        test.move_to(NINE)
        assert test.outcomes("job") == ["cancelled"]
    assert happened == [("Cancelled", False)]


@pytest.mark.parametrize("make", [sync_around, async_around])
@pytest.mark.parametrize("at", ["entering", "working"])
def test_a_task_that_is_cancelled_leaves_what_it_has_entered(make: MakeAround, at: str) -> None:
    """Where a cancel meets an async job that waits, also while something further in is entered, all that was entered is
    left, and may await, before the lock is released.
    """
    happened: list[object] = []

    async def wait(here: str) -> None:
        if at == here:
            assert test.cancel("job")
            test.clock.advance(60)
            await asyncio.Event().wait()

    @asynccontextmanager
    async def slow(run: Run) -> AsyncIterator[None]:
        await wait("entering")
        yield

    async def work(run: Run) -> None:
        await wait("working")

    def leave(error: BaseException | None) -> None:
        happened.append((type(error).__name__, "releasedAt" in node(test)))

    with rehearsed(work, make(nothing, leave), slow, lock_ttl=60) as test:
        test.move_to(NINE)
        assert test.outcomes("job") == ["cancelled"]
    assert happened == [("CancelledError", False)]


@pytest.mark.parametrize(
    ("job", "around", "why"),
    [
        (
            sync_job,
            lambda run: late(run),  # noqa: PLW0108  # whose kind shows only when it is called
            "an async context manager, and the job 'job' is sync",
        ),
        (sync_job, lambda run: None, "returned None, and that is no context manager"),
        (async_job, lambda run: "x", "returned 'x', and that is no context manager"),
    ],
)
def test_what_cannot_be_entered_at_all_says_so(job: Kind, around: Any, why: str) -> None:
    """What shows only when it is called that it fits no job, or not this one, fails the run with the remedy."""
    with rehearsed(job(nothing), around) as test:
        result = test.run("job")
    assert result.outcome == "failed"
    assert why in str(result.error)


def test_no_step_begins_as_it_is_left() -> None:
    """A step may be done before the function, and none after it, also where the function was never called."""
    errors: list[str] = []

    def leave(error: BaseException | None) -> None:
        with pytest.raises(Exception, match="begins after the job's function has ended") as found:
            current().step("late", str)
        errors.append(str(found.value))

    def current() -> Run:
        run = current_run()
        assert run is not None
        return run

    def enter(run: Run) -> None:
        assert run.step("early", lambda: 7) == 7

    failing = sync_around(raising(OSError()), nothing)
    for arounds in ([sync_around(enter, leave)], [sync_around(enter, leave), failing]):
        with rehearsed(sync_job(nothing), *arounds) as test:
            test.run("job")
    assert len(errors) == 2


def test_it_is_inside_of_flasks_context() -> None:
    """What a program gives as `around` may use the application of `init_app`, and the job has both."""
    seen: list[str] = []
    around = sync_around(lambda run: seen.append(flask.current_app.name), lambda _: seen.append(flask.current_app.name))
    crons = FireCron(distributed_cron("job", "* * * * *")(lambda: None), enabled=False, around=[around])
    crons.init_app(flask.Flask("shop"))
    with crons.testing() as test:
        assert test.run("job").outcome == "succeeded"
    assert seen == ["shop", "shop"]


def test_it_is_not_around_leaders() -> None:
    """A leader's body has no run, and `around` is for runs."""
    seen: list[object] = []
    begun, ended = threading.Event(), threading.Event()

    @leader("first", ttl=10)
    def lead(term: Term) -> None:
        seen.append(term)
        begun.set()
        term.lost.wait(20)
        ended.set()

    crons = FireCron(lead, enabled=False, around=[sync_around(seen.append, seen.append)])
    with crons.testing() as test:
        term = test.elect("first")
        assert begun.wait(20)
        test.depose("first")
    assert ended.is_set()
    assert seen == [term]


def test_one_that_is_put_around_later_is_outermost_until_it_is_taken_away() -> None:
    """What firecron itself puts around runs comes first, and can be taken away again."""
    seen: list[str] = []
    crons, _ = new_crons(distributed_cron("job", "* * * * *")(lambda: seen.append("works")))
    names = ("inner", "outer")
    arounds = [sync_around(lambda run, name=name: seen.append(name), nothing) for name in names]  # type: ignore[misc]  # a default
    taken = [crons.registry.wrap(one) for one in arounds]
    crons.registry.trigger("job")
    taken[1]()
    crons.registry.trigger("job")
    assert seen == ["outer", "inner", "works", "inner", "works"]
