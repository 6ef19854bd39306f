"""The pytest fixture `rtdb`: an empty database for each test, on one emulator for the whole test process.

    def test_counts(rtdb):
        app = firebase_admin.initialize_app(options={"databaseURL": rtdb.url}, name=rtdb.namespace)
        db.reference("visits", app).set(1)
        assert rtdb.get("/visits") == 1

While a test uses the fixture, `FIREBASE_DATABASE_EMULATOR_HOST` names the emulator and `FIRECRON_DATABASE_URL` the
test's database. Under pytest-xdist each worker has an emulator of its own. The emulator is loaded for the first test
that needs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import pytest

from rtdb_emulator.pytest_rules import (
    pytest_addoption,
    pytest_configure,
    pytest_runtest_makereport,
    pytest_sessionfinish,
    pytest_terminal_summary,
    pytest_testnodedown,
    remember,
)

__all__ = [
    "Rtdb",
    "pytest_addoption",
    "pytest_configure",
    "pytest_runtest_makereport",
    "pytest_sessionfinish",
    "pytest_terminal_summary",
    "pytest_testnodedown",
    "rtdb",
    "rtdb_emulator",
    "rtdb_namespace",
]

if TYPE_CHECKING:
    from rtdb_emulator.emulator import Emulator
    from rtdb_emulator.http.faults import Faults
    from rtdb_emulator.http.matching import Criteria

# Seconds. `ListenerRegistration.close()` of the Python SDK returns when the stream sends its next event.
KEEP_ALIVE = 0.2

_OPEN = {"rules": {".read": True, ".write": True}}

_numbers = count(1)


@dataclass(frozen=True)
class Rtdb:
    """A test's own database, made by the fixture `rtdb`.

    Args:
        emulator: The emulator of this test process.
        namespace: The database's name.
    """

    emulator: Emulator
    namespace: str

    @property
    def url(self) -> str:
        """The `databaseURL`."""
        return self.emulator.database_url(self.namespace)

    @property
    def faults(self) -> Faults:
        """The emulator's faults; they end with the test."""
        return self.emulator.faults

    def get(self, path: str = "/") -> object:
        """Return the value at a path, past all rules.

        Args:
            path: The path, such as `/visits`.
        """
        return self.emulator.get(self.namespace, path)

    def set(self, path: str, value: object) -> None:
        """Store a value at a path, past all rules.

        Args:
            path: The path, such as `/visits`.
            value: The value, as JSON's types in Python; None deletes.
        """
        self.emulator.set(self.namespace, path, value)

    def set_rules(self, rules: str | Mapping[str, object] | Path) -> None:
        """Replace the rules of this database.

        Args:
            rules: The text of a rules file, the same as a mapping, or the file's path.
        """
        self.emulator.set_rules(self.namespace, rules)

    def count(self, **criteria: Unpack[Criteria]) -> int:
        """Return how many requests to this database fit: `rtdb.count(method="PUT", path="/visits")`.

        Args:
            criteria: `method`, `path` (wildcards as in "/cron-locks/*"), `header` (name and value), `port` and `wire`;
                a request fits if it agrees with all that are given.
        """
        criteria["namespace"] = self.namespace
        return self.emulator.requests.count(**criteria)


@pytest.fixture(scope="session")
def rtdb_emulator() -> Iterator[Emulator]:
    """The emulator of this test process."""
    # Imported here, not above: pytest loads this plugin in every run, also in runs that never need it.
    from rtdb_emulator import Emulator

    with Emulator(keep_alive=KEEP_ALIVE) as emulator:
        yield emulator


@pytest.fixture
def rtdb_namespace() -> str:
    """The name of the test's database; override it for code that has a production `databaseURL` of its own."""
    return f"test-{next(_numbers)}"


@pytest.fixture
def rtdb(
    rtdb_emulator: Emulator, rtdb_namespace: str, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> Iterator[Rtdb]:
    """An empty Realtime Database; `FIREBASE_DATABASE_EMULATOR_HOST` and `FIRECRON_DATABASE_URL` lead to it."""
    database = Rtdb(rtdb_emulator, rtdb_namespace)
    # Before the test too: a request that a fault of the last test had delayed may have arrived since.
    _reset(database)
    monkeypatch.setenv("FIREBASE_DATABASE_EMULATOR_HOST", rtdb_emulator.host)
    monkeypatch.setenv("FIRECRON_DATABASE_URL", database.url)
    rtdb_emulator.requests.clear()
    rtdb_emulator.refusals.clear()
    yield database
    rtdb_emulator.faults.clear()
    rtdb_emulator.drop(rtdb_namespace)
    remember(pytestconfig, rtdb_emulator)


def _reset(database: Rtdb) -> None:
    database.set("/", None)
    database.set_rules(_OPEN)
