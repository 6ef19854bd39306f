"""A tenure: a term with its lease, from the election until the body has ended; and how it ended. Values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from firecron.base.clocks import Moment
from firecron.errors import Cancelled, Stopping
from firecron.lock.alarm import Alarm
from firecron.lock.lease import Lease
from firecron.lock.term import Term

TermOutcome: TypeAlias = Literal["succeeded", "failed", "lost", "interrupted", "cancelled"]

# How long a leader stays away after `firecron cancel`, in milliseconds: so that another instance is elected.
AWAY = 30_000


@dataclass(frozen=True, slots=True)
class Told:
    """Why a term was told to end, what it then counts as, and how long the candidate stays away (in milliseconds)."""

    why: str
    outcome: TermOutcome
    away_for: int = 0


@dataclass(eq=False)
class Tenure:
    """A term with its lease. `replaced` is the node that the election has replaced."""

    term: Term
    lease: Lease
    started: Moment
    replaced: object
    told: Told | None = None
    has_ended: bool = False
    alarm: Alarm | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """How a term ended. `took` is milliseconds."""

    outcome: TermOutcome
    took: int
    error: BaseException | None = None


def outcome_of(error: BaseException | None, told: Told | None) -> TermOutcome:
    """Return what a term counts as that was not lost, by the error that its body has raised.

    It is as for runs: a body that returns has succeeded, also after it was told to end.
    """
    if error is None:
        return "succeeded"
    if told is not None and (isinstance(error, Stopping | Cancelled) or not isinstance(error, Exception)):
        return told.outcome
    return "failed"
