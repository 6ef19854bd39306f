"""A refusal: why a lock was not acquired, as a value, and as a sentence for the log; and the holders' signs of life.

Where the original for NestJS has a sentence for it ("held by another instance, skipping"), firecron uses the same one.

Which instances are alive is judged by their signs of life in `cron-instances`. An instance that ticks has a node for
each of its processes. The other instances remove such a node ten heartbeats after the process died. Instances that
don't tick have no node: plain locks, `exec`, runs by hand, and triggered runs where the guard is closed. Nothing here
decides whether a lock is free: only its record does. These views are for people, the log and the history.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from firecron.base.instants import number, to_datetime, to_text, whole
from firecron.errors import FirecronError, StoreError
from firecron.lock.fields import Pause, pause_in
from firecron.lock.record import DAY, IDLE, LockRecord, Reason, Refused, Request

# --- a refusal

LEVELS: dict[Reason, int] = {
    "held": logging.INFO,
    "slot_done": logging.DEBUG,
    "slot_early": logging.WARNING,
    "paused": logging.INFO,
    "removed": logging.INFO,
    "malformed": logging.ERROR,
    "unavailable": logging.ERROR,
    "denied": logging.ERROR,
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the lock was not acquired. A refusal is false, so that `if not lease:` reads well.

    With the reasons `unavailable`, `denied` and `malformed` nothing is known of the record: its fields are None.

    Args:
        name: The lock's name.
        reason: `held`, `slot_done`, `slot_early`, `paused`, `malformed`, `unavailable` or `denied`; of a stored
            schedule also `removed`.
        message: The sentence for the log.
        holder: The holder's token in the record.
        instance_id: The revision of the holder, as far as the record says.
        instance: The instance of the holder, as far as the record says.
        until: When the record expires.
        free_at: From when on another holder may take the lock: the margin later, or at the end of a minimum hold.
        slot: The tick that the record is about.
        unfinished: The tick whose run has not ended.
        fence: The fence in the record.
        error: The store's error, with `unavailable` and `denied`.
        problem: What an operator should look at, if anything.
    """

    name: str
    reason: Reason
    message: str
    holder: str | None = None
    instance_id: str | None = None
    instance: str | None = None
    until: datetime | None = None
    free_at: datetime | None = None
    slot: str | None = None
    unfinished: str | None = None
    fence: int | None = None
    error: Exception | None = field(default=None, compare=False)
    problem: str | None = None

    def __bool__(self) -> Literal[False]:
        return False

    @property
    def is_strange(self) -> bool:
        """Whether an operator should look at the lock."""
        return self.problem is not None


def not_known(name: str, reason: Literal["unavailable", "denied"], error: StoreError) -> Refusal:
    """Return the refusal for a lock whose holder can't be known, so that nothing runs."""
    return Refusal(
        name, reason, f'{error.what} - lock "{name}" could not be acquired. Job will NOT run. {error}', error=error
    )


def paused(name: str, job: str, pause: Pause) -> Refusal:
    """Return the refusal of an entry whose stored job is paused: that is another node."""
    return Refusal(name, "paused", f'"{job}" is {pause}: resume it with `firecron resume {job}`')


def claimed_since(name: str, slot: str) -> Refusal:
    """Return the refusal of a tick that needs no request: this instance knows that it, or a later one, was claimed."""
    message = f'Lock "{name}": the tick, or a later one, is claimed already, skipping ({slot})'
    return Refusal(name, "slot_done", message, slot=slot)


def refusal_of(name: str, refused: Refused, request: Request, signs_of_life: SignsOfLife) -> Refusal:
    """Return the refusal that says what stands in the way, by the lock's record and the signs of life."""
    record = refused.current if isinstance(refused.current, LockRecord) else None
    problem = _problem(refused, record, request, signs_of_life)
    message = _message(name, refused, record, request, problem)
    if record is None or refused.reason == "malformed":
        return Refusal(name, refused.reason, message, problem=problem)
    return Refusal(
        name,
        refused.reason,
        message,
        holder=record.holder,
        instance_id=record.instanceId,
        instance=record.instance,
        until=to_datetime(int(record.expiresAt)),
        free_at=to_datetime(record.free_at(request.margin)),
        slot=record.slot,
        unfinished=record.unfinished,
        fence=None if record.fence is None else int(record.fence),
        problem=problem,
    )


def _problem(refused: Refused, record: LockRecord | None, request: Request, signs_of_life: SignsOfLife) -> str | None:
    if refused.is_stuck:
        return "it expires later than any lease can"
    if refused.reason == "paused" and (pause := pause_in(refused.current.kept)) is not None:
        return pause.problem
    if refused.reason != "held" or record is None:
        return None
    seen = signs_of_life.silent_since(record, request.ttl)
    return None if seen is None else silence(seen)


def _message(name: str, refused: Refused, record: LockRecord | None, request: Request, problem: str | None) -> str:
    match refused.reason, record:
        case "held", LockRecord():
            until = to_text(int(record.expiresAt))
            is_own = (record.instanceId, record.instance) == (request.instance_id, request.instance)
            who = "this instance" if is_own else "another instance"
            held = f'Lock "{name}" held by {who}, skipping ({record.owner}, until {until})'
            if not refused.is_stuck:
                return held if problem is None else f"{held}; {problem}. If you can't wait, {how_to_free(name)}"
            return f"{held}. No lease is that long: `expiresAt` was set by hand. Free it with `firecron unlock {name}`"
        case "slot_done", LockRecord():
            done = f"{record.slot} by {record.owner}"
            return f'Lock "{name}": the tick, or a later one, is claimed already, skipping ({done})'
        case "slot_done", _:
            return f'Lock "{name}": there is nothing left to claim'
        case "slot_early", _:
            return f'Lock "{name}": the tick is still to come by RTDB\'s clock, not running it early'
        case "paused", _:
            return (
                f'Lock "{name}" is {pause_in(refused.current.kept)}, skipping; resume it with `firecron resume {name}`'
            )
        case "removed", _:
            how = {"removed": "was removed", "absent": "does not exist"}.get(refused.detail, f"is {refused.detail}")
            return f'The stored schedule "{name}" {how}, not running it'
        case "malformed", _ if refused.current is not IDLE:
            return f'Lock "{name}" is not for this: {refused.detail}. Nothing runs'
        case _:
            return (
                f'Lock "{name}" can\'t be read: {refused.detail}. Job will NOT run. '
                "Mend the node in the Firebase console; deleting it frees the lock, and forgets its last slot and fence"
            )


class NotAcquired(FirecronError):
    """The lock was not acquired, so the block under it did not run. `refusal` says why.

    Args:
        refusal: Why the lock was not acquired.
    """

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


# --- the signs of life

SILENT_BEATS = 3
# After this number of missed heartbeats, other instances remove a process's node.
PRUNED_BEATS = 10


@dataclass(frozen=True, slots=True)
class Instances:
    """When each process was last seen, by the name of its node in `cron-instances`, and the interval of the heartbeats.

    All values are milliseconds.
    """

    seen: Mapping[str, int] = field(default_factory=dict)
    heartbeat: float = 30_000

    def silent(self, now: int) -> dict[str, int]:
        """Return the nodes that have missed three heartbeats, each with the time when it was last seen."""
        return {name: at for name, at in self.seen.items() if at < self.silent_before(now)}

    def silent_before(self, now: int) -> float:
        """Return the limit of silence: a node whose last sign of life is older than this is silent."""
        return now - SILENT_BEATS * self.heartbeat

    def last_seen(self) -> dict[str, int]:
        """Return when each instance was last seen.

        The processes of an instance share its id, and any of them may be the holder, so the latest sign of life counts.
        """
        found: dict[str, int] = {}
        for name, at in self.seen.items():
            instance = name.rpartition("-")[0]
            found[instance] = max(at, found.get(instance, at))
        return found

    def problem_of(self, record: LockRecord, now: int) -> str | None:
        """Return why the holder of a record is probably dead; None if it may be alive.

        A missing node means something only for a scheduled run, and only if the run is older than ten heartbeats.
        """
        if not record.instance:
            return None
        seen = self.last_seen().get(record.instance)
        if seen is not None:
            return None if seen >= self.silent_before(now) else silence(seen)
        if not _is_scheduled_run(record) or now - (record.acquiredAt or now) < PRUNED_BEATS * self.heartbeat:
            return None
        return "its instance has no heartbeat: it is dead, or it never had one (exec, a run by hand, a trigger)"


def inspect_instances(nodes: object, heartbeat: float) -> Instances:
    """Return what `cron-instances` says. `heartbeat` is the interval of the heartbeats, in seconds."""
    found = nodes if isinstance(nodes, dict) else {}
    # The node "clock" belongs to no instance: processes write to it to learn RTDB's time.
    times = {name: number(node.get("seenAt")) for name, node in found.items() if isinstance(node, dict)}
    seen = {name: at for name, at in sorted(times.items()) if name != "clock" and at is not None}
    return Instances(seen, heartbeat * 1000)


def silence(seen: int) -> str:
    """Return a sentence for people that the holder's instance is silent."""
    return f"its instance was last seen at {to_text(seen)}: it died, or has no CPU between requests"


def how_to_free(name: str) -> str:
    """Return what to do about a lock whose holder is probably dead."""
    return f"make sure that its run has ended, then run: firecron unlock {name}"


class SignsOfLife:
    """When each instance was last seen, as this process knows it. It looks every `recovery_interval`.

    A process that doesn't tick never looks, so it has no signs of life. A look may be minutes old, so a later sign of
    life in a record overrules it.
    """

    def __init__(self) -> None:
        # All three are replaced together, because other threads read them: the last signs of life, the limit of silence
        # at the last look, and the instances whose nodes went between two looks without having been silent before.
        self._seen: tuple[dict[str, int], float, set[str]] = ({}, 0, set())

    def observe(self, found: Instances, now: int) -> None:
        """Remember a look at `cron-instances`, taken at RTDB's time `now`."""
        before, old_limit, left = self._seen
        last_seen = found.last_seen()
        # An instance whose node was removed since the last look is remembered for a day, because no lease is longer.
        gone = {instance: at for instance, at in before.items() if instance not in last_seen and at > now - DAY}
        left = {instance for instance, at in gone.items() if instance in left or at >= old_limit}
        self._seen = ({**gone, **last_seen}, found.silent_before(now), left)

    def silent_since(self, record: LockRecord, ttl: int) -> int | None:
        """Return the last sign of life of a lock's holder if its instance is silent; None if it is alive or unknown.

        To acquire, to renew and to release are signs of life. The time of the last renewal follows from the record's
        expiry if the holder's ttl is `ttl` (in milliseconds), the ttl of this request. All instances that run the same
        job have the same ttl.
        """
        last_seen, limit, left = self._seen
        seen = last_seen.get(record.instance) if record.instance else None
        if seen is None or record.releasedAt is not None:
            return None
        if record.instance in left and not _is_scheduled_run(record):
            return None  # a process that stops in order removes its node, and may keep a lock that is no run's
        last = max(seen, whole(record.acquiredAt or 0), whole(record.expiresAt) - ttl)
        return last if last < limit else None


def _is_scheduled_run(record: LockRecord) -> bool:
    """Return whether a run of a tick holds the lock, or died with it."""
    return record.slot is not None and record.fence is not None and record.unfinished is not None
