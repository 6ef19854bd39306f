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
        LeaseLost,
        Malformed,
        Stopping,
        StoreError,
        Unavailable,
        UnknownJob,
    )
    from firecron.events import Event
    from firecron.explorer import Job
    from firecron.lease import Lease
    from firecron.lock import LockService
    from firecron.refusal import NotAcquired, Refusal
    from firecron.registry import State
    from firecron.result import Result
    from firecron.run import Run, current_run
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
    "LeaseLost": "errors",
    "LockService": "lock",
    "Malformed": "errors",
    "NotAcquired": "refusal",
    "Refusal": "refusal",
    "Result": "result",
    "Run": "run",
    "Schedule": "schedule",
    "Settings": "settings",
    "State": "registry",
    "Stopping": "errors",
    "StoreError": "errors",
    "Unavailable": "errors",
    "UnknownJob": "errors",
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
