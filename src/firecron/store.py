"""The port: what firecron needs of a database.

Apart from the places that choose the store, all code knows a database only by this port. `rtdb` implements it.

`Watching` is optional: without it, a waiter asks for its node again and again. A value from a watch is a hint, and
decides nothing: a value may come late, twice or never, and it has no ETag.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeGuard, runtime_checkable

from firecron.base.clocks import Deadline
from firecron.errors import ConfigurationError

Node: TypeAlias = dict[str, object] | None

# The ETag of a node that does not exist.
NULL_ETAG = "null_etag"
# The database replaces this value by its own time, in milliseconds.
SERVER_TIME = {".sv": "timestamp"}
# The database adds one to the number that is there; without a number it stores 1.
ONE_MORE = {".sv": {"increment": 1}}


# Lock names become keys in the database, so only characters that every tool shows well are allowed.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}", re.ASCII)


def is_name(name: object) -> TypeGuard[str]:
    """Return whether this can name a lock."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def check_name(name: object) -> str:
    """Return the name itself. Raise ConfigurationError if it can't name a lock."""
    if not is_name(name):
        raise ConfigurationError(
            f"{name!r} can't name a lock: use a letter, then up to 99 letters, digits, hyphens or underscores"
        )
    return name


def below(prefix: str, node: str) -> str:
    """Return the path of a node below a prefix, which may be empty."""
    return f"{prefix}/{node}" if prefix else node


# What names an entry of a job's stored schedules: `remind:42`. No declared name has a colon.
_ENTRY = re.compile(r"([A-Za-z][A-Za-z0-9_-]{0,99}):([A-Za-z0-9_-]{1,60})", re.ASCII)
_KEY = re.compile(r"[A-Za-z0-9_-]{1,60}", re.ASCII)
# The idempotency keys of runs by hand have this word where those of an entry's runs have its key.
_NO_KEY = "manual"


def is_entry_name(name: str) -> bool:
    """Return whether this names an entry: `<job>:<key>`. Any other name is that of a lock."""
    return _ENTRY.fullmatch(name) is not None


def check_entry_name(name: object) -> str:
    """Return the name of an entry itself. Raise ConfigurationError if it is none."""
    job, colon, key = name.partition(":") if isinstance(name, str) else ("", "", "")
    if not colon:
        raise ConfigurationError(f"{name!r} names no stored schedule: write JOB:KEY")
    return entry_name(job, key)


def entry_name(job: object, key: object) -> str:
    """Return the name of the entry that a job has by this key. Raise ConfigurationError for what can't be one."""
    if not isinstance(key, str) or not _KEY.fullmatch(key) or key == _NO_KEY:
        raise ConfigurationError(
            f"{key!r} can't be the key of a stored schedule: use 1 to 60 letters, digits, hyphens or underscores, and "
            f"not {_NO_KEY!r}"
        )
    return f"{check_name(job)}:{key}"


def check_any_name(name: object) -> str:
    """Return the name of a lock, or of an entry, itself. Raise ConfigurationError if it is neither."""
    return check_entry_name(name) if isinstance(name, str) and ":" in name else check_name(name)


def split_name(name: str) -> tuple[str, str]:
    """Return the job of a name, and the key of its entry; an empty key for the name of a job or a lock."""
    job, _, key = name.partition(":")
    return job, key


@dataclass(frozen=True, slots=True)
class Paths:
    """The paths of firecron's nodes. With a `prefix`, all of them are below it."""

    prefix: str = ""

    @property
    def locks(self) -> str:
        """The path of the locks. The node has a child for each lock, by name."""
        return self._below("cron-locks")

    @property
    def runs(self) -> str:
        """The path of the history. The node has a child for each job, by name."""
        return self._below("cron-runs")

    @property
    def errors(self) -> str:
        """The path of the tracebacks of runs that failed. The node has a child for each job, by name."""
        return self._below("cron-errors")

    @property
    def instances(self) -> str:
        """The path of the signs of life of the processes that tick. The node also has the child `clock`."""
        return self._below("cron-instances")

    @property
    def groups(self) -> str:
        """The path of the counters of heartbeats. The node has a child for each group of instances."""
        return self._below("cron-groups")

    @property
    def steps(self) -> str:
        """The path of the steps that runs have recorded. The node has a child for each job, by name."""
        return self._below("cron-steps")

    @property
    def jobs(self) -> str:
        """The path of the catalogue. The node has a child for each job, by name."""
        return self._below("cron-jobs")

    @property
    def acts(self) -> str:
        """The path of what operators have done. The keys are in the order of time."""
        return self._below("cron-acts")

    @property
    def holds(self) -> str:
        """The path of the holds: what operators hold, and until when. The node has a child for each hold, by name."""
        return self._below("cron-hold")

    @property
    def mutes(self) -> str:
        """The path of the mutes: the jobs of which nobody is to be told. The node has a child for each, by name."""
        return self._below("cron-mutes")

    @property
    def told(self) -> str:
        """The path of what people were told. The node has a child for each job that they were told of."""
        return self._below("cron-told")

    def told_of(self, name: str) -> str:
        """Return the path of what people were told of one job."""
        return f"{self.told}/{name}"

    @property
    def asks(self) -> str:
        """The path of the runs that operators have asked for. The node has a child for each job, by name."""
        return self._below("cron-asks")

    def ask(self, name: str) -> str:
        """Return the path of what is asked for of a job."""
        return f"{self.asks}/{name}"

    def hold(self, name: str) -> str:
        """Return the path of one hold."""
        return f"{self.holds}/{name}"

    def mute(self, name: str) -> str:
        """Return the path of a job's mute."""
        return f"{self.mutes}/{name}"

    @property
    def schedules(self) -> str:
        """The path of the stored schedules. The node has a child for each stored job, by name."""
        return self._below("cron-schedules")

    def schedules_of(self, job: str) -> str:
        """Return the path of the entries of one stored job. The node has a child for each, by its key and a colon."""
        return f"{self.schedules}/{job}"

    @property
    def bells(self) -> str:
        """The path at which puts and pauses tell lookers to look. The node has a child for each stored job, by name."""
        return self._below("cron-bell")

    def bell(self, job: str) -> str:
        """Return the path at which lookers of this job are told to look."""
        return f"{self.bells}/{job}"

    def lock(self, name: str) -> str:
        """Return the path of the record of one lock: that of an entry lies among the stored schedules."""
        job, key = split_name(name)
        return f"{self.schedules_of(job)}/:{key}" if key else f"{self.locks}/{name}"

    def job(self, name: str) -> str:
        """Return the path of a job's entry in the catalogue."""
        return f"{self.jobs}/{name}"

    def runs_of(self, name: str) -> str:
        """Return the path of the history of one job; all its entries share it."""
        return f"{self.runs}/{split_name(name)[0]}"

    def run(self, name: str, key: str) -> str:
        """Return the path of one run in the history of a job, or of an entry, whose key follows that of the run."""
        return f"{self.runs_of(name)}/{run_key(name, key)}"

    def errors_of(self, name: str) -> str:
        """Return the path of the tracebacks of one job. The keys are those of its history."""
        return f"{self.errors}/{split_name(name)[0]}"

    def all_steps_of(self, name: str) -> str:
        """Return the path of the steps of one job. The node has a child for each tick."""
        return f"{self.steps}/{name}"

    def steps_of(self, name: str, tick: str) -> str:
        """Return the path of the steps of one tick of a job. A tick is named as its entry in the history."""
        return f"{self.steps}/{name}/{tick}"

    def once(self, name: str) -> str:
        """Return the path of what a lock's work has brought, once and for all."""
        return f"{self.steps_of(name, 'once')}/done"

    @property
    def clock(self) -> str:
        """The path that a process writes to learn RTDB's time."""
        return f"{self.instances}/clock/seenAt"

    def relative(self, path: str) -> str:
        """Return one of these paths as seen from the prefix, as a key for `Store.merge` at the prefix."""
        return path.removeprefix(f"{self.prefix}/") if self.prefix else path

    def _below(self, node: str) -> str:
        return below(self.prefix, node)


def run_key(name: str, key: str) -> str:
    """Return the key of a run in the history: of a job's the key itself, of an entry's with the entry's key."""
    entry = split_name(name)[1]
    return f"{key}:{entry}" if entry else key


def order_of(name: str, node: object, field: str) -> tuple[int, float, str]:
    """Return the place of a child in the order of a field, as the database has it: nothing, numbers, then texts."""
    value = node.get(field) if isinstance(node, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return (0 if value is None or isinstance(value, bool) else 2), 0, name
    return 1, value, name


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A node at one moment: its value and its ETag."""

    etag: str
    node: object


class Store(Protocol):
    """What the lock needs of a database. A path has no slash at either end."""

    @property
    def name(self) -> str:
        """The name of the database in errors and logs: its address, once the address is known."""

    def connect(self) -> None:
        """Find the database, unless it is known already. Raise ConfigurationError if something is missing. No I/O."""

    def read(self, path: str, deadline: Deadline) -> Snapshot:
        """Return the node with its ETag."""

    def swap(self, path: str, etag: str, node: Node, deadline: Deadline) -> str | Snapshot:
        """Write the node (None deletes it) if the stored node still has this ETag.

        Returns the new ETag, or a Snapshot of the stored node if its ETag is another one.
        """

    def timestamp(self, path: str, deadline: Deadline) -> int:
        """Write the server's time at the path, and return that time in milliseconds."""

    def merge(
        self, path: str, values: dict[str, object], deadline: Deadline, *, echo: bool = True
    ) -> dict[str, object]:
        """Replace these children of the node (None deletes a child), and leave the others. Return what was written.

        A key may be a path below the node. All children are replaced at once, or none. An empty path is the root of the
        database. The returned dict has the same keys, with None for what the database did not tell. Without `echo` the
        database may tell nothing, so that what is large is not sent back.
        """

    def keys(self, path: str, deadline: Deadline) -> list[str]:
        """Return the names of the node's children."""

    def newest(self, path: str, deadline: Deadline) -> tuple[str, object] | None:
        """Return the child with the last name, as its name and its value; None if the node has no children."""

    def close(self) -> None:
        """Close the connections. The next request opens new ones."""

    def after_fork(self) -> None:
        """Drop, in a forked child, everything that belongs to the parent."""


@runtime_checkable
class Resting(Protocol):
    """The optional part of a store that keeps connections for the next requests."""

    def rest(self) -> None:
        """Close the connections that no request uses. The next request opens one."""


class Watch(Protocol):
    """A stream of a node's values, for one thread that reads it."""

    def next(self) -> object:
        """Wait for the next value of the whole node, and return it. The first value is the node as it was at first.

        Raise Unavailable if the stream has ended: it was cut or closed, or silent for longer than a keep-alive takes.
        Raise Denied if the database will not go on.
        """

    def close(self) -> None:
        """End the stream, from any thread. A `next` that waits raises Unavailable at once."""


@runtime_checkable
class KeptAlive(Watch, Protocol):
    """A watch whose database shows life every 30 s while nothing changes. Another one is believed until it ends."""

    def silence(self) -> float:
        """Return the milliseconds since the database has shown life. Any thread may call this."""


@runtime_checkable
class Dated(Protocol):
    """The optional part of a store: it knows the time without a write, for users that may only read."""

    def date(self, path: str, deadline: Deadline) -> int | None:
        """Read the node for the time of the answer, in milliseconds and right to the second; None if it has none."""


@runtime_checkable
class Querying(Protocol):
    """The optional part of a store: it knows the order of a node's children. Stored schedules need it."""

    def query(
        self,
        path: str,
        order_by: str,
        deadline: Deadline,
        *,
        start: tuple[int, str] | int | str | None = None,
        end: int | None = None,
        most: int,
    ) -> list[tuple[str, object]]:
        """Return the first `most` children by the number that they have in this field, each with its name.

        Among equal numbers the names decide. A child without the field comes first, one with a text there last. `start`
        and `end` are the bounds, and both count; `start` may be a number with the name from which it counts. Ordered by
        `$key`, `start` is a name. Raise NoIndex if the database has no index for this order.
        """


@runtime_checkable
class Watching(Protocol):
    """The optional part of a store: it reports the changes of a node."""

    def watch(self, path: str, deadline: Deadline) -> Watch:
        """Open a stream of the node's values.

        Raise Unavailable if its first value does not come before the deadline, Denied if the database refuses it.
        """
