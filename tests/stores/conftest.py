"""Apps of firebase-admin, and the two orders in which a database may look at a stale write, for the tests of stores."""

from __future__ import annotations

from typing import cast

import pytest
from tests.emulator.conftest import make_app

from rtdb_emulator.pytest_plugin import Rtdb

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
