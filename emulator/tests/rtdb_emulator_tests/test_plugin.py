"""The pytest plugin, in runs of pytest of its own."""

from __future__ import annotations

import pytest

from rtdb_emulator_tests.helpers.processes import Finished, RunPytest


def assert_passed(finished: Finished, count: int) -> None:
    assert f"{count} passed" in finished.stdout, finished.stdout + finished.stderr
    assert finished.returncode == 0


def test_each_test_has_a_database_of_its_own(run_pytest: RunPytest) -> None:
    """No test sees the data, the rules, the faults or the count of another, though all share one emulator."""
    text = """
import pytest, requests

emulators = set()

@pytest.mark.parametrize("number", range(3))
def test_fresh(rtdb, number):
    emulators.add(rtdb.emulator.port)
    assert len(emulators) == 1
    assert rtdb.get() is None
    assert rtdb.count() == 0
    url = f"{rtdb.emulator.url}/visits.json?ns={rtdb.namespace}"
    assert requests.put(url, data="1", timeout=30).status_code == 200
    assert rtdb.get("/visits") == 1
    assert rtdb.count(method="PUT", path="/visits") == 1 == rtdb.count()
    rtdb.set_rules('{"rules": {}}')
    assert requests.put(url, data="1", timeout=30).status_code == 401
    rtdb.faults.answer(503, times=None)
    assert requests.put(url, data="1", timeout=30).status_code == 503
"""
    assert_passed(run_pytest(text), 3)


def test_the_database_can_have_a_name_of_your_own(run_pytest: RunPytest) -> None:
    """With `rtdb_namespace` overridden, code with a production URL works on the test's database, fresh each time."""
    text = """
import firebase_admin
import pytest
from firebase_admin import db

@pytest.fixture
def rtdb_namespace():
    return "my-project"

@pytest.mark.parametrize("number", range(2))
def test_fresh(rtdb, number):
    options = {"databaseURL": "https://my-project.firebaseio.com", "databaseAuthVariableOverride": None}
    app = firebase_admin.initialize_app(options=options, name=str(number))
    assert db.reference("n", app).transaction(lambda seen: (seen or 0) + 1) == 1 == rtdb.get("/n")
    firebase_admin.delete_app(app)
    rtdb.set_rules({"rules": {}})
"""
    assert_passed(run_pytest(text), 2)


def test_the_environment_is_set_and_put_back(run_pytest: RunPytest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both variables name the test's database while it runs, and are after it what they were before."""
    monkeypatch.setenv("FIREBASE_DATABASE_EMULATOR_HOST", "mine:1")
    monkeypatch.delenv("FIRECRON_DATABASE_URL", raising=False)
    text = """
import os

def variables():
    return [os.environ.get(name) for name in ("FIREBASE_DATABASE_EMULATOR_HOST", "FIRECRON_DATABASE_URL")]

def test_before():
    assert variables() == ["mine:1", None]

def test_within(rtdb):
    assert variables() == [rtdb.emulator.host, rtdb.url]

def test_after():
    assert variables() == ["mine:1", None]
"""
    assert_passed(run_pytest(text), 3)


def test_works_under_xdist(run_pytest: RunPytest) -> None:
    """Under `-n 2` each worker has an emulator, and tests that run at the same time don't meet."""
    text = """
import os
import pytest, requests

@pytest.mark.parametrize("number", range(8))
def test_counts(rtdb, number):
    assert os.environ["PYTEST_XDIST_WORKER_COUNT"] == "2"
    url = f"{rtdb.emulator.url}/n.json?ns={rtdb.namespace}"
    for _ in range(5):
        requests.put(url, json={".sv": {"increment": 1}}, timeout=30)
    assert rtdb.get("/") == {"n": 5}
"""
    assert_passed(run_pytest(text, "-n", "2"), 8)


@pytest.mark.parametrize(("argument", "loaded"), [("", False), ("rtdb", True)], ids=["unused", "used"])
def test_loads_the_server_only_when_it_is_used(run_pytest: RunPytest, argument: str, loaded: bool) -> None:
    """A run without the fixture loads neither starlette nor uvicorn; one with it does."""
    text = f"""
import sys

def test_it({argument}):
    assert "rtdb_emulator.pytest_plugin" in sys.modules
    assert [name in sys.modules for name in ("starlette", "uvicorn")] == [{loaded}] * 2
"""
    assert_passed(run_pytest(text), 1)


def test_is_listed_among_the_fixtures(run_pytest: RunPytest) -> None:
    """`pytest --fixtures` shows all three fixtures with a line each."""
    lines = run_pytest("", "--fixtures").stdout.splitlines()
    for start in ("rtdb -- ", "rtdb_namespace -- ", "rtdb_emulator [session scope] -- "):
        place = next(number for number, line in enumerate(lines) if line.startswith(start))
        assert lines[place + 1].startswith("    ")
        assert "no docstring" not in lines[place + 1]


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
    assert "coverage" not in finished.stdout  # which nobody has asked for


@pytest.mark.parametrize(("wanted", "code", "processes"), [("40", 0, ()), ("40.1", 1, ()), ("40.1", 1, ("-n", "2"))])
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
    """A run that was to cover rules and set none fails, and says why."""
    finished = run_pytest("def test_nothing(): pass", "--rtdb-coverage-fail-under=1")
    assert finished.returncode == 1
    assert "No test with the fixture rtdb has set any rules." in finished.stdout


@pytest.mark.parametrize("text", ["x", "-1", "101", "nan"])
def test_a_percentage_is_from_0_to_100(run_pytest: RunPytest, text: str) -> None:
    """Another value of the option is a usage error."""
    finished = run_pytest("", f"--rtdb-coverage-fail-under={text}")
    assert finished.returncode == 4
    assert "--rtdb-coverage-fail-under" in finished.stderr
