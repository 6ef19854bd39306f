"""One process of a simulated fleet: a machine whose program is a whole FireCron, with its threads."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tests.simulation.fleets.bodies import make_body
from tests.simulation.fleets.database import Database, Wire
from tests.simulation.fleets.scenario import JobSpec, MachineSpec
from tests.simulation.fleets.stepped import make_stepped_body
from tests.simulation.fleets.weather import Weather
from tests.simulation.greenlets import Scheduler, Thread
from tests.simulation.machines import FOREVER, SECOND, Machine
from tests.simulation.threads import Event, current_thread

from firecron.app import FireCron
from firecron.base import events
from firecron.errors import FirecronError
from firecron.jobs.decorator import distributed_cron
from firecron.jobs.job import Job
from firecron.lock.waiting import Places
from firecron.settings import load

if TYPE_CHECKING:
    from tests.simulation.fleets.oracle import Oracle
    from tests.simulation.fleets.timeline import Timeline


class Instance:
    """A process from its start to its end: `stop` and `kill` end it, in good order or not."""

    def __init__(
        self,
        spec: MachineSpec,
        number: int,
        seed: str,
        jobs: tuple[JobSpec, ...],
        settings: Mapping[str, object],
        scheduler: Scheduler,
        database: Database,
        weather: Weather,
        timeline: Timeline,
        oracle: Oracle,
    ) -> None:
        self.spec = spec
        self.machine = Machine(
            spec.name, f"{seed} {spec.name}", pid=100 + number, drift=spec.drift, wall_error=spec.wall_error
        )
        self.wire = Wire(
            database, self.machine, scheduler, timeline, weather.fate, weather.is_cut_off, weather.is_fair, spec.skew
        )
        self._declared = tuple(job for job in jobs if spec.jobs is None or job.name in spec.jobs)
        # Those that it is to run by their schedules.
        self.jobs = tuple(job for job in self._declared if job.role is None or job.role in spec.roles)
        self.crons: FireCron | None = None
        # In true time: when it was started, when `start` had returned, when it was told to stop.
        self.started_at: int | None = None
        self.ticking_from: int | None = None
        self.stopping_from: int | None = None
        self.has_ended = False
        self.left: list[str] = []
        self.killed_at: int | None = None
        self.occupied_from: int | None = None
        # Spans in which it was frozen, and in which the program had paused a job here; when its wall clock was set.
        self.frozen: list[tuple[int, int]] = []
        # Spans in which its FireCron was stopped, to start again.
        self.stopped: list[tuple[int, int]] = []
        self.stepped: list[int] = []
        self._removed: dict[str, Job] = {}
        self._paused_here: dict[str, list[tuple[int, int]]] = {}
        self._absent: dict[str, list[tuple[int, int]]] = {
            job.name: [(0, FOREVER)] for job in self._declared if job not in self.jobs
        }
        # Spans in which a tick was run by hand here, with what its claim finds before it.
        self.ran_by_hand: dict[str, list[tuple[int, int]]] = {}
        self._settings = settings
        self._scheduler = scheduler
        self._timeline = timeline
        self._oracle = oracle
        # What it declares beside its jobs, and what the world does to it at its steps.
        self.declared: list[Callable[..., object]] = []
        self.struck: Callable[[Instance], None] = lambda instance: None
        self._told: Event | None = None
        self._loop_told: Callable[[], object] | None = None

    @property
    def name(self) -> str:
        return self.spec.name

    def start(self) -> None:
        """Start the program."""
        self.started_at = self._scheduler.now
        self._told = Event()
        self._begin(self._program, "main")

    def stop(self) -> None:
        """Tell the program to end, as SIGTERM does."""
        if self.machine.state != "dead" and self._told is not None and self.stopping_from is None:
            self.stopping_from = self._scheduler.now
            self._begin(self._tell, "signal")

    def kill(self) -> None:
        """End it at once, wherever it is."""
        if self.machine.state != "dead":
            self.killed_at = self._scheduler.now
            self.machine.kill()

    def step_wall(self, nanoseconds: int) -> None:
        """Set its wall clock forward or back."""
        self.machine.wall_error += nanoseconds
        self.stepped.append(self._scheduler.now)

    def paused_here(self, job: str) -> list[tuple[int, int]]:
        """Return the spans in which the program had paused the job on this instance."""
        return self._paused_here.get(job, [])

    def pause(self, job: str, *, is_paused: bool) -> None:
        """Pause the job on this instance, or end that."""
        spans = self._paused_here.setdefault(job, [])

        def pause(crons: FireCron) -> None:
            spans.append((self._scheduler.now, FOREVER))
            crons.registry.pause(job)

        def resume(crons: FireCron) -> None:
            crons.registry.resume(job)
            # The job may tick again at once, or a little later.
            spans[:] = [(start, min(end, self._scheduler.now + SECOND)) for start, end in spans]

        # The span is the program's own: a machine without a program yet has nothing to pause (seed 361), and a frozen
        # one pauses once it thaws.
        self.call(pause if is_paused else resume, "pause" if is_paused else "resume")

    @property
    def away(self) -> list[tuple[int, int]]:
        """The spans in which it was frozen, or stopped to start again."""
        return [*self.frozen, *self.stopped]

    def absent(self, job: str) -> list[tuple[int, int]]:
        """Return the spans in which the instance does not have the job: removed, of another role, or stopped."""
        return self._absent.get(job, [])

    def remove(self, job: str) -> None:
        """Remove the job from the registry of this instance."""
        spans = self._absent.setdefault(job, [])

        def remove(crons: FireCron) -> None:
            self._removed[job] = crons.registry.get(job)
            spans.append((self._scheduler.now, FOREVER))
            crons.registry.remove(job)

        if job not in self._removed and any(one.name == job for one in self.jobs):
            self.call(remove, "remove")

    def add(self, job: str) -> None:
        """Add the job again that was removed."""

        def add(crons: FireCron) -> None:
            removed = self._removed.pop(job, None)
            if removed is None:
                return
            crons.registry.add(removed)
            # It runs from its next tick on, by this machine's idea of the time.
            spans = self._absent[job]
            spans[:] = [(start, min(end, self._scheduler.now + SECOND)) for start, end in spans]

        self.call(add, "add")

    def restart(self, pause: int) -> None:
        """Stop the program's FireCron, and start it again after a pause, in one process."""

        def restart(crons: FireCron) -> None:
            self.stopped.append((self._scheduler.now, FOREVER))
            crons.stop()
            stopped = self._scheduler.now
            self._scheduler.block(pause)
            spans = [self._absent.setdefault(job.name, []) for job in self._declared]
            for span in spans:
                span.append((stopped, self._scheduler.now + SECOND))
            crons.start()
            self.stopped[-1] = (self.stopped[-1][0], self._scheduler.now)

        if not self.spec.has_loop:
            self.call(restart, "restart")

    def has_gone(self, time: int) -> bool:
        """Return whether it was told to stop, killed, or given other work for good before this time."""
        ended = (self.stopping_from, self.killed_at, self.occupied_from)
        return any(at is not None and at < time for at in ended)

    def occupy(self) -> None:
        """Give all its workers something else to do until it is told to end. Without a program it has none."""
        self.call(self._occupy, "occupy")

    def call(self, work: Callable[[FireCron], object], name: str) -> None:
        """Do something on a new thread of this process, as a view of the program does."""
        crons = self.crons
        if self.machine.state == "dead" or crons is None:
            return

        def guarded() -> None:
            try:
                work(crons)
            except FirecronError as error:
                self._timeline.say(self.name, "{} raised {!r}", name, error)

        self._begin(guarded, name)

    def take_stock(self) -> None:
        """Look, on a thread of its own, for what is left over inside once the program has ended."""
        if self.machine.state == "alive" and self.has_ended:
            self._begin(self._take_stock, "stock")

    # --- inside

    def _take_stock(self) -> None:
        assert self.crons is not None
        engine, found = self.crons.engine, self.left
        me = current_thread()
        found += [f"the thread {thread.name}" for thread in self.machine.alive() if thread is not me]
        found += [f"the run {execution.run}" for execution in engine.runner.active()]
        found += [f"the lease {lease}" for lease in self.crons.locks.database.keeper.leases()]
        if len(engine.runner.open_work) or len(self.crons.history.open_work):
            found.append("work that still counts as outstanding")
        for job in self.crons.registry.jobs():
            lane = engine.lanes.lane(job)
            # A turn that was called or waited when its instance stopped is dropped at the next start.
            if lane.running or lane.reserved or (lane.current is not None and lane.state == "trying"):
                found.append(f"a place of {job.name}")

    def _occupy(self, crons: FireCron) -> None:
        assert self._told is not None
        self.occupied_from = self._scheduler.now
        for _ in range(int(str(self._settings["workers"]))):
            crons.engine.crew.submit(self._told.wait)

    def _begin(self, work: Callable[[], object], name: str) -> None:
        self._scheduler.begin(Thread(target=work, name=name), self.machine)

    def _tell(self) -> None:
        assert self._told is not None
        self._told.set()
        if self._loop_told is not None:
            self._loop_told()

    def _program(self) -> None:
        self.crons = crons = FireCron(
            *self._functions(),
            *self.declared,
            settings=load(**self._settings, roles=self.spec.roles),
            enabled=True,
            store=self.wire,
        )
        crons.locks.database.streams.places = Places()  # each machine is a process
        crons.events.subscribe(self._hear)
        assert self._told is not None
        if self.spec.has_loop:
            asyncio.run(self._live_on_a_loop(crons))
        else:
            crons.start()
            self.ticking_from = self._scheduler.now
            self._told.wait()
            crons.stop()
        for call in reversed(list(self.machine.at_exit)):
            call()
        self.has_ended = True
        self._timeline.say(self.name, "the program has ended")

    async def _live_on_a_loop(self, crons: FireCron) -> None:
        loop, told = asyncio.get_running_loop(), asyncio.Event()
        self._loop_told = lambda: loop.call_soon_threadsafe(told.set)
        async with crons:
            self.ticking_from = self._scheduler.now
            if self.stopping_from is None:
                await told.wait()

    def _functions(self) -> list[Callable[..., object]]:
        found: list[Callable[..., object]] = []
        for job in self._declared:
            if job.work.recorded:
                body = make_stepped_body(
                    job.name, job.work, self.machine, self._scheduler, self._oracle, lambda: self.struck(self)
                )
            else:
                body = make_body(job.name, job.work, self.machine, self._scheduler, self._oracle)
            assert inspect.isfunction(body)
            found.append(distributed_cron(job.name, job.line, **job.options)(body))  # type: ignore[arg-type]  # by words
        return found

    def _hear(self, event: events.Event) -> None:
        if self._scheduler.is_closing:
            return
        self._timeline.say(self.name, "{}: {}", event.slug, event.message)
        self._oracle.hears(self.machine, event)
