"""A request: what a contender asks of a lock's node. Pure values; `record` decides about them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Missed:
    """What a record remembers of ticks that did not run: the values of `missedAfter`, `missedUntil`, `missedMore`."""

    after: str | None = None
    until: str | None = None
    more: str | None = None

    def to_json(self) -> dict[str, object]:
        return {"missedAfter": self.after, "missedUntil": self.until, "missedMore": self.more}


NONE_MISSED = Missed()


@dataclass(frozen=True, slots=True)
class Request:
    """What a contender wants: a lock, or (`momentary`) a slot that is claimed and released in one write.

    `holder` is its random token. `slot` claims a tick in the same write; with `rerun` it may be an unfinished tick.
    `renews` says whether the lease will be renewed by itself. `missed` is what the record shall remember of ticks that
    did not run; None leaves what it remembers. `kind` is what the name belongs to (`kinds`).
    """

    holder: str
    ttl: int
    instance_id: str
    instance: str
    margin: int
    fenced: bool = False
    slot: str | None = None
    rerun: bool = False
    momentary: bool = False
    renews: bool = True
    missed: Missed | None = None
    kind: str | None = None
