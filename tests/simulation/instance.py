"""One instance in a world: its locks, its jobs, its clock, its network, and what it said."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Self
from weakref import WeakSet

from tests.simulation.chance import Chance
from tests.simulation.network import Network
from tests.simulation.tasks import Crew, Task
from tests.simulation.world import NAME, NEVER, Clock, World

from firecron import FireCron
from firecron.base.clocks import Deadline
from firecron.base.events import Event
from firecron.jobs.job import Job
from firecron.jobs.registry import Result
from firecron.lock.blocks import keep, try_once
from firecron.lock.lease import Lease
from firecron.lock.refusal import Refusal
from firecron.runs.claimer import Claimed
from firecron.runs.lane import Attempt, Lane
from firecron.scheduler.engine import Engine
from firecron.settings import load


class Instance:
    """A whole FireCron without threads. The test does by hand what they would do, with `renew` and `turn`.

    Once it is `live`, the world does it: leases are renewed when they are due, and after `start` the instance ticks.
    A run that goes on while others wait for its end holds its lock with `hold`, and releases it by `World.at`. An
    instance that `hears` has streams; their threads are tasks.
    """

    def __init__(
        self, world: World, *providers: object, wall_error: float = 0.0, hears: bool = False, **settings: object
    ) -> None:
        self.world = world
        self.network = Network(world.store)
        self.timing = Clock(world, wall_error)
        self.crew = Crew(world)
        self.chance = Chance()
        self.crons = FireCron(
            *providers,
            settings=load(**settings),
            enabled=True,
            store=self.network,
            timing=self.timing,
            crew=self.crew,
            has_threads=False,
            chance=self.chance,
        )
        # Tests count seconds: every beat comes a whole period after the one before.
        self.crons.engine.heartbeat.chance = lambda: 1.0
        self.runner = self.crons.engine.runner
        self.locks = self.crons.locks
        if hears:
            self.locks.database.streams.begin = lambda run: Task(world, run).begin()
        self.events: list[Event] = []
        self.crons.events.subscribe(self.events.append)
        self.is_ticking = False
        self._is_alive = True
        self._due = 0.0
        self._busy: set[str] = set()

    def live(self) -> Self:
        """From now on what is due is done as the world's time passes. It has asked for the time already, so a test's
        first request is one about a lock.
        """
        self.world.machines.append(self)
        self.locks.clock.now(Deadline.after(self.timing, 10))
        self.network.requests()
        return self

    # --- what the world does

    @property
    def due(self) -> float:
        """When it has something to do, on the world's clock."""
        if not self._is_alive:
            return NEVER
        return min(self._ticks_due, self._renewal_due)

    @property
    def _ticks_due(self) -> float:
        if not self.is_ticking or "ticker" in self._busy:
            return NEVER
        now = self.world.mono()
        return now if self.crons.engine.ticker.has_news else max(self._due, now)

    @property
    def _renewal_due(self) -> float:
        if "keeper" in self._busy:
            return NEVER
        due = self.locks.database.keeper.due
        return NEVER if due is None else max(due, self.world.mono())

    def work(self) -> None:
        """What its threads would do now: each of them one thing at a time."""
        if self._renewal_due <= self.world.mono():
            Task(self.world, self._renew).begin()
        elif self._ticks_due <= self.world.mono():
            Task(self.world, self._tick).begin()

    def _renew(self) -> None:
        with self._at_work("keeper"):
            self.locks.database.keeper.work()

    def _tick(self) -> None:
        with self._at_work("ticker"):
            wait = min(self.crons.engine.heartbeat.work_if_due(), self.crons.engine.ticker.work())
            self._due = self.world.mono() + wait * 1000

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
        self.is_ticking = True
        self._due = self.world.mono()
        self.world.advance(0)

    def freeze(self, seconds: float) -> None:
        """Do nothing for so long: neither ticks nor renewals."""
        self._is_alive = False
        self.world.at(self.world.mono() / 1000 + seconds, self._wake)

    def crash(self) -> None:
        """Do nothing any more."""
        self._is_alive = False
        self.crew.is_dead = True

    def _wake(self) -> None:
        self._is_alive = True

    # --- locks

    def acquire(self, name: str = NAME, ttl: float = 60, **wishes: bool) -> Lease:
        """The lock; it is a failure of the test not to get it."""
        lease = self.locks.acquire(name, ttl, **wishes)
        assert isinstance(lease, Lease), lease
        return lease

    def refused(self, name: str = NAME, ttl: float = 60) -> Refusal:
        """Why not; it is a failure of the test to get the lock."""
        refusal = self.locks.acquire(name, ttl)
        assert isinstance(refusal, Refusal), refusal
        return refusal

    def keep(self, name: str = NAME, ttl: float = 60) -> Lease:
        """The lock, kept by the keeper as in `hold`."""
        lease = try_once(self.locks.database, self.locks.database.bid(name, ttl, renews=True))
        assert isinstance(lease, Lease), lease
        return lease

    def renew(self) -> float | None:
        """Let the keeper do what is due."""
        return self.locks.database.keeper.work()

    def outlive(self) -> None:
        """Let time pass, and the keeper do what is due, until it keeps nothing any more."""
        for _ in range(1_000):
            due = self.renew()
            if due is None:
                return
            # A nanosecond more: time is moved in whole ones.
            self.timing.sleep(max(0.0, due - self.timing.mono()) / 1000 + 1e-9)
        raise AssertionError("the keeper is always busy")

    # --- runs

    def job(self, name: str = NAME) -> Job:
        return self.crons.registry.get(name)

    def attempt(
        self,
        due: str | None,
        name: str = NAME,
        *,
        is_later: bool = False,
        looks_back: bool = False,
        insists: bool = False,
    ) -> Attempt:
        """An attempt at the tick that has not come to its lane yet."""
        return self.crons.engine.lanes.attempt(
            self.job(name), due, is_later=is_later, looks_back=looks_back, insists=insists
        )

    def turn(self, due: str | None, name: str = NAME) -> list[Result]:
        """One turn, now."""
        turn = self.attempt(due, name)
        while (delay := self.go_on(turn)) is not None:
            self.timing.sleep(delay)
        self.world.check()
        return turn.results

    def go_on(self, attempt: Attempt) -> float | None:
        """What a worker does that is here already, as the attempt comes or as its next try does."""
        return go_on(self.crons.engine, attempt)

    def claim(self, due: str | None, name: str = NAME) -> object:
        """Try once to claim, and no more."""
        claimer = self.crons.engine.claimer
        return claimer.claim(claimer.prepare(self.attempt(due, name)))

    def hold(self, due: str | None, name: str = NAME) -> Lease:
        """Claim as a run does that then goes on and on: its lease, renewed as long as the instance lives."""
        claimed = self.claim(due, name)
        assert isinstance(claimed, Claimed), claimed
        assert claimed.claim is not None
        self.crons.history.record_passed_over(self.job(name), claimed.held, claimed.claim)
        return keep(self.locks.database, claimed.bid, claimed.held)

    def die_holding(self, due: str | None, name: str = NAME) -> None:
        """Claim, and be killed."""
        self.hold(due, name)
        self.crash()

    # --- what it said

    def slugs(self, *beginnings: str) -> list[str]:
        """The slugs of its events, as far as they begin with one of these."""
        return [event.slug for event in self.events if event.slug.startswith(beginnings or "")]

    def said(self, slug: str) -> list[Event]:
        """Its events with this slug."""
        return [event for event in self.events if event.slug == slug]


_COME: WeakSet[Attempt] = WeakSet()


def go_on(engine: Engine, attempt: Attempt) -> float | None:
    """Have the attempt come to its lane, or its next try if it has come, and go on with it on this thread."""
    come(engine, attempt)
    return engine.runner.go_on(attempt)


def come(engine: Engine, attempt: Attempt) -> None:
    """Have the attempt come to its lane, or its next try if it has come. No worker is called for it."""
    lanes, submit = engine.lanes, engine.crew.submit

    def submit_others(work: Callable[[], object]) -> None:
        if not isinstance(work, partial) or work.args != (attempt,):
            submit(work)

    vars(engine.crew)["submit"] = submit_others
    try:
        if attempt in _COME:
            lanes.play(Lane.recall, attempt, attempt.plan)
        else:
            _COME.add(attempt)
            lanes.stand(attempt)
    finally:
        del vars(engine.crew)["submit"]
