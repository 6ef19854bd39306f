"""Exchanges held by a test: it answers each step as it is expected to come."""

from __future__ import annotations

from typing import Any, TypeVar

from tests.unit.lock.records import NOW, at, node, request

from firecron.errors import Denied, StoreError, Unavailable
from firecron.lock.protocol import Action, Answer, Exchange, Held, Now, Swap, Swapped, acquiring
from firecron.lock.record import Number, Refused, Request, Trust
from firecron.store import NULL_ETAG, Snapshot

T = TypeVar("T")

ABSENT = Snapshot(NULL_ETAG, None)
THEIRS = Snapshot("theirs", node())
DONE = Swapped("new", 0.0)
DOWN = Unavailable("down")
NO = Denied("no")


def converse(exchange: Exchange[T], *dialogue: tuple[type[Action], Answer | StoreError]) -> tuple[T, list[Action]]:
    """Answer the steps as they are expected to come; gives the outcome, and the steps as they were."""
    steps: list[Action] = []
    expected = iter(dialogue)
    try:
        step = next(exchange)
        while True:
            steps.append(step)
            kind, answer = next(expected, (None, None))
            assert type(step) is kind, f"{step} after {steps[:-1]}"
            step = exchange.throw(answer) if isinstance(answer, StoreError) else exchange.send(answer)
    except StopIteration as done:
        assert next(expected, None) is None, "the exchange ended early"
        outcome: T = done.value
        return outcome, steps


def acquire(
    *dialogue: tuple[type[Action], Answer | StoreError],
    wanted: Request | None = None,
    known: Snapshot | None = None,
    written: dict[Number, Trust] | None = None,
) -> tuple[Held | Refused, list[Action]]:
    return converse(acquiring(wanted or request(), known, {} if written is None else written), *dialogue)


def wins(*dialogue: tuple[type[Action], Answer | StoreError], **given: Any) -> tuple[Held, list[Action]]:
    """An acquire that ends with the lock."""
    held, steps = acquire(*dialogue, **given)
    assert isinstance(held, Held), held
    return held, steps


def refusal(*dialogue: tuple[type[Action], Answer | StoreError], **given: Any) -> str:
    """Why an acquire is refused."""
    refused, _ = acquire(*dialogue, **given)
    assert isinstance(refused, Refused), refused
    return refused.reason


def clock(milliseconds: int = 0) -> tuple[type[Action], Answer]:
    return Now, at(NOW + milliseconds)


def swaps(steps: list[Action]) -> list[Swap]:
    return [step for step in steps if isinstance(step, Swap)]
