"""Exchanges that run on a thread: what the store is asked, within which deadlines, and the pauses between tries."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.simulation.chance import Chance
from tests.unit.lock.records import request

from firecron.base.clocks import Deadline, ServerClock
from firecron.errors import Denied, StoreError, Unavailable
from firecron.lock.database import Database
from firecron.lock.protocol import BackOff, Exchange, Held, Read, Swap, Swapped, acquiring, editing
from firecron.settings import load
from firecron.store import NULL_ETAG, Snapshot
from firecron.testing import FakeTiming, MemoryStore

PATH = "cron-locks/job"


class Store(MemoryStore):
    """A store in memory whose next requests fail as the test says. It notes the seconds that each one has."""

    def __init__(self, timing: FakeTiming) -> None:
        super().__init__(timing.now)
        self.failures: list[Exception | None] = []
        self.had: list[float] = []
        self.before: Callable[[], object] = lambda: None

    def read(self, path: str, deadline: Deadline) -> Snapshot:
        self._meet(deadline)
        return super().read(path, deadline)

    def swap(self, path: str, etag: str, data: dict[str, object] | None, deadline: Deadline) -> str | Snapshot:
        self._meet(deadline)
        return super().swap(path, etag, data, deadline)

    def _meet(self, deadline: Deadline) -> None:
        self.had.append(deadline.remaining())
        self.before()
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure


class Bench:
    def __init__(self) -> None:
        self.timing = FakeTiming()
        self.store = Store(self.timing)
        clock = ServerClock(
            lambda deadline: self.timing.now(),
            self.timing,
            margin=1_000,
            samples=1,
            drift=0.0,
            interval=300,
            request_timeout=3,
        )
        self.database = Database(
            settings=load(request_timeout=3), store=self.store, timing=self.timing, chance=Chance(), has_threads=False
        )
        self.database.clock = clock

    def run(self, exchange: Exchange[object], seconds: float = 10, lease_ends: float | None = None) -> object:
        return self.database.run(exchange, PATH, self.database.deadline(seconds), lease_ends)


def reading() -> Exchange[Snapshot]:
    found = yield Read()
    assert isinstance(found, Snapshot)
    return found


def test_the_result_of_an_exchange_is_returned() -> None:
    """A free lock is written, and the exchange's result is what the caller gets."""
    bench = Bench()
    held = bench.run(acquiring(request(), None, {}))
    assert isinstance(held, Held)
    assert held.snapshot == bench.store.read(PATH, bench.database.deadline(1))


def test_a_failure_is_raised_in_the_exchange() -> None:
    """Here the exchange reads, finds nothing, and writes again. The pause is as long as the server has asked for."""
    bench = Bench()
    bench.store.failures = [Unavailable("down", retry_after=2)]
    assert isinstance(bench.run(acquiring(request(), None, {})), Held)
    assert len(bench.store.had) == 3
    assert bench.timing.mono() == 2_000


def test_a_bug_is_raised_to_the_caller() -> None:
    """What is no failure of the store is not told to the exchange."""
    bench = Bench()
    bench.store.failures = [ValueError("a bug")]
    with pytest.raises(ValueError, match="a bug"):
        bench.run(acquiring(request(), None, {}))


def test_a_write_has_the_time_of_its_reply() -> None:
    """By the monotonic clock, after the request."""
    bench = Bench()
    bench.store.before = lambda: bench.timing.advance(1.5)

    def writing() -> Exchange[object]:
        return (yield Swap(NULL_ETAG, {"a": 1}))

    answer = bench.run(writing())
    assert isinstance(answer, Swapped)
    assert answer.mono == 1_500


@pytest.mark.parametrize("error", [Unavailable("down"), Denied("no"), Unavailable("later", retry_after=1.001)])
@pytest.mark.parametrize("retry_after", [None, 0.9])
def test_a_pause_that_outlasts_the_deadline_is_the_failure(error: StoreError, retry_after: float | None) -> None:
    """The pause is made if the deadline comes after it; else the error of the last try is raised."""
    bench = Bench()
    pauses: list[float] = []

    def failing() -> Exchange[None]:
        for tries in range(1, 100):
            before = bench.timing.mono()
            asks = Unavailable("busy", retry_after=retry_after) if tries == 1 else error
            yield BackOff(tries, asks)
            pauses.append(bench.timing.mono() - before)

    with pytest.raises(type(error), match=str(error)):
        bench.run(failing(), seconds=1)
    assert sum(pauses) < 1_000
    assert pauses[0] == (900 if retry_after else pytest.approx(25, abs=13))


@pytest.mark.parametrize("since", [[], [Unavailable("too slow")]], ids=["no time to write", "the read fails"])
def test_an_edit_without_time_left_says_what_failed_first(since: list[Exception]) -> None:
    """Not that its time is over, nor what has failed since."""
    bench = Bench()
    bench.store.before = lambda: bench.timing.advance(0.4)
    bench.store.failures = [None, Unavailable("no reply"), *since]
    with pytest.raises(Unavailable, match=r"^no reply$"):
        bench.run(editing(lambda node, now: {"a": 1}), seconds=1)
    assert len(bench.store.had) == 3


@pytest.mark.parametrize(
    ("seconds", "lease_ends", "had"), [(10, None, 3), (2, None, 2), (10, 6_000, 2), (10, 60_000, 3), (1, 6_000, 1)]
)
def test_a_request_has_the_earliest_of_three_deadlines(seconds: float, lease_ends: float | None, had: float) -> None:
    """The exchange's, the timeout of a request, and a third of what is left of the lease."""
    bench = Bench()
    bench.run(reading(), seconds, lease_ends)
    assert bench.store.had == [had]


@pytest.mark.parametrize(("seconds", "lease_ends"), [(0, None), (10, 0)])
def test_nothing_is_asked_when_the_time_is_over(seconds: float, lease_ends: float | None) -> None:
    """Without a moment left, the request fails before it is sent."""
    bench = Bench()
    with pytest.raises(Unavailable, match="the deadline has passed"):
        bench.run(reading(), seconds, lease_ends)
    assert bench.store.had == []
