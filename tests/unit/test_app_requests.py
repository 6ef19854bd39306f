"""How many requests a tick takes, counted by the database: it is billed and rate-limited by them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from tests.simulation.chance import Chance
from tests.simulation.instance import go_on
from tests.simulation.world import NAME

from firecron import FireCron, distributed_cron
from firecron.base.clocks import SystemTiming
from firecron.base.instants import to_text
from firecron.jobs.registry import Result
from firecron.settings import load
from rtdb_emulator.pytest_plugin import Rtdb

NOW = datetime.now(UTC).replace(microsecond=0)
# What RTDB's clock would have shown when the monotonic clock began.
NOW_AT_ZERO = int(SystemTiming().wall() - SystemTiming().mono())


def tick(number: int) -> str:
    """Some ticks of the last minute, one after another."""
    return to_text(round((NOW + timedelta(seconds=number - 30)).timestamp() * 1000))


class Instance:
    """One on the real store, that knows the time already.

    All have the same estimate of it. By one's own, another's release may be yet to come, and then its lock is held.
    """

    def __init__(self, function: Callable[[], object], **options: object) -> None:
        job = distributed_cron(NAME, "* * * * * *", lock_ttl=30, **options)(function)  # type: ignore[arg-type]  # any options
        settings = load(request_timeout=20, acquire_timeout=20, release_timeout=20)
        self.crons = FireCron(job, settings=settings, enabled=True, has_threads=False, crew=Inline(), chance=Chance())
        mono = int(SystemTiming().mono())
        self.crons.locks.clock.observe(NOW_AT_ZERO + mono, mono, mono)

    def turn(self, due: str | None) -> list[Result]:
        turn = self.crons.engine.lanes.attempt(self.crons.registry.get(NAME), due)
        assert go_on(self.crons.engine, turn) is None
        return turn.results


class Inline:
    is_full = False

    def submit(self, work: Callable[[], object]) -> None:
        work()

    def dismiss(self) -> None:
        """It has no threads."""

    def after_fork(self) -> None: ...


@pytest.fixture
def requests(rtdb: Rtdb) -> Callable[[], list[str]]:
    """The methods and places of all requests since the last call."""

    def since() -> list[str]:
        found = rtdb.emulator.requests.matching(namespace=rtdb.namespace)
        methods = [f"{request.method} {request.path.split('/')[1]}" for request in found]
        rtdb.emulator.requests.clear()
        return methods

    return since


CLAIM, HISTORY, READ = "PUT cron-locks", "PUT cron-runs", "GET cron-locks"


def test_a_winner_takes_three_or_four(requests: Callable[[], list[str]]) -> None:
    """Claim, release and record: three requests, and one more where somebody else ran the tick before."""
    one, other = Instance(lambda: None, grace=3_600), Instance(lambda: None, grace=3_600)
    requests()
    for number, instance in enumerate((one, one, other, one, other)):
        assert [result.outcome for result in instance.turn(tick(number))] == ["succeeded"]
        took = requests()
        knows_the_record = number in (0, 1)
        assert took == [CLAIM] * (1 if knows_the_record else 2) + [CLAIM, HISTORY]


@pytest.mark.parametrize("overlap", ["skip", "allow"])
@pytest.mark.parametrize("catch_up", ["skip", "all"])
def test_a_loser_takes_one(requests: Callable[[], list[str]], overlap: str, catch_up: str) -> None:
    """Who comes later is refused in one request: first of all, later on, and after having won."""
    one, other = (Instance(lambda: None, grace=3_600, overlap=overlap, catch_up=catch_up) for _ in range(2))
    for number in range(4):
        winner, loser = (one, other) if number % 2 else (other, one)
        winner.turn(tick(number))
        requests()
        assert [result.refusal is not None for result in loser.turn(tick(number))] == [True]
        assert requests() == [CLAIM]


def test_a_dead_heat_takes_two(rtdb: Rtdb, requests: Callable[[], list[str]]) -> None:
    """Who loses though both had seen the same record is refused in two requests at the most."""
    one, other = Instance(lambda: None, grace=3_600), Instance(lambda: None, grace=3_600)
    for number in range(3):
        counts: list[int] = []

        def lose(number: int = number, counts: list[int] = counts) -> None:
            requests()
            assert other.turn(tick(number))[0].refusal is not None
            counts.append(len(requests()))

        one = Instance(lose, grace=3_600)
        assert [result.outcome for result in one.turn(tick(number))] == ["succeeded"]
        assert counts in ([1], [2])


def test_allow_takes_two(requests: Callable[[], list[str]]) -> None:
    """With overlap="allow" there is no release: claim and record."""
    one = Instance(lambda: None, overlap="allow", grace=3_600)
    requests()
    for number in range(2):
        one.turn(tick(number))
        assert requests() == [CLAIM, HISTORY]


def test_a_lock_by_name_takes_three(requests: Callable[[], list[str]]) -> None:
    """With once_per_tick=False: acquire, delete, record."""
    one = Instance(lambda: None, once_per_tick=False, grace=3_600)
    requests()
    one.turn(tick(0))
    assert requests() == [CLAIM, "DELETE cron-locks", HISTORY]


def test_a_look_takes_one(requests: Callable[[], list[str]]) -> None:
    """A look for what others left behind reads the record, and that is all where there is nothing."""
    one, other = (Instance(lambda: None, on_abandoned="rerun", grace=3_600) for _ in range(2))
    one.turn(tick(0))
    requests()
    assert other.turn(None)[0].refusal is not None
    assert requests() == [READ]
