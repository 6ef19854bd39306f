"""What a record remembers of the times without a holder, and what counts as free or held."""

from __future__ import annotations

from tests.simulation.world import START, slot
from tests.unit.runs.test_policy import MINUTELY, at, options

from firecron.cron.schedule import Schedule
from firecron.lock.record import NONE_MISSED, LockRecord
from firecron.runs.entry import PAUSED
from firecron.runs.policy import Claim, Span, between, free, held, remember


def test_the_newest_ten_spans_are_remembered() -> None:
    """Of more than ten times without a holder the newest ten are remembered."""
    wanted = options("*/10 * * * * *", catch_up="all")
    pairs = [f"{slot(20 * number)}/{slot(20 * number + 10)}" for number in range(1, 13)]
    current = LockRecord.of(
        {
            "slot": slot(0),
            "acquiredAt": at(400),
            "expiresAt": at(400),
            "releasedAt": at(400),
            "holder": "theirs",
            "missedAfter": slot(0),
            "missedUntil": slot(10),
            "missedMore": " ".join(pairs),
        }
    )
    found = remember(current, wanted.schedule, at(401))
    assert found == {"missedAfter": slot(60), "missedUntil": slot(70), "missedMore": " ".join(pairs[3:])}


def test_the_time_that_a_holder_was_dead_is_free_for_the_history() -> None:
    """With its holder's last sign of life, the time from then on counts as free; never from later than its end."""
    record = LockRecord.of({"slot": slot(), "acquiredAt": START, "expiresAt": at(300)})
    for silent_since, start in ((None, at(300)), (at(100), at(100)), (at(500), at(300))):
        assert free(record, at(600), silent_since) == [Span(start, at(600))]
        assert held(record, at(600), silent_since) == [Span(START, start)]


def test_what_was_missed_around_pauses() -> None:
    """Each tick is written once: those of the pauses and of the run before them as skipped, the others as missed."""
    noted = f"{slot(120)}/{slot(200)} {slot(300)}/{slot(300)}"
    for fields, paused in (
        ({}, set[str]()),
        ({"pausedBefore": noted}, {slot(120), slot(180), slot(300)}),
        ({"paused": True, "pausedAt": at(239), "pausedUntil": at(360)}, {slot(240), slot(300)}),
        ({"paused": True, "pausedUntil": at(361)}, {slot(60 * minute) for minute in range(2, 7)}),
        ({"pausedBefore": f"{slot(0)}/{slot(900)}"}, {slot(60 * minute) for minute in range(2, 8)}),
        ({"pausedBefore": "soon"}, set[str]()),
    ):
        record = LockRecord.of(
            {"slot": slot(), "acquiredAt": START, "expiresAt": at(90), "releasedAt": at(90), "holder": "x", **fields}
        )
        entries = between(record, options(MINUTELY), Claim(slot(480), "schedule"))
        assert sorted(entry.key for entry in entries) == [slot(60 * minute) for minute in range(1, 8)]
        assert {entry.key for entry in entries if entry.error == PAUSED} == paused
        assert {entry.key for entry in entries if entry.outcome == "missed"} == {
            slot(60 * minute) for minute in range(2, 8)
        } - paused


def test_what_is_remembered_ends_with_the_claim() -> None:
    """A tick of the very instant of a claim came while the lock was held; without that instant nothing is known."""
    fields: dict[str, object] = {"slot": slot(), "missedAfter": slot(), "expiresAt": at(200), "releasedAt": at(200)}
    record = LockRecord.of({**fields, "acquiredAt": at(60)})
    assert free(record, at(200)) == [Span(START, at(60) - 1)]
    assert free(LockRecord.of(fields), at(200)) == []


def test_only_spans_with_ticks_are_remembered_and_those_without_one_between_them_are_one() -> None:
    """Of the spans behind a claim the ones without a tick are left out, and two with no tick between them are one."""
    record = LockRecord.of(
        {
            "slot": slot(),
            "acquiredAt": at(400),
            "expiresAt": at(410),
            "releasedAt": at(410),
            "missedAfter": slot(10),
            "missedUntil": slot(20),
            "missedMore": f"{slot(30)}/{slot(70)} {slot(80)}/{slot(130)}",
        }
    )
    assert remember(record, Schedule(MINUTELY), at(415)) == {
        "missedAfter": slot(30),
        "missedUntil": slot(130),
        "missedMore": None,
    }


def test_what_is_remembered_has_the_last_millisecond_before_the_claim() -> None:
    """A tick of that millisecond was missed; one of the claim's own instant was not."""
    record = LockRecord.of({"slot": slot(), "acquiredAt": START, "expiresAt": at(10), "releasedAt": at(10)})
    assert remember(record, Schedule(MINUTELY), at(60)) == NONE_MISSED
    assert remember(record, Schedule(MINUTELY), at(60) + 1)["missedUntil"] == slot(60)
