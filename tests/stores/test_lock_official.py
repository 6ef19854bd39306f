"""The conformance kit on the emulator of the Firebase CLI, where one was running before the tests."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest
import requests

from firecron.base.clocks import Timing
from firecron.locks import LockService
from firecron.settings import Settings
from firecron.testing import LockConformance

# Read before any test has the fixture that sets it.
HOST = os.environ.get("FIREBASE_DATABASE_EMULATOR_HOST")
NAMESPACE = "demo-firecron"

if not HOST:
    pytest.skip("no official emulator: FIREBASE_DATABASE_EMULATOR_HOST was not set", allow_module_level=True)


class TestOnTheOfficialEmulator(LockConformance):
    """The emulator of the Firebase CLI, where one was running before the tests."""

    @pytest.fixture(autouse=True)
    def _environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("FIRECRON_DATABASE_URL", raising=False)

    def make_service(self, settings: Settings, timing: Timing) -> LockService:
        url = f"http://{HOST}/?ns={NAMESPACE}"
        return LockService(settings=replace(settings, database_url=url), timing=timing)

    def read(self, path: str) -> object:
        return self.call("GET", path)

    def write(self, path: str, node: object) -> None:
        self.call("PUT", path, json.dumps(node))

    def call(self, method: str, path: str, body: str | None = None) -> object:
        reply = requests.request(
            method,
            f"http://{HOST}/{path}.json",
            params={"ns": NAMESPACE},
            data=body,
            headers={"Authorization": "Bearer owner"},
            timeout=30,
        )
        reply.raise_for_status()
        return reply.json()
