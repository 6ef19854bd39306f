"""A job: a decorated function with its options, bound so that it can be called; and how a program's jobs are found.

A job's function is called without arguments, or with its `Run` as the keyword argument that is annotated `Run`. A
function that needs any other argument is refused, but that of a stored job, whose entries have the arguments. Only
`Job.call` calls the function.

What a FireCron is given is searched for decorated functions. The search starts nothing and evaluates nothing, not even
a property:

    an instance   methods of its class, inherited ones included; static and class methods too
    a class       the same; none of them may need an instance
    a module      its functions, also imported ones; nothing in its classes, objects and submodules
    a function    itself, if it is decorated; also a partial, or a callable object

An overriding method replaces the overridden one: it is a job only if it is decorated itself. A provider that is given
twice counts once. Two functions with one name are an error that names both.

Around the runs of a program's jobs are context managers, such as a span, a session or a log context:

    @contextmanager
    def session(run: Run) -> Iterator[None]:
        with Session() as current, current.begin():
            yield

    crons = FireCron(Digests(), around=[session])

Each function is called with the run, anew for each try, and returns a context manager. The first one is the outermost.
Around a sync job all of them are sync. Around an async job they may be of both kinds: `async with` enters those that
have it, and `with` the others. This module checks what is given; `runs.body` enters it.
"""

from __future__ import annotations

import functools
import inspect
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import TypeAlias, get_origin

from firecron.errors import ConfigurationError, Malformed
from firecron.jobs.decorator import (
    claim,
    declarations_of,
    declared,
    function_of,
    is_async,
    parameter_of,
    where_of,
)
from firecron.jobs.options import JobOptions
from firecron.jobs.parameters import Parameters, check_args, parameters_of, run_parameter_of
from firecron.jobs.run import Run, running

Context: TypeAlias = AbstractContextManager[object] | AbstractAsyncContextManager[object]
Around: TypeAlias = Callable[[Run], Context]


def nothing() -> tuple[()]:
    """Return what is around a job or a leader without a FireCron: nothing."""
    return ()


@dataclass(frozen=True, slots=True)
class Job:
    """A function to run, bound, so that it can be called without arguments, or with its Run.

    Args:
        options: The options that it was declared with.
        function: The function, bound.
        where: Where the function was found, for people: its module and name.
        is_async: Whether a call returns an awaitable.
        run_parameter: The parameter that gets the Run; None if there is none.
        parameters: What the function of a stored job takes beside its Run; None of a job with a schedule of its own.
        declared: The stored job, of the job of one of its entries.
        arguments: What the entry gives the function.
        around: Returns what is around each call of the function, the outermost first.
    """

    options: JobOptions
    function: Callable[..., object]
    where: str
    is_async: bool
    run_parameter: str | None
    parameters: Parameters | None = field(default=None, repr=False)
    declared: Job | None = field(default=None, repr=False, compare=False)
    arguments: Mapping[str, object] = field(default_factory=dict, repr=False)
    # A FireCron's registry sets it.
    around: Callable[[], Sequence[Around]] = field(default=nothing, repr=False, compare=False)

    @property
    def name(self) -> str:
        """Its name, and its node in the database."""
        return self.options.name

    def call(self, run: Run) -> object:
        """Call the function. An async function returns an awaitable.

        Args:
            run: The value of its `run_parameter`.
        """
        own = {} if self.run_parameter is None else {self.run_parameter: run}
        return self.function(**self.arguments, **own)

    def entry(self, name: str, node: Mapping[str, object]) -> Job:
        """Return the job of one entry, as its node says. Raise Malformed for a node without a right schedule.

        Raise ConfigurationError if the function doesn't take the arguments. `name` is the entry's, and `self` the
        stored job, or the job of the same entry as it was before.
        """
        from firecron.lock.stored import read_args, read_schedule

        schedule, arguments = read_schedule(node), read_args(node)
        if schedule is None:
            raise Malformed("it has no schedule")
        if self.parameters is not None:
            check_args(name, arguments, self.parameters)
        options = replace(self.options, name=name, schedule=schedule)
        return replace(self, options=options, arguments=arguments, declared=self.declared or self)

    def named(self, name: str) -> Job:
        """Return the job of an entry of which no more is known than its name."""
        return replace(self, options=replace(self.options, name=name), declared=self.declared or self)

    def problem_of(self, args: Mapping[str, object]) -> str | None:
        """Return why the function of a stored job can't be called with these arguments; None if it can."""
        return None if self.parameters is None else self.parameters.problem(args)

    def enter(self, run: Run) -> None:
        """Make this context part of the run."""
        running.set(run)

    def turns_async(self, run: Run) -> None:
        """Take the run for one of an async job: its function has returned an awaitable."""
        run.awaits_steps()

    def leave(self, run: Run) -> None:
        """Let the run begin nothing any more: the function has ended."""
        run.close_steps()


def make_job(options: JobOptions, function: Callable[..., object], where: str) -> Job:
    """Return the job of one function. Raise ConfigurationError if the function needs more than its Run."""
    if options.stored is None:
        run, parameters = parameter_of(Run, "job", function, where), None
    else:
        run, parameters = run_parameter_of(function, where), parameters_of(options, function, where)
    claim(function_of(function), options.name)
    return Job(options, function, where, is_async(function), run, parameters)


# --- where jobs are found


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
        cls = type(provider)
        # A class statement sets `__module__` in the class, and in code run by exec that may be "builtins" too.
        if cls.__module__ == "builtins" and "__module__" not in vars(cls) and not isinstance(provider, type):
            raise ConfigurationError(f"{reprlib.repr(provider)} can't be a provider of jobs: {_remedy(provider)}")
        yield from _methods(provider)


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


def _remedy(provider: object) -> str:
    if isinstance(provider, str):
        return "give the module itself, not its name: import it first"
    if isinstance(provider, Mapping):
        return "give the functions themselves: FireCron(*jobs.values())"
    if isinstance(provider, Iterable):
        return "give the functions themselves: FireCron(*jobs)"
    return "give an object, a class, a module or a function that has jobs"


def _in_words(provider: object) -> str:
    # The repr is not used, because it is the user's code.
    if isinstance(provider, ModuleType):
        return f"the module {provider.__name__}"
    if isinstance(provider, type):
        return f"the class {where_of(provider)}"
    return f"an object of {where_of(type(provider))}"


# --- around a run

_EXAMPLE = "give around=[…] functions of the run that return a context manager"


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
    """Return whether only `async with` enters what this one returns, as far as that can be seen before a call."""
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
