"""Work that is done once and for all: who calls, who waits, and what everybody is told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.simulation.fleet import Fleet, refusal_of
from tests.simulation.instance import Instance
from tests.simulation.world import NAME, World, slot

from firecron import ConfigurationError, Done, LeaseLost, LockService, NotAcquired
from firecron.base.events import Event
from firecron.errors import Denied, Malformed, Unavailable
from firecron.lock.lease import Lease
from firecron.settings import load
from firecron.testing import FakeTiming, MemoryStore
from rtdb_emulator.pytest_plugin import Rtdb

WORK = "backfill"
DONE = f"cron-steps/{WORK}/once/done"


class Calls:
    """A function that counts its calls, and lets time pass."""

    def __init__(self, world: World, seconds: float = 0) -> None:
        self.times: list[float] = []
        self._world = world
        self._seconds = seconds

    def __call__(self) -> dict[str, object]:
        self.times.append(self._world.mono() / 1000)
        self._world.advance(self._seconds)
        return {"rows": len(self.times), "none": None}


def test_it_is_called_once_and_all_are_told_the_same(fleet: Fleet) -> None:
    """The first call is made under a fenced, renewed lock; later callers read its result in one request."""
    one, other = fleet.instance(), fleet.instance()
    calls = Calls(fleet.world, 100)
    done = one.locks.once(WORK, calls, ttl=30)
    assert done == Done(
        {"rows": 1, "none": None}, datetime(2026, 11, 18, 9, 1, 40, tzinfo=UTC), one.locks.identity.instance
    )
    other.network.requests()
    assert other.locks.once(WORK, calls) == done
    assert other.network.requests() == ["read"]
    assert calls.times == [0]
    node = fleet.world.node(WORK)
    assert (node["kind"], node["releasedAt"]) == ("once", fleet.world.now())
    record: Any = fleet.world.store.get(DONE)
    assert record == {
        "result": '{"rows":1,"none":null}',
        "doneAt": fleet.world.now(),
        "startedAt": fleet.world.now() - 100_000,
        "fence": node["fence"],
        "instance": one.locks.identity.instance,
    }


def test_the_first_call_is_five_requests(fleet: Fleet, one: Instance) -> None:
    """Look, acquire, look, record, release."""
    one.locks.once(WORK, dict)
    assert one.network.requests() == ["read", "swap", "read", "swap", "swap"]


def test_whoever_waits_looks_again_and_does_not_call(fleet: Fleet) -> None:
    """Without a wait, as long as somebody is at it; the record ends the wait."""
    one, other = fleet.instance(), fleet.instance()
    calls = Calls(fleet.world, 200)
    found: list[Done[Any]] = []
    fleet.world.at(1, lambda: other.crew.submit(lambda: found.append(other.locks.once(WORK, calls, ttl=30))))
    done = one.locks.once(WORK, calls, ttl=30)
    fleet.world.until(210)
    assert found == [done]
    assert len(calls.times) == 1


def test_after_the_wait_it_is_not_acquired(fleet: Fleet) -> None:
    """The refusal says who is at it."""
    one, other = fleet.instance(), fleet.instance()
    one.keep(WORK, 30)
    with pytest.raises(NotAcquired) as refused:
        other.locks.once(WORK, dict, wait=5)
    assert refused.value.refusal.reason == "held"
    assert 5 <= fleet.world.mono() / 1000 < 6
    assert [event.slug for event in other.events] == ["lock.refused"]


def test_i51_a_call_that_raised_or_died_is_made_again(fleet: Fleet) -> None:
    """Nothing is recorded, so the next caller calls; the exception reaches the first."""
    one, other, third = fleet.instance(), fleet.instance(), fleet.instance()

    def fail() -> None:
        raise ConnectionError("down")

    with pytest.raises(ConnectionError):
        one.locks.once(WORK, fail, ttl=30)
    assert "releasedAt" in fleet.world.node(WORK)

    calls = Calls(fleet.world)

    def die() -> None:
        calls()
        other.freeze(1000)
        fleet.world.advance(100)
        assert third.locks.once(WORK, calls, ttl=30).result == {"rows": 2, "none": None}

    with pytest.raises(LeaseLost):
        other.locks.once(WORK, die, ttl=30)
    assert calls.times == [0, 100]
    assert one.locks.once(WORK, calls).result == {"rows": 2, "none": None}


def test_i51_a_record_between_the_first_look_and_the_lock_is_seen(fleet: Fleet) -> None:
    """Under the lock it looks once more: the last holder may have recorded and released in between."""
    one, other = fleet.instance(), fleet.instance()
    calls = Calls(fleet.world)
    looks: list[str] = []

    def before(method: str, path: str) -> None:
        if method == "swap" and not looks:
            looks.append(path)
            other.locks.once(WORK, calls)

    one.network.before = before
    assert one.locks.once(WORK, calls).result == {"rows": 1, "none": None}
    assert len(calls.times) == 1


def test_i51_a_zombie_records_nothing_and_is_told_so(fleet: Fleet) -> None:
    """Its write is refused by what its successor has recorded, even if it still trusts its lease."""
    one, other = fleet.instance(), fleet.instance()

    def overtaken() -> str:
        fleet.world.edit(WORK, expiresAt=0)
        assert other.locks.once(WORK, lambda: "the successor's").result == "the successor's"
        return "the zombie's"

    with pytest.raises(LeaseLost):
        one.locks.once(WORK, overtaken, ttl=30)
    assert one.locks.once(WORK, lambda: "a third").result == "the successor's"


def test_what_can_not_be_recorded_is_an_error(fleet: Fleet, one: Instance) -> None:
    """The lock is free again, and the next caller calls. `once` is no step, and has no `returns=` to pass."""
    with pytest.raises(ConfigurationError, match='"backfill" was called, and is called again') as refused:
        one.locks.once(WORK, lambda: (1, 2))
    assert "returns=" not in str(refused.value)
    assert "releasedAt" in fleet.world.node(WORK)
    assert fleet.world.store.get(DONE) is None


def test_a_jobs_name_is_refused(fleet: Fleet, one: Instance) -> None:
    """A job's lock is malformed for such work, and such a lock is for a job; nothing runs, and nothing is written."""
    one.turn(slot())
    before = fleet.world.node()
    with pytest.raises(NotAcquired, match=r"it has the slot .*, so the name belongs to a job") as refused:
        one.locks.once(NAME, dict)
    assert refused.value.refusal.reason == "malformed"
    assert fleet.world.node() == before

    other = Fleet()
    two = other.instance()
    two.locks.once(NAME, dict)
    assert refusal_of(two.turn(slot())).reason == "malformed"
    refusal = two.crons.registry.trigger(NAME).refusal
    assert refusal is not None
    assert "rename one of the two" in refusal.message
    assert other.runs == []


def test_a_job_that_was_only_run_by_hand_is_told_apart(fleet: Fleet, one: Instance) -> None:
    """Its node has no slot, but the outcome of its run. A lock that leaves a fence and no outcome is nobody's job."""
    assert one.crons.registry.trigger(NAME).outcome == "succeeded"
    before = fleet.world.node()
    assert "slot" not in before
    with pytest.raises(NotAcquired, match="an `outcome` and no `kind`, so the name belongs to a job"):
        one.locks.once(NAME, dict)
    assert fleet.world.node() == before
    lease = one.locks.acquire(WORK, 60, fenced=True)
    assert isinstance(lease, Lease)
    lease.release()
    assert "fence" in fleet.world.node(WORK)
    one.locks.once(WORK, dict)


def test_another_kind_of_lock_is_refused(fleet: Fleet, one: Instance) -> None:
    """What is a leader's, or whatever else, is not taken for such work."""
    fleet.world.put({"expiresAt": 1, "releasedAt": 1, "kind": "leader"}, WORK)
    with pytest.raises(NotAcquired, match="its `kind` is 'leader'"):
        one.locks.once(WORK, dict)
    fleet.world.put({"expiresAt": 1, "releasedAt": 1, "kind": "once"}, WORK)
    one.locks.once(WORK, dict)


@pytest.mark.parametrize(
    "fields", [{"result": "done"}, {"result": 7}, {"fence": "1"}, {"doneAt": None}, {"result": '{"cut'}]
)
def test_a_record_that_can_not_be_read_is_an_error_with_its_node(fleet: Fleet, fields: dict[str, object]) -> None:
    """Nothing is called, because it may have been done: the error names the node, which is to be mended or deleted."""
    one, calls = fleet.instance(), Calls(fleet.world)
    node = {"result": "1", "doneAt": 1, "startedAt": 1, "fence": 1, **fields}
    fleet.world.store.set(DONE, {name: value for name, value in node.items() if value is not None})
    with pytest.raises(Malformed, match=f"{DONE} can't be read: it.* or delete it"):
        one.locks.once(WORK, calls, wait=30)
    assert calls.times == []
    fleet.world.store.set(DONE, None)
    assert one.locks.once(WORK, calls).result == {"rows": 1, "none": None}


@pytest.mark.parametrize(("error", "reason"), [(Unavailable("x"), "unavailable"), (Denied("x"), "denied")])
def test_a_database_that_does_not_say_is_no_permission(
    fleet: Fleet, error: Exception, reason: str, one: Instance
) -> None:
    """Without a wait an outage ends it; with one it is tried again until then."""

    def fail() -> None:
        raise error

    one.network.next("read", before=fail, times=1000)
    with pytest.raises(NotAcquired) as refused:
        one.locks.once(WORK, dict)
    assert refused.value.refusal.reason == reason
    if reason == "unavailable":
        fleet.world.at(fleet.world.mono() / 1000 + 20, one.network.mend)
        assert one.locks.once(WORK, dict, wait=60).result == {}


def test_a_record_that_is_denied_loses_no_lock(rtdb: Rtdb) -> None:
    """Rules that refuse the record are told as that: the lease stands, and is released in order."""
    nodes = ("cron-locks", "cron-instances")
    rtdb.set_rules({"rules": {".read": True, **{node: {".write": True} for node in nodes}}})
    locks = LockService(settings=load(uid="firecron"))
    events: list[Event] = []
    locks.events.subscribe(events.append)
    with pytest.raises(Denied):
        locks.once(WORK, dict)
    assert not [event for event in events if "lost" in event.slug]
    node = rtdb.get(f"/cron-locks/{WORK}")
    assert isinstance(node, dict)
    assert "releasedAt" in node
    locks.close()


@pytest.mark.parametrize("name", ["", "1x", "a b"])
def test_a_name_is_a_locks(fleet: Fleet, name: str) -> None:
    """What no lock can be called is an error at once."""
    with pytest.raises(ConfigurationError):
        fleet.instance().locks.once(name, dict)


def test_async_functions_have_a_door_of_their_own(fleet: Fleet, one: Instance) -> None:
    """`once` refuses them before anything is asked, and what hides one after its call."""

    async def work() -> None: ...

    def hidden() -> object:
        return work()

    for function in (work, hidden):
        with pytest.raises(ConfigurationError, match="once_async"):
            one.locks.once(WORK, function)

    def generator() -> Any:
        yield 1

    with pytest.raises(TypeError, match="generator"):
        one.locks.once(WORK, generator)


def service() -> tuple[LockService, MemoryStore, FakeTiming]:
    timing = FakeTiming(wall=1_794_992_400_000.0)
    store = MemoryStore(timing.now)
    return LockService(store=store, timing=timing, has_threads=False), store, timing


def run_async(body: Callable[[], Any]) -> Any:
    return asyncio.run(body())


def test_it_may_be_awaited() -> None:
    """`once_async` calls on the loop, asks off it, and is told what `once` is told."""
    locks, store, _ = service()
    threads: list[threading.Thread] = []

    async def work() -> int:
        threads.append(threading.current_thread())
        return 5

    async def both() -> list[Done[int]]:
        return [await locks.once_async(WORK, work), await locks.once_async(WORK, work)]

    first, second = run_async(both)
    assert first == second == locks.once(WORK, dict)
    assert first.result == 5
    assert threads == [threading.current_thread()]
    node: Any = store.get(f"cron-locks/{WORK}")
    assert "releasedAt" in node


def test_an_awaited_call_that_raises_frees_the_lock() -> None:
    """So does one that is cancelled, and one whose lock is refused says so."""
    locks, store, _ = service()

    async def fail() -> None:
        raise ConnectionError

    async def cancelled() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(3600)

    with pytest.raises(ConnectionError):
        run_async(lambda: locks.once_async(WORK, fail))
    with pytest.raises(asyncio.CancelledError):
        run_async(lambda: locks.once_async(WORK, cancelled))
    node: Any = store.get(f"cron-locks/{WORK}")
    assert "releasedAt" in node
    store.set(f"cron-locks/{WORK}/paused", True)
    with pytest.raises(NotAcquired):
        run_async(lambda: locks.once_async(WORK, fail))


def test_an_awaited_call_is_cancelled_when_the_lease_is_lost() -> None:
    """The function ends, nothing is recorded, and the caller is told LeaseLost."""
    locks, store, timing = service()
    ended: list[str] = []

    async def work() -> None:
        (lease,) = locks.database.keeper.leases()
        timing.advance(100)
        lease.lose("the test says so")
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("cancelled")

    with pytest.raises(LeaseLost):
        run_async(lambda: locks.once_async(WORK, work))
    assert ended == ["cancelled"]
    assert store.get(DONE) is None
