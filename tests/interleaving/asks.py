"""One ask, those who take it, and what else has the job's lock: a model for the checker. Takers run the library's code.

Each actor is a greenlet: one who asks, a taker that acquires the lock, takes the ask, and begins, a tick that holds the
lock for a while. It stops at each of its requests, and the checker chooses whose request lands next. A request may be
lost, or land without a reply, at once or later; an actor may be killed at any of its requests; a minute may pass at any
of them, which is longer than a lease, or five, which is longer than an ask is valid.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from greenlet import GreenletExit
from tests.interleaving.actors import START, Actor, Checked, Node, Wire
from tests.interleaving.checks import require
from tests.interleaving.choices import Choices, Exhaustive, play_all

from firecron.base.clocks import Deadline
from firecron.base.instants import to_text
from firecron.lock import asks as lock_asks
from firecron.lock.asks import VALID, AskedRun, Asks, Taking
from firecron.lock.database import Database
from firecron.lock.lease import Lease
from firecron.lock.protocol import Held
from firecron.lock.record import LockRecord
from firecron.settings import load
from firecron.store import NULL_ETAG, Snapshot
from firecron.testing import FakeTiming

TTL = 30
LOCK, ASK = "cron-locks/job", "cron-asks/job"
_SETTINGS = load(clock_interval=2_000)
# In seconds: longer than a lease, and longer than an ask is valid.
PASSES = {"minute": 61.0, "five": VALID / 1000 + 1}


@dataclass(frozen=True)
class AskScenario:
    """Who acts: `ask ann`, `take one`, `tick`. `budget` says how often each may happen: lose, kill, minute, five.

    Without a `lease` each taker gets the lock, as with overlap="allow". `is_asked`: ann has asked before. With `slot`
    it is the run of a tick that is asked for, which the takers claim.
    """

    actors: tuple[str, ...]
    budget: Mapping[str, int] = field(default_factory=dict)
    lease: bool = True
    is_asked: bool = True
    slot: bool = False


TICK = to_text(START)


def ask_of(who: str, slot: bool = False) -> AskedRun:
    ask = AskedRun("job", f"{['ann', 'bob'].index(who):06x}", START, who)
    return replace(ask, kind="slot", tick=TICK) if slot else ask


class AskActor(Actor):
    """One who asks, a taker, or a tick."""

    def __init__(self, model: AskModel, kind: str) -> None:
        super().__init__(kind)
        self.model = model
        self.is_dead = False

    def act(self) -> None:
        wire = AskWire(self)
        settings = _SETTINGS
        database = Database(
            settings=settings, store=wire, timing=self.model.timing, has_threads=False, chance=lambda: 0.5
        )
        database.clock.now(database.deadline())
        match self.kind.split():
            case ["ask", who]:
                self.model.on_asked(who, Asks(database).make(ask_of(who)))
            case ["take", _]:
                self._take(database)
            case _:
                self._hold(database)

    def _hold(self, database: Database) -> None:
        """Hold the lock, as the run of a tick does, and release it."""
        held = self._acquire(database)
        if held is not None:
            Lease(database, held[1], held[0]).release(outcome="succeeded")

    def _acquire(self, database: Database, ask: AskedRun | None = None) -> tuple[Held, Any] | None:
        scenario, slot = self.model.scenario, None if ask is None else ask.tick
        bid = database.bid("job", TTL, fenced=True, momentary=not scenario.lease, slot=slot)
        bid = replace(bid, holder=self.kind)
        held = database.try_to_acquire(bid)
        if isinstance(held, Held):
            return held, bid
        is_done = ask is not None and held.reason == "slot_done"
        if ask is not None and is_done and not lock_asks.may_be_claimed_for(ask, held, scenario.lease, self.model.now):
            Asks(database).decline(ask, held.message)
        return None

    def _take(self, database: Database) -> None:
        """What the runner does with an ask: the lock, the ask under it, the run; then the ask is removed."""
        ask = Asks(database).read().get("job")
        if ask is None or ask.taken_by is not None or ask.is_over(self.model.now):
            return
        acquired = self._acquire(database, ask)
        if acquired is None:
            return  # another look tries again
        held, bid = acquired
        taking = Taking(database, ask, f"token of {self.kind}", lambda: self.model.on_begun(self, ask))
        ends = held.trust.ends(database.margin) if self.model.scenario.lease else None
        lease = Lease(database, bid, held)
        try:
            is_taken = taking.take(ends)
        except GreenletExit:
            raise  # nobody plays this world any more, and parts of it may be gone
        except BaseException:
            self._give_back(lease, held, ask)
            raise
        if not is_taken:
            self._give_back(lease, held, ask)
            return
        self.model.on_lease(self, ends)
        taking.begin()
        Asks(database).remove(ask)
        if self.model.scenario.lease:
            lease.release(outcome="succeeded")

    def _give_back(self, lease: Lease, held: Held, ask: AskedRun) -> None:
        """Release the lock of a run that does not begin."""
        if self.model.scenario.lease and ask.tick is not None:
            lease.release(outcome="interrupted", tick=ask.tick)
        elif self.model.scenario.lease:
            lease.release(before=held.replaced if isinstance(held.replaced, LockRecord) else None)


class AskWire(Wire):
    """What is neither the ask nor the lock is answered at once."""

    def __init__(self, actor: AskActor) -> None:
        self.actor = actor

    def timestamp(self, path: str, deadline: Deadline) -> int:
        return self.actor.model.now

    def read(self, path: str, deadline: Deadline) -> Snapshot:
        answer = self.actor.ask(f"reads {path}", lambda: self.actor.model.snapshot(path))
        assert isinstance(answer, Snapshot)
        return answer

    def swap(self, path: str, etag: str, node: Node | None, deadline: Deadline) -> str | Snapshot:
        what = "deletes" if node is None else "writes"
        answer = self.actor.ask(f"{what} {path}", lambda: self.actor.model.swap(path, etag, node))
        assert isinstance(answer, str | Snapshot)
        return answer

    def merge(
        self, path: str, values: dict[str, object], deadline: Deadline, *, echo: bool = True
    ) -> dict[str, object]:
        self.actor.model.lapses += [str(value["why"]) for value in values.values() if isinstance(value, dict)]
        return values


class AskModel(Checked[AskActor]):
    """The nodes, the actors, and what can happen next."""

    def __init__(self, scenario: AskScenario, choices: Choices) -> None:
        super().__init__(choices, scenario.budget)
        self.scenario = scenario
        self.timing = FakeTiming(wall=START)
        self.nodes: dict[str, Node] = {ASK: ask_of("ann", scenario.slot).to_node()} if scenario.is_asked else {}
        self.begun: Counter[str] = Counter()
        self.lapses: list[str] = []
        self._asked: list[str] = ["ann"] if scenario.is_asked else []
        self.actors = [AskActor(self, kind) for kind in scenario.actors]

    @property
    def now(self) -> int:
        return round(self.timing.wall())

    def state(self) -> Hashable:
        return (
            json.dumps(self.nodes, sort_keys=True),
            self.now,
            tuple((tuple(actor.answers), actor.request is None, actor.is_dead) for actor in self.actors),
            tuple(sorted(self._budget.items())),
            tuple((actor.kind, what) for actor, what, _ in self._late),
            tuple(sorted(self.begun.items())),
            len(self.lapses),
            self._is_troubled,
        )

    def _events(self) -> Iterator[tuple[str, Callable[[], None]]]:
        for actor in self.actors:
            if actor.request is not None:
                yield from self._requests(actor, "kill", is_write=not actor.request[0].startswith("reads "))
        yield from self._late_ones()
        for name in PASSES:
            if self._budget[name] and any(actor.request for actor in self.actors):
                yield f"a {name} passes", partial(self._pass, name)

    def end(self, actor: AskActor, ends: str) -> None:
        super().end(actor, ends)
        actor.is_dead = True

    def _pass(self, name: str) -> None:
        self._budget[name] -= 1
        self._is_troubled = True
        self.timing.advance(PASSES[name])

    # --- the database

    def snapshot(self, path: str) -> Snapshot:
        if path == "cron-asks":
            return Snapshot("whole", {"job": self.nodes[ASK]} if ASK in self.nodes else None)
        node = self.nodes.get(path)
        return Snapshot(NULL_ETAG if node is None else json.dumps(node, sort_keys=True), node)

    def matches(self, path: str, etag: str) -> bool:
        return self.snapshot(path).etag == etag

    def swap(self, path: str, etag: str, node: Node | None) -> str | Snapshot:
        if not self.matches(path, etag):
            return self.snapshot(path)
        self.nodes = {key: value for key, value in self.nodes.items() if key != path}
        if node is not None:
            self.nodes[path] = node
        return self.snapshot(path).etag

    # --- what must hold

    def on_asked(self, who: str, standing: AskedRun | None) -> None:
        if standing is None:
            self._asked.append(who)
        else:
            require(standing.id != ask_of(who).id, "somebody is told that the ask in the way is their own")

    def on_lease(self, actor: AskActor, ends: float | None) -> None:
        require(ends is None or self.timing.mono() < ends, f"{actor.kind} begins although its lease is over")

    def on_begun(self, actor: AskActor, ask: AskedRun) -> None:
        self.begun[ask.id] += 1
        require(self.begun[ask.id] == 1, f"{actor.kind} begins what another one has begun")
        require(self.now < ask.at + VALID + TTL * 1000, f"{actor.kind} begins an ask that is long over")

    def _at_end(self) -> None:
        left = self.nodes.get(ASK)
        for who in self._asked:
            ask = ask_of(who)
            is_told = any(f"{ask.by} has asked" in why for why in self.lapses)
            require(not (is_told and self.begun[ask.id]), "of a run that has begun it is said that it was not run")
            is_there = left is not None and left["id"] == ask.id
            if not is_there and not self.begun[ask.id] and not is_told:
                require(False, "an ask is gone that was neither run nor said not to be")
            if is_there and left is not None and "takenBy" in left and not self._is_troubled:
                require(False, "what was taken is left")
        if not self._is_troubled and self.scenario.slot:
            require(sum(self.begun.values()) == 1, "a tick was claimed for an ask, which was not run")
        if not self._is_troubled and len(self._asked) > 1:
            first = ask_of(self._asked[0])
            require(self.begun[first.id] == 1, "a second ask has replaced the first one")


def explore_asks(scenario: AskScenario) -> Exhaustive:
    """Play every order of what can happen."""
    return play_all(partial(AskModel, scenario))
