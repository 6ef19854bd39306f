"""Lanes by themselves, without claims or runs: how the commands of a lane are carried out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.simulation.world import slot
from tests.unit.locks import lock_of

from firecron import distributed_cron
from firecron.base.events import Event
from firecron.base.flag import begin_child
from firecron.jobs.job import Job, explore
from firecron.lock.blocks import Tries
from firecron.lock.database import Database
from firecron.lock.refusal import Refusal
from firecron.runs.lane import Attempt, Lane, PendingClaim
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
        database = Database(
            settings=load(max_concurrent=2), store=MemoryStore(lambda: 0), timing=FakeTiming(), has_threads=False
        )
        database.events.subscribe(self.told.append)
        self.lanes = Lanes(database, self)
        self.lanes.agenda = self.lanes.worker = self
        self.lanes.attempted = lambda attempt: self.worked.append(("attempted", attempt))

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
    place = bench.lanes.attempt(bench.job, None, "manual", is_patient=False)
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
    place = bench.lanes.attempt(bench.job, None, "manual", is_patient=False)
    assert bench.lanes.reserve(place)
    turn = bench.came(0)
    for again, calls in ((False, 1), (False, 1), (True, 2)):
        bench.lanes.vacate(place, again=again)
        assert len(bench.calls) == calls
    assert bench.lanes.enter(turn)
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
    for one in (bench, other):
        assert lock_of(one.lanes).acquire(timeout=1)
        begin_child()
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
    for _, look in bench.planned:
        look()
    bench.lanes.look_again(bench.job, 12)
    assert ([instant for instant, _ in bench.planned], len(bench.calls)) == ([5, 9, 12], 1)


def test_of_two_plans_for_one_time_the_last_one_counts() -> None:
    """A try that is planned for the end of the grace, for sooner, and for the end again, is made once."""
    bench = Bench(**QUEUE)
    turn, pending = bench.waiting()
    follow = Follow()
    pending.ends, pending.refusal, pending.follow = 20_000.0, Refusal("job", "held", "held"), follow
    for follow.left in (99.0, 0.005, 0.0055, 99.0):
        bench.lanes.replan(turn.lane)
    assert [seconds for seconds, _ in bench.planned] == [20.0, 0.005, 20.0]
    for _, call in bench.planned:
        call()
    assert len(bench.calls) == 1


def test_only_what_waits_for_a_lock_is_planned_anew() -> None:
    """What tries, and what waits for the database, goes by its own plan."""
    bench = Bench(**QUEUE)
    turn, pending = bench.waiting()
    pending.follow = Follow()
    bench.lanes.replan(turn.lane)
    pending.refusal = Refusal("job", "unavailable", "no reply")
    bench.lanes.replan(turn.lane)
    pending.refusal = Refusal("job", "held", "held")
    bench.lanes.play(Lane.recall, turn, turn.plan)
    bench.lanes.replan(turn.lane)
    assert bench.planned == []
