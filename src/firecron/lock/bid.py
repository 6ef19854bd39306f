"""A bid for a lock: what is asked, over all its tries. A value, but for what its own writes have been."""

from __future__ import annotations

from dataclasses import dataclass, field

from firecron.lock.lease_term import LeaseTerm
from firecron.lock.protocol import Choose
from firecron.lock.record import Number
from firecron.lock.request import Request


@dataclass(frozen=True, slots=True)
class Bid:
    """One request for a lock, over all its tries.

    The tries share the token. So a later try recognises an earlier write of the bid, even if the reply to it was lost.
    """

    name: str
    request: Request
    hold_at_least: int
    choose: Choose | None = None
    max_runtime: int | None = None
    written: dict[Number, LeaseTerm] = field(default_factory=dict)
    replaced: dict[Number, object] = field(default_factory=dict)
