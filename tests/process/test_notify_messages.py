"""What a message about a job says, in the form of each kind of channel."""

from __future__ import annotations

import hmac
import time
from hashlib import sha256
from typing import Any

import pytest
from tests.process.channel_server import BOUND, Posted
from tests.process.notifying import ABOUT, HOUR, Fleet

from firecron.base.instants import to_text
from firecron.notify import notify

pytest_plugins = ["tests.process.notify_fixtures"]


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
            "command": f"firecron ask digest --resume {slot}",
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
    assert "*Command:* firecron ask digest --resume" in text


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
