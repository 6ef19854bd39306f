"""The command line as a whole. Each group of commands is a module of this package."""

from __future__ import annotations

from typing import Annotated

import typer

from firecron import __version__
from firecron.cli.commands import doctor, exec, jobs, locks, page, play, run, runs, status
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


# In the order of the help.
for name, command, example in (
    ("demo", play.demo, "demo --ticks 5"),
    ("emulator", play.emulator, "emulator -- uvicorn main:app"),
    ("status", status.status, "status --watch"),
    ("check", status.check, "check nightly-import || page-somebody"),
    ("page", page.page, "page --port 8080 --read-only"),
    ("jobs", jobs.jobs, "jobs myservice.main:crons"),
    ("next", jobs.next_ticks, 'next "30 2 * * *" --timezone Europe/Berlin --after 2027-03-27T00:00Z'),
    ("locks", locks.locks, "locks --watch"),
    ("runs", runs.runs, "runs send-daily-digest -n 5"),
    ("pause", locks.pause, "pause send-daily-digest --why 'the feed is down' --until 2h"),
    ("resume", locks.resume, "resume send-daily-digest"),
    ("cancel", locks.cancel, "cancel nightly-import --why 'wrong input file'"),
    ("unlock", locks.unlock, "unlock nightly-import"),
    ("acts", locks.acts, "acts send-daily-digest"),
    ("forget", locks.forget, "forget old-report"),
    ("run", run.run, "run myservice.main:crons send-daily-digest --slot now"),
    ("work", run.work, "work myservice.main:crons"),
    ("exec", exec.execute, "exec --lock report --cron '30 2 * * *' --timezone Europe/Berlin -- ./report.sh"),
    ("doctor", doctor.doctor, "doctor myservice.main:crons"),
    ("rules", doctor.rules, "rules --prefix ops/cron > database.rules.json"),
):
    # What follows the COMMAND of `exec` is the command's.
    settings = {"allow_interspersed_args": name != "exec"}
    app.command(name, epilog=f"Example: firecron {example}", context_settings=settings)(command)
