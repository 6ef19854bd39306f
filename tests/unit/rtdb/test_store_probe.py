"""What anyone may read, as the database answers without credentials."""

from __future__ import annotations

import socket

import pytest

from firecron.base.clocks import Deadline, SystemTiming
from firecron.errors import Unavailable
from firecron.rtdb.store import may_read
from firecron.rtdb.target import Target
from rtdb_emulator.pytest_plugin import Rtdb


def deadline() -> Deadline:
    return Deadline.after(SystemTiming(), 10)


def target(rtdb: Rtdb) -> Target:
    return Target(rtdb.emulator.url, {"ns": rtdb.namespace}, None)


def test_the_rules_of_the_database_decide(rtdb: Rtdb) -> None:
    """What the rules of this very database close can't be read, everything else can, there or not."""
    rtdb.set_rules({"rules": {"open": {".read": True}}})
    assert may_read(target(rtdb), "open/a b", deadline())
    assert not may_read(target(rtdb), "closed", deadline())


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_is_one_by_either_status(rtdb: Rtdb, status: int) -> None:
    """Whether it is called unauthorized or forbidden, it can't be read."""
    with rtdb.faults.answer(status, path="/cron-locks"):
        assert not may_read(target(rtdb), "cron-locks", deadline())


def test_another_answer_tells_nothing(rtdb: Rtdb) -> None:
    """An error of the database is neither a refusal nor a permission."""
    with rtdb.faults.answer(503, path="/cron-locks"), pytest.raises(Unavailable, match="RTDB answered 503"):
        may_read(target(rtdb), "cron-locks", deadline())


def test_a_database_that_can_not_be_reached_tells_nothing() -> None:
    """A host that doesn't answer is named; a database's own URL needs no namespace."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nothing listens there
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(Unavailable, match=f"RTDB can't be reached at {url}"):
            may_read(Target(url, {}, None), "cron-locks", deadline())
