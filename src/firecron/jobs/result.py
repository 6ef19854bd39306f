"""The result of a claim."""

from __future__ import annotations

from dataclasses import dataclass

from firecron.jobs.run import Outcome, Run
from firecron.lock.refusal import Refusal


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one claim: a run and its outcome, or the refusal that kept it from running."""

    run: Run | None
    outcome: Outcome | None
    refusal: Refusal | None = None
    error: BaseException | None = None
