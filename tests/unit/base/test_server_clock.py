"""The estimate of RTDB's time: how good it is, when it is made anew, and when there is none."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.base.clock_bench import DRIFT, INTERVAL, MARGIN, ORIGIN, Bench, Slow, Trip

from firecron.errors import Denied, Unavailable


def test_the_best_sample_counts() -> None:
    """Of several samples the one with the shortest round trip is kept, wherever it comes."""
    bench = Bench()
    bench.server.trips.extend([(0, 900), (4, 2), (700, 0)])
    bench.clock.synchronise(bench.deadline())
    assert bench.clock.uncertainty == pytest.approx(3 + 1.5 + 706 * DRIFT)
    assert abs(bench.now() - bench.server.true()) <= 4.5 + 706 * DRIFT


@pytest.mark.parametrize("samples", [1, 3, 5])
def test_as_many_samples_as_set(samples: int) -> None:
    """A synchronisation takes the number of samples that is set."""
    assert Bench(samples=samples).asked() == samples


def test_there_is_no_uncertainty_without_an_estimate() -> None:
    """Before the first synchronisation nothing is known."""
    assert Bench().clock.uncertainty is None


def test_an_estimate_gets_worse_with_age() -> None:
    """The uncertainty grows by the drift that is allowed."""
    bench = Bench()
    bench.now()
    bench.timing.advance(100)
    assert bench.clock.uncertainty == pytest.approx(1.5 + 100_000 * DRIFT)


@pytest.mark.parametrize(("age", "samples"), [(INTERVAL - 0.001, 0), (INTERVAL, 3), (INTERVAL + 0.001, 3)])
def test_an_old_estimate_is_made_anew(age: float, samples: int) -> None:
    """At the age that is set, and no sooner, RTDB is asked again."""
    bench = Bench()
    bench.now()
    bench.timing.advance(age)
    assert bench.asked() == samples


@pytest.mark.parametrize(("age", "samples"), [(99.8, 0), (99.9, 3)])
def test_an_estimate_that_has_drifted_beyond_the_margin_is_made_anew(age: float, samples: int) -> None:
    """An estimate is used until its uncertainty, with the drift since, exceeds the margin."""
    bench = Bench(drift=0.01)
    bench.now()
    bench.timing.advance(age)
    assert bench.asked() == samples


@pytest.mark.parametrize(
    ("step", "samples"),
    [(0.5, 0), (-0.5, 0), (0.501, 3), (-0.501, 3), (3600.0, 3), (-3600.0, 3)],
)
def test_a_step_of_the_wall_clock_is_a_reason_to_ask_again(step: float, samples: int) -> None:
    """When wall and monotonic clock part by more than half the margin, either way, RTDB is asked, and only once."""
    bench = Bench()
    bench.now()
    bench.timing.step_wall(step)
    assert bench.asked() == samples
    assert bench.asked() == 0
    assert abs(bench.now() - bench.server.true()) <= 1.5


@pytest.mark.parametrize("hours", [-26, 0, 26])
def test_a_wall_clock_that_is_hours_off_changes_nothing(hours: int) -> None:
    """The wall clock's own error is in no reading, and no reason to ask again."""
    bench = Bench()
    bench.timing.step_wall(hours * 3600)
    assert bench.asked() == 3
    bench.timing.advance(60)
    assert bench.asked() == 0
    assert abs(bench.now() - bench.server.true()) <= 1.5


@pytest.mark.parametrize(("trip", "known"), [((996, 999), True), ((999, 1000), False), ((4000, 0), False)])
def test_a_slow_network_gives_no_time(trip: Trip, known: bool) -> None:
    """A round trip of about twice the margin leaves no estimate: there is no reading, and the error says why."""
    bench = Bench(samples=1)
    bench.server.trips.append(trip)
    if known:
        assert abs(bench.now() - bench.server.true()) <= MARGIN
    else:
        with pytest.raises(Unavailable, match=r"uncertainty is \d+ ms, the margin 1000 ms.*FIRECRON_MARGIN"):
            bench.now()
        assert bench.asked() == 1


def test_some_samples_may_fail() -> None:
    """One good sample is enough."""
    bench = Bench()
    bench.server.trips.extend([Unavailable("one"), (2, 2), Unavailable("three")])
    assert abs(bench.now() - bench.server.true()) <= 3.5


def test_when_all_samples_fail_there_is_no_time() -> None:
    """Without a sample the failure is passed on."""
    bench = Bench()
    bench.server.trips.extend([Unavailable("one"), Unavailable("two"), Unavailable("three")])
    with pytest.raises(Unavailable, match="three"):
        bench.now()
    assert bench.server.samples == 3


def test_who_is_denied_does_not_ask_again() -> None:
    """A refusal is no bad luck: it is passed on at once."""
    bench = Bench()
    bench.server.trips.append(Denied("no"))
    with pytest.raises(Denied):
        bench.now()
    assert bench.server.samples == 1


@pytest.mark.parametrize("step", [5.0, -5.0])
def test_a_failed_synchronisation_keeps_no_stepped_estimate(step: float) -> None:
    """After a step an estimate is not used, also when a new one can't be had."""
    bench = Bench()
    bench.now()
    bench.timing.step_wall(step)
    bench.server.trips.extend([Unavailable("down")] * 3)
    with pytest.raises(Unavailable):
        bench.now()


@pytest.mark.parametrize("seconds", [0.0, 2.5])
def test_an_estimate_that_is_merely_old_goes_on(seconds: float) -> None:
    """Where no sample can be had, at once or after a while, an old estimate is used as long as it is good enough."""
    bench = Bench()
    bench.now()
    bench.timing.advance(INTERVAL)
    bench.server.failing = Slow(seconds)
    assert abs(bench.now() - bench.server.true()) <= 2 + INTERVAL * 1000 * DRIFT
    bench.timing.advance(MARGIN / DRIFT / 1000)
    with pytest.raises(Unavailable, match="uncertainty is"):
        bench.now()


@pytest.mark.parametrize(("age", "known"), [(0.0, True), (INTERVAL * 2, True), (MARGIN / DRIFT / 1000, False)])
def test_a_peek_asks_nobody(age: float, known: bool) -> None:
    """The time without asking for it is known as long as the estimate is good enough."""
    bench = Bench()
    assert bench.clock.peek() is None
    bench.now()
    bench.timing.advance(age)
    peeked = bench.clock.peek()
    assert (peeked is not None) is known
    assert peeked is None or abs(peeked.server - bench.server.true()) <= MARGIN
    bench.timing.step_wall(0.501)
    assert bench.clock.peek() is None
    assert bench.server.samples == 3


@pytest.mark.parametrize(("left", "allowed"), [(8.0, 3.0), (1.25, 1.25)])
def test_a_sample_has_the_deadline_of_one_request(left: float, allowed: float) -> None:
    """A sample may take what one request may, and no more than the caller has."""
    bench = Bench()
    bench.clock.now(bench.deadline(left))
    assert bench.server.deadlines == [allowed] * 3


@pytest.mark.parametrize(("half", "used"), [(100, False), (50, True), (5, True)])
def test_a_timestamp_that_came_along_is_used_if_it_is_no_worse(half: float, used: bool) -> None:
    """A timestamp of some other write replaces an estimate that is worse by now, and not a better one."""
    bench = Bench(samples=1)
    bench.server.trips.extend([(50, 50), (half, half)])
    bench.now()
    sent = bench.timing.mono()
    stamp = bench.server.sample(bench.deadline())
    bench.clock.observe(stamp, sent, bench.timing.mono())
    assert bench.clock.uncertainty == pytest.approx(
        half + 1.5 + 2 * half * DRIFT if used else 51.5 + (100 + 2 * half) * DRIFT
    )


def test_the_first_timestamp_that_comes_along_is_an_estimate() -> None:
    """Where there is none, any is better."""
    bench = Bench()
    bench.clock.observe(int(bench.server.true()), 0.0, 0.0)
    assert bench.asked() == 0


MILLISECONDS = st.floats(0, 1_500)
# Milliseconds since 1970 leave a float this many of them for rounding.
GRAIN = 0.01


@settings(max_examples=300)
@given(
    trips=st.lists(st.tuples(MILLISECONDS, MILLISECONDS), min_size=1, max_size=4),
    waits=st.lists(st.floats(0, 400_000), max_size=4),
    speed=st.floats(1 - DRIFT, 1 + DRIFT),
    origin=st.floats(0, 0.999),
)
def test_a_reading_is_right_to_within_its_uncertainty(
    trips: list[Trip], waits: list[float], speed: float, origin: float
) -> None:
    """Whatever the latencies, and with any drift that is allowed, a reading is off by the uncertainty at most."""
    bench = Bench(samples=len(trips))
    server = bench.server
    # The server's clock runs faster or slower than this machine's.
    server.true = lambda: ORIGIN + origin + bench.timing.mono() * speed  # type: ignore[method-assign]  # for this one
    for wait in (0.0, *waits):
        server.trips.extend(trips)
        bench.timing.advance(wait / 1000)
        try:
            moment = bench.clock.now(bench.deadline(1e6))
        except Unavailable:
            assert min(there + back for there, back in trips) > 1_900
            continue
        uncertainty = bench.clock.uncertainty
        assert uncertainty is not None
        assert uncertainty <= MARGIN
        assert -1 - GRAIN < moment.mono - bench.timing.mono() <= GRAIN
        off = moment.server - server.true()
        assert -uncertainty - GRAIN <= off <= uncertainty - 1 + GRAIN
