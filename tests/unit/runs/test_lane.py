"""The table of `runs/lane.py`: what comes of each event in each state, and why some can't come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, TypeAlias, get_args

import pytest
from tests.simulation.world import slot

from firecron import distributed_cron
from firecron.base.clocks import Moment
from firecron.base.tickets import Tickets, TickWave
from firecron.jobs.job import Job, explore
from firecron.runs.lane import HOLDS, NEWER, RUNS, UNWANTED, Attempt, Lane, LaneCommand, OpenTick, PendingClaim, State

SKIP: dict[str, object] = {}
QUEUE: dict[str, object] = {"overlap": "queue"}
KEEP_ALL: dict[str, object] = {"overlap": "queue", "grace": 600}
CANCEL: dict[str, object] = {"overlap": "cancel_previous"}
ALLOW: dict[str, object] = {"overlap": "allow"}
STATES = ("-", *get_args(State))
WORDS = {NEWER: "newer", RUNS: "runs", HOLDS: "holds", UNWANTED: "unwanted", "": ""}


class Bench:
    """A lane whose current attempt is `old`, the tick 60, in one of the states. `told` are the commands since."""

    def __init__(self, state: str = "-", options: dict[str, object] = SKIP) -> None:
        @distributed_cron("job", "* * * * *", **options)  # type: ignore[arg-type]  # they are known below
        def work() -> None: ...

        self.job: Job = explore(work)[0]
        self.lane = Lane(self.job.options, 2)
        self.old, self.new, self.older, self.look = (self.attempt(seconds) for seconds in (60, 120, 0, None))
        self.hand = self.attempt(None)
        self.claim = PendingClaim(self.old)
        self.told: list[LaneCommand] = []
        if state != "-":
            self.lane.stand(self.old)
        if state in ("trying", "waiting", "holding"):
            self.enter(self.old)
        if state == "waiting":
            self.lane.wait(self.old, self.claim)
        if state == "holding":
            self.lane.begin(self.old)
            self.lane.end(self.old, goes_on=True, holds=True)
        assert state in ("-", self.lane.state)

    def attempt(self, seconds: float | None) -> Attempt:
        return Attempt(self.job, self.lane, None if seconds is None else slot(seconds), 0.0)

    def enter(self, attempt: Attempt) -> list[LaneCommand]:
        return self.lane.enter(attempt, attempt.came, 1000)

    def name(self, thing: object) -> str:
        return next((name for name, one in vars(self).items() if one is thing), "another")

    def __str__(self) -> str:
        """The current attempt and its state, what is beside it, and the commands."""
        lane = self.lane
        parts = [f"{self.name(lane.current)} {lane.state}" if lane.current is not None else "-"]
        parts += [f"{self.name(one)} in line" for one in lane.line]
        parts += [f"{self.name(one)} runs" for one in lane.running]
        parts += [f"{self.name(one)} has a place" for one in lane.reserved]
        parts += ["look is kept"] * (lane.look is not None) + ["claim is pending"] * (lane.pending is not None)
        told = [f"{one.do} {self.name(one.what)} {WORDS[one.why]}".strip() for one in self.told]
        return ", ".join(parts) + (f": {', '.join(told)}" if told else "")


Event: TypeAlias = Callable[[Bench], list[LaneCommand]]


def stand(which: str) -> Event:
    return lambda bench: bench.lane.stand(getattr(bench, which))


def reserved(event: Event) -> Event:
    """The event, after a run by hand has taken the place."""

    def play(bench: Bench) -> list[LaneCommand]:
        assert bench.lane.reserve(bench.hand)
        return event(bench)

    return play


def enter(bench: Bench) -> list[LaneCommand]:
    return bench.enter(bench.old)


def recall(bench: Bench) -> list[LaneCommand]:
    return bench.lane.recall(bench.old, bench.old.plan)


def void(bench: Bench) -> list[LaneCommand]:
    return bench.lane.recall(bench.old, object())


def wait(bench: Bench) -> list[LaneCommand]:
    return bench.lane.wait(bench.old, bench.claim)


def occupy(bench: Bench) -> list[LaneCommand]:
    return bench.lane.occupy(bench.hand)


def vacate(bench: Bench) -> list[LaneCommand]:
    return [*bench.lane.occupy(bench.hand), *bench.lane.vacate(bench.hand)]


def clear(bench: Bench) -> list[LaneCommand]:
    claim = bench.lane.clear()
    return [] if claim is None else [LaneCommand("drop", claim)]


NOT_TRYING = "only the worker that tries with the attempt reports what has become of its try"
NO_RUN = "a run leaves its lane's current attempt as it begins, and another one is current only where two may run"
Outcomes: TypeAlias = tuple[str, str, str, str, str]
# By event: the options, and what comes of it in each state; or why it can't come there.
TABLE: dict[str, tuple[dict[str, object], Event, Outcomes]] = {
    "a newer tick": (
        SKIP,
        stand("new"),
        (
            "new called: call new",
            "new called: skip old newer, call new",
            "old trying, new in line",
            "new called, claim is pending: call new",
            "old holding: skip new holds",
        ),
    ),
    "a newer tick, if ticks queue": (
        QUEUE,
        stand("new"),
        (
            "new called: call new",
            "new called: skip old newer, call new",
            "old trying, new in line",
            "new called, claim is pending: call new",
            "old holding, new in line",
        ),
    ),
    "a newer tick, if all of them queue": (
        KEEP_ALL,
        stand("new"),
        (
            "new called: call new",
            "old called, new in line",
            "old trying, new in line",
            "old waiting, new in line, claim is pending",
            "old holding, new in line",
        ),
    ),
    "a newer tick, if it cancels the run before": (
        CANCEL,
        stand("new"),
        (
            "new called: call new",
            "new called: skip old newer, call new",
            "old trying, new in line: cancel new",
            "new called, claim is pending: call new",
            "old holding, new in line: cancel new",
        ),
    ),
    "an older tick": (
        SKIP,
        stand("older"),
        (
            "older called: call older",
            "old called, older in line",
            "old trying, older in line",
            "old waiting, older in line, claim is pending",
            "old holding: skip older holds",
        ),
    ),
    "a look": (
        SKIP,
        stand("look"),
        (
            "look called: call look",
            "old called, look is kept",
            "old trying, look is kept",
            "old waiting, look is kept, claim is pending",
            "old holding, look is kept",
        ),
    ),
    "a worker comes": (
        SKIP,
        enter,
        (
            "-",
            "old trying: try old",
            "old trying",
            "old waiting, claim is pending",
            "old trying: try old",
        ),
    ),
    "a worker comes, and a run by hand has the place": (
        SKIP,
        reserved(enter),
        (
            "-, hand has a place",
            "-, old in line, hand has a place",
            "old trying, hand has a place",
            "old waiting, hand has a place, claim is pending",
            "-, old in line, hand has a place",
        ),
    ),
    "the minimum hold lasts": (
        SKIP,
        lambda bench: bench.lane.hold(bench.old),
        (NOT_TRYING, NOT_TRYING, "old holding", NOT_TRYING, NOT_TRYING),
    ),
    "refused, tries again": (
        SKIP,
        wait,
        (NOT_TRYING, NOT_TRYING, "old waiting, claim is pending", NOT_TRYING, NOT_TRYING),
    ),
    "its time has come": (
        SKIP,
        recall,
        ("-", "old called", "old trying", "old called, claim is pending: call old", "old called: call old"),
    ),
    "the time of another plan has come": (
        SKIP,
        void,
        ("-", "old called", "old trying", "old waiting, claim is pending", "old holding"),
    ),
    "over": (
        SKIP,
        lambda bench: bench.lane.leave(bench.old),
        ("-", "-", "-", NOT_TRYING, "-"),
    ),
    "acquired": (
        SKIP,
        lambda bench: bench.lane.begin(bench.old),
        (NOT_TRYING, NOT_TRYING, "-, old runs", NOT_TRYING, NOT_TRYING),
    ),
    "not wanted any more": (
        SKIP,
        lambda bench: bench.lane.drop(bench.old),
        ("-", "-: skip old unwanted", "old trying", "-: skip old unwanted, drop claim", "-: skip old unwanted"),
    ),
    "a run by hand begins": (
        SKIP,
        reserved(occupy),
        (
            "-, hand runs",
            "old called, hand runs",
            "old trying, hand runs",
            "old waiting, hand runs, claim is pending",
            "old holding, hand runs",
        ),
    ),
    "a run by hand is over": (
        SKIP,
        reserved(vacate),
        ("-", "old called", "old trying", "old waiting, claim is pending", "old holding"),
    ),
    "a stop": (
        SKIP,
        clear,
        ("-", "-", "old trying", "-: drop claim", "-"),
    ),
    "the run has ended, and goes on": (
        SKIP,
        lambda bench: [*bench.lane.begin(bench.old), *bench.lane.end(bench.old, goes_on=True, holds=False)],
        (NO_RUN, NO_RUN, "old called", NO_RUN, NO_RUN),
    ),
    "the run has ended, and holds its lock": (
        SKIP,
        lambda bench: [*bench.lane.begin(bench.old), *bench.lane.end(bench.old, goes_on=True, holds=True)],
        (NO_RUN, NO_RUN, "old holding", NO_RUN, NO_RUN),
    ),
    "the run has ended": (
        SKIP,
        lambda bench: [*bench.lane.begin(bench.old), *bench.lane.end(bench.old, goes_on=False, holds=False)],
        (NO_RUN, NO_RUN, "-", NO_RUN, NO_RUN),
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_what_comes_of_an_event(name: str) -> None:
    """In each state the lane gets into the one that the table says, and commands what it says."""
    options, play, outcomes = TABLE[name]
    found = list(outcomes)
    for at, state in enumerate(STATES):
        if outcomes[at] not in (NOT_TRYING, NO_RUN):
            bench = Bench(state, options)
            bench.told = play(bench)
            found[at] = str(bench)
    assert tuple(found) == outcomes


@pytest.mark.parametrize(
    ("options", "told", "then"),
    [
        (SKIP, "-, old runs: skip new runs", "-"),
        (QUEUE, "-, new in line, old runs", "new called: call new"),
        (KEEP_ALL, "-, new in line, old runs", "new called: call new"),
        (CANCEL, "-, new in line, old runs: cancel new", "new called: call new"),
    ],
)
def test_a_tick_is_judged_as_it_comes(options: dict[str, object], told: str, then: str) -> None:
    """Behind a run a tick needs no worker to be skipped, to stand in line until that has ended, or to have it end."""
    bench = Bench("trying", options)
    bench.lane.begin(bench.old)
    bench.told = bench.lane.stand(bench.new)
    assert str(bench) == told
    bench.told = bench.lane.end(bench.old, goes_on=False, holds=False)
    assert str(bench) == then


@pytest.mark.parametrize(("options", "cancels"), [(CANCEL, True), (QUEUE, False)])
def test_a_run_that_begins_is_cancelled_by_the_tick_that_came_during_its_try(
    options: dict[str, object], cancels: bool
) -> None:
    """What that tick found to cancel before has ended: a catch-up, or a run by hand that was none of its business."""
    bench = Bench("trying", options)
    bench.lane.stand(bench.new)
    bench.told = bench.lane.begin(bench.old)
    assert str(bench) == "-, new in line, old runs" + ": cancel new" * cancels


def test_all_that_queue_come_in_the_order_of_their_ticks() -> None:
    """Ticks with a grace of their own stand behind a run, in whatever order they came, and run one after another."""
    bench = Bench("trying", KEEP_ALL)
    bench.lane.begin(bench.old)
    for attempt in (bench.new, bench.older):
        assert bench.lane.stand(attempt) == []
    assert bench.lane.line == [bench.older, bench.new]
    assert bench.lane.end(bench.old, goes_on=False, holds=False) == [LaneCommand("call", bench.older)]


@pytest.mark.parametrize("came", [("older", "new"), ("new", "older")])
def test_only_the_newest_of_others_stays_in_line(came: tuple[str, str]) -> None:
    """Of the ticks that queue until the next one the newest stands behind a run; the other is skipped at once."""
    bench = Bench("trying", QUEUE)
    bench.lane.begin(bench.old)
    for one in came:
        bench.told += bench.lane.stand(getattr(bench, one))
    assert str(bench) == "-, new in line, old runs: skip older newer"


def test_the_next_in_line_is_called_once_a_try_is_over() -> None:
    """Whoever came while an attempt was trying is called when that one gives up, and takes over if it waits."""
    for refused in (lambda bench: bench.lane.leave(bench.old), wait):
        bench = Bench("trying")
        bench.lane.stand(bench.new)
        bench.told = refused(bench)
        pending = ", claim is pending" * (refused is wait)
        assert str(bench) == f"new called{pending}: call new"


def test_an_attempt_that_goes_on_comes_before_the_line() -> None:
    """After a catch-up its attempt claims again, and whoever stands in line after it; a newer tick displaces it."""
    bench = Bench("trying", KEEP_ALL)
    bench.lane.begin(bench.old)
    bench.lane.stand(bench.new)
    assert bench.lane.end(bench.old, goes_on=True, holds=False) == []
    assert str(bench) == "old called, new in line"
    bench = Bench("trying", QUEUE)
    bench.lane.begin(bench.old)
    bench.lane.stand(bench.new)
    bench.told = bench.lane.end(bench.old, goes_on=True, holds=False)
    assert str(bench) == "new called: skip old newer, call new"


@pytest.mark.parametrize(("runs", "outcome"), [("old", "new trying, old in line"), ("older", "new trying")])
def test_an_attempt_that_goes_on_beside_another_one_stands_in_line(runs: str, outcome: str) -> None:
    """Where two may run, one that goes on while another attempt tries comes after it; of two that wait the newer."""
    bench = Bench("-", ALLOW)
    run = getattr(bench, runs)
    for attempt in (run, bench.new):
        bench.lane.stand(attempt)
        bench.enter(attempt)
        if attempt is run:
            bench.lane.begin(run)
    if runs == "older":
        bench.lane.stand(bench.old)
    bench.told = bench.lane.end(run, goes_on=True, holds=False)
    assert str(bench) == (outcome if runs == "old" else "new trying, old in line: skip older newer")


def test_where_several_may_run_a_tick_is_skipped_behind_the_last_place() -> None:
    """Of two places one is free behind a run, and none behind two."""
    bench = Bench("trying", ALLOW)
    bench.lane.begin(bench.old)
    bench.told = bench.lane.stand(bench.older)
    assert str(bench) == "older called, old runs: call older"
    bench.enter(bench.older)
    bench.lane.begin(bench.older)
    bench.told = bench.lane.stand(bench.new)
    assert bench.told == [LaneCommand("skip", bench.new, RUNS)]


def test_a_look_comes_after_the_ticks_and_once() -> None:
    """Of several looks the last one is made, after the ticks, once a place is free; none behind a run that began."""
    bench = Bench("trying", QUEUE)
    bench.lane.begin(bench.old)
    assert bench.lane.stand(bench.hand) == bench.lane.stand(bench.look) == []
    bench.lane.stand(bench.new)
    bench.lane.end(bench.old, goes_on=False, holds=False)
    assert str(bench) == "new called, look is kept"
    bench.told = bench.lane.leave(bench.new)
    assert str(bench) == "look called: call look"
    bench.lane.leave(bench.look)
    bench = Bench("trying")
    bench.lane.stand(bench.look)
    bench.lane.begin(bench.old)
    bench.told = bench.lane.end(bench.old, goes_on=False, holds=False)
    assert str(bench) == "-"


def test_a_look_gives_way_to_a_tick() -> None:
    """A tick that comes before the look has a worker goes first, and the look comes after it."""
    bench = Bench()
    bench.lane.stand(bench.look)
    bench.told = bench.lane.stand(bench.new)
    assert str(bench) == "new called, look is kept: call new"
    assert not bench.look.is_newer_than(bench.new)
    assert not bench.look.is_newer_than(bench.hand)


def test_a_look_goes_back_if_a_run_by_hand_has_the_place() -> None:
    """It is called again once the place is free."""
    bench = Bench()
    bench.lane.stand(bench.look)
    assert bench.lane.reserve(bench.hand)
    bench.told = bench.enter(bench.look)
    assert str(bench) == "-, hand has a place, look is kept"
    assert bench.lane.vacate(bench.hand) == [LaneCommand("call", bench.look)]


@pytest.mark.parametrize(("options", "skipped"), [(SKIP, True), (QUEUE, False)])
def test_a_run_by_hand_takes_a_place(options: dict[str, object], skipped: bool) -> None:
    """A tick waits for a run by hand that has no lock yet; once that runs, it is skipped, or called when it is over."""
    bench = Bench("-", options)
    assert bench.lane.reserve(bench.hand)
    assert not bench.lane.reserve(bench.older)
    assert bench.lane.stand(bench.new) == []
    bench.told = bench.lane.occupy(bench.hand)
    assert str(bench) == ("-, hand runs: skip new runs" if skipped else "-, new in line, hand runs")
    assert bench.lane.occupy(bench.hand) == []
    bench.told = bench.lane.vacate(bench.hand)
    assert str(bench) == ("-" if skipped else "new called: call new")
    assert bench.lane.vacate(bench.hand) == []


def test_a_run_by_hand_takes_one_place() -> None:
    """A place that is occupied is not reserved any more: of two places another is free."""
    bench = Bench("-", ALLOW)
    assert bench.lane.reserve(bench.hand)
    bench.lane.occupy(bench.hand)
    assert bench.lane.reserve(bench.look)
    assert not bench.lane.reserve(bench.new)
    bench.lane.vacate(bench.hand)
    assert bench.lane.reserve(bench.new)


def displaced(options: dict[str, object] = SKIP) -> Bench:
    """An attempt that has tried, and stands in line again, because a run by hand has taken its place."""
    bench = Bench("waiting", options)
    assert bench.lane.reserve(bench.hand)
    bench.lane.recall(bench.old, bench.old.plan)
    assert bench.enter(bench.old) == []
    return bench


def test_the_newest_in_line_takes_over_a_claim_that_was_tried() -> None:
    """The claimer tells of the older tick once the newer one tries; one that has tried nothing is skipped at once."""
    bench = displaced(QUEUE)
    bench.lane.line.insert(0, bench.older)
    bench.told = bench.lane.stand(bench.new)
    assert str(bench) == "-, new in line, hand has a place, claim is pending: skip older newer"
    bench.told = bench.lane.vacate(bench.hand)
    assert str(bench) == "new called, claim is pending: call new"


@pytest.mark.parametrize("newer", [False, True])
def test_a_claim_with_which_nobody_goes_on_is_dropped(newer: bool) -> None:
    """All ticks in line are skipped once a run by hand begins. The claim is dropped, and the tick that it was for is
    told of, also if a newer one has taken its place in line.
    """
    bench = displaced()
    if newer:
        assert bench.lane.stand(bench.new) == []
    bench.told = bench.lane.occupy(bench.hand)
    told = "skip new runs, drop claim, skip old newer" if newer else "skip old runs, drop claim"
    assert str(bench) == f"-, hand runs: {told}"


def test_a_claim_that_was_taken_over_is_dropped_with_its_tick() -> None:
    """If the newer attempt is not wanted before it has tried, the tick is told of that the claim was for."""
    bench = Bench("waiting")
    bench.lane.stand(bench.new)
    bench.told = bench.lane.drop(bench.new)
    assert str(bench) == "-: skip new unwanted, drop claim, skip old newer"


def test_a_worker_goes_on_with_whoever_is_called() -> None:
    """It came for an attempt that a newer one has displaced: the newer one goes on, and its own call finds nothing."""
    bench = Bench("called")
    bench.lane.stand(bench.new)
    called = [bench.lane.called]
    assert bench.enter(bench.old) == []
    bench.enter(bench.new)
    assert [*called, bench.lane.called] == [bench.new, None]
    assert bench.enter(bench.new) == bench.enter(bench.old) == []


def test_what_becomes_of_an_older_attempt_leaves_the_current_one_alone() -> None:
    """The plan of an attempt that a newer one has displaced is void, and its end is not the newer one's."""
    bench = Bench("waiting")
    bench.lane.stand(bench.new)
    bench.enter(bench.new)
    assert bench.lane.leave(bench.old) == []
    bench.lane.wait(bench.new, bench.claim)
    assert bench.lane.recall(bench.old, bench.old.plan) == []
    assert str(bench) == "new waiting, claim is pending"


@pytest.mark.parametrize("how", ["leave", "begin"])
def test_a_claim_that_was_answered_is_not_pending_any_more(how: str) -> None:
    """The next attempt makes a claim of its own, with another token."""
    bench = Bench("waiting")
    bench.lane.recall(bench.old, bench.old.plan)
    bench.enter(bench.old)
    assert bench.lane.pending is bench.claim
    getattr(bench.lane, how)(bench.old)
    assert bench.lane.pending is None


def test_after_an_unwanted_attempt_the_next_in_line_is_called() -> None:
    """The job may be another one of its name, which is wanted."""
    bench = Bench("called", KEEP_ALL)
    bench.lane.stand(bench.new)
    bench.told = bench.lane.drop(bench.old)
    assert str(bench) == "new called: skip old unwanted, call new"


def test_a_stop_drops_what_stands_in_line_and_what_was_planned() -> None:
    """After it nobody is called of those who stood in line, were open, or looked."""
    bench = Bench("trying", QUEUE)
    bench.lane.begin(bench.old)
    bench.lane.stand(bench.new)
    bench.lane.stand(bench.look)
    bench.lane.open = OpenTick(bench.older, TickWave(0.0, 0.0, 1.0))
    bench.lane.looks_at = 1
    assert bench.lane.clear() is None
    assert [bench.lane.open, bench.lane.looks_at] == [None, None]
    assert bench.lane.end(bench.old, goes_on=False, holds=False) == []


@pytest.mark.parametrize(("options", "free"), [(SKIP, True), (ALLOW, False)])
def test_an_attempt_that_tries_for_the_last_place_has_it_without_a_lock(options: dict[str, object], free: bool) -> None:
    """A run by hand may ask for the lock beside it; where the job holds none, both would run."""
    bench = Bench("called", options)
    bench.lane.most = 1
    assert bench.lane.reserve(bench.hand)
    bench.lane.vacate(bench.hand)
    bench.enter(bench.old)
    assert bench.lane.reserve(bench.hand) is free
    bench.lane.leave(bench.old)
    assert bench.lane.reserve(bench.look) is not free


# --- attempts and claims


@pytest.mark.parametrize(
    ("options", "late", "has_tried", "has_run", "is_later"),
    [
        (SKIP, 1000, False, False, False),
        (SKIP, 1001, False, False, True),
        (SKIP, 1001, True, False, False),
        (SKIP, 1001, False, True, False),
        (QUEUE, 1001, False, False, False),
    ],
)
def test_a_worker_that_comes_late_asks_as_of_the_tick(
    options: dict[str, object], late: float, has_tried: bool, has_run: bool, is_later: bool
) -> None:
    """More than a margin after the tick came, the first try is one of a later asker, if the tick does not queue."""
    bench = Bench("-", options)
    attempt = replace(bench.old, came=500.0)
    bench.lane.stand(attempt)
    if has_tried:
        bench.lane.pending = PendingClaim(attempt)
    if has_run:
        attempt.claimed_at = Moment(500, 500.0)
    bench.lane.enter(attempt, 500.0 + late, 1000)
    assert attempt.is_later is is_later


@pytest.mark.parametrize("looks_back", [False, True])
def test_a_tick_from_before_the_instance_is_not_reported(looks_back: bool) -> None:
    """Others had the job then."""
    bench = Bench()
    attempt = replace(bench.old, looks_back=looks_back)
    assert attempt.tick_to_report == (None if looks_back else slot(60))


def test_attempts_are_alike_by_job_tick_and_trigger() -> None:
    """Another tick, trigger or job of the same name is another attempt's."""
    bench = Bench()
    assert bench.old.is_like(replace(bench.old, came=7.0))
    for other in ({"due": None}, {"trigger": "http"}, {"job": Bench().job}):
        assert not bench.old.is_like(replace(bench.old, **other))


Judged: TypeAlias = Literal["over", "ask"] | float


@pytest.mark.parametrize(
    ("now", "ends", "judged"),
    [(999, 100_000.0, 1_000.0), (1_000, 100_000.0, "ask"), (0, None, "ask"), (9, 9.0, "over")],
)
def test_an_open_tick_is_asked_for_in_its_wave(now: float, ends: float | None, judged: Judged) -> None:
    """In the second wave a second after it came, at once without an end, and not at all once its time is over."""
    bench = Bench()
    open_tick = OpenTick(bench.old, TickWave(0.0, 0.5, 10.0), ends)
    tickets = Tickets(30_000.0, 1, 0.0, (10.0,))
    assert open_tick.judge(now, tickets, 3, is_look=False) == judged


def test_an_open_tick_is_looked_at_once_for_each_time() -> None:
    """A look that is planned for no later is enough; it is planned again once it was made."""
    bench = Bench()
    open_tick = OpenTick(bench.old, TickWave(0.0, 0.9, 100.0), 100_000.0)
    tickets = Tickets(30_000.0, 1, 0.0, (100.0,))
    found = [open_tick.judge(now, tickets, 3, is_look=look) for now, look in ((0, False), (1, False), (2, True))]
    assert found == [tickets.stale_at, float("inf"), tickets.stale_at]
