"""What `firecron exec` ends with and leaves behind: the command line in this process, its commands in their own."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from tests.cli.calls import call
from typer.testing import CliRunner, Result

from firecron import Schedule
from firecron.base.flag import Flag
from firecron.base.instants import to_milliseconds, to_text
from firecron.cli.commands import app
from firecron.cli.process import CommandLine, Signals
from firecron.cron.schedule import is_tick
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.processes import BOUND

YEARLY = "0 0 1 1 *"


def execute(*arguments: str) -> Result:
    """`firecron exec --lock job …`; the command's own output goes where the test's does."""
    return CliRunner().invoke(app, ["exec", "--lock", "job", *arguments])


def sh(script: str) -> list[str]:
    return ["--", "sh", "-c", script]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where commands leave what they have to say."""
    monkeypatch.chdir(tmp_path)
    Path("not-executable").write_text("#!/bin/sh\n")
    Path("no-interpreter").write_text("#!/no/such/interpreter\n")
    Path("no-interpreter").chmod(0o755)
    Path("no-program").write_bytes(b"\0\1\2")
    Path("no-program").chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "code", "outcome"),
    [
        (["sh", "-c", "exit 0"], 0, "succeeded"),
        (["sh", "-c", "exit 3"], 3, "failed"),
        (["sh", "-c", "kill -KILL $$"], 137, "failed"),
        (["./no-interpreter"], 127, "failed"),
        (["./no-program"], 126, "failed"),
        (["no-such-command-here"], 127, None),
        (["./not-executable"], 126, None),
        (["../"], 126, None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_the_commands_end_is_the_exit_code(
    rtdb: Rtdb, folder: Path, command: list[str], code: int, outcome: str | None
) -> None:
    """The exit code is the command's, a shell's for what it can't start, and the lock is free after it; a tick is not
    claimed for a command that isn't there.
    """
    assert execute("--", *command).exit_code == code
    assert rtdb.get("/cron-locks") is None
    assert execute("--cron", YEARLY, "--", *command).exit_code == code
    history = rtdb.get("/cron-runs/job")
    assert ([entry["outcome"] for entry in history.values()] if isinstance(history, dict) else [None]) == [outcome]
    node = rtdb.get("/cron-locks/job")
    assert (node["outcome"] if isinstance(node, dict) else None) == outcome


def test_the_command_knows_what_it_is_for(rtdb: Rtdb, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment has the name, and for a tick its slot, fence, key and attempt; nothing of an outer command's."""
    monkeypatch.setenv("FIRECRON_SLOT", "an outer command's")
    tell = sh("env | grep -E '^FIRECRON_(NAME|SLOT|FENCE|IDEMPOTENCY_KEY|ATTEMPT)=' | sort > facts")
    assert execute(*tell).exit_code == 0
    assert Path("facts").read_text() == "FIRECRON_NAME=job\n"
    assert execute("--cron", YEARLY, "--timezone", "Asia/Tokyo", *tell).exit_code == 0
    node = rtdb.get("/cron-locks/job")
    assert isinstance(node, dict)
    slot = node["slot"]
    assert slot.endswith("-12-31T15:00:00Z")
    assert Path("facts").read_text().splitlines() == [
        "FIRECRON_ATTEMPT=1",
        f"FIRECRON_FENCE={node['fence']}",
        f"FIRECRON_IDEMPOTENCY_KEY=job:{slot}",
        "FIRECRON_NAME=job",
        f"FIRECRON_SLOT={slot}",
    ]


def test_the_late_one_of_two_pods_runs_nothing(rtdb: Rtdb, folder: Path) -> None:
    """Of two that are started for one tick the second one ends with 75 or what it is told to, also when the first one
    was done long before.
    """
    count = sh("echo run >> runs")
    codes = [execute("--cron", YEARLY, *extra, *count) for extra in ([], [], ["--held-exit-code", "0"])]
    assert [result.exit_code for result in codes] == [0, 75, 0]
    assert "the tick, or a later one, is claimed already" in codes[1].stderr
    assert Path("runs").read_text() == "run\n"
    history = rtdb.get("/cron-runs/job")
    assert isinstance(history, dict)
    assert [(entry["outcome"], entry["trigger"]) for entry in history.values()] == [("succeeded", "schedule")]


def test_a_tick_at_even_distances_runs_once(rtdb: Rtdb, folder: Path) -> None:
    """With --every the tick is the newest one from --starting on, whoever asks, and the second one runs nothing."""
    even = ("--every", "31536000", "--starting", "2026-01-01T06:00Z")
    tell = sh("echo $FIRECRON_SLOT >> slots")
    assert [execute(*even, *tell).exit_code for _ in range(2)] == [0, 75]
    assert Path("slots").read_text().rstrip() in ("2026-01-01T06:00:00Z", "2027-01-01T06:00:00Z")


def test_a_hashed_line_is_that_of_the_lock(rtdb: Rtdb, folder: Path) -> None:
    """With an H in the line, the name of the lock decides the tick, and the catalogue has the plain line."""
    yearly = Schedule("H H H H *", name="job")
    assert execute("--cron", "H H H H *", *sh("echo $FIRECRON_SLOT > slot")).exit_code == 0
    assert is_tick(yearly, Path("slot").read_text().strip())
    assert rtdb.get("/cron-jobs/job/line") == yearly.line


def test_an_abandoned_tick_is_rerun_on_request(rtdb: Rtdb, folder: Path) -> None:
    """The run of a pod that died is taken over by the next pod of its tick with --on-abandoned rerun, and else not."""
    assert execute("--cron", YEARLY, *sh("true")).exit_code == 0
    node = rtdb.get("/cron-locks/job")
    assert isinstance(node, dict)
    rtdb.set(
        "/cron-locks/job", {**node, "releasedAt": None, "outcome": None, "expiresAt": 1, "unfinished": node["slot"]}
    )
    tell = sh("echo $FIRECRON_ATTEMPT >> attempts")
    assert execute("--cron", YEARLY, *tell).exit_code == 75
    assert execute("--cron", YEARLY, "--on-abandoned", "rerun", *tell).exit_code == 0
    assert Path("attempts").read_text() == "2\n"


RERUNNING = ["--cron", "0 0 * * *", "--on-abandoned", "rerun"]


def abandon_the_tick_before(rtdb: Rtdb) -> None:
    """As if a pod had died while it ran the tick before the newest one."""
    assert execute(*RERUNNING, *sh("true")).exit_code == 0
    node = rtdb.get("/cron-locks/job")
    assert isinstance(node, dict)
    before = to_text(to_milliseconds(node["slot"]) - 86_400_000)
    died = {"slot": before, "unfinished": before, "expiresAt": 1, "releasedAt": None, "outcome": None}
    rtdb.set("/cron-locks/job", {**node, **died})


@pytest.mark.parametrize(
    ("rerun", "tick", "code", "told"),
    [
        ("exit 3", "exit 0", 3, ["exit code 3"]),
        ("exit 3", "exit 4", 3, ["exit code 3"]),
        ("exit 0", "exit 4", 4, []),
        ("exit 0", "exit 0", 0, []),
        ("echo > ready; read line < taken", "exit 0", 1, ["lost"]),
        ("echo > ready; read line < taken", "exit 4", 1, ["lost"]),
    ],
)
def test_a_rerun_that_ends_badly_is_told(
    rtdb: Rtdb, folder: Path, rerun: str, tick: str, code: int, told: list[str]
) -> None:
    """Where an earlier tick is rerun before the own one, the exit code is the first that isn't 0, and a rerun that
    failed or lost its lock is said on standard error.
    """
    abandon_the_tick_before(rtdb)
    os.mkfifo("ready")
    os.mkfifo("taken")

    def take_it_away() -> None:
        Path("ready").read_text()
        rtdb.set("/cron-locks/job/holder", "another")
        rtdb.set("/cron-locks/job/expiresAt", 1)
        Path("taken").write_text("\n")

    threading.Thread(target=take_it_away, daemon=True).start()
    result = execute(*RERUNNING, *sh(f"case $FIRECRON_ATTEMPT in 1) {tick};; 2) {rerun};; esac"))
    assert result.exit_code == code
    said = [
        line
        for line in result.stderr.splitlines()
        if line.startswith(('firecron: "job" failed', 'firecron: "job" lost'))
    ]
    assert len(said) == len(told)
    assert all(words in line for words, line in zip(told, said, strict=True))


def test_a_rerun_that_can_not_be_started_is_told(rtdb: Rtdb, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code is that of the rerun whose command can't be started, also if it can be for the tick after it."""
    abandon_the_tick_before(rtdb)
    script = Path("script")
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)

    class Mended(CommandLine):
        """Can be started the second time."""

        def run(self, lost: Callable[[], Flag], facts: Mapping[str, object], cancelled: Flag | None = None) -> None:
            try:
                super().run(lost, facts, cancelled)
            finally:
                script.write_text("#!/bin/sh\n")

    monkeypatch.setattr("firecron.cli.commands.exec.CommandLine", Mended)
    result = execute(*RERUNNING, "--", "./script")
    assert result.exit_code == 127
    assert "no such command" in result.stderr


def test_ticks_that_nobody_ran_are_written_down_before_the_end(rtdb: Rtdb, folder: Path) -> None:
    """What a claim owes to the history is in it when firecron has ended, also if the database takes its time."""
    assert execute("--cron", YEARLY, *sh("true")).exit_code == 0
    node = rtdb.get("/cron-locks/job")
    assert isinstance(node, dict)
    year = int(node["slot"][:4])
    old = {"slot": f"{year - 2}{node['slot'][4:]}", "acquiredAt": 1, "expiresAt": 1, "releasedAt": 1}
    rtdb.set("/cron-locks/job", {**node, **old})
    with rtdb.faults.delay(0.2, path=f"/cron-runs/job/{year - 1}*", method="PUT"):
        execute("--cron", YEARLY, *sh("true"))
        history = rtdb.get("/cron-runs/job")
    assert isinstance(history, dict)
    assert [entry["outcome"] for entry in history.values()] == ["missed", "succeeded"]


def test_a_command_that_ends_well_after_the_loss_has_not_succeeded(
    rtdb: Rtdb, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that answers to the loss of its lock with exit code 0 makes exit code 1, and what is left of its group
    is killed.
    """

    class Patient(CommandLine):
        """Gives a command as long as it likes to answer to SIGTERM."""

        def __init__(self, arguments: Sequence[str], signals: Signals, kill_after: float) -> None:
            super().__init__(arguments, signals, kill_after=BOUND)

    monkeypatch.setattr("firecron.cli.commands.exec.CommandLine", Patient)
    monkeypatch.setenv("FIRECRON_MARGIN", "0.25")
    os.mkfifo("ready")
    os.mkfifo("held")

    def unlock() -> None:
        with Path("held").open() as held:
            Path("ready").read_text()
            rtdb.set("/cron-locks/job/expiresAt", 0)
            held.read()  # until all have gone that have it open

    unlocking = threading.Thread(target=unlock, daemon=True)
    unlocking.start()
    left = "(trap '' TERM; echo > ready; exec sleep 50) > held"
    assert execute("--ttl", "1.5", *sh(f"trap 'exit 0' TERM; {left} & wait")).exit_code == 1
    unlocking.join(BOUND / 2)
    assert not unlocking.is_alive()


def test_a_held_lock_is_not_waited_for(rtdb: Rtdb, folder: Path) -> None:
    """If it is held, one line says by whom and until when, the exit code is 75, and nothing runs."""
    now = time.time_ns() // 1_000_000
    record = {"acquiredAt": now, "expiresAt": now + 60_000, "holder": "x", "instanceId": "api-v3", "instance": "00bf"}
    rtdb.set("/cron-locks/job", record)
    for arguments in ([], ["--cron", YEARLY]):
        result = execute(*arguments, *sh("touch ran"))
        assert result.exit_code == 75
        [line] = result.stderr.splitlines()
        assert "api-v3/00bf" in line
        assert to_text(now + 60_000) in line
    assert rtdb.get("/cron-locks/job") == record
    assert not Path("ran").exists()


@pytest.mark.parametrize("arguments", [[], ["--cron", YEARLY]], ids=["plain", "tick"])
def test_what_others_have_written_does_not_reach_the_terminal(rtdb: Rtdb, folder: Path, arguments: list[str]) -> None:
    """A holder's name with escape sequences and line ends in it is shown in one line that has none of them."""
    now = time.time_ns() // 1_000_000
    record = {"acquiredAt": now, "expiresAt": now + 60_000, "holder": "x", "instanceId": "\x1b[31mEVIL\nfirecron: fine"}
    rtdb.set("/cron-locks/job", record)
    result = execute(*arguments, *sh("true"))
    assert result.exit_code == 75
    [line] = result.stderr.splitlines()
    assert "\N{REPLACEMENT CHARACTER}[31mEVIL ⏎ firecron" in line
    assert line.isprintable()


def test_a_paused_lock_is_held(rtdb: Rtdb, folder: Path) -> None:
    """What an operator has paused doesn't run, and ends with the code for held."""
    rtdb.set("/cron-locks/job/paused", True)
    assert execute("--held-exit-code", "9", *sh("touch ran")).exit_code == 9
    assert not Path("ran").exists()


@pytest.mark.parametrize("arguments", [[], ["--cron", YEARLY]], ids=["plain", "tick"])
def test_what_is_not_known_runs_nothing(
    rtdb: Rtdb, folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    """A malformed node and a denial end with 78, an unreachable database with 69; the command is not started."""
    run = sh("touch ran")
    rtdb.set("/cron-locks/job", "nonsense")
    assert execute(*arguments, *run).exit_code == 78
    with rtdb.faults.answer(401, times=None):
        assert execute(*arguments, *run).exit_code == 78
    monkeypatch.setenv("FIREBASE_DATABASE_EMULATOR_HOST", "127.0.0.1:1")
    monkeypatch.setenv("FIRECRON_DATABASE_URL", "https://demo-firecron.firebaseio.com")
    result = execute(*arguments, *run)
    assert result.exit_code == 69
    assert "Emulator not running" in result.stderr
    assert not Path("ran").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--ttl", "1"], "too short: it must be at least 6 s"),
        (["--hold-at-least", "61"], "hold_at_least"),
        (["--grace", "5"], "give --cron"),
        (["--timezone", "UTC"], "give --cron"),
        (["--on-abandoned", "rerun"], "give --cron"),
        (["--owner", "data"], "give --cron"),
        (["--cron", YEARLY, "--runbook", "wiki"], "runbook='wiki' must be an address such as https://"),
        (["--cron", "* * *"], "fields"),
        (["--cron", YEARLY, "--timezone", "Mars"], "time zone"),
        (["--starting", "2026-01-01"], "give --cron or --every"),
        (["--cron", YEARLY, "--every", "60"], "leave one of them out"),
        (["--every", "60", "--timezone", "Asia/Tokyo"], "only for a cron line"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_2(rtdb: Rtdb, folder: Path, arguments: list[str], words: str) -> None:
    """What can't be used is said in a line, with exit code 2, before anything runs."""
    result = execute(*arguments, *sh("touch ran"))
    assert result.exit_code == 2
    assert words in result.stderr
    assert not Path("ran").exists()
    assert rtdb.count(path="/cron-locks/*") == 0


def test_a_tick_out_of_grace_is_not_run(rtdb: Rtdb, folder: Path) -> None:
    """A pod that comes later than --grace runs nothing, says so, and fails, and its job is in the catalogue."""
    result = execute("--cron", YEARLY, "--grace", "1", *sh("touch ran"))
    assert result.exit_code == 1
    assert "in the last 1 s" in result.stderr
    assert not Path("ran").exists()
    assert rtdb.get("/cron-jobs/job/line") == YEARLY


def test_hold_at_least_outlasts_the_command(rtdb: Rtdb, folder: Path) -> None:
    """With --hold-at-least the lock stays held after the command, and the next one is refused."""
    assert execute("--hold-at-least", "50", *sh("true")).exit_code == 0
    assert execute(*sh("touch ran")).exit_code == 75
    assert not Path("ran").exists()


def test_standard_streams_are_the_commands_own(rtdb: Rtdb, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What the command writes comes out as it is, and nothing else does."""
    reads, writes = os.pipe()
    os.write(writes, b"typed")
    os.close(writes)
    stdin = os.dup(0)
    os.dup2(reads, 0)
    try:
        assert execute(*sh("cat; echo complaint >&2")).exit_code == 0
    finally:
        os.dup2(stdin, 0)
        os.close(stdin)
        os.close(reads)
    assert capfd.readouterr() == ("typed", "complaint\n")


@pytest.mark.parametrize("arguments", [[], ["--cron", YEARLY]], ids=["plain", "tick"])
def test_descriptors_are_the_commands_too(rtdb: Rtdb, folder: Path, arguments: list[str]) -> None:
    """What firecron is given open, as by a shell's `<(…)`, the command has open, and reads to its end."""
    reads, writes = os.pipe()
    os.set_inheritable(reads, True)
    os.write(writes, b"given")
    os.close(writes)
    try:
        assert execute(*arguments, *sh(f"cat /dev/fd/{reads} > read")).exit_code == 0
    finally:
        os.close(reads)
    assert Path("read").read_text() == "given"


def test_a_command_of_ticks_is_a_job_of_the_catalogue(rtdb: Rtdb, folder: Path) -> None:
    """With --cron the job is declared, without the command's arguments, also by a command that runs nothing; one that
    failed or was not started at all is a finding of `firecron check`, which says whose it is.
    """
    about = ("--description", "Loads the files.", "--owner", "data", "--runbook", "https://wiki.example.com/load")
    fail = ("--cron", "30 2 * * *", "--timezone", "Europe/Berlin", *about, *sh("exit 3 # --password=hunter2"))
    assert [execute(*fail).exit_code for _ in range(2)] == [3, 75]
    entry = rtdb.get("/cron-jobs/job")
    assert isinstance(entry, dict)
    assert (entry["line"], entry["timezone"], entry["grace"], entry["ticks"]) == (
        "30 2 * * *",
        "Europe/Berlin",
        3600,
        False,
    )
    assert entry["where"] == "firecron exec sh"
    said = call("check").stdout
    assert "failing" in said
    assert "; Loads the files.; owner data, runbook https://wiki.example.com/load → " in said
    rtdb.set("/cron-locks", None)
    rtdb.set("/cron-jobs/job/since", 1_700_000_000_000)
    checked = call("check")
    assert (checked.exit_code, "nobody has claimed its tick" in checked.stdout) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "grace"),
    [
        (["--cron", "*/5 * * * *"], 300),
        (["--cron", YEARLY, "--grace", "99999999"], 86_400),
        (["--every", "7200"], 3600),
    ],
)
def test_the_grace_of_a_command_in_the_catalogue(rtdb: Rtdb, folder: Path, arguments: list[str], grace: int) -> None:
    """The catalogue has the grace that was given, else the time to the next tick, an hour at most."""
    assert execute(*arguments, *sh("true")).exit_code == 0
    assert rtdb.get("/cron-jobs/job/grace") == grace


def test_the_catalogue_is_written_before_the_end(rtdb: Rtdb, folder: Path) -> None:
    """A command that ends before the database has answered about the catalogue waits for that."""
    with (
        rtdb.faults.hold(path="/cron-jobs/*") as look,
        rtdb.faults.hold(path="/cron-runs/job/*", method="PUT", moment="after") as entry,
    ):

        def let_go() -> None:
            entry.wait(BOUND)
            entry.release()
            look.release()

        thread = threading.Thread(target=let_go)
        thread.start()
        assert execute("--cron", YEARLY, *sh("true")).exit_code == 0
        thread.join()
    assert rtdb.get("/cron-jobs/job/where") == "firecron exec sh"
