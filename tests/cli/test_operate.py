"""`firecron pause`, `resume` and `unlock`: what they change in the database, and when they change nothing."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import firebase_admin
import pytest
from tests.cli.calls import answer, call, complaint
from tests.cli.schemas import CHANGED
from tests.cli.test_locks import DIED

from firecron.base.clocks import Deadline
from firecron.errors import Malformed, Unavailable
from firecron.lock.lease import Lease
from firecron.lock.service import LockService
from firecron.ops.operator import Operator
from firecron.store import Snapshot
from firecron.testing import FakeTiming
from rtdb_emulator import Emulator
from rtdb_emulator.pytest_plugin import Rtdb

PATH = "/cron-locks/job"
COMMANDS = [
    ("locks",),
    ("locks", "job"),
    ("runs", "job"),
    ("pause", "job"),
    ("resume", "job"),
    ("unlock", "job", "--yes"),
]


def held() -> Lease:
    lease = LockService().acquire("job", 3600, fenced=True)
    assert isinstance(lease, Lease)
    return lease


def before_each_swap(locks: LockService, *happens: Callable[[], object]) -> None:
    """Have these happen, one before each of the service's next writes."""
    store = locks.store
    swap, left = store.swap, list(happens)

    def swap_late(path: str, etag: str, node: dict[str, object] | None, deadline: Deadline) -> str | Snapshot:
        if left:
            left.pop(0)()
        return swap(path, etag, node, deadline)

    store.swap = swap_late  # type: ignore[method-assign]  # for this operator alone


def become_nobody(rtdb: Rtdb) -> None:
    """From now on the rules count: an admin would pass them by."""
    firebase_admin.initialize_app(options={"databaseURL": rtdb.url, "databaseAuthVariableOverride": None})


def test_unlock_sets_the_expiry_to_zero_and_nothing_else(rtdb: Rtdb) -> None:
    """`unlock --yes` sets expiresAt to 0 and keeps every other field, and the holder learns of it when it renews."""
    lease = held()
    before = rtdb.get(PATH)
    assert isinstance(before, dict)
    value = answer(CHANGED, "unlock", "job", "--yes")
    assert rtdb.get(PATH) == {**before, "expiresAt": 0}
    assert value["changed"] is True
    assert isinstance(value["lock"], dict)
    assert (value["lock"]["state"], value["lock"]["fence"]) == ("unlocked", before["fence"])
    assert not lease.renew()
    assert lease.lost


@pytest.mark.parametrize("node", [None, DIED, {"paused": True}, {**DIED, "expiresAt": 0}])
def test_a_lock_that_is_free_is_left_alone(rtdb: Rtdb, node: object) -> None:
    """`unlock` of a lock that nobody holds says that it is free, with exit code 0, and writes nothing to it."""
    rtdb.set(PATH, node)
    assert answer(CHANGED, "unlock", "job")["changed"] is False
    assert "free already" in call("unlock", "job").stdout
    assert rtdb.get(PATH) == node


@pytest.mark.parametrize("change", [{"holder": "another"}, {"acquiredAt": 1}, {"releasedAt": 1}, None])
@pytest.mark.parametrize("is_late", [False, True], ids=["seen", "fresh"])
def test_unlock_does_not_free_a_successor(rtdb: Rtdb, change: dict[str, object] | None, is_late: bool) -> None:
    """A lock that was released, deleted or taken over since it was looked at, also after a renewal and just before the
    second try, is left byte for byte.
    """
    lease = held()
    locks = LockService()
    operator = Operator(locks)
    seen = operator.look("job")
    node = rtdb.get(PATH)
    assert isinstance(node, dict)
    successor = None if change is None else {**node, **change}
    take_over = lambda: rtdb.set(PATH, successor)  # noqa: E731  # one of two things to do before a write
    before_each_swap(locks, *([lease.renew, take_over] if is_late else [take_over]))
    assert operator.unlock(seen) is False
    assert rtdb.get(PATH) == successor


@pytest.mark.parametrize("renewals", [1, 2, 3])
def test_unlock_frees_a_lock_that_is_renewed_meanwhile(rtdb: Rtdb, renewals: int) -> None:
    """However often its holder renews it between the look and the write, it is the lock that was shown, and is
    freed.
    """
    lease = held()
    locks = LockService()
    operator = Operator(locks)
    seen = operator.look("job")
    before_each_swap(locks, *[lease.renew] * renewals)
    assert operator.unlock(seen) is True
    node = rtdb.get(PATH)
    assert isinstance(node, dict)
    assert isinstance(seen.snapshot.node, dict)
    assert node == {**seen.snapshot.node, "expires": node["expires"], "expiresAt": 0}
    assert not lease.renew()


def test_unlock_keeps_what_was_set_meanwhile(rtdb: Rtdb) -> None:
    """A pause that was set between the look and the write stays."""
    held()
    operator = Operator(LockService())
    seen = operator.look("job")
    operator.pause("job", True)
    assert operator.unlock(seen) is True
    assert rtdb.get(f"{PATH}/paused") is True
    assert rtdb.get(f"{PATH}/expiresAt") == 0


def test_unlock_ends_with_its_deadline(rtdb: Rtdb) -> None:
    """A lock that changes before every write is tried again after longer and longer pauses, and given up in time."""
    held()
    timing = FakeTiming()
    locks = LockService(timing=timing)
    operator = Operator(locks, timing)
    seen = operator.look("job")
    instants = count(seen.now + 1)
    overtakers = [lambda: rtdb.set(f"{PATH}/expiresAt", next(instants))] * 10_000
    before_each_swap(locks, *overtakers)
    with pytest.raises(Unavailable, match="weakens ETags"):
        operator.unlock(seen)
    assert rtdb.get(f"{PATH}/expiresAt") != 0
    assert 4 <= next(instants) - seen.now - 1 <= 12, "so many tries in three seconds"


def test_an_unlock_whose_reply_was_lost_is_found(rtdb: Rtdb) -> None:
    """An unlock that was applied without a reply succeeds, and one that was not is unavailable."""
    held()
    operator = Operator(LockService())
    seen = operator.look("job")
    rtdb.faults.drop_request(method="PUT", path=PATH)
    with pytest.raises(Unavailable):
        operator.unlock(seen)
    rtdb.faults.drop_reply(method="PUT", path=PATH)
    assert operator.unlock(seen) is True
    assert rtdb.get(f"{PATH}/expiresAt") == 0


def test_unlock_asks_nobody_who_is_not_there(rtdb: Rtdb) -> None:
    """Without --yes, where no terminal is, a held lock is not unlocked, and that is wrong usage."""
    held()
    before = rtdb.get(PATH)
    assert "--yes" in complaint(2, "unlock", "job")
    assert call("unlock", "job").exit_code == 2
    assert rtdb.get(PATH) == before


def test_a_look_at_all_locks_asks_for_instances_only_if_told(rtdb: Rtdb) -> None:
    """All locks are one request, and one more where their holders' instances are to be known, if there are locks."""
    operator = Operator(LockService())
    assert operator.look_at_all(with_holders=True).views == ()
    assert rtdb.count(method="GET", path="/cron-instances") == 0
    assert operator.look("job").view.state == "absent"
    assert rtdb.count(method="GET", path="/cron-instances") == 0
    held()
    operator.look_at_all()
    assert rtdb.count(method="GET", path="/cron-instances") == 0
    operator.look_at_all(with_holders=True)
    assert rtdb.count(method="GET", path="/cron-instances") == 1
    assert rtdb.count(method="GET", path="/cron-locks") == 3


def test_names_that_are_numbers_are_names(rtdb: Rtdb) -> None:
    """Locks whose names are small numbers, which the database shows as a list, are seen as what they are."""
    rtdb.set("/cron-locks", {"1": {"paused": True}, "3": {"paused": True}})
    assert [view.name for view in Operator(LockService()).look_at_all().views] == ["1", "3"]


@pytest.mark.parametrize(("node", "why"), [(None, "it has no node"), ({"expiresAt": "soon"}, "expiresAt")])
def test_what_is_no_lock_is_not_unlocked(rtdb: Rtdb, node: object, why: str) -> None:
    """A name without a node, or whose node can't be read, has nothing to be freed, and is left as it is."""
    rtdb.set(PATH, node)
    operator = Operator(LockService())
    with pytest.raises(Malformed, match=rf"job can't be unlocked: .*{why}"):
        operator.unlock(operator.look("job"))
    assert rtdb.get(PATH) == node


def test_pause_and_resume(rtdb: Rtdb) -> None:
    """`pause` sets `paused` and nothing else, `resume` removes it, and a second one of either changes nothing."""
    lease = held()
    before = rtdb.get(PATH)
    assert isinstance(before, dict)
    assert answer(CHANGED, "pause", "job")["changed"] is True
    assert rtdb.get(PATH) == {**before, "paused": True}
    assert answer(CHANGED, "pause", "job")["changed"] is False
    assert "paused" in call("pause", "job").stdout
    assert answer(CHANGED, "resume", "job")["changed"] is True
    assert answer(CHANGED, "resume", "job")["changed"] is False
    assert "job: it was not paused: nothing was changed" in call("resume", "job").stdout
    assert rtdb.count(method="PATCH", path=PATH) == 2
    assert rtdb.get(PATH) == before
    lease.release()


def test_a_name_that_nobody_has_used_is_paused_only_with_yes(rtdb: Rtdb) -> None:
    """`pause` of a name without a node is wrong usage that names the database, and with --yes it is paused."""
    said = complaint(2, "pause", "job")
    assert "give --yes" in said
    assert rtdb.emulator.url in said
    assert rtdb.get(PATH) is None
    assert answer(CHANGED, "pause", "job", "--yes")["changed"] is True
    assert rtdb.get(PATH) == {"paused": True}
    assert answer(CHANGED, "pause", "job")["changed"] is False


@pytest.mark.parametrize(
    ("command", "code"),
    [(("pause",), 2), (("resume",), 0), (("unlock",), 0), (("locks",), 0), (("runs",), 0)],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_names_that_may_have_been_meant_are_offered(rtdb: Rtdb, command: tuple[str, ...], code: int) -> None:
    """Where a name has no node, those that are close to it are named: of locks, and of histories."""
    rtdb.set("/cron-locks/send-daily-digest", DIED)
    rtdb.set(f"/cron-runs/send-daily-digests/{DIED['slot']}", {"outcome": "failed"})
    result = call(*command, "send-dayly-digest")
    assert result.exit_code == code
    assert "did you mean send-daily-digest or send-daily-digests?" in result.stderr
    assert "did you mean" not in call(*command, "nothing-like-it").stderr


@pytest.mark.parametrize("command", ["pause", "resume", "unlock"])
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
    become_nobody(rtdb)
    rtdb.set_rules({"rules": {".read": False, ".write": False}})
    assert "security rules" in complaint(78, *command)
    assert rtdb.get(PATH) == before


@pytest.mark.parametrize("command", ["pause", "unlock"])
def test_who_may_only_read_is_denied_the_change(rtdb: Rtdb, command: str) -> None:
    """Where the rules let everything be read but no lock be written, `pause` and `unlock` are denied."""
    held()
    before = rtdb.get(PATH)
    become_nobody(rtdb)
    rtdb.set_rules({"rules": {".read": True, "cron-instances": {".write": True}}})
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


@pytest.mark.parametrize("command", COMMANDS[1:], ids=" ".join)
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
    assert "margin" in complaint(2, "locks")
