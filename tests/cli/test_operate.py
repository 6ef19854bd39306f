"""`firecron pause`, `resume`, `cancel` and `unlock`: what they change in the database, and when they change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.cli.calls import answer, become_nobody, call, complaint, stored
from tests.cli.schemas import CHANGED
from tests.cli.test_locks import DIED

from firecron.lock.lease import Lease
from firecron.locks import LockService
from firecron.ops.views import claimed_user
from rtdb_emulator import Emulator
from rtdb_emulator.pytest_plugin import Rtdb

PATH = "/cron-locks/job"
# An instant that is over.
NOW = 1_700_000_000_000
COMMANDS = [
    ("status",),
    ("check",),
    ("locks",),
    ("locks", "job"),
    ("runs", "job"),
    ("pause", "job"),
    ("resume", "job"),
    ("unlock", "job", "--yes"),
    ("cancel", "job"),
]


def held() -> Lease:
    lease = LockService().acquire("job", 3600, fenced=True)
    assert isinstance(lease, Lease)
    return lease


@contextmanager
def working(**wishes: bool) -> Iterator[Lease]:
    """A lock whose holder would notice a cancel, unless it is without fence or renewals."""
    with LockService().hold("job", 3600, **{"fenced": True, **wishes}) as lease:
        yield lease


def test_cancel_writes_the_fence_and_nothing_else(rtdb: Rtdb) -> None:
    """`cancel --why` writes `cancel` and the reason, keeps every other field, and the holder learns it by renewing."""
    with working() as lease:
        before = stored(rtdb, PATH)
        value = answer(CHANGED, "cancel", "job", "--why", "wrong input")
        assert rtdb.get(PATH) == {**before, "cancel": before["fence"], "cancelWhy": "wrong input"}
        assert value["changed"] is True
        shown = [value["lock"][name] for name in ("state", "cancelled", "cancelWhy")]
        assert shown == ["held", True, "wrong input"]
        assert not lease.cancelled
        assert lease.renew()
        assert (bool(lease.cancelled), bool(lease.lost), lease.why_cancelled) == (True, False, "wrong input")
        assert answer(CHANGED, "cancel", "job", "--why", "again")["changed"] is False
        assert rtdb.get(f"{PATH}/cancelWhy") == "wrong input"
        said = call("cancel", "job").stdout
        assert "job: it is cancelled already: nothing was changed" in said
        assert "cancelled, and has not ended yet: wrong input" in said
    assert "asked to stop" not in call("locks").stdout


def test_a_cancel_without_a_reason_has_none(rtdb: Rtdb) -> None:
    """`cancel` alone writes one field, and says when the run learns of it."""
    with working():
        assert "job: cancelled: the run is asked to stop at its next renewal" in call("cancel", "job").stdout
        node = stored(rtdb, PATH)
        assert (node["cancel"], node.get("cancelWhy")) == (node["fence"], None)


def test_a_leader_that_is_cancelled_is_asked_to_step_down(rtdb: Rtdb) -> None:
    """A leader has no run: `cancel` says what its term does."""
    with LockService().lead("job", 3600) as terms:
        next(terms)
        assert "job: cancelled: the leader is asked to step down at its next renewal" in call("cancel", "job").stdout
        assert rtdb.get(f"{PATH}/cancel") == rtdb.get(f"{PATH}/fence")


@pytest.mark.parametrize("node", [DIED, {"paused": True}, {**DIED, "expiresAt": 0}])
def test_what_nobody_holds_is_not_cancelled(rtdb: Rtdb, node: object) -> None:
    """`cancel` of a lock that is free, or whose holder died, is refused with exit code 1, and writes nothing."""
    rtdb.set(PATH, node)
    assert complaint(1, "cancel", "job") == "job was not cancelled: it is not held"
    assert rtdb.get(PATH) == node


def test_who_would_not_notice_is_not_cancelled(rtdb: Rtdb) -> None:
    """A holder without a fence, or without renewals, is left alone: exit code 1, and what it would take."""
    with working(fenced=False):
        before = rtdb.get(PATH)
        assert "no fence or does not renew" in complaint(1, "cancel", "job")
        assert rtdb.get(PATH) == before
    lease = held()
    before = rtdb.get(PATH)
    assert "no fence or does not renew" in complaint(1, "cancel", "job")
    assert rtdb.get(PATH) == before
    assert lease.release()


def test_a_reason_that_is_too_long_is_wrong_usage(rtdb: Rtdb) -> None:
    """`--why` takes 500 characters and no more, because the security rules take no more."""
    with working():
        assert "at most 500" in complaint(2, "cancel", "job", "--why", "w" * 501)
        assert rtdb.get(f"{PATH}/cancel") is None
        assert answer(CHANGED, "cancel", "job", "--why", "w" * 500)["changed"] is True


def test_unlock_sets_the_expiry_to_zero_and_nothing_else(rtdb: Rtdb) -> None:
    """`unlock --yes` sets expiresAt to 0 and keeps every other field, and the holder learns of it when it renews."""
    lease = held()
    before = stored(rtdb, PATH)
    value = answer(CHANGED, "unlock", "job", "--yes")
    assert rtdb.get(PATH) == {**before, "expiresAt": 0}
    assert value["changed"] is True
    assert (value["lock"]["state"], value["lock"]["fence"]) == ("unlocked", before["fence"])
    assert not lease.renew()
    assert lease.lost


@pytest.mark.parametrize("node", [DIED, {"paused": True}, {**DIED, "expiresAt": 0}])
def test_a_lock_that_is_free_is_left_alone(rtdb: Rtdb, node: object) -> None:
    """`unlock` of a lock that nobody holds says that it is free, with exit code 0, and writes nothing to it."""
    rtdb.set(PATH, node)
    assert answer(CHANGED, "unlock", "job")["changed"] is False
    assert "free already" in call("unlock", "job").stdout
    assert rtdb.get(PATH) == node


def test_unlock_asks_nobody_who_is_not_there(rtdb: Rtdb) -> None:
    """Without --yes, where no terminal is, a held lock is not unlocked, and that is wrong usage."""
    held()
    before = rtdb.get(PATH)
    assert "--yes" in complaint(2, "unlock", "job")
    assert call("unlock", "job").exit_code == 2
    assert rtdb.get(PATH) == before


def test_pause_and_resume(rtdb: Rtdb) -> None:
    """`pause` writes the fields of a pause and nothing else, `resume` removes them and says when; a second one
    of either changes nothing.
    """
    lease = held()
    before = stored(rtdb, PATH)
    assert answer(CHANGED, "pause", "job")["changed"] is True
    found = stored(rtdb, PATH)
    assert {**found, "pausedAt": 1} == {**before, "paused": True, "pausedBy": claimed_user(), "pausedAt": 1}
    assert answer(CHANGED, "pause", "job")["changed"] is False
    assert "paused" in call("pause", "job").stdout
    assert answer(CHANGED, "resume", "job")["changed"] is True
    assert answer(CHANGED, "resume", "job")["changed"] is False
    assert "job: it was not paused: nothing was changed" in call("resume", "job").stdout
    assert rtdb.count(method="PATCH", path="/") == 2
    after = stored(rtdb, PATH)
    assert after.pop("resumedAt") >= found["pausedAt"]
    assert after == before
    lease.release()


def test_a_pause_says_why_and_until_when(rtdb: Rtdb) -> None:
    """`pause --why --until` writes both and shows both, replaces the pause before it, and is refused for the past."""
    rtdb.set(PATH, {"paused": "x", "pausedUntil": {"by": "hand"}, "pausedWhy": "old"})
    value = answer(CHANGED, "pause", "job", "--until", "2h")
    lock = value["lock"]
    assert (value["changed"], lock["paused"], lock["pausedWhy"]) == (True, True, None)
    node = stored(rtdb, PATH)
    assert 7_190_000 <= node["pausedUntil"] - node["pausedAt"] <= 7_200_000
    assert answer(CHANGED, "pause", "job", "--why", "password=hunter2 x")["changed"] is True
    assert rtdb.get(f"{PATH}/pausedWhy") == "password=[redacted] x"
    assert rtdb.get(f"{PATH}/pausedUntil") is None
    before = rtdb.get(PATH), rtdb.get("/cron-acts")
    for wrong in ("2020-01-01T00:00:00Z", "2030-01-01T00:00:00", "soon", "0s"):
        assert f"--until '{wrong}'" in complaint(2, "pause", "job", "--until", wrong)
    assert "501 characters" in complaint(2, "pause", "job", "--why", "x" * 501)
    assert (rtdb.get(PATH), rtdb.get("/cron-acts")) == before


def test_a_pause_that_is_over_can_be_removed(rtdb: Rtdb) -> None:
    """What a pause has left behind pauses versions and rules that don't know its end: `resume` takes it away."""
    rtdb.set(PATH, {"paused": True, "pausedUntil": NOW})
    assert "its pause has been over since" in call("locks", "job").stdout
    assert answer(CHANGED, "resume", "job")["changed"] is True
    left = stored(rtdb, PATH)
    assert left.keys() == {"resumedAt"}
    assert answer(CHANGED, "resume", "job")["changed"] is False


def test_a_pause_that_is_over_can_be_set_anew(rtdb: Rtdb) -> None:
    """What a pause has left behind pauses nothing, and is replaced by the next one."""
    rtdb.set(PATH, {"paused": True, "pausedUntil": NOW})
    assert answer(CHANGED, "pause", "job")["changed"] is True
    assert rtdb.get(f"{PATH}/pausedUntil") is None


def test_a_name_that_nobody_has_used_is_paused_only_with_yes(rtdb: Rtdb) -> None:
    """`pause` of a name without a node is wrong usage that names the database, and with --yes it is paused."""
    said = complaint(2, "pause", "job")
    assert "give --yes" in said
    assert rtdb.emulator.url in said
    assert rtdb.get(PATH) is None
    assert answer(CHANGED, "pause", "job", "--yes")["changed"] is True
    assert rtdb.get(f"{PATH}/paused") is True
    assert answer(CHANGED, "pause", "job")["changed"] is False


def test_a_job_of_the_catalogue_is_paused_before_its_first_run(rtdb: Rtdb) -> None:
    """Its name is no misspelling, so it needs no --yes; unless this user may not read the catalogue."""
    rtdb.set("/cron-jobs/job", {"line": "0 9 * * *"})
    readable = {".read": True, ".write": True}
    nodes: dict[str, object] = dict.fromkeys(("cron-locks", "cron-runs", "cron-instances", "cron-acts"), readable)
    become_nobody(rtdb, nodes)
    assert "give --yes" in complaint(2, "pause", "job")
    rtdb.set_rules({"rules": {**nodes, "cron-jobs": readable}})
    assert answer(CHANGED, "pause", "job")["changed"] is True
    assert rtdb.get(f"{PATH}/paused") is True


@pytest.mark.parametrize(
    "command", ["pause", "resume", "unlock", "cancel", "locks", "runs", "acts", "status", "check", "forget"]
)
def test_a_name_that_nothing_has_is_wrong_usage(rtdb: Rtdb, command: str) -> None:
    """Every command about a job or lock ends with 2 then, changes nothing, and names what is close to it."""
    line = {"line": "0 9 * * *"}
    rtdb.set("/cron-jobs", dict.fromkeys(("send-daily-digest", "send-daily-digests"), line))
    said = complaint(2, command, "send-dayly-digest")
    assert "there is no" in said
    assert "send-dayly-digest" in said
    assert "; did you mean send-daily-digest or send-daily-digests?" in said
    assert "did you mean" not in complaint(2, command, "nothing-like-it")
    assert (rtdb.get("/cron-locks"), rtdb.get("/cron-acts")) == (None, None)


@pytest.mark.parametrize("path", [PATH, "cron-runs/job/2026-11-18T09:00:00Z", "cron-jobs/job"])
@pytest.mark.parametrize(
    ("command", "code"), [("resume", 0), ("unlock", 0), ("cancel", 1), ("locks", 0), ("runs", 0), ("acts", 0)]
)
def test_a_name_that_a_lock_a_history_or_the_catalogue_has_is_known(
    rtdb: Rtdb, path: str, command: str, code: int
) -> None:
    """Of a job that nobody has run, or whose lock is free, there is an answer."""
    rtdb.set(f"/{path}", DIED if path == PATH else {"line": "0 9 * * *", "outcome": "failed"})
    assert call(command, "job").exit_code == code


@pytest.mark.parametrize("command", ["pause", "resume", "unlock", "cancel"])
@pytest.mark.parametrize("node", ["text", {"expiresAt": "soon", "slot": 1}])
def test_a_malformed_node_is_left_alone(rtdb: Rtdb, command: str, node: object) -> None:
    """What can't be read is not written to either: exit code 78, and the remedy."""
    rtdb.set(PATH, node)
    assert "Firebase console" in complaint(78, command, "job")
    assert rtdb.get(PATH) == node


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_what_the_rules_forbid_is_denied(rtdb: Rtdb, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command ends with exit code 78 and the remedy, and without a change, where the rules refuse it."""
    held()
    before = rtdb.get(PATH)
    become_nobody(rtdb, {".read": False, ".write": False})
    assert "security rules" in complaint(78, *command)
    assert rtdb.get(PATH) == before


@pytest.mark.parametrize("command", ["pause", "unlock", "cancel"])
def test_who_may_only_read_is_denied_the_change(rtdb: Rtdb, command: str) -> None:
    """Where the rules let everything be read but no lock be written, nothing is paused, freed or cancelled."""
    held()
    rtdb.set(f"{PATH}/renews", None)
    before = rtdb.get(PATH)
    become_nobody(rtdb, {".read": True, "cron-instances": {".write": True}})
    options = ["--yes"] if command == "unlock" else []
    assert "security rules" in complaint(78, command, "job", *options)
    assert rtdb.get(PATH) == before


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_database_that_is_gone_is_unreachable(command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command ends with exit code 69, and says how to start the emulator, where nobody listens."""
    with Emulator() as emulator:
        monkeypatch.setenv("FIREBASE_DATABASE_EMULATOR_HOST", emulator.host)
        monkeypatch.setenv("FIRECRON_DATABASE_URL", emulator.database_url("gone"))
    said = complaint(69, *command)
    assert emulator.host in said
    assert f"firecron emulator --port {emulator.host.rpartition(':')[2]}" in said


@pytest.mark.parametrize("command", COMMANDS[3:], ids=" ".join)
@pytest.mark.usefixtures("rtdb")
def test_a_name_that_no_lock_can_have_is_wrong_usage(command: tuple[str, ...]) -> None:
    """A name that is none is exit code 2, in one line that says what a name is."""
    name, *options = command[1:]
    assert "can't name a lock" in complaint(2, command[0], name + "/..", *options)


def test_no_database_is_wrong_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no database is named, that is exit code 2, with the variable to set."""
    for variable in ("FIREBASE_DATABASE_EMULATOR_HOST", "FIRECRON_DATABASE_URL", "FIREBASE_CONFIG"):
        monkeypatch.delenv(variable, raising=False)
    assert "FIRECRON_DATABASE_URL" in complaint(2, "locks")
    monkeypatch.setenv("FIRECRON_MARGIN", "0")
    assert "FIRECRON_MARGIN" in complaint(2, "locks")
