"""The command line as a whole. Each group of commands is a module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from firecron import __version__
from firecron.cli.commands import doctor, jobs, operate, page, play, runs, status
from firecron.cli.commands import exec as exec_command
from firecron.cli.commands import run as run_command
from firecron.scheduler.startup import in_command

HELP = """Show jobs, locks and runs. Pause a job, cancel its run, run it again.

The environment names the database:

\b
FIRECRON_DATABASE_URL            https://<name>.firebaseio.com, or
FIREBASE_CONFIG                  Firebase's JSON, with its databaseURL
GOOGLE_APPLICATION_CREDENTIALS   credentials file, unless found by default
FIREBASE_DATABASE_EMULATOR_HOST  host:port of an emulator, used instead
FIRECRON_PREFIX                  path above all nodes of firecron
NO_COLOR                         set it to print without colours

\b
Exit codes:
   0  fine
   1  failed
   2  wrong usage or configuration
  69  the database can't be reached
  75  not done: the lock is held or paused
  78  denied, or the lock's node is malformed
"""

app = typer.Typer(
    name="firecron",
    help=HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"firecron {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show firecron's version and exit.")
    ] = False,
) -> None:
    # Before the command loads an application, whose import may start its jobs.
    context.with_resource(in_command(context.invoked_subcommand or ""))


for group in (play, status, page, jobs, runs, operate, run_command, exec_command, doctor):
    group.add_to(app)


def run(arguments: Sequence[str] | None = None, name: str | None = None) -> int:
    """Run the command that the arguments name, by default those of this process."""
    answer: object = app(arguments, name, standalone_mode=True)
    return answer if isinstance(answer, int) else 0
