"""Tickets: how a few instances of a large group ask for a tick, and the others don't. Pure arithmetic.

Instances of a service with the same jobs are a group, and the group shares a counter. Each heartbeat increments the
counter. The number that comes back is the instance's ticket. From its own last tickets an instance knows how large the
group is, and from its ticket's place on a circle how many others are nearer to a tick than itself:

    size      the difference of its last two tickets, over the time between them; the smaller of the last two sizes
    place     the ticket times the golden ratio, without its whole part: consecutive tickets lie evenly spread
    distance  from the tick's place (a hash of job and slot) forward to the own place, fixed when the tick comes
    rank      size * distance: how many instances come before this one

With 3 contenders, an instance asks at once with a rank below 3, after 1 s below 6, after 4 s below 12. At each of its
beats it judges the newest tick of each job again. It asks if its rank is low enough now, or if the group has lost a
third since the tick came, or if the size is not known any more. **An instance in doubt asks.**

Promise: the number of instances that ask for a tick doesn't grow with the group. It is about 12 in a steady group.

This is about requests, never about safety: the compare-and-swap on the lock's node decides. A wrong ticket, size or
rank can cost a request, or delay a tick. It can't start a tick twice.

What may interleave, and what becomes of it:

    two instances have one ticket     one counter was deleted in between: both have one place, and both ask
    the counter falls                 the difference is not above 0: the size is not known, and the instance asks
    the counter leaps                 one size is too large. The smaller of the last two counts, so it misleads no
                                      instance that has taken three tickets. One that has taken two may leave a tick to
                                      others until its next beat: then its size has fallen, and it asks
    a beat is late, or lost           after 1.5 heartbeats without a ticket the size is not known
    a beat comes during a tick        the distance stays, the size is the new one: at most one more wave asks
    all that would ask are dead       the others see the counter rise more slowly, by their second beat at the latest
    an instance is new                it has no size, so it asks. A thousand that come at once ask once, as if there
                                      were no tickets
    new ones replace nearly all       their beats hide the dead from a survivor, but they ask for the tick before their
                                      start, too: a tick that the instances before them had, if the job's entry in the
                                      catalogue shows that (`runs/claimer`)
    the set of jobs changes           it is another group: no size until the second beat there

A tick is missed only if its time ends before any living instance asks. If at least a third of the group dies, each
survivor sees it within 1.5 heartbeats and asks. So ticks with less time than two heartbeats are not left to tickets. If
less than a third dies, the size is at least two thirds of what it was, and ranks below 12 cover 18 places of before.
The chance that all 18 are among the dead is below (1/3) ** 18, which is less than 10 ** -8.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

# The version of all this. Instances that judge in another way are in another group.
SCHEME = 2
# 2 ** 64 divided by the golden ratio.
_GOLDEN = 11_400_714_819_323_198_485
_TURN = 2**64
# The waves: how many times the contenders ask by then, and how many milliseconds after the tick came.
_WAVES = ((1, 0.0), (2, 1_000.0), (4, 4_000.0))
# A group that has at most this part of its size left has lost too many.
_LEFT = 2 / 3
# In heartbeats: how far apart two tickets may be, and how much time a tick needs so that a survivor can ask for it.
_SHORTEST_GAP, _LONGEST_GAP = 0.25, 1.5
_LEAST_TIME = 2.0
# The rounds that a group makes in each interval, whatever its size. A smaller group makes them by the clock.
_ROUNDS = 12


@dataclass(frozen=True, slots=True)
class Tickets:
    """The tickets of one instance in one group: the last one, when it was taken, and the sizes that follow.

    Times are milliseconds on the monotonic clock. `sizes` has the newest size first, two at most.
    """

    heartbeat: float
    number: int | None = None
    taken_at: float = 0.0
    sizes: tuple[float, ...] = ()

    def take(self, number: int | None, now: float) -> Tickets:
        """Return the tickets after a beat that brought this number; None if the beat brought no number."""
        if number is None:
            return Tickets(self.heartbeat)
        sizes: tuple[float, ...] = ()
        is_in_time = self.taken_at + _SHORTEST_GAP * self.heartbeat <= now <= self.stale_at
        if self.number is not None and number > self.number and is_in_time:
            size = (number - self.number) * self.heartbeat / (now - self.taken_at)
            sizes = (max(1.0, size), *self.sizes[:1])
        return replace(self, number=number, taken_at=now, sizes=sizes)

    def size(self, now: float) -> float | None:
        """Return the size of the group; None if it is not known, or not any more."""
        return min(self.sizes) if self.sizes and now <= self.stale_at else None

    def leave_ticks(self, contenders: int) -> bool:
        """Return whether some of the group leave a tick to others. If it has no more than the contenders, all ask."""
        return bool(self.sizes) and min(self.sizes) > contenders

    @property
    def stale_at(self) -> float:
        """Until when the last ticket says how large the group is."""
        return self.taken_at + _LONGEST_GAP * self.heartbeat

    def distance(self, place: float) -> float:
        """Return how far the last ticket is after this place on the circle, as a part of the circle."""
        return (place_of_ticket(self.number or 0) - place) % 1.0


@dataclass(frozen=True, slots=True)
class TickWave:
    """A tick that an instance has not asked for: when it came, its distance, and the size of the group at that time."""

    came: float
    distance: float
    size: float

    def asks_at(self, size: float | None, contenders: int) -> float | None:
        """Return when to ask for the tick, given the present size; None if this instance's rank is too high.

        A time that has passed means: at once.
        """
        if size is None or has_fallen(self.size, size):
            return self.came
        offset = wave_of(size * self.distance, contenders)
        return None if offset is None else self.came + offset


def wave_of(rank: float, contenders: int) -> float | None:
    """Return after how many milliseconds an instance of this rank asks; None if its rank is too high."""
    return next((offset for times, offset in _WAVES if rank < times * contenders), None)


def place_of_ticket(number: int) -> float:
    """Return the place of a ticket on the circle, from 0 to 1."""
    return number * _GOLDEN % _TURN / _TURN


def place_of_tick(name: str, slot: str) -> float:
    """Return the place of a job's tick on the circle, from 0 to 1."""
    return int.from_bytes(_hash(f"{name}:{slot}")) / _TURN


def has_fallen(before: float, size: float) -> bool:
    """Return whether a group has lost at least a third of its size."""
    return size <= before * _LEFT


def is_long_enough(time: float, heartbeat: float) -> bool:
    """Return whether a tick that may start for this long can be left to tickets: a survivor still has time to ask."""
    return time >= _LEAST_TIME * heartbeat


def group_of(members: Iterable[tuple[str, ...]], heartbeat: float, contenders: int, service: str) -> str:
    """Return the name of the group of instances that have these members: name, line and time zone of each job.

    Instances of two services are two groups: what is said of a group is said of its service.
    """
    return _hash(json.dumps([SCHEME, heartbeat, contenders, service, sorted(members)])).hex()


def odds_of_round(size: float | None, heartbeat: float, interval: float) -> float | None:
    """Return the chance that a beat makes a round; None if the instance makes its rounds by the clock.

    All rounds of a large group together are as many as those of 12 instances.
    """
    return None if size is None or size <= _ROUNDS else _ROUNDS * heartbeat / (size * interval)


def odds_of_pruning(size: float, heartbeat: float, interval: float) -> float:
    """Return the chance that a beat looks for dead instances in a group that makes its rounds by chance.

    It is one instance a heartbeat, and never more often than by the clock.
    """
    return min(1 / size, heartbeat / interval)


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()
