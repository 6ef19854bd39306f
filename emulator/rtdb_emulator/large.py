"""JSON too large to be read or written at once: the same as `jsondata`, in steps.

`json.loads` of forty megabytes holds the interpreter for a tenth of a second and makes objects that are soon dropped.
Here a reader goes through the text in pieces, decodes the members of a large object one by one, and makes nodes of them
at once, which know their hashes: the ETag of many nodes takes long, and a client may ask for it right after its write.
Each function is a generator: it yields after about a millisecond of work, so that the caller can do other work.

`jsondata` parses data with server values, because their value depends on the moment of the write: NeedsServer.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Generator, Iterator
from itertools import islice
from typing import Final, NoReturn

from rtdb_emulator.errors import BadRequest
from rtdb_emulator.jsondata import (
    INVALID,
    INVALID_OBJECT,
    NeedsServer,
    array_length,
    decode,
    encode,
    parse_member,
    parse_priority,
    render,
)
from rtdb_emulator.ordering import ordering
from rtdb_emulator.paths import PRIORITY, check_depth, is_key
from rtdb_emulator.table import SMALL, empty_buckets, fill, finished
from rtdb_emulator.tree import EMPTY, Member, Node, Priority, as_node, hashing

# Bytes, or characters: smaller data is read at once.
LARGE: Final = 256 * 1024

CHUNK = 64 * 1024
# Members between two yields: while they are read, while they are moved.
_READ, _MOVED = 50, 2_000
# How many members are encoded at once; a text counts as one more member for every 200 characters.
WEIGHT, _CHARACTERS = 500, 200

_SPACE = re.compile(r"[ \t\n\r]*")
# A key without escapes, with its colon.
_PLAIN_KEY = re.compile(r'"([^"\\\x00-\x1f]*)":')
_LATER = object()  # stands for a value that is too large to be decoded at once


def reading(body: bytes | bytearray, depth: int) -> Generator[None, None, Node]:
    """Return the node of a PUT's or POST's body, with `depth` levels above it."""
    try:
        member = yield from _Reader(body).whole(depth)
    except _NotJson:
        raise BadRequest(INVALID) from None
    return EMPTY if member is None else as_node(member)


def reading_patch(body: bytes | bytearray, depth: int) -> Generator[None, None, dict[str, object]]:
    """Return the values of a PATCH's body by their paths: nodes, except priorities and null, which stay plain data."""
    try:
        return (yield from _Reader(body).patch(depth))
    except _NotJson:
        raise BadRequest(INVALID_OBJECT) from None


def load_json(body: bytes) -> object:
    """Return the content of a file, for a write: as a node if it is large, because a node takes less memory."""
    if len(body) < LARGE:
        return decode(body)
    steps = reading(body, 0)
    try:
        while True:
            next(steps)
    except StopIteration as end:
        node: Node = end.value
        return node
    except NeedsServer:
        return decode(body)


def writing(node: Node) -> Iterator[bytes]:
    """Yield the node's JSON with its priorities, as the answer to a write shows it, in pieces."""
    if not node.members:
        yield encode(render(node, priorities=True))
        return
    keys = node.ordered_keys()
    length = array_length(keys) if node.priority is None else None
    yield b"{" if length is None else b"["
    names = keys if length is None else [str(index) for index in range(length)]
    comma = b""
    batch: dict[str, object] = {}
    weight = 0
    for key in names:
        member = node.members.get(key)
        if isinstance(member, Node) and member.is_deep:
            yield comma + _encoded(batch, length) if batch else b""
            comma = b"," if batch else comma
            batch, weight = {}, 0
            yield comma if length is not None else comma + encode(key) + b":"
            yield from writing(member)
            comma = b","
            continue
        batch[key] = render(member, priorities=True) if isinstance(member, Node) else member
        weight += 1 + (len(member) // _CHARACTERS if isinstance(member, str) else 0)
        weight += len(member.members) if isinstance(member, Node) else 0
        if weight >= WEIGHT:
            yield comma + _encoded(batch, length)
            comma, batch, weight = b",", {}, 0
    if node.priority is not None:
        batch[PRIORITY] = node.priority
    yield (comma + _encoded(batch, length) if batch else b"") + (b"}" if length is None else b"]")


def _encoded(batch: dict[str, object], length: int | None) -> bytes:
    return encode(batch if length is None else list(batch.values()))[1:-1]


class _NotJson(Exception):
    pass


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_decoder = json.JSONDecoder(parse_constant=_no_constant)


class _Reader:
    """A position in the text of a body. It decodes no more of the text than it needs."""

    def __init__(self, body: bytes | bytearray) -> None:
        self._body = memoryview(body)
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._next = 0
        self._text = ""
        self._at = 0

    def whole(self, depth: int) -> Generator[None, None, Member | None]:
        """Return the whole text as one member."""
        self.peek()
        member = yield from self.member(depth)
        self.end()
        return member

    def patch(self, depth: int) -> Generator[None, None, dict[str, object]]:
        if self.peek() != "{":
            raise _NotJson
        values: dict[str, object] = {}
        for key in self.keys("}"):
            names = [name for name in key.split("/") if name]
            if names[-1:] == [PRIORITY]:
                values[key] = self.small()
            else:
                values[key] = yield from self.member(depth + len(names))
            yield
        self.end()
        return values

    def member(self, depth: int) -> Generator[None, None, Member | None]:
        """Return the value here, in the form that its parent keeps."""
        data = self.scanned()
        if data is _LATER:
            return (yield from self.container(depth))
        return parse_member(data, None, EMPTY, depth)

    def container(self, depth: int) -> Generator[None, None, Member | None]:
        """Return the object or array here, read member by member."""
        is_object = self._text[self._at] == "{"
        members: dict[str, Member] = {}
        priority: Priority = None
        for number, key in enumerate(self.keys("}" if is_object else "]")):
            if key == PRIORITY:
                priority = parse_priority(self.small(), now=None)
                continue
            if key in (".sv", ".value"):
                raise NeedsServer
            if is_object and not is_key(key):
                raise BadRequest(INVALID)
            data = self.scanned()
            member: Member | None
            if data is _LATER:
                check_depth(depth + 1)
                member = yield from self.container(depth + 1)
            elif data is None:
                member = None
            else:
                check_depth(depth + 1)
                member = parse_member(data, None, EMPTY, depth + 1)
            if isinstance(member, Node):
                _ = member.hash  # while what it is made of is at hand
            if member is None:
                members.pop(key, None)
            else:
                members[key] = member
            if number % _READ == 0:
                yield
        return (yield from _branch(members, priority))

    def keys(self, closing: str) -> Iterator[str]:
        """Yield the keys of the container here. The caller reads the value of a key before it takes the next key."""
        self._at += 1
        if self.peek() == closing:
            self._at += 1
            return
        number = 0
        while True:
            if closing == "]":
                key: object = str(number)
                number += 1
            else:
                key = self.key()
            if not isinstance(key, str):
                raise _NotJson
            self.peek()
            yield key
            after = self.peek()
            self._at += 1
            if after == closing:
                return
            if after != ",":
                raise _NotJson
            self.peek()

    def key(self) -> object:
        """Return the key here, and go behind its colon."""
        plain = _PLAIN_KEY.match(self._text, self._at)
        if plain is not None:
            self._at = plain.end()
            return plain[1]
        key = self.scanned() if self.peek() == '"' else None
        if self.peek() != ":":
            raise _NotJson
        self._at += 1
        return key

    def small(self) -> object:
        """Return the value here, which can't be large."""
        data = self.scanned()
        if data is _LATER:
            raise BadRequest(INVALID)
        return data

    def scanned(self) -> object:
        """Return the value here, decoded; `_LATER` for a large object or array."""
        while True:
            try:
                data, end = _decoder.raw_decode(self._text, self._at)
            except (ValueError, RecursionError):
                # The text is broken, or ends inside the value.
                if len(self._text) - self._at >= LARGE and self._text[self._at] in "{[":
                    return _LATER
                if not self.more():
                    raise _NotJson from None
                continue
            # The next piece may have more digits of this number.
            if isinstance(data, int | float) and len(self._text) - end < 4 and self.more():
                continue
            self._at = end
            return data

    def peek(self) -> str:
        """Return the next character other than space; an empty text at the end."""
        while True:
            here = self._text[self._at : self._at + 1]
            if here > " ":
                return here
            space = _SPACE.match(self._text, self._at)
            assert space is not None  # the pattern matches the empty text as well
            self._at = space.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self.more():
                return ""

    def end(self) -> None:
        if self.peek():
            raise _NotJson

    def more(self) -> bool:
        """Decode one more piece, at least as large as the text that waits. Return False at the end."""
        if self._next >= len(self._body):
            return False
        waiting = self._text[self._at :]
        piece = self._body[self._next : self._next + max(CHUNK, len(waiting))]
        self._next += len(piece)
        try:
            self._text = waiting + self._decoder.decode(piece, final=self._next >= len(self._body))
        except UnicodeDecodeError:
            raise _NotJson from None
        self._at = 0
        return True


def _branch(members: dict[str, Member], priority: Priority) -> Generator[None, None, Node | None]:
    if not members:
        return None
    if len(members) <= SMALL:
        return Node(None, members, priority)
    buckets: list[dict[str, Member]] = empty_buckets(len(members))
    items = iter(members.items())
    while piece := list(islice(items, _MOVED)):
        fill(buckets, piece)
        yield
    order = yield from ordering(members)
    node = Node(None, finished(buckets, order), priority)
    yield from hashing(node)
    return node
