"""From a tick that is due to a lock, or to the reason why not: its grace, and the answers that end it."""

from __future__ import annotations

import logging

import pytest
from tests.simulation.fleet import Fleet, refusal_of
from tests.simulation.network import failing
from tests.simulation.world import START, slot
from tests.unit.runs.outages import mend, up

from firecron import Unavailable


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


@pytest.mark.parametrize(
    ("asked", "tries"), [(1.0, [0, 1]), (20.0, [0, 20]), (60.0, [0, 30]), (86_400.0, [0, 30, 45, 52.5])]
)
def test_a_tick_comes_back_when_the_database_asks_for_it(fleet: Fleet, asked: float, tries: list[float]) -> None:
    """Within half of the grace that is left: it is tried again, whatever is asked for, and starts once that is over."""
    one = fleet.instance()
    at: list[float] = []

    def busy(method: str, path: str) -> None:
        if path.startswith("cron-locks"):
            at.append(fleet.world.mono() / 1000)
            if len(at) < len(tries):
                raise Unavailable("later", retry_after=asked)

    one.network.before = busy
    one.turn(slot())
    assert at[: len(tries)] == pytest.approx(tries, abs=0.5 if asked < 20 else 0.2)
    assert len(fleet.runs) == 1


def test_a_tick_comes_back_before_the_next_one_takes_its_place() -> None:
    """Its time ends with the next tick, however long its grace is: it is tried again within half of that."""
    fleet = Fleet("*/20 * * * * *", grace=90)
    one = fleet.instance()
    one.network.next("swap", before=failing(Unavailable("later", retry_after=30.0)))
    one.turn(slot())
    assert fleet.slots() == [slot()]
    assert fleet.world.mono() == pytest.approx(10_000, abs=200)


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
    [
        ("paused", {"paused": True}),
        ("paused", {"paused": "since Monday"}),
        ("malformed", {"holder": 3}),
        ("slot_done", {"expiresAt": 1, "slot": slot()}),
    ],
)
def test_what_waiting_does_not_change_is_the_answer(fleet: Fleet, reason: str, node: object) -> None:
    """Paused, malformed and done are answers: nothing is tried again, each is said once, and no tick is missed."""
    one = fleet.instance()
    fleet.world.put(node)
    assert refusal_of(one.turn(slot())).reason == reason
    assert fleet.world.mono() == 0
    assert [event.fields["reason"] for event in one.said("lock.refused")] == [reason]
    assert one.said("run.missed") == []


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


def test_the_grace_ends_where_it_was_to_end(fleet: Fleet) -> None:
    """A tick whose grace is known is given up at its end, also if RTDB's time is no longer known by then."""
    one = fleet.instance()
    one.network.is_down = True
    turn = one.attempt(slot())
    assert one.go_on(turn)
    one.timing.step_wall(3_600)
    assert one.locks.clock.peek() is None
    fleet.world.until(60.001)
    assert one.go_on(turn) is None
    assert [event.fields["slot"] for event in one.said("run.missed")] == [slot()]


@pytest.mark.parametrize("late", [1.0005, 1.5])  # half a millisecond is how far an instance may misjudge RTDB's time
def test_a_try_that_outlasts_the_grace_is_no_tick_of_others(late: float) -> None:
    """A request that was overtaken is answered as the grace ends, or later: nobody has claimed the tick, so it is
    missed.
    """
    fleet = Fleet("* * * * *", grace=5)
    one = fleet.instance()

    def overtake(method: str, path: str) -> None:
        one.network.before = lambda method, path: None
        fleet.world.edit(note="somebody's")
        fleet.world.advance(late)

    fleet.world.until(4)
    one.network.before = overtake
    assert one.turn(slot()) == []
    assert [event.fields["slot"] for event in one.said("run.missed")] == [slot()]
    assert (fleet.slots(), one.said("lock.refused")) == ([], [])


@pytest.mark.parametrize("knows_time", [True, False])
def test_an_answer_that_comes_late_is_an_answer(fleet: Fleet, knows_time: bool) -> None:
    """Who learns after the end of the grace that another has claimed the tick doesn't call it missed."""
    one, other = fleet.instance(), fleet.instance()
    other.turn(slot())
    if not knows_time:
        one.timing.step_wall(3_600)

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


@pytest.mark.parametrize("knows_time", [True, False])
def test_a_tick_whose_only_try_is_not_answered_within_the_grace_is_missed(fleet: Fleet, knows_time: bool) -> None:
    """That is the reason that is told. If the try itself has learned RTDB's time, nothing waits for another one."""
    one = fleet.instance()
    if not knows_time:
        one.timing.step_wall(3_600)

    def answer_nothing(method: str, path: str) -> None:
        if path.startswith("cron-locks"):
            fleet.world.until(61)
            raise Unavailable("no reply")

    fleet.world.until(59)
    one.network.before = answer_nothing
    assert one.turn(slot()) == []
    assert one.slugs("lock", "run") == ["run.delayed"] * knows_time + ["lock.unavailable", "run.missed"]


def test_half_of_the_grace_is_left_while_the_time_is_not_known(fleet: Fleet) -> None:
    """However long the database asks a tick to wait: it is tried again in the middle of a grace that has just begun."""
    one = fleet.instance()
    one.timing.step_wall(3_600)
    one.network.next("timestamp", before=failing(Unavailable("later", retry_after=3_600.0)), times=10)
    assert one.claim(slot()) == 30


def test_the_pauses_grow_while_the_database_is_down(fleet: Fleet) -> None:
    """A tick is tried again after 0.1, 0.2 and 0.4 seconds, and so on to two; by chance, after half of it."""
    fleet = Fleet(grace=3_600)
    one = fleet.instance()
    one.network.is_down = True
    claimer = one.crons.engine.claimer
    pending = claimer.prepare(one.attempt(slot()))
    for chance in (1.0, 0.0):
        one.chance.value = chance
        pending.tries = 0
        pauses = [claimer.claim(pending) for _ in range(6)]
        assert pauses == [(1 + chance) / 2 * pause for pause in (0.1, 0.2, 0.4, 0.8, 1.6, 2)]


def test_a_tick_is_left_to_the_winner_of_the_last_one_for_some_milliseconds(fleet: Fleet) -> None:
    """Who has seen another instance run the last tick asks 5 ms later, once, and reads. The winner writes at once."""
    one, other = fleet.instance(), fleet.instance()
    fleet.body = lambda run: other.turn(slot())
    one.turn(slot())
    assert other.timing.pauses == []  # it had seen nobody
    fleet.body = lambda run: None
    fleet.world.until(60)
    for instance in (one, other):
        instance.network.requests()
    fleet.world.at(60.002, lambda: one.turn(slot(60)))
    assert refusal_of(other.turn(slot(60))).reason == "slot_done"
    assert (one.timing.pauses, other.timing.pauses) == ([], [0.005])
    assert [instance.network.requests("cron-locks/") for instance in (one, other)] == [["swap", "swap"], ["read"]]


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


def test_a_lock_by_name_is_acquired_from_a_record_that_names_ticks() -> None:
    """A job that has claimed ticks before it was declared without once_per_tick runs, and leaves them as they were."""
    fleet = Fleet(once_per_tick=False)
    ticks = {"slot": slot(-60), "unfinished": slot(-60)}
    fleet.world.put({**ticks, "holder": "another", "acquiredAt": START - 60_000, "expiresAt": START - 30_000})
    (result,) = fleet.instance().turn(slot())
    assert result.outcome == "succeeded"
    assert {name: fleet.world.node()[name] for name in ticks} == ticks


def test_an_unfinished_tick_older_than_the_last_claim_is_run_again() -> None:
    """Whoever has left both in the node: the claim is of the tick that is unfinished, and the newest one stays."""
    fleet = Fleet(on_abandoned="rerun")
    record = {"holder": "another", "acquiredAt": START - 60_000, "expiresAt": START - 30_000, "fence": START - 60_000}
    fleet.world.put({**record, "slot": slot(-60), "unfinished": slot(-120)})
    seen: list[object] = []
    fleet.body = lambda run: seen.append((run.trigger, fleet.world.node()["slot"]))
    fleet.instance().turn(slot())
    assert fleet.slots() == [slot(-120), slot()]
    assert seen == [("rerun", slot(-60)), ("schedule", slot())]


def test_a_lock_by_name_has_no_schedule_to_compare(fleet: Fleet) -> None:
    """A job without once_per_tick says nothing of slots that another revision claimed."""
    fleet = Fleet("0 * * * *", once_per_tick=False)
    one = fleet.instance()
    fleet.world.put({"slot": slot(-90), "holder": "another", "acquiredAt": START - 1_000, "expiresAt": START + 30_000})
    assert refusal_of(one.turn(slot())).reason == "held"
    assert one.said("job.schedule_differs") == []
