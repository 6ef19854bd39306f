"""Two threads at once, where a lock keeps the change of one from being lost: the other comes in at each instruction."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FunctionType, TracebackType
from typing import TypeVar

import pytest
from tests.simulation.world import START, slot
from tests.unit.interrupts import instructions_of, interrupt_instruction
from tests.unit.lock.kept import Kept
from tests.unit.locks import replace_lock
from tests.unit.runs.bodies import body_of, job_of, make_run
from tests.unit.scheduler.test_ticker import Bench as TickerBench
from tests.unit.scheduler.test_ticker import make_job
from tests.unit.threads import PATIENCE, ended, named

from firecron import FireCron, Run, distributed_cron
from firecron.base.events import Events
from firecron.lock.keeper import Keeper
from firecron.runs.body import Body
from firecron.runs.runner import Runner
from firecron.scheduler.ticker import Ticker
from firecron.settings import load
from firecron.testing import FakeTiming, MemoryStore
from rtdb_emulator.database import ADMIN, Database

T = TypeVar("T")


class Watched:
    """A lock that tells when somebody has to wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.news = threading.Event()

    def notify(self) -> None:
        """As a condition's; nobody waits for it here."""

    def notify_all(self) -> None:
        """As `notify`."""

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.news.set()
            assert self._lock.acquire(timeout=PATIENCE)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.release()


def race(
    make: Callable[[Watched], T],
    one: Callable[[T], object],
    other: Callable[[T], object],
    code: CodeType,
    check: Callable[[T], object],
) -> None:
    """Make a thing, and let `one` and `other` happen to it on two threads: the other at each instruction of a function
    that the first one comes to, until it has happened or waits for the lock.
    """
    one(make(Watched()))  # whoever measures which lines are reached sees none of those that are traced here
    sample = make(Watched())
    instructions = instructions_of(lambda: one(sample), code)
    assert len(instructions) > 5
    for instruction in instructions:
        lock = Watched()
        thing = make(lock)
        thread = threading.Thread(target=lambda thing=thing, lock=lock: (other(thing), lock.news.set()))

        def come_in(thread: threading.Thread = thread, lock: Watched = lock) -> None:
            thread.start()
            assert lock.news.wait(PATIENCE)

        interrupt_instruction(lambda thing=thing: one(thing), code, instruction, come_in)  # type: ignore[misc]  # this one
        assert ended(thread)
        check(thing)


def code_of(owner: type, name: str) -> CodeType:
    """The code of a method, whose instructions the other thread comes between."""
    method = vars(owner)[name]
    assert isinstance(method, FunctionType)
    return method.__code__


def looping(code: CodeType) -> CodeType:
    """What goes through the things in a function: its generator or, before Python 3.12, its list's own code."""
    loops = ("<genexpr>", "<listcomp>")
    return next((one for one in code.co_consts if isinstance(one, CodeType) and one.co_name in loops), code)


def test_stops_that_come_at_once_are_one() -> None:
    """Of two stops at the same time one says that the crons were stopped."""
    settings = load()

    def make(lock: Watched) -> tuple[FireCron, list[str]]:
        timing, said = FakeTiming(wall=START), list[str]()
        crons = FireCron(store=MemoryStore(timing.now), timing=timing, settings=settings, enabled=True)
        crons.start()
        crons.events.subscribe(lambda event: said.append(event.slug))
        replace_lock(crons, lock, "_state_lock")
        return crons, said

    def stop(made: tuple[FireCron, list[str]]) -> None:
        made[0].stop()

    def check(made: tuple[FireCron, list[str]]) -> None:
        assert made[1] == ["crons.stopped"]

    race(make, stop, stop, code_of(FireCron, "_stop"), check)


def test_starts_that_come_at_once_are_one() -> None:
    """Of two starts at the same time one says that the crons tick."""
    settings = load()

    def make(lock: Watched) -> tuple[FireCron, list[str]]:
        timing, said = FakeTiming(wall=START), list[str]()
        store = MemoryStore(timing.now)
        crons = FireCron(store=store, timing=timing, settings=settings, enabled=True, has_threads=False)
        crons.events.subscribe(lambda event: said.append(event.slug))
        replace_lock(crons, lock, "_state_lock")
        return crons, said

    def start(made: tuple[FireCron, list[str]]) -> None:
        made[0].start()
        atexit.unregister(made[0].stop)

    def check(made: tuple[FireCron, list[str]]) -> None:
        assert made[1].count("crons.started") == 1

    race(make, start, start, FireCron.start.__code__, check)


class Cancelled:
    """A task, and its loop, that count how often they are to cancel it."""

    def __init__(self) -> None:
        self.times = 0

    def get_loop(self) -> Cancelled:
        return self

    def call_soon_threadsafe(self, call: Callable[[], object]) -> None:
        self.times += 1

    def cancel(self) -> None: ...


def test_cancellations_that_come_at_once_are_one() -> None:
    """Of two cancellations of a job at the same time one reaches it: a second would hit it while it cleans up."""

    def make(lock: Watched) -> tuple[Body[Run], Cancelled]:
        body, task = body_of(job_of(lambda: None), make_run(), None), Cancelled()
        replace_lock(body, lock)
        body._task = task  # type: ignore[assignment]  # it has what is used of a task, and needs no loop
        return body, task

    def cancel(made: tuple[Body[Run], Cancelled]) -> None:
        made[0].cancel()

    def check(made: tuple[Body[Run], Cancelled]) -> None:
        assert made[1].times == 1

    race(make, cancel, cancel, Body.cancel.__code__, check)


@pytest.mark.parametrize("name", ["_next_due", "_most_urgent"])
def test_a_lease_may_be_forgotten_while_the_keeper_looks(name: str) -> None:
    """A lease that is given back just when the keeper goes through all leases is forgotten, and disturbs nothing."""

    def make(lock: Watched) -> tuple[Keeper, list[Kept]]:
        timing = FakeTiming()
        keeper, leases = Keeper(timing, Events(), 3.0, has_thread=False), [Kept(timing), Kept(timing)]
        replace_lock(keeper, lock, "_changed")
        for lease in leases:
            keeper.keep(lease, renews=True)
        return keeper, leases

    def check(made: tuple[Keeper, list[Kept]]) -> None:
        assert set(made[0].leases()) == {made[1][0]}
        assert made[0].work() == made[1][0].renewal_due

    race(
        make,
        lambda made: made[0].work(),
        lambda made: made[0].forget(made[1][1]),
        looping(code_of(Keeper, name)),
        check,
    )


def make_ticker(lock: Watched) -> TickerBench:
    """A ticker that has planned a tick for a second after nine, when it is that."""
    bench = TickerBench()
    replace_lock(bench.ticker, lock, "_changed")
    bench.ticker.add(make_job("* * * * * *"))
    bench.until(0)
    bench.timing.advance(1)
    return bench


@pytest.mark.parametrize("name", ["work", "_plan", "_due", "_plan_tick"])
@pytest.mark.parametrize("is_removed", [True, False])
def test_after_an_end_nothing_of_before_is_planned(
    name: str, is_removed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop, or the removal of a job, that comes at any moment while the ticker works leaves no tick of before;
    what is started again plans anew.
    """

    def end(bench: TickerBench) -> None:
        if is_removed:
            bench.ticker.remove("job")
        else:
            bench.ticker.stop()

    def check(bench: TickerBench) -> None:
        assert bench.said("ticker.failed") == []
        if not is_removed:
            bench.ticker.start()
            # Seen as a freeze only if the next wake is seconds late.
            assert bench.ticker._wakes_at is None, "the time until the next start is no freeze"
        bench.handed.clear()
        bench.until(3)
        assert bench.slots() == ([] if is_removed else [slot(2), slot(3)])

    monkeypatch.setattr(Ticker, "_run", lambda ticker: None)  # all that its thread does here
    race(make_ticker, lambda bench: bench.ticker.work(), end, code_of(Ticker, name), check)


def test_starts_of_a_ticker_that_come_at_once_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two starts at the same time one begins a thread."""

    begun: list[Ticker] = []

    def begin(ticker: Ticker) -> None:
        begun.append(ticker)

    monkeypatch.setattr(Ticker, "_run", begin)  # all that its thread does here

    def start(ticker: Ticker) -> None:
        ticker.start()

    def check(ticker: Ticker) -> None:
        assert all(map(ended, named("firecron-ticker")))
        assert begun.count(ticker) == 1

    race(lambda lock: make_ticker(lock).ticker, start, start, Ticker.start.__code__, check)


def test_runs_that_begin_and_end_at_once_are_counted() -> None:
    """A run that begins just when another one ends is under way."""
    settings = load()

    @dataclass
    class Made:
        crons: FireCron
        first_ended: threading.Event
        seen: list[dict[str, int]]

    def make(lock: Watched) -> Made:
        timing, seen, first_ended = FakeTiming(wall=START), list[dict[str, int]](), threading.Event()

        def second() -> None:
            lock.news.set()
            assert first_ended.wait(PATIENCE)
            seen.append(crons.engine.runner.running())

        jobs = [distributed_cron(name, "* * * * *")(body) for name, body in (("a", lambda: None), ("b", second))]
        crons = FireCron(
            *jobs, store=MemoryStore(timing.now), timing=timing, settings=settings, enabled=True, has_threads=False
        )
        replace_lock(crons.engine.runner, lock)
        return Made(crons, first_ended, seen)

    def first(made: Made) -> None:
        made.crons.registry.trigger("a")
        made.first_ended.set()

    def check(made: Made) -> None:
        assert made.seen == [{"b": 1}]

    def other(made: Made) -> None:
        made.crons.registry.trigger("b")

    race(make, first, other, looping(code_of(Runner, "_end")), check)


@pytest.mark.parametrize("name", ["write", "_commit"])
def test_writes_to_a_database_that_come_at_once_are_all_there(name: str) -> None:
    """Of two writes to the emulator's database at the same time neither is lost."""

    def make(lock: Watched) -> Database:
        database = Database("test", lambda: START)
        replace_lock(database, lock)
        return database

    def write(key: str) -> Callable[[Database], object]:
        return lambda database: database.write((key,), 1, ADMIN)

    def check(database: Database) -> None:
        assert not any(database.read((key,), ADMIN).is_empty for key in "ab")

    race(make, write("a"), write("b"), code_of(Database, name), check)
