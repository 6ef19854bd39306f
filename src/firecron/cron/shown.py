"""A schedule as JSON for programs: the same fields wherever a schedule is shown. Pure."""

from __future__ import annotations

from firecron.base.instants import in_utc
from firecron.cron.schedule import Schedule


def schedule_fields(schedule: Schedule | None) -> dict[str, object]:
    """Return what a schedule is. Without a schedule each field is None."""
    if schedule is None:
        return dict.fromkeys(("line", "timezone", "every", "starting"))
    return {
        "line": schedule.line,
        "timezone": schedule.timezone,
        "every": None if schedule.every is None else int(schedule.every.total_seconds()),
        "starting": None if schedule.starting is None else in_utc(schedule.starting),
    }
