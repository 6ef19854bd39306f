"""The explorer: finds the decorated functions in what it is given, binds them, and returns jobs. It starts nothing.

It takes instances, classes, modules and functions. Of an instance it finds methods of its class and of all that the
class inherits, also static and class methods; of a class only those that need no instance. The same thing given twice
counts once; two functions under one name are an error that names both.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import get_type_hints

from firecron.decorator import declared
from firecron.errors import ConfigurationError
from firecron.job_options import JobOptions
from firecron.run import Run


@dataclass(frozen=True, slots=True)
class Job:
    """A function to run, and how: bound, so that it can be called with nothing, or with its Run."""

    options: JobOptions
    function: Callable[..., object]
    where: str
    is_async: bool
    run_parameter: str | None

    @property
    def name(self) -> str:
        return self.options.name

    def call(self, run: Run) -> object:
        """Call it; for an async function the answer is to be awaited."""
        return self.function() if self.run_parameter is None else self.function(**{self.run_parameter: run})


def explore(*providers: object) -> list[Job]:
    """The jobs in these providers, in the order in which they are found."""
    jobs: dict[str, Job] = {}
    for provider in providers:
        for function, where in _functions(provider):
            for options in declared(function):
                job = make_job(options, function, where)
                other = jobs.setdefault(job.name, job)
                if other is not job and other.function != job.function:
                    raise ConfigurationError(
                        f"two jobs are named {job.name!r}: {other.where} and {job.where}. "
                        "A name is a lock: give one of them another"
                    )
    return list(jobs.values())


def make_job(options: JobOptions, function: Callable[..., object], where: str) -> Job:
    """A job of one function. ConfigurationError if it can't be called with nothing but a Run."""
    parameter = _run_parameter(function)
    for name, needed in inspect.signature(function).parameters.items():
        is_optional = needed.default is not needed.empty or needed.kind in (needed.VAR_POSITIONAL, needed.VAR_KEYWORD)
        if name != parameter and not is_optional:
            raise ConfigurationError(
                f"{where} needs the argument {name!r}, but a job is called with nothing, "
                "or with a parameter annotated Run"
            )
    return Job(options, function, where, _is_async(function), parameter)


def _functions(provider: object) -> Iterator[tuple[Callable[..., object], str]]:
    if isinstance(provider, ModuleType):
        for name, value in vars(provider).items():
            if callable(value) and not inspect.isclass(value) and declared(value):
                yield value, f"{provider.__name__}.{name}"
        return
    if callable(provider) and declared(provider):
        yield provider, _where(provider)
        return
    cls = provider if inspect.isclass(provider) else type(provider)
    for name in dir(cls):
        # Statically: looking at an attribute must not run a property, and whether it is a static method matters.
        attribute = inspect.getattr_static(cls, name)
        if not declared(attribute):
            continue
        where = f"{cls.__module__}.{cls.__qualname__}.{name}"
        if inspect.isclass(provider) and not isinstance(attribute, staticmethod | classmethod):
            raise ConfigurationError(
                f"{where} needs an instance: give FireCron one, instead of the class {cls.__name__}"
            )
        yield getattr(provider, name), where


def _where(function: Callable[..., object]) -> str:
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', repr(function))}"


def _is_async(function: Callable[..., object]) -> bool:
    return inspect.iscoroutinefunction(function)


def _run_parameter(function: Callable[..., object]) -> str | None:
    """The name of the parameter that is annotated Run."""
    try:
        hints = get_type_hints(function)
    except Exception:
        # An annotation that can't be evaluated, such as a name imported for type checking only: compare what is
        # written.
        hints = getattr(function, "__annotations__", {})
    for name, hint in hints.items():
        if name != "return" and (hint is Run or hint in ("Run", "firecron.Run")):
            return name
    return None
