"""Processes in which `start` must not start the jobs, although they load the application.

The reloaders of Flask and Django run the program twice, and their other commands load it, too: a job should not tick in
`manage.py migrate`. `FireCron(enabled=True)` doesn't change this. It overrides the production guard, which decides in
which environments jobs tick, not in which processes there. If a program of your own should tick, make it a script, not
a command of Flask or Django.

Servers are always allowed: each of their workers is a process that ticks for itself. Limit: with `app.run(debug=True)`
this module can't know that a reloader will follow. Use `flask run` instead.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

# Servers that a command may have started: the command's variables are still set in their processes.
_SERVERS = {"gunicorn", "uvicorn", "hypercorn", "granian", "daphne", "waitress-serve", "waitress"}
_DJANGO = {"manage", "django-admin", "django"}
_DJANGO_SERVING = {"runserver", "runserver_plus"}
_FLASK_OPTIONS_WITH_VALUE = {"-A", "--app", "-e", "--env-file"}
_NO = {"", "0", "f", "false", "n", "no", "off"}


def reason_not_to_start(
    environment: Mapping[str, str] = os.environ, arguments: Sequence[str] | None = None
) -> str | None:
    """Return the reason why jobs should not tick in this process; None if they should."""
    program, rest = _program(arguments)
    if program in _SERVERS:
        return None
    if program == "flask" or environment.get("FLASK_RUN_FROM_CLI") == "true":
        return _against_flask(environment, rest)
    if program in _DJANGO and environment.get("DJANGO_SETTINGS_MODULE"):
        return _against_django(environment, rest)
    return None


def is_a_servers_process(arguments: Sequence[str] | None = None) -> bool:
    """Return whether this process belongs to a server. Then a forked child may be one of the server's workers."""
    return _program(arguments)[0] in _SERVERS


def _program(arguments: Sequence[str] | None) -> tuple[str, Sequence[str]]:
    """Return the name of the program and its arguments, by default those of this process."""
    path, *rest = sys.argv if arguments is None else arguments or [""]
    program = Path(path).stem
    return (Path(path).parent.name if program == "__main__" else program), rest  # python -m


def _against_flask(environment: Mapping[str, str], arguments: Sequence[str]) -> str | None:
    command = _flask_command(arguments)
    if command != "run":
        return f"this is the Flask command {command!r}, not a server"
    if _flask_reloads(environment, arguments) and environment.get("WERKZEUG_RUN_MAIN") != "true":
        return "this is the parent of Flask's reloader; the jobs tick in its child"
    return None


def _flask_command(arguments: Sequence[str]) -> str:
    rest = iter(arguments)
    for argument in rest:
        if argument in _FLASK_OPTIONS_WITH_VALUE:
            next(rest, None)
        elif not argument.startswith("-"):
            return argument
    return ""


def _flask_reloads(environment: Mapping[str, str], arguments: Sequence[str]) -> bool:
    switches = [argument for argument in arguments if argument in ("--reload", "--no-reload")]
    if switches:
        return switches[-1] == "--reload"
    # When the application is loaded, Flask has already put the options --debug and --no-debug into FLASK_DEBUG.
    said = environment.get("FLASK_RUN_RELOAD") or environment.get("FLASK_DEBUG", "")
    return said.lower() not in _NO


def _against_django(environment: Mapping[str, str], arguments: Sequence[str]) -> str | None:
    command = arguments[0] if arguments else ""
    if command not in _DJANGO_SERVING:
        return f"this is the Django command {command!r}, not a server"
    # runserver_plus uses Werkzeug's reloader, which sets a variable of its own.
    is_child = "true" in (environment.get("RUN_MAIN"), environment.get("WERKZEUG_RUN_MAIN"))
    if "--noreload" not in arguments and not is_child:
        return "this is the parent of Django's reloader; the jobs tick in its child"
    return None
