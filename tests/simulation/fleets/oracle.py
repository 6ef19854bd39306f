"""The oracle: watches a run, and knows what the contract allows. It takes nothing from the engine's own code.

It sees what really happened: each write that reached the database, each body's begin, end and looks at its lease, and
what each instance said. What is wrong at once is a violation at once. What needs the end of the run is in `verdict`.

    1. No tick starts twice, but by `rerun` or `retries`. Each start has a claim of its own that the database has. No
       two bodies both trust their lease. Fences and slots rise, and the newest success is remembered. Nobody writes
       over another's record.
    4. Nothing escapes into the engine's own guards.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.simulation.fleets.database import LOCKS, brief
from tests.simulation.fleets.happened import Body, Claim, History, Said
from tests.simulation.fleets.scenario import JobSpec
from tests.simulation.fleets.steps import StepBook
from tests.simulation.fleets.times import number, server_time, time_of
from tests.simulation.greenlets import Scheduler
from tests.simulation.machines import MILLISECOND, SECOND, Machine
from tests.simulation.stand_ins import EPOCH

from firecron.base.events import Event
from firecron.jobs.run import Run

if TYPE_CHECKING:
    from tests.simulation.fleets.timeline import Timeline

MARGIN = 1_000
# The path of the histories.
RUNS = "cron-runs/"
# What a pause and its end change, also those of a hold.
_PAUSE = frozenset(
    (
        "paused",
        "pausedUntil",
        "pausedBy",
        "pausedAt",
        "pausedWhy",
        "pausedWith",
        "pausedOver",
        "pausedBefore",
        "resumedAt",
    )
)
# What the engine says when an exception has come where none may come.
_GUARDS = ("ticker.failed", "worker.failed", "listener.failed")


class Oracle:
    """Watches one run. `violations` says what the contract forbids and what happened all the same."""

    def __init__(self, scheduler: Scheduler, timeline: Timeline, jobs: tuple[JobSpec, ...]) -> None:
        self._scheduler = scheduler
        self._timeline = timeline
        self.jobs = {job.name: History(job) for job in jobs}
        self.violations: list[str] = []
        self.said: list[Said] = []
        self._bodies: dict[int, Body] = {}
        self.steps = StepBook(self)
        # Whoever else wants to know of each run whose function is called.
        self.beginning: list[Callable[[Run, Machine], object]] = []

    def violated(self, rule: str, form: str, *values: object) -> None:
        said = f"{rule}: {form.format(*values)}"
        self.violations.append(said)
        self._timeline.say("ORACLE", "{}", said)

    # --- what the database does

    def watch(self, path: str, before: object, after: object, machine: Machine | None) -> bool:
        """A write has changed a node. Return whether it has claimed a lock."""
        if path.startswith(RUNS):
            self._wrote(path, after)
            return False
        name = path.removeprefix(LOCKS)
        if not path.startswith(LOCKS) or name not in self.jobs:
            return False
        job = self.jobs[name]
        old = before if isinstance(before, dict) else {}
        new = after if isinstance(after, dict) else {}
        # A claim whose first write was taken for lost has the same holder at its second.
        if machine is not None and any(new.get(key) not in (None, old.get(key)) for key in ("holder", "acquiredAt")):
            self._claimed(job, old, new, machine)
            return True
        self._changed(job, old, new, machine)
        return False

    def _wrote(self, path: str, entry: object) -> None:
        """An entry of the history was written."""
        _, name, key = path.split("/")
        if name in self.jobs and isinstance(entry, dict):
            said = (self._scheduler.now, entry.get("outcome"), number(entry.get("attempt")))
            self.jobs[name].written.setdefault(key, []).append(said)

    def _changed(self, job: History, old: dict[str, object], new: dict[str, object], machine: Machine | None) -> None:
        name, now = job.spec.name, self._scheduler.now
        self._note_pause(job, new)
        last = job.claims[-1] if job.claims else None
        if old and not new:
            job.deleted.append(now)
            if last is not None and machine is None:
                last.is_meddled_with = True
            if last is not None:
                last.held_until = min(last.held_until, server_time(now))
                last.is_released, last.released_at = True, now
            if machine is not None and job.spec.once_per_tick:
                self.violated("1", "{} deleted the node of {}, which has a slot", machine.name, name)
            return
        if last is None or machine is None or new.get("holder") is None:
            if last is not None and new.get("expiresAt") == 0 and old.get("expiresAt") != 0:
                job.unlocked.append(now)
                last.is_meddled_with = True
                last.held_until = min(last.held_until, server_time(now))
                last.expires = 0
            return
        # A renewal, a release, or a pause by a program: by nobody but the holder's machine, but for the pause.
        changed = {key for key in {*old, *new} if old.get(key) != new.get(key)}
        if changed <= _PAUSE:
            return
        if changed <= {"cancel", "cancelWhy"} and new.get("cancel") == last.fence:
            last.cancelled_at = now
            if last.fence not in job.unwanted and not self._is_replaced(job, last, old):
                self.violated("1", "{} cancels {} of {}, and nobody wants it to end", machine.name, last.slot, name)
            return
        if machine.name != last.machine:
            self.violated("1", "{} changed {} of {}'s record of {}", machine.name, sorted(changed), last.machine, name)
        if changed & {"slot", "fence", "attempt"}:
            self.violated("1", "{} changed {} of a record it holds", machine.name, sorted(changed))
        if old.get("releasedAt") is not None:
            self.violated("1", "{} changed {} of {} after its release", machine.name, sorted(changed), name)
        if old.get("expiresAt") == 0 and new.get("releasedAt") is None:
            self.violated("1", "{} renewed {} after an unlock: {}", machine.name, name, sorted(changed))
        if new.get("releasedAt") is not None and last.held_until < server_time(now):
            last.expired = last.expires
        last.expires = number(new.get("expiresAt"))
        if new.get("releasedAt") is not None:
            last.is_released, last.released_at = True, now
            last.outcome = str(new.get("outcome"))
            last.looked_held_until = min(last.held_until, server_time(now))
            last.held_until = last.expires
            self._succeeded(job, last, old.get("succeededSlot"), new.get("succeededSlot"), machine)
        else:
            last.held_until = last.expires + MARGIN

    def _is_replaced(self, job: History, last: Claim, old: dict[str, object]) -> bool:
        """Return whether a tick that has come may cancel this run: one of an earlier tick, and none by hand.

        A run by hand is told by its node: nothing is unfinished.
        """
        came = job.spec.slots(self._scheduler.now - 600 * SECOND, self._scheduler.now + MARGIN * MILLISECOND)
        ran = last.slot or old.get("unfinished")
        return job.spec.overlap == "cancel_previous" and ran is not None and came != [] and came[-1] > str(ran)

    def _succeeded(self, job: History, last: Claim, before: object, after: object, machine: Machine) -> None:
        """A release remembers its tick if that has succeeded and is the newest; no claim forgets it."""
        ran = last.slot or last.resumes
        is_newer = ran is not None and last.outcome == "succeeded" and ran > str(before or "")
        if job.spec.once_per_tick and after != (ran if is_newer else before):
            self.violated(
                "1", "{} released {} with the success {} after {}", machine.name, job.spec.name, after, before
            )

    def _claimed(self, job: History, old: dict[str, object], new: dict[str, object], machine: Machine) -> None:
        now, name = self._scheduler.now, job.spec.name
        slot, fence = new.get("slot"), new.get("fence")
        is_slots = new.get("unfinished") is not None and new.get("acquiredAt") is not None
        if not job.spec.once_per_tick:
            is_slots = False
        if job.spec.overlap == "allow":
            is_slots = slot != old.get("slot")
        # A run by hand carries the slot and what is unfinished over.
        is_by_hand = not is_slots or (
            slot == old.get("slot")
            and new.get("unfinished") == old.get("unfinished")
            and new.get("attempt") == old.get("attempt")
        )
        claimed = None if is_by_hand else str(new.get("unfinished") or slot)
        claim = Claim(
            name,
            machine.name,
            claimed,
            number(new.get("attempt")),
            None if fence is None else number(fence),
            now,
            number(new.get("acquiredAt")) * MILLISECOND - EPOCH,
            old,
            number(new.get("expiresAt")) + (0 if new.get("releasedAt") is not None else MARGIN),
            number(new.get("expiresAt")),
            is_released=new.get("releasedAt") is not None,
        )
        if job.spec.once_per_tick and new.get("succeededSlot") != old.get("succeededSlot"):
            self.violated("1", "{} claims {} and changes its newest success: {}", machine.name, name, _Brief(new))
        self._timeline.say("DATABASE", "{} claims {} of {}: {}", machine.name, claimed, name, _Brief(new))
        last = job.claims[-1] if job.claims else None
        was_deleted = bool(job.deleted) and (last is None or last.at < job.deleted[-1])
        if last is not None and not was_deleted:
            # By the record, and by the job's own minimum hold, whatever the record says of that.
            least = 0 if last.is_meddled_with else server_time(last.dated + int(job.spec.hold_at_least * SECOND))
            if max(last.held_until, least) > server_time(now) + 2 * MARGIN:
                self.violated("1", "{} takes {} although {} holds it", machine.name, name, last.machine)
            is_fenced = job.spec.once_per_tick and claim.fence is not None and last.fence is not None
            if is_fenced and (claim.fence or 0) <= (last.fence or 0):
                self.violated("1", "the fence of {} falls from {} to {}", name, last.fence, claim.fence)
            if job.spec.once_per_tick and str(old.get("slot") or "") > str(slot or ""):
                self.violated("1", "the slot of {} falls from {} to {}", name, old.get("slot"), slot)
        until = old.get("pausedUntil")
        if old.get("paused") and not (isinstance(until, int) and server_time(now) + MARGIN >= until):
            self.violated("2", "{} takes {} although it is paused", machine.name, name)
        if claimed is not None and not job.spec.slots(time_of(claimed), time_of(claimed)):
            self.violated("1", "{} claims {} of {}, which is no tick", machine.name, claimed, name)
        if claimed is not None and server_time(time_of(claimed)) > server_time(now) + MARGIN + 1_000:
            self.violated("1", "{} claims {} of {} too early", machine.name, claimed, name)
        was_cancelled = any(one.slot == claimed and one.cancelled_at is not None for one in job.claims)
        if claimed is not None and was_cancelled and not job.deleted:
            self.violated("2", "{} claims {} of {}, which was cancelled", machine.name, claimed, name)
        if claim.attempt > 3 and not job.may_look(claim):
            self.violated("2", "{} claims {} of {} for the {}th time", machine.name, claimed, name, claim.attempt)
        job.claims.append(claim)

    def _note_pause(self, job: History, new: dict[str, object]) -> None:
        """Note how long the job is paused by what the node says now; a machine may be a margin late to see the end."""
        now, until = self._scheduler.now, new.get("pausedUntil")
        ends = int(until + MARGIN) * MILLISECOND - EPOCH if isinstance(until, int) else None
        was_paused = bool(job.paused) and (job.paused[-1][1] is None or job.paused[-1][1] > now)
        is_paused = bool(new.get("paused")) and (ends is None or ends > now)
        begun = job.paused.pop()[0] if was_paused else now
        if is_paused or was_paused:
            job.paused.append((begun, ends if is_paused else now))

    # --- what the bodies do

    def begins(self, run: Run, machine: Machine) -> Body:
        """The function of a job is called."""
        now, job = self._scheduler.now, self.jobs[run.name]
        slot = None if run.slot is None else f"{run.slot:%Y-%m-%dT%H:%M:%SZ}"
        self._timeline.say(machine.name, "body of {} {} begins: {}", run.name, slot, run)
        again = self._bodies.get(id(run))
        if again is not None:
            again.calls += 1
            again.ended, again.is_running = None, True
            if again.calls > job.spec.retries + 1:
                self.violated("1", "{} is called {} times, with {} retries", run, again.calls, job.spec.retries)
            return again
        body = Body(run, machine.name, run.name, slot, now)
        self._bodies[id(run)] = body
        job.bodies.append(body)
        for begin in self.beginning:
            begin(run, machine)
        if not job.spec.once_per_tick:
            self._check_trigger(job, body)
            return body
        claim = next((one for one in job.claims if one.fence == run.fence and one.machine == machine.name), None)
        is_again = claim is not None and slot is not None and claim.slot in (None, claim.was_before.get("unfinished"))
        if claim is not None and is_again and slot is not None and run.trigger == "manual":
            self._resumes(job, claim, body, slot)
        elif claim is None or (claim.slot, claim.attempt if slot else run.attempt) != (slot, run.attempt):
            self.violated("1", "{} begins {} without a claim of it: {}", machine.name, run, claim)
            return body
        if claim.body is not None:
            self.violated("1", "{} begins {} again, without another claim", machine.name, run)
        claim.body = body
        # A node that an operator has deleted knows of no claim, so what is claimed after that begins anew.
        others = [
            one for one in job.bodies
            if slot is not None and one.slot == slot and one is not body and not job.deleted_between(claim, one)
        ]  # fmt: skip
        self._check_trigger(job, body)
        # A run by hand that dies leaves nothing, so the next one may have its number. `_resumes` looks at the history.
        if not body.is_resumed and any(one.run.attempt == run.attempt for one in others):
            self.violated("1", "{} begins {}, which was begun before", machine.name, run)
        if [one for one in others if not one.is_resumed] and not body.is_resumed and job.spec.on_abandoned != "rerun":
            self.violated("1", "{} begins {} again, although nothing is rerun", machine.name, run)
        return body

    def _resumes(self, job: History, claim: Claim, body: Body, slot: str) -> None:
        """A run by hand begins a tick once more: one that the history knows, and that has not succeeded."""
        claim.resumes, body.is_resumed = slot, True
        written = job.written.get(slot, [])
        if not written and claim.was_before.get("unfinished") != slot:
            self.violated("2", "{} resumes {} of {}, which the history doesn't have", body.machine, slot, body.job)
        if any(at < claim.at and outcome == "succeeded" for at, outcome, _ in written):
            self.violated("2", "{} resumes {} of {}, which has succeeded", body.machine, slot, body.job)
        if any(at < claim.at and attempt >= body.run.attempt for at, _, attempt in written):
            self.violated("2", "{} resumes {} of {} as attempt {}", body.machine, slot, body.job, body.run.attempt)
        if body.run.idempotency_key != f"{body.job}:{slot}":
            self.violated("2", "{} resumes {} with the key {}", body.machine, slot, body.run.idempotency_key)

    def looks(self, body: Body, at: int, *, is_lost: bool, is_cancelled: bool = False) -> None:
        """A body has looked at its lease: from `at` on it knew whether it was lost, or cancelled."""
        if is_cancelled and not any(one.body is body and one.cancelled_at for one in self.jobs[body.job].claims):
            self.violated("1", "{} on {} is cancelled, and nobody has asked for that", body.run, body.machine)
        if is_lost and not body.has_seen_loss:
            self._timeline.say(body.machine, "body of {} {} sees that its lease is lost", body.job, body.slot)
        if is_lost:
            body.has_seen_loss = True
        else:
            body.trusted = at

    def ends(self, body: Body, error: BaseException | None) -> None:
        """The function of a job returns, or raises."""
        if self._scheduler.is_closing:
            return
        body.ended, body.error, body.is_running = self._scheduler.now, error, False
        self._timeline.say(body.machine, "body of {} {} ends: {!r}", body.job, body.slot, error)

    def _check_trigger(self, job: History, body: Body) -> None:
        trigger, spec = body.run.trigger, job.spec
        if trigger == "catch_up" and spec.catch_up == "skip":
            self.violated("2", "{} of {} is a catch-up, although nothing is caught up", body.slot, spec.name)
        if trigger == "rerun" and spec.on_abandoned != "rerun":
            self.violated("2", "{} of {} is a rerun, although nothing is rerun", body.slot, spec.name)
        if not body.is_resumed and (trigger == "rerun") != (body.run.attempt > 1):
            self.violated("2", "{} of {} has attempt {} by {}", body.slot, spec.name, body.run.attempt, trigger)
        if body.slot is None and trigger != "manual":
            self.violated("2", "{} of {} runs by {}", body.slot, spec.name, trigger)

    # --- what instances say

    def hears(self, machine: Machine, event: Event) -> None:
        self.said.append(Said(self._scheduler.now, machine.name, event))
        if event.slug in _GUARDS:
            self.violated("4", "{} says {}: {}", machine.name, event.slug, event.message)
        why = str(event.fields.get("why", ""))
        if event.slug in ("heartbeat.failed", "history.failed", "lock.lost") and "Error(" in why:
            self.violated("4", "{} says {}: {}", machine.name, event.slug, event.message)

    def logged(self, record: logging.LogRecord) -> None:
        """Something was written to the log with a traceback that no event has."""
        if not self._scheduler.is_closing and record.levelno >= logging.ERROR and not hasattr(record, "labels"):
            self.violated("4", "the log says: {} {}", record.getMessage(), record.exc_info and record.exc_info[1])


@dataclass(frozen=True, slots=True)
class _Brief:
    node: object

    def __format__(self, form: str) -> str:
        return brief(self.node)
