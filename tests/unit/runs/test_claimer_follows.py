"""A tick that queues for a run of another instance hears of its end, and starts at once instead of seconds later."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from tests.simulation.fleet import Fleet
from tests.simulation.world import NAME, slot

from firecron.errors import Unavailable

NINE = datetime(2026, 11, 18, 9, tzinfo=UTC)


def test_a_queued_tick_starts_when_the_run_before_it_ends() -> None:
    """The turn that waits tries again within milliseconds of the release; polling takes half a second at least."""
    fleet = Fleet(overlap="queue", grace=30)
    one, other = fleet.instance(hears=True), fleet.instance()
    lease = other.hold(slot())
    fleet.world.until(55)
    one.start()
    started: list[float] = []
    fleet.body = lambda run: started.append(fleet.world.mono() / 1000)
    fleet.world.at(70.25, lease.release)
    fleet.world.until(75)
    assert fleet.slots() == [slot(60)]
    assert started == [pytest.approx(70.25, abs=0.02)]
    assert one.network.methods.count("watch") == 1
    assert one.locks.database.streams.open == 0, "the claim has ended"
    assert one.said("run.delayed")


@pytest.mark.parametrize("by_tick", [False, True])
def test_a_refused_run_by_hand_does_not_end_what_a_queued_tick_hears(by_tick: bool) -> None:
    """A run by hand of the same job that is refused meanwhile has a claim of its own: the tick hears on."""
    fleet = Fleet(overlap="queue", grace=30)
    one, other = fleet.instance(hears=True), fleet.instance()
    lease = other.hold(slot())
    fleet.world.until(55)
    one.start()
    started: list[float] = []
    fleet.body = lambda run: started.append(fleet.world.mono() / 1000)
    fleet.world.until(62)
    wanted = NINE + timedelta(seconds=30) if by_tick else None
    assert one.crons.registry.trigger(NAME, slot=wanted).refusal is not None
    fleet.world.at(70.25, lease.release)
    fleet.world.until(75)
    assert started == [pytest.approx(70.25, abs=0.02)]


@pytest.mark.parametrize("breaks", [False, True], ids=["no stream", "a stream that breaks"])
def test_a_queued_tick_that_hears_nothing_polls(breaks: bool) -> None:
    """While the stream is lost, the turn tries as often as without it: each loss is told, and puts no try off."""
    fleet = Fleet(overlap="queue", grace=30)
    one, other = fleet.instance(hears=breaks), fleet.instance()
    one.chance.value = 1.0
    one.network.next("watch", before=_fail, times=1_000)
    lease = other.hold(slot())
    fleet.world.until(55)
    one.start()
    started: list[float] = []
    fleet.body = lambda run: started.append(fleet.world.mono() / 1000)
    fleet.world.at(69.75, lease.release)
    fleet.world.until(71)
    assert started == [pytest.approx(70, abs=0.02)], "the longest pause is 5 s: it tried at 60, 65 and 70"
    assert (one.network.methods.count("watch") > 2) == breaks


def test_a_stream_that_fails_again_and_again_puts_no_try_off() -> None:
    """Each failure wakes the turn. Its next try comes as it was planned, or sooner: five seconds after the last."""
    fleet = Fleet(overlap="queue", grace=300, lock_ttl=600)
    one, other = fleet.instance(hears=True), fleet.instance()
    one.network.next("watch", before=_fail, times=1_000)
    other.hold(slot())
    fleet.world.until(55)
    tries: list[float] = []

    def note(method: str, path: str) -> None:
        if method in ("swap", "read") and path == "cron-locks/job":
            tries.append(fleet.world.mono() / 1000)

    one.network.before = note
    one.start()
    fleet.world.until(200)
    since = [time for time in tries if time >= 60]
    assert len(since) > 28
    assert max(after - before for before, after in pairwise(since)) <= 5.01


def test_a_queued_tick_is_over_at_the_end_of_its_grace() -> None:
    """A turn that hears nothing new tries for the last time when the grace ends, and follows the lock no more."""
    fleet = Fleet(overlap="queue", grace=10)
    one, other = fleet.instance(hears=True), fleet.instance()
    other.hold(slot())
    fleet.world.until(55)
    one.start()
    fleet.world.until(69)
    assert (one.locks.database.streams.open, one.said("run.skipped")) == (1, [])
    fleet.world.until(70.1)
    assert fleet.slots() == []
    assert one.locks.database.streams.open == 0
    assert len(one.said("run.skipped")) == 1


def test_an_instance_that_stops_follows_nothing() -> None:
    """A stop ends the streams of the turns that wait."""
    fleet = Fleet(overlap="queue", grace=30)
    one, other = fleet.instance(hears=True), fleet.instance()
    other.hold(slot())
    fleet.world.until(55)
    one.start()
    fleet.world.until(65)
    assert one.locks.database.streams.open == 1
    one.is_ticking = False
    one.crons.stop()
    assert one.locks.database.streams.open == 0
    fleet.world.advance(0)


def test_a_queued_tick_whose_job_is_paused_here_follows_nothing() -> None:
    """Its claim is given up at its next try, and its stream with it."""
    fleet = Fleet(overlap="queue", grace=30)
    one, other = fleet.instance(hears=True), fleet.instance()
    lease = other.hold(slot())
    fleet.world.until(55)
    one.start()
    fleet.world.until(62)
    assert one.locks.database.streams.open == 1
    one.crons.registry.pause(NAME)
    lease.release()
    fleet.world.until(65)
    assert (fleet.slots(), one.locks.database.streams.open) == ([], 0)


def test_what_changes_meanwhile_makes_one_try() -> None:
    """The first value that is heard, and each change while the lock is held, makes no further try."""
    fleet = Fleet(overlap="queue", grace=50)
    one, other = fleet.instance(hears=True), fleet.instance()
    other.hold(slot())
    fleet.world.until(55)
    one.start()
    fleet.world.until(61)
    assert one.network.requests("cron-locks/") == ["swap", "watch"]
    for number in range(200):
        fleet.world.edit(note=number)
        fleet.world.advance(0.1)
    assert one.network.requests("cron-locks/") == []
    one.is_ticking = False
    one.crons.stop()
    fleet.world.advance(0)


def _fail() -> None:
    raise Unavailable("it can't be reached")
