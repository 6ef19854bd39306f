"""A fleet of schedulers in virtual time, on one thread (see `world`).

Where a run has to go on while others wait for its end, hold its lock with `Instance.hold` and release it by `World.at`.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import firebase_admin
import pytest
from tests.simulation.chance import Chance
from tests.simulation.world import NAME, NEVER, Clock, Crew, Network, Task, World

from firecron import FireCron, Run, distributed_cron
from firecron.base.clocks import Deadline
from firecron.base.events import Event
from firecron.base.instants import to_text
from firecron.jobs.job import Job
from firecron.jobs.result import Result
from firecron.lock.lease import Lease
from firecron.lock.refusal import Refusal
from firecron.runs.claimer import Claimed
from firecron.runs.turn import WantedClaim
from firecron.settings import load


class Instance:
    """One instance. It ticks once it is started; its leases are renewed as long as it lives."""

    def __init__(self, world: World, *providers: object, wall_error: float = 0.0, **settings: object) -> None:
        self.world = world
        self.network = Network(world.store)
        self.timing = Clock(world, wall_error)
        self._crew = Crew(world)
        self.chance = Chance()
        self.crons = FireCron(
            *providers,
            settings=load(**settings),
            enabled=True,
            store=self.network,
            timing=self.timing,
            crew=self._crew,
            has_threads=False,
            chance=self.chance,
        )
        self.runner = self.crons.engine.runner
        self.locks = self.crons.locks
        self.events: list[Event] = []
        self.crons.events.subscribe(self.events.append)
        self._is_ticking = False
        self._is_alive = True
        self._due = 0.0
        self._busy: set[str] = set()
        world.machines.append(self)
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
        return now if self.crons.engine.ticker.has_news else max(self._due, now)

    @property
    def _renewal_due(self) -> float:
        if "keeper" in self._busy:
            return NEVER
        due = self.locks.contender.keeper.due
        return NEVER if due is None else max(due, self.world.mono())

    def work(self) -> None:
        """What its threads would do now: each of them one thing at a time."""
        if self._renewal_due <= self.world.mono():
            Task(self.world, self._renew).begin()
        elif self._ticks_due <= self.world.mono():
            Task(self.world, self._tick).begin()

    def _renew(self) -> None:
        with self._at_work("keeper"):
            self.locks.contender.keeper.work()

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
        self._is_ticking = True
        self._due = self.world.mono()
        self.world.advance(0)

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
        turn = self.runner.turn(self.job(name), WantedClaim(due, "schedule"))
        while (delay := self.runner.go_on(turn)) is not None:
            self.timing.sleep(delay)
        self.world.check()
        return turn.results

    def claim(self, due: str | None, name: str = NAME) -> object:
        """Try once to claim, and no more."""
        claimer = self.crons.engine.claimer
        return claimer.claim(claimer.prepare(self.job(name), WantedClaim(due, "schedule")))

    def hold(self, due: str | None, name: str = NAME) -> Lease:
        """Claim as a run does that then goes on and on: its lease, renewed as long as the instance lives."""
        claimed = self.claim(due, name)
        assert isinstance(claimed, Claimed), claimed
        assert claimed.claim is not None
        self.crons.engine.bookkeeper.note(self.job(name), claimed.held, claimed.claim)
        return self.locks.contender.lease(claimed.bid, claimed.held)

    def die_holding(self, due: str | None, name: str = NAME) -> None:
        """Claim, and be killed."""
        self.hold(due, name)
        self.crash()

    def slugs(self, *beginnings: str) -> list[str]:
        """What it said, as far as it begins with one of these."""
        return [event.slug for event in self.events if event.slug.startswith(beginnings or "")]

    def said(self, slug: str) -> list[Event]:
        return [event for event in self.events if event.slug == slug]


def forget_apps() -> None:
    """Delete the Firebase apps that a test has made without asking for it: others begin with none."""
    for app in list(firebase_admin._apps.values()):
        firebase_admin.delete_app(app)


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
