"""One stored schedule, and all that puts, removes, claims and looks at it: a model for the checker.

What acts is the library's own code: its exchanges, and its decisions about puts, removals, claims and looks. Each actor
stops at each of its requests, and the checker chooses whose request lands next. A request may land without a reply,
now or at any later time, or be lost. Time passes from one instant to the next, also between two requests of an actor:
an actor is frozen as long as the checker does not choose it.

The schedule ticks each minute. A claim that has begun renews once and releases, or dies at any of its requests.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Generator, Hashable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, TypeAlias

from tests.interleaving.checks import require
from tests.interleaving.choices import Choices, Event, Exhaustive, Seeded, play_all

from firecron.base.clocks import Moment
from firecron.base.instants import to_milliseconds, to_text
from firecron.cron.bounded import Bounded
from firecron.cron.schedule import newest
from firecron.errors import Unavailable
from firecron.jobs.decorator import declarations_of, scheduled
from firecron.jobs.options import JobOptions
from firecron.lock import protocol, stored
from firecron.lock.protocol import BackOff, Held, Now, Read, Swap, Swapped
from firecron.lock.record import Current, LockRecord, Refused, Request
from firecron.lock.stored import Kept, LookOptions, WantedSchedule
from firecron.runs import look as looks
from firecron.runs.policy import choose
from firecron.store import NULL_ETAG, Snapshot

Node: TypeAlias = dict[str, Any]
MARGIN, TTL = 1_000, 10_000
START = to_milliseconds("2026-11-18T09:00:30Z")
# A tick comes; a run that was claimed then may have died; a second tick; all that is closed may be deleted.
INSTANTS = (START, START + 30_000, START + 45_000, START + 90_000, START + 2 * 3_600_000)
EACH_MINUTE = Bounded("* * * * *")
OTHER_LINE = Bounded("*/1 * * * *")


@cache
def options_of(reruns: bool) -> JobOptions:
    def remind() -> None: ...

    declared = scheduled("remind", lock_ttl=10, keep_closed=3_600, on_abandoned="rerun" if reruns else "skip")(remind)
    (options,) = declarations_of(declared)
    assert isinstance(options, JobOptions)
    return replace(options, name="remind:42")


@dataclass(frozen=True)
class EntryScenario:
    """Who acts, each once and in any order, but what has `then` begins after the one before it has ended."""

    actors: tuple[str, ...]
    instants: int = 2
    reruns: bool = False
    is_there: bool = True
    budget: dict[str, int] = field(default_factory=dict, hash=False)


class Actor:
    """One exchange after another. `kind` is what it does."""

    def __init__(self, model: EntryModel, kind: str, number: int) -> None:
        self.model, self.kind, self.number = model, kind, number
        self.answers: list[Hashable] = []
        self.work: Generator[Any, Any, None] | None = None
        self.wants: Any = None
        self.has_begun = False
        self.has_ended = False

    def begin(self) -> None:
        self.has_begun = True
        self.work = getattr(self.model, f"do_{self.kind.split()[0]}")(self)
        self.resume(None)

    def resume(self, answer: Any) -> None:
        """Go on to the next request: what needs none is answered at once."""
        assert self.work is not None
        try:
            wants = self.work.throw(answer) if isinstance(answer, Exception) else self.work.send(answer)
            while isinstance(wants, Now | BackOff):
                if isinstance(wants, BackOff) and wants.tries > 2:
                    wants = self.work.throw(wants.error)
                    continue
                now = self.model.now
                wants = self.work.send(Moment(now, float(now), 0.0, 0.0) if isinstance(wants, Now) else None)
            self.wants = wants
        except StopIteration:
            self.wants, self.has_ended = None, True
        except Unavailable:
            self.wants, self.has_ended = None, True


class EntryModel:
    """The node, the actors, and what can happen next."""

    def __init__(self, scenario: EntryScenario, choices: Choices) -> None:
        self.scenario, self._choices = scenario, choices
        self._budget = Counter(scenario.budget)
        self.options = options_of(scenario.reruns)
        look = self.options.look(MARGIN)
        assert look is not None
        self.look: LookOptions = look
        self.at = 0
        self.node: Node | None = None
        if scenario.is_there:
            first = stored.put(None, WantedSchedule(EACH_MINUTE), self.look, START - 60_000)
            assert isinstance(first, dict)
            self.node = first
        # Of each tick that has begun: its attempts. And whether a removal has returned, and no put has begun since.
        self.begun: dict[str, list[int]] = {}
        self.removed_at: int | None = None
        self.puts_since = True
        self.is_troubled = False
        self.late: list[tuple[str, Swap]] = []
        self.trace: list[str] = []
        self.actors = [Actor(self, kind, number) for number, kind in enumerate(scenario.actors)]

    @property
    def now(self) -> int:
        return INSTANTS[self.at]

    # --- what happens

    def play(self) -> None:
        while event := self._choices.pick((Event(name, 1.0, do) for name, do in self._events()), self.state):
            self.trace.append(event.label)
            event.do()
        self._at_end()

    def state(self) -> Hashable:
        return (
            json.dumps(self.node, sort_keys=True),
            self.at,
            tuple((tuple(actor.answers), actor.has_begun, actor.has_ended) for actor in self.actors),
            tuple(sorted(self._budget.items())),
            tuple((who, swap.etag, json.dumps(swap.node, sort_keys=True)) for who, swap in self.late),
            json.dumps(self.begun, sort_keys=True),
            (self.removed_at, self.puts_since, self.is_troubled),
        )

    def _events(self) -> Iterator[tuple[str, Callable[[], None]]]:
        for actor in self.actors:
            name = f"{actor.kind} ({actor.number})"
            if not actor.has_begun and self._may_begin(actor):
                yield f"{name} begins", actor.begin
            if actor.wants is None:
                continue
            what = "reads" if isinstance(actor.wants, Read) else "writes"
            yield f"{name} {what}", partial(self._land, actor)
            if isinstance(actor.wants, Swap) and self._budget["lose"]:
                yield f"{name} writes, without a reply", partial(self._lose, actor, "now")
                yield f"{name} writes, which is late", partial(self._lose, actor, "later")
            if actor.kind.startswith("claim") and self._budget["crash"]:
                yield f"{name} dies", partial(self._die, actor)
        for late in self.late:
            yield f"{late[0]} writes after all", partial(self._arrive, late)
        if self.at + 1 < self.scenario.instants:
            yield f"it becomes {to_text(INSTANTS[self.at + 1])}", self._pass_time

    def _may_begin(self, actor: Actor) -> bool:
        """What comes `then` begins once the one before it has ended."""
        return "then" not in actor.kind or self.actors[actor.number - 1].has_ended

    def _land(self, actor: Actor) -> None:
        answer = self._snapshot() if isinstance(actor.wants, Read) else self._swap(actor.wants, actor.kind)
        actor.answers.append((answer.etag, self.at, isinstance(answer, Snapshot)))
        actor.resume(answer)

    def _lose(self, actor: Actor, when: str) -> None:
        self._budget["lose"] -= 1
        self.is_troubled = True
        if when == "now":
            self._swap(actor.wants, actor.kind)
        else:
            self.late.append((actor.kind, actor.wants))
        actor.answers.append(("lost", self.at))
        actor.resume(Unavailable("no reply"))

    def _arrive(self, late: tuple[str, Swap]) -> None:
        self.late.remove(late)
        self._swap(late[1], late[0])

    def _die(self, actor: Actor) -> None:
        self._budget["crash"] -= 1
        actor.wants, actor.has_ended = None, True
        actor.answers.append("dead")

    def _pass_time(self) -> None:
        self.at += 1

    # --- the database

    def _snapshot(self) -> Snapshot:
        if self.node is None:
            return Snapshot(NULL_ETAG, None)
        return Snapshot(json.dumps(self.node, sort_keys=True), dict(self.node))

    def _swap(self, swap: Swap, kind: str) -> Swapped | Snapshot:
        found = self._snapshot()
        if not self.matches(found.etag, swap.etag):
            return found
        before, self.node = self.node, None if swap.node is None else dict(swap.node)
        self._check_write(kind, before, self.node)
        return Swapped(self._snapshot().etag, float(self.now))

    def matches(self, etag: str, asked: str) -> bool:
        return etag == asked

    # --- the actors

    def do_put(self, actor: Actor) -> Generator[Any, Any, None]:
        wanted = WantedSchedule(
            OTHER_LINE if "other" in actor.kind else EACH_MINUTE, '{"a":1}' if "args" in actor.kind else None
        )
        self.puts_since = True
        yield from protocol.editing(lambda node, now: stored.put(node, wanted, self.look, now))

    def do_remove(self, actor: Actor) -> Generator[Any, Any, None]:
        before = [self.puts_since]
        self.puts_since = False
        yield from protocol.editing(lambda node, now: stored.remove(node, self.look, now))
        others = (one.has_begun and not one.has_ended for one in self.actors if one.kind.startswith("put"))
        is_sure = not any(others) and not any(who.startswith("put") for who, _ in self.late)
        if is_sure and not self.puts_since:
            self.removed_at = self.now
        self.puts_since = self.puts_since or (before[0] and not is_sure)

    def do_claim(self, actor: Actor) -> Generator[Any, Any, None]:
        """Claim the newest tick at this time, renew, and release: as a looker does."""
        came = newest(EACH_MINUTE, 0, self.now, 1)[0]

        def fit(request: Request, current: Current, now: int) -> Request | Refused:
            found = looks.claimable(current, self.options, came)
            if isinstance(found, Refused):
                return found
            record, options, due = found
            claim = choose(record, options, due, now, MARGIN)
            if claim is None:
                return Refused("slot_done", current)
            return replace(request, slot=claim.slot, rerun=claim.is_rerun, missed=claim.missed)

        request = Request(f"token {actor.number}", TTL, "api", "me", MARGIN, fenced=True)
        held = yield from protocol.acquiring(request, None, {}, {}, fit, self.look)
        if not isinstance(held, Held):
            return
        slot = held.record.unfinished
        assert slot is not None
        self._begin(slot, held.record)
        if "briefly" not in actor.kind:
            renewed = yield from protocol.renewing(held, TTL, MARGIN, self.look)
            if not isinstance(renewed, Held):
                return
            held = renewed
        yield from protocol.releasing(
            held, margin=MARGIN, outcome="succeeded", finished=slot, tick=slot, look=self.look
        )

    def do_look(self, actor: Actor) -> Generator[Any, Any, None]:
        """Look once, and write or delete what the look says."""

        def decide(node: object, now: int) -> Node | Kept:
            found = looks.evaluate(node, self.options, now, MARGIN)
            return found.node if isinstance(found, looks.Written) else stored.KEPT

        snapshot, kept = yield from protocol.editing(decide)
        if kept is not None and isinstance(
            looks.evaluate(snapshot.node, self.options, self.now, MARGIN), looks.Deleted
        ):
            yield Swap(snapshot.etag, None)

    # --- what must never be

    def _begin(self, slot: str, record: LockRecord) -> None:
        attempts = self.begun.setdefault(slot, [])
        attempt = int(record.attempt or 1)
        require(not attempts or self.scenario.reruns, f"the tick {slot} begins twice")
        require(attempt not in attempts, f"attempt {attempt} of the tick {slot} begins twice")
        attempts.append(attempt)

    def _check_claim(self, slot: object, since: int) -> None:
        require(isinstance(slot, str), "a late write has taken the lock")
        assert isinstance(slot, str)
        require(to_milliseconds(slot) > since, f"the tick {slot} is claimed although it is before the put")
        if self.removed_at is not None:
            require(self.puts_since, f"the tick {slot} is claimed although the entry was removed")
            require(since >= self.removed_at, "a put after a removal has no since")

    def _check_write(self, kind: str, before: Node | None, after: Node | None) -> None:
        if after is None:
            require(kind.startswith("look"), f"a {kind} has deleted the entry")
            require(before is not None and before.get("closed") is not None, "what is open was deleted")
            require(not stored.is_running(before, self.now, MARGIN), "what a run holds was deleted")
            return
        require(before is not None or kind.startswith("put"), f"a {kind} has created the entry")
        if after.get("holder") != (before or {}).get("holder"):
            self._check_claim(after.get("unfinished"), after["since"])
        require(after.get("nextAt", 0) > 0, f"a {kind} has left no time of the next look")
        for name in ("slot", "fence", "since"):
            low, high = (before or {}).get(name), after.get(name)
            require(low is None or (high is not None and high >= low), f"a {kind} has lowered {name}")
        if "unfinished" in (before or {}) and kind.startswith("put") and "closed" not in (before or {}):
            require(after["nextAt"] <= (before or {})["nextAt"], "a put has put off the look at a run")
        due = stored.next_at(after, self.look, self.now)
        is_unended = kind.startswith("put") and "unfinished" in (before or {})
        require(after["nextAt"] == due or (is_unended and after["nextAt"] < due), f"a {kind} has not set the next look")

    def _at_end(self) -> None:
        """Whatever has died or was missed comes up by itself: the time of the next look is never too late."""
        node = self.node
        if node is None:
            return
        if stored.is_closed(node):
            require(node["nextAt"] <= self.now + 3_600_000 + TTL + MARGIN, "what is closed is never looked at")
            return
        record = LockRecord.read(node, self.now) if "expiresAt" in node else None
        latest = self.now + 60_000 + 3 * MARGIN
        if record is not None and record.releasedAt is None:
            latest = max(record.free_at(MARGIN), 0)
        elif record is not None and self.scenario.reruns and (record.unfinished or "") > to_text(node["since"]):
            latest = self.now
        require(node["nextAt"] <= latest, f"the next look is too late: {node['nextAt'] - self.now} ms from now")


def explore_entries(scenario: EntryScenario) -> Exhaustive:
    """Play every order of what can happen."""
    return play_all(partial(EntryModel, scenario))


KINDS = ("put", "put args", "put other", "remove", "claim", "claim briefly", "look", "look")


def walk_entries(seed: int) -> None:
    """One random way through a large scenario."""
    chance = random.Random(seed)
    actors = tuple(chance.choice(KINDS) for _ in range(chance.randint(3, 7)))
    scenario = EntryScenario(
        actors,
        instants=chance.randint(2, len(INSTANTS)),
        reruns=chance.random() < 0.5,
        is_there=chance.random() < 0.8,
        budget={"lose": chance.choice((0, 0, 1, 2)), "crash": chance.choice((0, 0, 1))},
    )
    model = EntryModel(scenario, Seeded(chance))
    try:
        model.play()
    except AssertionError as error:
        raise type(error)(f"walk {seed}, {scenario}: {error}\n" + "\n".join(model.trace)) from error
