"""The port: what firecron needs of a database. Everything else knows only this; `rtdb` is the one that is used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from firecron.timing import Deadline

Node: TypeAlias = dict[str, object] | None

# The ETag of a node that isn't there.
NULL_ETAG = "null_etag"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A node as it was at one moment."""

    etag: str
    node: object


class Store(Protocol):
    """What the lock needs of a database. Paths have no slash at either end."""

    def read(self, path: str, deadline: Deadline) -> Snapshot:
        """The node and its ETag."""

    def swap(self, path: str, etag: str, node: Node, deadline: Deadline) -> str | Snapshot:
        """Write the node (None: delete) if it has this ETag: its new ETag, or what is there instead."""

    def timestamp(self, path: str, deadline: Deadline) -> int:
        """Write the server's time at the path, and say what it is."""

    def merge(self, path: str, values: dict[str, object], deadline: Deadline) -> object:
        """Replace these children of the node (None: delete), and no others; answers with what was written."""

    def keys(self, path: str, deadline: Deadline) -> list[str]:
        """The names of the node's children."""

    def newest(self, path: str, deadline: Deadline) -> tuple[str, object] | None:
        """The last of the node's children by its name, and what it holds; None if there are none."""

    def after_fork(self) -> None:
        """Let go, in a forked child, of what belongs to the parent."""
