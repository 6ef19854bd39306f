"""An instance: runs the jobs of its environment (see `tick_jobs`) until it is asked to end with SIGTERM."""

from __future__ import annotations

import logging
import signal
import threading

from tests.process.tick_jobs import make_crons, note

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    with make_crons():
        note("up")
        asked.wait()
    note("down")
