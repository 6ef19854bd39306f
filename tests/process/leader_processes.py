"""Instances that stand for one leader in processes of their own, each with a wire of its own to the database.

    python -m tests.process.leader_processes --rounds 50 [--seed 7]

plays rounds of what a seed chooses: deaths, freezes, cuts and deployments. It prints the seed first.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from rtdb_emulator import Emulator
from rtdb_emulator.pytest_plugin import Rtdb

PROGRAM = Path(__file__).with_name("leader_child.py")
# Seconds: nothing here takes half of it.
BOUND = 30.0
TTL, MARGIN = 1.8, 0.3
ENVIRONMENT = {
    "FIRECRON_MARGIN": str(MARGIN),
    "FIRECRON_HEARTBEAT": "5",
    "FIRECRON_REQUEST_TIMEOUT": "1",
    "FIRECRON_SHUTDOWN_GRACE": "3",
}


class Wire:
    """Passes bytes between a process and the database. While it `is_cut` nothing passes, and nobody is told."""

    def __init__(self, host: str) -> None:
        name, _, port = host.partition(":")
        self._upstream = (name, int(port))
        self.is_cut = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # a thread that accepts would not notice that it is closed
        self._accepting.join(BOUND)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(self._upstream)
                except OSError:
                    client.close()
                    continue
                threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        other = {client: server, server: client}
        with client, server, suppress(OSError):
            while True:
                if self.is_cut:
                    time.sleep(0.02)
                    continue
                for one in select.select(list(other), [], [], 0.05)[0]:
                    data = one.recv(65536)
                    if not data:
                        return
                    other[one].sendall(data)


class Instance:
    """One process; `lines` is what it has said."""

    def __init__(self, rtdb: Rtdb, kind: str = "steady") -> None:
        self.wire = Wire(rtdb.emulator.host)
        self.lines: list[dict[str, Any]] = []
        self.stacks: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), kind],
            env={
                **os.environ,
                **ENVIRONMENT,
                "FIREBASE_DATABASE_EMULATOR_HOST": self.wire.host,
                "FIRECRON_DATABASE_URL": rtdb.url.replace(rtdb.emulator.host, self.wire.host),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def close(self) -> None:
        """End the process, and all that belongs to it."""
        self.process.kill()
        self.process.wait()
        self._reader.join(BOUND)
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.wire.is_cut = False
        self.wire.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                self.lines.append(json.loads(line))
            except json.JSONDecodeError:  # cut short by a kill, or what `where` asks for
                self.stacks.append(line)

    def where(self) -> str:
        """Where each thread of the process is."""
        self.signal(signal.SIGUSR1)
        ends = time.monotonic() + BOUND
        while not any("Current thread" in line for line in self.stacks) and time.monotonic() < ends:
            time.sleep(0.05)
        return "".join(self.stacks)

    def said(self, what: str) -> list[dict[str, Any]]:
        return [line for line in list(self.lines) if line["what"] == what]

    def signal(self, number: int) -> None:
        self.process.send_signal(number)


class Fleet:
    """Instances on one database; what they have said is judged together."""

    def __init__(self, rtdb: Rtdb) -> None:
        self._rtdb = rtdb
        self.instances: list[Instance] = []

    def start(self, number: int = 1, kind: str = "steady") -> list[Instance]:
        """Start instances, and wait until they are up."""
        new = [Instance(self._rtdb, kind) for _ in range(number)]
        self.instances += new
        self.until(lambda: all(one.said("up") for one in new), "instances that are up")
        return new

    def until(self, condition: Callable[[], object], what: str) -> None:
        ends = time.monotonic() + BOUND
        while not condition():
            assert time.monotonic() < ends, f"waited for {what}: {[one.lines[-3:] for one in self.instances]}"
            time.sleep(0.01)

    def terms(self) -> int:
        """The highest fence so far; 0 before the first term."""
        return max((int(line["fence"]) for one in self.instances for line in one.said("begins")), default=0)

    def leader(self, after: int = 0) -> Instance:
        """Wait for a term with a fence above this one that is trusted, and return its instance."""
        found: list[Instance] = []

        def looks() -> bool:
            found[:] = [one for one in self.instances for line in one.said("trusts")[-1:] if line["fence"] > after]
            return bool(found)

        self.until(looks, f"a leader after {after}")
        return max(found, key=lambda one: int(one.said("trusts")[-1]["fence"]))

    def stop(self) -> None:
        for one in self.instances:
            one.wire.is_cut = False
            with suppress(ProcessLookupError):
                one.signal(signal.SIGCONT)
                one.process.terminate()
        for one in self.instances:
            try:
                one.process.wait(BOUND)
            except subprocess.TimeoutExpired:
                raise AssertionError(f"a process doesn't end:\n{one.where()}") from None
            finally:
                one.close()

    def assert_kept(self) -> None:
        """No two terms were trusted at one time, and the fences rise in the order of the terms."""
        spans: dict[tuple[int, int], tuple[float, float]] = {}
        for one in self.instances:
            for line in one.said("trusts"):
                key = (int(line["fence"]), int(line["pid"]))
                first, last = spans.get(key, (line["at"], line["at"]))
                spans[key] = (min(first, line["at"]), max(last, line["at"]))
        order = sorted(spans, key=lambda key: spans[key][0])
        assert [fence for fence, _ in order] == sorted({fence for fence, _ in order}), spans
        for before, after in pairwise(order):
            assert spans[before][1] < spans[after][0], f"two were trusted at one time: {spans}"

    def gap(self, after: int) -> float:
        """The seconds between the end of this term, as it was trusted last, and the beginning of the next one."""
        trusted = [line for one in self.instances for line in one.said("trusts")]
        ends = max(line["at"] for line in trusted if line["fence"] <= after)
        return float(min(line["at"] for line in trusted if line["fence"] > after) - ends) / 1000


@contextmanager
def fleet_on(rtdb: Rtdb) -> Iterator[Fleet]:
    fleet = Fleet(rtdb)
    try:
        yield fleet
    finally:
        fleet.stop()


def kill(fleet: Fleet) -> None:
    """The leader's process is killed, and another one leads after the ttl and a margin."""
    led = fleet.leader()
    fence = fleet.terms()
    led.signal(signal.SIGKILL)
    fleet.leader(after=fence)


def freeze(fleet: Fleet) -> None:
    """The leader is stopped for longer than its ttl, and goes on when another one leads."""
    led = fleet.leader()
    fence = fleet.terms()
    led.signal(signal.SIGSTOP)
    fleet.leader(after=fence)
    led.signal(signal.SIGCONT)


def cut(fleet: Fleet) -> None:
    """The leader's wire is cut, and mended when another one leads."""
    led = fleet.leader()
    fence = fleet.terms()
    led.wire.is_cut = True
    fleet.leader(after=fence)
    led.wire.is_cut = False


def terminate(fleet: Fleet) -> None:
    """The leader's process is asked to end."""
    led = fleet.leader()
    fence = fleet.terms()
    led.signal(signal.SIGTERM)
    fleet.leader(after=fence)


def deploy(fleet: Fleet, size: int = 5) -> None:
    """All instances are replaced, one after another."""
    old = [one for one in fleet.instances if one.process.poll() is None]
    for one in old[:size]:
        fleet.start()
        one.signal(signal.SIGTERM)
        one.process.wait(BOUND)
    fleet.leader(after=fleet.terms() - 1)


FAULTS = (kill, freeze, cut, terminate, deploy)


def play(rtdb: Rtdb, seed: int) -> str:
    """One round: three instances, and two faults that the seed chooses. Return the names of the faults."""
    chance = random.Random(seed)
    faults = chance.choices(FAULTS, k=2)
    with fleet_on(rtdb) as fleet:
        fleet.start(3)
        fleet.leader()
        for fault in faults:
            fault(fleet)
            fleet.start()
    fleet.assert_kept()
    return ", ".join(fault.__name__ for fault in faults)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    with Emulator() as emulator:
        for number in range(min(given.rounds, 500)):
            faults = play(Rtdb(emulator, f"round-{number}"), given.seed + number)
            print(f"round {number}: {faults}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
