"""What becomes of a request whose work fails in some way, without any server."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.simulation.world import START

from firecron import ConfigurationError, FireCron, distributed_cron
from firecron.base.events import Event
from firecron.jobs.result import Result
from firecron.settings import load
from firecron.testing import FakeTiming, MemoryStore
from firecron.testing.rehearsal import Inline
from firecron.triggers.access import Access, CloudRunIam
from firecron.triggers.asgi import TriggerApp
from firecron.triggers.handler import Call, Handler
from firecron.triggers.responses import Answer


class Bench:
    """A handler of one job, over a database in memory."""

    def __init__(self) -> None:
        timing = FakeTiming(wall=START)
        job = distributed_cron("digest", "0 9 * * *")(lambda: None)
        self.store = MemoryStore(timing.now)
        self.crons = FireCron(job, store=self.store, timing=timing, settings=load(), enabled=False, has_threads=False)
        self.heard: list[Event] = []
        everybody = CloudRunIam(self.crons.events, {})
        access = Access(everybody, everybody)
        self.handler = Handler(self.crons.registry, self.crons.locks, self.crons.history, self.crons.health, access)
        self.crons.events.subscribe(self.heard.append)

    def work(self) -> Callable[[], Answer]:
        """What is left to do of a request for the job."""
        received = self.handler.receive(Call("POST", "/digest", None, None))
        assert not isinstance(received, Answer)
        return received

    def fail_with(self, error: BaseException) -> None:
        """Let the job's run raise this."""

        def fail(*arguments: object, **options: object) -> Result:
            raise error

        self.crons.registry.trigger = fail  # type: ignore[method-assign]  # as nothing else here would fail


def said(found: Answer) -> tuple[int, object, object]:
    return found.status, found.body["result"], found.body["job"]


def test_a_job_that_a_trigger_has_run_is_in_the_catalogue() -> None:
    """Nothing ticks here, so its entry says so; a run by hand declares nothing."""
    bench = Bench()
    bench.crons.engine.declaring.crew = Inline()
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
    assert (found.status, found.body["result"]) == (404, "unknown_job")
    assert "digest" in str(found.body["message"])


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
    assert "a defect" not in str(found.body["message"])
    [event] = [event for event in bench.heard if event.slug == "trigger.failed"]
    assert (event.name, event.level) == ("digest", logging.ERROR)
    assert "a defect" in event.message


def test_an_error_of_firecrons_is_for_the_caller() -> None:
    """What says what to do is told to whoever asked."""
    bench = Bench()
    bench.fail_with(ConfigurationError("mend it"))
    assert bench.work()().body["message"] == "mend it"


def test_ctrl_c_ends_the_program_and_a_jobs_own_does_not() -> None:
    """On the main thread it is somebody's Ctrl-C; elsewhere the job has raised it, and has failed."""
    bench = Bench()
    bench.fail_with(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        bench.work()()
    found: list[Answer] = []
    thread = threading.Thread(target=lambda: found.append(bench.work()()))
    thread.start()
    thread.join(20)
    assert [said(one) for one in found] == [(500, "failed", "digest")]


def test_a_forked_child_serves_on_threads_of_its_own() -> None:
    """The parent's threads are not there in a child, so that a request there begins others."""
    bench = Bench()
    app = TriggerApp(bench.handler, bench.crons, 2)
    workers = [vars(app)["_receiving"], vars(app)["_running"]]
    done = threading.Semaphore(0)
    for one in workers:
        one.submit(done.release)
        assert done.acquire(timeout=20)
    assert all(one.threads for one in workers)
    app.after_fork()
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
