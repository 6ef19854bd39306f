"""The registry: what jobs there are, what state they are in, and what can be done with them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from tests.simulation.fleet import Fleet, refusal_of
from tests.simulation.world import NAME, START, slot
from tests.unit.locks import lock_of

from firecron import ConfigurationError, FireCron, Run, Unavailable, distributed_cron, scheduled
from firecron.base.flag import begin_child
from firecron.base.instants import to_text
from firecron.errors import UnknownJob
from firecron.jobs.job import Job
from firecron.settings import load
from firecron.testing import FakeTiming, MemoryStore


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


def new_crons(*providers: object, **settings: object) -> FireCron:
    timing = FakeTiming(wall=START)
    return FireCron(*providers, store=MemoryStore(timing.now), timing=timing, settings=load(**settings))


@distributed_cron("first", "*/10 * * * *", lock_ttl=30)
def first() -> None: ...


@distributed_cron("second", "0 9 * * *", lock_ttl=30, role="worker")
def second() -> None: ...


@distributed_cron("third", "0 9 * * *", lock_ttl=30, disabled=True)
def third() -> None: ...


def test_jobs_are_listed_and_found() -> None:
    """All jobs are listed in the order given, and found by name; an unknown name is an error that lists them."""
    registry = new_crons(first, second).registry
    assert [job.name for job in registry.jobs()] == ["first", "second"]
    assert registry.get("second").function is second
    with pytest.raises(UnknownJob, match=r"'third'.*first, second"):
        registry.get("third")
    with pytest.raises(KeyError):
        registry.next_slots("third")
    with pytest.raises(UnknownJob, match="none"):
        new_crons().registry.get("first")


def test_a_stored_job_is_listed_and_so_are_those_of_a_kind() -> None:
    """Also by the name of an entry: what can't have one, or is none, is an error."""

    @scheduled("remind")
    def remind() -> None: ...

    registry = new_crons(first, remind).registry
    assert [job.name for job in registry.jobs()] == ["first", "remind"]
    assert [job.name for job in registry.jobs(stored=True)] == ["remind"]
    assert [job.name for job in registry.jobs(stored=False)] == ["first"]
    registry.pause("remind:42")
    assert [registry.state(name) for name in ("remind", "remind:42", "remind:43")] == ["idle", "paused", "idle"]
    for name in ("first:42", "second:42"):
        with pytest.raises(UnknownJob, match=name.partition(":")[0]):
            registry.pause(name)
    with pytest.raises(ConfigurationError, match="manual"):
        registry.resume("remind:manual")
    with pytest.raises(ConfigurationError, match="firecron next remind:42"):
        registry.next_slots("remind:42")


@pytest.mark.parametrize("is_known", [True, False])
def test_the_next_slots_are_told(is_known: bool) -> None:
    """The next ticks after RTDB's time, or after this machine's where that isn't known, in UTC."""
    crons = new_crons(first)
    if is_known:
        crons.locks.clock.now(crons.locks.deadline(1))
    slots = crons.registry.next_slots("first", 3)
    now = datetime(2026, 11, 18, 9, tzinfo=UTC) if is_known else datetime.now(UTC)
    assert [later - before for before, later in pairwise(slots)] == [timedelta(minutes=10)] * 2
    assert timedelta(0) < slots[0] - now <= timedelta(minutes=10)
    if is_known:
        assert to_text(round(slots[0].timestamp() * 1000)) == slot(600)


def test_a_job_has_a_state(fleet: Fleet) -> None:
    """A job is idle, ticking, running, paused, disabled or elsewhere, and running comes first."""
    one = fleet.instance()
    registry = one.crons.registry
    for function in (second, third):
        registry.add(function)
    states = {"idle": registry.state(NAME)}
    one.start()
    states |= {
        "ticking": registry.state(NAME),
        "elsewhere": registry.state("second"),
        "disabled": registry.state("third"),
    }
    registry.pause(NAME)
    states["paused"] = registry.state(NAME)
    fleet.body = lambda run: states.update({"running": registry.state(NAME)})
    registry.trigger(NAME)
    registry.resume(NAME)
    assert states == {state: state for state in states}
    assert registry.state(NAME) == "ticking"
    one.crons.stop()
    assert registry.state(NAME) == "idle"


def test_a_refused_turn_is_not_running(fleet: Fleet) -> None:
    """An instance that only asks for the lock does not run the job."""
    one, other = fleet.instance(), fleet.instance()
    seen: list[str] = []

    def body(run: Run) -> None:
        other.network.before = lambda method, path: seen.append(other.crons.registry.state(NAME))
        other.turn(slot())

    fleet.body = body
    one.turn(slot())
    assert seen == ["idle"]


def test_a_pause_here_is_here(fleet: Fleet) -> None:
    """A job that is paused on one instance ticks on the others; it says of each tick that it skips it."""
    one, other = fleet.instance(), fleet.instance()
    for instance in (one, other):
        instance.start()
    one.crons.registry.pause(NAME)
    fleet.world.until(125)
    assert fleet.slots() == [slot(60), slot(120)]
    assert one.said("run.started") == []
    assert [event.fields["slot"] for event in one.said("run.skipped")] == [slot(60), slot(120)]
    other.crash()
    one.crons.registry.resume(NAME)
    fleet.world.until(185)
    assert fleet.slots()[2:] == [slot(180)]


@pytest.mark.parametrize("options", [{"on_abandoned": "rerun"}, {"catch_up": "all"}])
def test_a_pause_here_also_stops_what_is_left_over(options: dict[str, str]) -> None:
    """A paused job is neither rerun nor caught up here."""
    fleet = Fleet("0 0 * * *", **options)
    dying, one = fleet.instance("* * * * *"), fleet.instance(recovery_interval=50)
    dying.die_holding(slot())
    one.start()
    one.crons.registry.pause(NAME)
    one.network.requests()
    fleet.world.until(500)
    assert one.network.requests("cron-locks/") == []
    assert fleet.runs == []


def test_a_pause_everywhere_is_in_the_node(fleet: Fleet) -> None:
    """A job that is paused everywhere is refused on all instances, whoever resumes it, and its record stays."""
    one, other = fleet.instance(), fleet.instance()
    one.turn(slot())
    before = fleet.world.node()
    one.crons.registry.pause(NAME, everywhere=True)
    fleet.world.store.set(
        f"cron-locks/{NAME}", {**before, "paused": fleet.world.store.get(f"cron-locks/{NAME}/paused")}
    )
    assert fleet.world.node() == {**before, "paused": True}
    fleet.world.until(60)
    assert refusal_of(other.turn(slot(60))).reason == "paused"
    refusal = other.crons.registry.trigger(NAME).refusal
    assert refusal is not None
    assert refusal.reason == "paused"
    other.crons.registry.resume(NAME, everywhere=True)
    assert fleet.world.store.get(f"cron-locks/{NAME}/paused") is None


def test_a_pause_that_can_not_be_written_is_raised(fleet: Fleet) -> None:
    """Without the database a pause everywhere is an error, not a silent nothing."""
    one = fleet.instance()
    one.network.is_down = True
    with pytest.raises(Unavailable):
        one.crons.registry.pause(NAME, everywhere=True)


def test_jobs_come_and_go_at_run_time(fleet: Fleet) -> None:
    """A job that is added while others tick ticks from then on, and one that is removed no more, nor is it rerun."""
    one = fleet.instance()
    one.start()
    runs: list[str] = []

    @distributed_cron("late", "* * * * *", lock_ttl=30)
    def late(run: Run) -> None:
        runs.append(str(run.idempotency_key))

    fleet.world.until(30)
    one.crons.registry.add(late)
    fleet.world.until(65)
    one.crons.registry.remove(NAME)
    fleet.world.until(125)
    assert fleet.slots() == [slot(60)]
    assert runs == [f"late:{slot(60)}", f"late:{slot(120)}"]
    assert one.said("run.skipped") == [], "its ticks are nobody's any more"
    with pytest.raises(UnknownJob):
        one.crons.registry.remove(NAME)
    one.crons.registry.add(late)
    one.crons.registry.remove("late")
    one.crons.registry.add(late)
    fleet.world.until(185)
    assert runs[2:] == [f"late:{slot(180)}"]


def test_a_job_that_is_removed_while_it_waits_does_not_start(fleet: Fleet) -> None:
    """A tick that was planned for a job that was removed, or replaced, meanwhile is not that job's any more."""
    one = fleet.instance()
    one.start()
    job = one.job()
    one.crons.registry.remove(NAME)
    one.crons.engine.lanes.due(job, "2026-11-18T09:00:00Z")
    fleet.world.advance(0)
    assert fleet.runs == []


def test_a_job_that_can_not_work_is_refused_at_run_time(fleet: Fleet) -> None:
    """While jobs tick, one that is added is checked as at the start, and not added if it can't work."""

    @distributed_cron("short", "* * * * *", lock_ttl=2)
    def short() -> None: ...

    one = fleet.instance()
    one.start()
    with pytest.raises(ConfigurationError, match="lock_ttl of 'short'"):
        one.crons.registry.add(short)
    assert [job.name for job in one.crons.registry.jobs()] == [NAME]
    with pytest.raises(ConfigurationError, match="is not a job"):
        one.crons.registry.add(print)


@pytest.mark.parametrize(("roles", "runs"), [("", 0), ("worker", 1), ("web, worker", 1), ("workers", 0)])
def test_a_role_says_where_a_job_runs(roles: str, runs: int) -> None:
    """A job with a role runs only where the instance has it, word by word."""
    fleet = Fleet(role="worker")
    one = fleet.instance(roles=roles)
    one.start()
    fleet.world.until(65)
    assert len(fleet.runs) == runs


@pytest.mark.parametrize("options", [{}, {"catch_up": "all", "grace": 1}, {"on_abandoned": "rerun"}])
def test_a_disabled_job_runs_only_by_hand(options: dict[str, object]) -> None:
    """A disabled job is listed, never ticks, is neither rerun nor caught up, and can be triggered."""
    fleet = Fleet("* * * * *", disabled=True, **options)
    dead, one = fleet.instance(), fleet.instance()
    dead.die_holding(slot())
    fleet.world.until(95)
    one.start()
    fleet.world.until(300)
    assert fleet.runs == []
    assert one.crons.registry.trigger(NAME).outcome == "succeeded"


def test_a_pause_here_goes_with_the_job(fleet: Fleet) -> None:
    """A job that is removed while it is paused here, and added again, ticks."""
    one = fleet.instance()
    one.start()
    job = one.job()
    one.crons.registry.pause(NAME)
    one.crons.registry.remove(NAME)
    one.crons.registry.add(job)
    fleet.world.until(65)
    assert fleet.slots() == [slot(60)]


def test_what_is_of_this_instance_alone_needs_no_database(fleet: Fleet) -> None:
    """A pause and its end here are no requests; of a job that isn't there both are an error."""
    one = fleet.instance()
    one.network.requests()
    one.crons.registry.pause(NAME)
    one.crons.registry.resume(NAME)
    assert one.network.requests() == []
    for change in (one.crons.registry.pause, one.crons.registry.resume):
        with pytest.raises(UnknownJob):
            change("other")


def test_jobs_that_are_there_already_are_passed_over() -> None:
    """Of a function with several jobs those are added that weren't, once; a name that is another function's is refused
    with both places.
    """
    added: list[str] = []

    @distributed_cron("one", "0 9 * * *", lock_ttl=30)
    def work() -> None: ...

    crons = new_crons(work)
    crons.engine.add = lambda job: added.append(job.name)  # type: ignore[method-assign]  # noted, not planned
    both = distributed_cron("two", "0 9 * * *", lock_ttl=30)(work)
    for _ in range(2):
        crons.registry.add(both)
    assert added == ["two"]

    @distributed_cron("one", "0 9 * * *", lock_ttl=30)
    def impostor() -> None: ...

    with pytest.raises(ConfigurationError, match=r"two jobs are named 'one': .*work and .*impostor"):
        crons.registry.add(impostor)


def test_a_slot_has_a_zone() -> None:
    """A naive slot is refused with what to give instead."""
    with pytest.raises(ValueError, match="must be an aware datetime"):
        new_crons(first).registry.trigger("first", slot=datetime(2026, 11, 18, 9))  # noqa: DTZ001  # as a user may


def test_jobs_change_one_at_a_time() -> None:
    """Who reads or changes the jobs has the lock, in a forked child a new one."""
    registry = new_crons(first).registry
    job = registry.get("first")
    assert lock_of(registry).acquire(timeout=1)
    begin_child()

    class Guarded(dict[str, Job]):
        def values(self) -> Any:
            assert lock_of(registry).locked()
            return super().values()

        def __getitem__(self, name: str) -> Job:
            assert lock_of(registry).locked()
            return super().__getitem__(name)

        def __setitem__(self, name: str, job: Job) -> None:
            assert lock_of(registry).locked()
            super().__setitem__(name, job)

        def pop(self, name: str, *default: Any) -> Any:
            assert lock_of(registry).locked()
            return super().pop(name, *default)

    # Whose every use is seen.
    registry._jobs = Guarded({job.name: job})
    registry.remove("first")
    registry.add(job)
    assert registry.jobs() == [registry.get("first")]
