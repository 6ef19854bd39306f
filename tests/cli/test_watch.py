"""`--watch`: each change is told once, an outage is told and outlasted, and Ctrl-C is the end that was asked for."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from functools import partial

import pytest
from rich.console import Console
from tests.cli.calls import checked, complaint
from tests.cli.schemas import ERROR, LOCKS, RUNS
from tests.cli.test_locks import DIED, SLOT

from firecron.cli.commands.locks import LocksView
from firecron.cli.commands.runs import LastRunsView, RunsView
from firecron.cli.output import Output
from firecron.cli.watching import watch
from firecron.locks import LockService
from firecron.ops.operator import Operator
from rtdb_emulator.pytest_plugin import Rtdb


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


def operator() -> Operator:
    return Operator(LockService().database)


def test_each_change_of_a_lock_is_a_line(rtdb: Rtdb, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal each lock that has changed is a line, what has not isn't told again, a node gone is told."""
    rtdb.set("/cron-locks/b", {"paused": True})
    script = Script(
        nothing,
        lambda: rtdb.set("/cron-locks/a", DIED),
        lambda: rtdb.set("/cron-locks/b", None),
    )
    output = Output(as_json=False)
    watch(output, LocksView(operator(), output), 2, script)
    lines = [line[9:] for line in capsys.readouterr().out.splitlines()]
    assert [line.partition(":")[0] for line in lines] == ["b", "a", "b"]
    assert "paused" in lines[0]
    assert "died" in lines[1]
    assert "its node is gone" in lines[2]
    assert script.pauses == [2, 2, 2, 2]


def test_each_change_is_a_value(rtdb: Rtdb, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json each change is one value in one line, of the form that the command has without --watch."""
    output = Output(as_json=True)
    path = f"/cron-runs/job/{SLOT}"
    script = Script(nothing, lambda: rtdb.set(path, {"outcome": "failed"}), nothing)
    watch(output, RunsView(operator(), output, "job", 20), 2, script)
    lines = capsys.readouterr().out.splitlines(keepends=True)
    assert [checked(RUNS, line)["counts"] for line in lines] == [{}, {"failed": 1}]


def test_new_runs_are_lines(rtdb: Rtdb, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal the history is shown once, and then each entry that is new or has changed."""
    output = Output(as_json=False)
    first, second = (f"/cron-runs/job/2020-09-13T12:2{minute}:40Z" for minute in (6, 7))
    rtdb.set(first, {"outcome": "abandoned"})
    script = Script(lambda: rtdb.set(second, {"outcome": "failed"}), lambda: rtdb.set(first, {"outcome": "lost"}))
    watch(output, RunsView(operator(), output, "job", 20), 2, script)
    lines = capsys.readouterr().out.splitlines()
    told = [word for line in lines for word in ("abandoned", "failed", "lost", "1 entry") if word in line]
    assert told == ["abandoned", "abandoned", "1 entry", "failed", "lost"]


def test_a_run_under_way_is_watched(rtdb: Rtdb, capsys: pytest.CaptureFixture[str]) -> None:
    """A run is told when it begins, when its lock has expired, and when it is recorded, each once."""
    live = {**DIED, "expiresAt": 2 * 10**12}
    output = Output(as_json=False)
    script = Script(
        lambda: rtdb.set("/cron-locks/job", live),
        nothing,
        lambda: rtdb.set("/cron-locks/job", DIED),
        lambda: rtdb.set(f"/cron-runs/job/{SLOT}", {"outcome": "abandoned", "slot": SLOT, "attempt": 2}),
        nothing,
    )
    watch(output, RunsView(operator(), output, "job", 20), 2, script)
    lines = capsys.readouterr().out.splitlines()
    words = ("no run of job", "under way", "started, not ended", "abandoned")
    assert [word for line in lines for word in words if word in line] == list(words)


def test_an_empty_database_is_watched(rtdb: Rtdb, capsys: pytest.CaptureFixture[str]) -> None:
    """That there is nothing is told once, with the database's name, and then what comes."""
    output = Output(as_json=False)
    come = Script(nothing, lambda: rtdb.set("/cron-locks/a", DIED))
    watch(output, LocksView(operator(), output), 2, come)
    locks = capsys.readouterr().out.splitlines()
    rtdb.set("/cron-locks", None)
    come = Script(nothing, lambda: rtdb.set("/cron-locks/a", DIED))
    watch(output, LastRunsView(operator(), output), 2, come)
    for first, news in (locks, capsys.readouterr().out.splitlines()):
        assert f"in the emulator at {rtdb.emulator.url}, database {rtdb.namespace}" in first
        assert "a: " in news


@pytest.mark.parametrize("as_json", [True, False])
def test_an_outage_is_told_once_and_outlasted(rtdb: Rtdb, capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    """While the database is away that is told once, and tried at longer intervals up to a bound, until it is back."""
    output = Output(as_json=as_json)
    view = LocksView(operator(), output)
    script = Script(
        lambda: rtdb.faults.drop_request(times=None),
        *[nothing] * 6,
        rtdb.faults.clear,
        nothing,
    )
    watch(output, view, 2, script)
    assert script.pauses == [2, 4, 8, 16, 30, 30, 30, 30, 2, 2]
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
    script = Script(busy, nothing, nothing)
    output = Output(as_json=False)
    watch(output, LocksView(operator(), output), 2, script)
    assert script.pauses == [2, 45, 2, 2]


@pytest.mark.parametrize("has_colours", [True, False])
def test_colours_can_be_forbidden(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch, has_colours: bool) -> None:
    """What is shown on a terminal has colours, and none where NO_COLOR is set."""
    rtdb.set("/cron-locks/a", DIED)
    monkeypatch.setenv("TERM", "xterm-256color")
    if has_colours:
        monkeypatch.delenv("NO_COLOR", raising=False)
    else:
        monkeypatch.setenv("NO_COLOR", "1")
    output, screen = on_terminal()
    view = LocksView(operator(), output)
    output.give(None, view.show(view.read()))
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
    script = Script(lambda: rtdb.faults.drop_request(times=None), rtdb.faults.clear)
    watch(output, LocksView(operator(), output), 2, script)
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
    watch(output, RunsView(operator(), output, "job", 100), 2, Script())
    runs = screen.getvalue()
    assert ":49:00" in runs
    assert "40 entries" in runs
    assert ":10:00" not in runs
    output, screen = on_terminal()
    watch(output, LocksView(operator(), output), 2, Script())
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
