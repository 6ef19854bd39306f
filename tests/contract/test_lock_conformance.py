"""The conformance kit on every store: in memory, and on the emulator as an administrator and under rules."""

from __future__ import annotations

import time
from typing import ClassVar

import pytest
from tests.contract.conftest import MakeApp

from firecron.lock import LockService
from firecron.refusal import Refusal
from firecron.settings import Settings
from firecron.testing import LockConformance, MemoryStore
from firecron.timing import Timing
from rtdb_emulator.pytest_plugin import Rtdb

UID = "firecron"
ONLY_UID = {".read": f"auth.uid === '{UID}'", ".write": f"auth.uid === '{UID}'"}
RULES = {"rules": dict.fromkeys(("cron-locks", "cron-instances", "conformance"), ONLY_UID)}


class TestInMemory(LockConformance):
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


class TestOnTheEmulator(LockConformance):
    """The emulator, through an app of firebase-admin with all rights."""

    options: ClassVar[dict[str, object]] = {}

    @pytest.fixture(autouse=True)
    def _database(self, rtdb: Rtdb, make_app: MakeApp) -> None:
        self.rtdb = rtdb
        self.app = make_app

    def make_service(self, settings: Settings, timing: Timing) -> LockService:
        return LockService(self.app(None, **self.options), settings, timing=timing)

    def read(self, path: str) -> object:
        return self.rtdb.get(path)

    def write(self, path: str, node: object) -> None:
        self.rtdb.set(path, node)


class TestUnderRules(TestOnTheEmulator):
    """The emulator, as a user whom the rules let at the lock's nodes and who is no administrator."""

    options: ClassVar[dict[str, object]] = {"databaseAuthVariableOverride": {"uid": UID}}

    @pytest.fixture(autouse=True)
    def _rules(self, _database: None) -> None:
        self.rtdb.set_rules(RULES)

    def test_the_rules_keep_others_out(self) -> None:
        """The rules of this class do tell the user from others, who are denied and leave no node."""
        stranger = self.app(databaseAuthVariableOverride={"uid": "somebody"})
        answer = LockService(stranger).acquire(self.name, 60)
        assert isinstance(answer, Refusal)
        assert answer.reason == "denied"
        assert self.rtdb.get() is None
