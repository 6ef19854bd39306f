"""A hold of a thousand jobs that is cut in the middle, as by `kill -9`: it is repeated or taken back, and nothing stays
paused.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import firecron
import rtdb_emulator
from firecron.base.instants import to_datetime
from firecron.locks import LockService
from firecron.ops.holds import Holds
from rtdb_emulator.pytest_plugin import Rtdb

JOBS, CUT = 1_000, 300
COMMAND = ["-c", "from firecron.cli import main; main()", "hold", "--until", "1h", "--why", "migrating"]


def paused(rtdb: Rtdb) -> set[str]:
    locks = cast("dict[str, dict[str, Any]]", rtdb.get("/cron-locks"))
    return {name for name, lock in locks.items() if lock.get("paused")}


def cut_hold(rtdb: Rtdb) -> None:
    """Begin a hold in a process of its own, and kill it once it has written some of the locks. What is under way by
    then is not written: it would land while the test looks.
    """
    rtdb.faults.answer(503, path="/cron-locks/*", method="PUT", nth=CUT, times=None)
    sources = [str(Path(package.__file__ or "").parents[1]) for package in (firecron, rtdb_emulator)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "COV_"))}
    environment["PYTHONPATH"] = os.pathsep.join(sources)
    ends = time.monotonic() + 40
    with subprocess.Popen([sys.executable, *COMMAND], env=environment, stdout=subprocess.PIPE) as process:
        try:
            while rtdb.count(method="PUT", path="/cron-locks/*") < CUT:
                assert process.poll() is None, "it has ended before it was killed"
                assert time.monotonic() < ends, "it does not hold anything"
                time.sleep(0.005)
        finally:
            process.kill()


def test_a_hold_that_is_cut_in_the_middle_is_repeated_or_taken_back(rtdb: Rtdb) -> None:
    """Who looks sees the hold, and by name the jobs that it does not hold. Taken back, it leaves no job paused; held
    again, all are, and then none.
    """
    names = {f"job-{number:03}" for number in range(JOBS)}
    rtdb.set("/cron-jobs", {name: {"line": "0 9 * * *", "service": "api"} for name in names})
    free = {name: {"slot": "2026-11-18T09:00:00Z", "expiresAt": 1, "releasedAt": 1, "fence": 7} for name in names}
    rtdb.set("/cron-locks", free)
    cut_hold(rtdb)
    some = paused(rtdb)
    assert len(some) == CUT - 1
    holds = Holds(LockService().database)
    [seen] = holds.seen()
    assert (seen.stands, set(seen.jobs), set(seen.not_held)) == (True, some, names - some)
    rtdb.faults.clear()
    left: Any = {node: rtdb.get(f"/{node}") for node in ("cron-hold", "cron-locks")}
    assert set(holds.unhold(seen.hold.name).resumed) == some
    assert (paused(rtdb), rtdb.get("/cron-hold")) == (set(), None)
    # Once more from where it was cut.
    for node, value in left.items():
        rtdb.set(f"/{node}", value)
    again = holds.hold(to_datetime(holds.seen()[0].hold.until) + timedelta(hours=1), "again")
    assert (set(again.held), again.failed, paused(rtdb)) == (names, {}, names)
    for view in holds.seen():
        assert view.not_held == ()
        holds.unhold(view.hold.name)
    assert (paused(rtdb), rtdb.get("/cron-hold"), holds.seen()) == (set(), None, ())
