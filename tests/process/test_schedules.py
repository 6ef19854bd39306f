"""Stored schedules beside real processes that die, and beside programs of another revision."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.process.schedule_child import KEYS, main
from tests.stores.least_privilege import RULES

from firecron import LockService
from firecron.jobs.parameters import Parameters
from firecron.lock.database import Database
from firecron.lock.record import DAY
from firecron.lock.stored import LookOptions, checked, is_closed, next_at
from firecron.ops.schedules import Schedules
from firecron.settings import load
from rtdb_emulator.pytest_plugin import Rtdb

CHILD = Path(__file__).with_name("schedule_child.py")
REVISION = Path(__file__).with_name("revision_child.py")
# Seconds. What hangs is killed then.
BOUND = 40.0
# After so many puts the program is killed, in the middle of the next ones.
KILLED_AT = 60


def test_a_program_that_is_killed_leaves_whole_schedules(rtdb: Rtdb) -> None:
    """Each entry is as it was put or as it was removed, with its next look; the same program goes on where it was."""
    command = [sys.executable, str(CHILD), rtdb.url]
    environment = {**os.environ, "PYTHONPATH": str(CHILD.parents[2])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if int(line) >= KILLED_AT:
                break
        child.send_signal(signal.SIGKILL)
    check(rtdb, least=KILLED_AT)
    main(rtdb.url)
    check(rtdb, least=KEYS)
    found = LockService(settings=load(database_url=rtdb.url)).schedules.list("remind", limit=1_000)
    assert [entry.key for entry in found] == [f"k{number:03}" for number in range(1, KEYS, 2)]


def test_each_revision_runs_the_schedules_whose_arguments_it_takes(rtdb: Rtdb) -> None:
    """In a rolling deployment. The other one doesn't even ask for them, and says so once."""
    rtdb.set_rules(RULES)
    keys = {name: [f"{name}{number}" for number in range(5)] for name in ("event", "person")}
    # The catalogue has what one of the revisions takes, and this program goes by its own code.
    anything = Parameters(frozenset(), frozenset(), takes_any=True, waits=False, reruns=False, keep_closed=DAY)
    writer = Schedules(Database(settings=load(margin=0.2)), lambda job: anything)
    with revision("event") as event, revision("person") as person:
        children = {"event": event, "person": person}
        for child in children.values():
            said_by(child, asked=1)
        rtdb.emulator.requests.clear()
        for name, ones in keys.items():
            for key in ones:
                writer.put("remind", key, at=datetime.now(UTC) + timedelta(seconds=3), args={name: key})
        puts = len(rtdb.emulator.requests.matching(path="/cron-schedules/remind/:event0"))
        said = {name: said_by(child, ran=5, said=1) for name, child in children.items()}
        for name, child in children.items():
            said[name] += child.communicate()[0].splitlines()
    for name, ones in keys.items():
        assert sorted(line for line in said[name] if line.startswith("ran")) == [f"ran remind:{key}" for key in ones]
        (warning,) = (line for line in said[name] if line.startswith("said"))
        assert f"its function needs the argument '{name}'" in warning
        for key in ones:
            methods = [one.method for one in rtdb.emulator.requests if one.path == f"/cron-schedules/remind/:{key}"]
            assert methods[puts:] == ["GET", "PUT", "PUT"], key


@contextmanager
def revision(name: str) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONPATH": str(REVISION.parents[2])}
    command = [sys.executable, str(REVISION), name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as child:
        watchdog = threading.Timer(BOUND, child.kill)
        watchdog.start()
        try:
            yield child
        finally:
            watchdog.cancel()
            child.kill()


def said_by(child: subprocess.Popen[str], **wanted: int) -> list[str]:
    """Return what the child says, until it has said so many lines of each kind."""
    assert child.stdout is not None
    found: list[str] = []
    for line in child.stdout:
        found.append(line.strip())
        kinds = Counter(one.partition(" ")[0] for one in found)
        if all(kinds[kind] >= number for kind, number in wanted.items()):
            return found
    raise AssertionError(f"it ended without {wanted}: {found}")


def check(rtdb: Rtdb, least: int) -> None:
    nodes: Any = rtdb.get("cron-schedules/remind")
    assert len(nodes) >= least
    for name, node in nodes.items():
        now = node["since"]
        assert node["nextAt"] == next_at(node, LookOptions(1_000), now), name
        if is_closed(node):
            assert "args" not in node
        else:
            assert checked(node) is not None
            assert node["args"] == f'{{"number":{int(name[2:])}}}'
