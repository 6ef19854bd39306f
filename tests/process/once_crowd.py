"""Many processes that do the same work once and for all: `python once_crowd.py <number> <ttl> <to die>`.

They are forked, so that they begin at once, each with a service of its own. Each says a JSON object a line when it
begins and ends the work, and what it was told; a line is short enough to be written at once. The first that begin never
end: they wait to be killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import NoReturn

from firecron import LockService, Settings

WORK = "backfill"


def say(what: str, **more: object) -> None:
    line = json.dumps({"what": what, "pid": os.getpid(), "at": time.monotonic(), **more})
    os.write(1, f"{line}\n".encode())


def one_of_many(ttl: float, doomed: int) -> NoReturn:
    def work() -> dict[str, int]:
        dies = os.read(doomed, 1) == b"x"
        say("begins", dies=dies)
        if dies:
            signal.pause()
        say("ends")
        return {"pid": os.getpid()}

    locks = LockService(settings=Settings(margin=ttl / 6, clock_interval=60))
    try:
        done = locks.once(WORK, work, ttl=ttl, wait=30)
        say("told", result=done.result, done=done.at.isoformat(), by=done.by)
    except BaseException as error:
        say("failed", error=repr(error))
    sys.exit(0)


def main(number: int, ttl: float, to_die: int) -> None:
    doomed, dooms = os.pipe()
    os.write(dooms, b"x" * to_die + b"-" * number)
    LockService(settings=Settings()).connect()  # what all of them load, loaded once
    pids = []
    for _ in range(number):
        pid = os.fork()
        if pid == 0:
            one_of_many(ttl, doomed)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)
    say("over")


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
