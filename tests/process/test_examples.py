"""The examples run: each one's own command, to its end, and what the database holds then."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rtdb_emulator.pytest_plugin import Rtdb

EXAMPLES = Path(__file__).parents[2] / "examples"

# Seconds. Nothing here takes a fifth of it.
BOUND = 40.0


def play(folder: str, *command: str, code: int = 0, **environment: str) -> str:
    """This interpreter with these arguments, in the folder of an example; returns all that it said."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "COV_"))}
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=EXAMPLES / folder,
        env={**inherited, "PYTHONDONTWRITEBYTECODE": "1", **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=BOUND)
    finally:
        # Whatever it has started is of its group.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert process.returncode == code, said
    return said


def found(rtdb: Rtdb, path: str) -> Mapping[str, Any]:
    node = rtdb.get(path)
    return node if isinstance(node, dict) else {}


def assert_ran(rtdb: Rtdb, job: str, said: str) -> None:
    """At least two ticks of the job ran, none of them twice, and the database knows of each."""
    slots = re.findall(rf"{job}:(\S+)", said)
    assert len(slots) == len(set(slots)) >= 2
    history = found(rtdb, f"/cron-runs/{job}")
    assert {history[slot]["outcome"] for slot in slots} == {"succeeded"}


def test_fastapi_runs_each_tick_on_one_of_three_instances(rtdb: Rtdb) -> None:
    """Three instances are up, no tick runs on two of them, and all end in order."""
    said = play("fastapi", "local.py", "--ticks", "2")
    assert len(set(re.findall(r"an instance is up: .* is (\w+)", said))) == 3
    assert_ran(rtdb, "refresh-prices", said)
    # Whether anybody had to ask for the time, before a heartbeat told it, is chance.
    assert set(found(rtdb, "/cron-instances")) <= {"clock"}


def test_flask_ticks_in_gunicorns_workers_only(rtdb: Rtdb, tmp_path: Path) -> None:
    """The jobs have stopped in gunicorn's parent before it forks, and each tick runs in one of its two workers."""
    # gunicorn has a socket of its own in the home.
    said = play("flask", "local.py", "--ticks", "2", LOG_LEVEL="INFO", HOME=str(tmp_path))
    assert "started before a fork" not in said
    before_the_fork, *_ = said.partition("Booting worker")
    assert "Distributed crons stopped" in before_the_fork
    workers = set(re.findall(r"Booting worker with pid: (\d+)", said))
    assert len(workers) == 2
    assert set(re.findall(r"process (\d+) expires", said)) <= workers
    assert_ran(rtdb, "expire-sessions", "\n".join(re.findall(r"process .*", said)))


def test_cloud_run_job_never_overlaps_and_fences_a_late_write(rtdb: Rtdb) -> None:
    """An execution that comes while one is running does nothing, and one that has lost its lock can't overwrite a later
    one's work.
    """
    said = play("cloud-run-job", "overlap.py")
    first, refused, again, third, last, late, stock = said.splitlines()
    (fence,) = re.findall(r"^import-a: imported apples under fence (\d+)$", first)
    assert again == f"import-a: imported pears under fence {fence}"
    assert re.match(r"import-b: nothing done: .* held by another instance, skipping \(import-a/", refused)
    assert re.match(r"import-c: imported apples", third)
    assert f"refused, because apples was written under a fence higher than {fence}" in late
    assert stock == "the stock: {'apples': 11, 'pears': 6}"
    lock = found(rtdb, "/cron-locks/nightly-import")
    assert lock["instanceId"] == "import-c"
    assert lock["releasedAt"] >= lock["acquiredAt"]
    assert last == f"import-c: imported pears under fence {lock['fence']}"
    assert lock["fence"] > int(fence)


def test_scale_to_zero_runs_a_tick_once_for_two_attempts(rtdb: Rtdb) -> None:
    """Cloud Scheduler's second attempt at a tick is told that it is done, and the database has one run of it."""
    said = play("scale-to-zero", "two_attempts.py")
    assert said.count("the report is written") == 1
    answers = re.findall(r"^POST /cron/write-report: (\w+):", said, re.MULTILINE)
    assert answers == ["succeeded", "already_done"]
    (run,) = found(rtdb, "/cron-runs/write-report").values()
    assert (run["outcome"], run["trigger"], run["attempt"]) == ("succeeded", "http", 1)
    assert found(rtdb, "/cron-locks/write-report")["slot"] == run["slot"]


def test_worker_pool_goes_on_when_one_of_two_ends(rtdb: Rtdb) -> None:
    """Each tick runs on one of two workers, the one that is told to end does so in order, and the other one goes on."""
    said = play("worker-pool", "local.py", "--ticks", "1")
    assert "worker-a was told to end, and ended with exit code 0" in said
    assert "2 ticks ran, 0 of them twice" in said
    _, after = said.split("exit code 0\n")
    assert re.match(r"  worker-b: imported, for import-feed:", after)
    assert found(rtdb, "/cron-locks/import-feed")["instanceId"] == "worker-b"


def test_kubernetes_cronjob_runs_once_for_two_pods(rtdb: Rtdb) -> None:
    """The pod that is late to a tick doesn't run the job again, and says so with its exit code."""
    said = play("kubernetes-cronjob", "two_pods.py")
    assert said.count("the report is written by nightly-report-eu") == 1
    assert "the report is written by nightly-report-us" not in said
    assert "nightly-report-us ended with exit code 75" in said
    (run,) = found(rtdb, "/cron-runs/nightly-report").values()
    assert (run["outcome"], run["instanceId"]) == ("succeeded", "nightly-report-eu")


def test_feed_consumer_survives_a_deploy(rtdb: Rtdb) -> None:
    """Each price is read once, first by the old revision and then by the new one, and each term is in the history."""
    said = play("feed-consumer", "deploy.py")
    assert said.splitlines()[-1] == "each price once; read by feed-v1 and feed-v2"
    terms = found(rtdb, "/cron-runs/price-feed")
    assert {term["outcome"] for term in terms.values()} <= {"succeeded", "interrupted"}
    assert terms[min(terms)]["instanceId"] == "feed-v1"
    node = found(rtdb, "/cron-locks/price-feed")
    assert (node["kind"], node["instanceId"], "releasedAt" in node) == ("leader", "feed-v2", True)


def test_hand_off_hands_nothing_over_twice(rtdb: Rtdb) -> None:
    """A run that is killed in the middle of its hand-over is begun again: each tenant has one task, and one report."""
    said = play("hand-off", "killed.py")
    tick = re.findall(r"attempt 2 at tenant-reports:(\S+): 4 of 8 tasks were new", said)
    assert said.splitlines()[-2:] == [
        "8 tasks for 8 tenants; 4 were there already",
        "8 tenants have a report, 0 of them twice",
    ]
    entry = found(rtdb, "/cron-runs/tenant-reports")[tick[0]]
    assert (entry["outcome"], entry["attempt"]) == ("succeeded", 2)


def test_nestjs_migration_says_what_it_needs() -> None:
    """Where there is no Node.js, the example that runs the original in it says so."""
    said = play(
        "nestjs-migration", "side_by_side.py", code=1, PATH=os.devnull, FIREBASE_DATABASE_EMULATOR_HOST="localhost:1"
    )
    assert said == "The original runs in Node.js: install Node.js 20 or newer, and run npm install here\n"


@pytest.mark.parametrize(
    ("folder", "script"),
    [
        ("fastapi", "local.py"),
        ("flask", "local.py"),
        ("cloud-run-job", "overlap.py"),
        ("scale-to-zero", "two_attempts.py"),
        ("firebase-functions", "two_calls.py"),
        ("worker-pool", "local.py"),
        ("kubernetes-cronjob", "two_pods.py"),
        ("feed-consumer", "deploy.py"),
        ("hand-off", "killed.py"),
        ("nestjs-migration", "side_by_side.py"),
    ],
)
def test_without_an_emulator_nothing_is_touched(folder: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that finds no emulator names the command of its README, and asks no database."""
    monkeypatch.delenv("FIREBASE_DATABASE_EMULATOR_HOST", raising=False)
    command = f"firecron emulator -- python {script}"
    assert f"```sh\n{command}\n```" in (EXAMPLES / folder / "README.md").read_text("utf-8")
    assert command in play(folder, script, code=1)


def test_the_one_command_brings_its_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command of the READMEs works as it stands there, where nothing else has started an emulator."""
    for name in ("FIREBASE_DATABASE_EMULATOR_HOST", "FIRECRON_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    said = play("scale-to-zero", "-m", "firecron", "emulator", "--", "python", "two_attempts.py", PATH=path)
    assert said.count("the report is written") == 1
