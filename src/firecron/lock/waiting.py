"""Waiting for a lock: how often to try, how long to wait, and which refusals are worth a wait.

    with closing(Waiting(wait, streams, path, clock, timing, margin)) as waiting:
        answer = ...  # one try, for `waiting.start()` seconds at most
        while waiting.goes_on(answer):
            waiting.pause()
            answer = ...

The loop is the same on a thread, on an event loop, and where a signal ends the pause. After the first refusal the
waiter follows the lock's node, if the store tells of changes; `hearing` then decides when to try.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from contextlib import suppress
from math import inf

from firecron.base.clocks import Deadline, Timing
from firecron.base.server_clock import ServerClock
from firecron.lock.hearing import Heard, Hearing
from firecron.lock.refusal import Refusal
from firecron.lock.streams import Follow, Streams


class Waiting:
    """The tries of one waiter for the lock at `path`. The last try comes when `wait` seconds are over.

    Without a wait there is one try. `wake` is called on another thread when `seconds` may have become less; without
    one of the caller's own, it ends `pause`.
    """

    def __init__(
        self,
        wait: float,
        streams: Streams,
        path: str,
        clock: ServerClock,
        timing: Timing,
        margin: int,
        *,
        wake: Callable[[], object] | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._deadline = Deadline.after(timing, wait)
        self._has_none = wait <= 0
        self._streams = streams
        self._clock = clock
        self._timing = timing
        self._hearing = Hearing(margin, chance)
        self._changed = threading.Condition()
        # Made before it is added, so that it can be discarded at any moment.
        self._follow = Follow(path, wake or self._wake)
        self._heard: Heard | None = None
        self._asked = 0.0

    def start(self, least: float) -> float:
        """Begin a try. Return how many seconds it may take: the rest of the wait, but not less than `least`."""
        self._heard, self._asked = self._follow.heard, self._timing.mono()
        return inf if self._has_none else max(self._deadline.remaining(), least)

    def goes_on(self, answer: object) -> bool:
        """Take the answer of a try. Return whether there is another try, after a pause."""
        if not isinstance(answer, Refusal) or not may_change(answer) or self._deadline.remaining() <= 0:
            return False
        self._hearing.refused(answer, self._heard, self._asked)
        if answer.reason == "held":
            self._streams.add(self._follow)
        return True

    @property
    def can_hear(self) -> bool:
        """Whether a pause can become shorter while it lasts."""
        return self._streams.can_tell

    @property
    def hears(self) -> bool:
        """Whether the lock's node is told of now."""
        return self._follow.heard is not None

    def seconds(self) -> float:
        """Return the seconds until the next try, by what is heard now."""
        due = self._hearing.seconds(self._follow.heard, self._clock.peek(), self._timing.mono())
        return min(due, self._deadline.remaining())

    def pause(self) -> None:
        """Wait until the next try."""
        if not self.can_hear:
            self._timing.sleep(self.seconds())
            return
        with self._changed:
            while (seconds := self.seconds()) > 0:
                self._timing.wait(self._changed, seconds)

    def close(self) -> None:
        """Follow the lock no more."""
        self._streams.discard(self._follow)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


class Waking:
    """Ends the pauses of a task, from any thread. Made on the task's loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_woken = asyncio.Event()

    def wake(self) -> None:
        with suppress(RuntimeError):  # the loop has ended, and the task with it
            self._loop.call_soon_threadsafe(self._is_woken.set)

    async def pause(self, waiting: Waiting) -> None:
        """Wait until the next try, without blocking the loop."""
        if not waiting.can_hear:
            await asyncio.sleep(waiting.seconds())
            return
        while (seconds := waiting.seconds()) > 0:
            # Not `wait_for`: in Python 3.11 it loses a cancellation that comes together with what it waits for.
            with suppress(TimeoutError):  # the pause is over
                async with asyncio.timeout(seconds):
                    await self._is_woken.wait()
            self._is_woken.clear()


def may_change(answer: object) -> bool:
    """Return whether a later try may have another answer: a lock becomes free, or a database becomes reachable."""
    return isinstance(answer, Refusal) and answer.reason in ("held", "unavailable")
