"""Wider worlds: each has one thing that the plain ones don't have, beside the trouble that its seed may have anyway.

`widened` returns the scenario of a seed from `WIDER` on. The worlds take turns, so a few seeds meet all of them. They
are small, so that they cost no more than the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from random import Random
from typing import TypeAlias

from tests.simulation.fleets.beside import Use, Way
from tests.simulation.fleets.bodies import Manner
from tests.simulation.fleets.database import Kind
from tests.simulation.fleets.richer import with_steps
from tests.simulation.fleets.scenario import LAST, Act, Event, JobSpec, Scenario, Trouble, make
from tests.simulation.fleets.weather import Spell
from tests.simulation.machines import MILLISECOND, SECOND
from tests.simulation.seeds import world_of
from tests.simulation.stand_ins import EPOCH

World: TypeAlias = Callable[[Scenario, Random], Scenario]

# The margin is a second. A clock is wrong by half of this, and may drift until the next beat.
_NEARLY = 1_860 * MILLISECOND
# Clocks change then: forward, back, and by half an hour.
_CHANGES = (
    ("America/New_York", "2027-03-14T07:00:00+00:00", (1, 3)),
    ("Europe/Berlin", "2027-03-28T01:00:00+00:00", (1, 3)),
    ("America/New_York", "2027-11-07T06:00:00+00:00", (0, 2)),
    ("Australia/Lord_Howe", "2027-04-03T15:00:00+00:00", (0, 2)),
)


def widened(seed: int, size: int | None = None, contenders: int | None = None) -> Scenario:
    """Return the scenario of one of the wider worlds."""
    random = Random(f"wider {seed}")
    name = world_of(seed)
    assert name is not None, "it is one of them"
    world, kinds = _WORLDS[name]
    troubles = (random.choice(kinds),) if kinds and random.random() < 0.5 else ()
    scenario = world(make(seed, size or random.choice((2, 2, 3)), contenders, troubles), random)
    acts = {event.act for event in scenario.events}
    if acts & {"trigger", "resume_run", "remove", "restart"}:
        scenario = replace(scenario, troubles=(*scenario.troubles, "operator"))
    return replace(scenario, events=tuple(sorted(scenario.events, key=lambda event: event.at)))


def _first_ticks(scenario: Scenario, random: Random) -> Scenario:
    """The database, or only its time, is away as the jobs' first tick comes."""
    jobs = tuple(
        replace(job, period=period, has_line=True, grace=random.choice((None, 40.0, 3.0)), jitter=0.0, overlap=overlap)
        for job in scenario.jobs
        for period, overlap in ((random.choice((30, 60)), "skip" if job.overlap == "allow" else job.overlap),)
    )
    first, longest = 30 * SECOND, random.choice((10, 10, 50))
    events = [replace(event, at=int(first - (1.5 + 20 * random.random()) * SECOND)) for event in scenario.events]
    kind: Kind = random.choice(("lost", "reset", "busy", "unanswered", "denied"))
    below = random.choice(("", "cron-instances"))
    away = Spell(
        0, first + int((0.5 + longest * random.random()) * SECOND), kind, below="" if kind == "denied" else below
    )
    return replace(scenario, jobs=jobs, events=tuple(events), spells=(away,), troubles=("outages",))


def _cancels_previous(scenario: Scenario, random: Random) -> Scenario:
    """A tick cancels the run of the tick before it, but no run by hand."""
    jobs, events = [], list(scenario.events)
    for job in scenario.jobs:
        period = random.choice((30, 60))
        manner: Manner = random.choice(("checks", "checks", "async", "ignores"))
        lasts = period * random.choice((0.3, 1.4, 2.5))
        work = replace(job.work, least=lasts / 2, most=lasts, steps=int(lasts), manner=manner)
        jobs.append(
            replace(
                _with_lease(job), period=period, work=work, overlap="cancel_previous", renew=True, max_runtime=3_600.0,
                catch_up="once" if job.catch_up == "all" else job.catch_up, grace=None, hold_at_least=0.0, retries=0,
            )
        )  # fmt: skip
        events += _some(random, scenario, job, ("trigger", "resume_run", "resume_run", "resume_run"), 5)
    return _lasting(replace(scenario, jobs=tuple(jobs), events=tuple(events)), jobs)


def _resumes(scenario: Scenario, random: Random) -> Scenario:
    """An operator lets ticks that failed, or were cut short, be run again."""
    jobs, events = [], list(scenario.events)
    for job in scenario.jobs:
        fails = replace(_with_lease(job), work=replace(job.work, fails=0.5, most=min(job.work.most, 5.0)), retries=0)
        jobs.append(with_steps(fails, random) if random.random() < 0.5 else fails)
        events += _some(random, scenario, job, ("resume_run",), 8)
    return _lasting(replace(scenario, jobs=tuple(jobs), events=tuple(events), has_rules=True), jobs)


def _locks(scenario: Scenario, random: Random) -> Scenario:
    """The programs have locks of their own, beside their jobs."""
    events, names = list(scenario.events), _names(scenario)
    for number in range(20):
        way: Way = random.choice(("acquire", "hold", "with_lock", "once"))
        name = f"migration-{number}" if way == "once" else random.choice(("plain", "fenced"))
        ttl = random.choice((6.0, 10.0, 20.0))
        lasts = random.choice((0.01, 0.1 * ttl, 0.5 * ttl, 1.6 * ttl))
        at = int(random.random() * (scenario.fair_from + 10 * SECOND))
        # Some come all at once, as they do when a fleet starts.
        for user in names if way == "once" else [random.choice(names)]:
            wait = random.choice((None, None, 5.0, 20.0))
            is_async, is_fenced = random.random() < 0.4, name == "fenced" and way != "with_lock"
            use = Use(way, name, ttl, lasts, wait, fenced=is_fenced, is_async=is_async)
            events.append(Event(at + int(random.random() * SECOND // 5), "use", user, value=use))
    return replace(scenario, jobs=scenario.jobs[:1], events=tuple(events), troubles=scenario.troubles)


def _comes_and_goes(scenario: Scenario, random: Random) -> Scenario:
    """Machines have roles, their programs remove jobs and add them, and stop and start again in one process."""
    jobs = tuple(replace(job, role=random.choice((None, "batch", "web"))) for job in scenario.jobs)
    machines = tuple(
        replace(one, roles=("batch", "web") if one.name == LAST else random.choice(((), ("batch",), ("batch", "web"))))
        for one in scenario.machines
    )
    events, names = list(scenario.events), _names(scenario)
    for _ in range(random.choice((2, 4))):
        at, target = _when(random, scenario), f"{random.choice(names)} {random.choice(jobs).name}"
        back = min(scenario.fair_from, at + int(random.random() * 60 * SECOND))
        events += [Event(at, "remove", target), Event(back, "add", target)]
    events += [
        Event(at, "restart", name, int(random.choice((0.1, 5, 20)) * SECOND))
        for name in names
        if random.random() < 0.7 and (at := _when(random, scenario)) < scenario.fair_from - 40 * SECOND
    ]
    return replace(scenario, jobs=jobs, machines=machines, events=tuple(events))


def _skewed_clocks(scenario: Scenario, random: Random) -> Scenario:
    """From birth on, machines are wrong about RTDB's time by nearly the margin: ahead of it, or behind it."""
    machines = tuple(replace(one, skew=random.choice((-_NEARLY, _NEARLY, _NEARLY, 0))) for one in scenario.machines)
    jobs = tuple(
        replace(
            _with_lease(job), period=random.choice((10, 15)), lock_ttl=6.0, hold_at_least=0.0, max_runtime=3_600.0,
            overlap="queue", retries=0,
            work=replace(job.work, least=8.0, most=20.0, steps=80, manner=random.choice(("checks", "ignores"))),
        )
        for job in scenario.jobs[:1]
    )  # fmt: skip
    scenario = _lasting(replace(scenario, jobs=jobs, machines=machines), jobs)
    spells = []
    for name in _names(scenario):
        for _ in range(6):
            start = _when(random, scenario)
            ends = start + int((7 + 8 * random.random()) * SECOND)
            spells.append(Spell(start, ends, random.choice(("lost", "unanswered")), name))
    ways = replace(scenario, spells=tuple(spells), latency=(MILLISECOND, 5 * MILLISECOND))
    return _cut(replace(ways, troubles=("clocks", "network")))


def _zones(scenario: Scenario, random: Random) -> Scenario:
    """Lines whose ticks are not evenly spread, in zones whose clocks change just then."""
    zone, changes, (low, high) = random.choice(_CHANGES)
    begins = round(datetime.fromisoformat(changes).timestamp()) * SECOND - EPOCH - 3 * 60 * SECOND
    jobs = []
    for job in scenario.jobs:
        hours = random.choice(("*", f"{low}-{high}", f"{low},{high - 1},{high}"))
        minutes = random.choice(("*", "*/2", "0-59", "0,1,3,4,6,28,30,31,33,57,58,59"))
        seconds = random.choice(("3,10,40", "0", "0,20,45"))
        jobs.append(
            replace(
                _with_lease(job), cron=f"{seconds} {minutes} {hours} * * *", zone=zone, grace=random.choice((5.0, 7.0)),
                period=7, hold_at_least=0.0, jitter=0.0,
            )
        )  # fmt: skip
    return _later(replace(scenario, jobs=tuple(jobs)), begins)


def _window(scenario: Scenario, random: Random) -> Scenario:
    """Missed ticks are caught up that are not older than a window."""
    window = float(random.choice((25, 45, 90)))
    jobs = tuple(
        replace(
            _with_lease(job), period=period, catch_up_window=window, catch_up=random.choice(("once", "all", "all")),
            overlap="skip", hold_at_least=0.0, grace=5.0, work=replace(job.work, most=min(job.work.most, 0.2 * period)),
            retries=0, max_runtime=3_600.0,
        )
        for job in scenario.jobs
        for period in (random.choice((10, 15)),)
    )  # fmt: skip
    start = int((20 + 20 * random.random()) * SECOND)
    ends = start + int(random.choice((0.5, 1.5, 3)) * window) * SECOND
    away = Spell(start, min(ends, scenario.fair_from), random.choice(("lost", "reset", "busy")))
    return replace(scenario, jobs=jobs, spells=(*scenario.spells, away), troubles=("outages",))


def _counter(scenario: Scenario, random: Random) -> Scenario:
    """Somebody sets the counter of the tickets to what it can't be, again and again."""
    jobs = tuple(replace(job, period=60, grace=None, jitter=0.0) for job in scenario.jobs[:1])
    times = (_when(random, scenario) for _ in range(random.choice((3, 10))))
    values: tuple[object, ...] = ("many", "7", 10**9, 0, -5, 1.5, True, None)
    events = [Event(at, "set_beats", "", value=random.choice(values)) for at in times]
    settings = {**scenario.settings, "contenders": 3, "heartbeat": random.choice((5.0, 10.0, 30.0))}
    return replace(
        scenario, jobs=jobs, events=(*scenario.events, *events), settings=settings,
        keeps_odd_counters=random.random() < 0.5,
    )  # fmt: skip


def _no_watches(scenario: Scenario, random: Random) -> Scenario:
    """The database refuses all watches, so whoever waits has to ask."""
    jobs = tuple(
        replace(
            _with_lease(job), overlap=random.choice(("queue", "cancel_previous")), period=60, grace=None, renew=True,
            catch_up="skip", hold_at_least=0.0, retries=0,
            work=replace(job.work, least=45.0, most=random.choice((70.0, 100.0)), steps=40, manner="checks"),
        )
        for job in scenario.jobs[:1]
    )  # fmt: skip
    return _lasting(replace(scenario, jobs=jobs, refuses_watches=True), jobs)


_WORLDS: dict[str, tuple[World, tuple[Trouble, ...]]] = {
    "first ticks": (_first_ticks, ()),
    "cancels previous": (_cancels_previous, ("network", "crashes", "freezes")),
    "resumes": (_resumes, ("network", "crashes", "freezes", "ambushes")),
    "locks": (_locks, ("network", "crashes", "freezes", "clocks", "outages")),
    "comes and goes": (_comes_and_goes, ("network", "outages", "freezes")),
    "skewed clocks": (_skewed_clocks, ()),
    "zones": (_zones, ("crashes", "freezes", "outages")),
    "window": (_window, ()),
    "counter": (_counter, ("crashes", "freezes")),
    "no watches": (_no_watches, ("network", "crashes")),
}


def _with_lease(job: JobSpec) -> JobSpec:
    """Return the job with what a lock by ticks needs."""
    return replace(job, once_per_tick=True, overlap="skip" if job.overlap == "allow" else job.overlap)


def _names(scenario: Scenario) -> list[str]:
    return [one.name for one in scenario.machines if one.name != LAST]


def _when(random: Random, scenario: Scenario) -> int:
    return int((5 + random.random() * (scenario.fair_from / SECOND - 5)) * SECOND)


def _some(random: Random, scenario: Scenario, job: JobSpec, acts: tuple[Act, ...], number: int) -> list[Event]:
    """Return so many acts of an operator on some machine."""
    return [
        Event(_when(random, scenario), random.choice(acts), f"{random.choice(_names(scenario))} {job.name}")
        for _ in range(number)
    ]


def _lasting(scenario: Scenario, jobs: list[JobSpec] | tuple[JobSpec, ...]) -> Scenario:
    """Return the scenario with the time that the jobs need, and not longer than it takes to see them."""
    fair_from = min(scenario.fair_from, 240 * SECOND)
    longest = max(job.period for job in jobs)
    settles = max(job.lock_ttl + job.work.most for job in jobs) + 3 * longest + 70
    return _cut(replace(scenario, fair_from=fair_from, ends=fair_from + int(settles) * SECOND))


def _cut(scenario: Scenario) -> Scenario:
    """Return the scenario with all trouble over as the faults end."""
    last = scenario.fair_from
    spells = tuple(replace(one, start=min(one.start, last), end=min(one.end, last)) for one in scenario.spells)
    events = tuple(replace(one, at=min(one.at, last)) for one in scenario.events)
    return replace(scenario, spells=spells, events=events)


def _later(scenario: Scenario, begins: int) -> Scenario:
    """Return the scenario as it happens so much later."""
    return replace(
        scenario,
        begins=begins,
        events=tuple(replace(one, at=one.at + begins) for one in scenario.events),
        spells=tuple(replace(one, start=one.start + begins, end=one.end + begins) for one in scenario.spells),
        fair_from=scenario.fair_from + begins,
        ends=scenario.ends + begins,
    )
