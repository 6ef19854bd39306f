"""How fast the emulator is: `make bench`, or `python tests/bench/emulator.py`.

The emulator runs in a process of its own, as a user starts it; the load comes from raw sockets in this one.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import goals
import requests
from emulator_sockets import main as sockets
from load import request, run
from serving import peak_mib, resident_mib, serving

from rtdb_emulator.tree import Node, branch, leaf

CONNECTIONS = 8
PUTS = 1_000
ROUNDS = 5
SIBLINGS = 100_000
MEMORY_WRITES = 100_000
MEMORY_NODES = 1_000
CHILDREN = 200_000

_START = """
import time
started = time.perf_counter()
from rtdb_emulator import Emulator
for _ in range(2):
    with Emulator():
        print(time.perf_counter() - started)
    started = time.perf_counter()
"""


async def main() -> None:
    print(f"emulator on {os.cpu_count()} processors, the fastest of {ROUNDS} starts:")
    serves, mib = starts()
    print(f"  the command serves after  {serves * 1e3:8,.0f} ms, with {mib:.0f} MiB of memory")
    once, again = starts_in_process()
    print(f"  in a process, once        {once * 1e3:8,.0f} ms with its import")
    print(f"    each further emulator   {again * 1e3:8,.1f} ms")
    print(f"emulator, {CONNECTIONS} keep-alive connections, the median of {ROUNDS} rounds:")
    with serving([sys.executable, "-m", "rtdb_emulator", "--port", "0"]) as (port, _):
        speed = await conditional_puts(port)
        print(f"  conditional PUTs          {speed:8,.0f} a second (wanted: 2,000)")
    goals.at_least("emulator: conditional PUTs", speed, 2_000, "a second")
    ceiling = await generator_ceiling()
    print(f"  the generator by itself   {ceiling:8,.0f} a second (against a server that answers without a look)")
    with serving([sys.executable, "-m", "rtdb_emulator", "--port", "0"]) as (port, _):
        alone, among = await leaf_puts(port)
    print(f"  a leaf PUT, alone         {alone * 1e6:8,.0f} µs")
    print(f"  among {SIBLINGS:,} siblings    {among * 1e6:8,.0f} µs ({among / alone:.2f} times, wanted: 1.10 at most)")
    goals.at_most(f"emulator: a PUT among {SIBLINGS:,} siblings", among / alone, 1.10, "times as long")
    with serving([sys.executable, "-m", "rtdb_emulator", "--port", "0"]) as (port, process):
        before, after = await memory(port, process)
    print(
        f"  memory, {MEMORY_NODES:,} nodes      {before:8,.1f} MiB after {MEMORY_WRITES // 5:,} writes, "
        f"{after:,.1f} MiB after {MEMORY_WRITES:,}"
    )
    record = {"active": True, "bio": "b" * 90, "name": "n" * 40, "n": 1}
    for shape, child in (("texts", "x" * 190), ("objects", record)):
        with serving([sys.executable, "-m", "rtdb_emulator", "--port", "0"]) as (port, process):
            await imports(port, process, shape, child)
    await sockets()


def starts() -> tuple[float, float]:
    """The seconds from the command's start to its first line, which says that it serves; and its resident MiB then."""
    found = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        with serving([sys.executable, "-m", "rtdb_emulator", "--port", "0"]) as (_, process):
            found.append((time.perf_counter() - started, resident_mib(process)))
    return min(found)


def starts_in_process() -> tuple[float, float]:
    """The seconds of a process's first emulator with its import, and those of another one."""
    once = []
    for _ in range(ROUNDS):
        finished = subprocess.run([sys.executable, "-c", _START], check=True, capture_output=True, text=True)
        once.append([float(seconds) for seconds in finished.stdout.split()])
    return min(first for first, _ in once), min(again for _, again in once)


async def conditional_puts(port: int) -> float:
    """The median of PUTs a second, each conditional on the ETag of the one before."""
    speeds = []
    for number in range(ROUNDS):
        streams = [swaps(f"/bench/{number}/{connection}.json?ns=bench", PUTS) for connection in range(CONNECTIONS)]
        speeds.append((await run("127.0.0.1", port, streams))[0])
    return statistics.median(speeds)


def swaps(target: str, number: int) -> Iterator[bytes]:
    """PUTs of a lock's record, each under the ETag of the record before it."""
    records = [
        {"acquiredAt": at, "expiresAt": at + 60_000, "holder": "Zb3kq9", "instanceId": "api-00042-abc"} for at in (1, 2)
    ]
    bodies = [json.dumps(record).encode() for record in records]
    etags = [_node(record).hash for record in records]
    etag = "null_etag"
    for turn in range(number):
        yield request("PUT", target, bodies[turn % 2], f"if-match: {etag}\r\n")
        etag = etags[turn % 2]


async def leaf_puts(port: int) -> tuple[float, float]:
    """The median time of a PUT of a leaf that has no siblings, and of one that has many; rounds alternate."""
    body = json.dumps({f"k{number}": number for number in range(SIBLINGS)}).encode()
    await run("127.0.0.1", port, [iter([request("PUT", "/many.json?ns=bench", body)])])
    times: dict[str, list[float]] = {"alone": [], "many": []}
    for _ in range(ROUNDS):
        for parent, latencies in times.items():
            puts = (request("PUT", f"/{parent}/k7.json?ns=bench", b"%d" % number) for number in range(PUTS))
            latencies.append(statistics.median((await run("127.0.0.1", port, [puts]))[1]))
    return statistics.median(times["alone"]), statistics.median(times["many"])


async def memory(port: int, process: int) -> tuple[float, float]:
    """The emulator's resident MiB after a fifth of the writes, and after all of them."""
    numbers = count()

    async def write(number: int) -> float:
        puts = (
            request("PUT", f"/n/{next(numbers) % MEMORY_NODES}.json?ns=bench", b'{"a":%d}' % turn)
            for turn in range(number)
        )
        await run("127.0.0.1", port, [puts])
        return resident_mib(process)

    return await write(MEMORY_WRITES // 5), await write(MEMORY_WRITES * 4 // 5)


async def imports(port: int, process: int, shape: str, child: object) -> None:
    """Import a large file as the Firebase CLI does, while another client reads all the time."""
    body = json.dumps({f"k{number:06}": child for number in range(CHILDREN)}).encode()
    over = asyncio.Event()

    def reads() -> Iterator[bytes]:
        while not over.is_set():
            yield request("GET", "/other.json?ns=bench")

    beside = asyncio.ensure_future(run("127.0.0.1", port, [reads()]))
    took = await asyncio.to_thread(ask, port, "PUT", "disableTriggers=true&writeSizeLimit=unlimited", body)
    over.set()
    slowest = max((await beside)[1])
    print(f"  import, {len(body) / 1e6:.0f} MB, {CHILDREN:,} {shape}")
    print(f"    took                    {took:8.2f} s (wanted: 3)")
    print(f"    memory                  {peak_mib(process):8,.0f} MiB at most (wanted: 300)")
    print(f"    another client waited   {slowest * 1e3:8,.0f} ms at most (wanted: 50)")
    goals.at_most(f"emulator: an import of {shape}", took, 3, "s")
    goals.at_most(f"emulator: memory of an import of {shape}", peak_mib(process), 300, "MiB")
    goals.at_most(f"emulator: another client during an import of {shape}", slowest * 1e3, 50, "ms")
    for name, query in (("shallow", "shallow=true"), ("ETag of the root", "print=silent")):
        waited = await asyncio.to_thread(ask, port, "GET", query) * 1e3
        print(f"    {name:24}{waited:8,.0f} ms (wanted: 200)")
        goals.at_most(f"emulator: {name} after an import of {shape}", waited, 200, "ms")


def ask(port: int, method: str, query: str, body: bytes = b"") -> float:
    """The seconds that one request of the root takes."""
    headers = {"authorization": "Bearer owner", **({"X-Firebase-ETag": "true"} if query == "print=silent" else {})}
    with requests.Session() as session:
        session.trust_env = False
        started = time.perf_counter()
        url = f"http://127.0.0.1:{port}/.json?ns=bench&{query}"
        answer = session.request(method, url, data=body, headers=headers, timeout=120)
        took = time.perf_counter() - started
    answer.raise_for_status()
    return took


async def generator_ceiling() -> float:
    """Requests a second that the generator reaches when the server costs nothing."""
    with serving([sys.executable, str(Path(__file__).with_name("nothing.py"))]) as (port, _):
        streams = [swaps("/bench.json?ns=bench", PUTS) for _ in range(CONNECTIONS)]
        return (await run("127.0.0.1", port, streams))[0]


def _node(record: dict[str, str | int]) -> Node:
    return branch({key: leaf(value) for key, value in record.items()})


if __name__ == "__main__":
    asyncio.run(main())
