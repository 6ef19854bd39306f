"""A plain script that forks while its jobs tick; the child starts its own when the file that it is given is there."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from tests.process.tick_jobs import make_crons, note, pause

if __name__ == "__main__":
    gate = Path(sys.argv[1])
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    crons = make_crons().start()
    note("up")
    child = os.fork()
    if child == 0:
        state = crons.registry.state("short")
        note("forked", threads=threading.active_count(), state=state)
        while not gate.exists():
            pause(0.01)
        note("start() in the child")
        crons.start()
    signal.sigwait({signal.SIGTERM})
    crons.stop()
    if child:
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)
