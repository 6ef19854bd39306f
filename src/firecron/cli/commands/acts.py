"""`firecron acts`: what operators have done, who, when and why."""

from __future__ import annotations

import time

import typer
from rich.text import Text

from firecron.cli.naming import database_of, remark_on
from firecron.cli.options import Json, OnlyName
from firecron.cli.output import Output, answering
from firecron.cli.words import clock_time
from firecron.lock.acts import Act
from firecron.lock.names import check_name
from firecron.lock.service import LockService
from firecron.ops.operator import Operator


def add_to(app: typer.Typer) -> None:
    app.command("acts", epilog="Example: firecron acts send-daily-digest")(acts)


def acts(name: OnlyName = None, as_json: Json = False) -> None:
    """Show what operators have done: who, when and why.

    Pauses, unlocks, cancels, runs by hand and the like; the newest act is last. The newest 50 acts on all names are
    kept. Who acted at a command line is a claim of that machine. What was typed into the Firebase console is not here.
    """
    output = Output(as_json=as_json)
    with answering(output):
        locks = LockService()
        operator = Operator(locks)
        found = operator.acts(None if name is None else check_name(name))
        output.give({"acts": [act.to_json() for act in found]}, _shown(found, name, locks))
        if name is not None and not found and operator.look(name).view.state == "absent":
            remark_on(output, operator, name)


def _shown(found: tuple[Act, ...], name: str | None, locks: LockService) -> Text:
    if not found:
        on = "" if name is None else f" on {name}"
        return Text(f"There is no act{on} in {database_of(locks.settings)}.", "dim")
    now = round(time.time() * 1000)
    return Text("\n").join(_line(act, now) for act in found)


def _line(act: Act, now: int) -> Text:
    at = "at an unknown time" if act.at is None else clock_time(act.at, now)
    line = Text(f"{at}  ").append(f"{act.act or '?'} {act.name or '?'}", "bold").append(f" by {act.who or '?'}")
    return line if act.why is None else line.append(f": {act.why}")
