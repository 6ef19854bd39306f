"""`GET /`: the jobs, their states on this instance, whether they are paused, their last runs and their next ticks.

It reads all locks with one request, and then the newest entry of each job with one request a job, while there is time.
The `last_run` of the other jobs is null. If the database can't be read, the status is an error's, and the body has what
is known without the database: `paused` and `last_run` are null then.
"""

from __future__ import annotations

from firecron.base.instants import to_text
from firecron.errors import StoreError
from firecron.jobs.job import Job
from firecron.jobs.registry import Registry
from firecron.lock.service import LockService
from firecron.ops.operator import Operator
from firecron.ops.views import inspect_run
from firecron.runs.history import History
from firecron.triggers.responses import Answer, of_error


class Overview:
    """The overview of the jobs of one registry."""

    def __init__(self, registry: Registry, locks: LockService, history: History) -> None:
        self._registry = registry
        self._locks = locks
        self._operator = Operator(locks)
        self._history = history

    def answer(self) -> Answer:
        """Return the response with the overview. It blocks for about as long as an acquire may."""
        jobs = self._registry.jobs()
        shown = {job.name: self._show(job) for job in jobs}
        body: dict[str, object] = {"jobs": list(shown.values())}
        try:
            self._look(shown)
        except StoreError as error:
            failed = of_error(error)
            return Answer(failed.status, {**body, "error": failed.body["message"]}, failed.headers)
        return Answer(200, body)

    def _show(self, job: Job) -> dict[str, object]:
        schedule = job.options.schedule
        (following,) = self._registry.next_slots(job.name)
        return {
            "job": job.name,
            "schedule": schedule.line,
            "timezone": schedule.timezone,
            "state": self._registry.state(job.name),
            "next": to_text(following),
            "paused": None,
            "last_run": None,
        }

    def _look(self, shown: dict[str, dict[str, object]]) -> None:
        """Fill in the fields from the database. Raise StoreError; what was read before the error is filled in."""
        deadline = self._locks.deadline(self._locks.settings.acquire_timeout)
        paused = {view.name for view in self._operator.look_at_all().views if view.is_paused}
        for name, fields in shown.items():
            fields["paused"] = name in paused
        for name, fields in shown.items():
            # With many jobs and a distant database the time may end here: the other jobs keep their null.
            if deadline.remaining() > 0:
                fields["last_run"] = self._last_run(name)

    def _last_run(self, name: str) -> dict[str, object] | None:
        latest = self._history.latest(name, self._locks.deadline(self._locks.settings.request_timeout))
        return None if latest is None else inspect_run(*latest).to_json()
