"""The watch for a forgotten start: a WARNING where a FireCron has jobs that may tick here, and nobody starts them.

Nothing else would tell of it: without `start` there is no line about this process, and the jobs just don't run. It is
said once, at whichever comes first:

    the first request to its page or to its triggers
    a minute after it was made
    the end of the process, if that is a server's or if the program itself (`__main__`) made the FireCron

It is not said where nobody has to start: where the production guard is shut (`enabled=False` is for programs whose jobs
only triggers run, or run elsewhere), in a command of firecron, Flask or Django, in a test run, at Python's prompt, and
in a child process of a program. Nor of a FireCron that has asked RTDB for its time by then, because a job is run by
hand or `locks` is used, or whose `start`, `stop` or `testing` was called. After a fork the parent is silent as well:
a server that forks its workers starts the jobs in them.

One daemon thread watches for all, for a minute at most. It ends before a fork, where Python warns of threads.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
from collections.abc import Mapping
from functools import cache

from firecron.scheduler.startup import Program, is_a_servers_process, is_a_test_run, listed, reason_not_to_start

# Seconds.
PATIENCE = 60.0
_MOST_NAMED = 5
_REMEDY = (
    "start it by lifespan=crons.lifespan (which isn't called for a mounted application), crons.init_app(app), "
    "crons.start() or `with crons:`. If its jobs run elsewhere, or by triggers alone: FireCron(..., enabled=False)"
)


class StartWatch:
    """The watch for one FireCron. `maker` is the name of the module that made it."""

    def __init__(self, crons: Program, maker: str | None) -> None:
        self._crons = crons
        self._maker = maker
        self._is_over = False
        # Whether it is among the watches of this process. Otherwise no lock is needed to settle it.
        self.is_watched = False

    def begin(self) -> None:
        """Watch from now on, if the jobs may tick in this process."""
        if self._may_tick() and not is_part_of_another():
            watchers().add(self)

    def settle(self) -> None:
        """Say nothing from now on: the program has seen to the start, or the warning was given."""
        self._is_over = True
        if self.is_watched:
            watchers().discard(self)

    def asked(self, door: str) -> None:
        """Say that nobody has started the jobs, if so: the door has got its first request."""
        if not self._is_over:
            self.settle()
            if self._may_tick():
                self._warn(f"serves {door}, but nobody has started it")

    def is_late(self) -> None:
        """Tell of a start that is missing a minute after the FireCron was made."""
        self._warn_if_unused(f"was not started within {PATIENCE:.0f} s")

    def has_ended(self) -> None:
        """Tell of a start that was missing, at the end of the process."""
        # A program that has failed has another reason not to have started.
        if (self._maker == "__main__" or is_a_servers_process()) and not hasattr(sys, "last_value"):
            self._warn_if_unused("was never started")

    def _warn_if_unused(self, what: str) -> None:
        if not self._is_over:
            self.settle()
            if self._may_tick() and self._crons.database.clock.uncertainty is None:
                self._warn(what)

    def _may_tick(self) -> bool:
        return self._crons.verdict.may_tick and reason_not_to_start() is None

    def _warn(self, what: str) -> None:
        registry = self._crons.engine.registry
        names = [job.name for job in registry.jobs()]
        names += [leader.name for leader in self._crons.engine.leaders.all()]
        if not names:
            return
        named = listed(names, _MOST_NAMED)
        message = f"A FireCron {what}, so this process runs none of its jobs ({named}): {_REMEDY}"
        self._crons.database.events.emit("crons.unstarted", "firecron", logging.WARNING, message, jobs=len(names))


class Watchers:
    """All watches of this process, and the thread that waits until their `patience` is over, in seconds."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self.forget()

    def forget(self) -> None:
        """Begin anew in a forked child: what is watched is the parent's."""
        self._changed = threading.Condition()
        # When the patience with each is over, in this order.
        self._watched: list[tuple[float, StartWatch]] = []
        self._thread: threading.Thread | None = None

    def add(self, watch: StartWatch) -> None:
        with self._changed:
            atexit.unregister(self.end)
            atexit.register(self.end)
            watch.is_watched = True
            self._watched.append((time.monotonic() + self._patience, watch))
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="firecron-start-watch", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    return  # none can be started: the warning comes at the end of the process
                self._thread = thread

    def discard(self, watch: StartWatch) -> None:
        with self._changed:
            self._watched = [other for other in self._watched if other[1] is not watch]
            self._changed.notify_all()

    def end(self) -> None:
        """Tell at the end of the process of what is still watched."""
        with self._changed:
            watched = list(self._watched)
        for _, watch in watched:
            watch.has_ended()

    def before_fork(self) -> None:
        """End the thread: this process forks, and its children may start the jobs."""
        with self._changed:
            for _, watch in self._watched:
                watch.is_watched = False
            thread, self._watched = self._thread, []
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=1)

    def _run(self) -> None:
        while (watch := self._next()) is not None:
            watch.is_late()

    def _next(self) -> StartWatch | None:
        """Wait for the next watch whose minute is over; None if nothing is watched any more."""
        with self._changed:
            while self._watched:
                at, watch = self._watched[0]
                if (left := at - time.monotonic()) <= 0:
                    del self._watched[0]
                    return watch
                self._changed.wait(left)
            self._thread = None
            return None


def is_part_of_another(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether this process is a test run, a person's prompt, or a child process that is no server's worker."""
    if is_a_test_run(environment) or hasattr(sys, "ps1"):
        return True
    processes = sys.modules.get("multiprocessing.process")
    return processes is not None and processes.parent_process() is not None and not is_a_servers_process()


@cache
def watchers() -> Watchers:
    """Return the watches of this process."""
    made = Watchers()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=made.before_fork, after_in_child=made.forget)
    return made
