"""An instance that stands for a leader, for `leader_processes`: a line on standard output for whatever its body does.

A line has the pid, the fence, and the time on a clock that all processes of the machine share. `trusts` means that the
instance believed to lead at that time, before and after the clock was read.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import threading
import time

from firecron import FireCron, Term, leader
from firecron.base.clocks import SystemTiming

timing = SystemTiming()
asked_to_end = threading.Event()


def say(what: str, term: Term | None = None) -> None:
    fence = None if term is None else term.fence
    print(json.dumps({"what": what, "pid": os.getpid(), "fence": fence, "at": timing.mono()}), flush=True)


@leader("feed", ttl=1.8, pause=0)
def feed(term: Term) -> None:
    leadership = crons.leadership("feed")
    say("begins", term)
    kind = sys.argv[1]
    if kind == "raises":
        raise ValueError("no feed")
    deaf_until = timing.mono() + 4_000
    while not (term.lost or term.stopping) or (kind == "deaf" and timing.mono() < deaf_until):
        if leadership.is_mine:
            at = timing.mono()
            if leadership.is_mine:
                print(json.dumps({"what": "trusts", "pid": os.getpid(), "fence": term.fence, "at": at}), flush=True)
        time.sleep(0.01)
    say("ends", term)


crons = FireCron(feed, enabled=True)

if __name__ == "__main__":
    faulthandler.register(signal.SIGUSR1, sys.stdout)
    signal.signal(signal.SIGTERM, lambda *_: asked_to_end.set())
    with crons:
        say("up")
        asked_to_end.wait(60)
    say("down")
