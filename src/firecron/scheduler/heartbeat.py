"""The heartbeat: writes signs of life to `cron-instances/<id>`, one node a process, and makes the rounds of recovery.

The reply to each beat contains RTDB's time, so an instance that beats never has to ask for it. The same write shows
that the instance's group lives, in `cron-groups`, and takes a ticket from the group's counter (see `base/tickets`). If
the security rules refuse that, because they are older, the beat is sent again without the group.

The first beat in a group writes which jobs the group runs (`jobs/catalogue`). All instances of the group write the
same, so it doesn't matter which comes last. It is sent until a beat was written, and again if the counter went back:
then somebody has deleted the node. When the group was first seen is written by those that took its first tickets, each
with the time of its own first beat, in its second beat: only the reply to the first one has shown that they were among
the first. They are a few, so that the time is there although one of them dies. Theirs are seconds apart, and any of
them will do.

A round that is due follows a beat, and has to stop at the next beat. After a completed round the nodes of dead
instances are removed, and what is over for an hour: counters that no instance has used, mutes and holds. Rounds read
everything, so in a large group a beat makes a round, and removes nodes, by chance. An instance that finds that its
group has lost a third makes its round at once.

At the end the thread removes the instance's own node, so that a stop doesn't have to wait for it.
"""

from __future__ import annotations

import logging
import math
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from firecron.base.clocks import Deadline
from firecron.base.flag import in_each_process
from firecron.base.instants import number
from firecron.base.threads import Crew
from firecron.base.tickets import Tickets, group_of, has_fallen, odds_of_pruning, odds_of_round, place_of_tick
from firecron.cron.schedule import Schedule
from firecron.errors import Denied, StoreError, Unavailable
from firecron.jobs.catalogue import group_fields, read_groups
from firecron.jobs.job import Job
from firecron.jobs.registry import Registry
from firecron.leaders.leaders import Leaders
from firecron.lock.database import Database
from firecron.lock.fields import LEADER
from firecron.lock.refusal import PRUNED_BEATS, inspect_instances
from firecron.runs.lanes import Lanes
from firecron.runs.runner import Runner
from firecron.scheduler.asks import AskTaker
from firecron.scheduler.lateness import Lateness
from firecron.scheduler.lookers import Lookers
from firecron.scheduler.recovery import Recovery
from firecron.store import ONE_MORE, SERVER_TIME

# --- the group of this instance


@dataclass(frozen=True, slots=True)
class OwnGroup:
    """The group of an instance, and the jobs that it runs, by name.

    `takes_ticket` is False for an instance without a free worker: it would only delay a tick.
    """

    group: str
    jobs: dict[str, Job]
    takes_ticket: bool = True


NO_GROUP = OwnGroup("", {})


class InstanceGroup:
    """The group of this instance, and what its tickets say. The `lanes` go by the same tickets, under their lock."""

    def __init__(self, database: Database, registry: Registry, leaders: Leaders, crew: Crew, lanes: Lanes) -> None:
        self._database = database
        self.contenders = database.settings.contenders
        self._heartbeat = database.settings.heartbeat * 1000
        self._registry = registry
        self._leaders = leaders
        self._crew = crew
        self._lanes = lanes
        self._name = ""
        # What the group was last made of, and its name.
        self._named: tuple[object, str] = (None, "")

    def size(self) -> float | None:
        """Return the size of the group that this instance is in; None if it is not known."""
        return self._lanes.tickets.size(self._database.timing.mono())

    def rank(self, what: str) -> float | None:
        """Return how many instances come before this one for this work; None if the size of the group is not known."""
        size = self.size()
        return None if size is None else size * self._lanes.tickets.distance(place_of_tick(what, ""))

    def distance(self, name: str, what: str) -> float:
        """Return how far the last ticket is after the place of this, for the leader of this name."""
        return self._lanes.tickets.distance(place_of_tick(name, f"{LEADER} {what}"))

    def own(self) -> OwnGroup:
        """Return the group that the next beat belongs to."""
        all_jobs = self._registry.jobs()
        jobs = {job.name: job for job in all_jobs if self._registry.is_wanted(job)}
        of_what = jobs, self._leaders.members(), self._database.identity.service
        if of_what != self._named[0]:  # of ten thousand jobs the name takes longer than the beat
            self._named = of_what, self._name_of(*of_what)
        return OwnGroup(self._named[1], jobs, not self._crew.is_full)

    def _name_of(self, jobs: Mapping[str, Job], leaders: Sequence[tuple[str, ...]], service: str) -> str:
        members = [(name, *job.options.schedule.identity) for name, job in jobs.items()]
        return group_of([*members, *leaders], self._heartbeat, self.contenders, service)

    def observe_beat(self, own: OwnGroup | None, number: int | None, at: float) -> None:
        """Take the number that a beat has brought at this monotonic time, if any.

        Where all are to ask, the number counts for nothing.
        """
        own = own or NO_GROUP
        before = self._lanes.tickets if own.group == self._name else Tickets(self._heartbeat)
        self._name = own.group
        self._lanes.observe_tickets(before.take(number if self.contenders else None, at), own.jobs)


# --- what is said of the group

# How many instances say when their group was first seen.
_FOUNDERS = 3


@dataclass(frozen=True, slots=True)
class Membership:
    """What an instance knows of its group's node after its last beat.

    `number` is its last ticket there. `is_told` says that the group's jobs are in the node. `founded_at` is when the
    group was first seen, if this instance has still to say so.
    """

    group: str = ""
    number: int | None = None
    is_told: bool = False
    founded_at: int | None = None

    def fields(
        self, group: str, schedules: Mapping[str, Schedule], service: str, heartbeat: float
    ) -> dict[str, object]:
        """Return the fields that the next beat writes into the node of this group, given its jobs' schedules."""
        is_same = group == self.group
        told = {} if is_same and self.is_told else group_fields(schedules, service, heartbeat)
        founded = {"firstSeenAt": self.founded_at} if is_same and self.founded_at is not None else {}
        return {**told, **founded}

    def after(self, group: str, number: int | None, seen_at: int | None) -> Membership:
        """Return the membership after a beat that was written, with the ticket and the time in its reply."""
        before = self if group == self.group else Membership(group)
        if number is None:
            return replace(before, is_told=True, founded_at=None)
        is_first = before.number is None
        has_restarted = before.number is not None and number <= before.number
        is_founder = (is_first or has_restarted) and number <= _FOUNDERS
        return Membership(group, number, not has_restarted, seen_at if is_founder else None)


# --- the beats

_REMOVE_TIMEOUT = 1.0
# How late a beat may be, in heartbeats. Of instances that are frozen together a small part is not later than that.
_LATE = 0.05
# A counter that was not used for an hour belongs to no group any more. The security rules say the same. Mutes and holds
# that are over mean nothing, and stay as long to be looked at.
_FORGOTTEN = 3_600_000


class Heartbeat:
    """Beats from `start` to `leave`. Each beat writes the number of jobs and the number of runs under way.

    Chance chooses when the next beat comes after a first or a late one, and what a large group does.
    """

    def __init__(
        self,
        database: Database,
        registry: Registry,
        runner: Runner,
        recovery: Recovery,
        group: InstanceGroup,
        lateness: Lateness,
        asks: AskTaker,
        lookers: Lookers,
    ) -> None:
        self._database = database
        self._root = database.paths.instances
        self.chance = database.chance
        self._registry = registry
        self._runner = runner
        self._recovery = recovery
        self._group = group
        self._lateness = lateness
        self._asks = asks
        self._lookers = lookers
        self._beat_due = -math.inf
        # The largest size of the group since it was found to have lost a third.
        self._peak = 0.0
        # Until when no ticket is asked for, because the security rules have refused one.
        self._refused_until = 0.0
        # What the last work has failed of, and what this one has.
        self._before: set[str] = set()
        self._told: set[str] = set()
        in_each_process(self._begin_process)

    def _begin_process(self) -> None:
        """Take a node name of this process's own."""
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._at_work: set[threading.Thread] = set()
        self._random = secrets.token_hex(3)
        self._started_at: int | None = None
        self._membership = Membership()

    @property
    def id(self) -> str:
        """The name of this process's node below `cron-instances`."""
        return f"{self._database.identity.instance}-{self._random}"

    def start(self) -> None:
        with self._changed:
            self._beat_due = -math.inf
            self._thread = threading.Thread(target=self._run, name="firecron-heartbeat", daemon=True)
            self._thread.start()
            self._at_work.add(self._thread)

    def leave(self) -> None:
        """Stop beating. The thread removes the node and ends."""
        with self._changed:
            self._thread = None
            self._changed.notify_all()

    def wait(self, until: float) -> None:
        """Wait for the thread's end, but not longer than `until` on the monotonic clock."""
        with self._changed:
            while self._at_work and (left := until - self._database.timing.mono()) > 0:
                self._database.timing.wait(self._changed, left / 1000)

    def beat(self) -> bool:
        """Write a sign of life, and note RTDB's time and the ticket in the reply.

        Return whether the database responded at all.
        """
        fields: dict[str, object] = {
            "seenAt": SERVER_TIME,
            "startedAt": SERVER_TIME if self._started_at is None else self._started_at,
            "instanceId": self._database.identity.instance_id,
            "jobs": len(self._registry.jobs()),
            "running": sum(self._runner.running().values()),
        }
        own_group = self._group.own() if self._database.timing.mono() >= self._refused_until else None
        try:
            try:
                self._write(fields, own_group)
            except Denied as error:
                if own_group is None:
                    raise
                self._write(fields, None)
                self._do_without_ticket(error)
        except StoreError as error:
            self._group.observe_beat(None, None, self._database.timing.mono())
            self._complain(error)
            return not isinstance(error, Unavailable)
        return True

    def _write(self, fields: dict[str, object], own_group: OwnGroup | None) -> None:
        """Write the fields, and take the ticket in the same write. Raise StoreError."""
        node = f"{self._root}/{self.id}"
        sent = self._database.timing.mono()
        if own_group is None:
            stored: object = self._database.store.merge(node, fields, self._database.deadline())
            ticket = None
        else:
            here, group = map(self._database.paths.relative, (node, f"{self._database.paths.groups}/{own_group.group}"))
            values = {here: fields, **{f"{group}/{name}": value for name, value in self._of_group(own_group).items()}}
            answered = self._database.store.merge(self._database.paths.prefix, values, self._database.deadline())
            stored, ticket = answered[here], number(answered.get(f"{group}/beats"))
        received = self._database.timing.mono()
        seen_at = stored.get("seenAt") if isinstance(stored, dict) else None
        if isinstance(seen_at, int):
            self._database.clock.observe(seen_at, sent, received)
            self._started_at = self._started_at or seen_at
        if own_group is not None:
            self._membership = self._membership.after(own_group.group, ticket, number(seen_at))
        # The ticket was given at some time in between.
        self._group.observe_beat(own_group, ticket, (sent + received) / 2)

    def _of_group(self, own_group: OwnGroup) -> dict[str, object]:
        """Return what a beat writes into the node of its group."""
        schedules = {name: job.options.schedule for name, job in own_group.jobs.items()}
        service, heartbeat = self._database.identity.service, self._database.settings.heartbeat
        told = self._membership.fields(own_group.group, schedules, service, heartbeat)
        return {**told, "seenAt": SERVER_TIME, **({"beats": ONE_MORE} if own_group.takes_ticket else {})}

    def prune(self, deadline: Deadline) -> None:
        """Observe the signs of life, and remove the nodes of instances not seen for ten beats.

        Raise StoreError.
        """
        now = self._database.clock.peek()
        nodes = self._database.store.read(self._root, deadline).node
        if now is None:
            return
        self._database.signs_of_life.observe(inspect_instances(nodes, self._database.settings.heartbeat), now.server)
        limit = now.server - PRUNED_BEATS * self._database.settings.heartbeat * 1000
        dead = [key for key in _unseen(nodes, limit) if key != self.id]
        if dead:
            self._database.store.merge(self._root, dict.fromkeys(dead), deadline)
        forgotten = now.server - _FORGOTTEN - self._database.margin
        self._prune_groups(forgotten, deadline)
        for path in (self._database.paths.mutes, self._database.paths.holds):
            self._prune_over(path, forgotten, deadline)

    def work(self) -> None:
        """Beat once, make a round of recovery if one is due, and have late jobs and asks looked for."""
        self._before, self._told = self._told, set()
        now, heartbeat = self._database.timing.mono(), self._database.settings.heartbeat * 1000
        # Instances that have started together, or were frozen together, need not beat together. Else the order of their
        # beats, which is another one each time, would decide what size each of them finds.
        is_spread = self._started_at is None or now - self._beat_due > _LATE * heartbeat
        part = 0.5 + 0.5 * self.chance() if is_spread and self._database.settings.contenders else 1.0
        self._beat_due = now + part * heartbeat
        # Without the database a round finds nothing. The next beat may reach it again.
        if not self.beat():
            return
        if self._registry.jobs(stored=True):
            self._lookers.beat()
        self._lateness.look_if_due()
        self._asks.look_if_due()
        begins, prunes = self._choose()
        try:
            is_complete = self._recovery.make_if_due(self._beat_due, begins)
        except StoreError as error:
            self._complain(error, "the look for died runs and missed ticks goes on at the next beat: ")
            return
        if not (is_complete if prunes is None else prunes):
            return
        try:
            self.prune(self._database.deadline().within(max(0.0, self._beat_due - self._database.timing.mono()) / 1000))
        except StoreError as error:
            self._complain(error, "the nodes of dead instances could not be removed: ")

    def work_if_due(self) -> float:
        """Call `work` if it is due, without a thread. Return the seconds until it is due again."""
        if self._database.timing.mono() >= self._beat_due:
            self.work()
        return max(0.0, self._beat_due - self._database.timing.mono()) / 1000

    def _run(self) -> None:
        me = threading.current_thread()
        try:
            while self._thread is me:
                self._work_guarded()
                with self._changed:
                    # Wait until the next beat is due. A long round doesn't delay it.
                    while self._thread is me and (left := self._beat_due - self._database.timing.mono()) > 0:
                        self._database.timing.wait(self._changed, left / 1000)
            self._remove()
        finally:
            with self._changed:
                self._at_work.discard(me)
                self._changed.notify_all()

    def _work_guarded(self) -> None:
        try:
            self.work()
        except Exception as error:
            # No error may end the heartbeat and the rounds silently.
            self._complain(error)

    def _remove(self) -> None:
        if self._thread is not None:
            return  # the heartbeat was started again, and another thread beats for the node
        try:
            self._database.store.merge(self._root, {self.id: None}, self._database.deadline(_REMOVE_TIMEOUT))
        except Exception as error:
            self._complain(error, "the instance's own node could not be removed: ")

    def _choose(self) -> tuple[bool | None, bool | None]:
        """Return whether to make a round and whether to remove dead instances; None where the clock decides that."""
        settings, chance, size = self._database.settings, self.chance, self._group.size()
        heartbeat, interval = settings.heartbeat, settings.recovery_interval
        odds = odds_of_round(size, heartbeat, interval)
        if size is None or odds is None:
            return None, None
        self._peak = max(self._peak, size)
        fallen = has_fallen(self._peak, size)
        if fallen:
            self._peak = size
        return fallen or chance() < odds, chance() < odds_of_pruning(size, heartbeat, interval)

    def _do_without_ticket(self, error: Denied) -> None:
        """Ask for no ticket until the next interval begins: each refusal costs a request."""
        is_first = not self._refused_until
        self._refused_until = self._database.timing.mono() + self._database.settings.recovery_interval * 1000
        if is_first:
            message = (
                "The security rules refuse the heartbeat its ticket, so this instance asks for every tick, however "
                "large the fleet is, and nobody sees which jobs it runs: deploy the rules that `firecron rules` "
                f"prints. {error}"
            )
            self._database.events.emit("heartbeat.no_ticket", "heartbeat", logging.WARNING, message, why=str(error))

    def _prune_groups(self, limit: float, deadline: Deadline) -> None:
        """Remove the counters that were last used before this time. Raise StoreError."""
        try:
            seen = groups_seen(self._database, lambda: deadline)
            unused = [group for group, at in seen.items() if (at or 0) < limit]
            if unused:
                self._database.store.merge(self._database.paths.groups, dict.fromkeys(unused), deadline)
        except Denied:
            pass  # the rules are older than the counters: the beat says so

    def _prune_over(self, path: str, limit: float, deadline: Deadline) -> None:
        """Remove what operators have said below this path and was over before this time. Raise StoreError.

        What is said anew at the same time stays: each node is deleted only as it was read.
        """
        store = self._database.store
        try:
            nodes = store.read(path, deadline).node
            for name, node in nodes.items() if isinstance(nodes, dict) else ():
                if _is_over(node, limit):
                    found = store.read(f"{path}/{name}", deadline)
                    if _is_over(found.node, limit):
                        store.swap(f"{path}/{name}", found.etag, None, deadline)
        except Denied:
            pass  # the rules are older than that: whoever says it hears of it

    def _complain(self, error: Exception, what: str = "") -> None:
        """Emit that something failed: as a WARNING, unless another event has its cause already.

        That is so if the last work or this one has failed for the same cause. Before RTDB's time is known, the ticker
        emits the WARNING.
        """
        cause = str(error) if isinstance(error, StoreError) else repr(error)
        is_news = self._database.clock.peek() is not None and cause not in self._before | self._told
        self._told.add(cause)
        level = logging.WARNING if is_news else logging.DEBUG
        message = f"The heartbeat of this instance failed: {what}{cause}"
        self._database.events.emit("heartbeat.failed", "heartbeat", level, message, why=f"{what}{cause}")


# Up to this many groups are read one by one: a group of 10,000 jobs has 130 kB, and its last sign of life 13 bytes.
_FEW_GROUPS = 50


def groups_seen(database: Database, deadline: Callable[[], Deadline]) -> dict[str, int | None]:
    """Return when each group was last seen; None where its node doesn't say. Raise StoreError.

    `deadline` makes the deadline of a request.
    """
    store, groups = database.store, database.paths.groups
    names = store.keys(groups, deadline())
    if len(names) > _FEW_GROUPS:
        nodes = store.read(groups, deadline()).node
        return {group.name: group.seen_at for group in read_groups(nodes)}
    return {name: number(store.read(f"{groups}/{name}/seenAt", deadline()).node) for name in names}


def _unseen(nodes: object, limit: float) -> list[str]:
    """Return the names of the nodes that were last seen before this time."""
    return [key for key, node in nodes.items() if _seen_at(node) < limit] if isinstance(nodes, dict) else []


def _is_over(node: object, limit: float) -> bool:
    until = number(node.get("until")) if isinstance(node, dict) else None
    return until is not None and until < limit


def _seen_at(node: object) -> float:
    seen_at = node.get("seenAt") if isinstance(node, dict) else None
    return seen_at if isinstance(seen_at, int | float) else 0.0
