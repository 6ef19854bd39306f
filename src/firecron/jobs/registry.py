"""The registry: the jobs of this process, their state, and how a program pauses, resumes and runs them.

Jobs are checked before they tick. A job that can't work is refused. An odd job gets a WARNING, once in a process.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal, Protocol, TypeAlias

from firecron.base.events import Events, Slug
from firecron.base.flag import in_each_process
from firecron.cron.schedule import next_ticks, shortest_interval
from firecron.errors import ConfigurationError, UnknownJob
from firecron.jobs.decorator import declared, where_of
from firecron.jobs.job import Around, Job, check_fit, checked, make_job, nothing
from firecron.jobs.run import Outcome, Run, Trigger
from firecron.lock.refusal import Refusal
from firecron.settings import Settings, unknown_variables
from firecron.store import check_entry_name, split_name


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one claim: a run and its outcome, or the refusal that kept it from running.

    Args:
        run: The run; None if there was none.
        outcome: `succeeded`, `failed`, `lost`, `interrupted` or `cancelled`; None if nothing ran.
        refusal: Why nothing ran; None if there was a run.
        error: The exception of a run that `failed` or was `lost`.
    """

    run: Run | None
    outcome: Outcome | None
    refusal: Refusal | None = None
    error: BaseException | None = None


State: TypeAlias = Literal["ticking", "running", "paused", "disabled", "elsewhere", "idle"]


class JobControl(Protocol):
    """What makes the registry's jobs run. The registry reports changes to it, and asks it which jobs are running."""

    @property
    def is_ticking(self) -> bool:
        """Whether jobs run by their schedules in this process."""

    def check(self, job: Job) -> None:
        """Raise ConfigurationError if the job can't be added."""

    def add(self, job: Job) -> None:
        """Make the job tick from now on; of a stored job, keep what it declares."""

    def remove(self, name: str) -> None:
        """Make the job stop ticking."""

    def has_leader(self, name: str) -> bool:
        """Whether a leader of this program has this name."""

    def pause(self, name: str, is_paused: bool, why: str | None, until: datetime | None) -> None:
        """Write to the node whether its job or leader is paused on all instances. Raise StoreError if that fails."""

    def pause_leader(self, name: str, is_paused: bool) -> None:
        """Make a leader stand no more on this instance, or stand again."""

    def served(self, job: Job) -> None:
        """Note that a trigger from outside has run the job. This must not block."""

    def entry(self, job: Job, name: str) -> Job | Refusal:
        """Return the job of an entry of this stored job, or a refusal if that is paused. Raise StoreError."""

    def running(self) -> dict[str, int]:
        """Return how many runs of each job are under way on this instance."""

    def run_now(self, job: Job, slot: datetime | None, trigger: Trigger) -> Result:
        """Run the job once, for the tick `slot` or for none, and return the result."""

    def resume(self, job: Job, tick: datetime | str, trigger: Trigger) -> Result:
        """Run a tick once more, as its next attempt, and return the result."""

    def now(self) -> datetime | None:
        """Return RTDB's time; None if it is not known."""


class Registry:
    """The jobs, by name. Around their runs are the application's `context`, and what is `given` as `around`.

    A job that another registry has set up keeps what that one has put around it.
    """

    def __init__(self, roles: tuple[str, ...], prefix: str, control: JobControl, given: Sequence[Around] = ()) -> None:
        self.context: Callable[[], AbstractContextManager[object]] = nullcontext
        self._outer: tuple[Around, ...] = ()
        self._given = checked(given)
        self._roles = roles
        self._prefix = prefix
        self._control = control
        self._jobs: dict[str, Job] = {}
        self._paused: set[str] = set()
        in_each_process(self._begin_process)

    def _begin_process(self) -> None:
        self._lock = threading.Lock()

    def jobs(self, *, stored: bool | None = None) -> list[Job]:
        """Return the jobs, in the order in which they were found.

        Args:
            stored: True for those alone whose schedules are stored in the database, False for all others.
        """
        with self._lock:
            return [job for job in self._jobs.values() if stored in (None, job.options.stored is not None)]

    def get(self, name: str) -> Job:
        """Return the job of this name. Raise UnknownJob if there is none.

        Args:
            name: The job's name.
        """
        with self._lock:
            if name not in self._jobs:
                raise UnknownJob(f"there is no job {name!r}; the jobs are: {', '.join(self._jobs) or 'none'}")
            return self._jobs[name]

    def next_slots(self, name: str, n: int = 1) -> list[datetime]:
        """Return the next `n` ticks of the job, in UTC; fewer if its schedule ends before.

        Args:
            name: The job's name.
            n: The number of ticks.
        """
        job, key = self._declared(name)
        if job.options.stored is not None:
            where = f"firecron next {name}" if key else f"firecron schedules {name}"
            raise ConfigurationError(f"the schedules of {job.name!r} are stored in the database: {where}")
        # RTDB's time is not known before the start. This machine's time is good enough, because people read the result.
        now = self._control.now() or datetime.now(UTC)
        return next_ticks(job.options.schedule, now, n)

    def state(self, name: str) -> State:
        """Return what the job does on this instance now.

        Args:
            name: The job's name, or `<job>:<key>`.
        """
        job, _ = self._declared(name)
        if self._control.running().get(name):
            return "running"
        if job.options.disabled:
            return "disabled"
        if not self.runs_here(job):
            return "elsewhere"
        if {name, job.name} & self._paused:
            return "paused"
        return "ticking" if self._control.is_ticking else "idle"

    def add(self, job: Job | Callable[..., object]) -> None:
        """Add a job at run time. It runs from its next tick on. The same job twice counts once.

        Args:
            job: A decorated function, or a Job. A function that is decorated twice is two jobs.
        """
        jobs = [job] if isinstance(job, Job) else [make_job(options, job, where_of(job)) for options in declared(job)]
        if not jobs:
            raise ConfigurationError(f"{job!r} is not a job: decorate it with distributed_cron")
        for given in jobs:
            # What another FireCron's registry set stays: a rehearsal calls jobs in the application's context.
            one = given if given.around is not nothing else replace(given, around=self.around)
            options = one.options.below(self._prefix)
            if options is not one.options:
                one = replace(one, options=options)
            check_fit(self._given, one.name, one.where, is_async=one.is_async)
            self._control.check(one)
            with self._lock:
                other = self._jobs.get(one.name)
                if other is not None and other.function != one.function:
                    raise ConfigurationError(
                        f"two jobs are named {one.name!r}: {other.where} and {one.where}. Rename one of them"
                    )
                if other is not None:
                    continue
                self._jobs[one.name] = one
            if one.options.stored is not None or self.ticks_here(one):
                self._control.add(one)

    def remove(self, name: str) -> None:
        """Remove a job, so that it stops ticking on this instance. A run that is under way goes on.

        Args:
            name: The job's name.
        """
        self.get(name)
        with self._lock:
            self._jobs.pop(name, None)
            self._paused.discard(name)
        self._control.remove(name)

    def pause(
        self, name: str, *, everywhere: bool = False, why: str | None = None, until: datetime | None = None
    ) -> None:
        """Stop running the job by its schedule, or standing for the leader, on this instance or on every instance.

        A leader that is paused steps down. Raise StoreError if a pause of every instance can't be written.

        Args:
            name: The job's or the leader's name; or `<job>:<key>` of one stored schedule.
            everywhere: Write `paused` to the node. Then no instance runs the job, not even by hand.
            why: The reason, for people. Only with `everywhere`.
            until: When the pause ends by itself, an aware `datetime`. Only with `everywhere`.
        """
        self._check_either(name)
        if everywhere:
            self._control.pause(name, True, why, until)
            return
        if why is not None or until is not None:
            raise ConfigurationError("why and until are written to the node: give everywhere=True as well")
        if self._control.has_leader(name):
            self._control.pause_leader(name, True)
        else:
            self._paused.add(name)

    def resume(self, name: str, *, everywhere: bool = False, why: str | None = None) -> None:
        """End a pause of this instance, or of every instance.

        Raise StoreError if the end of the pause of every instance can't be written.

        Args:
            name: The job's or the leader's name; or `<job>:<key>` of one stored schedule.
            everywhere: Delete `paused` from the node as well.
            why: The reason, for people. Only with `everywhere`.
        """
        self._check_either(name)
        if everywhere:
            self._control.pause(name, False, why, None)
        elif why is not None:
            raise ConfigurationError("why is written to the database: give everywhere=True as well")
        if self._control.has_leader(name):
            self._control.pause_leader(name, False)
        self._paused.discard(name)

    def trigger(
        self,
        name: str,
        *,
        slot: datetime | None = None,
        resume: datetime | str | None = None,
        source: Trigger = "manual",
    ) -> Result:
        """Run the job once on this instance, under its lock. Return its result when the run has ended.

        Without a `slot` the run claims no tick. With a `slot` it is the run of that tick, however late. It is refused
        if that tick or a later one was claimed before, on any instance. With `resume` it is the next attempt at a tick
        that has run before and not succeeded, with that tick's key and steps. It is refused if the history says that
        the tick has succeeded, or knows no run of it.

        Args:
            name: The job's name, or `<job>:<key>` of one stored schedule.
            slot: The tick to claim, an aware `datetime`.
            resume: The tick to resume, an aware `datetime`; of a run by hand, the key of its entry in the history.
            source: The `trigger` of the run in the history: `firebase` in one of Firebase's scheduled functions.
        """
        for option, instant in (("slot", slot), ("resume", resume)):
            if isinstance(instant, datetime) and instant.tzinfo is None:
                raise ValueError(
                    f"{option}={instant!r} must be an aware datetime, such as datetime(2026, 11, 18, 9, tzinfo=UTC)"
                )
        if slot is not None and resume is not None:
            raise ConfigurationError("a run claims a tick (slot), or resumes one (resume): leave one of them out")
        job = self.find(name)
        if isinstance(job, Refusal):
            return Result(None, None, job)
        if resume is not None:
            return self._control.resume(job, resume, source)
        result = self._control.run_now(job, slot, source)
        if source == "firebase" and result.run is not None:
            self.served(job.declared or job)
        return result

    def find(self, name: str) -> Job | Refusal:
        """Return the job of this name, also of an entry of a stored job; or why its job keeps it from running.

        An entry is read from the database. Raise UnknownJob if there is no such job, ConfigurationError for the name of
        a stored job without a key, StoreError.

        Args:
            name: The job's name, or `<job>:<key>`.
        """
        job, key = self._declared(name)
        if job.options.stored is None:
            return job
        if not key:
            raise ConfigurationError(f"{name!r} has its schedules in the database: name one of them, {name}:KEY")
        return self._control.entry(job, name)

    def around(self) -> Sequence[Around]:
        """Return what is around each run now, the outermost first."""
        return (*self._outer, *self.contexts(), *self._given)

    def contexts(self) -> Sequence[Callable[[object], AbstractContextManager[object]]]:
        """Return what is around the functions of leaders, too: the application's context, as it is set now."""
        return (lambda _: self.context(),)

    def wrap(self, around: Around) -> Callable[[], None]:
        """Put one more around each run, outside of the others. Return a function that ends this."""
        self._outer = (around, *self._outer)

        def unwrap() -> None:
            self._outer = tuple(other for other in self._outer if other is not around)

        return unwrap

    def _declared(self, name: str) -> tuple[Job, str]:
        """Return the job of this name, or of an entry of this name, and the key of the entry ("" for none).

        Raise UnknownJob if there is no such job, or if it has no entries, ConfigurationError for a wrong key.
        """
        declared, key = split_name(name)
        job = self.get(declared)
        if job.options.stored is None and key:
            raise UnknownJob(f"there is no job {name!r}: {declared!r} has its schedule in its code")
        if key:
            check_entry_name(name)
        return job, key

    def _check_either(self, name: str) -> None:
        """Raise UnknownJob if the name is neither a job's, with or without a key, nor a leader's."""
        if not self._control.has_leader(name):
            self._declared(name)

    def served(self, job: Job) -> None:
        """Note that a trigger from outside has run the job: no instance may tick for it."""
        self._control.served(job)

    def runs_here(self, job: Job) -> bool:
        """Return whether this instance has the role that the job needs."""
        return job.options.role is None or job.options.role in self._roles

    def is_wanted(self, job: Job) -> bool:
        """Return whether this instance runs the job by its schedule now."""
        declared = job.declared or job
        is_known = self._jobs.get(declared.name) is declared and self.ticks_here(declared)
        return is_known and not {job.name, declared.name} & self._paused

    def ticks_here(self, job: Job) -> bool:
        """Return whether this instance runs the job by its schedule while the job is not paused."""
        return not job.options.disabled and self.runs_here(job)


# --- checks

_MINUTE = 60_000
_HOUR = 3_600_000
# The warnings that any FireCron of this process has emitted.
WARNED: set[str] = set()


class Checks:
    """Checks jobs."""

    def __init__(self, settings: Settings, events: Events) -> None:
        self._settings = settings
        self._events = events

    def check(self, job: Job) -> None:
        """Raise ConfigurationError if the job's timings would break the promise of the lock."""
        self._settings.check_ttl(job.options.lock_ttl, f"lock_ttl of {job.name!r}")

    def warn(self, jobs: Iterable[Job]) -> None:
        """Emit a WARNING for each oddity of the environment or of these jobs, once in a process."""
        for problem, remedy in unknown_variables():
            self._say("settings.unknown", "firecron", f"{problem}: {remedy}")
        for job in jobs:
            for warning in self.warnings(job):
                self._say("job.suspicious", job.name, warning)

    def warnings(self, job: Job) -> Iterator[str]:
        """Yield what is odd about a job, each with a remedy."""
        options = job.options
        for warning in options.schedule.warnings:
            yield f"{job.where}: {warning}"
        ttl, jitter = options.lock_ttl / 1000, options.jitter / 1000
        is_in_milliseconds = options.lock_ttl >= _HOUR and options.lock_ttl_is_bare and options.has_lease
        if is_in_milliseconds:
            yield (
                f'"{job.name}": lock_ttl={ttl:g} is {ttl / 3600:.3g} hours. Is it in milliseconds? Then write '
                f"lock_ttl=60, which is renewed while the job runs. If not, write timedelta(seconds={ttl:g})"
            )
        for doubt in options.doubts.values():
            yield f'"{job.name}": {doubt}'
        if options.stored is not None and options.lock_ttl > _HOUR and not is_in_milliseconds:
            better = f"lock_ttl=60{'' if options.renew else ', and leave renew=False out'}"
            yield (
                f'"{job.name}": lock_ttl ({ttl:g} s) is over an hour, and a schedule that somebody unlocks in the '
                f"Firebase console waits for so long; write {better}: it is renewed while the job runs"
            )
        is_held = options.once_per_tick and options.has_lease
        longest = max(options.jitter, options.lock_ttl if is_held else 0)
        if longest == 0 or (longest <= _MINUTE and not options.schedule.has_seconds):
            return  # ticks of a line with five fields are at least a minute apart
        interval = shortest_interval(options.schedule)
        if jitter > interval and "jitter" not in options.doubts:
            yield (
                f'"{job.name}": jitter ({jitter:g} s) is longer than the interval of its ticks '
                f"({interval:g} s), so a tick may start before the previous tick, which is then dropped; make jitter "
                f"{interval:g} s at most"
            )
        # The shortest ttl that is allowed.
        least = max(self._settings.least_ttl, options.hold_at_least / 1000)
        if is_held and not is_in_milliseconds and ttl > max(interval, least):
            better = (
                f"lock_ttl={max(least, min(interval, 60)):g}{'' if options.renew else ', and leave renew=False out'}"
            )
            yield (
                f'"{job.name}": lock_ttl ({ttl:g} s) is longer than the interval of its ticks ({interval:g} s), so an '
                f"instance that dies in a run costs ticks; write {better}: it is renewed while the job runs"
            )

    def _say(self, slug: Slug, name: str, message: str) -> None:
        if message not in WARNED:
            WARNED.add(message)
            self._events.emit(slug, name, logging.WARNING, message)
