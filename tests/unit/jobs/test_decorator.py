"""The decorator: it marks a function and does nothing else."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from firecron import ConfigurationError, distributed_cron
from firecron.jobs.decorator import declared
from firecron.jobs.job import explore
from rtdb_emulator_tests.helpers.processes import Run as RunPython

daily = distributed_cron("daily", "0 9 * * *")


def names(thing: object) -> list[str]:
    return [options.name for options in declared(thing)]


class Jobs:
    def method(self) -> str:
        return "method"

    async def async_method(self) -> str:
        return "async method"

    static_above = staticmethod(daily(lambda: "static above"))
    static_below = daily(staticmethod(lambda: "static below"))
    class_above = classmethod(daily(lambda cls: f"{cls.__name__} above"))
    class_below = daily(classmethod(lambda cls: f"{cls.__name__} below"))


def plain() -> str:
    return "plain"


async def coroutine() -> str:
    return "coroutine"


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        ((plain,), {}, "instead of a name and a cron line"),
        ((staticmethod(plain),), {}, "instead of a name and a cron line"),
        ((classmethod(lambda cls: None),), {}, "instead of a name and a cron line"),
        (("a",), {}, r"distributed_cron\('a'\) has no cron line \(cron_time\), and no every"),
        (("a",), {"lock_ttl": 60}, "has no cron line"),
        ((), {"lock_name": "a"}, "has no cron line"),
        ((), {"cron_time": "0 9 * * *"}, r"has no name \(lock_name\)"),
        ((), {}, r"has no name \(lock_name\)"),
    ],
)
def test_what_is_missing_is_said(arguments: tuple[object, ...], options: dict[str, object], said: str) -> None:
    """Without arguments, a name or a cron line the decorator says what it lacks, and shows how it is written."""
    with pytest.raises(ConfigurationError, match=rf"{said}.*write @distributed_cron\("):
        distributed_cron(*arguments, **options)  # type: ignore[arg-type]  # that is what is tried


@pytest.mark.parametrize(
    ("option", "said"), [("lock_tll", "did you mean lock_ttl?"), ("xyz", "the options are lock_name, cron_time, ")]
)
def test_an_option_that_there_is_none_of_gets_a_suggestion(option: str, said: str) -> None:
    """A word that the decorator doesn't know is a TypeError, as with any function, with the option that is meant."""
    with pytest.raises(TypeError, match=rf"distributed_cron\(\) has no option '{option}': {re.escape(said)}"):
        distributed_cron("a", "0 9 * * *", **{option: 60})  # type: ignore[arg-type]  # misspelled


@pytest.mark.parametrize(
    "function", [plain, coroutine, Jobs.method, Jobs.async_method, functools.partial(plain), lambda: 5]
)
def test_the_function_comes_back_as_it_was(function: Callable[..., object]) -> None:
    """Decorating gives back the same object, marked, and whatever it was stays what it is called with and for."""
    before = dict(vars(function))
    assert distributed_cron("same", "* * * * *")(function) is function
    try:
        assert names(function) == ["same"]
        assert dict(vars(function), **before) == vars(function)
    finally:
        vars(function).clear()
        vars(function).update(before)


@pytest.mark.parametrize(
    ("attribute", "answer"),
    [
        ("static_above", "static above"),
        ("static_below", "static below"),
        ("class_above", "Jobs above"),
        ("class_below", "Jobs below"),
    ],
)
def test_the_order_with_static_and_class_methods_does_not_matter(attribute: str, answer: str) -> None:
    """Above or below `staticmethod` and `classmethod`, the method is marked once, and called as ever."""
    assert names(vars(Jobs)[attribute]) == ["daily"]
    assert names(getattr(Jobs, attribute)) == ["daily"]
    assert getattr(Jobs, attribute)() == answer
    assert getattr(Jobs(), attribute)() == answer


def test_one_function_may_have_several_names() -> None:
    """Stacked decorators declare several jobs, the innermost first."""

    @distributed_cron("evening", "0 18 * * *")
    @distributed_cron("morning", "0 9 * * *", lock_ttl=30)
    def both() -> None: ...

    assert [(one.name, one.schedule.line, one.lock_ttl) for one in declared(both)] == [
        ("morning", "0 9 * * *", 30_000),
        ("evening", "0 18 * * *", 60_000),
    ]
    assert [job.name for job in explore(both)] == ["morning", "evening"]


def test_i36_decorating_twice_registers_once() -> None:
    """The same declaration twice is one, also when it is made again at run time."""

    @distributed_cron("twice", "0 9 * * *", lock_ttl=timedelta(minutes=1))
    @distributed_cron("twice", "0 9 * * *", lock_ttl=60)
    def twice() -> None: ...

    distributed_cron("twice", "0 9 * * *", lock_ttl=60.0)(twice)
    assert names(twice) == ["twice"]
    assert [job.name for job in explore(twice, twice)] == ["twice"]


@pytest.mark.parametrize(("line", "options"), [("0 18 * * *", {}), ("0 9 * * *", {"lock_ttl": 30})])
def test_i36_a_name_is_not_declared_twice_with_a_difference(line: str, options: dict[str, int]) -> None:
    """Another schedule or option under the same name is refused, for one of the two would never be heard of."""

    def twice() -> None: ...

    distributed_cron("twice", "0 9 * * *")(twice)
    with pytest.raises(ConfigurationError, match=r"'twice'.*has that name already, with other options: use another"):
        distributed_cron("twice", line, **options)(twice)  # type: ignore[arg-type]  # one of them is enough
    assert declared(twice)[0].schedule.line == "0 9 * * *"


def test_other_decorators_may_be_above() -> None:
    """A decorator that keeps the attributes of what it wraps hands the mark on; a mark of its own stays its own."""

    @distributed_cron("inner", "* * * * *")
    def inner() -> str:
        return "inner"

    @distributed_cron("outer", "* * * * *")
    @functools.wraps(inner)
    def outer() -> str:
        return f"around {inner()}"

    assert names(outer) == ["inner", "outer"]
    assert names(inner) == ["inner"]
    assert {job.call(None) for job in explore(outer)} == {"around inner"}  # type: ignore[arg-type]  # takes no run


class Callable_:
    def __call__(self) -> None: ...


class Slotted:
    __slots__ = ()

    def __call__(self) -> None: ...


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> object:
    yield 1


@pytest.mark.parametrize(
    ("thing", "problem"),
    [
        (5, "decorate a function or a method"),
        (property(Jobs.method), "decorate a function or a method"),
        (Callable_, "decorate a function or a method"),
        (classmethod(5), "decorate a function or a method"),  # type: ignore[arg-type]  # refused for it
        (Jobs().method, "which is bound: decorate the function in its class, or a partial of this"),
        (generator, "a generator, which does nothing when it is called: remove the yield"),
        (staticmethod(generator), "a generator"),
        (functools.partial(generator), "a generator"),
        (async_generator, "a generator"),
        (Slotted(), "which takes no attributes: decorate a function that calls it"),
        (print, "which takes no attributes: decorate a function that calls it"),
    ],
)
def test_what_can_not_be_a_job_is_refused(thing: Callable[..., object], problem: str) -> None:
    """What isn't a function, or would do nothing as a job, is refused with what it is, and stays unmarked."""
    with pytest.raises(ConfigurationError) as caught:
        distributed_cron("refused", "* * * * *")(thing)
    assert str(caught.value).startswith("distributed_cron('refused', …) can't be used on ")
    assert problem in str(caught.value)
    assert declared(thing) == ()


def test_a_bound_method_is_a_job_through_a_partial() -> None:
    """As the refusal of a bound method says, a partial of it can be decorated, and is this object's alone."""
    job = distributed_cron("bound", "* * * * *")(functools.partial(Jobs().method))
    assert names(job) == ["bound"]
    assert names(Jobs.method) == []


DECORATING = """
import json, sys, threading
from firecron import distributed_cron
@distributed_cron("job", "0 9 * * *", timezone="Europe/Berlin")
def job(): ...
print(json.dumps([sorted({name.partition(".")[0] for name in sys.modules}), threading.active_count()]))
"""


def test_decorating_loads_no_sdk_and_starts_nothing(run: RunPython) -> None:
    """A program that only decorates has loaded nothing but the standard library, and has one thread."""
    finished = run("-c", DECORATING)
    assert finished.returncode == 0, finished.stderr
    loaded, threads = json.loads(finished.stdout)
    assert not set(loaded) & {"firebase_admin", "google", "requests", "urllib3", "pydantic", "asyncio", "rtdb_emulator"}
    assert threads == 1
