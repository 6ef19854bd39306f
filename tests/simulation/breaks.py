"""Deliberate breaks of the engine. Each of them is found within a bounded number of seeds.

A break is a text in a source and what stands there instead, as somebody might write it by mistake. `python -m
tests.simulation --breaks` plays seeds against each one until the oracle finds it, and prints how many it took.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.simulation.loading import Patch
from tests.simulation.seeds import ENTRIES as _ENTRIES
from tests.simulation.seeds import HELD as _HELD
from tests.simulation.seeds import REIGNS as _REIGNS
from tests.simulation.seeds import RICHER as _RICHER
from tests.simulation.seeds import seeds_of


@dataclass(frozen=True, slots=True)
class Break:
    """What is broken, and what an oracle that looks has to find.

    `row` is a fleet of `fleets/rows.py`, by its words. Without one the fleets are those of the seeds from `first`
    on, of all or of a `world` of the wider ones.
    """

    what: str
    module: str
    old: str
    new: str
    row: Mapping[str, float] = field(default_factory=dict)
    first: int = 1
    world: str = ""

    def seeds(self, number: int, first: int = 1) -> range:
        """Return so many seeds that may find it, from the `first` one on."""
        start = self.first + first - 1
        return seeds_of(self.world, number, start) if self.world else range(start, start + number)

    @property
    def patch(self) -> Patch:
        return Patch(f"firecron.{self.module}", self.old, self.new)


# Where a break that few seeds find is looked for: the first 200 don't, or the first 400.
_SELDOM: Final = 201
_MORE_SELDOM: Final = 401
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
# Nearly all machines are replaced just as a job ticks for the first time: those that are left wait for the dead.
_REPLACED: Final[Mapping[str, int]] = {"machines": 30, "die": 28, "follow_at_once": 28, "is_new": 1, "ticks": 1}
_FROZEN: Final[Mapping[str, int]] = {"machines": 20, "freeze": 20, "ticks": 8}
_MOST_DIE: Final[Mapping[str, int]] = {"machines": 30, "die": 29, "ticks": 1}

BREAKS = (
    # --- the record
    Break("a contender doesn't wait for the margin", "lock.record",
          "return now < self.free_at(margin)",
          "return now < self.expiresAt - 3 * margin"),
    Break("a claimed tick may be claimed again", "lock.record",
          "request.slot <= record.slot:", "request.slot < record.slot:"),
    Break("a pause is not looked at", "lock.record",
          "if is_paused(current.kept, now.server):", "if False:"),
    Break("a pause ends ten seconds early", "lock.fields",
          "self.until is None or now < self.until", "self.until is None or now + 10_000 < self.until"),
    Break("a pause has no end", "lock.fields",
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
    Break("a lease is trusted to its very end and longer", "lock.record",
          "return self.reading.mono + ", "return 3_000 + self.reading.mono + "),
    Break("a lease counts from its reply", "lock.protocol",
          "Held(decision.record, decision.trust, Snapshot(answer.etag, node), decision.before)",
          "Held(decision.record, Trust(decision.trust.expires_at + 4_000, decision.trust.reading), "
          "Snapshot(answer.etag, node), decision.before)"),
    Break("renewals stop", "lock.keeper",
          "due = min(lease.renewal_due if renews else lease.ends, limit)", "due = min(lease.ends + 60_000, limit)"),
    Break("a failed renewal ends the lease's watch", "lock.keeper",
          "kept.failures += 1", "self.forget(lease)", _BLINKS),
    Break("this machine's wall clock counts", "base.clocks",
          "server = int(mono + estimate.offset)", "server = int(self._timing.wall())"),
    # --- claims
    Break("each try has a token of its own", "runs.runner",
          "pending = attempt.lane.pending\n", "pending = None\n"),
    Break("a claim without an answer is given up", "runs.claimer",
          'if refusal.reason in ("unavailable", "slot_early"):', 'if refusal.reason == "slot_early":'),
    Break("a tick starts however late", "runs.policy",
          "return to_milliseconds(due) + max(options.grace, _LEAST_GRACE)",
          "return to_milliseconds(due) + max(options.grace, _LEAST_GRACE) + 40_000"),
    Break("a tick that waits tries once", "runs.claimer",
          'if refusal.reason == "held" and job.options.waits:', "if False:", _QUEUES),
    Break("an older tick is claimed", "runs.claimer",
          "pending.asked[answer.trust.reading.server, _slot_of(answer, job.options)]",
          "next(iter(pending.asked.values()))"),
    Break("the last try of a tick does not wait for its reply", "runs.claimer",
          "within=max(left, database.settings.request_timeout)", "within=left", _HEARS_LATE),
    # --- tickets
    Break("ranks are far too high", "base.tickets",
          "wave_of(size * self.distance,", "wave_of(100 * size * self.distance,"),
    Break("only the first wave asks", "base.tickets",
          "offset in _WAVES if", "offset in _WAVES[:1] if", _FIRST_ONES_DIE),
    Break("a later wave comes far too late", "base.tickets",
          "(2, 1_000.0), (4, 4_000.0))", "(2, 14_000.0), (4, 24_000.0))", _FIRST_ONES_DIE),
    Break("an open tick is not judged again at a beat", "runs.lanes",
          "        for open_tick in sorted(open_ticks, key=lambda one: one.attempt.came):\n"
          "            self._judge(open_tick)", "        del open_ticks",
          _MOST_DIE),
    # --- what was left behind
    Break("nobody looks for died runs", "runs.policy",
          "return is_abandoned and may_rerun(options, int(record.attempt or 1))", "return False"),
    Break("a run is begun again without end", "runs.policy",
          "return options.reruns and attempt < MOST_CLAIMS", "return options.reruns"),
    Break("missed ticks are dropped", "runs.policy",
          "    for span in reversed(free(record, end)):", "    for span in reversed(free(record, end)[:0]):",
          first=_MORE_SELDOM),
    Break("what overlap skipped is caught up", "runs.policy",
          "(record.expiresAt, record.releasedAt, record.acquiredAt))", "(record.acquiredAt,))"),
    Break("the bookkeeper is silent", "runs.policy",
          "return [unrun(slot, outcome, why=why) for slot in slots]", "return []"),
    Break("an abandoned run has no entry", "runs.policy",
          "if record.unfinished is not None and not claim.is_rerun:", "if False:"),
    Break("an entry replaces any other", "runs.entry",
          "return ours > theirs if is_ours else ours >= theirs", "return True", first=401),
    # --- threads
    Break("a run that has ended keeps its place", "runs.lane",
          "        self.running.discard(attempt)\n        commands:", "        commands:"),
    Break("a tick that comes behind a run waits for a worker", "runs.lanes",
          "if open_tick is None:\n            self.stand(attempt)",
          "if open_tick is None:\n            self._submit(partial(self.stand, attempt))", first=_MORE_SELDOM),
    Break("a tick that waits for a worker forgets the lock", "runs.lane",
          "now - attempt.came > margin", "False"),
    Break(
        "news doesn't wake the ticker",
        "scheduler.ticker",
        "        self.has_news = True\n        self._changed.notify_all()",
        "        self.has_news = True",
        first=_SELDOM,
    ),
    Break("a worker's wake-up is lost", "base.threads",
          "                worker.called.notify()  # first: after Ctrl-C here it ends without work\n", ""),
    Break("a stop waits for nobody", "scheduler.engine",
          "        self.heartbeat.leave()\n", ""),
    Break("a claim forgets the newest success", "lock.record",
          '        "succeededSlot": record.succeededSlot if record else None,\n', ""),
    Break("a failure counts as a success", "lock.record",
          'if finished and outcome == "succeeded" else', "if finished else"),
    Break("a run that a stop ended counts as finished", "runs.runner",
          'is_finished = ended in ("succeeded", "failed", "cancelled")',
          'is_finished = ended in ("succeeded", "failed", "cancelled", "interrupted")'),
    Break("a failing run is called again once too often", "runs.execution",
          "tries >= self._job.options.retries", "tries > self._job.options.retries"),
    Break("max_runtime is not looked at", "lock.keeper",
          "limit = math.inf if limit is None else limit", "limit = math.inf"),
    Break("a job that is paused here runs", "jobs.registry",
          "is_known and not {job.name, declared.name} & self._paused", "is_known"),
    Break("the outcome is the body's, whatever the release says", "runs.runner",
          'outcome = "lost" if lease.was_lost else outcome', 'outcome = "succeeded" if outcome == "lost" else outcome'),
    Break("a catch-up claims its own tick first", "runs.policy",
          "        if late:", "        if late and due is None:", first=_MORE_SELDOM),
    # --- steps, cancelled runs, even distances
    Break("a recorded step is called again", "steps.protocol",
          "if step.record is not None and step.record.is_done:", "if False:", first=_RICHER),
    Break("a zombie's result is taken for one's own", "steps.protocol",
          "if found is None or found.fence < own.fence:", "if found is None:", first=_RICHER),
    Break("a step in doubt is called", "steps.protocol",
          "if step.in_doubt and not step.may_retry:", "if False:", first=_RICHER),
    Break("all ticks share their steps", "runs.runner",
          "self._database.paths.steps_of(job.name, key)", 'self._database.paths.steps_of(job.name, "once")',
          first=_RICHER),
    Break("a cancelled run is run again", "lock.record",
          "return None if self.is_cancelled else self.unfinished", "return self.unfinished", first=_RICHER),
    Break("the holder doesn't hear of a cancel", "lock.lease",
          "if self._fence is not None and self._held.record.is_cancelled:", "if False:", first=_RICHER),
    Break("a cancel comes to whoever holds the lock", "lock.protocol",
          "cancelled(node, holder, fence, now, why)",
          "cancelled(node, *((node or {}).get(key) for key in ('holder', 'fence')), now, why)",
          _CANCELS_LATE),
    Break("ticks at even distances count from a start", "cron.schedule",
          "return first + ((instant - first) // distance + 1) * distance",
          "return instant + distance", first=_RICHER),
    Break("a settled step is not recorded", "steps.protocol",
          "    step.returned = Returned(result, step.record.started_at)\n    return (yield from",
          "    step.returned = Returned(result, step.record.started_at)\n    return result\n    return (yield from",
          first=_RICHER),
    Break("a step that is let be called again is in doubt again", "steps.steps",
          'check_in_doubt(self._steps.get(name), name, "retry").may_retry = True',
          'check_in_doubt(self._steps.get(name), name, "retry").may_retry = False', first=_RICHER),
    # --- first ticks
    Break("a tick before RTDB's time is known is nobody's", "scheduler.ticker",
          "since = now.server - math.ceil(max(0.0, now.mono - added))", "since = now.server", world="first ticks"),
    Break("a first tick that is too late is dropped without a word", "scheduler.ticker",
          "report_missed(self._events, job.name, due, f", "(lambda *_: None)(self._events, job.name, due, f",
          world="first ticks"),
    Break("newcomers leave the first tick of a job to the dead", "scheduler.publishing",
          "if since is not None and since <", "if since is None and 0 <",
          _REPLACED),
    Break("machines that were frozen together beat together", "scheduler.heartbeat",
          "is_spread = self._started_at is None or", "is_spread = self._started_at is None and", _FROZEN),
    # --- runs that a later tick cancels, and runs that an operator resumes
    Break("a tick does not cancel the run before it", "runs.claimer",
          "if self._ask(job, due, refusal.holder, refusal.fence) is None:", "if True:", world="cancels previous"),
    Break("a run on its own instance is cancelled without a word to the database", "runs.claimer",
          "pause = self._ask(job, due, lease.holder, lease.fence)", "pause = None", world="cancels previous"),
    Break("a tick cancels a run by hand", "runs.claimer",
          'if refusal.reason != "held" or refusal.unfinished is None:', 'if refusal.reason != "held":',
          world="cancels previous"),
    Break("a tick cancels a resumed run", "runs.runner",
          "if run.is_of_its_tick and run.slot is not None", "if run.slot is not None", world="cancels previous"),
    Break("a tick that another machine has run is skipped", "runs.claimer",
          "newest = self._newest_claimed(job) if was_held else None", "newest = None", world="cancels previous"),
    Break("a tick that has succeeded is resumed", "runs.policy",
          'if seen.outcome == "succeeded":', "if False:", world="resumes"),
    Break("a tick that never ran is resumed", "runs.policy",
          "if entry is None and not is_unfinished:", "if False:", world="resumes"),
    Break("a failed tick is not resumed", "runs.policy",
          'if seen.outcome == "malformed":', 'if seen.outcome in ("malformed", "failed"):', world="resumes"),
    Break("a resumed run has the number of the run before", "runs.policy",
          "return Resumed(key, last + 1)", "return Resumed(key, last)", world="resumes"),
    Break("a resumed tick does its steps anew", "runs.claimer",
          "return self.resumed is None and (", "return self.resumed is not None or (", world="resumes"),
    # --- locks beside the jobs
    Break("a block's lock is not renewed", "locks",
          "return Hold(self.database, *self._asked(name, ttl, wait, hold_at_least, fenced=fenced, renews=True))",
          "return Hold(self.database, *self._asked(name, ttl, wait, hold_at_least, fenced=fenced))", world="locks"),
    Break("a refused function is called", "lock.blocks",
          "        if isinstance(lease, Refusal):\n            return lease\n        result = fn()",
          "        result = fn()", world="locks"),
    Break("what was done once and for all is done again", "steps.once",
          "return once.read() or once.record(answer", "return once.record(answer", world="locks"),
    Break("a lock that is left is held until it expires", "lock.blocks",
          "            self._leave().release()\n", "            self._leave()\n", world="locks"),
    Break("a plain lock is free in the middle of its lease", "lock.record",
          "return now < self.free_at(margin)",
          "return now < self.expiresAt - (3 * margin if self.slot is None and self.releasedAt is None else 0)",
          world="locks"),
    # --- roles, jobs that come and go, and a second start
    Break("a role is not looked at", "jobs.registry",
          "return job.options.role is None or job.options.role in self._roles", "return True", world="comes and goes"),
    Break("a removed job runs on", "jobs.registry",
          "        with self._lock:\n            self._jobs.pop(name, None)\n            self._paused.discard(name)\n"
          "        self._control.remove(name)\n", "", world="comes and goes"),
    Break("a second start plans nothing", "scheduler.ticker",
          "self._unplanned = [(job, self._database.timing.mono()) for job in self._jobs.values()]",
          "self._unplanned = []", world="comes and goes"),
    Break("a job that was removed is never planned again", "scheduler.ticker",
          "            self._unplanned.append((job, self._database.timing.mono()))\n            self._wake()",
          "            if job.name not in (known := self.__dict__.setdefault('_known', set())):\n"
          "                self._unplanned.append((job, self._database.timing.mono()))\n"
          "            known.add(job.name)\n            self._wake()", world="comes and goes"),
    # --- clocks that are wrong by nearly the margin
    Break("a contender waits for no margin", "lock.record",
          "return now < self.free_at(margin)", "return now < self.expiresAt",
          world="skewed clocks", first=_SELDOM),
    Break("a holder trusts its lease to the very end", "lock.record",
          "return self.reading.mono + span - max(margin, wrong)", "return self.reading.mono + span",
          world="skewed clocks"),
    # --- lines, zones, and windows
    Break("a fixed line runs in both passes", "cron.zoned_line",
          "            elif self._line.is_wildcard:\n", "            elif second > start:\n", world="zones"),
    Break("a wildcard line runs in the first pass only", "cron.zoned_line",
          "if self._line.is_wildcard and second > start:", "if False:", world="zones"),
    Break("what a forward jump skips is dropped", "cron.zoned_line",
          "if not self._line.is_wildcard and first - second <= _LONGEST_GAP:", "if False:", world="zones"),
    Break("what is missed is caught up however old it is", "runs.policy",
          "oldest = max(span.start, now - options.catch_up_window)", "oldest = span.start", world="window"),
    Break("the window is far too short", "runs.policy",
          "oldest = max(span.start, now - options.catch_up_window)",
          "oldest = max(span.start, now - options.catch_up_window // 10)", world="window"),
    # --- counters, watches, and fleets that were frozen together
    Break("a counter that is no number ends the beat", "scheduler.heartbeat",
          'ticket = answered[here], number(answered.get(f"{group}/beats"))',
          'ticket = answered[here], int(str(answered.get(f"{group}/beats", 0)))', world="counter"),
    Break("a refused watch is asked for again and again", "lock.waiting",
          "longest = _LONGEST_PAUSE if isinstance(error, Denied) else _FIRST_PAUSE * 2.0 ** min(failures, 16)",
          "longest = _FIRST_PAUSE", world="no watches"),
    Break("whoever hears nothing does not ask", "runs.lane",
          "0.5 + 4.5 * chance()", "900.0", world="no watches"),
    Break("a counter that is set too high misleads", "base.tickets",
          "return min(self.sizes) if", "return max(self.sizes) if", world="counter"),
    # --- leaders whose bodies do more than heed their end
    Break("a leader that raises forgets that it was told to stay away", "leaders.candidate",
          "            self.stay_away(end_request.away_for)\n",
          "            self.stay_away(end_request.away_for if ended.outcome != 'failed' else 0)\n", first=_REIGNS),
    Break("a leader that is resumed here stands at once", "leaders.candidate",
          "            self._is_over, self._following = False, None\n",
          "            self._is_over, self._following, self._due = False, None, 0.0\n", first=_REIGNS),
    Break("a leader whose body returns stands again at once", "leaders.candidate",
          "            self._returns += 1\n", "            self._returns = 0\n", first=_REIGNS),
    Break("a term that is told to end forgives failures", "leaders.candidate",
          "        if ended.took >= GOOD_TERM:\n",
          "        if end_request or ended.took >= GOOD_TERM:\n", first=_REIGNS),
    Break("a leader that was cancelled stands again at once", "leaders.candidate",
          "AWAY = 30_000", "AWAY = 0", first=_REIGNS),
    Break("max_term is no limit", "leaders.candidate",
          "max_runtime=election.max_term,", "max_runtime=None,", first=_REIGNS),
    Break("an async body is not cancelled with its term", "leaders.leaders",
          "        elif (body := self._body) is not None:\n            body.cancel()",
          "        elif (body := self._body) is not None:\n            pass", first=_REIGNS),
    Break("a term is released when it is told to end", "leaders.candidate",
          "        active.term.stopping.set()\n",
          "        active.term.stopping.set()\n        active.lease.release(outcome=outcome)\n", first=_REIGNS),
    Break("a leader doesn't read that it is paused", "leaders.candidate",
          "            lease.when_renewed(self._end_if_paused)\n", "", first=_REIGNS),
    Break("a resume here starts a second thread", "leaders.leaders",
          "            if self._thread is None:\n", "            if True:\n", first=_REIGNS),
    Break("followers ask after a minute", "leaders.following",
          "LONGEST, SHORTEST, FAR = 5.0,", "LONGEST, SHORTEST, FAR = 50.0,", first=_REIGNS),
    Break("a lock is free without a margin after its end", "lock.record",
          "now < self.free_at(margin)", "now < self.expiresAt", first=_REIGNS),
    Break("a lease is trusted to its end", "lock.record", "- max(margin, wrong)", "", first=_REIGNS),
    # --- stored schedules, and operators who edit them
    Break("all entries share the keys of their history", "store",
          'return f"{key}:{entry}" if entry else key', "return key", first=_ENTRIES),
    Break("a renewal leaves the time of the next look as it was", "lock.protocol",
          "            return decision\n        node = to_node(decision.record, look, now)",
          "            return decision\n        node = to_node(decision.record, None, now)", first=_ENTRIES),
    Break("a claim leaves the time of the next look as it was", "lock.protocol",
          "        replaced.setdefault(decision.trust.expires_at, decision.before)\n"
          "        node = to_node(decision.record, look, now)",
          "        replaced.setdefault(decision.trust.expires_at, decision.before)\n"
          "        node = to_node(decision.record, None, now)", first=_ENTRIES),
    Break("a release leaves the time of the next look as it was", "lock.protocol",
          "node = None if after is None else to_node(after, look, now)",
          "node = None if after is None else to_node(after, None, now)", first=_ENTRIES),
    Break("ticks count that were before a put", "lock.stored",
          "    elif was_closed or not is_same:\n        since = max(since, now)\n", "", first=_ENTRIES),
    Break("ticks count again after a deletion", "lock.stored",
          "since = now + 3 * options.margin", "since = now - 600_000", first=_ENTRIES),
    Break("a claim does not look at since", "lock.stored",
          'slot=max(current.slot or "", start), unfinished=None if is_moot else current.unfinished,',
          "slot=current.slot or start, unfinished=current.unfinished,", first=_ENTRIES),
    Break("a removal forgets the lock of the entry", "lock.stored",
          "after = {name: value for name, value in before.items() if name not in DROPPED}",
          'after = {name: before[name] for name in ("since", "closed", "closedAt") if name in before}',
          first=_ENTRIES),
    Break("a removal leaves the entry open", "lock.stored",
          '    if before.get("closed") != REMOVED:\n        after = closed(after, REMOVED, now)\n'
          '    if by is not None:\n        after["by"] = by\n    if asks:',
          '    after = dict(before)\n    if asks:', first=_ENTRIES),
    Break("a run has the arguments of the query", "runs.runner",
          "return job if job.declared is None else job.entry(job.name, claimed.held.replaced.kept)",
          "return job", first=_ENTRIES),
    Break("what is long due is left", "scheduler.lookers",
          "watched.older_from = 1", "watched.older_from = None", first=_ENTRIES),
    Break("what has no time is not mended", "scheduler.lookers",
          "if mono < watched.mends_at or", "if True or", first=_ENTRIES),
    Break("a look that writes keeps its place", "scheduler.lookers",
          "        finally:\n            if self._done(watched, name):\n                self._go_on(watched)",
          "        finally:\n            pass",
          first=_ENTRIES),
    Break("an entry that can't be read ends the look at the others", "scheduler.lookers",
          "            try:\n                self._look_at(watched, planned)\n",
          "            watched.job.entry(planned.name, planned.node)\n"
          "            try:\n                self._look_at(watched, planned)\n", first=_ENTRIES),
    Break("what a look passes over has no entry", "scheduler.entry_writer",
          "self._history.record_entries(job.named(name), list(found.entries))", "pass", first=_ENTRIES),
    Break("the pause of a stored job is not looked at", "scheduler.lookers",
          "watched.hold = pause if pause is not None and pause.holds(now) else None", "watched.hold = None",
          first=_ENTRIES),
    Break("a look ends a run that is under way", "runs.look",
          "is_live = record is not None and record.is_live(now, margin)", "is_live = False", first=_ENTRIES),
    Break("an instant is missed without a reason", "runs.look",
          "closed(after, MISSED, now, _why_missed(options, entries, pause))", "closed(after, MISSED, now)",
          first=_ENTRIES),
    Break("what is closed is deleted at once", "runs.look",
          "return Deleted() if at <= now and not is_live", "return Deleted() if not is_live", first=_ENTRIES),
    Break("a record that can't be read is written", "runs.look",
          "return Later(now + HOUR, str(error))  # only an operator may touch it",
          "return Written({**node, 'expiresAt': 0, 'nextAt': now + HOUR})", first=_ENTRIES),
    Break("lookers leave what they have not planned", "scheduler.lookers",
          "self._replan(watched, before, found, now, horizon)",
          "self._replan(watched, before, found[:1], now, horizon)",
          first=_ENTRIES),
    # --- holds, and asks for runs
    Break("an unhold takes back every pause", "lock.holds",
          "left = [pause for pause in pauses if pause.hold not in gone]", "left: list[Pause] = []", first=_HELD),
    Break("an unhold takes back what another hold covers", "lock.holds",
          "return [force] if force.hold is None else [force, *_below(fields, now)]", "return [force]", first=_HELD),
    Break("a hold replaces all pauses", "lock.holds",
          "after = with_pauses(fields, [*pauses, _pause_of(hold)], now)",
          "after = with_pauses(fields, [_pause_of(hold)], now)", first=_HELD),
    Break("whoever finds the name of a hold takes the pause for its", "lock.fields",
          "return by is not None and at is not None and hold == hold_name(hold[:4], by, at)", "return True",
          first=_HELD),
    Break("an unhold leaves the locks as they are", "ops.holds",
          "        while found := self._held_by(name):", "        while found := {}:", first=_HELD),
    Break("an ask is begun by whoever sees it", "lock.asks",
          "        if asks.take(self.ask, self._token, ends) is not None:\n            return False\n", "",
          first=_HELD),
    Break("an ask that is taken is taken again", "lock.asks",
          'return "mine" if found.taken_by == token else "taken"', 'return {**node, "takenBy": token}', first=_HELD),
    Break("a second ask replaces the first", "lock.asks",
          "return ask.to_node() if other is None or other.is_over(now) else Standing(other)", "return ask.to_node()",
          first=_HELD),
    Break("an ask is removed before it is taken", "lock.asks",
          "        if asks.take(self.ask, self._token, ends) is not None:\n            return False\n",
          "        asks.remove(self.ask)\n", first=_HELD),
    Break("an ask that is taken is not run", "lock.asks",
          "        if ends is None or self._database.timing.mono() < ends:\n            return True\n", "",
          first=_HELD),
    Break("nobody looks for asks", "scheduler.asks",
          "            elif not known.is_others and ask.taken_by in (None, known.token)", "            elif False",
          first=_HELD),
)  # fmt: skip
