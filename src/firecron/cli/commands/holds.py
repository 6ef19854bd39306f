"""For a while: `firecron hold` pauses all jobs at once, and `firecron mute` keeps the alarms of one job silent.

`unhold` and `unmute` take that back. A hold and its end say what became of each job that is not as it was asked for,
and end with 1 if a lock could not be written. The others are held, or resumed, nevertheless.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

import typer
from rich.text import Text

from firecron.base.texts import plain
from firecron.cli.contexts import here
from firecron.cli.lines import clock_time, distance
from firecron.cli.options import Json, Name, Why, check_why, database_of, given_until, no_such
from firecron.cli.output import Exit, Failure, Output, answering, print_events
from firecron.lock.database import Database
from firecron.ops.holds import HeldJobs, Holds, HoldView, ResumedJobs
from firecron.ops.mutes import Mutes
from firecron.ops.operator import Operator
from firecron.store import check_name

NeededWhy = Annotated[str, typer.Option("--why", help="The reason, for those who look later.")]
NeededUntil = Annotated[
    str, typer.Option("--until", metavar="WHEN", help="When it ends by itself: 2h, 14:00, or 2026-11-18T14:00:00Z.")
]
Service = Annotated[
    str | None, typer.Option("--service", metavar="NAME", help="Only the jobs that this service has declared.")
]
Match = Annotated[
    str | None, typer.Option("--match", metavar="GLOB", help="Only those whose names match, as 'mail-*' does.")
]
Leaders = Annotated[bool, typer.Option("--leaders", help="Leaders, too: nobody is elected.")]
Cancel = Annotated[bool, typer.Option("--cancel", help="Ask the runs that are under way to end.")]
HoldNames = Annotated[
    list[str] | None, typer.Argument(metavar="HOLD", help="Names of holds, if there are several. `status` lists them.")
]


def hold(
    until: NeededUntil,
    why: NeededWhy,
    service: Service = None,
    match: Match = None,
    leaders: Leaders = False,
    cancel: Cancel = False,
    as_json: Json = False,
) -> None:
    """Pause all jobs for a while, or some of them, and say why.

    Every job of the catalogue is paused until WHEN, or until `firecron unhold`; with --service and --match those alone.
    A pause that ends before the hold is put back then; one that ends later is left alone. A job that is declared
    meanwhile is paused, too. Runs that are under way go on. Exits with 1 if a job could not be paused; the others are
    held.
    """
    with answering(as_json=as_json) as output:
        check_why(why)
        database = _open(output)
        ends = given_until(until, database.now(database.deadline()))
        made = Holds(database).hold(
            ends,
            why,
            service=service,
            match=match,
            leaders=leaders,
            cancel=cancel,
            told=lambda done, of: output.progress("holding:", done, of),
        )
        if made.is_taken_back:
            output.say(f"firecron: hold {made.hold.name} was taken back meanwhile, so nothing is held")
        elif not made.is_recorded:
            output.say(
                "firecron: the security rules don't know cron-hold: the jobs are paused without it, those that are "
                "declared from now on are not held. Deploy the rules that `firecron rules` prints"
            )
        output.give(made.to_json(), Text("\n").join(_held_lines(made)))
        if made.failed or made.is_taken_back:
            raise SystemExit(Exit.FAILED)


def unhold(names: HoldNames = None, why: Why = None, as_json: Json = False) -> None:
    """Take a hold back: resume what it has paused.

    A job is resumed only if its pause is still that of the hold: what was paused before, or by somebody since, stays
    paused, and so does what another hold pauses. Exits with 1 if a job could not be resumed; the others are.
    """
    with answering(as_json=as_json) as output:
        check_why(why)
        database = _open(output)
        holds = Holds(database)
        done = [
            holds.unhold(name, why, told=lambda done, of: output.progress("resuming:", done, of))
            for name in _wanted(holds.seen(), names or (), database)
        ]
        lines = [line for one in done for line in _resumed_lines(one)]
        shown = Text("\n").join(lines or [Text("there is no hold: nothing was changed")])
        output.give({"holds": [one.to_json() for one in done]}, shown)
        if any(one.failed for one in done):
            raise SystemExit(Exit.FAILED)


def mute(name: Name, until: NeededUntil, why: NeededWhy, as_json: Json = False) -> None:
    """Tell nobody of a job for a while, and say why.

    `check`, `/health` and the event `job.late` are silent about it. The job runs as before, and `status` shows its
    verdict as before. A mute ends by itself, and replaces the one before it.
    """
    with answering(as_json=as_json) as output:
        check_why(why)
        database = _open(output)
        _check_declared(database, name)
        now = database.now(database.deadline())
        found = Mutes(database).mute(name, given_until(until, now), why)
        until_then = f"until {clock_time(found.until, now)}, {distance(found.until, now)}"
        output.give({"changed": True, "job": name, "muted": found.to_json()}, f"{name}: muted {until_then}")


def unmute(name: Name, why: Why = None, as_json: Json = False) -> None:
    """End the mute of a job: people are told of it again."""
    with answering(as_json=as_json) as output:
        check_why(why)
        database = _open(output)
        changed = Mutes(database).unmute(check_name(name), why)
        if not changed:
            _check_declared(database, name)
        said = "not muted any more" if changed else "it was not muted: nothing was changed"
        output.give({"changed": changed, "job": name, "muted": None}, f"{name}: {said}")


def _check_declared(database: Database, name: str) -> None:
    """Raise Failure for a name that the catalogue doesn't have: nobody would be told of such a job anyway."""
    declared = Operator(database).declared()
    if name not in declared:
        raise no_such(f"job {{}} in the catalogue of {database_of(database.settings)}", name, declared)


def _open(output: Output) -> Database:
    database = Database()
    print_events(database.events, output, frozenset())
    return database


def _wanted(seen: Sequence[HoldView], names: Sequence[str], database: Database) -> list[str]:
    """Return the holds to take back: those that are named, or the only one that there is."""
    there = {view.hold.name: view for view in seen}
    for name in names:
        if name not in there:
            raise no_such(f"hold {{}} in {database_of(database.settings)}", name, there)
    if not names and len(there) > 1:
        lines = [f"  {here(f'firecron unhold {view.hold.name}')}   {_whose(view)}" for view in seen]
        raise Failure("\n".join([f"there are {len(there)} holds: name those to take back", *lines]), Exit.USAGE)
    return list(dict.fromkeys(names)) or list(there)


def _whose(view: HoldView) -> str:
    why = "" if view.hold.why is None else f": {plain(view.hold.why)}"
    return f"{view.hold.what}, by {plain(view.hold.by)}{why}"


# --- the lines. Pure, but for the time of this machine


def _held_lines(made: HeldJobs) -> Iterator[Text]:
    hold, now = made.hold, round(time.time() * 1000)
    end = f"until {clock_time(hold.until, now)}, {distance(hold.until, now)}"
    yield Text(f"{hold.what}: ").append("held" if made.held else "not held", "yellow").append(f" {end}")
    yield Text(f"  {_count(len(made.held))} paused by {plain(hold.by)}: {plain(hold.why or '')}")
    yield from _reasons("left as it is", made.left, "yellow")
    yield from _reasons("could not be paused", made.failed, "bold red")
    going = [run for run in made.running if not run.is_cancelled]
    asked = [run.name for run in made.running if run.is_cancelled]
    if asked:
        yield Text(f"  asked to end: {', '.join(asked)}")
    if going:
        yield Text(
            f"  still running: {', '.join(run.name for run in going)}. To end one: {here('firecron cancel NAME')}"
        )
    yield Text(f"  to take it back: {here(f'firecron unhold {hold.name}')}")


def _resumed_lines(done: ResumedJobs) -> Iterator[Text]:
    yield Text(f"{done.what}: taken back")
    yield Text(f"  {_count(len(done.resumed))} resumed")
    yield from _reasons("paused as before", done.paused, "yellow")
    yield from _reasons("could not be resumed", done.failed, "bold red")
    if done.failed:
        yield Text(f"  to try again: {here(f'firecron unhold {done.hold}')}")


def _reasons(said: str, reasons: Mapping[str, str], style: str) -> Iterator[Text]:
    for name, why in sorted(reasons.items()):
        yield Text("  ").append(f"{plain(name)}: {said}", style).append(f": {plain(why)}")


def _count(number: int) -> str:
    return f"{number:,} {'job' if number == 1 else 'jobs'}"
