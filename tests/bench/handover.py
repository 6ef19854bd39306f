"""How long a lock takes from one holder to the next: `make bench`, or `python tests/bench/handover.py`.

A handover is the time from the call of `release` in one process to the first line under the lock in another one, which
waits. The waiters hear of the release (`FIRECRON_WATCH=1`), or ask again and again (`FIRECRON_WATCH=0`); beside them
redis-py's blocking Lock. All processes of this machine have one monotonic clock. The emulator counts the requests of
all, with those that open streams.

With a delay, each request is made slower by it, the opening of a stream too. Events are not.

In the last table 20 waiters take the lock, keep it for 2 ms, release it, and ask again at once, for some seconds:
threads of one process, or a process each. Processor time is that of these processes, without their start.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import goals
from redis_server import MISSING, redis_server

from firecron import Lease, LockService
from firecron.settings import load
from rtdb_emulator import Emulator

HANDOVERS = 21
# Handovers by polling have no goal, and take up to 2 s each.
POLLED = 3
PROCESSES, WAITERS = 10, 5
# How many take the lock again and again, for how many seconds, and how long each keeps it.
CROWD, SECONDS, KEEPS = 20, 3.0, 0.002
TTL = 60
# Until a process that was told to acquire has asked in vain, and asks again and again: nobody tells when it does.
SETTLES = 0.5
# Until a stream is open, or has ended.
PATIENCE = 30


class Lock(Protocol):
    def acquire(self) -> object: ...

    def release(self) -> object: ...


class Firecron:
    """The lock of a service, which all threads of the process share."""

    def __init__(self, port: int) -> None:
        self.locks = LockService(settings=load(database_url=f"http://127.0.0.1:{port}?ns=bench"))
        self.leases = threading.local()
        assert self.locks.acquire(f"warm-up-{os.getpid()}", TTL).release()  # type: ignore[union-attr]  # it is free

    def acquire(self) -> None:
        lease = self.locks.acquire("bench", TTL, wait=300)
        assert isinstance(lease, Lease), lease
        self.leases.mine = lease

    def release(self) -> None:
        self.leases.mine.release()


def redis_lock(port: int) -> Lock:
    import redis

    lock: Lock = redis.Redis(port=port).lock("bench", timeout=TTL)
    return lock


def main() -> None:
    match sys.argv[1:]:
        case ["serve", delay]:
            serve(float(delay))
        case ["hand-over", kind, port]:
            obey(redis_lock(int(port)) if kind == "redis" else Firecron(int(port)))
        case ["take-turns", port]:
            take_turns(Firecron(int(port)))
        case ["again", port, threads]:
            again(Firecron(int(port)), int(threads))
        case _:
            compare("on loopback", 0.0, wanted=15)
            compare("with 20 ms added to each request", 0.02, wanted=90)
            crowd()
            again_and_again()


def compare(title: str, delay: float, wanted: int) -> None:
    print(f"from a release in one process to the body in another, {title}:")
    print(f"  {'':30}{'median':>10}{'longest':>10}{'requests each':>16}")
    with emulator(delay) as server:
        for name, watches, number in (("firecron, which hears of it", "1", HANDOVERS), ("polling", "0", POLLED)):
            server.count()
            waits = server.wait_for_listeners if watches == "1" else None
            seconds = hand_over("firecron", server.port, number, waits, FIRECRON_WATCH=watches)
            show(name, seconds, f"{server.count() / number:16.1f}")
            if watches == "1":
                goals.at_most(f"a handover {title}", statistics.median(seconds) * 1000, wanted, "ms")
    if delay:
        print("  (redis has no delay added: it is another server)\n")
        return
    with redis_server() as port:
        if port is None:
            print(f"  redis-py's blocking Lock      {MISSING}\n")
        else:
            show("redis-py's blocking Lock", hand_over("redis", port, HANDOVERS), "\n")


def show(name: str, seconds: list[float], rest: str) -> None:
    print(f"  {name:30}{statistics.median(seconds) * 1000:7.1f} ms{max(seconds) * 1000:7.1f} ms{rest}")


def hand_over(
    kind: str, port: int, number: int, waits: Callable[[int], None] | None = None, **environment: str
) -> list[float]:
    """Hand a lock over between two processes, to and fro. Return the seconds that each handover took.

    `waits` returns when so many streams are open; without it the waiters ask again and again.
    """
    with ExitStack() as stack:
        holder, waiter = (stack.enter_context(child("hand-over", kind, str(port), **environment)) for _ in range(2))
        tell(holder, "acquire")
        told(holder)
        found = []
        for _ in range(number):
            if waits is not None:
                waits(0)
            tell(waiter, "acquire")
            if waits is not None:
                waits(1)
            else:
                # Not in step with those that ask every so often.
                time.sleep(SETTLES + random.random() / 5)
            tell(holder, "release")
            released, acquired = told(holder), told(waiter)
            found.append(acquired - released)
            holder, waiter = waiter, holder
        tell(holder, "release")
        told(holder)
    return found


def crowd() -> None:
    """Have many wait for one lock: each gets it once, and releases it at once."""
    number = PROCESSES * WAITERS
    with emulator(0.0) as server, ExitStack() as stack:
        first = Firecron(server.port)
        first.acquire()
        waiters = [stack.enter_context(child("take-turns", str(server.port))) for _ in range(PROCESSES)]
        for waiter in waiters:
            assert waiter.stdout is not None
            waiter.stdout.readline()
        server.count()
        started = time.monotonic()
        first.release()
        turns = sorted(told(waiter) - started for waiter in waiters for _ in range(WAITERS))
        requests = server.count() - number - 1
        first.locks.close()
    assert len(turns) == number
    median, last = statistics.median(turns), turns[-1]
    print(f"{number} waiters in {PROCESSES} processes, one turn each, on loopback:")
    print(
        f"  their turns came after {median * 1000:.0f} ms in the median, the last after {last * 1000:.0f} ms:", end=" "
    )
    print(f"{last / median:.1f} times as long")
    goals.at_most(f"the last of {number} waiters, to their median", last / median, 3, "times as long")
    # Before the n-th handover n fewer wait.
    waits = number * (number + 1) / 2
    print(f"  {requests / number:.1f} requests a handover beside its release,", end=" ")
    print(f"{requests / waits:.2f} for each that waits then\n")
    goals.at_most("requests a waiter and handover", requests / waits, 3, "requests")


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: when it began, when its release was called, and whose it was."""

    began: float
    ended: float
    waiter: str


def again_and_again() -> None:
    """Have 20 waiters take the lock again and again, and say what a handover costs, and who gets the lock."""
    print(f"{CROWD} waiters that ask again at once, with 20 ms added to each request:")
    print(f"  {'':20}{'median':>10}{'requests each':>16}{'CPU each':>12}{'change hands':>15}")
    for processes in (1, CROWD):
        turns, requests, processor = some_turns(processes, CROWD // processes)
        each = requests / len(turns)
        median = statistics.median(second.began - first.ended for first, second in pairwise(turns)) * 1000
        changes = sum(first.waiter != second.waiter for first, second in pairwise(turns)) / (len(turns) - 1)
        title = "of one process" if processes == 1 else "in processes"
        of_a_turn = processor / len(turns) * 1000
        print(f"  {title:20}{median:7.1f} ms{each:16.1f}{of_a_turn:9.1f} ms{changes:15.0%}")
        goals.at_most(f"{CROWD} waiters {title}, requests a handover", each, 4, "requests")
        if processes == 1:
            goals.at_most(f"{CROWD} waiters {title}, processor time of a handover", of_a_turn, 6, "ms")
            goals.at_least(f"{CROWD} waiters {title}, releases that change hands", changes * 100, 90, "%")


def some_turns(processes: int, threads: int) -> tuple[list[Turn], int, float]:
    """Return the turns, the requests of all, and the seconds of processor time."""
    with emulator(0.02) as server, ExitStack() as stack:
        children = [stack.enter_context(child("again", str(server.port), str(threads))) for _ in range(processes)]
        for one in children:
            told(one)
        server.count()
        for one in children:
            tell(one, "go")
        time.sleep(SECONDS)
        requests = server.count()
        found = []
        for one in children:
            assert one.stdout is not None
            found.append(json.loads(one.stdout.readline()))
    turns = sorted((Turn(*turn) for _, some in found for turn in some), key=lambda turn: turn.began)
    return turns, requests, sum(processor for processor, _ in found)


# --- the processes


def obey(lock: Lock) -> None:
    """Do what standard input says, and tell when, once it is done: when a release began, when an acquire had ended.

    A process that is ended while it releases would leave its lock behind.
    """
    for line in sys.stdin:
        if line.strip() == "acquire":
            lock.acquire()
            print(time.monotonic(), flush=True)
        else:
            began = time.monotonic()
            lock.release()
            print(began, flush=True)


def take_turns(lock: Firecron) -> None:
    def take_turn() -> None:
        lock.acquire()
        at = time.monotonic()
        lock.release()
        print(at, flush=True)

    threads = [threading.Thread(target=take_turn) for _ in range(WAITERS)]
    for thread in threads:
        thread.start()
    streams = lock.locks.database.streams
    until(lambda: streams.followers == WAITERS and streams.open == 1, "the waiters follow the lock")
    print("waiting", flush=True)
    sys.stdin.read()  # the end of a process would slow down those that still wait


def again(lock: Firecron, threads: int) -> None:
    """Take turns on so many threads from a line of standard input on, and tell of them and of the processor's time."""
    turns: list[tuple[float, float, str]] = []
    print(0, flush=True)
    sys.stdin.readline()
    used, ends = time.process_time(), time.monotonic() + SECONDS

    def work(waiter: str) -> None:
        while time.monotonic() < ends:
            lock.acquire()
            began = time.monotonic()
            time.sleep(KEEPS)
            turns.append((began, time.monotonic(), waiter))
            lock.release()

    for number in range(threads):
        threading.Thread(target=work, args=(f"{os.getpid()} {number}",), daemon=True).start()
    time.sleep(SECONDS)
    print(json.dumps([time.process_time() - used, [turn for turn in turns if turn[0] < ends]]), flush=True)
    sys.stdin.read()  # it is ended when all have told


def serve(delay: float) -> None:
    with Emulator() as emulator:
        if delay:
            emulator.faults.delay(delay, times=None)
        print(emulator.port, flush=True)
        for line in sys.stdin:
            if line.strip() == "count":
                print(len(emulator.requests), flush=True)
                emulator.requests.clear()
            else:
                wait_for_listeners(emulator, int(line))
                print(line, end="", flush=True)


def wait_for_listeners(emulator: Emulator, number: int) -> None:
    until(lambda: emulator.listeners("bench") == number, f"{number} streams are open")


def until(is_so: Callable[[], bool], what: str) -> None:
    """Return when it is so."""
    ends = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < ends, f"not within {PATIENCE} s: {what}"
        time.sleep(0.002)


Child = subprocess.Popen[str]


@contextmanager
def child(*arguments: str, script: str = __file__, **environment: str) -> Iterator[Child]:
    command = [sys.executable, script, *arguments]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=10)


class Server:
    """An emulator in a process of its own."""

    def __init__(self, process: Child) -> None:
        self._process = process
        self.port = int(told(process))

    def count(self) -> int:
        """Return the number of requests since the last call."""
        tell(self._process, "count")
        return int(told(self._process))

    def wait_for_listeners(self, number: int) -> None:
        """Return when so many streams are open."""
        tell(self._process, str(number))
        told(self._process)


@contextmanager
def emulator(delay: float) -> Iterator[Server]:
    with child("serve", str(delay)) as process:
        yield Server(process)


def tell(process: Child, line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def told(process: Child) -> float:
    assert process.stdout is not None
    return float(process.stdout.readline())


if __name__ == "__main__":
    main()
