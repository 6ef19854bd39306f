"""One database (a namespace): its tree, its rules, the one place where a write is decided, and what a write changes.

Every write goes through `Database._commit`, under one lock: permission, validation, then the new root and the
listeners, in that order. For a conditional write the ETag is compared before that: a stale write fails as stale, even
if the rules would deny it. Readers take no lock: a root never changes. Listeners run under the lock, so each of them
sees every commit once and in order; they must not block. `seeing` says what a commit changes at one place: streams and
sockets make their events of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import Literal, Protocol, TypeAlias

from rtdb_emulator.errors import BadRequest, Denied, Refusal
from rtdb_emulator.jsondata import INVALID_OBJECT, parse, parse_priority
from rtdb_emulator.large import are_large
from rtdb_emulator.paths import PRIORITY, check_depth, split_keys
from rtdb_emulator.query import Query
from rtdb_emulator.rules import OPEN, Rules, Write
from rtdb_emulator.rules.authorize import Request
from rtdb_emulator.rules.coverage import Coverage
from rtdb_emulator.rules.explain import Refused
from rtdb_emulator.tree import EMPTY, Node, Path, comparing, leaf

NULL_ETAG = "null_etag"


def etag(node: Node) -> str:
    return node.hash or NULL_ETAG


@dataclass(frozen=True, slots=True)
class Access:
    """The rights of a client: an admin's, which no rule limits, or `auth` as the rules see it (None: signed out)."""

    admin: bool
    auth: object | None = None


ADMIN = Access(admin=True)
SIGNED_OUT = Access(admin=False)


class PreconditionFailed(Refusal):
    """`if-match` names another state of the node than `current`."""

    def __init__(self, current: Node) -> None:
        super().__init__("if-match names another state of the node")
        self.current = current


@dataclass(frozen=True, slots=True)
class Change:
    """One location of a write: its path, the value that was sent, and whether that is only the node's priority.

    `replaced` is the node that was there before; None if only its priority changes.
    """

    path: Path
    sent: Node
    priority_only: bool = False
    replaced: Node | None = None

    def apply(self, root: Node) -> Node:
        if self.priority_only:
            return root.put(self.path, root.at(self.path).with_priority(self.sent.value))
        return root.put(self.path, self.sent)


@dataclass(frozen=True, slots=True)
class Commit:
    """A write that happened: the tree before and after it, its changes (`patch`: of one PATCH at `path`), and whose."""

    before: Node
    after: Node
    path: Path
    changes: tuple[Change, ...]
    patch: bool
    access: Access = ADMIN


class Listener(Protocol):
    @property
    def watching(self) -> int:
        """The number of listeners that this one stands for."""

    def committed(self, commit: Commit) -> None: ...

    def rules_changed(self) -> None: ...


class Owner(Protocol):
    """The owner of the databases. A database calls it when something happens in it."""

    def keep(self, database: Database) -> None:
        """The database has its first write, or rules of its own."""

    def total(self, rules: Rules) -> Coverage:
        """The coverage that all databases with these rules add to."""

    def refused(self, namespace: str, refused: Refused) -> None:
        """The rules of this namespace have denied an operation."""

    def replaced(self, node: Node) -> None:
        """A write has deleted or replaced this node."""

    def triggered(self, database: Database, commit: Commit) -> None:
        """A write may trigger functions. Called inside the write."""


class Database:
    """A namespace. `now` is the server's clock in milliseconds; `owner` is its owner."""

    def __init__(
        self,
        name: str,
        now: Callable[[], int],
        rules: Rules = OPEN,
        owner: Owner | None = None,
    ) -> None:
        self.name = name
        self.root = EMPTY
        self._owner = owner
        self._use(rules)
        self._now = now
        self._lock = threading.Lock()
        self._listeners: list[Listener] = []
        self.has_begun = False

    def read(self, path: Path, access: Access, query: Query | None = None) -> Node:
        """The node at a path (for `…/.priority`: its priority). Raises Denied, and BadRequest for a missing index."""
        root = self.root
        self._check_read(root, path, access, query)
        if query is not None and not self.has_index(path, query):
            raise BadRequest(
                f'Index not defined, add ".indexOn": "{query.index}", for path "/{"/".join(path)}", to the rules'
            )
        return _at(root, path)

    def has_index(self, path: Path, query: Query | None) -> bool:
        """Whether the rules declare the index that a query at this path needs, if it needs any."""
        return query is None or query.index is None or query.index in self.rules.index_on(path)

    def check_read(self, path: Path, access: Access, query: Query | None = None) -> None:
        self._check_read(self.root, path, access, query)

    def write(
        self,
        path: Path,
        data: object,
        access: Access,
        *,
        if_match: str | None = None,
        rules_first: bool = False,
        shows_current: bool = True,
        triggers: bool = True,
    ) -> Node:
        """Put `data` at a path (None: delete), if the ETag there is `if_match`. Return the node that is there then.

        With `rules_first` the permission is checked before the ETag. `shows_current` says that the answer to a stale
        write shows the current node: then the client needs the right to read it. Without
        `triggers` the write triggers no function.
        """
        with self._lock:
            now = self._now()
            changes = (self._change(path, data, now),)
            if if_match is not None:
                if rules_first:
                    self._check_permission(self._after(changes), changes, access, now)
                self._check_match(path, if_match, access if shows_current else ADMIN)
            return _at(self._commit(path, changes, access, now, triggers=triggers), path)

    def update(
        self, path: Path, data: Mapping[str, object], access: Access, *, triggers: bool = True
    ) -> dict[str, Node]:
        """Write all of these paths below `path`, or none of them. Return the node that is at each of them then."""
        targets = _targets(path, data)
        with self._lock:
            now = self._now()
            changes = tuple(self._change(targets[key], item, now) for key, item in data.items())
            after = self._commit(path, changes, access, now, patch=True, triggers=triggers)
            return {key: _at(after, target) for key, target in targets.items()}

    def check_write(self, path: Path, data: object, access: Access) -> None:
        """Raise Denied if `write` would for want of permission; write nothing."""
        with self._lock:
            now = self._now()
            changes = (self._change(path, data, now),)
            self._check_permission(self._after(changes), changes, access, now)

    def check_possible(self, path: Path, data: object, access: Access) -> None:
        """Raise what `write` would raise, and write nothing."""
        self._check_possible({path: data}, access)

    def check_possible_update(self, path: Path, data: Mapping[str, object], access: Access) -> None:
        """Raise what `update` would raise, and write nothing."""
        targets = _targets(path, data)
        self._check_possible({targets[key]: item for key, item in data.items()}, access)

    @property
    def listeners(self) -> int:
        """The number of listeners now."""
        return sum(listener.watching for listener in tuple(self._listeners))

    def set_rules(self, rules: Rules) -> None:
        with self._lock:
            self._begin()
            self._use(rules)
            for listener in tuple(self._listeners):
                listener.rules_changed()

    def follow_rules(self, former: Rules, rules: Rules) -> None:
        """Use these rules if the database has the former ones, and none of its own."""
        with self._lock:
            if self.rules is former:
                self._use(rules)
                for listener in tuple(self._listeners):
                    listener.rules_changed()

    @contextmanager
    def listening(self, listener: Listener) -> Iterator[Node]:
        """Call `listener` for every commit after the tree that this yields, until the block ends."""
        with self.locked() as root:
            self.attach(listener)
        try:
            yield root
        finally:
            with self.locked():
                self.detach(listener)

    @contextmanager
    def locked(self) -> Iterator[Node]:
        """Yield the tree; no write happens until the block ends. Call `attach` and `detach` inside it."""
        with self._lock:
            yield self.root

    def discard_after(self, commit: Commit) -> None:
        """Free what a write has deleted, in steps. A listener that keeps the commit for longer calls this again."""
        if self._owner is not None:
            for change in commit.changes:
                if change.replaced is not None:
                    self._owner.replaced(change.replaced)

    def attach(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def detach(self, listener: Listener) -> None:
        self._listeners.remove(listener)

    def _use(self, rules: Rules) -> None:
        self.rules = rules
        self.coverage = Coverage(rules.all, None if self._owner is None else self._owner.total(rules))

    def _begin(self) -> None:
        if not self.has_begun:
            self.has_begun = True
            if self._owner is not None:
                self._owner.keep(self)

    def _check_read(self, root: Node, path: Path, access: Access, query: Query | None, why_read: str = "") -> None:
        if access.admin:
            return
        facts = query.facts if query else None
        real, auth, now = _real(path), access.auth, self._now()
        request = self.rules.request(root, None, auth=auth, now=now, coverage=self.coverage)
        if not request.may_read(real, facts):
            raise self._denied(Refused("read", real, self.rules, root, None, (), auth, now, facts, why_read))

    def _denied(self, refused: Refused) -> Denied:
        refused = refused.bounded()
        if self._owner is not None:
            self._owner.refused(self.name, refused)
        return Denied(refused=refused)

    def _change(self, path: Path, data: object, now: int) -> Change:
        real = _real(path)
        check_depth(len(real))
        existing = self.root.at(real)
        if real == path:
            return Change(path, parse(data, now=now, existing=existing, depth=len(path)), replaced=existing)
        priority = parse_priority(data, now=now, existing=existing.priority)
        return Change(real, EMPTY if priority is None else leaf(priority), priority_only=True)

    def _check_match(self, path: Path, if_match: str, access: Access) -> None:
        current = _at(self.root, path)
        if if_match != etag(current):
            # The answer shows the current value; a client without the right to read must not learn it.
            self._check_read(self.root, path, access, None, "its if-match is stale, and the answer would show the node")
            raise PreconditionFailed(current)

    def _commit(
        self,
        path: Path,
        changes: tuple[Change, ...],
        access: Access,
        now: int,
        *,
        patch: bool = False,
        triggers: bool = True,
    ) -> Node:
        after = self._after(changes)
        self._check_permission(after, changes, access, now)
        self._check_valid(after, changes, access, now)
        self._begin()
        commit = Commit(self.root, after, path, changes, patch, access)
        self.root = after
        for listener in tuple(self._listeners):
            listener.committed(commit)
        if triggers and self._owner is not None:
            self._owner.triggered(self, commit)
        self.discard_after(commit)
        return after

    def _after(self, changes: tuple[Change, ...]) -> Node:
        """Return the tree as the changes would make it."""
        after = self.root
        # Priorities come last: a priority is for the value that the same request may make by writing below it.
        for change in sorted(changes, key=attrgetter("priority_only")):
            after = change.apply(after)
        return after

    def _check_permission(self, after: Node, changes: tuple[Change, ...], access: Access, now: int) -> None:
        if access.admin:
            return
        writes = _writes(changes)
        if not all(map(self._request(after, access, now).grants_write, writes)):
            raise self._denied(self._refused("write", after, writes, access, now))

    def _check_valid(self, after: Node, changes: tuple[Change, ...], access: Access, now: int) -> None:
        if access.admin:
            return
        writes = _writes(changes)
        if not all(map(self._request(after, access, now).is_valid, writes)):
            raise self._denied(self._refused("validate", after, writes, access, now))

    def _request(self, after: Node, access: Access, now: int) -> Request:
        return self.rules.request(self.root, after, auth=access.auth, now=now, coverage=self.coverage)

    def _check_possible(self, data: Mapping[Path, object], access: Access) -> None:
        with self._lock:
            now = self._now()
            changes = tuple(self._change(target, item, now) for target, item in data.items())
            after = self._after(changes)
            self._check_permission(after, changes, access, now)
            self._check_valid(after, changes, access, now)

    def _refused(
        self, step: Literal["write", "validate"], after: Node, writes: tuple[Write, ...], access: Access, now: int
    ) -> Refused:
        path = writes[0].path if len(writes) == 1 else _common([write.path for write in writes])
        return Refused(step, path, self.rules, self.root, after, writes, access.auth, now)


def _real(path: Path) -> Path:
    return path[:-1] if path[-1:] == (PRIORITY,) else path


def _at(root: Node, path: Path) -> Node:
    real = _real(path)
    node = root.at(real)
    if real == path:
        return node
    return EMPTY if node.priority is None else leaf(node.priority)


def _writes(changes: tuple[Change, ...]) -> tuple[Write, ...]:
    """Return the changes as the rules see them."""
    return tuple(Write(change.path, EMPTY if change.priority_only else change.sent) for change in changes)


def _common(paths: Sequence[Path]) -> Path:
    """The longest path that all of these begin with."""
    first, last = min(paths), max(paths)
    length = next((number for number, keys in enumerate(zip(first, last, strict=False)) if keys[0] != keys[1]), None)
    return first[: min(len(first), len(last)) if length is None else length]


def _targets(path: Path, data: Mapping[str, object]) -> dict[str, Path]:
    if path != _real(path):
        raise BadRequest(f"Invalid path: {PRIORITY} has no children")
    try:
        targets = {key: (*path, *split_keys(key)) for key in data}
    except BadRequest:
        raise BadRequest(INVALID_OBJECT) from None
    ordered = sorted(targets.items(), key=lambda item: item[1])
    for (above, shorter), (below, longer) in pairwise(ordered):
        if longer[: len(shorter)] == shorter:
            raise BadRequest(f"Invalid data; path '{above}' is ancestor of, or the same as, path '{below}'.")
    return targets


# --- what a commit changes at one place: the smallest change
#
# It is found out inside the commit where that is quick, else in steps after it, which look at nothing but the two trees
# of the commit.


@dataclass(frozen=True, slots=True)
class Put:
    """The node at this path has changed to `node`."""

    path: Path
    node: Node


@dataclass(frozen=True, slots=True)
class Merge:
    """The nodes at these paths below `path` have changed."""

    path: Path
    nodes: Mapping[Path, Node]


Seen: TypeAlias = Put | Merge

# The most changes that are looked at between two steps, and the most children that a window moves one by one.
MOST_CHANGES = 200


def takes_long(place: Path, commit: Commit) -> bool:
    """Return whether it takes long to find what a commit changes at or below a place."""
    if len(commit.changes) > MOST_CHANGES:
        return True
    written = [path for change in commit.changes if (path := _written(place, change)) is not None]
    return are_large(root.at(path) for path in written for root in (commit.before, commit.after))


def seeing(place: Path, commit: Commit) -> Generator[None, None, Seen | None]:
    """Return the change at or below a place, found out in steps; None if nothing there has changed."""
    changes = []
    for number, change in enumerate(commit.changes, 1):
        written = _written(place, change)
        if written is not None and not (yield from comparing(commit.before.at(written), commit.after.at(written))):
            changes.append(change)
        if number % MOST_CHANGES == 0:
            yield
    if not changes:
        return None
    if any(is_within(place, change.path) for change in changes):
        return Put(place, commit.after.at(place))
    if not commit.patch:
        (change,) = changes
        return Put(change.path, commit.after.at(change.path))
    if not is_within(commit.path, place):
        return merged(place, changes, commit.after)
    return merged(commit.path, commit.changes, commit.after)


def merged(base: Path, changes: Sequence[Change], after: Node) -> Seen:
    """Return several changes at or below one path as one change."""
    written = [change.path for change in changes]
    paths = set(written)
    if base in paths:  # only a priority can be written at the base itself
        return Put(base, after.at(base))
    # The same write may have changed a node's priority and nodes below it: the whole node has both.
    least = [path for path in written if not any(path[:end] in paths for end in range(len(path)))]
    return Merge(base, {path[len(base) :]: after.at(path) for path in least})


def children(path: Path, seen: Seen) -> set[str] | None:
    """Return the children that a commit has changed; None if it has changed the node itself."""
    if len(seen.path) > len(path):
        return {seen.path[len(path)]}
    return {below[0] for below in seen.nodes} if isinstance(seen, Merge) else None


def is_within(path: Path, base: Path) -> bool:
    """Return whether `path` is `base` or lies below it."""
    return path[: len(base)] == base


def _written(place: Path, change: Change) -> Path | None:
    """Return the part of a place that a change writes; None if it writes elsewhere."""
    if is_within(change.path, place):
        return change.path
    return place if is_within(place, change.path) else None
