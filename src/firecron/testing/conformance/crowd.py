"""Conformance under contention: many threads, and counters that are right only if the lock works."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

from firecron.base.clocks import SystemTiming
from firecron.testing.conformance.kit import PATIENCE, TTL, Kit, taken


class CrowdConformance(Kit):
    """Tests with many contenders for one lock. They run in real time."""

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
