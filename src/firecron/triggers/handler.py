"""The handler: decides for a request of any framework what it runs and which response it gets.

    caller   the verifier checks the caller before the handler looks at anything else
    target   `/` is the overview, `/health` the verdicts, `/<name>` a job; other methods give 405, other names 404
    tick     the tick that Cloud Scheduler names, unless it is in the future by RTDB's clock; else a run by hand
    run      the run goes on in this request, under its lock

All of it blocks: `receive` while it asks Google and RTDB, and the work that `receive` returns until the job has ended.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from firecron.base.instants import to_text
from firecron.base.redaction import described
from firecron.base.tracing import Trace, traced
from firecron.cron.ticks import is_tick
from firecron.errors import FirecronError, Malformed, Stopping, StoreError, UnknownJob
from firecron.jobs.job import Job
from firecron.jobs.registry import Registry
from firecron.lock.record import IDLE, parse
from firecron.lock.service import LockService
from firecron.ops.health_report import HealthReport
from firecron.runs.history import History
from firecron.triggers.access import Access
from firecron.triggers.overview import Overview
from firecron.triggers.responses import (
    Answer,
    Past,
    answer,
    find_past,
    of_error,
    of_health,
    of_past,
    of_refusal,
    of_run,
)
from firecron.triggers.schedule_time import is_future, parse_schedule_time
from firecron.triggers.verifier import Denial, Verifier

Work: TypeAlias = Callable[[], Answer]


@dataclass(frozen=True, slots=True)
class Call:
    """The parts of a request that the handler needs.

    `path` is the decoded path below the mount. The values of a repeated header are joined.
    """

    method: str
    path: str
    authorization: str | None
    schedule_time: str | None
    trace: Trace | None = None


class Handler:
    """Serves the requests for the jobs of one registry."""

    def __init__(
        self, registry: Registry, locks: LockService, history: History, health: HealthReport, access: Access
    ) -> None:
        self._registry = registry
        self._locks = locks
        self._events = locks.events
        self._history = history
        self._overview = Overview(registry, locks, history)
        self._health = health
        self._access = access
        self._margin = locks.settings.margin_ms

    def receive(self, call: Call) -> Answer | Work:
        """Return the response, or the work that blocks and returns it.

        Neither this call nor the work raises. Both belong to the request's trace.
        """
        with traced(call.trace):
            try:
                denial = self._verifier(call).check(call.authorization)
                found = self._denied(denial) if denial is not None else self._route(call)
            except Exception as error:
                found = self._broken(None, error)
        if isinstance(found, Answer):
            return found

        def work() -> Answer:
            with traced(call.trace):
                return found()

        return work

    def _verifier(self, call: Call) -> Verifier:
        return self._access.health if _asks_for_health(call) else self._access.all

    def _route(self, call: Call) -> Answer | Work:
        if _asks_for_health(call):
            return of_health(self._health.get())
        name = call.path.removeprefix("/")
        if not name:
            if call.method in ("GET", "HEAD"):
                return self._serve(self._overview.answer)
            return _not_allowed("GET, HEAD", "this is the list of the jobs: GET it, or POST to /<name> to run a job")
        try:
            job = self._registry.get(name)
        except UnknownJob as error:
            return answer(404, "unknown_job", str(error))
        if call.method != "POST":
            return _not_allowed("POST", f'to run "{name}", POST', job=name)
        if not self._registry.runs_here(job):
            message = f'"{name}" needs the role {job.options.role!r}, and this service lacks it: set FIRECRON_ROLES'
            return answer(404, "elsewhere", message, job=name)
        if job.options.disabled:
            return answer(200, "disabled", f'"{name}" is declared disabled, and did not run', job=name)
        try:
            slot = parse_schedule_time(call.schedule_time)
        except ValueError as error:
            # Not a run by hand instead: it would come in addition to the run of the tick that was meant.
            self._events.emit("trigger.unreadable", name, logging.WARNING, f'"{name}" was not run: {error}')
            return answer(400, "bad_request", str(error), job=name)
        return lambda: self._serve(lambda: self._run(job, slot), name, slot)

    def _serve(self, work: Work, name: str | None = None, slot: datetime | None = None) -> Answer:
        try:
            return work()
        except UnknownJob as error:
            return answer(404, "unknown_job", str(error))
        except Stopping:
            return answer(503, "stopping", "this instance is stopping and starts no more runs", job=name)
        except StoreError as error:
            return of_error(error, name, _text(slot))
        except Exception as error:
            return self._broken(name, error)
        except KeyboardInterrupt as error:
            if threading.current_thread() is threading.main_thread():
                raise
            # Raised by the job itself: Ctrl-C reaches the main thread only.
            return answer(500, "failed", described(error), job=name, slot=_text(slot))

    def _run(self, job: Job, slot: datetime | None) -> Answer:
        name = job.name
        if slot is not None and is_future(slot, self._server_now(), self._margin):
            slot = None
        due = _text(slot)
        if due is not None:
            if not self._registry.is_wanted(job):
                message = f'"{name}" is paused on this instance, and did not run its tick {due}'
                return answer(200, "paused", message, job=name, slot=due)
            self._compare(job, due)
        result = self._registry.trigger(name, slot=slot, source="http")
        if result.run is not None and result.outcome is not None:
            self._registry.served(job)
            why = "" if result.error is None else f": {described(result.error)}"
            return of_run(job.options, result.run, result.outcome, f'"{name}" {result.outcome}{why}')
        assert result.refusal is not None, "a trigger ends with a run or a refusal"
        # A refusal "held" without a holder means that this instance runs the job, perhaps for this very tick.
        is_here = result.refusal.reason == "held" and result.refusal.holder is None
        if due is not None and (is_here or result.refusal.reason == "slot_done"):
            past = self._find_past(job, due)
            if past.is_running or not is_here:
                return of_past(job.options, due, past)
        return of_refusal(result.refusal, due)

    def _find_past(self, job: Job, due: str) -> Past:
        now = self._server_now()
        try:
            current = parse(self._locks.read(job.name), now)
        except Malformed:
            current = IDLE  # malformed since the claim was refused; the history is still right
        return find_past(job.options, due, current, self._history.entry(job.name, due), now, self._margin)

    def _compare(self, job: Job, due: str) -> None:
        """Log a WARNING if the job's schedule doesn't have the tick. The tick is claimed all the same."""
        schedule = job.options.schedule
        if not is_tick(schedule, due):
            same = "the same line and time zone" if schedule.every is None else "a line that has the same ticks"
            message = (
                f'"{job.name}" was triggered for {due}, which its schedule {schedule} doesn\'t have: give '
                f"Cloud Scheduler {same}, else ticks run twice or not at all"
            )
            self._events.emit("trigger.off_schedule", job.name, logging.WARNING, message, slot=due, line=schedule.line)

    def _server_now(self) -> int:
        return self._locks.clock.now(self._locks.deadline(self._locks.settings.acquire_timeout)).server

    def _denied(self, denial: Denial) -> Answer:
        detail = "" if denial.detail is None else f" ({denial.detail})"
        message = f"A trigger was refused: {denial.message}{detail}"
        self._events.emit("trigger.denied", "firecron", logging.WARNING, message, status=denial.status)
        results = {401: "unauthorized", 403: "forbidden", 503: "unavailable"}
        headers = {"WWW-Authenticate": "Bearer"} if denial.status == 401 else {}
        return answer(denial.status, results[denial.status], denial.message, headers=headers)

    def _broken(self, name: str | None, error: Exception) -> Answer:
        message = f"A trigger could not be served: {described(error)}"
        self._events.emit("trigger.failed", name or "firecron", logging.ERROR, message, error)
        # An error of firecron's is meant for the caller. Any other error is a defect, and its text is for the log only.
        said = str(error) if isinstance(error, FirecronError) else "the trigger could not be served; see the log"
        return answer(500, "error", said, job=name)


def _asks_for_health(call: Call) -> bool:
    return call.path == "/health" and call.method in ("GET", "HEAD")


def _not_allowed(allow: str, message: str, job: str | None = None) -> Answer:
    return answer(405, "method_not_allowed", message, job=job, headers={"Allow": allow})


def _text(slot: datetime | None) -> str | None:
    return None if slot is None else to_text(slot)
