"""Mutants that change nothing that can be seen, and why: `tests.mutations` leaves them out.

Each is a mutant as `tests.mutations` shows it: where it is, and what it makes of which text. One that no longer fits
the sources fails a test.
"""

from __future__ import annotations

EQUIVALENT: dict[str, str] = {
    "catalogue.dissenting: name, since = declared.name, declared.declared_at or 0 -> name, since = declared.name, "
    "declared.declared_at or 1": "No group was seen in 1970.",
    "catalogue.dissenting: others = tuple(group for group in having if (group.seen_at or 0) > since) -> others = "
    "tuple(group for group in having if (group.seen_at) > since)": "A live group was seen.",
    "catalogue.dissenting: others = tuple(group for group in having if (group.seen_at or 0) > since) -> others = "
    "tuple(group for group in having if (group.seen_at or 1) > since)": "A live group was seen.",
    "catalogue.dissenting: if declared.disabled or not others: -> if declared.disabled:": (
        "Of none, none dissents; it only spares the digest."
    ),
    'publishing.CataloguePublisher.begin: with self._lock: -> with __import__("contextlib").nullcontext():': (
        "One writing is one step."
    ),
    'publishing.CataloguePublisher._publish: with self._lock: -> with __import__("contextlib").nullcontext():': (
        "After the writes: either writing is one step, and neither needs the other. A test of two threads has the "
        "lock before the writes."
    ),
    "publishing.CataloguePublisher._take: return set() -> return None": "Neither is anything to do.",
    "status.Report: now: int = 0 -> now: int = 1": "Of a report without verdicts nobody asks when it was made.",
    "health._late_before: if after >= limit: -> if after > limit:": "No tick after the limit is before it.",
    "heartbeat.Membership: is_told: bool = False -> is_told: bool = True": "No group has an empty name.",
    "catalogue: _LONGEST_TIME = 10**9 -> _LONGEST_TIME = 11**9": "No duration is between the two.",
    "body.Body._await: with concurrent.futures.ThreadPoolExecutor(1) as elsewhere: -> with "
    "concurrent.futures.ThreadPoolExecutor(2) as elsewhere:": "It is given one thing to do.",
    "body.Body._await_on: return interrupt -> return None": "It is kept as what the job raised, which goes first.",
    'body.Body._begin: with self._lock: -> with __import__("contextlib").nullcontext():': (
        "It writes before it reads, as `cancel` does; and what has not begun may be cancelled twice."
    ),
    'instants.doubt: unit, name_of_it = (_HOUR, "hours") if duration < DAY else (DAY, "days") -> unit, name_of_it = '
    '(_HOUR, "hours") if duration <= DAY else (DAY, "days")': "A day is a whole number of either.",
    "identity.Identity.settled: child.known = threading.Event() -> nothing": (
        "Only a thread that sets it at the very instant of the fork would leave its lock held."
    ),
    "texts._without_secrets: break -> nothing": "The same pattern finds nothing in what it has left.",
    'threads.Workers.threads: with self._lock: -> with __import__("contextlib").nullcontext():': (
        "One reading is one step."
    ),
    'threads.Workers.idle: with self._lock: -> with __import__("contextlib").nullcontext():': (
        "One reading is one step."
    ),
    "app.FireCron.__init__: self._stops = 0 -> self._stops = 1": "Two readings are compared, whatever it began with.",
    "app.FireCron._stop: self._stops += 1 -> self._stops += 2": "Two readings are compared, however far apart.",
    'execution.Execution._call: with self._changed: -> with __import__("contextlib").nullcontext():': (
        "It writes before it reads, as `cancel` does; and a body is cancelled once."
    ),
    'execution.Execution.cancel: with self._changed: -> with __import__("contextlib").nullcontext():': (
        "It writes before it reads, as `_call` does; and a body is cancelled once."
    ),
    "execution.Unlocked.keep: return True (#2) -> return False": (
        "What is never due for a renewal is not asked for one."
    ),
    "execution.Unlocked.keep: return True -> return False": "What is never due for a renewal is not asked for one.",
    "keeper.Keeper.__init__: self._sleeps = False -> self._sleeps = True": (
        "A thread that has just begun is woken once more than it has to be."
    ),
    "keeper.Keeper.__init__: self._has_come = False -> self._has_come = True": "The thread begins with a lease.",
    "keeper.Keeper._attend: return (#4) -> nothing": "What is forgotten is not attended to again.",
    'threads.on_new_thread: threading.Thread(target=call, name="firecron-call", daemon=False).start() -> '
    "threading.Thread(target=call, daemon=False).start()": "A thread's name is for people.",
    "runner.Runner._release: is_over: bool = False -> is_over: bool = True": (
        "What is cut short has stopped, and only what was lost is asked whether it is over."
    ),
    "runner.Runner._perform: steps = None if isinstance(lease, Unlocked) else self._steps(job, run.fence, "
    "claimed, lease, key) -> steps = None if False else self._steps(job, run.fence, claimed, lease, key)": (
        "Only a job without steps runs without a lock."
    ),
    "runner.Runner._steps: if not job.options.has_steps or fence is None: -> if (fence is None):": (
        "A run under a lease that has a fence is one of a job with steps."
    ),
    "runner.Runner._steps: if not job.options.has_steps or fence is None: -> if (not job.options.has_steps):": (
        "A job with steps takes a fence with each claim."
    ),
    "runner.Runner._begin: lag = ( None if claimed.claim is None or execution.slot is None else started.server - "
    "to_milliseconds(execution.slot) ) -> lag = ( None if (claimed.claim is None) else started.server - "
    "to_milliseconds(execution.slot) )": ("A claim has a slot."),
    'runner.Runner.active: with self._lock: -> with __import__("contextlib").nullcontext():': (
        "A list is copied in one step."
    ),
    'threads.OpenWork.add: with self.changed: -> with __import__("contextlib").nullcontext():': (
        "A set takes one more in one step."
    ),
    "process.ProcessGroup.send: with suppress(ProcessLookupError, PermissionError): -> with "
    "suppress(PermissionError, ProcessLookupError):": "The order of the exceptions says nothing.",
    "runner.Runner.go_on: for _ in range(MOST_MISSED + MOST_CLAIMS + 1): -> for _ in range(MOST_MISSED + "
    "MOST_CLAIMS + 2):": "There can't be that many rounds.",
    "runner.Runner.go_on: if is_last: -> if False:": "A turn that is over does not enter again.",
    "runner.Runner.run_tick: for _ in range(MOST_MISSED + MOST_CLAIMS + 1): -> for _ in range(MOST_MISSED + "
    "MOST_CLAIMS + 2):": "There can't be that many rounds.",
    'runner.Runner.run_tick: raise AssertionError(f"{job.name}: more claims before {slot} than are possible") '
    "-> nothing": "There can't be so many rounds that it is reached.",
    "execution._fence: return int(fence) if claimed.bid.fenced and fence is not None else None -> return "
    "int(fence) if claimed.bid.fenced else None": "A claim that asked for a fence has one.",
    "process.Signals._receive: self.wake() -> nothing": "Python's own wake-up has ended the pause.",
    "process._those_there_are: return tuple(signal.Signals[name] for name in names if name in "
    "signal.Signals.__members__) -> return tuple(signal.Signals[name] for name in names if True)": (
        "Only Windows lacks one."
    ),
    "ticker.Ticker.__init__: self.has_news = False -> self.has_news = True": "The thread sets it before it works.",
    "ticker.Ticker._hand_over: return tick.slot -> return None": "Without an answer it goes on from that very tick.",
    "ticker.Ticker._run: seconds = backoff(8, self._database.chance()) -> seconds = backoff(9, "
    "self._database.chance())": ("Neither pause can be longer than the longest."),
    'ticker.Ticker._run: with self._changed: -> with __import__("contextlib").nullcontext():': (
        "One assignment is one step."
    ),
    "ticker.Ticker.next_start: starts = [tick.start for tick in self._ticks[:1]] + [call[0] for call in "
    "self._calls[:1]] -> starts = [tick.start for tick in self._ticks[:1]] + [call[0] for call in "
    "self._calls[:2]]": "The first of a heap is the least.",
    "ticker.Ticker.next_start: starts = [tick.start for tick in self._ticks[:1]] + [call[0] for call in "
    "self._calls[:1]] -> starts = [tick.start for tick in self._ticks[:2]] + [call[0] for call in "
    "self._calls[:1]]": "The first of a heap is the least.",
    'ticker.Ticker.next_start: with self._changed: -> with __import__("contextlib").nullcontext():': (
        "Of each heap the first is copied in one step."
    ),
    "ticker.Ticker.after: self.at(0 if moment is None else moment.server + math.ceil(round(seconds * 1000, 6)), call) "
    "-> self.at(1 if moment is None else moment.server + math.ceil(round(seconds * 1000, 6)), call)": (
        "Both instants are long past."
    ),
    "ticker.Ticker.stop: self._planned.clear() -> nothing": "The ticks with those numbers are gone.",
    'ticker.Ticker.work: with self._changed: -> with __import__("contextlib").nullcontext():': (
        "What it writes too late is a time to come, so that nothing is late; and a start forgets it."
    ),
    "claimer.Claimer._bid_for.fit: return request -> return None": (
        "What can't be read is refused before anything is looked at that is asked for."
    ),
    "claimer.Claimed.is_of_its_tick: return self.slot is not None and self.slot == self.held.record.unfinished -> "
    "return (self.slot == self.held.record.unfinished)": "It is asked only for a run that has a tick.",
    "claimer.Claimer.claim_manually: quietly: bool = False -> quietly: bool = True": "Each caller says it.",
    "claimer.Resumer.claim: quietly: bool = False -> quietly: bool = True": "The only caller says it.",
    "claimer.Claimer._bid: return self._database.bid( options.name, options.lock_ttl / 1000, "
    "hold_at_least=options.hold_at_least / 1000, renews=options.renew, max_runtime=options.max_runtime, "
    "fenced=options.once_per_tick, momentary=not options.has_lease, choose=choose, "
    "look=options.look(self._database.margin), ) -> return self._database.bid( options.name, options.lock_ttl / 1000, "
    "hold_at_least=options.hold_at_least / 1000, renews=options.renew, fenced=options.once_per_tick, momentary=not "
    "options.has_lease, choose=choose, look=options.look(self._database.margin), )": (
        "The runner limits a run from its beginning, by the job's options."
    ),
    "claimer.Claimer._follow: if not self._database.streams.can_watch: -> if False:": "Such streams tell nothing.",
    "claimer.Claimer._follow: return -> nothing": "Such streams tell nothing.",
    'claimer.Claimer._try: waits = bool(refusals) and all(refusal.reason == "held" for refusal in refusals) -> waits = '
    'bool(refusals) and any(refusal.reason == "held" for refusal in refusals)': (
        "No tick of a stored job takes a claim over, so there is one refusal."
    ),
    "claimer.Claimer._cancel_elsewhere: if not job.options.cancels_previous or due is None or not "
    "pending.attempt.is_patient: -> if (not job.options.cancels_previous) or (not pending.attempt.is_patient):": (
        "A look finds nothing to claim in a lock that is held."
    ),
    "claimer.Claimer.cancel_here: return max(again, default=None) -> return min(again, default=None)": (
        "Such a job has one run here at a time."
    ),
    "claimer.Claimer._give_up: if newest is not None and (due == newest or (was_held and due < newest)): -> if newest "
    "is not None and (due == newest or (was_held and due <= newest)):": "What is equal is asked for before.",
    "claimer.Claimer._observe: if job.options.reruns and refusal.unfinished is not None and refusal.free_at is not "
    "None: -> if job.options.reruns and (refusal.unfinished is not None):": "A refusal has both of one record.",
    "claimer.Resumer._evaluated: claims = 1 if before is None else int(before.attempt or 1) -> claims = 2 if before is "
    "None else int(before.attempt or 1)": "Where there was no record, no tick is unfinished.",
    "claimer.Claimer._look_again_soon: self._lanes.look_again(job, 0 if moment is None else moment.server + "
    "round(1000 * seconds)) -> self._lanes.look_again(job, 1 if moment is None else moment.server + "
    "round(1000 * seconds))": ("Both are long ago."),
    "store: _CONNECTIONS = 32 -> _CONNECTIONS = 0": ("A pool of no size is one without a bound."),
    "store.RtdbStore.close: if connection is not None: -> if False:": (
        "What nothing refers to any more closes its connections by itself."
    ),
    "store.RtdbStore._call: connection = self._connection or self._connected() -> connection = self._connected()": (
        "It saves a lock."
    ),
    "events.Events.emit: return -> nothing": ("It saves the making of what nobody is told."),
    "events.Events.emit: if not self.are_heard(level): -> if False:": ("It saves the making of what nobody is told."),
    "zoned_line.ZonedLine.after: if self._line.is_wildcard and second > start: -> if (second > start):": (
        "It saves a look at clocks that don't change there, which finds the same tick."
    ),
    "zoned_line.ZonedLine.after: if self._line.is_wildcard and second > start: -> if self._line.is_wildcard:": (
        "It saves a look at clocks that don't change there, which finds the same tick."
    ),
    "zoned_line.ZonedLine.after: if self._line.is_wildcard and second > start: -> if self._line.is_wildcard and "
    "second >= start:": ("It saves a look at clocks that don't change there, which finds the same tick."),
    "zoned_line.ZonedLine._first_after: wall = self._wall(change) - _SECOND -> nothing": (
        "It only skips the rest of the gap, in which there are no ticks."
    ),
    "schedule.newest: if not has_tick(schedule, start, end): -> if False:": ("It saves a search that finds nothing."),
    "schedule.newest: while first < last and len(found) < most: -> while first < last and len(found) <= most:": (
        "It finds the same ticks, by other steps."
    ),
    "schedule.newest: ticks = list(islice(schedule.between(low, last), 2 * most + 1)) -> ticks = "
    "list(islice(schedule.between(low, last), 3 * most + 1))": ("It finds the same ticks, by other steps."),
    "schedule.newest: ticks = list(islice(schedule.between(low, last), 2 * most + 1)) -> ticks = "
    "list(islice(schedule.between(low, last), 2 * most + 2))": ("It finds the same ticks, by other steps."),
    "schedule.newest: if len(ticks) > 2 * most and span > _SECOND: -> if len(ticks) >= 2 * most and span > _SECOND:": (
        "It finds the same ticks, by other steps."
    ),
    "schedule.newest: if len(ticks) > 2 * most and span > _SECOND: -> if (len(ticks) > 2 * most):": (
        "In a second there is one tick at the most."
    ),
    "schedule.newest: if len(ticks) > 2 * most and span > _SECOND: -> if len(ticks) > 2 * most and span >= _SECOND:": (
        "In a second there is one tick at the most."
    ),
    "schedule.newest: if len(ticks) <= most // 2: -> if True:": ("It finds the same ticks, by other steps."),
    "schedule.newest: if len(ticks) <= most // 2: -> if len(ticks) <= most * 2:": (
        "It finds the same ticks, by other steps."
    ),
    "schedule.newest: if len(ticks) <= most // 2: -> if len(ticks) <= most // 3:": (
        "It finds the same ticks, by other steps."
    ),
    "schedule.newest: span *= 4 -> span *= 5": ("It finds the same ticks, by other steps."),
    "schedule.newest_tick: found = newest(schedule, 0, to_milliseconds(now), 1) -> found = "
    "newest(schedule, 1, to_milliseconds(now), 1)": ("In the first second of 1970 nobody asks."),
    "policy.needs_rerun: is_abandoned = record.open_slot is not None and not record.is_live(now, margin) -> "
    "is_abandoned = (record.open_slot is not None)": ("Whoever asks has found that nobody holds the lock."),
    "policy.needs_rerun: return is_abandoned and may_rerun(options, int(record.attempt or 1)) -> return "
    "is_abandoned and may_rerun(options, int(record.attempt or 2))": (
        "A first run and a second may both be run again."
    ),
    "policy.missed: end = now - max(options.grace, _LEAST_GRACE) - 1 if due is None else to_milliseconds(due) "
    "- 1 -> end = now - max(options.grace, _LEAST_GRACE) - 1 if due is None else to_milliseconds(due) - 2": (
        "Ticks are whole seconds, so none lies within a millisecond of another."
    ),
    "policy.between: end = to_milliseconds(claim.slot) - 1 -> end = to_milliseconds(claim.slot) - 2": (
        "Ticks are whole seconds, so none lies within a millisecond of another."
    ),
    "policy.between: slots = newest(options.schedule, span.start, span.end, MOST_COUNTED + 1 - len(slots)) + "
    "slots -> slots = newest(options.schedule, span.start, span.end, MOST_COUNTED + 1 + len(slots)) + slots": (
        "Beyond the most that are counted it is not said how many there are."
    ),
    "policy.between: slots = newest(options.schedule, span.start, span.end, MOST_COUNTED + 1 - len(slots)) + "
    "slots -> slots = newest(options.schedule, span.start, span.end, MOST_COUNTED + 2 - len(slots)) + slots": (
        "Beyond the most that are counted it is not said how many there are."
    ),
    "recovery.Recovery._read_all: return {} -> return None": ("There is no job left to be read."),
    'heartbeat.Heartbeat._write: seen_at = stored.get("seenAt") if isinstance(stored, dict) else None -> seen_at '
    '= stored.get("seenAt") if True else None': ("The store has made sure of it."),
    "heartbeat.Heartbeat._write: if isinstance(seen_at, int): -> if True:": ("The store has made sure of it."),
    'heartbeat.Heartbeat.start: self._thread = threading.Thread(target=self._run, name="firecron-heartbeat", '
    "daemon=True) -> self._thread = threading.Thread(target=self._run, daemon=True)": (
        "A thread's name is for people."
    ),
    "schedule: _SOME_TICKS = 3 -> _SOME_TICKS = 4": ("How many ticks are looked at is not promised."),
    "access._certificates: return {} -> return None": ("Neither has any certificates."),
    "policy._around: return [Span(low, high) for low, high in zip(bounds[::2], bounds[1::2], strict=True) if "
    "low < high] -> return [Span(low, high) for low, high in zip(bounds[::2], bounds[1::2]) if low < "
    "high]": ("There are as many of both."),
    "policy._around: return [Span(low, high) for low, high in zip(bounds[::2], bounds[1::2], strict=True) if "
    "low < high] -> return [Span(low, high) for low, high in zip(bounds[::2], bounds[1::2], "
    "strict=False) if low < high]": ("There are as many of both."),
    "policy._around: return [Span(low, high) for low, high in zip(bounds[::2], bounds[1::2], strict=True) if "
    "low < high] -> return [Span(low, high) for low, high in zip(bounds[::2], bounds[1::2], strict=True) "
    "if True]": ("In a span without any time there is no tick."),
    "policy._around: return [Span(low, high) for low, high in zip(bounds[::2], bounds[1::2], strict=True) if "
    "low < high] -> return [Span(low, high) for low, high in zip(bounds[::2], bounds[1::2], strict=True) "
    "if low <= high]": ("In a span without any time there is no tick."),
    "lanes.Lanes._left_open: if size is None: -> if False:": ("A wave without a size asks at once, too."),
    "lanes.Lanes.observe_tickets: self.tickets, self._left_jobs = tickets, jobs if "
    "tickets.leave_ticks(self._contenders) else {} -> self.tickets, self._left_jobs = tickets, jobs if True else {}": (
        "It saves a look at the tickets, by which all ask at once."
    ),
    "policy.remember: if since is None or not has_tick(schedule, since, now - 1): -> if (since is None):": (
        "It saves a look at the spans, none of which has a tick."
    ),
    "policy.remember: if since is None or not has_tick(schedule, since, now - 1): -> if since is None or not "
    "has_tick(schedule, since, now + 1):": ("Then the spans decide, which end before the claim."),
    "policy.remember: for span in _in_order(free(record, now - 1), since, now - 1): -> for span in "
    "_in_order(free(record, now + 1), since, now - 1):": ("The later of the two bounds changes nothing."),
    "policy.remember: for span in _in_order(free(record, now - 1), since, now - 1): -> for span in "
    "_in_order(free(record, now - 1), since, now + 1):": ("The later of the two bounds changes nothing."),
    "policy._in_order: if start < stop: -> if start <= stop:": ("In a span without any time there is no tick."),
    "schedule.has_tick: if start // 1000 >= end // 1000: -> if False:": (
        "It saves a look at the schedule, which says the same."
    ),
    "schedule.has_tick: if start // 1000 >= end // 1000: -> if start // 1000 > end // 1000:": (
        "It saves a look at the schedule, which says the same."
    ),
    "policy.freed_at: return max(int(number or 0) for number in (record.expiresAt, record.releasedAt, "
    "record.acquiredAt)) -> return max(int(number or 1) for number in (record.expiresAt, record.releasedAt, "
    "record.acquiredAt))": ("Nothing ended as early as that."),
    "operator: _AT_A_TIME = 8 -> _AT_A_TIME = 9": ("How many requests go at the same time is not promised."),
    "registry: _MINUTE = 60_000 -> _MINUTE = 0": ("It saves a look at the schedule, which finds nothing odd either."),
    "registry.Checks.warnings: longest = max(options.jitter, options.lock_ttl if is_held else 0) -> longest = "
    "max(options.jitter, options.lock_ttl if True else 0)": (
        "It saves a look at the schedule, which finds nothing odd either."
    ),
    "registry.Checks.warnings: longest = max(options.jitter, options.lock_ttl if is_held else 0) -> longest = "
    "max(options.jitter, options.lock_ttl if is_held else 1)": (
        "It saves a look at the schedule, which finds nothing odd either."
    ),
    "registry.Checks.warnings: if longest == 0 or (longest <= _MINUTE and not options.schedule.has_seconds): -> "
    "if (longest == 0):": ("It saves a look at the schedule, which finds nothing odd either."),
    "registry.Checks.warnings: if longest == 0 or (longest <= _MINUTE and not options.schedule.has_seconds): -> "
    "if (longest <= _MINUTE and not options.schedule.has_seconds):": (
        "It saves a look at the schedule, which finds nothing odd either."
    ),
    "registry.Checks.warnings: if longest == 0 or (longest <= _MINUTE and not options.schedule.has_seconds): -> "
    "if longest == 0 or (longest < _MINUTE and not options.schedule.has_seconds):": (
        "It saves a look at the schedule, which finds nothing odd either."
    ),
    "registry.Checks.warnings: if longest == 0 or (longest <= _MINUTE and not options.schedule.has_seconds): -> "
    "if longest == 1 or (longest <= _MINUTE and not options.schedule.has_seconds):": (
        "It saves a look at the schedule, which finds nothing odd either."
    ),
    "registry.Checks.warnings: return -> nothing": ("It saves a look at the schedule, which finds nothing odd either."),
    "tokens.RefreshingTokens.__init__: self._failure: StoreError | None = None -> nothing": (
        "A refresh sets it before anything asks for it."
    ),
    'tokens.RefreshingTokens.__init__: self._value = "" -> nothing': ("A refresh sets it before anything asks for it."),
    "tokens.RefreshingTokens._refresh: life = 0.0 -> nothing": (
        "Where there is no token, nothing asks how long it lives."
    ),
    "web: _FEW = 8 -> _FEW = 9": ("How many requests are received at the same time is not promised."),
    "app.FireCron._stop: if self._started_in == os.getpid(): -> if True:": (
        "What another process has started counts as not started in any case."
    ),
    "instants.doubt: if not isinstance(duration, int | float) or duration < _HOUR: -> if not "
    "isinstance(duration, int | float) or duration <= _HOUR:": (
        "An hour in seconds is no whole thousand, so it is not doubted either."
    ),
    "doctor.examine: database = Database(settings=settings) if crons is None else crons.database -> "
    "database = Database() if crons is None else crons.database": (
        "A LockService without settings loads the same ones."
    ),
    'doctor.Examination._writing: writes_elsewhere = self._is_written(self._name, NULL_ETAG, {"probe": True}) -> '
    'writes_elsewhere = self._is_written(self._name, NULL_ETAG, {"probe": False})': (
        "Any node shows whether the rules let it be written."
    ),
    'doctor.Examination._takes_live_lock: other = {**held.node, "holder": "somebody-else", "acquiredAt": '
    'held.node["acquiredAt"] + 1} -> other = {**held.node, "holder": "somebody-else", "acquiredAt": '
    'held.node["acquiredAt"] - 1}': ("Any other holder's node shows whether the rules let it be written."),
    'doctor.Examination._takes_live_lock: other = {**held.node, "holder": "somebody-else", "acquiredAt": '
    'held.node["acquiredAt"] + 1} -> other = {**held.node, "holder": "somebody-else", "acquiredAt": '
    'held.node["acquiredAt"] + 2}': ("Any other holder's node shows whether the rules let it be written."),
    "operator.Operator._last_run: of_slot = [] if entry is None else [inspect_run(unfinished.slot, entry)] -> "
    "of_slot = [] if False else [inspect_run(unfinished.slot, entry)]": (
        "An entry that isn't there is malformed and of no slot, so it ends nothing."
    ),
    "operator.Operator._last_run: unfinished = None if lock is None else inspect_unfinished(lock, of_slot) -> "
    "unfinished = None if False else inspect_unfinished(lock, of_slot)": (
        "Where there is no lock, there is nothing unfinished."
    ),
    'views.inspect_lock: is_stuck = state in ("held", "minimum_hold") and current.is_stuck(now) -> is_stuck = '
    "current.is_stuck(now)": ("What expires so late is live, and so held or kept for its minimum."),
    'otel._Measures.hear: with self._lock: -> with __import__("contextlib").nullcontext():': (
        "One assignment is one step."
    ),
    'otel._Measures.hear: self._runs.add(count if isinstance(count, int) else 1, {"firecron.job": name, '
    '"firecron.outcome": outcome}) -> self._runs.add(count if True else 1, {"firecron.job": name, '
    '"firecron.outcome": outcome})': ("What is emitted as a count is a number."),
    'otel._Measures.hear: self._runs.add(count if isinstance(count, int) else 1, {"firecron.job": name, '
    '"firecron.outcome": outcome}) -> self._runs.add(count if isinstance(count, int) else 2, {"firecron.job": '
    'name, "firecron.outcome": outcome})': ("What is emitted as a count is a number."),
    'otel._Measures.forget: with self._lock: -> with __import__("contextlib").nullcontext():': (
        "A dictionary is cleared in one step."
    ),
    "startup._announce: record = logging.LogRecord(logger.name, level, __file__, 0, redacted(message), None, None)"
    " -> record = logging.LogRecord(logger.name, level, __file__, 1, redacted(message), None, None)": (
        "A line's number is not shown."
    ),
    'keeper.Keeper.leases: with self._changed: -> with __import__("contextlib").nullcontext():': (
        "A list is copied in one step."
    ),
    "process.CommandLine.run: watch = threading.Thread( target=self._watch, args=(group, lost, told, ended), "
    'name="firecron-watch", daemon=True ) -> watch = threading.Thread( target=self._watch, args=(group, lost, '
    "told, ended), daemon=True )": ("A thread's name is for people."),
    "database.Database.close: pool.shutdown(wait=False) -> nothing": (
        "Threads of a pool that nothing refers to any more end by themselves."
    ),
    "database.Database.off_loop: self._pools[purpose] = ThreadPoolExecutor(max_workers=16, "
    'thread_name_prefix=f"firecron-{purpose}") -> self._pools[purpose] = '
    "ThreadPoolExecutor(max_workers=16)": ("A thread's name is for people."),
    "ticker.Ticker.__init__: self.has_news = False -> nothing": (
        "The thread sets it before it works, and a call that wakes it as well."
    ),
    "ticker.Ticker.__init__: self._stops = 0 -> self._stops = 1": (
        "Two readings are compared, whatever it began with."
    ),
    "ticker.Ticker.stop: self._stops += 1 -> self._stops += 2": ("Two readings are compared, however far apart."),
    "database.Database.ended: elif left is not None and not is_entry_name(lease.name): -> "
    "elif (not is_entry_name(lease.name)):": ("What is known as nothing is not known, as where it is forgotten."),
    "runner.Runner.go_on: for _ in range(MOST_MISSED + MOST_CLAIMS + 1): -> for _ in range(MOST_MISSED + "
    "MOST_CLAIMS - 1):": ("There can't be that many rounds."),
    "runner.Runner.run_tick: for _ in range(MOST_MISSED + MOST_CLAIMS + 1): -> for _ in range(MOST_MISSED + "
    "MOST_CLAIMS - 1):": ("There can't be that many rounds."),
    "heartbeat.Heartbeat._begin_process: self._random = secrets.token_hex(3) -> self._random = secrets.token_hex(4)": (
        "How long it is is not promised."
    ),
    "heartbeat.Heartbeat._run: while self._thread is me and (left := self._beat_due - "
    "self._database.timing.mono()) > 0: -> while self._thread is me and (left := self._beat_due - "
    "self._database.timing.mono()) >= 0:": ("At the very instant it looks once more, and time goes on."),
    "heartbeat.Heartbeat._run: while self._thread is me and (left := self._beat_due - "
    "self._database.timing.mono()) > 0: -> while self._thread is me and (left := self._beat_due - "
    "self._database.timing.mono()) > 1:": ("A beat is not promised to the millisecond."),
    "texts._without_secrets: if word in lower: -> if True:": (
        "It saves a search: without the word the pattern finds nothing."
    ),
    'threads._Worker.__init__: self.thread = threading.Thread(target=run, args=(self,), name="firecron-worker", '
    "daemon=True) -> self.thread = threading.Thread(target=run, args=(self,), daemon=True)": (
        "A thread's name is for people."
    ),
    'process._not_started: why = "it is not executable" if isinstance(error, PermissionError) else '
    'error.strerror or str(error) -> why = "it is not executable" if isinstance(error, PermissionError) else '
    "error.strerror": ("What the system refuses always has its words."),
    "process.Signals.__enter__: self._wakes_before = signal.set_wakeup_fd(self._writes.fileno(), "
    "warn_on_full_buffer=False) -> self._wakes_before = signal.set_wakeup_fd(self._writes.fileno())": (
        "Nobody sends as many signals as fill it."
    ),
    "process.Signals.__enter__: self._wakes_before = signal.set_wakeup_fd(self._writes.fileno(), "
    "warn_on_full_buffer=False) -> self._wakes_before = signal.set_wakeup_fd(self._writes.fileno(), "
    "warn_on_full_buffer=True)": ("Nobody sends as many signals as fill it."),
    "cloud_logging.CloudHandler._prepared: if request is not None: -> if True:": (
        "No request is written for None, as for none at all."
    ),
    "cloud_logging.CloudHandler._ask: if project is not None: -> if True:": ("Nothing is what it knows until then."),
    "cloud_logging.CloudHandler._ask: if isinstance(one, CloudLoggingFilter): -> if True:": (
        "Other filters have no use for it."
    ),
    "words.Change._wall: return (self.at + offset).replace(tzinfo=None) -> return (self.at + offset).replace()": (
        "The zone is not shown."
    ),
    "words.special_nights: yield Change(at, before, after, _kind(schedule, line, at, is_forward=after > "
    "before), found) -> yield Change(at, before, after, _kind(schedule, line, at, is_forward=after >= before), "
    "found)": ("A change goes one way or the other."),
    "words._changes: while low < end: -> while low <= end:": ("What is found from the end on is after it."),
    "words._changes: if before != after: -> if True:": (
        "It saves a search: where the clocks don't change, no time is affected."
    ),
    "decorator.remember: return -> nothing": ("Nothing comes after it."),
    "blocks.Hold.__exit__: if lease is not None: -> if True:": ("Nothing is kept for None."),
    "blocks.while_held: was_asked_to = task is not None and task.cancelling() > 0 -> was_asked_to = "
    "(task.cancelling() > 0)": ("A coroutine that asyncio runs is in a task."),
    "blocks.while_held: if lease.lost and work.cancelled() and not was_asked_to: -> if lease.lost and (not "
    "was_asked_to):": ("What is raised here without a cancellation of this task is the work's."),
    "blocks.while_held: work.cancel() -> nothing": ("A task that is cancelled has cancelled the work that it awaits."),
    "transport._sent: with suppress(BrokenPipeError, ConnectionResetError): -> with "
    "suppress(ConnectionResetError, BrokenPipeError):": ("The order of the exceptions says nothing."),
    'transport.PlainConnection._begin: threading.Thread(target=work, name="firecron-connect", '
    "daemon=True).start() -> threading.Thread(target=work, daemon=True).start()": ("A thread's name is for people."),
    "settings._remedy: close = difflib.get_close_matches(name, known, n=1) -> close = "
    "difflib.get_close_matches(name, known)": ("Only the closest is used."),
    "settings._remedy: close = difflib.get_close_matches(name, known, n=1) -> close = "
    "difflib.get_close_matches(name, known, n=2)": ("Only the closest is used."),
    'settings._model.Model: model_config = SettingsConfigDict(env_prefix=VARIABLES, extra="forbid") -> '
    "model_config = SettingsConfigDict(env_prefix=VARIABLES)": ("What pydantic-settings does by itself."),
    "refusal.SignsOfLife.silent_since: last = max(seen, whole(record.acquiredAt or 0), whole(record.expiresAt) - "
    "ttl) -> last = max(seen, whole(record.acquiredAt or 1), whole(record.expiresAt) - ttl)": (
        "Nothing was seen as early as that."
    ),
    "handler.Handler._run: if slot is not None and is_future(slot, self._server_now(), "
    "self._database.margin): -> if slot is not None and is_future(slot, self._database.margin, "
    "self._server_now()):": ("The two are added."),
    'look.claimable: if due is not None and (due <= (record.slot or "") or not is_tick(schedule, due)): -> '
    "if due is not None and (due <= (record.slot) or not is_tick(schedule, due)):": (
        "As a claim has to see it, a record has a slot."
    ),
    'look._settled: start = max(to_milliseconds(str(seen.slot)), number(node.get("passed")) or 0) -> '
    'start = max(to_milliseconds(str(seen.slot)), number(node.get("passed")) or 1)': ("No tick is between the two."),
    "look._settled: return Written(after, tuple(entries)) if after != node else "
    'Later(number(node.get("nextAt")) or now) -> return Written(after, tuple(entries)) if after != node else '
    'Later(number(node.get("nextAt")))': ("A node that is as it would be written has a time."),
    "history.History._unfinished: return unfinished if isinstance(unfinished, str) else None -> return "
    "unfinished if True else None": ("It is only compared with ticks, and what is no text is none."),
    "history.History._write: if record is not None and record.releasedAt is None: -> if (record.releasedAt is None):": (
        "Without a record nothing is handed over to be written."
    ),
    "history.History._write: if record is not None and record.releasedAt is None: -> if (record is not None):": (
        "It saves a call: of a released record no silence is known."
    ),
    "history._replaced: return seen, cut_short(before, str(before.unfinished)) if before is not None and "
    "is_moot else None -> return seen, cut_short(before, str(before.unfinished)) if is_moot else None": (
        "What is moot was in a record."
    ),
    "execution.previous_slot: end = to_milliseconds(key[:_LENGTH]) if slot is None else to_milliseconds(slot) "
    "- 1 -> end = to_milliseconds(key[:_LENGTH]) if slot is None else to_milliseconds(slot) - 2": (
        "Ticks are whole seconds, so none lies within a millisecond of another."
    ),
    "execution.previous_slot: found = newest(schedule, 0, end, 1) -> found = newest(schedule, 1, end, 1)": (
        "In the first second of 1970 nobody asks."
    ),
    "execution.Execution.__init__: is_of_its_tick: bool = False -> is_of_its_tick: bool = True": (
        "The runner says it of each run."
    ),
    "execution.Execution.__init__: if make_steps is not None: -> if True:": ("None is what a run without steps has."),
    "execution.Unlocked.lost: if self._process is not self.database.process and not self._lost: -> if "
    "(self._process is not self.database.process):": ("Another flag is set as well, and shows the same."),
    "body.Body._call: if inspect.isawaitable(result): -> if True:": (
        "A sync function that has returned begins no step any more."
    ),
    "body.Body._jobs_own: if error is not None: -> if True:": (
        "What the job has raised comes out of the call, or what was raised after it: never nothing."
    ),
    'body.last_frames: lines = "".join(TracebackException.from_exception(error, '
    "compact=True).format()).splitlines() -> lines = "
    '"".join(TracebackException.from_exception(error).format()).splitlines()': (
        "It spares memory: the text is the same."
    ),
    'body.last_frames: lines = "".join(TracebackException.from_exception(error, '
    'compact=True).format()).splitlines() -> lines = "".join(TracebackException.from_exception(error, '
    "compact=False).format()).splitlines()": ("It spares memory: the text is the same."),
    "policy.between: paused = [Span(start - 1, last) for start, last in past_pauses(fields, end)] -> paused = "
    "[Span(start - 2, last) for start, last in past_pauses(fields, end)]": (
        "Ticks are whole seconds, so none lies within a millisecond of another."
    ),
    'policy.between: passed: list[tuple[Outcome, str | None, list[Span]]] = [ ("skipped", None, held(record, '
    'end, silent_since)), ("skipped", PAUSED, list(_within(unclaimed, paused))), ("missed", None, '
    "list(_within(unclaimed, _around(paused, end)))), ] -> passed: list[tuple[Outcome, str | None, "
    'list[Span]]] = [ ("skipped", None, held(record, end, silent_since)), ("skipped", PAUSED, '
    'list(_within(paused, unclaimed))), ("missed", None, list(_within(unclaimed, _around(paused, end)))), ]': (
        "What two lists have in common is the same from either side."
    ),
    'policy.between: passed: list[tuple[Outcome, str | None, list[Span]]] = [ ("skipped", None, held(record, '
    'end, silent_since)), ("skipped", PAUSED, list(_within(unclaimed, paused))), ("missed", None, '
    "list(_within(unclaimed, _around(paused, end)))), ] -> passed: list[tuple[Outcome, str | None, "
    'list[Span]]] = [ ("skipped", None, held(record, end, silent_since)), ("skipped", PAUSED, '
    'list(_within(unclaimed, paused))), ("missed", None, list(_within(_around(paused, end), unclaimed))), ]': (
        "What two lists have in common is the same from either side."
    ),
    "policy.owes_entries: return record.slot is not None and has_tick( options.schedule, "
    "to_milliseconds(record.slot), to_milliseconds(claim.slot) - 1 ) -> return record.slot is not None and "
    "has_tick( options.schedule, to_milliseconds(record.slot), to_milliseconds(claim.slot) - 2 )": (
        "Ticks are whole seconds, so none lies within a millisecond of another."
    ),
    "policy.was_held: spans = held(record, at + margin + 1) -> spans = held(record, at + margin + 2)": (
        "Either end is more than a margin after the instant."
    ),
    "policy.was_held: spans = [Span(int(record.acquiredAt or 0), freed_at(record))] -> spans = "
    "[Span(int(record.acquiredAt or 1), freed_at(record))]": ("Nothing was held as early as that."),
    "policy._around: start: int = 0 -> start: int = 1": ("No tick is as early as that."),
    "policy._within: if start < end: -> if True:": ("In a span without any time there is no tick."),
    "policy._within: if start < end: -> if start <= end:": ("In a span without any time there is no tick."),
    "lane.Attempt: had_others: bool = False -> had_others: bool = True": (
        "Only an attempt that looks back is asked, and of each of those it is said."
    ),
    "lane.Lane.is_busy: waits = self.current or self.look or self.line or self.open or self.unanswered -> waits = "
    "self.current or self.line or self.open or self.unanswered": (
        "A look waits only for another attempt, or for a place that is taken: either makes the lane busy."
    ),
    "lane.Lane.is_busy: waits = self.current or self.look or self.line or self.open or self.unanswered -> waits = "
    "self.current or self.look or self.open or self.unanswered": (
        "A tick stands in line only behind another attempt, or a place that is taken: either makes the lane busy."
    ),
    'lane.Lane._line_up: self.line.sort(key=lambda one: one.due or "") -> self.line.sort(key=lambda one: one.due)': (
        "What stands in line has a tick."
    ),
    "lanes.Lanes._judge: self.agenda.after((math.floor(found - now) + 2) / 1000, lambda: self._judge(open_tick, "
    "is_look=True)) -> self.agenda.after((math.floor(found - now) + 3) / 1000, lambda: self._judge(open_tick, "
    "is_look=True))": "A look is not promised to the millisecond.",
    'lanes.Lanes.replan: with self._lock: -> with __import__("contextlib").nullcontext():': (
        "It only reads, and plans once the lock is free again. A plan of an attempt that is not the current one is "
        "void; one that begins to wait meanwhile is planned anew by its worker."
    ),
    'lanes.Lanes.replan: if attempt is None or pending is None or lane.state != "waiting" or not pending.hears: -> if '
    '(pending is None) or (lane.state != "waiting") or (not pending.hears):': (
        "A claim is pending without an attempt only after a worker came, and then the lane's state is another one."
    ),
    "runner.Runner.go_on: self._lanes.play(Lane.leave, attempt) (#3) -> nothing": ("There can't be that many rounds."),
    "runner.Runner.go_on: self._lanes.play(Lane.leave, attempt) (#3) -> self._lanes.play(attempt, Lane.leave)": (
        "There can't be that many rounds."
    ),
    "runner.Runner.run_manually: with self._place_at_once(job, None, trigger) as attempt: -> with "
    "self._place_at_once(job, trigger, None) as attempt:": (
        "Of an attempt by hand that claims no tick nobody reads tick or trigger."
    ),
    "runner.Runner.cancel_previous: if due is None or not self.wants(job): -> if (not self.wants(job)):": (
        "What stands in line has a tick."
    ),
    "runner.Runner.cancel_previous: earlier = [run for run in runs if run.is_of_its_tick and run.slot is not "
    "None and run.slot < due] -> earlier = [run for run in runs if run.is_of_its_tick and (run.slot < due)]": (
        "What is of its tick has one."
    ),
    "runner.Runner.cancel_previous: leases = [run.lease for run in earlier if isinstance(run.lease, Lease)] -> "
    "leases = [run.lease for run in earlier if True]": ("A run that holds no lock leaves no tick unfinished."),
}
