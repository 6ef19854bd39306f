"""`firecron ask`: what it writes, what it prints, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from tests.cli import schemas
from tests.cli.calls import call
from tests.page.paging import declare, declare_live

from rtdb_emulator.pytest_plugin import Rtdb


def node(rtdb: Rtdb) -> Any:
    return rtdb.get("/cron-asks/digest")


def test_a_run_is_asked_for(rtdb: Rtdb) -> None:
    """The node says who asks for what, and why; the ask is an act, and `status --json` has it. A second ask is told who
    was first.
    """
    declare_live(rtdb, "digest")
    finished = call("ask", "digest", "--why", "late feed", "--json")
    assert finished.exit_code == 0, finished.stderr
    made = json.loads(finished.stdout)
    jsonschema.validate(made, schemas.ASKED)
    assert made["attended"] is True
    assert node(rtdb)["id"] == made["ask"]["id"]
    assert (node(rtdb)["why"], node(rtdb)["kind"]) == ("late feed", "run")
    seen = json.loads(call("status", "--json").stdout)
    jsonschema.validate(seen, schemas.STATUS)
    assert seen["jobs"][0]["ask"] == made["ask"]
    [act] = json.loads(call("acts", "--json").stdout)["acts"]
    assert (act["act"], act["name"], act["why"]) == ("ask", "digest", "late feed")
    again = call("ask", "digest")
    assert again.exit_code == 75
    assert "has asked for a run at" in again.stderr
    assert node(rtdb)["id"] == made["ask"]["id"]


def test_a_tick_is_asked_for(rtdb: Rtdb) -> None:
    """One that was missed, by its instant; or another attempt at one, by its key."""
    declare_live(rtdb, "digest")
    assert call("ask", "digest", "--slot", "2026-11-18T09:00:00Z").stdout.startswith(
        "digest: the run of 2026-11-18T09:00:00Z is asked for, as "
    )
    assert (node(rtdb)["kind"], node(rtdb)["tick"]) == ("slot", "2026-11-18T09:00:00Z")
    rtdb.set("/cron-asks", None)
    assert call("ask", "digest", "--resume", "2026-11-18T09:00:00Z-manual-a1b2c3").exit_code == 0
    assert (node(rtdb)["kind"], node(rtdb)["tick"]) == ("resume", "2026-11-18T09:00:00Z-manual-a1b2c3")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--slot", "nine"), 2, "is no instant"),
        (("--slot", "2026-11-18T09:00:00"), 2, "is no instant"),
        (("--slot", "now", "--resume", "x"), 2, "leave one of them out"),
        (("--resume", "x"), 2, "can't be resumed"),
        (("--slot", "2026-11-18T09:00:01Z"), 1, "is no tick of digest"),
        (("--slot", "2099-11-18T09:00:00Z"), 75, "still to come"),
    ],
)
def test_what_is_wrong_is_not_asked_for(rtdb: Rtdb, arguments: tuple[str, ...], code: int, said: str) -> None:
    """The error says what is wrong, and nothing is written."""
    declare_live(rtdb, "digest")
    finished = call("ask", "digest", *arguments)
    assert (finished.exit_code, node(rtdb)) == (code, None)
    assert said in finished.stderr


def test_what_nobody_can_run_is_not_asked_for(rtdb: Rtdb) -> None:
    """A job that only a trigger runs, one that is not there, and one that is paused. That no live instance has it is
    said.
    """
    declare(rtdb, "digest", ticks=False)
    finished = call("ask", "digest")
    assert (finished.exit_code, "only a trigger" in finished.stderr) == (1, True)
    finished = call("ask", "digset")
    assert (finished.exit_code, "digest" in finished.stderr) == (2, True)
    declare(rtdb, "digest")
    rtdb.set("/cron-locks/digest", {"paused": True})
    finished = call("ask", "digest")
    assert (finished.exit_code, "firecron resume digest" in finished.stderr, node(rtdb)) == (75, True, None)
    rtdb.set("/cron-locks", None)
    finished = call("ask", "digest")
    assert (finished.exit_code, "no live instance has digest" in finished.stderr) == (0, True)
