"""Put the mutant of a function into functions that are imported already: they get the code of the mutated text.

What it can't do: change what ran at the import (a constant, a default, a class), or a function that isn't there any
more. Then nothing is changed, and it says so.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import CodeType, FrameType, FunctionType
from typing import NamedTuple

_FUNCTION = 0x2  # CO_NEWLOCALS, which classes and modules don't have


class _Key(NamedTuple):
    """What one function's code is known by."""

    file: str
    name: str
    line: int


class Functions:
    """The functions whose files are in this directory. From `watch` on it notes which are called; `find` ends that."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._called: set[_Key] = set()
        self._live: dict[_Key, list[FunctionType]] = {}

    def watch(self) -> None:
        """Note what is called from now on: what it did is done, whatever mutant comes."""
        sys.setprofile(self._note)

    def find(self) -> None:
        """Find the functions that are there."""
        sys.setprofile(None)
        for found in gc.get_objects():
            if type(found) is FunctionType and found.__code__.co_filename.startswith(self._directory):
                self._live.setdefault(_key(found.__code__), []).append(found)

    def patch(self, file: str, before: bytes, after: bytes) -> str:
        """Give them the code of the file's new text. Returns "whole"; "late" if the function was called before, so that
        a test which passes shows nothing; or "not" if nothing was changed.
        """
        path = list(_differing(compile(before, file, "exec"), compile(after, file, "exec")))
        if not path or not path[-1][0].co_flags & _FUNCTION:
            return "not"
        path = [(old, new) for old, new in path if old.co_flags & _FUNCTION]
        functions = [(found, new) for old, new in path for found in self._live.get(_key(old), ())]
        if not functions or any(found.__code__.co_freevars != new.co_freevars for found, new in functions):
            return "not"
        for found, new in functions:
            found.__code__ = new
        return "late" if any(_key(old) in self._called for old, _ in path) else "whole"

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(self._directory):
            self._called.add(_key(frame.f_code))


def _key(code: CodeType) -> _Key:
    return _Key(code.co_filename, code.co_qualname, code.co_firstlineno)


def _differing(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """The codes on the way to the one that differs, outermost first, without the module's."""
    while True:
        inner = list(zip(_nested(old), _nested(new), strict=False))
        pairs = [(one, other) for one, other in inner if one != other]
        if _own(old) != _own(new) or len(pairs) != 1:
            return
        old, new = pairs[0]
        yield old, new


def _nested(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def _own(code: CodeType) -> tuple[object, ...]:
    """All of a code but what is nested in it."""
    constants = [(type(one), one) for one in code.co_consts if not isinstance(one, CodeType)]
    return code.co_code, code.co_names, code.co_varnames, constants, len(_nested(code)), code.co_exceptiontable
