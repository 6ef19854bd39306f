"""Leaders in a simulated fleet: what their bodies do, what befalls them, and what an oracle has seen of their terms.

What is wanted of them is in LEADER's terms, not in the code's:

    38, 44   no two terms are trusted at one time, also where clocks are wrong by nearly the margin from birth on
    39       fences rise
    40       a body has ended before the next one begins on its machine
    41       who ends by itself, again and again, begins later each time; only a term of a minute lets that begin anew
    42       once all is well somebody leads, and a handover takes no longer than promised
    away     who was told to stay away does, whatever its body does as it ends; so does one that was cancelled
    paused   nobody is elected while the name is paused, by an operator or on its own machine
    told     a term that is told to end is kept until its body has ended; `max_term` is its end in any case
    lost     an async body ends soon after its term is lost
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from random import Random
from typing import Literal, TypeAlias

from tests.simulation.fleets.bodies import Failure, Work
from tests.simulation.fleets.database import LOCKS, Fate, Method
from tests.simulation.fleets.instance import Instance
from tests.simulation.fleets.run import World
from tests.simulation.fleets.scenario import JobSpec, Scenario
from tests.simulation.fleets.weather import Spell
from tests.simulation.machines import FOREVER, MILLISECOND, SECOND, Machine
from tests.simulation.stand_ins import EPOCH, sleep

from firecron.app import FireCron
from firecron.base.events import Event
from firecron.leaders.leader import Term, leader

NAME = "reign"
What: TypeAlias = Literal["step_down", "cancel", "pause_here", "pause", "cut"]
Manner: TypeAlias = Literal["heeds", "returns", "raises", "lingers"]
# Seconds.
_MARGIN = 1.0
# A term of a minute is a good one. One that is nearly as long may count as either.
_NEARLY_GOOD = 55.0
_CANCELLED_AWAY = 30.0
# Once all is well: what requests, stalls and a step of the keeper take, and the longest pause between two asks.
_SLACK, _PATIENCE = 3.0, 5.0
# How long a body goes on that doesn't heed its end, and how long an async one cleans up.
_LINGERS, _CLEANS_UP = 20.0, 1.0
# Clocks run by 190 millionths too fast or too slow.
_DRIFT = 0.999


@dataclass(frozen=True, slots=True)
class Act:
    """What befalls the leader at a time: on the machine that leads then, or on a `machine`, for so many seconds."""

    at: int
    what: What
    machine: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Reign:
    """A leader of a fleet. Durations are seconds.

    A body looks at its term each time that `look` has passed. `wrong` are the machines whose idea of RTDB's time is
    wrong by nearly the margin, ahead or behind, from birth on.
    """

    ttl: float = 12.0
    pause: float = 1.0
    max_term: float | None = None
    look: float = 0.5
    manners: tuple[Manner, ...] = ("heeds",)
    asyncs: frozenset[str] = frozenset()
    wrong: dict[str, bool] = field(default_factory=dict)
    acts: tuple[Act, ...] = ()


def led(scenario: Scenario) -> tuple[Scenario, Reign]:
    """Return the scenario with one small job, long enough to see the leaders' promises kept, and a leader for it."""
    random = Random(f"reign {scenario.seed}")
    job = JobSpec("job-0", 60, Work(0.0, 0.5, 1, 0.0, "checks"), 10.0)
    names = tuple(machine.name for machine in scenario.machines)
    fair, ttl = scenario.fair_from, random.choice((6.0, 9.0, 12.0))
    settled = fair + int(_settles(ttl) * SECOND)
    acts = [Act(int(random.random() * fair), *_befalls(random, names)) for _ in range(random.choice((0, 3, 6, 12)))]
    # Once all is well: a step down, and a pause by an operator.
    acts += [Act(settled + 5 * SECOND, "step_down", "", 3.0), Act(settled + 50 * SECOND, "pause", "", 2 * ttl)]
    wrong = {name: random.random() < 0.5 for name in names} if random.random() < 0.3 else {}
    if wrong:  # a clock's error shows where a leader is cut off, and another one takes over
        acts += [Act(int(random.random() * fair), "cut", "", 2 * ttl) for _ in range(4)]
    reign = Reign(
        ttl=ttl,
        pause=random.choice((0.0, 1.0, 4.0)),
        max_term=random.choice((None, None, None, 15.0, 40.0)),
        look=0.2,
        manners=("heeds",)
        if wrong
        else random.choice(
            (("heeds",), ("returns",), ("raises",), ("lingers",), ("returns", "raises"), ("heeds", "raises", "lingers"))
        ),
        asyncs=frozenset(name for name in names if random.random() < 0.3),
        wrong=wrong,
        acts=tuple(acts),
    )
    kept = tuple(
        event
        for event in scenario.events
        if not event.target.startswith("job-") and not event.act.startswith(("trigger", "pause", "resume", "occupy"))
    )
    fleet = tuple(replace(machine, jobs=None) for machine in scenario.machines)
    world = replace(
        scenario, jobs=(job,), machines=fleet, events=kept, ambushes=0.0,
        ends=settled + int((90 + 3 * ttl) * SECOND),
    )  # fmt: skip
    return world, reign


def _befalls(random: Random, names: tuple[str, ...]) -> tuple[What, str, float]:
    what: What = random.choice(("step_down", "step_down", "cancel", "pause_here", "pause", "cut", "cut"))
    lasts: dict[What, tuple[float, ...]] = {
        "step_down": (3.0, 20.0, 45.0), "pause_here": (2.0, 15.0), "pause": (10.0, 25.0), "cut": (10.0, 20.0),
    }  # fmt: skip
    seconds = lasts.get(what, (0.0,))
    return what, random.choice(names) if what == "pause_here" else "", random.choice(seconds)


def _settles(ttl: float) -> float:
    """Return within how many seconds somebody leads once all is well: an old body ends, its node expires, one asks."""
    return _LINGERS + ttl + _MARGIN + 1.0 + _PATIENCE + _SLACK


@dataclass(eq=False)
class Body:
    """One call of a body, in true time. `said` is the event about its end."""

    machine: Machine
    term: Term
    manner: Manner
    is_async: bool
    begun: int
    trusted: int | None = None
    told: int | None = None
    lost: int | None = None
    ended: int | None = None
    away: float = 0.0
    said: str = ""


class Reigns:
    """The terms of all machines of a fleet."""

    def __init__(self, world: World, reign: Reign) -> None:
        self._scheduler = scheduler = world.scheduler
        self._database = world.database
        self._weather = world.weather
        self._instances = instances = world.instances
        self._fair = world.scenario.fair_from
        self._reign = reign
        self.bodies: list[Body] = []
        self._hearing: set[str] = set()
        self._defects: list[str] = []
        self._paused: list[tuple[int, int]] = []
        self._paused_here: dict[str, list[tuple[int, int]]] = {}
        for instance in instances.values():
            instance.declared.append(self._leader_of(instance))
            if instance.name in reign.wrong:
                instance.wire.fate = partial(_skewed, instance.wire.fate, reign.wrong[instance.name])
        for act in reign.acts:
            scheduler.at(act.at, partial(self._happen, act))

    # --- what befalls them

    def _happen(self, act: Act) -> None:
        until = min(self._scheduler.now + int(act.seconds * SECOND), FOREVER if act.at > self._fair else self._fair)
        if act.what == "pause":
            self._edit(paused=True)
            self._paused.append((self._scheduler.now, until))
            self._scheduler.at(until, self._resume)
        elif act.what == "pause_here":
            instance = self._instances[act.machine]
            instance.call(lambda crons: self._pause_here(instance.name, crons, until), "pause a leader")
        elif (body := self._leading()) is not None:
            instance = self._instances[body.machine.name]
            if act.what == "cut":
                self._weather.spells.append(Spell(self._scheduler.now, until, "lost", instance.name))
            elif act.what == "step_down":
                instance.call(lambda crons: self._step_down(body, crons, act.seconds), "step down")
            else:
                holder = str(self._node().get("holder"))
                instance.call(
                    lambda crons: crons.locks.database.cancel(NAME, holder, body.term.fence), "cancel a leader"
                )

    def _leading(self) -> Body | None:
        alive = [one for one in self.bodies if one.ended is None and one.lost is None and one.machine.state == "alive"]
        return alive[-1] if alive else None

    def _step_down(self, body: Body, crons: FireCron, seconds: float) -> None:
        if crons.leadership(NAME).step_down(away_for=seconds) and body.ended is None:
            body.away = max(body.away, seconds)

    def _pause_here(self, name: str, crons: FireCron, until: int) -> None:
        crons.registry.pause(NAME)
        spans = self._paused_here.setdefault(name, [])
        spans.append((self._scheduler.now, FOREVER))
        sleep((until - self._scheduler.now) / SECOND)
        # A second pause, which came meanwhile, ends with this one.
        spans[:] = [(start, min(end, self._scheduler.now)) for start, end in spans]
        crons.registry.resume(NAME)

    def _resume(self) -> None:
        """End the pause by an operator, unless another one has come meanwhile."""
        if all(end <= self._scheduler.now for _, end in self._paused):
            self._edit(paused=None)

    def _node(self) -> dict[str, object]:
        node = self._database.store.get(LOCKS + NAME)
        return dict(node) if isinstance(node, dict) else {}

    def _edit(self, **fields: object) -> None:
        node = {**self._node(), **fields}
        self._database.edit(LOCKS + NAME, {name: value for name, value in node.items() if value is not None} or None)

    # --- what they do

    def _leader_of(self, instance: Instance) -> Callable[[Term], object]:
        reign = self._reign
        declared = leader(NAME, ttl=reign.ttl, pause=reign.pause, max_term=reign.max_term)

        def body(term: Term) -> None:
            one, ends = self._begins(instance, term, is_async=False)
            try:
                while not self._looks(one, instance) and self._scheduler.now < ends:
                    sleep(reign.look)
                lingers_until = self._scheduler.now + int(self._lingers(one) * SECOND)
                while self._scheduler.now < lingers_until:
                    self._looks(one, instance)
                    sleep(reign.look)
                self._raise_as_it_was_to(one)
            finally:
                one.ended = self._scheduler.now

        async def async_body(term: Term) -> None:
            one, ends = self._begins(instance, term, is_async=True)
            try:
                while self._scheduler.now < ends:
                    self._looks(one, instance)  # it is cancelled when its term is over
                    await asyncio.sleep(reign.look)
                self._raise_as_it_was_to(one)
            except asyncio.CancelledError:
                await asyncio.sleep(_CLEANS_UP)
                self._raise_as_it_was_to(one)
                raise
            finally:
                one.ended = self._scheduler.now

        return declared(async_body) if instance.name in reign.asyncs else declared(body)

    def _begins(self, instance: Instance, term: Term, *, is_async: bool) -> tuple[Body, int]:
        """Return the body that begins, and when it ends by itself."""
        machine, random = instance.machine, instance.machine.random
        if machine.name not in self._hearing:
            self._hearing.add(machine.name)
            assert instance.crons is not None
            instance.crons.events.subscribe(partial(self._hear, machine))
        now = self._scheduler.now
        manner: Manner = "heeds" if now >= self._fair else random.choice(self._reign.manners)
        one = Body(machine, term, manner, is_async, now)
        self.bodies.append(one)
        lasts = random.choice((0.0, 0.0, 2.0, 65.0)) if manner in ("returns", "raises") else FOREVER / SECOND
        return one, now + int(lasts * SECOND)

    def _looks(self, one: Body, instance: Instance) -> bool:
        """Note what the body sees of its term. Return whether it is to end."""
        # What `lost` says was so at the look's beginning, whatever happens before the answer is noted.
        at = self._scheduler.now
        assert instance.crons is not None
        is_lost = bool(one.term.lost)
        if not is_lost or instance.crons.leadership(NAME).is_mine:
            one.trusted = at
        if is_lost and one.lost is None:
            one.lost = at
        if one.term.stopping and one.told is None:
            one.told = at
        return is_lost or one.told is not None

    def _lingers(self, one: Body) -> float:
        """Return for how long it goes on after its end: also once, when it steps down, while all is well."""
        is_fair = self._scheduler.now >= self._fair
        return _LINGERS if one.manner == "lingers" or (is_fair and one.away and one.lost is None) else 0.0

    def _raise_as_it_was_to(self, one: Body) -> None:
        if one.manner == "raises":
            raise Failure("as it was to")

    def _hear(self, machine: Machine, event: Event) -> None:
        if event.slug == "worker.failed":
            self._defects.append(f"4: {event.message}")
        if event.slug in ("leader.failed", "leader.stepped_down", "leader.lost"):
            for one in self.bodies:
                if one.machine is machine and one.term.fence == event.fields.get("fence") and one.said != "leader.lost":
                    one.said = event.slug

    # --- what was not as it should be

    def violations(self, ends: int) -> Iterator[str]:
        """Yield what was not as it should be. `ends` is when the fleet was told to stop, in true time."""
        yield from self._defects
        for machine in dict.fromkeys(one.machine for one in self.bodies):
            mine = [one for one in self.bodies if one.machine is machine]
            yield from self._of_machine(machine.name, mine)
        for one in self.bodies:
            yield from self._of_body(one)
        yield from self._of_order()
        yield from self._of_handovers(ends)

    def _of_order(self) -> Iterator[str]:
        trusted = [one for one in self.bodies if one.trusted is not None]
        order = sorted(trusted, key=lambda one: one.begun)
        if [one.term.fence for one in order] != sorted({one.term.fence for one in trusted}):
            yield f"39: the fences of terms don't rise: {[one.term.fence for one in order]}"
        for one, other in pairwise(order):
            if one.trusted is not None and one.trusted >= other.begun:
                yield f"38: {_of(one)} was still trusted when {_of(other)} was"

    def _of_machine(self, name: str, mine: list[Body]) -> Iterator[str]:
        short = 0
        for one, later in pairwise(mine):
            if one.ended is None:
                yield f"40: {_of(later)} began beside {_of(one)}"
                continue
            gap = (later.begun - one.ended) / SECOND
            is_good = (one.ended - one.begun) / SECOND >= _NEARLY_GOOD
            # Not by what it has seen: an async body may be cancelled before it looks (seed 3031060).
            was_told = bool(one.term.stopping)
            ends_by_itself = one.said == "leader.failed" or (one.said == "leader.stepped_down" and not was_told)
            short = 0 if is_good else short + ends_by_itself
            # One return is no reason to wait, and the first pause is a second; half of each pause is chance.
            times = short - (one.said != "leader.failed")
            least = max(1.0, min(30.0, 0.5 * 2.0 ** (times - 1))) if ends_by_itself and times > 0 else 0.0
            if gap < max(least, self._reign.pause) * _DRIFT:
                yield f"41: {_of(later)} began {gap:.1f} s after {_of(one)}, the {short}th of its kind"
            away = max(one.away, _CANCELLED_AWAY if one.term.cancelled else 0.0)
            if gap < away * _DRIFT:
                yield f"away: {_of(later)} began {gap:.1f} s after {_of(one)}, which was to stay away for {away:g} s"
        for one in mine:
            # What was elected as the pause came begins, and is told to end.
            spans = self._paused_here.get(name, []) if one.told is None or one.told > one.begun + SECOND else []
            if any(start < one.begun < end for start, end in spans):
                yield f"paused: {_of(one)} began while the leader was paused there"

    def _of_body(self, one: Body) -> Iterator[str]:
        since = round(one.term.since.timestamp() * 1000) * MILLISECOND - EPOCH
        margin = int(_MARGIN * SECOND)
        if any(start + margin < since < end - margin for start, end in self._paused):
            yield f"paused: {_of(one)} was elected while an operator had paused the name"
        instance = self._instances[one.machine.name]
        longest, stopping = self._reign.max_term, instance.stopping_from
        if longest is not None and one.trusted is not None:
            # A renewal may be under way as the time is over. A body that outlives its program's grace is left behind
            # with its lease, which then expires. Nothing sees the end on a frozen machine before it thaws.
            spans = [(start, end) for start, end in instance.frozen if one.begun < end and start < one.trusted]
            most = (
                longest
                + sum(end - start for start, end in spans) / SECOND
                + self._reign.ttl / 3
                + 1.0
                + (0.0 if stopping is None or one.trusted < stopping else self._reign.ttl)
            )
            if (one.trusted - one.begun) / SECOND > most:
                yield f"told: {_of(one)} was trusted for longer than {longest:g} s"
        if self._is_quiet(one, one.told) and one.lost is not None and one.ended != one.lost and longest is None:
            yield f"told: {_of(one)} was told to end, and lost its term before its body had ended"
        if one.is_async and self._is_quiet(one, one.lost):
            took = ((one.ended or FOREVER) - (one.lost or 0)) / SECOND
            if took > _CLEANS_UP + _SLACK:
                yield f"lost: the async body of {_of(one)} ended {took:.1f} s after the loss"

    def _is_quiet(self, one: Body, at: int | None) -> bool:
        """Return whether this happened to it while all was well, and before its program was told to end."""
        stopping = self._instances[one.machine.name].stopping_from
        return at is not None and at >= self._fair and (stopping is None or at < stopping)

    def _of_handovers(self, ends: int) -> Iterator[str]:
        """Once all is well somebody leads all the time but for handovers, and for the operator's pause."""
        reign = self._reign
        at = self._fair + int(_settles(reign.ttl) * SECOND)
        looks: list[tuple[int, int]] = sorted(
            (one.begun, one.trusted) for one in self.bodies if one.trusted is not None and one.trusted >= at
        )
        crash = reign.ttl + _MARGIN + 1.0
        for begun, trusted in [*looks, (ends, ends)]:
            gap = begun - at
            paused = sum(max(0, min(end, begun) - max(start, at)) for start, end in self._paused)
            # After a loss the node expires; after a release a follower polls, by its wave.
            most = (crash if reign.max_term is not None else 4.0) + _PATIENCE + _SLACK
            if (gap - paused) / SECOND > most:
                yield f"42: nobody led for {gap / SECOND:.1f} s until {begun / SECOND:.1f} s although all was well"
            at = max(at, trusted)
        for start, end in self._paused:
            if start < self._fair:
                continue
            late = [one for one in self.bodies if one.begun < end and (one.trusted or 0) > start + self._steps_down()]
            late = [one for one in late if one.begun < start or one.begun > start + SECOND]
            if late:
                yield f"paused: {_of(late[0])} was trusted long after an operator had paused the name"

    def _steps_down(self) -> int:
        """Return within which time a leader reads that it is paused, and its body ends, in nanoseconds."""
        return int((self._reign.ttl / 3 + 8.0 + _CLEANS_UP + _SLACK) * SECOND)


def _of(one: Body) -> str:
    return f"the term {one.term.fence} of {one.machine.name} ({one.manner}, from {one.begun / SECOND:.1f} s)"


def _skewed(
    fate: Callable[[Machine, Method, str], Fate], is_ahead: bool, machine: Machine, method: Method, path: str
) -> Fate:
    """Let what asks for the time take nearly two margins one way, and none the other."""
    found = fate(machine, method, path)
    if method not in ("timestamp", "merge") or found.kind != "answered":
        return found
    slow, fast = int(1.85 * _MARGIN * SECOND), MILLISECOND
    return Fate("answered", slow, fast) if is_ahead else Fate("answered", fast, slow)
