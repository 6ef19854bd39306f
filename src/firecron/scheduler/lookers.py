"""Lookers: the instances that look for stored schedules that are due, and run them.

At each of its beats an instance decides for each stored job whether it looks: its rank for the job is below `lookers`
(an option of the job), or the size of the fleet is not known. It then asks for the entries whose `nextAt` is near, and
plans each of them until its next beat; then for those that are older, a page at a time.

    beat ─► ask ─► planned at nextAt ─► line ─► look (`runs/look`) ─► an attempt, in the lane of the entry
                                                               └─► a write, a deletion, or a later look

What is due stands in line in the order of a hash of entry, tick and instance, so that lookers begin at different ends.
As many of them are under way as there are workers, and half as many of those that are older, so that fresh ticks start
in time after an outage. Who loses three claims in a row asks again: others have done the rest.

Nothing rests on this but when a tick starts: each claim reads the node and compares. What may interleave:

    no looker at all             the next beat of some instance finds what is due: within two heartbeats
    two lookers, one entry       one of the claims is refused; of two looks that write, one finds the node changed
    a put, after the query       it rings `cron-bell` if it is due soon, and lookers ask again. Of a burst of puts the
                                 first is followed at once, and the rest a second later
    a put, before the bell's     the stream begins with the last bell, which is compared with the time of the query
      stream is open
    a removal, after the query   the claim is refused
    a look that hangs            its worker is one of many; the heartbeat and the ticker don't wait for it
    a thousand that a hand has   a worker mends them one after another, and the looks don't wait for it
      left without a time
    the beat hangs, or fails     what is planned stays planned: a reply replaces it, once its last page is there
    a stop                       what is planned is dropped; the attempts stop as any others

Without an index (rules that are older) the database refuses the query. Then all entries are read by their keys, every
five minutes, and an ERROR says what to deploy.
"""

from __future__ import annotations

import hashlib
import heapq
import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from firecron.base.events import LastValues, Slug
from firecron.base.flag import in_each_process
from firecron.base.instants import number, to_milliseconds
from firecron.base.threads import Crew
from firecron.cron.bounded import FIELDS, Bounded
from firecron.errors import ConfigurationError, Denied, Malformed, NoIndex, StoreError
from firecron.jobs.job import Job
from firecron.jobs.registry import Registry
from firecron.lock.database import Database
from firecron.lock.fields import Pause, pause_in
from firecron.lock.stored import Node
from firecron.lock.waiting import Follow
from firecron.runs.history import History
from firecron.runs.lane import Attempt
from firecron.runs.lanes import Lanes
from firecron.runs.look import Attempted, Deleted, Later, Look, Written, evaluate
from firecron.scheduler.entry_writer import EntryWriter
from firecron.store import Querying, split_name

# How many entries one query brings.
_PAGE = 1_000
# How far ahead a query looks, in heartbeats: what a put that rings is due within.
_AHEAD = 2
# The longest random delay of an instance that doesn't know how many there are, in seconds.
_SPREAD = 2.0
# After so many claims in a row that others have won, the rest is asked for again.
_LOST = 3
# Why a claim is refused that another instance has won. The only tick of an `at` closes its entry.
_BY_ANOTHER = ("slot_done", "held", "removed")
# Milliseconds between two looks that follow a bell.
_BETWEEN_RINGS = 1_000.0
# Milliseconds between two readings of all entries, where there is no index.
_WITHOUT_INDEX = 300_000


@dataclass(eq=False)
class _Planned:
    """An entry as a query has brought it, and whether it is one of those that are long due."""

    name: str
    node: Node
    is_old: bool = False


@dataclass(eq=False)
class _StoredJob:
    """What this instance knows of the entries of one stored job while it looks for them."""

    job: Job
    until: int = 0  # what is due later is planned by a later query
    asked_at: int = 0
    hold: Pause | None = None
    planned: dict[str, _Planned] = field(default_factory=dict)
    line: list[tuple[bool, bytes, str]] = field(default_factory=list)
    under_way: dict[str, bool] = field(default_factory=dict)  # of each: whether it is long due
    older_from: tuple[int, str] | int | None = None
    lost: int = 0
    is_crowded: bool = False  # that is said once for each query
    odd: deque[str] = field(default_factory=deque)  # the names of those that no query for what is due finds
    is_listening: bool = False
    rung: int = 0  # the last bell that was heard
    is_ringing: bool = False  # a look follows it
    # On the monotonic clock: when a bell may be followed again, all entries be read again without an index, and mended.
    rings_at: float = 0.0
    read_all_at: float = 0.0
    mends_at: float = 0.0


class Lookers:
    """The part of this instance in the looks of all stored jobs. `crew` makes the requests, on a thread of its own.

    `asked` is called after each question to the database, once the bell is heard. `workers` do what a look writes: as
    many as run jobs. `rank` says how many instances come before this one, None if
    that is not known.
    """

    def __init__(
        self,
        database: Database,
        registry: Registry,
        rank: Callable[[str], float | None],
        lanes: Lanes,
        history: History,
        crew: Crew,
        workers: Crew,
    ) -> None:
        self._database = database
        self._registry = registry
        self._rank = rank
        self._lanes = lanes
        self._writer = EntryWriter(database, history)
        self.crew = crew
        self.workers = workers
        self._most = database.settings.workers
        self._told: LastValues[str, None] = LastValues()
        self.asked: Callable[[], object] = lambda: None
        in_each_process(self._begin_process)

    def _begin_process(self) -> None:
        self._lock = threading.Lock()
        self._watched: dict[str, _StoredJob] = {}
        self._follow: Follow | None = None

    def forget(self) -> None:
        """Look no more: drop what is planned. Attempts that are under way go on."""
        with self._lock:
            self._watched = {}
        self._unfollow()

    # --- who looks

    def beat(self) -> None:
        """Decide anew, after a beat, for which jobs this instance looks. It doesn't block."""
        for job in self._registry.jobs(stored=True):
            rank = self._rank(f"{job.name} schedules")
            stored = job.options.stored
            if stored is None or not self._registry.is_wanted(job) or (rank is not None and rank >= stored.lookers):
                self._leave(job.name)
                continue
            spread = _SPREAD * self._database.chance() if rank is None and self._database.has_threads else 0.0
            self._lanes.agenda.after(spread, partial(self.crew.submit, partial(self.look, job)))

    def look(self, job: Job) -> None:
        """Ask for the entries of this job that are due soon, and for those that are older. Log what fails."""
        if self._lanes.stopping:
            return
        with self._lock:
            watched = self._watched.get(job.name)
            if watched is None or watched.job is not job:
                watched = self._watched[job.name] = _StoredJob(job)
        self._look(watched)

    def _look(self, watched: _StoredJob, *, fresh_only: bool = False) -> None:
        job = watched.job
        try:
            self._ask(watched, fresh_only=fresh_only)
            self._mend_if_due(watched)
        except NoIndex as error:
            self._say_once("schedules.no_index", job.name, logging.ERROR, f'"{job.name}": {error}', str(error))
            self._read_all(watched)
        except Denied as error:
            message = (
                f"The stored schedules of \"{job.name}\" can't be looked at. If the security rules don't know "
                f"cron-schedules, deploy those that `firecron rules` prints. {error}"
            )
            self._say_once("schedules.failed", job.name, logging.ERROR, message, "denied")
        except StoreError as error:
            message = (
                f'The stored schedules of "{job.name}" can\'t be looked at, and the next beat tries again: {error}'
            )
            self._database.events.emit("schedules.failed", job.name, logging.WARNING, message, why=str(error))
        else:
            self._listen(watched)
        self._feed(watched)
        self.asked()

    def _leave(self, name: str) -> None:
        with self._lock:
            watched = self._watched.get(name)
            if watched is None:
                return
            watched.planned.clear()
            watched.line.clear()
            watched.until, watched.older_from, watched.is_listening = 0, None, False
            is_last = not any(one.is_listening for one in self._watched.values())
        if is_last:
            self._unfollow()

    # --- what is asked for

    def _ask(self, watched: _StoredJob, *, fresh_only: bool) -> None:
        """Ask for what is due soon; with a beat for what is long due as well."""
        database, job = self._database, watched.job
        now = database.clock.now(database.deadline()).server
        pause = pause_in(_fields(database.node(database.paths.lock(job.name))))
        fresh = now - job.options.grace
        horizon = now + round(_AHEAD * database.settings.heartbeat * 1000)
        with self._lock:
            watched.hold = pause if pause is not None and pause.holds(now) else None
            before = {name: one for name, one in watched.planned.items() if not (fresh_only and one.is_old)}
        start: tuple[int, str] | int = fresh
        found: list[tuple[str, object]] = []
        while True:
            page = self._query(job, start, horizon)
            found += page
            if len(page) < _PAGE:
                break
            start = _last(page)
        self._replan(watched, before, found, now, horizon)
        if fresh_only:
            return
        with self._lock:
            watched.older_from = 1
        self._ask_older(watched, fresh - 1)

    def _replan(
        self, watched: _StoredJob, before: dict[str, _Planned], found: list[tuple[str, object]], now: int, until: int
    ) -> None:
        """Plan what was found instead of what was planned before. What was planned meanwhile is newer, and stays."""
        with self._lock:
            watched.until, watched.asked_at, watched.lost, watched.is_crowded = until, now, 0, False
            watched.planned = {
                name: planned for name, planned in watched.planned.items() if before.get(name) is not planned
            }
            watched.line = [one for one in watched.line if one[2] in watched.planned]
            heapq.heapify(watched.line)
        self._take(watched, found, is_old=False)

    def _ask_older(self, watched: _StoredJob, end: int) -> None:
        """Ask for the next page of the entries that are long due, once the last one is worked off."""
        with self._lock:
            start = watched.older_from
            if start is None or any(watched.under_way.values()) or any(is_old for is_old, _, _ in watched.line):
                return
        page = self._query(watched.job, start, end)
        with self._lock:
            watched.older_from = _last(page) if len(page) == _PAGE else None
        self._take(watched, page, is_old=True)

    def _query(self, job: Job, start: tuple[int, str] | int, end: int) -> list[tuple[str, object]]:
        database = self._database
        store, path = database.store, database.paths.schedules_of(job.name)
        if not isinstance(store, Querying):
            raise NoIndex(f"the store {store.name} has no `query`")
        found = store.query(path, "nextAt", database.deadline(), start=start, end=end, most=_PAGE)
        # The page before has ended with the first one of this page.
        return found[1:] if isinstance(start, tuple) and found and found[0][0] == start[1] else found

    def _read_all(self, watched: _StoredJob) -> None:
        """Read all entries by their keys, where the database has no index, but not often."""
        database, mono = self._database, self._database.timing.mono()
        if mono < watched.read_all_at:
            return
        store, path, start = database.store, database.paths.schedules_of(watched.job.name), ":"
        # The next reading is at the first beat after that time.
        ahead = _WITHOUT_INDEX + round(_AHEAD * database.settings.heartbeat * 1000)
        found: list[tuple[str, object]] = []
        odd: list[tuple[str, object]] = []
        try:
            now = database.clock.now(database.deadline()).server
            with self._lock:
                before = dict(watched.planned)
            while isinstance(store, Querying):
                page = store.query(path, "$key", database.deadline(), start=start, most=_PAGE)
                is_last, start = len(page) < _PAGE, page[-1][0] if page else start
                found += [one for one in page if _is_due(one[1], now + ahead)]
                odd += [one for one in page if _has_no_time(one[1])]
                if is_last:
                    break
        except StoreError as error:
            message = f'The stored schedules of "{watched.job.name}" can\'t be read: {error}'
            self._database.events.emit("schedules.failed", watched.job.name, logging.WARNING, message, why=str(error))
            return
        watched.read_all_at = mono + _WITHOUT_INDEX
        self._replan(watched, before, list(dict(found).items()), now, now + ahead)
        self._mend_all(watched, odd)

    def _mend_if_due(self, watched: _StoredJob) -> None:
        """Give entries without a time that a query finds a new one: a hand has changed them. As often as rounds are."""
        database, mono = self._database, self._database.timing.mono()
        store, path = database.store, database.paths.schedules_of(watched.job.name)
        if mono < watched.mends_at or not isinstance(store, Querying):
            return
        watched.mends_at = mono + database.settings.recovery_interval * 1000
        odd = store.query(path, "nextAt", database.deadline(), end=0, most=_PAGE)
        self._mend_all(watched, [*odd, *store.query(path, "nextAt", database.deadline(), start="", most=_PAGE)])

    def _mend_all(self, watched: _StoredJob, odd: list[tuple[str, object]]) -> None:
        """Mend these one after another, each as work of its own: there may be thousands, and runs come between."""
        with self._lock:
            is_busy = bool(watched.odd)  # with those of the last round
            if not is_busy:
                watched.odd.extend(child for child, node in odd if isinstance(node, dict))
            begins = bool(watched.odd) and not is_busy
        if begins:
            self.workers.submit(partial(self._mend_next, watched))

    def _mend_next(self, watched: _StoredJob) -> None:
        with self._lock:
            child = watched.odd.popleft() if watched.odd and not self._lanes.stopping else None
        if child is None:
            return
        try:
            after = self._writer.mend(watched.job, f"{watched.job.name}:{child.removeprefix(':')}")
            self._take(watched, [(child, after)], is_old=False)
            self.crew.submit(partial(self._feed, watched))
        finally:
            self._lanes.agenda.after(0.0, partial(self.workers.submit, partial(self._mend_next, watched)))

    def earliest(self, job: Job) -> int | None:
        """Return when the next entry of the job is to be looked at; None if there is none. For rehearsals."""
        store, path = self._database.store, self._database.paths.schedules_of(job.name)
        if not isinstance(store, Querying):
            return None
        found = store.query(path, "nextAt", self._database.deadline(), start=1, most=1)
        return number(_fields(found[0][1]).get("nextAt")) if found else None

    # --- the bell

    def _listen(self, watched: _StoredJob) -> None:
        """Hear of puts that are soon due. One stream has the bells of all jobs."""
        streams = self._database.streams
        if watched.is_listening or not streams.can_watch or self._lanes.stopping:
            return
        with self._lock:
            watched.is_listening = True
            follow = self._follow = self._follow or Follow(self._database.paths.bells, self._heard)
        streams.add(follow)
        self._heard()  # since the query, if the stream is open already

    def _heard(self) -> None:
        follow = self._follow
        update = None if follow is None else follow.fresh()
        if update is None:
            return
        mono, bells, ringing = self._database.timing.mono(), _fields(update.node), list[tuple[_StoredJob, float]]()
        with self._lock:
            for watched in self._watched.values():
                bell = number(bells.get(watched.job.name))
                if bell is None or bell <= watched.rung or not watched.until:
                    continue
                watched.rung = bell
                if not watched.is_ringing and self._is_news(watched):
                    watched.is_ringing = True
                    ringing.append((watched, max(0.0, watched.rings_at - mono) / 1000))
        for watched, seconds in ringing:
            self._lanes.agenda.after(seconds, partial(self.crew.submit, partial(self._ring, watched)))

    def _is_news(self, watched: _StoredJob) -> bool:
        """Return whether the last query may not have seen what the bell tells of."""
        return watched.until > 0 and watched.rung > watched.asked_at - self._database.margin

    def _ring(self, watched: _StoredJob) -> None:
        """Look again, for all bells up to now: those that come while the database answers need another look."""
        with self._lock:
            watched.is_ringing = False
            watched.rings_at = self._database.timing.mono() + _BETWEEN_RINGS
            is_news = self._is_news(watched)
        if is_news and not self._lanes.stopping:
            self._look(watched, fresh_only=True)  # no put is of what is long due

    def _unfollow(self) -> None:
        with self._lock:
            follow, self._follow = self._follow, None
        if follow is not None:
            self._database.streams.discard(follow)

    # --- what is due

    def _take(self, watched: _StoredJob, page: list[tuple[str, object]], *, is_old: bool) -> None:
        """Plan the entries of a page, each at its time."""
        clock = self._database.clock.peek()
        now = watched.asked_at if clock is None else clock.server
        for child, node in page:
            name, fields = f"{watched.job.name}:{child.removeprefix(':')}", _fields(node)
            at = number(fields.get("nextAt"))
            if at is not None and at <= watched.until:
                self._plan(watched, _Planned(name, fields, is_old), at + self._jitter(watched.job, name, at), now)

    def _plan(self, watched: _StoredJob, planned: _Planned, at: int, now: int) -> None:
        with self._lock:
            watched.planned[planned.name] = planned
            if at <= now:
                self._line_up(watched, planned)
                return
        self._lanes.agenda.at(at, partial(self._come, watched, planned))

    def _come(self, watched: _StoredJob, planned: _Planned) -> None:
        """The time of an entry has come: it stands in line. Another plan of it may have replaced this one."""
        with self._lock:
            if watched.planned.get(planned.name) is not planned:
                return
            self._line_up(watched, planned)
        self.crew.submit(partial(self._feed, watched))

    def _line_up(self, watched: _StoredJob, planned: _Planned) -> None:
        text = f"{planned.name} {planned.node.get('nextAt')} {self._database.identity.instance}"
        place = hashlib.blake2b(text.encode(), digest_size=8).digest()
        heapq.heappush(watched.line, (planned.is_old, place, planned.name))

    def _jitter(self, job: Job, name: str, at: int) -> int:
        """Return the delay of a tick: the same on every instance, so that it is no second chance for the next one."""
        if not job.options.jitter:
            return 0
        place = hashlib.blake2b(f"{name} {at}".encode(), digest_size=4).digest()
        return job.options.jitter * int.from_bytes(place, "big") // 2**32

    def _feed(self, watched: _StoredJob) -> None:
        """Look at the entries in line, while workers are free."""
        while (planned := self._next(watched)) is not None:
            try:
                self._look_at(watched, planned)
            except Exception as error:
                # An entry that can't be looked at hides no other.
                self._pass(watched, planned.name)
                message = f'The stored schedule "{planned.name}" could not be looked at: {error!r}'
                self._database.events.emit(
                    "schedules.failed", planned.name, logging.ERROR, message, error, why=repr(error)
                )

    def _next(self, watched: _StoredJob) -> _Planned | None:
        with self._lock:
            while watched.line and not self._lanes.stopping:
                is_old, _, name = watched.line[0]
                most = max(1, self._most // 2) if is_old else self._most
                if len(watched.under_way) >= most:
                    waits = len(watched.line)
                    break
                heapq.heappop(watched.line)
                planned = watched.planned.get(name)
                if planned is not None and name not in watched.under_way:
                    watched.under_way[name] = is_old
                    return planned
            else:
                return None
        if not is_old and not watched.is_crowded:
            watched.is_crowded = True
            message = (
                f'"{watched.job.name}" has {waits} more stored schedules due than this instance has free workers '
                f"({self._most}): let more instances look for them (lookers=), or raise FIRECRON_WORKERS"
            )
            self._say_once("schedules.crowded", watched.job.name, logging.WARNING, message, "crowded")
        return None

    def _look_at(self, watched: _StoredJob, planned: _Planned) -> None:
        job, name, clock = watched.job, planned.name, self._database.clock.peek()
        if clock is None or not self._registry.is_wanted(job) or self._lanes.is_busy(name):
            self._pass(watched, name)
            return
        found = evaluate(planned.node, job.options, clock.server, self._database.margin, watched.hold)
        self._carry_out(watched, planned, found)

    def _carry_out(self, watched: _StoredJob, planned: _Planned, found: Look) -> None:
        name = planned.name
        match found:
            case Attempted(due):
                self._attempt(watched, planned, due)
            case Written() | Deleted():
                self.workers.submit(partial(self._write, watched, name))
            case Later(at, problem):
                if problem is not None:
                    message = f'The stored schedule "{name}" can\'t be claimed: {problem}. Mend it, or delete it'
                    self._say_once("schedules.malformed", name, logging.ERROR, message, problem)
                self._pass(watched, name)
                if at <= watched.until and problem is None:
                    clock = self._database.clock.peek()
                    self._plan(watched, planned, max(at, (clock.server if clock else 0) + 1), 0)

    def _attempt(self, watched: _StoredJob, planned: _Planned, due: str | None) -> None:
        job, name = watched.job, planned.name
        try:
            entry = job.entry(name, planned.node)
        except (ConfigurationError, Malformed) as error:
            self._pass(watched, name)
            message = (
                f'This instance can\'t run "{name}", and leaves such schedules to those that can: {error}. '
                f"If none can: firecron schedules {job.name}"
            )
            # Once for all entries of the job: a revision may take other arguments than thousands of them have.
            self._say_once("schedules.malformed", job.name, logging.WARNING, message, "arguments")
            return
        attempt = self._lanes.attempt(entry, due, is_later=due is not None and job.options.asks_in_waves)
        self._lanes.stand(attempt)
        if attempt.lane.current is not attempt:
            self._pass(watched, name)  # it is over already, or was skipped: a run of it is under way here

    def attempted(self, attempt: Attempt) -> None:
        """Go on after a worker was at an attempt of an entry: it is over, or it waits without a worker."""
        name = attempt.job.name
        watched = self._watched.get(split_name(name)[0])
        if watched is None:
            return
        last = attempt.results[-1] if attempt.results else None
        is_lost = last is not None and last.refusal is not None and last.refusal.reason in _BY_ANOTHER
        with self._lock:
            is_fresh = not watched.under_way.get(name, False)
            watched.lost = watched.lost + 1 if is_lost else 0
            is_behind = watched.lost >= _LOST and bool(watched.line)
            if is_behind:
                watched.lost = 0
        self._plan_next(watched, attempt)
        if is_behind:
            self.crew.submit(partial(self._look, watched, fresh_only=is_fresh))
        if self._done(watched, name):
            self._go_on(watched)

    def _plan_next(self, watched: _StoredJob, attempt: Attempt) -> None:
        """Plan the next tick of an entry whose tick was claimed, if it comes before the next query."""
        planned, schedule = watched.planned.get(attempt.job.name), attempt.job.options.schedule
        seen = [result.run or result.refusal for result in attempt.results]
        slots = [to_milliseconds(one.slot) for one in seen if one is not None and one.slot is not None]
        if planned is None or not slots or not isinstance(schedule, Bounded):
            return
        at = schedule.tick_after(max(slots))
        if at is None or at > watched.until:
            return
        fields = {name: value for name, value in planned.node.items() if name in (*FIELDS, "args")}
        node = {**fields, "since": max(slots), "nextAt": at}
        clock = self._database.clock.peek()
        later = at + self._jitter(watched.job, planned.name, at)
        self._plan(watched, _Planned(planned.name, node), later, clock.server if clock else 0)

    def _done(self, watched: _StoredJob, name: str) -> bool:
        """An entry is not under way any more. Return whether there is room for another one."""
        with self._lock:
            is_old = watched.under_way.pop(name, None)
            return is_old is not None and (bool(watched.line) or (is_old and watched.older_from is not None))

    def _pass(self, watched: _StoredJob, name: str) -> None:
        """Leave an entry that needs no worker, in a row of such entries: the next one is not looked at below this."""
        if self._done(watched, name):
            self.crew.submit(partial(self._go_on, watched))

    def _go_on(self, watched: _StoredJob) -> None:
        """Look at what is next in line. A worker does so, too: the crew's thread may be waiting for a reply."""
        if watched.line:
            self._feed(watched)
        else:
            self.crew.submit(partial(self._turn_page, watched))

    def _turn_page(self, watched: _StoredJob) -> None:
        with suppress(StoreError):  # the next beat asks again
            self._ask_older(watched, watched.asked_at - watched.job.options.grace - 1)
        self._feed(watched)

    # --- what a look writes

    def _write(self, watched: _StoredJob, name: str) -> None:
        """Look at the node as it is now, and write or delete what the look says; then the history. Plan its next tick.

        So each tick of a paused job is passed over as it comes, and who resumes the job runs none from before.
        """
        try:
            node = self._writer.write(watched.job, name, watched.hold)
            at, clock = number(_fields(node).get("nextAt")), self._database.clock.peek()
            if node is not None and at is not None and clock is not None and clock.server < at <= watched.until:
                self._plan(watched, _Planned(name, node), at + self._jitter(watched.job, name, at), clock.server)
        finally:
            if self._done(watched, name):
                self._go_on(watched)

    def _say_once(self, slug: Slug, name: str, level: int, message: str, why: str) -> None:
        key = f"{slug} {name} {why}"
        level = logging.DEBUG if key in self._told else level
        self._told.put(key, None)
        self._database.events.emit(slug, name, level, message, why=why)


def _fields(node: object) -> Node:
    return node if isinstance(node, dict) else {}


def _is_due(node: object, until: int) -> bool:
    at = number(_fields(node).get("nextAt"))
    return at is not None and at <= until


def _has_no_time(node: object) -> bool:
    return (number(_fields(node).get("nextAt")) or 0) <= 0


def _last(page: list[tuple[str, object]]) -> tuple[int, str]:
    """Return where the next page begins: with the last entry of this one."""
    child, node = page[-1]
    return number(_fields(node).get("nextAt")) or 1, child
