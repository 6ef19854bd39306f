"""Messages about jobs: who sends them, when, what they say, and that no channel delays a run or learns a secret."""

from __future__ import annotations

import hmac
import json
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import pytest
from tests.process.channel_server import BOUND, SECRET, ChannelServer, Posted, channel_server
from tests.process.tick_processes import HERE, Ticking, until

from firecron import ConfigurationError, FireCron, distributed_cron, outbox
from firecron import notify as module
from firecron.base.events import Event
from firecron.base.instants import to_datetime, to_text
from firecron.errors import Denied, Unavailable
from firecron.jobs.catalogue import declared
from firecron.notify import notify
from firecron.ops.operator import Operator
from firecron.settings import load
from firecron.testing import FakeTiming, MemoryStore

pytest_plugins = ["tests.process.tick_fixtures"]

MINUTE, HOUR = 60, 3_600
ABOUT = {"description": "Sends the digest", "owner": "mail <team>", "runbook": "https://wiki.example.com/digest"}


@pytest.fixture(scope="module")
def started() -> Iterator[ChannelServer]:
    with channel_server() as made:
        yield made


@pytest.fixture
def server(started: ChannelServer) -> ChannelServer:
    for kept in (started.posted, started.reached, started.replies, started.bad):
        kept.clear()
    return started


@pytest.fixture(autouse=True)
def production(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNTIME_INSTANCE", "production")
    monkeypatch.setattr(outbox, "PAUSE", 0.0)
    monkeypatch.setattr(outbox, "LAST_MOMENTS", 2 * BOUND)


class Fleet:
    """Instances with one database in virtual time. Their outboxes are real, and so are the channels."""

    def __init__(self, server: ChannelServer) -> None:
        self.server = server
        self.timing = FakeTiming()
        self.store = MemoryStore(self.timing.now)
        self.group(alive=True)
        self.instances: list[Instance] = []

    def instance(self, *channels: str, page_url: str | None = None, **options: Any) -> Instance:
        made = Instance(self, channels or ("slack",), page_url, options)
        self.instances.append(made)
        return made

    def group(self, *, alive: bool) -> None:
        """Have a live group of instances with the job, or one that is gone."""
        seen = self.timing.now() + 900_000_000 if alive else 1
        node = {"seenAt": seen, "jobs": "digest", "service": "local", "heartbeat": 30}
        self.store.set("cron-groups/0123456789abcdef", node)

    def look(self, *instances: Instance, after: float = 300) -> None:
        """Let time pass, and have these instances look, or all of them."""
        self.timing.advance(after)
        for instance in instances or self.instances:
            for look in instance.crons.engine.lateness.rounds:
                look()
            instance.flush()

    def told(self) -> dict[str, Any]:
        found = self.store.get("cron-told/digest")
        assert isinstance(found, dict)
        return found

    def titles(self, channel: str = "slack") -> list[str]:
        return [one.message["text"] for one in self.server.of(channel)]


class Instance:
    """One of them, with a job that does what `body` does."""

    def __init__(self, fleet: Fleet, channels: tuple[str, ...], page_url: str | None, options: dict[str, Any]) -> None:
        self.fleet = fleet
        self.body: Callable[[], None] = lambda: None
        enabled = options.pop("enabled", True)
        given = {"alert_after": 1, **ABOUT, **options}

        @distributed_cron("digest", "0 9 * * *", **given)
        def job() -> None:
            self.body()

        self.crons = FireCron(
            job, store=fleet.store, timing=fleet.timing, settings=load(), enabled=enabled, has_threads=False
        )
        self.events: list[Event] = []
        self.crons.events.subscribe(self.events.append)
        entry = declared(
            self.crons.registry.get("digest").options, where="jobs", ticks=True, service="local", revision="r"
        )
        fleet.store.set("cron-jobs/digest", {**entry.to_node(), "since": fleet.timing.now(), "declaredAt": 1})
        self.urls = {channel: fleet.server.url(channel) for channel in channels}
        self.end = notify(self.crons, page_url=page_url, **self.urls)

    def flush(self) -> None:
        """Return when nothing waits to be sent any more."""
        self.crons.engine.lateness.rounds[0].__self__.outbox.flush()  # type: ignore[attr-defined]

    def run(self, error: Exception | None = None) -> None:
        """Run the next tick, which fails with this error."""

        def body() -> None:
            if error is not None:
                raise error

        self.body = body
        self.fleet.timing.advance(MINUTE)
        self.crons.registry.trigger("digest", slot=self.crons.engine.now() or to_datetime(self.fleet.timing.now()))
        self.flush()

    def said(self, *slugs: str) -> list[Event]:
        return [event for event in self.events if event.slug in slugs]


@pytest.fixture
def fleet(server: ChannelServer) -> Iterator[Fleet]:
    made = Fleet(server)
    yield made
    for instance in made.instances:
        instance.end()


def failing(fleet: Fleet) -> Instance:
    """An instance whose job fails."""
    instance = fleet.instance("slack")
    instance.run(ValueError("no mail"))
    return instance


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


def test_a_channel_that_failed_gets_the_message_at_the_next_look(fleet: Fleet, server: ChannelServer) -> None:
    """After two tries that is said, without the URL. The others have theirs, and get no second one."""
    instance = fleet.instance("slack", "teams", "webhook")
    server.replies["teams"] = [(500, {}), (502, {})]
    instance.run(ValueError("no mail"))
    (lost,) = instance.said("notify.failed")
    assert lost.fields == {"channels": "teams", "why": "teams: the service returned 502"}
    assert {one: len(server.of(one)) for one in ("slack", "teams", "webhook")} == {"slack": 1, "teams": 2, "webhook": 1}
    assert "sentAt" not in fleet.told()
    fleet.look()
    assert {one: len(server.of(one)) for one in ("slack", "teams", "webhook")} == {"slack": 1, "teams": 3, "webhook": 1}
    assert fleet.told()["sentTo"] == "slack teams webhook"
    fleet.look()
    assert len(server.posted) == 5


@pytest.mark.parametrize("badness", ["hangs", "drips", "closes"])
def test_a_bad_channel_delays_neither_the_run_nor_another_channel(
    fleet: Fleet, server: ChannelServer, monkeypatch: pytest.MonkeyPatch, badness: Any
) -> None:
    """The lock is free before anything is sent, the other channel has its message, and the next look tries again."""
    monkeypatch.setattr(module, "TIMEOUT", 0.2)
    instance = fleet.instance("slack", "teams")
    server.bad["slack"] = badness
    instance.run(ValueError("no mail"))
    lock = fleet.store.get("cron-locks/digest")
    assert isinstance(lock, dict)
    assert lock["outcome"] == "failed"
    assert (len(server.of("slack")), len(server.of("teams"))) == (0, 1)
    assert server.reached.count("slack") == 2
    assert [event.fields["channels"] for event in instance.said("notify.failed")] == ["slack"]
    server.bad.clear()
    fleet.look()
    assert (len(server.of("slack")), len(server.of("teams"))) == (1, 1)


@pytest.mark.parametrize("missing", [{1}, {2}, {1, 2}])
def test_where_no_thread_starts_each_channel_gets_its_message(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, missing: set[int]
) -> None:
    """For want of memory, or at the program's end, one thread sends all of them: nothing is lost, nothing doubled."""
    started: list[threading.Thread] = []
    start = threading.Thread.start

    def start_or_not(thread: threading.Thread) -> None:
        if thread.name == "firecron-notify":
            started.append(thread)
            if len(started) in missing:
                raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_or_not)
    instance = fleet.instance("slack", "teams", "webhook")
    instance.run(ValueError("no mail"))
    fleet.look()
    assert sorted(one.channel for one in fleet.server.posted) == ["slack", "teams", "webhook"]
    assert "sentAt" in fleet.told()
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
    outbox_of = instance.crons.engine.lateness.rounds[0].__self__.outbox  # type: ignore[attr-defined]
    waiting: list[Any] = []
    add = outbox_of.add
    monkeypatch.setattr(outbox_of, "add", waiting.append)
    fleet.look()
    fleet.look()
    monkeypatch.setattr(outbox_of, "add", add)
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


def test_a_channel_that_gives_no_reply_gets_the_message_ever_more_seldom(fleet: Fleet, server: ChannelServer) -> None:
    """It may have the message: so that comes after 60 s, 120 s and so on up to an hour, and always under one id."""
    instance = fleet.instance("webhook")
    server.bad["webhook"] = "swallows"
    instance.run(ValueError("no mail"))
    counts = [len(server.posted)]
    for _ in range(12):
        fleet.look()
        counts.append(len(server.posted))
    # In two tries each: after 0, 5, 10, 15, 25 and 45 minutes.
    assert counts == [2, 4, 6, 8, 8, 10, 10, 10, 10, 12, 12, 12, 12]
    assert len({one.message["id"] for one in server.posted}) == 1
    server.bad.clear()
    fleet.look(after=HOUR)
    assert (len(server.posted), "sentAt" in fleet.told()) == (13, True)
    assert server.posted[-1].message["id"] == server.posted[0].message["id"]


@pytest.mark.parametrize("is_there", [False, True])
def test_a_channel_that_has_no_message_for_certain_gets_it_at_each_look(
    fleet: Fleet, server: ChannelServer, is_there: bool
) -> None:
    """A refused connection and an error of the service leave no doubt: nobody waits for longer than for a look."""
    instance = fleet.instance("slack")
    if not is_there:
        instance.end()
        instance.end = notify(instance.crons, slack=f"http://127.0.0.1:1/{SECRET}")
    server.replies["slack"] = [(500, {})] * 20
    instance.run(ValueError("no mail"))
    for _ in range(5):
        fleet.look()
    assert len(instance.said("notify.failed")) == 6
    assert "unanswered" not in fleet.told()


def test_a_run_ends_while_its_message_hangs(fleet: Fleet, server: ChannelServer) -> None:
    """What waits for a channel is no run: the next one begins and ends meanwhile."""
    instance = fleet.instance("slack")
    server.bad["slack"] = "hangs"
    instance.flush = lambda: None  # type: ignore[method-assign]
    instance.run(ValueError("no mail"))
    server.wait_until_reached(1)
    instance.run()
    lock = fleet.store.get("cron-locks/digest")
    assert isinstance(lock, dict)
    assert lock["outcome"] == "succeeded"
    server.is_over.set()
    instance.end()
    server.is_over.clear()


@pytest.mark.parametrize(
    ("reply", "tries", "why"),
    [
        ((429, {"Retry-After": "0"}), 2, None),
        ((429, {"Retry-After": "3600"}), 1, "the service returned 429, and asks for a pause of 3600 s"),
        ((404, {}), 1, "the service returned 404"),
        ((302, {}), 1, "the service returned 302: redirects are not followed; give the URL that this one leads to"),
        ((500, {}), 2, None),
    ],
)
def test_what_a_channel_answers_decides_about_another_try(
    fleet: Fleet, server: ChannelServer, reply: tuple[int, dict[str, str]], tries: int, why: str | None
) -> None:
    """An error of the service, or a short pause that it asks for, costs one more try; a refusal is said at once."""
    server.replies["slack"] = [reply]
    instance = failing(fleet)
    assert len(server.posted) == tries
    assert [event.fields["why"] for event in instance.said("notify.failed")] == (
        [] if why is None else [f"slack: {why}"]
    )
    assert ("sentAt" in fleet.told()) == (why is None)


def test_a_pause_that_a_channel_asks_for_is_made(
    fleet: Fleet, server: ChannelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second try comes after that time, and not after the usual one."""
    monkeypatch.setattr(outbox, "PAUSE", 3_600.0)
    server.replies["slack"] = [(429, {"Retry-After": "0"})]
    failing(fleet)
    assert len(server.posted) == 2


# --- what is said


def of_failure(fleet: Fleet, channel: str, **options: Any) -> Posted:
    instance = fleet.instance(channel, page_url="https://ops.example.com/crons/", **options)
    instance.run(ValueError("no mail for <!channel> & password=hunter2\nsecond line"))
    (posted,) = fleet.server.posted
    return posted


def test_a_message_says_what_whose_why_and_what_to_do(fleet: Fleet) -> None:
    """The webhook's JSON has every field, with the remedy as data, and the first line of the error without secrets."""
    message = of_failure(fleet, "webhook").message
    slot = to_text(fleet.timing.now())
    assert message.pop("id") == fleet.told()["token"]
    assert message.pop("error").endswith("ValueError: no mail for <!channel> & password=[redacted]")
    assert message == {
        "version": 1,
        "event": "job.failing",
        "job": "digest",
        "verdict": "failing",
        "was": "ok",
        "since": slot,
        "due": None,
        "at": slot,
        "why": f"its last tick {slot} failed",
        "failures": 1,
        "changes": 1,
        **ABOUT,
        "remedy": {
            "act": "run_again",
            "words": f"see in its history why it fails; run the tick of {slot} again",
            "command": f"firecron run APP digest --resume {slot}",
            "tick": slot,
        },
        "link": "https://ops.example.com/crons/#job/digest",
    }


@pytest.mark.parametrize("secret", [None, "a key of their own"])
def test_a_webhook_is_signed(fleet: Fleet, secret: str | None) -> None:
    """By the key that was given, else by the URL: its reader computes the same of the time, a dot and the body."""
    instance = fleet.instance("webhook")
    instance.end()
    instance.end = notify(instance.crons, webhook=instance.urls["webhook"], webhook_secret=secret)
    instance.run(ValueError("no mail"))
    (posted,) = fleet.server.posted
    at, signature = (part.partition("=")[2] for part in posted.headers["firecron-signature"].split(","))
    key = (instance.urls["webhook"] if secret is None else secret).encode()
    assert signature == hmac.new(key, at.encode() + b"." + posted.body, sha256).hexdigest()
    assert abs(int(at) - time.time()) < BOUND
    assert posted.headers["content-type"] == "application/json; charset=utf-8"


def test_slack_reads_no_markup_in_it(fleet: Fleet) -> None:
    """`<!channel>` in an error or an owner calls nobody, and nothing else of the message is changed."""
    message = of_failure(fleet, "slack").message
    text = message["blocks"][0]["text"]["text"]
    assert message["text"] == '"digest" is failing'
    assert "<" not in text
    assert '*Error:* "digest" failed after' in text
    assert "no mail for &lt;!channel&gt; &amp; password=[redacted]" in text
    assert "*Owner:* mail &lt;team&gt;\n*Runbook:* https://wiki.example.com/digest" in text
    assert text.endswith("*Page:* https://ops.example.com/crons/#job/digest")
    assert "*Command:* firecron run APP digest --resume" in text


def test_google_chat_calls_nobody(fleet: Fleet) -> None:
    """Its `<users/all>` can't be escaped, so no text has these signs."""
    text = of_failure(fleet, "google_chat").message["text"]
    assert text.startswith('*"digest" is failing*\nSends the digest\n*Why:* its last tick ')
    assert "<" not in text
    assert ">" not in text


def test_teams_gets_a_card_without_markdown(fleet: Fleet) -> None:
    """Each text is a run of a card, which reads no links in it; page and runbook are buttons."""
    message = of_failure(fleet, "teams").message
    (attachment,) = message["attachments"]
    card = attachment["content"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    assert {inline["type"] for block in card["body"] for inline in block["inlines"]} == {"TextRun"}
    assert card["body"][0]["inlines"][0]["text"] == '"digest" is failing'
    assert [action["url"] for action in card["actions"]] == [
        "https://ops.example.com/crons/#job/digest",
        "https://wiki.example.com/digest",
    ]


def test_the_next_message_of_an_hour_says_how_often_it_changed(fleet: Fleet) -> None:
    """A job that goes back and forth is told of once in each state, and of the rest in the message after the hour."""
    instance = fleet.instance("webhook")
    for _ in range(3):
        instance.run(ValueError("no mail"))
        instance.run()
    instance.run(ValueError("no mail"))
    assert [one.message["verdict"] for one in fleet.server.posted] == ["failing", "ok"]
    while len(fleet.server.posted) < 3:
        instance.run(ValueError("no mail"))
        fleet.look(after=HOUR / 4)
    last = fleet.server.posted[-1].message
    assert (last["verdict"], last["changes"]) == ("failing", 5)


# --- who speaks, and what stays secret


def test_the_urls_are_nowhere(
    fleet: Fleet, server: ChannelServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither what is sent, nor what fails in any way, puts one into a log, an event, an error or a node."""
    caplog.set_level(logging.DEBUG)
    instance = fleet.instance("slack", "google_chat", "teams", "webhook", page_url="https://ops.example.com")
    server.replies = {"slack": [(404, {})], "teams": [(302, {"Location": instance.urls["teams"]})]}
    server.bad = {"google_chat": "closes"}
    instance.run(ValueError("no mail"))
    server.bad = {"slack": "hangs"}
    monkeypatch.setattr(module, "TIMEOUT", 0.2)
    fleet.look()

    def broken(*arguments: object) -> None:
        raise ValueError(str(arguments))

    monkeypatch.setattr(outbox.Http, "send", broken)
    fleet.look()
    notifier = instance.crons.engine.lateness.rounds[0].__self__  # type: ignore[attr-defined]
    shown = [caplog.text, repr(instance.events), json.dumps(fleet.store.get("")), repr(vars(notifier))]
    assert len(instance.said("notify.failed")) == 3
    assert [SECRET in text for text in shown] == [False] * 4
    assert all(SECRET not in str(one.message) for one in server.posted)


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
    instance.flush = lambda: None  # type: ignore[method-assign]
    instance.run(ValueError("no mail"))
    assert instance.crons.engine.lateness.rounds == []
    assert fleet.titles() == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "notify needs at least one of slack=, google_chat=, teams= and webhook="),
        ({"slack": f"hooks.example/{SECRET}"}, "slack= is no URL"),
        ({"teams": f"https://hooks.example/{SECRET} "}, "teams= is no URL"),
        ({"webhook": ["https://ok.example", f"ftp://hooks.example/{SECRET}"]}, "webhook= is no URL"),
        ({"google_chat": f"https://hooks.example/{SECRET}#top"}, "google_chat= has a #"),
        ({"webhook": "https://ok.example", "webhook_secret": ""}, "the key webhook_secret is empty"),
        ({"slack": "https://ok.example", "webhook_secret": SECRET}, "there is no webhook="),
        ({"slack": "https://ok.example", "page_url": "ops.example.com"}, "page_url='ops.example.com' is no URL"),
    ],
)
def test_what_can_not_be_used_is_said_without_the_secret(given: dict[str, Any], message: str) -> None:
    """A URL that can't work is an error at once, which doesn't quote it."""
    with pytest.raises(ConfigurationError) as caught:
        notify(FireCron(), **given)
    assert message in str(caught.value)
    assert SECRET not in str(caught.value)


def test_two_channels_of_a_kind_have_names_of_their_own(fleet: Fleet, server: ChannelServer) -> None:
    """Each of several URLs gets every message, and what one has taken counts for itself."""
    instance = fleet.instance("slack")
    instance.end()
    instance.end = notify(instance.crons, slack=[server.url("first"), server.url("second")])
    instance.run(ValueError("no mail"))
    assert (len(server.of("first")), len(server.of("second"))) == (1, 1)
    assert fleet.told()["sentTo"] == "slack slack-2"


def test_all_channels_are_given_in_one_call(fleet: Fleet, server: ChannelServer) -> None:
    """Of two calls one would claim each message, and the channels of the other get none; after its end is time."""
    instance = fleet.instance("slack")
    with pytest.raises(ConfigurationError, match="give all channels in one call"):
        notify(instance.crons, webhook=server.url("webhook"))
    instance.end()
    instance.end = notify(instance.crons, webhook=server.url("webhook"))
    instance.run(ValueError("no mail"))
    assert [one.channel for one in server.posted] == ["webhook"]


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


def test_a_message_that_can_not_be_noted_may_come_twice(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database goes away between the message and its note: an event says so, and the next look sends it again."""
    instance = fleet.instance("slack")
    monkeypatch.setattr(module, "taken", lambda *_, **__: (_ for _ in ()).throw(Unavailable("away")))
    instance.run(ValueError("no mail"))
    (event,) = instance.said("notify.failed")
    assert "can't be noted, so it may be sent again: away" in event.message
    monkeypatch.undo()
    monkeypatch.setenv("RUNTIME_INSTANCE", "production")
    fleet.look()
    assert fleet.titles() == ['"digest" is failing'] * 2


def test_what_can_not_be_put_off_is_said(fleet: Fleet, server: ChannelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database goes away after a message without a reply: that it may come again soon is said with the failure."""
    instance = fleet.instance("slack")
    server.bad["slack"] = "swallows"
    monkeypatch.setattr(module, "put_off", lambda *_: (_ for _ in ()).throw(Unavailable("away")))
    instance.run(ValueError("no mail"))
    (event,) = instance.said("notify.failed")
    assert "that it may be there can't be noted, so it may be sent again soon: away" in event.message
    server.bad.clear()
    fleet.look()
    assert "sentAt" in fleet.told()


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


# --- real processes


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
