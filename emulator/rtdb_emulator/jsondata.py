"""JSON in and out: parse what a client sends into nodes, and render nodes as what a client reads.

Only this module knows how RTDB's JSON differs from plain JSON: arrays, `.value` and `.priority`, server values,
numbers, and the limits of keys, strings and depth. Data that breaks a rule raises BadRequest.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection
from typing import Final, NoReturn, TypeGuard

from rtdb_emulator.errors import BadRequest
from rtdb_emulator.ordering import Scalar
from rtdb_emulator.paths import PRIORITY, check_depth, known_key
from rtdb_emulator.table import compact
from rtdb_emulator.tree import EMPTY, Member, Node, Priority, as_member, as_node

MAX_STRING_BYTES = 10 * 1024 * 1024

INVALID = "Invalid data; couldn't parse JSON object, array, or value."
INVALID_OBJECT = "Invalid data; couldn't parse JSON object. Are you sending a JSON object with valid key names?"
# Tuples: a union would be made anew for each look at a type.
_NUMBERS = (int, float)
_CONTAINERS = (dict, list)
_INT64 = range(-(2**63), 2**63)
_INDEX = re.compile(r"(0|[1-9][0-9]*)\Z")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# Made once: `json.loads` and `json.dumps` would make one for each text.
DECODER: Final = json.JSONDecoder(parse_constant=_no_constant)
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_PRETTY: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", " : "), indent=2)


class NeedsServer(Exception):
    """The data has a server value, and the caller can't resolve it: only the write knows the time and the old value."""


def decode(body: bytes | bytearray) -> object:
    """Return the JSON value of a request body."""
    if not body:
        raise BadRequest("Error: No data supplied.")
    try:
        return DECODER.decode(body.decode())
    except (ValueError, RecursionError):
        raise BadRequest(INVALID) from None


def decode_patch(body: bytes | bytearray) -> dict[str, object] | None:
    """Return the JSON object of a PATCH body; None for `null`, which deletes."""
    try:
        data = decode(body)
    except BadRequest as error:
        raise (BadRequest(INVALID_OBJECT) if error.text == INVALID else error) from None
    if data is not None and not isinstance(data, dict):
        raise BadRequest(INVALID_OBJECT)
    return data


def encode(data: object, *, pretty: bool = False) -> bytes:
    """Return the data as the database prints it. `pretty` indents by two, with a space on both sides of the colon."""
    if pretty:
        return (_PRETTY.encode(data) + "\n").encode()
    return _ENCODER.encode(data).encode()


def parse(data: object, *, now: int | None, existing: Node = EMPTY, depth: int = 0) -> Node:
    """Return the node of `data`, with server values resolved; a node stands for itself.

    `now` is the value of `{".sv": "timestamp"}` (without it a server value raises NeedsServer). `existing` is the node
    that the new one replaces (increments add to it). `depth` is the number of levels above.
    """
    member = parse_member(data, now, existing, depth)
    return EMPTY if member is None else as_node(member)


def parse_member(data: object, now: int | None, existing: Node, depth: int) -> Member | None:
    """Return the same in the form that its parent keeps; None for no data."""
    if isinstance(data, str):
        return _string(data)
    if data is None or isinstance(data, bool):
        return data
    if isinstance(data, _NUMBERS):
        return _number(data)
    if isinstance(data, list):
        data = {str(index): item for index, item in enumerate(data)}
    if isinstance(data, dict):
        return _parse_object(data, now, existing, depth)
    if isinstance(data, Node):
        return None if data.is_empty else as_member(data)
    raise TypeError(f"{type(data).__name__} is not JSON: {data!r}")


def parse_priority(data: object, *, now: int | None, existing: Priority = None) -> Priority:
    """Return a priority: of null, a number, a string, or a server value."""
    if isinstance(data, dict) and set(data) == {".sv"}:
        return _server_value(data[".sv"], now, existing)
    if data is None:
        return None
    if isinstance(data, str):
        return _string(data)
    if _is_number(data):
        return _number(data)
    raise BadRequest(INVALID)


def render(node: Node, *, priorities: bool = False, arrays: bool = True) -> object:
    """Return a node as JSON: children in key order, and integer keys as an array if they are dense enough."""
    if node.is_empty:
        return None
    if node.value is not None:
        if priorities and node.priority is not None:
            return {".value": node.value, PRIORITY: node.priority}
        return node.value
    inner = node.members
    members: dict[str, object] = {
        key: render(member, priorities=priorities, arrays=arrays) if isinstance(member := inner[key], Node) else member
        for key in node.ordered_keys()
    }
    if priorities and node.priority is not None:
        return {**members, PRIORITY: node.priority}
    return as_array(members) if arrays else members


def as_array(members: dict[str, object]) -> object:
    """Return an array for an object that RTDB shows as one: of indexes, of which more than half are there."""
    length = array_length(members)
    return members if length is None else [members.get(str(index)) for index in range(length)]


def array_length(keys: Collection[str]) -> int | None:
    """Return the length of the array of these keys; None if RTDB shows them as an object."""
    if not all(map(_INDEX.match, keys)) or not keys:
        return None
    length = max(map(int, keys)) + 1
    return length if length <= 2 * len(keys) else None


def _parse_object(data: dict[str, object], now: int | None, existing: Node, depth: int) -> Member | None:
    if ".sv" in data:
        if len(data) != 1:
            raise BadRequest(INVALID)
        return _server_value(data[".sv"], now, existing.value)
    priority = parse_priority(data[PRIORITY], now=now, existing=existing.priority) if PRIORITY in data else None
    if ".value" in data:
        value = data[".value"]
        has_children = isinstance(value, list) or (isinstance(value, dict) and ".sv" not in value)
        if has_children or data.keys() - {".value", PRIORITY}:
            raise BadRequest(INVALID)
        node = parse(value, now=now, existing=existing).with_priority(priority)
        return None if node.is_empty else as_member(node)
    children: dict[str, Member] = {}
    for name, item in data.items():
        if name == PRIORITY:
            continue
        key = known_key(name)
        if key is None:
            raise BadRequest(INVALID)
        if item is None:
            continue
        check_depth(depth + 1)
        # Most writes go below absent nodes, which have no children to look for, or have values that need none.
        is_plain = existing is EMPTY or not isinstance(item, _CONTAINERS)
        child = parse_member(item, now, EMPTY if is_plain else existing.child(key), depth + 1)
        if child is not None:
            children[key] = child
    return Node(None, compact(children), priority) if children else None


def _server_value(operation: object, now: int | None, before: Scalar | None) -> int | float:
    if now is None:
        raise NeedsServer
    if operation == "timestamp":
        return now
    if isinstance(operation, dict) and set(operation) == {"increment"}:
        by = operation["increment"]
        if _is_number(by):
            return _number(before + _number(by) if _is_number(before) else by)
    raise BadRequest('Invalid data; unrecognized server value: it is neither "timestamp" nor {"increment": number}.')


def _is_number(data: object) -> TypeGuard[int | float]:
    return isinstance(data, _NUMBERS) and not isinstance(data, bool)


def _number(number: int | float) -> int | float:
    """Return a number in its one form: a 64-bit integer stays an integer, any other number is a double, 1.0 is 1."""
    try:
        double = float(number)
    except OverflowError:
        double = math.inf
    if not math.isfinite(double):
        raise BadRequest(INVALID)
    if isinstance(number, int):
        return number if number in _INT64 else double
    return int(double) if double.is_integer() and int(double) in _INT64 else double


def _string(text: str) -> str:
    if text.isascii() and len(text) <= MAX_STRING_BYTES:
        return text
    try:
        size = len(text.encode())
    except UnicodeEncodeError:  # half of a surrogate pair is not a character
        raise BadRequest(INVALID) from None
    if size > MAX_STRING_BYTES:
        raise BadRequest(f"Invalid data; a string has {size} bytes, {MAX_STRING_BYTES} are allowed.")
    return text
