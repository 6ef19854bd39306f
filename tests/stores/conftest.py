"""Apps of firebase-admin, the two orders in which a database may look at a stale write, and the sockets of clients, for
the tests of stores.
"""

from __future__ import annotations

import socket
from typing import Any, cast

import pytest
from tests.stores.test_lock_faults import Bench, make_patient

from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.firebase_apps import make_app

__all__ = ["make_app"]


@pytest.fixture(params=["etag-first", "rules-first"])
def loser_sends(rtdb: Rtdb, request: pytest.FixtureRequest) -> str:
    """What a loser has to send to learn that it is one: a stale write that the rules forbid as well is 412 in one
    order, and 401 in the other, where only a read shows why.
    """
    rules_first = cast(str, request.param) == "rules-first"
    if rules_first:
        rtdb.faults.rules_first(times=None)
    return "PUT GET" if rules_first else "PUT"


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> list[socket.socket]:
    """The sockets of all connections that the test's clients make: one that is dropped, and not closed, stays here."""
    found: list[socket.socket] = []
    connect = socket.socket.connect

    def note(sock: socket.socket, address: Any) -> None:
        found.append(sock)
        connect(sock, address)

    monkeypatch.setattr(socket.socket, "connect", note)
    return found


@pytest.fixture
def patient(rtdb: Rtdb) -> Bench:
    """A service that has time for a busy machine."""
    return make_patient(rtdb)
