"""`firecron work`: tick until a signal asks for the end. It is the program of a process that has nothing else to do.

The command starts the FireCron of an application, and waits on the main thread. After the first signal it stops as any
server does: runs are asked to end, have the shutdown grace for that, and release their locks. The signal is noted from
the very beginning, so it also ends a command that is still importing its application, and the first process of a
container, which signals don't end by default. A second signal ends the command at once, also there and meanwhile.

Where the production guard is shut, nothing ticks, but the command waits all the same: a worker of a staging
environment is deployed like the one in production, and must not end there at once.
"""

from __future__ import annotations

import logging

import typer

import firecron.logging
from firecron.cli.loading import load_crons
from firecron.cli.options import AppPath
from firecron.cli.output import Output, answering
from firecron.cli.process.signals import Signals, ending_at_second

HELP = """Run the jobs of APP at their ticks, until SIGTERM or Ctrl-C.

It is for a process whose only task is to run jobs, such as a Cloud Run worker pool. After the signal, the runs have
FIRECRON_SHUTDOWN_GRACE seconds to end, and the exit code is 0. A second signal ends the command at once. If APP doesn't
configure logging, the command does: structured on Cloud Run, lines on standard error elsewhere.

Jobs tick where RUNTIME_INSTANCE is production, or with FireCron(enabled=True). Elsewhere nothing ticks: the command
says so, and waits.
"""


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("work", help=HELP, epilog="Example: firecron work myservice.main:crons")(_work)


def _work(app: AppPath) -> None:
    # Signals come before the application: a signal may arrive at any time.
    with answering(Output(as_json=False)), Signals() as signals, signals.going_to(ending_at_second()):
        crons = load_crons(app)
        if not logging.getLogger("firecron").hasHandlers():
            firecron.logging.setup()
        if signals.received is None:
            crons.start()
        signals.pause()
        crons.stop()
