"""`firecron exec`: run any command under a lock, or as the run of a tick. `cli/process.py` runs the command.

Standard input, output and error belong to the command. firecron prints its own remarks on standard error.
"""

from __future__ import annotations

import os
from typing import Annotated

import typer

from firecron.app import FireCron
from firecron.base.events import Event
from firecron.base.instants import DAY
from firecron.base.texts import plain
from firecron.cli.options import Ending, Every, HeldExitCode, Starting, given_schedule
from firecron.cli.output import Exit, Failure, answering, code_of_refusal, print_events
from firecron.cli.process import CommandLine, Signals, under_lock, under_tick
from firecron.cron.schedule import DEFAULT_ZONE, Schedule, shortest_interval
from firecron.errors import Cancelled, CommandFailed, LeaseLost, NotStarted, Stopping
from firecron.jobs.about import NOTHING, About, check_about
from firecron.jobs.decorator import declared, distributed_cron
from firecron.jobs.job import Job, make_job
from firecron.jobs.options import OnAbandoned
from firecron.jobs.run import Run
from firecron.lock.database import Database
from firecron.lock.refusal import Refusal
from firecron.settings import load

# The exit code or the last line of output shows these.
_SAID_OTHERWISE = {"lock.refused", "lock.unavailable", "run.failed"}
# The longest grace that the catalogue has of a job whose ticks may start until the next one, in seconds.
_LONGEST_GRACE = 3_600.0
_ERRORS = {"lost": LeaseLost, "cancelled": Cancelled, "interrupted": Stopping}
_BAD_ENDS = ("run.failed", "run.lost", "run.interrupted", "run.cancelled")


def execute(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND", help="The command to run, after --.")],
    lock: Annotated[str, typer.Option("--lock", metavar="NAME", help="Name of the lock; for a tick, of the job.")],
    ttl: Annotated[float, typer.Option("--ttl", help="Seconds until the lock expires if this machine dies.")] = 60.0,
    cron: Annotated[str | None, typer.Option("--cron", metavar="LINE", help="Claim a tick of this cron line.")] = None,
    timezone: Annotated[
        str | None, typer.Option("--timezone", metavar="ZONE", help="Time zone of the cron line; UTC unless given.")
    ] = None,
    every: Every = None,
    starting: Starting = None,
    until: Ending = None,
    grace: Annotated[
        float | None,
        typer.Option("--grace", min=0, help="Seconds after the tick that a run may start; else until the next tick."),
    ] = None,
    on_abandoned: Annotated[
        OnAbandoned, typer.Option("--on-abandoned", help="What to do about a run that died or was interrupted.")
    ] = "skip",
    description: Annotated[
        str | None, typer.Option("--description", metavar="TEXT", help="What the job does, for people.")
    ] = None,
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="WHO", help="Whose job it is: a team or a person.")
    ] = None,
    runbook: Annotated[
        str | None, typer.Option("--runbook", metavar="URL", help="https:// address that says what to do if it fails.")
    ] = None,
    wait: Annotated[
        float,
        typer.Option("--wait", min=0, help="Seconds to wait if the lock is held or the database is down."),
    ] = 0.0,
    hold_at_least: Annotated[
        float,
        typer.Option("--hold-at-least", min=0, help="Seconds to keep the lock, even if COMMAND ends sooner."),
    ] = 0.0,
    held_exit_code: HeldExitCode = Exit.HELD,
) -> None:
    """Run COMMAND under a lock, which is renewed while COMMAND runs.

    With --cron or --every it claims a tick: of all commands that are started for one tick, on any machine, exactly one
    runs, even if the others start late. `firecron status` and `firecron check` show the job from its first start on. If
    an earlier tick is rerun first, the exit code is the first one that isn't 0.

    The exit code is COMMAND's, or 128 plus the number of the signal that ended it. Other exit codes:

    \b
        1  the lock was lost, the run cancelled, or no tick is within the grace
       69  not started: the database can't be reached
       75  not started: the lock is held or paused, or the tick is done
       78  not started: denied, or the lock's node is malformed
      126  not started: COMMAND can't be executed
      127  not started: there is no such COMMAND
    """
    # Signals come first: the first process of a container ignores signals that have no handler.
    with Signals() as signals, answering() as output:
        if not hasattr(os, "killpg"):
            raise Failure("exec needs a system with process groups, such as Linux or macOS", Exit.USAGE)
        ticks = cron is not None or every is not None
        about = check_about(description, owner, runbook)
        if not ticks and (timezone, starting, until, grace, on_abandoned, about) != (
            *(None,) * 4,
            "skip",
            NOTHING,
        ):
            only = "--timezone, --starting, --until, --grace, --on-abandoned, --description, --owner and --runbook"
            raise Failure(f"{only} are only for ticks: give --cron or --every as well", Exit.USAGE)
        schedule = given_schedule(cron, timezone, every, starting, until, lock) if ticks else None
        settings = load()
        run = CommandLine(command, signals, settings.margin / 2)
        reruns: list[int] = []
        code: int = Exit.FINE

        def note(event: Event) -> None:
            if event.slug in _BAD_ENDS and event.fields.get("trigger") == "rerun":
                reruns.append(_code_of_end(run, is_stopped=event.slug == "run.interrupted"))

        try:
            run.check()
            if schedule is None:
                database = Database(settings=settings)
                print_events(database.events, output, _SAID_OTHERWISE)
                refusal = under_lock(database, lock, ttl, run, wait=wait, hold_at_least=hold_at_least)
            else:
                crons = FireCron(enabled=False)
                crons.registry.add(_job(run, lock, schedule, ttl, hold_at_least, on_abandoned, grace, about))
                print_events(crons.events, output, _SAID_OTHERWISE)
                crons.events.subscribe(note)
                refusal = _under_tick(crons, lock, run, grace, wait)
        except NotStarted as error:
            output.say(f"firecron: {error}")
            code = error.code
        except (Cancelled, CommandFailed, LeaseLost, Stopping) as error:
            code = _code_of_end(run, is_stopped=isinstance(error, Stopping))
        else:
            if refusal is not None:
                output.say(f"firecron: {plain(refusal.message)}")
                code = code_of_refusal(refusal, held_exit_code)
        raise SystemExit(reruns[0] if reruns else code)


def _code_of_end(command: CommandLine, *, is_stopped: bool) -> int:
    return command.code or (128 + (command.signals.received or 0) if is_stopped else Exit.FAILED)


def _job(
    command: CommandLine,
    name: str,
    schedule: Schedule,
    ttl: float,
    hold_at_least: float,
    on_abandoned: OnAbandoned,
    grace: float | None,
    about: About,
) -> Job:
    """Return the job whose runs run the command.

    A tick may start until the next one, if no grace is given. The catalogue says so up to an hour: a tick that nobody
    has started by then is late.
    """
    is_line = schedule.every is None
    within = min(shortest_interval(schedule), _LONGEST_GRACE) if grace is None else min(max(grace, 1), DAY)

    @distributed_cron(
        name,
        schedule.line if is_line else None,
        timezone=schedule.timezone if is_line else DEFAULT_ZONE,
        every=schedule.every,
        starting=schedule.starting,
        until=schedule.until,
        lock_ttl=ttl,
        hold_at_least=hold_at_least,
        on_abandoned=on_abandoned,
        grace=within,
        description=about.description,
        owner=about.owner,
        runbook=about.runbook,
    )
    def run_command(run: Run) -> None:
        command.run_as_job(run)

    (options,) = declared(run_command)
    return make_job(options, run_command, f"firecron exec {command.program}")


def _under_tick(crons: FireCron, name: str, command: CommandLine, grace: float | None, wait: float) -> Refusal | None:
    """Run the command for its tick. Return the refusal, if any. Raises the error of a run that didn't succeed."""
    crons.check_jobs()
    try:
        answer = under_tick(crons, name, command, grace=grace, wait=wait)
    finally:
        crons.engine.publisher.wait(crons.settings.request_timeout)
        crons.stop()  # waits until the history has the earlier ticks that did not run
    if isinstance(answer, Refusal):
        return answer
    error = _ERRORS[answer.outcome]() if answer.outcome in _ERRORS else answer.error
    if error is not None:
        raise error
    return None
