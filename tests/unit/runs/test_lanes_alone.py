"""Lanes by themselves, without claims or runs: how the commands of a lane are carried out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.simulation.world import slot
from tests.unit.locks import lock_of, replace_lock
from tests.unit.test_races import Watched, code_of, race

from firecron import distributed_cron
from firecron.base.events import Event
from firecron.base.flag import begin_child
from firecron.base.instants import to_milliseconds
from firecron.base.tickets import TickWave
from firecron.jobs.job import Job, explore
from firecron.jobs.registry import Result
from firecron.lock.blocks import Tries
from firecron.lock.database import Database
from firecron.lock.refusal import Refusal
from firecron.runs.lane import Attempt, Lane, LaneCommand, OpenTick, PendingClaim
from firecron.runs.lanes import Lanes
from firecron.settings import load
from firecron.testing import FakeTiming, MemoryStore

QUEUE: dict[str, object] = {"overlap": "queue"}
CANCEL: dict[str, object] = {"overlap": "cancel_previous"}


class Follow(Tries):
    """What is heard of a lock, as a test says."""

    hears = True

    def __init__(self) -> None:
        self.left = 0.0
        self.is_closed = False

    def seconds(self) -> float:
        return self.left

    def close(self) -> None:
        self.is_closed = True


class Bench:
    """The lanes of one job with these options, their crew, agenda and worker: `calls` are what the crew was given,
    `planned` what the agenda was. `worked` is what the worker did, and `answers` what it returns.
    """

    is_full = False

    def __init__(self, **options: object) -> None:
        @distributed_cron("job", "* * * * *", **options)  # type: ignore[arg-type]  # they are known below
        def work() -> None: ...

        self.job: Job = explore(work)[0]
        self.calls: list[Callable[[], object]] = []
        self.planned: list[tuple[float, Callable[[], None]]] = []
        self.worked: list[tuple[str, object]] = []
        self.answers: list[float | None] = []
        self.told: list[Event] = []
        self.timing = FakeTiming()
        database = Database(
            settings=load(max_concurrent=2), store=MemoryStore(lambda: 0), timing=self.timing, has_threads=False
        )
        database.events.subscribe(self.told.append)
        self.lanes = Lanes(database, self)
        self.lanes.agenda = self.lanes.worker = self
        self.lanes.attempted = lambda attempt: self.worked.append(("attempted", attempt))
        self.lanes.attempted_entry = lambda attempt: self.worked.append(("attempted entry", attempt))

    def submit(self, work: Callable[[], object]) -> None:
        self.calls.append(work)

    def dismiss(self) -> None: ...

    def at(self, instant: int, call: Callable[[], None]) -> None:
        self.planned.append((instant, call))

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        self.planned.append((round(seconds, 3), call))

    def go_on(self, attempt: Attempt) -> float | None:
        self.worked.append(("go on", attempt))
        return self.answers.pop(0) if self.answers else None

    def cancel_previous(self, attempt: Attempt) -> float | None:
        self.worked.append(("cancel", attempt))
        return self.answers.pop(0) if self.answers else None

    def drop(self, pending: PendingClaim) -> None:
        self.worked.append(("drop", pending))

    def turn(self, seconds: float | None) -> Attempt:
        return self.lanes.attempt(self.job, None if seconds is None else slot(seconds))

    def came(self, seconds: float | None) -> Attempt:
        """An attempt that stands in its lane."""
        turn = self.turn(seconds)
        self.lanes.stand(turn)
        return turn

    def running(self, seconds: float = 0) -> Attempt:
        """An attempt that has come, tried and claimed: it runs."""
        turn = self.came(seconds)
        assert self.lanes.enter(turn)
        self.lanes.play(Lane.begin, turn)
        self.calls.clear()
        return turn

    def waiting(self, seconds: float = 0) -> tuple[Attempt, PendingClaim]:
        """An attempt that has tried, and waits with its claim."""
        turn = self.came(seconds)
        assert self.lanes.enter(turn)
        pending = PendingClaim(turn)
        self.lanes.play(Lane.wait, turn, pending)
        self.calls.clear()
        return turn, pending

    def by_hand(self) -> Attempt:
        """A run by hand that has no place yet."""
        return self.lanes.attempt(self.job, None, "manual", is_patient=False)

    def mono(self) -> float:
        return self.timing.mono()

    def work(self) -> None:
        """What the crew was given is done."""
        calls, self.calls = self.calls, []
        for call in calls:
            call()

    def skipped(self) -> list[object]:
        """The ticks that were told to be skipped."""
        return [event.fields["slot"] for event in self.told]


def test_a_worker_enters_once() -> None:
    """The worker that comes for a called attempt tries, and no other one beside it."""
    bench = Bench()
    turn = bench.came(0)
    assert bench.lanes.enter(turn)
    assert not bench.lanes.enter(turn)
    bench.lanes.play(Lane.leave, turn)
    assert not bench.lanes.enter(turn)


def test_a_worker_that_finds_its_place_taken_does_not_try() -> None:
    """Not even if its attempt is told of as it goes back to the line."""
    bench = Bench()
    older, turn = bench.turn(0), bench.came(60)
    assert bench.lanes.reserve(bench.by_hand())
    bench.lanes.stand(older)
    assert not bench.lanes.enter(turn)
    assert bench.skipped() == [slot(0)]


def test_the_newest_tick_that_was_seen_is_known_by_its_name() -> None:
    """Once a worker has been at an attempt, what its runs and refusals show is known of the job; before it nothing."""
    bench = Bench()
    assert bench.lanes.claimed("job") is None
    bench.came(0).results.append(Result(None, None, Refusal("job", "slot_done", "done", slot=slot(60))))
    assert bench.lanes.claimed("job") is None
    bench.work()
    assert bench.lanes.claimed("job") == to_milliseconds(slot(60))


def test_a_lane_goes_by_the_job_that_has_the_name_now() -> None:
    """A job that was removed and added again with other options has its own places."""
    bench = Bench()
    lane = bench.lanes.lane(bench.job)
    assert lane.free == 1
    assert bench.lanes.lane(Bench(overlap="allow").job) is lane
    assert lane.free == 2


@pytest.mark.parametrize(
    ("options", "had_others", "flags"),
    [
        ({}, False, (True, False)),
        ({}, True, (True, True)),
        (QUEUE, True, (False, True)),
        ({"once_per_tick": False},) * 3,
    ],
)
def test_a_tick_from_before_the_instance_is_asked_for_late(
    options: dict[str, object], had_others: bool, flags: tuple[bool, bool]
) -> None:
    """It is for the others to report; with once_per_tick=False nothing shows whether it has run, and it is left out."""
    bench = Bench(**options)
    bench.lanes.look_back(bench.job, slot(0), had_others=had_others)
    turn = bench.lanes.lane(bench.job).current
    assert (turn is not None) == ("once_per_tick" not in options)
    if turn is not None:
        assert (turn.is_later, turn.had_others) == flags
        bench.came(60)
        assert bench.lanes.lane(bench.job).current is not turn
        assert bench.skipped() == []


def test_of_ticks_that_wait_for_a_worker_the_newest_tries() -> None:
    """Each tick displaces the one before it, and goes on with the first worker that comes."""
    bench = Bench()
    turns = [bench.came(seconds) for seconds in (0, 60, 120)]
    assert bench.skipped() == [slot(0), slot(60)]
    assert all("a newer tick came" in event.message for event in bench.told)
    bench.work()
    assert bench.worked == 3 * [("go on", turns[-1]), ("attempted", turns[-1])]


def test_what_waits_is_called_when_its_time_has_come() -> None:
    """The delay that the worker returns is planned; then a worker is called, and the attempt may enter."""
    bench = Bench()
    turn = bench.came(0)
    bench.answers = [2.5]
    bench.lanes.enter(turn)
    bench.lanes.play(Lane.wait, turn, PendingClaim(turn))
    bench.work()
    ((seconds, call),) = bench.planned
    assert (seconds, bench.calls, bench.lanes.enter(turn)) == (2.5, [], False)
    call()
    assert len(bench.calls) == 1
    call()  # it is called already
    assert len(bench.calls) == 1
    assert bench.lanes.enter(turn)


def test_an_attempt_that_is_over_is_not_planned() -> None:
    """If a newer one has taken its place while it was trying, its delay is of no use."""
    bench = Bench()
    turn = bench.came(0)
    assert bench.lanes.enter(turn)
    bench.came(60)
    bench.lanes.play(Lane.wait, turn, PendingClaim(turn))
    bench.answers = [2.5, None]
    bench.lanes.play(Lane.leave, turn.lane.current or turn)
    bench.work()
    assert bench.planned == []


@pytest.mark.parametrize("stops", [False, True])
def test_an_attempt_that_tries_at_a_stop_is_over_with_its_try(stops: bool) -> None:
    """Nothing is planned for it, nothing is told of it, and what it has followed is closed."""
    bench = Bench()
    turn = bench.came(0)
    assert bench.lanes.enter(turn)
    pending = PendingClaim(turn)
    follow = pending.follow = Follow()
    if stops:
        bench.lanes.stopping.set()
    bench.lanes.clear()
    bench.lanes.play(Lane.wait, turn, pending)
    bench.answers = [2.5]
    bench.work()
    assert (len(bench.planned), follow.is_closed, turn.lane.current) == (not stops, stops, None if stops else turn)
    assert (bench.calls, bench.told) == ([], [])


def test_a_stop_closes_what_was_followed() -> None:
    """A claim that waits is dropped without a word."""
    bench = Bench()
    turn, pending = bench.waiting()
    follow = pending.follow = Follow()
    bench.lanes.stopping.set()
    bench.lanes.clear()
    assert (follow.is_closed, turn.lane.pending, bench.calls, bench.told) == (True, None, [], [])


def test_what_comes_after_a_stop_is_left_out() -> None:
    """Neither a tick nor a look stands in its lane, until the next start."""
    bench = Bench()
    bench.lanes.stopping.set()
    bench.lanes.due(bench.job, slot())
    for seconds in (0, None):
        bench.came(seconds)
        assert bench.lanes.lane(bench.job).current is None
    bench.lanes.open()
    assert bench.lanes.enter(bench.came(60))


def test_a_claim_that_nobody_goes_on_with_is_given_up() -> None:
    """If a run by hand takes the place between two tries, and the tick is skipped, a worker drops its claim."""
    bench = Bench()
    turn, pending = bench.waiting()
    place = bench.by_hand()
    assert bench.lanes.reserve(place)
    bench.lanes.play(Lane.recall, turn, turn.plan)
    assert not bench.lanes.enter(turn)
    bench.lanes.play(Lane.occupy, place)
    bench.calls = bench.calls[-1:]
    bench.work()
    assert bench.worked == [("drop", pending)]
    assert bench.skipped() == [slot()]


def test_a_tick_asks_the_run_before_it_to_end() -> None:
    """A worker cancels the run, and again after the pause that it returns, as long as the tick stands in line."""
    bench = Bench(**CANCEL)
    run = bench.running()
    turn = bench.came(60)
    bench.answers = [1.0, 2.0]
    bench.work()
    bench.planned[-1][1]()
    bench.work()
    assert ([seconds for seconds, _ in bench.planned], bench.worked) == ([1.0, 2.0], 2 * [("cancel", turn)])
    bench.lanes.play(Lane.end, run, goes_on=False, holds=False)
    bench.calls.clear()
    bench.planned[-1][1]()
    bench.work()
    assert len(bench.worked) == 2
    assert len(bench.planned) == 2


@pytest.mark.parametrize("options", [{}, QUEUE])
def test_a_place_is_left_twice_after_an_interruption(options: dict[str, object]) -> None:
    """The second call has whoever is called then called once more: the first one may have been interrupted."""
    bench = Bench(**options)
    place = bench.by_hand()
    assert bench.lanes.reserve(place)
    turn = bench.came(0)
    for _ in range(2):
        bench.lanes.vacate(place)
        assert len(bench.calls) == 1
    bench.lanes.vacate(place, again=True)
    assert len(bench.calls) == 2
    assert bench.lanes.enter(turn)
    bench.lanes.vacate(place, again=True)
    bench.lanes.play(Lane.leave, turn)
    bench.lanes.vacate(place, again=True)
    assert len(bench.calls) == 2


def test_a_forked_child_has_lanes_of_its_own() -> None:
    """In a child the attempts of the parent have no events, its runs take no place, and its lock is nobody's to wait
    for.
    """
    bench = Bench()
    run = bench.running()
    other = Bench()
    waiting, _ = other.waiting()
    late = other.turn(60)
    for one in (bench, other):
        assert lock_of(one.lanes).acquire(timeout=1)
        begin_child()
    other.lanes.stand(late)
    assert not other.lanes.enter(late)
    other.calls.clear()
    other.lanes.play(Lane.recall, waiting, waiting.plan)
    bench.lanes.play(Lane.end, run, goes_on=True, holds=False)
    assert (other.calls, run.lane.current, other.lanes.enter(waiting)) == ([], None, False)
    assert bench.lanes.enter(bench.came(60))


def test_a_lock_is_looked_at_once_when_it_expires() -> None:
    """One look is planned at a time; one of before a stop changes nothing."""
    bench = Bench()
    for _ in range(2):
        bench.lanes.look_again(bench.job, 5)
    assert [instant for instant, _ in bench.planned] == [5]
    bench.lanes.clear()
    bench.lanes.look_again(bench.job, 9)
    (_, void), (_, look) = bench.planned
    void()
    assert bench.lanes.lane(bench.job).current is None
    look()
    bench.lanes.look_again(bench.job, 12)
    assert ([instant for instant, _ in bench.planned], len(bench.calls)) == ([5, 9, 12], 1)
    turn = bench.lanes.lane(bench.job).current
    assert turn is not None
    assert turn.insists


@pytest.mark.parametrize("wishes", [{}, {"insists": False}, {"insists": True}])
def test_a_look_may_insist(wishes: dict[str, bool]) -> None:
    """Only one for a lock that was seen to expire tries again soon."""
    bench = Bench()
    bench.lanes.look(bench.job, **wishes)
    turn = bench.lanes.lane(bench.job).current
    assert turn is not None
    assert (turn.due, turn.insists) == (None, wishes.get("insists", False))


def test_of_two_plans_for_one_time_the_last_one_counts() -> None:
    """A try that is planned for the end of the grace, for sooner, and for the end again, is made once. A plan that
    differs by a millisecond is the same.
    """
    bench = Bench(**QUEUE)
    turn, pending = bench.waiting()
    follow = Follow()
    pending.ends, pending.refusal, pending.follow = 20_000.0, Refusal("job", "held", "held"), follow
    for follow.left in (99.0, 0.005, 0.006, 99.0):
        bench.lanes.replan(turn.lane)
    assert [seconds for seconds, _ in bench.planned] == [20.0, 0.005, 20.0]
    for (_, call), calls in zip(bench.planned, (0, 0, 1), strict=True):
        call()
        assert len(bench.calls) == calls


def test_only_what_waits_for_a_lock_is_planned_anew() -> None:
    """What tries, and what waits for the database, goes by its own plan."""
    bench = Bench(**QUEUE)
    turn, pending = bench.waiting()
    follow = pending.follow = Follow()
    follow.left = 5.0
    bench.lanes.replan(turn.lane)
    pending.refusal = Refusal("job", "unavailable", "no reply")
    bench.lanes.replan(turn.lane)
    pending.refusal = Refusal("job", "held", "held")
    bench.lanes.play(Lane.recall, turn, turn.plan)
    bench.lanes.replan(turn.lane)
    assert bench.planned == []


def test_what_waits_without_a_claim_goes_by_its_own_plan() -> None:
    """An attempt whose own tick was missed tries again at once, and has nothing pending."""
    bench = Bench()
    turn = bench.came(0)
    assert bench.lanes.enter(turn)
    bench.lanes.play(Lane.wait, turn, None)
    bench.answers = [0.0]
    bench.work()
    assert [seconds for seconds, _ in bench.planned] == [0.0]


def test_a_grace_that_is_over_is_planned_for_at_once() -> None:
    """What is heard after its end plans no call for a time that has passed."""
    bench = Bench(**QUEUE)
    turn, pending = bench.waiting()
    follow = pending.follow = Follow()
    follow.left, pending.refusal, turn.tries_at = 5.0, Refusal("job", "held", "held"), 9_000.0
    pending.ends = bench.mono() - 50.0
    bench.lanes.replan(turn.lane)
    assert [seconds for seconds, _ in bench.planned] == [0.0]


def test_what_was_heard_during_a_try_is_not_lost() -> None:
    """The delay that the worker returns was computed before: the plan is made anew as the attempt begins to wait."""
    bench = Bench(**QUEUE)
    turn = bench.came(0)
    assert bench.lanes.enter(turn)
    pending = PendingClaim(turn)
    follow = pending.follow = Follow()
    follow.left, pending.refusal = 0.5, Refusal("job", "held", "held")
    bench.lanes.play(Lane.wait, turn, pending)
    bench.answers = [2.5]
    bench.work()
    assert [seconds for seconds, _ in bench.planned] == [2.5, 0.5]


def test_a_claim_without_an_answer_is_for_one_call_for_the_same_tick() -> None:
    """It goes on with the first call for that tick. A call for another one finds none, and neither do later ones."""
    bench = Bench()
    first, same, other = (bench.lanes.attempt(bench.job, slot(tick), "http") for tick in (0, 0, 60))
    assert bench.lanes.take_unanswered(first) is None
    pending = PendingClaim(first)
    for call, found in ((same, pending), (other, None)):
        bench.lanes.leave_unanswered(first, pending)
        assert bench.lanes.take_unanswered(call) is found
        assert bench.lanes.take_unanswered(same) is None
    assert pending.attempt is same


def test_what_was_left_behind_calls_nobody() -> None:
    """A run and a try that go on after a stop have no worker for what they leave to do."""
    bench = Bench(overlap="allow")
    run, trying = bench.running(0), bench.came(60)
    assert bench.lanes.enter(trying)
    bench.calls.clear()
    bench.lanes.stopping.set()
    bench.lanes.clear()
    bench.lanes.play(Lane.end, run, goes_on=True, holds=False)
    assert bench.lanes.play(Lane.leave, trying) == [LaneCommand("call", run)]
    assert bench.calls == []


# --- lanes in which nothing is left


def entry_bench() -> Bench:
    """A bench whose job is that of an entry."""
    bench = Bench()
    bench.job = bench.job.named("job:42")
    return bench


def leave_open(bench: Bench) -> None:
    turn = bench.turn(0)
    turn.lane.open = OpenTick(turn, TickWave(0.0, 0.0, 1.0))


def leave_unanswered(bench: Bench) -> None:
    turn = bench.turn(0)
    bench.lanes.leave_unanswered(turn, PendingClaim(turn))


@pytest.mark.parametrize(
    "begin",
    [
        lambda bench: bench.came(0),
        lambda bench: bench.running(),
        lambda bench: bench.lanes.reserve(bench.by_hand()),
        leave_open,
        leave_unanswered,
    ],
)
def test_a_job_is_busy_while_an_attempt_waits_or_runs(begin: Callable[[Bench], object]) -> None:
    """So it is with a tick that is left to others, a place of a run by hand, and a claim that got no answer."""
    bench = Bench()
    found = [bench.lanes.is_busy("job")]
    bench.lanes.lane(bench.job)
    found.append(bench.lanes.is_busy("job"))
    begin(bench)
    assert [*found, bench.lanes.is_busy("job")] == [False, False, True]


@pytest.mark.parametrize("has_entry", [False, True])
def test_the_lane_of_an_entry_lasts_as_long_as_its_attempts(has_entry: bool) -> None:
    """It is dropped after a run by hand, and after a worker was at an attempt. That of a job stays."""
    bench = entry_bench() if has_entry else Bench()
    place = bench.by_hand()
    assert bench.lanes.reserve(place)
    bench.lanes.vacate(place)
    turn = bench.came(0)
    assert (turn.lane is not place.lane) is has_entry
    assert bench.lanes.enter(turn)
    bench.lanes.play(Lane.leave, turn)
    bench.work()
    assert (bench.lanes.lane(bench.job) is not turn.lane) is has_entry
    assert bench.worked == [("go on", turn), ("attempted entry" if has_entry else "attempted", turn)]


def test_the_lane_of_an_entry_is_left_twice_after_an_interruption() -> None:
    """The second call leaves alone what has begun since, and finds nothing to do if nothing has."""
    bench = entry_bench()
    place = bench.by_hand()
    assert bench.lanes.reserve(place)
    bench.lanes.vacate(place)
    bench.lanes.vacate(place, again=True)
    turn = bench.came(0)
    bench.lanes.vacate(place, again=True)
    assert bench.lanes.enter(turn)


def test_attempts_at_an_entry_whose_lane_was_dropped_meet_in_the_new_one() -> None:
    """A tick tries, and a run by hand has a place that no other one has, although the lane they were made for is
    gone.
    """
    bench = entry_bench()
    first, tick, place = bench.by_hand(), bench.turn(0), bench.by_hand()
    assert bench.lanes.reserve(first)
    bench.lanes.vacate(first)
    bench.lanes.stand(tick)
    assert bench.lanes.enter(tick)
    bench.lanes.play(Lane.leave, tick)
    bench.work()
    other = bench.by_hand()
    assert [bench.lanes.reserve(one) for one in (place, other)] == [True, False]


def test_a_tick_that_comes_while_the_lane_of_its_entry_is_dropped_has_one() -> None:
    """It stands in the lane before, which then stays, or in a new one."""

    def make(lock: Watched) -> tuple[Bench, Attempt, Attempt]:
        bench = entry_bench()
        place = bench.by_hand()
        assert bench.lanes.reserve(place)
        replace_lock(bench.lanes, lock)
        return bench, place, bench.turn(0)

    def leave(made: tuple[Bench, Attempt, Attempt]) -> None:
        made[0].lanes.vacate(made[1])

    def come(made: tuple[Bench, Attempt, Attempt]) -> None:
        made[0].lanes.stand(made[2])

    def check(made: tuple[Bench, Attempt, Attempt]) -> None:
        assert made[0].lanes.enter(made[2])

    race(make, leave, come, code_of(Lanes, "_forget_idle"), check)
