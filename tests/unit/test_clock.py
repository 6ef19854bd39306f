"""The estimate of RTDB's time: how good it is, when it is made anew, and when there is none."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.fleet import Watched

from firecron.clock import ServerClock
from firecron.errors import Denied, StoreError, Unavailable
from firecron.testing import FakeTiming
from firecron.timing import Deadline

MARGIN = 1_000
DRIFT = 200e-6
INTERVAL = 300.0
ORIGIN = 1_794_992_400_000.25

Trip = tuple[float, float]


@dataclass(frozen=True)
class Slow:
    """Every sample fails, after so many seconds."""

    seconds: float


class Server:
    """RTDB's clock behind a network: each sample takes so many milliseconds there, and so many back."""

    def __init__(self, timing: FakeTiming) -> None:
        self.timing = timing
        self.trips: deque[Trip | StoreError] = deque()
        self.failing: Slow | None = None
        self.samples = 0
        self.deadlines: list[float] = []

    def true(self) -> float:
        return ORIGIN + self.timing.mono()

    def sample(self, deadline: Deadline) -> int:
        self.samples += 1
        self.deadlines.append(deadline.remaining())
        if self.failing is not None:
            self.timing.advance(self.failing.seconds)
            raise Unavailable("no answer")
        trip = self.trips.popleft() if self.trips else (0.0, 0.0)
        if isinstance(trip, StoreError):
            raise trip
        self.timing.advance(trip[0] / 1000)
        stamp = int(self.true())
        self.timing.advance(trip[1] / 1000)
        return stamp


class Bench:
    """A clock, its server, and the time that both see."""

    def __init__(self, *, samples: int = 3, drift: float = DRIFT, interval: float = INTERVAL) -> None:
        self.timing = FakeTiming()
        self.server = Server(self.timing)
        self.clock = ServerClock(
            self.server.sample,
            self.timing,
            margin=MARGIN,
            samples=samples,
            drift=drift,
            interval=interval,
            request_timeout=3.0,
        )

    def deadline(self, seconds: float = 8.0) -> Deadline:
        return Deadline.after(self.timing, seconds)

    def now(self) -> float:
        return self.clock.now(self.deadline()).server

    def asked(self) -> int:
        """How many samples the next reading takes."""
        before = self.server.samples
        self.now()
        return self.server.samples - before


def test_the_best_sample_counts() -> None:
    """Of several samples the one with the shortest round trip is kept, wherever it comes."""
    bench = Bench()
    bench.server.trips.extend([(0, 900), (4, 2), (700, 0)])
    bench.clock.synchronise(bench.deadline())
    assert bench.clock.uncertainty == pytest.approx(3 + 1.5 + 700 * DRIFT)
    assert abs(bench.now() - bench.server.true()) <= 4.5 + 700 * DRIFT


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


@pytest.mark.parametrize(("trip", "known"), [((997, 1000), True), ((999, 1000), False), ((4000, 0), False)])
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
    bench.clock.note(stamp, sent, bench.timing.mono())
    assert bench.clock.uncertainty == pytest.approx(half + 1.5 if used else 51.5 + 2 * half * DRIFT)


def test_the_first_timestamp_that_comes_along_is_an_estimate() -> None:
    """Where there is none, any is better."""
    bench = Bench()
    bench.clock.note(int(bench.server.true()), 0.0, 0.0)
    assert bench.asked() == 0


class Blocked:
    """A clock whose first sample waits until it is let go, on a thread of its own."""

    def __init__(self, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bench = Bench()
        self.started, self.go_on = threading.Event(), threading.Event()
        self.watched = Watched()
        sample = self.bench.server.sample

        def blocking(deadline: Deadline) -> int:
            self.started.set()
            assert self.go_on.wait(10)
            return sample(deadline)

        monkeypatch.setattr(self.bench.clock, "_sample", blocking)
        monkeypatch.setattr(self.bench.clock, "_syncing", self.watched)
        self.first = pool.submit(self.bench.now)
        assert self.started.wait(10)
        self.watched.wait()


def test_one_thread_synchronises_and_others_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that need the time at once share one synchronisation."""
    with ThreadPoolExecutor(4) as pool:
        blocked = Blocked(pool, monkeypatch)
        others = [pool.submit(blocked.bench.now) for _ in range(3)]
        for _ in others:
            blocked.watched.wait()
        blocked.go_on.set()
        assert {one.result(10) for one in (blocked.first, *others)} == {int(ORIGIN)}
    assert blocked.bench.server.samples == 3


def test_waiting_for_another_thread_ends_with_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for another's synchronisation waits no longer than its own deadline."""
    with ThreadPoolExecutor(1) as pool:
        blocked = Blocked(pool, monkeypatch)
        with pytest.raises(Unavailable, match="another thread"):
            blocked.bench.clock.now(blocked.bench.deadline(0))
        blocked.go_on.set()
        blocked.first.result(10)


def test_a_forked_child_synchronises_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A synchronisation that the parent had under way keeps nobody waiting in the child."""
    with ThreadPoolExecutor(1) as pool:
        blocked = Blocked(pool, monkeypatch)
        blocked.bench.clock.after_fork()
        blocked.go_on.set()
        assert blocked.bench.clock.now(blocked.bench.deadline(0)).server == int(ORIGIN)


MILLISECONDS = st.floats(0, 1_500)


@settings(max_examples=300, deadline=None)
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
    server.true = lambda: ORIGIN + origin + bench.timing.mono() * speed  # type: ignore[method-assign]
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
        assert moment.mono == bench.timing.mono()
        off = moment.server - server.true()
        assert -uncertainty <= off <= uncertainty - 1
