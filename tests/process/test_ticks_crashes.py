"""Instances that die or freeze in the middle of a job: what becomes of its slot, and of what they do when they wake."""

from __future__ import annotations

import signal
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
from tests.process.tick_processes import BOUND, Process, Ticking, until
from tests.process.tick_specs import EVERY_SECOND, SHORT, Spec

pytest_plugins = ["tests.process.tick_fixtures"]

TTL = 2.5
MARGIN = 0.2
# How much later than the end of the dead run's lease another instance may be.
PROMPTLY = 5.0


def once() -> str:
    """A cron line whose only tick of the year comes soon, when the instances are up."""
    soon = datetime.now(UTC) + timedelta(seconds=4)
    return f"{soon.second} {soon.minute} {soon.hour} {soon.day} {soon.month} *"


def job(line: str, gate: Path, **options: Any) -> Spec:
    """A job that works until the gate is open."""
    return {
        "name": "job",
        "line": line,
        "takes": 30,
        "until": str(gate),
        "options": {"lock_ttl": TTL, **options},
    }


def pair_at_work(ticks: Ticking, spec: Spec) -> tuple[Process, Process, dict[str, Any]]:
    """The instance that runs the job's first slot, one that doesn't, and the line that the first one wrote."""
    both = [ticks.instance(spec) for _ in range(2)]
    ticks.wait_until_up(*both)
    [start, *_] = ticks.wait_for(1, "start")
    both.sort(key=lambda instance: instance.pid != start["pid"])
    return both[0], both[1], dict(start)


@pytest.mark.parametrize("renewed", [False, True], ids=["at once", "after its first lease"])
def test_i22_a_killed_run_is_taken_over_by_an_instance_that_saw_its_lock(ticks: Ticking, renewed: bool) -> None:
    """With on_abandoned="rerun" another instance, which was refused the slot, claims it promptly when the lease ends,
    though no other tick comes and however long the dead one had renewed.
    """
    gate = ticks.folder / "gate"
    dying, heir, start = pair_at_work(ticks, job(once(), gate, on_abandoned="rerun"))
    if renewed:
        until(lambda: ticks.lock("job")["acquiredAt"] + 2 * TTL * 1000 < ticks.lock("job")["expiresAt"], "renewals")
    dying.send(signal.SIGKILL)
    dying.wait()
    left = ticks.lock("job")
    again = ticks.wait_for(1, "start", attempt=2)[0]
    gate.touch()
    assert (again["pid"], again["slot"], again["trigger"]) == (heir.pid, start["slot"], "rerun")
    assert 0 <= ticks.lock("job")["acquiredAt"] - left["expiresAt"] - MARGIN * 1000 <= PROMPTLY * 1000
    until(lambda: "releasedAt" in ticks.lock("job"), "the release")
    assert heir.stop() == 0
    ticks.assert_kept("job", reruns=True)
    assert ticks.history("job")[start["slot"]]["outcome"] == "succeeded"


@pytest.mark.parametrize("on_abandoned", ["skip", "rerun"])
def test_i22_a_killed_run_of_a_busy_job_is_abandoned_or_run_again(ticks: Ticking, on_abandoned: str) -> None:
    """The next claimer records the slot as abandoned, or runs it before its own; the ticks that the dead lease cost are
    recorded as well, each once.
    """
    gate = ticks.folder / "gate"
    dying, heir, start = pair_at_work(ticks, job(EVERY_SECOND, gate, on_abandoned=on_abandoned))
    dying.send(signal.SIGKILL)
    dying.wait()
    ticks.wait_for(1, "start", pid=heir.pid)
    gate.touch()
    ticks.wait_for(3, "end", pid=heir.pid)
    assert heir.stop() == 0
    runs = ticks.assert_kept("job", reruns=on_abandoned == "rerun")
    entry = ticks.history("job")[start["slot"]]
    assert (entry["outcome"], entry["attempt"]) == (("succeeded", 2) if on_abandoned == "rerun" else ("abandoned", 1))
    assert [ended.slot for ended in runs].count(start["slot"]) == entry["attempt"]
    assert Counter(entry["outcome"] for entry in ticks.history("job").values())["skipped"] >= 1


@pytest.mark.parametrize("on_abandoned", ["skip", "rerun"])
def test_i30_a_frozen_run_is_lost_and_its_late_writes_change_nothing(ticks: Ticking, on_abandoned: str) -> None:
    """A run that was stopped past its lease has a successor while it stands still; awake again it is lost, and neither
    the successor's record nor its outcome shows a trace of it.
    """
    gate = ticks.folder / "gate"
    frozen, heir, start = pair_at_work(ticks, job(EVERY_SECOND, gate, on_abandoned=on_abandoned))
    frozen.freeze()
    second = ticks.wait_for(1, "start", pid=heir.pid)[0]
    held = ticks.lock("job")
    frozen.send(signal.SIGCONT)
    # Its renewal finds the successor's record.
    until(lambda: 'Lock "job" lost' in frozen.log, "the loss in the log")
    now = ticks.lock("job")
    assert (now["holder"], now["fence"], now["slot"]) == (held["holder"], held["fence"], held["slot"])
    gate.touch()
    [end] = ticks.wait_for(1, "end", run=start["run"])
    assert end["lost"]
    if on_abandoned == "skip":
        # Its own word about its slot replaces the bookkeeper's.
        until(lambda: ticks.history("job").get(start["slot"], {}).get("outcome") == "lost", "its outcome")
    else:
        assert (second["slot"], second["attempt"]) == (start["slot"], 2)
    ticks.wait_for(4, "end")
    for instance in (frozen, heir):
        assert instance.stop() == 0
    ticks.assert_kept("job", reruns=on_abandoned == "rerun")
    entry = ticks.history("job")[start["slot"]]
    assert entry["outcome"] == ("lost" if on_abandoned == "skip" else "succeeded")


def test_i27_a_run_that_wakes_after_its_lease_knows_it_at_once(ticks: Ticking) -> None:
    """The first `run.check()` after the freeze raises, before any other thread has had its turn."""
    gate = ticks.folder / "gate"
    frozen, heir, start = pair_at_work(ticks, job(EVERY_SECOND, gate, on_abandoned="rerun") | {"freezes": True})
    ticks.wait_for(1, "start", pid=heir.pid)
    gate.touch()
    frozen.send(signal.SIGCONT)
    [end] = ticks.wait_for(1, "end", run=start["run"])
    assert (end["how"], end["lost"]) == ("LeaseLost", True)


def freeze_between_runs(ticks: Ticking, instance: Process, job: str) -> datetime:
    """Stop the instance while it runs nothing; returns when that was. The ticks that a run sleeps through are skipped,
    and not missed: their lock was held.
    """
    while True:
        slot = ticks.lines("end", job=job)[-1]["slot"]
        ticks.wait_for_entry(job, slot)
        instance.freeze()
        # What the instance had sent is done when the database has answered to this.
        requests.get(ticks.rtdb.emulator.url, timeout=BOUND / 2)
        if ticks.lock(job)["slot"] == slot:
            return datetime.now(UTC)
        instance.send(signal.SIGCONT)


def test_i27_a_frozen_instance_runs_only_the_newest_tick_when_it_wakes(ticks: Ticking) -> None:
    """Of the ticks that it slept through none comes late, in a burst: they are missed, and the newest is run."""
    only = ticks.instance(SHORT)
    ticks.wait_for(2, "end")
    asleep_until = freeze_between_runs(ticks, only, "short").replace(microsecond=0) + timedelta(seconds=4.5)
    until(lambda: datetime.now(UTC) > asleep_until, "some ticks went by")
    only.send(signal.SIGCONT)
    ticks.wait_for(5, "end")
    assert only.stop() == 0
    runs = ticks.assert_kept("short")
    assert len(runs) >= 5
    assert Counter(entry["outcome"] for entry in ticks.history("short").values())["missed"] >= 3
