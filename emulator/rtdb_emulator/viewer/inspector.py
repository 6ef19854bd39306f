"""One open page, kept up to date: the windows that it shows, the databases that there are, the newest operations.

The page says what it shows, and gets what of it is new, as a whole, whenever something may have changed. Nothing is
queued: a change only marks the page as behind, and what it gets is read from the tree when it is sent. So a page that
is slow, or asleep, skips states and holds up nobody; and the next state waits until the page has confirmed the last.

    asked:  {"show": {"3": {"path": "/cron-locks", "start": null}}}    all its windows, each by a name of its own
            {"seen": 7}                                               the state of that number is on the screen
            {"read": "/cron-locks/digest"}                            one whole value, to edit it
    answer: {} or, to the last, {"text": "…", "hash": "…"}
    pushed: {"state": 7, "namespace": "…", "databases": […], "windows": {"3": {…}}, "operations": […]}

These are the bodies of requests and pushes of protocol 5 whose action is `inspect`, which only an administrator may
ask. They only read: the page writes as any client does.
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

# As many windows as a page may show.
MOST_WINDOWS = 200
# The pause after a state, in seconds; and if making it took long, so many times as long, so that most of the time is
# left to the clients.
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
        """Answer what the page asks. Raises BadRequest for what no page of ours does."""
        match message:
            case {"show": dict(shown)}:
                if len(shown) > MOST_WINDOWS:
                    raise BadRequest(f"{MOST_WINDOWS} nodes are open, which is as many as a page may show: close some")
                self._show({str(name): _place(place) for name, place in shown.items()})
            case {"seen": self._number}:
                self._unseen = False
                self._plan(0)
            case {"seen": int()}:
                pass  # of a state that is no longer waited for
            case {"read": str(path)}:
                return whole(self._database.read(split_path(path), ADMIN))
            case _:
                raise BadRequest("this emulator's own page asks something else: reload it")
        return {}

    # A database calls these on whatever thread has written.

    def committed(self, commit: Commit) -> None:
        self.changed()

    def rules_changed(self) -> None:
        pass  # an administrator reads

    def changed(self) -> None:
        """Something may have changed; from any thread."""
        if not self._is_behind:
            self._is_behind = True
            self._loop.call_soon_threadsafe(self._plan, 0)

    def _show(self, shown: dict[str, tuple[Path, str | None]]) -> None:
        self._sent = {name: node for name, node in self._sent.items() if shown.get(name) == self._shown.get(name)}
        self._shown = shown
        self._is_behind = True
        self._plan(0)

    def _plan(self, delay: float) -> None:
        """Send the next state after so many seconds, unless the page has to see one first, or a pause is not over."""
        if self._is_behind and not self._unseen and self._timer is None:
            self._timer = self._loop.call_later(delay, self._update)

    def _update(self) -> None:
        self._timer = None
        if self._unseen or not self._is_behind:
            return
        began = self._loop.time()
        # Before anything is read: what changes from here on is sent with the next state.
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
    """Whether this is the very node; a leaf is one anew each time, and compared by its value."""
    return sent is node or (not sent.members and not node.members and sent == node)
