"""A roll-out: instances of a new revision join, those of the old one are asked to go, one after the other."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from tests.process.tick_processes import Process, Ticking
from tests.process.tick_specs import EVERY_SECOND, SHORT

from rtdb_emulator.http.faults import Moment

pytest_plugins = ["tests.process.tick_fixtures"]

# Work that takes no notice of the shutdown, and needs less than its grace.
STUBBORN = {"name": "stubborn", "line": EVERY_SECOND, "takes": 1.5, "options": {"lock_ttl": 10}}


def patient(gate: str) -> dict[str, Any]:
    """Work that ends when it is asked to, to be taken up again."""
    return {
        "name": "patient",
        "line": EVERY_SECOND,
        "takes": 30,
        "until": gate,
        "obeys": True,
        "options": {"lock_ttl": 30, "on_abandoned": "rerun"},
    }


def test_i34_a_rolling_restart_loses_no_tick_and_hands_its_work_on(ticks: Ticking) -> None:
    """Two revisions side by side share the ticks; SIGTERM lets runs end within the grace, and what it interrupted is
    taken over at once, not when the lease would have ended.
    """
    gate = ticks.folder / "gate"
    jobs = [SHORT, STUBBORN, patient(str(gate))]

    def revision(number: int) -> Process:
        return ticks.instance(*jobs, K_REVISION=f"api-0000{number}")

    old = [revision(1) for _ in range(2)]
    ticks.wait_until_up(*old)
    [first] = ticks.wait_for(1, "start", job="patient")
    old.sort(key=lambda instance: instance.pid != first["pid"])
    new = []
    for number, leaving in enumerate(old):
        new.append(revision(2))
        ticks.wait_until_up(new[-1])
        expires_at = ticks.lock("patient")["expiresAt"]
        assert leaving.stop() == 0
        if number == 0:
            [second] = ticks.wait_for(1, "start", job="patient", attempt=2)
            assert second["slot"] == first["slot"]
            assert ticks.lock("patient")["acquiredAt"] < expires_at
            gate.touch()
    seen = len(ticks.lines("end", job="short"))
    ticks.wait_for(seen + 3, "end", job="short")
    for instance in new:
        assert instance.stop() == 0
    for job in ("short", "stubborn"):
        ticks.assert_kept(job)
    runs = ticks.assert_kept("patient", reruns=True)
    assert all(line["how"] in ("done", "Stopping") for line in ticks.lines("end"))
    assert ticks.lines("end", run=first["run"])[0]["how"] == "Stopping"
    assert [ended.attempt for ended in runs if ended.slot == first["slot"]] == [1, 2]
    history = ticks.history("short")
    assert {entry["instanceId"] for entry in history.values()} == {"api-00001", "api-00002"}
    assert {slot: entry for slot, entry in history.items() if entry["outcome"] != "succeeded"} == {}
    assert {entry["outcome"] for entry in ticks.history("stubborn").values()} <= {"succeeded", "skipped", "interrupted"}
    assert ticks.instances() == set()


@pytest.mark.parametrize(
    ("path", "nth", "moment"),
    [
        ("/cron-locks/short", 3, "before"),
        ("/cron-locks/short", 3, "after"),
        ("/cron-runs/short/*", 2, "before"),
    ],
    ids=["a claim on its way", "a claim without its reply", "a history on its way"],
)
def test_i34_what_is_under_way_at_sigterm_comes_to_its_end(ticks: Ticking, path: str, nth: int, moment: Moment) -> None:
    """An instance is gone only when what it claimed is released and written down; nobody finds it abandoned."""
    obedient = patient(str(ticks.folder / "never"))
    with ticks.rtdb.faults.hold(method="PUT", path=path, nth=nth, moment=moment) as under_way:
        only = ticks.instance(SHORT, obedient)
        ticks.wait_for(1, "start", job="patient")
        under_way.wait(20)
        only.send(signal.SIGTERM)
        # From now on everything in it knows that it is stopping.
        ticks.wait_for(1, "end", job="patient", how="Stopping")
        under_way.release()
        assert only.wait() == 0
    lock = ticks.lock("short")
    assert "releasedAt" in lock
    assert ticks.history("short")[lock["slot"]]["outcome"] == "succeeded"
    ticks.assert_kept("short")
    ticks.assert_kept("patient")
