"""What happens to the entries of a stored job, and what an oracle has seen of it. It takes nothing from the engine.

1   no (entry, slot) begins twice, also over remove and put: a claim takes a tick of the schedule that the node has
    then, later than `since` and `slot`, of an entry that is open, not paused, free and readable. Fences rise
1   a body has a claim of its own, and the arguments that the node had then; no two bodies both trust their lease
1   once `remove` has returned no tick of that entry is claimed until a put. If it said that no run is under way,
    none begins either
1   what holds an entry is not written over, what can't be read is not touched, and only what is closed is deleted
2   each write says when to look: a run that holds the entry at its expiry and a margin, else at the next tick
2   what is due is looked at within two heartbeats of a healthy looker, whatever other entries hold
2   an `at` runs once, or is closed as missed with the reason in the node
2   each slot has one outcome in the history, which is true
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

from tests.simulation.fleets.bodies import Failure
from tests.simulation.fleets.database import ENTRIES, LOCKS, Database, brief
from tests.simulation.fleets.instance import Instance
from tests.simulation.fleets.oracle import Oracle
from tests.simulation.fleets.scenario import Scenario
from tests.simulation.fleets.timeline import Timeline, at
from tests.simulation.fleets.times import number, server_time, slot_at, time_of
from tests.simulation.greenlets import Scheduler
from tests.simulation.machines import FOREVER, MILLISECOND, SECOND, Machine
from tests.simulation.stand_ins import EPOCH

from firecron.jobs.run import Run

JOB = "remind"
MARGIN = 1_000
_LOCK = ("expiresAt", "releasedAt", "holder", "acquiredAt", "slot", "fence", "attempt", "unfinished", "outcome")
_SCHEDULE = ("line", "timezone", "every", "starting", "at", "until")
# An instance that doesn't know how many there are waits for up to two seconds.
_SPREAD = 2.0
# How long after a run, or a look, its entry may still be on its way.
_SOON = 15 * SECOND

Node = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the stored job, and what of the settings counts here. Durations are seconds."""

    grace: float
    waits: bool
    reruns: bool
    lookers: int
    heartbeat: float
    recovery: float


@dataclass(eq=False)
class EntryClaim:
    """A write that took an entry: at a true time, for a slot."""

    at: int
    machine: str
    slot: str
    attempt: int
    fence: int
    args: object
    body: EntryBody | None = None
    # Whether an operator has unlocked it since, or edited its record: then another one may hold the entry as well.
    is_meddled_with: bool = False


@dataclass(eq=False)
class EntryBody:
    """A call of the job's function."""

    run: Run
    key: str
    machine: str
    slot: str
    begun: int
    calls: int = 1
    trusted: int | None = None
    ended: int | None = None
    error: BaseException | None = None


@dataclass
class Removal:
    """A `remove` from its beginning until it has returned whether a run is under way."""

    begun: int
    returned: int = FOREVER
    is_running: bool = False


@dataclass
class EntryHistory:
    """What really happened to one entry: its node after each write, from the first one on."""

    key: str
    states: list[tuple[int, Node]] = field(default_factory=list)
    claims: list[EntryClaim] = field(default_factory=list)
    bodies: list[EntryBody] = field(default_factory=list)
    removals: list[Removal] = field(default_factory=list)
    # When a put, or a hand, has written it.
    opened: list[int] = field(default_factory=list)
    fence: int = 0

    def between(self, start: int, end: int) -> Iterator[Node]:
        """Yield what the node was at some time from `start` to `end`."""
        for (since, node), (until, _) in pairwise([*self.states, (FOREVER, {})]):
            if since <= end and until > start:
                yield node


def ticks_of(node: Node, start: int, end: int) -> list[int]:
    """Return the ticks from `start` to `end`, both included, in milliseconds, of the schedule that a node has."""
    if node.get("until") is not None:
        end = min(end, _instant(node["until"]))
    if node.get("at") is not None:
        return [tick for tick in (_instant(node["at"]),) if start <= tick <= end]
    step, first = _step(node), _instant(node["starting"]) if "starting" in node else 0
    begin = max(first, first + -(-(start - first) // step) * step)
    return list(range(begin, end + 1, step))


def tick_after(node: Node, instant: int) -> int | None:
    """Return the first tick after an instant, in milliseconds; None if there is none."""
    horizon = _instant(node["at"]) if "at" in node else max(instant, _starting(node)) + _step(node)
    return next(iter(ticks_of(node, instant + 1, horizon)), None)


def _starting(node: Node) -> int:
    return _instant(node["starting"]) if "starting" in node else 0


def _step(node: Node) -> int:
    if "every" in node:
        return number(node["every"]) * 1_000
    line = str(node["line"])
    return 60_000 if line == "* * * * *" else int(line.split(maxsplit=1)[0].removeprefix("*/")) * 1_000


def _instant(text: object) -> int:
    return round(datetime.fromisoformat(str(text)).timestamp() * 1_000)


def has_schedule(node: Node) -> bool:
    """Return whether an entry can be read: its schedule is one of those that this world puts, with arguments."""
    args = node.get("args")
    is_line = node.get("line") is None or str(node["line"]).startswith("*")
    return any(node.get(name) is not None for name in ("line", "every", "at")) and is_line and (
        args is None or str(args).startswith("{")
    )  # fmt: skip


def is_open(node: Node) -> bool:
    return bool(node) and node.get("closed") is None and has_schedule(node) and not is_odd(node)


def is_odd(node: Node) -> bool:
    """Return whether a hand has left a record that can't be read."""
    return isinstance(node.get("expiresAt"), str)


def is_paused(node: Node, now: int) -> bool:
    until = node.get("pausedUntil")
    return node.get("paused") not in (None, False) and not (isinstance(until, int) and now + MARGIN >= until)


def is_held(node: Node, now: int, margin: int = MARGIN) -> bool:
    """Return whether the record says, at a time of the database, that a run holds the entry."""
    return (
        node.get("holder") is not None
        and node.get("releasedAt") is None
        and number(node.get("expiresAt")) + margin > now
    )


def _floor(node: Node) -> int:
    claimed = _instant(node["slot"]) if node.get("slot") is not None else 0
    return max(claimed, number(node.get("since")), number(node.get("passed")))


class EntryBook:
    """Watches the entries of one run, and judges them."""

    def __init__(self, scheduler: Scheduler, timeline: Timeline, oracle: Oracle, options: Options) -> None:
        self._scheduler = scheduler
        self._timeline = timeline
        self._oracle = oracle
        self._options = options
        self.entries: dict[str, EntryHistory] = {}
        self._bodies: dict[int, EntryBody] = {}
        # When the job itself was paused, and resumed.
        self.job: list[tuple[int, Node]] = [(0, {})]
        self.written: dict[str, list[tuple[int, Node]]] = {}

    # --- what the database does

    def watch(self, path: str, before: object, after: object, machine: Machine | None) -> None:
        """A write has changed a node."""
        old, new = (node if isinstance(node, dict) else {} for node in (before, after))
        now = self._scheduler.now
        if path == f"{LOCKS}{JOB}":
            self.job.append((now, new))
        elif path.startswith(f"cron-runs/{JOB}/"):
            self.written.setdefault(path.split("/")[2], []).append((now, new))
        elif path.startswith(f"{ENTRIES}{JOB}/"):
            key = path.split("/")[2].removeprefix(":")
            entry = self.entries.setdefault(key, EntryHistory(key))
            self._wrote(entry, old, new, machine)
            entry.states.append((now, new))
            self._timeline.say("DATABASE", "{} of {}: {}", key, machine.name if machine else "the console", _Brief(new))

    def _wrote(self, entry: EntryHistory, old: Node, new: Node, machine: Machine | None) -> None:
        now, changed = self._scheduler.now, {key for key in {*old, *new} if old.get(key) != new.get(key)}
        was_put = is_open(new) and (not is_open(old) or changed & {*_SCHEDULE, "args", "since"})
        if machine is None or was_put:
            entry.opened.append(now)
        if changed & {*_LOCK} and (machine is None or new.get("expiresAt") == 0):
            for claim in entry.claims:
                claim.is_meddled_with = True
        if machine is None:
            return
        says = f"{machine.name} writes {entry.key}"
        is_claim = any(new.get(key) not in (None, old.get(key)) for key in ("holder", "acquiredAt"))
        if is_odd(old) and changed & {*_LOCK}:
            self._violated("1", "{}, whose record can't be read: {}", says, sorted(changed))
        if not new:
            closed = number(old.get("closedAt")) + 3_600_000
            if old.get("closed") is None or closed > server_time(now) + MARGIN or is_held(old, server_time(now), 0):
                self._violated("1", "{} and deletes it: {}", says, _Brief(old))
        elif is_claim:
            self._claimed(entry, old, new, machine)
        elif changed & {*_LOCK} and new.get("expiresAt") != 0:
            last = entry.claims[-1] if entry.claims else None
            is_own = last is not None and last.machine == machine.name
            if not is_own and is_held(old, server_time(now) + MARGIN):
                self._violated("1", "{}, and {} holds it: {}", says, last and last.machine, sorted(changed))
            if old.get("releasedAt") is not None and changed & {*_LOCK} - {"unfinished"}:
                self._violated("1", "{} after its release: {}", says, sorted(changed))
        if number(old.get("since")) > number(new.get("since")) and new:
            self._violated("1", "{}, and its since falls", says)
        if was_put and not is_open(old) and number(new.get("since")) < self._least_since(entry, old):
            self._violated("1", "{}, and ticks count from {}: {}", says, new.get("since"), _Brief(old))
        self._check_next(entry, old, new, machine, says)

    def _least_since(self, entry: EntryHistory, old: Node) -> int:
        """Return from when ticks count after a put on what was closed, or deleted: from no tick that may have run."""
        if old:
            return number(old.get("closedAt")) if old.get("closed") is not None else 0
        return max((_instant(claim.slot) for claim in entry.claims), default=0)

    def _claimed(self, entry: EntryHistory, old: Node, new: Node, machine: Machine) -> None:
        now, key, since = self._scheduler.now, entry.key, number(old.get("since"))
        slot, fence = str(new.get("unfinished") or new.get("slot")), number(new.get("fence"))
        claim = EntryClaim(now, machine.name, slot, number(new.get("attempt")), fence, old.get("args"))
        says = f"{machine.name} claims {slot} of {key}"
        if not is_open(old):
            self._violated("1", "{}, which is not open: {}", says, _Brief(old))
        else:
            instant = _instant(slot)
            is_rerun = slot == old.get("unfinished")
            if instant <= since:
                self._violated("1", "{}, and ticks count from {}", says, since)
            if not is_rerun and instant not in ticks_of(old, instant, instant):
                self._violated("1", "{}, which is no tick of it: {}", says, _Brief(old))
            if not is_rerun and slot <= str(old.get("slot") or ""):
                self._violated("1", "{}, and {} is claimed", says, old.get("slot"))
            if instant > server_time(now) + MARGIN + 1_000:
                self._violated("1", "{} too early", says)
        if is_paused(old, server_time(now)):
            self._violated("1", "{}, which is paused", says)
        if is_held(old, server_time(now) + MARGIN):
            self._violated("1", "{} although it is held", says)
        if fence <= entry.fence:
            self._violated("1", "{}, and its fence falls from {} to {}", says, entry.fence, fence)
        if claim.attempt > 3:
            self._violated("1", "{} for the {}th time", says, claim.attempt)
        for removal in entry.removals:
            if removal.returned < now and not any(at >= removal.begun for at in entry.opened):
                self._violated("1", "{}, which is removed since {}", says, at(removal.returned))
        entry.fence = max(entry.fence, fence)
        entry.claims.append(claim)

    def _check_next(self, entry: EntryHistory, old: Node, new: Node, machine: Machine, says: str) -> None:
        """A write of the library says when to look."""
        if not new or is_odd(new) or is_odd(old):
            return
        look, last = new.get("nextAt"), entry.claims[-1] if entry.claims else None
        if not isinstance(look, int) or look <= 0:
            if old.get("nextAt") != look or not machine.name.startswith("ops"):
                self._violated("2", "{} and doesn't say when to look: {}", says, look)
            return
        now, before = server_time(self._scheduler.now), old.get("nextAt")
        is_put = any(old.get(name) != new.get(name) for name in (*_SCHEDULE, "args", "since"))
        is_busy = old.get("unfinished") is not None and is_open(old) and is_open(new)
        if is_put and is_busy and isinstance(before, int) and look > max(before, 1):
            self._violated("2", "{} while a run has not ended, and puts the look off to {}", says, look)
        if not is_open(new) or is_paused(new, now) or last is None or last.machine != machine.name:
            return
        tick, expires = tick_after(new, _floor(new)), number(new.get("expiresAt"))
        if new.get("holder") is None:
            return  # a hand has deleted it, and it was put again (seed 4000574)
        if new.get("releasedAt") is None:
            free = expires + MARGIN
            wanted = min(free, tick) if self._options.waits and tick is not None else free
            if look != wanted:
                self._violated("2", "{} and looks at {} instead of {}", says, look, wanted)
        elif tick is not None and look > max(tick, expires):
            self._violated("2", "{} and looks at {}, after its tick at {}", says, look, tick)

    # --- what operators are told

    def removing(self, key: str) -> Removal:
        """Somebody removes an entry."""
        removal = Removal(self._scheduler.now)
        self.entries.setdefault(key, EntryHistory(key)).removals.append(removal)
        return removal

    def removed(self, key: str, removal: Removal, *, is_running: bool) -> None:
        """`remove` has returned."""
        removal.returned, removal.is_running = self._scheduler.now, is_running
        entry = self.entries[key]
        node = entry.states[-1][1] if entry.states else {}
        if node and node.get("closed") is None and not any(at >= removal.begun for at in entry.opened):
            self._violated("1", "{} was removed, and is open: {}", key, _Brief(node))

    # --- what the bodies do

    def begins(self, run: Run, machine: Machine, mark: str) -> EntryBody:
        """The function is called."""
        now, key = self._scheduler.now, run.name.partition(":")[2]
        slot = "" if run.slot is None else f"{run.slot:%Y-%m-%dT%H:%M:%SZ}"
        self._timeline.say(machine.name, "body of {} {} begins: {}", run.name, slot, run)
        again = self._bodies.get(id(run))
        if again is not None:
            again.calls += 1
            return again
        body = self._bodies[id(run)] = EntryBody(run, key, machine.name, slot, now)
        entry = self.entries[key]
        says = f"{machine.name} begins {slot} of {key}"
        claim = next((one for one in entry.claims if (one.fence, one.machine) == (run.fence, machine.name)), None)
        if claim is None or (claim.slot, claim.attempt) != (slot, run.attempt):
            self._violated("1", "{} without a claim of it: {}", says, claim)
        else:
            if claim.body is not None:
                self._violated("1", "{} again, without another claim", says)
            if claim.args != (f'{{"mark":"{mark}"}}' if mark else None):
                self._violated("1", "{} with {!r}, and it was claimed with {}", says, mark, claim.args)
            for removal in entry.removals:
                if not removal.is_running and claim.at < removal.begun and removal.returned < now:
                    self._violated("1", "{}, although it was removed at {}", says, at(removal.returned))
            claim.body = body
        for other in entry.bodies:
            is_again = other.slot == slot and (not self._options.reruns or other.run.attempt >= run.attempt)
            if is_again:
                self._violated("1", "{}, which {} has begun at {}", says, other.machine, at(other.begun))
        entry.bodies.append(body)
        return body

    def looks(self, body: EntryBody, when: int, *, is_lost: bool) -> None:
        """A body has looked at its lease."""
        if not is_lost:
            body.trusted = when

    def ends(self, body: EntryBody, error: BaseException | None) -> None:
        """The function returns, or raises."""
        if not self._scheduler.is_closing:
            body.ended, body.error = self._scheduler.now, error
            self._timeline.say(body.machine, "body of {} {} ends: {!r}", body.key, body.slot, error)

    # --- at the end

    def judge(self, scenario: Scenario, instances: Mapping[str, Instance], database: Database) -> None:
        """Add what was wrong as a whole."""
        health = Health(scenario, instances, self._options)
        found = database.store.get(f"cron-runs/{JOB}")
        history = found if isinstance(found, dict) else {}
        for entry in self.entries.values():
            self._check_trust(entry)
            self._check_due(entry, scenario, health)
            self._check_mended(entry, scenario, health)
            self._check_once(entry, scenario, health)
            self._check_outcomes(entry, history, health)
        self._check_paused(health)

    def _check_trust(self, entry: EntryHistory) -> None:
        meddled = {id(claim.body) for claim in entry.claims if claim.is_meddled_with}
        for body, later in pairwise(sorted(entry.bodies, key=lambda one: one.begun)):
            if id(body) in meddled:
                continue
            if body.trusted is not None and later.trusted is not None and body.trusted >= later.begun:
                self._violated("1", "{} and {} both trusted their lease", body.run, later.run)

    def _check_due(self, entry: EntryHistory, scenario: Scenario, health: Health) -> None:
        """Each tick that was due was looked at, if a looker was well, and nothing kept it from that."""
        patience = health.patience
        for (since, node), (until, _) in pairwise([*entry.states, (scenario.ends, {})]):
            if not is_open(node) or until > scenario.ends:
                continue
            for tick in ticks_of(node, max(server_time(since), number(node.get("since"))) + 1, server_time(until)):
                time = tick * MILLISECOND - EPOCH
                ends = time + patience
                if ends >= scenario.ends or not health.is_well(time, ends):
                    continue
                if any(self._excuses(node, one, tick, ends) for one in entry.between(time, ends)):
                    continue
                if self._is_job_paused(time - patience, ends):
                    continue
                if not any(_floor(one) >= tick or one.get("closed") is not None for one in entry.between(time, ends)):
                    self._violated(
                        "2", "nobody looks at {} of {} until {}: {}", tick, entry.key, at(ends), _Brief(node)
                    )  # fmt: skip
                    return

    def _check_mended(self, entry: EntryHistory, scenario: Scenario, health: Health) -> None:
        """What a hand has left without a time that a query finds gets one with the next round."""
        for (since, node), (until, _) in pairwise([*entry.states, (scenario.ends, {})]):
            look = node.get("nextAt")
            ends = since + int(self._options.recovery * SECOND) + health.patience
            is_lost = bool(node) and not is_odd(node) and (not isinstance(look, int) or look is True or look <= 0)
            if is_lost and until > ends and ends < scenario.ends and health.is_well(since, ends):
                self._violated("2", "nobody mends {} until {}: it is looked at {!r}", entry.key, at(ends), look)
                return

    def _excuses(self, of: Node, node: Node, tick: int, ends: int) -> bool:
        """Return whether this state of an entry keeps a tick from being looked at in time."""
        until = server_time(ends)
        look = node.get("nextAt")
        is_same = all(of.get(name) == node.get(name) for name in (*_SCHEDULE, "since"))
        is_meant = isinstance(look, int) and 0 < look <= max(tick, number(node.get("expiresAt")) + MARGIN)
        is_done = _floor(node) >= tick or node.get("closed") is not None
        held_until = number(node.get("expiresAt")) + MARGIN
        is_free = not is_held(node, tick) or held_until < tick
        if is_done:
            return False
        return not is_same or not is_open(node) or not is_meant or not is_free or is_paused(node, tick) or (
            is_paused(node, until)
        )  # fmt: skip

    def _is_job_paused(self, start: int, end: int) -> bool:
        spans = pairwise([*self.job, (FOREVER, {})])
        return any(
            since <= end and until > start and is_paused(node, server_time(max(since, start)))
            for (since, node), (until, _) in spans
        )

    def _check_paused(self, health: Health) -> None:
        """The pause of the job holds a heartbeat later at most, on a machine that is well."""
        beat = int((self._options.heartbeat + _SPREAD + 3.0) * SECOND) + health.slack
        for entry in self.entries.values():
            for claim in entry.claims:
                since = next(
                    (begun for (begun, node), (until, _) in pairwise([*self.job, (FOREVER, {})])
                     if is_paused(node, server_time(claim.at)) and begun <= claim.at < until),
                    FOREVER,
                )  # fmt: skip
                # What waits for the run before it was under way as the pause came.
                may_wait = self._options.waits and time_of(claim.slot) <= since + beat
                if claim.at > since + beat and not may_wait and health.is_sound(claim.machine, since - _SOON, claim.at):
                    self._violated(
                        "1", "{} claims {}, and the job is paused since {}", claim.machine, claim.slot, at(since)
                    )

    def _check_once(self, entry: EntryHistory, scenario: Scenario, health: Health) -> None:
        """The only tick of an `at` was claimed, or the node says why it was missed."""
        since, node = entry.states[-1] if entry.states else (0, {})
        if node.get("at") is None or not has_schedule(node) or is_odd(node):
            return
        tick = _instant(node["at"])
        over = max(tick * MILLISECOND - EPOCH + int(self._options.grace * SECOND), since) + 2 * health.patience
        is_claimed = node.get("slot") == node["at"]
        is_missed = node.get("closed") == "missed" and bool(node.get("closedWhy"))
        if is_claimed or is_missed or tick <= number(node.get("since")) or over > scenario.ends:
            return
        is_kept = is_paused(node, tick) or self._is_job_paused(over - 2 * health.patience, over)
        if not is_kept and node.get("closed") is None and health.is_well(over - health.patience, over):
            self._violated("2", "the only tick of {} neither ran nor was missed: {}", entry.key, _Brief(node))
        elif node.get("closed") is not None:
            self._violated("2", "{} is closed without a word on its only tick: {}", entry.key, _Brief(node))

    def _check_outcomes(self, entry: EntryHistory, history: Mapping[str, object], health: Health) -> None:
        """What the history says of each slot is true, and what must be there is there."""
        own = {
            key.removesuffix(f":{entry.key}"): node for key, node in history.items() if key.endswith(f":{entry.key}")
        }
        for body in entry.bodies:
            if body.ended is None or not health.is_sound(body.machine, body.begun - SECOND, body.ended + _SOON):
                continue
            found = own.get(body.slot)
            outcome = found.get("outcome") if isinstance(found, dict) else None
            later = [one for one in entry.claims if one.slot == body.slot and one.attempt > body.run.attempt]
            wanted = "succeeded" if body.error is None else "failed" if isinstance(body.error, Failure) else None
            if found is None:
                self._violated("2", "the history lacks {} of {}", body.slot, entry.key)
            elif wanted is not None and outcome not in (wanted, "lost") and not later:
                self._violated("2", "the history says of {} of {} {}: it {}", body.slot, entry.key, outcome, wanted)
        begun = {body.slot for body in entry.bodies}
        for slot, node in own.items():
            outcome = node.get("outcome") if isinstance(node, dict) else None
            if outcome in ("succeeded", "failed") and slot not in begun:
                self._violated("2", "the history says that {} of {} {}, and it never began", slot, entry.key, outcome)
        if any(isinstance(node, dict) and number(node.get("count")) > 1 for node in own.values()):
            return
        for (_, old), (when, new) in pairwise(entry.states):
            self._check_passed(entry, old, new, when, own, health)

    def _check_passed(
        self, entry: EntryHistory, old: Node, new: Node, when: int, own: Mapping[str, object], health: Health
    ) -> None:
        """What a look has passed over has an entry, if whoever looked was well."""
        passed = number(new.get("passed"))
        if passed <= number(old.get("passed")) or not is_open(old) or not has_schedule(new):
            return
        if any(old.get(name) != new.get(name) for name in (*_SCHEDULE, "since")):
            return
        if not health.are_all_sound(when - SECOND, when + _SOON):
            return
        for tick in ticks_of(old, _floor(old) + 1, passed):
            if (slot := slot_at(tick * MILLISECOND - EPOCH)) not in own:
                self._violated("2", "the history doesn't say what became of {} of {}", slot, entry.key)

    def _violated(self, rule: str, form: str, *values: object) -> None:
        self._oracle.violated(rule, form, *values)


class Health:
    """Which machines were well when, by the world's own faults."""

    def __init__(self, scenario: Scenario, instances: Mapping[str, Instance], options: Options) -> None:
        self._instances = instances
        self._options = options
        self.slack = 12 * scenario.latency[1] + 6 * scenario.temper.longest
        self.patience = int((2 * options.heartbeat + _SPREAD + 3.0) * SECOND) + self.slack

    def is_well(self, start: int, end: int) -> bool:
        """Return whether some looker was well from long before `start` on: one that nothing kept from its beats."""
        heartbeat = int(self._options.heartbeat * SECOND)
        since = start - 3 * heartbeat - _SOON
        there = [
            one for one in self._instances.values()
            if one.started_at is not None and one.started_at <= end and not one.has_gone(since)
        ]  # fmt: skip
        # With fewer lookers than machines one that is ill may be the one to look.
        well = [one.name for one in there if self.is_sound(one.name, since, end)]
        return bool(well) and (len(there) <= self._options.lookers or len(well) == len(there))

    def is_sound(self, machine: str, start: int, end: int) -> bool:
        """Return whether a machine lived, ticked and had no trouble in between."""
        one = self._instances[machine]
        spans = [*one.away, *one.wire.troubles]
        begun = one.ticking_from
        return (
            begun is not None and begun <= start and not one.has_gone(end)
            and not any(since <= end and until >= start for since, until in spans)
            and not any(start <= stepped <= end for stepped in one.stepped)
        )  # fmt: skip

    def are_all_sound(self, start: int, end: int) -> bool:
        """Return whether each machine that had not gone was well, and none came or went."""
        there = [one for one in self._instances.values() if one.started_at is not None and one.started_at <= end]
        return all(one.has_gone(start - _SOON) or self.is_sound(one.name, start, end) for one in there)


@dataclass(frozen=True, slots=True)
class _Brief:
    node: object

    def __format__(self, form: str) -> str:
        return brief(self.node)
