"""What a GET returns: the page's files, and the JSON that the page shows.

    jobs        the rows of the board, with an ETag: a browser that polls gets them again only if they have changed
    job         one job: its options, its next ticks, its runs with their steps and log lines
    strip       the newest ticks of a job, each with the outcome of its run, or with why it did not run
    instances   the signs of life of the instances and of their groups
    acts        what operators have done

Beside the rows, which the board keeps, each is read once for all who look, and kept for two seconds. What is read of a
job is never older than its row: a browser asks for it when it has heard that the row has changed. A part that is
malformed is null, and `problems` says why.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import TypeAlias, TypeVar
from urllib.parse import parse_qs, quote
from zoneinfo import ZoneInfo

from firecron.base.events import RUN_LABEL
from firecron.base.identity import ask_metadata, find_cloud_run
from firecron.base.instants import in_utc, number, to_datetime, to_milliseconds, to_text
from firecron.base.texts import plain, redacted
from firecron.cron.schedule import newest, schedule_fields
from firecron.cron.words import special_nights
from firecron.errors import ConfigurationError, Denied, Malformed, StoreError, UnknownJob
from firecron.jobs.catalogue import CatalogueEntry, Group, read_groups
from firecron.jobs.registry import Registry
from firecron.lock.database import Database
from firecron.lock.refusal import SILENT_BEATS
from firecron.ops.board import Board, HealthReport, Shared
from firecron.ops.operator import Operator
from firecron.ops.status import Row, SeenJobs
from firecron.ops.views import LockView, children
from firecron.page.messages import FILES, Access, Route, as_json, problem
from firecron.runs.entry import Entry
from firecron.store import check_name
from firecron.triggers.handler import of_error, of_health
from firecron.web import SiteReply, SiteRequest

# --- all jobs as JSON, as `/api/jobs` and the stream send them, and what of it is news: pure

Json: TypeAlias = dict[str, object]


@dataclass(frozen=True, slots=True)
class JobsJson:
    """The rows of the jobs, and the locks that belong to none, those of leaders apart."""

    jobs: list[Json]
    leaders: list[Json]
    locks: list[Json]

    def rest(self) -> Json:
        return {"leaders": self.leaders, "locks": self.locks}

    def to_json(self) -> Json:
        return {"jobs": self.jobs, **self.rest()}

    def essence(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return what would be news if it changed, as texts: of each job, and of the rest.

        A renewal is no news: it only moves the end of a lock.
        """
        rows = {str(row["job"]): _text({**row, "lock": _without_end(row["lock"])}) for row in self.jobs}
        rest = {"leaders": self.leaders, "locks": self.locks}
        return rows, {name: _text([_without_end(view) for view in views]) for name, views in rest.items()}


def jobs_json(seen: SeenJobs) -> JobsJson:
    """Return what is seen as JSON. A row's `lock` and `last` have no nulls: of 50 jobs they would be 14 kB."""
    return JobsJson(
        [{name: _without_nulls(value) for name, value in row.to_json().items()} for row in seen.rows],
        [view.to_json() for view in seen.others if view.is_leaders],
        [view.to_json() for view in seen.others if not view.is_leaders],
    )


def _without_nulls(value: object) -> object:
    if not isinstance(value, dict):
        return value
    return {name: part for name, part in value.items() if part is not None}


def _without_end(lock: object) -> object:
    if not isinstance(lock, dict) or lock.get("state") not in ("held", "minimum_hold"):
        return lock
    return {**lock, "until": None}


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


# --- a strip: pure
#
# Ticks come from the schedule, outcomes from the history. A tick that has neither an entry nor a run under way is a
# hole: it was before the history that is kept, or nobody ran it. Ticks from before the schedule was declared are shown
# only if the history has them.

MOST_TICKS = 50

_REASONS = {
    "skipped": "the run before it had not ended",
    "missed": "no instance claimed it in time",
    "abandoned": "its instance died",
    "malformed": "its entry can't be read",
}


@dataclass(frozen=True, slots=True)
class Tick:
    """A tick. `outcome` is None if it did not run, `running` while it runs; `why` says more about both."""

    slot: str
    outcome: str | None = None
    duration: int | None = None
    why: str | None = None

    def to_json(self) -> dict[str, object]:
        return {"slot": self.slot, "outcome": self.outcome, "durationMs": self.duration, "why": self.why}


def make_strip(
    declared: CatalogueEntry | None, entries: Iterable[Entry], lock: LockView | None, now: int
) -> list[Tick]:
    """Return the newest ticks up to `now`, oldest first."""
    found = {entry.slot: entry for entry in entries if _is_slot(entry.slot)}
    slots = {slot for slot in found if slot is not None}
    running = None if lock is None or lock.state != "held" else lock.unfinished
    if running is not None and _is_slot(running):
        slots.add(running)
    slots |= set(_ticks(declared, slots, now))
    covered = _covered(sorted(slots), found)
    return [
        _tick(slot, found.get(slot), covered, running) or _hole(slot, declared, lock, now)
        for slot in sorted(slots)[-MOST_TICKS:]
    ]


def _ticks(declared: CatalogueEntry | None, slots: set[str], now: int) -> list[str]:
    if declared is None:
        return []
    start = declared.since if declared.since is not None else declared.declared_at
    if start is None:
        if not slots:
            return []
        start = to_milliseconds(min(slots)) - 1
    # A tick that is due may be claimed at any moment until its grace is over.
    return newest(declared.schedule, start, now, MOST_TICKS)


def _covered(slots: list[str], found: Mapping[str | None, Entry]) -> dict[str, Entry]:
    """Return the ticks that an entry of several ticks counts, besides its own slot."""
    covered: dict[str, Entry] = {}
    for place, slot in enumerate(slots):
        entry = found.get(slot)
        if entry is not None and entry.count > 1:
            before = slots[max(0, place - entry.count + 1) : place]
            covered.update({one: entry for one in before if one not in found})
    return covered


def _tick(slot: str, entry: Entry | None, covered: Mapping[str, Entry], running: str | None) -> Tick | None:
    """Return the tick as it is known; None if nothing is."""
    if slot == running:
        return Tick(slot, "running")
    if entry is None and slot in covered:
        outcome = covered[slot].outcome
        return Tick(slot, outcome, why=_REASONS.get(outcome))
    if entry is not None:
        return Tick(slot, entry.outcome, entry.duration, entry.error or _REASONS.get(entry.outcome))
    return None


def _hole(slot: str, declared: CatalogueEntry | None, lock: LockView | None, now: int) -> Tick:
    """Return a tick of which nothing is known, with why it did not run, as far as lock and catalogue tell."""
    at = to_milliseconds(slot)
    if lock is not None and (lock.paused_at or inf) <= at < (lock.paused_until or inf):
        return Tick(slot, why="the job was paused")
    if declared is not None and declared.disabled and at >= (declared.declared_at or inf):
        return Tick(slot, why="the job was declared disabled")
    grace = 0 if declared is None else declared.grace
    return Tick(slot, why="it is due" if now - at <= grace else "nothing is recorded of it")


def _is_slot(slot: str | None) -> bool:
    try:
        return slot is not None and to_milliseconds(slot) > 0
    except ValueError:
        return False


# --- a link to the log lines of a run in Cloud Logging
#
# Each line of a run has the run's key in a label, which `firecron.logging.setup` writes on Cloud Run. A job that runs
# elsewhere has no link. The project is the environment's, or the metadata server's; without one the console takes the
# one that the visitor used last.

_CONSOLE = "https://console.cloud.google.com/logs/query"
# In milliseconds.
_AROUND = 60_000
_MANUAL = "-manual-"


def log_link(name: str, entry: Entry, service: str | None, project: str | None) -> str | None:
    """Return the URL of a run's log lines; None for a run without any in Cloud Logging."""
    if service in (None, "local") or entry.started_at is None or entry.recorded_by is not None:
        return None
    ended = entry.started_at if entry.ended_at is None else entry.ended_at
    run = f"{name}:manual:{entry.key.rpartition(_MANUAL)[2]}" if _MANUAL in entry.key else f"{name}:{entry.key}"
    quoted = run.replace("\\", "\\\\").replace('"', '\\"')
    query = quote(f'labels.{RUN_LABEL}="{quoted}"', safe="")
    start, end = to_text(entry.started_at - _AROUND), to_text(ended + _AROUND)
    where = "" if project is None else f"?project={quote(project, safe='')}"
    return f"{_CONSOLE};query={query};startTime={start};endTime={end}{where}"


@cache
def find_project() -> str | None:
    """Return the project of this process, if it is known. On Cloud Run the first call may take a second."""
    return project_of(os.environ)


def project_of(environment: Mapping[str, str]) -> str | None:
    """Return the project that the environment names, or that the metadata server knows on Cloud Run."""
    named = environment.get("GOOGLE_CLOUD_PROJECT")
    if named or find_cloud_run(environment) is None:
        return named or None
    return ask_metadata("project/project-id", environment)


# --- what the page shows beside the rows


class Code:
    """The jobs that this process can run: those of its registry. `firecron page` without an application has none."""

    def __init__(self, registry: Registry | None) -> None:
        self.registry = registry

    def why_not(self, name: str) -> str | None:
        """Return why this process can't run the job; None if it can."""
        if self.registry is None:
            return "this page is served without the code of the jobs"
        try:
            job = self.registry.get(name)
        except UnknownJob:
            return f"this process has no code for {name}"
        if not self.registry.runs_here(job):
            return f"{name} needs the role {job.options.role!r}, and this process lacks it"
        return f"{name} is declared disabled" if job.options.disabled else None


T = TypeVar("T")

MOST_RUNS = 50
_NEXT = 10
_AGE = 2.0
# In milliseconds.
_HOUR = 3_600_000
# A node that somebody has filled by hand may have any size.
_LARGEST_NODE = 20_000


class Details:
    """Reads what a view of the page needs, as JSON. Every method raises StoreError."""

    def __init__(self, database: Database, board: Board, code: Code) -> None:
        self._database, timing = database, database.timing
        self._operator = Operator(database)
        self._board = board
        self._code = code
        self._runs = Shared(self._operator.runs, timing, _AGE)
        self._jobs = Shared(self._read_job, timing, _AGE)
        self._acts = Shared(lambda _: self._read_acts(), timing, _AGE)
        self._instances = Shared(lambda _: self._read_instances(), timing, _AGE)
        # Of each job that was asked for, the row's part that changes with its runs.
        self._rows: dict[str, object] = {}

    def job(self, name: str) -> dict[str, object]:
        """Return everything about one job or lock. Raise UnknownJob if the database knows no such name."""
        self._follow(_row(self._board.jobs(), name))
        return self._jobs.get(name)

    def strip(self, name: str) -> list[dict[str, object]]:
        """Return the newest ticks of a job, oldest first."""
        seen = self._board.jobs()
        row = _row(seen, name)
        if row is None and _lock(seen, row, name) is None:
            return []  # a name that somebody has made up costs nothing
        self._follow(row)
        entries = self._runs.get(name)
        declared = self._board.declared(name)
        return [tick.to_json() for tick in make_strip(declared, entries, None if row is None else row.lock, seen.now)]

    def instances(self) -> dict[str, object]:
        """Return the signs of life of the instances and of their groups."""
        return self._instances.get()

    def acts(self) -> dict[str, object]:
        """Return what operators have done, newest first."""
        return self._acts.get()

    def done(self, name: str) -> None:
        """Read anew what a visitor has changed."""
        self._jobs.changed(name)
        self._runs.changed(name)
        self._acts.changed()

    def _follow(self, row: Row | None) -> None:
        """Read the job anew if its row has changed since it was asked for."""
        if row is None:
            return
        shown = (row.last, row.lock and (row.lock.state, row.lock.since, row.lock.released_at, row.lock.is_paused))
        if self._rows.get(row.job) != shown:
            # Another thread may ask for the same job now: it must not see the row before it can see the change.
            self._jobs.changed(row.job)
            self._runs.changed(row.job)
            self._rows[row.job] = shown

    def _read_job(self, name: str) -> dict[str, object]:
        seen = self._board.jobs()
        row, declared, node = _row(seen, name), self._board.declared(name), self._board.node(name)
        problems: dict[str, str] = {}
        runs = _readable("runs", lambda: self._runs.get(name), problems)
        if row is None and node is None and runs == ():
            raise UnknownJob(f"{name} is no job: the catalogue and the locks don't have it")
        newest = list(reversed((runs or ())[-MOST_RUNS:]))
        steps = self._steps(name, [entry.key for entry in newest])
        why_not = self._code.why_not(name)
        return {
            "now": to_text(seen.now),
            "job": None if row is None else row.to_json(),
            "lock": _lock(seen, row, name),
            "options": None if declared is None else _options(declared),
            "next": [] if declared is None or row is None or row.next is None else _next(declared, seen.now),
            "runs": None
            if runs is None
            else [
                {
                    **entry.to_json(),
                    "steps": steps.get(entry.key, []),
                    "logs": log_link(name, entry, None if declared is None else declared.service, find_project()),
                }
                for entry in newest
            ],
            "node": _bounded(node),
            "runnable": why_not is None,
            "why_not_runnable": why_not,
            "problems": problems,
        }

    def _steps(self, name: str, ticks: list[str]) -> dict[str, list[dict[str, object]]]:
        try:
            found = self._operator.steps(name, ticks)
        except Denied:
            return {}  # the rules are older than steps
        return {one.tick: [step.to_json() for step in one.steps] for one in found}

    def _read_acts(self) -> dict[str, object]:
        try:
            acts = self._operator.acts()
        except Denied:
            acts = ()  # the rules are older than acts
        return {"now": to_text(self._board.now()), "acts": [act.to_json() for act in reversed(acts)]}

    def _read_instances(self) -> dict[str, object]:
        now, problems = self._board.now(), dict[str, str]()
        oldest = now - SILENT_BEATS * self._database.settings.heartbeat * 1000
        running = _running(self._board.jobs())
        paths = self._database.paths
        instances = _readable("instances", lambda: self._children(paths.instances), problems)
        groups = _readable("groups", lambda: self._children(paths.groups), problems)
        return {
            "now": to_text(now),
            "instances": None
            if instances is None
            else [
                _instance(name, node, oldest, running)
                for name, node in sorted(instances.items())
                if name != "clock" and isinstance(node, dict)
            ],
            "groups": None if groups is None else [_group(one, now) for one in read_groups(groups)],
            "problems": problems,
        }

    def _children(self, path: str) -> Mapping[str, object]:
        try:
            return children(self._database.node(path), path)
        except Denied:
            return {}  # the rules don't let this user read them


def _readable(part: str, read: Callable[[], T], problems: dict[str, str]) -> T | None:
    """Return what is read; None if it is malformed, and then note why: the other parts are shown nevertheless."""
    try:
        return read()
    except Malformed as error:
        problems[part] = redacted(str(error))
        return None


def _row(seen: SeenJobs, name: str) -> Row | None:
    return next((row for row in seen.rows if row.job == name), None)


def _lock(seen: SeenJobs, row: Row | None, name: str) -> dict[str, object] | None:
    view = row.lock if row is not None else next((view for view in seen.others if view.name == name), None)
    return None if view is None else view.to_json()


def _options(declared: CatalogueEntry) -> dict[str, object]:
    return {
        **schedule_fields(declared.schedule),
        "grace": declared.grace / 1000,
        "overlap": plain(declared.overlap),
        "catchUp": plain(declared.catch_up),
        "oncePerTick": declared.once_per_tick,
        "disabled": declared.disabled,
        "expectedRuntime": None if declared.expected_runtime is None else declared.expected_runtime / 1000,
        "alertAfter": declared.alert_after,
        "role": declared.role and plain(declared.role),
        "where": plain(declared.where),
        "ticks": declared.ticks,
        "service": plain(declared.service),
        "revision": declared.revision and plain(declared.revision),
        "since": None if declared.since is None else to_text(declared.since),
        "declaredAt": None if declared.declared_at is None else to_text(declared.declared_at),
    }


def _next(declared: CatalogueEntry, now: int) -> list[dict[str, object]]:
    """Return the next ticks. A tick on a day when the clocks change has the note that explains its time."""
    schedule, zone = declared.schedule, ZoneInfo(declared.schedule.timezone)
    ticks = [schedule.after(to_datetime(now))]
    with suppress(OverflowError):  # one that starts in the year 9999 has fewer ticks
        while len(ticks) < _NEXT:
            ticks.append(schedule.after(ticks[-1]))
    end = to_datetime(to_milliseconds(ticks[-1]) + _HOUR)
    nights = {
        change.at.astimezone(zone).date(): change.said for change in special_nights(schedule, to_datetime(now), end)
    }
    return [{"slot": in_utc(tick), "note": nights.get(tick.astimezone(zone).date())} for tick in ticks]


def _running(seen: SeenJobs) -> dict[str, list[str]]:
    """Return the names of the locks that each instance holds."""
    found: dict[str, list[str]] = {}
    views: list[LockView] = [row.lock for row in seen.rows if row.lock is not None]
    for view in [*views, *seen.others]:
        if view.state == "held" and view.instance is not None:
            found.setdefault(view.instance, []).append(view.name)
    return found


def _instance(
    name: str, node: Mapping[str, object], oldest: float, running: Mapping[str, list[str]]
) -> dict[str, object]:
    instance, seen = plain(name.rpartition("-")[0] or name), number(node.get("seenAt"))
    instance_id = node.get("instanceId")
    return {
        "instance": instance,
        "process": plain(name),
        "instanceId": plain(instance_id) if isinstance(instance_id, str) else None,
        "startedAt": _instant(node.get("startedAt")),
        "seenAt": None if seen is None else to_text(seen),
        "alive": seen is not None and seen >= oldest,
        "jobs": number(node.get("jobs")),
        "running": sorted(running.get(instance, [])),
    }


def _group(group: Group, now: int) -> dict[str, object]:
    return {
        "group": plain(group.name),
        "service": None if group.service is None else plain(group.service),
        "firstSeenAt": None if group.first_seen_at is None else to_text(group.first_seen_at),
        "seenAt": None if group.seen_at is None else to_text(group.seen_at),
        "live": group.is_live(now),
        "jobs": None if group.jobs is None else sorted(plain(job) for job in group.jobs),
    }


def _instant(value: object) -> str | None:
    instant = number(value)
    return None if instant is None else to_text(instant)


def _bounded(node: object) -> object:
    size = len(json.dumps(node, ensure_ascii=False))
    return node if size <= _LARGEST_NODE else f"the node has {size} characters: look at it in the Firebase console"


# --- the replies

_FOLDER = Path(__file__).parent / "static"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


@cache
def page_file(path: str) -> SiteReply:
    """Return the file at this path below the mount, one of `FILES`: read once, and served as it is."""
    file = _FOLDER / FILES[path]
    return SiteReply(200, file.read_bytes(), {"Content-Type": _TYPES[file.suffix]})


MOST_STRIPS = 100
_AT_A_TIME = 8


class Reads:
    """Makes the replies to GET."""

    def __init__(self, board: Board, details: Details, health: HealthReport, *, read_only: bool) -> None:
        self._board = board
        self._details = details
        self._health = health
        self._read_only = read_only

    def show(self, route: Route, request: SiteRequest, access: Access, *, can_act: bool) -> SiteReply:
        try:
            match route.kind:
                case "file":
                    return page_file(request.path)
                case "jobs":
                    return self._jobs(request, access, can_act=can_act)
                case "job":
                    return as_json(200, self._details.job(route.name))
                case "strip":
                    return as_json(200, {"job": route.name, "ticks": self._details.strip(route.name)})
                case "strips":
                    return self._strips(request)
                case "instances":
                    return as_json(200, self._details.instances())
                case "acts":
                    return as_json(200, self._details.acts())
                case "health":
                    found = of_health(self._health.get(), request.query)
                    return as_json(found.status, found.body, found.headers)
                case "events":
                    # Without a stream: to an EventSource it says not to come back, and no browser logs it as an error.
                    return SiteReply(204, b"")
                case other:
                    raise AssertionError(f"{other} is no route of a GET")
        except UnknownJob as error:
            return problem(404, "unknown_job", str(error))
        except StoreError as error:
            return store_problem(error)

    def _jobs(self, request: SiteRequest, access: Access, *, can_act: bool) -> SiteReply:
        seen, database = self._board.jobs(), self._board.database
        found = jobs_json(seen)
        fields: Json = {
            "visitor": {"who": access.who, "canAct": can_act},
            "readOnly": self._read_only,
            "database": "/".join(filter(None, (database.store.name, database.settings.prefix))),
        }
        # As with the stream, a renewal is no news.
        digest = sha256(json.dumps([fields, *found.essence()]).encode()).hexdigest()
        etag = f'W/"{digest[:32]}"'
        if etag in (one.strip() for one in request.headers.get("if-none-match", "").split(",")):
            return SiteReply(304, b"", {"ETag": etag})
        return as_json(200, {"now": to_text(seen.now), **fields, **found.to_json()}, {"ETag": etag})

    def _strips(self, request: SiteRequest) -> SiteReply:
        given = parse_qs(request.query).get("names", [""])[0]
        names = [name for name in given.split(",") if name][:MOST_STRIPS]
        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            found = list(pool.map(self._strip, names))
        return as_json(
            200,
            {
                "strips": {name: ticks for name, (ticks, _) in zip(names, found, strict=True)},
                "problems": {name: why for name, (_, why) in zip(names, found, strict=True) if why is not None},
            },
        )

    def _strip(self, name: str) -> tuple[list[Json] | None, str | None]:
        """Return the strip, or why there is none: a name or a history that is odd takes nobody else's strip away."""
        try:
            check_name(name)
        except ConfigurationError as error:
            return None, str(error)
        try:
            return self._details.strip(name), None
        except Malformed as error:
            return None, redacted(str(error))


def store_problem(error: StoreError) -> SiteReply:
    """Return the reply to an error of the database: the triggers' one, as the page words it."""
    found = of_error(error)
    return problem(found.status, str(found.body["result"]), str(error), found.headers)
