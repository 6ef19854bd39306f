"""What happens next: every possibility in turn, or one at random.

A run asks `pick` for each of its events. Generators can't be copied, so a run is never continued from its middle: it
is played again from its beginning, with other answers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, Protocol


class Event(NamedTuple):
    """What can happen, how likely it is, and what to do for it to happen."""

    label: str
    weight: float
    do: Callable[[], None]


class Choices(Protocol):
    def pick(self, events: Iterable[Event], state: Callable[[], Hashable]) -> Event | None:
        """Which of these happens, None if there are none. `state` tells apart what can still happen from here."""


class Explored(Exception):
    """All that can happen from this state on was seen before."""

    def __init__(self, interleavings: int) -> None:
        super().__init__()
        self.interleavings = interleavings


@dataclass(slots=True)
class _Branch:
    state: Hashable
    labels: list[str]
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

    def pick(self, events: Iterable[Event], state: Callable[[], Hashable]) -> Event | None:
        if self._depth < len(self._branches):
            branch = self._branches[self._depth]
            # Most of a run is played again, where those after the one that happens aren't asked for.
            event = next(islice(events, branch.at, None), None)
            expected = branch.labels[branch.at]
            assert event is not None, "a run that is played again must come to the same branches"
            assert event.label == expected, "a run that is played again must come to the same branches"
        else:
            found = list(events)
            if not found:
                return None
            now = state() if len(found) > 1 else None
            if now in self._explored:
                raise Explored(self._explored[now])
            self._branches.append(_Branch(now, [one.label for one in found]))
            event = found[0]
        self._depth += 1
        return event

    def played(self, interleavings: int = 1) -> None:
        """The run is over; `interleavings` are those that it stands for."""
        self.runs += 1
        self._depth = 0
        while self._branches:
            branch = self._branches[-1]
            branch.interleavings += interleavings
            branch.at += 1
            if branch.at < len(branch.labels):
                return
            interleavings = branch.interleavings
            if branch.state is not None:
                self._explored[branch.state] = interleavings
            self._branches.pop()
        self.interleavings = interleavings
        self.has_more = False


class Playable(Protocol):
    """A model that plays itself, and notes what happened."""

    trace: list[str]

    def play(self) -> None: ...


def play_all(make: Callable[[Choices], Playable]) -> Exhaustive:
    """Play every order of what can happen. Raise Violation, with what happened, if something must not be."""
    choices = Exhaustive()
    while choices.has_more:
        model = make(choices)
        try:
            model.play()
        except Explored as known:
            choices.played(known.interleavings)
        except AssertionError as error:
            raise type(error)(f"{error}\n" + "\n".join(model.trace)) from error
        else:
            choices.played()
    return choices


class Seeded:
    """One possibility, by chance and by weight."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def pick(self, events: Iterable[Event], state: Callable[[], Hashable]) -> Event | None:
        found = list(events)
        return self._chance.choices(found, [event.weight for event in found])[0] if found else None
