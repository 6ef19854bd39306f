"""The heartbeat's thread: what it goes on through, how its end is waited for, and a start before that end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import pytest
from tests.simulation.world import START
from tests.unit.locks import lock_of
from tests.unit.threads import PATIENCE, Resting, ended, named

from firecron import FireCron
from firecron.base.clocks import Deadline
from firecron.base.events import Event
from firecron.base.flag import begin_child
from firecron.settings import load
from firecron.testing import FakeTiming, MemoryStore

THREAD = "firecron-heartbeat"


class OneWait(FakeTiming):
    """Time whose first wait is noted, and is the last."""

    def __init__(self) -> None:
        super().__init__(wall=START)
        self.waits: list[float | None] = []
        self.then: Callable[[], object] = lambda: None

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        self.waits.append(seconds)
        self.condition = condition
        self.then()


def test_rounds_put_off_no_beat() -> None:
    """After rounds that took twenty seconds the next beat is ten seconds away."""
    timing = OneWait()
    crons = FireCron(store=MemoryStore(timing.now), timing=timing, settings=load(heartbeat=30), enabled=True)
    heartbeat = crons.engine.heartbeat
    heartbeat.chance = lambda: 1.0

    def make(deadline: Deadline) -> bool:
        timing.advance(20)
        return True

    crons.engine.recovery.make = make  # type: ignore[method-assign]  # noted, not made
    timing.then = heartbeat.leave
    others = named(THREAD)
    heartbeat.start()
    for thread in named(THREAD) - others:
        assert thread.daemon, "it keeps no process from its end"
    assert all(map(ended, named(THREAD) - others))
    heartbeat.wait(timing.mono() + 1)
    assert timing.waits == [10], "and none for a thread that has ended"


def test_trouble_does_not_end_the_heartbeat() -> None:
    """Whatever a beat or the rounds raise, it is told each time, and the thread goes on to the next beat."""
    timing = FakeTiming(wall=START)
    beats = threading.Semaphore(0)
    said: list[Event] = []

    class Broken(MemoryStore):
        def merge(
            self, path: str, children: Mapping[str, object], deadline: Deadline, *, echo: bool = True
        ) -> dict[str, object]:
            beats.release()
            raise ZeroDivisionError

    crons = FireCron(store=Broken(timing.now), timing=timing, settings=load())
    crons.events.subscribe(said.append)
    heartbeat, others = crons.engine.heartbeat, named(THREAD)
    heartbeat.start()
    (thread,) = named(THREAD) - others
    for _ in range(3):
        while not beats.acquire(timeout=0.01):
            timing.advance(30)
    heartbeat.leave()
    assert ended(thread)
    told = [event.fields["why"] for event in said if event.slug == "heartbeat.failed"]
    assert told.count("ZeroDivisionError()") == len(told) - 1 >= 3, "each beat, and the removal at the end"


class Noting(Resting):
    """Time that is moved by hand, and notes how long is waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float | None] = []

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        self.waits.append(seconds)
        super().wait(condition, seconds)


class Stuck:
    """A heartbeat whose thread is at the database, which doesn't answer."""

    def __init__(self, go_on: threading.Event) -> None:
        self.timing = timing = Noting()
        timing.advance(5)
        arrived = threading.Event()

        class Silent(MemoryStore):
            def merge(
                self, path: str, children: Mapping[str, object], deadline: Deadline, *, echo: bool = True
            ) -> dict[str, object]:
                arrived.set()
                assert go_on.wait(PATIENCE)
                return super().merge(path, dict(children), deadline, echo=echo)

        self.heartbeat = FireCron(store=Silent(timing.now), timing=timing, settings=load()).engine.heartbeat
        self.heartbeat.start()
        assert arrived.wait(PATIENCE)

    def wait(self, milliseconds: float) -> threading.Thread:
        """Wait for it on another thread."""
        waiting = threading.Thread(target=self.heartbeat.wait, args=(self.timing.mono() + milliseconds,))
        waiting.start()
        return waiting


def test_the_end_of_its_thread_is_waited_for_as_long_as_there_is_time(go_on: threading.Event) -> None:
    """Without time there is no wait, and with some no longer one; it is over as soon as the node is removed."""
    stuck = Stuck(go_on)
    stuck.heartbeat.leave()
    assert ended(stuck.wait(0))
    waiting = stuck.wait(1)
    stuck.timing.rests()
    assert stuck.timing.waits == [pytest.approx(0.001)]
    stuck.timing.advance(0.002)
    assert ended(waiting)
    waiting = stuck.wait(10_000)
    stuck.timing.rests()
    go_on.set()
    assert ended(waiting)


def test_a_forked_child_waits_for_no_heartbeat_of_its_parent(go_on: threading.Event) -> None:
    """The parent's thread isn't there in a child, nor is whoever held its lock at the fork."""
    stuck = Stuck(go_on)
    assert lock_of(stuck.heartbeat, "_changed").acquire(timeout=1)
    begin_child()
    assert ended(stuck.wait(10_000))
    go_on.set()


def test_an_instance_that_starts_again_keeps_its_node() -> None:
    """A start while the thread of before comes to its end makes rounds at once, and the node stays until the stop."""
    timing = OneWait()
    store = MemoryStore(timing.now)
    crons = FireCron(store=store, timing=timing, settings=load(), enabled=True)
    heartbeat = crons.engine.heartbeat
    rounds: list[object] = []

    def make(deadline: Deadline) -> bool:
        rounds.append(store.get(f"cron-instances/{heartbeat.id}"))
        return True

    crons.engine.recovery.make = make  # type: ignore[method-assign]  # noted, not made
    others = named(THREAD)
    first: list[threading.Thread] = []

    def again() -> None:
        first.append(threading.current_thread())
        timing.then = then_leave
        timing.advance(1)
        heartbeat.leave()
        crons.engine.recovery.start()
        heartbeat.start()

    def then_leave() -> None:
        timing.then = lambda: None
        timing.condition.release()
        try:
            assert ended(first[0])
        finally:
            timing.condition.acquire()
        assert store.get(f"cron-instances/{heartbeat.id}") is not None
        rounds.append("still there")
        heartbeat.leave()

    timing.then = again
    crons.engine.recovery.start()
    heartbeat.start()
    while threads := named(THREAD) - others:
        assert all(map(ended, threads))
    assert len(rounds) == 3
    assert rounds[-1] == "still there"
    assert store.get(f"cron-instances/{heartbeat.id}") is None
