"""`firecron schedules` and `firecron schedule`: put, list, show, remove and mend, without the code of the jobs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.cli.calls import answer, call, complaint
from tests.cli.schemas import ACTS, CHANGED, MENDED, NEXT, PUT, REMOVED, RUNS, SCHEDULES, STORED_JOBS, STORED_SCHEDULE
from tests.stores.least_privilege import RULES

from firecron import Schedule
from firecron.base.instants import to_milliseconds, to_text
from rtdb_emulator.pytest_plugin import Rtdb

CHRISTMAS = "2126-12-24T18:00:00Z"


@pytest.fixture(autouse=True)
def rules(rtdb: Rtdb) -> None:
    rtdb.set_rules(RULES)


def test_what_is_put_is_listed_shown_and_removed(rtdb: Rtdb) -> None:
    """For people and for programs."""
    args = ("--args", '{"event":"42"}', "--by", "ops")
    value = answer(PUT, "schedule", "put", "remind", "42", "0 9 * * *", "--timezone", "Europe/Berlin", *args)
    assert value == {"job": "remind", "changed": {"42": True}}
    answer(PUT, "schedule", "put", "remind", "43", "--at", CHRISTMAS)
    listed = answer(SCHEDULES, "schedules", "remind")["schedules"]
    assert [(one["key"], one["state"], one["line"], one["at"]) for one in listed] == [
        ("42", "waiting", "0 9 * * *", None),
        ("43", "waiting", "once, at 2126-12-24 18:00 UTC", CHRISTMAS),
    ]
    assert answer(STORED_JOBS, "schedules") == {"jobs": ["remind"]}
    shown = answer(STORED_SCHEDULE, "schedule", "show", "remind", "42")
    assert (shown["args"], shown["by"], shown["timezone"]) == ({"event": "42"}, "ops", "Europe/Berlin")
    assert "at 09:00 every day, Berlin" in call("schedules", "remind").stdout
    assert "arguments: {" in call("schedules", "remind", "42").stdout
    assert answer(REMOVED, "schedule", "remove", "remind", "42") == {"job": "remind", "key": "42", "running": False}
    assert "there is no schedule '42'" in complaint(2, "schedules", "remind", "42")
    node: Any = rtdb.get("cron-schedules/remind/:42")
    assert node["closed"] == "removed"


@pytest.mark.parametrize("given", [("0 9 * * *", "--every", "60"), ("--at", CHRISTMAS, "--timezone", "Europe/Berlin")])
def test_a_line_beside_another_kind_of_schedule_is_refused(rtdb: Rtdb, given: tuple[str, ...]) -> None:
    """So is a zone, which only a line has: neither is left out in silence."""
    assert "give a LINE and its --timezone, or --every, or --at" in complaint(
        2, "schedule", "put", "remind", "1", *given
    )
    assert rtdb.get("cron-schedules") is None


def test_lines_come_out_as_they_go_in(rtdb: Rtdb) -> None:
    """What `--lines` prints can be put again, also elsewhere; a line that is none is named."""
    for key in ("1", "2"):
        call("schedule", "put", "remind", key, "--every", "2700", "--args", '{"event":"x"}')
    printed = call("schedules", "remind", "--lines").stdout
    assert [json.loads(line)["key"] for line in printed.splitlines()] == ["1", "2"]
    rtdb.set("cron-schedules", None)
    done = call("schedule", "put", "remind", "--lines", input=printed)
    assert "remind:1: put" in done.stdout
    again = call("schedule", "put", "remind", "--lines", input=printed)
    assert "remind:2: nothing had to be changed" in again.stdout
    assert "line 1 is no JSON" in complaint(2, "schedule", "put", "remind", "--lines", input="nonsense")


def test_a_line_with_an_h_is_shown_and_put_again_as_it_was_written(rtdb: Rtdb) -> None:
    """Its numbers stand beside it. Once a hand has changed the numbers, they are not those of the `H` any more."""
    call("schedule", "put", "remind", "42", "H 9 * * *")
    shown = answer(STORED_SCHEDULE, "schedule", "show", "remind", "42")
    assert shown["line"] == Schedule("H 9 * * *", name="remind:42").line
    assert shown["written"] == "H 9 * * *"
    assert "line: H 9 * * *" in call("schedule", "show", "remind", "42").stdout
    printed = call("schedules", "remind", "--lines").stdout
    assert "nothing had to be changed" in call("schedule", "put", "remind", "--lines", input=printed).stdout
    call("schedule", "put", "others", "--lines", input=printed)
    node: Any = rtdb.get("cron-schedules/others/:42")
    assert (node["written"], node["line"]) == ("H 9 * * *", Schedule("H 9 * * *", name="others:42").line)
    for name, edited in (("line", "0 9 * * *"), ("written", "H H"), ("written", 1)):
        rtdb.set(f"cron-schedules/remind/:42/{name}", edited)
        assert answer(STORED_SCHEDULE, "schedule", "show", "remind", "42")["written"] is None


def test_what_a_hand_has_edited_is_mended(rtdb: Rtdb) -> None:
    """The next look is computed anew; what is right stays as it is."""
    call("schedule", "put", "remind", "42", "0 9 * * *")
    right: Any = rtdb.get("cron-schedules/remind/:42/nextAt")
    rtdb.set("cron-schedules/remind/:42/nextAt", "soon")
    assert answer(MENDED, "schedule", "mend", "remind") == {"job": "remind", "mended": 1}
    assert rtdb.get("cron-schedules/remind/:42/nextAt") == right
    assert answer(MENDED, "schedule", "mend", "remind")["mended"] == 0


def test_commands_of_a_lock_take_an_entry(rtdb: Rtdb) -> None:
    """By its name it is paused, resumed, cancelled and unlocked; its runs are shown, and what was done with it."""
    call("schedule", "put", "remind", "42", "0 9 * * *", "--args", '{"event":"42"}')
    started = to_milliseconds(datetime.now(UTC)) - 60_000
    slot = to_text(started)
    rtdb.set("cron-schedules/remind/:42/since", started - 1_000)
    assert answer(CHANGED, "pause", "remind:42", "--why", "a drill")["changed"] is True
    assert answer(STORED_SCHEDULE, "schedule", "show", "remind", "42")["state"] == "paused"
    assert answer(CHANGED, "resume", "remind:42")["changed"] is True
    node: Any = rtdb.get("cron-schedules/remind/:42")
    lock = {"acquiredAt": started, "expiresAt": started + 600_000, "fence": started, "holder": "h", "slot": slot}
    rtdb.set("cron-schedules/remind/:42", {**node, **lock, "unfinished": slot, "attempt": 1})
    assert "remind:42" in call("locks", "remind:42").stdout
    assert answer(CHANGED, "cancel", "remind:42")["changed"] is True
    assert answer(CHANGED, "unlock", "remind:42", "--yes")["changed"] is True
    after: Any = rtdb.get("cron-schedules/remind/:42")
    assert (after["cancel"], after["expiresAt"], after["args"]) == (started, 0, '{"event":"42"}')
    assert [act["act"] for act in answer(ACTS, "acts", "remind:42")["acts"]] == ["pause", "resume", "cancel", "unlock"]
    assert "there is no lock or job remind:43" in complaint(2, "acts", "remind:43")
    ended = {"outcome": "succeeded", "slot": slot, "startedAt": started, "endedAt": started + 5, "key": "42"}
    rtdb.set(f"cron-runs/remind/{slot}:42", ended)
    rtdb.set(f"cron-runs/remind/{slot}:43", {**ended, "key": "43"})
    assert [run["key"] for run in answer(RUNS, "runs", "remind:42")["runs"]] == [f"{slot}:42"]
    assert "schedule 4" not in call("runs", "remind:42").stdout
    assert [word in call("runs", "remind").stdout for word in ("schedule 42", "schedule 43")] == [True, True]


@pytest.mark.parametrize(
    "wrong",
    [
        ("put", "remind"),
        ("put", "remind", "42", "ever"),
        ("put", "remind", "42", "--at", "soon"),
        ("put", "remind", "42", "--at", "2126-12-24T18:00:00"),
        ("put", "remind", "42", "0 9 * * *", "--args", "[]"),
        ("put", "remind", "manual", "0 9 * * *"),
        ("show", "remind", "42"),
    ],
)
def test_what_can_t_be_done_is_refused(wrong: tuple[str, ...]) -> None:
    """With exit code 2."""
    assert call("schedule", *wrong).exit_code == 2


def test_next_lists_the_ticks_of_an_entry(rtdb: Rtdb) -> None:
    """In its own zone, for people and for programs; those up to `since` don't count."""
    call("schedule", "put", "remind", "42", "0 9 * * *", "--timezone", "Europe/Berlin")
    rtdb.set("cron-schedules/remind/:42/since", 4_950_000_000_000)  # 2126-11-10T16:00:00Z
    value = answer(NEXT, "next", "remind:42", "-n", "2", "--after", "2026-11-18T09:00Z")
    assert (value["line"], value["timezone"]) == ("0 9 * * *", "Europe/Berlin")
    assert [tick["utc"] for tick in value["ticks"]] == ["2126-11-11T08:00:00Z", "2126-11-12T08:00:00Z"]
    assert call("next", "remind:42", "-n", "1").stdout.splitlines() == [
        "at 09:00 every day, Berlin",
        "Mon 2126-11-11 09:00:00 +01:00   2126-11-11T08:00:00Z",
    ]
    rtdb.set("cron-schedules/remind/:42/paused", True)
    assert "remind:42 is paused" in call("next", "remind:42").stderr


def test_next_of_one_instant_is_that_instant(rtdb: Rtdb) -> None:
    """And after it there is none."""
    call("schedule", "put", "remind", "christmas", "--at", CHRISTMAS)
    value = answer(NEXT, "next", "remind:christmas")
    assert [tick["utc"] for tick in value["ticks"]] == [CHRISTMAS]
    shown = call("next", "remind:christmas", "--after", CHRISTMAS).stdout.splitlines()
    assert shown == ["once, at 2126-12-24 18:00 UTC", "no tick is to come: it has ended"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("remind:43",), "there is no schedule '43' of 'remind'"),
        (("remind:42", "-z", "UTC"), "remind:42 has its own time zone"),
        (("remind:42", "--every", "60"), "remind:42 has its own schedule"),
        (("remind:manual",), "can't be the key"),
        (("json:loads",), "json.loads is not a job"),
    ],
)
def test_next_says_what_is_wrong_with_a_name(arguments: tuple[str, ...], words: str) -> None:
    """An entry that isn't there, or options that are for a line; a name that a module has is an application's."""
    call("schedule", "put", "remind", "42", "0 9 * * *")
    assert words in complaint(2, "next", *arguments)


def test_next_of_what_cannot_be_read_says_why(rtdb: Rtdb) -> None:
    """The line that somebody has typed is named."""
    call("schedule", "put", "remind", "42", "0 9 * * *")
    rtdb.set("cron-schedules/remind/:42/line", "ever")
    assert "remind:42 can't be read: its schedule is wrong" in complaint(1, "next", "remind:42")
