"""The streams of a process, in virtual time: who shares one, who gets none, and what happens when one breaks."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from math import inf

import pytest
from tests.simulation.instance import Instance
from tests.simulation.network import Network, failing
from tests.simulation.tasks import Task
from tests.simulation.world import Clock, World

from firecron.base.clocks import Deadline
from firecron.base.events import Event, Events
from firecron.errors import Denied, Unavailable
from firecron.lock.waiting import Follow, NodeStreams, Places, Update
from firecron.store import Watch


class Bench:
    """The streams of one process, and its followers."""

    def __init__(self, world: World, places: Places | None = None) -> None:
        self.world = world
        self.network = Network(world.store)
        self.told: list[Event] = []
        self.wakes = 0
        events = Events()
        events.subscribe(self.told.append)
        self.streams = NodeStreams(
            self.network,
            Clock(world),
            events,
            3.0,
            begin=lambda run: Task(world, run).begin(),
            places=places or Places(),
            chance=lambda: 1.0,
        )

    def follow(self, path: str = "node") -> Follow:
        follow = Follow(path, self.wake)
        self.streams.add(follow)
        return follow

    def wake(self) -> None:
        self.wakes += 1

    @property
    def opened(self) -> int:
        return self.network.methods.count("watch")

    def end(self) -> None:
        self.streams.close()
        self.world.advance(0)


@pytest.fixture
def bench(world: World) -> Iterator[Bench]:
    made = Bench(world)
    yield made
    made.end()


def test_all_who_follow_a_node_share_its_stream(world: World, bench: Bench) -> None:
    """200 followers of one node have one stream, and each hears each value."""
    follows = [bench.follow() for _ in range(200)]
    assert {follow.update for follow in follows} == {Update(1, None)}
    world.store.set("node", "new")
    world.advance(0)
    assert {follow.update for follow in follows} == {Update(2, "new")}
    assert (bench.opened, bench.streams.open, bench.wakes) == (1, 1, 201)


class Quiet:
    """A watch that is silent for as long as the test says."""

    def __init__(self, inner: Watch) -> None:
        self._inner = inner
        self.milliseconds = 0.0

    def next(self) -> object:
        return self._inner.next()

    def close(self) -> None:
        self._inner.close()

    def silence(self) -> float:
        return self.milliseconds


def test_a_stream_that_is_silent_is_not_believed(world: World, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a keep-alive's time and 2 s it may be dead. It is believed again once it shows life; it stays open."""
    quiet: list[Quiet] = []
    opens = bench.network.watch

    def watch(path: str, deadline: Deadline) -> Quiet:
        quiet.append(Quiet(opens(path, deadline)))
        return quiet[-1]

    monkeypatch.setattr(bench.network, "watch", watch)
    follow = bench.follow()
    seen = []
    for milliseconds in (31_999.0, 32_000.0, 70_000.0, 0.0):
        quiet[0].milliseconds = milliseconds
        seen.append((follow.fresh(), follow.stale_in()))
    one = Update(1, None)
    assert seen == [(one, 1.0), (None, inf), (None, inf), (one, 32_000.0)]
    quiet[0].milliseconds = 70_000
    assert not bench.streams.join(Follow("node", bench.wake)), "nobody waits behind those that hear nothing"
    bench.streams.discard(follow)
    assert (follow.fresh(), follow.stale_in(), len(quiet)) == (None, 32_000.0, 1)


def test_followers_of_a_node_stand_in_the_order_in_which_they_came(world: World, bench: Bench) -> None:
    """Who leaves and comes again is the last. Nobody joins where no others hear."""
    assert not bench.streams.join(Follow("node", bench.wake))
    first, second = bench.follow(), bench.follow()
    third = Follow("node", bench.wake)
    assert bench.streams.join(third)
    assert third.update == first.update
    assert [bench.streams.ahead(follow) for follow in (first, second, third)] == [0, 1, 2]
    bench.streams.discard(first)
    bench.streams.add(first)
    assert [bench.streams.ahead(follow) for follow in (second, third, first)] == [0, 1, 2]


def test_a_watch_without_signs_of_life_is_believed(world: World, bench: Bench) -> None:
    """A store need not send keep-alives: then only its end says that it is dead."""
    follow = bench.follow()
    world.advance(3_600)
    assert (follow.fresh(), follow.stale_in()) == (Update(1, None), 32_000.0)


def test_what_another_stream_of_a_node_tells_is_newer(world: World, bench: Bench) -> None:
    """The numbers rise over all streams of a process: who follows another part of a node compares them."""
    first = bench.follow("node")
    world.store.set("node", {"child": 1})
    world.advance(0)
    other = bench.follow("node/child")
    assert (first.update, other.update) == (Update(2, {"child": 1}), Update(3, 1))


def test_a_process_has_eight_streams_at_most(world: World, bench: Bench) -> None:
    """Of 20 nodes eight are told of. Who follows another hears nothing, until one of the eight is followed no more."""
    follows = [[bench.follow(f"node {number}") for _ in range(10)] for number in range(20)]
    heard = [all(follow.update is not None for follow in group) for group in follows]
    assert heard == [True] * 8 + [False] * 12
    assert not any(follow.update for group in follows[8:] for follow in group)
    assert bench.opened == 8
    for follow in follows[3]:
        bench.streams.discard(follow)
    world.advance(0)
    assert all(follow.update is not None for follow in follows[8])
    assert (bench.opened, bench.streams.open) == (9, 8)


def test_two_services_of_a_process_share_its_places(world: World) -> None:
    """The eight are those of the process, however many services it has."""
    places = Places()
    one, other = Bench(world, places), Bench(world, places)
    for number in range(5):
        one.follow(f"node {number}")
        other.follow(f"node {number}")
    assert (one.streams.open, other.streams.open) == (4, 4)
    one.end()
    other.end()


def test_the_last_follower_ends_the_stream(world: World, bench: Bench) -> None:
    """A stream is closed when nobody follows its node any more, and opened again for the next one."""
    one, other = bench.follow(), bench.follow()
    bench.streams.discard(one)
    bench.streams.discard(one)
    world.advance(0)
    assert (one.update, bench.streams.open) == (None, 1)
    bench.streams.discard(other)
    world.advance(0)
    world.store.set("node", 1)
    world.advance(0)
    assert (other.update, bench.streams.open, bench.wakes) == (None, 0, 1)
    bench.streams.add(one)
    assert one.update == Update(2, 1)


def test_a_stream_that_breaks_opens_again(world: World, bench: Bench) -> None:
    """Followers hear nothing while it is away, and then the node as it is. The pause before that doubles."""
    bench.network.next("watch", before=failing(Unavailable("down")), times=4)
    follow = bench.follow()
    world.store.set("node", "meanwhile")
    pauses = []
    for _ in range(4):
        before, opened = world.mono(), bench.opened
        while bench.opened == opened:
            world.advance(0.01)
        pauses.append((world.mono() - before) / 1000)
    assert pauses == pytest.approx([0.5, 1, 2, 4], abs=0.02)
    assert follow.update == Update(1, "meanwhile")
    assert [event.level for event in bench.told] == [logging.INFO] + [logging.DEBUG] * 3, "each reason once"


@pytest.mark.parametrize(("asked", "pause"), [(0.1, 0.5), (40.0, 40), (86_400.0, 300)])
def test_a_stream_that_is_refused_for_now_opens_when_the_database_asks_for_it(
    world: World, bench: Bench, asked: float, pause: float
) -> None:
    """Later than the pause of its own, if that is asked for, and after five minutes at the latest."""
    bench.network.next("watch", before=failing(Unavailable("later", retry_after=asked)))
    bench.follow()
    opened = bench.opened
    world.advance(pause - 0.02)
    assert bench.opened == opened
    world.advance(0.04)
    assert bench.opened == opened + 1


def test_a_stream_that_has_lasted_opens_again_soon(world: World, bench: Bench) -> None:
    """After a minute a stream that breaks has done well: RTDB ends each one when its token expires."""
    watches = bench.network.watches
    follow = bench.follow()
    for _ in range(5):
        world.advance(61)
        watches[-1].close()
        world.advance(0.1)
        assert follow.update is None
        world.advance(0.5)
        assert follow.update is not None


def test_a_refusal_is_accepted_for_minutes(world: World, bench: Bench) -> None:
    """Rules that refuse a stream are asked again after five minutes, and not sooner."""
    bench.network.next("watch", before=failing(Denied("the rules")))
    bench.follow()
    world.advance(299)
    assert (bench.opened, bench.streams.open) == (1, 0)
    world.advance(2)
    assert (bench.opened, bench.streams.open) == (2, 1)
    (event,) = bench.told
    assert (event.slug, event.name) == ("watch.failed", "node")
    assert "the rules" in event.message


def test_who_follows_no_more_ends_the_pause(world: World, bench: Bench) -> None:
    """The thread of a stream that waits to be opened again ends with the last follower, and leaves its place."""
    bench.network.next("watch", before=failing(Denied("the rules")), times=8)
    follows = [bench.follow(f"node {number}") for number in range(8)]
    late = bench.follow("late")
    bench.streams.discard(follows[0])
    world.advance(0.02)
    assert late.update == Update(1, None)


def test_an_error_of_one_follower_reaches_no_other(world: World, bench: Bench) -> None:
    """What a follower's `wake` raises is logged. The stream goes on."""
    bad = Follow("node", lambda: 1 / 0)
    bench.streams.add(bad)
    good = bench.follow()
    world.store.set("node", 1)
    world.advance(0)
    assert good.update == Update(2, 1)
    assert bench.wakes == 1
    assert [event.slug for event in bench.told] == ["watch.failed"] * 2


def test_without_a_thread_there_is_no_stream(world: World, bench: Bench) -> None:
    """If no thread can be started, nothing is heard, and the place is left to others."""

    def refuse(run: object) -> None:
        raise RuntimeError("can't start new thread")

    bench.streams.begin = refuse
    follows = [bench.follow(f"node {number}") for number in range(20)]
    assert not any(follow.update for follow in follows)
    bench.streams.begin = lambda run: Task(world, run).begin()
    assert bench.follow("another").update is None, "the first in line come first"
    assert bench.streams.open == 8


def test_without_leave_or_a_store_that_tells_there_is_none(world: World, bench: Bench) -> None:
    """With `FIRECRON_WATCH=0`, and with a store that has no watch, nothing is followed."""
    bench.streams.begin = None
    assert not bench.streams.can_watch
    assert bench.follow().update is None
    assert bench.opened == 0


def test_a_close_ends_all_streams_at_once(world: World, bench: Bench) -> None:
    """After a close nobody hears anything, and each follower is woken, so that it asks."""
    follows = [bench.follow(f"node {number}") for number in range(3)]
    bench.streams.close()
    assert (bench.streams.open, bench.wakes) == (0, 6)
    assert not any(follow.update for follow in follows)
    world.advance(0)
    bench.streams.add(follows[0])
    assert follows[0].update is not None, "who follows again has a new stream"


def test_a_forked_child_has_none_of_the_streams(world: World) -> None:
    """The child hears nothing and closes nothing: the connections are the parent's. It may open streams of its own."""
    one = Instance(world, hears=True)
    database = one.locks.database
    follow = Follow("node", lambda: None)
    database.streams.add(follow)
    (watch,) = one.network.watches
    parents = database.streams
    database.after_fork()
    assert (database.streams.followers, database.streams.open) == (0, 0)
    database.streams.discard(follow)
    database.streams.close()
    world.store.set("node", "written")
    assert watch.next() == "written", "the parent's stream goes on"
    own = Follow("node", lambda: None)
    database.streams.begin = parents.begin  # the test's tasks
    database.streams.add(own)
    assert own.update is not None
    for streams in (parents, database.streams):
        streams.close()
    world.advance(0)
