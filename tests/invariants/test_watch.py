"""The invariants of waiting: what a watch tells decides nothing, and nobody depends on it."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import pytest
from tests.simulation.instance import Instance
from tests.simulation.tasks import Task, current_task
from tests.simulation.world import World

from firecron import Lease, Refusal
from firecron.errors import Unavailable
from firecron.store import Watch

# What is told, by the node as it is and a number: the next value, after so many seconds.
Story = Callable[[object, int], tuple[float, object]]


class Told:
    """A watch that tells a story instead of the node's values."""

    def __init__(self, world: World, story: Story) -> None:
        self._world = world
        self._story = story
        self._number = 0
        self._is_closed = False

    def next(self) -> object:
        task = current_task()
        assert task is not None, "a stream is read by a task here"
        self._number += 1
        seconds, node = self._story(self._world.store.get("cron-locks/job"), self._number)
        task.pause(seconds)
        if self._is_closed:
            raise Unavailable("it is closed")
        return node

    def close(self) -> None:
        self._is_closed = True


def telling(world: World, story: Story) -> Instance:
    one = Instance(world, hears=True)
    one.network.watch = lambda path, deadline: Told(world, story)  # type: ignore[method-assign]  # the network lies
    return one


def held_until(world: World, seconds: float) -> dict[str, object]:
    return {"holder": "nobody", "expiresAt": world.now() + round(seconds * 1000)}


LIES: dict[str, Callable[[World], Story]] = {
    "it says that it is free": lambda world: lambda node, number: (0.05, None),
    "it invents holders": lambda world: lambda node, number: (0.05, {**held_until(world, 0), "holder": str(number)}),
    "it goes to and fro": lambda world: lambda node, number: (0.05, None if number % 2 else held_until(world, 60)),
    "it floods": lambda world: lambda node, number: (0.01, node),
    "it says all twice": lambda world: lambda node, number: (0.5, node),
    "it is late": lambda world: lambda node, number: (5.0, node),
    "it is silent": lambda world: lambda node, number: (0 if number == 1 else 3_600, node),
    "it says that it is held for ever": lambda world: lambda node, number: (0.5, held_until(world, 86_000)),
    "it tells of a pause": lambda world: lambda node, number: (0.05, {"paused": True}),
    "it tells what can't be read": lambda world: lambda node, number: (0.05, {"holder": 7}),
    "it breaks": lambda world: lambda node, number: (0.5, _fail()),
}


def _fail() -> object:
    raise Unavailable("the stream broke")


@pytest.mark.parametrize("lie", LIES)
def test_i45_a_watch_that_lies_decides_nothing(world: World, lie: str) -> None:
    """Whatever a watch tells, a lock that is held is not had, one that is free is had within 30 s, and a minute of it
    costs no more requests than polling.
    """
    one, holder = telling(world, LIES[lie](world)), Instance(world).live()
    lease = holder.keep()
    one.locks.clock.now(one.locks.deadline(10))
    assert isinstance(one.locks.acquire("job", 60, wait=30), Refusal)
    assert lease.is_held()
    one.network.requests()
    assert isinstance(one.locks.acquire("job", 60, wait=60), Refusal)
    assert len(one.network.requests("cron-locks/")) <= 64, "polling asks four times at first, then every one to two s"
    world.at(world.mono() / 1000 + 40, lease.release)
    released = world.mono() / 1000 + 40
    mine = one.locks.acquire("job", 60, wait=120)
    assert isinstance(mine, Lease)
    assert released <= world.mono() / 1000 <= released + 30
    assert world.node()["holder"] == mine.holder
    assert one.locks.database.streams.open == 0
    one.locks.close()
    world.advance(0.1)


@pytest.mark.parametrize("seed", range(8))
def test_i45_never_do_two_trust_a_lock_because_of_a_watch(world: World, seed: int) -> None:
    """Four wait for one lock, each with a watch that tells whatever it likes: one at a time has it, and each once."""
    chance = random.Random(seed)
    trusted: list[Lease] = []
    turns: list[str] = []

    def story(node: object, number: int) -> tuple[float, object]:
        lies: list[object] = [node, None, held_until(world, chance.random() * 20), {"paused": True}, "odd"]
        return chance.random() ** 3 * 2, chance.choice(lies)

    def take_turn(one: Instance, name: str) -> None:
        lease = one.locks.acquire("job", 30, wait=600)
        assert isinstance(lease, Lease), lease
        trusted.append(lease)
        assert [other for other in trusted if other.is_held()] == [lease]
        one.timing.sleep(5 * chance.random())
        assert [other for other in trusted if other.is_held()] == [lease]
        turns.append(name)
        lease.release()

    for number in range(4):
        one = telling(world, story)
        world.soon(Task(world, partial(take_turn, one, str(number))).begin)
    world.until(120)
    assert sorted(turns) == ["0", "1", "2", "3"]


@pytest.mark.parametrize(("away", "back"), [(10, 200), (1, 10)])
@pytest.mark.parametrize("is_noticed", [True, False], ids=["the stream breaks", "the stream falls silent"])
def test_i43_who_was_cut_off_asks_again_when_the_database_is_back(
    world: World, is_noticed: bool, away: float, back: float
) -> None:
    """However long the database was away, a waiter asks within 30 s of its return, whether its stream has told it of
    the outage or not.
    """
    watches: list[Watch] = []
    one, other = Instance(world, hears=True), Instance(world)
    lease = other.acquire(ttl=600)

    def cut() -> None:
        one.network.is_down = True
        watches[:] = one.network.watches
        if is_noticed:
            watches[-1].close()
        else:
            world.store.after_fork()  # it forgets its watches: they tell nothing any more

    world.at(away, cut)
    world.at((away + back) / 2, lease.release)
    world.at(back, lambda: setattr(one.network, "is_down", False))
    assert isinstance(one.locks.acquire("job", 60, wait=600), Lease)
    assert back <= world.mono() / 1000 <= back + 30
    assert watches
    world.advance(0)
