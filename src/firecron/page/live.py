"""Live: one look at the jobs for all who watch the page, and what has changed since the last look, sent to each.

    viewer = live.join(push)      # `push` is called with each message, by another thread, and with None at the end
    live.leave(viewer)

From the first viewer to 30 seconds after the last one the locks' stream is open, and one thread looks: when the stream
tells of a change, when an entry of the history is about to come, and every five seconds, because a job may be late
although nothing changes. Where there is no stream it looks every three seconds. Renewals are not passed on.

A viewer's first message has everything, the others have the rows that changed. A viewer who takes no messages is left
behind: its browser comes back, and begins with everything.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from firecron.base.clocks import Timing
from firecron.base.events import Events
from firecron.base.forks import tell_after_fork
from firecron.base.instants import to_text
from firecron.base.redaction import described, redacted
from firecron.errors import StoreError
from firecron.lock.streams import Begin, on_thread
from firecron.page.board import Board
from firecron.page.jobs_json import Json, jobs_json

MOST_VIEWERS = 50
# In milliseconds.
_AFTER_THE_LAST = 30_000.0
_LOOK = 5_000.0
_LOOK_WITHOUT_STREAM = 3_000.0
_TOGETHER = 100.0
# A look's time, as a part of the time from one to the next.
_SHARE = 5
_MOST_WAITING = 100

Push = Callable[[bytes | None], object]


@dataclass(eq=False, slots=True)
class Viewer:
    """One who watches. `waiting` counts the messages that were pushed, and not taken yet."""

    push: Push
    is_new: bool = True
    waiting: int = 0

    def took(self) -> None:
        """Note that a message was taken."""
        self.waiting = max(0, self.waiting - 1)


@dataclass(frozen=True, slots=True)
class _Told:
    """What the viewers know: each row without the fields that renewals change, and the rest; or that RTDB is away."""

    rows: dict[str, str] = field(default_factory=dict)
    rest: dict[str, str] = field(default_factory=dict)
    away: str | None = None


class Live:
    """Tells all viewers of one page. Without `begin` there is no thread, and a test calls `look` itself."""

    def __init__(self, board: Board, events: Events, timing: Timing, *, begin: Begin | None = on_thread) -> None:
        self._board = board
        self._events = events
        self._timing = timing
        self._begin = begin
        self._told = _Told()
        self._changed = threading.Condition()
        self._viewers: dict[Viewer, None] = {}
        self._is_running = False
        self._is_over = False
        self._left_at = 0.0
        self._due = 0.0
        self._spacing = _TOGETHER
        tell_after_fork(self)

    @property
    def viewers(self) -> int:
        """The number of viewers."""
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

    def after_fork(self) -> None:
        """Begin anew in a forked child: viewers, thread and stream are the parent's."""
        self._changed = threading.Condition()
        self._viewers = {}
        self._is_running = self._is_over = False

    def look(self) -> bool:
        """Look once, and tell the viewers what is new to them. Return whether RTDB could be read."""
        self._board.changed()
        try:
            seen = self._board.look()
        except StoreError as error:
            self._tell_away(redacted(str(error)))
            return False
        found = jobs_json(seen)
        rows, rest = found.essence()
        told, self._told = self._told, _Told(rows, rest)
        now = {"now": to_text(seen.now)}
        everything: Json = {**now, "jobs": found.jobs, "gone": [], **found.rest()}
        changed = [row for row in found.jobs if told.rows.get(str(row["job"])) != rows[str(row["job"])]]
        gone = sorted(told.rows.keys() - rows.keys())
        others = {name: value for name, value in found.rest().items() if told.rest.get(name) != rest[name]}
        news: Json | None = {**now, "jobs": changed, "gone": gone, **others} if changed or gone or others else None
        # After an absence all are told everything: nobody knows what was missed.
        self._push("jobs", everything if told.away is not None else news, everything)
        return True

    def _tell_away(self, message: str) -> None:
        is_news = self._told.away is None
        self._told = _Told(away=message)
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
                    self._look()
            finally:
                self._board.unfollow()
            with self._changed:
                if self._is_over or not self._viewers:
                    self._is_running = False
                    return

    def _look(self) -> None:
        began = self._timing.mono()
        try:
            was_read = self.look()
        except Exception as error:
            # A defect. Who watches sees no change; the page itself says what is wrong when it asks.
            was_read = False
            message = f"The page could not be kept live: {described(error)}"
            self._events.emit("page.failed", "firecron", logging.ERROR, message, error)
        self._plan(began, was_read=was_read)

    def _plan(self, began: float, *, was_read: bool) -> None:
        """Plan the next look, unless a change has come meanwhile."""
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
                    self._due = now + (_LOOK if self._board.heard is not None else _LOOK_WITHOUT_STREAM)
                    return True
                else:
                    return False
            return False


def _message(event: str, value: Json) -> bytes:
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return f"event: {event}\ndata: {data}\n\n".encode("utf-8", "replace")
