"""A command and the processes that it starts: one process group, which is signalled as a whole.

    group = ProcessGroup(["sh", "-c", "pg_dump … | gzip > …"], environment)
    code = group.wait()
    group.close()

The group doesn't outlive this process. Its leader is a guardian: a tiny process that reads a pipe whose other end only
this process has. If the pipe closes without a byte, this process has died, even by SIGKILL, and the guardian kills the
group. The guardian starts before the command, so that the command is never unguarded. It stays until the end, so that
the system can't give the group's number to other processes while the group is signalled. All of this is plain POSIX.
A process that leaves the group (a daemon, a shell with its own job control) is out of reach for signals and guardian.

If standard input and output are a terminal and this process is in its foreground, the group is put into the foreground.
The command then reads what is typed, and Ctrl-C reaches only the command, once. Otherwise a signal reaches this
process, which sends it on.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from firecron.errors import NotStarted

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
    """A command, started with this environment. `number` is the number of its process group. Raises NotStarted."""

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
