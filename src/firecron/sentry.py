"""Check-ins for Sentry's cron monitors: the monitor of a job hears of each run, and misses the one that didn't come.

    import sentry_sdk

    from firecron.sentry import monitor

    sentry_sdk.init(dsn=...)
    monitor(crons)

Needs `pip install 'firecron[sentry]'`. Only the instance that runs a tick checks in, at the run's start and at its end,
so any number of instances count as one run. Each check-in says what the monitor should expect. So the first one creates
the monitor, and later ones change it with the job's options. A run without a tick, such as a run by hand, checks in
nowhere, and neither does an instance outside of production.

Sentry can't expect everything: a monitor has whole minutes, neither `L` nor `#`, no end and no excluded days. A job of
another schedule is left out, and `monitor` says so in one line. A line's fixed second is cut off. The first check-in
creates a monitor, so nothing is expected before `starting`.

No check-in delays a run: Sentry's SDK has a queue and a thread of its own. What is in the queue when the instance stops
has two more seconds, within its grace.

Errors that are reported from inside a run have the tags `firecron.job`, `firecron.slot` and `firecron.attempt`, and so
does the error of a run that failed, which Sentry's SDK takes from the log. Inside a term they have `firecron.leader`.
Both have what the program says of the job or leader: `firecron.description`, `firecron.owner` and `firecron.runbook`.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias

try:
    import sentry_sdk
    from sentry_sdk.crons import capture_checkin
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"{error}: pip install 'firecron[sentry]'", name=error.name) from error

from firecron.base.events import Event, logger
from firecron.base.identity import attempt_id
from firecron.base.instants import to_text
from firecron.cron.line import in_minutes
from firecron.errors import ConfigurationError, UnknownJob
from firecron.jobs.about import NOTHING, About
from firecron.jobs.run import current_run
from firecron.leaders.leader import current_term
from firecron.outbox import last_moments, report_runs
from firecron.store import split_name

if TYPE_CHECKING:
    from sentry_sdk.types import Event as SentryEvent
    from sentry_sdk.types import Hint, MonitorConfig

    from firecron.app import FireCron
    from firecron.jobs.job import Job

LONGEST_SLUG = 50
# Sentry drops a longer one.
LONGEST_TAG = 200
MOST_FAILURES = 720

CheckInStatus: TypeAlias = Literal["in_progress", "ok", "error"]

_MINUTE = 60_000
# A run that was interrupted has not done its work. One that a person has cancelled is no fault.
_STATUSES: dict[str, CheckInStatus] = {
    "run.started": "in_progress",
    "run.succeeded": "ok",
    "run.cancelled": "ok",
    "run.failed": "error",
    "run.lost": "error",
    "run.interrupted": "error",
}


def monitor(crons: FireCron) -> Callable[[], None]:
    """Check in from now on. Return a function that ends this.

    The slug of a job's monitor is what Sentry makes of its name: 50 characters in lower case, with single hyphens.
    Raises ConfigurationError if two jobs have the same one.

    Args:
        crons: The jobs.
    """
    jobs = crons.registry.jobs(stored=False)
    _check_slugs(job.name for job in jobs)
    left_out = [job.name for job in jobs if monitor_config(job) is None]
    if left_out:
        message = (
            f"Sentry's monitors can't expect the schedules of {', '.join(left_out)}: they have whole minutes, "
            "neither L nor #, no end (until) and no except_days. These jobs don't check in"
        )
        crons.events.emit("sentry.left_out", "firecron", logging.INFO, message, jobs=len(left_out))
    is_on, is_sure = True, False

    def hear(event: Event) -> None:
        nonlocal is_sure
        status = _STATUSES.get(event.slug)
        if not is_sure and (status is not None or event.slug == "crons.started"):
            is_sure = True
            _warn_without_dsn(crons)
        if status is not None:
            _check_in(crons, event, status)

    def tag(event: SentryEvent, hint: Hint) -> SentryEvent:
        if is_on and event.get("type") is None:
            found = _tags_of(crons, hint.get("log_record"))
            if found:
                event["tags"] = {**found, **(event.get("tags") or {})}
        return event

    # Sentry's SDK has an outbox of its own.
    end = report_runs(crons, hear, lambda: sentry_sdk.flush(last_moments(crons)))
    sentry_sdk.Scope.get_global_scope().add_event_processor(tag)

    def stop() -> None:
        nonlocal is_on
        is_on = False  # Sentry can't take a processor back
        end()

    return stop


def monitor_config(job: Job) -> MonitorConfig | None:
    """Return what Sentry should expect of the job; None for a schedule that Sentry doesn't know."""
    options = job.options
    schedule, late = options.schedule, options.grace + options.jitter
    config: MonitorConfig = {
        "checkin_margin": _minutes(late),
        # Without it Sentry takes half an hour, and calls a longer run dead.
        "max_runtime": _minutes(options.expected_runtime or options.max_runtime),
        # Of a config with a larger number Sentry takes nothing.
        "failure_issue_threshold": min(options.alert_after, MOST_FAILURES),
    }
    if schedule.until is not None or schedule.except_days is not None:
        return None
    if schedule.every is not None:
        if schedule.every % timedelta(minutes=1):
            return None
        config["schedule"] = {"type": "interval", "value": schedule.every // timedelta(minutes=1), "unit": "minute"}
        return config
    found = in_minutes(schedule.line)
    if found is None:
        return None
    line, second = found
    config["schedule"] = {"type": "crontab", "value": line}
    config["timezone"] = schedule.timezone
    config["checkin_margin"] = _minutes(late + second * 1000)
    return config


def slug_of(name: str) -> str:
    """Return the slug of a job's monitor, as Sentry changes what it is sent."""
    return re.sub("-+", "-", name.lower()).strip("-_")[:LONGEST_SLUG].strip("-_")


def _check_in(crons: FireCron, event: Event, status: CheckInStatus) -> None:
    try:
        config = monitor_config(crons.registry.get(event.name))
    except UnknownJob:
        return  # the program has removed the job meanwhile
    if config is None:
        return
    took = event.fields.get("took")
    capture_checkin(
        monitor_slug=slug_of(event.name),
        check_in_id=attempt_id(str(event.fields["key"]), event.fields["attempt"]).hex,
        status=status,
        duration=took / 1000 if isinstance(took, int) else None,
        monitor_config=config,
    )


def _tags_of(crons: FireCron, record: object) -> dict[str, str]:
    """Return the tags of what is reported now: in a run or a term, or by firecron's line in the log about a run that
    has ended.
    """
    found: dict[str, object] = {}
    run, term = current_run(), current_term()
    if run is not None:
        found = {"job": run.name, "slot": None if run.slot is None else to_text(run.slot), "attempt": run.attempt}
    elif term is not None:
        found = {"leader": term.name}
    elif isinstance(record, logging.LogRecord) and record.name == logger.name:
        fields = getattr(record, "json_fields", None)
        if isinstance(fields, Mapping) and "attempt" in fields:
            found = {"job": fields.get("lock"), "slot": fields.get("slot"), "attempt": fields["attempt"]}
    if found.get("job") is not None:
        found["job"] = split_name(str(found["job"]))[0]  # the key of a stored schedule may be somebody's
    found |= _about(crons, found).known()
    tags = {f"firecron.{tag}": str(value) for tag, value in found.items() if value is not None}
    return {tag: value for tag, value in tags.items() if len(value) <= LONGEST_TAG}


def _about(crons: FireCron, found: Mapping[str, object]) -> About:
    """Return what the program says of the job or leader in these tags."""
    name = str(found.get("job") or found.get("leader"))
    known = {job.name: job.options.about for job in crons.registry.jobs()}
    known |= {leader.name: leader.options.about for leader in crons.engine.leaders.all()}
    return known.get(name, NOTHING)


def _warn_without_dsn(crons: FireCron) -> None:
    """Say that no check-in will reach Sentry, unless its SDK knows where to send it."""
    client = sentry_sdk.Scope.get_client()
    if client.is_active() and client.options.get("dsn"):
        return
    message = (
        "Sentry's SDK has no DSN, so its monitors hear of no run: call sentry_sdk.init(dsn=...) before the jobs start, "
        "or set SENTRY_DSN and call sentry_sdk.init()"
    )
    crons.events.emit("sentry.not_initialised", "firecron", logging.WARNING, message)


def _check_slugs(names: Iterable[str]) -> None:
    taken: dict[str, str] = {}
    for name in names:
        other = taken.setdefault(slug_of(name), name)
        if other != name:
            raise ConfigurationError(
                f"the jobs {other} and {name} have one monitor, {slug_of(name)!r}, between them: Sentry tells names "
                f"apart by their first {LONGEST_SLUG} characters, in lower case and with single hyphens. Rename one"
            )


def _minutes(milliseconds: int) -> int:
    return max(1, math.ceil(milliseconds / _MINUTE))
