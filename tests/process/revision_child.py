"""An instance of one of two revisions, whose functions take other arguments: `revision_child.py event|person`.

It says when it has asked for what is due, which schedule has run, and each warning, until its standard input ends.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable

from firecron import FireCron, Run, scheduled
from firecron.settings import load


def say(text: str) -> None:
    os.write(sys.stdout.fileno(), f"{text}\n".encode())  # threads say whole lines


def of_event(run: Run, event: str) -> None:
    say(f"ran {run.name}")


def of_person(run: Run, person: str) -> None:
    say(f"ran {run.name}")


def main(function: Callable[..., None]) -> None:
    job = scheduled("remind", lock_ttl=30)(function)
    crons = FireCron(job, settings=load(margin=0.2, heartbeat=1), enabled=True)
    crons.events.subscribe(lambda one: say(f"said {one.message}") if one.level >= logging.WARNING else None)
    crons.engine.lookers.asked = lambda: say("asked")
    with crons:
        sys.stdin.read()


if __name__ == "__main__":
    main({"event": of_event, "person": of_person}[sys.argv[1]])
