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
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from tests.interleaving.actors import START, Actor, Checked, Node, Wire
from tests.interleaving.checks import require
from tests.interleaving.choices import Choices, Exhaustive, Seeded, play_all

from firecron.base.clocks import Deadline
from firecron.base.instants import to_datetime
from firecron.errors import Denied
from firecron.jobs.catalogue import read_declared
from firecron.lock.database import Database
from firecron.lock.fields import PAUSE_FIELDS, Pause, hold_name, pause_in
from firecron.lock.holds import hold_declared, read_holds
from firecron.lock.protocol import editing
from firecron.ops.holds import Holds, inspect_holds
from firecron.settings import load
from firecron.store import NULL_ETAG, Snapshot
from firecron.testing import FakeTiming

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


class HoldActor(Actor):
    """One who holds or takes a hold back, a program, or a run."""

    def __init__(self, model: HoldModel, kind: str) -> None:
        super().__init__(kind)
        self.model = model

    @property
    def hold(self) -> str:
        """Whose hold it makes, or takes back."""
        return self.kind.partition(" ")[2]

    @property
    def _own(self) -> str:
        return f"{HOLDS}/{NAMES.get(self.hold)}"

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
        return super().ask(what, land)

    def act(self) -> None:
        database = database_of(self.kind)
        wire = database.store
        assert isinstance(wire, HoldWire)
        wire.actor = self
        match self.kind.split():
            case ["hold", by]:
                Holds(database).hold(to_datetime(ENDS[by]), "migrating", by=by)
            case ["unhold", by]:
                Holds(database).unhold(NAMES[by], by=by)
            case ["declare"]:
                declare(database)
            case _:
                database.run(editing(claimed), LOCK, database.deadline())


def declare(database: Database) -> None:
    """What a program does for a job that is new."""
    database.store.merge(JOBS, {"job": ENTRY}, database.deadline())
    hold_declared(database, {"job": "api"})


def claimed(node: object, now: int) -> Node:
    """What a run makes of the lock that this checker cares for: it keeps all, and adds something."""
    return {**(node if isinstance(node, dict) else {}), "claims": 1}


class HoldWire(Wire):
    """What is neither of the holds, the catalogue nor the lock is answered at once."""

    actor: HoldActor

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
    return Database(settings=load(), store=HoldWire(), timing=Frozen(wall=START), has_threads=False, chance=lambda: 0.5)


class HoldModel(Checked[HoldActor]):
    """The nodes, the actors, and what can happen next."""

    def __init__(self, scenario: HoldScenario, choices: Choices) -> None:
        super().__init__(choices, scenario.budget)
        self.scenario = scenario
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
        self.actors = [HoldActor(self, kind) for kind in scenario.actors]

    # --- what happens

    def begins_at_once(self, actor: HoldActor) -> bool:
        return not actor.kind.startswith("unhold")

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
            if actor.request is not None:
                yield from self._requests(actor, "crash", is_write=actor.request[0].startswith("writes "))
        yield from self._late_ones()
        for deed in self._deeds:
            if self._may(deed):
                yield f"an operator: {deed}", partial(self._do, deed)

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

    def swap(self, actor: HoldActor, path: str, etag: str, node: Node | None) -> str | Snapshot | Denied:
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

    def put_all(self, actor: HoldActor, values: Mapping[str, object]) -> None:
        for path, node in values.items():
            self.nodes = {key: value for key, value in self.nodes.items() if key != path}
            if node is not None:
                self.nodes[path] = node

    def _standing(self) -> dict[str, Node]:
        found = read_holds(self.snapshot(HOLDS).node)
        return {name: hold.to_node() for name, hold in found.items() if hold.stands(START)}

    # --- what must hold

    def _on_write(self, actor: HoldActor, before: Node, after: Node) -> None:
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
    """Play every order of what can happen."""
    return play_all(partial(HoldModel, scenario))


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
