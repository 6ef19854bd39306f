"""The lock service: its end, the numbers that it asks about, and the hosts that it warns of."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.listeners import recorded
from tests.unit.lock.kept import Kept
from tests.unit.lock.services import make_service
from tests.unit.locks import lock_of
from tests.unit.threads import PATIENCE

from firecron import Lease, LockService
from firecron.base.clocks import SystemTiming
from firecron.base.events import Event
from firecron.base.flag import begin_child
from firecron.errors import ConfigurationError
from firecron.settings import EMULATOR_HOST, load
from firecron.testing import FakeTiming, MemoryStore


def test_closing_ends_the_threads() -> None:
    """A closed service has no keeper's thread any more, and acquires again if it is asked to."""
    timing = SystemTiming()
    locks = LockService(store=MemoryStore(lambda: int(timing.wall())), timing=timing)
    for _ in range(2):
        before = set(threading.enumerate())
        lease = locks.acquire("job", 60)
        assert lease
        lease.release()
        [keeper] = set(threading.enumerate()) - before
        locks.close()
        keeper.join(10)
        assert not keeper.is_alive()


async def _acquired(locks: LockService, **durations: Any) -> None:
    await locks.acquire_async("job", **durations)
    locks.close()


CALLS: dict[str, Callable[..., object]] = {
    "acquire": lambda locks, **durations: locks.acquire("job", **durations),
    "acquire_async": lambda locks, **durations: asyncio.run(_acquired(locks, **durations)),
    "hold": lambda locks, **durations: locks.hold("job", **durations),
    "with_lock": lambda locks, **durations: locks.with_lock("job", lambda: None, **durations),
}
ASKED = [(call, argument) for call in CALLS for argument in ("ttl", "wait", "hold_at_least")][:-2]


@pytest.mark.parametrize(("call", "argument"), ASKED)
def test_a_bare_number_that_may_be_milliseconds_is_asked_about(call: str, argument: str) -> None:
    """A duration of a lock that is hardly meant in seconds gets a WARNING that says what to write; a timedelta gets
    none.
    """
    hours = timedelta(seconds=60_000)
    said: list[list[tuple[str, int, str]]] = []
    for duration in (60_000, hours):
        locks = make_service().locks
        heard = recorded(locks.events)
        CALLS[call](locks, **{"ttl": hours, argument: duration})
        said.append([(event.name, event.level, event.message) for event in heard if event.slug == "lock.suspicious"])
    message = (
        f'Lock "job": {argument}=60000 is 16.7 hours. Is it in milliseconds? Then write {argument}=60. If not, write '
        "timedelta(seconds=60000)"
    )
    assert said == [[("job", logging.WARNING, message)], []]


def test_a_number_is_asked_about_once() -> None:
    """The same number of another lock, or of the same one again, is not asked about anew; another number is."""
    locks = make_service().locks
    heard = recorded(locks.events)
    for name, ttl in (("job", 60_000), ("job", 60_000), ("other", 60_000), ("other", 30_000)):
        locks.acquire(name, ttl)
    said = [event.message.split(" is ")[0] for event in heard if event.slug == "lock.suspicious"]
    assert said == ['Lock "job": ttl=60000', 'Lock "other": ttl=30000']


def test_a_wait_without_end_is_refused_and_not_asked_about() -> None:
    """What is no duration at all is the refusal that it was, whatever the number."""
    locks = make_service().locks
    for wait in (10**400, float("inf")):
        with pytest.raises(ConfigurationError, match="too long"):
            locks.acquire("job", 60, wait=wait)


@pytest.mark.parametrize(("host", "is_warned_of"), [("proxy.example.org", True), ("shop.firebaseio.com", False)])
def test_a_token_for_a_host_that_is_none_of_firebases_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, host: str, is_warned_of: bool
) -> None:
    """Connecting names the host that the access token goes to, once, and whoever hears of it may connect as well."""
    for variable in (EMULATOR_HOST, "FIREBASE_CONFIG"):
        monkeypatch.delenv(variable, raising=False)
    locks = LockService(settings=load(database_url=f"https://{host}"))
    heard: list[Event] = []

    def hear(event: Event) -> None:
        locks.connect()
        heard.append(event)

    locks.events.subscribe(hear)
    for _ in range(2):
        locks.connect()
    assert [(event.slug, event.level) for event in heard] == [("database.unknown_host", logging.WARNING)] * is_warned_of
    assert all(f"host is {host!r}" in event.message for event in heard)


def test_a_forked_child_waits_for_no_thread_of_the_parent() -> None:
    """Where threads of the parent held locks at the fork, or were asking for its name, the child has others; its
    store and its leases are told, too.
    """

    class Forking(MemoryStore):
        forks = 0

        def after_fork(self) -> None:
            super().after_fork()
            self.forks += 1

    locks, store, timing = make_service(Forking)
    assert lock_of(store).acquire(timeout=1)
    assert lock_of(locks.clock, "_syncing").acquire(timeout=1)
    locks.identity.known.clear()
    begin_child()
    assert locks.clock.now(locks.deadline(0)).server == timing.now(), "it synchronises by itself"
    assert lock_of(store).acquire(timeout=1)
    assert locks.identity.known.is_set()
    assert store.forks == 1


def test_a_store_that_raises_in_a_forked_child_leaves_no_lease_trusted() -> None:
    """The leases are the parent's in any case. What the store has raised is raised once all have begun."""

    class Broken(MemoryStore):
        def after_fork(self) -> None:
            raise ValueError("broken")

    locks = make_service(Broken).locks
    lease = locks.acquire("held", 60)
    with pytest.raises(ValueError, match="broken"):
        locks.database.after_fork()
    assert isinstance(lease, Lease)
    assert (bool(lease.lost), lease.release()) == (True, False)


def test_all_places_for_streams_are_free_in_a_forked_child() -> None:
    """The streams that have taken places are the parent's."""
    database = make_service()[0].database
    while database.streams.places.take():
        pass
    database.after_fork()
    assert database.streams.places.take()


class Stuck(Kept):
    """A lease at which the keeper's look never ends."""

    def __init__(self, timing: FakeTiming) -> None:
        self.begun = threading.Event()
        super().__init__(timing)

    @property
    def renewal_due(self) -> float:
        self.begun.set()
        threading.Event().wait()
        raise AssertionError("nothing comes after that")

    @renewal_due.setter
    def renewal_due(self, due: float) -> None:
        pass


def test_a_forked_child_keeps_nothing() -> None:
    """In a child all leases are the parent's: they are neither renewed nor lost, and nothing is said of them. A lock
    that a thread of the parent held at the fork keeps nobody waiting.
    """
    locks, store, timing = make_service()
    with locks.hold("held", 60), locks.hold("block", 60):
        kept, stuck = locks.database.keeper.leases(), Stuck(timing)
        keeper = locks.database.keeper
        threading.Thread(target=lambda: keeper.keep(stuck, renews=True), daemon=True).start()
        assert stuck.begun.wait(PATIENCE)
        heard, before = recorded(locks.events), store.get("cron-locks")
        locks.database.after_fork()
        assert locks.database.keeper.leases() == []
        timing.advance(30)
        assert locks.database.keeper.work() is None
        assert all(isinstance(lease, Lease) and lease.lost for lease in kept)
    assert (heard, store.get("cron-locks")) == ([], before)
    with locks.hold("own", 60) as own:
        timing.advance(20)
        locks.database.keeper.work()
        timing.advance(50)
        assert not own.lost


def test_a_closed_service_has_closed_its_store() -> None:
    """A close leaves no connection of the store open; before that, `connect` names the database."""

    class Closing(MemoryStore):
        closed = 0

        def close(self) -> None:
            self.closed += 1

    locks, store, _ = make_service(Closing)
    assert locks.connect() == "Closing"
    locks.close()
    assert store.closed == 1


def test_the_user_of_the_settings_is_the_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    """What asks for the database asks as the user that the settings name."""
    monkeypatch.setenv(EMULATOR_HOST, "127.0.0.1:9")
    assert LockService(settings=load(uid="worker")).database.target().user == "the user 'worker'"


def test_each_way_to_a_lock_may_ask_for_a_fence() -> None:
    """A plain lock has a fence where one is asked for, and none elsewhere."""
    locks = make_service().locks
    for fenced in (True, False):
        with locks.hold("block", 60, fenced=fenced) as held:
            assert held
            assert (held.fence is not None) is fenced
        acquired = asyncio.run(locks.acquire_async("task", 60, fenced=fenced))
        assert acquired
        assert (acquired.fence is not None) is fenced
        acquired.release()
    locks.close()


def test_only_what_is_held_for_a_block_is_renewed_by_itself() -> None:
    """A block may take longer than the ttl, and who acquires by hand renews by hand."""
    locks, _, timing = make_service()
    acquired = locks.acquire("hand", 60)
    assert acquired
    with locks.hold("block", 60) as held:
        assert held
        for _ in range(4):
            timing.advance(20)
            locks.database.keeper.work()
        assert (held.lost.is_set(), acquired.lost.is_set()) == (False, True)


def test_the_time_that_is_shown_is_that_of_the_locks_while_they_know_it() -> None:
    """An old estimate will do: a new sample may be worse, and would take its place."""
    locks, _, timing = make_service()
    database = locks.database
    database.now(database.deadline())
    estimate = database.clock.estimate
    timing.advance(database.settings.clock_interval)
    assert database.now(database.deadline()) == timing.now()
    assert database.clock.estimate is estimate
    locks.close()


@pytest.mark.parametrize(("wait", "is_fine"), [(7 * 86_400, True), (7 * 86_400 + 1, False)])
def test_a_wait_is_a_week_at_the_most(wait: float, is_fine: bool) -> None:
    """Who waits for longer has mistaken the unit; a wait for a lock that is free takes no time."""
    locks = make_service().locks
    if is_fine:
        assert locks.acquire("job", 60, wait=wait)
    else:
        with pytest.raises(ConfigurationError, match="wait"):
            locks.acquire("job", 60, wait=wait)
