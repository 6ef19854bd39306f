"""The newest operations on the databases and their verdicts, for the emulator's page.

The log of requests counts. This list also has the reasons: a refused operation keeps what its rules were evaluated
with. So the list is short. An operation is described when a page shows it; until then it costs an entry in a queue.
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

# The most characters of a reason or a path: an operation takes a few lines of a screen.
_LONGEST = 2_000
_CUT = "…"

Verdict: TypeAlias = Literal["allowed", "denied", "stale", "refused", "failed", "dropped"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation and its verdict.

    Args:
        at: The time in milliseconds, of this machine's clock: a test may count the calls of the emulator's clock.
        namespace: The database.
        how: The method of HTTP, or the action on a socket.
        path: The path, decoded.
        access: The rights of the client; None if its credential can't be read.
        verdict: `denied` by rules or for its credentials, `stale` if its condition didn't hold, `refused` as a bad
            request; `failed` and `dropped` come from faults.
        detail: The rest of the request, such as its query.
        text: The error that the client got.
        refused: The denied operation, with what its rules were evaluated with.
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


# Describes an operation when a page shows it.
Account: TypeAlias = Callable[[], Operation]


class Operations:
    """The newest operations in their order, with rising numbers. `changed` rings after each. Any thread may use it.

    Args:
        limit: The number of operations that it holds.
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
        """Return the operations after this number that the list still holds, oldest first, with their numbers.

        Args:
            number: The number of an operation; 0 for all.
        """
        with self._lock:
            newer = [entry for entry in self._newest if entry[0] > number]
        return [(number, account()) for number, account in newer]


def _who(access: Access | None) -> str:
    if access is None:
        return "an unreadable credential"
    if access.admin:
        return "admin"
    if access.auth is None:
        return "a client not signed in"
    uid = access.auth.get("uid") if isinstance(access.auth, dict) else None
    return _cut(uid) if isinstance(uid, str) else f"auth = {json.dumps(access.auth)[:80]}"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + _CUT
