"""What an operator sees of the locks, and does by hand.

`firecron locks` shows which locks are held, by which instance, since when and until when; which are paused or died.
`pause`, `resume`, `cancel` and `unlock` change one lock, and `forget` takes jobs out of the catalogue, for good. Each
change leaves an act. `firecron acts` shows these: what operators have done, who, when and why.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Annotated

import typer
from rich.text import Text

from firecron.base.instants import to_text
from firecron.base.texts import plain
from firecron.cli.lines import clock_time, lock_lines, rank
from firecron.cli.options import (
    Interval,
    Json,
    Name,
    OnlyName,
    Until,
    Watch,
    Why,
    Yes,
    check_known,
    check_why,
    database_of,
    no_such,
    parse_until,
)
from firecron.cli.output import Exit, Failure, Output, answering, print_events
from firecron.cli.watching import Changes, give
from firecron.cron.schedule import schedule_fields
from firecron.jobs.catalogue import CatalogueEntry
from firecron.lock.audit_log import Act
from firecron.lock.database import Database
from firecron.ops.operator import Catalogue, Operator, Seen, SeenAll, SeenEntry
from firecron.ops.views import LockView
from firecron.store import check_name

# --- the locks


def locks(name: OnlyName = None, watching: Watch = False, interval: Interval = 2.0, as_json: Json = False) -> None:
    """Show which locks are held, by which instance, and until when.

    Also shows which locks are paused, which holders died without releasing, and how each last tick ended.
    """
    with answering(as_json=as_json) as output:
        database = Database()
        operator = Operator(database)
        changes = Changes(database, database.paths.locks if name is None else database.paths.lock(name))

        def check(seen: SeenAll) -> None:
            if name is not None and seen.views[0].state == "absent":
                check_known(operator, name)

        give(output, LocksView(operator, output, name), changes, interval, watching=watching, check=check)


class LocksView:
    """A view of all locks, or of the lock of this name, even if it has no node."""

    is_newest_last = False

    def __init__(self, operator: Operator, output: Output, name: str | None = None) -> None:
        self._operator = operator
        self._output = output
        self._name = name
        self._nothing = Text(
            f"There is no lock in {database_of(operator.settings)}: no lock is held, and no released lock has a record."
        )

    def read(self) -> SeenAll:
        if self._name is None:
            return self._operator.read_all(with_holders=True)
        seen = self._operator.read(self._name)
        return SeenAll((seen.view,), seen.now)

    def show(self, seen: SeenAll) -> Text:
        if not seen.views:
            return self._nothing
        # A block of lines for each lock on a terminal, and one line for each elsewhere.
        shown = _block if self._output.out.is_terminal else _line
        return Text("\n").join(shown(view, seen.now) for view in sorted(seen.views, key=rank))

    def lines(self, last: SeenAll | None, seen: SeenAll) -> list[Text]:
        if last is None and not seen.views:
            return [self._nothing]
        before = {view.name: view for view in last.views} if last is not None else {}
        after = {view.name: view for view in seen.views}
        changed = [_line(view, seen.now) for name, view in after.items() if before.get(name) != view]
        gone = [Text(f"{name}: its node is gone, so it is free") for name in before if name not in after]
        at = f"{datetime.now().astimezone():%H:%M:%S} "
        return [Text(at).append(line) for line in (*changed, *gone)]

    def value(self, seen: SeenAll) -> object:
        return {"locks": [view.to_json() for view in seen.views]}

    def essence(self, seen: SeenAll) -> object:
        return seen.views


def _block(view: LockView, now: int) -> Text:
    first, *others = lock_lines(view, now)
    head = Text(view.name, "bold").append(": ", "not bold").append(first)
    return Text("\n  ").join([head, *others])


def _line(view: LockView, now: int) -> Text:
    return Text(f"{view.name}: ").append(Text("; ").join(lock_lines(view, now)))


# --- a lock is changed by hand


def pause(name: Name, why: Why = None, until: Until = None, yes: Yes = False, as_json: Json = False) -> None:
    """Pause a lock, so that no instance can acquire it.

    It is paused until it is resumed, or until WHEN. All instances skip the ticks of its job. A run that is under way
    goes on. A pause replaces the one before it. A name that is neither a lock nor a job of the catalogue needs --yes.
    """
    with answering(as_json=as_json) as output:
        operator, seen = _look(output, name, why)
        _check_readable(seen)
        if seen.view.state == "absent" and not yes:
            check_known(operator, name, "; to pause a name before its first use, give --yes")
        if seen.view.is_paused and seen.view.paused_until is None and why is None and until is None:
            _answer(output, operator, name, "it is paused already: nothing was changed", changed=False)
            return
        operator.pause(name, why, None if until is None else _until(until, seen.now))
        _answer(output, operator, name, "paused everywhere", changed=True)


def resume(name: Name, why: Why = None, as_json: Json = False) -> None:
    """Resume a paused lock, so that instances can acquire it again.

    Of a pause that is over by itself, the fields are removed: older versions and rules stay paused by them.
    """
    with answering(as_json=as_json) as output:
        operator, seen = _look(output, name, why)
        _check_readable(seen)
        if seen.view.state == "absent":
            check_known(operator, name)
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
    with answering(as_json=as_json) as output:
        operator, seen = _look(output, name, why)
        _check_readable(seen, "can't be cancelled", "free it")
        problem = seen.view.why_not_cancelled
        if problem is not None:
            if seen.view.state == "absent":
                check_known(operator, name)
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
    with answering(as_json=as_json) as output:
        operator, seen = _look(output, name, why)
        _check_readable(seen, "can't be unlocked", "free it")
        if not seen.view.is_taken:
            if seen.view.state == "absent":
                check_known(operator, name)
            _answer(output, operator, name, "it is free already: nothing was changed", changed=False)
            return
        if not yes:
            _ask(output, seen)
        if not operator.unlock(seen, why):
            raise Failure(f"{name} changed meanwhile, so it was not unlocked: look at it again with firecron locks")
        _answer(output, operator, name, "unlocked", changed=True)


def _look(output: Output, name: str, why: str | None) -> tuple[Operator, Seen]:
    operator = Operator(_open(output, why))
    return operator, operator.read(name)


def _open(output: Output, why: str | None) -> Database:
    """Return the locks of the database. Raise Failure for a reason that is too long."""
    check_why(why)
    database = Database()
    print_events(database.events, output, frozenset())
    return database


def _check_readable(seen: Seen, what: str = "was not changed", to: str = "make it usable again") -> None:
    view = seen.view
    if view.state == "malformed":
        said = f"{view.name} {what}, because its node is malformed: {view.problem}. To {to}, {view.remedy}"
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


def _until(text: str, now: int) -> datetime:
    try:
        return parse_until(text, now)
    except ValueError as error:
        raise Failure(f"--until {error}", Exit.USAGE) from None


def _answer(output: Output, operator: Operator, name: str, said: str, *, changed: bool) -> None:
    seen = operator.read(name)
    text = Text("\n").join([Text(f"{name}: {said}"), *lock_lines(seen.view, seen.now)])
    output.give({"changed": changed, "lock": seen.view.to_json()}, text)


# --- what operators have done


def acts(name: OnlyName = None, as_json: Json = False) -> None:
    """Show what operators have done: who, when and why.

    Pauses, unlocks, cancels, runs by hand and the like; the newest act is last. The newest 50 acts on all names are
    kept. Who acted at a command line is a claim of that machine. What was typed into the Firebase console is not here.
    """
    with answering(as_json=as_json) as output:
        database = Database()
        operator = Operator(database)
        found = operator.acts(None if name is None else check_name(name))
        if name is not None and not found and operator.read(name).view.state == "absent":
            check_known(operator, name)
        output.give({"acts": [act.to_json() for act in found]}, _acts_shown(found, name, database))


def _acts_shown(found: tuple[Act, ...], name: str | None, database: Database) -> Text:
    if not found:
        on = "" if name is None else f" on {name}"
        return Text(f"There is no act{on} in {database_of(database.settings)}.", "dim")
    now = round(time.time() * 1000)
    return Text("\n").join(_act_line(act, now) for act in found)


def _act_line(act: Act, now: int) -> Text:
    at = "at an unknown time" if act.at is None else clock_time(act.at, now)
    line = Text(f"{at}  ").append(f"{act.act or '?'} {act.name or '?'}", "bold").append(f" by {act.who or '?'}")
    return line if act.why is None else line.append(f": {act.why}")


# --- the catalogue

Names = Annotated[list[str], typer.Argument(metavar="NAME", help="Names of the jobs.")]
Force = Annotated[bool, typer.Option("--force", help="Also forget jobs that a live program runs.")]


def forget(names: Names, force: Force = False, why: Why = None, as_json: Json = False) -> None:
    """Take jobs out of the catalogue that no program has any more.

    Their locks and their histories stay, so a job that comes back goes on where it was. A job that a live program runs
    is not forgotten, because the program would declare it again: give --force to remove its entry nevertheless. Does
    nothing to an entry that changes meanwhile.
    """
    with answering(as_json=as_json) as output:
        database = _open(output, why)
        catalogue, operator = Catalogue(database), Operator(database)
        found = catalogue.read(_keys(catalogue.names(), names, database_of(database.settings)))
        for seen in found:
            _check_dead(seen, force=force)
        forgotten: list[SeenEntry] = []
        for seen in found:
            if not catalogue.forget(seen):
                done = f"{', '.join(plain(one.name) for one in forgotten)} forgotten, but " if forgotten else ""
                said = f"{plain(seen.name)} changed meanwhile, so it was not forgotten: run the command again"
                raise Failure(f"{done}{said}")
            forgotten.append(seen)
            operator.record("forget", seen.name, why)
        output.give(
            {"forgotten": [_forgotten_value(seen) for seen in forgotten]},
            Text("\n").join(map(_forgotten_shown, forgotten)),
        )


def _keys(there: Collection[str], names: Iterable[str], database: str) -> list[str]:
    """Return the keys of the catalogue that these names mean: each as it is, or as the status prints it."""
    printed = {plain(key): key for key in there} | {key: key for key in there}
    for name in names:
        if name not in printed:
            raise no_such(f"job {{}} in the catalogue of {database}, so nothing was forgotten", name, there)
    return [printed[name] for name in names]


def _check_dead(seen: SeenEntry, *, force: bool) -> None:
    if seen.live and not force:
        who = next((group for group in seen.live if group.jobs is not None), seen.live[0])
        if who.jobs is None:
            runs = "a live program that doesn't say what it runs may have it"
        else:
            runs = f"{plain(who.service or 'a program')} runs it"
        raise Failure(
            f"nothing was forgotten: {plain(seen.name)} is live, {runs}, and would declare it again. Take it out of "
            "the program first, or give --force"
        )


def _forgotten_value(seen: SeenEntry) -> dict[str, object]:
    """Return what was forgotten: it always has every field, null if the entry could not be read."""
    job = seen.declared
    return {
        "name": plain(seen.name),
        **schedule_fields(None if job is None else job.schedule),
        "service": None if job is None else plain(job.service),
        "revision": None if job is None or job.revision is None else plain(job.revision),
        "where": None if job is None else plain(job.where),
        "declared": None if job is None or job.declared_at is None else to_text(job.declared_at),
        "live": bool(seen.live),
    }


def _forgotten_shown(seen: SeenEntry) -> Text:
    what = "its entry could not be read" if seen.declared is None else _in_words(seen.declared)
    return Text(f"{plain(seen.name)}: forgotten\n  {what}\n  its lock and its history stay")


def _in_words(job: CatalogueEntry) -> str:
    by = " / ".join(plain(part) for part in (job.service, job.revision) if part) or "nobody with its role"
    at = "" if job.declared_at is None else f" at {to_text(job.declared_at)}"
    where = f" ({plain(job.where)})" if job.where else ""
    return f"{job.schedule}, declared by {by}{at}{where}"
