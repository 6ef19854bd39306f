"""The steps of a tick for people and programs, without their results: these may be personal data. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from firecron.base.instants import to_text
from firecron.errors import Malformed
from firecron.jobs.step_names import to_name
from firecron.lock.step_record import read_step

StepState: TypeAlias = Literal["recorded", "begun", "malformed"]


@dataclass(frozen=True, slots=True)
class StepView:
    """A step: `recorded`, or only `begun` (an intent: its call is under way, or nobody knows how it ended).

    Instants are milliseconds. What is not known is None.
    """

    name: str
    state: StepState
    started_at: int | None = None
    done_at: int | None = None
    attempt: int | None = None
    fence: int | None = None
    instance: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return the step for programs: it always has every field, and instants are texts."""
        return {
            "name": self.name,
            "state": self.state,
            "started": None if self.started_at is None else to_text(self.started_at),
            "done": None if self.done_at is None else to_text(self.done_at),
            "attempt": self.attempt,
            "fence": self.fence,
            "instance": self.instance,
        }


@dataclass(frozen=True, slots=True)
class TickSteps:
    """The steps of one tick, in the order of their calls."""

    tick: str
    steps: tuple[StepView, ...]

    def to_json(self) -> dict[str, object]:
        return {"tick": self.tick, "steps": [step.to_json() for step in self.steps]}


def inspect_steps(tick: str, nodes: Mapping[str, object]) -> TickSteps:
    """Return the steps of a tick, given their nodes by key."""
    found = (_view(to_name(key), node) for key, node in nodes.items())
    return TickSteps(tick, tuple(sorted(found, key=lambda step: (step.started_at or 0, step.name))))


def _view(name: str, node: object) -> StepView:
    try:
        record = read_step(node)
    except Malformed:
        record = None
    if record is None:
        return StepView(name, "malformed")
    return StepView(
        name,
        "recorded" if record.is_done else "begun",
        record.started_at,
        record.done_at,
        record.attempt,
        record.fence,
        record.instance,
    )
