"""`firecron demo` and `firecron emulator`: try firecron on this machine, without an account.

`emulator` is `rtdb-emulator`. With a command after `--`, the emulator serves on a free port for as long as that command
runs, and ends with the command's exit code.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from firecron.cli.options import Host, Json
from firecron.cli.output import Exit, Failure, answering
from firecron.cli.process import ProcessGroup, Signals
from firecron.errors import NotStarted
from firecron.settings import EMULATOR_HOST

Ticks = Annotated[int, typer.Option("--ticks", min=2, max=12, help="Number of ticks to play.")]
Port = Annotated[
    int | None,
    typer.Option(
        "--port", min=0, max=65535, help="Port to listen on, 0 for any free one. [default: 9000; 0 with COMMAND]"
    ),
]
Rules = Annotated[
    Path | None,
    typer.Option("--rules", metavar="FILE", help="Security rules for every database; changes of FILE count."),
]
Import = Annotated[Path | None, typer.Option("--import", metavar="FILE", help="JSON data to start with.")]
Export = Annotated[
    Path | None, typer.Option("--export-on-exit", metavar="FILE", help="File to write the data to at the end.")
]
Project = Annotated[str, typer.Option("--project", metavar="ID", help="Database for requests that name none.")]
Command = Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND", help="Run this against the emulator.")]


def demo(ticks: Ticks = 9, as_json: Json = False) -> None:
    """Show three instances that race for a job; one is killed.

    Everything runs on this machine. At the end, the runs are counted from what the database holds.
    """
    with answering(as_json=as_json):
        try:
            from firecron.demo.show import run
        except ModuleNotFoundError as error:
            raise _without_extra(error) from None
        raise SystemExit(run(ticks, as_json=as_json))


def emulator(
    host: Host = "127.0.0.1",
    port: Port = None,
    rules: Rules = None,
    imported: Import = None,
    export: Export = None,
    project: Project = "demo-firecron",
    command: Command = None,
) -> None:
    """Run a Realtime Database emulator, in memory.

    Serves until Ctrl-C. With COMMAND, serves for as long as COMMAND runs, and sets FIREBASE_DATABASE_EMULATOR_HOST for
    it.
    """
    with answering():
        if not command:
            try:
                from rtdb_emulator.cli import main
            except ModuleNotFoundError as error:
                raise _without_extra(error) from None
            files = (("--rules", rules), ("--import", imported), ("--export-on-exit", export))
            options = [part for option, file in files if file is not None for part in (option, str(file))]
            options += [] if port is None else ["--port", str(port)]
            raise SystemExit(main(["--host", host, "--project", project, *options], name="firecron"))
        # Signals come first: a signal may arrive at any time.
        with Signals() as signals:
            try:
                from rtdb_emulator import Emulator
                from rtdb_emulator.session import following, load, save

                made = Emulator(host, port or 0, rules, project=project)
                if imported is not None:
                    load(made, project, imported)
                with made, following(made, rules):
                    code = _run(command, made.host, signals)
                if export is not None:
                    save(made, project, export)
            except ModuleNotFoundError as error:
                raise _without_extra(error) from None
            except OSError as error:
                raise Failure(error.strerror or str(error), Exit.USAGE) from None
            except (NotStarted, ValueError) as error:
                raise Failure(str(error), Exit.USAGE) from None
        raise SystemExit(code)


def _run(command: list[str], host: str, signals: Signals) -> int:
    group = ProcessGroup(command, {**os.environ, EMULATOR_HOST: host})
    try:
        with signals.going_to(group.send):
            code = group.wait()
    finally:
        group.close()
    return code if code >= 0 else 128 - code


def _without_extra(error: ModuleNotFoundError) -> Failure:
    if (error.name or "").partition(".")[0] != "rtdb_emulator":
        raise error
    return Failure("rtdb_emulator is not installed: pip install 'firecron[emulator]'", Exit.USAGE)
