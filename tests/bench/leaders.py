"""What 200 followers of a leader ask and hear: in an idle hour, and at a handover. Virtual time, real decisions.

Each instance has its own candidate and tickets; the store is in memory, and counts. What a follower hears is counted
as RTDB sends it: an event with the changed value, and a keep-alive every 30 s. HTTP and TLS come on top.

    python tests/bench/leaders.py [--followers 200] [--seed 1]
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable
from math import inf
from statistics import median

import goals

from firecron.base.clocks import Deadline
from firecron.base.tickets import Tickets, place_of_tick
from firecron.lock.candidate import Candidate
from firecron.lock.election import Election
from firecron.lock.following import Rank
from firecron.lock.hearing import Heard
from firecron.lock.kinds import LEADER
from firecron.lock.service import LockService
from firecron.lock.streams import Follow
from firecron.lock.tenure import Tenure
from firecron.settings import load
from firecron.store import Snapshot
from firecron.testing import FakeTiming, MemoryStore

NAME, PATH = "price-feed", "cron-locks/price-feed"
HEARTBEAT = 30.0
KEEP_ALIVE = len("event: keep-alive\ndata: null\n\n")
HOUR = 3_600.0


class Counting(MemoryStore):
    """Counts the requests about the leader's node, and tells of each change."""

    def __init__(self, now: Callable[[], int]) -> None:
        super().__init__(now)
        self.asked = 0
        self.bytes = 0
        self.told: Callable[[], object] = lambda: None

    def read(self, path: str, deadline: Deadline) -> Snapshot:
        self._count(path, None)
        return super().read(path, deadline)

    def swap(self, path: str, etag: str, node: dict[str, object] | None, deadline: Deadline) -> str | Snapshot:
        self._count(path, node)
        answer = super().swap(path, etag, node, deadline)
        if path == PATH and isinstance(answer, str):
            self.told()
        return answer

    def _count(self, path: str, node: object) -> None:
        if path == PATH:
            self.asked += 1
            self.bytes += len(json.dumps(self.get(path))) + len(json.dumps(node))


class Ear:
    """In place of `Streams`: has one follower, and tells it by hand."""

    can_tell = True

    def __init__(self, store: Counting) -> None:
        self._store = store
        self._number = 0
        self.follow: Follow | None = None
        self.bytes = 0

    def add(self, follow: Follow) -> None:
        if self.follow is not follow:
            self.follow = follow
            self._tell(self._store.get(follow.path))

    def discard(self, follow: Follow) -> None:
        if self.follow is follow:
            self.follow = None

    def hear(self) -> None:
        if self.follow is not None:
            node = self._store.get(self.follow.path)
            heard = self.follow.heard
            if heard is None or heard.node != node:
                self._tell(node)

    def _tell(self, node: object) -> None:
        assert self.follow is not None
        self._number += 1
        self.follow.heard = Heard(self._number, node)
        self.bytes += len(f'event: put\ndata: {{"path":"/","data":{json.dumps(node)}}}\n\n')


class Instance:
    """One instance: its candidate, what it hears, and its tickets."""

    contenders = 3

    def __init__(self, store: Counting, timing: FakeTiming, offset: float) -> None:
        self._timing = timing
        self.locks = LockService(store=store, timing=timing, settings=load(), has_threads=False)
        self.ear = Ear(store)
        self.locks.contender.streams = self.ear  # type: ignore[assignment]  # it has what a candidate uses
        self.candidate: Candidate = self.locks.candidate(Election(NAME, 15_000, 1_000))
        self.candidate.ranks = self
        self.tickets = Tickets(HEARTBEAT * 1000)
        self.beats_at = offset * 1000
        self.tenure: Tenure | None = None

    def rank(self, name: str) -> Rank | None:
        size = self.tickets.size(self._timing.mono())
        return None if size is None else Rank(size * self.tickets.distance(place_of_tick(name, LEADER)), size)

    def due(self) -> float:
        """When it has something to do."""
        kept = self.locks.contender.keeper.due
        pause = None if self.tenure is not None else self.candidate.pause()
        mine = inf if pause is None else self._timing.mono() + pause * 1000
        return min(self.beats_at, mine, inf if kept is None else kept)

    def work(self, next_ticket: Callable[[], int]) -> None:
        now = self._timing.mono()
        if now >= self.beats_at:
            self.tickets = self.tickets.take(next_ticket(), now)
            self.beats_at += HEARTBEAT * 1000
            self.locks.clock.note(*self._stamp())
        self.locks.contender.keeper.work()
        if self.tenure is None and self.candidate.pause() == 0:
            self.tenure = self.candidate.stand()
        if self.tenure is None:
            self.candidate.listen()

    def _stamp(self) -> tuple[int, float, float]:
        now = self._timing.mono()
        return self._timing.now(), now, now


class Fleet:
    """All instances, and the time."""

    def __init__(self, number: int, seed: int) -> None:
        random.seed(seed)
        self.timing = FakeTiming()
        self.store = Counting(self.timing.now)
        self._ticket = 0
        self.all = [Instance(self.store, self.timing, HEARTBEAT * index / number) for index in range(number)]
        self.store.told = self._tell

    def _tell(self) -> None:
        for one in self.all:
            one.ear.hear()

    def _next_ticket(self) -> int:
        self._ticket += 1
        return self._ticket

    def pass_by(self, seconds: float) -> None:
        ends = self.timing.mono() + seconds * 1000
        while self.step(ends):
            pass

    def step(self, ends: float = inf) -> bool:
        """Let the next thing happen, if it comes before `ends`; else it is then."""
        due, one = min((one.due(), index) for index, one in enumerate(self.all))
        # A nanosecond more: the clock moves in whole ones.
        self.timing.advance(max(0.0, min(due, ends) - self.timing.mono()) / 1000 + 1e-9)
        if due < ends:
            self.all[one].work(self._next_ticket)
        return due < ends

    def reset(self) -> None:
        self.store.asked = self.store.bytes = 0
        for one in self.all:
            one.ear.bytes = 0

    @property
    def leader(self) -> Instance:
        return next(one for one in self.all if one.tenure is not None)

    @property
    def heard(self) -> int:
        return sum(one.ear.bytes for one in self.all)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--followers", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    fleet = Fleet(given.followers + 1, given.seed)
    fleet.pass_by(4 * HEARTBEAT)
    near = sum(one.ear.follow is not None and one.ear.follow.path == PATH for one in fleet.all)
    print(f"{given.followers} followers, of whom {near} follow the node (seed {given.seed})")

    fleet.reset()
    minutes = 6
    fleet.pass_by(minutes * 60)
    keep_alives = given.followers * minutes * 2 * KEEP_ALIVE
    for what, number in (
        ("requests", fleet.store.asked),
        ("kB of them", fleet.store.bytes / 1000),
        ("kB of events", fleet.heard / 1000),
        ("kB of keep-alives", keep_alives / 1000),
    ):
        print(f"an idle hour: {number * HOUR / (minutes * 60):.0f} {what}")

    told = (fleet.heard + keep_alives) * 24 * HOUR / (minutes * 60) / 1e6
    goals.at_most(f"events and keep-alives of {given.followers} followers", told, 120, "MB a day")
    asks, waits = [], []
    for _ in range(9):
        fleet.reset()
        leader = fleet.leader
        assert leader.tenure is not None
        ended = leader.candidate.end(leader.tenure)
        assert ended is not None
        leader.tenure = None
        leader.candidate.stay_away(60_000)
        begins = fleet.timing.mono()
        fleet.store.asked = 0
        while not any(one.tenure for one in fleet.all):
            fleet.step()
        waits.append(fleet.timing.mono() - begins)
        fleet.pass_by(5)
        asks.append(fleet.store.asked)
        fleet.pass_by(2 * HEARTBEAT)
    goals.at_most("requests of a leader's handover, median", median(asks), 12, "requests")
    goals.at_most("a leader's handover without latency, median", median(waits), 1000, "ms")
    print(f"a handover: asks {sorted(asks)}, without a leader for {sorted(round(wait) for wait in waits)} ms")


if __name__ == "__main__":
    main()
