"""An emulator in a process of its own, each request made slower by so many seconds: `python serve.py [SECONDS]`."""

from __future__ import annotations

import signal
import sys

from rtdb_emulator import Emulator


def main() -> None:
    delay = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0
    with Emulator() as emulator:
        if delay:
            emulator.faults.delay(delay, times=None)
        print(emulator.host, flush=True)
        signal.sigwait({signal.SIGTERM, signal.SIGINT})


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    main()
