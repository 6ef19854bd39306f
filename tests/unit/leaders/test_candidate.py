"""A candidate: when it stands, who is told that a term is to end, and what a refusal or an error costs."""

from __future__ import annotations

import logging
import os
import signal

import pytest
from tests.simulation.instance import Instance
from tests.simulation.leading import FEED, Loop
from tests.simulation.world import START, World

from firecron import Term
from firecron.errors import Stopping
from firecron.leaders.candidate import ActiveTerm, Candidate, back_off_after
from firecron.leaders.leader import Election

ELECTION = Election(FEED, 15_000, 1_000)


def elected(candidate: Candidate) -> ActiveTerm:
    active = candidate.stand()
    assert active is not None
    return active


@pytest.fixture
def candidate(one: Instance) -> Candidate:
    return Candidate(one.live().locks.database, ELECTION)


def test_a_release_before_the_wait_is_not_slept_through(world: World, candidate: Candidate) -> None:
    """What the stream tells as it opens, after the pause was computed, is waited for no longer than from then on."""
    active = elected(candidate)
    other = Candidate(Instance(world, hears=True).live().locks.database, ELECTION)
    assert other.stand() is None
    pause = other.due_in()
    assert pause is not None
    assert pause > 1
    candidate.end(active)
    other.wait(pause)
    assert world.mono() < 10
    elected(other)
    world.advance(0)


def test_is_mine_is_arithmetic(world: World, one: Instance, candidate: Candidate) -> None:
    """It is true from the election to a margin before the record's end, and asks nobody."""
    seen = [candidate.is_mine]
    active = elected(candidate)
    seen.append(candidate.is_mine)
    world.machines.clear()  # nothing renews, and nothing notices
    one.network.requests()
    world.until(13.999)
    seen.append(candidate.is_mine)
    world.until(14)
    seen.append(candidate.is_mine)
    assert seen == [False, True, True, False]
    assert (one.network.requests(), one.said("lock.lost")) == ([], [])
    assert active.term.lost


def test_is_mine_ends_with_the_beginning_of_the_release(world: World, one: Instance, candidate: Candidate) -> None:
    """While the release is under way, somebody else may lead already."""
    active = elected(candidate)
    seen: list[bool] = []
    one.network.next("swap", before=lambda: seen.append(candidate.is_mine))
    candidate.end(active)
    assert (seen, candidate.is_mine) == ([False], False)


def test_a_body_that_raises_again_and_again_does_not_hammer(world: World, one: Instance) -> None:
    """The pauses after failures grow from 1 s to a minute, and a term of a minute lets them begin anew."""
    candidate = Candidate(one.live().locks.database, ELECTION)
    pauses: list[float] = []
    for _ in range(9):
        candidate.end(elected(candidate), ValueError("no"))
        pause = candidate.due_in()
        assert pause is not None
        pauses.append(pause)
        world.advance(pause)
    assert all(1 <= pause <= 60 for pause in pauses)
    assert pauses[0] == 1
    assert pauses[-1] >= 30
    active = elected(candidate)
    world.advance(61)
    candidate.end(active, ValueError("no"))
    assert candidate.due_in() == pytest.approx(1)
    assert [event.fields["failures"] for event in one.said("leader.failed")] == [*range(1, 10), 1]


def test_a_good_term_forgives_failures(one: Instance, candidate: Candidate) -> None:
    """Only a term of a minute makes the next failure the first: no short one, whether it returned, was told or lost."""
    world = one.world

    def lead(error: Exception | None, seconds: float = 0, told: bool = False, lost: bool = False) -> None:
        world.advance(candidate.due_in() or 0)
        active = elected(candidate)
        if told:
            candidate.request_end("it is paused on this instance")
        if lost:
            active.lease.lose("the test takes it")
        world.advance(seconds)
        candidate.end(active, error)

    lead(ValueError())
    lead(None)
    lead(None, told=True)
    lead(None, lost=True)
    lead(ValueError())
    lead(None, seconds=60)
    lead(ValueError())
    assert [event.fields["failures"] for event in one.said("leader.failed")] == [1, 2, 1]


def test_a_body_that_returns_at_once_is_slowed_like_one_that_raises(one: Instance) -> None:
    """One return costs the pause, more of them up to a minute, which is said once; a term of a minute ends that."""
    candidate = Candidate(one.live().locks.database, ELECTION)
    pauses: list[float] = []
    for seconds in [0] * 9 + [61] + [0] * 3:
        active = elected(candidate)
        one.world.advance(seconds)
        candidate.end(active)
        pauses.append(candidate.due_in() or 0)
        one.world.advance(pauses[-1])
    slow, good, again = pauses[:9], pauses[9], pauses[10:]
    assert [*slow[:2], good, *again[:2]] == pytest.approx([1] * 5)
    assert 30 <= slow[-1] <= 60
    warned = [event for event in one.said("leader.stepped_down") if event.level == logging.WARNING]
    assert [event.fields["why"] for event in warned] == ["its body returned"] * 2
    assert "its body returned after 0.0 s. This instance stands again in " in warned[0].message


def test_a_longer_pause_than_the_back_off_is_the_programs_wish(one: Instance) -> None:
    """A leader with `pause=60` that returns at once stands again after just that, and nothing is said."""
    candidate = Candidate(one.live().locks.database, Election(FEED, 15_000, 60_000))
    for _ in range(9):
        candidate.end(elected(candidate))
        assert candidate.due_in() == pytest.approx(60)
        one.world.advance(candidate.due_in() or 0)
    assert {event.level for event in one.said("leader.stepped_down")} == {logging.INFO}


@pytest.mark.parametrize(("failures", "away", "least"), [(1, 30_000, 30), (8, 5_000, 30)], ids=["away", "back-off"])
def test_the_later_of_back_off_and_away_for_counts(
    one: Instance, candidate: Candidate, failures: int, away: int, least: float
) -> None:
    """A body that raises as it steps down stands again once both pauses are over, and the error says when."""
    for number in range(failures):
        one.world.advance(candidate.due_in() or 0)
        active = elected(candidate)
        if number == failures - 1:
            candidate.request_end("it stepped down", away_for=away)
        candidate.end(active, ValueError("no"))
    pause = candidate.due_in() or 0
    assert pause >= least - 1e-6
    assert f"stands again in {pause:.1f} s at the earliest" in one.said("leader.failed")[-1].message


def test_a_leader_that_stops_and_opens_still_stays_away(one: Instance, candidate: Candidate) -> None:
    """Neither `away_for` nor the back-off is forgotten by a pause and a resume on this instance, or by a restart."""
    for _ in range(5):
        one.world.advance(candidate.due_in() or 0)
        candidate.end(elected(candidate), ValueError("no"))
    waits = candidate.due_in()
    candidate.stop("it is paused on this instance")
    assert candidate.due_in() is None
    candidate.open()
    assert waits is not None
    assert candidate.due_in() == pytest.approx(waits)
    assert waits > 4
    one.world.advance(waits)
    active = elected(candidate)
    candidate.request_end("it stepped down", away_for=30_000)
    candidate.stop("it is paused on this instance")
    candidate.open()
    candidate.end(active)
    assert candidate.due_in() == pytest.approx(30)


def test_a_pause_that_is_over_ends_no_term(world: World) -> None:
    """A leader is elected once a pause is over by RTDB's time, and leads on although its node still tells of it."""
    world.edit(FEED, paused=True, pausedUntil=START + 40_000)
    loop = Loop(Instance(world))
    world.until(39.9)
    assert loop.had == []
    world.until(46)
    assert len(loop.had) == 1
    world.until(120)
    assert (len(loop.had), bool(loop.term.lost), world.node(FEED)["paused"]) == (1, False, True)


def test_an_operators_pause_ends_the_term_at_the_next_renewal(world: World) -> None:
    """A leader that reads `paused` steps down, and stands again only after the pause."""
    loop = Loop(Instance(world))
    world.until(7)
    world.edit(FEED, paused=True)
    world.until(11)
    assert loop.term.lost
    node = world.node(FEED)
    assert (node["paused"], "releasedAt" in node) == (True, True)
    [event] = loop.instance.said("leader.stepped_down")
    assert event.fields["why"] == "it is paused by an operator"
    world.until(60)
    assert len(loop.had) == 1
    world.edit(FEED, paused=None)
    world.until(66)
    assert len(loop.had) == 2


def test_a_cancel_ends_the_term_and_another_instance_leads(world: World) -> None:
    """A leader that reads its own fence in `cancel` steps down, and stays away for half a minute."""
    one = Loop(Instance(world))
    world.until(2)
    other = Loop(Instance(world))
    world.until(7)
    world.edit(FEED, cancel=one.term.fence)
    world.until(20)
    assert one.term.lost
    assert len(other.had) == 1
    assert "cancel" not in world.node(FEED)
    [event] = one.instance.said("leader.stepped_down")
    assert event.fields["why"] == "it was cancelled"


def test_a_term_that_is_told_to_end_is_told_once(one: Instance) -> None:
    """The first reason counts, the lease stays, and only the end of the body releases it."""
    changes: list[ActiveTerm] = []
    candidate = Candidate(one.live().locks.database, ELECTION, changes.append)
    active = elected(candidate)
    assert candidate.request_end("it steps down", away_for=30_000)
    assert not candidate.request_end("again")
    assert changes == [active]
    assert (bool(active.term.stopping), candidate.is_mine) == (True, True)
    ended = candidate.end(active, Stopping())
    assert ended is not None
    assert ended.outcome == "interrupted"
    assert candidate.due_in() == 30
    assert not candidate.request_end("nobody")


def test_the_longest_time_to_stay_away_counts(one: Instance, candidate: Candidate) -> None:
    """A leader that is told twice keeps the first reason, and stays away for as long as either says."""
    active = elected(candidate)
    assert candidate.request_end("it stepped down", away_for=5_000)
    assert not candidate.request_end("it was cancelled", "cancelled", 30_000)
    assert not candidate.request_end("this instance stops")
    candidate.end(active, Stopping())
    assert candidate.due_in() == 30
    [event] = one.said("leader.stepped_down")
    assert event.fields["why"] == "it stepped down"


def test_a_stop_during_the_election_leaves_no_term(world: World, one: Instance, candidate: Candidate) -> None:
    """A lease that comes after the stop is given back at once."""
    one.network.next("swap", after=candidate.stop)
    assert candidate.stand() is None
    assert "releasedAt" in world.node(FEED)
    assert (candidate.due_in(), candidate.active, one.slugs("leader")) == (None, None, [])
    candidate.open()
    assert candidate.due_in() == 0
    elected(candidate)


def test_an_interruption_of_the_election_leaves_no_lease(world: World, one: Instance, candidate: Candidate) -> None:
    """Ctrl-C in a listener gives the lease back: nothing renews it."""

    def interrupt(event: object) -> None:
        raise KeyboardInterrupt

    end = one.crons.events.subscribe(interrupt)
    with pytest.raises(KeyboardInterrupt):
        candidate.stand()
    end()
    assert one.locks.database.keeper.leases() == []
    assert "releasedAt" in world.node(FEED)
    assert candidate.active is None


def test_a_refusal_is_told_once(world: World, one: Instance) -> None:
    """A follower that asks for hours says once that another instance leads."""
    Loop(Instance(world))
    world.until(2)
    Loop(one)
    world.until(120)
    assert one.slugs("lock") == ["lock.refused"]


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ({"expiresAt": 1, "slot": "2026-11-18T08:00:00Z"}, "so the name belongs to a job: rename"),
        ({"expiresAt": 1, "outcome": "failed"}, "so the name belongs to a job: rename"),
        ({"kind": "once"}, "its `kind` is 'once', so the name belongs to something else"),
        ({"expiresAt": 1, "kind": 7}, "its `kind` is 7"),
    ],
    ids=["a job", "a job run by hand", "another kind", "no kind at all"],
)
def test_a_leader_does_not_take_another_kind_of_node(
    world: World, one: Instance, candidate: Candidate, node: dict[str, object], said: str
) -> None:
    """A node of a job, or of any kind that is not a leader's, is refused as malformed, and stays as it is."""
    world.put(node, FEED)
    assert candidate.stand() is None
    [event] = one.said("lock.refused")
    assert event.fields["reason"] == "malformed"
    assert said in event.message
    assert world.node(FEED) == node


@pytest.mark.parametrize("release", [False, True])
def test_nothing_else_takes_a_leaders_node(one: Instance, candidate: Candidate, release: bool) -> None:
    """A plain lock or a job that meets a leader's node is refused as malformed, also while nobody leads."""
    active = elected(candidate)
    if release:
        candidate.end(active)
    other = Instance(one.world)
    refusal = other.refused(FEED)
    assert (refusal.reason, refusal.holder) == ("malformed", None)
    assert "its `kind` is 'leader'" in refusal.message


def test_a_body_that_outlasts_its_lost_term_is_named(world: World, one: Instance) -> None:
    """A body that goes on for a whole ttl after the loss gets a WARNING; one that ends before gets none."""

    def deaf(term: Term) -> None:
        one.timing.sleep(60)

    loop = Loop(one, deaf)
    world.until(1)
    world.edit(FEED, expiresAt=0)
    world.until(5.5)
    assert loop.term.lost
    lost_at = world.mono() / 1000
    world.until(lost_at + 14)
    assert one.said("leader.lingers") == []
    world.until(lost_at + 15)
    [event] = one.said("leader.lingers")
    assert "still runs 15 s after its term was lost" in event.message
    world.until(61)
    assert len(one.said("leader.lingers")) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
# From 3.15 on the warning is raised where the fork is called. This child only looks, and ends.
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_does_not_lead(world: World, one: Instance, candidate: Candidate) -> None:
    """In the child the term is lost, it isn't mine, and its end releases and says nothing."""
    active = elected(candidate)
    before = world.node(FEED)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        said = len(one.events)
        ended = candidate.end(active)
        facts = [bool(active.term.lost), candidate.is_mine, ended is None, len(one.events) == said]
        os.write(write, repr((facts, world.node(FEED) == before)).encode())
        os.kill(os.getpid(), signal.SIGKILL)  # nothing that is the parent's may be ended here
    os.waitpid(child, 0)
    assert os.read(read, 1000) == repr(([True, False, True, True], True)).encode()
    assert candidate.is_mine


@pytest.mark.parametrize(("chance", "failures", "least", "most"), [(0, 1, 1, 1), (1, 3, 4, 4), (0, 30, 30, 30)])
def test_the_pause_after_failures(chance: float, failures: int, least: float, most: float) -> None:
    """It is doubled for each failure, from a second to a minute; chance takes up to half of it."""
    assert least <= back_off_after(failures, chance) <= most
