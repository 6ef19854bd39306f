"""What a node says: a lock, none, or nothing that anybody may act upon."""

from __future__ import annotations

import re
from typing import Annotated

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from tests.unit.lock.records import DAY, EXPIRES, NOW, at, node, released_node, request, slot, taken, verdict

from firecron.base.instants import check_instant, check_spans, to_text
from firecron.errors import Malformed
from firecron.lock.record import FIELDS, LOCK_FIELDS, Idle, LockRecord, Refused, decide, parse

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


def record_of(found: object) -> LockRecord:
    record = parse(found, NOW)
    assert isinstance(record, LockRecord)
    return record


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
        None,
        {},
        {"paused": True},
        {"paused": False},
        {"cancel": 7, "cancelWhy": "x"},
        {"note": "hands off"},
        {"paused": "x", "note": {"by": "me"}},
    ],
)
def test_a_node_without_a_lock_field_is_idle(idle: dict[str, object] | None) -> None:
    """Nothing, `paused` and unknown fields are no lock: nobody holds it, and they are kept."""
    current = parse(idle, NOW)
    assert isinstance(current, Idle)
    assert current.kept == (idle or {})


def test_every_field_of_the_contract_is_known() -> None:
    """A record is known by any of its fields, except those that an operator writes: `paused` and `cancel`."""
    assert {
        "acquired", "acquiredAt", "attempt", "expires", "expiresAt", "fence", "holder", "instance", "instanceId",
        "missedAfter", "missedMore", "missedUntil", "outcome", "releasedAt", "renews", "slot", "succeededSlot",
        "unfinished",
    } == LOCK_FIELDS  # fmt: skip


def test_the_texts_for_people_are_never_read_back() -> None:
    """`acquired` and `expires` may hold anything, and decide nothing."""
    record = record_of(node(acquired=["x"], expires={"y": 1}))
    assert record.expiresAt == EXPIRES


def test_numbers_may_have_a_fraction() -> None:
    """JSON has one kind of number, so a console that writes 1.0 breaks nothing."""
    record = record_of(node(expiresAt=EXPIRES + 0.5, attempt=1.0))
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
    record = record_of(whole)
    assert record.to_json() == whole


@pytest.mark.parametrize("name", ["acquiredAt", "attempt", "fence", "releasedAt"])
@pytest.mark.parametrize("value", [2**53 - 1, 2.0**53, 2**53, 10**400, 1e308, 1 - 2**53, -(2**53)])
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


def test_beyond_the_highest_fence_nobody_acquires() -> None:
    """The next fence could not be read, so the lock is refused with what to set instead; one without a fence is not."""
    current = released_node(fence=2**53 - 2)
    decision = decide(current, request(fenced=True), at(), {})
    assert isinstance(decision, Refused)
    assert decision.reason == "malformed"
    assert decision.detail.startswith(f"its field fence is {2**53 - 2}, beyond what is counted exactly: set it to ")
    assert taken(current)["fence"] == 2**53 - 2


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
    record = record_of(node(expiresAt=NOW + DAY + 60_000, releasedAt=released))
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
    record = record_of(node(**fields))
    assert record.owner == owner


_Instant = Annotated[str, AfterValidator(check_instant)]
_HIGH = 2**53 - 1
_Exact = Annotated[int, Field(gt=-_HIGH, lt=_HIGH)] | Annotated[float, Field(gt=-_HIGH, lt=_HIGH)]


class Model(BaseModel):
    """A record as pydantic reads it."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)

    acquired: object = None
    acquiredAt: _Exact | None = None
    attempt: Annotated[int, Field(ge=0, lt=_HIGH)] | Annotated[float, Field(ge=0, lt=_HIGH)] | None = None
    cancel: object = None
    cancelWhy: object = None
    expires: object = None
    failures: object = None
    expiresAt: int | float
    fence: _Exact | None = None
    holder: str | None = None
    instance: str | None = None
    instanceId: str | None = None
    missedAfter: _Instant | None = None
    missedMore: Annotated[str, AfterValidator(check_spans)] | None = None
    missedUntil: _Instant | None = None
    outcome: str | None = None
    releasedAt: _Exact | None = None
    renews: object = None
    slot: _Instant | None = None
    succeededSlot: _Instant | None = None
    unfinished: _Instant | None = None


def said_of(node: dict[str, object]) -> object:
    """Return the values of a record by pydantic's model, or what is to be said of the first that is wrong."""
    try:
        found = Model.model_validate(node)
    except ValidationError as error:
        first, *others = error.errors()
        name = first["loc"][0]
        kinds = {problem["type"] for problem in (first, *others) if problem["loc"][0] == name}
        if kinds & {"greater_than", "greater_than_equal", "less_than"}:
            example = 1 if name == "attempt" else NOW
            return f"its field {name} is {first['input']!r:.40}, beyond what is counted exactly: set it to {example}"
        # Where a type is wrong, pydantic keeps the value apart.
        shown = f", and is {first['input']!r:.40}" if first["msg"].startswith("Input should be a valid") else ""
        return f"its field {name} is wrong: {first['msg']}{shown}"
    return {name: value for name, value in found.model_dump().items() if value is not None}


_SLOTS = st.sampled_from([slot(), slot(-60), *NO_INSTANTS, "2026-11-18T09:00:00Z/2026-11-18T09:01:00Z", "a/b c"])
_NUMBERS = st.integers(-(2**54), 2**54) | st.floats() | st.sampled_from([_HIGH, -_HIGH, _HIGH - 1, 1 - _HIGH, 10**400])
_VALUES = st.booleans() | _NUMBERS | _SLOTS | st.text() | st.lists(st.integers(), max_size=1) | st.just({"a": 1})


@given(st.dictionaries(st.sampled_from([*FIELDS, "note", "paused"]), _VALUES, max_size=3), st.booleans())
@settings(max_examples=300)
@example({"fence": True, "slot": 1, "expiresAt": "x"}, False)
@example({"attempt": float("inf"), "missedMore": f"{slot()}/{slot()} {slot()}"}, True)
def test_a_record_is_as_strict_as_a_model_and_says_the_same(wrong: dict[str, object], is_whole: bool) -> None:
    """What is read is what a strict model of pydantic reads, with the words of its first problem, in its order."""
    fields = {**(node() if is_whole else {}), **wrong}
    try:
        said: object = LockRecord.read(fields, NOW).to_json()
    except Malformed as error:
        said = str(error)
    assert said == said_of(fields)


def released_by_day(ahead: str) -> dict[str, object]:
    return node(slot=ahead, releasedAt=NOW - 5_000, expiresAt=NOW - 5_000)
