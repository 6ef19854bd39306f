"""A run, as the job sees it: which tick it is for, and whether it should go on."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from datetime import datetime
from typing import Literal, TypeAlias

from firecron.base.flag import Flag
from firecron.errors import Cancelled, LeaseLost, Stopping

Trigger: TypeAlias = Literal["schedule", "catch_up", "rerun", "manual", "http"]
Outcome: TypeAlias = Literal[
    "succeeded", "failed", "lost", "interrupted", "cancelled", "abandoned", "skipped", "missed"
]


class Run:
    """One run of a job on this instance.

    `lost` is set when another instance may have begun. `cancelled` is set when an operator or a later tick asks this
    run to end. `stopping` is set when this instance shuts down.

    Args:
        name: The job's name.
        slot: The tick that was claimed, in UTC; None for a run by hand.
        attempt: The number of this claim of the tick.
        fence: A number that is higher than that of every earlier run; None if the job takes no fence.
        idempotency_key: The same for every attempt at one tick. Pass it to any system that must not act twice.
        trigger: Why it runs: `schedule`, `catch_up`, `rerun`, `manual` or `http`.
    """

    def __init__(
        self,
        name: str,
        *,
        slot: datetime | None,
        attempt: int,
        fence: int | None,
        idempotency_key: str,
        trigger: Trigger,
    ) -> None:
        self.name = name
        self.slot = slot
        self.attempt = attempt
        self.fence = fence
        self.idempotency_key = idempotency_key
        self.trigger = trigger
        flag = Flag()
        self._lost: Callable[[], Flag] = lambda: flag
        self.cancelled = Flag()
        self.stopping = Flag()

    @property
    def lost(self) -> Flag:
        """Set when the lock is lost or max_runtime is over: another instance may be running the job already."""
        return self._lost()

    def look_at(self, lost: Callable[[], Flag]) -> None:
        """Take `lost` from this function, at each look.

        So a process that was frozen learns at its next look that its lease is over.
        """
        self._lost = lost

    def check(self) -> None:
        """Raise LeaseLost, Cancelled or Stopping if the run should end. Call it now and then in long work."""
        if self.lost:
            raise LeaseLost
        if self.cancelled:
            raise Cancelled
        if self.stopping:
            raise Stopping

    def __repr__(self) -> str:
        return f"<Run {self.idempotency_key} attempt {self.attempt}, {self.trigger}>"


# The run whose body is called in this context.
running: ContextVar[Run | None] = ContextVar("firecron_run", default=None)


def current_run() -> Run | None:
    """Return the run that this code is part of; None outside a run."""
    return running.get()
