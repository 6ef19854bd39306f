"""Places: which turn of a job may claim on this instance, and how many of its bodies run.

Of each job one turn claims at a time, and it occupies no thread while it waits for its next try. A newer tick takes
its pursuit over, token and all, because what could not be claimed until then is catch_up's. While the job's body runs,
no tick competes for it: it is skipped, or stands in line if ticks queue. In line is the newest alone; all of them, in
their order, only if they queue for a grace of their own.

    a tick comes while…        a place is free               all places are taken
    no turn claims             it claims                     it is skipped, or stands in line
    a turn waits to try        it goes on in its stead       it is skipped, or stands in line
    a turn is trying           it stands in line until that try has an answer
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from firecron.events import Events
from firecron.explorer import Job

if TYPE_CHECKING:
    from firecron.claiming import Pursuit, Wish
    from firecron.runner import Result


@dataclass(eq=False)
class Lane:
    """What one job does on this instance."""

    most: int
    keeps_all: bool
    bodies: int = 0
    claiming: Turn | None = None
    is_trying: bool = False
    line: deque[Turn] = field(default_factory=deque)


@dataclass(eq=False)
class Turn:
    """A wish to run a job, until it is fulfilled or has come to nothing; `results` is what came of it."""

    job: Job
    wish: Wish
    lane: Lane
    pursuit: Pursuit | None = None
    results: list[Result] = field(default_factory=list)
    is_over: bool = False


class Places:
    """The lanes of all jobs. `most` is how many bodies a job with overlap="allow" may have; `resume` is given the
    turns that are to go on.
    """

    def __init__(self, most: int, events: Events, resume: Callable[[Turn], None]) -> None:
        self._most = most
        self._events = events
        self._resume = resume
        self._lock = threading.Lock()
        self._lanes: dict[str, Lane] = {}

    def lane(self, job: Job) -> Lane:
        options = job.options
        with self._lock:
            if job.name not in self._lanes:
                most = self._most if options.overlap == "allow" else 1
                self._lanes[job.name] = Lane(most, options.overlap == "queue" and options.grace_given)
            return self._lanes[job.name]

    def enter(self, turn: Turn) -> bool:
        """Whether this turn is to try now; if not, it stands in line, or it is over."""
        with self._lock:
            lane = turn.lane
            other = None if lane.claiming is turn else lane.claiming
            if turn.is_over or self._lanes.get(turn.job.name) is not lane:
                return False
            if lane.bodies >= lane.most:
                if lane.claiming is turn:
                    lane.claiming = None  # a run by hand has come between its tries
                dropped = self._stand_in_line(turn) if turn.job.options.overlap == "queue" else turn
                why = "still runs on this instance"
            elif other is not None and (lane.is_trying or lane.keeps_all or not _is_newer(turn, other)):
                dropped = self._stand_in_line(turn)
                why = "goes on with a newer tick"
            else:
                if other is not None:
                    self._take_over(turn, other)
                lane.claiming, lane.is_trying = turn, True
                return True
            if dropped is not None:
                dropped.is_over = True
        if dropped is not None and dropped.wish.due is not None:
            message = f'"{dropped.job.name}" {why}, skipping its tick {dropped.wish.due}'
            self._events.emit("run.skipped", dropped.job.name, logging.INFO, message, slot=dropped.wish.due)
        return False

    def wait(self, turn: Turn) -> bool:
        """Its try had no answer that lasts. Whether it waits for another; if not, a newer turn does."""
        lane = turn.lane
        with self._lock:
            if lane.claiming is not turn:
                return False  # all were sent away meanwhile
            lane.is_trying = False
            if not lane.line or lane.keeps_all:
                return True
            newer = lane.claiming = lane.line.popleft()
            self._take_over(newer, turn)
        self._resume(newer)
        return False

    def begin(self, turn: Turn) -> None:
        """It has claimed, and its body begins."""
        self._leave_trying(turn, bodies=1)

    def give_up(self, turn: Turn) -> None:
        """It has its answer, and there is nothing to run."""
        self._leave_trying(turn, bodies=0)

    def end(self, turn: Turn, *, goes_on: bool) -> None:
        """Its body has ended; it may go on with a claim of the tick that it came for."""
        lane = turn.lane
        with self._lock:
            lane.bodies -= 1
            if goes_on and lane.claiming is None:
                lane.claiming, lane.is_trying = turn, False
                return
        self._call_next(lane)

    def begin_at_once(self, lane: Lane) -> bool:
        """A place for a run that somebody waits for; False if there is none."""
        with self._lock:
            has_place = lane.bodies < lane.most
            lane.bodies += has_place
        return has_place

    def end_at_once(self, lane: Lane) -> None:
        """That run has ended."""
        with self._lock:
            lane.bodies -= 1
        self._call_next(lane)

    def send_away(self) -> None:
        """Nobody claims any more: those that wait, for their next try or in line, are over."""
        with self._lock:
            for lane in self._lanes.values():
                waiting = [*lane.line] if lane.is_trying or lane.claiming is None else [*lane.line, lane.claiming]
                for turn in waiting:
                    turn.is_over = True
                lane.line.clear()
                if not lane.is_trying:
                    lane.claiming = None

    def after_fork(self) -> None:
        """In a forked child: nothing runs here, and what the parent has in hand is its own."""
        self._lock = threading.Lock()
        self.send_away()
        self._lanes = {}

    def _leave_trying(self, turn: Turn, *, bodies: int) -> None:
        lane = turn.lane
        with self._lock:
            lane.bodies += bodies
            if lane.claiming is turn:
                lane.claiming, lane.is_trying = None, False
        self._call_next(lane)

    def _call_next(self, lane: Lane) -> None:
        with self._lock:
            if lane.claiming is not None or not lane.line:
                return
            following = lane.claiming = lane.line.popleft()
        self._resume(following)

    def _stand_in_line(self, turn: Turn) -> Turn | None:
        """Put it in line; answers with whom there is no room for. Called under the lock."""
        line = turn.lane.line
        if turn.wish.due is None:
            return turn  # whoever stands there will look after what was left behind
        line.append(turn)
        if not turn.lane.keeps_all and len(line) > 1:
            first, second = line
            line.remove(oldest := min(first, second, key=lambda one: one.wish.due or ""))
            return oldest
        return None

    def _take_over(self, turn: Turn, other: Turn) -> None:
        turn.pursuit, other.is_over = other.pursuit, True


def _is_newer(turn: Turn, other: Turn) -> bool:
    due, others = turn.wish.due, other.wish.due
    return due is not None and (others is None or due > others)
