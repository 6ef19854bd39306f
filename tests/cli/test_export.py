"""`firecron export`: what gcloud and Terraform get, read back by a shell and by a parser of HCL."""

from __future__ import annotations

import json
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hcl2
import pytest
from tests.cli.calls import answer, call, complaint, modules
from tests.cli.schemas import EXPORT

BOUND = 20
URL = "https://api-123456.europe-west1.run.app/cron"
ACCOUNT = "scheduler@my-project.iam.gserviceaccount.com"
COMMON = ("--url", URL, "--service-account", ACCOUNT)
ODD = "Sends \"it\" to ${everybody}, 'all' & %{co} \\ $HOME `id`"
PROGRAMS = {
    "exported": f"""
from firecron import FireCron, distributed_cron

class Jobs:
    @distributed_cron("send-digest", "0 30 9 * * MON-FRI", timezone="America/New_York", description={ODD!r})
    def digest(self): ...

    @distributed_cron("import_all", "H/15 22-1 1,15 * *", max_runtime=60.5)
    def everything(self): ...

    @distributed_cron("sweep", "* * * * *", max_runtime=5)
    def sweep(self): ...

    @distributed_cron("off", "0 0 L * *", disabled=True)
    def off(self): ...

crons = FireCron(Jobs())
""",
    "unsaid": """
from datetime import UTC, date, datetime
from firecron import FireCron, distributed_cron, scheduled

NOW = datetime(2026, 11, 18, tzinfo=UTC)

class Jobs:
    @distributed_cron("seconds", "*/10 * * * * *")
    def a(self): ...
    @distributed_cron("at-second", "5 0 9 * * *")
    def b(self): ...
    @distributed_cron("last", "0 9 L * *")
    def c(self): ...
    @distributed_cron("even", every=60)
    def d(self): ...
    @scheduled("remind")
    def stored(self): ...
    @distributed_cron("ends", "0 9 * * *", until=NOW)
    def e(self): ...
    @distributed_cron("begins", "0 9 * * *", starting=NOW)
    def f(self): ...
    @distributed_cron("closed", "0 9 * * *", except_days=[date(2026, 12, 25)])
    def g(self): ...
    @distributed_cron("fine", "0 9 * * *")
    def h(self): ...

crons = FireCron(Jobs())
""",
}


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with modules(PROGRAMS, tmp_path, monkeypatch):
        yield


def plain(value: Any) -> Any:
    """A value of HCL without the quotes and marks of the parser."""
    if isinstance(value, dict):
        return {plain(name): plain(one) for name, one in value.items() if not name.startswith("__")}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, str) and value.startswith('"'):
        return json.loads(value).replace("$${", "${").replace("%%{", "%{")
    return value


def test_terraform_gets_a_resource_for_each_job() -> None:
    """A parser of HCL reads back what each job declares, and what each request has; a disabled job is left out."""
    text = call("export", "exported:crons", "--to", "terraform", *COMMON).stdout
    assert "$${everybody}" in text, "nothing in a text of the program is a template"
    assert "%%{co}" in text
    read: Any = plain(hcl2.loads(text))
    found = {name: one for resource in read["resource"] for name, one in resource["google_cloud_scheduler_job"].items()}
    assert list(found) == ["import_all", "send-digest", "sweep"]
    assert found["send-digest"] == {
        "name": "send-digest",
        "region": "${var.scheduler_region}",
        "description": ODD,
        "schedule": "30 9 * * 1,2,3,4,5",
        "time_zone": "America/New_York",
        "attempt_deadline": "1800s",
        "retry_config": [{"retry_count": 5, "min_backoff_duration": "10s"}],
        "http_target": [
            {
                "http_method": "POST",
                "uri": f"{URL}/send-digest",
                "oidc_token": [{"service_account_email": ACCOUNT, "audience": URL.removesuffix("/cron")}],
            }
        ],
    }
    assert [(one["schedule"], one["attempt_deadline"]) for one in list(found.values())[::2]] == [
        ("13,28,43,58 0,1,22,23 1,15 * *", "61s"),
        ("* * * * *", "15s"),
    ]
    assert [list(variable) for variable in read["variable"]] == [["scheduler_region"]]


def test_each_option_is_in_the_text() -> None:
    """The region, the audience and the retries are those that are given; a slash at the end of the address is none."""
    options = ("--location", "europe-west1", "--audience", "cron", "--retries", "0")
    text = call("export", "exported:crons", "--to", "terraform", "--url", f"{URL}/", *COMMON[2:], *options).stdout
    read: Any = plain(hcl2.loads(text))
    (one,) = read["resource"][0]["google_cloud_scheduler_job"].values()
    assert (one["region"], one["retry_config"][0]["retry_count"]) == ("europe-west1", 0)
    (target,) = one["http_target"]
    assert (target["uri"], target["oidc_token"][0]["audience"]) == (f"{URL}/import_all", "cron")
    assert "variable" not in read


@pytest.mark.parametrize("is_there", [False, True], ids=["create", "update"])
def test_a_shell_runs_the_script_for_gcloud(tmp_path: Path, is_there: bool) -> None:
    """A shell hands gcloud each text as it was declared: jobs that are there are updated, the others created."""
    calls = tmp_path / "calls"
    gcloud = tmp_path / "bin" / "gcloud"
    gcloud.parent.mkdir()
    gcloud.write_text(
        f'#!/bin/sh\n[ "$3" = describe ] && exit {0 if is_there else 1}\n'
        f'printf "%s\\037" "$@" >> {calls}\nprintf "\\036" >> {calls}\n'
    )
    gcloud.chmod(gcloud.stat().st_mode | stat.S_IXUSR)
    script = call("export", "exported:crons", "--to", "gcloud", *COMMON).stdout
    path = f"{gcloud.parent}:/usr/bin:/bin"
    without = subprocess.run(
        ["sh"], input=script, env={"PATH": path}, capture_output=True, text=True, timeout=BOUND, check=False
    )
    assert (without.returncode != 0, "the region of Cloud Scheduler" in without.stderr) == (True, True)
    environment = {"PATH": path, "LOCATION": "europe-west1"}
    subprocess.run(["sh"], input=script, env=environment, text=True, timeout=BOUND, check=True)
    made = [one.split("\037")[:-1] for one in calls.read_text().split("\036")[:-1]]
    verb = "update" if is_there else "create"
    assert [one[:5] for one in made] == [
        ["scheduler", "jobs", verb, "http", name] for name in ("import_all", "send-digest", "sweep")
    ]
    assert made[1][5:] == [
        "--location", "europe-west1", f"--description={ODD}", "--schedule=30 9 * * 1,2,3,4,5",
        "--time-zone=America/New_York", f"--uri={URL}/send-digest", "--http-method=POST",
        f"--oidc-service-account-email={ACCOUNT}", f"--oidc-token-audience={URL.removesuffix('/cron')}",
        "--attempt-deadline=1800s", "--max-retry-attempts=5", "--min-backoff=10s",
    ]  # fmt: skip


def test_what_scheduler_can_not_say_names_the_job() -> None:
    """No text leaves a job out without a word: each one that Cloud Scheduler can't have is named, with why."""
    said = complaint(2, "export", "unsaid:crons", "--to", "terraform", *COMMON)
    for words in (
        "seconds: the line '*/10 * * * * *' has several seconds, an L or a #",
        "at-second: the line '5 0 9 * * *' has ticks at second 5, and it has whole minutes",
        "last: the line '0 9 L * *' has several seconds, an L or a #",
        "even: every has even distances",
        "ends: it knows no until",
        "begins: it knows no starting",
        "closed: it knows no except_days",
        "remind: its schedules are stored in the database",
    ):
        assert words in said
    assert "fine" not in said


@pytest.mark.parametrize("to", ["gcloud", "terraform"])
def test_a_file_is_compared_with_what_would_be_written(tmp_path: Path, to: str) -> None:
    """`--check` is quiet about the same text, which the same program always gives, and shows where another differs."""
    arguments = ("export", "exported:crons", "--to", to, *COMMON)
    written = tmp_path / "scheduler"
    assert "can't be read" in complaint(2, *arguments, "--check", str(written))
    written.write_text(call(*arguments).stdout)
    assert call(*arguments).stdout == written.read_text()
    same = call(*arguments, "--check", str(written))
    assert (same.exit_code, same.stdout) == (0, f"{written} is what would be exported\n")
    written.write_text(written.read_text().replace("America/New_York", "Europe/Berlin"))
    said = complaint(1, *arguments, "--check", str(written))
    assert said.startswith(f"{written} is out of date: write it again with firecron export\n")
    changed = [line for line in said.splitlines() if line[0] in "-+" and line[:3] not in ("---", "+++")]
    assert [("Berlin" in line, "New_York" in line) for line in changed] == [(True, False), (False, True)]


def test_programs_get_the_jobs_as_well() -> None:
    """As JSON there are the jobs beside the text."""
    value = answer(EXPORT, "export", "exported:crons", "--to", "gcloud", *COMMON)
    assert [job["name"] for job in value["jobs"]] == ["import_all", "send-digest", "sweep"]
    assert value["text"].startswith("#!/bin/sh\n")


@pytest.mark.parametrize("url", ["http://api.example.com/cron", "api.example.com", "https://", f"{URL}?a=b"])
def test_an_address_that_takes_no_token_is_refused(url: str) -> None:
    """A token is sent over TLS only, to an address that the job's name can follow."""
    said = complaint(2, "export", "exported:crons", "--to", "gcloud", "--url", url, "--service-account", ACCOUNT)
    assert "is not where triggers are mounted" in said
