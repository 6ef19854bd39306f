"""The record of a step, `cron-steps/<name>/<tick>/<step>`: what it says, and what a writer makes of it. Pure.

A record has a result (`result`, `doneAt`), or it is an intent: its call may have begun, and nobody knows how it ended.
The fence of the claim that wrote it decides between writers. Fences rise from claim to claim, so a record with

    no fence (no record)    is written
    a lower fence           is an earlier claim's. Its result was written after this claim had looked, by a zombie: the
                            claim has called meanwhile, and its own result replaces the zombie's
    the same fence          is this claim's own. A result is what an earlier write of it brought, with its reply lost
    a higher fence          is a successor's: this claim is the zombie, and must not write

Before a call that may happen only once, more is at stake: a result of a lower fence is used instead of the call, and an
intent of a lower fence stands for a call that may be under way at this moment.

RTDB has no null and no empty list, and gives 1.0 back as 1. So a result is stored as one JSON text. The first caller
gets its result through the text, too: what differs after a rerun differs at once, and a test sees it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias

from firecron.base.instants import number
from firecron.errors import ConfigurationError, Malformed

if TYPE_CHECKING:
    from pydantic import TypeAdapter


Verdict: TypeAlias = Literal["write", "written", "found", "in_doubt", "overtaken"]


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A step that was recorded, or the intent to call it. Instants are milliseconds of RTDB's clock."""

    fence: int
    started_at: int
    attempt: int | None = None
    instance: str | None = None
    done_at: int | None = None
    result: str | None = None

    @property
    def is_done(self) -> bool:
        """Whether it has a result."""
        return self.result is not None

    def to_node(self) -> dict[str, object]:
        """Return the node that the database holds for it."""
        fields: dict[str, object] = {
            "result": self.result,
            "doneAt": self.done_at,
            "startedAt": self.started_at,
            "fence": self.fence,
            "attempt": self.attempt,
            "instance": self.instance,
        }
        return {name: value for name, value in fields.items() if value is not None}


def read_step(node: object) -> StepRecord | None:
    """Return the record that a node holds; None for no node.

    Raise Malformed for anything else: a step that can't be understood may have been called.
    """
    if node is None:
        return None
    if not isinstance(node, dict):
        raise Malformed(f"it holds {node!r:.40} instead of the record of a step")
    fence, started_at, done_at = (number(node.get(name)) for name in ("fence", "startedAt", "doneAt"))
    result, instance = node.get("result"), node.get("instance")
    if fence is None or started_at is None:
        raise Malformed("it has no fence, or no startedAt, that is a number")
    if (result is None) != (node.get("doneAt") is None) or (result is not None and done_at is None):
        raise Malformed("it has one of result and doneAt: a record has both, an intent neither")
    if result is not None and not isinstance(result, str):
        raise Malformed(f"its result is {result!r:.40}, which is no text")
    by = instance if isinstance(instance, str) else None
    return StepRecord(fence, started_at, number(node.get("attempt")), by, done_at, result)


def judge_result(found: StepRecord | None, own: StepRecord) -> Verdict:
    """Return what the writer of a result makes of the record that is there."""
    if found is None or found.fence < own.fence:
        return "write"
    if found.fence > own.fence:
        return "overtaken"
    return "found" if found.is_done else "write"


def judge_intent(found: StepRecord | None, own: StepRecord, allowed: StepRecord | None) -> Verdict:
    """Return what the writer of an intent makes of the record that is there.

    `allowed` is the intent of an earlier try whose call may be made again.
    """
    if found is None:
        return "write"
    if found.fence > own.fence:
        return "overtaken"
    if found.is_done:
        return "found"
    if found == own:
        return "written"
    return "write" if found == allowed else "in_doubt"


# --- results as texts

# What is written as the result of a step; RTDB takes 10 MB.
MOST_BYTES = 65_536


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
