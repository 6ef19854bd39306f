"""What can still happen in a world of real objects and greenlets, as a value to compare with others.

Objects become numbers in the order in which they are found, and are described once. So two worlds are one state if
their objects say the same and refer to each other in the same way, whatever their addresses, and however they came
about. A greenlet is where its code stands, and what is in its variables. A type that nobody has spoken for is an error:
what is left out of a state by mistake would hide what follows from it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import fields, is_dataclass
from functools import cache, partial
from types import BuiltinFunctionType, CellType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

from greenlet import greenlet

TOKEN = "token:"
# Variables whose values are random.
_RANDOM = ("run_id",)
_PLAIN = (int, float, bool, type(None), bytes)
# What is the same in every state, or has a state of its own elsewhere.
_NAMED = (type, ModuleType, BuiltinFunctionType, AbstractContextManager, threading.Event)


class State:
    """Describes the objects of one world at one moment. `parts` are the types that are described by their name."""

    def __init__(self, parts: tuple[type, ...], said: Mapping[type, Callable[[Any], Iterable[object]]]) -> None:
        self._parts = parts
        self._said = said
        self._numbers: dict[object, int] = {}
        self._kept: list[object] = []  # an address is an object's own only as long as the object lives

    def of(self, thing: object) -> Hashable:
        """Describe a value, an object, or a function with what it has bound."""
        kind = type(thing)
        if kind is str:
            text = str(thing)
            return ("token", self._number(text)[0]) if text.startswith(TOKEN) else text
        if kind in _PLAIN:
            return thing
        if isinstance(thing, tuple | list):
            return tuple(self.of(one) for one in thing)
        if kind is dict:
            return tuple((self.of(key), self.of(value)) for key, value in thing.items())  # type: ignore[attr-defined]  # it is one
        if kind is set or kind is frozenset:
            return tuple(sorted((self.of(one) for one in thing), key=repr))  # type: ignore[attr-defined]  # it is one of them
        if isinstance(thing, self._parts):
            return kind.__name__
        return self._object(thing, kind)

    def of_thread(self, thread: greenlet) -> Hashable:
        """Describe where a greenlet stands that does not run now."""
        found: list[Hashable] = []
        frame: FrameType | None = thread.gr_frame
        while frame is not None:
            values = tuple((name, self.of(value)) for name, value in frame.f_locals.items() if name not in _RANDOM)
            found.append((frame.f_code.co_qualname, frame.f_lasti, values))
            frame = frame.f_back
        return tuple(found)

    def _object(self, thing: object, kind: type) -> Hashable:
        if kind is CellType:
            return self.of(thing.cell_contents)  # type: ignore[attr-defined]  # it is one
        if kind is MethodType:
            return kind.__name__, thing.__func__.__qualname__, self.of(thing.__self__)  # type: ignore[attr-defined]  # it is one
        if kind is FunctionType:
            return self._function(thing)  # type: ignore[arg-type]  # it is one
        if isinstance(thing, BaseException):
            return kind.__name__
        if isinstance(thing, _NAMED):
            return kind.__name__, bool(thing) if isinstance(thing, threading.Event) else None
        number, is_new = self._number(id(thing))
        if not is_new:
            return kind.__name__, number
        self._kept.append(thing)
        return kind.__name__, number, tuple(self.of(value) for value in self._values(thing, kind))

    def _function(self, function: FunctionType) -> Hashable:
        code, cells = function.__code__, function.__closure__ or ()
        number, is_new = self._number(id(function)) if cells else (0, False)
        self._kept.append(function)
        return code.co_qualname, code.co_firstlineno, number, tuple(self.of(cell) for cell in cells if is_new)

    def _values(self, thing: object, kind: type) -> Iterable[object]:
        if kind is object:
            return ()
        if kind is partial:
            return [thing.func, *thing.args]  # type: ignore[attr-defined]  # it is one
        if kind in self._said:
            return self._said[kind](thing)
        if is_dataclass(kind):
            return [getattr(thing, name, None) for name in _fields_of(kind)]
        raise TypeError(f"nobody has said what a state has of {kind}")

    def _number(self, key: object) -> tuple[int, bool]:
        before = len(self._numbers)
        number = self._numbers.setdefault(key, before)
        return number, number == before


@cache
def _fields_of(kind: Any) -> list[str]:
    return [field.name for field in fields(kind)]
