"""The results of steps as JSON texts. Pure.

RTDB has no null and no empty list, and gives 1.0 back as 1. So a result is stored as one text. The first caller gets
its result through the text, too: what differs after a rerun differs at once, and a test sees it.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING

from firecron.errors import ConfigurationError
from firecron.lock.step_record import MOST_BYTES

if TYPE_CHECKING:
    from pydantic import TypeAdapter


def to_result(name: str, value: object, returns: object) -> str:
    """Return the text of a result.

    Raise ConfigurationError for a result that the text would change, or that is too large. With `returns`, a type,
    pydantic writes the text.
    """
    text = _written(name, value) if returns is None else _written_by(name, value, returns)
    size = len(text.encode())
    if size > MOST_BYTES:
        raise ConfigurationError(
            f'step "{name}" returned {size:,} bytes of JSON, and {MOST_BYTES:,} are allowed: store it elsewhere, and '
            "return where it is"
        )
    return text


def from_result(name: str, text: str, returns: object) -> object:
    """Return the value of a recorded text. Raise ConfigurationError if this deployment does not understand it."""
    try:
        found: object = json.loads(text) if returns is None else _adapter(returns).validate_json(text)
    except ValueError as error:  # pydantic's ValidationError is one
        raise ConfigurationError(
            f'step "{name}" is recorded as {text[:80]!r}, which is not {_named(returns)}: read what earlier '
            f"deployments have recorded, or give the step another name, and it is called again. {error}"
        ) from error
    return found


def _written(name: str, value: object) -> str:
    remedy = "return what JSON can say, or pass returns= with the type"
    try:
        text = _dumped(value)
        is_same = _is_same(value, json.loads(text))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f'step "{name}" returned {value!r:.80}: {error}; {remedy}') from None
    if not is_same:
        raise ConfigurationError(
            f'step "{name}" returned {value!r:.80}, which JSON gives back as {text[:80]}, not equal or of other types: '
            f"{remedy}"
        )
    return text


def _written_by(name: str, value: object, returns: object) -> str:
    try:
        adapter = _adapter(returns)
        text = adapter.dump_json(value, warnings="error").decode()
        adapter.validate_json(text)
    except ValueError as error:  # pydantic's errors are ValueErrors
        raise ConfigurationError(
            f'step "{name}" returned {value!r:.80}, which is not {_named(returns)}: {error}'
        ) from None
    return text


def _dumped(value: object) -> str:
    """Return the value as JSON, readable where it is text."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))  # half a character: only as its number
    return text


def _is_same(value: object, other: object) -> bool:
    """Return whether the two are equal, and of the same types at every depth."""
    if type(value) is not type(other):
        return False
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(_is_same(value[key], other[key]) for key in value)
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(_is_same, value, other))
    return value == other


@lru_cache(maxsize=256)
def _cached(returns: object) -> TypeAdapter[object]:
    from pydantic import TypeAdapter

    return TypeAdapter(returns)  # type: ignore[arg-type]  # any type is allowed, and pydantic says what it can't use


def _adapter(returns: object) -> TypeAdapter[object]:
    try:
        # A type such as Annotated with a list can't be hashed.
        return _cached(returns) if _has_hash(returns) else _cached.__wrapped__(returns)
    except Exception as error:  # pydantic's own errors for a type that it can't use
        raise ConfigurationError(f"returns={returns!r} is no type that pydantic understands: {error}") from error


def _has_hash(returns: object) -> bool:
    try:
        hash(returns)
    except TypeError:
        return False
    return True


def _named(returns: object) -> str:
    return "JSON" if returns is None else getattr(returns, "__name__", None) or repr(returns)
