"""The options of a job: what they become, and that every refusal names the option, its value and the remedy."""

from __future__ import annotations

import datetime as datetime_module
from datetime import UTC, datetime, timedelta

import pytest

from firecron import ConfigurationError, distributed_cron
from firecron.jobs.about import NOTHING
from firecron.jobs.decorator import declared
from firecron.jobs.options import JobOptions


def options(**given: object) -> JobOptions:
    def job() -> None: ...

    arguments = {"lock_name": "job", "cron_time": "0 9 * * *", **given}
    (found,) = declared(distributed_cron(**arguments)(job))  # type: ignore[arg-type]  # some are meant to be wrong
    return found


def test_the_defaults() -> None:
    """A job of a name and a line runs in UTC, once a tick, under a renewed lock of a minute, and skips the rest."""
    found = options()
    expected = {
        "name": "job", "lock_ttl": 60_000, "hold_at_least": 0, "once_per_tick": True, "renew": True, "overlap": "skip",
        "catch_up": "skip", "catch_up_window": 86_400_000, "grace": 60_000, "grace_given": False,
        "on_abandoned": "skip", "retries": 0, "retry_backoff": 5_000, "max_runtime": 86_400_000,
        "expected_runtime": None, "alert_after": 1, "jitter": 0, "role": None, "disabled": False, "about": NOTHING,
    }  # fmt: skip
    assert {name: getattr(found, name) for name in expected} == expected
    assert (found.schedule.line, found.schedule.timezone) == ("0 9 * * *", "UTC")


def test_options_are_shown_as_they_were_declared() -> None:
    """What is shown has the decorator's words and seconds: with them the same options are declared."""
    found = options(timezone="Europe/Berlin", lock_ttl=0.5, grace=timedelta(minutes=2), max_runtime=604_799.999)
    shown = repr(found)
    assert shown.startswith("JobOptions('job', '0 9 * * *', timezone='Europe/Berlin', lock_ttl=0.5, hold_at_least=0, ")
    assert "grace=120, " in shown
    assert "grace=None, " in repr(options())
    assert "grace_given" not in shown
    about = options(description="It's", owner="mail", runbook="https://x.example")
    assert repr(about).endswith(", disabled=False, description=\"It's\", owner='mail', runbook='https://x.example')")
    for one in (found, options(), about):
        declare = eval(repr(one).replace("JobOptions", "distributed_cron", 1), {"distributed_cron": distributed_cron})
        assert declared(declare(lambda: None)) == (one,)


@pytest.mark.parametrize(
    ("given", "becomes"),
    [
        ({"lock_ttl": 60}, 60_000),
        ({"lock_ttl": 0.25}, 250),
        ({"lock_ttl": 86_400}, 86_400_000),
        ({"lock_ttl": timedelta(days=1)}, 86_400_000),
        ({"hold_at_least": timedelta(seconds=2)}, 2_000),
        ({"grace": 60}, 60_000),
        ({"grace": timedelta(minutes=5)}, 300_000),
        ({"retry_backoff": timedelta(milliseconds=1)}, 1),
        ({"jitter": 1.5}, 1_500),
        ({"catch_up_window": timedelta(days=7), "catch_up": "once"}, 604_800_000),
        ({"max_runtime": timedelta(hours=48)}, 172_800_000),
        ({"expected_runtime": 90}, 90_000),
    ],
)
def test_durations_are_seconds_or_timedeltas(given: dict[str, object], becomes: int) -> None:
    """Seconds, fractions of them and `timedelta` become milliseconds."""
    assert getattr(options(**given), next(iter(given))) == becomes


def every(**given: object) -> JobOptions:
    (found,) = declared(distributed_cron("job", **given)(lambda: None))  # type: ignore[arg-type]  # as above
    return found


def test_even_distances_instead_of_a_line() -> None:
    """A job may have `every`, with a start or from the epoch on; what is shown declares the same again."""
    start = datetime(2026, 11, 18, 9, tzinfo=UTC)
    found = every(every=timedelta(minutes=45), starting=start)
    assert (found.schedule.every, found.schedule.starting) == (timedelta(minutes=45), start)
    assert every(every=2700, starting=start) == found != every(every=2700)
    shown = repr(found)
    assert shown.startswith("JobOptions('job', every=2700, starting=datetime.datetime(2026, 11, 18, 9, 0, tzinfo=")
    names = {"JobOptions": distributed_cron, "datetime": datetime_module}
    assert declared(eval(shown, names)(lambda: None)) == (found,)
    assert every(every=60_000).doubts.keys() == {"every"}


def test_a_grace_that_is_given_is_told_from_the_default() -> None:
    """`grace=60` says more than no grace: it ends the wait of overlap="queue" as well."""
    assert options(grace=60).grace_given
    assert not options(grace=None).grace_given
    assert options(grace=60).grace == options().grace


@pytest.mark.parametrize(
    ("given", "has_lease", "waits", "waits_until_next_tick", "places"),
    [
        ({}, True, False, False, 1),
        ({"grace": 60}, True, False, False, 1),
        ({"overlap": "queue"}, True, True, True, 1),
        ({"overlap": "queue", "grace": 60}, True, True, False, 1),
        ({"overlap": "cancel_previous"}, True, True, True, 1),
        ({"overlap": "cancel_previous", "grace": 60}, True, True, False, 1),
        ({"overlap": "allow"}, False, False, False, 5),
    ],
)
def test_what_overlap_means(
    given: dict[str, object], has_lease: bool, waits: bool, waits_until_next_tick: bool, places: int
) -> None:
    """A run has its lock unless runs may overlap. A tick waits if ticks queue: until the next one, or for its grace."""
    found = options(**given)
    assert (found.has_lease, found.waits, found.waits_until_next_tick) == (has_lease, waits, waits_until_next_tick)
    assert found.places(5) == places


@pytest.mark.parametrize(
    ("given", "needs_recovery"),
    [({}, False), ({"on_abandoned": "rerun"}, True), ({"catch_up": "once"}, True), ({"catch_up": "all"}, True)],
)
def test_what_is_to_be_looked_for(given: dict[str, object], needs_recovery: bool) -> None:
    """A job that reruns or catches up has its record looked at."""
    assert options(**given).needs_recovery == needs_recovery


DAY = "it must be at most 86400 s. Is it in milliseconds?"
DURATIONS = ["lock_ttl", "hold_at_least", "grace", "retry_backoff", "jitter"]

REFUSED = [
    ({"lock_name": "1st"}, "'1st' can't name a lock: use a letter, then up to 99 letters"),
    ({"lock_name": "a/b"}, "'a/b' can't name a lock"),
    ({"lock_name": None}, "None can't name a lock"),
    ({"cron_time": "0 9 * *"}, "the cron line '0 9 * *' has 4 fields: use 5, or 6 with seconds first"),
    ({"cron_time": "0 0 30 2 *"}, "the cron line '0 0 30 2 *' can't be used: it never fires"),
    ({"cron_time": 60}, "a cron line must be a string, not 60"),
    ({"cron_time": None}, "write a line such as '0 9 * * *', or every=timedelta(minutes=45) instead of a line"),
    ({"every": 60}, "the cron line '0 9 * * *' and every=60: leave one of them out"),
    ({"cron_time": None, "every": 60, "timezone": "UTC"}, "timezone='UTC' is only for a cron line"),
    ({"cron_time": None, "every": 0.5}, "every=0.5 is too short: it must be at least 1 s"),
    ({"timezone": "Mars/Olympus"}, "there is no time zone 'Mars/Olympus': use a name like Europe/Berlin"),
    ({"timezone": "Berlin"}, "there is no time zone 'Berlin': did you mean Europe/Berlin?"),
    *(({name: 86_401}, f"{name}=86401 is too long: {DAY}") for name in DURATIONS),
    *(({name: -1}, f"{name}=-1 is too short: it must be at least ") for name in DURATIONS),
    *(({name: "60"}, f"{name}='60' is not a duration: give seconds or a timedelta") for name in DURATIONS),
    ({"lock_ttl": 300_000}, f"lock_ttl=300000 is too long: {DAY}"),
    ({"lock_ttl": timedelta(days=2)}, f"lock_ttl=datetime.timedelta(days=2) is too long: {DAY}"),
    ({"lock_ttl": 0}, "lock_ttl=0 is too short: it must be at least six times the margin: 6 s, unless "),
    ({"lock_ttl": True}, "lock_ttl=True is not a duration"),
    ({"lock_ttl": None}, "lock_ttl=None is not a duration"),
    ({"lock_ttl": float("nan")}, "lock_ttl=nan is not a duration"),
    ({"lock_ttl": float("inf")}, "lock_ttl=inf is too long"),
    ({"grace": 0}, "grace=0 is too short: it must be at least 0.1 s"),
    ({"max_runtime": 0}, "max_runtime=0 is too short: it must be at least 0.1 s"),
    ({"max_runtime": timedelta(days=8)}, "max_runtime=datetime.timedelta(days=8) is too long"),
    ({"catch_up_window": timedelta(days=367)}, "catch_up_window=datetime.timedelta(days=367) is too long"),
    ({"once_per_tick": 1}, "once_per_tick=1 must be True or False"),
    ({"renew": "no"}, "renew='no' must be True or False"),
    ({"disabled": None}, "disabled=None must be True or False"),
    ({"overlap": "wait"}, "overlap='wait' must be one of 'skip', 'queue', 'cancel_previous', 'allow'"),
    ({"overlap": "cancel_previous", "catch_up": "all"}, "catch_up='all' runs every tick to its end, so"),
    ({"overlap": "cancel_previous", "renew": False}, "renew=False never finds out that a run is cancelled"),
    ({"overlap": "cancel_previous", "once_per_tick": False}, "once_per_tick=False gives a run no fence"),
    ({"overlap": []}, "overlap=[] must be one of"),
    ({"catch_up": True}, "catch_up=True must be one of 'skip', 'once', 'all'"),
    ({"on_abandoned": "retry"}, "on_abandoned='retry' must be one of 'skip', 'rerun'"),
    ({"retries": -1}, "retries=-1 must be a number from 0 to 100"),
    ({"retries": 101}, "retries=101 must be a number from 0 to 100"),
    ({"retries": 1.5}, "retries=1.5 must be a number from 0 to 100"),
    ({"retries": True}, "retries=True must be a number"),
    *(
        ({"alert_after": value}, f"alert_after={value!r} must be a number from 1 to 1000")
        for value in (0, 1_001, 1.5, True, "2")
    ),
    *(
        ({"role": role}, f"role={role!r} must be one name without commas or blanks around it, or None")
        for role in ("", " ", " worker", "a,b", 5)
    ),
    *(({name: ""}, f"{name}='' must be a text, or None") for name in ("description", "owner", "runbook")),
    ({"runbook": "http://wiki.example.com"}, "runbook='http://wiki.example.com' must be an address such as https://"),
    # What doesn't go together: both are named.
    ({"expected_runtime": 0}, "expected_runtime=0 is too short: it must be at least 0.1 s"),
    (
        {"max_runtime": 60, "expected_runtime": 61},
        "expected_runtime (61 s) must not be longer than max_runtime (60 s), which ends a run",
    ),
    ({"lock_ttl": 30, "hold_at_least": 31}, "hold_at_least (31 s) must not be longer than lock_ttl (30 s)"),
    ({"grace": 5, "jitter": 6}, "jitter (6 s) must not be longer than grace (5 s)"),
    ({"jitter": 61}, "jitter (61 s) must not be longer than grace (60 s)"),
    (
        {"catch_up_window": 3_600},
        "catch_up='skip' runs no missed tick later, so catch_up_window (3600 s) can't work: leave it out, or give",
    ),
    ({"overlap": "allow", "hold_at_least": 1}, "overlap='allow' holds no lock, so hold_at_least can't work"),
    ({"overlap": "allow", "on_abandoned": "rerun"}, "on_abandoned='rerun' can't work: leave one of them out"),
    ({"once_per_tick": False, "catch_up": "all"}, "once_per_tick=False remembers no ticks, so catch_up='all'"),
    ({"once_per_tick": False, "on_abandoned": "rerun"}, "so on_abandoned='rerun' can't work: leave one of them out"),
    ({"once_per_tick": False, "overlap": "allow"}, "would lock nothing: leave one of them out"),
]


@pytest.mark.parametrize(("given", "problem"), REFUSED)
def test_what_can_not_work_is_refused_while_decorating(given: dict[str, object], problem: str) -> None:
    """The refusal names the option, its value and what would do; it is a ValueError too."""
    with pytest.raises(ConfigurationError) as caught:
        options(**given)
    assert problem in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("given", "becomes"),
    [
        ({"lock_ttl": 30, "hold_at_least": 30}, {"lock_ttl": 30_000, "hold_at_least": 30_000}),
        ({"grace": 5, "jitter": 5}, {"grace": 5_000, "jitter": 5_000}),
        ({"catch_up": "skip", "catch_up_window": timedelta(days=1)}, {"catch_up_window": 86_400_000}),
        ({"overlap": "allow", "catch_up": "all"}, {"overlap": "allow", "catch_up": "all"}),
        ({"once_per_tick": False, "overlap": "queue"}, {"once_per_tick": False, "overlap": "queue"}),
        ({"overlap": "cancel_previous", "catch_up": "once"}, {"overlap": "cancel_previous", "catch_up": "once"}),
        ({"on_abandoned": "rerun", "catch_up": "once"}, {"on_abandoned": "rerun", "catch_up": "once"}),
        ({"role": "night shift"}, {"role": "night shift"}),
        ({"retries": 100, "renew": False, "disabled": True}, {"retries": 100, "renew": False, "disabled": True}),
        ({"lock_name": "A" + 99 * "9"}, {"name": "A" + 99 * "9"}),
    ],
)
def test_what_can_work_is_taken(given: dict[str, object], becomes: dict[str, object]) -> None:
    """The bounds themselves, and what goes together, are taken as they are given."""
    found = options(**given)
    assert {name: getattr(found, name) for name in becomes} == becomes


@pytest.mark.parametrize(
    ("given", "keeps_all", "cancels"),
    [
        ({}, False, False),
        ({"overlap": "queue"}, False, False),
        ({"overlap": "queue", "grace": 60}, True, False),
        ({"overlap": "cancel_previous"}, False, True),
        ({"overlap": "cancel_previous", "grace": 60}, False, True),
    ],
)
def test_which_ticks_stay_in_line(given: dict[str, object], keeps_all: bool, cancels: bool) -> None:
    """Ticks that queue with a grace of their own all stay in line; those that cancel the run before them do not."""
    found = options(**given)
    assert (found.keeps_all_waiting, found.cancels_previous) == (keeps_all, cancels)
