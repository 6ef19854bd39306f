"""What several commands take and understand: options, names, applications, schedules and the end of a pause.

Nothing is asked of the database, except by `check_known`. An application is loaded from the `module:object` that names
its FireCron. The current folder is importable, as it is for `python -m`. Where `DJANGO_SETTINGS_MODULE` names a Django
project, it is set up first, because its jobs need its models. Standard output belongs to the command, so what the
module prints during its import goes to standard error. Nothing is started.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import typer
from typer.core import TyperCommand

from firecron.base.instants import to_datetime, to_milliseconds, to_text
from firecron.base.texts import plain
from firecron.cli.contexts import complete_context, named
from firecron.cli.names import complete_job
from firecron.cli.output import Exit, Failure, answering
from firecron.cron.schedule import DEFAULT_ZONE, Schedule
from firecron.errors import ConfigurationError, Denied
from firecron.store import below

if TYPE_CHECKING:
    from firecron.app import FireCron
    from firecron.jobs.decorator import Unclaimed
    from firecron.ops.operator import Operator
    from firecron.settings import Settings

T = TypeVar("T")

# --- options and arguments

Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON value on standard output.")]
Name: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Name of the job, which is its lock's name.", autocompletion=complete_job),
]
OnlyName: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME", help="Show only this job or lock. A lock has its job's name.", autocompletion=complete_job
    ),
]
Why: TypeAlias = Annotated[str | None, typer.Option("--why", help="The reason, for those who look later.")]
Until: TypeAlias = Annotated[
    str | None,
    typer.Option("--until", metavar="WHEN", help="When the pause ends by itself: 2h, 14:00, or 2026-11-18T14:00:00Z."),
]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask for confirmation.")]
_APP = typer.Argument(
    metavar="APP",
    help="module:object, importable from the current folder. The object is a FireCron, or an instance, class, "
    "module or function that has jobs.",
)
AppPath: TypeAlias = Annotated[str, _APP]
OnlyAppPath: TypeAlias = Annotated[str | None, _APP]
Watch: TypeAlias = Annotated[bool, typer.Option("--watch", "-w", help="Keep showing changes until Ctrl-C.")]
Interval: TypeAlias = Annotated[
    float, typer.Option("--interval", min=0.1, max=3600, help="With --watch: seconds between two looks.")
]
HeldExitCode: TypeAlias = Annotated[
    int, typer.Option("--held-exit-code", min=0, max=255, help="Exit code to use instead of 75.")
]
Host: TypeAlias = Annotated[str, typer.Option("--host", help="Address to listen on.")]
Every: TypeAlias = Annotated[
    float | None,
    typer.Option("--every", metavar="SECONDS", help="Instead of a cron line: the seconds from one tick to the next."),
]
Starting: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--starting",
        metavar="ISO",
        help="No tick is before it. With --every: the first tick; 1970-01-01T00:00Z unless given.",
    ),
]
Ending: TypeAlias = Annotated[
    str | None,
    typer.Option("--until", metavar="ISO", help="No tick is after it; a tick at that instant is the last one."),
]


DatabaseUrl: TypeAlias = Annotated[
    str | None, typer.Option("--database", metavar="URL", help="The database, instead of FIRECRON_DATABASE_URL.")
]
Prefix: TypeAlias = Annotated[
    str | None,
    typer.Option("--prefix", metavar="PATH", help="The path above all nodes, instead of FIRECRON_PREFIX."),
]
Context: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="NAME",
        help="The context that names both: firecron context.",
        autocompletion=complete_context,
    ),
]


def _options(
    database: DatabaseUrl = None,
    prefix: Prefix = None,
    context: Context = None,
    tz: Annotated[
        str | None,
        typer.Option("--tz", metavar="ZONE", help="Show times in this zone, such as Europe/Berlin, or UTC."),
    ] = None,
) -> None:
    """Have the options that name a database, and the zone of the times."""


class OnDatabase(TyperCommand):
    """A command that works on a database, with the options that name it, and the zone of its times."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        alone = typer.Typer(add_completion=False)
        alone.command()(_options)
        self.params += typer.main.get_command(alone).params

    def invoke(self, ctx: Any) -> Any:  # typer's own click is private
        database, prefix, context, tz = (ctx.params.pop(name) for name in ("database", "prefix", "context", "tz"))
        with answering(as_json=bool(ctx.params.get("as_json"))), named(database, prefix, context), _times(tz):
            return super().invoke(ctx)


def _times(tz: str | None) -> AbstractContextManager[None]:
    """Show times in the zone of this name. Raise Failure if there is none."""
    if tz is None:
        return nullcontext()
    from firecron.cli.lines import times_in

    try:
        return times_in(ZoneInfo(tz))
    except (ValueError, OSError, ZoneInfoNotFoundError):
        close = get_close_matches(tz, available_timezones())
        hint = f"; did you mean {' or '.join(close)}?" if close else ": write, for example, Europe/Berlin"
        raise Failure(f"--tz {plain(tz)!r} is no time zone{hint}", Exit.USAGE) from None


def check_why(why: str | None) -> None:
    """Raise Failure if a reason is longer than what is kept of it."""
    from firecron.lock.fields import LONGEST_WHY

    if why is not None and len(why) > LONGEST_WHY:
        raise Failure(f"--why has {len(why)} characters: give at most {LONGEST_WHY}", Exit.USAGE)


# --- names: the database's, and one that it doesn't have


def database_of(settings: Settings) -> str:
    """Return the database that the commands work on, as `doctor` names it, with the prefix. No I/O."""
    from firecron.rtdb.target import find_target

    found = find_target(None, settings.database_url, uid=settings.uid).in_words
    return f"{found}, below {settings.prefix}/" if settings.prefix else found


def no_such(what: str, name: str, names: Iterable[str]) -> Failure:
    """Return what ends a command about a name that isn't among these. The names that are close to it are suggested.

    `what` says what is missing, and where.
    """
    close = get_close_matches(name, names)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return Failure(f"there is no {what.format(plain(name))}{hint}", Exit.USAGE)


def check_known(operator: Operator, name: str, remedy: str = "") -> None:
    """Raise Failure if the database has neither a lock nor a history nor a job of the catalogue with this name.

    A command about one lock calls it where the lock has no node, so that a misspelt name is no success.
    """
    try:
        names = operator.names()
    except Denied:
        return  # a user who may not list the names is believed
    if name not in names:
        where = f"lock or job {{}} in {database_of(operator.settings)}"
        raise no_such(f"{where} (a lock that remembers nothing has no node while it is free){remedy}", name, names)


# --- an application

_DJANGO_SETTINGS = "DJANGO_SETTINGS_MODULE"


@dataclass(frozen=True, slots=True)
class Loaded:
    """An application, and the jobs that it declares but doesn't give to a FireCron."""

    crons: FireCron
    unclaimed: Sequence[Unclaimed] = ()


def load(target: str) -> Loaded:
    """Return the FireCron that `target` names, or a new FireCron of the object that it names.

    Unclaimed jobs are listed only if `target` is a FireCron. A program that makes no FireCron has forgotten no job.
    Raises Failure if `target` can't be imported, or has no jobs.
    """
    # Imported here, because most commands load no application.
    from firecron.app import FireCron
    from firecron.jobs.decorator import unclaimed

    module_name, _, path = target.partition(":")
    found: object = _import(module_name, target)
    for part in path.split(".") if path else ():
        try:
            found = getattr(found, part)
        except AttributeError:
            raise Failure(f"there is no {path!r} in {module_name}{_hint(module_name)}", Exit.USAGE) from None
    if isinstance(found, FireCron):
        return Loaded(found, unclaimed())
    crons = FireCron(found)
    if not crons.registry.jobs() and not crons.engine.leaders.all():
        raise Failure(
            f"{target} has no jobs: it is {_kind(found)}, and nothing in it is decorated with "
            f"distributed_cron or leader{_hint(module_name)}",
            Exit.USAGE,
        )
    return Loaded(crons)


def _import(name: str, target: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise Failure(f"{target!r} is not a module:object: write, for example, myservice.main:crons", Exit.USAGE)
    folder = _from_here()
    settings = os.environ.get(_DJANGO_SETTINGS)
    if settings and importlib.util.find_spec("django") is not None:
        _loading(f"the Django project of {_DJANGO_SETTINGS}={settings}", _set_up_django)
    try:
        return _loading(name, lambda: importlib.import_module(name))
    except ModuleNotFoundError as error:
        # A file's name, as it is given to python itself.
        module = f": write {target.replace('.py', '', 1)}" if name.endswith(".py") else ""
        message = f"there is no module {error.name!r} in {folder} or on Python's path{module}"
        raise Failure(message, Exit.USAGE) from None


def is_module(name: str) -> bool:
    """Return whether a module of this name can be imported from here. It has no dot."""
    _from_here()
    return importlib.util.find_spec(name) is not None


def _from_here() -> str:
    """Let modules be imported from the current folder, and return it."""
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return folder


def _loading(name: str, load: Callable[[], T]) -> T:
    """Return what `load` returns. Raise Failure for what it raises, but ModuleNotFoundError for the module `name`."""
    try:
        with redirect_stdout(sys.stderr):
            return load()
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
            raise
        code = Exit.USAGE if isinstance(error, ConfigurationError) else Exit.FAILED
        last = traceback.extract_tb(error.__traceback__)[-1]
        said = f"{type(error).__name__}: {error} ({last.filename}, line {last.lineno})"
        raise Failure(f"{name} can't be imported: {said}", code) from error


def _set_up_django() -> None:
    """Set Django up as its servers and commands do, unless one of them has."""
    import django
    from django.apps import apps

    if not apps.ready:
        django.setup()


def _hint(module_name: str) -> str:
    from firecron.app import FireCron

    names = [name for name, value in vars(sys.modules[module_name]).items() if isinstance(value, FireCron)]
    return f"; did you mean {' or '.join(f'{module_name}:{name}' for name in names)}?" if names else ""


def _kind(found: object) -> str:
    if isinstance(found, type | ModuleType):
        return f"the {'class' if isinstance(found, type) else 'module'} {found.__name__}"
    return f"a {type(found).__name__}"


# --- a schedule: a cron line with its time zone, or `--every`; with `--starting` and `--until`


def given_schedule(
    line: str | None,
    timezone: str | None,
    every: float | None,
    starting: str | None,
    until: str | None,
    name: str | None = None,
) -> Schedule:
    """Return the schedule of the job of this name, or raise the Failure that says what is wrong with the arguments.

    The name decides the numbers of an H in the line, as in a program with the settings of this environment.
    """
    first = None if starting is None else given_instant("--starting", starting)
    last = None if until is None else given_instant("--until", until)
    full_name = None
    if name is not None:
        # Imported here, because most lines need no settings.
        from firecron.settings import load as load_settings

        full_name = below(load_settings().prefix, name)
    try:
        return Schedule(line, timezone or DEFAULT_ZONE, name=full_name, every=every, starting=first, until=last)
    except ValueError as error:
        raise Failure(str(error), Exit.USAGE) from None


def given_instant(option: str, text: str, timezone: str = "UTC") -> datetime:
    """Return the instant that an option names. Without an offset it is a time in the zone."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise Failure(f"{option} {text!r} is not an instant: write 2026-11-18T09:00:00Z", Exit.USAGE) from None
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=ZoneInfo(timezone))


# --- the end of a pause as it is typed. Pure

FORMS = "a duration (90s, 30m, 2h, 3d), a time of day here (14:00), or an instant (2026-11-18T14:00:00Z)"
_DURATION = re.compile(r"([0-9]{1,9})\s*(s|m|min|h|d)", re.ASCII)
_TIME = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?", re.ASCII)
_WORDS = {"s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days"}


def given_until(text: str, now: int) -> datetime:
    """Return the instant that `--until` names, after `now`. Raise the Failure that says why it names none."""
    from firecron.cli.lines import shown_zone

    try:
        return parse_until(text, now, shown_zone())
    except ValueError as error:
        raise Failure(f"--until {error}", Exit.USAGE) from None


def given_since(text: str, now: int) -> int:
    """Return the instant that `--since` names, before `now`, in milliseconds. Raise the Failure that says why not.

    A time of day is the last one, a date its beginning, both where times are shown.
    """
    from firecron.cli.lines import shown_zone

    typed, zone, moment = text.strip(), shown_zone(), to_datetime(now)
    if found := _DURATION.fullmatch(typed):
        length = timedelta(**{_WORDS[found[2]]: int(found[1])})
        return to_milliseconds(moment - length) if length < timedelta(days=36_500) else 0
    try:
        if found := _TIME.fullmatch(typed):
            today = moment.astimezone(zone).replace(hour=int(found[1]), minute=int(found[2]), second=int(found[3] or 0))
            instant = today if today <= moment else today - timedelta(days=1)
        else:
            instant = datetime.fromisoformat(typed)
            if instant.tzinfo is None:
                instant = instant.astimezone() if zone is None else instant.replace(tzinfo=zone)
    except ValueError:
        forms = "a duration (1d, 90min), a time of day here (14:00), a date or an instant (2026-11-18T09:00Z)"
        raise Failure(f"--since {text!r} is not understood: give {forms}", Exit.USAGE) from None
    if instant > moment:
        raise Failure(f"--since {text!r} is still to come: it is {to_text(now)} now", Exit.USAGE)
    return to_milliseconds(instant.astimezone(UTC))


def parse_until(text: str, now: int, zone: tzinfo | None = None) -> datetime:
    """Return the instant that the text names, after `now` (milliseconds). `zone` is this machine's unless given.

    A time of day is the next one. Raise ValueError, which says why, if it names none, or one that is over.
    """
    try:
        return _instant(text, text.strip(), to_datetime(now), zone)
    except OverflowError:
        raise ValueError(f"{text!r} is too far away: a pause without an end needs no --until") from None


def _instant(text: str, typed: str, present: datetime, zone: tzinfo | None) -> datetime:
    if found := _DURATION.fullmatch(typed):
        if not int(found[1]):
            raise ValueError(f"{text!r} is no time at all: give {FORMS}")
        return present + timedelta(**{_WORDS[found[2]]: int(found[1])})
    if found := _TIME.fullmatch(typed):
        return _next(time(int(found[1]), int(found[2]), int(found[3] or 0)), present, zone)
    try:
        instant = datetime.fromisoformat(typed)
    except ValueError:
        raise ValueError(f"{text!r} is not understood: give {FORMS}") from None
    if instant.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone: end it with Z, or with an offset such as +01:00")
    if instant <= present:
        raise ValueError(f"{text!r} is over already: it is {to_text(present)} now")
    return instant.astimezone(UTC)


def _next(clock: time, present: datetime, zone: tzinfo | None) -> datetime:
    """Return the next instant at which a clock here shows this time; one that a clock change skips comes after it."""
    today = present.astimezone(zone).date()
    days = (datetime.combine(today + timedelta(days=ahead), clock) for ahead in (0, 1))
    return next(
        instant
        for instant in ((day if zone is None else day.replace(tzinfo=zone)).astimezone(UTC) for day in days)
        if instant > present
    )
