"""The command in a real terminal of 80 columns: what is seen, what is typed, and what Ctrl-C does."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from pexpect import EOF
from pexpect.fdpexpect import fdspawn
from rich.cells import cell_len
from tests.catalogued import Catalogue

from firecron.base.instants import to_text
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.processes import BOUND, Start

ZONE = "Europe/Berlin"
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
# The cursor goes up, or to the beginning of a line: what follows is another line.
MOVE = re.compile(r"\x1b\[[0-9;]*[A-H]")
# Opening a terminal as the leader of a session makes it the one that Ctrl-C comes from.
OPENED = 'exec "$@" <"$0" >"$0" 2>&1'


class Terminal:
    """The command in a terminal of its own."""

    def __init__(self, process: subprocess.Popen[bytes], screen: fdspawn[str]) -> None:
        self._process = process
        self._screen = screen

    def wait_for(self, text: str, *, strip: bool = True) -> str:
        """What has been shown up to this text, and the text, without escape sequences unless they are wanted."""
        self._screen.expect_exact(text)
        shown = f"{self._screen.before}{self._screen.after}"
        return ESCAPE.sub("", MOVE.sub("\n", shown)) if strip else shown

    def type(self, text: str) -> None:
        self._screen.send(text)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self) -> tuple[int, str]:
        """Its exit code, once it has ended by itself, and what it has shown since the last wait."""
        self._screen.expect(EOF)
        return self._process.wait(BOUND), ESCAPE.sub("", str(self._screen.before))


Open = Callable[..., Terminal]


@pytest.fixture
def terminal(start: Start, rtdb: Rtdb) -> Iterator[Open]:
    """Opens terminals with the command in them, against the test's database; none outlives the test."""
    with ExitStack() as cleanup:

        def opened(*arguments: str, **environment: str) -> Terminal:
            master, slave = os.openpty()
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
            command = ["sh", "-c", OPENED, os.ttyname(slave), sys.executable, "-m", "firecron", *arguments]
            variables = {**os.environ, "TERM": "xterm-256color", "TZ": ZONE, **environment}
            # Not with pexpect's own fork: Python warns of one beside the threads of this process.
            process = subprocess.Popen(
                command, env=variables, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
            )
            os.close(slave)
            screen = fdspawn(master, encoding="utf-8", timeout=BOUND)
            cleanup.callback(screen.close)
            cleanup.callback(process.wait)
            cleanup.callback(process.kill)
            return Terminal(process, screen)

        yield opened


CTRL_C = "\x03"
PATH = "/cron-locks/nightly-import"
HOUR = 3_600_000


def hold(rtdb: Rtdb) -> dict[str, object]:
    """A lock that another instance holds for an hour from now."""
    now = time.time_ns() // 1_000_000
    node: dict[str, object] = {
        "acquiredAt": now,
        "expiresAt": now + HOUR,
        "holder": "theirs",
        "instanceId": "api-v3-00042-abc",
        "instance": "00bf4b9c3f2a",
        "fence": now,
    }
    rtdb.set(PATH, node)
    return node


def assert_fits(shown: str) -> None:
    """No line is longer than the terminal is wide."""
    assert all(len(line) <= 80 for line in shown.replace("\r", "\n").splitlines()), shown


@pytest.mark.parametrize("by", ["key", "signal"])
def test_locks_are_watched_until_ctrl_c(terminal: Open, rtdb: Rtdb, by: str) -> None:
    """`locks --watch` shows a lock as it comes, is paused and goes, and ends at Ctrl-C or SIGTERM with exit code 0."""
    screen = terminal("locks", "--watch", "--interval", "0.1")
    screen.wait_for("press Ctrl-C to end")
    screen.wait_for("There is no lock in the emulator")
    hold(rtdb)
    shown = screen.wait_for("held by api-v3-00042-abc/00bf4b9c3f2a")
    rtdb.set(f"{PATH}/paused", True)
    shown += screen.wait_for("paused: no instance can acquire it")
    rtdb.set(PATH, None)
    shown += screen.wait_for("There is no lock")
    assert_fits(shown)
    if by == "key":
        screen.type(CTRL_C)
    else:
        screen.signal(signal.SIGTERM)
    code, rest = screen.end()
    assert (code, "Traceback" in rest, "Aborted" in rest) == (0, False, False), rest


def test_an_unlock_is_asked_for(terminal: Open, rtdb: Rtdb) -> None:
    """`unlock` shows what it will do and asks: at `n` nothing changes, exit code 1; at `y` the expiry is 0."""
    node = hold(rtdb)
    for key, expected, code in (("n", node["expiresAt"], 1), ("y", 0, 0)):
        screen = terminal("unlock", "nightly-import")
        shown = screen.wait_for("Unlock it? [y/N]: ")
        assert "held by api-v3-00042-abc/00bf4b9c3f2a" in shown
        assert f"at once. Its fence {node['fence']} stays. If" in " ".join(shown.split())
        assert_fits(shown)
        screen.type(f"{key}\r")
        ended, rest = screen.end()
        assert (ended, rtdb.get(PATH)) == (code, {**node, "expiresAt": expected}), rest


def test_an_unlock_says_what_it_keeps(terminal: Open, rtdb: Rtdb) -> None:
    """`unlock` says in a sentence that the slot and the fence stay, where the node has both."""
    node = hold(rtdb)
    slot = to_text(time.time_ns() // 1_000_000)
    rtdb.set(f"{PATH}/slot", slot)
    screen = terminal("unlock", "nightly-import")
    shown = screen.wait_for("Unlock it? [y/N]: ")
    assert f"at once. Its slot {slot} and fence {node['fence']} stay. If" in " ".join(shown.split())
    screen.type("n\r")
    assert screen.end()[0] == 1


def test_an_unlock_of_what_has_changed_is_refused(terminal: Open, rtdb: Rtdb) -> None:
    """A lock that is taken over while `unlock` asks stays as it is, and that is said, with exit code 1."""
    node = hold(rtdb)
    screen = terminal("unlock", "nightly-import")
    screen.wait_for("Unlock it? [y/N]: ")
    successor = {**node, "holder": "another", "expiresAt": int(str(node["expiresAt"])) + 1}
    rtdb.set(PATH, successor)
    screen.type("y\r")
    code, rest = screen.end()
    assert (code, rtdb.get(PATH)) == (1, successor)
    assert "changed meanwhile, so it was not unlocked" in rest


def test_a_lock_that_is_renewed_while_unlock_asks_is_freed(terminal: Open, rtdb: Rtdb) -> None:
    """However late the answer is: a lock that its holder has renewed meanwhile is the one that was shown."""
    node = hold(rtdb)
    screen = terminal("unlock", "nightly-import")
    screen.wait_for("Unlock it? [y/N]: ")
    rtdb.set(PATH, {**node, "expiresAt": int(str(node["expiresAt"])) + 1})
    screen.type("y\r")
    code, rest = screen.end()
    assert (code, rtdb.get(PATH)) == (0, {**node, "expiresAt": 0}), rest


def test_runs_are_shown_as_bars(terminal: Open, rtdb: Rtdb) -> None:
    """`runs` shows each run in one line of 80 columns with its bar, in the colour of its outcome."""
    # At noon of the terminal's day: another day, there or in UTC, would take more columns.
    noon = datetime.now(ZoneInfo(ZONE)).replace(hour=12, minute=0)
    fields = {"instanceId": "api-00042-abc", "instance": "00bf4b9c3f2a", "trigger": "schedule", "attempt": 1}
    for minutes, outcome, duration in ((3, "succeeded", 500), (2, "failed", 4000), (1, "succeeded", 8000)):
        slot = to_text(noon - timedelta(seconds=minutes))
        rtdb.set(f"/cron-runs/job/{slot}", {**fields, "slot": slot, "outcome": outcome, "durationMs": duration})
    screen = terminal("runs", "job")
    raw = screen.wait_for("entries", strip=False)
    code, rest = screen.end()
    assert code == 0
    shown = ESCAPE.sub("", raw + rest)
    lines = shown.replace("\r", "").splitlines()
    assert_fits(shown)
    assert len(lines) == 4, shown
    assert all(line.endswith("api-00042-abc/00bf4b9c3f2a") for line in lines[:3])
    bars = [line.count("█") for line in lines[:3]]
    assert bars[0] < bars[1] < bars[2]
    assert 2 * bars[1] in (bars[2], bars[2] - 1)
    assert (raw.count("\x1b[32m") > 0, raw.count("\x1b[1;31m") > 0) == (True, True), raw


def test_the_demonstration_begins(terminal: Open) -> None:
    """`demo` says what it will show, and Ctrl-C ends it and its instances."""
    screen = terminal("demo", "--ticks", "2")
    shown = screen.wait_for("each instance is a process")
    assert "one job" in shown
    screen.type(CTRL_C)
    code, rest = screen.end()
    assert code != 0
    assert "Traceback" not in rest


def test_an_emulator_for_a_command(terminal: Open, rtdb: Rtdb, tmp_path: Path) -> None:
    """`emulator -- COMMAND` serves the command on a port of its own, and ends with its exit code."""
    child = "import os; print(os.environ['FIREBASE_DATABASE_EMULATOR_HOST']); import sys; sys.exit(input() and 7)"
    export = tmp_path / "data.json"
    screen = terminal("emulator", "--export-on-exit", str(export), "--", sys.executable, "-c", child)
    shown = screen.wait_for("\n").strip()
    assert shown.startswith("127.0.0.1:")
    assert shown != rtdb.emulator.host
    screen.type("x\r")
    code, _ = screen.end()
    assert code == 7
    assert export.read_text("utf-8").strip() == "null"


NAMES = ("digest", "x" * 100, "j\u00f6b-\u202egnp", "\u4efb\u52a1" * 30)


def test_the_status_fits_into_80_columns(terminal: Open, rtdb: Rtdb) -> None:
    """`status` shows every job in lines of 80 columns, whatever its name; the alarm is red, and the cursor stays."""
    catalogue = Catalogue(rtdb)
    for name in NAMES:
        catalogue.declare(name, where="jobs.w\u202e" + "w" * 400, service="s" * 300)
        catalogue.ran(
            name, failures=1 if name == "digest" else 0, outcome="failed" if name == "digest" else "succeeded"
        )
    screen = terminal("status")
    raw = screen.wait_for(": 1 failing, 3 ok", strip=False)
    code, rest = screen.end()
    shown = ESCAPE.sub("", raw + rest)
    assert code == 0
    assert all(cell_len(line) <= 80 for line in shown.replace("\r", "").splitlines()), shown
    assert set(ESCAPE.findall(raw)) <= set(ESCAPE.findall(re.sub(r"\x1b\[(?![0-9;]*m)", "", raw))), "only colours"
    assert "\u202e" not in raw
    assert re.search(r"\x1b\[1;31mfailing", raw)
    lines = [line.rstrip() for line in shown.replace("\r", "").splitlines()]
    assert lines[0].split() == ["job", "verdict", "next", "last", "took"]
    assert lines[1].startswith("digest")
    assert "x" * 80 in lines


def test_a_check_fits_into_80_columns(terminal: Open, rtdb: Rtdb) -> None:
    """`check` prints what is wrong, in a colour, and ends with exit code 1."""
    catalogue = Catalogue(rtdb)
    for name in NAMES:
        catalogue.declare(name)
        catalogue.ran(name, failures=1, outcome="failed")
    screen = terminal("check")
    raw = screen.wait_for("failing", strip=False)
    code, rest = screen.end()
    assert code == 1
    assert all(cell_len(line) <= 80 for line in ESCAPE.sub("", raw + rest).replace("\r", "").splitlines())
    assert re.search(r"\x1b\[1;31mfailing", raw)
    assert "\u202e" not in raw + rest


def test_the_status_is_watched_until_ctrl_c(terminal: Open, rtdb: Rtdb) -> None:
    """`status --watch` shows a run as it begins and fails, and ends at Ctrl-C with exit code 0."""
    catalogue = Catalogue(rtdb)
    catalogue.declare("digest")
    catalogue.ran("digest")
    screen = terminal("status", "--watch", "--interval", "0.1")
    shown = screen.wait_for("1 job: 1 ok")
    slot = catalogue.ran(
        "digest", ago=0, releasedAt=None, expiresAt=time.time_ns() // 1_000_000 + HOUR, unfinished=None
    )
    shown += screen.wait_for("1 job: 1 running")
    catalogue.ran("digest", ago=0, outcome="failed", failures=1)
    shown += screen.wait_for("1 job: 1 failing")
    assert f"its last tick {slot[:10]}" in " ".join(shown.split())
    assert_fits(shown)
    screen.type(CTRL_C)
    code, rest = screen.end()
    assert (code, "Traceback" in rest) == (0, False), rest
