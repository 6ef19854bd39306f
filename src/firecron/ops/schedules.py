"""Stored schedules: what a program's users make. Put, get, list, remove and count the entries of stored jobs.

    crons.schedules.put("remind", "42", "0 9 * * *", timezone="America/New_York", args={"event": "42"})
    crons.schedules.remove("remind", "42")

Everything is checked before it is written, with the errors that the decorator gives. The arguments are checked against
the job's function where its code is here, else against its entry in the catalogue, else not. `lock/stored` decides what
becomes of a node, and has what may interleave.

A put or a remove is one read and one compare-and-swap. It raises StoreError if it is not known whether it was written;
to do it again is right.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from firecron.base.instants import Duration, number, to_datetime, to_text
from firecron.base.texts import plain
from firecron.cron.bounded import Bounded
from firecron.cron.schedule import DEFAULT_ZONE, Schedule, schedule_fields
from firecron.errors import ConfigurationError, Denied, Malformed
from firecron.jobs.parameters import Parameters, check_args, read_parameters
from firecron.lock.database import Database
from firecron.lock.fields import LONGEST_WHY, pause_in
from firecron.lock.protocol import editing
from firecron.lock.record import IDLE, Current, LockRecord, parse
from firecron.lock.stored import (
    KEPT,
    LONGEST_ARGS,
    Kept,
    LookOptions,
    WantedSchedule,
    finished,
    is_closed,
    is_running,
    put,
    read_args,
    read_schedule,
    remove,
)
from firecron.store import Querying, below, check_name, entry_name

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

T = TypeVar("T")

_LONGEST_BY = 200
# How many entries one page has at most.
MOST_LISTED = 1_000
# A put that is due within so many heartbeats tells the lookers.
_SOON = 2


@dataclass(frozen=True, slots=True)
class StoredSchedule:
    """An entry as it was read: one schedule of a stored job, and what became of its runs.

    Args:
        name: The name of the entry, `<job>:<key>`.
        key: Its key.
        schedule: When it ticks; None if that was removed, or can't be read.
        written: Its line as it was put, if that has an `H`: the schedule's has the numbers.
        args: The arguments of the job's function.
        by: Who has put it, if that was told.
        state: `waiting`, `running`, `paused`, `malformed`, or how it was closed: `removed`, `over`, `missed`.
        next_at: When somebody looks at it next, in UTC: its next tick, mostly.
        since: Ticks up to this instant don't count.
        slot: The last tick that was claimed.
        outcome: How the last run ended.
        failures: How many runs have failed in a row.
        why: Why it is closed, paused or malformed, if anybody has said.
    """

    name: str
    key: str
    schedule: Bounded | None
    written: str | None
    args: Mapping[str, object]
    by: str | None
    state: str
    next_at: datetime | None
    since: datetime | None
    slot: datetime | None
    outcome: str | None
    failures: int
    why: str | None

    @property
    def is_closed(self) -> bool:
        """Whether it never runs again, until it is put."""
        return self.state in ("removed", "over", "missed", "closed")

    def to_json(self) -> dict[str, object]:
        """Return the entry for programs: it always has every field, and instants are texts."""
        schedule = self.schedule
        return {
            "name": self.name,
            "key": self.key,
            "state": self.state,
            **{name: value for name, value in schedule_fields(schedule).items() if name != "exceptDays"},
            "written": self.written,
            "at": None if schedule is None else _text(schedule.at),
            "until": None if schedule is None else _text(schedule.until),
            "args": dict(self.args),
            "by": self.by,
            "nextAt": _text(self.next_at),
            "since": _text(self.since),
            "slot": _text(self.slot),
            "outcome": self.outcome,
            "failures": self.failures,
            "why": self.why,
        }


def read_entry(job: str, key: str, node: object, now: int, database: Database) -> StoredSchedule:
    """Return what the node of an entry says, whatever it holds. Texts are safe to print."""
    name, margin = f"{job}:{key}", database.margin
    fields = node if isinstance(node, dict) else {}
    schedule, args, problem = None, dict[str, object](), None
    try:
        schedule, args = read_schedule(fields), read_args(fields)
    except Malformed as error:
        problem = str(error)
    pause = pause_in(fields)
    if is_closed(fields):
        state = str(fields["closed"]) if fields["closed"] in ("removed", "over", "missed", "malformed") else "closed"
    elif problem is not None or schedule is None:
        state, problem = "malformed", problem or "it has no schedule"
    elif is_running(fields, now, margin):
        state = "running"
    elif pause is not None and pause.holds(now):
        state = "paused"
    else:
        state = "waiting"
    said = fields.get("closedWhy") if is_closed(fields) else problem
    if pause is not None and state == "paused":
        said = pause.why
    current: Current
    try:
        current = parse(fields, now, is_mine=True)
    except Malformed as error:
        current, said = IDLE, str(error)
        state = state if is_closed(fields) else "malformed"
    record = current if isinstance(current, LockRecord) else None
    return StoredSchedule(
        name=name,
        key=key,
        schedule=schedule,
        written=_written(fields.get("written"), schedule, below(database.settings.prefix, name)),
        args=args,
        by=_plain(fields.get("by")),
        state=state,
        next_at=_instant(fields.get("nextAt")),
        since=_instant(fields.get("since")),
        slot=None if record is None or record.slot is None else to_datetime(record.slot),
        outcome=None if record is None else _plain(record.outcome),
        failures=max(0, number(fields.get("failures")) or 0),
        why=_plain(said),
    )


class Schedules:
    """The stored schedules of one database. `find` returns the parameters of a job whose code is here, if it is.

    It raises ConfigurationError for a job with a schedule of its own.
    """

    def __init__(
        self,
        database: Database,
        find: Callable[[str], Parameters | None] = lambda job: None,
    ) -> None:
        self._database = database
        self._find = find
        # What the catalogue says of a job, as it was read first: one request for all puts of a program.
        self._declared: dict[str, Parameters] = {}

    def put(
        self,
        job: str,
        key: str,
        line: str | None = None,
        *,
        timezone: str | ZoneInfo = DEFAULT_ZONE,
        every: Duration | None = None,
        starting: datetime | None = None,
        at: datetime | None = None,
        until: datetime | None = None,
        args: Mapping[str, object] | None = None,
        by: str | None = None,
        if_absent: bool = False,
    ) -> bool:
        """Let the job run by this schedule, in place of what the key had. Return False if nothing had to be written.

        Ticks count from now on. A change of `args`, `until` or `by` alone leaves the ticks that are due. Raise
        ConfigurationError for what can't be run, ValueError for a schedule without a tick to come, and StoreError.

        Args:
            job: The name of the stored job.
            key: Which of its schedules: 1 to 60 letters, digits, hyphens or underscores.
            line: A cron line; `H` in it is a number from the hash of the entry's name. Or give `every`, or `at`.
            timezone: The time zone of the line.
            every: The time between two ticks, in whole seconds.
            starting: The first tick of `every`, an aware `datetime`.
            at: The only tick, an aware `datetime`.
            until: The last instant at which it may tick, an aware `datetime`.
            args: The arguments of the function, as JSON of at most 4,096 bytes.
            by: Who wants it, for people, in 200 characters.
            if_absent: Change nothing if the key has a schedule, also if that is over. A removed one counts as absent.
        """
        name = entry_name(job, key)
        try:
            full = below(self._database.settings.prefix, name)
            schedule = Bounded(line, timezone, name=full, every=every, starting=starting, at=at, until=until)
        except ConfigurationError:
            raise
        except ValueError as error:
            raise ConfigurationError(str(error)) from None
        parameters = self._parameters(job)
        wanted = WantedSchedule(schedule, _args_text(name, args, parameters), _check_by(by), if_absent)
        look = self._look(parameters)
        written: list[dict[str, object]] = []
        soon = [False]

        def decide(node: object, now: int) -> dict[str, object] | Kept:
            after = put(node, wanted, look, now)
            if not isinstance(after, Kept):
                written[:] = [after]
                soon[0] = (number(after.get("nextAt")) or 0) <= now + _SOON * self._database.settings.heartbeat * 1000
            elif node not in written:
                written.clear()  # somebody else has put it; else the reply to the write of this put was lost
            return after

        self._edit(name, decide)
        if soon[0]:
            self._database.ring(job)
        return bool(written)

    def get(self, job: str, key: str) -> StoredSchedule | None:
        """Return one entry; None if there is none, or if it was removed. Raise StoreError.

        Args:
            job: The name of the stored job.
            key: Which of its schedules.
        """
        database, name = self._database, entry_name(job, key)
        node = database.node(database.paths.lock(name))
        found = None if node is None else read_entry(job, key, node, self._now(), database)
        return None if found is None or found.state == "removed" else found

    def list(
        self, job: str, *, prefix: str = "", after: str | None = None, limit: int = 100
    ) -> Sequence[StoredSchedule]:
        """Return the entries of a job by their keys, but not the removed ones. Raise StoreError.

        Args:
            job: The name of the stored job.
            prefix: Only the keys that begin so.
            after: Begin after this key: that of the last one on the page before.
            limit: How many at most, up to 1,000.
        """
        if not 1 <= limit <= MOST_LISTED:
            raise ConfigurationError(f"limit={limit!r} must be a number from 1 to {MOST_LISTED}")
        found: list[StoredSchedule] = []
        for entry in self.pages(job, prefix=prefix, after=after, size=limit + 1):
            if entry.state != "removed":
                found.append(entry)
            if len(found) == limit:
                break
        return found

    def pages(
        self, job: str, *, prefix: str = "", after: str | None = None, size: int = MOST_LISTED
    ) -> Iterator[StoredSchedule]:
        """Yield the entries of a job by their keys, also the removed ones, in requests of this size. Raise StoreError.

        Args:
            job: The name of the stored job.
            prefix: Only the keys that begin so.
            after: Begin after this key.
            size: How many entries one request brings.
        """
        now = self._now()
        for key, node in self.nodes(job, prefix=prefix, after=after, size=size):
            yield read_entry(job, key, node, now, self._database)

    def nodes(
        self, job: str, *, prefix: str = "", after: str | None = None, size: int = MOST_LISTED
    ) -> Iterator[tuple[str, object]]:
        """Yield the keys of a job's entries with their nodes, as `pages` yields the entries. Raise StoreError.

        Args:
            job, prefix, after, size: As with `pages`.
        """
        database = self._database
        path, start = database.paths.schedules_of(check_name(job)), f":{max(prefix, after or '')}"
        while True:
            page = _querying(database).query(path, "$key", database.deadline(), start=start, most=size + 1)
            for child, node in page[:size]:
                key = child.removeprefix(":")
                if not key.startswith(prefix):
                    if key > prefix:
                        return
                elif key != after:
                    yield key, node
            if len(page) <= size:
                return
            start = page[size][0]

    def remove(self, job: str, key: str, *, by: str | None = None, cancel: bool = False) -> bool:
        """Let the job run by this key no more: no tick of it is claimed from now on, until it is put again.

        Return whether a run of it is under way: it ends as any other. Raise StoreError.

        Args:
            job: The name of the stored job.
            key: Which of its schedules.
            by: Who removes it, for people.
            cancel: Ask the run under way to end.
        """
        name, who = entry_name(job, key), _check_by(by)
        database, look = self._database, self._look(self._known(job))
        running: list[bool] = []

        def decide(node: object, now: int) -> dict[str, object] | Kept:
            running[:] = [is_running(node, now, database.margin)]
            return remove(node, look, now, by=who, cancel=cancel)

        self._edit(name, decide)
        return running[0]

    def mend(self, job: str) -> int:
        """Compute anew when each entry of the job is looked at, after a hand has edited them. Return how many changed.

        An entry whose write is refused doesn't keep the others. Raise Denied for it at the end, and StoreError.

        Args:
            job: The name of the stored job.
        """
        look, changed = self._look(self._known_or_declared(job)), 0
        refused: list[tuple[str, Denied]] = []
        for entry in self.pages(job):
            written: list[bool] = []

            def decide(node: object, now: int, written: list[bool] = written) -> dict[str, object] | Kept:
                # Without a `since` the rules refuse it, and all ticks of the past would be due.
                after = finished({"since": now, **node}, look, now) if isinstance(node, dict) else None
                written[:] = [after is not None and after != node]
                return after if after is not None and written[0] else KEPT

            try:
                self._edit(entry.name, decide)
            except Denied as error:
                refused.append((entry.name, error))
            else:
                changed += written[0]
        if refused:
            name, first = refused[0]
            said = f"{changed:,} mended, and {len(refused):,} refused, the first of them {name}: {first}"
            raise Denied(said) from first
        return changed

    def count(self, job: str) -> int:
        """Return how many entries the job has, with those that are closed and not deleted yet. Raise StoreError.

        It reads all keys of the job: ask for it, and don't poll it.

        Args:
            job: The name of the stored job.
        """
        database = self._database
        return len(database.store.keys(database.paths.schedules_of(check_name(job)), database.deadline()))

    async def put_async(
        self,
        job: str,
        key: str,
        line: str | None = None,
        *,
        timezone: str | ZoneInfo = DEFAULT_ZONE,
        every: Duration | None = None,
        starting: datetime | None = None,
        at: datetime | None = None,
        until: datetime | None = None,
        args: Mapping[str, object] | None = None,
        by: str | None = None,
        if_absent: bool = False,
    ) -> bool:
        """Do the same as `put` without blocking the event loop.

        Args:
            job, key, line, timezone, every, starting, at, until, args, by, if_absent: As with `put`.
        """
        return await self._off_loop(
            partial(
                self.put,
                job,
                key,
                line,
                timezone=timezone,
                every=every,
                starting=starting,
                at=at,
                until=until,
                args=args,
                by=by,
                if_absent=if_absent,
            )
        )

    async def get_async(self, job: str, key: str) -> StoredSchedule | None:
        """Do the same as `get` without blocking the event loop.

        Args:
            job, key: As with `get`.
        """
        return await self._off_loop(partial(self.get, job, key))

    async def list_async(
        self, job: str, *, prefix: str = "", after: str | None = None, limit: int = 100
    ) -> Sequence[StoredSchedule]:
        """Do the same as `list` without blocking the event loop.

        Args:
            job, prefix, after, limit: As with `list`.
        """
        return await self._off_loop(partial(self.list, job, prefix=prefix, after=after, limit=limit))

    async def remove_async(self, job: str, key: str, *, by: str | None = None, cancel: bool = False) -> bool:
        """Do the same as `remove` without blocking the event loop.

        Args:
            job, key, by, cancel: As with `remove`.
        """
        return await self._off_loop(partial(self.remove, job, key, by=by, cancel=cancel))

    async def count_async(self, job: str) -> int:
        """Do the same as `count` without blocking the event loop.

        Args:
            job: As with `count`.
        """
        return await self._off_loop(partial(self.count, job))

    def _off_loop(self, call: Callable[[], T]) -> Awaitable[T]:
        return self._database.off_loop("acquire", call)

    def _edit(self, name: str, decide: Callable[[object, int], dict[str, object] | Kept]) -> Kept | None:
        database = self._database
        deadline = database.deadline(database.settings.acquire_timeout)
        return database.run(editing(decide), database.paths.lock(name), deadline)[1]

    def _known(self, job: str) -> Parameters | None:
        try:
            return self._known_here(job)
        except ConfigurationError:
            return None  # it is stored no more

    def _known_here(self, job: str) -> Parameters | None:
        return self._find(job) or self._declared.get(job)

    def _known_or_declared(self, job: str) -> Parameters | None:
        try:
            return self._parameters(job)
        except ConfigurationError:
            return None  # it is stored no more: what is left of it is mended as of an unknown job

    def _parameters(self, job: str) -> Parameters | None:
        found = self._known_here(job)
        if found is None:
            database = self._database
            try:
                node = database.node(database.paths.job(check_name(job)))
            except Denied:
                return None  # this user may not read it: the instances that run the job check the arguments
            found = read_parameters(job, node)
            if found is not None:
                self._declared[job] = found
        return found

    def _look(self, parameters: Parameters | None) -> LookOptions:
        look = LookOptions(self._database.margin)
        return look if parameters is None else parameters.look(self._database.margin)

    def _now(self) -> int:
        return self._database.now(self._database.deadline())


def _querying(database: Database) -> Querying:
    store = database.store
    if not isinstance(store, Querying):
        raise ConfigurationError(f"the store {store.name} has no `query`, which stored schedules need")
    return store


def _args_text(name: str, args: object, parameters: Parameters | None) -> str | None:
    """Return the arguments as they are stored. Raise ConfigurationError for what the function or JSON doesn't take."""
    if args is None:
        args = {}
    if not isinstance(args, dict) or not all(isinstance(key, str) for key in args):
        raise ConfigurationError(f"args={args!r:.80} of {name} must be a dict with names as keys")
    try:
        text = json.dumps(args, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
        size = len(text.encode())
        is_same = json.loads(text) == args
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"args={args!r:.80} of {name} are no JSON: {error}") from None
    if not is_same:
        raise ConfigurationError(f"args={args!r:.80} of {name} come back from JSON as {text:.80}: use JSON's own types")
    if size > LONGEST_ARGS:
        raise ConfigurationError(
            f"args of {name} are {size:,} bytes of JSON, and {LONGEST_ARGS:,} are allowed: store an id, and look the "
            "rest up in the run"
        )
    if parameters is not None:
        check_args(name, args, parameters)
    return text if args else None


def _check_by(by: object) -> str | None:
    if by is None:
        return None
    if not isinstance(by, str) or not by.strip() or len(by) > _LONGEST_BY:
        raise ConfigurationError(f"by={by!r:.80} must be a text of 1 to {_LONGEST_BY} characters")
    return by


def _instant(value: object) -> datetime | None:
    found = number(value)
    return None if found is None else to_datetime(found)


def _text(instant: datetime | None) -> str | None:
    return None if instant is None else to_text(instant)


def _written(value: object, schedule: Bounded | None, full: str) -> str | None:
    """Return the line with its `H`; None if somebody has changed the line beside it, so that it stands for another."""
    if not isinstance(value, str) or schedule is None:
        return None
    try:
        return plain(value) if Schedule(value, name=full).line == schedule.line else None
    except ValueError:
        return None


def _plain(value: object) -> str | None:
    return plain(value[:LONGEST_WHY]) if isinstance(value, str) else None
