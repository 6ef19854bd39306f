"""Conformance of what a lock remembers after its release: claimed slots, and fences."""

from __future__ import annotations

from dataclasses import replace

from firecron.base.clocks import Deadline
from firecron.base.instants import to_milliseconds, to_text
from firecron.lock.blocks import try_once
from firecron.lock.lease import Lease
from firecron.lock.record import Current, Request
from firecron.lock.refusal import Refusal
from firecron.locks import LockService
from firecron.testing.clocks import FakeTiming
from firecron.testing.conformance.kit import MARGIN, PATIENCE, TTL, Kit, refused, taken
from firecron.testing.conformance.lease import PLAIN_FIELDS

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
            now = service.clock.now(Deadline.after(timing, PATIENCE)).server
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
