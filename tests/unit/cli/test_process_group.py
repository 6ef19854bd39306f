"""Starting a command in a group of its own: what can't be started, and what is left of it then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from firecron.cli import process
from firecron.cli.process import ProcessGroup, check_command
from firecron.errors import NotStarted


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file on the PATH that is not executable."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    file = tmp_path / "plain-file"
    file.write_text("#!/bin/sh\n")
    return file


@pytest.fixture
def guardians(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The guardians that were started."""
    started: list[subprocess.Popen[bytes]] = []
    start = process.start_guardian

    def note() -> subprocess.Popen[bytes]:
        started.append(start())
        return started[-1]

    monkeypatch.setattr(process, "start_guardian", note)
    return started


MISSING = "there is no such command, or no such interpreter as it names"
PLAIN = "it can't be started: it is not executable"


@pytest.mark.parametrize(
    ("name", "code", "why"),
    [
        ("no-such-command", 127, MISSING),
        ("{}/no-such", 127, MISSING),
        ("plain-file", 126, PLAIN),
        ("{}/plain-file", 126, PLAIN),
    ],
)
def test_what_can_not_be_started_says_why(
    name: str, code: int, why: str, plain: Path, guardians: list[subprocess.Popen[bytes]]
) -> None:
    """A command that isn't there, or is not executable, ends as in a shell with 127 or 126; before anything is started
    that can be told, and where it is started no guardian stays behind.
    """
    name = name.format(plain.parent)
    for attempt in (lambda: check_command(name), lambda: ProcessGroup([name], os.environ)):
        with pytest.raises(NotStarted) as raised:
            attempt()
        assert (raised.value.code, str(raised.value)) == (code, f"{name}: {why}")
    (guardian,) = guardians
    assert guardian.returncode == 0


def test_what_is_there_passes_the_check(plain: Path) -> None:
    """A command on the PATH, and one by its path, can be started as far as can be told."""
    check_command("sh")
    plain.chmod(0o700)
    check_command(str(plain))


def test_what_the_system_refuses_is_said_in_its_words(plain: Path) -> None:
    """A command that the system can't run for another reason ends with 126 and that reason."""
    plain.write_bytes(b"\0")
    plain.chmod(0o700)
    with pytest.raises(NotStarted, match="it can't be started: Exec format error") as raised:
        ProcessGroup([str(plain)], os.environ)
    assert raised.value.code == 126


@pytest.mark.parametrize(
    ("executable", "code", "why"),
    [
        ("/no/such/python", 127, "the guardian of the command (/no/such/python)"),
        ("/bin/true", 126, "ended during its start"),
    ],
)
def test_without_a_guardian_nothing_is_started(
    executable: str, code: int, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the guardian can't be started, or is killed before it guards, neither is the command."""
    monkeypatch.setattr(sys, "executable", executable)
    with pytest.raises(NotStarted) as raised:
        ProcessGroup(["sh", "-c", "exit 3"], os.environ)
    assert raised.value.code == code
    assert why in str(raised.value)


def test_a_group_is_signalled_as_one(guardians: list[subprocess.Popen[bytes]]) -> None:
    """A signal reaches the command, whose number `wait` returns; the guardian outlives it, and ends with the group."""
    group = ProcessGroup(["sleep", "60"], os.environ)
    group.send(signal.SIGTERM)
    assert group.wait() == -signal.SIGTERM
    assert guardians[0].poll() is None
    group.close()
    assert guardians[0].returncode == 0
    group.close()
    group.send(signal.SIGTERM)


@pytest.mark.parametrize(
    ("terminals", "foreground", "is_so"),
    [
        ({0, 1}, "this", True),
        ({0, 1}, "another", False),
        ({0, 1}, "of another terminal", False),
        ({0}, "this", False),
        ({1}, "this", False),
    ],
)
def test_the_foreground_is_this_process_at_its_own_terminal(
    terminals: set[int], foreground: str, is_so: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group is put into the foreground only where both ends are a terminal that this process is in the foreground of,
    and that controls it.
    """

    def group(terminal: int) -> int:
        assert terminal == 0
        if foreground == "of another terminal":
            raise OSError("inappropriate ioctl")
        return os.getpgrp() + (foreground == "another")

    monkeypatch.setattr(os, "isatty", terminals.__contains__)
    monkeypatch.setattr(os, "tcgetpgrp", group)
    assert process.is_in_foreground() is is_so


@pytest.mark.parametrize("is_gone", [False, True])
def test_the_terminal_is_lent_to_the_command(is_gone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the foreground the terminal is the command's until the group is closed, and this process's again then, if it
    is still there.
    """
    given: list[tuple[int, int]] = []

    def give(terminal: int, group: int) -> None:
        given.append((terminal, group))
        if is_gone and len(given) == 2:
            raise OSError("the terminal is gone")

    monkeypatch.setattr(process, "is_in_foreground", lambda: True)
    monkeypatch.setattr(os, "tcsetpgrp", give)
    group = ProcessGroup(["true"], os.environ)
    assert group.wait() == 0
    group.close()
    assert given == [(0, group.number), (0, os.getpgrp())]
