"""What a trigger has: the list of the jobs, those that run there, and the methods that it takes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.page.paging import Shell, wsgi_call
from tests.triggers.test_slots import IMPATIENT, LOCK, boom
from tests.triggers.triggering import NINE, TEN, Fleet

from rtdb_emulator.pytest_plugin import Rtdb


@pytest.mark.parametrize(
    ("options", "settings", "said"),
    [
        ({"role": "mailer"}, {}, (404, "elsewhere")),
        ({"role": "mailer"}, {"roles": ("mailer",)}, (200, "succeeded")),
        ({"disabled": True}, {}, (200, "disabled")),
    ],
)
def test_where_a_job_does_not_run_it_is_not_triggered(
    rtdb: Rtdb, shell: Shell, options: dict[str, Any], settings: dict[str, Any], said: tuple[int, str]
) -> None:
    """A job of a role that the service lacks is 404 there; one that is declared disabled is 200, and doesn't run."""
    fleet = Fleet(options)
    one = fleet.instance(shell, **settings)
    assert [one.post(NINE).said, one.post().said] == [said, said]
    assert len(fleet.runs) == (2 if said[1] == "succeeded" else 0)


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("POST", "/nothing", 404, None),
        ("POST", "/digest/", 404, None),
        ("POST", "/digest/more", 404, None),
        ("GET", "/nothing", 404, None),
        ("GET", "/digest", 405, "POST"),
        ("PUT", "/digest", 405, "POST"),
        ("OPTIONS", "/digest", 405, "POST"),
        ("HEAD", "/digest", 405, "POST"),
        ("POST", "/", 405, "GET, HEAD"),
        ("DELETE", "/", 405, "GET, HEAD"),
        ("HEAD", "/", 200, None),
    ],
)
def test_other_names_and_methods_are_refused(
    rtdb: Rtdb, shell: Shell, method: str, path: str, status: int, allow: str | None
) -> None:
    """What is no job is 404, and another method than a path has is 405, with those that it has."""
    fleet = Fleet()
    reply = fleet.instance(shell).call(method, path)
    assert (reply.status, reply.headers.get("allow")) == (status, allow)
    assert not fleet.runs


def test_two_slashes_lead_nowhere(rtdb: Rtdb) -> None:
    """Flask would redirect them, before anybody is asked who it is, to an address by the Host of the request."""
    reply = wsgi_call(Fleet().instance("flask").wsgi, "POST", "/cron//digest")
    assert (reply.status, "location" in reply.headers) == (404, False)


def test_the_overview_shows_jobs_and_their_last_runs(rtdb: Rtdb, shell: Shell) -> None:
    """GET / answers the jobs, their states, whether an operator has paused them, last runs and next slots."""
    one = Fleet().instance(shell)
    empty = one.call("GET", "/")
    (job,) = empty.body["jobs"]
    assert (job["job"], job["schedule"], job["timezone"], job["state"]) == ("digest", "0 9 * * *", "UTC", "idle")
    assert (job["paused"], job["last_run"]) == (False, None)
    following = datetime.fromisoformat(job["next"])
    assert (following.hour, following > datetime.now(UTC)) == (9, True)
    for slot in (NINE, TEN):
        one.post(slot)
    rtdb.set(f"{LOCK}/paused", True)
    full = one.call("GET", "/")
    (job,) = full.body["jobs"]
    assert (full.status, job["paused"]) == (200, True)
    assert (job["last_run"]["slot"], job["last_run"]["outcome"], job["last_run"]["trigger"]) == (
        TEN,
        "succeeded",
        "http",
    )


@pytest.mark.parametrize(("answer", "status"), [(503, 503), (401, 500)])
def test_the_overview_says_what_is_known_without_the_database(
    rtdb: Rtdb, shell: Shell, answer: int, status: int
) -> None:
    """Where RTDB doesn't answer the status says so, and the body has the jobs, with null for what it would know."""
    one = Fleet().instance(shell, **IMPATIENT)
    rtdb.faults.answer(answer, times=None)
    reply = one.call("GET", "/")
    (job,) = reply.body["jobs"]
    assert (reply.status, job["job"], job["paused"], job["last_run"]) == (status, "digest", None, None)
    assert reply.body["error"]


def test_a_job_under_a_prefix_is_found(rtdb: Rtdb) -> None:
    """With a prefix the overview and the retries look where the runs are."""
    fleet = Fleet(body=boom)
    one = fleet.instance(prefix="ops/cron")
    assert [one.post(NINE).said for _ in range(2)] == [(500, "failed")] * 2
    (job,) = one.call("GET", "/").body["jobs"]
    assert job["last_run"]["slot"] == NINE
    assert len(fleet.runs) == 1


def test_jobs_there_is_no_time_for_are_listed_without_their_last_run(
    rtdb: Rtdb, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many jobs there are, the list comes, with one request for the last run of each as long as there is
    time.
    """
    one = Fleet().instance(shell)
    assert one.post(NINE).said == (200, "succeeded")
    before = rtdb.count(path="/cron-runs/*")
    assert one.call("GET", "/", {}).body["jobs"][0]["last_run"]["outcome"] == "succeeded"
    assert rtdb.count(path="/cron-runs/*") == before + 1
    database, in_all = one.crons.database, one.crons.settings.acquire_timeout
    deadline = database.deadline
    monkeypatch.setattr(database, "deadline", lambda most=None: deadline(0 if most == in_all else most))
    look = one.call("GET", "/", {})
    assert (look.status, look.body["jobs"][0]["last_run"]) == (200, None)
