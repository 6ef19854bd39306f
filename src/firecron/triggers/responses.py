"""What a trigger answers: a status for Cloud Scheduler, and a body that says what came of it. Pure.

    200   there is nothing left to do: it ran, it was done before, it is running, or it is not to run
    500   it went wrong, and another try would be told the same
    503   another try can help

Anything but 2xx makes Cloud Scheduler try again, if it was told to.
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
from firecron.runs.entry import read_entry
from firecron.runs.policy import may_rerun

RETRY_AFTER = 5

_OF_OUTCOME: dict[Outcome, int] = {
    "succeeded": 200,
    "failed": 500,
    "lost": 500,
    "interrupted": 500,
    "abandoned": 500,
    "skipped": 200,
    "missed": 200,
}
# What was begun and didn't come to its own end: with on_abandoned="rerun" another claim runs it again.
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
    """An answer in HTTP's terms; the body is for JSON."""

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
    """An answer with this body; a 503 says when to try again."""
    body = {
        "job": job,
        "result": result,
        "slot": slot,
        "run": None if run is None else run.idempotency_key,
        # A run's error and RTDB's may quote what they stumbled over.
        "message": redacted(message),
    }
    later = {"Retry-After": str(math.ceil(max(RETRY_AFTER, retry_after or 0)))} if status == 503 else {}
    return Answer(status, body, {**later, **(headers or {})})


def of_run(options: JobOptions, run: Run, outcome: Outcome, message: str) -> Answer:
    """A run that has ended in this request."""
    slot = None if run.slot is None else to_text(run.slot)
    can_rerun = slot is not None and may_rerun(options, run.attempt)
    return answer(_status(outcome, can_rerun), outcome, message, job=options.name, slot=slot, run=run)


def of_refusal(refusal: Refusal, slot: str | None) -> Answer:
    """No run, because of this; what became of a tick that is done is `of_past`."""
    retry_after = refusal.error.retry_after if isinstance(refusal.error, Unavailable) else None
    status, result = _OF_REASON[refusal.reason], refusal.reason if refusal.reason != "slot_done" else "already_done"
    return answer(status, result, refusal.message, job=refusal.name, slot=slot, retry_after=retry_after)


def of_error(error: StoreError, job: str | None = None, slot: str | None = None) -> Answer:
    """RTDB didn't do what it was asked."""
    if isinstance(error, Unavailable):
        return answer(503, "unavailable", str(error), job=job, slot=slot, retry_after=error.retry_after)
    result = "denied" if isinstance(error, Denied) else "malformed" if isinstance(error, Malformed) else "error"
    return answer(500, result, str(error), job=job, slot=slot)


@dataclass(frozen=True, slots=True)
class Past:
    """What became of a tick that was claimed before: its outcome, if anybody knows, or that it still runs. `is_open`
    if it is to be run again.
    """

    outcome: Outcome | None
    is_running: bool = False
    is_open: bool = False


def find_past(options: JobOptions, slot: str, current: Current, entry: object, now: int, margin: int) -> Past:
    """From the job's lock node, and the tick's entry in the history."""
    record = current if isinstance(current, LockRecord) else None
    found = read_entry(slot, entry)
    outcome = None if found.outcome == "malformed" else found.outcome
    if record is not None and record.unfinished == slot:
        claims = int(record.attempt or 1)
        # An entry of this very attempt says that it has ended, although its lock lasts until it expires.
        has_ended = record.releasedAt is not None or (outcome is not None and (found.attempt or 0) >= claims)
        if not has_ended and record.is_live(now, margin):
            return Past(None, is_running=True)
        return Past(
            outcome or ("abandoned" if record.releasedAt is None else "interrupted"), is_open=may_rerun(options, claims)
        )
    if outcome is None and record is not None and record.slot == slot:
        outcome = _outcome(record.outcome)
    return Past(outcome)


def of_past(options: JobOptions, slot: str, past: Past) -> Answer:
    """A tick that was claimed before, and that this request has not run."""
    name = options.name
    if past.is_running:
        return answer(200, "running", f'"{name}" is at its tick {slot} just now', job=name, slot=slot)
    if past.outcome is None:
        message = f'"{name}" has claimed a later tick; what became of {slot} is not known, and it was not run'
        return answer(200, "already_done", message, job=name, slot=slot)
    if past.outcome == "succeeded":
        return answer(200, "already_done", f'"{name}" has done its tick {slot} already', job=name, slot=slot)
    message = f'the outcome of "{name}" at {slot} is {past.outcome}; it was not run again'
    return answer(_status(past.outcome, past.is_open), past.outcome, message, job=name, slot=slot)


def _status(outcome: Outcome, can_rerun: bool) -> int:
    return 503 if can_rerun and outcome in _CUT_SHORT else _OF_OUTCOME[outcome]


def _outcome(said: object) -> Outcome | None:
    return next((outcome for outcome in get_args(Outcome) if outcome == said), None)
