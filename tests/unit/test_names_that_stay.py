"""The names that programs, and checks of others, rely on can be had where they always were."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

import firecron
from firecron import LockService, errors
from firecron.testing import MemoryStore

NAMES = {
    "firecron": [
        "Access",
        "Cancelled",
        "ConfigurationError",
        "CronExpression",
        "Denied",
        "Done",
        "Event",
        "FireCron",
        "FirecronError",
        "Job",
        "Lease",
        "LeaseLost",
        "LockService",
        "Malformed",
        "NotAcquired",
        "Refusal",
        "Result",
        "Run",
        "Schedule",
        "Settings",
        "State",
        "StepInDoubt",
        "Stopping",
        "StoreError",
        "Term",
        "Unavailable",
        "UnknownJob",
        "Visitor",
        "current_run",
        "current_term",
        "distributed_cron",
        "leader",
        "scheduled",
    ],
    "firecron.cli": ["main"],
    "firecron.logging": ["setup"],
    "firecron.notify": ["notify"],
    "firecron.otel": ["instrument"],
    "firecron.pings": ["pings"],
    "firecron.sentry": ["monitor"],
    "firecron.settings": ["Settings", "load"],
    "firecron.testing": [
        "FakeClock",
        "FakeTiming",
        "LockConformance",
        "MemoryStore",
        "Rehearsal",
        "ScheduleConformance",
    ],
    "firecron.triggers.verifier": ["Denial", "Verifier"],
    "rtdb_emulator": ["Clock", "Emulator", "Fault", "Faults", "Hold", "LoggedRequest", "RequestLog", "RulesError"],
}


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in NAMES.items() for name in names])
def test_a_name_is_where_it_was(module: str, name: str) -> None:
    """What can be imported stays importable from the same module."""
    assert getattr(importlib.import_module(module), name) is not None


@pytest.mark.parametrize("name", ["read", "swap", "timestamp", "merge", "keys", "newest"])
def test_the_store_of_a_service_has_what_it_had(name: str) -> None:
    """The methods of the port keep their names, on the store that a LockService was given."""
    store = MemoryStore(lambda: 0)
    service = LockService(store=store)
    assert service.store is store
    assert callable(getattr(service.store, name))


def test_every_exception_is_in_errors() -> None:
    """All exceptions that firecron raises are importable from firecron.errors, but NotAcquired, which is Refusal's."""
    assert not hasattr(errors, "NotAcquired")
    for found in pkgutil.walk_packages(firecron.__path__, "firecron."):
        if found.name.endswith("__main__"):
            continue
        module = importlib.import_module(found.name)
        for name, value in vars(module).items():
            is_own = inspect.isclass(value) and value.__module__ == module.__name__
            if is_own and issubclass(value, errors.FirecronError) and module is not errors:
                assert name == "NotAcquired", f"{module.__name__}.{name}"
