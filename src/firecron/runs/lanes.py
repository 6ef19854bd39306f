"""Lanes: they decide which turn of a job may claim on this instance, and how many runs of the job go on at a time.

At most one turn per job tries to claim at a time: the lane's current turn. Its state is "called" (a worker is to call
it), "trying", or, without a thread, "waiting" for its next try or "holding" the lock: the minimum hold of its last run
is not over. The other turns stand in line. After each change the lane is settled:

    no current turn, a place is free            the first in line becomes the current turn, and is called
    no current turn, all places are taken       the line stays if ticks queue; else its ticks are skipped
    the current turn holds the lock             the same, for the lock is held as it is by a run
    the current turn is called or waits,        the newer turn becomes the current one and takes over the pending
    and a newer one comes                       claim, token and all; catch_up runs what was not claimed until then
    the current turn tries                      the line waits for the answer

A tick's turn comes here as the tick comes, before it has a worker. Only the newest turn stays in line. If ticks queue
and each has a grace of its own, all turns stay, in the order of their ticks. A look is a turn without a tick: it looks
for a run that died and for missed ticks. It comes after all turns in line. One look is enough. Once a run begins no
look is needed, because the run's claim has looked.

Each instance reports the ticks that it skips or misses itself, at that time: only this module emits `run.skipped` and
`run.missed`. The bookkeeper reports the ticks that no instance ran.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field

from firecron.base.events import Events
from firecron.base.flag import in_each_process
from firecron.jobs.job import Job
from firecron.lock.database import Database
from firecron.runs.turn import Agenda, Lane, Place, Turn


class Lanes:
    """The lanes of all jobs.

    A job with overlap="allow" may have `max_concurrent` runs at a time. The `agenda` gets each turn that is called.
    """

    def __init__(self, database: Database, agenda: Agenda) -> None:
        self._most = database.settings.max_concurrent
        self._events = database.events
        self._agenda = agenda
        self._lanes: dict[str, Lane] = {}
        in_each_process(self._begin_process)

    def _begin_process(self) -> None:
        """Begin without lanes. In a forked child none of the parent's turns is called."""
        self._lock = threading.Lock()
        self.clear()
        self._lanes = {}

    def lane(self, job: Job) -> Lane:
        options = job.options
        with self._lock:
            lane = self._lanes.setdefault(job.name, Lane())
            lane.most = options.places(self._most)
            lane.queues = options.waits
            lane.keeps_all = options.keeps_all_waiting
        return lane

    def line_up(self, turn: Turn) -> None:
        """Take the turn as its tick comes, and call a worker if it has something to do.

        A tick that comes while its job runs here is skipped now, not judged once a worker is free. Of ticks that wait
        for a worker only the newest tries.
        """
        lane, dropped = turn.lane, _Dropped()
        with self._lock:
            turn.has_entered = True
            self._stand_in_line(turn, dropped)
            called = self._settle(lane, dropped)
            if called is None and turn.job.options.cancels_previous and turn in lane.line:
                called = turn  # it doesn't try yet: it asks the run before it to end
        self._report(dropped)
        if called is not None:
            self._agenda.submit(called)

    def heir(self, turn: Turn) -> Turn:
        """Return the turn that a worker is to go on with, which has come to this turn: mostly this turn itself.

        If a newer turn has taken its place and was called, too, it is the newer one. Else ticks that come faster than
        workers are free would displace each other at the end of the workers' queue for ever.
        """
        lane = turn.lane
        with self._lock:
            is_over = turn.has_entered and lane.current is not turn and turn not in lane.line
            return lane.current if is_over and lane.current is not None and lane.state == "called" else turn

    def enter(self, turn: Turn) -> bool:
        """Return whether this turn tries now. If not, it stands in line or is over."""
        lane, dropped = turn.lane, _Dropped()
        with self._lock:
            if self._lanes.get(turn.job.name) is not lane:
                return False  # this process is a forked child, and the turn is the parent's
            if not turn.has_entered:
                turn.has_entered = True
                self._stand_in_line(turn, dropped)
            elif lane.current is turn and lane.is_full:
                lane.current = None  # a run by hand took the place between two of its tries
                self._stand_in_line(turn, dropped)
            called = self._settle(lane, dropped)
            is_its_turn = lane.current is turn and lane.state != "trying"
            if is_its_turn:
                lane.state = "trying"
        self._report(dropped)
        if called is not None and called is not turn:
            self._agenda.submit(called)
        return is_its_turn

    def is_in_line(self, turn: Turn) -> bool:
        """Return whether the turn stands in line, behind a run or another turn."""
        with self._lock:
            return turn in turn.lane.line

    def is_open(self, turn: Turn) -> bool:
        """Return whether the turn may still try: it has not entered yet, or it is the current turn."""
        return not turn.has_entered or turn.lane.current is turn

    def wait(self, turn: Turn) -> bool:
        """Let the turn wait after a try without a final answer.

        Return whether it waits for its next try. If not, a newer turn has become the current one.
        """
        with self._lock:
            if turn.lane.current is turn:
                turn.lane.state = "waiting"
        self._go_on(turn.lane)
        return turn.lane.current is turn

    def waiting(self, job: Job) -> Turn | None:
        """Return the turn of the job that waits for its next try, if any."""
        with self._lock:
            lane = self._lanes.get(job.name)
            return lane.current if lane is not None and lane.state == "waiting" else None

    def begin(self, turn: Turn) -> None:
        """Count the turn as running: it has claimed, and its run begins."""
        lane = turn.lane
        with self._lock:
            lane.running.add(turn)
            lane.look = None
            _make_room(turn)
        self._go_on(lane)

    def give_up(self, turn: Turn) -> None:
        """End the turn: it has nothing to run."""
        with self._lock:
            _make_room(turn)
        self._go_on(turn.lane)

    def end(self, turn: Turn, *, goes_on: bool, holds: bool = False) -> None:
        """End the turn's run. If it `goes_on` with another claim, it comes before all turns in line.

        If it still `holds` the lock, it goes on later, and the line treats it as a run until then.
        """
        lane, dropped = turn.lane, _Dropped()
        with self._lock:
            lane.running.discard(turn)
            if goes_on and lane.current is None:
                lane.current, lane.state = turn, "holding" if holds else "called"
            elif goes_on:
                self._stand_in_line(turn, dropped)
        self._report(dropped)
        self._go_on(lane)

    def reserve(self, place: Place) -> bool:
        """Reserve the place for a run by hand, before the run has its lock. Return whether the lane had room."""
        lane = place.lane
        with self._lock:
            if lane.is_full:
                return False
            lane.reserved.add(place)
        return True

    def occupy(self, place: Place) -> None:
        """Count the run by hand as running: it has its lock and begins. Further calls change nothing."""
        lane = place.lane
        with self._lock:
            lane.running.add(place)
            lane.reserved.discard(place)
        self._go_on(lane)

    def vacate(self, place: Place, *, again: bool = False) -> None:
        """Free the place of a run by hand that is over.

        `again` says that this is the second call, because the first one may have been interrupted at any line.
        """
        lane = place.lane
        with self._lock:
            lane.running.discard(place)
            lane.reserved.discard(place)
        self._go_on(lane, again=again)

    def clear(self) -> None:
        """Drop every turn that is called, waits or stands in line. A turn that is trying ends by itself."""
        with self._lock:
            for lane in self._lanes.values():
                lane.line.clear()
                lane.look = None
                if lane.state != "trying":
                    lane.current = None

    def _go_on(self, lane: Lane, *, again: bool = False) -> None:
        dropped = _Dropped()
        with self._lock:
            called = self._settle(lane, dropped)
            if again and called is None and lane.state == "called":
                called = lane.current  # perhaps not submitted yet; submitting it twice does no harm
        self._report(dropped)
        if called is not None:
            self._agenda.submit(called)

    def _settle(self, lane: Lane, dropped: _Dropped) -> Turn | None:
        """Return the turn to call next, if any. Called under the lock."""
        if not lane.line:
            if lane.look is None or lane.current is not None or lane.is_full:
                return None
            lane.current, lane.look, lane.state = lane.look, None, "called"
            return lane.current
        first = lane.line[0]
        is_held = lane.current is not None and lane.state == "holding"
        if lane.current is not None and not is_held:
            if lane.state == "trying" or lane.keeps_all or not first.is_newer_than(lane.current):
                return None
            # A turn that has not tried for its own tick has not reported the tick, and will not: report it here.
            if not lane.current.has_tried:
                dropped.overtaken.append(lane.current)
            first.pending = lane.current.pending
        elif is_held or lane.is_full:
            if not lane.queues and (is_held or len(lane.running) >= lane.most):
                (dropped.held if is_held else dropped.running).extend(lane.line)
                lane.line.clear()
            return None
        lane.current, lane.state = lane.line.pop(0), "called"
        return first

    def _stand_in_line(self, turn: Turn, dropped: _Dropped) -> None:
        line = turn.lane.line
        if turn.wanted.due is None:
            # Kept although other turns are ahead: they may be given up without another try.
            turn.lane.look = turn
            return
        line.append(turn)
        line.sort(key=lambda one: one.wanted.due or "")
        if not turn.lane.keeps_all:
            *older, kept = line
            heir = next((one for one in older if one.pending is not None), None)
            if heir is not None and kept.pending is None:
                # The newest turn takes over the pending claim and its token: a write whose reply was lost may still
                # become a win. The claimer reports the older turn's tick then, if that turn had tried for it.
                kept.pending = heir.pending
                older = [one for one in older if one is not heir or not one.has_tried]
            dropped.overtaken += older
            del line[:-1]

    def _report(self, dropped: _Dropped) -> None:
        for turns, why in (
            (dropped.running, "it still runs on this instance"),
            (dropped.held, "the minimum hold of its last run is not over"),
            (dropped.overtaken, "a newer tick came"),
        ):
            for turn in turns:
                if (slot := turn.wanted.tick_to_report) is not None:
                    report_skipped(self._events, turn.job.name, slot, why)


@dataclass(eq=False)
class _Dropped:
    """Turns that ended before they could try: the job runs, holds its lock after a run, or a newer tick came."""

    running: list[Turn] = field(default_factory=list)
    held: list[Turn] = field(default_factory=list)
    overtaken: list[Turn] = field(default_factory=list)


def _make_room(turn: Turn) -> None:
    """Make the lane free for another current turn, if this turn is the current one. Called under the lock."""
    if turn.lane.current is turn:
        turn.lane.current = None


# --- reports of ticks that this instance did not run


def report_skipped(events: Events, name: str, slot: str, why: str) -> None:
    """Report that this instance leaves the tick out on purpose."""
    events.emit("run.skipped", name, logging.INFO, f'"{name}" skips its tick {slot}: {why}', slot=slot)


def report_missed(events: Events, name: str, slot: str, why: str, late: int | None = None) -> None:
    """Report that this instance could not run the tick in time."""
    events.emit("run.missed", name, logging.WARNING, f'"{name}" missed its tick {slot}: {why}', slot=slot, late=late)
