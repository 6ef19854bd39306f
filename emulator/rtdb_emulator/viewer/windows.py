"""The page's view of a node: a window of its children, a line each, as JSON. Pure, and bounded in size.

A window begins at a key, not at a number: children that are added or deleted before it don't move its rows.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice
from typing import TypeAlias

from rtdb_emulator.jsondata import render
from rtdb_emulator.ordering import Scalar, key_order
from rtdb_emulator.tree import Member, Node, as_node

Json: TypeAlias = dict[str, object]

ROWS = 100
# The most characters of a text in a row; an editor reads the whole value.
LONGEST_TEXT = 500
# The most leaves of a value that can be edited as one text.
LARGEST_VALUE = 5_000
# A browser's numbers are doubles.
_LARGEST_EXACT = 2**53
# An object shows the first number of leaves in its own row, if it has no more children than the second number.
_PEEKED = 8
_PEEKED_OF = 100
_LONGEST_PEEK = 48


def window(node: Node, start: str | None) -> Json:
    """Return the node's own line, and its children from the key `start` on.

    `first` is the number of children before the window; `previous` and `next` are the first keys of the windows beside
    it.
    """
    shown = _line(node)
    if not node.members:
        return shown
    keys = node.ordered_keys()
    first = 0 if start is None else bisect_left(keys, key_order(start), key=key_order)
    end = first + ROWS
    return {
        **shown,
        "first": first,
        "rows": [{"key": key, **_line(node.members[key])} for key in keys[first:end]],
        "previous": keys[max(0, first - ROWS)] if first else None,
        "next": keys[end] if end < len(keys) else None,
        "last": keys[(len(keys) - 1) // ROWS * ROWS] if end < len(keys) else None,
    }


def whole(node: Node) -> Json:
    """Return the node's value as an export, with its hash for a conditional write; only `count` if the value is large.

    The value is a text, because a browser rounds integers of more than 53 bits.
    """
    if sum(1 for _ in islice(_leaves(node), LARGEST_VALUE + 1)) > LARGEST_VALUE:
        return {"count": len(node.members)}
    text = json.dumps(render(node, priorities=True, arrays=False), indent=2, ensure_ascii=False)
    return {"text": text, "hash": node.hash}


def _line(member: Member) -> Json:
    node = as_node(member)
    shown: Json = {} if node.priority is None else {"priority": _short(node.priority, _LONGEST_PEEK)}
    if not node.members:
        if isinstance(node.value, str) and len(node.value) > LONGEST_TEXT:
            shown["length"] = len(node.value)
        if isinstance(node.value, int) and abs(node.value) > _LARGEST_EXACT:
            shown["exactly"] = str(node.value)
        return {**shown, "value": _short(node.value, LONGEST_TEXT)}
    peek = [
        (key, _short(child, _LONGEST_PEEK))
        for key in (node.ordered_keys() if len(node.members) <= _PEEKED_OF else ())
        if not isinstance(child := node.members[key], Node)
    ]
    return {**shown, "count": len(node.members), "peek": peek[:_PEEKED]}


def _short(value: Scalar | None, longest: int) -> Scalar | None:
    return f"{value[:longest]}…" if isinstance(value, str) and len(value) > longest else value


def _leaves(node: Node) -> Iterator[Node]:
    if not node.members:
        yield node
    for member in node.members.values():
        yield from _leaves(as_node(member))
