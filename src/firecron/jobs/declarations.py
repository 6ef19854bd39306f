"""The jobs of this process that were declared but given to no FireCron: `start` and the command line name them.

    distributed_cron ─ note ─►  (name, where) of each function, held weakly  ◄─ claim ─ explorer

A function is claimed for good by the first FireCron that gets it: the function itself, or its object, class or module.
A method that a subclass overrides is claimed with the subclass. A job that stays unclaimed was forgotten, or can't be
found: it is below `@property`, or below a decorator without `functools.wraps`. A function that was garbage collected is
forgotten. A function that is declared again in the same place, as by a reload, replaces the first one.
"""

from __future__ import annotations

import weakref
from typing import NamedTuple, TypeAlias

_Key: TypeAlias = "tuple[str, object, object]"

# What `unclaimed` returns: a weak reference to each function.
REMEMBERED: dict[_Key, weakref.ref[object]] = {}


class Unclaimed(NamedTuple):
    """A job that no FireCron has: its name, and where its function is defined."""

    name: str
    where: str


def note(function: object, name: str) -> None:
    """Remember that the function was declared as the job of this name."""
    key = _key(function, name)

    try:
        # If another function replaces this one, its old reference is gone and removes nothing.
        REMEMBERED[key] = weakref.ref(function, lambda _: REMEMBERED.pop(key, None))
    except TypeError:
        return  # the object allows no weak reference, and a strong one would keep it for ever


def claim(function: object, name: str) -> None:
    """Note that a FireCron has the function."""
    REMEMBERED.pop(_key(function, name), None)


def unclaimed() -> list[Unclaimed]:
    """Return the jobs that this process declared but gave to no FireCron, in the order of their declaration."""
    found: list[Unclaimed] = []
    # The keys are copied in one step. A garbage collection may remove an entry whenever an object is made.
    for key in list(REMEMBERED):
        reference = REMEMBERED.get(key)
        function = None if reference is None else reference()
        if function is not None:
            found.append(Unclaimed(key[0], where_of(function)))
    return found


def where_of(function: object) -> str:
    """Return where a function is defined, as its module and name. Return the repr of anything without a name."""
    name = getattr(function, "__qualname__", None)
    return repr(function) if name is None else f"{getattr(function, '__module__', '?')}.{name}"


def _key(function: object, name: str) -> _Key:
    # A function counts by its name if it has one. A FireCron may find a wrapper made with functools.wraps, which has
    # the same name.
    return name, getattr(function, "__module__", None), getattr(function, "__qualname__", None) or id(function)
