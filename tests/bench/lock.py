"""What the lock costs: `make bench`, or `python tests/bench/lock.py`.

Every contender acquires and releases the same plain lock, one after another, against an emulator in a process of its
own; rounds alternate, so that whatever else the machine does hits all of them. The ratios are of the medians.
"""

from __future__ import annotations

import json
import socket
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from secrets import token_urlsafe

import firebase_admin
import goals
import requests
from firebase_admin import db
from redis_server import MISSING, redis_server
from serving import serving

from firecron import Lease, LockService
from firecron.settings import load
from rtdb_emulator import Emulator

ROUNDS = 7
TTL = 60
SERVE = str(Path(__file__).with_name("serve.py"))

Once = Callable[[], object]


def main() -> None:
    compare("on loopback", delay=0.0, number=150)
    compare("with 20 ms added to each request", delay=0.02, number=8)
    count_requests()


def compare(title: str, *, delay: float, number: int) -> None:
    with serving([sys.executable, SERVE, str(delay)]) as (port, _), redis_server() as redis:
        contenders = {
            "firecron": firecron_lock(port),
            "bare requests": bare_requests(port),
            "a bare socket": bare_socket(port),
            "the original in Python": original(port),
            **({} if redis is None else {"redis-py's Lock": redis_lock(redis)}),
        }
        speeds: dict[str, list[float]] = {name: [] for name in contenders}
        costs: dict[str, list[float]] = {name: [] for name in contenders}
        for _ in range(ROUNDS):
            for name, once in contenders.items():
                cpu = time.process_time()
                speeds[name].append(per_second(once, number))
                costs[name].append((time.process_time() - cpu) / number * 1e6)
    medians = {name: statistics.median(found) for name, found in speeds.items()}
    cpus = {name: statistics.median(found) for name, found in costs.items()}
    print(f"acquire + release, {title}, the median of {ROUNDS} alternating rounds: a second, and µs of CPU each")
    for name, median in medians.items():
        print(f"  {name:24}{median:10,.0f}{cpus[name]:10,.0f}")
    if redis is None:
        print(f"  redis-py's Lock         {MISSING}")
    elif delay:
        print("  (redis has no delay added: it is another server)")
    to_requests, to_original = (
        medians["firecron"] / medians[name] for name in ("bare requests", "the original in Python")
    )
    share, wanted = cpus["firecron"] / cpus["bare requests"], 0.95 if delay else 1.70
    print(f"  firecron is {to_requests:.2f} times bare requests (wanted: {wanted}),", end=" ")
    print(f"{to_original:.2f} times the original (wanted: 1.40)")
    to_socket = cpus["firecron"] / cpus["a bare socket"]
    print(f"  its CPU is {share:.2f} of that of bare requests{'' if delay else ' (wanted: 0.42)'},", end=" ")
    print(f"{to_socket:.1f} times that of a bare socket{'' if delay else ' (wanted: 6)'}\n")
    goals.at_least(f"acquire + release {title}, to bare requests", to_requests, wanted, "times as many")
    goals.at_least(f"acquire + release {title}, to the original", to_original, 1.40, "times as many")
    if not delay:
        goals.at_most(f"CPU of acquire + release {title}, to bare requests", share, 0.42, "of it")
        goals.at_most(f"CPU of acquire + release {title}, to a bare socket", to_socket, 6, "times it")
        goals.at_most(f"CPU of acquire + release {title}", cpus["firecron"], 400, "µs")


def per_second(once: Once, number: int) -> float:
    started = time.perf_counter()
    for _ in range(number):
        once()
    return number / (time.perf_counter() - started)


def database_url(port: int) -> str:
    return f"http://127.0.0.1:{port}?ns=bench"


def firecron_lock(port: int) -> Once:
    locks = LockService(settings=load(database_url=database_url(port)))

    def once() -> None:
        lease = locks.acquire("firecron", TTL)
        assert lease
        lease.release()

    once()
    return once


def record(now: int) -> dict[str, object]:
    """A record as large as firecron's."""
    return {
        "acquired": "2026-11-18T09:00:00Z",
        "acquiredAt": now,
        "expires": "2026-11-18T09:01:00Z",
        "expiresAt": now + TTL * 1000,
        "holder": token_urlsafe(12),
        "instance": "00bf4b9c3f2a",
        "instanceId": "api-v3-00042-abc",
    }


def bare_requests(port: int) -> Once:
    """The same two requests, with a record as large, and nothing around them."""
    session = requests.Session()
    url = f"http://127.0.0.1:{port}/cron-locks/bare.json?ns=bench"
    headers = {"Authorization": "Bearer owner", "X-Firebase-ETag": "true"}

    def once() -> None:
        now = time.time_ns() // 1_000_000
        put = session.put(url, data=json.dumps(record(now)), headers={**headers, "if-match": "null_etag"}, timeout=5)
        put.raise_for_status()
        session.delete(url, headers={**headers, "if-match": put.headers["ETag"]}, timeout=5).raise_for_status()

    once()
    return once


def bare_socket(port: int) -> Once:
    """The same two requests as bytes, whose replies are only looked at: what no client can do without."""
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    lines = " /cron-locks/socket.json?ns=bench HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer owner\r\n"
    head = f"{lines}X-Firebase-ETag: true\r\nContent-Length: %d\r\nif-match: %s\r\n\r\n".encode()

    def exchange(method: bytes, etag: bytes, body: bytes) -> bytes:
        sock.sendall(method + head % (len(body), etag) + body)
        reply = sock.recv(65_536)
        while (end := reply.find(b"\r\n\r\n")) < 0 or len(reply) < end + 4 + int(field(reply, b"content-length: ")):
            reply += sock.recv(65_536)
        assert reply.startswith(b"HTTP/1.1 200"), reply
        return field(reply, b"etag: ")

    def field(reply: bytes, name: bytes) -> bytes:
        begin = reply.lower().index(name) + len(name)
        return reply[begin : reply.index(b"\r", begin)]

    def once() -> None:
        now = time.time_ns() // 1_000_000
        exchange(b"DELETE", exchange(b"PUT", b"null_etag", json.dumps(record(now)).encode()), b"")

    once()
    return once


def original(port: int) -> Once:
    """The NestJS original's shape with the official SDK: a transaction to acquire, a delete to release."""
    app = firebase_admin.initialize_app(options={"databaseURL": database_url(port)}, name=f"original-{port}")
    lock = db.reference("cron-locks/original", app)

    class Held(Exception):
        pass

    def once() -> None:
        now = time.time_ns() // 1_000_000

        def take(current: dict[str, int] | None) -> dict[str, object]:
            if current and current["expiresAt"] > now:
                raise Held
            return {"acquiredAt": now, "expiresAt": now + TTL * 1000, "instanceId": "api-v3-00042-abc"}

        lock.transaction(take)
        lock.delete()

    once()
    return once


def redis_lock(port: int) -> Once:
    """redis-py's Lock."""
    import redis

    client = redis.Redis(port=port, retry_on_error=[redis.ConnectionError], socket_connect_timeout=5)

    def once() -> None:
        lock = client.lock("bench", timeout=TTL)
        assert lock.acquire(blocking=False)
        lock.release()

    return once


def count_requests() -> None:
    """Requests and bytes on the wire (HTTP's, without TCP and TLS), as the emulator counts them."""
    print("requests and HTTP bytes (up + down), counted by the emulator:")
    with Emulator() as emulator:
        ours, other = (LockService(settings=load(database_url=emulator.database_url("bench"))) for _ in range(2))

        def count(title: str, work: Callable[[], object], wanted: int | None = None) -> None:
            emulator.requests.clear()
            work()
            if wanted is not None:
                goals.at_most(f"requests, {title}", len(emulator.requests), wanted, "requests")
            up = sum(request.request_bytes for request in emulator.requests)
            down = sum(request.response_bytes for request in emulator.requests)
            print(f"  {title:44}{len(emulator.requests):3}{up + down:8,} bytes")

        def take_and_give(name: str, *, fenced: bool = False) -> None:
            lease = ours.acquire(name, TTL, fenced=fenced)
            assert lease
            lease.release()

        count("the first synchronisation of the clock", lambda: take_and_give("warm-up"))
        assert other.acquire("warm-up-too", TTL).release()  # type: ignore[union-attr]  # free, so it is a lease
        count("plain acquire + release, free", lambda: take_and_give("plain"), 2)
        count("fenced acquire + release, the first", lambda: take_and_give("fenced", fenced=True))
        count("fenced acquire + release, the next", lambda: take_and_give("fenced", fenced=True))
        held = ours.acquire("held", TTL)
        assert isinstance(held, Lease)
        count("refused", lambda: other.acquire("held", TTL), 1)
        count("a renewal", held.renew)
        held.release()
    print()


if __name__ == "__main__":
    main()
