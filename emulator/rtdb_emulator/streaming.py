"""What a stream says: the events that a commit means for somebody who watches one location.

Pure: `View.events` is a function of a commit. Sockets, keep-alives and permission are `http.sse`'s.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from rtdb_emulator.database import Change, Commit
from rtdb_emulator.jsondata import as_array, render
from rtdb_emulator.query import Query
from rtdb_emulator.tree import EMPTY, Node, Path


@dataclass(frozen=True, slots=True)
class Event:
    """`put` replaces the value at the path, `patch` some values below it; the path is relative to the view."""

    name: Literal["put", "patch"]
    path: str
    data: object


@dataclass(frozen=True, slots=True)
class View:
    """One location, or the window of a query on it."""

    path: Path
    query: Query | None = None

    def first(self, root: Node) -> Event:
        """The event that every stream begins with: all there is."""
        node = root.at(self.path)
        if self.query is None or node.is_empty:
            return _put("/", node)
        return Event("put", "/", as_array({key: render(child) for key, child in self.query.select(node).items()}))

    def events(self, commit: Commit) -> list[Event]:
        """What this view has to say of a commit; nothing where nothing in it has changed."""
        changes = [change for change in commit.changes if self._is_affected(change, commit)]
        if not changes:
            return []
        if self.query is not None:
            return self._window_events(self.query, commit)
        if any(_is_within(self.path, change.path) for change in changes):
            return [_put("/", commit.after.at(self.path))]
        if not commit.patch:
            return [_put(self._relative(change.path), commit.after.at(change.path)) for change in changes]
        if not _is_within(commit.path, self.path):
            return [_patch(self.path, "/", changes, commit.after)]
        return [_patch(commit.path, self._relative(commit.path), commit.changes, commit.after)]

    def _is_affected(self, change: Change, commit: Commit) -> bool:
        if _is_within(change.path, self.path):
            place = change.path
        elif _is_within(self.path, change.path):
            place = self.path
        else:
            return False
        return commit.before.at(place) != commit.after.at(place)

    def _window_events(self, query: Query, commit: Commit) -> list[Event]:
        before = query.select(commit.before.at(self.path))
        after = query.select(commit.after.at(self.path))
        events = [_put(f"/{key}", EMPTY) for key in before if key not in after]
        for key, child in after.items():
            if key in before and before[key] == child:
                continue
            if commit.patch and key in before and _is_within(commit.path, (*self.path, key)):
                events.append(_patch(commit.path, self._relative(commit.path), commit.changes, commit.after))
            else:
                events.append(_put(f"/{key}", child))
        return events

    def _relative(self, path: Path) -> str:
        return "/" + "/".join(path[len(self.path) :])


def _put(shown: str, node: Node) -> Event:
    return Event("put", shown, render(node))


def _patch(base: Path, shown: str, changes: Iterable[Change], after: Node) -> Event:
    written = [change.path for change in changes]
    if base in written:  # only a priority can be written at the base itself
        return _put(shown, after.at(base))
    return Event("patch", shown, {"/".join(path[len(base) :]): render(after.at(path)) for path in written})


def _is_within(path: Path, base: Path) -> bool:
    """Whether `path` is `base` or lies below it."""
    return path[: len(base)] == base
