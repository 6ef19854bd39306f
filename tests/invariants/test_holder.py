"""Invariants of the holder: one wins, only it may renew and release, and not before its work has ended."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.simulation.instance import Instance
from tests.simulation.network import failing
from tests.simulation.world import World

from firecron import Lease, LeaseLost, NotAcquired, Refusal
from firecron.errors import Unavailable
from firecron.lock.blocks import try_once

DEAD = {"expiresAt": 1_000, "holder": "dead", "instanceId": "rev-0"}
FREE = {
    "nothing": None,
    "a dead holder": DEAD,
    "idle": {"note": "x"},
    "released": {**DEAD, "releasedAt": 1, "fence": 7},
}


def hand_over(world: World, to: Instance) -> Lease:
    """An operator unlocks, and somebody else takes it."""
    world.edit(expiresAt=0)
    return to.acquire()


@pytest.mark.parametrize("before", FREE.values(), ids=FREE.keys())
def test_i01_two_who_saw_it_free_never_both_write(world: World, before: object) -> None:
    """Eight instances that all saw the same free lock, and all write at the same moment: one has it."""
    world.put(before)
    instances = [Instance(world) for _ in range(8)]
    together = threading.Barrier(len(instances))
    for one in instances:
        one.locks.clock.now(one.locks.deadline(8))
        # All have decided upon the same node when the first of them writes.
        one.network.next("swap", before=lambda: together.wait(20))
        one.locks.database.known.put("job", world.store.read("cron-locks/job", one.locks.deadline(8)))
    with ThreadPoolExecutor(len(instances)) as pool:
        answers = list(pool.map(lambda one: one.locks.acquire("job", 60), instances))
    winners = [answer for answer in answers if isinstance(answer, Lease)]
    node = world.node()
    assert node
    assert [winner.holder for winner in winners] == [node["holder"]]
    assert {answer.reason for answer in answers if isinstance(answer, Refusal)} == {"held"}


def test_i01_a_race_lost_between_the_look_and_the_write(world: World) -> None:
    """Whoever wrote between my look and my write has the lock, and I am refused."""
    one, other = Instance(world), Instance(world)
    one.network.next("swap", before=other.acquire)
    assert one.refused().reason == "held"
    node = world.node()
    assert node
    assert node["holder"] == one.refused().holder


@pytest.fixture
def twins(world: World, monkeypatch: pytest.MonkeyPatch) -> tuple[Instance, Instance]:
    """Two workers of one instance of one revision."""
    monkeypatch.setenv("K_REVISION", "api-00042-abc")
    monkeypatch.setattr("secrets.token_hex", lambda length: "00bf4b9c3f2a")
    return Instance(world), Instance(world)


def test_i02_two_workers_of_one_revision_never_pass_for_each_other(
    world: World, twins: tuple[Instance, Instance]
) -> None:
    """With the same revision and instance in the record, one worker's lock is still not the other's."""
    one, other = twins
    assert one.locks.identity.instance == other.locks.identity.instance == "00bf4b9c3f2a"
    first = one.acquire()
    refusal = other.refused()
    assert (refusal.reason, refusal.instance_id) == ("held", "api-00042-abc")
    second = hand_over(world, other)
    before = world.node()
    assert first.renew() is False
    assert first.release() is False
    assert world.node() == before
    assert second.holder != first.holder
    assert second.renew()


def test_i02_the_token_is_random_per_acquisition(world: World) -> None:
    """Also one instance has another token for each acquisition."""
    one = Instance(world)
    tokens = set()
    for _ in range(20):
        lease = one.acquire()
        tokens.add(lease.holder)
        assert lease.release()
    assert len(tokens) == 20


@pytest.mark.parametrize("late", [0.0, 5.0, 30.0])
def test_i03_acquiring_again_with_the_same_token_lengthens_nothing(world: World, late: float) -> None:
    """A write whose reply was lost is found as a win, however late, with the lease that it began then."""
    one = Instance(world, acquire_timeout=8)
    began = world.now()
    bid = one.locks.database.bid("job", 60)

    def lose() -> None:
        one.network.next("read", before=failing(Unavailable("down")), times=50)
        raise Unavailable("the reply was lost")

    one.network.next("swap", after=lose)
    assert isinstance(try_once(one.locks.database, bid), Refusal)
    written = world.node()
    one.network.mend()
    world.advance(late)
    lease = try_once(one.locks.database, bid)
    assert isinstance(lease, Lease)
    assert world.node() == written
    assert lease.expires_at.timestamp() * 1000 == began + 60_000
    world.advance((59_000 - world.mono()) / 1000 - 0.001)
    assert not lease.lost
    world.advance(0.002)
    assert lease.lost


def test_i03_after_its_lease_my_own_record_is_anybodys(world: World) -> None:
    """Found when its lease is over, what I wrote is held like another's, and then free."""
    one = Instance(world)
    bid = one.locks.database.bid("job", 60)
    one.network.next("swap", after=failing(Unavailable("the reply was lost")))
    one.network.next("read", before=lambda: world.advance(59))
    answer = try_once(one.locks.database, bid)
    assert isinstance(answer, Refusal)
    assert answer.reason == "held"
    world.advance(2)
    again = try_once(one.locks.database, bid)
    assert isinstance(again, Lease)


def lost_reply(one: Instance) -> None:
    one.network.next("swap", after=failing(Unavailable("the reply was lost")))


def lost_request(one: Instance) -> None:
    one.network.next("swap", before=failing(Unavailable("the request was lost")))


@pytest.mark.parametrize("lose", [lost_reply, lost_request])
def test_i04_what_is_unknown_is_resolved_by_reading_back(world: World, lose: Callable[[Instance], None]) -> None:
    """A write that may or may not have been applied is settled by what the node says."""
    one = Instance(world)
    lose(one)
    lease = one.acquire()
    node = world.node()
    assert node
    assert node["holder"] == lease.holder
    assert "read" in one.network.methods


def test_i04_what_is_unknown_is_not_mine_when_another_has_it(world: World) -> None:
    """A lost request while somebody else takes it is a refusal, not an acquisition."""
    one, other = Instance(world), Instance(world)

    def lose() -> None:
        other.acquire()
        raise Unavailable("lost")

    one.network.next("swap", before=lose)
    assert one.refused().reason == "held"


def test_i04_what_stays_unknown_runs_nothing(world: World) -> None:
    """Where no answer comes at all it is neither acquired nor refused: unavailable, and the body doesn't run."""
    one = Instance(world)
    called: list[str] = []

    def cut_off() -> None:
        one.network.next("swap", after=failing(Unavailable("no answer")), times=50)
        one.network.next("read", before=failing(Unavailable("no answer")), times=50)

    cut_off()
    assert one.refused().reason == "unavailable"
    cut_off()
    with pytest.raises(NotAcquired) as raised, one.locks.hold("job", 60):
        called.append("block")
    assert raised.value.refusal.reason == "unavailable"
    cut_off()
    answer = one.locks.with_lock("job", lambda: called.append("function"))
    assert isinstance(answer, Refusal)
    assert called == []


def late_release(lease: Lease) -> None:
    assert lease.release() is False


def late_renewal(lease: Lease) -> None:
    assert lease.renew() is False


@pytest.mark.parametrize("act", [late_release, late_renewal])
@pytest.mark.parametrize("when", ["before the request", "between the look and the write"])
def test_i05_a_successors_record_is_left_byte_for_byte(world: World, act: Callable[[Lease], None], when: str) -> None:
    """A late release or renewal of a former holder changes nothing, also when the lock passes on meanwhile."""
    one, other = Instance(world), Instance(world)
    lease = one.acquire()
    after: list[object] = []

    def pass_on() -> None:
        hand_over(world, other)
        after.append(world.store.read("cron-locks/job", one.locks.deadline(1)))

    if when == "before the request":
        pass_on()
    else:
        one.network.next("swap", before=pass_on)
    act(lease)
    assert after == [world.store.read("cron-locks/job", one.locks.deadline(1))]


@pytest.mark.parametrize("error", [Unavailable("reset"), Unavailable("503")])
def test_i05_a_release_in_doubt_leaves_a_successor_alone(world: World, error: Exception) -> None:
    """A release whose reply was lost, and a successor since: it is done, and nothing more is written."""
    one, other = Instance(world), Instance(world)
    lease = one.acquire(fenced=True)

    def lose() -> None:
        other.acquire()
        raise error

    one.network.next("swap", after=lose)
    assert lease.release() is True
    assert not lease.was_lost
    assert other.refused().reason == "held"


def test_i06_a_release_has_a_deadline_of_its_own(world: World) -> None:
    """However late a release comes, also after the end of its lease, it has its whole time."""
    one = Instance(world, release_timeout=4, request_timeout=3)
    lease = one.acquire()
    world.advance(3600)
    one.network.next("swap", before=failing(Unavailable("once")))
    assert lease.lost
    assert lease.release() is True
    assert world.node() == {}
    assert one.network.allowed[-1] == 3


@pytest.mark.parametrize("way", ["block", "function"])
def test_i06_a_cancelled_job_gives_its_lock_back(world: World, way: str) -> None:
    """A task that is cancelled under its lock releases it, and the cancellation comes through."""
    one = Instance(world)

    async def body() -> None:
        started.set()
        await asyncio.Event().wait()

    async def work() -> None:
        if way == "block":
            async with one.locks.hold("job", 60):
                await body()
        else:
            await one.locks.with_lock("job", body, 60)

    async def main() -> None:
        task = asyncio.create_task(work())
        await started.wait()
        assert world.node() != {}
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    started = asyncio.Event()
    asyncio.run(main())
    one.locks.close()
    assert world.node() == {}


@pytest.mark.parametrize("error", [ValueError("the job's own"), KeyboardInterrupt(), SystemExit(3)])
def test_i06_a_job_that_raises_gives_its_lock_back(world: World, error: BaseException) -> None:
    """Whatever ends the block, the lock is released, and nothing hides what the job raised."""
    one = Instance(world)

    def body() -> None:
        one.network.next("swap", before=failing(Unavailable("the release's own")))
        raise error

    with pytest.raises(type(error)) as raised, one.locks.hold("job", 60):
        body()
    assert raised.value is error
    assert world.node() == {}


def test_i07_a_lock_is_held_until_its_body_has_ended(world: World) -> None:
    """As long as anything of the body runs, the record is there and nobody else gets in."""
    one, other = Instance(world), Instance(world)

    def body() -> str:
        try:
            return "done"
        finally:
            assert other.refused().reason == "held"

    assert one.locks.with_lock("job", body) == "done"
    with one.locks.hold("job", 60):
        body()
    assert world.node() == {}


@pytest.mark.parametrize("end", ["lost", "cancelled"])
def test_i07_a_cancelled_body_keeps_the_lock_until_it_has_ended(world: World, end: str) -> None:
    """A body that is cancelled, by a loss or from outside, and takes its time, is not released under its feet."""
    one = Instance(world)
    released: list[bool] = []

    async def body() -> None:
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            for _ in range(5):
                await asyncio.sleep(0)
                released.append("lock.released" in one.slugs() or world.node() == {})

    async def main() -> None:
        work = asyncio.ensure_future(one.locks.with_lock("job", body, 60))
        await started.wait()
        if end == "lost":
            world.advance(59)
            one.renew()
        else:
            work.cancel()
        with pytest.raises(LeaseLost if end == "lost" else asyncio.CancelledError):
            await work

    started = asyncio.Event()
    asyncio.run(main())
    one.locks.close()
    assert released == [False] * 5
    assert world.node() == {}
