"""One job's lock, and all that pauses and resumes it: a model for the checker. What acts is the library's own code.

Each actor is a greenlet: `firecron hold`, `firecron unhold`, a program that declares the job, a run that claims the
lock. It stops at each of its requests, and the checker chooses whose request lands next. A request may also be lost, or
land without a reply, at once or later, and an actor may die at any of its requests. An operator pauses and resumes the
job by hand in between, in the console or by a version that knows no holds: each in one write, at any moment.

Time stands still. What an operator does after a hold was written bears a later time than the hold.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, TypeAlias

from greenlet import getcurrent, greenlet
from tests.interleaving.checks import require
from tests.interleaving.choices import Choices, Event, Exhaustive, Explored, Seeded

from firecron.base.clocks import Deadline
from firecron.base.instants import to_datetime
from firecron.errors import Denied, StoreError, Unavailable
from firecron.jobs.catalogue import read_declared
from firecron.lock.database import Database
from firecron.lock.fields import PAUSE_FIELDS, Pause, hold_name, pause_in
from firecron.lock.holds import hold_declared, read_holds
from firecron.lock.protocol import editing
from firecron.ops.holds import Holds, inspect_holds
from firecron.settings import load
from firecron.store import NULL_ETAG, Snapshot
from firecron.testing import FakeTiming

Node: TypeAlias = dict[str, Any]

START = 1_794_992_400_000
HOUR = 3_600_000
LOCK, JOBS, HOLDS = "cron-locks/job", "cron-jobs", "cron-hold"
ENTRY: Node = {"line": "0 9 * * *", "service": "api"}
# Whose it is, and when it ends: two holds, and the pauses of an operator.
ENDS = {"short": START + 2 * HOUR, "long": START + 4 * HOUR}
NAMES = {by: hold_name("0000", by, START) for by in ENDS}


def by_hand(hours: float | None, at: int = START) -> Node:
    """A pause as an operator writes it."""
    until = {} if hours is None else {"pausedUntil": START + round(hours * HOUR)}
    return {"paused": True, "pausedBy": "bob", "pausedAt": at, "pausedWhy": "x", **until}


@dataclass(frozen=True)
class HoldScenario:
    """Who acts: `hold short`, `unhold short`, `declare`, `claim`. `deeds` are the operator's, each done once or never.

    `budget` says how often each misfortune may happen: lose, crash. With `has_rules` that of `pausedWith` is kept.
    """

    actors: tuple[str, ...]
    deeds: tuple[str, ...] = ()
    before: Node | None = None
    is_declared: bool = True
    budget: Mapping[str, int] = field(default_factory=dict)
    has_rules: bool = False


class Frozen(FakeTiming):
    """A clock that stands still."""

    def sleep(self, seconds: float) -> None:
        """Wait for nothing."""


class Actor:
    """A process at its requests. `answers` is all that it has learnt: what it will do follows from them."""

    def __init__(self, model: HoldModel, kind: str) -> None:
        self.model = model
        self.kind = kind
        self.answers: list[str] = []
        self.request: tuple[str, Callable[[], object]] | None = None
        self.has_begun = False
        self._greenlet = greenlet(self._run)

    @property
    def hold(self) -> str:
        """Whose hold it makes, or takes back."""
        return self.kind.partition(" ")[2]

    @property
    def _own(self) -> str:
        return f"{HOLDS}/{NAMES.get(self.hold)}"

    def start(self) -> None:
        self.has_begun = True
        self._greenlet.switch()

    def ask(self, what: str, land: Callable[[], object]) -> object:
        """Stop at a request until the checker lets it land, and return its answer.

        Some reads decide nothing that another actor could change meanwhile: what a hold reads before it is written, and
        of all locks; what an unhold reads before its first write, and of the node that only unholds write.
        """
        is_early = not self.answers or what == (
            "reads cron-locks" if self.kind.startswith("hold") else f"reads {self._own}"
        )
        if is_early and self.hold and what.startswith("reads"):
            return land()
        self.request = what, land
        answer = self.model.main.switch()
        if isinstance(answer, StoreError):
            raise answer
        return answer

    def answer(self, answer: object) -> None:
        self.request = None
        self.answers.append(repr(answer))
        self._greenlet.switch(answer)

    def _run(self) -> None:
        database = database_of(self.kind)
        wire = database.store
        assert isinstance(wire, Wire)
        wire.actor = self
        try:
            match self.kind.split():
                case ["hold", by]:
                    Holds(database).hold(to_datetime(ENDS[by]), "migrating", by=by)
                case ["unhold", by]:
                    Holds(database).unhold(NAMES[by], by=by)
                case ["declare"]:
                    declare(database)
                case _:
                    database.run(editing(claimed), LOCK, database.deadline())
        except StoreError:
            pass  # it is said, and what it has done stays
        self.model.main.switch()


def declare(database: Database) -> None:
    """What a program does for a job that is new."""
    database.store.merge(JOBS, {"job": ENTRY}, database.deadline())
    hold_declared(database, {"job": "api"})


def claimed(node: object, now: int) -> Node:
    """What a run makes of the lock that this checker cares for: it keeps all, and adds something."""
    return {**(node if isinstance(node, dict) else {}), "claims": 1}


class Wire:
    """An actor's store. What is neither of the holds, the catalogue nor the lock is answered at once."""

    name = "model"
    actor: Actor

    def connect(self) -> None: ...

    def close(self) -> None: ...

    def after_fork(self) -> None: ...

    def timestamp(self, path: str, deadline: Deadline) -> int:
        return START

    def keys(self, path: str, deadline: Deadline) -> list[str]:
        return []

    def newest(self, path: str, deadline: Deadline) -> tuple[str, object] | None:
        return None

    def read(self, path: str, deadline: Deadline) -> Snapshot:
        answer = self.actor.ask(f"reads {path}", lambda: self.actor.model.snapshot(path))
        assert isinstance(answer, Snapshot)
        return answer

    def swap(self, path: str, etag: str, node: Node | None, deadline: Deadline) -> str | Snapshot:
        if path == "cron-locks/other":
            return "written"
        answer = self.actor.ask(f"writes {path}", lambda: self.actor.model.swap(self.actor, path, etag, node))
        assert isinstance(answer, str | Snapshot)
        return answer

    def merge(
        self, path: str, values: dict[str, object], deadline: Deadline, *, echo: bool = True
    ) -> dict[str, object]:
        known = {f"{path}/{key}".strip("/"): value for key, value in values.items()}
        writes = {key: value for key, value in known.items() if key.startswith((HOLDS, JOBS))}
        if writes:
            self.actor.ask(f"writes {', '.join(sorted(writes))}", lambda: self.actor.model.put_all(self.actor, writes))
        return values


@cache
def database_of(kind: str) -> Database:
    """The database as the actors of this kind see it, one in each run: to make one takes longer than a run."""
    return Database(settings=load(), store=Wire(), timing=Frozen(wall=START), has_threads=False, chance=lambda: 0.5)


class HoldModel:
    """The nodes, the actors, and what can happen next."""

    def __init__(self, scenario: HoldScenario, choices: Choices) -> None:
        self.scenario = scenario
        self._choices = choices
        self._budget = Counter(scenario.budget)
        self._deeds = list(scenario.deeds)
        self.nodes: dict[str, Any] = {f"{JOBS}/other": ENTRY}
        if scenario.is_declared:
            self.nodes[f"{JOBS}/job"] = ENTRY
        if scenario.before is not None:
            self.nodes[LOCK] = scenario.before
        # What the operator's own acts make of the pause, as if there were no holds.
        self.words: Node = {key: value for key, value in (scenario.before or {}).items() if key in PAUSE_FIELDS}
        # The holds that were written before the operator has resumed the job.
        self._resumed_since: frozenset[str] = frozenset()
        self._is_troubled = False
        self._late: list[tuple[Actor, str, Callable[[], object]]] = []
        self.trace: list[str] = []
        self.main = getcurrent()
        self.actors = [Actor(self, kind) for kind in scenario.actors]

    # --- what happens

    def play(self) -> None:
        """Let things happen until nothing can any more."""
        for actor in self.actors:
            if not actor.kind.startswith("unhold"):
                actor.start()
        while event := self._choices.pick((Event(name, 1.0, do) for name, do in self._events()), self.state):
            self.trace.append(event.label)
            event.do()
        self._at_end()

    def state(self) -> Hashable:
        return (
            json.dumps(self.nodes, sort_keys=True),
            tuple((tuple(actor.answers), actor.has_begun, actor.request is None) for actor in self.actors),
            tuple(self._deeds),
            tuple(sorted(self._budget.items())),
            tuple((actor.kind, what) for actor, what, _ in self._late),
            json.dumps(self.words, sort_keys=True),
            self._resumed_since,
            self._is_troubled,
        )

    def _events(self) -> Iterator[tuple[str, Callable[[], None]]]:
        for actor in self.actors:
            if not actor.has_begun and f"{HOLDS}/{NAMES[actor.hold]}" in self.nodes:
                yield f"{actor.kind} begins", actor.start
            if actor.request is None:
                continue
            name = f"{actor.kind} {actor.request[0]}"
            yield name, partial(self._land, actor)
            if self._budget["lose"] and " writes " in name:
                yield f"{name}, which is late", partial(self._lose, actor, "later")
                yield f"{name}, without a reply", partial(self._lose, actor, "now")
            if self._budget["crash"]:
                yield f"{actor.kind} dies", partial(self._crash, actor)
        for late in self._late:
            yield f"{late[0].kind} {late[1]} after all", partial(self._arrive, late)
        for deed in self._deeds:
            if self._may(deed):
                yield f"an operator: {deed}", partial(self._do, deed)

    def _land(self, actor: Actor) -> None:
        assert actor.request is not None
        actor.answer(actor.request[1]())

    def _lose(self, actor: Actor, when: str) -> None:
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

    def _arrive(self, late: tuple[Actor, str, Callable[[], object]]) -> None:
        self._late.remove(late)
        late[2]()

    def _crash(self, actor: Actor) -> None:
        self._budget["crash"] -= 1
        self._is_troubled = True
        actor.request = None

    # --- the operator

    def _may(self, deed: str) -> bool:
        pause = pause_in(self.nodes.get(LOCK) or {})
        return pause is not None if deed.startswith(("resume", "console")) else True

    def _do(self, deed: str) -> None:
        self._deeds.remove(deed)
        node: Node = self.nodes.get(LOCK) or {}
        standing = frozenset(self._standing())
        older = deed.endswith("by an older version")
        kept = {key: value for key, value in node.items() if key not in PAUSE_FIELDS}
        left: Node = {key: node[key] for key in ("pausedWith", "pausedOver") if older and key in node}
        # The time of the operator: after the holds that are there, and before those to come.
        at = START + 1 if standing else START - 1
        if deed.startswith("pause"):
            pause = by_hand(1 if "for an hour" in deed else None, at)
            self.nodes[LOCK], self.words = {**kept, **left, **pause}, pause
            return
        if deed.startswith("console: by"):
            edited = {**node, "pausedBy": "me"}
            self.nodes[LOCK] = edited
            self.words = {
                key: edited[key] for key in ("paused", "pausedBy", "pausedAt", "pausedUntil") if key in edited
            }
            return
        resumed = {**node, "paused": False} if deed.startswith("console") else {**kept, **left, "resumedAt": at}
        self.nodes[LOCK], self.words = resumed, {}
        # In the console a resume leaves no time: only the hold whose pause it was is known.
        self._resumed_since = standing & {node.get("pausedWith")} if deed.startswith("console") else standing

    # --- the database

    def snapshot(self, path: str) -> Snapshot:
        if path in (HOLDS, JOBS, "cron-locks"):
            found = {
                key.removeprefix(f"{path}/"): node for key, node in self.nodes.items() if key.startswith(f"{path}/")
            }
            return Snapshot("whole", found or None)
        return self._one(path)

    def _one(self, path: str) -> Snapshot:
        node = self.nodes.get(path)
        return Snapshot(NULL_ETAG if node is None else json.dumps(node, sort_keys=True), node)

    def matches(self, path: str, etag: str) -> bool:
        return self._one(path).etag == etag

    def swap(self, actor: Actor, path: str, etag: str, node: Node | None) -> str | Snapshot | Denied:
        if not self.matches(path, etag):
            return self._one(path)
        if path == LOCK and node is not None:
            before: Node = self.nodes.get(LOCK) or {}
            hold = node.get("pausedWith")
            if self.scenario.has_rules and hold not in (None, before.get("pausedWith"), *self._standing()):
                return Denied("the rules")
            self._on_write(actor, before, node)
        self.put_all(actor, {path: node})
        return self._one(path).etag

    def put_all(self, actor: Actor, values: Mapping[str, object]) -> None:
        for path, node in values.items():
            self.nodes = {key: value for key, value in self.nodes.items() if key != path}
            if node is not None:
                self.nodes[path] = node

    def _standing(self) -> dict[str, Node]:
        found = read_holds(self.snapshot(HOLDS).node)
        return {name: hold.to_node() for name, hold in found.items() if hold.stands(START)}

    # --- what must hold

    def _on_write(self, actor: Actor, before: Node, after: Node) -> None:
        """The lock was written by a compare-and-swap."""
        ours = {*PAUSE_FIELDS, "resumedAt"}
        others = [{key: value for key, value in node.items() if key not in ours} for node in (before, after)]
        if actor.kind == "claim":
            pauses = [{key: value for key, value in node.items() if key in ours} for node in (before, after)]
            require(pauses[0] == pauses[1], "a claim changed a pause")
            return
        require(others[0] == others[1], "a hold changed what is not its own")
        force, now = pause_in(before), pause_in(after)
        if force is not None and force.hold is None and now != force:
            ends = max(ENDS.values()) if actor.hold == "" else ENDS[actor.hold]
            require(force.until is not None and force.until < ends, "a hold replaced a pause that lasts as long")
        if actor.kind.startswith("hold"):
            self._resumed_since = frozenset()  # an operator has held it since
        if actor.kind == "declare" and now is not None and now.hold is not None and force is None:
            require(now.hold not in self._resumed_since, "a declaration held what was resumed since")

    def _at_end(self) -> None:
        node: Node = self.nodes.get(LOCK) or {}
        standing = self._standing()
        force, words = pause_in(node), pause_in(self.words)
        recorded = read_holds(self.snapshot(HOLDS).node)
        views = inspect_holds(recorded, {"job": read_declared("job", ENTRY)}, {"job": node or None}, START)
        left = {view.hold.name for view in views if not view.stands and view.jobs}
        if force is not None and force.hold is not None and force.hold not in standing:
            require(self._is_troubled, "a hold that was taken back pauses the job still")
            require(force.hold in left, "what a hold has left behind is not named")
        elif not standing:
            require(_said(force) == _said(words), f"the operator's word is {words}, and the lock says {force}")
        elif not self._is_troubled and not self.scenario.deeds:
            ends = max(ENDS[by] for by, name in NAMES.items() if name in standing)
            lasts = force is not None and (force.until is None or force.until >= ends)
            require(lasts, "neither the hold nor the declaration has paused the job")


def _said(pause: Pause | None) -> Hashable:
    return None if pause is None else (pause.by, pause.at, pause.until)


def explore_holds(scenario: HoldScenario) -> Exhaustive:
    """Play every order of what can happen. Raise Violation, with what happened, if something must not be."""
    choices = Exhaustive()
    while choices.has_more:
        model = HoldModel(scenario, choices)
        try:
            model.play()
        except Explored as known:
            choices.played(known.interleavings)
        except AssertionError as error:
            raise type(error)(f"{error}\n" + "\n".join(model.trace)) from error
        else:
            choices.played()
    return choices


DEEDS = (
    "pause",
    "pause for an hour",
    "pause by an older version",
    "pause for an hour by an older version",
    "resume",
    "resume by an older version",
    "console: false",
    "console: by me",
)


def walk_holds(seed: int) -> None:
    """One random way through a large scenario: two holds, both taken back or not, a declaration, a claim, all deeds."""
    chance = random.Random(seed)
    actors = [actor for actor in ("unhold short", "unhold long", "declare", "claim") if chance.random() < 0.7]
    scenario = HoldScenario(
        ("hold short", "hold long", *actors),
        tuple(deed for deed in DEEDS if chance.random() < 0.3),
        chance.choice((None, None, by_hand(1), by_hand(3), by_hand(None), {"claims": 0})),
        is_declared="declare" not in actors,
        budget={"lose": chance.choice((0, 0, 1, 2)), "crash": chance.choice((0, 0, 1))},
        has_rules=chance.random() < 0.3,
    )
    model = HoldModel(scenario, Seeded(chance))
    try:
        model.play()
    except AssertionError as error:
        raise type(error)(f"walk {seed}, {scenario}: {error}\n" + "\n".join(model.trace)) from error
