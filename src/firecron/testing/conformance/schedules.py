"""Conformance of stored schedules: what a store has to do for them besides locks.

It is a class of its own, because a program may need no stored schedules, and a store may have no order of its nodes. A
Realtime Database needs the index of the rules that `firecron rules` prints.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from firecron.base.clocks import Deadline
from firecron.base.instants import to_text
from firecron.lock.blocks import try_once
from firecron.lock.lease import Lease
from firecron.lock.record import Current, Refused, Request
from firecron.lock.refusal import Refusal
from firecron.lock.stored import LookOptions, closed_to_claims
from firecron.locks import LockService
from firecron.store import Querying
from firecron.testing.conformance.kit import MARGIN, PATIENCE, TTL, Kit, refused, taken

_DAILY = "0 9 * * *"
_LOOK = LookOptions(1000 * MARGIN, waits=False, reruns=False)
# Of each child the field by which it is ordered, or another one.
_NODES: dict[str, dict[str, object]] = {
    ":a": {"nextAt": 5},
    ":b": {"nextAt": 1},
    ":c": {"nextAt": 5},
    ":d": {"nextAt": "x"},
    ":1": {"failures": 1},
}


class ScheduleConformance(Kit):
    """Tests of stored schedules. A subclass implements `make_service`, `read` and `write`, as for the locks."""

    def teardown_method(self) -> None:
        super().teardown_method()
        for path in ("cron-schedules", "cron-bell"):
            self.write(self.below(f"{path}/{self.name}"), None)

    def test_entries_are_found_by_the_time_of_their_look(self) -> None:
        """By a number, from one to another, from a name on among equal ones, and no more than are asked for."""
        store, path = self.querying()
        self.write(path, _NODES)

        def names(order: str = "nextAt", **asked: object) -> str:
            found = store.query(path, order, self.soon(), **{"most": 9, **asked})  # type: ignore[arg-type]  # any of them
            assert all(_NODES[name] == node for name, node in found)
            return "".join(name for name, _ in found)

        assert names() == ":1:b:a:c:d"
        assert names(start=1, end=5) == ":b:a:c"
        assert names(start=2) == ":a:c:d"
        assert names(start=(5, ":b"), end=5) == ":c"
        assert names(end=0) == ":1"
        assert names(start="") == ":d"
        assert names(start=1, end=5, most=2) == ":b:a"
        assert names("failures", start=1) == ":1"
        assert names("$key", start=":a", most=2) == ":a:b"
        self.write(path, None)
        assert names("$key") == ""

    def test_what_is_put_is_got_and_counted(self) -> None:
        """Page by page, by the keys. A put that changes nothing writes nothing, also another program's."""
        self.querying()
        service, other = self.service(), self.service()
        for key in ("1", "10", "2"):
            assert service.schedules.put(self.name, key, _DAILY, args={"key": key})
        before = self.entry("10")
        assert not other.schedules.put(self.name, "10", _DAILY, args={"key": "10"})
        assert self.entry("10") == before
        listed = [(one.key, one.args["key"]) for one in other.schedules.list(self.name, after="1", limit=1)]
        assert listed == [("10", "10")]
        assert [one.key for one in other.schedules.list(self.name, prefix="1")] == ["1", "10"]
        assert other.schedules.count(self.name) == 3

    def test_what_is_removed_is_claimed_by_nobody(self) -> None:
        """Nor is what was never there, which no claim creates. What is put again keeps the slot of before."""
        self.querying()
        service = self.service()
        refused(self.claim_entry(service), "removed")
        assert self.read(self.entry_path()) is None
        service.schedules.put(self.name, "42", _DAILY)
        taken(self.claim_entry(service)).release(finished=self.slot)
        assert service.schedules.remove(self.name, "42") is False
        before = self.entry()
        assert (before["closed"], before["slot"]) == ("removed", self.slot)
        self.jump(5)
        refused(self.claim_entry(service), "removed")
        assert self.entry() == before
        service.schedules.put(self.name, "42", _DAILY)
        after = self.entry()
        assert "closed" not in after
        assert after["slot"] == before["slot"]
        assert int(str(after["since"])) > int(str(before["since"]))

    def test_a_run_ends_as_any_other_after_a_removal(self) -> None:
        """It renews and releases its lock, and the entry stays closed."""
        self.querying()
        service = self.service()
        service.schedules.put(self.name, "42", _DAILY)
        lease = taken(self.claim_entry(service))
        assert service.schedules.remove(self.name, "42") is True
        assert lease.renew()
        assert lease.release(finished=self.slot)
        assert self.entry()["closed"] == "removed"
        assert "unfinished" not in self.entry()

    def test_each_write_says_when_to_look(self) -> None:
        """At the next tick; while a run holds the entry, once it may be dead."""
        self.querying()
        service = self.service()
        service.schedules.put(self.name, "42", every=timedelta(days=1))
        tick = self.entry()["nextAt"]
        lease = taken(self.claim_entry(service))
        for _ in range(2):
            after = self.entry()
            assert after["nextAt"] == int(str(after["expiresAt"])) + 1000 * MARGIN
            self.jump(5)
            assert lease.renew()
        lease.release(finished=self.slot)
        assert self.entry()["nextAt"] == tick

    def test_a_put_that_is_soon_due_rings(self) -> None:
        """The bell of its job has the database's time, so that instances look before their next beat."""
        self.querying()
        service = self.service()
        before = self.server_time()
        service.schedules.put(self.name, "42", every=1)
        rung = self.read(self.below(f"cron-bell/{self.name}"))
        assert isinstance(rung, int)
        assert before <= rung <= self.server_time()

    # The tests use the methods below.

    def querying(self) -> tuple[Querying, str]:
        """Return a store with an order, and the path of the entries."""
        store = self.service().store
        assert isinstance(store, Querying), f"the store {store.name} has no `query`, which stored schedules need"
        return store, self.below(f"cron-schedules/{self.name}")

    def soon(self) -> Deadline:
        return Deadline.after(self.timing, PATIENCE)

    def below(self, path: str) -> str:
        """Return the path below the prefix of the test."""
        return f"{self.prefix}/{path}".lstrip("/")

    def entry_path(self, key: str = "42") -> str:
        return self.below(f"cron-schedules/{self.name}/:{key}")

    def entry(self, key: str = "42") -> dict[str, object]:
        """Return the node of an entry, which must exist."""
        node = self.read(self.entry_path(key))
        assert isinstance(node, dict), node
        return node

    def claim_entry(self, service: LockService) -> Lease | Refusal:
        """Try once to claim a tick of the entry: that of this second, which is `slot` then."""
        now = self.now(service)
        self.slot = to_text(now - now % 1000)

        def choose(request: Request, current: Current, now: int) -> Request | Refused:
            return closed_to_claims(current) or replace(request, rerun=False)

        bid = service.database.bid(f"{self.name}:42", TTL, fenced=True, slot=self.slot, choose=choose, look=_LOOK)
        return try_once(service.database, bid)
