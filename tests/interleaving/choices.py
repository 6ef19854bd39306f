"""What happens next: every possibility in turn, or one at random.

A run asks `pick` at each of its branches. Generators can't be copied, so a run is never continued from its middle: it
is played again from its beginning, with other answers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol


class Choices(Protocol):
    def pick(self, weights: Sequence[float], state: Callable[[], Hashable]) -> int:
        """Which of so many possibilities it is. `state` tells apart what can still happen from here."""


class Explored(Exception):
    """All that can happen from this state on was seen before."""

    def __init__(self, interleavings: int) -> None:
        super().__init__()
        self.interleavings = interleavings


@dataclass(slots=True)
class _Branch:
    state: Hashable
    ways: int
    at: int = 0
    interleavings: int = 0


class Exhaustive:
    """Every possibility at every branch, depth first: `while choices.has_more: play, then choices.played()`.

    Two interleavings that come to the same state have the same future, which is explored once and counted twice.
    """

    def __init__(self) -> None:
        self.has_more = True
        self.runs = 0
        self.interleavings = 0
        self._branches: list[_Branch] = []
        self._depth = 0
        self._explored: dict[Hashable, int] = {}

    @property
    def states(self) -> int:
        return len(self._explored)

    def pick(self, weights: Sequence[float], state: Callable[[], Hashable]) -> int:
        if len(weights) == 1:
            return 0
        if self._depth == len(self._branches):
            now = state()
            if now in self._explored:
                raise Explored(self._explored[now])
            self._branches.append(_Branch(now, len(weights)))
        branch = self._branches[self._depth]
        assert branch.ways == len(weights), "a run that is played again must come to the same branches"
        self._depth += 1
        return branch.at

    def played(self, interleavings: int = 1) -> None:
        """The run is over; `interleavings` are those that it stands for."""
        self.runs += 1
        self._depth = 0
        while self._branches:
            branch = self._branches[-1]
            branch.interleavings += interleavings
            branch.at += 1
            if branch.at < branch.ways:
                return
            interleavings = branch.interleavings
            self._explored[branch.state] = interleavings
            self._branches.pop()
        self.interleavings = interleavings
        self.has_more = False


class Seeded:
    """One possibility, by chance and by weight."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def pick(self, weights: Sequence[float], state: Callable[[], Hashable]) -> int:
        return self._chance.choices(range(len(weights)), weights)[0]
