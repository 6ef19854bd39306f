"""`firecron runs NAME`: what ran, where, how it ended and how long it took; and the ticks that did not run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer
from rich.text import Text

from firecron.cli.answers import Answers, answering
from firecron.cli.options import Interval, Json, Name, Watch
from firecron.cli.run_lines import Paper, run_lines
from firecron.cli.watching import View, watch
from firecron.inspection import RunView
from firecron.lock import LockService
from firecron.operating import Operator

Most = Annotated[int, typer.Option("-n", min=1, max=1000, help="How many to show, the newest.")]


def add_to(app: typer.Typer) -> None:
    app.command("runs", epilog="Example: firecron runs send-daily-digest -n 5")(runs)


def runs(name: Name, most: Most = 20, watching: Watch = False, interval: Interval = 2.0, as_json: Json = False) -> None:
    """What ran, where, how it ended, how long it took.

    The newest is last; a bar compares a duration with the longest that is shown.
    """
    answers = Answers(as_json=as_json)
    with answering(answers):
        view = view_of_runs(Operator(LockService()), answers, name, most)
        if watching:
            watch(answers, view, interval)
        else:
            found = view.look()
            answers.give(view.value(found), view.show(found))


def view_of_runs(operator: Operator, answers: Answers, name: str, most: int) -> View[Sequence[RunView]]:
    """How the history of a job is shown."""

    def show(found: Sequence[RunView]) -> Text:
        return _shown(answers, name, found, most)

    def news(last: Sequence[RunView] | None, found: Sequence[RunView]) -> list[Text]:
        return _lines(answers, [run for run in found if run not in last], found) if last else [show(found)]

    def value(found: Sequence[RunView]) -> object:
        return {"name": name, "counts": counts(found), "runs": [run.to_json() for run in found[-most:]]}

    return View(lambda: operator.runs(name), show, news, value, essence=lambda found: found, is_newest_last=True)


def counts(found: Sequence[RunView]) -> dict[str, int]:
    """How often each outcome occurs; an entry for several ticks counts as so many."""
    counter: Counter[str] = Counter()
    for run in found:
        counter[run.outcome] += run.count
    return dict(sorted(counter.items()))


def _shown(answers: Answers, name: str, found: Sequence[RunView], most: int) -> Text:
    if not found:
        return Text(f"There is no run of {name} in this database (a misspelt name looks the same: firecron locks).")
    uncounted = {run.outcome for run in found if run.at_least}
    sums = counts(found).items()
    of_all = ", ".join(f"{'at least ' if outcome in uncounted else ''}{number} {outcome}" for outcome, number in sums)
    number = min(most, len(found))
    total = Text(f"{f'{number} of ' if number < len(found) else ''}{len(found)} entries: {of_all}", "dim")
    return Text("\n").join([*_lines(answers, found[-most:], found[-most:]), total])


def _lines(answers: Answers, wanted: Sequence[RunView], among: Sequence[RunView]) -> list[Text]:
    width = answers.out.width if answers.out.is_terminal else None
    paper = Paper(width, has_blocks=answers.out.encoding.lower().startswith("utf"))
    return run_lines(wanted, among, datetime.now().astimezone(), paper)
