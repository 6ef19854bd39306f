"""The handler: decides for a request to the triggers, whatever the door that it comes by, what it runs and says.

    caller   the verifier checks the caller before the handler looks at anything else
    target   `/` is the overview, `/health` the verdicts, `/<name>` a job; other methods give 405, other names 404
    tick     the tick that Cloud Scheduler names, unless it is in the future by RTDB's clock; else a run by hand
    run      the run goes on in this request, under its lock

The status is for Cloud Scheduler, which retries after every one but 2xx, if retries are configured:

    200   nothing is left to do: the job ran, its tick is done, it is running, or it is not to run
    500   the request failed, and a retry would get the same response
    503   a retry can help

`receive` blocks while it asks Google and RTDB, and the work that it returns until the job has ended.
"""

from __future__ import annotations

import json
import logging
import math
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import get_args
from urllib.parse import parse_qs

from firecron.base.clocks import heeding
from firecron.base.events import Seldom, how_often
from firecron.base.instants import to_milliseconds, to_text
from firecron.base.texts import described, redacted
from firecron.cron.schedule import is_tick
from firecron.errors import (
    ConfigurationError,
    Denied,
    FirecronError,
    Malformed,
    Stopping,
    StoreError,
    Unavailable,
    UnknownJob,
)
from firecron.jobs.job import Job
from firecron.jobs.options import JobOptions
from firecron.jobs.registry import Registry
from firecron.jobs.run import Outcome, Run
from firecron.lock.record import IDLE, Current, LockRecord, Reason, parse
from firecron.lock.refusal import Refusal
from firecron.ops.board import Board
from firecron.ops.health import split_names
from firecron.ops.operator import Operator
from firecron.ops.status import Report
from firecron.ops.views import inspect_run
from firecron.runs.entry import read_entry
from firecron.runs.history import History
from firecron.runs.policy import may_rerun
from firecron.store import check_entry_name, split_name
from firecron.triggers.access import TriggerAccess
from firecron.triggers.verifier import Denial
from firecron.web import SiteReply, SiteRequest, Work

# --- the responses: pure decisions

RETRY_AFTER = 5
# Each name that isn't there is in the response.
MOST_EXPECTED = 500

_OF_OUTCOME: dict[Outcome, int] = {
    "succeeded": 200,
    "failed": 500,
    "lost": 500,
    "interrupted": 500,
    "cancelled": 200,
    "abandoned": 500,
    "skipped": 200,
    "missed": 200,
}
# The outcomes of runs that began and did not finish: with on_abandoned="rerun" another claim runs the tick again.
_CUT_SHORT: frozenset[Outcome] = frozenset({"lost", "interrupted", "abandoned"})

_OF_REASON: dict[Reason, int] = {
    "held": 200,
    "slot_done": 200,
    "slot_early": 503,
    "paused": 200,
    "removed": 200,
    "malformed": 500,
    "unavailable": 503,
    "denied": 500,
}


@dataclass(frozen=True, slots=True)
class JsonReply:
    """A reply whose body is not JSON yet."""

    status: int
    body: Mapping[str, object]
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def reply(self) -> SiteReply:
        return SiteReply(
            self.status, json.dumps(self.body).encode(), {"Content-Type": "application/json", **self.headers}
        )


def answer(
    status: int,
    result: str,
    message: str,
    *,
    job: str | None = None,
    slot: str | None = None,
    run: Run | None = None,
    headers: Mapping[str, str] | None = None,
    error: Exception | None = None,
) -> JsonReply:
    """Return a response with this body. A 503 has the header Retry-After: longer if the `error` asks for more."""
    body = {
        "job": job,
        "result": result,
        "slot": slot,
        "run": None if run is None else run.idempotency_key,
        # An error of a run, or of RTDB, may quote a secret.
        "message": redacted(message),
    }
    later = {"Retry-After": str(math.ceil(heeding(RETRY_AFTER, error, math.inf)))} if status == 503 else {}
    return JsonReply(status, body, {**later, **(headers or {})})


def of_run(options: JobOptions, run: Run, outcome: Outcome, message: str) -> JsonReply:
    """Return the response for a run that has ended in this request."""
    slot = None if run.slot is None else to_text(run.slot)
    can_rerun = slot is not None and may_rerun(options, run.attempt)
    return answer(_status(outcome, can_rerun), outcome, message, job=options.name, slot=slot, run=run)


def of_refusal(refusal: Refusal, slot: str | None) -> JsonReply:
    """Return the response for a refused claim. `of_past` makes the response for a tick that was claimed before."""
    status, result = _OF_REASON[refusal.reason], refusal.reason if refusal.reason != "slot_done" else "already_done"
    return answer(status, result, refusal.message, job=refusal.name, slot=slot, error=refusal.error)


def of_error(error: StoreError, job: str | None = None, slot: str | None = None) -> JsonReply:
    if isinstance(error, Unavailable):
        return answer(503, "unavailable", str(error), job=job, slot=slot, error=error)
    result = "denied" if isinstance(error, Denied) else "malformed" if isinstance(error, Malformed) else "error"
    return answer(500, result, str(error), job=job, slot=slot)


def of_health(report: Report, query: str) -> JsonReply:
    """Return the response for a monitoring service: 503 unless there are jobs, and all are as they should be.

    A caller may name the jobs that have to be there: `?expect=digest,import`.
    """
    given = parse_qs(query, keep_blank_values=True).get("expect")
    if given is not None:
        names = split_names(given)
        if not 0 < len(names) <= MOST_EXPECTED:
            message = f"expect= has {len(names)} names of jobs: give 1 to {MOST_EXPECTED}, as expect=digest,import"
            return answer(400, "bad_request", message)
        report = report.expecting(names)
    return JsonReply(200 if report.is_well else 503, report.to_json(), {"Cache-Control": "no-store"})


@dataclass(frozen=True, slots=True)
class Past:
    """What is known of a tick that was claimed before: its outcome (None: not known), or that its run is under way.

    `is_open` means that the tick is to be run again.
    """

    outcome: Outcome | None
    is_running: bool = False
    is_open: bool = False


def find_past(options: JobOptions, slot: str, current: Current, entry: object, now: int, margin: int) -> Past:
    """Find the past of a tick in the job's record and in the tick's entry of the history."""
    record = current if isinstance(current, LockRecord) else None
    found = read_entry(slot, entry)
    outcome = None if found.outcome == "malformed" else found.outcome
    if record is not None and record.unfinished == slot:
        claims = int(record.attempt or 1)
        # If the entry is of this very attempt, the run has ended, even if its lock has not expired yet.
        has_ended = record.releasedAt is not None or (outcome is not None and (found.attempt or 0) >= claims)
        if not has_ended and record.is_live(now, margin):
            return Past(None, is_running=True)
        if record.is_cancelled:
            return Past(outcome or "cancelled")
        return Past(
            outcome or ("abandoned" if record.releasedAt is None else "interrupted"), is_open=may_rerun(options, claims)
        )
    if outcome is None and record is not None and record.slot == slot:
        outcome = next((one for one in get_args(Outcome) if one == record.outcome), None)
    return Past(outcome)


def of_past(options: JobOptions, slot: str, past: Past) -> JsonReply:
    """Return the response for a tick that was claimed before and that this request has not run."""
    name = options.name
    if past.is_running:
        return answer(200, "running", f'"{name}" is running its tick {slot}', job=name, slot=slot)
    if past.outcome is None:
        message = f'"{name}" has claimed a later tick; the outcome of its tick {slot} is not known, and it was not run'
        return answer(200, "already_done", message, job=name, slot=slot)
    if past.outcome == "succeeded":
        return answer(200, "already_done", f'"{name}" has already run its tick {slot}', job=name, slot=slot)
    message = f'the outcome of "{name}" at {slot} is {past.outcome}; this request did not run it again'
    return answer(_status(past.outcome, past.is_open), past.outcome, message, job=name, slot=slot)


def _status(outcome: Outcome, can_rerun: bool) -> int:
    return 503 if can_rerun and outcome in _CUT_SHORT else _OF_OUTCOME[outcome]


# --- the tick of a request
#
# The header is the same in all retries of one tick. Cloud Scheduler may send fractions of a second, with up to nine
# digits. A slot has no fractions, so they are cut off. A request that is sent by hand has no header, or its header
# names the next tick.

HEADER = "X-CloudScheduler-ScheduleTime"

_FORM = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}:\d{2})(?:\.\d+)?([Zz]|[+-]\d{2}:\d{2})",
    re.ASCII,
)


def parse_schedule_time(text: str | None) -> datetime | None:
    """Return the header's instant in UTC, cut to the second; None without a header.

    Raise ValueError for a header that is not an instant by RFC 3339.
    """
    said = (text or "").strip()
    if not said:
        return None
    found = _FORM.fullmatch(said)
    try:
        if found is None:
            raise ValueError
        day, time, zone = found.groups()
        return datetime.fromisoformat(f"{day}T{time}{zone.upper()}").astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{HEADER} {said[:60]!r} is not a valid time: send one such as 2026-11-18T09:00:00Z, or no header"
        ) from None


def is_future(slot: datetime, now: int, margin: int) -> bool:
    """Return whether the slot is in the future by RTDB's time, in milliseconds.

    A slot that is ahead by no more than the margin is not: it may have begun by Cloud Scheduler's clock.
    """
    return to_milliseconds(slot) > now + margin


# --- the handler


class Handler:
    """Serves the requests for the jobs of one registry. `asked` is called at each request."""

    def __init__(
        self,
        registry: Registry,
        history: History,
        board: Board,
        access: TriggerAccess,
        asked: Callable[[], object],
    ) -> None:
        self._registry = registry
        self._database = database = board.database
        self._events = database.events
        self._history = history
        self._board = board
        self._access = access
        self._seldom = Seldom(database.deadline)
        self._asked = asked

    def receive(self, request: SiteRequest) -> SiteReply | Work:
        """Return the reply, or the work that blocks and returns it."""
        try:
            self._asked()
            verifier = self._access.health if _asks_for_health(request) else self._access.all
            denial = verifier.check(request.headers.get("authorization"))
            found = self._denied(denial) if denial is not None else self._route(request)
        except Exception as error:
            found = self._broken(None, error)
        return found.reply if isinstance(found, JsonReply) else Work(lambda _: found().reply)

    def _route(self, request: SiteRequest) -> JsonReply | Callable[[], JsonReply]:
        if _asks_for_health(request):
            return of_health(self._board.report(), request.query)
        name = request.path.removeprefix("/")
        if not name:
            if request.method in ("GET", "HEAD"):
                return self._serve(self._list)
            return _not_allowed("GET, HEAD", "this is the list of the jobs: GET it, or POST to /<name> to run a job")
        try:
            job = self._registry.get(split_name(name)[0])
        except UnknownJob as error:
            return answer(404, "unknown_job", str(error))
        if job.options.stored is not None:
            try:
                check_entry_name(name)
            except ConfigurationError as error:
                return answer(400, "bad_request", str(error), job=job.name)
        elif name != job.name:
            return answer(404, "unknown_job", f"there is no job {name!r}: {job.name!r} has its schedule in its code")
        if request.method != "POST":
            return _not_allowed("POST", f'to run "{name}", POST', job=name)
        if not self._registry.runs_here(job):
            message = f'"{name}" needs the role {job.options.role!r}, and this service lacks it: set FIRECRON_ROLES'
            return answer(404, "elsewhere", message, job=name)
        if job.options.disabled:
            return answer(200, "disabled", f'"{name}" is declared disabled, and did not run', job=name)
        try:
            slot = parse_schedule_time(request.headers.get(HEADER))
        except ValueError as error:
            # Not a run by hand instead: it would come in addition to the run of the tick that was meant.
            self._events.emit("trigger.unreadable", name, logging.WARNING, f'"{name}" was not run: {error}')
            return answer(400, "bad_request", str(error), job=name)
        return lambda: self._serve(lambda: self._run(name, slot), name, slot)

    def _serve(self, work: Callable[[], JsonReply], name: str | None = None, slot: datetime | None = None) -> JsonReply:
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

    def _run(self, name: str, slot: datetime | None) -> JsonReply:
        job = self._registry.find(name)
        if isinstance(job, Refusal):
            return of_refusal(job, _text(slot))
        declared = job.declared or job
        if slot is not None and is_future(slot, self._server_now(), self._database.margin):
            slot = None
        due = _text(slot)
        if due is not None:
            if not self._registry.is_wanted(declared):
                message = f'"{name}" is paused on this instance, and did not run its tick {due}'
                return answer(200, "paused", message, job=name, slot=due)
            self._compare(job, due)
        result = self._registry.trigger(name, slot=slot, source="http")
        if result.run is not None and result.outcome is not None:
            self._registry.served(declared)
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
            current = parse(self._database.node(self._database.paths.lock(job.name)), now)
        except Malformed:
            current = IDLE  # malformed since the claim was refused; the history is still right
        return find_past(job.options, due, current, self._history.entry(job.name, due), now, self._database.margin)

    def _compare(self, job: Job, due: str) -> None:
        """Log a WARNING if the job's schedule doesn't have the tick. The tick is claimed all the same."""
        schedule = job.options.schedule
        if not is_tick(schedule, due):
            same = "the same line and time zone" if schedule.has_line else "a line that has the same ticks"
            message = (
                f'"{job.name}" was triggered for {due}, which its schedule {schedule} doesn\'t have: give '
                f"Cloud Scheduler {same}, else ticks run twice or not at all"
            )
            self._events.emit("trigger.off_schedule", job.name, logging.WARNING, message, slot=due, line=schedule.line)

    def _server_now(self) -> int:
        return self._database.clock.now(self._database.deadline(self._database.settings.acquire_timeout)).server

    def _list(self) -> JsonReply:
        """Return the overview: the jobs, their states on this instance, whether they are paused, their last runs and
        their next ticks. It blocks for about as long as an acquire may.

        It reads all locks with one request, and then the newest entry of each job with one request a job, while there
        is time. The `last_run` of the other jobs is null. If the database can't be read, the status is an error's, and
        the body has what is known without the database: `paused` and `last_run` are null then.
        """
        shown = {job.name: self._show(job) for job in self._registry.jobs()}
        body: dict[str, object] = {"jobs": list(shown.values())}
        try:
            self._fill_in(shown)
        except StoreError as error:
            failed = of_error(error)
            return JsonReply(failed.status, {**body, "error": failed.body["message"]}, failed.headers)
        return JsonReply(200, body)

    def _show(self, job: Job) -> dict[str, object]:
        # The schedules of a stored job are in the database.
        is_stored, schedule = job.options.stored is not None, job.options.schedule
        following = [] if is_stored else self._registry.next_slots(job.name)
        return {
            "job": job.name,
            "schedule": None if is_stored else schedule.line,
            "timezone": None if is_stored else schedule.timezone,
            "state": self._registry.state(job.name),
            "next": to_text(following[0]) if following else None,
            "paused": None,
            "last_run": None,
        }

    def _fill_in(self, shown: dict[str, dict[str, object]]) -> None:
        """Fill in the fields from the database. Raise StoreError; what was read before the error is filled in."""
        deadline = self._database.deadline(self._database.settings.acquire_timeout)
        paused = {view.name for view in Operator(self._database).read_all().views if view.is_paused}
        for name, fields in shown.items():
            fields["paused"] = name in paused
        for name, fields in shown.items():
            # With many jobs and a distant database the time may end here: the other jobs keep their null.
            if deadline.remaining() > 0:
                latest = self._history.latest(name, self._database.deadline())
                fields["last_run"] = None if latest is None else inspect_run(*latest).to_json()

    def _denied(self, denial: Denial) -> JsonReply:
        count = self._seldom.count(denial.cause)
        if count is not None:
            detail = "" if denial.detail is None else f" ({denial.detail})"
            message = f"A trigger was refused: {denial.message}{detail}{how_often(count)}"
            self._events.emit("trigger.denied", "firecron", logging.WARNING, message, status=denial.status, count=count)
        results = {401: "unauthorized", 403: "forbidden", 503: "unavailable"}
        headers = {"WWW-Authenticate": "Bearer"} if denial.status == 401 else {}
        return answer(denial.status, results[denial.status], denial.message, headers=headers)

    def _broken(self, name: str | None, error: Exception) -> JsonReply:
        count = self._seldom.count(f"{name} {type(error).__name__}")
        if count is not None:
            message = f"A trigger could not be served: {described(error)}{how_often(count)}"
            self._events.emit("trigger.failed", name or "firecron", logging.ERROR, message, error, count=count)
        # An error of firecron's is meant for the caller. Any other error is a defect, and its text is for the log only.
        said = str(error) if isinstance(error, FirecronError) else "the trigger could not be served; see the log"
        return answer(500, "error", said, job=name)


def _asks_for_health(request: SiteRequest) -> bool:
    return request.path == "/health" and request.method in ("GET", "HEAD")


def _not_allowed(allow: str, message: str, job: str | None = None) -> JsonReply:
    return answer(405, "method_not_allowed", message, job=job, headers={"Allow": allow})


def _text(slot: datetime | None) -> str | None:
    return None if slot is None else to_text(slot)
