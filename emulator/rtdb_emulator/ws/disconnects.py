"""The onDisconnect writes of a client: a sparse tree of pending writes.

A value is kept as the client has sent it, with its server values, because they are resolved at the write. A tree is a
pending value, or has trees below it, or is empty. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias, final

from rtdb_emulator.paths import PRIORITY
from rtdb_emulator.tree import Path

_Json: TypeAlias = object


@final
class Disconnects:
    """The pending writes at and below one place."""

    __slots__ = ("_below", "_is_set", "_value")

    def __init__(self) -> None:
        self._is_set = False
        self._value: _Json = None
        self._below: dict[str, Disconnects] = {}

    def remember(self, path: Path, value: _Json) -> None:
        """Add a pending write. It replaces all pending writes at and below the path."""
        if not path:
            self._is_set, self._value, self._below = True, value, {}
        elif self._is_set:
            self._value = _with(self._value, path, value)
        else:
            # The last to arrive is the last to be written.
            below = self._below.pop(path[0], None) or Disconnects()
            self._below[path[0]] = below
            below.remember(path[1:], value)

    def forget(self, path: Path) -> None:
        """Drop the pending writes at and below the path; those beside it stay."""
        if not path:
            self._is_set, self._value, self._below = False, None, {}
            return
        if self._is_set:
            members = _members(self._value)
            if members is None and self._value is not None:
                return  # a single value has no part below it to remove
            self._is_set, self._value = False, None
            for key, item in (members or {}).items():
                self.remember((key,), item)
        below = self._below.get(path[0])
        if below is not None:
            below.forget(path[1:])
            if below.is_empty:
                del self._below[path[0]]

    @property
    def is_empty(self) -> bool:
        return not self._is_set and not self._below

    def take(self) -> list[tuple[Path, _Json]]:
        """Return all pending writes, and forget them. A priority comes after its value."""
        writes = sorted(self._writes(()), key=lambda write: write[0][-1:] == (PRIORITY,))
        self.forget(())
        return writes

    def _writes(self, path: Path) -> Iterator[tuple[Path, _Json]]:
        if self._is_set:
            yield path, self._value
        for key, below in self._below.items():
            yield from below._writes((*path, key))


def _with(value: _Json, path: Path, new: _Json) -> _Json:
    """Return a value with another one at a path below it; None if nothing is left."""
    if not path:
        return new
    members = _members(value)
    if members is None:
        # A leaf: it stays for a priority, and makes room for a child.
        given = value if isinstance(value, dict) and ".value" in value else {".value": value}
        if path == (PRIORITY,):
            return None if given[".value"] is None else {".value": given[".value"], PRIORITY: new}
        if _is_nothing(new):
            return value
        members = {PRIORITY: given[PRIORITY]} if PRIORITY in given else {}
    members = {**members, path[0]: _with(members.get(path[0]), path[1:], new)}
    return None if _is_nothing(members) else members


def _is_nothing(value: _Json) -> bool:
    """Return whether a write of this value deletes."""
    if isinstance(value, dict) and ".value" in value:
        return value[".value"] is None
    members = _members(value)
    if members is None:
        return value is None
    return all(key == PRIORITY or _is_nothing(item) for key, item in members.items())


def _members(value: _Json) -> dict[str, _Json] | None:
    """Return the children of an object or array, with its priority; None for a leaf."""
    if isinstance(value, list):
        return {str(index): item for index, item in enumerate(value) if item is not None}
    if isinstance(value, dict) and not {".value", ".sv"} & value.keys():
        return value
    return None
