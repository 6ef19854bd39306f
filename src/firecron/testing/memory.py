"""A store in memory, with the same promises as the database: compare and swap by ETag, and a clock of its own."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable

from firecron.conversation import NULL_ETAG, Snapshot
from firecron.timing import Deadline


class MemoryStore:
    """A `Store`; `now` is the server's clock in milliseconds. `get` and `set` are an operator at the console.

    As in the database, `{".sv": "timestamp"}` becomes the server's time, and nothing is nowhere: what is None or empty
    isn't stored. But a path and one below it are two nodes, that don't know of each other.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._nodes: dict[str, str] = {}

    def read(self, path: str, deadline: Deadline) -> Snapshot:
        with self._lock:
            return self._snapshot(path)

    def swap(self, path: str, etag: str, node: dict[str, object] | None, deadline: Deadline) -> str | Snapshot:
        with self._lock:
            current = self._snapshot(path)
            if current.etag != etag:
                return current
            self._put(path, node)
            return self._snapshot(path).etag

    def timestamp(self, path: str, deadline: Deadline) -> int:
        now = self._now()
        self.set(path, now)
        return now

    def merge(self, path: str, values: dict[str, object], deadline: Deadline) -> object:
        with self._lock:
            for key, value in values.items():
                self._put(f"{path}/{key}", self._now() if value == {".sv": "timestamp"} else value)
        return {key: self._now() if value == {".sv": "timestamp"} else value for key, value in values.items()}

    def keys(self, path: str, deadline: Deadline) -> list[str]:
        with self._lock:
            below = [name.removeprefix(f"{path}/") for name in self._nodes if name.startswith(f"{path}/")]
        return sorted({name.partition("/")[0] for name in below})

    def after_fork(self) -> None:
        self._lock = threading.Lock()

    def get(self, path: str) -> object:
        """What is stored at the path, as JSON would bring it."""
        with self._lock:
            return self._snapshot(path).node

    def set(self, path: str, node: object) -> None:
        """Store this (None: delete), whatever is there."""
        with self._lock:
            self._put(path, node)

    def _put(self, path: str, node: object) -> None:
        stored = self._stored(node)
        if stored is None:
            self._nodes.pop(path, None)
        else:
            self._nodes[path] = json.dumps(stored, sort_keys=True)

    def _stored(self, node: object) -> object:
        if node == {".sv": "timestamp"}:
            return self._now()
        if isinstance(node, dict):
            children = {key: self._stored(child) for key, child in node.items()}
            return {key: child for key, child in children.items() if child is not None} or None
        return None if node == [] else node

    def _snapshot(self, path: str) -> Snapshot:
        text = self._nodes.get(path)
        if text is None:
            return Snapshot(NULL_ETAG, None)
        return Snapshot(hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest(), json.loads(text))
