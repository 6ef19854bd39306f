"""Firebase's scheduled functions that run firecron's jobs: the function is what wakes them, and each tick runs once.

Cloud Scheduler delivers at least once. The function claims the tick that it was called for, so a repeated call is
refused. Any other program with these jobs and this database takes part in the same locks.
"""

from __future__ import annotations

from firebase_functions import scheduler_fn

from firecron import FireCron, Run, distributed_cron

LINE, ZONE = "0 6 * * *", "Europe/Berlin"
# What is refused for these reasons needs no retry. For any other one Cloud Scheduler calls again.
SETTLED = ("slot_done", "held", "paused")


@distributed_cron("write-report", LINE, timezone=ZONE, lock_ttl=60)
def report(run: Run) -> None:
    print(f"the report is written, for {run.idempotency_key}", flush=True)


# Nothing starts it here: a function has no CPU between its calls, so no job ticks in it.
crons = FireCron(report)


@scheduler_fn.on_schedule(  # type: ignore[untyped-decorator]  # it has no type hints
    schedule=LINE, timezone=scheduler_fn.Timezone(ZONE), retry_count=3, timeout_sec=540
)
def write_report(event: scheduler_fn.ScheduledEvent) -> None:
    run_tick("write-report", event)


def run_tick(name: str, event: scheduler_fn.ScheduledEvent) -> None:
    """Run the job for the tick of this call. Raise what Cloud Scheduler is to try again."""
    # Without a job of Cloud Scheduler somebody has called the function by hand: that is no tick.
    slot = None if event.job_name is None else event.schedule_time
    result = crons.registry.trigger(name, slot=slot, source="firebase")
    if result.error is not None:
        raise result.error
    if result.refusal is not None:
        print(f"refused: {result.refusal.reason}", flush=True)
        if result.refusal.reason not in SETTLED:
            raise RuntimeError(result.refusal.message)
