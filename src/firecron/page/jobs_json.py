"""All jobs as JSON, as `/api/jobs` and the stream send them, and what of it is news. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TypeAlias

from firecron.ops.status import SeenJobs

Json: TypeAlias = dict[str, object]


@dataclass(frozen=True, slots=True)
class JobsJson:
    """The rows of the jobs, and the locks that belong to none, those of leaders apart."""

    jobs: list[Json]
    leaders: list[Json]
    locks: list[Json]

    def rest(self) -> Json:
        return {"leaders": self.leaders, "locks": self.locks}

    def to_json(self) -> Json:
        return {"jobs": self.jobs, **self.rest()}

    def essence(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return what would be news if it changed, as texts: of each job, and of the rest.

        A renewal is no news: it only moves the end of a lock.
        """
        rows = {str(row["job"]): _text({**row, "lock": _without_end(row["lock"])}) for row in self.jobs}
        rest = {"leaders": self.leaders, "locks": self.locks}
        return rows, {name: _text([_without_end(view) for view in views]) for name, views in rest.items()}


def jobs_json(seen: SeenJobs) -> JobsJson:
    """Return what is seen as JSON. A row's `lock` and `last` have no nulls: of 50 jobs they would be 14 kB."""
    return JobsJson(
        [{name: _without_nulls(value) for name, value in row.to_json().items()} for row in seen.rows],
        [view.to_json() for view in seen.others if view.is_leaders],
        [view.to_json() for view in seen.others if not view.is_leaders],
    )


def _without_nulls(value: object) -> object:
    if not isinstance(value, dict):
        return value
    return {name: part for name, part in value.items() if part is not None}


def _without_end(lock: object) -> object:
    if not isinstance(lock, dict) or lock.get("state") not in ("held", "minimum_hold"):
        return lock
    return {**lock, "until": None}


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
