"""Locks, steps and runs as lines of text, the most important line first. Instants and durations are in words. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from rich.text import Text

from firecron.base.instants import nearest, to_datetime, to_milliseconds
from firecron.base.texts import plain
from firecron.ops.holds import HoldView
from firecron.ops.views import LockView, StepView, TickSteps, Unfinished
from firecron.runs.entry import Entry, entry_of

# --- words: `14:02:45 (13:02:45Z)`, `in 42 s`, `12 min ago`

_UNITS = ((365 * 86_400, "y"), (86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def span(milliseconds: float) -> str:
    """Return a duration in its largest unit, rounded down: `42 s`, `12 min`, `3 h`."""
    seconds = int(abs(milliseconds) // 1000)
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= size), (1, "s"))
    return f"{seconds // size} {unit}"


def took(milliseconds: int) -> str:
    """Return how long a run took: `50 ms`, `1.2 s`, `3 min 20 s`, `2 h 5 min`."""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    tenths = milliseconds // 100
    if tenths < 600:
        return f"{tenths / 10:.1f} s"
    minutes, seconds = divmod(milliseconds // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 1000:
        return span(milliseconds)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def distance(instant: int, now: int) -> str:
    """Return how far the instant is from `now`: `in 42 s`, `12 min ago`, `just now`."""
    instant = nearest(instant)  # no later than the year 9999, as `clock_time` shows it
    if abs(instant - now) < 1000:
        return "just now"
    # An end that was set a moment ago is `in 2 h`, not `in 1 h`.
    return f"in {span(instant - now + 999)}" if instant > now else f"{span(now - instant)} ago"


# The zone that a command shows its times in; without one, this machine's.
_zones: list[tzinfo] = []


@contextmanager
def times_in(zone: tzinfo | None) -> Iterator[None]:
    """Show times in this zone in the block."""
    _zones[:] = [] if zone is None else [zone]
    try:
        yield
    finally:
        _zones.clear()


def shown_zone() -> tzinfo | None:
    """Return the zone that times are shown in; None for this machine's."""
    return _zones[0] if _zones else None


def present() -> datetime:
    """Return the present by this machine's clock, in the zone that times are shown in."""
    return datetime.now(UTC).astimezone(shown_zone())


def clock_time(instant: int, now: int, zone: tzinfo | None = None) -> str:
    """Return local time and UTC, with the date if that isn't today. `zone` is the one that is shown unless given."""
    zone = zone or shown_zone()
    moment = to_datetime(instant).replace(microsecond=0)
    utc = moment.astimezone(UTC)
    try:
        local = moment.astimezone(zone)
    except OverflowError:
        local = utc  # edited by hand: in some zones the last hours of the year 9999 are beyond datetime's range
    today = to_datetime(now).astimezone(zone)
    shown = f"{_date(local, today)}{local:%H:%M:%S}"
    if local.utcoffset() == utc.utcoffset():
        return f"{shown}Z"
    return f"{shown} ({_date(utc, local)}{utc:%H:%M:%S}Z)"


def _date(moment: datetime, other: datetime) -> str:
    if moment.date() == other.date():
        return ""
    return f"{moment:%d %b} " if moment.year == other.year else f"{moment:%Y-%m-%d} "


# --- a lock

_ORDER = ("malformed", "died", "held", "minimum_hold", "unlocked", "free", "absent")
_STYLES = {"failed": "red", "lost": "red", "interrupted": "yellow", "cancelled": "yellow"}


def rank(view: LockView) -> tuple[int, str]:
    """Return the sort key of a lock: problems first, then by state, as an operator is likely to need them."""
    if view.problem is not None:
        return (0, view.name)
    return (_ORDER.index("held") if view.is_paused and not view.is_taken else _ORDER.index(view.state), view.name)


def lock_lines(view: LockView, now: int, zone: tzinfo | None = None) -> list[Text]:
    """Return the lines that describe the lock.

    `now` is in milliseconds. Times are shown in `zone`, which is this machine's unless given.
    """
    return [Text(line, style) for line, style in _lines(view, now, zone)]


def _lines(view: LockView, now: int, zone: tzinfo | None) -> Iterator[tuple[str, str]]:
    yield from _pause(view, now, zone)
    match view.state:
        case "malformed":
            yield f"malformed, so no instance can acquire it: {view.problem}", "bold red"
            # Its command is the one that shows this.
            yield view.remedy.words if view.remedy is not None else "", ""
            yield f"it is {view.stored}", ""
        case "held":
            verb = "led" if view.is_leaders else "held"
            yield f"{verb} by {view.owner}{_original(view)}", "bold cyan"
            yield f"since {_when(view.since, now, zone)}; until {_when(view.until, now, zone)}", ""
            if view.is_cancelled:
                yield f"cancelled, and has not ended yet{_reason(view)}", "yellow"
        case "minimum_hold":
            yield f"released by {view.owner}, but kept until {_when(view.until, now, zone)}", "cyan"
        case "died":
            yield f"died without releasing: {view.owner}{_original(view)}", "bold red"
            yield f"the lock expired at {_when(view.until, now, zone)}, and is free since then", ""
        case "unlocked":
            yield f"free: unlocked by an operator; it was held by {view.owner}", "green"
        case "free":
            yield "free" + (f" since {_when(view.released_at, now, zone)}" if view.released_at else ""), "green"
        case "absent":
            yield "free: it has no node, so it was never used, or there was nothing to remember", "green"
    yield from _tick(view)
    if view.problem is not None and view.state != "malformed":
        yield view.problem, "bold red"
        yield str(view.remedy), ""


def _pause(view: LockView, now: int, zone: tzinfo | None) -> Iterator[tuple[str, str]]:
    if view.is_paused:
        end = "it is resumed" if view.paused_until is None else _when(view.paused_until, now, zone)
        yield f"paused: no instance can acquire it until {end}", "yellow"
        who = "" if view.paused_by is None else f" by {view.paused_by}"
        since = "" if view.paused_at is None else f" since {_when(view.paused_at, now, zone)}"
        why = "" if view.paused_why is None else f": {view.paused_why}"
        if who or since or why:
            yield f"paused{who}{since}{why}", ""
    elif view.paused_until is not None:
        yield f"its pause has been over since {_when(view.paused_until, now, zone)}", ""


def _tick(view: LockView) -> Iterator[tuple[str, str]]:
    attempt = f", attempt {view.attempt}" if view.attempt and view.attempt > 1 else ""
    if view.unfinished is not None:
        if view.state == "held":
            yield f"tick {view.unfinished}{attempt}", ""
        else:
            fate = f" and is cancelled{_reason(view)}" if view.is_cancelled else ""
            yield f"tick {view.unfinished}{attempt} did not run to its end{fate}", "yellow"
    if view.slot is not None and view.slot != view.unfinished:
        yield f"last tick {view.slot}{f' {view.outcome}' if view.outcome else ''}", _STYLES.get(view.outcome or "", "")
    elif view.outcome is not None and view.slot is None:
        yield f"last {'term' if view.is_leaders else 'run'} {view.outcome}", _STYLES.get(view.outcome, "")


def _when(instant: int | None, now: int, zone: tzinfo | None) -> str:
    return "?" if instant is None else f"{clock_time(instant, now, zone)}, {distance(instant, now)}"


def _reason(view: LockView) -> str:
    return "" if view.cancel_why is None else f": {view.cancel_why}"


def _original(view: LockView) -> str:
    return " (a NestJS original)" if view.is_foreign else ""


# --- a hold


def hold_lines(view: HoldView, now: int, zone: tzinfo | None = None, *, here: Callable[[str], str] = str) -> list[Text]:
    """Return who holds what, until when and why; then what is not held, or what is left of a hold that is over.

    `here` makes a command of firecron's one for the database that this is about.
    """
    hold = view.hold
    why, end = "" if hold.why is None else f": {plain(hold.why)}", _when(hold.until, now, zone)
    jobs = f"{len(view.jobs):,} {'job' if len(view.jobs) == 1 else 'jobs'}"
    if not view.stands:
        left = f"{jobs} still paused with hold {hold.name} by {plain(hold.by)}, which was taken back or deleted{why}"
        return [Text(left, "bold red"), Text(f"  to resume them: {here(f'firecron unhold {hold.name}')}")]
    lines = [Text(f"{hold.what}: ").append("held", "yellow").append(f" by {plain(hold.by)} until {end}{why}")]
    if view.not_held:
        lines.append(Text(f"  not held: {', '.join(view.not_held)}", "yellow"))
    return [*lines, Text(f"  to take it back: {here(f'firecron unhold {hold.name}')}")]


# --- the paper of the steps and runs


@dataclass(frozen=True, slots=True)
class Paper:
    """The page that lines are laid out for.

    `today` is the present in the time zone to show. `width` is the number of columns; None leaves lines as long as they
    are. `has_blocks` says whether it can show block characters. `has_bars` says whether durations get bars.
    """

    today: datetime
    width: int | None = None
    has_blocks: bool = True
    has_bars: bool = True

    def clock_time(self, instant: int) -> str:
        return clock_time(instant, to_milliseconds(self.today), self.today.tzinfo)


# --- the steps of a tick

_STEP_STYLES = {"recorded": "green", "begun": "bold yellow", "malformed": "bold red"}


def step_lines(found: TickSteps, paper: Paper) -> list[Text]:
    """Return a heading and a line for each step."""
    number = len(found.steps)
    lines = [Text(f"{plain(found.tick)}: {number} {'step' if number == 1 else 'steps'}")]
    return lines + [_line(step, paper) for step in found.steps]


def _line(step: StepView, paper: Paper) -> Text:
    line = Text(f"  {plain(step.name)}  ").append(step.state, _STEP_STYLES[step.state])
    notes = []
    if step.started_at is not None:
        notes.append(paper.clock_time(step.started_at))
    if step.started_at is not None and step.done_at is not None:
        notes.append(f"took {took(max(0, step.done_at - step.started_at))}")
    if step.attempt is not None and step.attempt > 1:
        notes.append(f"attempt {step.attempt}")
    if step.instance is not None:
        notes.append(f"on {plain(step.instance)}")
    return line.append(f"  {', '.join(notes)}") if notes else line


# --- the history of a job, with a bar for each duration, scaled to the longest one

RUN_STYLES = {
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


def run_lines(
    wanted: Sequence[Entry], among: Sequence[Entry], paper: Paper, *, of_one_schedule: bool = False
) -> list[Text]:
    """Return a text for each wanted entry.

    Bars are scaled to the longest duration of `among`. What doesn't fit or is unusual gets a second line, below the
    first. Without a width, everything is in one line. `of_one_schedule`: all are of one stored schedule, and don't say
    of which.
    """
    rows = [(_time_of(run, paper), run.outcome, "" if run.duration is None else took(run.duration)) for run in wanted]
    when, outcome, duration = [max(map(len, column), default=0) for column in zip(*rows, strict=True)] or [0, 0, 0]
    longest = max((run.duration or 0 for run in among), default=0)
    used = when + outcome + duration + 8
    owner = max((len(run.owner) for run in wanted if run.recorded_by is None), default=0)
    room = _BARS[-1] if paper.width is None else min(paper.width - used - owner, _BARS[-1])
    # If the owner doesn't fit even beside the shortest bar, it gets its own line, and the bars their full width.
    bars = room if room in _BARS else _BARS[-1]
    lines: list[Text] = []
    for run, row in zip(wanted, rows, strict=True):
        line = Text(f"{row[0]:<{when}}  ").append(f"{row[1]:<{outcome}}", RUN_STYLES[run.outcome])
        line.append(f"  {row[2]:>{duration}}")
        if paper.has_bars:
            drawn = bar(run.duration or 0, longest, bars, paper.has_blocks)
            line.append("  ").append(f"{drawn:<{bars}}", RUN_STYLES[run.outcome])
        schedule = "" if of_one_schedule else entry_of(run.key)
        notes = [*([f"schedule {plain(schedule)}"] if schedule else []), *_notes(run)]
        lines.append(_finished(line, run, notes, paper.width))
    return lines


def unfinished_line(found: Unfinished, paper: Paper) -> Text:
    """Return the line of the unfinished tick, which isn't in the history yet."""
    tick = _milliseconds(found.slot, None)
    line = Text(f"{found.slot if tick is None else paper.clock_time(tick)}  ")
    if not found.is_live:
        line.append("started, not ended", "bold red")
        return _with_owner(line, f" (on {found.owner})" if found.owner else "", paper.width)
    since = "" if found.since is None else f" since {paper.clock_time(found.since)}"
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


def _finished(line: Text, run: Entry, notes: list[str], width: int | None) -> Text:
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


def _time_of(run: Entry, paper: Paper) -> str:
    """Return the time of the tick, or the start of a manual run."""
    instant = _milliseconds(run.slot, run.started_at)
    return run.key if instant is None else paper.clock_time(instant)


def milliseconds_of(slot: str | None) -> int | None:
    """Return the instant of a tick; None without one, or if it was edited by hand and can't be read."""
    return _milliseconds(slot, None)


def _milliseconds(text: str | None, otherwise: int | None) -> int | None:
    try:
        return otherwise if text is None else to_milliseconds(text)
    except ValueError:
        return otherwise  # edited by hand, and unreadable: fall back on the other instant
