"""`--watch` looks when the database tells of a change, and at the interval where it doesn't."""

from __future__ import annotations

import threading
import time

import pytest

from firecron.cli.commands.locks import LocksView
from firecron.cli.output import Output
from firecron.cli.watching import Changes, watch
from firecron.locks import LockService
from firecron.ops.operator import Operator
from rtdb_emulator.pytest_plugin import Rtdb


def test_a_change_is_shown_at_once(rtdb: Rtdb, capsys: pytest.CaptureFixture[str]) -> None:
    """A lock that changes is a line long before the interval is over."""
    locks = LockService()
    output = Output(as_json=False)
    changes = Changes(locks.database, locks.database.paths.locks)
    nodes = iter([{"paused": True}, None])

    def pause(seconds: float) -> None:
        while not changes.are_watched():
            changes(0.01)
        try:
            rtdb.set("/cron-locks/a", next(nodes))
        except StopIteration:
            raise KeyboardInterrupt from None
        changes(seconds)

    started = time.monotonic()
    with changes.followed():
        watch(output, LocksView(Operator(locks.database), output), 3_600, pause, changes.are_watched)
    assert time.monotonic() - started < 30
    said = capsys.readouterr().out
    assert "a: paused" in said
    assert "a: its node is gone" in said
    assert locks.database.streams.open == 0
    locks.close()


def test_without_a_stream_the_looks_come_at_the_interval(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """With FIRECRON_WATCH=0 nothing is followed, and the pause is the interval."""
    monkeypatch.setenv("FIRECRON_WATCH", "0")
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    locks = LockService()
    with Changes(locks.database, locks.database.paths.locks).followed() as changes:
        changes(2)
        assert not changes.are_watched()
    assert pauses == [2]
    assert len(rtdb.emulator.requests) == 0
    locks.close()


def test_a_flood_of_changes_is_no_flood_of_looks(rtdb: Rtdb) -> None:
    """However fast the node changes, looks are a fifth of a second apart."""
    locks = LockService()
    stop = threading.Event()

    def flood() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            rtdb.set("/cron-locks/a/note", number)

    flooding = threading.Thread(target=flood)
    flooding.start()
    try:
        with Changes(locks.database, locks.database.paths.locks).followed() as changes:
            started = time.monotonic()
            for _ in range(4):
                changes(3_600)
            assert time.monotonic() - started >= 0.8
    finally:
        stop.set()
        flooding.join()
        locks.close()
