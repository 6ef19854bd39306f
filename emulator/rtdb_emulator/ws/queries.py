"""A query in the form of the protocol: short names, and names for the lowest and the highest key."""

from __future__ import annotations

from collections.abc import Mapping

from rtdb_emulator.errors import BadRequest
from rtdb_emulator.jsondata import parse
from rtdb_emulator.paths import is_key
from rtdb_emulator.query import Bound, Query

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
    if isinstance(index, str):
        if index in _ORDERS:
            return _ORDERS[index]
        keys = [key for key in index.split("/") if key]
        if keys and all(map(is_key, keys)):
            return "/".join(keys)
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
    scalar = parse(value, now=0).value
    if key in (_LOWEST, _HIGHEST):
        # All children with this value lie on one side of such a key.
        return Bound(scalar, None, inclusive=(key == _LOWEST) == (side == "s"))
    if key is not None and not (isinstance(key, str) and is_key(key)):
        raise BadRequest(f"Invalid query: {side}n must be a key, not {key!r}")
    return Bound(scalar, key, inclusive)
