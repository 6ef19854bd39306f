"""Which instances are alive, judged by their signs of life in `cron-instances`.

An instance that ticks has a node for each of its processes. The other instances remove such a node ten heartbeats after
the process died. Instances that don't tick have no node: plain locks, `exec`, runs by hand, and triggered runs where
the guard is closed.

Nothing here decides whether a lock is free: only its record does. These views are for people, the log and the history.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from firecron.base.exact import number, whole
from firecron.base.instants import to_text
from firecron.lock.record import DAY, LockRecord

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


class Roster:
    """When each instance was last seen, as this process knows it. It looks every `recovery_interval`.

    A process that doesn't tick never looks, so its roster is empty. A look may be minutes old, so a later sign of life
    in a record overrules it.
    """

    def __init__(self) -> None:
        # All three are replaced together, because other threads read them: the last signs of life, the limit of silence
        # at the last look, and the instances whose nodes went between two looks without having been silent before.
        self._look: tuple[dict[str, int], float, set[str]] = ({}, 0, set())

    def note(self, found: Instances, now: int) -> None:
        """Remember a look at `cron-instances`, taken at RTDB's time `now`."""
        before, old_limit, left = self._look
        last_seen = found.last_seen()
        # An instance whose node was removed since the last look is remembered for a day, because no lease is longer.
        gone = {instance: at for instance, at in before.items() if instance not in last_seen and at > now - DAY}
        left = {instance for instance, at in gone.items() if instance in left or at >= old_limit}
        self._look = ({**gone, **last_seen}, found.silent_before(now), left)

    def silent_since(self, record: LockRecord, ttl: int) -> int | None:
        """Return the last sign of life of a lock's holder if its instance is silent; None if it is alive or unknown.

        To acquire, to renew and to release are signs of life. The time of the last renewal follows from the record's
        expiry if the holder's ttl is `ttl` (in milliseconds), the ttl of this request. All instances that run the same
        job have the same ttl.
        """
        last_seen, limit, left = self._look
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
