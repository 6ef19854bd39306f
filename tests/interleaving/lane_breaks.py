"""Deliberate breaks of the lanes: each is a text in a source and what stands there instead, and a case that finds it.

`tests.interleaving.lane_plays` has the cases. A break that no case finds is not here: it would show nothing. What
none finds, since something else makes up for it here, and which tests do (in `tests/unit/runs`):

    a hold is taken for no hold                       the runner looks at it again before its claim    test_lane
    a stop leaves an open tick                        the engine forgets the tickets, and these, too   test_lane
    a stop leaves a lock followed                     the engine closes all streams                    test_lanes_alone
    a worker goes on only with what it came for       it takes longer, with few workers for ever       test_lane
    what was heard during a try plans nothing         the next change of the lock does                 test_lanes_alone
    a try that hears nothing is put off               streams break off once in a case            test_claimer_follows
    a run that begins is not cancelled                the tick looks again until it finds it           test_lane
    an attempt of the parent has events in its child  the child's own lanes have nobody to call        test_lanes_alone
    a look for a run that died does not insist        another round would come: of recovery            test_lanes
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType, ModuleType
from typing import NamedTuple

from firecron.runs import claimer, lane, lanes, runner


class LaneBreak(NamedTuple):
    """What is broken, in which module, and the case in which the checker finds it."""

    what: str
    module: str
    old: str
    new: str
    case: str


_MODULES: dict[str, ModuleType] = {"lane": lane, "lanes": lanes, "claimer": claimer, "runner": runner}


@contextmanager
def broken(one: LaneBreak) -> Iterator[None]:
    """Give the functions of the module the code of the changed text, for as long as the block lasts."""
    module = _MODULES[one.module]
    path = str(module.__file__)
    text = Path(path).read_text("utf-8")
    assert text.count(one.old) == 1, f"{one.what}: the source has this text {text.count(one.old)} times"
    changed: dict[str, object] = {"__name__": module.__name__}
    exec(compile(text.replace(one.old, one.new), path, "exec", dont_inherit=True), changed)
    undo = []
    for name, thing in vars(module).items():
        if isinstance(thing, type) and thing.__module__ == module.__name__:
            for key, member in vars(thing).items():
                now, then = _function(member), _function(vars(changed[name]).get(key))
                if now is not None and then is not None and now.__code__ != then.__code__:
                    undo.append((now, now.__code__))
                    now.__code__ = then.__code__
    assert undo, f"{one.what}: no function is changed"
    try:
        yield
    finally:
        for function, code in undo:
            function.__code__ = code


def _function(member: object) -> FunctionType | None:
    found = getattr(member, "fget", member)
    return found if isinstance(found, FunctionType) and not found.__code__.co_freevars else None


LANE_BREAKS: tuple[LaneBreak, ...] = (
    LaneBreak(
        "two attempts of a job try at a time",
        "lane",
        ('self.state not in ("called", "holding"):\n            return []\n        if self.free'),
        ("False:\n            return []\n        if self.free"),
        "by hand",
    ),
    LaneBreak(
        "a worker takes an attempt that waits",
        "lane",
        ('self.state not in ("called", "holding"):\n            return []\n        if'),
        ('self.state == "trying":\n            return []\n        if'),
        "a request is lost",
    ),
    LaneBreak(
        "a run by hand does not take the place of an attempt between two tries",
        "lane",
        ("        if self.free <= 0:\n            self.current = None"),
        ("        if False:\n            self.current = None"),
        "overlap",
    ),
    LaneBreak(
        "an attempt whose place was taken is lost",
        "lane",
        ("return [*self._line_up(attempt), *self.settle()]\n        self.state"),
        ("return self.settle()\n        self.state"),
        "by hand",
    ),
    LaneBreak(
        "an attempt that is over tries",
        "lane",
        'if self.current is not attempt or self.state not in ("called", "holding"):',
        'if self.state not in ("called", "holding"):',
        "by hand",
    ),
    LaneBreak(
        "a wait forgets the claim",
        "lane",
        'self.state, self.pending = "waiting", pending',
        'self.state, self.pending = "waiting", None',
        "a request is lost",
    ),
    LaneBreak(
        "what waits counts as trying",
        "lane",
        'self.state, self.pending = "waiting", pending',
        "self.pending = pending",
        "a request is lost",
    ),
    LaneBreak(
        "nobody is called when the time has come",
        "lane",
        ('self.state = "called"\n        return [LaneCommand("call", attempt)]'),
        'return [LaneCommand("call", attempt)]',
        "a request is lost",
    ),
    LaneBreak(
        "what holds is not called",
        "lane",
        'self.state not in ("waiting", "holding") or',
        'self.state != "waiting" or',
        "a fork",
    ),
    LaneBreak(
        "a run that begins keeps its claim",
        "lane",
        "self.current = self.pending = None",
        "self.current = None",
        "a request is lost",
    ),
    LaneBreak(
        "a run that begins stays the current attempt",
        "lane",
        "return [*self.leave(attempt), *self._cancel(self.line)]",
        "return self.settle()",
        "by hand",
    ),
    LaneBreak(
        "a run takes no place",
        "lane",
        ("        self.running.add(attempt)\n        self.look = None"),
        "        self.look = None",
        "overlap",
    ),
    LaneBreak(
        "a run that has ended keeps its place",
        "lane",
        ("        self.running.discard(attempt)\n        commands:"),
        "        commands:",
        "by hand",
    ),
    LaneBreak(
        "an attempt that goes on is forgotten",
        "lane",
        ('            self.current, self.state = attempt, "holding" if holds else "called"\n'),
        ("            pass\n"),
        "a reply is lost",
    ),
    LaneBreak(
        "an attempt that goes on displaces the current one",
        "lane",
        "if goes_on and self.current is None:",
        "if goes_on:",
        "overlap, two places",
    ),
    LaneBreak(
        "a hold is not noted",
        "lane",
        '        self.state = "holding"\n',
        "",
        "a fork",
    ),
    LaneBreak(
        "an unwanted attempt that tries is dropped",
        "lane",
        'if self.current is not attempt or self.state == "trying":',
        "if self.current is not attempt:",
        "a pause",
    ),
    LaneBreak(
        "an unwanted attempt stays",
        "lane",
        ("        self.current = None\n        told"),
        "        told",
        "a stop",
    ),
    LaneBreak(
        "an unwanted tick is not told of",
        "lane",
        "return [told, *self._drop_claim([told]), *self.settle()]",
        "return [*self._drop_claim([told]), *self.settle()]",
        "a pause",
    ),
    LaneBreak(
        "an unwanted attempt's claim stays pending",
        "lane",
        "return [told, *self._drop_claim([told]), *self.settle()]",
        "return [told, *self.settle()]",
        "a stop",
    ),
    LaneBreak(
        "a reserved place is not counted",
        "lane",
        " - len(self.running) - len(self.reserved)",
        " - len(self.running)",
        "overlap",
    ),
    LaneBreak(
        "one run too many has a place",
        "lane",
        " - len(self.running) - len(self.reserved)",
        " - len(self.running) - len(self.reserved) + 1",
        "overlap",
    ),
    LaneBreak(
        "an attempt that tries without a lock has no place",
        "lane",
        "(self.is_trying and not self.options.has_lease)",
        "0",
        "overlap",
    ),
    LaneBreak(
        "a run by hand leaves nobody called",
        "lane",
        ("        self.reserved.discard(attempt)\n        return self.settle()\n\n    # --- the rest"),
        ("        self.reserved.discard(attempt)\n        return []\n\n    # --- the rest"),
        "a request is lost",
    ),
    LaneBreak(
        "a run by hand keeps its place",
        "lane",
        ('"""A run by hand is over. Further calls change nothing."""\n        self.running.discard(attempt)'),
        '"""A run by hand is over. Further calls change nothing."""',
        "by hand",
    ),
    LaneBreak(
        "a reservation is kept",
        "lane",
        ("        self.running.discard(attempt)\n        self.reserved.discard(attempt)"),
        "        self.running.discard(attempt)",
        "by hand",
    ),
    LaneBreak(
        "a stop leaves the line",
        "lane",
        ("        self.line.clear()\n        self.open"),
        "        self.open",
        "a stop",
    ),
    LaneBreak(
        "a stop leaves the current attempt",
        "lane",
        "pending, self.current, self.pending = self.pending, None, None",
        "pending, self.pending = self.pending, None",
        "a stop",
    ),
    LaneBreak(
        "a stop takes the lane from an attempt that tries",
        "lane",
        ("        if self.is_trying:\n            return None\n        pending"),
        "        pending",
        "a stop",
    ),
    LaneBreak(
        "a look is made again and again",
        "lane",
        'self.current, self.look, self.state = self.look, None, "called"',
        'self.current, self.state = self.look, "called"',
        "looks",
    ),
    LaneBreak(
        "a newer tick takes the place of one that tries",
        "lane",
        'if self.state == "trying" or self.options.keeps_all_waiting',
        "if self.options.keeps_all_waiting",
        "by hand",
    ),
    LaneBreak(
        "a tick that is displaced is not told of",
        "lane",
        "elif not self._has_tried(self.current):",
        "elif False:",
        "by hand",
    ),
    LaneBreak(
        "a tick whose claim is taken over is told of twice",
        "lane",
        "elif not self._has_tried(self.current):",
        "else:",
        "a request is lost",
    ),
    LaneBreak(
        "a minimum hold is forgotten before a claim",
        "runner",
        "if (left := self._hold_left(attempt)) > 0:",
        "if False:",
        "a minimum hold",
    ),
    LaneBreak(
        "a void plan calls",
        "lane",
        " or attempt.plan is not plan:",
        ":",
        "held",
    ),
    LaneBreak(
        "a stop leaves the look",
        "lane",
        "self.open = self.look = self.looks_at = None",
        "self.open = self.looks_at = None",
        "held, a stop",
    ),
    LaneBreak(
        "a stop leaves it planned that a job is looked at",
        "lane",
        "self.open = self.look = self.looks_at = None",
        "self.open = self.look = None",
        "held, a stop",
    ),
    LaneBreak(
        "a look that gives way is forgotten",
        "lane",
        "                self.look = self.current\n",
        "                pass\n",
        "a look, by hand",
    ),
    LaneBreak(
        "a look that comes behind others is forgotten",
        "lane",
        "            self.look = attempt\n            return []",
        "            return []",
        "a look, by hand",
    ),
    LaneBreak(
        "the line is in no order",
        "lane",
        '        self.line.sort(key=lambda one: one.due or "")\n',
        "",
        "held, all queue",
    ),
    LaneBreak(
        "a newer tick takes the place of one that queues for long",
        "lane",
        "        if self.options.keeps_all_waiting:\n            return []\n        *older",
        "        *older",
        "held, all queue",
    ),
    LaneBreak(
        "a tick that is displaced in line is not told of",
        "lane",
        'return [LaneCommand("skip", one, NEWER) for one in older if not self._has_tried(one)]',
        "return []",
        "by hand",
    ),
    LaneBreak(
        "a tick whose claim is dropped is told of twice",
        "lane",
        "*([] if is_told else [LaneCommand(",
        "*([LaneCommand(",
        "a request is lost",
    ),
    LaneBreak(
        "a tick whose claim was taken over is not told of",
        "lane",
        "any(command.what is pending.attempt for command in told)",
        "True",
        "overlap",
    ),
    LaneBreak(
        "a run by hand without a lock costs the tick",
        "lane",
        "(holds or self.free + len(self.reserved) <= 0)",
        "(holds or self.free <= 0)",
        "by tick, without an answer",
    ),
    LaneBreak(
        "a tick that queues is skipped behind a run",
        "lane",
        "if self.options.waits or not (holds",
        "if not (holds",
        "cancel here",
    ),
    LaneBreak(
        "a claim with which nobody goes on stays pending",
        "lane",
        "return commands if holds else [*commands, *self._drop_claim(commands)]",
        "return commands",
        "a request is lost",
    ),
    LaneBreak(
        "a claim has no token but its own try's",
        "runner",
        "            pending = attempt.lane.pending\n",
        "            pending = None\n",
        "a request is lost",
    ),
    LaneBreak(
        "a claim that is taken over stays for the older tick",
        "runner",
        "            elif pending.attempt is not attempt:\n                self._claimer.retarget(pending, attempt)\n",
        "",
        "a request is lost",
    ),
    LaneBreak(
        "a tick in doubt is forgotten",
        "claimer",
        "            pending.in_doubt.append((due, refusal))\n",
        "            pass\n",
        "a request is lost",
    ),
    LaneBreak(
        "a try comes after the grace is over",
        "lanes",
        "max(0.0, min(seconds, pending.seconds_left(now)))",
        "max(0.0, seconds)",
        "two that queue",
    ),
    LaneBreak(
        "a tick does not cancel the run that it stands in line for",
        "lane",
        "[*commands, *self._cancel([attempt])]",
        "commands",
        "cancel here",
    ),
    LaneBreak(
        "a tick that is not wanted any more leaves nobody called",
        "lane",
        "*self._drop_claim([told]), *self.settle()]",
        "*self._drop_claim([told])]",
        "queue all, a pause",
    ),
    LaneBreak(
        "a claim is followed on for nobody",
        "claimer",
        "            if not isinstance(answer, float):\n                pending.unfollow()\n",
        "            pass\n",
        "held",
    ),
    LaneBreak(
        "what was stopped calls a worker",
        "lanes",
        "        if not self.stopping:\n            self._crew",
        "        if True:\n            self._crew",
        "a stop, two places",
    ),
    LaneBreak(
        "what tried at a stop waits on",
        "lanes",
        "        if self.stopping:\n            self.play(Lane.drop",
        "        if False:\n            self.play(Lane.drop",
        "held, a stop while it queues",
    ),
    LaneBreak(
        "an open tick is asked for twice",
        "lanes",
        "            if attempt.lane.open is not open_tick:\n                return\n",
        "",
        "tickets",
    ),
    LaneBreak(
        "what is asked for stays open",
        "lanes",
        "            if isinstance(found, str):\n                attempt.lane.open = None\n",
        "",
        "tickets",
    ),
    LaneBreak(
        "two calls share the claim that got no answer",
        "lanes",
        "pending, lane.unanswered = lane.unanswered, None",
        "pending = lane.unanswered",
        "by tick, without an answer",
    ),
    LaneBreak(
        "an older tick keeps its place before a newer one",
        "lane",
        'return (self.due or "") > (other.due or "")',
        'return (self.due or "") < (other.due or "")',
        "a request is lost",
    ),
    LaneBreak(
        "a tick comes after a stop",
        "lanes",
        "commands = [] if self.stopping else attempt.lane.stand(attempt)",
        "commands = attempt.lane.stand(attempt)",
        "a stop, each step",
    ),
    LaneBreak(
        "a lock is looked at once and never again",
        "lanes",
        "                lane.looks_at = None\n",
        "                pass\n",
        "held, a stop",
    ),
    LaneBreak(
        "what is put back in line stays the current attempt",
        "lane",
        "            self.current = None  # a run by hand took the place\n",
        "",
        "by hand",
    ),
    LaneBreak(
        "a grace is that of the tick before",
        "lane",
        "        self.ends = None\n        self.tries = 0\n",
        "        self.tries = 0\n",
        "held",
    ),
)
