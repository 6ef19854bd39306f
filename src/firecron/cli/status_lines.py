"""The status of jobs as lines of text: a row a job, below it what its schedule means, and what is to be done. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from firecron.base.instants import to_milliseconds
from firecron.cli.run_lines import STYLES
from firecron.cli.words import distance, took
from firecron.cron.words import in_words
from firecron.ops.health import JobVerdict, VerdictWord
from firecron.ops.status import Row
from firecron.runs.entry import Entry

# Names up to this long are in the row itself, others above it.
_LONGEST_NAME = 30
_GAP = "  "
_VERDICTS: dict[VerdictWord, str] = {
    "unattended": "bold red",
    "stuck": "bold red",
    "late": "bold red",
    "failing": "bold red",
    "paused": "yellow",
    "unknown": "yellow",
    "running": "cyan",
    "retired": "dim",
    "ok": "green",
}


def rank(row: Row) -> tuple[bool, bool, bool, str]:
    """Return the sort key of a row: alarms first, then warnings, then the others, then retired jobs, each by name."""
    return _is_retired(row), not row.verdict.is_alarm, not row.verdict.is_warning, row.job


def table(rows: Sequence[Row], now: int, console: Console) -> list[Text]:
    """Return the lines for this terminal: those of the retired jobs at the end, apart."""
    live = sorted((row for row in rows if not _is_retired(row)), key=rank)
    cells = [_cells(row, now) for row in live]
    widths = [max(map(cell_len, column)) for column in zip(_HEAD, *cells, strict=True)]
    lines = [Text(_line(_HEAD, widths), "dim")] if live else []
    for row, found in zip(live, cells, strict=True):
        lines += _block(row, found, widths, console)
    retired = [row for row in rows if _is_retired(row)]
    if retired:
        lines += [Text(""), Text("Retired, not in the count:", "dim")]
        lines += [line for row in retired for line in _wrapped(f"{row.job}: {row.verdict.why}", "dim", console)]
    return lines


def row_line(row: Row, now: int) -> Text:
    """Return all of a row in one line, for a file or another program."""
    schedule = _schedule(row)
    parts = [schedule] if schedule else []
    parts += [f"next {distance(row.next, now)}"] if row.next is not None else []
    if row.last is not None:
        _, _, _, last, duration = _cells(row, now)
        by = row.last.owner
        parts.append(f"last {last}{duration and f', took {duration}'}{by and f', by {by}'}")
    if _is_said(row.verdict):
        parts.append(row.verdict.why)
    return Text(f"{row.job}: ").append(row.verdict.word, _VERDICTS[row.verdict.word]).append(_joined(parts))


def total(rows: Sequence[Row]) -> Text:
    """Return the number of jobs with each verdict, as a sentence."""
    live = [row.verdict.word for row in rows if not _is_retired(row)]
    counted: Counter[str] = Counter(live)
    of_all = ", ".join(f"{counted[word]} {word}" for word in _VERDICTS if counted[word])
    return Text(f"{len(live)} {'job' if len(live) == 1 else 'jobs'}{of_all and ': '}{of_all}", "dim")


def finding(verdict: JobVerdict) -> Text:
    """Return the line of a job that is not as it should be."""
    return Text(f"{verdict.job}: ").append(verdict.word, _VERDICTS[verdict.word]).append(f": {verdict.why}")


_HEAD = ("job", "verdict", "next", "last", "took")


def _cells(row: Row, now: int) -> tuple[str, ...]:
    last = row.last
    ended = None if last is None else _ended(last)
    ago = "" if ended is None else f" {distance(ended, now)}"
    return (
        row.job if cell_len(row.job) <= _LONGEST_NAME else "",
        row.verdict.word,
        "" if row.next is None else distance(row.next, now),
        "" if last is None else f"{last.outcome}{ago}",
        "" if last is None or last.duration is None else took(last.duration),
    )


def _ended(entry: Entry) -> int | None:
    """Return when the run ended; of a tick that did not run, when it was due."""
    if entry.ended_at is not None or entry.slot is None:
        return entry.ended_at
    try:
        return to_milliseconds(entry.slot)
    except ValueError:
        return None  # edited by hand


def _block(row: Row, cells: Sequence[str], widths: Sequence[int], console: Console) -> Iterator[Text]:
    """Yield the lines of one job."""
    if not cells[0]:
        yield Text(row.job, "bold")
    line = Text(_padded(cells[0], widths[0]), "bold")
    line.append(_GAP).append(_padded(cells[1], widths[1]), f"not bold {_VERDICTS[row.verdict.word]}")
    line.append(f"{_GAP}{_padded(cells[2], widths[2])}{_GAP}", "not bold")
    line.append(_padded(cells[3], widths[3]), f"not bold {STYLES[row.last.outcome] if row.last else ''}")
    line.append(f"{_GAP}{_padded(cells[4], widths[4])}", "not bold")
    owner = "" if row.last is None else row.last.owner
    fits = line.cell_len + len(_GAP) + cell_len(owner) <= console.width
    if fits and owner:
        line.append(f"{_GAP}{owner}", "not bold")
    line.rstrip()
    yield line
    yield from _wrapped(_schedule(row), "dim", console)
    if owner and not fits:
        yield from _wrapped(f"on {owner}", "dim", console)
    if _is_said(row.verdict):
        yield from _wrapped(row.verdict.why, _style(row.verdict).removeprefix("bold "), console)


def _wrapped(text: str, style: str, console: Console) -> list[Text]:
    """Return the text in lines that fit into the terminal, below the row that it belongs to."""
    lines = Text(text, style).wrap(console, console.width - len(_GAP))
    for line in lines:
        line.rstrip()
    return [Text(_GAP).append(line) for line in lines if line]


def _schedule(row: Row) -> str:
    if row.declared is None:
        return ""
    schedule = row.declared.schedule
    words = in_words(schedule)
    return words if schedule.every is not None else f"{schedule.line}{_GAP}{words}"


def _is_retired(row: Row) -> bool:
    return row.verdict.word == "retired"


def _is_said(verdict: JobVerdict) -> bool:
    """Return whether people are told why: of a job that is as it should be, they needn't know."""
    return verdict.word != "ok" or verdict.is_warning


def _style(verdict: JobVerdict) -> str:
    return "yellow" if verdict.is_warning and not verdict.is_alarm else _VERDICTS[verdict.word]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join(_padded(cell, size) for cell, size in zip(cells, widths, strict=True)).rstrip()


def _padded(text: str, size: int) -> str:
    return text + " " * (size - cell_len(text))


def _joined(parts: Sequence[str]) -> str:
    return "".join(f"; {part}" for part in parts)
