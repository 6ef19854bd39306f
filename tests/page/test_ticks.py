"""The ticks of a job: the word for each that did not run, from what lock, catalogue, history and acts tell."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.runs.test_policy import options

from firecron.base.instants import to_milliseconds, to_text
from firecron.cron.schedule import Schedule, newest
from firecron.jobs.catalogue import CatalogueEntry
from firecron.lock.audit_log import Act
from firecron.lock.record import LockRecord
from firecron.page.ticks import Known, Stretch, Tick
from firecron.runs.entry import PAUSED, Entry, unrun
from firecron.runs.policy import Claim, between

MINUTE = 60_000
DAY = 1440 * MINUTE
# 15:00 on the schedule of each minute.
AT = to_milliseconds("2026-11-18T15:00:00Z")
GRACE = 30_000
DIGEST = CatalogueEntry("digest", Schedule("* * * * *"), grace=GRACE, since=AT - 10 * MINUTE, declared_at=AT)


def slot(minutes: float) -> str:
    return to_text(AT + round(minutes * MINUTE))


def record(claimed: int, *, held_for: float | None = None, late: float = 0.1, **fields: Any) -> dict[str, Any]:
    """The node after the claim of this minute's tick; its run goes on, or was released after so many minutes."""
    acquired = AT + round((claimed + late) * MINUTE)
    node = {
        "slot": slot(claimed),
        "acquiredAt": acquired,
        "holder": "h",
        "fence": acquired,
        "attempt": 1,
    }
    if held_for is None:
        return {**node, "unfinished": slot(claimed), "expiresAt": AT + 1000 * MINUTE, **fields}
    released = acquired + round(held_for * MINUTE)
    return {**node, "releasedAt": released, "expiresAt": released, "outcome": "succeeded", **fields}


def holes(
    node: object, now: float, *entries: Entry, declared: CatalogueEntry = DIGEST, acts: tuple[Act, ...] = ()
) -> dict[str, tuple[str | None, str | None]]:
    """The word and the reason of each tick after 15:00, by its minute."""
    known = Known(declared, entries, node, acts, AT + round(now * MINUTE), 1_000)
    return {tick.slot[14:16]: (tick.hole, tick.why) for tick in known.newest_ticks() if tick.slot > slot(0)}


def words(found: dict[str, tuple[str | None, str | None]]) -> list[str | None]:
    return [hole for hole, _ in found.values()]


def test_behind_a_run_that_holds_the_lock_each_tick_says_so() -> None:
    """At once: no claim has written an entry yet. A tick that a late claim has left behind was nobody's."""
    found = holes(record(1, late=2.5, missedAfter=slot(1)), 5.1)
    assert words(found) == [None, "missed", "missed", "skipped", "skipped"]
    assert found["04"][1] == "the run of 2026-11-18T15:01:00Z holds the lock"


def test_the_newest_tick_of_a_job_that_queues_waits() -> None:
    """The ticks before it were given up when it came."""
    found = holes(record(1), 4.9, declared=replace(DIGEST, overlap="queue"))
    assert words(found) == [None, "skipped", "skipped", "due"]
    assert found["04"][1] == "it waits: the run of 2026-11-18T15:01:00Z holds the lock"


def test_after_a_run_the_lock_was_free() -> None:
    """Until its release it stood in the way; then nobody has come, and the newest tick may still be claimed."""
    found = holes(record(1, held_for=2), 5.4, unrun(slot(1), "skipped"))
    assert words(found) == ["skipped", "skipped", "skipped", "missed", "due"]
    assert found["03"][1] == "the run of 2026-11-18T15:01:00Z held the lock"


def test_a_run_by_hand_stands_in_the_way_as_well() -> None:
    """It has claimed no tick, and remembers that the lock was free before it."""
    node = record(1, held_for=None, late=2.5, unfinished=None, missedAfter=slot(1.5))
    assert holes(node, 5.1)["05"] == ("skipped", "a run by hand holds the lock")
    assert words(holes(node, 5.1))[1:3] == ["missed", "missed"]


def test_a_minimum_hold_says_until_when() -> None:
    """The lock was released, and stays closed, because the job asks for it."""
    node = {**record(1, held_for=0.2), "expiresAt": AT + 10 * MINUTE}
    assert holes(node, 3.1)["03"] == ("skipped", "the lock is kept until 2026-11-18T15:10:00Z, as the job asks")


def test_a_run_that_died_is_no_hole() -> None:
    """Nobody has written its end yet: it was lost with its instance, or cancelled before."""
    node = {**record(1), "expiresAt": AT + 3 * MINUTE}
    for fields, outcome in (({}, "abandoned"), ({"cancel": node["fence"]}, "cancelled")):
        known = Known(DIGEST, (), {**node, **fields}, (), AT + 5 * MINUTE, 1_000)
        assert known.newest_ticks()[-5].outcome == outcome
        assert [tick.hole for tick in known.newest_ticks()[-4:]] == ["skipped", "skipped", "missed", "due"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"paused": True, "pausedAt": AT + 2 * MINUTE, "pausedBy": "ops"}, ["missed", "paused", "paused"]),
        ({"paused": True}, ["paused"] * 3),
        ({"paused": True, "pausedAt": AT, "pausedUntil": AT + 3 * MINUTE}, ["paused", "paused", "missed"]),
        ({"resumedAt": AT + 2 * MINUTE}, ["paused", "paused", "missed"]),
        ({"resumedAt": AT + 3 * MINUTE, "pausedBefore": f"{slot(2)}/{slot(2.9)}"}, ["missed", "paused", "missed"]),
    ],
    ids=["since", "since nobody knows when", "until", "resumed", "noted"],
)
def test_a_pause_is_no_outage(fields: dict[str, Any], expected: list[str]) -> None:
    """Neither one that holds nor one that is over, even where nothing says when it began."""
    assert words(holes({**record(0, held_for=0.1), **fields}, 3.9)) == expected
    assert (
        holes({**record(0, held_for=0.1), "paused": True, "pausedBy": "ops"}, 1.9)["01"][1]
        == "the job was paused by ops"
    )


def test_a_pause_of_the_acts_ends_with_the_next_claim() -> None:
    """One that has ended by itself left no act."""
    acts = (Act("a", "pause", "digest", "ops", AT + MINUTE, "the move"), Act("b", "pause", "other", "ops", AT, None))
    ran = Entry(slot(3), "succeeded", slot=slot(3), started_at=AT + 3 * MINUTE + 10)
    missed = [unrun(slot(minute), "missed") for minute in (1, 2, 4)]
    found = holes(record(5, held_for=0.1), 5.2, ran, *missed, acts=acts)
    assert words(found)[:4] == ["paused", "paused", None, "missed"]
    assert found["01"][1] == "the job was paused by ops (the move)"


def test_a_pause_of_the_history_has_no_need_of_acts() -> None:
    """Its ticks were skipped, and their entries say why."""
    skipped = [unrun(slot(1), "skipped", why=PAUSED), unrun(slot(2), "skipped")]
    found = holes(record(5, held_for=0.1), 5.2, *skipped)
    assert (words(found)[:2], found["01"][1]) == (["paused", "skipped"], "the job was paused")


def test_a_tick_of_a_disabled_job_says_so() -> None:
    """From the start of the program that declares it disabled."""
    declared = replace(DIGEST, disabled=True, declared_at=AT + 90_000)
    assert words(holes(None, 3.9, declared=declared)) == ["missed", "disabled", "disabled"]


def test_a_tick_of_a_job_that_was_taken_out_is_no_outage() -> None:
    """Nobody was to run it."""
    ticks = Known(DIGEST, (), record(0, held_for=0.1), (), AT + 3 * MINUTE, 1_000, is_retired=True).newest_ticks()
    assert [tick.hole for tick in ticks[-3:]] == ["disabled"] * 3


def test_what_the_node_does_not_know_is_not_recorded() -> None:
    """A tick before the last one that was claimed; each tick where none is remembered; but none is claimed of a node
    that can't be read.
    """
    assert words(holes(record(3, held_for=0.1), 3.6))[:2] == ["unrecorded", "unrecorded"]
    assert words(holes(None, 2.9, declared=replace(DIGEST, once_per_tick=False))) == ["unrecorded"] * 2
    assert words(holes({"expiresAt": "soon"}, 3.9, Entry(slot(1), "failed", slot=slot(1)))) == [
        None,
        "missed",
        "missed",
    ]


@given(
    claimed=st.integers(0, 5),
    late=st.floats(0, 6),
    held_for=st.none() | st.floats(0, 4),
    now=st.floats(0, 12),
    hold=st.booleans(),
    by_hand=st.booleans(),
    overlap=st.sampled_from(["skip", "queue", "cancel_previous"]),
    recorded=st.sets(st.integers(1, 12)),
)
def test_no_tick_after_the_last_claim_lacks_a_reason(
    claimed: int,
    late: float,
    held_for: float | None,
    now: float,
    hold: bool,
    by_hand: bool,
    overlap: str,
    recorded: set[int],
) -> None:
    """Whatever runs, has run or stands in the way: from the tick of the lock on, each tick ran, or says why not."""
    node = record(claimed, late=late, held_for=held_for)
    if by_hand:
        node.pop("unfinished", None)
    if hold and held_for is not None:
        node["expiresAt"] += 3 * MINUTE
    now = max(now, (node.get("releasedAt") or node["acquiredAt"]) / MINUTE - AT / MINUTE)
    entries = [Entry(slot(minute), "skipped", slot=slot(minute)) for minute in recorded]
    known = Known(replace(DIGEST, overlap=overlap), entries, node, (), AT + round(now * MINUTE), 1_000)
    later = [tick for tick in known.newest_ticks() if tick.slot > slot(claimed)]
    assert [tick for tick in later if tick.hole in (None, "unrecorded") or not tick.why] == []


@given(
    late=st.floats(0, 6),
    held_for=st.none() | st.floats(0, 4),
    waits=st.floats(0, 6),
    hold=st.integers(0, 3),
    by_hand=st.booleans(),
)
def test_what_is_told_at_once_is_what_the_next_claim_writes(
    late: float, held_for: float | None, waits: float, hold: int, by_hand: bool
) -> None:
    """Just before an instance claims the tick that has come, each one before it has the word that the claim writes."""
    node = record(0, late=late, held_for=held_for, missedAfter=slot(0))
    node["expiresAt"] = node.get("releasedAt", node["acquiredAt"] + 2 * MINUTE) + hold * MINUTE
    if by_hand:
        node.pop("unfinished", None)
    before = LockRecord.of(node)
    now = before.free_at(1_000) + round(waits * MINUTE)
    coming = newest(DIGEST.schedule, AT, now, 1)
    if not coming:
        return
    claim = between(before, options(grace=GRACE / 1000), Claim(coming[0], "schedule"))
    written = {entry.slot: entry.outcome for entry in claim if entry.slot not in (None, slot(0))}
    known = Known(DIGEST, (), node, (), now, 1_000)
    shown = {tick.slot: tick.hole for tick in known.newest_ticks() if slot(0) < tick.slot < coming[0]}
    # One that may still be claimed is not missed yet.
    due = {key for key, word in shown.items() if word == "due" and written.get(key) == "missed"}
    assert shown == {key: "due" if key in due else word for key, word in written.items()}


# --- stretches


def spread(stretches: list[Stretch]) -> dict[str, tuple[str | None, str | None]]:
    """The word and the reason of each tick of the stretches."""
    found: dict[str, tuple[str | None, str | None]] = {}
    for one in stretches:
        ticks = newest(DIGEST.schedule, to_milliseconds(one.first) - 1_000, to_milliseconds(one.last), 500)
        assert len(ticks) == one.count, one
        found.update(dict.fromkeys(ticks, (one.hole, one.why)))
    return found


@given(
    claimed=st.integers(1, 5),
    late=st.floats(0, 4),
    held_for=st.none() | st.floats(0, 4),
    now=st.floats(0, 14),
    pause=st.none() | st.tuples(st.integers(-4, 12), st.none() | st.integers(0, 12)),
    act=st.none() | st.tuples(st.integers(-6, 12), st.integers(0, 6)),
    overlap=st.sampled_from(["skip", "queue"]),
    disabled=st.booleans(),
    recorded=st.dictionaries(st.integers(-6, 12), st.sampled_from(["succeeded", "skipped", "missed"])),
    start=st.integers(-8, 8),
)
def test_a_stretch_says_what_each_of_its_ticks_says(
    claimed: int,
    late: float,
    held_for: float | None,
    now: float,
    pause: tuple[int, int | None] | None,
    act: tuple[int, int] | None,
    overlap: str,
    disabled: bool,
    recorded: dict[int, str],
    start: int,
) -> None:
    """Judged one by one, the ticks of all stretches are those that did not run, with the same words and reasons."""
    node = record(claimed, late=late, held_for=held_for)
    if pause is not None:
        begun, lasts = pause
        node |= {"paused": True, "pausedAt": AT + begun * MINUTE}
        node |= {} if lasts is None else {"pausedUntil": AT + (begun + lasts) * MINUTE}
    acts = () if act is None else (
        Act("a", "pause", "digest", "ops", AT + act[0] * MINUTE),
        Act("b", "resume", "digest", "ops", AT + (act[0] + act[1]) * MINUTE),
    )  # fmt: skip
    moment = AT + round(max(now, (node.get("releasedAt") or node["acquiredAt"]) / MINUTE - AT / MINUTE) * MINUTE)
    entries = [
        Entry(slot(minute), outcome, slot=slot(minute))  # type: ignore[arg-type]  # one of three outcomes
        for minute, outcome in sorted(recorded.items())
        if AT + minute * MINUTE <= moment
    ]
    declared = replace(DIGEST, overlap=overlap, disabled=disabled, declared_at=AT + 3 * MINUTE)
    known = Known(declared, entries, node, acts, moment, 1_000)
    since = max(AT + start * MINUTE, known.kept_from - 1)
    ticks = [tick for tick in known.newest_ticks() if to_milliseconds(tick.slot) > since]
    assert spread(known.stretches(AT + start * MINUTE)) == {
        tick.slot: (tick.hole, tick.why) for tick in ticks if tick.hole is not None
    }


def test_a_week_of_ticks_is_not_walked_through() -> None:
    """What paused or missed half a million ticks is a stretch of so many and more, from its first tick to its last."""
    each_second = replace(DIGEST, schedule=Schedule("* * * * * *"), since=AT - 10 * DAY)
    entries = [Entry(slot(-7 * 1440), "succeeded", slot=slot(-7 * 1440))]
    node = {**record(-7 * 1440, late=0, held_for=0), "paused": True, "pausedAt": AT - DAY}
    missed, paused = Known(each_second, entries, node, (), AT, 1_000).stretches(AT - 8 * DAY)
    assert [(one.hole, one.count >= 500, one.is_more) for one in (missed, paused)] == [
        ("missed", True, True),
        ("paused", True, True),
    ]
    ends = (missed.first, missed.last, paused.first, paused.last)
    assert [to_milliseconds(end) - AT for end in ends] == [1_000 - 7 * DAY, -DAY - 1_000, -DAY, 0]


def test_an_entry_of_several_ticks_is_one_stretch_with_those_around_it() -> None:
    """Each tick is counted once, and none before what the entry counts."""
    node = record(20, held_for=0.1)
    entries = [
        Entry(slot(0), "succeeded", slot=slot(0)),
        unrun(slot(18), "missed", count=10),
        unrun(slot(19), "missed"),
    ]
    known = Known(replace(DIGEST, since=AT), entries, node, (), AT + 41 * MINUTE // 2, 1_000)
    found = known.stretches(AT - MINUTE)
    assert [(one.hole, one.first, one.last, one.count) for one in found] == [
        ("unrecorded", slot(1), slot(8), 8),
        ("missed", slot(9), slot(19), 11),
        ("due", slot(20), slot(20), 1),
    ]


def test_before_the_oldest_entry_nothing_is_told() -> None:
    """Also where the schedule is older; without any entry, since the last tick that was claimed."""
    known = Known(DIGEST, [Entry(slot(3), "failed", slot=slot(3))], record(4, held_for=0.1), (), AT + 5 * MINUTE, 1_000)
    assert (known.kept_from, known.stretches(AT)[0].first) == (AT + 3 * MINUTE, slot(4))
    empty = Known(DIGEST, (), record(4, held_for=0.1), (), AT + 7 * MINUTE, 1_000)
    assert (empty.kept_from, empty.stretches(AT)[0].first) == (AT + 4 * MINUTE, slot(4))
    assert Known(DIGEST, (), None, (), AT, 1_000).kept_from == DIGEST.since
    assert Known(None, (), None, (), AT, 1_000).stretches(0) == []


def test_a_tick_as_json_has_every_field() -> None:
    """What is not known of it is null."""
    assert Tick(slot(1)).to_json() == {"slot": slot(1), "outcome": None, "durationMs": None, "why": None, "hole": None}


def test_ticks_of_an_excluded_day_are_holes_of_that_name() -> None:
    """On the strip and on the timeline, whatever the lock says; the ticks around the day are what they were."""
    schedule = Schedule("0 */6 * * *", "Europe/Berlin", except_days={"holiday": [date(2026, 11, 17)]})
    closed = replace(DIGEST, schedule=schedule, since=AT - 3 * DAY, declared_at=AT - 3 * DAY)
    ran = [Entry(key, "succeeded", slot=key) for key in ("2026-11-16T17:00:00Z",)]
    node = record(-46 * 60, held_for=1, slot="2026-11-16T17:00:00Z")
    known = Known(closed, ran, node, (), AT, 1_000)
    expected = [
        ("2026-11-16T23:00:00Z", "excluded"),
        ("2026-11-17T05:00:00Z", "excluded"),
        ("2026-11-17T11:00:00Z", "excluded"),
        ("2026-11-17T17:00:00Z", "excluded"),
        ("2026-11-17T23:00:00Z", "missed"),
        ("2026-11-18T05:00:00Z", "missed"),
        ("2026-11-18T11:00:00Z", "missed"),
    ]
    found = [(tick.slot, tick.hole) for tick in known.newest_ticks() if tick.slot > ran[0].key]
    assert found == expected
    stretches = [(one.hole, one.why, one.first, one.last, one.count) for one in known.stretches(AT - 2 * DAY)]
    assert stretches == [
        ("excluded", "its day is excluded: holiday", expected[0][0], expected[3][0], 4),
        ("missed", "no instance has claimed it", expected[4][0], expected[6][0], 3),
    ]
    by_hand = Entry(expected[1][0], "succeeded", slot=expected[1][0])
    assert ("2026-11-17T05:00:00Z", None) in [
        (tick.slot, tick.hole) for tick in replace(known, entries=[*ran, by_hand]).newest_ticks()
    ]
    counted = unrun("2026-11-18T05:00:00Z", "missed", count=3)
    late = replace(known, entries=[*ran, counted, Entry(expected[6][0], "succeeded", slot=expected[6][0])])
    found_late = [tick.hole for tick in late.newest_ticks()][-8:]
    assert found_late == [None, *["excluded"] * 4, "missed", "missed", None]
