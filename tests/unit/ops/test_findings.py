"""What the doctor makes of what it has seen: pure."""

from __future__ import annotations

import json

import pytest

from firecron.base.instants import to_text
from firecron.errors import ConfigurationError, Denied, EmulatorDown, Malformed, StoreError, Unavailable
from firecron.lock.refusal import inspect_instances
from firecron.ops import findings
from firecron.ops.findings import Finding, Kind, Level, of_error, ok, warning, worst
from firecron.ops.remedy import Remedy
from firecron.ops.views import LockView
from firecron.rtdb.target import Target
from firecron.rtdb.tokens import Credential
from firecron.scheduler.startup import evaluate_guard
from firecron.settings import load

NOW = 1_794_992_400_000
SECRET = "hunter2"
KEY = json.dumps({"type": "service_account", "private_key": f"-----BEGIN PRIVATE KEY-----\n{SECRET}", "id": SECRET})


def no_credential() -> Credential:
    raise AssertionError("no credential is needed")


def levels(found: object) -> list[str]:
    assert hasattr(found, "__iter__")
    return [finding.level for finding in found]


def test_the_environment_is_named_without_its_secrets() -> None:
    """Variables that lead to the database are shown, FIREBASE_CONFIG and what may be a secret in a URL are not."""
    variables = {
        "FIREBASE_CONFIG": f'{{"apiKey": "{SECRET}"}}',
        "FIRECRON_DATABASE_URL": f"https://me:{SECRET}@x.firebaseio.com?auth={SECRET}&ns=mine",
        "HOME": "/root",
    }
    [finding] = findings.environment(variables)
    assert finding.message == "found FIRECRON_DATABASE_URL=https://x.firebaseio.com?ns=mine, FIREBASE_CONFIG"
    assert finding.level == "ok"
    assert "none of the variables" in next(findings.environment({})).message


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("GOOGLE_APPLICATION_CREDENTIALS", "/etc/key.json", "=/etc/key.json"),
        ("GOOGLE_APPLICATION_CREDENTIALS", KEY, ""),
        ("GOOGLE_APPLICATION_CREDENTIALS", f"\n {KEY}", ""),
        ("FIRECRON_DATABASE_URL", KEY, ""),
        ("FIREBASE_CONFIG", f"/etc/{SECRET}.json", ""),
        ("FIREBASE_DATABASE_EMULATOR_HOST", f"http://me:{SECRET}@h:1", "=http://h:1"),
        ("FIREBASE_DATABASE_EMULATOR_HOST", f"me:{SECRET}@h:1", "=h:1"),
        ("K_SERVICE", "Bearer hunter2hunter2hunter2", "=Bearer [redacted]"),
    ],
)
def test_no_variables_secret_is_shown(name: str, value: str, shown: str) -> None:
    """A value that may be a whole key is not shown, and of another neither a user nor what looks like a secret is."""
    found = list(findings.environment({name: value}))
    assert found[0].message == f"found {name}{shown}"
    assert not any(SECRET in f"{finding}" for finding in found)


@pytest.mark.parametrize(("value", "is_problem"), [("/etc/key.json", False), (KEY, True), (f"\n {KEY}", True)])
def test_a_key_in_the_place_of_its_path_is_a_problem(value: str, is_problem: bool) -> None:
    """A key in the variable that names the key's file is a problem of the configuration."""
    found = list(findings.environment({"GOOGLE_APPLICATION_CREDENTIALS": value}))
    assert levels(found) == (["ok", "problem"] if is_problem else ["ok"])
    assert worst(found) == ("configuration" if is_problem else None)


def test_a_variable_that_is_no_setting_is_named() -> None:
    """A FIRECRON_ variable that firecron doesn't know is a warning with the close name."""
    [_, unknown] = findings.environment({"FIRECRON_ROLE": "batch", "FIRECRON_ROLES": "batch"})
    assert (unknown.check, unknown.level) == ("environment", "warning")
    assert "FIRECRON_ROLE " in unknown.message
    assert "FIRECRON_ROLES" in str(unknown.remedy)


@pytest.mark.parametrize(
    ("here", "elsewhere", "expected"),
    [
        (["a", "b"], [], ("ok", "a, b")),
        ([], ["c"], ("ok", "none; disabled, or with a role that isn't set here: c")),
        ([], [], ("warning", "the application has no jobs")),
    ],
)
def test_jobs_are_listed(here: list[str], elsewhere: list[str], expected: tuple[str, str]) -> None:
    """Which jobs are for this machine is told; an application without any is warned of."""
    [found] = findings.jobs(here, elsewhere, [], [])
    assert (found.level, found.message) == expected


@pytest.mark.parametrize("variable", ["K_SERVICE", "CLOUD_RUN_JOB", "CLOUD_RUN_WORKER_POOL"])
def test_an_emulator_in_production_is_a_problem(variable: str) -> None:
    """The emulator's host on Cloud Run is a problem of the configuration."""
    host = f"http://me:{SECRET}@127.0.0.1:9000"
    found = list(findings.environment({"FIREBASE_DATABASE_EMULATOR_HOST": host, variable: "api"}))
    assert levels(found) == ["ok", "problem"]
    assert SECRET not in f"{found}"
    assert worst(found) == "configuration"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, [("guard", "ok")]),
        ({"RUNTIME_INSTANCE": "production"}, [("guard", "ok")]),
        ({"K_SERVICE": "api"}, [("guard", "warning")]),
        ({"CLOUD_RUN_WORKER_POOL": "ticks"}, [("guard", "warning")]),
        ({"CLOUD_RUN_WORKER_POOL": "api", "RUNTIME_INSTANCE": "production"}, [("guard", "ok"), ("billing", "ok")]),
        ({"K_SERVICE": "api", "RUNTIME_INSTANCE": "production"}, [("guard", "ok"), ("billing", "ok")]),
        ({"CLOUD_RUN_JOB": "api", "RUNTIME_INSTANCE": "production"}, [("guard", "ok")]),
    ],
    ids=["laptop", "production", "suspicious", "suspicious pool", "worker pool", "Cloud Run", "Cloud Run job"],
)
def test_the_guard_and_what_cloud_run_needs(variables: dict[str, str], expected: list[tuple[str, str]]) -> None:
    """Jobs that don't tick on Cloud Run are a warning, and where they do tick there, it is said when they have CPU."""
    found = list(findings.guard(load(), evaluate_guard(None, load(), variables), variables))
    assert [(finding.check, finding.level) for finding in found] == expected
    if expected[-1] == ("billing", "ok"):
        needed = "--no-cpu-throttling" if "K_SERVICE" in variables else "the worker pool api has CPU all the time"
        assert needed in found[-1].message


def test_settings_that_are_not_the_defaults_are_listed() -> None:
    """What is set is shown, with roles and prefix in lines of their own."""
    found = list(findings.settings(load(margin=2.0, prefix="ops/cron", roles="worker")))
    assert [finding.message for finding in found] == [
        "margin=2.0",
        "all nodes are below ops/cron/",
        "worker: jobs with another role don't run here",
    ]
    assert next(findings.settings(load())).message == "all have their defaults"


@pytest.mark.parametrize(
    ("wall_ahead", "uncertainty", "expected"),
    [
        (5_000, 500, ["ok", "ok"]),
        (-5_000, 500, ["ok", "ok"]),
        (5_001, 500, ["ok", "warning"]),
        (-3_600_000, 501, ["warning", "warning"]),
    ],
)
def test_a_clock_that_is_off_is_a_warning(wall_ahead: float, uncertainty: float, expected: list[str]) -> None:
    """More than half of the margin is much uncertainty, and more than five seconds a wrong wall clock."""
    assert levels(findings.clock(wall_ahead, uncertainty, 1000)) == expected


def test_a_slow_way_is_a_warning() -> None:
    """It is the median that counts, and not the first read, which makes the connection."""
    assert findings.latency([2, 0.1, 0.2, 0.25, 0.25]).level == "ok"
    assert findings.latency([0.1, 0.1, 0.26, 0.26, 0.26]).level == "warning"


def test_a_malformed_lock_is_a_problem() -> None:
    """Each lock that nobody can read is named; else they are counted."""
    good = LockView("good", "held")
    bad = LockView("bad", "malformed", problem="its slot is wrong", path="cron-locks/bad")
    [counted] = findings.locks([good, LockView("other", "free")])
    assert counted.message == "2 in the database, 1 of them held"
    [named] = findings.locks([good, bad])
    assert (named.level, named.kind) == ("problem", "malformed")
    assert "bad is malformed" in named.message
    assert "cron-locks/bad" in str(named.remedy)


def test_locks_that_nobody_frees_are_named() -> None:
    """A lock that is stuck is a problem, one whose holder is silent a warning, each with the command that frees it."""
    stuck = LockView("stuck", "held", is_stuck=True, problem="it expires at some time")
    silent = LockView("silent", "held", owner="api-1/0a", problem="its instance was last seen at some time")
    found = list(findings.locks([stuck, silent, LockView("good", "held")]))
    assert [(finding.level, finding.kind) for finding in found] == [("problem", "other"), ("warning", None)]
    assert [finding.message for finding in found] == [
        "stuck is blocked: it expires at some time",
        "silent is held by api-1/0a: its instance was last seen at some time",
    ]
    assert [str(finding.remedy).rpartition("firecron ")[2] for finding in found] == ["unlock stuck", "unlock silent"]


def test_instances_that_are_silent_are_named() -> None:
    """Who has missed three beats is named, with when it was seen; the clock's node and broken ones are nobody's."""
    nodes = {
        "clock": {"seenAt": 1},
        "young": {"seenAt": NOW},
        "late": {"seenAt": NOW - 90_000},
        "silent": {"seenAt": NOW - 90_001},
        "broken": {"seenAt": "yesterday"},
        "text": "x",
    }
    alive, silent = findings.instances(inspect_instances(nodes, 30), NOW)
    assert alive.message == "2 alive"
    assert silent.level == "warning"
    assert silent.message == f"silent was seen last at {to_text(NOW - 90_001)}, 90 s ago"
    assert levels(findings.instances(inspect_instances(None, 30), NOW)) == ["ok"]


@pytest.mark.parametrize(
    ("writes_elsewhere", "takes_live_locks", "expected"),
    [
        (False, False, ["ok", "ok"]),
        (True, False, ["ok", "warning"]),
        (False, True, ["ok", "warning"]),
        (True, True, ["ok", "warning", "warning"]),
    ],
)
def test_rules_that_let_too_much_pass_are_warnings(
    writes_elsewhere: bool, takes_live_locks: bool, expected: list[str]
) -> None:
    """Each write that rules should have refused is a warning."""
    assert levels(findings.rules("the user 'firecron'", writes_elsewhere, takes_live_locks)) == expected


@pytest.mark.parametrize(
    ("may_read", "is_emulator", "level"), [(False, False, "ok"), (True, True, "ok"), (True, False, "warning")]
)
def test_a_database_that_is_open_to_the_world_is_a_warning(may_read: bool, is_emulator: bool, level: str) -> None:
    """Locks that anybody can read are a warning, but for an emulator's."""
    assert findings.strangers(may_read, is_emulator=is_emulator).level == level


def test_an_error_is_told_without_its_secrets() -> None:
    """What an error quotes is redacted."""
    assert of_error("reading", Denied(f"no: https://me:{SECRET}@x")).message == "no: https://[redacted]@x"


def test_the_worst_problem_decides() -> None:
    """What has to be solved first is the sum of it; warnings are none."""
    kinds: list[Kind] = ["other", "malformed", "denied", "unreachable", "configuration"]
    found = [warning("a", "b", "c"), ok("a", "b")]
    assert worst(found) is None
    assert worst([*found, Finding("a", "problem", "b")]) == "other"
    for kind in kinds:
        found.append(Finding("a", "problem", "b", None, kind))
        assert worst(found) == kind


@pytest.mark.parametrize(
    ("url", "name", "message"),
    [
        ("http://h:1", "mine", "the emulator at http://h:1, database mine"),
        ("https://x.firebaseio.com", None, "https://x.firebaseio.com"),
    ],
)
def test_the_database_is_named(url: str, name: str | None, message: str) -> None:
    """A database is named by its URL, and an emulator is called one, with its namespace."""
    target = Target(url, {}, no_credential) if name is None else Target(url, {"ns": name}, None)
    assert findings.database(target).message == message


def test_a_host_that_is_none_of_firebases_is_warned_of() -> None:
    """A database elsewhere than at Firebase is a warning that names the host, because a token is sent there."""
    found = findings.database(Target("https://proxy.example.org", {}, no_credential))
    assert (found.level, found.check) == ("warning", "database")
    assert found.message.startswith("https://proxy.example.org: the host is not one of Firebase's")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://x.firebaseio.com?ns=a&auth=secret", "https://x.firebaseio.com?ns=a"),
        ("https://x.firebaseio.com?auth=secret", "https://x.firebaseio.com"),
        ("https://me:secret@x.firebaseio.com/a", "https://x.firebaseio.com/a"),
        ("https://secret@x.firebaseio.com", "https://x.firebaseio.com"),
        ("me:secret@h:9000?ns=a&ns=b", "h:9000?ns=a&ns=b"),
        ("h:9000", "h:9000"),
        ("/keys/me@host.json", "/keys/me@host.json"),
    ],
)
def test_a_url_is_shown_without_what_may_be_secret(url: str, shown: str) -> None:
    """A URL's user and query are left out, but for the namespace; a path with an @ in it is no URL with a user."""
    assert findings.without_query(url) == shown


OUTAGE = "look at this machine's network and proxies, and at status.firebase.google.com"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConfigurationError("no"), Finding("it", "problem", "no", None, "configuration")),
        (Denied("no"), Finding("it", "problem", "no", None, "denied")),
        (EmulatorDown("no"), Finding("it", "problem", "no", None, "unreachable")),
        (Malformed("no"), Finding("it", "problem", "no", Remedy("mend the node in the Firebase console"), "malformed")),
        (Unavailable("no"), Finding("it", "problem", "no", Remedy(OUTAGE), "unreachable")),
    ],
)
def test_an_error_is_told_with_its_remedy(error: StoreError, expected: Finding) -> None:
    """The check, what went wrong, its kind, which decides the exit code, and what to do where the error doesn't say."""
    assert of_error("it", error) == expected


def test_what_is_well_is_told_in_a_line() -> None:
    """Each thing that is well is one line below its own check."""
    found = [
        findings.versions({"firecron": "1.2", "python": "3.11"}),
        findings.credentials("a key", None),
        findings.credentials("a key", "me@example.com"),
        findings.administrator(),
        findings.latency([1.0, 0.25, 0.25]),
        *findings.clock(0, 500, 1000),
        *findings.clock(1, 500, 1000),
        *findings.clock(1_000, 500, 1000),
        *findings.settings(load()),
        *findings.rules("the user me", writes_elsewhere=False, takes_live_locks=False),
        findings.strangers(may_read=False, is_emulator=False),
    ]
    assert {finding.level for finding in found} == {"ok"}
    assert [(finding.check, finding.message.partition(":")[0].partition(";")[0]) for finding in found] == [
        ("versions", "firecron 1.2, python 3.11"),
        ("credentials", "a key"),
        ("credentials", "a key of me@example.com"),
        ("rules", "this process is an administrator, as FIRECRON_UID is not set, and security rules don't apply to it"),
        ("latency", "250 ms, the median of 3 reads"),
        ("clock", "RTDB's time is known to 500 ms"),
        ("wall clock", "this machine's clock is 0.0 s behind RTDB's"),
        ("clock", "RTDB's time is known to 500 ms"),
        ("wall clock", "this machine's clock is 0.0 s ahead of RTDB's"),
        ("clock", "RTDB's time is known to 500 ms"),
        ("wall clock", "this machine's clock is 1.0 s ahead of RTDB's"),
        ("settings", "all have their defaults"),
        ("prefix", "none"),
        ("roles", "none, as FIRECRON_ROLES is not set"),
        ("rules", "this process is the user me, and security rules apply to it"),
        ("rules", "the rules refused a write outside of its paths, and one to a lock that another holder has"),
        ("strangers", "without credentials nothing can be read"),
    ]


def test_what_is_wrong_is_told_with_what_to_do() -> None:
    """Each thing that is wrong is below its own check, with a remedy."""
    on_cloud_run = {"FIREBASE_DATABASE_EMULATOR_HOST": "h:1", "K_SERVICE": "api", "K_REVISION": "api-1"}
    found = [
        *findings.environment({"GOOGLE_APPLICATION_CREDENTIALS": KEY}),
        *findings.environment(on_cloud_run),
        findings.latency([0.26]),
        *findings.clock(-6_000, 501, 1000),
        findings.left_behind("a/b", Unavailable("down")),
        findings.strangers(may_read=True, is_emulator=False),
        *findings.jobs([], [], [], []),
    ]
    told = [(one.check, one.level, one.kind, one.message[:30], str(one.remedy)[:20]) for one in found]
    assert [one for one in told if one[1] != "ok"] == [
        ("environment", "problem", "configuration", "GOOGLE_APPLICATION_CREDENTIALS", "put the key into a f"),
        ("environment", "problem", "configuration", "FIREBASE_DATABASE_EMULATOR_HOS", "remove FIREBASE_DATA"),
        ("latency", "warning", None, "260 ms, the median of 1 reads", "run in the database'"),
        ("clock", "warning", None, "RTDB's time is known to 501 ms", "look for a slow netw"),
        ("wall clock", "warning", None, "this machine's clock is 6.0 s ", "set this machine's c"),
        ("rules", "warning", None, "the test write to a/b could no", "delete a/b in the Fi"),
        ("strangers", "warning", None, "anybody in the world can read ", "deploy rules that de"),
        ("jobs", "warning", None, "the application has no jobs", "give the functions t"),
    ]


def test_a_cancelled_run_that_has_not_ended_is_named() -> None:
    """A run that was asked to end and still holds its lock is a warning; one that has ended or died is none."""
    asked = LockView("asked", "held", owner="api-1/0a", is_cancelled=True)
    found = list(findings.locks([asked, LockView("over", "free", is_cancelled=True)]))
    assert [(finding.level, finding.message) for finding in found] == [
        ("warning", "asked is cancelled, and api-1/0a has not ended the run yet")
    ]
    assert "run.check()" in str(found[0].remedy)


def test_the_service_of_what_is_dead_is_named() -> None:
    """By its revision, which begins with it; and by the catalogue, of the jobs that nobody has."""
    nodes = {
        "a-1": {"seenAt": 1, "instanceId": "api-00042-abc"},
        "b-1": {"seenAt": 1, "instanceId": "importer"},
        "c-1": {"seenAt": 1, "instanceId": "local"},
    }
    _, *silent = findings.instances(inspect_instances(nodes, 30), NOW, nodes)
    said = [finding.message.partition(" was seen")[0] for finding in silent]
    assert said == ["a-1 of the service api (api-00042-abc)", "b-1 of importer", "c-1"]
    assert "no instance of api or mail that is alive has x" in findings.unattended(["x"], {"mail", "api"}).message


@pytest.mark.parametrize(
    ("levels_found", "said"),
    [
        (["ok"] * 18 + ["warning"], "18 ok, 1 warning"),
        (["ok", "problem", "problem", "warning", "warning"], "1 ok, 2 warnings, 2 problems"),
    ],
)
def test_the_findings_are_counted_in_a_sentence(levels_found: list[Level], said: str) -> None:
    """Of each level that there is."""
    assert findings.totals(Finding("check", level, "x") for level in levels_found) == said
