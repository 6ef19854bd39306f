"""`firecron pause`, `resume`, `cancel` and `unlock`: an operator changes a lock by hand."""

from __future__ import annotations

import sys
from datetime import datetime

import typer
from rich.text import Text

from firecron.cli.lock_lines import lock_lines
from firecron.cli.naming import close_to, database_of, remark_on
from firecron.cli.options import Json, Name, Until, Why, Yes, check_why
from firecron.cli.output import Exit, Failure, Output, answering
from firecron.cli.reporting import tell_events
from firecron.cli.until import parse_until
from firecron.lock.service import LockService
from firecron.ops.operator import Operator, Seen


def add_to(app: typer.Typer) -> None:
    app.command("pause", epilog="Example: firecron pause send-daily-digest --why 'the feed is down' --until 2h")(pause)
    app.command("resume", epilog="Example: firecron resume send-daily-digest")(resume)
    app.command("cancel", epilog="Example: firecron cancel nightly-import --why 'wrong input file'")(cancel)
    app.command("unlock", epilog="Example: firecron unlock nightly-import")(unlock)


def pause(name: Name, why: Why = None, until: Until = None, yes: Yes = False, as_json: Json = False) -> None:
    """Pause a lock, so that no instance can acquire it.

    It is paused until it is resumed, or until WHEN. All instances skip the ticks of its job. A run that is under way
    goes on. A pause replaces the one before it. A name that is neither a lock nor a job of the catalogue needs --yes.
    """
    output = Output(as_json=as_json)
    with answering(output):
        operator, seen = _look(output, name, why)
        _check_usable(seen)
        if seen.view.state == "absent" and not yes and not operator.is_declared(name):
            raise Failure(
                f"{name} was not paused: there is no such lock or job in {database_of(operator.settings)}"
                f"{close_to(operator, name) or '.'} To pause a name before its first use, give --yes",
                Exit.USAGE,
            )
        if seen.view.is_paused and seen.view.paused_until is None and why is None and until is None:
            _answer(output, operator, name, "it is paused already: nothing was changed", changed=False)
            return
        operator.pause(name, why, None if until is None else _until(until, seen.now))
        _answer(output, operator, name, "paused everywhere", changed=True)


def resume(name: Name, why: Why = None, as_json: Json = False) -> None:
    """Resume a paused lock, so that instances can acquire it again.

    Of a pause that is over by itself, the fields are removed: older versions and rules stay paused by them.
    """
    output = Output(as_json=as_json)
    with answering(output):
        operator, seen = _look(output, name, why)
        _check_usable(seen)
        if seen.view.state == "absent":
            remark_on(output, operator, name)
        if not seen.view.has_pause:
            _answer(output, operator, name, "it was not paused: nothing was changed", changed=False)
            return
        operator.resume(name, why)
        _answer(output, operator, name, "resumed", changed=True)


def cancel(name: Name, why: Why = None, as_json: Json = False) -> None:
    """Ask the run that holds a lock to stop. The lock stays held until the run has ended.

    The run learns of it at its next renewal. An async job is cancelled; a sync job sees `run.cancelled`, and its
    `run.check()` raises. A run that ends by it is recorded as `cancelled`, and its tick is not run again, even if its
    instance dies first. Does nothing if the lock was released or taken over meanwhile.
    """
    output = Output(as_json=as_json)
    with answering(output):
        operator, seen = _look(output, name, why)
        _check_readable(seen, "can't be cancelled")
        problem = seen.view.why_not_cancelled
        if problem is not None:
            if seen.view.state == "absent":
                remark_on(output, operator, name)
            raise Failure(f"{name} was not cancelled: {problem}")
        if seen.view.is_cancelled:
            _answer(output, operator, name, "it is cancelled already: nothing was changed", changed=False)
            return
        if not operator.cancel(seen, why):
            raise Failure(f"{name} changed meanwhile, so it was not cancelled: look at it again with firecron locks")
        asked = "the leader is asked to step down" if seen.view.is_leaders else "the run is asked to stop"
        _answer(output, operator, name, f"cancelled: {asked} at its next renewal", changed=True)


def unlock(name: Name, why: Why = None, yes: Yes = False, as_json: Json = False) -> None:
    """Free a lock that is held; its slot and its fence stay.

    Sets `expiresAt` to 0, as you can do in the Firebase console. Asks first. Does nothing if the lock was released or
    taken over meanwhile. Doesn't end a run that is still alive: the run finds out at its next renewal, at the latest
    when its lease is over. Of a leader there may be two until then: cancel it instead, which ends its term first.
    """
    output = Output(as_json=as_json)
    with answering(output):
        operator, seen = _look(output, name, why)
        _check_readable(seen, "can't be unlocked")
        if not seen.view.is_taken:
            if seen.view.state == "absent":
                remark_on(output, operator, name)
            _answer(output, operator, name, "it is free already: nothing was changed", changed=False)
            return
        if not yes:
            _ask(output, seen)
        if not operator.unlock(seen, why):
            raise Failure(f"{name} changed meanwhile, so it was not unlocked: look at it again with firecron locks")
        _answer(output, operator, name, "unlocked", changed=True)


def _look(output: Output, name: str, why: str | None) -> tuple[Operator, Seen]:
    """Return the operator, and the lock as it is now. Raise Failure for a reason that is too long."""
    check_why(why)
    locks = LockService()
    tell_events(locks.events, output, frozenset())
    operator = Operator(locks)
    return operator, operator.look(name)


def _check_readable(seen: Seen, what: str) -> None:
    if seen.view.state == "malformed":
        view = seen.view
        said = f"{view.name} {what}, because its node is malformed: {view.problem}. To free it, {view.remedy}"
        raise Failure(said, Exit.REFUSED)


def _ask(output: Output, seen: Seen) -> None:
    """Show the lock and what unlocking does, and ask. Raises Failure unless the user says yes."""
    if output.as_json or not sys.stdin.isatty():
        raise Failure(f"{seen.view.name} was not unlocked: without a terminal, confirm with --yes", Exit.USAGE)
    kept = [f"slot {seen.view.slot}"] if seen.view.slot else []
    kept += [f"fence {seen.view.fence}"] if seen.view.fence is not None else []
    stays = f"Its {' and '.join(kept)} {'stay' if len(kept) > 1 else 'stays'}." if kept else "Everything else stays."
    output.out.print(Text("\n").join([Text(seen.view.name, "bold"), *lock_lines(seen.view, seen.now)]))
    instead = f" To end the term first, run: firecron cancel {seen.view.name}" if seen.view.is_leaders else ""
    output.out.print(
        f"\nThis sets expiresAt to 0, so that another instance can acquire the lock at once. {stays} "
        f"If the holder is alive, its run goes on until the next renewal, beside the run of the next holder.{instead}"
    )
    if not typer.confirm("Unlock it?"):
        raise Failure("nothing was changed")


def _check_usable(seen: Seen) -> None:
    if seen.view.state == "malformed":
        view = seen.view
        raise Failure(
            f"{view.name} was not changed, because its node is malformed: {view.problem}. To make it usable again, "
            f"{view.remedy}",
            Exit.REFUSED,
        )


def _until(text: str, now: int) -> datetime:
    try:
        return parse_until(text, now)
    except ValueError as error:
        raise Failure(f"--until {error}", Exit.USAGE) from None


def _answer(output: Output, operator: Operator, name: str, said: str, *, changed: bool) -> None:
    seen = operator.look(name)
    text = Text("\n").join([Text(f"{name}: {said}"), *lock_lines(seen.view, seen.now)])
    output.give({"changed": changed, "lock": seen.view.to_json()}, text)
