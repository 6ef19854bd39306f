"""A tenure: a term with its lease, from the election until the body has ended; and how it ended. Values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from firecron.base.clocks import Moment
from firecron.base.durations import DAY, Duration, milliseconds
from firecron.errors import Cancelled, ConfigurationError, Stopping
from firecron.lock.alarm import Alarm
from firecron.lock.lease import Lease
from firecron.lock.term import Term

TermOutcome: TypeAlias = Literal["succeeded", "failed", "lost", "interrupted", "cancelled"]

# How long a leader stays away after `firecron cancel`, in milliseconds: so that another instance is elected.
AWAY = 30_000


@dataclass(frozen=True, slots=True)
class Election:
    """What is stood for. Durations are milliseconds."""

    name: str
    ttl: int
    pause: int
    max_term: int | None = None


def make_election(name: str, ttl: Duration, pause: Duration, max_term: Duration | None) -> Election:
    """Check the options of a leader against each other. The bid checks the name, and the ttl against the margin."""
    for_ms, most = (
        milliseconds(ttl, "ttl"),
        None if max_term is None else milliseconds(max_term, "max_term", most=7 * DAY),
    )
    if most is not None and most < for_ms:
        raise ConfigurationError(
            f"max_term ({most / 1000:g} s) must not be shorter than ttl ({for_ms / 1000:g} s), which one renewal covers"
        )
    return Election(name, for_ms, milliseconds(pause, "pause"), most)


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
