"""`@distributed_cron`: declares a function as a job, and does nothing else.

It starts no thread, opens no connection and imports no SDK. It returns the function unchanged, except that the function
now carries its options. `FireCron` finds it (see `explorer`). Options that can't work are refused here, while the
program is loaded. If the function has other decorators, this one goes on top, or above one that keeps attributes
(`functools.wraps`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from firecron.base.durations import Duration
from firecron.cron.schedule import DEFAULT_ZONE
from firecron.errors import ConfigurationError
from firecron.jobs.declarations import note
from firecron.jobs.options import CatchUp, JobOptions, OnAbandoned, Overlap, check_options

if TYPE_CHECKING:
    from datetime import datetime
    from zoneinfo import ZoneInfo

ATTRIBUTE = "__firecron__"

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
        return declare(*arguments, **options)

    return checked


@_saying_what_is_missing
def distributed_cron(
    lock_name: str,
    cron_time: str | None = None,
    *,
    timezone: str | ZoneInfo = DEFAULT_ZONE,
    every: Duration | None = None,
    starting: datetime | None = None,
    lock_ttl: Duration = 60,
    hold_at_least: Duration = 0,
    once_per_tick: bool = True,
    renew: bool = True,
    overlap: Overlap = "skip",
    catch_up: CatchUp = "skip",
    catch_up_window: Duration = 86_400,
    grace: Duration | None = None,
    on_abandoned: OnAbandoned = "skip",
    retries: int = 0,
    retry_backoff: Duration = 5,
    max_runtime: Duration = 86_400,
    expected_runtime: Duration | None = None,
    alert_after: int = 1,
    jitter: Duration = 0,
    role: str | None = None,
    disabled: bool = False,
) -> Callable[[F], F]:
    """Run the function at the ticks of a cron line, or at even distances, each tick on exactly one instance.

    Durations are seconds or `timedelta`.

    Args:
        lock_name: The job's name, and its node in the database.
        cron_time: The cron line: five fields, or six with seconds first. Or give `every`.
        timezone: The time zone of the cron line: a name or a `ZoneInfo`.
        every: Instead of a cron line, the time from one tick to the next, in whole seconds.
        starting: The first tick of `every`, an aware `datetime`. Default: 1970-01-01 00:00 UTC.
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
    """
    options = check_options(
        name=lock_name,
        line=cron_time,
        timezone=timezone,
        every=every,
        starting=starting,
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
    )

    def declare(function: F) -> F:
        mark(function, options, "distributed_cron")
        return function

    return declare


class Declared(Protocol):
    """What a function is declared as: a job, or a leader."""

    @property
    def name(self) -> str: ...


def declarations_of(thing: object) -> tuple[Declared, ...]:
    """Return what a function was declared as, innermost decorator first; empty for anything that is not declared.

    No property, `__getattr__` or proxy of the thing is evaluated.
    """
    found: tuple[Declared, ...] = inspect.getattr_static(function_of(thing), ATTRIBUTE, ())
    return found


def declared(thing: object) -> tuple[JobOptions, ...]:
    """Return the options of the jobs that a function was declared as."""
    return tuple(options for options in declarations_of(thing) if isinstance(options, JobOptions))


def mark(thing: object, options: Declared, decorator: str) -> None:
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
    note(function, options.name)


def _refusal(decorator: str, thing: object, options: Declared, why: str) -> ConfigurationError:
    return ConfigurationError(f"{decorator}({options.name!r}, …) can't be used on {thing!r}, {why}")


def function_of(thing: object) -> object:
    """Return the function that carries the options: that of a static, class or bound method, or the thing itself."""
    # `type` is used, because isinstance asks the thing for its class, and a proxy returns the class of another object.
    return object.__getattribute__(thing, "__func__") if issubclass(type(thing), _WRAPPERS) else thing
