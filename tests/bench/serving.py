"""Servers in processes of their own, for the benchmarks."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def serving(command: list[str]) -> Iterator[tuple[int, int]]:
    """The port and the process id of a server that says in its first line where it listens."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        match = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())
        if match is None:
            raise RuntimeError(f"{command} did not say where it listens")
        yield int(match[1]), process.pid
    finally:
        process.terminate()
        process.wait(timeout=10)


def resident_mib(process: int) -> float:
    told = subprocess.run(["ps", "-o", "rss=", "-p", str(process)], check=True, capture_output=True, text=True).stdout
    return int(told) / 1024


def peak_mib(process: int) -> float:
    """The most that was resident so far; where the system doesn't tell, what is now."""
    status = Path(f"/proc/{process}/status")
    if not status.exists():
        return resident_mib(process)
    return int(status.read_text().partition("VmHWM:")[2].split()[0]) / 1024


def processor_seconds(process: int) -> float:
    """What the process's threads have used of processors so far."""
    threads = [*Path(f"/proc/{process}/task").glob("*/schedstat")]
    if threads:
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9
    told = subprocess.run(["ps", "-o", "time=", "-p", str(process)], check=True, capture_output=True, text=True).stdout
    minutes, _, seconds = told.strip().rpartition(":")
    return sum(60.0**power * float(part) for power, part in enumerate(reversed([*minutes.split(":"), seconds])))
