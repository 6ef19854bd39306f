"""The ticker's thread: it wakes for what comes, and nothing ends it but a stop."""

from __future__ import annotations

import threading

from tests.simulation.world import START, slot
from tests.unit.scheduler.test_ticker import PATIENCE, Bench, make_job
from tests.unit.threads import ended, named

from firecron.base.clocks import Moment

THREAD = "firecron-ticker"


class Threaded(Bench):
    """The same with its thread; `handing` counts what was handed over."""

    def __init__(self) -> None:
        super().__init__()
        self.handing = threading.Semaphore(0)
        self.dispatching = lambda job, tick: self.handing.release()
        self.waits = threading.Semaphore(0)
        self.waited: list[float | None] = []
        wait = self.timing.wait

        def watched(condition: threading.Condition, seconds: float | None) -> None:
            self.waited.append(seconds)
            self.waits.release()
            wait(condition, seconds)

        self.timing.wait = watched  # type: ignore[method-assign]  # the same, and watched

    def rests(self) -> None:
        assert self.waits.acquire(timeout=PATIENCE), "the ticker doesn't come to rest"


def test_its_thread_wakes_for_what_comes() -> None:
    """A job or a call that comes while the thread waits, or while it works, is seen at once."""
    bench, others = Threaded(), named(THREAD)
    bench.ticker.start()
    (thread,) = named(THREAD) - others
    bench.rests()
    called = threading.Event()
    bench.ticker.at(START, called.set)
    assert called.wait(PATIENCE)
    bench.rests()
    bench.ticker.add(make_job("* * * * * *"))
    bench.rests()
    # A call that is made while the thread is at work has its effect before the thread rests again.
    inner = threading.Event()
    bench.ticker.at(START, lambda: bench.ticker.at(START, inner.set))
    assert inner.wait(PATIENCE)
    bench.timing.advance(1)
    assert bench.handing.acquire(timeout=PATIENCE)
    bench.ticker.start()
    assert named(THREAD) - others == {thread}
    bench.ticker.stop()
    assert ended(thread)
    assert thread.daemon
    assert bench.slots() == [slot(1)]


def test_a_second_stop_waits_for_the_same_thread() -> None:
    """After two stops it is still the thread of before them that is waited for."""
    bench, others = Threaded(), named(THREAD)
    called, go_on = threading.Event(), threading.Event()

    def hold_up() -> None:
        called.set()
        assert go_on.wait(PATIENCE)

    bench.ticker.at(START, hold_up)
    bench.ticker.start()
    (thread,) = named(THREAD) - others
    assert called.wait(PATIENCE)
    bench.ticker.stop()
    bench.ticker.stop()
    threading.Timer(0.05, go_on.set).start()
    bench.ticker.wait(20)
    assert not thread.is_alive()


def test_it_may_be_stopped_on_its_own_thread() -> None:
    """A stop from what the ticker itself has called ends its thread, and waits for nothing."""
    bench, others = Threaded(), named(THREAD)
    stopped = threading.Event()

    def stop() -> None:
        bench.ticker.stop()
        bench.ticker.wait(20)
        stopped.set()

    bench.ticker.at(START, stop)
    bench.ticker.start()
    assert stopped.wait(PATIENCE)
    assert all(map(ended, named(THREAD) - others))
    assert bench.said("ticker.failed") == []


def test_its_thread_survives_anything() -> None:
    """Even an error of the ticker's own is reported, and does not end its thread: it goes on after a pause."""
    bench = Threaded()
    peek, broken = bench.clock.peek, [2]

    def breaking() -> Moment | None:
        if broken[0]:
            broken[0] -= 1
            raise ZeroDivisionError
        return peek()

    bench.clock.peek = breaking  # type: ignore[method-assign]  # nothing that it is given breaks it
    bench.ticker.add(make_job("* * * * * *"))
    bench.ticker.start()
    while not bench.handing.acquire(timeout=0.01):
        bench.timing.advance(1)
    bench.ticker.stop()
    bench.ticker.wait(20)
    assert [event.name for event in bench.said("ticker.failed")] == ["ticker"] * 2
    assert bench.waited[0] == 1.5


def test_a_stop_does_not_wait_for_a_slow_clock() -> None:
    """A ticker that asks for the time just when it is to stop hands over nothing after it."""
    bench, others = Threaded(), named(THREAD)
    asked, answer = threading.Event(), threading.Event()

    def slow() -> None:
        asked.set()
        assert answer.wait(PATIENCE)
        bench.error = 1_000_000

    bench.asking = slow
    bench.ticker.add(make_job("* * * * * *"))
    bench.ticker.start()
    (thread,) = named(THREAD) - others
    assert asked.wait(PATIENCE)
    bench.ticker.stop()
    bench.ticker.wait(20)
    answer.set()
    assert ended(thread)
    assert bench.handed == []
