"""firecron beside others that do the same work: `make bench ARGS=peers`. It is no part of `make bench`.

Here are the locks; `peers_jobs.py` has the jobs.

    redis-py's Lock       a key with a ttl; who waits asks again every 100 ms
    PostgreSQL            pg_advisory_lock, by psycopg; the server has a queue, and a connection for each waiter

All go through the same proxy to a server on this machine. It counts bytes in both directions, and round trips: what a
client sends after it was answered. It delays each direction by half of the time of a round trip, so what a server
sends by itself is delayed, too. Processor time is that of the clients, without their start. The clients of the peers
come from PyPI into `build/peers`, where only this comparison looks. A peer whose packages or server are missing is
left out, with the reason.

What is measured is the cost of a lock. It doesn't show what each promises: an advisory lock ends with its connection
and has no ttl, and redis-py's has neither a fence nor a history.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from handover import SECONDS, Child, tell, told
from redis_server import MISSING, redis_server

from firecron import LockService
from firecron.settings import load
from rtdb_emulator import Emulator

# Behind all that is installed, so that firecron runs with what it has everywhere else.
PACKAGES = Path(__file__).parents[2] / "build" / "peers"
CLIENTS = ("redis", "psycopg[binary]", "procrastinate")
sys.path.append(str(PACKAGES))

TTL = 60
TURNS = 50
DELAYS = (0.0, 0.02)
KEEPS = 0.002
# Waiters by processes and threads of each.
CROWDS = ((5, 1), (20, 1), (1, 20))


def main() -> None:
    match sys.argv[1:]:
        case ["serve-emulator"]:
            with Emulator() as emulator:
                print(emulator.port, flush=True)
                sys.stdin.read()
        case ["proxy", port, delay]:
            asyncio.run(proxy(int(port), float(delay)))
        case ["once", kind, port]:
            once(PEERS[kind](int(port)))
        case ["again", kind, port, threads]:
            again(PEERS[kind], int(port), int(threads))
        case _:
            compare()


# --- the peers


class Peer(Protocol):
    """One waiter's way to the lock."""

    def acquire(self) -> object: ...

    def release(self) -> object: ...


def lock_name(port: int) -> str:
    """Return a name of its own for each measurement, by its proxy's port: the last holder of one is killed."""
    return f"bench-{port}"


class Firecron:
    """The lock of a process, which has one service; each waiter has its own lease."""

    _services: dict[int, LockService] = {}  # noqa: RUF012  # one for each database of the process
    _lock = threading.Lock()

    def __init__(self, port: int) -> None:
        with self._lock:
            if port not in self._services:
                made = LockService(settings=load(database_url=f"http://127.0.0.1:{port}?ns=bench"))
                warm = made.acquire(f"warm-up-{os.getpid()}", TTL, wait=30)  # connects, and asks for the time
                assert warm, warm
                warm.release()
                self._services[port] = made
        self._service, self._name = self._services[port], lock_name(port)
        self._lease: Any = None

    def acquire(self) -> None:
        self._lease = self._service.acquire(self._name, TTL, wait=300)
        assert self._lease, self._lease

    def release(self) -> None:
        self._lease.release()


def redis_lock(port: int) -> Peer:
    import redis

    lock: Peer = redis.Redis(port=port).lock(lock_name(port), timeout=TTL)
    return lock


class Advisory:
    """PostgreSQL's advisory lock, on a connection of its own."""

    def __init__(self, port: int) -> None:
        import psycopg

        self._connection = psycopg.connect(f"host=127.0.0.1 port={port} user=postgres dbname=postgres", autocommit=True)

    def acquire(self) -> None:
        self._connection.execute("SELECT pg_advisory_lock(1)")

    def release(self) -> None:
        self._connection.execute("SELECT pg_advisory_unlock(1)")


PEERS: dict[str, Callable[[int], Peer]] = {
    "firecron": Firecron,
    "redis-py's Lock": redis_lock,
    "PostgreSQL": Advisory,
}


# --- the comparison


def compare() -> None:
    install()
    from peers_jobs import compare_jobs, make_schema  # it measures through the proxy of this module

    with ExitStack() as stack:
        servers = {
            "firecron": stack.enter_context(emulator()),
            "redis-py's Lock": stack.enter_context(redis_server()),
            "PostgreSQL": stack.enter_context(postgres()),
        }
        reasons = {"redis-py's Lock": MISSING, "PostgreSQL": MISSING_POSTGRES}
        for name in [name for name, port in servers.items() if port is None]:
            print(f"{name}: {reasons[name]}")
        ports = {name: port for name, port in servers.items() if port is not None}
        print(f"\n{'':32}{'median':>10}{'trips':>8}{'bytes':>9}{'CPU':>11}{'change hands':>15}")
        for delay in DELAYS:
            print(f"acquire and release, {delay * 1000:.0f} ms a round trip")
            for name, port in ports.items():
                show(name, uncontended(name, port, delay))
        for processes, threads in CROWDS:
            where = f"{processes} processes" if threads == 1 else "threads of one process"
            print(f"a handover, {processes * threads} waiters ({where}) that ask again at once, 20 ms a round trip")
            for name, port in ports.items():
                show(name, contended(name, port, processes, threads))
        hosts = {"firecron": stack.enter_context(emulator())}
        if servers["PostgreSQL"] is None or find_spec("procrastinate") is None:
            print(f"procrastinate: {MISSING_POSTGRES}")
        else:
            make_schema(servers["PostgreSQL"])
            hosts["procrastinate"] = servers["PostgreSQL"]
        compare_jobs(hosts)


def install() -> None:
    """Install the clients of the peers, if that was not done before. What can't be had is left out later."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]
    if not PACKAGES.exists():
        done = subprocess.run([*command, str(PACKAGES), *CLIENTS], check=False, capture_output=True, text=True)
        if done.returncode:
            print(f"the clients of the peers can't be installed: {done.stderr.strip()[-200:]}")
    importlib.invalidate_caches()


@dataclass(frozen=True, slots=True)
class Cost:
    """What a turn costs: its median in seconds, trips, bytes, seconds of the processor, and the changes of hands."""

    seconds: float
    trips: float
    size: float
    processor: float
    changes: float | None = None


def show(name: str, cost: Cost) -> None:
    changes = "" if cost.changes is None else f"{cost.changes:14.0%}"
    print(
        f"  {name:30}{cost.seconds * 1000:7.1f} ms{cost.trips:8.1f}{cost.size:9,.0f}{cost.processor * 1000:8.2f} ms"
        f" {changes}",
        flush=True,
    )


def uncontended(name: str, port: int, delay: float) -> Cost:
    with through(port, delay) as (front, counted), child_of("once", name, str(front)) as one:
        told(one)
        counted()
        tell(one, "go")
        assert one.stdout is not None
        seconds, processor = json.loads(one.stdout.readline())
        trips, size = counted()
    return Cost(statistics.median(seconds), trips / TURNS, size / TURNS, processor / TURNS)


def contended(name: str, port: int, processes: int, threads: int) -> Cost:
    with through(port, DELAYS[-1]) as (front, counted), ExitStack() as stack:
        children = [stack.enter_context(child_of("again", name, str(front), str(threads))) for _ in range(processes)]
        for one in children:
            told(one)
        counted()
        for one in children:
            tell(one, "go")
        time.sleep(SECONDS)
        trips, size = counted()
        found = []
        for one in children:
            assert one.stdout is not None
            found.append(json.loads(one.stdout.readline()))
    turns = sorted(tuple(turn) for _, some in found for turn in some)
    number = len(turns)
    assert number > 1, f"no handover of {name} in {SECONDS} s"
    median = statistics.median(second[0] - first[1] for first, second in pairwise(turns))
    changes = sum(first[2] != second[2] for first, second in pairwise(turns)) / (number - 1)
    return Cost(median, trips / number, size / number, sum(used for used, _ in found) / number, changes)


@contextmanager
def child_of(*arguments: str) -> Iterator[Child]:
    process = subprocess.Popen(
        [sys.executable, __file__, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


# --- the processes


def once(peer: Peer) -> None:
    """Take the lock again and again, alone."""
    peer.acquire()
    peer.release()
    print(0, flush=True)
    sys.stdin.readline()
    seconds, used = [], time.process_time()
    for _ in range(TURNS):
        began = time.perf_counter()
        peer.acquire()
        peer.release()
        seconds.append(time.perf_counter() - began)
    print(json.dumps([seconds, time.process_time() - used]), flush=True)
    sys.stdin.read()


def again(peer_of: Callable[[int], Peer], port: int, threads: int) -> None:
    """Take turns with others on so many threads, and tell of the turns and of the processor's time."""
    peers = [peer_of(port) for _ in range(threads)]
    turns: list[tuple[float, float, str]] = []
    print(0, flush=True)
    sys.stdin.readline()
    used, ends = time.process_time(), time.monotonic() + SECONDS

    def work(peer: Peer, waiter: str) -> None:
        while time.monotonic() < ends:
            peer.acquire()
            began = time.monotonic()
            time.sleep(KEEPS)
            turns.append((began, time.monotonic(), waiter))
            peer.release()

    for number, peer in enumerate(peers):
        threading.Thread(target=work, args=(peer, f"{os.getpid()} {number}"), daemon=True).start()
    time.sleep(SECONDS)
    print(json.dumps([time.process_time() - used, [turn for turn in turns if turn[0] < ends]]), flush=True)
    sys.stdin.read()  # it is ended when all have told


# --- the proxy


@contextmanager
def through(port: int, delay: float) -> Iterator[tuple[int, Callable[[], tuple[int, int]]]]:
    """Yield the port of a proxy, and what returns the trips and bytes since its last call."""
    with child_of("proxy", str(port), str(delay)) as process:
        front = int(told(process))

        def counted() -> tuple[int, int]:
            tell(process, "count")
            assert process.stdout is not None
            trips, size = map(int, process.stdout.readline().split())
            return trips, size

        yield front, counted


async def proxy(port: int, delay: float) -> None:
    """Serve until standard input ends. Each line of it is answered with the trips and bytes since the last one."""
    trips = size = 0
    loop = asyncio.get_running_loop()

    async def serve(client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        server, to_server = await asyncio.open_connection("127.0.0.1", port)
        was_answered = True

        async def carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter, is_asked: bool) -> None:
            nonlocal trips, size, was_answered
            while data := await source.read(65_536):
                size += len(data)
                trips += is_asked and was_answered
                was_answered = not is_asked
                loop.call_later(delay / 2, sink.write, data) if delay else sink.write(data)
            loop.call_later(delay / 2, sink.close)

        with suppress(ConnectionError):
            await asyncio.gather(carry(client, to_server, True), carry(server, to_client, False))

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(listening.sockets[0].getsockname()[1], flush=True)
    while await loop.run_in_executor(None, sys.stdin.readline):
        print(trips, size, flush=True)
        trips = size = 0


# --- the servers


@contextmanager
def emulator() -> Iterator[int]:
    with child_of("serve-emulator") as process:
        yield int(told(process))


MISSING_POSTGRES = (
    "left out: needs PostgreSQL's server (Debian's package postgresql), and its client from PyPI in build/peers"
)


@contextmanager
def postgres() -> Iterator[int | None]:
    """Yield the port of a server of its own; None if there is no server, or no client of it."""
    found = shutil.which("initdb") or max(map(str, Path("/usr/lib/postgresql").glob("*/bin/initdb")), default=None)
    if found is None or find_spec("psycopg") is None:
        yield None
        return
    import psycopg

    # The server refuses to run as root, so it runs as the user that Debian's package has made for it.
    user = {"user": "postgres", "group": "postgres"} if os.getuid() == 0 else {}
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        if user:
            shutil.chown(made, **user)
        data = f"{made}/data"
        command = [found, "-D", data, "-A", "trust", "-U", "postgres", "--no-sync"]
        done = subprocess.run(  # type: ignore[call-overload]  # who it runs as
            command, check=False, stdout=subprocess.DEVNULL, cwd=made, **user
        )
        done.check_returncode()
        port = free_port()
        server = subprocess.Popen(  # type: ignore[call-overload]  # who it runs as
            [str(Path(found).with_name("postgres")), "-D", data, "-p", str(port), "-k", made, "-h", "127.0.0.1"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=made, **user,
        )  # fmt: skip
        stack.callback(server.wait, 10)
        stack.callback(server.terminate)
        for _ in range(200):
            try:
                psycopg.connect(f"host=127.0.0.1 port={port} user=postgres dbname=postgres").close()
                break
            except psycopg.OperationalError:
                time.sleep(0.05)
        yield port


def free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


if __name__ == "__main__":
    main()
