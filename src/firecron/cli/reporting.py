"""What the commands that run something say on the way, on standard error, and what a refusal makes them end with.

An application may have set up a log that writes to the terminal as well. What that log says, the command doesn't say
again.
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
    """Say what the log would call a WARNING or worse, but for these slugs: the command says that itself, except of
    the rerun of an earlier tick. What is returned fills with all that the application's own log says.
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
    """Whether a line of this level comes out on standard output or standard error."""
    logger = logging.getLogger("firecron")
    streams = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    return logger.isEnabledFor(level) and any(
        level >= handler.level and getattr(handler, "stream", None) in streams for handler in _handlers(logger)
    )


def _handlers(logger: logging.Logger) -> Iterator[logging.Handler]:
    """All that a line of this logger goes to."""
    found: logging.Logger | None = logger
    while found is not None:
        yield from found.handlers
        found = found.parent if found.propagate else None


def silence_log() -> None:
    """Keep Python from printing warnings by itself, where nobody has set up a log: the command says what there is."""
    logging.getLogger("firecron").addHandler(logging.NullHandler())


def code_of_refusal(refusal: Refusal, held_exit_code: int) -> int:
    """What a command ends with that didn't get its lock."""
    code = OF_REFUSAL[refusal.reason]
    return held_exit_code if code == Exit.HELD else code
