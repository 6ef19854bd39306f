"""A lock service by itself: without threads, in virtual time, on a store in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from firecron import LockService
from firecron.testing import FakeTiming, MemoryStore


class Service(NamedTuple):
    locks: LockService
    store: Any
    timing: FakeTiming


def make_service(kind: Callable[[Callable[[], int]], MemoryStore] = MemoryStore) -> Service:
    timing = FakeTiming()
    store = kind(timing.now)
    return Service(LockService(store=store, timing=timing, has_threads=False), store, timing)
