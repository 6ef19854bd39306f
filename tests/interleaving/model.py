"""A model of the lock: one node, the requests under way to it, the time, an operator, and what can happen next.

Everything that can happen is an `Event`; nothing happens by itself. A request that was sent lands at the node at some
later event (or never), its reply comes at another one, and its client may give up in between. So one fault covers
the lost reply (it had landed), the dropped request (it never lands) and the ghost (it lands after that).

It is no `tests.simulation.world.World`, because its state is compared with each state seen before, and it is built anew
for each interleaving: so it drives the protocol's own generators, without services, stores or threads.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tests.interleaving.checks import Monitor
from tests.interleaving.choices import Event
from tests.interleaving.clocks import MARGIN, START, TTL

from firecron.base.clocks import Moment
from firecron.errors import Denied, StoreError, Unavailable
from firecron.lock.fields import PAUSE_FIELDS
from firecron.lock.protocol import Read, Swap
from firecron.lock.record import Request
from firecron.store import NULL_ETAG, Snapshot

if TYPE_CHECKING:
    from tests.interleaving.holder import Holder


@dataclass(slots=True, eq=False)
class Flight:
    """A request on its way, with the clock reading that it was made of."""

    holder: Holder
    kind: str
    request: Request
    step: Read | Swap
    reading: Moment
    read_at: float
    landed: bool = False
    awaited: bool = True
    answer: Snapshot | str | None = None

    def key(self) -> Hashable:
        answer = self.answer.etag if isinstance(self.answer, Snapshot) else self.answer
        return self.request.holder, self.kind, repr(self.step), self.reading, self.landed, self.awaited, answer


# When a pause ends that has an end.
PAUSED_UNTIL = START + TTL // 2


class Model:
    """`budget` says how often each of these may happen: jump, crash, give_up, deny, delete, pause, pause_until,
    unlock, cancel.
    """

    def __init__(self, budget: Mapping[str, int], time: float, *, brisk: bool) -> None:
        self.budget = Counter(budget)
        self.brisk = brisk
        self.time = time
        self.node: dict[str, object] | None = None  # never changed, only replaced
        self.etag = NULL_ETAG  # what the node says is all that it is, so its text serves
        self.freed = 0  # how often an operator took the lock away from whoever had it
        self.flights: list[Flight] = []
        self.holders: list[Holder] = []
        self.monitor = Monitor(self)
        self.ended = False
        self._may_jump = True  # two jumps with nothing between are one

    def state(self) -> Hashable:
        """All that what can still happen depends on."""
        return (
            self.time,
            self._may_jump,
            self.etag,
            self.freed,
            frozenset(self.budget.items()),
            frozenset(Counter(flight.key() for flight in self.flights).items()),
            tuple(holder.state() for holder in self.holders),
            self.monitor.state(),
        )

    def send(self, flight: Flight) -> None:
        self.flights.append(flight)

    def hang_up(self, holder: Holder) -> None:
        """The holder waits no more; what it wrote may still land."""
        for flight in [flight for flight in self.flights if flight.holder is holder and flight.awaited]:
            flight.awaited = False
            if flight.landed or isinstance(flight.step, Read):
                self.flights.remove(flight)

    def spend(self, what: str) -> None:
        self.budget[what] -= 1

    def events(self) -> Iterator[Event]:
        if self.ended:
            return
        for holder in self.holders:
            yield from holder.events()
        for flight in self.flights:
            yield from self._network(flight)
        if any(holder.is_active for holder in self.holders):
            yield from self._operator()
        else:
            yield Event("the end", 1.0, self._end)
            if not self.flights:
                return
        yield from self._jumps()

    def happen(self, event: Event) -> None:
        self._may_jump = True
        event.do()
        self.monitor.after_event()

    def _network(self, flight: Flight) -> Iterator[Event]:
        who = f"{flight.holder.name}: {flight.kind} {type(flight.step).__name__.lower()}"
        if not flight.landed:
            yield Event(f"{who} lands", 3.0 if flight.awaited else 0.7, lambda: self._land(flight))
        elif flight.awaited:
            yield Event(f"{who} is answered", 3.0, lambda: self._reply(flight))
        if flight.awaited and self.budget["give_up"]:
            yield Event(f"{who} given up", 0.5, lambda: self._fail(flight, "give_up", Unavailable("no reply")))
        if flight.awaited and not flight.landed and self.budget["deny"]:
            yield Event(f"{who} denied", 0.3, lambda: self._fail(flight, "deny", Denied("the rules say no")))

    def _operator(self) -> Iterator[Event]:
        node = self.node
        if node is not None and self.budget["delete"]:
            yield Event("operator deletes the node", 0.2, lambda: self._operate("delete", None))
        if self.budget["pause"]:
            paused = {**(node or {}), "paused": True}
            yield Event("operator pauses", 0.2, lambda: self._operate("pause", paused))
        if self.budget["pause_until"]:
            ending = {**(node or {}), "paused": True, "pausedUntil": PAUSED_UNTIL}
            yield Event("operator pauses for a while", 0.2, lambda: self._operate("pause_until", ending))
        if node is not None and "expiresAt" in node and self.budget["unlock"]:
            unlocked = {**node, "expiresAt": 0}
            yield Event("operator unlocks", 0.2, lambda: self._operate("unlock", unlocked))
        if node is not None and "fence" in node and "releasedAt" not in node and self.budget["cancel"]:
            cancelled = {**node, "cancel": node["fence"]}
            yield Event("operator cancels", 0.2, lambda: self._operate("cancel", cancelled))
        if node is not None and node.get("paused"):
            resumed = {key: value for key, value in node.items() if key not in PAUSE_FIELDS} or None
            yield Event("operator resumes", 0.3, lambda: self._operate("resume", resumed))

    def _jumps(self) -> Iterator[Event]:
        if not (self.budget["jump"] and self._may_jump):
            return
        times = sorted(time for time in self._instants() if time > self.time)
        for time in times:
            yield Event(f"time {time:g}", 2.0 / len(times), partial(self._jump, time))

    def _instants(self) -> set[float]:
        """1 ms before, at, and 1 ms after each instant at which somebody might change its mind."""
        nodes = [self.node, *(flight.step.node for flight in self.flights if isinstance(flight.step, Swap))]
        leases = {(node.get("instance"), node["expiresAt"]) for node in nodes if node and node.get("expiresAt")}
        instants: set[float] = set()
        for holder in self.holders:
            for owner, expires_at in leases:
                for around in (-MARGIN if owner == holder.name else 0, MARGIN):
                    instants.add(holder.clock.when_server(int(str(expires_at)) + around))
            if self.node is not None and "pausedUntil" in self.node:
                instants.add(holder.clock.when_server(PAUSED_UNTIL))
            if holder.held is not None:
                instants.add(holder.clock.when_mono(holder.held.trust.ends(MARGIN)))
        return {instant + around for instant in instants for around in (-1, 0, 1)}

    def _jump(self, time: float) -> None:
        self.spend("jump")
        self.time = time
        self._may_jump = False

    def _land(self, flight: Flight) -> None:
        flight.landed = True
        step = flight.step
        if isinstance(step, Read) or not self._matches(step):
            flight.answer = Snapshot(self.etag, self.node)
        else:
            before = self.node
            self._put(step.node)
            flight.answer = self.etag
            self.monitor.on_write(flight, before, self.node)
        if not flight.awaited:
            self.flights.remove(flight)
        elif self.brisk and isinstance(flight.answer, Snapshot):
            self._reply(flight)

    def _reply(self, flight: Flight) -> None:
        self.flights.remove(flight)
        assert flight.answer is not None, "what has landed has an answer"
        flight.holder.hear(flight.answer)

    def _fail(self, flight: Flight, what: str, error: StoreError) -> None:
        self.spend(what)
        if isinstance(error, Denied):
            self.flights.remove(flight)
        else:
            self.hang_up(flight.holder)
        flight.holder.hear(error)

    def _operate(self, what: str, node: dict[str, object] | None) -> None:
        if what != "resume":
            self.spend(what)
        self.freed += what in ("delete", "unlock")
        self._put(node)
        if node is None:
            self.monitor.on_delete()

    def _matches(self, step: Swap) -> bool:
        return step.etag == self.etag

    def _put(self, node: dict[str, object] | None) -> None:
        self.node = node
        self.etag = NULL_ETAG if node is None else json.dumps(node, sort_keys=True)

    def _end(self) -> None:
        self.ended = True
