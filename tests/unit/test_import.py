"""What importing costs: no SDK is loaded before it is needed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import firecron
from firecron.jobs.registry import State
from rtdb_emulator_tests.helpers.processes import Run

HEAVY = (
    "firebase_admin",
    "google",
    "requests",
    "urllib3",
    "pydantic",
    "pydantic_core",
    "croniter",
    "opentelemetry",
    "rtdb_emulator",
)

SLOW = ("asyncio", "concurrent", "logging", "http", "ssl", "urllib")

FIRST_LINE = "from firecron import CronExpression, FireCron, Run, distributed_cron"
JOB = "distributed_cron('job', CronExpression.EVERY_HOUR)(lambda: None)"

LOADED = """
import json, sys
{statement}
print(json.dumps(sorted({{name.partition(".")[0] for name in sys.modules}})))
"""


@pytest.fixture(autouse=True)
def find_firecron(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child finds the package where this process has it, also if it isn't installed."""
    package = str(Path(firecron.__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([package, os.environ["PYTHONPATH"]]))


def loaded(run: Run, statement: str) -> set[str]:
    finished = run("-I", "-c", LOADED.format(statement=statement)) if not statement else None
    finished = finished or run("-c", LOADED.format(statement=statement))
    assert finished.returncode == 0, finished.stderr
    return set(json.loads(finished.stdout))


@pytest.mark.parametrize(
    "statement",
    ["import firecron", "import firecron; dir(firecron)", "from firecron import ConfigurationError, Unavailable"],
)
def test_importing_loads_no_sdk(run: Run, statement: str) -> None:
    """The package, its list of names and its errors need nothing but the standard library."""
    assert not loaded(run, statement) & set(HEAVY)


def test_the_readmes_first_line_loads_little(run: Run) -> None:
    """What a program of jobs imports loads nothing but the standard library, without its slow parts."""
    assert not loaded(run, FIRST_LINE) & {*HEAVY, *SLOW}


def test_declaring_a_job_loads_what_reads_its_line(run: Run) -> None:
    """To declare a job costs croniter, and nothing else that is heavy."""
    assert loaded(run, f"{FIRST_LINE}\n{JOB}") & set(HEAVY) == {"croniter"}


@pytest.mark.parametrize("name", ["FireCron", "LockService"])
def test_what_asks_the_database_loads_its_client_late(run: Run, name: str) -> None:
    """Before its first request it loads neither the SDK nor HTTP, and nothing that checks settings if none is given."""
    assert not loaded(run, f"from firecron import {name}; {name}()") & set(HEAVY)


def test_every_public_name_is_there() -> None:
    """What the package lists can be had, is what its module has, and a name that it doesn't list is an error."""
    for name in firecron.__all__:
        found = getattr(firecron, name)
        # State is a choice of words, which typing makes.
        assert found is State if name == "State" else found.__module__.startswith("firecron")
        assert name in dir(firecron)
    with pytest.raises(AttributeError, match="module 'firecron' has no attribute 'Nothing'"):
        firecron.Nothing  # noqa: B018  # looking is the point


def test_a_name_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that was asked for is one of the package's own from then on: asking again costs nothing."""
    monkeypatch.delitem(vars(firecron), "Refusal", raising=False)
    refusal = firecron.Refusal
    assert vars(firecron)["Refusal"] is refusal
