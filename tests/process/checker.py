"""The checker: what the jobs themselves wrote, and what `cron-runs` says of them, held against the promise.

It believes neither firecron's logs nor its records: a run is what a job's body put down when it began and when it
ended. All processes append to one file, so the place of a line in it is a clock that they share, and that no fault can
touch. Pure functions over values, so that it can be shown bad histories.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, TypeAlias

Line: TypeAlias = Mapping[str, Any]
History: TypeAlias = Mapping[str, Mapping[str, Any]]

# What `cron-runs` may say of a slot whose job was begun, and of one whose job never was.
BEGUN = {"succeeded", "failed", "lost", "interrupted", "abandoned"}
UNBEGUN = {"skipped", "missed"}


@dataclass(frozen=True)
class Ran:
    """One call of a job's body. `started` and `ended` are places in the journal; `ended` is None if its process never
    came so far. `lost` is what the run said of its lease at the end.
    """

    slot: str
    attempt: int
    fence: int
    pid: int
    started: int
    ended: int | None
    lost: bool


@dataclass(frozen=True)
class Tally:
    """A scenario in numbers."""

    slots: int
    runs: int
    duplicates: int
    outcomes: Mapping[str, int]

    def __str__(self) -> str:
        said = ", ".join(f"{outcome} {number}" for outcome, number in sorted(self.outcomes.items()))
        return f"slots {self.slots}, runs {self.runs}, duplicates {self.duplicates}: {said}"


def runs_of(job: str, lines: Iterable[Line]) -> list[Ran]:
    """The runs of a job that ticks, in the order in which they began."""
    placed = [(place, line) for place, line in enumerate(lines) if line.get("job") == job and line.get("slot")]
    ends = {line["run"]: (place, line) for place, line in placed if line["what"] == "end"}
    found = []
    for place, line in placed:
        if line["what"] == "start":
            ended, end = ends.get(line["run"], (None, {}))
            known = {key: line[key] for key in ("slot", "attempt", "fence", "pid")}
            found.append(Ran(**known, started=place, ended=ended, lost=end.get("lost", False)))
    return found


def findings(runs: list[Ran], history: History, *, reruns: bool = False, every: int = 1) -> list[str]:
    """All that breaks the promise, a sentence each. `reruns`: the job asked for them; `every`: seconds from slot to
    slot.
    """
    return [
        *_started_twice(runs, reruns),
        *_overlaps(runs),
        *_fences_that_fall(runs),
        *_unrecorded(runs, history, every),
        *_misrecorded(runs, history),
    ]


def tally(runs: list[Ran], history: History) -> Tally:
    starts = Counter((ended.slot, ended.attempt) for ended in runs)
    outcomes: Counter[str] = Counter()
    for entry in history.values():
        outcomes[entry["outcome"]] += entry.get("count", 1)
    return Tally(sum(outcomes.values()), len(runs), sum(starts.values()) - len(starts), outcomes)


def _started_twice(runs: list[Ran], reruns: bool) -> Iterator[str]:
    attempts: dict[str, list[int]] = {}
    for ended in runs:
        attempts.setdefault(ended.slot, []).append(ended.attempt)
    for slot, numbers in attempts.items():
        if len(numbers) > 1 and not reruns:
            yield f"{slot} was started {len(numbers)} times"
        elif len(set(numbers)) < len(numbers):
            yield f"{slot} was started twice for one claim: attempts {numbers}"
        elif numbers != sorted(numbers):
            yield f"the attempts at {slot} are out of order: {numbers}"


def _overlaps(runs: list[Ran]) -> Iterator[str]:
    """A run may go on beside a later one only if it was told that its lease was lost, or its process was killed."""
    for number, first in enumerate(runs):
        for second in runs[number + 1 :]:
            if first.ended is not None and not first.lost and second.started < first.ended:
                yield f"{second.slot} began while {first.slot} was running, which had not lost its lease"


def _fences_that_fall(runs: list[Ran]) -> Iterator[str]:
    for first, second in pairwise(runs):
        if second.fence <= first.fence:
            yield f"the fence of {second.slot} is {second.fence}, after {first.fence} of {first.slot}"


def _unrecorded(runs: list[Ran], history: History, every: int) -> Iterator[str]:
    """Each slot from the first to the last has one outcome, and nothing else has any."""
    slots = sorted({*history, *(ended.slot for ended in runs)})
    if not slots:
        return
    covered: Counter[str] = Counter()
    for slot, entry in history.items():
        # An entry with a count stands for so many slots, of which it names the last.
        for back in range(entry.get("count", 1)):
            covered[_later(slot, -back * every) if back else slot] += 1
    slot, last = slots[0], slots[-1]
    while slot <= last:
        if covered[slot] != 1:
            yield f"{slot} has {covered[slot]} outcomes"
        del covered[slot]
        slot = _later(slot, every)
    for other in sorted(covered):
        yield f"{other} has an outcome, and is no slot between the first and the last"


def _misrecorded(runs: list[Ran], history: History) -> Iterator[str]:
    by_slot: dict[str, list[Ran]] = {}
    for ended in runs:
        by_slot.setdefault(ended.slot, []).append(ended)
    for slot, entry in sorted(history.items()):
        outcome, tried = entry["outcome"], by_slot.get(slot, [])
        if outcome in UNBEGUN and tried:
            yield f"{slot} is recorded as {outcome}, and was started"
        elif outcome == "succeeded" and not tried:
            yield f"{slot} is recorded as succeeded, and was never started"
        elif outcome not in BEGUN | UNBEGUN:
            yield f"{slot} is recorded as {outcome!r}"
        if not tried or outcome in UNBEGUN:
            continue
        newest = max(tried, key=lambda ended: ended.fence)
        if (entry.get("fence"), entry.get("attempt")) != (newest.fence, newest.attempt):
            yield (
                f"the outcome of {slot} is that of fence {entry.get('fence')}, attempt {entry.get('attempt')}, "
                f"not of {newest.fence}, attempt {newest.attempt}"
            )
        elif newest.ended is None and outcome != "abandoned":
            yield f"{slot} is recorded as {outcome}, and its last run never ended"
        elif newest.ended is not None and outcome == "abandoned" and not newest.lost:
            yield f"{slot} is recorded as abandoned, and its last run came to its end"


def _later(slot: str, seconds: int) -> str:
    return (datetime.fromisoformat(slot) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
