"""From a tick that is due to a lock, or to the reason why not: grace, queueing, and what a loser does then."""

from __future__ import annotations

import logging
from itertools import pairwise

import pytest
from tests.simulation.fleet import Fleet, refusal_of
from tests.simulation.instance import Instance
from tests.simulation.world import NAME, START, slot

from firecron import Lease, Run, Unavailable
from firecron.runs.turn import WantedClaim


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


def up(instance: Instance) -> None:
    instance.network.is_down = False


def mend(instance: Instance) -> None:
    instance.network.before = lambda method, path: None
    up(instance)


@pytest.mark.parametrize(("back_after", "runs"), [(30, 1), (55, 1), (70, 0)])
def test_a_tick_waits_for_the_database_within_its_grace(fleet: Fleet, back_after: float, runs: int) -> None:
    """A tick that finds RTDB unreachable is tried again until its grace is over, and is missed then."""
    one = fleet.instance()
    one.network.is_down = True
    fleet.world.at(back_after, lambda: up(one))
    one.turn(slot())
    assert len(fleet.runs) == runs
    assert [event.level for event in one.said("run.delayed")] == [logging.WARNING]
    assert len(one.said("run.missed")) == len(one.said("lock.unavailable")) == 1 - runs
    # A try that begins within the grace has the time of a request.
    assert fleet.world.mono() <= 60_000 + 1000 * one.locks.settings.request_timeout + 100


def test_a_lost_reply_becomes_a_win(fleet: Fleet) -> None:
    """A claim whose reply was lost, and whose read-back failed as well, is recognised by its token later in grace."""
    one = fleet.instance()
    one.network.lose_reply()
    tokens: list[object] = []

    def before(method: str, path: str) -> None:
        if method == "read":
            tokens.append(fleet.world.node()["holder"])
            one.network.is_down = True

    one.network.before = before
    fleet.world.at(15, lambda: mend(one))
    (result,) = one.turn(slot())
    assert result.outcome == "succeeded"
    assert len(fleet.runs) == 1
    assert result.run is not None
    assert (result.run.attempt, result.run.fence) == (1, START)
    assert fleet.world.node()["holder"] == tokens[0]


@pytest.mark.parametrize(
    ("reason", "node"),
    [("paused", {"paused": True}), ("malformed", {"holder": 3}), ("slot_done", {"expiresAt": 1, "slot": slot()})],
)
def test_what_waiting_does_not_change_is_the_answer(fleet: Fleet, reason: str, node: object) -> None:
    """Paused, malformed and done are answers: nothing is tried again, and each is said once."""
    one = fleet.instance()
    fleet.world.put(node)
    assert refusal_of(one.turn(slot())).reason == reason
    assert fleet.world.mono() == 0
    assert [event.fields["reason"] for event in one.said("lock.refused")] == [reason]


def test_denied_is_an_answer(fleet: Fleet) -> None:
    """Where the rules refuse, nothing is tried again, and nothing runs."""
    one = fleet.instance()
    one.network.is_denied = True
    assert refusal_of(one.turn(slot())).reason == "denied"
    assert (fleet.world.mono(), fleet.runs) == (0, [])


def test_a_tick_that_comes_early_is_waited_for(fleet: Fleet) -> None:
    """An instance whose clock is ahead waits until RTDB's has reached the tick, but for the margin."""
    one = fleet.instance()
    (result,) = one.turn(slot(5))
    assert result.outcome == "succeeded"
    assert fleet.world.history()[slot(5)]["startedAt"] >= START + 4_000  # type: ignore[operator]  # it is a number
    (event,) = one.said("run.delayed")
    assert event.level == logging.INFO


@pytest.mark.parametrize(("late", "runs"), [(60.0, 1), (60.001, 0)])
def test_waiting_for_a_worker_counts(fleet: Fleet, late: float, runs: int) -> None:
    """A tick whose grace is over before it has a worker is missed without a request, to the millisecond."""
    one = fleet.instance()
    fleet.world.advance(late)
    one.turn(slot())
    assert len(fleet.runs) == runs
    assert bool(one.network.requests("cron-locks/")) is bool(runs)


def test_a_tick_with_hardly_a_grace_may_start_within_its_second() -> None:
    """However short its grace, a tick still starts when it is handed over in its own second."""
    fleet = Fleet(grace=0.1)
    one = fleet.instance()
    fleet.world.advance(0.9)
    one.turn(slot())
    fleet.world.until(61.1)
    one.turn(slot(60))
    assert fleet.slots() == [slot()]


def test_the_grace_ends_though_the_time_is_no_longer_known(fleet: Fleet) -> None:
    """Once a tick has begun to be tried, its grace is measured on the monotonic clock: an outage of hours ends it."""
    one = fleet.instance()
    one.network.is_down = True
    one.timing.step_wall(3_600)
    assert one.locks.clock.peek() is None
    fleet.world.at(5_000, lambda: up(one))
    one.turn(slot())
    fleet.world.until(6_000)
    assert fleet.runs == []
    assert len(one.said("run.missed")) == 1


@pytest.mark.parametrize(("released", "starts"), [(20, True), (55, True), (61, False)])
def test_a_queued_tick_waits_until_the_next(released: float, starts: bool) -> None:
    """With overlap="queue" a tick that finds the lock held polls until it is free, or the next tick has come."""
    fleet = Fleet(overlap="queue")
    one, other = fleet.instance(), fleet.instance()
    lease = other.hold(slot(-60))
    fleet.world.at(released, lease.release)
    one.turn(slot())
    assert fleet.slots() == ([slot()] if starts else [])
    assert fleet.world.mono() <= 60_001
    assert len(one.said("run.skipped")) == (not starts)
    if starts:
        began = fleet.world.history()[slot()]["startedAt"]
        assert START + released * 1000 <= began <= START + released * 1000 + 5_000  # type: ignore[operator]  # a number


@pytest.mark.parametrize(("grace", "starts"), [(100, True), (30, False)])
def test_a_grace_that_was_given_ends_the_queue(grace: int, starts: bool) -> None:
    """A queued tick waits as long as the grace that the job was declared with, whatever comes in between."""
    fleet = Fleet(overlap="queue", grace=grace)
    one, other = fleet.instance(), fleet.instance()
    lease = other.locks.contender.try_once(other.locks.contender.bid(NAME, 30, renews=True))
    assert isinstance(lease, Lease)
    fleet.world.at(80, lease.release)
    one.turn(slot())
    assert bool(fleet.runs) is starts


def test_a_queued_tick_ends_when_another_took_it() -> None:
    """A tick that somebody else ran meanwhile is done, also for who queues for it."""
    fleet = Fleet(overlap="queue")
    one, other = fleet.instance(), fleet.instance()
    lease = other.hold(slot(-60))
    fleet.world.at(10, lease.release)
    fleet.world.at(10, lambda: other.turn(slot()))
    assert refusal_of(one.turn(slot())).reason == "slot_done"
    assert fleet.slots() == [slot()]


@pytest.mark.parametrize(("ends", "ran"), [(70, [slot(60)]), (125, [])])
def test_a_queued_tick_waits_for_the_run_on_its_own_instance(ends: float, ran: list[str]) -> None:
    """A tick queues for the run before it here as well, without a request or a thread, and runs after it, if it is
    not over by then.
    """
    fleet = Fleet(overlap="queue")
    one = fleet.instance()

    def body(run: Run) -> None:
        fleet.body = lambda run: None
        one.network.requests()
        assert one.turn(slot(60)) == []
        assert one.network.requests("cron-locks/") == []
        fleet.world.until(ends)

    fleet.body = body
    one.turn(slot())
    fleet.world.advance(1)
    assert fleet.slots() == [slot(), *ran]
    assert [event.fields["slot"] for event in one.said("run.missed")] == [slot(60)] * (not ran)


@pytest.mark.parametrize(("options", "ran"), [({}, [120]), ({"grace": 600}, [60, 120])])
def test_of_the_ticks_that_queue_the_newest_stands_in_line(options: dict[str, object], ran: list[float]) -> None:
    """Behind a long run the newest tick waits, and the one before it is skipped; all wait, in their order, where they
    have a grace of their own.
    """
    fleet = Fleet("* * * * *", overlap="queue", **options)
    one = fleet.instance()

    def body(run: Run) -> None:
        fleet.body = lambda run: None
        for seconds in (60, 120):
            fleet.world.until(seconds)
            assert one.turn(slot(seconds)) == []

    fleet.body = body
    one.turn(slot())
    fleet.world.advance(1)
    assert fleet.slots() == [slot(), *map(slot, ran)]
    assert [event.fields["slot"] for event in one.said("run.skipped")] == [slot(60)] * (60 not in ran)


@pytest.mark.parametrize("on_abandoned", ["skip", "rerun"])
def test_a_loser_looks_again_when_the_lock_expires(on_abandoned: str) -> None:
    """Who was refused looks once when the lock that it saw expires, for a job that wants it, whatever the refusal."""
    fleet = Fleet(on_abandoned=on_abandoned)
    one, other = fleet.instance(), fleet.instance()
    one.start()
    other.die_holding(slot())
    assert refusal_of(one.turn(slot())).reason == "slot_done"
    one.network.requests()
    fleet.world.until(30.999)
    assert one.network.requests("cron-locks/") == []
    fleet.world.until(31)
    assert len(fleet.runs) == bool(one.network.requests("cron-locks/")) == (on_abandoned == "rerun")


def test_a_loser_follows_a_lock_that_is_renewed() -> None:
    """A lock that was renewed when the loser looks is looked at again at its new expiry: a late death is found too."""
    fleet = Fleet("0 * * * *", on_abandoned="rerun")
    one, other = fleet.instance(recovery_interval=80_000), fleet.instance()
    one.start()
    other.hold(slot())
    one.turn(slot())
    fleet.world.at(1_000, other.crash)
    fleet.world.until(1_000 + 30 + 1 + 5)
    assert fleet.slots() == [slot()]
    assert fleet.runs[0].attempt == 2
    assert len(one.said("lock.refused")) < 1_000 / 20


def test_a_clean_release_is_not_looked_at() -> None:
    """A loser that finds the run ended has nothing to look at later."""
    fleet = Fleet("0 * * * *", on_abandoned="rerun")
    one, other = fleet.instance(recovery_interval=80_000), fleet.instance()
    one.start()
    other.turn(slot())
    one.turn(slot())
    one.network.requests()
    fleet.world.until(200)
    assert one.network.requests("cron-locks/") == []
    said = one.slugs("lock")
    one.turn(None)
    assert one.slugs("lock") == said, "a look that finds nothing is nothing to tell"


def test_looking_again_ends(fleet: Fleet) -> None:
    """A run that died for the last time, or whose job is paused, is not looked at for ever."""
    fleet = Fleet("0 * * * *", on_abandoned="rerun")
    one, other = fleet.instance(recovery_interval=80_000), fleet.instance()
    one.start()
    other.die_holding(slot())
    fleet.world.edit(attempt=3)
    one.turn(slot())
    one.network.requests()
    fleet.world.until(100)
    assert len(one.network.requests("cron-locks/")) == 1
    fleet.world.edit(paused=True, attempt=1, expiresAt=START + 200_000)
    one.turn(None)
    one.network.requests()
    fleet.world.until(300)
    assert len(one.network.requests("cron-locks/")) == 1
    assert fleet.runs == []


def test_another_schedule_is_reported_once() -> None:
    """A slot that isn't a tick of this instance's schedule is told of once, by winners and by losers."""
    for wins in (True, False):
        fleet = Fleet("0 * * * *", grace=7_200)
        one, other = fleet.instance(), fleet.instance("30 * * * *")
        fleet.world.until(1_800)
        other.turn(slot(1_800))
        for _ in range(2):
            fleet.world.until(3_600 if wins else 1_801)
            one.turn(slot(3_600 if wins else 0))
        (event,) = one.said("job.schedule_differs")
        assert event.fields["slot"] == slot(1_800)
        assert event.level == logging.WARNING
        assert other.said("job.schedule_differs") == []


def test_a_winner_reports_no_schedule_but_another(fleet: Fleet) -> None:
    """Where all have one schedule nobody reports anything, also over a weekly pause."""
    fleet = Fleet("0 9 * * 3")
    one, other = fleet.instance(), fleet.instance()
    for week in range(3):
        fleet.world.until(week * 7 * 86_400)
        one.turn(slot(week * 7 * 86_400))
        other.turn(slot(week * 7 * 86_400))
    assert len(fleet.runs) == 3
    assert one.slugs("job.schedule") == other.slugs("job.schedule") == []


@pytest.mark.parametrize("is_trying", [False, True])
def test_a_newer_tick_takes_over_what_waits(is_trying: bool) -> None:
    """Of the ticks that can't be claimed while the database is down the newest is tried on, the one before is missed;
    the same if it comes in the middle of a try.
    """
    fleet = Fleet("*/20 * * * * *")
    one = fleet.instance()
    older, newer = (one.runner.turn(one.job(), WantedClaim(slot(seconds), "schedule")) for seconds in (0, 20))
    one.network.is_down = True

    def come(method: str, path: str) -> None:
        one.network.before = lambda method, path: None
        fleet.world.until(20)
        assert one.runner.go_on(newer) is None

    if is_trying:
        one.network.before = come
    delay = one.runner.go_on(older)
    assert (delay is None) is is_trying
    mend(one)
    fleet.world.until(20)
    if not is_trying:
        assert one.runner.go_on(newer) is None
    assert one.runner.go_on(older) is None
    fleet.world.advance(1)
    assert [event.fields["slot"] for event in one.said("run.missed")] == [slot()]
    assert fleet.slots() == [slot(20)]
    assert one.said("run.skipped") == []


def test_what_takes_over_has_the_same_token() -> None:
    """A claim whose reply was lost is won by the tick that took over, which runs the slot claimed first, then its
    own.
    """
    fleet = Fleet("*/5 * * * * *")
    one = fleet.instance()
    older = one.runner.turn(one.job(), WantedClaim(slot(), "schedule"))
    one.network.lose_reply()
    one.network.before = lambda method, path: setattr(one.network, "is_down", method == "read")
    assert one.runner.go_on(older) is not None
    mend(one)
    fleet.world.until(max(5, fleet.world.mono() / 1000))
    newer = one.runner.turn(one.job(), WantedClaim(slot(5), "schedule"))
    assert one.runner.go_on(newer) is None
    assert fleet.slots() == [slot(), slot(5)]


def test_a_run_by_hand_between_two_tries_ends_the_claim() -> None:
    """A tick that waits for its next try is skipped if the job's body runs here by then."""
    fleet = Fleet()
    one = fleet.instance()
    one.network.is_down = True
    turn = one.runner.turn(one.job(), WantedClaim(slot(), "schedule"))
    assert one.runner.go_on(turn) is not None
    up(one)
    goes_on: list[float | None] = []
    fleet.body = lambda run: goes_on.append(one.runner.go_on(turn))
    one.crons.registry.trigger(NAME)
    assert (fleet.slots(), goes_on) == ([None], [None])
    assert [event.fields["slot"] for event in one.said("run.skipped")] == [slot()]


@pytest.mark.parametrize(
    ("record", "starts", "ran"),
    [
        ({"slot": slot(-60), "outcome": "succeeded"}, 30, [slot()]),
        ({"slot": slot(-60), "outcome": "succeeded"}, 60.5, [slot(60)]),
        ({"slot": slot(), "outcome": "succeeded"}, 30, []),
        (None, 30, []),
        ({}, 30, []),
    ],
)
def test_an_instance_that_starts_within_grace_runs_the_tick(
    record: dict[str, object] | None, starts: float, ran: list[str]
) -> None:
    """A tick that came while no instance was there is run by one that starts within its grace, if the job has run
    before; if there is nothing to do, nothing is said.
    """
    fleet = Fleet()
    if record is not None:
        times = {"acquiredAt": START - 60_000, "expiresAt": START - 50_000, "releasedAt": START - 50_000}
        fleet.world.put({**times, "holder": "another", "instanceId": "v1", **record})
    one = fleet.instance()
    fleet.world.until(starts)
    one.start()
    fleet.world.until(starts + 5)
    assert fleet.slots() == ran
    assert one.said("lock.refused") == []


def busy(method: str, path: str) -> None:
    raise Unavailable("too many requests", retry_after=30)


def test_a_rerun_is_tried_again_after_a_pause(fleet: Fleet) -> None:
    """While the database is down, a dead run is looked for every two to five seconds, and not at once again."""
    fleet = Fleet("0 0 * * *", on_abandoned="rerun")
    one = fleet.instance()
    midnight = slot(-9 * 3_600)
    fleet.world.put({"slot": midnight, "unfinished": midnight, "holder": "dead", "expiresAt": START})
    asked: list[float] = []

    def down(method: str, path: str) -> None:
        if path.startswith("cron-locks"):
            asked.append(fleet.world.mono() / 1000)
            busy(method, path)

    fleet.world.until(40)
    one.network.before = down
    one.crons.engine.recovery.look_again(one.job(), START + 41_000)
    one.is_ticking = True
    fleet.world.until(60)
    tries = sorted({second for second in asked if second > 40})
    assert 4 <= len(tries) <= 11
    assert all(2 <= later - sooner <= 5.1 for sooner, later in pairwise(tries))


def test_the_least_pause_of_a_queue_is_half_a_second(fleet: Fleet) -> None:
    """A tick that queues asks again after half a second at the soonest, and five at the latest."""
    fleet = Fleet(overlap="queue")
    one, other = fleet.instance(), fleet.instance()
    other.hold(slot(-60))
    for chance, pause in ((0.0, 0.5), (1.0, 5.0)):
        one.chance.value = chance
        assert one.claim(slot()) == pause


def test_a_tick_that_was_never_asked_for_is_missed(fleet: Fleet) -> None:
    """What became of the tick before says nothing of the next, whose time is over before its first try."""
    fleet = Fleet(overlap="queue")
    one, other = fleet.instance(), fleet.instance()
    other.hold(slot(-60))
    assert one.runner.go_on(one.runner.turn(one.job(), WantedClaim(slot(), "schedule")))
    fleet.world.until(121)
    assert one.runner.go_on(one.runner.turn(one.job(), WantedClaim(slot(60), "schedule"))) is None
    fleet.world.advance(0)
    assert [
        (event.slug, event.fields["slot"]) for event in one.events if event.slug in ("run.skipped", "run.missed")
    ] == [
        ("run.skipped", slot()),
        ("run.missed", slot(60)),
    ]


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_claim_whose_reply_was_lost_is_what_it_was(fleet: Fleet, is_ours: bool) -> None:
    """A tick whose claim is found by the next tick's turn runs as a tick of the schedule, and is not called missed; a
    claim that never landed is.
    """
    one = fleet.instance()
    one.network.lose_reply()

    def before(method: str, path: str) -> None:
        if path.startswith("cron-locks") and (method == "read" or not is_ours):
            busy(method, path)

    one.network.before = before
    first = one.runner.turn(one.job(), WantedClaim(slot(), "schedule"))
    assert one.runner.go_on(first)
    fleet.world.until(20)
    second = one.runner.turn(one.job(), WantedClaim(slot(60), "schedule"))
    assert one.runner.go_on(second)
    assert one.said("run.missed") == []
    mend(one)
    fleet.world.until(25 if is_ours else 61)
    one.runner.go_on(second)
    fleet.world.until(61)
    one.runner.go_on(second)
    triggers = [run.trigger for run in fleet.runs]
    missed = [event.fields["slot"] for event in one.said("run.missed")]
    assert (triggers, missed) == ((["schedule", "schedule"], []) if is_ours else (["schedule"], [slot()]))
    assert fleet.slots()[-1] == slot(60)


def test_i25_what_was_in_doubt_is_said_once_it_is_known(fleet: Fleet) -> None:
    """A tick whose claim may have landed is called missed as soon as an answer shows that it did not."""
    one = fleet.instance()
    one.network.before = busy
    assert one.runner.go_on(one.runner.turn(one.job(), WantedClaim(slot(), "schedule")))
    fleet.world.until(20)
    second = one.runner.turn(one.job(), WantedClaim(slot(60), "schedule"))
    assert one.runner.go_on(second)
    assert one.said("run.missed") == []
    mend(one)
    fleet.world.put({"paused": True})
    assert one.runner.go_on(second) is None
    assert [event.fields["slot"] for event in one.said("run.missed")] == [slot()]


def test_i25_what_is_in_doubt_to_the_end_is_said_at_the_end(fleet: Fleet) -> None:
    """Where the database stays away, each tick of a turn is called missed once, also one that may have been claimed."""
    one = fleet.instance()
    one.network.before = busy
    assert one.runner.go_on(one.runner.turn(one.job(), WantedClaim(slot(), "schedule")))
    fleet.world.until(60)
    second = one.runner.turn(one.job(), WantedClaim(slot(60), "schedule"))
    assert one.runner.go_on(second)
    fleet.world.until(121)
    assert one.runner.go_on(second) is None
    assert [event.fields["slot"] for event in one.said("run.missed")] == [slot(), slot(60)]
    assert [event.fields["slot"] for event in one.said("run.delayed")] == [slot(), slot(60)]


def test_i25_a_tick_that_another_holder_keeps_out_is_in_no_doubt(fleet: Fleet) -> None:
    """A tick whose write was not answered, and that then finds another holder, is skipped as soon as a newer one
    comes.
    """
    fleet = Fleet(overlap="queue")
    one, other = fleet.instance(), fleet.instance()
    one.network.before = busy
    first = one.runner.turn(one.job(), WantedClaim(slot(), "schedule"))
    assert one.runner.go_on(first)
    mend(one)
    lease = other.locks.acquire(NAME, 90)
    assert lease
    assert one.runner.go_on(first)
    one.network.before = busy
    fleet.world.until(20)
    assert one.runner.go_on(one.runner.turn(one.job(), WantedClaim(slot(60), "schedule")))
    assert [event.fields["slot"] for event in one.said("run.skipped")] == [slot()]


def test_i25_a_tick_that_was_not_asked_for_is_in_no_doubt(fleet: Fleet) -> None:
    """A tick for which RTDB was not even asked for its time is missed as soon as a newer one comes."""
    one = fleet.instance()
    one.network.is_down = True
    one.timing.step_wall(3_600)
    assert one.locks.clock.peek() is None
    for seconds in (0, 60):
        fleet.world.until(seconds)
        assert one.runner.go_on(one.runner.turn(one.job(), WantedClaim(slot(seconds), "schedule")))
    assert [event.fields["slot"] for event in one.said("run.missed")] == [slot()]


def test_i25_each_tick_of_a_turn_may_be_the_one_that_was_claimed(fleet: Fleet) -> None:
    """Of three ticks that shared a token the second was claimed: it runs, and is not called missed; the first is."""
    fleet = Fleet("*/20 * * * * *")
    one = fleet.instance()
    one.network.before = busy
    assert one.runner.go_on(one.runner.turn(one.job(), WantedClaim(slot(), "schedule")))

    def unread(method: str, path: str) -> None:
        if path.startswith("cron-locks") and method == "read":
            busy(method, path)

    one.network.lose_reply()
    one.network.before = unread
    fleet.world.until(20)
    assert one.runner.go_on(one.runner.turn(one.job(), WantedClaim(slot(20), "schedule")))
    one.network.before = busy
    fleet.world.until(40)
    third = one.runner.turn(one.job(), WantedClaim(slot(40), "schedule"))
    assert one.runner.go_on(third)
    mend(one)
    one.runner.go_on(third)
    assert fleet.slots() == [slot(20), slot(40)]
    assert [event.fields["slot"] for event in one.said("run.missed")] == [slot()]


def test_the_grace_ends_where_it_was_to_end(fleet: Fleet) -> None:
    """A tick whose grace is known is given up at its end, also if RTDB's time is no longer known by then."""
    one = fleet.instance()
    one.network.is_down = True
    turn = one.runner.turn(one.job(), WantedClaim(slot(), "schedule"))
    assert one.runner.go_on(turn)
    one.timing.step_wall(3_600)
    assert one.locks.clock.peek() is None
    fleet.world.until(60.001)
    assert one.runner.go_on(turn) is None
    assert [event.fields["slot"] for event in one.said("run.missed")] == [slot()]


def test_an_answer_that_comes_late_is_an_answer(fleet: Fleet) -> None:
    """Who learns after the end of the grace that another has claimed the tick doesn't call it missed."""
    one, other = fleet.instance(), fleet.instance()
    other.turn(slot())

    def slowly(method: str, path: str) -> None:
        one.network.before = lambda method, path: None
        fleet.world.until(61)

    fleet.world.until(59)
    one.network.before = slowly
    assert refusal_of(one.turn(slot())).reason == "slot_done"
    assert one.said("run.missed") == []


def test_the_reply_to_a_claim_may_come_after_the_grace(fleet: Fleet) -> None:
    """A tick that is claimed in the last milliseconds of its grace runs: its lock is not left to nobody."""
    one = fleet.instance()

    def reply_late() -> None:
        if one.network.allowed[-1] < 0.5:
            raise Unavailable("no reply within the deadline")
        fleet.world.until(60.5)

    one.network.next("swap", after=reply_late)
    fleet.world.until(59.99)
    (result,) = one.turn(slot())
    assert result.outcome == "succeeded"
    assert fleet.world.node()["releasedAt"] == START + 60_500
    assert one.said("run.missed") == []


def test_a_tick_whose_lateness_is_learned_last_does_not_run(fleet: Fleet) -> None:
    """An instance that doesn't know RTDB's time asks for it together with the lock: a tick that is late by then is
    missed.
    """
    one = fleet.instance()
    one.timing.step_wall(3_600)
    fleet.world.advance(61)
    assert one.turn(slot()) == []
    assert (fleet.runs, fleet.world.node()) == ([], {})
    assert [event.fields["slot"] for event in one.said("run.missed")] == [slot()]


def test_a_look_while_the_time_is_not_known_is_made_again(fleet: Fleet) -> None:
    """A look for a dead run that finds neither the database nor RTDB's time is made again once both are there."""
    fleet = Fleet("0 0 * * *", on_abandoned="rerun")
    one = fleet.instance()
    midnight = slot(-9 * 3_600)
    fleet.world.put({"slot": midnight, "unfinished": midnight, "holder": "dead", "expiresAt": START})
    one.start()
    one.timing.step_wall(3_600)
    one.network.is_down = True
    one.runner.go_on(one.runner.turn(one.job(), WantedClaim(None, insists=True)))
    fleet.world.until(20)
    up(one)
    fleet.world.until(60)
    assert fleet.slots() == [midnight]


def test_what_was_asked_for_by_hand_is_not_looked_for_again(fleet: Fleet) -> None:
    """Who asks for a tick while the database is down is told; nothing is tried behind the caller's back."""
    fleet = Fleet("0 0 * * *")
    one = fleet.instance()
    one.start()
    one.network.is_down = True
    result = one.crons.registry.trigger(NAME, slot=one.crons.registry.next_slots(NAME)[0], source="http")
    assert result.refusal is not None
    assert result.refusal.reason == "unavailable"
    up(one)
    one.network.requests()
    fleet.world.until(20)
    assert one.network.requests("cron-locks/") == []


def test_the_pauses_grow_while_the_database_is_down(fleet: Fleet) -> None:
    """A tick is tried again after 0.1, 0.2 and 0.4 seconds, and so on to two; by chance, after half of it."""
    fleet = Fleet(grace=3_600)
    one = fleet.instance()
    one.network.is_down = True
    claimer = one.crons.engine.claimer
    pending = claimer.prepare(one.job(), WantedClaim(slot(), "schedule"))
    for chance in (1.0, 0.0):
        one.chance.value = chance
        pending.tries = 0
        pauses = [claimer.claim(pending) for _ in range(6)]
        assert pauses == [(1 + chance) / 2 * pause for pause in (0.1, 0.2, 0.4, 0.8, 1.6, 2)]


def test_a_lock_for_years_costs_only_ticks_of_its_own_time(fleet: Fleet) -> None:
    """A tick from before the start is not called missed where a lock never ends; those of after it are."""
    one = fleet.instance()
    fleet.world.put({"holder": "another", "slot": slot(-60), "acquiredAt": START - 60_000, "expiresAt": START + 10**12})
    fleet.world.until(30)
    one.network.requests()
    one.start()
    fleet.world.until(50)
    assert one.network.requests("cron-locks/")
    assert one.said("run.missed") == []
    fleet.world.until(61)
    assert [event.fields["slot"] for event in one.said("run.missed")] == [slot(60)]


def test_a_refusal_is_noted_though_the_time_is_lost(fleet: Fleet) -> None:
    """A loser whose wall clock was set in the middle of its request is told who holds the lock all the same."""
    fleet = Fleet(on_abandoned="rerun")
    one, other = fleet.instance(), fleet.instance()
    other.hold(slot())
    one.network.before = lambda method, path: one.timing.step_wall(3_600)
    assert refusal_of(one.turn(slot())).reason == "slot_done"


def test_the_time_and_the_answer_come_with_one_try(fleet: Fleet) -> None:
    """Who learns RTDB's time with a refusal, and is in time, tries again after a pause, and not at once."""
    asked: list[int] = []
    for is_known in (True, False):
        fleet = Fleet(overlap="queue")
        one, other = fleet.instance(), fleet.instance()
        other.hold(slot(-60))
        if not is_known:
            one.timing.step_wall(3_600)
        assert one.runner.go_on(one.runner.turn(one.job(), WantedClaim(slot(), "schedule")))
        asked.append(len(one.network.requests("cron-locks/")))
    assert asked[0] == asked[1]


@pytest.mark.parametrize(("chance", "pause"), [(0.0, 2_000), (1.0, 5_000)])
def test_instances_look_again_at_different_times(fleet: Fleet, chance: float, pause: int) -> None:
    """After a failure a dead run is looked for again two to five seconds later, by chance."""
    one = fleet.instance()
    looks: list[int] = []
    one.chance.value = chance
    one.crons.engine.look_again = lambda job, instant: looks.append(instant)  # type: ignore[method-assign]  # noted, not made
    one.network.before = busy
    one.runner.go_on(one.runner.turn(one.job(), WantedClaim(None, insists=True)))
    moment = one.locks.clock.peek()
    assert moment is not None
    assert looks == [moment.server + pause]


def test_a_lock_by_name_has_no_schedule_to_compare(fleet: Fleet) -> None:
    """A job without once_per_tick says nothing of slots that another revision claimed."""
    fleet = Fleet("0 * * * *", once_per_tick=False)
    one = fleet.instance()
    fleet.world.put({"slot": slot(-90), "holder": "another", "acquiredAt": START - 1_000, "expiresAt": START + 30_000})
    assert refusal_of(one.turn(slot())).reason == "held"
    assert one.said("job.schedule_differs") == []
