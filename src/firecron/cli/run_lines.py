"""The history as lines of text, with a bar for each duration, scaled to the longest one. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.text import Text

from firecron.base.instants import to_milliseconds
from firecron.cli.words import clock_time, took
from firecron.ops.views import Unfinished
from firecron.runs.entry import Entry

STYLES = {
    "succeeded": "green",
    "failed": "bold red",
    "lost": "bold red",
    "malformed": "bold red",
    "abandoned": "red",
    "interrupted": "yellow",
    "cancelled": "yellow",
    "skipped": "dim",
    "missed": "yellow",
}
_BARS = range(5, 11)
_EIGHTHS = " ▏▎▍▌▋▊▉"
_LATE = 5000


@dataclass(frozen=True, slots=True)
class Paper:
    """The page that lines are laid out for.

    `width` is the number of columns; None leaves lines as long as they are. `has_blocks` says whether it can show block
    characters. `has_bars` says whether durations get bars.
    """

    width: int | None = None
    has_blocks: bool = True
    has_bars: bool = True


def run_lines(wanted: Sequence[Entry], among: Sequence[Entry], today: datetime, paper: Paper) -> list[Text]:
    """Return a text for each wanted entry.

    Bars are scaled to the longest duration of `among`. What doesn't fit or is unusual gets a second line, below the
    first. Without a width, everything is in one line.
    """
    now = to_milliseconds(today)
    rows = [(_when(run, now, today), run.outcome, "" if run.duration is None else took(run.duration)) for run in wanted]
    when, outcome, duration = [max(map(len, column), default=0) for column in zip(*rows, strict=True)] or [0, 0, 0]
    longest = max((run.duration or 0 for run in among), default=0)
    used = when + outcome + duration + 8
    owner = max((len(run.owner) for run in wanted if run.recorded_by is None), default=0)
    room = _BARS[-1] if paper.width is None else min(paper.width - used - owner, _BARS[-1])
    # If the owner doesn't fit even beside the shortest bar, it gets its own line, and the bars their full width.
    bars = room if room in _BARS else _BARS[-1]
    lines: list[Text] = []
    for run, row in zip(wanted, rows, strict=True):
        line = Text(f"{row[0]:<{when}}  ").append(f"{row[1]:<{outcome}}", STYLES[run.outcome])
        line.append(f"  {row[2]:>{duration}}")
        if paper.has_bars:
            drawn = bar(run.duration or 0, longest, bars, paper.has_blocks)
            line.append("  ").append(f"{drawn:<{bars}}", STYLES[run.outcome])
        lines.append(_finished(line, run, paper.width))
    return lines


def unfinished_line(found: Unfinished, today: datetime, paper: Paper) -> Text:
    """Return the line of the unfinished tick, which isn't in the history yet."""
    now = to_milliseconds(today)
    tick = _milliseconds(found.slot, None)
    line = Text(f"{found.slot if tick is None else clock_time(tick, now, today.tzinfo)}  ")
    if not found.is_live:
        line.append("started, not ended", "bold red")
        return _with_owner(line, f" (on {found.owner})" if found.owner else "", paper.width)
    since = "" if found.since is None else f" since {clock_time(found.since, now, today.tzinfo)}"
    line.append(f"under way{since}", "cyan")
    line = _with_owner(line, f", on {found.owner}" if found.owner else "", paper.width)
    if found.problem is None:
        return line
    below = "; " if paper.width is None else "\n    "
    return line.append(f"{below}{found.problem}", "bold red").append(f"{below}{found.remedy}")


def bar(part: int, whole: int, width: int, has_blocks: bool = True) -> str:
    """Return `part` of `whole` as a bar of at most `width` characters. A part above 0 is never an empty bar."""
    eighths = 0 if whole <= 0 or part <= 0 else max(1, round(min(part / whole, 1) * width * 8))
    if not has_blocks:
        return "#" * -(-eighths // 8)
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()


def _finished(line: Text, run: Entry, width: int | None) -> Text:
    """Return the line with its owner and its notes."""
    notes = list(_notes(run))
    # A tick that did not run has no owner: the instance that recorded it is named as such.
    owner = f"(recorded by {run.owner})" if run.recorded_by is not None and run.owner else run.owner
    if width is None:
        return line.append("  " + "; ".join([owner, *notes] if owner else notes))
    if len(line) + 2 + len(owner) <= width:
        line.append(f"  {owner}")
    elif len("; ".join([owner, *notes])) + 4 <= width:
        notes.insert(0, owner)
    else:
        line.append(f"\n    {owner}", "dim")
    return line.append(f"\n    {'; '.join(notes)}", "dim") if notes else line


def _with_owner(line: Text, owner: str, width: int | None) -> Text:
    """Return the line with its owner behind it, or below it if there is no room."""
    if width is None or len(line) + len(owner) <= width:
        return line.append(owner)
    return line.append(f"\n    {owner.strip(', ')}", "dim")


def _notes(run: Entry) -> Iterator[str]:
    if run.trigger not in (None, "schedule"):
        yield str(run.trigger)
    if run.attempt is not None and run.attempt > 1:
        yield f"attempt {run.attempt}"
    if run.count > 1:
        yield f"{'at least ' if run.at_least else ''}{run.count} ticks, of which this is the last"
    tick = _milliseconds(run.slot, None)
    if tick is not None and run.started_at is not None and run.started_at - tick >= _LATE:
        yield f"started {took(run.started_at - tick)} after its tick"
    if run.note is not None:
        yield run.note
    if run.error is not None:
        yield run.error


def _when(run: Entry, now: int, today: datetime) -> str:
    """Return the time of the tick, or the start of a manual run."""
    instant = _milliseconds(run.slot, run.started_at)
    return run.key if instant is None else clock_time(instant, now, today.tzinfo)


def _milliseconds(text: str | None, otherwise: int | None) -> int | None:
    try:
        return otherwise if text is None else to_milliseconds(text)
    except ValueError:
        return otherwise  # edited by hand, and unreadable: fall back on the other instant
