"""What is stored for each stored job, and which of its schedules nobody can run. Only the doctor asks for it.

The first 10,000 schedules of each job are read, by their keys, and judged by what the catalogue says of its function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice

from firecron.base.instants import to_milliseconds
from firecron.base.texts import plain
from firecron.errors import ConfigurationError, NoIndex
from firecron.jobs.parameters import Parameters, read_parameters
from firecron.lock.database import Database
from firecron.ops.schedules import Schedules, StoredSchedule
from firecron.ops.views import children
from firecron.store import Querying

# How many schedules of a job are read.
MOST_EXAMINED = 10_000


@dataclass(frozen=True, slots=True)
class Examined:
    """The schedules of a job as they are stored: how many were read, and those that nobody can run, each with why.

    Args:
        job: The name of the stored job.
        read: How many were read, without those that were removed.
        is_whole: Whether the job has no more than that.
        has_index: Whether the database finds what is due by a query.
        malformed: Keys of schedules that can't be read, or that no query finds.
        unusable: Keys of schedules whose arguments the declared function doesn't take.
        undeclared: Why nothing runs them: the catalogue has no such job, or has it with a schedule in its code.
    """

    job: str
    read: int
    is_whole: bool
    has_index: bool
    malformed: Mapping[str, str]
    unusable: Mapping[str, str]
    undeclared: str | None


def examine_schedules(database: Database, most: int = MOST_EXAMINED) -> Iterator[Examined]:
    """Yield what is stored for each stored job, and for each name that has schedules. Raise StoreError."""
    paths = database.paths
    declared = children(database.node(paths.jobs), paths.jobs)
    stored = {name for name, node in declared.items() if isinstance(node, Mapping) and node.get("stored") is True}
    for job in sorted(stored.union(database.store.keys(paths.schedules, database.deadline()))):
        undeclared = parameters = None
        try:
            parameters = read_parameters(job, declared.get(job))
        except ConfigurationError as error:
            undeclared = str(error)
        found = list(islice(Schedules(database).pages(job), most + 1))
        there = [entry for entry in found[:most] if entry.state != "removed"]
        if job not in declared and not all(entry.is_closed for entry in there):
            undeclared = f"the catalogue has no job {job!r}, so no instance is known to run its schedules"
        yield Examined(
            job,
            len(there),
            len(found) <= most,
            _has_index(database, job),
            _problems(there, _malformed),
            {} if parameters is None else _problems(there, partial(_unusable, parameters)),
            undeclared,
        )


def _has_index(database: Database, job: str) -> bool:
    store, path = database.store, database.paths.schedules_of(job)
    assert isinstance(store, Querying), "its schedules were read by their keys"
    try:
        for order in ("nextAt", "failures"):
            store.query(path, order, database.deadline(), start=1, most=1)
    except NoIndex:
        return False
    return True


def _problems(entries: list[StoredSchedule], problem: Callable[[StoredSchedule], str | None]) -> dict[str, str]:
    return {plain(entry.key): why for entry in entries if (why := problem(entry)) is not None}


def _malformed(entry: StoredSchedule) -> str | None:
    """Return why nobody can run this, or none that looks for it finds it."""
    if entry.state in ("malformed", "waiting", "running") and entry.why is not None:
        return entry.why
    if entry.next_at is None or to_milliseconds(entry.next_at) <= 0:
        return "its nextAt is no time, so no query finds it"
    return None


def _unusable(parameters: Parameters, entry: StoredSchedule) -> str | None:
    is_read = _malformed(entry) is None and not entry.is_closed
    return parameters.problem(entry.args) if is_read else None
