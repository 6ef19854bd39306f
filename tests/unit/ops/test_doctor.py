"""The doctor at an emulator and an application: what it finds of them and the way to the database; exit codes."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import firebase_admin
import jsonschema
import pytest
from google.auth.exceptions import RefreshError
from tests.cli.schemas import DOCTOR
from tests.page.paging import attend
from tests.unit.ops.examined import by_check, doctor, levels

import firecron.ops.doctor
from firecron import FireCron, distributed_cron, leader, scheduled
from firecron.jobs import decorator as declarations
from firecron.ops.doctor import examine
from firecron.ops.findings import worst
from firecron.rtdb.target import Target
from rtdb_emulator.pytest_plugin import Rtdb


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({}, "jobs don't tick here: RUNTIME_INSTANCE is not set"),
        ({"RUNTIME_INSTANCE": "production"}, "jobs tick here: RUNTIME_INSTANCE is 'production'"),
    ],
)
def test_the_guard_is_asked_about_these_variables(variables: dict[str, str], told: str) -> None:
    """Without an application, the environment decides whether jobs would tick."""
    [(_, message)] = by_check(examine(variables))["guard"]
    assert message.startswith(told)


def test_nothing_is_left_behind(rtdb: Rtdb) -> None:
    """A healthy emulator has no problems, every line is there, and only the time that was asked for is written."""
    result = doctor("--json")
    value = json.loads(result.stdout)
    jsonschema.validate(value, DOCTOR)
    assert (result.exit_code, value["code"]) == (0, 0)
    checks = {finding["check"] for finding in value["findings"]}
    assert checks >= {"versions", "environment", "settings", "guard", "database", "credentials", "latency", "clock"}
    assert checks >= {"wall clock", "prefix", "roles", "writing", "rules", "strangers", "locks", "instances"}
    assert {(finding["level"], finding["remedy"]) for finding in value["findings"]} == {("ok", None)}
    written: Any = rtdb.get("/")
    assert (list(written), list(written["cron-instances"])) == (["cron-instances"], ["clock"])
    assert rtdb.count(method="PUT", path="/cron-locks/*") == rtdb.count(method="DELETE", path="/cron-locks/*") == 1


@pytest.mark.parametrize("watch", ["1", "0"])
def test_a_stream_that_does_not_come_is_warned_of(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch, watch: str) -> None:
    """The doctor opens a stream as a waiter does, unless streams are switched off."""
    monkeypatch.setenv("FIRECRON_WATCH", watch)
    assert levels(examine()).get("watch", []) == ["ok"] * (watch == "1")
    rtdb.faults.answer(403, header=("Accept", "text/event-stream"), times=None)
    told = [finding for finding in examine() if finding.check == "watch"]
    assert [finding.level for finding in told] == ["warning"] * (watch == "1")
    assert all("answered 403" in finding.message for finding in told)
    assert all("FIRECRON_WATCH=0" in str(finding.remedy) for finding in told)


def test_a_key_in_the_place_of_its_path_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """No finding has the key that stands in the variable for its path, whatever fails because of it."""
    key = json.dumps({"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----\nhunter2\n"})
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", key)
    monkeypatch.setenv("FIRECRON_DATABASE_URL", "https://x.firebaseio.com")
    monkeypatch.delenv("FIREBASE_DATABASE_EMULATOR_HOST", raising=False)
    found = list(examine())
    assert found[-1].check == "credentials"
    assert "hunter2" not in f"{found}"
    assert [finding.message for finding in found if finding.check == "database"] == ["https://x.firebaseio.com"]
    assert worst(found) == "configuration"


def test_what_it_cannot_do_decides_the_exit_code(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """Malformed and denied are 78, unreachable is 69, an emulator on Cloud Run or no database at all 2."""
    rtdb.set("/cron-locks/job", "nonsense")
    assert doctor().exit_code == 78
    rtdb.set("/cron-locks", None)
    with rtdb.faults.answer(401, method="PUT", path="/cron-locks/*", times=None):
        denied = doctor()
        assert denied.exit_code == 78
        assert "Check the security rules" in " ".join(denied.stdout.split())
    monkeypatch.setenv("K_SERVICE", "api")
    monkeypatch.setenv("GCE_METADATA_HOST", "127.0.0.1:1")
    assert doctor().exit_code == 2
    monkeypatch.delenv("K_SERVICE")
    monkeypatch.setenv("FIREBASE_DATABASE_EMULATOR_HOST", "127.0.0.1:1")
    monkeypatch.setenv("FIRECRON_DATABASE_URL", "https://x.firebaseio.com")
    assert doctor().exit_code == 69
    monkeypatch.delenv("FIREBASE_DATABASE_EMULATOR_HOST")
    monkeypatch.delenv("FIRECRON_DATABASE_URL")
    nothing = doctor()
    assert nothing.exit_code == 2
    assert "set FIRECRON_DATABASE_URL" in nothing.stdout
    monkeypatch.setenv("FIRECRON_MARGIN", "soon")
    assert "FIRECRON_MARGIN" in doctor().stdout


class Credentials:
    """Credentials of some kind, that give a token or don't."""

    token: str | None = None
    expiry: datetime | None = None
    service_account_email = "cron@example.iam.gserviceaccount.com"
    error: Exception | None = None

    def refresh(self, request: object) -> None:
        if self.error is not None:
            raise self.error
        self.token = "ya29.a-very-secret-token"


@pytest.mark.parametrize(
    "error",
    [None, RefreshError("no: ya29.a-very-secret-token")],  # type: ignore[no-untyped-call]  # google-auth has no hints
    ids=["good", "bad"],
)
def test_credentials_are_told_without_their_token(
    rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    """Whose credentials they are, and whether they give a token, is said; the token is in no line."""
    credentials = Credentials()
    credentials.error = error
    target = Target(rtdb.emulator.url, {"ns": rtdb.namespace}, lambda: credentials)
    monkeypatch.setattr(firecron.ops.doctor, "find_target", lambda *arguments, **options: target)
    found = list(examine())
    assert not any("very-secret" in f"{finding.message}{finding.remedy}" for finding in found)
    [told] = [finding for finding in found if finding.check == "credentials"]
    if error is None:
        assert told.level == "ok"
        assert "cron@example.iam.gserviceaccount.com" in told.message
    else:
        assert (told.kind, told) == ("denied", found[-1])


@pytest.mark.parametrize(
    ("module", "account", "told"),
    [
        ("google.oauth2.service_account", "me@x", "a service account's key of me@x"),
        ("google.auth.compute_engine.credentials", "default", "the metadata server's service account of default"),
        ("google.oauth2.credentials", None, "a person's, by gcloud auth application-default login"),
        ("mine.secrets", 7, "mine.secrets.Of"),
    ],
)
def test_credentials_are_told_by_their_kind(
    rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch, module: str, account: object, told: str
) -> None:
    """Google's kinds are told in words, others by their class; an account only where there is one."""
    kind = type("Of", (Credentials,), {"__module__": module, "service_account_email": account})
    target = Target(rtdb.emulator.url, {"ns": rtdb.namespace}, kind)
    monkeypatch.setattr(firecron.ops.doctor, "find_target", lambda *arguments, **options: target)
    assert by_check(examine())["credentials"] == [("ok", f"{told}; a token was given")]


def test_people_get_a_line_each(rtdb: Rtdb) -> None:
    """Without --json each finding is a line with its level, its check and what to do."""
    result = doctor()
    assert result.exit_code == 0
    assert any(line.startswith("ok") and "latency" in line for line in result.stdout.splitlines())
    assert "→" not in result.stdout


def test_what_is_installed_is_told() -> None:
    """The first finding has the versions of firecron, Python and what firecron stands on."""
    first = next(examine({}))
    assert first.check == "versions"
    for name in ("firecron", "Python", "firebase-admin", "pydantic"):
        assert re.search(rf"\b{name} [0-9]+\.[0-9]", first.message)


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


def test_a_job_whose_schedules_are_stored_is_examined(rtdb: Rtdb) -> None:
    """It is one of the application's jobs, and what `start` would warn of is a warning."""
    remind = scheduled("remind", lock_ttl=timedelta(hours=2))(lambda: None)
    [first, (level, message)] = by_check(examine(crons=FireCron(remind)))["jobs"]
    assert first == ("ok", "remind")
    assert (level, "lock_ttl (7200 s) is over an hour" in message) == ("warning", True)


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
