"""Which ticks lie in a span, found without walking through it; between two claims none is lost, or counted twice."""

from __future__ import annotations

from datetime import datetime
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.simulation.world import START, slot
from tests.unit.runs.test_policy import MARGIN, MINUTELY, SECONDLY, at, options

from firecron.base.instants import to_datetime, to_milliseconds, to_text
from firecron.cron.schedule import Schedule, is_tick, newest
from firecron.lock.record import LockRecord
from firecron.runs.policy import Claim, between, choose, owes_entries

LINES = [MINUTELY, SECONDLY, "*/7 * * * * *", "0 9 * * *", "5,50 9-11 * * 1-5", "*/10 * 9 18 11 *", "0 0 29 2 *"]


@pytest.mark.parametrize("line", LINES)
@given(data=st.data())
def test_the_newest_ticks_are_those_of_a_walk_through_all(line: str, data: st.DataObject) -> None:
    """Looking from the end finds what walking through the span from its start finds."""
    schedule = Schedule(line)
    start = data.draw(st.integers(at(-4000), at(4000)))
    end = start + data.draw(st.integers(-5, 900_000))
    most = data.draw(st.integers(0, 30))
    every = [to_text(round(tick.timestamp() * 1000)) for tick in schedule.between(to_datetime(start), to_datetime(end))]
    assert newest(schedule, start, end, most) == (every[-most:] if most else [])


def test_ticks_that_are_sparse_and_then_dense_are_found() -> None:
    """Seen from the evening, the last ticks of a line that fires each second from nine to ten are those before ten."""
    assert newest(Schedule("* * 9 * * *"), at(-3_600), at(11 * 3_600), 3) == [slot(3_597), slot(3_598), slot(3_599)]


class Counted(Schedule):
    """A schedule that counts the ticks that were computed."""

    count = 0

    def next_after(self, instant: datetime) -> datetime | None:
        self.count += 1
        return super().next_after(instant)


# The last fires every second of one day of the year: many ticks in one small part of a long span.
@pytest.mark.parametrize("line", [*LINES, "* * * 18 11 *"])
def test_a_long_span_is_not_walked_through(line: str) -> None:
    """Looking for the newest hundred in ten years computes some hundreds of ticks, not those of ten years."""
    schedule = Counted(line)
    schedule.count = 0
    newest(schedule, at(-10 * 365 * 86_400), at(40 * 86_400), 100)
    assert schedule.count < 2_000


@pytest.mark.parametrize(("line", "found"), [(MINUTELY, True), ("30 * * * *", False), ("0 9 * * *", True)])
def test_a_slot_is_on_a_schedule_or_not(line: str, found: bool) -> None:
    """Nine o'clock is a tick of the lines that fire then."""
    assert is_tick(Schedule(line), slot(0)) is found


@given(st.data())
def test_every_tick_is_run_or_recorded_once(data: st.DataObject) -> None:
    """Whatever is claimed one after another, each tick between two claims is written down once or run, none twice."""
    line = data.draw(st.sampled_from(["*/5 * * * * *", "*/20 * * * * *", "7,9,40 * * * * *"]))
    catch_up, window = data.draw(st.sampled_from([("skip", 86_400), *product(("once", "all"), (40, 86_400))]))
    wanted = options(
        line, catch_up=catch_up, on_abandoned=data.draw(st.sampled_from(["skip", "rerun"])), catch_up_window=window
    )
    current: LockRecord | None = None
    ran: list[str] = []
    written: list[str] = []
    counted = 0
    now = START
    for _ in range(data.draw(st.integers(1, 25))):
        now += data.draw(st.integers(0, 100_000))
        ticks = list(wanted.schedule.between(to_datetime(now - 10_000), to_datetime(now)))
        is_due: bool = data.draw(st.booleans())
        due = to_text(round(ticks[-1].timestamp() * 1000)) if ticks and is_due else None
        claim = choose(current, wanted, due, now, MARGIN)
        if claim is None or (current and current.slot and claim.slot <= current.slot and not claim.is_rerun):
            continue
        if current is not None and current.is_live(now, MARGIN):
            continue
        owed = between(current, wanted, claim)
        assert current is None or owes_entries(current, wanted, claim) >= bool(owed)
        entries = [entry for entry in owed if entry.outcome != "abandoned"]
        written += [entry.key for entry in entries]
        counted += sum(entry.count for entry in entries)
        if not claim.is_rerun:
            ran.append(claim.slot)
        current = _run(current, claim, now, data)
        now = int(current.releasedAt or current.expiresAt)
    seen = [*ran, *written]
    assert len(seen) == len(set(seen)), "a tick was written down twice, or run and written down"
    assert ran == sorted(ran)
    if ran:
        first, last = (to_datetime(to_milliseconds(slot)) for slot in (ran[0], ran[-1]))
        assert len(ran) + counted == 1 + len(list(wanted.schedule.between(first, last)))


def _run(current: LockRecord | None, claim: Claim, now: int, data: st.DataObject) -> LockRecord:
    """The record after a run of some seconds that ended well, was interrupted, or died."""
    took = data.draw(st.integers(0, 40_000))
    end = data.draw(st.sampled_from(["released", "interrupted", "died"]))
    attempt = int((current.attempt if current else None) or 1) + 1 if claim.is_rerun else 1
    fields: dict[str, object] = {
        "slot": current.slot if current is not None and claim.is_rerun else claim.slot,
        "attempt": attempt,
        "acquiredAt": now,
        **claim.missed,
        "expiresAt": now + took,
    }
    if end != "died":
        fields["releasedAt"] = now + took
    if end != "released":
        fields["unfinished"] = claim.slot
    return LockRecord.of({name: value for name, value in fields.items() if value is not None})
