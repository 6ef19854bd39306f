"""`rtdb-emulator exec -- firebase emulators:start …`: the unchanged Firebase CLI runs this emulator instead of its own.

The CLI asks `java -version`, and starts its database emulator by `java -jar PATH --host … --port …`. PATH is that of
the variable DATABASE_EMULATOR_BINARY_PATH, where it is set. So the command gets such a PATH, and finds a `java` first
that answers the question, starts this emulator for that file, and hands everything else to the machine's own Java.

    exec       the process becomes the command: signals, the terminal and the exit code are the command's alone
    java       becomes `rtdb-emulator`, with the CLI's host and port; the CLI ends it by SIGINT

What both need are two files in the user's cache, which are the same for every version: nothing is left to clean up. The
CLI makes the file at PATH executable, so it has to be the user's own.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

# The variable of the CLI that names its jar.
JAR = "DATABASE_EMULATOR_BINARY_PATH"
# The Python that has this package, for `java`.
PYTHON = "RTDB_EMULATOR_PYTHON"
# Later than any that a CLI may want. Only the CLI's database emulator needs no real one.
VERSION = 'openjdk version "99"\nrtdb-emulator answers for Java: the Firebase CLI needs none for the database.\n'

_SCRIPT = f'#!/bin/sh\nexec "${PYTHON}" -m rtdb_emulator.firebase_cli "$@"\n'
_NOTE = "No jar: it tells `java`, which is beside it, that the Firebase CLI wants its database emulator.\n"


def run(arguments: Sequence[str]) -> int:
    """Become the command of these arguments of `rtdb-emulator exec`. Return an exit code if that can't be.

    Raises OSError or ValueError, with a line for the user.
    """
    parser = argparse.ArgumentParser(
        prog="rtdb-emulator exec",
        usage="%(prog)s -- COMMAND",
        description="Run a command in which the Firebase CLI starts this emulator instead of its own, without Java.",
        epilog="Example: rtdb-emulator exec -- firebase emulators:start --only database",
    )
    parser.add_argument("command", nargs="*", metavar="COMMAND", help="firebase, or what calls it, such as npm test")
    command: list[str] = parser.parse_args(arguments).command
    if not command:
        raise ValueError("exec needs a command: rtdb-emulator exec -- firebase emulators:start")
    if sys.platform == "win32":
        raise ValueError("exec needs Linux or macOS: on Windows the Firebase CLI starts no `java` but java.exe")
    environment = prepared(os.environ, _cache(os.environ))
    try:
        os.execvpe(command[0], command, environment)  # noqa: S606 (that is what the user asks for)
    except OSError as error:
        sys.stderr.write(f"rtdb-emulator: can't run {command[0]}: {error.strerror}\n")
        return 127 if isinstance(error, FileNotFoundError) else 126


def prepared(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Write the two files into the folder, and return the environment in which the CLI finds them."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        java, jar = folder / "java", folder / "database-emulator.jar"
        for file, text in ((java, _SCRIPT), (jar, _NOTE)):
            _write(file, text)
    except OSError as error:
        raise OSError(f"can't write into {folder}: {error.strerror}; XDG_CACHE_HOME names another folder") from None
    path = os.pathsep.join(filter(None, (str(folder), environment.get("PATH", os.defpath))))
    return {**environment, "PATH": path, JAR: str(jar), PYTHON: sys.executable}


def java(arguments: Sequence[str]) -> NoReturn:
    """Do as Java would for the CLI with these arguments."""
    if arguments[-1:] == ["-version"]:
        sys.stderr.write(VERSION)
        sys.exit(0)
    jar = os.environ.get(JAR, "")
    if "-jar" in arguments and jar in arguments:
        from rtdb_emulator.cli import main

        sys.exit(main(emulators_own(arguments[arguments.index(jar) + 1 :])))
    real = shutil.which("java", path=_without(os.environ.get("PATH", os.defpath), Path(jar).parent))
    if real is None:
        sys.stderr.write(f"there is no Java for: java {' '.join(arguments)}\n")
        sys.exit(127)
    os.execv(real, [real, *arguments])  # noqa: S606 (the next one on the PATH, as without this one)


def emulators_own(options: Sequence[str]) -> list[str]:
    """Return the options of `rtdb-emulator` for those that the CLI gives its own database emulator."""
    parser = argparse.ArgumentParser(prog="java -jar", add_help=False, allow_abbrev=False)
    for name in ("--host", "--port", "--functions_emulator_host", "--functions_emulator_port"):
        parser.add_argument(name)
    # There are more, such as `--single_project_mode`: what this emulator has no use for is no reason not to start.
    known, _ = parser.parse_known_args(options)
    own = {"--host": known.host, "--port": known.port}
    if known.functions_emulator_host and known.functions_emulator_port:
        own["--functions"] = f"{known.functions_emulator_host}:{known.functions_emulator_port}"
    return [part for name, value in own.items() if value is not None for part in (name, value)]


def _cache(environment: Mapping[str, str]) -> Path:
    home = environment.get("XDG_CACHE_HOME", "")
    return (Path(home) if Path(home).is_absolute() else Path.home() / ".cache") / "rtdb-emulator"


def _write(file: Path, text: str) -> None:
    """Have an executable file with this text: whole, also for another process that begins at the same time."""
    if file.exists() and file.read_text("utf-8") == text and os.access(file, os.X_OK):
        return
    partial = file.with_name(f"{file.name}.{os.getpid()}")
    partial.write_text(text, "utf-8")
    partial.chmod(0o755)
    partial.replace(file)


def _without(path: str, folder: Path) -> str:
    return os.pathsep.join(part for part in path.split(os.pathsep) if not part or Path(part) != folder)


if __name__ == "__main__":
    java(sys.argv[1:])
