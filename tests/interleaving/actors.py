"""What the checkers of asks and of holds share: actors that run the library's code up to their next request, the store
that makes them stop there, and requests that land, come late, or get no reply.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from greenlet import getcurrent, greenlet
from tests.interleaving.choices import Choices, Event

from firecron.base.clocks import Deadline
from firecron.errors import StoreError, Unavailable

Node: TypeAlias = dict[str, Any]
START = 1_794_992_400_000


class Actor(ABC):
    """A process at its requests. `answers` is all that it has learnt: what it will do follows from them."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.answers: list[str] = []
        self.request: tuple[str, Callable[[], object]] | None = None
        self.has_begun = False
        self._checker = getcurrent()
        self._greenlet = greenlet(self._run)

    def start(self) -> None:
        self.has_begun = True
        self._greenlet.switch()

    def ask(self, what: str, land: Callable[[], object]) -> object:
        """Stop at a request until the checker lets it land, and return its answer."""
        self.request = what, land
        answer = self._checker.switch()
        if isinstance(answer, StoreError):
            raise answer
        return answer

    def answer(self, answer: object) -> None:
        self.request = None
        self.answers.append(repr(answer))
        self._greenlet.switch(answer)

    @abstractmethod
    def act(self) -> None:
        """Do what an actor of this kind does."""

    def _run(self) -> None:
        with suppress(StoreError):  # it is said, and what it has done stays
            self.act()
        self._checker.switch()


class Wire:
    """An actor's store but for `read`, `swap` and `merge`: what the checker does not care for is answered at once."""

    name = "model"

    def connect(self) -> None: ...

    def close(self) -> None: ...

    def after_fork(self) -> None: ...

    def timestamp(self, path: str, deadline: Deadline) -> int:
        return START

    def keys(self, path: str, deadline: Deadline) -> list[str]:
        return []

    def newest(self, path: str, deadline: Deadline) -> tuple[str, object] | None:
        return None


A = TypeVar("A", bound=Actor)


class Checked(ABC, Generic[A]):
    """A model of what actors do: what can happen next, and what has happened; troubled once anything went wrong."""

    actors: list[A]

    def __init__(self, choices: Choices, budget: Mapping[str, int]) -> None:
        self.trace: list[str] = []
        self._choices = choices
        self._budget = Counter(budget)
        self._is_troubled = False
        self._late: list[tuple[A, str, Callable[[], object]]] = []

    def play(self) -> None:
        """Let things happen until nothing can any more."""
        for actor in self.actors:
            if self.begins_at_once(actor):
                actor.start()
        while event := self._choices.pick((Event(name, 1.0, do) for name, do in self._events()), self.state):
            self.trace.append(event.label)
            event.do()
        self._at_end()

    def begins_at_once(self, actor: A) -> bool:
        return True

    @abstractmethod
    def state(self) -> Hashable: ...

    @abstractmethod
    def _events(self) -> Iterator[tuple[str, Callable[[], None]]]: ...

    @abstractmethod
    def _at_end(self) -> None: ...

    def _requests(self, actor: A, ends: str, *, is_write: bool) -> Iterator[tuple[str, Callable[[], None]]]:
        """What can come of an actor's request: `ends` is what the end of the actor is called."""
        assert actor.request is not None
        name = f"{actor.kind} {actor.request[0]}"
        yield name, partial(self._land, actor)
        if self._budget["lose"] and is_write:
            yield f"{name}, which is late", partial(self._lose, actor, "later")
            yield f"{name}, without a reply", partial(self._lose, actor, "now")
        if self._budget[ends]:
            yield f"{actor.kind}: {ends}", partial(self.end, actor, ends)

    def _late_ones(self) -> Iterator[tuple[str, Callable[[], None]]]:
        for late in self._late:
            yield f"{late[0].kind} {late[1]} after all", partial(self._arrive, late)

    def _land(self, actor: A) -> None:
        assert actor.request is not None
        actor.answer(actor.request[1]())

    def _lose(self, actor: A, when: str) -> None:
        """Give a write up that has landed, or that lands at any time after this: at the end of all it is lost."""
        assert actor.request is not None
        self._budget["lose"] -= 1
        self._is_troubled = True
        what, land = actor.request
        if when == "now":
            land()
        else:
            self._late.append((actor, what, land))
        actor.answer(Unavailable("no reply"))

    def _arrive(self, late: tuple[A, str, Callable[[], object]]) -> None:
        self._late.remove(late)
        late[2]()

    def end(self, actor: A, ends: str) -> None:
        self._budget[ends] -= 1
        self._is_troubled = True
        actor.request = None
