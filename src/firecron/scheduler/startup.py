"""A start: whether jobs may tick in this process, and what is logged of it, of a stop and of a fork.

    evaluate_guard         the production guard: jobs tick only in the production environment
    reason_not_to_start    the processes in which jobs must not tick, although they load the application
    say_start, …           one line about this process, and WARNINGs of jobs that never run
    say_without_traceback  the sentence alone of a start that fails, in a server's log

A laptop, a test or a staging service that shares the database must not compete for production's locks. So the ticker
starts only if the variable `RUNTIME_INSTANCE` is `production`, or if the program says `FireCron(enabled=True)`.

The reloaders of Flask and Django run the program twice, and their other commands load it, too: a job should not tick in
`manage.py migrate`. Nor should it in a command of firecron itself, unless that is `work`: `firecron run` runs one job
by hand, and must claim no tick of another. `FireCron(enabled=True)` doesn't change this. It overrides the production
guard, which decides in which environments jobs tick, not in which processes there. If a program of your own should
tick, make it a script, not a command of Flask or Django.

Servers are always allowed: each of their workers is a process that ticks for itself. Limit: with `app.run(debug=True)`
this module can't know that a reloader will follow. Use `flask run` instead.

The line about this process reaches standard error even if the program has not configured logging. Python then shows
only warnings. Without the line, the only sign of a mistake would be that jobs don't run.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from firecron.base.events import Events, Slug, logger
from firecron.base.instants import in_utc, to_datetime
from firecron.base.texts import redacted
from firecron.cron.words import in_words

if TYPE_CHECKING:
    from firecron.lock.database import Database
    from firecron.scheduler.engine import Engine
    from firecron.settings import Settings


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether jobs may tick, with the reason in a sentence.

    `is_suspicious` means that jobs may not tick here, perhaps by mistake: the process looks like production, or the
    variable has another value. Then the jobs would never run. `is_forced` means that the program decided.
    """

    may_tick: bool
    why: str
    is_suspicious: bool = False
    is_forced: bool = False


class Program(Protocol):
    """The parts of a FireCron that a start, its watch and the doctor look at."""

    database: Database
    engine: Engine

    @property
    def verdict(self) -> Verdict: ...


def evaluate_guard(enabled: bool | None, settings: Settings, environment: Mapping[str, str] = os.environ) -> Verdict:
    """Return the guard's verdict. `enabled` overrides it."""
    if enabled is not None:
        return Verdict(enabled, f"FireCron was created with enabled={enabled}", is_forced=True)
    variable, value = settings.runtime_variable, settings.runtime_value
    found = environment.get(variable)
    if found == value:
        return Verdict(True, f"{variable} is {value!r}")
    # Imported here, because each command loads this module, and most of them need no verdict.
    from firecron.base.identity import find_cloud_run

    why = f"{variable} is {'not set' if found is None else repr(found)}, and jobs tick only where it is {value!r}"
    place = find_cloud_run(environment)
    # The execution of a Cloud Run job has an end: it is a command rather than a process that ticks.
    is_production = place is not None and place.kind != "job"
    if place is not None and is_production:
        why += f"; this looks like production, because {place.variable} is {place.name!r}"
    return Verdict(False, why, is_suspicious=bool(is_production or found))


# --- the processes in which jobs must not tick

# Servers that a command may have started: the command's variables are still set in their processes.
_SERVERS = {"gunicorn", "uvicorn", "hypercorn", "granian", "daphne", "waitress-serve", "waitress", "fastapi"}
_TEST_RUNNERS = {"pytest", "py.test", "unittest"}
_TEST_VARIABLES = ("PYTEST_VERSION", "PYTEST_CURRENT_TEST", "PYTEST_XDIST_WORKER")
_DJANGO = {"manage", "django-admin", "django"}
_DJANGO_SERVING = {"runserver", "runserver_plus"}
# The command of firecron whose process ticks.
_WORKER = "work"
_FLASK_OPTIONS_WITH_VALUE = {"-A", "--app", "-e", "--env-file"}
_NO = {"", "0", "f", "false", "n", "no", "off"}

# The commands of firecron that are under way in this process, the innermost last.
_commands: list[str] = []


@contextmanager
def in_command(name: str) -> Iterator[None]:
    """Perform a command of firecron: in the block no job starts to tick, unless the command is `work`.

    A command is known by its arguments as well, but not where a program or a test calls it.
    """
    _commands.append(name)
    try:
        yield
    finally:
        _commands.pop()


def reason_not_to_start(
    environment: Mapping[str, str] = os.environ, arguments: Sequence[str] | None = None
) -> str | None:
    """Return the reason why jobs should not tick in this process; None if they should."""
    program, rest = _program(arguments)
    if _commands:
        return _against_firecron(_commands[-1])
    if program in _SERVERS:
        return None
    if program == "firecron":
        # Also in the processes that a job of the command spawns, which have its arguments.
        return _against_firecron(_command(rest))
    if program == "flask" or environment.get("FLASK_RUN_FROM_CLI") == "true":
        return _against_flask(environment, rest)
    if program in _DJANGO and environment.get("DJANGO_SETTINGS_MODULE"):
        return _against_django(environment, rest)
    return None


def is_a_servers_process(arguments: Sequence[str] | None = None) -> bool:
    """Return whether this process belongs to a server. Then a forked child may be one of the server's workers."""
    return _program(arguments)[0] in _SERVERS


def is_a_test_run(environment: Mapping[str, str] = os.environ, arguments: Sequence[str] | None = None) -> bool:
    """Return whether this process runs tests."""
    return _program(arguments)[0] in _TEST_RUNNERS or any(name in environment for name in _TEST_VARIABLES)


def _program(arguments: Sequence[str] | None) -> tuple[str, Sequence[str]]:
    """Return the name of the program and its arguments, by default those of this process."""
    path, *rest = sys.argv if arguments is None else arguments or [""]
    program = Path(path).stem
    return (Path(path).parent.name if program == "__main__" else program), rest  # python -m


def _against_firecron(command: str) -> str | None:
    return None if command == _WORKER else f"this is `{f'firecron {command}'.rstrip()}`, not a server"


def _against_flask(environment: Mapping[str, str], arguments: Sequence[str]) -> str | None:
    command = _command(arguments, _FLASK_OPTIONS_WITH_VALUE)
    if command != "run":
        return f"this is the Flask command {command!r}, not a server"
    if _flask_reloads(environment, arguments) and environment.get("WERKZEUG_RUN_MAIN") != "true":
        return "this is the parent of Flask's reloader; the jobs tick in its child"
    return None


def _command(arguments: Sequence[str], with_value: Container[str] = ()) -> str:
    """Return the first argument that is neither an option nor the value of one."""
    rest = iter(arguments)
    for argument in rest:
        if argument in with_value:
            next(rest, None)
        elif not argument.startswith("-"):
            return argument
    return ""


def _flask_reloads(environment: Mapping[str, str], arguments: Sequence[str]) -> bool:
    switches = [argument for argument in arguments if argument in ("--reload", "--no-reload")]
    if switches:
        return switches[-1] == "--reload"
    # When the application is loaded, Flask has already put the options --debug and --no-debug into FLASK_DEBUG.
    said = environment.get("FLASK_RUN_RELOAD") or environment.get("FLASK_DEBUG", "")
    return said.lower() not in _NO


def _against_django(environment: Mapping[str, str], arguments: Sequence[str]) -> str | None:
    command = arguments[0] if arguments else ""
    if command == "firecron":
        # The project is set up before the command begins, which then listens to signals and starts what it was given.
        name = _command(arguments[1:])
        return _against_firecron(name) or "`firecron work` starts those of its APP once Django is set up"
    if command not in _DJANGO_SERVING:
        return f"this is the Django command {command!r}, not a server"
    # runserver_plus uses Werkzeug's reloader, which sets a variable of its own.
    is_child = "true" in (environment.get("RUN_MAIN"), environment.get("WERKZEUG_RUN_MAIN"))
    if "--noreload" not in arguments and not is_child:
        return "this is the parent of Django's reloader; the jobs tick in its child"
    return None


# --- what is logged


def say_start(crons: Program, against: str | None, address: str | None, jobless: Sequence[str]) -> None:
    """Log whether jobs tick in this process, with its instance, pid, database and prefix; and WARNINGs of what is odd
    about its jobs if it may run them.

    `against` is the reason why jobs must not tick in this very process, None if there is none. `jobless` are the
    providers without a job.
    """
    _announce(crons, against, address)
    if against is None:
        registry = crons.engine.registry
        jobs, leaders = registry.jobs(), crons.engine.leaders.all()
        events = crons.database.events
        _warn_of_jobs(events, len(jobs) + len(leaders), jobless)
        crons.engine.checks.warn(jobs)
        for leader in leaders:
            for doubt in leader.options.doubts:
                events.emit("job.suspicious", leader.name, logging.WARNING, f'"{leader.name}": {doubt}')


def _announce(crons: Program, against: str | None, address: str | None) -> None:
    database, engine, verdict = crons.database, crons.engine, crons.verdict
    level = logging.INFO
    slug: Slug
    if not verdict.may_tick:
        slug = "crons.disabled"
        said = f"disabled in non-production environment: {verdict.why}"
        level = logging.WARNING if verdict.is_suspicious else level
    elif against is not None:
        slug = "crons.not_started"
        but = " (enabled=True overrides the production guard, but not this check)" if verdict.is_forced else ""
        said = f"don't tick in this process: {against}{but}"
    else:
        slug = "crons.started"
        said = f"tick in this process: {verdict.why}"
    jobs, leaders = engine.registry.jobs(), engine.leaders.all()
    who, prefix, pid = database.identity, database.settings.prefix, os.getpid()
    facts = [
        _counted(sum(map(engine.registry.ticks_here, jobs)), len(jobs), "job"),
        *([_counted(sum(map(engine.leaders.stands_here, leaders)), len(leaders), "leader")] if leaders else []),
        f"instance {who.instance_id}/{who.instance}",
        f"pid {pid}",
        f"database {address}" if address else "no database looked for",
        f"prefix {prefix}" if prefix else "no prefix",
    ]
    message = f"Distributed crons {said} ({', '.join(facts)})"
    database.events.emit(
        slug,
        "firecron",
        level,
        message,
        instance_id=who.instance_id,
        instance=who.instance,
        pid=pid,
        database=address,
        prefix=prefix or None,
        jobs=len(jobs),
    )
    is_silenced = logger.disabled or logger.level > level
    if level < logging.WARNING and not logger.hasHandlers() and not is_silenced and logging.lastResort is not None:
        record = logging.LogRecord(logger.name, level, __file__, 0, redacted(message), None, None)
        logging.lastResort.handle(record)


def say_jobs(crons: Program) -> None:
    """Log one line for each job and each leader that is not disabled.

    A job's line says what its schedule means and when it ticks next, so that a line that is read otherwise than it was
    meant is seen before its first tick.
    """
    events, registry, leaders = crons.database.events, crons.engine.registry, crons.engine.leaders
    now = to_datetime(round(crons.database.timing.wall()))  # RTDB's time is not known yet
    for job in registry.jobs():
        if not job.options.disabled and events.are_heard(logging.INFO):
            schedule = job.options.schedule
            words = f" {in_words(schedule)}" if schedule.has_line else ""
            coming = schedule.next_after(now)
            following = "it has ended" if coming is None else f"next {in_utc(coming)}"
            following = following if job.options.stored is None else "they are in the database"
            where = "" if registry.runs_here(job) else f" (not here: it needs the role {job.options.role!r})"
            line = (
                f'Registered distributed cron "{job.name}" [{schedule.line}]{words}; {following} -> {job.where}{where}'
            )
            events.emit("job.registered", job.name, logging.INFO, line)
    for leader in leaders.all():
        if not leader.options.disabled:
            needs = f" (not here: it needs the role {leader.options.role!r})"
            where = "" if leaders.stands_here(leader) else needs
            line = f'Registered leader "{leader.name}" -> {leader.where}{where}'
            events.emit("job.registered", leader.name, logging.INFO, line)


def say_forked(events: Events) -> None:
    """Log in a forked child that jobs don't tick there, although they tick in its parent."""
    # A server's child was probably meant to tick. Other children, such as a pool's, were not.
    level = logging.WARNING if is_a_servers_process() else logging.INFO
    message = (
        "Distributed crons were started before a fork, and don't tick in the child: call start() there "
        "(gunicorn --preload: in post_fork) if it should run jobs"
    )
    events.emit("crons.forked", "firecron", level, message)


def say_stopped(events: Events) -> None:
    """Log that jobs tick no more."""
    events.emit("crons.stopped", "firecron", logging.INFO, "Distributed crons stopped")


def _warn_of_jobs(events: Events, jobs: int, jobless: Sequence[str]) -> None:
    """Log WARNINGs about providers without a job, a FireCron without a job, and jobs that no FireCron was given."""
    if jobless:
        given = listed(jobless)
        message = (
            f"FireCron was given {given}, but found no job in it: decorate a method or a function with distributed_cron"
        )
        _warn(events, "crons.no_jobs", message)
    elif not jobs:
        message = "This FireCron has no job, so nothing will run: give it an object, a class, a module or a function"
        _warn(events, "crons.no_jobs", message)
    # Imported here, for the same reason as in `evaluate_guard`: who starts has declared jobs.
    from firecron.jobs.decorator import unclaimed

    forgotten = unclaimed()
    if forgotten:
        message = (
            f"Jobs are declared with distributed_cron but given to no FireCron, so nothing runs them: "
            f"{listed([f'{one.name!r} ({one.where})' for one in forgotten])}. Give FireCron the function, or the "
            "object that has it. If you did, a decorator above distributed_cron hides the job: one without "
            "functools.wraps, or @property"
        )
        _warn(events, "crons.unclaimed", message)


def named_database(database_url: str | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the database that the environment or the settings name, without connecting to it."""
    from firecron.settings import EMULATOR_HOST  # late, because what checks settings is slow to load

    # A host that is refused later, where a connection is made, may have a user and a password.
    return environment.get(EMULATOR_HOST, "").rpartition("@")[2] or database_url


def _warn(events: Events, slug: Slug, message: str) -> None:
    events.emit(slug, "firecron", logging.WARNING, message)


def _counted(here: int, number: int, what: str) -> str:
    return f"{'' if here == number else f'{here} of '}{number} {what}{'' if number == 1 else 's'}"


def listed(things: Sequence[str], most: int = 10) -> str:
    """Return the names as one text; of more than `most`, the first of them and how many others there are."""
    more = len(things) - most
    return ", ".join(things[:most]) + (f" and {more} more" if more > 0 else "")


# --- a start that fails, in a server's log

# The logger to which uvicorn writes why an application's lifespan has failed.
_SERVERS_LOG = "uvicorn.error"


def say_without_traceback(error: BaseException) -> None:
    """Have the server's log tell the error of a start by its sentence alone.

    Starlette gives the server the text of a whole traceback, which ends in the sentence that a person needs.
    """
    if "uvicorn" in sys.modules:
        _sentence.said = str(error)
        logging.getLogger(_SERVERS_LOG).addFilter(_sentence)


class _Sentence(logging.Filter):
    """Replaces one record: the text of the error's traceback, by the error's own text, which is `said`.

    There is one, because a logger takes the same filter once: starts that fail without any server leave no more.
    """

    said = ""

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if text.startswith("Traceback ") and text.rstrip().endswith(self.said):
            record.msg, record.args = self.said, ()
            logging.getLogger(_SERVERS_LOG).removeFilter(self)
        return True


_sentence = _Sentence()
