"""All databases of one emulator, with the refusals and the coverage of their rules, and the newest operations."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from weakref import WeakValueDictionary

from rtdb_emulator.bell import Bell
from rtdb_emulator.database import ADMIN, Database
from rtdb_emulator.errors import BadRequest
from rtdb_emulator.operations import Operations
from rtdb_emulator.paths import is_namespace
from rtdb_emulator.rules import OPEN, Rules
from rtdb_emulator.rules.coverage import Coverage
from rtdb_emulator.rules.explain import Refused, explain

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

    A database that clients only read or listen to is known as long as an object refers to it. `changed` rings when a
    database is added or dropped.
    """

    def __init__(self, now: Callable[[], int], rules: Rules = OPEN) -> None:
        self.now = now
        self.refusals = Refusals()
        self.operations = Operations()
        self.changed = Bell()
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
        self.changed.ring()

    def keep(self, database: Database) -> None:
        with self._lock:
            self._databases[database.name] = database
        self.changed.ring()

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
