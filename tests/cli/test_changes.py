"""`--watch` looks when the database tells of a change, else at the interval; what it shows, and how it ends."""

from __future__ import annotations

import io
import re
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from rich.console import Console
from tests.cli.calls import checked, complaint
from tests.cli.schemas import ERROR, LOCKS, RUNS
from tests.cli.test_locks import DIED, SLOT

from firecron.cli.commands.locks import LocksView
from firecron.cli.commands.runs import LastRunsView, RunsView
from firecron.cli.output import Output
from firecron.cli.watching import Changes, View, watch
from firecron.locks import LockService
from firecron.ops.operator import Operator
from rtdb_emulator.pytest_plugin import Rtdb


def test_a_change_is_shown_at_once(rtdb: Rtdb, capsys: pytest.CaptureFixture[str]) -> None:
    """A lock that changes is a line long before the interval is over."""
    locks = LockService()
    output = Output(as_json=False)
    changes = Changes(locks.database, locks.database.paths.locks)
    nodes = iter([{"paused": True}, None])

    def pause(seconds: float) -> None:
        while not changes.are_watched():
            changes(0.01)
        try:
            rtdb.set("/cron-locks/a", next(nodes))
        except StopIteration:
            raise KeyboardInterrupt from None
        changes(seconds)

    started = time.monotonic()
    with changes.followed():
        watch(output, LocksView(Operator(locks.database), output), 3_600, pause, changes.are_watched)
    assert time.monotonic() - started < 30
    said = capsys.readouterr().out
    assert "a: paused" in said
    assert "a: its node is gone" in said
    assert locks.database.streams.open == 0
    locks.close()


def test_without_a_stream_the_looks_come_at_the_interval(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """With FIRECRON_WATCH=0 nothing is followed, and the pause is the interval."""
    monkeypatch.setenv("FIRECRON_WATCH", "0")
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    locks = LockService()
    with Changes(locks.database, locks.database.paths.locks).followed() as changes:
        changes(2)
        assert not changes.are_watched()
    assert pauses == [2]
    assert len(rtdb.emulator.requests) == 0
    locks.close()


def test_a_flood_of_changes_is_no_flood_of_looks(rtdb: Rtdb) -> None:
    """However fast the node changes, looks are a fifth of a second apart."""
    locks = LockService()
    stop = threading.Event()

    def flood() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            rtdb.set("/cron-locks/a/note", number)

    flooding = threading.Thread(target=flood)
    flooding.start()
    try:
        with Changes(locks.database, locks.database.paths.locks).followed() as changes:
            started = time.monotonic()
            for _ in range(4):
                changes(3_600)
            assert time.monotonic() - started >= 0.8
    finally:
        stop.set()
        flooding.join()
        locks.close()


class Script:
    """Does the next thing in each pause, and presses Ctrl-C in the last; notes how long the pauses were."""

    def __init__(self, *things: Callable[[], object]) -> None:
        self._things = iter(things)
        self.pauses: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.pauses.append(seconds)
        thing = next(self._things, None)
        if thing is None:
            raise KeyboardInterrupt
        thing()


def nothing() -> None:
    """A look in which nothing has changed."""


def watched(make: Callable[[Operator, Output], View[Any]], *things: Callable[[], object], **to: Output) -> list[float]:
    """Watch a view while these things happen; return how long the pauses were. `to` is an output if not the usual."""
    output, script = to.get("output") or Output(as_json=False), Script(*things)
    watch(output, make(Operator(LockService().database), output), 2, script)
    return script.pauses


def history(operator: Operator, output: Output) -> RunsView:
    return RunsView(operator, output, "job", 40)


def test_each_change_of_a_lock_is_a_line(rtdb: Rtdb, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal each lock that has changed is a line, what has not isn't told again, a node gone is told."""
    rtdb.set("/cron-locks/b", {"paused": True})
    died, gone = partial(rtdb.set, "/cron-locks/a", DIED), partial(rtdb.set, "/cron-locks/b", None)
    assert watched(LocksView, nothing, died, gone) == [2, 2, 2, 2]
    lines = [line[9:] for line in capsys.readouterr().out.splitlines()]
    assert [line.partition(":")[0] for line in lines] == ["b", "a", "b"]
    assert "paused" in lines[0]
    assert "died" in lines[1]
    assert "its node is gone" in lines[2]


def test_each_change_is_a_value(rtdb: Rtdb, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json each change is one value in one line, of the form that the command has without --watch."""
    failed = partial(rtdb.set, f"/cron-runs/job/{SLOT}", {"outcome": "failed"})
    watched(history, nothing, failed, nothing, output=Output(as_json=True))
    lines = capsys.readouterr().out.splitlines(keepends=True)
    assert [checked(RUNS, line)["counts"] for line in lines] == [{}, {"failed": 1}]


def test_new_runs_are_lines(rtdb: Rtdb, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal the history is shown once, and then each entry that is new or has changed."""
    first, second = (f"/cron-runs/job/2020-09-13T12:2{minute}:40Z" for minute in (6, 7))
    rtdb.set(first, {"outcome": "abandoned"})
    watched(history, partial(rtdb.set, second, {"outcome": "failed"}), partial(rtdb.set, first, {"outcome": "lost"}))
    lines = capsys.readouterr().out.splitlines()
    told = [word for line in lines for word in ("abandoned", "failed", "lost", "1 entry") if word in line]
    assert told == ["abandoned", "abandoned", "1 entry", "failed", "lost"]


def test_a_run_under_way_is_watched(rtdb: Rtdb, capsys: pytest.CaptureFixture[str]) -> None:
    """A run is told when it begins, when its lock has expired, and when it is recorded, each once."""
    live = {**DIED, "expiresAt": 2 * 10**12}
    begun, died = (partial(rtdb.set, "/cron-locks/job", node) for node in (live, DIED))
    entry = {"outcome": "abandoned", "slot": SLOT, "attempt": 2}
    watched(history, begun, nothing, died, partial(rtdb.set, f"/cron-runs/job/{SLOT}", entry), nothing)
    lines = capsys.readouterr().out.splitlines()
    words = ("no run of job", "under way", "started, not ended", "abandoned")
    assert [word for line in lines for word in words if word in line] == list(words)


def test_an_empty_database_is_watched(rtdb: Rtdb, capsys: pytest.CaptureFixture[str]) -> None:
    """That there is nothing is told once, with the database's name, and then what comes."""
    for view in (LocksView, LastRunsView):
        rtdb.set("/cron-locks", None)
        watched(view, nothing, partial(rtdb.set, "/cron-locks/a", DIED))
        first, news = capsys.readouterr().out.splitlines()
        assert f"in the emulator at {rtdb.emulator.url}, database {rtdb.namespace}" in first
        assert "a: " in news


@pytest.mark.parametrize("as_json", [True, False])
def test_an_outage_is_told_once_and_outlasted(rtdb: Rtdb, capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    """While the database is away that is told once, and tried at longer intervals up to a bound, until it is back."""
    away = partial(rtdb.faults.drop_request, times=None)
    pauses = watched(LocksView, away, *[nothing] * 6, rtdb.faults.clear, nothing, output=Output(as_json=as_json))
    assert pauses == [2, 4, 8, 16, 30, 30, 30, 30, 2, 2]
    said = capsys.readouterr()
    assert said.err.count("can't be reached") == 1
    if as_json:
        first, trouble, last = said.out.splitlines(keepends=True)
        assert checked(ERROR, trouble)["code"] == 69
        assert checked(LOCKS, first) == checked(LOCKS, last) == {"locks": []}
    else:
        assert "RTDB can be reached again" in said.err


def test_a_watch_comes_back_when_the_database_asks_for_it(rtdb: Rtdb) -> None:
    """The pause after a failure is not shorter than that."""
    busy = partial(rtdb.faults.answer, 429, headers={"Retry-After": "45"})
    assert watched(LocksView, busy, nothing, nothing) == [2, 45, 2, 2]


@pytest.mark.parametrize("has_colours", [True, False])
def test_colours_can_be_forbidden(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch, has_colours: bool) -> None:
    """What is shown on a terminal has colours, and none where NO_COLOR is set."""
    rtdb.set("/cron-locks/a", DIED)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if not has_colours:
        monkeypatch.setenv("NO_COLOR", "1")
    output, screen = on_terminal()
    watched(LocksView, output=output)
    assert bool(re.search(r"\x1b\[[0-9;]*3[0-9]", screen.getvalue())) == has_colours


def on_terminal() -> tuple[Output, io.StringIO]:
    """Output that take this for a terminal of 80 columns."""
    output, screen = Output(as_json=False), io.StringIO()
    output.out = Console(file=screen, force_terminal=True, width=80, height=24, highlight=False, emoji=False)
    return output, screen


def test_a_terminal_is_drawn_anew(rtdb: Rtdb) -> None:
    """On a terminal every look draws the whole anew, during an outage what was seen last, and the cursor comes back."""
    output, screen = on_terminal()
    rtdb.set("/cron-locks/a", {"paused": True})
    watched(LocksView, partial(rtdb.faults.drop_request, times=None), rtdb.faults.clear, output=output)
    drawn = screen.getvalue()
    assert drawn.count("paused: no instance can acquire it") >= 3
    assert "the next try is in 4 s" in drawn
    assert "every 2 s; press Ctrl-C to end" in drawn
    assert drawn.rindex("\x1b[?25h") > drawn.rindex("\x1b[?25l")


def test_what_is_too_long_shows_what_matters(rtdb: Rtdb) -> None:
    """Of a history that is longer than the terminal the newest is shown, of locks the first, never more than fits."""
    keys = [f"2020-09-13T12:{minute}:00Z" for minute in range(10, 50)]
    rtdb.set("/cron-runs/job", {key: {"outcome": "failed", "slot": key} for key in keys})
    rtdb.set("/cron-locks", {f"lock-{number}": {"paused": True} for number in range(10, 50)})
    output, screen = on_terminal()
    watched(history, output=output)
    runs = screen.getvalue()
    assert ":49:00" in runs
    assert "40 entries" in runs
    assert ":10:00" not in runs
    output, screen = on_terminal()
    watched(LocksView, output=output)
    locks = screen.getvalue()
    assert "lock-10" in locks
    assert "lock-49" not in locks
    for drawn in (runs, locks):
        assert "press Ctrl-C to end" in drawn
        assert "more lines" in drawn
        assert len(set(drawn.splitlines())) <= 25


@pytest.mark.parametrize("command", [("locks",), ("status",), ("runs", "job")], ids=lambda command: command[0])
def test_a_first_look_that_fails_is_the_end(rtdb: Rtdb, command: tuple[str, ...]) -> None:
    """A database that can't be reached from the beginning isn't watched: exit code 69."""
    rtdb.faults.drop_request(times=None)
    assert "can't be reached" in complaint(69, *command, "--watch")
