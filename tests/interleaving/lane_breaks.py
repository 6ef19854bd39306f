"""Deliberate breaks of the lanes: each is a text in a source and what stands there instead, and a case that finds it.

`tests.interleaving.lane_plays` has the cases. A break that no case finds is not here: it would show nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType, ModuleType
from typing import NamedTuple

from firecron.runs import lane, lanes


class LaneBreak(NamedTuple):
    """What is broken, in which module, and the case in which the checker finds it."""

    what: str
    module: str
    old: str
    new: str
    case: str


_MODULES: dict[str, ModuleType] = {"lane": lane, "lanes": lanes}


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
        "elif not self.current.has_tried:",
        "elif False:",
        "by hand",
    ),
    LaneBreak(
        "a tick whose claim is taken over is told of twice",
        "lane",
        "elif not self.current.has_tried:",
        "else:",
        "a request is lost",
    ),
)
