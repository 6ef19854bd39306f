"""What the oracle finds at the end of a run, by the contract.

    1. No two bodies both trusted their lease.
    2. No tick was left out without a reason that the world really had. What was to be caught up or run again was.
    3. Nothing is left over when the programs have ended, and nothing hangs.

`annals` has the rest of the second rule: what the history says. `costs` has the fifth.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.simulation.fleets.annals import check_history
from tests.simulation.fleets.bodies import Failure
from tests.simulation.fleets.cancels import check_cancelled, check_replaced
from tests.simulation.fleets.costs import check_costs, check_watches
from tests.simulation.fleets.database import Database
from tests.simulation.fleets.happened import Body, Claim, History
from tests.simulation.fleets.instance import Instance
from tests.simulation.fleets.oracle import Oracle
from tests.simulation.fleets.reasons import Reasons, held
from tests.simulation.fleets.scenario import Scenario
from tests.simulation.fleets.timeline import at
from tests.simulation.fleets.times import time_of
from tests.simulation.machines import MILLISECOND, SECOND
from tests.simulation.stand_ins import EPOCH

# A lock_ttl in whose second half a renewal is tried again and again, whatever the database asks to wait.
_MANY_TRIES = 30.0


def judge(oracle: Oracle, scenario: Scenario, instances: Mapping[str, Instance], database: Database) -> None:
    """Add to the oracle's violations what is wrong as a whole."""
    for job in oracle.jobs.values():
        _check_trust(oracle, job)
        _check_own_ends(oracle, scenario, job, instances)
        _check_late(oracle, scenario, job, instances)
        _check_overlap(oracle, scenario, job, instances)
        reasons = Reasons(scenario, job, instances, oracle)
        _check_ticks(oracle, scenario, job, reasons)
        _check_caught_up(oracle, scenario, job, reasons)
        _check_rerun(oracle, scenario, job)
        _check_quiet(oracle, scenario, job)
        _check_renewed(oracle, job, instances)
        check_history(oracle, job, instances, database)
        check_costs(oracle, scenario, job, instances)
        check_cancelled(oracle, scenario, job, instances)
        check_replaced(oracle, scenario, job, reasons)
        oracle.steps.check(job, database)
    for instance in instances.values():
        check_watches(oracle, scenario, instance)
        _check_beats(oracle, scenario, instance, database)
        _check_left_over(oracle, instance)


def _check_trust(oracle: Oracle, job: History) -> None:
    """No two bodies both trusted their lease at one time: a body that trusts it at a look has done so all along."""
    if job.spec.overlap == "allow":
        return
    believers = sorted((body for body in job.bodies if body.trusted is not None), key=lambda body: body.begun)
    for number, body in enumerate(believers):
        for later in believers[number + 1 :]:
            assert body.trusted is not None
            is_both = later.begun < body.trusted
            since = min(job.claimed_at(body), job.claimed_at(later))
            if is_both and not any(since <= time <= body.trusted for time in job.deleted + job.unlocked):
                oracle.violated(
                    "1", "{} on {} and {} on {} both trust their lease of {} at {}",
                    body.run, body.machine, later.run, later.machine, job.spec.name, at(later.begun),
                )  # fmt: skip


def _check_own_ends(oracle: Oracle, scenario: Scenario, job: History, instances: Mapping[str, Instance]) -> None:
    """No body trusts its lease for longer than max_runtime, and none is begun where the program has paused the job."""
    under_way = SECOND + 10 * scenario.latency[1] + 4 * scenario.temper.longest
    for claim in job.claims:
        trusted = None if claim.body is None else claim.body.trusted
        # The keeper ends the lease, after the renewal that is under way, and once it runs again. It rests once its
        # program has stopped: then a lease expires, and a run without a lease goes on as long as the process.
        begun = claim.at if claim.body is None else claim.body.begun
        machine, limit = instances[claim.machine], begun + int((job.spec.max_runtime + 4) * SECOND)
        was_frozen = any(start <= (trusted or 0) and end >= claim.at for start, end in machine.away)
        expires = max(claim.expires * MILLISECOND - EPOCH, claim.released_at or 0)
        has_stopped = (
            machine.stopping_from is not None
            and machine.stopping_from < limit
            and (job.spec.overlap == "allow" or (trusted or 0) <= expires)
        )
        if trusted is not None and not was_frozen and not has_stopped and trusted > limit:
            oracle.violated("1", "{} still trusts its lease after max_runtime", claim.body and claim.body.run)
        is_by_itself = claim.body is not None and claim.body.run.trigger != "manual"
        # Who runs a tick by hand first runs what was cut short or missed before it (seed 394).
        by_hand = machine.ran_by_hand.get(job.spec.name, [])
        if is_by_itself and claim.body is not None and claim.body.run.trigger in ("rerun", "catch_up"):
            is_by_itself = not any(start <= claim.at <= end for start, end in by_hand)
        for start, end in [*machine.paused_here(job.spec.name), *machine.absent(job.spec.name)]:
            # A try that is under way goes on, and in trouble for as long as its request.
            spans = [*machine.away, *machine.wire.troubles]
            is_troubled = any(since <= claim.at and until >= start for since, until in spans)
            goes_on = 15 * SECOND if is_troubled else under_way
            if is_by_itself and start + goes_on < claim.at < end - 2 * SECOND:
                oracle.violated("2", "{} claims {} of {}, not to run there", claim.machine, claim.slot, job.spec.name)


def _check_late(oracle: Oracle, scenario: Scenario, job: History, instances: Mapping[str, Instance]) -> None:
    """No tick is claimed for its own time after its grace, but by a request that was on its way for long."""
    slack = SECOND + 4 * scenario.latency[1] + 4 * scenario.temper.longest
    for claim in job.claims:
        if claim.body is None or claim.slot is None or claim.body.run.trigger != "schedule":
            continue
        time, instance = time_of(claim.slot), instances[claim.machine]
        is_late = claim.at > time + int(job.spec.starts_within * SECOND) + slack
        spans = [*instance.away, *instance.wire.troubles]
        if is_late and not any(start <= claim.at + SECOND and end >= time for start, end in spans):
            oracle.violated("2", "{} claims {} of {} after its grace", claim.machine, claim.slot, job.spec.name)


def _check_overlap(oracle: Oracle, scenario: Scenario, job: History, instances: Mapping[str, Instance]) -> None:
    """With overlap="skip" no tick is run late that came while the job ran, even if no worker was free to ask for it."""
    slack = int((job.spec.jitter + 1) * SECOND) + 4 * scenario.temper.longest
    # Who asks within a margin may find the lock free when the answer has come (seed 4695).
    heard = slack + 2 * scenario.latency[1]
    if job.spec.overlap != "skip":
        return
    for body in job.bodies:
        if body.slot is None or body.run.trigger != "schedule":
            continue
        time, instance = time_of(body.slot), instances[body.machine]
        ran = (one for one in job.bodies if one.machine == body.machine and one is not body and one.ended is not None)
        was_frozen = any(start <= body.begun and end >= time for start, end in instance.away)
        if was_frozen:
            continue
        if any(one.begun < time - slack and (one.ended or 0) > time + slack for one in ran):
            oracle.violated("2", "{} runs {} of {}, which ran there then", body.machine, body.slot, job.spec.name)
        # Who asks at once and gets no answer asks again, and runs the tick.
        was_troubled = any(start <= body.begun and end >= time for start, end in instance.wire.troubles)
        for claim in job.claims if job.spec.once_per_tick and not was_troubled else ():
            # A turn that finds a claim of its machine's own whose reply was lost runs both ticks (seed 31196).
            was_in_doubt = claim.machine == body.machine and claim.body is not None and claim.body.begun >= time
            is_before = claim.at < time - slack and claim.body is not body and not was_in_doubt
            # An operator who deletes the node deletes what it says of that (the pair of seed 483).
            is_known = _was_held_after(claim, time + heard) and not job.deleted_between(claim, body)
            if is_before and is_known:
                oracle.violated(
                    "2", "{} runs {} of {}, although {} held the lock then",
                    body.machine, body.slot, job.spec.name, claim.machine,
                )  # fmt: skip


def _was_held_after(claim: Claim, time: int) -> bool:
    """Whether a lock was held until after a time, by its record and by whoever asked."""
    return claim.is_released and not claim.is_meddled_with and claim.held_until * MILLISECOND - EPOCH > time


def _check_ticks(oracle: Oracle, scenario: Scenario, job: History, reasons: Reasons) -> None:
    """Each tick was claimed in time, or there was a reason why not. Each claim of a machine that lived on was begun."""
    begun: dict[str | None, int] = {}
    bodies = [(one.slot, one.begun) for one in job.bodies if not one.is_resumed]
    for slot, when in bodies + [(one.slot, one.at) for one in job.claims]:
        begun[slot] = min(when, begun.get(slot, when))
    for slot in job.spec.slots(scenario.begins, scenario.ends):
        able = reasons.able(slot, begun.get(slot))
        if able is not None:
            is_late = slot in begun
            oracle.violated(
                "2",
                "nobody ran {} of {}{}, although {} could have at {}",
                slot,
                job.spec.name,
                " until " + at(begun[slot]) if is_late else "",
                able[0],
                at(able[1]),
            )

    if not job.spec.once_per_tick:
        return
    for claim in job.claims:
        if claim.body is None and not job.may_look(claim) and reasons.must_begin(claim):
            oracle.violated("2", "{} claimed {} of {} and never began it", claim.machine, claim.slot, job.spec.name)


def _check_caught_up(oracle: Oracle, scenario: Scenario, job: History, reasons: Reasons) -> None:
    """With catch_up="all" each tick at which the lock was free was run; what overlap skipped was not."""
    spec = job.spec
    # What was claimed was not missed, though it may have been cut short.
    begun = {body.slot for body in job.bodies} | {claim.slot for claim in job.claims}
    for body in job.bodies:
        if body.run.trigger == "catch_up" and body.slot is not None and not job.deleted:
            time = time_of(body.slot)
            holder = held(job, time, time)
            if holder is not None and holder.at < time - SECOND and not holder.is_meddled_with:
                left = holder.slot is not None and holder.slot >= body.slot
                if not left and _holds_for_sure(holder, time):
                    oracle.violated(
                        "2", "{} of {} is caught up, although the lock was held then by {}",
                        body.slot, spec.name, holder.machine,
                    )  # fmt: skip
    for claim in job.claims:
        late = claim.body is not None and claim.body.run.trigger == "catch_up" and claim.slot is not None
        if late and claim.dated - time_of(str(claim.slot)) > int((spec.catch_up_window + 1) * SECOND):
            oracle.violated("2", "{} of {} is caught up, which is older than the window", claim.slot, spec.name)
    # How long each of them keeps the lock from the next one.
    lasts = max(spec.work.most * (spec.retries + 1), spec.hold_at_least)
    if spec.catch_up != "all" or job.deleted or lasts > 0.2 * spec.period or reasons.may_starve():
        return
    first = next((claim for claim in job.claims if claim.slot is not None), None)
    if first is None or first.slot is None:
        return
    # No record, no catch-up: what came before the first claim, and after its tick, is left out, too (seed 1007113).
    since = max(time_of(first.slot) + 1, first.at)
    unrun = [
        slot
        for slot in spec.slots(since, scenario.fair_from)
        if slot not in begun and held(job, time_of(slot) - SECOND, time_of(slot) + SECOND) is None
    ]
    if any(claim.is_meddled_with for claim in job.claims):
        return
    # What is caught up before it, oldest first, takes a part of the window.
    nearly = int(spec.catch_up_window / 2 * SECOND)
    for slot in unrun:
        later = [claim for claim in job.claims if claim.at > time_of(slot)]
        comes = min((claim.at for claim in later), default=0)
        # A claim that its sender never heard of may keep the others out for longer than the window (seed 2003167).
        is_unheard = any(claim.body is None and claim.at < time_of(slot) + 2 * nearly for claim in later)
        if comes > time_of(slot) + nearly or (is_unheard and spec.catch_up_window < 86_400):
            continue
        oracle.violated("2", "{} of {} was never caught up, and the lock was free then", slot, spec.name)


def _holds_for_sure(claim: Claim, time: int) -> bool:
    """Whether the lock was held at a time by a holder that let go of it later by itself, and not by expiry."""
    return claim.released_at is not None and claim.released_at > time + SECOND


def _check_rerun(oracle: Oracle, scenario: Scenario, job: History) -> None:
    """With on_abandoned="rerun" each run that was cut short was begun again, up to three claims."""
    spec = job.spec
    if spec.on_abandoned != "rerun" or job.deleted:
        return
    bodies: dict[str, list[Body]] = {}
    for body in job.bodies:
        if body.slot is not None:
            bodies.setdefault(body.slot, []).append(body)
    for claim in job.claims:
        if claim.slot is None or claim.at > scenario.fair_from or claim.attempt >= 3:
            continue
        claims = [one for one in job.claims if one.slot == claim.slot]
        is_last = claims[-1] is claim and claim.cancelled_at is None
        is_last = is_last and not any(one.resumes == claim.slot for one in job.claims)
        if is_last and not _has_finished(claim) and not _is_over(job, claim):
            oracle.violated(
                "2", "{} of {} on {} was cut short at attempt {}, and never run again",
                claim.slot, spec.name, claim.machine, claim.attempt,
            )  # fmt: skip


def _has_finished(claim: Claim) -> bool:
    """Return whether the run came to its own end. With its lease lost, it may have done so all the same."""
    body = claim.body
    came_to_its_end = body is not None and body.ended is not None and isinstance(body.error, Failure | None)
    return claim.outcome in ("succeeded", "failed") or (claim.is_released and came_to_its_end)


def _is_over(job: History, claim: Claim) -> bool:
    """Whether the job's own options have ended the run: a run that they end is not run again."""
    return not job.spec.renew or job.spec.max_runtime < 3_600


def _check_quiet(oracle: Oracle, scenario: Scenario, job: History) -> None:
    """Once nothing goes wrong any more, each claim is released, with a word for how its run ended."""
    spec = job.spec
    lasts = int((spec.work.most + 3.0) * (spec.retries + 1) + 10) * SECOND
    settled = scenario.fair_from + int(spec.lock_ttl + 5) * SECOND
    for claim in job.claims:
        if settled < claim.at < scenario.ends - lasts and spec.renew and spec.max_runtime >= 3_600:
            if not claim.is_released:
                oracle.violated("3", "{} never released {} of {}", claim.machine, claim.slot, spec.name)
            elif claim.outcome is None and not job.may_look(claim) and spec.overlap != "allow" and spec.once_per_tick:
                oracle.violated("3", "{} released {} of {} without outcome", claim.machine, claim.slot, spec.name)


def _check_renewed(oracle: Oracle, job: History, instances: Mapping[str, Instance]) -> None:
    """A lease does not end while its run goes on, if nothing kept its machine from renewing it for long enough."""
    spec = job.spec
    if not spec.renew or spec.overlap == "allow" or spec.max_runtime < 3_600 or spec.lock_ttl < _MANY_TRIES:
        return
    for claim in job.claims:
        expires = claim.expires if claim.expired is None else claim.expired
        end, instance = expires * MILLISECOND - EPOCH, instances[claim.machine]
        since, until = end - int(spec.lock_ttl / 2 * SECOND), end + SECOND
        went_on = claim.body is not None and (claim.body.ended is None or claim.body.ended >= until)
        is_over = claim.is_released and claim.expired is None
        if not went_on or is_over or claim.is_meddled_with or instance.has_gone(until):
            continue
        # A renewal that was written, and not answered, leaves the machine with the end before it (seed 1001994).
        written = end - int(spec.lock_ttl * SECOND)
        spans = [*instance.away, *instance.wire.troubles]
        kept = [(since, until), (written - SECOND, written + SECOND)]
        if not any(start <= last and stop >= first for start, stop in spans for first, last in kept):
            oracle.violated("3", "{} let its lease of {} end while it ran {}", claim.machine, spec.name, claim.slot)


def _check_beats(oracle: Oracle, scenario: Scenario, instance: Instance, database: Database) -> None:
    """A machine that is well shows it: as the fleet was told to stop, its last beat was not two heartbeats old."""
    ends, heartbeat = scenario.ends, float(str(scenario.settings["heartbeat"]))
    since = ends - int(2.5 * heartbeat * SECOND)
    spans = [*instance.away, *instance.wire.troubles]
    began = instance.ticking_from
    if began is None or began > since or instance.has_gone(ends) or any(end >= since for _, end in spans):
        return
    beats = [beat for beat in instance.wire.beats if beat <= ends]
    if not beats or beats[-1] < ends - int((2 * heartbeat + 2) * SECOND):
        oracle.violated("3", "{} beats no more: its last one was at {}", instance.name, beats and at(beats[-1]))


def _check_left_over(oracle: Oracle, instance: Instance) -> None:
    """A program that was told to end has ended, with all its threads, turns and leases."""
    if instance.machine.state != "alive" or instance.crons is None:
        return
    if not instance.has_ended:
        oracle.violated("3", "the program of {} does not end: {}", instance.name, _names(instance))
    elif instance.left:
        oracle.violated("3", "on {} is left over: {}", instance.name, ", ".join(instance.left))


def _names(instance: Instance) -> list[str]:
    return [thread.name for thread in instance.machine.alive()]
