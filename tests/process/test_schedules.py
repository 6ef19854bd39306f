"""Stored schedules beside real processes that die, and beside programs of another revision."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.process.schedule_child import KEYS, main

from firecron import LockService
from firecron.lock.stored import LookOptions, checked, is_closed, next_at
from firecron.settings import load
from rtdb_emulator.pytest_plugin import Rtdb

CHILD = Path(__file__).with_name("schedule_child.py")
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
