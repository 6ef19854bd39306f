"""What a hold makes of a lock's node, and what is left once it is taken back: pure decisions."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as some
from tests.unit.lock.records import NOW, node, released_node, slot

from firecron.base.clocks import Deadline
from firecron.base.instants import to_text
from firecron.errors import Unavailable
from firecron.lock.database import Database
from firecron.lock.fields import PAUSE_FIELDS, hold_name, noted_pauses, past_pauses, pause_in
from firecron.lock.holds import (
    AT_A_TIME,
    LONGEST_OVER,
    Edits,
    JobHold,
    Node,
    Stays,
    end_of,
    held,
    held_when_declared,
    pauses_in,
    read_holds,
    taken_back,
)
from firecron.settings import load
from firecron.store import Snapshot
from firecron.testing import FakeTiming, MemoryStore

HOUR = 3_600_000
ANN = "ann@laptop"


def hold(hours: float = 2, salt: str = "0000", **fields: Any) -> JobHold:
    """A hold of everything that begins now, for so many hours."""
    by, at = fields.pop("by", ANN), fields.pop("at", NOW)
    return JobHold(hold_name(salt, by, at), by, at, NOW + round(hours * HOUR), **{"why": "migrating", **fields})


LONG, SHORT = hold(2, "aaaa"), hold(1, "bbbb")
BARE: tuple[Node | None, ...] = (None, {"link": "runbook"}, node(fence=NOW), released_node(slot=slot(-60)))


def pause(hours: float | None, **fields: Any) -> Node:
    """An operator's pause, which began an hour ago."""
    until = {} if hours is None else {"pausedUntil": NOW + round(hours * HOUR)}
    return {
        "paused": True,
        "pausedBy": "bob@laptop",
        "pausedAt": NOW - HOUR,
        "pausedWhy": "the feed",
        **until,
        **fields,
    }


def written(found: Node | Stays) -> Node:
    """The node that is to be written."""
    assert not isinstance(found, Stays), found
    return found


def unnoted(fields: Node) -> Node:
    """The node without what it says of pauses that are over."""
    return {name: value for name, value in fields.items() if name != "pausedBefore"}


def without_pause(fields: Node | None) -> Node:
    return {name: value for name, value in (fields or {}).items() if name not in PAUSE_FIELDS}


@pytest.mark.parametrize("before", BARE, ids=["absent", "idle", "held", "released"])
def test_a_hold_pauses_in_the_fields_of_a_pause(before: Node | None) -> None:
    """Nothing else of the node changes; once it is taken back the node is as it was, and says when it was resumed."""
    after = written(held(before, NOW + 5, LONG))
    assert after == {
        **(before or {}),
        "paused": True,
        "pausedBy": ANN,
        "pausedAt": NOW,
        "pausedWhy": "migrating",
        "pausedUntil": NOW + 2 * HOUR,
        "pausedWith": LONG.name,
    }
    assert held(after, NOW + 6, LONG) == Stays()
    assert unnoted(written(taken_back(after, NOW + 7, {LONG.name}))) == {**(before or {}), "resumedAt": NOW + 7}


def test_a_hold_of_a_node_that_is_no_lock_is_named() -> None:
    """A text in the place of a node can't be paused, and nobody can claim it."""
    found = held("gone", NOW, LONG)
    assert isinstance(found, Stays)
    assert "'gone' instead of a lock" in (found.why or "")
    assert taken_back("gone", NOW, {LONG.name}) == Stays()


def test_a_hold_that_is_over_pauses_nothing() -> None:
    """Neither once it has ended, nor once it was taken back."""
    for over in (replace(LONG, until=NOW), replace(LONG, until=0)):
        assert held(None, NOW, over) == Stays("the hold is over")


@pytest.mark.parametrize("more", [{}, {"paused": "see ticket 5"}, {"pausedBy": 7}, {"pausedWhy": "x" * 900}], ids=str)
def test_a_pause_that_ends_before_the_hold_is_put_back(more: Node) -> None:
    """It lies below the hold, and is in force again afterwards: as it was, as far as the rules take what was typed."""
    before: Node = {"slot": slot(-60), **pause(1, **more)}
    after = written(held(before, NOW, LONG))
    force = pause_in(after)
    assert force is not None
    assert force.hold == LONG.name
    back = written(taken_back(after, NOW + 1, {LONG.name}))
    expected = {**before, **({} if "pausedWhy" not in more else {"pausedWhy": "x" * 500})}
    if "pausedBy" in more:
        del expected["pausedBy"]
    assert unnoted(back) == expected
    free = unnoted(written(taken_back(after, NOW + HOUR, {LONG.name})))
    assert free == {"slot": slot(-60), "resumedAt": NOW + HOUR}


@pytest.mark.parametrize("hours", [2, 3, None])
def test_a_pause_that_ends_with_the_hold_or_later_is_left_alone(hours: float | None) -> None:
    """Nothing is written, and its words say why the hold does not hold it."""
    before = pause(hours)
    assert held(before, NOW, LONG) == Stays(f"it is {pause_in(before)}")
    assert taken_back(before, NOW, {LONG.name}) == Stays()


def test_a_pause_that_is_over_is_replaced_and_not_kept() -> None:
    """Nothing lies below the hold then."""
    after = written(held(pause(0), NOW, LONG))
    assert "pausedOver" not in after
    assert after["pausedWith"] == LONG.name


@pytest.mark.parametrize("first", [LONG, SHORT], ids=["long-first", "short-first"])
@pytest.mark.parametrize("back", [LONG, SHORT], ids=["long-back", "short-back"])
@pytest.mark.parametrize("before", [None, pause(0.5)], ids=["free", "paused"])
def test_of_two_holds_the_one_that_ends_last_is_in_force(first: JobHold, back: JobHold, before: Node | None) -> None:
    """Whichever came first, and whichever is taken back first: the other one goes on, then what was there before."""
    (second,) = {LONG, SHORT} - {first}
    (other,) = {LONG, SHORT} - {back}
    both = written(held(written(held(before, NOW, first)), NOW, second))
    assert [one.hold for one in pauses_in(both, NOW)][:2] == [LONG.name, SHORT.name]
    left = written(taken_back(both, NOW + 1, {back.name}))
    assert left == written(held(before, NOW + 1, other))
    free = written(taken_back(left, NOW + 2, {other.name}))
    assert free == (before or {"resumedAt": NOW + 2})


def test_a_hold_that_is_gone_is_not_put_back() -> None:
    """One that was taken back or deleted since, as far as that is known; an operator's pause is."""
    both = written(held(written(held(None, NOW, SHORT)), NOW, LONG))
    assert written(taken_back(both, NOW, {LONG.name}))["pausedWith"] == SHORT.name
    assert written(taken_back(both, NOW, {LONG.name, SHORT.name})) == {"resumedAt": NOW}
    with_pause = written(held(written(held(pause(0.5), NOW, SHORT)), NOW, LONG))
    assert written(taken_back(with_pause, NOW, {LONG.name, SHORT.name})) == pause(0.5)


AFTER: Node = {**written(held(pause(1), NOW, LONG)), "slot": slot(-60)}
BY_HAND: dict[str, Node] = {
    "older-version": {**AFTER, **pause(None, pausedAt=NOW + 9)},
    "same-instant": {**AFTER, "pausedBy": "bob@laptop"},
    "same-person": {**AFTER, "pausedAt": NOW + 9},
    "console": {"paused": True, "slot": slot(-60), "pausedWith": LONG.name, "pausedOver": AFTER["pausedOver"]},
}


@pytest.mark.parametrize("since", BY_HAND)
def test_a_pause_by_somebody_since_stays(since: str) -> None:
    """What an older version or a hand in the console has written is theirs, although `pausedWith` is still there."""
    assert taken_back(BY_HAND[since], NOW + 10, {LONG.name}) == Stays()
    assert taken_back(AFTER, NOW + 10, {LONG.name}) != Stays()


@pytest.mark.parametrize("resumed", [{"paused": False}, {"paused": None}], ids=str)
def test_a_resume_by_somebody_since_stays(resumed: Node) -> None:
    """What lies below is not put back, and nothing is paused."""
    before = {name: value for name, value in {**AFTER, **resumed}.items() if value is not None}
    assert taken_back(before, NOW + 10, {LONG.name}) == Stays()


def test_a_declaration_does_not_hold_what_was_resumed_since() -> None:
    """By `resume`, or in the console, where only the hold is known whose pause it was. What was resumed before is held,
    and by all holds at once.
    """
    resumed: Node = {"slot": slot(-60), "resumedAt": NOW + 1}
    for before in (resumed, {**AFTER, "paused": False}, "text"):
        assert held_when_declared(before, NOW + 2, [LONG]) == Stays()
    by_console = written(held_when_declared({**AFTER, "paused": False}, NOW + 2, [SHORT, LONG]))
    assert [one.hold for one in pauses_in(by_console, NOW)] == [SHORT.name]
    for earlier in (None, {"resumedAt": NOW}, {"resumedAt": "x"}):
        both = written(held(written(held(earlier, NOW + 2, SHORT)), NOW + 2, LONG))
        assert held_when_declared(earlier, NOW + 2, [SHORT, LONG]) == both


@example([(True, 1), (True, 0), (False, 1)], 2)
@example([(True, 1), (True, 0), (False, 1)], 3)
@given(
    some.lists(some.tuples(some.booleans(), some.integers(0, 3)), max_size=12),
    some.one_of(some.none(), some.integers(1, 8)),
)
def test_what_is_left_depends_on_what_was_not_taken_back(acts: list[tuple[bool, int]], paused: int | None) -> None:
    """In any order of holds and unholds the end is the node that the holds which are left make of the first one."""
    holds = [hold(hours, f"{hours:04x}") for hours in (2, 4, 6, 8)]
    before: Node = {"slot": slot(-60), "resumedAt": NOW, **({} if paused is None else pause(paused))}
    found, left = before, list[JobHold]()
    for is_hold, number in acts:
        one = holds[number]
        after = held(found, NOW, one) if is_hold else taken_back(found, NOW, {one.name})
        if not isinstance(after, Stays):
            found = after
            left = [*left, one] if is_hold else [other for other in left if other != one]
    resumes = 0 if paused is None else NOW + paused * HOUR
    pauses = pauses_in(found, NOW)
    # Of those that end before the operator's own pause it need not know.
    needed = {one.name for one in left if one.until > resumes}
    assert needed <= {pause.hold for pause in pauses} - {None} <= {one.name for one in left}
    assert unnoted(without_pause(found)) == without_pause(before)
    if needed:
        assert pauses[0].until == max(one.until for one in left)
    else:
        assert unnoted(found) == before


@given(some.lists(some.tuples(some.booleans(), some.integers(0, 3), some.integers(1, 3_000)), min_size=1, max_size=14))
def test_each_second_of_a_pause_is_noted(acts: list[tuple[bool, int, int]]) -> None:
    """Whatever holds come and are taken back, and whichever end by themselves: those of the last tick that was claimed
    until now, and no others. Of very many the newest.
    """
    holds = [hold(hours) for hours in (0.2, 0.5, 0.9, 2)]
    found: Node = {"slot": slot(-60)}
    now, paused = NOW, set[int]()
    for is_hold, number, seconds in acts:
        one = replace(holds[number], name=hold_name("0000", ANN, now), at=now)
        names = [pause.hold for pause in pauses_in(found, now) if pause.hold is not None]
        after = held(found, now, one) if is_hold else taken_back(found, now, names[number:])
        found = found if isinstance(after, Stays) else after
        ends = max((end_of(pause) for pause in pauses_in(found, now)), default=0)
        paused |= {at for at in range(now, now + seconds * 1_000, 1_000) if at < ends}
        now += seconds * 1_000
    spans = past_pauses(found, now)
    assert {at for start, end in spans for at in range(start, end + 1, 1_000)} == paused


def test_what_is_noted_of_a_pause() -> None:
    """What came after the last tick that was claimed, from its first whole second to its last, the newest ten. Nothing
    is noted of a job that was never claimed, and what was typed there counts as nothing.
    """
    free: Node = {"slot": slot(-60), "releasedAt": NOW - 30_000, "expiresAt": NOW - 30_000}
    during = {**free, **pause(1, pausedAt=NOW + 1)}
    assert noted_pauses(during, NOW + 2_000) == f"{slot(1)}/{slot(1)}"
    assert noted_pauses(during, NOW + 2_001) == f"{slot(1)}/{slot(2)}"
    assert noted_pauses(during, NOW + 500) is None
    assert noted_pauses({**free, "paused": True}, NOW + 1) == f"{slot(-30)}/{slot(0)}"
    assert noted_pauses({**during, "slot": None}, NOW + 9_000) is None
    assert noted_pauses({**during, "slot": slot(2)}, NOW + 2_001) is None
    pairs = [f"{slot(20 * number)}/{slot(20 * number + 10)}" for number in range(12)]
    noted = {**free, "pausedBefore": " ".join(pairs)}
    assert noted_pauses(noted, NOW + HOUR) == " ".join(pairs[2:])
    assert noted_pauses({**during, "pausedBefore": f"{slot(-9)}/{slot(2)}"}, NOW + 4_000) == f"{slot(-9)}/{slot(3)}"
    for typed in ("x", 5, "", "2026-11-18T09:00:00Z", {"a": 1}):
        assert past_pauses({**during, "pausedBefore": typed}, NOW + 2_000) == past_pauses(during, NOW + 2_000)


def test_as_many_pauses_as_a_node_can_keep() -> None:
    """Beyond that the hold that ends first is left out, an operator's pause never. A hold without room says so."""
    found: Node = written(held(pause(0.5), NOW, hold(1, "ffff", why="w" * 500)))
    for number in range(40):
        found = written(held(found, NOW, hold(2 + number, f"{number:04x}", why='"' * 500)))
        assert len(str(found["pausedOver"])) <= LONGEST_OVER
    below = json.loads(str(found["pausedOver"]))
    assert below[-1]["pausedBy"] == "bob@laptop"
    assert 2 < len(below) < 12
    full = held(found, NOW, hold(1, "eeee", why='"' * 500))
    assert full == Stays("it has as many pauses as a node can keep")


@pytest.mark.parametrize(
    "text", ["{", "7", '["x", 5, {"paused": false}]', 5, "[" * 100_000, '{"paused": true}'], ids=repr
)
def test_what_was_typed_below_counts_as_nothing(text: object) -> None:
    """Then nothing is left below the hold."""
    after = {**written(held(None, NOW, LONG)), "pausedOver": text}
    assert [one.hold for one in pauses_in(after, NOW)] == [LONG.name]
    assert written(taken_back(after, NOW, {LONG.name})) == {"resumedAt": NOW}


SCOPES = [
    ({}, "every job", {"mail-digest", "Mail"}, set()),
    ({"leaders": True}, "every job and leader", {"mail-digest", "Mail"}, {"mail-digest", "Mail"}),
    ({"service": "api"}, "the jobs of api", {"mail-digest"}, set()),
    ({"match": "mail-*"}, "the jobs that match mail-*", {"mail-digest"}, set()),
    (
        {"match": "[Mm]ail*", "leaders": True},
        "the jobs and leaders that match [Mm]ail*",
        {"mail-digest", "Mail"},
        {"mail-digest", "Mail"},
    ),
    ({"service": "api", "match": "x*"}, "the jobs of api that match x*", set(), set()),
    ({"service": "api", "leaders": True}, "the jobs and leaders of api", {"mail-digest"}, set()),
]


@pytest.mark.parametrize(("scope", "what", "jobs", "leaders"), SCOPES, ids=[row[1] for row in SCOPES])
def test_what_a_hold_is_for(scope: dict[str, Any], what: str, jobs: set[str], leaders: set[str]) -> None:
    """All jobs, those of a service, those of some names; leaders only if that is said."""
    found = hold(**scope)
    services = {"mail-digest": "api", "Mail": None}
    assert found.what == what
    assert {name for name, service in services.items() if found.covers(name, service)} == jobs
    assert {name for name in services if found.covers_leader(name)} == leaders


def test_a_hold_is_read_as_it_was_written() -> None:
    """With all that it says; and what no version has written is none."""
    full = hold(service="api", match="m*", leaders=True)
    nodes = {full.name: full.to_node(), LONG.name: LONG.to_node()}
    assert read_holds(nodes) == {full.name: full, LONG.name: LONG}
    odd = [5, {}, {**LONG.to_node(), "by": "bob"}, {**LONG.to_node(), "at": NOW + 1}, {**LONG.to_node(), "until": "x"}]
    assert [read_holds({LONG.name: node}) for node in odd] == [{}] * 5
    assert read_holds(None) == read_holds(5) == {}
    assert read_holds({LONG.name: {**LONG.to_node(), "why": 5, "match": 7}})[LONG.name] == replace(LONG, why=None)


def test_a_hold_in_words() -> None:
    """A pause that a hold has written names it, so that somebody knows what to take back."""
    after = written(held(None, NOW, LONG))
    until = to_text(LONG.until)
    assert str(pause_in(after)) == f"paused with hold {LONG.name} by {ANN} until {until} (migrating)"


def test_a_database_that_is_away_is_not_asked_for_each_lock() -> None:
    """After as many failures in a row as are tried at once the others are named without a try; a reply counts anew."""
    timing = FakeTiming(wall=NOW)
    store = MemoryStore(timing.now)
    database = Database(settings=load(), store=store, timing=timing, has_threads=False)
    away = {f"job-{number:02}" for number in range(50)}
    read = store.read

    def refuse(path: str, deadline: Deadline) -> Snapshot:
        if path.removeprefix("cron-locks/") in away:
            raise Unavailable("away")
        return read(path, deadline)

    store.read = refuse  # type: ignore[method-assign]  # for some locks the database is away
    decide = partial(held, hold=LONG)
    told: list[str] = []
    done = Edits(database, told.append).make(dict.fromkeys(away, decide))
    said = [str(done[name]) for name in sorted(away)]
    assert said[:AT_A_TIME] == ["away"] * AT_A_TIME
    assert all("was not tried" in why for why in said[AT_A_TIME:])
    assert told == sorted(away)
    away -= {"job-20"}
    done = Edits(database).make(dict.fromkeys([*away, "job-20"], decide))
    assert (done["job-20"], str(done["job-49"])) == (None, "away")


def test_an_error_that_is_no_answer_ends_all() -> None:
    """A defect in a decision is raised, and not waited for."""

    def broken(node: object, now: int) -> Node:
        raise ZeroDivisionError

    store = MemoryStore(lambda: NOW)
    for has_threads in (False, True):
        database = Database(settings=load(), store=store, has_threads=has_threads)
        with pytest.raises(ZeroDivisionError):
            Edits(database).make({"a": broken, "b": broken, "c": broken})
