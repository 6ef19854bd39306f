"""The timeline: what it has of each job and of the instances, and what it costs the database."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from tests.cli import schemas
from tests.page.paging import Page, attend, declare, now
from tests.page.test_reads import MINUTE, lock_node, run_node

from firecron.base.instants import to_text
from rtdb_emulator.pytest_plugin import Rtdb

ROW = schemas.exactly(
    {
        "since": schemas.perhaps(schemas.NUMBER),
        "keptFrom": schemas.NUMBER,
        "runs": schemas.each(
            schemas.exactly(
                {
                    "start": schemas.NUMBER,
                    "end": schemas.perhaps(schemas.NUMBER),
                    "outcome": schemas.TEXT,
                    "why": schemas.perhaps(schemas.TEXT),
                }
            )
        ),
        "holes": schemas.each(
            schemas.exactly(
                {
                    **dict.fromkeys(("hole", "first", "last"), schemas.TEXT),
                    "why": schemas.perhaps(schemas.TEXT),
                    "count": schemas.NUMBER,
                    "isMore": schemas.TRUTH,
                }
            )
        ),
        "next": schemas.each(schemas.INSTANT),
    }
)
TIMELINE = schemas.exactly(
    {
        **dict.fromkeys(("from", "now", "until"), schemas.INSTANT),
        "rows": {"type": "object", "additionalProperties": schemas.perhaps(ROW)},
        "marks": {
            "type": "object",
            "additionalProperties": schemas.each(
                schemas.exactly({"what": schemas.TEXT, "at": schemas.INSTANT, "owner": schemas.TEXT})
            ),
        },
    }
)


def read(page: Page, query: str) -> Any:
    reply = page.get(f"/api/timeline?{query}")
    assert reply.status == 200, reply.raw
    jsonschema.validate(reply.body, TIMELINE)
    return reply.body


def test_a_row_has_runs_holes_and_what_is_to_come(rtdb: Rtdb) -> None:
    """At their true times: a run of the lock goes on, what did not run is a stretch, and ticks come until the end."""
    last = now() // MINUTE * MINUTE
    slots = [to_text(last - back * MINUTE) for back in range(8, -1, -1)]
    declare(rtdb, "digest", "* * * * *", since=last - 60 * MINUTE, grace=1_000)
    attend(rtdb, "digest")
    rtdb.set("/cron-runs/digest", {
        slots[0]: run_node(slots[0], last - 8 * MINUTE + 50, "failed", error="boom"),
        slots[1]: {"outcome": "missed", "slot": slots[1], "recordedBy": "bookkeeper"},
    })  # fmt: skip
    held = lock_node(slots[2], last - 6 * MINUTE + 100, unfinished=slots[2], expiresAt=last + 60 * MINUTE)
    rtdb.set(
        "/cron-locks/digest", {name: value for name, value in held.items() if name not in ("releasedAt", "outcome")}
    )
    row = read(Page(), "hours=6&names=digest")["rows"]["digest"]
    assert (row["since"], row["keptFrom"]) == (last - 60 * MINUTE, last - 8 * MINUTE)
    start = last - 8 * MINUTE + 50
    assert row["runs"] == [
        {"start": start, "end": start + 900, "outcome": "failed", "why": "boom"},
        {"start": last - 6 * MINUTE + 100, "end": None, "outcome": "running", "why": None},
    ]
    assert [(one["hole"], one["first"]) for one in row["holes"]] == [("missed", slots[1]), ("skipped", slots[3])]
    assert row["holes"][1]["last"] >= slots[8]
    assert (len(row["next"]) in (29, 30), row["next"][0] > slots[8]) == (True, True)


def test_the_marks_of_a_service_are_its_instances(rtdb: Rtdb) -> None:
    """By their signs of life; one that is gone by its runs, but the first one may have been there before."""
    at = now()
    declare(rtdb, "digest", "* * * * *", since=at - 60 * MINUTE)
    attend(rtdb, "digest")
    runs = {
        to_text(at - back * MINUTE): run_node(to_text(at - back * MINUTE), at - back * MINUTE, instance=instance)
        for back, instance in ((50, "gone1"), (40, "gone1"), (30, "gone2"), (5, "here"))
    }
    rtdb.set("/cron-runs/digest", runs)
    rtdb.set("/cron-instances", {
        "here-1": {"seenAt": at, "startedAt": at - 10 * MINUTE, "instanceId": "shop-00042"},
        "dead-1": {"seenAt": at - 4 * MINUTE, "startedAt": at - 600 * MINUTE, "instanceId": "shop-00042"},
        "other-1": {"seenAt": at, "startedAt": at - 10 * MINUTE, "instanceId": "desk-00001"},
    })  # fmt: skip
    [(service, marks)] = read(Page(), "hours=6&names=digest")["marks"].items()
    assert service == "shop"
    assert [(mark["what"], mark["owner"].rpartition("/")[2]) for mark in marks] == [
        ("first run", "gone1"),
        ("last run", "gone1"),
        ("first run", "gone2"),
        ("last run", "gone2"),
        ("started", "here"),
        ("vanished", "dead"),
    ]


@pytest.mark.parametrize("query", ["hours=6", "hours=24", "hours=168", "hours=1000", ""])
def test_it_costs_one_request_a_job_whatever_the_range_and_whoever_looks(rtdb: Rtdb, query: str) -> None:
    """However many browsers ask, also for another range; a job that is not asked for costs none."""
    names = ("backup", "digest", "report")
    for name in (*names, "unseen"):
        declare(rtdb, name, "* * * * *", since=now() - 60 * MINUTE)
    attend(rtdb, *names)
    page = Page()
    page.get("/api/jobs")
    before = {name: rtdb.count(path=f"/cron-runs/{name}") for name in (*names, "unseen")}
    instances = rtdb.count(path="/cron-instances")
    for asked in (query, query, "hours=6", "hours=168", query):
        assert set(read(page, f"{asked}&names={','.join(names)}")["rows"]) == set(names)
    cost = {name: rtdb.count(path=f"/cron-runs/{name}") - count for name, count in before.items()}
    assert cost == {**dict.fromkeys(names, 1), "unseen": 0}
    assert rtdb.count(path="/cron-instances") - instances <= 1


def test_a_name_that_is_no_job_and_a_history_that_is_none_take_no_row_away(rtdb: Rtdb) -> None:
    """The one is left out, the other is null."""
    for name in ("digest", "import"):
        declare(rtdb, name, "* * * * *", since=now() - 3 * MINUTE)
    rtdb.set("/cron-runs/import", 5)
    rows = read(Page(), "names=nobody,<b>,import,digest")["rows"]
    assert (set(rows), rows["import"], rows["digest"]["runs"]) == ({"import", "digest"}, None, [])
