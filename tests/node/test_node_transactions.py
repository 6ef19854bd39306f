"""Transactions of the JavaScript SDK."""

from __future__ import annotations

from tests.node.conftest import Play

from rtdb_emulator.pytest_plugin import Rtdb

# A client gives a transaction up after 25 tries. One is in vain for its cache, and one at most for each of the others'.
EACH = 3


def test_eight_clients_count_exactly(play: Play, rtdb: Rtdb) -> None:
    """Each transaction of eight clients that count at once is counted once, and none sees another one's number."""
    committed = play("transactions.counting", clients=8, each=EACH)
    assert [len(numbers) for numbers in committed] == [EACH] * 8
    assert sorted(number for numbers in committed for number in numbers) == list(range(1, 8 * EACH + 1))
    assert rtdb.get("/counter") == 8 * EACH


def test_a_transaction_works_on_whatever_is_there(play: Play, rtdb: Rtdb) -> None:
    """A client finds the hash of every kind of value: it reruns once on what is there, and commits."""
    values: dict[str, object] = {
        "text": "ünï 🏠",
        "double": 1.1e-7,
        "whole": 2**53,
        "list": ["a", None, "c"],
        "keys": {"10": 1, "9": 2, "a": 3, "-1": 4},
        "units": {"\uff5e": 1, "\U0001f600": 2},
        "tree": {"b": {"c": [True, False]}, ".priority": "p", "a": {".value": 1, ".priority": 2}},
        "large": {f"child-{number}": "x" * 20 for number in range(1000)},
    }
    rtdb.set("/", values)
    before = {place: rtdb.get(f"/{place}") for place in values}
    answers = play("transactions.onAnything", places=list(values))
    assert answers == {place: {"committed": True, "tries": [False, True]} for place in values}
    assert {place: rtdb.get(f"/{place}/now") for place in values} == dict.fromkeys(values, True)
    assert {place: rtdb.get(f"/{place}/was") for place in values} == before


def test_a_transaction_ends_as_its_function_and_the_rules_say(play: Play, rtdb: Rtdb) -> None:
    """One that returns nothing leaves all as it is, a refused one says so, and one applied late is one event."""
    rtdb.set_rules({"rules": {".read": True, "open": {".write": True}}})
    rtdb.set("/open", "taken")
    answer = play("transactions.ends")
    assert answer["kept"] == {"committed": False, "value": "taken"}
    assert answer["refused"]["message"] == "permission_denied"
    assert answer["seen"] == ["taken", "mine now"]
    assert rtdb.get() == {"open": "mine now"}
