"""What is told of a refused lock, and how loudly."""

from __future__ import annotations

import logging
import time

import pytest

from firecron.base.events import Event
from firecron.locks import LockService
from rtdb_emulator.pytest_plugin import Rtdb

NAME = "job"
PATH = f"/cron-locks/{NAME}"
SOON = round(time.time() * 1000) + 3_600_000
FAR = 4_102_444_800_000

HELD = {"acquiredAt": 1, "expiresAt": SOON, "holder": "h", "instanceId": "api-00042-abc", "instance": "i"}


@pytest.mark.parametrize(
    ("node", "reason", "level"),
    [
        pytest.param(HELD, "held", logging.INFO, id="held"),
        pytest.param({**HELD, "expiresAt": FAR}, "held", logging.WARNING, id="held-for-ever"),
        pytest.param({"paused": True}, "paused", logging.INFO, id="paused"),
        pytest.param({"paused": "yes"}, "paused", logging.WARNING, id="paused-strangely"),
        pytest.param({**HELD, "paused": 1}, "paused", logging.WARNING, id="held-and-paused-strangely"),
        pytest.param("locked", "malformed", logging.ERROR, id="malformed"),
    ],
)
def test_a_refusal_is_told_at_its_level(
    rtdb: Rtdb, caplog: pytest.LogCaptureFixture, node: object, reason: str, level: int
) -> None:
    """A refusal is one event and one line of the log, of the level that its reason has, with the reason as a field."""
    rtdb.set(PATH, node)
    service = LockService()
    events: list[Event] = []
    service.events.subscribe(events.append)
    with caplog.at_level(logging.DEBUG, logger="firecron"):
        assert not service.acquire(NAME, 60)
    assert [(event.slug, event.fields["reason"], event.level) for event in events] == [("lock.refused", reason, level)]
    assert [(record.name, record.levelno) for record in caplog.records] == [("firecron", level)]
    assert rtdb.get(PATH) == node


def test_a_dead_database_is_told_as_an_error(rtdb: Rtdb) -> None:
    """Unavailable has an event of its own, so that it can be counted apart from the refusals."""
    rtdb.faults.answer(429, headers={"Retry-After": "3600"}, path=PATH, times=None)
    service = LockService()
    events: list[Event] = []
    service.events.subscribe(events.append)
    assert not service.acquire(NAME, 60)
    assert [(event.slug, event.level) for event in events] == [("lock.unavailable", logging.ERROR)]
