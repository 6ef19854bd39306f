"""The doctor at stored schedules: those that nobody can run, each with the remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from firecron import FireCron, Run, scheduled
from firecron.cli.commands.doctor import adapted
from firecron.lock.database import Database
from firecron.ops.doctor import examine
from firecron.ops.examined import examine_schedules
from firecron.ops.findings import Finding, schedules
from firecron.settings import load
from rtdb_emulator.pytest_plugin import Rtdb

RULES = Path(__file__).parents[3] / "emulator" / "database.rules.json"
NODE = "cron-schedules/remind/:"
DECLARED = {"stored": True, "parameters": "channel= event", "service": "", "ticks": True, "where": "app:remind"}


class Reminders:
    @scheduled("remind", lock_ttl=60)
    def remind(self, run: Run, event: str, channel: str = "mail") -> None: ...


@pytest.fixture
def entries(rtdb: Rtdb) -> Iterator[FireCron]:
    """A declared job with two schedules, and one that was removed."""
    rtdb.set_rules(RULES)
    rtdb.set("cron-jobs/remind", DECLARED)
    crons = FireCron(Reminders(), settings=load(database_url=rtdb.url), enabled=False)
    for key in ("42", "43", "44"):
        crons.schedules.put("remind", key, "0 9 * * *", args={"event": key})
    crons.schedules.remove("remind", "44")
    yield crons
    crons.stop()


def found() -> list[Finding]:
    return [finding for finding in examine() if finding.check == "schedules"]


def test_schedules_that_can_run_are_counted(entries: FireCron) -> None:
    """Without those that were removed, and none is warned of."""
    assert [(one.level, one.message) for one in found()] == [("ok", "remind can run by 2 schedules")]


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("line", "ever", "its schedule is wrong"),
        ("args", "[1]", "no JSON object"),
        ("nextAt", "soon", "no query finds it"),
        ("nextAt", -1, "no query finds it"),
        ("fence", "none", "its field "),
    ],
)
def test_a_schedule_that_cannot_be_read_is_warned_of(
    entries: FireCron, rtdb: Rtdb, field: str, value: object, why: str
) -> None:
    """Its key is named, with what is wrong and the command that computes its next look anew."""
    rtdb.set(f"{NODE}42/{field}", value)
    (told,) = found()
    assert told.level == "warning"
    assert "remind can't run by 1 of its schedules (first: 42: " in told.message
    assert why in told.message
    assert told.remedy is not None
    assert told.remedy.command == "firecron schedule mend remind"


@pytest.mark.parametrize(
    ("args", "why"), [("{}", "needs the argument 'event'"), ('{"event":"1","to":"x"}', "no argument 'to'")]
)
def test_arguments_that_no_function_takes_are_warned_of(entries: FireCron, rtdb: Rtdb, args: str, why: str) -> None:
    """By the parameters that the catalogue has: the doctor needs no code of the job."""
    rtdb.set(f"{NODE}43/args", args)
    (told,) = found()
    assert "can't be called with the arguments of 1 of its schedules (first: 43: " in told.message
    assert why in told.message
    assert told.remedy is not None
    assert told.remedy.command == "firecron schedules remind 43"


def test_rules_without_an_index_are_warned_of(entries: FireCron, rtdb: Rtdb) -> None:
    """The remedy is to deploy those of this version."""
    shipped: Any = cast("dict[str, Any]", adapted(RULES.read_text("utf-8"), "", "firecron")["rules"])
    del shipped["cron-schedules"]["$job"][".indexOn"]
    rtdb.set_rules({"rules": shipped})
    (told,) = found()
    assert "no .indexOn for the schedules of remind" in told.message
    assert str(told.remedy) == "deploy the security rules of this version: firecron rules"


def test_schedules_of_a_job_that_has_its_own_are_warned_of(entries: FireCron, rtdb: Rtdb) -> None:
    """The job was declared with @scheduled once, and is no more."""
    rtdb.set("cron-jobs/remind", {**DECLARED, "stored": None, "line": "0 9 * * *", "timezone": "UTC"})
    (told,) = found()
    assert re.search("'remind' has its schedule in its code", told.message)


def test_schedules_of_a_job_that_nothing_has_declared_are_warned_of(entries: FireCron, rtdb: Rtdb) -> None:
    """Its name may be mistyped. Closed ones, which stay for a day, are no reason to worry."""
    rtdb.set("cron-jobs/remind", None)
    (told,) = found()
    assert (told.level, str(told.remedy).partition(":")[0]) == (
        "warning",
        "declare it with @scheduled, or remove its schedules",
    )
    assert "the catalogue has no job 'remind'" in told.message
    for key in ("42", "43"):
        entries.schedules.remove("remind", key)
    assert [one.level for one in found()] == ["ok"]


def test_no_more_than_so_many_are_read(entries: FireCron, rtdb: Rtdb) -> None:
    """A job may have a hundred thousand: the finding says that it is about the first ones."""
    database = Database(settings=load(database_url=rtdb.url))
    (examined,) = examine_schedules(database, most=1)
    assert (examined.read, examined.is_whole) == (1, False)
    (told,) = schedules(examined)
    assert told.message == "remind can run by its first 1 schedules"
