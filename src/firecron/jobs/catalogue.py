"""What programs declare in the database, written and read here alone: their jobs, and which instances run them. Pure.

With the catalogue, `cron-jobs/<name>`, an operator's tools need no program of the jobs: they know each schedule, what
it promises, and which service declared it. Durations are seconds, as in the program. `since` and `declaredAt` are
milliseconds of RTDB's time.

An entry has the `line` and its `timezone`, or `every`; `starting` and `until` if the schedule has them; and `grace`,
`overlap`, `catchUp`, `oncePerTick`, `disabled`, `expectedRuntime`, `alertAfter` and `role` as the job's options have
them. `where` is the job's function, `ticks` is false if only triggers run the job. `service` and `revision` are those
of the program that declared the job last. An empty `service` means that no program with the job's role has declared it
yet.

It also has `description`, `owner` and `runbook` (see `jobs/about`), and what decides whether something is run again:
`onAbandoned`, `catchUpWindow`, `retries`, `ttl`, `maxRuntime`, `holdAtLeast` and `renew`. Of these it has only what is
not the default. Security rules may be older than these fields, and refuse them: then the entry is written `without`
them.

A schedule with excluded days has `exceptDigest`, their fingerprint, and `exceptDays`, the dates near now with their
names (see `cron/except_days`), for those who can't call the program's function. Instances that started on different
days know different dates, so only the fingerprint decides whether two schedules are the same. The dates are written
again once half of those that are to be known are lacking.

An entry of a job whose schedules are stored has `stored` instead of a schedule, and `parameters`, `lookers`,
`keepClosed` and `history` (`jobs/parameters`).

An entry that can't be read is None: the tools show the job without a schedule, and its verdict is `unknown`.

Instances with the same jobs are a group (`base/tickets`), which says of itself in `cron-groups/<group>` which jobs it
would run, and that it lives. So the tools learn from one small read who would run what, however large the fleet is.
Beside the counter `beats` the node has

    seenAt        the last heartbeat of any of them
    firstSeenAt   one of the first heartbeats; missing for the first seconds, or if those that were first died at once
    jobs          the names of the jobs that they run by their schedules, in one text, with a space between two
    schedules     a digest of the schedule of each of these jobs, in the same order, in one text
    service       what they run in: the name of the Cloud Run service, worker pool or job, else `local`
    heartbeat     the seconds between two heartbeats of one instance

A group is live if it was seen within three heartbeats. What can't be read counts as not known: nothing is said of a job
because of a node that is odd.

The catalogue has one schedule for each job, that of the program that has declared it last. The digests show that a live
program runs the job by another one, as during a rolling deployment. They are short, because a group has a hundred jobs
and is read often: which schedule the other one is, isn't said.
"""

from __future__ import annotations

import hashlib
import json
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import TYPE_CHECKING

from firecron.base.instants import check_instant, number
from firecron.cron.bounded import NO_TICKS
from firecron.cron.schedule import DEFAULT_ZONE, Schedule, known_exceptions, schedule_fields, without_end
from firecron.jobs.about import NOTHING, About, read_about
from firecron.jobs.options import (
    DEFAULT_GRACE,
    DEFAULT_MAX_RUNTIME,
    DEFAULT_TTL,
    DEFAULT_WINDOW,
    JobOptions,
    has_lease,
    waits,
)
from firecron.store import SERVER_TIME

if TYPE_CHECKING:
    from firecron.jobs.job import Job

# As many characters as the security rules allow.
LONGEST_PARAMETERS = 4_000
_STORED = ("stored", "parameters", "lookers", "keepClosed", "history")
# A function's name has no bound; the node has.
_LONGEST_TEXT = 500
# In seconds. No duration of a job is as long, but what somebody has typed may be beyond all that can be counted.
_LONGEST_TIME = 10**9
# What the entry says besides what a program declares.
_WHEN = ("since", "declaredAt")


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A job as a program declared it. Durations are milliseconds here, as in `JobOptions`.

    `since` is when this schedule was first declared, `declared_at` when this entry was written; None before the write.
    `ticks` is false if only triggers run the job. `where` is the job's function.
    """

    name: str
    schedule: Schedule
    grace: int = DEFAULT_GRACE * 1000
    overlap: str = "skip"
    catch_up: str = "skip"
    once_per_tick: bool = True
    disabled: bool = False
    expected_runtime: int | None = None
    alert_after: int = 1
    role: str | None = None
    where: str = ""
    ticks: bool = True
    service: str = "local"
    revision: str | None = None
    about: About = NOTHING
    on_abandoned: str = "skip"
    catch_up_window: int = DEFAULT_WINDOW * 1000
    retries: int = 0
    ttl: int = DEFAULT_TTL * 1000
    max_runtime: int = DEFAULT_MAX_RUNTIME * 1000
    hold_at_least: int = 0
    renew: bool = True
    stored: Mapping[str, object] | None = None
    since: int | None = None
    declared_at: int | None = None
    # The dates near now that its schedule excludes (see `cron/except_days`).
    excluded: str | None = None

    @property
    def has_lease(self) -> bool:
        """Whether a run holds the lock of its job while it runs."""
        return has_lease(self.overlap)

    @property
    def waits(self) -> bool:
        """Whether a tick waits for the previous run, instead of being skipped."""
        return waits(self.overlap)

    def to_node(self) -> dict[str, object]:
        """Return the entry as it is stored, without the fields that are None."""
        return {name: value for name, value in self.fields().items() if value is not None}

    def without(self) -> CatalogueEntry:
        """Return the entry without the fields that security rules may refuse."""
        schedule = without_end(self.schedule)
        return replace(
            self, schedule=schedule, excluded=None, about=NOTHING, **{name: getattr(_DEFAULTS, name) for name in _LATER}
        )

    def options(self) -> dict[str, object]:
        """Return the options that the job is declared with, by the names of the fields. Durations are seconds."""
        return {
            "grace": self.grace / 1000,
            "overlap": self.overlap,
            "catchUp": self.catch_up,
            "oncePerTick": self.once_per_tick,
            "disabled": self.disabled,
            "expectedRuntime": None if self.expected_runtime is None else self.expected_runtime / 1000,
            "alertAfter": self.alert_after,
            "role": self.role,
            "onAbandoned": self.on_abandoned,
            "catchUpWindow": self.catch_up_window / 1000,
            "retries": self.retries,
            "ttl": self.ttl / 1000,
            "maxRuntime": self.max_runtime / 1000,
            "holdAtLeast": self.hold_at_least / 1000,
            "renew": self.renew,
        }

    def usual(self) -> list[str]:
        """Return the names of the options that have their default."""
        return [name for name, value in self.options().items() if value == _USUAL[name]]

    def fields(self) -> dict[str, object]:
        """Return all fields of the entry, None for what it leaves out."""
        return {
            **_of(self.schedule),
            "exceptDays": self.excluded,
            **(self.stored or {}),
            **self.about.fields(),
            **{
                name: None if name in _LATER.values() and value == _USUAL[name] else value
                for name, value in self.options().items()
            },
            "where": self.where,
            "ticks": self.ticks,
            "service": self.service,
            "revision": self.revision,
            "since": self.since,
            "declaredAt": self.declared_at,
        }


# What an entry has only where it is not the default, with the names of the fields.
_LATER = {
    "on_abandoned": "onAbandoned",
    "catch_up_window": "catchUpWindow",
    "retries": "retries",
    "ttl": "ttl",
    "max_runtime": "maxRuntime",
    "hold_at_least": "holdAtLeast",
    "renew": "renew",
}
_DEFAULTS = CatalogueEntry("", Schedule(every=60))
_USUAL = _DEFAULTS.options()


def declared(
    options: JobOptions,
    *,
    where: str,
    ticks: bool,
    service: str,
    revision: str | None,
    today: date | None = None,
    stored: Mapping[str, object] | None = None,
) -> CatalogueEntry:
    """Return what a program declares of its job. `service` is what the program runs in, `local` outside Cloud Run.

    `today` tells from when on its excluded dates are to be known; None if nobody reads them. `stored` is what it says
    of a job whose schedules are stored (`stored_fields`).
    """
    return CatalogueEntry(
        name=options.name,
        schedule=options.schedule,
        grace=options.grace,
        overlap=options.overlap,
        catch_up=options.catch_up,
        once_per_tick=options.once_per_tick,
        disabled=options.disabled,
        expected_runtime=options.expected_runtime,
        alert_after=options.alert_after,
        role=options.role,
        where=where[:_LONGEST_TEXT],
        ticks=ticks,
        service=service,
        revision=revision,
        about=options.about,
        on_abandoned=options.on_abandoned,
        catch_up_window=options.catch_up_window,
        retries=options.retries,
        ttl=options.lock_ttl,
        max_runtime=options.max_runtime,
        hold_at_least=options.hold_at_least,
        renew=options.renew,
        excluded=None if today is None else known_exceptions(options.schedule, today),
        stored=stored,
    )


def stored_fields(job: Job) -> dict[str, object] | None:
    """Return what the catalogue says of a job beside that whose schedules are stored; None of any other job."""
    options, parameters = job.options.stored, job.parameters
    if options is None or parameters is None:
        return None
    return {
        "stored": True,
        "parameters": parameters.to_text()[:LONGEST_PARAMETERS],
        "lookers": options.lookers,
        "keepClosed": options.keep_closed / 1000,
        "history": options.history,
    }


def probe(name: str) -> CatalogueEntry:
    """Return a disabled entry that belongs to no program. It is written to find out whether entries can be written."""
    return CatalogueEntry(name, Schedule("0 0 * * *"), disabled=True, where="firecron doctor", ticks=False, service="")


def changed(mine: CatalogueEntry, stored: object) -> dict[str, object] | None:
    """Return the node to write in place of the `stored` one; None if that says the same already.

    `since` stays while the schedule stays the same, and begins anew if nobody was to run the job until now: its ticks
    before are not late. The nodes are compared as they are, because to parse a thousand schedules at the start of a
    program would delay its first ticks.
    """
    other = stored if isinstance(stored, Mapping) else {}
    since, declared_at = (number(other.get(name)) for name in _WHEN)
    fields = {name: value for name, value in mine.fields().items() if name not in _WHEN}
    # The dates that are known go out of date slowly, and the fingerprint of all of them is compared as well.
    knows = _knows(other.get("exceptDays"), fields.pop("exceptDays"))
    if None not in (since, declared_at) and _are_in(other, fields) and knows:
        return None
    goes_on = _are_in(other, _of(mine.schedule))
    was_run = (mine.disabled or other.get("disabled") is not True) and (not mine.service or other.get("service") != "")
    keeps_since = since is not None and goes_on and was_run
    return {**mine.to_node(), "since": since if keeps_since else SERVER_TIME, "declaredAt": SERVER_TIME}


def ticked_since(schedule: Schedule, stored: object) -> int | None:
    """Return since when instances were to run the job by its schedule, by the `stored` entry; None if not, or unknown.

    The nodes are compared as they are, as in `changed`.
    """
    other = stored if isinstance(stored, Mapping) else {}
    was_run = other.get("disabled") is not True and other.get("ticks") is not False and other.get("service") != ""
    return number(other.get("since")) if _are_in(other, _of(schedule)) and was_run else None


def _knows(stored: object, dates: object) -> bool:
    """Return whether the dates that an entry has may stand in place of these."""
    if stored == dates or not isinstance(dates, str):
        return stored == dates
    from firecron.cron.except_days import is_known_enough

    return is_known_enough(dates, stored)


def _are_in(stored: Mapping[object, object], fields: Mapping[str, object]) -> bool:
    """Return whether the stored entry has these values. One that is None is missing there."""
    return all(stored.get(name) == value for name, value in fields.items())


def read_declared(name: str, node: object) -> CatalogueEntry | None:
    """Return what an entry says; None if it can't be read. A field that is missing or odd has its default."""
    if not isinstance(node, Mapping):
        return None
    try:
        schedule = _schedule(node)
    except ValueError:
        return None
    service = _text(node.get("service"))
    return CatalogueEntry(
        name=name,
        schedule=schedule,
        grace=_duration(node.get("grace")) or DEFAULT_GRACE * 1000,
        overlap=_text(node.get("overlap")) or "skip",
        catch_up=_text(node.get("catchUp")) or "skip",
        once_per_tick=node.get("oncePerTick") is not False,
        disabled=node.get("disabled") is True,
        expected_runtime=_duration(node.get("expectedRuntime")),
        alert_after=max(1, number(node.get("alertAfter")) or 1),
        role=_text(node.get("role")),
        where=_text(node.get("where")) or "",
        ticks=node.get("ticks") is not False,
        service="local" if service is None else service,
        revision=_text(node.get("revision")),
        about=read_about(node),
        on_abandoned=_text(node.get("onAbandoned")) or "skip",
        catch_up_window=0
        if number(node.get("catchUpWindow")) == 0
        else _duration(node.get("catchUpWindow")) or DEFAULT_WINDOW * 1000,
        retries=max(0, number(node.get("retries")) or 0),
        ttl=_duration(node.get("ttl")) or DEFAULT_TTL * 1000,
        max_runtime=_duration(node.get("maxRuntime")) or DEFAULT_MAX_RUNTIME * 1000,
        hold_at_least=_duration(node.get("holdAtLeast")) or 0,
        renew=node.get("renew") is not False,
        stored={name: node.get(name) for name in _STORED} if node.get("stored") is True else None,
        since=number(node.get("since")),
        declared_at=number(node.get("declaredAt")),
    )


def _of(schedule: Schedule) -> dict[str, object]:
    """Return the fields of a schedule: the words of an `every` are not stored, and neither is its time zone."""
    fields = schedule_fields(schedule)
    days = schedule.except_days
    del fields["exceptDays"]  # their names alone
    fields["exceptDigest"] = None if days is None else days.fingerprint
    return fields if schedule.has_line else {**fields, "line": None, "timezone": None}


def _schedule(node: Mapping[object, object]) -> Schedule:
    if node.get("stored") is True:
        return NO_TICKS
    every = number(node.get("every"))
    line = None if every is not None else _text(node.get("line"))
    timezone = DEFAULT_ZONE if every is not None else _text(node.get("timezone")) or "UTC"
    starting, until = (_instant(node.get(name)) for name in ("starting", "until"))
    dates, fingerprint = _text(node.get("exceptDays")), _text(node.get("exceptDigest"))
    days = None
    if fingerprint is not None:
        from firecron.cron.except_days import read_known

        days = read_known(dates or "", fingerprint)
    bounds = {"starting": starting, "until": until, "except_days": days}
    return Schedule(line, timezone, every=every, **bounds)  # type: ignore[arg-type]  # the days as they were read


def _instant(value: object) -> datetime | None:
    return datetime.fromisoformat(check_instant(value)) if isinstance(value, str) else None


def _duration(value: object) -> int | None:
    seconds = _seconds(value, _LONGEST_TIME)
    return None if seconds is None else round(seconds * 1000)


# --- groups

# Three missed heartbeats are silence, as of a single instance.
LIVE_BEATS = 3
DEFAULT_HEARTBEAT = 30.0
_LONGEST_HEARTBEAT = 3_600
# The security rules allow as much. Some thousand names fit.
LONGEST_JOBS = 100_000


@dataclass(frozen=True, slots=True)
class Group:
    """A group of instances. Instants are milliseconds of RTDB's time, `heartbeat` is seconds.

    `name` is the node's name. `jobs` is None if the node doesn't say which jobs the group runs. `digests` are those of
    the schedules, by job; a job is missing if its schedule is not known.
    """

    name: str
    jobs: frozenset[str] | None
    service: str | None
    first_seen_at: int | None
    seen_at: int | None
    heartbeat: float = DEFAULT_HEARTBEAT
    digests: Mapping[str, str] = field(default_factory=dict)

    def is_live(self, now: int) -> bool:
        """Return whether an instance of the group was seen within three heartbeats."""
        return self.seen_at is not None and self.seen_at >= now - LIVE_BEATS * self.heartbeat * 1000

    def may_run(self, job: str) -> bool:
        """Return whether the group runs the job by its schedule, as far as is known."""
        return self.jobs is None or job in self.jobs


def group_fields(schedules: Mapping[str, Schedule], service: str, heartbeat: float) -> dict[str, object]:
    """Return what an instance writes of its group once, given the schedule of each job, by the job's name.

    Too many names are left out: they are not known then.
    """
    names = sorted(schedules)
    text = " ".join(names)
    fields: dict[str, object] = {"service": service, "heartbeat": heartbeat}
    if len(text) > LONGEST_JOBS:
        return fields
    return {**fields, "jobs": text, "schedules": "".join(digest(schedules[name]) for name in names)}


def read_groups(node: object) -> tuple[Group, ...]:
    """Return what `cron-groups` says, whatever it holds."""
    found = node if isinstance(node, Mapping) else {}
    return tuple(_group(str(name), child) for name, child in sorted(found.items()) if isinstance(child, Mapping))


def known_groups(node: object) -> tuple[Group, ...] | None:
    """Return what `cron-groups` says; None if it holds something else than groups, so that none of them is known."""
    return read_groups(node) if node is None or isinstance(node, Mapping) else None


def live_groups_of(job: str, groups: Iterable[Group], now: int) -> tuple[Group, ...]:
    """Return the live groups that run the job by its schedule, as far as is known."""
    return tuple(group for group in groups if group.is_live(now) and group.may_run(job))


def retired(declared: CatalogueEntry, groups: Iterable[Group], now: int) -> bool:
    """Return whether the job was taken out on purpose: its service lives without it, and is younger than its entry.

    A job that only triggers run is in no group, and neither is a disabled one: of them this can't be said.
    """
    groups = tuple(groups)
    if not declared.ticks or declared.disabled or declared.declared_at is None:
        return False
    if live_groups_of(declared.name, groups, now):
        return False
    return any(
        group.is_live(now)
        and group.service == declared.service
        and group.first_seen_at is not None
        and group.first_seen_at > declared.declared_at
        for group in groups
    )


def dissenting(declared: CatalogueEntry, groups: Iterable[Group], now: int) -> tuple[Group, ...]:
    """Return the live groups that run the job by another schedule than declared, or although it is declared disabled.

    A group counts if it was seen after the entry was written. Before that, its instances may have become those that
    wrote it: a program was replaced, or has given its job another schedule.
    """
    name, since = declared.name, declared.declared_at or 0
    having = [group for group in groups if group.jobs is not None and name in group.jobs and group.is_live(now)]
    others = tuple(group for group in having if (group.seen_at or 0) > since)
    if declared.disabled or not others:
        return others
    mine = digest(declared.schedule)
    return tuple(group for group in others if group.digests.get(name, mine) != mine)


def _group(name: str, node: Mapping[object, object]) -> Group:
    jobs = _text(node.get("jobs"))
    names = None if jobs is None else jobs.split()
    return Group(
        name,
        None if names is None else frozenset(names),
        _text(node.get("service")),
        number(node.get("firstSeenAt")),
        number(node.get("seenAt")),
        float(_seconds(node.get("heartbeat"), _LONGEST_HEARTBEAT) or DEFAULT_HEARTBEAT),
        _digests(names or [], node.get("schedules")),
    )


def _digests(names: list[str], value: object) -> dict[str, str]:
    if not isinstance(value, str) or len(value) != _LENGTH * len(names):
        return {}
    return {name: value[_LENGTH * place : _LENGTH * (place + 1)] for place, name in enumerate(names)}


_LATER_OF_SCHEDULE = ("until", "exceptDigest")
# Of a digest, in characters.
_LENGTH = 4


def digest(schedule: Schedule) -> str:
    """Return four characters for the schedule. Those of another one differ, but for a chance of one in 16 million."""
    fields = _of(schedule)
    # What came later counts only where it is there: a schedule without it has one digest in all versions.
    text = json.dumps([value for name, value in fields.items() if name not in _LATER_OF_SCHEDULE or value is not None])
    return urlsafe_b64encode(hashlib.blake2b(text.encode(), digest_size=3).digest()).decode()


# --- values of nodes


def _seconds(value: object, most: float) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 < value <= most else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
