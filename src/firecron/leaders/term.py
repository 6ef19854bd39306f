"""A term: the time from an election to its end, as the body under it sees it; and what a candidate stands for.

Making an election loads nothing but the standard library.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime

from firecron.base.flag import Flag
from firecron.base.instants import DAY, milliseconds
from firecron.errors import ConfigurationError, LeaseLost, Stopping


class Term:
    """One term of a leader on this instance.

    `lost` is set when the term is over: another instance may lead already, or will soon. It is set a margin before the
    record expires. `stopping` is set when the term is to end, and still lasts: this instance shuts down, or the leader
    steps down, was cancelled, or is paused. `cancelled` is set beside it after `firecron cancel`.

    Args:
        name: The leader's name.
        fence: A number that is higher than that of every earlier term. Pass it to the systems that you write to.
        since: When the term began, in RTDB's time.
        lost: Returns the flag `lost`, at each look.
    """

    def __init__(self, name: str, fence: int, since: datetime, lost: Callable[[], Flag]) -> None:
        self.name = name
        self.fence = fence
        self.since = since
        self._lost = lost
        self.stopping = Flag()
        self.cancelled = Flag()

    @property
    def lost(self) -> Flag:
        """Set when the term is over: `if term.lost:`, or `term.lost.wait(1)`."""
        return self._lost()

    def check(self) -> None:
        """Raise LeaseLost or Stopping if the body should end. Call it now and then in long work."""
        if self.lost:
            raise LeaseLost
        if self.stopping:
            raise Stopping(f'The term of "{self.name}" is to end: end the work, and let this exception through.')

    def __repr__(self) -> str:
        return f"<Term {self.name} {self.fence}>"


# The term whose body runs in this context.
leading: ContextVar[Term | None] = ContextVar("firecron_term", default=None)


def current_term() -> Term | None:
    """Return the term that this code is part of; None outside a term."""
    return leading.get()


@dataclass(frozen=True, slots=True)
class Election:
    """What is stood for. Durations are milliseconds."""

    name: str
    ttl: int
    pause: int
    max_term: int | None = None


def make_election(name: str, ttl: object, pause: object, max_term: object) -> Election:
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
