"""The README's walk: from nothing to three instances, exactly as a new user would; the guide's script under SIGTERM."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.docs.documents import ROOT, SHELL, Command, commands, why_left_out

from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.markdown import blocks

PAGE = ROOT / "README.md"
TUTORIAL = ROOT / "docs" / "tutorial" / "first-job.md"
SCRIPT_PAGE = ROOT / "docs" / "how-to" / "starting-and-stopping.md"
HERE = "runs in tests/docs/test_walk.py"

# Seconds. Nothing here takes a quarter of it.
BOUND = 40.0


@pytest.fixture
def inherited(tmp_path: Path) -> dict[str, str]:
    """The environment of a user: the commands are on the path, and nothing is said of any database."""
    # Unbuffered, a printed line is several writes, and what other processes say comes between them.
    ours = ("PYTEST_", "COV_", "FIRECRON_", "FIREBASE_", "PYTHONUNBUFFERED")
    found = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    return found | {"PATH": os.pathsep.join([str(Path(sys.executable).parent), found.get("PATH", os.defpath)])}


@contextmanager
def begun(
    command: list[str], folder: Path, environment: Mapping[str, str], bound: float = BOUND
) -> Iterator[subprocess.Popen[str]]:
    """A process in a group of its own, none of which outlives the block, or its bound."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )

    def kill() -> None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    # So that who reads what it says never waits for ever.
    watchdog = threading.Timer(bound, kill)
    watchdog.start()
    with process:
        try:
            yield process
        finally:
            watchdog.cancel()
            kill()


def test_three_instances_as_the_readme_says(tmp_path: Path, inherited: dict[str, str]) -> None:
    """With the README's file and command three instances are up, each tick greets once, and Ctrl-C ends all of it."""
    [saved] = [block for block in blocks(PAGE) if block.file == "main.py"]
    [command] = [command for command in shell(PAGE) if why_left_out(command) == HERE]
    # A tick every second instead of every ten, and a port that is free.
    assert "*/10 * * * * *" in saved.text
    assert "--port 9000" in command.text
    Path(tmp_path, "main.py").write_text(saved.text.replace("*/10 *", "*/1 *", 1), "utf-8")
    line = command.text.replace("9000", str(free_port()))
    with begun(["bash", "-c", f"exec env {line}"], tmp_path, inherited | {"UVICORN_PORT": "0"}) as walk:
        assert walk.stdout is not None
        said = []
        for text in walk.stdout:
            said.append(text)
            instances = sum("Application startup complete" in text for text in said)
            if instances == 3 and sum("hello, once in the fleet" in text for text in said) >= 2:
                break
        walk.send_signal(signal.SIGINT)
        said += walk.stdout
        assert walk.wait(BOUND) == 0, "".join(said)
    greeted = re.findall(r"hello, once in the fleet: (say-hello:[\d-]+T[\d:]+Z)", "".join(said))
    assert len(greeted) >= 2
    assert len(greeted) == len({*greeted})
    assert sum("crons.stopped" in text for text in said) == 3


def test_the_tutorials_job_survives_a_kill(rtdb: Rtdb, tmp_path: Path, inherited: dict[str, str]) -> None:
    """With the tutorial's file, rules and command, the tick of a worker that is killed is run again by another one."""
    [saved] = [block for block in blocks(TUTORIAL) if block.file == "main.py"]
    [command] = [command for command in shell(TUTORIAL) if why_left_out(command) == HERE]
    # Ticks, parts and a lease that are shorter, and a port that is free.
    text = saved.text
    for said, instead in {"* * * * *": "*/3 * * * * *", "lock_ttl=10": "lock_ttl=6", "sleep(1)": "sleep(0.1)"}.items():
        assert text.count(said) == 1
        text = text.replace(said, instead)
    Path(tmp_path, "main.py").write_text(text, "utf-8")
    rtdb.set_rules(ROOT / "emulator" / "database.rules.json")
    database = {"FIREBASE_DATABASE_EMULATOR_HOST": rtdb.emulator.host, "FIRECRON_DATABASE_URL": rtdb.url}
    environment = inherited | database | {"FIRECRON_UID": "firecron"}
    line = command.text.replace("8000", "0")
    with begun(["bash", "-c", f"exec env {line}"], tmp_path, environment) as walk:
        assert walk.stdout is not None
        tick = killed = None
        for text in walk.stdout:
            part = re.match(r"part (\d+) of (send-report:\S+), by process (\d+)", text)
            if part and tick is None and int(part[1]) == 3:
                tick, killed = part[2], part[3]
                os.kill(int(part[3]), signal.SIGKILL)
            elif part and killed not in (None, part[3]):
                assert (part[1], part[2]) == ("0", tick)
                break
        else:
            raise AssertionError("the tick was not run again")


def test_the_script_ends_in_order(rtdb: Rtdb, tmp_path: Path, inherited: dict[str, str]) -> None:
    """The guide's script is interrupted by SIGTERM: its run is told, its lock released, its tick left to be rerun."""
    [script] = [block for block in blocks(SCRIPT_PAGE) if "signal.SIGTERM" in block.text]
    # It has run before, so that the tick of the minute that is under way is run at once.
    rtdb.set("/cron-locks/rebuild-index", {"expiresAt": 1, "releasedAt": 1, "slot": "2026-01-01T00:00:00Z"})
    leading = {"FIREBASE_DATABASE_EMULATOR_HOST": rtdb.emulator.host, "FIRECRON_DATABASE_URL": rtdb.url}
    environment = inherited | leading | {"RUNTIME_INSTANCE": "production"}
    with begun([sys.executable, "-c", script.text], tmp_path, environment) as process:
        wait_for(rtdb, "/cron-locks/rebuild-index/unfinished", process)
        process.terminate()
        said, _ = process.communicate(timeout=BOUND)
    assert process.returncode == 0, said
    assert "Traceback" not in said
    record = rtdb.get("/cron-locks/rebuild-index")
    assert isinstance(record, dict)
    assert record["outcome"] == "interrupted"
    assert record["unfinished"] == record["slot"]
    assert "releasedAt" in record


def shell(page: Path) -> list[Command]:
    return [command for block in blocks(page) if block.language in SHELL for command in commands(block)]


def wait_for(rtdb: Rtdb, path: str, process: subprocess.Popen[str]) -> None:
    ends = time.monotonic() + BOUND
    while rtdb.get(path) is None:
        assert process.poll() is None, process.stdout and process.stdout.read()
        assert time.monotonic() < ends, f"there is nothing at {path}"
        time.sleep(0.02)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port
