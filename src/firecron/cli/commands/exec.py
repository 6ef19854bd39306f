"""`firecron exec`: any command under a lock, or as the run of a tick. All that is about the command is in `command`.

Standard input, output and error are the command's own; what firecron has to say is on standard error.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated

import typer

from firecron.app import FireCron
from firecron.base.events import Event
from firecron.cli.output import Exit, Failure, Output, answering
from firecron.cli.process.command import Command, under_lock, under_tick
from firecron.cli.process.signals import Signals
from firecron.cli.reporting import code_of_refusal, tell_events
from firecron.errors import CommandFailed, LeaseLost, NotStarted, Stopping
from firecron.jobs.decorator import distributed_cron
from firecron.jobs.options import OnAbandoned
from firecron.jobs.run import Run
from firecron.lock.refusal import Refusal
from firecron.lock.service import LockService
from firecron.ops.views import plain
from firecron.settings import load

HELP = """Run COMMAND under a lock, renewed for as long as it runs.

With --cron it claims a tick: of all that are started for one tick, on whatever machine, one runs, also if the others
come late. The exit code is the command's, 128 and the number of the signal that ended it, 127 if there is no such
command, 126 if it can't be executed; 1 if its lock was lost, or no tick is within the grace; 75 if the lock is held or
paused or the tick is done, 69 if the database can't be reached, 78 if it is denied or the node is malformed, and then
COMMAND was not started. If an earlier tick is rerun first, the code is the first that isn't 0.

Example: firecron exec --lock report --cron '30 2 * * *' --timezone Europe/Berlin -- ./report.sh
"""

# The exit code, or the last line, says the same.
_SAID_OTHERWISE = {"lock.refused", "lock.unavailable", "run.failed"}
_BAD_ENDS = ("run.failed", "run.lost", "run.interrupted")


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("exec", help=HELP, context_settings={"allow_interspersed_args": False})(_exec)


def _exec(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="What to run, after --.")],
    lock: Annotated[str, typer.Option("--lock", metavar="NAME", help="The lock, which with --cron is the job's.")],
    ttl: Annotated[float, typer.Option("--ttl", help="Seconds that the lock lasts if this machine dies.")] = 60.0,
    cron: Annotated[
        str | None, typer.Option("--cron", metavar="LINE", help="Claim the tick of this cron line.")
    ] = None,
    timezone: Annotated[
        str | None, typer.Option("--timezone", metavar="ZONE", help="Where the line's times are; UTC unless given.")
    ] = None,
    grace: Annotated[
        float | None,
        typer.Option("--grace", min=0, help="Seconds after its tick that it may start; else until the next tick."),
    ] = None,
    on_abandoned: Annotated[
        OnAbandoned, typer.Option("--on-abandoned", help="A run that died or was interrupted: skip it, or rerun it.")
    ] = "skip",
    wait: Annotated[
        float,
        typer.Option("--wait", min=0, help="Seconds to wait for a lock that is held, or a database that is down."),
    ] = 0.0,
    hold_at_least: Annotated[
        float,
        typer.Option("--hold-at-least", min=0, help="Seconds that the lock is kept, also if COMMAND ends sooner."),
    ] = 0.0,
    held_exit_code: Annotated[
        int, typer.Option("--held-exit-code", min=0, max=255, help="What to end with if it is held, paused or done.")
    ] = Exit.HELD,
) -> None:
    output = Output(as_json=False)
    # First of all: as the first process of a container, this one would be deaf to them.
    with Signals() as signals, answering(output):
        if not hasattr(os, "killpg"):
            raise Failure("exec needs a system with process groups, such as Linux or macOS", Exit.USAGE)
        if cron is None and (timezone, grace, on_abandoned) != (None, None, "skip"):
            raise Failure("--timezone, --grace and --on-abandoned are about ticks: give --cron as well", Exit.USAGE)
        settings = load()
        run = Command(command, signals, settings.margin / 2)
        reruns: list[int] = []
        code: int = Exit.FINE
        try:
            run.check()
            if cron is None:
                locks = LockService(settings=settings)
                tell_events(locks.events, output, _SAID_OTHERWISE)
                refusal = under_lock(locks, lock, ttl, run, wait=wait, hold_at_least=hold_at_least)
            else:
                crons = FireCron(
                    _job(run, lock, cron, timezone or "UTC", ttl, hold_at_least, on_abandoned), enabled=False
                )
                tell_events(crons.events, output, _SAID_OTHERWISE)
                crons.events.subscribe(lambda event: reruns.extend(_code_of_rerun(event, run)))
                refusal = _under_tick(crons, lock, run, grace, wait)
        except NotStarted as error:
            output.say(f"firecron: {error}")
            code = error.code
        except (CommandFailed, LeaseLost, Stopping) as error:
            code = _code_of_end(run, is_stopped=isinstance(error, Stopping))
        else:
            if refusal is not None:
                output.say(f"firecron: {plain(refusal.message)}")
                code = code_of_refusal(refusal, held_exit_code)
        raise SystemExit(reruns[0] if reruns else code)


def _code_of_end(command: Command, *, is_stopped: bool) -> int:
    return command.code or (128 + (command.signals.received or 0) if is_stopped else Exit.FAILED)


def _code_of_rerun(event: Event, command: Command) -> list[int]:
    """What a rerun has ended with, if that is what the event is about and it ended badly."""
    if event.slug not in _BAD_ENDS or event.fields.get("trigger") != "rerun":
        return []
    return [_code_of_end(command, is_stopped=event.slug == "run.interrupted")]


def _job(
    command: Command, name: str, line: str, timezone: str, ttl: float, hold_at_least: float, on_abandoned: OnAbandoned
) -> Callable[[Run], None]:
    @distributed_cron(
        name, line, timezone=timezone, lock_ttl=ttl, hold_at_least=hold_at_least, on_abandoned=on_abandoned
    )
    def run_command(run: Run) -> None:
        command.run_as_job(run)

    return run_command


def _under_tick(crons: FireCron, name: str, command: Command, grace: float | None, wait: float) -> Refusal | None:
    """Run it for its tick. Raises what ended it, if that is not the end that it should have."""
    crons.check_jobs()
    try:
        answer = under_tick(crons, name, command, grace=grace, wait=wait)
    finally:
        crons.stop()  # what is to be written down about earlier ticks is written by then
    if isinstance(answer, Refusal):
        return answer
    if answer.outcome == "lost":
        raise LeaseLost
    if answer.outcome == "interrupted":
        raise Stopping
    if answer.error is not None:
        raise answer.error
    return None
