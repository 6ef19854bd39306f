"""`firecron forget`: an operator takes jobs out of the catalogue, by hand and for good."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from firecron.base.instants import to_text
from firecron.cli.naming import close_to, database_of
from firecron.cli.options import Json, Why, check_why
from firecron.cli.output import Exit, Failure, Output, answering
from firecron.cli.reporting import tell_events
from firecron.cron.shown import schedule_fields
from firecron.jobs.catalogue import Declared
from firecron.lock.service import LockService
from firecron.ops.forgetting import Catalogue, SeenEntry
from firecron.ops.operator import Operator
from firecron.ops.views import plain

Names = Annotated[list[str], typer.Argument(metavar="NAME", help="Names of the jobs.")]
Force = Annotated[bool, typer.Option("--force", help="Also forget jobs that a live program runs.")]


def add_to(app: typer.Typer) -> None:
    app.command("forget", epilog="Example: firecron forget old-report")(forget)


def forget(names: Names, force: Force = False, why: Why = None, as_json: Json = False) -> None:
    """Take jobs out of the catalogue that no program has any more.

    Their locks and their histories stay, so a job that comes back goes on where it was. A job that a live program runs
    is not forgotten, because the program would declare it again: give --force to remove its entry nevertheless. Does
    nothing to an entry that changes meanwhile.
    """
    output = Output(as_json=as_json)
    with answering(output):
        check_why(why)
        locks = LockService()
        tell_events(locks.events, output, frozenset())
        catalogue, operator = Catalogue(locks), Operator(locks)
        found = catalogue.look(names)
        for seen in found:
            _check(catalogue, seen, database_of(locks.settings), force=force)
        forgotten: list[SeenEntry] = []
        for seen in found:
            if not catalogue.forget(seen):
                done = f"{', '.join(one.name for one in forgotten)} forgotten, but " if forgotten else ""
                raise Failure(f"{done}{seen.name} changed meanwhile, so it was not forgotten: run the command again")
            forgotten.append(seen)
            operator.record("forget", seen.name, why)
        output.give({"forgotten": [_value(seen) for seen in forgotten]}, Text("\n").join(map(_shown, forgotten)))


def _check(catalogue: Catalogue, seen: SeenEntry, database: str, *, force: bool) -> None:
    if not seen.is_there:
        said = f"there is no job {seen.name} in the catalogue of {database}{close_to(catalogue, seen.name)}"
        raise Failure(f"nothing was forgotten: {said}", Exit.USAGE)
    if seen.live and not force:
        who = next((group for group in seen.live if group.jobs is not None), seen.live[0])
        if who.jobs is None:
            runs = "a live program that doesn't say what it runs may have it"
        else:
            runs = f"{plain(who.service or 'a program')} runs it"
        raise Failure(
            f"nothing was forgotten: {seen.name} is live, {runs}, and would declare it again. Take it out of the "
            "program first, or give --force"
        )


def _value(seen: SeenEntry) -> dict[str, object]:
    """Return what was forgotten: it always has every field, null if the entry could not be read."""
    job = seen.declared
    return {
        "name": seen.name,
        **schedule_fields(None if job is None else job.schedule),
        "service": None if job is None else plain(job.service),
        "revision": None if job is None or job.revision is None else plain(job.revision),
        "where": None if job is None else plain(job.where),
        "declared": None if job is None or job.declared_at is None else to_text(job.declared_at),
        "live": bool(seen.live),
    }


def _shown(seen: SeenEntry) -> Text:
    what = "its entry could not be read" if seen.declared is None else _in_words(seen.declared)
    return Text(f"{seen.name}: forgotten\n  {what}\n  its lock and its history stay")


def _in_words(job: Declared) -> str:
    by = " / ".join(plain(part) for part in (job.service, job.revision) if part) or "nobody with its role"
    at = "" if job.declared_at is None else f" at {to_text(job.declared_at)}"
    where = f" ({plain(job.where)})" if job.where else ""
    return f"{job.schedule}, declared by {by}{at}{where}"
