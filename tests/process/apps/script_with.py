"""A plain script: jobs tick in the `with` block, and SIGTERM leaves it in the usual way."""

from __future__ import annotations

import signal
import sys
import time

from tests.process.tick_jobs import make_crons, note

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with make_crons():
        note("up")
        while True:
            time.sleep(1)  # not for ever: Python would hear a signal that comes just before only after that
