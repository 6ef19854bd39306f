"""A leader on an instance, with its thread: elected, cancelled, told, recorded, and never beside an old body."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from flask import Flask, current_app
from tests.unit.threads import PATIENCE, ended, named

from firecron import FireCron, LeaseLost, Term, UnknownJob, current_term, leader
from firecron.base.clocks import Deadline, SystemTiming
from firecron.base.events import Event
from firecron.base.instants import to_text
from firecron.errors import ConfigurationError
from firecron.settings import load
from firecron.store import Snapshot
from firecron.testing import MemoryStore

FEED = "price-feed"
# These tests run in real time: they wait for events, and judge no time. The lease is so long that a busy machine never
# misses a renewal; where one matters the test makes it.
TTL = 60
SETTINGS = load(margin=0.1, clock_interval=120, shutdown_grace=2.5, contenders=0)


class Heard:
    """The events of an instance, to be waited for."""

    def __init__(self, crons: FireCron) -> None:
        self.events: list[Event] = []
        self._changed = threading.Condition()
        crons.events.subscribe(self._hear)

    def _hear(self, event: Event) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def wait(self, slug: str, number: int = 1) -> Event:
        """Return the event of this slug, once there are so many of it."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.of(slug)) >= number, PATIENCE), (slug, self.events)
        return self.of(slug)[number - 1]

    def of(self, slug: str) -> list[Event]:
        return [event for event in self.events if event.slug == slug]


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(lambda: int(SystemTiming().wall()))


@contextmanager
def running(store: MemoryStore, *providers: object) -> Iterator[tuple[FireCron, Heard]]:
    crons = FireCron(*providers, store=store, enabled=True, settings=SETTINGS)
    update = Heard(crons)
    with crons:
        yield crons, update
    crons.locks.close()


def feed(body: Callable[[Term], object], **options: float) -> Callable[[Term], None]:
    @leader(FEED, **{"ttl": TTL, "pause": 0, **options})  # type: ignore[arg-type]  # no role
    def function(term: Term) -> None:
        body(term)

    return function


def renew(crons: FireCron) -> bool:
    """Make the renewal that the keeper would make later; whether the term goes on."""
    active = crons.engine.leaders.thread(FEED).candidate.active
    assert active is not None
    return active.lease.renew()


def history(crons: FireCron) -> dict[str, object]:
    return {key: node["outcome"] for key, node in crons.history.read(FEED).items() if isinstance(node, dict)}


def test_a_sync_body_has_a_thread_of_its_own(store: MemoryStore) -> None:
    """The body runs on the leader's thread, with its Term, and none of the workers is taken."""
    seen: list[tuple[str, bool]] = []

    def body(term: Term) -> None:
        seen.append((threading.current_thread().name, current_term() is term))
        term.stopping.wait(PATIENCE)

    with running(store, feed(body)) as (crons, update):
        update.wait("leader.elected")
        leadership = crons.leadership(FEED)
        was_mine = leadership.is_mine
        holder = leadership.holder()
        assert holder is not None
        assert holder.instance == crons.locks.identity.instance
    assert seen == [(f"firecron-leader-{FEED}", True)]
    assert (was_mine, leadership.is_mine) == (True, False)
    assert leadership.holder() is None


def test_a_stop_tells_the_body_releases_and_records(store: MemoryStore) -> None:
    """After `stop` the node is released, and the history has one entry for the term."""

    def body(term: Term) -> None:
        while True:
            term.stopping.wait(PATIENCE)
            term.check()

    with running(store, feed(body)) as (crons, update):
        fence = update.wait("leader.elected").fields["fence"]
    node = store.get(f"cron-locks/{FEED}")
    assert isinstance(node, dict)
    assert ("releasedAt" in node, node["outcome"]) == (True, "interrupted")
    [(key, outcome)] = history(crons).items()
    assert (key.endswith(f"Z-term-{fence}"), outcome) == (True, "interrupted")
    assert update.wait("leader.stepped_down").fields["why"] == "this instance stops"


def test_an_async_body_is_cancelled_when_its_term_is_lost(store: MemoryStore) -> None:
    """The loss of the lease cancels an async body, whose cleanup ends before the next term."""
    order: list[str] = []
    began = threading.Event()

    @leader(FEED, ttl=TTL, pause=0)
    async def body(term: Term) -> None:
        order.append(f"begins {len(order) // 2}")
        began.set()
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            order.append("ends, lost" if term.lost else "ends")

    with running(store, body) as (crons, update):
        assert began.wait(PATIENCE)
        node = store.get(f"cron-locks/{FEED}")
        assert isinstance(node, dict)
        store.set(f"cron-locks/{FEED}", {**node, "expiresAt": 0})
        assert not renew(crons)
        update.wait("leader.elected", 2)
    assert order[:2] == ["begins 0", "ends, lost"]
    assert update.of("leader.lost")
    assert sorted(map(str, history(crons).values())) == ["interrupted", "lost"]


def test_a_body_that_returns_leads_again(store: MemoryStore) -> None:
    """A body that returns is released, and elected anew with a higher fence: each term is in the history."""
    terms: list[Term] = []

    def body(term: Term) -> None:
        terms.append(term)
        if len(terms) == 2:
            term.stopping.wait(PATIENCE)

    with running(store, feed(body)) as (crons, update):
        update.wait("leader.elected", 2)
    fences = [term.fence for term in terms]
    assert fences == sorted(set(fences))
    assert list(history(crons).values()) == ["succeeded"] * 2


def test_a_body_that_outlives_the_stop_and_its_term_leaves_no_thread(store: MemoryStore) -> None:
    """The keeper, which watches the body after the loss of its term, ends with the body: the instance has stopped."""
    go_on, others = threading.Event(), named("firecron-keeper")
    settings = replace(SETTINGS, shutdown_grace=0.0)
    crons = FireCron(feed(lambda term: go_on.wait(PATIENCE)), store=store, enabled=True, settings=settings)
    update = Heard(crons)
    crons.start()
    update.wait("leader.elected")
    active = crons.engine.leaders.thread(FEED).candidate.active
    assert active is not None
    crons.stop()
    active.lease.lose("the test takes it")
    keepers = named("firecron-keeper") - others
    assert keepers
    go_on.set()
    assert all(map(ended, keepers))
    crons.locks.close()


@pytest.mark.parametrize("error", [ValueError("no feed"), SystemExit(3)], ids=["an error", "an exit"])
def test_a_body_that_raises_has_failed(store: MemoryStore, error: BaseException) -> None:
    """The traceback is told, the node is released, the history says why, and the thread goes on."""

    def body(term: Term) -> None:
        raise error

    with running(store, feed(body)) as (crons, update):
        assert update.wait("leader.failed").fields["failures"] == 1
        node = store.get(f"cron-locks/{FEED}")
        assert isinstance(node, dict)
        assert (node["outcome"], "releasedAt" in node) == ("failed", True)
        assert named(f"firecron-leader-{FEED}")
    assert "failed" in history(crons).values()


def test_stepping_down_lets_another_instance_lead(store: MemoryStore) -> None:
    """After `step_down` the term ends, another instance leads, and this one stays away."""

    def body(term: Term) -> None:
        term.stopping.wait(PATIENCE)

    with running(store, feed(body)) as (one, update):
        update.wait("leader.elected")
        with running(store, feed(body)) as (other, also):
            also.wait("lock.refused")
            assert not other.leadership(FEED).step_down()
            assert one.leadership(FEED).step_down(away_for=60)
            assert not one.leadership(FEED).step_down(), "it was told already"
            also.wait("leader.elected")
            assert (one.leadership(FEED).is_mine, other.leadership(FEED).is_mine) == (False, True)
    assert len(update.of("leader.elected")) == 1


def test_the_next_leader_records_one_that_died(store: MemoryStore) -> None:
    """A term that expired without a release is `abandoned` in the history, once its successor is elected."""
    acquired = int(SystemTiming().wall()) - 3_600_000
    dead = {
        "acquiredAt": acquired,
        "expiresAt": acquired + 15_000,
        "fence": acquired,
        "holder": "dead",
        "instance": "i1",
        "instanceId": "rev-1",
        "kind": "leader",
    }
    store.set(f"cron-locks/{FEED}", dead)
    with running(store, feed(lambda term: term.stopping.wait(PATIENCE))) as (crons, update):
        update.wait("leader.elected")
    found = history(crons)
    assert found[f"{to_text(acquired)}-term-{acquired}"] == "abandoned"


def test_the_guard_keeps_leaders_from_standing(store: MemoryStore) -> None:
    """Where jobs don't tick, nobody stands."""
    crons = FireCron(feed(lambda term: None), store=store, enabled=False, settings=SETTINGS)
    with crons:
        assert not named(f"firecron-leader-{FEED}")
    assert store.get("cron-locks") is None


def test_a_lost_term_raises_in_a_body_that_checks(store: MemoryStore) -> None:
    """`check` raises LeaseLost, which counts as lost and not as a failure."""
    raised: list[BaseException] = []

    def body(term: Term) -> None:
        try:
            term.lost.wait(PATIENCE)
            term.check()
        except LeaseLost as error:
            raised.append(error)
            raise

    with running(store, feed(body, ttl=1, max_term=1.2)) as (crons, update):
        update.wait("leader.lost")
        update.wait("leader.elected", 2)
    assert raised
    assert update.of("leader.failed") == []
    assert "lost" in history(crons).values()


def test_an_async_body_runs_on_the_servers_loop(store: MemoryStore) -> None:
    """In a lifespan the body is a task of the application's own loop, and ends with the lifespan."""

    async def serve() -> tuple[bool, bool]:
        began = asyncio.Event()
        here = asyncio.get_running_loop()
        found: list[bool] = []

        @leader(FEED, ttl=TTL, pause=0)
        async def body() -> None:
            found.append(asyncio.get_running_loop() is here)
            began.set()
            await asyncio.Event().wait()

        crons = FireCron(body, store=store, enabled=True, settings=SETTINGS)
        async with crons.lifespan(None):
            await asyncio.wait_for(began.wait(), PATIENCE)
            is_mine = crons.leadership(FEED).is_mine
        crons.locks.close()
        assert not crons.leadership(FEED).is_mine
        return found == [True], is_mine

    assert asyncio.run(serve()) == (True, True)
    assert "releasedAt" in cast("dict[str, object]", store.get(f"cron-locks/{FEED}"))


def test_a_body_is_in_flasks_context(store: MemoryStore) -> None:
    """After `init_app` the body finds the application, as a view does."""
    seen: list[str] = []

    def body(term: Term) -> None:
        seen.append(current_app.name)
        term.stopping.wait(PATIENCE)

    crons = FireCron(feed(body), store=store, enabled=True, settings=SETTINGS)
    update = Heard(crons)
    crons.init_app(Flask("shop"))
    update.wait("leader.elected")
    crons.stop()
    crons.locks.close()
    assert seen == ["shop"]


def test_a_leader_that_is_paused_here_steps_down(store: MemoryStore) -> None:
    """It stands no more on this instance, and again once it is resumed; a second pause or resume changes nothing."""
    with running(store, feed(lambda term: term.stopping.wait(PATIENCE))) as (crons, update):
        update.wait("leader.elected")
        for _ in range(2):
            crons.registry.pause(FEED)
        assert update.wait("leader.stepped_down").fields["why"] == "it is paused on this instance"
        assert "releasedAt" in cast("dict[str, object]", store.get(f"cron-locks/{FEED}"))
        for _ in range(2):
            crons.registry.resume(FEED)
        update.wait("leader.elected", 2)
    assert len(update.of("leader.elected")) == 2


def test_a_leader_that_is_paused_here_stays_so_over_a_restart(store: MemoryStore) -> None:
    """A pause before the start counts, a resume before the start makes nobody stand, and a stop ends none."""
    crons = FireCron(feed(lambda term: term.stopping.wait(PATIENCE)), store=store, enabled=True, settings=SETTINGS)
    update = Heard(crons)
    crons.registry.pause(FEED)
    with crons:
        assert not named(f"firecron-leader-{FEED}")
    crons.registry.resume(FEED)
    assert not named(f"firecron-leader-{FEED}")
    with crons:
        update.wait("leader.elected")
    crons.locks.close()


def test_a_leader_can_be_paused_everywhere(store: MemoryStore) -> None:
    """The node says who, why and until when, and the leader steps down at its next renewal; resumed, it leads again."""
    began = threading.Event()

    def body(term: Term) -> None:
        began.set()
        term.stopping.wait(PATIENCE)

    with running(store, feed(body)) as (crons, update):
        assert began.wait(PATIENCE)
        crons.registry.pause(FEED, everywhere=True, why="a drill", until=datetime(2100, 1, 1, tzinfo=UTC))
        assert renew(crons), "it is asked to end, and keeps its lease until then"
        assert "(a drill)" in str(update.wait("leader.stepped_down").fields["why"])
        node = cast("dict[str, object]", store.get(f"cron-locks/{FEED}"))
        assert (node["paused"], node["pausedWhy"]) == (True, "a drill")
        crons.registry.resume(FEED, everywhere=True, why="it is over")
        update.wait("leader.elected", 2)
    acts = cast("dict[str, dict[str, object]]", store.get("cron-acts"))
    assert sorted(str(act["act"]) for act in acts.values()) == ["pause", "resume"]  # both in one millisecond, perhaps


def test_why_and_until_are_for_all_instances(store: MemoryStore) -> None:
    """A pause of this instance is in no node that could say them; and a name that is neither's is refused."""
    crons = FireCron(feed(lambda term: None), store=store, enabled=False, settings=SETTINGS)
    pause, resume = crons.registry.pause, crons.registry.resume
    until = {"until": datetime(2100, 1, 1, tzinfo=UTC)}
    calls: list[tuple[Callable[..., object], dict[str, Any]]] = [(pause, {"why": "x"}), (pause, until)]
    for call, said in (*calls, (resume, {"why": "x"})):
        with pytest.raises(ConfigurationError, match="give everywhere=True"):
            call(FEED, **said)
    for change in (pause, resume):
        with pytest.raises(UnknownJob):
            change("nobody", everywhere=True)
    assert (store.get("cron-locks"), store.get("cron-acts")) == (None, None)


def test_a_stop_waits_for_a_try_that_is_under_way() -> None:
    """What it brings is given back before the stop returns: a process that ends then would keep the others waiting."""
    trying, go_on = threading.Event(), threading.Event()

    class Slow(MemoryStore):
        def swap(self, path: str, etag: str, node: dict[str, object] | None, deadline: Deadline) -> str | Snapshot:
            if path == "cron-locks/slow" and not trying.is_set():
                trying.set()
                go_on.wait(PATIENCE)
            return super().swap(path, etag, node, deadline)

    @leader("slow", ttl=15)
    def slow() -> None:
        raise AssertionError("it was stopped before it was elected")

    store = Slow(lambda: int(SystemTiming().wall()))
    crons = FireCron(slow, store=store, enabled=True)
    crons.start()
    assert trying.wait(PATIENCE)
    late = threading.Timer(0.2, go_on.set)
    late.start()
    crons.stop()
    assert store.get("cron-locks/slow/releasedAt") is not None
    late.join()
    crons.locks.close()
