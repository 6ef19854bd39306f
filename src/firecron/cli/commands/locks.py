"""What an operator sees of the locks, and does by hand.

`firecron locks` shows which locks are held, by which instance, since when and until when; which are paused or died.
`pause`, `resume`, `cancel` and `unlock` change one lock, and `forget` takes jobs out of the catalogue, for good. Each
change leaves an act. `firecron acts` shows these: what operators have done, who, when and why.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.text import Text

from firecron.base.instants import to_text
from firecron.base.texts import plain
from firecron.cli.contexts import here
from firecron.cli.lines import clock_time, lock_lines, rank
from firecron.cli.names import complete_job
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
    given_until,
    no_such,
)
from firecron.cli.output import Exit, Failure, Output, answering, print_events
from firecron.cli.watching import Changes, View, give, news
from firecron.cron.schedule import schedule_fields
from firecron.jobs.catalogue import CatalogueEntry
from firecron.lock.audit_log import Act
from firecron.lock.database import Database
from firecron.ops.operator import Operator, Seen, SeenAll, SeenEntry
from firecron.ops.remedy import Remedy, freeing
from firecron.ops.views import LockView
from firecron.store import check_any_name, is_name

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


@dataclass(frozen=True, slots=True)
class LocksView(View[SeenAll]):
    """A view of all locks, or of the lock of this name, even if it has no node."""

    operator: Operator
    output: Output
    name: str | None = None

    @property
    def _nothing(self) -> Text:
        where = database_of(self.operator.settings)
        return Text(f"There is no lock in {where}: no lock is held, and no released lock has a record.")

    def read(self) -> SeenAll:
        if self.name is None:
            return self.operator.read_all(with_holders=True)
        seen = self.operator.read(self.name)
        return SeenAll((seen.view,), seen.now)

    def show(self, seen: SeenAll) -> Text:
        if not seen.views:
            return self._nothing
        # A block of lines for each lock on a terminal, and one line for each elsewhere.
        shown = _block if self.output.out.is_terminal else _line
        return Text("\n").join(shown(view, seen.now) for view in sorted(seen.views, key=rank))

    def lines(self, last: SeenAll | None, seen: SeenAll) -> list[Text]:
        if last is None and not seen.views:
            return [self._nothing]
        before, after = ({view.name: view for view in look.views} if look else {} for look in (last, seen))
        return news(before, after, lambda name: _line(after[name], seen.now), "its node is gone, so it is free")

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
        look = _look(output, name, why)
        if not yes:
            look.check_known("; to pause a name before its first use, give --yes")
        if look.view.is_paused and look.view.paused_until is None and why is None and until is None:
            look.answer("it is paused already", changed=False)
        else:
            look.operator.pause(name, why, None if until is None else given_until(until, look.seen.now))
            look.answer("paused everywhere")


def resume(name: Name, why: Why = None, as_json: Json = False) -> None:
    """Resume a paused lock, so that instances can acquire it again.

    Of a pause that is over by itself, the fields are removed: older versions and rules stay paused by them.
    """
    with answering(as_json=as_json) as output:
        look = _look(output, name, why)
        look.check_known()
        if look.view.has_pause:
            look.operator.resume(name, why)
            look.answer("resumed")
        else:
            look.answer("it was not paused", changed=False)


def cancel(name: Name, why: Why = None, as_json: Json = False) -> None:
    """Ask the run that holds a lock to stop. The lock stays held until the run has ended.

    The run learns of it at its next renewal. An async job is cancelled; a sync job sees `run.cancelled`, and its
    `run.check()` raises. A run that ends by it is recorded as `cancelled`, and its tick is not run again, even if its
    instance dies first. Does nothing if the lock was released or taken over meanwhile.
    """
    with answering(as_json=as_json) as output:
        look = _look(output, name, why, "can't be cancelled")
        problem = look.view.why_not_cancelled
        if problem is not None:
            look.check_known()
            remedy = freeing(name) if look.view.state == "held" else None
            raise Failure(f"{name} was not cancelled: {problem}", remedy=remedy)
        if look.view.is_cancelled:
            look.answer("it is cancelled already", changed=False)
            return
        if not look.operator.cancel(look.seen, why):
            raise _changed(name, "cancelled")
        asked = "the leader is asked to step down" if look.view.is_leaders else "the run is asked to stop"
        look.answer(f"cancelled: {asked} at its next renewal")


def unlock(name: Name, why: Why = None, yes: Yes = False, as_json: Json = False) -> None:
    """Free a lock that is held; its slot and its fence stay.

    Sets `expiresAt` to 0, as you can do in the Firebase console. Asks first. Does nothing if the lock was released or
    taken over meanwhile. Doesn't end a run that is still alive: the run finds out at its next renewal, at the latest
    when its lease is over. Of a leader there may be two until then: cancel it instead, which ends its term first.
    """
    with answering(as_json=as_json) as output:
        look = _look(output, name, why, "can't be unlocked")
        if not look.view.is_taken:
            look.check_known()
            look.answer("it is free already", changed=False)
            return
        if not yes:
            _ask(output, look.seen)
        if not look.operator.unlock(look.seen, why):
            raise _changed(name, "unlocked")
        look.answer("unlocked")


@dataclass(frozen=True, slots=True)
class Look:
    """The lock that a command is to change, as it was seen before."""

    output: Output
    operator: Operator
    seen: Seen

    @property
    def view(self) -> LockView:
        return self.seen.view

    def check_known(self, remedy: str = "") -> None:
        """Raise Failure if the lock has no node, and nothing else has its name."""
        if self.view.state == "absent":
            check_known(self.operator, self.view.name, remedy)

    def answer(self, said: str, *, changed: bool = True) -> None:
        """Print what was done, and the lock as it is now."""
        now = self.operator.read(self.view.name)
        head = f"{self.view.name}: {said}" if changed else f"{self.view.name}: {said}: nothing was changed"
        text = Text("\n").join([Text(head), *lock_lines(now.view, now.now)])
        self.output.give({"changed": changed, "lock": now.view.to_json()}, text)


def _look(output: Output, name: str, why: str | None, refused: str = "was not changed") -> Look:
    """Look at the lock. Raise Failure if its node can't be read: what is `refused` then."""
    operator = Operator(_open(output, why))
    seen = operator.read(name)
    if seen.view.state == "malformed":
        said = f"{name} {refused}, because its node is malformed: {seen.view.problem}"
        raise Failure(said, Exit.REFUSED, seen.view.remedy)
    return Look(output, operator, seen)


def _changed(name: str, what: str) -> Failure:
    again = Remedy("look at it again", command=f"firecron locks {name}")
    return Failure(f"{name} changed meanwhile, so it was not {what}", remedy=again)


def _open(output: Output, why: str | None) -> Database:
    """Return the locks of the database. Raise Failure for a reason that is too long."""
    check_why(why)
    database = Database()
    print_events(database.events, output, frozenset())
    return database


def _ask(output: Output, seen: Seen) -> None:
    """Show the lock and what unlocking does, and ask. Raises Failure unless the user says yes."""
    if output.as_json or not sys.stdin.isatty():
        raise Failure(f"{seen.view.name} was not unlocked: without a terminal, confirm with --yes", Exit.USAGE)
    kept = [f"slot {seen.view.slot}"] if seen.view.slot else []
    kept += [f"fence {seen.view.fence}"] if seen.view.fence is not None else []
    stays = f"Its {' and '.join(kept)} {'stay' if len(kept) > 1 else 'stays'}." if kept else "Everything else stays."
    output.out.print(Text("\n").join([Text(seen.view.name, "bold"), *lock_lines(seen.view, seen.now)]))
    instead = (
        f" To end the term first, run: {here(f'firecron cancel {seen.view.name}')}" if seen.view.is_leaders else ""
    )
    output.out.print(
        f"\nThis sets expiresAt to 0, so that another instance can acquire the lock at once. {stays} "
        f"If the holder is alive, its run goes on until the next renewal, beside the run of the next holder.{instead}"
    )
    if not typer.confirm("Unlock it?"):
        raise Failure("nothing was changed")


# --- what operators have done


def acts(name: OnlyName = None, as_json: Json = False) -> None:
    """Show what operators have done: who, when and why.

    Pauses, unlocks, cancels, runs by hand and the like; the newest act is last. The newest 50 acts on all names are
    kept. Who acted at a command line is a claim of that machine. What was typed into the Firebase console is not here.
    """
    with answering(as_json=as_json) as output:
        database = Database()
        operator = Operator(database)
        found = operator.acts(None if name is None else check_any_name(name))
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

Names = Annotated[list[str], typer.Argument(metavar="NAME", help="Names of the jobs.", autocompletion=complete_job)]
History = Annotated[bool, typer.Option("--history", help="Also delete their histories and steps.")]
Force = Annotated[bool, typer.Option("--force", help="Also forget jobs that a live program runs.")]


def forget(
    names: Names, history: History = False, force: Force = False, why: Why = None, as_json: Json = False
) -> None:
    """Take jobs out of the catalogue that no program has any more.

    Their locks and their histories stay, so a job that comes back goes on where it was. --history deletes what is
    recorded of their runs and steps as well, also of a job that was forgotten before; the slot and the fence of a lock
    stay. A job that a live program runs is not forgotten, because the program would declare it again: give --force to
    remove its entry nevertheless. Does nothing to an entry that changes meanwhile.
    """
    with answering(as_json=as_json) as output:
        database = _open(output, why)
        operator = Operator(database)
        there = operator.names() if history else operator.declared()
        found = operator.entries(_keys(there, names, database_of(database.settings)))
        for seen in found:
            _check_dead(seen, force=force)
        forgotten: list[tuple[SeenEntry, int | None]] = []
        for seen in found:
            if seen.snapshot.node is not None and not operator.forget(seen):
                done = f"{', '.join(plain(one.name) for one, _ in forgotten)} forgotten, but " if forgotten else ""
                said = f"{plain(seen.name)} changed meanwhile, so it was not forgotten"
                raise Failure(f"{done}{said}", remedy=Remedy("run the command again"))
            forgotten.append((seen, operator.forget_history(seen.name) if history and is_name(seen.name) else None))
            operator.record("forget", seen.name, why)
        output.give(
            {"forgotten": [_forgotten_value(seen, runs) for seen, runs in forgotten]},
            Text("\n").join(_forgotten_shown(seen, runs) for seen, runs in forgotten),
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
            f"nothing was forgotten: {plain(seen.name)} is live, {runs}, and would declare it again",
            remedy=Remedy("take it out of the program first, or give --force"),
        )


def _forgotten_value(seen: SeenEntry, runs: int | None) -> dict[str, object]:
    """Return what was forgotten: it always has every field, null if the entry could not be read.

    `runs` is how many entries of its history were deleted; None if it stays.
    """
    job = seen.declared
    return {
        "name": plain(seen.name),
        **schedule_fields(None if job is None else job.schedule),
        "service": None if job is None else plain(job.service),
        "revision": None if job is None or job.revision is None else plain(job.revision),
        "where": None if job is None else plain(job.where),
        "declared": None if job is None or job.declared_at is None else to_text(job.declared_at),
        "live": bool(seen.live),
        "history": runs,
    }


def _forgotten_shown(seen: SeenEntry, runs: int | None) -> Text:
    what = "its entry could not be read" if seen.declared is None else _in_words(seen.declared)
    if seen.snapshot.node is None:
        what = "it had no entry"
    gone = f"its history is gone ({runs} {'entry' if runs == 1 else 'entries'}), and so are its steps; its lock stays"
    left = "its lock and its history stay" if runs is None else gone
    return Text(f"{plain(seen.name)}: forgotten\n  {what}\n  {left}")


def _in_words(job: CatalogueEntry) -> str:
    by = " / ".join(plain(part) for part in (job.service, job.revision) if part) or "nobody with its role"
    at = "" if job.declared_at is None else f" at {to_text(job.declared_at)}"
    where = f" ({plain(job.where)})" if job.where else ""
    return f"{job.schedule}, declared by {by}{at}{where}"
