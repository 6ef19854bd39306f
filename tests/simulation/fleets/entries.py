"""Worlds with stored schedules, and with operators who put, edit and remove entries, also by hand in the console.

Beside the troubles of a plain world all machines may die at once, and others come later. `entry_book` is the oracle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import Literal, TypeAlias

from tests.simulation.fleets.bodies import Failure, Work
from tests.simulation.fleets.database import ENTRIES
from tests.simulation.fleets.entry_book import JOB, EntryBody, EntryBook, Options, Removal
from tests.simulation.fleets.instance import Instance
from tests.simulation.fleets.run import World
from tests.simulation.fleets.scenario import LAST, Event, JobSpec, MachineSpec, Scenario, make
from tests.simulation.fleets.terminals import Terminals
from tests.simulation.fleets.times import server_time
from tests.simulation.machines import SECOND
from tests.simulation.stand_ins import EPOCH, sleep

from firecron.jobs.decorator import scheduled
from firecron.jobs.run import Run
from firecron.lock.audit_log import AuditLog
from firecron.lock.database import Database
from firecron.ops.operator import Operator
from firecron.ops.schedules import Schedules

What: TypeAlias = Literal[
    "put", "put_args", "put_again", "remove", "remove_cancel", "pause", "resume", "unlock", "pause_job", "resume_job",
    "hand_line", "hand_args", "hand_record", "hand_repair", "hand_next", "hand_delete", "hand_age",
]  # fmt: skip
_DAY = 86_400_000
# Milliseconds. A day after its end a looker deletes what is closed.
_LONG_AGO = 2 * _DAY


@dataclass(frozen=True, slots=True)
class Act:
    """What an operator does at a time, to an entry or (with the key "") to the job. `schedule` is that of a put."""

    at: int
    what: What
    key: str = ""
    schedule: tuple[str, int] = ("every", 15)
    until: int | None = None
    value: object = None


@dataclass(frozen=True, slots=True)
class Stored:
    """The stored job of a world. Durations are seconds."""

    lock_ttl: float
    grace: float
    overlap: str
    catch_up: str
    on_abandoned: str
    lookers: int
    takes: tuple[float, ...]
    fails: float
    asyncs: frozenset[str]
    killed: float
    acts: tuple[Act, ...]


def stored(seed: int) -> tuple[Scenario, Stored]:
    """Return the scenario of a seed, with one small job and a stored one, whose entries are put and edited."""
    random = Random(f"entries {seed}")
    scenario = make(seed, random.choice((1, 2, 2, 3)))
    job = JobSpec("job-0", 60, Work(0.0, 0.5, 1, 0.0, "checks"), 10.0)
    ttl = random.choice((6.0, 8.0, 10.0))
    heartbeat = random.choice((5.0, 5.0, 10.0))
    fair = min(scenario.fair_from, 120 * SECOND)
    machines, events = _fleet(scenario, random, fair)
    names = [machine.name for machine in machines]
    takes = random.choice(((0.0, 0.5), (0.0, 0.5, 3.0), (0.5, 0.8 * ttl, 2.5 * ttl)))
    stored = Stored(
        lock_ttl=ttl,
        grace=random.choice((5.0, 20.0, 60.0)),
        overlap=random.choice(("skip", "skip", "queue")),
        catch_up=random.choice(("skip", "once", "all")),
        on_abandoned=random.choice(("skip", "rerun")),
        lookers=random.choice((1, 3, 3, 8)),
        takes=takes,
        fails=random.choice((0.0, 0.2)),
        asyncs=frozenset(name for name in names if random.random() < 0.3),
        killed=random.choice((0.0, 0.1, 0.3)),
        acts=_acts(random, fair, heartbeat),
    )
    settings = {**scenario.settings, "heartbeat": heartbeat, "recovery_interval": 20.0, "workers": 10}
    ends = fair + int((8 * heartbeat + 75.0) * SECOND)
    spells = tuple(replace(one, start=min(one.start, fair), end=min(one.end, fair)) for one in scenario.spells)
    world = replace(
        scenario, jobs=(job,), machines=machines, events=events, spells=spells, settings=settings, ambushes=0.0,
        fair_from=fair, ends=ends,
    )  # fmt: skip
    return world, stored


def _fleet(scenario: Scenario, random: Random, fair: int) -> tuple[tuple[MachineSpec, ...], tuple[Event, ...]]:
    """Return the machines, and what befalls them: all of them may die at once, and others come later."""
    machines = tuple(replace(machine, jobs=None) for machine in scenario.machines)
    kept = [
        replace(event, at=min(event.at, fair))
        for event in scenario.events
        if event.act in ("start", "stop", "kill", "freeze", "thaw", "step_wall")
    ]
    if random.random() < 0.4:
        dies = int((0.3 + 0.4 * random.random()) * fair)
        kept += [Event(dies, "kill", machine.name) for machine in machines if machine.name != LAST]
        kept = [one for one in kept if one.act != "start" or one.at < dies]
        come = int(random.choice((0.5, 8, 40)) * SECOND)
        later = tuple(MachineSpec(f"c{number}", has_loop=random.random() < 0.3) for number in range(1, 3))
        kept += [Event(min(fair, dies + come), "start", machine.name) for machine in later]
        machines = (*machines[:-1], *later, machines[-1])
    return machines, tuple(sorted(kept, key=lambda event: event.at))


def _acts(random: Random, fair: int, heartbeat: float) -> tuple[Act, ...]:
    """Return what operators do: each entry is put, and most are edited; some are put once nothing goes wrong."""
    found: list[Act] = []
    most: tuple[What, ...] = ("put", "put_args", "put_again", "remove", "remove", "remove_cancel", "pause", "unlock")
    hand: tuple[What, ...] = ("hand_line", "hand_args", "hand_record", "hand_next", "hand_delete", "hand_age")
    by_hand = random.random() < 0.5
    for number in range(random.choice((2, 4, 6))):
        key = f"k{number}"
        first = int((2 + 30 * random.random()) * SECOND)
        found.append(Act(first, "put", key, _schedule(random), _until(random)))
        for _ in range(random.choice((0, 2, 5))):
            when = first + int(random.random() * (fair - first))
            what = random.choice(hand) if by_hand and random.random() < 0.4 else random.choice(most)
            found.append(Act(when, what, key, _schedule(random), _until(random), random.randrange(5)))
            if what == "remove" and random.random() < 0.7:  # and soon put again, perhaps with the same schedule
                soon = when + int(random.choice((0.2, 2, 10)) * SECOND)
                found.append(Act(min(soon, fair), "put_again", key, _schedule(random)))
            if what == "pause":
                found.append(Act(min(fair, when + int(20 * random.random() * SECOND)), "resume", key))
            if what in ("hand_line", "hand_args", "hand_record") and random.random() < 0.7:
                soon = min(fair, when + int(20 * random.random() * SECOND))
                found += [Act(soon, "hand_repair", key), Act(soon, "put", key, _schedule(random))]
    for _ in range(random.choice((0, 0, 1, 2))):
        begin = int(random.random() * fair)
        lasts = int(random.choice((5, 20)) * SECOND)
        found += [Act(begin, "pause_job"), Act(min(fair, begin + lasts), "resume_job")]
    # Once all is well: what is put and removed then has to be right at once.
    settled = fair + int((5 * heartbeat + 10) * SECOND)
    found += [
        Act(fair + 1, "resume_job"),
        Act(settled, "put", "last", ("every", 10)),
        Act(settled, "put", "one", ("at", 9)),
    ]
    found += [Act(settled + 25 * SECOND, "remove", "last")]
    found.append(Act(settled + 26 * SECOND, "put", "last", ("every", 10)))
    found.append(Act(settled + int((2 * heartbeat + 43) * SECOND), "pause_job"))
    # And somebody mistypes when to look.
    found += [Act(settled, "put", "lost", ("every", 30)), Act(settled + 2 * SECOND, "hand_next", "lost", value=0)]
    found += [Act(fair + SECOND, "resume", f"k{number}") for number in range(6)]
    return tuple(sorted(found, key=lambda act: act.at))


def _schedule(random: Random) -> tuple[str, int]:
    kind = random.choice(("every", "every", "line", "at"))
    return kind, random.choice((2, 8, 20, 50)) if kind == "at" else random.choice((5, 10, 15, 20, 30))


def _until(random: Random) -> int | None:
    return random.choice((None, None, None, 30))


class Entries:
    """The stored job of all machines of a fleet, and its operators."""

    def __init__(self, world: World, stored: Stored) -> None:
        self._world = world
        self._scheduler = scheduler = world.scheduler
        self._database = world.database
        self._stored = stored
        self._terminals = Terminals(world, stored.killed)
        self._marks = 0
        self._put_before: dict[str, tuple[str, int]] = {}
        settings = world.scenario.settings
        options = Options(
            stored.grace, stored.overlap != "skip", stored.on_abandoned == "rerun", stored.lookers,
            float(str(settings["heartbeat"])), float(str(settings["recovery_interval"])),
        )  # fmt: skip
        self.book = EntryBook(scheduler, world.timeline, world.oracle, options)
        world.watching.append(self.book.watch)
        for instance in world.instances.values():
            instance.declared.append(self._job_of(instance))
        for act in stored.acts:
            scheduler.at(act.at, partial(self._happen, act))

    def judge(self) -> None:
        """Add what was wrong as a whole."""
        self.book.judge(self._world.scenario, self._world.instances, self._database)

    # --- what operators do

    def _happen(self, act: Act) -> None:
        run, what, name = self._terminals.run, f"{act.what} {act.key}", f"{JOB}:{act.key}" if act.key else JOB
        match act.what:
            case "put" | "put_args" | "put_again":
                self._put(act)
            case "remove" | "remove_cancel":
                self._remove(act)
            case "pause" | "pause_job":
                run(what, lambda database: AuditLog(database).pause(name, "ops"))
            case "resume" | "resume_job":
                run(what, lambda database: AuditLog(database).resume(name, "ops"))
            case "unlock":
                run(what, lambda database: _unlock(database, name))
            case _:
                self._edit(act)

    def _put(self, act: Act) -> None:
        """Put an entry; or let it have other arguments, or be put again with the schedule that it has or had."""
        self._marks += 1
        mark, key, before = f"m{self._marks}", act.key, self._put_before.get(act.key)
        kind, seconds = before if act.what != "put" and before is not None else act.schedule
        args = {"mark": mark} if self._marks % 3 else {}
        now = datetime.fromtimestamp((EPOCH + self._scheduler.now) / SECOND, UTC)
        until = None if act.until is None or kind == "at" else now + timedelta(seconds=act.until)
        self._put_before[key] = kind, seconds

        def put(database: Database) -> bool:
            schedules = Schedules(database)
            if kind == "at":
                return schedules.put(JOB, key, at=now + timedelta(seconds=seconds), args=args)
            if kind == "line":
                line = "* * * * *" if seconds > 20 else f"*/{seconds} * * * * *"
                return schedules.put(JOB, key, line, until=until, args=args)
            return schedules.put(JOB, key, every=seconds, until=until, args=args)

        self._terminals.run(f"put {key} {kind} {seconds} {args}", put)

    def _remove(self, act: Act) -> None:
        key, is_cancel = act.key, act.what == "remove_cancel"
        removals: list[Removal] = []

        def remove(database: Database) -> bool:
            removals.append(self.book.removing(key))
            return Schedules(database).remove(JOB, key, cancel=is_cancel)

        def done(is_running: bool) -> None:
            self.book.removed(key, removals[-1], is_running=is_running)

        self._terminals.run(f"{act.what} {key}", remove, done)

    def _edit(self, act: Act) -> None:
        """What somebody types into a node, in the console."""
        path = f"{ENTRIES}{JOB}/:{act.key}"
        found = self._database.store.get(path)
        if not isinstance(found, dict):
            return
        node, now = dict(found), server_time(self._scheduler.now)
        self._world.timeline.say("CONSOLE", "{} {}", act.what, act.key)
        if act.what == "hand_line":
            for name in ("every", "starting", "at"):
                node.pop(name, None)
            node["line"] = ("every day", "61 * * * *", "")[int(str(act.value)) % 3] or "never"
        elif act.what == "hand_args":
            node["args"] = ("no JSON", "[1]")[int(str(act.value)) % 2]
        elif act.what == "hand_record" and node.get("holder") is not None:
            node["expiresAt"] = "soon"
        elif act.what == "hand_repair" and isinstance(node.get("expiresAt"), str):
            node["expiresAt"] = 0
        elif act.what == "hand_next":
            node["nextAt"] = ("tomorrow", -1, None, True, 1)[int(str(act.value))]
            if node["nextAt"] is None:
                del node["nextAt"]
        elif act.what == "hand_delete":
            node = {}
        elif act.what == "hand_age" and node.get("closed") is not None:
            node |= {"closedAt": now - _LONG_AGO, "nextAt": now - _DAY}
        if node != found:
            self._database.edit(path, node or None)

    # --- what the job does

    def _job_of(self, instance: Instance) -> Callable[..., object]:
        book, scheduler, machine, stored = self.book, self._scheduler, instance.machine, self._stored

        def plan() -> tuple[float, bool]:
            seconds = machine.random.choice(stored.takes)
            return seconds * machine.random.random(), machine.random.random() < stored.fails

        def look(body: EntryBody) -> None:
            at = scheduler.now
            book.looks(body, at, is_lost=bool(body.run.lost))

        def remind(run: Run, mark: str = "") -> None:
            (seconds, fails), begun = plan(), book.begins(run, machine, mark)
            try:
                for _ in range(6):
                    sleep(seconds / 6)
                    look(begun)
                    run.check()
                if fails:
                    raise Failure("as it was to")
            except BaseException as error:
                book.ends(begun, error)
                raise
            book.ends(begun, None)

        async def async_remind(run: Run, mark: str = "") -> None:
            (seconds, fails), begun = plan(), book.begins(run, machine, mark)
            try:
                for _ in range(6):
                    await asyncio.sleep(seconds / 6)
                    look(begun)
                if fails:
                    raise Failure("as it was to")
            except BaseException as error:
                book.ends(begun, error)
                raise
            book.ends(begun, None)

        declared = scheduled(
            JOB, lookers=stored.lookers, lock_ttl=stored.lock_ttl, grace=stored.grace, overlap=stored.overlap,  # type: ignore[arg-type]  # words
            catch_up=stored.catch_up, on_abandoned=stored.on_abandoned, max_runtime=3_600,  # type: ignore[arg-type]  # words
        )  # fmt: skip
        return declared(async_remind) if instance.name in stored.asyncs else declared(remind)


def _unlock(database: Database, name: str) -> bool:
    operator = Operator(database)
    return operator.unlock(operator.read(name), by="ops")
