"""When somebody has to look at a stored schedule, and what a put, a remove and a claim make of its node."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from firecron.base.clocks import Moment
from firecron.base.instants import to_datetime, to_milliseconds, to_text
from firecron.cron.bounded import Bounded, read_fields
from firecron.errors import Malformed
from firecron.lock.record import DAY, IDLE, LockRecord, Refused, Request, Take, decide, parse, released, renewed
from firecron.lock.stored import (
    HOUR,
    KEPT,
    LookOptions,
    Node,
    WantedSchedule,
    as_of_since,
    closed_to_claims,
    finished,
    floor_of,
    is_running,
    next_at,
    put,
    read_args,
    remove,
)

NOW = to_milliseconds("2026-11-18T09:00:00Z")
LOOK = LookOptions(1_000, waits=False, reruns=False)
MOMENT = Moment(NOW, 0.0, 0.0, 0.0)
DAILY = Bounded("0 9 * * *")
CHRISTMAS = datetime(2026, 12, 24, 18, tzinfo=UTC)


def written(outcome: Any) -> Node:
    assert isinstance(outcome, dict)
    return outcome


def entry(schedule: Bounded = DAILY, **fields: object) -> Node:
    """An entry that was put a day ago, before these fields."""
    return {**written(put(None, WantedSchedule(schedule), LOOK, NOW - DAY)), **fields}


def run(**fields: object) -> Node:
    """The fields of a lock that a run of nine o'clock holds for a minute."""
    slot = to_text(NOW)
    return {
        "acquiredAt": NOW, "expiresAt": NOW + 60_000, "fence": NOW, "holder": "h", "slot": slot, "unfinished": slot,
        "attempt": 1, **fields,
    }  # fmt: skip


ENDED = {**run(releasedAt=NOW + 5_000, expiresAt=NOW + 5_000), "unfinished": None}


def look_at(node: Node, look: LookOptions = LOOK, now: int = NOW) -> int:
    return next_at({name: value for name, value in node.items() if value is not None}, look, now)


# --- when to look


def test_a_waiting_entry_is_looked_at_at_its_next_tick() -> None:
    """That is the first tick after its slot, its `since` and what a look has passed, whichever is the latest."""
    waiting = entry()
    assert look_at(waiting) == NOW
    assert look_at({**waiting, "since": NOW}) == NOW + DAY
    assert look_at({**waiting, "passed": NOW + DAY}) == NOW + 2 * DAY
    assert look_at({**waiting, **ENDED}) == NOW + DAY


def test_a_held_entry_is_looked_at_when_its_lock_may_be_taken() -> None:
    """A run that dies comes up by itself; one that ticks wait for comes up at the next tick, if that is sooner."""
    held = {**entry(Bounded("* * * * *")), **run(expiresAt=NOW + 300_000)}
    assert look_at(held) == NOW + 301_000
    assert look_at(held, replace(LOOK, waits=True)) == NOW + 60_000
    assert look_at({**held, "expiresAt": 0}) == 1_000


def test_a_run_that_was_stopped_is_looked_at_at_once_if_it_reruns() -> None:
    """Not if it is not rerun, was claimed three times, was cancelled, or its tick doesn't exist any more."""
    stopped = {**entry(), **run(releasedAt=NOW + 5_000, expiresAt=NOW + 5_000, outcome="interrupted")}
    reruns = replace(LOOK, reruns=True)
    assert look_at(stopped, reruns) == NOW + 5_000
    assert look_at(stopped) == NOW + DAY
    assert look_at({**stopped, "attempt": 3}, reruns) == NOW + DAY
    assert look_at({**stopped, "cancel": NOW}, reruns) == NOW + DAY
    assert look_at({**stopped, "since": NOW}, reruns) == NOW + DAY


def test_a_minimum_hold_ends_before_the_next_look() -> None:
    """The first tick after a run that ended early is looked at once the lock is free."""
    held = {**entry(Bounded("* * * * *")), **ENDED, "expiresAt": NOW + 90_000}
    assert look_at(held) == NOW + 90_000


def test_a_paused_entry_is_looked_at_at_its_tick_and_at_the_end_of_the_pause() -> None:
    """The earlier of the two, but not while a run holds it; a pause that is over counts as none."""
    paused = entry(paused=True, since=NOW)
    assert look_at(paused) == NOW + DAY
    assert look_at({**paused, "pausedUntil": NOW + HOUR}) == NOW + HOUR
    assert look_at({**paused, "pausedUntil": NOW + HOUR}, now=NOW + HOUR) == NOW + DAY
    assert look_at({**paused, **run(expiresAt=NOW + 2 * HOUR), "pausedUntil": NOW + HOUR}) == NOW + 2 * HOUR + 1_000


def test_a_closed_entry_is_looked_at_once_it_may_be_deleted() -> None:
    """A day after it was closed, or later: when the run that holds it may have died, or its minimum hold is over."""
    gone = {"closed": "removed", "closedAt": NOW, "since": NOW - DAY}
    assert look_at(gone) == NOW + DAY
    assert look_at({**gone, **run(expiresAt=NOW + 2 * DAY)}) == NOW + 2 * DAY + 1_000
    assert look_at({**gone, **run(expiresAt=NOW + 2 * DAY, releasedAt=NOW)}) == NOW + 2 * DAY


@pytest.mark.parametrize(
    "wrong", [{"line": "ever"}, {"timezone": "Mars"}, {"args": "{"}, {"args": "[]"}, {"until": "later"}, {"line": 5}]
)
def test_a_malformed_schedule_is_looked_at_each_hour(wrong: Node) -> None:
    """Whatever somebody has typed: nothing raises, and nothing is claimed."""
    node = {**entry(), "passed": NOW, **wrong}
    assert look_at(node) == NOW + HOUR
    refused = closed_to_claims(parse(node, NOW))
    assert refused is not None
    assert refused.reason == "malformed"


def test_an_entry_without_a_schedule_is_looked_at_each_hour() -> None:
    """A hand has deleted its line: no heartbeat writes it again before."""
    assert look_at({"since": NOW - DAY, "passed": NOW}) == NOW + HOUR


def test_every_write_of_a_lock_can_be_finished() -> None:
    """A claim, a renewal and a release each leave the time of the next look, and all fields of the schedule."""
    waiting = entry(args='{"event":"42"}')
    claim = decide(waiting, Request("h", 60_000, "", "", 1_000, fenced=True, slot=to_text(NOW)), MOMENT, {})
    assert isinstance(claim, Take)
    node = finished(claim.record.to_json(), LOOK, NOW)
    assert (node["nextAt"], node["args"], node["since"]) == (NOW + 61_000, '{"event":"42"}', waiting["since"])
    later = renewed(node, "h", 60_000, Moment(NOW + 20_000, 20_000.0, 0.0, 0.0), claim.trust, 1_000, None)
    assert isinstance(later, Take)
    assert finished(later.record.to_json(), LOOK, NOW + 20_000)["nextAt"] == NOW + 81_000
    after = released(node, "h", NOW + 5_000, outcome="succeeded", finished=to_text(NOW), tick=to_text(NOW))
    assert isinstance(after, LockRecord)
    assert finished(after.to_json(), LOOK, NOW + 5_000)["nextAt"] == NOW + DAY


def test_what_is_closed_stays_closed() -> None:
    """Whatever is written to it: only a put opens it, although its schedule has ticks to come."""
    missed = finished(entry(closed="missed", closedAt=NOW), LOOK, NOW + 5_000)
    assert (missed["closed"], missed["closedAt"], missed["nextAt"]) == ("missed", NOW, NOW + DAY)


def test_an_entry_without_a_tick_left_is_over() -> None:
    """The release of its last run closes it, but not while that run may be rerun."""
    once = {**entry(Bounded(at=to_datetime(NOW))), **ENDED}
    over = finished({name: value for name, value in once.items() if value is not None}, LOOK, NOW + 5_000)
    assert (over["closed"], over["closedAt"], over["nextAt"]) == ("over", NOW + 5_000, NOW + 5_000 + DAY)
    stopped = {**once, "unfinished": to_text(NOW)}
    assert "closed" not in finished(stopped, replace(LOOK, reruns=True), NOW + 5_000)
    assert finished(stopped, LOOK, NOW + 5_000)["closed"] == "over"


# --- put


def test_a_first_put_counts_from_three_margins_on() -> None:
    """What was claimed before the node was deleted is not known any more, so `since` is later than any of it."""
    node = written(put(None, WantedSchedule(DAILY, '{"event":"42"}', "me"), LOOK, NOW))
    assert node == {
        "line": "0 9 * * *", "timezone": "UTC", "args": '{"event":"42"}', "by": "me",
        "since": NOW + 3_000, "nextAt": NOW + DAY,
    }  # fmt: skip


def test_a_put_that_changes_nothing_writes_nothing() -> None:
    """Also after the run of an `at` is over: the same instant may be put again and again."""
    assert put(entry(), WantedSchedule(DAILY), LOOK, NOW) is KEPT
    once = entry(Bounded(at=to_datetime(NOW)), closed="over", closedAt=NOW + 1)
    assert put(once, WantedSchedule(Bounded(at=to_datetime(NOW))), LOOK, NOW + HOUR) is KEPT


@pytest.mark.parametrize("wanted", [WantedSchedule(DAILY, '{"a":1}'), WantedSchedule(DAILY, by="you")])
def test_a_put_of_other_arguments_leaves_the_ticks_that_are_due(wanted: WantedSchedule) -> None:
    """`since` stays, so a tick that has come and was not claimed yet is."""
    before = entry()
    after = written(put(before, wanted, LOOK, NOW + 5_000))
    assert (after["since"], after["nextAt"]) == (before["since"], NOW)


def test_a_put_of_another_end_leaves_the_ticks_that_are_due() -> None:
    """As one of other arguments does; but an entry that is over counts from the put on, as it is opened."""
    before = entry()
    after = written(put(before, WantedSchedule(Bounded("0 9 * * *", until=CHRISTMAS)), LOOK, NOW + 5_000))
    assert (after["since"], after["nextAt"]) == (before["since"], NOW)
    over = entry(Bounded("0 9 * * *", until=to_datetime(NOW)), closed="over", closedAt=NOW)
    again = written(put(over, WantedSchedule(DAILY), LOOK, NOW + 2 * DAY + HOUR))
    assert (again["since"], again["nextAt"]) == (NOW + 2 * DAY + HOUR, NOW + 3 * DAY)


def test_a_line_with_an_h_is_kept_beside_its_numbers() -> None:
    """The numbers decide what ticks: a put of the same line writes nothing, and one of the numbers leaves `since`."""
    hashed = Bounded("H 9 * * *", name="remind:42")
    before = entry(hashed)
    assert (before["written"], before["line"]) == ("H 9 * * *", hashed.line)
    assert put(before, WantedSchedule(hashed), LOOK, NOW) is KEPT
    plain = written(put(before, WantedSchedule(Bounded(hashed.line)), LOOK, NOW))
    assert plain == {name: value for name, value in before.items() if name != "written"}
    assert written(put(plain, WantedSchedule(hashed), LOOK, NOW)) == before
    assert "written" not in written(remove(before, LOOK, NOW))


def test_a_put_of_another_schedule_counts_from_now_on() -> None:
    """A tick of the new line that was before the put doesn't exist, and neither does an unfinished one of the old."""
    before = finished({**entry(), **run(releasedAt=NOW + 1, expiresAt=NOW + 1)}, LOOK, NOW + 1)
    after = written(put(before, WantedSchedule(Bounded("* * * * *")), LOOK, NOW + 90_000))
    assert (after["since"], after["slot"], after["fence"]) == (NOW + 90_000, to_text(NOW), NOW)
    assert after["nextAt"] == NOW + 120_000
    assert as_of_since(parse({**before, "since": NOW}, NOW)).unfinished is None
    seen = as_of_since(parse(after, NOW + 90_000))
    assert (seen.open_slot, seen.slot) == (None, to_text(NOW + 90_000))


def test_a_put_does_not_put_off_the_look_at_a_run_that_has_not_ended() -> None:
    """If the run dies, it is found as soon as it would have been without the put."""
    held = finished({**entry(), **run()}, LOOK, NOW)
    after = written(put(held, WantedSchedule(Bounded("0 12 * * *")), LOOK, NOW + 1_000))
    assert after["nextAt"] == held["nextAt"] == NOW + 61_000
    stopped = finished({**entry(), **run(releasedAt=NOW, expiresAt=NOW)}, replace(LOOK, reruns=True), NOW)
    assert written(put(stopped, WantedSchedule(DAILY, '{"a":1}'), LOOK, NOW))["nextAt"] == NOW


def test_a_put_opens_what_is_closed_and_says_so_by_since() -> None:
    """The slots before the put stay claimed, and what was closed about the entry goes."""
    gone = written(remove({**entry(), **ENDED}, LOOK, NOW + HOUR))
    after = written(put(gone, WantedSchedule(DAILY), LOOK, NOW + 2 * HOUR))
    assert not after.keys() & {"closed", "closedAt"}
    assert (after["since"], after["slot"]) == (NOW + 2 * HOUR, to_text(NOW))


def test_if_absent_counts_a_removed_entry_as_absent_and_one_that_is_over_as_there() -> None:
    """So work that was scheduled once by its key is not scheduled again, unless somebody has removed it."""
    wanted = WantedSchedule(Bounded(at=CHRISTMAS), if_absent=True)
    assert put(entry(closed="over", closedAt=NOW), wanted, LOOK, NOW) is KEPT
    assert put(entry(), wanted, LOOK, NOW) is KEPT
    assert isinstance(put(written(remove(entry(), LOOK, NOW)), wanted, LOOK, NOW), dict)
    assert isinstance(put(None, wanted, LOOK, NOW), dict)


@pytest.mark.parametrize("before", [None, {**entry(), **ENDED}])
def test_an_instant_that_is_over_is_refused(before: Node | None) -> None:
    """A schedule that would never tick is an error, and not an entry."""
    with pytest.raises(ValueError, match=r"once, at 2026-11-18 09:00 UTC.* has no tick after"):
        put(before, WantedSchedule(Bounded(at=to_datetime(NOW))), LOOK, NOW)


def test_a_put_keeps_a_pause_and_an_operators_note() -> None:
    """Fields that a put doesn't own are carried over."""
    after = written(put(entry(paused=True, runbook="r"), WantedSchedule(DAILY, '{"a":1}'), LOOK, NOW))
    assert (after["paused"], after["runbook"]) == (True, "r")


# --- remove


def test_a_removal_keeps_the_lock_and_drops_the_schedule() -> None:
    """Its run ends as any other, and its slots stay claimed."""
    held = {**entry(args="{}", failures=2), **run()}
    gone = written(remove(held, LOOK, NOW + 1_000))
    assert gone == {
        **run(), "closed": "removed", "closedAt": NOW + 1_000, "since": held["since"], "nextAt": NOW + 1_000 + DAY,
    }  # fmt: skip
    assert is_running(gone, NOW + 1_000, 1_000)
    assert remove(gone, LOOK, NOW + 2_000) is KEPT
    assert remove(None, LOOK, NOW) is KEPT


def test_a_removal_may_ask_the_run_to_end() -> None:
    """Also one that comes after another removal; a lock that nobody holds is not asked."""
    gone = written(remove({**entry(), **run()}, LOOK, NOW + 1_000))
    asked = written(remove(gone, LOOK, NOW + 2_000, cancel=True))
    assert (asked["cancel"], asked["closedAt"]) == (NOW, NOW + 1_000)
    assert remove(asked, LOOK, NOW + 3_000, cancel=True) is KEPT
    assert "cancel" not in written(remove(entry(), LOOK, NOW, cancel=True))
    assert "cancel" not in written(remove({**entry(), **run()}, LOOK, NOW + HOUR, cancel=True))


def test_an_entry_is_running_until_it_is_released_or_has_died() -> None:
    """Not in a minimum hold that follows its run, nor once its lock may be taken."""
    held = {**entry(), **run()}
    assert is_running(held, NOW + 60_999, 1_000)
    assert not is_running(held, NOW + 61_000, 1_000)
    assert not is_running({**held, "releasedAt": NOW + 5_000}, NOW + 6_000, 1_000)


def test_nobody_claims_what_is_absent_or_closed() -> None:
    """A claim is refused as removed, also by hand."""
    for node in (None, {"paused": True}, written(remove(entry(), LOOK, NOW)), entry(closed="over", closedAt=NOW)):
        refused = closed_to_claims(parse(node, NOW))
        assert isinstance(refused, Refused)
        assert refused.reason == "removed"
    assert closed_to_claims(parse(entry(), NOW)) is None
    assert closed_to_claims(IDLE) is not None


def test_a_node_that_was_never_claimed_counts_as_free_since_its_since() -> None:
    """So its first ticks can be missed, and caught up."""
    seen = as_of_since(parse(entry(), NOW))
    assert (seen.slot, seen.releasedAt) == (to_text(NOW - DAY + 3_000), NOW - DAY + 3_000)
    assert floor_of(entry()) == NOW - DAY + 3_000


# --- schedules that end


def test_a_bounded_schedule_ends() -> None:
    """After the last tick there is none; `until` counts itself."""
    until = Bounded("0 9 * * *", until=to_datetime(NOW))
    assert until.tick_after(NOW - 1) == NOW
    assert until.tick_after(NOW) is None
    assert until.next_after(to_datetime(NOW)) is None
    assert Bounded(at=CHRISTMAS + timedelta(microseconds=1)).after(to_datetime(NOW)) == CHRISTMAS + timedelta(seconds=1)


def test_a_schedule_of_one_tick_is_nothing_besides() -> None:
    """It has neither a distance nor bounds, whatever it is made of."""
    once = Bounded(at=CHRISTMAS)
    assert (once.line, once.timezone, once.written) == ("once, at 2026-12-24 18:00 UTC", "UTC", None)
    assert (once.every, once.starting, once.until, once.except_days) == (None, None, None, None)
    assert (once.has_line, once.has_seconds, once.warnings, once.whole) == (False, False, (), once)
    assert list(once.between(to_datetime(NOW), CHRISTMAS + timedelta(days=400))) == [CHRISTMAS]


@pytest.mark.parametrize(
    "schedule",
    [
        DAILY,
        Bounded("0 9 * * *", "Europe/Berlin", until=CHRISTMAS),
        Bounded(at=CHRISTMAS),
        Bounded(every=2700, starting=CHRISTMAS),
        Bounded(every=timedelta(hours=6), until=CHRISTMAS),
    ],
)
def test_a_stored_schedule_is_read_as_it_was_written(schedule: Bounded) -> None:
    """The fields of a node give back the same schedule."""
    assert read_fields(schedule.to_fields()) == schedule


@pytest.mark.parametrize(
    "wrong",
    [
        {"at": CHRISTMAS, "until": CHRISTMAS},
        {"at": CHRISTMAS, "line": "0 9 * * *"},
        {"at": CHRISTMAS, "timezone": "Europe/Berlin"},
        {"at": datetime(2026, 12, 24)},  # noqa: DTZ001  # that is what is wrong
        {"line": "0 9 * * *", "every": 60},
        {"every": 60, "starting": CHRISTMAS, "until": CHRISTMAS - timedelta(hours=1)},
    ],
)
def test_what_contradicts_itself_is_refused(wrong: dict[str, Any]) -> None:
    """Each error is a ValueError that names the option."""
    with pytest.raises(ValueError, match="="):
        Bounded(**wrong)


def test_arguments_that_are_no_object_are_malformed() -> None:
    """A node without arguments has none."""
    assert read_args({}) == {}
    assert read_args({"args": '{"a":[1]}'}) == {"a": [1]}
    for wrong in ("{", "[]", 5):
        with pytest.raises(Malformed, match="its args are"):
            read_args({"args": wrong})
