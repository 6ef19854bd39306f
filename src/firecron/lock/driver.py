"""Runs the exchanges of `protocol` on a thread, with their requests, pauses and deadlines.

Each request has a deadline of its own: the earliest of the exchange's deadline, the timeout of one request and, if a
lease is at stake, a third of the time left of the lease. So one slow request can't use up the lease.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from firecron.base.backoff import wait_or_raise
from firecron.base.clocks import Deadline, Timing
from firecron.base.server_clock import ServerClock
from firecron.errors import StoreError, Unavailable
from firecron.lock.protocol import Action, Answer, Exchange, Now, Pause, Read, Swap, Swapped, T
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
        """Run an exchange on one node, and return its result. Raise StoreError if the exchange fails.

        Each action is carried out. Its answer is sent into the exchange, or its failure is raised there.
        """
        try:
            action = next(exchange)
            while True:
                try:
                    answer = self._carry_out(action, path, deadline, lease_ends)
                except StoreError as error:
                    action = exchange.throw(error)
                else:
                    action = exchange.send(answer)
        except StopIteration as done:
            outcome: T = done.value
            return outcome

    def deadline(self, seconds: float) -> Deadline:
        """Return the deadline `seconds` from now."""
        return Deadline.after(self.timing, seconds)

    def _carry_out(self, action: Action, path: str, deadline: Deadline, lease_ends: float | None) -> Answer:
        match action:
            case Now():
                return self.clock.now(deadline)
            case Read():
                return self.store.read(path, self._request(deadline, lease_ends))
            case Swap(etag, node):
                found = self.store.swap(path, etag, node, self._request(deadline, lease_ends))
                return Swapped(found, self.timing.mono()) if isinstance(found, str) else found
            case Pause(tries, error):
                wait_or_raise(error, tries, deadline, self.timing, self._chance())
                return None

    def _request(self, deadline: Deadline, lease_ends: float | None) -> Deadline:
        seconds = self.settings.request_timeout
        if lease_ends is not None:
            seconds = min(seconds, (lease_ends - self.timing.mono()) / 3000)
        request = deadline.within(seconds)
        if request.remaining() <= 0:
            raise Unavailable("the deadline has passed")
        return request
