"""Run each tick of a cron job on exactly one of many instances, with Firebase Realtime Database as the lock.

Importing this package loads no SDK. Python loads the module of each name below when the name is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firecron.app import FireCron
    from firecron.base.events import Event
    from firecron.cron.schedule import CronExpression, Schedule
    from firecron.errors import (
        Cancelled,
        ConfigurationError,
        Denied,
        FirecronError,
        LeaseLost,
        Malformed,
        StepInDoubt,
        Stopping,
        StoreError,
        Unavailable,
        UnknownJob,
    )
    from firecron.jobs.decorator import distributed_cron, scheduled
    from firecron.jobs.job import Job
    from firecron.jobs.registry import Result, State
    from firecron.jobs.run import Run, current_run
    from firecron.leaders.leader import Term, current_term, leader
    from firecron.lock.lease import Lease
    from firecron.lock.refusal import NotAcquired, Refusal
    from firecron.locks import LockService
    from firecron.page.messages import Access, Visitor
    from firecron.settings import Settings
    from firecron.steps.once import Done

__version__ = "0.1.0"

_HOMES = {
    "Access": "page.messages",
    "Cancelled": "errors",
    "ConfigurationError": "errors",
    "CronExpression": "cron.schedule",
    "Denied": "errors",
    "Done": "steps.once",
    "Event": "base.events",
    "FireCron": "app",
    "FirecronError": "errors",
    "Job": "jobs.job",
    "Lease": "lock.lease",
    "LeaseLost": "errors",
    "LockService": "locks",
    "Malformed": "errors",
    "NotAcquired": "lock.refusal",
    "Refusal": "lock.refusal",
    "Result": "jobs.registry",
    "Run": "jobs.run",
    "Schedule": "cron.schedule",
    "Settings": "settings",
    "State": "jobs.registry",
    "StepInDoubt": "errors",
    "Stopping": "errors",
    "StoreError": "errors",
    "Term": "leaders.leader",
    "Unavailable": "errors",
    "UnknownJob": "errors",
    "Visitor": "page.messages",
    "current_run": "jobs.run",
    "current_term": "leaders.leader",
    "distributed_cron": "jobs.decorator",
    "leader": "leaders.leader",
    "scheduled": "jobs.decorator",
}

__all__ = [
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
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
