"""Virtual time for a fleet: what threads would do happens when its time has come, one thing at a time.

A test that waits lets the world's time pass, and all else happens in between. What a crew is given is a task: a thread
that runs while all others stand still, and hands over whenever it waits. So several bodies, and several requests, can
be under way at once, and the order is the same in each run of a test.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from itertools import count
from typing import Literal, Protocol, TypeAlias, TypeVar

from firecron.base.clocks import Deadline
from firecron.base.instants import to_milliseconds, to_text
from firecron.errors import Denied, Unavailable
from firecron.store import Snapshot
from firecron.testing import FakeTiming, MemoryStore

NINE = "2026-11-18T09:00:00Z"
START = to_milliseconds(NINE)
NAME = "job"
NEVER = float("inf")

# How often a task that waits for a condition looks.
_LOOK = 0.01

Method: TypeAlias = Literal["read", "swap", "timestamp", "merge", "keys", "newest"]
T = TypeVar("T")


def slot(seconds: float = 0) -> str:
    """The tick so many seconds after nine."""
    return to_text(round(START + seconds * 1000))


class Machine(Protocol):
    """What has something to do at some time, in milliseconds on the world's clock."""

    @property
    def due(self) -> float: ...

    def work(self) -> None: ...


class Task:
    """Work on a thread of its own, which runs only while the world stands still for it."""

    def __init__(self, world: World, work: Callable[[], object]) -> None:
        self._world = world
        self._work = work
        self._may_run = threading.Semaphore(0)
        self._has_stopped = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def begin(self) -> None:
        """Run it until it waits, or ends."""
        self._thread.start()
        self._let_run()

    def pause(self, seconds: float) -> None:
        """On the task's thread: let so much of the world's time pass."""
        self._world.at(self._world.mono() / 1000 + seconds, self._let_run)
        self._has_stopped.release()
        self._may_run.acquire()

    def _let_run(self) -> None:
        self._may_run.release()
        assert self._has_stopped.acquire(timeout=30), "a task waits for something that the world knows nothing of"

    def _run(self) -> None:
        self._may_run.acquire()
        _tasks.current = self
        try:
            self._work()
        except BaseException as error:
            self._world.failure = error
        finally:
            self._has_stopped.release()


class TaskLock:
    """A lock whose waiting lets the world's time pass; outside of tasks it is a lock like any other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        task = current_task()
        if task is None or not blocking:
            return self._lock.acquire(blocking, timeout)
        waited = 0.0
        while not self._lock.acquire(blocking=False):
            if 0 <= timeout <= waited:
                return False
            task.pause(_LOOK)
            waited += _LOOK
        return True

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


_tasks = threading.local()


def current_task() -> Task | None:
    """The task that this code is part of."""
    return getattr(_tasks, "current", None)


class World(FakeTiming):
    """The time, the database, and all that is to happen. Zero is nine o'clock."""

    def __init__(self) -> None:
        super().__init__(wall=float(START))
        self.store = MemoryStore(self.now)
        self._numbers = count()
        self._to_come: list[tuple[float, int, Callable[[], object]]] = []
        self.machines: list[Machine] = []
        self.failure: BaseException | None = None

    def at(self, seconds: float, call: Callable[[], object]) -> None:
        """Have this happen so many seconds after nine."""
        heapq.heappush(self._to_come, (seconds * 1000, next(self._numbers), call))

    def soon(self, call: Callable[[], object]) -> None:
        """Have this happen next."""
        self.at(self.mono() / 1000, call)

    def until(self, seconds: float) -> None:
        """Let time pass until so many seconds after nine."""
        self.advance(seconds - self.mono() / 1000)

    def advance(self, seconds: float) -> None:
        task = current_task()
        if task is not None:
            task.pause(max(seconds, 0.0))
            return
        target = self.mono() + seconds * 1000
        while self.step(target):
            self.check()
        self.check()

    def step(self, target: float) -> bool:
        """Let the next thing happen, if it comes by then; else it is then."""
        call_at = self._to_come[0][0] if self._to_come else NEVER
        due, _, instance = min(
            ((one.due, number, one) for number, one in enumerate(self.machines)), default=(NEVER, 0, None)
        )
        if min(due, call_at) > target:
            self._move(target)
            return False
        self._move(min(due, call_at))
        if call_at <= due:
            heapq.heappop(self._to_come)[2]()
        elif instance is not None:
            instance.work()
        return True

    def check(self) -> None:
        """Raise what a body's own assertions raised: as a job's error it would go unheard."""
        if self.failure is not None:
            raise self.failure

    def _move(self, mono: float) -> None:
        # Exactly: whoever is due then must find that it is then.
        self._ahead = max(self._ahead, mono)

    def node(self, name: str = NAME) -> dict[str, object]:
        """What the lock's node holds."""
        found = self.store.get(f"cron-locks/{name}")
        return found if isinstance(found, dict) else {}

    def put(self, node: object, name: str = NAME) -> None:
        self.store.set(f"cron-locks/{name}", node)

    def edit(self, name: str = NAME, **fields: object) -> None:
        """What an operator types into some fields."""
        self.put({**self.node(name), **fields}, name)

    def history(self, name: str = NAME) -> dict[str, dict[str, object]]:
        """What `cron-runs` holds of a job, by key."""
        keys = self.store.keys(f"cron-runs/{name}", Deadline.after(self, 1))
        entries = {key: self.store.get(f"cron-runs/{name}/{key}") for key in keys}
        return {key: entry for key, entry in entries.items() if isinstance(entry, dict)}

    def outcomes(self, name: str = NAME) -> dict[str, object]:
        return {key: entry["outcome"] for key, entry in self.history(name).items()}


class Clock(FakeTiming):
    """An instance's clocks: they run with the world's, and whoever waits on them lets the whole world's time pass."""

    def __init__(self, world: World, wall_error: float) -> None:
        super().__init__(wall=START + wall_error * 1000, base=world.mono)
        self._world = world

    def mono(self) -> float:
        super().mono()
        return self._world.mono()

    def sleep(self, seconds: float) -> None:
        self._world.advance(seconds)

    def lock(self) -> TaskLock:
        return TaskLock()

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        # To the next thing that happens: it may be what is waited for.
        assert seconds is not None, "nothing waits without a limit here"
        task = current_task()
        condition.release()
        try:
            if task is None:
                self._world.step(self._world.mono() + seconds * 1000)
            else:
                task.pause(min(seconds, _LOOK))
        finally:
            condition.acquire()


class Network:
    """One instance's way to the store: it can be down, lose replies, or be denied; `calls` are all requests.

    A task's requests about locks take `latency` seconds each way.
    """

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.calls: list[tuple[Method, str]] = []
        self.is_down = False
        self.is_denied = False
        self.lost_replies = 0
        self.latency = 0.0
        self.before: Callable[[Method, str], object] = lambda method, path: None

    def read(self, path: str, deadline: Deadline) -> Snapshot:
        return self._call("read", path, lambda: self._store.read(path, deadline))

    def swap(self, path: str, etag: str, node: dict[str, object] | None, deadline: Deadline) -> str | Snapshot:
        return self._call("swap", path, lambda: self._store.swap(path, etag, node, deadline))

    def timestamp(self, path: str, deadline: Deadline) -> int:
        return self._call("timestamp", path, lambda: self._store.timestamp(path, deadline))

    def merge(self, path: str, values: dict[str, object], deadline: Deadline) -> object:
        return self._call("merge", path, lambda: self._store.merge(path, values, deadline))

    def keys(self, path: str, deadline: Deadline) -> list[str]:
        return self._call("keys", path, lambda: self._store.keys(path, deadline))

    def newest(self, path: str, deadline: Deadline) -> tuple[str, object] | None:
        return self._call("newest", path, lambda: self._store.newest(path, deadline))

    @property
    def name(self) -> str:
        return self._store.name

    def connect(self) -> None:
        self._store.connect()

    def close(self) -> None:
        self._store.close()

    def after_fork(self) -> None:
        """Nothing of it is the parent's alone."""

    def requests(self, below: str = "") -> list[Method]:
        """The requests since the last call, for paths that begin so."""
        calls, self.calls = self.calls, []
        return [method for method, path in calls if path.startswith(below)]

    def _call(self, method: Method, path: str, call: Callable[[], T]) -> T:
        self.calls.append((method, path))
        self._travel(path)
        self.before(method, path)
        if self.is_down:
            raise Unavailable("the network is down")
        if self.is_denied:
            raise Denied("no")
        answer = call()
        if method == "swap" and self.lost_replies:
            self.lost_replies -= 1
            raise Unavailable("the reply was lost")
        self._travel(path)
        return answer

    def _travel(self, path: str) -> None:
        task = current_task()
        if self.latency and task is not None and path.startswith("cron-locks/"):
            task.pause(self.latency)


class Crew:
    """Begins what it is given as the next thing that happens."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.is_dead = False

    def submit(self, work: Callable[[], object]) -> None:
        self._world.soon(lambda: None if self.is_dead else Task(self._world, work).begin())

    def after_fork(self) -> None:
        """Nothing of it is a thread's."""
