"""The ticker's thread and the heartbeat's at once: a tick is asked for once, and never left to nobody."""

from __future__ import annotations

from tests.simulation.world import slot
from tests.unit.locks import replace_lock
from tests.unit.scheduler.test_waves import SIZE, Bench, make_job
from tests.unit.test_races import Watched, code_of, looping, race

from firecron.runs.lanes import Lanes

JOB, OTHER = make_job(grace=600), make_job(called="other")
OPEN, NEWER = slot(60), slot(120)


def waiting(lock: Watched) -> Bench:
    """An instance that has left a tick open."""
    bench = Bench(JOB)
    bench.know(SIZE)
    bench.due_with(100, JOB)
    replace_lock(bench.lanes, lock)
    return bench


def doubt(bench: Bench) -> None:
    """What the heartbeat does after a beat that failed."""
    bench.group.observe_beat(None, None, bench.timing.mono())


def asked(bench: Bench) -> list[str]:
    return [f"2026-11-18T{time}Z" for time, *_ in bench.asked]


def test_two_that_judge_a_tick_ask_for_it_once() -> None:
    """A look and a beat may both find that the time has come."""

    def check(bench: Bench) -> None:
        assert asked(bench) == [OPEN]

    race(waiting, doubt, doubt, code_of(Lanes, "_judge"), check)


def test_a_tick_that_comes_during_a_beat_is_left_to_nobody_never() -> None:
    """It is asked for because the size is not known any more, or it is open before the beat judges, which then asks."""

    def check(bench: Bench) -> None:
        bench.until(60)
        assert asked(bench).count(NEWER) == 1
        assert asked(bench).count(OPEN) <= 1

    def come(bench: Bench) -> None:
        bench.lanes.due(JOB, NEWER)

    race(waiting, come, doubt, code_of(Lanes, "_left_open"), check)
    race(waiting, doubt, come, code_of(Lanes, "observe_tickets"), check)


def test_a_stop_while_a_tick_is_judged_breaks_nothing() -> None:
    """What is forgotten meanwhile is asked for or not, and nothing is raised."""

    def check(bench: Bench) -> None:
        assert asked(bench) in ([], [OPEN])
        doubt(bench)
        assert len(bench.asked) <= 1

    race(waiting, doubt, lambda bench: bench.lanes.forget_tickets(), code_of(Lanes, "_judge"), check)
    race(waiting, lambda bench: bench.lanes.forget_tickets(), doubt, code_of(Lanes, "forget_tickets"), check)


def test_a_job_that_comes_while_open_ticks_are_looked_for_breaks_nothing() -> None:
    """Its lane is another one, and the tick that is open is asked for."""

    def check(bench: Bench) -> None:
        assert asked(bench) == [OPEN]

    def come(bench: Bench) -> None:
        bench.lanes.lane(OTHER)

    race(waiting, doubt, come, looping(code_of(Lanes, "observe_tickets")), check)
