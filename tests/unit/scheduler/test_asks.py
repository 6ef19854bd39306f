"""Who takes what operators have asked for, when, and what becomes of it: by fleets in virtual time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from tests.simulation.instance import Instance
from tests.simulation.network import Method, failing
from tests.simulation.world import NAME, START, World, slot
from tests.unit.scheduler.asking import NEVER, Bench

from firecron import distributed_cron, scheduled
from firecron.errors import Unavailable
from firecron.jobs.catalogue import declared, stored_fields
from firecron.lock.asks import VALID, AskedRun, AskKind, Asks, new_ask, taken
from firecron.lock.waiting import Update
from firecron.ops.asks import NotAsked, RunAsks
from firecron.store import Snapshot


@pytest.mark.parametrize("hears", [True, False])
@pytest.mark.parametrize("number", [1, 4])
def test_what_is_asked_for_runs_once(number: int, hears: bool) -> None:
    """On one instance, with the id of the ask; with a stream within 2 s, else at the next beat. Then no ask is left."""
    bench = Bench()
    instances = bench.several(number, hears=hears)
    ask = bench.ask()
    bench.world.advance(2 if hears else 31)
    assert bench.keys() == [f"{NAME}:manual:{ask.id}"]
    assert bench.node() is None
    bench.world.advance(VALID / 1000 + 60)
    assert len(bench.runs) == 1
    assert bench.lapses() == []
    [taken] = [event for one in instances for event in one.events if event.slug == "ask.taken"]
    assert (taken.name, taken.fields["by"], taken.fields["id"]) == (NAME, "ann@laptop", ask.id)
    (key,) = bench.world.outcomes()
    assert key.endswith(f"-manual-{ask.id}")


@pytest.mark.parametrize("hears", [True, False])
def test_an_ask_waits_while_the_lock_is_held(hears: bool) -> None:
    """It is tried again every few seconds, by a few instances, and begins soon after the lock is free."""
    bench = Bench()
    one, *others = bench.several(5, hears=hears)
    lease = one.acquire(NAME, 60)
    bench.ask()
    bench.world.advance(45)
    assert bench.runs == []
    for other in (one, *others):
        other.network.requests()
    lease.renew()
    bench.world.advance(30)
    tries = sum(other.network.requests("cron-locks").count("read") for other in (one, *others))
    assert tries < 5 * 30
    lease.release()
    bench.world.advance(5)
    assert len(bench.runs) == 1


@pytest.mark.parametrize("kind", ["run", "resume"])
def test_what_keeps_an_ask_waiting_is_logged_for_who_looks_for_it(kind: AskKind) -> None:
    """It is tried every few seconds, and the ask's own end says why nothing was run."""
    bench = Bench("0 9 * * *")
    one, other = bench.several(2)
    one.acquire(NAME, 60)
    bench.ask(kind, slot(0) if kind == "resume" else None)
    bench.world.advance(40)
    assert {event.level for event in other.said("lock.refused")} == {logging.DEBUG}


def pauses(bench: Bench, one: Instance) -> None:
    bench.world.store.set(f"cron-locks/{NAME}/paused", True)


def holds(bench: Bench, one: Instance) -> None:
    one.acquire(NAME, 600)


def leaves(bench: Bench, one: Instance) -> None:
    one.crons.registry.remove(NAME)
    one.crons.registry.add(distributed_cron("other", NEVER)(lambda: None))
    bench.world.store.set("cron-groups", None)


def fills(bench: Bench, one: Instance) -> None:
    one.crew.is_full = True


@pytest.mark.parametrize(
    ("happens", "why"),
    [
        (pauses, "it is paused"),
        (holds, "its lock was held, by"),
        (leaves, "no live instance has the job"),
        (fills, "no instance took it in time"),
    ],
)
def test_an_ask_that_is_over_is_removed_with_the_reason(happens: Callable[[Bench, Instance], None], why: str) -> None:
    """After five minutes nobody takes it; whoever sees it next removes it, and says why it was not run."""
    bench = Bench()
    one, _ = bench.several(1)[0], bench.instance()
    happens(bench, one)
    bench.ask()
    bench.world.advance(VALID / 1000 + 62)
    assert bench.node() is None
    assert len(bench.lapses()) == 1
    assert bench.lapses()[0].startswith(why)
    assert [event.fields["why"] for event in one.events if event.slug == "ask.lapsed"] == bench.lapses()
    bench.world.store.set(f"cron-locks/{NAME}", None)
    bench.world.advance(120)
    assert bench.runs == []


@pytest.mark.parametrize("kind", ["run", "slot"])
def test_an_ask_that_the_rules_keep_from_running_says_so(kind: AskKind) -> None:
    """The reason that is left says that access was denied, and not only that nobody took it."""
    bench = Bench("0 9 * * *")
    (one,) = bench.several(1)
    one.network.before = lambda method, path: setattr(
        one.network, "is_denied", (method, path) == ("swap", f"cron-locks/{NAME}")
    )
    bench.ask(kind, slot(0) if kind == "slot" else None)
    bench.world.advance(VALID / 1000 + 62)
    assert (bench.node(), bench.runs) == (None, [])
    [why] = bench.lapses()
    assert why.startswith("no instance could: RTDB denies access")


def test_a_job_of_stored_schedules_is_not_asked_for() -> None:
    """It is refused. What a console has written is removed with the reason, also where all jobs are such."""

    @scheduled("remind")
    def remind() -> None:
        raise AssertionError("it has no arguments")

    world = World()
    one, operator = Instance(world, remind).live(), Instance(world).live()
    one.start()
    world.advance(90)
    [job] = one.crons.registry.jobs(stored=True)
    entry = declared(job.options, where="jobs", ticks=True, service="local", revision="r", stored=stored_fields(job))
    world.store.set("cron-jobs/remind", {**entry.to_node(), "since": world.now(), "declaredAt": 1})
    found = RunAsks(operator.locks.database).ask("remind")
    assert isinstance(found, NotAsked)
    assert (found.word, found.remedy and found.remedy.command) == ("stored", "firecron schedules remind")
    assert world.store.get("cron-asks") is None
    ask = new_ask("remind", "ann", world.now(), None, "run", None)
    world.store.set("cron-asks/remind", ask.to_node())
    world.advance(40)
    assert world.store.get("cron-asks") is None
    [lapsed] = [event for event in one.events if event.slug.startswith("ask.")]
    assert (lapsed.slug, "names no stored schedule" in str(lapsed.fields["why"])) == ("ask.lapsed", True)


def test_an_ask_is_valid_for_five_minutes() -> None:
    """In its last second it is taken, and a second later not any more."""
    for left, runs in ((1.0, 1), (-1.0, 0)):
        bench = Bench()
        (one,) = bench.several(1)
        one.crew.is_full = True
        bench.ask()
        at = bench.node()["at"]
        one.freeze((at + VALID - bench.world.now()) / 1000 - left)
        bench.world.store.set(f"cron-asks/{NAME}/at", at)
        one.crew.is_full = False
        bench.world.advance((at + VALID - bench.world.now()) / 1000 + 60)
        assert len(bench.runs) == runs
        assert len(bench.lapses()) == 1 - runs


@pytest.mark.parametrize("where", ["before it takes", "after it has taken"])
def test_a_frozen_taker_runs_nothing_late(where: str) -> None:
    """Frozen between its lock and `takenBy`, until its lease is over, it leaves the ask to another one. Frozen until
    the reply to `takenBy` comes, it says that nobody runs it.
    """
    bench = Bench()
    one, other = bench.several(2)
    bench.ask()
    swap, is_frozen = one.network.swap, list[str]()

    def frozen(path: str, etag: str, node: dict[str, object] | None, deadline: Any) -> str | Snapshot:
        if not path.startswith("cron-asks") or is_frozen:
            return swap(path, etag, node, deadline)
        is_frozen.append(path)
        if where == "before it takes":
            bench.world.advance(60)
            return swap(path, etag, node, deadline)
        answer = swap(path, etag, node, deadline)
        bench.world.advance(60)
        return answer

    one.network.swap = frozen  # type: ignore[method-assign]  # as the wire, and slow
    other.freeze(45)
    bench.world.advance(200)
    assert is_frozen
    assert bench.node() is None
    if where == "before it takes":
        assert len(bench.runs) == 1
        assert bench.lapses() == []
    else:
        assert bench.runs == []
        assert bench.lapses() == ["the instance that took it was frozen until its lease was over"]
    assert bench.world.node().get("releasedAt") is not None or "holder" not in bench.world.node()


@pytest.mark.parametrize("was_written", [True, False])
def test_a_lost_reply_to_the_taking_is_settled(was_written: bool) -> None:
    """The node is read: the ask is this instance's, or it takes it now; it runs once."""
    bench = Bench()
    (one,) = bench.several(1)
    bench.ask()
    swap, lost = one.network.swap, list[str]()

    def loses(path: str, etag: str, node: dict[str, object] | None, deadline: Any) -> str | Snapshot:
        if path.startswith("cron-asks") and not lost:
            lost.append(path)
            if was_written:
                swap(path, etag, node, deadline)
            raise Unavailable("the reply was lost")
        return swap(path, etag, node, deadline)

    one.network.swap = loses  # type: ignore[method-assign]  # the same, and what goes wrong
    bench.world.advance(40)
    assert lost
    assert len(bench.runs) == 1
    bench.world.advance(VALID / 1000 + 60)
    assert (len(bench.runs), bench.node(), bench.lapses()) == (1, None, [])


def test_no_answer_to_the_taking_gives_the_lock_back() -> None:
    """Nothing runs then; the same instance finds its token in the ask later, and runs what it has taken."""
    bench = Bench()
    (one,) = bench.several(1)
    bench.ask()
    swap, read, is_away = one.network.swap, one.network.read, [True]

    def swaps(path: str, etag: str, node: dict[str, object] | None, deadline: Any) -> str | Snapshot:
        if not path.startswith("cron-asks") or not is_away[0]:
            return swap(path, etag, node, deadline)
        swap(path, etag, node, deadline)
        is_away[0] = False
        one.network.next("read", before=failing(Unavailable("away")), times=50)
        raise Unavailable("the reply was lost")

    one.network.swap = swaps  # type: ignore[method-assign]  # the same, and what goes wrong
    bench.world.advance(45)
    assert bench.runs == []
    assert bench.node()["takenBy"]
    assert bench.world.node() is None or "releasedAt" in bench.world.node()
    one.network.mend()
    one.network.read = read  # type: ignore[method-assign]  # the same, and what goes wrong
    bench.world.advance(31)
    assert len(bench.runs) == 1
    assert (bench.node(), bench.lapses()) == (None, [])


def test_a_taker_that_dies_before_it_begins_is_told_of() -> None:
    """Nobody takes the ask again. Once it is over it is removed, and the reason says that its taker has died."""
    bench = Bench()
    one, other = bench.several(2)
    bench.ask()
    swap = one.network.swap

    def dies(path: str, etag: str, node: dict[str, object] | None, deadline: Any) -> str | Snapshot:
        answer = swap(path, etag, node, deadline)
        if path.startswith("cron-asks"):
            one.crash()
            bench.world.advance(10**9)
        return answer

    one.network.swap = dies  # type: ignore[method-assign]  # the same, and what goes wrong
    other.freeze(40)
    bench.world.advance(VALID / 1000 + 90)
    assert (bench.runs, bench.node()) == ([], None)
    assert bench.lapses() == ["the instance that took it died, or could not begin in time"]


@pytest.mark.parametrize("kind", ["run", "slot"])
def test_the_run_of_an_ask_whose_taker_died_after_it_is_no_lapse(kind: AskKind) -> None:
    """The history has the run: the ask was only not removed."""
    bench = Bench("0 9 * * *")
    (one,) = bench.several(1)
    ask = bench.ask(kind, slot(0) if kind == "slot" else None)
    swap = one.network.swap

    def keeps(path: str, etag: str, node: dict[str, object] | None, deadline: Any) -> str | Snapshot:
        if path.startswith("cron-asks") and node is None:
            raise Unavailable("away")
        return swap(path, etag, node, deadline)

    one.network.swap = keeps  # type: ignore[method-assign]  # the same, and what goes wrong
    bench.world.advance(40)
    assert bench.keys() == [f"{NAME}:{slot(0)}" if kind == "slot" else f"{NAME}:manual:{ask.id}"]
    one.crash()
    bench.instance().start()
    bench.world.advance(VALID / 1000 + 60)
    assert (len(bench.runs), bench.node(), bench.lapses()) == (1, None, [])


@pytest.mark.parametrize("overlap", ["skip", "allow"])
def test_a_run_that_is_under_way_after_its_ask_is_over_is_no_lapse(overlap: str) -> None:
    """Its taker could not remove the ask. Others see it at each beat, and leave it as long as its run may go on; of
    one without a lock nobody can know that, and the reason says so.
    """
    bench = Bench(overlap=overlap)
    one, _ = bench.several(2)
    bench.ask()
    swap = one.network.swap

    def keeps(path: str, etag: str, node: dict[str, object] | None, deadline: Any) -> str | Snapshot:
        if path.startswith("cron-asks") and node is None:
            raise Unavailable("away")
        return swap(path, etag, node, deadline)

    one.network.swap = keeps  # type: ignore[method-assign]  # as the wire
    entry = declared(one.job().options, where="jobs", ticks=True, service="local", revision="r")
    bench.world.store.set(f"cron-jobs/{NAME}", {**entry.to_node(), "since": bench.world.now(), "declaredAt": 1})
    bench.body = lambda run: bench.world.advance(VALID / 1000 + 200)
    bench.world.advance(VALID / 1000 + 150)
    why = "the instance that took it died, could not begin in time, or runs it still: it has no lock"
    assert (len(bench.runs), bench.lapses()) == (1, [why] if overlap == "allow" else [])
    assert (bench.node() is None) is (overlap == "allow")
    bench.world.advance(150)
    assert (len(bench.runs), bench.node(), len(bench.lapses())) == (1, None, overlap == "allow")


@pytest.mark.parametrize("happens", ["dies", "unlocked"])
def test_the_ask_of_a_run_that_died_under_way_is_removed_once_its_lease_is_over(happens: str) -> None:
    """It has no entry in the history, so the reason says that its taker has died."""
    bench = Bench()
    ask = bench.ask()
    node = {"fence": 1, "holder": "h", "acquiredAt": ask.at + VALID - 1_000, "expiresAt": ask.at + VALID + 100_000}
    bench.world.put(node)
    bench.world.store.set(f"cron-asks/{NAME}", {**ask.to_node(), "takenBy": "another's"})
    bench.several(1)
    bench.world.until((VALID + 95_000) / 1000)
    assert (bench.node() is not None, bench.lapses()) == (True, [])
    if happens == "unlocked":
        bench.world.put({**node, "expiresAt": 0})
    bench.world.advance(20 if happens == "dies" else 0)
    bench.world.advance(32)
    assert (bench.node(), bench.lapses()) == (None, ["the instance that took it died, or could not begin in time"])


def test_what_has_begun_does_not_begin_again_here() -> None:
    """An ask that could not be removed bears this instance's own token: at the next look it is removed, and not run."""
    bench = Bench()
    (one,) = bench.several(1)
    bench.ask()
    swap, failures = one.network.swap, list[str]()

    def fails(path: str, etag: str, node: dict[str, object] | None, deadline: Any) -> str | Snapshot:
        if path.startswith("cron-asks") and node is None and not failures:
            failures.append(path)
            raise Unavailable("away")
        return swap(path, etag, node, deadline)

    one.network.swap = fails  # type: ignore[method-assign]  # the same, and what goes wrong
    bench.world.advance(35)
    assert (len(bench.runs), failures) == (1, [f"cron-asks/{NAME}"])
    bench.world.advance(60)
    assert (len(bench.runs), bench.node()) == (1, None)


def test_what_another_one_has_taken_is_left_alone() -> None:
    """Nobody asks for the lock because of it, or reads it again."""
    bench = Bench()
    (one,) = bench.several(1, hears=True)
    ask = new_ask(NAME, "ann", bench.world.now(), None, "run", None)
    one.network.requests()
    bench.world.store.set(f"cron-asks/{NAME}", {**ask.to_node(), "takenBy": "another's"})
    bench.world.advance(100)
    calls = [
        call for call in one.network.calls if call[0] == "read" and call[1].startswith(("cron-locks", "cron-asks"))
    ]
    assert (bench.runs, calls) == ([], [])


ASK = AskedRun("job", "00ffa1", 1_000, "ann")


@pytest.mark.parametrize(
    ("node", "now", "expected"),
    [
        (ASK.to_node(), 1_000 + VALID - 1, {**ASK.to_node(), "takenBy": "me"}),
        (ASK.to_node(), 1_000 + VALID, "over"),
        ({**ASK.to_node(), "takenBy": "me"}, 1_000 + VALID, "mine"),
        ({**ASK.to_node(), "takenBy": "you"}, 1_000, "taken"),
        ({**ASK.to_node(), "id": "00ffa2"}, 1_000, "gone"),
        (None, 1_000, "gone"),
        ("x", 1_000, "gone"),
    ],
    ids=str,
)
def test_what_becomes_of_an_ask_that_is_taken(node: object, now: int, expected: object) -> None:
    """It gets the token, unless it is over, another's, or not there."""
    assert taken(node, now, ASK, "me") == expected


@pytest.mark.parametrize("options", [{"overlap": "allow"}, {"once_per_tick": False}], ids=str)
@pytest.mark.parametrize("kind", ["run", "slot"])
def test_where_no_lock_keeps_takers_apart_the_swap_does(options: dict[str, object], kind: AskKind) -> None:
    """An ask of a job without a lease, or without ticks in its record, begins once as well."""
    bench = Bench("0 9 * * *", **options)
    bench.several(4, hears=True)
    bench.ask(kind, slot(0) if kind == "slot" else None)
    bench.world.advance(90)
    assert len(bench.runs) == 1
    assert bench.node() is None


@pytest.mark.parametrize("overlap", ["skip", "allow"])
@pytest.mark.parametrize("kind", ["run", "slot"])
def test_an_ask_that_is_deleted_just_before_it_is_taken_runs_nothing(kind: AskKind, overlap: str) -> None:
    """Whoever has the lock for it finds nothing to take, gives the lock back, and complains of nothing."""
    bench = Bench("0 9 * * *", overlap=overlap)
    (one,) = bench.several(1)

    def delete(method: Method, path: str) -> None:
        if (method, path) == ("swap", f"cron-asks/{NAME}"):
            bench.world.store.set(path, None)

    one.network.before = delete
    bench.ask(kind, slot(0) if kind == "slot" else None)
    bench.world.advance(40)
    assert (bench.runs, bench.node(), bench.lapses()) == ([], None, [])
    assert "releasedAt" in bench.world.node()
    assert one.slugs("ask.", "run.") == []


def test_an_ask_without_an_answer_is_not_written_again() -> None:
    """It has been taken, run and removed before its writer reads the node: that is not known, and it runs once."""
    bench = Bench()
    bench.several(1, hears=True)
    network = bench.operator.network
    network.next("swap", after=failing(Unavailable("the reply was lost")))
    network.next("read")
    network.next("read", before=lambda: bench.world.advance(10))
    with pytest.raises(Unavailable, match="may have been dealt with already"):
        bench.ask()
    bench.world.advance(90)
    assert len(bench.runs) == 1


def test_an_ask_without_an_answer_that_did_not_arrive_is_an_error_too() -> None:
    """Nobody can tell it from one that was run, so it isn't written again. An ask that stands is made."""
    bench = Bench()
    bench.operator.network.next("swap", before=failing(Unavailable("it was lost")))
    with pytest.raises(Unavailable):
        bench.ask()
    assert bench.node() is None
    bench.operator.network.next("swap", after=failing(Unavailable("the reply was lost")))
    assert bench.ask().id == bench.node()["id"]


def test_an_ask_that_nobody_can_run_is_removed_with_the_reason_whatever_becomes_of_the_reply() -> None:
    """The removal is done, and its reply is lost: it is done once, and the reason is among the acts."""
    bench = Bench("*/30 * * * *")
    (one,) = bench.several(1, hears=False)
    ask = new_ask(NAME, "ann@laptop", bench.world.now(), None, "slot", slot(-1800))
    asks = Asks(one.locks.database)
    assert asks.make(ask) is None
    one.network.next("swap")
    one.network.next("swap", after=failing(Unavailable("the reply was lost")))
    assert asks.decline(ask, "somebody was faster")
    assert bench.node() is None
    assert bench.lapses() == ["somebody was faster"]
    assert asks.make(ask) is None
    one.network.next("swap", after=failing(Unavailable("the reply was lost")))
    assert asks.remove(ask)  # so whoever has removed what is over says why
    assert not asks.remove(ask)


def test_two_that_ask() -> None:
    """The second is told who was first, also if both have found nothing there; over, another one takes its place."""
    bench = Bench()
    first = bench.ask()
    asks, at = Asks(bench.operator.locks.database), bench.world.now()
    second = new_ask(NAME, "bob", at, None, "run", None)
    assert asks.make(second) == first
    assert asks.make(first) is None
    bench.world.advance(VALID / 1000)
    second = new_ask(NAME, "bob", bench.world.now(), None, "run", None)
    assert asks.make(second) is None
    assert bench.node()["by"] == "bob"
    assert bench.lapses() == ["nobody took it in five minutes"]
    bench.world.store.set(f"cron-asks/{NAME}/takenBy", "an instance's")
    bench.world.advance(VALID / 1000)
    assert asks.make(new_ask(NAME, "cyd", bench.world.now(), None, "run", None)) is None
    assert bench.lapses()[1].endswith("it was taken and not removed: the history says whether it was run")


@pytest.mark.parametrize("typed", ["x", 5, {"id": 7}, {"id": "a", "by": "b", "at": "c", "kind": "run"}])
def test_what_was_typed_there_is_no_ask(typed: object) -> None:
    """Nobody runs it, and an ask takes its place."""
    bench = Bench()
    (one,) = bench.several(1)
    bench.world.store.set(f"cron-asks/{NAME}", typed)
    bench.world.advance(40)
    assert (bench.runs, bench.node()) == ([], typed)
    bench.ask()
    bench.world.advance(40)
    assert len(bench.runs) == 1
    assert [event for event in one.events if event.slug == "ask.failed"] == []


@pytest.mark.parametrize("at", [0, -VALID])
@pytest.mark.parametrize("taken_by", [None, "another's"])
def test_a_watch_that_lies_costs_one_look(at: int, taken_by: str | None) -> None:
    """An ask that was found gone, or taken, is not tried for, or removed, each time that the watch says it is there."""
    bench = Bench()
    (one,) = bench.several(1, hears=True)
    # The test says itself what the watch hears.
    follow: Any = one.crons.engine.asks._follow
    ask = new_ask(NAME, "ann", bench.world.now() + at, None, "run", None)
    if taken_by and not at:
        bench.world.store.set(f"cron-asks/{NAME}", {**ask.to_node(), "takenBy": taken_by})
        bench.world.advance(1)
    one.network.requests()
    for version in range(100, 120):
        follow.update = Update(version, {NAME: ask.to_node()})
        follow.wake()
        bench.world.advance(0.1)
    calls = one.network.calls
    assert [method for method, path in calls if path.startswith("cron-asks")].count("read") <= 1
    assert [path for _, path in calls if path.startswith("cron-locks")].count(f"cron-locks/{NAME}") <= (at != 0)
    assert bench.runs == []


def test_a_watch_that_lies_of_what_has_begun_costs_nothing() -> None:
    """The ask was removed: it is not removed each time that the watch says it is there."""
    bench = Bench()
    (one,) = bench.several(1, hears=True)
    # The test says itself what the watch hears.
    follow: Any = one.crons.engine.asks._follow
    ask = bench.ask()
    bench.world.advance(5)
    assert (len(bench.runs), bench.node()) == (1, None)
    one.network.requests()
    follow.update = Update(100, {NAME: ask.to_node()})
    follow.wake()
    bench.world.advance(5)
    assert (len(bench.runs), one.network.requests("cron-asks")) == (1, [])


def test_a_dropped_plan_is_not_carried_out() -> None:
    """Beside a try after another start there would be two, with one token: both would take the ask."""
    bench = Bench()
    (one,) = bench.several(1)
    bench.operator.acquire(NAME, 600)
    bench.ask()
    bench.world.advance(45)
    taker = one.crons.engine.asks
    taker.look_if_due = lambda: None  # type: ignore[method-assign]  # looks no more
    one.network.requests()
    bench.world.advance(10)
    assert "read" in one.network.requests("cron-asks")
    taker.forget()
    bench.world.advance(10)
    assert one.network.requests("cron-asks") == []


@pytest.mark.parametrize("hears", [True, False])
def test_an_ask_that_waits_is_tried_again_after_another_start(hears: bool) -> None:
    """In the same process: what had been planned is dropped by the stop."""
    bench = Bench()
    (one,) = bench.several(1, hears=hears)
    lease = bench.operator.acquire(NAME, 120)
    bench.ask()
    bench.world.advance(45)
    one.crons.stop()
    one.is_ticking = False
    lease.release()
    bench.world.advance(5)
    assert bench.runs == []
    one.start()
    bench.world.advance(40)
    assert (len(bench.runs), bench.node()) == (1, None)


def test_an_instance_of_a_large_group_looks_by_chance() -> None:
    """With 12 / size, unless it is among the first three; they follow one stream, and look where there is none."""
    bench = Bench()
    (one,) = bench.several(1)
    taker, group = one.crons.engine.asks, one.crons.engine.group
    group.size = lambda: 200.0  # type: ignore[method-assign]  # the size or rank of a test
    looks = []
    for rank, chance in ((2.9, 1.0), (3.0, 0.0599), (3.0, 0.0601), (None, 1.0)):
        group.rank = lambda what, rank=rank: rank  # type: ignore[method-assign,misc]  # the size or rank of a test
        one.chance.value = chance
        one.network.requests()
        taker.look_if_due()
        bench.world.advance(0)
        looks.append(one.network.requests("cron-asks"))
    assert looks == [["read"], ["read"], [], ["read"]]
    assert START
