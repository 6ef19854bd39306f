"""The result of a claim."""

from __future__ import annotations

from dataclasses import dataclass

from firecron.jobs.run import Outcome, Run
from firecron.lock.refusal import Refusal


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one claim: a run and its outcome, or the refusal that kept it from running.

    Args:
        run: The run; None if there was none.
        outcome: `succeeded`, `failed`, `lost`, `interrupted` or `cancelled`; None if nothing ran.
        refusal: Why nothing ran; None if there was a run.
        error: The exception of a run that `failed` or was `lost`.
    """

    run: Run | None
    outcome: Outcome | None
    refusal: Refusal | None = None
    error: BaseException | None = None
