"""What interrupts firecron in the middle of a line of its own: Ctrl-C, and a signal's handler that stops it."""

from __future__ import annotations

import gc
import inspect
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from types import CodeType
from typing import TypeAlias

import pytest
from tests.simulation.fleet import Fleet
from tests.simulation.world import NAME, START, slot
from tests.unit.interrupts import Line, interrupt, lines_of
from tests.unit.threads import PATIENCE, ended, ended_stops

from firecron import FireCron, Run, Stopping, distributed_cron
from firecron.app import is_inside
from firecron.base import threads as outstanding
from firecron.base.events import Event
from firecron.base.flag import Flag
from firecron.jobs.options import Overlap
from firecron.lock import blocks
from firecron.lock.blocks import Hold
from firecron.runs import lanes, runner
from firecron.runs.lanes import Lanes
from firecron.runs.runner import Runner
from firecron.settings import load
from firecron.testing import FakeTiming, MemoryStore
from rtdb_emulator_tests.helpers.processes import Run as RunPython

SETTINGS = load()
NINE = datetime(2026, 11, 18, 9, tzinfo=UTC)
PERFORM = vars(Runner)["_perform"].__code__
VACATE = Lanes.vacate.__code__


class Bench:
    """One instance in virtual time, whose job runs by hand."""

    def __init__(
        self, overlap: Overlap = "skip", body: Callable[[Run], object] = lambda run: None, retries: int = 0
    ) -> None:
        self.timing = FakeTiming(wall=START)
        self.store = MemoryStore(self.timing.now)

        @distributed_cron(NAME, "* * * * *", lock_ttl=60, overlap=overlap, retries=retries)
        def work(run: Run) -> None:
            self.body(run)

        self.body = body
        self.crons = FireCron(work, store=self.store, timing=self.timing, settings=SETTINGS, enabled=True)

    def trigger(self, slot: datetime | None = None) -> object:
        return self.crons.registry.trigger(NAME, slot=slot).outcome

    def node(self) -> dict[str, object]:
        found = self.store.get(f"cron-locks/{NAME}")
        assert isinstance(found, dict)
        return found


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A stack trace at each line is slow to write."""
    with caplog.at_level(logging.CRITICAL, "firecron"):
        yield


@pytest.mark.parametrize("overlap", ["skip", "allow"])
def test_ctrl_c_leaves_no_run_under_way(by_hand: None, overlap: Overlap) -> None:
    """Wherever Ctrl-C interrupts the performing of a run, at the first line or the last, its lease is kept no more, and
    the run is not counted among those under way.
    """
    presses = 0

    def press() -> None:
        nonlocal presses
        presses += 1
        raise KeyboardInterrupt

    for line in lines_of(Bench(overlap).trigger, since=PERFORM):
        bench = Bench(overlap)
        with suppress(KeyboardInterrupt):
            interrupt(bench.trigger, line, press, since=PERFORM)
        assert not bench.crons.locks.database.keeper.leases(), line
        assert not bench.crons.engine.runner.running(), line
    assert presses > 100


# The lines that come to the guarded ones at the end of a block.
UNGUARDED: dict[Callable[..., object], list[str]] = {
    Hold.__exit__: ["lease = self._lease", "try:"],
    blocks.call: ["give_back(database, lease)"],
    blocks.give_back: ["if isinstance(answer, Lease):", "try:"],
}


def line_in(function: Callable[..., object], text: str) -> Line:
    """The one line of this function that says this."""
    source, first = inspect.getsourcelines(function)
    (number,) = [first + index for index, line in enumerate(source) if line.strip() == text]
    return inspect.getfile(function), number, 0


@pytest.mark.parametrize("how", ["hold", "with_lock"])
def test_ctrl_c_leaves_no_held_lock_that_is_renewed(by_hand: None, how: str) -> None:
    """Wherever Ctrl-C interrupts a block under a lock, on its way in or out, the lock is renewed no more; but for the
    very lines that begin its end, which nothing can guard.
    """

    def press() -> None:
        raise KeyboardInterrupt

    def block(bench: Bench) -> None:
        if how == "with_lock":
            bench.crons.locks.with_lock("held", lambda: None, 60)
        else:
            with bench.crons.locks.hold("held", ttl=60):
                pass

    made = Bench()
    left: set[Line] = set()
    for line in lines_of(lambda: block(made)):
        bench = Bench()
        with suppress(KeyboardInterrupt):
            interrupt(lambda: block(bench), line, press)  # noqa: B023  # called at once
        if bench.crons.locks.database.keeper.leases():
            left.add(line)
    assert left <= {line_in(function, text) for function, texts in UNGUARDED.items() for text in texts}


Since: TypeAlias = CodeType | None


def lines_by_hand(new_call: Callable[[], Callable[[], object]]) -> list[tuple[Line, Since]]:
    """The lines in which a run by hand is marked and has a place: as it comes to them first, and again as it ends."""
    files = runner.__file__, lanes.__file__, outstanding.__file__
    return [(line, since) for since in (None, VACATE) for line in lines_of(new_call(), since=since) if line[0] in files]


@pytest.mark.parametrize("slot", [None, NINE], ids=["no tick", "a tick"])
def test_ctrl_c_loses_no_place_and_frees_none_too_many(by_hand: None, slot: datetime | None) -> None:
    """Wherever Ctrl-C interrupts a run by hand, no stop waits for it, and the next run has the job's one place."""

    def press() -> None:
        raise KeyboardInterrupt

    def beside(bench: Bench) -> None:
        refusal = bench.crons.registry.trigger(NAME).refusal
        said.append("" if refusal is None else refusal.message)

    lines = lines_by_hand(lambda: partial(Bench().trigger, slot))
    assert len(lines) > 70
    for line, since in lines:
        bench = Bench()
        with pytest.raises(KeyboardInterrupt):
            interrupt(partial(bench.trigger, slot), line, press, since=since)
        stop = threading.Thread(target=bench.crons.engine.runner.stop, args=(8,), daemon=True)
        stop.start()
        assert ended(stop), line
        bench.crons.engine.runner.open()
        bench.timing.advance(61)
        said: list[str] = []
        bench.body = lambda run: beside(bench)  # noqa: B023  # called before the next line's
        assert bench.trigger() == "succeeded", line
        assert said == [f'"{NAME}" still runs on this instance'], line


def test_ctrl_c_at_the_end_of_a_run_by_hand_costs_no_tick() -> None:
    """Wherever Ctrl-C interrupts the end of a run by hand, the tick that stands in line behind it runs at once."""

    def press() -> None:
        raise KeyboardInterrupt

    def bench() -> tuple[Fleet, Callable[[], object]]:
        fleet = Fleet(overlap="queue", grace=600)
        one = fleet.instance()

        def body(run: Run) -> None:
            fleet.body = lambda run: None
            assert one.turn(slot(60)) == []

        fleet.world.until(60)
        fleet.body = body
        return fleet, lambda: one.crons.registry.trigger(NAME)

    lines = [line for line, since in lines_by_hand(lambda: bench()[1]) if since is VACATE]
    assert len(lines) > 15
    for line in lines:
        fleet, by_hand = bench()
        with pytest.raises(KeyboardInterrupt):
            interrupt(by_hand, line, press, since=VACATE)
        fleet.world.advance(0)
        assert fleet.slots() == [None, slot(60)], line


def test_a_start_that_is_interrupted_is_undone() -> None:
    """Where a listener ends the start, nothing ticks, and a later start does."""
    bench = Bench()

    def leave(event: Event) -> None:
        if event.slug == "job.registered":
            raise SystemExit

    silence = bench.crons.events.subscribe(leave)
    with pytest.raises(SystemExit):
        bench.crons.start()
    assert bench.crons.registry.state(NAME) == "idle"
    silence()
    with bench.crons:
        assert bench.crons.registry.state(NAME) == "ticking"


@pytest.mark.parametrize("name", ["firecron-heartbeat", "firecron-ticker"])
def test_a_start_without_threads_is_undone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no thread can be had, the start raises what Python does, and nothing ticks by half."""
    bench = Bench()
    begin = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == name:
            raise RuntimeError("can't start new thread")
        begin(thread)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            bench.crons.start()
    assert bench.crons.registry.state(NAME) == "idle"
    with bench.crons:
        assert bench.crons.registry.state(NAME) == "ticking"


@pytest.mark.parametrize("slug", ["run.started", "run.retried"])
def test_a_listener_that_exits_leaves_a_lock_that_is_free(by_hand: None, slug: str) -> None:
    """Where a listener ends the program while a run is under way, its lock is released, and its slot unfinished."""

    def leave(event: Event) -> None:
        if event.slug == slug:
            raise SystemExit

    def fail(run: Run) -> None:
        raise ValueError

    bench = Bench(body=fail, retries=1)
    bench.crons.events.subscribe(leave)
    with pytest.raises(SystemExit):
        bench.trigger()
    assert "releasedAt" in bench.node()
    assert bench.node()["outcome"] == "interrupted"
    assert not bench.crons.engine.runner.running()


Act: TypeAlias = Callable[[FireCron], None]


def begin_and_end(crons: FireCron) -> None:
    crons.start()
    crons.stop()


def work(crons: FireCron) -> None:
    crons.registry.trigger(NAME)
    with crons.locks.hold("mine", 30):
        crons.registry.remove(NAME)


ACTS = {"begin and end": begin_and_end, "work": work}


def stop_in(act: Act, line: Line) -> bool:
    """Stop an instance where it comes to this line in the act: the act and the stop come to their end. Whether it
    came there, which may depend on its other threads.
    """
    crons = Bench().crons
    raised: list[BaseException] = []
    came = False

    def stop() -> None:
        nonlocal came
        came = True
        crons.stop()

    def interrupted() -> None:
        try:
            interrupt(lambda: act(crons), line, stop)
        except BaseException as error:
            raised.append(error)

    if act is work:
        crons.start()
    thread = threading.Thread(target=interrupted, daemon=True)
    thread.start()
    assert ended(thread), f"stop() at {line} waits for what it has interrupted"
    assert ended_stops(), f"stop() at {line} doesn't come to its end"
    if not came:
        crons.stop()
    assert [error for error in raised if not isinstance(error, Stopping)] == [], line
    assert (crons.engine.is_ticking, crons.locks.database.keeper.leases()) == (False, []), line
    assert crons.engine.runner.stopping, line
    return came


def lines_in(act: Act) -> list[Line]:
    crons = Bench().crons
    if act is work:
        crons.start()
    lines = lines_of(lambda: act(crons))
    crons.stop()
    return lines


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_a_signals_handler_may_stop_at_any_line(act: Act) -> None:
    """A stop that interrupts firecron itself, as a signal's handler does, waits for no lock that the line may hold."""
    # At all of them: make interrupts.
    came = [stop_in(act, line) for line in lines_in(act)[::8]]
    assert sum(came) > 15


@pytest.mark.parametrize("call", [Flag.set, lambda flag: flag.wait(0)], ids=["set", "wait"])
def test_a_flag_may_be_interrupted_at_any_line(call: Callable[[Flag], object]) -> None:
    """Who is at any line of a flag, which the stop may want to set, is inside firecron; who is at none is not."""
    seen: list[bool] = []

    def look() -> None:
        seen.append(is_inside(inspect.currentframe()))

    look()
    assert seen.pop() is False
    flag = Flag()
    lines = lines_of(lambda: call(flag), threading.__file__)
    assert len({name for name, *_ in lines}) == 2
    for line in lines:
        flag.clear()
        interrupt(lambda: call(flag), line, look)
    assert seen == [True] * len(lines)


def test_the_collector_of_garbage_adds_no_lines() -> None:
    """What it calls of firecron is no line of the call that it comes in: it rests meanwhile, and goes on afterwards."""
    was_enabled: list[bool] = []
    assert lines_of(lambda: was_enabled.append(gc.isenabled())) == []
    assert [*was_enabled, gc.isenabled()] == [False, True]


def test_a_job_may_stop_its_instance() -> None:
    """A stop that a job asks for waits neither in that job nor for it, and the job is told of it."""
    told: list[bool] = []

    def body(run: Run) -> None:
        bench.crons.stop()
        told.append(run.stopping.wait(PATIENCE))
        run.check()

    bench = Bench(body=body)
    bench.crons.start()
    assert bench.trigger() == "interrupted"
    assert told == [True]
    assert ended_stops()
    assert bench.timing.mono() == 0


SCRIPT = """
import logging, sys, threading, time
from firecron import FireCron, Run, distributed_cron
from firecron.testing import MemoryStore

logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
begun = threading.Event()

@distributed_cron("slow", "0 0 1 1 *")
def slow(run: Run):
    begun.set()
    run.stopping.wait()
    threading.Event().wait(0.2)  # it is the end of the process that has to wait for it

@distributed_cron("last", "0 0 1 1 *")
def last():
    crons.stop()

crons = FireCron(slow, last, store=MemoryStore(lambda: int(time.time() * 1000)), enabled=True)
crons.start()
threading.Thread(target=lambda: crons.registry.trigger("slow"), daemon=True).start()
begun.wait()
crons.registry.trigger("last")
"""


def test_the_end_of_the_process_waits_for_a_stop(run: RunPython) -> None:
    """A stop that another thread was left with has its time also where the program ends at once."""
    finished = run("-c", SCRIPT)
    assert finished.returncode == 0, finished.stderr
    assert '"slow" succeeded' in finished.stdout
