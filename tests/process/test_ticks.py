"""Ticks of several processes: crashes, freezes, outages, rolling restarts, crowds, and programs that just end."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
from tests.process.checker import Ran, findings, runs_of, tally
from tests.process.tick_processes import BOUND, HERE, Process, Ticking, ticking, until
from tests.process.tick_servers import free_port
from tests.process.tick_specs import ASYNC_WORK, EVERY_SECOND, LONG, SHORT, WORK, Spec

from rtdb_emulator import Emulator
from rtdb_emulator.http.faults import Moment
from rtdb_emulator.pytest_plugin import Rtdb

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
    return {"name": "job", "line": line, "takes": 30, "until": str(gate), "options": {"lock_ttl": TTL, **options}}


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
    [("/cron-locks/short", 3, "before"), ("/cron-locks/short", 3, "after"), ("/cron-runs/short/*", 2, "before")],
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


def app(name: str) -> str:
    return str(HERE / "apps" / f"{name}.py")


def assert_gone(ticks: Ticking, *jobs: str) -> None:
    """Nothing is left of the process but what it ran."""
    assert ticks.instances() == set()
    for job in jobs:
        assert "releasedAt" in ticks.lock(job)
        ticks.assert_kept(job)


def test_i34_sigterm_leaves_the_block_by_way_of_its_stop(ticks: Ticking) -> None:
    """A script whose SIGTERM handler exits leaves `with crons:` in order: runs are interrupted and released."""
    script = ticks.start(app("script_with"), jobs=[SHORT, WORK])
    ticks.wait_for(1, "end", job="short")
    ticks.wait_for(1, "start", job="work")
    assert script.stop() == 0
    assert_gone(ticks, "short", "work")
    assert [entry["outcome"] for entry in ticks.history("work").values()] == ["interrupted"]


@pytest.mark.parametrize("job", [WORK, ASYNC_WORK], ids=["sync", "async"])
def test_a_script_that_just_ends_stops_at_its_exit(ticks: Ticking, job: Spec) -> None:
    """When nobody calls `stop`, the end of the process does: the run is told, ends, and is released."""
    script = ticks.start(app("script_atexit"), jobs=[job], FIRECRON_SHUTDOWN_GRACE="3")
    assert script.wait() == 0, script.log
    [end] = ticks.lines("end")
    assert end["mono"] > ticks.lines("down")[0]["mono"]
    name = job["name"]
    assert_gone(ticks, name)
    # A cancelled run may clean up, and its lock is held for so long.
    ticks.assert_released_after(end)
    assert [entry["outcome"] for entry in ticks.history(name).values()] == ["interrupted"]


@pytest.mark.parametrize("jobs", [0, 1, 3])
def test_the_end_of_a_script_prints_nothing(jobs: int) -> None:
    """A script that has jobs, and starts nothing, ends without a word."""
    lines = ["from firecron import FireCron, distributed_cron"]
    lines += [f"@distributed_cron('job-{n}', '0 9 * * *')\ndef job_{n}(): pass" for n in range(jobs)]
    lines += [f"crons = FireCron({', '.join(f'job_{n}' for n in range(jobs))}{', ' * bool(jobs)}enabled=False)"]
    ended = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True, timeout=60
    )
    assert (ended.stdout, ended.stderr) == ("", "")


def test_i36_a_forked_child_ticks_only_after_its_own_start(ticks: Ticking) -> None:
    """A fork has no thread of its parent's and runs nothing; with its own `start` it is one more instance."""
    gate = ticks.folder / "gate"
    script = ticks.start(app("script_fork"), str(gate), jobs=[SHORT])
    [forked] = ticks.wait_for(1, "forked")
    assert (forked["threads"], forked["state"]) == (1, "idle")
    ticks.wait_for(2, "end", pid=script.pid)
    assert len(ticks.wait_for_instances(1)) == 1
    assert ticks.lines("start", pid=forked["pid"]) == []
    gate.touch()
    ticks.wait_for_instances(2)
    assert script.stop() == 0
    assert_gone(ticks, "short")


def slot(second: int) -> str:
    return f"2026-11-18T09:00:{second:02}Z"


def ran(second: int, **changes: Any) -> Ran:
    """A run that is as it should be, but for the changes."""
    good = Ran(slot(second), 1, 100 + second, 7, started=10 * second, ended=10 * second + 5, lost=False)
    return replace(good, **changes)


def entry(second: int, outcome: str = "succeeded", **changes: Any) -> dict[str, Any]:
    return {"outcome": outcome, "fence": 100 + second, "attempt": 1, **changes}


RUNS = [ran(0), ran(1), ran(2)]
HISTORY = {slot(second): entry(second) for second in range(3)}


def test_a_good_history_has_no_findings() -> None:
    """Each slot run once, with rising fences and one outcome: nothing to say."""
    assert findings(RUNS, HISTORY) == []


def test_what_was_not_run_may_be_recorded_one_by_one_or_counted() -> None:
    """Skipped and missed slots have an outcome and no run; an entry with a count stands for several."""
    history = {slot(0): entry(0), slot(1): {"outcome": "skipped"}, slot(5): {"outcome": "missed", "count": 4}}
    assert findings([ran(0)], history) == []
    assert tally([ran(0)], history).outcomes == {"succeeded": 1, "skipped": 1, "missed": 4}


def test_a_rerun_is_one_more_attempt_whose_outcome_counts() -> None:
    """With reruns a killed run and its successor are two runs of one slot."""
    again = ran(0, attempt=2, fence=101, started=20, ended=25)
    assert findings([ran(0, ended=None), again], {slot(0): entry(1, attempt=2)}, reruns=True) == []


def test_a_run_that_was_told_of_its_loss_may_go_on_beside_its_successor() -> None:
    """A zombie's overlap is no finding if its lease was lost, nor is a killed run's silence."""
    zombie = ran(0, ended=99, lost=True)
    assert findings([zombie, ran(1)], {slot(0): entry(0, "lost"), slot(1): entry(1)}) == []
    assert findings([ran(0, ended=None), ran(1)], {slot(0): entry(0, "abandoned"), slot(1): entry(1)}) == []


@pytest.mark.parametrize(
    ("runs", "history", "reruns", "finding"),
    [
        ([*RUNS, ran(2, fence=103, started=30, ended=31)], HISTORY, False, "was started 2 times"),
        ([*RUNS, ran(2, fence=103, started=30, ended=31)], HISTORY, True, "twice for one claim"),
        ([ran(0, attempt=2), ran(0, fence=101, started=20, ended=21)], {slot(0): entry(1)}, True, "out of order"),
        ([ran(0), ran(1, ended=25), ran(2)], HISTORY, False, "began while"),
        ([ran(0), ran(1), ran(2, fence=101)], HISTORY | {slot(2): entry(1)}, False, "the fence of"),
        ([ran(0), ran(1), ran(2, fence=50)], HISTORY | {slot(2): entry(-50)}, False, "the fence of"),
        (RUNS, {slot(0): entry(0), slot(2): entry(2)}, False, "09:00:01Z has 0 outcomes"),
        (RUNS, {slot(0): entry(0), slot(1): entry(1)}, False, "09:00:02Z has 0 outcomes"),
        (RUNS, HISTORY | {slot(4): {"outcome": "missed", "count": 3}}, False, "09:00:02Z has 2 outcomes"),
        (RUNS, HISTORY | {"2026-11-18T09:00:01.500Z": entry(1)}, False, "is no slot"),
        (RUNS, HISTORY | {slot(1): entry(1, "skipped")}, False, "recorded as skipped, and was started"),
        (RUNS, HISTORY | {slot(1): entry(1, "missed")}, False, "recorded as missed, and was started"),
        ([ran(0), ran(2)], HISTORY, False, "was never started"),
        (RUNS, HISTORY | {slot(1): entry(1, "odd")}, False, "recorded as 'odd'"),
        (RUNS, HISTORY | {slot(1): entry(2)}, False, "is that of fence 102"),
        (RUNS, HISTORY | {slot(1): entry(1, attempt=2)}, False, "attempt 2, not of 101, attempt 1"),
        (
            [ran(0, lost=True, ended=30), ran(0, attempt=2, fence=105, started=20, ended=25)],
            {slot(0): entry(0, "lost")},
            True,
            "is that of fence 100, attempt 1, not of 105, attempt 2",
        ),
        ([ran(0), ran(1, ended=None), ran(2)], HISTORY, False, "its last run never ended"),
        (RUNS, HISTORY | {slot(1): entry(1, "abandoned")}, False, "came to its end"),
    ],
)
def test_each_kind_of_broken_promise_is_found(
    runs: list[Ran], history: dict[str, Any], reruns: bool, finding: str
) -> None:
    """A made-up history that breaks one rule has a finding that says which."""
    found = findings(runs, history, reruns=reruns)
    assert any(finding in sentence for sentence in found), found


def test_duplicates_are_counted() -> None:
    """Two starts for one claim are one duplicate."""
    assert tally([*RUNS, ran(2, started=30)], HISTORY).duplicates == 1
    assert str(tally(RUNS, HISTORY)) == "slots 3, runs 3, duplicates 0: succeeded 3"


def test_runs_are_read_in_the_order_of_the_journal() -> None:
    """A run has the places of its lines; one that was killed has no end, and other jobs' lines don't count."""
    known = {"job": "job", "slot": slot(0), "attempt": 1, "fence": 5, "pid": 7}
    lines = [
        {"what": "up", "pid": 7},
        {"what": "start", "run": "a", **known},
        {"what": "start", "run": "b", **known, "job": "other"},
        {"what": "start", "run": "c", **known, "slot": slot(1)},
        {"what": "end", "run": "a", **known, "lost": True},
    ]
    assert runs_of("job", lines) == [
        Ran(slot(0), 1, 5, 7, started=1, ended=4, lost=True),
        Ran(slot(1), 1, 5, 7, started=3, ended=None, lost=False),
    ]
