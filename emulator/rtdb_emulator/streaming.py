"""The events of a stream: what a commit changes at one location, or in a query's window on it.

Pure: `View.events` is a function of a commit. `http.sse` has sockets, keep-alives and permission.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rtdb_emulator.database import Commit
from rtdb_emulator.jsondata import as_array, render
from rtdb_emulator.query import Query
from rtdb_emulator.tree import EMPTY, Node, Path
from rtdb_emulator.watching import Put, Seen, is_within, merged, seen_at


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
        """Return the first event of every stream: the whole value."""
        node = root.at(self.path)
        if self.query is None or node.is_empty:
            return _put("/", node)
        return Event("put", "/", as_array({key: render(child) for key, child in self.query.select(node).items()}))

    def events(self, commit: Commit) -> list[Event]:
        """Return the events of a commit for this view; none if nothing in the view has changed."""
        seen = seen_at(self.path, commit)
        if seen is None:
            return []
        return [self._event(seen)] if self.query is None else self._window_events(self.query, commit)

    def _window_events(self, query: Query, commit: Commit) -> list[Event]:
        before = query.select(commit.before.at(self.path))
        after = query.select(commit.after.at(self.path))
        events = [_put(f"/{key}", EMPTY) for key in before if key not in after]
        for key, child in after.items():
            if key in before and before[key] == child:
                continue
            if commit.patch and key in before and is_within(commit.path, (*self.path, key)):
                events.append(self._event(merged(commit.path, commit.changes, commit.after)))
            else:
                events.append(_put(f"/{key}", child))
        return events

    def _event(self, seen: Seen) -> Event:
        shown = "/" + "/".join(seen.path[len(self.path) :])
        if isinstance(seen, Put):
            return _put(shown, seen.node)
        return Event("patch", shown, {"/".join(path): render(node) for path, node in seen.nodes.items()})


def _put(shown: str, node: Node) -> Event:
    return Event("put", shown, render(node))
