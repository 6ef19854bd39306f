"""The ticker's thread: it wakes for what comes, and nothing ends it but a stop."""

from __future__ import annotations

import threading

from tests.simulation.world import START, slot
from tests.unit.scheduler.test_ticker import PATIENCE, Bench, make_job
from tests.unit.threads import ended


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

        self.timing.wait = watched  # type: ignore[method-assign]

    def rests(self) -> None:
        assert self.waits.acquire(timeout=PATIENCE), "the ticker doesn't come to rest"


def test_its_thread_wakes_for_what_comes() -> None:
    """A job or a call that comes while the thread waits, or while it works, is seen at once."""
    bench = Threaded()
    bench.ticker.start()
    thread = bench.ticker._thread
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
    assert bench.ticker._thread is thread
    bench.ticker.stop()
    bench.ticker.wait(20)
    bench.ticker.stop()
    assert bench.ticker._ended is thread
    bench.ticker.wait(20)
    assert thread is not None
    assert not thread.is_alive()
    assert thread.daemon
    assert bench.slots() == [slot(1)]


def test_it_may_be_stopped_on_its_own_thread() -> None:
    """A stop from what the ticker itself has called ends its thread, and waits for nothing."""
    bench = Threaded()

    def stop() -> None:
        bench.ticker.stop()
        bench.ticker.wait(20)

    bench.ticker.at(START, stop)
    bench.ticker.start()
    thread = bench.ticker._thread or bench.ticker._ended
    assert thread is not None
    assert ended(thread)
    assert bench.said("ticker.failed") == []


def test_its_thread_survives_anything() -> None:
    """Even an error of the ticker's own is reported, and does not end its thread: it goes on after a pause."""
    bench = Threaded()
    work, broken = bench.ticker.work, [2]

    def breaking() -> float:
        if broken[0]:
            broken[0] -= 1
            raise ZeroDivisionError
        return work()

    bench.ticker.work = breaking  # type: ignore[method-assign]
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
    bench = Threaded()
    asked, answer = threading.Event(), threading.Event()

    def slow() -> None:
        asked.set()
        assert answer.wait(PATIENCE)
        bench.error = 1_000_000

    bench.asking = slow
    bench.ticker.add(make_job("* * * * * *"))
    bench.ticker.start()
    thread = bench.ticker._thread
    assert asked.wait(PATIENCE)
    bench.ticker.stop()
    bench.ticker.wait(20)
    assert thread is not None
    answer.set()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert bench.handed == []
