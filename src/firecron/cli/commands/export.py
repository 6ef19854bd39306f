"""`firecron export APP`: the jobs of Cloud Scheduler that call the trigger of each job, for gcloud or for Terraform.

The text is stable: the same declarations and options give the same text, so it can be committed, and `--check FILE`
fails where it has gone out of date. Nothing is asked of Google or of the database.

Cloud Scheduler reads five fields in whole minutes, so it can't say each schedule. A job of another one is an error that
names it: no text leaves a job out without a word. Only disabled jobs are left out.
"""

from __future__ import annotations

import difflib
import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer
from rich.text import Text

from firecron.cli.options import AppPath, Json, load
from firecron.cli.output import Exit, Failure, answering
from firecron.cron.line import in_minutes
from firecron.jobs.job import Job
from firecron.jobs.options import JobOptions

# In seconds: what Cloud Scheduler takes.
_DEADLINES = (15, 1_800)
_MOST_RETRIES = 5
_PAUSE = 10


class ExportTo(StrEnum):
    """What reads the text."""

    GCLOUD = "gcloud"
    TERRAFORM = "terraform"


To = Annotated[ExportTo, typer.Option("--to", help="What reads the text.")]
Url = Annotated[
    str, typer.Option("--url", metavar="URL", help="Where the triggers are mounted, such as https://….run.app/cron.")
]
Account = Annotated[
    str, typer.Option("--service-account", metavar="EMAIL", help="The account whose token each request has.")
]
Audience = Annotated[
    str | None, typer.Option("--audience", metavar="TEXT", help="Audience of the token; else the service's address.")
]
Location = Annotated[
    str | None, typer.Option("--location", metavar="REGION", help="Region of Cloud Scheduler; else a variable.")
]
Retries = Annotated[
    int, typer.Option("--retries", min=0, max=_MOST_RETRIES, help="How often a failed request is made again.")
]
Check = Annotated[
    Path | None,
    typer.Option("--check", metavar="FILE", help="Print nothing, and fail if FILE has another text.", dir_okay=False),
]


@dataclass(frozen=True, slots=True)
class SchedulerJob:
    """A job of Cloud Scheduler. Durations are seconds."""

    name: str
    description: str | None
    schedule: str
    timezone: str
    uri: str
    deadline: int

    def to_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "description": self.description,
            "schedule": self.schedule,
            "timezone": self.timezone,
            "uri": self.uri,
            "deadline": self.deadline,
        }


@dataclass(frozen=True, slots=True)
class SchedulerCall:
    """What all requests have: the account and the audience of their token, where they come from, and the retries."""

    account: str
    audience: str
    location: str | None
    retries: int


def export(
    app: AppPath,
    to: To,
    url: Url,
    service_account: Account,
    audience: Audience = None,
    location: Location = None,
    retries: Retries = _MOST_RETRIES,
    check: Check = None,
    as_json: Json = False,
) -> None:
    """Print the jobs of Cloud Scheduler that call the triggers of APP.

    For gcloud it is a script that creates the jobs or updates them, for Terraform one resource for each job. Reads no
    database. With --check it compares the text with a file, and fails with exit code 1 if it differs.
    """
    with answering(as_json=as_json) as output:
        address = _address(url)
        call = SchedulerCall(service_account, audience or _origin(address), location, retries)
        found = scheduler_jobs([job for job in load(app).crons.registry.jobs() if not job.options.disabled], address)
        text = in_gcloud(found, call) if to is ExportTo.GCLOUD else in_terraform(found, call)
        value = {"to": to.value, "jobs": [job.to_json() for job in found], "text": text}
        if check is None:
            output.give(value, Text(text.removesuffix("\n")))
            return
        _compare(check, text)
        output.give(value, Text(f"{check} is what would be exported"))


def scheduler_jobs(jobs: Sequence[Job], address: str) -> list[SchedulerJob]:
    """Return what calls the triggers of these jobs, by name. Raise Failure if Cloud Scheduler can't say one of them."""
    refused = [f"{job.name}: {why}" for job in jobs if (why := why_not(job.options)) is not None]
    if refused:
        raise Failure(f"Cloud Scheduler can't say the schedule of {'; '.join(refused)}", Exit.USAGE)
    return [_scheduler_job(job.options, address) for job in sorted(jobs, key=lambda job: job.name)]


def why_not(options: JobOptions) -> str | None:
    """Return why Cloud Scheduler can't have the ticks of this job; None if it can."""
    schedule = options.schedule
    if options.stored is not None:
        return "its schedules are stored in the database"
    if schedule.every is not None:
        return "every has even distances, and it has cron lines: write a line"
    for option in ("starting", "until"):
        if getattr(schedule, option) is not None:
            return f"it knows no {option}"
    if schedule.except_days is not None:
        return "it knows no except_days"
    plain = in_minutes(schedule.line)
    if plain is None:
        return f"the line {schedule.line!r} has several seconds, an L or a #"
    if plain[1]:
        return f"the line {schedule.line!r} has ticks at second {plain[1]}, and it has whole minutes"
    return None


def _scheduler_job(options: JobOptions, address: str) -> SchedulerJob:
    plain = in_minutes(options.schedule.line)
    assert plain is not None, "whoever has none was refused"
    least, most = _DEADLINES
    return SchedulerJob(
        name=options.name,
        description=options.about.description,
        schedule=plain[0],
        timezone=options.schedule.timezone,
        uri=f"{address}/{options.name}",
        deadline=min(max(math.ceil(options.max_runtime / 1000), least), most),
    )


def _address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment or parts.username is not None:
        raise Failure(
            f"--url {url!r} is not where triggers are mounted: give an address such as https://api-….run.app/cron",
            Exit.USAGE,
        )
    return url.rstrip("/")


def _origin(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"


def _compare(path: Path, text: str) -> None:
    """Raise Failure, with the difference, if the file doesn't have this text."""
    try:
        there = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{path} can't be read: {error}", Exit.USAGE) from None
    if there == text:
        return
    lines = difflib.unified_diff(there.splitlines(), text.splitlines(), str(path), "firecron export", lineterm="", n=2)
    raise Failure("\n".join([f"{path} is out of date: write it again with firecron export", *lines]))


# --- gcloud

_HEAD = "# Made by firecron export: change the program, and make it anew."
_FUNCTION = """\
# Create a job of Cloud Scheduler, or update the one of that name.
job() {
  name="$1"
  shift
  if gcloud scheduler jobs describe "$name" --location "$LOCATION" >/dev/null 2>&1; then
    gcloud scheduler jobs update http "$name" --location "$LOCATION" "$@"
  else
    gcloud scheduler jobs create http "$name" --location "$LOCATION" "$@"
  fi
}
"""


def in_gcloud(jobs: Sequence[SchedulerJob], call: SchedulerCall) -> str:
    """Return a script for a shell, which may be run again."""
    where = "${LOCATION:?the region of Cloud Scheduler}"
    location = f'LOCATION="{where}"' if call.location is None else f"LOCATION={shlex.quote(call.location)}"
    parts = [f"#!/bin/sh\n{_HEAD}\nset -eu\n\n{location}\n", _FUNCTION]
    return "\n".join([*parts, *(_gcloud_job(job, call) for job in jobs)])


def _gcloud_job(job: SchedulerJob, call: SchedulerCall) -> str:
    flags = [
        ("description", job.description or ""),
        ("schedule", job.schedule),
        ("time-zone", job.timezone),
        ("uri", job.uri),
        ("http-method", "POST"),
        ("oidc-service-account-email", call.account),
        ("oidc-token-audience", call.audience),
        ("attempt-deadline", f"{job.deadline}s"),
        ("max-retry-attempts", str(call.retries)),
        ("min-backoff", f"{_PAUSE}s"),
    ]
    said = [f"  {shlex.quote(f'--{name}={value}')}" for name, value in flags]
    return " \\\n".join([f"job {job.name}", *said]) + "\n"


# --- Terraform


def in_terraform(jobs: Sequence[SchedulerJob], call: SchedulerCall) -> str:
    """Return the resources, one for each job, in the layout of `terraform fmt`."""
    region = "" if call.location is not None else _VARIABLE
    return "\n".join([f"{_HEAD}\n", *([region] if region else []), *(_resource(job, call) for job in jobs)])


_VARIABLE = """\
variable "scheduler_region" {
  description = "The region of Cloud Scheduler."
  type        = string
}
"""


def _resource(job: SchedulerJob, call: SchedulerCall) -> str:
    region = "var.scheduler_region" if call.location is None else _quoted(call.location)
    head = [("name", _quoted(job.name)), ("region", region)]
    head += [] if job.description is None else [("description", _quoted(job.description))]
    head += [
        ("schedule", _quoted(job.schedule)),
        ("time_zone", _quoted(job.timezone)),
        ("attempt_deadline", _quoted(f"{job.deadline}s")),
    ]
    retry = [("retry_count", str(call.retries)), ("min_backoff_duration", _quoted(f"{_PAUSE}s"))]
    target = [("http_method", _quoted("POST")), ("uri", _quoted(job.uri))]
    token = [("service_account_email", _quoted(call.account)), ("audience", _quoted(call.audience))]
    lines = [
        f'resource "google_cloud_scheduler_job" "{job.name}" {{',
        *_aligned(head, 2),
        "",
        "  retry_config {",
        *_aligned(retry, 4),
        "  }",
        "",
        "  http_target {",
        *_aligned(target, 4),
        "",
        "    oidc_token {",
        *_aligned(token, 6),
        "    }",
        "  }",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _aligned(pairs: Sequence[tuple[str, str]], indent: int) -> Iterator[str]:
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        yield f"{' ' * indent}{name:<{width}} = {value}"


def _quoted(text: str) -> str:
    """Return the text as a string of HCL, in which nothing is a template."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped.replace("${", "$${").replace("%{", "%%{")}"'
