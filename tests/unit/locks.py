"""The locks of firecron's parts, for tests of what they are for.

A lock is private, and its effect shows only while another thread has it. This module is the one way of the tests to it.
"""

from __future__ import annotations

import threading
from typing import cast


def lock_of(thing: object, name: str = "_lock") -> threading.Lock:
    """The lock that keeps changes of the thing apart."""
    return cast("threading.Lock", vars(thing)[name])


def replace_lock(thing: object, lock: object, name: str = "_lock") -> None:
    """Put another lock, or condition, in the place of the thing's own."""
    assert name in vars(thing)
    setattr(thing, name, lock)
