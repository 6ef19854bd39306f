"""Development servers with a reloader: two processes load the application, and one of them ticks."""

from __future__ import annotations

import os
import signal

import pytest
from tests.process.tick_processes import HERE, Process, Ticking, until
from tests.process.tick_servers import APPS, assert_clean_end, assert_connections_closed, page
from tests.process.tick_specs import SHORT, WORK

pytest_plugins = ["tests.process.tick_fixtures"]

MANAGE = str(HERE / "apps" / "manage.py")


def assert_one_ticks(ticks: Ticking, server: Process, serving: int) -> None:
    """It is the process that serves. SIGINT ends it in order, and then its parent.

    Ctrl-C reaches the parent as well, which kills its child 0.25 s later, whatever that is at: `subprocess` does.
    """
    ticks.wait_for(3, "end", job="short")
    ticks.wait_for(1, "start", job="work")
    assert len(ticks.instances()) == 1
    assert {line["pid"] for line in ticks.lines("start")} == {serving} != {server.pid}
    os.kill(serving, signal.SIGINT)
    server.wait()
    until(lambda: ticks.instances() == set(), "no instance that is left")
    assert_clean_end(ticks)


@pytest.mark.parametrize("options", [("run", "--debug"), ("--debug", "run")], ids=" ".join)
def test_i36_flask_ticks_in_the_child_of_its_reloader(ticks: Ticking, options: tuple[str, ...]) -> None:
    """`flask run --debug` ticks once, where it serves."""
    server = ticks.start("-m", "flask", "--app", f"{APPS}.flask_app", *options, "--port", "0", jobs=[SHORT, WORK])
    assert_one_ticks(ticks, server, page(server)["pid"])
    assert {line["app"] for line in ticks.lines("start")} == {f"{APPS}.flask_app"}


@pytest.mark.parametrize("command", [(MANAGE,), ("-m", "django")], ids=["manage.py", "python -m django"])
def test_i36_django_ticks_in_the_child_of_its_reloader(ticks: Ticking, command: tuple[str, ...]) -> None:
    """`runserver` ticks once, where it serves, and its jobs leave no connection open."""
    settings = {"DJANGO_SETTINGS_MODULE": f"{APPS}.django_site"}
    server = ticks.start(*command, "runserver", "127.0.0.1:0", jobs=[SHORT, WORK], FIRECRON_WORKERS="3", **settings)
    serving = page(server)["pid"]
    ticks.wait_for_instances(1)
    assert_connections_closed(ticks)
    assert_one_ticks(ticks, server, serving)


def test_other_commands_of_django_tick_not_at_all(ticks: Ticking) -> None:
    """`manage.py check` loads the application, runs to its end without a database of firecron's, and is no instance."""
    nowhere = {"FIRECRON_DATABASE_URL": "", "FIREBASE_DATABASE_EMULATOR_HOST": "", "FIREBASE_CONFIG": ""}
    finished = ticks.start(MANAGE, "check", jobs=[SHORT], **nowhere)
    assert finished.wait() == 0, finished.log
    assert ticks.lines() == []
    assert ticks.rtdb.count() == 0
