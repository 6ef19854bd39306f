"""One open page, kept up to date: its windows, the list of databases, the newest operations.

The page names the windows that it shows. When something may have changed, it gets a state: each part that has changed,
as a whole. No states are queued: a change only marks the page as behind, and a state is read from the tree when it is
sent. So a page that is slow, or asleep, skips states and holds up nothing. The next state waits until the page has
confirmed the last one.

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
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from rtdb_emulator.database import ADMIN, Commit, Database
from rtdb_emulator.errors import BadRequest
from rtdb_emulator.paths import split_path
from rtdb_emulator.store import Store
from rtdb_emulator.tree import Node, Path
from rtdb_emulator.viewer.windows import Json, whole, window

# The most windows of a page.
MOST_WINDOWS = 200
# The pause after a state, in seconds. A state that took long to make has a pause of this many times as long, so that
# the clients get most of the time.
_PAUSE = 0.03
_SHARE = 4


class Inspector:
    """Serves one page, on the event loop; `send` takes a message and must not block."""

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
