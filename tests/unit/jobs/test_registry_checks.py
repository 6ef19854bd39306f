"""What a start says of odd jobs and variables: a WARNING with what to write, once in a process."""

from __future__ import annotations

import logging
import re
from datetime import timedelta

import pytest
from tests.unit.test_app import Heard, new_crons

from firecron import FireCron, distributed_cron, scheduled
from firecron.jobs import registry as checks


@pytest.fixture(autouse=True)
def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was said yet."""
    monkeypatch.setattr(checks, "WARNED", set())


def crons_of(line: str, settings: dict[str, object] | None = None, /, **options: object) -> tuple[FireCron, Heard]:
    odd = distributed_cron("odd", line, **options)(lambda: None)  # type: ignore[arg-type]  # they are known below
    return new_crons(odd, enabled=True, **settings or {})


def warnings(update: Heard) -> list[str]:
    found = [event for event in update if event.slug in ("job.suspicious", "settings.unknown")]
    assert {event.level for event in found} <= {logging.WARNING}
    return [event.message for event in found]


def said(line: str, settings: dict[str, object] | None = None, /, **options: object) -> list[str]:
    """What the start says of a job, and nothing before it."""
    crons, update = crons_of(line, settings, **options)
    assert update == []
    with crons:
        return warnings(update)


@pytest.mark.parametrize(
    ("line", "options", "settings"),
    [
        ("* * * * *", {}, {}),
        ("0 9 * * *", {}, {}),
        ("0 9 * * *", {"lock_ttl": 300}, {}),
        ("0 */2 * * *", {"lock_ttl": timedelta(hours=2)}, {}),
        ("*/40 * * * * *", {"lock_ttl": 20}, {}),
        ("* * * * * *", {"lock_ttl": 6}, {}),
        ("*/5 * * * * *", {"lock_ttl": 6}, {}),
        ("*/5 * * * * *", {"lock_ttl": 30, "hold_at_least": 30}, {}),
        ("* * * * *", {"lock_ttl": 120}, {"margin": 20}),
        ("* * * * *", {"lock_ttl": 61, "overlap": "allow"}, {}),
        ("* * * * *", {"lock_ttl": 60_000, "overlap": "allow"}, {}),
        ("* * * * *", {"lock_ttl": 61, "once_per_tick": False}, {}),
    ],
)
def test_what_can_not_be_better_is_not_warned_of(
    line: str, options: dict[str, object], settings: dict[str, object]
) -> None:
    """The default does from a minute on, and a ttl that is too long gets no WARNING where none shorter is allowed."""
    assert [one for one in said(line, settings, **options) if "lock_ttl" in one] == []


@pytest.mark.parametrize(
    ("line", "options", "settings", "interval", "write"),
    [
        ("* * * * *", {"lock_ttl": 61}, {}, "60 s", "write lock_ttl=60: it is renewed"),
        ("*/10 * * * *", {"lock_ttl": 900}, {}, "600 s", "write lock_ttl=60: it is renewed"),
        ("*/10 * * * * *", {}, {}, "10 s", "write lock_ttl=10: it is renewed"),
        ("*/40 * * * * *", {"lock_ttl": 21}, {}, "20 s", "write lock_ttl=20: it is renewed"),
        ("*/5 * * * * *", {"lock_ttl": 10}, {}, "5 s", "write lock_ttl=6: it is renewed"),
        ("*/5 * * * * *", {"lock_ttl": 10}, {"margin": 0.5}, "5 s", "write lock_ttl=5: it is renewed"),
        ("*/5 * * * * *", {"lock_ttl": 40, "hold_at_least": 30}, {}, "5 s", "write lock_ttl=30: it is renewed"),
        ("* * * * *", {"lock_ttl": 90, "renew": False}, {}, "60 s", "write lock_ttl=60, and leave renew=False out"),
    ],
)
def test_a_ttl_longer_than_the_interval_is_warned_of(
    line: str, options: dict[str, object], settings: dict[str, object], interval: str, write: str
) -> None:
    """The WARNING names the interval and says what to write, and what it says gets none itself."""
    (message,) = [one for one in said(line, settings, **options) if "lock_ttl" in one]
    assert f"is longer than the interval of its ticks ({interval}), so an instance that dies in a run" in message
    assert write in message
    (better,) = re.findall(r"write lock_ttl=(\d+)", message)
    mended = {**options, "lock_ttl": int(better), "renew": True}
    assert [one for one in said(line, settings, **mended) if "lock_ttl" in one] == []


@pytest.mark.parametrize("options", [{}, {"once_per_tick": False}])
@pytest.mark.parametrize(
    ("ttl", "is_warned_of"), [(3_599, False), (3_600, True), (60_000, True), (timedelta(hours=16), False)]
)
def test_a_bare_number_of_an_hour_may_be_milliseconds(
    ttl: float | timedelta, is_warned_of: bool, options: dict[str, object]
) -> None:
    """A bare number from 3600 on is asked about, with its hours and what to write; a timedelta says its unit."""
    found = said("0 9 * * *", lock_ttl=ttl, **options)
    assert bool(found) is is_warned_of
    if ttl == 60_000:
        assert found == [
            '"odd": lock_ttl=60000 is 16.7 hours. Is it in milliseconds? Then write lock_ttl=60, which is renewed '
            "while the job runs. If not, write timedelta(seconds=60000)"
        ]


@pytest.mark.parametrize(
    "option", ["hold_at_least", "catch_up_window", "grace", "retry_backoff", "max_runtime", "jitter"]
)
def test_a_bare_number_of_any_duration_may_be_milliseconds(option: str) -> None:
    """Every duration that is hardly meant in seconds is asked about by its name; the same as a timedelta is not."""
    hours = timedelta(seconds=60_000)
    others = {"lock_ttl": hours, "grace": hours, "catch_up": "once"}
    assert said("0 9 * * *", **others) == []
    assert said("0 9 * * *", **{**others, option: hours}) == []
    assert said("0 9 * * *", **{**others, option: 60_000}) == [
        f'"odd": {option}=60000 is 16.7 hours. Is it in milliseconds? Then write {option}=60. If not, write '
        "timedelta(seconds=60000)"
    ]


def test_even_distances_are_checked_as_lines_are() -> None:
    """A ttl or a jitter that is longer than `every` gets the WARNING of a line, and what fits gets none."""
    assert said_of(every=timedelta(days=14)) == said_of(every=60) == []
    (ttl,) = said_of(every=30)
    assert "lock_ttl (60 s) is longer than the interval of its ticks (30 s)" in ttl
    jitter, _ = said_of(every=45, jitter=50)
    assert "jitter (50 s) is longer than the interval of its ticks (45 s)" in jitter
    (doubt,) = said_of(every=60_000)
    assert doubt.startswith('"odd": every=60000 is 16.7 hours. Is it in milliseconds?')


def said_of(**options: object) -> list[str]:
    odd = distributed_cron("odd", **options)(lambda: None)  # type: ignore[arg-type]  # they are known above
    crons, update = new_crons(odd, enabled=True)
    with crons:
        return warnings(update)


def test_an_uneven_step_gets_a_warning_and_an_even_one_none() -> None:
    """The start names the step and `every`, which mends it."""
    (message,) = said("*/45 * * * *")
    assert "*/45 is uneven" in message
    assert message.endswith("for a tick every 45 minutes, write every=timedelta(minutes=45) instead of the line")
    assert said("*/15 * * * *") == said_of(every=timedelta(minutes=45)) == []


@pytest.mark.parametrize("options", [{"jitter": 60_000, "grace": timedelta(hours=20)}, {"lock_ttl": 60_000}], ids=str)
def test_milliseconds_are_the_one_thing_that_is_said(options: dict[str, object]) -> None:
    """A jitter or ttl that may be milliseconds is not called longer than the interval as well."""
    (message,) = said("* * * * *", **options)
    assert "milliseconds" in message


@pytest.mark.parametrize(
    ("line", "options", "is_warned_of"),
    [
        ("* * * * *", {"jitter": 60}, False),
        ("* * * * *", {"jitter": 61, "grace": 90}, True),
        ("* * * * *", {"jitter": 61, "grace": 90, "overlap": "allow"}, True),
        ("* * * * *", {"jitter": 61, "grace": 90, "once_per_tick": False}, True),
        ("* * * * *", {"jitter": 61, "grace": 90, "once_per_tick": False, "lock_ttl": 120}, True),
        ("*/20 * * * * *", {"jitter": 20, "lock_ttl": 20}, False),
        ("*/20 * * * * *", {"jitter": 21, "lock_ttl": 20}, True),
        ("0 9 * * *", {"jitter": timedelta(hours=1), "grace": timedelta(hours=2)}, False),
    ],
)
def test_a_jitter_longer_than_the_interval_is_warned_of(
    line: str, options: dict[str, object], is_warned_of: bool
) -> None:
    """A tick that may start before the one ahead of it is warned of, whether there is a lock or not."""
    found = said(line, **options)
    assert [message for message in found if "jitter" in message] == found
    assert bool(found) is is_warned_of


def test_a_warning_comes_once_in_a_process() -> None:
    """Another start, another FireCron and a job that comes while others tick repeat no WARNING, and add their own."""
    crons, update = crons_of("* * * * *", lock_ttl=90)
    for _ in range(2):
        with crons:
            pass
    other, heard_by_other = crons_of("* * * * *", lock_ttl=90)
    with other:
        other.registry.add(distributed_cron("late", "* * * * *", lock_ttl=90)(lambda: None))
    assert [message[:6] for message in warnings(update)] == ['"odd":']
    assert [message[:7] for message in warnings(heard_by_other)] == ['"late":']


def test_looking_alone_warns_of_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `firecron run` does before a run refuses what can't work, and warns of nothing."""
    monkeypatch.setenv("FIRECRON_ROLE", "mail")
    crons, update = crons_of("* * * * *", lock_ttl=90)
    crons.check_jobs()
    assert update == []


def test_a_variable_that_is_no_setting_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start names a FIRECRON_… variable without effect, and the setting that may have been meant."""
    monkeypatch.setenv("FIRECRON_ROLE", "mail")
    assert said("0 9 * * *") == ["FIRECRON_ROLE is not a setting, and has no effect: did you mean FIRECRON_ROLES?"]


def test_a_command_that_does_not_tick_warns_of_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a command of Flask or Django, where jobs are not meant to tick, nothing is said of them."""
    monkeypatch.setattr("sys.argv", ["flask", "routes"])
    assert said("* * * * *", lock_ttl=90) == []


@pytest.mark.parametrize(
    ("options", "better"),
    [
        ({}, None),
        ({"lock_ttl": timedelta(hours=1)}, None),
        ({"lock_ttl": timedelta(seconds=3_601)}, "write lock_ttl=60: it is renewed"),
        ({"lock_ttl": timedelta(hours=2), "renew": False}, "write lock_ttl=60, and leave renew=False out: it is"),
    ],
    ids=str,
)
def test_a_stored_job_with_a_ttl_over_an_hour_gets_a_warning(options: dict[str, object], better: str | None) -> None:
    """Because an unlock in the console is seen only when it is over; a job with a line of its own gets none."""
    assert said("0 9 * * *", **options) == []
    odd = scheduled("odd", **options)(lambda: None)  # type: ignore[arg-type]  # they are known above
    crons, update = new_crons(odd, enabled=True)
    with crons:
        found = warnings(update)
    if better is None:
        assert found == []
    else:
        (message,) = found
        assert f'"odd": lock_ttl ({odd_seconds(options)} s) is over an hour' in message
        assert better in message


def odd_seconds(options: dict[str, object]) -> str:
    ttl = options["lock_ttl"]
    assert isinstance(ttl, timedelta)
    return f"{ttl.total_seconds():g}"
