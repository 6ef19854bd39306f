"""The conformance kit under the rules that are shipped: what the lock may do by its contract, they let it do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pytest
from tests.stores.least_privilege import OVERRIDE, RULES

from firecron.base.clocks import Timing
from firecron.cli.commands.doctor import adapted, shipped
from firecron.locks import LockService
from firecron.settings import Settings
from firecron.testing import LockConformance, ScheduleConformance
from firecron.testing.conformance.kit import TTL, refused, taken
from rtdb_emulator import Emulator
from rtdb_emulator.clock import wall_clock
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.firebase_apps import MakeApp


class Jumps:
    """The server's time: this machine's, as far ahead of it as all services together have jumped."""

    def __init__(self) -> None:
        self.starts: dict[Timing, float] = {}

    def follow(self, timing: Timing) -> None:
        self.starts.setdefault(timing, timing.mono() - wall_clock())

    def __call__(self) -> int:
        now = wall_clock()
        return now + sum(max(0, int(timing.mono() - start) - now) for timing, start in self.starts.items())


@pytest.fixture(scope="module")
def jumps() -> Jumps:
    return Jumps()


@pytest.fixture(scope="module")
def rtdb_emulator(jumps: Jumps) -> Iterator[Emulator]:
    with Emulator(now=jumps) as emulator:
        yield emulator


class TestUnderTheRules(LockConformance, ScheduleConformance):
    """The emulator, as the user whom the rules are for. The server's time jumps with the services, as rules read it."""

    @pytest.fixture(autouse=True)
    def _database(self, rtdb: Rtdb, make_app: MakeApp, jumps: Jumps) -> Iterator[None]:
        self.rtdb, self.app, self.jumps = rtdb, make_app, jumps
        rtdb.set_rules(RULES)
        yield
        jumps.starts.clear()

    def make_service(self, settings: Settings, timing: Timing) -> LockService:
        if settings.prefix:
            self.rtdb.set_rules(adapted(shipped(), settings.prefix, str(OVERRIDE["uid"])))
        self.jumps.follow(timing)
        return LockService(self.app(databaseAuthVariableOverride=dict(OVERRIDE)), settings, timing=timing)

    def read(self, path: str) -> object:
        return self.rtdb.get(path)

    def write(self, path: str, node: object) -> None:
        self.rtdb.set(path, node)

    def test_a_prefix_is_above_every_node(self) -> None:
        """Under rules that are nested below a prefix, a lock below it is the user's, and one beside it is denied."""
        lease = taken(self.service(prefix="ops/cron").acquire(self.name, TTL))
        assert self.rtdb.get(f"ops/cron/cron-locks/{self.name}/holder") == lease.holder
        beside = LockService(self.app(databaseAuthVariableOverride=dict(OVERRIDE)))
        refused(beside.acquire(self.name, TTL), "denied")


class TestUnderTheRulesAskedFirst(TestUnderTheRules):
    """The same on a database that asks the rules about a stale write before it compares the ETag: losers get 401s."""

    sections: ClassVar[int] = 10  # a crowd by itself is tried above

    @pytest.fixture(autouse=True)
    def _order(self, rtdb: Rtdb) -> None:
        rtdb.faults.rules_first(times=None)
