"""Worlds in which operators hold all jobs, pause some by hand, and ask for runs, beside the troubles of a plain world.

    1   while a hold stands, after it has returned, no tick of a job begins that it says it holds, but where somebody
        has paused or resumed that job since. A job that is declared meanwhile is held soon
    2   once all holds are taken back exactly those jobs are paused that an operator has paused, and nobody resumed
    1   an ask begins at most once, in five minutes or never. What is taken is run, or there is a reason among the acts
    2   an ask that a machine could take is taken at its next beat

Ticks, pauses and histories have the oracle of the plain worlds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from functools import partial
from random import Random
from typing import Literal, TypeAlias, TypeVar

from tests.simulation.fleets.database import LOCKS
from tests.simulation.fleets.instance import Instance
from tests.simulation.fleets.run import World
from tests.simulation.fleets.scenario import LAST, Event, JobSpec, MachineSpec, Scenario, make
from tests.simulation.fleets.terminals import Terminals
from tests.simulation.fleets.timeline import at
from tests.simulation.fleets.times import number, server_time
from tests.simulation.machines import FOREVER, MILLISECOND, SECOND, Machine
from tests.simulation.stand_ins import EPOCH

from firecron.jobs.run import Run
from firecron.lock.database import Database
from firecron.ops.asks import Asked, NotAsked, RunAsks
from firecron.ops.holds import HeldJobs, Holds, ResumedJobs
from firecron.ops.operator import Operator

What: TypeAlias = Literal["hold", "unhold", "unhold_all", "pause", "resume", "console_pause", "console_resume", "ask"]
T = TypeVar("T")
# The one that only machines have which come later.
NEW = "job-new"
MARGIN = 1_000
# How long an ask is valid, and how long after its end somebody says why it was not run.
_VALID, _SAID = 300 * SECOND, 45 * SECOND


@dataclass(frozen=True, slots=True)
class Act:
    """What an operator does at a time. `seconds` is how long a hold or a pause lasts, without an end if it is 0."""

    at: int
    what: What
    job: str = ""
    seconds: float = 0.0
    match: str | None = None
    kind: str = "run"


@dataclass(frozen=True, slots=True)
class Operated:
    """What operators do in a world. `quiet` are times at which nobody holds anything any more."""

    killed: float
    acts: tuple[Act, ...]
    quiet: tuple[int, ...]
    asked_when_well: int


def held(seed: int) -> tuple[Scenario, Operated]:
    """Return the scenario of a seed with some small jobs, and what its operators do."""
    random = Random(f"held {seed}")
    scenario = make(seed, random.choice((1, 2, 2, 3)))
    names = ("job-0", "job-1", NEW)
    jobs = tuple(_job(random, name) for name in names)
    fair, heartbeat = min(scenario.fair_from, 100 * SECOND), random.choice((5.0, 5.0, 10.0))
    machines, events = _fleet(scenario, random, fair)
    settled = fair + int((4 * heartbeat + 12.0) * SECOND)
    acts = (*_acts(random, fair), *_acts_when_well(settled))
    ends = settled + int((95.0 + 2 * heartbeat) * SECOND)
    if random.random() < 0.25:
        last = max((act.at for act in acts if act.what == "ask"), default=0)
        ends = max(ends, last + _VALID + _SAID + 10 * SECOND)
    spells = tuple(replace(one, start=min(one.start, fair), end=min(one.end, fair)) for one in scenario.spells)
    settings = {**scenario.settings, "heartbeat": heartbeat, "recovery_interval": 20.0, "workers": 10}
    world = replace(
        scenario, jobs=jobs, machines=machines, events=events, spells=spells, settings=settings, fair_from=fair,
        ends=ends, ambushes=0.0, troubles=(*scenario.troubles, "operator"),
    )  # fmt: skip
    quiet = (settled - SECOND, settled + 62 * SECOND)
    return world, Operated(random.choice((0.0, 0.2, 0.5)), acts, quiet, settled + 70 * SECOND)


def _job(random: Random, name: str) -> JobSpec:
    job = make(random.randrange(1_000_000), 1).jobs[0]
    work = replace(job.work, most=random.choice((0.0, 0.5, 3.0)))
    return replace(
        job, name=name, work=work, once_per_tick=True, catch_up="skip",
        hold_at_least=0.0, retries=0, max_runtime=3_600.0, renew=True, jitter=0.0,
    )  # fmt: skip


def _fleet(scenario: Scenario, random: Random, fair: int) -> tuple[tuple[MachineSpec, ...], tuple[Event, ...]]:
    """Return the machines, of which the first ones don't have the new job, and what befalls them."""
    is_new = random.random() < 0.6
    before = ("job-0", "job-1") if is_new else None
    machines = tuple(
        replace(one, jobs=None if one.name == LAST or one.name.startswith("b") else before) for one in scenario.machines
    )
    acts = ("start", "stop", "kill", "freeze", "thaw", "step_wall")
    events = [replace(event, at=min(event.at, fair)) for event in scenario.events if event.act in acts]
    later = MachineSpec("n1", has_loop=random.random() < 0.3)
    events.append(Event(int(random.random() * fair), "start", later.name))
    return (*machines[:-1], later, machines[-1]), tuple(sorted(events, key=lambda event: event.at))


def _acts(random: Random, fair: int) -> tuple[Act, ...]:
    found: list[Act] = []
    jobs = ("job-0", "job-1", NEW)

    def some_time() -> int:
        return int((8 + random.random() * (fair / SECOND - 8)) * SECOND)

    for _ in range(random.choice((0, 1, 2, 3))):
        begin = some_time()
        match = random.choice((None, None, "job-*", "job-0"))
        found.append(Act(begin, "hold", "", random.choice((10.0, 25.0, 60.0)), match))
        if random.random() < 0.7:
            found.append(
                Act(min(fair, begin + int(random.random() * 30 * SECOND)), random.choice(("unhold", "unhold_all")))
            )
        if random.random() < 0.4:  # it is taken back while it is made
            found.append(Act(min(fair, begin + int(random.random() * 2 * SECOND)), "unhold_all"))
        if random.random() < 0.3:  # it is repeated, whatever has become of it
            found.append(Act(min(fair, begin + 3 * SECOND), "hold", "", 30.0, match))
    for _ in range(random.choice((0, 1, 3))):
        what: What = random.choice(("pause", "pause", "console_pause", "resume", "console_resume"))
        found.append(Act(some_time(), what, random.choice(jobs), random.choice((0.0, 5.0, 20.0, 90.0))))
    for _ in range(random.choice((0, 2, 4))):
        kind = random.choice(("run", "run", "run", "slot"))
        found.append(Act(some_time(), "ask", random.choice(jobs), 0.0, None, kind))
    return tuple(found)


def _acts_when_well(settled: int) -> tuple[Act, ...]:
    """Return what operators do once nothing goes wrong: what they are told then has to be so at once."""
    # The world has resumed all jobs in the console as the faults ended.
    begin = settled - 10 * SECOND
    return (
        Act(begin, "unhold_all"),
        Act(settled, "pause", "job-1", 75.0),
        Act(settled + 3 * SECOND, "hold", "", 80.0),
        Act(settled + 10 * SECOND, "console_pause", NEW),
        Act(settled + 20 * SECOND, "hold", "", 40.0, "job-0"),
        Act(settled + 35 * SECOND, "unhold"),
        Act(settled + 50 * SECOND, "unhold_all"),
        Act(settled + 65 * SECOND, "resume", "job-1"),
        Act(settled + 65 * SECOND, "console_resume", NEW),
        Act(settled + 70 * SECOND, "ask", "job-0"),
    )


@dataclass
class Hold:
    """A hold that has returned: which jobs it says it holds, and until when it stands. If the hold was not recorded, it
    goes with any other one that is taken back (seed 5001099).
    """

    name: str
    begun: int
    returned: int
    ends: int
    match: str | None
    jobs: tuple[str, ...]
    is_recorded: bool


@dataclass
class Ask:
    """An ask: what was written, and what became of it."""

    job: str
    id: str
    by: str
    kind: str
    at: int
    taken: list[tuple[int, str]] = field(default_factory=list)
    bodies: list[tuple[int, str]] = field(default_factory=list)
    removed: int | None = None


@dataclass
class Word:
    """An operator's word about one job, as it was written: a pause, until an instant or without end, or a resume."""

    at: int
    is_pause: bool
    until: int | None = None


class Operators:
    """The operators of one world, and what an oracle has seen of their holds and asks."""

    def __init__(self, world: World, operated: Operated) -> None:
        self._world = world
        self._scheduler = scheduler = world.scheduler
        self._database = world.database
        self._operated = operated
        self._terminals = Terminals(world, operated.killed)
        self._what: dict[str, What] = {}
        self.holds: list[Hold] = []
        self.asks: dict[str, Ask] = {}
        self._words: dict[str, list[Word]] = {}
        # When each hold began to be taken back, and which of them have been.
        self._unheld: dict[str, int] = {}
        self._taken_back: set[str] = set()
        self._declared: dict[str, tuple[int, str]] = {}
        self._asked = 0
        world.watching.append(self._watch)
        world.oracle.beginning.append(self._begins)
        for act in operated.acts:
            scheduler.at(act.at, partial(self._happen, act))
        for time in operated.quiet:
            scheduler.at(time, self._check_quiet)

    # --- what they do

    def _happen(self, act: Act) -> None:
        match act.what:
            case "hold":
                self._hold(act)
            case "unhold":
                standing = [hold for hold in self.holds if hold.name not in self._unheld]
                if standing:
                    self._begin(act, partial(self._unhold, standing[-1].name), self._resumed)
            case "unhold_all":
                self._begin(act, self._unhold_all, lambda done: None)
            case "pause":
                ends = self._instant(act.seconds) if act.seconds else None
                self._begin(act, lambda database: Operator(database).pause(act.job, "by hand", ends, by="ops"))
            case "resume":
                self._begin(act, lambda database: Operator(database).resume(act.job, by="ops"))
            case "ask":
                self._ask(act)
            case _:
                self._edit(act)

    def _begin(
        self, act: Act, work: Callable[[Database], T], done: Callable[[T], object] = lambda result: None
    ) -> None:
        name = self._terminals.run(f"{act.what} {act.job}", work, done)
        self._what[name] = act.what

    def _instant(self, seconds: float) -> datetime:
        now = datetime.fromtimestamp((EPOCH + self._scheduler.now) / SECOND, UTC)
        return now + timedelta(seconds=seconds)

    def _hold(self, act: Act) -> None:
        begun, until = self._scheduler.now, self._instant(act.seconds)

        def hold(database: Database) -> HeldJobs:
            return Holds(database).hold(until, "it is tried", match=act.match, by="ops")

        def done(made: HeldJobs) -> None:
            if made.is_taken_back:
                return
            for job in made.held if made.hold.name in self._taken_back else ():
                if self._pausing(self._node(job), made.hold.name):
                    self._violated("2", "{} is held by {}, which was taken back meanwhile", job, made.hold.name)
            ends = made.hold.until * MILLISECOND - EPOCH
            returned = self._scheduler.now
            self.holds.append(Hold(made.hold.name, begun, returned, ends, act.match, made.held, made.is_recorded))

        self._begin(act, hold, done)

    def _unhold(self, name: str, database: Database) -> ResumedJobs:
        self._unheld.setdefault(name, self._scheduler.now)
        done = Holds(database).unhold(name, by="ops")
        if not done.failed:
            self._taken_back.add(name)
        return done

    def _unhold_all(self, database: Database) -> str:
        done = [self._unhold(view.hold.name, database) for view in Holds(database).seen()]
        return f"{len(done)} taken back"

    def _resumed(self, done: ResumedJobs) -> None:
        """Unhold has said which jobs run again."""
        for job in done.resumed:
            words = self._words.get(job, [])
            if any(word.at > self._unheld[done.hold] for word in words):
                continue
            node = self._node(job)
            if self._pausing(node, done.hold):
                self._violated("2", "{} is resumed, and its hold {} is still there: {}", job, done.hold, node)

    def _ask(self, act: Act) -> None:
        self._asked += 1
        by = f"asker-{self._asked}"

        def ask(database: Database) -> Asked | NotAsked:
            return RunAsks(database).ask(act.job, slot="now" if act.kind == "slot" else None, by=by)

        self._begin(act, ask)

    def _edit(self, act: Act) -> None:
        """What an operator types in the console: a pause of their own, or its end."""
        node = self._node(act.job)
        if act.what == "console_pause":
            now = server_time(self._scheduler.now)
            until = {"pausedUntil": now + int(act.seconds * 1000)} if act.seconds else {}
            node.pop("pausedUntil", None)  # what else a hold has left there stays
            node |= {"paused": True, "pausedBy": "somebody", "pausedAt": now, **until}
        elif "paused" in node:
            node["paused"] = False
        self._world.timeline.say("CONSOLE", "{} {}", act.what, act.job)
        self._database.edit(f"{LOCKS}{act.job}", node or None)

    def _node(self, job: str) -> dict[str, object]:
        found = self._database.store.get(f"{LOCKS}{job}")
        return dict(found) if isinstance(found, dict) else {}

    # --- what the database does

    def _watch(self, path: str, before: object, after: object, machine: Machine | None) -> None:
        old, new = (node if isinstance(node, dict) else {} for node in (before, after))
        now = self._scheduler.now
        room, _, name = path.partition("/")
        if room == "cron-locks":
            changed = any(old.get(one) != new.get(one) for one in ("paused", "pausedBy", "pausedAt", "pausedUntil"))
            is_word = machine is None or self._what.get(machine.name) in ("pause", "resume")
            if is_word and changed:
                until = new.get("pausedUntil")
                is_pause = new.get("paused") not in (None, False)
                self._words.setdefault(name, []).append(Word(now, is_pause, until if isinstance(until, int) else None))
        elif room == "cron-jobs" and machine is not None and not old:
            self._declared.setdefault(name, (now, machine.name))
        elif room == "cron-asks":
            self._asks_change(name, old, new, machine)

    def _asks_change(
        self, job: str, old: Mapping[str, object], new: Mapping[str, object], machine: Machine | None
    ) -> None:
        now, who = self._scheduler.now, "the console" if machine is None else machine.name
        before, after = (self.asks.get(f"{job} {node.get('id')}") for node in (old, new))
        self._world.timeline.say("DATABASE", "the ask for {}: {} by {}", job, dict(new), who)
        if new and after is None:
            ask = Ask(job, str(new["id"]), str(new["by"]), str(new["kind"]), number(new["at"]) * MILLISECOND - EPOCH)
            self.asks[f"{job} {ask.id}"] = ask
            self._note_takers(ask)
            is_over = before is None or now >= before.at + _VALID - MARGIN * MILLISECOND
            if not is_over and old.get("takenBy") is None:
                self._violated("1", "{} replaces an ask for {} that is valid: {}", who, job, old)
        if before is not None and (not new or after is not before):
            before.removed = now
            if old.get("takenBy") is None and now < before.at + _VALID - MARGIN * MILLISECOND:
                self._violated("1", "{} removes an ask for {} that is valid, and nobody has taken it", who, job)
        if after is not None and new.get("takenBy") not in (None, old.get("takenBy")):
            after.taken.append((now, who))
            if old.get("takenBy") is not None:
                self._violated("1", "{} takes an ask for {} that is taken", who, job)
            if now > after.at + _VALID + 2 * MARGIN * MILLISECOND and now < after.at + _VALID + 3_600 * SECOND:
                self._violated("1", "{} takes an ask for {} that is over", who, job)

    def _note_takers(self, ask: Ask) -> None:
        """Whoever takes an ask acquires the lock first, and gives it back if another one was faster."""
        history, ends = self._world.oracle.jobs[ask.job], ask.at + _VALID + _SAID
        for name, instance in self._world.instances.items():
            history.looked.append((name, ask.at - SECOND, ends))
            if ask.kind == "slot":
                instance.ran_by_hand.setdefault(ask.job, []).append((ask.at - SECOND, ends))

    def _begins(self, run: Run, machine: Machine) -> None:
        """A body begins: perhaps of an ask."""
        _, _, own = run.idempotency_key.rpartition(":")
        ask = self.asks.get(f"{run.name} {own}")
        if ask is not None:
            ask.bodies.append((self._scheduler.now, machine.name))
            if len(ask.bodies) > 1:
                self._violated("1", "the ask of {} for {} begins again", ask.by, ask.job)

    # --- what was not as it should be

    def _check_quiet(self) -> None:
        """Nobody holds anything any more: what is paused is what an operator has paused."""
        now = server_time(self._scheduler.now)
        standing = self._database.store.get("cron-hold")
        if isinstance(standing, dict) and any(number(one.get("until")) > now for one in standing.values()):
            self._violated("2", "there still are holds: {}", standing)
        for job in self._world.oracle.jobs:
            node, words = self._node(job), self._words.get(job, [])
            word = words[-1] if words else None
            until = node.get("pausedUntil")
            is_paused = node.get("paused") not in (None, False) and not (isinstance(until, int) and until <= now)
            is_meant = word is not None and word.is_pause and (word.until is None or word.until > now)
            if is_paused != is_meant:
                said = "is paused" if is_paused else "is not paused"
                self._violated("2", "{} {} once all holds are taken back: {}, and {}", job, said, node, word)

    def judge(self) -> None:
        """Add what was wrong as a whole."""
        for hold in self.holds:
            self._check_hold(hold)
        acts = self._database.store.get("cron-acts")
        said = " ".join(str(act.get("why")) for act in acts.values() if act.get("act") == "lapse") if (
            isinstance(acts, dict)
        ) else ""  # fmt: skip
        for ask in self.asks.values():
            self._check_ask(ask, said)

    def _check_hold(self, hold: Hold) -> None:
        """No tick of what is held begins while the hold stands."""
        if not hold.is_recorded and not self._unheld.keys() <= {hold.name}:
            return
        ends = min(hold.ends - MARGIN * MILLISECOND, self._unheld.get(hold.name, FOREVER))
        for name, job in self._world.oracle.jobs.items():
            since = hold.returned
            if name not in hold.jobs:
                begun, who = self._declared.get(name, (0, ""))
                is_new = begun > hold.begun and (hold.match is None or fnmatchcase(name, hold.match))
                since = begun + self._soon
                if not is_new or who not in self._world.instances or not _is_sound(
                    self._world.instances[who], begun - SECOND, since
                ):  # fmt: skip
                    continue
            for claim in job.claims:
                touched = any(hold.begun <= word.at <= claim.at for word in self._words.get(name, []))
                if since < claim.at < ends and not touched:
                    self._violated(
                        "1", "{} claims {} of {}, which {} holds since {}",
                        claim.machine, claim.slot, name, hold.name, at(since),
                    )  # fmt: skip

    @property
    def _soon(self) -> int:
        scenario = self._world.scenario
        return 5 * SECOND + 20 * scenario.latency[1] + 8 * scenario.temper.longest

    def _check_ask(self, ask: Ask, said: str) -> None:
        scenario, instances = self._world.scenario, self._world.instances
        job = self._world.oracle.jobs[ask.job]
        is_said = f"{ask.by} has asked" in said
        has_run = bool(ask.bodies)
        if ask.kind == "slot" and ask.taken:  # its run is that of its tick
            taken_at, who = ask.taken[0]
            has_run = any(body.machine == who and body.begun >= taken_at for body in job.bodies)
        over = ask.at + _VALID
        if (has_run or ask.bodies) and not ask.taken:
            self._violated("1", "the ask of {} for {} runs, and nobody has taken it", ask.by, ask.job)
        if over + _SAID < scenario.ends:
            if not has_run and not is_said:
                self._violated("1", "the ask of {} for {} was not run, and nobody says why", ask.by, ask.job)
            if ask.removed is None:
                self._violated("2", "the ask of {} for {} is still there", ask.by, ask.job)
        if ask.taken and not has_run and not is_said:
            taken_at, who = ask.taken[0]
            if who in instances and _is_sound(instances[who], taken_at - SECOND, taken_at + self._soon):
                self._violated("1", "{} takes the ask of {} for {}, and doesn't run it", who, ask.by, ask.job)
        if ask.at >= self._operated.asked_when_well:
            heartbeat = float(str(scenario.settings["heartbeat"]))
            soon = ask.at + int((2 * heartbeat + job.spec.work.most + job.spec.lock_ttl) * SECOND) + self._soon
            if not any(begun <= soon for begun, _ in ask.bodies):
                self._violated("2", "the ask of {} for {} is not run until {}", ask.by, ask.job, at(soon))

    def _pausing(self, node: Mapping[str, object], hold: str) -> bool:
        """Return whether a hold is among the pauses of a lock that are not over (seed 5000338)."""
        if node.get("paused") in (None, False):
            return False
        now = server_time(self._scheduler.now)
        pauses = [node, *json.loads(str(node.get("pausedOver") or "[]"))]
        return any(one.get("pausedWith") == hold and number(one.get("pausedUntil")) > now for one in pauses)

    def _violated(self, rule: str, form: str, *values: object) -> None:
        self._world.oracle.violated(rule, form, *values)


def _is_sound(instance: Instance, start: int, end: int) -> bool:
    """Return whether a machine lived and had no trouble in between."""
    spans = [*instance.away, *instance.wire.troubles]
    is_up = instance.started_at is not None and instance.started_at <= start and not instance.has_gone(end)
    return is_up and not any(since <= end and until >= start for since, until in spans)
