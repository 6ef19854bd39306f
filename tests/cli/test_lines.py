"""Instants, durations, locks and runs in words, as they are shown at 80 columns and where there is no width."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from zoneinfo import ZoneInfo

import pytest
from tests.unit.lock.records import NOW, node, released_node

from firecron.base.instants import to_datetime
from firecron.cli.lines import Paper, bar, clock_time, distance, lock_lines, rank, run_lines, took, unfinished_line
from firecron.ops.views import Unfinished, inspect_lock, inspect_run
from firecron.runs.entry import Entry

BERLIN, LORD_HOWE = ZoneInfo("Europe/Berlin"), ZoneInfo("Australia/Lord_Howe")
TODAY = to_datetime(NOW).astimezone(BERLIN)
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("away", "said"),
    [
        (0, "just now"),
        (999, "just now"),
        (-1000, "1 s ago"),
        (58_999, "in 59 s"),
        (59_999, "in 1 min"),
        (2 * HOUR - 5, "in 2 h"),
        (-2 * HOUR + 5, "1 h ago"),
        (60_000, "in 1 min"),
        (-12 * MINUTE, "12 min ago"),
        (-3 * HOUR, "3 h ago"),
        (40 * DAY, "in 40 d"),
        (-365 * DAY, "1 y ago"),
        (2**53 - 1, "in 7978 y"),
    ],
)
def test_a_distance_is_said_in_one_unit(away: int, said: str) -> None:
    """How far away an instant is, is said in the largest unit of which there is one, before or after now."""
    assert distance(NOW + away, NOW) == said


@pytest.mark.parametrize(
    ("duration", "said"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1.0 s"),
        (59_999, "59.9 s"),
        (60_000, "1 min 0 s"),
        (3_599_999, "59 min 59 s"),
        (3_600_000, "1 h 0 min"),
        (2**53 - 1, "285616 y"),
    ],
)
def test_a_duration_is_said_as_closely_as_it_matters(duration: int, said: str) -> None:
    """How long a run took is said in two units at most, and never rounded up."""
    assert took(duration) == said


@pytest.mark.parametrize(
    ("instant", "zone", "said"),
    [
        (NOW, UTC, "09:00:00Z"),
        (NOW, BERLIN, "10:00:00 (09:00:00Z)"),
        (NOW, LORD_HOWE, "20:00:00 (09:00:00Z)"),
        (NOW + 14 * HOUR + 30 * MINUTE, BERLIN, "19 Nov 00:30:00 (18 Nov 23:30:00Z)"),
        (NOW - DAY, UTC, "17 Nov 09:00:00Z"),
        (NOW - 365 * DAY, BERLIN, "2025-11-18 10:00:00 (09:00:00Z)"),
        (0, UTC, "1970-01-01 00:00:00Z"),
        (2**53 - 1, BERLIN, "9999-12-31 23:59:59Z"),
    ],
)
def test_a_time_is_local_and_utc(instant: int, zone: ZoneInfo, said: str) -> None:
    """A time is shown in local time and UTC, once where they are the same, with the date if it is not today."""
    assert clock_time(instant, NOW, zone) == said


@pytest.mark.parametrize(
    ("record", "lines"),
    [
        pytest.param(
            node(slot="2026-11-18T09:00:00Z", unfinished="2026-11-18T09:00:00Z", attempt=1),
            [
                "held by rev-2/i2",
                "since 09:59:50 (08:59:50Z), 10 s ago; until 10:00:50 (09:00:50Z), in 50 s",
                "tick 2026-11-18T09:00:00Z",
            ],
            id="held",
        ),
        pytest.param(
            node(slot="2026-11-18T08:59:00Z", unfinished="2026-11-18T08:58:00Z", attempt=2, paused=True),
            [
                "paused: no instance can acquire it until it is resumed",
                "held by rev-2/i2",
                "since 09:59:50 (08:59:50Z), 10 s ago; until 10:00:50 (09:00:50Z), in 50 s",
                "tick 2026-11-18T08:58:00Z, attempt 2",
                "last tick 2026-11-18T08:59:00Z",
            ],
            id="paused, and an older tick run again",
        ),
        pytest.param(
            released_node(
                releasedAt=NOW - 5000,
                paused=True,
                pausedBy="ann@laptop",
                pausedAt=NOW - 12 * MINUTE,
                pausedWhy="[b]feed\x1b[31m\u202e",
                pausedUntil=NOW + 2 * HOUR,
            ),
            [
                "paused: no instance can acquire it until 12:00:00 (11:00:00Z), in 2 h",
                "paused by ann@laptop since 09:48:00 (08:48:00Z), 12 min ago: [b]feed�[31m�",
                "free since 09:59:55 (08:59:55Z), 5 s ago",
            ],
            id="paused for a while, by somebody, for a reason",
        ),
        pytest.param(
            {"paused": True, "pausedWhy": "x"},
            ["paused: no instance can acquire it until it is resumed", "paused: x", "free"],
            id="paused by hand, with a reason",
        ),
        pytest.param(
            {"paused": True, "pausedUntil": NOW - MINUTE},
            ["its pause has been over since 09:59:00 (08:59:00Z), 1 min ago", "free"],
            id="a pause that is over",
        ),
        pytest.param(
            node(expiresAt=NOW - 5000, unfinished="2026-11-18T08:59:00Z", slot="2026-11-18T08:59:00Z"),
            [
                "died without releasing: rev-2/i2",
                "the lock expired at 09:59:55 (08:59:55Z), 5 s ago, and is free since then",
                "tick 2026-11-18T08:59:00Z did not run to its end",
            ],
            id="died",
        ),
        pytest.param(
            released_node(releasedAt=NOW - 5000, expiresAt=NOW - 5000, slot="2026-11-18T08:59:00Z", outcome="failed"),
            ["free since 09:59:55 (08:59:55Z), 5 s ago", "last tick 2026-11-18T08:59:00Z failed"],
            id="free",
        ),
        pytest.param(
            node(releasedAt=NOW - 5000, outcome="succeeded"),
            ["released by rev-2/i2, but kept until 10:00:50 (09:00:50Z), in 50 s", "last run succeeded"],
            id="minimum hold",
        ),
        pytest.param(
            node(expiresAt=0, unfinished="2026-11-18T08:59:00Z"),
            [
                "free: unlocked by an operator; it was held by rev-2/i2",
                "tick 2026-11-18T08:59:00Z did not run to its end",
            ],
            id="unlocked",
        ),
        pytest.param(
            node(holder=None, instance=None, acquiredAt=None),
            ["held by rev-2 (a NestJS original)", "since ?; until 10:00:50 (09:00:50Z), in 50 s"],
            id="foreign",
        ),
        pytest.param(
            node(expiresAt=4_102_444_800_000),
            [
                "held by rev-2/i2",
                "since 09:59:50 (08:59:50Z), 10 s ago; until 2100-01-01 01:00:00 (00:00:00Z), in 73 y",
                "it expires at 2100-01-01T00:00:00Z, later than any lease can, and blocks until then",
                "make sure that its run has ended, then unlock it: firecron unlock job",
            ],
            id="stuck",
        ),
        pytest.param({}, ["free"], id="nothing"),
    ],
)
def test_a_lock_in_lines(record: dict[str, object], lines: list[str]) -> None:
    """What is to be said of a lock, the most important first, in lines that fit into 80 columns."""
    found = [line.plain for line in lock_lines(inspect_lock("job", "cron-locks/job", record, NOW, 1000), NOW, BERLIN)]
    assert found == lines
    assert all(len(line) <= 78 for line in found) or "2100" in found[1]


def test_what_needs_a_hand_comes_first() -> None:
    """Malformed and dead locks come before held and paused ones, and free ones last, by name among equals."""
    nodes: dict[str, object] = {
        "b-free": released_node(releasedAt=NOW - 5000, expiresAt=NOW - 5000),
        "a-free": None,
        "paused": {"paused": True},
        "held": node(),
        "dead": node(expiresAt=NOW - 5000),
        "odd": 1,
        "stuck": node(expiresAt=4_102_444_800_000),
    }
    views = sorted(
        (inspect_lock(name, f"cron-locks/{name}", value, NOW, 1000) for name, value in nodes.items()), key=rank
    )
    assert [view.name for view in views] == ["odd", "stuck", "dead", "held", "paused", "b-free", "a-free"]


@pytest.mark.parametrize(
    ("part", "whole", "drawn"),
    [(0, 100, ""), (1, 10_000, "▏"), (50, 100, "█████"), (55, 100, "█████▌"), (100, 100, "██████████"), (5, 0, "")],
)
def test_a_bar_is_a_share_of_the_longest(part: int, whole: int, drawn: str) -> None:
    """A bar is as long as its share, to an eighth of a character, and never nothing for what took any time."""
    assert bar(part, whole, 10) == drawn
    assert len(bar(part, whole, 10, has_blocks=False)) == len(drawn)


def entry(fields: Mapping[str, object] | None = None) -> Entry:
    run = {"outcome": "succeeded", "slot": "2026-11-18T08:00:00Z", "durationMs": 1500, "instanceId": "api-v3-00042-abc"}
    return inspect_run("key", {**run, "instance": "00bf4b9c3f2a", **(fields or {})})


def shown(run: Entry, width: int | None, *others: Entry) -> list[str]:
    return run_lines([run], [run, *others], Paper(TODAY, width))[0].plain.splitlines()


def test_a_run_fits_into_80_columns() -> None:
    """At 80 columns a run of today is one line, with its owner whole and its bar shorter than elsewhere."""
    (line,) = shown(entry(), 80)
    assert line == "09:00:00 (08:00:00Z)  succeeded  1.5 s  █████████  api-v3-00042-abc/00bf4b9c3f2a"
    assert len(line) <= 80
    (wide,) = shown(entry(), None)
    assert wide.count("█") == 10


def test_what_has_no_room_gets_a_line_of_its_own() -> None:
    """Where the owner doesn't fit beside the rest it is in the line below, and nothing of it is cut."""
    first, second = shown(entry({"slot": "2025-11-18T08:00:00Z", "durationMs": 90_000}), 80)
    assert len(first.rstrip()) <= 80
    assert second == "    api-v3-00042-abc/00bf4b9c3f2a"


@pytest.mark.parametrize(
    ("fields", "note"),
    [
        ({"trigger": "rerun", "attempt": 2}, "rerun; attempt 2"),
        ({"trigger": "schedule", "attempt": 1}, None),
        ({"startedAt": NOW - HOUR + 4999}, None),
        ({"startedAt": NOW - HOUR + 5000}, "started 5.0 s after its tick"),
        ({"outcome": "skipped", "count": 3}, "3 ticks, of which this is the last"),
        ({"outcome": "missed", "count": 500, "atLeast": True}, "at least 500 ticks, of which this is the last"),
        ({"outcome": "failed", "error": "ValueError: no"}, "ValueError: no"),
        ({"note": "1,204 mails\n\x1b[31m2 to come"}, "1,204 mails ⏎ \ufffd[31m2 to come"),
        ({"outcome": "failed", "note": "page 3", "error": "ValueError: no"}, "page 3; ValueError: no"),
        ({"note": 1204}, None),
    ],
)
def test_what_is_unusual_is_noted(fields: dict[str, object], note: str | None) -> None:
    """What is unusual of a run is below it, or behind it where a line has no end; what is usual is not said."""
    assert shown(entry(fields), 80)[1:] == ([] if note is None else [f"    {note}"])
    (line,) = shown(entry(fields), None)
    assert line.endswith("00bf4b9c3f2a" if note is None else f"00bf4b9c3f2a; {note}")


def test_who_recorded_it_takes_no_room_from_the_others() -> None:
    """At 80 columns who recorded a tick that did not run is below it, and the runs beside it keep their one line."""
    fields = {"outcome": "missed", "durationMs": None, "recordedBy": "bookkeeper", "count": 12}
    runs = [entry(), entry(fields)]
    ran, missed = (line.plain.splitlines() for line in run_lines(runs, runs, Paper(TODAY, 80)))
    assert len(ran) == 1
    assert len(ran[0]) <= 80
    assert missed[1:] == ["    (recorded by api-v3-00042-abc/00bf4b9c3f2a)", "    12 ticks, of which this is the last"]


@pytest.mark.parametrize(
    ("found", "width", "lines"),
    [
        (
            Unfinished("2026-11-18T08:51:00Z", True, NOW - 9 * MINUTE, "local", "0a"),
            None,
            ["09:51:00 (08:51:00Z)  under way since 09:51:00 (08:51:00Z), on local/0a"],
        ),
        (
            Unfinished("2026-11-18T08:51:00Z", True, NOW - 9 * MINUTE, "api-v3-00042-abc", "00bf4b9c3f2a"),
            80,
            ["09:51:00 (08:51:00Z)  under way since 09:51:00 (08:51:00Z)", "    on api-v3-00042-abc/00bf4b9c3f2a"],
        ),
        (
            Unfinished("2026-11-18T08:51:00Z", False, NOW, "api-v3-00042-abc", "00bf4b9c3f2a"),
            80,
            ["09:51:00 (08:51:00Z)  started, not ended (on api-v3-00042-abc/00bf4b9c3f2a)"],
        ),
        (Unfinished("2026-11-18T08:51:00Z", True), 80, ["09:51:00 (08:51:00Z)  under way"]),
        (Unfinished("2026-11-18T08:51:00Z", False), 80, ["09:51:00 (08:51:00Z)  started, not ended"]),
    ],
)
def test_an_unfinished_run_in_a_line(found: Unfinished, width: int | None, lines: list[str]) -> None:
    """A run that isn't recorded yet is shown at its tick, with whether it is under way, since when and where."""
    assert unfinished_line(found, Paper(TODAY, width)).plain.splitlines() == lines


def test_a_run_of_no_slot_is_shown_by_its_start() -> None:
    """A manual run is shown at its start, and one of which no time is known by its key."""
    assert shown(entry({"slot": None, "startedAt": NOW}), 80)[0].startswith("10:00:00 (09:00:00Z)")
    assert shown(inspect_run("some-key", 1), 80)[0].startswith("some-key  malformed")
