"""Loops that stand for a leader, each a task of an instance in a world."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.instance import Instance
from tests.simulation.tasks import Task

from firecron import Term
from firecron.leaders.candidate import ActiveTerm, Candidate
from firecron.leaders.leader import Election
from firecron.leaders.loop import LeaderLoop

FEED = "price-feed"
# Milliseconds between two looks at who believes to lead.
_LOOK = 50.0


class Loop:
    """`for term in terms` on one instance, as a task of its world. `terms` are the terms it has had."""

    def __init__(self, instance: Instance, body: Callable[[Term], object] | None = None, **options: float) -> None:
        self.instance = instance.live() if instance not in instance.world.machines else instance
        self.had: list[Term] = []
        self.has_ended = False
        self.error: BaseException | None = None
        self.terms: LeaderLoop = instance.locks.lead(FEED, **options)
        self._body = body or self.until_told
        Task(instance.world, self._lead).begin()

    @property
    def term(self) -> Term:
        """The last term."""
        return self.had[-1]

    def until_told(self, term: Term) -> None:
        """A body that goes on until its term is over, or is to end."""
        while not (term.lost or term.stopping):
            self.instance.timing.sleep(0.1)

    def _lead(self) -> None:
        try:
            with self.terms:
                for term in self.terms:
                    self.had.append(term)
                    self._body(term)
        except Exception as error:
            self.error = error
        finally:
            self.has_ended = True


class Stander:
    """A candidate of one instance with its loop, as a task of its world. `fences` are those of its terms.

    `body` is called with each term, and goes on until its term is over or to end, unless the test gives another one.
    """

    def __init__(
        self, instance: Instance, body: Callable[[ActiveTerm], object] | None = None, ttl: int = 15_000
    ) -> None:
        self.instance = instance.live() if instance not in instance.world.machines else instance
        self.candidate: Candidate = Candidate(instance.locks.database, Election(FEED, ttl, 1_000))
        self.elected: list[float] = []
        self.fences: list[int] = []
        self._body = body or self.until_told
        Task(instance.world, self._stand).begin()

    def until_told(self, active: ActiveTerm) -> None:
        while not (active.term.lost or active.term.stopping):
            self.instance.timing.sleep(0.1)

    def _wait(self, pause: float) -> None:
        """Wait as a leader's thread does. Who hears nothing looks seldom, because each look is a switch of tasks."""
        if self.instance.locks.database.streams.can_watch:
            self.candidate.wait(pause)
        else:
            self.instance.timing.sleep(min(pause, 0.1))

    def _stand(self) -> None:
        while (pause := self.candidate.due_in()) is not None:
            if pause:
                self._wait(pause)
            elif (active := self.candidate.stand()) is not None:
                self.elected.append(self.instance.world.mono() / 1000)
                self.fences.append(active.term.fence)
                error: Exception | None = None
                try:
                    self._body(active)
                except Exception as raised:
                    error = raised
                self.candidate.end(active, error)


class Believers:
    """Looks again and again at which of these candidates believe that they lead. `most` is the most at one instant."""

    def __init__(self, *standers: Stander) -> None:
        self._standers = standers
        self._world = standers[0].instance.world
        self.due = self._world.mono()
        self.most = 0
        self.looks_with_one = 0
        self._world.machines.append(self)

    def work(self) -> None:
        self.due += _LOOK
        number = sum(stander.candidate.is_mine for stander in self._standers)
        self.most = max(self.most, number)
        self.looks_with_one += number == 1
