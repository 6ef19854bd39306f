"""The tree: immutable nodes. A write makes a new root, and readers of the old root still see the old tree.

A node is absent (`EMPTY`), a leaf (string, number or boolean) or an object with at least one child. There are no stored
nulls, empty objects or arrays; `Node.put` keeps it so. A write copies the nodes on its path and nothing else (`table`).
Most nodes are leaves without a priority: those are kept as their bare value among the `members` of their parent, and
become nodes only when code asks for one. Hashes are computed when they are needed; objects keep theirs.

No I/O, no clock, no JSON: `jsondata` turns JSON into nodes and back.
"""

from __future__ import annotations

import struct
from binascii import b2a_base64
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from hashlib import sha1
from heapq import merge
from itertools import islice
from typing import TypeAlias, final

from rtdb_emulator.ordering import Scalar, SortKey, in_key_order, key_order, ordering, priority_order
from rtdb_emulator.table import Members, Table, compact, with_member, without

Path: TypeAlias = tuple[str, ...]
Priority: TypeAlias = str | int | float | None
# A leaf without a priority, or any other node; never `EMPTY`.
Member: TypeAlias = "Scalar | Node"

# A copy of one takes a third of the time that a new one takes.
_new_digest = sha1(usedforsecurity=False).copy
_packed = struct.Struct(">d").pack
# Members that are hashed at once.
_STEP = 200
# The name of the order by keys.
BY_KEY = "$key"
_NO_MEMBERS: dict[str, Member] = {}


@final
class Node:
    """One immutable node; make leaves with `leaf`, objects with `branch`, and changes with `put`."""

    __slots__ = ("_hash", "members", "priority", "value")

    value: Scalar | None
    members: Members[Member]
    priority: Priority

    def __init__(self, value: Scalar | None, members: Members[Member] = _NO_MEMBERS, priority: Priority = None) -> None:
        self.value = value
        self.members = members
        self.priority = priority
        self._hash: str | None = None

    @property
    def is_empty(self) -> bool:
        return self.value is None and not self.members

    @property
    def is_deep(self) -> bool:
        """Whether the node has many children, or grandchildren."""
        return isinstance(self.members, Table) or Node in map(type, self.members.values())

    @property
    def children(self) -> Mapping[str, Node]:
        """All children as nodes; `members` and `child` make fewer nodes."""
        return _Children(self.members)

    def child(self, key: str) -> Node:
        """Return the child of that name; `EMPTY` if there is no such child."""
        member = self.members.get(key)
        return EMPTY if member is None else as_node(member)

    def at(self, path: Iterable[str]) -> Node:
        """Return the node at a path below this one; `EMPTY` if there is no such node."""
        node = self
        for key in path:
            member = node.members.get(key)  # as `child`, whose call would take most of the time
            if member is None:
                return EMPTY
            node = member if isinstance(member, Node) else Node(member)
        return node

    def put(self, path: Path, new: Node) -> Node:
        """Return this tree with `new` at `path`. An object that loses its last child is removed, up to the root."""
        if not path:
            return new
        key, rest = path[0], path[1:]
        old = self.child(key)
        child = old.put(rest, new)
        if child is old:
            return self
        if not child.is_empty:
            # A leaf on the way becomes an object, and keeps its priority as it does.
            return Node(None, with_member(self.members, key, as_member(child)), self.priority)
        members = without(self.members, key)
        return Node(None, members, self.priority) if members else EMPTY

    def with_priority(self, priority: Priority) -> Node:
        """Return this node with another priority. `EMPTY` has no priority."""
        return self if self.is_empty else Node(self.value, self.members, priority)

    def ordered_keys(self) -> list[str]:
        """Return the names of the children, in key order. The names of many children are sorted once."""
        if not isinstance(self.members, Table):
            return in_key_order(self.members)
        keys = self.members.in_order(BY_KEY, _by_key)
        if keys is None:
            keys = in_key_order(self.members)
            self.members.keep_order(BY_KEY, keys)
        return keys

    @property
    def knows_hash(self) -> bool:
        """Whether `hash` needs no computation."""
        return self._hash is not None or self.is_empty

    @property
    def hash(self) -> str:
        """The node's hash in the wire protocol, which is also its ETag; empty for `EMPTY`."""
        if self._hash is None:
            self._hash = _hash(self)
        return self._hash

    def keep_hash(self, computed: str) -> None:
        """Keep a hash that was computed elsewhere, for `hash`."""
        self._hash = computed

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Node):
            return NotImplemented
        return (
            _same_scalar(self.value, other.value)
            and self.priority == other.priority
            and _same_members(self.members, other.members)
        )

    __hash__ = None  # type: ignore[assignment]  # equality is structural and deep: not a key for a dict

    def __repr__(self) -> str:
        content = dict(self.members.items()) if self.members else self.value
        return f"Node({content!r})" if self.priority is None else f"Node({content!r}, priority={self.priority!r})"


EMPTY = Node(None)
"""The absent node, and the only one: nothing else is ever empty."""


def leaf(value: Scalar, priority: Priority = None) -> Node:
    return Node(value, _NO_MEMBERS, priority)


def branch(children: Mapping[str, Node], priority: Priority = None) -> Node:
    """Return an object of these children, none of which may be `EMPTY`; `EMPTY` itself for no children."""
    if not children:
        return EMPTY
    return Node(None, compact({key: as_member(child) for key, child in children.items()}), priority)


def as_member(node: Node) -> Member:
    """Return the node in the form that its parent keeps."""
    return node if node.value is None or node.priority is not None else node.value


def as_node(member: Member) -> Node:
    return member if isinstance(member, Node) else Node(member)


def _by_key(key: str, member: Member) -> SortKey:
    return key_order(key)


class _Children(Mapping[str, Node]):
    def __init__(self, members: Members[Member]) -> None:
        self._members = members

    def __getitem__(self, key: str) -> Node:
        return as_node(self._members[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)


def _same_scalar(left: object, right: object) -> bool:
    """Return whether two values are equal and of one type: True == 1 in Python, not in RTDB."""
    return type(left) is type(right) and left == right


def _same_members(left: Members[Member], right: Members[Member]) -> bool:
    if left is right:
        return True
    if len(left) != len(right):
        return False
    pairs: Iterable[tuple[Mapping[str, Member], Mapping[str, Member]]]
    if isinstance(left, Table) and isinstance(right, Table):
        pairs = left.differing(right)
    else:
        pairs = [(dict(left.items()), dict(right.items()))]
    return all(
        len(mine) == len(theirs) and all(_same_scalar(member, theirs.get(key)) for key, member in mine.items())
        for mine, theirs in pairs
    )


def comparing(left: Node, right: Node) -> Generator[None, None, bool]:
    """Return whether two nodes are equal, in steps."""
    if left is right:
        return True
    if not (left.is_deep and right.is_deep):
        return left == right
    if left.priority != right.priority or len(left.members) != len(right.members):
        return False
    # Nodes with equal hashes may differ: a hash knows no integer that a double can't be.
    if left.knows_hash and right.knows_hash and left.hash != right.hash:
        return False
    mine, theirs = left.members, right.members
    pairs: Iterable[tuple[Mapping[str, Member], Mapping[str, Member] | Table[Member]]]
    if isinstance(mine, Table) and isinstance(theirs, Table) and len(mine.buckets) == len(theirs.buckets):
        pairs = mine.differing(theirs)
    elif isinstance(mine, Table):
        pairs = ((bucket, theirs) for bucket in mine.buckets)
    else:
        pairs = ((mine, theirs),)
    for some, others in pairs:
        for key, member in some.items():
            other = others.get(key)
            if isinstance(member, Node) and isinstance(other, Node) and member.is_deep:
                if not (yield from comparing(member, other)):
                    return False
            elif not _same_scalar(member, other):
                return False
        yield
    return True


def arranging_keys(node: Node) -> Iterator[None]:
    """Sort the names of many children in steps, for `ordered_keys`; without a step if they are sorted already."""
    members = node.members
    if isinstance(members, Table) and members.in_order(BY_KEY, _by_key) is None:
        keys = yield from ordering(members)
        members.keep_order(BY_KEY, keys)


def hashing(node: Node) -> Iterator[None]:
    """Compute the hash of a node step by step, with those that it needs of the nodes below; `hash` has it then."""
    if not node.members:
        return
    for number, member in enumerate(node.members.values()):
        if isinstance(member, Node) and not member.knows_hash and member.is_deep:
            yield from hashing(member)
        if number % _STEP == 0:
            yield
    yield from arranging_keys(node)
    own = _own_text(node).encode()
    digest = _new_digest()
    digest.update(own)
    has_priorities = False
    for names in _pieces(node.ordered_keys()):
        digest.update(_text_of(node.members, names).encode())
        has_priorities = has_priorities or _have_priorities(map(node.members.get, names))
        yield
    if has_priorities:  # once more, in their order: the children know their hashes now
        digest = _new_digest()
        digest.update(own)
        runs = []
        for names in _pieces(node.ordered_keys()):
            runs.append(sorted(names, key=_by_priority(node)))
            yield
        for names in _pieces(merge(*runs, key=_by_priority(node))):
            digest.update(_text_of(node.members, names).encode())
            yield
    node.keep_hash(b2a_base64(digest.digest(), newline=False).decode())


def _pieces(names: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(names)
    while piece := list(islice(rest, _STEP)):
        yield piece


def _hash(node: Node) -> str:
    if not node.members:
        return "" if node.value is None else _digest(_own_text(node))
    names = node.ordered_keys()
    # Most nodes have only leaves without a priority, and this look at their types is the quickest.
    if Node in map(type, node.members.values()) and _have_priorities(node.members.values()):
        names = sorted(names, key=_by_priority(node))
    return _digest(_own_text(node) + _text_of(node.members, names))


def _have_priorities(members: Iterable[Member | None]) -> bool:
    return any(isinstance(member, Node) and member.priority is not None for member in members)


def _by_priority(node: Node) -> Callable[[str], SortKey]:
    """Return a function that returns the sort key of a child's priority."""
    return lambda key: priority_order(node.child(key).priority)


def _own_text(node: Node) -> str:
    """Return the text of the priority and of the value: what is hashed before the children."""
    value = "" if node.value is None else _scalar_text(node.value)
    return value if node.priority is None else f"priority:{_scalar_text(node.priority)}:{value}"


def _text_of(members: Members[Member], keys: list[str]) -> str:
    return "".join([f":{key}:{_hash_of(members[key])}" for key in keys])


def _hash_of(member: Member) -> str:
    if isinstance(member, str):
        return _digest("string:" + member)
    if isinstance(member, Node):
        return member.hash
    if isinstance(member, bool):
        return _TRUE if member else _FALSE
    return _digest(_number_text(member))


def _digest(text: str) -> str:
    digest = _new_digest()
    digest.update(text.encode())
    return b2a_base64(digest.digest(), newline=False).decode()


def _scalar_text(value: Scalar) -> str:
    if isinstance(value, str):
        return "string:" + value
    if isinstance(value, bool):
        return "boolean:true" if value else "boolean:false"
    return _number_text(value)


def _number_text(value: int | float) -> str:
    return "number:" + _packed(value).hex()


_TRUE, _FALSE = _digest("boolean:true"), _digest("boolean:false")
