"""Which instances are alive, as far as their signs of life in `cron-instances` tell.

An instance that ticks has a node for each of its processes, until ten beats after its death. Others have none: plain
locks, `exec`, runs by hand, and triggered runs where the guard is closed.

Nothing here decides whether a lock is free: its record alone does. It is for people, for the log and the history.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from firecron.base.exact import number, whole
from firecron.base.instants import to_text
from firecron.lock.record import DAY, LockRecord

SILENT_BEATS = 3
# After so many an instance's node is removed by the others.
PRUNED_BEATS = 10


@dataclass(frozen=True, slots=True)
class Instances:
    """When the instances were last seen, by the names of their nodes in `cron-instances`, and how often they beat.
    All in milliseconds.
    """

    seen: Mapping[str, int] = field(default_factory=dict)
    heartbeat: float = 30_000

    def silent(self, now: int) -> dict[str, int]:
        """The nodes that have missed three beats."""
        return {name: at for name, at in self.seen.items() if at < self.silent_before(now)}

    def silent_before(self, now: int) -> float:
        """Whose last sign of life is older than this is silent."""
        return now - SILENT_BEATS * self.heartbeat

    def last_seen(self) -> dict[str, int]:
        """When each instance was last seen. Its processes share its id: one that is alive may be the holder."""
        found: dict[str, int] = {}
        for name, at in self.seen.items():
            instance = name.rpartition("-")[0]
            found[instance] = max(at, found.get(instance, at))
        return found

    def problem_of(self, record: LockRecord, now: int) -> str | None:
        """Why the holder of a record is likely to be dead.

        A missing node says something of a scheduled run only, and only of one that is older than ten beats.
        """
        if not record.instance:
            return None
        seen = self.last_seen().get(record.instance)
        if seen is not None:
            return None if seen >= self.silent_before(now) else silence(seen)
        is_scheduled = record.slot is not None and record.fence is not None and record.unfinished is not None
        if not is_scheduled or now - (record.acquiredAt or now) < PRUNED_BEATS * self.heartbeat:
            return None
        return "its instance has no heartbeat: it is dead, or it never had one (exec, a run by hand, a trigger)"


def inspect_instances(nodes: object, heartbeat: float) -> Instances:
    """What `cron-instances` says; `heartbeat` is in seconds."""
    found = nodes if isinstance(nodes, dict) else {}
    # The node "clock" is nobody's: it is where an instance without a node asks for the time.
    times = {name: number(node.get("seenAt")) for name, node in found.items() if isinstance(node, dict)}
    seen = {name: at for name, at in sorted(times.items()) if name != "clock" and at is not None}
    return Instances(seen, heartbeat * 1000)


def silence(seen: int) -> str:
    """That a holder's instance is silent, for people."""
    return f"its instance was seen last at {to_text(seen)}: it died, or has no CPU between requests"


def how_to_free(name: str) -> str:
    """What to do about a lock whose holder is likely to be dead."""
    return f"make sure that its run has ended, then: firecron unlock {name}"


class Roster:
    """The instances that were silent when this process last looked, which is every `recovery_interval`.

    A process that doesn't tick never looks, and knows of none. A look is minutes old, so a record that shows a later
    sign of life has the last word.
    """

    def __init__(self) -> None:
        # Replaced as one, because other threads read it.
        self._look: tuple[dict[str, int], float] = ({}, 0)

    def note(self, found: Instances, now: int) -> None:
        """Remember a look at `cron-instances`, made at this time of RTDB's."""
        last_seen = found.last_seen()
        # A node that was removed since is of an instance as silent as before. No lease is longer than a day.
        gone = {instance: at for instance, at in self._look[0].items() if instance not in last_seen and at > now - DAY}
        limit = found.silent_before(now)
        self._look = ({**gone, **{instance: at for instance, at in last_seen.items() if at < limit}}, limit)

    def silent_since(self, record: LockRecord, ttl: int) -> int | None:
        """The last sign of life of a lock's holder, if its instance is silent; None if it is alive, or unknown.

        To acquire, to renew and to release are signs of life. When a lock was renewed last, its expiry tells if its
        holder has the `ttl` (in milliseconds) that is asked for here, as each instance has that runs the same job.
        """
        silent, limit = self._look
        seen = silent.get(record.instance) if record.instance else None
        if seen is None or record.releasedAt is not None:
            return None
        last = max(seen, whole(record.acquiredAt or 0), whole(record.expiresAt) - ttl)
        return last if last < limit else None
