"""Stored schedules under the shipped rules, with the threads of an instance: the bell, the index, the second user."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from tests.stores.least_privilege import RULES

from firecron import FireCron, LockService, Run, distributed_cron, scheduled
from firecron.base.events import Event
from firecron.base.instants import to_milliseconds
from firecron.errors import Denied
from firecron.ops.doctor import examine
from firecron.settings import load
from rtdb_emulator.pytest_plugin import Rtdb

PATIENCE = 30
# Seconds. A first put counts from three of them on.
MARGIN = 0.2
EACH_SECOND = timedelta(seconds=1)


class Job:
    """A stored job that says when it has run."""

    def __init__(self) -> None:
        self.ran = threading.Semaphore(0)
        self.keys: list[str] = []

    @scheduled("remind", lock_ttl=30)
    def remind(self, run: Run) -> None:
        self.keys.append(run.idempotency_key)
        self.ran.release()


@pytest.fixture
def job() -> Job:
    return Job()


@pytest.fixture
def started(rtdb: Rtdb) -> Iterator[Callable[..., FireCron]]:
    stops: list[FireCron] = []

    def start(*jobs: object, **settings: Any) -> FireCron:
        settings = {"database_url": rtdb.url, "uid": "firecron", "margin": MARGIN, **settings}
        found = FireCron(*jobs, settings=load(**settings), enabled=True, chance=lambda: 0.0)
        stops.append(found)
        return found

    yield start
    for crons in stops:
        crons.stop()


def test_a_put_that_is_soon_due_runs_between_two_beats(rtdb: Rtdb, job: Job, started: Callable[..., FireCron]) -> None:
    """Lookers hear the bell: the next beat is half a minute away. Another program puts, as its own user."""
    rtdb.set_rules(RULES)
    crons = started(job)
    asked = threading.Event()
    crons.engine.lookers.asked = asked.set
    crons.start()
    assert asked.wait(PATIENCE)
    writer = LockService(settings=load(database_url=rtdb.url, uid="firecron-scheduler", margin=MARGIN))
    assert writer.schedules.put("remind", "42", every=EACH_SECOND)
    assert job.ran.acquire(timeout=PATIENCE)
    assert job.keys[0].startswith("remind:42:")


def test_without_rules_all_entries_are_read(rtdb: Rtdb, job: Job, started: Callable[..., FireCron]) -> None:
    """An ERROR says what to deploy, and what is due runs all the same."""
    seen: list[Event] = []
    crons = started(job)
    crons.schedules.put("remind", "42", every=EACH_SECOND)
    crons.events.subscribe(seen.append)
    crons.start()
    assert job.ran.acquire(timeout=PATIENCE)
    assert any(event.slug == "schedules.no_index" and "firecron rules" in event.message for event in seen)


def test_what_is_long_due_is_looked_at_as_well(rtdb: Rtdb, job: Job, started: Callable[..., FireCron]) -> None:
    """An entry of an outage is passed, with its missed ticks in the history, beside those that are due now."""
    rtdb.set_rules(RULES)
    crons = started(job)
    crons.schedules.put("remind", "old", "0 0 1 1 *")
    long_ago = to_milliseconds(datetime.now(UTC) - timedelta(days=800))
    for name in ("since", "nextAt"):
        rtdb.set(f"cron-schedules/remind/:old/{name}", long_ago)
    crons.schedules.put("remind", "new", every=EACH_SECOND)
    passed = threading.Event()
    crons.events.subscribe(lambda event: passed.set() if event.slug == "books.missed" else None)
    crons.start()
    assert job.ran.acquire(timeout=PATIENCE)
    assert passed.wait(PATIENCE)
    crons.stop()
    node: Any = rtdb.get("cron-schedules/remind/:old")
    assert node["nextAt"] > to_milliseconds(datetime.now(UTC))


def test_rules_that_are_older_stop_no_other_job(
    rtdb: Rtdb, job: Job, started: Callable[..., FireCron], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a stored job they refuse the entry in the catalogue and each look: both are said once, and so does the doctor,
    with what to deploy.
    """
    rtdb.set_rules(older())
    ticked = threading.Semaphore(0)

    @distributed_cron("tick", "* * * * * *")
    def tick() -> None:
        ticked.release()

    crons = started(job, tick, heartbeat=1)
    seen: list[Event] = []
    crons.events.subscribe(seen.append)
    looks = threading.Semaphore(0)
    crons.engine.lookers.asked = looks.release
    crons.start()
    for _ in range(3):
        assert looks.acquire(timeout=PATIENCE)
    assert ticked.acquire(timeout=PATIENCE)
    crons.engine.publisher.wait(PATIENCE)
    crons.stop()
    for slug, words in (("catalogue.failed", "was written without remind, whose"), ("schedules.failed", '"remind"')):
        (said,) = (event for event in seen if event.slug == slug and event.level >= logging.WARNING)
        assert words in said.message
        assert "firecron rules" in said.message
    assert list(cast("dict[str, Any]", rtdb.get("cron-jobs"))) == ["tick"]
    monkeypatch.setenv("FIRECRON_UID", "firecron")
    (told,) = (finding for finding in examine() if "cron-schedules" in finding.message)
    assert told.remedy is not None
    assert told.remedy.command == "firecron rules"


def older() -> str:
    """The rules without stored schedules: neither the nodes nor such a job in the catalogue."""
    text = re.sub(
        r"    // Stored schedules: what.*?(?=    // What ran, and how)", "", RULES.read_text("utf-8"), flags=re.DOTALL
    )
    assert "cron-bell" not in text
    is_stored = "newData.child('stored').val() === true"
    assert is_stored in text
    return text.replace(is_stored, "false")


def test_the_catalogue_says_what_a_stored_job_takes(rtdb: Rtdb, job: Job, started: Callable[..., FireCron]) -> None:
    """In a request of its own, which the shipped rules let pass."""
    rtdb.set_rules(RULES)
    crons = started(job)
    crons.start()
    crons.engine.publisher.wait(PATIENCE)
    entry: Any = rtdb.get("cron-jobs/remind")
    assert (entry["stored"], entry["lookers"], entry["keepClosed"]) == (True, 3, 86_400)


def test_a_program_that_makes_schedules_touches_no_lock(rtdb: Rtdb) -> None:
    """It puts, lists and removes; it can't acquire, pause, or read what is not its business."""
    rtdb.set_rules(RULES)
    service = LockService(settings=load(database_url=rtdb.url, uid="firecron-scheduler"))
    assert service.schedules.put("remind", "42", "0 9 * * *", args={"a": 1})
    assert [one.key for one in service.schedules.list("remind")] == ["42"]
    assert service.schedules.remove("remind", "42") is False
    assert service.schedules.put("remind", "42", "0 9 * * *")
    refusal: Any = service.acquire("remind", 30)
    assert refusal.reason == "denied"
    with pytest.raises(Denied):
        service.read("remind")
    with pytest.raises(Denied):
        service.pause("remind:42")


def test_a_job_that_is_added_later_is_declared(rtdb: Rtdb, job: Job, started: Callable[..., FireCron]) -> None:
    """The catalogue has it, as if it had been there from the start."""

    @scheduled("late", lookers=5)
    def late(event: str) -> None: ...

    rtdb.set_rules(RULES)
    crons = started(job)
    crons.start()
    crons.engine.publisher.wait(PATIENCE)
    crons.registry.add(late)
    crons.engine.publisher.wait(PATIENCE)
    entry: Any = rtdb.get("cron-jobs/late")
    assert (entry["stored"], entry["lookers"], entry["parameters"]) == (True, 5, "event")
