"""The timeline: the runs of many jobs on one axis, at their true time and length, beside what became of the instances.

    row      of a job: its runs, its ticks that did not run as stretches, the ticks to come, and since when all is known
    marks    of a service: when an instance of it started, and when it was seen last

Pure. A row costs no more of the database than its job's history, however long the range is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from firecron.base.instants import in_utc, to_datetime, to_text
from firecron.page.ticks import Known
from firecron.runs.entry import Entry

Json = dict[str, object]

# In hours: how far back one may look. A part of it is left for what is to come.
RANGES = (6, 24, 168)
_AHEAD = 12
_HOUR = 3_600_000
_MOST_TO_COME = 200
_MOST_MARKS = 100


@dataclass(frozen=True, slots=True)
class Timespan:
    """What is shown: from `start` to `end`, with `now` between them."""

    start: int
    now: int
    end: int

    def to_json(self) -> Json:
        return {"from": to_text(self.start), "now": to_text(self.now), "until": to_text(self.end)}


def span_of(hours: int, now: int) -> Timespan:
    """Return the span of the last hours."""
    return Timespan(now - hours * _HOUR, now, now + hours * _HOUR // _AHEAD)


def row(known: Known, span: Timespan) -> Json:
    """Return what is known of a job in this span. Instants are milliseconds, and a run that goes on has no end."""
    runs = [_run(entry, entry.started_at) for entry in known.entries if _is_in(entry, span)]
    since = known.running_since
    if since is not None:
        runs.append({"start": since, "end": None, "outcome": "running", "why": None})
    return {
        "since": known.since,
        "keptFrom": known.kept_from,
        "runs": runs,
        "holes": [stretch.to_json() for stretch in known.stretches(span.start)],
        "next": _to_come(known, span),
    }


def _is_in(entry: Entry, span: Timespan) -> bool:
    return entry.did_run and entry.started_at is not None and entry.started_at + (entry.took or 0) >= span.start


def _run(entry: Entry, started: int | None) -> Json:
    return {"start": started, "end": (started or 0) + (entry.took or 0), "outcome": entry.outcome, "why": entry.error}


def _to_come(known: Known, span: Timespan) -> list[str]:
    declared = known.declared
    if declared is None or declared.disabled or known.is_retired:
        return []
    ticks = declared.schedule.between(to_datetime(span.now), to_datetime(span.end))
    return [in_utc(tick) for tick in islice(ticks, _MOST_TO_COME)]


# --- the marks of instances


def marks(instances: Iterable[Json], histories: Mapping[str, Iterable[Entry]], span: Timespan) -> list[Json]:
    """Return when instances started and were seen last: by their signs of life, else by the runs that they have made.

    `histories` are those of the jobs of one service. An instance that made the oldest of its runs may have been there
    before, so nothing is said of its start.
    """
    found: list[Json] = []
    known = set[str]()
    for one in instances:
        known.add(str(one["instance"]))
        found.append({"what": "started", "at": one["startedAt"], "owner": _owner(one)})
        if not one["alive"]:
            found.append({"what": "vanished", "at": one["seenAt"], "owner": _owner(one)})
    first: dict[str, Entry] = {}
    last: dict[str, Entry] = {}
    runs = [entry for entries in histories.values() for entry in entries if entry.did_run and entry.recorded_by is None]
    for entry in sorted(runs, key=lambda entry: entry.started_at or 0):
        if entry.instance is not None and entry.started_at is not None and entry.instance not in known:
            first.setdefault(entry.instance, entry)
            last[entry.instance] = entry
    for number, (name, entry) in enumerate(first.items()):
        ended = last[name].ended_at or last[name].started_at
        if number or known:
            found.append({"what": "first run", "at": _text(entry.started_at), "owner": entry.owner})
        found.append({"what": "last run", "at": _text(ended), "owner": entry.owner})
    start, now = to_text(span.start), to_text(span.now)
    shown = [one for one in found if isinstance(one["at"], str) and start <= one["at"] <= now]
    return sorted(shown, key=lambda one: str(one["at"]))[-_MOST_MARKS:]


def _owner(one: Json) -> str:
    return "/".join(str(part) for part in (one["instanceId"], one["instance"]) if part)


def _text(instant: int | None) -> str | None:
    return None if instant is None else to_text(instant)
