"""A start that was forgotten: who is told of it, when, and who is not."""

from __future__ import annotations

import logging
import multiprocessing
import sys
import threading
from typing import Any

import flask
import pytest
from tests.page.paging import asgi_call, wsgi_call
from tests.simulation.world import NAME, START
from tests.unit.threads import PATIENCE, ended, named

from firecron import FireCron, distributed_cron
from firecron.base.clocks import Deadline
from firecron.base.events import Event
from firecron.scheduler import start_watch
from firecron.scheduler.start_watch import Watchers, is_part_of_another
from firecron.scheduler.startup import in_command
from firecron.settings import load
from firecron.testing import FakeTiming, MemoryStore

THREAD = "firecron-start-watch"


@distributed_cron(NAME, "* * * * *")
def job() -> None: ...


class Forgotten:
    """A FireCron that nobody has started, and what it says of that."""

    def __init__(self, *jobs: object, enabled: bool = True) -> None:
        timing = FakeTiming(wall=START)
        store = MemoryStore(timing.now)
        self.crons = FireCron(*jobs, store=store, timing=timing, settings=load(), enabled=enabled, has_threads=False)
        self.timing = timing
        self.said: list[str] = []
        self.is_told = threading.Event()
        self.crons.events.subscribe(self.hear)

    @property
    def watch(self) -> start_watch.StartWatch:
        return self.crons.start_watch

    def hear(self, event: Event) -> None:
        if event.slug == "crons.unstarted":
            assert (event.level, event.fields) == (logging.WARNING, {"jobs": 1})
            self.said.append(event.message.partition(",")[0])
            self.is_told.set()


def doors(crons: FireCron) -> dict[str, Any]:
    """Two requests to each door."""
    app = flask.Flask("shop")
    app.register_blueprint(crons.trigger_blueprint(trust_cloud_run_iam=True), url_prefix="/cron")
    app.register_blueprint(crons.status_blueprint(open_to_all="read"), url_prefix="/crons")
    triggers, page = crons.trigger_app(trust_cloud_run_iam=True), crons.status_app(open_to_all="read")
    return {
        "its triggers": lambda: [asgi_call(triggers, "GET", "/") for _ in range(2)],
        "its page": lambda: [asgi_call(page, "GET", "/page.css") for _ in range(2)],
        "its triggers, by Flask": lambda: [wsgi_call(app, "GET", "/cron/") for _ in range(2)],
        "its page, by Flask": lambda: [wsgi_call(app, "GET", "/crons/page.css") for _ in range(2)],
    }


@pytest.mark.parametrize("door", ["its triggers", "its page", "its triggers, by Flask", "its page, by Flask"])
def test_the_first_request_to_a_door_tells(door: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page and the triggers work without a start, so nothing else would tell; one that has started says nothing."""
    monkeypatch.setenv("K_SERVICE", "")
    forgotten = Forgotten(job)
    doors(forgotten.crons)[door]()
    assert forgotten.said == [f"A FireCron serves {door.partition(',')[0]}"]
    forgotten.watch.is_late()
    forgotten.watch.has_ended()
    assert len(forgotten.said) == 1, "it is told once"
    started = Forgotten(job)
    with started.crons:
        doors(started.crons)[door]()
    assert started.said == []


def test_who_need_not_start_is_not_told() -> None:
    """Where the guard is shut, without jobs, in a command, after a stop, in a rehearsal, and in a forked child."""
    quiet = [Forgotten(job, enabled=False), Forgotten()]
    for forgotten in quiet:
        forgotten.watch.asked("its page")
    commanded, stopped, rehearsed, forked = others = [Forgotten(job) for _ in range(4)]
    with in_command("run"):
        commanded.watch.asked("its page")
    stopped.crons.stop()
    rehearsed.crons.testing()
    forked.crons.after_fork()
    for forgotten in others:
        forgotten.watch.asked("its page")
        forgotten.watch.is_late()
        assert forgotten.said == []
    assert [forgotten.said for forgotten in quiet] == [[], []]


def test_who_uses_the_database_otherwise_is_not_told() -> None:
    """A program that takes locks or runs jobs by hand starts nothing; a door is told of nevertheless."""
    using, running, serving = Forgotten(job), Forgotten(job), Forgotten(job)
    with using.crons.locks.hold("lock", 30):
        pass
    running.crons.registry.trigger(NAME)
    for forgotten in (using, running):
        forgotten.watch.is_late()
        assert forgotten.said == []
    serving.crons.locks.clock.now(Deadline.after(serving.timing, 1))
    serving.watch.asked("its page")
    assert serving.said == ["A FireCron serves its page"]


def test_a_minute_later_it_is_told() -> None:
    """The thread tells of each that is overdue, and ends; one that was started meanwhile is not told of."""
    late, started = Forgotten(job), Forgotten(job)
    watchers = Watchers(patience=0)
    started.watch.settle()
    for forgotten in (started, late):
        watchers.add(forgotten.watch)
    assert late.is_told.wait(PATIENCE)
    assert late.said == ["A FireCron was not started within 60 s"]
    assert all(map(ended, named(THREAD)))
    assert started.said == []


def test_a_program_is_watched_until_it_has_seen_to_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the moment that it makes a FireCron whose guard is open; a test's store is no program's."""
    monkeypatch.setattr(start_watch, "is_a_test_run", lambda environment: False)
    monkeypatch.setattr(sys, "argv", ["script.py"])
    FireCron(job, settings=load(), enabled=False)
    FireCron(job, store=MemoryStore(lambda: START), settings=load(), enabled=True)
    assert not named(THREAD)
    crons = FireCron(job, settings=load(), enabled=True)
    (thread,) = named(THREAD)
    crons.testing()
    assert ended(thread)


def test_a_thread_waits_no_longer_than_there_is_something_to_wait_for() -> None:
    """It ends when the last one is started, and before a fork, whose parent and child are not told."""
    watchers, forgotten = Watchers(), Forgotten(job)
    for is_fork in (False, True):
        watchers.add(forgotten.watch)
        (thread,) = named(THREAD)
        assert thread.daemon
        if is_fork:
            watchers.before_fork()
        else:
            watchers.discard(forgotten.watch)
        assert ended(thread)
    watchers.end()
    assert forgotten.said == []


@pytest.mark.parametrize(
    ("maker", "program", "has_failed", "is_told"),
    [
        ("__main__", "script.py", False, True),
        ("shop.jobs", "script.py", False, False),
        ("shop.jobs", "/venv/bin/uvicorn", False, True),
        ("shop.jobs", "/venv/bin/fastapi", False, True),
        ("__main__", "script.py", True, False),
    ],
)
def test_at_the_end_of_the_process_it_is_told(
    maker: str, program: str, has_failed: bool, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a server, and of the program that made it; a script that imports the jobs of another program has no start."""
    monkeypatch.setattr(sys, "argv", [program])
    monkeypatch.setattr(sys, "last_value", ValueError(), raising=False)
    if not has_failed:
        monkeypatch.delattr(sys, "last_value")
    forgotten = Forgotten(job)
    watchers = Watchers()
    watchers.add(start_watch.StartWatch(forgotten.crons, maker))
    watchers.end()
    watchers.before_fork()
    assert forgotten.said == (["A FireCron was never started"] if is_told else [])


def test_processes_that_are_part_of_another_watch_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test run, a prompt, and a child process of a program; a child process of a server is a worker."""
    monkeypatch.setattr(sys, "argv", ["script.py"])
    assert not is_part_of_another({})
    assert is_part_of_another({"PYTEST_VERSION": "9"})
    with monkeypatch.context() as patch:
        patch.setattr(sys, "argv", ["/venv/lib/pytest/__main__.py"])
        assert is_part_of_another({})
    with monkeypatch.context() as patch:
        patch.setattr(sys, "ps1", ">>>", raising=False)
        assert is_part_of_another({})
    monkeypatch.setattr(multiprocessing.process, "parent_process", object)
    assert is_part_of_another({})
    monkeypatch.setattr(sys, "argv", ["/venv/bin/uvicorn"])
    assert not is_part_of_another({})
