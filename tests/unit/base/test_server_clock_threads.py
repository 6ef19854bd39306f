"""Threads that need the time at once: one asks, the others wait for it, none past its deadline."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.unit.base.clock_bench import ORIGIN, Bench
from tests.unit.threads import Watched

from firecron.errors import Unavailable


class Blocked:
    """A clock whose first sample waits until it is let go, on a thread of its own."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self.started, self.go_on = threading.Event(), threading.Event()
        self.watched = Watched()
        self.bench = Bench(make_lock=lambda: self.watched)
        self.bench.timing.make_lock = threading.Lock
        self.bench.server.before = self._wait
        self.first = pool.submit(self.bench.now)
        assert self.started.wait(10)
        self.watched.wait()

    def _wait(self) -> None:
        self.started.set()
        assert self.go_on.wait(10)


def test_one_thread_synchronises_and_others_wait() -> None:
    """Threads that need the time at once share one synchronisation."""
    with ThreadPoolExecutor(4) as pool:
        blocked = Blocked(pool)
        others = [pool.submit(blocked.bench.now) for _ in range(3)]
        for _ in others:
            blocked.watched.wait()
        blocked.go_on.set()
        assert {one.result(10) for one in (blocked.first, *others)} == {int(ORIGIN)}
    assert blocked.bench.server.samples == 3


def test_waiting_for_another_thread_ends_with_the_deadline() -> None:
    """Who waits for another's synchronisation waits no longer than its own deadline."""
    with ThreadPoolExecutor(1) as pool:
        blocked = Blocked(pool)
        with pytest.raises(Unavailable, match="another thread"):
            blocked.bench.clock.now(blocked.bench.deadline(0))
        blocked.go_on.set()
        blocked.first.result(10)
