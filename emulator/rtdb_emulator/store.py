"""All databases of one emulator, their newest operations and refusals, the coverage of their rules, and the large nodes
that wait to be freed.

The log of requests counts (`http.log`). The operations and refusals have the reasons too: each keeps what its rules
were evaluated with. So their lists are short. An operation is described when the emulator's page shows it; until then
it costs an entry in a queue.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias
from weakref import WeakValueDictionary

from rtdb_emulator.database import ADMIN, Access, Commit, Database
from rtdb_emulator.errors import BadRequest
from rtdb_emulator.functions import Functions
from rtdb_emulator.large import is_large
from rtdb_emulator.paths import is_namespace
from rtdb_emulator.rules import OPEN, Rules
from rtdb_emulator.rules.coverage import Coverage
from rtdb_emulator.rules.explain import Refused, explain
from rtdb_emulator.table import Members, Table
from rtdb_emulator.tree import Member, Node

logger = logging.getLogger("rtdb_emulator")


@dataclass(frozen=True, slots=True)
class RefusedRequest:
    """One operation that the rules of a namespace have denied.

    Args:
        namespace: The database's name.
        refused: The operation, with all values of the evaluation.
    """

    namespace: str
    refused: Refused

    @property
    def lines(self) -> list[str]:
        """The reason: which rule denied the operation, which part of the rule, and with which values."""
        return explain(self.refused)

    def __str__(self) -> str:
        return "\n".join(self.lines)


class Refusals:
    """The newest refusals in their order. Any thread may iterate or clear them.

    A refusal keeps at most 64 KiB of its operation (`Refused.bounded`), and the database's tree as it was then, which
    shares with later trees all that was not written since.

    Args:
        limit: The number of refusals that it holds.
    """

    def __init__(self, limit: int = 100) -> None:
        self._lock = threading.Lock()
        self._refused: deque[RefusedRequest] = deque(maxlen=limit)

    def add(self, refused: RefusedRequest) -> None:
        with self._lock:
            self._refused.append(refused)

    def clear(self) -> None:
        """Forget all refusals."""
        with self._lock:
            self._refused.clear()

    def of(self, namespace: str) -> list[RefusedRequest]:
        """Return the refusals of one namespace.

        Args:
            namespace: The database's name.
        """
        return [refused for refused in self if refused.namespace == namespace]

    def __len__(self) -> int:
        return len(self._refused)

    def __iter__(self) -> Iterator[RefusedRequest]:
        with self._lock:
            return iter(tuple(self._refused))


class Store:
    """All databases of one emulator. They begin with the same rules. A database exists from its first write, or from
    rules of its own, on.

    A database that clients only read or listen to is known as long as an object refers to it. `changed` notifies when a
    database is added or dropped.
    """

    def __init__(self, now: Callable[[], int], rules: Rules = OPEN) -> None:
        self.now = now
        self.refusals = Refusals()
        self.operations = Operations()
        self.changed = Notifier()
        self.discarded = Discarded()
        self.functions = Functions(now)
        self._totals: dict[str, tuple[Rules, Coverage]] = {}
        self._rules = rules
        self._lock = threading.Lock()
        self._databases: dict[str, Database] = {}
        self._known: WeakValueDictionary[str, Database] = WeakValueDictionary()

    def database(self, namespace: str) -> Database:
        """Return the database of that name. Raises BadRequest for a name that no database can have."""
        with self._lock:
            found = self._known.get(namespace)
            if found is None:
                if not is_namespace(namespace):
                    raise BadRequest(
                        f"Invalid database name {namespace!r}: it has 1 to 63 characters, which are letters, digits, "
                        "hyphens and underscores, and begins with a letter or a digit"
                    )
                found = self._known[namespace] = Database(namespace, self.now, self._rules, self)
            return found

    def names(self) -> list[str]:
        with self._lock:
            return sorted(self._databases)

    def drop(self, namespace: str) -> None:
        """Delete a database and its rules. Its listeners hear of it."""
        database = self.database(namespace)
        database.write((), None, ADMIN)
        database.set_rules(self._rules)
        with self._lock:
            database.has_begun = False
            self._databases.pop(namespace, None)
        self.changed.notify()

    def replace_rules(self, rules: Rules) -> None:
        """Replace the rules that databases begin with, also in those that have no rules of their own."""
        with self._lock:
            former, self._rules = self._rules, rules
            known = list(self._known.values())
        for database in known:
            database.follow_rules(former, rules)

    def keep(self, database: Database) -> None:
        with self._lock:
            self._databases[database.name] = database
        self.changed.notify()

    def replaced(self, node: Node) -> None:
        self.discarded.add(node)

    def triggered(self, database: Database, commit: Commit) -> None:
        self.functions.committed(database.name, commit)

    def total(self, rules: Rules) -> Coverage:
        # The caller may hold the lock. Adding to a dictionary is one step, and needs none.
        return self._totals.setdefault(rules.source, (rules, Coverage(rules.all)))[1]

    def totals(self) -> list[tuple[Rules, Coverage]]:
        """Return the coverage so far of each text of rules that a database had."""
        return list(self._totals.values())

    def refused(self, namespace: str, refused: Refused) -> None:
        self.refusals.add(RefusedRequest(namespace, refused))
        if logger.isEnabledFor(logging.INFO):
            logger.info("%s: %s", namespace, "\n".join(explain(refused)))


# --- the newest operations

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
    """The newest operations in their order, with rising numbers. `changed` notifies after each. Any thread may use it.

    Args:
        limit: The number of operations that it holds.
    """

    def __init__(self, limit: int = 200) -> None:
        self._lock = threading.Lock()
        self._newest: deque[tuple[int, Account]] = deque(maxlen=limit)
        self._number = 0
        self.changed = Notifier()

    def add(self, account: Account) -> None:
        """Remember an operation."""
        with self._lock:
            self._number += 1
            self._newest.append((self._number, account))
        self.changed.notify()

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


# --- the news of a change


class Notifier:
    """Calls all that wait for it. Any thread may notify; the calls run on that thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Callable[[], None]] = []

    def notify(self) -> None:
        with self._lock:  # after `waiting` ends, its call never runs
            for call in self._waiting:
                call()

    @contextmanager
    def waiting(self, call: Callable[[], None]) -> Iterator[None]:
        """Call `call` at each `notify`, until the block ends. It must not block, and not notify."""
        with self._lock:
            self._waiting.append(call)
        try:
            yield
        finally:
            with self._lock:
                self._waiting.remove(call)


# --- large nodes that were deleted
#
# Python frees an object together with all that only this object refers to. The end of 200,000 nodes at once takes a
# fifth of a second, in which no request is served. So the members of a large node that was deleted or replaced are kept
# for a moment, and let go of bucket by bucket.


class Discarded:
    """The nodes of one emulator that wait to be freed. Any thread may add one."""

    def __init__(self) -> None:
        self._waiting: deque[Members[Member]] = deque()
        self._wake: Callable[[], None] | None = None

    def attach(self, wake: Callable[[], None]) -> None:
        """Call `wake`, which must not block, when there is something to free, until `detach`."""
        self._wake = wake

    def detach(self) -> None:
        """Free all at once from here on."""
        self._wake = None
        self._waiting.clear()

    def add(self, node: Node) -> None:
        """Take a node that a write has deleted or replaced. A small one is left to its end."""
        wake = self._wake
        if wake is not None and node.is_deep and is_large(node):
            self._waiting.append(node.members)
            wake()

    def freeing(self) -> Generator[None]:
        """Free what waits, in steps."""
        while self._waiting:
            members = self._waiting.popleft()
            buckets = list(members.buckets) if isinstance(members, Table) else [members]
            del members
            while buckets:
                for member in buckets.pop().values():
                    if isinstance(member, Node) and member.is_deep:
                        self._waiting.append(member.members)
                    del member
                yield
