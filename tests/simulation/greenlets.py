"""Threads in virtual time: greenlets of one operating-system thread, of which one runs at a time.

Promise: which thread runs next, how long it stalls, and when each wait ends follow from the seed alone. Nothing here
reads a real clock, and no order comes from a hash or an address. So the same seed gives the same run, step by step, in
any process.

A thread goes on until it reaches a point (`Scheduler.point`): a lock, a clock reading, a thread's start, a step of a
job's function. There the seed decides whether it goes on, lets another thread of any instance run, or stalls. Time
passes only while no thread can run. A computation takes no time but in stalls.

    Scheduler    the order, the time, and what is to happen at a time
    Thread       a thread of a machine (see `machines`); `threads` has the rest of what `threading` offers

Times are whole nanoseconds, so that nothing depends on rounding. `now` is true time.
"""

from __future__ import annotations

import heapq
from asyncio.events import _get_running_loop as get_running_loop
from asyncio.events import _set_running_loop as set_running_loop
from asyncio.tasks import _enter_task as enter_task
from asyncio.tasks import _leave_task as leave_task
from asyncio.tasks import current_task
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from random import Random

from greenlet import GreenletExit, getcurrent, greenlet
from tests.simulation.machines import MILLISECOND, SECOND, Machine

# More than all threads of a large fleet take at one instant.
_MOST_STEPS = 1_000_000


@dataclass(frozen=True, slots=True)
class Temper:
    """How restless the threads are: how often a point lets others go on, how often it stalls, and how long at most."""

    yields: float = 0.1
    stalls: float = 0.002
    longest: int = 50 * MILLISECOND


class Thread:
    """A thread of the machine on which it is started; the same interface as `threading.Thread`."""

    def __init__(
        self,
        group: None = None,
        target: Callable[..., object] | None = None,
        name: str | None = None,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        self._target = target
        self._arguments = args, kwargs or {}
        self.name = name or "thread"
        self.daemon = bool(daemon)
        self.ident: int | None = None
        self.machine: Machine | None = None
        self.greenlet: greenlet | None = None
        self.is_blocked = False
        self.was_woken = False
        self.waits = 0
        self._has_ended = False
        self._joining: list[Thread] = []
        self.locals: dict[object, dict[str, object]] = {}

    def __repr__(self) -> str:
        return f"<Thread {self.name}>"

    def start(self) -> None:
        scheduler = current()
        scheduler.point()
        machine = scheduler.machine
        assert machine is not None, "only a machine's thread starts threads"
        scheduler.begin(self, machine)
        scheduler.point()

    def run(self) -> None:
        """Call the target; a subclass may do something else."""
        if self._target is not None:
            arguments, keywords = self._arguments
            self._target(*arguments, **keywords)

    def is_alive(self) -> bool:
        return self.ident is not None and not self._has_ended

    def join(self, timeout: float | None = None) -> None:
        scheduler = current()
        scheduler.point()
        ends = None if timeout is None else scheduler.after(timeout)
        while self.is_alive() and (ends is None or scheduler.now < ends):
            self._joining.append(scheduler.thread)
            scheduler.block(None if ends is None else ends - scheduler.now)

    def live(self, scheduler: Scheduler) -> None:
        """What its greenlet does: run, and let those that join it go on."""
        try:
            self.run()
        except GreenletExit:
            pass
        except BaseException as error:
            scheduler.fail(error)
        finally:
            self._has_ended = True
            if self.machine is not None and self in self.machine.threads:
                self.machine.threads.remove(self)
            for waiting in self._joining:
                scheduler.wake(waiting)


class Scheduler:
    """Runs the threads of all machines, one step at a time, in an order that follows from `seed`."""

    def __init__(self, seed: str, temper: Temper) -> None:
        self.random = Random(seed)
        self.temper = temper
        self.now = 0
        self.steps = 0
        self.ready: list[Thread] = []
        self.failure: BaseException | None = None
        self.is_closing = False
        self._numbers = count(1)
        self._timers: list[tuple[int, int, Thread | Callable[[], object], int]] = []
        self._current: Thread | None = None
        self._hub = getcurrent()
        self._begun: list[Thread] = []

    @property
    def thread(self) -> Thread:
        """The thread that runs now."""
        assert self._current is not None, "no thread runs now"
        return self._current

    @property
    def machine(self) -> Machine | None:
        """The machine whose thread runs now; None for the world itself."""
        return None if self._current is None else self._current.machine

    def begin(self, thread: Thread, machine: Machine) -> None:
        """Let a new thread run on the machine from now on."""
        if thread.ident is not None:
            raise RuntimeError("threads can only be started once")
        thread.machine = machine
        thread.ident = next(self._numbers)
        thread.greenlet = greenlet(thread.live, self._hub)
        machine.main = machine.main or thread
        machine.threads.append(thread)
        self._begun.append(thread)
        self.ready.append(thread)

    def at(self, time: int, call: Callable[[], object]) -> None:
        """Make this call at a time. It is the world's, not a thread's, so it can't wait."""
        heapq.heappush(self._timers, (max(time, self.now), next(self._numbers), call, 0))

    def after(self, seconds: float) -> int:
        """Return the true time at which a wait of this many seconds ends that the present thread begins now."""
        nanoseconds = max(0, round(seconds * SECOND))
        machine = self.machine
        return self.now + (nanoseconds if machine is None else machine.lasting(nanoseconds))

    # --- what threads call

    def point(self) -> None:
        """Let another thread go on here, or stall here, if the seed says so."""
        thread = self._current
        if thread is None:
            return
        if self.is_closing:
            raise GreenletExit
        chance = self.random.random()
        if chance >= self.temper.yields:
            return
        if chance < self.temper.stalls:
            # From microseconds to the longest: short ones are the commonest.
            self.block(int(self.temper.longest ** self.random.random()) + 1)
        else:
            self.ready.append(thread)
            self._leave(thread)

    def block(self, duration: int | None) -> bool:
        """Block the thread until it is woken, or for `duration` nanoseconds at most. Return whether it was woken."""
        thread = self.thread
        if self.is_closing:
            raise GreenletExit
        thread.waits += 1
        thread.is_blocked, thread.was_woken = True, False
        if duration is not None:
            heapq.heappush(self._timers, (self.now + max(0, duration), next(self._numbers), thread, thread.waits))
        self._leave(thread)
        return thread.was_woken

    def wake(self, thread: Thread) -> None:
        """Let a blocked thread go on."""
        if thread.is_blocked:
            thread.is_blocked, thread.was_woken = False, True
            self.ready.append(thread)

    def fail(self, error: BaseException) -> None:
        """Note an exception that has ended a thread. The first one ends the run."""
        if not self.is_closing and self.failure is None:
            self.failure = error

    # --- the hub

    def run(self, until: int) -> None:
        """Let everything happen that happens until then. Raise the exception that ended a thread."""
        ready, random = self.ready, self.random.random
        while True:
            began = self.steps
            while ready:
                if self.steps - began > _MOST_STEPS:
                    raise RuntimeError(f"{ready} never wait: they have taken {_MOST_STEPS} steps at one instant")
                index = int(random() * len(ready))
                thread, ready[index] = ready[index], ready[-1]
                ready.pop()
                self._step(thread)
            if not self._timers or self._timers[0][0] > until:
                self.now = until
                return
            self.now = self._timers[0][0]
            # Everything that is due at one instant becomes ready before any of it runs, so each order is possible.
            while self._timers and self._timers[0][0] == self.now:
                _, _, what, wait = heapq.heappop(self._timers)
                if not isinstance(what, Thread):
                    what()
                elif what.is_blocked and what.waits == wait:
                    what.is_blocked = False
                    ready.append(what)

    def close(self) -> None:
        """End all threads, wherever they are. Each of their waits raises GreenletExit from now on."""
        self.is_closing = True
        for thread in self._begun:
            # A thread that catches what ends it comes to its next point soon, and is ended there.
            for _ in range(100):
                if thread.greenlet is None or not thread.greenlet or thread.greenlet.dead:
                    break
                self._current = thread
                thread.greenlet.throw(GreenletExit)
            thread.greenlet = None
        self._current = None
        self._begun.clear()
        self.ready.clear()
        self._timers.clear()

    def _step(self, thread: Thread) -> None:
        machine = thread.machine
        assert machine is not None
        assert thread.greenlet is not None
        if machine.state != "alive":
            machine.park(thread)
            return
        self.steps += 1
        self._current = thread
        thread.greenlet.switch(*(() if thread.greenlet else (self,)))
        self._current = None
        if thread.greenlet.dead:
            thread.greenlet = None
        if self.failure is not None:
            raise self.failure

    def _leave(self, thread: Thread) -> None:
        """Go back to the hub, until the thread's next step."""
        # asyncio keeps the loop and the task under way by threads of the operating system. All greenlets share one.
        loop = get_running_loop()
        if loop is None:
            self._hub.switch()
        else:
            task = current_task(loop)
            if task is not None:
                leave_task(loop, task)
            set_running_loop(None)
            try:
                self._hub.switch()
            finally:  # also for a thread that is ended here: its loop and its task end as always
                set_running_loop(loop)
                if task is not None:
                    enter_task(loop, task)
        if self.is_closing:
            raise GreenletExit


_schedulers: list[Scheduler] = []


def current() -> Scheduler:
    """Return the scheduler of the run under way."""
    if not _schedulers:
        raise RuntimeError("no simulation is under way: what was imported for it works only inside it")
    return _schedulers[-1]


def use(scheduler: Scheduler | None) -> None:
    """Make this the scheduler of the run under way."""
    _schedulers[:] = [] if scheduler is None else [scheduler]
