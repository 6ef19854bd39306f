"""`GET /health`: what a monitoring service hears of the jobs, and who may ask."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from jsonschema import validate
from tests.catalogued import HOUR, Catalogue, now
from tests.cli.schemas import HEALTH
from tests.page.paging import Reply, Shell
from tests.triggers.triggering import AUDIENCE, EMAIL, Fleet, Google, Instance, google

from firecron.lock.fields import hold_name
from firecron.lock.holds import JobHold, held
from firecron.triggers.access import OidcVerifier
from rtdb_emulator.pytest_plugin import Rtdb

MONITOR = "service-1@gcp-sa-monitoring-notification.iam.gserviceaccount.com"


@pytest.fixture
def catalogue(rtdb: Rtdb) -> Catalogue:
    found = Catalogue(rtdb)
    found.declare("digest")
    found.ran("digest")
    return found


@pytest.fixture(scope="module")
def certified() -> Iterator[tuple[Google, str]]:
    """Its keys take a moment to make."""
    with google() as made:
        yield made


def health(instance: Instance, method: str = "GET", query: str = "") -> Reply:
    reply = instance.call(method, f"/health{query}")
    if method == "GET":
        validate(reply.body, HEALTH)
    return reply


def test_jobs_that_are_as_they_should_be_are_200(catalogue: Catalogue, rtdb: Rtdb, shell: Shell) -> None:
    """Nor is a pause a failure, or revisions that disagree; HEAD has the status alone, and nothing is cached."""
    rtdb.set("/cron-locks/digest/paused", True)
    catalogue.dissent("digest")
    instance = Fleet().instance(shell)
    reply = health(instance)
    assert (reply.status, reply.body) == (200, {"status": "ok", "jobs": []})
    assert reply.headers["cache-control"] == "no-store"
    assert health(instance, "HEAD").status == 200


def test_jobs_that_are_held_are_200(catalogue: Catalogue, rtdb: Rtdb) -> None:
    """The word says so; a job that is not held and late is a failure nevertheless."""
    at = now()
    hold = JobHold(hold_name("0000", "ann", at), "ann", at, at + HOUR, "migrating", match="d*")
    rtdb.set("/cron-locks/digest", held(rtdb.get("/cron-locks/digest"), at, hold))
    assert health(Fleet().instance()).body == {"status": "held", "jobs": []}
    catalogue.declare("import", "*/5 * * * *")
    catalogue.ran("import", ago=2 * HOUR)
    assert health(Fleet().instance()).body["status"] == "failing"


def test_of_a_muted_job_nothing_is_said(catalogue: Catalogue, rtdb: Rtdb) -> None:
    """It is late, and that is no failure until the mute is over, by RTDB's time."""
    catalogue.declare("import", "*/5 * * * *")
    catalogue.ran("import", ago=2 * HOUR)
    rtdb.set("/cron-mutes/import", {"until": now() + HOUR, "by": "ann", "why": "known"})
    assert health(Fleet().instance()).body == {"status": "ok", "jobs": []}
    rtdb.set("/cron-mutes/import/until", now() - 1)
    assert health(Fleet().instance()).body["status"] == "failing"


def test_a_job_that_is_late_is_503(catalogue: Catalogue, shell: Shell) -> None:
    """The body names the jobs that are not as they should be, with the verdict, and none of the others."""
    catalogue.declare("import", "*/5 * * * *")
    slot = catalogue.ran("import", ago=2 * HOUR)
    instance = Fleet().instance(shell)
    reply = health(instance)
    (late,) = reply.body["jobs"]
    assert (reply.status, reply.body["status"], late["job"], late["verdict"]) == (503, "failing", "import", "late")
    assert slot < late["due"] < late["since"]
    assert f"nobody has claimed its tick {late['due']}" in late["why"]
    assert health(instance, "HEAD").status == 503


def test_a_database_that_is_away_is_503_unknown(catalogue: Catalogue, rtdb: Rtdb, shell: Shell) -> None:
    """Nobody knows then whether a job is late: that is no "ok", and the log says why, once."""
    rtdb.faults.answer(503, times=None)
    instance = Fleet().instance(shell)
    for _ in range(2):
        reply = health(instance)
        assert (reply.status, reply.body) == (503, {"status": "unknown", "jobs": []})
    (event,) = instance.said("health.unknown")
    assert "503" in event.message


def test_a_database_without_a_job_is_503_unknown(rtdb: Rtdb, shell: Shell) -> None:
    """As where it is the wrong database, or the wrong prefix: nothing says that a job runs."""
    reply = health(Fleet().instance(shell))
    assert (reply.status, reply.body) == (503, {"status": "unknown", "jobs": []})


def test_an_expected_job_that_is_not_there_is_503(catalogue: Catalogue, shell: Shell) -> None:
    """`expect` names the jobs that have to be there, once with commas or several times."""
    instance = Fleet().instance(shell)
    reply = health(instance, query="?expect=digest,import&expect=d%C3%A4%1B,digest")
    assert (reply.status, reply.body["status"]) == (503, "failing")
    assert [(one["job"], one["verdict"]) for one in reply.body["jobs"]] == [
        ("import", "undeclared"),
        ("dä\ufffd", "undeclared"),
    ]
    assert health(instance, query="?expect=digest").status == 200
    assert health(instance).status == 200


@pytest.mark.parametrize("query", ["?expect=", "?expect=,&expect=", f"?expect={','.join(f'j{n}' for n in range(501))}"])
def test_an_expectation_without_a_name_or_with_too_many_is_400(catalogue: Catalogue, query: str) -> None:
    """It is not taken for none, so that a monitoring service doesn't watch nothing."""
    assert Fleet().instance().call("GET", f"/health{query}").said == (400, "bad_request")


def test_a_catalogue_that_is_refused_is_unknown(catalogue: Catalogue, rtdb: Rtdb) -> None:
    """As under rules that are older than the catalogue: the event names the remedy."""
    rtdb.set_rules({"rules": {}})
    instance = Fleet().instance(uid="nobody")
    assert health(instance).body == {"status": "unknown", "jobs": []}
    (event,) = instance.said("health.unknown")
    assert "`firecron rules`" in event.message


def test_a_hundred_callers_at_once_cost_one_read(catalogue: Catalogue, rtdb: Rtdb) -> None:
    """They wait for the same read, and callers of the next seconds have what it found."""
    instance = Fleet().instance()
    rtdb.emulator.requests.clear()
    replies: list[Reply] = []
    together = threading.Barrier(100)

    def ask() -> None:
        together.wait(20)
        replies.append(health(instance))

    threads = [threading.Thread(target=ask) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [reply.status for reply in replies] == [200] * 100
    health(instance)
    assert [rtdb.count(path=f"/cron-{node}", method="GET") for node in ("jobs", "locks", "groups")] == [1, 1, 1]


def test_a_job_named_health_can_be_run(catalogue: Catalogue, shell: Shell) -> None:
    """The path is a monitoring service's only for GET and HEAD."""
    instance = Fleet().instance(shell)
    reply = instance.call("POST", "/health")
    assert (reply.status, reply.body["result"]) == (404, "unknown_job")


def test_a_monitoring_account_may_ask_and_run_nothing(
    catalogue: Catalogue, certified: tuple[Google, str], shell: Shell
) -> None:
    """`health_email` reads `/health` alone; who may run jobs may read it, too, and a stranger nothing."""
    made, url = certified
    access = {"verifier": OidcVerifier([AUDIENCE], [EMAIL], certs_url=url), "health_email": MONITOR}
    fleet = Fleet()
    instance = fleet.instance(shell, access)

    def status(email: str, method: str, path: str) -> int:
        return instance.call(method, path, {"Authorization": f"Bearer {made.token(email=email)}"}).status

    asked = [("GET", "/health"), ("HEAD", "/health"), ("GET", "/"), ("POST", "/digest"), ("POST", "/health")]
    assert [status(MONITOR, *one) for one in asked] == [200, 200, 403, 403, 403]
    assert fleet.runs == []
    assert [status(EMAIL, *one) for one in asked] == [200, 200, 200, 200, 404]
    assert [status("who@example.com", *one) for one in asked] == [403] * 5
    assert instance.call("GET", "/health").status == 401
