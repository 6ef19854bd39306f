"""Looking changes nothing, whoever looks: the command line, the page, the triggers' lists, the health."""

from __future__ import annotations

import pytest
from tests.cli.calls import call
from tests.page.paging import Page, asgi_call, attend, declare
from tests.page.test_paths import READABLE

from firecron import distributed_cron
from rtdb_emulator.pytest_plugin import Rtdb

COMMANDS = ("status", "check", "locks", "locks digest", "runs", "runs digest --steps", "acts", "rules")


@distributed_cron("digest", "0 9 * * *")
def digest() -> None: ...


def test_looking_writes_nothing_but_a_request_for_the_time(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that show, all that the page shows, and the lists of the triggers leave the database as it was."""
    monkeypatch.setenv("RUNTIME_INSTANCE", "production")
    declare(rtdb, "digest")
    attend(rtdb, "digest")
    rtdb.set("/cron-locks/digest", {"paused": True, "slot": "2026-01-01T09:00:00Z", "releasedAt": 1, "expiresAt": 1})
    before = rtdb.get("/")
    for command in COMMANDS:
        call(*command.split())
    page = Page(digest)
    answers = [page.get(path).status for path in READABLE]
    triggers = page.crons.trigger_app(trust_cloud_run_iam=True)
    answers += [asgi_call(triggers, "GET", path).status for path in ("/", "/health")]
    assert set(answers) <= {200, 503}
    after = rtdb.get("/")
    assert isinstance(after, dict)
    assert list(after.pop("cron-instances")) == ["clock"]
    assert after == before
