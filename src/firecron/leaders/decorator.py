"""`@leader`: declares a function that runs on one instance, for as long as this instance leads; and does nothing else.

    @leader("price-feed", ttl=15)
    async def price_feed(term: Term) -> None: ...

Like `distributed_cron`, it returns the function unchanged, except that it carries its options now. `FireCron` finds it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from firecron.base.durations import Duration, doubt
from firecron.jobs.decorator import declarations_of, mark
from firecron.jobs.options import check_flag, check_role
from firecron.lock.election import Election, make_election
from firecron.lock.names import check_name

F = TypeVar("F", bound="Callable[..., object] | staticmethod[..., object] | classmethod[Any, ..., object]")


@dataclass(frozen=True, slots=True)
class LeaderOptions:
    """The options of a leader, checked. `doubts` are questions about durations that look like milliseconds."""

    election: Election
    role: str | None
    disabled: bool
    doubts: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The leader's name, and its node in the database."""
        return self.election.name


def leader(
    name: str,
    *,
    ttl: Duration = 15,
    pause: Duration = 1,
    max_term: Duration | None = None,
    role: str | None = None,
    disabled: bool = False,
) -> Callable[[F], F]:
    """Run the function on one instance, from its election to the end of its term.

    The function gets its `Term` if a parameter is annotated so. An async function is cancelled when its term is over; a
    function that is not async runs on a thread of its own, and has to look at `term.lost`. When it returns or raises,
    the term ends. Durations are seconds or `timedelta`.

    Args:
        name: The leader's name, and its node in the database. No job may have it.
        ttl: How long the node lasts if its instance dies: so long nobody leads then, and a margin.
        pause: How long this instance waits after a term before it stands again.
        max_term: The longest time that one term may last: then it is lost.
        role: Stand only on instances whose FIRECRON_ROLES contain this word.
        disabled: Declare and list the leader, but never stand for it.
    """
    checked = make_election(check_name(name), ttl, pause, max_term)
    said = (doubt(ttl, "ttl"), doubt(pause, "pause"), doubt(max_term, "max_term"))
    doubts = tuple(one for one in said if one is not None)
    options = LeaderOptions(checked, check_role(role), check_flag(disabled, "disabled"), doubts)

    def declare(function: F) -> F:
        mark(function, options, "leader")
        return function

    return declare


def declared_leaders(thing: object) -> tuple[LeaderOptions, ...]:
    """Return the options of the leaders that a function was declared as."""
    return tuple(options for options in declarations_of(thing) if isinstance(options, LeaderOptions))
