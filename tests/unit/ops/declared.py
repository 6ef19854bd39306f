"""Declared jobs for the tests of verdicts."""

from __future__ import annotations

from dataclasses import replace

from firecron.cron.schedule import Schedule
from firecron.jobs.catalogue import CatalogueEntry

JOB = CatalogueEntry(
    name="digest",
    schedule=Schedule("0 9 * * *"),
    grace=60_000,
    overlap="skip",
    catch_up="skip",
    once_per_tick=True,
    disabled=False,
    expected_runtime=None,
    alert_after=1,
    role=None,
    where="jobs.digest (jobs.py:5)",
    ticks=True,
    service="api",
    revision="api-00042-abc",
    since=0,
    declared_at=0,
)


def job(line: str = "0 9 * * *", zone: str = "UTC", /, **options: object) -> CatalogueEntry:
    """The job, with another schedule or other options."""
    changed = replace(JOB, schedule=Schedule(line, zone))
    return replace(changed, **options)  # type: ignore[arg-type]  # the names are the fields' own
