"""Resuming a tick by hand: with its slot, its idempotency key, its steps and its next attempt. Pure.

A run that failed is not begun again by itself, and a run by hand is another run: it would do everything anew. Resuming
claims the lock as a run by hand does, so it moves no slot, and its crash is rerun by nobody. What the history says is
judged under the lock, so no run of the tick is under way, and none begins meanwhile.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from firecron.base.instants import check_instant
from firecron.errors import ConfigurationError
from firecron.runs.entry import read_entry

_MANUAL = "-manual-"
_RUN_ID = re.compile(r"[0-9a-f]{6}")


@dataclass(frozen=True, slots=True)
class Resumed:
    """A tick that is resumed, by the key of its entry in the history, and the number of the attempt."""

    key: str
    attempt: int

    @property
    def slot(self) -> str | None:
        """The tick; None if a run by hand is resumed."""
        return None if _MANUAL in self.key else self.key

    def idempotency_key(self, name: str) -> str:
        """Return the key that the first attempt had."""
        return f"{name}:{self.key}" if self.slot is not None else f"{name}:manual:{self.key.rpartition('-')[2]}"


def check_key(key: str) -> str:
    """Return the key of a tick: an instant, or a run by hand. Raise ConfigurationError for any other text."""
    instant, manual, run_id = key.partition(_MANUAL)
    try:
        check_instant(instant)
    except ValueError:
        instant = ""
    if not instant or (manual and not _RUN_ID.fullmatch(run_id)):
        raise ConfigurationError(
            f"{key!r} can't be resumed: name a tick, such as 2026-11-18T09:00:00Z, or the key of a run by hand, such "
            "as 2026-11-18T09:00:00Z-manual-a1b2c3"
        )
    return key


def judge(key: str, entry: object, unfinished: str | None, attempt: int) -> Resumed | str:
    """Return the resumed tick, or why it may not be resumed.

    `entry` is the node of its entry in the history. `unfinished` and `attempt` are those of the lock's record.
    """
    is_unfinished = key == unfinished
    if entry is None and not is_unfinished:
        why = (
            "it may have been pruned, or its instance died, for a run by hand that dies leaves no entry. See what it "
            "has recorded (firecron runs JOB --steps), and run the job by hand anew"
            if _MANUAL in key
            else "it may have been pruned, or never claimed (run it with --slot)"
        )
        return f"the history has no run of {key}: {why}"
    last = attempt if is_unfinished else 0
    if entry is not None:
        seen = read_entry(key, entry)
        if seen.outcome == "succeeded":
            return f"{key} has succeeded"
        if seen.outcome == "malformed":
            return f"the history of {key} can't be read: {seen.error}"
        last = max(last, seen.attempt or 0)
    return Resumed(key, last + 1)
