"""Waiting for a lock: when to ask again, and what is heard of it meanwhile.

After the first refusal a waiter follows the lock's node, if the store reports changes; `RetryPolicy` then decides when
to ask again, from values alone. What is heard is a hint, and decides nothing about a lock: it makes a waiter ask
sooner, and the answer decides.

    nothing is heard                    it asks again and again, with growing pauses of up to 2 s, or as long as the
                                        database asks for
    it hears that the lock is held      it asks when the lock may be taken (`free_at`), and 30 s after its last ask
    it hears that the lock is free      it asks after a pause of up to 5 ms

A pause is random, so that the waiters don't ask all at once. Each ask that was in vain although the lock was heard to
be free doubles the longest pause: up to 80 ms if another holder was faster, up to 5 s if the record is as before. So a
watch that sends nonsense is soon as slow as none. In a crowd a few ask within 5 ms, most near the end of the longest
pause, and some between: mostly one of the few takes the lock, and the others hear of that before they ask. Each time
that another holder is heard to be faster before the pause is over makes the crowd a little smaller again, unless the
last ask has shown the watch to be wrong: the last waiters of a crowd don't pause as if all were still there.

The waiters of one process stand in a line, in the order in which they began to follow the node. The first asks after
its pause, and each of the others 80 ms later than the one before it, but a second later at most. By then it has mostly
heard who has the lock. So a waiter that can't ask, because its event loop is blocked, keeps nobody waiting for long.
Who comes while others of its process hear of the lock goes to the end of the line, and asks first when its turn has
come, or after 2 s. So those who take a lock again and again take turns within their process. Between processes there is
no line.

`NodeStreams` has one stream for each node that somebody in the process follows, shared by all who follow it:

    follow = Follow("cron-locks/report", wake)
    streams.add(follow)           # from here on `wake` is called, by another thread, whenever `update` changes
    follow.update                 # the last value that came; None while no stream is open: poll
    streams.discard(follow)

A stream is a thread and a connection. It opens with the first follower of its node, and ends with the last one. If it
breaks, it opens again after a pause, which doubles unless the stream has lasted for a minute. Since a stream begins
with the whole node, nothing is missed for good. If the database refuses it, the pause is the longest one at once. It
is never shorter than the database asks for. A process has at most eight streams: those who follow other nodes hear
nothing until one of the eight ends.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import count
from math import inf
from typing import TypeAlias

from firecron.base.clocks import Deadline, Moment, Timing, backoff, heeding
from firecron.base.events import Events, LastValues
from firecron.base.instants import to_milliseconds
from firecron.errors import Denied, Malformed, NoCredentials
from firecron.lock.fields import is_paused
from firecron.lock.record import LockRecord, parse
from firecron.lock.refusal import Refusal
from firecron.store import KeptAlive, Store, Watch, Watching

# --- when to ask: a pure decision


@dataclass(frozen=True, slots=True)
class Update:
    """The last value of a node from a watch. Each value has a higher number than all before it in its process."""

    number: int
    node: object


# All in milliseconds.
_SHORTEST_PAUSE = 5.0
_LONGEST_AMONG_MANY = 80.0
_LONGEST_AFTER_LIES = 5_000.0
_LEAST_OFTEN = 30_000.0
_FIRST_ASK = 2_000.0
_A_PLACE_IN_LINE = 80.0
_LONGEST_IN_LINE = 1_000.0
# How many times the shortest pause a crowd may be worth, and what is left of that when another waiter was faster.
_LARGEST_CROWD = 64.0
_LESS = 0.98


class RetryPolicy:
    """The state of one waiter. `refused` takes the answer to each ask, `seconds` says when to ask next.

    Times are in milliseconds on the monotonic clock. `chance` (0 to 1) is random.
    """

    def __init__(self, margin: int, chance: Callable[[], float]) -> None:
        self._margin = margin
        self._chance = chance
        self._tries = 0
        self._latest = 0.0
        self._number = 0
        self._refusal: Refusal | None = None
        # The longest pause is the shortest one as many times, but for its limits.
        self._crowd = 1.0
        self._delay = 0.0
        self._seen = 0
        self._seen_at = 0.0
        self._free_since: float | None = None
        self._was_misled = False
        self._polls_at: float | None = None

    def refused(self, refusal: Refusal, update: Update | None, mono: float) -> None:
        """Take the answer to an ask that was made at `mono`, when `update` was the last that was heard."""
        before = self._refusal
        if self._free_since is not None and before is not None and refusal.reason == "held":
            self._was_misled = refusal.holder == before.holder
            most = _LONGEST_AFTER_LIES / _SHORTEST_PAUSE if self._was_misled else _LARGEST_CROWD
            self._crowd = min(2 * self._crowd, most)
        self._tries += 1
        self._latest = mono + _LEAST_OFTEN
        self._number = 0 if update is None else update.number
        self._refusal = refusal
        self._delay = self._pause()
        self._free_since = self._polls_at = None

    def joined(self, mono: float) -> None:
        """Begin at the end of a line, at `mono`, instead of with an ask."""
        self._latest = mono + _FIRST_ASK
        self._delay = self._pause()

    def seconds(self, update: Update | None, moment: Moment | None, mono: float, ahead: int = 0) -> float:
        """Return the seconds until the next ask, by what is heard now. `moment` is RTDB's time, if it is known.

        So many waiters of this process are `ahead` in the line.
        """
        return max(0.0, self.due(update, moment, mono, ahead) - mono) / 1000

    def due(self, update: Update | None, moment: Moment | None, mono: float, ahead: int = 0) -> float:
        """Return when to ask next, on the monotonic clock."""
        refusal = self._refusal
        if update is None or moment is None or (refusal is not None and refusal.reason != "held"):
            self._free_since = None
            if self._polls_at is None:
                error = None if refusal is None else refusal.error
                self._polls_at = mono + heeding(backoff(self._tries + 2, self._chance()), error) * 1000
            return self._polls_at
        self._polls_at = None
        if update.number != self._seen:
            self._seen, self._seen_at = update.number, mono
        is_news = update.number > self._number
        free_at = _free_at(update.node, moment.server, self._margin) if is_news else _said_by(refusal)
        due = moment.mono + free_at - moment.server
        if not is_news or due > mono:
            if self._free_since is not None and not self._was_misled:
                self._crowd = max(1.0, _LESS * self._crowd)
                self._delay = self._pause()
            self._free_since = None
        elif self._free_since is None:
            self._free_since = max(due, self._seen_at)  # the same value once more puts nothing off
        free_since = due if self._free_since is None else self._free_since
        in_line = min(ahead * _A_PLACE_IN_LINE, _LONGEST_IN_LINE)
        return min(free_since + self._delay + in_line, self._latest)

    def _pause(self) -> float:
        """Draw a pause. In a crowd two waiters or so pause for 5 ms at most, and twice as many for half the time."""
        if self._was_misled:
            return self._crowd * _SHORTEST_PAUSE * self._chance()
        longest = min(self._crowd * _SHORTEST_PAUSE, _LONGEST_AMONG_MANY)
        drawn = self._crowd * self._chance()
        wave = 0.0 if drawn < 1 else 0.5 if drawn < 3 < self._crowd else 1.0
        return wave * (longest - _SHORTEST_PAUSE) + _SHORTEST_PAUSE * self._chance()


def _free_at(node: object, now: int, margin: int) -> float:
    """Return the instant of RTDB's clock from which the node says that an ask may have another answer; 0: it does."""
    try:
        current = parse(node, now)
    except Malformed:
        return 0  # the answer to the ask says so
    if not isinstance(current, LockRecord) or is_paused(current.kept, now):
        return 0
    return current.free_at(margin)


def _said_by(refusal: Refusal | None) -> float:
    return inf if refusal is None or refusal.free_at is None else to_milliseconds(refusal.free_at)


# --- the streams of a process

# Returns the milliseconds since a stream has shown life.
Silence: TypeAlias = Callable[[], float]
# Runs a function on another thread.
Begin: TypeAlias = Callable[[Callable[[], None]], object]


def on_thread(run: Callable[[], None]) -> None:
    """Run it on a thread of its own, which doesn't keep the process alive."""
    threading.Thread(target=run, name="firecron-stream", daemon=True).start()


MOST_STREAMS = 8


class Places:
    """How many streams a process may have."""

    def __init__(self, most: int = MOST_STREAMS) -> None:
        self._free = most
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Take a place, if there is one left. Return whether."""
        with self._lock:
            self._free -= (has_room := self._free > 0)
        return has_room

    def leave(self) -> None:
        with self._lock:
            self._free += 1


@cache
def places_of(process: int) -> Places:
    """Return the places of a process, by its id: a forked child has its own."""
    return Places()


# A stream that was silent for longer than a keep-alive takes, and 2 s, may be dead: RTDB sends one every 30 s.
SILENT = 32_000.0


class Follow:
    """What a follower of one node hears. `wake` is called on the stream's thread; it must not block."""

    def __init__(self, path: str, wake: Callable[[], object]) -> None:
        self.path = path
        self.wake = wake
        self.update: Update | None = None
        self.silence: Silence | None = None

    def fresh(self) -> Update | None:
        """Return what was heard last; None if nothing comes, or if the stream may be dead: it is silent."""
        return self.update if self._silence() < SILENT else None

    def stale_in(self) -> float:
        """Return the milliseconds until the stream may be dead, if it stays silent; infinity if that is past."""
        left = SILENT - self._silence()
        return left if left > 0 else inf

    def _silence(self) -> float:
        silence = self.silence
        return 0.0 if silence is None else silence()


class _NodeStream:
    """The stream of one node. `update` and `watch` are None while it is not open; then `silence` is not looked at."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.follows: dict[Follow, None] = {}
        self.is_running = False
        self.update: Update | None = None
        self.watch: Watch | None = None
        self.silence: Silence | None = None


# All in milliseconds.
_FIRST_PAUSE = 250.0
_LONGEST_PAUSE = 300_000.0
_LASTING = 60_000.0


class NodeStreams:
    """Tells followers of the store's nodes. Without `begin`, or a store that is `Watching`, they hear nothing."""

    def __init__(
        self,
        store: Store,
        timing: Timing,
        events: Events,
        timeout: float,
        *,
        begin: Begin | None = on_thread,
        places: Places | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._store = store
        self._timing = timing
        self._events = events
        self._timeout = timeout
        self.begin = begin
        self.places = places or Places()
        self._chance = chance
        self._changed = threading.Condition()
        self._streams: dict[str, _NodeStream] = {}
        self._told: LastValues[str, None] = LastValues()
        # For all streams, so that a value of the next stream of a node is newer, too.
        self._numbers = count(1)

    @property
    def can_watch(self) -> bool:
        """Whether there can be streams at all."""
        return self.begin is not None and isinstance(self._store, Watching)

    @property
    def open(self) -> int:
        """The number of streams that are open now."""
        with self._changed:
            return sum(stream.update is not None for stream in self._streams.values())

    @property
    def followers(self) -> int:
        """The number of those who follow a node, whether it has a stream or not."""
        with self._changed:
            return sum(len(stream.follows) for stream in self._streams.values())

    def add(self, follow: Follow) -> None:
        """Tell this follower from now on. A second call changes nothing."""
        if not self.can_watch:
            return
        with self._changed:
            stream = self._streams.setdefault(follow.path, _NodeStream(follow.path))
            stream.follows[follow] = None
            follow.update, follow.silence = stream.update, stream.silence
        self._serve()

    def join(self, follow: Follow) -> bool:
        """Tell this follower from now on, if others hear of its node already. Return whether they do."""
        with self._changed:
            stream = self._streams.get(follow.path)
            if stream is None or stream.update is None:
                return False
            follow.update, follow.silence = stream.update, stream.silence
            if follow.fresh() is None:
                return False
            stream.follows[follow] = None
        return True

    def ahead(self, follow: Follow) -> int:
        """Return how many have followed the node for longer than this follower."""
        with self._changed:
            stream = self._streams.get(follow.path)
            return 0 if stream is None else next((at for at, one in enumerate(stream.follows) if one is follow), 0)

    def discard(self, follow: Follow) -> None:
        """Tell this follower nothing any more. A second call changes nothing."""
        watch: Watch | None = None
        with self._changed:
            follow.update = follow.silence = None
            stream = self._streams.get(follow.path)
            if stream is None or follow not in stream.follows:
                return
            del stream.follows[follow]
            if not stream.follows:
                del self._streams[follow.path]
                watch, stream.watch = stream.watch, None
                self._changed.notify_all()
        if watch is not None:
            watch.close()

    def close(self) -> None:
        """End all streams at once. Those who still follow poll from now on."""
        with self._changed:
            streams, self._streams = list(self._streams.values()), {}
            watches = [stream.watch for stream in streams if stream.watch is not None]
            for stream in streams:
                stream.watch = None
            wakes = [wake for stream in streams for wake in _hush(stream)]
            self._changed.notify_all()
        for watch in watches:
            watch.close()
        self._wake(wakes)

    def abandon(self) -> None:
        """Tell nobody in a forked child, which has streams of its own, and leave the connections as they are."""
        self._changed = threading.Condition()
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            _hush(stream)

    def _serve(self) -> None:
        """Give each stream that has no thread one, as far as there are places. Those who came first are first."""
        begin = self.begin
        while begin is not None:
            with self._changed:
                stream = next((one for one in self._streams.values() if not one.is_running), None)
                if stream is None or not self.places.take():
                    return
                stream.is_running = True
            try:
                begin(partial(self._run, stream))
            except RuntimeError as error:
                # No thread can be started, for want of memory or at the end of the process.
                self.places.leave()
                stream.is_running = False
                self._complain(stream, error)
                return

    def _run(self, stream: _NodeStream) -> None:
        """Keep the stream open for as long as somebody follows it."""
        failures = 0
        try:
            while self._is_wanted(stream):
                opened = self._timing.mono()
                try:
                    self._listen(stream)
                except Exception as error:
                    failures = 1 if self._timing.mono() - opened >= _LASTING else failures + 1
                    self._lose(stream, error)
                    longest = _LONGEST_PAUSE if isinstance(error, Denied) else _FIRST_PAUSE * 2.0 ** min(failures, 16)
                    pause = min(_LONGEST_PAUSE, longest) * (0.5 + 0.5 * self._chance())
                    self._rest(stream, 1000 * heeding(pause / 1000, error))
        finally:
            with self._changed:
                stream.is_running = False
            self.places.leave()
        self._serve()

    def _listen(self, stream: _NodeStream) -> None:
        """Open the stream, and pass on its values until nobody follows it. Raise what ends it before."""
        assert isinstance(self._store, Watching), "only such a store is listened to"
        watch = self._store.watch(stream.path, Deadline.after(self._timing, self._timeout))
        try:
            with self._changed:
                stream.watch = watch
                stream.silence = watch.silence if isinstance(watch, KeptAlive) else None
            while self._is_wanted(stream):
                node = watch.next()
                with self._changed:
                    if not self._is_wanted(stream):
                        return
                    stream.update = Update(next(self._numbers), node)
                    for follow in stream.follows:
                        follow.update, follow.silence = stream.update, stream.silence
                    wakes = [follow.wake for follow in stream.follows]
                self._wake(wakes)
        finally:
            with self._changed:
                stream.watch = None
            watch.close()

    def _is_wanted(self, stream: _NodeStream) -> bool:
        return self._streams.get(stream.path) is stream

    def _lose(self, stream: _NodeStream, error: Exception) -> None:
        with self._changed:
            if not self._is_wanted(stream):
                return
            wakes = _hush(stream)
        self._complain(stream, error)
        self._wake(wakes)

    def _rest(self, stream: _NodeStream, pause: float) -> None:
        ends = self._timing.mono() + pause
        with self._changed:
            while self._is_wanted(stream) and (left := ends - self._timing.mono()) > 0:
                self._timing.wait(self._changed, left / 1000)

    def _wake(self, wakes: list[Callable[[], object]]) -> None:
        for wake in wakes:
            try:
                wake()
            except Exception as error:
                # One follower's error must not reach the others. It asks again anyway, if later.
                message = f"A waiter could not be told of a change: {error!r}"
                self._events.emit("watch.failed", "watch", logging.WARNING, message, error, why=repr(error))

    def _complain(self, stream: _NodeStream, error: Exception) -> None:
        """Say why a stream is not open. Each reason is INFO once, because streams break as connections do.

        Without credentials nothing works, which the clock says once for all.
        """
        why = f"{type(error).__name__}: {error}"
        level = logging.DEBUG if why in self._told or isinstance(error, NoCredentials) else logging.INFO
        self._told.put(why, None)
        message = f"No stream tells of changes of {stream.path}, so the database is asked every few seconds: {error}"
        self._events.emit("watch.failed", stream.path.rpartition("/")[2], level, message, why=why)


def _hush(stream: _NodeStream) -> list[Callable[[], object]]:
    """Let the followers hear nothing. Return how to wake them. Called under the lock."""
    stream.update = None
    for follow in stream.follows:
        follow.update = follow.silence = None
    return [follow.wake for follow in stream.follows]
