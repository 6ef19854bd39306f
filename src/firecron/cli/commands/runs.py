"""`firecron runs NAME`: the runs of a job, and its ticks that did not run. Without a name: the last run of each job.

A run is shown with its time, outcome, duration and instance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import indent
from typing import Annotated

import typer
from rich.text import Text

from firecron.cli.contexts import here
from firecron.cli.lines import Paper, milliseconds_of, present, run_lines, step_lines, unfinished_line
from firecron.cli.options import Interval, Json, OnlyName, Watch, check_known, database_of, given_since
from firecron.cli.output import Exit, Failure, Output, answering
from firecron.cli.watching import Changes, View, give
from firecron.errors import Denied
from firecron.lock.database import Database
from firecron.ops.operator import LastRun, Operator, SeenLast
from firecron.ops.views import TickSteps, Unfinished, inspect_unfinished
from firecron.runs.entry import Entry
from firecron.store import is_entry_name

Most = Annotated[int, typer.Option("-n", min=1, max=1000, help="Number of runs to show, the newest.")]
Steps = Annotated[bool, typer.Option("--steps", help="List the steps of each run, without their results.")]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="WHEN", help="Only runs since then: 1d, 14:00, 2026-11-18, 2026-11-18T09:00Z."),
]
Failed = Annotated[bool, typer.Option("--failed", help="Only runs that failed, were lost or died.")]
On = Annotated[
    str | None, typer.Option("--on", metavar="INSTANCE", help="Only runs on instances whose names have this in them.")
]
Tracebacks = Annotated[bool, typer.Option("--tracebacks", help="Show where each failed run has failed, if it is kept.")]


def runs(
    name: OnlyName = None,
    most: Most = 20,
    since: Since = None,
    failed: Failed = False,
    on: On = None,
    with_steps: Steps = False,
    with_tracebacks: Tracebacks = False,
    watching: Watch = False,
    interval: Interval = 2.0,
    as_json: Json = False,
) -> None:
    """Show past runs: where, how they ended, how long they took.

    The newest run is last. A bar compares each duration with the longest one shown. A tick whose run is under way, or
    died and isn't recorded yet, comes after the recorded runs. --steps lists what each run has recorded with run.step,
    without the results, also a run by hand that isn't recorded. --tracebacks shows the last frames of what each run has
    raised.

    Without NAME, shows the last run of each job; with --since, --failed or --on, of each job the runs that fit.
    """
    with answering(as_json=as_json) as output:
        database = Database()
        operator, paths = Operator(database), database.paths
        if name is None and (with_steps or with_tracebacks):
            raise Failure(f"--{'steps' if with_steps else 'tracebacks'} needs the NAME of a job", Exit.USAGE)
        wanted = Wanted(
            None if since is None else given_since(since, database.now(database.deadline())), failed=failed, on=on
        )
        if name is None and wanted != EVERY:
            every_run = Changes(database, paths.locks, paths.runs)
            give(output, MatchingView(operator, output, wanted, most), every_run, interval, watching=watching)
            return
        if name is None:
            every_job = Changes(database, paths.locks, paths.runs)
            give(output, LastRunsView(operator, output), every_job, interval, watching=watching)
            return
        changes = Changes(database, paths.lock(name), paths.runs_of(name))
        view = RunsView(operator, output, name, most, wanted, with_steps=with_steps, with_tracebacks=with_tracebacks)

        def check(seen: SeenRuns) -> None:
            if not (seen.runs or seen.has_lock or seen.steps):
                check_known(operator, name)

        give(output, view, changes, interval, watching=watching, check=check)


# --- which runs

_FAILURES = frozenset({"failed", "lost", "abandoned"})


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which runs are shown. `since` is in milliseconds; `on` is a part of an instance's name."""

    since: int | None = None
    failed: bool = False
    on: str | None = None

    def among(self, runs: Sequence[Entry]) -> tuple[Entry, ...]:
        """Return the runs that are shown."""
        return tuple(run for run in runs if self._takes(run)) if self != EVERY else tuple(runs)

    def takes_unfinished(self, found: Unfinished) -> bool:
        """Return whether a tick is shown that isn't in the history yet. It has failed if its run has died."""
        at = found.since if found.since is not None else milliseconds_of(found.slot)
        return self._is_new(at) and not (self.failed and found.is_live) and self._is_there(found.owner)

    def _takes(self, run: Entry) -> bool:
        at = run.started_at if run.started_at is not None else milliseconds_of(run.slot)
        has_failed = not self.failed or run.outcome in _FAILURES
        # The instance that has recorded a tick that did not run is not where it was.
        return has_failed and self._is_new(at) and self._is_there(run.owner if run.recorded_by is None else None)

    def _is_new(self, at: int | None) -> bool:
        return self.since is None or (at is not None and at >= self.since)

    def _is_there(self, owner: str | None) -> bool:
        return self.on is None or self.on in (owner or "")


EVERY = Wanted()


# --- one job

_NONE_YET = "none of its ticks was claimed yet"


@dataclass(frozen=True, slots=True)
class SeenRuns:
    """The history of a job, and the tick whose run isn't in it yet, as its lock shows.

    `steps` are those of the ticks that are shown, `tracebacks` those of the runs; None if they were not asked for.
    `denied` says why the lock couldn't be read.
    """

    runs: tuple[Entry, ...]
    unfinished: Unfinished | None
    has_lock: bool
    denied: str | None = None
    steps: tuple[TickSteps, ...] | None = None
    tracebacks: tuple[tuple[str, str], ...] | None = None


@dataclass(frozen=True, slots=True)
class RunsView(View[SeenRuns]):
    """A view of the history of a job."""

    operator: Operator
    output: Output
    name: str
    most: int
    wanted: Wanted = EVERY
    with_steps: bool = False
    with_tracebacks: bool = False

    is_newest_last = True

    def read(self) -> SeenRuns:
        seen = _read(self.operator, self.name, self.wanted)
        if self.with_tracebacks:
            shown = {run.key for run in seen.runs[-self.most :]}
            found = self.operator.tracebacks(self.name).items()
            seen = replace(seen, tracebacks=tuple((key, text) for key, text in found if key in shown))
        if not self.with_steps:
            return seen
        ticks = {run.key for run in seen.runs[-self.most :]}
        if seen.unfinished is not None:
            ticks.add(seen.unfinished.slot)
        recorded = {run.key for run in seen.runs}
        return replace(seen, steps=self.operator.steps(self.name, ticks, recorded))

    def show(self, seen: SeenRuns) -> Text:
        found = seen.runs
        lines = [
            *self._lines_of(found[-self.most :], found[-self.most :]),
            *_unfinished(self.output, seen),
            *_new_steps(self.output, (), seen.steps or ()),
            *_new_tracebacks((), seen.tracebacks or ()),
        ]
        if not lines:
            where = database_of(self.operator.settings)
            why = f"but its lock has a node: see {here(f'firecron locks {self.name}')}" if seen.has_lock else _NONE_YET
            said = f"There is no run of {self.name} in {where} ({why})."
            if self.wanted != EVERY:
                said = f"There is no run of {self.name} in {where} that fits, among those that are kept."
            lines = [Text(said)]
        if found:
            lines.append(_total(found, min(self.most, len(found))))
        if seen.denied is not None:
            lines.append(Text(f"It is not known whether a run is under way: {seen.denied}", "dim"))
        return Text("\n").join(lines)

    def _lines_of(self, runs: Sequence[Entry], among: Sequence[Entry]) -> list[Text]:
        return run_lines(runs, among, _paper(self.output), of_one_schedule=is_entry_name(self.name))

    def lines(self, last: SeenRuns | None, seen: SeenRuns) -> list[Text]:
        if last is None or not (last.runs or last.unfinished):
            return [self.show(seen)]
        lines = self._lines_of([run for run in seen.runs if run not in last.runs], seen.runs)
        if seen.unfinished != last.unfinished:
            lines += _unfinished(self.output, seen)
        lines += _new_steps(self.output, last.steps or (), seen.steps or ())
        return [*lines, *_new_tracebacks(last.tracebacks or (), seen.tracebacks or ())]

    def value(self, seen: SeenRuns) -> object:
        return {
            "name": self.name,
            "counts": counts(seen.runs),
            "runs": [run.to_json() for run in seen.runs[-self.most :]],
            "unfinished": None if seen.unfinished is None else seen.unfinished.to_json(),
            "steps": None if seen.steps is None else [tick.to_json() for tick in seen.steps],
            "tracebacks": None if seen.tracebacks is None else dict(seen.tracebacks),
        }

    def essence(self, seen: SeenRuns) -> object:
        return seen.runs, seen.unfinished, seen.steps, seen.tracebacks


def _read(operator: Operator, name: str, wanted: Wanted = EVERY) -> SeenRuns:
    """Read the lock, then the history. In this order, a run that ends meanwhile is in at least one of them."""
    seen = _read_all(operator, name)
    unfinished = seen.unfinished if seen.unfinished is None or wanted.takes_unfinished(seen.unfinished) else None
    return replace(seen, runs=wanted.among(seen.runs), unfinished=unfinished)


def _read_all(operator: Operator, name: str) -> SeenRuns:
    try:
        lock = operator.read(name).view
    except Denied as error:
        # A user that may not read the locks still gets the history.
        return SeenRuns(operator.runs(name), None, has_lock=True, denied=str(error))
    found = operator.runs(name)
    return SeenRuns(found, inspect_unfinished(lock, found), has_lock=lock.state != "absent")


def counts(found: Sequence[Entry]) -> dict[str, int]:
    """Return the number of ticks and runs for each outcome. An entry for several ticks counts each of them."""
    counter: Counter[str] = Counter()
    for run in found:
        counter[run.outcome] += run.count
    return dict(sorted(counter.items()))


def _new_steps(output: Output, last: Sequence[TickSteps], seen: Sequence[TickSteps]) -> list[Text]:
    """Return the lines of the ticks whose steps have changed since the last look."""
    return [line for tick in seen if tick not in last for line in step_lines(tick, _paper(output))]


def _new_tracebacks(last: Sequence[tuple[str, str]], seen: Sequence[tuple[str, str]]) -> list[Text]:
    """Return the lines of the tracebacks that are new since the last look."""
    new = [one for one in seen if one not in last]
    return [
        Text(line, style) for key, text in new for line, style in ((f"{key}: failed", ""), (indent(text, "  "), "dim"))
    ]


def _total(found: Sequence[Entry], number: int) -> Text:
    uncounted = {run.outcome for run in found if run.at_least}
    sums = counts(found).items()
    of_all = ", ".join(f"{'at least ' if outcome in uncounted else ''}{number} {outcome}" for outcome, number in sums)
    entries = f"{len(found)} {'entry' if len(found) == 1 else 'entries'}"
    return Text(f"{f'{number} of ' if number < len(found) else ''}{entries}: {of_all}", "dim")


def _unfinished(output: Output, seen: SeenRuns) -> list[Text]:
    return [] if seen.unfinished is None else [unfinished_line(seen.unfinished, _paper(output))]


def _paper(output: Output) -> Paper:
    width = output.out.width if output.out.is_terminal else None
    return Paper(present(), width, has_blocks=output.out.encoding.lower().startswith("utf"))


# --- all jobs


@dataclass(frozen=True, slots=True)
class LastRunsView(View[SeenLast]):
    """A view of the last run of every job."""

    operator: Operator
    output: Output

    def read(self) -> SeenLast:
        return self.operator.last_runs()

    def show(self, seen: SeenLast) -> Text:
        lines = _blocks(self.output, seen.jobs) or [Text(f"There is no run in {database_of(self.operator.settings)}.")]
        if seen.denied is not None:
            lines.append(Text(f"It is not known which runs are under way: {seen.denied}", "dim"))
        return Text("\n").join(lines)

    def lines(self, last: SeenLast | None, seen: SeenLast) -> list[Text]:
        if last is None:
            return [self.show(seen)]
        return _blocks(self.output, [job for job in seen.jobs if job not in last.jobs])

    def value(self, seen: SeenLast) -> object:
        return {
            "jobs": [
                {
                    "name": job.name,
                    "last": None if job.run is None else job.run.to_json(),
                    "unfinished": None if job.unfinished is None else job.unfinished.to_json(),
                }
                for job in seen.jobs
            ]
        }

    def essence(self, seen: SeenLast) -> object:
        return seen.jobs


def _blocks(output: Output, jobs: Sequence[LastRun]) -> list[Text]:
    """Return a block of text per job: on a terminal, its name above its lines; elsewhere, its name before each line."""
    is_terminal = output.out.is_terminal
    paper = Paper(present(), output.out.width - 2 if is_terminal else None, has_bars=False)
    runs = [job.run for job in jobs if job.run is not None]
    shown = iter(run_lines(runs, (), paper))
    blocks: list[Text] = []
    for job in jobs:
        lines = [next(shown)] if job.run is not None else []
        lines += [unfinished_line(job.unfinished, paper)] if job.unfinished is not None else []
        lines = lines or [Text("no run is recorded", "dim")]
        if is_terminal:
            parts = [part for line in lines for part in line.split("\n")]
            blocks.append(Text("\n  ").join([Text(job.name, "bold"), *parts]))
        else:
            blocks += [Text(f"{job.name}: ").append(line) for line in lines]
    return blocks


# --- all jobs, of which some runs are wanted


@dataclass(frozen=True, slots=True)
class MatchingView(View[Mapping[str, tuple[Entry, ...]]]):
    """A view of the wanted runs of every job: the newest of each, by the job's name."""

    operator: Operator
    output: Output
    wanted: Wanted
    most: int

    def read(self) -> Mapping[str, tuple[Entry, ...]]:
        found = {name: self.wanted.among(runs)[-self.most :] for name, runs in self.operator.histories().items()}
        return {name: runs for name, runs in found.items() if runs}

    def show(self, seen: Mapping[str, tuple[Entry, ...]]) -> Text:
        if not seen:
            where = database_of(self.operator.settings)
            return Text(f"There is no run in {where} that fits, among those that are kept.")
        number = sum(map(len, seen.values()))
        of = f"{len(seen)} {'job' if len(seen) == 1 else 'jobs'}"
        total = Text(f"{number} {'run' if number == 1 else 'runs'} of {of}", "dim")
        return Text("\n").join([*self._blocks(seen), total])

    def lines(self, last: Mapping[str, tuple[Entry, ...]] | None, seen: Mapping[str, tuple[Entry, ...]]) -> list[Text]:
        if not last:
            return [self.show(seen)]
        new = {name: tuple(run for run in runs if run not in last.get(name, ())) for name, runs in seen.items()}
        return self._blocks({name: runs for name, runs in new.items() if runs})

    def value(self, seen: Mapping[str, tuple[Entry, ...]]) -> object:
        return {"jobs": [{"name": name, "runs": [run.to_json() for run in runs]} for name, runs in seen.items()]}

    def essence(self, seen: Mapping[str, tuple[Entry, ...]]) -> object:
        return seen

    def _blocks(self, seen: Mapping[str, tuple[Entry, ...]]) -> list[Text]:
        """Return a block for each job: on a terminal its name above its runs, elsewhere its name before each."""
        is_terminal = self.output.out.is_terminal
        paper = Paper(present(), self.output.out.width - 2 if is_terminal else None, has_bars=False)
        blocks: list[Text] = []
        for name, runs in seen.items():
            lines = run_lines(runs, (), paper)
            if is_terminal:
                parts = [part for line in lines for part in line.split("\n")]
                blocks.append(Text("\n  ").join([Text(name, "bold"), *parts]))
            else:
                blocks += [Text(f"{name}: ").append(line) for line in lines]
        return blocks
