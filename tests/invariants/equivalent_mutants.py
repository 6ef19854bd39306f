"""Mutants that change nothing that can be seen, and why: `tests.mutations` leaves them out.

Each is a mutant as `tests.mutations` shows it: where it is, and what it makes of which text. One that no longer fits
the sources fails a test.
"""

from __future__ import annotations

EQUIVALENT: dict[str, str] = {
    "probe.may_read: with transport.session(1) as session: -> with transport.session(2) as session:": (
        "One request is sent, so there is one connection."
    ),
    "body.Body._await: with concurrent.futures.ThreadPoolExecutor(1) as elsewhere: -> with "
    "concurrent.futures.ThreadPoolExecutor(2) as elsewhere:": "It is given one thing to do.",
    "body.Body._await_on: return interrupt -> return None": "It is kept as what the job raised, which goes first.",
    'body.Body._begin: with self._lock: -> with __import__("contextlib").nullcontext():': (
        "It writes before it reads, as `cancel` does; and what has not begun may be cancelled twice."
    ),
    "bookkeeper.Bookkeeper._write: return -> nothing": "Nothing comes after it.",
    "line: _SOME_DAY = datetime(2024, 1, 1) -> _SOME_DAY = datetime(2024, 1, 2)": (
        "Each reading sets the time that it begins with."
    ),
    "line: _SOME_DAY = datetime(2024, 1, 1) -> _SOME_DAY = datetime(2024, 2, 1)": (
        "Each reading sets the time that it begins with."
    ),
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
    "keeper.Keeper._attend: return (#4) -> nothing": "What is forgotten is not attended to again.",
    'off_loop.on_new_thread: threading.Thread(target=call, name="firecron-call", daemon=False).start() -> '
    "threading.Thread(target=call, daemon=False).start()": "A thread's name is for people.",
    "execution.Performer._release: is_over: bool = False -> is_over: bool = True": (
        "What is cut short has stopped, and only what was lost is asked whether it is over."
    ),
    'execution.Performer.active: with self._lock: -> with __import__("contextlib").nullcontext():': (
        "A list is copied in one step."
    ),
    'outstanding.Outstanding.add: with self.changed: -> with __import__("contextlib").nullcontext():': (
        "A set takes one more in one step."
    ),
    "process_group.ProcessGroup.send: with suppress(ProcessLookupError, PermissionError): -> with "
    "suppress(PermissionError, ProcessLookupError):": "The order of the exceptions says nothing.",
    "runner.Runner.go_on: for _ in range(MOST_MISSED + MOST_CLAIMS + 1): -> for _ in range(MOST_MISSED + "
    "MOST_CLAIMS + 2):": "There can't be that many rounds.",
    "runner.Runner.go_on: if is_last: -> if False:": "A turn that is over does not enter again.",
    "runner.Runner.go_on: self._lanes.give_up(turn) (#2) -> nothing": (
        "There can't be so many rounds that it is reached."
    ),
    "runner.Runner.run_tick: for _ in range(MOST_MISSED + MOST_CLAIMS + 1): -> for _ in range(MOST_MISSED + "
    "MOST_CLAIMS + 2):": "There can't be that many rounds.",
    'runner.Runner.run_tick: raise AssertionError(f"{job.name}: more claims before {slot} than there can be") '
    "-> nothing": "There can't be so many rounds that it is reached.",
    "runner._fence: return int(fence) if claimed.bid.request.fenced and fence is not None else None -> return "
    "int(fence) if claimed.bid.request.fenced else None": "A claim that asked for a fence has one.",
    "signals.Signals._note: self.wake() -> nothing": "Python's own wake-up has ended the pause.",
    "signals.Signals.pause: if self.received is None: -> if True:": "What has woken it is still there to be read.",
    "signals._those_there_are: return tuple(signal.Signals[name] for name in names if name in "
    "signal.Signals.__members__) -> return tuple(signal.Signals[name] for name in names if True)": (
        "Only Windows lacks one."
    ),
    "ticker.Ticker.__init__: self.has_news = False -> self.has_news = True": "The thread sets it before it works.",
    "ticker.Ticker._hand_over: found = newest(options.schedule, to_milliseconds(tick.slot), now.server, 1) -> found = "
    "newest(options.schedule, to_milliseconds(tick.slot), now.server, 2)": "The last of them is taken.",
    "ticker.Ticker._hand_over: return tick.slot -> return None": "Without an answer it goes on from that very tick.",
    "ticker.Ticker._run: seconds = backoff(8, self._chance()) -> seconds = backoff(9, self._chance())": (
        "Neither pause can be longer than the longest."
    ),
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
    "ticker.Ticker.after: self.at(0 if moment is None else moment.server + round(seconds * 1000), call) -> "
    "self.at(1 if moment is None else moment.server + round(seconds * 1000), call)": "Both instants are long past.",
    "ticker.Ticker.stop: self._planned.clear() -> nothing": "The ticks with those numbers are gone.",
    'ticker.Ticker.work: with self._changed: -> with __import__("contextlib").nullcontext():': (
        "What it writes too late is a time to come, so that nothing is late; and a start forgets it."
    ),
}
