"""Servers with several processes, reloaders among them: each tick runs once, and they stop in order."""

from __future__ import annotations

import os
import signal

import pytest
from tests.process.checker import Line
from tests.process.tick_processes import HERE, Process, Ticking, until
from tests.process.tick_servers import APPS, assert_clean_end, assert_connections_closed, page
from tests.process.tick_specs import ASYNC_WORK, SHORT, WORK

pytest_plugins = ["tests.process.tick_fixtures"]

GUNICORN = ("-m", "gunicorn", "--workers", "2", "--bind", "127.0.0.1:0", f"{APPS}.flask_app:app")
POST_FORK = str(HERE / "apps" / "gunicorn_post_fork.py")


@pytest.mark.parametrize(
    ("options", "instances"),
    [
        ((), 2),
        # The application is made, and starts, in the master as well.
        (("--preload", "--config", POST_FORK), 3),
        (("--preload",), 1),
    ],
    ids=["loaded by each worker", "preloaded", "preloaded, and post_fork forgotten"],
)
def test_i34_gunicorns_workers_share_ticks_and_stop_in_order(
    ticks: Ticking, options: tuple[str, ...], instances: int
) -> None:
    """Each tick runs once in one of the processes that tick, whichever these are; SIGTERM ends all in order."""
    server = ticks.start(*GUNICORN, *options, jobs=[SHORT, WORK])
    ticks.wait_for_instances(instances)
    serving = page(server)
    assert serving["pid"] != server.pid
    assert serving["state"] in ({"idle"} if instances == 1 else {"ticking", "running"})
    ticks.wait_for(4, "end", job="short")
    ticks.wait_for(1, "start", job="work")
    assert server.stop() == 0
    assert_clean_end(ticks)
    assert server.log.count("Registered distributed cron") == instances * 2
    forgotten = server.log.count("call start() there (gunicorn --preload: in post_fork)")
    assert forgotten == (2 if "--preload" in options else 0)
    assert {line["app"] for line in ticks.lines("start")} == {f"{APPS}.flask_app"}
    assert {(line["app"], line["runs"]) for line in ticks.lines("around")} == {(f"{APPS}.flask_app", 1)}


def test_djangos_jobs_leave_no_connection_open(ticks: Ticking) -> None:
    """Under gunicorn each run of a sync and of an async job begins without the connection that the last one opened, and
    so does what the program has around a run. A failed run's transaction is rolled back.
    """
    command = ("-m", "gunicorn", "--bind", "127.0.0.1:0", f"{APPS}.django_wsgi")
    server = ticks.start(*command, jobs=[SHORT], FIRECRON_WORKERS="2", SITE_WRITES="1")
    page(server)
    assert_connections_closed(ticks)
    ticks.wait_for(3, "around")
    assert server.stop() == 0
    assert {(line["was_open"], line["written"]) for line in ticks.lines("around")} == {(False, 0)}


def test_djangos_workers_elect_a_leader_among_them(ticks: Ticking) -> None:
    """One of gunicorn's workers leads at a time. A term begins without the connection of the one before it on its
    thread; when the leader is killed another worker leads, and SIGTERM ends the term in order.
    """
    command = ("-m", "gunicorn", "--workers", "2", "--bind", "127.0.0.1:0", f"{APPS}.django_wsgi")
    server = ticks.start(*command, jobs=[], SITE_LEADS="1")
    page(server)
    until(lambda: len({line["thread"] for line in terms(ticks)}) < len(terms(ticks)), "two terms on one thread")
    killed = terms(ticks)[-1]
    os.kill(killed["pid"], signal.SIGKILL)
    until(lambda: terms(ticks)[-1]["pid"] not in (killed["pid"], server.pid), "a term in another worker")
    # A worker that is told to end while it still starts dies like a killed one, and its node expires.
    ticks.wait_for(3, "ready")
    assert server.stop() == 0
    found = terms(ticks)
    assert [line["fence"] for line in found] == sorted({line["fence"] for line in found})
    assert not any(line["was_open"] for line in found)
    assert "releasedAt" in ticks.lock("keeps")
    outcomes = {entry["outcome"] for entry in ticks.history("keeps").values()}
    assert outcomes <= {"succeeded", "abandoned"}


def terms(ticks: Ticking) -> list[Line]:
    return ticks.lines("connection", job="keeps")


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


UVICORN = ("-m", "uvicorn", "--port", "0")


def test_i34_uvicorns_workers_share_the_ticks_and_stop_in_order(ticks: Ticking) -> None:
    """With two workers each tick runs once, in one of them; SIGTERM interrupts what runs before the application's
    resources close, and leaves neither locks nor instances.
    """
    server = ticks.start(
        *UVICORN,
        *("--workers", "2", f"{APPS}.fastapi_app:app"),
        jobs=[SHORT, WORK, ASYNC_WORK],
        FIRECRON_SHUTDOWN_GRACE="3",
    )
    opened = {line["pid"] for line in ticks.wait_for(2, "opened")}
    assert len(ticks.wait_for_instances(2)) == len(opened) == 2
    answer = page(server)
    assert answer["pid"] in opened
    assert answer["resource"] == "open"
    ticks.wait_for(4, "end", job="short")
    [in_flight] = ticks.wait_for(1, "start", job="async")
    assert server.stop() == 0
    assert_clean_end(ticks)
    ticks.assert_kept("async")
    lines = ticks.lines()
    assert {line["pid"] for line in lines if line["what"] == "start"} <= opened
    for pid in opened:
        own = [line["what"] for line in lines if line["pid"] == pid]
        assert (own[0], own[-1]) == ("opened", "closed")
    # A run that was cancelled is released after it has cleaned up.
    [end] = ticks.lines("end", run=in_flight["run"])
    assert end["how"] == "CancelledError"
    ticks.assert_released_after(end)
    assert ticks.history("async")[in_flight["slot"]]["outcome"] == "interrupted"


def test_i36_a_reload_stops_the_old_process_and_starts_the_new_one(ticks: Ticking) -> None:
    """Under `--reload` one process ticks, the supervisor never does; after a change it is another one."""
    watched = ticks.folder / "watched"
    watched.mkdir()
    source = watched / "served.py"
    source.write_text((HERE / "apps" / "fastapi_app.py").read_text("utf-8"), "utf-8")
    server = ticks.start(
        *UVICORN,
        *("--reload", "--reload-dir", str(watched), "--app-dir", str(watched), "served:app"),
        jobs=[SHORT, WORK],
    )
    [first] = ticks.wait_for(1, "opened")
    ticks.wait_for(2, "end", job="short")
    assert len(ticks.wait_for_instances(1)) == 1
    source.write_text(source.read_text("utf-8") + "\n# changed\n", "utf-8")
    second = ticks.wait_for(2, "opened")[1]
    assert [line["pid"] for line in ticks.lines("closed")] == [first["pid"]]
    ticks.wait_for(1, "end", job="short", pid=second["pid"])
    ticks.wait_for_instances(1)
    assert server.stop() in (0, -15)
    assert_clean_end(ticks)
    assert {line["pid"] for line in ticks.lines("start")} == {first["pid"], second["pid"]}
