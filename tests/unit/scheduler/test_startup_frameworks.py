"""Which processes only look like the application: as they are told apart, and as Flask and Django really are."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import flask
import flask.cli
import pytest

import firecron
from firecron.scheduler.startup import reason_not_to_start
from rtdb_emulator_tests.helpers.processes import Run

FLASK_PARENT = "this is the parent of Flask's reloader; the jobs tick in its child"
DJANGO_PARENT = "this is the parent of Django's reloader; the jobs tick in its child"
CLI = {"FLASK_RUN_FROM_CLI": "true"}
DEBUG = {**CLI, "FLASK_DEBUG": "1"}
DJANGO = {"DJANGO_SETTINGS_MODULE": "site.settings"}


def flask_command(name: str) -> str:
    return f"this is the Flask command {name!r}, not a server"


def django_command(name: str) -> str:
    return f"this is the Django command {name!r}, not a server"


def firecron_command(name: str) -> str:
    return f"this is `firecron{name and f' {name}'}`, not a server"


TABLE: list[tuple[str, dict[str, str], str | None]] = [
    # Servers and programs of one's own.
    ("/venv/bin/gunicorn -w 2 app:app", {}, None),
    ("/venv/bin/gunicorn --reload app:app", CLI, None),
    ("/venv/bin/uvicorn app:app --workers 2 --reload", {}, None),
    ("/venv/lib/uvicorn/__main__.py app:app", DEBUG, None),
    ("/venv/bin/gunicorn site.wsgi", DJANGO, None),
    ("app.py", {}, None),
    ("app.py run", {"FLASK_DEBUG": "1"}, None),
    ("-c", {}, None),
    ("", {}, None),
    # Flask.
    ("/venv/bin/flask run", CLI, None),
    ("/venv/lib/flask/__main__.py run", CLI, None),
    ("flask.exe run", CLI, None),
    ("flask --app x run --port 80", CLI, None),
    ("flask run --debug", DEBUG, FLASK_PARENT),
    ("flask --debug run", DEBUG, FLASK_PARENT),
    ("flask run --debug", {**DEBUG, "WERKZEUG_RUN_MAIN": "true"}, None),
    ("flask run", {**CLI, "FLASK_DEBUG": "TRUE"}, FLASK_PARENT),
    ("flask run", {**CLI, "FLASK_DEBUG": "False"}, None),
    ("flask --debug run --no-debug", {**CLI, "FLASK_DEBUG": "0"}, None),
    ("flask run --debug --no-reload", DEBUG, None),
    ("flask run --reload", CLI, FLASK_PARENT),
    ("flask run --reload --no-reload", CLI, None),
    ("flask run", {**CLI, "FLASK_RUN_RELOAD": "1"}, FLASK_PARENT),
    ("flask run", {**DEBUG, "FLASK_RUN_RELOAD": "0"}, None),
    ("flask shell", CLI, flask_command("shell")),
    ("/venv/lib/flask/__main__.py shell", {}, flask_command("shell")),
    ("flask --app run shell", CLI, flask_command("shell")),
    ("flask -A run -e run --debug routes", CLI, flask_command("routes")),
    ("flask --app=run db upgrade", CLI, flask_command("db")),
    ("flask jobs run", CLI, flask_command("jobs")),
    ("flask", CLI, flask_command("")),
    ("flask --app", CLI, flask_command("")),
    ("wiki run", CLI, None),
    ("wiki import", CLI, flask_command("import")),
    # Django.
    ("manage.py runserver", DJANGO, DJANGO_PARENT),
    ("manage.py runserver 0.0.0.0:80", DJANGO, DJANGO_PARENT),
    ("manage.py runserver", {**DJANGO, "RUN_MAIN": "true"}, None),
    ("manage.py runserver --noreload", DJANGO, None),
    ("manage.py runserver_plus", {**DJANGO, "WERKZEUG_RUN_MAIN": "true"}, None),
    ("manage.py runserver_plus", DJANGO, DJANGO_PARENT),
    ("/venv/bin/django-admin runserver", DJANGO, DJANGO_PARENT),
    ("/venv/lib/django/__main__.py runserver --noreload", DJANGO, None),
    ("/venv/lib/django/__main__.py migrate", DJANGO, django_command("migrate")),
    ("./manage.py migrate", {**DJANGO, "RUN_MAIN": "true"}, django_command("migrate")),
    ("manage.py loaddata runserver", DJANGO, django_command("loaddata")),
    ("manage.py", DJANGO, django_command("")),
    # firecron itself.
    ("/venv/bin/firecron run main:crons work", {}, firecron_command("run")),
    ("/venv/lib/firecron/__main__.py jobs main:crons", {}, firecron_command("jobs")),
    ("firecron work main:crons", {}, None),
    ("firecron --help work", DEBUG, None),
    ("manage.py firecron page main:crons", DJANGO, firecron_command("page")),
    ("manage.py firecron work main:crons", DJANGO, "`firecron work` starts those of its APP once Django is set up"),
    ("manage.py firecron", DJANGO, firecron_command("")),
    ("manage.py serve", {}, None),
]


@pytest.mark.parametrize(("command", "environment", "reason"), TABLE)
def test_which_processes_may_tick(command: str, environment: dict[str, str], reason: str | None) -> None:
    """A process that serves ticks; a reloader's parent and any other command say what they are instead."""
    assert reason_not_to_start(environment, command.split(" ")) == reason


def test_this_process_is_asked_if_nothing_else_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without arguments, the command line and the environment of the process count."""
    monkeypatch.delenv("FLASK_RUN_FROM_CLI", raising=False)
    monkeypatch.setattr(sys, "argv", ["flask", "shell"])
    assert reason_not_to_start() == flask_command("shell")
    monkeypatch.setattr(sys, "argv", ["app.py"])
    assert reason_not_to_start() is None
    assert reason_not_to_start({}, []) is None


@pytest.mark.parametrize(
    ("command", "environment", "reason"),
    [
        ("--app {app} run", {}, None),
        ("--app {app} run --debug", {}, FLASK_PARENT),
        ("--app {app} --debug run", {}, FLASK_PARENT),
        ("--app {app} run --debug", {"WERKZEUG_RUN_MAIN": "true"}, None),
        ("--app {app} --debug run --no-debug", {}, None),
        ("--app {app} run --debug --no-reload", {}, None),
        ("--app {app} run", {"FLASK_RUN_RELOAD": "true"}, FLASK_PARENT),
        ("--app {app} routes", {}, flask_command("routes")),
        ("--app {app} own run", {}, flask_command("own")),
    ],
)
def test_flask_is_as_it_is_thought_to_be(
    command: str, environment: dict[str, str], reason: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the real Flask loads the application, its reloader is just where it is said to be."""
    reloads: list[bool] = []
    reasons: list[str | None] = []
    # Set, so that they are put back; Flask sets them too.
    for name in ("FLASK_RUN_FROM_CLI", "FLASK_DEBUG", "FLASK_RUN_RELOAD", "WERKZEUG_RUN_MAIN"):
        monkeypatch.setenv(name, environment.get(name, ""))
        if name not in environment:
            del os.environ[name]
    monkeypatch.setattr(flask.cli, "run_simple", lambda *_, use_reloader, **__: reloads.append(use_reloader))
    monkeypatch.setattr(flask.Flask, "reasons", reasons, raising=False)
    app = tmp_path / "flask_app_to_be_loaded.py"
    app.write_text(
        "import flask\nfrom firecron.scheduler.startup import reason_not_to_start\napp = flask.Flask('app')\n"
        "app.cli.command('own')(lambda: None)\napp.reasons.append(reason_not_to_start())\n",
        "utf-8",
    )
    monkeypatch.setattr(sys, "path", [*sys.path])
    arguments = command.format(app=app).split(" ")
    monkeypatch.setattr(sys, "argv", ["flask", *arguments])
    with pytest.raises(SystemExit):
        flask.cli.cli.main(arguments)
    sys.modules.pop(app.stem)
    assert reasons == [reason]
    is_child = environment.get("WERKZEUG_RUN_MAIN") == "true"
    assert reloads == ([] if reason and reason != FLASK_PARENT else [reason == FLASK_PARENT or is_child])


MANAGE = """
import os, sys
from types import ModuleType
from django.apps import AppConfig
from django.core.management import execute_from_command_line
from django.core.management.commands import runserver
from django.utils import autoreload
from firecron.scheduler.startup import reason_not_to_start

class Config(AppConfig):
    name, label, path = "__main__", "main", os.getcwd()
    def ready(self):
        print("ready:", reason_not_to_start())

autoreload.run_with_reloader = lambda *_, **__: print("reloader")
runserver.run = lambda *_, **__: print("server")
runserver.Command.check = runserver.Command.check_migrations = lambda *_, **__: None
sys.modules["site_settings"] = ModuleType("site_settings")
vars(sys.modules["site_settings"]).update(
    SECRET_KEY="x", USE_TZ=True, DEBUG=True, INSTALLED_APPS=["__main__.Config"], ROOT_URLCONF="none"
)
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "site_settings")
execute_from_command_line(sys.argv)
"""


@pytest.mark.parametrize(
    ("arguments", "main", "reason", "what"),
    [
        ("runserver", "", DJANGO_PARENT, "reloader"),
        ("runserver", "true", None, "reloader"),
        ("runserver --noreload", "", None, "server"),
        ("diffsettings", "", django_command("diffsettings"), "SECRET_KEY"),
    ],
)
def test_django_is_as_it_is_thought_to_be(
    arguments: str, main: str, reason: str | None, what: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the real Django calls `ready`, it is the process that it is said to be."""
    monkeypatch.setenv("RUN_MAIN", main)
    monkeypatch.delenv("DJANGO_SETTINGS_MODULE", raising=False)
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(Path(firecron.__file__).parents[1]), os.environ["PYTHONPATH"]])
    )
    (tmp_path / "manage.py").write_text(MANAGE, "utf-8")
    finished = run("manage.py", *arguments.split())
    assert finished.returncode == 0, finished.stderr
    assert f"ready: {reason}" in finished.stdout
    assert what in finished.stdout
