"""The events of `start`, of a stop and of a fork: one line about this process, and WARNINGs of jobs that never run.

The line about this process reaches standard error even if the program has not configured logging. Python then shows
only warnings. Without the line, the only sign of a mistake would be that jobs don't run.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from firecron.base.events import Events, Slug, logger
from firecron.base.redaction import redacted
from firecron.jobs import declarations
from firecron.scheduler.frameworks import is_a_servers_process
from firecron.scheduler.guard import Verdict
from firecron.settings import EMULATOR_HOST

if TYPE_CHECKING:
    from firecron.jobs.registry import Registry
    from firecron.leaders.leaders import Leaders
    from firecron.lock.service import LockService
    from firecron.scheduler.engine import Engine

_MOST_NAMED = 10


def say_start(
    locks: LockService,
    engine: Engine,
    verdict: Verdict,
    against: str | None,
    database: str | None,
    jobless: Sequence[str],
) -> None:
    """Log the line about this process, and WARNINGs of what is odd about its jobs if it may run them.

    `jobless` are the providers without a job.
    """
    if against is not None and verdict.is_forced:
        against += " (enabled=True overrides the production guard, but not this check)"
    _announce(locks, engine.registry, engine.leaders, verdict, against, database)
    if against is None:
        _warn_of_jobs(locks.events, len(engine.registry.jobs()) + len(engine.leaders.all()), jobless)
        engine.checks.warn(engine.registry.jobs())
        for leader in engine.leaders.all():
            for doubt in leader.options.doubts:
                locks.events.emit("job.suspicious", leader.name, logging.WARNING, f'"{leader.name}": {doubt}')


def _announce(
    locks: LockService,
    registry: Registry,
    leaders: Leaders,
    verdict: Verdict,
    against: str | None,
    database: str | None,
) -> None:
    """Log whether jobs tick in this process, with its instance, pid, database and prefix.

    `against` is the reason why jobs must not tick in this very process, None if there is none.
    """
    level = logging.INFO
    slug: Slug
    if not verdict.may_tick:
        slug = "crons.disabled"
        said = f"disabled in non-production environment: {verdict.why}"
        level = logging.WARNING if verdict.is_suspicious else level
    elif against is not None:
        slug = "crons.not_started"
        said = f"don't tick in this process: {against}"
    else:
        slug = "crons.started"
        said = f"tick in this process: {verdict.why}"
    jobs = registry.jobs()
    here = sum(map(registry.ticks_here, jobs))
    found = leaders.all()
    who, prefix, pid = locks.identity, locks.settings.prefix, os.getpid()
    facts = [
        _counted(here, len(jobs), "job"),
        *([_counted(sum(map(leaders.stands_here, found)), len(found), "leader")] if found else []),
        f"instance {who.instance_id}/{who.instance}",
        f"pid {pid}",
        f"database {database}" if database else "no database looked for",
        f"prefix {prefix}" if prefix else "no prefix",
    ]
    message = f"Distributed crons {said} ({', '.join(facts)})"
    locks.events.emit(
        slug,
        "firecron",
        level,
        message,
        instance_id=who.instance_id,
        instance=who.instance,
        pid=pid,
        database=database,
        prefix=prefix or None,
        jobs=len(jobs),
    )
    is_silenced = logger.disabled or logger.level > level
    if level < logging.WARNING and not logger.hasHandlers() and not is_silenced and logging.lastResort is not None:
        record = logging.LogRecord(logger.name, level, __file__, 0, redacted(message), None, None)
        logging.lastResort.handle(record)


def say_jobs(events: Events, registry: Registry, leaders: Leaders) -> None:
    """Log one line for each job and each leader that is not disabled."""
    for job in registry.jobs():
        if not job.options.disabled:
            where = "" if registry.runs_here(job) else f" (not here: it needs the role {job.options.role!r})"
            line = f'Registered distributed cron "{job.name}" [{job.options.schedule.line}] -> {job.where}{where}'
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
        given = _listed(jobless)
        message = (
            f"FireCron was given {given}, but found no job in it: decorate a method or a function with distributed_cron"
        )
        _warn(events, "crons.no_jobs", message)
    elif not jobs:
        message = "This FireCron has no job, so nothing will run: give it an object, a class, a module or a function"
        _warn(events, "crons.no_jobs", message)
    forgotten = declarations.unclaimed()
    if forgotten:
        message = (
            f"Jobs are declared with distributed_cron but given to no FireCron, so nothing runs them: "
            f"{_listed([f'{one.name!r} ({one.where})' for one in forgotten])}. Give FireCron the function, or the "
            "object that has it. If you did, a decorator above distributed_cron hides the job: one without "
            "functools.wraps, or @property"
        )
        _warn(events, "crons.unclaimed", message)


def named_database(database_url: str | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the database that the environment or the settings name, without connecting to it."""
    return environment.get(EMULATOR_HOST) or (None if database_url is None else redacted(database_url))


def _warn(events: Events, slug: Slug, message: str) -> None:
    events.emit(slug, "firecron", logging.WARNING, message)


def _counted(here: int, number: int, what: str) -> str:
    return f"{'' if here == number else f'{here} of '}{number} {what}{'' if number == 1 else 's'}"


def _listed(things: Sequence[str]) -> str:
    more = len(things) - _MOST_NAMED
    return ", ".join(things[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
