"""What `make bench` says of benchmarks that did not come to their end, and how it gives them their time."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).with_name("bench")
MEASURES = "import goals; goals.at_most('one', 1, 2, 'ms')\n"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module, which is a script and imports its neighbours by bare name."""
    monkeypatch.syspath_prepend(str(BENCH))
    yield importlib.import_module("run")
    for name in ("run", "goals"):
        del sys.modules[name]


@pytest.fixture
def fake(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of a benchmark `fake`, which has the rows one and two."""
    monkeypatch.setenv("PYTHONPATH", str(BENCH))
    monkeypatch.setattr(run, "__file__", str(tmp_path / "run.py"))
    monkeypatch.setattr(run, "ROWS", tmp_path / "rows.txt")
    (tmp_path / "rows.txt").write_text("fake: one\nother: three\nfake: two\n", "utf-8")
    return tmp_path / "fake.py"


def test_all_benchmarks_have_the_time_that_they_need(run: Any) -> None:
    """Together they need no more than there is, and each has a script and rows."""
    assert sum(run.BENCHMARKS.values()) <= run.ALL <= 9.5 * 60 - 10
    assert [name for name in run.BENCHMARKS if not (BENCH / f"{name}.py").exists()] == []
    assert [name for name in run.BENCHMARKS if not run.rows(name)] == []
    assert [name for name in run.BY_NAME if not (BENCH / f"{name}.py").exists() or run.rows(name)] == []


def test_every_row_is_a_benchmark_s(run: Any) -> None:
    """No line of the file is lost by a name that no benchmark has, and none is there twice."""
    lines = (BENCH / "rows.txt").read_text("utf-8").splitlines()
    assert sorted(set(lines)) == sorted(f"{name}: {row}" for name in run.BENCHMARKS for row in run.rows(name))
    assert len(lines) == len(set(lines))


def test_a_benchmark_has_twice_its_time_while_the_others_keep_half(run: Any) -> None:
    """A benchmark that hangs leaves half of what they need to those that come after it."""
    names = list(run.BENCHMARKS)
    first, *others = names
    needed, kept = run.BENCHMARKS[first], sum(run.BENCHMARKS[name] for name in others) / 2
    assert run.limit([first], run.ALL) == 2 * needed
    assert run.limit(names, kept + needed + 1) == needed + 1
    assert run.limit(names, kept + 3 * needed) == 2 * needed
    assert run.limit(names, kept - 1) == 0


def test_a_stopped_benchmark_names_the_rows_that_are_missing(run: Any, fake: Path) -> None:
    """It is stopped when its time is over, and what it did not measure is told."""
    fake.write_text("import signal\nsignal.pause()\n", "utf-8")
    found, problem = run.measure("fake", 0, sys.__stderr__)
    assert found == []
    assert problem == "it was stopped after 0 s, 2 of its 2 rows are missing: one; two"


def test_a_benchmark_that_ends_without_a_row_has_a_problem(run: Any, fake: Path) -> None:
    """A row can't be lost unseen."""
    fake.write_text(MEASURES, "utf-8")
    found, problem = run.measure("fake", 60, sys.__stderr__)
    assert [goal.name for goal in found] == ["one"]
    assert problem == "1 of its 2 rows are missing: two"


def test_a_row_that_is_not_in_the_file_is_told(run: Any, fake: Path) -> None:
    """So the file has all of them."""
    fake.write_text(MEASURES + "goals.at_least('new', 1, 2, 'ms')\n" + MEASURES.replace("one", "two"), "utf-8")
    assert run.measure("fake", 60, sys.__stderr__)[1] == "add to rows.txt: new"


def test_a_benchmark_that_this_machine_can_t_run_is_no_problem(run: Any, fake: Path) -> None:
    """Without a browser there is no page to measure."""
    fake.write_text("import goals; goals.leave_out('there is no browser')\n", "utf-8")
    assert run.measure("fake", 60, sys.__stderr__) == ([], None)


def test_the_first_line_of_the_summary_says_what_is_missing(
    run: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the exit code is 1, although each goal that was measured is met."""
    monkeypatch.setattr(run, "measure", lambda *_: ([], "1 of its 2 rows are missing: two"))
    monkeypatch.setattr(sys, "argv", ["run.py", "lock"])
    assert run.main() == 1
    told = "lock was not measured to its end: 1 of its 2 rows are missing: two."
    assert capsys.readouterr().out.splitlines() == [
        "",
        "--- lock, within 44 s",
        told,
        "",
        told,
        "0 goals were measured in 0 s.",
    ]
