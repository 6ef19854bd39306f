"""Which jobs of this process were declared and given to no FireCron: what `start` and the command line name.

    distributed_cron ─ note ─►  (name, where) of each function, held weakly  ◄─ claim ─ explorer

A function is claimed for good by the first FireCron that it is given to, itself or in an object, a class or a module;
a method that a subclass overrides is claimed with the subclass. What is left was forgotten, or is hidden: below
`@property`, or below a decorator without `functools.wraps`, nobody can find it. A function that is garbage is
forgotten, and one that is declared again in the same place, as by a reload, replaces the first.
"""

from __future__ import annotations

import weakref
from typing import NamedTuple, TypeAlias

_Key: TypeAlias = "tuple[str, object, object]"

_unclaimed: dict[_Key, weakref.ref[object]] = {}


class Unclaimed(NamedTuple):
    """A job that no FireCron has: its name, and the function that declares it."""

    name: str
    where: str


def note(function: object, name: str) -> None:
    """Remember that the function was declared as the job of this name."""
    key = _key(function, name)

    try:
        # A reference that is replaced is gone, and calls nothing.
        _unclaimed[key] = weakref.ref(function, lambda _: _unclaimed.pop(key, None))
    except TypeError:
        return  # an object without room for weak references: to hold it would be to keep it for ever


def claim(function: object, name: str) -> None:
    """A FireCron has it."""
    _unclaimed.pop(_key(function, name), None)


def unclaimed() -> list[Unclaimed]:
    """The jobs that were declared in this process and that no FireCron was given, in the order of declaration."""
    found: list[Unclaimed] = []
    # The keys alone are copied in one step: a collection may run, and forget, wherever an object is made.
    for key in list(_unclaimed):
        reference = _unclaimed.get(key)
        function = None if reference is None else reference()
        if function is not None:
            found.append(Unclaimed(key[0], where_of(function)))
    return found


def where_of(function: object) -> str:
    """Where a function is defined, as its module and name; for anything without a name, its repr."""
    name = getattr(function, "__qualname__", None)
    return repr(function) if name is None else f"{getattr(function, '__module__', '?')}.{name}"


def _key(function: object, name: str) -> _Key:
    # By name where it has one: a wrapper made with functools.wraps, which is what a FireCron finds, has it as well.
    return name, getattr(function, "__module__", None), getattr(function, "__qualname__", None) or id(function)
