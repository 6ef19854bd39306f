"""The kind of a lock's node: what its name belongs to. Pure.

A node with `kind: "leader"` belongs to the terms of a leader, one with `kind: "once"` to work that is done once. A node
without a kind belongs to a job, if it has a slot or the outcome of a run, or to a plain lock. One name is one thing: a
leader that took a job's node would end its ticks, and a job that took a leader's node would lead. So each refuses the
other's node as malformed, whether or not it is held.

The node of a job that has only been run by hand has no slot, so its outcome tells. Until its first run is released, it
is the node of a fenced lock, which a leader may take over once it expires.
"""

from __future__ import annotations

LEADER = "leader"
ONCE = "once"


def misfit(kind: object, wanted: str | None, slot: str | None = None, outcome: str | None = None) -> str | None:
    """Return why a node with these fields can't be taken by a request of the kind `wanted`; None if it can."""
    if kind is not None and kind != wanted:
        return f"its `kind` is {kind!r:.40}, so the name belongs to something else: rename one of the two"
    if wanted is not None and slot is not None:
        return f"it has the slot {slot}, so the name belongs to a job: rename one of the two"
    if wanted is not None and kind is None and outcome is not None:
        return "it has an `outcome` and no `kind`, so the name belongs to a job: rename one of the two"
    return None
