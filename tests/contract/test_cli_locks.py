"""`firecron locks` and `runs` against a database: what they show, for people and for programs, of whatever is there."""

from __future__ import annotations

import time

import pytest
from tests.contract.cli_calls import answer, call, complaint
from tests.contract.cli_schemas import LOCKS, RUNS

from firecron.instants import to_text
from firecron.lease import Lease
from firecron.lock import LockService
from rtdb_emulator.pytest_plugin import Rtdb

LONG_AGO = 1_600_000_000_000
SLOT = "2020-09-13T12:26:40Z"
DIED = {
    "acquiredAt": LONG_AGO,
    "expiresAt": LONG_AGO + 60_000,
    "holder": "secret-token",
    "instanceId": "api-1",
    "instance": "0a1b",
    "slot": SLOT,
    "unfinished": SLOT,
    "attempt": 2,
    "fence": LONG_AGO,
}


def states(value: dict[str, object]) -> dict[str, str]:
    locks = value["locks"]
    assert isinstance(locks, list)
    return {lock["name"]: lock["state"] for lock in locks}


def test_an_empty_database_says_so(rtdb: Rtdb) -> None:
    """Where no lock has a node, `locks` and `runs` say that there is nothing, with exit code 0."""
    assert answer(LOCKS, "locks") == {"locks": []}
    assert answer(RUNS, "runs", "job") == {"name": "job", "counts": {}, "runs": []}
    for arguments, words in ((("locks",), "no lock"), (("runs", "job"), "no run of job")):
        result = call(*arguments)
        assert result.exit_code == 0
        assert words in result.stdout
    assert rtdb.get("/cron-locks") is None


def test_a_lock_that_is_held_is_shown_with_its_owner(rtdb: Rtdb) -> None:
    """A held lock is shown with its owner, since when and until when, and its token is not."""
    locks = LockService()
    lease = locks.acquire("import", 3600, fenced=True)
    assert isinstance(lease, Lease)
    value = answer(LOCKS, "locks")
    node = rtdb.get("/cron-locks/import")
    assert isinstance(node, dict)
    assert isinstance(value["locks"], list)
    (lock,) = value["locks"]
    assert (lock["state"], lock["instanceId"], lock["instance"]) == ("held", "local", locks.identity.instance)
    assert (lock["since"], lock["until"], lock["fence"]) == (node["acquired"], node["expires"], node["fence"])
    said = call("locks").stdout
    assert said.startswith(f"import: held by local/{locks.identity.instance}; since ")
    assert "in 59 min" in said
    assert lease.holder not in said + str(value)
    lease.release()
    assert states(answer(LOCKS, "locks")) == {"import": "free"}


def test_each_kind_of_node_is_shown(rtdb: Rtdb) -> None:
    """Dead, paused, foreign, malformed and unlocked locks are told apart, and the urgent ones come first."""
    now = time.time_ns() // 1_000_000
    rtdb.set("/cron-locks/dead", DIED)
    rtdb.set("/cron-locks/paused", {"paused": True})
    rtdb.set("/cron-locks/foreign", {"acquiredAt": now, "expiresAt": now + 3_600_000, "instanceId": "old"})
    rtdb.set("/cron-locks/odd", "text")
    rtdb.set("/cron-locks/unlocked", {**DIED, "expiresAt": 0})
    expected = {"dead": "died", "paused": "free", "foreign": "held", "odd": "malformed", "unlocked": "unlocked"}
    assert states(answer(LOCKS, "locks")) == expected
    lines = call("locks").stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["odd", "dead", "foreign", "paused", "unlocked"]
    assert "malformed" in lines[0]
    assert "died without releasing: api-1/0a1b" in lines[1]
    assert f"tick {SLOT}, attempt 2 has not been run to its end" in lines[1]
    assert "old (a NestJS original)" in lines[2]
    assert "paused" in lines[3]
    assert "unlocked by an operator" in lines[4]


def test_the_prefix_is_heeded(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """With FIRECRON_PREFIX every command looks and writes below that path, and nowhere else."""
    monkeypatch.setenv("FIRECRON_PREFIX", "ops/cron")
    rtdb.set("/ops/cron/cron-locks/job", DIED)
    rtdb.set(f"/ops/cron/cron-runs/job/{SLOT}", {"outcome": "failed"})
    assert states(answer(LOCKS, "locks")) == {"job": "died"}
    assert answer(RUNS, "runs", "job")["counts"] == {"failed": 1}
    assert call("pause", "job").exit_code == 0
    assert rtdb.get("/ops/cron/cron-locks/job/paused") is True
    assert rtdb.get("/cron-locks") is None


def entry(start: int, **fields: object) -> dict[str, object]:
    return {
        "outcome": "succeeded",
        "slot": to_text(start),
        "startedAt": start + 100,
        "endedAt": start + 1100,
        "durationMs": 1000,
        "attempt": 1,
        "fence": start,
        "trigger": "schedule",
        "instanceId": "api-1",
        "instance": "0a1b",
        **fields,
    }


def test_the_history_is_shown_newest_last(rtdb: Rtdb) -> None:
    """`runs` shows the newest entries, the newest last, whatever they hold, and counts all of them."""
    start = LONG_AGO
    entries: dict[str, object] = {
        to_text(start): entry(start, durationMs=4000),
        to_text(start + 60_000): entry(start + 60_000, outcome="failed", error="ValueError: [red]no[/]", attempt=2),
        to_text(start + 120_000): {"outcome": "missed", "slot": to_text(start + 120_000), "count": 12, "atLeast": True},
        f"{to_text(start + 180_000)}-manual-a1b2c3": entry(start + 180_000, slot=None, trigger="manual"),
        "x-odd": 7,
    }
    rtdb.set("/cron-runs/job", entries)
    value = answer(RUNS, "runs", "job", "-n", "4")
    runs = value["runs"]
    assert isinstance(runs, list)
    assert [run["outcome"] for run in runs] == ["failed", "missed", "succeeded", "malformed"]
    assert value["counts"] == {"failed": 1, "malformed": 1, "missed": 12, "succeeded": 2}
    lines = call("runs", "job").stdout.splitlines()
    assert [line.count("█") for line in lines] == [10, 2, 0, 2, 0, 0]
    assert "attempt 2; ValueError: [red]no[/]" in lines[1]
    assert "at least 12 ticks" in lines[2]
    assert "manual" in lines[3]
    assert "malformed" in lines[4]
    assert lines[5] == "5 entries: 1 failed, 1 malformed, at least 12 missed, 2 succeeded"


def test_a_database_of_another_shape_is_no_crash(rtdb: Rtdb) -> None:
    """A text where locks or a history should be is malformed, and names that are numbers are shown as names."""
    rtdb.set("/cron-runs/job", "text")
    rtdb.set("/cron-locks", "text")
    assert "cron-runs/job" in complaint(78, "runs", "job")
    assert "cron-locks" in complaint(78, "locks")
    rtdb.set("/cron-locks", None)
    rtdb.set("/cron-locks/0", {"paused": True})
    rtdb.set("/cron-locks/1", {"paused": True})
    assert states(answer(LOCKS, "locks")) == {"0": "free", "1": "free"}
