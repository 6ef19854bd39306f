"""Signs of life: since when the holder of a lock is silent, by the looks of one process."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.simulation.world import START, slot

from firecron.lock.record import LockRecord
from firecron.lock.refusal import Instances, SignsOfLife

BEAT = 30_000
DAY = 86_400_000
TTL = 1_800
RECORD = {"instance": "0a", "acquiredAt": START, "expiresAt": START + TTL * 1000, "holder": "h", "slot": slot()}


def at(seconds: float) -> int:
    return START + round(seconds * 1000)


def look(signs_of_life: SignsOfLife, seconds: float, **seen: float) -> None:
    """A look at the instances' nodes; `a1` is a process of the instance 0a."""
    signs_of_life.observe(
        Instances({f"0{name[0]}-{name[1]}": at(when) for name, when in seen.items()}, BEAT), at(seconds)
    )


@pytest.mark.parametrize(
    ("fields", "last"),
    [
        ({}, 10),
        ({"instance": "0b"}, None),
        ({"instance": ""}, None),
        ({"instance": None}, None),
        ({"acquiredAt": at(29.999)}, 29.999),
        ({"acquiredAt": at(30)}, None),
        ({"acquiredAt": at(500)}, None),
        ({"expiresAt": at(TTL + 29.999)}, 29.999),
        ({"expiresAt": at(TTL + 30)}, None),
        ({"expiresAt": 1e308}, None),
        ({"expiresAt": 0}, 10),
        ({"acquiredAt": None}, 10),
        ({"releasedAt": at(5)}, None),
    ],
)
def test_the_last_sign_of_life_of_a_holder(fields: dict[str, object], last: float | None) -> None:
    """A holder is silent if its last beat, and what it wrote into the record, is older than three beats at the look."""
    signs_of_life = SignsOfLife()
    record = LockRecord.of({key: value for key, value in {**RECORD, **fields}.items() if value is not None})
    assert signs_of_life.silent_since(record, TTL * 1000) is None
    look(signs_of_life, 120, a1=10, b1=119)
    assert signs_of_life.silent_since(record, TTL * 1000) == (None if last is None else at(last))


def test_an_instance_is_silent_until_it_is_seen_again() -> None:
    """A silent instance stays so when its nodes are removed, for as long as a lease can last; one process that beats
    makes it alive.
    """
    record = LockRecord.of(RECORD)
    signs_of_life = SignsOfLife()
    looks: list[tuple[float, Mapping[str, float], float | None]] = [
        (90, {"a1": 0}, None),
        (91, {"a1": 0}, 0),
        (400, {"a1": 0, "b1": 399}, 0),
        (800, {"b1": 799}, 0),
        (DAY / 1000 - 1, {}, 0),
        (DAY / 1000, {}, None),
    ]
    for seconds, seen, last in looks:
        look(signs_of_life, seconds, **seen)
        assert signs_of_life.silent_since(record, TTL * 1000) == (None if last is None else at(last)), seconds
    for seen in ({"a1": 0, "a2": 950}, {"a2": 950, "a1": 0}):
        look(signs_of_life, 900, a1=0, a2=1)
        assert signs_of_life.silent_since(record, TTL * 1000) == at(1)
        look(signs_of_life, 1_000, **seen)
        assert signs_of_life.silent_since(record, TTL * 1000) is None


@pytest.mark.parametrize("missing", ["slot", "fence", "unfinished", None])
def test_an_instance_that_is_gone_at_the_next_look(missing: str | None) -> None:
    """If an instance beat at a look and its node is gone at a later one, it has died or has stopped. A run that it has
    left behind is silent since its last sign of life. Of a lock that is no run's nothing is known.
    """
    run = {**RECORD, "fence": 1, "unfinished": slot()}
    record = LockRecord.of({name: value for name, value in run.items() if name != missing})
    signs_of_life = SignsOfLife()
    look(signs_of_life, 130, a1=40)
    assert signs_of_life.silent_since(record, TTL * 1000) is None
    for seconds in (430, 730, DAY / 1000 + 39):
        look(signs_of_life, seconds)
        assert signs_of_life.silent_since(record, TTL * 1000) == (at(40) if missing is None else None), seconds
    look(signs_of_life, DAY / 1000 + 40)
    assert signs_of_life.silent_since(record, TTL * 1000) is None
