"""The database goes away and comes back, with what it held."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.process.tick_processes import Process, ticking, until
from tests.process.tick_servers import free_port
from tests.process.tick_specs import LONG, SHORT, WORK

from rtdb_emulator import Emulator
from rtdb_emulator.pytest_plugin import Rtdb


@contextmanager
def own_emulator(patch: pytest.MonkeyPatch) -> Iterator[Rtdb]:
    """A database on a port that it keeps."""
    with Emulator(port=free_port()) as emulator:
        rtdb = Rtdb(emulator, "outage")
        patch.setenv("FIREBASE_DATABASE_EMULATOR_HOST", emulator.host)
        patch.setenv("FIRECRON_DATABASE_URL", rtdb.url)
        yield rtdb


def complains(instance: Process) -> bool:
    return "no emulator listens at" in instance.log


def test_i31_an_outage_costs_ticks_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the database is away nothing starts; when it is back the fleet goes on by itself, no tick runs twice, each
    has one outcome, and a run that went on meanwhile has kept its lock.
    """
    with own_emulator(monkeypatch) as rtdb, ticking(rtdb, tmp_path) as ticks:
        fleet = [ticks.instance(SHORT, LONG) for _ in range(3)]
        ticks.wait_until_up(*fleet)
        ticks.wait_for(3, "end", job="short")
        ticks.wait_for(1, "start", job="long")
        last = ticks.lines("start", job="short")[-1]["slot"]
        ticks.wait_for_entry("short", last)
        rtdb.emulator.stop()
        before = len(ticks.lines("start"))
        back_at = datetime.now(UTC) + timedelta(seconds=2.5)
        until(lambda: datetime.now(UTC) > back_at and all(map(complains, fleet)), "three instances that complain")
        assert len(ticks.lines("start")) <= before + 1
        rtdb.emulator.start()
        back = {job: len(ticks.lines("start", job=job)) for job in ("short", "long")}
        ticks.wait_for(back["short"] + 3, "end", job="short")
        ticks.wait_for(back["long"] + 1, "end", job="long")
        for instance in fleet:
            assert instance.stop() == 0
        # Each instance may still run the tick that it was trying for, so it depends on chance whether any tick is lost.
        assert len(ticks.assert_kept("short")) <= len(ticks.history("short"))
        runs = ticks.assert_kept("long")
        assert not any(ended.lost for ended in runs)
        assert ticks.instances() == set()


def test_an_instance_can_stop_while_the_database_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What can't be released or removed is left to expire, and the process ends by itself as if nothing were wrong."""
    with own_emulator(monkeypatch) as rtdb, ticking(rtdb, tmp_path) as ticks:
        only = ticks.instance(SHORT, WORK, FIRECRON_SHUTDOWN_GRACE="2")
        [start] = ticks.wait_for(1, "start", job="work")
        rtdb.emulator.stop()
        assert only.stop() == 0
        [end] = ticks.lines("end", job="work")
        assert (end["how"], end["run"]) == ("Stopping", start["run"])
        assert ticks.lock("work")["unfinished"] == start["slot"]
        assert "releasedAt" not in ticks.lock("work")
        print(f"it took {ticks.lines('down')[0]['mono'] - end['mono']:.0f} ms from the end of the run")
