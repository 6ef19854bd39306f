"""What the JavaScript SDK leaves for its end: onDisconnect, and `.info`."""

from __future__ import annotations

import time
from typing import Any

from tests.node.conftest import Begin
from tests.node.nodejs import Stage

from rtdb_emulator import Emulator
from rtdb_emulator.pytest_plugin import Rtdb


def test_what_was_left_is_written_at_the_end_once(begin: Begin, rtdb: Rtdb) -> None:
    """A client that goes has its sets, updates and removals done, cancelled ones not, and none is left for the next
    time.
    """

    def ada() -> dict[str, Any]:
        found = rtdb.get("/users/ada")
        assert isinstance(found, dict)
        return found

    with begin("presence.leaves") as scene:
        assert scene.hear() == "there"
        assert ada() == {"online": True, "device": "phone", "score": 1}
        began = time.time_ns() // 1_000_000
        scene.tell("leave")
        assert scene.hear() == "gone"
        gone = ada()
        assert began <= gone.pop("lastSeen") <= time.time_ns() // 1_000_000
        assert gone == {"online": False, "score": 3}
        scene.tell("come back")
    # It has gone for good: that time nothing was left.
    assert ada() | {"lastSeen": 0} == {"online": True, "score": 3, "lastSeen": 0}
    assert rtdb.get("/users/bob") is None


def test_a_killed_client_is_seen_to_go(begin: Begin, rtdb: Rtdb, node_executable: str) -> None:
    """A client whose process is killed is taken out of the list of those who are there, and the others stay."""
    doomed = Stage(node_executable)
    try:
        with begin("presence.watches") as watching:
            assert watching.hear() == []
            rtdb.set("/present/bob", True)
            assert watching.hear() == ["bob"]
            with doomed.play("presence.isThere", rtdb.emulator.host, rtdb.namespace, name="ada") as scene:
                assert scene.hear() == "ada"
                assert watching.hear() == ["ada", "bob"]
                doomed.close()
                assert watching.hear() == ["bob"]
                scene.abandon()
            watching.tell("enough")
    finally:
        doomed.close()
    assert rtdb.get("/present") == {"bob": True}


def test_a_client_knows_of_its_connection(stage: Stage) -> None:
    """`.info` says whether the client is connected, and how far the server's clock is from its own."""
    hour = 3_600_000
    with (
        Emulator(now=lambda: time.time_ns() // 1_000_000 + hour) as emulator,
        stage.play("presence.info", emulator.host, "demo") as scene,
    ):
        answer = scene.end()
    assert answer["connected"] == [False, True, False]
    assert hour - 30_000 < answer["offset"] < hour + 30_000
