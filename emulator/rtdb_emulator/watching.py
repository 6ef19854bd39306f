"""The smallest change of a commit at one location, for its listeners.

Pure. `streaming` and `ws.listens` make events and messages of the change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rtdb_emulator.database import Change, Commit
from rtdb_emulator.tree import Node, Path


@dataclass(frozen=True, slots=True)
class Put:
    """The node at this path has changed to `node`."""

    path: Path
    node: Node


@dataclass(frozen=True, slots=True)
class Merge:
    """The nodes at these paths below `path` have changed."""

    path: Path
    nodes: Mapping[Path, Node]


Seen: TypeAlias = Put | Merge


def seen_at(place: Path, commit: Commit) -> Seen | None:
    """Return the change at or below a place; None if nothing there has changed."""
    changes = [change for change in commit.changes if _is_affected(place, change, commit)]
    if not changes:
        return None
    if any(is_within(place, change.path) for change in changes):
        return Put(place, commit.after.at(place))
    if not commit.patch:
        (change,) = changes
        return Put(change.path, commit.after.at(change.path))
    if not is_within(commit.path, place):
        return merged(place, changes, commit.after)
    return merged(commit.path, commit.changes, commit.after)


def merged(base: Path, changes: Sequence[Change], after: Node) -> Seen:
    """Return several changes at or below one path as one change."""
    written = [change.path for change in changes]
    paths = set(written)
    if base in paths:  # only a priority can be written at the base itself
        return Put(base, after.at(base))
    # The same write may have changed a node's priority and nodes below it: the whole node has both.
    least = [path for path in written if not any(path[:end] in paths for end in range(len(path)))]
    return Merge(base, {path[len(base) :]: after.at(path) for path in least})


def is_within(path: Path, base: Path) -> bool:
    """Return whether `path` is `base` or lies below it."""
    return path[: len(base)] == base


def _is_affected(place: Path, change: Change, commit: Commit) -> bool:
    if is_within(change.path, place):
        written = change.path
    elif is_within(place, change.path):
        written = place
    else:
        return False
    return commit.before.at(written) != commit.after.at(written)
