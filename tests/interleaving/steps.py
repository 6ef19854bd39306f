"""One step of one tick, and all claims of that tick: a model for the checker. The decisions are the library's own.

The lock is taken for granted, as the other model checks it: claims come one after the other, each with a higher fence,
and a claim begins only when nobody trusts the lease of the one before, or after an operator's unlock. All else may
happen at any moment: an earlier claim goes on as a zombie at every point, crashes before or after its call or its
record, its function raises, its requests and replies are lost, and its writes land late, also after its crash.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from tests.interleaving.checks import require
from tests.interleaving.choices import Choices, Event, Exhaustive, play_all

from firecron.errors import Denied, LeaseLost, StepInDoubt, StoreError, Unavailable
from firecron.lock.protocol import ABSENT, Action, BackOff, Exchange, Read, Swap, Swapped
from firecron.lock.record import Lost
from firecron.steps import protocol
from firecron.steps.protocol import Ask, Claimant, Step, StepRecord, read_step
from firecron.store import NULL_ETAG, Snapshot

Node: TypeAlias = dict[str, Any] | None
Happening: TypeAlias = tuple[str, Callable[[], None]]

BEGAN = 1_000


class Failed(Exception):
    """What the step's function raises."""


@dataclass(frozen=True)
class StepScenario:
    """So many claims of one tick; `budget` is how often each misfortune may happen."""

    claims: int = 2
    at_most_once: bool = False
    has_rules: bool = False
    tries: int = 1
    budget: dict[str, int] = field(default_factory=dict)


class Claim:
    """A process with a claim: it does the step, as often as it has tries."""

    def __init__(self, model: StepModel, number: int) -> None:
        self.model = model
        self.number = number
        self.claimant = Claimant(10 * number, number, f"claim {number}")
        self.is_trusted = True
        self.is_alive = True
        self.calls = 0
        self.answers: list[str] = []  # all that it has learnt: what it will do follows from this
        self.outcome: object = None
        # What its first request of all finds; the first claim asks nothing.
        node = model.node if number > 1 else None
        self.found = read_step(node)
        self.step = Step("step", self.found, None if node is not None else ABSENT)
        self.tries = model.scenario.tries
        self.exchange: Exchange[Any] | None = None
        self.action: Action | None = None
        self.wish: protocol.Wish | None = None
        self.flight: Flight | None = None
        self._begin()

    def _begin(self) -> None:
        self.tries -= 1
        self.going = protocol.stepping(
            self.step,
            self.claimant,
            lambda: BEGAN + self.number,
            lambda: self.is_trusted,
            at_most_once=self.model.scenario.at_most_once,
        )
        self._go(lambda: next(self.going))

    @property
    def is_over(self) -> bool:
        return not self.is_alive or (self.wish is None and self.flight is None)

    def events(self) -> list[Happening]:
        """What it may do next."""
        if not self.is_alive or self.flight is not None:
            return []
        name = f"{self.number}"
        match self.wish, self.action:
            case protocol.Call(), _:
                events: list[Happening] = [(f"{name} calls", self.call)]
                if self.model.budget["fail"] > 0:
                    events.append((f"{name} calls, which raises", self.fail))
                return events
            case Ask(), Read():
                return [(f"{name} reads", lambda: self.answer(self.model.snapshot()))]
            case Ask(), Swap() as swap:
                return [(f"{name} sends", lambda: self.send(swap))]
            case _:
                return []

    def call(self) -> None:
        self._called()
        self._go(lambda: self.going.send(f"by {self.number}"))

    def fail(self) -> None:
        self.model.budget["fail"] -= 1
        self._called()
        self._go(lambda: self.going.throw(Failed()))

    def _called(self) -> None:
        self.calls += 1
        self.model.calls.append(self.number)
        self.answers.append("called")
        require(self.found is None or not self.found.is_done, "46: a step that was recorded is called again")
        if self.model.scenario.at_most_once:
            require(len(self.model.calls) == 1, "48: a step in doubt is called again")

    def send(self, swap: Swap) -> None:
        self.flight = Flight(self, swap)
        self.model.flights.append(self.flight)

    def answer(self, answer: object) -> None:
        """Give the exchange its answer, and go on until it asks for something that takes time."""
        self.answers.append(repr(answer))
        assert self.exchange is not None
        try:
            if isinstance(answer, StoreError):
                self.action = self.exchange.throw(answer)
            else:
                self.action = self.exchange.send(answer)  # type: ignore[arg-type]  # it is one of the answers
            while isinstance(self.action, BackOff):
                self.action = self.exchange.send(None)
        except StopIteration as done:
            self.exchange = self.action = None
            settled = done.value
            if isinstance(settled, Lost):
                self._go(lambda: self.going.throw(LeaseLost()))
            else:
                self._go(lambda: self.going.send(settled))
        except Denied as error:
            require(self.number < self.model.begun, "a holder is denied")
            self.exchange = self.action = None
            raised = error
            self._go(lambda: self.going.throw(raised))

    def _go(self, advance: Callable[[], protocol.Wish]) -> None:
        """Take the step's next wish, or its end."""
        try:
            self.wish = advance()
        except StopIteration as done:
            self.wish, self.outcome = None, done.value
            self.model.on_result(self, done.value)
            return
        except (Failed, LeaseLost, StepInDoubt, Denied) as error:
            self.wish, self.outcome = None, type(error).__name__
            if isinstance(error, StepInDoubt):
                self.model.on_doubt(self)
            if isinstance(error, Failed | StepInDoubt) and self.tries:
                self._begin()
            return
        if isinstance(self.wish, Ask):
            self.exchange = self.wish.exchange()
            try:
                self.action = next(self.exchange)
            except StopIteration as done:
                settled = done.value
                self.exchange = None
                if isinstance(settled, Lost):
                    self._go(lambda: self.going.throw(LeaseLost()))
                else:
                    self._go(lambda: self.going.send(settled))

    def state(self) -> Hashable:
        return self.number, self.is_alive, self.is_trusted, tuple(self.answers), self.flight is not None, self.tries


@dataclass(eq=False)
class Flight:
    """A write under way: it lands, and its reply comes, each at some time or never."""

    claim: Claim
    swap: Swap
    reply: object = None

    def state(self) -> Hashable:
        return self.claim.number, repr(self.swap), repr(self.reply)


class StepModel:
    """The node of a step, the claims of its tick, and what is on its way."""

    def __init__(self, scenario: StepScenario, choices: Choices) -> None:
        self.scenario = scenario
        self.choices = choices
        self.budget = Counter(scenario.budget)
        self.node: Node = None
        self.version = 0
        self.flights: list[Flight] = []
        self.calls: list[int] = []
        self.values: set[str] = set()
        self.claims: list[Claim] = []
        self.trace: list[str] = []

    @property
    def begun(self) -> int:
        return len(self.claims)

    def snapshot(self) -> Snapshot:
        return ABSENT if self.node is None else Snapshot(f"v{self.version}", self.node)

    def play(self) -> None:
        """Let things happen until nothing can any more."""
        self._claim()
        while event := self.choices.pick((Event(name, 1.0, do) for name, do in self._events()), self.state):
            self.trace.append(event.label)
            event.do()
        self._at_end()

    def state(self) -> Hashable:
        return (
            tuple(claim.state() for claim in self.claims),
            tuple(sorted(repr(flight.state()) for flight in self.flights)),
            repr(self.node),
            self.version,
            tuple(self.calls),
            tuple(sorted(self.budget.items())),
        )

    def _events(self) -> list[Happening]:
        events: list[Happening] = []
        for claim in self.claims:
            events += claim.events()
            if claim.is_alive and self.budget["crash"] > 0 and not claim.is_over:
                events.append((f"{claim.number} crashes", lambda claim=claim: self._crash(claim)))  # type: ignore[misc]  # bound
            if claim.is_trusted and claim.number < self.scenario.claims:
                events.append((f"{claim.number}'s lease ends", lambda claim=claim: self._end(claim)))  # type: ignore[misc]  # bound
        for flight in self.flights:
            events += self._events_of(flight)
        if self.begun < self.scenario.claims and not self.claims[-1].is_trusted:
            events.append((f"{self.begun + 1} claims", self._claim))
        elif self.begun < self.scenario.claims and self.budget["unlock"] > 0:
            events.append((f"an operator unlocks, and {self.begun + 1} claims", self._unlock))
        return events

    def _events_of(self, flight: Flight) -> list[Happening]:
        name = f"{flight.claim.number}'s write"
        if flight.reply is not None:
            events: list[Happening] = [(f"the reply to {name} comes", lambda: self._reply(flight, flight.reply))]
            if self.budget["lose"] > 0:
                events.append((f"the reply to {name} is lost", lambda: self._lose(flight)))
            return events
        events = [(f"{name} lands", lambda: self._land(flight))]
        if self.budget["lose"] > 0 and flight.claim.flight is flight:
            # Its claim gives it up, and it may still land.
            events.append((f"{name} is given up", lambda: self._give_up(flight)))
        return events

    def _claim(self) -> None:
        claim = Claim.__new__(Claim)
        self.claims.append(claim)
        claim.__init__(self, len(self.claims))  # type: ignore[misc]  # it is counted before it begins

    def _unlock(self) -> None:
        self.budget["unlock"] -= 1
        self._claim()

    def _crash(self, claim: Claim) -> None:
        self.budget["crash"] -= 1
        claim.is_alive = False

    def _end(self, claim: Claim) -> None:
        claim.is_trusted = False

    def _land(self, flight: Flight) -> None:
        own = read_step(flight.swap.node)
        assert own is not None, "steps are not deleted"
        before = read_step(self.node)
        if self.scenario.has_rules and not self._allows(own, before):
            flight.reply = Denied("the rules")
        elif not self.matches(flight.swap):
            flight.reply = self.snapshot()
        else:
            require(before is None or before.fence <= own.fence, "47: a zombie's write replaces its successor's")
            same = before is not None and before.fence == own.fence
            require(not (same and before is not None and before.is_done), "a claim replaces its own result")
            self.node = flight.swap.node
            self.version += 1
            if own.result is not None:
                self.values.add(own.result)
            flight.reply = Swapped(f"v{self.version}", 0.0)
        if flight.claim.flight is not flight or not flight.claim.is_alive:
            self.flights.remove(flight)

    def _allows(self, own: StepRecord, before: StepRecord | None) -> bool:
        """What the rules say."""
        return own.fence == 10 * self.begun and (before is None or not before.is_done or before.fence < own.fence)

    def matches(self, swap: Swap) -> bool:
        return swap.etag == (NULL_ETAG if self.node is None else f"v{self.version}")

    def _reply(self, flight: Flight, reply: object) -> None:
        self.flights.remove(flight)
        if flight.claim.is_alive:
            flight.claim.flight = None
            flight.claim.answer(reply)

    def _lose(self, flight: Flight) -> None:
        self.budget["lose"] -= 1
        self._reply(flight, Unavailable("lost"))

    def _give_up(self, flight: Flight) -> None:
        self.budget["lose"] -= 1
        flight.claim.flight = None
        flight.claim.answer(Unavailable("no answer"))

    # --- what must hold

    def on_result(self, claim: Claim, value: object) -> None:
        """A claim was given a result."""
        require(f'"{value}"' in self.values, "a result is returned that nobody has recorded")
        if claim.found is not None and claim.found.is_done:
            require(f'"{value}"' == claim.found.result, "46: what was recorded is not what is returned")
        last = read_step(self.node)
        require(last is not None and last.fence >= (claim.found.fence if claim.found else 0), "a record has vanished")

    def on_doubt(self, claim: Claim) -> None:
        """A claim was told that the step is in doubt."""
        require(self.scenario.at_most_once, "a step is in doubt that wrote no intent")

    def _at_end(self) -> None:
        last = self.claims[-1]
        # Without the rules, what an earlier claim has recorded may be replaced by a claim between the two: its write is
        # late, and has the ETag of that record (decision 0030).
        relies_on_another = last.found is not None and last.found.is_done and not self.scenario.has_rules
        if last.is_alive and last.is_trusted and not relies_on_another:
            require(last.outcome is not None, "the last claim was given nothing")
            if isinstance(last.outcome, str) and last.outcome.startswith("by "):
                node = read_step(self.node)
                require(
                    node is not None and node.result == f'"{last.outcome}"',
                    "47: what the last claim was given is not what is recorded",
                )


def explore_steps(scenario: StepScenario) -> Exhaustive:
    """Play every order of what can happen."""
    return play_all(partial(StepModel, scenario))
