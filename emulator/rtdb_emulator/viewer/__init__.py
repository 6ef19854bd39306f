"""The emulator's own page, which shows databases as they are now.

    http://127.0.0.1:9000/?ns=demo-firecron&path=/cron-locks

The page's files hold no data: the page gets the data over its socket, and sets it as text. An `Inspector` keeps one
open page up to date: its windows, the list of databases, the newest operations. Every client that reaches the emulator
may use the page, as it may use the emulator.

The page names the windows that it shows. A window has a node's children from one key on, a line each; it begins at a
key, not at a number, so children that are added or deleted before it don't move its rows.

When something may have changed, the page gets a state: each part that has changed, as a whole. No states are queued: a
change only marks the page as behind, and a state is read from the tree when it is sent. So a page that is slow, or
asleep, skips states and holds up nothing. The next state waits until the page has confirmed the last one.

    asked:  {"show": {"3": {"path": "/cron-locks", "start": null}}}    all its windows, each by a name of its own
            {"seen": 7}                                               the state of that number is on the screen
            {"read": "/cron-locks/digest"}                            one whole value, to edit it
    answer: {} or, to the last, {"text": "…", "hash": "…"}
    pushed: {"state": 7, "namespace": "…", "databases": […], "windows": {"3": {…}}, "operations": […]}

These are the bodies of requests and pushes of protocol 5 with the action `inspect`, which only an administrator may
send. They only read: the page writes as every client does.
"""

from __future__ import annotations

import asyncio
import json
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import TypeAlias

from rtdb_emulator.database import ADMIN, Commit, Database
from rtdb_emulator.errors import BadRequest
from rtdb_emulator.http.messages import HTML, Reply
from rtdb_emulator.jsondata import render
from rtdb_emulator.ordering import Scalar, key_order
from rtdb_emulator.paths import split_path
from rtdb_emulator.store import Store
from rtdb_emulator.tree import Member, Node, Path, as_node

# --- the files, for browsers

BELOW = "/.inspect/viewer/"

_TYPES = {
    "html": HTML,
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "vary": "accept",
}


def front_page() -> Reply:
    return _reply("viewer.html")


def file(path: str) -> Reply | None:
    """Return the page's file at this path of a URL; None if there is no such file."""
    name = path.removeprefix(BELOW)
    return _reply(name) if path.startswith(BELOW) and name in _contents() else None


def _reply(name: str) -> Reply:
    return Reply(200, _contents()[name], _HEADERS, _TYPES[name.rpartition(".")[2]])


@cache
def _contents() -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in files(__package__).joinpath("static").iterdir()}


# --- one open page

Json: TypeAlias = dict[str, object]

# The most windows of a page.
MOST_WINDOWS = 200
# The pause after a state, in seconds. A state that took long to make has a pause of this many times as long, so that
# the clients get most of the time.
_PAUSE = 0.03
_SHARE = 4


class Inspector:
    """Serves one page, on the event loop; `send` takes a message and must not block."""

    watching = 1

    def __init__(self, store: Store, database: Database, send: Callable[[Json], None]) -> None:
        self._store = store
        self._database = database
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._shown: dict[str, tuple[Path, str | None]] = {}
        self._sent: dict[str, Node] = {}
        self._databases: list[str] | None = None
        self._number = 0
        self._last_operation = 0
        self._is_behind = True
        self._unseen = False
        self._timer: asyncio.TimerHandle | None = None
        self._open = ExitStack()
        self._open.enter_context(database.listening(self))
        self._open.enter_context(store.operations.changed.waiting(self.changed))
        self._open.enter_context(store.changed.waiting(self.changed))
        self._loop.call_soon(self._update)

    def close(self) -> None:
        """Forget the page."""
        self._open.close()
        self._unseen = True
        if self._timer is not None:
            self._timer.cancel()

    def receive(self, message: Mapping[str, object]) -> Json:
        """Answer a request of the page. Raises BadRequest for a request that our page never sends."""
        match message:
            case {"show": dict(shown)}:
                if len(shown) > MOST_WINDOWS:
                    raise BadRequest(f"{MOST_WINDOWS} nodes are open, which is as many as a page may show: close some")
                self._show({str(name): _place(place) for name, place in shown.items()})
            case {"seen": self._number}:
                self._unseen = False
                self._plan(0)
            case {"seen": int()}:
                pass  # the confirmation of an earlier state
            case {"read": str(path)}:
                return whole(self._database.read(split_path(path), ADMIN))
            case _:
                raise BadRequest("this emulator's own page asks something else: reload it")
        return {}

    # A database calls these on the thread of the write.

    def committed(self, commit: Commit) -> None:
        self.changed()

    def rules_changed(self) -> None:
        pass  # an administrator reads

    def changed(self) -> None:
        """Note that something may have changed. Any thread may call this."""
        if not self._is_behind:
            self._is_behind = True
            self._loop.call_soon_threadsafe(self._plan, 0)

    def _show(self, shown: dict[str, tuple[Path, str | None]]) -> None:
        self._sent = {name: node for name, node in self._sent.items() if shown.get(name) == self._shown.get(name)}
        self._shown = shown
        self._is_behind = True
        self._plan(0)

    def _plan(self, delay: float) -> None:
        """Send the next state after `delay` seconds, but not before the page has confirmed the last one."""
        if self._is_behind and not self._unseen and self._timer is None:
            self._timer = self._loop.call_later(delay, self._update)

    def _update(self) -> None:
        self._timer = None
        if self._unseen or not self._is_behind:
            return
        began = self._loop.time()
        # Before the state is read: the next state has the changes from here on.
        self._is_behind = False
        state = self._news()
        if state:
            self._number += 1
            self._unseen = True
            self._send({"state": self._number, **state})
            pause = max(_PAUSE, _SHARE * (self._loop.time() - began))
            self._timer = self._loop.call_later(pause, self._update)

    def _news(self) -> Json:
        news: Json = {}
        if (names := self._store.names()) != self._databases:
            self._databases = names
            news |= {"namespace": self._database.name, "databases": names}
        windows = {}
        root = self._database.root
        for name, (path, start) in self._shown.items():
            node = root.at(path)
            if name not in self._sent or not _same(self._sent[name], node):
                self._sent[name] = node
                windows[name] = window(node, start)
        if windows:
            news["windows"] = windows
        operations = self._store.operations.since(self._last_operation)
        if operations:
            self._last_operation = operations[-1][0]
            own = [
                {"number": number, **operation.as_json()}
                for number, operation in operations
                if operation.namespace == self._database.name
            ]
            if own:
                news["operations"] = own
        return news


def _place(place: object) -> tuple[Path, str | None]:
    match place:
        case {"path": str(path), "start": None | str() as start}:
            return split_path(path), start
    raise BadRequest("a window has a path, and a start or null")


def _same(sent: Node, node: Node) -> bool:
    """Return whether this is the same node. A leaf is a new node each time, so its value is compared."""
    return sent is node or (not sent.members and not node.members and sent == node)


# --- a window on a node, as JSON: pure, and bounded in size

ROWS = 100
# The most characters of a text in a row; an editor reads the whole value.
LONGEST_TEXT = 500
# The most leaves of a value that can be edited as one text.
LARGEST_VALUE = 5_000
# A browser's numbers are doubles.
_LARGEST_EXACT = 2**53
# An object shows the first number of leaves in its own row, if it has no more children than the second number.
_PEEKED = 8
_PEEKED_OF = 100
_LONGEST_PEEK = 48


def window(node: Node, start: str | None) -> Json:
    """Return the node's own line, and its children from the key `start` on.

    `first` is the number of children before the window; `previous` and `next` are the first keys of the windows beside
    it.
    """
    shown = _line(node)
    if not node.members:
        return shown
    keys = node.ordered_keys()
    first = 0 if start is None else bisect_left(keys, key_order(start), key=key_order)
    end = first + ROWS
    return {
        **shown,
        "first": first,
        "rows": [{"key": key, **_line(node.members[key])} for key in keys[first:end]],
        "previous": keys[max(0, first - ROWS)] if first else None,
        "next": keys[end] if end < len(keys) else None,
        "last": keys[(len(keys) - 1) // ROWS * ROWS] if end < len(keys) else None,
    }


def whole(node: Node) -> Json:
    """Return the node's value as an export, with its hash for a conditional write; only `count` if the value is large.

    The value is a text, because a browser rounds integers of more than 53 bits.
    """
    if sum(1 for _ in islice(_leaves(node), LARGEST_VALUE + 1)) > LARGEST_VALUE:
        return {"count": len(node.members)}
    text = json.dumps(render(node, priorities=True, arrays=False), indent=2, ensure_ascii=False)
    return {"text": text, "hash": node.hash}


def _line(member: Member) -> Json:
    node = as_node(member)
    shown: Json = {} if node.priority is None else {"priority": _short(node.priority, _LONGEST_PEEK)}
    if not node.members:
        if isinstance(node.value, str) and len(node.value) > LONGEST_TEXT:
            shown["length"] = len(node.value)
        if isinstance(node.value, int) and abs(node.value) > _LARGEST_EXACT:
            shown["exactly"] = str(node.value)
        return {**shown, "value": _short(node.value, LONGEST_TEXT)}
    peek = [
        (key, _short(child, _LONGEST_PEEK))
        for key in (node.ordered_keys() if len(node.members) <= _PEEKED_OF else ())
        if not isinstance(child := node.members[key], Node)
    ]
    return {**shown, "count": len(node.members), "peek": peek[:_PEEKED]}


def _short(value: Scalar | None, longest: int) -> Scalar | None:
    return f"{value[:longest]}…" if isinstance(value, str) and len(value) > longest else value


def _leaves(node: Node) -> Iterator[Node]:
    if not node.members:
        yield node
    for member in node.members.values():
        yield from _leaves(as_node(member))
