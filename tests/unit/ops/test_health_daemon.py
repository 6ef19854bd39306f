"""*late* against a daemon that wakes at every minute, over the nights when clocks change in ten zones."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.cron.cron_daemon import Daemon
from tests.unit.cron.test_schedule_daemon import LINES, daemon, lines
from tests.unit.lock.records import MARGIN
from tests.unit.ops.declared import job

from firecron.base.instants import exact_milliseconds, to_text
from firecron.jobs.catalogue import CatalogueEntry
from firecron.ops.health import ALERT_MARGIN, evaluate

MINUTE = 60_000
# Ten zones, each with the night when its clocks go forward and the one when they go back.
ZONES = {
    "Europe/Berlin": ("2025-03-30", "2025-10-26"),
    "America/New_York": ("2025-03-09", "2025-11-02"),
    "Australia/Sydney": ("2025-10-05", "2025-04-06"),
    "Australia/Lord_Howe": ("2025-10-05", "2025-04-06"),
    "Antarctica/Troll": ("2025-03-30", "2025-10-26"),
    "America/Asuncion": ("2023-10-01", "2024-03-24"),
    "Asia/Beirut": ("2025-03-30", "2024-10-27"),
    "America/Havana": ("2025-03-09", "2024-11-03"),
    "Africa/Casablanca": ("2025-04-06", "2025-02-23"),
    "Antarctica/Casey": ("2009-10-18", "2010-03-05"),
}
NIGHTS = [(zone, night) for zone, nights in ZONES.items() for night in nights]


class History:
    """What was written of a job at some instants of its past, in milliseconds; None where nothing was."""

    def __init__(self, awake: Daemon, runs: list[int], chance: random.Random) -> None:
        first, last = (round(exact_milliseconds(day)) for day in (awake.start + timedelta(days=1), awake.end))
        edges = [round(exact_milliseconds(awake.instants[index])) for index in awake.jumps]
        near = [one for one in [*runs, *edges] if first <= one < last] or [first]

        def some() -> int:
            """An instant near a run or a change of the clocks, or anywhere."""
            anchor = chance.choice(near) + chance.choice((-1, 0, 1, 999, chance.randrange(-3 * MINUTE, 3 * MINUTE)))
            return min(max(chance.choice((anchor, chance.randrange(first, last))), first), last)

        self.grace = chance.choice((500, 60_000, 300_000))
        late = self.grace + ALERT_MARGIN
        self.now = min(some() + chance.choice((0, late - 1, late, late + 1)), last)
        self.since = chance.choice((first, some()))
        slots = [run for run in runs if first <= run <= self.now]
        self.slot = chance.choice(slots) if slots and chance.random() < 0.8 else None
        # An instance whose clock is ahead claims a tick up to a margin early.
        self.claimed = max(some(), 0 if self.slot is None else self.slot - chance.choice((0, MARGIN)))
        self.freed = self.claimed + chance.choice((0, 1, 5_000, chance.randrange(60 * MINUTE)))
        self.is_released = chance.random() < 0.8
        self.resumed = some() if chance.random() < 0.3 else None
        self.has_node = chance.random() < 0.9

    @property
    def node(self) -> dict[str, object] | None:
        fields: dict[str, object] = {
            "acquiredAt": self.claimed,
            "expiresAt": self.freed,
            "holder": "theirs",
            "releasedAt": self.freed if self.is_released else None,
            "slot": None if self.slot is None else to_text(self.slot),
            "resumedAt": self.resumed,
        }
        return {name: value for name, value in fields.items() if value is not None} if self.has_node else None

    @property
    def is_free(self) -> bool:
        return not self.has_node or self.now >= self.freed + (0 if self.is_released else MARGIN)

    def late(self, runs: list[int]) -> list[int]:
        """The runs of the daemon that should have been claimed and were not, in the words of the contract."""
        if not self.is_free:
            return []
        nobody = [self.since]
        if self.has_node:
            nobody += [self.freed, self.slot or 0]
            nobody += [self.resumed] if self.resumed is not None and self.resumed <= self.now else []
        old_enough = [run for run in runs if self.now - run > self.grace + ALERT_MARGIN]
        return [run for run in old_enough if all(run > instant for instant in nobody)]


def check(declared: CatalogueEntry, past: History, runs: list[int]) -> bool:
    """Compare the verdict with the daemon, and return whether the job is late."""
    found = evaluate(declared, past.node, None, past.now, MARGIN)
    late = past.late(runs)
    said = (declared.schedule, vars(past), found)
    assert (found.word == "late") == bool(late), said
    assert found.due == (late[0] if late else None), said
    return bool(late)


@pytest.mark.parametrize("place", NIGHTS, ids="-".join)
def test_a_job_is_late_if_and_only_if_the_daemon_has_such_a_tick(place: tuple[str, str]) -> None:
    """Whenever it was claimed, released, declared and resumed, around a night when the clocks change."""
    chance, awake = random.Random(0), daemon(*place)
    said = []
    for line in LINES[NIGHTS.index(place) % 3 :: 3]:
        runs = [round(exact_milliseconds(run)) for run in awake.runs(line)]
        for _ in range(30):
            past = History(awake, runs, chance)
            said.append(check(job(line, place[0], since=past.since, grace=past.grace), past, runs))
    assert {True, False} == set(said)
    assert 0.1 < sum(said) / len(said) < 0.9, "one of the two is hardly tried"


@settings(max_examples=40)
@given(line=lines, place=st.sampled_from(NIGHTS), seed=st.integers(0, 99))
def test_any_line_is_late_when_the_daemon_says_so(line: str, place: tuple[str, str], seed: int) -> None:
    """Whatever the line, and whatever was written of its job."""
    runs = [round(exact_milliseconds(run)) for run in daemon(*place).runs(line)]
    past = History(daemon(*place), runs, random.Random(seed))
    try:
        declared = job(line, place[0], since=past.since, grace=past.grace)
    except ValueError as error:
        assert "never fires" in str(error)  # which is the only way to refuse a well-formed line
        return
    check(declared, past, runs)


def test_each_zone_has_a_night_forward_and_one_back() -> None:
    """The nights are what they are listed for."""
    for zone, nights in ZONES.items():
        for night, is_forward in zip(nights, (True, False), strict=True):
            awake = daemon(zone, night)
            jumps = [awake.walls[index] - awake.walls[index - 1] > timedelta(minutes=1) for index in awake.jumps]
            assert jumps == [is_forward], (zone, datetime.fromisoformat(night))
