"""Which tick to claim, and what is owed for those in between: every rule, against tables and a walk through all
ticks."""

from __future__ import annotations

from typing import Any

import pytest
from tests.simulation.world import START, slot

from firecron import distributed_cron
from firecron.base.instants import to_datetime
from firecron.jobs.decorator import declared
from firecron.jobs.options import JobOptions
from firecron.jobs.run import Outcome
from firecron.lock.fields import Pause
from firecron.lock.record import LockRecord, Missed
from firecron.runs.entry import PAUSED, Entry, unrun
from firecron.runs.policy import (
    MOST_COUNTED,
    MOST_MISSED,
    Claim,
    before_manual,
    between,
    choose,
    missed,
    owes_entries,
    start_ends,
    time_to_start,
    unclaimed,
)

MARGIN = 1_000
MINUTELY, SECONDLY = "* * * * *", "* * * * * *"


def options(line: str = MINUTELY, /, **given: object) -> JobOptions:
    """Those of a job; grace is 10 seconds."""

    @distributed_cron("job", line, **{"lock_ttl": 30, "grace": 10, **given})  # type: ignore[arg-type]  # any options
    def job() -> None: ...

    (found,) = declared(job)
    return found


def record(
    claimed: float, *, released: float | None = None, expires: float | None = None, **fields: object
) -> LockRecord:
    """A record of the tick at this second after nine, claimed then; without a release it is still unfinished."""
    ends = claimed + 30 if expires is None else expires
    return LockRecord.of(
        {
            "slot": slot(claimed),
            "acquiredAt": at(claimed),
            "expiresAt": at(ends if released is None else max(released, expires or 0)),
            "holder": "theirs",
            **({"unfinished": slot(claimed)} if released is None else {"releasedAt": at(released)}),
            **fields,
        }
    )


def at(seconds: float) -> int:
    return START + round(seconds * 1000)


def chosen(current: LockRecord | None, wanted: JobOptions, due: float | None, now: float) -> Claim | None:
    return choose(current, wanted, None if due is None else slot(due), at(now), MARGIN)


def kept(after: float, until: float = 599) -> Missed:
    """What a claim remembers: one span, here up to the second before ten past nine."""
    return Missed(missedAfter=slot(after), missedUntil=slot(until), missedMore=None)


OWN = Claim(slot(600), "schedule")
# The tick of 9:09 was missed before the claim.
LEFT: dict[str, Any] = {"acquiredAt": at(585), "missedAfter": slot(480), "missedUntil": slot(560)}
ALL, ONCE = {"catch_up": "all"}, {"catch_up": "once"}
RERUN = {"on_abandoned": "rerun"}


@pytest.mark.parametrize(
    ("current", "wanted", "claim"),
    [
        (None, {**ALL, **RERUN}, OWN),
        (record(540, released=541), {**ALL, **RERUN}, OWN),
        (record(0, released=1), {}, OWN),
        (record(0, released=1), ONCE, Claim(slot(540), "catch_up")),
        (record(480, released=590, acquiredAt=at(585), missedAfter=slot(480)), ALL, Claim(slot(540), "catch_up")),
        (record(480, released=590, acquiredAt=at(585), missedAfter=slot(500)), ONCE, Claim(slot(540), "catch_up")),
        (record(0, released=1), ALL, Claim(slot(60), "catch_up", kept(60))),
        (record(480, released=481), ALL, Claim(slot(540), "catch_up")),
        # Skipped, because somebody held it.
        (record(0, released=1, expires=595), ALL, OWN),
        (record(0, released=541), ALL, OWN),
        (record(0, released=539), ALL, Claim(slot(540), "catch_up")),
        (record(0), ALL, Claim(slot(60), "catch_up", kept(60))),
        # Not further back than the window.
        (record(0, released=1), {**ALL, "catch_up_window": 125}, Claim(slot(480), "catch_up", kept(480))),
        # Abandoned comes first, whatever else there is to do.
        (record(540), {}, OWN),
        (record(540), {**RERUN, "overlap": "queue"}, Claim(slot(540), "rerun", is_rerun=True)),
        (record(0), {**RERUN, **ALL}, Claim(slot(0), "rerun", kept(30), is_rerun=True)),
        (record(560), {**RERUN, **ALL}, Claim(slot(560), "rerun", is_rerun=True)),
        (record(540, attempt=2), RERUN, Claim(slot(540), "rerun", is_rerun=True)),
        (record(540, attempt=3), RERUN, OWN),
        (record(540, released=541, unfinished=slot(540)), RERUN, Claim(slot(540), "rerun", is_rerun=True)),
        # Live, to the millisecond: neither abandoned nor to be caught up.
        (record(480, expires=599.001, **LEFT), {**RERUN, **ALL}, OWN),
        (record(0, expires=599), RERUN, Claim(slot(0), "rerun", is_rerun=True)),
        (record(0, released=1, expires=600.001), ALL, OWN),
    ],
)
def test_a_tick_that_is_due_comes_after_what_others_left(
    current: LockRecord | None, wanted: dict[str, object], claim: Claim
) -> None:
    """At the tick of 9:10: what was abandoned first, then what was missed, then the tick itself."""
    assert chosen(current, options(**wanted), 600, 600) == claim


@pytest.mark.parametrize(
    ("current", "wanted", "claim"),
    [
        (None, {**ALL, **RERUN}, None),
        (record(0, released=1), {}, None),
        (record(0), {}, None),
        (record(0), RERUN, Claim(slot(0), "rerun", kept(30, 604), is_rerun=True)),
        (record(0, attempt=3), RERUN, None),
        (record(0, released=1), ONCE, Claim(slot(540), "catch_up", kept(540, 604))),
        (record(480, expires=604.001, **LEFT), {**RERUN, **ALL}, None),
    ],
)
def test_without_a_tick_only_what_others_left_is_claimed(
    current: LockRecord | None, wanted: dict[str, object], claim: Claim | None
) -> None:
    """A look between two ticks claims an abandoned run or a missed tick, or nothing."""
    assert chosen(current, options(**wanted), None, 605) == claim


@pytest.mark.parametrize("fields", [{"unfinished": slot(660)}, {"slot": None, "unfinished": slot(540)}])
def test_a_tick_that_nobody_has_claimed_is_not_rerun(fields: dict[str, Any]) -> None:
    """An unfinished tick after the slot, or without one, was never claimed: it holds up neither this tick nor a run."""
    current = record(540, **fields)
    assert current.open_slot is None
    claim = chosen(current, options(**RERUN), 600, 601)
    assert claim is not None
    assert (claim.slot, claim.trigger) == (slot(600), "schedule")


def test_a_lock_by_name_knows_of_no_other_tick() -> None:
    """With once_per_tick=False the tick that is due is the one, whatever the record remembers, and nothing is owed."""
    wanted = options(once_per_tick=False)
    for current in (record(0), record(0, released=1)):
        assert chosen(current, wanted, 600, 665) == OWN
        assert between(current, wanted, OWN) == []


def test_what_is_younger_than_grace_is_passed_over_by_a_newer_tick() -> None:
    """Before a tick that is due, also those are missed that are within their grace: nobody will run them."""
    current = record(590, released=590.5)
    assert missed(current, options(SECONDLY, **ALL), at(600), slot(600)) == [slot(second) for second in range(591, 600)]
    assert missed(current, options(SECONDLY, **ALL), at(600), None) == []


def test_the_newest_hundred_of_several_spans_are_caught_up() -> None:
    """A hundred in all, oldest first, however many times there were when nobody held the lock."""
    current = record(0, released=401, acquiredAt=at(300), missedAfter=slot(0), missedUntil=slot(200))
    late = missed(current, options(SECONDLY, **ALL), at(480), None)
    newer = [slot(second) for second in range(402, 470)]
    older = [slot(second) for second in range(200 - (MOST_MISSED - len(newer)) + 1, 201)]
    assert late == older + newer


@pytest.mark.parametrize(("late", "found"), [(10_000, []), (10_001, [slot(540)])])
def test_a_tick_is_missed_once_it_is_older_than_grace(late: int, found: list[str]) -> None:
    """To the millisecond: within its grace a tick may still be started by whoever tries it."""
    assert missed(record(480, released=481), options(**ALL), at(540) + late, None) == found


def test_a_record_without_a_slot_has_missed_nothing() -> None:
    """A record of a plain lock says nothing of ticks, so there is none to catch up and none to write down."""
    plain = LockRecord(expiresAt=at(0))
    assert missed(plain, options(**ALL), at(600), None) == []
    assert between(plain, options(), OWN) == []
    assert not owes_entries(plain, options(), OWN)


@pytest.mark.parametrize(
    ("current", "claim", "entries"),
    [
        (None, OWN, []),
        (record(540, released=541), OWN, []),
        (record(420, released=541), OWN, [unrun(slot(480), "skipped"), unrun(slot(540), "skipped")]),
        (record(420, released=480), OWN, [unrun(slot(480), "skipped"), unrun(slot(540), "missed")]),
        (record(420, released=479), OWN, [unrun(slot(480), "missed"), unrun(slot(540), "missed")]),
        # A minimum hold keeps others out after the release as well.
        (record(420, released=421, expires=485), OWN, [unrun(slot(480), "skipped"), unrun(slot(540), "missed")]),
        # The dead.
        (record(480, attempt=3), OWN, [unrun(slot(480), "abandoned", 3), unrun(slot(540), "missed")]),
        (
            record(420, expires=0, acquiredAt=at(500), missedAfter=slot(420)),
            OWN,
            [unrun(slot(420), "abandoned", 1), unrun(slot(480), "missed"), unrun(slot(540), "missed")],
        ),
        (record(540), Claim(slot(540), "rerun", is_rerun=True), []),
        # The cancelled; a cancel of an earlier acquisition means nothing.
        (record(540, fence=7, cancel=7), OWN, [unrun(slot(540), "cancelled", 1, 7)]),
        (record(540, fence=7, cancel=6), OWN, [unrun(slot(540), "abandoned", 1, 7)]),
        (record(420), Claim(slot(540), "catch_up"), [unrun(slot(420), "abandoned", 1), unrun(slot(480), "missed")]),
        # Between a slot and its late claim nobody held the lock, where the claim has said so.
        (
            record(420, released=545, acquiredAt=at(490), missedAfter=slot(420), missedUntil=slot(489)),
            OWN,
            [unrun(slot(540), "skipped"), unrun(slot(480), "missed")],
        ),
        # After an unlock the lock counts as free from the claim on, and not from its slot on.
        (
            record(420, expires=0, acquiredAt=at(485)),
            OWN,
            [unrun(slot(420), "abandoned", 1), unrun(slot(480), "skipped"), unrun(slot(540), "missed")],
        ),
        # An older revision's claim, or a later slot than this one.
        (record(600, released=601), OWN, []),
    ],
)
def test_a_claim_owes_what_lies_between(current: LockRecord | None, claim: Claim, entries: list[Entry]) -> None:
    """The claim of 9:10 owes the history an abandoned run, the ticks skipped while it was held, and those missed."""
    assert between(current, options(), claim) == entries
    assert current is None or owes_entries(current, options(), claim) >= bool(entries)


@pytest.mark.parametrize(
    ("current", "entries"),
    [
        (None, []),
        (record(540, fence=7, cancel=6), []),
        (record(540, fence=7, released=541, cancel=7), []),
        (record(540, fence=7, attempt=2, cancel=7), [unrun(slot(540), "cancelled", 2, 7)]),
    ],
)
def test_a_run_by_hand_owes_what_was_cancelled(current: LockRecord | None, entries: list[Entry]) -> None:
    """It removes the cancel of a run that died, so it records that run. Other ticks are left to the next claim."""
    assert before_manual(current) == entries
    assert current is None or owes_entries(current, options(), None) >= bool(entries)


@pytest.mark.parametrize(
    ("current", "outcome", "why"),
    [
        (record(0, released=0), "missed", None),
        (record(0, released=100), "skipped", None),
        (record(0, released=0, pausedBefore=f"{slot(1)}/{slot(100)}"), "skipped", PAUSED),
    ],
)
def test_beyond_fifty_there_is_one_entry_with_a_count(current: LockRecord, outcome: Outcome, why: str | None) -> None:
    """Up to fifty ticks of one kind have an entry each; more have one, that of the newest, with the reason of all."""
    fifty = [unrun(slot(second), outcome, why=why) for second in range(1, 51)]
    assert between(current, options(SECONDLY), Claim(slot(51), "schedule")) == fifty
    (more,) = between(current, options(SECONDLY), Claim(slot(52), "schedule"))
    assert more == unrun(slot(51), outcome, count=51, why=why)


def test_ticks_of_two_kinds_are_counted_apart() -> None:
    """Fifty that were skipped have an entry each beside the one of those that were missed after them."""
    *skipped, missed_ones = between(record(0, released=50), options(SECONDLY), Claim(slot(200), "schedule"))
    assert skipped == [unrun(slot(second), "skipped") for second in range(1, 51)]
    assert missed_ones == unrun(slot(199), "missed", count=149)


def test_a_count_that_nobody_counted_to_its_end_says_so() -> None:
    """The ticks of a whole day are one entry that counts so many, and says that there were more."""
    (entry,) = between(record(0, released=0), options(SECONDLY), Claim(slot(86_400), "schedule"))
    assert entry == unrun(slot(86_399), "missed", count=MOST_COUNTED, at_least=True)
    (entry,) = between(record(0, released=0), options(SECONDLY), Claim(slot(MOST_COUNTED + 1), "schedule"))
    assert entry == unrun(slot(MOST_COUNTED), "missed", count=MOST_COUNTED)


def test_a_rerun_forgets_no_missed_ticks() -> None:
    """The rerun of a run that died hours ago keeps in mind what nobody ran since, but not what the run overlapped."""
    wanted = options(**ALL, **RERUN)
    dead = record(0, expires=125)
    claim = chosen(dead, wanted, None, 300)
    assert claim == Claim(slot(0), "rerun", kept(125, 299), is_rerun=True)
    fields: dict[str, Any] = {**claim.missed}
    rerun = record(0, released=310, acquiredAt=at(300), attempt=2, **fields)
    assert missed(rerun, wanted, at(320), None) == [slot(180), slot(240)]
    assert [(entry.slot, entry.outcome) for entry in between(rerun, wanted, Claim(slot(360), "schedule"))] == [
        (slot(60), "skipped"),
        (slot(120), "skipped"),
        (slot(300), "skipped"),
        (slot(180), "missed"),
        (slot(240), "missed"),
    ]


LAST = {"until": to_datetime(slot(600))}


@pytest.mark.parametrize(
    ("wanted", "ends", "lasts"),
    [
        ({}, 610, 10),
        ({"grace": 0.1}, 601, 1),
        ({"grace": 90}, 690, 60),
        ({"overlap": "queue", "grace": None}, 660, 60),
        ({"overlap": "queue", "grace": None, **LAST}, 600 + 86_400, 86_400),
        ({"overlap": "queue"}, 610, 10),
        (LAST, 610, 10),
    ],
)
def test_until_when_a_tick_may_start(wanted: dict[str, object], ends: int, lasts: int) -> None:
    """Until the end of its grace, a second at least; a queued tick until the next one, and the last for a day."""
    given = options(**wanted)
    assert start_ends(given, slot(600)) == at(ends)
    assert time_to_start(given, slot(600)) == lasts * 1_000


def test_what_nobody_claims_any_more_is_written_from_there_on() -> None:
    """The ticks after the start, and neither those before it nor the run that died: these are written elsewhere. What
    a pause of the whole job has held back was skipped for that.
    """
    died = record(0, expires=30)
    pause = Pause(True, "ann", at(170), None, None)
    assert [(entry.slot, entry.outcome) for entry in unclaimed(died, options(), at(60), at(180))] == [
        (slot(120), "missed"),
        (slot(180), "missed"),
    ]
    assert [
        (entry.slot, entry.outcome, entry.error) for entry in unclaimed(died, options(), at(60), at(180), pause)
    ] == [
        (slot(180), "skipped", PAUSED),
        (slot(120), "missed", None),
    ]


def test_a_run_by_hand_after_one_that_has_ended_owes_nothing() -> None:
    """So it needs no thread that writes."""
    assert not owes_entries(record(540, released=541), options(), None)
