"""`firecron` in a Django project, by itself and as `manage.py firecron`: the jobs need the project's models."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.processes import Finished, Run

SETTINGS = """
SECRET_KEY = "of a test"
USE_TZ = True
INSTALLED_APPS = ["shop.apps.Shop", "firecron"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.sqlite"}}
"""
APPS = """
from django.apps import AppConfig

class Shop(AppConfig):
    name = "shop"

    def ready(self):
        from shop.jobs import crons

        crons.start()
        print("ready:", "ticking" if crons.engine.is_ticking else "not ticking")
"""
MODELS = """
from django.db import models

class Order(models.Model):
    state = models.CharField(max_length=10)
"""
JOBS = """
import os, signal
from django.db import connection
from firecron import FireCron, distributed_cron
from shop.models import Order

def make_table():
    with connection.schema_editor() as editor:
        editor.create_model(Order)

@distributed_cron("close-orders", "0 0 1 1 *", lock_ttl=60)
def close_orders():
    print("open orders:", Order.objects.filter(state="open").count())

@distributed_cron("every-second", "* * * * * *", lock_ttl=60)
def every_second():
    print("ticked, open orders:", Order.objects.count())
    os.kill(os.getpid(), signal.SIGTERM)

crons = FireCron(close_orders, every_second)
"""
# Each command as in a process of its own, in one process.
COMMANDS = """
import os, sys
from firecron.cli import main
from firecron.cli.commands import page

page._serve = lambda *_: None
LINES = (
    "next misspelt:crons x",
    "jobs shop.jobs:crons",
    "next shop.jobs:crons close-orders",
    "doctor shop.jobs:crons",
    "page shop.jobs:crons --port 0",
    "run shop.jobs:crons close-orders",
)
for line in LINES:
    os.environ["DJANGO_SETTINGS_MODULE"] = "shop.setings" if "misspelt" in line else "shop.settings"
    if line.startswith("run"):
        from shop.jobs import make_table
        make_table()
    sys.argv = ["firecron", *line.split()]
    try:
        main()
    except SystemExit as ended:
        print("ended:", line.split()[0], ended.code or 0)
"""
MANAGE = """
import os, sys
from django.core.management import execute_from_command_line

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
if sys.argv[1:3] == ["firecron", "work"]:
    import django
    django.setup()
    from shop.jobs import make_table
    make_table()
execute_from_command_line(sys.argv)
"""


@pytest.fixture
def project(rtdb: Rtdb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The project in the current folder of the children; its jobs tick where they may."""
    shop = tmp_path / "shop"
    shop.mkdir()
    for name, text in (("__init__", ""), ("settings", SETTINGS), ("apps", APPS), ("models", MODELS), ("jobs", JOBS)):
        (shop / f"{name}.py").write_text(text, "utf-8")
    (tmp_path / "manage.py").write_text(MANAGE, "utf-8")
    (tmp_path / "commands.py").write_text(COMMANDS, "utf-8")
    monkeypatch.setenv("RUNTIME_INSTANCE", "production")
    monkeypatch.delenv("DJANGO_SETTINGS_MODULE", raising=False)


def said(finished: Finished) -> list[str]:
    """What the project itself and the end of each command have printed."""
    lines = (finished.stdout + finished.stderr).splitlines()
    return sorted(line for line in lines if line.startswith(("ready", "open", "ended", "ticked")))


def nodes(rtdb: Rtdb, path: str) -> list[str]:
    found = rtdb.get(path) or {}
    assert isinstance(found, dict)
    return list(found)


@pytest.mark.usefixtures("project")
def test_commands_set_the_project_up_and_let_nothing_tick(rtdb: Rtdb, run: Run) -> None:
    """Where DJANGO_SETTINGS_MODULE is set, a command that loads APP sets the project up, or names the variable."""
    finished = run("commands.py")
    ended = [f"ended: {name}" for name in ("doctor 0", "jobs 0", "next 0", "next 1", "page 0", "run 0")]
    assert said(finished) == [*ended, "open orders: 0", "ready: not ticking"], finished.stderr
    first = finished.stderr.splitlines()[0]
    assert first.startswith("firecron: the Django project of DJANGO_SETTINGS_MODULE=shop.setings can't be imported: ")
    assert "No module named 'shop.setings'" in first
    assert "don't tick in this process: this is `firecron jobs`, not a server" in finished.stderr
    assert nodes(rtdb, "/cron-locks") == ["close-orders"]
    assert nodes(rtdb, "/cron-instances") == ["clock"]


@pytest.mark.usefixtures("project")
def test_manage_py_has_the_command(rtdb: Rtdb, run: Run) -> None:
    """`manage.py firecron work` ticks, with the project's models, until a signal, and leaves nothing behind."""
    finished = run("manage.py", "firecron", "work", "shop.jobs:crons")
    assert finished.returncode == 0, finished.stderr
    assert said(finished) == ["ready: not ticking", "ticked, open orders: 0"], finished.stderr
    assert rtdb.get("/cron-locks/every-second/outcome") == "succeeded"
    assert nodes(rtdb, "/cron-instances") in ([], ["clock"])
