"""A trigger's responses: a status for Cloud Scheduler, and a body with the outcome of the request. Pure decisions.

    200   nothing is left to do: the job ran, its tick is done, it is running, or it is not to run
    500   the request failed, and a retry would get the same response
    503   a retry can help

Every status but 2xx makes Cloud Scheduler retry, if retries are configured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import get_args

from firecron.base.instants import to_text
from firecron.base.redaction import redacted
from firecron.errors import Denied, Malformed, StoreError, Unavailable
from firecron.jobs.options import JobOptions
from firecron.jobs.run import Outcome, Run
from firecron.lock.record import Current, LockRecord, Reason
from firecron.lock.refusal import Refusal
from firecron.ops.health_report import Report
from firecron.runs.entry import read_entry
from firecron.runs.policy import may_rerun

RETRY_AFTER = 5

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
    "malformed": 500,
    "unavailable": 503,
    "denied": 500,
}


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP response; the body is to be encoded as JSON."""

    status: int
    body: Mapping[str, object]
    headers: Mapping[str, str] = field(default_factory=dict)


def answer(
    status: int,
    result: str,
    message: str,
    *,
    job: str | None = None,
    slot: str | None = None,
    run: Run | None = None,
    headers: Mapping[str, str] | None = None,
    retry_after: float | None = None,
) -> Answer:
    """Return a response with this body. A 503 has the header Retry-After."""
    body = {
        "job": job,
        "result": result,
        "slot": slot,
        "run": None if run is None else run.idempotency_key,
        # An error of a run, or of RTDB, may quote a secret.
        "message": redacted(message),
    }
    later = {"Retry-After": str(math.ceil(max(RETRY_AFTER, retry_after or 0)))} if status == 503 else {}
    return Answer(status, body, {**later, **(headers or {})})


def of_run(options: JobOptions, run: Run, outcome: Outcome, message: str) -> Answer:
    """Return the response for a run that has ended in this request."""
    slot = None if run.slot is None else to_text(run.slot)
    can_rerun = slot is not None and may_rerun(options, run.attempt)
    return answer(_status(outcome, can_rerun), outcome, message, job=options.name, slot=slot, run=run)


def of_refusal(refusal: Refusal, slot: str | None) -> Answer:
    """Return the response for a refused claim. `of_past` makes the response for a tick that was claimed before."""
    retry_after = refusal.error.retry_after if isinstance(refusal.error, Unavailable) else None
    status, result = _OF_REASON[refusal.reason], refusal.reason if refusal.reason != "slot_done" else "already_done"
    return answer(status, result, refusal.message, job=refusal.name, slot=slot, retry_after=retry_after)


def of_error(error: StoreError, job: str | None = None, slot: str | None = None) -> Answer:
    """Return the response for an error of the database."""
    if isinstance(error, Unavailable):
        return answer(503, "unavailable", str(error), job=job, slot=slot, retry_after=error.retry_after)
    result = "denied" if isinstance(error, Denied) else "malformed" if isinstance(error, Malformed) else "error"
    return answer(500, result, str(error), job=job, slot=slot)


def of_health(report: Report) -> Answer:
    """Return the response for a monitoring service: 503 unless all jobs are as they should be."""
    return Answer(200 if report.status == "ok" else 503, report.to_json(), {"Cache-Control": "no-store"})


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
        outcome = _outcome(record.outcome)
    return Past(outcome)


def of_past(options: JobOptions, slot: str, past: Past) -> Answer:
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


def _outcome(said: object) -> Outcome | None:
    return next((outcome for outcome in get_args(Outcome) if outcome == said), None)
