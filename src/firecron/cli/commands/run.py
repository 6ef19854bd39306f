"""`firecron run`: run a job once, by hand. `firecron work`: run all jobs at their ticks, until a signal comes.

`run` makes the run under the job's lock, even where the production guard keeps the job from ticking. The job runs on a
thread, so that the main thread can react to signals. At the first signal the job is asked to stop, has the shutdown
grace for that, and is recorded as interrupted. At a second signal the command ends without waiting: the job's lock
frees itself when it expires.

`work` is the program of a process that has nothing else to do. It starts the FireCron of an application, and waits on
the main thread. After the first signal it stops as any server does: runs are asked to end, have the shutdown grace for
that, and release their locks. The signal is noted from the very beginning, so it also ends a command that is still
importing its application, and the first process of a container, which signals don't end by default. A second signal
ends the command at once, also there and meanwhile. Where the production guard is shut, nothing ticks, but the command
waits all the same: a worker of a staging environment is deployed like the one in production, and must not end there at
once.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections.abc import Set
from concurrent.futures import wait
from contextlib import ExitStack, redirect_stdout
from datetime import UTC, datetime
from typing import Annotated

import typer

import firecron.logging
from firecron.app import FireCron
from firecron.base.events import Event
from firecron.base.instants import to_datetime, to_text
from firecron.base.texts import described, plain, redacted
from firecron.cli.lines import took
from firecron.cli.options import AppPath, HeldExitCode, Json, Name, Why, check_why, load
from firecron.cli.output import Exit, Failure, Logged, Output, answering, code_of_refusal, print_events
from firecron.cli.process import Signals, beside, ending_at_second
from firecron.cron.schedule import is_tick, newest_tick
from firecron.errors import Stopping
from firecron.jobs.job import Job
from firecron.jobs.registry import Result
from firecron.lock.refusal import Refusal
from firecron.ops.operator import Operator
from firecron.ops.remedies import of_refusal
from firecron.runs.entry import is_manual

# --- run

_OUTCOMES = ("succeeded", "failed", "lost", "interrupted", "cancelled")
_REFUSALS = {"lock.refused", "lock.unavailable"}
_SAID_OTHERWISE = {*_REFUSALS, *(f"run.{outcome}" for outcome in _OUTCOMES)}


def run(
    app: AppPath,
    name: Name,
    slot: Annotated[
        str | None,
        typer.Option(
            "--slot",
            metavar="now|INSTANT",
            help="Claim a tick: the newest within the job's grace, or this one (2026-11-18T09:00:00Z).",
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume",
            metavar="INSTANT|KEY",
            help="Run a tick again that has not succeeded, as its next attempt: with its key and its steps.",
        ),
    ] = None,
    why: Why = None,
    held_exit_code: HeldExitCode = Exit.HELD,
    as_json: Json = False,
) -> None:
    """Run the job NAME of APP once, now, under its lock.

    The command waits for the end of the run. A run by hand claims no tick, unless --slot names one. --resume runs a
    tick again that has not succeeded: what its steps have recorded is not done again. A run by hand that dies leaves no
    entry in the history, and can't be resumed. The production guard doesn't apply. After Ctrl-C or SIGTERM the job has
    FIRECRON_SHUTDOWN_GRACE seconds to stop. A second Ctrl-C ends the command at once.

    \b
    Exit codes:
        0  the run succeeded
        1  the run failed, lost its lock or was cancelled
       75  the lock is held or paused, or the tick is done
      130  Ctrl-C interrupted the run
      143  SIGTERM interrupted the run
    """
    with answering(as_json=as_json) as output, ExitStack() as ending:
        crons = load(app).crons
        if crons.engine.leaders.has(name):
            raise Failure(f"{name} is a leader, which is elected and not run: start the application", Exit.USAGE)
        logged = print_events(crons.events, output, _SAID_OTHERWISE)
        job = crons.registry.find(name)
        if isinstance(job, Refusal):
            _show(output, name, Result(None, None, job), None, logged)
            raise SystemExit(code_of_refusal(job, held_exit_code))
        crons.check_jobs()
        if slot is not None and resume is not None:
            raise Failure("--slot claims a tick, and --resume runs one again: leave one of them out", Exit.USAGE)
        tick = None if slot is None else _tick(crons, job, slot, output)
        again: datetime | str | None = resume
        if resume is not None and not is_manual(resume):
            again = _instant(resume, "--resume", "a tick or a key that `firecron runs` shows")
        check_why(why)
        act = threading.Thread(
            target=lambda: Operator(crons.database).record("run", name, why), name="firecron-act", daemon=True
        )
        if as_json:
            ending.enter_context(redirect_stdout(sys.stderr))  # keeps what the job prints out of the result
        result, duration, number = _perform(crons, job, tick, again, output, act)
        ending.close()
        if result is None:
            raise Failure(f'"{name}" did not stop in time: its lock frees itself when it expires', Exit.FAILED)
        _show(output, name, result, duration, logged)
        raise SystemExit(_code(result, number, held_exit_code))


def _tick(crons: FireCron, job: Job, slot: str, output: Output) -> datetime:
    """Return the tick that --slot names, by RTDB's time."""
    database = crons.database
    now = to_datetime(database.clock.now(database.deadline(database.settings.acquire_timeout)).server)
    if slot == "now":
        return newest_tick(job.options.schedule, now, job.options.grace / 1000)
    tick = _instant(slot)
    if tick > now:
        raise Failure(f"--slot {slot} is in the future: it is {to_text(now)} now", Exit.USAGE)
    if not is_tick(job.options.schedule, to_text(tick)):
        schedule = job.options.schedule
        output.say(
            f"firecron: WARNING: {to_text(tick)} is not a tick of {job.name} {schedule}; the run claims it nevertheless"
        )
    return tick


def _instant(text: str, option: str = "--slot", other: str = "now") -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None or instant.microsecond:
        message = f"{option} {text!r} is invalid: use {other}, or an instant such as 2026-11-18T09:00:00Z"
        raise Failure(message, Exit.USAGE)
    return instant.astimezone(UTC)


def _perform(
    crons: FireCron,
    job: Job,
    tick: datetime | None,
    resume: datetime | str | None,
    output: Output,
    act: threading.Thread,
) -> tuple[Result | None, int | None, int | None]:
    """Run the job; return its result, its duration in milliseconds, and the signal that ended it.

    The result is None if the job has not stopped in time. `act` records what the operator does: it is started when the
    run starts, which doesn't wait for it.
    """
    durations: dict[object, int] = {}

    def note(event: Event) -> None:
        if event.slug == "run.started" and act.ident is None:
            act.start()
        if event.slug.startswith("run.") and "took" in event.fields:
            durations[event.fields["key"]] = int(event.fields["took"])

    crons.events.subscribe(note)
    with Signals() as signals, signals.going_to(ending_at_second()):
        ran = beside(signals, "firecron-run", lambda: crons.registry.trigger(job.name, slot=tick, resume=resume))
        signals.wait()
        if signals.received is not None:
            grace = crons.settings.shutdown_grace
            output.say(f"firecron: {job.name} was asked to stop, and has {grace:g} s; press Ctrl-C to end at once")
        crons.stop()
        # If the run has ended, its thread has little left to do.
        wait([ran], timeout=1)
        if act.ident is not None:
            act.join(timeout=2 * crons.settings.request_timeout)
    try:
        result = ran.result() if ran.done() else None
    except Stopping:
        result = Result(None, "interrupted")
    key = result.run.idempotency_key if result is not None and result.run is not None else None
    return result, durations.get(key), signals.received


def _show(output: Output, name: str, result: Result, duration: int | None, logged: Set[Logged]) -> None:
    """Print the result, but nothing that the application's log has printed on the terminal."""
    run, refusal = result.run, result.refusal
    key = None if run is None else run.idempotency_key
    value = {
        "name": name,
        "outcome": result.outcome,
        "slot": None if run is None or run.slot is None else to_text(run.slot),
        "trigger": None if run is None else run.trigger,
        "attempt": None if run is None else run.attempt,
        "fence": None if run is None else run.fence,
        "key": key,
        "durationMs": duration,
        "note": None if run is None else run.noted,
        "error": None if result.error is None else described(result.error),
        "refusal": None
        if refusal is None
        else {
            "reason": refusal.reason,
            "message": refusal.message,
            "remedy": (remedy := of_refusal(refusal)) and remedy.to_json(),
        },
    }
    if result.error is not None and (f"run.{result.outcome}", key) not in logged:
        # Without secrets: standard error may be a log.
        output.say(redacted("".join(traceback.format_exception(result.error)).rstrip()))
    if refusal is not None:
        if output.as_json or not any(slug in _REFUSALS for slug, _ in logged):
            output.give(value, plain(refusal.message))
        return
    said = f"{name} {result.outcome}" + ("" if duration is None else f" after {took(duration)}")
    if run is not None and run.slot is not None:
        said += f", as the run of {to_text(run.slot)}"
    if run is not None and run.noted is not None:
        said += f": {plain(run.noted)}"
    output.give(value, said)


def _code(result: Result, number: int | None, held_exit_code: int) -> int:
    if result.refusal is not None:
        return code_of_refusal(result.refusal, held_exit_code)
    if result.outcome == "interrupted" and number is not None:
        return 128 + number
    return Exit.FINE if result.outcome == "succeeded" else Exit.FAILED


# --- work


def work(app: AppPath) -> None:
    """Run the jobs of APP at their ticks, until SIGTERM or Ctrl-C.

    It is for a process whose only task is to run jobs, such as a Cloud Run worker pool. After the signal, the runs have
    FIRECRON_SHUTDOWN_GRACE seconds to end, and the exit code is 0. A second signal ends the command at once. If APP
    doesn't configure logging, the command does: structured on Cloud Run, lines on standard error elsewhere.

    Jobs tick where RUNTIME_INSTANCE is production, or with FireCron(enabled=True). Elsewhere nothing ticks: the command
    says so, and waits.
    """
    # Signals come before the application: a signal may arrive at any time.
    with answering(), Signals() as signals, signals.going_to(ending_at_second()):
        crons = load(app).crons
        if not logging.getLogger("firecron").hasHandlers():
            firecron.logging.setup()
        if signals.received is None:
            crons.start()
        signals.wait()
        crons.stop()
