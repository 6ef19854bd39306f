"""The doctor at an application: its settings, its database, its jobs and its leaders."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import firebase_admin
import jsonschema
import pytest
from tests.cli.schemas import DOCTOR
from tests.page.paging import attend
from tests.unit.ops.examined import by_check, doctor

from firecron import FireCron, distributed_cron, leader
from firecron.jobs import decorator as declarations
from firecron.ops.doctor import examine
from firecron.ops.findings import worst
from rtdb_emulator.pytest_plugin import Rtdb

APPLICATION = """
from firecron import FireCron, distributed_cron
from firecron.settings import Settings

@distributed_cron("here", "0 9 * * *", lock_ttl=60)
def here(): ...

@distributed_cron("elsewhere", "0 9 * * *", lock_ttl=60, role="batch")
def elsewhere(): ...

@distributed_cron("odd", "*/90 * * * *", lock_ttl=60)
def odd(): ...

@distributed_cron("forgotten", "@hourly")
def forgotten(): ...

settings = Settings(prefix="its/own")
crons = FireCron(here, elsewhere, odd, settings=settings, enabled=True)
short = FireCron(distributed_cron("short", "@hourly", lock_ttl=1)(lambda: None))
empty = FireCron()
"""


@pytest.fixture
def application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The module `itsapp` in the current folder."""
    Path(tmp_path, "itsapp.py").write_text(APPLICATION, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(declarations, "REMEMBERED", {})
    yield
    sys.modules.pop("itsapp", None)


def findings_of(check: str, *arguments: str) -> list[tuple[str, str]]:
    """The levels and messages of one check."""
    value = json.loads(doctor(*arguments, "--json").stdout)
    jsonschema.validate(value, DOCTOR)
    return [(found["level"], found["message"]) for found in value["findings"] if found["check"] == check]


def test_an_application_is_examined(rtdb: Rtdb, application: None) -> None:
    """`doctor APP` examines the application's settings and its jobs: what is odd, and what no FireCron was given."""
    jobs, odd, forgotten = findings_of("jobs", "itsapp:crons")
    assert jobs == ("ok", "here, odd; disabled, or with a role that isn't set here: elsewhere")
    assert (odd[0], "too big" in odd[1]) == ("warning", True)
    assert (forgotten[0], forgotten[1].partition(" is declared")[0]) == ("warning", "forgotten (itsapp.forgotten)")
    assert findings_of("prefix", "itsapp:crons") == [("ok", "all nodes are below its/own/")]
    assert findings_of("guard", "itsapp:crons") == [("ok", "jobs tick here: FireCron was created with enabled=True")]
    assert rtdb.count(method="PUT", path="/its/own/cron-locks/*") == 3


def test_a_ttl_longer_than_the_interval_is_told(rtdb: Rtdb) -> None:
    """What `start` would warn of, by the settings of the application, is a warning about its jobs."""
    often = distributed_cron("often", "* * * * * *", lock_ttl=30)(lambda: None)
    [_, (level, message)] = by_check(examine(crons=FireCron(often)))["jobs"]
    assert (level, "lock_ttl (30 s) is longer than the interval of its ticks" in message) == ("warning", True)


def test_an_application_that_cannot_start_is_a_problem(rtdb: Rtdb, application: None) -> None:
    """What `start` would refuse is a problem of the configuration, and a FireCron without jobs a warning."""
    level, message = findings_of("jobs", "itsapp:short")[-1]
    assert (level, "lock_ttl of 'short'" in message) == ("problem", True)
    assert doctor("itsapp:short").exit_code == 2
    assert findings_of("jobs", "itsapp:empty")[0] == ("warning", "the application has no jobs")
    assert doctor("itsapp:nothing").exit_code == 2


def test_the_applications_own_database_is_examined(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """`doctor APP` looks at the database of the Firebase app that the FireCron was made with."""
    monkeypatch.delenv("FIRECRON_DATABASE_URL", raising=False)
    options = {"databaseURL": rtdb.emulator.database_url("its-own")}
    crons = FireCron(app=firebase_admin.initialize_app(options=options, name="its-own"))
    found = list(examine(crons=crons))
    assert by_check(found)["database"][0][1].endswith("database its-own")
    assert (found[-1].check, worst(found)) == ("instances", None)
    assert Rtdb(rtdb.emulator, "its-own").count(method="PUT", path="/cron-locks/*") == 1


def test_a_job_that_no_instance_has_is_a_warning(rtdb: Rtdb) -> None:
    """`doctor APP` names the jobs that no live instance runs by their schedules, unless triggers alone run them."""
    tended, left, off = (
        distributed_cron(name, "@hourly", disabled=name == "off")(lambda: None) for name in ("tended", "left", "off")
    )
    attend(rtdb, "tended")
    for enabled in (True, None):
        found = by_check(examine(crons=FireCron(tended, left, off, enabled=enabled)))["instances"]
        warned = [message.partition(":")[0] for level, message in found if level == "warning"]
        assert warned == ["no instance that is alive has left"]
    found = by_check(examine(crons=FireCron(left, enabled=False)))["instances"]
    assert [level for level, _ in found] == ["ok"]


def test_an_applications_leaders_are_examined(rtdb: Rtdb) -> None:
    """`doctor APP` names the leaders that stand here, those that don't, and an odd duration; no job is no mistake."""

    @leader("orders", max_term=60_000)
    def orders() -> None: ...

    @leader("price-feed", role="feeds")
    def price_feed() -> None: ...

    found = by_check(examine(crons=FireCron(orders, price_feed)))
    first, second = found["leaders"]
    assert first == ("ok", "orders; disabled, or with a role that isn't set here: price-feed")
    assert second[0] == "warning"
    assert '"orders": max_term=60000 is 16.7 hours. Is it in milliseconds?' in second[1]
    assert "jobs" not in found
