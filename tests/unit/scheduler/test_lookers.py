"""Stored schedules that run: at their ticks, with their arguments, until they are removed. On a clock of the test's."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from firecron import FireCron, LockService, Run, scheduled
from firecron.base.instants import to_milliseconds
from firecron.settings import load
from firecron.testing import Rehearsal

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
    """Its own node in `cron-locks` is read with each query."""
    test.locks.pause("remind", why="a migration")
    test.schedules.put("remind", "42", "0 * * * *")
    test.move_to("2026-11-18T09:30:00Z")
    assert reminders.sent == []
    test.locks.pause("remind", False)
    test.move_to("2026-11-18T10:00:00Z")
    assert [key for key, _ in reminders.sent] == ["remind:42:2026-11-18T10:00:00Z"]


def test_a_malformed_entry_hides_no_other(test: Rehearsal, reminders: Reminders) -> None:
    """It is looked at each hour, and closed after a day; a record that can't be read is left alone."""
    test.schedules.put("remind", "1", "0 9 * * *")
    test.schedules.put("remind", "2", "0 9 * * *")
    test.schedules.put("remind", "42", "0 9 * * *")
    test.store.set("cron-schedules/remind/:1/line", "whenever")
    test.store.set("cron-schedules/remind/:2/expiresAt", "never")
    test.move_to("2026-11-18T09:30:00Z")
    assert [key for key, _ in reminders.sent] == [f"remind:42:{NINE}"]
    test.move_to("2026-11-19T10:30:00Z")
    first: Any = test.store.get("cron-schedules/remind/:1")
    assert first is None or first["closed"] == "malformed"
    second: Any = test.store.get("cron-schedules/remind/:2")
    assert second["expiresAt"] == "never"


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


def test_an_instance_that_does_not_take_the_arguments_leaves_the_entry(test: Rehearsal, reminders: Reminders) -> None:
    """As of another revision: it says so once, and doesn't ask. The entry waits for those that take them."""
    elsewhere = LockService(settings=load(), store=test.store, timing=test.clock, has_threads=False)
    elsewhere.schedules.put("remind", "42", "0 9 * * *", args={"whom": "me"})
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
