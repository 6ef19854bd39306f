"""Invariants of a leader: one believes that it leads, its fence is the highest, and nobody is without one for long."""

from __future__ import annotations

import random
import threading
from functools import partial

import pytest
from tests.simulation.instance import Instance
from tests.simulation.leading import FEED, Believers, Stander
from tests.simulation.world import World
from tests.unit.threads import PATIENCE, named

from firecron import FireCron, Term, leader
from firecron.base.clocks import SystemTiming
from firecron.leaders.candidate import ActiveTerm, Candidate
from firecron.leaders.leader import Election
from firecron.settings import load
from firecron.testing import MemoryStore

HOUR = 3_600


def three(world: World) -> list[Stander]:
    return [Stander(Instance(world)) for _ in range(3)]


@pytest.mark.parametrize("seed", range(6))
def test_i38_two_terms_are_never_both_trusted(world: World, seed: int) -> None:
    """Three candidates whose networks are cut, whose replies are lost, and who freeze: one at most believes."""
    chance = random.Random(seed)
    standers = three(world)
    believers = Believers(*standers)
    for second in range(5, 300, 5):
        one = chance.choice(standers).instance
        fault = chance.choice(["cut", "mend", "lose", "freeze", "nothing"])
        if fault == "cut":
            world.at(second, lambda one=one: setattr(one.network, "is_down", True))  # type: ignore[misc]  # bound now
            world.at(second + 12, lambda one=one: setattr(one.network, "is_down", False))  # type: ignore[misc]  # as above
        elif fault == "lose":
            world.at(second, one.network.lose_reply)
        elif fault == "freeze":
            world.at(second, lambda one=one: one.freeze(20))  # type: ignore[misc]  # as above
    world.until(330)
    assert believers.most == 1
    assert believers.looks_with_one > 3_000, "somebody led for most of the time"
    fences = sorted(fence for stander in standers for fence in stander.fences)
    assert len(fences) == len(set(fences)) >= 2


def test_i38_a_frozen_leader_does_not_believe(world: World, one: Instance) -> None:
    """A leader whose keeper is frozen is over by its own clock before another one is elected."""
    frozen = Stander(one, lambda active: one.timing.sleep(HOUR))
    other = Stander(Instance(world))
    believers = Believers(frozen, other)
    world.until(10)
    one.freeze(HOUR)
    world.until(40)
    assert (len(other.elected), believers.most, frozen.candidate.is_mine) == (1, 1, False)
    assert believers.looks_with_one > 400


def test_i39_the_fences_of_terms_rise(world: World) -> None:
    """Across releases and unlocks, each term has a higher fence than the one before."""
    standers = three(world)
    order: list[int] = []
    for second in range(10, 200, 10):
        world.at(second, lambda: world.edit(FEED, expiresAt=0))
        world.at(second + 9, lambda: order.append(int(str(world.node(FEED)["fence"]))))
    world.until(200)
    assert order == sorted(order)
    assert len(set(order)) > 5
    assert all(stander.fences == sorted(set(stander.fences)) for stander in standers)


def test_i39_a_fence_rises_also_where_a_clock_is_behind(world: World) -> None:
    """A successor whose idea of RTDB's time is behind its predecessor's has the next fence nevertheless."""
    first = Candidate(Instance(world).live().locks.database, Election(FEED, 15_000, 0))
    active = first.stand()
    assert active is not None
    first.end(active)
    world.server_error = -0.9
    world.advance(0.9)  # until then the released record counts as held there
    successor = Candidate(Instance(world).live().locks.database, Election(FEED, 15_000, 0)).stand()
    assert successor is not None
    assert successor.term.fence == active.term.fence + 1


def test_i40_an_old_body_has_ended_before_a_new_term_begins() -> None:
    """A body that doesn't listen keeps its process from a new term, also after a stop and a start in between."""
    go_on, begun = threading.Event(), threading.Semaphore(0)
    alive: list[int] = []
    most: list[int] = []

    @leader(FEED, ttl=1, pause=0)
    def deaf(term: Term) -> None:
        alive.append(term.fence)
        most.append(len(alive))
        begun.release()
        (go_on if len(most) == 1 else term.stopping).wait(PATIENCE)
        alive.pop()

    failed: list[str] = []
    lingers: list[str] = []
    store = MemoryStore(lambda: int(SystemTiming().wall()))
    settings = load(margin=0.1, clock_interval=120, shutdown_grace=0)
    crons = FireCron(deaf, store=store, enabled=True, settings=settings)
    crons.events.subscribe(lambda event: failed.append(event.message) if event.slug == "worker.failed" else None)
    crons.events.subscribe(lambda event: lingers.append(event.message) if event.slug == "leader.lingers" else None)
    crons.start()
    assert begun.acquire(timeout=PATIENCE)
    for _ in range(3):
        crons.stop()
        crons.start()
    assert len(named(f"firecron-leader-{FEED}")) == 1
    go_on.set()
    assert begun.acquire(timeout=PATIENCE)
    crons.stop()
    crons.locks.close()
    assert (max(most), failed) == (1, [])
    assert lingers[0].startswith(f'"{FEED}" still leads as the instance stops')


@pytest.mark.parametrize("error", [ValueError("no feed"), None], ids=["raises", "returns"])
def test_i41_a_body_that_raises_does_not_lead_on_and_does_not_hammer(
    world: World, one: Instance, error: Exception | None
) -> None:
    """Its term is released at once, and it stands again after pauses that grow to a minute; also if it returns."""
    held: list[bool] = []

    def end(active: ActiveTerm) -> None:
        world.at(world.mono() / 1000 + 0.5, lambda: held.append("releasedAt" not in world.node(FEED)))
        if error is not None:
            raise error

    stander = Stander(one, end)
    world.until(600)
    assert 8 <= len(stander.elected) <= 25
    assert not any(held)
    pauses = [later - before for before, later in zip(stander.elected, stander.elected[1:], strict=False)]
    assert pauses[0] >= 1
    assert min(pauses[7:]) >= 30


def test_i42_a_handover_takes_no_longer_than_promised(world: World, one: Instance) -> None:
    """After a death nobody leads for the ttl, a margin and a second; after a clean stop, by polling, for 5 s."""
    Stander(one, lambda active: one.timing.sleep(HOUR))
    world.until(2)
    other, third = Stander(Instance(world)), Stander(Instance(world))
    world.until(20)
    renewed_until = world.node(FEED)["expiresAt"]
    assert isinstance(renewed_until, int)
    one.crash()
    world.until(60)
    elected = [at for stander in (other, third) for at in stander.elected]
    expired = (renewed_until - world.wall() + world.mono()) / 1000
    assert len(elected) == 1
    assert expired + 1 <= elected[0] <= expired + 2
    second = other if other.elected else third
    last = third if second is other else other
    last.instance.network.requests()
    world.until(120)
    assert len(last.instance.network.requests("cron-locks")) >= 12, "it asks every 5 s"
    second.candidate.stop()
    world.until(126)
    assert len(last.elected) == 1
    assert last.elected[0] <= 125.2


def test_i42_a_follower_that_polls_asks_when_the_lease_expires(world: World) -> None:
    """Each of four deaths is followed by an election a margin after the expiry, and a tenth of a second at the most."""
    instances = [Instance(world) for _ in range(5)]
    standers = [Stander(one, lambda term, one=one: one.timing.sleep(HOUR)) for one in instances]  # type: ignore[misc]  # a default of a lambda has no type
    world.until(2)
    for death in range(4):
        [leader] = [stander for stander in standers if stander.candidate.is_mine]
        standers.remove(leader)
        leader.instance.crash()
        expires = world.node(FEED)["expiresAt"]
        assert isinstance(expires, int)
        world.until(60 * (death + 1))
        [at] = [at for stander in standers for at in stander.elected if at > 60 * death]
        assert 0 <= at - (expires - world.wall() + world.mono()) / 1000 - 1 <= 0.12


def test_i42_a_handover_by_watch_takes_a_second(world: World) -> None:
    """Those who hear of the release ask at once, and one of them leads within a second of the body's end."""
    one = Stander(Instance(world, hears=True))
    world.until(2)
    others = [Stander(Instance(world, hears=True)) for _ in range(3)]
    world.until(20)
    assert [stander.instance.locks.database.streams.open for stander in others] == [1, 1, 1]
    for stander in others:
        stander.instance.network.requests()
    one.candidate.stop()
    world.until(22)
    [elected] = [at for stander in others for at in stander.elected]
    assert elected <= 21.2
    asks = sum(len(stander.instance.network.requests("cron-locks")) for stander in others)
    assert asks <= 2 * len(others)


def test_i43_a_follower_that_was_cut_off_asks_again(world: World) -> None:
    """Within 30 s of the database's return each follower has asked."""
    standers = three(world)
    world.until(10)
    for stander in standers:
        stander.instance.network.is_down = True
    world.until(400)
    for stander in standers:
        stander.instance.network.is_down = False
        stander.instance.network.requests()
    world.until(430)
    assert all(stander.instance.network.requests("cron-locks") for stander in standers)
    assert sum(stander.candidate.is_mine for stander in standers) == 1


def test_i44_is_mine_is_never_true_on_two_instances(world: World) -> None:
    """Whatever their wall clocks say, and wherever they jump to."""
    standers = [Stander(Instance(world, wall_error=error)) for error in (-HOUR, 0.0, HOUR)]
    believers = Believers(*standers)
    for second in range(10, 300, 10):
        stander = standers[second // 10 % 3]
        world.at(second, partial(stander.instance.timing.step_wall, 7 * HOUR))
        world.at(second + 3, lambda: world.edit(FEED, paused=True))
        world.at(second + 9, lambda: world.edit(FEED, paused=None))
    world.until(320)
    assert believers.most == 1
    assert sum(len(stander.elected) for stander in standers) > 10


def test_i44_is_mine_ends_before_the_release_begins(world: World) -> None:
    """While a release is under way another instance may be elected: its own leader believes no more."""
    one, other = Stander(Instance(world)), Stander(Instance(world))
    believers = Believers(one, other)
    world.until(10)
    leads = one if one.candidate.is_mine else other
    # The write is done, and its reply takes longer than the other one's pause.
    leads.instance.network.next("swap", after=lambda: leads.instance.timing.sleep(6), times=4)
    leads.candidate.request_end("it stepped down", away_for=60_000)
    world.until(30)
    assert believers.most == 1
