"""The explorer: what it finds in instances, classes, modules and functions, and what it makes of it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import UTC, datetime
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Optional

import pytest
from tests.unit.jobs import evaluated, explored

import firecron
from firecron import ConfigurationError, Run, distributed_cron
from firecron.jobs.job import explore, without_jobs

if TYPE_CHECKING:
    from collections.abc import Sequence as Unknown

    from firecron import Run as LateRun


def job(name: str) -> Callable[..., Callable[..., object]]:
    return distributed_cron(name, "* * * * *")


def names(*providers: object) -> list[str]:
    return [one.name for one in explore(*providers)]


RUN = Run("job", slot=datetime(2026, 1, 1, tzinfo=UTC), attempt=1, fence=1, idempotency_key="job:1", trigger="schedule")


class Base:
    __slots__ = ("called",)

    def __init__(self) -> None:
        self.called: list[object] = []

    @job("second")
    def second(self) -> object:
        return self

    @job("first")
    async def first(self) -> object:
        return self

    @staticmethod
    @job("static")
    def static() -> str:
        return "static"

    @classmethod
    @job("class")
    def class_method(cls) -> str:
        return cls.__name__

    @job("overridden")
    def overridden(self) -> str:
        return "base"

    @job("dropped")
    def dropped(self) -> str:
        return "base"

    @property
    def trap(self) -> object:
        raise AssertionError("a property was evaluated")

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"{name} was asked for")


class Derived(Base):
    __slots__ = ()

    @job("third")
    def third(self) -> None: ...

    @job("overridden")
    def overridden(self) -> str:
        return "derived"

    def dropped(self) -> str:
        return "derived"


class NoInstance:
    @staticmethod
    @job("static")
    def static() -> str:
        return "static"

    @classmethod
    @job("class")
    def class_method(cls) -> str:
        return cls.__name__

    def undecorated(self) -> None: ...


def test_an_instance_has_the_methods_of_its_class() -> None:
    """Methods are found in the order in which they are written, bound to the object, and nothing else is asked for."""
    base = Base()
    jobs = {one.name: one for one in explore(base)}
    assert list(jobs) == ["second", "first", "static", "class", "overridden", "dropped"]
    assert jobs["second"].call(RUN) is base
    assert jobs["static"].call(RUN) == "static"
    assert jobs["class"].call(RUN) == "Base"
    assert [name for name, one in jobs.items() if one.is_async] == ["first"]
    assert jobs["second"].where == f"{__name__}.Base.second"


def test_what_is_inherited_and_what_is_overridden() -> None:
    """Inherited methods are jobs, an override is the job, and one without the decorator is none."""
    jobs = {one.name: one for one in explore(Derived())}
    assert list(jobs) == ["second", "first", "static", "class", "overridden", "third"]
    assert jobs["overridden"].call(RUN) == "derived"
    assert jobs["class"].call(RUN) == "Derived"
    assert jobs["second"].where == f"{__name__}.Derived.second"


def test_a_class_has_what_needs_no_instance() -> None:
    """Of a class, static and class methods are jobs."""
    jobs = explore(NoInstance)
    assert [(one.name, one.call(RUN)) for one in jobs] == [("static", "static"), ("class", "NoInstance")]


def test_a_class_whose_jobs_need_an_instance_is_refused() -> None:
    """A class given instead of its object is an error that names the method and says what to give."""
    with pytest.raises(ConfigurationError, match=r"Base\.second needs an instance: give FireCron one, .* class Base"):
        explore(Base)


def test_a_module_has_its_functions() -> None:
    """Of a module, its functions and what it imports, without a look into its classes, objects and lazy proxies."""
    jobs = explore(explored)
    assert [one.name for one in jobs] == ["of-module", "of-partial"]
    assert jobs[0].where == "tests.unit.jobs.explored.of_module"
    importing = ModuleType("importing")
    vars(importing).update(vars(explored))
    assert names(importing, explored) == ["of-module", "of-partial"]


def test_a_function_is_itself() -> None:
    """A function, a bound method, a partial and an object that can be called are jobs if they are decorated."""
    base = Base()

    class Callable_:
        async def __call__(self) -> None: ...

    @job("function")
    def function() -> None: ...

    partial = job("partial")(functools.partial(function))
    jobs = explore(function, base.second, partial, job("callable")(Callable_()))
    assert [one.name for one in jobs] == ["function", "second", "partial", "callable"]
    assert jobs[0].where == f"{__name__}.test_a_function_is_itself.<locals>.function"
    assert jobs[1].call(RUN) is base
    assert "partial" in jobs[2].where
    assert jobs[3].is_async


class Undecorated:
    def method(self) -> None: ...


@pytest.mark.parametrize("function", [names, functools.partial(names), Undecorated().method, len])
def test_a_function_without_the_decorator_is_refused(function: object) -> None:
    """A function that was given and is no job is a mistake, and is not passed over."""
    with pytest.raises(ConfigurationError, match="is not a job: decorate it with distributed_cron"):
        explore(function)


@pytest.mark.parametrize(
    ("provider", "remedy"),
    [
        ("main.jobs", "'main.jobs' .*: give the module itself, not its name: import it first"),
        (b"main", "b'main' .*: give the functions themselves"),
        ([print], r"\[.*\] .*: give the functions themselves: FireCron\(\*jobs\)"),
        ((), r"\(\) .*: give the functions themselves: FireCron\(\*jobs\)"),
        (iter([print]), r"FireCron\(\*jobs\)"),
        ({}, r"\{\} .*: give the functions themselves: FireCron\(\*jobs\.values\(\)\)"),
        (None, "None .*: give an object, a class, a module or a function that has jobs"),
        (3, "3 .*: give an object"),
        (object(), "object .*: give an object"),
    ],
)
def test_what_can_not_have_jobs_is_refused(provider: object, remedy: str) -> None:
    """A name, a collection, a number or nothing at all is a mistake; the error shows it and says what to give."""
    with pytest.raises(ConfigurationError, match=remedy):
        explore(provider)


def test_a_collection_of_ones_own_may_have_jobs() -> None:
    """An object whose class is derived from a list is looked at as any other."""

    class Queue(list[int]):
        @job("flush")
        def flush(self) -> None: ...

    assert names(Queue()) == ["flush"]


def test_providers_without_jobs_are_told() -> None:
    """Of the providers, those without a job are named by what they are, not by their repr."""
    found = without_jobs(Base(), Undecorated(), firecron.errors, Undecorated, one)
    assert found == [
        f"an object of {__name__}.Undecorated",
        "the module firecron.errors",
        f"the class {__name__}.Undecorated",
    ]


def test_i36_the_same_thing_twice_counts_once() -> None:
    """An object, a function, or a method found in two ways, is one registration."""
    base = Base()
    once = names(base)
    assert names(base, base, base.second, Base.static, Base.class_method) == once
    assert names(NoInstance, NoInstance(), NoInstance.static) == ["static", "class"]


@job("same")
def one() -> None: ...


@job("same")
def other() -> None: ...


def test_two_functions_of_one_name_are_an_error() -> None:
    """Two functions under one name are refused, naming both; so are two objects of one class."""
    with pytest.raises(
        ConfigurationError, match=r"two jobs are named 'same': .*test_job_explorer\.one and .*\.other\. Each"
    ):
        explore(one, other)
    with pytest.raises(ConfigurationError, match=r"named 'second': .*\.Base\.second of two objects\. Each job's name"):
        explore(Base(), Base())
    with pytest.raises(ConfigurationError, match=r"named 'class': .*Base\.class_method of two objects"):
        explore(Base.class_method, Derived.class_method)


def plain(run: Run) -> object:
    return run


def optional(run: Optional[Run] = None) -> object:  # noqa: UP045  # as many write it
    return run


def union(run: Run | None) -> object:
    return run


def keyword(*, other: int = 5, run: firecron.Run) -> object:
    return run


def annotated(run: Annotated[Run, "this one"]) -> object:
    return run


def quoted(run: "Run") -> object:  # noqa: UP037  # as many write it
    return run


def unknown_beside(run: Run, other: Unknown[int] = ()) -> object:
    return run


def late_optional(run: Optional[firecron.Run] = None, other: Unknown[int] = ()) -> object:  # noqa: UP045  # as above
    return run


def second(other: int = 5, run: Run | None = None, *more: int, **most: int) -> object:
    return run


class Method:
    def method(self, run: Run) -> object:
        return run

    def __call__(self, current: Run) -> object:
        return current


@pytest.mark.parametrize(
    "function",
    [
        plain,
        optional,
        union,
        keyword,
        annotated,
        quoted,
        unknown_beside,
        late_optional,
        second,
        evaluated.evaluated,
        evaluated.evaluated_optional,
        functools.partial(plain),
        functools.partial(keyword, other=6),
        functools.partial(Method().method),
        Method(),
        lambda run=RUN: run,
    ],
)
def test_the_run_is_passed_where_it_is_annotated(function: Callable[..., object]) -> None:
    """A parameter annotated Run gets it, whether the annotation is a class, a text, optional, or can't be evaluated."""
    (found,) = explore(job("job")(function))
    assert found.call(RUN) is RUN


def unannotated(run: object = None) -> object:
    return run


def returned(other: object = None) -> Run | None:
    return None


def collected(*runs: Run, **more: Run) -> object:
    return (*runs, *more) or None


def listed(runs: list[Run] | None = None) -> object:
    return runs


def prefixed(run: Unknown[Run] | None = None) -> object:
    return run


@pytest.mark.parametrize("function", [unannotated, returned, collected, listed, prefixed])
def test_the_run_is_passed_nowhere_else(function: Callable[..., object]) -> None:
    """A parameter of another annotation, or of none, keeps its default."""
    (found,) = explore(job("job")(function))
    assert found.run_parameter is None
    assert found.call(RUN) is None


def needs(name: str, run: Run) -> None: ...


def needs_keyword(*, name: str) -> None: ...


def two_runs(run: Run, name: Run) -> None: ...


def positional(name: Run, /) -> None: ...


def alias(name: LateRun) -> None: ...


@pytest.mark.parametrize("function", [needs, needs_keyword, two_runs, positional, alias, functools.partial(needs)])
def test_an_argument_that_nobody_gives_is_refused(function: Callable[..., object]) -> None:
    """A function that can't be called with its Run alone is refused, naming it and the argument."""
    with pytest.raises(ConfigurationError, match="needs the argument 'name', but a job gets no arguments except"):
        explore(job("job")(function))


def test_a_signature_that_can_not_be_read_is_refused() -> None:
    """Where nobody can tell what a function takes, the refusal says how to make a job of it."""
    with pytest.raises(ConfigurationError, match=r"can't be a job, .*: decorate a function that calls it"):
        explore(job("job")(functools.partial(dict.update, {})))


def test_a_run_without_an_annotation_is_refused_with_what_to_write() -> None:
    """A parameter that is only named `run` is no Run: the refusal says how to annotate it."""

    @distributed_cron("unannotated", "* * * * *")
    def unannotated(run) -> None: ...  # type: ignore[no-untyped-def]  # that is what is refused

    with pytest.raises(
        ConfigurationError, match=r"needs the argument 'run': annotate it, `run: Run`, to get the job's"
    ):
        explore(unannotated)

    @distributed_cron("unannotated", "* * * * *")
    def other(name) -> None: ...  # type: ignore[no-untyped-def]  # as above

    @distributed_cron("annotated", "* * * * *")
    def annotated(run: int) -> None: ...

    for function, name in ((other, "name"), (annotated, "run")):
        with pytest.raises(ConfigurationError, match=f"needs the argument '{name}', but a job gets no arguments"):
            explore(function)
