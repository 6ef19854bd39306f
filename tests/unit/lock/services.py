"""A lock service by itself: without threads, in virtual time, on a store in memory."""

from __future__ import annotations

from firecron import LockService
from firecron.testing import FakeTiming, MemoryStore


def make_service() -> tuple[LockService, MemoryStore]:
    timing = FakeTiming()
    store = MemoryStore(timing.now)
    return LockService(store=store, timing=timing, has_threads=False), store
