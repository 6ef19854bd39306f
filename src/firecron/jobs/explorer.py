"""The explorer: finds the decorated functions in what a FireCron is given, and returns their jobs. It starts nothing.

    an instance   methods of its class, inherited ones included; static and class methods too
    a class       the same; none of them may need an instance
    a module      its functions, also imported ones; nothing in its classes, objects and submodules
    a function    itself, if it is decorated; also a partial, or a callable object

An overriding method replaces the overridden one: it is a job only if it is decorated itself. A provider that is given
twice counts once. Two functions with one name are an error that names both. The search evaluates nothing, not even a
property.
"""

from __future__ import annotations

import functools
import inspect
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType

from firecron.errors import ConfigurationError
from firecron.jobs.declarations import claim, where_of
from firecron.jobs.decorator import declarations_of, declared, function_of
from firecron.jobs.job import Job, make_job


def explore(*providers: object) -> list[Job]:
    """Return the jobs in these providers, in the order in which they are found."""
    jobs: dict[str, Job] = {}
    for provider in providers:
        for function, where in functions(provider):
            for options in declared(function):
                job = make_job(options, function, where)
                other = jobs.setdefault(job.name, job)
                if other.function != job.function:
                    places = f"{other.where} and {job.where}" if other.where != job.where else f"{where} of two objects"
                    raise ConfigurationError(
                        f"two jobs are named {job.name!r}: {places}. Each job's name is its lock: rename one of them"
                    )
    return list(jobs.values())


def without_jobs(*providers: object) -> list[str]:
    """Return the providers that have no job, each described in words."""
    return [_in_words(provider) for provider in providers if next(functions(provider), None) is None]


def functions(provider: object) -> Iterator[tuple[Callable[..., object], str]]:
    """Yield the functions in a provider that are declared as anything, each with where it was found."""
    if isinstance(provider, ModuleType):
        for name, value in vars(provider).items():
            if declarations_of(value):
                yield value, f"{provider.__name__}.{name}"
    elif declarations_of(provider):
        assert callable(provider), "only what can be called is ever declared"
        yield provider, where_of(provider)
    elif inspect.isroutine(provider) or isinstance(provider, functools.partial):
        raise ConfigurationError(f"{where_of(provider)} is not a job: decorate it with distributed_cron")
    else:
        if _is_builtin(type(provider)) and not isinstance(provider, type):
            raise ConfigurationError(f"{reprlib.repr(provider)} can't be a provider of jobs: {_remedy(provider)}")
        yield from _methods(provider)


def _is_builtin(cls: type) -> bool:
    # A class statement sets `__module__` in the class, and in code run by exec that may be "builtins" too.
    return cls.__module__ == "builtins" and "__module__" not in vars(cls)


def _remedy(provider: object) -> str:
    if isinstance(provider, str):
        return "give the module itself, not its name: import it first"
    if isinstance(provider, Mapping):
        return "give the functions themselves: FireCron(*jobs.values())"
    if isinstance(provider, Iterable):
        return "give the functions themselves: FireCron(*jobs)"
    return "give an object, a class, a module or a function that has jobs"


def _methods(provider: object) -> Iterator[tuple[Callable[..., object], str]]:
    cls = provider if isinstance(provider, type) else type(provider)
    attributes: dict[str, object] = {}
    for owner in reversed(cls.__mro__):
        for name, attribute in vars(owner).items():
            for overridden in declarations_of(attributes.get(name)):
                claim(function_of(attributes[name]), overridden.name)
            attributes[name] = attribute
    for name, attribute in attributes.items():
        if not declarations_of(attribute):
            continue
        where = f"{cls.__module__}.{cls.__qualname__}.{name}"
        if cls is provider and inspect.isfunction(attribute):
            raise ConfigurationError(
                f"{where} needs an instance: give FireCron one, instead of the class {cls.__name__}"
            )
        yield getattr(provider, name), where


def _in_words(provider: object) -> str:
    # The repr is not used, because it is the user's code.
    if isinstance(provider, ModuleType):
        return f"the module {provider.__name__}"
    if isinstance(provider, type):
        return f"the class {where_of(provider)}"
    return f"an object of {where_of(type(provider))}"
