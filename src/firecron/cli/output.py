"""The output of a command: an exit code that a script can rely on, and text for people or JSON for programs.

People get the result on standard output, and complaints on standard error. With `--json`, standard output has one JSON
value, with `--watch` one JSON value a line. A failure is JSON as well: `{"error": …, "code": …}`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

from rich.console import Console, RenderableType

from firecron.errors import ConfigurationError, Denied, FirecronError, Malformed, Unavailable, UnknownJob
from firecron.lock.record import Reason
from firecron.lock.refusal import NotAcquired


class Exit(IntEnum):
    """The exit codes of the commands. The codes above 2 are those of sysexits.h."""

    FINE = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 69
    HELD = 75
    REFUSED = 78


OF_REFUSAL: dict[Reason, Exit] = {
    "held": Exit.HELD,
    "paused": Exit.HELD,
    "slot_done": Exit.HELD,
    "slot_early": Exit.HELD,
    "unavailable": Exit.UNREACHABLE,
    "denied": Exit.REFUSED,
    "malformed": Exit.REFUSED,
}


class Failure(Exception):
    """The error that ends a command with this message and exit code."""

    def __init__(self, message: str, code: Exit = Exit.FAILED) -> None:
        super().__init__(message)
        self.code = code


def code_of(error: FirecronError) -> Exit:
    """Return the exit code for an error of the library."""
    match error:
        case NotAcquired():
            return OF_REFUSAL[error.refusal.reason]
        case Unavailable():
            return Exit.UNREACHABLE
        case Denied() | Malformed():
            return Exit.REFUSED
        case ConfigurationError() | UnknownJob():
            return Exit.USAGE
        case _:
            return Exit.FAILED


class Output:
    """Prints a command's result, remarks and failures."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        # What a job or an operator has written in brackets is no style.
        self.out = Console(markup=False, highlight=False, emoji=False)
        self.err = Console(markup=False, highlight=False, emoji=False, stderr=True)

    def give(self, value: object, shown: RenderableType) -> None:
        """Print the result: `value` as JSON for programs, or `shown` for people."""
        if self.as_json:
            sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
            sys.stdout.flush()
        else:
            # Without a terminal, lines are not wrapped: a program may read them.
            self.out.print(shown, soft_wrap=not self.out.is_terminal)

    def say(self, message: str) -> None:
        """Print a remark for people on standard error. It is never part of the result."""
        self._complain(message)

    def fail(self, message: str, code: Exit) -> None:
        if self.as_json:
            sys.stdout.write(json.dumps({"error": message, "code": int(code)}, ensure_ascii=False) + "\n")
        self._complain(f"firecron: {message}")

    def _complain(self, message: str) -> None:
        self.err.print(message, soft_wrap=not self.err.is_terminal)


@contextmanager
def answering(output: Output) -> Iterator[None]:
    """Turn an error that the command raises into a printed failure and an exit code."""
    try:
        yield
    except Failure as failure:
        output.fail(str(failure), failure.code)
        raise SystemExit(failure.code) from None
    except FirecronError as error:
        output.fail(str(error), code_of(error))
        raise SystemExit(code_of(error)) from None
