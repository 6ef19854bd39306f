"""What the page does to many jobs at once: a visitor holds them, and takes that back."""

from __future__ import annotations

from typing import Any, cast

import pytest
from tests.page.paging import ACTING, WHO, Page, declare, now

from firecron.base.instants import to_text
from rtdb_emulator.pytest_plugin import Rtdb

HOUR = 3_600_000


def later(hours: float = 1) -> str:
    return to_text(now() + round(hours * HOUR))


def acts(page: Page) -> list[tuple[str, str, str, str | None]]:
    return [(act["act"], act["name"], act["who"], act["why"]) for act in page.get("/api/acts").body["acts"]]


def test_all_jobs_are_held_and_that_is_taken_back(rtdb: Rtdb) -> None:
    """Each lock is paused with the visitor's hold, and all see who holds what. A job that somebody resumes is named as
    not held. Taking it back resumes the others, and is an act of the visitor's, too.
    """
    for name in ("digest", "import", "mail-out"):
        declare(rtdb, name)
    page = Page(**ACTING)
    reply = page.post("/api/hold", {"until": later(), "why": "migrating"})
    assert (reply.status, reply.body["message"]) == (200, f"3 locks are held until {reply.body['until']}")
    name = reply.body["hold"]
    locks = cast("dict[str, dict[str, str]]", rtdb.get("/cron-locks"))
    assert {lock["pausedWith"] for lock in locks.values()} == {name}
    page.post("/api/jobs/digest/resume")
    [hold] = page.get("/api/jobs").body["holds"]
    assert (hold["hold"], hold["by"], hold["why"], hold["stands"]) == (name, WHO, "migrating", True)
    assert (hold["held"], hold["notHeld"]) == (2, ["digest"])
    reply = page.post("/api/unhold", {"hold": name, "why": "done"})
    assert (reply.status, reply.body["message"]) == (200, "2 locks are resumed")
    assert rtdb.get("/cron-hold") is None
    assert page.get("/api/jobs").body["holds"] == []
    assert {("unhold", "every job", WHO, "done"), ("hold", "every job", WHO, "migrating")} <= set(acts(page))
    assert page.post("/api/unhold", {"hold": name}).said == (404, "unknown_hold")


def test_some_jobs_are_held(rtdb: Rtdb) -> None:
    """Those of a service, or whose names match. A pause that ends later stays, and the reply says how many do."""
    declare(rtdb, "mail-out")
    declare(rtdb, "mail-in", service="other")
    rtdb.set("/cron-locks/mail-out", {"paused": True})
    page = Page(**ACTING)
    reply = page.post("/api/hold", {"until": later(), "why": "x", "match": "mail-*"})
    assert reply.body["held"] == ["mail-in"]
    assert "; 1 stays as it is, because of a longer pause" in reply.body["message"]
    reply = page.post("/api/hold", {"until": later(2), "why": "y", "service": "other"})
    assert (reply.body["held"], reply.body["what"]) == (["mail-in"], "the jobs of other")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"why": "x"},
        {"until": later()},
        {"until": later(-1), "why": "x"},
        {"until": "soon", "why": "x"},
        {"until": later(), "why": 7},
        {"until": later(), "why": "x", "match": "nothing-*"},
        {"until": later(), "why": "x", "service": 7},
    ],
    ids=range(8),
)
def test_a_hold_needs_an_end_and_a_reason(rtdb: Rtdb, body: dict[str, object]) -> None:
    """And something to hold: else it is 400, and nothing is written."""
    declare(rtdb, "digest")
    assert Page(**ACTING).post("/api/hold", body).said == (400, "bad_request")
    assert (rtdb.get("/cron-hold"), rtdb.get("/cron-locks")) == (None, None)


def test_locks_that_can_not_be_held_are_named(rtdb: Rtdb) -> None:
    """The others are held."""
    for number in range(3):
        declare(rtdb, f"job-{number}")
    open_to_all = {".write": True}
    locks: dict[str, Any] = {f"job-{number}": open_to_all for number in (0, 2)}
    nodes = dict.fromkeys(("cron-hold", "cron-acts", "cron-instances"), open_to_all)
    rtdb.set_rules({"rules": {".read": True, "cron-locks": locks, **nodes}})
    reply = Page(settings={"uid": "ops"}, **ACTING).post("/api/hold", {"until": later(), "why": "x"})
    assert (reply.status, reply.body["held"]) == (200, ["job-0", "job-2"])
    assert "; could not be written: job-1 (" in reply.body["message"]
