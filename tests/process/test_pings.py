"""Pings to a monitoring service: which are sent, what they say, and that no service can delay a run."""

from __future__ import annotations

import logging
import os
import signal
import uuid
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from tests.process.ping_server import BOUND, PingServer, ping_server
from tests.process.tick_processes import HERE, Ticking, until

from firecron import ConfigurationError, FireCron, Result, Run, distributed_cron, outbox, scheduled
from firecron import pings as module
from firecron.base.events import Event
from firecron.pings import pings
from firecron.settings import load
from rtdb_emulator.pytest_plugin import Rtdb

pytest_plugins = ["tests.process.tick_fixtures"]


@pytest.fixture
def server() -> Iterator[PingServer]:
    with ping_server() as made:
        yield made


class Jobs:
    """A FireCron in production, and what it says of its pings. Each run claims a tick of its own."""

    def __init__(self, server: PingServer, shutdown_grace: float = 8, **options: object) -> None:
        self.server = server
        self.body: Callable[[Run], None] = lambda run: None
        self.lost: list[Event] = []

        @distributed_cron("Report", "* * * * * *", lock_ttl=60, **options)  # type: ignore[arg-type]  # a test's own
        def report(run: Run) -> None:
            self.body(run)

        self.crons = FireCron(report, settings=load(shutdown_grace=shutdown_grace))
        self.crons.events.subscribe(lambda event: self.lost.append(event) if event.slug == "ping.failed" else None)
        self._tick = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=40)

    def run(self) -> Result:
        self._tick += timedelta(seconds=1)
        return self.crons.registry.trigger("Report", slot=self._tick)

    def said(self) -> list[tuple[str, str]]:
        return [(ping.path, ping.body) for ping in self.server.pinged]


@contextmanager
def pinging(
    server: PingServer, shutdown_grace: float = 8, told: dict[str, str] | None = None, **job: object
) -> Iterator[Jobs]:
    """Jobs whose runs are told to this service, by their slugs or as they are `told`."""
    jobs = Jobs(server, shutdown_grace, **job)
    stop = pings(jobs.crons, **(told or {"healthchecks": server.url}))
    yield jobs
    stop()


def raising(error: Exception) -> Callable[[Run], None]:
    def body(run: Run) -> None:
        raise error

    return body


@pytest.fixture(autouse=True)
def production(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNTIME_INSTANCE", "production")
    monkeypatch.setattr(outbox, "PAUSE", 0.0)


def test_a_run_is_one_start_and_one_end(server: PingServer) -> None:
    """The start and the end of a run have the run's own id, and the next run has another one."""
    with pinging(server, expected_runtime=30) as jobs:
        jobs.run()
        jobs.run()
    assert jobs.said() == [("report/start", ""), ("report", "")] * 2
    first, last, *others = [uuid.UUID(ping.rid) for ping in server.pinged]
    assert first == last
    assert first not in others
    jobs.run()
    assert len(server.pinged) == 4


def test_without_an_expected_runtime_there_is_no_start(server: PingServer) -> None:
    """A start makes the service wait for an end, and it can't know for how long: such jobs send only the end."""
    with pinging(server) as jobs:
        jobs.run()
    assert jobs.said() == [("report", "")]


def test_a_failure_has_the_errors_first_line(server: PingServer) -> None:
    """A run that raised sends a failure, with the first line of what went wrong and without secrets."""
    with pinging(server) as jobs:
        jobs.body = raising(ValueError("no mail for password=hunter2\nsecond line"))
        jobs.run()
    ((path, body),) = jobs.said()
    assert path == "report/fail"
    assert body.startswith('"Report" failed after ')
    assert body.endswith("ValueError: no mail for password=[redacted]")


def test_a_run_by_hand_and_an_interrupted_one_send_no_end(server: PingServer) -> None:
    """A run without a tick is none that the service waits for; one that a stop has ended is rerun, or missed."""
    with pinging(server) as jobs:
        jobs.crons.registry.trigger("Report")

        def interrupted(run: Run) -> None:
            run.stopping.set()
            run.check()

        jobs.body = interrupted
        assert jobs.run().outcome == "interrupted"
    assert jobs.said() == []


@pytest.mark.parametrize(
    ("variable", "enabled", "speaks"),
    [("staging", None, False), (None, None, False), (None, True, True), ("production", False, True)],
)
def test_only_production_speaks(
    server: PingServer, monkeypatch: pytest.MonkeyPatch, variable: str | None, enabled: bool | None, speaks: bool
) -> None:
    """Staging sends nothing. A service that scales to zero does: nothing ticks there, but its runs are production's."""
    monkeypatch.delenv("RUNTIME_INSTANCE")
    if variable is not None:
        monkeypatch.setenv("RUNTIME_INSTANCE", variable)

    @distributed_cron("report", "* * * * * *", lock_ttl=60)
    def report() -> None: ...

    crons = FireCron(report, enabled=enabled)
    stop = pings(crons, healthchecks=server.url)
    crons.registry.trigger("report", slot=datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=2))
    stop()
    assert bool(server.pinged) == speaks


def test_templates_are_filled_and_quoted(server: PingServer) -> None:
    """Any service can be told, by URLs with the job, the run and the error in them."""
    with pinging(server, told={"fail": f"{server.url}/{{job}}/{{slug}}?rid={{rid}}&why={{error}}"}) as jobs:
        jobs.run()
        jobs.body = raising(ValueError("a & b"))
        jobs.run()
    assert jobs.said() == [("Report/report", "")]


def test_an_error_in_a_url_is_no_longer_than_servers_take(server: PingServer) -> None:
    """In a URL a character may take twelve; a server that refuses the line would lose the failure."""
    with pinging(server, told={"fail": f"{server.url}?rid={{rid}}&why={{error}}"}) as jobs:
        jobs.body = raising(ValueError("\N{SEEDLING}" * 2_000))
        jobs.run()
    assert jobs.lost == []
    assert 5_000 < server.longest < 8_000


def test_credentials_in_a_url_are_sent_as_basic_authentication(server: PingServer) -> None:
    """A server of your own may ask for a user and a password; no error names them."""
    with pinging(server, told={"healthchecks": server.url.replace("//", "//ann:p%40ss@")}) as jobs:
        jobs.run()
        server.statuses = [401]
        jobs.run()
    assert {ping.authorization for ping in server.pinged} == {f"Basic {b64encode(b'ann:p@ss').decode()}"}
    assert jobs.lost[0].fields["why"] == "the service returned 401"


def test_what_the_service_does_not_take_is_sent_twice_and_then_lost(server: PingServer) -> None:
    """An error of the service costs one more try; after the second one `ping.failed` says so, without the URL."""
    with pinging(server) as jobs:
        server.statuses = [503, 200, 500, 500]
        jobs.run()
        jobs.run()
    assert len(server.pinged) == 4
    (lost,) = jobs.lost
    assert lost.level == logging.WARNING
    assert (lost.name, lost.fields["kind"]) == ("Report", "success")
    assert lost.fields["why"] == "the service returned 500"
    assert "key" not in lost.message


def test_an_unknown_check_is_said_with_the_remedy(server: PingServer) -> None:
    """A 404 is not tried again: it says which check to create."""
    with pinging(server) as jobs:
        server.statuses = [404]
        jobs.run()
    assert len(server.pinged) == 1
    assert "create one with the slug 'report'" in jobs.lost[0].message


@pytest.mark.parametrize(
    ("status", "why"),
    [(404, "the service returned 404"), (301, "the service returned 301: redirects are not followed; give the URL")],
)
def test_another_services_refusal_names_no_check(server: PingServer, status: int, why: str) -> None:
    """A service that is told by a URL has no checks, and a redirect isn't followed: each is said once, as it is."""
    with pinging(server, told={"success": f"{server.url}?rid={{rid}}"}) as jobs:
        server.statuses = [status]
        jobs.run()
    assert len(server.pinged) == 1
    said = str(jobs.lost[0].fields["why"])
    assert said.startswith(why)
    assert "slug" not in said


def test_a_service_that_is_not_there_costs_its_pings_only(server: PingServer) -> None:
    """Nobody listens at the address: the run succeeds, and the ping is lost."""
    with pinging(server, told={"success": "http://127.0.0.1:1/{slug}"}) as jobs:
        assert jobs.run().outcome == "succeeded"
    assert "refused" in str(jobs.lost[0].fields["why"])


def test_a_service_that_hangs_delays_no_run(server: PingServer, rtdb: Rtdb) -> None:
    """Runs end, and their locks are free, while the service keeps the first ping; later pings wait in their order."""
    with pinging(server) as jobs:
        server.may_answer.clear()
        assert [jobs.run().outcome for _ in range(3)] == ["succeeded"] * 3
        lock = rtdb.get("/cron-locks/Report")
        assert isinstance(lock, dict)
        assert "releasedAt" in lock
        server.wait_for(1)
        server.may_answer.set()
    assert len({ping.rid for ping in server.pinged}) == 3


def test_a_stop_waits_for_no_service_beyond_its_grace(
    server: PingServer, monkeypatch: pytest.MonkeyPatch, rtdb: Rtdb
) -> None:
    """Pings that wait have what is left of the instance's grace and no more, also at the end of the process; a hanging
    service doesn't keep the instance from ending. Here its own last moments would outlast the test.
    """
    monkeypatch.setattr(outbox, "LAST_MOMENTS", 3_600.0)
    monkeypatch.setattr(module, "TIMEOUT", 3_600.0)
    jobs = Jobs(server, shutdown_grace=0.2)
    stop = pings(jobs.crons, healthchecks=server.url)
    server.may_answer.clear()
    jobs.crons.start()
    jobs.run()
    server.wait_for(1)
    jobs.crons.stop()
    stop()
    server.may_answer.set()


def test_a_service_that_drips_has_no_more_than_the_time(server: PingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply that comes a byte at a time doesn't prolong the ping: its deadline is one for the whole of it."""
    monkeypatch.setattr(module, "TIMEOUT", 0.2)
    with pinging(server) as jobs:
        server.drips = True
        server.may_answer.clear()
        jobs.run()
        until(lambda: bool(jobs.lost), "the lost ping")
        assert "TimeoutError" in jobs.lost[0].message


def test_a_service_that_floods_is_not_read(server: PingServer) -> None:
    """A reply without an end fills no memory: its status counts, and the rest of it is left."""
    with pinging(server) as jobs:
        server.floods = True
        jobs.run()
        jobs.run()
    assert len(server.pinged) == 2
    assert jobs.lost == []


def test_the_queue_is_bounded(server: PingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes while too many wait is lost, and said so; the waiting ones are sent."""
    monkeypatch.setattr(outbox, "MOST_WAITING", 2)
    with pinging(server) as jobs:
        server.may_answer.clear()
        jobs.run()
        server.wait_for(1)  # it is under way, and waits no more
        for _ in range(3):
            jobs.run()
        assert [event.fields["why"] for event in jobs.lost] == ["2 pings wait already: the service is too slow"]
        server.may_answer.set()
    assert len(server.pinged) == 3


# Python from 3.12 on warns of any fork of a process with threads.
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_sends_nothing_of_its_parents(server: PingServer) -> None:
    """The pings that wait are the parent's: a forked child has none of them, and doesn't wait for them."""
    jobs = Jobs(server)
    stop = pings(jobs.crons, healthchecks=server.url)
    server.may_answer.clear()
    jobs.run()
    server.wait_for(1)
    jobs.run()
    child = os.fork()
    if child == 0:
        signal.alarm(int(BOUND))
        stop()
        os.execvp("true", ["true"])
    assert os.waitpid(child, 0)[1] == 0
    assert len(server.pinged) == 1
    server.may_answer.set()
    stop()
    assert len({ping.rid for ping in server.pinged}) == len(server.pinged) == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "either healthchecks=, or at least one of start=, success= and fail="),
        ({"healthchecks": "k" * 22, "fail": "https://x.example"}, "either healthchecks="),
        ({"healthchecks": "my secret key"}, "healthchecks= is no ping key"),
        ({"healthchecks": "https://secret.example/ping/key?a=b"}, "healthchecks= has a query or a fragment"),
        ({"healthchecks": "ftp://secret.example/ping/key"}, "healthchecks= is no URL"),
        ({"success": "secret.example/{job}"}, "success= is no URL"),
        ({"fail": "https://secret.example/{name}"}, "fail= has the field {name}"),
        ({"fail": "https://secret.example/{job:{x}}"}, "fail= has the field {job:{x}}: there are"),
        ({"fail": "https://secret.example/{job!z}"}, "fail= has the field {job!z}: there are"),
        ({"fail": "https://secret.example/{"}, "fail= is no URL"),
        ({"fail": "https://secret.example:port/"}, "fail= is no URL"),
        ({"fail": "https://secret.example/a b"}, "fail= has a character that no URL has"),
        ({"fail": "https://secret.example/ä"}, "fail= has a character that no URL has"),
        ({"fail": "https://secret.example/\n"}, "fail= has a character that no URL has"),
        ({"start": "https://secret.example/{job}#top"}, "start= has a #: what follows it is a fragment"),
        ({"fail": "https://secret.example/?rid={rid}#"}, "fail= has a #: what follows it is a fragment"),
        ({"success": "https://secret.example/{job:#x}"}, "success= has the field {job:#x}: there are"),
    ],
)
def test_what_can_not_be_used_is_said_without_the_secret(given: dict[str, str], message: str) -> None:
    """A key or URL that can't work is an error at once. The error doesn't quote it."""
    with pytest.raises(ConfigurationError) as caught:
        pings(FireCron(), **given)
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)


def test_two_jobs_do_not_share_a_check() -> None:
    """Slugs are lower case, so two names that differ in case alone would be one check: that is refused."""
    declared = [distributed_cron(name, "0 9 * * *")(lambda: None) for name in ("Report", "report", "other")]
    with pytest.raises(ConfigurationError, match=r"the jobs Report, report have one check, 'report', between them"):
        pings(FireCron(*declared), healthchecks="0123456789abcdef")


def test_five_processes_make_one_start_and_one_end_a_run(server: PingServer, ticks: Ticking) -> None:
    """Five instances want each of a hundred ticks: each run is one start and one end, in pings and in check-ins."""
    app = str(HERE / "apps" / "told.py")
    first = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(hours=3)
    instances = [ticks.start(app, first.isoformat(), "100", PING_URL=server.url) for _ in range(5)]
    assert [instance.wait() for instance in instances] == [0] * 5
    assert len({line["slot"] for line in ticks.lines("start")}) == len(ticks.lines("start")) == 100
    told = Counter((ping.path.partition("/")[2] or "end", ping.rid) for ping in server.pinged)
    assert set(told.values()) == {1}
    assert Counter(kind for kind, _ in told) == {"start": 100, "end": 100}
    check_ins = Counter((line["status"], line["id"]) for line in ticks.lines("check-in"))
    assert set(check_ins.values()) == {1}
    assert Counter(status for status, _ in check_ins) == {"in_progress": 100, "ok": 100}


def test_the_ping_of_a_stored_schedule_has_no_key(server: PingServer, rtdb: Rtdb) -> None:
    """The check is that of the job; neither its URL nor what it says of a failure names whose schedule it was."""

    @scheduled("Remind", lock_ttl=60, expected_runtime=30)
    def remind(run: Run) -> None:
        raise ValueError("no mail server")

    crons = FireCron(remind)
    crons.schedules.put("Remind", "ada-lovelace", "* * * * * *")
    rtdb.set("cron-schedules/Remind/:ada-lovelace/since", 1)
    stop = pings(crons, healthchecks=server.url)
    tick = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=5)
    assert crons.registry.trigger("Remind:ada-lovelace", slot=tick).outcome == "failed"
    stop()
    first, last = server.pinged
    assert (first.path, last.path) == ("remind/start", "remind/fail")
    assert first.rid == last.rid
    assert last.body.startswith('"Remind" failed after ')
    assert "ada" not in last.body
