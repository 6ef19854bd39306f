"""One run: builds the world that a scenario describes, lets it happen, and returns the oracle's verdict."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.simulation.fleets.beside import Beside, Use
from tests.simulation.fleets.costs import asked_a_tick
from tests.simulation.fleets.database import LOCKS, Database, Fate, Method
from tests.simulation.fleets.instance import Instance
from tests.simulation.fleets.oracle import Oracle
from tests.simulation.fleets.scenario import LAST, Event, Scenario
from tests.simulation.fleets.steps import STEPS
from tests.simulation.fleets.timeline import Timeline, at
from tests.simulation.fleets.times import server_time
from tests.simulation.fleets.verdict import judge
from tests.simulation.fleets.weather import Spell, Weather
from tests.simulation.greenlets import Scheduler, use
from tests.simulation.machines import FOREVER, SECOND, Machine

from firecron.app import FireCron


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a seed: the violations of the contract, the timeline, and some figures."""

    seed: int
    violations: tuple[str, ...]
    timeline: Timeline
    steps: int
    requests: int
    starts: int
    minutes: float
    # Requests for locks, of all machines together, for each tick of each job.
    asked: float


@contextmanager
def under_way(world: World) -> Iterator[None]:
    """Let the stand-ins belong to this world, and its oracle hear the log."""
    log = logging.getLogger("firecron")
    before = log.level, log.propagate, log.handlers[:]
    log.setLevel(logging.ERROR)
    log.propagate = False
    log.handlers[:] = [_Listening(world.oracle.logged)]
    was_collecting = gc.isenabled()
    gc.disable()  # a finalizer at a moment of its own would be a step that the seed has not chosen
    use(world.scheduler)
    try:
        yield
    finally:
        world.scheduler.close()
        use(None)
        log.level, log.propagate, log.handlers[:] = before
        if was_collecting:
            gc.enable()


class World:
    """One run: the database, the machines, and all that is to happen."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        seed = f"order {scenario.seed}"
        self.scheduler = Scheduler(seed, scenario.temper)
        self.timeline = Timeline(self.scheduler)
        self.oracle = Oracle(self.scheduler, self.timeline, scenario.jobs)
        self.database = Database(
            self.scheduler, self._watch, has_rules=scenario.has_rules,
            refuses_watches=scenario.refuses_watches, keeps_odd_counters=scenario.keeps_odd_counters,
        )  # fmt: skip
        least, most = scenario.latency
        self.weather = Weather(self.scheduler, least, most, scenario.chances, scenario.fair_from, list(scenario.spells))
        self.instances = {
            spec.name: Instance(
                spec, number, seed, scenario.jobs, scenario.settings,
                self.scheduler, self.database, self.weather, self.timeline, self.oracle,
            )
            for number, spec in enumerate(scenario.machines)
        }  # fmt: skip
        self.beside = Beside(self.scheduler, self.database, self.oracle, self.timeline)
        # Whoever else wants to know of each write that has changed a node.
        self.watching: list[Callable[[str, object, object, Machine | None], object]] = []
        for instance in self.instances.values():
            instance.struck = self._strike
            instance.machine.origin -= scenario.begins  # else a float could not tell two nanoseconds of it apart
            if scenario.strikes:
                instance.wire.fate = self._fate

    def play(self) -> Played:
        scenario, scheduler = self.scenario, self.scheduler
        self._introduce()
        for event in scenario.events:
            scheduler.at(event.at, lambda event=event: self._happen(event))  # type: ignore[misc]  # bound now
        scheduler.run(scenario.fair_from)
        self.timeline.say("WORLD", "from here on nothing goes wrong any more")
        self._end_faults()
        self.instances[LAST].start()
        scheduler.run(scenario.ends)
        self.timeline.say("WORLD", "the fleet is told to stop")
        for instance in self.instances.values():
            instance.stop()
        longest = max(job.lock_ttl + (job.work.most + 3.0) * (job.retries + 1) + 8.0 for job in scenario.jobs)
        scheduler.run(scenario.ends + int((longest + 15.0) * SECOND))
        for instance in self.instances.values():
            instance.take_stock()
        scheduler.run(scheduler.now + SECOND)
        judge(self.oracle, scenario, self.instances, self.database)
        self.beside.check(self.instances, scenario)
        return Played(
            scenario.seed,
            tuple(self.oracle.violations),
            self.timeline,
            scheduler.steps,
            sum(len(instance.wire.requests) for instance in self.instances.values()),
            sum(len(job.bodies) for job in self.oracle.jobs.values()),
            scheduler.now / SECOND / 60,
            asked_a_tick(scenario, self.instances),
        )

    def _introduce(self) -> None:
        scenario, say = self.scenario, self.timeline.say
        say("WORLD", "seed {}: {}", scenario.seed, ", ".join(scenario.troubles) or "no trouble")
        for job in scenario.jobs:
            say("WORLD", "{} [{}] {} {}", job.name, job.line, job.options, job.work)
        for machine in scenario.machines:
            say("WORLD", "{}", machine)
        say("WORLD", "{} {} {}", dict(scenario.settings), dict(scenario.chances), scenario.temper)
        say("WORLD", "a way takes {} to {} ms", *(way // 1_000_000 for way in scenario.latency))
        for spell in scenario.spells:
            say("WORLD", "{}", spell)

    def _happen(self, event: Event) -> None:
        self.timeline.say("WORLD", "{} {} {}", event.act, event.target, event.amount or "")
        name, _, job = event.target.partition(" ")
        instance = self.instances.get(name)
        if event.act == "set_beats":
            for group in self.database.store.keys("cron-groups", self.database.forever):
                self.database.edit(f"cron-groups/{group}/beats", event.value)
        elif event.act == "cancel":
            self._cancel(event.target)
        elif instance is None:
            self._edit(event.act, event.target, event.value)
        elif event.act in ("trigger", "trigger_next"):
            is_next = event.act == "trigger_next"
            instance.call(lambda crons: self._trigger(instance, crons, job, is_next=is_next), "by hand")
        elif event.act == "pause_here":
            instance.pause(job, is_paused=True)
        elif event.act == "resume_here":
            instance.pause(job, is_paused=False)
        elif event.act == "remove":
            instance.remove(job)
        elif event.act == "add":
            instance.add(job)
        elif event.act == "restart":
            instance.restart(event.amount)
        elif event.act == "resume_run":
            instance.call(lambda crons: self._resume(instance, crons, job), "resume")
        elif event.act == "use":
            assert isinstance(event.value, Use)
            self.beside.use(instance, event.value)
        elif event.act == "step_wall":
            instance.step_wall(event.amount)
        elif event.act in ("start", "stop"):
            (instance.start if event.act == "start" else instance.stop)()
        elif event.act == "occupy":
            instance.occupy()
        elif event.act == "freeze":
            self._freeze(instance)
        elif event.act == "thaw":
            self._thaw(instance)
        elif event.act == "kill" and instance.started_at is not None:
            instance.kill()

    def _edit(self, act: str, job: str, until: object = None) -> None:
        """What an operator does to a job's node in the console. A pause may have an end."""
        node = self.database.store.get(f"{LOCKS}{job}")
        fields: dict[str, object] = dict(node) if isinstance(node, dict) else {}
        if act == "pause":
            fields |= {"paused": True, "pausedUntil": None if until is None else server_time(int(str(until)))}
        elif act == "resume":
            fields |= {"paused": None, "pausedUntil": None}
        elif act == "unlock" and fields:
            fields["expiresAt"] = 0
        elif act == "delete":
            fields = {}
        fields = {field: value for field, value in fields.items() if value is not None}
        self.database.edit(f"{LOCKS}{job}", fields or None)

    def _cancel(self, job: str) -> None:
        """What an operator does with `firecron cancel`: asks the holder whose acquisition is seen now to stop."""
        found, alive = self.database.store.get(f"{LOCKS}{job}"), self._alive()
        node: dict[str, object] = found if isinstance(found, dict) else {}
        is_held = "fence" in node and "releasedAt" not in node and node.get("renews") is not False
        if is_held and alive:
            by, holder, fence = self.scheduler.random.choice(alive), str(node["holder"]), int(str(node["fence"]))
            self.oracle.jobs[job].unwanted.add(fence)
            by.call(lambda crons: crons.locks.database.cancel(job, holder, fence), "cancel")

    def _alive(self) -> list[Instance]:
        return [one for one in self.instances.values() if one.machine.state == "alive" and one.ticking_from]

    def _trigger(self, instance: Instance, crons: FireCron, job: str, *, is_next: bool) -> None:
        """Run a job by hand: for no tick, or for the next one, which may still be to come."""
        slot = crons.registry.next_slots(job, 1)[0] if is_next else None
        spans = instance.ran_by_hand.setdefault(job, [])
        spans.append((self.scheduler.now, FOREVER))
        number = len(spans) - 1
        try:
            result = crons.registry.trigger(job, slot=slot)
        finally:
            spans[number] = (spans[number][0], self.scheduler.now)
        said = result.refusal.message if result.refusal is not None else result.outcome
        self.timeline.say(instance.name, "the run by hand of {} for {}: {}", job, slot, said)

    def _resume(self, instance: Instance, crons: FireCron, job: str) -> None:
        """Run a tick of before once more, mostly one that the history knows."""
        history, random = self.oracle.jobs[job], self.scheduler.random
        ticks = history.spec.slots(self.scenario.begins, self.scheduler.now)
        written = [tick for tick in ticks if tick in history.written]
        tick = random.choice(written if written and random.random() < 0.9 else ticks or ["2026-11-18T08:00:00Z"])
        said = [outcome for _, outcome, _ in history.written.get(tick, [])]
        history.looked.append((instance.name, self.scheduler.now, FOREVER))
        number = len(history.looked) - 1
        try:
            result = crons.registry.trigger(job, resume=tick)
        finally:
            history.looked[number] = (instance.name, history.looked[number][1], self.scheduler.now)
        refusal = result.refusal
        if refusal is not None and refusal.reason == "slot_done" and said and not history.has_succeeded(tick):
            self.oracle.violated("2", "{} may not resume {} of {}, which {}", instance.name, tick, job, said)
        told = refusal.message if refusal is not None else result.outcome
        self.timeline.say(instance.name, "the run by hand of {} that resumes {}: {}", job, tick, told)

    def _freeze(self, instance: Instance) -> None:
        if instance.machine.state == "alive" and instance.started_at is not None:
            instance.machine.freeze()
            instance.frozen.append((self.scheduler.now, FOREVER))

    def _thaw(self, instance: Instance) -> None:
        if instance.machine.state == "frozen":
            instance.frozen[-1] = (instance.frozen[-1][0], self.scheduler.now)
            instance.machine.thaw(self.scheduler)

    def _end_faults(self) -> None:
        for instance in self.instances.values():
            self._thaw(instance)
        for name in self.oracle.jobs:
            self._edit("resume", name)

    def _watch(self, path: str, before: object, after: object, machine: Machine | None) -> None:
        room, _, name = path.partition("/")
        for watch in self.watching:
            watch(path, before, after, machine)
        if f"{room}/" in (LOCKS, STEPS) and name.split("/")[0] not in self.oracle.jobs:
            self.beside.wrote(path, before, after, "" if machine is None else machine.name)
        elif path.startswith(STEPS):
            self.oracle.steps.wrote(path, before, after, self.database.store.get(LOCKS + path.split("/")[1]))
            if machine is not None:
                self._strike(self.instances[machine.name])
        elif self.oracle.watch(path, before, after, machine) and machine is not None:
            self._ambush(self.instances[machine.name], path.removeprefix(LOCKS))

    def _ambush(self, winner: Instance, job: str) -> None:
        """Strike the winner of a claim before its reply has come, or the record soon after."""
        scenario, now, random = self.scenario, self.scheduler.now, self.scheduler.random
        if now >= scenario.fair_from or random.random() >= scenario.ambushes:
            return
        way = random.choice(scenario.ways)
        lasts = int(random.choice((1, 5, 15, 40)) * SECOND * (0.5 + random.random()))
        end = min(now + lasts, scenario.fair_from)
        self.timeline.say("WORLD", "ambush on {}: {}, until {} at most", winner.name, way, at(end))
        if way in ("unlock", "delete", "pause", "cancel"):
            later = now + int(random.random() * self.oracle.jobs[job].spec.lock_ttl * SECOND)
            act = (lambda: self._cancel(job)) if way == "cancel" else (lambda: self._edit(way, job))
            self.scheduler.at(min(later, scenario.fair_from), act)
        else:
            self._fell(winner, way, end)

    def _strike(self, instance: Instance) -> None:
        """Strike a machine at one of its steps."""
        scenario, now, random = self.scenario, self.scheduler.now, self.scheduler.random
        if now >= scenario.fair_from or random.random() >= scenario.strikes:
            return
        way = random.choice(("kill", "freeze", "freeze", "cut_off"))
        end = min(now + int(random.choice((1, 15, 40)) * SECOND * (0.5 + random.random())), scenario.fair_from)
        self.timeline.say("WORLD", "{} is struck at a step: {}, until {} at most", instance.name, way, at(end))
        self._fell(instance, way, end)

    def _fate(self, machine: Machine, method: Method, path: str) -> Fate:
        """Let some writes of steps arrive long after their sender has died, or was frozen."""
        scenario, random, fate = self.scenario, self.scheduler.random, self.weather.fate(machine, method, path)
        if method != "swap" or not path.startswith(STEPS) or self.scheduler.now >= scenario.fair_from:
            return fate
        if random.random() >= scenario.strikes:
            return fate
        late = int(self.oracle.jobs[path.split("/")[1]].spec.lock_ttl * (1.0 + random.random()) * SECOND)
        self.timeline.say("WORLD", "{} is struck as it writes {}, which arrives late", machine.name, path)
        self._fell(self.instances[machine.name], random.choice(("kill", "freeze")), self.scheduler.now + 2 * late)
        return Fate("answered", fate.there + late, fate.back)

    def _fell(self, instance: Instance, way: str, end: int) -> None:
        """Freeze a machine, kill it, or cut it off."""
        if way == "freeze":
            self._freeze(instance)
            self.scheduler.at(min(end, self.scenario.fair_from), lambda: self._thaw(instance))
        elif way == "kill":
            if len(self._alive()) > 1:
                instance.kill()
        else:
            kind = "lost" if way == "cut_off" else "unanswered"
            self.weather.spells.append(Spell(self.scheduler.now, end, kind, instance.name))  # type: ignore[arg-type]  # of those words


class _Listening(logging.Handler):
    def __init__(self, hear: Callable[[logging.LogRecord], None]) -> None:
        super().__init__(logging.ERROR)
        self._hear = hear

    def emit(self, record: logging.LogRecord) -> None:
        self._hear(record)
