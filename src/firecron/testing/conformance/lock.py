"""Conformance of the lock: acquire, renew, release, expiry, and what it remembers then: claimed slots, and fences."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from firecron.base.instants import to_milliseconds, to_text
from firecron.lock.blocks import try_once
from firecron.lock.lease import Lease
from firecron.lock.record import Current, Request
from firecron.lock.refusal import Refusal
from firecron.locks import LockService
from firecron.testing.clocks import FakeTiming
from firecron.testing.conformance.kit import MARGIN, TTL, Kit, refused, taken

# --- the lease

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
        before, expires_at = self.fields, self.number("expiresAt")
        assert lease.release(outcome="succeeded")
        released_at = self.number("releasedAt")
        assert self.number("acquiredAt") <= released_at < expires_at
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


# --- slots and fences

SLOT_FIELDS = {"attempt", "fence", "slot", "unfinished"}

EARLIER, SLOT, LATER = "2020-11-18T08:00:00Z", "2020-11-18T09:00:00Z", "2020-11-18T10:00:00Z"


class SlotConformance(Kit):
    """Tests of a lock that remembers slots and fences."""

    def test_a_slot_is_claimed_in_the_same_write(self) -> None:
        """A claim writes its slot as unfinished, with attempt 1, and its lease has both.

        A claim that won't be renewed says so.
        """
        service = self.service()
        lease = taken(self.claim(service, SLOT))
        assert self.fields.keys() == PLAIN_FIELDS | SLOT_FIELDS | {"renews"}
        assert self.claimed() == (SLOT, SLOT, 1)
        assert (lease.slot, lease.attempt, lease.fence) == (SLOT, 1, self.number("fence"))

    def test_a_slot_is_claimed_once(self) -> None:
        """A claimed slot and all earlier slots stay refused, also after the release. A later slot is not refused."""
        service, other = self.service(), self.service()
        lease = taken(self.claim(service, SLOT))
        for _ in range(2):
            before = self.fields
            for spent in (EARLIER, SLOT):
                assert refused(self.claim(other, spent), "slot_done").slot == SLOT
            assert self.fields == before
            lease.release(finished=SLOT)
        refused(self.claim(service, SLOT), "slot_done")
        self.jump(MARGIN)  # the other service's clock may be a margin behind
        taken(self.claim(other, LATER))
        assert self.claimed() == (LATER, LATER, 1)

    def test_a_spent_slot_stays_spent_when_its_claimer_dies(self) -> None:
        """After a claim has expired, its slot is still refused, and the next slot is free."""
        service = self.service()
        taken(self.claim(service, SLOT))
        refused(self.claim(service, LATER), "held")
        self.jump(TTL + MARGIN + 1)
        refused(self.claim(service, SLOT), "slot_done")
        taken(self.claim(service, LATER))
        assert self.claimed() == (LATER, LATER, 1)

    def test_a_clean_release_finishes_its_slot(self) -> None:
        """A release that names its slot as finished removes `unfinished`, and keeps the slot and all other fields."""
        lease = taken(self.claim(self.service(), SLOT))
        kept = {key: value for key, value in self.fields.items() if key not in ("expires", "expiresAt", "unfinished")}
        assert lease.release(outcome="failed", finished=SLOT)
        assert "unfinished" not in self.fields
        assert {key: self.fields[key] for key in kept} == kept
        assert self.fields["outcome"] == "failed"
        assert self.number("expiresAt") == self.number("releasedAt")

    def test_the_newest_success_is_remembered(self) -> None:
        """A release after a success writes its slot as `succeededSlot`. Later claims and failures keep it."""
        service = self.service()
        runs = ((EARLIER, "succeeded", EARLIER), (SLOT, "failed", EARLIER), (LATER, "succeeded", LATER))
        for slot, outcome, newest in runs:
            before = self.fields.get("succeededSlot") if self.node else None
            lease = taken(self.claim(service, slot))
            assert self.fields.get("succeededSlot") == before
            assert lease.release(outcome=outcome, finished=slot)
            assert self.fields.get("succeededSlot") == newest

    def test_failures_are_counted(self) -> None:
        """A failed run of a slot, a lost one and one that died count one each. A success ends the count."""
        service = self.service()
        for slot, outcome in ((EARLIER, "failed"), (SLOT, "lost")):
            taken(self.claim(service, slot)).release(outcome=outcome, tick=slot)
        taken(self.claim(service, LATER))
        assert self.number("failures") == 2
        self.jump(TTL + MARGIN + 1)
        lease = taken(service.acquire(self.name, TTL))
        assert self.number("failures") == 3
        lease.release(outcome="succeeded")
        assert "failures" not in self.fields

    def test_another_release_leaves_the_slot_unfinished(self) -> None:
        """A release that names no slot, or another one, keeps `unfinished`."""
        service = self.service()
        for slot, finished in ((SLOT, None), (LATER, EARLIER)):
            lease = taken(self.claim(service, slot))
            assert lease.release(finished=finished)
            assert self.claimed() == (slot, slot, 1)
            assert "releasedAt" in self.fields

    def test_an_unfinished_slot_is_rerun(self) -> None:
        """A rerun claims the unfinished slot again, but not while its lock is held, and never a finished slot."""
        service, other = self.service(), self.service()
        lease = taken(self.claim(service, SLOT))
        refused(self.claim(other, SLOT, rerun=True), "slot_done")
        assert lease.release()
        self.jump(MARGIN)  # the other service's clock may be a margin behind
        refused(self.claim(other, EARLIER, rerun=True), "slot_done")
        again = taken(self.claim(other, SLOT, rerun=True))
        assert self.claimed() == (SLOT, SLOT, 2)
        assert (again.slot, again.attempt) == (SLOT, 2)
        assert "releasedAt" not in self.fields
        assert again.release(finished=SLOT)
        before = self.fields
        refused(self.claim(service, SLOT, rerun=True), "slot_done")
        assert self.fields == before

    def test_a_dead_claimers_slot_is_rerun_after_its_expiry(self) -> None:
        """The slot of a claim that expired is free for a rerun, which is its second attempt."""
        service = self.service()
        taken(self.claim(service, SLOT))
        self.jump(TTL + MARGIN + 1)
        taken(self.claim(service, SLOT, rerun=True))
        assert self.claimed() == (SLOT, SLOT, 2)

    def test_a_plain_lease_touches_no_slot(self) -> None:
        """A lock without a slot keeps the node's fields about the last slot, also when it is released."""
        service = self.service()
        assert taken(self.claim(service, SLOT)).release()
        lease = taken(service.acquire(self.name, TTL))
        assert self.claimed() == (SLOT, SLOT, 1)
        assert lease.release()
        assert self.claimed() == (SLOT, SLOT, 1)
        refused(self.claim(service, SLOT), "slot_done")
        taken(self.claim(service, SLOT, rerun=True))

    def test_a_slot_is_not_claimed_early(self) -> None:
        """To the millisecond: a slot is refused until the margin before it, on a free node and on a record."""
        for before in (None, {"expiresAt": 1, "slot": SLOT}):
            timing = FakeTiming()
            service = self.service(timing)
            now = self.now(service)
            slot = to_text(now + 60_000)
            self.node = before
            timing.advance((to_milliseconds(slot) - MARGIN * 1000 - 1 - now) / 1000)
            refused(self.claim(service, slot), "slot_early")
            assert self.node == before
            timing.advance(0.001)
            taken(self.claim(service, slot))
            assert self.claimed() == (slot, slot, 1)

    def test_fences_rise(self) -> None:
        """A fence is higher than all before it: after a release, after an expiry, for another holder, beside plain
        locks.
        """
        one, other = self.service(), self.service()
        fences: list[int] = []

        def take(service: LockService) -> Lease:
            self.jump(MARGIN)  # its clock may be a margin behind the last holder's
            lease = taken(service.acquire(self.name, TTL, fenced=True))
            assert lease.fence == self.number("fence")
            fences.append(lease.fence)
            return lease

        take(one).release()
        take(one).release()
        take(other).release()
        take(one)
        self.jump(TTL + MARGIN + 1)
        take(other).release()
        self.jump(MARGIN)
        plain = taken(one.acquire(self.name, TTL))
        assert self.number("fence") == fences[-1]
        assert plain.release()
        assert self.number("fence") == fences[-1]
        take(one)
        assert fences == sorted(set(fences))

    def test_a_fence_rises_though_the_clock_does_not(self) -> None:
        """A fence is the time, or one more than the last fence if that is ahead of the time."""
        service = self.service()
        now = self.server_time()
        ahead = now + 1_000_000
        self.node = {"expiresAt": 1, "fence": ahead}
        lease = taken(service.acquire(self.name, TTL, fenced=True))
        assert lease.fence == ahead + 1 == self.number("fence")
        self.node = {"expiresAt": 1, "fence": 7}
        lease = taken(service.acquire(self.name, TTL, fenced=True))
        assert lease.fence == self.number("fence") == self.number("acquiredAt")

    def test_a_cancelled_claim_is_told_and_never_claimed_again(self) -> None:
        """A cancel changes two fields, and the holder's renewal finds it. After its expiry the slot is not rerun."""
        service, other = self.service(), self.service()
        lease = taken(self.claim(service, SLOT))
        before = self.fields
        assert other.database.cancel(self.name, lease.holder, self.number("fence"), "why")
        assert self.fields == {**before, "cancel": before["fence"], "cancelWhy": "why"}
        assert not lease.cancelled
        assert lease.renew()
        assert lease.cancelled
        assert not lease.lost
        refused(self.claim(other, LATER), "held")
        self.jump(TTL + MARGIN + 1)
        refused(self.claim(other, SLOT, rerun=True), "slot_done")
        successor = taken(self.claim(other, LATER))
        assert self.claimed() == (LATER, LATER, 1)
        assert not {"cancel", "cancelWhy"} & self.fields.keys()
        before = self.fields
        assert not other.database.cancel(self.name, lease.holder, lease.fence or 0)
        assert self.fields == before
        assert successor.renew()
        assert not successor.cancelled

    def test_a_lease_tells_of_its_own_claims_only(self) -> None:
        """A plain lease on a node that remembers a fence and a slot has neither."""
        service = self.service()
        taken(self.claim(service, SLOT)).release(finished=SLOT)
        lease = taken(service.acquire(self.name, TTL))
        assert (lease.fence, lease.slot, lease.attempt) == (None, None, None)

    def claim(self, service: LockService, slot: str, *, rerun: bool = False) -> Lease | Refusal:
        """Try once to claim a slot, as a scheduled run does."""

        def choose(request: Request, current: Current, now: int) -> Request:
            return replace(request, rerun=rerun)

        return try_once(service.database, service.database.bid(self.name, TTL, fenced=True, slot=slot, choose=choose))

    def claimed(self) -> tuple[object, object, object]:
        """Return the node's `slot`, `unfinished` and `attempt`.

        They are the newest claimed slot, the slot whose run has not ended, and the number of its claims.
        """
        fields = self.fields
        return fields.get("slot"), fields.get("unfinished"), fields.get("attempt")
