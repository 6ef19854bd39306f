"""Locks and jobs as the user whom the shipped rules are for: none is denied anything, and losers are told the truth."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial

import pytest
from tests.stores.least_privilege import OVERRIDE, RULES
from tests.stores.least_privilege_before import before

from firecron import FireCron, Run, distributed_cron
from firecron.base.clocks import Deadline
from firecron.base.events import Event
from firecron.errors import LeaseLost
from firecron.lock.blocks import try_once
from firecron.lock.fields import LEADER
from firecron.lock.lease import Lease, write_under
from firecron.lock.protocol import ABSENT
from firecron.lock.refusal import Refusal
from firecron.locks import LockService
from firecron.ops.operator import Operator
from firecron.settings import load
from firecron.steps.protocol import StepRecord, recording
from firecron.testing import FakeClock
from firecron.testing.rehearsal import Inline
from rtdb_emulator import Emulator
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.firebase_apps import MakeApp

PATH = "/cron-locks/job"
TTL = 60
DEAD = {"seenAt": 1, "instanceId": "api-00041-abc"}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock("2026-11-18T08:59:30Z")


@pytest.fixture
def rtdb_emulator(clock: FakeClock) -> Iterator[Emulator]:
    with Emulator(now=clock.now) as emulator:
        yield emulator


MakeService = Callable[[], LockService]


@pytest.fixture(params=["these rules", "the rules before"])
def make_service(rtdb: Rtdb, make_app: MakeApp, clock: FakeClock, request: pytest.FixtureRequest) -> MakeService:
    """Makes services that know the time, on one database under the rules, or under those of the version before."""
    rtdb.set_rules(RULES if request.param == "these rules" else before())
    settings = load(clock_interval=2500)

    def make() -> LockService:
        app = make_app(databaseAuthVariableOverride=dict(OVERRIDE))
        service = LockService(app, settings, timing=clock, has_threads=False)
        service.clock.now(Deadline.after(clock, 10))
        rtdb.emulator.requests.clear()
        return service

    return make


def sent(rtdb: Rtdb) -> str:
    """The requests about the lock since the last call."""
    methods = " ".join(request.method for request in rtdb.emulator.requests.matching(path=PATH))
    rtdb.emulator.requests.clear()
    return methods


def claim(service: LockService, slot: str) -> Lease | Refusal:
    return try_once(service.database, service.database.bid("job", TTL, fenced=True, slot=slot))


def taken(answer: Lease | Refusal) -> Lease:
    assert isinstance(answer, Lease), answer
    return answer


def reason(answer: Lease | Refusal) -> str:
    assert isinstance(answer, Refusal), answer
    return answer.reason


def test_losers_are_told_that_it_is_held_and_then_done(
    rtdb: Rtdb, make_service: MakeService, clock: FakeClock, loser_sends: str
) -> None:
    """A loser in a dead heat, and a late one, are told what an administrator would be, in one request more at most."""
    winner, loser, late = make_service(), make_service(), make_service()
    first, second = "2026-11-18T08:58:00Z", "2026-11-18T08:59:00Z"
    # What it has seen last is what both are to replace: its write goes out as the winner's does.
    assert taken(claim(loser, first)).release()
    lease = taken(claim(winner, second))
    before = rtdb.get(PATH)
    sent(rtdb)
    assert reason(claim(loser, second)) == "slot_done"
    assert sent(rtdb) == loser_sends
    assert reason(late.acquire("job", TTL)) == "held"
    assert sent(rtdb) == loser_sends
    assert rtdb.get(PATH) == before
    assert lease.release()
    clock.advance(1)
    for service in (loser, late):
        sent(rtdb)
        assert reason(claim(service, second)) == "slot_done"
        assert sent(rtdb) == "GET"  # it has seen the record in a refusal


@pytest.mark.usefixtures("loser_sends")
@pytest.mark.parametrize(("node", "expected"), [({"paused": True}, "paused"), ("locked", "malformed")])
def test_what_else_stands_in_the_way_is_told(
    rtdb: Rtdb, make_service: MakeService, node: object, expected: str
) -> None:
    """A pause and a node that can't be read are told as such, and not as denied."""
    service = make_service()
    rtdb.set(PATH, node)
    assert reason(service.acquire("job", TTL)) == expected
    assert rtdb.get(PATH) == node


def test_an_unlocked_lease_is_lost_and_the_lock_is_free(make_service: MakeService) -> None:
    """An unlock passes the rules; the holder learns of it, and the next one acquires."""
    holder, other = make_service(), make_service()
    lease = taken(holder.acquire("job", TTL, fenced=True))
    other.store.merge(PATH[1:], {"expiresAt": 0}, other.deadline(5))
    assert not lease.renew()
    assert lease.lost
    assert taken(other.acquire("job", TTL, fenced=True)).fence > (lease.fence or 0)  # type: ignore[operator]  # fenced


class Fleet:
    """Two instances and their jobs, on one thread and in virtual time."""

    def __init__(self, make_app: MakeApp, clock: FakeClock) -> None:
        self.clock = clock
        self.ran: list[str] = []
        self.events: list[Event] = []
        self.instances = [self._instance(make_app) for _ in range(2)]
        self.crons = self.instances[0]

    def _instance(self, make_app: MakeApp) -> FireCron:
        ran = self.ran

        @distributed_cron("job", "* * * * *", lock_ttl=30, grace=10, catch_up="all", on_abandoned="rerun")
        def job(run: Run) -> None:
            run.step("1/2", ran.append, "job")
            run.step("é %2F", dict, at_most_once=True)

        @distributed_cron("both", "* * * * *", overlap="allow")
        def both() -> None:
            ran.append("both")

        @distributed_cron("plain", "* * * * *", once_per_tick=False, hold_at_least=5)
        def plain() -> None:
            ran.append("plain")

        crons = FireCron(
            job,
            both,
            plain,
            app=make_app(databaseAuthVariableOverride=dict(OVERRIDE)),
            settings=load(history_limit=5),
            timing=self.clock,
            crew=Inline(),
            has_threads=False,
            chance=lambda: 0.0,  # each entry prunes
        )
        crons.events.subscribe(self.events.append)
        return crons

    def advance(self, seconds: float) -> None:
        until = self.clock.time + timedelta(seconds=seconds)
        while True:
            wait = min(instance.work() for instance in self.instances)
            left = (until - self.clock.time).total_seconds()
            if left <= 0:
                return
            self.clock.advance(min(max(wait, 0.001), left))


@pytest.mark.usefixtures("loser_sends")
def test_a_life_under_the_rules(
    rtdb: Rtdb, make_app: MakeApp, make_service: MakeService, clock: FakeClock, request: pytest.FixtureRequest
) -> None:
    """Ticks, steps, histories, heartbeats, pruning, a run by hand, pauses with their acts and their end,
    catching up, a dead run's rerun: all pass the rules, and no event tells of anything that was denied or failed.
    """
    rtdb.set("/cron-instances/dead", DEAD)
    over = {"until": 1, "by": "ann", "why": "x"}
    rtdb.set("/cron-mutes/job", over)
    rtdb.set("/cron-hold/00ffa1b2c3d4", {**over, "at": 1})
    dead = make_service()
    fleet = Fleet(make_app, clock)
    fleet.advance(150)
    assert {name: fleet.ran.count(name) for name in ("job", "both", "plain")} == {"job": 3, "both": 3, "plain": 3}

    assert fleet.crons.registry.trigger("job").outcome == "succeeded"
    fleet.crons.registry.pause("job", everywhere=True)
    fleet.advance(120)
    assert fleet.ran.count("job") == 4
    fleet.crons.registry.resume("job", everywhere=True)
    fleet.advance(60)
    assert fleet.ran.count("job") == 7  # the two that were missed, and its own

    acts = rtdb.get("/cron-acts")
    assert isinstance(acts, dict)
    assert [acts[key]["act"] for key in sorted(acts)] == ["pause", "resume"]
    fleet.crons.registry.pause("job", everywhere=True, why="a drill", until=clock.time + timedelta(seconds=45))
    refusal = fleet.crons.registry.trigger("job").refusal
    assert refusal is not None
    assert refusal.reason == "paused"

    clock.move_to("2026-11-18T09:06:00Z")  # nobody is at work before the one that dies
    taken(claim(dead, "2026-11-18T09:06:00Z"))
    fleet.advance(120)
    runs = rtdb.get("/cron-runs/job")
    assert isinstance(runs, dict)
    assert len(runs) == 5
    assert runs["2026-11-18T09:06:00Z"]["trigger"] == "rerun"
    steps = rtdb.get("/cron-steps/job")
    assert isinstance(steps, dict)
    assert set(steps) == {key for key, run in runs.items() if run["outcome"] == "succeeded"}
    assert all(set(tick) == {"1%2F2", "é %252F"} for tick in steps.values())

    instances = rtdb.get("/cron-instances")
    assert isinstance(instances, dict)
    assert "dead" not in instances
    assert len(instances) == 2 + ("clock" in instances)
    if request.node.callspec.params["make_service"] == "these rules":  # those before know neither
        assert (rtdb.get("/cron-mutes"), rtdb.get("/cron-hold")) == (None, None)
    strange = [
        (event.slug, event.message)
        for event in fleet.events
        if "denied" in (event.fields.get("reason"), event.slug)
        or re.search(r"\b401\b", event.message)  # as a word: an instance's random name may have these digits
        or event.slug.endswith("failed")
    ]
    assert strange == []
    assert not [event for event in fleet.events if event.level >= logging.ERROR]


@pytest.mark.usefixtures("loser_sends")
def test_leaders_once_and_operators_under_the_rules(rtdb: Rtdb, make_service: MakeService, clock: FakeClock) -> None:
    """Terms that are renewed, paused, cancelled and unlocked, work that is done once with every kind of result, and a
    run that is interrupted, paused and cancelled: all pass the rules, and a job is told whose name it asks for.
    """
    one, other = make_service(), make_service()
    operator = Operator(other.database)

    def take(name: str, kind: str | None = None, slot: str | None = None) -> Lease | Refusal:
        bid = one.database.bid(name, TTL, fenced=True, renews=True, kind=kind, slot=slot)
        return try_once(one.database, bid)

    for end in ("released", "cancelled", "unlocked"):
        term = taken(take("lead", LEADER))
        operator.pause("lead", "a drill", clock.time + timedelta(minutes=5))
        clock.advance(20)
        assert term.renew()
        operator.resume("lead")
        if end == "cancelled":
            assert operator.cancel(operator.read("lead"), "go")
        if end == "unlocked":
            assert operator.unlock(operator.read("lead"))
        assert term.renew() is (end != "unlocked")
        assert bool(term.cancelled) is (end == "cancelled")
        term.release(outcome="succeeded")
        clock.advance(1)
    assert reason(take("lead", slot="2026-11-18T09:00:00Z")) == "malformed"

    values: list[object] = [None, True, False, 0, -1.5, "é\u2028", "", [], {"a": [None]}]
    for number, value in enumerate(values):
        work = partial(lambda result: result, value)
        assert [service.once(f"work-{number}", work).result for service in (one, other)] == [value] * 2

    slots = "2026-11-18T08:59:00Z", "2026-11-18T09:00:00Z"
    run = taken(take("job", slot=slots[0]))
    operator.pause("job", until=clock.time + timedelta(seconds=30))
    clock.advance(1)
    assert run.renew()
    assert run.release(outcome="interrupted", tick=slots[0])
    clock.advance(61)
    run = taken(take("job", slot=slots[1]))
    assert operator.cancel(operator.read("job"), "why")
    assert run.renew()
    assert run.cancelled
    assert run.release(outcome="cancelled", finished=slots[1], tick=slots[1])
    assert rtdb.get(f"{PATH}/slot") == slots[1]


def test_a_uid_that_is_set_is_firecrons_alone(rtdb: Rtdb, make_app: MakeApp, clock: FakeClock) -> None:
    """With FIRECRON_UID an administrator's app locks as that user, whom rules for another one deny."""
    rtdb.set_rules(RULES)
    app = make_app()
    for uid, is_let_in in (("firecron", True), ("somebody", False)):
        service = LockService(app, load(uid=uid, clock_interval=2500), timing=clock, has_threads=False)
        assert bool(service.acquire(f"job-of-{uid}", TTL)) is is_let_in


@pytest.mark.usefixtures("loser_sends")
def test_i47_the_rules_keep_a_zombie_from_recording(rtdb: Rtdb, make_service: MakeService, clock: FakeClock) -> None:
    """A claim whose lock another one has taken, and which does not know it yet, learns it by its refused step."""
    zombie, heir = make_service(), make_service()
    path = "cron-steps/job/2026-11-18T08:59:00Z/charge"
    lease = taken(claim(zombie, "2026-11-18T08:59:00Z"))
    rtdb.set(f"{PATH}/expiresAt", 0)
    later = taken(claim(heir, "2026-11-18T08:59:30Z"))
    own = StepRecord(lease.fence or 0, 1, 1, "zombie", 2, "1")
    with pytest.raises(LeaseLost):
        write_under(lease, lambda: recording(own, ABSENT, lambda: True), path)
    assert lease.lost
    assert rtdb.get(f"/{path}") is None
    record = StepRecord(later.fence or 0, 1, 1, "heir", 2, "2")
    settled = write_under(later, lambda: recording(record, ABSENT, lambda: True), path)
    assert settled.verdict == "written"
    assert rtdb.get(f"/{path}") == record.to_node()
    # What is recorded already is refused too, and told from the node.
    again = write_under(later, lambda: recording(record, ABSENT, lambda: True), path)
    assert again.verdict == "found"
