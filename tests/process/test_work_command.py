"""`firecron work`: a process that ticks until a signal, as a worker pool's container runs it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.process.tick_processes import Process, Ticking, until
from tests.process.tick_specs import SHORT, WORK, Spec

pytest_plugins = ["tests.process.tick_fixtures"]

APP = "tests.process.apps.worker:crons"


def work(ticks: Ticking, *jobs: Spec, **environment: str) -> Process:
    return ticks.start("-m", "firecron", "work", APP, jobs=list(jobs), **environment)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
def test_it_ticks_until_a_signal_and_leaves_nothing_behind(ticks: Ticking, number: signal.Signals) -> None:
    """Ticks run until the signal; then runs are told to end, and locks and the sign of life are freed."""
    worker = work(ticks, SHORT, WORK)
    ticks.wait_for(1, "end", job="short")
    ticks.wait_for(1, "start", job="work")
    assert worker.stop(number) == 0, worker.log
    assert ticks.instances() == set()
    for job in ("short", "work"):
        assert "releasedAt" in ticks.lock(job)
        ticks.assert_kept(job)
    assert [entry["outcome"] for entry in ticks.history("work").values()] == ["interrupted"]


def test_a_second_signal_ends_it_at_once(ticks: Ticking) -> None:
    """A run that doesn't listen would have the whole grace; after a second signal nothing is waited for."""
    deaf: Spec = {**WORK, "obeys": False, "takes": 3600}
    worker = work(ticks, deaf, FIRECRON_SHUTDOWN_GRACE="3600")
    ticks.wait_for(1, "start", job="work")
    worker.send(signal.SIGTERM)
    until(lambda: not ticks.instances(), "no sign of life")
    worker.send(signal.SIGTERM)
    assert worker.wait() == -signal.SIGTERM
    assert ticks.lines("end") == []


def test_a_signal_during_the_import_ends_it_without_a_tick(ticks: Ticking, tmp_path: Path) -> None:
    """A signal that comes while the application is being imported isn't lost: nothing starts, and the command ends."""
    gate = tmp_path / "gate"
    worker = work(ticks, SHORT, IMPORT_GATE=str(gate))
    ticks.wait_for(1, "importing")
    worker.send(signal.SIGTERM)
    gate.touch()
    assert worker.wait() == 0
    assert "tick in this process" not in worker.log
    assert ticks.lines("start") == []
    assert ticks.rtdb.get("/") is None


def test_a_second_signal_ends_the_import(ticks: Ticking) -> None:
    """An application whose import hangs is ended by the second signal, as a run that hangs is."""
    worker = work(ticks, SHORT, IMPORT_GATE="/never")
    ticks.wait_for(1, "importing")
    worker.send(signal.SIGTERM)
    worker.send(signal.SIGINT)
    assert worker.wait() in (-signal.SIGTERM, -signal.SIGINT)


def test_where_the_guard_is_shut_it_waits(ticks: Ticking) -> None:
    """In staging the same deployment starts, says that nothing ticks and why, and ends at SIGTERM with exit code 0."""
    worker = work(ticks, SHORT, RUNTIME_INSTANCE="staging")
    until(lambda: "RUNTIME_INSTANCE is 'staging'" in worker.log, "the reason")
    assert worker.stop() == 0
    assert ticks.rtdb.get("/cron-locks") is None


def test_the_log_of_a_worker_pool_is_structured(ticks: Ticking) -> None:
    """An application without a log gets one: on Cloud Run JSON, with the pool's revision as the owner of the lock."""
    worker = work(ticks, SHORT, CLOUD_RUN_WORKER_POOL="ticks", CLOUD_RUN_REVISION="ticks-00001-abc")
    ticks.wait_for(1, "end", job="short")
    assert worker.stop() == 0
    lines = [json.loads(line) for line in worker.log.splitlines()]
    assert {"crons.started", "run.succeeded", "crons.stopped"} <= {line.get("event") for line in lines}
    assert ticks.lock("short")["instanceId"] == "ticks-00001-abc"


def test_a_log_of_the_applications_own_stays_alone(ticks: Ticking, tmp_path: Path) -> None:
    """If the application has configured logging, the command adds nothing to it."""
    Path(tmp_path, "mine.py").write_text(
        "import logging\nlogging.basicConfig(format='mine: %(message)s', level='INFO')\n"
        "from tests.process.apps.worker import crons\n"
    )
    worker = ticks.start("-m", "firecron", "work", "mine:crons", jobs=[SHORT])
    ticks.wait_for(1, "end", job="short")
    assert worker.stop() == 0
    assert all(line.startswith("mine: ") for line in worker.log.splitlines()), worker.log


def test_what_can_not_start_says_why(ticks: Ticking) -> None:
    """A module that isn't there is exit code 2 with one sentence, and so is a job that breaks the lock's promises."""
    worker = ticks.start("-m", "firecron", "work", "nothing_here:crons")
    assert worker.wait() == 2
    assert worker.log.startswith("firecron: there is no module 'nothing_here'")
    too_short: Spec = {**SHORT, "options": {"lock_ttl": 1}}
    worker = work(ticks, too_short, FIRECRON_MARGIN="1")
    assert worker.wait() == 2
    assert "lock_ttl" in worker.log.splitlines()[-1]
    assert "Traceback" not in worker.log


def _first_process() -> list[str]:
    """The command that starts another one as the first process of a container."""
    unshare = shutil.which("unshare")
    command = [unshare or "unshare", "--pid", "--fork", "--mount-proc"]
    if unshare is None or subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody start a process as the first of a namespace (unshare --pid)")
    return command


def first_worker(ticks: Ticking, *jobs: Spec, **environment: str) -> tuple[Process, int]:
    """A worker that is the first process of its namespace, and the number that it has out here.

    `unshare` passes no signal on, so the test sends them to this number.
    """
    script = f"exec {sys.executable} -m firecron work {APP}"
    command = [*_first_process(), "sh", "-c", script]
    program = f"import os; os.execvp({command[0]!r}, {command!r})"
    worker = ticks.start("-c", program, jobs=list(jobs), **environment)
    ticks.wait_for(1, "start", job=jobs[0]["name"])
    (child,) = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split()
    return worker, int(child)


def test_as_the_first_process_of_a_container_it_ends_in_order(ticks: Ticking) -> None:
    """Signals don't end the first process of a container by default; this one hears them, and stops."""
    worker, child = first_worker(ticks, SHORT)
    ticks.wait_for(1, "end", job="short")
    assert {line["pid"] for line in ticks.lines("end")} == {1}
    os.kill(child, signal.SIGTERM)
    assert worker.wait() == 0, worker.log
    assert ticks.instances() == set()
    ticks.assert_kept("short")


def test_as_the_first_process_a_second_signal_ends_it_at_once(ticks: Ticking) -> None:
    """Also where the default of a signal is nothing, a run that doesn't listen keeps nobody for the whole grace."""
    deaf: Spec = {**WORK, "obeys": False, "takes": 3600}
    worker, child = first_worker(ticks, deaf, FIRECRON_SHUTDOWN_GRACE="3600")
    os.kill(child, signal.SIGTERM)
    until(lambda: not ticks.instances(), "no sign of life")
    os.kill(child, signal.SIGTERM)
    assert worker.wait() == 128 + signal.SIGTERM
    assert ticks.lines("end") == []
