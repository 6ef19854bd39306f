"""The tree: immutable nodes, so that a write is a new root and the old one stays whole for whoever still reads it.

A node is absent (`EMPTY`), a leaf (string, number or boolean) or an object with at least one child. There are no stored
nulls, empty objects or arrays; `Node.put` keeps it so. A write copies the nodes on its path and nothing else: children
live in a persistent map, so a sibling costs nothing. Hashes are computed when asked for and kept with their node.

No I/O, no clock, no JSON: `jsondata` turns JSON into nodes and back.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha1
from typing import TypeAlias, final

from rpds import HashTrieMap

from rtdb_emulator.ordering import Scalar, key_order, priority_order

Path: TypeAlias = tuple[str, ...]
Priority: TypeAlias = str | int | float | None

_NO_CHILDREN: HashTrieMap[str, Node] = HashTrieMap()


@final
class Node:
    """One immutable node; make leaves with `leaf`, objects with `branch`, and changes with `put`."""

    __slots__ = ("_hash", "children", "priority", "value")

    value: Scalar | None
    children: HashTrieMap[str, Node]
    priority: Priority

    def __init__(
        self, value: Scalar | None, children: HashTrieMap[str, Node] = _NO_CHILDREN, priority: Priority = None
    ) -> None:
        self.value = value
        self.children = children
        self.priority = priority
        self._hash: str | None = None

    @property
    def is_empty(self) -> bool:
        return self.value is None and not self.children

    @property
    def is_leaf(self) -> bool:
        return self.value is not None

    def child(self, key: str) -> Node:
        """The child of that name; `EMPTY` where there is none."""
        return self.children.get(key, EMPTY)

    def at(self, path: Iterable[str]) -> Node:
        """The node at a path below this one; `EMPTY` where there is none."""
        node = self
        for key in path:
            node = node.child(key)
        return node

    def put(self, path: Path, new: Node) -> Node:
        """This tree with `new` at `path`. An object that loses its last child is gone, up to the root."""
        if not path:
            return new
        key, rest = path[0], path[1:]
        old = self.child(key)
        child = old.put(rest, new)
        if child is old:
            return self
        if not child.is_empty:
            # A leaf on the way becomes an object, and keeps its priority as it does.
            return Node(None, self.children.insert(key, child), self.priority)
        return branch(self.children.remove(key), self.priority)

    def with_priority(self, priority: Priority) -> Node:
        """This node with another priority; nothing has none."""
        return self if self.is_empty else Node(self.value, self.children, priority)

    def in_key_order(self) -> list[tuple[str, Node]]:
        return sorted(self.children.items(), key=lambda item: key_order(item[0]))

    @property
    def hash(self) -> str:
        """The node's hash in the wire protocol, which is also its ETag; empty for `EMPTY`."""
        if self._hash is None:
            self._hash = _hash(self)
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Node):
            return NotImplemented
        # The types are compared as well: True == 1 in Python, not in RTDB.
        return (
            type(self.value) is type(other.value)
            and self.value == other.value
            and self.priority == other.priority
            and self.children == other.children
        )

    __hash__ = None  # type: ignore[assignment]  # equality is structural and deep: not a key for a dict

    def __repr__(self) -> str:
        content = dict(self.children) if self.children else self.value
        return f"Node({content!r})" if self.priority is None else f"Node({content!r}, priority={self.priority!r})"


EMPTY = Node(None)
"""The absent node, and the only one: nothing else is ever empty."""


def leaf(value: Scalar, priority: Priority = None) -> Node:
    return Node(value, _NO_CHILDREN, priority)


def branch(children: Mapping[str, Node] | HashTrieMap[str, Node], priority: Priority = None) -> Node:
    """An object of these children, none of which may be `EMPTY`; without any, `EMPTY` itself."""
    if not children:
        return EMPTY
    return Node(None, children if isinstance(children, HashTrieMap) else HashTrieMap(children), priority)


def _hash(node: Node) -> str:
    if node.is_empty:
        return ""
    text = "" if node.priority is None else f"priority:{_scalar_text(node.priority)}:"
    if node.value is not None:
        text += _scalar_text(node.value)
    else:
        ordered = sorted(node.children.items(), key=lambda item: (priority_order(item[1].priority), key_order(item[0])))
        text += "".join(f":{key}:{child.hash}" for key, child in ordered)
    return b64encode(sha1(text.encode(), usedforsecurity=False).digest()).decode()


def _scalar_text(value: Scalar) -> str:
    if isinstance(value, bool):
        return "boolean:true" if value else "boolean:false"
    if isinstance(value, str):
        return f"string:{value}"
    return f"number:{struct.pack('>d', value).hex()}"
