"""A leader: a decorated function with its options, bound so that it can be called; and how they are found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TypeAlias

from firecron.errors import ConfigurationError
from firecron.jobs.around import nothing
from firecron.jobs.declarations import claim
from firecron.jobs.decorator import function_of
from firecron.jobs.explorer import functions
from firecron.jobs.parameters import is_async, parameter_of
from firecron.leaders.decorator import LeaderOptions, declared_leaders
from firecron.lock.term import Term, leading

Surroundings: TypeAlias = Callable[[], Sequence[Callable[[Term], AbstractContextManager[object]]]]


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
    around: Surroundings = field(default=nothing, repr=False, compare=False)

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
