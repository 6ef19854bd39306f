"""A store in memory that keeps the database's promises: compare and swap by ETag, and its own clock."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import deque
from collections.abc import Callable

from firecron.base.clocks import Deadline
from firecron.errors import Unavailable
from firecron.store import NULL_ETAG, ONE_MORE, SERVER_TIME, Snapshot, order_of


class MemoryStore:
    """A store in memory. `get` and `set` do what an operator does in the Firebase console.

    As in the database, all nodes are one tree, `{".sv": "timestamp"}` becomes the server's time,
    `{".sv": {"increment": 1}}` the next number, and None and empty nodes aren't stored.

    Args:
        now: Returns the server's time in milliseconds, such as `clock.now` of a `FakeClock`.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._root: dict[str, object] = {}
        # Makes what a watch waits on. A simulation has its own.
        self.condition: Callable[[], threading.Condition] = threading.Condition
        self._watches: dict[MemoryWatch, None] = {}

    @property
    def name(self) -> str:
        return type(self).__name__

    def connect(self) -> None:
        """Do nothing: the store needs no connection."""

    def close(self) -> None:
        """Do nothing: the store has no connection."""

    def watch(self, path: str, deadline: Deadline) -> MemoryWatch:
        """Open a stream of the node's values: its present one, and its new one after each change.

        Args:
            path: The path of the node, such as `cron-locks/send-digest`.
            deadline: Has no effect: the first value is there at once.
        """
        with self._lock:
            watch = MemoryWatch(path, self._snapshot(path).node, self.condition(), self._forget)
            self._watches[watch] = None
        return watch

    def read(self, path: str, deadline: Deadline) -> Snapshot:
        with self._lock:
            return self._snapshot(path)

    def swap(self, path: str, etag: str, node: dict[str, object] | None, deadline: Deadline) -> str | Snapshot:
        with self._lock:
            current = self._snapshot(path)
            if current.etag != etag:
                return current
            self._put(path, node)
            self._notify()
            return self._snapshot(path).etag

    def timestamp(self, path: str, deadline: Deadline) -> int:
        now = self._now()
        self.set(path, now)
        return now

    def merge(
        self, path: str, values: dict[str, object], deadline: Deadline, *, echo: bool = True
    ) -> dict[str, object]:
        with self._lock:
            stored: dict[str, object] = {}
            for key, value in values.items():
                below = f"{path}/{key}" if path else key
                stored[key] = self._raised(below) if value == ONE_MORE else self._stored(value)
                self._put(below, stored[key])
            self._notify()
        return stored

    def keys(self, path: str, deadline: Deadline) -> list[str]:
        node = self.get(path)
        return sorted(node) if isinstance(node, dict) else []

    def newest(self, path: str, deadline: Deadline) -> tuple[str, object] | None:
        node = self.get(path)
        return max(node.items(), key=lambda child: child[0], default=None) if isinstance(node, dict) else None

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
        found = self.get(path)
        children = sorted(found.items()) if isinstance(found, dict) else []
        if order_by == "$key":
            return [child for child in children if start is None or child[0] >= str(start)][:most]
        first = start if isinstance(start, tuple) else (None if isinstance(start, str) else start, "")
        placed = sorted((order_of(child[0], child[1], order_by), child) for child in children)
        low = (2 if isinstance(start, str) else 0, 0.0, "") if first[0] is None else (1, float(first[0]), first[1])
        high = (3, 0.0, "") if end is None else (1, float(end), chr(0x10FFFF))
        return [child for place, child in placed if low <= place <= high][:most]

    def after_fork(self) -> None:
        self._lock = threading.Lock()
        self._watches = {}

    def get(self, path: str) -> object:
        """Return the node at the path as JSON values.

        Args:
            path: The path of the node, such as `cron-locks/send-digest`.
        """
        with self._lock:
            return self._snapshot(path).node

    def set(self, path: str, node: object) -> None:
        """Store a node, and replace what is there.

        Args:
            path: The path of the node, such as `cron-locks/send-digest`.
            node: The value of the node; None deletes the node.
        """
        with self._lock:
            self._put(path, node)
            self._notify()

    def _notify(self) -> None:
        for watch in self._watches:
            watch.push(self._snapshot(watch.path).node)

    def _forget(self, watch: MemoryWatch) -> None:
        with self._lock:
            self._watches.pop(watch, None)

    def _put(self, path: str, node: object) -> None:
        *above, name = path.split("/")
        parents = [self._root]
        for key in above:
            below = parents[-1].get(key)
            if not isinstance(below, dict):
                below = parents[-1][key] = {}
            parents.append(below)
        stored = self._stored(node)
        if stored is None:
            parents[-1].pop(name, None)
        else:
            parents[-1][name] = stored
        for parent, child, key in zip(parents[-2::-1], parents[:0:-1], reversed(above), strict=True):
            if not child:
                del parent[key]

    def _raised(self, path: str) -> int | float:
        number = self._snapshot(path).node
        return number + 1 if isinstance(number, int | float) and not isinstance(number, bool) else 1

    def _stored(self, node: object) -> object:
        if node == SERVER_TIME:
            return self._now()
        if isinstance(node, dict):
            children = {key: self._stored(child) for key, child in node.items()}
            return {key: child for key, child in children.items() if child is not None} or None
        return None if node == [] else node

    def _snapshot(self, path: str) -> Snapshot:
        node: object = self._root
        for key in path.split("/"):
            node = node.get(key) if isinstance(node, dict) else None
        if node is None:
            return Snapshot(NULL_ETAG, None)
        text = json.dumps(node, sort_keys=True)
        return Snapshot(hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest(), json.loads(text))


class MemoryWatch:
    """A stream of a node's values, made by `MemoryStore.watch`. It ends only by `close`."""

    def __init__(
        self, path: str, node: object, changed: threading.Condition, forget: Callable[[MemoryWatch], None]
    ) -> None:
        self.path = path
        self._last = node
        self._values = deque([node])
        self._forget = forget
        self._is_closed = False
        self._changed = changed

    def next(self) -> object:
        """Wait for the next value of the node and return it. Raise Unavailable once the watch is closed."""
        with self._changed:
            while not self._values and not self._is_closed:
                self._changed.wait()
            if self._is_closed:
                raise Unavailable(f"the watch of {self.path} is closed")
            return self._values.popleft()

    def close(self) -> None:
        """End the stream, from any thread."""
        self._forget(self)
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def push(self, node: object) -> None:
        """Pass a value on, if it is another one than before."""
        with self._changed:
            if node != self._last:
                self._last = node
                self._values.append(node)
                self._changed.notify_all()
