"""The steps of a tick as lines of text. Pure."""

from __future__ import annotations

from datetime import datetime

from rich.text import Text

from firecron.base.instants import to_milliseconds
from firecron.cli.words import clock_time, took
from firecron.ops.step_views import StepView, TickSteps
from firecron.ops.views import plain

_STYLES = {"recorded": "green", "begun": "bold yellow", "malformed": "bold red"}


def step_lines(found: TickSteps, today: datetime) -> list[Text]:
    """Return a heading and a line for each step."""
    number = len(found.steps)
    lines = [Text(f"{plain(found.tick)}: {number} {'step' if number == 1 else 'steps'}")]
    return lines + [_line(step, today) for step in found.steps]


def _line(step: StepView, today: datetime) -> Text:
    line = Text(f"  {plain(step.name)}  ").append(step.state, _STYLES[step.state])
    notes = []
    if step.started_at is not None:
        notes.append(clock_time(step.started_at, to_milliseconds(today), today.tzinfo))
    if step.started_at is not None and step.done_at is not None:
        notes.append(f"took {took(max(0, step.done_at - step.started_at))}")
    if step.attempt is not None and step.attempt > 1:
        notes.append(f"attempt {step.attempt}")
    if step.instance is not None:
        notes.append(f"on {plain(step.instance)}")
    return line.append(f"  {', '.join(notes)}") if notes else line
