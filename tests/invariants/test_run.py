"""The invariants of runs: their end, their outcome, the shutdown, and what a process has once."""

from __future__ import annotations

import importlib
import logging
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.simulation.fleet import Fleet
from tests.simulation.network import failing
from tests.simulation.world import NAME, START, slot
from tests.unit.threads import ended, named

from firecron import ConfigurationError, FireCron, Run, distributed_cron
from firecron.base.flag import begin_child
from firecron.errors import Unavailable
from firecron.jobs.run import Outcome
from firecron.runs.entry import Entry
from firecron.settings import load
from firecron.testing import FakeTiming, MemoryStore
from rtdb_emulator_tests.helpers.processes import Run as RunPython


@pytest.mark.parametrize("overlap", ["skip", "allow"])
def test_i16_max_runtime_ends_a_run_that_renews_for_ever(overlap: str) -> None:
    """At max_runtime a run is told that it is lost and is renewed no more, and its lock frees itself under it."""
    fleet = Fleet(max_runtime=100, overlap=overlap)
    one, other = fleet.instance(), fleet.instance()
    seen: list[bool] = []

    def body(run: Run) -> None:
        if len(fleet.runs) > 1:
            return
        for seconds in (99.9, 100):
            fleet.world.until(seconds)
            seen.append(bool(run.lost))
        one.network.requests()
        before = fleet.world.node()
        fleet.world.until(119)
        assert one.network.requests("cron-locks") == []
        assert fleet.world.node() == before
        fleet.world.until(180)
        other.turn(slot(180))

    fleet.body = body
    (result,) = one.turn(slot())
    assert seen == [False, True]
    assert result.outcome == "lost"
    assert fleet.slots() == [slot(), slot(180)]
    assert fleet.world.outcomes() == {slot(): "lost", slot(180): "succeeded"}


@pytest.mark.parametrize("overlap", ["skip", "allow"])
def test_max_runtime_counts_from_the_begin_of_a_run(overlap: str) -> None:
    """A claim whose reply was lost is heard of forty seconds later: the run still has its whole max_runtime."""
    fleet = Fleet(max_runtime=20, lock_ttl=60, overlap=overlap)
    one = fleet.instance()
    one.network.lose_reply()
    one.network.next("swap", before=failing(Unavailable("the network is down")), times=1_000)
    one.network.next("read", before=failing(Unavailable("the network is down")), times=1_000)
    fleet.world.at(40, one.network.mend)
    seen: list[bool] = []

    def body(run: Run) -> None:
        assert fleet.world.mono() >= 40_000
        for seconds in (0, 19.9, 0.1):
            fleet.world.advance(seconds)
            seen.append(bool(run.lost))

    fleet.body = body
    (result,) = one.turn(slot())
    assert seen == [False, False, True]
    assert result.outcome == "lost"


def finished(fence: int | None, outcome: Outcome = "succeeded") -> Entry:
    return Entry(slot(), outcome, slot(), "schedule", START, START, 0, 1, fence)


def test_i30_a_woken_zombie_cannot_write_its_successors_outcome() -> None:
    """A run that was frozen past its lease and taken over can neither release, nor record over the rerun's outcome."""
    fleet = Fleet(on_abandoned="rerun")
    zombie, heir = fleet.instance(), fleet.instance()
    records: list[object] = []

    def body(run: Run) -> None:
        if run.attempt == 1:
            zombie.freeze(100)
            fleet.world.advance(40)
            heir.turn(None)
            records.append(fleet.world.node())
            raise ValueError("the zombie's")

    fleet.body = body
    (result,) = zombie.turn(slot())
    assert result.outcome == "lost"
    assert [run.attempt for run in fleet.runs] == [1, 2]
    assert fleet.runs[1].fence is not None
    assert fleet.runs[0].fence is not None
    assert fleet.runs[1].fence > fleet.runs[0].fence
    assert [fleet.world.node()] == records
    entry = fleet.world.history()[slot()]
    assert (entry["outcome"], entry["attempt"], entry["fence"]) == ("succeeded", 2, fleet.runs[1].fence)


def test_i30_the_successor_writes_over_the_zombie() -> None:
    """A zombie that records first gives way to the run that took its slot over."""
    fleet = Fleet()
    history = fleet.instance().crons.history
    history.record(NAME, finished(7, "lost"))
    history.record(NAME, finished(8))
    history.record(NAME, finished(7, "lost"))
    assert (fleet.world.history()[slot()]["outcome"], fleet.world.history()[slot()]["fence"]) == ("succeeded", 8)


def test_i34_a_body_that_does_not_stop_keeps_its_lock() -> None:
    """At a shutdown nothing more is claimed, a body that goes on is renewed until the grace is over, and its lock is
    left to expire: never released under it.
    """
    fleet = Fleet()
    one = fleet.instance(shutdown_grace=8)
    one.start()
    log: list[object] = []

    def stop() -> None:
        one.network.requests()
        one.crons.stop()
        log.append(("stopped at", fleet.world.mono()))

    def body(run: Run) -> None:
        fleet.world.at(65, stop)
        fleet.world.until(64)
        assert not run.stopping
        fleet.world.until(65)
        log.append(("told", bool(run.stopping)))
        fleet.world.until(73.5)
        log.append(("renewed", one.network.requests("cron-locks").count("swap")))
        before = fleet.world.node()
        assert "releasedAt" not in before
        fleet.world.until(100)
        assert one.network.requests("cron-locks") == []
        assert fleet.world.node() == before

    fleet.body = body
    fleet.world.until(300)
    assert log == [("told", True), ("stopped at", 73_000), ("renewed", 1)]
    assert fleet.slots() == [slot(60)]
    assert len(one.said("run.left_behind")) == 1


@pytest.mark.parametrize("renew", [True, False])
def test_i34_what_ended_in_time_is_released_and_rerun(renew: bool) -> None:
    """A run that shutdown ended is interrupted, which is no error: released at once, unfinished, and rerun by whoever
    comes; also one that is not renewed.
    """
    fleet = Fleet(on_abandoned="rerun", renew=renew)
    one, other = fleet.instance(), fleet.instance()

    def body(run: Run) -> None:
        if run.attempt == 1:
            fleet.world.advance(3)
            one.runner.stopping.set()
            run.stopping.set()
            run.check()

    fleet.body = body
    (result,) = one.turn(slot())
    assert (result.outcome, result.error) == ("interrupted", None)
    assert "error" not in fleet.world.history()[slot()]
    node = fleet.world.node()
    assert (node["unfinished"], node["outcome"], node["releasedAt"]) == (slot(), "interrupted", START + 3_000)
    assert fleet.world.outcomes() == {slot(): "interrupted"}
    other.turn(None)
    assert [run.attempt for run in fleet.runs] == [1, 2]
    assert fleet.world.outcomes() == {slot(): "succeeded"}


def test_i35_pruning_keeps_the_newest_and_every_lock() -> None:
    """Two that prune at once leave the newest entries up to the limit, and not a lock node is touched."""
    fleet = Fleet("* * * * * *")
    one, other = fleet.instance(history_limit=5), fleet.instance(history_limit=5)
    for seconds in range(12):
        fleet.world.until(seconds)
        one.turn(slot(seconds))
    lock = fleet.world.node()
    fleet.world.put({"expiresAt": 1, "slot": slot()}, "old")
    other.network.before = lambda method, path: one.crons.history.prune(NAME) if method == "merge" else None
    other.crons.history.prune(NAME)
    assert sorted(fleet.world.history()) == [slot(seconds) for seconds in range(7, 12)]
    assert fleet.world.node() == lock
    assert fleet.world.node("old") == {"expiresAt": 1, "slot": slot()}


def once() -> None: ...


def test_i36_a_job_is_registered_once() -> None:
    """The same function given twice, or added again, is one job; another one of its name is refused."""
    job = distributed_cron(NAME, "* * * * *")(once)
    crons = FireCron(job, job, store=MemoryStore(lambda: START), timing=FakeTiming(), settings=load())
    crons.registry.add(job)
    assert [found.name for found in crons.registry.jobs()] == [NAME]

    @distributed_cron(NAME, "0 * * * *")
    def another() -> None: ...

    with pytest.raises(ConfigurationError, match="another"):
        crons.registry.add(another)
    with pytest.raises(ConfigurationError, match="another"):
        FireCron(job, another, settings=load())


def test_i36_a_reloaded_module_has_its_jobs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a module was loaded again a new FireCron finds its jobs once, as they are now."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    source = 'from firecron import distributed_cron\n\n@distributed_cron("job", "{}")\ndef work(): ...\n'
    path = tmp_path / "reloaded_jobs.py"
    path.write_text(source.format("0 * * * *"), "utf-8")
    module = importlib.import_module("reloaded_jobs")
    FireCron(module, settings=load())
    path.write_text(source.format("5 * * * * *"), "utf-8")
    importlib.invalidate_caches()
    again = FireCron(importlib.reload(module), settings=load())
    assert [job.options.schedule.line for job in again.registry.jobs()] == ["5 * * * * *"]
    monkeypatch.delitem(sys.modules, "reloaded_jobs")


def test_i36_a_forked_child_has_the_jobs_and_nothing_else() -> None:
    """In a child nothing runs or ticks; it has a node and tokens of its own, and can start by itself."""
    fleet = Fleet()
    one = fleet.instance()
    one.start()
    heartbeat, ticker = one.crons.engine.heartbeat, one.crons.engine.ticker
    parents = heartbeat.id
    log: list[object] = []

    def body(run: Run) -> None:
        begin_child()
        log.append((one.runner.running(), bool(run.lost), one.crons.registry.state(NAME)))

    fleet.body = body
    fleet.world.until(60)
    assert log == [({}, True, "idle")]
    assert fleet.world.history() == {}, "the run is the parent's to record"
    assert "releasedAt" not in fleet.world.node()
    assert heartbeat.id != parents
    assert one.crons.engine.ticker is not ticker
    assert [job.name for job in one.crons.registry.jobs()] == [NAME]
    assert [event.level for event in one.said("crons.forked")] == [logging.INFO]


FORKING = """
    import os, sys, threading
    from firecron import FireCron, distributed_cron
    from firecron.settings import load
    from firecron.testing import MemoryStore
    import time

    ran = []
    @distributed_cron("job", "* * * * * *", lock_ttl=30)
    def job():
        ran.append(os.getpid())

    def note(event):
        if event.slug == "run.succeeded":  # and its lock is free
            done.set()

    done = threading.Event()
    crons = FireCron(job, store=MemoryStore(lambda: int(time.time() * 1000)), settings=load(), enabled=True)
    crons.events.subscribe(note)
    crons.start()
    assert done.wait(20)
    parents = crons.locks.database.bid("job", 30).holder, crons.engine.heartbeat.id
    child = os.fork()
    if child == 0:
        assert crons.registry.state("job") == "idle"
        assert threading.active_count() == 1
        assert crons.locks.database.bid("job", 30).holder != parents[0]
        assert crons.engine.heartbeat.id != parents[1]
        done.clear()
        crons.start()
        assert done.wait(20) and ran[-1] == os.getpid()
        crons.stop()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert crons.registry.state("job") in ("ticking", "running")
    crons.stop()
    assert set(ran) == {os.getpid()}
"""


def test_i36_a_real_fork_can_start_again(run: RunPython) -> None:
    """A process that forks while it ticks: the child is silent until it starts, and both then run and stop alone."""
    ended = run("-c", textwrap.dedent(FORKING))
    assert ended.returncode == 0, ended.stderr


def threads_that_tick() -> set[threading.Thread]:
    return named("firecron-ticker") | named("firecron-heartbeat")


def test_i36_start_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second start changes nothing, a second stop neither, and after a stop it can be started again."""
    crons = FireCron(store=MemoryStore(lambda: START), settings=load(), enabled=True)
    others = threads_that_tick()
    threads = []
    for _ in range(2):
        crons.start()
        threads.append(threads_that_tick() - others)
        crons.start()
        assert threads_that_tick() - others == threads[-1]
        crons.stop()
        crons.stop()
    first, second = threads
    assert len(first) == len(second) == 2
    assert not first & second
    for thread in (*first, *second):
        assert ended(thread)


def test_i34_idle_workers_go_with_their_instance() -> None:
    """The threads that ran jobs end at the stop."""
    crons = FireCron(store=MemoryStore(lambda: START), settings=load(), enabled=True)
    thread: list[threading.Thread] = []
    done = threading.Event()

    def work() -> None:
        thread.append(threading.current_thread())
        done.set()

    with crons:
        crons.engine.crew.submit(work)
        assert done.wait(20)
    thread[0].join(20)
    assert not thread[0].is_alive()


def test_an_instance_is_not_kept_alive_by_its_end(caplog: pytest.LogCaptureFixture) -> None:
    """After its stop nothing of an instance is registered for the end of the process."""
    crons = FireCron(store=MemoryStore(lambda: START), settings=load(), enabled=True)
    with caplog.at_level(logging.INFO, "firecron"), crons:
        pass
    assert "Distributed crons stopped" in caplog.text


@pytest.mark.parametrize(
    ("options", "runs"), [({"max_runtime": 20}, 1), ({"renew": False, "lock_ttl": 20}, 1), ({"max_runtime": 3_600}, 3)]
)
def test_i16_what_the_options_ended_is_not_begun_again(options: dict[str, Any], runs: int) -> None:
    """A run that max_runtime ended, or that its lock outlasted without renewals, is lost and not
    rerun; one that lost its lock otherwise is.
    """
    fleet = Fleet("0 * * * *", on_abandoned="rerun", **options)
    one = fleet.instance()
    fleet.world.until(3_600)

    def body(run: Run) -> None:
        fleet.world.advance(15)
        if runs > 1:
            fleet.world.edit(expiresAt=0)
        fleet.world.advance(5)
        run.check()

    fleet.body = body
    one.turn(slot(3_600))
    one.start()
    fleet.world.until(4_000)
    assert len(fleet.runs) == runs
    assert fleet.world.outcomes()[slot(3_600)] == "lost"
    assert ("unfinished" in fleet.world.node()) == (runs > 1)
