"""The jobs of a worker pool: a process that only ticks. `firecron work jobs:crons` runs it."""

from __future__ import annotations

from firecron import FireCron, Run, distributed_cron


class Feed:
    # Every second, for show. If the instance dies, another one runs the tick again.
    @distributed_cron("import-feed", "* * * * * *", lock_ttl=6, on_abandoned="rerun")
    def import_feed(self, run: Run) -> None:
        for page in range(3):
            run.check()  # raises once this instance stops, or has lost the lock
            self.import_page(run, page)

    def import_page(self, run: Run, page: int) -> None:
        if page == 2:
            print(f"imported, for {run.idempotency_key}", flush=True)


crons = FireCron(Feed())
