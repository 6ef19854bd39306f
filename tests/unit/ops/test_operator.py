"""The operator: which acquisition it frees, which it leaves alone, and what its looks cost."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from tests.unit.lock.records import NOW, slot

from firecron.base.clocks import Deadline
from firecron.base.instants import to_text
from firecron.errors import FirecronError, Malformed, Unavailable
from firecron.lock.blocks import try_once
from firecron.lock.lease import Lease
from firecron.locks import LockService
from firecron.ops.operator import Operator
from firecron.ops.views import Unfinished
from firecron.settings import Settings
from firecron.store import NULL_ETAG, Snapshot
from firecron.testing import FakeTiming, MemoryStore
from rtdb_emulator.pytest_plugin import Rtdb

PATH = "/cron-locks/job"


def held() -> Lease:
    lease = LockService().acquire("job", 3600, fenced=True)
    assert isinstance(lease, Lease)
    return lease


def before_each_swap(locks: LockService, *happens: Callable[[], object]) -> None:
    """Have these happen, one before each of the service's next writes."""
    swap, left = locks.store.swap, list(happens)

    def swap_late(path: str, etag: str, node: dict[str, object] | None, deadline: Deadline) -> str | Snapshot:
        if left:
            left.pop(0)()
        return swap(path, etag, node, deadline)

    locks.store.swap = swap_late  # type: ignore[method-assign]  # for this operator alone


@pytest.mark.parametrize("change", [{"holder": "another"}, {"acquiredAt": 1}, {"releasedAt": 1}, None])
@pytest.mark.parametrize("is_late", [False, True], ids=["seen", "fresh"])
def test_unlock_does_not_free_a_successor(rtdb: Rtdb, change: dict[str, object] | None, is_late: bool) -> None:
    """A lock that was released, deleted or taken over since it was looked at, also after a renewal and just before the
    second try, is left byte for byte.
    """
    lease = held()
    locks = LockService()
    operator = Operator(locks.database)
    seen = operator.read("job")
    node: Any = rtdb.get(PATH)
    successor = None if change is None else {**node, **change}
    take_over = lambda: rtdb.set(PATH, successor)  # noqa: E731  # one of two things to do before a write
    before_each_swap(locks, *([lease.renew, take_over] if is_late else [take_over]))
    assert operator.unlock(seen) is False
    assert rtdb.get(PATH) == successor


@pytest.mark.parametrize("renewals", [1, 2, 3])
def test_unlock_frees_a_lock_that_is_renewed_meanwhile(rtdb: Rtdb, renewals: int) -> None:
    """However often its holder renews it between the look and the write, it is the lock that was shown, and is
    freed.
    """
    lease = held()
    locks = LockService()
    operator = Operator(locks.database)
    seen = operator.read("job")
    before_each_swap(locks, *[lease.renew] * renewals)
    assert operator.unlock(seen) is True
    node: Any = rtdb.get(PATH)
    assert isinstance(seen.snapshot.node, dict)
    assert node == {**seen.snapshot.node, "expires": node["expires"], "expiresAt": 0}
    assert not lease.renew()


def test_unlock_keeps_what_was_set_meanwhile(rtdb: Rtdb) -> None:
    """A pause that was set between the look and the write stays."""
    held()
    operator = Operator(LockService().database)
    seen = operator.read("job")
    operator.pause("job")
    assert operator.unlock(seen) is True
    assert rtdb.get(f"{PATH}/paused") is True
    assert rtdb.get(f"{PATH}/expiresAt") == 0


def test_unlock_ends_with_its_deadline(rtdb: Rtdb) -> None:
    """A lock that changes before every write is tried again after longer and longer pauses, and given up in time."""
    held()
    timing = FakeTiming()
    locks = LockService(timing=timing)
    operator = Operator(locks.database)
    seen = operator.read("job")
    instants = count(seen.now + 1)
    overtakers = [lambda: rtdb.set(f"{PATH}/expiresAt", next(instants))] * 10_000
    before_each_swap(locks, *overtakers)
    with pytest.raises(Unavailable, match="weakens ETags"):
        operator.unlock(seen)
    assert rtdb.get(f"{PATH}/expiresAt") != 0
    assert 4 <= next(instants) - seen.now - 1 <= 12, "so many tries in three seconds"


def test_an_unlock_whose_reply_was_lost_is_found(rtdb: Rtdb) -> None:
    """An unlock that was applied without a reply succeeds, and one that was not is unavailable."""
    held()
    operator = Operator(LockService().database)
    seen = operator.read("job")
    rtdb.faults.drop_request(method="PUT", path=PATH)
    with pytest.raises(Unavailable):
        operator.unlock(seen)
    rtdb.faults.drop_reply(method="PUT", path=PATH)
    assert operator.unlock(seen) is True
    assert rtdb.get(f"{PATH}/expiresAt") == 0


def test_a_look_at_all_locks_asks_for_instances_only_if_told(rtdb: Rtdb) -> None:
    """All locks are one request, and one more where their holders' instances are to be known, if there are locks."""
    operator = Operator(LockService().database)
    assert operator.read_all(with_holders=True).views == ()
    assert rtdb.count(method="GET", path="/cron-instances") == 0
    assert operator.read("job").view.state == "absent"
    assert rtdb.count(method="GET", path="/cron-instances") == 0
    held()
    operator.read_all()
    assert rtdb.count(method="GET", path="/cron-instances") == 0
    operator.read_all(with_holders=True)
    assert rtdb.count(method="GET", path="/cron-instances") == 1
    assert rtdb.count(method="GET", path="/cron-locks") == 3


def test_names_that_are_numbers_are_names(rtdb: Rtdb) -> None:
    """Locks whose names are small numbers, which the database shows as a list, are seen as what they are."""
    rtdb.set("/cron-locks", {"1": {"paused": True}, "3": {"paused": True}})
    assert [view.name for view in Operator(LockService().database).read_all().views] == ["1", "3"]


@pytest.mark.parametrize(("node", "why"), [(None, "it has no node"), ({"expiresAt": "soon"}, "expiresAt")])
def test_what_is_no_lock_is_not_unlocked(rtdb: Rtdb, node: object, why: str) -> None:
    """A name without a node, or whose node can't be read, has nothing to be freed, and is left as it is."""
    rtdb.set(PATH, node)
    operator = Operator(LockService().database)
    with pytest.raises(Malformed, match=rf"job can't be unlocked: .*{why}"):
        operator.unlock(operator.read("job"))
    assert rtdb.get(PATH) == node


@pytest.mark.parametrize("prefix", ["", "staging"])
def test_the_remedy_names_the_node_where_it_is(prefix: str) -> None:
    """A node that nobody can read is to be mended below the prefix, alone or among all."""
    locks = LockService(store=MemoryStore(lambda: NOW), settings=Settings(prefix=prefix))
    path = f"{prefix}{PATH}".lstrip("/")
    locks.store.swap(path, NULL_ETAG, {"expiresAt": "soon"}, locks.deadline(1))
    operator = Operator(locks.database)
    for view in (operator.read("job").view, *operator.read_all().views):
        assert str(view.remedy).startswith(f"mend the node {path} in the Firebase console")


SILENT = NOW - 90_001
HELD = {
    "acquiredAt": NOW - 120_000,
    "expiresAt": NOW + 30_000,
    "holder": "h",
    "instanceId": "api-1",
    "instance": "0a",
    "slot": slot(),
    "unfinished": slot(),
    "attempt": 1,
}


@pytest.fixture
def store() -> MemoryStore:
    """One lock, whose holder's instance has fallen silent."""
    store = MemoryStore(lambda: NOW)
    store.set("cron-locks/job", HELD)
    store.set("cron-instances/0a-1", {"seenAt": SILENT})
    return store


@pytest.fixture
def operator(store: MemoryStore) -> Operator:
    timing = FakeTiming(wall=NOW)
    return Operator(LockService(store=store, timing=timing, has_threads=False).database)


def test_a_holder_that_has_fallen_silent_is_told(operator: Operator) -> None:
    """One lock, all locks and the unfinished run of one all say since when its holder's instance is silent."""
    told = f"its instance was last seen at {to_text(SILENT)}"
    [of_all] = operator.read_all(with_holders=True).views
    [last] = operator.last_runs().jobs
    assert last.unfinished is not None
    for problem in (operator.read("job").view.problem, of_all.problem, last.unfinished.problem):
        assert str(problem).startswith(told)
    [without] = operator.read_all().views
    assert without.problem is None


def test_the_end_of_an_unfinished_run_is_looked_for(operator: Operator, store: MemoryStore) -> None:
    """A tick whose end is in the history is not unfinished, also if a later run is the newest there."""
    newer = {"outcome": "succeeded", "trigger": "manual"}
    store.set("cron-runs/job/z", newer)
    [last] = operator.last_runs().jobs
    assert isinstance(last.unfinished, Unfinished)
    assert last.unfinished.slot == slot()
    store.set(f"cron-runs/job/{slot()}", {"outcome": "lost", "slot": slot(), "attempt": 1})
    [last] = operator.last_runs().jobs
    assert (last.run is not None and last.run.key, last.unfinished) == ("z", None)


def test_what_is_no_set_of_locks_is_refused_with_the_remedy(operator: Operator, store: MemoryStore) -> None:
    """A text in the place of all locks is an error that says where it is, and what to do."""
    store.set("cron-locks", "nonsense")
    with pytest.raises(Malformed, match="cron-locks holds 'nonsense', but must hold one node for each name: delete it"):
        operator.read_all()


def working() -> Lease:
    """A lock whose holder renews, so that it may be cancelled."""
    contender = LockService().database
    lease = try_once(contender, contender.bid("job", 3600, fenced=True, renews=True))
    assert isinstance(lease, Lease)
    return lease


def test_the_acquisition_that_was_seen_is_cancelled(rtdb: Rtdb) -> None:
    """However often it has been renewed since, it is asked; a later acquisition is not."""
    lease, operator = working(), Operator(LockService().database)
    seen = operator.read("job")
    assert lease.renew()
    assert operator.cancel(seen, "why") is True
    assert rtdb.get(f"{PATH}/cancel") == lease.fence
    assert lease.release()
    again = working()
    before = rtdb.get(PATH)
    assert operator.cancel(seen) is False
    assert rtdb.get(PATH) == before
    assert again.release()


def test_a_cancel_between_look_and_write_of_a_renewal_is_kept(rtdb: Rtdb) -> None:
    """A renewal that comes between the read and the write of a cancel loses nothing, and hears of it the next time."""
    lease, locks = working(), LockService()
    operator = Operator(locks.database)
    seen = operator.read("job")
    before_each_swap(locks, lease.renew)
    assert operator.cancel(seen) is True
    assert not lease.cancelled
    assert lease.renew()
    assert lease.cancelled


def test_what_can_not_be_cancelled_is_an_error(rtdb: Rtdb) -> None:
    """An operator that asks all the same is told why, and nothing is sent."""
    operator = Operator(LockService().database)
    seen = operator.read("job")
    with pytest.raises(FirecronError, match="job can't be cancelled: it is not held"):
        operator.cancel(seen)
    assert rtdb.count(method="PUT", path=PATH) == 0
