"""Conformance of the node: malformed values, writes by others, fields that must survive, and the watch of its values.

A store may leave the watch out: without it the tests of the watch pass, and a waiter asks again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from firecron.base.clocks import Deadline
from firecron.base.instants import to_text
from firecron.errors import Unavailable
from firecron.lock.record import DAY
from firecron.store import KeptAlive, Watch, Watching
from firecron.testing.conformance.kit import MARGIN, PATIENCE, TTL, Kit, refused, taken
from firecron.testing.conformance.lock import PLAIN_FIELDS

# Each value replaces this field of a good record, or the whole node if the field's name is empty.
STRANGE: dict[str, list[object]] = {
    "": [
        "locked",
        1794992400123,
        True,
        False,
        [1794992400123, "api"],
        {"holder": "somebody"},
        {"slot": "2020-11-18T09:00:00Z"},
    ],
    "expiresAt": ["2020-11-18T09:00:00Z", "1794992400123", True, {"seconds": 1794992400}],
    "acquiredAt": ["1794992400123", False],
    "attempt": ["1", True],
    "fence": ["1794992400123", True],
    "holder": [17, ["a", "b"]],
    "instance": [17],
    "instanceId": [{"revision": "api"}],
    "outcome": [True],
    "releasedAt": ["1794992400123", False],
    "slot": [
        1794992400123,
        "2020-11-18 09:00:00",
        "2020-11-18T09:00:00.000Z",
        "2020-11-18T09:00:00+00:00",
        "2020-13-18T09:00:00Z",
        "soon",
    ],
    "succeededSlot": ["yesterday"],
    "unfinished": [True, "2020-11-18"],
}


class NodeConformance(Kit):
    """Tests with nodes that others wrote, or changed."""

    def test_what_is_no_record_is_refused_and_left_alone(self) -> None:
        """No contender acquires a malformed node, and the node stays as it is."""
        service = self.service()
        now = self.server_time()
        expired = {"acquiredAt": now - 120_000, "expiresAt": now - 60_000, "holder": "h"}
        strange = [(field, value) for field, values in STRANGE.items() for value in values]
        for field, value in [*strange, ("slot", to_text(now + 2 * DAY))]:
            self.node = {**expired, field: value} if field else value
            before = self.node
            refused(service.acquire(self.name, TTL), "malformed")
            refused(service.acquire(self.name, TTL, fenced=True), "malformed")
            assert self.node == before, (field, value)

    def test_a_slot_less_than_a_day_ahead_is_understood(self) -> None:
        """A record whose slot is some hours ahead is not malformed."""
        service = self.service()
        now = self.server_time()
        self.node = {"expiresAt": now - 60_000, "slot": to_text(now + DAY - 60_000)}
        taken(service.acquire(self.name, TTL))

    def test_a_record_that_becomes_unreadable_is_lost(self) -> None:
        """A holder whose node was spoilt by hand loses its lease, and neither renews nor releases it."""
        service = self.service()
        for renews in (True, False):
            self.node = None
            lease = taken(service.acquire(self.name, TTL))
            self.edit(releasedAt=False)
            before = self.fields
            assert not (lease.renew() if renews else lease.release())
            assert lease.lost
            assert self.fields == before

    def test_a_pause_keeps_everybody_out(self) -> None:
        """Any value of `paused` except false keeps contenders from acquiring, also an expired lock."""
        service = self.service()
        expired = {"expiresAt": 1, "holder": "h", "acquiredAt": 0}
        for beside in ({}, {"note": "mind the gap"}, expired):
            for value in (True, "yes", "false", 0, 1, ["no"]):
                self.node = {**beside, "paused": value}
                before = self.node
                refused(service.acquire(self.name, TTL), "paused")
                assert self.node == before, (beside, value)

    def test_a_pause_ends_by_itself(self) -> None:
        """A lock is refused until `pausedUntil`, and kept from nobody then; what is no instant is no end."""
        service = self.service()
        pause = {"paused": True, "pausedUntil": self.server_time() + 50_000}
        self.node = pause
        refused(service.acquire(self.name, TTL), "paused")
        self.jump(51)
        taken(service.acquire(self.name, TTL)).release()
        assert self.fields.items() >= pause.items()
        self.edit(pausedUntil="soon")
        refused(service.acquire(self.name, TTL), "paused")

    def test_a_pause_lets_the_holder_finish(self) -> None:
        """A lock that is paused while held is renewed and released, and stays paused."""
        service = self.service()
        lease = taken(service.acquire(self.name, TTL))
        self.edit(paused=True)
        assert lease.renew()
        assert self.fields["paused"] is True
        assert lease.release()
        assert self.fields["paused"] is True
        refused(service.acquire(self.name, TTL), "paused")
        self.edit(paused=None)
        taken(service.acquire(self.name, TTL))
        assert "releasedAt" not in self.fields

    def test_what_is_not_paused_stays_so(self) -> None:
        """`paused: false` is not a pause, and each new record keeps it."""
        service = self.service()
        for _ in range(2):
            if self.node is None:
                self.node = {"paused": False}
            lease = taken(service.acquire(self.name, TTL))
            assert self.fields.keys() == PLAIN_FIELDS | {"paused"}
            assert lease.renew()
            assert lease.release()
            assert self.fields["paused"] is False
            assert self.number("expiresAt") == self.number("releasedAt")

    def test_the_originals_record_is_honoured(self) -> None:
        """A record of the NestJS original, three fields and no holder, keeps others out until it has expired."""
        service = self.service()
        now = self.server_time()
        theirs = {"acquiredAt": now, "expiresAt": now + TTL * 1000, "instanceId": "api-00042-abc"}
        self.node = theirs
        refusal = refused(service.acquire(self.name, TTL), "held")
        assert (refusal.instance_id, refusal.holder) == ("api-00042-abc", None)
        assert self.fields == theirs
        self.jump(TTL - MARGIN)
        refused(service.acquire(self.name, TTL), "held")
        assert self.fields == theirs
        self.jump(3 * MARGIN)
        lease = taken(service.acquire(self.name, TTL))
        assert self.fields.keys() == PLAIN_FIELDS
        assert self.fields["holder"] == lease.holder

    def test_unknown_fields_survive(self) -> None:
        """Acquire, renewal and release keep fields that firecron doesn't know, on a bare node and on a record."""
        service = self.service()
        mine = {"note": "ask Ann", "links": {"runbook": "yes"}}
        self.node = mine
        for _ in range(2):
            lease = taken(service.acquire(self.name, TTL))
            assert self.fields.keys() == PLAIN_FIELDS | mine.keys()
            assert lease.renew()
            assert self.fields.keys() == PLAIN_FIELDS | mine.keys()
            assert lease.release()
            assert {key: self.fields[key] for key in mine} == mine
            assert "releasedAt" in self.fields

    def test_what_is_added_while_held_survives(self) -> None:
        """If another client adds a field to a held node, renewals keep it, and the release keeps the node."""
        service = self.service()
        lease = taken(service.acquire(self.name, TTL))
        self.edit(note="seen")
        assert lease.renew()
        assert self.fields["note"] == "seen"
        self.edit(more="seen too")
        assert lease.release()
        assert (self.fields["note"], self.fields["more"]) == ("seen", "seen too")

    def test_a_prefix_is_above_every_node(self) -> None:
        """With a prefix, all nodes are below it, and the same name without the prefix is another lock."""
        above = f"{self.prefix}/conformance/{self.name}".lstrip("/")
        path = f"{above}/cron-locks/{self.name}"
        below, beside = self.service(prefix=above), self.service()
        lease = taken(below.acquire(self.name, TTL))
        try:
            assert self.node is None
            record = self.read(path)
            assert isinstance(record, dict)
            assert record["holder"] == lease.holder
            taken(beside.acquire(self.name, TTL))
            assert lease.release()
            assert self.read(path) is None
        finally:
            self.write(path, None)
            self.write(f"{above}/cron-instances/clock/seenAt", None)


# --- the watch

_SOON = Deadline(lambda: 0.0, PATIENCE * 1000.0)


class WatchConformance(Kit):
    """Tests of the values that a watch brings of the lock's node."""

    def test_a_watch_begins_with_the_whole_node(self) -> None:
        """The first value is the node as it is: absent, or with all its children."""
        service = self.service()
        for node in (None, {"paused": True, "expiresAt": 0}):
            self.node = node
            with _watching(service.store, self.path) as watch:
                assert watch is None or watch.next() == node

    def test_a_watch_tells_each_state_that_lasts(self) -> None:
        """After a write, a write of a child, the removal of a child and a deletion, the whole node comes."""
        service = self.service()
        with _watching(service.store, self.path) as watch:
            if watch is None:
                return
            for path, value, node in (
                (self.path, {"holder": "h", "expiresAt": 1}, {"holder": "h", "expiresAt": 1}),
                (f"{self.path}/paused", True, {"holder": "h", "expiresAt": 1, "paused": True}),
                (f"{self.path}/holder", None, {"expiresAt": 1, "paused": True}),
                (self.path, {"expiresAt": 2}, {"expiresAt": 2}),
                (self.path, None, None),
            ):
                self.write(path, value)
                _hear(watch, node)

    def test_a_watch_tells_what_a_holder_does(self) -> None:
        """An acquire and a release come as the record that is stored."""
        service = self.service()
        with _watching(service.store, self.path) as watch:
            if watch is None:
                return
            lease = taken(service.acquire(self.name, TTL, fenced=True))
            _hear(watch, self.node)
            lease.release()
            _hear(watch, self.node)

    def test_a_watch_that_is_closed_ends_at_once(self) -> None:
        """A thread that waits for the next value gets Unavailable when another thread closes the watch."""
        service = self.service()
        with _watching(service.store, self.path) as watch:
            if watch is None:
                return
            watch.next()
            closing = threading.Timer(0, watch.close)
            closing.start()
            try:
                watch.next()
            except Unavailable:
                return
            finally:
                closing.join()
            raise AssertionError("a watch that was closed has brought another value")

    def test_a_watch_that_has_just_told_something_is_not_silent(self) -> None:
        """A watch may tell for how long its database has shown no life: a value is a sign of it."""
        service = self.service()
        with _watching(service.store, self.path) as watch:
            if not isinstance(watch, KeptAlive):
                return
            self.node = {"expiresAt": 1}
            _hear(watch, self.node)
            assert 0 <= watch.silence() < PATIENCE * 1000

    def test_the_lock_is_handed_over_to_a_waiter(self) -> None:
        """An acquire that waits gets the lock once its holder has released it."""
        one, other = self.service(), self.service()
        lease = taken(one.acquire(self.name, TTL))
        releasing = threading.Timer(0, lease.release)
        releasing.start()
        try:
            assert taken(other.acquire(self.name, TTL, wait=PATIENCE)).release()
        finally:
            releasing.join()


@contextmanager
def _watching(store: object, path: str) -> Iterator[Watch | None]:
    """Yield a watch that ends by itself after a while, so that no test waits for ever. None: the store has none."""
    if not isinstance(store, Watching):
        yield None
        return
    watch = store.watch(path, _SOON)
    limit = threading.Timer(PATIENCE, watch.close)
    limit.start()
    try:
        yield watch
    finally:
        limit.cancel()
        watch.close()
        limit.join()


def _hear(watch: Watch, node: object) -> None:
    """Read values until this one comes. Others may come before it, or it may come twice."""
    while watch.next() != node:
        continue
