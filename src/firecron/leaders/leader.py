"""A leader: a function that runs on one instance, for as long as this instance leads; and how it is declared and found.

    @leader("price-feed", ttl=15)
    async def price_feed(term: Term) -> None: ...

Like `distributed_cron`, `leader` returns the function unchanged, except that it carries its options now, and does
nothing else. `FireCron` finds it, and binds it, so that it can be called.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ParamSpec, TypeAlias, TypeVar

from firecron.base.flag import Flag
from firecron.base.instants import DAY, Duration, doubt, milliseconds
from firecron.errors import ConfigurationError, LeaseLost, Stopping
from firecron.jobs.about import About, check_about
from firecron.jobs.decorator import claim, declarations_of, function_of, is_async, mark, parameter_of, suggesting
from firecron.jobs.job import functions, nothing
from firecron.jobs.options import check_flag, check_role
from firecron.store import check_name

F = TypeVar("F", bound="Callable[..., object] | staticmethod[..., object] | classmethod[Any, ..., object]")
P = ParamSpec("P")
R = TypeVar("R")


# --- a term: the time from an election to its end, as the body under it sees it; and what a candidate stands for


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


# --- a leader, as it is declared


@dataclass(frozen=True, slots=True)
class LeaderOptions:
    """The options of a leader, checked. `doubts` are questions about durations that look like milliseconds."""

    election: Election
    role: str | None
    disabled: bool
    about: About
    doubts: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The leader's name, and its node in the database."""
        return self.election.name


def _refusing_lines(declare: Callable[P, R]) -> Callable[P, R]:
    """Raise an error with a remedy if a leader is declared as a job is, or without a name."""

    @functools.wraps(declare)
    def checked(*arguments: P.args, **options: P.kwargs) -> R:
        if (not arguments and "name" not in options) or callable(arguments[0] if arguments else None):
            raise ConfigurationError('leader() has no name: write @leader("price-feed", ttl=15)')
        if len(arguments) > 1:
            raise ConfigurationError(
                f"leader({', '.join(map(repr, arguments))}): a leader has a name and no cron line, because it runs for "
                "as long as its instance leads; for something that ticks, use distributed_cron"
            )
        return suggesting(declare)(*arguments, **options)

    return checked


@_refusing_lines
def leader(
    name: str,
    *,
    ttl: Duration = 15,
    pause: Duration = 1,
    max_term: Duration | None = None,
    role: str | None = None,
    disabled: bool = False,
    description: str | None = None,
    owner: str | None = None,
    runbook: str | None = None,
) -> Callable[[F], F]:
    """Run the function on one instance, from its election to the end of its term.

    The function gets its `Term` if a parameter is annotated so. An async function is cancelled when its term is over; a
    function that is not async runs on a thread of its own, and has to look at `term.lost`. When it returns or raises,
    the term ends. Durations are seconds or `timedelta`.

    Args:
        name: The leader's name, and its node in the database. No job may have it.
        ttl: How long the node lasts if its instance dies: so long nobody leads then, and a margin.
        pause: How long this instance waits after a term before it stands again. After several terms in a row that end
            within a minute by themselves it waits for longer, up to a minute.
        max_term: The longest time that one term may last: then it is lost.
        role: Stand only on instances whose FIRECRON_ROLES contain this word.
        disabled: Declare and list the leader, but never stand for it.
        description: What the leader does, in 200 characters. Default: the first line of the function's docstring.
        owner: The team or the person whose leader it is, in 100 characters.
        runbook: The https:// address of a page that says what to do if the leader fails, in 500 characters.
    """
    checked = make_election(check_name(name), ttl, pause, max_term)
    said = (doubt(ttl, "ttl"), doubt(pause, "pause"), doubt(max_term, "max_term"))
    doubts = tuple(one for one in said if one is not None)
    about = check_about(description, owner, runbook)
    options = LeaderOptions(checked, check_role(role), check_flag(disabled, "disabled"), about, doubts)

    def declare(function: F) -> F:
        mark(function, replace(options, about=about.of(function_of(function))), "leader")
        return function

    return declare


def declared_leaders(thing: object) -> tuple[LeaderOptions, ...]:
    """Return the options of the leaders that a function was declared as."""
    return tuple(options for options in declarations_of(thing) if isinstance(options, LeaderOptions))


# --- a leader that was found

TermContexts: TypeAlias = Callable[[], Sequence[Callable[[Term], AbstractContextManager[object]]]]


@dataclass(frozen=True, slots=True)
class Leader:
    """A function that runs while this instance leads, bound, so that it can be called without arguments, or with its
    Term. `where` says where the function was found; `around` returns what is around its call, the outermost first.
    """

    options: LeaderOptions
    function: Callable[..., object]
    where: str
    is_async: bool
    term_parameter: str | None
    around: TermContexts = field(default=nothing, repr=False, compare=False)

    @property
    def name(self) -> str:
        """Its name, and its node in the database."""
        return self.options.name

    def call(self, term: Term) -> object:
        """Call the function. An async function returns an awaitable."""
        return self.function() if self.term_parameter is None else self.function(**{self.term_parameter: term})

    def enter(self, term: Term) -> None:
        """Make this context part of the term."""
        leading.set(term)

    def turns_async(self, term: Term) -> None:
        """Do nothing: a term has no steps, which would have to be awaited."""

    def leave(self, term: Term) -> None:
        """Do nothing: a term has no steps, which would have to end."""


def explore_leaders(*providers: object) -> list[Leader]:
    """Return the leaders in these providers, in the order in which they are found."""
    leaders: dict[str, Leader] = {}
    for provider in providers:
        for function, where in functions(provider):
            for options in declared_leaders(function):
                found = _make(options, function, where)
                other = leaders.setdefault(found.name, found)
                if other.function != found.function:
                    raise ConfigurationError(
                        f"two leaders are named {found.name!r}: {other.where} and {where}. Each name is one node: "
                        "rename one of them"
                    )
    return list(leaders.values())


def _make(options: LeaderOptions, function: Callable[..., object], where: str) -> Leader:
    parameter = parameter_of(Term, "leader", function, where)
    claim(function_of(function), options.name)
    return Leader(options, function, where, is_async(function), parameter)
