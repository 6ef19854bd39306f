"""Five instances and every-second jobs: each tick once, whatever the instances' clocks show."""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.process.checker import runs_of
from tests.process.tick_processes import Process, Ticking
from tests.process.tick_specs import LONG, SHORT

pytest_plugins = ["tests.process.tick_fixtures"]

HOUR = 3600
FAKETIME = "/usr/lib/*/faketime/libfaketime.so.1"


def stop(ticks: Ticking, fleet: list[Process]) -> None:
    """Ask all to end; up to then every short tick was run, and once."""
    last = ticks.lines("end", job="short")[-1]["slot"]
    for instance in fleet:
        assert instance.stop() == 0
    ticks.assert_kept("short")
    for slot, entry in ticks.history("short").items():
        # A claim that is on its way at SIGTERM is given back.
        assert entry["outcome"] == "succeeded" or (slot > last and entry["outcome"] == "interrupted")
    assert ticks.instances() == set()


def test_i11_each_tick_runs_once_on_five_instances_whose_clocks_are_hours_apart(ticks: Ticking) -> None:
    """A job of 5 ms runs once at every tick and one of 3 s at every fourth, the ticks between being skipped once."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    # None of them is right, so that there is nobody who could do the work of the others.
    shifts = [HOUR, -HOUR, *(sign * chance.uniform(1, 12) * HOUR for sign in (1, -1, 1))]
    fleet = [ticks.instance(SHORT, LONG, TICK_WALL_SHIFT=str(shift)) for shift in shifts]
    ticks.wait_for(8, "end", job="short")
    ticks.wait_for(2, "end", job="long")
    stop(ticks, fleet)
    runs = ticks.assert_kept("long")
    outcomes = Counter(entry["outcome"] for entry in ticks.history("long").values())
    assert set(outcomes) <= {"succeeded", "skipped", "interrupted"}
    assert outcomes["skipped"] >= 2 * (len(runs) - 1)


def test_i11_clocks_that_the_operating_system_shows_wrong_change_nothing(ticks: Ticking) -> None:
    """No tick runs twice either where `time()` itself is hours ahead or behind, in the whole process."""
    library = next(iter(Path("/").glob(FAKETIME[1:])), None)
    if library is None or shutil.which("faketime") is None:
        pytest.skip("needs faketime (Debian's package of that name)")
    fleet = [
        ticks.instance(SHORT, LD_PRELOAD=str(library), FAKETIME=offset, DONT_FAKE_MONOTONIC="1", TZ="UTC")
        for offset in ("+5h", "-7h")
    ]
    ticks.wait_until_up(*fleet)
    shown = [ticks.lines("up", pid=instance.pid)[0]["wall"] - time.time() * 1000 for instance in fleet]
    assert [round(ahead / 3_600_000) for ahead in shown] == [5, -7]
    first = len(ticks.lines("start"))
    ticks.wait_for(first + 6, "end")
    for instance in fleet:
        assert instance.stop() == 0
    # Under libfaketime a wait may take a second more, and cost a tick.
    ticks.assert_kept("short")


def test_one_instance_alone_runs_every_tick(ticks: Ticking) -> None:
    """Without company nothing is contended, and still no tick is lost or run twice."""
    only = ticks.instance(SHORT)
    ticks.wait_for(4, "end")
    stop(ticks, [only])
    assert {ended.pid for ended in runs_of("short", ticks.lines())} == {only.pid}
