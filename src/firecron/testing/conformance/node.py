"""Conformance of the node: malformed values, writes by others, and fields that must survive."""

from __future__ import annotations

from firecron.base.instants import to_text
from firecron.lock.record import DAY
from firecron.testing.conformance.kit import MARGIN, TTL, Kit, refused, taken
from firecron.testing.conformance.lease import PLAIN_FIELDS

# Each value replaces a field of a good record, or the whole node if the field's name is empty.
STRANGE: list[tuple[str, object]] = [
    ("", "locked"),
    ("", 1794992400123),
    ("", True),
    ("", False),
    ("", [1794992400123, "api"]),
    ("", {"holder": "somebody"}),
    ("", {"slot": "2020-11-18T09:00:00Z"}),
    ("expiresAt", "2020-11-18T09:00:00Z"),
    ("expiresAt", "1794992400123"),
    ("expiresAt", True),
    ("expiresAt", {"seconds": 1794992400}),
    ("acquiredAt", "1794992400123"),
    ("acquiredAt", False),
    ("attempt", "1"),
    ("attempt", True),
    ("fence", "1794992400123"),
    ("fence", True),
    ("holder", 17),
    ("holder", ["a", "b"]),
    ("instance", 17),
    ("instanceId", {"revision": "api"}),
    ("outcome", True),
    ("releasedAt", "1794992400123"),
    ("releasedAt", False),
    ("slot", 1794992400123),
    ("slot", "2020-11-18 09:00:00"),
    ("slot", "2020-11-18T09:00:00.000Z"),
    ("slot", "2020-11-18T09:00:00+00:00"),
    ("slot", "2020-13-18T09:00:00Z"),
    ("slot", "soon"),
    ("succeededSlot", "yesterday"),
    ("unfinished", True),
    ("unfinished", "2020-11-18"),
]


class NodeConformance(Kit):
    """Tests with nodes that others wrote, or changed."""

    def test_what_is_no_record_is_refused_and_left_alone(self) -> None:
        """No contender acquires a malformed node, and the node stays as it is."""
        service = self.service()
        now = self.server_time()
        far = to_text(now + 2 * DAY)
        expired = {"acquiredAt": now - 120_000, "expiresAt": now - 60_000, "holder": "h"}
        for field, value in [*STRANGE, ("slot", far)]:
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
