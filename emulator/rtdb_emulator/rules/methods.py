"""The properties and methods of rules at run time.

Promises: each function returns a value or raises `RuleFailed`, for any arguments. `check` has checked the names and the
number of arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rtdb_emulator.rules.scope import QUERY_FIELDS, QueryFacts, Snapshot
from rtdb_emulator.rules.values import OBJECT, RuleFailed, is_number, length, replaced, text_of
from rtdb_emulator.tree import Path


def property_of(of: object, name: str) -> object:
    """Return a property, or None if there is none: `auth.uid` is null without a signed-in user.

    Raises RuleFailed for the `length` of a value without one.
    """
    match of:
        case dict():
            return of.get(name)
        case QueryFacts() if name in QUERY_FIELDS:
            return QUERY_FIELDS[name](of)
        case str() if name == "length":
            return length(of)
        case list() if name.isascii() and name.isdigit() and len(name) <= len(str(len(of))):
            return of[int(name)] if int(name) < len(of) else None
    if name == "length":
        raise RuleFailed
    return None


def snapshot_of(value: object) -> Snapshot:
    if isinstance(value, Snapshot):
        return value
    raise RuleFailed


def all_exist(snapshot: Snapshot, names: object) -> bool:
    if not isinstance(names, list):
        raise RuleFailed
    # All names are read first: an invalid name makes the rule fail even after a missing child.
    paths = [_path(name) for name in names]
    return not any(snapshot.node.at(path).is_empty for path in paths)


def _path(value: object) -> Path:
    return tuple(key for key in text_of(value).split("/") if key)


def _child(snapshot: Snapshot, path: object) -> Snapshot:
    for key in _path(path):
        snapshot = snapshot.child(key)
    return snapshot


def _parent(snapshot: Snapshot) -> Snapshot:
    if snapshot.above is None:
        raise RuleFailed
    return snapshot.above


def _value(snapshot: Snapshot) -> object:
    return OBJECT if snapshot.node.members else snapshot.node.value


SNAPSHOT_METHODS: Mapping[str, Callable[..., object]] = {
    "val": _value,
    "getPriority": lambda snapshot: snapshot.node.priority,
    "parent": _parent,
    "child": _child,
    "exists": lambda snapshot: not snapshot.node.is_empty,
    "hasChild": lambda snapshot, path: not snapshot.node.at(_path(path)).is_empty,
    "hasChildren": lambda snapshot: bool(snapshot.node.members),
    "isNumber": lambda snapshot: is_number(snapshot.node.value),
    "isString": lambda snapshot: isinstance(snapshot.node.value, str),
    "isBoolean": lambda snapshot: isinstance(snapshot.node.value, bool),
}
STRING_METHODS: Mapping[str, Callable[..., object]] = {
    "contains": lambda text, other: text_of(other) in text,
    "beginsWith": lambda text, other: text.startswith(text_of(other)),
    "endsWith": lambda text, other: text.endswith(text_of(other)),
    "replace": replaced,
    "toLowerCase": str.lower,
    "toUpperCase": str.upper,
}
