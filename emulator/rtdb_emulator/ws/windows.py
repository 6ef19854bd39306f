"""The children of a node that a query shows, kept up to date child by child.

A window keeps the places of all children in the query's range in order, so a write below one child costs by that child
and by the window's own children, not by the node's other children. Pure.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection
from typing import final

from rtdb_emulator.query import Place, Query
from rtdb_emulator.tree import EMPTY, Node, Path, branch
from rtdb_emulator.watching import Merge, Put, Seen


@final
class Window:
    """The window of a query on one node."""

    __slots__ = ("_child_path", "_node", "_places", "_query")

    def __init__(self, query: Query, node: Node) -> None:
        self._query = query
        self._child_path = query.child_path
        self._start(node)

    def node(self) -> Node:
        """Return the window's children, as a node."""
        return branch({key: self._node.child(key) for key in self._shown()}, self._node.priority)

    def move(self, path: Path, seen: Seen, after: Node) -> Seen | None:
        """Follow a commit whose change `seen` is at or below `path`, where `after` is now. Return the window's change.

        Children that leave come first, because a client's full window has no room for one more.
        """
        before, size = self._node, self._size
        changed = _children(path, seen)
        old = self._visible(changed)
        if changed is None:
            self._start(after)
        else:
            self._replace(changed, after)
        new = self._visible(changed)
        gone = [key for key in old if key not in new]
        other = [
            key
            for key in new
            if key not in old or ((changed is None or key in changed) and before.child(key) != after.child(key))
        ]
        if before.priority != after.priority:
            return Put(path, self.node())
        if not gone and not other:
            return None
        # The window was empty, or all its children leave. If they left one by one, a client would drop the node itself,
        # with its priority.
        if len(gone) == size:
            return Put(path, self.node())
        news: dict[Path, Node] = dict.fromkeys([(key,) for key in gone], EMPTY)
        news.update({(key,): after.child(key) for key in other})
        if len(news) > 1:
            return Merge(path, news)
        ((key, child),) = news.items()
        return Put(path + key, child)

    @property
    def _size(self) -> int:
        size = len(self._places)
        return size if self._query.limit is None else min(size, self._query.limit)

    def _start(self, node: Node) -> None:
        self._node = node
        placed = (self._place(key, child) for key, child in node.children.items())
        self._places: list[Place] = sorted(place for place in placed if place is not None)

    def _replace(self, keys: Collection[str], after: Node) -> None:
        for key in keys:
            old, new = self._place(key, self._node.child(key)), self._place(key, after.child(key))
            if old == new:
                continue
            if old is not None:
                del self._places[bisect_left(self._places, old)]
            if new is not None:
                insort(self._places, new)
        self._node = after

    def _place(self, key: str, child: Node) -> Place | None:
        """Return the place of a child, if the child exists and is in the range."""
        if child.is_empty:
            return None
        place = self._query.place(key, child, self._child_path)
        return place if self._query.contains(place) else None

    def _visible(self, keys: Collection[str] | None) -> dict[str, None]:
        """Return the children that the window shows; without a limit, only those of `keys`, as no others change."""
        if keys is None or self._query.limit is not None:
            return dict.fromkeys(self._shown())
        return {key: None for key in keys if self._place(key, self._node.child(key)) is not None}

    def _shown(self) -> list[str]:
        limit = self._query.limit
        places = self._places
        if limit is not None:
            places = places[-limit:] if self._query.from_end else places[:limit]
        return [str(tie[-1]) for _, tie in places]


def _children(path: Path, seen: Seen) -> set[str] | None:
    """Return the children that a commit has changed; None if it has changed the node itself."""
    if len(seen.path) > len(path):
        return {seen.path[len(path)]}
    return {below[0] for below in seen.nodes} if isinstance(seen, Merge) else None
