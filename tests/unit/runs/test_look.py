"""What a look makes of the node of a stored schedule, and what a claim has to see of it. Pure decisions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from firecron.base.instants import to_milliseconds, to_text
from firecron.cron.bounded import Bounded
from firecron.jobs.decorator import declarations_of, scheduled
from firecron.jobs.options import JobOptions
from firecron.lock.fields import Pause
from firecron.lock.record import DAY, Refused, parse
from firecron.lock.stored import HOUR, Node
from firecron.runs.look import Attempted, Deleted, Later, Written, claimable, evaluate, mended

MARGIN, MINUTE = 1_000, 60_000
NINE = to_milliseconds("2026-11-18T09:00:00Z")
HOURLY = {"line": "0 * * * *", "since": NINE - DAY}
AT_NINE = {"at": to_text(NINE), "since": NINE - DAY}
KEEP_CLOSED = HOUR
PAUSE = Pause(True, "ada", NINE - HOUR, "a move", None)


def options(**given: Any) -> JobOptions:
    def remind() -> None: ...

    (found,) = declarations_of(scheduled("remind", lock_ttl=60, keep_closed=3_600, **given)(remind))
    assert isinstance(found, JobOptions)
    return replace(found, name="remind:42")


SKIPS, QUEUES, RERUNS = options(), options(overlap="queue"), options(on_abandoned="rerun")


def claimed(at: int = NINE, **fields: object) -> Node:
    """The fields of a lock that the run of a tick has taken then for a minute. A field that is None is not there."""
    slot = to_text(at)
    node = {
        "acquiredAt": at, "expiresAt": at + MINUTE, "fence": at, "holder": "h", "slot": slot, "unfinished": slot,
        "attempt": 1, **fields,
    }  # fmt: skip
    return {name: value for name, value in node.items() if value is not None}


def released(at: int, expires: int | None = None) -> Node:
    """The fields of a lock whose run has ended, and which is held until it expires."""
    return claimed(unfinished=None, outcome="succeeded", releasedAt=at, expiresAt=expires or at)


def after(node: object, now: int, of: JobOptions = SKIPS, hold: Pause | None = None) -> tuple[Node, list[Any]]:
    """Return what a look writes: the node, and the outcomes of the history by their ticks."""
    found = evaluate(node, of, now, MARGIN, hold)
    assert isinstance(found, Written)
    return found.node, [(entry.slot, entry.outcome) for entry in found.entries]


# --- what a claim sees


def test_what_the_function_does_not_take_is_refused_with_the_reason() -> None:
    """The refusal has the entry as it was read, for the log to name it."""
    current = parse({**HOURLY, "args": '{"whom": "me"}'}, NINE)
    found = claimable(current, SKIPS, None, lambda args: f"it does not take {[*args]}")
    assert found == Refused("malformed", current, "it does not take ['whom']")


@pytest.mark.parametrize(
    ("node", "due", "is_due"),
    [
        (HOURLY, NINE, True),
        (HOURLY, NINE + 30 * MINUTE, False),
        ({**HOURLY, "since": NINE}, NINE, False),
        ({**HOURLY, **released(NINE + 1)}, NINE, False),
        ({**HOURLY, **released(NINE + 1)}, NINE + HOUR, True),
    ],
    ids=["a tick", "of another schedule", "before the put", "claimed", "the next"],
)
def test_only_a_new_tick_of_its_own_schedule_is_claimed(node: Node, due: int, is_due: bool) -> None:
    """A look may have planned it before somebody has put another schedule."""
    found = claimable(parse(node, due), SKIPS, to_text(due))
    assert not isinstance(found, Refused)
    _, seen, slot = found
    assert slot == (to_text(due) if is_due else None)
    assert isinstance(seen.schedule, Bounded)
    assert seen.schedule.line == "0 * * * *"


# --- what only an operator may touch


@pytest.mark.parametrize(
    ("node", "problem"),
    [
        (None, None),
        ("soon", "it holds 'soon' instead of an entry"),
        ({**HOURLY, "slot": 9, "expiresAt": 1}, "its field slot is wrong: Input should be a valid string, and is 9"),
    ],
    ids=["absent", "no node", "a lock that can't be read"],
)
def test_what_can_t_be_read_is_looked_at_an_hour_later(node: object, problem: str | None) -> None:
    """Nothing is written or mended, and the operator reads what is wrong with it."""
    assert evaluate(node, SKIPS, NINE, MARGIN) == Later(NINE + HOUR, problem)
    assert mended(node, SKIPS, NINE, MARGIN) is None


@pytest.mark.parametrize(("there", "is_mended"), [(None, True), (0, True), ("soon", True), (1, False)])
def test_only_an_entry_that_no_query_finds_is_mended(there: object, is_mended: bool) -> None:
    """It gets the time of its next tick, and nothing else."""
    node = {**HOURLY, "nextAt": there}
    expected = {**node, "nextAt": NINE - 23 * HOUR}
    assert mended(node, SKIPS, NINE, MARGIN) == (expected if is_mended else None)


# --- closed


@pytest.mark.parametrize(
    ("closed_for", "held", "is_deleted"),
    [(KEEP_CLOSED - 1, 0, False), (KEEP_CLOSED, 0, True), (KEEP_CLOSED, 1, False)],
    ids=["not yet", "its time is over", "in a minimum hold"],
)
def test_a_closed_entry_is_deleted_when_its_time_is_over(closed_for: int, held: int, is_deleted: bool) -> None:
    """Not a millisecond sooner, and not while its lock is held."""
    at = NINE - closed_for + KEEP_CLOSED
    node = {**HOURLY, **claimed(NINE - 2 * HOUR, releasedAt=NINE - HOUR, expiresAt=NINE + held)}
    node |= {"closed": "removed", "closedAt": NINE - closed_for, "nextAt": at}
    found = evaluate(node, SKIPS, NINE, MARGIN)
    assert found == (Deleted() if is_deleted else Later(max(at, NINE + held)))


@pytest.mark.parametrize("there", [None, NINE + 1])
def test_a_closed_entry_with_another_time_gets_that_of_its_job(there: object) -> None:
    """A hand has left it, or the job has been given another `keep_closed`."""
    node = {**HOURLY, "closed": "removed", "closedAt": NINE, "nextAt": there}
    assert after(node, NINE + 1) == ({**node, "nextAt": NINE + KEEP_CLOSED}, [])


# --- a schedule that can't be read


def test_an_entry_without_a_schedule_says_so() -> None:
    """A hand has deleted its line."""
    node, entries = after({"since": NINE - DAY}, NINE)
    assert (node["closedWhy"], node["nextAt"], entries) == ("it has no schedule", NINE + HOUR, [])


def test_a_schedule_that_can_t_be_read_is_closed_after_a_day() -> None:
    """It is looked at each hour until then, for somebody may mend it, also after its run died. The node says why."""
    why = "its schedule is wrong: "
    node, _ = after({"since": NINE - DAY, "line": "never", **claimed(NINE - HOUR)}, NINE)
    assert str(node["closedWhy"]).startswith(why)
    for hours in (1, 23):
        now = NINE + hours * HOUR
        node, entries = after(node, now)
        assert (node.get("closed"), node["closedAt"], node["nextAt"], entries) == (None, NINE, now + HOUR, [])
    node, _ = after(node, NINE + DAY)
    assert (node["closed"], node["closedAt"], node["nextAt"]) == ("malformed", NINE + DAY, NINE + DAY + KEEP_CLOSED)
    assert str(node["closedWhy"]).startswith(why)


def test_a_schedule_that_can_t_be_read_is_left_alone_while_a_run_holds_it() -> None:
    """The run goes on, and the next look is an hour later."""
    assert evaluate({"line": "never", **claimed()}, SKIPS, NINE, MARGIN) == Later(NINE + HOUR)


# --- while its lock is held


@pytest.mark.parametrize(
    ("of", "fields", "now", "found"),
    [
        (QUEUES, {"expiresAt": NINE + 2 * HOUR}, NINE + HOUR, Attempted(to_text(NINE + HOUR))),
        (SKIPS, {"expiresAt": NINE + 2 * HOUR}, NINE + HOUR, Later(NINE + 2 * HOUR + MARGIN)),
        (QUEUES, {}, NINE + 1, Later(NINE + MINUTE + MARGIN)),
        (
            QUEUES,
            {"expiresAt": NINE + 2 * HOUR, "releasedAt": NINE + 1, "unfinished": None},
            NINE + HOUR,
            Later(NINE + 2 * HOUR),
        ),
        (QUEUES, {"expiresAt": NINE + 2 * HOUR, "paused": True}, NINE + HOUR, Later(NINE + 2 * HOUR + MARGIN)),
    ],
    ids=["a tick waits", "no tick waits", "no tick is due", "a minimum hold", "paused"],
)
def test_only_a_tick_that_waits_for_the_run_is_attempted_while_it_lasts(
    of: JobOptions, fields: dict[str, Any], now: int, found: object
) -> None:
    """All others are looked at when the lock may be free."""
    assert evaluate({**HOURLY, **claimed(**fields), "nextAt": 1}, of, now, MARGIN) == found


@pytest.mark.parametrize("there", [None, 0])
def test_a_run_whose_entry_has_lost_its_time_gets_one(there: object) -> None:
    """If the run dies, a query has to find the entry."""
    node = {**HOURLY, **claimed(), "nextAt": there}
    assert after(node, NINE + 1) == ({**node, "nextAt": NINE + MINUTE + MARGIN}, [])


# --- what is due


@pytest.mark.parametrize(("late", "is_attempted"), [(0, True), (MINUTE, True), (MINUTE + 1, False)])
def test_a_tick_may_start_until_its_grace_is_over(late: int, is_attempted: bool) -> None:
    """The last millisecond is part of it; then it is missed, and the next one is planned."""
    found = evaluate({**HOURLY, "passed": NINE - HOUR, "nextAt": NINE}, SKIPS, NINE + late, MARGIN)
    if is_attempted:
        assert found == Attempted(to_text(NINE))
    else:
        node, entries = after({**HOURLY, "passed": NINE - HOUR, "nextAt": NINE}, NINE + late)
        assert (node["passed"], node["nextAt"], entries) == (NINE, NINE + HOUR, [(to_text(NINE), "missed")])


def test_nothing_is_written_where_nothing_has_come() -> None:
    """The entry is looked at when it says."""
    node = {**HOURLY, **released(NINE + 1), "nextAt": NINE + HOUR}
    assert evaluate(node, SKIPS, NINE + 1, MARGIN) == Later(NINE + HOUR)


def test_a_tick_that_came_while_the_lock_was_held_is_skipped_or_has_waited() -> None:
    """By the overlap policy of its job."""
    node, now = {**HOURLY, **released(NINE + HOUR + 9_000)}, NINE + HOUR + 10_000
    tick = to_text(NINE + HOUR)
    assert evaluate(node, QUEUES, now, MARGIN) == Attempted(tick)
    written, entries = after(node, now)
    assert (written["passed"], entries) == (NINE + HOUR, [(tick, "skipped")])


def test_a_pause_that_is_over_holds_nothing_back() -> None:
    """Its fields stay in the node until somebody resumes the entry. That of its job counts beside it."""
    node = {**HOURLY, "passed": NINE - HOUR, "paused": True, "pausedUntil": NINE}
    assert evaluate(node, SKIPS, NINE, MARGIN) == Attempted(to_text(NINE))
    assert after(node, NINE, hold=PAUSE)[1] == [(to_text(NINE), "skipped")]


# --- how a run that died has ended


@pytest.mark.parametrize(
    ("of", "fields", "pause", "ended", "entries"),
    [
        (SKIPS, {}, None, "abandoned", [(to_text(NINE), "abandoned")]),
        (SKIPS, {}, PAUSE, "abandoned", [(to_text(NINE), "abandoned")]),
        (RERUNS, {}, PAUSE, None, []),
        (RERUNS, {"attempt": 3}, None, "abandoned", [(to_text(NINE), "abandoned")]),
        (RERUNS, {"unfinished": None}, PAUSE, "abandoned", []),
        (SKIPS, {"cancel": NINE}, None, "cancelled", [(to_text(NINE), "cancelled")]),
    ],
    ids=["it died", "paused", "paused and rerun", "the last rerun", "by hand and paused", "cancelled"],
)
def test_a_run_that_died_is_ended_unless_it_is_rerun_after_the_pause(
    of: JobOptions, fields: dict[str, Any], pause: Pause | None, ended: str | None, entries: list[Any]
) -> None:
    """The node says how, and since when its lock is free; the history has the entry of its tick."""
    node, found = after({**HOURLY, **claimed(**fields)}, NINE + 2 * MINUTE, of, pause)
    assert (node.get("outcome"), found) == (ended, entries)
    assert node.get("releasedAt") == (None if ended is None else NINE + MINUTE)
    assert ("unfinished" in node) == (ended is None)


@pytest.mark.parametrize(
    ("fields", "failures"),
    [
        ({"failures": 3}, 4),
        ({"failures": 3, "outcome": "succeeded"}, 1),
        ({"failures": 3, "unfinished": None}, 3),
    ],
    ids=["one more", "after a success", "by hand"],
)
def test_a_run_that_died_counts_as_one_more_failure(fields: dict[str, Any], failures: int) -> None:
    """As the next claim would count it. A success that an older version has recorded beside the number ends the row."""
    assert after({**HOURLY, **claimed(**fields)}, NINE + 2 * MINUTE)[0]["failures"] == failures


# --- what is passed


def test_a_tick_that_was_passed_is_not_recorded_again() -> None:
    """Only those that came since the last look: the history is long, and pruned."""
    node = {**HOURLY, **released(NINE + 1), "passed": NINE + HOUR}
    _, entries = after(node, NINE + 2 * HOUR + 2 * MINUTE)
    assert entries == [(to_text(NINE + 2 * HOUR), "missed")]


@pytest.mark.parametrize(
    ("fields", "pause", "why", "outcomes"),
    [
        ({}, None, "no instance has started it within its grace of 60 s", ["missed"]),
        ({}, PAUSE, "paused by ada (a move)", ["skipped"]),
        (
            claimed(NINE - HOUR, unfinished=None, acquiredAt=NINE - 1, expiresAt=NINE + 9_000, releasedAt=NINE + 9_000),
            None,
            "its lock was held when it was due",
            ["skipped"],
        ),
        (
            {"since": NINE - MINUTE, **claimed(NINE - HOUR, expiresAt=NINE + 9_000)},
            None,
            "its lock was held when it was due",
            ["abandoned", "skipped"],
        ),
    ],
    ids=["missed", "paused", "held", "held by a run that died"],
)
def test_the_only_tick_of_an_instant_is_missed_with_the_reason(
    fields: dict[str, Any], pause: Pause | None, why: str, outcomes: list[str]
) -> None:
    """The node says why it never ran."""
    node, entries = after({**AT_NINE, **fields}, NINE + 2 * MINUTE, hold=pause)
    assert (node["closed"], node["closedWhy"]) == ("missed", why)
    assert [outcome for _, outcome in entries] == outcomes
