"""Messages about jobs: of which turn people are told, when, and by which instance; with real processes, too."""

from __future__ import annotations

import logging
import signal
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.process.channel_server import ChannelServer
from tests.process.notifying import ABOUT, HOUR, MINUTE, Fleet, Instance, failing
from tests.process.tick_processes import HERE, Ticking, until

from firecron import FireCron, distributed_cron
from firecron.base.instants import to_datetime
from firecron.errors import Denied
from firecron.jobs.catalogue import declared
from firecron.notify import notify
from firecron.ops.operator import Operator

pytest_plugins = ["tests.process.tick_fixtures", "tests.process.notify_fixtures"]


def test_a_run_that_fails_is_told_at_once_and_so_is_its_success(fleet: Fleet) -> None:
    """One message for the first failure, and one for the first success after it; none for what goes on."""
    instance = fleet.instance("slack")
    for error in (None, ValueError("no mail"), ValueError("no mail"), None, None):
        instance.run(error)
    assert fleet.titles() == ['"digest" is failing', '"digest" is well again']
    assert [event.slug for event in instance.said("job.failing", "job.recovered")] == ["job.failing", "job.recovered"]
    told = fleet.told()
    assert (told["verdict"], told["last"], told["changes"], told["sentTo"]) == ("ok", "ok", 0, "slack")
    assert told["sentAt"] >= told["since"]


def test_what_a_run_does_not_end_is_told_after_two_looks(fleet: Fleet) -> None:
    """A tick that nobody claims makes the job late: the first look only notes it. The way back takes two as well."""
    one, other = fleet.instance("slack"), fleet.instance("slack")
    one.run()
    fleet.timing.advance(24 * HOUR)
    fleet.look(one, other)
    assert fleet.titles() == []
    fleet.look(other)
    assert fleet.titles() == ['"digest" is late']
    fleet.look()
    one.run()
    fleet.look()
    assert fleet.titles() == ['"digest" is late']
    fleet.look(one)
    assert fleet.titles() == ['"digest" is late', '"digest" is well again']


def test_a_job_that_nobody_has_is_told(fleet: Fleet) -> None:
    """Whoever notifies speaks for all jobs of the prefix, also for those of a program that is gone; it is an event."""
    one, other = fleet.instance("slack"), fleet.instance("slack")
    one.run()
    fleet.group(alive=False)
    fleet.look()
    fleet.look()
    assert fleet.titles() == ['"digest" is unattended: nobody runs it']
    (event,) = one.said("job.unattended") + other.said("job.unattended")
    assert (event.level, event.fields["owner"]) == (logging.WARNING, ABOUT["owner"])


def test_a_run_that_takes_too_long_is_told(fleet: Fleet) -> None:
    """A lock that is held for longer than expected makes its job stuck, and its release ends that."""
    instance = fleet.instance("slack", expected_runtime=60)
    with instance.crons.locks.hold("digest", ttl=HOUR * 3):
        fleet.look(after=HOUR)
        fleet.look()
    fleet.look()
    fleet.look()
    assert fleet.titles() == ['"digest" is stuck', '"digest" is well again']
    assert instance.said("job.stuck", "job.recovered") == []  # which the job's own instances look for


@pytest.mark.parametrize("path", ["cron-mutes/digest", "cron-locks/digest"])
def test_nothing_is_said_of_a_job_that_is_muted_or_paused(fleet: Fleet, path: str) -> None:
    """Neither by its run nor by a look; once that is over, what is true then is told."""
    instance = fleet.instance("slack")
    instance.run()
    ends = fleet.timing.now() + 1_800_000
    mute = {"until": ends, "by": "ann", "why": "known"}
    pause = {"paused": True, "pausedBy": "ann", "pausedAt": fleet.timing.now(), "pausedUntil": ends}

    def body() -> None:
        known = fleet.store.get("cron-locks/digest")
        assert isinstance(known, dict)
        fleet.store.set(path, mute if "mutes" in path else {**known, **pause})
        raise ValueError("no mail")

    instance.body = body
    fleet.timing.advance(MINUTE)
    instance.crons.registry.trigger("digest", slot=to_datetime(fleet.timing.now()))
    instance.flush()
    fleet.look()
    fleet.look()
    assert fleet.titles() == []
    assert fleet.store.get("cron-told") is None
    fleet.look(after=HOUR)
    fleet.look()
    assert len(fleet.titles()) == 1


def test_a_run_tells_of_its_failure_alone(fleet: Fleet) -> None:
    """What else is wrong with a job after its run is left to two looks: here somebody has broken its node."""
    instance = fleet.instance("slack")

    def body() -> None:
        fleet.store.set("cron-locks/digest", {"expiresAt": "never"})
        raise ValueError("no mail")

    instance.body = body
    fleet.timing.advance(MINUTE)
    instance.crons.registry.trigger("digest", slot=to_datetime(fleet.timing.now()))
    instance.flush()
    assert len(instance.said("run.failed", "run.lost")) == 1
    assert fleet.store.get("cron-told") is None
    fleet.look()
    fleet.look()
    assert fleet.titles() == ['"digest" is stuck']


def test_of_five_instances_one_speaks(fleet: Fleet) -> None:
    """All look at the same time, and one message comes of each turn."""
    five = [fleet.instance("slack") for _ in range(5)]
    five[0].run(ValueError("no mail"))
    for _ in range(3):
        fleet.look()
    five[3].run()
    for _ in range(3):
        fleet.look()
    assert fleet.titles() == ['"digest" is failing', '"digest" is well again']


def test_the_next_look_speaks_for_a_dead_instance(fleet: Fleet) -> None:
    """A message that was claimed and not sent is sent by the first look that comes a minute later."""
    instance = failing(fleet)
    node = {key: value for key, value in fleet.told().items() if key not in ("sentAt", "sentTo", "failingAt", "last")}
    now = fleet.timing.now()
    fleet.store.set("cron-told/digest", {**node, "token": "of a dead one", "againAt": now + 60_000})
    fleet.look(after=50)
    assert len(fleet.titles()) == 1
    fleet.look(after=10)
    assert len(fleet.titles()) == 2
    assert instance.said("notify.failed") == []


def late(fleet: Fleet) -> Instance:
    """An instance whose job is late since yesterday."""
    instance = fleet.instance("slack")
    instance.run()
    fleet.timing.advance(24 * HOUR)
    return instance


def test_what_a_look_has_found_is_not_told_once_it_is_old(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two looks find a job late, and their notices wait behind a slow channel, until the job is well: no alarm."""
    instance = late(fleet)
    notifier = instance.notifier
    waiting: list[Any] = []
    add = notifier.add
    monkeypatch.setattr(notifier, "add", waiting.append)
    fleet.look()
    fleet.look()
    monkeypatch.setattr(notifier, "add", add)
    instance.run()
    assert [notice.word for notice in waiting] == ["late", "late"]
    for notice in waiting:
        fleet.timing.advance(200)
        add(notice)
        instance.flush()
    fleet.look()
    fleet.look()
    assert fleet.titles() == []


def test_a_mute_is_heard_at_once(fleet: Fleet) -> None:
    """What a look has read of the mutes may be minutes old, so they are read again before a message is claimed."""
    instance = late(fleet)
    fleet.look()
    fleet.timing.advance(305)
    instance.crons.board.report()  # which now knows for five minutes that nobody has muted it
    until = fleet.timing.now() + 1_800_000
    fleet.store.set("cron-mutes/digest", {"until": until, "by": "ann", "why": "known"})
    fleet.look(after=200)
    assert fleet.titles() == []
    fleet.look(after=HOUR)
    fleet.look()
    assert fleet.titles() == ['"digest" is late']


@pytest.mark.parametrize(
    ("variable", "enabled", "speaks"),
    [("staging", None, False), (None, None, False), (None, True, True), ("production", False, True)],
)
def test_only_production_speaks(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, variable: str | None, enabled: bool | None, speaks: bool
) -> None:
    """A laptop that runs a job by hand tells nobody, and neither do its looks."""
    monkeypatch.delenv("RUNTIME_INSTANCE")
    if variable is not None:
        monkeypatch.setenv("RUNTIME_INSTANCE", variable)
    instance = fleet.instance("slack", enabled=enabled)
    instance.run(ValueError("no mail"))
    fleet.look()
    fleet.look()
    assert len(fleet.titles()) == speaks


def test_an_ended_one_says_nothing(fleet: Fleet) -> None:
    """After its end neither runs nor looks have anything told."""
    instance = fleet.instance("slack")
    instance.end()
    instance.waits = False
    instance.run(ValueError("no mail"))
    assert instance.crons.engine.lateness.rounds == []
    assert fleet.titles() == []


def test_a_database_that_refuses_is_said_and_nobody_else_is_asked(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rules that don't know what people are told let nobody claim a message: that is an event with the remedy."""
    instance = fleet.instance("slack")
    swap = fleet.store.swap

    def denied(path: str, *arguments: Any) -> Any:
        if path.startswith("cron-told"):
            raise Denied("no")
        return swap(path, *arguments)

    monkeypatch.setattr(fleet.store, "swap", denied)
    instance.run(ValueError("no mail"))
    (event,) = instance.said("notify.failed")
    assert "deploy those that `firecron rules` prints" in event.message
    assert fleet.titles() == []


def test_the_heartbeat_has_the_rounds_made(fleet: Fleet) -> None:
    """An instance looks at its first beat in an interval, if it is among the first three, or has no rank."""
    instance = fleet.instance("slack")
    crons = instance.crons
    crons.locks.clock.now(crons.locks.deadline(10))
    looks: list[str] = []
    crons.engine.lateness.rounds.append(lambda: looks.append("look"))
    for _ in range(4):
        crons.engine.lateness.look_if_due()
        fleet.timing.advance(100)
    until(lambda: len(looks) == 1, "the look of the second interval")


def test_a_forgotten_job_has_nothing_left(fleet: Fleet) -> None:
    """What people were told of it goes with its entry."""
    instance = failing(fleet)
    fleet.group(alive=False)
    operator = Operator(instance.crons.database)
    (seen,) = operator.entries(["digest"])
    assert operator.forget(seen)
    assert fleet.store.get("cron-told") is None


def declare(ticks: Ticking, name: str = "report") -> None:
    """The entry of a job, and a group that lives."""
    job = distributed_cron(name, "0 0 1 1 *")(lambda: None)
    crons = FireCron(job)
    entry = declared(crons.registry.get(name).options, where="jobs", ticks=True, service="local", revision="r")
    now = round(time.time() * 1000)
    ticks.rtdb.set(f"/cron-jobs/{name}", {**entry.to_node(), "since": now, "declaredAt": now})
    ticks.rtdb.set(
        "/cron-groups/0123456789abcdef", {"seenAt": now, "jobs": name, "service": "local", "heartbeat": 3_600}
    )


def test_five_processes_make_one_message_a_turn(server: ChannelServer, ticks: Ticking) -> None:
    """Five instances want each of forty ticks, of which the first twenty fail: one is told that, one that it ended."""
    declare(ticks)
    first = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(hours=3)
    app = str(HERE / "apps" / "notified.py")
    instances = [ticks.start(app, first.isoformat(), "40", "20", SLACK_URL=server.url("slack")) for _ in range(5)]
    assert [instance.wait() for instance in instances] == [0] * 5
    assert len({line["slot"] for line in ticks.lines("start")}) == len(ticks.lines("start")) == 40
    assert [one.message["text"] for one in server.posted] == ['"report" is failing', '"report" is well again']
    told: Any = ticks.rtdb.get("/cron-told/report")
    assert (told["verdict"], "sentAt" in told) == ("ok", True)


@pytest.mark.parametrize(("badness", "messages"), [("hangs", 1), ("stalls", 2)])
def test_a_killed_process_loses_no_message(server: ChannelServer, ticks: Ticking, badness: Any, messages: int) -> None:
    """It is killed after its claim, before its message is there or before it is noted: the next look sends it, and at
    most twice.
    """
    declare(ticks)
    server.bad["slack"] = badness
    first = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(hours=3)
    dying = ticks.start(str(HERE / "apps" / "notified.py"), first.isoformat(), "1", "1", SLACK_URL=server.url("slack"))
    server.wait_until_reached(1)
    dying.stop(signal.SIGKILL)
    claimed: Any = ticks.rtdb.get("/cron-told/report")
    assert claimed["verdict"] == "failing"
    assert "sentAt" not in claimed
    server.bad.clear()
    other = FireCron(distributed_cron("other", "0 0 1 1 *")(lambda: None))
    end = notify(other, slack=server.url("slack"))
    (look,) = other.engine.lateness.rounds
    look()
    assert len(server.posted) == messages - 1
    ticks.rtdb.set("/cron-told/report", {**claimed, "againAt": 1})  # a minute later
    look()
    end()
    assert [one.message["text"] for one in server.posted] == ['"report" is failing'] * messages
    told: Any = ticks.rtdb.get("/cron-told/report")
    assert "sentAt" in told
