"""Live: one look at the jobs for all who watch the page, and what has changed since the last look, sent to each.

    viewer = live.join(push)      # `push` is called with each message, by another thread, and with None at the end
    live.leave(viewer)

From the first viewer to 30 seconds after the last one the locks' stream is open, and one thread looks: when the stream
reports a change, when an entry of the history is about to come, and every five seconds, because a job may be late
although nothing changes. Where there is no stream it looks every three seconds. Renewals are not passed on.

A viewer's first message has everything, the others have the rows that changed. A viewer who takes no messages is left
behind: its browser comes back, and begins with everything.

Under ASGI a viewer is the response of `/api/events`, as Server-Sent Events. It ends when the viewer leaves, after four
minutes (Cloud Run cuts a response after five, and the browser comes back by itself), when the viewer takes nothing any
more, and at once when the process is asked to end. Else the server would wait for it, and with it the stop of the jobs.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from types import FrameType
from typing import Protocol, TypeAlias
from weakref import WeakSet

from firecron.base.clocks import Timing
from firecron.base.flag import in_each_process
from firecron.base.instants import to_text
from firecron.base.texts import described, redacted
from firecron.errors import StoreError
from firecron.lock.waiting import Begin, on_thread
from firecron.ops.board import Board
from firecron.page.messages import HEADERS, problem, secured
from firecron.page.reads import Code, Json
from firecron.web import Receive, Send, encoded, send_reply

# --- one look for all viewers

MOST_VIEWERS = 50
# In milliseconds.
_AFTER_THE_LAST = 30_000.0
_LOOK = 5_000.0
_LOOK_WITHOUT_STREAM = 3_000.0
_TOGETHER = 100.0
# A look's time, as a part of the time from one to the next.
_SHARE = 5
_MOST_WAITING = 100
_HEADERS = {**HEADERS, "Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}

Push = Callable[[bytes | None], object]


@dataclass(eq=False, slots=True)
class Viewer:
    """One who watches. `waiting` counts the messages that were pushed, and not taken yet."""

    push: Push
    is_new: bool = True
    waiting: int = 0

    def took(self) -> None:
        self.waiting = max(0, self.waiting - 1)


@dataclass(frozen=True, slots=True)
class _Sent:
    """What was sent to the viewers: the rows, without what renewals change; the rest; whether RTDB is away."""

    rows: dict[str, str] = field(default_factory=dict)
    rest: dict[str, str] = field(default_factory=dict)
    away: str | None = None


class Live:
    """Tells all viewers of one page, by the streams of its door.

    Without `begin` there is no thread, and a test calls `look` itself.
    """

    def __init__(self, board: Board, code: Code, timing: Timing, *, begin: Begin | None = on_thread) -> None:
        self._board = board
        self._code = code
        self._events = board.database.events
        self._timing = timing
        self._begin = begin
        self._sent = _Sent()
        self._left_at = 0.0
        self._due = 0.0
        self._spacing = _TOGETHER
        in_each_process(self._begin_process)

    def _begin_process(self) -> None:
        self._changed = threading.Condition()
        self._viewers: dict[Viewer, None] = {}
        self._is_running = self._is_over = False

    @property
    def viewers(self) -> int:
        with self._changed:
            return len(self._viewers)

    def join(self, push: Push) -> Viewer | None:
        """Return a new viewer, which gets messages from now on; None if there are too many, or this process ends."""
        with self._changed:
            viewer = Viewer(push)
            self._viewers[viewer] = None
            # Asked only now: a signal that comes later, on this very thread, finds this viewer among the others.
            if self._is_over or len(self._viewers) > MOST_VIEWERS:
                del self._viewers[viewer]
                return None
            self._due = self._timing.mono()
            self._changed.notify_all()
            if self._begin is not None and not self._is_running:
                self._is_running = True
                try:
                    self._begin(self._run)
                except RuntimeError:  # no thread can be started
                    self._is_running = False
                    del self._viewers[viewer]
                    return None
        return viewer

    def leave(self, viewer: Viewer) -> None:
        """Send this viewer no more messages. A second call changes nothing."""
        with self._changed:
            if viewer in self._viewers:
                del self._viewers[viewer]
                self._left_at = self._timing.mono()
                self._changed.notify_all()

    def end(self) -> None:
        """End all streams at once, and begin none any more. A signal's handler may call this."""
        self._is_over = True
        for viewer in list(self._viewers):
            viewer.push(None)

    def serving(self) -> None:
        """Let the streams end with the process."""
        end_with_process(self)

    async def stream(self, method: str, receive: Receive, send: Send) -> None:
        """Send the events until the viewer leaves; in reply to HEAD the headers alone."""
        headers = encoded(_HEADERS)
        if method == "HEAD":
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        stream = EventStream(send, headers)
        viewer = self.join(stream.push)
        if viewer is None:
            refusal = problem(503, "no_stream", "there are as many streams as there may be")
            await send_reply(secured(refusal), method, send)
            return
        try:
            await stream.run(viewer, receive)
        finally:
            self.leave(viewer)

    def refresh(self) -> bool:
        """Look once, and tell the viewers what is new to them. Return whether RTDB could be read."""
        self._board.changed()
        try:
            seen = self._board.jobs()
        except StoreError as error:
            self._send_away(redacted(str(error)))
            return False
        found = self._code.jobs_json(seen)
        rows, rest = found.essence()
        told, self._sent = self._sent, _Sent(rows, rest)
        now = {"now": to_text(seen.now)}
        everything: Json = {**now, "jobs": found.jobs, "gone": [], **found.rest()}
        changed = [row for row in found.jobs if told.rows.get(str(row["job"])) != rows[str(row["job"])]]
        gone = sorted(told.rows.keys() - rows.keys())
        others = {name: value for name, value in found.rest().items() if told.rest.get(name) != rest[name]}
        news: Json | None = {**now, "jobs": changed, "gone": gone, **others} if changed or gone or others else None
        # After an absence all viewers get everything: nobody knows what they have missed.
        self._push("jobs", everything if told.away is not None else news, everything)
        return True

    def _send_away(self, message: str) -> None:
        is_news = self._sent.away is None
        self._sent = _Sent(away=message)
        away: Json = {"message": message}
        self._push("away", away if is_news else None, away)

    def _push(self, event: str, news: Json | None, everything: Json) -> None:
        with self._changed:
            viewers = list(self._viewers)
        encoded: dict[int, bytes] = {}
        for viewer in viewers:
            value = everything if viewer.is_new else news
            if value is None:
                continue
            if id(value) not in encoded:
                encoded[id(value)] = _message(event, value)
            viewer.is_new = False
            viewer.waiting += 1
            if viewer.waiting <= _MOST_WAITING:
                viewer.push(encoded[id(value)])
            else:
                self.leave(viewer)
                viewer.push(None)

    def _run(self) -> None:
        while True:
            self._board.follow(self._wake)
            try:
                while self._wait():
                    self._read()
            finally:
                self._board.unfollow(self._wake)
            with self._changed:
                if self._is_over or not self._viewers:
                    self._is_running = False
                    return

    def _read(self) -> None:
        began = self._timing.mono()
        try:
            was_read = self.refresh()
        except Exception as error:
            # A defect. Who watches sees no change; the page itself says what is wrong when it asks.
            was_read = False
            message = f"The page could not be kept live: {described(error)}"
            self._events.emit("page.failed", "firecron", logging.ERROR, message, error)
        # The next look is planned, unless a change has come meanwhile.
        now = self._timing.mono()
        with self._changed:
            # Where there are so many jobs that a look takes long, it is not all that this process does.
            self._spacing = max(_TOGETHER, _SHARE * (now - began))
            again_at = self._board.again_at if was_read else inf
            self._due = max(min(self._due, again_at), now + self._spacing)

    def _wake(self) -> None:
        """Look soon. What changes together is seen together."""
        with self._changed:
            self._due = min(self._due, self._timing.mono() + self._spacing)
            self._changed.notify_all()

    def _wait(self) -> bool:
        """Wait until it is time to look. Return whether it is; if not, nobody has watched for a while."""
        with self._changed:
            while not self._is_over:
                now = self._timing.mono()
                until = self._due if self._viewers else self._left_at + _AFTER_THE_LAST
                if now < until:
                    self._timing.wait(self._changed, (until - now) / 1000)
                elif self._viewers:
                    self._due = now + (_LOOK if self._board.update is not None else _LOOK_WITHOUT_STREAM)
                    return True
                else:
                    return False
            return False


def _message(event: str, value: Json) -> bytes:
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return f"event: {event}\ndata: {data}\n\n".encode("utf-8", "replace")


# --- the response of one viewer

# In seconds.
LASTS = 240.0
SILENCE = 15.0
_GOODBYE = 1.0


class EventStream:
    """The response with the events of one viewer."""

    def __init__(self, send: Send, headers: list[tuple[bytes, bytes]]) -> None:
        self._send = send
        self._headers = headers
        self._loop = asyncio.get_running_loop()
        self._messages: asyncio.Queue[bytes] = asyncio.Queue()
        self._is_over = asyncio.Event()

    def push(self, message: bytes | None) -> None:
        """Send this message, None to end. Any thread may call this, and a signal's handler."""
        put = self._is_over.set if message is None else partial(self._messages.put_nowait, message)
        with suppress(RuntimeError):  # the loop was closed, and with it the connection
            self._loop.call_soon_threadsafe(put)

    async def run(self, viewer: Viewer, receive: Receive) -> None:
        """Send the messages until the viewer leaves, the stream has lasted long enough, or the process ends."""
        await self._send({"type": "http.response.start", "status": 200, "headers": self._headers})
        writing = asyncio.ensure_future(self._write(viewer))
        leaving = asyncio.ensure_future(_left(receive))
        ending = asyncio.ensure_future(self._is_over.wait())
        parts = (writing, leaving, ending)
        try:
            await asyncio.wait(parts, timeout=LASTS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for part in parts:
                part.cancel()
            done, _ = await asyncio.wait(parts, timeout=_GOODBYE)
        if not leaving.done() or leaving.cancelled():
            # A client that takes nothing must not keep the server from ending.
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(_GOODBYE):
                    await self._send({"type": "http.response.body", "body": b""})
        for one in done:
            error = None if one.cancelled() else one.exception()
            if error is not None and not isinstance(error, OSError):  # which a client that has gone may cause
                raise error

    async def _write(self, viewer: Viewer) -> None:
        await self._part(b"retry: 2000\n\n")
        while True:
            try:
                # Not by `wait_for`: until Python 3.12 it loses a cancellation that comes together with a message.
                async with asyncio.timeout(SILENCE):
                    message = await self._messages.get()
                viewer.took()
            except TimeoutError:
                message = b": alive\n\n"
            await self._part(message)

    async def _part(self, body: bytes) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": True})


async def _left(receive: Receive) -> None:
    """Return once the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


# --- the end of this process
#
# uvicorn, and others, finish the responses that are open before they tell the application to stop. An application
# learns nothing of this by ASGI, so the signal's handler is asked: it is called as before, and the streams end. A
# signal without a handler in Python ends the process by itself.
#
# Only the main thread can do this. A server on another thread gets no signals: what stops it also has to end the page.

SignalHandler: TypeAlias = Callable[[int, FrameType | None], object]

_SIGNALS = tuple(signal.Signals[name] for name in ("SIGTERM", "SIGINT") if name in signal.Signals.__members__)


class Endable(Protocol):
    """Something that has to end before the process can."""

    def end(self) -> None:
        """End at once. Called by a signal's handler, so it must not wait for a lock."""


_endable: WeakSet[Endable] = WeakSet()


class _Watched:
    """The handler of a signal, and the handler before it."""

    def __init__(self, before: SignalHandler) -> None:
        self.before = before

    def __call__(self, number: int, frame: FrameType | None) -> object:
        for one in list(_endable):
            one.end()
        return self.before(number, frame)


def end_with_process(one: Endable) -> None:
    """Call `end` once this process is asked to end, for as long as the thing lives. A second call costs little.

    The server's handlers may come and go, so this is called at each request.
    """
    _endable.add(one)
    if threading.current_thread() is not threading.main_thread():
        return
    for number in _SIGNALS:
        handler = signal.getsignal(number)
        if callable(handler) and not isinstance(handler, _Watched) and not _is_pythons(handler):
            signal.signal(number, _Watched(handler))


def _is_pythons(handler: SignalHandler) -> bool:
    """Return whether a handler is Python's own, or asyncio's: these end the program without waiting for responses."""
    runner = getattr(handler.func, "__self__", None) if isinstance(handler, partial) else None
    return handler is signal.default_int_handler or isinstance(runner, asyncio.Runner)
