"""Views: what the nodes of locks, runs, steps and acts mean to a person. Pure, and for any node.

No job depends on a view, so no node is refused: one that can't be understood is shown as `malformed`, with the reason.
The texts of a view are safe to print. The record itself decides whether a lock is live, as it does for a contender:

    absent         there is no node
    free           released, or never held
    held           acquired: all other contenders are refused
    minimum_hold   released, but kept for the minimum time that its holder asked for
    died           expired without a release
    unlocked       an operator has set its expiry back; its holder may not know yet
    malformed      nothing can acquire it until an operator mends the node

The steps of a tick are shown without their results, which may be personal data.
"""

from __future__ import annotations

import getpass
import json
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeAlias

from firecron.base.instants import to_text, whole
from firecron.base.texts import cut, plain
from firecron.errors import Malformed
from firecron.jobs.run import to_name
from firecron.lock.audit_log import KEPT, Act, read_act
from firecron.lock.fields import LEADER, pause_in
from firecron.lock.record import LockRecord, parse
from firecron.lock.refusal import Instances
from firecron.ops.remedy import Remedy, freeing, mending
from firecron.runs.entry import Entry, owner_of, read_entry

# --- locks

# Characters of a node that nobody can claim.
_MOST_STORED = 1_000

LockState: TypeAlias = Literal["absent", "free", "held", "minimum_hold", "died", "unlocked", "malformed"]


@dataclass(frozen=True, slots=True)
class LockView:
    """A lock as its node shows it. Instants are milliseconds of RTDB's clock. A field that the node lacks is None.

    `is_paused` means that nobody can acquire the lock now. The fields `paused_…` are of the pause in the node, which is
    over from `paused_until` on. `paused_with` is the hold that has written it, with which many others are paused.

    `is_foreign` means that the record has no holder's token: the NestJS original writes such records. `problem` is what
    an operator has to repair, if anything, and `remedy` is how. `is_stuck` means that the lock expires later than any
    lease can. `is_cancelled` means that the holder was asked to stop, and `cancel_why` is the reason that was given.
    `hears_cancel` means that a holder would notice. `kind` is what the name belongs to, `leader` or None. `path` is the
    node's path in the database, and `stored` what is there, as JSON, if nobody can claim it.
    """

    name: str
    state: LockState
    is_paused: bool = False
    paused_by: str | None = None
    paused_at: int | None = None
    paused_why: str | None = None
    paused_until: int | None = None
    paused_with: str | None = None
    is_foreign: bool = False
    owner: str | None = None
    instance_id: str | None = None
    instance: str | None = None
    since: int | None = None
    until: int | None = None
    released_at: int | None = None
    slot: str | None = None
    unfinished: str | None = None
    outcome: str | None = None
    attempt: int | None = None
    fence: int | None = None
    kind: str | None = None
    is_stuck: bool = False
    is_cancelled: bool = False
    cancel_why: str | None = None
    hears_cancel: bool = False
    problem: str | None = None
    path: str = ""
    stored: str | None = None

    @property
    def has_pause(self) -> bool:
        """Whether the node has a pause, also one that is over: versions that don't know its end are paused by it."""
        return self.is_paused or self.paused_until is not None

    @property
    def why_not_cancelled(self) -> str | None:
        """Why the holder can't be asked to stop; None if it can."""
        if self.state != "held":
            return "it is not held"
        if not self.hears_cancel:
            return (
                "its holder would not notice, because it has no fence or does not renew its lease. A job needs "
                "once_per_tick=True and renew=True, a program hold(…, fenced=True)"
            )
        return None

    @property
    def is_taken(self) -> bool:
        """Whether the lock is held or in its minimum hold, so that it can't be acquired. A pause doesn't count."""
        return self.state in ("held", "minimum_hold")

    @property
    def is_leaders(self) -> bool:
        """Whether the name belongs to a leader, so that who holds it leads."""
        return self.kind == LEADER

    @property
    def remedy(self) -> Remedy | None:
        """What to do about the problem; None without a problem."""
        if self.problem is None:
            return None
        return mending(self.name, self.path) if self.state == "malformed" else freeing(self.name)

    def to_json(self) -> dict[str, object]:
        """Return the view for programs: it always has every field, and instants are texts."""
        return {
            "name": self.name,
            "state": self.state,
            "paused": self.is_paused,
            "pausedBy": self.paused_by,
            "pausedAt": _text(self.paused_at),
            "pausedWhy": self.paused_why,
            "pausedUntil": _text(self.paused_until),
            "pausedWith": self.paused_with,
            "foreign": self.is_foreign,
            "instanceId": self.instance_id,
            "instance": self.instance,
            "since": _text(self.since),
            "until": _text(self.until),
            "released": _text(self.released_at),
            "slot": self.slot,
            "unfinished": self.unfinished,
            "outcome": self.outcome,
            "attempt": self.attempt,
            "fence": self.fence,
            "cancelled": self.is_cancelled,
            "cancelWhy": self.cancel_why,
            "kind": self.kind,
            "stuck": self.is_stuck,
            "problem": self.problem,
            "remedy": self.remedy and self.remedy.to_json(),
        }


def inspect_lock(
    name: str, path: str, node: object, now: int, margin: int, instances: Instances | None = None
) -> LockView:
    """Return the view of the lock's node at this path, at the time `now` of RTDB's clock.

    Without `instances` the view doesn't say whether the holder's instance is alive.
    """
    shown, place = plain(name), plain(path)
    try:
        current = parse(node, now)
    except Malformed as error:
        stored = plain(cut(json.dumps(node, ensure_ascii=False), _MOST_STORED))
        view = LockView(shown, "malformed", problem=plain(str(error)), path=place, stored=stored)
        return _with_pause(view, node if isinstance(node, dict) else {}, now)
    if not isinstance(current, LockRecord):
        return _with_pause(LockView(shown, "absent" if node is None else "free", path=place), current.kept, now)
    state, kind = _state(current, now, margin), current.kept.get("kind")
    problem = None
    is_stuck = state in ("held", "minimum_hold") and current.is_stuck(now)
    if is_stuck:
        problem = f"it expires at {_text(_whole(current.expiresAt))}, later than any lease can, and blocks until then"
    elif state == "held" and instances is not None:
        problem = instances.problem_of(current, now)
    view = LockView(
        shown,
        state,
        is_foreign=current.holder is None,
        owner=plain(current.owner),
        instance_id=_plain_or_none(current.instanceId),
        instance=_plain_or_none(current.instance),
        since=_whole(current.acquiredAt),
        until=_whole(current.expiresAt),
        released_at=_whole(current.releasedAt),
        slot=current.slot,
        unfinished=current.unfinished,
        outcome=_plain_or_none(current.outcome),
        attempt=_whole(current.attempt),
        fence=_whole(current.fence),
        kind=None if kind is None else plain(str(kind)),
        is_stuck=is_stuck,
        is_cancelled=current.is_cancelled,
        cancel_why=plain(current.cancelWhy) if current.is_cancelled and isinstance(current.cancelWhy, str) else None,
        hears_cancel=current.hears_cancel,
        problem=problem,
        path=place,
    )
    return _with_pause(view, current.kept, now)


def _with_pause(view: LockView, node: Mapping[str, object], now: int) -> LockView:
    pause = pause_in(node)
    if pause is None:
        return view
    return replace(
        view,
        is_paused=pause.holds(now),
        paused_by=_plain_or_none(pause.by),
        paused_at=pause.at,
        paused_why=_plain_or_none(pause.why),
        paused_until=pause.until,
        paused_with=pause.hold,
    )


def _state(record: LockRecord, now: int, margin: int) -> LockState:
    if record.is_live(now, margin):
        return "held" if record.releasedAt is None else "minimum_hold"
    if record.releasedAt is not None:
        return "free"
    # A lease never ends before it begins, so an operator has changed this expiry.
    return "unlocked" if record.expiresAt < (record.acquiredAt or 1) else "died"


# --- runs, and the tick that is not in the history yet

# Twice what firecron writes: a user who may write may write anything.
_LONGEST_TRACEBACK = 4_000


def inspect_run(key: str, node: object) -> Entry:
    """Return one entry of `cron-runs/<name>`, with texts that are safe to print on a terminal."""
    entry = read_entry(key, node)
    if entry.outcome == "malformed":
        return Entry(plain(key), "malformed", error=_plain_or_none(entry.error))
    # Whatever the field: one that is added later is safe, too.
    texts: dict[str, Any] = {
        one.name: plain(value) for one in fields(entry) if isinstance(value := getattr(entry, one.name), str)
    }
    return replace(entry, **texts)


def inspect_traceback(node: object) -> str | None:
    """Return the traceback that a node holds, with lines that are safe to print; None if it holds none."""
    if not isinstance(node, str):
        return None
    return "\n".join(plain(line) for line in node[:_LONGEST_TRACEBACK].splitlines())


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A tick whose run has begun, and whose end is not in the history.

    If `is_live`, the lock is held and the run is under way. Else the end of the run is not known. `since` and the
    instance are those of the last acquisition. They are None once that acquisition was released: then it was another
    run's, such as a run by hand. `problem` is the lock's problem.
    """

    slot: str
    is_live: bool
    since: int | None = None
    instance_id: str | None = None
    instance: str | None = None
    problem: str | None = None
    remedy: Remedy | None = None

    @property
    def owner(self) -> str:
        return owner_of(self.instance_id, self.instance)

    def to_json(self) -> dict[str, object]:
        """Return the tick for programs: it always has every field, and instants are texts."""
        return {
            "slot": self.slot,
            "isLive": self.is_live,
            "since": _text(self.since),
            "instanceId": self.instance_id,
            "instance": self.instance,
            "problem": self.problem,
            "remedy": self.remedy and self.remedy.to_json(),
        }


def inspect_unfinished(lock: LockView, runs: Iterable[Entry]) -> Unfinished | None:
    """Return the tick that the lock shows as unfinished; None if the history has this attempt of it or a later one."""
    slot, attempt = lock.unfinished, lock.attempt or 1
    if slot is None or any(run.slot == slot and (run.attempt or 1) >= attempt for run in runs):
        return None
    if lock.released_at is not None:
        return Unfinished(slot, is_live=False)
    is_live = lock.state == "held"
    return Unfinished(slot, is_live, lock.since, lock.instance_id, lock.instance, lock.problem, lock.remedy)


# --- steps

StepState: TypeAlias = Literal["recorded", "begun", "malformed"]


@dataclass(frozen=True, slots=True)
class StepView:
    """A step: `recorded`, or only `begun` (an intent: its call is under way, or nobody knows how it ended).

    Instants are milliseconds. What is not known is None.
    """

    name: str
    state: StepState
    started_at: int | None = None
    done_at: int | None = None
    attempt: int | None = None
    fence: int | None = None
    instance: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return the step for programs: it always has every field, and instants are texts."""
        return {
            "name": self.name,
            "state": self.state,
            "started": _text(self.started_at),
            "done": _text(self.done_at),
            "attempt": self.attempt,
            "fence": self.fence,
            "instance": self.instance,
        }


@dataclass(frozen=True, slots=True)
class TickSteps:
    """The steps of one tick, in the order of their calls."""

    tick: str
    steps: tuple[StepView, ...]

    def to_json(self) -> dict[str, object]:
        return {"tick": self.tick, "steps": [step.to_json() for step in self.steps]}


def inspect_steps(tick: str, node: object, path: str) -> TickSteps:
    """Return the steps of a tick, given the node at this path. A value in its place is shown as one odd step."""
    try:
        nodes = children(node, path)
    except Malformed:
        return TickSteps(tick, (StepView(f"the node holds {node!r:.40}", "malformed"),))
    found = (_step_view(to_name(key), node) for key, node in nodes.items())
    return TickSteps(tick, tuple(sorted(found, key=lambda step: (step.started_at or 0, step.name))))


def _step_view(name: str, node: object) -> StepView:
    # Imported here, because few views have steps: a status has none.
    from firecron.steps.protocol import read_step

    try:
        record = read_step(node)
    except Malformed:
        record = None
    if record is None:
        return StepView(name, "malformed")
    return StepView(
        name,
        "recorded" if record.is_done else "begun",
        record.started_at,
        record.done_at,
        record.attempt,
        record.fence,
        record.instance,
    )


# --- acts


def inspect_acts(nodes: dict[str, object], name: str | None = None) -> tuple[Act, ...]:
    """Return the newest acts, or those on this name, oldest first, with texts that are safe to print."""
    newest = sorted(nodes)[-KEPT:]
    acts = (_inspect_act(key, nodes[key]) for key in newest)
    return tuple(act for act in acts if name in (None, act.name))


def _inspect_act(key: str, node: object) -> Act:
    act = read_act(key, node)
    why = _plain_or_none(act.why)
    return replace(act, key=plain(key), act=plain(act.act), name=plain(act.name), who=plain(act.who), why=why)


def claimed_user() -> str:
    """Return who runs this process, as `user@host`. Both are what the machine says: a claim, and no proof."""
    try:
        user = getpass.getuser()
    except (ImportError, KeyError, OSError):
        user = "unknown"  # a container's user often has no name
    return f"{user}@{socket.gethostname()}"


# --- what the nodes share


def children(node: object, path: str) -> dict[str, object]:
    """Return the children of the node at this path, by name. Raise Malformed if the node has a value instead."""
    if node is None:
        return {}
    if isinstance(node, list):  # the database returns keys that are small numbers as a list
        return {str(index): child for index, child in enumerate(node) if child is not None}
    if not isinstance(node, dict):
        raise Malformed(
            f"{path} holds {node!r:.40}, but must hold one node for each name: delete it in the Firebase console"
        )
    return node


def _plain_or_none(text: str | None) -> str | None:
    return None if text is None else plain(text)


def _whole(value: int | float | None) -> int | None:
    return None if value is None else whole(value)


def _text(instant: int | None) -> str | None:
    return None if instant is None else to_text(instant)
