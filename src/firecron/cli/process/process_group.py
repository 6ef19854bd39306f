"""A command and what it starts: one process group, which can be signalled as one, and doesn't outlive this process.

    group = ProcessGroup(["sh", "-c", "pg_dump … | gzip > …"], environment)
    code = group.wait()
    group.close()

A guardian leads the group: a tiny process that reads a pipe whose other end only this process has. If that ends
without a word, this process is dead, by whatever, SIGKILL included, and the guardian kills the group. It was there
before the command, so that no moment is unguarded, and it stays until the end, so that the group's number can't have
gone to others when it is signalled. All that is needed for this is POSIX. What leaves the group (a daemon, a shell
with job control of its own) is out of reach of signals and guardian alike.

Where standard input and output are a terminal and this process is in its foreground, the group is put there: the
command reads what is typed, and Ctrl-C reaches the command and nobody else, once. Everywhere else a signal comes to
this process, which sends it on.
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
    """A command, started with this environment; `number` is its group's. Raises NotStarted."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        # Reentrant: a signal's handler sends, whatever this thread is doing.
        self._open = threading.RLock()
        self._is_open = True
        self._guardian = start_guardian()
        self.number = self._guardian.pid
        self._has_terminal = is_in_foreground()
        try:
            if self._has_terminal:
                os.tcsetpgrp(_TERMINAL, self.number)
            # What is inherited (a shell's `<(…)`) is handed on; what Python opens itself is not inheritable.
            self._leader = subprocess.Popen(  # noqa: S603
                list(arguments), env=dict(environment), process_group=self.number, close_fds=False
            )
        except OSError as error:
            self.close()
            raise _not_started(arguments[0], error) from None

    def send(self, number: int) -> None:
        """Send a signal to all of it; without effect once it is closed."""
        with self._open:
            if self._is_open:
                # Of a group that only zombies are left of, macOS says that it isn't permitted.
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.number, number)

    def wait(self) -> int:
        """Wait for the command itself; the number of the signal that killed it is negative."""
        while True:
            # In slices: Python hears a signal that comes just before a wait only after it.
            with suppress(subprocess.TimeoutExpired):
                return self._leader.wait(_SLICE)

    def close(self) -> None:
        """Let go of it: what the command has left behind goes on by itself, and is guarded no more."""
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
    """NotStarted if there is no such command, as far as can be told without starting it."""
    if shutil.which(name) is not None:
        return
    found = Path(name).exists() if os.sep in name else shutil.which(name, os.F_OK) is not None
    raise _not_started(name, PermissionError() if found else FileNotFoundError())


def start_guardian() -> subprocess.Popen[bytes]:
    """Start a guardian in a group of its own; returns when no signal to the group ends it any more."""
    # Isolated, so that no setting of the user's Python can break it.
    command = [sys.executable, "-I", "-S", "-c", _GUARDIAN]
    pipe = subprocess.PIPE
    try:
        guardian = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, process_group=0)  # noqa: S603
    except OSError as error:
        raise _not_started(f"the guardian of the command ({command[0]})", error) from None
    assert guardian.stdout is not None
    with guardian.stdout as ready:
        # Only now does no signal to the group end it.
        if not ready.read(1):
            guardian.communicate()
            raise NotStarted("the guardian of the command ended before it began: was it killed?", _NOT_EXECUTABLE)
    return guardian


def is_in_foreground() -> bool:
    """Whether input and output are a terminal that this process is in the foreground of."""
    try:
        return os.isatty(0) and os.isatty(1) and os.tcgetpgrp(_TERMINAL) == os.getpgrp()
    except OSError:
        return False  # a terminal, but not the one that controls this process


def _not_started(name: str, error: OSError) -> NotStarted:
    if isinstance(error, FileNotFoundError):
        return NotStarted(f"{name}: there is no such command, or not the interpreter that it names", _MISSING)
    why = "it is not executable" if isinstance(error, PermissionError) else error.strerror or str(error)
    return NotStarted(f"{name}: it can't be started: {why}", _NOT_EXECUTABLE)
