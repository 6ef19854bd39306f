"""The fleets that docs/cost.md and its like speak of: many machines, one plain job a minute, one thing that happens.

`python -m tests.simulation --rows 200` plays them with at most so many machines, and prints what a tick has cost and
how late it began.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.simulation.fleets.bodies import Work
from tests.simulation.fleets.costs import EARLY
from tests.simulation.fleets.database import LOCKS
from tests.simulation.fleets.instance import Instance
from tests.simulation.fleets.oracle import Oracle
from tests.simulation.fleets.scenario import LAST, Event, JobSpec, MachineSpec, Scenario
from tests.simulation.fleets.times import slots_between, time_of
from tests.simulation.greenlets import MILLISECOND, SECOND, Temper

_JOB = JobSpec("job", 60, Work(0.0, 0.05, 1, 0.0, "checks"), lock_ttl=30.0)
# The run begins at 08:59:30, so the ticks are at 30 s, 90 s and so on. What happens, happens just before the fourth.
_STRIKES = 210 * SECOND - 2 * SECOND
_ENDS = 570 * SECOND


@dataclass(frozen=True, slots=True)
class Row:
    """A fleet: how many machines, how many die, freeze or come at one time, and what part is replaced a minute."""

    machines: int
    die: int = 0
    freeze: int = 0
    come: int = 0
    replaced: float = 0.0

    def __str__(self) -> str:
        said = f"{self.machines:,}"
        said += f", {self.die:,} die just before a tick" if self.die else ""
        said += f", {self.freeze:,} freeze just before a tick for 100 s" if self.freeze else ""
        said += f", and {self.come:,} more come just before a tick" if self.come else ""
        return said + (f", {self.replaced:.0%} are replaced every minute" if self.replaced else "")


ROWS = (
    Row(12),
    Row(50),
    Row(200),
    Row(1_000),
    Row(200, replaced=0.1),
    Row(50, come=150),
    Row(50, come=950),
    Row(200, die=195),
    Row(200, die=199),
    Row(1_000, die=990),
    Row(200, freeze=100),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of a row, over all its ticks: machines that asked (mean and most), requests, the latest start."""

    askers: float
    most: int
    requests: float
    latest: float
    missed: int
    twice: int


def scenario_of(row: Row, seed: int) -> Scenario:
    """Return the scenario of a row."""
    names = [f"a{number}" for number in range(1, row.machines + 1)]
    # Fleets start over half a minute, as a deployment does.
    events = [Event(25 * SECOND * number // len(names), "start", name) for number, name in enumerate(names)]
    events += [Event(_STRIKES, "kill", name) for name in names[: row.die]]
    for name in names[: row.freeze]:
        events += [Event(_STRIKES, "freeze", name), Event(_STRIKES + 100 * SECOND, "thaw", name)]
    late = [f"b{number}" for number in range(1, row.come + 1)]
    events += [Event(_STRIKES - 10 * SECOND, "start", name) for name in late]
    for number in range(int(row.replaced * row.machines * 6)):
        at = 60 * SECOND + number * int(60 * SECOND / (row.replaced * row.machines))
        late.append(f"c{number}")
        events += [Event(at, "start", late[-1]), Event(at + 2 * SECOND, "stop", names[number % len(names)])]
    return Scenario(
        seed=seed,
        troubles=(),
        jobs=(_JOB,),
        machines=tuple(MachineSpec(name) for name in [*names, *late, LAST]),
        events=tuple(sorted(events, key=lambda event: event.at)),
        spells=(),
        chances={},
        latency=(5 * MILLISECOND, 40 * MILLISECOND),
        temper=Temper(yields=0.02, stalls=0.0005, longest=20 * MILLISECOND),
        settings={"history_limit": 1_000, "workers": 10},
        fair_from=_ENDS - 10 * SECOND,
        ends=_ENDS,
    )


def measure(oracle: Oracle, instances: Mapping[str, Instance]) -> Measured:
    """Return what the ticks of a row have cost, from the second one on: by then each machine is up."""
    job = oracle.jobs[_JOB.name]
    slots = slots_between(_JOB.period, 60 * SECOND, _ENDS - 60 * SECOND)
    askers, requests, lags, twice, missed = [], 0, [], 0, 0
    for slot in slots:
        start = time_of(slot) - EARLY
        end = start + _JOB.period * SECOND
        asked = [
            sum(path == f"{LOCKS}{_JOB.name}" and start <= at < end for at, path in instance.wire.requests)
            for instance in instances.values()
        ]
        askers.append(sum(count > 0 for count in asked))
        requests += sum(asked)
        begun = [body.begun for body in job.bodies if body.slot == slot]
        twice += len(begun) > 1
        missed += not begun
        lags += [(at - time_of(slot)) / SECOND for at in begun[:1]]
    return Measured(
        sum(askers) / len(askers), max(askers), requests / len(slots), max(lags, default=0.0), missed, twice
    )
