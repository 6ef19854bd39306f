"""A plain script that starts its jobs, works for a while (until a job has begun), and ends without calling `stop`."""

from __future__ import annotations

import os
from pathlib import Path

from tests.process.tick_jobs import make_crons, note, pause

if __name__ == "__main__":
    make_crons().start()
    note("up")
    while '"start"' not in Path(os.environ["TICK_JOURNAL"]).read_text("utf-8"):
        pause(0.01)
    note("down")
