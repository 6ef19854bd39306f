"""Holders whose instances have stopped their heartbeats: what the others know of them, say, and write down."""

from __future__ import annotations

import logging

import pytest
from tests.simulation.fleet import Fleet
from tests.simulation.instance import Instance
from tests.simulation.world import NAME, START, slot

from firecron import FireCron, Lease, Refusal, Result
from firecron.base.instants import to_datetime, to_milliseconds
from firecron.lock.record import LockRecord
from firecron.runs.policy import Claim, between
from firecron.settings import load
from rtdb_emulator.pytest_plugin import Rtdb

TTL = 1_800
RECORD = {"instance": "0a", "acquiredAt": START, "expiresAt": START + TTL * 1000, "holder": "h", "slot": slot()}


def at(seconds: float) -> int:
    return START + round(seconds * 1000)


def test_a_holder_that_dies_between_two_looks_is_noticed() -> None:
    """An instance that saw the holder beat learns of its death also where another one has removed the node since."""
    fleet = Fleet(lock_ttl=TTL)
    holder, other, third = (fleet.instance(recovery_interval=300) for _ in range(3))
    holder.hold(slot())
    for one in (holder, other):
        one.start()
    # Last seen at 240 seconds, so the others' looks at 300 find it alive. The third removes its node at 550.
    fleet.world.at(245, holder.crash)
    fleet.world.at(250, third.start)
    fleet.world.until(599)
    assert other.said("run.missed") == []
    fleet.world.until(730)
    assert [event.fields["slot"] for event in other.said("run.missed")] == [slot(600), slot(660), slot(720)]


def test_a_look_at_the_nodes_is_noted(rtdb: Rtdb) -> None:
    """When the dead are looked for, it costs no further request to know the silent, in refusals of plain locks, too.

    One request reads the instances, one names their groups, one reads when the only group was last seen, and two read
    the mutes and the holds.
    """
    crons = FireCron(settings=load(), enabled=True, has_threads=False)
    crons.engine.heartbeat.beat()
    now = crons.locks.clock.peek()
    assert now is not None
    rtdb.set("/cron-instances/0a-1", {"seenAt": now.server - 100_000})
    held = {"instance": "0a", "acquiredAt": now.server - 110_000, "expiresAt": now.server + 60_000, "holder": "h"}
    rtdb.set("/cron-locks/import", held)
    before = crons.locks.acquire("import", 300)
    requests = rtdb.count()
    crons.engine.heartbeat.prune(crons.locks.deadline(20))
    assert rtdb.count() == requests + 5
    after = crons.locks.acquire("import", 300)
    assert isinstance(before, Refusal)
    assert isinstance(after, Refusal)
    assert (before.is_strange, after.is_strange) == (False, True)
    assert after.message.startswith(before.message)
    assert "its instance was last seen at 20" in after.message
    assert after.message.endswith("make sure that its run has ended, then run: firecron unlock import")


def started(line: str = "* * * * *", **options: object) -> tuple[Fleet, Instance, Instance]:
    """A fleet of two, of which the first holds the lock, and the other looks for silent ones every 150 seconds."""
    fleet = Fleet(line, lock_ttl=TTL, **options)
    holder, other = (fleet.instance(recovery_interval=150) for _ in range(2))
    holder.hold(slot())
    for one in (holder, other):
        one.start()
    return fleet, holder, other


@pytest.mark.parametrize(("overlap", "first", "last"), [("skip", 180, 600), ("queue", 120, 540)])
def test_ticks_that_a_silent_holder_costs_are_missed(overlap: str, first: int, last: int) -> None:
    """Until the holder is known to be silent, ticks are only refused or skipped; then each is missed for that reason,
    and a WARNING says it once, with the remedy.
    """
    fleet, holder, other = started(overlap=overlap)
    fleet.world.at(45, holder.crash)
    fleet.world.until(149)
    assert other.said("run.missed") == []
    assert {event.level for event in other.said("lock.refused")} == {logging.INFO}
    other.events.clear()
    # Its node is removed at 450 seconds.
    fleet.world.until(630)
    missed = [event.fields["slot"] for event in other.said("run.missed")]
    assert missed == [slot(seconds) for seconds in range(first, last + 1, 60)]
    assert other.said("run.skipped") == []
    why = "its lock is held, and its instance was last seen at 2026-11-18T09:00:30Z"
    assert all(why in event.message for event in other.said("run.missed"))
    refused = other.said("lock.refused")
    assert [event.level for event in refused].count(logging.WARNING) == 1
    assert all("firecron unlock job" in event.message for event in refused)


def test_whoever_asks_for_a_run_is_told_that_the_holder_is_silent() -> None:
    """The refusal of a run by hand, and of one for a tick, says since when the holder is silent, and what to do."""
    fleet, holder, other = started()
    fleet.world.at(45, holder.crash)
    fleet.world.until(179)
    results: list[Result] = [
        other.crons.registry.trigger(NAME),
        other.crons.registry.trigger(NAME, slot=to_datetime(to_milliseconds(slot(120)))),
    ]
    for result in results:
        assert result.refusal is not None
        assert result.refusal.reason == "held"
        assert "its instance was last seen at 2026-11-18T09:00:30Z" in result.refusal.message
        assert "firecron unlock job" in result.refusal.message
    done = other.crons.registry.trigger(NAME, slot=to_datetime(START)).refusal
    assert done is not None
    assert (done.reason, done.problem) == ("slot_done", None)


def test_an_instance_that_wakes_is_silent_no_more() -> None:
    """After the next look, ticks that meet the lock of an instance that was frozen are refused as any others."""
    fleet, holder, other = started()
    fleet.world.at(45, lambda: holder.freeze(210))
    fleet.world.until(500)
    assert [event.fields["slot"] for event in other.said("run.missed")] == [slot(180), slot(240)]


def test_a_holder_that_was_cut_off_and_is_back_is_silent_until_the_next_look() -> None:
    """Its ticks until then are called missed in the log of the others, by what they know; the history has them as
    skipped, because the holder has released the lock since.
    """
    fleet, holder, other = started()
    fleet.world.at(45, lambda: setattr(holder.network, "is_down", True))
    fleet.world.at(200, lambda: setattr(holder.network, "is_down", False))
    (lease,) = holder.locks.database.keeper.leases()
    assert isinstance(lease, Lease)
    fleet.world.at(410, lambda: lease.release(outcome="succeeded", finished=slot(), tick=slot()))
    fleet.world.until(430)
    assert [event.fields["slot"] for event in other.said("run.missed")] == [slot(180), slot(240)]
    skipped = {slot(seconds): "skipped" for seconds in range(60, 361, 60)}
    assert fleet.world.outcomes() == {**skipped, slot(420): "succeeded"}


@pytest.mark.parametrize("catch_up", ["skip", "all"])
def test_the_history_has_as_missed_what_a_dead_holder_cost(catch_up: str) -> None:
    """The claim that replaces a silent holder's record writes down as missed the ticks since its last sign of life, as
    skipped those before; catching up begins with the record's expiry all the same.
    """
    fleet, holder, other = started("*/10 * * * *", catch_up=catch_up)
    # Renewed at 600 and 1,200 seconds, so it expires at 3,000.
    fleet.world.at(1_250, holder.crash)
    fleet.world.until(3_610)
    expected = {slot(): "abandoned", slot(600): "skipped", slot(1_200): "skipped"}
    expected |= {slot(seconds): "missed" for seconds in (1_800, 2_400, 3_000)}
    assert fleet.world.outcomes() == {**expected, slot(3_600): "succeeded"}
    assert fleet.slots() == [slot(3_600)]
    assert [event.fields["slot"] for event in other.said("books.skipped")] == [slot(600), slot(1_200)]


@pytest.mark.parametrize(
    ("expires", "silent_since", "skipped"),
    [(600, None, 10), (600, 60, 1), (600, 59, 0), (600, 119, 1), (600, 900, 10), (0, None, 0), (0, 300, 0)],
)
def test_since_when_a_dead_holder_costs_ticks(expires: float, silent_since: float | None, skipped: int) -> None:
    """Ticks up to a holder's last sign of life are skipped, and those after it missed; after an unlock all are missed,
    as for catching up.
    """
    fleet = Fleet()
    job = fleet.instance().job()
    record = LockRecord.of({**RECORD, "expiresAt": at(expires) if expires else 0})
    since = None if silent_since is None else at(silent_since)
    found = [entry.outcome for entry in between(record, job.options, Claim(slot(900), "schedule"), since)]
    assert found == ["skipped"] * skipped + ["missed"] * (14 - skipped)


def test_a_holder_that_nobody_knows_to_be_silent_is_an_overlap() -> None:
    """Where an instance has no heartbeat, the ticks that its lock costs are skipped, and nothing odd is said."""
    fleet = Fleet(lock_ttl=300)
    dying, other = fleet.instance(), fleet.instance(recovery_interval=100)
    dying.die_holding(slot())
    other.start()
    fleet.world.until(370)
    assert other.said("run.missed") == []
    assert {event.level for event in other.said("lock.refused")} == {logging.INFO}
    assert list(fleet.world.outcomes().values()) == ["abandoned", *["skipped"] * 5, "succeeded"]
