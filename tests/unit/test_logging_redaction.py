"""Redaction: what is taken for a secret, and what isn't."""

from __future__ import annotations

import logging

import pytest
from tests.unit.fleet import recorded

from firecron.events import Events
from firecron.redaction import names_secret, redacted

KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhk\niG9w0BAQEFAASC\n-----END PRIVATE KEY-----"
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJtZSJ9.c2lnbmF0dXJl"

SECRETS = [
    (
        "401 for url: https://x.com/a?b=1&access_token=abc.DEF&c=2",
        "401 for url: https://x.com/a?b=1&access_token=[r]&c=2",
    ),
    ("GET /cron-locks/job.json?auth=s3cret HTTP/1.1", "GET /cron-locks/job.json?auth=[r] HTTP/1.1"),
    (
        "https://storage.googleapis.com/b/o?X-Goog-Signature=0a1b",
        "https://storage.googleapis.com/b/o?X-Goog-Signature=[r]",
    ),
    ("postgres://me:pa55@db:5432/x", "postgres://[r]@db:5432/x"),
    ("Authorization: Bearer abcdefghijklmnop.qrs", "Authorization: Bearer [r]"),
    ("{'Authorization': 'Basic bWU6cGE1NQ=='}", "{'Authorization': 'Basic [r]'}"),
    (f"before {KEY} after", "before [r] after"),
    (repr({"private_key": KEY, "x": 1}), "{'private_key': '[r]', 'x': 1}"),
    ("cut short: -----BEGIN RSA PRIVATE KEY-----\\nMIIEvQIB", "cut short: [r]"),
    ('{"private_key_id": "0a1b", "type": "service_account"}', '{"private_key_id": "[r]", "type": "service_account"}'),
    (r"{\"refresh_token\": \"1//0abc\"}", r"{\"refresh_token\": \"[r]\"}"),
    ("connect(user='me', password='pa55')", "connect(user='me', password='[r]')"),
    ("token ya29.a0AfB_by-C was refused", "token [r] was refused"),
    ("key AIzaSyA-1234567890_abcdefghijklmnopqrstu", "key [r]"),
    (f"id token {JWT}.", "id token [r]."),
]

HARMLESS = [
    '"send-digest" succeeded after 0.2 s',
    "https://x.com/?auth_variable_override=%7B%22uid%22%3A1%7D&ns=demo",
    "a bearer of bad news, basic as it is: the monkey=1 password",
    "send-digest:2026-11-18T09:00:00Z",
    "holder fd8vTbinVRUGgjv7 fence 1794992400123",
    "http://127.0.0.1:9000/?ns=demo",
    "-----BEGIN PUBLIC KEY-----",
]


@pytest.mark.parametrize(("text", "left"), SECRETS)
def test_a_secret_is_redacted(text: str, left: str) -> None:
    """A secret is left out and what introduces it stays; doing it twice changes nothing more."""
    assert redacted(text) == left.replace("[r]", "[redacted]")
    assert redacted(redacted(text)) == redacted(text)


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text: str) -> None:
    """Names, slots, holders, fences and ordinary words stay as they are."""
    assert redacted(text) == text


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("password", True),
        ("Authorization", True),
        ("accessToken", True),
        ("X-Api-Key", True),
        ("DB_PASSWORD", True),
        ("private_key_id", True),
        ("token", True),
        ("secret", True),
        ("line one\npassword", True),
        ("key", False),
        ("lock", False),
        ("next_page_token", False),
        ("invalid_token", False),
        ("passwords_checked", False),
        ("", False),
    ],
)
def test_a_name_tells_a_secret(name: str, is_secret: bool) -> None:
    """A field is secret by its name, in whatever spelling, and with whatever before it."""
    assert names_secret(name) is is_secret


@pytest.mark.parametrize(
    "part", ["a", "eyJ", "://a", "://a:", "-----BEGIN PRIVATE KEY-----", "password ", "?token=", "Bearer "]
)
def test_no_text_keeps_it_busy(part: str) -> None:
    """The time for a long text grows with its length, whatever it consists of."""
    # What is quadratic needs minutes for it, and is ended by the time that a test has.
    redacted(part * (200_000 // len(part)))
    names_secret(part * (200_000 // len(part)))


def test_listeners_are_told_no_secret_either() -> None:
    """An event has its message and fields redacted before anybody hears of it."""
    events = Events()
    heard = recorded(events)
    events.emit("run.failed", "job", logging.ERROR, "https://x/?token=s3cret", why="Bearer abcdefghijklmnopq", took=7)
    [event] = heard
    assert (event.message, dict(event.fields)) == (
        "https://x/?token=[redacted]",
        {"why": "Bearer [redacted]", "took": 7},
    )
