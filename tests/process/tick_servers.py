"""Real servers for the tests: started, asked for a page, and looked at after their end."""

from __future__ import annotations

import re
import socket
from typing import Any

import requests
from tests.process.tick_processes import BOUND, Process, Ticking, until

APPS = "tests.process.apps"


def page(process: Process) -> dict[str, Any]:
    """What the server answers at the address that its log names."""
    pattern = re.compile(
        r"(?:running on|Listening at:|Running on|development server at) (http://127\.0\.0\.1:[1-9]\d*)"
    )
    until(lambda: pattern.search(process.log) is not None, "a server that says where it listens")
    found = pattern.search(process.log)
    assert found is not None
    return page_at(found[1])


def page_at(url: str) -> dict[str, Any]:
    answer: dict[str, Any] = requests.get(url, timeout=BOUND / 2).json()
    return answer


def free_port() -> int:
    """A port for a server that can't choose one and say which."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


def assert_connections_closed(ticks: Ticking) -> None:
    """Each run of Django's jobs found the connection closed, also where the same thread had run one before."""
    for job in ("queries", "queries-async"):
        threads: list[object] = []

        def is_seen(job: str = job, threads: list[object] = threads) -> bool:
            threads[:] = [line["thread"] for line in ticks.lines("connection", job=job)]
            return len(set(threads)) < len(threads)

        until(is_seen, f"two runs of {job} on one thread")
        assert ticks.lines("connection", job=job, was_open=True) == []


def assert_clean_end(ticks: Ticking, *, outcome: str = "interrupted") -> None:
    """Nothing is left behind: the run in flight was ended and released, and no instance is listed."""
    ticks.assert_kept("short")
    runs = ticks.assert_kept("work")
    assert ticks.history("work")[runs[-1].slot]["outcome"] == outcome
    for job in ("short", "work"):
        assert "releasedAt" in ticks.lock(job)
    assert ticks.instances() == set()
