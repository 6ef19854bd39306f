"""What `start` says, and a stop or a fork after it: one line about this process, and WARNINGs of jobs that nobody gave
to it.

The line reaches standard error also where nobody has configured logging: Python itself shows warnings then, and drops
the rest, and a job that never runs would be all there is to notice.
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
    from firecron.lock.service import LockService

_MOST_NAMED = 10


def announce(
    locks: LockService, registry: Registry, verdict: Verdict, against: str | None, database: str | None
) -> None:
    """Say whether jobs tick in this process, and what it is. `against` is what speaks against this very process."""
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
    who, prefix, pid = locks.identity, locks.settings.prefix, os.getpid()
    facts = [
        f"{'' if here == len(jobs) else f'{here} of '}{len(jobs)} {'job' if len(jobs) == 1 else 'jobs'}",
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


def say_jobs(events: Events, registry: Registry) -> None:
    """List the jobs that tick."""
    for job in registry.jobs():
        if not job.options.disabled:
            where = "" if registry.runs_here(job) else f" (not here: it needs the role {job.options.role!r})"
            line = f'Registered distributed cron "{job.name}" [{job.options.schedule.line}] -> {job.where}{where}'
            events.emit("job.registered", job.name, logging.INFO, line)


def say_forked(events: Events) -> None:
    """Say in a forked child that it doesn't tick, although its parent did."""
    # A server's child was meant to tick; of others, such as a pool's, nobody expects it.
    level = logging.WARNING if is_a_servers_process() else logging.INFO
    message = (
        "Distributed crons were started before a fork, and don't tick in the child: call start() there "
        "(gunicorn --preload: in post_fork), if it is to run jobs"
    )
    events.emit("crons.forked", "firecron", level, message)


def say_stopped(events: Events) -> None:
    """Say that no job ticks any more."""
    events.emit("crons.stopped", "firecron", logging.INFO, "Distributed crons stopped")


def warn_of_jobs(events: Events, jobs: int, jobless: Sequence[str]) -> None:
    """WARNINGs: of providers without a job, of no job at all, and of jobs that were given to no FireCron."""
    if jobless:
        given = _listed(jobless)
        message = (
            f"FireCron was given {given}, without a job in it: decorate a method or a function with distributed_cron"
        )
        _warn(events, "crons.no_jobs", message)
    elif not jobs:
        message = "This FireCron has no job, so nothing will run: give it an object, a class, a module or a function"
        _warn(events, "crons.no_jobs", message)
    forgotten = declarations.unclaimed()
    if forgotten:
        message = (
            f"Declared with distributed_cron, but given to no FireCron, so nothing runs it: "
            f"{_listed([f'{one.name!r} ({one.where})' for one in forgotten])}. Give FireCron the function, or the "
            "object that has it; if you did, a decorator above distributed_cron hides it: one without functools.wraps, "
            "or @property"
        )
        _warn(events, "crons.unclaimed", message)


def named_database(database_url: str | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """What the environment and the settings say of the database, where nobody looks for it."""
    return environment.get(EMULATOR_HOST) or (None if database_url is None else redacted(database_url))


def _warn(events: Events, slug: Slug, message: str) -> None:
    events.emit(slug, "firecron", logging.WARNING, message)


def _listed(things: Sequence[str]) -> str:
    more = len(things) - _MOST_NAMED
    return ", ".join(things[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
