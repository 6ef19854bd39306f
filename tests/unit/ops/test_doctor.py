"""The doctor's visit: to a database in memory in virtual time, and to an emulator."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any

import firebase_admin
import jsonschema
import pytest
from google.auth.exceptions import RefreshError
from tests.cli.schemas import DOCTOR
from typer.testing import CliRunner, Result

import firecron.ops.doctor
from firecron import FireCron, distributed_cron, leader
from firecron.base.clocks import Deadline
from firecron.cli.commands.rules import adapted
from firecron.cli.root import app
from firecron.errors import Denied, Unavailable
from firecron.jobs import declarations
from firecron.lock.service import LockService
from firecron.ops.doctor import Examination, examine
from firecron.ops.finding import Finding, worst
from firecron.rtdb.target import Target
from firecron.settings import load
from firecron.store import Node, Snapshot
from firecron.testing import FakeTiming, MemoryStore
from rtdb_emulator.pytest_plugin import Rtdb

RULES = Path(__file__).parents[3] / "emulator" / "database.rules.json"


def by_check(found: Iterable[Finding]) -> dict[str, list[tuple[str, str]]]:
    """The findings' levels and messages."""
    sorted_out: dict[str, list[tuple[str, str]]] = {}
    for finding in found:
        sorted_out.setdefault(finding.check, []).append((finding.level, finding.message))
    return sorted_out


def levels(found: Iterable[Finding]) -> dict[str, list[str]]:
    return {check: [level for level, _ in lines] for check, lines in by_check(found).items()}


def doctor(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["doctor", *arguments])


class Visit:
    """A database in memory, and an instance whose wall clock and network may be bad."""

    def __init__(self, round_trip: float = 0.0, wall_error: float = 0.0, **values: object) -> None:
        self.timing = FakeTiming()
        self.store = MemoryStore(self.timing.now)
        mine = FakeTiming(wall=self.timing.wall() + wall_error * 1000, base=self.timing.mono)
        settings = load(database_url=None, **values)
        self.way = Way(self.store, lambda: self.timing.advance(round_trip))
        self.locks = LockService(settings=settings, store=self.way, timing=mine, has_threads=False)
        self.examination = Examination(self.locks, settings, mine)

    def findings(self, monkeypatch: pytest.MonkeyPatch, **parameters: str) -> list[Finding]:
        monkeypatch.setattr(firecron.ops.doctor, "may_read", lambda target, path, deadline: False)
        return list(self.examination.findings(Target("http://memory", {"ns": "x", **parameters}, None)))


class Way(MemoryStore):
    """A way to a store: it takes its time for each timestamp and each read, and calls `before` with each request."""

    def __init__(self, store: MemoryStore, take: Callable[[], None]) -> None:
        self.__dict__ = store.__dict__
        self._take = take
        self.before: Callable[[str, str, Node], None] = lambda method, path, node: None

    def timestamp(self, path: str, deadline: Deadline) -> int:
        self.before("timestamp", path, None)
        self._take()
        now = super().timestamp(path, deadline)
        self._take()
        return now

    def read(self, path: str, deadline: Deadline) -> Snapshot:
        self.before("read", path, None)
        self._take()
        return super().read(path, deadline)

    def swap(self, path: str, etag: str, node: Node, deadline: Deadline) -> str | Snapshot:
        self.before("swap", path, node)
        return super().swap(path, etag, node, deadline)


@pytest.mark.parametrize("wall_error", [0.0, 3600.0, -3600.0])
def test_the_machines_own_clock_is_compared(monkeypatch: pytest.MonkeyPatch, wall_error: float) -> None:
    """A wall clock that is an hour off is a warning that says so, and nothing else is the matter."""
    found = levels(Visit(wall_error=wall_error).findings(monkeypatch))
    assert found.pop("wall clock") == ["warning" if wall_error else "ok"]
    assert {level for lines in found.values() for level in lines} == {"ok"}


@pytest.mark.parametrize(("round_trip", "level"), [(0.45, "ok"), (0.7, "warning"), (1.1, "problem")])
def test_how_well_the_time_is_known(monkeypatch: pytest.MonkeyPatch, round_trip: float, level: str) -> None:
    """An uncertainty of more than half of the margin is a warning, more than the margin leaves nothing to be told."""
    found = Visit(round_trip=round_trip).findings(monkeypatch)
    assert levels(found)["clock"][-1] == level
    if level == "problem":
        assert found[-1].check == "clock"
        assert found[-1].kind == "unreachable"


def test_the_way_to_the_database_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The latency is that of five reads."""
    [told, *_] = by_check(Visit(round_trip=0.3).findings(monkeypatch))["latency"]
    assert told == ("warning", "300 ms, the median of 5 reads")


@pytest.mark.parametrize(
    ("method", "path", "check"),
    [
        ("read", "cron-locks/firecron-doctor", "reading"),
        ("timestamp", "cron-instances/clock/seenAt", "clock"),
        ("swap", "cron-locks/firecron-doctor", "writing"),
        ("read", "cron-locks", "locks"),
        ("read", "cron-instances", "instances"),
    ],
)
def test_an_outage_is_told_with_the_step_that_met_it(
    monkeypatch: pytest.MonkeyPatch, method: str, path: str, check: str
) -> None:
    """The last finding names the first step for which the database is down; nothing is looked at after it."""
    visit = Visit()

    def fail(called: str, where: str, node: Node) -> None:
        if (called, re.sub("-[0-9a-f]{12}$", "", where)) == (method, path):
            raise Unavailable("down")

    visit.way.before = fail
    *before, last = visit.findings(monkeypatch)
    assert (last.check, last.level, last.kind) == (check, "problem", "unreachable")
    assert {finding.level for finding in before} <= {"ok"}


@pytest.mark.parametrize(("margin", "ttl"), [(1.0, 10_000), (20.0, 120_000)])
def test_its_own_lock_has_a_ttl_that_any_lock_may_have(
    monkeypatch: pytest.MonkeyPatch, margin: float, ttl: int
) -> None:
    """Its lock expires ten seconds after a death of the doctor, or as soon as the settings allow."""
    visit = Visit(margin=margin)
    written: list[Node] = []
    visit.way.before = lambda method, path, node: written.append(node) if method == "swap" else None
    assert levels(visit.findings(monkeypatch))["writing"] == ["ok"]
    taken: Any = written[0]
    assert taken["expiresAt"] - taken["acquiredAt"] == ttl


def test_a_lock_that_stays_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the doctor may take its lock but not remove it, a warning names the node to delete."""
    visit = Visit()

    def keep(method: str, path: str, node: Node) -> None:
        if (method, node) == ("swap", None):
            raise Denied("no")

    visit.way.before = keep
    [told] = [finding for finding in visit.findings(monkeypatch) if finding.check == "writing"]
    [name] = visit.store.keys("cron-locks", visit.locks.deadline(1))
    assert (told.level, told.message) == ("warning", "a lock was acquired, but could not be removed")
    assert told.remedy == f"delete cron-locks/{name} in the Firebase console"


def test_a_test_write_that_meets_another_clients_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """A conflict says nothing about the rules: it is neither a refusal nor a write that was let pass."""
    visit = Visit()

    def meddle(method: str, path: str, node: Node) -> None:
        if node == {"probe": True}:
            visit.store.set(path, {"other": 1})

    visit.way.before = meddle
    last = visit.findings(monkeypatch, auth_variable_override="{}")[-1]
    assert (last.check, last.kind) == ("writing", "unreachable")
    assert "was changed by another client during the test: run the doctor again" in last.message


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
    assert checks >= {
        "versions",
        "environment",
        "settings",
        "guard",
        "database",
        "credentials",
        "latency",
        "clock",
        "wall clock",
    }
    assert checks >= {"prefix", "roles", "writing", "rules", "strangers", "locks", "instances"}
    assert {(finding["level"], finding["remedy"]) for finding in value["findings"]} == {("ok", None)}
    written = rtdb.get("/")
    assert isinstance(written, dict)
    assert list(written) == ["cron-instances"]
    assert list(written["cron-instances"]) == ["clock"]
    assert rtdb.count(method="PUT", path="/cron-locks/*") == rtdb.count(method="DELETE", path="/cron-locks/*") == 1


def user(rtdb: Rtdb) -> None:
    """Be the user that the rules know."""
    options = {"databaseURL": rtdb.url, "databaseAuthVariableOverride": {"uid": "firecron"}}
    firebase_admin.initialize_app(options=options)


def test_our_own_rules_keep_it_in_bounds(rtdb: Rtdb) -> None:
    """Under the auth override with the project's rules the forbidden writes are refused, and strangers read nothing."""
    rtdb.set_rules(RULES)
    user(rtdb)
    found = by_check(examine())
    assert found["rules"] == [
        ("ok", "this process is the user 'firecron', and security rules apply to it"),
        ("ok", "the rules refused a write outside of its paths, and one to a lock that another holder has"),
    ]
    assert found["strangers"] == [("ok", "without credentials nothing can be read")]
    assert found["writing"] == [("ok", "a lock was acquired, released, and removed")]
    written = rtdb.get("/")
    assert isinstance(written, dict)
    assert list(written) == ["cron-instances"]


def test_the_user_of_the_settings_is_examined(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """FIRECRON_UID alone makes this process the user whose rules are tried."""
    rtdb.set_rules(RULES)
    monkeypatch.setenv("FIRECRON_UID", "firecron")
    assert by_check(examine())["rules"][0][1].startswith("this process is the user 'firecron'")


def test_rules_that_open_other_paths_are_warned_of_alone(rtdb: Rtdb) -> None:
    """A write elsewhere that rules let pass is not told as a lock that was overwritten."""
    rtdb.set_rules(
        RULES.read_text("utf-8").replace('"cron-locks": {', '"$other": {".write": true}, "cron-locks": {', 1)
    )
    user(rtdb)
    assert by_check(examine())["rules"][1:] == [("warning", "the rules let it write outside of its own paths")]


def test_rules_that_are_older_than_tickets_are_warned_of(rtdb: Rtdb) -> None:
    """Where rules don't know cron-groups, that is a warning with the remedy."""
    shipped = adapted(RULES.read_text("utf-8"), "", "firecron")["rules"]
    assert isinstance(shipped, dict)
    rtdb.set_rules({"rules": {name: block for name, block in shipped.items() if name != "cron-groups"}})
    user(rtdb)
    told = [finding for finding in examine() if finding.check == "rules" and finding.level == "warning"]
    assert [finding.remedy for finding in told] == ["deploy what `firecron rules` prints"]
    assert all("cron-groups" in finding.message for finding in told)


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


@pytest.mark.parametrize("block", [None, {".read": "auth.uid === 'firecron'"}])
def test_rules_that_are_older_than_the_catalogue_are_warned_of(rtdb: Rtdb, block: dict[str, object] | None) -> None:
    """Where entries can't be read or written, that is a warning with the remedy; where they can, nothing is left."""
    shipped = adapted(RULES.read_text("utf-8"), "", "firecron")["rules"]
    assert isinstance(shipped, dict)
    rtdb.set_rules({"rules": shipped})
    user(rtdb)
    assert all(finding.level == "ok" for finding in examine() if finding.check == "rules")
    assert rtdb.get("/cron-jobs") is None
    others = {name: rules for name, rules in shipped.items() if name != "cron-jobs"}
    rtdb.set_rules({"rules": others if block is None else {**others, "cron-jobs": block}})
    told = [finding for finding in examine() if finding.check == "rules" and finding.level == "warning"]
    assert [finding.remedy for finding in told] == ["deploy what `firecron rules` prints"]
    assert all("cron-jobs" in finding.message for finding in told)


@pytest.mark.parametrize("older_than", ["cron-steps", "cron-acts"])
def test_rules_that_are_older_than_a_node_are_warned_of(rtdb: Rtdb, older_than: str) -> None:
    """Where rules don't know it, that is a warning with the remedy."""
    shipped = adapted(RULES.read_text("utf-8"), "", "firecron")["rules"]
    assert isinstance(shipped, dict)
    rtdb.set_rules({"rules": {name: block for name, block in shipped.items() if name != older_than}})
    user(rtdb)
    (told,) = [finding for finding in examine() if finding.check == "rules" and finding.level == "warning"]
    assert older_than in told.message
    assert told.remedy == "deploy what `firecron rules` prints"


def test_rules_that_open_everything_are_warned_of(rtdb: Rtdb) -> None:
    """Where rules let a user do what they should refuse, that is a warning, and what was written is taken back."""
    user(rtdb)
    found = levels(examine())
    assert found["rules"] == ["ok", "warning", "warning"]
    assert found["writing"] == ["ok"]
    written = rtdb.get("/")
    assert isinstance(written, dict)
    assert list(written) == ["cron-instances"]


KEEPING: dict[str, object] = {
    "rules": {
        "cron-locks": {".read": True, ".write": True},
        "cron-instances": {".read": True, ".write": True},
        "$other": {".read": True, ".write": "newData.exists()"},
    }
}


@pytest.mark.parametrize("goes_on", [True, False], ids=["to the end", "until it fails"])
def test_a_probe_that_cannot_be_deleted_is_named(rtdb: Rtdb, *, goes_on: bool) -> None:
    """A node that rules let the doctor create but not delete is named in a warning, also if a later step fails."""
    rtdb.set_rules(KEEPING)
    user(rtdb)
    with nullcontext() if goes_on else rtdb.faults.answer(503, path="/cron-locks"):
        found = list(examine())
    written = rtdb.get("/")
    assert isinstance(written, dict)
    [name] = [name for name in written if name.startswith("firecron-doctor-")]
    [told] = [finding for finding in found if finding.remedy == f"delete {name} in the Firebase console"]
    assert told.level == "warning"
    assert "the rules let it write outside of its own paths" in [finding.message for finding in found]
    assert worst(found) == (None if goes_on else "unreachable")


def test_a_key_in_the_place_of_its_path_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """No finding has the key or the password that stands in the variables, whatever fails because of it."""
    key = json.dumps({"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----\nhunter2\n"})
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", key)
    monkeypatch.setenv("FIRECRON_DATABASE_URL", "https://me:s3cret@x.firebaseio.com")
    monkeypatch.delenv("FIREBASE_DATABASE_EMULATOR_HOST", raising=False)
    found = list(examine())
    assert found[-1].check == "credentials"
    assert not any(secret in f"{found}" for secret in ("hunter2", "s3cret"))
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
    assert "margin" in doctor().stdout


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


def test_strangers_that_cannot_be_told_are_a_problem(rtdb: Rtdb) -> None:
    """If the request without credentials gets no sensible answer, it isn't taken for a refusal."""
    with rtdb.faults.answer(503, path="/cron-locks"):
        [*_, last] = examine()
    assert (last.check, last.kind) == ("strangers", "unreachable")


def test_people_get_a_line_each(rtdb: Rtdb) -> None:
    """Without --json each finding is a line with its level, its check and what to do."""
    result = doctor()
    assert result.exit_code == 0
    assert any(line.startswith("ok") and "latency" in line for line in result.stdout.splitlines())
    assert "→" not in result.stdout


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


def test_what_is_installed_is_told() -> None:
    """The first finding has the versions of firecron, Python and what firecron stands on."""
    first = next(examine({}))
    assert first.check == "versions"
    for name in ("firecron", "Python", "firebase-admin", "pydantic"):
        assert re.search(rf"\b{name} [0-9]+\.[0-9]", first.message)


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
