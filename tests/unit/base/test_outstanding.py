"""Waiting for the work that is under way."""

from __future__ import annotations

import threading

from firecron.base.outstanding import Outstanding
from firecron.testing import FakeTiming

PATIENCE = 20.0


def test_what_ends_twice_has_ended_once() -> None:
    """A mark may be removed again, and one that was never added too; others stay."""
    outstanding = Outstanding(FakeTiming())
    outstanding.add("one")
    outstanding.add("other")
    for mark in ("one", "one", "none"):
        outstanding.remove(mark)
    assert len(outstanding) == 1


def test_a_wait_ends_with_the_last_work() -> None:
    """Whoever waits is woken by each end, and goes on at the last."""
    timing = FakeTiming()
    outstanding = Outstanding(timing)
    outstanding.add("one")
    outstanding.add("other")
    waiting = threading.Thread(target=outstanding.wait, args=[timing.mono() + 1_000])
    waiting.start()
    outstanding.remove("one")
    outstanding.remove("other")
    waiting.join(PATIENCE)
    assert not waiting.is_alive()


def test_a_wait_has_an_end() -> None:
    """No wait is longer than it was asked to be; one that ends in the past is none."""
    timing = FakeTiming()
    outstanding = Outstanding(timing)
    outstanding.add("one")
    outstanding.wait(timing.mono())
    waiting = threading.Thread(target=outstanding.wait, args=[timing.mono() + 1_000])
    waiting.start()
    timing.advance(1)
    waiting.join(PATIENCE)
    assert not waiting.is_alive()


def test_a_forked_child_has_no_work_to_wait_for() -> None:
    """What the parent's threads do never ends in the child."""
    timing = FakeTiming()
    outstanding = Outstanding(timing)
    outstanding.add("one")
    with outstanding.changed:  # as another thread may have at the fork
        outstanding.after_fork()
    outstanding.wait(timing.mono() + 1_000)
    assert len(outstanding) == 0
