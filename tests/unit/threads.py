"""Real threads in tests: how long one is waited for before that is a failure."""

from __future__ import annotations

import threading

PATIENCE = 20


def named(name: str) -> set[threading.Thread]:
    """The threads of this name that are alive."""
    return {thread for thread in threading.enumerate() if thread.name == name}


def ended(thread: threading.Thread) -> bool:
    thread.join(PATIENCE)
    return not thread.is_alive()


def ended_stops() -> bool:
    """Whether the stops that were left to threads of their own have come to their end."""
    return all(map(ended, named("firecron-stop")))
