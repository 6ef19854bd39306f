"""An act, as it is stored: its key, its bounds, and which acts have to go."""

from __future__ import annotations

import pytest
from tests.unit.lock.records import NOW

from firecron.lock.audit_log import KEPT, Act, make_act, read_act, surplus


def test_keys_come_in_the_order_of_time() -> None:
    """Acts of one second, too; and those of one millisecond differ by their token."""
    acts = [make_act("pause", "job", "me", NOW + later, None, "a1b2c3") for later in (0, 1, 20, 999, 1_000, 10**9)]
    keys = [act.key for act in acts]
    assert keys == sorted(keys)
    assert keys[0] == "2026-11-18T09:00:00Z-000-a1b2c3"
    assert keys[3] == "2026-11-18T09:00:00Z-999-a1b2c3"


def test_an_act_is_read_as_it_was_written() -> None:
    """Every field comes back, and one that is not there is left out."""
    for why in ("the feed is down", None):
        act = make_act("unlock", "job", "ann@laptop", NOW, why, "a1b2c3")
        assert read_act(act.key, act.to_node()) == act
        assert ("why" in act.to_node()) is (why is not None)
    assert act.to_json() == {
        "key": act.key,
        "act": "unlock",
        "name": "job",
        "who": "ann@laptop",
        "at": "2026-11-18T09:00:00Z",
        "why": None,
    }


@pytest.mark.parametrize("node", [None, 7, "x", ["a"], {"act": 1, "name": 2, "who": {}, "at": "now", "why": 3}])
def test_what_is_no_act_is_empty(node: object) -> None:
    """Whatever somebody has typed there can be read."""
    assert read_act("odd", node) == Act("odd", "", "", "", None)
    assert read_act("odd", node).to_json()["at"] is None


@pytest.mark.parametrize(
    ("why", "stored"),
    [
        ("x" * 501, "x" * 500),
        ("💥" * 251, "💥" * 250),
        ("x" + "💥" * 250, "x" + "💥" * 249),
        ("token=abc123", "token=[redacted]"),
        ("\udc80", "?"),
        ("", None),
        (None, None),
    ],
)
def test_a_reason_is_what_the_rules_take(why: str | None, stored: str | None) -> None:
    """At most 500 UTF-16 units, without secrets and lone surrogates."""
    assert make_act("run", "job", "me", NOW, why, "a1b2c3").why == stored


@pytest.mark.parametrize(("who", "stored"), [("x" * 201, "x" * 200), ("", "unknown"), ("a\ud800", "a?")])
def test_who_is_never_empty(who: str, stored: str) -> None:
    """At most 200 characters."""
    assert make_act("run", "job", who, NOW, None, "a1b2c3").who == stored


@pytest.mark.parametrize("there", [0, 1, KEPT - 1, KEPT, KEPT + 3])
def test_with_one_more_the_newest_are_kept(there: int) -> None:
    """Whatever goes is older than all that stays."""
    keys = [f"{number:03d}" for number in range(there)]
    old = surplus(reversed(keys))  # type: ignore[arg-type]  # in any order
    assert old == keys[: max(0, there + 1 - KEPT)]
    assert len(keys) - len(old) + 1 == min(there + 1, KEPT)
