"""A command for `firecron exec`, run as `python -I -S exec_child.py answer 7`. It says `ready` once signals are what it
wants them to be.

    answer CODE     wait for a signal, say which, and end with this code
    descriptors     say what is open beside the standard streams
    die             wait, and leave signals as they are
    count           say what time it is (milliseconds), again and again
    stubborn        wait, beside a process of its own, and ignore SIGTERM in both
    type            say what is typed, and then `die`
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress

# Seconds. No test takes so long: what nobody has ended ends by itself then.
LONGEST = 90
ENDING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}


def say(*words: object) -> None:
    print(*words, flush=True)


def wait() -> None:
    say("ready")
    while True:
        signal.pause()


signal.alarm(LONGEST)
signal.signal(signal.SIGINT, signal.SIG_DFL)
match sys.argv[1:]:
    case ["answer", code]:
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        say("ready")
        say(signal.Signals(signal.sigwait(ENDING)).name)
        sys.exit(int(code))
    case ["count"]:
        while True:
            say(time.time_ns() // 1_000_000)
            time.sleep(0.01)
    case ["descriptors"]:
        say("ready")
        for number in range(3, 256):
            with suppress(OSError):
                say(number, os.fstat(number))
    case ["die"]:
        wait()
    case ["stubborn"]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            signal.alarm(LONGEST)
            signal.pause()
        wait()
    case ["type"]:
        say("waiting")
        say(f"<{input()}>")
        wait()
