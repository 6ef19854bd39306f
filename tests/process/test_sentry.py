"""Check-ins with Sentry: what its SDK hands to the network, through a transport that keeps it."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import Transport
from tests.unit.threads import PATIENCE

from firecron import ConfigurationError, FireCron, Run, Term, distributed_cron, leader, outbox, scheduled
from firecron.base.events import Event
from firecron.errors import Stopping
from firecron.sentry import LONGEST_SLUG, monitor, monitor_config
from firecron.settings import load
from rtdb_emulator.pytest_plugin import Rtdb


class Kept(Transport):
    """The payloads that Sentry would get."""

    def __init__(self) -> None:
        super().__init__()
        self.payloads: list[dict[str, Any]] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        self.payloads += [item.payload.json for item in envelope.items if item.payload.json is not None]

    @property
    def check_ins(self) -> list[dict[str, Any]]:
        return [payload for payload in self.payloads if payload.get("type") == "check_in"]


@pytest.fixture
def sentry(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    """Sentry's SDK as a program sets it up; in production."""
    monkeypatch.setenv("RUNTIME_INSTANCE", "production")
    kept = Kept()
    with sentry_sdk.isolation_scope():
        sentry_sdk.init(dsn="http://key@127.0.0.1:1/1", transport=kept, default_integrations=False)
        yield kept
        sentry_sdk.init(default_integrations=False)  # without a DSN nothing is sent


def declared(name: str = "Report", line: str | None = "0 9 * * *", **options: Any) -> Callable[..., object]:
    def work(run: Run) -> None:
        if run.name == "bad":
            sentry_sdk.capture_message("inside")
            raise ValueError("boom")
        if run.name in ("ended", "cancelled"):
            (run.stopping if run.name == "ended" else run.cancelled).set()
            run.check()

    return distributed_cron(name, line, **options)(work)


def run(crons: FireCron, name: str = "Report") -> None:
    crons.registry.trigger(name, slot=datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=2))


def test_a_run_is_one_check_in_with_a_start_and_an_end(sentry: Kept) -> None:
    """Both have the attempt's id, the monitor's slug and what to expect; the end says how long it took."""
    crons = FireCron(declared(expected_runtime=90, alert_after=3, timezone="Europe/Berlin"))
    stop = monitor(crons)
    run(crons)
    stop()
    first, last = sentry.check_ins
    assert (first["status"], last["status"]) == ("in_progress", "ok")
    assert first["check_in_id"] == last["check_in_id"]
    assert first["monitor_slug"] == last["monitor_slug"] == "report"
    assert first["monitor_config"] == {
        "schedule": {"type": "crontab", "value": "0 9 * * *"},
        "timezone": "Europe/Berlin",
        "checkin_margin": 1,
        "max_runtime": 2,
        "failure_issue_threshold": 3,
    }
    assert last["duration"] >= 0
    run(crons)
    assert len(sentry.check_ins) == 2


@pytest.mark.parametrize(("name", "status"), [("bad", "error"), ("ended", "error"), ("cancelled", "ok")])
def test_a_run_that_did_not_do_its_work_is_an_error(sentry: Kept, name: str, status: str) -> None:
    """A failure and an interruption end the check-in; nothing waits for Sentry's own time limit. A run that somebody
    has cancelled is no error.
    """
    crons = FireCron(declared(name))
    stop = monitor(crons)
    run(crons, name)
    stop()
    assert [check_in["status"] for check_in in sentry.check_ins] == ["in_progress", status]


def test_errors_from_inside_a_run_have_its_tags(sentry: Kept) -> None:
    """What a program reports while a job runs says which job and tick it was; elsewhere nothing is added."""
    crons = FireCron(declared("bad"))
    stop = monitor(crons)
    run(crons, "bad")
    sentry_sdk.capture_message("outside")
    stop()
    inside, outside = (payload for payload in sentry.payloads if "message" in payload)
    assert inside["tags"]["firecron.job"] == "bad"
    assert inside["tags"]["firecron.attempt"] == "1"
    assert inside["tags"]["firecron.slot"].endswith("Z")
    assert not any(name.startswith("firecron.") for name in outside.get("tags") or {})


def test_the_error_of_a_failed_run_has_its_tags(sentry: Kept) -> None:
    """Sentry's SDK takes that error from firecron's log, once the run has ended: its tags are there nevertheless."""
    sentry_sdk.init(dsn="http://key@127.0.0.1:1/1", transport=sentry)  # with Sentry's own integrations, as by default
    crons = FireCron(declared("bad"))
    stop = monitor(crons)
    run(crons, "bad")
    logging.getLogger("firecron").error("about no run")
    stop()
    tags = {
        payload["logentry"]["message"]: payload.get("tags") or {}
        for payload in sentry.payloads
        if "logentry" in payload
    }
    assert tags.pop("about no run") == {}
    ((_, of_run),) = tags.items()
    assert (of_run["firecron.job"], of_run["firecron.attempt"]) == ("bad", "1")
    assert of_run["firecron.slot"].endswith("Z")


def test_the_tags_say_whose_job_it_is(sentry: Kept) -> None:
    """What a program says of its job or leader is beside the error; a tag that Sentry would drop is left out."""
    runbook, has_reported = "https://wiki.example.com/", threading.Event()

    @leader("queue", ttl=15, owner="trading", runbook=runbook + "x" * 175)
    def queue(term: Term) -> None:
        """Follows the queue."""
        sentry_sdk.capture_message("leading")
        has_reported.set()
        raise Stopping

    crons = FireCron(declared("bad", owner="mail", runbook=runbook + "x" * 176), queue)
    stop = monitor(crons)
    run(crons, "bad")
    with crons:
        assert has_reported.wait(PATIENCE)
    stop()
    inside, leading = (
        payload["tags"] for payload in sentry.payloads if payload.get("message") in ("inside", "leading")
    )
    assert (inside["firecron.owner"], "firecron.runbook" in inside) == ("mail", False)
    assert "firecron.description" not in inside
    assert {name: leading[name] for name in leading if name.startswith("firecron.")} == {
        "firecron.leader": "queue",
        "firecron.description": "Follows the queue.",
        "firecron.owner": "trading",
        "firecron.runbook": runbook + "x" * 175,
    }


def test_only_ticks_of_production_check_in(sentry: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run by hand is no run that Sentry expects, and staging is no production."""
    crons = FireCron(declared())
    stop = monitor(crons)
    crons.registry.trigger("Report")
    monkeypatch.setenv("RUNTIME_INSTANCE", "staging")
    run(crons)
    stop()
    assert sentry.check_ins == []


@pytest.mark.parametrize(
    ("options", "schedule"),
    [
        ({"line": "*/15 8-10 * JAN-MAR MON,WED"}, ("crontab", "0,15,30,45 8,9,10 * 1,2,3 1,3")),
        ({"line": "30 0 9 1,15 * *"}, ("crontab", "0 9 1,15 * *")),
        ({"line": "@hourly"}, ("crontab", "0 * * * *")),
        ({"line": "0 22-2 * * FRI-SUN"}, ("crontab", "0 0,1,2,22,23 * * 0,5,6")),
        ({"line": "0 9 ? JUL *"}, ("crontab", "0 9 * 7 *")),
        ({"line": "*/10 * * * * *"}, None),
        ({"line": "0 9 L * *"}, None),
        ({"line": "0 9 15,L * *"}, None),
        ({"line": "0 9 * * FRIL"}, None),
        ({"line": "0 9 * * 1#2"}, None),
        ({"line": None, "every": timedelta(minutes=45)}, ("interval", 45)),
        ({"line": None, "every": 90}, None),
        ({"starting": datetime(2026, 11, 18, tzinfo=UTC)}, ("crontab", "0 9 * * *")),
        ({"until": datetime(2027, 11, 18, tzinfo=UTC)}, None),
        ({"except_days": [date(2027, 1, 1)]}, None),
    ],
)
def test_what_a_monitor_expects(options: dict[str, Any], schedule: tuple[str, object] | None) -> None:
    """A schedule is handed over in plain numbers, so that Sentry can't read it otherwise; or not at all."""
    (job,) = FireCron(declared(**options)).registry.jobs()
    config = monitor_config(job)
    found = None if config is None else config["schedule"]
    assert (None if found is None else (found["type"], found["value"])) == schedule


def test_a_long_job_is_given_its_time() -> None:
    """Without an expected runtime the job's own limit is Sentry's: half an hour would call a long job dead."""
    (job,) = FireCron(declared(max_runtime=7200, grace=90, jitter=60)).registry.jobs()
    config = monitor_config(job)
    assert config is not None
    assert (config["max_runtime"], config["checkin_margin"]) == (120, 3)


@pytest.mark.parametrize(("line", "margin"), [("0 9 * * *", 1), ("0 0 9 * * *", 1), ("59 0 9 * * *", 2)])
def test_a_second_that_is_cut_off_is_waited_for(line: str, margin: int) -> None:
    """Sentry expects the run at the full minute; it may start so much later, and then within its grace."""
    (job,) = FireCron(declared(line=line, grace=60)).registry.jobs()
    config = monitor_config(job)
    assert config is not None
    assert config["checkin_margin"] == margin


def test_no_more_failures_are_waited_for_than_sentry_knows() -> None:
    """Sentry takes nothing of a config that has a larger number, and the check-in is lost with it."""
    (job,) = FireCron(declared(alert_after=1000)).registry.jobs()
    config = monitor_config(job)
    assert config is not None
    assert config["failure_issue_threshold"] == 720


def test_what_sentry_can_not_expect_is_said_once(sentry: Kept) -> None:
    """A job of a schedule that Sentry doesn't know doesn't check in, and one line names all of them."""
    crons = FireCron(declared("ends", "0 9 L * *"), declared("ticks", "* * * * * *"), declared())
    heard: list[Event] = []
    crons.events.subscribe(heard.append)
    stop = monitor(crons)
    run(crons, "ends")
    stop()
    assert sentry.check_ins == []
    (said,) = [event for event in heard if event.slug == "sentry.left_out"]
    assert said.level == logging.INFO
    assert "the schedules of ends, ticks:" in said.message


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a" * LONGEST_SLUG + "1", "a" * LONGEST_SLUG + "2"),
        ("Report", "report"),
        ("send-mail", "send--mail"),
        ("send-mail", "send-mail-_"),
        ("a" * 48 + "--b", "a" * 48 + "-b"),
        ("a" * 49 + "-b", "a" * 49),
        ("a" * 49 + "_b", "a" * 49),
    ],
)
def test_two_jobs_do_not_share_a_monitor(one: str, other: str) -> None:
    """Two names that Sentry can't tell apart are refused, with the reason."""
    crons = FireCron(declared(one), declared(other))
    with pytest.raises(ConfigurationError, match=r"have one monitor, .* first 50 characters, in lower case"):
        monitor(crons)


def test_names_that_sentry_tells_apart_have_a_monitor_each(sentry: Kept) -> None:
    """An underscore inside of a name is none of the hyphens that Sentry puts together."""
    monitor(FireCron(declared("send-mail"), declared("send_mail"), declared("send__mail"), declared("sendmail")))()


def test_a_sentry_that_hangs_delays_no_run(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sentry accepts the connection and says nothing: the run succeeds, and the lock is free."""
    monkeypatch.setenv("RUNTIME_INSTANCE", "production")
    monkeypatch.setattr(outbox, "LAST_MOMENTS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        sentry_sdk.init(dsn=f"http://key@127.0.0.1:{silent.getsockname()[1]}/1", default_integrations=False)
        try:
            crons = FireCron(declared())
            stop = monitor(crons)
            run(crons)
            lock = rtdb.get("/cron-locks/Report")
            stop()
        finally:
            sentry_sdk.init(default_integrations=False)
    assert isinstance(lock, dict)
    assert (lock["outcome"], "releasedAt" in lock) == ("succeeded", True)


def test_a_stop_waits_for_no_sentry_beyond_its_grace(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check-ins that wait have what is left of the instance's grace, and no more: a Sentry that hangs doesn't keep the
    instance from ending. Here its own last moments would outlast the test.
    """
    monkeypatch.setenv("RUNTIME_INSTANCE", "production")
    monkeypatch.setattr(outbox, "LAST_MOMENTS", 3_600.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://key@127.0.0.1:{silent.getsockname()[1]}/1"
        sentry_sdk.init(dsn=address, default_integrations=False, shutdown_timeout=0)
        try:
            crons = FireCron(declared(), settings=load(shutdown_grace=0.2))
            stop = monitor(crons)
            crons.start()
            run(crons)
            crons.stop()
            stop()
        finally:
            sentry_sdk.init(default_integrations=False)


def test_without_the_sdk_the_import_says_what_to_install() -> None:
    """A program without Sentry's SDK reads which extra brings it."""
    program = (
        "import sys; sys.modules['sentry_sdk'] = None\n"
        "try:\n    import firecron.sentry\n"
        "except ModuleNotFoundError as error:\n    print(error)\n"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert finished.stdout.endswith(": pip install 'firecron[sentry]'\n")


@pytest.mark.parametrize("is_called", [False, True])
def test_an_sdk_that_sends_nothing_is_told(sentry: Kept, is_called: bool) -> None:
    """Without `sentry_sdk.init`, or without a DSN, one WARNING says so at the first run; with one there is none."""
    heard: list[Event] = []
    crons = FireCron(declared())
    crons.events.subscribe(heard.append)
    stop = monitor(crons)
    run(crons)
    assert [event.slug for event in heard if event.slug.startswith("sentry.")] == []
    stop()
    if is_called:
        sentry_sdk.init(dsn=None)
    else:
        sentry_sdk.Scope.get_global_scope().set_client(None)
    stop = monitor(crons)
    for second in (1, 0):
        crons.registry.trigger("Report", slot=datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=second))
    stop()
    (said,) = [event for event in heard if event.slug == "sentry.not_initialised"]
    assert "sentry_sdk.init(dsn=...)" in said.message


def test_a_stored_schedule_has_no_monitor_and_no_key_in_its_tags(sentry: Kept, rtdb: Rtdb) -> None:
    """Its runs check in nowhere, and what is reported inside has the job's name and what is said of the job."""

    @scheduled("remind", lock_ttl=60, owner="mail")
    def remind(run: Run) -> None:
        sentry_sdk.capture_message("inside")

    crons = FireCron(remind)
    crons.schedules.put("remind", "ada-lovelace", "* * * * * *")
    rtdb.set("cron-schedules/remind/:ada-lovelace/since", 1)
    stop = monitor(crons)
    tick = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=5)
    assert crons.registry.trigger("remind:ada-lovelace", slot=tick).outcome == "succeeded"
    stop()
    assert sentry.check_ins == []
    (inside,) = (payload["tags"] for payload in sentry.payloads if payload.get("message") == "inside")
    assert (inside["firecron.job"], inside["firecron.owner"]) == ("remind", "mail")
    assert "ada" not in "".join(inside.values())
