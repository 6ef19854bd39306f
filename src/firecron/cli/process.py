"""A command under a lock: after it loses its lock, it runs on no longer than the margin allows.

    with Signals() as signals:
        command = Command(["pg_dump", "…"], signals, kill_after=margin / 2)
        code = under_lock(database, "backup", 60, command)

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
    this process is killed                 the group's guardian kills the group (see `ProcessGroup`)
    this process alone is stopped          until it continues, nothing renews or kills: only a fence helps
    the whole machine is suspended         the lease ages meanwhile, and the command is killed on waking

Only the started command counts: processes that it leaves in the background are not waited for. On a platform without
process groups (Windows) none of this works.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Self, TypeAlias, TypeVar

from firecron.base.clocks import Moment
from firecron.base.flag import Flag
from firecron.base.instants import to_datetime, to_text
from firecron.cron.schedule import meant_tick
from firecron.errors import Cancelled, CommandFailed, Denied, LeaseLost, NotStarted, Stopping, Unavailable
from firecron.jobs.run import Run
from firecron.lock.blocks import Tries, try_once
from firecron.lock.refusal import Refusal, not_known
from firecron.settings import FACTS

if TYPE_CHECKING:
    from firecron.app import FireCron
    from firecron.base.instants import Duration
    from firecron.jobs.registry import Result
    from firecron.lock.database import Database

    Handler: TypeAlias = signal.Handlers | int | Callable[[int, FrameType | None], object] | None

T = TypeVar("T")

# --- signals


def _those_there_are(*names: str) -> tuple[signal.Signals, ...]:
    return tuple(signal.Signals[name] for name in names if name in signal.Signals.__members__)


# Windows has only the first two.
FORWARDED = _those_there_are("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")
STOPS = _those_there_are("SIGTSTP", "SIGTTIN", "SIGTTOU")


class Signals:
    """The signals that ask a command to end: each is noted when it arrives, and passed on once.

        with Signals() as signals:
            if signals.wait(5):                   # false as soon as a signal has arrived
                with signals.going_to(group.send):
                    ...

    A context manager for the main thread. `received` is the number of the first signal, or None. Inside the block,
    SIGTERM, SIGINT, SIGHUP and SIGQUIT don't end this process by themselves. That also holds for the first process of
    a container. A signal that arrives before `going_to` waits until then. A signal that was ignored before stays
    ignored, as `nohup` and a shell's background jobs require.

    Ctrl-Z, and the other signals by which a terminal stops a process, are ignored by this process and by the processes
    that the block starts. A stopped command would keep its lock from all others, and a stopped firecron would not
    renew it.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._pending: list[int] = []
        self._send: Callable[[int], None] | None = None
        # Reentrant: a handler interrupts the main thread at any line, and calls `wake` on it.
        self._open = threading.RLock()
        self._is_open = False
        self._before: dict[int, Handler] = {}

    def __enter__(self) -> Self:
        self._reads, self._writes = socket.socketpair()
        self._is_open = True
        self._writes.setblocking(False)
        # A signal that arrives just before a pause has to end the pause too. Python's own handler runs only after it.
        self._wakes_before = signal.set_wakeup_fd(self._writes.fileno(), warn_on_full_buffer=False)
        for number in FORWARDED:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._receive)
        for number in STOPS:
            self._before[number] = signal.signal(number, signal.SIG_IGN)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.set_wakeup_fd(self._wakes_before)
        with self._open:
            self._is_open = False
            self._reads.close()
            self._writes.close()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until a signal arrives, `wake` is called or the time is over; return whether no signal has arrived.

        `seconds` is the longest wait. None waits without limit.
        """
        if self.received is None and select.select([self._reads], [], [], seconds)[0]:
            self._reads.recv(4096)  # else a pause after a `wake` would end at once, and so would all later ones
        return self.received is None

    def wake(self) -> None:
        """End the main thread's pause, or its next one if it is not pausing. Other threads call this."""
        with self._open:
            if self._is_open:
                self._writes.send(b"!")

    @contextmanager
    def going_to(self, send: Callable[[int], None]) -> Iterator[None]:
        """Pass on each signal with `send`: those that have arrived, and those that arrive in the block."""
        self._send = send
        self._deliver()
        try:
            yield
        finally:
            self._send = None

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.received is None:
            self.received = number
            self.wake()
        self._pending.append(number)
        self._deliver()

    def _deliver(self) -> None:
        while self._send is not None and self._pending:
            self._send(self._pending.pop(0))


def ending_at_second() -> Callable[[int], None]:
    """Return a function to pass signals on to: at the second one it ends this process, without any cleaning up."""
    heard: list[int] = []

    def hear(number: int) -> None:
        heard.append(number)
        if len(heard) > 1:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
            os._exit(128 + number)  # the first process of a container is not ended by a signal's default

    return hear


def beside(signals: Signals, name: str, work: Callable[[], T]) -> Future[T]:
    """Do the work on a thread of this name, and wake the main thread when it is done."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)
        finally:
            signals.wake()

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


# --- a process group

_GUARDIAN = """
import os, signal
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
os.write(1, b"!")
if not os.read(0, 1):
    os.killpg(os.getpgrp(), signal.SIGKILL)
"""
_TERMINAL = 0
_SLICE = 1.0
_MISSING = 127
_NOT_EXECUTABLE = 126


class ProcessGroup:
    """A command and the processes that it starts: one process group, which is signalled as a whole.

        group = ProcessGroup(["sh", "-c", "pg_dump … | gzip > …"], environment)
        code = group.wait()
        group.close()

    The group doesn't outlive this process. Its leader is a guardian: a tiny process that reads a pipe whose other end
    only this process has. If the pipe closes without a byte, this process has died, even by SIGKILL, and the guardian
    kills the group. The guardian starts before the command, so that the command is never unguarded. It stays until the
    end, so that the system can't give the group's number to other processes while the group is signalled. All of this
    is plain POSIX. A process that leaves the group (a daemon, a shell with its own job control) is out of reach for
    signals and guardian.

    If standard input and output are a terminal and this process is in its foreground, the group is put into the
    foreground. The command then reads what is typed, and Ctrl-C reaches only the command, once. Otherwise a signal
    reaches this process, which sends it on.

    `number` is the number of the process group. Raises NotStarted.
    """

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        # Reentrant: a signal handler interrupts this thread at any line, and calls `send` on it.
        self._open = threading.RLock()
        self._is_open = True
        self._guardian = start_guardian()
        self.number = self._guardian.pid
        self._has_terminal = is_in_foreground()
        try:
            if self._has_terminal:
                os.tcsetpgrp(_TERMINAL, self.number)
            # Inherited files (a shell's `<(…)`) are handed on. Files that Python opens itself are not inheritable.
            self._leader = subprocess.Popen(  # noqa: S603
                list(arguments), env=dict(environment), process_group=self.number, close_fds=False
            )
        except OSError as error:
            self.close()
            raise _not_started(arguments[0], error) from None

    def send(self, number: int) -> None:
        """Send a signal to the whole group. Once the group is closed, do nothing."""
        with self._open:
            if self._is_open:
                # The group has ended. If only zombies are left in it, macOS raises PermissionError.
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.number, number)

    def wait(self) -> int:
        """Wait for the command itself; return its exit code, or the negative number of the signal that killed it."""
        while True:
            # In slices: if a signal arrives just before a wait, Python handles it only after that wait.
            with suppress(subprocess.TimeoutExpired):
                return self._leader.wait(_SLICE)

    def close(self) -> None:
        """Let go of the group: processes that the command left behind go on, and are no longer guarded."""
        with self._open:
            if not self._is_open:
                return
            self._is_open = False
            if self._has_terminal:
                with suppress(OSError):  # the terminal is gone
                    os.tcsetpgrp(_TERMINAL, os.getpgrp())
            assert self._guardian.stdin is not None
            with suppress(BrokenPipeError):  # killed together with its group
                self._guardian.stdin.write(b".")
                self._guardian.stdin.close()
            self._guardian.wait()


def check_command(name: str) -> None:
    """Raise NotStarted if there is no such command, as far as can be seen without starting it."""
    if shutil.which(name) is not None:
        return
    found = Path(name).exists() if os.sep in name else shutil.which(name, os.F_OK) is not None
    raise _not_started(name, PermissionError() if found else FileNotFoundError())


def start_guardian() -> subprocess.Popen[bytes]:
    """Start a guardian in a group of its own. Return once signals to the group no longer end it."""
    # Isolated, so that no setting of the user's Python can break the guardian.
    command = [sys.executable, "-I", "-S", "-c", _GUARDIAN]
    pipe = subprocess.PIPE
    try:
        guardian = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, process_group=0)  # noqa: S603
    except OSError as error:
        raise _not_started(f"the guardian of the command ({command[0]})", error) from None
    assert guardian.stdout is not None
    with guardian.stdout as ready:
        # The byte says that the guardian now ignores the signals to the group.
        if not ready.read(1):
            guardian.communicate()
            raise NotStarted("the guardian of the command ended during its start: was it killed?", _NOT_EXECUTABLE)
    return guardian


def is_in_foreground() -> bool:
    """Return whether input and output are a terminal, and this process is in its foreground."""
    try:
        return os.isatty(0) and os.isatty(1) and os.tcgetpgrp(_TERMINAL) == os.getpgrp()
    except OSError:
        return False  # it is a terminal, but not this process's controlling terminal


def _not_started(name: str, error: OSError) -> NotStarted:
    if isinstance(error, FileNotFoundError):
        return NotStarted(f"{name}: there is no such command, or no such interpreter as it names", _MISSING)
    why = "it is not executable" if isinstance(error, PermissionError) else error.strerror or str(error)
    return NotStarted(f"{name}: it can't be started: {why}", _NOT_EXECUTABLE)


# --- the command

# Seconds between two checks of the lease's own clock. The keeper reports a loss besides.
LOOK = 1.0


class CommandLine:
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
        if not self.signals.wait(0):
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
    command: CommandLine,
    *,
    wait: float = 0.0,
    hold_at_least: Duration = 0,
) -> Refusal | None:
    """Run the command under a plain lock; return None, or the refusal if the lock was not acquired.

    `wait` is how many seconds to keep trying. Raises the errors of `CommandLine.run`, LeaseLost if the command
    succeeded but lost its lock, and Stopping if a signal arrived first.
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
    crons: FireCron, name: str, command: CommandLine, *, grace: float | None = None, wait: float = 0.0
) -> Result | Refusal:
    """Run the command, as the job of that name, for the tick that it is meant for (see `meant_tick`).

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
    if not signals.wait(early):
        raise Stopping
    return _patiently(lambda: _triggered(crons, name, tick), database, name, signals, wait)


def _triggered(crons: FireCron, name: str, tick: datetime) -> Result | Refusal:
    result = crons.registry.trigger(name, slot=tick, source="schedule")
    return result if result.refusal is None else result.refusal


def _time(database: Database, name: str) -> Moment | Refusal:
    try:
        return database.clock.now(database.deadline(database.settings.acquire_timeout))
    except (Unavailable, Denied) as error:
        return not_known(name, "denied" if isinstance(error, Denied) else "unavailable", error)


def _patiently(
    one_try: Callable[[], T | Refusal], database: Database, name: str, signals: Signals, wait: float
) -> T | Refusal:
    """Call `one_try` until a later try can't end otherwise, or until `wait` seconds are over; return its last answer.

    Once it was refused because the lock is held, changes of the lock's node end the pauses. Raises Stopping if a signal
    arrives first.
    """
    if not signals.wait(0):
        raise Stopping
    with closing(Tries(database, name, wait, signals.wake)) as tries:
        tries.start(0)
        answer = one_try()
        while tries.goes_on(answer):
            while (seconds := tries.seconds()) > 0:
                if not signals.wait(seconds):
                    raise Stopping
            tries.start(0)
            answer = one_try()
    return answer
