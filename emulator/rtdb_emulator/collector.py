"""Python's collector of cyclic garbage, and how it is kept away from a large tree.

A full collection visits all objects that could be in a cycle, and so every node of the tree. With 200,000 nodes that
holds everybody up for tens of milliseconds, and an import needs several: there is one whenever the objects have become
a quarter more. All of them are in vain. Nodes are immutable, so they are in no cycle, and their count of references
frees them.

So the command, whose process is the emulator's own (`own`), lets the collector look at new objects only, and sets aside
(`set_aside`) what is left of them after each slice of a large body. What is set aside is still freed by its count of
references. A cycle in it is not: that costs a few objects for each connection that was open during an import. In a
process of others, such as a test's, whose cycles are not ours to keep, none of this happens. Nodes that come by many
small writes stay in sight.
"""

from __future__ import annotations

import gc
from threading import Event
from typing import Final

# Objects of these generations are new: none of them is as old as two collections.
_NEW: Final = 1

_is_ours = Event()


def own() -> None:
    """Say that this process is the emulator's own, and set aside what there is."""
    _is_ours.set()
    gc.freeze()


def set_aside() -> None:
    """Keep the collector from looking again at the objects that there are now, if the process is the emulator's own."""
    if _is_ours.is_set():
        gc.collect(_NEW)
        gc.freeze()
