"""The store in memory is one tree, as the database is."""

from __future__ import annotations

import pytest

from firecron import FireCron, LockService, Refusal, distributed_cron
from firecron.base.clocks import Deadline
from firecron.errors import Unavailable
from firecron.store import NULL_ETAG, ONE_MORE, SERVER_TIME
from firecron.testing import FakeClock, MemoryStore


def test_children_are_part_of_their_node() -> None:
    """What is written below a node is in it, with another ETag; the last child that goes takes its parents along."""
    clock = FakeClock()
    store, soon = MemoryStore(clock.now), Deadline.after(clock, 1)
    store.set("a/b", {"c": 1})
    before = store.read("a", soon)
    assert store.merge("a/b", {"d": 2, "at": {".sv": "timestamp"}}, soon) == {"d": 2, "at": clock.now()}
    after = store.read("a", soon)
    assert after.node == {"b": {"c": 1, "d": 2, "at": clock.now()}}
    assert after.etag != before.etag
    assert store.keys("a/b", soon) == ["at", "c", "d"]
    store.merge("a/b", {"c": None, "d": None, "at": None}, soon)
    assert store.read("a", soon).etag == NULL_ETAG


def test_a_merge_may_reach_further_down_and_count() -> None:
    """The keys of a merge may be paths, also from the root; an increment adds one, or begins with one."""
    clock = FakeClock()
    store, soon = MemoryStore(clock.now), Deadline.after(clock, 1)
    values: dict[str, object] = {"g/beats": ONE_MORE, "i/me": {"seenAt": SERVER_TIME}}
    for number in (1, 2):
        assert store.merge("", values, soon) == {"g/beats": number, "i/me": {"seenAt": clock.now()}}
    assert store.get("g") == {"beats": 2}
    for odd in ("many", True):
        store.set("ops/g/beats", odd)
        assert store.merge("ops", values, soon)["g/beats"] == 1


def test_a_pause_is_seen_by_those_who_acquire() -> None:
    """A lock that is paused through the service is refused, and free again when it is resumed."""
    clock = FakeClock()
    locks = LockService(store=MemoryStore(clock.now), timing=clock, has_threads=False)
    locks.pause("x")
    refusal = locks.acquire("x", 60)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "paused"
    locks.pause("x", is_paused=False)
    assert locks.acquire("x", 60)


def test_a_job_can_be_paused_in_a_rehearsal() -> None:
    """A pause everywhere keeps a job from its ticks until it is resumed."""
    ran: list[int] = []

    @distributed_cron("job", "* * * * *", lock_ttl=30)
    def job() -> None:
        ran.append(1)

    with FireCron(job).testing("2026-11-18T09:00:30Z") as test:
        test.locks.pause("job")
        test.advance(60)
        assert ran == []
        test.locks.pause("job", is_paused=False)
        test.advance(60)
        assert ran == [1]


def test_a_watch_is_told_what_changes_its_node() -> None:
    """A watch tells the node at first, then each new value, whether it changed at, above or below its path."""
    clock = FakeClock()
    store, soon = MemoryStore(clock.now), Deadline.after(clock, 1)
    watch = store.watch("a/b", soon)
    store.set("a/b/c", 1)
    store.set("a/other", 1)
    store.merge("a", {"b/c": 1, "b/d": 2, "other": 2}, soon)
    store.set("a/b/d", 2)
    store.swap("a", store.read("a", soon).etag, None, soon)
    assert [watch.next() for _ in range(4)] == [None, {"c": 1}, {"c": 1, "d": 2}, None]
    watch.close()
    store.set("a/b", "later")
    with pytest.raises(Unavailable, match="a/b is closed"):
        watch.next()


def test_a_forked_child_is_told_nothing() -> None:
    """The child's writes reach no watch of the parent."""
    clock = FakeClock()
    store, soon = MemoryStore(clock.now), Deadline.after(clock, 1)
    watch = store.watch("a", soon)
    store.after_fork()
    store.set("a", 1)
    store.after_fork()
    watch.close()
    with pytest.raises(Unavailable):
        watch.next()
