"""The acts as people see them, and who acts where nobody was authenticated."""

from __future__ import annotations

import getpass
import socket
from dataclasses import replace

from firecron.base.plain import plain
from firecron.lock.acts import KEPT, Act, read_act


def inspect_acts(nodes: dict[str, object], name: str | None = None) -> tuple[Act, ...]:
    """Return the newest acts, or those on this name, oldest first, with texts that are safe to print."""
    newest = sorted(nodes)[-KEPT:]
    acts = (_inspect(key, nodes[key]) for key in newest)
    return tuple(act for act in acts if name in (None, act.name))


def claimed_user() -> str:
    """Return who runs this process, as `user@host`. Both are what the machine says: a claim, and no proof."""
    try:
        user = getpass.getuser()
    except (ImportError, KeyError, OSError):
        user = "unknown"  # a container's user often has no name
    return f"{user}@{socket.gethostname()}"


def _inspect(key: str, node: object) -> Act:
    act = read_act(key, node)
    why = None if act.why is None else plain(act.why)
    return replace(act, key=plain(key), act=plain(act.act), name=plain(act.name), who=plain(act.who), why=why)
