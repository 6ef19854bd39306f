"""Flask and Django under gunicorn: workers that load the application, and workers that are forked with it."""

from __future__ import annotations

import os
import signal

import pytest
from tests.process.checker import Line
from tests.process.tick_processes import HERE, Ticking, until
from tests.process.tick_servers import APPS, assert_clean_end, assert_connections_closed, page
from tests.process.tick_specs import SHORT, WORK

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
