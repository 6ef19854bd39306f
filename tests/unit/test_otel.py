"""Metrics: what OpenTelemetry's own reader finds after real jobs and locks have done their work."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, NumberDataPoint
from tests.simulation.instance import Instance
from tests.simulation.network import failing
from tests.simulation.world import World
from tests.unit.locks import lock_of, replace_lock
from tests.unit.test_races import Watched, code_of, looping, race

import firecron.otel
from firecron import FireCron, LockService, Run, distributed_cron
from firecron.base import flag as forks
from firecron.base.events import Events
from firecron.errors import Unavailable
from firecron.leaders.candidate import Candidate
from firecron.leaders.leader import Election
from firecron.otel import instrument
from rtdb_emulator.pytest_plugin import Rtdb

NOW = 1_794_992_400.5
Point: TypeAlias = "tuple[dict[str, object], float]"


class Meters:
    """A provider, and what its reader finds: of a histogram each sum, of everything else each value."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.provider = MeterProvider([self.reader], shutdown_on_exit=False)

    def read(self) -> dict[str, list[Point]]:
        found: dict[str, list[Point]] = {}
        data = self.reader.get_metrics_data()
        for resource in data.resource_metrics if data is not None else []:
            for scope in resource.scope_metrics:
                assert scope.scope.name == "firecron"
                for metric in scope.metrics:
                    points = found.setdefault(f"{metric.name} {metric.unit}", [])
                    for point in metric.data.data_points:
                        assert isinstance(point, HistogramDataPoint | NumberDataPoint)
                        value = point.sum if isinstance(point, HistogramDataPoint) else point.value
                        given = (point.attributes or {}).items()
                        names: dict[str, object] = {key.removeprefix("firecron."): one for key, one in given}
                        points.append((names, value))
        return {name: sorted(points, key=str) for name, points in found.items() if points}


@pytest.fixture
def meters() -> Iterator[Meters]:
    made = Meters()
    yield made
    made.provider.shutdown()


@distributed_cron("good", "0 * * * *", lock_ttl=60)
def good() -> None:
    pass


@distributed_cron("bad", "30 * * * *", lock_ttl=60)
def bad() -> None:
    raise ValueError("no")


def test_what_jobs_do_is_measured(meters: Meters) -> None:
    """Runs by outcome and trigger, their duration and lag in seconds, an acquisition a claim, the last success."""

    @distributed_cron("slow", "15 9 * * *", lock_ttl=60)
    def slow(run: Run) -> None:
        test.clock.advance(7)

    with FireCron(good, bad, slow).testing("2026-11-18T08:59:00Z") as test:
        instrument(test.locks, meters.provider, now=lambda: NOW)
        test.clock.advance(62.5)
        test.advance(0)
        test.move_to("2026-11-18T09:40:00Z")
        test.run("good")
        with test.locks.hold("good", 60):
            test.run("good")
            test.move_to("2026-11-18T10:00:30Z")
    found = meters.read()
    scheduled = {"trigger": "schedule"}
    assert found["firecron.runs {run}"] == [
        ({"job": "bad", "outcome": "failed", **scheduled}, 1),
        ({"job": "good", "outcome": "succeeded", "trigger": "manual"}, 1),
        ({"job": "good", "outcome": "succeeded", **scheduled}, 1),
        ({"job": "slow", "outcome": "succeeded", **scheduled}, 1),
    ]
    assert ({"job": "slow", "outcome": "succeeded"}, 7) in found["firecron.run.duration s"]
    assert found["firecron.run.lag s"] == [
        ({"job": "bad", **scheduled}, 0),
        ({"job": "good", **scheduled}, 2.5),
        ({"job": "slow", **scheduled}, 0),
    ]
    assert found["firecron.lock.acquisitions {acquisition}"] == [
        ({"lock": "bad", "outcome": "acquired"}, 1),
        ({"lock": "good", "outcome": "acquired"}, 3),
        ({"lock": "good", "outcome": "held"}, 2),
        ({"lock": "slow", "outcome": "acquired"}, 1),
    ]
    assert found["firecron.run.last_success s"] == [({"job": "good"}, NOW), ({"job": "slow"}, NOW)]


def test_a_share_of_the_runs_can_be_asked_for(meters: Meters) -> None:
    """The bounds of the buckets are the times that people ask about, from a tenth of a second or 5 ms to a day."""
    with FireCron(good).testing("2026-11-18T08:59:00Z") as test:
        instrument(test.locks, meters.provider)
        test.move_to("2026-11-18T09:00:00Z")
    data = meters.reader.get_metrics_data()
    assert data is not None
    bounds = {
        metric.name: list(point.explicit_bounds)
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
        for point in metric.data.data_points
        if isinstance(point, HistogramDataPoint)
    }
    duration, lag = bounds.pop("firecron.run.duration"), bounds.pop("firecron.run.lag")
    assert bounds == {}
    assert set(duration) >= {0.1, 0.5, 1, 5, 10, 30, 60, 300, 3_600, 86_400}
    assert set(lag) >= {0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 3_600, 86_400}
    for ascending in (duration, lag):
        assert ascending == sorted(set(ascending))
        assert 0 < ascending[0] < ascending[-1] == 86_400


def test_ticks_that_do_not_run_are_measured(meters: Meters) -> None:
    """A tick that is too late is missed, one of an instance that has paused its job is skipped, as this one saw it."""
    crons = FireCron(good)
    with crons.testing("2026-11-18T08:59:00Z") as test:
        instrument(test.locks, meters.provider)
        test.clock.advance(30 * 60)
        test.advance(0)
        test._crons.registry.pause("good")  # an operator has no hand in a rehearsal
        test.move_to("2026-11-18T10:00:00Z")
        test.locks.events.emit("run.missed", "good", logging.WARNING, "three at once", count=3)
    assert meters.read()["firecron.runs {run}"] == [
        ({"job": "good", "outcome": "missed"}, 4),
        ({"job": "good", "outcome": "skipped"}, 1),
    ]


def test_what_befalls_a_lock_is_measured(meters: Meters, world: World) -> None:
    """A lock service alone counts what it asked for, renewals that failed, and leases that were lost."""
    one = Instance(world)
    instrument(one.locks, meters.provider)
    one.acquire().release()
    kept = one.keep()
    world.advance(20)
    one.network.next("swap", before=failing(Unavailable("slow")), times=1000)
    one.outlive()
    assert kept.lost
    one.network.mend()
    one.network.next("swap", before=failing(Unavailable("down")), times=100)
    one.refused("other")
    found = meters.read()
    failures = len([slug for slug in one.slugs() if slug == "lock.renewal_failed"])
    assert failures > 1
    assert found == {
        "firecron.lock.acquisitions {acquisition}": [
            ({"lock": "job", "outcome": "acquired"}, 1),
            ({"lock": "other", "outcome": "unavailable"}, 1),
        ],
        "firecron.lock.renewals_failed {renewal}": [({"lock": "job"}, failures)],
        "firecron.lock.leases_lost {lease}": [({"lock": "job"}, 1)],
    }


def test_what_a_database_answers_is_measured(meters: Meters, rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a real database: acquired, held, paused and malformed are told apart."""
    monkeypatch.setenv("FIREBASE_DATABASE_EMULATOR_HOST", rtdb.emulator.host)
    monkeypatch.setenv("FIRECRON_DATABASE_URL", rtdb.url)
    locks = LockService()
    instrument(locks, meters.provider)
    with locks.hold("import", 60):
        assert not locks.acquire("import", 60)
    rtdb.set("/cron-locks", {"import": {"paused": True}, "export": {"expiresAt": "soon"}})
    assert not locks.acquire("import", 60)
    assert not locks.acquire("export", 60)
    locks.close()
    assert meters.read()["firecron.lock.acquisitions {acquisition}"] == [
        ({"lock": "export", "outcome": "malformed"}, 1),
        ({"lock": "import", "outcome": "acquired"}, 1),
        ({"lock": "import", "outcome": "held"}, 1),
        ({"lock": "import", "outcome": "paused"}, 1),
    ]


def test_undone_it_measures_no_more(meters: Meters) -> None:
    """After it was stopped nothing is counted, and no success is reported; another one counts anew."""
    with FireCron(good).testing("2026-11-18T08:59:00Z") as test:
        stop = instrument(test.locks, meters.provider)
        test.run("good")
        before = meters.read()
        stop()
        stop()
        test.run("good")
        after = meters.read()
    assert before.pop("firecron.run.last_success s")
    assert after == before


def test_names_are_bounded(meters: Meters, monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    """Of locks that are named after data the first ones keep their names, and the others are counted as one."""
    monkeypatch.setattr(firecron.otel, "MOST_NAMES", 2)
    one = Instance(world)
    instrument(one.locks, meters.provider)
    for name in ("a", "b", "c", "d", "a"):
        one.acquire(name).release()
    acquired = meters.read()["firecron.lock.acquisitions {acquisition}"]
    assert {str(names["lock"]): count for names, count in acquired} == {"a": 2, "b": 1, "_other": 2}


def test_a_forked_child_measures_its_own(meters: Meters) -> None:
    """In a child the lock that a thread of the parent may have held is another, and no success is the child's."""
    with FireCron(good).testing("2026-11-18T08:59:00Z") as test:
        others = set(forks.begins)
        instrument(test.locks, meters.provider)
        [begun] = set(forks.begins) - others
        measures = forks.begins[begun][0]()
        test.run("good")
        assert lock_of(measures).acquire(timeout=1)
        forks.begin_child()
        assert "firecron.run.last_success s" not in meters.read()
        test.run("good")
        assert meters.read()["firecron.run.last_success s"]


def test_no_attribute_is_a_key_a_holder_or_a_slot(meters: Meters) -> None:
    """The events of two days bring no more series than those of two hours."""
    with FireCron(good, bad).testing("2026-11-18T08:59:00Z") as test:
        instrument(test.locks, meters.provider)
        test.advance(7200)
        few = {name: [names for names, _ in points] for name, points in meters.read().items()}
        test.advance(172_800)
        many = {name: [names for names, _ in points] for name, points in meters.read().items()}
    assert few == many


@dataclass
class Racing:
    """The measures of one service, whose lock is watched."""

    events: Events
    meters: Meters
    kind: type

    @staticmethod
    def make(lock: Watched) -> Racing:
        with FireCron(good).testing("2026-11-18T08:59:00Z") as test:
            others, meters = set(forks.begins), Meters()
            instrument(test.locks, meters.provider)
            [begun] = set(forks.begins) - others
            measures = forks.begins[begun][0]()
            replace_lock(measures, lock)
            return Racing(test.locks.events, meters, type(measures))

    def succeed(self, name: str) -> None:
        self.events.emit("run.succeeded", name, logging.INFO, "", trigger="manual")

    def names(self, metric: str) -> list[str]:
        return sorted(str(names["job"]) for names, _ in self.meters.read()[metric])


def test_names_that_come_at_once_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two new names, when there is room for one more, one is counted with the others, whichever came first."""
    monkeypatch.setattr(firecron.otel, "MOST_NAMES", 1)
    kind = Racing.make(Watched()).kind

    def check(made: Racing) -> None:
        assert len(set(made.names("firecron.runs {run}")) - {"_other"}) == 1

    race(Racing.make, lambda made: made.succeed("a"), lambda made: made.succeed("b"), code_of(kind, "_name"), check)


def test_a_success_may_come_while_successes_are_read() -> None:
    """A job that succeeds for the first time just when the gauge is read takes no value from the others."""
    found: list[str] = []
    kind = Racing.make(Watched()).kind

    def make(lock: Watched) -> Racing:
        made = Racing.make(lock)
        made.succeed("a")
        return made

    def read(made: Racing) -> None:
        found[:] = made.names("firecron.run.last_success s")

    def check(made: Racing) -> None:
        assert found[:1] == ["a"]

    race(make, read, lambda made: made.succeed("b"), looping(code_of(kind, "_observed")), check)


def test_without_opentelemetry_it_says_what_to_install() -> None:
    """Nothing else of firecron needs OpenTelemetry, and this module names the extra that brings it."""
    program = (
        "import sys\n"
        "sys.modules['opentelemetry'] = sys.modules['opentelemetry.metrics'] = None\n"
        "import firecron.base.events, firecron\n"
        "try:\n    import firecron.otel\n"
        "except ModuleNotFoundError as error:\n    print(error)\n"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=40, check=False)
    assert finished.stdout.endswith(": pip install 'firecron[otel]'\n"), finished.stderr


def test_a_leader_is_a_gauge(world: World, one: Instance, meters: Meters) -> None:
    """It is 1 while this instance leads, and 0 after that; an election counts as an acquisition."""
    stop = instrument(one.crons, meters.provider)
    candidate = Candidate(one.live().locks.database, Election("price-feed", 15_000, 1_000))
    active = candidate.stand()
    assert active is not None
    found = meters.read()
    assert found["firecron.leader {leader}"] == [({"job": "price-feed"}, 1)]
    assert found["firecron.lock.acquisitions {acquisition}"] == [({"lock": "price-feed", "outcome": "acquired"}, 1)]
    candidate.end(active)
    assert meters.read()["firecron.leader {leader}"] == [({"job": "price-feed"}, 0)]
    stop()
    assert "firecron.leader {leader}" not in meters.read()
