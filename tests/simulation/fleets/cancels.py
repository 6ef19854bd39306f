"""Runs that an operator or a later tick has cancelled: they end soon, if they look.

With `overlap="cancel_previous"` each tick that finds the run of an earlier one cancels it, wherever that runs. `oracle`
has the rest: what was cancelled is not claimed again, and nobody else's run is cancelled by it.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.simulation.fleets.happened import Claim, History
from tests.simulation.fleets.instance import Instance
from tests.simulation.fleets.oracle import Oracle
from tests.simulation.fleets.reasons import ASKS_UNTOLD, Reasons
from tests.simulation.fleets.scenario import Scenario
from tests.simulation.fleets.steps import STEPS
from tests.simulation.fleets.timeline import at
from tests.simulation.fleets.times import time_of
from tests.simulation.machines import MILLISECOND, SECOND
from tests.simulation.stand_ins import EPOCH


def was_cancelled(claim: Claim, outcome: object) -> bool:
    """Return whether somebody has cancelled the claim, so that this may be its outcome."""
    return outcome == "cancelled" and claim.cancelled_at is not None


def check_cancelled(oracle: Oracle, scenario: Scenario, job: History, instances: Mapping[str, Instance]) -> None:
    """A body that looks ends within a renewal and its own next look, if its machine and its way are well."""
    work = job.spec.work
    if work.manner not in ("checks", "async") and not work.recorded:
        return
    # An async body is cancelled where it waits. A recorded step is not left: it is called to its end, and recorded.
    step = work.most / (work.recorded or work.steps)
    looks = int((job.spec.lock_ttl / 3 + step + 2.0) * SECOND) + 12 * scenario.latency[1] + 4 * scenario.temper.longest
    for claim in job.claims:
        body, since = claim.body, claim.cancelled_at
        if body is None or since is None:
            continue
        since = max(since, body.begun)
        ends, instance = since + looks, instances[claim.machine]
        spans = [*instance.away, *instance.wire.troubles]
        # The record of a step is written again as late as the database asks for, and a cancel waits for it
        # (seed 1002309).
        steps = f"{STEPS}{job.spec.name}/"
        spans += [(start, until) for path, start, until in instance.wire.told_to_wait if path.startswith(steps)]
        if instance.has_gone(ends) or any(start <= ends and until >= since for start, until in spans):
            continue
        if ends < scenario.ends and not claim.is_meddled_with and (body.ended or scenario.ends) > ends:
            oracle.violated("3", "{} goes on with {}, cancelled at {}", claim.machine, body.run, at(since))


def check_replaced(oracle: Oracle, scenario: Scenario, job: History, reasons: Reasons) -> None:
    """A run of a tick that goes on when the next tick comes is cancelled, if a machine is there to do it."""
    if job.spec.overlap != "cancel_previous":
        return
    for claim in job.claims:
        if claim.slot is None or claim.is_meddled_with:
            continue
        for slot in job.spec.slots(time_of(claim.slot) + 1, scenario.ends):
            time = time_of(slot)
            until = time + reasons.needs + ASKS_UNTOLD
            ended = claim.released_at or claim.held_until * MILLISECOND - EPOCH
            # With another tick on its way at the same time it is not known which of the two finds the run.
            if ended <= until or until >= scenario.ends:
                break
            is_told = claim.cancelled_at is not None and claim.cancelled_at <= until
            if claim.at < time - SECOND and not is_told and (machine := reasons.sees(time, until)) is not None:
                oracle.violated(
                    "2", "{} of {} comes, and {} does not cancel the run of {} on {}",
                    slot, job.spec.name, machine, claim.slot, claim.machine,
                )  # fmt: skip
                break
