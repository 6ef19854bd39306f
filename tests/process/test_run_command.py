"""`firecron run`: a job by hand. In this process where that is enough, in one of its own where a signal comes."""

from __future__ import annotations

import json
import logging
import signal
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from firecron import LockService
from firecron.base.instants import to_milliseconds, to_text
from firecron.cli.commands import app
from firecron.ops.remedy import Remedy
from firecron.ops.views import claimed_user
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.processes import BOUND, Start

MINUTE = 60_000

JOBS = """
import asyncio
import logging

from firecron import Run, Stopping, distributed_cron, scheduled

logging.lastResort = None


@distributed_cron("good", "* * * * *", lock_ttl=60, grace=3600)
def good(run: Run) -> None:
    print("working as", run.trigger)


@distributed_cron("bad", "0 0 1 1 *", lock_ttl=60)
def bad() -> None:
    raise ValueError("a job's own error")


@distributed_cron("long", "0 0 1 1 *", lock_ttl=60)
def long(run: Run) -> None:
    print("under way", flush=True)
    run.stopping.wait()
    run.check()


@distributed_cron("halting", "* * * * *", lock_ttl=60, grace=3600)
def halting(run: Run) -> None:
    run.step("first", print, "first")
    if run.attempt == 1:
        raise ValueError("half of it")
    run.step("second", print, "second")


@distributed_cron("noting", "* * * * *", lock_ttl=60)
def noting(run: Run) -> None:
    run.note("1,204 mails [/red]" + chr(27))


@distributed_cron("leaking", "0 0 1 1 *", lock_ttl=60)
def leaking() -> None:
    raise ValueError("password=hunter2 [/red]")


@scheduled("remind", lock_ttl=60)
def remind(run: Run, event: str) -> None:
    print("reminding of", event)


@distributed_cron("endless", "0 0 1 1 *", lock_ttl=60)
async def endless() -> None:
    print("under way", flush=True)
    await asyncio.Event().wait()
"""

ODD = """
@distributed_cron("odd", "*/90 * * * *", lock_ttl=60)
def odd() -> None: ...
"""

SET_UP = "import firecron.logging\nfirecron.logging.setup()\n"
LOGS = {"all": SET_UP, "errors": f"{SET_UP}logging.getLogger().handlers[-1].setLevel(logging.ERROR)\n", "none": ""}


@pytest.fixture(autouse=True)
def folder(rtdb: Rtdb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the jobs are; the production guard is closed there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("jobs_to_run.py").write_text(JOBS)
    monkeypatch.delenv("RUNTIME_INSTANCE", raising=False)
    # The jobs take it away, in this very process: it is there again afterwards.
    monkeypatch.setattr(logging, "lastResort", logging.lastResort)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["run", "jobs_to_run", *arguments])


def entries(rtdb: Rtdb, name: str) -> list[dict[str, object]]:
    history = rtdb.get(f"/cron-runs/{name}")
    return list(history.values()) if isinstance(history, dict) else []


def minutes_ago(number: int) -> str:
    """A tick of `good`."""
    return to_text((time.time_ns() // 1_000_000 - number * MINUTE) // MINUTE * MINUTE)


@pytest.mark.parametrize("name", ["good", "bad"])
def test_a_run_by_hand_is_an_act(rtdb: Rtdb, name: str) -> None:
    """Who has run the job, when it began and why is recorded, however the run ends; and once for all its tries."""
    result = run(name, "--why", "password=hunter2 nobody had it", "--json")
    assert result.exit_code == (0 if name == "good" else 1)
    found = rtdb.get("/cron-acts")
    assert isinstance(found, dict)
    [act] = found.values()
    assert act == {
        "act": "run",
        "name": name,
        "who": claimed_user(),
        "at": act["at"],
        "why": "password=[redacted] nobody had it",
    }
    [entry] = entries(rtdb, name)
    assert isinstance(entry["startedAt"], int)
    assert act["at"] >= entry["startedAt"] - 1000


def test_a_run_that_is_refused_is_no_act(rtdb: Rtdb) -> None:
    """Nothing was run, so nothing is recorded; and a reason that is too long is refused before."""
    rtdb.set("/cron-locks/good", {"paused": True})
    assert run("good").exit_code == 75
    assert "501 characters" in run("good", "--why", "x" * 501).output
    assert rtdb.get("/cron-acts") is None


def test_an_act_that_can_not_be_recorded_leaves_the_run(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the rules are older the run succeeds, and a line on standard error says that its act is missing."""
    monkeypatch.setenv("FIRECRON_UID", "firecron")
    open_to_it = {"cron-locks": {".write": True}, "cron-runs": {".write": True}, "cron-instances": {".write": True}}
    rtdb.set_rules({"rules": {".read": True, **open_to_it}})
    result = run("good")
    assert (result.exit_code, len(entries(rtdb, "good"))) == (0, 1)
    assert result.stderr.count("is done, but is not among the acts") == 1


@pytest.mark.parametrize("log", ["all", "errors", "none"])
@pytest.mark.parametrize(
    ("arguments", "node", "words"),
    [
        (["good"], {"expiresAt": 4e12, "holder": "h", "instanceId": "api-1"}, "held by another instance"),
        (["good"], "text", "can't be read"),
        (["good", "--slot", minutes_ago(0)], {"expiresAt": 1, "slot": minutes_ago(0)}, "is claimed already"),
        (["bad"], None, "Traceback (most recent call last)"),
        (["odd"], {"paused": True}, "is paused by an operator"),
    ],
    ids=["held", "malformed", "slot_done", "failed", "paused"],
)
def test_what_happened_is_printed_once(
    rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch, arguments: list[str], node: object, words: str, log: str
) -> None:
    """A refusal and a failure are told once on the terminal, whatever the application's log says there, and what is odd
    about the job not at all.
    """
    rtdb.set(f"/cron-locks/{arguments[0]}", node)
    Path("logging_jobs.py").write_text(f"{JOBS}\n{ODD}\n{LOGS[log]}")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    handlers, level = list(logging.getLogger().handlers), logging.getLogger().level
    try:
        result = CliRunner().invoke(app, ["run", "logging_jobs", *arguments])
    finally:
        sys.modules.pop("logging_jobs", None)
        logging.getLogger().handlers[:] = handlers
        logging.getLogger().setLevel(level)
    assert result.output.count(words) == 1, result.output
    assert "is too big" not in result.output
    assert result.exit_code != 0
    if node is not None:
        is_logged = log == "all" or (log == "errors" and node == "text")
        assert (result.stdout == "") == is_logged


def test_a_run_by_hand_claims_no_tick(rtdb: Rtdb) -> None:
    """The job runs, also with the guard closed, its outcome and duration are shown, and no slot is taken."""
    result = run("good")
    assert (result.exit_code, result.stderr) == (0, "")
    first, second = result.stdout.splitlines()
    assert first == "working as manual"
    assert second.startswith("good succeeded after ")
    assert [entry["trigger"] for entry in entries(rtdb, "good")] == ["manual"]
    node = rtdb.get("/cron-locks/good")
    assert isinstance(node, dict)
    assert "slot" not in node


def test_a_failed_tick_is_resumed(rtdb: Rtdb) -> None:
    """--resume runs a tick that failed again, with its steps; once it has succeeded that is refused, with code 75."""
    tick = minutes_ago(2)
    assert run("halting", "--slot", tick).exit_code == 1
    result = run("halting", "--resume", tick)
    assert (result.exit_code, result.stderr) == (0, "")
    said, outcome = result.stdout.splitlines()
    assert said == "second"
    assert outcome.endswith(f"as the run of {tick}")
    (entry,) = entries(rtdb, "halting")
    assert (entry["outcome"], entry["attempt"], entry["slot"]) == ("succeeded", 2, tick)
    again = run("halting", "--resume", tick, "--json")
    assert again.exit_code == 75
    assert json.loads(again.stdout)["refusal"] == {
        "reason": "slot_done",
        "message": f'"halting" is not resumed: {tick} has succeeded',
        "remedy": Remedy("see how its runs have ended", command="firecron runs halting").to_json(),
    }
    unknown = run("halting", "--resume", minutes_ago(1))
    assert (unknown.exit_code, "has no run of" in unknown.stdout) == (75, True)


def test_a_run_by_hand_is_resumed_by_its_key(rtdb: Rtdb) -> None:
    """The key that `firecron runs` shows names it."""
    assert run("halting").exit_code == 1
    history = rtdb.get("/cron-runs/halting")
    assert isinstance(history, dict)
    (key,) = history
    assert run("halting", "--resume", key).exit_code == 0
    assert [entry["outcome"] for entry in entries(rtdb, "halting")] == ["succeeded"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--resume", "yesterday"], "--resume 'yesterday' is invalid"),
        (["--resume", "x-manual-y"], "use a tick or a key that `firecron runs` shows"),
        (["--resume", "2026-11-18T09:00:00Z", "--slot", "now"], "leave one of them out"),
    ],
)
def test_what_can_not_be_resumed_is_a_wrong_usage(arguments: list[str], said: str) -> None:
    """The exit code is 2, and the message says what to write."""
    result = run("halting", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_failed_job_shows_its_traceback(rtdb: Rtdb) -> None:
    """The traceback is there once, from the job's own line, and the exit code is 1."""
    result = run("bad")
    assert result.exit_code == 1
    assert result.stdout.startswith("bad failed after ")
    assert result.stderr.count("Traceback") == result.stderr.count("ValueError: a job's own error") == 1
    assert "in bad" in result.stderr
    assert "body.py" not in result.stderr


def test_a_traceback_has_no_secrets(rtdb: Rtdb) -> None:
    """Standard error may be a log, as in a Cloud Run job."""
    result = run("leaking")
    assert "ValueError: password=[redacted] [/red]" in result.stderr
    assert "hunter2" not in result.stderr


def test_a_reason_in_brackets_is_text(rtdb: Rtdb) -> None:
    """The reason of a pause is in the refusal as the operator has written it."""
    rtdb.set("/cron-locks/noting", {"paused": True, "pausedWhy": "see [/red] and [bold]"})
    result = run("noting")
    assert result.exit_code == 75
    assert "(see [/red] and [bold])" in result.stdout


def test_what_a_run_has_noted_is_printed(rtdb: Rtdb) -> None:
    """The note of a run is behind its outcome, without what would move a cursor, and in the JSON. Brackets are text."""
    assert json.loads(run("noting", "--json").stdout)["note"] == "1,204 mails [/red]\x1b"
    said = run("noting").stdout
    assert said.startswith("noting succeeded after ")
    assert said.endswith(": 1,204 mails [/red]\ufffd\n")
    assert [entry["note"] for entry in entries(rtdb, "noting")] == ["1,204 mails [/red]\x1b"] * 2


def test_json_is_one_value(rtdb: Rtdb) -> None:
    """With --json standard output is one value, and what the job prints is on standard error."""
    slot = minutes_ago(5)
    result = run("good", "--slot", slot, "--json")
    value = json.loads(result.stdout)
    assert "working as manual" in result.stderr
    [entry] = entries(rtdb, "good")
    assert value.pop("durationMs") == entry["durationMs"]
    assert value.pop("fence") == entry["fence"]
    assert value == {
        "name": "good",
        "outcome": "succeeded",
        "slot": slot,
        "trigger": "manual",
        "attempt": 1,
        "key": f"good:{slot}",
        "note": None,
        "error": None,
        "refusal": None,
    }
    failed = json.loads(run("bad", "--json").stdout)
    assert (failed["outcome"], failed["error"]) == ("failed", "ValueError: a job's own error")


def test_slot_now_is_the_newest_tick(rtdb: Rtdb) -> None:
    """--slot now claims the newest tick within the job's grace; a tick is run once, and without one the error is 1."""
    assert run("good", "--slot", minutes_ago(1)).exit_code == 0
    assert run("good", "--slot", "now").exit_code == 0
    [first, second] = [str(entry["slot"]) for entry in entries(rtdb, "good")]
    # A new minute may have begun in between.
    assert to_milliseconds(second) - to_milliseconds(first) in (MINUTE, 2 * MINUTE)
    again = run("good", "--slot", second, "--json")
    assert (again.exit_code, json.loads(again.stdout)["refusal"]["reason"]) == (75, "slot_done")
    assert run("good", "--slot", second, "--held-exit-code", "4").exit_code == 4
    late = run("bad", "--slot", "now")
    assert late.exit_code == 1
    assert "in the last 60 s" in late.stderr


def test_a_slot_off_the_schedule_is_claimed_with_a_warning(rtdb: Rtdb) -> None:
    """An instant that is no tick gets a WARNING, and runs."""
    slot = minutes_ago(3).replace(":00Z", ":07Z")
    result = run("good", "--slot", slot)
    assert result.exit_code == 0
    assert f"WARNING: {slot} is not a tick of good" in result.stderr
    assert [entry["slot"] for entry in entries(rtdb, "good")] == [slot]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["good", "--slot", "2199-01-01T00:00:00Z"], "in the future"),
        (["good", "--slot", "yesterday"], "is invalid: use now, or an instant"),
        (["good", "--slot", "2026-01-01T00:00:00"], "is invalid: use now, or an instant"),
        (["nobody"], "'nobody'; the jobs are: good, bad, long, halting, noting, leaking, remind, endless"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_wrong_usage_is_2(rtdb: Rtdb, arguments: list[str], words: str) -> None:
    """What can't be run is said in a line, and nothing is claimed."""
    result = run(*arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert rtdb.get("/cron-locks") is None


def test_refusals_have_their_codes(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paused is 75, malformed and denied are 78, unreachable is 69, and none of them runs the job."""
    rtdb.set("/cron-locks/good/paused", True)
    assert run("good").exit_code == 75
    rtdb.set("/cron-locks/good", "nonsense")
    assert run("good").exit_code == 78
    with rtdb.faults.answer(401, times=None):
        assert run("good").exit_code == 78
    monkeypatch.setenv("FIREBASE_DATABASE_EMULATOR_HOST", "127.0.0.1:1")
    monkeypatch.setenv("FIRECRON_DATABASE_URL", "https://demo-firecron.firebaseio.com")
    result = run("good")
    assert result.exit_code == 69
    assert f"{result.stdout}{result.stderr}".count("Emulator not running") == 1


@pytest.mark.parametrize(
    ("name", "number", "code"),
    [("long", signal.SIGINT, 130), ("long", signal.SIGTERM, 143), ("endless", signal.SIGTERM, 143)],
)
def test_a_signal_stops_the_run(
    rtdb: Rtdb, start: Start, monkeypatch: pytest.MonkeyPatch, name: str, number: signal.Signals, code: int
) -> None:
    """Ctrl-C and SIGTERM tell the run to stop; it is released, recorded as interrupted, and the code says so."""
    monkeypatch.setenv("FIRECRON_SHUTDOWN_GRACE", "2.5")
    process = start("-m", "firecron", "run", "jobs_to_run", name)
    assert process.stdout is not None
    assert process.stdout.readline() == "under way\n"
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=BOUND)
    assert f"{name} interrupted after" in stdout
    assert "asked to stop" in stderr
    assert process.returncode == code
    assert [entry["outcome"] for entry in entries(rtdb, name)] == ["interrupted"]
    node = rtdb.get(f"/cron-locks/{name}")
    assert isinstance(node, dict)
    assert node["releasedAt"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_the_command_at_once(
    rtdb: Rtdb, start: Start, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """A run that doesn't listen would have the whole grace; it keeps its lock, which expires."""
    monkeypatch.setenv("FIRECRON_SHUTDOWN_GRACE", "3600")
    process = start("-m", "firecron", "run", "jobs_to_run", "endless")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "under way\n"
    process.send_signal(number)
    while "asked to stop" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(number)
    process.communicate(timeout=BOUND)
    assert process.returncode == -number
    node = rtdb.get("/cron-locks/endless")
    assert isinstance(node, dict)
    assert "releasedAt" not in node


def test_a_stored_schedule_is_run_by_its_name(rtdb: Rtdb) -> None:
    """With its arguments: by hand, for a tick, and again; a removed one is refused, and the job alone has no name."""
    schedules = LockService().schedules
    schedules.put("remind", "42", "* * * * *", args={"event": "dinner"})
    tick = minutes_ago(3)
    rtdb.set("/cron-schedules/remind/:42/since", to_milliseconds(tick) - MINUTE)
    by_hand = run("remind:42")
    assert (by_hand.exit_code, "reminding of dinner" in by_hand.output) == (0, True)
    value = json.loads(run("remind:42", "--slot", tick, "--json").stdout)
    assert (value["name"], value["outcome"], value["slot"]) == ("remind:42", "succeeded", tick)
    assert value["key"] == f"remind:42:{tick}"
    assert run("remind:42", "--slot", tick).exit_code == 75
    assert sorted(str(entry["key"]) for entry in entries(rtdb, "remind")) == ["42", "42"]
    schedules.remove("remind", "42")
    refused = run("remind:42", "--json")
    assert (refused.exit_code, json.loads(refused.stdout)["refusal"]["reason"]) == (75, "removed")
    assert "name one of them, remind:KEY" in run("remind").output
