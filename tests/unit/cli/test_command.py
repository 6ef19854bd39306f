"""A command under a lock: what it is given, how it ends, and what a signal or the loss of the lock does to it."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple

import pytest
from tests.simulation.instance import Instance
from tests.simulation.world import World
from tests.unit.listeners import recorded
from tests.unit.runs.bodies import make_run
from tests.unit.threads import PATIENCE, ended, named

import firecron.cli.process as module
from firecron import FireCron, LockService, distributed_cron
from firecron.base.flag import Flag
from firecron.cli.process import FORWARDED, CommandLine, ProcessGroup, Signals, under_lock, under_tick
from firecron.errors import Cancelled, CommandFailed, Stopping
from firecron.lock.refusal import Refusal
from firecron.testing import FakeTiming, MemoryStore

WATCH = "firecron-watch"
LOOK: float = module.LOOK
NINE = 1_794_992_400_000


class Noting(Signals):
    """Signals whose pauses take no time, and are noted: `at_pause` is called in each, and returns whether to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float | None] = []
        self.at_pause: Callable[[], bool] = lambda: True

    def wait(self, seconds: float | None = None) -> bool:
        self.pauses.append(seconds)
        return self.at_pause() and super().wait(0)


@pytest.fixture
def signals() -> Iterator[Noting]:
    """Noted as in a program that a person has started."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in FORWARDED}
    with Noting() as signals:
        yield signals
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch that sees soon that the command has ended."""
    monkeypatch.setattr(module, "LOOK", 0.02)


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[ProcessGroup]:
    """The process groups that were started."""
    started: list[ProcessGroup] = []

    class Kept(ProcessGroup):
        def __init__(self, arguments: list[str], environment: Mapping[str, str]) -> None:
            super().__init__(arguments, environment)
            started.append(self)

    monkeypatch.setattr(module, "ProcessGroup", Kept)
    return started


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    """Where a command tells how far it is."""
    os.mkfifo(tmp_path / "fifo")
    return tmp_path / "fifo"


def once_told(fifo: Path, call: Callable[[], object]) -> threading.Thread:
    """Call this on another thread as soon as the command has written there."""
    thread = threading.Thread(target=lambda: (fifo.read_text(), call()), daemon=True)
    thread.start()
    return thread


def shell(text: str, signals: Signals, kill_after: float = 10) -> CommandLine:
    return CommandLine(["sh", "-c", text], signals, kill_after)


def test_a_command_is_given_its_facts_and_the_environment(signals: Noting, tmp_path: Path) -> None:
    """Facts of this run are in the environment, those of a run around it and those that aren't known are not."""
    around = {"PATH": os.environ["PATH"], "MINE": "1", "FIRECRON_FENCE": "7", "FIRECRON_PREFIX": "ops"}
    told = tmp_path / "told"
    CommandLine(["sh", "-c", f"env > {told}"], signals, 10, around).run_as_job(make_run())
    found = dict(line.split("=", 1) for line in told.read_text().splitlines())
    facts = {"FIRECRON_NAME": "job", "FIRECRON_ATTEMPT": "1", "FIRECRON_IDEMPOTENCY_KEY": "key"}
    assert {name: value for name, value in found.items() if name not in ("PWD", "OLDPWD", "SHLVL", "_")} == {
        "PATH": os.environ["PATH"],
        "MINE": "1",
        "FIRECRON_PREFIX": "ops",
        **facts,
    }
    assert signals.pauses == [0]


def test_a_lost_lock_ends_the_command(signals: Noting) -> None:
    """It gets SIGTERM when the lock is lost; that it failed is its own outcome, and no stop of this process."""
    lost = Flag()
    lost.set()
    command = CommandLine(["sleep", "15"], signals, 10)
    with pytest.raises(CommandFailed):
        command.run(lambda: lost, {})
    assert command.code == 128 + signal.SIGTERM


class Ending(NamedTuple):
    """What is told to a command, what its trap for SIGTERM does, and how that ends."""

    told: Literal["cancelled", "lost", "signalled"]
    trap: str
    code: int
    raised: type[Exception] | None
    kill_after: float = 10


ENDINGS = {
    "a cancel asks it to end, and never kills it": Ending("cancelled", "'exit 7'", 7, Cancelled, kill_after=0),
    "a cancelled one that ends well has succeeded": Ending("cancelled", "'exit 0'", 0, None),
    "one that lost its lock may clean up": Ending("lost", "'exit 7'", 7, CommandFailed),
    "one that lost its lock and goes on is killed": Ending("lost", "''", 137, CommandFailed, kill_after=0.1),
    "one that a signal ends was stopped": Ending("signalled", "-", 143, Stopping),
    "one that fails after a signal was stopped": Ending("signalled", "'exit 3'", 3, Stopping),
    "one that ends well after a signal has succeeded": Ending("signalled", "'exit 0'", 0, None),
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_a_command_ends_as_it_was_told_to(ending: Ending, signals: Noting, fifo: Path) -> None:
    """A cancel, a signal and the loss of the lock are a SIGTERM for the command, once. What it does then counts: one
    that succeeds has succeeded, and one that fails was cancelled, stopped or has failed. Only a loss has a SIGKILL, and
    not before the time for it.
    """
    flags = {"cancelled": Flag(), "lost": Flag()}
    main = threading.get_ident()

    def tell() -> None:
        if ending.told == "signalled":
            signal.pthread_kill(main, signal.SIGTERM)
        else:
            flags[ending.told].set()

    text = f"trap {ending.trap} TERM; echo > {fifo}; while :; do sleep 0.02; done"
    command = shell(text, signals, kill_after=ending.kill_after)
    teller = once_told(fifo, tell)
    with nullcontext() if ending.raised is None else pytest.raises(ending.raised):
        command.run(lambda: flags["lost"], {}, flags["cancelled"])
    assert command.code == ending.code
    assert signals.received == (signal.SIGTERM if ending.told == "signalled" else None)
    assert ended(teller)


def test_what_a_command_leaves_behind_lives_on(
    signals: Noting, fifo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the command has ended well its group gets no signal any more, also not when its lock is released."""
    lost, watches = Flag(), set[threading.Thread]()
    answer = tmp_path / "answer"
    os.mkfifo(answer)
    close = ProcessGroup.close

    def release_first(group: ProcessGroup) -> None:
        lost.set()
        assert all(map(ended, watches))
        close(group)

    monkeypatch.setattr(ProcessGroup, "close", release_first)

    def look() -> Flag:
        watches.update(named(WATCH))
        return lost

    shell(f"(read line < {fifo}; echo $line > {answer}) &", signals).run(look, {})
    fifo.write_text("still there?\n")
    assert answer.read_text() == "still there?\n"
    assert {thread.daemon for thread in watches} == {True}


def test_the_rest_of_a_group_that_lost_its_lock_is_killed(signals: Noting, fifo: Path) -> None:
    """If the lock is found lost just as the command has ended, what it left behind is killed."""
    lost, main = Flag(), threading.current_thread()

    def look() -> Flag:
        if threading.current_thread() is main:
            lost.set()
        return lost

    told: list[str] = []
    reader = threading.Thread(target=lambda: told.append(fifo.read_text()), daemon=True)
    reader.start()
    shell(f"exec 3> {fifo}; (trap '' TERM; sleep 10; echo late >&3) &", signals).run(look, {})
    assert ended(reader)
    assert told == [""]


def test_the_watch_sleeps_between_its_looks(signals: Noting, monkeypatch: pytest.MonkeyPatch) -> None:
    """While nothing happens the lease's clock is looked at now and then; soon after the command the watch ends."""
    looks: list[threading.Thread] = []

    def look() -> Flag:
        looks.append(threading.current_thread())
        return Flag()

    shell("sleep 0.1", signals).run(look, {})
    assert ended(looks[0])
    looks.clear()
    monkeypatch.setattr(module, "LOOK", LOOK)
    shell("sleep 0.1", signals).run(look, {})
    assert 2 <= len(looks) <= 5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
def test_a_command_that_only_it_was_told_to_end_is_stopped(signals: Noting, number: int) -> None:
    """At a terminal Ctrl-C reaches the command alone: that is a stop, though this process got no signal."""
    command = shell(f"kill -{number} $$; sleep 15", signals)
    with pytest.raises(Stopping):
        command.run(Flag, {})
    assert (command.code, signals.received) == (128 + number, None)


def test_a_command_without_its_watch_is_killed(
    signals: Noting, groups: list[ProcessGroup], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever goes wrong here while the command runs, it doesn't go on unwatched, and has no code of a run before."""

    def fail(send: Callable[[int], None]) -> AbstractContextManager[None]:
        raise RuntimeError("something")

    command = shell('test -n "$FIRECRON_NAME" || sleep 15', signals)
    command.run(Flag, {"name": "first"})
    assert command.code == 0
    monkeypatch.setattr(signals, "going_to", fail)
    with pytest.raises(RuntimeError, match="something"):
        command.run(Flag, {})
    assert groups[1].wait() == -signal.SIGKILL
    assert all(map(ended, named(WATCH)))
    assert command.code is None


class Bench:
    """Locks in memory, at nine, and a command of one's own."""

    def __init__(self, signals: Signals, body: Callable[[], object] = lambda: None) -> None:
        self.timing = FakeTiming(wall=NINE)
        self.store = MemoryStore(self.timing.now)
        job = distributed_cron("job", "0 * * * *")(body)
        self.crons = FireCron(job, store=self.store, timing=self.timing, enabled=True, has_threads=False)
        self.locks: LockService = self.crons.locks
        self.heard = recorded(self.locks.events)
        self.ran = 0
        self.command = self.Own(self, signals, body)

    class Own(CommandLine):
        def __init__(self, bench: Bench, signals: Signals, body: Callable[[], object]) -> None:
            super().__init__(["true"], signals, 10)
            self._bench, self._body = bench, body

        def run(self, lost: Callable[[], Flag], facts: Mapping[str, object], cancelled: Flag | None = None) -> None:
            self._bench.ran += 1
            self._body()

    @property
    def slugs(self) -> list[str]:
        return [event.slug for event in self.heard]


def test_the_lock_is_renewed_while_the_command_runs_and_is_gone_after_it(signals: Noting) -> None:
    """A command may run longer than the ttl of its lock, and without a minimum hold leaves no node behind."""
    seen: list[object] = []

    def body() -> None:
        for _ in range(4):
            bench.timing.advance(20)
            bench.crons.work()
        seen.append(bench.store.get("cron-locks/backup/expiresAt"))

    bench = Bench(signals, body)
    assert under_lock(bench.locks.database, "backup", 60, bench.command) is None
    assert seen == [NINE + 140_000]
    assert bench.store.get("cron-locks/backup") is None


def test_after_a_signal_no_lock_is_asked_for(signals: Noting) -> None:
    """A signal that comes first ends the wait, and nothing is acquired."""
    bench = Bench(signals)
    signal.raise_signal(signal.SIGTERM)
    with pytest.raises(Stopping):
        under_lock(bench.locks.database, "backup", 60, bench.command)
    assert (bench.slugs, bench.ran) == ([], 0)


def test_a_lock_that_becomes_free_is_waited_for(signals: Noting) -> None:
    """A refusal that may change is no last word within the wait; what was acquired is not asked for again."""
    bench = Bench(signals)
    held = bench.locks.acquire("backup", 60)
    assert not isinstance(held, Refusal)

    def free_it() -> bool:
        bench.timing.advance((signals.pauses[-1] or 0) + 1e-6)
        if len(signals.pauses) == 3:
            held.release()
        return True

    signals.at_pause = free_it
    assert under_lock(bench.locks.database, "backup", 60, bench.command, wait=PATIENCE) is None
    assert (len(signals.pauses), bench.ran) == (3, 1)


class Worldly(Signals):
    """Signals whose pauses let the world's time pass. `number` arrives `at` so many seconds after nine."""

    def __init__(self, world: World, at: float = math.inf) -> None:
        super().__init__()
        self._world = world
        self._at = at
        self._is_woken = False

    def wait(self, seconds: float | None = None) -> bool:
        assert seconds is not None
        ends = min(self._world.mono() + seconds * 1000, self._at * 1000)
        while self._world.mono() < ends and not self._is_woken:
            self._world.step(ends)
        self._is_woken = False
        return self._world.mono() < self._at * 1000

    def wake(self) -> None:
        self._is_woken = True


@pytest.mark.parametrize(("hears", "late", "most"), [(True, 0.005, 6), (False, 2.0, 100)], ids=["hears", "polls"])
@pytest.mark.parametrize("is_tick", [False, True])
def test_a_command_that_hears_begins_when_the_lock_is_released(
    is_tick: bool, hears: bool, late: float, most: int
) -> None:
    """A command that waits for its lock, or for an earlier tick's, hears of the release; without a watch it polls."""
    world = World()
    began: list[float] = []

    @distributed_cron("job", "* * * * *")
    def job() -> None:
        began.append(world.mono() / 1000)

    one, holder = Instance(world, job, hears=hears), Instance(world).live()
    lease = holder.keep()
    world.at(50, lease.release)
    command = Worldly(world)
    own = Bench.Own(Bench(command), command, job)
    if is_tick:
        answer = under_tick(one.crons, "job", own, wait=55)
        assert not isinstance(answer, Refusal)
    else:
        assert under_lock(one.locks.database, "job", 60, own, wait=55) is None
    assert 50 <= began[0] <= 50 + late
    assert one.network.methods.count("watch") == hears
    assert one.network.methods.count("swap") <= most
    one.locks.close()
    world.advance(0)


def test_a_signal_ends_a_wait_that_hears() -> None:
    """Whoever follows the lock is ended at once, and follows nothing after that."""
    world = World()
    one, holder = Instance(world, hears=True), Instance(world).live()
    holder.keep()
    command = Worldly(world, at=20)
    bench = Bench(command)
    with pytest.raises(Stopping):
        under_lock(one.locks.database, "job", 60, bench.command, wait=3_600)
    assert (world.mono(), bench.ran, one.locks.database.streams.followers) == (20_000, 0, 0)
    world.advance(0)


def test_a_woken_pause_is_followed_by_whole_ones(signals: Noting) -> None:
    """`wake` ends one pause, and no other; a signal ends all."""
    signals.wake()
    for seconds, least in ((60.0, 0.0), (0.05, 0.05)):
        began = time.monotonic()
        assert Signals.wait(signals, seconds)
        assert time.monotonic() - began >= least
    signal.raise_signal(signal.SIGTERM)
    assert [Signals.wait(signals, 60), Signals.wait(signals, 60)] == [False, False]


def test_a_refusal_that_stays_is_not_waited_past(signals: Noting) -> None:
    """A pause of the lock ends only by hand, so that is the answer at once."""
    bench = Bench(signals)
    bench.locks.pause("backup")
    refusal = under_lock(bench.locks.database, "backup", 60, bench.command, wait=PATIENCE)
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, len(signals.pauses), bench.ran) == ("paused", 1, 0)


def test_a_signal_before_the_tick_ends_the_wait_for_it(signals: Noting) -> None:
    """Who comes two seconds before a tick waits for it, unless a signal comes first: then the tick is not claimed."""
    bench = Bench(signals)
    bench.timing.advance(3_598)
    signals.at_pause = lambda: len(signals.pauses) < 2
    with pytest.raises(Stopping):
        under_tick(bench.crons, "job", bench.command)
    assert signals.pauses == [0, 2]
    assert bench.store.get("cron-locks") is None


def test_a_tick_is_run_once(signals: Noting) -> None:
    """The tick that was meant is run, and a second call finds it done."""
    ran: list[int] = []
    bench = Bench(signals, lambda: ran.append(1))
    bench.crons.start()
    for expected in ("succeeded", "slot_done"):
        found = under_tick(bench.crons, "job", bench.command, wait=PATIENCE)
        assert (found.reason if isinstance(found, Refusal) else found.outcome) == expected
    assert ran == [1]
    assert bench.store.get("cron-locks/job/slot") == datetime.fromtimestamp(NINE / 1000, UTC).strftime("%FT%TZ")
    bench.crons.stop()
