"""Locks beside the jobs: a machine's program acquires them by hand, in a block, around a function, or once and for all.

    1. No two leases of one lock are trusted at one time, fences rise, and no function is called without its lock.
    1. What `once` has recorded is never called again, nor called twice at a time, and all are told the same.
    2. A lock that is free is acquired, and no refusal names a holder that was not there.
    3. A block keeps its lock as long as it lasts, and what was released is free.

Each holder looks at its lease again and again; what it trusted at a look, it has trusted all along.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Literal, TypeAlias

from tests.simulation.fleets.database import LOCKS, Database
from tests.simulation.fleets.steps import STEPS
from tests.simulation.fleets.times import number, server_time
from tests.simulation.greenlets import Scheduler
from tests.simulation.machines import MILLISECOND, SECOND
from tests.simulation.stand_ins import EPOCH, sleep

from firecron.app import FireCron
from firecron.lock.lease import Lease
from firecron.lock.refusal import NotAcquired, Refusal
from firecron.locks import LockService
from firecron.steps.once import Done

if TYPE_CHECKING:
    from tests.simulation.fleets.instance import Instance
    from tests.simulation.fleets.oracle import Oracle
    from tests.simulation.fleets.scenario import Scenario
    from tests.simulation.fleets.timeline import Timeline

Way: TypeAlias = Literal["acquire", "hold", "with_lock", "once"]
_MARGIN = 1_000
# Seconds between two looks at a lease.
_LOOKS = 0.25
# What a request, and the next one after its failure, take at the most.
_REQUESTS = 12 * SECOND


@dataclass(frozen=True, slots=True)
class Use:
    """One use of a lock, by the words of `LockService`, on a thread or on a loop. It lasts so many seconds."""

    way: Way
    name: str
    ttl: float
    lasts: float
    wait: float | None = None
    fenced: bool = False
    is_async: bool = False


@dataclass(eq=False)
class _Held:
    """A lease: from when to when it was trusted, and when it was seen to be lost."""

    use: Use
    machine: str
    fence: int | None
    first: int
    last: int
    lost: int | None = None


@dataclass(frozen=True, slots=True)
class _Refused:
    use: Use
    machine: str
    begun: int
    ended: int
    reason: str


@dataclass(eq=False)
class _Call:
    """A call of a function that is done once and for all."""

    name: str
    machine: str
    begun: int
    value: str
    ended: int | None = None


@dataclass(eq=False)
class _Span:
    """What the database says: a lock counts as held from `start` to `end` by this machine."""

    machine: str
    start: int
    end: int


class Beside:
    """The locks of one run that are no jobs'."""

    def __init__(self, scheduler: Scheduler, database: Database, oracle: Oracle, timeline: Timeline) -> None:
        self._scheduler = scheduler
        self._database = database
        self._oracle = oracle
        self._timeline = timeline
        self._held: list[_Held] = []
        self._refused: list[_Refused] = []
        self._calls: list[_Call] = []
        self._spans: dict[str, list[_Span]] = {}
        # When a result was recorded, and what callers were told when.
        self._recorded: dict[str, list[int]] = {}
        self._told: list[tuple[int, str, object]] = []

    def use(self, instance: Instance, use: Use) -> None:
        """Let a machine use a lock, on a thread of its own."""
        instance.call(lambda crons: self._use(instance, crons, use), f"{use.way} {use.name}")

    def wrote(self, path: str, before: object, after: object, machine: str) -> None:
        """A write has changed a node that is no job's."""
        now, name = self._scheduler.now, path.split("/")[1]
        if path.startswith(STEPS):
            if isinstance(after, dict) and after.get("result") is not None:
                self._recorded.setdefault(name, []).append(now)
            return
        spans = self._spans.setdefault(name, [])
        old, new = (node if isinstance(node, dict) else {} for node in (before, after))
        if new.get("holder") not in (None, old.get("holder")):
            spans.append(_Span(machine, now, now))
        if spans:
            is_over = not new or new.get("releasedAt") is not None
            held_until = number(new.get("expiresAt")) + (0 if is_over else _MARGIN)
            spans[-1].end = now if is_over else held_until * MILLISECOND - EPOCH

    # --- what a machine does

    def _use(self, instance: Instance, crons: FireCron, use: Use) -> None:
        begun = self._scheduler.now
        try:
            if use.is_async:
                answer = asyncio.run(self._answer_async(instance, crons.locks, use))
            else:
                answer = self._answer(instance, crons.locks, use)
        except NotAcquired as error:
            answer = error.refusal
        if isinstance(answer, Refusal):
            self._timeline.say(instance.name, "{} of {} is refused: {}", use.way, use.name, answer.message)
            self._refused.append(_Refused(use, instance.name, begun, self._scheduler.now, answer.reason))

    def _answer(self, instance: Instance, locks: LockService, use: Use) -> object:
        """Use the lock as it is said, and return the refusal if there is one."""
        lease: Lease | Refusal
        if use.way == "acquire":
            lease = locks.acquire(use.name, use.ttl, wait=use.wait, fenced=use.fenced)
            if isinstance(lease, Refusal):
                return lease
            for _ in self._looks(instance, use, lease):
                sleep(_LOOKS)
            lease.release()
        elif use.way == "hold":
            with locks.hold(use.name, use.ttl, wait=use.wait, fenced=use.fenced) as lease:
                for _ in self._looks(instance, use, lease):
                    sleep(_LOOKS)
        elif use.way == "with_lock":

            def work() -> None:
                self._works(instance, use)
                sleep(use.lasts)

            return locks.with_lock(use.name, work, use.ttl)
        else:

            def call() -> str:
                begun = self._calls_once(instance, use)
                sleep(use.lasts)
                return self._returns(begun)

            self._tells(use, locks.once(use.name, call, ttl=use.ttl, wait=use.wait))
            return None
        self._check_free(instance, use, lease)
        return None

    async def _answer_async(self, instance: Instance, locks: LockService, use: Use) -> object:
        """Do the same on an event loop."""
        lease: Lease | Refusal
        if use.way == "acquire":
            lease = await locks.acquire_async(use.name, use.ttl, wait=use.wait, fenced=use.fenced)
            if isinstance(lease, Refusal):
                return lease
            for _ in self._looks(instance, use, lease):
                await asyncio.sleep(_LOOKS)
            lease.release()
        elif use.way == "hold":
            async with locks.hold(use.name, use.ttl, wait=use.wait, fenced=use.fenced) as lease:
                for _ in self._looks(instance, use, lease):
                    await asyncio.sleep(_LOOKS)
        elif use.way == "with_lock":

            async def work() -> None:
                self._works(instance, use)
                await asyncio.sleep(use.lasts)

            return await locks.with_lock(use.name, work, use.ttl)
        else:

            async def call() -> str:
                begun = self._calls_once(instance, use)
                await asyncio.sleep(use.lasts)
                return self._returns(begun)

            self._tells(use, await locks.once_async(use.name, call, ttl=use.ttl, wait=use.wait))
            return None
        self._check_free(instance, use, lease)
        return None

    def _looks(self, instance: Instance, use: Use, lease: Lease) -> Iterator[None]:
        """Look at a lease again and again, until it has lasted, or is lost, or the program is to end."""
        now = self._scheduler.now
        held = _Held(use, instance.name, lease.fence, now, now)
        self._timeline.say(instance.name, "has {} by {}: {!r}", use.name, use.way, lease)
        ends = now + int(use.lasts * SECOND)
        while (at := self._scheduler.now) < ends and instance.stopping_from is None:
            if lease.lost:
                held.lost = at
                break
            held.last = at
            if held not in self._held:
                self._held.append(held)
            yield
        self._timeline.say(instance.name, "lets go of {}", use.name)

    def _works(self, instance: Instance, use: Use) -> None:
        """A function is called under a lock: whose it is, only the database can tell."""
        begun = self._scheduler.now
        spans = self._spans.get(use.name, [])
        if not self._was_away(instance, begun - _REQUESTS, begun) and not any(
            span.machine == instance.name and span.end >= begun for span in spans
        ):
            self._oracle.violated("1", "{} calls a function without the lock {}", instance.name, use.name)

    def _calls_once(self, instance: Instance, use: Use) -> _Call:
        """A function is called that is done once and for all."""
        call = _Call(use.name, instance.name, self._scheduler.now, f"{instance.name} {len(self._calls)}")
        self._timeline.say(instance.name, "is called once and for all: {}", use.name)
        acquired = [span.start for span in self._spans.get(use.name, []) if span.machine == instance.name]
        if any(at < acquired[-1] for at in self._recorded.get(use.name, []) if acquired):
            self._oracle.violated("1", "{} calls {}, which is recorded", instance.name, use.name)
        self._calls.append(call)
        return call

    def _returns(self, call: _Call) -> str:
        call.ended = self._scheduler.now
        return call.value

    def _tells(self, use: Use, done: Done[str]) -> None:
        self._told.append((self._scheduler.now, use.name, done.result))

    def _check_free(self, instance: Instance, use: Use, lease: Lease) -> None:
        """A lease that was released in good order holds nothing any more."""
        now, node = self._scheduler.now, self._database.store.get(f"{LOCKS}{use.name}")
        is_held = isinstance(node, dict) and node.get("holder") == lease.holder and node.get("releasedAt") is None
        is_live = isinstance(node, dict) and number(node.get("expiresAt")) > server_time(now)
        if is_held and is_live and not self._was_away(instance, now - _REQUESTS, now):
            self._oracle.violated("3", "{} has released {}, and holds it", instance.name, use.name)

    # --- at the end

    def check(self, instances: Mapping[str, Instance], scenario: Scenario) -> None:
        """Add what was wrong as a whole."""
        violated = self._oracle.violated
        for one, two in combinations(self._held, 2):
            if one.use.name != two.use.name:
                continue
            if one.first <= two.last and two.first <= one.last:
                violated("1", "{} and {} both trust their lease of {}", one.machine, two.machine, one.use.name)
            first, second = sorted((one, two), key=lambda held: held.first)
            if first.fence is not None and second.fence is not None and first.fence >= second.fence:
                violated("1", "the fence of {} falls from {} to {}", one.use.name, first.fence, second.fence)
        for held in self._held:
            end = held.first + int(held.use.ttl * SECOND)
            if held.use.way == "acquire" and held.last > end:
                violated("1", "{} trusts its lease of {} for longer than it lasts", held.machine, held.use.name)
            lost, instance = held.lost, instances[held.machine]
            is_kept = held.use.way == "hold"
            if is_kept and lost is not None and not self._was_away(instance, lost - int(held.use.ttl * SECOND), lost):
                violated("3", "{} loses {} while its block goes on", held.machine, held.use.name)
        for refused in self._refused:
            self._check_refused(refused, instances[refused.machine])
        self._check_once(instances)

    def _check_refused(self, refused: _Refused, instance: Instance) -> None:
        since, name = refused.begun - SECOND, refused.use.name
        was_held = any(one.start <= refused.ended and one.end >= since for one in self._spans.get(name, []))
        if refused.reason == "held" and not was_held:
            self._oracle.violated("2", "{} finds {} held, which is free", instance.name, name)
        # Whoever has just started asks for the time first.
        if not was_held and not self._was_away(instance, since - 2 * _REQUESTS, refused.ended + SECOND):
            self._oracle.violated(
                "2", "{} does not get {}, which is free: {}", instance.name, name, refused.reason
            )  # fmt: skip

    def _check_once(self, instances: Mapping[str, Instance]) -> None:
        for one, two in combinations(self._calls, 2):
            ends = min(call.ended or call.begun for call in (one, two))
            if one.name != two.name or max(one.begun, two.begun) >= ends:
                continue
            if not any(self._was_away(instances[call.machine], call.begun - _REQUESTS, ends) for call in (one, two)):
                self._oracle.violated("1", "{} and {} both do {}", one.machine, two.machine, one.name)
        values = {(call.name, call.value) for call in self._calls}
        for at, name, value in self._told:
            recorded = self._database.store.get(f"{STEPS}{name}/once/done/result")
            last = max(self._recorded.get(name, [0]))
            if (name, value) not in values or (at > last + _REQUESTS and recorded != f'"{value}"'):
                self._oracle.violated("1", "somebody is told {!r} of {}, and recorded is {}", value, name, recorded)

    def _was_away(self, instance: Instance, start: int, end: int) -> bool:
        """Whether the machine had trouble, was frozen, or was ending, at some time in between."""
        spans = [*instance.away, *instance.wire.troubles]
        since = instance.ticking_from
        is_new = since is None or since > start
        return is_new or instance.has_gone(end) or any(one <= end and other >= start for one, other in spans)
