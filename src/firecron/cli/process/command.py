"""A command under a lock: it never runs on without one for longer than the margin allows.

    with Signals() as signals:
        command = Command(["pg_dump", "…"], signals, kill_after=margin / 2)
        code = under_lock(locks, "backup", 60, command)

`under_lock` takes a plain lock, `under_tick` a tick of a schedule, by way of the same runner as any job: history,
fences and `unfinished` are those of a job. The command learns from its environment what it is for: FIRECRON_NAME, and
as the run of a tick FIRECRON_SLOT, FIRECRON_FENCE, FIRECRON_IDEMPOTENCY_KEY and FIRECRON_ATTEMPT.

When the lease is lost, the command's process group gets SIGTERM, and `kill_after` later SIGKILL. With half a margin:

    expiresAt - margin    expiresAt - margin/2    expiresAt    expiresAt + margin
           |                       |                  |                |
    trust ends: SIGTERM         SIGKILL                       a successor may begin

That is as this machine's estimate of RTDB's time has it; the successor goes by its own. So from SIGKILL to the
successor it is a margin and a half, less what the two estimates are wrong by: milliseconds, mostly. At the very worst,
each of them wrong by the whole margin, the command runs on for half a margin beside its successor, and a fence decides.

A lock that was taken away (unlocked, its node deleted) is found lost at the next renewal, and the successor may be at
work by then: the command is ended in the same way, as fast.

What else can come in between:
    a signal before the command is there   it is not started; the run is `interrupted`
    a signal while it runs                 is sent on, once; the lock is kept until the command ends
    both                                   the loss goes on as above, whatever the signal has begun
    it ends by itself just as it is lost   the rest of its group is killed, and the outcome is `lost`
    this process is killed                 the group's guardian kills the group (see `process_group`)
    this process alone is stopped          nobody renews, and nobody kills before it goes on: a fence is all that helps
    the whole machine is suspended         the lease ages meanwhile, and the command is killed on waking

The command is what was started: what it leaves in the background when it ends is not waited for. On a platform without
process groups (Windows) there is none of this.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from firecron.base.clocks import Moment, SystemTiming
from firecron.base.flag import Flag
from firecron.base.instants import to_datetime, to_text
from firecron.cli.process.process_group import ProcessGroup, check_command
from firecron.cli.process.signals import Signals
from firecron.cron.ticks import meant_tick
from firecron.errors import CommandFailed, Denied, LeaseLost, NotStarted, Stopping, Unavailable
from firecron.jobs.run import Run
from firecron.lock.refusal import Refusal, not_known
from firecron.lock.waiting import Patience, may_change
from firecron.settings import FACTS

if TYPE_CHECKING:
    from firecron.app import FireCron
    from firecron.base.durations import Duration
    from firecron.jobs.result import Result
    from firecron.lock.service import LockService

# How often a look is taken at the lease's own clock, beside what the keeper says.
_LOOK = 1.0

T = TypeVar("T")


class Command:
    """A command line. `code` is what it ended with, 128 and the signal's number if one killed it, 126 or 127 if it
    could not be started; None while it has not.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        signals: Signals,
        kill_after: float,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self.signals = signals
        self.code: int | None = None
        self._arguments = arguments
        self._kill_after = kill_after
        self._environment = {name: value for name, value in environment.items() if name not in FACTS}

    def check(self) -> None:
        """NotStarted if there is no such command: better known before anything is claimed for it."""
        check_command(self._arguments[0])

    def run(self, lost: Callable[[], Flag], facts: Mapping[str, object]) -> None:
        """Run it to its end, on the main thread. Raises NotStarted, CommandFailed, or Stopping if a signal ended
        it. Whether the lease was lost meanwhile is for the caller to ask.
        """
        if not self.signals.pause(0):
            raise Stopping
        self.code = None
        given = {f"FIRECRON_{name.upper()}": str(value) for name, value in facts.items() if value is not None}
        try:
            group = ProcessGroup(self._arguments, {**self._environment, **given})
        except NotStarted as error:
            self.code = error.code
            raise
        ended = threading.Event()
        watch = threading.Thread(target=self._watch, args=(group, lost, ended), name="firecron-watch", daemon=True)
        try:
            watch.start()
            with self.signals.going_to(group.send):
                status = group.wait()
            if lost():
                group.send(signal.SIGKILL)
        except BaseException:
            # Nobody would watch it any more.
            group.send(signal.SIGKILL)
            raise
        finally:
            ended.set()
            group.close()
        self.code = status if status >= 0 else 128 - status
        # At a terminal Ctrl-C reaches the command alone.
        if self.code and (self.signals.received is not None or -status in (signal.SIGINT, signal.SIGQUIT)):
            raise Stopping
        if self.code:
            raise CommandFailed(self.code)

    def run_as_job(self, run: Run) -> None:
        """Run it as a job's function."""
        self.run(
            lambda: run.lost,
            {
                "name": run.name,
                "slot": None if run.slot is None else to_text(run.slot),
                "fence": run.fence,
                "idempotency_key": run.idempotency_key,
                "attempt": run.attempt,
            },
        )

    def _watch(self, group: ProcessGroup, lost: Callable[[], Flag], ended: threading.Event) -> None:
        """End it when the lease is lost."""
        while not (lost().wait(_LOOK) or ended.is_set()):
            pass
        if ended.is_set():
            return  # a lease that was released is over as well
        group.send(signal.SIGTERM)
        if not ended.wait(self._kill_after):
            group.send(signal.SIGKILL)


def under_lock(
    locks: LockService,
    name: str,
    ttl: Duration,
    command: Command,
    *,
    wait: float = 0.0,
    hold_at_least: Duration = 0,
) -> Refusal | None:
    """Run it under a plain lock, or return why not. Raises what `Command.run` does, LeaseLost if it
    succeeded without a lock, Stopping if a signal came first.
    """
    bid = locks.contender.bid(name, ttl, hold_at_least=hold_at_least, renews=True)
    lease = _patiently(lambda: locks.contender.try_once(bid), command.signals, wait)
    if isinstance(lease, Refusal):
        return lease
    try:
        command.run(lambda: lease.lost, {"name": name})
    finally:
        lease.release()
    # It may be the release that finds out.
    if lease.was_lost:
        raise LeaseLost
    return None


def under_tick(
    crons: FireCron, name: str, command: Command, *, grace: float | None = None, wait: float = 0.0
) -> Result | Refusal:
    """Run it, as the job of that name, for the tick that it is meant for (see `ticks`). Raises NoTick if that is more
    than `grace` seconds ago, Stopping if a signal came first.
    """
    moment = _patiently(lambda: _time(crons.locks, name), command.signals, wait)
    if isinstance(moment, Refusal):
        return moment
    tick, early = meant_tick(crons.registry.get(name).options.schedule, to_datetime(moment.server), grace)
    if not command.signals.pause(early):
        raise Stopping
    return _patiently(lambda: _triggered(crons, name, tick), command.signals, wait)


def _triggered(crons: FireCron, name: str, tick: datetime) -> Result | Refusal:
    result = crons.registry.trigger(name, slot=tick, source="schedule")
    return result if result.refusal is None else result.refusal


def _time(locks: LockService, name: str) -> Moment | Refusal:
    try:
        return locks.clock.now(locks.deadline(locks.settings.acquire_timeout))
    except Unavailable as error:
        return not_known(name, "unavailable", error)
    except Denied as error:
        return not_known(name, "denied", error)


def _patiently(attempt: Callable[[], T | Refusal], signals: Signals, wait: float) -> T | Refusal:
    """Try until there is an answer that lasts, or until `wait` seconds are over. Raises Stopping if a signal comes
    first.
    """
    for pause in Patience(wait, SystemTiming()):
        if not signals.pause(pause):
            raise Stopping
        answer = attempt()
        if not may_change(answer):
            break
    return answer
