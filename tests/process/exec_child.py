"""A command for `firecron exec`, run as `python -I -S exec_child.py answer 7`. It says `ready` once signals are what it
wants them to be.

    answer CODE     wait for a signal, say which and when (milliseconds), and end with this code
    die             wait, and leave signals as they are
    stubborn        wait, beside a process of its own, and ignore SIGTERM in both
    type            say what is typed, and then `die`
"""

from __future__ import annotations

import os
import signal
import sys
import time

ENDING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}


def say(*words: object) -> None:
    print(*words, flush=True)


def wait() -> None:
    say("ready")
    while True:
        signal.pause()


signal.signal(signal.SIGINT, signal.SIG_DFL)
match sys.argv[1:]:
    case ["answer", code]:
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        say("ready")
        number = signal.sigwait(ENDING)
        say(signal.Signals(number).name, time.time_ns() // 1_000_000)
        sys.exit(int(code))
    case ["die"]:
        wait()
    case ["stubborn"]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            signal.pause()
        wait()
    case ["type"]:
        say("waiting")
        say(f"<{input()}>")
        wait()
