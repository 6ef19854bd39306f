"""Runs the exchanges of `protocol` on a thread, with their requests, pauses and deadlines.

Each request has a deadline of its own: the earliest of the exchange's deadline, the timeout of one request and, if a
lease is at stake, a third of the time left of the lease. So one slow request can't use up the lease.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from firecron.base.backoff import backoff
from firecron.base.clocks import Deadline, Timing
from firecron.base.server_clock import ServerClock
from firecron.errors import Unavailable
from firecron.lock import protocol
from firecron.lock.protocol import Exchange, Pause, T
from firecron.settings import Settings
from firecron.store import Store


class Driver:
    """Runs exchanges on the calling thread. `chance` makes the pauses between tries random."""

    def __init__(
        self,
        store: Store,
        clock: ServerClock,
        timing: Timing,
        settings: Settings,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.store = store
        self.clock = clock
        self.timing = timing
        self.settings = settings
        self.margin = settings.margin_ms
        self._chance = chance

    def run(self, exchange: Exchange[T], path: str, deadline: Deadline, lease_ends: float | None = None) -> T:
        """Run an exchange on one node, and return its result. Raise StoreError if the exchange fails."""
        return protocol.run(
            exchange,
            now=lambda: self.clock.now(deadline),
            read=lambda: self.store.read(path, self._request(deadline, lease_ends)),
            swap=lambda etag, node: self.store.swap(path, etag, node, self._request(deadline, lease_ends)),
            pause=lambda pause: self._pause(pause, deadline),
            mono=self.timing.mono,
        )

    def deadline(self, seconds: float) -> Deadline:
        """Return the deadline `seconds` from now."""
        return Deadline.after(self.timing, seconds)

    def _request(self, deadline: Deadline, lease_ends: float | None) -> Deadline:
        seconds = self.settings.request_timeout
        if lease_ends is not None:
            seconds = min(seconds, (lease_ends - self.timing.mono()) / 3000)
        request = deadline.within(seconds)
        if request.remaining() <= 0:
            raise Unavailable("the deadline has passed")
        return request

    def _pause(self, pause: Pause, deadline: Deadline) -> None:
        delay = max(backoff(pause.tries, self._chance()), pause.at_least)
        if delay >= deadline.remaining():
            raise pause.error or Unavailable(pause.why)
        self.timing.sleep(delay)
