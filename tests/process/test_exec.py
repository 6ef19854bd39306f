"""`firecron exec` in processes of its own: signals, terminals, lost leases and sudden death."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pexpect
import pytest

from firecron import Lease, LockService
from rtdb_emulator import Emulator
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.processes import BOUND, Process, Start

YEARLY = ["--cron", "0 0 1 1 *"]
CHILD = [sys.executable, "-I", "-S", str(Path(__file__).with_name("exec_child.py"))]


def command(*arguments: str) -> tuple[str, ...]:
    """What follows `python`: firecron exec with these options, and after -- what its child does."""
    at = arguments.index("--")
    return ("-m", "firecron", "exec", "--lock", "job", *arguments[:at], "--", *CHILD, *arguments[at + 1 :])


@pytest.fixture
def firecron(start: Start) -> Callable[..., Process]:
    """Starts firecron exec, and returns when its child has said that it is ready."""

    def begin(*arguments: str) -> Process:
        process = start(*command(*arguments))
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line == "ready\n", process.communicate()
        return process

    return begin


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The options for a lease that is renewed often."""
    monkeypatch.setenv("FIRECRON_MARGIN", "0.25")
    return ["--ttl", "1.5"]


def node(rtdb: Rtdb) -> dict[str, object]:
    found = rtdb.get("/cron-locks/job")
    assert isinstance(found, dict)
    return found


def outcomes(rtdb: Rtdb) -> list[object]:
    history = rtdb.get("/cron-runs/job")
    return [entry["outcome"] for entry in history.values()] if isinstance(history, dict) else []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_is_sent_on(rtdb: Rtdb, firecron: Callable[..., Process], number: signal.Signals) -> None:
    """The command gets the signal, and ends as it likes, still under the lock, which is free after that."""
    process = firecron("--", "answer", "7")
    assert node(rtdb)["holder"]
    process.send_signal(number)
    stdout, stderr = process.communicate()
    assert (stdout.split()[0], stderr, process.returncode) == (number.name, "", 7)
    assert rtdb.get("/cron-locks") is None


def test_a_signal_that_ends_the_command_interrupts_its_run(rtdb: Rtdb, firecron: Callable[..., Process]) -> None:
    """A command that SIGTERM ends makes 143, and its tick is recorded as interrupted and stays unfinished."""
    process = firecron(*YEARLY, "--", "die")
    process.send_signal(signal.SIGTERM)
    assert "interrupted" in process.communicate()[1]
    assert process.returncode == 143
    assert outcomes(rtdb) == ["interrupted"]
    assert node(rtdb)["unfinished"] == node(rtdb)["slot"]
    assert node(rtdb)["releasedAt"]


def test_a_command_that_succeeds_after_a_signal_has_succeeded(rtdb: Rtdb, firecron: Callable[..., Process]) -> None:
    """Whoever ends with 0 after SIGTERM has done its work."""
    process = firecron(*YEARLY, "--", "answer", "0")
    process.send_signal(signal.SIGTERM)
    assert process.communicate()[1] == ""
    assert process.returncode == 0
    assert outcomes(rtdb) == ["succeeded"]


def test_a_cancelled_command_is_asked_to_end(
    rtdb: Rtdb, firecron: Callable[..., Process], start: Start, brief: list[str]
) -> None:
    """`firecron cancel` from another process reaches the command as SIGTERM, and the run ends as cancelled."""
    process = firecron(*YEARLY, *brief, "--", "answer", "7")
    other = start("-m", "firecron", "cancel", "job", "--why", "wrong input")
    assert "asked to stop" in other.communicate()[0]
    stdout, _ = process.communicate()
    assert (other.returncode, stdout.split()[0], process.returncode) == (0, "SIGTERM", 7)
    assert outcomes(rtdb) == ["cancelled"]
    assert (node(rtdb)["outcome"], node(rtdb)["cancelWhy"]) == ("cancelled", "wrong input")
    assert "unfinished" not in node(rtdb)


def test_a_signal_before_the_command_starts_nothing(rtdb: Rtdb, start: Start, tmp_path: Path) -> None:
    """SIGTERM while a lock is being acquired ends it with 143; what was acquired is released, and nothing runs."""
    with rtdb.faults.hold(path="/cron-locks/job", method="PUT", moment="after") as acquiring:
        process = start("-m", "firecron", "exec", "--lock", "job", "--", "touch", "ran")
        acquiring.wait(BOUND)
        process.send_signal(signal.SIGTERM)
    assert process.communicate() == ("", "")
    assert process.returncode == 143
    assert rtdb.get("/cron-locks") is None
    assert not (tmp_path / "ran").exists()


def test_a_wait_for_the_lock_can_be_ended(rtdb: Rtdb, start: Start) -> None:
    """SIGTERM ends a --wait at once, and the lock stays its holder's."""
    now = time.time_ns() // 1_000_000
    rtdb.set("/cron-locks/job", {"acquiredAt": now, "expiresAt": now + 600_000, "holder": "x"})
    with rtdb.faults.hold(path="/cron-locks/job", nth=2) as second_look:
        process = start("-m", "firecron", "exec", "--lock", "job", "--wait", "600", "--", "true")
        second_look.wait(BOUND)
        process.send_signal(signal.SIGTERM)
    assert process.communicate() == ("", "")
    assert process.returncode == 143
    assert node(rtdb)["holder"] == "x"


@pytest.mark.parametrize("watch", ["1", "0"], ids=["hears", "polls"])
def test_a_wait_for_the_lock_hears_of_its_release(
    rtdb: Rtdb, start: Start, watch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A --wait follows the node of the lock, begins after the release, and has no stream with FIRECRON_WATCH=0."""
    monkeypatch.setenv("FIRECRON_WATCH", watch)
    locks = LockService()
    lease = locks.acquire("job", 600)
    assert isinstance(lease, Lease)
    with ExitStack() as holding:
        if watch == "1":
            heard = holding.enter_context(rtdb.faults.hold(header=("Accept", "text/event-stream"), moment="after"))
        else:
            heard = holding.enter_context(rtdb.faults.hold(path="/cron-locks/job", nth=2))
        process = start("-m", "firecron", "exec", "--lock", "job", "--wait", "600", "--", "echo", "begun")
        heard.wait(BOUND)
    lease.release()
    locks.close()
    assert process.communicate() == ("begun\n", "")
    streams = [one for one in rtdb.emulator.requests if one.facts.headers.get("accept") == "text/event-stream"]
    assert (process.returncode, len(streams)) == (0, int(watch))


@pytest.mark.parametrize("arguments", [[], YEARLY], ids=["plain", "tick"])
def test_nothing_of_firecrons_own_is_open_for_the_command(
    rtdb: Rtdb, firecron: Callable[..., Process], arguments: list[str]
) -> None:
    """The command has its standard streams, and none of firecron's sockets and pipes."""
    process = firecron(*arguments, "--", "descriptors")
    assert process.communicate() == ("", "")
    assert process.returncode == 0


def test_an_unlock_kills_the_command(rtdb: Rtdb, firecron: Callable[..., Process], brief: list[str]) -> None:
    """When an operator has freed its lock, the command and all that it has started are killed, SIGTERM ignored or not,
    and the run is recorded as lost.
    """
    process = firecron(*brief, *YEARLY, "--", "stubborn")
    rtdb.set("/cron-locks/job/expiresAt", 0)
    # Its output ends only when all of its group are gone.
    assert "lost" in process.communicate()[1]
    assert process.returncode == 137
    assert outcomes(rtdb) == ["lost"]


def test_without_a_database_the_command_ends_before_its_lease(
    start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """When renewals fail, the command is ended before the lock expires by the database's own clock."""
    with Emulator() as emulator:
        monkeypatch.setenv("FIREBASE_DATABASE_EMULATOR_HOST", emulator.host)
        monkeypatch.setenv("FIRECRON_DATABASE_URL", emulator.database_url("gone"))
        monkeypatch.setenv("FIRECRON_MARGIN", "0.5")
        # So that it gives up soon what it can't release.
        monkeypatch.setenv("FIRECRON_REQUEST_TIMEOUT", "0.5")
        monkeypatch.setenv("FIRECRON_RELEASE_TIMEOUT", "0.5")
        process = start(*command("--ttl", "3", "--", "count"))
        assert process.stdout is not None
        assert process.stdout.readline()
    record = emulator.get("gone", "/cron-locks/job")
    assert isinstance(record, dict)
    *_, last = process.stdout
    assert record["acquiredAt"] < int(last) < record["expiresAt"]
    assert process.wait() == 143


def test_the_command_does_not_outlive_a_firecron_that_is_killed(rtdb: Rtdb, firecron: Callable[..., Process]) -> None:
    """SIGKILL of firecron takes the command, and all that it has started, with it."""
    process = firecron("--", "stubborn")
    process.kill()
    # Its output ends only when all of its group are gone.
    assert process.communicate() == ("", "")


@pytest.fixture
def terminal(rtdb: Rtdb, tmp_path: Path) -> Iterator[Callable[..., pexpect.spawn[str]]]:
    """Starts a program at a terminal of its own."""
    # What the run around the tests says about itself is no business of a child's.
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "COV_"))}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    with ExitStack() as ending:

        def begin(*program: str) -> pexpect.spawn[str]:
            spawned = pexpect.spawn(
                program[0], list(program[1:]), encoding="utf-8", timeout=BOUND, env=environment, cwd=str(tmp_path)
            )
            ending.callback(spawned.close, force=True)
            return spawned

        yield begin


def ended(terminal: pexpect.spawn[str]) -> int | None:
    """What the program at the terminal has ended with."""
    terminal.expect(pexpect.EOF)
    terminal.wait()
    return terminal.exitstatus


@pytest.mark.parametrize(
    ("does", "code", "outcome"),
    # Had firecron got it as well, and so sent it on, this would be an interruption.
    [(["answer", "3"], 3, "failed"), (["die"], 130, "interrupted")],
    ids=["answered", "deadly"],
)
def test_ctrl_c_is_the_commands_to_answer(
    rtdb: Rtdb, terminal: Callable[..., pexpect.spawn[str]], does: list[str], code: int, outcome: str
) -> None:
    """At a terminal Ctrl-C reaches the command, and firecron only by its end; the lock is released after that."""
    process = terminal(sys.executable, *command(*YEARLY, "--", *does))
    process.expect_exact("ready")
    process.sendintr()
    assert ended(process) == code
    assert outcomes(rtdb) == [outcome]
    assert node(rtdb)["releasedAt"]


def test_the_terminal_is_lent_to_the_command(rtdb: Rtdb, terminal: Callable[..., pexpect.spawn[str]]) -> None:
    """The command reads what is typed, Ctrl-Z stops nobody, and then the script that called it reads what is typed."""
    script = f'{shlex.join([sys.executable, *command("--", "type")])}; read line; echo "<$?-$line>"; exit 5'
    process = terminal("sh", "-c", script)
    process.expect_exact("waiting")
    process.sendcontrol("z")
    process.sendline("hello")
    process.expect_exact("<hello>")
    process.expect_exact("ready")
    process.sendintr()
    process.sendline("typed")
    process.expect_exact("<0-typed>")
    assert ended(process) == 5
    assert rtdb.get("/cron-locks") is None
