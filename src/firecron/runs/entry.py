"""An entry of the history, `cron-runs/<name>/<key>`: a run that has ended, or ticks that did not run. Pure.

Every entry that is written can be read. A node may hold anything, and reading never fails: an invalid field is left
out, and a node that is not an entry is read as `malformed`.

Of two entries with one key, the one with the higher fence wins. Between a run's own entry and the bookkeeper's, the
later attempt wins; with equal attempts, the run's own entry wins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from firecron.base.instants import number, to_text
from firecron.jobs.run import Outcome

# In the key of a run by hand, between its start and its id.
MANUAL = "-manual-"
_BOOKKEEPER = "bookkeeper"
# Of each character the rules count two units at most, and let 1,000 pass.
_ERROR_LENGTH = 500
# The `error` of ticks that were skipped because of a pause.
PAUSED = "it was paused"


@dataclass(frozen=True, slots=True)
class Entry:
    """A run, or `count` ticks that did not run, of which `slot` is the last. `at_least` means `count` or more ticks.

    Instants are milliseconds of RTDB's clock. A field that is not known is None. With `recorded_by`, the instance is
    the one that wrote the entry; the job did not run there. What is known of a run without its entry has no `key`.
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
    note: str | None = None

    @property
    def owner(self) -> str:
        """The instance that ran the job, or that recorded the entry."""
        return owner_of(self.instance_id, self.instance)

    @property
    def took(self) -> int | None:
        """How long the run took; without its entry, from its claim to its release. None if that is not known."""
        if self.duration is not None or self.started_at is None or self.ended_at is None:
            return self.duration
        return max(0, self.ended_at - self.started_at)

    @property
    def did_run(self) -> bool:
        """Whether it is a run, and not ticks that did not run."""
        return self.outcome not in ("skipped", "missed")

    def outranks(self, node: object) -> bool:
        """Return whether this entry replaces the node that stands under its key."""
        if not isinstance(node, dict):
            return True
        other = read_entry(self.key, node)
        is_ours, is_theirs = (entry.recorded_by == _BOOKKEEPER for entry in (self, other))
        if is_ours != is_theirs:
            # The bookkeeper has not seen the run, and its fence may be a later run's, because a run by hand raises
            # the fence: so the attempts decide.
            ours, theirs = self.attempt or 0, other.attempt or 0
            return ours > theirs if is_ours else ours >= theirs
        return (self.fence or 0) > (other.fence or 0)

    def to_node(self) -> dict[str, object]:
        """Return the node that the database holds for this entry."""
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
            "atLeast": self.at_least or None,  # true: more than `count` ticks, which are not counted further
            "recordedBy": self.recorded_by,
            "instanceId": self.instance_id,
            "instance": self.instance,
            "error": self.error and self.error[:_ERROR_LENGTH],
            "note": self.note,
        }
        return {name: value for name, value in fields.items() if value is not None}

    def to_json(self) -> dict[str, object]:
        """Return the entry for programs: it always has every field, and instants are texts."""
        return {
            "key": self.key or None,
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
            "note": self.note,
        }


def unrun(
    slot: str,
    outcome: Outcome,
    attempt: int | None = None,
    fence: int | None = None,
    count: int = 1,
    at_least: bool = False,
    why: str | None = None,
) -> Entry:
    """Return the bookkeeper's entry for ticks that did not run, or for one that did not run to its end."""
    return Entry(
        slot,
        outcome,
        slot=slot,
        attempt=attempt,
        fence=fence,
        count=count,
        at_least=at_least,
        recorded_by=_BOOKKEEPER,
        error=why,
    )


def manual_key(started_at: int, run_id: str) -> str:
    """Return the key of a run by hand. It sorts among the slots by the time of the run."""
    return f"{to_text(started_at)}{MANUAL}{run_id}"


# Of the instant that a key begins with.
_LENGTH = 20


def is_manual(key: str) -> bool:
    """Return whether this is the key of a run by hand."""
    return key.startswith(MANUAL, _LENGTH)


def entry_of(key: str) -> str:
    """Return the key of the stored schedule whose run has this key in the history; an empty one of any other run."""
    return key[_LENGTH:].partition(":")[2]


def key_of_run(name: str, key: str) -> str:
    """Return the idempotency key of the run that has this key in the history: all its attempts have the same."""
    entry = entry_of(key)
    if entry:
        name, key = f"{name}:{entry}", key.removesuffix(f":{entry}")
    return f"{name}:manual:{key.rpartition(MANUAL)[2]}" if is_manual(key) else f"{name}:{key}"


def term_key(started_at: int, fence: int) -> str:
    """Return the key of a leader's term. It sorts by the time of its election."""
    return f"{to_text(started_at)}-term-{fence}"


def abandoned_term(started_at: int, fence: int, *, instance_id: str | None, instance: str | None) -> Entry:
    """Return the entry of a term whose instance died: the next leader writes it. The instance is the next leader's."""
    key = term_key(started_at, fence)
    return Entry(
        key,
        "abandoned",
        started_at=started_at,
        fence=fence,
        recorded_by=_BOOKKEEPER,
        instance_id=instance_id,
        instance=instance,
    )


def read_entry(key: str, node: object) -> Entry:
    """Return the entry that a node holds. A malformed entry says so in `error`, and keeps its valid fields."""
    fields = node if isinstance(node, dict) else {}
    outcome, count = as_outcome(fields.get("outcome")) or "malformed", number(fields.get("count"))
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
        note=_word(fields.get("note")),
        error=f"the node holds {node!r:.200}, which is no entry"
        if outcome == "malformed"
        else _word(fields.get("error")),
    )


def as_outcome(said: object) -> Outcome | None:
    """Return the outcome that a node holds; None if it holds something else."""
    return next((one for one in get_args(Outcome) if one == said), None)


def owner_of(instance_id: str | None, instance: str | None) -> str:
    """Return revision and instance as one text, as far as they are known."""
    return "/".join(part for part in (instance_id, instance) if part)


def _word(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _text(instant: int | None) -> str | None:
    return None if instant is None else to_text(instant)
