"""Jobs in a user's test: `FireCron.testing`, and the clock that goes with it."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from firecron import ConfigurationError, FireCron, Lease, NotAcquired, Run, Term, current_run, distributed_cron, leader
from firecron.errors import UnknownJob
from firecron.settings import load
from firecron.store import Snapshot
from firecron.testing import FakeClock, MemoryStore, Rehearsal

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


@pytest.mark.parametrize("fraction", [0.0001, 0.0005, 0.0007, 0.0009])
def test_a_leap_has_its_last_tick_however_the_clock_was_read(fraction: float) -> None:
    """RTDB's time comes in whole milliseconds: read within one, it is behind the test's clock by a part of it. The tick
    at the end of a leap is run nevertheless.
    """
    ran: list[int] = []
    job = distributed_cron("job", "0 * * * *", lock_ttl=60)(lambda: ran.append(1))
    with FireCron(job).testing("2026-11-18T10:30:00Z") as test:
        test.advance(60)
        test.clock.advance(fraction)
        test.run("job")
        ran.clear()
        test.move_to("2026-11-18T11:00:00Z")
        assert ran == [1]
        assert test.time < datetime(2026, 11, 18, 11, 0, 0, 2000, tzinfo=UTC)


def test_a_job_can_be_run_by_hand(digests: Digests) -> None:
    """A run by hand claims no tick, and what the job raised is in its result."""
    with FireCron(digests).testing(NINE) as test:
        result = test.run("fragile")
        assert result.outcome == "failed"
        assert isinstance(result.error, ConnectionError)
        assert [entry["trigger"] for entry in test.history("fragile")] == ["manual"]
        assert "slot" not in test.history("fragile")[0]


def test_a_rehearsal_shows_where_a_run_has_failed(digests: Digests) -> None:
    """By the key of its entry; a job that did not fail has left nothing, and one that is not there is unknown."""
    with FireCron(digests).testing(NINE) as test:
        test.run("fragile")
        test.run("send-digest")
        ((key, text),) = test.tracebacks("fragile").items()
        assert [key] == [
            str(entry["slot"]) for entry in test.history("fragile") if "slot" in entry
        ] or "-manual-" in key
        assert "in fragile" in text
        assert test.tracebacks("send-digest") == {}
        with pytest.raises(UnknownJob):
            test.tracebacks("nobody")


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
    with pytest.raises(ConfigurationError, match=r"lock_ttl of 'short' \(4 s\) is too short: it must be at least 6 s"):
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
    """Moving a clock back is refused with both times named, and so are a time without a zone and other texts."""
    clock = FakeClock(NINE)
    with pytest.raises(ValueError, match=r"shows 2026-11-18T09:00:00.*back to 2026-11-18T08:00:00Z"):
        clock.move_to("2026-11-18T08:00:00Z")
    with pytest.raises(ValueError, match="has no time zone"):
        clock.move_to("2026-11-18T10:00:00")
    with pytest.raises(ValueError, match=r"^'soon' is no instant: write 2026-11-18T09:00:00Z"):
        clock.move_to("soon")


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


class CountingStore(MemoryStore):
    """A store that counts how often something is copied out of it or into it."""

    copies = 0

    def _snapshot(self, path: str) -> Snapshot:
        self.copies += 1
        return super()._snapshot(path)  # where it copies out

    def _stored(self, node: object) -> object:
        self.copies += 1
        return super()._stored(node)  # and in


def test_a_year_of_a_daily_job_costs_what_its_runs_cost() -> None:
    """What is copied in a year grows with the runs of the job, not with the time that passes between them."""
    nightly = distributed_cron("nightly", "0 2 * * *", lock_ttl=60)(lambda: None)

    def now() -> int:
        return test.clock.now()

    store = CountingStore(now)
    test = Rehearsal(FireCron(nightly).registry.jobs(), "2026-01-01T00:00:00Z", store=store)
    with test:
        test.advance(timedelta(days=10))
        before = store.copies
        test.advance(timedelta(days=355))
        assert test.history("nightly")[-1]["slot"] == "2026-12-31T02:00:00Z"
        assert (store.copies - before) / 355 < 100
        assert "ticker.stalled" not in [event.slug for event in test.events]


def test_an_instance_in_a_rehearsal_is_alive() -> None:
    """However far the time leaps, the instance was seen within one heartbeat when the leap has ended."""
    nightly = distributed_cron("nightly", "0 2 * * *", lock_ttl=60)(lambda: None)
    with FireCron(nightly).testing("2026-01-01T00:00:00Z") as test:
        test.advance(timedelta(hours=1, seconds=1))
        nodes = test.store.get("cron-instances")
        assert isinstance(nodes, dict)
        (node,) = nodes.values()
        assert test.clock.now() - node["seenAt"] <= test.locks.settings.heartbeat * 1000


def test_a_tick_that_was_missed_is_caught_up_by_the_next_round() -> None:
    """A job that catches up does so within one recovery interval, as in production, however far the time leaps."""
    careful = distributed_cron("careful", "0 2 * * *", lock_ttl=60, catch_up="once")(lambda: None)
    with FireCron(careful).testing("2026-11-18T01:59:00Z") as test:
        test.advance(timedelta(hours=1))
        node = test.store.get("cron-locks/careful")
        assert isinstance(node, dict)
        # As if nobody had been there this morning.
        earlier = {name: _a_day_before(value) for name, value in node.items()}
        test.store.set("cron-locks/careful", earlier)
        test.store.set("cron-runs/careful", None)
        until = test.clock.now() + test.locks.settings.recovery_interval * 1000
        test.advance(timedelta(hours=2))
        (run,) = [entry for entry in test.history("careful") if entry["outcome"] == "succeeded"]
        assert run["trigger"] == "catch_up"
        assert isinstance(run["startedAt"], int)
        assert run["startedAt"] <= until


def _a_day_before(value: object) -> object:
    if isinstance(value, int) and value > 1_000_000_000_000:
        return value - 86_400_000
    return value.replace("2026-11-18", "2026-11-17") if isinstance(value, str) else value


@pytest.mark.parametrize("name", ["typo", ""])
def test_a_job_that_is_not_there_has_no_outcomes(name: str, digests: Digests) -> None:
    """Asking for the outcomes or the history of a job that there isn't is an error that names those that there are."""
    with FireCron(digests).testing(NINE) as test:
        assert test.outcomes("send-digest") == []
        for ask in (test.outcomes, test.history):
            with pytest.raises(UnknownJob, match=f"no job '{name}'.*send-digest"):
                ask(name)


def test_a_jobs_own_sleeping_can_be_virtual(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a test lets `time.sleep` move the clock, a job sleeps in virtual time, and its lease is renewed."""

    @distributed_cron("slow", "0 9 * * *", lock_ttl=60)
    def slow() -> None:
        time.sleep(3600)

    with FireCron(slow).testing("2026-11-18T08:59:00Z") as test:
        monkeypatch.setattr("time.sleep", test.clock.sleep)
        test.move_to(NINE)
        assert test.outcomes("slow") == ["succeeded"]
        assert [run["durationMs"] for run in test.history("slow")] == [3_600_000]


def test_a_leader_is_elected_and_deposed() -> None:
    """The body runs on a thread from `elect` on, sees that its term is lost, and `depose` waits for its end."""
    ended: list[bool] = []
    begun = threading.Event()

    @leader("price-feed", role="feeds")
    def price_feed(term: Term) -> None:
        begun.set()
        term.lost.wait(20)
        ended.append(bool(term.lost))

    crons = FireCron(price_feed)
    with crons.testing("2026-11-18T09:00:00Z") as test:
        test.advance(3600)
        assert test.outcomes("price-feed") == []
        first = test.elect("price-feed")
        assert begun.wait(20)
        test.depose("price-feed")
        begun.clear()
        assert (ended, test.outcomes("price-feed")) == ([True], ["lost"])
        second = test.elect("price-feed")
        assert second.fence > first.fence
        assert begun.wait(20)
    assert ended == [True, True]
    assert [entry["fence"] for entry in test.history("price-feed")] == [first.fence, second.fence]


def test_an_async_leader_is_cancelled_by_its_deposition() -> None:
    """An async body runs on a loop of its own thread, and is cancelled when its term is lost."""
    told: list[str] = []

    @leader("price-feed")
    async def price_feed(term: Term) -> None:
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            told.append("cancelled")
            raise

    with FireCron(price_feed).testing() as test:
        test.elect("price-feed")
        test.depose("price-feed")
        test.depose("price-feed")
        assert test.outcomes("price-feed") == ["lost"]


def test_a_leader_that_can_not_be_elected_says_why() -> None:
    """Where another holder leads, or the name is paused, `elect` raises the refusal."""

    @leader("price-feed")
    def price_feed() -> None: ...

    with FireCron(price_feed).testing() as test:
        test.locks.pause("price-feed", why="a drill")
        with pytest.raises(NotAcquired, match=r"is paused by local/\w+ \(a drill\)"):
            test.elect("price-feed")
    with pytest.raises(UnknownJob):
        test.outcomes("another")


def test_a_run_is_cancelled_as_an_operator_would() -> None:
    """A job that listens ends by it as time passes, and its history has the reason. Without a run it says False."""
    tries: list[bool] = []

    @distributed_cron("import", "0 9 * * *", lock_ttl=60, retries=3)
    def work(run: Run) -> None:
        tries.append(test.cancel("import", "wrong input"))
        for _ in range(100):
            run.check()
            test.clock.advance(1)

    with FireCron(work).testing("2026-11-18T08:59:00Z") as test:
        assert not test.cancel("import")
        test.move_to("2026-11-18T10:00:00Z")
        assert (tries, test.outcomes("import")) == ([True], ["cancelled"])
        [entry] = test.history("import")
        assert entry["error"] == "wrong input"
        assert not test.cancel("import")
        with pytest.raises(UnknownJob):
            test.cancel("export")


class Feed:
    """A job that fails while its feed is away, and how often it was called."""

    def __init__(self) -> None:
        self.is_away = False
        self.calls: list[str] = []

    @distributed_cron("feed", "0 9 * * *", alert_after=1, owner="team feeds", lock_ttl=60)
    def read(self, run: Run) -> None:
        self.calls.append(run.idempotency_key)
        if self.is_away:
            raise ConnectionError("the feed is away")


def test_an_operator_asks_for_a_run() -> None:
    """It is made at once; of a missed tick, it claims that; what would be refused is not asked for."""
    feed = Feed()
    with FireCron(feed).testing("2026-11-18T08:00:00Z") as test:
        assert test.ask("feed", why="a look") is None
        [entry] = test.history("feed")
        assert (entry["outcome"], entry["trigger"]) == ("succeeded", "manual")
        test.locks.pause("feed", until=test.time + timedelta(hours=2))
        assert test.ask("feed") == "it is paused"
        test.advance(3 * 3_600)
        assert test.ask("feed", slot="2026-11-18T09:00:00Z") is None
        assert feed.calls[1:] == ["feed:2026-11-18T09:00:00Z"]
        feed.is_away = True
        test.move_to("2026-11-19T09:00:00Z")
        feed.is_away = False
        assert test.ask("feed", resume="2026-11-19T09:00:00Z") is None
        assert test.outcomes("feed")[-1] == "succeeded"
        with pytest.raises(UnknownJob):
            test.ask("fed")


def test_an_ask_waits_for_the_lock_in_a_rehearsal() -> None:
    """The run is made as time passes, once the lock is free."""
    feed = Feed()
    with FireCron(feed).testing("2026-11-18T08:00:00Z") as test:
        lease = test.locks.acquire("feed", 60)
        assert isinstance(lease, Lease)
        assert test.ask("feed") is None
        test.advance(20)
        assert feed.calls == []
        lease.release()
        test.advance(35)
        assert len(feed.calls) == 1


def test_a_rehearsal_says_what_people_are_told() -> None:
    """A run that makes the job fail, and one that ends that; nothing while it is muted, but what is true after it."""
    feed = Feed()
    with FireCron(feed).testing("2026-11-18T08:00:00Z") as test:
        told = test.notify()
        assert test.notify() is told
        test.move_to("2026-11-18T09:00:00Z")
        assert told == []
        feed.is_away = True
        test.move_to("2026-11-19T09:00:00Z")
        [message] = told
        assert (message["event"], message["job"], message["owner"]) == ("job.failing", "feed", "team feeds")
        assert "the feed is away" in str(message["error"])
        feed.is_away = False
        test.move_to("2026-11-20T09:00:00Z")
        assert [one["event"] for one in told[1:]] == ["job.recovered"]
        test.mute("feed", "2026-11-21T12:00:00Z", "the feed moves")
        feed.is_away = True
        test.move_to("2026-11-21T11:00:00Z")
        assert len(told) == 2
        test.move_to("2026-11-21T12:10:00Z")
        assert [one["event"] for one in told[2:]] == ["job.failing"]


def test_an_unmuted_job_is_told_of() -> None:
    """And there is nothing to unmute after that."""
    feed = Feed()
    feed.is_away = True
    with FireCron(feed).testing("2026-11-18T08:00:00Z") as test:
        told = test.notify()
        test.mute("feed", "2026-11-25T00:00:00Z")
        test.move_to("2026-11-18T09:00:00Z")
        assert told == []
        assert [test.unmute("feed"), test.unmute("feed")] == [True, False]
        test.move_to("2026-11-19T09:00:00Z")
        assert [one["event"] for one in told] == ["job.failing"]


def test_another_process_goes_on_telling() -> None:
    """After a crash the messages go to the same list: the rerun of the dead run fails."""

    @distributed_cron("pay", "0 9 * * *", lock_ttl=60, alert_after=1, on_abandoned="rerun")
    def pay(run: Run) -> None:
        run.step("charge", lambda: 1)
        raise OSError("no bank")

    with FireCron(pay).testing("2026-11-18T08:59:00Z") as test:
        told = test.notify()
        test.crash_after("charge")
        test.move_to("2026-11-18T09:10:00Z")
        assert [one["event"] for one in told] == ["job.failing"]
        assert "no bank" in str(told[0]["error"])


def test_what_no_run_says_is_found_by_a_look() -> None:
    """A process that was frozen for hours has missed its tick, which nobody says before a look."""
    with FireCron(Feed()).testing("2026-11-18T08:00:00Z") as test:
        told = test.notify()
        test.clock.advance(3 * 3_600)
        assert told == []
        test.advance(1)
        assert [one["event"] for one in told] == ["job.late"]
