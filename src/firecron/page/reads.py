"""What a GET returns: the page's files, and the JSON that the page shows.

    jobs        the rows of the board, with an ETag: a browser that polls gets them again only if they have changed
    job         one job: its options, its next ticks, its runs with their steps and log lines
    strip       the newest ticks of a job, each with the outcome of its run, or with why it did not run (`ticks`)
    instances   the signs of life of the instances and of their groups; of a late job those that would run it
    acts        what operators have done
    schedules   the entries of a stored job (`entries`), by pages; each is shown by itself as a job is

The board keeps the rows. Everything else is read once for all visitors, and kept for two seconds. What is read of a
job is never older than its row: a browser asks for it when it has heard that the row has changed. A part that is
malformed is null, and `problems` says why.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import TypeAlias, TypeVar
from urllib.parse import parse_qs
from zoneinfo import ZoneInfo

from firecron.base.instants import in_utc, to_datetime, to_milliseconds, to_text
from firecron.base.texts import plain, redacted
from firecron.cron.schedule import next_ticks, schedule_fields
from firecron.cron.words import special_nights
from firecron.errors import ConfigurationError, Denied, Malformed, StoreError, UnknownJob
from firecron.jobs.about import NOTHING
from firecron.jobs.catalogue import CatalogueEntry, live_groups_of, read_groups
from firecron.jobs.registry import Registry
from firecron.leaders.leader import Leader
from firecron.lock.audit_log import Act
from firecron.ops.asks import why_not_askable
from firecron.ops.board import Board, Shared
from firecron.ops.entries import EntryRow
from firecron.ops.operator import Operator
from firecron.ops.remedies import acts_on, state_of_lock
from firecron.ops.status import Row, SeenJobs
from firecron.ops.views import LockView, children
from firecron.page.entries import Entries
from firecron.page.fleet import Fleet, find_project, group_json, instance_link, log_link
from firecron.page.messages import FILES, Access, Route, as_json, problem
from firecron.page.ticks import Known
from firecron.page.timeline import RANGES, marks, span_of
from firecron.page.timeline import row as timeline_row
from firecron.runs.entry import MANUAL, Entry, entry_of
from firecron.store import check_any_name, is_entry_name, is_name, run_key, split_name
from firecron.triggers.handler import of_error, of_health
from firecron.web import SiteReply, SiteRequest

# --- all jobs as JSON, as `/api/jobs` and the stream send them, and what of it is news: pure

Json: TypeAlias = dict[str, object]


@dataclass(frozen=True, slots=True)
class JobsJson:
    """The rows of the jobs, the locks that belong to none, those of leaders apart, and the holds."""

    jobs: list[Json]
    leaders: list[Json]
    locks: list[Json]
    holds: list[Json]

    def rest(self) -> dict[str, list[Json]]:
        return {"leaders": self.leaders, "locks": self.locks, "holds": self.holds}

    def to_json(self) -> Json:
        return {"jobs": self.jobs, **self.rest()}

    def essence(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return what would be news if it changed, as texts: of each job, and of the rest.

        A renewal is no news: it only moves the end of a lock.
        """
        rows = {str(row["job"]): _text({**row, "lock": _without_end(row["lock"])}) for row in self.jobs}
        return rows, {name: _text([_without_end(view) for view in views]) for name, views in self.rest().items()}


class Code:
    """The code that this process has: the jobs of its `registry`, which it can run, and what it says of its `leaders`.

    `firecron page` without an application has none.
    """

    def __init__(self, registry: Registry | None = None, leaders: Iterable[Leader] = ()) -> None:
        self.registry = registry
        self._leaders = {leader.name: leader.options.about for leader in leaders}

    def why_not_runnable(self, name: str) -> str | None:
        """Return why this process can't run the job, or the entry of a stored one; None if it can."""
        if self.registry is None:
            return "this page is served without the code of the jobs"
        declared, key = split_name(name)
        try:
            job = self.registry.get(declared)
        except UnknownJob:
            return f"this process has no code for {name}"
        if job.options.stored is not None and not key:
            return "it runs by its stored schedules: run one of them"
        if not self.registry.runs_here(job):
            return f"{name} needs the role {job.options.role!r}, and this process lacks it"
        return f"{name} is declared disabled" if job.options.disabled else None

    def jobs_json(self, seen: SeenJobs) -> JobsJson:
        """Return what is seen as JSON, with the acts that are offered.

        A row's `lock` and `last` have no nulls: of 50 jobs they would be 14 kB.
        """
        locks = [(view, {**view.to_json(), "acts": acts_on(state_of_lock(view), view)}) for view in seen.others]
        return JobsJson(
            [self._row_json(row) for row in seen.rows],
            [{**lock, **self._leaders.get(view.name, NOTHING).fields()} for view, lock in locks if view.is_leaders],
            [lock for view, lock in locks if not view.is_leaders],
            [view.to_json() for view in seen.holds],
        )

    def _row_json(self, row: Row) -> Json:
        fields = {name: _without_nulls(value) for name, value in row.to_json().items()}
        # No path leads to a key that can be no job's name.
        acts = row.acts(can_run=self.why_not_run(row) is None) if is_name(row.job) else []
        return {**fields, "acts": acts}

    def entry_json(self, found: EntryRow) -> Json:
        """Return an entry as JSON: as the row of a job, with the acts that are offered."""
        fields = {name: _without_nulls(value) for name, value in found.to_json().items()}
        return {**fields, "acts": found.acts(can_run=self.why_not_run(found.row) is None)}

    def why_not_run(self, row: Row) -> str | None:
        """Return why a run of the job can't be started from here, neither by this process nor by one that is asked."""
        why_not = self.why_not_runnable(row.job)
        if why_not is None or is_entry_name(row.job):
            return why_not
        if row.ask is not None:
            return f"{row.ask}, and that is still to be run"
        refused = why_not_askable(row.declared, row.lock)
        return None if refused is None else refused.why


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


# --- the files

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


# --- the replies

T = TypeVar("T")

MOST_RUNS = 50
MOST_STRIPS = 100
_AT_A_TIME = 8
_NEXT = 10
_AGE = 2.0
# Of histories, and of instances on the timeline: what has changed is read anew.
_KEPT = 60.0
# Of the acts, where they only say when a job was paused. They are read anew when that changes.
_ACTS_AGE = 60.0
# In milliseconds.
_HOUR = 3_600_000
# How long after a release the history is asked again and again.
_LATE_ENTRY = 30_000
# A node that somebody has filled by hand may have any size.
_LARGEST_NODE = 20_000


class Reads:
    """Makes the replies to GET. What it reads of the database beside the rows, it keeps for a while.

    `code` is what this process has.
    """

    def __init__(self, board: Board, code: Code, *, read_only: bool) -> None:
        self.board = board
        self.code = code
        self._read_only = read_only
        self._database = database = board.database
        self.operator = Operator(database)
        self.entries = Entries(board)
        # Of a stored job it is that of all its entries.
        self._runs = Shared(self.operator.runs, database.timing, _KEPT)
        self._jobs = Shared(self._read_job, database.timing, _AGE)
        self._acts = Shared(lambda _: self._read_acts(), database.timing, _ACTS_AGE)
        self._instances = Shared(lambda _: self._read_instances(), database.timing, _AGE)
        self._fleet = Shared(lambda _: self._read_fleet(), database.timing, _KEPT)
        # Of each job that was asked for, the row's part that changes with its runs.
        self._rows: dict[str, tuple[object, ...]] = {}

    def show(self, route: Route, request: SiteRequest, access: Access, *, can_act: bool) -> SiteReply:
        try:
            match route.kind:
                case "file":
                    return page_file(request.path)
                case "jobs":
                    return self._all_jobs(request, access, can_act=can_act)
                case "job":
                    self.board.show([route.name])
                    self._follow(self._row(route.name))
                    return as_json(200, self._jobs.get(route.name))
                case "schedules":
                    return self._schedules(route.name, parse_qs(request.query))
                case "count":
                    return as_json(200, {"job": route.name, "count": self.entries.count(route.name)})
                case "strip":
                    self.board.show([route.name])
                    return as_json(200, {"job": route.name, "ticks": self._strip(route.name)})
                case "strips":
                    return self._strips(request)
                case "timeline":
                    return self._timeline(request)
                case "traceback":
                    return as_json(200, {"traceback": self._traceback(route.name, route.key)})
                case "instances":
                    return as_json(200, self._instances.get())
                case "acts":
                    return as_json(200, {"now": to_text(self.board.now()), "acts": self._newest_acts()})
                case "health":
                    found = of_health(self.board.report(), request.query)
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

    def done(self, name: str) -> None:
        """Read anew what a visitor has changed."""
        self.board.done()
        self.entries.changed(name)
        self._jobs.changed(name)
        self._runs.changed(split_name(name)[0])
        self._acts.changed()

    def _all_jobs(self, request: SiteRequest, access: Access, *, can_act: bool) -> SiteReply:
        seen, database = self.board.jobs(), self._database
        found = self.code.jobs_json(seen)
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

    def _schedules(self, job: str, query: Mapping[str, Sequence[str]]) -> SiteReply:
        """Return some entries of a stored job, and after which key there may be more."""
        prefix, after = (query.get(name, [""])[0] for name in ("prefix", "after"))
        rows, more = self.entries.page(job, prefix, after)
        found = [self.code.entry_json(row) for row in rows]
        return as_json(200, {"now": to_text(self.board.now()), "job": job, "schedules": found, "after": more})

    def _strips(self, request: SiteRequest) -> SiteReply:
        given = parse_qs(request.query).get("names", [""])[0]
        names = [name for name in given.split(",") if name][:MOST_STRIPS]
        self.board.show(names)
        last = {row.job: row.last for row in self.board.jobs().rows}
        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            found = dict(zip(names, pool.map(self._strip_or_why, names), strict=True))
        strips = {name: ticks for name, (ticks, _) in found.items()}
        problems = {name: why for name, (_, why) in found.items() if why is not None}
        lasts = {name: _without_nulls(entry.to_json()) for name in names if (entry := last.get(name)) is not None}
        return as_json(200, {"strips": strips, "last": lasts, "problems": problems})

    def _timeline(self, request: SiteRequest) -> SiteReply:
        """Return the rows of these jobs, and what became of the instances of their services."""
        query = parse_qs(request.query)
        hours = next((hours for hours in RANGES if query.get("hours") == [str(hours)]), RANGES[0])
        names = [name for name in query.get("names", [""])[0].split(",") if name][:MOST_STRIPS]
        seen, fleet = self.board.jobs(), self._fleet.get()
        span = span_of(hours, seen.now)
        rows = {row.job: row for row in seen.rows}
        wanted = [name for name in dict.fromkeys(names) if name in rows]
        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            known = dict(zip(wanted, pool.map(lambda name: self._known_or_none(name, seen), wanted), strict=True))
        histories: dict[str, dict[str, Sequence[Entry]]] = {}
        for name, one in known.items():
            if one is not None and one.declared is not None:
                histories.setdefault(one.declared.service, {})[name] = one.entries
        instances = fleet.instances(seen.now)
        found = {
            service: marks([one for one in instances if one["service"] == service], own, span)
            for service, own in sorted(histories.items())
        }
        shown = {name: None if one is None else timeline_row(one, span) for name, one in known.items()}
        return as_json(200, {**span.to_json(), "rows": shown, "marks": found})

    def _known_or_none(self, name: str, seen: SeenJobs) -> Known | None:
        try:
            return self._known(name, seen)
        except (ConfigurationError, Malformed):
            return None  # its strip says why

    def _strip_or_why(self, name: str) -> tuple[list[Json] | None, str | None]:
        """Return the strip, or why there is none: a name or a history that is odd takes nobody else's strip away."""
        try:
            return self._strip(check_any_name(name)), None
        except ConfigurationError as error:
            return None, str(error)
        except Malformed as error:
            return None, redacted(str(error))

    def _strip(self, name: str) -> list[dict[str, object]]:
        """Return the newest ticks of a job, oldest first."""
        seen = self.board.jobs()
        if not is_entry_name(name) and _view(seen, _row(seen, name), name) is None and _row(seen, name) is None:
            return []  # a name that somebody has made up costs nothing
        return [tick.to_json() for tick in self._known(name, seen).newest_ticks()]

    def _known(self, name: str, seen: SeenJobs) -> Known:
        """Return what is known of a job's ticks. Its history is read if its row has changed, or after a minute."""
        row = self._row(name, seen)
        self._follow(row)
        declared, node = self._declared(name, row), self._node(name)
        is_retired = row is not None and row.verdict.word == "retired"
        return Known(
            declared, self._history(name), node, self._acts_or_none(), seen.now, self._database.margin, is_retired
        )

    def _row(self, name: str, seen: SeenJobs | None = None) -> Row | None:
        """Return the row of a job, or of an entry of a stored one; None if there is none."""
        if not is_entry_name(name):
            return _row(seen or self.board.jobs(), name)
        try:
            return self.entries.row(name).row
        except UnknownJob:
            return None

    def _declared(self, name: str, row: Row | None) -> CatalogueEntry | None:
        if is_entry_name(name):
            return None if row is None else row.declared
        return self.board.declared(name)

    def _node(self, name: str) -> object:
        return self.entries.node(name) if is_entry_name(name) else self.board.node(name)

    def _history(self, name: str, age: float = inf) -> Sequence[Entry]:
        """Return the history of a job, oldest first; of an entry its part, with the keys of a job's runs."""
        job, key = split_name(name)
        runs = self._runs.get(job, age)
        if not key:
            return runs
        return [replace(one, key=one.key.removesuffix(f":{key}")) for one in runs if entry_of(one.key) == key]

    def _follow(self, row: Row | None) -> None:
        """Read the job anew if its row has changed since it was asked for."""
        if row is None:
            return
        lock = row.lock
        shown = (row.last, lock and (lock.state, lock.since, lock.released_at), lock is not None and lock.is_paused)
        before = self._rows.get(row.job)
        if before != shown:
            # Another thread may ask for the same job now: it must not see the row before it can see the change.
            self._jobs.changed(row.job)
            self._runs.changed(split_name(row.job)[0])
            if before is not None and before[-1] != shown[-1]:
                self._acts.changed()
            self._rows[row.job] = shown

    def _read_job(self, name: str) -> dict[str, object]:
        """Return everything about one job or lock. Raise UnknownJob if the database knows no such name."""
        seen = self.board.jobs()
        found = self.entries.row(name) if is_entry_name(name) else None
        row = _row(seen, name) if found is None else found.row
        declared, node = self._declared(name, row), self._node(name)
        problems: dict[str, str] = {}
        is_stored = found is None and declared is not None and declared.stored is not None
        # The history of all entries may be long: it is read anew when one of them has run.
        age = _KEPT if (is_stored or found is not None) and not _has_just_ended(row, seen.now) else _AGE
        runs = _readable("runs", lambda: self._history(name, age), problems)
        if row is None and node is None and runs == ():
            raise UnknownJob(f"{name} is no job: the catalogue and the locks don't have it")
        newest = list(reversed((runs or ())[-MOST_RUNS:]))
        view = _view(seen, row, name)
        holder = view if view is not None and view.state == "held" else None
        steps = self._steps(name, newest, holder)
        service = None if declared is None else declared.service
        why_not = self.code.why_not_runnable(name) if row is None else self.code.why_not_run(row)
        return {
            "now": to_text(seen.now),
            "job": row and row.to_json() if found is None else self.code.entry_json(found),
            "stored": is_stored,
            "lock": None if view is None else view.to_json(),
            "options": None
            if declared is None
            else _options(declared)
            if found is None
            else _of_entry(found, declared),
            "defaults": [] if declared is None else [*declared.usual(), *(["ticks"] if declared.ticks else [])],
            "next": [] if declared is None or row is None or row.next is None else _next(declared, seen.now),
            "running": None if holder is None else _run_under_way(name, holder, steps, service, seen.now),
            "runs": None
            if runs is None
            else [
                {
                    **entry.to_json(),
                    "steps": steps.get(entry.key, []),
                    "logs": log_link(name, entry, service, find_project()),
                }
                for entry in newest
            ],
            "node": _bounded(node),
            "instances": self._would_run(name, seen.now) if row is not None and row.verdict.word == "late" else None,
            "runnable": why_not is None,
            "resumable": why_not is None and declared is not None and declared.once_per_tick and declared.has_lease,
            "why_not_runnable": why_not,
            "problems": problems,
        }

    def _steps(self, name: str, runs: Sequence[Entry], holder: LockView | None) -> dict[str, list[Json]]:
        """Return the steps of these runs, and of the run under way, by their keys in the history."""
        keys = [entry.key for entry in runs]
        slot = None if holder is None else holder.unfinished
        by_hand = holder is not None and slot is None
        try:
            found = self.operator.steps(name, [*keys, *filter(None, [slot])], keys if by_hand else None)
        except Denied:
            return {}  # the rules are older than steps
        return {one.tick: [step.to_json() for step in one.steps] for one in found}

    def _acts_or_none(self) -> tuple[Act, ...]:
        try:
            return self._acts.get()
        except Malformed:
            return ()  # which the acts' own view says

    def _newest_acts(self) -> list[Json]:
        return [act.to_json() for act in reversed(self._acts.get(age=_AGE))]

    def _read_acts(self) -> tuple[Act, ...]:
        try:
            return self.operator.acts()
        except Denied:
            return ()  # the rules are older than acts

    def _traceback(self, name: str, key: str) -> str | None:
        try:
            return self.operator.traceback(name, run_key(name, key))
        except Denied:
            return None  # the rules are older than tracebacks

    def _read_instances(self) -> dict[str, object]:
        now, fleet = self.board.now(), self._fleet.get(age=_AGE)
        running = _running(self.board.jobs())
        shown = [{**one, "running": sorted(running.get(str(one["instance"]), []))} for one in fleet.instances(now)]
        return {
            "now": to_text(now),
            "instances": None if fleet.nodes is None else shown,
            "groups": None if fleet.groups is None else [group_json(one, now) for one in fleet.groups],
            "problems": fleet.problems,
        }

    def _would_run(self, name: str, now: int) -> list[Json]:
        """Return the live instances that would run the job, each with a link to its log lines."""
        fleet = self._fleet.get(age=_AGE)
        services = {group.service for group in live_groups_of(split_name(name)[0], fleet.groups or (), now)}
        project = find_project()
        return [
            {**one, "logs": instance_link(str(one["instance"]), str(one["service"]), project, now)}
            for one in fleet.instances(now)
            if one["alive"] and one["service"] in services
        ]

    def _read_fleet(self) -> Fleet:
        problems, paths = dict[str, str](), self._database.paths
        nodes = _readable("instances", lambda: self._children(paths.instances), problems)
        groups = _readable("groups", lambda: read_groups(self._children(paths.groups)), problems)
        return Fleet(nodes, groups, self._database.settings.heartbeat, problems)

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


def _has_just_ended(row: Row | None, now: int) -> bool:
    """Return whether the entry of a run that has ended may be still to come."""
    released = None if row is None or row.lock is None else row.lock.released_at
    return released is not None and now - released < _LATE_ENTRY


def _view(seen: SeenJobs, row: Row | None, name: str) -> LockView | None:
    return row.lock if row is not None else next((view for view in seen.others if view.name == name), None)


def _run_under_way(name: str, holder: LockView, steps: Mapping[str, list[Json]], service: str | None, now: int) -> Json:
    """Return the run that holds the lock. Its key is that of its entry to come, as far as it is known."""
    key = holder.unfinished
    if key is None and holder.since is not None:
        # A run by hand begins as it acquires the lock. Its first step shows its key.
        key = next((key for key in steps if key.startswith(f"{to_text(holder.since)}{MANUAL}")), None)
    entry = Entry(key or "", "succeeded", started_at=holder.since, ended_at=now)
    return {
        "key": key,
        "slot": holder.unfinished,
        "started": None if holder.since is None else to_text(holder.since),
        "attempt": None if holder.unfinished is None else holder.attempt,
        "fence": holder.fence,
        "instanceId": holder.instance_id,
        "instance": holder.instance,
        "steps": [] if key is None else steps.get(key, []),
        "logs": None if key is None else log_link(name, entry, service, find_project()),
    }


def _options(declared: CatalogueEntry) -> dict[str, object]:
    return {
        **schedule_fields(declared.schedule),
        **{name: plain(value) if isinstance(value, str) else value for name, value in declared.options().items()},
        "where": plain(declared.where),
        "ticks": declared.ticks,
        "service": plain(declared.service),
        "revision": declared.revision and plain(declared.revision),
        "since": None if declared.since is None else to_text(declared.since),
        "declaredAt": None if declared.declared_at is None else to_text(declared.declared_at),
    }


def _of_entry(found: EntryRow, declared: CatalogueEntry) -> dict[str, object]:
    """Return the options of an entry's job, with the arguments of its runs."""
    args, by = found.entry.args, found.entry.by
    given = None if not args else plain(json.dumps(dict(args), ensure_ascii=False))
    return {"arguments": given, "putBy": by, **_options(declared)}


def _next(declared: CatalogueEntry, now: int) -> list[dict[str, object]]:
    """Return the next ticks. A tick on a day when the clocks change has the note that explains its time."""
    schedule, zone = declared.schedule, ZoneInfo(declared.schedule.timezone)
    ticks = next_ticks(schedule, to_datetime(now), _NEXT)
    if not ticks:
        return []
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


def _bounded(node: object) -> object:
    size = len(json.dumps(node, ensure_ascii=False))
    return node if size <= _LARGEST_NODE else f"the node has {size} characters: look at it in the Firebase console"


def store_problem(error: StoreError) -> SiteReply:
    """Return the reply to an error of the database: the triggers' one, as the page words it."""
    found = of_error(error)
    return problem(found.status, str(found.body["result"]), str(error), found.headers)
