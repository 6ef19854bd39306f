"""One instance's way to the store: what becomes of its requests is scripted, for all of them or one at a time."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from typing import Literal, TypeAlias, TypeVar

from tests.simulation.tasks import current_task

from firecron.base.clocks import Deadline
from firecron.errors import Denied, Unavailable
from firecron.store import Snapshot, Watch
from firecron.testing import MemoryStore

Method: TypeAlias = Literal["read", "swap", "timestamp", "merge", "keys", "newest", "query", "watch"]
Script: TypeAlias = Callable[[], object]
T = TypeVar("T")


def nothing() -> None:
    """Nothing happens."""


def failing(error: Exception) -> Script:
    """The call fails with this."""

    def fail() -> None:
        raise error

    return fail


class Network:
    """A `Store` that hands on to another one; `calls` are all requests, `allowed` the seconds that each may take.

    `watches` are all that were opened. `before` is called before each request. While it `is_down` or `is_denied` none
    reaches the store. `next` scripts single ones. A task's requests about locks and asks take `latency` seconds a way.
    """

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._scripts: dict[Method, deque[tuple[Script, Script]]] = defaultdict(deque)
        self.calls: list[tuple[Method, str]] = []
        self.allowed: list[float] = []
        self.watches: list[Watch] = []
        self.is_down = False
        self.is_denied = False
        self.latency = 0.0
        self.before: Callable[[Method, str], object] = lambda method, path: None

    def next(self, method: Method, *, before: Script = nothing, after: Script = nothing, times: int = 1) -> None:
        """Have this happen before the next requests without a script reach the store, and before their replies."""
        self._scripts[method].extend([(before, after)] * times)

    def lose_reply(self) -> None:
        """The reply to the next write is lost, after the write was done."""
        self.next("swap", after=failing(Unavailable("the reply was lost")))

    def mend(self) -> None:
        """Drop all scripts."""
        self._scripts.clear()

    @property
    def methods(self) -> list[Method]:
        """The methods of all requests."""
        return [method for method, _ in self.calls]

    def requests(self, below: str = "") -> list[Method]:
        """The methods of the requests since the last call, for paths that begin so."""
        calls, self.calls = self.calls, []
        return [method for method, path in calls if path.startswith(below)]

    def read(self, path: str, deadline: Deadline) -> Snapshot:
        return self._call("read", path, deadline, lambda: self._store.read(path, deadline))

    def swap(self, path: str, etag: str, node: dict[str, object] | None, deadline: Deadline) -> str | Snapshot:
        return self._call("swap", path, deadline, lambda: self._store.swap(path, etag, node, deadline))

    def timestamp(self, path: str, deadline: Deadline) -> int:
        return self._call("timestamp", path, deadline, lambda: self._store.timestamp(path, deadline))

    def merge(
        self, path: str, values: dict[str, object], deadline: Deadline, *, echo: bool = True
    ) -> dict[str, object]:
        # A merge at the root is known by the first path that it writes: a heartbeat's is its own node.
        known_as = path or next(iter(values))
        return self._call("merge", known_as, deadline, lambda: self._store.merge(path, values, deadline, echo=echo))

    def keys(self, path: str, deadline: Deadline) -> list[str]:
        return self._call("keys", path, deadline, lambda: self._store.keys(path, deadline))

    def newest(self, path: str, deadline: Deadline) -> tuple[str, object] | None:
        return self._call("newest", path, deadline, lambda: self._store.newest(path, deadline))

    def query(self, path: str, order_by: str, deadline: Deadline, **bounds: object) -> list[tuple[str, object]]:
        return self._call("query", path, deadline, lambda: self._store.query(path, order_by, deadline, **bounds))  # type: ignore[arg-type]  # bounds

    def watch(self, path: str, deadline: Deadline) -> Watch:
        watch = self._call("watch", path, deadline, lambda: self._store.watch(path, deadline))
        self.watches.append(watch)
        return watch

    @property
    def name(self) -> str:
        return self._store.name

    def connect(self) -> None:
        self._store.connect()

    def close(self) -> None:
        self._store.close()

    def after_fork(self) -> None:
        """Nothing of it is the parent's alone."""

    def _call(self, method: Method, path: str, deadline: Deadline, call: Callable[[], T]) -> T:
        self.calls.append((method, path))
        self.allowed.append(deadline.remaining())
        self._travel(path)
        self.before(method, path)
        if self.is_down:
            raise Unavailable("the network is down")
        if self.is_denied:
            raise Denied("no")
        scripts = self._scripts[method]
        before, after = scripts.popleft() if scripts else (nothing, nothing)
        before()
        answer = call()
        after()
        self._travel(path)
        return answer

    def _travel(self, path: str) -> None:
        task = current_task()
        if self.latency and task is not None and path.startswith(("cron-locks/", "cron-asks")):
            task.pause(self.latency)
