"""All listens over WebSocket to one database: the messages of each commit, and the listens that a commit ends.

The listens of one place and query are a group: a commit's change is computed once for the group, and all its listens
send the same bytes. With a query the group has a window: the children that the query shows, kept up to date child by
child. Nothing here takes a lock: the caller holds the database's lock (`Database.locked`), as a commit does. So every
listen sends the commits in their order.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, final

from rtdb_emulator.database import (
    MOST_CHANGES,
    Access,
    Commit,
    Database,
    Merge,
    Put,
    Seen,
    children,
    seeing,
    takes_long,
)
from rtdb_emulator.errors import Denied
from rtdb_emulator.large import WIRE, Long, are_large, writing_all
from rtdb_emulator.query import Place, Query, arranging, keys_in_order, places
from rtdb_emulator.steps import Later, at_once, gathering
from rtdb_emulator.table import SMALL, filling, move
from rtdb_emulator.tree import EMPTY, Node, Path, branch, comparing
from rtdb_emulator.ws.messages import Message, dumps, exported, pushed

_GroupKey: TypeAlias = tuple[Path, str]
# A push without its tag.
_Push: TypeAlias = tuple[Literal["d", "m"], Path, str | Long]
# Runs steps on the event loop, in slices. Any thread may call it.
Work: TypeAlias = Callable[[Generator[object, None, object]], object]


class Holder(Protocol):
    """The client of a listen."""

    access: Access

    def send(self, message: Message) -> None:
        """Queue a message, on any thread; it must not block."""

    def revoked(self, listen: Listen, denied: Denied) -> None:
        """The rules have ended this listen, and it is removed already."""


@dataclass(frozen=True, slots=True, eq=False)
class Listen:
    """One listen of a client. `asked` is its query, and `spelled` the query as the client wrote it."""

    holder: Holder
    path: Path
    asked: Query | None = None
    tag: int | None = None
    spelled: object | None = None

    @property
    def group(self) -> _GroupKey:
        return self.path, repr(self.asked)


@final
class _Group:
    """The listens of one place and query. Their messages differ by their tags only.

    What takes long to find out, such as the change of a query's window whose node was replaced, is found out after the
    commit, in steps. Each listen has its message at once, unwritten, and so in the order of the commits. Between two
    steps others may come:

    * A commit: while a change waits, all later ones of the group wait behind it. So the window takes them in order, and
      each change is found out from the two trees of its own commit.
    * A listen that begins: it needs the window as it is now, so all that waits is found out first (`catching_up`). It
      gets no message of an earlier commit, because it had no message then.
    * A listen that ends, or a client that is gone: the message is for the others. `work` runs the steps also where no
      client takes its message. With its last listen the group ends, and what waits with it.

    Commits are on any thread, under the database's lock. The steps are on the event loop, without the lock: as long as
    a change waits, no commit touches the window, and the last step takes it from those that wait.
    """

    __slots__ = ("_database", "_path", "_waiting", "_window", "_work", "listens")

    def __init__(self, database: Database, path: Path, asked: Query | None, node: Node, work: Work) -> None:
        self._database = database
        self._path = path
        self._window = None if asked is None else Window(asked, node)
        self._work = work
        # The changes that are not found out yet, oldest first, by their commits.
        self._waiting: deque[tuple[Commit, Later[_Push | None]]] = deque()
        self.listens: dict[Listen, None] = {}

    def shown(self, root: Node) -> tuple[Node, list[str] | None]:
        """Return the node, and the keys of the children that are in the window; None for all."""
        at_once(self.catching_up())
        return root.at(self._path), None if self._window is None else self._window.keys()

    def catching_up(self) -> Generator[None]:
        """Find out all changes that wait, in steps."""
        while self._window is not None and self._waiting:
            yield from self._waiting[0][1].making()

    def committed(self, commit: Commit) -> None:
        if self._waiting or takes_long(self._path, commit):
            self._committed_later(commit)
            return
        said = at_once(self._finding(commit))
        if said is not None:
            self._send(lambda tag: pushed(*said, tag))

    def _committed_later(self, commit: Commit) -> None:
        later = Later(self._in_turn(commit))
        self._waiting.append((commit, later))
        self._send(lambda tag: Message("", Later(_tagged(later, tag))))
        self._work(later.making())

    def _send(self, message_for: Callable[[int | None], Message]) -> None:
        messages: dict[int | None, Message] = {}
        for listen in self.listens:
            message = messages.get(listen.tag)
            if message is None:
                message = messages[listen.tag] = message_for(listen.tag)
            listen.holder.send(message)

    def _in_turn(self, commit: Commit) -> Generator[None, None, _Push | None]:
        """Find out what a commit says here, after all that waits before it."""
        while self._waiting[0][0] is not commit:
            with suppress(Exception):  # which is raised to the clients of that change
                yield from self._waiting[0][1].making()
        try:
            return (yield from self._finding(commit))
        finally:
            self._waiting.popleft()
            self._database.discard_after(commit)

    def _finding(self, commit: Commit) -> Generator[None, None, _Push | None]:
        seen = yield from seeing(self._path, commit)
        if seen is None:
            return None
        if self._window is not None:
            seen = yield from self._window.moving(self._path, seen, commit.after.at(self._path))
        elif isinstance(seen, Merge):
            seen = _applicable(seen, commit)
        return None if seen is None else _push_of(seen)


def _tagged(later: Later[_Push | None], tag: int | None) -> Generator[None, None, Message | None]:
    said = yield from later.making()
    return None if said is None else pushed(*said, tag)


@final
class Listens:
    """All listens of one database."""

    def __init__(self, database: Database, work: Work = lambda steps: None) -> None:
        self.database = database
        self._work = work
        self._at: dict[Path, dict[str, _Group]] = {}
        # The number of groups below each path.
        self._below: Counter[Path] = Counter()
        # The listens whose rules read data, so that any write may end them.
        self._revocable: dict[Listen, None] = {}
        self._size = 0

    @property
    def watching(self) -> int:
        return self._size

    def add(self, listen: Listen, root: Node) -> tuple[Node, list[str] | None]:
        """Add a listen, which gets every commit after this tree. Return the node that it shows now, and the keys of the
        children in its window; None for all.
        """
        if not self._size:
            self.database.attach(self)
        self._size += 1
        path, query = listen.group
        group = self._at.setdefault(path, {}).get(query)
        if group is None:
            group = self._at[path][query] = _Group(self.database, path, listen.asked, root.at(path), self._work)
            for end in range(len(path)):
                self._below[path[:end]] += 1
        group.listens[listen] = None
        self._note_rules(listen)
        return group.shown(root)

    def catching_up(self, path: Path, asked: Query | None) -> Generator[None]:
        """Make a listen of this place and query quick, in steps, if there is one already."""
        group = self._at.get(path, {}).get(repr(asked))
        if group is not None:
            yield from group.catching_up()

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
            group.committed(commit)

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


def _push_of(seen: Seen) -> _Push:
    if isinstance(seen, Put):
        return "d", seen.path, exported(seen.node)
    return "m", seen.path, _members(seen)


def _members(merge: Merge) -> str | Long:
    if are_large(merge.nodes.values()):
        return Long(writing_all((("/".join(path), node) for path, node in merge.nodes.items()), WIRE))
    members = (f"{dumps('/'.join(path))}:{exported(node)}" for path, node in merge.nodes.items())
    return "{" + ",".join(members) + "}"


# --- a query's window
#
# It keeps the keys of all children in the query's range in order, so a write below one child costs by that child and by
# the window's own children, not by the node's other children. Pure.

# Children that are looked at between two steps.
STEP = 500


@final
class Window:
    """The window of a query on one node."""

    __slots__ = ("_keys", "_node", "_places", "_query")

    def __init__(self, query: Query, node: Node) -> None:
        self._query = query
        self._places = places(query.order)
        self._start(node)

    def keys(self) -> list[str]:
        """Return the keys of the window's children, in the query's order."""
        limit = self._query.limit
        if limit is None:
            return self._keys.copy()
        return self._keys[-limit:] if self._query.from_end else self._keys[:limit]

    def moving(self, path: Path, seen: Seen, after: Node) -> Generator[None, None, Seen | None]:
        """Follow a commit whose change `seen` is at or below `path`, where `after` is now. Return the window's change.

        Children that leave come first, because a client's full window has no room for one more. Until the steps have
        ended, the window is neither asked for its keys nor moved again.
        """
        before, size = self._node, self._size
        changed = children(path, seen)
        old = yield from self._visible(changed)
        if changed is None or len(changed) > MOST_CHANGES:  # to begin anew costs less
            yield from arranging(after, self._query.order)
            self._start(after)
            yield
        else:
            self._replace(changed, after)
        if before.priority != after.priority:
            return Put(path, (yield from self._shown()))
        new = yield from self._visible(changed)
        gone = []
        for number, name in enumerate(old, 1):
            if name not in new:
                gone.append(name)
            if number % STEP == 0:
                yield
        other = []
        for number, name in enumerate(new, 1):
            is_written = changed is None or name in changed
            if name not in old or (is_written and not (yield from comparing(before.child(name), after.child(name)))):
                other.append(name)
            if number % STEP == 0:
                yield
        if not gone and not other:
            return None
        # The window was empty, or all its children leave. If they left one by one, a client would drop the node itself,
        # with its priority.
        if len(gone) == size:
            return Put(path, (yield from self._shown()))
        news: dict[Path, Node] = {}
        for keys, shown in ((gone, EMPTY), (other, after)):
            for start in range(0, len(keys), STEP):
                news.update(((name,), shown.child(name)) for name in keys[start : start + STEP])
                yield
        if len(news) > 1:
            return Merge(path, news)
        ((key, child),) = news.items()
        return Put(path + key, child)

    def _shown(self) -> Generator[None, None, Node]:
        """Return the window's children as a node, made in steps."""
        node, keys = self._node, self.keys()
        if keys and len(keys) == len(node.members):
            return node
        if len(keys) <= SMALL:
            return branch({key: node.child(key) for key in keys}, node.priority)
        members = yield from filling(((key, node.members[key]) for key in keys), len(keys), STEP)
        return Node(None, members, node.priority)

    @property
    def _size(self) -> int:
        size = len(self._keys)
        return size if self._query.limit is None else min(size, self._query.limit)

    def _start(self, node: Node) -> None:
        self._node = node
        keys = keys_in_order(node, self._query.order)
        first, end = self._query.bounds(node, keys)
        self._keys = keys[first:end]

    def _replace(self, keys: Collection[str], after: Node) -> None:
        before = self._node
        moves = [(key, self._place(key, before), self._place(key, after)) for key in keys]
        moves = [move for move in moves if move[1] != move[2]]
        old, new = before.members, after.members
        move(
            self._keys,
            [left for _, left, _ in moves if left is not None],
            [(taken, key) for key, _, taken in moves if taken is not None],
            lambda key: self._places(key, old[key]),
            lambda key: self._places(key, new[key]),
        )
        self._node = after

    def _place(self, key: str, node: Node) -> Place | None:
        """Return the place of a child, if the child exists and is in the range."""
        member = node.members.get(key)
        if member is None:
            return None
        place = self._places(key, member)
        return place if self._query.contains(place) else None

    def _visible(self, keys: Collection[str] | None) -> Generator[None, None, dict[str, None]]:
        """Return the children that the window shows; without a limit, only those of `keys`, as no others change."""
        if keys is None or self._query.limit is not None:
            return (yield from gathering(self.keys()))
        return {key: None for key in keys if self._place(key, self._node) is not None}
