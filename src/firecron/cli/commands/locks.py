"""`firecron locks`: which locks are held, by which instance, since when and until when; which are paused or died."""

from __future__ import annotations

from datetime import datetime

import typer
from rich.text import Text

from firecron.cli.lines import lock_lines, rank
from firecron.cli.options import Interval, Json, OnlyName, Watch, check_known, database_of
from firecron.cli.output import Output, answering
from firecron.cli.watching import Changes, give
from firecron.lock.database import Database
from firecron.ops.operator import Operator, SeenAll
from firecron.ops.views import LockView


def add_to(app: typer.Typer) -> None:
    app.command("locks", epilog="Example: firecron locks --watch")(locks)


def locks(name: OnlyName = None, watching: Watch = False, interval: Interval = 2.0, as_json: Json = False) -> None:
    """Show which locks are held, by which instance, and until when.

    Also shows which locks are paused, which holders died without releasing, and how each last tick ended.
    """
    output = Output(as_json=as_json)
    with answering(output):
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

    def look(self) -> SeenAll:
        if self._name is None:
            return self._operator.look_at_all(with_holders=True)
        seen = self._operator.look(self._name)
        return SeenAll((seen.view,), seen.now)

    def show(self, seen: SeenAll) -> Text:
        return _shown(self._output, seen) if seen.views else self._nothing

    def lines(self, last: SeenAll | None, seen: SeenAll) -> list[Text]:
        return _news(last, seen) if last is not None or seen.views else [self._nothing]

    def value(self, seen: SeenAll) -> object:
        return {"locks": [view.to_json() for view in seen.views]}

    def essence(self, seen: SeenAll) -> object:
        return seen.views


def _shown(output: Output, seen: SeenAll) -> Text:
    """Return a block of lines for each lock on a terminal, and one line for each elsewhere."""
    views = sorted(seen.views, key=rank)
    if not output.out.is_terminal:
        return Text("\n").join(_line(view, seen.now) for view in views)
    return Text("\n").join(_block(view, seen.now) for view in views)


def _block(view: LockView, now: int) -> Text:
    first, *others = lock_lines(view, now)
    head = Text(view.name, "bold").append(": ", "not bold").append(first)
    return Text("\n  ").join([head, *others])


def _line(view: LockView, now: int) -> Text:
    return Text(f"{view.name}: ").append(Text("; ").join(lock_lines(view, now)))


def _news(last: SeenAll | None, found: SeenAll) -> list[Text]:
    before = {view.name: view for view in last.views} if last is not None else {}
    after = {view.name: view for view in found.views}
    changed = [_line(view, found.now) for name, view in after.items() if before.get(name) != view]
    gone = [Text(f"{name}: its node is gone, so it is free") for name in before if name not in after]
    at = f"{datetime.now().astimezone():%H:%M:%S} "
    return [Text(at).append(line) for line in (*changed, *gone)]
