"""The options and arguments that several commands share."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from firecron.cli.output import Exit, Failure
from firecron.lock.acts import LONGEST_WHY

Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON value on standard output.")]
Name: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", help="Name of the job, which is its lock's name.")]
OnlyName: TypeAlias = Annotated[
    str | None, typer.Argument(metavar="NAME", help="Show only this job or lock. A lock has its job's name.")
]
Why: TypeAlias = Annotated[str | None, typer.Option("--why", help="The reason, for those who look later.")]
Until: TypeAlias = Annotated[
    str | None,
    typer.Option("--until", metavar="WHEN", help="When the pause ends by itself: 2h, 14:00, or 2026-11-18T14:00:00Z."),
]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask for confirmation.")]
_APP = typer.Argument(
    metavar="APP",
    help="module:object, importable from the current folder. The object is a FireCron, or an instance, class, "
    "module or function that has jobs.",
)
AppPath: TypeAlias = Annotated[str, _APP]
OnlyAppPath: TypeAlias = Annotated[str | None, _APP]
Watch: TypeAlias = Annotated[bool, typer.Option("--watch", "-w", help="Keep showing changes until Ctrl-C.")]
Interval: TypeAlias = Annotated[
    float, typer.Option("--interval", min=0.1, max=3600, help="With --watch: seconds between two looks.")
]
Every: TypeAlias = Annotated[
    float | None,
    typer.Option("--every", metavar="SECONDS", help="Instead of a cron line: the seconds from one tick to the next."),
]
Starting: TypeAlias = Annotated[
    str | None,
    typer.Option("--starting", metavar="ISO", help="With --every: the first tick; 1970-01-01T00:00Z unless given."),
]


def check_why(why: str | None) -> None:
    """Raise Failure if a reason is longer than what is kept of it."""
    if why is not None and len(why) > LONGEST_WHY:
        raise Failure(f"--why has {len(why)} characters: give at most {LONGEST_WHY}", Exit.USAGE)
