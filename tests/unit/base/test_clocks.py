"""Clocks: the machine's, and RTDB's as an instance estimates it."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.base.clock_bench import DRIFT, INTERVAL, MARGIN, ORIGIN, Bench, Slow, Trip
from tests.unit.threads import Watched

from firecron.base import clocks
from firecron.base.clocks import Deadline, ServerClock, SystemTiming
from firecron.errors import Denied, StoreError, Unavailable


@pytest.mark.parametrize(("boot_clock", "expected"), [(7, 3.0), (None, 5.0)])
def test_the_monotonic_clock_goes_on_while_the_machine_sleeps(
    monkeypatch: pytest.MonkeyPatch, boot_clock: int | None, expected: float
) -> None:
    """It reads the clock that counts sleep, if the system has one; else the monotonic one. In milliseconds."""
    monkeypatch.setattr(clocks, "BOOT_CLOCK", boot_clock)
    monkeypatch.setattr(time, "clock_gettime_ns", {7: 3_000_000}.get)
    monkeypatch.setattr(time, "monotonic_ns", lambda: 5_000_000)
    assert SystemTiming().mono() == expected


class Machine:
    """A machine's clocks, in milliseconds: what it sleeps is in all of them but the monotonic one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, slept: float = 7_000_000) -> None:
        self.mono, self.slept = 5_000.0, slept
        monkeypatch.setattr(clocks, "BOOT_CLOCK", 7)
        monkeypatch.setattr(time, "clock_gettime_ns", lambda clock: round((self.mono + self.slept) * 1e6))
        monkeypatch.setattr(time, "monotonic_ns", lambda: round(self.mono * 1e6))
        monkeypatch.setattr(time, "time_ns", lambda: round((self.mono + self.slept + 1e12) * 1e6))


def test_the_wall_clock_goes_on_in_suspend(monkeypatch: pytest.MonkeyPatch) -> None:
    """It shows the time, as the monotonic clock does; how long the machine has slept is told apart."""
    machine = Machine(monkeypatch)
    timing = SystemTiming()
    wall, mono, slept = timing.wall(), timing.mono(), timing.suspended()
    machine.slept += 90_000
    assert (timing.wall() - wall, timing.mono() - mono, timing.suspended() - slept) == (90_000, 90_000, 90_000)


def test_rtdbs_time_is_asked_for_again_after_a_suspension(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clocks may have lost up to a second in suspend, and no other one shows it: the estimate is made anew."""
    machine = Machine(monkeypatch)
    timing = SystemTiming()
    lost = [0.0]
    clock = ServerClock(
        lambda deadline: round(machine.mono + machine.slept + lost[0]),
        timing, margin=1_000, samples=1, drift=200e-6, interval=300, request_timeout=5,
    )  # fmt: skip
    clock.now(Deadline.after(timing, 5))
    machine.mono += 10_000
    assert clock.peek() is not None
    machine.slept, lost[0] = machine.slept + 30_000, 990
    assert clock.peek() is None
    assert abs(clock.now(Deadline.after(timing, 5)).server - (machine.mono + machine.slept + 990)) <= 1


def test_a_pause_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It sleeps for as long as it was asked to."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    SystemTiming().sleep(0.25)
    assert slept == [0.25]


def test_the_best_sample_counts() -> None:
    """Of several samples the one with the shortest round trip is kept, wherever it comes."""
    bench = Bench()
    bench.server.trips.extend([(0, 900), (4, 2), (700, 0)])
    bench.clock.synchronise(bench.deadline())
    assert bench.clock.uncertainty == pytest.approx(3 + 1.5 + 706 * DRIFT)
    assert abs(bench.now() - bench.server.true()) <= 4.5 + 706 * DRIFT


@pytest.mark.parametrize(
    ("trips", "taken"),
    [
        ([(900, 99)], 1),
        ([(999, 1000)], 2),
        ([(997, 1000)], 2),  # within the margin but for the drift since it was sent
        ([Unavailable("one")], 2),
        ([(4000, 0)] * 3, 3),
    ],
)
def test_to_show_the_time_takes_one_sample_that_is_good_enough(trips: list[Trip | StoreError], taken: int) -> None:
    """No better sample is looked for than one within the margin. After another one the next is taken, three at most."""
    bench = Bench()
    bench.server.trips.extend(trips)
    if taken == 3:
        with pytest.raises(Unavailable, match="uncertainty is"):
            bench.clock.now(bench.deadline(), to_show=True)
    else:
        assert abs(bench.clock.now(bench.deadline(), to_show=True).server - bench.server.true()) <= MARGIN
    assert bench.server.samples == taken


def test_there_is_no_uncertainty_without_an_estimate() -> None:
    """Before the first synchronisation nothing is known."""
    assert Bench().clock.uncertainty is None


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


@pytest.mark.parametrize(("step", "samples"), [(0.5, 0), (-0.5, 0), (0.501, 3), (-0.501, 3), (3600.0, 3), (-3600.0, 3)])
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


class Blocked:
    """A clock whose first sample waits until it is let go, on a thread of its own."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self.started, self.go_on = threading.Event(), threading.Event()
        self.watched = Watched()
        self.bench = Bench(make_lock=lambda: self.watched)
        self.bench.timing.make_lock = threading.Lock
        self.bench.server.before = self._wait
        self.first = pool.submit(self.bench.now)
        assert self.started.wait(10)
        self.watched.wait()

    def _wait(self) -> None:
        self.started.set()
        assert self.go_on.wait(10)


def test_one_thread_synchronises_and_others_wait() -> None:
    """Threads that need the time at once share one synchronisation."""
    with ThreadPoolExecutor(4) as pool:
        blocked = Blocked(pool)
        others = [pool.submit(blocked.bench.now) for _ in range(3)]
        for _ in others:
            blocked.watched.wait()
        blocked.go_on.set()
        assert {one.result(10) for one in (blocked.first, *others)} == {int(ORIGIN)}
    assert blocked.bench.server.samples == 3


def test_waiting_for_another_thread_ends_with_the_deadline() -> None:
    """Who waits for another's synchronisation waits no longer than its own deadline."""
    with ThreadPoolExecutor(1) as pool:
        blocked = Blocked(pool)
        with pytest.raises(Unavailable, match="another thread"):
            blocked.bench.clock.now(blocked.bench.deadline(0))
        blocked.go_on.set()
        blocked.first.result(10)
