"""What a seed means: the jobs, the fleet, its clocks, the weather, and what happens to it, all chosen beforehand.

A scenario is a plain value. `play` carries it out. The chances are those of trouble, not of daily life: a fleet meets
in minutes what it otherwise meets in years. Most scenarios have one or two kinds of trouble, so that a violation has a
cause which a person can find. Some have all kinds.

The faults end at `fair_from`. What remains, until `ends`, is long enough for each lease to expire, for each round of
recovery, and for some ticks of each job: the oracle expects them to run as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Literal, TypeAlias

from tests.simulation.fleets.bodies import Manner, Work
from tests.simulation.fleets.database import Kind
from tests.simulation.fleets.lines import ticks
from tests.simulation.fleets.times import slot_at, slots_between
from tests.simulation.fleets.weather import Spell
from tests.simulation.greenlets import Temper
from tests.simulation.machines import MILLISECOND, SECOND
from tests.simulation.stand_ins import EPOCH

Trouble: TypeAlias = Literal["network", "crashes", "freezes", "clocks", "deploys", "ambushes", "operator", "outages"]
TROUBLES: tuple[Trouble, ...] = (
    "network", "crashes", "freezes", "clocks", "deploys", "ambushes", "operator", "outages",
)  # fmt: skip
Act: TypeAlias = Literal[
    "start", "stop", "kill", "freeze", "thaw", "step_wall",
    "pause", "resume", "unlock", "delete", "trigger", "trigger_next", "pause_here", "resume_here",
    "occupy", "set_beats", "cancel", "resume_run", "remove", "add", "restart", "use",
]  # fmt: skip
# The machine that starts when the faults end, whatever has become of the others.
LAST = "z1"
# How many of the deployments bring a job that the revision before did not have.
_BRINGS_A_JOB = 0.3
# From so many machines on, half of them and more may be struck at once.
_LARGE = 10
Ambush: TypeAlias = Literal["freeze", "cut_off", "kill", "unanswered", "unlock", "delete", "pause", "cancel"]


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job of the fleet, by the words of its decorator. Durations are seconds. It ticks every `period` seconds: by a
    cron line, or by `every`.
    """

    name: str
    period: int
    work: Work
    lock_ttl: float
    hold_at_least: float = 0.0
    once_per_tick: bool = True
    renew: bool = True
    overlap: str = "skip"
    catch_up: str = "skip"
    grace: float | None = None
    on_abandoned: str = "skip"
    retries: int = 0
    max_runtime: float = 3_600.0
    jitter: float = 0.0
    has_line: bool = True
    role: str | None = None
    catch_up_window: float = 86_400.0
    # A line whose ticks are not all `period` seconds apart, and its zone. `period` is their shortest distance then.
    cron: str | None = None
    zone: str = "UTC"

    @property
    def line(self) -> str | None:
        if not self.has_line:
            return None
        if self.cron is not None:
            return self.cron
        return "* * * * *" if self.period == 60 else f"*/{self.period} * * * * *"

    @property
    def options(self) -> dict[str, object]:
        """The arguments of the decorator, but for name and line."""
        return {
            "lock_ttl": self.lock_ttl,
            "hold_at_least": self.hold_at_least,
            "once_per_tick": self.once_per_tick,
            "renew": self.renew,
            "overlap": self.overlap,
            "catch_up": self.catch_up,
            "grace": self.grace,
            "on_abandoned": self.on_abandoned,
            "retries": self.retries,
            "retry_backoff": 2.0,
            "max_runtime": self.max_runtime,
            "jitter": self.jitter,
            "role": self.role,
            "catch_up_window": self.catch_up_window,
            **({} if self.cron is None else {"timezone": self.zone}),
            **({} if self.has_line else {"every": self.period}),
        }

    def slots(self, start: int, end: int) -> list[str]:
        """Return the ticks from `start` to `end` of true time, both included."""
        if self.cron is None:
            return slots_between(self.period, start, end)
        first, last = -(-(EPOCH + start) // SECOND), (EPOCH + end) // SECOND
        return [slot_at(tick * SECOND - EPOCH) for tick in ticks(self.cron, self.zone, first, last)]

    @property
    def waits(self) -> bool:
        """Whether a tick waits for the end of the run before it."""
        return self.overlap in ("queue", "cancel_previous")

    @property
    def asks_in_waves(self) -> bool:
        """Whether machines may leave a tick to others. With less time than two heartbeats they don't."""
        return self.overlap == "skip" and self.once_per_tick

    @property
    def starts_within(self) -> float:
        """How long after its slot a tick may start, in seconds."""
        if self.waits and self.grace is None:
            return self.period
        return 60.0 if self.grace is None else max(self.grace, 1.0)


@dataclass(frozen=True, slots=True)
class MachineSpec:
    """A process of the fleet: its clocks' errors, and whether its program runs an event loop (`async with crons`).

    `jobs` are the names of those that it has; None means all. It runs jobs without a role, and with one of its `roles`.
    Each sample of RTDB's time is late on its way there by `skew` nanoseconds, or on its way back by as much below zero.
    """

    name: str
    drift: float = 0.0
    wall_error: int = 0
    has_loop: bool = False
    jobs: tuple[str, ...] | None = None
    roles: tuple[str, ...] = ()
    skew: int = 0


@dataclass(frozen=True, slots=True)
class Event:
    """At a time, something happens to a machine or to a job."""

    at: int
    act: Act
    target: str
    amount: int = 0
    value: object = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """What a seed means."""

    seed: int
    troubles: tuple[Trouble, ...]
    jobs: tuple[JobSpec, ...]
    machines: tuple[MachineSpec, ...]
    events: tuple[Event, ...]
    spells: tuple[Spell, ...]
    chances: Mapping[Kind, float]
    latency: tuple[int, int]
    temper: Temper
    settings: Mapping[str, object]
    fair_from: int
    ends: int
    # The chance that the winner of a claim is ambushed, and in which ways.
    ambushes: float = 0.0
    ways: tuple[Ambush, ...] = field(default=())
    # The chance that a machine is struck before a step's call, after it, or after its record; whether there are rules.
    strikes: float = 0.0
    has_rules: bool = False
    # When it begins: what happens, happens from then on.
    begins: int = 0
    # Whether the database refuses all watches, and whether it leaves a counter alone that is no number.
    refuses_watches: bool = False
    keeps_odd_counters: bool = False


def make(
    seed: int, size: int | None = None, contenders: int | None = None, troubles: tuple[Trouble, ...] | None = None
) -> Scenario:
    """Return the scenario of a seed; if given, with so many machines, with these `contenders`, or these `troubles`."""
    random = Random(f"scenario {seed}")
    chosen = _troubles(random)
    troubles = chosen if troubles is None else troubles
    machines = size or random.choice((2, 2, 3, 3, 4, 5, 7))
    jobs = tuple(_job(random, number) for number in range(random.choice((1, 1, 2, 3))))
    longest = max(job.period for job in jobs)
    rough = random.choice((3, 4, 6, 8)) * max(longest, 30) * SECOND
    settle = (max(job.lock_ttl + job.work.most for job in jobs) + 3 * longest + 70) * SECOND
    settings: dict[str, object] = {
        "heartbeat": random.choice((5.0, 10.0, 30.0)),
        "recovery_interval": random.choice((20.0, 60.0)),
        "history_limit": 1_000,
        "workers": random.choice((1, 2, 10, 10)),
        # Half of the seeds let all machines ask for all ticks. The rest of the scenario doesn't depend on this.
        "contenders": (0, 3)[seed % 2] if contenders is None else contenders,
    }
    builder = _Builder(random, troubles, jobs, rough)
    fleet, events = builder.fleet(machines)
    if "deploys" in troubles and len(jobs) > 1 and Random(f"groups {seed}").random() < _BRINGS_A_JOB:
        before = tuple(job.name for job in jobs[:-1])
        fleet = tuple(replace(one, jobs=before) if one.name.startswith("a") else one for one in fleet)
    latency = random.choice(((1, 5), (2, 30), (5, 120), (20, 400)))
    return Scenario(
        seed=seed,
        troubles=troubles,
        jobs=jobs,
        machines=(*fleet, builder.machine(LAST)),
        events=tuple(sorted(events, key=lambda event: event.at)),
        spells=tuple(builder.spells([machine.name for machine in fleet])),
        chances=builder.chances(),
        latency=(latency[0] * MILLISECOND, latency[1] * MILLISECOND),
        temper=Temper(
            yields=random.choice((0.02, 0.1, 0.1, 0.3)),
            stalls=random.choice((0.0, 0.0005, 0.002)),
            longest=random.choice((5, 50, 300)) * MILLISECOND,
        ),
        settings=settings,
        fair_from=rough,
        ends=rough + int(settle),
        ambushes=random.choice((0.1, 0.3, 0.6)) if {"ambushes", "operator"} & {*troubles} else 0.0,
        ways=builder.ways(),
    )


def _troubles(random: Random) -> tuple[Trouble, ...]:
    if random.random() < 0.08:
        return ()
    if random.random() < 0.1:
        return TROUBLES
    return tuple(sorted(random.sample(TROUBLES, random.choice((1, 1, 2, 3)))))


def _job(random: Random, number: int) -> JobSpec:
    period = random.choice((10, 15, 20, 30, 30, 60))
    ttl = float(random.choice((6, 8, 10, 15, 30, 60)))
    overlap = random.choice(("skip", "skip", "skip", "queue", "queue", "allow"))
    has_lease = overlap != "allow"
    once = not has_lease or random.random() < 0.93
    manner: Manner = random.choice(("checks", "checks", "ignores", "async", "async_stubborn"))
    most = random.choice((0.0, 0.5, 3.0, period * 0.6, period * 1.3, ttl * 1.5, ttl * 3))
    work = Work(0.0, most, random.choice((1, 6, 30)), random.choice((0.0, 0.0, 0.2)), manner)
    grace = random.choice((None, None, 5.0, 20.0, 90.0))
    return JobSpec(
        name=f"job-{number}",
        period=period,
        work=work,
        lock_ttl=ttl,
        hold_at_least=random.choice((0.0, 0.0, 0.0, 2.0, ttl)) if has_lease else 0.0,
        once_per_tick=once,
        renew=random.random() < 0.9,
        overlap=overlap,
        catch_up=random.choice(("skip", "skip", "once", "all")) if once else "skip",
        grace=grace,
        on_abandoned=random.choice(("skip", "rerun")) if once and has_lease else "skip",
        retries=random.choice((0, 0, 2)),
        max_runtime=random.choice((3_600.0, 3_600.0, 3_600.0, 20.0)),
        jitter=random.choice((0.0, 0.0, 2.0)) if grace is None or grace > 2 else 0.0,
    )


class _Builder:
    """Chooses the fleet, and what happens to it until the faults end."""

    def __init__(self, random: Random, troubles: tuple[Trouble, ...], jobs: tuple[JobSpec, ...], rough: int) -> None:
        self._random = random
        self._troubles = troubles
        self._jobs = jobs
        self._rough = rough

    def fleet(self, size: int) -> tuple[tuple[MachineSpec, ...], list[Event]]:
        random, troubles = self._random, self._troubles
        specs = [self.machine(f"a{number}") for number in range(1, size + 1)]
        events = [Event(int(random.random() * 2 * SECOND), "start", spec.name) for spec in specs]
        victims = [spec.name for spec in specs]
        if "deploys" in troubles:
            specs, events, victims = self._deployment(specs, events)
        if "crashes" in troubles:
            for name in random.sample(victims, min(len(victims), random.choice((1, 2, 3)))):
                at = self._some_time()
                events.append(Event(at, "kill", name))
                spec = self.machine(f"{name}b")
                specs.append(spec)
                events.append(Event(at + int(random.random() * 20 * SECOND), "start", spec.name))
        if {"crashes", "freezes"} & {*troubles} and size >= _LARGE:
            # Many at once, as with a zone that fails.
            at, struck = self._some_time(), random.sample(victims, int(size * random.choice((0.5, 0.9, 0.95))))
            act: Act = "kill" if "crashes" in troubles else "freeze"
            events += [Event(at, act, name) for name in struck]
            events += [Event(min(at + 40 * SECOND, self._rough), "thaw", name) for name in struck if act == "freeze"]
        if "freezes" in troubles:
            for _ in range(random.choice((1, 2, 4))):
                at, name = self._some_time(), random.choice(victims)
                events.append(Event(at, "freeze", name))
                lasts = int(random.choice((0.5, 3, 12, 40)) * SECOND * (0.5 + random.random()))
                events.append(Event(min(at + lasts, self._rough), "thaw", name))
        if "clocks" in troubles:
            for _ in range(random.choice((1, 2, 4))):
                amount = int(random.choice((-3_600, -2, -0.7, 0.7, 2, 3_600)) * SECOND)
                events.append(Event(self._some_time(), "step_wall", random.choice(victims), amount))
        if "operator" in troubles:
            events += self._operator(victims)
        return tuple(specs), events

    def ways(self) -> tuple[Ambush, ...]:
        """Return the ways in which the winner of a claim may be struck."""
        found: tuple[Ambush, ...] = ()
        if "ambushes" in self._troubles:
            found += ("freeze", "cut_off", "cut_off", "kill", "unanswered")
        if "operator" in self._troubles:
            found += ("unlock", "delete", "pause")
        return tuple(self._random.sample(found, self._random.randint(1, len(found)))) if found else ()

    def spells(self, names: list[str]) -> list[Spell]:
        random, found = self._random, []
        if "outages" in self._troubles:
            for _ in range(random.choice((1, 1, 2))):
                start = 0 if random.random() < 0.1 else self._some_time()
                lasts = int(random.choice((2, 8, 25, 70)) * SECOND * (0.5 + random.random()))
                kind: Kind = random.choice(("lost", "reset", "busy", "busy", "denied", "unanswered", "slow"))
                end = min(start + lasts, self._rough)
                found.append(Spell(start, end, kind, part=random.choice((1.0, 1.0, 0.6))))
        if "network" in self._troubles:
            for _ in range(random.choice((0, 1, 2))):
                start = self._some_time()
                lasts = int(random.choice((2, 8, 25)) * SECOND * (0.5 + random.random()))
                kind = random.choice(("lost", "unanswered", "reset_after", "slow"))
                found.append(Spell(start, min(start + lasts, self._rough), kind, random.choice(names)))
        return found

    def chances(self) -> dict[Kind, float]:
        if "network" not in self._troubles:
            return {}
        kinds: tuple[Kind, ...] = (
            "lost", "unanswered", "reset", "reset_after", "busy", "busy_after", "denied", "slow",
        )  # fmt: skip
        random = self._random
        chosen = random.sample(kinds, random.choice((1, 2, 4, 8)))
        return {kind: random.choice((0.02, 0.08, 0.2)) / len(chosen) for kind in chosen}

    def machine(self, name: str) -> MachineSpec:
        random = self._random
        drifts = "clocks" in self._troubles
        return MachineSpec(
            name,
            drift=(random.random() * 2 - 1) * 190e-6 if drifts else 0.0,
            wall_error=int((random.random() * 2 - 1) * 3_600 * SECOND) if drifts else 0,
            has_loop=random.random() < 0.3,
        )

    def _deployment(
        self, old: list[MachineSpec], events: list[Event]
    ) -> tuple[list[MachineSpec], list[Event], list[str]]:
        random, at = self._random, self._some_time()
        new = [self.machine(f"b{number}") for number in range(1, len(old) + 1)]
        gap = int(random.choice((0.0, 3.0, 15.0)) * SECOND)
        for one, two in zip(old, new, strict=True):
            at = min(at, self._rough)
            events.append(Event(at, "start", two.name))
            # Mostly the new revision is up before the old one goes.
            later = min(self._rough, max(0, at + int((random.random() * 10 - 2) * SECOND)))
            events.append(Event(max(later, 3 * SECOND), "stop", one.name))
            at += gap
        return old + new, events, [one.name for one in new]

    def _operator(self, names: list[str]) -> list[Event]:
        random, found = self._random, []
        for _ in range(random.choice((1, 3, 6))):
            at, job = self._some_time(), random.choice(self._jobs).name
            act: Act = random.choice(("pause", "unlock", "delete", "trigger", "trigger", "trigger_next", "pause_here"))
            target = job if act in ("pause", "unlock", "delete") else f"{random.choice(names)} {job}"
            if act not in ("pause", "pause_here"):
                found.append(Event(at, act, target))
                continue
            end = min(self._rough, at + int(random.random() * 60 * SECOND))
            # Half of the pauses end by themselves.
            ends_itself = act == "pause" and end % 2 == 0
            found.append(Event(at, act, target, value=end if ends_itself else None))
            if not ends_itself:
                found.append(Event(end, "resume" if act == "pause" else "resume_here", target))
        return found

    def _some_time(self) -> int:
        return int(self._random.random() * self._rough)
