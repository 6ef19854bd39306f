"""The explorer: finds the decorated functions in what it is given, binds them, and returns jobs. It starts nothing.

    an instance   methods of its class, and of all that the class inherits; static and class methods too
    a class       the same, and none of them may need an instance
    a module      its functions, also imported ones; not what is in its classes, objects and submodules
    a function    itself, if it is decorated; also a partial, or an object that can be called

A method that is overridden is the override: it is a job if that is decorated. The same thing given twice counts once;
two functions under one name are an error that names both. Nothing is evaluated in looking, no property either.
"""

from __future__ import annotations

import functools
import inspect
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from types import ModuleType, UnionType
from typing import Annotated, Union, get_args, get_origin

from firecron.errors import ConfigurationError
from firecron.jobs.declarations import claim, where_of
from firecron.jobs.decorator import declared, function_of
from firecron.jobs.options import JobOptions
from firecron.jobs.run import Run


@dataclass(frozen=True, slots=True)
class Job:
    """A function to run, and how: bound, so that it can be called with nothing, or with its Run."""

    options: JobOptions
    function: Callable[..., object]
    where: str
    is_async: bool
    run_parameter: str | None
    # What it is called in (see `surroundings`); a FireCron's registry says so.
    around: Callable[[], AbstractContextManager[object]] = field(default=nullcontext, repr=False, compare=False)

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
                if other.function != job.function:
                    places = f"{other.where} and {job.where}" if other.where != job.where else f"{where} of two objects"
                    raise ConfigurationError(
                        f"two jobs are named {job.name!r}: {places}. A name is a lock: give one of them another"
                    )
    return list(jobs.values())


def without_jobs(*providers: object) -> list[str]:
    """Those of the providers that have no job, in words."""
    return [_in_words(provider) for provider in providers if next(_functions(provider), None) is None]


def make_job(options: JobOptions, function: Callable[..., object], where: str) -> Job:
    """A job of one function. ConfigurationError if it can't be called with nothing but a Run."""
    parameters = _parameters(function, where)
    run = next((name for name, parameter in parameters.items() if _takes_run(parameter)), None)
    for name, needed in parameters.items():
        is_optional = needed.default is not needed.empty or needed.kind in (needed.VAR_POSITIONAL, needed.VAR_KEYWORD)
        if name != run and not is_optional:
            if name == "run" and needed.annotation is needed.empty:
                raise ConfigurationError(
                    f"{where} needs the argument 'run': annotate it, `run: Run`, to get the job's Run"
                )
            raise ConfigurationError(
                f"{where} needs the argument {name!r}, but a job is called with nothing, or with its Run, "
                "as the keyword argument that is annotated so"
            )
    claim(function_of(function), options.name)
    return Job(options, function, where, _is_async(function), run)


def _functions(provider: object) -> Iterator[tuple[Callable[..., object], str]]:
    if isinstance(provider, ModuleType):
        for name, value in vars(provider).items():
            if declared(value):
                yield value, f"{provider.__name__}.{name}"
    elif declared(provider):
        assert callable(provider), "only what can be called is ever declared"
        yield provider, where_of(provider)
    elif inspect.isroutine(provider) or isinstance(provider, functools.partial):
        raise ConfigurationError(f"{where_of(provider)} is no job: decorate it with distributed_cron")
    else:
        if _is_builtin(type(provider)) and not isinstance(provider, type):
            raise ConfigurationError(f"{reprlib.repr(provider)} can't be a provider of jobs: {_remedy(provider)}")
        yield from _methods(provider)


def _is_builtin(cls: type) -> bool:
    # A class statement names its module in the class, which may be this one, too: in code that is run by exec.
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
            for overridden in declared(attributes.get(name)):
                claim(function_of(attributes[name]), overridden.name)
            attributes[name] = attribute
    for name, attribute in attributes.items():
        if not declared(attribute):
            continue
        where = f"{cls.__module__}.{cls.__qualname__}.{name}"
        if cls is provider and inspect.isfunction(attribute):
            raise ConfigurationError(
                f"{where} needs an instance: give FireCron one, instead of the class {cls.__name__}"
            )
        yield getattr(provider, name), where


def _in_words(provider: object) -> str:
    # Not its repr, which is the user's code.
    if isinstance(provider, ModuleType):
        return f"the module {provider.__name__}"
    if isinstance(provider, type):
        return f"the class {where_of(provider)}"
    return f"an object of {where_of(type(provider))}"


def _is_async(function: Callable[..., object]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _parameters(function: Callable[..., object], where: str) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function, eval_str=True).parameters
    except Exception:
        # An annotation that can't be evaluated, such as a name imported for type checking only: as it is written.
        try:
            return inspect.signature(function).parameters
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"{where} can't be a job, {error}: decorate a function that calls it") from None


def _takes_run(parameter: inspect.Parameter) -> bool:
    """Whether it is annotated Run, perhaps None, and can be given by name."""
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        return False
    annotation = parameter.annotation
    if isinstance(annotation, str):
        words = {name.rpartition(".")[2] for name in re.findall(r"[\w.]+", annotation)}
        return words - {"None", "Optional", "Union"} == {"Run"}
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, UnionType):
        return Run in get_args(annotation)
    return annotation is Run
