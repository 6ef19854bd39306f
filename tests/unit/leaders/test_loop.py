"""The loop over the terms of a leader: one term at a time, released after each body and when the block is left."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from itertools import pairwise
from typing import Any

import pytest
from tests.simulation.instance import Instance
from tests.simulation.leading import FEED, Loop
from tests.simulation.world import World
from tests.unit.threads import ended

from firecron import LeaseLost, LockService, Stopping, Term, current_term
from firecron.errors import ConfigurationError
from firecron.testing import FakeClock, MemoryStore


def make() -> tuple[LockService, MemoryStore]:
    """Locks on a clock where a wait passes at once."""
    clock = FakeClock()
    store = MemoryStore(clock.now)
    return LockService(store=store, timing=clock, has_threads=False), store


def node_of(store: MemoryStore) -> dict[str, Any]:
    node = store.get(f"cron-locks/{FEED}")
    assert isinstance(node, dict)
    return node


def test_a_term_is_a_fenced_lock_of_its_own_kind() -> None:
    """While the body runs, the node is held, has a fence, and says that it is a leader's."""
    locks, store = make()
    with locks.lead(FEED, ttl=15) as terms:
        for term in terms:
            node = node_of(store)
            assert (node["kind"], node["fence"], "releasedAt" in node) == ("leader", term.fence, False)
            assert node["expiresAt"] - node["acquiredAt"] == 15_000
            assert (term.name, term.since.timestamp() * 1000) == (FEED, node["acquiredAt"])
            break


def test_leaving_the_block_releases() -> None:
    """After the block the node is released, and keeps its fence and its kind."""
    locks, store = make()
    with locks.lead(FEED) as terms:
        term = next(iter(terms))
        assert not term.lost
    node = node_of(store)
    assert term.lost
    assert (node["outcome"], node["kind"], node["fence"]) == ("succeeded", "leader", term.fence)
    assert node["releasedAt"] == node["expiresAt"]


def test_the_end_of_the_body_releases_and_the_loop_stands_again_after_the_pause() -> None:
    """The next item is the next term: later by the pause, with a higher fence."""
    locks, _ = make()
    had: list[Term] = []
    with locks.lead(FEED, pause=7) as terms:
        for term in terms:
            had.append(term)
            if len(had) == 3:
                break
            assert not term.lost
    assert [(later.since - term.since).total_seconds() for term, later in pairwise(had)] == [7, 7]
    assert had[0].fence < had[1].fence < had[2].fence
    assert all(term.lost for term in had)


def lead_and_raise(locks: LockService, error: type[BaseException]) -> None:
    with locks.lead(FEED) as terms:
        for _ in terms:
            raise error


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ZeroDivisionError, "failed"),
        *((error, "interrupted") for error in (KeyboardInterrupt, SystemExit, GeneratorExit)),
    ],
)
def test_a_body_that_raises_releases_and_leaves_the_block(error: type[BaseException], outcome: str) -> None:
    """What the body raises is the caller's, and nothing leads on. Only an error is a failure of the body."""
    locks, store = make()
    heard: list[str] = []
    locks.events.subscribe(lambda event: heard.append(event.slug))
    with pytest.raises(error):
        lead_and_raise(locks, error)
    node = node_of(store)
    assert (node["outcome"], "releasedAt" in node) == (outcome, True)
    if outcome == "failed":
        assert heard == ["leader.elected", "lock.released", "leader.failed"]


def test_a_loop_without_its_block_is_an_error() -> None:
    """Nothing stands for a leader where nothing would release it."""
    locks, store = make()
    with pytest.raises(RuntimeError, match=r'write "with locks.lead\(.price-feed.\) as terms:" around the loop'):
        next(iter(locks.lead(FEED)))

    async def loop() -> None:
        async for _ in locks.lead(FEED):
            raise AssertionError("a term without its block")

    with pytest.raises(RuntimeError, match='or "async with" on an event loop'):
        asyncio.run(loop())
    assert store.get("cron-locks") is None


def test_a_loop_after_its_block_is_an_error() -> None:
    """Once the block is left, nothing more comes, and its terms can't be entered again."""
    locks, _ = make()
    with locks.lead(FEED) as terms:
        pass
    with pytest.raises(RuntimeError, match="need a block"):
        next(terms)
    with pytest.raises(RuntimeError, match=r"call lead\(\) again for each block"):
        terms.__enter__()


def test_code_in_the_loop_knows_its_term() -> None:
    """`current_term` is the loop's term in its body, and nothing outside."""
    locks, _ = make()
    with locks.lead(FEED) as terms:
        for term in terms:
            assert current_term() is term
            break
    assert current_term() is None


def test_an_async_loop_leads_and_leaves(by_hand: None) -> None:
    """`async with` and `async for` do the same as their twins."""
    locks, store = make()
    fences: list[int] = []

    async def lead() -> None:
        async with locks.lead(FEED, pause=0) as terms:
            async for term in terms:
                assert current_term() is term
                fences.append(term.fence)
                if len(fences) == 2:
                    break
            assert not term.lost
        assert term.lost

    asyncio.run(lead())
    locks.close()
    node = node_of(store)
    assert (node["fence"], "releasedAt" in node, fences[0] < fences[1]) == (fences[1], True, True)


def test_a_cancelled_async_loop_releases(by_hand: None) -> None:
    """A cancellation of the task interrupts the term, and the block releases it."""
    locks, store = make()

    async def main() -> None:
        elected = asyncio.Event()

        async def lead() -> None:
            async with locks.lead(FEED) as terms:
                async for _ in terms:
                    elected.set()
                    await asyncio.sleep(60)

        leading = asyncio.create_task(lead())
        await elected.wait()
        leading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leading

    asyncio.run(main())
    locks.close()
    node = node_of(store)
    assert (node["outcome"], "releasedAt" in node) == ("interrupted", True)


def test_an_async_loop_that_is_cancelled_while_it_is_elected_leaves_nothing(world: World, one: Instance) -> None:
    """A term that comes after its task was cancelled is released."""
    others = set(threading.enumerate())

    async def main() -> None:
        async with one.locks.lead(FEED) as terms:
            loop, leading = asyncio.get_running_loop(), asyncio.current_task()
            assert leading is not None
            one.network.next("swap", after=lambda: loop.call_soon_threadsafe(leading.cancel))
            async for _ in terms:
                await asyncio.sleep(60)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
    one.locks.close()
    assert all(map(ended, {its for its in threading.enumerate() if its.name.startswith("firecron-acquire")} - others))
    assert "releasedAt" in world.node(FEED)
    assert one.locks.database.keeper.leases() == []


def test_a_loop_that_is_dropped_says_nothing() -> None:
    """Terms that were never used hold nothing, and warn of nothing."""
    locks, _ = make()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        locks.lead(FEED)
        gc.collect()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ttl": 5}, r"ttl \(5 s\) is too short: it must be at least 6 s"),
        ({"pause": -1}, "pause=-1 is too short"),
        ({"max_term": 10}, r"max_term \(10 s\) must not be shorter than ttl \(15 s\)"),
        ({"ttl": "15"}, "ttl='15' is not a duration"),
    ],
)
def test_options_that_can_not_work_are_refused(options: dict[str, float], said: str) -> None:
    """What a leader is given is checked when it is given, also against each other."""
    locks, _ = make()
    with pytest.raises(ConfigurationError, match=said):
        locks.lead(FEED, **options)
    with pytest.raises(ConfigurationError, match="can't name a lock"):
        locks.lead("price/feed")


def test_a_loop_follows_and_leads_after_a_release(world: World) -> None:
    """Whoever stands in vain asks on, and leads within 5 s of a clean release."""
    one, other = Loop(Instance(world)), Loop(Instance(world))
    world.until(30)
    assert (len(one.had), len(other.had)) == (1, 0)
    one.terms.stop()
    world.until(36)
    assert one.has_ended
    [term] = other.had
    assert term.fence > one.term.fence
    assert one.term.lost
    assert not term.lost


def test_a_stop_tells_the_term_and_ends_the_loop(world: World, one: Instance) -> None:
    """After `stop` the body is told, the term is renewed until the body ends, and the loop ends without an error."""
    seen: list[tuple[bool, bool]] = []

    def slow(term: Term) -> None:
        while not term.stopping:
            one.timing.sleep(0.1)
        one.timing.sleep(40)  # longer than the ttl
        seen.append((bool(term.lost), "releasedAt" in world.node(FEED)))
        with pytest.raises(Stopping, match="is to end"):
            term.check()

    loop = Loop(one, slow)
    world.until(10)
    loop.terms.stop()
    world.until(60)
    assert seen == [(False, False)]
    assert (loop.has_ended, loop.error) == (True, None)
    assert "releasedAt" in world.node(FEED)


def test_a_body_sees_that_its_term_is_lost(world: World, one: Instance) -> None:
    """A body that is cut off from the database leads until a margin before the record's end, and no longer."""
    lost_at: list[float] = []

    def body(term: Term) -> None:
        while not term.lost:
            one.timing.sleep(0.01)
        lost_at.append(world.mono())
        with pytest.raises(LeaseLost):
            term.check()

    Loop(one, body)
    world.until(10)
    one.network.is_down = True
    ends = world.node(FEED)["expiresAt"]
    assert isinstance(ends, int)
    world.until(40)
    [at] = lost_at
    assert 0 <= at - (ends - world.wall() + world.mono() - 1_000) <= 20


def test_a_term_is_at_most_as_long_as_max_term(world: World) -> None:
    """A body that never ends leads no longer than max_term."""
    loop = Loop(Instance(world), max_term=60)
    world.until(59)
    assert not loop.term.lost
    world.until(61)
    assert loop.had[0].lost
    world.until(80)
    assert loop.had[0].fence < loop.had[1].fence
