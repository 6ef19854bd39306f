"""What becomes of a request whose work fails in some way, without any server."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from pathlib import Path

import pytest
from tests.simulation.world import START

from firecron import ConfigurationError, FireCron, distributed_cron
from firecron.base.events import Event
from firecron.base.flag import begin_child
from firecron.jobs.registry import Result
from firecron.settings import load
from firecron.testing import FakeTiming, MemoryStore
from firecron.testing.rehearsal import Inline
from firecron.triggers.access import CloudRunIam, TriggerAccess
from firecron.triggers.handler import Handler
from firecron.web import AsgiApp, SiteReply, SiteRequest, Work


class Bench:
    """A handler of one job, over a database in memory."""

    def __init__(self) -> None:
        timing = FakeTiming(wall=START)
        job = distributed_cron("digest", "0 9 * * *")(lambda: None)
        self.store = MemoryStore(timing.now)
        self.crons = FireCron(job, store=self.store, timing=timing, settings=load(), enabled=False, has_threads=False)
        self.heard: list[Event] = []
        everybody = CloudRunIam(self.crons.events, {})
        access = TriggerAccess(everybody, everybody)
        self.handler = Handler(self.crons.registry, self.crons.history, self.crons.board, access, list)
        self.crons.events.subscribe(self.heard.append)

    def work(self) -> Callable[[], SiteReply]:
        """What is left to do of a request for the job."""
        received = self.handler.receive(SiteRequest("POST", "/digest"))
        assert isinstance(received, Work)
        return lambda: received.do(None)

    def fail_with(self, error: BaseException) -> None:
        """Let the job's run raise this."""

        def fail(*arguments: object, **options: object) -> Result:
            raise error

        self.crons.registry.trigger = fail  # type: ignore[method-assign]  # as nothing else here would fail


def fields(found: SiteReply) -> dict[str, object]:
    body: dict[str, object] = json.loads(found.body)
    return body


def said(found: SiteReply) -> tuple[int, object, object]:
    return found.status, fields(found)["result"], fields(found)["job"]


def test_a_job_that_a_trigger_has_run_is_in_the_catalogue() -> None:
    """Nothing ticks here, so its entry says so; a run by hand declares nothing."""
    bench = Bench()
    bench.crons.engine.publisher.crew = Inline()
    bench.crons.registry.trigger("digest")
    assert bench.store.get("cron-jobs") is None
    assert bench.work()().status == 200
    entry = bench.store.get("cron-jobs/digest")
    assert isinstance(entry, dict)
    assert entry["ticks"] is False


def test_a_job_that_is_removed_meanwhile_is_unknown() -> None:
    """A request that has found its job, and has to wait for a thread, may find none when it gets one."""
    bench = Bench()
    work = bench.work()
    bench.crons.registry.remove("digest")
    found = work()
    assert (found.status, fields(found)["result"]) == (404, "unknown_job")
    assert "digest" in str(fields(found)["message"])


def test_an_instance_that_stops_meanwhile_says_so() -> None:
    """Whoever asks is told to try again, and for which job."""
    bench = Bench()
    work = bench.work()
    bench.crons.stop()
    assert said(work()) == (503, "stopping", "digest")


def test_a_defect_is_told_in_the_log() -> None:
    """The caller learns that it failed and for which job, and the log what went wrong."""
    bench = Bench()
    bench.fail_with(ZeroDivisionError("a defect"))
    found = bench.work()()
    assert said(found) == (500, "error", "digest")
    assert "a defect" not in str(fields(found)["message"])
    [event] = [event for event in bench.heard if event.slug == "trigger.failed"]
    assert (event.name, event.level) == ("digest", logging.ERROR)
    assert "a defect" in event.message


def test_an_error_of_firecrons_is_for_the_caller() -> None:
    """What says what to do is told to whoever asked."""
    bench = Bench()
    bench.fail_with(ConfigurationError("mend it"))
    assert fields(bench.work()())["message"] == "mend it"


def test_ctrl_c_ends_the_program_and_a_jobs_own_does_not() -> None:
    """On the main thread it is somebody's Ctrl-C; elsewhere the job has raised it, and has failed."""
    bench = Bench()
    bench.fail_with(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        bench.work()()
    found: list[SiteReply] = []
    thread = threading.Thread(target=lambda: found.append(bench.work()()))
    thread.start()
    thread.join(20)
    assert [said(one) for one in found] == [(500, "failed", "digest")]


def test_a_forked_child_serves_on_threads_of_its_own() -> None:
    """The parent's threads are not there in a child, so that a request there begins others."""
    bench = Bench()
    app = AsgiApp(bench.handler, 2, bench.crons)
    workers = list(vars(app)["_threads"].values())
    done = threading.Semaphore(0)
    for one in workers:
        one.submit(done.release)
        assert done.acquire(timeout=20)
    assert all(one.threads for one in workers)
    begin_child()
    assert not any(one.threads for one in workers)


@pytest.mark.parametrize(
    ("text", "error"), [(None, ConfigurationError), ("import no_such_module", ModuleNotFoundError)]
)
def test_without_flask_a_blueprint_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str | None, error: type[Exception]
) -> None:
    """Where Flask is missing the remedy is named, where Flask itself misses something, that is."""
    if text is None:
        monkeypatch.setitem(sys.modules, "flask", None)
    else:
        (tmp_path / "flask.py").write_text(text)
        monkeypatch.delitem(sys.modules, "flask", raising=False)
        monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(error, match=r"firecron\[flask\]" if text is None else "no_such_module"):
        Bench().crons.trigger_blueprint(trust_cloud_run_iam=True)


class Missing(MetaPathFinder):
    """A finder to which this module is not installed."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == self._name:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


@pytest.mark.parametrize(("missing", "error"), [("django", ConfigurationError), ("django.http", ModuleNotFoundError)])
def test_without_django_urls_say_what_to_install(
    monkeypatch: pytest.MonkeyPatch, missing: str, error: type[Exception]
) -> None:
    """Where Django is missing the remedy is named, where a part of Django is missing, that is."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "django"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Missing(missing), *sys.meta_path])
    with pytest.raises(error, match="pip install django" if missing == "django" else missing):
        Bench().crons.trigger_urls(trust_cloud_run_iam=True)


@pytest.mark.parametrize("make", ["trigger_app", "trigger_blueprint", "trigger_urls"])
def test_an_option_that_is_misspelt_is_an_error(make: str) -> None:
    """Left aside, it would leave a trigger that serves other callers than its program says."""
    with pytest.raises(TypeError, match="health_mail"):
        getattr(Bench().crons, make)(audience="https://api.example", email="a@b.example", health_mail="c@d.example")
