"""Places: which turn of a job may claim on this instance, and how many of its bodies run.

Of each job one turn is at it at a time: called to try, trying, or waiting for its next try (and then it occupies no
thread). The others stand in line. Whenever something has changed, the lane is settled:

    nobody is at it, a place is free          the first in line is called
    nobody is at it, a body runs              who is in line stays there if ticks queue, else they are skipped
    a turn is called or waits, a newer comes  the newer one goes on with its pursuit, token and all, because what could
                                              not be claimed until then is catch_up's
    a turn tries                              who is in line waits for its answer

In line is the newest alone; all of them, in the order of their ticks, if they queue for a grace of their own. A look (a
turn without a tick: for a run that died, or ticks that were missed) comes after all of them. One is enough, and none is
needed once a body begins: its claim has looked.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from firecron.base.events import Events
from firecron.jobs.job import Job

if TYPE_CHECKING:
    from firecron.jobs.result import Result
    from firecron.runs.claimer import Pursuit, Wish

State: TypeAlias = Literal["called", "trying", "waiting"]


@dataclass(eq=False)
class Turn:
    """A wish to run a job, until it is fulfilled or has come to nothing; `results` is what came of it."""

    job: Job
    wish: Wish
    lane: Lane
    pursuit: Pursuit | None = None
    results: list[Result] = field(default_factory=list)
    has_entered: bool = False


@dataclass(eq=False)
class Lane:
    """What one job does on this instance. A place is taken by a body that runs, of a turn or of a run by hand, or it is
    reserved for a run by hand that has no lock yet. Both are sets: to leave a place twice is to leave it once.
    """

    most: int = 1
    queues: bool = False
    keeps_all: bool = False
    running: set[Turn | Place] = field(default_factory=set)
    reserved: set[Place] = field(default_factory=set)
    at_it: Turn | None = None
    state: State = "called"
    line: list[Turn] = field(default_factory=list)
    look: Turn | None = None

    @property
    def is_full(self) -> bool:
        return len(self.running) + len(self.reserved) >= self.most


@dataclass(eq=False)
class Place:
    """A place for a run by hand. The run makes it before it reserves it, so that it can be left at any moment."""

    lane: Lane


class Agenda(Protocol):
    """What is to be done, and when. No method blocks."""

    def submit(self, turn: Turn) -> None:
        """Have a worker go on with the turn."""

    def at(self, instant: int, call: Callable[[], None]) -> None:
        """Call this when RTDB's clock shows the instant; the call must not block."""


class Places:
    """The lanes of all jobs. `most` is how many bodies a job with overlap="allow" may have; turns that are called are
    submitted to the `agenda`.
    """

    def __init__(self, most: int, events: Events, agenda: Agenda) -> None:
        self._most = most
        self._events = events
        self._agenda = agenda
        self._lock = threading.Lock()
        self._lanes: dict[str, Lane] = {}

    def lane(self, job: Job) -> Lane:
        options = job.options
        with self._lock:
            lane = self._lanes.setdefault(job.name, Lane())
            lane.most = self._most if options.overlap == "allow" else 1
            lane.queues = options.overlap == "queue"
            lane.keeps_all = lane.queues and options.grace_given
        return lane

    def enter(self, turn: Turn) -> bool:
        """Whether this turn is to try now; if not, it stands in line, or it is over."""
        lane, dropped = turn.lane, _Dropped()
        with self._lock:
            if self._lanes.get(turn.job.name) is not lane:
                return False  # it is the parent's, of a process that has forked
            if not turn.has_entered:
                turn.has_entered = True
                self._stand_in_line(turn, dropped)
            elif lane.at_it is turn and lane.is_full:
                lane.at_it = None  # a run by hand has come between its tries
                self._stand_in_line(turn, dropped)
            called = self._settle(lane, dropped)
            is_its_turn = lane.at_it is turn and lane.state != "trying"
            if is_its_turn:
                lane.state = "trying"
        self._tell(dropped)
        if called is not None and called is not turn:
            self._agenda.submit(called)
        return is_its_turn

    def is_open(self, turn: Turn) -> bool:
        """Whether it is still to try: it has not come yet, or its lane is waiting for it."""
        return not turn.has_entered or turn.lane.at_it is turn

    def wait(self, turn: Turn) -> bool:
        """Its try had no answer that lasts. Whether it waits for another; if not, a newer turn does."""
        with self._lock:
            if turn.lane.at_it is turn:
                turn.lane.state = "waiting"
        self._go_on(turn.lane)
        return turn.lane.at_it is turn

    def begin(self, turn: Turn) -> None:
        """It has claimed, and its body begins."""
        lane = turn.lane
        with self._lock:
            lane.running.add(turn)
            lane.look = None
            _make_room(turn)
        self._go_on(lane)

    def give_up(self, turn: Turn) -> None:
        """There is nothing to run for it."""
        with self._lock:
            _make_room(turn)
        self._go_on(turn.lane)

    def end(self, turn: Turn, *, goes_on: bool) -> None:
        """Its body has ended; it may go on with another claim, before all who stand in line."""
        lane, dropped = turn.lane, _Dropped()
        with self._lock:
            lane.running.discard(turn)
            if goes_on and lane.at_it is None:
                lane.at_it, lane.state = turn, "called"
            elif goes_on:
                self._stand_in_line(turn, dropped)
        self._tell(dropped)
        self._go_on(lane)

    def reserve(self, place: Place) -> bool:
        """Reserve the place for a run by hand, before it has its lock. Returns whether there is one."""
        lane = place.lane
        with self._lock:
            if lane.is_full:
                return False
            lane.reserved.add(place)
        return True

    def occupy(self, place: Place) -> None:
        """The run by hand has its lock, and its body begins. Once is enough for all its bodies."""
        lane = place.lane
        with self._lock:
            lane.running.add(place)
            lane.reserved.discard(place)
        self._go_on(lane)

    def vacate(self, place: Place, *, again: bool = False) -> None:
        """The run by hand is over. `again`: a first call may have been interrupted at any line."""
        lane = place.lane
        with self._lock:
            lane.running.discard(place)
            lane.reserved.discard(place)
        self._go_on(lane, again=again)

    def send_away(self) -> None:
        """Nobody is called, waits, or stands in line any more. Who tries just now comes to an end by itself."""
        with self._lock:
            for lane in self._lanes.values():
                lane.line.clear()
                lane.look = None
                if lane.state != "trying":
                    lane.at_it = None

    def after_fork(self) -> None:
        """In a forked child: nothing runs here, and what the parent has in hand is its own."""
        self._lock = threading.Lock()
        self.send_away()
        self._lanes = {}

    def _go_on(self, lane: Lane, *, again: bool = False) -> None:
        dropped = _Dropped()
        with self._lock:
            called = self._settle(lane, dropped)
            if again and called is None and lane.state == "called":
                called = lane.at_it  # perhaps not resumed yet; to be resumed twice does no harm
        self._tell(dropped)
        if called is not None:
            self._agenda.submit(called)

    def _settle(self, lane: Lane, dropped: _Dropped) -> Turn | None:
        """Who is called by what has changed, if anybody is. Called under the lock."""
        if not lane.line:
            if lane.look is None or lane.at_it is not None or lane.is_full:
                return None
            lane.at_it, lane.look, lane.state = lane.look, None, "called"
            return lane.at_it
        first = lane.line[0]
        if lane.at_it is not None:
            if lane.state == "trying" or lane.keeps_all or not _is_newer(first, lane.at_it):
                return None
            # One that has not tried for its tick yet has said nothing of it, and never will.
            if not _has_tried(lane.at_it):
                dropped.overtaken.append(lane.at_it)
            first.pursuit = lane.at_it.pursuit
        elif lane.is_full:
            if not lane.queues and len(lane.running) >= lane.most:
                dropped.running += lane.line
                lane.line.clear()
            return None
        lane.at_it, lane.state = lane.line.pop(0), "called"
        return first

    def _stand_in_line(self, turn: Turn, dropped: _Dropped) -> None:
        line = turn.lane.line
        if turn.wish.due is None:
            # Not dropped: a turn ahead of it may be given up without another try.
            turn.lane.look = turn
            return
        line.append(turn)
        line.sort(key=lambda one: one.wish.due or "")
        if not turn.lane.keeps_all:
            *older, kept = line
            heir = next((one for one in older if one.pursuit is not None), None)
            if heir is not None and kept.pursuit is None:
                # With its token: a write whose reply was lost may still become a win. Its tick is told of then.
                kept.pursuit = heir.pursuit
                older = [one for one in older if one is not heir or not _has_tried(one)]
            dropped.overtaken += older
            del line[:-1]

    def _tell(self, dropped: _Dropped) -> None:
        for turns, why in ((dropped.running, "still runs on this instance"), (dropped.overtaken, "has a newer tick")):
            for turn in turns:
                if turn.wish.due is not None and not turn.wish.looks_back:
                    message = f'"{turn.job.name}" {why}, skipping its tick {turn.wish.due}'
                    self._events.emit("run.skipped", turn.job.name, logging.INFO, message, slot=turn.wish.due)


@dataclass(eq=False)
class _Dropped:
    """Turns that are over before they could try: the job's body runs, or a newer tick has come."""

    running: list[Turn] = field(default_factory=list)
    overtaken: list[Turn] = field(default_factory=list)


def _make_room(turn: Turn) -> None:
    """Let another turn be at it. Called under the lock."""
    if turn.lane.at_it is turn:
        turn.lane.at_it = None


def _has_tried(turn: Turn) -> bool:
    """Whether it has tried for its own tick, and not only been given the pursuit of another."""
    return turn.pursuit is not None and turn.pursuit.wish is turn.wish


def _is_newer(turn: Turn, other: Turn) -> bool:
    due, others = turn.wish.due, other.wish.due
    return due is not None and (others is None or due > others)
