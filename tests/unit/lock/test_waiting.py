"""How long an acquire waits for a lock that is held, and what it doesn't wait for: for those who hear and who poll."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from itertools import pairwise
from typing import cast

import pytest
from tests.simulation.instance import Instance
from tests.simulation.network import failing
from tests.simulation.tasks import Task
from tests.simulation.world import World

from firecron import ConfigurationError, Lease, NotAcquired, Refusal
from firecron.errors import Denied, Unavailable
from firecron.lock.blocks import AsyncSleep, Tries


@pytest.fixture(params=[True, False], ids=["hears", "polls"])
def one(world: World, request: pytest.FixtureRequest) -> Iterator[Instance]:
    """Who waits: it hears of changes, or polls."""
    instance = Instance(world, hears=request.param)
    yield instance
    assert instance.locks.database.streams.open == 0
    instance.locks.close()
    world.advance(0)  # what was a stream's thread ends


def hears(one: Instance) -> bool:
    return one.locks.database.streams.begin is not None


def seconds(world: World) -> float:
    return world.mono() / 1000


def test_without_patience_there_is_one_try(world: World, one: Instance) -> None:
    """An acquire that isn't told to wait answers at once."""
    Instance(world).acquire()
    assert one.refused().reason == "held"
    assert seconds(world) == 0
    assert one.network.methods.count("swap") == 1


@pytest.mark.parametrize("wait", [5, 5.0, timedelta(seconds=5)])
def test_a_held_lock_is_tried_until_patience_ends(world: World, one: Instance, wait: float | timedelta) -> None:
    """Within the time given the lock is tried again and again, with pauses; then the refusal is the answer."""
    Instance(world).acquire()
    answer = one.locks.acquire("job", 60, wait=wait)
    assert isinstance(answer, Refusal)
    assert answer.reason == "held"
    assert seconds(world) == pytest.approx(5, abs=0.001)
    tries = one.network.methods.count("swap")
    assert tries == 2 if hears(one) else 4 <= tries <= 20
    assert one.slugs() == ["lock.refused"], "only the answer is told"


def test_the_lock_is_had_when_it_becomes_free(world: World, one: Instance) -> None:
    """A holder that dies frees the lock for who waits, soon after its expiry and the margin."""
    Instance(world).acquire(ttl=6)
    lease = one.locks.acquire("job", 60, wait=30)
    assert isinstance(lease, Lease)
    # RTDB's time is known to within a millisecond.
    assert 6.999 <= seconds(world) <= 7 + 2.001


def test_the_last_try_comes_at_the_end_of_the_patience(world: World, one: Instance) -> None:
    """What becomes free just before the patience ends is still had."""
    Instance(world).acquire(ttl=6)
    assert isinstance(one.locks.acquire("job", 60, wait=7.001), Lease)


def test_an_unreachable_database_is_tried_again(world: World, one: Instance) -> None:
    """Whoever waits for a lock waits for the database too."""
    one.network.next("timestamp", before=failing(Unavailable("down")), times=3)
    assert isinstance(one.locks.acquire("job", 60, wait=5), Lease)
    assert 0 < seconds(world) < 5


@pytest.mark.parametrize(("asked", "wait", "at"), [(40.0, 600, 40), (40.0, 30, 30), (86_400.0, 3_600, 300)])
def test_a_database_that_asks_for_a_pause_gets_it(
    world: World, one: Instance, asked: float, wait: float, at: float
) -> None:
    """A waiter comes back when the database has asked for it: within its wait, and after five minutes at the latest."""
    one.network.next("swap", before=failing(Unavailable("later", retry_after=asked)))
    assert isinstance(one.locks.acquire("job", 60, wait=wait), Lease)
    assert seconds(world) == pytest.approx(at, abs=0.01)


def paused(world: World, one: Instance) -> None:
    world.put({"paused": True})


def malformed(world: World, one: Instance) -> None:
    world.put({"holder": 7})


def denied(world: World, one: Instance) -> None:
    one.network.next("timestamp", before=failing(Denied("no")))


@pytest.mark.parametrize("obstacle", [paused, malformed, denied])
def test_what_waiting_does_not_mend_is_not_waited_for(
    world: World, one: Instance, obstacle: object, request: pytest.FixtureRequest
) -> None:
    """A pause, a node that can't be read and a refusal of access are answered at once."""
    assert callable(obstacle)
    obstacle(world, one)
    answer = one.locks.acquire("job", 60, wait=3600)
    assert isinstance(answer, Refusal)
    assert answer.reason == getattr(obstacle, "__name__", "")
    assert seconds(world) == 0


@pytest.mark.parametrize(
    ("wait", "said"), [(-1, "too short"), (700_000, "too long"), ("5", "not a duration"), (True, "not a duration")]
)
def test_a_patience_that_can_not_be_is_refused(one: Instance, wait: float, said: str) -> None:
    """A wait is a duration of up to a week."""
    with pytest.raises(ConfigurationError, match=f"wait=.*{said}"):
        one.locks.acquire("job", 60, wait=wait)
    assert one.network.calls == []


def test_a_block_waits_too(world: World, one: Instance) -> None:
    """`hold` has the same patience, and raises the refusal at its end."""
    Instance(world).acquire(ttl=6)
    with one.locks.hold("job", 60, wait=30) as lease:
        assert lease.is_held()
    Instance(world).acquire()
    with pytest.raises(NotAcquired) as raised, one.locks.hold("job", 60, wait=1):
        raise AssertionError("the block never runs without its lock")
    assert raised.value.refusal.reason == "held"


def test_an_event_loop_waits_without_being_blocked(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """`acquire_async` pauses on the loop, as long as the thread would."""
    one = Instance(world)
    Instance(world).acquire(ttl=6)
    pauses: list[float] = []

    async def sleep(delay: float) -> None:
        pauses.append(delay)
        world.advance(delay)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    lease = asyncio.run(one.locks.acquire_async("job", 60, wait=30))
    one.locks.close()
    assert isinstance(lease, Lease)
    assert 7 <= sum(pauses) <= 9.001


@pytest.mark.parametrize("how", ["released", "deleted", "unlocked"])
def test_who_hears_that_the_lock_is_free_asks_within_milliseconds(world: World, how: str) -> None:
    """A release, a deletion and an unlock are heard, and the next ask gets the lock. Polling finds it in seconds."""
    one, other = Instance(world, hears=True), Instance(world)
    lease = other.acquire()
    free: dict[str, Callable[[], object]] = {
        "released": lease.release,
        "deleted": lambda: world.put(None),
        "unlocked": lambda: world.edit(expiresAt=0),
    }
    world.at(10, free[how])
    assert isinstance(one.locks.acquire("job", 60, wait=30), Lease)
    assert 10 <= seconds(world) <= 10.005
    assert one.network.methods.count("watch") == 1
    assert one.network.methods.count("swap") <= 3, "one before, one or two after"
    world.advance(0)


def test_who_hears_of_a_pause_asks_at_once(world: World) -> None:
    """A pause ends the wait: it is heard as fast as a release."""
    one = Instance(world, hears=True)
    Instance(world).acquire()
    world.at(10, lambda: world.edit(paused=True))
    answer = one.locks.acquire("job", 60, wait=30)
    assert isinstance(answer, Refusal)
    assert answer.reason == "paused"
    assert 10 <= seconds(world) <= 10.005
    world.advance(0)


def test_who_hears_nothing_asks_when_the_lock_expires(world: World) -> None:
    """A holder that dies releases nothing. Its lock is asked for a margin after it expires, and not before."""
    one = Instance(world, hears=True)
    Instance(world).acquire(ttl=20)
    assert isinstance(one.locks.acquire("job", 60, wait=60), Lease)
    assert 21 <= round(seconds(world), 3) <= 21.006  # RTDB's time is known in whole milliseconds
    assert one.network.methods.count("swap") <= 3
    world.advance(0)


def turns_of(world: World, one: Instance, waiters: int, turns: int, seconds: float) -> list[int]:
    """Let so many threads of an instance take the lock again and again. Return whose turn each was."""
    order: list[int] = []

    def work(waiter: int) -> None:
        for _ in range(turns):
            lease = one.locks.acquire("job", 60, wait=600)
            assert isinstance(lease, Lease), lease
            order.append(waiter)
            one.timing.sleep(seconds)
            lease.release()

    for waiter in range(waiters):
        world.soon(Task(world, partial(work, waiter)).begin)
    world.until(world.mono() / 1000 + 300)
    assert len(order) == waiters * turns
    return order


@pytest.mark.parametrize("held_for", [0.002, 0.5, 5.0])
def test_the_waiters_of_a_process_take_turns(world: World, held_for: float) -> None:
    """Of threads that take a lock again at once, none gets it twice while another one of the process waits."""
    one = Instance(world, hears=True)
    one.locks.database.chance = random.Random(1).random
    order = turns_of(world, one, waiters=4, turns=8, seconds=held_for)
    changes = sum(first != second for first, second in pairwise(order))
    assert changes >= 0.9 * (len(order) - 1)
    assert {tuple(sorted(order[at : at + 4])) for at in range(0, 28, 4)} == {(0, 1, 2, 3)}


def test_a_handover_within_a_process_takes_few_requests(world: World) -> None:
    """Of 20 waiters in a process only the one that has waited for the longest asks: about two requests a turn."""
    one = Instance(world, hears=True)
    one.locks.database.chance = random.Random(1).random
    one.locks.clock.now(one.locks.deadline(10))
    one.network.requests()
    order = turns_of(world, one, waiters=20, turns=5, seconds=0.05)
    asked = one.network.requests("cron-locks/")
    assert asked.count("swap") + asked.count("read") <= 2.5 * len(order)


def test_what_is_heard_during_an_ask_leaves_the_policy_alone(world: World) -> None:
    """A waiter that hears of a faster holder while it asks has asked in vain: its next pause is twice as long."""
    one, other, third = Instance(world, hears=True), Instance(world), Instance(world)
    one.locks.database.chance = lambda: 1.0
    lease = other.acquire()
    tries = Tries(one.locks.database, "job", 600)
    assert tries.goes_on(one.refused())
    world.at(1, lease.release)
    tries.wait()
    tries.start(1)
    lease = third.acquire()
    world.advance(0)
    assert tries.goes_on(one.refused())
    lease.release()
    world.advance(0)
    assert tries.seconds() == pytest.approx(0.010)
    tries.close()
    world.advance(0)


def test_a_waiter_that_cannot_ask_keeps_nobody_waiting(world: World) -> None:
    """If those that wait for the longest never ask, because their event loop is blocked, the next of the line does."""
    one, other = Instance(world, hears=True), Instance(world)
    lease = other.acquire()
    stuck = [Tries(one.locks.database, "job", 600) for _ in range(3)]
    for tries in stuck:
        assert tries.goes_on(one.refused())
    world.at(10, lease.release)
    assert isinstance(one.locks.acquire("job", 60, wait=30), Lease)
    assert 2 <= seconds(world) <= 10.3
    for tries in stuck:
        tries.close()
    world.advance(0)


@pytest.mark.parametrize(("hears", "number"), [(True, 121), (False, 2_400)], ids=["hears", "polls"])
def test_an_idle_waiter_asks_as_often_as_the_docs_say(world: World, hears: bool, number: int) -> None:
    """In an hour at a lock that is renewed all the time, a waiter that hears asks every 30 s, and one that polls every
    one to two seconds.
    """
    one, holder = Instance(world, hears=hears), Instance(world).live()
    one.locks.database.chance = random.random
    holder.keep()
    one.locks.clock.now(one.locks.deadline(10))
    one.network.requests()
    assert isinstance(one.locks.acquire("job", 60, wait=3_600), Refusal)
    asked = one.network.requests("cron-locks/")
    assert asked.count("read") + asked.count("swap") == pytest.approx(number, rel=0.02)
    assert asked.count("watch") == hears
    world.advance(0)


@pytest.mark.parametrize("steps", range(6))
def test_a_cancellation_that_comes_with_a_change_is_not_lost(steps: int) -> None:
    """A task that waits is woken and cancelled at once, this many turns of the loop apart: it is cancelled."""

    class Hearing:
        """In place of a `Tries`: the next try is far away."""

        can_hear = True

        def seconds(self) -> float:
            return 3600.0

    async def main() -> None:
        sleep = AsyncSleep()
        task = asyncio.create_task(sleep.wait(cast("Tries", Hearing())))
        await asyncio.sleep(0)
        sleep.wake()
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)

    asyncio.run(main())
