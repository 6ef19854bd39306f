"""Servers in processes of their own, for the benchmarks."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager


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
