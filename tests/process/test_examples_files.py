"""The files that deploy the examples: they name what is there, and set what the jobs need where they run. The
emulator's image is checked with them.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi import FastAPI

from firecron import FireCron, Schedule, Settings
from rtdb_emulator.cli import make_parser

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
MANIFESTS = {
    "fastapi": "service.yaml",
    "flask": "service.yaml",
    "scale-to-zero": "service.yaml",
    "cloud-run-job": "job.yaml",
    "kubernetes-cronjob": "cronjob.yaml",
}
SERVICES = [folder for folder, name in MANIFESTS.items() if name == "service.yaml"]
# Their manifest is the command in their README.
IMAGES = [*MANIFESTS, "worker-pool"]
DATABASE = "https://PROJECT-default-rtdb.firebaseio.com"


def text_of(folder: str, name: str) -> str:
    return (EXAMPLES / folder / name).read_text("utf-8")


def manifest(folder: str) -> dict[str, Any]:
    loaded = yaml.safe_load(text_of(folder, MANIFESTS[folder]))
    assert isinstance(loaded, dict)
    return loaded


def pod(folder: str) -> dict[str, Any]:
    """The innermost `spec`, which has the containers."""
    spec = manifest(folder)
    while "containers" not in spec:
        spec = spec.get("jobTemplate") or spec.get("template") or spec["spec"]
    return spec


def environment(folder: str) -> dict[str, Any]:
    (container,) = pod(folder)["containers"]
    return {variable["name"]: variable.get("value") for variable in container["env"]}


@pytest.mark.parametrize("folder", MANIFESTS)
def test_the_readme_builds_and_deletes_what_the_manifest_names(folder: str) -> None:
    """The image, the service account and the name of a manifest are those of its README's commands, with placeholders
    for whose they are.
    """
    readme, spec = text_of(folder, "README.md"), pod(folder)
    (container,) = spec["containers"]
    name = manifest(folder)["metadata"]["name"]
    account, _, domain = spec["serviceAccountName"].partition("@")
    assert container["image"] == f"REGION-docker.pkg.dev/PROJECT/services/{name}"
    assert f"gcloud builds submit --tag {container['image']}\n" in readme
    assert f"docker images delete {container['image']}\n" in readme
    assert domain in ("", "PROJECT.iam.gserviceaccount.com")
    assert f"gcloud iam service-accounts create {account}\n" in readme
    assert f"gcloud iam service-accounts delete {account}@PROJECT.iam.gserviceaccount.com\n" in readme
    assert re.search(rf" -f {MANIFESTS[folder]}|replace {MANIFESTS[folder]}", readme)
    assert re.search(rf"(jobs|services) delete {name} |delete cronjob,serviceaccount {name}\n", readme)
    assert environment(folder)["FIRECRON_DATABASE_URL"] == DATABASE


@pytest.mark.parametrize("folder", SERVICES)
def test_a_service_is_one_that_cloud_run_takes(folder: str) -> None:
    """A service's manifest is Knative's, its annotations are texts, and its startup probe asks a route of it."""
    service, spec = manifest(folder), pod(folder)
    assert (service["apiVersion"], service["kind"]) == ("serving.knative.dev/v1", "Service")
    annotations = service["metadata"]["annotations"] | service["spec"]["template"]["metadata"]["annotations"]
    assert {type(value) for value in annotations.values()} == {str}
    (container,) = spec["containers"]
    probed = container["startupProbe"]["httpGet"]["path"]
    sources = "".join(path.read_text("utf-8") for path in (EXAMPLES / folder).glob("*.py"))
    assert f'@app.get("{probed}")' in sources


@pytest.mark.parametrize("folder", ["fastapi", "flask"])
def test_a_service_that_ticks_has_cpu_and_an_instance(folder: str) -> None:
    """Where jobs tick, the CPU is there between requests, the minimum of instances is the service's and not the
    revision's, and the guard lets them.
    """
    service = manifest(folder)
    of_revision = service["spec"]["template"]["metadata"]["annotations"]
    assert int(service["metadata"]["annotations"]["run.googleapis.com/minScale"]) >= 1
    assert "autoscaling.knative.dev/minScale" not in of_revision
    assert of_revision["run.googleapis.com/cpu-throttling"] == "false"
    assert environment(folder)["RUNTIME_INSTANCE"] == "production"


def test_a_service_that_scales_to_zero_waits_for_its_requests() -> None:
    """Where Cloud Scheduler is the clock no instance is kept, nothing ticks by itself, and a request may last as long
    as Cloud Scheduler waits.
    """
    service = manifest("scale-to-zero")
    assert service["metadata"]["annotations"]["run.googleapis.com/minScale"] == "0"
    assert "RUNTIME_INSTANCE" not in environment("scale-to-zero")
    timeout = pod("scale-to-zero")["timeoutSeconds"]
    readme = text_of("scale-to-zero", "README.md")
    assert f"--attempt-deadline {timeout}s" in readme
    assert "--oidc-service-account-email" in readme
    (line, zone) = re.findall(r'--schedule "(.*?)" --time-zone (\S+)', readme)[0]
    source = text_of("scale-to-zero", "reports.py")
    assert f'@distributed_cron("write-report", "{line}", timezone="{zone}"' in source


def test_a_cloud_run_job_is_one_that_cloud_run_takes() -> None:
    """A job's manifest is Cloud Run's, with one task, a bound on its time, and the feed that its command reads."""
    job, task = manifest("cloud-run-job"), pod("cloud-run-job")
    assert (job["apiVersion"], job["kind"]) == ("run.googleapis.com/v1", "Job")
    assert job["spec"]["template"]["spec"]["taskCount"] == 1
    assert int(task["timeoutSeconds"]) > 0
    (mount,), (volume,) = task["containers"][0]["volumeMounts"], task["volumes"]
    assert mount["name"] == volume["name"]
    assert f"gs://{volume['csi']['volumeAttributes']['bucketName']} " in text_of("cloud-run-job", "README.md")
    assert f'CMD ["{mount["mountPath"]}/' in text_of("cloud-run-job", "Dockerfile")
    assert "/jobs/nightly-import:run" in text_of("cloud-run-job", "README.md")


def test_a_cronjob_claims_the_tick_that_kubernetes_starts_it_for() -> None:
    """The schedule that a pod claims is the one that Kubernetes starts it by; pods may overlap, and being late is no
    failure.
    """
    spec = manifest("kubernetes-cronjob")["spec"]
    assert spec["concurrencyPolicy"] == "Allow"
    (container,) = pod("kubernetes-cronjob")["containers"]
    firecron, command = container["args"][: container["args"].index("--")], container["args"][-1]
    options = dict(option.split("=", 1) for option in firecron[1:])
    assert firecron[0] == "exec"
    assert Schedule(options["--cron"], options["--timezone"]) == Schedule(spec["schedule"], spec["timeZone"])
    assert options["--held-exit-code"] == "0"
    assert (EXAMPLES / "kubernetes-cronjob" / command).stat().st_mode & 0o111


def steps_of(dockerfile: Path) -> list[tuple[str, str]]:
    """The instructions of an image and their arguments."""
    lines = [line for line in dockerfile.read_text("utf-8").splitlines() if line[:1].isupper()]
    return [(step, rest) for step, _, rest in (line.partition(" ") for line in lines)]


def test_the_emulators_image_serves_where_it_says() -> None:
    """The image installs the emulator's distribution, and its user is not root. It starts the package's command with
    options that the command takes, as the container's own process, on all addresses and on the port that it exposes.
    """
    dockerfile = ROOT / "emulator" / "Dockerfile"
    assert len(dockerfile.read_text("utf-8").splitlines()) < 15
    steps = dict(steps_of(dockerfile))
    assert not {"COPY", "ADD"} & {*steps}  # so it builds without a checkout
    project = tomllib.loads((ROOT / "emulator" / "pyproject.toml").read_text("utf-8"))["project"]
    assert f"pip install --no-cache-dir {project['name']} &&" in steps["RUN"]
    assert steps["USER"] not in ("root", "0")
    assert f"useradd --create-home {steps['USER']}" in steps["RUN"]
    command, *arguments = json.loads(steps["ENTRYPOINT"])
    assert command in project["scripts"]
    options = make_parser(command).parse_args(arguments)
    assert (options.host, options.port) == ("0.0.0.0", int(steps["EXPOSE"]))


def test_a_worker_pool_ticks_in_production() -> None:
    """The command that deploys the pool opens the guard, names the database, and has the image that was built; what
    it creates is deleted again.
    """
    readme = text_of("worker-pool", "README.md")
    image = "REGION-docker.pkg.dev/PROJECT/services/feed"
    (command,) = re.findall(r"^gcloud run worker-pools deploy .*(?:\n  .*)+", readme, re.MULTILINE)
    assert f" --image {image} " in command
    assert f"RUNTIME_INSTANCE=production,FIRECRON_DATABASE_URL={DATABASE}" in command
    assert "--service-account feed@PROJECT.iam.gserviceaccount.com" in command
    for line in (
        f"gcloud builds submit --tag {image}",
        "gcloud iam service-accounts create feed",
        "gcloud run worker-pools delete feed --region REGION",
        f"gcloud artifacts docker images delete {image}",
        "gcloud iam service-accounts delete feed@PROJECT.iam.gserviceaccount.com",
    ):
        assert f"{line}\n" in readme


def test_the_hand_offs_pool_and_worker_have_one_image() -> None:
    """What the two commands deploy is the image that was built, its programs are those that it has, and the pool gets
    every variable that its job reads.
    """
    readme, source = text_of("hand-off", "README.md"), text_of("hand-off", "hand_off.py")
    image = "REGION-docker.pkg.dev/PROJECT/services/reports"
    assert f"gcloud builds submit --tag {image}\n" in readme
    assert readme.count(f" --image {image} ") == 2
    steps = steps_of(EXAMPLES / "hand-off" / "Dockerfile")
    copied = " ".join(rest for step, rest in steps if step == "COPY")
    (started,) = (json.loads(rest) for step, rest in steps if step == "CMD")
    assert "worker.py" in copied
    assert "worker:app" in started
    assert "hand_off.py" in copied
    assert "--command firecron --args work,hand_off:crons --env-vars-file env.yaml " in readme
    environment = yaml.safe_load(text_of("hand-off", "env.yaml"))
    assert environment["FIRECRON_DATABASE_URL"] == DATABASE
    needed = set(re.findall(r'environ(?:\.get\(|\[)"((?:TASKS|WORKER)_\w+)"', source)) - {"TASKS_TIMEOUT"}
    assert needed <= set(environment)
    for line in (
        "gcloud tasks queues delete reports --location REGION",
        "gcloud run worker-pools delete reports --region REGION",
        "gcloud run services delete reports-worker --region REGION",
        f"gcloud artifacts docker images delete {image}",
        "gcloud iam service-accounts delete reports@PROJECT.iam.gserviceaccount.com",
    ):
        assert f"{line}\n" in readme


def test_what_is_deployed_starts_with_the_default_margin() -> None:
    """No ttl is shorter than six default margins: firecron would refuse it where nobody sets FIRECRON_MARGIN."""
    found = {
        f"{path.parent.name}/{path.name}, {said}": float(said)
        for path in EXAMPLES.glob("*/*.py")
        for said in re.findall(r'(?:ttl=|"LOCK_TTL", ")(\d+)', path.read_text("utf-8"))
    }
    assert len(found) > 5
    assert [name for name, ttl in found.items() if ttl < Settings().least_ttl] == []


@pytest.mark.parametrize("folder", IMAGES)
def test_an_image_has_what_it_runs(folder: str) -> None:
    """What a Dockerfile copies is there, what it starts is an array, named by a file that it has copied, and the user
    is not root.
    """
    steps = steps_of(EXAMPLES / folder / "Dockerfile")
    copied = [name for step, rest in steps if step == "COPY" for name in rest.split()[:-1]]
    assert copied
    for name in copied:
        assert (EXAMPLES / folder / name).is_file(), name
    started = " ".join(part for step, rest in steps if step in ("ENTRYPOINT", "CMD") for part in json.loads(rest))
    programs = [Path(name).stem for name in copied if name.endswith(".py") and not name.startswith("gunicorn")]
    assert all(program in started for program in programs), started
    user, last = ([step for step, _ in steps].index(name) for name in ("USER", "CMD"))
    assert steps[user][1] not in ("root", "0")
    assert user < last


@pytest.mark.parametrize("folder", IMAGES)
def test_the_requirements_name_extras_that_there_are(folder: str) -> None:
    """Each extra of firecron that an image installs is one that the package has."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    ours = [line for line in text_of(folder, "requirements.txt").splitlines() if line.startswith("firecron")]
    (named,) = (re.fullmatch(r"firecron(?:\[(.+)\])?", line) for line in ours)
    assert named is not None
    assert {*(named[1] or "").split(",")} - {""} <= set(extras)


def test_the_python_of_the_readmes_runs() -> None:
    """Each Python block in a README of the examples runs by itself, or after what its page has made before."""
    ran = 0
    for readme in EXAMPLES.glob("*/README.md"):
        for block in re.findall(r"^```python\n(.*?)^```$", readme.read_text("utf-8"), re.DOTALL | re.MULTILINE):
            made = {"app": FastAPI(), "crons": FireCron(enabled=False), "URL": "https://reports.example"}
            exec(compile(block, str(readme), "exec"), made)
            ran += 1
    assert ran >= 4


def test_the_sql_of_the_readme_is_that_of_the_job() -> None:
    """The statement that the README explains is the one that the job executes."""
    (shown,) = re.findall(r"^```sql\n(.*?)^```$", text_of("cloud-run-job", "README.md"), re.DOTALL | re.MULTILINE)
    (executed,) = re.findall(r'^WRITE = """(.*?)"""$', text_of("cloud-run-job", "nightly_import.py"), re.DOTALL | re.M)
    assert shown.split() == executed.split()


def test_the_index_lists_every_example() -> None:
    """The examples' README names each folder, and no other."""
    listed = re.findall(r"^\| \[(\S+)\]\(\1\) \|", (EXAMPLES / "README.md").read_text("utf-8"), re.MULTILINE)
    folders = [path.parent.name for path in EXAMPLES.glob("*/README.md")]
    assert sorted(listed) == sorted([*folders, "race.py"])
