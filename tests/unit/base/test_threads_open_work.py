"""Waiting for the work that is under way."""

from __future__ import annotations

import threading

from firecron.base.flag import begin_child
from firecron.base.threads import OpenWork
from firecron.testing import FakeTiming

PATIENCE = 20.0


def test_what_ends_twice_has_ended_once() -> None:
    """A mark may be removed again, and one that was never added too; others stay."""
    open_work = OpenWork(FakeTiming())
    open_work.add("one")
    open_work.add("other")
    for mark in ("one", "one", "none"):
        open_work.remove(mark)
    assert len(open_work) == 1


def test_a_wait_ends_with_the_last_work() -> None:
    """Whoever waits is woken by each end, and goes on at the last."""
    timing = FakeTiming()
    open_work = OpenWork(timing)
    open_work.add("one")
    open_work.add("other")
    waiting = threading.Thread(target=open_work.wait, args=[timing.mono() + 1_000])
    waiting.start()
    open_work.remove("one")
    open_work.remove("other")
    waiting.join(PATIENCE)
    assert not waiting.is_alive()


def test_a_wait_has_an_end() -> None:
    """No wait is longer than it was asked to be; one that ends in the past is none."""
    timing = FakeTiming()
    open_work = OpenWork(timing)
    open_work.add("one")
    open_work.wait(timing.mono())
    waiting = threading.Thread(target=open_work.wait, args=[timing.mono() + 1_000])
    waiting.start()
    timing.advance(1)
    waiting.join(PATIENCE)
    assert not waiting.is_alive()


def test_the_last_moment_is_waited_for() -> None:
    """A wait of less than a millisecond is one as well."""
    waits: list[float | None] = []

    class Timing(FakeTiming):
        def wait(self, condition: threading.Condition, seconds: float | None) -> None:
            waits.append(seconds)
            self.advance(seconds or 0)

    timing = Timing()
    open_work = OpenWork(timing)
    open_work.add("one")
    open_work.wait(timing.mono() + 0.5)
    assert waits == [0.0005]


def test_a_forked_child_has_no_work_to_wait_for() -> None:
    """What the parent's threads do never ends in the child."""
    timing = FakeTiming()
    open_work = OpenWork(timing)
    open_work.add("one")
    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with open_work.changed:  # as another thread may have at the fork
            held.set()
            assert go_on.wait(PATIENCE)

    threading.Thread(target=hold).start()
    try:
        assert held.wait(PATIENCE)
        begin_child()
        assert open_work.changed.acquire(timeout=PATIENCE)
        open_work.changed.release()
    finally:
        go_on.set()
    open_work.wait(timing.mono() + 1_000)
    assert len(open_work) == 0
