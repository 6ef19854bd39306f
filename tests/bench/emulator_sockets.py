"""How fast the emulator's sockets are: part of `make bench`, or `python tests/bench/emulator_sockets.py`."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Iterator

import goals
import requests
from serving import processor_seconds, resident_mib, serving
from sockets import Puts, Socket, ask, connected, ready

from rtdb_emulator.tree import Node, branch, leaf

SOCKETS = 8
PUTS = 1_000
ROUNDS = 5
LISTENERS = 2_000
WRITES = 1_000
SIBLINGS = 100_000
IDLE = 1_000
EMULATOR = [sys.executable, "-m", "rtdb_emulator", "--port", "0"]


async def main() -> None:
    print(f"sockets, the median of {ROUNDS} rounds:")
    with serving(EMULATOR) as (port, process):
        speed, cost = await transactions(port, process)
    print(f"  transactions' puts, {SOCKETS} clients  {speed:8,.0f} a second (wanted: 8,000)")
    goals.at_least("emulator: transactions' puts over sockets", speed, 8_000, "a second")
    print(f"    the emulator's own time      {cost * 1e6:8,.0f} µs of a processor for each")
    with serving(EMULATOR) as (port, process):
        took, cost = await crowd(port, process)
    print(f"  {LISTENERS:,} listeners of one node   {took * 1e3:8,.0f} ms until all have a write (wanted: 250)")
    goals.at_most(f"emulator: a write reaches {LISTENERS:,} listeners", took * 1e3, 250, "ms")
    print(f"    the emulator's own time      {cost * 1e3:8,.0f} ms of a processor for it")
    for kind, query in (("a listener", None), ("a query", {"i": ".key", "l": 10, "vf": "r"})):
        with serving(EMULATOR) as (port, process):
            empty, full = await below(port, process, query)
        print(f"  a put below {kind:10}       {empty * 1e6:8,.0f} µs of a processor")
        times = f"{full / empty:.2f} times, wanted: 1.20 at most"
        print(f"    among {SIBLINGS:,} children      {full * 1e6:8,.0f} µs ({times})")
        goals.at_most(f"emulator: a put below {kind} among {SIBLINGS:,} children", full / empty, 1.20, "times the CPU")
    with serving(EMULATOR) as (port, process):
        grown = await idle(port, process)
    print(f"  memory, {IDLE:,} idle sockets      {grown:8,.1f} MiB (wanted: 60 at most)")
    goals.at_most(f"emulator: memory of {IDLE:,} idle sockets", grown, 60, "MiB")


async def transactions(port: int, process: int) -> tuple[float, float]:
    """Puts a second of clients that each change a node of their own, which they listen to, by its hash; and the
    processor's seconds for each.
    """
    speeds, costs = [], []
    for number in range(ROUNDS):
        paths = [f"/bench/{number}/{client}" for client in range(SOCKETS)]
        clients = [await ready(port, Puts("bench", swaps(path, PUTS))) for path in paths]
        before, started = processor_seconds(process), time.perf_counter()
        for client in clients:
            client.start()
        await asyncio.gather(*(client.done for client in clients))
        speeds.append(SOCKETS * PUTS / (time.perf_counter() - started))
        costs.append((processor_seconds(process) - before) / (SOCKETS * PUTS))
    return statistics.median(speeds), statistics.median(costs)


def swaps(path: str, number: int) -> Iterator[bytes]:
    """A listen, then puts of a lock's record, each under the hash of the record before it."""
    records = [
        {"acquiredAt": at, "expiresAt": at + 60_000, "holder": "Zb3kq9", "instanceId": "api-00042-abc"} for at in (1, 2)
    ]
    hashes = [_node(record).hash for record in records]
    yield ask(1, "q", p=path, h="")
    known = ""
    for turn in range(number):
        yield ask(turn + 2, "p", p=path, d=records[turn % 2], h=known)
        known = hashes[turn % 2]


async def crowd(port: int, process: int) -> tuple[float, float]:
    """The seconds until every listener of one node has heard of a write, and the processor's seconds for that."""
    clients = [await connected(port, "bench") for _ in range(LISTENERS)]
    for client in clients:
        client.send(ask(1, "q", p="/node", h=""))
        await client.until(b'"r":1,')
    writer = await connected(port, "bench")
    took, costs = [], []
    for number in range(ROUNDS):
        before = processor_seconds(process)
        heard = [client.until(b'"n":%d}' % number) for client in clients]
        started = time.perf_counter()
        writer.send(ask(number + 1, "p", p="/node", d={"n": number, "holder": "Zb3kq9"}))
        took.append(max(await asyncio.gather(*heard)) - started)
        costs.append(processor_seconds(process) - before)
    for client in (*clients, writer):
        client.close()
    return statistics.median(took), statistics.median(costs)


async def below(port: int, process: int, query: dict[str, object] | None) -> tuple[float, float]:
    """The processor's seconds of a put below a listener of an empty node, and of one of a node with many children."""
    many = json.dumps({f"k{number:06}": number for number in range(SIBLINGS)})
    url = f"http://127.0.0.1:{port}/full.json?ns=bench"
    (await asyncio.to_thread(requests.put, url, data=many, timeout=60)).raise_for_status()
    tagged = {} if query is None else {"q": query, "t": 1}
    costs: dict[str, list[float]] = {"empty": [], "full": []}
    for _ in range(ROUNDS):
        for path, found in costs.items():
            listener = await connected(port, "bench")
            listener.send(ask(1, "q", p=f"/{path}", h="", **tagged))
            await listener.until(b'"r":1,')
            puts = (ask(turn + 1, "p", p=f"/{path}/k050000", d=turn) for turn in range(WRITES))
            writer = await ready(port, Puts("bench", puts))
            before = processor_seconds(process)
            writer.start()
            await writer.done
            found.append((processor_seconds(process) - before) / WRITES)
            listener.close()
    return statistics.median(costs["empty"]), statistics.median(costs["full"])


async def idle(port: int, process: int) -> float:
    """How many MiB more the emulator has for clients that say nothing."""
    first = await connected(port, "bench")
    before = resident_mib(process)
    clients: list[Socket] = [first]
    for _ in range(IDLE):
        clients.append(await connected(port, "bench"))
    grown = resident_mib(process) - before
    for client in clients:
        client.close()
    return grown


def _node(record: dict[str, str | int]) -> Node:
    return branch({key: leaf(value) for key, value in record.items()})


if __name__ == "__main__":
    asyncio.run(main())
