"""Stored schedules that run: at their ticks, with their arguments, until they are removed. On a clock of the test's."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from firecron import FireCron, LockService, Run, scheduled
from firecron.base.clocks import Deadline
from firecron.base.instants import to_milliseconds
from firecron.errors import NoIndex, StoreError, Unavailable
from firecron.lock.fields import Pause
from firecron.lock.waiting import Follow, Update
from firecron.runs.look import Attempted, Later, evaluate
from firecron.scheduler.lookers import Lookers
from firecron.settings import load
from firecron.testing import FakeClock, MemoryStore, Rehearsal
from firecron.testing.rehearsal import Inline

NINE = "2026-11-18T09:00:00Z"


class Reminders:
    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []
        self.fails = False
        self.during: Any = lambda run: None

    @scheduled("remind", lock_ttl=60, keep_closed=3_600)
    def remind(self, run: Run, event: str = "") -> None:
        self.sent.append((run.idempotency_key, event))
        self.during(run)
        if self.fails:
            raise ConnectionError("no mail server")

    @scheduled("nightly", lock_ttl=60, catch_up="all", on_abandoned="rerun")
    def nightly(self, run: Run) -> None:
        self.sent.append((run.idempotency_key, run.trigger))


@pytest.fixture
def reminders() -> Reminders:
    return Reminders()


@pytest.fixture
def test(reminders: Reminders) -> Iterator[Rehearsal]:
    crons = FireCron(reminders, settings=load())
    with crons.testing("2026-11-18T08:58:00Z") as rehearsal:
        yield rehearsal


def node(test: Rehearsal, name: str = "remind") -> Any:
    return test.store.get(f"cron-schedules/{name}/:42")


def test_an_entry_runs_at_its_ticks_with_its_arguments(test: Rehearsal, reminders: Reminders) -> None:
    """Once at each tick, and the history says so by its key."""
    test.schedules.put("remind", "42", "0 9 * * *", args={"event": "dinner"})
    test.move_to("2026-11-18T08:59:59Z")
    assert reminders.sent == []
    test.move_to(NINE)
    assert reminders.sent == [(f"remind:42:{NINE}", "dinner")]
    test.move_to("2026-11-19T10:00:00Z")
    assert [key for key, _ in reminders.sent] == [f"remind:42:{NINE}", "remind:42:2026-11-19T09:00:00Z"]
    runs: Any = test.store.get("cron-runs/remind")
    assert [*runs] == [f"{NINE}:42", "2026-11-19T09:00:00Z:42"]
    assert runs[f"{NINE}:42"]["key"] == "42"
    assert test.outcomes("remind:42") == ["succeeded", "succeeded"]
    assert test.outcomes("remind:43") == []


def test_entries_of_one_job_don_t_wait_for_each_other(test: Rehearsal, reminders: Reminders) -> None:
    """Each has its own lock, its own slot and its own history."""
    for key in ("42", "43"):
        test.schedules.put("remind", key, "0 9 * * *", args={"event": key})
    test.move_to(NINE)
    assert sorted(reminders.sent) == [(f"remind:{key}:{NINE}", key) for key in ("42", "43")]


def test_an_instant_runs_once_and_is_over(test: Rehearsal, reminders: Reminders) -> None:
    """The release closes it; a looker deletes it once `keep_closed` is over."""
    test.schedules.put("remind", "42", at=datetime(2026, 11, 18, 9, tzinfo=UTC), args={"event": "once"})
    test.move_to("2026-11-18T09:30:00Z")
    assert reminders.sent == [(f"remind:42:{NINE}", "once")]
    assert node(test)["closed"] == "over"
    assert not test.schedules.put("remind", "42", at=datetime(2026, 11, 18, 9, tzinfo=UTC), args={"event": "once"})
    test.move_to("2026-11-18T10:01:00Z")
    assert node(test) is None
    assert len(reminders.sent) == 1


def test_what_was_removed_never_runs_and_what_is_put_again_does(test: Rehearsal, reminders: Reminders) -> None:
    """No tick up to the new put runs."""
    test.schedules.put("remind", "42", "0 * * * *")
    test.schedules.remove("remind", "42")
    test.move_to("2026-11-18T09:30:00Z")
    assert reminders.sent == []
    test.schedules.put("remind", "42", "0 * * * *")
    test.move_to("2026-11-18T10:00:00Z")
    assert [key for key, _ in reminders.sent] == ["remind:42:2026-11-18T10:00:00Z"]


def test_an_entry_that_is_removed_in_its_run_ends_the_run_as_any_other(test: Rehearsal, reminders: Reminders) -> None:
    """`remove` says that there is one; its outcome is recorded, and nothing follows."""
    removed: list[bool] = []
    reminders.during = lambda run: removed.append(test.schedules.remove("remind", "42"))
    test.schedules.put("remind", "42", "0 * * * *")
    test.move_to("2026-11-18T11:30:00Z")
    assert removed == [True]
    assert test.outcomes("remind:42") == ["succeeded"]
    assert node(test) is None  # an hour after the removal


def test_a_put_in_the_run_has_its_arguments_from_the_next_tick_on(test: Rehearsal, reminders: Reminders) -> None:
    """The run goes on with its own, and so does its claim."""
    reminders.during = lambda run: test.schedules.put("remind", "42", "0 * * * *", args={"event": "new"})
    test.schedules.put("remind", "42", "0 * * * *", args={"event": "old"})
    test.move_to("2026-11-18T10:00:00Z")
    assert [event for _, event in reminders.sent] == ["old", "new"]


def test_until_ends_a_schedule(test: Rehearsal, reminders: Reminders) -> None:
    """The tick at that instant is the last one, and the entry is over with it."""
    until = datetime(2026, 11, 18, 10, tzinfo=UTC)
    test.schedules.put("remind", "42", every=timedelta(hours=1), until=until)
    test.move_to("2026-11-18T10:00:01Z")
    assert [key[-20:] for key, _ in reminders.sent] == [NINE, "2026-11-18T10:00:00Z"]
    assert node(test)["closed"] == "over"


def test_a_paused_entry_does_not_run(test: Rehearsal, reminders: Reminders) -> None:
    """Its ticks are skipped with the reason, and an instant that it was paused over is missed."""
    test.schedules.put("remind", "42", "0 * * * *")
    test.schedules.put("remind", "43", at=datetime(2026, 11, 18, 9, tzinfo=UTC))
    for key in ("42", "43"):
        test.store.set(f"cron-schedules/remind/:{key}/paused", True)
    test.move_to("2026-11-18T09:30:00Z")
    assert reminders.sent == []
    closed: Any = test.store.get("cron-schedules/remind/:43")
    assert (closed["closed"], closed["closedWhy"]) == ("missed", "paused by an operator")
    test.store.set("cron-schedules/remind/:42/paused", None)
    test.move_to("2026-11-18T10:00:00Z")
    assert [key for key, _ in reminders.sent] == ["remind:42:2026-11-18T10:00:00Z"]


def test_pausing_the_job_holds_all_of_its_entries(test: Rehearsal, reminders: Reminders) -> None:
    """Its own node in `cron-locks` is read with each query, and the ticks that it held back are skipped."""
    test.locks.pause("remind", why="a migration")
    test.schedules.put("remind", "42", "0 * * * *")
    test.move_to("2026-11-18T09:30:00Z")
    assert reminders.sent == []
    history: Any = test.store.get("cron-runs/remind")
    entry = {"outcome": "skipped", "error": "it was paused"}
    assert {key: {name: said[name] for name in entry} for key, said in history.items()} == {f"{NINE}:42": entry}
    test.locks.pause("remind", False)
    test.move_to("2026-11-18T10:00:00Z")
    assert [key for key, _ in reminders.sent] == ["remind:42:2026-11-18T10:00:00Z"]


def test_the_registry_takes_the_name_of_an_entry(reminders: Reminders) -> None:
    """A pause of this instance stops that one alone, as one of all instances does, which is in its node; both end."""
    clock = FakeClock("2026-11-18T08:59:30Z")
    store = MemoryStore(clock.now)
    crons = FireCron(reminders, settings=load(), store=store, timing=clock, crew=Inline(), has_threads=False)
    registry = crons.registry
    for key in ("42", "43"):
        crons.schedules.put("remind", key, "0 * * * *")

    def next_hour() -> list[str]:
        crons.engine.lookers.look(registry.get("remind"))
        reminders.sent.clear()
        clock.advance(40)
        crons.work()
        clock.advance(3_560)
        return sorted(key[:9] for key, _ in reminders.sent)

    registry.pause("remind:42")
    assert next_hour() == ["remind:43"]
    registry.resume("remind:42")
    registry.pause("remind:43", everywhere=True, why="a drill")
    assert next_hour() == ["remind:42"]
    registry.resume("remind:43", everywhere=True)
    assert next_hour() == ["remind:42", "remind:43"]


@pytest.mark.parametrize(("is_paused", "expected"), [(False, Attempted), (True, Later)])
def test_no_tick_of_a_paused_job_waits_for_the_run_before_it(is_paused: bool, expected: type[object]) -> None:
    """Else it would begin as soon as that run ends, although the pause has come long before the tick."""

    @scheduled("queued", lock_ttl=60, overlap="queue")
    def queued() -> None:
        """Never called."""

    job = FireCron(queued, settings=load(), store=MemoryStore(lambda: 0)).registry.get("queued")
    nine = to_milliseconds(NINE)
    node = {"every": 60, "since": nine - 60_000, "slot": NINE, "unfinished": NINE, "fence": nine, "holder": "it"}
    node |= {"acquiredAt": nine, "expiresAt": nine + 120_000, "attempt": 1, "nextAt": nine + 60_000}
    hold = Pause(True, "ann", nine, None, None) if is_paused else None
    assert isinstance(evaluate(node, job.options, nine + 60_000, 1_000, hold), expected)


def test_a_malformed_entry_hides_no_other(test: Rehearsal, reminders: Reminders) -> None:
    """It is looked at each hour, and closed after a day; a record that can't be read is left alone."""
    test.schedules.put("remind", "1", "0 9 * * *")
    test.schedules.put("remind", "2", "0 9 * * *")
    test.schedules.put("remind", "42", "0 9 * * *")
    test.store.set("cron-schedules/remind/:1/line", "whenever")
    test.store.set("cron-schedules/remind/:2/expiresAt", "never")
    test.move_to("2026-11-18T09:30:00Z")
    assert [key for key, _ in reminders.sent] == [f"remind:42:{NINE}"]
    second: Any = test.store.get("cron-schedules/remind/:2")
    assert second["expiresAt"] == "never"
    test.store.set("cron-schedules/remind/:2", None)  # which a day is looked at as often as there are beats
    test.move_to("2026-11-19T10:30:00Z")
    first: Any = test.store.get("cron-schedules/remind/:1")
    assert first is None or first["closed"] == "malformed"


def test_missed_ticks_are_caught_up(reminders: Reminders) -> None:
    """With `catch_up="all"` each runs later, oldest first; without, they are missed, and the history says so."""
    with FireCron(reminders, settings=load()).testing("2026-11-18T11:30:00Z") as test:
        for name in ("nightly", "remind"):
            test.schedules.put(name, "42", "0 * * * *")
            for field in ("since", "nextAt"):
                test.store.set(f"cron-schedules/{name}/:42/{field}", to_milliseconds("2026-11-18T08:58:00Z"))
        test.move_to("2026-11-18T12:00:00Z")
        hours = [f"nightly:42:2026-11-18T{hour:02}:00:00Z" for hour in (9, 10, 11, 12)]
        assert [key for key, _ in reminders.sent if key.startswith("nightly")] == hours
        assert test.outcomes("remind:42") == ["missed", "missed", "missed", "succeeded"]


@pytest.mark.parametrize("edited", [None, -5, "soon", {"a": 1}])
def test_an_entry_without_a_time_to_look_is_mended(test: Rehearsal, reminders: Reminders, edited: object) -> None:
    """Whatever a hand has left there: no query for what is due would find it."""
    test.schedules.put("remind", "42", "0 10 * * *")
    test.store.set("cron-schedules/remind/:42/nextAt", edited)
    test.schedules.put("remind", "43", "*/30 * * * *")
    test.move_to("2026-11-18T10:00:00Z")
    assert "remind:42:2026-11-18T10:00:00Z" in [key for key, _ in reminders.sent]


@pytest.mark.parametrize("name", ["remind", "nightly"])
def test_each_job_has_its_own_round_of_mending(test: Rehearsal, reminders: Reminders, name: str) -> None:
    """The first job doesn't take the turn of the others."""
    for each in ("remind", "nightly"):
        test.schedules.put(each, "42", "0 10 * * *")
        test.store.set(f"cron-schedules/{each}/:42/nextAt", None)
        test.schedules.put(each, "43", "*/10 * * * *")
    test.move_to("2026-11-18T10:00:00Z")
    assert f"{name}:42:2026-11-18T10:00:00Z" in [key for key, _ in reminders.sent]


def test_an_entry_that_is_mended_runs_what_is_due_already(test: Rehearsal, reminders: Reminders) -> None:
    """A tick that was missed is caught up, and a run that has died is run again, though no query has found them."""
    test.schedules.put("nightly", "43", "*/10 * * * *")
    test.move_to("2026-11-18T10:05:00Z")
    nine, eight = to_milliseconds(NINE), to_milliseconds("2026-11-18T08:58:00Z")
    missed: dict[str, object] = {"line": "0 9 * * *", "timezone": "UTC", "since": eight}
    died = {**missed, "slot": NINE, "unfinished": NINE, "fence": nine, "expiresAt": nine + 60_000, "holder": "it"}
    test.store.set("cron-schedules/nightly/:42", missed)
    test.store.set("cron-schedules/nightly/:44", died)
    test.move_to("2026-11-18T11:00:00Z")
    keys = [key for key, _ in reminders.sent]
    assert (f"nightly:42:{NINE}" in keys, f"nightly:44:{NINE}" in keys) == (True, True)
    assert "unfinished" not in test.store.get("cron-schedules/nightly/:44")  # type: ignore[operator]  # it is a node
    assert node(test, "nightly")["nextAt"] == to_milliseconds("2026-11-19T09:00:00Z")


class Postponed(Inline):
    """Workers that are all busy: what they are given waits."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], object]] = []

    def submit(self, work: Callable[[], object]) -> None:
        self.waiting.append(work)


def test_what_is_mended_delays_no_look(reminders: Reminders) -> None:
    """A worker does it, one entry after another, with other work between them; looks go on before it, and after."""
    clock = FakeClock("2026-11-18T08:59:10Z")
    store = MemoryStore(clock.now)
    crons = FireCron(reminders, settings=load(), store=store, timing=clock, crew=Inline(), has_threads=False)
    crons.schedules.put("remind", "42", "0 9 * * *")
    for key in ("1", "2", "3"):
        crons.schedules.put("remind", key, "0 10 * * *")
        store.set(f"cron-schedules/remind/:{key}/nextAt", 0)
    lookers, workers = crons.engine.lookers, Postponed()
    lookers.workers = workers

    def times() -> list[bool]:
        return [store.get(f"cron-schedules/remind/:{key}/nextAt") != 0 for key in ("1", "2", "3")]

    job = crons.registry.get("remind")
    lookers.look(job)
    clock.advance(51)
    crons.work()
    assert [key for key, _ in reminders.sent] == [f"remind:42:{NINE}"]
    clock.advance(300)
    lookers.look(job)  # the next round: that of before is not over, and stays the only one
    assert (times(), len(workers.waiting)) == ([False] * 3, 1)
    for number in range(1, 5):
        workers.waiting.pop()()
        crons.work()
        assert (sum(times()), len(workers.waiting)) == (min(3, number), 0 if number == 4 else 1)


def test_a_closed_entry_is_out_of_the_way_until_it_is_deleted(test: Rehearsal, reminders: Reminders) -> None:
    """Who has closed it knows of another `keep_closed`: the first look sets the time of the job's own."""
    test.schedules.put("nightly", "42", "0 9 * * *")
    test.schedules.remove("nightly", "42")
    closed_at, early = node(test, "nightly")["closedAt"], to_milliseconds("2026-11-18T08:59:00Z")
    test.store.set("cron-schedules/nightly/:42/nextAt", early)
    test.move_to("2026-11-18T09:30:00Z")
    assert node(test, "nightly")["nextAt"] == closed_at + 86_400_000


class Interrupted(MemoryStore):
    """A database that calls `after` once after each write of an entry, and `before` before it lists steps."""

    after: Any = None
    before: Any = None

    def swap(self, path: str, etag: str, node: Any, deadline: Deadline) -> Any:
        answer = super().swap(path, etag, node, deadline)
        if self.after is not None and "cron-schedules" in path and isinstance(answer, str):
            after, self.after = self.after, None
            after()
        return answer

    def keys(self, path: str, deadline: Deadline) -> list[str]:
        if self.before is not None and "cron-steps" in path:
            self.before()
        return super().keys(path, deadline)


@pytest.fixture
def interrupted(reminders: Reminders) -> tuple[FireCron, Interrupted, FakeClock]:
    clock = FakeClock("2026-11-18T08:58:00Z")
    store = Interrupted(clock.now)
    crons = FireCron(reminders, settings=load(), store=store, timing=clock, crew=Inline(), has_threads=False)
    return crons, store, clock


def lose() -> None:
    raise Unavailable("the reply was lost")


def test_a_look_whose_reply_is_lost_leaves_the_history(interrupted: tuple[FireCron, Interrupted, FakeClock]) -> None:
    """The node is as it was sent: the run that has died and the instant that was missed are recorded."""
    crons, store, clock = interrupted
    job, nine = crons.registry.get("remind"), to_milliseconds(NINE)
    crons.schedules.put("remind", "42", "0 9 * * *")
    crons.schedules.put("remind", "43", at=datetime(2026, 11, 18, 9, 30, tzinfo=UTC))
    died: Any = store.get("cron-schedules/remind/:42")
    died |= {"slot": NINE, "unfinished": NINE, "fence": nine, "expiresAt": nine + 60_000, "holder": "it"}
    store.set("cron-schedules/remind/:42", {**died, "nextAt": nine + 61_000})
    for minutes in (5, 60):
        clock.advance(60 * minutes)
        store.after = lose
        crons.engine.lookers.look(job)
        assert store.after is None
    ended: Any = store.get("cron-schedules/remind/:42")
    missed: Any = store.get("cron-schedules/remind/:43")
    assert (ended["outcome"], ended["failures"], missed["closed"]) == ("abandoned", 1, "missed")
    runs: Any = store.get("cron-runs/remind")
    assert {key: entry["outcome"] for key, entry in runs.items()} == {
        f"{NINE}:42": "abandoned",
        "2026-11-18T09:30:00Z:43": "missed",
    }


@pytest.mark.parametrize("what", ["removes it", "puts it with other arguments", "types a line that is none"])
def test_a_run_has_what_its_entry_had_when_it_was_claimed(
    interrupted: tuple[FireCron, Interrupted, FakeClock], reminders: Reminders, what: str
) -> None:
    """The reply to the claim is lost, and somebody changes the entry before the node is read again."""
    crons, store, clock = interrupted
    crons.schedules.put("remind", "42", "0 9 * * *", args={"event": "dinner"})

    def change() -> None:
        match what.partition(" ")[0]:
            case "removes":
                assert crons.schedules.remove("remind", "42")  # a run is under way
            case "puts":
                crons.schedules.put("remind", "42", "0 9 * * *", args={"event": "lunch"})
            case _:
                store.set("cron-schedules/remind/:42/line", "never")
        lose()

    clock.advance(120)
    store.after = change
    crons.engine.lookers.look(crons.registry.get("remind"))
    assert reminders.sent == [(f"remind:42:{NINE}", "dinner")]
    left: Any = store.get("cron-schedules/remind/:42")
    assert (left["outcome"], "releasedAt" in left) == ("succeeded", True)


def test_a_deletion_leaves_the_steps_of_a_run_that_a_put_has_let_begin(
    interrupted: tuple[FireCron, Interrupted, FakeClock],
) -> None:
    """The looker has read the entry when it was closed; those of earlier runs go."""
    crons, store, clock = interrupted
    crons.schedules.put("remind", "42", "0 9 * * *")
    crons.schedules.remove("remind", "42")
    steps = "cron-steps/remind:42"
    early = ("2026-11-17T09:00:00Z", "2026-11-18T08:57:59Z-manual-abcdef")
    for tick in early:
        store.set(f"{steps}/{tick}/charge", {"fence": 1, "doneAt": 1})
    late = "2026-11-18T11:00:00Z"

    def put() -> None:
        store.before = None
        crons.schedules.put("remind", "42", "0 * * * *")
        store.set(f"{steps}/{late}/charge", {"fence": 2, "doneAt": 2})

    clock.advance(7_000)
    store.before = put
    crons.engine.lookers.look(crons.registry.get("remind"))
    assert store.before is None
    left: Any = store.get(steps)
    assert [*left] == [late]
    assert "closed" not in store.get("cron-schedules/remind/:42")  # type: ignore[operator]  # it is a node


@pytest.mark.parametrize(
    ("is_unfinished", "is_put", "stays"), [(False, False, False), (True, False, False), (True, True, True)]
)
def test_the_steps_of_the_last_tick_go_with_the_entry(
    interrupted: tuple[FireCron, Interrupted, FakeClock], is_unfinished: bool, is_put: bool, stays: bool
) -> None:
    """Also if it was closed in the second of that tick. Those of an unfinished run go last: a put may come before."""
    crons, store, clock = interrupted
    start = "2026-11-18T08:58:00Z"
    crons.schedules.put("remind", "42", "0 9 * * *")
    at = to_milliseconds(start)
    claimed: Any = store.get("cron-schedules/remind/:42")
    claimed |= {"slot": start, "fence": at, "expiresAt": at, "holder": "it", "acquiredAt": at}
    store.set("cron-schedules/remind/:42", claimed | ({"unfinished": start} if is_unfinished else {"releasedAt": at}))
    crons.schedules.remove("remind", "42")
    store.set(f"cron-steps/remind:42/{start}/charge", {"fence": 1, "doneAt": 1})

    def put() -> None:
        store.before = None
        if is_put:
            crons.schedules.put("remind", "42", "0 * * * *")

    clock.advance(7_000)
    store.before = put
    crons.engine.lookers.look(crons.registry.get("remind"))
    assert (store.get("cron-steps/remind:42") is not None) == stays
    assert (store.get("cron-schedules/remind/:42") is not None) == is_put


@pytest.mark.parametrize(("rank", "looks"), [(None, True), (0.0, True), (2.0, True), (3.0, False)])
def test_as_many_instances_look_as_the_job_says(reminders: Reminders, rank: float | None, looks: bool) -> None:
    """Those of the lowest ranks; each, while nobody knows how many there are."""
    clock = FakeClock("2026-11-18T08:59:30Z")
    store = MemoryStore(clock.now)
    crons = FireCron(reminders, settings=load(), store=store, timing=clock, crew=Inline(), has_threads=False)
    crew = Inline()
    lookers = Lookers(crons.database, crons.registry, lambda name: rank, crons.engine.lanes, crons.history, crew, crew)
    asked: list[bool] = []
    lookers.asked = lambda: asked.append(True)
    lookers.beat()
    crons.work()
    assert bool(asked) == looks


class Refusing(MemoryStore):
    """A database that answers queries with an error: those for times, or all of them."""

    error: StoreError | None = None
    refuses_all = False

    def query(self, path: str, order_by: str, deadline: Deadline, **rest: Any) -> list[tuple[str, object]]:
        if self.error is not None and (self.refuses_all or order_by == "nextAt"):
            raise self.error
        return super().query(path, order_by, deadline, **rest)


@pytest.mark.parametrize("error", [Unavailable("no answer"), NoIndex("no index")])
def test_what_is_planned_stays_planned_while_no_query_is_answered(reminders: Reminders, error: StoreError) -> None:
    """Only a reply replaces it: what is due between two beats runs."""
    clock = FakeClock("2026-11-18T08:59:10Z")
    store = Refusing(clock.now)
    crons = FireCron(reminders, settings=load(), store=store, timing=clock, crew=Inline(), has_threads=False)
    job = crons.registry.get("remind")
    crons.schedules.put("remind", "42", "0 9 * * *")
    crons.engine.lookers.look(job)
    store.error, store.refuses_all = error, True
    clock.advance(30)
    crons.engine.lookers.look(job)
    clock.advance(21)
    crons.work()
    assert [key for key, _ in reminders.sent] == [f"remind:42:{NINE}"]


def test_without_an_index_each_beat_serves_what_was_read(reminders: Reminders) -> None:
    """All entries are read every five minutes, and what is due by the next reading is planned until then."""
    clock = FakeClock("2026-11-18T08:56:00Z")
    store = Refusing(clock.now)
    crons = FireCron(reminders, settings=load(), store=store, timing=clock, crew=Inline(), has_threads=False)
    job = crons.registry.get("remind")
    crons.schedules.put("remind", "42", "58 8 * * *")
    crons.schedules.put("remind", "43", "8 9 * * *")
    store.error = NoIndex("no index")
    for _ in range(30):
        crons.engine.lookers.look(job)
        clock.advance(30)
        crons.work()
    assert [key for key, _ in reminders.sent] == ["remind:42:2026-11-18T08:58:00Z", "remind:43:2026-11-18T09:08:00Z"]


def test_without_an_index_entries_without_a_time_are_mended(reminders: Reminders) -> None:
    """They are read with all others, and run at their next tick."""
    clock = FakeClock("2026-11-18T08:56:00Z")
    store = Refusing(clock.now)
    crons = FireCron(reminders, settings=load(), store=store, timing=clock, crew=Inline(), has_threads=False)
    for key in ("42", "43"):
        crons.schedules.put("remind", key, "58 8 * * *")
        store.set(f"cron-schedules/remind/:{key}/nextAt", None if key == "42" else "soon")
    store.error = NoIndex("no index")
    crons.engine.lookers.look(crons.registry.get("remind"))
    for _ in range(2):
        clock.advance(60.5)
        crons.work()
    assert sorted(key[:9] for key, _ in reminders.sent) == ["remind:42", "remind:43"]


class Rung(MemoryStore):
    """A database that notes the queries; the test is the stream."""

    def __init__(self, now: Any) -> None:
        super().__init__(now)
        self.queries: list[tuple[str, Any]] = []
        self.reads: list[str] = []
        self.after_query: Any = None

    def read(self, path: str, deadline: Deadline) -> Any:
        self.reads.append(path)
        return super().read(path, deadline)

    def query(self, path: str, order_by: str, deadline: Deadline, **rest: Any) -> list[tuple[str, object]]:
        self.queries.append((path.removeprefix("cron-schedules/"), rest.get("start")))
        found = super().query(path, order_by, deadline, **rest)
        after, self.after_query = self.after_query, None
        if after is not None:
            after()
        return found

    def watch(self, path: str, deadline: Deadline) -> Any:
        raise AssertionError("no stream has a thread here")


def test_a_burst_of_bells_is_followed_by_one_look_a_second(reminders: Reminders) -> None:
    """One stream has the bells of all jobs. A look because of a bell asks for what is due soon, and nothing else."""
    clock = FakeClock("2026-11-18T08:00:00Z")
    store = Rung(clock.now)
    crons = FireCron(reminders, settings=load(), store=store, timing=clock, crew=Inline(), has_threads=False)
    lookers, streams = crons.engine.lookers, crons.database.streams
    follows: list[Follow] = []
    streams.begin = lambda run: None
    streams.add = follows.append  # type: ignore[method-assign, assignment]  # noted, not opened
    for name in ("remind", "nightly"):
        lookers.look(crons.registry.get(name))
    assert {follow.path for follow in follows} == {"cron-bell"}
    follow, numbers = follows[0], count(1)

    def ring(*names: str) -> None:
        now = to_milliseconds(clock.time)
        follow.update = Update(next(numbers), dict.fromkeys(names, now))
        follow.wake()
        crons.work()

    clock.advance(10)
    crons.work()
    store.queries.clear()
    for _ in range(10):
        ring("remind")
        clock.advance(0.05)
    assert [name for name, _ in store.queries] == ["remind"]
    for _ in range(2):
        clock.advance(1)
        crons.work()
    assert [name for name, _ in store.queries] == ["remind", "remind"]
    start = to_milliseconds("2026-11-18T08:00:10Z") - crons.registry.get("remind").options.grace
    assert store.queries[0] == ("remind", start)
    ring("nightly")
    assert [name for name, _ in store.queries] == ["remind", "remind", "nightly"]


@pytest.mark.parametrize("line", [None, "0 9 * * *"])
def test_who_loses_three_claims_in_a_row_asks_again(line: str | None) -> None:
    """Whatever the claims are refused for: the only tick of an instant closes its entry. The rest is not read."""
    clock = FakeClock("2026-11-18T08:59:50Z")
    store = Rung(clock.now)
    first, second = (
        FireCron(Reminders(), settings=load(), store=store, timing=clock, crew=Inline(), has_threads=False)
        for _ in range(2)
    )
    for key in range(12):
        at = None if line else datetime(2026, 11, 18, 9, tzinfo=UTC)
        first.schedules.put("remind", str(key), line, at=at)
    clock.advance(10)
    store.reads.clear()
    look, job = second.engine.lookers.look, second.registry.get("remind")
    store.after_query = lambda: first.engine.lookers.look(first.registry.get("remind"))
    look(job)
    read = [path for path in store.reads if path.startswith("cron-schedules/")]
    assert len(read) == 12 + 3
    soon = to_milliseconds(NINE) - job.options.grace
    assert [start for _, start in store.queries].count(soon) == 3


def test_an_instance_that_does_not_take_the_arguments_leaves_the_entry(test: Rehearsal, reminders: Reminders) -> None:
    """As of another revision: it says so once for all of them, and doesn't ask. They wait for those that take them."""
    elsewhere = LockService(settings=load(), store=test.store, timing=test.clock, has_threads=False)
    for key in ("42", "43"):
        elsewhere.schedules.put("remind", key, "0 9 * * *", args={"whom": key})
    test.move_to("2026-11-18T09:00:30Z")
    assert reminders.sent == []
    assert "closed" not in node(test)
    said = [event for event in test.events if event.slug == "schedules.malformed"]
    assert ["no argument 'whom'" in event.message for event in said if event.level == logging.WARNING] == [True]


def test_a_run_by_hand_of_an_entry(test: Rehearsal, reminders: Reminders) -> None:
    """It has the arguments of the entry, claims no tick, and is refused once the entry is removed."""
    test.schedules.put("remind", "42", "0 9 * * *", args={"event": "now"})
    assert test.run("remind:42").outcome == "succeeded"
    assert [event for _, event in reminders.sent] == ["now"]
    test.schedules.remove("remind", "42")
    refusal = test.run("remind:42").refusal
    assert refusal is not None
    assert refusal.reason == "removed"
