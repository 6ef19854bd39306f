"""The channels of messages about jobs: none delays a run or another one, and none of their URLs is shown anywhere."""

from __future__ import annotations

import json
import logging
import threading
from typing import Any

import pytest
from tests.process.channel_server import SECRET, ChannelServer
from tests.process.notifying import HOUR, Fleet, failing

from firecron import ConfigurationError, FireCron, outbox
from firecron import notify as module
from firecron.errors import Unavailable
from firecron.notify import notify

pytest_plugins = ["tests.process.notify_fixtures"]


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
    instance.waits = False
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
    shown = [caplog.text, repr(instance.events), json.dumps(fleet.store.get("")), repr(vars(instance.notifier))]
    assert len(instance.said("notify.failed")) == 3
    assert [SECRET in text for text in shown] == [False] * 4
    assert all(SECRET not in str(one.message) for one in server.posted)


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
