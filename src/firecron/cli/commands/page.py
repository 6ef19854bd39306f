"""`firecron page`: serve the page alone, from what the database knows of the jobs.

Nothing ticks here. On loopback the page asks for no password, because its visitor can run this command as well.
There it answers to no other Host, so that no site that a browser has open can reach it by a name of its own. On another
address it needs a password, or Identity-Aware Proxy in front of it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

import firecron.logging
from firecron.cli.options import Host, OnlyAppPath, database_of, load
from firecron.cli.output import Exit, Failure, answering
from firecron.cli.process import Signals, beside, ending_at_second
from firecron.errors import ConfigurationError
from firecron.lock.database import Database
from firecron.ops.board import Board
from firecron.ops.views import claimed_user
from firecron.page.access import Authenticator, OwnAuthenticator, choose_authenticator
from firecron.page.messages import LOOPBACK, Access
from firecron.page.reads import Code
from firecron.page.site import PageSite
from firecron.settings import PAGE_PASSWORD
from firecron.web import AsgiApp

if TYPE_CHECKING:
    import uvicorn

    from firecron.app import FireCron

# How long the server may take to end once every stream and run has ended.
_END = 5.0

Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen on, 0 for any free one.")]
ReadOnly = Annotated[bool, typer.Option("--read-only", help="Show everything, and change nothing.")]
User = Annotated[str, typer.Option("--user", help="User name that the password is for.")]
Password = Annotated[
    str | None,
    typer.Option("--password", help=f"Password that the browser asks for; without the option that of {PAGE_PASSWORD}."),
]
IapAudience = Annotated[
    str | None, typer.Option("--iap-audience", metavar="PATH", help="Believe Identity-Aware Proxy, for this audience.")
]


def page(
    app: OnlyAppPath = None,
    host: Host = "127.0.0.1",
    port: Port = 8080,
    read_only: ReadOnly = False,
    user: User = "ops",
    password: Password = None,
    iap_audience: IapAudience = None,
) -> None:
    """Serve the page: all jobs in a browser, live, with buttons.

    It shows what the database knows, and needs no APP. With APP it can also run that application's jobs; they don't
    tick here. Ends at Ctrl-C or SIGTERM, after the runs that it has begun. A second signal ends it at once.

    On loopback it asks for no password. Another address needs a password or Identity-Aware Proxy. Give the password by
    FIRECRON_PAGE_PASSWORD, because others on this machine can see a command's arguments.
    """
    with answering() as output:
        # Read here, because the oldest typer that is allowed reads no variable for an option. A variable that is set
        # and empty is refused as the option is: a page that was meant to be closed isn't opened.
        if password is None:
            password = os.environ.get(PAGE_PASSWORD)
        if password is not None and iap_audience is not None:
            raise Failure("a password and an IAP audience are two ways in: leave one of them out", Exit.USAGE)
        is_closed = password is not None or iap_audience is not None
        if not is_closed and host.lower() not in LOOPBACK:
            raise Failure(
                f"--host {host} is none of {', '.join(LOOPBACK)}, so others could run and unlock jobs, or nobody could "
                f"open the page: give one of these, a password by {PAGE_PASSWORD}, or --iap-audience",
                Exit.USAGE,
            )
        # Signals come first: a signal may arrive at any time.
        with Signals() as signals, signals.going_to(ending_at_second()):
            crons = None if app is None else load(app).crons
            database = Database() if crons is None else crons.database
            if not logging.getLogger("firecron").hasHandlers():
                firecron.logging.setup()
            authenticator: Authenticator = OwnAuthenticator(lambda visitor: Access(claimed_user(), can_act=True))
            if password is not None:
                authenticator = _basic(user, password, database)
            elif iap_audience is not None:
                authenticator = choose_authenticator(database.events, iap_audience=iap_audience)
            site = PageSite(
                authenticator,
                Board(database),
                Code() if crons is None else Code(crons.registry, crons.engine.leaders.all()),
                read_only=read_only,
                is_local=not is_closed,
            )
            asgi = AsgiApp(site, database.settings.workers, streams=site.live)
            with _listening(host, port) as listening:
                shown = f"http://{_in_url(host)}:{listening.getsockname()[1]}/"
                output.say(f"{shown} shows the jobs of {database_of(database.settings)}; press Ctrl-C to end")
                _serve(asgi, listening, signals, crons)


def _basic(user: str, password: str, database: Database) -> Authenticator:
    try:
        return choose_authenticator(database.events, basic=(user, password))
    except ConfigurationError as error:
        raise Failure(f"{error}: give them by --user and {PAGE_PASSWORD}", Exit.USAGE) from None


def _serve(page: AsgiApp, listening: socket.socket, signals: Signals, crons: FireCron | None) -> None:
    """Serve until a signal arrives, or the server fails."""
    server = _server(page)
    served = beside(signals, "firecron-page", lambda: asyncio.run(server.serve([listening])))
    signals.wait()
    page.end()
    if crons is not None:
        crons.stop()  # the server waits for the runs that visitors have begun
    server.should_exit = True
    with suppress(TimeoutError):
        if (error := served.exception(_END)) is not None:
            raise Failure(f"the page could not be served: {error!r}")


def _server(page: AsgiApp) -> uvicorn.Server:
    try:
        import uvicorn
    except ModuleNotFoundError as error:
        if error.name != "uvicorn":
            raise
        raise Failure("uvicorn is not installed: pip install 'firecron[page]'", Exit.USAGE) from None
    return uvicorn.Server(uvicorn.Config(page, lifespan="off", log_level="warning", access_log=False))


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        why = str(error) if error.errno is None else os.strerror(error.errno)
        raise Failure(f"can't listen on {_in_url(host)}:{port}: {why}; give another --port, or 0", Exit.USAGE) from None


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
