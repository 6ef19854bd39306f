"""A lock as a few short lines of text, the most important line first. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import tzinfo

from rich.text import Text

from firecron.cli.words import clock_time, distance
from firecron.ops.views import LockView

_ORDER = ("malformed", "died", "held", "minimum_hold", "unlocked", "free", "absent")


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
            yield view.remedy or "", ""
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
        yield view.remedy or "", ""


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


_STYLES = {"failed": "red", "lost": "red", "interrupted": "yellow", "cancelled": "yellow"}
