"""The history of a run, against what really happened: each tick's entry is true, is there, and is the only one."""

from __future__ import annotations

from collections.abc import Mapping

from tests.simulation.fleets.bodies import Failure
from tests.simulation.fleets.cancels import was_cancelled
from tests.simulation.fleets.database import Database
from tests.simulation.fleets.happened import Body, Claim, History
from tests.simulation.fleets.instance import Instance
from tests.simulation.fleets.oracle import Oracle
from tests.simulation.fleets.times import time_of
from tests.simulation.machines import SECOND

# How long after a run, or a claim, its entry may still be on its way.
_SOON = 15 * SECOND
_NOT_IN_TIME = "did not end in time"
_TOLD = ("run.missed", "run.skipped", "run.coalesced")


def check_history(oracle: Oracle, job: History, instances: Mapping[str, Instance], database: Database) -> None:
    """Add what the history of a job says wrongly, or does not say."""
    if not job.spec.once_per_tick:
        return
    name = job.spec.name
    node = database.store.get(f"cron-runs/{name}")
    entries = {str(key): entry for key, entry in node.items()} if isinstance(node, dict) else {}
    annals = _Annals(oracle, job, instances)
    for key, entry in entries.items():
        if (wrong := annals.wrong_of(key, entry)) is not None:
            oracle.violated("2", "the history of {} says of {} {}: {}", name, key, entry, wrong)
    for body in job.bodies:
        if body.slot is not None and annals.must_be_there(body) and body.slot not in entries:
            oracle.violated("2", "the history of {} lacks the run {}", name, body.run)
    if not job.deleted:
        counted = {key: entry for key, entry in entries.items() if entry.get("count", 1) > 1}
        for claim in job.claims:
            if not counted and annals.keeps_books(claim):
                for slot in annals.passed_over(claim):
                    if slot not in entries:
                        oracle.violated(
                            "2", "the history of {} does not say what became of {}, which {} passed over",
                            name, slot, claim.machine,
                        )  # fmt: skip
    annals.check_events()
    annals.check_first(entries)


class _Annals:
    """One job's history."""

    def __init__(self, oracle: Oracle, job: History, instances: Mapping[str, Instance]) -> None:
        self._oracle = oracle
        self._job = job
        self._instances = instances
        self._bodies: dict[str, list[Body]] = {}
        for body in job.bodies:
            if body.slot is not None:
                self._bodies.setdefault(body.slot, []).append(body)
        self._unwritten = {
            (said.machine, said.event.fields.get("key"))
            for said in oracle.said
            if said.event.slug == "history.failed" and said.event.name == job.spec.name
        }

    def wrong_of(self, key: str, entry: dict[str, object]) -> str | None:
        """Return what is wrong with an entry; None if it is true."""
        if "-manual-" in key:
            return None
        bodies = self._bodies.get(key, [])
        claims = [claim for claim in self._job.claims if claim.slot == key]
        outcome, attempt = entry.get("outcome"), entry.get("attempt")
        if outcome in ("missed", "skipped"):
            written = [body for body in bodies if self.must_be_there(body)]
            return f"{written[0].run} ran on {written[0].machine}" if written and not self._job.deleted else None
        if outcome == "abandoned" or (outcome == "cancelled" and "recordedBy" in entry):
            of_it = [claim for claim in claims if claim.attempt == attempt]
            if not of_it:
                return "there was no such claim"
            if outcome == "cancelled" and of_it[-1].cancelled_at is None:
                return "nobody has cancelled it"
            own = [body for body in bodies if body.run.attempt == attempt and self.must_be_there(body)]
            if own:
                return f"{own[-1].run} ended on {own[-1].machine}, whose own entry has to stand here"
            if of_it[-1].outcome in ("succeeded", "failed") and not self._job.deleted:
                return f"its run {of_it[-1].outcome}"
            return None
        # More than one only if a node was deleted: nothing raises the fence of a claim in the same millisecond.
        own = [one for one in bodies if one.run.attempt == attempt and one.run.fence == entry.get("fence")]
        if not own:
            claim = next((one for one in claims if one.fence == entry.get("fence")), None)
            # A claim whose body never began, because its lease was lost or the instance stopped before.
            is_known = outcome in ("lost", "interrupted") or (claim is not None and was_cancelled(claim, outcome))
            return None if claim is not None and is_known else "there was no such run"
        found = [self._wrong_outcome(body, str(outcome)) for body in own]
        return None if None in found else found[0]

    def _wrong_outcome(self, body: Body, outcome: str) -> str | None:
        own = "succeeded" if body.error is None else "failed" if isinstance(body.error, Failure) else "cut short"
        if outcome in ("succeeded", "failed"):
            return None if own == outcome else f"its body {own}: {body.error!r}"
        if outcome == "interrupted":
            instance = self._instances[body.machine]
            stops = instance.stopping_from is not None or instance.stopped
            return None if stops and own != "succeeded" else f"its body {own}, and the instance goes on"
        claim = next((one for one in self._job.claims if one.body is body), None)
        if outcome == "cancelled":
            is_told = claim is not None and was_cancelled(claim, outcome)
            ended_well = body.ended is not None and body.error is None
            return None if is_told and not ended_well else f"its body {own}, or nobody has cancelled it"
        # A release whose reply was lost may be found out too late to count.
        is_sure = body.ended is not None and self._goes_on(body.machine, body.begun, body.ended + _SOON)
        if outcome == "lost" and is_sure and claim is not None and claim.outcome in ("succeeded", "failed"):
            return f"its lease was released in good order: {claim.outcome}"
        return None

    def must_be_there(self, body: Body) -> bool:
        """Return whether the entry of a run must have been written: its machine lived on, and had no trouble."""
        if body.is_running or body.ended is None or (body.machine, body.slot) in self._unwritten:
            return False
        return self._goes_on(body.machine, body.begun, body.ended + _SOON)

    def keeps_books(self, claim: Claim) -> bool:
        """Return whether the entries that a claim's winner has to write must have been written."""
        is_silent = any(machine == claim.machine for machine, _ in self._unwritten)
        # A claim whose winner never heard of it has nobody who keeps its books.
        return not is_silent and claim.body is not None and self._goes_on(claim.machine, claim.at, claim.at + _SOON)

    def _goes_on(self, machine: str, start: int, end: int) -> bool:
        instance = self._instances[machine]
        return (
            not instance.has_gone(end)
            and not any(since <= end and until >= start for since, until in instance.away)
            and not any(since <= end and until >= start for since, until in instance.wire.troubles)
        )

    def passed_over(self, claim: Claim) -> list[str]:
        """Return the slots whose entries a claim's winner has to write: passed over, or cut short."""
        before, unfinished = claim.was_before.get("slot"), claim.was_before.get("unfinished")
        cut_short = [unfinished] if isinstance(unfinished, str) and unfinished != claim.slot else []
        if not isinstance(before, str) or claim.slot is None or claim.slot <= before:
            return []
        return [*cut_short, *self._job.spec.slots(time_of(before) + 1, time_of(claim.slot) - 1)]

    def check_first(self, entries: Mapping[str, object]) -> None:
        """A tick that came before any that ran is told by each machine that had the job then.

        No record shows it, so the history doesn't have it.
        """
        job, spec = self._job, self._job.spec
        first = min((time_of(claim.slot) for claim in job.claims if claim.slot is not None), default=0)
        since = [one.ticking_from for one in self._instances.values() if one.ticking_from is not None]
        if job.paused or job.deleted or not since:
            return
        for slot in spec.slots(min(since), first - 1):
            time = time_of(slot)
            for instance in self._instances.values() if slot not in entries else ():
                begun, answered = instance.ticking_from, instance.wire.first_answer
                if begun is None or begun > time - SECOND or answered is None or spec not in instance.jobs:
                    continue
                told = max(time + int(spec.starts_within * SECOND), answered) + _SOON
                spans = [*instance.away, *instance.absent(spec.name), *instance.paused_here(spec.name)]
                was_away = any(start <= told and end >= time for start, end in spans)
                if (
                    not was_away
                    and self._goes_on(instance.name, told - _SOON // 2, told)
                    and not self._tells(instance, slot)
                ):
                    self._oracle.violated("2", "{} says nothing of {} of {}", instance.name, slot, spec.name)

    def _tells(self, instance: Instance, slot: str) -> bool:
        """Return whether a machine said what became of a tick: also that it goes on with a later one."""
        own = (
            one for one in self._oracle.said if one.machine == instance.name and one.event.name == self._job.spec.name
        )
        return any(
            (said.event.slug == "lock.refused" and said.at >= time_of(slot) - SECOND)
            or (said.event.slug in _TOLD and str(said.event.fields.get("slot", "")) >= slot)
            for said in own
        )

    def check_events(self) -> None:
        """No instance says of a tick that it left the tick out, and runs it all the same.

        Nor that the run before did not end in time for it, where another instance has begun it long since.
        """
        for said in self._oracle.said:
            event = said.event
            if event.slug not in ("run.missed", "run.skipped") or event.name != self._job.spec.name:
                continue
            instance = self._instances[said.machine]
            # What an operator has deleted since, nobody finds.
            if (
                _NOT_IN_TIME in event.message
                and not self._job.deleted
                and self._goes_on(said.machine, said.at - _SOON, said.at)
            ):
                for claim in self._job.claims:
                    if claim.slot == event.fields.get("slot") and claim.at < said.at - 2 * SECOND:
                        self._oracle.violated(
                            "2", "{} says {} of {}, which {} has claimed",
                            said.machine, event.slug, claim.slot, claim.machine,
                        )  # fmt: skip
            anew = [*instance.stopped, *instance.absent(self._job.spec.name)]
            for body in self._bodies.get(str(event.fields.get("slot")), []):
                if body.machine != said.machine or body.run.trigger != "schedule":
                    continue
                # What starts again, or has the job again, knows nothing of what was said before.
                if not any(start <= body.begun and end >= said.at for start, end in anew):
                    self._oracle.violated(
                        "2", "{} says {} of {}, and runs it: {}", said.machine, event.slug, body.slot, body.run
                    )
