"""What jobs are called in: Flask's application context, and Django's connections."""

from __future__ import annotations

import asyncio
import json
import os
import traceback
from collections.abc import Callable
from pathlib import Path

import django
import flask
import pytest
from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.conf import settings
from tests.simulation.world import NAME
from tests.unit.runs.bodies import body_of, job_of, make_run
from tests.unit.test_app import new_crons

import firecron
from firecron import FireCron, Run, Stopping, distributed_cron
from rtdb_emulator_tests.helpers.processes import Run as RunPython

Function = Callable[[Run], object]
declare = distributed_cron(NAME, "* * * * *", retries=1, retry_backoff=0)


def flask_crons(function: Callable[..., object]) -> tuple[FireCron, flask.Flask]:
    """A FireCron with this job, as a Flask application has it."""
    crons, _ = new_crons(declare(function))
    app = flask.Flask("shop")
    crons.init_app(app)
    crons.stop()
    crons.engine.runner.open()
    return crons, app


def as_sync(function: Function) -> Callable[..., object]:
    def work(run: Run) -> None:
        function(run)

    return work


def as_async(function: Function) -> Callable[..., object]:
    async def work(run: Run) -> None:
        function(run)

    return work


def as_awaitable(function: Function) -> Callable[..., object]:
    """A sync function that gives something to await."""
    work = as_async(function)

    def hand_out(run: Run) -> object:
        return work(run)

    return hand_out


kinds = pytest.mark.parametrize("kind", [as_sync, as_async, as_awaitable])


@kinds
def test_a_job_has_the_context_of_its_flask_application(kind: Callable[[Function], Callable[..., object]]) -> None:
    """After `init_app`, each try of a job is called in an application context of its own; one that is added later,
    too.
    """
    seen: list[object] = []

    def work(run: Run) -> None:
        seen.append(flask.current_app.name)
        flask.g.tries = flask.g.get("tries", 0) + 1
        seen.append(flask.g.tries)
        if len(seen) < 4:
            raise ValueError("once more")

    crons, _ = flask_crons(kind(work))
    assert crons.registry.trigger(NAME).outcome == "succeeded"
    assert seen == ["shop", 1, "shop", 1]
    assert not flask.has_app_context()
    late = distributed_cron("late", "* * * * *")(kind(lambda run: seen.append(flask.current_app.name)))
    crons.registry.add(late)
    assert crons.registry.trigger("late").outcome == "succeeded"
    assert seen[4:] == ["shop"]


def test_a_rehearsal_has_the_context_as_well() -> None:
    """In a test of the jobs they are called in the application's context."""
    seen: list[str] = []
    crons, _ = flask_crons(lambda: seen.append(flask.current_app.name))
    with crons.testing() as test:
        test.run(NAME)
        test.advance(60)
    assert seen == ["shop", "shop"]


def test_without_an_application_there_is_no_context() -> None:
    """A FireCron that no application was given calls its jobs as they are."""
    seen: list[bool] = []
    crons, _ = new_crons(declare(lambda: seen.append(flask.has_app_context())))
    crons.registry.trigger(NAME)
    assert seen == [False]


@kinds
def test_a_teardown_learns_how_the_job_ended(kind: Callable[[Function], Callable[..., object]]) -> None:
    """What the application does as a context ends is told the exception that the job raised, if it raised one."""
    told: list[object] = []
    error = Stopping()

    def work(run: Run) -> None:
        if told:
            raise error

    crons, app = flask_crons(kind(work))
    app.teardown_appcontext(told.append)
    crons.registry.trigger(NAME)
    crons.registry.trigger(NAME)
    assert told == [None, error]


@kinds
def test_a_teardown_that_raises_does_not_hide_what_the_job_raised(
    kind: Callable[[Function], Callable[..., object]],
) -> None:
    """A job that was stopped is interrupted also where the teardown raises, which is noted; a job that returned has
    failed then.
    """
    stops = [True]
    error = Stopping()

    def work(run: Run) -> None:
        if stops:
            raise error

    crons, app = flask_crons(kind(work))

    @app.teardown_appcontext
    def fail(_: object) -> None:
        raise ValueError("no more database")

    assert crons.registry.trigger(NAME).outcome == "interrupted"
    assert error.__notes__ == ["leaving the job's surroundings raised, too: ValueError: no more database"]
    stops.clear()
    result = crons.registry.trigger(NAME)
    assert (result.outcome, str(result.error)) == ("failed", "no more database")


# A connection that is closed is noted with what was going on.
DJANGO = """
import asyncio, json, sys
from asgiref.sync import sync_to_async
from firecron import FireCron, Run, distributed_cron
from firecron.settings import load
from firecron.testing import FakeTiming, MemoryStore

said = []

def query():
    from django.db import connection
    said.append("open" if connection.connection else "closed")
    connection.ensure_connection()

@distributed_cron("sync", "* * * * *")
def sync():
    query()
    said.append("runs")

@distributed_cron("async", "* * * * *")
async def not_sync():
    await sync_to_async(query)()
    said.append("runs")

plain = distributed_cron("plain", "* * * * *")(lambda: None)
timing = FakeTiming()
crons = FireCron(plain, sync, not_sync, store=MemoryStore(timing.now), timing=timing, has_threads=False)

def trigger(name):
    result = crons.registry.trigger(name)
    return [result.outcome, *map(str, filter(None, [result.error]))]

assert trigger("plain") == ["succeeded"]
assert "django" not in sys.modules

import django.db
assert trigger("plain") == ["succeeded"]  # without settings there is nothing to ask

from django.conf import settings
settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "site.sqlite"}})
from django.db.backends.base.base import BaseDatabaseWrapper
close = BaseDatabaseWrapper.close

def noted(self):
    said.append("close")
    close(self)

BaseDatabaseWrapper.close = noted
said.clear()
for name in ("sync", "async"):
    query() if name == "sync" else asyncio.run(sync_to_async(query)())
    trigger(name)
    trigger(name)
print(json.dumps(said))
"""


def test_djangos_old_connections_are_closed_around_a_run(
    run: RunPython, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where Django is set up, an old connection is closed before the job is called and after it, where sync and async
    jobs have theirs; elsewhere nothing of Django is imported, or asked.
    """
    package = str(Path(firecron.__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([package, os.environ["PYTHONPATH"]]))
    monkeypatch.delenv("DJANGO_SETTINGS_MODULE", raising=False)
    finished = run("-c", DJANGO)
    assert finished.returncode == 0, finished.stderr
    once = ["closed", "close", "closed", "runs", "close"]
    assert json.loads(finished.stdout) == 2 * [*once, *once[2:]]


def test_a_sync_view_under_asgi_may_run_an_async_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """An async job that a sync view runs by hand, on the one thread of its request, waits for no other work there."""

    async def work() -> None:
        await asyncio.sleep(0)

    # No project of Django's is set up here.
    monkeypatch.setattr("firecron.runs.body.has_django", lambda: True)
    monkeypatch.setattr("firecron.runs.body._close_old", lambda: None)  # there are none
    crons, _ = new_crons(declare(work))

    async def request() -> object:
        async with ThreadSensitiveContext():
            return await sync_to_async(lambda: crons.registry.trigger(NAME).outcome)()

    assert asyncio.run(request()) == "succeeded"


def test_with_django_a_traceback_begins_with_the_jobs_own_code() -> None:
    """The end of the project's connections, in a thread of Django's, leaves none of its frames in the error."""

    async def work() -> None:
        raise ValueError("its own")

    settings.configure(DATABASES={})
    django.setup()
    error = body_of(job_of(work), make_run(), None).call()
    assert error is not None
    assert [frame.name for frame in traceback.extract_tb(error.__traceback__)] == ["work"]
