"""An entry of the history: `cron-runs/<name>/<key>`, a run that has ended or ticks that did not run. Pure.

What is written can be read; what is read may be anything, and is never refused: a field that makes no sense is left
out, and what is no entry is `malformed`. Between two entries for one key, the higher fence wins; between a run's own
and the bookkeeper's guess, the later attempt does, and the run's own where that is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from firecron.base.exact import number
from firecron.base.instants import to_text
from firecron.jobs.run import Outcome

_BOOKKEEPER = "bookkeeper"
_ERROR_LENGTH = 500


@dataclass(frozen=True, slots=True)
class Entry:
    """A run, or ticks that did not run: `count` of them (or more: `at_least`), the last of which is `slot`.

    Instants are milliseconds of RTDB's clock; what is not known is None. With `recorded_by`, the instance is the one
    that wrote the entry, and nothing ran there.
    """

    key: str
    outcome: Outcome | Literal["malformed"]
    slot: str | None = None
    trigger: str | None = None
    started_at: int | None = None
    ended_at: int | None = None
    duration: int | None = None
    attempt: int | None = None
    fence: int | None = None
    count: int = 1
    at_least: bool = False
    recorded_by: str | None = None
    instance_id: str | None = None
    instance: str | None = None
    error: str | None = None

    @property
    def owner(self) -> str:
        """Where it ran, or who recorded it."""
        return owner_of(self.instance_id, self.instance)

    def outranks(self, node: object) -> bool:
        """Whether this entry replaces what is there under its key."""
        if not isinstance(node, dict):
            return True
        other = read_entry(self.key, node)
        is_ours, is_theirs = (entry.recorded_by == _BOOKKEEPER for entry in (self, other))
        if is_ours != is_theirs:
            # The bookkeeper was not there, and the fence that it found may be a later run's: a run by hand raises it.
            ours, theirs = self.attempt or 0, other.attempt or 0
            return ours > theirs if is_ours else ours >= theirs
        return (self.fence or 0) > (other.fence or 0)

    def to_node(self) -> dict[str, object]:
        """What the database holds."""
        fields: dict[str, object] = {
            "outcome": self.outcome,
            "slot": self.slot,
            "trigger": self.trigger,
            "startedAt": self.started_at,
            "endedAt": self.ended_at,
            "durationMs": self.duration,
            "attempt": self.attempt,
            "fence": self.fence,
            "count": None if self.count == 1 else self.count,
            "atLeast": self.at_least or None,  # there are more than `count`, and nobody counted them
            "recordedBy": self.recorded_by,
            "instanceId": self.instance_id,
            "instance": self.instance,
            "error": self.error and self.error[:_ERROR_LENGTH],
        }
        return {name: value for name, value in fields.items() if value is not None}

    def to_json(self) -> dict[str, object]:
        """For programs: every field is always there, and instants are texts."""
        return {
            "key": self.key,
            "outcome": self.outcome,
            "slot": self.slot,
            "trigger": self.trigger,
            "started": _text(self.started_at),
            "ended": _text(self.ended_at),
            "durationMs": self.duration,
            "attempt": self.attempt,
            "fence": self.fence,
            "count": self.count,
            "atLeast": self.at_least,
            "recordedBy": self.recorded_by,
            "instanceId": self.instance_id,
            "instance": self.instance,
            "error": self.error,
        }


def unrun(
    slot: str,
    outcome: Outcome,
    attempt: int | None = None,
    fence: int | None = None,
    count: int = 1,
    at_least: bool = False,
) -> Entry:
    """The bookkeeper's entry for ticks that did not run, or not to the end."""
    return Entry(
        slot,
        outcome,
        slot=slot,
        attempt=attempt,
        fence=fence,
        count=count,
        at_least=at_least,
        recorded_by=_BOOKKEEPER,
    )


def manual_key(started_at: int, run_id: str) -> str:
    """The key of a run by hand: it sorts among the slots, where the run happened."""
    return f"{to_text(started_at)}-manual-{run_id}"


def read_entry(key: str, node: object) -> Entry:
    """The entry that a node holds. A malformed one says so in `error`, and keeps the fields that make sense."""
    fields = node if isinstance(node, dict) else {}
    said, count = fields.get("outcome"), number(fields.get("count"))
    outcome: Outcome | Literal["malformed"] = next((one for one in get_args(Outcome) if one == said), "malformed")
    return Entry(
        key,
        outcome,
        slot=_word(fields.get("slot")),
        trigger=_word(fields.get("trigger")),
        started_at=number(fields.get("startedAt")),
        ended_at=number(fields.get("endedAt")),
        duration=number(fields.get("durationMs")),
        attempt=number(fields.get("attempt")),
        fence=number(fields.get("fence")),
        count=1 if count is None else count,
        at_least=fields.get("atLeast") is True,
        recorded_by=_word(fields.get("recordedBy")),
        instance_id=_word(fields.get("instanceId")),
        instance=_word(fields.get("instance")),
        error=f"it holds {node!r}, where a run should be" if outcome == "malformed" else _word(fields.get("error")),
    )


def owner_of(instance_id: str | None, instance: str | None) -> str:
    """Revision and instance, as far as they are known."""
    return "/".join(part for part in (instance_id, instance) if part)


def _word(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _text(instant: int | None) -> str | None:
    return None if instant is None else to_text(instant)
