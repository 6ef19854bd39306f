"""Conformance of the lease: acquire, renew, release, and expiry."""

from __future__ import annotations

from datetime import timedelta

from firecron.base.clocks import Deadline
from firecron.base.instants import to_text
from firecron.lock.blocks import try_once
from firecron.locks import LockService
from firecron.testing.clocks import FakeTiming
from firecron.testing.conformance.kit import MARGIN, PATIENCE, TTL, Kit, refused, taken

PLAIN_FIELDS = {"acquired", "acquiredAt", "expires", "expiresAt", "holder", "instance", "instanceId"}


class LeaseConformance(Kit):
    """Tests of a plain lock, which remembers nothing."""

    def test_acquire_writes_exactly_these_fields(self) -> None:
        """A plain lock has seven fields, in the database's time, and expires its ttl after it was acquired."""
        service = self.service()
        before = self.server_time()
        lease = taken(service.acquire(self.name, TTL))
        after = self.server_time()
        assert self.fields.keys() == PLAIN_FIELDS
        acquired_at, expires_at = self.number("acquiredAt"), self.number("expiresAt")
        assert before - MARGIN * 1000 <= acquired_at <= after + MARGIN * 1000
        assert expires_at - acquired_at == TTL * 1000
        assert self.fields["acquired"] == to_text(acquired_at)
        assert self.fields["expires"] == to_text(expires_at)
        assert self.fields["holder"] == lease.holder
        assert round(lease.expires_at.timestamp() * 1000) == expires_at
        assert lease.fence is None
        assert not lease.lost

    def test_a_held_lock_is_refused_to_others(self) -> None:
        """The refusal names the holder and the end of its lease, and the node stays as it is."""
        holder, contender = self.service(), self.service()
        lease = taken(holder.acquire(self.name, TTL))
        before = self.fields
        refusal = refused(contender.acquire(self.name, TTL), "held")
        assert self.fields == before
        assert refusal.holder == lease.holder
        assert refusal.until == lease.expires_at
        assert refusal.free_at == lease.expires_at + timedelta(seconds=MARGIN)
        assert (refusal.instance_id, refusal.instance) == (before["instanceId"], before["instance"])

    def test_two_leases_of_one_service_never_pass_for_each_other(self) -> None:
        """The holder's own service is refused like any other as long as the lock is held."""
        service = self.service()
        taken(service.acquire(self.name, TTL))
        refused(service.acquire(self.name, TTL), "held")

    def test_a_bid_that_has_won_keeps_its_lease(self) -> None:
        """Another try with the same bid gives the lease that the first one began, and writes nothing."""
        service = self.service()
        bid = service.database.bid(self.name, TTL)
        first = taken(try_once(service.database, bid))
        before = self.fields
        self.jump(TTL / 2)
        again = taken(try_once(service.database, bid))
        assert self.fields == before
        assert (again.holder, again.expires_at) == (first.holder, first.expires_at)
        self.jump(TTL / 2 - MARGIN)
        assert again.lost
        refused(try_once(service.database, bid), "held")
        assert self.fields == before

    def test_release_deletes_a_plain_lock(self) -> None:
        """The release of a plain lock deletes its node, and a second release does nothing."""
        service, other = self.service(), self.service()
        lease = taken(service.acquire(self.name, TTL))
        assert lease.release()
        assert self.node is None
        successor = taken(other.acquire(self.name, TTL))
        before = self.fields
        assert not lease.release()
        assert self.fields == before
        assert successor.release()
        assert self.node is None

    def test_release_keeps_a_record_with_a_fence(self) -> None:
        """A fenced lock's release leaves its record, marked as released and free at once."""
        service, other = self.service(), self.service()
        lease = taken(service.acquire(self.name, TTL, fenced=True))
        before = self.fields
        assert lease.release(outcome="succeeded")
        released_at = self.number("releasedAt")
        assert self.number("acquiredAt") <= released_at < before_expiry(before)
        assert self.fields == {
            **before,
            "releasedAt": released_at,
            "expiresAt": released_at,
            "expires": to_text(released_at),
            "outcome": "succeeded",
        }
        self.jump(MARGIN)  # the other service's clock may be a margin behind
        taken(other.acquire(self.name, TTL))

    def test_a_late_release_leaves_the_successor_alone(self) -> None:
        """A release after a takeover reports that the lease was lost, and leaves the new holder's record as it is."""
        for fenced in (False, True):
            self.start_over()
            holder, contender = self.service(), self.service()
            late = taken(holder.acquire(self.name, TTL, fenced=fenced))
            self.jump(TTL + MARGIN + 1)
            lease = taken(contender.acquire(self.name, TTL, fenced=fenced))
            before = self.fields
            assert before["holder"] == lease.holder
            assert not late.release()
            assert self.fields == before

    def test_renew_lengthens_the_lease(self) -> None:
        """A renewal moves the expiry to a whole ttl from now, and touches nothing else."""
        service = self.service()
        lease = taken(service.acquire(self.name, TTL))
        before = self.fields
        self.jump(TTL / 2)
        now = self.now(service)
        assert lease.renew()
        expires_at = self.number("expiresAt")
        assert now <= expires_at - TTL * 1000 <= self.now(service)
        assert self.fields == {**before, "expiresAt": expires_at, "expires": to_text(expires_at)}
        assert round(lease.expires_at.timestamp() * 1000) == expires_at
        self.jump(TTL / 2)
        assert not lease.lost
        assert lease.release()

    def test_what_is_over_is_not_renewed(self) -> None:
        """A renewal after expiry, unlock, takeover, deletion or release by hand finds the lease lost, and writes
        nothing.
        """

        def expire() -> None:
            self.jump(TTL - MARGIN)

        def unlock() -> None:
            self.edit(expiresAt=0)

        def take_over() -> None:
            self.edit(holder="another")

        def delete() -> None:
            self.node = None

        def release() -> None:
            self.edit(releasedAt=self.number("acquiredAt"))

        for happen in (expire, unlock, take_over, delete, release):
            self.start_over()
            lease = taken(self.service().acquire(self.name, TTL))
            happen()
            before = self.node
            assert not lease.renew(), happen.__name__
            assert lease.lost, happen.__name__
            assert self.node == before, happen.__name__
            assert not lease.renew(), f"{happen.__name__}: what is lost stays lost"

    def test_a_released_lease_is_not_renewed(self) -> None:
        """After its release a lease can't be renewed, whether its node was deleted or kept."""
        service = self.service()
        for fenced in (False, True):
            lease = taken(service.acquire(self.name, TTL, fenced=fenced))
            assert lease.release()
            before = self.node
            assert not lease.renew()
            assert self.node == before

    def test_a_deleted_node_stays_deleted(self) -> None:
        """Neither renewal nor release recreates the node that was deleted under the holder."""
        service = self.service()
        for fenced in (False, True):
            lease = taken(service.acquire(self.name, TTL, fenced=fenced))
            self.node = None
            assert not lease.release()
            assert self.node is None
            lease = taken(service.acquire(self.name, TTL, fenced=fenced))
            self.node = None
            assert not lease.renew()
            assert lease.lost
            assert self.node is None

    def test_a_minimum_hold_outlasts_the_release(self) -> None:
        """A released lock keeps others out for the rest of its minimum hold, without a margin."""
        timing = FakeTiming()
        service = self.service(timing)
        lease = taken(service.acquire(self.name, TTL, hold_at_least=TTL / 2))
        ends = self.number("acquiredAt") + TTL * 500
        assert lease.release()
        assert self.number("expiresAt") == ends
        assert self.number("releasedAt") < ends
        timing.advance((ends - 1 - self.now(service)) / 1000)
        assert refused(service.acquire(self.name, TTL), "held").holder == lease.holder
        timing.advance(0.001)
        assert taken(service.acquire(self.name, TTL)).release()
        assert self.node is None

    def test_a_contender_waits_for_the_expiry_and_the_margin(self) -> None:
        """To the millisecond: a dead holder's lock is taken at its expiry plus the margin, a released one at its
        expiry.
        """
        service = self.service(FakeTiming())
        now = self.now(service)
        dead = {"acquiredAt": now - 90_000, "holder": "h", "instance": "i", "instanceId": "r"}
        released = {**dead, "releasedAt": now - 30_000}
        for record, margin in ((dead, MARGIN * 1000), (released, 0)):
            for late in (-1, 0, 1):
                self.node = {**record, "expiresAt": now - margin - late}
                answer = service.acquire(self.name, TTL)
                if late < 0:
                    refused(answer, "held")
                else:
                    taken(answer)

    def test_a_holder_trusts_its_lease_until_a_margin_before_the_expiry(self) -> None:
        """To the millisecond: the lease is lost a margin before its expiry, by the clock and by the record."""
        for left, trusted in ((1, True), (0, False), (-1, False)):
            timing = FakeTiming()
            service = self.service(timing)
            lease = taken(service.acquire(self.name, TTL))
            timing.advance(TTL - MARGIN - left / 1000)
            assert bool(lease.lost) is not trusted, f"{left} ms are left"
            assert trusted or not lease.renew(), f"{left} ms are left"
            self.node = None
            lease = taken(service.acquire(self.name, TTL))
            self.edit(expiresAt=self.now(service) + MARGIN * 1000 + left)
            assert lease.renew() is trusted, f"the record leaves {left} ms"
            self.node = None

    def test_a_dead_holders_lock_is_taken_when_it_has_expired(self) -> None:
        """The lock of a silent holder can't be acquired before it expires, and then by one contender only."""
        holder, contender = self.service(), self.service()
        dead = taken(holder.acquire(self.name, TTL))
        self.jump(TTL - MARGIN)
        assert dead.lost
        refused(contender.acquire(self.name, TTL), "held")
        self.jump(3 * MARGIN)
        lease = taken(contender.acquire(self.name, TTL))
        assert self.fields["holder"] == lease.holder
        refused(holder.acquire(self.name, TTL), "held")

    def test_the_records_expiry_counts_and_not_the_contenders_ttl(self) -> None:
        """A contender that asks for a short time waits as long as the holder's record says."""
        holder, contender = self.service(), self.service()
        taken(holder.acquire(self.name, TTL))
        self.jump(TTL / 2)
        refused(contender.acquire(self.name, TTL / 6), "held")

    def now(self, service: LockService) -> int:
        """Return the service's estimate of the database's time in milliseconds."""
        return service.clock.now(Deadline.after(self.timing, PATIENCE)).server


def before_expiry(fields: dict[str, object]) -> int:
    """Return when the record with these fields expires."""
    value = fields["expiresAt"]
    assert isinstance(value, int)
    return value
