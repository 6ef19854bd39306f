"""A process that does with locks what it is told: a JSON object a line on standard input, an answer a line back.

With two file descriptors as arguments it can also fork; the forked process listens and answers on those.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import IO, Any, NoReturn

from firecron.lock.lease import Lease
from firecron.locks import LockService
from firecron.settings import load

service = LockService(settings=load(margin=0.5, clock_interval=300))
leases: dict[str, Lease] = {}


def acquire(name: str, ttl: float, wait: float = 0) -> dict[str, object]:
    answer = service.acquire(name, ttl, wait=wait)
    if not isinstance(answer, Lease):
        return {"reason": answer.reason}
    leases[name] = answer
    return {"holder": answer.holder}


def hold(name: str, ttl: float) -> dict[str, object]:
    """Acquire, and have it renewed."""
    leases[name] = service.hold(name, ttl, wait=30).__enter__()
    return {"holder": leases[name].holder}


def look(name: str) -> dict[str, object]:
    """What this process makes of the lease."""
    return {"lost": bool(leases[name].lost)}


def release(name: str) -> dict[str, object]:
    return {"released": leases[name].release()}


def work_under(name: str, ttl: float, channel: Channel) -> NoReturn:
    """Say so, and work in a held block until somebody ends it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with service.hold(name, ttl, wait=30) as lease:
        channel.say({"holder": lease.holder})
        signal.pause()
    raise AssertionError("nobody ended the work")


class Channel:
    """Where commands come from and answers go to."""

    def __init__(self, commands: IO[str], answers: IO[str]) -> None:
        self.commands = commands
        self.answers = answers

    def say(self, answer: dict[str, object]) -> None:
        print(json.dumps(answer), file=self.answers, flush=True)


def fork(channel: Channel, fds: list[int]) -> None:
    """Go on in a forked process too, which has the descriptors for its own channel."""
    child = os.fork()
    if child:
        channel.say({"child": child})
        return
    with ExitStack() as ending:
        ending.callback(os._exit, 0)  # the way out of a forked child
        commands, answers = (ending.enter_context(os.fdopen(fd, mode)) for fd, mode in zip(fds, "rw", strict=True))
        serve(Channel(commands, answers), [])


DEEDS: dict[str, Callable[..., dict[str, object]]] = {
    "acquire": acquire,
    "hold": hold,
    "look": look,
    "release": release,
}


def serve(channel: Channel, fds: list[int]) -> None:
    for line in channel.commands:
        command: dict[str, Any] = json.loads(line)
        match command.pop("do"):
            case "fork":
                fork(channel, fds)
            case "work_under":
                work_under(**command, channel=channel)
            case deed:
                channel.say(DEEDS[deed](**command))


if __name__ == "__main__":
    own = Channel(sys.stdin, sys.stdout)
    own.say({"ready": os.getpid()})
    serve(own, [int(number) for number in sys.argv[1:]])
