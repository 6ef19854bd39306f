"""The production guard: jobs tick only in the production environment.

A laptop, a test or a staging service that shares the database must not compete for production's locks. So the ticker
starts only if the variable `RUNTIME_INSTANCE` is `production`, or if the program says `FireCron(enabled=True)`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from firecron.base.cloud_run import find_cloud_run

if TYPE_CHECKING:
    from firecron.settings import Settings

VARIABLE = "RUNTIME_INSTANCE"
VALUE = "production"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether jobs may tick, with the reason in a sentence.

    `is_suspicious` means that jobs may not tick here, perhaps by mistake: the process looks like production, or the
    variable has another value. Then the jobs would never run. `is_forced` means that the program decided.
    """

    may_tick: bool
    why: str
    is_suspicious: bool = False
    is_forced: bool = False


def is_production(verdict: Verdict, settings: Settings) -> bool:
    """Return whether runs of this process are production's, also where nothing ticks.

    A service that scales to zero has `enabled=False`, and runs its jobs nevertheless: there the variable decides.
    """
    return verdict.may_tick or judge(None, settings.runtime_variable, settings.runtime_value).may_tick


def judge(
    enabled: bool | None,
    variable: str = VARIABLE,
    value: str = VALUE,
    environment: Mapping[str, str] = os.environ,
) -> Verdict:
    """Return the guard's verdict. `enabled` overrides it."""
    if enabled is not None:
        return Verdict(enabled, f"FireCron was created with enabled={enabled}", is_forced=True)
    found = environment.get(variable)
    if found == value:
        return Verdict(True, f"{variable} is {value!r}")
    why = f"{variable} is {'not set' if found is None else repr(found)}, and jobs tick only where it is {value!r}"
    place = find_cloud_run(environment)
    # The execution of a Cloud Run job has an end: it is a command rather than a process that ticks.
    is_production = place is not None and place.kind != "job"
    if place is not None and is_production:
        why += f"; this looks like production, because {place.variable} is {place.name!r}"
    return Verdict(False, why, is_suspicious=bool(is_production or found))
