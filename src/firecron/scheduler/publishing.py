"""The publisher of the catalogue: keeps the entries of this program's jobs in the catalogue, `cron-jobs/<name>` (see
`jobs/catalogue`).

    begin    where jobs tick: all jobs of the program, beside its start
    add      a job that the program adds later
    since    since when a job is declared by its schedule, which the looks for late jobs ask
    won      a job that was run here by its schedule
    served   a job that was run here for a trigger, or is about to be, as by `firecron exec`; a trigger may be all that
             runs it. The first time all jobs, because the one whose trigger was forgotten is never run

Entries are read, all in one request, and what differs is written, 500 jobs in a request. Nothing is written where
nothing differs. After a write `cron-hold` is read, and what an operator holds is paused (`lock/holds`). A job that was
run is looked at once an hour at most, and only its own entry. All of this is done on a thread of its own, so it delays
neither a start nor a run. What fails is an event, and tried again. If the security rules refuse an entry, it is written
without the fields that rules may be older than, and the event says so.

No lock depends on an entry, so the writes have no condition. What may interleave, and what becomes of it:

    two instances of one revision start    both write the same, or the second finds nothing to write
    two of two revisions start at once     both read what was there, and both write. An entry is replaced whole, so each
                                           is one revision's; two entries may be of two revisions
    an old revision starts late            its entries stand, until the new revision's next run of each job puts that
                                           job's own one right, an hour later at the latest if the job runs so often
    the new one has the job disabled       then no run puts its entry right, but the next instance of the new revision
    two revisions run a job in turns       each of their instances looks once an hour: what they disagree about changes
                                           to and fro, and is shown as it is
    an operator forgets an entry           a program that has the job writes it again, at its next start, or at a run an
                                           hour after its last look
    `since` when two schedules take turns  it begins anew with each, so a tick of before is not called late
    a reply is lost                        the next look reads what was written
    an operator begins a hold              either this look reads the hold, or the hold reads this entry (`lock/holds`)
    a stop while a look reads              nothing is written: the entries would say that the jobs don't tick
    a stop while a look writes             what is written stands, and says that they tick

A program that only triggers run leaves the entry of a job that live instances tick for to them. So a run by hand in a
service doesn't say of its worker pool's job that only triggers run it: nobody would miss the pool then.

A job with a role that this instance lacks is left to those that have it. Only if nobody has declared it, it is declared
here without a service: so a role that no instance has is seen.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping

from firecron.base.flag import in_each_process
from firecron.base.instants import number, to_datetime, to_milliseconds
from firecron.base.threads import Crew
from firecron.errors import Denied, NoCredentials, StoreError
from firecron.jobs.catalogue import changed, declared, live_groups_of, read_groups, stored_fields, ticked_since
from firecron.jobs.job import Job
from firecron.jobs.registry import Registry
from firecron.lock.database import Database
from firecron.lock.holds import hold_declared
from firecron.runs.lane import Attempt
from firecron.runs.lanes import Lanes
from firecron.store import SERVER_TIME

# How many entries one write has.
_MOST = 500
_MOST_NAMED = 10
# Milliseconds between two looks at the entry of a job that is run again and again.
_AGAIN = 3_600_000
# Seconds after which a look that failed is made again: sooner if the database was away than if its rules refuse it.
_RETRY = 300.0
_RETRY_DENIED = 3_600.0


class CataloguePublisher:
    """Looks after the entries of the registry's jobs, on the threads of its `crew`. No method blocks.

    The agenda of the `lanes` makes calls later, where the instance ticks.
    """

    def __init__(self, database: Database, registry: Registry, crew: Crew, lanes: Lanes) -> None:
        self._database = database
        self._registry = registry
        self.crew = crew
        self._lanes = lanes
        in_each_process(self._begin_process)

    def _begin_process(self) -> None:
        self._lock = threading.Condition()
        # The service of each job whose entry was written, or may have been, and `cron-hold` not read since. A stop does
        # not change that.
        self._unheld: dict[str, str] = {}
        self.forget()

    def forget(self) -> None:
        """Stop ticking: the looks that are due are dropped, and one that is under way reports nothing more."""
        with self._lock:
            self._term = object()
            self._ticks = False
            self._is_busy = False
            self._lock.notify_all()
            self._due: set[str] = set()
            self._looked: dict[str, float] = {}
            self._since: dict[str, int | None] = {}
            self._declared: dict[str, int] = {}
            self._asking: dict[str, list[Callable[[int | None], None]]] = {}
            self._has_failed = self._has_not_held = False
            self._not_before = 0.0

    def begin(self) -> None:
        """Look at all jobs: from now on this instance ticks."""
        with self._lock:
            self._ticks = True
        self._ask_for(job.name for job in self._registry.jobs())

    def add(self, job: Job) -> None:
        """Look at a job that the program has just added."""
        with self._lock:
            for known in (self._since, self._declared):
                known.pop(job.name, None)  # it may be known of another schedule
        if self._ticks:
            self._ask_for([job.name])

    def since(self, name: str) -> int | None:
        """Return since when the job is declared by its schedule: its ticks before that are not late.

        None if that is not known: no look has read or written its entry yet.
        """
        return self._declared.get(name)

    def when_known(self, job: Job, answer: Callable[[int | None], None]) -> None:
        """Call `answer` with the instant since when instances tick for the job by its schedule; None if none did.

        The call must not block. It is made once a look has read the job's entry: a look that failed is made again.
        """
        with self._lock:
            is_known = job.name in self._since
            since = self._since.get(job.name)
            if not is_known:
                self._asking.setdefault(job.name, []).append(answer)
        if is_known:
            answer(since)

    def won(self, job: Job) -> None:
        """Look at a job that was run here by its schedule, unless it was looked at within an hour."""
        if self._ticks:
            self.served(job)

    def attempted(self, attempt: Attempt) -> None:
        """Look at the job of an attempt if it has run.

        If an attempt for a tick from before this instance had the job was refused because the job has never run, it is
        made again once the entry shows that other instances had the job by then. They may be gone; and if any is left,
        it may wait for the others, whom the beats of this instance hide.
        """
        job, due = attempt.job, attempt.due
        if any(result.run is not None for result in attempt.results):
            self.won(job)
        elif due is not None and attempt.looks_back and not attempt.had_others and _has_never_run(attempt):

            def answer(since: int | None) -> None:
                if since is not None and since < to_milliseconds(due):
                    self._lanes.look_back(job, due, had_others=True)

            self.when_known(job, answer)

    def served(self, job: Job) -> None:
        """Look at a job that was run here for a trigger, as `won` does. Where nothing ticks, begin with all jobs."""
        looked = self._looked.get(job.name)
        if not self._looked and not self._ticks:
            self._ask_for(other.name for other in self._registry.jobs())
        elif looked is None or self._database.timing.mono() - looked >= _AGAIN:
            self._ask_for([job.name])

    def wait(self, seconds: float) -> None:
        """Wait until no look is under way, but no longer than this. Without it, `forget` drops what was not written."""
        with self._lock:
            self._lock.wait_for(lambda: not self._is_busy, seconds)

    def _ask_for(self, names: Iterable[str]) -> None:
        with self._lock:
            self._due.update(names)
        self._start()

    def _start(self, *, is_retry: bool = False) -> None:
        """Have a thread look at what is due, unless one does, or a look has failed a short time ago."""
        with self._lock:
            if self._is_busy or not self._due or (self._database.timing.mono() < self._not_before and not is_retry):
                return
            self._is_busy = True
            term = self._term
        try:
            self.crew.submit(lambda: self._work(term))
        except BaseException as error:
            self._put_off(term, set(), error)
            if not isinstance(error, Exception):
                raise  # Ctrl-C, or an exception of a signal's handler

    def _work(self, term: object) -> None:
        while names := self._take(term):
            try:
                self._publish(names, term)
            except Exception as error:
                self._put_off(term, names, error)
                return
            try:
                self._hold(term)
            except Exception as error:
                self._put_off(term, names, error, is_of_holds=True)
                return

    def _take(self, term: object) -> set[str]:
        with self._lock:
            if term is not self._term:
                return set()
            names, self._due = self._due, set()
            self._is_busy = bool(names)
            self._lock.notify_all()
            return names

    def _publish(self, names: set[str], term: object) -> None:
        """Read the entries of these jobs, answer `when_known`, and write the entries that differ. Raise StoreError."""
        database, paths = self._database, self._database.paths
        jobs = {job.name: job for job in self._registry.jobs() if job.name in names}
        if len(jobs) == 1:
            (name,) = jobs
            stored: object = {name: database.node(paths.job(name))}
        else:
            stored = database.node(paths.jobs) if jobs else None
        entries = stored if isinstance(stored, dict) else {}
        since = {name: ticked_since(job.options.schedule, entries.get(name)) for name, job in jobs.items()}
        with self._lock:
            if term is not self._term:
                return
            ticks = self._ticks
            self._since.update(since)
            asked = [(answer, since[name]) for name in jobs for answer in self._asking.pop(name, ())]
        for answer, instant in asked:
            answer(instant)
        found = {name: self._changed(job, entries.get(name), ticks=ticks) for name, job in jobs.items()}
        ticked = {name for name, node in found.items() if node is not None and _ticks(entries.get(name))}
        if ticked and not ticks:
            found |= dict.fromkeys(self._run_elsewhere(ticked))
        values = {name: node for name, node in found.items() if node is not None}
        self._unheld.update({name: str(node["service"]) for name, node in values.items()})
        refusal: Denied | None = None
        left_out: list[str] = []
        # In a request of their own, which older rules refuse: the other entries are written all the same.
        stored_ones = {name: values.pop(name) for name in list(values) if jobs[name].options.stored is not None}
        try:
            self._write(stored_ones)
        except Denied as error:
            if not _is_by_rules(error):
                raise
            refusal = error
            left_out.append(f"{', '.join(sorted(stored_ones)[:_MOST_NAMED])}, whose schedules are stored")
        try:
            self._write(values)
        except Denied as error:
            older = {name: self._changed(jobs[name], entries.get(name), ticks=ticks, without=True) for name in values}
            if not _is_by_rules(error) or older == values:
                raise
            # Rules that are older than some fields: better an entry without these than none.
            self._write({name: node for name, node in older.items() if node is not None})
            refusal = error
            left_out.append("the fields that the security rules refuse, such as a job's description")
        now, moment = self._database.timing.mono(), self._database.clock.peek()
        written_at = None if moment is None else moment.server
        begins = {name: _begins(found[name] or entries.get(name), written_at) for name in jobs}
        with self._lock:
            if term is not self._term:
                return
            self._looked.update(dict.fromkeys(jobs, now))
            self._declared |= {name: begin for name, begin in begins.items() if begin is not None}
            is_news, self._has_failed = refusal is not None and not self._has_failed, refusal is not None
        if is_news and refusal is not None:
            self._complain(refusal, logging.WARNING, f"was written without {' and without '.join(left_out)}")

    def _hold(self, term: object) -> None:
        """Pause the jobs that were just declared and that an operator holds. Raise StoreError."""
        declared, self._unheld = self._unheld, {}
        try:
            if declared:
                hold_declared(self._database, declared)
        except BaseException:
            self._unheld = {**declared, **self._unheld}
            raise
        with self._lock:
            self._has_not_held = self._has_not_held and term is not self._term

    def _write(self, entries: Mapping[str, dict[str, object]]) -> None:
        values = list(entries.items())
        for start in range(0, len(values), _MOST):
            part: dict[str, object] = dict(values[start : start + _MOST])
            self._database.store.merge(self._database.paths.jobs, part, self._database.deadline(), echo=False)

    def _changed(self, job: Job, stored: object, *, ticks: bool, without: bool = False) -> dict[str, object] | None:
        """Return the entry to write for the job; None if none is to be written. `without`: without its later fields."""
        who = self._database.identity
        is_here = self._registry.runs_here(job)
        if not is_here and isinstance(stored, dict) and stored.get("service") != "":
            return None
        service, revision = (who.service, who.revision) if is_here else ("", None)
        moment = self._database.clock.peek()
        today = to_datetime(round(self._database.timing.wall()) if moment is None else moment.server).date()
        mine = declared(
            job.options,
            where=job.where,
            ticks=ticks,
            service=service,
            revision=revision,
            today=today,
            stored=stored_fields(job),
        )
        return changed(mine.without() if without else mine, stored)

    def _run_elsewhere(self, names: Iterable[str]) -> set[str]:
        """Return those of these jobs that live instances tick for, as far as is known. Raise StoreError."""
        try:
            groups = read_groups(self._database.node(self._database.paths.groups))
        except Denied:
            return set()  # the rules are older than the groups
        now = self._database.clock.now(self._database.deadline()).server
        return {name for name in names if live_groups_of(name, groups, now)}

    def _put_off(self, term: object, names: set[str], error: BaseException, *, is_of_holds: bool = False) -> None:
        """Look at these jobs again later, and say so: as a WARNING once until a look succeeds.

        With `is_of_holds` the catalogue is as it should be, and a hold could not be obeyed.
        """
        delay = _RETRY_DENIED if _is_by_rules(error) else _RETRY
        with self._lock:
            if term is not self._term:
                return
            self._is_busy = False
            self._lock.notify_all()
            self._due |= names
            self._not_before = self._database.timing.mono() + delay * 1000
            # Before RTDB's time is known the ticker logs the cause.
            is_known = self._database.clock.peek() is not None
            if is_of_holds:
                is_news, self._has_not_held = not self._has_not_held, True
            else:
                is_news, self._has_failed = not self._has_failed, self._has_failed or is_known
            ticks, unheld = self._ticks, sorted(self._unheld)[:_MOST_NAMED]
        if is_news and is_of_holds:
            why = f"{', '.join(unheld)}: {error}"
            message = f"Jobs were declared, and may run although an operator holds them (cron-hold). {why}"
            self._database.events.emit("hold.failed", "firecron", logging.WARNING, message, why=why)
        elif is_news:
            self._complain(error, logging.WARNING if is_known else logging.DEBUG)
        if ticks:
            self._lanes.agenda.after(delay, lambda: self._start(is_retry=True))

    def _complain(self, error: BaseException, level: int, problem: str = "could not be read or written") -> None:
        why = str(error) if isinstance(error, StoreError) else repr(error)
        remedy = ": deploy the rules that `firecron rules` prints" if _is_by_rules(error) else ""
        message = f"The catalogue of jobs {problem}{remedy}. No run depends on it. {why}"
        self._database.events.emit("catalogue.failed", "firecron", level, message, why=why)


def _is_by_rules(error: BaseException) -> bool:
    return isinstance(error, Denied) and not isinstance(error, NoCredentials)


def _begins(entry: object, written_at: int | None) -> int | None:
    """Return since when the job of an entry, as it is in the database now, is declared by its schedule."""
    since = entry.get("since") if isinstance(entry, dict) else None
    return written_at if since == SERVER_TIME else number(since)


def _ticks(entry: object) -> bool:
    return isinstance(entry, dict) and entry.get("ticks") is True


def _has_never_run(attempt: Attempt) -> bool:
    """Return whether an attempt was refused because no tick of its job was ever claimed."""
    refusals = [result.refusal for result in attempt.results if result.refusal is not None]
    return any(refusal.reason == "slot_done" and refusal.slot is None for refusal in refusals)
