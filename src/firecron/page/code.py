"""The code of the jobs in this process: what the page can run. `firecron page` without an application has none."""

from __future__ import annotations

from firecron.errors import UnknownJob
from firecron.jobs.registry import Registry


class Code:
    """The jobs that this process can run: those of its registry, if it has one."""

    def __init__(self, registry: Registry | None) -> None:
        self.registry = registry

    def why_not(self, name: str) -> str | None:
        """Return why this process can't run the job; None if it can."""
        if self.registry is None:
            return "this page is served without the code of the jobs"
        try:
            job = self.registry.get(name)
        except UnknownJob:
            return f"this process has no code for {name}"
        if not self.registry.runs_here(job):
            return f"{name} needs the role {job.options.role!r}, and this process lacks it"
        return f"{name} is declared disabled" if job.options.disabled else None
