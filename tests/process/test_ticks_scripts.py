"""Plain scripts: the `with` block, the end of a process that nobody told to stop, and fork."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.process.tick_processes import HERE, Ticking
from tests.process.tick_specs import ASYNC_WORK, SHORT, WORK, Spec

pytest_plugins = ["tests.process.tick_fixtures"]


def app(name: str) -> str:
    return str(HERE / "apps" / f"{name}.py")


def assert_gone(ticks: Ticking, *jobs: str) -> None:
    """Nothing is left of the process but what it ran."""
    assert ticks.instances() == set()
    for job in jobs:
        assert "releasedAt" in ticks.lock(job)
        ticks.assert_kept(job)


def test_i34_sigterm_leaves_the_block_by_way_of_its_stop(ticks: Ticking) -> None:
    """A script whose SIGTERM handler exits leaves `with crons:` in order: runs are interrupted and released."""
    script = ticks.start(app("script_with"), jobs=[SHORT, WORK])
    ticks.wait_for(1, "end", job="short")
    ticks.wait_for(1, "start", job="work")
    assert script.stop() == 0
    assert_gone(ticks, "short", "work")
    assert [entry["outcome"] for entry in ticks.history("work").values()] == ["interrupted"]


@pytest.mark.parametrize("job", [WORK, ASYNC_WORK], ids=["sync", "async"])
def test_a_script_that_just_ends_stops_at_its_exit(ticks: Ticking, job: Spec) -> None:
    """When nobody calls `stop`, the end of the process does: the run is told, ends, and is released."""
    script = ticks.start(app("script_atexit"), jobs=[job], FIRECRON_SHUTDOWN_GRACE="3")
    assert script.wait() == 0, script.log
    [end] = ticks.lines("end")
    assert end["mono"] > ticks.lines("down")[0]["mono"]
    name = job["name"]
    assert_gone(ticks, name)
    # A cancelled run may clean up, and its lock is held for so long.
    ticks.assert_released_after(end)
    assert [entry["outcome"] for entry in ticks.history(name).values()] == ["interrupted"]


@pytest.mark.parametrize("jobs", [0, 1, 3])
def test_the_end_of_a_script_prints_nothing(jobs: int) -> None:
    """A script that has jobs, and starts nothing, ends without a word."""
    lines = ["from firecron import FireCron, distributed_cron"]
    lines += [f"@distributed_cron('job-{n}', '0 9 * * *')\ndef job_{n}(): pass" for n in range(jobs)]
    lines += [f"crons = FireCron({', '.join(f'job_{n}' for n in range(jobs))}{', ' * bool(jobs)}enabled=False)"]
    ended = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True, timeout=60
    )
    assert (ended.stdout, ended.stderr) == ("", "")


def test_i36_a_forked_child_ticks_only_after_its_own_start(ticks: Ticking) -> None:
    """A fork has no thread of its parent's and runs nothing; with its own `start` it is one more instance."""
    gate = ticks.folder / "gate"
    script = ticks.start(app("script_fork"), str(gate), jobs=[SHORT])
    [forked] = ticks.wait_for(1, "forked")
    assert (forked["threads"], forked["state"]) == (1, "idle")
    ticks.wait_for(2, "end", pid=script.pid)
    assert len(ticks.wait_for_instances(1)) == 1
    assert ticks.lines("start", pid=forked["pid"]) == []
    gate.touch()
    ticks.wait_for_instances(2)
    assert script.stop() == 0
    assert_gone(ticks, "short")
