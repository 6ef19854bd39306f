"""`firecron forget`: which entries of the catalogue it removes, and what it says of them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cli.calls import answer, become_nobody, call, complaint, stored
from tests.cli.schemas import FORGOTTEN, STATUS
from tests.stores.least_privilege import RULES

from firecron import FireCron, distributed_cron
from firecron.errors import Unavailable
from firecron.locks import LockService
from firecron.ops.operator import Operator
from firecron.settings import load
from firecron.testing.rehearsal import Inline
from rtdb_emulator.pytest_plugin import Rtdb


def program(*names: str, **options: Any) -> FireCron:
    """A program that has declared these jobs."""
    jobs = [distributed_cron(name, "0 9 * * *", **options)(lambda: None) for name in names]
    crons = FireCron(*jobs, settings=load(), enabled=True, has_threads=False, crew=Inline())
    crons.engine.publisher.begin()
    return crons


def forgotten(*arguments: str) -> list[dict[str, Any]]:
    """What the command says it has removed."""
    return list(answer(FORGOTTEN, "forget", *arguments)["forgotten"])


def kept(rtdb: Rtdb) -> list[str]:
    """The names in the catalogue."""
    found = rtdb.get("/cron-jobs")
    return sorted(found) if isinstance(found, dict) else []


def test_it_says_what_it_has_removed(rtdb: Rtdb) -> None:
    """The entries and tracebacks are gone, and nothing else: locks and histories stay."""
    program("digest", "mail", "report")
    rtdb.set("/cron-errors", {"digest": {"x": "Traceback"}, "other": {"x": "Traceback"}})
    others = {"cron-locks": {"digest": {"paused": True}}, "cron-runs": {"digest": {"x": {"outcome": "failed"}}}}
    for path, node in others.items():
        rtdb.set(f"/{path}", node)
    (value,) = forgotten("digest")
    assert (value["name"], value["line"], value["service"], value["live"]) == ("digest", "0 9 * * *", "local", False)
    assert kept(rtdb) == ["mail", "report"]
    said = call("forget", "mail", "report").stdout
    assert "mail: forgotten\n  [0 9 * * *] (UTC), declared by local at 20" in said
    assert said.count("its lock and its history stay") == 2
    assert kept(rtdb) == []
    assert {path: rtdb.get(f"/{path}") for path in others} == others
    assert rtdb.get("/cron-errors") == {"other": {"x": "Traceback"}}


def test_it_leaves_an_act(rtdb: Rtdb) -> None:
    """Who forgot a job, and why, is recorded; an entry that stays leaves no act."""
    program("digest", "mail")
    assert call("forget", "digest", "--why", "its service is gone").exit_code == 0
    assert call("forget", "nobody").exit_code == 2
    (act,) = stored(rtdb, "/cron-acts").values()
    assert (act["act"], act["name"], act["why"]) == ("forget", "digest", "its service is gone")


@pytest.mark.parametrize(
    ("node", "shown"),
    [
        ("x", "its entry could not be read"),
        (
            {"every": 2700, "service": "", "where": ""},
            "[every 45 minutes, from 1970-01-01 00:00 UTC], declared by nobody",
        ),
    ],
)
def test_any_entry_can_be_forgotten(rtdb: Rtdb, node: object, shown: str) -> None:
    """Also what somebody has typed there, and a job that nobody with its role has declared."""
    for arguments in ((), ("--json",)):
        rtdb.set("/cron-jobs/digest", node)
        result = call("forget", "digest", *arguments)
        assert result.exit_code == 0, result.stderr
        assert arguments or shown in result.stdout
        assert kept(rtdb) == []


def test_a_live_job_stays(rtdb: Rtdb) -> None:
    """Of several names none is forgotten then; with --force all are."""
    program("old")
    crons = program("digest")
    crons.engine.heartbeat.beat()
    said = complaint(1, "forget", "old", "digest")
    assert "digest is live, local runs it" in said
    assert kept(rtdb) == ["digest", "old"]
    assert [value["live"] for value in forgotten("old", "digest", "--force")] == [False, True]
    assert kept(rtdb) == []


def test_a_program_that_does_not_say_what_it_runs_may_have_it(rtdb: Rtdb) -> None:
    """An older version counts as one that runs the job, as long as it lives."""
    program("digest").engine.heartbeat.beat()
    (group,) = stored(rtdb, "/cron-groups")
    rtdb.set(f"/cron-groups/{group}/jobs", None)
    assert "a live program that doesn't say what it runs may have it" in complaint(1, "forget", "digest")
    rtdb.set(f"/cron-groups/{group}/seenAt", 1)
    assert call("forget", "digest").exit_code == 0


def test_a_name_that_is_not_there(rtdb: Rtdb) -> None:
    """It is wrong usage, with the names that are like it, and nothing is removed."""
    program("digest")
    said = complaint(2, "forget", "digest", "digets")
    assert "there is no job digets in the catalogue of" in said
    assert said.endswith("; did you mean digest?")
    assert "a/b" in complaint(2, "forget", "a/b")
    assert kept(rtdb) == ["digest"]


@pytest.mark.parametrize("key", ["__proto__", "a b<b>", "1", "\u202ereversed"])
def test_a_key_that_can_name_no_job(rtdb: Rtdb, key: str) -> None:
    """Whatever somebody has typed into the catalogue can be forgotten by the name that the status prints."""
    program("digest")
    rtdb.set(f"/cron-jobs/{key}", {"line": "0 9 * * *"})
    (shown,) = {row["job"] for row in answer(STATUS, "status")["jobs"]} - {"digest"}
    assert call("forget", shown).exit_code == 0
    assert kept(rtdb) == ["digest"]


def test_an_entry_that_changes_meanwhile_stays(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program has just declared it: what was removed before it is said."""
    program("digest", "mail")
    look = Operator.entries

    def late(self: Operator, names: list[str]) -> object:
        found = look(self, names)
        rtdb.set("/cron-jobs/mail/grace", 5)
        return found

    monkeypatch.setattr(Operator, "entries", late)
    said = complaint(1, "forget", "digest", "mail")
    assert said.startswith("digest forgotten, but mail changed meanwhile")
    assert kept(rtdb) == ["mail"]


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_reply_that_is_lost(rtdb: Rtdb, is_gone: bool) -> None:
    """What is there then says whether it was forgotten."""
    program("digest")
    operator = Operator(LockService().database)
    (seen,) = operator.entries(["digest"])
    rtdb.faults.answer(503, applied=is_gone, method="DELETE")
    if is_gone:
        assert operator.forget(seen)
    else:
        with pytest.raises(Unavailable):
            operator.forget(seen)
    assert kept(rtdb) == ([] if is_gone else ["digest"])


def test_whom_the_rules_refuse(rtdb: Rtdb) -> None:
    """Nothing is forgotten, and the exit code is that of a denial."""
    program("digest")
    become_nobody(rtdb, {".read": True, ".write": False})
    complaint(78, "forget", "digest")
    rtdb.set_rules({"rules": {".read": False, ".write": False}})
    complaint(78, "forget", "digest")


def test_a_history_is_deleted_on_purpose(rtdb: Rtdb) -> None:
    """The runs, the tracebacks and the steps go; the lock stays, and so do an open tick and what is done once."""
    program("digest")
    lock = {"slot": "2026-11-18T09:00:00Z", "fence": 7, "unfinished": "2026-11-18T09:00:00Z"}
    rtdb.set("/cron-locks/digest", lock)
    failed = {"outcome": "failed"}
    rtdb.set("/cron-runs", {"digest": {f"k{n}": failed for n in range(3)}, "mail": {"x": failed}})
    rtdb.set("/cron-errors/digest", {"k1": "Traceback"})
    step = {"s": {"fence": 1}}
    rtdb.set("/cron-steps/digest", {"2026-11-17T09:00:00Z": step, "2026-11-18T09:00:00Z": step, "once": step})
    (value,) = forgotten("digest", "--history")
    assert (value["history"], value["service"]) == (3, "local")
    assert rtdb.get("/cron-locks/digest") == lock
    assert rtdb.get("/cron-runs") == {"mail": {"x": failed}}
    assert rtdb.get("/cron-errors") is None
    assert sorted(stored(rtdb, "/cron-steps/digest")) == ["2026-11-18T09:00:00Z", "once"]
    assert "it had no entry\n  its history is gone (0 entries)" in call("forget", "digest", "--history").stdout


def test_the_history_of_a_live_job_stays(rtdb: Rtdb) -> None:
    """Unless that is forced; and a name that nobody knows is wrong usage."""
    crons = program("digest")
    crons.engine.heartbeat.beat()
    rtdb.set("/cron-runs/digest/x", {"outcome": "failed"})
    assert "would declare it again" in complaint(1, "forget", "digest", "--history")
    assert "there is no job diggest" in complaint(2, "forget", "diggest", "--history")
    assert rtdb.get("/cron-runs/digest/x") is not None
    assert forgotten("digest", "--history", "--force")[0]["history"] == 1


def test_the_rules_let_a_user_delete_a_history(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run of each key, and whole ticks of steps, are what the rules of least privilege allow."""
    program("digest")
    rtdb.set("/cron-runs/digest", {"x": {"outcome": "failed"}, "2026-11-18T09:00:00Z": {"outcome": "failed"}})
    rtdb.set("/cron-steps/digest", {"2026-11-17T09:00:00Z": {"s": {"fence": 1}}})
    rtdb.set_rules(RULES)
    monkeypatch.setenv("FIRECRON_UID", "firecron")
    assert forgotten("digest", "--history")[0]["history"] == 2
    assert rtdb.get("/cron-runs") is None
    assert rtdb.get("/cron-steps") is None
