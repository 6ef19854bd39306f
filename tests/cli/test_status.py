"""`firecron status` and `check`: each job's row, the codes of a check, and whatever is in the database."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rich.console import Console
from tests.catalogued import DAY, HOUR, RARELY, Catalogue, now
from tests.cli.calls import answer, become_nobody, call, checked, complaint
from tests.cli.schemas import CHECK, STATUS
from tests.cli.test_changes import Script, nothing
from tests.stores.least_privilege import RULES

from firecron.cli.commands.status import StatusView, table
from firecron.cli.output import Output
from firecron.cli.watching import watch
from firecron.locks import LockService
from firecron.ops.status import NewestEntries, Status
from rtdb_emulator.pytest_plugin import Rtdb


@pytest.fixture
def catalogue(rtdb: Rtdb) -> Catalogue:
    return Catalogue(rtdb)


def rows(*names: str) -> dict[str, dict[str, Any]]:
    return {row["job"]: row for row in answer(STATUS, "status", *names)["jobs"]}


def found(*arguments: str) -> tuple[int, dict[str, Any]]:
    """The exit code of a check, and all that it has found."""
    result = call("check", *arguments, "--json")
    assert result.stderr == ""
    return result.exit_code, checked(CHECK, result.stdout)


def checks(*arguments: str) -> tuple[int, str, list[tuple[str, str]]]:
    """The exit code of a check, its status, and what it says of which job."""
    code, value = found(*arguments)
    return code, value["status"], [(one["job"], one["verdict"]) for one in value["jobs"]]


def test_an_empty_catalogue_says_so(rtdb: Rtdb) -> None:
    """Where no program has declared a job, `status` and `check` say that, and for a check it is a failure."""
    assert answer(STATUS, "status")["jobs"] == []
    assert checks() == (1, "unknown", [])
    for command in ("status", "check"):
        assert f"There is no job in the emulator at {rtdb.emulator.url}" in call(command).stdout
    assert rtdb.get("/cron-locks") is None


@pytest.mark.parametrize("command", ["status", "check", "locks", "locks digest", "runs", "runs digest", "acts"])
def test_a_reader_is_told_what_an_administrator_is(
    rtdb: Rtdb, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Under the shipped rules the second user reads all that is shown, and writes nothing."""
    catalogue.declare("digest", "0 9 * * *", since=now())
    catalogue.ran("digest")

    def told() -> dict[str, Any]:
        """What the command says, but for the time at which it looks."""
        result = call(*command.split(), "--json")
        assert result.exit_code == 0, result.stderr
        return {**json.loads(result.stdout), "now": None}

    seen = told()
    before = rtdb.get("/")
    rtdb.set_rules(RULES)
    monkeypatch.setenv("FIRECRON_UID", "firecron-reader")
    assert told() == seen
    assert rtdb.get("/") == before


def test_a_row_has_all_of_a_job(catalogue: Catalogue) -> None:
    """Its verdict, schedule and meaning, next tick, lock, last run, and the program that declares it."""
    catalogue.declare("digest", "0 9 * * *", role="mail", since=now())
    slot = catalogue.ran("digest")
    catalogue.declare("every", None, every=2700, starting="2026-11-01T00:00:00Z", ticks=False, timezone=None)  # type: ignore[arg-type]  # as it is stored
    catalogue.declare("off", disabled=True)
    jobs = rows()
    digest = jobs["digest"]
    assert list(jobs) == ["digest", "every", "off"]
    (named,) = rows("digest").values()
    assert (named["last"]["key"], named["last"]["durationMs"], named["last"]["trigger"]) == (slot, 1_500, "schedule")
    assert {name for name, value in named["last"].items() if value != digest["last"][name]} == {
        "key", "slot", "trigger", "durationMs", "attempt",
    }  # fmt: skip
    assert [digest["last"][name] for name in ("key", "slot", "trigger", "durationMs", "attempt")] == [None] * 5
    assert (digest["verdict"], digest["why"], digest["warning"]) == ("ok", f"its last tick {slot} succeeded", False)
    schedule = (digest["line"], digest["timezone"], digest["words"])
    assert schedule == ("0 9 * * *", "America/New_York", "at 09:00 every day")
    assert [digest[name] for name in ("since", "due", "every", "starting")] == [None] * 4
    assert (digest["service"], digest["revision"], digest["role"]) == ("api", "api-00042-abc", "mail")
    assert (digest["where"], digest["ticks"], digest["disabled"]) == ("jobs.job (jobs.py:5)", True, False)
    assert digest["lock"]["state"] == "free"
    every = jobs["every"]
    assert (every["every"], every["starting"], every["ticks"]) == (2700, "2026-11-01T00:00:00Z", False)
    assert every["words"] == "every 45 minutes, from 2026-11-01 00:00 UTC"
    assert (every["lock"], every["last"]) == (None, None)
    off = jobs["off"]
    assert (off["verdict"], off["next"], off["disabled"]) == ("paused", None, True)
    assert list(rows("every", "digest")) == ["digest", "every"]


def test_what_a_program_says_of_its_job_is_shown(catalogue: Catalogue, rtdb: Rtdb) -> None:
    """Each row of the JSON has it, and the lines of jobs that are named, and each finding of a check."""
    about = {"description": "Sends the digest.", "owner": "mail", "runbook": "https://wiki.example.com/digest"}
    catalogue.declare("digest", **about)
    catalogue.declare("import", runbook="javascript:alert(1)")
    catalogue.ran("digest", outcome="failed", failures=1)
    catalogue.ran("import")
    assert {name: rows()["digest"][name] for name in about} == about
    assert [rows()["import"][name] for name in about] == [None] * 3
    said = "Sends the digest.; owner mail, runbook https://wiki.example.com/digest"
    (line,) = call("status", "digest").stdout.splitlines()
    assert line.startswith("digest: failing; Sends the digest.; owner mail, runbook https://wiki.example.com/digest; ")
    assert "mail" not in call("status").stdout
    assert [one[name] for one in found()[1]["jobs"] for name in about] == list(about.values())
    assert f"; {said} → see in its history why it fails; run the tick of " in call("check").stdout
    database = LockService().database
    seen = Status(database).evaluate(Status(database).read(), ["digest"])
    lines = [line.plain for line in table(seen.rows, seen.now, Console(width=100), with_about=True)]
    assert lines[2:5:2] == ["  Sends the digest.", f"  {RARELY}  on the 29th of February at 00:00, New York"]
    assert lines[3] == "  owner mail, runbook https://wiki.example.com/digest"


def test_a_status_is_a_line_for_each_job(catalogue: Catalogue) -> None:
    """Without a terminal: alarms first, then what the schedule means, and how, how long and where the last run was."""
    catalogue.declare("digest")
    catalogue.ran("digest")
    catalogue.declare("import", "*/5 * * * *")
    catalogue.ran("import", ago=2 * HOUR)
    late, fine = call("status").stdout.splitlines()
    assert late.startswith("import: late; */5 * * * *  every 5 minutes, New York; next in ")
    assert "; last succeeded 1 h ago, took 1.5 s, by api-00042-abc/00bf4b9c3f2a; nobody has claimed its tick" in late
    assert fine.startswith("digest: ok; 0 0 29 2 *  ")
    assert fine.endswith("; last succeeded 59 min ago, took 1.5 s, by api-00042-abc/00bf4b9c3f2a")


@pytest.mark.parametrize("word", ["unattended", "stuck", "late", "failing"])
def test_a_check_fails_for_four_words(catalogue: Catalogue, rtdb: Rtdb, word: str) -> None:
    """With exit code 1, and a line for the job that is not as it should be."""
    catalogue.declare("fine")
    catalogue.ran("fine")
    assert (checks()[0], call("check").stdout) == (0, "1 job: 1 ok\n")
    catalogue.declare("job", "*/5 * * * *" if word == "late" else "0 0 29 2 *", alertAfter=2)
    catalogue.ran("job", outcome="failed", failures=2 if word == "failing" else 1)
    if word == "stuck":
        rtdb.set("/cron-locks/job/expiresAt", "soon")
    if word == "unattended":
        catalogue.beat(ago=HOUR)
    assert checks("job") == (1, "failing", [("job", word)])
    result = call("check", "job")
    one = found("job")[1]["jobs"][0]
    do = ": ".join(filter(None, (one["remedy"]["words"], one["remedy"]["command"])))
    assert (result.exit_code, result.stdout) == (1, f"job: {word}: {one['why']} → {do}\n")
    if word != "unattended":
        assert checks("fine") == (0, "ok", [])


def test_a_warning_is_said_and_is_no_failure(catalogue: Catalogue, rtdb: Rtdb) -> None:
    """A pause of more than a day and an entry that can't be read are printed; the exit code is 0."""
    catalogue.declare("paused")
    rtdb.set("/cron-locks/paused", {"paused": True, "pausedAt": now() - 2 * DAY, "pausedBy": "ops@host"})
    catalogue.declare("odd", "every now and then")
    assert checks() == (0, "ok", [("odd", "unknown"), ("paused", "paused")])
    assert [one["warning"] for one in found()[1]["jobs"]] == [True, True]
    assert [line.partition(" by")[0] for line in call("check").stdout.splitlines()][1] == "paused: paused: paused"
    odd = rows()["odd"]
    assert (odd["line"], odd["words"], odd["next"], odd["service"], odd["ticks"]) == (None, None, None, None, False)


def test_revisions_that_disagree_are_a_warning(catalogue: Catalogue, rtdb: Rtdb) -> None:
    """It is said of a job that is ok as well, on top, and in a check, which passes; until the others are gone."""
    for name in ("digest", "another"):
        catalogue.declare(name)
        catalogue.ran(name)
    catalogue.dissent("digest", service="worker")
    said = f"live instances of worker run it by another schedule than [{RARELY}] (America/New_York)"
    row = rows()["digest"]
    assert (row["verdict"], row["warning"]) == ("ok", True)
    assert row["why"].startswith(said)
    assert rows()["another"]["warning"] is False
    lines = call("status").stdout.splitlines()
    assert lines[0].startswith("digest: ok; ")
    assert said in lines[0]
    assert checks() == (0, "ok", [("digest", "ok")])
    wait = "wait until the other instances have ended, or end them"
    assert call("check").stdout == f"digest: ok: {row['why']} → {wait}\n"
    catalogue.dissent("digest", ago=91_000)
    assert rows()["digest"]["warning"] is False
    assert checks() == (0, "ok", [])


def test_a_narrow_terminal_has_no_line_about_nobody(catalogue: Catalogue) -> None:
    """Where a row is too long for the instance, that is on a line of its own; a job that never ran has no such line."""
    catalogue.declare("digest", since=now())
    catalogue.ran("digest")
    catalogue.declare("off", disabled=True)
    database = LockService().database
    status = Status(database)
    seen = NewestEntries(database).put_into(status.evaluate(status.read()))
    lines = [line.plain for line in table(seen.rows, seen.now, Console(width=50))]
    assert [line.split()[0] for line in lines if line.startswith("  on")] == ["on"]
    assert lines[0].split() == ["job", "verdict", "next", "last", "took"]


def test_every_column_has_a_heading(catalogue: Catalogue) -> None:
    """Also that of the instances, which is there where a row has room for one."""
    catalogue.declare("digest", since=now())
    catalogue.ran("digest")
    database = LockService().database
    status = Status(database)
    seen = NewestEntries(database).put_into(status.evaluate(status.read()))
    head, row, *_ = (line.plain for line in table(seen.rows, seen.now, Console(width=120)))
    assert head.split() == ["job", "verdict", "next", "last", "took", "on"]
    owner = next(iter(seen.rows)).last
    assert owner is not None
    assert row[head.index("on") :] == owner.owner


def test_a_retired_job_is_no_alarm(catalogue: Catalogue) -> None:
    """A job that its service doesn't have any more is in the status, after all others, and passes the check."""
    catalogue.declare("gone", "* * * * *", declaredAt=now() - DAY)
    catalogue.names = ["stays"]
    catalogue.declare("stays")
    assert rows()["gone"]["verdict"] == "retired"
    assert (rows()["gone"]["next"], checks()) == (None, (0, "ok", []))
    assert [line.split(";")[0] for line in call("status").stdout.splitlines()] == ["stays: ok", "gone: retired"]


def test_a_check_of_jobs_that_were_taken_out_is_a_failure(catalogue: Catalogue) -> None:
    """Also where they are all that the database has: nothing was judged. A job that is named has to be there."""
    catalogue.declare("gone", "* * * * *", declaredAt=now() - DAY)
    catalogue.names = []
    catalogue.beat()
    assert checks() == (1, "unknown", [])
    assert call("check").stdout.startswith("There is no job that can be judged in the emulator at ")
    assert checks("gone") == (1, "failing", [("gone", "undeclared")])


def test_an_expected_job_that_is_not_there_is_a_finding(catalogue: Catalogue, rtdb: Rtdb) -> None:
    """Not declared, taken out, or with an entry that can't be read, each named once; in an empty database, too."""
    catalogue.declare("gone", "* * * * *", declaredAt=now() - DAY)
    catalogue.declare("odd", "every now and then")
    catalogue.names = []
    catalogue.declare("digest")
    catalogue.ran("digest")
    assert checks("--expect", "digest") == (0, "ok", checks()[2])
    expecting = ("--expect", "digest, import,", "--expect", "gone", "--expect=odd", "--expect=gone", "--expect=b\x1b[c")
    undeclared = [(name, "undeclared") for name in ("b\ufffd[c", "gone", "import", "odd")]
    assert checks(*expecting) == checks("digest", *expecting) == (1, "failing", undeclared)
    assert call("check", "--expect", "import").stdout.startswith("import: undeclared: no job of this name is in the ")
    rtdb.set("/cron-jobs", None)
    assert checks("--expect", "digest")[1] == "failing"


@pytest.mark.parametrize("given", ["", " , "])
def test_a_check_that_expects_nothing_is_a_usage_error(catalogue: Catalogue, given: str) -> None:
    """An unset variable of a script must not make a check that passes."""
    catalogue.declare("digest")
    assert "--expect names no job" in complaint(2, "check", "--expect", given)


@pytest.mark.parametrize("command", ["status", "check"])
def test_a_misspelt_job_is_told(catalogue: Catalogue, command: str) -> None:
    """A check of a job that isn't there must not pass, so the command names the nearest one, with exit code 2."""
    catalogue.declare("nightly-import")
    catalogue.declare("digest")
    said = complaint(2, command, "digest", "nightly-imprt")
    assert said.startswith("there is no job nightly-imprt in the catalogue of the emulator")
    assert said.endswith("; did you mean nightly-import?")


def test_without_groups_that_can_be_read_nobody_is_unattended(catalogue: Catalogue, rtdb: Rtdb) -> None:
    """A value that somebody has typed in their place says nothing of any job."""
    catalogue.declare("digest")
    rtdb.set("/cron-groups", 5)
    assert rows()["digest"]["verdict"] == "ok"


def test_a_catalogue_that_may_not_be_read_is_told(rtdb: Rtdb) -> None:
    """With the exit code for a denial, 78. Without the groups alone, nobody is called unattended."""
    catalogue = Catalogue(rtdb)
    catalogue.declare("job")
    catalogue.ran("job")
    catalogue.beat(ago=DAY)
    readable = {".read": True, ".write": True}
    others: dict[str, object] = dict.fromkeys(("cron-jobs", "cron-locks", "cron-runs", "cron-instances"), readable)
    become_nobody(rtdb, others)
    assert checks() == (0, "ok", [])
    rtdb.set_rules({"rules": {**others, "cron-jobs": {}}})
    assert "cron-jobs" in complaint(78, "check")
    rtdb.set_rules({"rules": readable})
    assert checks()[0] == 1


def test_hostile_texts_are_printed_safely(catalogue: Catalogue, rtdb: Rtdb) -> None:
    """Names, services and places in the catalogue can't change what a terminal shows."""
    evil = "\x1b[31m\u202egnp.exe\n"
    catalogue.declare("job\u202e\u00e4", service=evil, where=evil, revision=evil, role=evil)
    catalogue.declare("n" * 100, disabled=True, where=evil)
    rtdb.set("/cron-jobs/list", ["not", "an", "entry"])
    for arguments in (("status",), ("check",), ("status", "--json")):
        said = call(*arguments).stdout
        assert "\x1b" not in said
        assert "\u202e" not in said
    assert len(rows()) == 3


def test_a_catalogue_that_is_no_list_of_jobs_is_told(rtdb: Rtdb) -> None:
    """A value in its place is named with the remedy, exit code 78."""
    rtdb.set("/cron-jobs", "text")
    assert "cron-jobs holds 'text'" in complaint(78, "status")


def test_each_change_of_a_job_is_a_line(catalogue: Catalogue, rtdb: Rtdb, capsys: pytest.CaptureFixture[str]) -> None:
    """With --watch a line tells what has changed of a job, but neither its next tick nor a renewal."""
    catalogue.declare("job")
    catalogue.ran("job", ago=HOUR)
    output = Output(as_json=False)
    renewed = now() + HOUR
    script = Script(
        nothing,
        lambda: catalogue.ran("job", ago=0, releasedAt=None, expiresAt=renewed),
        lambda: rtdb.set("/cron-locks/job/expiresAt", renewed + 1),
        lambda: rtdb.set("/cron-locks/job/paused", True),
        lambda: rtdb.set("/cron-jobs", None),
    )
    watch(output, StatusView(LockService().database, output), 2, script)
    lines = [line[9:] for line in capsys.readouterr().out.splitlines()]
    told = ["job: ok", "job: running", "job: paused", "job: is no longer in the catalogue"]
    assert [line.split(";")[0] for line in lines] == told


def test_a_watched_history_is_read_only_where_a_lock_has_changed(catalogue: Catalogue, rtdb: Rtdb) -> None:
    """The newest entry of a quiet job is not read at each look, nor one that has come since its lock was released."""
    for name in ("quiet", "busy"):
        catalogue.declare(name)
        catalogue.ran(name)
    view = StatusView(LockService().database, Output(as_json=True), ["quiet", "busy"])
    view.read()
    catalogue.ran("busy", ago=0)
    for reads in (1, 0, 0):
        rtdb.emulator.requests.clear()
        seen = view.read()
        assert [rtdb.count(path=f"/cron-runs/{name}") for name in ("busy", "quiet")] == [reads, 0]
    assert [row.last and row.last.outcome for row in seen.rows] == ["succeeded", "succeeded"]


@pytest.mark.parametrize(("command", "last"), [("check", []), ("status", ["GET /cron-asks"])])
def test_all_jobs_are_seen_by_a_few_requests(command: str, last: list[str], catalogue: Catalogue, rtdb: Rtdb) -> None:
    """However many jobs there are: the catalogue with holds and mutes, the locks, RTDB's time once, and the groups; of
    a status the asks as well.
    """
    for number in range(20):
        catalogue.declare(f"job-{number}")
        catalogue.ran(f"job-{number}")
    rtdb.emulator.requests.clear()
    assert call(command).exit_code == 0
    asked = [f"{request.method} {request.path}" for request in rtdb.emulator.requests]
    nodes = [f"GET /cron-{node}" for node in ("jobs", "hold", "mutes", "locks")]
    assert asked == [*nodes, "PUT /cron-instances/clock/seenAt", "GET /cron-groups", *last]


def test_json_is_one_value(catalogue: Catalogue) -> None:
    """The rows of `status --json` are sorted by name, whatever is wrong with them."""
    for name in ("b", "a", "c"):
        catalogue.declare(name)
    assert [row["job"] for row in json.loads(call("status", "--json").stdout)["jobs"]] == ["a", "b", "c"]
