"""Fleets of many machines with one plain job a minute, to which one thing happens: what a tick costs them, and its lag.

`python -m tests.simulation --rows 200` plays `ROWS` with at most so many machines.
docs/explanation/large-fleets.md has the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tests.simulation.fleets.bodies import Work
from tests.simulation.fleets.costs import EARLY
from tests.simulation.fleets.database import LOCKS, Database
from tests.simulation.fleets.instance import Instance
from tests.simulation.fleets.oracle import Oracle
from tests.simulation.fleets.scenario import LAST, Event, JobSpec, MachineSpec, Scenario
from tests.simulation.fleets.times import slots_between, time_of
from tests.simulation.fleets.weather import Spell
from tests.simulation.greenlets import Temper
from tests.simulation.machines import MILLISECOND, SECOND

_JOB = JobSpec("job", 60, Work(0.0, 0.05, 1, 0.0, "checks"), lock_ttl=30.0)
_ADDED = replace(_JOB, name="added")
_MINUTE = 60 * SECOND
# It ticks as something happens for the first time.
_NEW = "0 2-59/10 * * * *"
# The run begins at 08:59:30, so the ticks are at 30 s, 90 s and so on. What happens, happens around the third one. By
# then each machine has beaten three times, so it knows how many they are.
_FIRST = 30 * SECOND
_STRUCK = _FIRST + 2 * _MINUTE
_FREEZE = 100 * SECOND


@dataclass(frozen=True, slots=True)
class Row:
    """A fleet, and what happens to it: so many machines die, freeze, come or have no free worker any more.

    With `follow_at_once` so many come just after the tick; `is_new` says that it is the first one of its job.

    `replaced` is the part that is replaced each minute. `follow` machines of a revision with one more job replace the
    first ones, one after another. `overruns` is how many seconds the run of the tick before takes; with `blinks` the
    database resets all connections as that run is renewed first, and with `queues` the next tick waits for its end,
    for `grace` seconds if given. With `cancels` an operator wants to end that run just before its end, and the way to
    the database is slow then; the next run takes as long. `beats` is what somebody sets the counter to. `ticks` of the
    ticks are measured, from the one on around which it happens.
    """

    machines: int
    die: int = 0
    freeze: int = 0
    come: int = 0
    busy: int = 0
    follow_at_once: int = 0
    is_new: int = 0
    replaced: float = 0.0
    follow: int = 0
    overruns: float = 0.0
    blinks: int = 0
    queues: int = 0
    grace: float | None = None
    cancels: int = 0
    beats: tuple[object, ...] = ()
    contenders: int = 3
    ticks: int = 6
    seeds: int = 1

    def __str__(self) -> str:
        said = f"{self.machines:,}"
        said += f", {self.die:,} die just before the tick" if self.die else ""
        said += f", {self.freeze:,} freeze just before the tick for {_FREEZE // SECOND} s" if self.freeze else ""
        said += f", and {self.come:,} more have just come" if self.come else ""
        said += f", {self.follow_at_once:,} come just after it" if self.follow_at_once else ""
        said += f", {self.busy:,} have no free worker" if self.busy else ""
        said += f", {self.replaced:.0%} are replaced every minute" if self.replaced else ""
        said += f", replaced one by one by {self.follow:,} with one more job" if self.follow else ""
        return said + (", FIRECRON_CONTENDERS=0" if not self.contenders else "")

    @property
    def largest(self) -> int:
        """The most machines at one time."""
        return self.machines + self.come


# From so many ticks on after a fleet was frozen it is as it was before, and no more ask than these.
_AS_BEFORE, _MOST_ASK = 5, 16
ROWS = (
    Row(12),
    Row(50),
    Row(200),
    Row(1_000),
    Row(200, contenders=0),
    Row(200, replaced=0.1),
    Row(50, come=950, ticks=1, seeds=4),
    Row(200, die=195, ticks=1, seeds=20),
    Row(200, die=199, ticks=1, seeds=20),
    Row(1_000, die=990, ticks=1, seeds=4),
    Row(200, busy=180, seeds=8),
    Row(200, freeze=100, seeds=8),
    Row(200, follow=200),
)


@dataclass(frozen=True, slots=True)
class Tick:
    """What a tick has cost and when it began.

    `requests` are those for its lock, of the machines that asked. `lag` is in seconds, None if the tick did not begin;
    `begun` is how often it did. `outcome` is what the history says.
    """

    askers: int
    requests: int
    lag: float | None
    begun: int
    outcome: object


def scenario_of(row: Row, seed: int) -> Scenario:
    """Return the scenario of a row."""
    names = [f"a{number}" for number in range(1, row.machines + 1)]
    # The machine that starts when the faults end comes after the last tick that is measured.
    ends = _STRUCK + row.ticks * _MINUTE + 10 * SECOND
    # Fleets start over half a minute, as a deployment does.
    events = [Event(25 * SECOND * number // len(names), "start", name) for number, name in enumerate(names)]
    just_before = _STRUCK - SECOND // 10
    # A stride spreads those that something happens to over the fleet: its machines have started one after another.
    struck = [names[number * 7 % len(names)] if len(names) % 7 else name for number, name in enumerate(names)]
    events += [Event(just_before, "kill", name) for name in struck[: row.die]]
    for name in struck[: row.freeze]:
        events += [Event(just_before, "freeze", name), Event(just_before + _FREEZE, "thaw", name)]
    events += [Event(_STRUCK - 30 * SECOND, "occupy", name) for name in struck[: row.busy]]
    events += [Event(_STRUCK - 5 * SECOND, "set_beats", "", value=value) for value in row.beats]
    late = [f"b{number}" for number in range(1, row.come + 1)]
    events += [Event(_STRUCK - 10 * SECOND, "start", name) for name in late]
    after = [f"e{number}" for number in range(1, row.follow_at_once + 1)]
    events += [Event(_STRUCK + SECOND // 2, "start", name) for name in after]
    late += after
    replaced = int(row.replaced * row.machines * row.ticks)
    for number in range(replaced):
        at = _FIRST + _MINUTE + number * row.ticks * _MINUTE // replaced
        late.append(f"c{number}")
        events += [Event(at, "start", late[-1]), Event(at + 2 * SECOND, "stop", names[number % len(names)])]
    for number in range(row.follow):
        at = _STRUCK - 30 * SECOND + number * (row.ticks - 1) * _MINUTE // row.follow
        late.append(f"d{number}")
        events += [Event(at, "start", late[-1]), Event(at + 2 * SECOND, "stop", names[number])]
    long = slots_between(_JOB.period, _STRUCK - _MINUTE, _STRUCK if row.cancels else _STRUCK - 1)
    takes = tuple((slot, row.overruns) for slot in long if row.overruns)
    first_renewal = _STRUCK - _MINUTE + int(_JOB.lock_ttl / 3 * SECOND)
    cancelled = _STRUCK - _MINUTE + int(row.overruns * SECOND) - SECOND // 2
    spells = [Spell(first_renewal - SECOND, first_renewal + 4 * SECOND, "reset")] if row.blinks else []
    if row.cancels:
        events.append(Event(cancelled, "cancel", _JOB.name))
        spells.append(Spell(cancelled, cancelled + SECOND // 10, "slow"))
    overlap = "queue" if row.queues else _JOB.overlap
    job = replace(_JOB, work=replace(_JOB.work, takes=takes), overlap=overlap, grace=row.grace)
    if row.is_new:
        job = replace(job, cron=_NEW, period=600)
    return Scenario(
        seed=seed,
        troubles=("outages",) if spells else (),
        jobs=(job, _ADDED) if row.follow else (job,),
        machines=tuple(
            MachineSpec(name, jobs=(job.name,) if row.follow and name in names else None)
            for name in [*names, *late, LAST]
        ),
        events=tuple(sorted(events, key=lambda event: event.at)),
        spells=tuple(spells),
        chances={},
        latency=(5 * MILLISECOND, 40 * MILLISECOND),
        temper=Temper(yields=0.02, stalls=0.0005, longest=20 * MILLISECOND),
        settings={
            "heartbeat": 30.0, "contenders": row.contenders, "recovery_interval": 300.0,
            "history_limit": 1_000, "workers": 10,
        },
        fair_from=ends - 5 * SECOND,
        ends=ends,
    )  # fmt: skip


def too_many(row: Row, ticks: Sequence[Tick]) -> list[str]:
    """Return what a fleet that was frozen together asks too often, once that is long over."""
    if not row.freeze or not row.contenders:
        return []
    counts = [tick.askers for tick in ticks[_AS_BEFORE:]]
    return [f"5: {count} of {row.machines} machines ask for a tick" for count in counts if count > _MOST_ASK]


def measure(row: Row, oracle: Oracle, instances: Mapping[str, Instance], database: Database) -> list[Tick]:
    """Return what the ticks of a row have cost, from the one on around which something happens."""
    job, path = oracle.jobs[_JOB.name], f"{LOCKS}{_JOB.name}"
    asked = {name: [at for at, _, asked in one.wire.requests if asked == path] for name, one in instances.items()}
    found = []
    for slot in job.spec.slots(_STRUCK, _STRUCK + row.ticks * _MINUTE - 1):
        start = time_of(slot) - EARLY
        counts = [sum(start <= at < start + _MINUTE for at in times) for times in asked.values()]
        begun = [body.begun for body in job.bodies if body.slot == slot]
        lag = (begun[0] - time_of(slot)) / SECOND if begun else None
        entry = database.store.get(f"cron-runs/{_JOB.name}/{slot}")
        outcome = entry.get("outcome") if isinstance(entry, dict) else None
        found.append(Tick(sum(count > 0 for count in counts), sum(counts), lag, len(begun), outcome))
    return found
