"""The ticks that this instance did not run, in the log. Only this module emits `run.skipped` and `run.missed`.

Each instance reports what it skips or misses itself, when it does. What no instance ran is the bookkeeper's to report.
"""

from __future__ import annotations

import logging

from firecron.base.events import Events


def report_skipped(events: Events, name: str, slot: str, why: str) -> None:
    """The instance leaves the tick out, on purpose."""
    events.emit("run.skipped", name, logging.INFO, f'"{name}" skips its tick {slot}: {why}', slot=slot)


def report_missed(events: Events, name: str, slot: str, why: str, late: int | None = None) -> None:
    """The instance could not run the tick in time."""
    events.emit("run.missed", name, logging.WARNING, f'"{name}" missed its tick {slot}: {why}', slot=slot, late=late)
