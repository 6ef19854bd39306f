"""The JavaScript SDK beside REST and its streams."""

from __future__ import annotations

from collections import Counter

from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.node.conftest import Play

EACH = 25


def test_everybody_sees_one_order(play: Play, rtdb: Rtdb) -> None:
    """What two clients and REST write to one node at once, a listener and a stream see in the same order, all of it."""
    answer = play("rest.oneOrder", each=EACH)
    heard = answer["heard"]
    assert heard == answer["streamed"]
    assert heard[0] is None
    assert Counter(heard[1:]) == Counter(
        f"{name} {number}" for name in ("one", "two", "rest") for number in range(EACH)
    )
    for name in ("one", "two", "rest"):
        assert [value for value in heard[1:] if value.startswith(name)] == [
            f"{name} {number}" for number in range(EACH)
        ]
    assert rtdb.get("/node") == heard[-1]
