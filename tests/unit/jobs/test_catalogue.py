"""The catalogue's entry: what is written of a job, and what is read back, whatever the node holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from firecron import distributed_cron
from firecron.cron.schedule import Schedule, known_exceptions
from firecron.jobs.catalogue import CatalogueEntry, changed, declared, digest, read_declared
from firecron.jobs.decorator import declared as options_of
from firecron.store import SERVER_TIME


def entry(line: str | None = "0 9 * * *", where: str = "jobs.Jobs.digest", **options: object) -> CatalogueEntry:
    def job() -> None: ...

    declare = distributed_cron("digest", line, **options)  # type: ignore[arg-type]  # any options
    (found,) = options_of(declare(job))
    return declared(found, where=where, ticks=True, service="api", revision="api-00042-abc")


def test_an_entry_says_what_the_job_declares() -> None:
    """Durations are seconds, as in the program, and what isn't there isn't stored."""
    assert entry().to_node() == {
        "line": "0 9 * * *", "timezone": "UTC", "grace": 60, "overlap": "skip", "catchUp": "skip", "oncePerTick": True,
        "disabled": False, "alertAfter": 1, "where": "jobs.Jobs.digest", "ticks": True, "service": "api",
        "revision": "api-00042-abc",
    }  # fmt: skip
    found = entry(None, every=2700, starting=datetime(2026, 11, 18, 9, tzinfo=UTC), role="mail", expected_runtime=0.5)
    node = found.to_node()
    assert (node["every"], node["starting"], node["role"]) == (2700, "2026-11-18T09:00:00Z", "mail")
    assert node["expectedRuntime"] == 0.5
    assert not {"line", "timezone"} & node.keys()
    node = entry(
        catch_up="once", catch_up_window=3_600, renew=False, description="Mails.", on_abandoned="rerun", retries=3,
        lock_ttl=30, max_runtime=600, hold_at_least=5,
    ).to_node()  # fmt: skip
    assert {name: node[name] for name in node.keys() - entry().to_node().keys()} == {
        "onAbandoned": "rerun", "catchUpWindow": 3_600, "retries": 3, "ttl": 30, "maxRuntime": 600, "holdAtLeast": 5,
        "renew": False, "description": "Mails.",
    }  # fmt: skip
    assert len(entry(where="x" * 501).where) == 500


@pytest.mark.parametrize(
    "made",
    [
        entry(),
        entry(timezone="Europe/Berlin", disabled=True, overlap="queue", alert_after=7, catch_up="all"),
        entry(once_per_tick=False, expected_runtime=timedelta(seconds=90), grace=0.1),
        entry(lock_ttl=90, hold_at_least=90, renew=False, retries=100, max_runtime=0.1, on_abandoned="rerun"),
        entry(catch_up="once", catch_up_window=0),
        entry(description="Mails.", owner="mail", runbook="https://wiki.example.com/digest"),
        entry(None, every=2700),
        entry(None, every=61, starting=datetime(1969, 12, 31, 9, tzinfo=UTC)),
        replace(entry(), ticks=False, since=1, declared_at=2, revision=None),
    ],
)
def test_what_was_written_is_read(made: CatalogueEntry) -> None:
    """An entry comes back as it was, also a schedule from before 1970."""
    assert read_declared("digest", made.to_node()) == made


@pytest.mark.parametrize(
    "node",
    [
        None,
        "x",
        {},
        {"line": 5},
        {"line": "soon"},
        {"line": "0 9 * * *", "timezone": "Mars/Olympus"},
        {"every": 0},
        {"every": -60},
        {"every": 1e300},
        {"every": 60, "starting": "soon"},
    ],
)
def test_an_entry_without_a_schedule_is_none(node: object) -> None:
    """Nothing is judged by a guess."""
    assert read_declared("digest", node) is None


def test_odd_fields_have_their_defaults() -> None:
    """What somebody has typed into the console stops no tool."""
    odd = {
        "grace": -1, "overlap": 5, "catchUp": [], "oncePerTick": "no", "disabled": 1, "expectedRuntime": "1h",
        "alertAfter": -3, "role": {}, "where": 7, "ticks": 0, "service": None, "revision": 9, "since": "x",
        "declaredAt": True, "onAbandoned": 1, "catchUpWindow": "1h", "retries": -1, "ttl": [], "maxRuntime": 0,
        "holdAtLeast": -2, "renew": 0, "description": 5, "owner": {}, "runbook": "http://wiki.example.com",
    }  # fmt: skip
    found = read_declared("digest", {"line": "0 9 * * *", **odd})
    assert found is not None
    assert found == replace(entry(), where="", service="local", revision=None)


def test_an_entry_without_its_later_fields() -> None:
    """What security rules of a time before these fields may refuse is left out, and nothing else."""
    whole = entry(
        catch_up="once", catch_up_window=9, retries=1, lock_ttl=9, max_runtime=9, hold_at_least=9, renew=False,
        on_abandoned="rerun", owner="mail", grace=9, role="mail",
    )  # fmt: skip
    assert whole.without() == entry(catch_up="once", grace=9, role="mail")
    for bounded in (entry(until=START, starting=START), entry(None, every=60, until=START, starting=START)):
        older = bounded.without().schedule
        assert (older.until, older.starting, older.every) == (None, START, bounded.schedule.every)


def test_the_options_that_have_their_default_are_named() -> None:
    """By the names of the fields, whatever the schedule is, and whoever declares it."""
    every = entry("* * * * *", timezone="Asia/Tokyo", owner="mail")
    assert every.usual() == list(every.options())
    changed = entry(grace=60, lock_ttl=60, retries=2, disabled=True, renew=False)
    assert {*every.usual()} - {*changed.usual()} == {"disabled", "retries", "renew"}


START = datetime(2026, 11, 18, 9, tzinfo=UTC)


def is_weekend(day: date) -> bool:
    return day.weekday() >= 5


@pytest.mark.parametrize(
    "make",
    [
        lambda: Schedule("0 9 * * *"),
        lambda: Schedule("0 9 * * 1"),
        lambda: Schedule("@hourly"),
        lambda: Schedule("0 9 * * *", "Europe/Berlin"),
        lambda: Schedule(every=2700),
        lambda: Schedule(every=2701),
        lambda: Schedule(every=2700, starting=START),
        lambda: Schedule("0 9 * * *", starting=START),
        lambda: Schedule("0 9 * * *", until=START),
        lambda: Schedule("0 9 * * *", "Asia/Tokyo", starting=START, until=START + timedelta(days=1)),
        lambda: Schedule(every=2700, until=START),
        lambda: Schedule("0 9 * * *", except_days=[date(2026, 12, 25)]),
        lambda: Schedule("0 9 * * *", until=START, except_days={"weekend": is_weekend}),
    ],
)
def test_a_digest_is_that_of_the_schedule_alone(make: Callable[[], Schedule]) -> None:
    """Programs and readers of the catalogue have the same one for a schedule, and another for any other."""
    schedule = make()
    found = digest(schedule)
    assert len(found) == 4
    assert found == digest(make())
    excluded = known_exceptions(schedule, START.date())
    read = read_declared("digest", replace(entry(), schedule=schedule, excluded=excluded).to_node())
    assert read is not None
    assert digest(read.schedule) == found
    others = [Schedule("0 9 * * 2"), Schedule("0 9 * * *", "Asia/Tokyo"), Schedule(every=60), Schedule("* * * * *")]
    assert found not in map(digest, others)


def test_days_that_pass_make_no_other_schedule() -> None:
    """Instances that started months apart tell other dates of one schedule: `since` stays, and the entry for a time."""

    @distributed_cron("digest", "0 9 * * *", except_days={"weekend": is_weekend})
    def job() -> None: ...

    (options,) = options_of(job)

    def told(today: date) -> CatalogueEntry:
        return declared(options, where="", ticks=True, service="api", revision=None, today=today)

    stored = {**told(date(2026, 11, 18)).to_node(), "since": 1, "declaredAt": 2}
    assert str(stored["exceptDays"]).startswith("2026-10-17 weekend,2026-10-18 weekend,2026-10-24")
    assert str(stored["exceptDays"]).endswith(",2027-05-09 weekend")
    assert changed(told(date(2026, 11, 18)), stored) is None
    assert changed(told(date(2026, 12, 24)), stored) is None, "most of these dates are known"
    later = changed(told(date(2027, 4, 1)), stored)
    assert later is not None
    assert later["since"] == 1
    assert digest(told(date(2026, 11, 18)).schedule) == digest(told(date(2027, 4, 1)).schedule)
    another = Schedule("0 9 * * *", except_days=[START.date()])
    other = changed(replace(told(date(2026, 11, 18)), schedule=another), stored)
    assert other is not None
    assert other["since"] == SERVER_TIME
    older = told(date(2026, 11, 18)).without()
    assert (older.schedule, older.excluded) == (Schedule("0 9 * * *"), None)


def test_digests_stay_the_same() -> None:
    """Instances of all versions have to agree on them."""
    found = [Schedule("0 9 * * *", "America/New_York"), Schedule(every=2700, starting=START)]
    assert [digest(schedule) for schedule in found] == ["kz1W", "ifYZ"]


@pytest.mark.parametrize("value", [1e308, 10**400, 1e10, 0, -0.5, True, float("inf"), float("nan"), "60"])
def test_a_duration_beyond_reason_is_not_known(value: object) -> None:
    """One job's typing error doesn't hide all the others."""
    found = read_declared("digest", {"line": "0 9 * * *", "grace": value, "expectedRuntime": value})
    assert found is not None
    assert (found.grace, found.expected_runtime) == (60_000, None)
    longest = read_declared("digest", {"line": "0 9 * * *", "grace": 10**9})
    assert longest is not None
    assert (longest.grace, longest.alert_after) == (10**12, 1)
