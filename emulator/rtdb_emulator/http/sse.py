"""Server-sent events: a view of a database as an endless text.

A `View` says which events a commit causes at one place, or in a query's window on it; a `Subscription` sends them.

The official Python SDK decides the form: LF only, no comments, `data: null` for keep-alive and cancel. If more than
`BACKLOG` events wait for a client that doesn't read, the connection closes; the client reconnects and gets the whole
value again. What takes long to make counts as one event.

What a commit changes here is found out at once, or where that takes long, when the event's turn has come: from the two
trees of the commit, which never change. Between two slices of it others may come:

* A commit: its events are behind this one in the queue.
* The end of the permission: what was committed before is sent whole, and the cancel comes after it.
* The client's end, or the emulator's: what isn't made is never made.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from rtdb_emulator.database import Access, Commit, Database, Put, Seen, children, is_within, merged, seeing, takes_long
from rtdb_emulator.errors import Refusal
from rtdb_emulator.jsondata import as_array, encode, render
from rtdb_emulator.large import Form, are_large, is_large, writing, writing_all
from rtdb_emulator.query import Query, arranging
from rtdb_emulator.steps import gathering, made_in_slices
from rtdb_emulator.tree import EMPTY, Node, Path, comparing

BACKLOG = 10_000
HEADERS = {"cache-control": "no-cache"}
CONTENT_TYPE = "text/event-stream; charset=utf-8"

KEEP_ALIVE = b"event: keep-alive\ndata: null\n\n"
CANCEL = b"event: cancel\ndata: null\n\n"

_Frame: TypeAlias = bytes | Iterator[bytes]
_FORM = Form()
# Children that are looked at between two steps.
STEP = 500


@dataclass(frozen=True, slots=True)
class Event:
    """`put` replaces the value at the path, `patch` some values below it; the path is relative to the view.

    Large data is its JSON in pieces: an iterator, for one reader.
    """

    name: Literal["put", "patch"]
    path: str
    data: object


@dataclass(frozen=True, slots=True)
class View:
    """One location, or the window of a query on it."""

    path: Path
    query: Query | None = None

    def shown(self, root: Node) -> tuple[Node, list[str] | None]:
        """Return the node here, and the keys of its children in the query's window; None for all."""
        node = root.at(self.path)
        return node, None if self.query is None or node.is_empty else self.query.keys(node)

    def first(self, root: Node) -> Event:
        """Return the first event of every stream: the whole value."""
        node, keys = self.shown(root)
        if keys is None:
            return _put("/", node)
        if is_large(node, keys):
            return Event("put", "/", writing(node, _FORM, keys))
        return Event("put", "/", as_array({key: render(node.child(key)) for key in keys}))

    def events(self, commit: Commit) -> list[Event]:
        """Return the events of a commit for this view; none if nothing in the view has changed."""
        return [event for event in self.following(commit) if event is not None]

    def following(self, commit: Commit) -> Iterator[Event | None]:
        """Yield the same in steps; None for a step without an event."""
        seen = yield from seeing(self.path, commit)
        if seen is None:
            return
        if self.query is None:
            yield self._event(seen)
        else:
            yield from self._window_events(self.query, commit, seen)

    def _window_events(self, query: Query, commit: Commit, seen: Seen) -> Generator[Event | None]:
        before, after = commit.before.at(self.path), commit.after.at(self.path)
        changed = children(self.path, seen)
        windows = []
        for node in (before, after):
            if changed is None or query.limit is not None:
                yield from arranging(node, query.order)
            windows.append((yield from gathering(query.visible(node, changed))))
        shown, now = windows
        for key in shown:
            if key not in now:
                yield _put(f"/{key}", EMPTY)
        for number, key in enumerate(now):
            if number % STEP == 0:
                yield None
            child = after.child(key)
            if key in shown and (yield from comparing(before.child(key), child)):
                continue
            if commit.patch and key in shown and is_within(commit.path, (*self.path, key)):
                yield self._event(merged(commit.path, commit.changes, commit.after))
            else:
                yield _put(f"/{key}", child)

    def _event(self, seen: Seen) -> Event:
        shown = "/" + "/".join(seen.path[len(self.path) :])
        if isinstance(seen, Put):
            return _put(shown, seen.node)
        nodes: Iterable[tuple[str, Node]] = (("/".join(path), node) for path, node in seen.nodes.items())
        if are_large(seen.nodes.values()):
            return Event("patch", shown, writing_all(nodes, _FORM))
        return Event("patch", shown, {path: render(node) for path, node in nodes})


def _put(shown: str, node: Node) -> Event:
    return Event("put", shown, writing(node, _FORM) if is_large(node) else render(node))


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer without end: the changes in `view`, as long as `access` may read it."""

    database: Database
    view: View
    access: Access


class Subscription:
    """One client of a stream. Commits come in on the thread that wrote; frames go out on the event loop.

    The queue has frames, frames that are still to be made, in pieces, and at the end None.
    """

    watching = 1

    def __init__(self, stream: Stream, cut_off: Callable[[], None]) -> None:
        self._stream = stream
        self._cut_off = cut_off
        self._loop = asyncio.get_running_loop()
        self._frames: asyncio.Queue[_Frame | None] = asyncio.Queue()

    def committed(self, commit: Commit) -> None:
        if not self._may_read():
            self._send(CANCEL, None)
        elif takes_long(self._stream.view.path, commit):
            self._send(self._following(commit))
        elif events := self._stream.view.events(commit):
            self._send(*map(_frame, events))

    def rules_changed(self) -> None:
        if not self._may_read():
            self._send(CANCEL, None)

    def close(self) -> None:
        """End the stream, from any thread."""
        self._send(None)

    async def frames(self, keep_alive: float) -> AsyncGenerator[bytes, None]:
        """Yield the frames to send, with a keep-alive after each `keep_alive` seconds without one."""
        with self._stream.database.listening(self) as root:
            if not self._may_read():  # the rules may have changed since the request was allowed
                yield CANCEL
                return
            self._put(_frame(self._stream.view.first(root)))
            while True:
                try:
                    frame = await asyncio.wait_for(self._frames.get(), keep_alive)
                except TimeoutError:
                    frame = KEEP_ALIVE
                if frame is None:
                    return
                async for piece in _sent(frame):
                    yield piece

    def _following(self, commit: Commit) -> Iterator[bytes]:
        """Yield the frames of a commit in pieces; an empty one for a step."""
        try:
            for event in self._stream.view.following(commit):
                frame = b"" if event is None else _frame(event)
                if isinstance(frame, bytes):
                    yield frame
                else:
                    yield from frame
        finally:
            self._stream.database.discard_after(commit)

    def _may_read(self) -> bool:
        try:
            self._stream.database.check_read(self._stream.view.path, self._stream.access, self._stream.view.query)
        except Refusal:
            return False
        return True

    def _send(self, *frames: _Frame | None) -> None:
        for frame in frames:
            self._loop.call_soon_threadsafe(self._put, frame)

    def _put(self, frame: _Frame | None) -> None:
        self._frames.put_nowait(frame)
        if self._frames.qsize() > BACKLOG:
            self._cut_off()


async def _sent(frame: _Frame) -> AsyncIterator[bytes]:
    if isinstance(frame, bytes):
        yield frame
        return
    async for pieces in made_in_slices(frame):
        yield pieces


def _frame(event: Event) -> _Frame:
    if isinstance(event.data, Iterator):
        return _pieces(event, event.data)
    return b"event: %s\ndata: %s\n\n" % (
        event.name.encode(),
        encode({"path": event.path, "data": event.data}),
    )


def _pieces(event: Event, data: Iterator[bytes]) -> Iterator[bytes]:
    yield b'event: %s\ndata: {"path":%s,"data":' % (event.name.encode(), encode(event.path))
    yield from data
    yield b"}\n\n"
