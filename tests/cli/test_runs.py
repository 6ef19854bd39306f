"""`firecron runs` with options that choose runs: since when, which ended badly, and on which instance."""

from __future__ import annotations

import time
from typing import Any

import pytest
from tests.cli.calls import answer, call, complaint
from tests.cli.schemas import MATCHING_RUNS, RUNS
from tests.unit.lock.records import NOW

from firecron.base.instants import to_datetime, to_text
from firecron.cli.lines import clock_time, times_in
from firecron.cli.options import given_since
from firecron.cli.output import Failure
from rtdb_emulator.pytest_plugin import Rtdb

DAY, HOUR = 86_400_000, 3_600_000


@pytest.fixture(autouse=True)
def histories(rtdb: Rtdb) -> int:
    """Two jobs with runs of the last three days, on two instances."""
    present = round(time.time()) * 1000
    days_of = {"digest": ("succeeded", "failed", "succeeded"), "import": ("lost", "missed", "succeeded")}
    for job, ends in days_of.items():
        for days, outcome in enumerate(ends):
            at = present - days * DAY - HOUR
            entry: dict[str, Any] = {"outcome": outcome, "slot": to_text(at), "trigger": "schedule"}
            ran = {"startedAt": at, "endedAt": at + 5, "durationMs": 5, "instanceId": f"api-0000{days + 1}"}
            recorded = {"recordedBy": "bookkeeper", "instanceId": "api-00009", "instance": "y"}
            rtdb.set(f"/cron-runs/{job}/{to_text(at)}", entry | (recorded if outcome == "missed" else ran))
    return present


def outcomes(*arguments: str) -> list[str]:
    """The outcomes of the runs of the digest that are shown."""
    return [run["outcome"] for run in answer(RUNS, "runs", "digest", *arguments)["runs"]]


def test_runs_are_chosen(rtdb: Rtdb) -> None:
    """Each option leaves out what doesn't fit, and -n counts what is left."""
    assert outcomes() == ["succeeded", "failed", "succeeded"]
    assert outcomes("--since", "90min") == ["succeeded"]
    assert outcomes("--since", "2d") == ["failed", "succeeded"]
    assert outcomes("--failed") == ["failed"]
    assert outcomes("--on", "api-00003") == ["succeeded"]
    assert outcomes("--since", "2d", "-n", "1") == ["succeeded"]
    assert outcomes("--failed", "--on", "api-00001") == []


def test_what_does_not_fit_is_said(rtdb: Rtdb) -> None:
    """That no run fits is no error; a name that nobody knows is."""
    said = call("runs", "digest", "--on", "nowhere")
    assert (said.exit_code, "that fits, among those that are kept" in said.stdout) == (0, True)
    assert "there is no lock or job digets" in complaint(2, "runs", "digets", "--failed")


def test_without_a_name_the_runs_of_all_jobs_are_chosen(rtdb: Rtdb) -> None:
    """Of each job that has any; where a tick did not run, nobody was there."""
    found = answer(MATCHING_RUNS, "runs", "--failed")["jobs"]
    assert {job["name"]: [run["outcome"] for run in job["runs"]] for job in found} == {
        "digest": ["failed"],
        "import": ["lost"],
    }
    assert answer(MATCHING_RUNS, "runs", "--on", "api-00009") == {"jobs": []}
    lines = call("runs", "--since", "30h").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["digest:", "digest:", "import:", "import:", "4"]
    assert lines[-1] == "4 runs of 2 jobs"


def test_an_unfinished_run_is_one_that_failed_once_it_has_died(rtdb: Rtdb, histories: int) -> None:
    """A run under way has not failed; one that died has, and it is on its instance."""
    live = {"holder": "h", "expiresAt": histories + DAY, "acquiredAt": histories - 5, "instanceId": "api-00007"}
    node = {**live, "instance": "z", "slot": to_text(histories), "unfinished": to_text(histories)}
    rtdb.set("/cron-locks/digest", node)
    assert answer(RUNS, "runs", "digest", "--failed")["unfinished"] is None
    assert answer(RUNS, "runs", "digest", "--on", "api-00007")["unfinished"]["isLive"]
    assert answer(RUNS, "runs", "digest", "--on", "api-00001")["unfinished"] is None
    rtdb.set("/cron-locks/digest/expiresAt", histories - DAY)
    assert not answer(RUNS, "runs", "digest", "--failed")["unfinished"]["isLive"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("2h", 7_200),
        ("1d", 86_400),
        ("2026-11-18", 9 * 3_600),
        ("2026-11-18T08:59:00Z", 60),
        ("2026-11-18T08:00", 3_600),
        ("08:30", 1_800),
        ("09:30", 84_600),
    ],
)
def test_since_when_is_understood(text: str, seconds: int) -> None:
    """A duration back from now, a date, an instant, or the last time that a clock showed this."""
    with times_in(to_datetime(NOW).tzinfo):
        assert given_since(text, NOW) == NOW - seconds * 1000


@pytest.mark.parametrize("text", ["yesterday", "25:00", "2026-11-19", "1x"])
def test_what_is_no_beginning_is_refused(text: str) -> None:
    """What is not understood, or still to come, is wrong usage."""
    with pytest.raises(Failure, match="--since"):
        given_since(text, NOW)


def test_times_are_shown_in_the_zone_that_was_asked_for(rtdb: Rtdb) -> None:
    """Also the time of day that an option means; the zone of another command is not affected."""
    berlin = call("runs", "digest", "--tz", "Asia/Kolkata").stdout.splitlines()[-2]
    plain = call("runs", "digest", "--tz", "UTC").stdout.splitlines()[-2]
    assert "Z)" in berlin
    assert "(" not in plain.partition("succeeded")[0]
    assert clock_time(NOW, NOW, to_datetime(NOW).tzinfo) == "09:00:00Z"


def test_an_unknown_zone_is_wrong_usage(rtdb: Rtdb) -> None:
    """With a name that is close to it."""
    assert "did you mean Europe/Berlin" in complaint(2, "runs", "--tz", "Europe/Berln")
    assert "write, for example, Europe/Berlin" in complaint(2, "status", "--tz", "nonsense!")
