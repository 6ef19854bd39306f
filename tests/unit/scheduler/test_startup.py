"""What a start says: one line about the process, and warnings of what can't run."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
from tests.unit.test_app import Heard, job, new_crons

import firecron
from firecron import FireCron, distributed_cron
from firecron.base.events import Event
from firecron.jobs import decorator as declarations
from rtdb_emulator_tests.helpers.processes import Run

LINES = {"crons.started", "crons.disabled", "crons.not_started"}


@pytest.fixture(autouse=True)
def nothing_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other modules of this process have declared is not these tests' business."""
    monkeypatch.setattr(declarations, "REMEMBERED", {})


def line_of(update: Heard) -> Event:
    (line,) = [event for event in update if event.slug in LINES]
    return line


@pytest.mark.parametrize(
    ("enabled", "program", "slug", "said"),
    [
        (
            True,
            "app.py",
            "crons.started",
            "Distributed crons tick in this process: FireCron was created with enabled=True (",
        ),
        (False, "app.py", "crons.disabled", "Distributed crons disabled in non-production environment: FireCron was"),
        (True, "flask shell", "crons.not_started", "Distributed crons don't tick in this process: this is the Flask"),
    ],
)
def test_a_start_says_one_line(
    monkeypatch: pytest.MonkeyPatch, enabled: bool, program: str, slug: str, said: str
) -> None:
    """Whether jobs tick or not, one line says so and why, with the instance, the process, the prefix and the jobs."""
    monkeypatch.setattr("sys.argv", program.split())
    monkeypatch.setenv("K_REVISION", "api-v3")
    elsewhere = distributed_cron("elsewhere", "0 * * * *", role="worker")(lambda: None)
    crons, update = new_crons(job, elsewhere, enabled=enabled, prefix="ops/cron")
    crons.start()
    crons.start()
    crons.stop()
    line = line_of(update)
    assert (line.slug, line.name, line.level) == (slug, "firecron", logging.INFO)
    assert line.message.startswith(said)
    identity = crons.locks.identity
    assert f"(1 of 2 jobs, instance api-v3/{identity.instance}, pid {os.getpid()}, " in line.message
    assert line.message.endswith(", prefix ops/cron)")
    fields = {"instance_id": "api-v3", "instance": identity.instance, "pid": os.getpid(), "prefix": "ops/cron"}
    assert {**line.fields, **fields, "jobs": 2} == line.fields


@pytest.mark.parametrize(
    ("enabled", "named", "shown"),
    [
        (True, {"FIRECRON_DATABASE_URL": "https://mine.firebaseio.com/"}, "database https://mine.firebaseio.com,"),
        (True, {"FIREBASE_DATABASE_EMULATOR_HOST": "127.0.0.1:9"}, "database http://127.0.0.1:9?ns=demo-firecron,"),
        (False, {"FIRECRON_DATABASE_URL": "https://mine.firebaseio.com"}, "database https://mine.firebaseio.com,"),
        (False, {"FIREBASE_DATABASE_EMULATOR_HOST": "127.0.0.1:9"}, "database 127.0.0.1:9,"),
        (False, {}, "no database looked for,"),
    ],
)
def test_the_line_names_the_database(
    monkeypatch: pytest.MonkeyPatch, enabled: bool, named: dict[str, str], shown: str
) -> None:
    """The line names the database that is used, or, where nothing ticks, the one that would be, as far as it is known
    without a look.
    """
    for variable in ("FIRECRON_DATABASE_URL", "FIREBASE_DATABASE_EMULATOR_HOST", "FIREBASE_CONFIG"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in named.items():
        monkeypatch.setenv(variable, value)
    disabled = distributed_cron("off", "0 * * * *", disabled=True)(lambda: None)
    crons = FireCron(disabled, enabled=enabled)
    # Nothing is asked of a database that isn't there, and no thread begins: the line comes before both.
    monkeypatch.setattr(crons, "_begin", lambda stops: None)
    update = Heard()
    crons.events.subscribe(update.append)
    with crons:
        assert shown in line_of(update).message
        assert line_of(update).message.endswith(", no prefix)")


def configure(monkeypatch: pytest.MonkeyPatch, *handlers: logging.Handler, level: int = logging.NOTSET) -> None:
    """Give firecron's logger these handlers and no others, as if a test run had none of its own."""
    logger = logging.getLogger("firecron")
    for attribute, value in {"propagate": False, "handlers": [*handlers], "level": level}.items():
        monkeypatch.setattr(logger, attribute, value)
    # Whether a level is enabled is remembered.
    monkeypatch.setattr(logger, "_cache", {})


@pytest.mark.parametrize("enabled", [None, True], ids=["idle", "ticking"])
@pytest.mark.parametrize("variable", [None, "prod"])
def test_the_line_is_seen_where_nobody_configured_logging(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], enabled: bool | None, variable: str | None
) -> None:
    """Without a handler for firecron's logger the line goes to standard error, once, also where it is a WARNING."""
    monkeypatch.delenv("RUNTIME_INSTANCE", raising=False)
    if variable is not None:
        monkeypatch.setenv("RUNTIME_INSTANCE", variable)
    configure(monkeypatch)
    crons, update = new_crons(job, enabled=enabled)
    crons.start()
    crons.stop()
    assert capsys.readouterr().err.splitlines() == [line_of(update).message]


class Kept(logging.Handler):
    """A handler for warnings that keeps its records."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


def test_the_last_resort_is_the_programs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a program has put another handler in the place of Python's last one, that gets the line, as any other of
    firecron's; where it has taken it away, nothing does.
    """
    configure(monkeypatch, level=logging.INFO)
    last = Kept()
    monkeypatch.setattr(logging, "lastResort", last)
    with new_crons(job)[0]:
        pass
    [record] = [one for one in last.records if "tick in this process" in one.getMessage()]
    assert (record.name, record.levelno, record.module) == ("firecron", logging.INFO, "startup")
    monkeypatch.setattr(logging, "lastResort", None)
    crons, update = new_crons(job)
    with crons:
        assert line_of(update).slug == "crons.started"
    assert len(last.records) == 1


def test_who_configures_logging_decides(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With a handler, or with a level above the line's, standard error is left alone."""
    configure(monkeypatch, logging.NullHandler())
    with new_crons(job)[0]:
        pass
    configure(monkeypatch, level=logging.WARNING)
    with new_crons(job)[0]:
        pass
    configure(monkeypatch)
    monkeypatch.setattr(logging.getLogger("firecron"), "disabled", True)
    with new_crons(job)[0]:
        pass
    assert capsys.readouterr().err == ""


def test_a_program_that_configures_nothing_sees_the_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program without a word about logging has the one line on standard error."""
    package = str(Path(firecron.__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([package, os.environ["PYTHONPATH"]]))
    monkeypatch.setenv("RUNTIME_INSTANCE", "")
    program = """
from firecron import FireCron, distributed_cron

@distributed_cron("nightly", "0 2 * * *")
def nightly(): ...

with FireCron(nightly): pass
"""
    (line,) = run("-c", program).stderr.splitlines()
    assert line.startswith("Distributed crons disabled in non-production environment: RUNTIME_INSTANCE is ''")


class Empty:
    def undecorated(self) -> None: ...


@pytest.mark.parametrize("enabled", [True, False])
def test_a_provider_without_jobs_is_warned_of(enabled: bool) -> None:
    """At the start a WARNING names the providers that have no job, wherever it starts."""
    crons, update = new_crons(Empty(), job, logging, enabled=enabled)
    with crons:
        pass
    (event,) = [event for event in update if event.slug == "crons.no_jobs"]
    assert event.level == logging.WARNING
    assert f"was given an object of {__name__}.Empty, the module logging, but found no job in it" in event.message


def test_no_job_at_all_is_warned_of() -> None:
    """A FireCron without any job says so when it starts; not one that has got its job before that."""
    crons, update = new_crons()
    with crons:
        pass
    assert "nothing will run" in update.messages("crons.no_jobs")[0]
    crons, update = new_crons()
    crons.registry.add(job)
    with crons:
        pass
    assert not {"crons.no_jobs", "crons.unclaimed"} & {*update.slugs()}


def test_a_forgotten_job_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that no FireCron of the process was given is named at the start with its place, the first ten of many; in
    a process that only looks like the application nothing is said.
    """

    class Forgotten:
        @distributed_cron("forgotten", "0 2 * * *")
        def nightly(self) -> None: ...

    crons, update = new_crons(job)
    with crons:
        pass
    (message,) = update.messages("crons.unclaimed")
    assert f"'forgotten' ({Forgotten.nightly.__module__}.{Forgotten.nightly.__qualname__})." in message
    others = [distributed_cron(f"other-{number}", "0 2 * * *")(lambda: None) for number in range(12)]
    crons, update = new_crons(job)
    with crons:
        pass
    (message,) = update.messages("crons.unclaimed")
    assert "'other-8'" in message
    assert "and 3 more." in message
    for many, end in ((10, "no job in it"), (11, "and 1 more, but found")):
        crons, update = new_crons(*(Empty() for _ in range(many)))
        with crons:
            assert end in update.messages("crons.no_jobs")[0]
            assert "and 0 more" not in update.messages("crons.no_jobs")[0]
    monkeypatch.setattr("sys.argv", ["flask", "shell"])
    crons, update = new_crons(Empty())
    with crons:
        assert len(others) == 12
    assert not {"crons.no_jobs", "crons.unclaimed"} & {*update.slugs()}


@pytest.mark.parametrize("program", ["flask routes", "manage.py check", "manage.py collectstatic"])
def test_other_commands_need_no_database(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """A command of Flask or Django starts without a database, though the production guard is open."""
    for variable in ("FIRECRON_DATABASE_URL", "FIREBASE_DATABASE_EMULATOR_HOST", "FIREBASE_CONFIG"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("RUNTIME_INSTANCE", "production")
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "site.settings")
    monkeypatch.setattr("sys.argv", program.split())
    crons = FireCron(job)
    update = Heard()
    crons.events.subscribe(update.append)
    with crons:
        pass
    assert line_of(update).slug == "crons.not_started"
