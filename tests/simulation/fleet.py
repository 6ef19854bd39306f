"""A fleet in virtual time: one store with the server's clock, and instances whose own clocks and networks are scripted.

The keepers' threads are asleep: a test lets them work with `renew`, when it wants.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Literal, TypeAlias, TypeVar

from firecron import Lease, LockService, Refusal
from firecron.base.clocks import Deadline, TimedLock
from firecron.base.events import Event, Events
from firecron.settings import load
from firecron.store import Snapshot
from firecron.testing import FakeTiming, MemoryStore

START = 1_794_992_400_000.0

Method: TypeAlias = Literal["read", "swap", "timestamp"]
Script: TypeAlias = Callable[[], object]
T = TypeVar("T")


def nothing() -> None:
    """Nothing happens."""


def failing(error: Exception) -> Script:
    """The call fails with this."""

    def fail() -> None:
        raise error

    return fail


class Watched:
    """A lock that says when somebody asks for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked = threading.Semaphore(0)

    def acquire(self, timeout: float = -1) -> bool:
        self._asked.release()
        return self._lock.acquire(timeout=timeout)

    def release(self) -> None:
        self._lock.release()

    def wait(self) -> None:
        """Return once somebody has asked for it, once for each who did."""
        assert self._asked.acquire(timeout=20), "nobody asks for the lock"


class Machine(FakeTiming):
    """An instance's clocks: they run with the world's, and sleeping lets the whole world's time pass. Locks that are
    waited for are from `make_lock`.
    """

    def __init__(self, world: FakeTiming, wall_error: float = 0.0) -> None:
        super().__init__(wall=START + wall_error * 1000, base=world.mono)
        self._world = world
        self.pauses: list[float] = []
        self.make_lock: Callable[[], TimedLock] = threading.Lock

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        # Time is moved in whole nanoseconds; a shorter pause is a pause too.
        self._world.advance(max(seconds, 1e-9))

    def lock(self) -> TimedLock:
        return self.make_lock()

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        raise AssertionError("nothing waits here: the keeper is driven by hand")


class Network:
    """One instance's way to the store: what happens before and after each call can be scripted, one call at a time."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._scripts: dict[Method, deque[tuple[Script, Script]]] = defaultdict(deque)
        self.calls: list[Method] = []
        self.allowed: list[float] = []

    def next(self, method: Method, *, before: Script = nothing, after: Script = nothing, times: int = 1) -> None:
        """Have this happen before the next calls that have no script yet reach the store, and before their replies."""
        self._scripts[method].extend([(before, after)] * times)

    def mend(self) -> None:
        """Nothing more happens."""
        self._scripts.clear()

    def read(self, path: str, deadline: Deadline) -> Snapshot:
        return self._call("read", deadline, lambda: self._store.read(path, deadline))

    def swap(self, path: str, etag: str, node: dict[str, object] | None, deadline: Deadline) -> str | Snapshot:
        return self._call("swap", deadline, lambda: self._store.swap(path, etag, node, deadline))

    def timestamp(self, path: str, deadline: Deadline) -> int:
        return self._call("timestamp", deadline, lambda: self._store.timestamp(path, deadline))

    def merge(self, path: str, values: dict[str, object], deadline: Deadline) -> object:
        return self._store.merge(path, values, deadline)

    def keys(self, path: str, deadline: Deadline) -> list[str]:
        return self._store.keys(path, deadline)

    def newest(self, path: str, deadline: Deadline) -> tuple[str, object] | None:
        return self._store.newest(path, deadline)

    @property
    def name(self) -> str:
        return self._store.name

    def connect(self) -> None:
        self._store.connect()

    def close(self) -> None:
        self._store.close()

    def after_fork(self) -> None:
        """Nothing of it is the parent's alone."""

    def _call(self, method: Method, deadline: Deadline, call: Callable[[], T]) -> T:
        self.calls.append(method)
        self.allowed.append(deadline.remaining())
        scripts = self._scripts[method]
        before, after = scripts.popleft() if scripts else (nothing, nothing)
        before()
        answer = call()
        after()
        return answer


class Instance:
    """One instance: its lock service, its clocks, its network, and what it said."""

    def __init__(self, fleet: Fleet, wall_error: float, settings: dict[str, object]) -> None:
        self.timing = Machine(fleet.time, wall_error)
        self.network = Network(fleet.store)
        self.locks = LockService(settings=load(**settings), store=self.network, timing=self.timing)
        self.events: list[Event] = []
        self.locks.events.subscribe(self.events.append)

    def acquire(self, name: str = "job", ttl: float = 60, **wishes: bool) -> Lease:
        """The lock; it is a failure of the test not to get it."""
        lease = self.locks.acquire(name, ttl, **wishes)
        assert isinstance(lease, Lease), lease
        return lease

    def refused(self, name: str = "job", ttl: float = 60) -> Refusal:
        """Why not; it is a failure of the test to get the lock."""
        refusal = self.locks.acquire(name, ttl)
        assert isinstance(refusal, Refusal), refusal
        return refusal

    def keep(self, name: str = "job", ttl: float = 60) -> Lease:
        """The lock, kept by the keeper as in `hold`."""
        lease = self.locks.contender.try_once(self.locks.contender.bid(name, ttl, renews=True))
        assert isinstance(lease, Lease), lease
        return lease

    def renew(self) -> float | None:
        """Let the keeper do what is due."""
        return self.locks.contender.keeper.work()

    def outlive(self) -> None:
        """Let time pass, and the keeper do what is due, until it keeps nothing any more."""
        for _ in range(1_000):
            due = self.renew()
            if due is None:
                return
            # A nanosecond more: time is moved in whole ones.
            self.timing.sleep(max(0.0, due - self.timing.mono()) / 1000 + 1e-9)
        raise AssertionError("the keeper is always busy")

    def slugs(self) -> list[str]:
        return [event.slug for event in self.events]


class Fleet:
    """Instances that share a store and a time."""

    def __init__(self) -> None:
        self.time = FakeTiming(wall=START)
        self.store = MemoryStore(self.time.now)

    def instance(self, *, wall_error: float = 0.0, **settings: object) -> Instance:
        """One more instance; its wall clock is wrong by so many seconds."""
        return Instance(self, wall_error, settings)

    def node(self, name: str = "job") -> dict[str, object] | None:
        found = self.store.get(f"cron-locks/{name}")
        assert found is None or isinstance(found, dict)
        return found

    def put(self, node: object, name: str = "job") -> None:
        """What an operator does at the console."""
        self.store.set(f"cron-locks/{name}", node)

    def edit(self, name: str = "job", **fields: object) -> None:
        """What an operator types into some fields."""
        self.put({**(self.node(name) or {}), **fields}, name)


def recorded(events: Events) -> list[Event]:
    """All events from now on."""
    heard: list[Event] = []
    events.subscribe(heard.append)
    return heard


def broken_listener(event: Event) -> None:
    """A listener with a bug."""
    raise ValueError(event.slug)
