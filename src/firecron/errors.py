"""Every exception that firecron raises, except `NotAcquired` (in `lock.refusal`).

The docstring of a class is its default message, so it says what to do.
"""

from __future__ import annotations

from datetime import datetime


class FirecronError(Exception):
    """Something went wrong in firecron."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or " ".join((type(self).__doc__ or "").split()))


class ConfigurationError(FirecronError, ValueError):
    """A setting can't be used. The message names the setting, its value and the remedy."""


class StoreError(FirecronError):
    """The Realtime Database did not do what firecron asked.

    `what` says this in three words, for the beginning of a line.
    """

    what = "RTDB failed"


class Unavailable(StoreError):
    """RTDB can't be reached, or doesn't answer in time: check RTDB's status page and this machine's network.

    `retry_after` is the pause in seconds that the server asked for; None if it asked for none.
    """

    what = "RTDB unreachable"

    def __init__(self, message: str | None = None, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class EmulatorDown(Unavailable):
    """The emulator is not running: start it, or name another database."""

    what = "Emulator not running"


class Denied(StoreError):
    """RTDB refuses the request: check the service account's role, the security rules, and the databaseURL."""

    what = "RTDB denies access"


class NoIndex(Denied):
    """RTDB has no index for this query: deploy the rules that `firecron rules` prints."""


class NoCredentials(Denied):
    """The Google credentials are missing, or they give no access token. Without a token firecron can't ask RTDB."""

    what = "No credentials for RTDB"


class Malformed(StoreError):
    """RTDB holds a value that firecron did not write and can't read: look at the node in the Firebase console."""


class LeaseLost(FirecronError):
    """The lease is lost, and another instance may be at work already: stop, and undo or fence your own writes."""


class Cancelled(FirecronError):
    """An operator or a later tick has cancelled this run: end it cleanly, and let this exception through."""


class Stopping(FirecronError):
    """This instance is shutting down: end the run where it can continue later, and let this exception through."""


class StepInDoubt(FirecronError):
    """A step that may be called only once was called by an earlier try, and nobody knows how that ended.

    Find out from the system that it called, then `run.settle(name, result)`, or `run.retry(name)` and call it again.
    `name` is the step; `instance`, `attempt` and `at` say where, in which attempt and when it was called.
    """

    def __init__(self, name: str, instance: str | None, attempt: int | None, at: datetime) -> None:
        super().__init__(
            f'step "{name}" was begun at {at:%H:%M:%S} UTC on {at:%Y-%m-%d} by attempt {attempt or 1} on '
            f"{instance or 'an unknown instance'}, and it is not known how it ended: find out from the system that it "
            f"called, then run.settle({name!r}, result), or run.retry({name!r}) to call it again"
        )
        self.name = name
        self.instance = instance
        self.attempt = attempt
        self.at = at


class UnknownJob(FirecronError, KeyError):
    """There is no job of that name: `registry.jobs()` returns the jobs that there are."""

    def __str__(self) -> str:
        return str(self.args[0])


class NoTick(FirecronError):
    """The schedule has no tick to run for: wait for the next tick, or allow more grace."""


class CommandFailed(FirecronError):
    """The command ended with an exit code other than 0."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the command ended with exit code {code}")


class NotStarted(FirecronError):
    """The command could not be started.

    `code` is the exit code that a shell uses for this case: 127 (not found) or 126 (not executable).
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code
