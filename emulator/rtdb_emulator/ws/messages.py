"""What goes over a socket: the texts of the messages, the queries in them, and the frames that carry them.

Requests come from the client; answers, pushes and control messages are the server's. Values that may be large are JSON
texts already. A long message is a count, then that number of segments. A client counts a segment's length in UTF-16
units, and a character must not be torn: all texts that we send are ASCII (other characters are escaped), so they may be
cut anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, final

from rtdb_emulator import jsondata
from rtdb_emulator.errors import BadRequest
from rtdb_emulator.large import WIRE, Long, is_large, writing
from rtdb_emulator.paths import is_key
from rtdb_emulator.query import Bound, Query, order_by_child
from rtdb_emulator.rules.explain import Refused
from rtdb_emulator.steps import Later
from rtdb_emulator.tree import Node, Path, branch

VERSION: Final = "5"
# The only action outside the protocol; the emulator's own page uses it.
INSPECT: Final = "inspect"


@dataclass(frozen=True, slots=True)
class Request:
    """A client's request: its number, the action, and the body."""

    number: int
    action: str
    body: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request: a status, and its data as JSON. `refused` is the operation that rules have denied."""

    status: str
    data: str | Long = '""'
    refused: Refused | None = None


OK: Final = Answer("ok")


def refusal(status: str, text: str) -> Answer:
    """Return an answer that refuses; its data must be a string, or a Java client breaks."""
    return Answer(status, dumps(text))


def parse(text: str) -> Request | str:
    """Return the request in a message, or the kind of a message about the connection itself.

    Raises Broken for a text without a message's form, or without its number.
    """
    try:
        envelope = jsondata.DECODER.decode(text)
    except (ValueError, RecursionError):
        raise Broken(1007, "a message is JSON") from None
    inner = envelope.get("d") if isinstance(envelope, dict) else None
    if isinstance(envelope, dict) and isinstance(inner, dict):
        if envelope.get("t") == "c":
            return str(inner.get("t"))
        number, action, body = inner.get("r"), inner.get("a"), inner.get("b", {})
        if envelope.get("t") == "d" and isinstance(number, int) and not isinstance(number, bool):
            return Request(number, action if isinstance(action, str) else "", body if isinstance(body, dict) else {})
    raise Broken(1007, 'a message is {"t":"d","d":{"r":NUMBER,"a":ACTION,"b":{…}}} or {"t":"c","d":{…}}')


def dumps(data: object) -> str:
    return _encoder.encode(data)


def exported(node: Node, keys: list[str] | None = None) -> str | Long:
    """Return a value in the form of the protocol, with its priorities; with `keys`, with these of its children only."""
    if keys is not None and not keys:
        return "null"
    if is_large(node, keys):
        return Long(writing(node, WIRE, keys))
    if keys is not None:
        node = branch({key: node.child(key) for key in keys}, node.priority)
    return dumps(jsondata.render(node, priorities=True, arrays=False))


def control(kind: str, data: object) -> Message:
    return Message(dumps({"t": "c", "d": {"t": kind, "d": data}}))


def answered(number: int, answer: Answer) -> Message:
    return Message(f'{{"t":"d","d":{{"r":{number},"b":{{"s":"{answer.status}","d":', answer.data, "}}}")


def pushed(kind: Literal["d", "m"], path: Path, data: str | Long, tag: int | None = None) -> Message:
    """Return the push of a new value at a path (d), or of new values below it (m)."""
    tagged = "" if tag is None else f',"t":{tag}'
    head = f'{{"t":"d","d":{{"a":"{kind}","b":{{"p":{dumps("/".join(path))},"d":'
    return Message(head, data, f"{tagged}}}}}}}")


def ended(path: Path, query: object | None) -> Message:
    """Return the message that ends a listen. The client finds the listen by the very query that it has sent."""
    body: dict[str, object] = {"p": "/".join(path)}
    if query is not None:
        body["q"] = [query]
    return Message(dumps({"t": "d", "d": {"a": "c", "b": body}}))


def expired(text: str) -> Message:
    """Return the message that the credential has expired: the client reconnects with another one."""
    return Message(dumps({"t": "d", "d": {"a": "ac", "b": {"s": "expired_token", "d": text}}}))


def inspected(state: Mapping[str, object]) -> Message:
    """Return the message with the news of an open page."""
    return Message(dumps({"t": "d", "d": {"a": INSPECT, "b": state}}))


def security_debug(text: str) -> Message:
    """Return the message with a text for the client's console."""
    return Message(dumps({"t": "d", "d": {"a": "sd", "b": {"msg": text}}}))


# Made once: `json.dumps` would make one for each message.
_encoder = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


# --- a query: short names, and names for the lowest and the highest key

_MEMBERS = ("i", "sp", "sn", "sin", "ep", "en", "ein", "l", "vf")
_ORDERS = {".key": "$key", ".value": "$value", ".priority": "$priority"}
_LOWEST, _HIGHEST = "[MIN_NAME]", "[MAX_NAME]"


def parse_wire_query(asked: object) -> Query | None:
    """Return the query that a client describes; None for `{}`. Raises BadRequest."""
    if not isinstance(asked, dict):
        raise BadRequest(f"Invalid query: an object is wanted, not {type(asked).__name__}")
    if not asked:
        return None
    if unknown := sorted(set(asked) - set(_MEMBERS)):
        raise BadRequest(f"Invalid query: {unknown[0]!r} is not one of {', '.join(_MEMBERS)}")
    order = _order(asked.get("i", ".priority"))
    start = _bound(order, asked, "s") if "sp" in asked else None
    end = _bound(order, asked, "e") if "ep" in asked else None
    limit, view = asked.get("l"), asked.get("vf")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise BadRequest(f"Invalid query: the limit l must be a positive integer, not {limit!r}")
    if view not in (None, "l", "r"):
        raise BadRequest(f"Invalid query: vf must be l or r, not {view!r}")
    from_end = view == "r" or (view is None and start is None)
    return Query(order, start, end, limit, from_end if limit is not None else False)


def _order(index: object) -> str:
    order = _ORDERS.get(index) if isinstance(index, str) else None
    order = order or order_by_child(index)
    if order is not None:
        return order
    raise BadRequest(f"Invalid query: the index i must be .key, .value, .priority or a child's path, not {index!r}")


def _bound(order: str, asked: Mapping[str, object], side: str) -> Bound | None:
    """Return one end of the range; None if the range is open there."""
    value, key, inclusive = asked[f"{side}p"], asked.get(f"{side}n"), asked.get(f"{side}in", True)
    if isinstance(value, dict | list):
        raise BadRequest(f"Invalid query: {side}p must be a JSON primitive")
    if not isinstance(inclusive, bool):
        raise BadRequest(f"Invalid query: {side}in must be true or false, not {inclusive!r}")
    if order == "$key":
        if not isinstance(value, str) or key is not None:
            raise BadRequest(f"Invalid query: ordered by key, {side}p must be a key, and {side}n be left out")
        if value == (_LOWEST if side == "s" else _HIGHEST):
            return None
    if order == "$priority" and isinstance(value, bool):
        raise BadRequest(f"Invalid query: ordered by priority, {side}p must be a string, a number or null")
    scalar = jsondata.parse(value, now=0).value
    if key in (_LOWEST, _HIGHEST):
        # All children with this value lie on one side of such a key.
        return Bound(scalar, None, inclusive=(key == _LOWEST) == (side == "s"))
    if key is not None and not (isinstance(key, str) and is_key(key)):
        raise BadRequest(f"Invalid query: {side}n must be a key, not {key!r}")
    return Bound(scalar, key, inclusive)


# --- frames

SEGMENT: Final = 16_384
# The most characters of a client's message: the SDKs' own limit for a write.
MAX_MESSAGE: Final = 16 * 1024 * 1024
KEEP_ALIVE: Final = "0"

_LONGEST_COUNT = 6
# The bytes of a long message that are sent at once.
_SENT = 64 * SEGMENT


class Broken(Exception):
    """A client has sent something that is not a message; the connection closes with this code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


@final
class Assembler:
    """Puts the segments of one client's messages together."""

    def __init__(self, limit: int = MAX_MESSAGE) -> None:
        self._limit = limit
        self._segments: list[str] = []
        self._missing = 0
        self._size = 0

    def feed(self, frame: str) -> str | None:
        """Return the message that this frame completes; None for a count, a segment or a keep-alive. Raises Broken."""
        if not self._missing:
            if len(frame) <= _LONGEST_COUNT and frame.isascii() and frame.isdigit():
                self._missing = int(frame)
                return None
            self._check(len(frame))
            return frame
        self._size += len(frame)
        self._check(self._size)
        self._segments.append(frame)
        self._missing -= 1
        if self._missing:
            return None
        whole = "".join(self._segments)
        self._segments, self._size = [], 0
        return whole

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise Broken(1009, f"a message has at most {self._limit} characters")


def cut(text: str) -> list[str]:
    """Return the frames of a message, which is ASCII."""
    if len(text) <= SEGMENT:
        return [text]
    segments = [text[start : start + SEGMENT] for start in range(0, len(text), SEGMENT)]
    return [str(len(segments)), *segments]


def framed(text: str) -> bytes:
    """Return the bytes of a text frame. A server's frame has no mask."""
    data = text.encode()
    return _head(len(data)) + data


def _head(size: int) -> bytes:
    if size < 126:
        return bytes((0x81, size))
    if size < 0x10000:
        return b"\x81\x7e" + size.to_bytes(2, "big")
    return b"\x81\x7f" + size.to_bytes(8, "big")


@final
class Message:
    """A message to send, maybe to many clients: its bytes are made once.

    Its text is `head`, `data` and `tail`. Long data is made in steps (`making`) and sent in parts (`frames`), and
    `on_made` is called with the number of characters. Where data is `Later`, that is the message itself, or None if
    there is nothing to say after all: so a message has its turn before it is known.
    """

    __slots__ = ("_data", "_head", "_tail", "_wire", "on_made")

    def __init__(self, head: str, data: str | Long | Later[Message | None] = "", tail: str = "") -> None:
        self._head = head
        self._data = data
        self._tail = tail
        self._wire: bytes | None = None
        self.on_made: Callable[[int], None] | None = None

    @property
    def is_long(self) -> bool:
        return not isinstance(self._data, str)

    @property
    def text(self) -> str:
        if isinstance(self._data, Later):
            message = self._data.value
            return "" if message is None else message.text
        data = self._data if isinstance(self._data, str) else self._data.whole.decode()
        return f"{self._head}{data}{self._tail}"

    @property
    def wire(self) -> bytes:
        """All frames of a message that isn't long."""
        if self._wire is None:
            self._wire = b"".join(map(framed, cut(self.text)))
        return self._wire

    def making(self) -> Generator[None]:
        """Make the data of a long message in steps. Several may do so at once."""
        if isinstance(self._data, Later):
            message = yield from self._data.making()
            if message is not None and message.is_long:
                yield from message.making()
        else:
            yield from self._long.making()

    def frames(self) -> Iterator[bytes]:
        """Yield the frames of a long message, many at a time."""
        if isinstance(self._data, Later):
            message = self._data.value
            if message is not None:
                yield from message.frames() if message.is_long else (message.wire,)
            return
        whole, tail = self._long.whole, self._tail.encode()
        waiting = bytearray(self._head.encode())
        size = len(waiting) + len(whole) + len(tail)
        if self.on_made is not None:
            self.on_made(size)
        if size > SEGMENT:
            yield framed(str(-(-size // SEGMENT)))
        for start in range(0, len(whole), _SENT):
            waiting += whole[start : start + _SENT]
            if start + _SENT < len(whole):
                end = len(waiting) - len(waiting) % SEGMENT
            else:
                waiting += tail
                end = len(waiting)
            segments = (waiting[at : at + SEGMENT] for at in range(0, end, SEGMENT))
            yield b"".join([_head(len(segment)) + segment for segment in segments])
            del waiting[:end]

    @property
    def _long(self) -> Long:
        assert isinstance(self._data, Long), "no other message is made in steps"
        return self._data

    def __repr__(self) -> str:
        return f"Message({self.text!r})"
