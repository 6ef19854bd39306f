"""The acts as people see them, and who acts at a command line."""

from __future__ import annotations

import getpass
import socket

import pytest

from firecron.errors import Malformed
from firecron.lock.audit_log import KEPT
from firecron.locks import LockService
from firecron.ops.operator import Operator
from firecron.ops.views import claimed_user, inspect_acts
from firecron.testing import FakeClock, MemoryStore
from rtdb_emulator.pytest_plugin import Rtdb


def test_the_newest_acts_are_shown() -> None:
    """No more than are kept, oldest first; with a name, those of them that are on it."""
    nodes: dict[str, object] = {
        f"2026-11-18T09:00:00Z-{number:03d}-a1b2c3": {"act": "run", "name": f"job-{number % 2}", "at": number}
        for number in reversed(range(KEPT + 9))
    }
    assert [act.at for act in inspect_acts(nodes)] == list(range(9, KEPT + 9))
    assert [act.at for act in inspect_acts(nodes, "job-0")] == list(range(10, KEPT + 9, 2))


@pytest.mark.parametrize("error", [KeyError("uid"), OSError("no name"), ImportError("pwd")])
def test_a_user_without_a_name_is_unknown(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """In a container the user often has none: the host is named nevertheless."""

    def fail() -> str:
        raise error

    assert claimed_user() == f"{getpass.getuser()}@{socket.gethostname()}"
    monkeypatch.setattr(getpass, "getuser", fail)
    assert claimed_user() == f"unknown@{socket.gethostname()}"


def test_a_caller_says_who_acts() -> None:
    """What a page has authenticated is recorded with each act; without it, the user of this process."""
    clock = FakeClock()
    operator = Operator(LockService(store=MemoryStore(clock.now), timing=clock, has_threads=False).database)
    operator.pause("job", "a", by="ops@example.com")
    clock.advance(1)
    operator.resume("job", "b", by="ops@example.com")
    clock.advance(1)
    operator.record("forget", "job", "c", by="ops@example.com")
    clock.advance(1)
    operator.record("run", "job")
    assert [(act.act, act.who, act.why) for act in operator.acts("job")] == [
        ("pause", "ops@example.com", "a"),
        ("resume", "ops@example.com", "b"),
        ("forget", "ops@example.com", "c"),
        ("run", claimed_user(), None),
    ]


def test_acts_that_are_none_are_malformed(rtdb: Rtdb) -> None:
    """A text in their place is named; a pause is written nevertheless, and puts it right."""
    rtdb.set("/cron-acts", "text")
    operator = Operator(LockService().database)
    with pytest.raises(Malformed, match="cron-acts"):
        operator.acts()
    operator.pause("job")
    assert [act.act for act in operator.acts()] == ["pause"]
