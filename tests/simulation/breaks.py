"""Deliberate breaks of the engine. Each of them is found within a bounded number of seeds.

A break is a text in a source and what stands there instead, as somebody might write it by mistake. `python -m
tests.simulation --breaks` plays seeds against each one until the oracle finds it, and prints how many it took.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.simulation.loading import Patch


@dataclass(frozen=True, slots=True)
class Break:
    """What is broken, and what an oracle that looks has to find.

    `row` is a fleet of `fleets/rows.py`, by its words. Without one the fleets are those of the seeds from `first` on.
    """

    what: str
    module: str
    old: str
    new: str
    row: Mapping[str, float] = field(default_factory=dict)
    first: int = 1

    @property
    def patch(self) -> Patch:
        return Patch(f"firecron.{self.module}", self.old, self.new)


# Of nine machines six die, so one time in four all that would ask first are dead.
_FIRST_ONES_DIE: Final[Mapping[str, int]] = {"machines": 9, "die": 6, "ticks": 1}
# A tick waits for the lock of a run whose machine has most likely died.
_QUEUES: Final[Mapping[str, int]] = {"machines": 3, "die": 2, "overruns": 70, "queues": 1, "ticks": 1}
# A run takes longer than its lock lasts, and its first renewal fails.
_BLINKS: Final[Mapping[str, int]] = {"machines": 3, "overruns": 50, "blinks": 1, "ticks": 1}
# A tick that waits hears of the release just before its grace is over.
_HEARS_LATE: Final[Mapping[str, float]] = {"machines": 3, "overruns": 64.95, "queues": 1, "grace": 5, "ticks": 1}
# An operator's cancel arrives when the next tick has the lock.
_CANCELS_LATE: Final[Mapping[str, float]] = {"machines": 3, "overruns": 70, "queues": 1, "cancels": 1, "ticks": 1}
_MOST_DIE: Final[Mapping[str, int]] = {"machines": 30, "die": 29, "ticks": 1}

# Only these worlds have steps, cancelled runs, and ticks at even distances.
_RICHER: Final = 1_000_000

BREAKS = (
    # --- the record
    Break("a contender doesn't wait for the margin", "lock.record",
          "return now < self.expiresAt + (margin if self.releasedAt is None else 0)",
          "return now < self.expiresAt - 3 * margin"),
    Break("a claimed tick may be claimed again", "lock.record",
          "request.slot <= record.slot:", "request.slot < record.slot:"),
    Break("a pause is not looked at", "lock.record",
          "if is_paused(current.kept, now.server):", "if False:"),
    Break("a pause ends ten seconds early", "lock.pauses",
          "self.until is None or now < self.until", "self.until is None or now + 10_000 < self.until"),
    Break("a pause has no end", "lock.pauses",
          "self.until is None or now < self.until", "True"),
    Break("a tick may be claimed early", "lock.record",
          "to_milliseconds(request.slot) > now.server + request.margin:",
          "to_milliseconds(request.slot) > now.server + 20 * request.margin:"),
    Break("the fence doesn't rise", "lock.record",
          "max(int(record.fence or 0) + 1 if record else 0, now.server)",
          "int(record.fence or 0) if record and record.fence else now.server"),
    Break("a minimum hold is forgotten", "lock.record",
          "expires_at = max(now, int(record.acquiredAt or 0) + hold_at_least)", "expires_at = now - 60_000"),
    Break("a rerun doesn't count its attempts", "lock.record",
          '"attempt": int(record.attempt or 1) + 1}', '"attempt": int(record.attempt or 1)}'),
    Break("a release leaves the run unfinished", "lock.record",
          "unfinished = None if finished is not None and record.unfinished == finished else record.unfinished",
          "unfinished = record.unfinished"),
    Break("a release forgets an unfinished run", "lock.record",
          "unfinished = None if finished is not None and record.unfinished == finished else record.unfinished",
          "unfinished = None"),
    Break("a holder renews whatever the record says", "lock.record",
          "if record.holder != holder:", "if False:"),
    Break("an unlocked lease is renewed", "lock.record",
          "if not now.server < record.expiresAt - margin:", "if False:"),
    # --- the lease and its clock
    Break("a lease is trusted to its very end and longer", "lock.lease_term",
          "return self.reading.mono + ", "return 3_000 + self.reading.mono + "),
    Break("a lease counts from its reply", "lock.protocol",
          "Held(decision.record, decision.term, Snapshot(answer.etag, node), snapshot.node)",
          "Held(decision.record, LeaseTerm(decision.term.expires_at + 4_000, decision.term.reading), "
          "Snapshot(answer.etag, node), snapshot.node)"),
    Break("renewals stop", "lock.keeper",
          "due = min(lease.renewal_due if renews else lease.ends, limit)", "due = min(lease.ends + 60_000, limit)"),
    Break("a failed renewal ends the lease's watch", "lock.keeper",
          "kept.failures += 1", "self.forget(lease)", _BLINKS),
    Break("this machine's wall clock counts", "base.server_clock",
          "server = int(mono + estimate.offset)", "server = int(self._timing.wall())"),
    # --- claims
    Break("each try has a token of its own", "runs.runner",
          "if turn.pending is None:", "if True:"),
    Break("a claim without an answer is given up", "runs.claimer",
          'if refusal.reason in ("unavailable", "slot_early"):', 'if refusal.reason == "slot_early":'),
    Break("a tick starts however late", "runs.policy",
          "return to_milliseconds(due) + max(options.grace, _LEAST_GRACE)",
          "return to_milliseconds(due) + max(options.grace, _LEAST_GRACE) + 40_000"),
    Break("a tick that waits tries once", "runs.claimer",
          'if refusal.reason == "held" and pending.job.options.waits:', "if False:", _QUEUES),
    Break("an older tick is claimed", "runs.claimer",
          "pending.asked[answer.term.reading.server]", "next(iter(pending.asked.values()))"),
    Break("the last try of a tick does not wait for its reply", "runs.claimer",
          "within=max(left, self._request_timeout)", "within=left", _HEARS_LATE),
    # --- tickets
    Break("ranks are far too high", "base.tickets",
          "wave_of(size * self.distance,", "wave_of(100 * size * self.distance,"),
    Break("only the first wave asks", "base.tickets",
          "offset in _WAVES if", "offset in _WAVES[:1] if", _FIRST_ONES_DIE),
    Break("a later wave comes far too late", "base.tickets",
          "(2, 1_000.0), (4, 4_000.0))", "(2, 14_000.0), (4, 24_000.0))", _FIRST_ONES_DIE),
    Break("an open tick is not judged again at a beat", "scheduler.waves",
          "        for one in waiting:\n            self._judge(one)", "        del waiting", _MOST_DIE),
    # --- what was left behind
    Break("nobody looks for died runs", "runs.policy",
          "return is_abandoned and may_rerun(options, int(record.attempt or 1))", "return False"),
    Break("a run is begun again without end", "runs.policy",
          "return options.reruns and attempt < MOST_CLAIMS", "return options.reruns"),
    Break("missed ticks are dropped", "runs.policy",
          "    for span in reversed(free(record, end)):", "    for span in reversed(free(record, end)[:0]):"),
    Break("what overlap skipped is caught up", "runs.missing",
          "(record.expiresAt, record.releasedAt, record.acquiredAt))", "(record.acquiredAt,))"),
    Break("the bookkeeper is silent", "runs.policy",
          "return [unrun(slot, outcome) for slot in slots]", "return []"),
    Break("an abandoned run has no entry", "runs.policy",
          "if record.unfinished is not None and not claim.is_rerun:", "if False:"),
    Break("an entry replaces any other", "runs.entry",
          "return ours > theirs if is_ours else ours >= theirs", "return True"),
    # --- threads
    Break("a run that has ended keeps its place", "runs.lanes",
          "            lane.running.discard(turn)\n            if goes_on", "            if goes_on"),
    Break("a tick that comes behind a run waits for a worker", "scheduler.engine",
          "self.lanes.line_up(self.runner", "self.submit(self.runner"),
    Break("a tick that waits for a worker forgets the lock", "runs.turn",
          "now - self.came > margin", "False"),
    Break("two turns of a job try at a time", "runs.lanes",
          'is_its_turn = lane.current is turn and lane.state != "trying"', "is_its_turn = True"),
    Break(
        "news doesn't wake the ticker",
        "scheduler.ticker",
        "        self.has_news = True\n        self._changed.notify_all()",
        "        self.has_news = True",
    ),
    Break("a worker's wake-up is lost", "base.workers",
          "            self.changed.notify()\n", ""),
    Break("a stop waits for nobody", "scheduler.engine",
          "        self.heartbeat.leave()\n", ""),
    Break("a claim forgets the newest success", "lock.record",
          '        "succeededSlot": record.succeededSlot if record else None,\n', ""),
    Break("a failure counts as a success", "lock.record",
          'if finished and outcome == "succeeded" else', "if finished else"),
    Break("a run that a stop ended counts as finished", "runs.execution",
          'is_finished = ending.outcome in ("succeeded", "failed", "cancelled")',
          'is_finished = ending.outcome in ("succeeded", "failed", "cancelled", "interrupted")'),
    Break("a failing run is called again once too often", "runs.execution",
          "tries >= self._job.options.retries", "tries > self._job.options.retries"),
    Break("max_runtime is not looked at", "lock.keeper",
          "limit = math.inf if limit is None else limit", "limit = math.inf"),
    Break("a job that is paused here runs", "jobs.registry",
          " and job.name not in self._paused", ""),
    Break("the outcome is the body's, whatever the release says", "runs.execution",
          'outcome = "lost" if lease.was_lost else outcome', 'outcome = "succeeded" if outcome == "lost" else outcome'),
    Break("a catch-up claims its own tick first", "runs.policy",
          "        if late:", "        if late and due is None:"),
    # --- steps, cancelled runs, even distances
    Break("a recorded step is called again", "runs.steps.protocol",
          "if step.record is not None and step.record.is_done:", "if False:", first=_RICHER),
    Break("a zombie's result is taken for one's own", "lock.step_record",
          "if found is None or found.fence < own.fence:", "if found is None:", first=_RICHER),
    Break("a step in doubt is called", "runs.steps.protocol",
          "if step.in_doubt and not step.may_retry:", "if False:", first=_RICHER),
    Break("all ticks share their steps", "runs.execution",
          "self._locks.paths.steps_of(job.name, key)", 'self._locks.paths.steps_of(job.name, "once")', first=_RICHER),
    Break("a cancelled run is run again", "lock.record",
          "return None if self.is_cancelled else self.unfinished", "return self.unfinished", first=_RICHER),
    Break("the holder doesn't hear of a cancel", "lock.lease",
          "if self._fence is not None and self._held.record.is_cancelled:", "if False:", first=_RICHER),
    Break("a cancel comes to whoever holds the lock", "lock.protocol",
          "cancelled(snapshot.node, holder, fence, now.server, why)",
          "cancelled(snapshot.node, *((snapshot.node or {}).get(key) for key in ('holder', 'fence')), now.server, why)",
          _CANCELS_LATE),
    Break("ticks at even distances count from a start", "cron.cadence",
          "return self.starting + ((instant - self.starting) // self.every + 1) * self.every",
          "return instant + self.every", first=_RICHER),
)  # fmt: skip
