"""`@distributed_cron` and `@scheduled`: declare a function as a job, and do nothing else.

It starts no thread, opens no connection and imports no SDK. It returns the function unchanged, except that the function
now carries its options. `FireCron` finds it (see `job`). Options that can't work are refused here, while the program is
loaded. If the function has other decorators, this one goes on top, or above one that keeps attributes
(`functools.wraps`).

The jobs that were declared but given to no FireCron are known as well: `start` and the command line name them.

    distributed_cron ─ note ─►  (name, where) of each function, held weakly  ◄─ claim ─ job

A function is claimed for good by the first FireCron that gets it: the function itself, or its object, class or module.
A method that a subclass overrides is claimed with the subclass. A job that stays unclaimed was forgotten, or can't be
found: it is below `@property`, or below a decorator without `functools.wraps`. A function that was garbage collected is
forgotten. A function that is declared again in the same place, as by a reload, replaces the first one.
"""

from __future__ import annotations

import functools
import inspect
import re
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from types import MethodType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

from firecron.base.instants import DAY, Duration, milliseconds
from firecron.cron.schedule import DEFAULT_ZONE, Schedule
from firecron.errors import ConfigurationError
from firecron.jobs.about import check_about
from firecron.jobs.options import (
    DEFAULT_GRACE,
    DEFAULT_MAX_RUNTIME,
    DEFAULT_TTL,
    DEFAULT_WINDOW,
    CatchUp,
    JobOptions,
    OnAbandoned,
    Overlap,
    StoredOptions,
    check_count,
    check_flag,
    check_role,
    check_schedule,
    check_together,
    check_word,
    doubts_of,
)
from firecron.store import check_name

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from firecron.cron.except_days import Days


ATTRIBUTE = "__firecron__"
_MOST_RETRIES = 100
_MOST_FAILURES = 1_000
_MOST_LOOKERS = 1_000
_MOST_HISTORY = 10_000
# A put whose reply was lost must not land after its entry was removed and deleted.
_LEAST_KEPT = 3_600
_WRAPPERS = (staticmethod, classmethod, MethodType)
_USE = '@distributed_cron("send-digest", "0 9 * * *")'
F = TypeVar("F", bound="Callable[..., object] | staticmethod[..., object] | classmethod[Any, ..., object]")
P = ParamSpec("P")
R = TypeVar("R")


def _saying_what_is_missing(declare: Callable[P, R]) -> Callable[P, R]:
    """Raise an error with a remedy if the name or the schedule is missing. Python's own TypeError has no remedy."""

    @functools.wraps(declare)
    def checked(*arguments: P.args, **options: P.kwargs) -> R:
        first = arguments[0] if arguments else None
        if callable(first) or isinstance(first, _WRAPPERS):
            raise ConfigurationError(
                f"distributed_cron was given {first!r} instead of a name and a cron line: write {_USE}"
            )
        said = ", ".join(map(repr, arguments))
        if not arguments and "lock_name" not in options:
            raise ConfigurationError(f"distributed_cron() has no name (lock_name): write {_USE}")
        if len(arguments) < 2 and not options.keys() & {"cron_time", "every"}:
            raise ConfigurationError(
                f"distributed_cron({said}) has no cron line (cron_time), and no every: write {_USE}, or "
                "every=timedelta(minutes=45) instead of the line"
            )
        return suggesting(declare)(*arguments, **options)

    return checked


def suggesting(declare: Callable[P, R]) -> Callable[P, R]:
    """Suggest an option for a misspelt one. Python's own TypeError has no suggestion before 3.13."""

    @functools.wraps(declare)
    def checked(*arguments: P.args, **options: P.kwargs) -> R:
        try:
            return declare(*arguments, **options)
        except TypeError:
            # Imported here, so that a program's first line doesn't load it.
            import difflib

            known = inspect.signature(declare).parameters
            for name in options.keys() - known.keys():
                close = difflib.get_close_matches(name, known, n=1)
                remedy = f"did you mean {close[0]}?" if close else f"the options are {', '.join(known)}"
                raise TypeError(f"{declare.__name__}() has no option {name!r}: {remedy}") from None
            raise

    return checked


@_saying_what_is_missing
def distributed_cron(
    lock_name: str,
    cron_time: str | None = None,
    *,
    timezone: str | ZoneInfo = DEFAULT_ZONE,
    every: Duration | None = None,
    starting: datetime | None = None,
    until: datetime | None = None,
    except_days: Days | None = None,
    lock_ttl: Duration = DEFAULT_TTL,
    hold_at_least: Duration = 0,
    once_per_tick: bool = True,
    renew: bool = True,
    overlap: Overlap = "skip",
    catch_up: CatchUp = "skip",
    catch_up_window: Duration = DEFAULT_WINDOW,
    grace: Duration | None = None,
    on_abandoned: OnAbandoned = "skip",
    retries: int = 0,
    retry_backoff: Duration = 5,
    max_runtime: Duration = DEFAULT_MAX_RUNTIME,
    expected_runtime: Duration | None = None,
    alert_after: int = 1,
    jitter: Duration = 0,
    role: str | None = None,
    disabled: bool = False,
    description: str | None = None,
    owner: str | None = None,
    runbook: str | None = None,
) -> Callable[[F], F]:
    """Run the function at the ticks of a cron line, or at even distances, each tick on exactly one instance.

    Durations are seconds or `timedelta`.

    Args:
        lock_name: The job's name, and its node in the database.
        cron_time: The cron line: five fields, or six with seconds first. `H` is a number from the hash of the name. Or
            give `every`.
        timezone: The time zone of the cron line: a name or a `ZoneInfo`.
        every: Instead of a cron line, the time from one tick to the next, in whole seconds.
        starting: No tick is before it: an aware `datetime`. With `every` it is the first tick, by default 1970-01-01
            00:00 UTC.
        until: No tick is after it: an aware `datetime`. A tick at that instant is the last one.
        except_days: Days without ticks, on the clocks of the time zone: dates, or a pure function of a date; or by
            names, such as `{"holiday": is_holiday}`.
        lock_ttl: How long the lock lasts if its instance dies. It is renewed while the job runs.
        hold_at_least: The least time that the lock is kept, even if the job ends sooner.
        once_per_tick: Claim the tick in the write that takes the lock. False: lock by name only.
        renew: Renew the lock while the job runs. False: it lasts its `lock_ttl`.
        overlap: If the previous run has not finished: `"skip"` the tick, `"queue"` it, `"cancel_previous"` to end that
            run first, or `"allow"` both runs.
        catch_up: For ticks that did not run: `"skip"` them, run the newest `"once"`, or run `"all"` in order.
        catch_up_window: How far back catching up goes.
        grace: How late a tick may start. Default: 60 seconds; for a tick that waits for a run, until the next tick.
        on_abandoned: If the instance of a run dies: `"skip"` the run, or `"rerun"` it on an instance that sees this.
        retries: How often a run that raised is tried again, while the lock is held.
        retry_backoff: The pause before the first of these retries. It doubles for each later one.
        max_runtime: The time after which a run is no longer renewed, and is asked to stop.
        expected_runtime: How long a run takes at most, for monitoring services. It ends no run.
        alert_after: How many runs of ticks have to fail in a row until the job counts as failing. It ends no run.
        jitter: The longest random delay of the start.
        role: Run only on instances whose FIRECRON_ROLES contain this word.
        disabled: Declare and list the job, but never run it by its schedule.
        description: What the job does, in 200 characters. Default: the first line of the function's docstring.
        owner: The team or the person whose job it is, in 100 characters.
        runbook: The https:// address of a page that says what to do if the job fails, in 500 characters.
    """
    options = _checked(
        check_name(lock_name),
        check_schedule(
            check_name(lock_name),
            cron_time,
            timezone,
            every=every,
            starting=starting,
            until=until,
            except_days=except_days,
        ),
        every=every,
        lock_ttl=lock_ttl,
        hold_at_least=hold_at_least,
        once_per_tick=once_per_tick,
        renew=renew,
        overlap=overlap,
        catch_up=catch_up,
        catch_up_window=catch_up_window,
        grace=grace,
        on_abandoned=on_abandoned,
        retries=retries,
        retry_backoff=retry_backoff,
        max_runtime=max_runtime,
        expected_runtime=expected_runtime,
        alert_after=alert_after,
        jitter=jitter,
        role=role,
        disabled=disabled,
        description=description,
        owner=owner,
        runbook=runbook,
    )
    return partial(_declare, options, "distributed_cron")


@suggesting
def scheduled(
    lock_name: str,
    *,
    lookers: int = 3,
    keep_closed: Duration = DAY,
    history: int = 1_000,
    lock_ttl: Duration = DEFAULT_TTL,
    hold_at_least: Duration = 0,
    renew: bool = True,
    overlap: Overlap = "skip",
    catch_up: CatchUp = "skip",
    catch_up_window: Duration = DEFAULT_WINDOW,
    grace: Duration | None = None,
    on_abandoned: OnAbandoned = "skip",
    retries: int = 0,
    retry_backoff: Duration = 5,
    max_runtime: Duration = DEFAULT_MAX_RUNTIME,
    expected_runtime: Duration | None = None,
    alert_after: int = 1,
    jitter: Duration = 0,
    role: str | None = None,
    disabled: bool = False,
    description: str | None = None,
    owner: str | None = None,
    runbook: str | None = None,
) -> Callable[[F], F]:
    """Run the function by the schedules that are stored in the database for it, each tick on exactly one instance.

    `crons.schedules.put` stores one, with the arguments of the function. Each has a lock of its own, so two of them run
    side by side. Durations are seconds or `timedelta`.

    Args:
        lock_name: The job's name. Its entries are named `<name>:<key>`.
        lookers: How many instances look for entries that are due, and run them. A fleet may have more instances.
        keep_closed: How long an entry stays that was removed, or is over, before it is deleted.
        history: How many entries the history of the job has, for all of its schedules together.
        lock_ttl, hold_at_least, renew, overlap, catch_up, catch_up_window, grace: As with `distributed_cron`, for each
            entry by itself.
        on_abandoned, retries, retry_backoff, max_runtime, expected_runtime, alert_after, jitter: The same.
        role, disabled, description, owner, runbook: The same, for the job.
    """
    # Imported here, so that a program without stored jobs doesn't load it.
    from firecron.cron.bounded import NO_TICKS

    stored = StoredOptions(
        check_count(lookers, "lookers", 1, _MOST_LOOKERS),
        milliseconds(keep_closed, "keep_closed", least=_LEAST_KEPT, most=366 * DAY),
        check_count(history, "history", 1, _MOST_HISTORY),
    )
    options = _checked(
        check_name(lock_name),
        NO_TICKS,
        stored=stored,
        once_per_tick=True,
        lock_ttl=lock_ttl,
        hold_at_least=hold_at_least,
        renew=renew,
        overlap=overlap,
        catch_up=catch_up,
        catch_up_window=catch_up_window,
        grace=grace,
        on_abandoned=on_abandoned,
        retries=retries,
        retry_backoff=retry_backoff,
        max_runtime=max_runtime,
        expected_runtime=expected_runtime,
        alert_after=alert_after,
        jitter=jitter,
        role=role,
        disabled=disabled,
        description=description,
        owner=owner,
        runbook=runbook,
    )
    return partial(_declare, options, "scheduled")


def _checked(
    name: str,
    schedule: Schedule,
    *,
    lock_ttl: Duration,
    hold_at_least: Duration,
    once_per_tick: bool,
    renew: bool,
    overlap: Overlap,
    catch_up: CatchUp,
    catch_up_window: Duration,
    grace: Duration | None,
    on_abandoned: OnAbandoned,
    retries: int,
    retry_backoff: Duration,
    max_runtime: Duration,
    expected_runtime: Duration | None,
    alert_after: int,
    jitter: Duration,
    role: str | None,
    disabled: bool,
    description: str | None,
    owner: str | None,
    runbook: str | None,
    every: Duration | None = None,
    stored: StoredOptions | None = None,
) -> JobOptions:
    """Return the options of a declaration, each checked by itself and against the others."""
    options = JobOptions(
        name=name,
        schedule=schedule,
        stored=stored,
        # The margin is a setting of the instance, which checks the rest when it starts.
        lock_ttl=milliseconds(
            lock_ttl, "lock_ttl", least=0.1, at_least="six times the margin: 6 s, unless FIRECRON_MARGIN is smaller"
        ),
        hold_at_least=milliseconds(hold_at_least, "hold_at_least"),
        once_per_tick=check_flag(once_per_tick, "once_per_tick"),
        renew=check_flag(renew, "renew"),
        overlap=check_word(overlap, "overlap", Overlap),
        catch_up=check_word(catch_up, "catch_up", CatchUp),
        catch_up_window=milliseconds(catch_up_window, "catch_up_window", most=366 * DAY),
        # Without any grace, a tick would be too late at once.
        grace=milliseconds(DEFAULT_GRACE if grace is None else grace, "grace", least=0.1),
        # An explicit grace also ends the wait of overlap="queue".
        grace_given=grace is not None,
        on_abandoned=check_word(on_abandoned, "on_abandoned", OnAbandoned),
        retries=check_count(retries, "retries", 0, _MOST_RETRIES),
        retry_backoff=milliseconds(retry_backoff, "retry_backoff"),
        max_runtime=milliseconds(max_runtime, "max_runtime", least=0.1, most=7 * DAY),
        expected_runtime=None
        if expected_runtime is None
        else milliseconds(expected_runtime, "expected_runtime", least=0.1, most=7 * DAY),
        alert_after=check_count(alert_after, "alert_after", 1, _MOST_FAILURES),
        jitter=milliseconds(jitter, "jitter"),
        role=check_role(role),
        disabled=check_flag(disabled, "disabled"),
        about=check_about(description, owner, runbook),
        lock_ttl_is_bare=not isinstance(lock_ttl, timedelta),
        doubts=doubts_of(
            every=every,
            hold_at_least=hold_at_least,
            catch_up_window=catch_up_window,
            grace=grace,
            retry_backoff=retry_backoff,
            max_runtime=max_runtime,
            expected_runtime=expected_runtime,
            jitter=jitter,
        ),
    )
    check_together(options)
    return options


def _declare(options: JobOptions, decorator: str, function: F) -> F:
    mark(function, replace(options, about=options.about.of(function_of(function))), decorator)
    return function


# --- what a function is declared as


class Declaration(Protocol):
    """What a function is declared as: a job, or a leader."""

    @property
    def name(self) -> str: ...


def declarations_of(thing: object) -> tuple[Declaration, ...]:
    """Return what a function was declared as, innermost decorator first; empty for anything that is not declared.

    No property, `__getattr__` or proxy of the thing is evaluated.
    """
    found: tuple[Declaration, ...] = inspect.getattr_static(function_of(thing), ATTRIBUTE, ())
    return found


def declared(thing: object) -> tuple[JobOptions, ...]:
    """Return the options of the jobs that a function was declared as."""
    return tuple(options for options in declarations_of(thing) if isinstance(options, JobOptions))


def mark(thing: object, options: Declaration, decorator: str) -> None:
    """Declare a function: set its options as its attribute. `decorator` is the decorator's name, for errors."""
    function = function_of(thing)
    if isinstance(thing, MethodType):
        # The options would be set on the function, and so on the method of every instance.
        raise _refusal(
            decorator, thing, options, "which is bound: decorate the function in its class, or a partial of this"
        )
    if not callable(function) or inspect.isclass(function):
        raise _refusal(decorator, thing, options, "which is not a function: decorate a function or a method")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise _refusal(decorator, thing, options, "a generator, which does nothing when it is called: remove the yield")
    for other in declarations_of(function):
        if other == options:
            return
        if other.name == options.name:
            raise _refusal(
                decorator, thing, options, "which has that name already, with other options: use another name"
            )
    try:
        setattr(function, ATTRIBUTE, (*declarations_of(function), options))
    except (AttributeError, TypeError):
        why = "which takes no attributes: decorate a function that calls it"
        raise _refusal(decorator, thing, options, why) from None
    remember(function, options.name)


def _refusal(decorator: str, thing: object, options: Declaration, why: str) -> ConfigurationError:
    return ConfigurationError(f"{decorator}({options.name!r}, …) can't be used on {thing!r}, {why}")


def function_of(thing: object) -> object:
    """Return the function that carries the options: that of a static, class or bound method, or the thing itself."""
    # `type` is used, because isinstance asks the thing for its class, and a proxy returns the class of another object.
    return object.__getattribute__(thing, "__func__") if issubclass(type(thing), _WRAPPERS) else thing


def where_of(function: object) -> str:
    """Return where a function is defined, as its module and name. Return the repr of anything without a name."""
    name = getattr(function, "__qualname__", None)
    return repr(function) if name is None else f"{getattr(function, '__module__', '?')}.{name}"


# --- functions that no FireCron has

_Key: TypeAlias = "tuple[str, object, object]"
# What `unclaimed` returns: a weak reference to each function.
REMEMBERED: dict[_Key, weakref.ref[object]] = {}


class Unclaimed(NamedTuple):
    """A job that no FireCron has: its name, and where its function is defined."""

    name: str
    where: str


def remember(function: object, name: str) -> None:
    """Remember that the function was declared as the job of this name."""
    key = _key(function, name)

    try:
        # If another function replaces this one, its old reference is gone and removes nothing.
        REMEMBERED[key] = weakref.ref(function, lambda _: REMEMBERED.pop(key, None))
    except TypeError:
        return  # the object allows no weak reference, and a strong one would keep it for ever


def claim(function: object, name: str) -> None:
    """Note that a FireCron has the function."""
    REMEMBERED.pop(_key(function, name), None)


def unclaimed() -> list[Unclaimed]:
    """Return the jobs that this process declared but gave to no FireCron, in the order of their declaration."""
    found: list[Unclaimed] = []
    # The keys are copied in one step. A garbage collection may remove an entry whenever an object is made.
    for key in list(REMEMBERED):
        reference = REMEMBERED.get(key)
        function = None if reference is None else reference()
        if function is not None:
            found.append(Unclaimed(key[0], where_of(function)))
    return found


def _key(function: object, name: str) -> _Key:
    # A function counts by its name if it has one. A FireCron may find a wrapper made with functools.wraps, which has
    # the same name.
    return name, getattr(function, "__module__", None), getattr(function, "__qualname__", None) or id(function)


# --- the parameters of a declared function
#
# It gets no argument, or the one that an annotation asks for.


def parameter_of(kind: type, what: str, function: Callable[..., object], where: str) -> str | None:
    """Return the name of the parameter that is annotated with `kind`; None if there is none.

    Raise ConfigurationError if the function needs any other argument. `what` is what it is declared as, for errors.
    """
    parameters, word = parameters_in(function, where, what), kind.__name__
    found = next((name for name, parameter in parameters.items() if takes(kind, parameter)), None)
    for name, needed in parameters.items():
        is_optional = needed.default is not needed.empty or needed.kind in (needed.VAR_POSITIONAL, needed.VAR_KEYWORD)
        if name != found and not is_optional:
            if name == word.lower() and needed.annotation is needed.empty:
                raise ConfigurationError(
                    f"{where} needs the argument {name!r}: annotate it, `{name}: {word}`, to get the {what}'s {word}"
                )
            raise ConfigurationError(
                f"{where} needs the argument {name!r}, but a {what} gets no arguments except its {word}, "
                f"as the keyword argument that is annotated `{word}`"
            )
    return found


def is_async(function: Callable[..., object]) -> bool:
    """Return whether a call of the function returns an awaitable."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def parameters_in(function: Callable[..., object], where: str, what: str) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a function. Raise ConfigurationError if they can't be known."""
    try:
        return inspect.signature(function, eval_str=True).parameters
    except Exception:
        # An annotation can't be evaluated, such as a name that is imported for type checking only. It is read as text.
        try:
            return inspect.signature(function).parameters
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"{where} can't be a {what}, {error}: decorate a function that calls it") from None


def takes(kind: type, parameter: inspect.Parameter) -> bool:
    """Return whether the parameter is annotated with the kind (or with it | None), and can be given by name."""
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        return False
    annotation = parameter.annotation
    if isinstance(annotation, str):
        words = {name.rpartition(".")[2] for name in re.findall(r"[\w.]+", annotation)}
        return words - {"None", "Optional", "Union"} == {kind.__name__}
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, UnionType):
        return kind in get_args(annotation)
    return annotation is kind
