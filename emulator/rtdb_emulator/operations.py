"""The newest operations on the databases and their verdicts, for whoever looks at them.

Unlike the log of requests, which counts, this remembers why: what was refused keeps what its rules were asked with. So
it is short. An operation is described when somebody looks, and costs an entry in a queue until then.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from rtdb_emulator.bell import Bell
from rtdb_emulator.database import Access
from rtdb_emulator.rules.explain import Refused, explain

# What a reason may have of characters, and a path: an operation is a line or a few on a screen.
_LONGEST = 2_000
_CUT = "…"

Verdict: TypeAlias = Literal["allowed", "denied", "stale", "refused", "failed", "dropped"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation that has its verdict.

    Args:
        at: When, in milliseconds of this machine's clock: a test may count how often the emulator's is asked.
        namespace: On which database.
        how: What was asked: a method of HTTP, or an action on a socket.
        path: Where, decoded.
        access: Who asked; None where no credential could be read.
        verdict: `denied` by rules or for its credentials, `stale` if its condition didn't hold, `refused` as a bad
            request; `failed` and `dropped` are the work of faults.
        detail: What else was asked, such as the query.
        text: The error that the client got.
        refused: What the rules have denied.
    """

    at: int
    namespace: str
    how: str
    path: str
    access: Access | None
    verdict: Verdict
    detail: str = ""
    text: str = ""
    refused: Refused | None = None

    def as_json(self) -> dict[str, object]:
        why = explain(self.refused) if self.refused is not None else self.text.splitlines()
        return {
            "at": self.at,
            "how": self.how,
            "path": _cut(self.path),
            "detail": _cut(self.detail),
            "who": _who(self.access),
            "verdict": self.verdict,
            "why": [_cut(line) for line in why[:40]],
        }


# Describes an operation, when somebody looks.
Account: TypeAlias = Callable[[], Operation]


class Operations:
    """The newest operations in their order, with numbers that rise; `changed` rings after each. For any thread.

    Args:
        limit: How many it holds.
    """

    def __init__(self, limit: int = 200) -> None:
        self._lock = threading.Lock()
        self._newest: deque[tuple[int, Account]] = deque(maxlen=limit)
        self._number = 0
        self.changed = Bell()

    def add(self, account: Account) -> None:
        """Remember an operation."""
        with self._lock:
            self._number += 1
            self._newest.append((self._number, account))
        self.changed.ring()

    def since(self, number: int) -> list[tuple[int, Operation]]:
        """Those after this number that are still known, oldest first."""
        with self._lock:
            newer = [entry for entry in self._newest if entry[0] > number]
        return [(number, account()) for number, account in newer]


def _who(access: Access | None) -> str:
    if access is None:
        return "an unreadable credential"
    if access.admin:
        return "admin"
    if access.auth is None:
        return "signed out"
    uid = access.auth.get("uid") if isinstance(access.auth, dict) else None
    return _cut(uid) if isinstance(uid, str) else f"auth = {json.dumps(access.auth)[:80]}"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + _CUT
