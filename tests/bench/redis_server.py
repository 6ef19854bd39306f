"""A redis-server of its own for the time of a comparison, where this machine has one."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

MISSING = "left out: needs redis-server on the PATH, and pip install redis"


@contextmanager
def redis_server() -> Iterator[int | None]:
    """Yield the server's port once it answers; None if there is no server, or no client of it."""
    server: str | None = shutil.which("redis-server")
    try:
        import redis
    except ModuleNotFoundError:
        server = None
    if server is None:
        yield None
        return
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([server, "--port", str(port), "--save", "", "--logfile", "/dev/null"])
    try:
        for _ in range(100):
            try:
                redis.Redis(port=port).ping()
                break
            except redis.ConnectionError:
                time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait(timeout=10)
