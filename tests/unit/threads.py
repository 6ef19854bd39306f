"""Real threads in tests: how long one is waited for before that is a failure."""

from __future__ import annotations

import threading

PATIENCE = 20


def ended(thread: threading.Thread) -> bool:
    thread.join(PATIENCE)
    return not thread.is_alive()


def ended_stops() -> bool:
    """Whether the stops that were left to threads of their own have come to their end."""
    return all(ended(thread) for thread in threading.enumerate() if thread.name == "firecron-stop")
