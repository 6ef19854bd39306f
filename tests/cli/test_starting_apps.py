"""Applications whose import starts their jobs: a command of `firecron` that loads one lets nothing tick."""

from __future__ import annotations

import importlib
import logging
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.calls import call, modules

from firecron.app import FireCron
from firecron.cli.commands import page
from rtdb_emulator.pytest_plugin import Rtdb

FLASK = """
import os, signal
from flask import Flask
from firecron import FireCron, distributed_cron

@distributed_cron("quick", "* * * * * *", lock_ttl=60)
def quick(): ...

@distributed_cron("by-hand", "0 0 1 1 *", lock_ttl=60)
def by_hand(): ...

crons = FireCron(quick, by_hand)
crons.init_app(Flask("shop"))
if "ENDS" in os.environ:
    os.kill(os.getpid(), signal.SIGTERM)
"""

# The signal comes during the import, so that the command ends once it has loaded the application.
WORKED = """
import os, signal
from firecron import FireCron, distributed_cron

@distributed_cron("quick", "0 0 1 1 *", lock_ttl=60)
def quick(): ...

crons = FireCron(quick)
crons.start()
WAS_TICKING = crons.engine.is_ticking
os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.fixture(autouse=True)
def applications(rtdb: Rtdb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The modules `flaskapp` and `workedapp` in the current folder, where jobs tick."""
    monkeypatch.setenv("RUNTIME_INSTANCE", "production")
    with modules({"flaskapp": FLASK, "workedapp": WORKED}, tmp_path, monkeypatch):
        yield
        for name in {"flaskapp", "workedapp"} & sys.modules.keys():
            sys.modules[name].crons.stop()


def loaded(module: str = "flaskapp") -> FireCron:
    found = importlib.import_module(module).crons
    assert isinstance(found, FireCron)
    return found


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("jobs", "flaskapp:crons"), 0),
        (("next", "flaskapp:crons", "quick"), 0),
        (("doctor", "flaskapp:crons"), 0),
        (("run", "flaskapp:crons", "by-hand"), 0),
        (("run", "flaskapp:crons", "nothing"), 2),
        (("page", "flaskapp:crons", "--port", "0"), 0),
    ],
    ids=["jobs", "next", "doctor", "run", "run-nothing", "page"],
)
def test_a_command_that_loads_an_application_lets_nothing_tick(
    arguments: tuple[str, ...], code: int, rtdb: Rtdb, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The import starts the jobs, and `start` answers that this is a command; only `run` runs a job, the named one."""
    if "page" in arguments:
        monkeypatch.setenv("ENDS", "at once")
    caplog.set_level(logging.INFO, "firecron")
    assert call(*arguments).exit_code == code
    assert f"don't tick in this process: this is `firecron {arguments[0]}`, not a server" in caplog.text
    assert not loaded().engine.is_ticking
    found = rtdb.get("/") or {}
    assert isinstance(found, dict)
    assert set(found.get("cron-instances", ())) <= {"clock"}
    assert set(found.get("cron-locks", ())) == ({"by-hand"} if code == 0 and arguments[0] == "run" else set())


def test_work_lets_an_import_start_the_jobs() -> None:
    """`firecron work` is a process that ticks: what its application starts while it is imported ticks as well."""
    assert call("work", "workedapp:crons").exit_code == 0
    assert vars(sys.modules["workedapp"])["WAS_TICKING"]


def test_the_page_passes_signals_on_from_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal during the import is passed on to what ends the command at the second one."""
    heard: list[int] = []
    monkeypatch.setattr(page, "ending_at_second", lambda: heard.append)
    monkeypatch.setenv("ENDS", "at once")
    assert call("page", "flaskapp:crons", "--port", "0").exit_code == 0
    assert heard == [signal.SIGTERM]


def test_the_guard_is_closed_for_the_command_only() -> None:
    """A program that calls a command in its own process ticks as before once the command has ended."""
    call("jobs", "flaskapp:crons")
    crons = loaded()
    crons.stop()
    assert crons.start().engine.is_ticking
