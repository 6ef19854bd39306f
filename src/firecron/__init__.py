"""Each tick of a cron job runs on exactly one of many instances, with Firebase Realtime Database as the lock.

Importing the package loads no SDK: each name below is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firecron.app import FireCron
    from firecron.cron_expression import CronExpression
    from firecron.decorator import distributed_cron
    from firecron.errors import (
        ConfigurationError,
        Denied,
        FirecronError,
        Malformed,
        NotAcquired,
        StoreError,
        Unavailable,
    )
    from firecron.events import Event
    from firecron.explorer import Job
    from firecron.lease import Lease, LeaseLost
    from firecron.lock import LockService
    from firecron.refusal import Refusal
    from firecron.registry import State, UnknownJob
    from firecron.run import Run, Stopping, current_run
    from firecron.runner import Result
    from firecron.schedule import Schedule
    from firecron.settings import Settings

__version__ = "0.1.0"

_HOMES = {
    "ConfigurationError": "errors",
    "CronExpression": "cron_expression",
    "Denied": "errors",
    "Event": "events",
    "FireCron": "app",
    "FirecronError": "errors",
    "Job": "explorer",
    "Lease": "lease",
    "LeaseLost": "lease",
    "LockService": "lock",
    "Malformed": "errors",
    "NotAcquired": "errors",
    "Refusal": "refusal",
    "Result": "runner",
    "Run": "run",
    "Schedule": "schedule",
    "Settings": "settings",
    "State": "registry",
    "Stopping": "run",
    "StoreError": "errors",
    "Unavailable": "errors",
    "UnknownJob": "registry",
    "current_run": "run",
    "distributed_cron": "decorator",
}

__all__ = [
    "ConfigurationError",
    "CronExpression",
    "Denied",
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
    "Stopping",
    "StoreError",
    "Unavailable",
    "UnknownJob",
    "current_run",
    "distributed_cron",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
