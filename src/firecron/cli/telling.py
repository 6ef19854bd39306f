"""What the commands that run something say on the way, on standard error, and what a refusal makes them end with."""

from __future__ import annotations

import logging
from collections.abc import Set

from firecron.cli.answers import OF_REFUSAL, Answers, Exit
from firecron.events import Event, Events
from firecron.inspection import plain
from firecron.refusal import Refusal


def tell_events(events: Events, answers: Answers, unless: Set[str]) -> None:
    """Say what the log would call a WARNING or worse, but for these slugs: the command says that itself, except of
    the rerun of an earlier tick.
    """
    silence_log()

    def tell(event: Event) -> None:
        is_said_otherwise = event.slug in unless and event.fields.get("trigger") != "rerun"
        if event.level >= logging.WARNING and not is_said_otherwise:
            answers.say(f"firecron: {plain(event.message)}")

    events.subscribe(tell)


def silence_log() -> None:
    """Keep Python from printing warnings by itself, where nobody has set up a log: the command says what there is."""
    logging.getLogger("firecron").addHandler(logging.NullHandler())


def code_of_refusal(refusal: Refusal, held_exit_code: int) -> int:
    """What a command ends with that didn't get its lock."""
    code = OF_REFUSAL[refusal.reason]
    return held_exit_code if code == Exit.HELD else code
