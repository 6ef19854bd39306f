"""`rtdb-emulator exec`: what a command finds that would start Java, without the Firebase CLI."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from rtdb_emulator.firebase_cli import JAR, prepared
from rtdb_emulator_tests.helpers.processes import Run, Start

EXEC = ("-m", "rtdb_emulator", "exec")
# As the CLI asks, and as it starts its emulator.
ASKS = "java -Duser.language=en -Dfile.encoding=UTF-8 -version"
STARTS = f'exec java -Duser.language=en -jar "${JAR}" --host 127.0.0.1 --port 0 --single_project_mode Warning'

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="exec needs Linux or macOS")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache, which is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "rtdb-emulator"


def test_java_has_a_version_that_the_cli_takes(run: Run) -> None:
    """The CLI reads the number after `version "` from either output, and wants 21 or later."""
    finished = run(*EXEC, "--", "sh", "-c", ASKS)
    assert (finished.returncode, finished.stdout) == (0, "")
    assert finished.stderr.startswith('openjdk version "99"\n')


def test_the_jar_is_this_emulator(start: Start) -> None:
    """It listens where the CLI says, takes options that are the CLI's alone, and ends with 0 at the CLI's SIGINT."""
    process = start(*EXEC, "--", "sh", "-c", STARTS)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("rtdb-emulator serves http://127.0.0.1:")
    process.send_signal(signal.SIGINT)
    assert process.wait() == 0


@pytest.mark.parametrize("arguments", ["-jar other.jar --port 1", "Main '-jar x'", "-cp a:b Main"])
def test_the_machines_own_java_gets_everything_else(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str
) -> None:
    """Another emulator's jar, or a program of the user's, is run by the next `java` on the PATH, with its arguments."""
    own = tmp_path / "jdk"
    own.mkdir()
    (own / "java").write_text('#!/bin/sh\nprintf "[%s]" "$@"\nexit 7\n', "utf-8")
    (own / "java").chmod(0o755)
    monkeypatch.setenv("PATH", f"{own}{os.pathsep}{os.environ['PATH']}")
    finished = run(*EXEC, "--", "sh", "-c", f"java {arguments}")
    plain = arguments.replace("'-jar x'", "-jar_x").split()
    assert finished.stdout == "".join(f"[{word.replace('_', ' ')}]" for word in plain)
    assert finished.returncode == 7


def test_without_java_everything_else_is_a_line(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where there is none, the line has what was asked of it, and the code is the shell's for a missing command."""
    (tmp_path / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path))
    finished = run(*EXEC, "--", "sh", "-c", "java -jar other.jar")
    assert (finished.returncode, finished.stderr) == (127, "there is no Java for: java -jar other.jar\n")


def test_the_process_becomes_the_command(start: Start) -> None:
    """Its number stays the same: a signal, the terminal and the exit code are the command's alone."""
    process = start(*EXEC, "--", "sh", "-c", "echo $$; exit 5")
    assert process.stdout is not None
    assert process.stdout.readline() == f"{process.pid}\n"
    assert process.wait() == 5


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (
            (),
            2,
            "rtdb-emulator: exec needs a command: rtdb-emulator exec -- firebase emulators:start\n",
        ),
        (("--", "no-such-program"), 127, "rtdb-emulator: can't run no-such-program: No such file or directory\n"),
        (("--", "/"), 126, "rtdb-emulator: can't run /: Permission denied\n"),
    ],
)
def test_a_command_that_can_not_be_run_is_one_line(run: Run, command: tuple[str, ...], code: int, said: str) -> None:
    """None, one that is not there, and one that is no program."""
    finished = run(*EXEC, *command)
    assert (finished.returncode, finished.stdout, finished.stderr) == (code, "", said)


def test_a_cache_that_can_not_be_written_is_one_line(run: Run, cache: Path) -> None:
    """The line names the folder, and the variable that names another one."""
    cache.parent.write_text("a file", "utf-8")
    finished = run(*EXEC, "--", "true")
    assert (finished.returncode, finished.stdout) == (2, "")
    assert finished.stderr == (
        f"rtdb-emulator: can't write into {cache}: Not a directory; XDG_CACHE_HOME names another folder\n"
    )


def test_the_cache_is_written_once(cache: Path) -> None:
    """Files that are right stay as they are, for a CLI that has begun with them; broken ones are written again."""
    environment = prepared({"PATH": "/bin"}, cache)
    assert environment["PATH"] == f"{cache}{os.pathsep}/bin"
    files = [cache / "java", Path(environment[JAR])]
    first = [file.stat().st_ino for file in files]
    assert prepared({"PATH": "/bin"}, cache) == environment
    assert [file.stat().st_ino for file in files] == first
    files[0].write_text("cut", "utf-8")
    prepared({}, cache)
    assert "rtdb_emulator.firebase_cli" in files[0].read_text("utf-8")
    assert sorted(cache.iterdir()) == sorted(files)
