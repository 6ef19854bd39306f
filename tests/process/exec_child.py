"""A command for `firecron exec`, run as `python -I -S exec_child.py answer 7`. It says `ready` once signals are what it
wants them to be.

    answer CODE     wait for a signal, say which and when (milliseconds), and end with this code
    die             wait, and leave signals as they are
    leave CODE      the same, but leave a process behind that ignores SIGTERM
    stubborn        wait, beside a process of its own, and ignore SIGTERM in both
    type            say what is typed, and then `die`
"""

from __future__ import annotations

import os
import signal
import sys
import time

# Seconds. No test takes so long: what nobody has ended ends by itself then.
LONGEST = 50
ENDING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}


def say(*words: object) -> None:
    print(*words, flush=True)


def fork() -> bool:
    """Whether this is the new process."""
    is_new = os.fork() == 0
    signal.alarm(LONGEST)
    return is_new


def wait() -> None:
    say("ready")
    while True:
        signal.pause()


signal.alarm(LONGEST)
signal.signal(signal.SIGINT, signal.SIG_DFL)
match sys.argv[1:]:
    case ["answer" | "leave" as does, code]:
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        if does == "leave" and fork():
            signal.pause()
        say("ready")
        number = signal.sigwait(ENDING)
        say(signal.Signals(number).name, time.time_ns() // 1_000_000)
        sys.exit(int(code))
    case ["die"]:
        wait()
    case ["stubborn"]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if fork():
            signal.pause()
        wait()
    case ["type"]:
        say("waiting")
        say(f"<{input()}>")
        wait()
