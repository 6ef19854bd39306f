"""What an instance says of its ticks that did not run."""

from __future__ import annotations

import logging

from firecron.base.events import Event, Events
from firecron.runs.lanes import report_missed, report_skipped

SLOT = "2026-11-18T09:00:00Z"


def test_a_tick_that_did_not_run_is_reported_in_one_sentence() -> None:
    """A skipped tick is of no concern; a missed one is a warning, and says how late it was where that is known."""
    events, said = Events(), list[Event]()
    events.subscribe(said.append)
    report_skipped(events, "job", SLOT, "a newer tick came")
    report_missed(events, "job", SLOT, "it could not start in time")
    report_missed(events, "job", SLOT, "it is 90 s late, too late to start", 90_000)
    assert said == [
        Event("run.skipped", "job", logging.INFO, f'"job" skips its tick {SLOT}: a newer tick came', {"slot": SLOT}),
        Event(
            "run.missed",
            "job",
            logging.WARNING,
            f'"job" missed its tick {SLOT}: it could not start in time',
            {"slot": SLOT},
        ),
        Event(
            "run.missed",
            "job",
            logging.WARNING,
            f'"job" missed its tick {SLOT}: it is 90 s late, too late to start',
            {"slot": SLOT, "late": 90_000},
        ),
    ]
