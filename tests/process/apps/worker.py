"""The application of `firecron work`. It goes on importing until the file in `IMPORT_GATE` exists, if that is set."""

from __future__ import annotations

import os
from pathlib import Path

from tests.process.tick_jobs import make_crons, note, pause

if gate := os.environ.get("IMPORT_GATE"):
    note("importing")
    while not Path(gate).exists():
        pause(0.005)

crons = make_crons()
