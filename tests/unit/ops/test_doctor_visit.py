"""The doctor's visit to a database in memory, in virtual time."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.ops.examined import by_check, levels

import firecron.ops.doctor
from firecron.base.clocks import Deadline
from firecron.errors import Denied, Unavailable
from firecron.locks import LockService
from firecron.ops.doctor import Examination
from firecron.ops.findings import Finding
from firecron.rtdb.target import Target
from firecron.settings import load
from firecron.store import Node, Snapshot
from firecron.testing import FakeTiming, MemoryStore


class Visit:
    """A database in memory, and an instance whose wall clock and network may be bad."""

    def __init__(self, round_trip: float = 0.0, wall_error: float = 0.0, **values: object) -> None:
        self.timing = FakeTiming()
        self.store = MemoryStore(self.timing.now)
        mine = FakeTiming(wall=self.timing.wall() + wall_error * 1000, base=self.timing.mono)
        settings = load(database_url=None, **values)
        self.way = Way(self.store, lambda: self.timing.advance(round_trip))
        self.locks = LockService(settings=settings, store=self.way, timing=mine, has_threads=False)
        self.examination = Examination(self.locks.database, may_tick=False)

    def findings(self, **parameters: str) -> list[Finding]:
        return list(self.examination.findings(Target("http://memory", {"ns": "x", **parameters}, None)))


@pytest.fixture(autouse=True)
def strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be read without credentials: there is no server to ask."""
    monkeypatch.setattr(firecron.ops.doctor, "may_read", lambda target, path, deadline: False)


class Way(MemoryStore):
    """A way to a store: it takes its time for each timestamp and each read, and calls `before` with each request."""

    def __init__(self, store: MemoryStore, take: Callable[[], None]) -> None:
        self.__dict__ = store.__dict__
        self._take = take
        self.before: Callable[[str, str, Node], None] = lambda method, path, node: None

    def timestamp(self, path: str, deadline: Deadline) -> int:
        self.before("timestamp", path, None)
        self._take()
        now = super().timestamp(path, deadline)
        self._take()
        return now

    def read(self, path: str, deadline: Deadline) -> Snapshot:
        self.before("read", path, None)
        self._take()
        return super().read(path, deadline)

    def swap(self, path: str, etag: str, node: Node, deadline: Deadline) -> str | Snapshot:
        self.before("swap", path, node)
        return super().swap(path, etag, node, deadline)


@pytest.mark.parametrize("wall_error", [0.0, 3600.0, -3600.0])
def test_the_machines_own_clock_is_compared(wall_error: float) -> None:
    """A wall clock that is an hour off is a warning that says so, and nothing else is the matter."""
    found = levels(Visit(wall_error=wall_error).findings())
    assert found.pop("wall clock") == ["warning" if wall_error else "ok"]
    assert {level for lines in found.values() for level in lines} == {"ok"}


@pytest.mark.parametrize(("round_trip", "level"), [(0.45, "ok"), (0.7, "warning"), (1.1, "problem")])
def test_how_well_the_time_is_known(round_trip: float, level: str) -> None:
    """An uncertainty of more than half of the margin is a warning, more than the margin leaves nothing to be told."""
    found = Visit(round_trip=round_trip).findings()
    assert levels(found)["clock"][-1] == level
    if level == "problem":
        assert found[-1].check == "clock"
        assert found[-1].kind == "unreachable"


def test_the_way_to_the_database_is_measured() -> None:
    """The latency is that of five reads."""
    [told, *_] = by_check(Visit(round_trip=0.3).findings())["latency"]
    assert told == ("warning", "300 ms, the median of 5 reads")


@pytest.mark.parametrize(
    ("method", "path", "check"),
    [
        ("read", "cron-locks/firecron-doctor", "reading"),
        ("timestamp", "cron-instances/clock/seenAt", "clock"),
        ("swap", "cron-locks/firecron-doctor", "writing"),
        ("read", "cron-locks", "locks"),
        ("read", "cron-instances", "instances"),
    ],
)
def test_an_outage_is_told_with_the_step_that_met_it(method: str, path: str, check: str) -> None:
    """The last finding names the first step for which the database is down; nothing is looked at after it."""
    visit = Visit()

    def fail(called: str, where: str, node: Node) -> None:
        if (called, re.sub("-[0-9a-f]{12}$", "", where)) == (method, path):
            raise Unavailable("down")

    visit.way.before = fail
    *before, last = visit.findings()
    assert (last.check, last.level, last.kind) == (check, "problem", "unreachable")
    assert {finding.level for finding in before} <= {"ok"}


@pytest.mark.parametrize(("margin", "ttl"), [(1.0, 10_000), (20.0, 120_000)])
def test_its_own_lock_has_a_ttl_that_any_lock_may_have(margin: float, ttl: int) -> None:
    """Its lock expires ten seconds after a death of the doctor, or as soon as the settings allow."""
    visit = Visit(margin=margin)
    written: list[Node] = []
    visit.way.before = lambda method, path, node: written.append(node) if method == "swap" else None
    assert levels(visit.findings())["writing"] == ["ok"]
    taken: Any = written[0]
    assert taken["expiresAt"] - taken["acquiredAt"] == ttl


def test_a_lock_that_stays_is_named() -> None:
    """Where the doctor may take its lock but not remove it, a warning names the node to delete."""
    visit = Visit()

    def keep(method: str, path: str, node: Node) -> None:
        if (method, node) == ("swap", None):
            raise Denied("no")

    visit.way.before = keep
    [told] = [finding for finding in visit.findings() if finding.check == "writing"]
    [name] = visit.store.keys("cron-locks", visit.locks.deadline(1))
    assert (told.level, told.message) == ("warning", "a lock was acquired, but could not be removed")
    assert str(told.remedy) == f"delete cron-locks/{name} in the Firebase console"


def test_a_test_write_that_meets_another_clients_is_a_problem() -> None:
    """A conflict says nothing about the rules: it is neither a refusal nor a write that was let pass."""
    visit = Visit()

    def meddle(method: str, path: str, node: Node) -> None:
        if node == {"probe": True}:
            visit.store.set(path, {"other": 1})

    visit.way.before = meddle
    last = visit.findings(auth_variable_override="{}")[-1]
    assert (last.check, last.kind) == ("writing", "unreachable")
    assert "was changed by another client during the test: run the doctor again" in last.message
