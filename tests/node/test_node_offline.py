"""The JavaScript SDK goes offline, and comes back."""

from __future__ import annotations

from tests.node.conftest import Play

from rtdb_emulator.pytest_plugin import Rtdb


def test_what_is_written_offline_is_stored_in_its_order(play: Play, rtdb: Rtdb) -> None:
    """Writes of a client that is offline are seen by itself at once, by the database when it is back, and by its
    listener no second time.
    """
    answer = play("offline.writesOffline")
    assert answer["offline"] == [
        None,
        {"text": "one"},
        {"text": "one", "mood": "fine"},
        {"text": "two", "mood": "fine"},
    ]
    assert answer["stored"] is None
    assert answer["after"] == []
    assert rtdb.get() == {"note": {"text": "two", "mood": "fine"}}


def test_a_listener_that_is_back_hears_what_has_changed(play: Play, rtdb: Rtdb) -> None:
    """After a lost connection a listener hears the new value, the new children, and nothing of what is as it was."""
    rtdb.set("/", {"changed": "before", "same": {"inner": 1}, "list": {"a": 1, "b": 2}})
    assert play("offline.comesBack") == {
        "changed": ["before", "after"],
        "same": [{"inner": 1}],
        "list": ["a", "b", "c"],
    }


def test_a_transaction_that_was_begun_offline_counts_on_what_is_there(play: Play, rtdb: Rtdb) -> None:
    """A transaction of a client that is offline is rerun on the value that the database has when it is back."""
    rtdb.set("/counter", 1)
    assert play("offline.transactionOffline") == "ok"
    assert rtdb.get("/counter") == 101


def test_what_a_lost_answer_comes_to(play: Play, rtdb: Rtdb) -> None:
    """If the connection is lost after a write, before its answer, the client sends it again, and an increment counts
    twice; a transaction isn't sent again, and ends with an error although it was committed.
    """
    lost = [rtdb.faults.drop_reply(wire="socket", method="PUT", path=path) for path in ("/counter", "/claim")]
    answer = play("offline.lostAnswers")
    assert [fault.hits for fault in lost] == [1, 1]
    assert answer["counted"] == "ok"
    assert answer["claimed"]["message"] == "disconnect"
    assert rtdb.get() == {"counter": 2, "claim": "mine"}
