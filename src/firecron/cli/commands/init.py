"""`firecron init`: write the files that a new service needs, with the project's names in them.

It asks nothing that it can know: the service has the folder's name, the database is the one that the options or the
environment name, project and region are those of the environment, of Firebase's file in the folder, or of gcloud. What
is not known is asked for on a terminal, and stays in capitals elsewhere. A file that is there already stays as it is.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias
from urllib.parse import urlsplit

import typer
from rich.text import Text

from firecron.cli.commands.doctor import adapted, shipped
from firecron.cli.options import Json
from firecron.cli.output import Exit, Failure, answering
from firecron.settings import load

Folder: TypeAlias = Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to write; the current folder.")]
Service: TypeAlias = Annotated[
    str | None, typer.Option("--service", metavar="NAME", help="Name of the service; else the folder's.")
]
Project: TypeAlias = Annotated[str | None, typer.Option("--project", metavar="ID", help="Google Cloud project.")]
Region: TypeAlias = Annotated[str | None, typer.Option("--region", metavar="NAME", help="Region of Cloud Run.")]

# What stays where a name is not known.
_PROJECT, _REGION = "PROJECT", "REGION"
_SERVICE_NAME = re.compile(r"[a-z]([a-z0-9-]{0,47}[a-z0-9])?")
_PROJECT_NAME = re.compile(r"[a-z][a-z0-9-]{4,28}[a-z0-9]")
_REGION_NAME = re.compile(r"[a-z]+-[a-z]+[0-9]+")


def init(
    folder: Folder = Path(),
    service: Service = None,
    project: Project = None,
    region: Region = None,
    as_json: Json = False,
) -> None:
    """Write what a new service needs, and overwrite nothing.

    A module with a job, an application that ticks, requirements, a Dockerfile, the security rules, service.yaml for
    Cloud Run, the commands that deploy all of it, and those for Cloud Scheduler. The names in them are those of your
    project, as far as they can be known: from the options, the environment, .firebaserc, and gcloud.
    """
    with answering(as_json=as_json) as output:
        settings = load()
        may_ask = sys.stdin.isatty() and output.out.is_terminal and not as_json
        names = Names(
            service=_checked("--service", service or _service_of(folder), _SERVICE_NAME),
            project=_found("project", project, known_project(folder), _PROJECT, _PROJECT_NAME, may_ask=may_ask),
            region=_found("region", region, known_region(), _REGION, _REGION_NAME, may_ask=may_ask),
            database=_database(settings.database_url),
            prefix=settings.prefix,
            uid=settings.uid or "firecron",
        )
        written, kept = _write(folder, dict(files(names)))
        value = {
            "folder": str(folder.resolve()),
            "service": names.service,
            "project": None if names.project == _PROJECT else names.project,
            "region": None if names.region == _REGION else names.region,
            "database": names.url,
            "written": written,
            "kept": kept,
        }
        output.give(value, Text("\n".join(_said(folder, names, written, kept))))


# --- what can be known


@dataclass(frozen=True, slots=True)
class Names:
    """The names that the files have in them. `database` is None where the project's own database is meant."""

    service: str
    project: str
    region: str
    database: str | None = None
    prefix: str = ""
    uid: str = "firecron"

    @property
    def account(self) -> str:
        """The name of the service's account, which has 6 to 30 characters."""
        name = self.service if len(self.service) >= 6 else f"{self.service}-service"
        return name[:30].rstrip("-")

    @property
    def url(self) -> str:
        """The address of the database."""
        return self.database or f"https://{self.project}-default-rtdb.firebaseio.com"

    @property
    def instance(self) -> str:
        """The name of the database, for Firebase's tools."""
        return (urlsplit(self.url).hostname or "").split(".")[0]


def known_project(folder: Path, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the project that the environment, Firebase's file in this folder, or gcloud names."""
    for variable in ("GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT"):
        if found := environment.get(variable):
            return found
    with suppress(OSError, ValueError, KeyError, TypeError):
        return str(json.loads((folder / ".firebaserc").read_text("utf-8"))["projects"]["default"])
    with suppress(ValueError, KeyError, TypeError):
        return str(json.loads(environment.get("FIREBASE_CONFIG", ""))["projectId"])
    return _of_gcloud(environment, "core", "project")


def known_region(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the region that the environment or gcloud names."""
    for variable in ("CLOUDSDK_RUN_REGION", "CLOUDSDK_COMPUTE_REGION"):
        if found := environment.get(variable):
            return found
    return _of_gcloud(environment, "run", "region") or _of_gcloud(environment, "compute", "region")


def _of_gcloud(environment: Mapping[str, str], section: str, name: str) -> str | None:
    """Return a property of gcloud's active configuration, from its files; None if there is none."""
    home = Path(environment.get("CLOUDSDK_CONFIG") or Path.home() / ".config" / "gcloud")
    with suppress(OSError, configparser.Error, UnicodeDecodeError):
        active = environment.get("CLOUDSDK_ACTIVE_CONFIG_NAME")
        if not active:
            file = home / "active_config"
            active = file.read_text("utf-8").strip() if file.exists() else "default"
        parser = configparser.ConfigParser(interpolation=None)
        parser.read(home / "configurations" / f"config_{active}", "utf-8")
        return parser.get(section, name, fallback=None)
    return None


def _service_of(folder: Path) -> str:
    """Return a name for the service: that of the folder, as Cloud Run takes it."""
    name = re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-")
    name = re.sub(r"^[0-9-]+", "", name)[:49].rstrip("-")
    return name or "jobs"


def _database(url: str | None) -> str | None:
    """Return the address of a database of Firebase; None for that of an emulator, which no service reaches."""
    return url.rstrip("/") if url is not None and url.startswith("https://") else None


def _found(
    what: str, given: str | None, known: str | None, placeholder: str, pattern: re.Pattern[str], *, may_ask: bool
) -> str:
    name = given or known
    if name is None and may_ask:
        name = typer.prompt(f"Google Cloud {what}, or nothing to fill it in later", default="", show_default=False)
    return _checked(f"--{what}", name, pattern) if name else placeholder


def _checked(option: str, name: str, pattern: re.Pattern[str]) -> str:
    if not pattern.fullmatch(name):
        raise Failure(f"{option} {name!r} is no such name: use lower case letters, digits and hyphens", Exit.USAGE)
    return name


# --- the files


def _write(folder: Path, texts: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Write the files that are not there. Return the names of those that were written, and of those that stay."""
    written, kept = [], []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            path, is_made = folder / name, False
            try:
                # Never in place of a file that somebody makes at the same time.
                with path.open("x", encoding="utf-8") as file:
                    is_made = True
                    file.write(text)
            except FileExistsError:
                kept.append(name)
                continue
            except BaseException:
                if is_made:
                    path.unlink()  # a part of it would be kept by the next call
                raise
            if name.endswith(".sh"):
                path.chmod(0o755)
            written.append(name)
    except OSError as error:
        raise Failure(f"{folder} can't be written: {error}") from error
    return written, kept


def files(names: Names) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each file."""
    prefix = f"\n            - name: FIRECRON_PREFIX\n              value: {json.dumps(names.prefix)}"
    values = {
        "{service}": names.service,
        "{account}": names.account,
        "{project}": names.project,
        "{region}": names.region,
        "{database}": names.url,
        "{instance}": names.instance,
        "{uid}": json.dumps(names.uid),
        "{prefix}": prefix if names.prefix else "",
    }

    def filled(text: str) -> str:
        return re.sub(r"\{[a-z]+\}", lambda found: values[found[0]], text)

    yield "jobs.py", _JOBS
    yield "main.py", _MAIN
    yield "requirements.txt", "firecron[cli,fastapi]\nuvicorn\n"
    yield "Dockerfile", _DOCKERFILE
    yield ".dockerignore", ".git\n.venv\n__pycache__\n*.sh\n"
    yield "database.rules.json", json.dumps(adapted(shipped(), names.prefix, names.uid), indent=2) + "\n"
    rules: dict[str, str] = {"rules": "database.rules.json"}
    # Firebase's tools heed an instance only in a list. Without one the rules go to the project's own database.
    named = rules if names.database is None else [{"instance": names.instance, **rules}]
    yield "firebase.json", json.dumps({"database": named}, indent=2) + "\n"
    yield "service.yaml", filled(_SERVICE)
    yield "deploy.sh", filled(_DEPLOY)
    yield "scheduler.sh", filled(_SCHEDULER)


def _said(folder: Path, names: Names, written: list[str], kept: list[str]) -> Iterator[str]:
    where = "" if folder.resolve() == Path.cwd() else f" in {folder}"
    yield f"Written{where}: {', '.join(written)}" if written else f"Nothing was written{where}"
    if kept:
        yield f"Kept as it was, because it is there already: {', '.join(kept)}"
    missing = [name for name in (_PROJECT, _REGION) if name in (names.project, names.region)]
    if missing:
        yield f"Not known, so put it into service.yaml, deploy.sh and scheduler.sh: {' and '.join(missing)}"
    yield ""
    yield "Here, in memory, until Ctrl-C:"
    if where:
        yield f"  cd {folder}"
    yield "  RUNTIME_INSTANCE=production firecron emulator -- firecron work jobs:crons"
    yield f"On Cloud Run, as {names.service}, with the database {names.url}:"
    yield "  ./deploy.sh"


_JOBS = '''"""The jobs of this service. However many instances it has, each tick of a job runs on exactly one of them.

Here:  RUNTIME_INSTANCE=production firecron emulator -- firecron work jobs:crons
"""

from __future__ import annotations

import firecron.logging
from firecron import FireCron, Run, distributed_cron


@distributed_cron("hello", "* * * * *", description="Says hello every minute: put your work here.")
def hello(run: Run) -> None:
    print(f"hello, for {run.idempotency_key}", flush=True)


firecron.logging.setup()
crons = FireCron(hello)
'''

_MAIN = '''"""The service: its jobs tick as long as it runs, and Cloud Scheduler may run them by POST /cron/JOB."""

from __future__ import annotations

from fastapi import FastAPI

from jobs import crons

app = FastAPI(lifespan=crons.lifespan)
# The service is private: Cloud Run has verified the token before a request arrives.
app.mount("/cron", crons.trigger_app(trust_cloud_run_iam=True))


@app.get("/alive")
def alive() -> dict[str, bool]:
    return {"alive": True}
'''

_DOCKERFILE = """FROM python:3.13-slim

WORKDIR /service
COPY requirements.txt .
RUN pip install --no-cache-dir -r requirements.txt && useradd --create-home service
COPY *.py ./

USER service
ENV PYTHONUNBUFFERED=1 PORT=8080
# The shell only expands $PORT. With exec, Cloud Run's SIGTERM reaches uvicorn.
CMD ["sh", "-c", "exec uvicorn main:app --host 0.0.0.0 --port \\"$PORT\\""]
"""

_SERVICE = """apiVersion: serving.knative.dev/v1
kind: Service
metadata:
  name: {service}
  annotations:
    # Set on the service: on the revision, it would keep old revisions ticking.
    run.googleapis.com/minScale: "1"
spec:
  template:
    metadata:
      annotations:
        # Instance-based billing: jobs tick and renew their locks between requests, so they need the CPU all the time.
        run.googleapis.com/cpu-throttling: "false"
        autoscaling.knative.dev/maxScale: "3"
    spec:
      serviceAccountName: {account}@{project}.iam.gserviceaccount.com
      containers:
        - image: {region}-docker.pkg.dev/{project}/services/{service}
          ports:
            - containerPort: 8080
          env:
            # Jobs tick where this is production, and nowhere else.
            - name: RUNTIME_INSTANCE
              value: production
            - name: FIRECRON_DATABASE_URL
              value: {database}
            # The user that database.rules.json limits to firecron's own nodes.
            - name: FIRECRON_UID
              value: {uid}{prefix}
          resources:
            limits:
              cpu: "1"
              memory: 512Mi
          startupProbe:
            httpGet:
              path: /alive
            periodSeconds: 2
            failureThreshold: 15
"""

_DEPLOY = """#!/bin/sh
# Deploys {service}. The first part is needed once.
set -eu

ACCOUNT={account}@{project}.iam.gserviceaccount.com
if ! gcloud iam service-accounts describe "$ACCOUNT" --project {project} >/dev/null 2>&1; then
  gcloud services enable run.googleapis.com artifactregistry.googleapis.com cloudbuild.googleapis.com \\
    --project {project}
  gcloud artifacts repositories create services --repository-format docker --location {region} \\
    --project {project} || true
  # These replace ALL rules of the database {instance}. If others use it, merge database.rules.json into theirs instead.
  npx firebase-tools deploy --only database --project {project}
  gcloud iam service-accounts create {account} --project {project}
fi
gcloud projects add-iam-policy-binding {project} --role roles/firebasedatabase.admin \\
  --member "serviceAccount:$ACCOUNT" >/dev/null

gcloud builds submit --tag {region}-docker.pkg.dev/{project}/services/{service} --project {project}
gcloud run services replace service.yaml --region {region} --project {project}
"""

_SCHEDULER = """#!/bin/sh
# Lets Cloud Scheduler run the jobs of {service}, for a service that scales to zero. Under the lock a tick runs once,
# whoever starts it. Then minScale is "0" in service.yaml, and cpu-throttling "true"; and in jobs.py it is
# FireCron(hello, enabled=False).
set -eu

ACCOUNT=firecron-scheduler@{project}.iam.gserviceaccount.com
gcloud services enable cloudscheduler.googleapis.com --project {project}
gcloud iam service-accounts create firecron-scheduler --project {project} || true
gcloud run services add-iam-policy-binding {service} --region {region} --project {project} \\
  --role roles/run.invoker --member "serviceAccount:$ACCOUNT"
URL=$(gcloud run services describe {service} --region {region} --project {project} --format 'value(status.url)')

# One for each job, with its line and its time zone.
gcloud scheduler jobs create http hello --location {region} --project {project} \\
  --schedule "* * * * *" --time-zone UTC \\
  --uri "$URL/cron/hello" --http-method POST \\
  --oidc-service-account-email "$ACCOUNT" --oidc-token-audience "$URL" \\
  --attempt-deadline 1800s --max-retry-attempts 3
"""
