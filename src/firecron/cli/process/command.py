"""A command under a lock: after it loses its lock, it runs on no longer than the margin allows.

    with Signals() as signals:
        command = Command(["pg_dump", "…"], signals, kill_after=margin / 2)
        code = under_lock(locks, "backup", 60, command)

`under_lock` acquires a plain lock. `under_tick` claims a tick of a schedule with the same runner as any job, so the
history, fences and `unfinished` are those of a job. The command finds its facts in its environment: FIRECRON_NAME, and
for the run of a tick FIRECRON_SLOT, FIRECRON_FENCE, FIRECRON_IDEMPOTENCY_KEY and FIRECRON_ATTEMPT.

When the lease is lost, the command's process group gets SIGTERM, and SIGKILL `kill_after` later. With half a margin:

    expiresAt - margin    expiresAt - margin/2    expiresAt    expiresAt + margin
           |                       |                  |                |
    trust ends: SIGTERM         SIGKILL                       a successor may begin

These times are this machine's estimate of RTDB's time; the successor uses its own estimate. So a margin and a half lies
between SIGKILL and the successor, less the errors of the two estimates, which are mostly milliseconds. In the worst
case each estimate is wrong by the whole margin: the command runs beside its successor for half a margin, and a fence
decides.

If the lock was taken away (it was unlocked, or its node was deleted), the next renewal finds it lost. The successor may
be running by then. The command is ended in the same way, and as fast.

Other cases:
    a signal before the command starts     the command is not started; the run is `interrupted`
    a signal while the command runs        is sent on, once; the lock is kept until the command ends
    the run is cancelled                   SIGTERM, once; the lock is kept until the command ends
    a signal and a loss                    the loss proceeds as above, whatever the signal has caused
    the command ends just as it is lost    the rest of its group is killed, and the outcome is `lost`
    this process is killed                 the group's guardian kills the group (see `process_group`)
    this process alone is stopped          until it continues, nothing renews or kills: only a fence helps
    the whole machine is suspended         the lease ages meanwhile, and the command is killed on waking

Only the started command counts: processes that it leaves in the background are not waited for. On a platform without
process groups (Windows) none of this works.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from firecron.base.clocks import Moment
from firecron.base.flag import Flag
from firecron.base.instants import to_datetime, to_text
from firecron.cli.process.process_group import ProcessGroup, check_command
from firecron.cli.process.signals import Signals
from firecron.cron.schedule import meant_tick
from firecron.errors import Cancelled, CommandFailed, Denied, LeaseLost, NotStarted, Stopping, Unavailable
from firecron.jobs.run import Run
from firecron.lock.blocks import Waiting, try_once
from firecron.lock.refusal import Refusal, not_known
from firecron.settings import FACTS

if TYPE_CHECKING:
    from firecron.app import FireCron
    from firecron.base.instants import Duration
    from firecron.jobs.registry import Result
    from firecron.lock.database import Database

# Seconds between two checks of the lease's own clock. The keeper reports a loss besides.
LOOK = 1.0

T = TypeVar("T")


class Command:
    """A command line.

    `code` is its exit code: 128 plus the signal's number if a signal killed it, 126 or 127 if it could not be started,
    None before its end.
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

    @property
    def program(self) -> str:
        """The name of the program, without its folder. Its arguments may be secrets, so they are not shown."""
        return Path(self._arguments[0]).name

    def check(self) -> None:
        """Raise NotStarted if there is no such command, so that no tick is claimed for it."""
        check_command(self._arguments[0])

    def run(self, lost: Callable[[], Flag], facts: Mapping[str, object], cancelled: Flag | None = None) -> None:
        """Run the command to its end, on the main thread.

        `lost` returns the flag that a lost lease sets. `facts` are the values for the command's environment.
        `cancelled` is set when the run is cancelled. Raises NotStarted, CommandFailed, Cancelled if a cancel ended the
        command, or Stopping if a signal did. The caller checks whether the lease was lost meanwhile.
        """
        told = Flag() if cancelled is None else cancelled
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
        watch = threading.Thread(
            target=self._watch, args=(group, lost, told, ended), name="firecron-watch", daemon=True
        )
        try:
            watch.start()
            with self.signals.going_to(group.send):
                status = group.wait()
            if lost():
                group.send(signal.SIGKILL)
        except BaseException:
            # Without this process nothing would end the command when its lease is lost.
            group.send(signal.SIGKILL)
            raise
        finally:
            ended.set()
            group.close()
        self.code = status if status >= 0 else 128 - status
        if self.code and told:
            raise Cancelled
        # At a terminal, Ctrl-C reaches only the command.
        if self.code and (self.signals.received is not None or -status in (signal.SIGINT, signal.SIGQUIT)):
            raise Stopping
        if self.code:
            raise CommandFailed(self.code)

    def run_as_job(self, run: Run) -> None:
        """Run the command as a job's function."""
        self.run(
            lambda: run.lost,
            {
                "name": run.name,
                "slot": None if run.slot is None else to_text(run.slot),
                "fence": run.fence,
                "idempotency_key": run.idempotency_key,
                "attempt": run.attempt,
            },
            run.cancelled,
        )

    def _watch(self, group: ProcessGroup, lost: Callable[[], Flag], cancelled: Flag, ended: threading.Event) -> None:
        """End the command when the lease is lost. Ask it to end when the run is cancelled."""
        is_asked = False
        while not (lost().wait(LOOK) or ended.is_set()):
            if cancelled and not is_asked:
                is_asked = True
                group.send(signal.SIGTERM)
        if ended.is_set():
            return  # a released lease sets the flag too
        group.send(signal.SIGTERM)
        if not ended.wait(self._kill_after):
            group.send(signal.SIGKILL)


def under_lock(
    database: Database,
    name: str,
    ttl: Duration,
    command: Command,
    *,
    wait: float = 0.0,
    hold_at_least: Duration = 0,
) -> Refusal | None:
    """Run the command under a plain lock; return None, or the refusal if the lock was not acquired.

    `wait` is how many seconds to keep trying. Raises the errors of `Command.run`, LeaseLost if the command succeeded
    but lost its lock, and Stopping if a signal arrived first.
    """
    bid = database.bid(name, ttl, hold_at_least=hold_at_least, renews=True)
    lease = _patiently(lambda: try_once(database, bid), database, name, command.signals, wait)
    if isinstance(lease, Refusal):
        return lease
    try:
        command.run(lambda: lease.lost, {"name": name})
    finally:
        lease.release()
    # The release itself may find that the lock was lost.
    if lease.was_lost:
        raise LeaseLost
    return None


def under_tick(
    crons: FireCron, name: str, command: Command, *, grace: float | None = None, wait: float = 0.0
) -> Result | Refusal:
    """Run the command, as the job of that name, for the tick that it is meant for (see `cron/schedule.py`).

    `wait` is how many seconds to keep trying. Returns the run's result, or the refusal. The job is declared in the
    catalogue, whatever becomes of the tick. Raises NoTick if the tick is more than `grace` seconds ago, and Stopping if
    a signal arrived first.
    """
    database, signals = crons.database, command.signals
    moment = _patiently(lambda: _time(database, name), database, name, signals, wait)
    if isinstance(moment, Refusal):
        return moment
    job = crons.registry.get(name)
    crons.registry.served(job)  # beside the claim, so that it delays nothing
    tick, early = meant_tick(job.options.schedule, to_datetime(moment.server), grace)
    if not signals.pause(early):
        raise Stopping
    return _patiently(lambda: _triggered(crons, name, tick), database, name, signals, wait)


def _triggered(crons: FireCron, name: str, tick: datetime) -> Result | Refusal:
    result = crons.registry.trigger(name, slot=tick, source="schedule")
    return result if result.refusal is None else result.refusal


def _time(database: Database, name: str) -> Moment | Refusal:
    try:
        return database.clock.now(database.deadline(database.settings.acquire_timeout))
    except Unavailable as error:
        return not_known(name, "unavailable", error)
    except Denied as error:
        return not_known(name, "denied", error)


def _patiently(
    attempt: Callable[[], T | Refusal], database: Database, name: str, signals: Signals, wait: float
) -> T | Refusal:
    """Call `attempt` until a later try can't end otherwise, or until `wait` seconds are over; return its last answer.

    Once it was refused because the lock is held, changes of the lock's node end the pauses. Raises Stopping if a signal
    arrives first.
    """
    if not signals.pause(0):
        raise Stopping
    with closing(Waiting(database, name, wait, signals.wake)) as waiting:
        waiting.start(0)
        answer = attempt()
        while waiting.goes_on(answer):
            while (seconds := waiting.seconds()) > 0:
                if not signals.pause(seconds):
                    raise Stopping
            waiting.start(0)
            answer = attempt()
    return answer
