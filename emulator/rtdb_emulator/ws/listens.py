"""All listens over WebSocket to one database: the messages of each commit, and the listens that a commit ends.

The listens of one place and query are a group: a commit's change is computed once for the group, and all its listens
send the same bytes. Nothing here takes a lock: the caller holds the database's lock (`Database.still`), as a commit
does. So every listen sends the commits in their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, final

from rtdb_emulator.database import Access, Commit, Database
from rtdb_emulator.errors import Denied
from rtdb_emulator.query import Query
from rtdb_emulator.tree import Node, Path
from rtdb_emulator.watching import Merge, Put, Seen, seen_at
from rtdb_emulator.ws.messages import dumps, exported, pushed
from rtdb_emulator.ws.segments import Message
from rtdb_emulator.ws.windows import Window

_GroupKey: TypeAlias = tuple[Path, str]


class Holder(Protocol):
    """The client of a listen."""

    access: Access

    def send(self, message: Message) -> None:
        """Queue a message, on any thread; it must not block."""

    def revoked(self, listen: Listen, denied: Denied) -> None:
        """The rules have ended this listen, and it is removed already."""


@dataclass(frozen=True, slots=True, eq=False)
class Listen:
    """One listen of a client. `asked` is its query, and `spelled` the query as the client wrote it.

    `shown` is the query of the window that the client gets. None shows all children, also of a query without its index.
    """

    holder: Holder
    path: Path
    asked: Query | None = None
    shown: Query | None = None
    tag: int | None = None
    spelled: object | None = None

    @property
    def group(self) -> _GroupKey:
        return self.path, repr(self.shown)


@final
class _Group:
    """The listens of one place and query. Their messages differ by their tags only."""

    __slots__ = ("_path", "_window", "listens")

    def __init__(self, path: Path, shown: Query | None, node: Node) -> None:
        self._path = path
        self._window = None if shown is None else Window(shown, node)
        self.listens: dict[Listen, None] = {}

    def node(self, root: Node) -> Node:
        return root.at(self._path) if self._window is None else self._window.node()

    def tell(self, commit: Commit) -> None:
        seen = seen_at(self._path, commit)
        if seen is None:
            return
        if self._window is not None:
            seen = self._window.move(self._path, seen, commit.after.at(self._path))
        elif isinstance(seen, Merge):
            seen = _applicable(seen, commit)
        if seen is None:
            return
        kind, path, data = _said(seen)
        messages: dict[int | None, Message] = {}
        for listen in self.listens:
            message = messages.get(listen.tag)
            if message is None:
                message = messages[listen.tag] = pushed(kind, path, data, listen.tag)
            listen.holder.send(message)


@final
class Listens:
    """All listens of one database."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._at: dict[Path, dict[str, _Group]] = {}
        # The number of groups below each path.
        self._below: Counter[Path] = Counter()
        # The listens whose rules read data, so that any write may end them.
        self._revocable: dict[Listen, None] = {}
        self._size = 0

    @property
    def watching(self) -> int:
        return self._size

    def add(self, listen: Listen, root: Node) -> Node:
        """Add a listen, which gets every commit after this tree. Return the node that it shows now."""
        if not self._size:
            self.database.attach(self)
        self._size += 1
        path, query = listen.group
        group = self._at.setdefault(path, {}).get(query)
        if group is None:
            group = self._at[path][query] = _Group(path, listen.shown, root.at(path))
            for end in range(len(path)):
                self._below[path[:end]] += 1
        group.listens[listen] = None
        self._note_rules(listen)
        return group.node(root)

    def remove(self, listen: Listen) -> None:
        path, query = listen.group
        group = self._at[path][query]
        del group.listens[listen]
        self._revocable.pop(listen, None)
        if not group.listens:
            del self._at[path][query]
            if not self._at[path]:
                del self._at[path]
            for end in range(len(path)):
                self._below[path[:end]] -= 1
                if not self._below[path[:end]]:
                    del self._below[path[:end]]
        self._size -= 1
        if not self._size:
            self.database.detach(self)

    def recheck(self, listens: Iterable[Listen]) -> None:
        """End those of these listens that the rules no longer allow."""
        for listen in tuple(listens):
            try:
                self.database.check_read(listen.path, listen.holder.access, listen.asked)
            except Denied as denied:
                self.remove(listen)
                listen.holder.revoked(listen, denied)
            else:
                self._note_rules(listen)

    def committed(self, commit: Commit) -> None:
        # First end listens that the commit revokes: they must not get it.
        self.recheck(self._revocable)
        for group in self._affected(commit):
            group.tell(commit)

    def rules_changed(self) -> None:
        self.recheck([listen for groups in self._at.values() for group in groups.values() for listen in group.listens])

    def _note_rules(self, listen: Listen) -> None:
        if not listen.holder.access.admin and self.database.rules.reads_data(listen.path):
            self._revocable[listen] = None
        else:
            self._revocable.pop(listen, None)

    def _affected(self, commit: Commit) -> Iterator[_Group]:
        """Yield the groups at, above and below the places of the write."""
        paths: dict[Path, None] = {}
        for change in commit.changes:
            for end in range(len(change.path) + 1):
                if change.path[:end] in self._at:
                    paths[change.path[:end]] = None
            if change.path in self._below:
                end = len(change.path)
                paths.update(dict.fromkeys(path for path in self._at if path[:end] == change.path))
        for path in paths:
            yield from tuple(self._at[path].values())


def _applicable(merge: Merge, commit: Commit) -> Seen:
    """Return the merge if a client can apply it, else a put of the whole node.

    A client first removes the children that are gone. A node that loses its last child for a moment loses its priority.
    """
    gone = {path for path, node in merge.nodes.items() if node.is_empty}
    after = commit.after.at(merge.path)
    if gone:
        found = commit.before.at(merge.path)
        for path in sorted(merge.nodes, key=lambda path: path not in gone):
            found = found.put(path, merge.nodes[path])
        if found != after:
            return Put(merge.path, after)
    return merge


def _said(seen: Seen) -> tuple[Literal["d", "m"], Path, str]:
    if isinstance(seen, Put):
        return "d", seen.path, exported(seen.node)
    return "m", seen.path, _members(seen)


def _members(merge: Merge) -> str:
    members = (f"{dumps('/'.join(path))}:{exported(node)}" for path, node in merge.nodes.items())
    return "{" + ",".join(members) + "}"
