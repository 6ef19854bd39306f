"""Where `start` must not start: processes that only look like the application.

Flask's and Django's reloaders run the program twice, and their other commands load it as well; a job that ticks in
`manage.py migrate` is nobody's wish. Nor is it meant by `FireCron(enabled=True)`, which opens the production guard: it
says where jobs tick, not in which of the processes there. A program of your own that is to tick is a script, not a
command of Flask or Django. Servers need no mention here: each of their workers is a process, and ticks for itself. Nor
can it be told of `app.run(debug=True)` that a reloader will follow: use `flask run`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

# What a command may have started, in whose processes the variables of the command are still set.
_SERVERS = {"gunicorn", "uvicorn", "hypercorn", "granian", "daphne", "waitress-serve", "waitress"}
_DJANGO = {"manage", "django-admin", "django"}
_DJANGO_SERVING = {"runserver", "runserver_plus"}
_FLASK_OPTIONS_WITH_VALUE = {"-A", "--app", "-e", "--env-file"}
_NO = {"", "0", "f", "false", "n", "no", "off"}


def reason_not_to_start(
    environment: Mapping[str, str] = os.environ, arguments: Sequence[str] | None = None
) -> str | None:
    """Why jobs should not tick in this process; None if nothing speaks against it."""
    program, rest = _program(arguments)
    if program in _SERVERS:
        return None
    if program == "flask" or environment.get("FLASK_RUN_FROM_CLI") == "true":
        return _against_flask(environment, rest)
    if program in _DJANGO and environment.get("DJANGO_SETTINGS_MODULE"):
        return _against_django(environment, rest)
    return None


def is_a_servers_process(arguments: Sequence[str] | None = None) -> bool:
    """Whether this process belongs to a server, so that a child of it may be one of its workers."""
    return _program(arguments)[0] in _SERVERS


def _program(arguments: Sequence[str] | None) -> tuple[str, Sequence[str]]:
    """What was called, and with which arguments; by default this process itself."""
    path, *rest = sys.argv if arguments is None else arguments or [""]
    program = Path(path).stem
    return (Path(path).parent.name if program == "__main__" else program), rest  # python -m


def _against_flask(environment: Mapping[str, str], arguments: Sequence[str]) -> str | None:
    command = _flask_command(arguments)
    if command != "run":
        return f"this is the Flask command {command!r}, not a server"
    if _flask_reloads(environment, arguments) and environment.get("WERKZEUG_RUN_MAIN") != "true":
        return "this is the parent of Flask's reloader; they tick in its child"
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
    # The options --debug and --no-debug are in FLASK_DEBUG by the time the application is loaded.
    said = environment.get("FLASK_RUN_RELOAD") or environment.get("FLASK_DEBUG", "")
    return said.lower() not in _NO


def _against_django(environment: Mapping[str, str], arguments: Sequence[str]) -> str | None:
    command = arguments[0] if arguments else ""
    if command not in _DJANGO_SERVING:
        return f"this is the Django command {command!r}, not a server"
    # runserver_plus is of Werkzeug.
    is_child = "true" in (environment.get("RUN_MAIN"), environment.get("WERKZEUG_RUN_MAIN"))
    if "--noreload" not in arguments and not is_child:
        return "this is the parent of Django's reloader; they tick in its child"
    return None
