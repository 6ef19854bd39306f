"""The port: what firecron needs of a database. Everything else knows only this; `rtdb` is the one that is used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from firecron.base.clocks import Deadline

Node: TypeAlias = dict[str, object] | None

# The ETag of a node that isn't there.
NULL_ETAG = "null_etag"
# What the database replaces by its time, in milliseconds.
SERVER_TIME = {".sv": "timestamp"}


@dataclass(frozen=True, slots=True)
class Paths:
    """Where firecron's nodes are. All are below `prefix`, if there is one."""

    prefix: str = ""

    @property
    def locks(self) -> str:
        """The locks, by name."""
        return self._below("cron-locks")

    @property
    def runs(self) -> str:
        """The history of each job, by its name."""
        return self._below("cron-runs")

    @property
    def instances(self) -> str:
        """The signs of life of the processes that tick, and the node `clock`."""
        return self._below("cron-instances")

    def lock(self, name: str) -> str:
        """The node of one lock."""
        return f"{self.locks}/{name}"

    def runs_of(self, name: str) -> str:
        """The history of one job."""
        return f"{self.runs}/{name}"

    @property
    def clock(self) -> str:
        """Where a process that has no node of its own writes to learn the time."""
        return f"{self.instances}/clock/seenAt"

    def _below(self, node: str) -> str:
        return f"{self.prefix}/{node}" if self.prefix else node


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A node as it was at one moment."""

    etag: str
    node: object


class Store(Protocol):
    """What the lock needs of a database. Paths have no slash at either end."""

    @property
    def name(self) -> str:
        """What errors and logs call the database: its address, once it is known."""

    def connect(self) -> None:
        """Find the database, if it is not known yet; ConfigurationError says what is missing. No I/O."""

    def read(self, path: str, deadline: Deadline) -> Snapshot:
        """The node and its ETag."""

    def swap(self, path: str, etag: str, node: Node, deadline: Deadline) -> str | Snapshot:
        """Write the node (None: delete) if it has this ETag: its new ETag, or what is there instead."""

    def timestamp(self, path: str, deadline: Deadline) -> int:
        """Write the server's time at the path, and say what it is."""

    def merge(self, path: str, values: dict[str, object], deadline: Deadline) -> object:
        """Replace these children of the node (None: delete), and no others; returns what was written."""

    def keys(self, path: str, deadline: Deadline) -> list[str]:
        """The names of the node's children."""

    def newest(self, path: str, deadline: Deadline) -> tuple[str, object] | None:
        """The last of the node's children by its name, and what it holds; None if there are none."""

    def close(self) -> None:
        """Let go of connections; another request makes new ones."""

    def after_fork(self) -> None:
        """Let go, in a forked child, of what belongs to the parent."""
