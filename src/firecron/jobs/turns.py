"""A job's turns: what is said when a job begins to need a hand, and when it is well again. The events `job.*` of that.

    failing, recovered from it    by the run whose release has decided it, or by a look of an instance that notifies
    late, stuck, and their end    by the looks of the instances that have the job
    unattended, and its end       by the looks of an instance that notifies, since no other one looks at such a job

Whoever says it, the words and the fields are the same.
"""

from __future__ import annotations

import logging
from typing import Literal, TypeAlias

from firecron.base.events import Events
from firecron.jobs.about import About

Trouble: TypeAlias = Literal["failing", "late", "stuck", "unattended"]


def emit_trouble(
    events: Events,
    word: Trouble,
    name: str,
    why: str,
    about: About,
    *,
    slot: str | None = None,
    failures: int | None = None,
) -> None:
    """Say that a job needs a hand. `slot` is the tick that is late, or has failed, after so many `failures`."""
    emit, level, message = events.emit, logging.WARNING, f'"{name}" is {word}: {why}'
    text, owner, runbook = about.description, about.owner, about.runbook
    # The fields are spelt out, because the list of events in the documentation is compared with them.
    match word:
        case "failing":
            emit(
                "job.failing", name, level, message, slot=slot, failures=failures, why=why,
                description=text, owner=owner, runbook=runbook,
            )  # fmt: skip
        case "late":
            emit(
                "job.late", name, level, message, slot=slot, why=why,
                description=text, owner=owner, runbook=runbook,
            )  # fmt: skip
        case "stuck":
            emit("job.stuck", name, level, message, why=why, description=text, owner=owner, runbook=runbook)
        case "unattended":
            emit("job.unattended", name, level, message, why=why, description=text, owner=owner, runbook=runbook)


def emit_recovery(
    events: Events, was: str, name: str, why: str, about: About, *, slot: str | None = None, verdict: str = "ok"
) -> None:
    """Say that a job needs that hand no more. Its `verdict` may be another one now; `slot` was late, or is well."""
    events.emit(
        "job.recovered", name, logging.INFO, f'"{name}" is not {was} any more: {why}', slot=slot, was=was,
        verdict=verdict, why=why, description=about.description, owner=about.owner, runbook=about.runbook,
    )  # fmt: skip
