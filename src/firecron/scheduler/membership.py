"""What a beat says of its instance's group, besides the beat itself. Pure decisions about the node's other fields.

The first beat in a group tells which jobs the group runs (`jobs/groups`). All instances of the group tell the same, so
it doesn't matter who comes last. It is told until a beat was written, and again if the counter went back: then somebody
has deleted the node.

When the group was first seen is written by those that took its first tickets, each with the time of its own first beat,
in its second beat: only the reply to the first one has told them that they were among the first. They are a few, so
that the time is there although one of them dies. Theirs are seconds apart, and any of them will do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from firecron.cron.schedule import Schedule
from firecron.jobs.groups import group_fields

# How many instances say when their group was first seen.
_FOUNDERS = 3


@dataclass(frozen=True, slots=True)
class Membership:
    """What an instance knows of its group's node after its last beat.

    `number` is its last ticket there. `is_told` says that the group's jobs are in the node. `founded_at` is when the
    group was first seen, if this instance has still to say so.
    """

    group: str = ""
    number: int | None = None
    is_told: bool = False
    founded_at: int | None = None

    def fields(
        self, group: str, schedules: Mapping[str, Schedule], service: str, heartbeat: float
    ) -> dict[str, object]:
        """Return the fields that the next beat writes into the node of this group, given its jobs' schedules."""
        is_same = group == self.group
        told = {} if is_same and self.is_told else group_fields(schedules, service, heartbeat)
        founded = {"firstSeenAt": self.founded_at} if is_same and self.founded_at is not None else {}
        return {**told, **founded}

    def after(self, group: str, number: int | None, seen_at: int | None) -> Membership:
        """Return the membership after a beat that was written, with the ticket and the time in its reply."""
        before = self if group == self.group else Membership(group)
        if number is None:
            return replace(before, is_told=True, founded_at=None)
        is_first = before.number is None
        has_restarted = before.number is not None and number <= before.number
        is_founder = (is_first or has_restarted) and number <= _FOUNDERS
        return Membership(group, number, not has_restarted, seen_at if is_founder else None)
