"""A process that is frozen in the middle of a request: it must find out before it trusts its lease."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from firecron.base.clocks import Deadline
from firecron.lock.lease import Lease
from firecron.lock.refusal import Refusal
from firecron.locks import LockService
from firecron.settings import load
from firecron.store import Snapshot
from firecron.testing import FakeTiming, MemoryStore

NAME = "job"
PATH = f"cron-locks/{NAME}"
TTL = 60


class FreezingStore(MemoryStore):
    """A store whose client can be frozen before its next write arrives, or after it was done."""

    before: Callable[[], None] | None = None
    after: Callable[[], None] | None = None

    def swap(self, path: str, etag: str, node: dict[str, object] | None, deadline: Deadline) -> str | Snapshot:
        freeze, self.before = self.before, None
        if freeze is not None:
            freeze()
        answer = super().swap(path, etag, node, deadline)
        freeze, self.after = self.after, None
        if freeze is not None:
            freeze()
        return answer


class Bench:
    """A service in virtual time, on a store that shares it."""

    def __init__(self) -> None:
        self.timing = FakeTiming()
        self.store = FreezingStore(self.timing.now)
        self.service = LockService(settings=load(), store=self.store, timing=self.timing)
        self.other = LockService(settings=load(), store=self.store, timing=self.timing)

    def freeze(self, moment: str, seconds: float) -> None:
        setattr(self.store, moment, lambda: self.timing.advance(seconds))


@pytest.fixture
def bench() -> Bench:
    return Bench()


MOMENTS = pytest.mark.parametrize("moment", ["before", "after"])


@MOMENTS
def test_a_lease_that_ended_in_a_freeze_is_no_acquisition(bench: Bench, moment: str) -> None:
    """Who is frozen over its acquire for the whole lease is not told that it has it, though its record is there."""
    bench.freeze(moment, TTL)
    answer = bench.service.acquire(NAME, TTL)
    assert isinstance(answer, Refusal)
    assert answer.reason == "unavailable"
    assert bench.store.get(PATH) is not None
    bench.timing.advance(1)
    assert isinstance(bench.other.acquire(NAME, TTL), Lease)


@MOMENTS
def test_a_freeze_shortens_the_lease(bench: Bench, moment: str) -> None:
    """A lease is aged from before the write: what is left after a freeze ends when the record says, less the margin."""
    bench.freeze(moment, TTL - 2)
    lease = bench.service.acquire(NAME, TTL)
    assert isinstance(lease, Lease)
    assert not lease.lost
    bench.timing.advance(1)
    assert lease.lost
    assert isinstance(bench.other.acquire(NAME, TTL), Refusal)


@MOMENTS
def test_a_renewal_that_is_confirmed_too_late_is_lost(bench: Bench, moment: str) -> None:
    """Who is frozen over a renewal until the old lease is over has lost it, though the record says otherwise."""
    lease = bench.service.acquire(NAME, TTL)
    assert isinstance(lease, Lease)
    bench.timing.advance(TTL / 2)
    bench.freeze(moment, TTL / 2 - 1)
    assert not lease.renew()
    assert lease.lost
    record = bench.store.get(PATH)
    assert isinstance(record, dict)
    assert record["holder"] == lease.holder


def test_a_frozen_holder_does_not_release_its_successor(bench: Bench) -> None:
    """Who is frozen before its release arrives, and overtaken meanwhile, leaves the successor's record as it is."""
    lease = bench.service.acquire(NAME, TTL)
    assert isinstance(lease, Lease)
    records: list[object] = []

    def freeze() -> None:
        bench.timing.advance(TTL + 2)
        assert isinstance(bench.other.acquire(NAME, TTL), Lease)
        records.append(bench.store.get(PATH))

    bench.store.before = freeze
    assert not lease.release()
    assert [bench.store.get(PATH)] == records
