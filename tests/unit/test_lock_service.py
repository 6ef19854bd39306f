"""The lock service: what a hold, an interruption and a close leave behind."""

from __future__ import annotations

import threading

import pytest

from firecron import LockService
from firecron.events import Event
from firecron.testing import FakeTiming, MemoryStore
from firecron.timing import SystemTiming


def test_i02_a_hold_is_for_one_block() -> None:
    """Two blocks can't share one hold, whose token would make them pass for each other."""
    timing = FakeTiming()
    locks = LockService(store=MemoryStore(timing.now), timing=timing, has_threads=False)
    hold = locks.hold("job", 60)
    with hold, pytest.raises(RuntimeError, match="call hold\\(\\) anew"), hold:
        raise AssertionError("a second block ran under the first one's lock")


def test_an_interrupted_telling_leaves_no_lease_behind() -> None:
    """If what hears of an acquisition interrupts it, the lock is given back before the interruption goes on."""
    timing = FakeTiming()
    store = MemoryStore(timing.now)
    locks = LockService(store=store, timing=timing, has_threads=False)

    def interrupt(event: Event) -> None:
        if event.slug == "lock.acquired":
            raise KeyboardInterrupt

    locks.events.subscribe(interrupt)
    with pytest.raises(KeyboardInterrupt):
        locks.acquire("job", 60)
    assert store.get("cron-locks/job") is None


def test_closing_ends_the_threads() -> None:
    """A closed service has no keeper's thread any more, and acquires again if it is asked to."""
    timing = SystemTiming()
    locks = LockService(store=MemoryStore(lambda: int(timing.wall())), timing=timing)
    for _ in range(2):
        before = set(threading.enumerate())
        lease = locks.acquire("job", 60)
        assert lease
        lease.release()
        [keeper] = set(threading.enumerate()) - before
        locks.close()
        keeper.join(10)
        assert not keeper.is_alive()
