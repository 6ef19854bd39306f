"""`firecron init`: what it writes, what it finds out by itself, and what it leaves alone."""

from __future__ import annotations

import json
import logging
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.calls import answer, call, complaint, modules
from tests.cli.schemas import INIT
from tests.cli.test_contexts import URL

from firecron.cli.commands.init import Names, files, known_project, known_region
from rtdb_emulator.pytest_plugin import Rtdb

FILES = [
    "jobs.py", "main.py", "requirements.txt", "Dockerfile", ".dockerignore", "database.rules.json", "firebase.json",
    "service.yaml", "deploy.sh", "scheduler.sh",
]  # fmt: skip
NOBODY = ("GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT", "CLOUDSDK_RUN_REGION", "FIREBASE_CONFIG")


@pytest.fixture(autouse=True)
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, of somebody whose gcloud knows nothing."""
    for variable in (*NOBODY, "CLOUDSDK_COMPUTE_REGION", "FIRECRON_DATABASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    folder = tmp_path / "My_Service 2"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def configure(tmp_path: Path, text: str) -> None:
    """What gcloud remembers."""
    configurations = tmp_path / "gcloud" / "configurations"
    configurations.mkdir(parents=True)
    (tmp_path / "gcloud" / "active_config").write_text("work", "utf-8")
    (configurations / "config_work").write_text(text, "utf-8")


def test_all_files_are_written_with_the_names_in_them(service: Path) -> None:
    """The service is named after the folder, and nothing in capitals is left to fill in."""
    value = answer(INIT, "init", "--project", "orders-prod", "--region", "europe-west1")
    assert (value["service"], value["written"], value["kept"]) == ("my-service-2", FILES, [])
    assert value["database"] == "https://orders-prod-default-rtdb.firebaseio.com"
    texts = {name: (service / name).read_text("utf-8") for name in FILES}
    for name in ("service.yaml", "deploy.sh", "scheduler.sh"):
        assert "orders-prod" in texts[name]
        assert not {"PROJECT", "REGION"} & set(texts[name].replace("/", " ").split())
        assert "{" not in texts[name].replace("${", "")
    assert "image: europe-west1-docker.pkg.dev/orders-prod/services/my-service-2" in texts["service.yaml"]
    assert f"value: {value['database']}" in texts["service.yaml"]
    assert '--uri "$URL/cron/hello"' in texts["scheduler.sh"]
    assert stat.S_IMODE((service / "deploy.sh").stat().st_mode) & 0o100
    for script in ("deploy.sh", "scheduler.sh"):
        assert subprocess.run(["sh", "-n", service / script], check=False).returncode == 0


def test_nothing_is_overwritten(service: Path) -> None:
    """A file that is there stays, and is named; the others are written."""
    (service / "main.py").write_text("mine", "utf-8")
    value = answer(INIT, "init")
    assert (value["kept"], len(value["written"])) == (["main.py"], len(FILES) - 1)
    assert (service / "main.py").read_text("utf-8") == "mine"
    assert answer(INIT, "init")["written"] == []


def test_what_is_not_known_is_said(service: Path) -> None:
    """Without a terminal nothing is asked: the places are in capitals, and the files that have them are named."""
    value = answer(INIT, "init", "orders")
    assert (value["project"], value["region"], value["service"]) == (None, None, "orders")
    said = call("init", "other").stdout
    assert "put it into service.yaml, deploy.sh and scheduler.sh: PROJECT and REGION" in said
    assert "cd other\n  RUNTIME_INSTANCE=production firecron emulator -- firecron work jobs:crons" in said
    assert "REGION-docker.pkg.dev/PROJECT" in (service / "other" / "service.yaml").read_text("utf-8")


@pytest.mark.parametrize(
    ("environment", "firebase", "project"),
    [
        ({"GOOGLE_CLOUD_PROJECT": "by-variable"}, True, "by-variable"),
        ({}, True, "by-firebase"),
        ({"FIREBASE_CONFIG": '{"projectId": "by-config"}'}, False, "by-config"),
        ({}, False, "by-gcloud"),
    ],
)
def test_the_project_is_found(
    tmp_path: Path, service: Path, environment: dict[str, str], firebase: bool, project: str
) -> None:
    """In the environment, in Firebase's file, or where gcloud remembers it."""
    configure(tmp_path, "[core]\nproject = by-gcloud\n[compute]\nregion = europe-west3\n")
    if firebase:
        (service / ".firebaserc").write_text('{"projects": {"default": "by-firebase"}}', "utf-8")
    known = {"CLOUDSDK_CONFIG": str(tmp_path / "gcloud"), **environment}
    assert known_project(service, known) == project
    assert known_region(known) == "europe-west3"
    assert known_region({**known, "CLOUDSDK_RUN_REGION": "us-east1"}) == "us-east1"


def test_a_gcloud_that_is_not_there_knows_nothing(tmp_path: Path, service: Path) -> None:
    """Nor does one whose file can't be read."""
    known = {"CLOUDSDK_CONFIG": str(tmp_path / "gcloud")}
    assert known_project(service, known) is None
    configure(tmp_path, "project = in no section")
    assert known_project(service, known) is None


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--service", "My Service"], "--service 'My Service' is no such name"),
        (["--project", "x"], "--project 'x' is no such name"),
        (["--region", "$(reboot)"], "--region '$(reboot)' is no such name"),
    ],
)
def test_a_name_that_can_not_be_one_is_refused(service: Path, arguments: list[str], why: str) -> None:
    """It would be a part of a script."""
    assert why in complaint(2, "init", *arguments)
    assert list(service.iterdir()) == []


def test_the_database_of_the_options_is_the_services(service: Path) -> None:
    """With its prefix, in the rules as well; an emulator's is none that a service could reach."""
    call("init", "here", "--project", "orders-prod", "--database", URL, "--prefix", "ops/cron")
    text = (service / "here" / "service.yaml").read_text("utf-8")
    assert f"value: {URL}\n" in text
    assert '- name: FIRECRON_PREFIX\n              value: "ops/cron"' in text
    assert list(json.loads((service / "here" / "database.rules.json").read_text("utf-8"))["rules"]) == ["ops"]
    call("init", "there", "--project", "orders-prod", "--database", "http://127.0.0.1:9000?ns=x")
    assert "https://orders-prod-default-rtdb" in (service / "there" / "service.yaml").read_text("utf-8")


def test_the_rules_are_deployed_to_the_database_that_is_named(service: Path) -> None:
    """And not to the project's own one, which is meant where none is named; deploy.sh says whose rules it replaces."""
    url = "https://orders-eu.europe-west1.firebasedatabase.app"
    call("init", "here", "--project", "orders-prod", "--database", url)
    call("init", "there", "--project", "orders-prod")
    rules = {"rules": "database.rules.json"}
    for folder, instance, database in (
        ("here", "orders-eu", [{"instance": "orders-eu", **rules}]),
        ("there", "orders-prod-default-rtdb", rules),
    ):
        assert json.loads((service / folder / "firebase.json").read_text("utf-8")) == {"database": database}
        assert f"ALL rules of the database {instance}." in (service / folder / "deploy.sh").read_text("utf-8")


def test_a_file_that_is_cut_is_not_left_there(service: Path) -> None:
    """Where the disk is full the call fails, and the next one writes the whole file."""
    # Python before 3.12 keeps byte code that was cut.
    script = "import resource, sys; sys.dont_write_bytecode = True\n"
    script += "resource.setrlimit(resource.RLIMIT_FSIZE, (900, 900)); sys.argv[0] = 'firecron'\n"
    script += "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    script += "from firecron.cli import main; main()"
    made = subprocess.run([sys.executable, "-c", script, "init"], capture_output=True, text=True, check=False)
    assert made.returncode != 0
    assert "can't be written" in made.stderr
    kept = sorted(path.name for path in service.iterdir())
    assert answer(INIT, "init")["kept"] == [name for name in FILES if name in kept]
    written = dict(files(Names("my-service-2", "PROJECT", "REGION")))
    assert {name: (service / name).read_text("utf-8") for name in FILES} == written


@pytest.mark.parametrize(
    ("service_name", "account"), [("api", "api-service"), ("orders", "orders"), ("x" * 40, "x" * 30)]
)
def test_an_account_has_a_name_that_it_may_have(service_name: str, account: str) -> None:
    """Six to thirty characters."""
    assert Names(service_name, "orders-prod", "europe-west1").account == account


def test_the_job_runs_as_the_user_of_the_rules(rtdb: Rtdb, service: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written works together: the module, the rules, and the user that service.yaml names."""
    texts = dict(files(Names("orders", "orders-prod", "europe-west1")))
    rtdb.set_rules(texts["database.rules.json"])
    monkeypatch.setenv("FIRECRON_UID", "firecron")
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        with modules({"jobs": texts["jobs.py"]}, service, monkeypatch):
            ran = call("run", "jobs:crons", "hello", "--slot", "now")
    finally:  # the module sets up the log
        root.handlers[:] = handlers
        root.setLevel(level)
    assert ran.exit_code == 0, ran.stderr
    assert "hello, for hello:" in ran.stdout


def test_the_application_can_be_served(service: Path) -> None:
    """Its module imports in a process of its own, and has what Cloud Run asks."""
    call("init")
    code = "import main; print(sorted(route.path for route in main.app.routes if route.path in ('/alive', '/cron')))"
    done = subprocess.run([sys.executable, "-c", code], cwd=service, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "['/alive', '/cron']\n"), done.stderr
