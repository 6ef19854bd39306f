"""The command line as a whole. Each group of commands is a module of this package.

A module is imported when one of its commands is called. The list of commands, `--version` and the completion of a
command's name need none of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from firecron import __version__

HELP = """Show jobs, locks and runs. Pause a job, cancel its run, run it again.

The environment names the database, or the options --database and --prefix of a
command, or its --context:

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


# In the order of the help: the function that is the command, and the first line of its docstring.
COMMANDS = {
    "demo": ("play:demo", "Show three instances that race for a job; one is killed."),
    "emulator": ("play:emulator", "Run a Realtime Database emulator, in memory."),
    "status": ("status:status", "Show all jobs: whether each is as it should be, and why not."),
    "check": ("status:check", "Say which jobs are unattended, stuck, late or failing."),
    "page": ("page:page", "Serve the page: all jobs in a browser, live, with buttons."),
    "jobs": ("jobs:jobs", "List the jobs and leaders of an application, and next ticks."),
    "next": ("jobs:next_ticks", "List the next ticks of a cron line, of a job, or of a stored schedule."),
    "export": ("export:export", "Print the jobs of Cloud Scheduler that call the triggers of APP."),
    "locks": ("locks:locks", "Show which locks are held, by which instance, and until when."),
    "runs": ("runs:runs", "Show past runs: where, how they ended, how long they took."),
    "pause": ("locks:pause", "Pause a lock, so that no instance can acquire it."),
    "resume": ("locks:resume", "Resume a paused lock, so that instances can acquire it again."),
    "hold": ("holds:hold", "Pause all jobs for a while, or some of them, and say why."),
    "unhold": ("holds:unhold", "Take a hold back: resume what it has paused."),
    "mute": ("holds:mute", "Tell nobody of a job for a while, and say why."),
    "unmute": ("holds:unmute", "End the mute of a job: people are told of it again."),
    "schedules": ("schedules:schedules", "List the stored schedules of a job, or the jobs that have any."),
    "schedule": ("schedules:schedule", "Put, remove, show or mend a stored schedule."),
    "cancel": ("locks:cancel", "Ask the run that holds a lock to stop. The lock stays held until the run has ended."),
    "unlock": ("locks:unlock", "Free a lock that is held; its slot and its fence stay."),
    "acts": ("locks:acts", "Show what operators have done: who, when and why."),
    "forget": ("locks:forget", "Take jobs out of the catalogue that no program has any more."),
    "ask": ("asks:ask", "Ask a live instance to run the job NAME, without its code here."),
    "run": ("run:run", "Run the job NAME of APP once, now, under its lock."),
    "work": ("run:work", "Run the jobs of APP at their ticks, until SIGTERM or Ctrl-C."),
    "exec": ("exec:execute", "Run COMMAND under a lock, which is renewed while COMMAND runs."),
    "doctor": ("doctor:doctor", "Find out what is wrong here, and how to fix it."),
    "rules": ("doctor:rules", "Print the security rules that limit firecron to its own nodes."),
    "init": ("init:init", "Write what a new service needs, and overwrite nothing."),
    "context": ("context:context", "Name databases, for the option --context of the others."),
}
# What the commands are for. The help lists them so.
GROUPS = {
    "Look": ("status", "check", "page", "runs", "locks", "schedules", "acts", "doctor", "context"),
    "Act": ("pause", "resume", "hold", "unhold", "mute", "unmute", "cancel", "unlock", "forget", "schedule"),
    "Run": ("run", "ask", "work", "exec"),
    "Develop": ("init", "jobs", "next", "export", "rules", "emulator", "demo"),
}
# These need no database, or have one of their own.
_WITHOUT_DATABASE = ("demo", "emulator", "jobs", "next", "export", "rules", "context")
EXAMPLES = {
    "demo": "--ticks 5",
    "emulator": "-- uvicorn main:app",
    "status": "--watch",
    "check": "nightly-import || page-somebody",
    "page": "--port 8080 --read-only",
    "jobs": "myservice.main:crons",
    "next": '"30 2 * * *" --timezone Europe/Berlin --after 2027-03-27T00:00Z',
    "export": "main:crons --to gcloud --url https://api.run.app/cron --service-account me@x.iam.gserviceaccount.com",
    "locks": "--watch",
    "runs": "send-daily-digest -n 5",
    "pause": "send-daily-digest --why 'the feed is down' --until 2h",
    "resume": "send-daily-digest",
    "hold": "--service api --until 2h --why 'migrating the database'",
    "unhold": "41c9e0a7b3d2",
    "mute": "nightly-import --until 3d --why 'the supplier is on holiday'",
    "unmute": "nightly-import",
    "schedules": "remind -n 20",
    "schedule": "put remind 42 '0 9 * * *' --timezone Europe/Berlin",
    "cancel": "nightly-import --why 'wrong input file'",
    "unlock": "nightly-import",
    "acts": "send-daily-digest",
    "forget": "old-report",
    "ask": "send-daily-digest --why 'the feed was late'",
    "run": "myservice.main:crons send-daily-digest --slot now",
    "work": "myservice.main:crons",
    "exec": "--lock report --cron '30 2 * * *' --timezone Europe/Berlin -- ./report.sh",
    "doctor": "myservice.main:crons",
    "rules": "--prefix ops/cron > database.rules.json",
    "init": "--project orders-prod --region europe-west1",
    "context": "add prod --database https://orders.firebaseio.com --prefix ops/cron",
}


def load(name: str) -> TyperCommand | TyperGroup:
    """Import the command, which may be a group of commands."""
    module, _, function = COMMANDS[name][0].partition(":")
    found = getattr(import_module(f"{__name__}.{module}"), function)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    epilog = f"Example: firecron {name} {EXAMPLES[name]}"
    if isinstance(found, typer.Typer):
        alone.add_typer(found, name=name, help=COMMANDS[name][1], epilog=epilog)
        return cast(TyperGroup, cast(TyperGroup, typer.main.get_command(alone)).commands[name])
    from firecron.cli.options import OnDatabase

    # What follows the COMMAND of `exec` is the command's.
    settings = {"allow_interspersed_args": name != "exec"}
    kind = TyperCommand if name in _WITHOUT_DATABASE else OnDatabase
    alone.command(name, cls=kind, epilog=epilog, context_settings=settings)(found)
    return cast(TyperCommand, typer.main.get_command(alone))


class _AsItIs:
    """Stands where typer keeps what converts the value of a parameter, until a value comes that has to be converted.

    typer makes a pydantic model of each parameter of a command, also of one that isn't given, and of a plain text. To
    load pydantic for that costs more processor time than all that `--help` needs.
    """

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return what typer would return. typer calls this as a method of its own."""
        described, is_many = param.type_descriptor, param.multiple or param.nargs == -1
        if value is None:
            return () if is_many else None
        if described.parameter_info.parser is None:
            if described.annotation is str and isinstance(value, str):
                return value
            if described.annotation == list[str] and isinstance(value, tuple):
                return [*value]
            # A default is the program's own, and within the bounds that it gives.
            if value is param.default and type(value) in (int, float) and type(value) is described.annotation:
                return value
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def take_as_they_are(parameters: Iterable[Any]) -> None:
    """Let typer take values as they are where it would convert them to what they are.

    The attributes are typer's own. A typer that has others, or that loads no pydantic for a value, is left alone.
    """
    for parameter in parameters:
        described = getattr(parameter, "type_descriptor", None)
        is_known = hasattr(described, "annotation") and hasattr(getattr(described, "parameter_info", None), "parser")
        if is_known and hasattr(parameter, "get_runtime_param") and hasattr(parameter, "_runtime_param"):
            parameter._runtime_param = _AsItIs()


class _Lazy(TyperGroup):
    """A group whose commands have only a name and a summary until one of them is called."""

    def get_params(self, ctx: Any) -> Any:  # typer's own click is private
        found = super().get_params(ctx)
        take_as_they_are(found)
        return found

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        if name not in COMMANDS:
            return name, None, rest
        command = load(name)
        for one in (command, *getattr(command, "commands", {}).values()):
            take_as_they_are(one.get_params(ctx))
        return name, command, rest

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands in their groups, a line each."""
        for title, names in GROUPS.items():
            with formatter.section(title):
                # A summary may be of two sentences, of which the first one is enough here.
                formatter.write_dl([(name, f"{COMMANDS[name][1].partition('. ')[0].rstrip('.')}.") for name in names])


app = typer.Typer(
    name="firecron",
    help=HELP,
    cls=_Lazy,
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
    from firecron.scheduler.startup import in_command

    # Before the command loads an application, whose import may start its jobs.
    context.with_resource(in_command(context.invoked_subcommand or ""))


for command, (_, summary) in COMMANDS.items():
    app.command(command, help=summary)(lambda: None)
