"""Lock nodes, requests and clock readings for the tests of the rules: a lock that somebody else holds at nine."""

from __future__ import annotations

from dataclasses import replace

from firecron.base.clocks import Moment
from firecron.base.instants import to_text
from firecron.lock.record import Mine, Refused, Request, Take, decide

NOW = 1_794_992_400_000
TTL = 60_000
MARGIN = 1_000
DAY = 86_400_000
EXPIRES = NOW + 50_000
REQUEST = Request(holder="mine", ttl=TTL, instance_id="rev-1", instance="i1", margin=MARGIN)


def slot(seconds: int = 0) -> str:
    """The tick that many seconds after nine."""
    return to_text(NOW + seconds * 1000)


def at(server: int = NOW, mono: float | None = None) -> Moment:
    """A reading of a clock whose monotonic side began at nine."""
    return Moment(server, server - NOW if mono is None else mono)


def node(**fields: object) -> dict[str, object]:
    """A lock that others hold until `EXPIRES`; a field that is given as None is not there."""
    everything: dict[str, object] = {
        "acquired": to_text(NOW - 10_000),
        "acquiredAt": NOW - 10_000,
        "expires": to_text(EXPIRES),
        "expiresAt": EXPIRES,
        "holder": "theirs",
        "instance": "i2",
        "instanceId": "rev-2",
        **fields,
    }
    return {name: value for name, value in everything.items() if value is not None}


def released_node(**fields: object) -> dict[str, object]:
    """A lock that others gave back five seconds ago."""
    return node(**{"expiresAt": NOW - 5_000, "expires": to_text(NOW - 5_000), "releasedAt": NOW - 5_000, **fields})


def request(**changes: object) -> Request:
    return replace(REQUEST, **changes)  # type: ignore[arg-type]  # the names are the fields' own


def verdict(decision: Take | Mine | Refused) -> str:
    """The decision in a word: take, mine, or why not."""
    return decision.reason if isinstance(decision, Refused) else type(decision).__name__.lower()


def taken(current: object, wanted: Request = REQUEST, now: Moment | None = None) -> dict[str, object]:
    """The node that a contender writes over this one."""
    decision = decide(current, wanted, now or at(), {})
    assert isinstance(decision, Take), decision
    return decision.record.to_json()
