"""What a claim writes: its own fields, and everything that the record has to remember; and when its lease is over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.lock.records import DAY, MARGIN, NOW, TTL, at, node, released_node, request, slot, taken

from firecron.base.clocks import Moment
from firecron.base.instants import to_text
from firecron.lock.record import NONE_MISSED, LockRecord, Missed, Request, Take, Trust, decide

UNKNOWN = {"note": {"by": "an operator"}, "team": "mail"}
OWN = {
    "acquired": to_text(NOW),
    "acquiredAt": NOW,
    "expires": to_text(NOW + TTL),
    "expiresAt": NOW + TTL,
    "holder": "mine",
    "instance": "i1",
    "instanceId": "rev-1",
}
MISSED: dict[str, object] = {
    "missedAfter": slot(-600),
    "missedMore": f"{slot(-400)}/{slot(-350)} {slot(-300)}/{slot(-250)}",
    "missedUntil": slot(-500),
}
# What every claim of it keeps.
KEPT: dict[str, object] = {"fence": 9, "paused": False, "succeededSlot": slot(-180), **UNKNOWN}
REMEMBERING = released_node(attempt=3, outcome="failed", slot=slot(-60), unfinished=slot(-120), **MISSED, **KEPT)
AT_ONCE = {"expires": to_text(NOW), "expiresAt": NOW, "releasedAt": NOW}

CLAIMS: dict[str, tuple[object, Request, dict[str, object]]] = {
    "nothing there": (None, request(), {}),
    "nothing there, a slot": (None, request(slot=slot()), {"attempt": 1, "slot": slot(), "unfinished": slot()}),
    "nothing there, fenced": (None, request(fenced=True), {"fence": NOW}),
    "an idle node": ({"paused": False, **UNKNOWN}, request(), {"paused": False, **UNKNOWN}),
    "an idle node, a slot and a fence": (
        {"paused": False, **UNKNOWN},
        request(slot=slot(), fenced=True),
        {"attempt": 1, "fence": NOW, "paused": False, "slot": slot(), "unfinished": slot(), **UNKNOWN},
    ),
    "no slot: all that the record knows of slots stays": (
        REMEMBERING,
        request(),
        {**KEPT, **MISSED, "attempt": 3, "slot": slot(-60), "unfinished": slot(-120)},
    ),
    "no slot, and something else that was missed": (
        released_node(slot=slot(-60), missedAfter=slot(-600)),
        request(missed=Missed(missedAfter=slot(-300), missedUntil=slot(-200), missedMore=None)),
        {"missedAfter": slot(-300), "missedUntil": slot(-200), "slot": slot(-60)},
    ),
    "no slot, and nothing that was missed": (
        released_node(slot=slot(-60), missedAfter=slot(-600)),
        request(missed=NONE_MISSED),
        {"slot": slot(-60)},
    ),
    "a new slot, and something that was missed": (
        released_node(slot=slot(-60), missedAfter=slot(-600)),
        request(
            slot=slot(),
            missed=Missed(missedAfter=slot(-300), missedUntil=slot(-250), missedMore=f"{slot(-200)}/{slot(-100)}"),
        ),
        {
            "attempt": 1,
            "missedAfter": slot(-300),
            "missedMore": f"{slot(-200)}/{slot(-100)}",
            "missedUntil": slot(-250),
            "slot": slot(),
            "unfinished": slot(),
        },
    ),
    "momentary: claimed and let go, and nothing is unfinished": (
        REMEMBERING,
        request(slot=slot(), momentary=True),
        {**KEPT, "attempt": 1, "slot": slot(), **AT_ONCE},
    ),
    "momentary, nothing there": (None, request(slot=slot(), momentary=True), {"attempt": 1, "slot": slot(), **AT_ONCE}),
    "momentary without a slot: no other run is touched": (
        released_node(slot=slot(-60), unfinished=slot(-60), attempt=1),
        request(momentary=True),
        {"attempt": 1, "slot": slot(-60), "unfinished": slot(-60), **AT_ONCE},
    ),
    "an idle node with a cancel that means nothing": ({"cancel": 7, "cancelWhy": "x"}, request(), {}),
    "no slot, and the run before was cancelled: its tick is over": (
        released_node(attempt=2, cancel=9, cancelWhy="x", fence=9, slot=slot(-60), unfinished=slot(-60), **UNKNOWN),
        request(fenced=True),
        {"attempt": 2, "fence": NOW, "slot": slot(-60), **UNKNOWN},
    ),
    "no slot, no fence, and the run before was cancelled: its tick is over": (
        released_node(attempt=2, cancel=9, fence=9, slot=slot(-60), unfinished=slot(-60)),
        request(),
        {"attempt": 2, "fence": 9, "slot": slot(-60)},
    ),
    "no slot, and a cancel of an earlier acquisition: the tick stays unfinished": (
        released_node(attempt=2, cancel=8, fence=9, slot=slot(-60), unfinished=slot(-60)),
        request(fenced=True),
        {"attempt": 2, "fence": NOW, "slot": slot(-60), "unfinished": slot(-60)},
    ),
    "momentary, and the run before was cancelled": (
        released_node(attempt=2, cancel=9, fence=9, slot=slot(-60), unfinished=slot(-60)),
        request(momentary=True),
        {"attempt": 2, "fence": 9, "slot": slot(-60), **AT_ONCE},
    ),
    "a new slot, and the run before was cancelled": (
        released_node(attempt=2, cancel=9, fence=9, slot=slot(-60), unfinished=slot(-60)),
        request(slot=slot(), fenced=True),
        {"attempt": 1, "fence": NOW, "slot": slot(), "unfinished": slot()},
    ),
    "a slot that was cancelled, in a node that was edited: it counts as new": (
        released_node(attempt=2, cancel=9, fence=9, slot=slot(-60), unfinished=slot()),
        request(slot=slot(), fenced=True),
        {"attempt": 1, "fence": NOW, "slot": slot(), "unfinished": slot()},
    ),
    "a fence, and no renewals": (None, request(fenced=True, renews=False), {"fence": NOW, "renews": False}),
    "no fence, and no renewals": (None, request(renews=False), {}),
    "a fence and renewals, after a holder without them": (
        released_node(fence=9, renews=False),
        request(fenced=True),
        {"fence": NOW},
    ),
    "a new slot: it is unfinished, and claimed once": (
        REMEMBERING,
        request(slot=slot()),
        {**KEPT, "attempt": 1, "slot": slot(), "unfinished": slot()},
    ),
    "a rerun: one claim more, and the newest slot stays": (
        REMEMBERING,
        request(slot=slot(-120), rerun=True, fenced=True),
        {**KEPT, "attempt": 4, "fence": NOW, "slot": slot(-60), "unfinished": slot(-120)},
    ),
    "a rerun of the newest slot, without a count of claims": (
        released_node(slot=slot(-60), unfinished=slot(-60)),
        request(slot=slot(-60), rerun=True),
        {"attempt": 2, "slot": slot(-60), "unfinished": slot(-60)},
    ),
    "a rerun that was overtaken claims a new slot as anybody does": (
        REMEMBERING,
        request(slot=slot(-30), rerun=True),
        {**KEPT, "attempt": 1, "slot": slot(-30), "unfinished": slot(-30)},
    ),
    "the original's record": (
        {"acquiredAt": NOW - 99_000, "expiresAt": NOW - 9_000, "instanceId": "nest-1"},
        request(),
        {},
    ),
    "a dead holder's record": (
        node(expiresAt=NOW - MARGIN, slot=slot(-60), unfinished=slot(-60), attempt=1),
        request(),
        {"attempt": 1, "failures": 1, "slot": slot(-60), "unfinished": slot(-60)},
    ),
}


@pytest.mark.parametrize(("current", "wanted", "kept"), CLAIMS.values(), ids=CLAIMS.keys())
def test_the_record_of_a_claim(current: object, wanted: Request, kept: dict[str, object]) -> None:
    """A claim writes its own fields, keeps what it doesn't touch, and drops the last run's end."""
    assert taken(current, wanted) == {**OWN, **kept}


FENCES = {
    "none before": (None, NOW),
    "long ago": (7, NOW),
    "just before": (NOW - 1, NOW),
    "this millisecond": (NOW, NOW + 1),
    "in what this clock takes for the future": (NOW + 5, NOW + 6),
    "with a fraction": (NOW + 0.5, NOW + 1),
    "negative": (-5, NOW),
}


@pytest.mark.parametrize(("before", "after"), FENCES.values(), ids=FENCES.keys())
def test_a_fence_rises(before: float | None, after: int) -> None:
    """A fence is the time, or one more than the last where that is not enough."""
    assert taken(released_node(fence=before), request(fenced=True))["fence"] == after


def test_who_wants_no_fence_leaves_it_alone() -> None:
    """A request without a fence carries the node's on, and gives a node without one none."""
    assert taken(released_node(fence=7))["fence"] == 7
    assert "fence" not in taken(released_node())


def claimed(now: Moment) -> Take:
    decision = decide(None, request(), now, {})
    assert isinstance(decision, Take)
    return decision


def test_a_claim_brings_its_lease() -> None:
    """The lease is reckoned from the very reading that made `expiresAt`."""
    now = at(NOW, mono=123.25)
    decision = claimed(now)
    assert decision.trust.reading is now
    assert decision.trust.expires_at == decision.record.expiresAt == NOW + TTL
    assert decision.trust.ends(MARGIN) == 123.25 + TTL - MARGIN


@pytest.mark.parametrize(("late", "trusted"), [(-1, True), (-0.001, True), (0, False), (1, False)])
def test_trust_ends_the_margin_before_the_expiry(late: float, trusted: bool) -> None:
    """A holder trusts its lease until its end less the margin, and not at that instant."""
    decision = claimed(at(NOW, mono=1_000.0))
    assert decision.trust.is_trusted(1_000.0 + TTL - MARGIN + late, MARGIN) is trusted


@pytest.mark.parametrize(
    ("uncertainty", "drift", "stops"),
    [
        (0.0, 0.0, MARGIN),
        (1_000.0, 0.0, MARGIN),
        (1_001.0, 0.0, 1_001.0),
        (0.0, 200e-6, MARGIN),
        (0.0, 20e-3, 1_200.0),
        (400.0, 12e-3, 400.0 + 720.0),
    ],
)
def test_trust_ends_sooner_where_the_clock_may_be_wrong_by_more_than_the_margin(
    uncertainty: float, drift: float, stops: float
) -> None:
    """Where a clock may be wrong by more than the margin at the end of a lease, trust in it ends sooner by that."""
    now = Moment(NOW, 0.0, uncertainty, drift)
    decision = claimed(now)
    assert decision.trust.ends(MARGIN) == pytest.approx(TTL - stops)


DRIFT = 200e-6


@given(
    ttl=st.integers(6_000, DAY),
    error=st.floats(-1, 1),
    rate=st.floats(-1, 1),
    contender=st.floats(-1, 1),
    uncertainty=st.floats(0, MARGIN),
)
def test_a_lease_of_any_length_is_over_before_anybody_takes_the_lock(
    ttl: int, error: float, rate: float, contender: float, uncertainty: float
) -> None:
    # The estimate is wrong by `error` of its uncertainty, and the clock by `rate` of the drift; it read at true time 0.
    reading = Moment(round(NOW + error * uncertainty), 0.0, uncertainty, DRIFT)
    expires_at = reading.server + ttl
    stops_at = Trust(expires_at, reading).ends(MARGIN) / (1 + rate * DRIFT)
    # By the contender's clock, which is wrong by up to the margin; half a millisecond is what rounding the reading
    # costs here.
    record = LockRecord(expiresAt=expires_at)
    assert record.is_live(int(NOW + stops_at + contender * MARGIN) - 2, MARGIN)
