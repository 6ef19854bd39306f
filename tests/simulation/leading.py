"""Loops that stand for a leader, each a task of an instance in a world."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.instance import Instance
from tests.simulation.tasks import Task

from firecron import Term
from firecron.lock.terms import Terms

FEED = "price-feed"


class Loop:
    """`for term in terms` on one instance, as a task of its world. `terms` are the terms it has had."""

    def __init__(self, instance: Instance, body: Callable[[Term], object] | None = None, **options: float) -> None:
        self.instance = instance.live() if instance not in instance.world.machines else instance
        self.had: list[Term] = []
        self.has_ended = False
        self.error: BaseException | None = None
        self.terms: Terms = instance.locks.lead(FEED, **options)
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
