"""Flask and Django under gunicorn: workers that load the application, and workers that are forked with it."""

from __future__ import annotations

import pytest
from tests.process.tick_processes import HERE, Ticking
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
    assert serving["state"] == ("idle" if instances == 1 else "ticking")
    ticks.wait_for(4, "end", job="short")
    ticks.wait_for(1, "start", job="work")
    assert server.stop() == 0
    assert_clean_end(ticks)
    assert server.log.count("Registered distributed cron") == instances * 2
    forgotten = server.log.count("call start() there (gunicorn --preload: in post_fork)")
    assert forgotten == (2 if "--preload" in options else 0)
    assert {line["app"] for line in ticks.lines("start")} == {f"{APPS}.flask_app"}


def test_djangos_jobs_leave_no_connection_open(ticks: Ticking) -> None:
    """Under gunicorn each run of a sync and of an async job begins without the connection that the last one opened."""
    command = ("-m", "gunicorn", "--bind", "127.0.0.1:0", f"{APPS}.django_wsgi")
    server = ticks.start(*command, jobs=[SHORT], FIRECRON_WORKERS="2")
    page(server)
    assert_connections_closed(ticks)
    assert server.stop() == 0
