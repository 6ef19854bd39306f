"""The conformance kit on every store: in memory, and on the emulator as an administrator."""

from __future__ import annotations

import time
from typing import Any

import pytest

from firecron.base.clocks import Timing
from firecron.locks import LockService
from firecron.settings import Settings
from firecron.testing import LockConformance, MemoryStore, ScheduleConformance
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.firebase_apps import MakeApp


class TestInMemory(LockConformance, ScheduleConformance):
    """The store that ships for tests."""

    @pytest.fixture(autouse=True)
    def _store(self) -> None:
        self.store = MemoryStore(lambda: time.time_ns() // 1_000_000)

    def make_service(self, settings: Settings, timing: Timing) -> LockService:
        return LockService(settings=settings, store=self.store, timing=timing)

    def read(self, path: str) -> object:
        return self.store.get(path)

    def write(self, path: str, node: object) -> None:
        self.store.set(path, node)


class TestOnTheEmulator(LockConformance, ScheduleConformance):
    """The emulator, through an app of firebase-admin with all rights."""

    @pytest.fixture(autouse=True)
    def _database(self, rtdb: Rtdb, make_app: MakeApp) -> None:
        self.rtdb = rtdb
        self.app = make_app
        index: dict[str, Any] = {"$job": {".indexOn": ["nextAt", "failures"]}}
        rtdb.set_rules({"rules": {".read": True, ".write": True, "cron-schedules": index}})

    def make_service(self, settings: Settings, timing: Timing) -> LockService:
        return LockService(self.app(), settings, timing=timing)

    def read(self, path: str) -> object:
        return self.rtdb.get(path)

    def write(self, path: str, node: object) -> None:
        self.rtdb.set(path, node)
