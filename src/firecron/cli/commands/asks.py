"""`firecron ask`: have a live instance run a job, where its code is not at hand."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import typer

from firecron.cli.options import Json, Name, Why, check_why, database_of, no_such
from firecron.cli.output import Exit, Failure, answering, print_events
from firecron.lock.database import Database
from firecron.ops.asks import NotAsked, RunAsks
from firecron.ops.operator import Operator

# Those by which the lock, or somebody else, stands in the way.
_HELD = ("asked", "paused", "slot_done", "slot_early")


def ask(
    name: Name,
    slot: Annotated[
        str | None,
        typer.Option(
            "--slot",
            metavar="now|INSTANT",
            help="Ask for the run of a tick: the newest within the job's grace, or this one (2026-11-18T09:00:00Z).",
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume",
            metavar="INSTANT|KEY",
            help="Ask for a tick again that has not succeeded, as its next attempt: with its key and its steps.",
        ),
    ] = None,
    why: Why = None,
    as_json: Json = False,
) -> None:
    """Ask a live instance to run the job NAME, without its code here.

    The command doesn't wait: `firecron runs NAME` shows the run, whose id is that of the ask. While the job's lock is
    held the ask waits. It is valid for five minutes; an ask that nobody has run by then is removed, and `firecron acts`
    says why. There is one ask of a job at a time.

    \b
    Exit codes:
        0  it is asked for
        1  no instance may run it: it is disabled, or only a trigger runs it
       75  it is paused, the tick is claimed, or somebody has asked already
    """
    with answering(as_json=as_json) as output:
        check_why(why)
        if slot is not None and resume is not None:
            raise Failure("--slot claims a tick, and --resume runs one again: leave one of them out", Exit.USAGE)
        database = Database()
        print_events(database.events, output, frozenset())
        found = RunAsks(database).ask(name, slot=None if slot is None else _instant(slot), resume=resume, why=why)
        if isinstance(found, NotAsked):
            if found.word == "unknown_job":
                declared = Operator(database).declared()
                raise no_such(f"job {{}} in the catalogue of {database_of(database.settings)}", name, declared)
            code = Exit.HELD if found.word in _HELD else Exit.FAILED
            raise Failure(f"{name} was not asked for: {found.why}", code, remedy=found.remedy)
        if found.is_attended is False:
            output.say(f"firecron: WARNING: no live instance has {name}: unless one comes, nobody runs it")
        output.give(found.to_json(), f"{name}: {found.ask.what} is asked for, as {found.ask.id}")


def _instant(text: str) -> datetime | Literal["now"]:
    if text == "now":
        return "now"
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        raise Failure(f"--slot {text!r} is no instant: write it like 2026-11-18T09:00:00Z, or give now", Exit.USAGE)
    return instant
