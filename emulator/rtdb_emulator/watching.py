"""What a commit changes at one location: the smallest change, and the events of a stream.

Pure. The change is found out inside the commit where that is quick, else in steps after it, which look at nothing but
the two trees of the commit. `ws.listens` makes messages of the change. `View.events` makes the events of a stream at
one location, or in a query's window on it: `http.sse` has their sockets, keep-alives and permission.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from rtdb_emulator.database import Change, Commit
from rtdb_emulator.jsondata import as_array, render
from rtdb_emulator.large import Form, are_large, is_large, writing, writing_all
from rtdb_emulator.query import Query, arranging
from rtdb_emulator.steps import gathering
from rtdb_emulator.tree import EMPTY, Node, Path, comparing


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

# The most changes that are looked at between two steps, and the most children that a window moves one by one.
MOST_CHANGES = 200


def takes_long(place: Path, commit: Commit) -> bool:
    """Return whether it takes long to find what a commit changes at or below a place."""
    if len(commit.changes) > MOST_CHANGES:
        return True
    written = [path for change in commit.changes if (path := _written(place, change)) is not None]
    return are_large(root.at(path) for path in written for root in (commit.before, commit.after))


def seeing(place: Path, commit: Commit) -> Generator[None, None, Seen | None]:
    """Return the change at or below a place, found out in steps; None if nothing there has changed."""
    changes = []
    for number, change in enumerate(commit.changes, 1):
        written = _written(place, change)
        if written is not None and not (yield from comparing(commit.before.at(written), commit.after.at(written))):
            changes.append(change)
        if number % MOST_CHANGES == 0:
            yield
    if not changes:
        return None
    if any(_is_within(place, change.path) for change in changes):
        return Put(place, commit.after.at(place))
    if not commit.patch:
        (change,) = changes
        return Put(change.path, commit.after.at(change.path))
    if not _is_within(commit.path, place):
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


def children(path: Path, seen: Seen) -> set[str] | None:
    """Return the children that a commit has changed; None if it has changed the node itself."""
    if len(seen.path) > len(path):
        return {seen.path[len(path)]}
    return {below[0] for below in seen.nodes} if isinstance(seen, Merge) else None


def _is_within(path: Path, base: Path) -> bool:
    """Return whether `path` is `base` or lies below it."""
    return path[: len(base)] == base


def _written(place: Path, change: Change) -> Path | None:
    """Return the part of a place that a change writes; None if it writes elsewhere."""
    if _is_within(change.path, place):
        return change.path
    return place if _is_within(place, change.path) else None


# --- the events of a stream

_FORM = Form()
# Children that are looked at between two steps.
STEP = 500


@dataclass(frozen=True, slots=True)
class Event:
    """`put` replaces the value at the path, `patch` some values below it; the path is relative to the view.

    Large data is its JSON in pieces: an iterator, for one reader.
    """

    name: Literal["put", "patch"]
    path: str
    data: object


@dataclass(frozen=True, slots=True)
class View:
    """One location, or the window of a query on it."""

    path: Path
    query: Query | None = None

    def shown(self, root: Node) -> tuple[Node, list[str] | None]:
        """Return the node here, and the keys of its children in the query's window; None for all."""
        node = root.at(self.path)
        return node, None if self.query is None or node.is_empty else self.query.keys(node)

    def first(self, root: Node) -> Event:
        """Return the first event of every stream: the whole value."""
        node, keys = self.shown(root)
        if keys is None:
            return _put("/", node)
        if is_large(node, keys):
            return Event("put", "/", writing(node, _FORM, keys))
        return Event("put", "/", as_array({key: render(node.child(key)) for key in keys}))

    def events(self, commit: Commit) -> list[Event]:
        """Return the events of a commit for this view; none if nothing in the view has changed."""
        return [event for event in self.following(commit) if event is not None]

    def following(self, commit: Commit) -> Iterator[Event | None]:
        """Yield the same in steps; None for a step without an event."""
        seen = yield from seeing(self.path, commit)
        if seen is None:
            return
        if self.query is None:
            yield self._event(seen)
        else:
            yield from self._window_events(self.query, commit, seen)

    def _window_events(self, query: Query, commit: Commit, seen: Seen) -> Generator[Event | None]:
        before, after = commit.before.at(self.path), commit.after.at(self.path)
        changed = children(self.path, seen)
        windows = []
        for node in (before, after):
            if changed is None or query.limit is not None:
                yield from arranging(node, query.order)
            windows.append((yield from gathering(query.visible(node, changed))))
        shown, now = windows
        for key in shown:
            if key not in now:
                yield _put(f"/{key}", EMPTY)
        for number, key in enumerate(now):
            if number % STEP == 0:
                yield None
            child = after.child(key)
            if key in shown and (yield from comparing(before.child(key), child)):
                continue
            if commit.patch and key in shown and _is_within(commit.path, (*self.path, key)):
                yield self._event(merged(commit.path, commit.changes, commit.after))
            else:
                yield _put(f"/{key}", child)

    def _event(self, seen: Seen) -> Event:
        shown = "/" + "/".join(seen.path[len(self.path) :])
        if isinstance(seen, Put):
            return _put(shown, seen.node)
        nodes: Iterable[tuple[str, Node]] = (("/".join(path), node) for path, node in seen.nodes.items())
        if are_large(seen.nodes.values()):
            return Event("patch", shown, writing_all(nodes, _FORM))
        return Event("patch", shown, {path: render(node) for path, node in nodes})


def _put(shown: str, node: Node) -> Event:
    return Event("put", shown, writing(node, _FORM) if is_large(node) else render(node))
