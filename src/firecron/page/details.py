"""What the page shows beside the rows: one job, its strip, the instances, and what operators have done.

Each of them is read once for all who look, and kept for two seconds. The values are JSON, ready to be sent. What is
read of a job is never older than its row: a browser asks for it when it was told that the row has changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from zoneinfo import ZoneInfo

from firecron.base.clocks import Deadline, Timing
from firecron.base.exact import number
from firecron.base.instants import in_utc, to_datetime, to_milliseconds, to_text
from firecron.cron.clock_changes import special_nights
from firecron.cron.shown import schedule_fields
from firecron.errors import Denied, UnknownJob
from firecron.jobs.catalogue import Declared
from firecron.jobs.groups import Group, read_groups
from firecron.lock.instances import SILENT_BEATS
from firecron.lock.service import LockService
from firecron.ops.nodes import children
from firecron.ops.operator import Operator
from firecron.ops.status import Row, SeenJobs
from firecron.ops.views import LockView, plain
from firecron.page.board import Board
from firecron.page.code import Code
from firecron.page.log_links import find_project, log_link
from firecron.page.shared import Shared
from firecron.page.strips import make_strip

MOST_RUNS = 50
_NEXT = 10
_AGE = 2.0
# In milliseconds.
_HOUR = 3_600_000
# A node that somebody has filled by hand may have any size.
_LARGEST_NODE = 20_000


class Details:
    """Reads what a view of the page needs. Every method raises StoreError."""

    def __init__(self, locks: LockService, board: Board, code: Code, timing: Timing) -> None:
        self._locks = locks
        self._operator = Operator(locks)
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
        self._follow(_row(self._board.look(), name))
        return self._jobs.get(name)

    def strip(self, name: str) -> list[dict[str, object]]:
        """Return the newest ticks of a job, oldest first."""
        seen = self._board.look()
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
        seen = self._board.look()
        row, declared, node = _row(seen, name), self._board.declared(name), self._board.node(name)
        runs = self._runs.get(name)
        if row is None and node is None and not runs:
            raise UnknownJob(f"{name} is no job: the catalogue and the locks don't have it")
        newest = list(reversed(runs[-MOST_RUNS:]))
        steps = self._steps(name, [entry.key for entry in newest])
        why_not = self._code.why_not(name)
        return {
            "now": to_text(seen.now),
            "job": None if row is None else row.to_json(),
            "lock": _lock(seen, row, name),
            "options": None if declared is None else _options(declared),
            "next": [] if declared is None or row is None or row.next is None else _next(declared, seen.now),
            "runs": [
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
        now, seen = self._board.now(), self._board.look()
        oldest = now - SILENT_BEATS * self._locks.settings.heartbeat * 1000
        running = _running(seen)
        return {
            "now": to_text(now),
            "instances": [
                _instance(name, node, oldest, running)
                for name, node in sorted(self._children(self._locks.paths.instances).items())
                if name != "clock" and isinstance(node, dict)
            ],
            "groups": [_group(one, now) for one in read_groups(self._children(self._locks.paths.groups))],
        }

    def _children(self, path: str) -> Mapping[str, object]:
        try:
            return children(self._locks.store.read(path, self._deadline()).node, path)
        except Denied:
            return {}  # the rules don't let this user read them

    def _deadline(self) -> Deadline:
        return self._locks.deadline(self._locks.settings.request_timeout)


def _row(seen: SeenJobs, name: str) -> Row | None:
    return next((row for row in seen.rows if row.job == name), None)


def _lock(seen: SeenJobs, row: Row | None, name: str) -> dict[str, object] | None:
    view = row.lock if row is not None else next((view for view in seen.others if view.name == name), None)
    return None if view is None else view.to_json()


def _options(declared: Declared) -> dict[str, object]:
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


def _next(declared: Declared, now: int) -> list[dict[str, object]]:
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
    instance, seen, instance_id = (
        plain(name.rpartition("-")[0] or name),
        number(node.get("seenAt")),
        node.get("instanceId"),
    )
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
