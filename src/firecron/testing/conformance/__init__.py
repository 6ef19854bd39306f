"""The conformance kit: tests of what a lock must do, which you run on your own database.

    class TestMyDatabase(LockConformance):
        def make_service(self, settings, timing):
            return LockService(app, settings, timing=timing)

        def read(self, path):
            return db.reference(path, app).get()

        def write(self, path, node):
            reference = db.reference(path, app)
            reference.delete() if node is None else reference.set(node)

pytest finds the tests in the subclass. They check the raw nodes after each step, and use their own names. They delete
their nodes at the end, after the test's fixtures have ended, so the app must outlive the test.

All services of a test share a clock. A test of expiry jumps ahead on that clock, so it waits for nothing, even on a
real database. pytest is not required: any program can call `setup_method()`, a test, and `teardown_method()`.

If you have stored schedules, add their part: `class TestMyDatabase(LockConformance, ScheduleConformance)`. For that the
database needs the index that is in the rules of `firecron rules`.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

from firecron.base.clocks import SystemTiming
from firecron.testing.conformance.kit import PATIENCE, TTL, Kit, taken
from firecron.testing.conformance.lock import LeaseConformance, SlotConformance
from firecron.testing.conformance.node import NodeConformance, WatchConformance
from firecron.testing.conformance.schedules import ScheduleConformance

__all__ = ["LockConformance", "ScheduleConformance"]


class CrowdConformance(Kit):
    """Tests with many contenders for one lock, in real time: counters that are right only if the lock works."""

    threads: ClassVar[int] = 8
    sections: ClassVar[int] = 100

    def test_never_two_at_a_time(self) -> None:
        """Threads on two instances, over two names, lose no increment of a counter that is not atomic."""
        services = [self.service(SystemTiming()) for _ in range(2)]
        names = [self.name, f"{self.name}-too"]
        counters = dict.fromkeys(names, 0)
        inside = dict.fromkeys(names, 0)
        crowded: list[str] = []

        def work(number: int) -> None:
            service = services[number % 2]
            for section in range(self.sections):
                name = names[(number // 2 + section) % 2]
                lease = taken(service.acquire(name, TTL, wait=PATIENCE))
                inside[name] += 1
                count = counters[name]
                time.sleep(0)  # another thread may run here
                if inside[name] != 1:
                    crowded.append(name)
                counters[name] = count + 1
                inside[name] -= 1
                assert lease.release()

        with ThreadPoolExecutor(self.threads) as pool:
            for result in [pool.submit(work, number) for number in range(self.threads)]:
                result.result()
        assert crowded == []
        assert list(counters.values()) == [self.threads * self.sections / 2] * 2
        assert self.node is None


class LockConformance(LeaseConformance, NodeConformance, SlotConformance, CrowdConformance, WatchConformance):
    """All tests of the kit. A subclass implements `make_service`, `read` and `write`."""
