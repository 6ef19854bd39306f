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
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final, final

from rtdb_emulator.errors import BadRequest
from rtdb_emulator.jsondata import (
    DECODER,
    INVALID,
    INVALID_OBJECT,
    NeedsServer,
    array_length,
    decode,
    parse_member,
    parse_priority,
    render,
)
from rtdb_emulator.ordering import ordering
from rtdb_emulator.paths import PRIORITY, check_depth, is_key
from rtdb_emulator.query import arranging
from rtdb_emulator.steps import at_once
from rtdb_emulator.table import SMALL, filling
from rtdb_emulator.tree import BY_KEY, EMPTY, Member, Node, Priority, arranging_keys, as_node, hashing

# Bytes, or characters: smaller data is read at once.
LARGE: Final = 256 * 1024

CHUNK = 64 * 1024
# Members between two yields: while they are read, while they are moved.
_READ, MOVED = 50, 2_000
# The most members of JSON that is made at once.
MOST_AT_ONCE = 2_000
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
    try:
        return at_once(reading(body, 0))
    except NeedsServer:
        return decode(body)


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a node's JSON: as `render` and `encode` have it, or (`ascii`) with other characters escaped."""

    priorities: bool = False
    arrays: bool = True
    pretty: bool = False
    ascii: bool = False

    def encoded(self, data: object) -> bytes:
        separators = (",", " : ") if self.pretty else (",", ":")
        indent = 2 if self.pretty else None
        return json.dumps(data, ensure_ascii=self.ascii, indent=indent, separators=separators).encode()


# As a socket's protocol has it.
WIRE: Final = Form(priorities=True, arrays=False, ascii=True)
# As the answer to a write shows what was stored.
STORED: Final = Form(priorities=True)


@final
class Long:
    """JSON that is made in steps, once for all that send it. The steps are for one thread."""

    __slots__ = ("_made", "_pieces")

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._made = bytearray()

    def making(self) -> Generator[None]:
        """Make it in steps. Several may do so at once: each makes a part."""
        for piece in self._pieces:
            self._made += piece
            yield

    @property
    def whole(self) -> bytearray:
        """The whole JSON. What isn't made is made at once."""
        for _ in self.making():
            pass
        return self._made


def is_large(node: Node, keys: list[str] | None = None) -> bool:
    """Return whether the JSON of a node, or of these children of it, is to be made in steps."""
    return _is_much(_content(node) if keys is None else ((key, node.members[key]) for key in keys))


def are_large(nodes: Iterable[Node]) -> bool:
    """Return whether the JSON of these nodes together is to be made in steps."""
    return _is_much(chain.from_iterable(map(_content, nodes)))


def preparing(node: Node, order: str | None, *, hashed: bool) -> Generator[None]:
    """Make what a request needs of a node quick, in steps: its children in the order of a query, and its hash."""
    if order is not None:
        yield from arranging(node, order)
    if hashed and not node.knows_hash and node.is_deep and is_large(node):
        yield from hashing(node)


def _is_much(members: Iterable[tuple[str, Member | None]]) -> bool:
    """Return whether these members, with all that is below them, are many or have much text."""
    count = size = 0
    waiting = [members]
    for some in waiting:
        for key, member in some:
            count += 1
            size += len(key) + 1
            if isinstance(member, str):
                size += len(member)
            elif isinstance(member, Node):
                waiting.append(_content(member))
            if count > MOST_AT_ONCE or size > LARGE:
                return True
    return False


def _content(node: Node) -> Iterable[tuple[str, Member | None]]:
    """Return a node's members, or its value as a member without a key."""
    return node.members.items() if node.members else (("", node.value),)


def writing(node: Node, form: Form = STORED, keys: list[str] | None = None, level: int = 0) -> Iterator[bytes]:
    """Yield the node's JSON in pieces; with `keys`, that of a node with these of its children only, in this order."""
    members = node.members
    if keys is None and not members:
        yield form.encoded(render(node, priorities=form.priorities, arrays=form.arrays)) + _end(form, level)
        return
    priority = node.priority if form.priorities else None
    if keys is None:
        for _ in arranging_keys(node):
            yield b""
    names = node.ordered_keys() if keys is None else keys
    length = array_length(names) if form.arrays and priority is None else None
    inside: Iterable[tuple[str, Member | None]] = ((key, members[key]) for key in names)
    if length is not None:
        shown = frozenset(names)
        inside = ((key, members[key] if key in shown else None) for key in map(str, range(length)))
    elif priority is not None:
        inside = chain(inside, ((PRIORITY, priority),))
    yield b"{" if length is None else b"["
    comma = yield from _writing_members(inside, form, length, level, lambda member: member.is_deep)
    yield (_line(form, level) if comma else b"") + (b"}" if length is None else b"]") + _end(form, level)


def writing_all(nodes: Iterable[tuple[str, Node]], form: Form) -> Iterator[bytes]:
    """Yield the JSON of an object of these nodes, which are in no node together, in pieces. It isn't pretty."""
    yield b"{"
    yield from _writing_members(nodes, form, None, 0, is_large)
    yield b"}"


def _writing_members(
    members: Iterable[tuple[str, Member | None]],
    form: Form,
    length: int | None,
    level: int,
    is_much: Callable[[Node], bool],
) -> Generator[bytes, None, bytes]:
    """Yield what is between the brackets; many small members together. Return the comma, if there was anything."""
    line = _line(form, level)
    indent, colon = (line + b"  ", b" : ") if form.pretty else (b"", b":")
    comma = b""
    batch: dict[str, object] = {}
    weight = 0
    for key, member in members:
        if isinstance(member, Node) and is_much(member):
            if batch:
                yield comma + _encoded(batch, form, length, line)
                comma, batch, weight = b",", {}, 0
            yield comma + indent + (form.encoded(key) + colon if length is None else b"")
            yield from writing(member, form, None, level + 1)
            comma = b","
            continue
        if isinstance(member, Node):
            batch[key] = render(member, priorities=form.priorities, arrays=form.arrays)
            weight += 1 + len(member.members)
        else:
            batch[key] = member
            weight += 1 + (len(member) // _CHARACTERS if isinstance(member, str) else 0)
        if weight >= WEIGHT:
            yield comma + _encoded(batch, form, length, line)
            comma, batch, weight = b",", {}, 0
    if batch:
        yield comma + _encoded(batch, form, length, line)
        comma = b","
    return comma


def writing_keys(keys: list[str], form: Form) -> Iterator[bytes]:
    """Yield the JSON of an object that has true for each of these keys, in pieces."""
    line = _line(form, 0)
    for start in range(0, len(keys), MOVED):
        run = dict.fromkeys(keys[start : start + MOVED], True)
        yield (b"," if start else b"{") + _encoded(run, form, None, line)
    yield line + b"}" + _end(form, 0) if keys else b"{}" + _end(form, 0)


def _encoded(batch: Mapping[str, object], form: Form, length: int | None, line: bytes) -> bytes:
    """Return the members of a batch, without the brackets around them."""
    text = form.encoded(batch if length is None else list(batch.values()))[1:-1]
    return text.rstrip(b"\n").replace(b"\n", line) if form.pretty else text


def _line(form: Form, level: int) -> bytes:
    return b"\n" + b"  " * level if form.pretty else b""


def _end(form: Form, level: int) -> bytes:
    return b"\n" if form.pretty and level == 0 else b""


class _NotJson(Exception):
    pass


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
                data, end = DECODER.raw_decode(self._text, self._at)
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
    table = yield from filling(members.items(), len(members), MOVED)
    order = yield from ordering(members)
    table.keep_order(BY_KEY, order)
    node = Node(None, table, priority)
    yield from hashing(node)
    return node
