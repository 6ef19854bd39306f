"""The production guard: jobs tick only where they are meant to.

A laptop, a test or a staging service that shares the database must not compete for production's locks, so tickers
start only if `RUNTIME_INSTANCE` is `production`, or if the program says so (`FireCron(enabled=True)`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from firecron.base.cloud_run import find_cloud_run

VARIABLE = "RUNTIME_INSTANCE"
VALUE = "production"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether to tick, and why, in a sentence; `is_suspicious` where it looks like production and isn't said to be, or
    where the variable has another value: that may be a slip, and the jobs never run.
    """

    may_tick: bool
    why: str
    is_suspicious: bool = False


def judge(
    enabled: bool | None,
    variable: str = VARIABLE,
    value: str = VALUE,
    environment: Mapping[str, str] = os.environ,
) -> Verdict:
    """What the guard says; `enabled` overrides it."""
    if enabled is not None:
        return Verdict(enabled, f"FireCron was made with enabled={enabled}")
    found = environment.get(variable)
    if found == value:
        return Verdict(True, f"{variable} is {value!r}")
    why = f"{variable} is {'not set' if found is None else repr(found)}, and jobs tick where it is {value!r}"
    place = find_cloud_run(environment)
    # A Cloud Run job's execution has an end: it is rather a command than somewhere to tick.
    is_production = place is not None and place.kind != "job"
    if place is not None and is_production:
        why += f"; this looks like production, because {place.variable} is {place.name!r}"
    return Verdict(False, why, is_suspicious=bool(is_production or found))
