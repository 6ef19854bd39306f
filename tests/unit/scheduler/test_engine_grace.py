"""How much of a stop's grace is left to those who tell others of the runs."""

from __future__ import annotations

from firecron import FireCron, distributed_cron
from firecron.base.flag import begin_child
from firecron.settings import load
from firecron.testing import FakeTiming, MemoryStore


def stopping_within(seconds: float) -> tuple[FireCron, FakeTiming]:
    timing = FakeTiming()
    job = distributed_cron("job", "0 9 * * *")(lambda: None)
    settings = load(shutdown_grace=seconds)
    store = MemoryStore(timing.now)
    return FireCron(job, enabled=True, store=store, timing=timing, settings=settings, has_threads=False), timing


def test_what_is_left_of_the_grace() -> None:
    """Before a stop it is all that is asked for, after it what is left of the grace. A second stop ends no later, and
    a start begins anew.
    """
    crons, timing = stopping_within(8)
    left = crons.engine.seconds_left
    crons.start()
    assert (left(2), left(3_600)) == (2, 3_600)
    crons.stop()
    assert (left(2), left(3_600)) == (2, 8)
    timing.sleep(7.5)
    assert left(2) == 0.5
    crons.stop()
    assert left(2) == 0.5
    timing.sleep(1)
    assert left(2) == 0
    crons.start()
    assert left(2) == 2
    crons.stop()


def test_those_who_tell_share_one_grace() -> None:
    """What a listener of the stop takes is gone for the next one."""
    crons, timing = stopping_within(3)
    found: list[float] = []

    def tell(slug: str) -> None:
        if slug == "crons.stopped":
            found.append(crons.engine.seconds_left(2))
            timing.sleep(found[-1])

    for _ in range(3):
        crons.events.subscribe(lambda event: tell(event.slug))
    crons.start()
    crons.stop()
    assert found == [2, 1, 0]


def test_a_forked_child_has_not_been_stopped() -> None:
    """The grace of the parent's stop is none of the child's."""
    crons, _ = stopping_within(0)
    crons.stop()
    assert crons.engine.seconds_left(2) == 0
    begin_child()
    assert crons.engine.seconds_left(2) == 2
