"""What the pytest plugin shows of rules, in runs of pytest of its own."""

from __future__ import annotations

import pytest
from tests.conftest import RunPytest

SETUP = """
import pytest, requests

RULES = {"rules": {"n": {".write": "newData.val() > 5", ".read": "auth != null"}, "m": {".read": True}}}

def put(rtdb, value):
    url = f"{rtdb.emulator.url}/n.json?ns={rtdb.namespace}"
    return requests.put(url, data=str(value), timeout=30).status_code
"""
BOTH = """
@pytest.mark.parametrize("value", [3, 7])
def test_write(rtdb, value):
    rtdb.set_rules(RULES)
    assert put(rtdb, value) == (401 if value == 3 else 200)
"""
MISSED = [
    "40.0 % of the outcomes of 3 rules",
    "  /n .read (5:16) was never evaluated",
    "  /m .read (8:16) was never evaluated",
]


def test_a_failed_test_shows_what_was_denied(run_pytest: RunPytest) -> None:
    """The report of a failed test has the reasons of its own refusals, and no other test's."""
    text = (
        SETUP
        + """
def test_passes(rtdb):
    rtdb.set_rules(RULES)
    assert put(rtdb, 3) == 401

def test_fails(rtdb):
    rtdb.set_rules(RULES)
    assert put(rtdb, 4) == 200

def test_fails_without(rtdb):
    assert put(rtdb, 4) == 401

def test_fails_by_itself():
    assert False
"""
    )
    finished = run_pytest(text)
    assert "3 failed, 1 passed" in finished.stdout
    assert finished.stdout.count("denied by rules of the database") == 1
    for line in (
        "write of /n denied to a client not signed in",
        "  .write of /n (4:17) is false: newData.val() > 5",
        "      newData.val() = 4",
    ):
        assert f"\n{line}\n" in finished.stdout
    assert "newData.val() = 3" not in finished.stdout


@pytest.mark.parametrize("processes", [(), ("-n", "2")], ids=["alone", "xdist"])
@pytest.mark.parametrize(("wanted", "code"), [("40", 0), ("40.1", 1)])
def test_too_little_coverage_fails_the_run(
    run_pytest: RunPytest, wanted: str, code: int, processes: tuple[str, ...]
) -> None:
    """Under the wanted percentage the run fails, and what was missed is listed; the tests of all processes count."""
    finished = run_pytest(SETUP + BOTH, f"--rtdb-coverage-fail-under={wanted}", *processes)
    assert (finished.returncode, "2 passed" in finished.stdout) == (code, True), finished.stdout + finished.stderr
    lines = finished.stdout.splitlines()
    start = lines.index(MISSED[0])
    assert lines[start : start + 3] == MISSED
    said = f"The rules' coverage is 40.0 %, and {wanted} % are wanted."
    assert (said in lines) == (code == 1)


def test_several_rules_are_listed_by_themselves(run_pytest: RunPytest) -> None:
    """Each text of rules has its own lines, and all count for the percentage; open rules are none."""
    text = (
        SETUP
        + BOTH
        + """
def test_other(rtdb):
    rtdb.set_rules('{"rules": {".write": "now > 5"}}')
    assert put(rtdb, 1) == 200

def test_open(rtdb):
    assert put(rtdb, 1) == 200
"""
    )
    finished = run_pytest(text, "--rtdb-coverage-fail-under=42")
    assert finished.returncode == 0, finished.stdout
    assert "rules 1: 40.0 % of the outcomes of 3 rules" in finished.stdout
    assert "rules 2: 50.0 % of the outcomes of 1 rule\n  / .write (1:22) was never false" in finished.stdout


def test_without_rules_there_is_no_coverage(run_pytest: RunPytest) -> None:
    """A run that was to cover rules and set none fails, and says why; one that wasn't says nothing of it."""
    finished = run_pytest("def test_nothing(): pass", "--rtdb-coverage-fail-under=1")
    assert finished.returncode == 1
    assert "No test with the fixture rtdb has set any rules." in finished.stdout
    assert "coverage" not in run_pytest(SETUP + BOTH).stdout


@pytest.mark.parametrize("text", ["x", "-1", "101", "nan"])
def test_a_percentage_is_from_0_to_100(run_pytest: RunPytest, text: str) -> None:
    """Another value of the option is a usage error."""
    finished = run_pytest("", f"--rtdb-coverage-fail-under={text}")
    assert finished.returncode == 4
    assert "--rtdb-coverage-fail-under" in finished.stderr
