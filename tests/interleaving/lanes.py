"""A world of lanes: instances with their workers, tickers and streams, which share the nodes of their jobs' locks.

The lanes, the claimer and the runner are firecron's own, and so are the rules of the record; what is around them is a
model (`lane_parts`). Nothing happens but by an event, so every order of what can happen can be played: ticks, tickets,
looks, updates, answers, ends, runs by hand, stops, pauses, removals, forks. The time goes from one instant to the next
at which something is due.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, cast

from greenlet import GreenletExit, getcurrent
from tests.interleaving.choices import Event
from tests.interleaving.clocks import START
from tests.interleaving.lane_checks import LaneMonitor
from tests.interleaving.lane_parts import (
    CALLERS,
    HEARTBEAT,
    ModelAgenda,
    ModelClaimer,
    ModelClock,
    ModelDatabase,
    ModelLock,
    ModelRunner,
    ModelStore,
    ModelStreams,
    ModelTiming,
    Nobody,
    Thread,
    bound,
    overtakable,
    token_of,
)
from tests.interleaving.states import State

from firecron import distributed_cron
from firecron.base.clocks import Deadline, Moment
from firecron.base.events import Events
from firecron.base.flag import begins
from firecron.base.instants import to_text
from firecron.base.tickets import Tickets
from firecron.cron.schedule import Schedule
from firecron.jobs.job import Job, explore
from firecron.jobs.options import JobOptions
from firecron.jobs.registry import Result
from firecron.jobs.run import Run
from firecron.lock.blocks import Tries
from firecron.lock.database import Database
from firecron.lock.lease import Lease
from firecron.lock.protocol import Bid, Held
from firecron.lock.refusal import Refusal
from firecron.lock.waiting import Follow, RetryPolicy
from firecron.runs.claimer import Claimer, Resumer
from firecron.runs.lane import Attempt, Lane, PendingClaim
from firecron.runs.lanes import Lanes
from firecron.runs.runner import Runner
from firecron.settings import Settings

# How large the group is by the tickets that leave ticks to others, and how large it is once most of it has died.
_MANY, _FEW = 1_000.0, 2.0


@dataclass(frozen=True)
class LaneScenario:
    """Instances that have the same jobs, with these options, which tick at these seconds.

    `budget` says how often each of these may happen: lose, unread (a try's fate), deaf, by_hand, by_tick, interrupt,
    look, look_back, beat, fall (of the group), pause, remove, replace, pause_node, stop, start, fork, crash. In a
    `fine` one a thread may be overtaken wherever it takes the lanes' lock, or plans or submits a call, and not only at
    its requests and in its bodies. After `depth` events all that is under way comes to its end, and nothing else
    happens. `node` is what the nodes say at first. A job that may overlap has `places` on each instance.
    """

    options: Mapping[str, object] = field(default_factory=dict)
    budget: Mapping[str, int] = field(default_factory=dict)
    ticks: tuple[int, ...] = (0, 10)
    jobs: int = 1
    instances: int = 1
    workers: int = 2
    places: int = 1
    hears: bool = False
    fine: bool = False
    depth: int = 9
    node: Mapping[str, object] | None = None


class Instance:
    """One instance: what the events of its lanes come from, and what they command. It is its own crew and registry."""

    is_full = False

    def __init__(self, model: LaneModel, name: str) -> None:
        self.model = model
        self.name = name
        self.is_alive = self.is_ticking = True
        self.queue: deque[Callable[[], object]] = deque()
        self.threads: list[Thread] = []
        self.parked: list[Thread] = []
        self.jobs = dict(model.jobs)
        self.paused: set[str] = set()
        self.handed: dict[str, int] = dict.fromkeys(self.jobs, 0)
        self.database = ModelDatabase(self)
        self.lanes: Lanes = Lanes(self.database, self)
        claimer = ModelClaimer(self.database, self.lanes)
        nobody, registry = cast("Any", Nobody()), cast("Any", self)
        self.runner = ModelRunner(self.database, nobody, registry, claimer, self.lanes)
        self.lanes.worker, self.lanes.attempted = self.runner, lambda attempt: None
        self._begin_process()

    def _begin_process(self) -> None:
        """Make what belongs to one process."""
        self.queue.clear()
        self.streams = ModelStreams(self, can_watch=self.model.scenario.hears)
        self.database.streams = cast("Any", self.streams)
        self.agenda = self.lanes.agenda = ModelAgenda(self.model)
        vars(self.lanes)["_lock"] = ModelLock()

    # --- what the parts ask for

    def submit(self, work: Callable[[], object]) -> None:
        self.model.monitor.on_submit(self)
        overtakable("submits a call")
        self.queue.append(work)

    def dismiss(self) -> None:
        self.queue.clear()

    def is_wanted(self, job: Job) -> bool:
        return self.jobs.get(job.name) is job and job.name not in self.paused

    def begin(self, name: str, work: Callable[[], object], attempt: Attempt | None = None) -> None:
        """Begin a thread, which goes on to its first pause."""
        thread = Thread(self, name, work, attempt)
        self.threads.append(thread)
        self.go_on(thread, "")

    def go_on(self, thread: Thread, way: str) -> None:
        thread.go_on(way)
        self._bury(thread)

    def _bury(self, thread: Thread) -> None:
        if thread.is_over and thread in self.threads:
            self.threads.remove(thread)

    # --- what the monitor asks for

    def lanes_by_name(self) -> dict[str, Lane]:
        return cast("dict[str, Lane]", vars(self.lanes)["_lanes"])

    def is_busy(self, *names: str) -> bool:
        return any(thread.name in names for thread in self.threads)

    def plan_of(self, attempt: Attempt) -> float | None:
        """When a waiting attempt is called, by the calls that are planned or submitted; None if it is not."""
        if any(attempt in bound(call) for call in self.queue):
            return self.model.time
        return next((at for at, call in self.agenda.calls if attempt.plan in bound(call)), None)

    def will_call(self, attempt: Attempt) -> bool:
        """Whether a worker is called for an attempt, or will be, or is at it."""
        calls = [*self.queue, *(call for _, call in self.agenda.calls), *(thread.work for thread in self.threads)]
        is_on_its_way = any(thread.where in ("submits a call", "plans a call") for thread in self.threads)
        return is_on_its_way or any(attempt in bound(call) for call in calls)

    def is_giving_up(self, token: str) -> bool:
        """Whether a claim is about to be dropped, or is being dropped."""
        calls = [*self.queue, *(thread.work for thread in self.threads)]
        claims = [one for call in calls for one in bound(call) if isinstance(one, PendingClaim)]
        is_on_its_way = any(thread.where == "submits a call" for thread in self.threads)
        return is_on_its_way or any(one.bid.holder == token for one in claims)

    # --- what happens

    def events(self) -> Iterator[Event]:
        """All that happens of itself."""
        now, ticks = self.model.time, self.model.scenario.ticks
        for thread in self.threads:
            for way in thread.ways if thread.until <= now else ():
                label = f"{self.name}: {thread.name} {thread.where}, {way}"
                weight = 3.0 if way in ("goes on", "is answered") else 1.0
                yield Event(label, weight, partial(self.go_on, thread, way))
        if self.queue and sum(thread.name == "worker" for thread in self.threads) < self.model.scenario.workers:
            yield Event(f"{self.name}: a worker begins", 3.0, self._work)
        if self.is_ticking and not self.is_busy("ticker"):
            for name, number in self.handed.items():
                if number < len(ticks) and 1000 * ticks[number] <= now:
                    yield Event(f"{self.name}: the tick {number} of {name}", 2.0, partial(self._tick, name))
            if self.agenda.calls and self.agenda.calls[0][0] <= now:
                yield Event(f"{self.name}: a planned call", 2.0, self._call)
        yield from self.streams.events()

    def _work(self) -> None:
        call = self.queue.popleft()
        self.begin("worker", call, next((one for one in bound(call) if isinstance(one, Attempt)), None))

    def _call(self) -> None:
        self.begin("ticker", self.agenda.calls.pop(0)[1])

    def _tick(self, name: str) -> None:
        job, slot = self.jobs[name], slot_at(self.model.scenario.ticks[self.handed[name]])
        self.handed[name] += 1
        self.model.monitor.on_tick(self, job, slot)
        self.begin("ticker", lambda: self.lanes.due(job, slot))

    # --- what may happen

    def chances(self) -> Iterator[Event]:
        """All that may happen or not, as often as the budget says."""
        stops = bool(self.lanes.stopping)
        follows = any(follow.update is not None for follow in self.streams.follows)
        for job in list(self.jobs.values()):
            if self.is_ticking and not self.is_busy(*CALLERS):
                yield from self._chance("by_hand", partial(self._by_hand, job), job.name)
                yield from self._chance("by_tick", partial(self._by_tick, job), job.name)
            if self.is_ticking:
                yield from self._chance("look", partial(self._look, job), job.name)
                yield from self._chance("look_back", partial(self._look_back, job), job.name)
            yield from self._chance("pause", partial(self.paused.add, job.name), job.name)
            yield from self._chance("remove", partial(self._remove, job), job.name)
            yield from self._chance("replace", partial(self._replace, job), job.name)
            yield from self._chance("pause_node", partial(self._pause_node, job), job.name)
        for name in sorted(self.paused):
            yield Event(f"{self.name}: {name} is resumed", 0.5, partial(self.paused.discard, name))
        for thread in self.threads:
            if thread.name in CALLERS:
                yield from self._chance("interrupt", partial(self._interrupt, thread), thread.where)
            if thread.where == "runs":
                yield from self._chance("fork", partial(self._fork, thread))
        if self.is_ticking and not self.is_busy("heartbeat"):
            yield from self._chance("beat", partial(self._beat, _MANY))
            yield from self._chance("fall", partial(self._beat, _FEW))
        if follows:
            yield from self._chance("deaf", self.streams.break_off)
        if self.is_ticking and not stops:
            yield from self._chance("stop", self._stop)
        if not self.is_ticking and not self.is_busy("stop"):
            yield from self._chance("start", partial(self.begin, "start", self._start))
        yield from self._chance("crash", self._crash)

    def _chance(self, what: str, do: Callable[[], object], of: str = "") -> Iterator[Event]:
        if self.model.budget[what]:

            def spend() -> None:
                self.model.budget[what] -= 1
                do()

            yield Event(f"{self.name}: {what} {of}".rstrip(), 0.5, spend)

    def _by_hand(self, job: Job) -> None:
        self.begin("by hand", lambda: self.runner.run_manually(job))

    def _by_tick(self, job: Job) -> None:
        slot = slot_at(self.model.scenario.ticks[0])
        self.begin("by tick", lambda: self.runner.run_tick(job, slot, "http"))

    def _look(self, job: Job) -> None:
        self.model.monitor.on_look(self, job)
        self.begin("heartbeat", lambda: self.lanes.look(job, insists=True))

    def _look_back(self, job: Job) -> None:
        self.begin("ticker", lambda: self.lanes.look_back(job, slot_at(-10), had_others=True))

    def _remove(self, job: Job) -> None:
        del self.jobs[job.name], self.handed[job.name]

    def _replace(self, job: Job) -> None:
        """Remove the job, and add another one of its name, with the same options."""
        self.jobs[job.name] = replace(job)
        self.handed[job.name] = sum(1000 * second <= self.model.time for second in self.model.scenario.ticks)

    def _pause_node(self, job: Job) -> None:
        """Pause the job everywhere. A second time ends that."""
        path, store = self.database.paths.lock(job.name), self.model.store
        node = {**store.nodes.get(path, {})}
        if node.pop("paused", None) is None:
            node["paused"] = True
        store.put(path, node or None)

    def _interrupt(self, thread: Thread) -> None:
        thread.interrupt(KeyboardInterrupt)
        self._bury(thread)

    def _beat(self, size: float) -> None:
        tickets = Tickets(1000 * HEARTBEAT, 1, self.model.time, (size, size))
        self.begin("heartbeat", lambda: self.lanes.observe_tickets(tickets, dict(self.jobs)))

    def _stop(self) -> None:
        """Stop as the engine does, without a grace: what runs then is left behind."""
        self.is_ticking = False
        self.agenda.calls.clear()

        def stop() -> None:
            self.lanes.forget_tickets()
            self.runner.stop(0.0)
            self.dismiss()
            self.streams.close()
            self.model.monitor.on_gone(self)

        self.begin("stop", stop)

    def _start(self) -> None:
        self.runner.open()
        self.is_ticking = True
        passed = sum(1000 * second <= self.model.time for second in self.model.scenario.ticks)
        self.handed = dict.fromkeys(self.jobs, passed)

    def _fork(self, thread: Thread) -> None:
        """Go on as the child: it has the thread that has forked, and no other. The parent does nothing any more."""
        self.parked += [one for one in self.threads if one is not thread]
        self.threads = [thread]
        self.is_ticking = False
        self.database.process = object()
        mine = (self.lanes, self.runner, self.runner.open_work)
        for owner, begin in list(begins.values()):
            if any(owner() is part for part in mine):
                begin(owner())
        self._begin_process()
        self.model.monitor.on_gone(self, "the parent's")

    def _crash(self) -> None:
        self.is_alive = self.is_ticking = False
        self.parked += self.threads
        self.threads = []
        self.queue.clear()
        self.model.monitor.on_gone(self)


class LaneModel:
    """The world of a scenario."""

    def __init__(self, scenario: LaneScenario) -> None:
        self.scenario = scenario
        self.hub = getcurrent()
        self.budget = Counter(scenario.budget)
        self.is_fine = scenario.fine
        self.time = 0.0  # in milliseconds
        self.failure: BaseException | None = None
        self._tokens = 0
        self._has_ended = False
        self.timing, self.clock, self.store = ModelTiming(self), ModelClock(self), ModelStore(self)
        self.jobs = {name: replace(_job(name, tuple(scenario.options.items()))) for name in "ab"[: scenario.jobs]}
        self.monitor = LaneMonitor(self)
        self.instances = [Instance(self, name) for name in "XY"[: scenario.instances]]
        for name in self.jobs if scenario.node is not None else ():
            self.store.nodes[self.instances[0].database.paths.lock(name)] = dict(scenario.node or {})

    def new_token(self) -> str:
        self._tokens += 1
        return token_of(self._tokens)

    def events(self) -> Iterator[Event]:
        """All that happens of itself. What is under way goes on before the time does."""
        if self._has_ended:
            return
        found = [event for instance in self.living() for event in instance.events()]
        yield from found
        later = self._next_instant()
        if later is not None and not any(self._is_late(one) for one in self.living()):
            yield Event(f"time {later / 1000:g}", 1.0, partial(self._pass_to, later))
        elif not found:
            yield Event("the end", 1.0, self._end)

    def chances(self) -> Iterator[Event]:
        if not self._has_ended:
            for instance in self.living():
                yield from instance.chances()

    def happen(self, event: Event) -> None:
        event.do()
        if self.failure is not None:
            raise self.failure
        self.monitor.after_event()

    def living(self) -> list[Instance]:
        return [one for one in self.instances if one.is_alive]

    def close(self) -> None:
        """End all threads, wherever they stand."""
        self.is_fine = False
        self.monitor.is_closed = True
        for instance in self.instances:
            for thread in (*instance.threads, *instance.parked):
                while not thread.is_over:
                    thread.interrupt(GreenletExit)

    def state(self) -> Hashable:
        """All that what can still happen depends on."""
        state = State(_PARTS, _SAID)
        return (
            self.time,
            tuple(sorted(self.budget.items())),
            state.of(self.store.nodes),
            tuple(self._state_of(instance, state) for instance in self.instances),
            self.monitor.state(state),
        )

    def _state_of(self, one: Instance, state: State) -> Hashable:
        return (
            (one.is_alive, one.is_ticking, bool(one.lanes.stopping), tuple(one.handed.items()), tuple(one.paused)),
            *map(state.of, (one.jobs, one.lanes_by_name(), one.lanes.tickets, list(one.queue), one.agenda.calls)),
            state.of(list(one.streams.follows)),
            tuple((each.name, each.where, each.until, state.of_thread(each.greenlet)) for each in one.threads),
        )

    def _is_late(self, instance: Instance) -> bool:
        """Whether its ticker has something to do now."""
        return instance.is_ticking and not instance.is_busy("ticker") and self._due_of(instance) <= self.time

    def _due_of(self, one: Instance) -> float:
        ticks = self.scenario.ticks
        found = [1000.0 * ticks[number] for number in one.handed.values() if number < len(ticks)]
        return min([*found, *(at for at, _ in one.agenda.calls[:1])], default=math.inf)

    def _next_instant(self) -> float | None:
        found = [self._due_of(one) for one in self.living() if one.is_ticking]
        found += [thread.until for one in self.living() for thread in one.threads]
        later = min((at for at in found if at > self.time), default=math.inf)
        return None if later == math.inf else later

    def _pass_to(self, time: float) -> None:
        self.time = time

    def _end(self) -> None:
        self._has_ended = True


_PARTS: tuple[type, ...] = (
    *(Lanes, Claimer, Runner, Database, Resumer, Instance, Settings, JobOptions, Schedule, Events, Deadline),
    *(
        ModelAgenda,
        ModelLock,
        ModelStore,
        ModelStreams,
        ModelTiming,
        ModelClock,
        LaneModel,
        LaneMonitor,
        Nobody,
        Thread,
    ),
)

# What a state has of an object that is no dataclass, or of which a part says it all.
_SAID: Mapping[type, Callable[[Any], list[object]]] = {
    Job: lambda job: [job.name],
    Run: lambda run: [run.slot and to_text(run.slot), run.trigger],
    Result: lambda result: [result.outcome, result.refusal and result.refusal.reason],
    Refusal: lambda one: [one.reason, one.holder, one.slot, one.unfinished, one.free_at and to_text(one.free_at)],
    Moment: lambda moment: [moment.server],
    Lease: lambda lease: [lease.holder, vars(lease)["_state"], bool(lease.cancelled)],
    Follow: lambda follow: [follow.update and follow.update.number],
    Tries: lambda tries: list(vars(tries).values()),
    RetryPolicy: lambda policy: [value for name, value in vars(policy).items() if name != "_chance"],
    Bid: lambda bid: [bid.holder, list(bid.written)],
    Held: lambda held: [held.record.holder, held.record.slot, held.trust.expires_at],
}


def slot_at(second: float) -> str:
    return to_text(round(START + 1000 * second))


@cache
def _job(name: str, options: tuple[tuple[str, object], ...]) -> Job:
    @distributed_cron(name, "*/10 * * * * *", **{"lock_ttl": 3600, **dict(options)})  # type: ignore[arg-type]  # by their words
    def work() -> None: ...

    return explore(work)[0]
