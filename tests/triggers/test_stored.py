"""Triggers of stored schedules: `POST /remind:42` runs that one, with its arguments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from tests.page.paging import Shell
from tests.stores.least_privilege import RULES
from tests.triggers.triggering import NINE, Instance

from firecron import FireCron, Run, distributed_cron, scheduled
from firecron.base.instants import to_milliseconds
from firecron.settings import load
from rtdb_emulator.pytest_plugin import Rtdb

NODE = "cron-schedules/remind/:42"


class Jobs:
    def __init__(self) -> None:
        self.sent: list[tuple[str, str, str]] = []

    @scheduled("remind", lock_ttl=60)
    def remind(self, run: Run, event: str = "") -> None:
        self.sent.append((run.idempotency_key.partition(":manual")[0], run.trigger, event))

    @distributed_cron("digest", "0 9 * * *")
    def digest(self) -> None: ...


@pytest.fixture
def jobs(rtdb: Rtdb) -> Jobs:
    """With a schedule that was put long ago."""
    rtdb.set_rules(RULES)
    return Jobs()


@pytest.fixture
def instance(rtdb: Rtdb, jobs: Jobs, request: pytest.FixtureRequest) -> Iterator[Instance]:
    crons = FireCron(jobs, settings=load(workers=2), enabled=False)
    crons.schedules.put("remind", "42", "0 9 * * *", args={"event": "dinner"})
    rtdb.set(f"{NODE}/since", to_milliseconds("2020-01-04T09:00:00Z"))
    with crons:
        yield Instance(crons, getattr(request, "param", "asgi"), {"trust_cloud_run_iam": True})


@pytest.mark.parametrize("instance", get_args(Shell), indirect=True)
def test_a_trigger_runs_an_entry_at_its_tick_once(instance: Instance, jobs: Jobs, rtdb: Rtdb) -> None:
    """With the arguments of its node; the next request for the tick finds it done, and the history has its key."""
    first = instance.post(NINE, "remind:42")
    assert (first.status, first.body["result"], first.body["job"], first.body["slot"]) == (
        200,
        "succeeded",
        "remind:42",
        NINE,
    )
    again = instance.post(NINE, "remind:42")
    assert again.said == (200, "already_done")
    assert jobs.sent == [(f"remind:42:{NINE}", "http", "dinner")]
    history: Any = rtdb.get("cron-runs/remind")
    assert list(history) == [f"{NINE}:42"]


def test_a_trigger_without_a_tick_runs_it_by_hand(instance: Instance, jobs: Jobs, rtdb: Rtdb) -> None:
    """No tick of it is claimed."""
    assert instance.post(None, "remind:42").said == (200, "succeeded")
    assert jobs.sent == [("remind:42", "http", "dinner")]
    assert rtdb.get(f"{NODE}/slot") is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("remind:43", (200, "removed")),
        ("remind", (400, "bad_request")),
        ("remind:manual", (400, "bad_request")),
        ("remind:a b", (400, "bad_request")),
        ("digest:42", (404, "unknown_job")),
        ("nobody:42", (404, "unknown_job")),
    ],
)
def test_a_trigger_of_what_is_not_there_runs_nothing(
    instance: Instance, jobs: Jobs, name: str, said: tuple[int, str]
) -> None:
    """A schedule that is absent was removed, perhaps a moment ago; a job of stored schedules needs a key."""
    assert instance.post(NINE, name).said == said
    assert jobs.sent == []


def test_a_removed_or_paused_entry_is_refused(instance: Instance, jobs: Jobs, rtdb: Rtdb) -> None:
    """A pause of the entry counts, that of its job, and a removal."""
    for path in (f"{NODE}/paused", "cron-locks/remind/paused"):
        rtdb.set(path, True)
        assert instance.post(NINE, "remind:42").said == (200, "paused")
        rtdb.set(path, None)
    instance.crons.schedules.remove("remind", "42")
    assert instance.post(NINE, "remind:42").said == (200, "removed")
    assert jobs.sent == []


def test_the_overview_shows_a_job_of_stored_schedules(instance: Instance, rtdb: Rtdb) -> None:
    """With its pause and the newest of its runs. Its schedules are its entries', so the job has none."""
    instance.post(NINE, "remind:42")
    rtdb.set("cron-locks/remind/paused", True)
    shown = {job["job"]: job for job in instance.call("GET", "/").body["jobs"]}
    assert [*shown] == ["remind", "digest"]
    job = shown["remind"]
    assert (job["schedule"], job["timezone"], job["next"]) == (None, None, None)
    assert (job["paused"], job["last_run"]["slot"], job["last_run"]["outcome"]) == (True, NINE, "succeeded")
