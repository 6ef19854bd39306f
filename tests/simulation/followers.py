"""A large fleet that follows one leader, in virtual time: real candidates and tickets, and what they ask and hear.

Each instance has a candidate, tickets and an ear; the store is in memory. A request takes a way to the database and one
back, and an event takes a way, in order. All of an instance's requests about the leader are asks (`Ask`), renewals or
releases. The heartbeats, which all instances have, take no time here and are not counted.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from math import inf
from random import Random
from typing import Literal, TypeAlias

from greenlet import getcurrent, greenlet

from firecron.base.clocks import Deadline
from firecron.base.tickets import Tickets, place_of_tick
from firecron.errors import Unavailable
from firecron.leaders.candidate import ActiveTerm, Candidate
from firecron.leaders.leader import Election
from firecron.lock.fields import LEADER
from firecron.lock.waiting import Follow, Update
from firecron.locks import LockService
from firecron.settings import load
from firecron.store import Snapshot
from firecron.testing import FakeTiming, MemoryStore

NAME, PATH = "price-feed", "cron-locks/price-feed"
# Milliseconds.
TTL, MARGIN, HEARTBEAT = 15_000, 1_000, 30_000
KEEP_ALIVE = len("event: keep-alive\ndata: null\n\n")

How: TypeAlias = Literal["stop", "kill"]


@dataclass
class Ask:
    """A try of a follower, and its requests. `knows` is the time of the last change that it had heard of."""

    by: Instance
    at: float
    knows: float
    requests: int = 0


@dataclass(frozen=True)
class Handover:
    """What it took from one leader to the next. `asks` are those of who had not heard of the next leader yet.

    `leaderless` and `late` are milliseconds, since the old leader's end, and since its node was free.
    """

    asks: int
    requests: int
    leaderless: float
    late: float


class Time(FakeTiming):
    """The fleet's clock: whoever sleeps lets the others go on."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__()
        self._fleet = fleet

    def sleep(self, seconds: float) -> None:
        self._fleet.pause(seconds * 1000)


class Counting(MemoryStore):
    """Counts the requests about the leader's node, which take their time, and tells of each change."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet.timing.now)
        self._fleet = fleet
        self.requests = 0
        self.bytes = 0
        self.elected_at = 0.0

    def read(self, path: str, deadline: Deadline) -> Snapshot:
        if path != PATH:
            return super().read(path, deadline)
        self._begin(None)
        answer = super().read(path, deadline)
        self._fleet.travel()
        return answer

    def swap(self, path: str, etag: str, node: dict[str, object] | None, deadline: Deadline) -> str | Snapshot:
        if path != PATH:
            return super().swap(path, etag, node, deadline)
        self._begin(node)
        answer = super().swap(path, etag, node, deadline)
        if isinstance(answer, str):
            if getcurrent() in self._fleet.under_way:
                self.elected_at = self._fleet.mono
            for one in self._fleet.alive:
                one.ear.hear()
        self._fleet.travel()
        return answer

    def _begin(self, node: object) -> None:
        self.requests += 1
        self.bytes += len(json.dumps(self.get(PATH))) + len(json.dumps(node))
        ask = self._fleet.under_way.get(getcurrent())
        if ask is not None:
            ask.requests += 1
        self._fleet.travel()
        if ask is not None and ask.by.ear.is_cut:
            self._fleet.pause(1_000)
            raise Unavailable("it is cut off")


class Line:
    """A stream as far as it shows life: with each event, and every 30 s unless it is cut."""

    def __init__(self, fleet: Fleet, ear: Ear) -> None:
        self._fleet = fleet
        self._ear = ear
        self.alive_at = self.opened_at = fleet.mono

    def silence(self) -> float:
        now = self._fleet.mono if self._ear.cut_at is None else self._ear.cut_at
        kept_alive_at = self.opened_at + (now - self.opened_at) // 30_000 * 30_000
        return self._fleet.mono - max(self.alive_at, kept_alive_at)


class Ear:
    """In place of `NodeStreams`: one follower's stream, which is told by the fleet.

    While it `is_cut`, no request reaches the database; its stream, once cut, stays silent until another is opened.
    """

    can_tell = True

    def __init__(self, fleet: Fleet, one: Instance) -> None:
        self._fleet = fleet
        self._one = one
        self._numbers = count(1)
        self._last: object = None
        self._in_order = 0.0
        self.follow: Follow | None = None
        self.line = Line(fleet, self)
        self.is_cut = False
        self.cut_at: float | None = None
        self.bytes = 0
        self.opened = 0
        self.knows = 0.0

    def abandon(self) -> None:
        """Do nothing: a fleet lives in one process, though a test beside it may fork."""

    def add(self, follow: Follow) -> None:
        if self.follow is not follow:
            self.follow = follow
            self.opened += 1
            self.line = Line(self._fleet, self)
            follow.silence = self.line.silence
            self._send(self._fleet.store.get(follow.path))

    def discard(self, follow: Follow) -> None:
        if self.follow is follow:
            self.follow = None

    def cut(self) -> None:
        """The network goes away, and takes the stream with it without a word. `is_cut` is unset when it is back."""
        self.is_cut, self.cut_at = True, self._fleet.mono

    def hear(self) -> None:
        """The database has a change: it is sent if it is one of what is followed."""
        if self.follow is not None and (node := self._fleet.store.get(self.follow.path)) != self._last:
            self._send(node)

    def _send(self, node: object) -> None:
        self._last, follow = node, self.follow
        self.bytes += len(f'event: put\ndata: {{"path":"/","data":{json.dumps(node)}}}\n\n')
        self._in_order = max(self._in_order, self._fleet.mono + self._fleet.way())
        sent = self._fleet.mono
        self._fleet.at(self._in_order, lambda: self._take(follow, node, sent))

    def _take(self, follow: Follow | None, node: object, sent: float) -> None:
        if follow is not None and follow is self.follow and self._one.is_alive and self.cut_at is None:
            self.line.alive_at = self._fleet.mono
            follow.update = Update(next(self._numbers), node)
            self.knows = sent
            self._one.look()


class Instance:
    """One instance: its candidate, its tickets, and its ear. It has beaten at `offset` before the first beat here."""

    contenders = 3

    def __init__(self, fleet: Fleet, beats_at: float) -> None:
        self._fleet = fleet
        self.is_alive = True
        self.locks = LockService(store=fleet.store, timing=fleet.timing, settings=load(), has_threads=False)
        self.locks.database.chance = fleet.random.random
        self.ear = Ear(fleet, self)
        self.locks.database.streams = self.ear  # type: ignore[assignment]  # it has what a candidate uses
        self.candidate = Candidate(self.locks.database, Election(NAME, TTL, 1_000))
        self.candidate.turnout.tickets = self
        self.tickets = Tickets(HEARTBEAT)
        self.active: ActiveTerm | None = None
        self.due = inf
        self._beats_at = beats_at
        self._is_standing = self.is_renewing = False
        self.look()

    def size(self) -> float | None:
        return self.tickets.size(self._fleet.mono)

    def distance(self, name: str, what: str) -> float:
        return self.tickets.distance(place_of_tick(name, f"{LEADER} {what}"))

    @property
    def is_near(self) -> bool:
        """Whether it follows the whole node."""
        return self.ear.follow is not None and self.ear.follow.path == PATH

    def look(self) -> None:
        """See when it has something to do next."""
        keeper = inf if self.is_renewing else self.locks.database.keeper.due
        pause = None if self.active is not None or self._is_standing else self.candidate.due_in()
        stands = inf if pause is None else self._fleet.mono + pause * 1000
        due = min(self._beats_at, stands, inf if keeper is None else keeper) if self.is_alive else inf
        if due != self.due:
            self.due = due
            self._fleet.at(due, lambda: self._work(due))

    def _work(self, due: float) -> None:
        if due == self.due:
            self.due = inf
            self.work()

    def work(self) -> None:
        now = self._fleet.mono
        if now >= self._beats_at:
            self.tickets = self.tickets.take(next(self._fleet.tickets), now)
            self._beats_at += HEARTBEAT
            self.locks.clock.observe(self._fleet.timing.now(), now, now)
        keeper = self.locks.database.keeper
        if not self.is_renewing and keeper.due is not None and keeper.due <= now:
            self._fleet.begin(self._renew)
        if self.active is None and not self._is_standing:
            if self.candidate.due_in() == 0:
                self._fleet.begin(self._stand)
            else:
                self.candidate.listen()
        self.look()

    def end(self) -> None:
        """The body ends, and its term is released."""
        active, self.active = self.active, None
        assert active is not None
        self.candidate.end(active)
        self.look()

    def die(self) -> None:
        self.is_alive = False
        self.due = inf
        self.ear.follow = None

    def _renew(self) -> None:
        self.is_renewing = True
        try:
            self.locks.database.keeper.work()
        finally:
            self.is_renewing = False
            self.look()

    def _stand(self) -> None:
        self._is_standing = True
        ask = Ask(self, self._fleet.mono, self.ear.knows)
        self._fleet.asks.append(ask)
        self._fleet.under_way[getcurrent()] = ask
        try:
            self.active = self.candidate.stand()
        finally:
            self._is_standing = False
            del self._fleet.under_way[getcurrent()]
        if self.active is None:
            self.candidate.listen()
        self.look()


@dataclass(eq=False)
class Fleet:
    """So many instances, whose ways take `least` to `most` milliseconds; and the time."""

    number: int
    seed: int
    least: float = 5.0
    most: float = 20.0
    asks: list[Ask] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.timing = Time(self)
        self.store = Counting(self)
        self.tickets = count(1)
        self.under_way: dict[greenlet, Ask] = {}
        self._numbers = count()
        self._to_come: list[tuple[float, int, Callable[[], object]]] = []
        self._hub = getcurrent()
        self.alive: list[Instance] = []
        for index in range(self.number):
            self.join(index / self.number)

    @property
    def mono(self) -> float:
        return self.timing.mono()

    @property
    def leader(self) -> Instance | None:
        return next((one for one in self.alive if one.active is not None), None)

    @property
    def near(self) -> int:
        """How many follow the whole node."""
        return sum(one.is_near for one in self.alive)

    @property
    def opened(self) -> int:
        """How many streams were opened."""
        return sum(one.ear.opened for one in self.alive)

    @property
    def heard(self) -> int:
        """How many bytes of events were sent."""
        return sum(one.ear.bytes for one in self.alive)

    def reset(self) -> None:
        """Count from here on."""
        self.asks.clear()
        self.store.requests = self.store.bytes = 0
        for one in self.alive:
            one.ear.opened = one.ear.bytes = 0

    def join(self, part: float | None = None) -> None:
        """One more instance, whose first beat comes after this part of a heartbeat."""
        part = self.random.random() if part is None else part
        self.alive.append(Instance(self, self.mono + part * HEARTBEAT))

    def leave(self, one: Instance) -> None:
        """An instance is killed, or has stopped."""
        self.alive.remove(one)
        one.die()

    def end(self) -> None:
        """Nothing happens any more."""
        self._to_come.clear()
        self.alive.clear()

    def way(self) -> float:
        return self.least + (self.most - self.least) * self.random.random()

    def travel(self) -> None:
        """Let a way's time pass for the act that is under way."""
        self.pause(self.way())

    def pause(self, milliseconds: float) -> None:
        act = getcurrent()
        assert act is not self._hub, "only an act waits"
        self.at(self.mono + milliseconds, act.switch)
        self._hub.switch()

    def begin(self, act: Callable[[], object]) -> None:
        """Do this beside all else: it may travel."""
        greenlet(act).switch()

    def at(self, mono: float, call: Callable[[], object]) -> None:
        heapq.heappush(self._to_come, (mono, next(self._numbers), call))

    def step(self, ends: float = inf) -> bool:
        """Let the next thing happen, if it comes before `ends`; else it is then."""
        due = self._to_come[0][0]
        # A nanosecond more: the clock moves in whole ones.
        self.timing.advance(max(0.0, min(due, ends) - self.mono) / 1000 + 1e-9)
        if due >= ends:
            return False
        heapq.heappop(self._to_come)[2]()
        return True

    def pass_by(self, seconds: float) -> None:
        ends = self.mono + seconds * 1000
        while self.step(ends):
            pass

    def hand_over(self, how: How, also: Callable[[Instance], bool] = lambda one: False) -> Handover:
        """The leader stops, or is killed, and with it all die for whom `also` is true. Return what the next one took.

        After a stop they die before they hear of it.
        """
        leader = self.leader
        assert leader is not None, "somebody leads"
        while leader.is_renewing:
            self.step()
        ended = self.mono
        node = self.store.get(PATH)
        assert isinstance(node, dict)
        if how == "stop":
            self.begin(leader.end)
            while leader.active is not None or self.store.get(f"{PATH}/releasedAt") is None:
                self.step()
            free_at = self.mono
        else:
            free_at = self.mono + node["expiresAt"] + MARGIN - self.timing.now()
        for one in [one for one in self.alive if one is leader or also(one)]:
            self.leave(one)
        self.asks.clear()
        while self.leader is None:
            self.step()
        elected = self.mono
        self.pass_by(3 * self.most / 1000)  # until all have heard of it, and have their answers
        asks = [ask for ask in self.asks if ask.at >= free_at and ask.knows < self.store.elected_at]
        return Handover(len(asks), sum(ask.requests for ask in asks), elected - ended, elected - free_at)
