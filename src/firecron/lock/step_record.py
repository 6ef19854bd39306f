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
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from firecron.base.exact import number
from firecron.errors import Malformed

# What is written as the result of a step; RTDB takes 10 MB.
MOST_BYTES = 65_536

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
