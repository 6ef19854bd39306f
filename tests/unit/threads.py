"""Real threads in tests: how long one is waited for before that is a failure."""

from __future__ import annotations

import threading

PATIENCE = 20


def ended(thread: threading.Thread) -> bool:
    thread.join(PATIENCE)
    return not thread.is_alive()
