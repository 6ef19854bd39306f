"""Reports of ticks that this instance did not run. Only this module emits `run.skipped` and `run.missed`.

Each instance reports the ticks that it skips or misses itself, at that time. The bookkeeper reports the ticks that no
instance ran.
"""

from __future__ import annotations

import logging

from firecron.base.events import Events


def report_skipped(events: Events, name: str, slot: str, why: str) -> None:
    """Report that this instance leaves the tick out on purpose."""
    events.emit("run.skipped", name, logging.INFO, f'"{name}" skips its tick {slot}: {why}', slot=slot)


def report_missed(events: Events, name: str, slot: str, why: str, late: int | None = None) -> None:
    """Report that this instance could not run the tick in time."""
    events.emit("run.missed", name, logging.WARNING, f'"{name}" missed its tick {slot}: {why}', slot=slot, late=late)
