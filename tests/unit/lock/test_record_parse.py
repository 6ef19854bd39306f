"""What a node says: a lock, none, or nothing that anybody may act upon."""

from __future__ import annotations

import re

import pytest
from tests.unit.lock.records import DAY, EXPIRES, NOW, at, node, released_node, request, slot, taken, verdict

from firecron.base.instants import to_text
from firecron.errors import Malformed
from firecron.lock.record import LOCK_FIELDS, Idle, LockRecord, Refused, decide, parse

NUMBERS = ("acquiredAt", "attempt", "expiresAt", "fence", "releasedAt")
TEXTS = ("holder", "instance", "instanceId", "outcome")
SLOTS = ("missedAfter", "missedUntil", "slot", "succeededSlot", "unfinished")

NO_INSTANTS = (
    "",
    "tomorrow",
    "2026-11-18",
    "2026-11-18T09:00:00",
    "2026-11-18T09:00:00.000Z",
    "2026-11-18T09:00:00+00:00",
    "2026-11-18T09:00:00z",
    "2026-11-18 09:00:00Z",
    "2026-02-30T09:00:00Z",
    "2026-13-01T09:00:00Z",
    "2026-11-18T09:60:00Z",
    " 2026-11-18T09:00:00Z",
    "2026-11-18T09:00:00Z\n",
    "２026-11-18T09:00:00Z",  # noqa: RUF001  # a digit, but not one of ASCII
)

WRONG_NUMBERS: tuple[object, ...] = ("1794992400123", "", True, False, {}, [1], {".sv": "timestamp"})
WRONG_TEXTS: tuple[object, ...] = (1, 1.5, True, {}, ["a"])
WRONG_SLOTS: tuple[object, ...] = (NOW, True, {}, *NO_INSTANTS)

MALFORMED: list[tuple[str, object, str]] = [
    *[("whole node", broken, type(broken).__name__) for broken in ("locked", 1, 1.5, True, False, [], ["a"])],
    *[(f"{name}={wrong!r}", node(**{name: wrong}), name) for name in NUMBERS for wrong in WRONG_NUMBERS],
    *[(f"{name}={wrong!r}", node(**{name: wrong}), name) for name in TEXTS for wrong in WRONG_TEXTS],
    *[(f"{name}={wrong!r}", node(**{name: wrong}), name) for name in SLOTS for wrong in WRONG_SLOTS],
    ("no expiresAt", node(expiresAt=None), "expiresAt"),
    *[(f"only {name}", {name: value}, "expiresAt") for name, value in node(expiresAt=None).items()],
    ("only a slot", {"slot": slot()}, "expiresAt"),
    ("only an unfinished slot", {"unfinished": slot(), "paused": True}, "expiresAt"),
    ("only an outcome", {"outcome": "succeeded", "note": 1}, "expiresAt"),
]


@pytest.mark.parametrize(
    ("broken", "named"), [case[1:] for case in MALFORMED], ids=[f"{case[0]}: {case[2]}" for case in MALFORMED]
)
def test_what_is_no_record_is_refused_to_everybody(broken: object, named: str) -> None:
    """A node that isn't understood is malformed, the refusal names the field, and nobody takes it."""
    with pytest.raises(Malformed, match=named):
        parse(broken, NOW)
    decision = decide(broken, request(slot=slot(), fenced=True), at(NOW + DAY), {})
    assert isinstance(decision, Refused)
    assert decision.reason == "malformed"
    assert named in decision.detail


@pytest.mark.parametrize(
    "idle",
    [
        {},
        {"paused": True},
        {"paused": False},
        {"cancel": 7, "cancelWhy": "x"},
        {"note": "hands off"},
        {"paused": "x", "note": {"by": "me"}},
    ],
)
def test_a_node_without_a_lock_field_is_idle(idle: dict[str, object]) -> None:
    """`paused` and unknown fields are no lock: nobody holds it."""
    current = parse(idle, NOW)
    assert isinstance(current, Idle)
    assert current.kept == idle


def test_nothing_there_is_idle() -> None:
    """An absent node is a free lock with nothing to keep."""
    current = parse(None, NOW)
    assert isinstance(current, Idle)
    assert current.kept == {}


def test_every_field_of_the_contract_is_known() -> None:
    """A record is known by any of its fields, except those that an operator writes: `paused` and `cancel`."""
    assert {
        "acquired",
        "acquiredAt",
        "attempt",
        "expires",
        "expiresAt",
        "fence",
        "holder",
        "instance",
        "instanceId",
        "missedAfter",
        "missedMore",
        "missedUntil",
        "outcome",
        "releasedAt",
        "renews",
        "slot",
        "succeededSlot",
        "unfinished",
    } == LOCK_FIELDS


def test_the_texts_for_people_are_never_read_back() -> None:
    """`acquired` and `expires` may hold anything, and decide nothing."""
    record = parse(node(acquired=["x"], expires={"y": 1}), NOW)
    assert isinstance(record, LockRecord)
    assert record.expiresAt == EXPIRES


def test_numbers_may_have_a_fraction() -> None:
    """JSON has one kind of number, so a console that writes 1.0 breaks nothing."""
    record = parse(node(expiresAt=EXPIRES + 0.5, attempt=1.0), NOW)
    assert isinstance(record, LockRecord)
    assert record.expiresAt == EXPIRES + 0.5


def test_a_record_is_stored_as_it_was_read() -> None:
    """Reading and storing loses nothing, unknown fields included."""
    whole = node(
        attempt=2,
        fence=7,
        outcome="failed",
        paused=False,
        releasedAt=NOW,
        slot=slot(),
        unfinished=slot(),
        note={"by": "an operator", "tags": [1, 2]},
    )
    record = parse(whole, NOW)
    assert isinstance(record, LockRecord)
    assert record.to_json() == whole


@pytest.mark.parametrize("name", ["acquiredAt", "attempt", "fence", "releasedAt"])
@pytest.mark.parametrize("value", [2**53 - 1, 2.0**53, 2**53, 10**400, 1e308, -(2**53)])
def test_a_number_that_is_not_counted_exactly_is_malformed(name: str, value: float) -> None:
    """From 2^53 on numbers are no longer exact, so a fence would rise no more; the error says what to set instead."""
    with pytest.raises(Malformed, match=rf"its field {name} is {re.escape(f'{value!r:.40}')}, .* set it to") as told:
        parse(node(**{name: value}), NOW)
    remedy = int(str(told.value).rsplit(" ", 1)[1])
    assert isinstance(parse(node(**{name: remedy}), NOW), LockRecord)


def test_the_highest_fence_has_a_higher_one() -> None:
    """A fence just below what is counted exactly is one, and the next holder's is higher and readable."""
    after = taken(released_node(fence=2**53 - 3), request(fenced=True))
    assert after["fence"] == 2**53 - 2
    assert isinstance(parse(after, NOW), LockRecord)


def test_no_attempt_is_negative() -> None:
    """A negative count would let a slot be claimed more often than it may."""
    assert isinstance(parse(node(attempt=0), NOW), LockRecord)
    with pytest.raises(Malformed, match=r"its field attempt is -1, .* set it to 1$"):
        parse(node(attempt=-1), NOW)


@pytest.mark.parametrize(("late", "word"), [(-1, "malformed"), (0, "slot_done"), (1, "slot_done")])
def test_a_slot_more_than_a_day_ahead_is_malformed(late: int, word: str) -> None:
    """A slot a day ahead is a slot; a millisecond further, it would block every tick until then."""
    ahead = slot(86_400)
    now = at(NOW + late)
    assert verdict(decide(released_by_day(ahead), request(slot=slot()), now, {})) == word


@pytest.mark.parametrize(("late", "is_stuck"), [(-1, True), (0, False), (1, False)])
@pytest.mark.parametrize("released", [None, NOW - 5_000])
def test_a_lock_is_stuck_if_it_expires_more_than_a_day_and_a_minute_ahead(
    late: int, is_stuck: bool, released: int | None
) -> None:
    """The longest ttl is a day, and a minute is more than clocks may differ: no lease of firecron's is so long."""
    record = parse(node(expiresAt=NOW + DAY + 60_000, releasedAt=released), NOW)
    assert isinstance(record, LockRecord)
    assert record.is_stuck(NOW + late) is is_stuck


def test_the_refusal_of_a_slot_far_ahead_names_it() -> None:
    """The operator is told which slot it is."""
    with pytest.raises(Malformed, match=to_text(NOW + 2 * DAY)):
        parse(node(slot=slot(2 * 86_400)), NOW)


@pytest.mark.parametrize(
    ("fields", "owner"),
    [
        ({}, "rev-2/i2"),
        ({"instance": None}, "rev-2"),
        ({"instanceId": None}, "i2"),
        ({"instance": None, "instanceId": None}, "an unknown instance"),
    ],
)
def test_an_owner_is_described_with_what_there_is(fields: dict[str, object], owner: str) -> None:
    """The owner's name is made of the fields that the record has."""
    record = parse(node(**fields), NOW)
    assert isinstance(record, LockRecord)
    assert record.owner == owner


def released_by_day(ahead: str) -> dict[str, object]:
    return node(slot=ahead, releasedAt=NOW - 5_000, expiresAt=NOW - 5_000)
