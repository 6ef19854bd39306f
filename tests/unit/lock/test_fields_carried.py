"""What a lock's node carries beside the lock: every write keeps it. Much of it is said, too much is refused."""

from __future__ import annotations

import pytest
from tests.unit.lock.records import DAY, MARGIN, NOW, REQUEST, TTL, at, node, released_node, verdict
from tests.unit.ops.declared import JOB

from firecron import LockService, Refusal
from firecron.errors import Malformed
from firecron.lock.fields import much, too_much
from firecron.lock.record import LockRecord, Take, Trust, check_holding, decide, parse, released, renewed
from firecron.ops.health import evaluate
from firecron.ops.views import inspect_lock
from firecron.settings import load
from firecron.testing import FakeTiming, MemoryStore

HUGE = {"huge": "x" * 250_000}


@pytest.mark.parametrize(
    "kept",
    [
        {},
        {f"note{number}": number for number in range(20)},
        {"runbook": "x" * 9_985},
        {
            "paused": True,
            "pausedBy": "a" * 200,
            "pausedWhy": "b" * 500,
            "pausedAt": NOW,
            "pausedUntil": NOW,
            "kind": "x",
        },
    ],
)
def test_what_is_within_the_bound_is_carried_quietly(kept: dict[str, object]) -> None:
    """Some notes, and what firecron itself has written there."""
    assert (much(kept), too_much(kept)) == (None, None)


def test_what_is_much_is_named() -> None:
    """The longest first, and of many the ten longest; names are safe to print."""
    said = much({"runbook": "x" * 20_000, "\x1b[31m": [1], "kind": "leader"})
    assert said is not None
    assert said.startswith("it carries 2 fields (runbook, \ufffd[31m), 20,0")
    many = much({f"f{number:02}": number for number in range(21)})
    assert many is not None
    assert "21 fields (f10, f11, f12, f13, f14, f15, f16, f17, f18, f19 and 11 more)" in many
    assert much({"pausedWhy": "x" * 10_000}) is not None


@pytest.mark.parametrize("make", [node, released_node, lambda **fields: {"paused": True, **fields}])
def test_too_much_is_malformed(make: object) -> None:
    """Held, free or only paused: nobody acquires it, and whoever looks is told the field."""
    found = make(**HUGE)  # type: ignore[operator]  # one of those above
    with pytest.raises(Malformed, match=r"it carries 1 field \(huge\), 250,006 characters, more than a claim"):
        parse(found, NOW)
    assert verdict(decide(found, REQUEST, at(), {})) == "malformed"
    assert "huge" in (inspect_lock("job", "cron-locks/job", found, NOW, MARGIN).problem or "")
    if "paused" not in found:
        assert evaluate(JOB, found, None, NOW, MARGIN).word == "stuck"


def test_to_its_holder_it_is_never_too_much() -> None:
    """It renews and releases, and every field stays: another's note ends no run."""
    mine = node(holder="mine", fence=NOW, **HUGE)
    assert isinstance(check_holding(mine, "mine", NOW), LockRecord)
    trust = Trust(NOW + 50_000, at())
    answer = renewed(mine, "mine", TTL, at(), trust, MARGIN, None)
    assert isinstance(answer, Take)
    assert answer.record.to_json()["huge"] == HUGE["huge"]
    left = released(mine, "mine", NOW)
    assert isinstance(left, LockRecord)
    assert left.to_json()["huge"] == HUGE["huge"]


def test_it_is_said_once_a_minute_and_kept() -> None:
    """By the claim, and by the renewals that find it; a lock with too much is refused by name."""
    timing = FakeTiming(wall=NOW)
    store = MemoryStore(timing.now)
    locks = LockService(settings=load(), store=store, timing=timing, has_threads=False)
    said: list[str] = []
    locks.events.subscribe(lambda event: said.append(event.message) if event.slug == "lock.large" else None)
    store.set("cron-locks/report/runbook", "x" * 20_000)
    lease = locks.acquire("report", DAY / 1000)
    assert not isinstance(lease, Refusal)
    for seconds in (20, 20, 20):
        assert lease.renew()
        timing.advance(seconds)
    assert len(said) == 1
    assert lease.renew()
    assert len(said) == 2
    assert said[0].startswith('The node of lock "report" is large: it carries 1 field (runbook), 20,0')
    store.set("cron-locks/report/more", "x" * 250_000)
    assert lease.renew()
    assert lease.release()
    left = store.get("cron-locks/report")
    assert isinstance(left, dict)
    assert (len(left["runbook"]), len(left["more"])) == (20_000, 250_000)
    refusal = locks.acquire("report", 60)
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, "more, runbook" in refusal.message) == ("malformed", True)
