"""Lanes by themselves, without claims or runs: who is called when, who stands in line, and who is skipped."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.simulation.world import slot
from tests.unit.locks import lock_of

from firecron import distributed_cron
from firecron.base.events import Event
from firecron.base.flag import begin_child
from firecron.jobs.job import Job, explore
from firecron.lock.database import Database
from firecron.runs.lanes import Lanes
from firecron.runs.turn import PendingClaim, Place, Turn, WantedClaim
from firecron.settings import load
from firecron.testing import MemoryStore

QUEUE: dict[str, object] = {"overlap": "queue"}
KEEP_ALL: dict[str, object] = {"overlap": "queue", "grace": 600}


class Bench:
    """The lanes of one job with these options; `called` are the turns that were called and not entered yet."""

    def __init__(self, **options: object) -> None:
        @distributed_cron("job", "* * * * *", **options)  # type: ignore[arg-type]  # they are known below
        def work() -> None: ...

        self.job: Job = explore(work)[0]
        self.called: list[Turn] = []
        self.told: list[Event] = []
        database = Database(settings=load(max_concurrent=2), store=MemoryStore(lambda: 0), has_threads=False)
        database.events.subscribe(self.told.append)
        self.lanes = Lanes(database, self)

    def submit(self, turn: Turn) -> None:
        self.called.append(turn)

    def at(self, instant: int, call: Callable[[], None]) -> None:
        raise AssertionError("lanes know no time")

    def look_again(self, job: Job, instant: int) -> None:
        raise AssertionError("lanes know no time")

    def wake(self, job: Job) -> None:
        raise AssertionError("lanes know no time")

    def turn(self, seconds: float | None) -> Turn:
        wanted = WantedClaim(None if seconds is None else slot(seconds), "schedule")
        return Turn(self.job, wanted, self.lanes.lane(self.job), 0.0)

    def enter(self, *seconds: float | None) -> list[Turn]:
        """Turns that come, and may not try yet."""
        turns = [self.turn(one) for one in seconds]
        for turn in turns:
            assert not self.lanes.enter(turn)
        return turns

    def running(self, seconds: float | None = 0) -> Turn:
        """A turn that has come, tried and claimed: it runs."""
        turn = self.turn(seconds)
        assert self.lanes.enter(turn)
        self.lanes.begin(turn)
        return turn

    def next(self) -> Turn:
        """The one turn that was called; it tries now."""
        (turn,) = self.called
        self.called.clear()
        assert self.lanes.enter(turn)
        return turn

    def skipped(self) -> list[object]:
        """The ticks that were told to be skipped."""
        return [event.fields["slot"] for event in self.told]

    def pending(self, turn: Turn) -> PendingClaim:
        """A claim that the turn has tried."""
        turn.pending = PendingClaim(self.job, turn.wanted)
        return turn.pending


def test_all_that_queue_come_in_the_order_of_their_ticks() -> None:
    """Ticks with a grace of their own stand behind a run, in whatever order they came, and run one after another."""
    bench = Bench(**KEEP_ALL)
    run = bench.running()
    turns = bench.enter(120, 60, 180)
    assert bench.called == []
    for expected in sorted(turns, key=lambda turn: str(turn.wanted.due)):
        bench.lanes.end(run, goes_on=False)
        run = bench.next()
        assert run is expected
        bench.lanes.begin(run)
    bench.lanes.end(run, goes_on=False)
    assert (bench.called, bench.skipped()) == ([], [])


@pytest.mark.parametrize("came", [(60, 120), (120, 60)])
def test_only_the_newest_of_others_stays_in_line(came: tuple[float, float]) -> None:
    """Of the ticks that queue until the next one the newest stands behind a run; the other is skipped at once."""
    bench = Bench(**QUEUE)
    run = bench.running()
    bench.enter(*came)
    assert bench.skipped() == [slot(60)]
    bench.lanes.end(run, goes_on=False)
    assert bench.next().wanted.due == slot(120)


def test_what_does_not_queue_is_skipped_behind_a_run() -> None:
    """A tick that comes while the job runs here is skipped then, and not called afterwards."""
    bench = Bench()
    run = bench.running()
    bench.enter(60)
    assert bench.skipped() == [slot(60)]
    bench.lanes.end(run, goes_on=False)
    assert bench.called == []


@pytest.mark.parametrize(("options", "called"), [({}, 0), (QUEUE, 0), ({"overlap": "cancel_previous"}, 1)])
def test_a_tick_is_judged_as_it_comes(options: dict[str, object], called: int) -> None:
    """Behind a run a tick needs no worker to be skipped, or to stand in line. It needs one to cancel the run."""
    bench = Bench(**options)
    run = bench.running()
    bench.lanes.line_up(bench.turn(60))
    assert len(bench.called) == called
    assert bench.skipped() == [slot(60)] * (not options)
    bench.called.clear()
    bench.lanes.end(run, goes_on=False)
    assert len(bench.called) == bool(options)


def test_of_ticks_that_wait_for_a_worker_the_newest_tries() -> None:
    """Each tick displaces the one before it that has no worker yet, and goes on with its worker: all tries are one."""
    bench = Bench()
    turns = [bench.turn(seconds) for seconds in (0, 60, 120)]
    for turn in turns:
        assert bench.lanes.heir(turn) is turn
        bench.lanes.line_up(turn)
    assert (bench.called, bench.skipped()) == (turns, [slot(0), slot(60)])
    first, *others = turns
    newest = bench.lanes.heir(first)
    assert newest is turns[-1]
    assert bench.lanes.enter(newest)
    assert [bench.lanes.heir(turn) for turn in turns] == turns
    assert not any(bench.lanes.enter(turn) for turn in turns)
    bench.lanes.give_up(newest)
    assert not any(bench.lanes.enter(turn) for turn in others)


def test_a_turn_that_tries_is_left_alone() -> None:
    """While a turn tries, neither it nor a newer one may try as well; the newer one is called when it gives up."""
    bench = Bench()
    trying = bench.turn(0)
    assert bench.lanes.enter(trying)
    assert not bench.lanes.enter(trying)
    (newer,) = bench.enter(60)
    assert bench.called == []
    assert bench.lanes.is_open(trying)
    bench.lanes.give_up(trying)
    assert not bench.lanes.is_open(trying)
    assert bench.next() is newer


def test_a_turn_that_has_not_come_yet_is_open() -> None:
    """A turn may still try before it has entered, and no more once a newer one has taken its place."""
    bench = Bench()
    older, newer = bench.turn(0), bench.turn(60)
    assert bench.lanes.is_open(older)
    assert bench.lanes.enter(older)
    assert bench.lanes.wait(older)
    assert bench.lanes.enter(newer)
    assert not bench.lanes.is_open(older)
    assert bench.lanes.is_open(newer)


def test_a_run_that_goes_on_comes_before_the_line() -> None:
    """After a catch-up its turn is called again, and whoever stands in line after it."""
    bench = Bench(**KEEP_ALL)
    run = bench.running()
    (waiting,) = bench.enter(60)
    bench.lanes.end(run, goes_on=True)
    assert bench.lanes.enter(run)
    assert bench.called == []
    bench.lanes.give_up(run)
    assert bench.next() is waiting


@pytest.mark.parametrize(("options", "skipped"), [({}, [slot(60)]), (QUEUE, [])])
def test_a_turn_that_holds_its_lock_is_a_run_for_the_line(options: dict[str, object], skipped: list[str]) -> None:
    """A tick that comes during the minimum hold of a catch-up is skipped, or stands in line: it displaces nobody."""
    bench = Bench(**options)
    run = bench.running()
    bench.lanes.end(run, goes_on=True, holds=True)
    bench.lanes.line_up(bench.turn(60))
    assert (bench.called, bench.skipped()) == ([], skipped)
    assert all("the minimum hold of its last run is not over" in event.message for event in bench.told)
    assert bench.lanes.enter(run)
    bench.lanes.give_up(run)
    assert [turn.wanted.due for turn in bench.called] == [slot(60)] * (not skipped)


def test_a_turn_that_holds_its_lock_is_over_with_a_stop() -> None:
    """Nothing is left of it for the next start."""
    bench = Bench()
    run = bench.running()
    bench.lanes.end(run, goes_on=True, holds=True)
    bench.lanes.clear()
    assert not bench.lanes.is_open(run)
    assert not bench.lanes.enter(run)
    assert bench.lanes.enter(bench.turn(60))


@pytest.mark.parametrize(("seconds", "skipped"), [(0, []), (120, [slot(60)])])
def test_a_run_that_goes_on_beside_another_turn_stands_in_line(seconds: float, skipped: list[str]) -> None:
    """Where two may run, one that goes on while another turn tries is called after it; of two that wait the newer."""
    bench = Bench(overlap="allow")
    run = bench.running(seconds)
    trying = bench.turn(30)
    assert bench.lanes.enter(trying)
    if skipped:
        bench.enter(60)
    bench.lanes.end(run, goes_on=True)
    assert (bench.called, bench.skipped()) == ([], skipped)
    bench.lanes.give_up(trying)
    assert bench.next() is run


def test_a_look_comes_last_and_once() -> None:
    """Of several looks one is made, after the ticks in line, when a place is free; a run that begins has looked."""
    bench = Bench(**QUEUE)
    run = bench.running()
    bench.enter(None, None)
    (tick,) = bench.enter(60)
    bench.lanes.end(run, goes_on=False)
    assert bench.next() is tick
    bench.lanes.give_up(tick)
    look = bench.next()
    assert look.wanted.due is None
    bench.lanes.give_up(look)
    assert bench.called == []
    trying = bench.turn(120)
    assert bench.lanes.enter(trying)
    bench.enter(None)
    bench.lanes.begin(trying)
    bench.lanes.end(trying, goes_on=False)
    assert (bench.called, bench.skipped()) == ([], [])


def test_a_look_waits_for_a_place() -> None:
    """A look that comes while the job runs is made once it has ended."""
    bench = Bench()
    run = bench.running()
    (look,) = bench.enter(None)
    assert bench.called == []
    bench.lanes.end(run, goes_on=False)
    assert bench.next() is look


@pytest.mark.parametrize(("options", "skipped"), [({}, [slot()]), (QUEUE, [])])
def test_a_run_by_hand_takes_a_place(options: dict[str, object], skipped: list[str]) -> None:
    """A tick waits for a run by hand that has no lock yet; once that runs, it is skipped, or called when it is over."""
    bench = Bench(**options)
    place = Place(bench.lanes.lane(bench.job))
    assert bench.lanes.reserve(place)
    assert not bench.lanes.reserve(Place(place.lane))
    bench.enter(0)
    assert (bench.called, bench.skipped()) == ([], [])
    bench.lanes.occupy(place)
    assert (bench.called, bench.skipped()) == ([], skipped)
    bench.lanes.vacate(place)
    assert len(bench.called) == (not skipped)
    # It may have been interrupted before it told the agenda.
    bench.lanes.vacate(place)
    assert len(bench.called) == (not skipped)
    bench.lanes.vacate(place, again=True)
    assert len(bench.called) == 2 * (not skipped)
    if bench.called:
        assert bench.lanes.enter(bench.called[0])
        bench.lanes.vacate(place, again=True)
        assert len(bench.called) == 2


def test_a_run_by_hand_takes_one_place() -> None:
    """A place that is occupied is not reserved any more: of two places another is free."""
    bench = Bench(overlap="allow")
    first, second, third = (Place(bench.lanes.lane(bench.job)) for _ in range(3))
    assert bench.lanes.reserve(first)
    bench.lanes.occupy(first)
    assert bench.lanes.reserve(second)
    bench.lanes.occupy(second)
    assert not bench.lanes.reserve(third)
    bench.lanes.vacate(first)
    assert bench.lanes.reserve(third)


def test_a_turn_between_two_tries_makes_room_for_a_run_by_hand() -> None:
    """A turn that comes back and finds the place reserved stands in line; without that it tries on."""
    bench = Bench(**QUEUE)
    turn = bench.turn(0)
    assert bench.lanes.enter(turn)
    assert bench.lanes.wait(turn)
    assert bench.lanes.enter(turn)
    assert bench.lanes.wait(turn)
    place = Place(turn.lane)
    assert bench.lanes.reserve(place)
    assert not bench.lanes.enter(turn)
    bench.lanes.vacate(place)
    assert bench.next() is turn


def test_a_stop_drops_all_but_the_turn_that_tries() -> None:
    """After a clear nobody is called of those who waited or stood in line; a new turn finds the lane free."""
    bench = Bench(**QUEUE)
    run = bench.running()
    bench.enter(60, None)
    bench.lanes.clear()
    bench.lanes.end(run, goes_on=False)
    assert bench.called == []
    waiting = bench.turn(120)
    assert bench.lanes.enter(waiting)
    assert bench.lanes.wait(waiting)
    bench.lanes.clear()
    trying = bench.turn(60)
    assert bench.lanes.enter(trying)
    bench.lanes.clear()
    bench.enter(180)
    assert bench.skipped() == []


def test_a_forked_child_has_lanes_of_its_own() -> None:
    """In a child the turns of the parent are over, its runs take no place, and its lock is nobody's to wait for."""
    bench = Bench()
    bench.running()
    other = Bench()
    waiting = other.turn(0)
    assert other.lanes.enter(waiting)
    assert other.lanes.wait(waiting)
    for one in (bench, other):
        assert lock_of(one.lanes).acquire(timeout=1)
        begin_child()
    assert not other.lanes.is_open(waiting)
    assert not other.lanes.enter(waiting)
    assert bench.lanes.enter(bench.turn(60))


def test_the_newest_in_line_takes_over_a_claim_that_was_tried() -> None:
    """Of three ticks in line the newest gets the claim that the oldest has tried, whose tick is told of with it; the
    one that has tried nothing is skipped.
    """
    bench = Bench(**QUEUE)
    run = bench.running()
    oldest, between, newest = (bench.turn(seconds) for seconds in (60, 120, 180))
    pending = bench.pending(oldest)
    line = newest.lane.line
    line += [between, oldest]
    assert not bench.lanes.enter(newest)
    assert newest.pending is pending
    assert (line, bench.skipped()) == ([newest], [slot(120)])
    bench.lanes.end(run, goes_on=False)
    assert bench.next() is newest


def test_a_claim_that_was_not_the_turns_own_is_told_of_apart() -> None:
    """A tick that had only taken over another's claim has tried nothing of its own: it is skipped, and said to be."""
    bench = Bench(**QUEUE)
    bench.running()
    first, second = bench.turn(0), bench.turn(60)
    second.pending = bench.pending(first)
    newest = bench.turn(120)
    newest.lane.line.append(second)
    assert not bench.lanes.enter(newest)
    assert newest.pending is first.pending
    assert bench.skipped() == [slot(60)]


def test_a_turn_that_has_tried_keeps_its_own_claim() -> None:
    """A newer tick that has a pending claim itself takes over none, and the older one is skipped."""
    bench = Bench(**QUEUE)
    bench.running()
    older, newer = bench.turn(60), bench.turn(120)
    bench.pending(older)
    own = bench.pending(newer)
    older.lane.line.append(older)
    assert not bench.lanes.enter(newer)
    assert newer.pending is own
    assert bench.skipped() == [slot(60)]


def test_another_turn_may_be_called_by_one_that_comes_back() -> None:
    """A turn that is over and comes back all the same doesn't try, and whoever stands in line is called."""
    bench = Bench(**KEEP_ALL)
    over = bench.turn(0)
    assert bench.lanes.enter(over)
    assert bench.lanes.wait(over)
    (waiting,) = bench.enter(60)
    over.lane.current = None
    assert not bench.lanes.enter(over)
    assert bench.next() is waiting
