"""The output of a command: an exit code that a script can rely on, and text for people or JSON for programs.

People get the result on standard output, and complaints on standard error. With `--json`, standard output has one JSON
value, with `--watch` one JSON value a line. A failure is JSON as well: `{"error": …, "code": …, "remedy": …}`.

A command that runs a job prints the warnings of the run on standard error. An application may have a log that writes to
the terminal too: the command doesn't repeat what that log prints.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator, Set
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, TypeAlias

from rich.console import Console, RenderableType

from firecron.base.events import Event, Events, Scalar
from firecron.base.texts import plain
from firecron.cli.contexts import here
from firecron.errors import ConfigurationError, Denied, FirecronError, Malformed, Unavailable, UnknownJob

if TYPE_CHECKING:
    from firecron.lock.record import Reason
    from firecron.lock.refusal import Refusal
    from firecron.ops.remedy import Remedy

# --- exit codes


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
    "removed": Exit.HELD,
    "slot_done": Exit.HELD,
    "slot_early": Exit.HELD,
    "unavailable": Exit.UNREACHABLE,
    "denied": Exit.REFUSED,
    "malformed": Exit.REFUSED,
}


class Failure(Exception):
    """The error that ends a command with this message and exit code. `remedy` is what to do, if known."""

    def __init__(self, message: str, code: Exit = Exit.FAILED, remedy: Remedy | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.remedy = remedy


def code_of(error: FirecronError) -> Exit:
    from firecron.lock.refusal import NotAcquired

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


def code_of_refusal(refusal: Refusal, held_exit_code: int) -> int:
    """Return the exit code of a command that didn't get its lock."""
    code = OF_REFUSAL[refusal.reason]
    return held_exit_code if code == Exit.HELD else code


# --- results and complaints


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
        self.err.print(message, soft_wrap=not self.err.is_terminal)

    def progress(self, said: str, done: int, of: int) -> None:
        """Show how far a command of many steps is, on a terminal. The last step clears the line."""
        if self.as_json or not self.err.is_terminal:
            return
        line = "" if done >= of else f"{said} {done:,} of {of:,}"
        self.err.file.write(f"\r\x1b[K{line}")
        self.err.file.flush()

    def fail(self, message: str, code: Exit, remedy: Remedy | None = None) -> None:
        if self.as_json:
            value = {"error": message, "code": int(code), "remedy": remedy and remedy.to_json()}
            sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
        self.say(f"firecron: {with_remedy(message, remedy)}")


def with_remedy(said: str, remedy: Remedy | None) -> str:
    """Return what is said, in one line with what to do about it."""
    if remedy is None:
        return said
    return f"{said} → {remedy.words}{'' if remedy.command is None else f': {here(remedy.command)}'}"


@contextmanager
def answering(*, as_json: bool = False) -> Iterator[Output]:
    """Yield the output of a command. Turn an error that it raises into a printed failure and an exit code."""
    output = Output(as_json=as_json)
    try:
        yield output
    except (Failure, FirecronError) as error:
        code, remedy = (error.code, error.remedy) if isinstance(error, Failure) else (code_of(error), None)
        output.fail(str(error), code, remedy)
        raise SystemExit(code) from None


# --- remarks during a run

# An event's slug, and the key of its run.
Logged: TypeAlias = tuple[str, Scalar | None]


def print_events(events: Events, output: Output, unless: Set[str]) -> Set[Logged]:
    """Print each event of level WARNING or above on standard error, and return the set of events that the log prints.

    `unless` has the slugs that the command reports in other words. They are printed only for a rerun of an earlier
    tick. The returned set grows with each event that the application's own log prints; such an event is not repeated.
    """
    silence_log()
    logged: set[Logged] = set()

    def tell(event: Event) -> None:
        if _is_logged(event.level):
            logged.add((event.slug, event.fields.get("key")))
            return
        is_said_otherwise = event.slug in unless and event.fields.get("trigger") != "rerun"
        if event.level >= logging.WARNING and not is_said_otherwise:
            output.say(f"firecron: {plain(event.message)}")

    events.subscribe(tell)
    return logged


def _is_logged(level: int) -> bool:
    """Return whether the log prints a line of this level on standard output or standard error."""
    logger = logging.getLogger("firecron")
    streams = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    return logger.isEnabledFor(level) and any(
        level >= handler.level and getattr(handler, "stream", None) in streams for handler in _handlers(logger)
    )


def _handlers(logger: logging.Logger) -> Iterator[logging.Handler]:
    found: logging.Logger | None = logger
    while found is not None:
        yield from found.handlers
        found = found.parent if found.propagate else None


def silence_log() -> None:
    """Keep Python from printing log lines where the application has no log: the command reports them itself."""
    logging.getLogger("firecron").addHandler(logging.NullHandler())
