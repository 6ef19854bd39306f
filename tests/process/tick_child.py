"""An instance: runs the jobs of its environment (see `tick_jobs`) until it is asked to end with SIGTERM."""

from __future__ import annotations

import logging
import signal

from tests.process.tick_jobs import make_crons, note

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    # Waited for instead of handled: a handler may come at a moment when it can't set what the main thread waits for.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    with make_crons():
        note("up")
        signal.sigwait({signal.SIGTERM})
    note("down")
