"""The run of a claim, as the job sees it: its tick, its keys, and what came before it."""

from __future__ import annotations

from datetime import datetime

from firecron.base.instants import to_datetime, to_milliseconds
from firecron.cron.schedule import Schedule
from firecron.cron.ticks import newest
from firecron.jobs.job import Job
from firecron.jobs.run import Run, Trigger
from firecron.runs.claimer import Claimed
from firecron.runs.entry import manual_key

_LENGTH = len("2026-11-18T09:00:00Z")


def run_of(job: Job, claimed: Claimed, trigger: Trigger, run_id: str = "") -> Run:
    """Return the run of a claim. `trigger` and `run_id` are those of a run by hand; a claimed tick has its own."""
    claim, resumed, record = claimed.claim, claimed.resumed, claimed.held.record
    if claim is not None:
        attempt, key, trigger = int(record.attempt or 1), f"{job.name}:{claim.slot}", claim.trigger
    elif resumed is not None:
        attempt, key = resumed.attempt, resumed.idempotency_key(job.name)
    else:
        attempt, key = 1, f"{job.name}:manual:{run_id}"
    success = last_success(claimed)
    run = Run(
        job.name,
        slot=None if claimed.slot is None else to_datetime(claimed.slot),
        attempt=attempt,
        fence=_fence(claimed),
        idempotency_key=key,
        trigger=trigger,
        last_success=None if success is None else to_datetime(success),
    )
    began = claimed.key or manual_key(claimed.held.term.reading.server, run_id)
    run.look_back(lambda: previous_slot(job.options.schedule, claimed.slot, began))
    return run


def previous_slot(schedule: Schedule, slot: str | None, key: str) -> datetime | None:
    """Return the tick before this slot; without one, the newest up to the start of the run by hand with this key.

    Each attempt has the same slot and key, so each has the same tick before it.
    """
    end = to_milliseconds(key[:_LENGTH]) if slot is None else to_milliseconds(slot) - 1
    found = newest(schedule, 0, end, 1)
    return to_datetime(found[0]) if found else None


def last_success(claimed: Claimed) -> str | None:
    """Return the newest tick before this one that succeeded, by the record that the claim replaced.

    None is known of a job that holds no lock while it runs, or claims no ticks.
    """
    request, newest_success = claimed.bid.request, claimed.held.record.newest_success()
    if request.momentary or not request.fenced or newest_success is None:
        return None
    return newest_success if claimed.slot is None or newest_success < claimed.slot else None


def _fence(claimed: Claimed) -> int | None:
    fence = claimed.held.record.fence
    return int(fence) if claimed.bid.request.fenced and fence is not None else None
