"""Jobs that were declared and given to no FireCron."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from firecron import FireCron, distributed_cron
from firecron.jobs import decorator as declarations
from firecron.jobs.decorator import Unclaimed, unclaimed
from firecron.jobs.job import explore


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[object, object]]:
    """What is known of declarations: nothing of those that other modules of this process have made."""
    known: dict[object, object] = {}
    monkeypatch.setattr(declarations, "REMEMBERED", known)
    yield known
    gc.collect()


def job(name: str) -> Callable[..., Callable[..., object]]:
    return distributed_cron(name, "* * * * *")


def names() -> list[str]:
    return [one.name for one in unclaimed()]


def test_a_job_is_unclaimed_until_it_is_given() -> None:
    """A declared function is listed with its place, until an explorer is given it."""

    @job("declared")
    def declared() -> None: ...

    where = f"{__name__}.test_a_job_is_unclaimed_until_it_is_given.<locals>.declared"
    assert unclaimed() == [Unclaimed("declared", where)]
    explore(declared)
    assert unclaimed() == []


def test_whatever_a_firecron_is_given_is_claimed() -> None:
    """Methods of all kinds, wrapped functions, partials, objects and functions of a module are claimed when given; and
    so is a job that is added at run time.
    """

    class Jobs:
        @job("method")
        def method(self) -> None: ...

        @job("static")
        @staticmethod
        def static() -> None: ...

        @classmethod
        @job("class")
        def class_method(cls) -> None: ...

        def __call__(self) -> None: ...

    @job("second")
    @job("first")
    def function() -> None: ...

    @functools.wraps(function)
    def wrapper() -> None: ...

    partial = job("partial")(functools.partial(function))
    called = job("called")(Jobs())
    module = ModuleType("module")
    vars(module).update(in_module=job("in-module")(lambda: None))
    late = job("late")(lambda: None)
    assert names() == ["method", "static", "class", "first", "second", "partial", "called", "in-module", "late"]
    crons = FireCron(Jobs(), wrapper, partial, called, module, enabled=False)
    assert names() == ["late"]
    crons.registry.add(late)
    assert names() == []


def test_an_override_claims_what_it_overrides() -> None:
    """A method that a subclass overrides, as a job or not, is given with the subclass."""

    class Base:
        @job("replaced")
        def replaced(self) -> None: ...

        @job("dropped")
        def dropped(self) -> None: ...

    class Derived(Base):
        @job("other")
        def replaced(self) -> None: ...

        def dropped(self) -> None: ...

    assert [one.name for one in explore(Derived())] == ["other"]
    assert names() == []


def test_what_nobody_can_find_stays_unclaimed() -> None:
    """A job below `property`, or below a decorator without `functools.wraps`, is listed though its object is given."""

    def hiding(function: Callable[..., object]) -> Callable[..., object]:
        def hidden(self: object) -> object:
            return function(self)

        return hidden

    class Jobs:
        @property
        @job("a-property")
        def value(self) -> None: ...

        @hiding
        @job("hidden")
        def hidden(self) -> None: ...

    explore(Jobs())
    assert names() == ["a-property", "hidden"]


def test_a_declaration_is_held_weakly(known: dict[object, object]) -> None:
    """A function that is garbage is listed no more and leaves nothing behind, whether or not it has a name."""
    for number in range(3):
        job(f"tenant-{number}")(functools.partial(print))
        job(f"lambda-{number}")(lambda: None)
    gc.collect()
    assert names() == []
    assert known == {}


def test_what_is_garbage_just_now_is_not_listed(known: dict[object, object], monkeypatch: pytest.MonkeyPatch) -> None:
    """A collection may come while the list is made: what has gone by then is left out."""

    class Going(dict[object, object]):
        def get(self, key: object, default: object = None) -> object:
            return None

    known["gone", None, 1] = lambda: None
    assert names() == []
    monkeypatch.setattr(declarations, "REMEMBERED", Going(known))
    assert names() == []


def test_functions_without_a_name_are_told_apart() -> None:
    """Two partials of one name are two declarations: a FireCron that has one leaves the other unclaimed."""
    one, other = (job("same")(functools.partial(print)) for _ in range(2))
    explore(one)
    assert names() == ["same"]
    explore(other)
    assert names() == []


def test_a_reload_declares_nothing_twice() -> None:
    """A class that is defined again in the same place replaces the first, also while that is still there."""

    def define() -> type:
        class Jobs:
            @job("same")
            def same(self) -> None: ...

        return Jobs

    first = define()
    second = define()
    assert names() == ["same"]
    del first
    gc.collect()
    assert names() == ["same"]
    third = define()
    explore(third())
    assert names() == []
    del second


def test_what_takes_no_weak_reference_is_not_listed() -> None:
    """An object that can't be referred to weakly is a job as any other, and is not remembered."""

    class Bare:
        __slots__ = ("__dict__",)

        def __call__(self) -> None: ...

    bare = job("bare")(Bare())
    assert names() == []
    assert [one.name for one in explore(bare)] == ["bare"]
