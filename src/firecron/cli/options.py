"""Options and arguments that several commands have, said once."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

Json: TypeAlias = Annotated[bool, typer.Option("--json", help="One JSON value on standard output, for programs.")]
Name: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", help="The name of the lock, which is the job's.")]
OnlyName: TypeAlias = Annotated[
    str | None, typer.Argument(metavar="NAME", help="Only this one; the name of the lock, which is the job's.")
]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")]
_APP = typer.Argument(
    metavar="APP",
    help="module:object, a FireCron or what it is made of (an instance, a class, a module, a function); "
    "found from the current folder.",
)
AppPath: TypeAlias = Annotated[str, _APP]
OnlyAppPath: TypeAlias = Annotated[str | None, _APP]
Watch: TypeAlias = Annotated[bool, typer.Option("--watch", "-w", help="Show it until Ctrl-C, as it changes.")]
Interval: TypeAlias = Annotated[
    float, typer.Option("--interval", min=0.1, max=3600, help="With --watch: how often to look, in seconds.")
]
