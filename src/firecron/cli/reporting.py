"""The remarks that a command prints on standard error during a run, and its exit code after a refusal.

An application may have a log that writes to the terminal too. The command doesn't repeat what that log prints.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Set
from typing import TypeAlias

from firecron.base.events import Event, Events, Scalar
from firecron.cli.output import OF_REFUSAL, Exit, Output
from firecron.lock.refusal import Refusal
from firecron.ops.views import plain

# An event's slug, and the key of its run.
Logged: TypeAlias = tuple[str, Scalar | None]


def tell_events(events: Events, output: Output, unless: Set[str]) -> Set[Logged]:
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
    """Return the handlers that get the lines of this logger."""
    found: logging.Logger | None = logger
    while found is not None:
        yield from found.handlers
        found = found.parent if found.propagate else None


def silence_log() -> None:
    """Keep Python from printing log lines where the application has no log: the command reports them itself."""
    logging.getLogger("firecron").addHandler(logging.NullHandler())


def code_of_refusal(refusal: Refusal, held_exit_code: int) -> int:
    """Return the exit code of a command that didn't get its lock."""
    code = OF_REFUSAL[refusal.reason]
    return held_exit_code if code == Exit.HELD else code
