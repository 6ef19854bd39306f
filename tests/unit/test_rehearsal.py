"""Jobs in a user's test: `FireCron.testing`, and the clock that goes with it."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta

import pytest

from firecron import ConfigurationError, FireCron, Run, current_run, distributed_cron
from firecron.settings import load
from firecron.testing import FakeClock

NINE = "2026-11-18T09:00:00Z"


class Digests:
    """A service as a user writes it."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    @distributed_cron("send-digest", "0 9 * * *", lock_ttl=60)
    def send(self, run: Run) -> None:
        self.sent.append(run.idempotency_key)

    @distributed_cron("sweep", "*/15 * * * *", lock_ttl=60, role="worker")
    async def sweep(self) -> None:
        await asyncio.sleep(0)
        run = current_run()
        assert run is not None
        self.sent.append(run.idempotency_key)

    @distributed_cron("fragile", "@hourly", lock_ttl=60, retries=2, retry_backoff=10)
    def fragile(self) -> None:
        raise ConnectionError("no mail server")


@pytest.fixture
def digests(monkeypatch: pytest.MonkeyPatch) -> Digests:
    """The service, where nothing in the environment names a database."""
    for variable in ("FIRECRON_DATABASE_URL", "FIREBASE_DATABASE_EMULATOR_HOST", "RUNTIME_INSTANCE"):
        monkeypatch.delenv(variable, raising=False)
    return Digests()


def test_a_job_runs_when_the_test_says_that_it_is_time(digests: Digests) -> None:
    """Moving the clock to a tick runs the job, on the test's own thread, and one millisecond before it doesn't."""
    before = threading.active_count()
    with FireCron(digests).testing("2026-11-18T08:59:00Z") as test:
        test.move_to("2026-11-18T08:59:59.999Z")
        assert "send-digest:2026-11-18T09:00:00Z" not in digests.sent
        test.move_to(NINE)
        assert "send-digest:2026-11-18T09:00:00Z" in digests.sent
        assert test.outcomes("send-digest") == ["succeeded"]
    assert threading.active_count() == before


def test_every_tick_on_the_way_is_run_once(digests: Digests) -> None:
    """Two hours in one step run a quarter-hourly job eight times, whatever its role, and an hourly one twice."""
    with FireCron(digests).testing(NINE) as test:
        test.advance(timedelta(hours=2))
        assert len(set(test.outcomes("sweep"))) == 1
        assert len([key for key in digests.sent if key.startswith("sweep:")]) == 8
        assert test.outcomes("fragile") == ["failed", "failed"]
        assert test.time >= datetime(2026, 11, 18, 11, tzinfo=UTC)


def test_a_job_can_be_run_by_hand(digests: Digests) -> None:
    """A run by hand claims no tick, and what the job raised is in its result."""
    with FireCron(digests).testing(NINE) as test:
        result = test.run("fragile")
        assert result.outcome == "failed"
        assert isinstance(result.error, ConnectionError)
        assert [entry["trigger"] for entry in test.history("fragile")] == ["manual"]
        assert "slot" not in test.history("fragile")[0]


def test_a_rehearsal_leaves_the_firecron_alone(digests: Digests) -> None:
    """What happens in a rehearsal is not in the FireCron that it was made of."""
    crons = FireCron(digests)
    with crons.testing(NINE) as test:
        test.run("send-digest")
        assert crons.registry.state("send-digest") == "idle"
        assert test.locks is not crons.locks


def test_a_rehearsal_has_the_settings_of_its_firecron(digests: Digests) -> None:
    """Prefix, roles and history limit of a FireCron hold in its rehearsal, whatever the environment says by then."""
    crons = FireCron(digests, settings=load(prefix="ops/cron", roles="web", history_limit=3))
    with crons.testing("2026-11-18T08:59:00Z") as test:
        test.move_to(NINE)
        assert test.outcomes("send-digest") == ["succeeded"]
        assert test.outcomes("sweep") == [], "it wants the role worker"
        assert test.store.keys("", test.locks.deadline(1)) == []
        assert isinstance(test.store.get("ops/cron/cron-runs/send-digest"), dict)
        assert test.locks.settings.history_limit == 3


def test_a_job_that_can_not_work_refuses_the_rehearsal() -> None:
    """A ttl too short for the margin is refused as at a start, and one that a smaller margin allows is not."""
    short = distributed_cron("short", "0 9 * * *", lock_ttl=4)(lambda: None)
    with pytest.raises(ConfigurationError, match=r"lock_ttl of 'short' \(4 s\) is too short for margin \(1 s\)"):
        FireCron(short).testing(NINE)
    with FireCron(short, settings=load(margin=0.5)).testing("2026-11-18T08:59:00Z") as test:
        test.move_to(NINE)
        assert test.outcomes("short") == ["succeeded"]


def test_a_rehearsal_warns_of_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a start would say of an odd job or variable is no event of a rehearsal."""
    monkeypatch.setenv("FIRECRON_ROLE", "mail")
    odd = distributed_cron("odd", "* * * * *", lock_ttl=90)(lambda: None)
    with FireCron(odd).testing(NINE) as test:
        test.advance(90)
        assert not [event for event in test.events if event.slug in ("job.suspicious", "settings.unknown")]


def test_async_jobs_run_in_an_async_test(digests: Digests) -> None:
    """Where the test's own thread has a running loop, an async job still runs to its end."""

    async def the_test() -> None:
        with FireCron(digests).testing(NINE) as test:
            assert test.run("sweep").outcome == "succeeded"

    asyncio.run(the_test())


@pytest.mark.parametrize(
    "at", ["2026-11-18T10:00:00+01:00", datetime(2026, 11, 18, 9, tzinfo=UTC), "2026-11-18T09:00:00Z"]
)
def test_the_clock_shows_what_it_was_set_to(at: str | datetime) -> None:
    """A clock can be set by a text or a datetime of any zone, and shows UTC."""
    clock = FakeClock(at)
    assert clock.time == datetime(2026, 11, 18, 9, tzinfo=UTC)
    clock.advance(1.5)
    clock.advance(timedelta(seconds=0.5))
    assert clock.time == datetime(2026, 11, 18, 9, 0, 2, tzinfo=UTC)


def test_the_clock_goes_forward_only() -> None:
    """Moving a clock back is refused with both times named, and so is a time without a zone."""
    clock = FakeClock(NINE)
    with pytest.raises(ValueError, match=r"shows 2026-11-18T09:00:00.*back to 2026-11-18T08:00:00Z"):
        clock.move_to("2026-11-18T08:00:00Z")
    with pytest.raises(ValueError, match="has no time zone"):
        clock.move_to("2026-11-18T10:00:00")


@pytest.mark.parametrize("retries", [0, 2])
def test_leases_are_renewed_while_time_passes(retries: int) -> None:
    """A job that takes longer than its ttl, or waits so long for its next try, keeps its lock as it would in
    production.
    """
    tries: list[int] = []

    @distributed_cron("long", "0 * * * *", lock_ttl=60, retries=retries, retry_backoff=60)
    def work() -> None:
        tries.append(1)
        if len(tries) <= retries:
            raise ValueError("not yet")
        if not retries:
            test.clock.advance(600)

    with FireCron(work).testing("2026-11-18T08:59:00Z") as test:
        test.move_to("2026-11-18T09:30:00Z")
        assert test.outcomes("long") == ["succeeded"]
        assert len(tries) == retries + 1
