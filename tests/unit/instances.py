"""A fleet of schedulers in virtual time, on one thread: what threads would do happens when its time has come.

Whoever waits or sleeps lets the world's time pass, and so the other instances tick, renew and run in between, inside
of that wait. What can't be told so is a wait that another instance's *later* line would end: there, hold a lock with
`Instance.hold` and release it by `World.at`.
"""

from __future__ import annotations

import atexit
import heapq
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from math import ceil
from typing import Literal, TypeAlias, TypeVar

import pytest

from firecron import FireCron, Run, distributed_cron
from firecron.claiming import Claimed
from firecron.conversation import Snapshot
from firecron.errors import Denied, Unavailable
from firecron.events import Event
from firecron.explorer import Job
from firecron.instants import to_milliseconds, to_text
from firecron.lease import Lease
from firecron.lock import Refusal
from firecron.runner import Result
from firecron.settings import load
from firecron.testing import FakeTiming, MemoryStore
from firecron.timing import Deadline

NINE = "2026-11-18T09:00:00Z"
START = to_milliseconds(NINE)
NAME = "job"
NEVER = float("inf")

Method: TypeAlias = Literal["read", "swap", "timestamp", "merge", "keys"]
T = TypeVar("T")


def slot(seconds: float = 0) -> str:
    """The tick so many seconds after nine."""
    return to_text(round(START + seconds * 1000))


class World(FakeTiming):
    """The time, the database, and all that is to happen. Zero is nine o'clock."""

    def __init__(self) -> None:
        super().__init__(wall=float(START))
        self.store = MemoryStore(self.now)
        self._numbers = count()
        self._to_come: list[tuple[float, int, Callable[[], object]]] = []
        self._machines: list[Instance] = []
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
        target = self.mono() + seconds * 1000
        while self.step(target):
            self.check()
        self.check()

    def step(self, target: float) -> bool:
        """Let the next thing happen, if it comes by then; else it is then."""
        call_at = self._to_come[0][0] if self._to_come else NEVER
        due, _, instance = min((one.due, number, one) for number, one in enumerate(self._machines))
        if min(due, call_at) > target:
            self._move(target)
            return False
        self._move(min(due, call_at))
        if call_at <= due:
            heapq.heappop(self._to_come)[2]()
        else:
            instance.work()
        return True

    def check(self) -> None:
        """Raise what a body's own assertions raised: as a job's error it would go unheard."""
        if self.failure is not None:
            raise self.failure

    def _move(self, mono: float) -> None:
        if mono > self.mono():
            super().advance((mono - self.mono()) / 1000)

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

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        # To the next thing that happens: it may be what is waited for.
        assert seconds is not None, "nothing waits without a limit here"
        self._world.step(self._world.mono() + seconds * 1000)


class Network:
    """One instance's way to the store: it can be down, lose replies, or be denied; `calls` are all requests."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.calls: list[tuple[Method, str]] = []
        self.is_down = False
        self.is_denied = False
        self.lost_replies = 0
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

    def after_fork(self) -> None:
        """Nothing of it is the parent's alone."""

    def requests(self, below: str = "") -> list[Method]:
        """The requests since the last call, for paths that begin so."""
        calls, self.calls = self.calls, []
        return [method for method, path in calls if path.startswith(below)]

    def _call(self, method: Method, path: str, call: Callable[[], T]) -> T:
        self.calls.append((method, path))
        self.before(method, path)
        if self.is_down:
            raise Unavailable("the network is down")
        if self.is_denied:
            raise Denied("no")
        answer = call()
        if method == "swap" and self.lost_replies:
            self.lost_replies -= 1
            raise Unavailable("the reply was lost")
        return answer


class Crew:
    """Does what it is given as the next thing that happens."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.is_dead = False

    def submit(self, work: Callable[[], object]) -> None:
        self._world.soon(lambda: None if self.is_dead else work())

    def after_fork(self) -> None:
        """Nothing of it is a thread's."""


class Instance:
    """One instance. It ticks once it is started; its leases are renewed as long as it lives."""

    def __init__(self, world: World, *providers: object, wall_error: float = 0.0, **settings: object) -> None:
        self.world = world
        self.network = Network(world.store)
        self.timing = Clock(world, wall_error)
        self._crew = Crew(world)
        self.crons = FireCron(
            *providers,
            settings=load(**settings),
            enabled=True,
            store=self.network,
            timing=self.timing,
            crew=self._crew,
            has_threads=False,
        )
        self.runner = self.crons._runner
        self.locks = self.crons.locks
        self.events: list[Event] = []
        self.crons.events.subscribe(self.events.append)
        self._is_ticking = False
        self._is_alive = True
        self._due = 0.0
        self._busy: set[str] = set()
        world._machines.append(self)
        # So that a test's first request is one about a lock.
        self.locks.clock.now(Deadline.after(self.timing, 10))
        self.network.requests()

    @property
    def due(self) -> float:
        """When it has something to do, on the world's clock."""
        if not self._is_alive:
            return NEVER
        return min(self._ticks_due, self._renewal_due)

    @property
    def _ticks_due(self) -> float:
        if not self._is_ticking or "ticker" in self._busy:
            return NEVER
        now = self.world.mono()
        return now if self.crons._ticker._has_news else max(self._due, now)

    @property
    def _renewal_due(self) -> float:
        if "keeper" in self._busy:
            return NEVER
        due = min((kept.due for kept in self.locks.keeper._kept.values()), default=NEVER)
        return max(_rounded_up(due), self.world.mono())

    def work(self) -> None:
        """What its threads would do now: each of them one thing at a time."""
        if self._renewal_due <= self.world.mono():
            with self._at_work("keeper"):
                self.locks.keeper.work()
        else:
            with self._at_work("ticker"):
                self.crons._ticker._has_news = False
                wait = min(self.crons._heartbeat.work_if_due(), self.crons._ticker.work())
                self._due = _rounded_up(self.world.mono() + wait * 1000)

    @contextmanager
    def _at_work(self, thread: str) -> Iterator[None]:
        self._busy.add(thread)
        try:
            yield
        finally:
            self._busy.discard(thread)

    def start(self) -> None:
        self.crons.start()
        atexit.unregister(self.crons.stop)
        self._is_ticking = True
        self._due = self.world.mono()

    def freeze(self, seconds: float) -> None:
        """Do nothing for so long: neither ticks nor renewals."""
        self._is_alive = False
        self.world.at(self.world.mono() / 1000 + seconds, self._wake)

    def crash(self) -> None:
        """Do nothing any more."""
        self._is_alive = False
        self._crew.is_dead = True

    def _wake(self) -> None:
        self._is_alive = True

    def job(self, name: str = NAME) -> Job:
        return self.crons.registry.get(name)

    def turn(self, due: str | None, name: str = NAME) -> list[Result]:
        """One turn, now."""
        results = self.runner.take_turn(self.job(name), due)
        self.world.check()
        return results

    def hold(self, due: str | None, name: str = NAME) -> Lease:
        """Claim as a run does that then goes on and on: its lease, renewed as long as the instance lives."""
        claimed = self.runner._claimer.claim(self.job(name), due, "schedule")
        assert isinstance(claimed, Claimed), claimed
        assert claimed.claim is not None
        self.runner._bookkeeper.note(self.job(name), claimed.held, claimed.claim)
        return self.locks.lease(claimed.bid, claimed.held)

    def die_holding(self, due: str | None, name: str = NAME) -> None:
        """Claim, and be killed."""
        self.hold(due, name)
        self.crash()

    def slugs(self, *beginnings: str) -> list[str]:
        """What it said, as far as it begins with one of these."""
        return [event.slug for event in self.events if event.slug.startswith(beginnings or "")]

    def said(self, slug: str) -> list[Event]:
        return [event for event in self.events if event.slug == slug]


def _rounded_up(due: float) -> float:
    """To the microsecond: time is moved in whole nanoseconds, and must not stop just before."""
    return due if due == NEVER else ceil(due * 1000) / 1000


def refusal_of(results: list[Result]) -> Refusal:
    """The one refusal that came of a turn."""
    (result,) = results
    assert result.refusal is not None, result
    return result.refusal


class Fleet:
    """Instances with the same job; `body` is what it does, `runs` are all that were begun."""

    def __init__(self, line: str = "* * * * *", **options: object) -> None:
        self.world = World()
        self.body: Callable[[Run], object] = lambda run: None
        self.runs: list[Run] = []
        self._line = line
        self._options: dict[str, object] = {"lock_ttl": 30, **options}

    def instance(
        self,
        line: str | None = None,
        *,
        options: dict[str, object] | None = None,
        wall_error: float = 0.0,
        **settings: object,
    ) -> Instance:
        """One more instance; its job's line or options may be others."""

        @distributed_cron(NAME, line or self._line, **{**self._options, **(options or {})})  # type: ignore[arg-type]
        def work(run: Run) -> None:
            self.runs.append(run)
            try:
                self.body(run)
            except (AssertionError, pytest.fail.Exception) as error:
                self.world.failure = error
                raise

        return Instance(self.world, work, wall_error=wall_error, **settings)

    def slots(self) -> list[str | None]:
        """The slots of all runs that were begun, in their order."""
        return [None if run.slot is None else to_text(round(run.slot.timestamp() * 1000)) for run in self.runs]
