"""The audit log: what a pause and an act write, how an act is stored, and what happens where they can't be."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from tests.stores.least_privilege import RULES
from tests.unit.lock.records import NOW

from firecron.base.events import Event
from firecron.errors import ConfigurationError, Denied, Unavailable
from firecron.lock.audit_log import KEPT, Act, AuditLog, make_act, read_act, surplus
from firecron.locks import LockService
from firecron.settings import load
from firecron.testing import FakeClock, MemoryStore
from rtdb_emulator import Emulator
from rtdb_emulator.pytest_plugin import Rtdb


def as_user() -> LockService:
    """Locks of the user whom the rules are for."""
    return LockService(settings=load(uid="firecron"))


def acts_of(rtdb: Rtdb, above: str = "") -> list[dict[str, object]]:
    """The acts, oldest first."""
    found = rtdb.get(f"{above}/cron-acts") or {}
    assert isinstance(found, dict)
    return [found[key] for key in sorted(found)]


def warnings_of(locks: LockService) -> list[Event]:
    """The events of acts that were not recorded, from now on."""
    found: list[Event] = []
    locks.events.subscribe(lambda event: found.append(event) if event.slug == "act.failed" else None)
    return found


def without_acts(rtdb: Rtdb) -> None:
    """The shipped rules as they were before there were acts."""
    lines = RULES.read_text("utf-8").splitlines()
    rules = json.loads("\n".join(line for line in lines if not line.lstrip().startswith("//")).replace("\n", " "))
    del rules["rules"]["cron-acts"]
    rtdb.set_rules(rules)


@pytest.mark.parametrize("prefix", ["", "ops/cron"])
def test_a_pause_and_its_act_are_one_write(rtdb: Rtdb, prefix: str) -> None:
    """Both are there with the same time, who and reason; so with the end of a pause, which leaves only its time."""
    locks, above = LockService(settings=load(prefix=prefix)), f"/{prefix}" if prefix else ""
    AuditLog(locks.database).pause("job", "ann@laptop", "the feed is down", 32_503_680_000_000)
    [act] = acts_of(rtdb, above)
    pause = rtdb.get(f"{above}/cron-locks/job")
    assert pause == {
        "paused": True,
        "pausedBy": "ann@laptop",
        "pausedAt": act["at"],
        "pausedWhy": "the feed is down",
        "pausedUntil": 32_503_680_000_000,
    }
    assert act == {"act": "pause", "name": "job", "who": "ann@laptop", "at": act["at"], "why": "the feed is down"}
    assert rtdb.count(method="PATCH") == 1
    AuditLog(locks.database).resume("job", "bob", "it is back")
    # Both acts may be of one millisecond, and have no order then.
    [act] = [act for act in acts_of(rtdb, above) if act["act"] == "resume"]
    assert rtdb.get(f"{above}/cron-locks/job") == {"resumedAt": act["at"]}
    assert (act["who"], act["why"]) == ("bob", "it is back")
    assert rtdb.count(method="PATCH") == 2


def test_a_pause_replaces_the_one_before_it(rtdb: Rtdb) -> None:
    """What it doesn't say is not left over from another pause."""
    locks = LockService()
    AuditLog(locks.database).pause("job", "ann", "x", 32_503_680_000_000)
    AuditLog(locks.database).pause("job", "bob")
    node = rtdb.get("/cron-locks/job")
    assert isinstance(node, dict)
    assert (set(node), node["pausedBy"]) == ({"paused", "pausedBy", "pausedAt"}, "bob")


def test_the_newest_acts_are_kept(rtdb: Rtdb) -> None:
    """With each act the oldest go, in the same write; also those that were too many before."""
    for number in range(KEPT + 7):
        rtdb.set(f"/cron-acts/2026-11-18T09:00:00Z-{number:03d}-a1b2c3", {"act": "run", "name": "job", "at": number})
    locks = LockService()
    assert AuditLog(locks.database).record("unlock", "job", "ann") is True
    acts = acts_of(rtdb)
    assert (len(acts), acts[0]["at"], acts[-1]["act"]) == (KEPT, 8, "unlock")
    assert rtdb.count(method="PATCH") == 1
    locks.pause("job")
    assert (len(acts_of(rtdb)), acts_of(rtdb)[-1]["act"]) == (KEPT, "pause")


def test_the_end_of_a_pause_is_in_the_future() -> None:
    """By RTDB's time: an instant that is over is refused, and so is one without a zone. Nothing is written."""
    clock = FakeClock("2026-11-18T09:00:00Z")
    store = MemoryStore(clock.now)
    locks = LockService(store=store, timing=clock, has_threads=False)
    nine = datetime(2026, 11, 18, 9, tzinfo=UTC)
    for until in (nine, nine - timedelta(seconds=1)):
        with pytest.raises(ConfigurationError, match="is over already"):
            locks.pause("job", until=until)
    with pytest.raises(ConfigurationError, match="must be an aware datetime"):
        locks.pause("job", until=datetime(2030, 1, 1))  # noqa: DTZ001  # a naive one
    assert (store.get("cron-locks"), store.get("cron-acts")) == (None, None)
    locks.pause("job", until=nine + timedelta(seconds=1))
    assert locks.acquire("job", 60).reason == "paused"  # type: ignore[union-attr]  # a refusal
    clock.advance(1)
    assert locks.acquire("job", 60)


def test_a_program_is_named_by_its_instance() -> None:
    """Where nobody says who it is, the pause is the instance's."""
    clock = FakeClock()
    store = MemoryStore(clock.now)
    locks = LockService(store=store, timing=clock, has_threads=False)
    locks.pause("job")
    assert store.get("cron-locks/job/pausedBy") == f"{locks.identity.instance_id}/{locks.identity.instance}"


def test_under_the_rules_all_is_written(rtdb: Rtdb) -> None:
    """The shipped rules let pauses and acts pass, with the longest and oddest texts, and the pruning."""
    rtdb.set_rules(RULES)
    locks = as_user()
    failed = warnings_of(locks)
    for number in range(KEPT + 1):
        rtdb.set(f"/cron-acts/2026-11-18T09:00:00Z-{number:03d}-a1b2c3", {"act": "run"})
    for text in ("💥" * 600, "\x00\x1b[31m\u202e", "x" * 600, "\ud800"):
        AuditLog(locks.database).pause("job", text, text, 32_503_680_000_000)
        AuditLog(locks.database).resume("job", text, text)
        assert AuditLog(locks.database).record("forget", "job", text, text)
    assert (len(acts_of(rtdb)), failed) == (KEPT, [])


def test_where_the_rules_know_no_acts_a_pause_is_written_alone(rtdb: Rtdb) -> None:
    """An operator can pause while older rules are deployed, and is told that the act is not recorded."""
    without_acts(rtdb)
    locks = as_user()
    failed = warnings_of(locks)
    AuditLog(locks.database).pause("job", "ann", "x")
    assert rtdb.get("/cron-locks/job/pausedBy") == "ann"
    AuditLog(locks.database).resume("job", "ann")
    assert rtdb.get("/cron-locks/job/paused") is None
    assert AuditLog(locks.database).record("run", "job", "ann") is False
    assert acts_of(rtdb) == []
    assert [event.fields["act"] for event in failed] == ["pause", "resume", "run"]
    assert {event.fields["who"] for event in failed} == {"ann"}
    assert "is done, but is not among the acts" in failed[0].message


def test_a_pause_that_is_denied_is_an_error(rtdb: Rtdb) -> None:
    """Where the lock itself may not be written, nothing is, and nothing is said to be done."""
    rtdb.set_rules({"rules": {".read": True, "cron-acts": {".write": True}, "cron-instances": {".write": True}}})
    locks = as_user()
    failed = warnings_of(locks)
    with pytest.raises(Denied):
        AuditLog(locks.database).pause("job", "ann")
    assert (rtdb.get("/cron-locks"), acts_of(rtdb), failed) == (None, [], [])


def test_without_the_database_a_pause_fails_and_an_act_is_only_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause raises; an act that was done before says in a WARNING that it is not recorded."""
    with Emulator() as emulator:
        monkeypatch.setenv("FIREBASE_DATABASE_EMULATOR_HOST", emulator.host)
        locks = LockService(settings=load(database_url=emulator.database_url("gone")))
        locks.pause("job")
    failed = warnings_of(locks)
    with pytest.raises(Unavailable):
        locks.pause("other")
    assert AuditLog(locks.database).record("run", "job", "ann") is False
    assert [event.slug for event in failed] == ["act.failed"]


def test_a_name_that_none_can_have_asks_nobody(rtdb: Rtdb) -> None:
    """It is refused before any request."""
    locks = LockService()
    for call in (locks.pause, lambda name: AuditLog(locks.database).resume(name, "ann")):
        with pytest.raises(ConfigurationError, match="can't name a lock"):
            call("../other")
    assert rtdb.count() == 0


def test_keys_come_in_the_order_of_time() -> None:
    """Acts of one second, too; and those of one millisecond differ by their token."""
    acts = [make_act("pause", "job", "me", NOW + later, None, "a1b2c3") for later in (0, 1, 20, 999, 1_000, 10**9)]
    keys = [act.key for act in acts]
    assert keys == sorted(keys)
    assert keys[0] == "2026-11-18T09:00:00Z-000-a1b2c3"
    assert keys[3] == "2026-11-18T09:00:00Z-999-a1b2c3"


def test_an_act_is_read_as_it_was_written() -> None:
    """Every field comes back, and one that is not there is left out."""
    for why in ("the feed is down", None):
        act = make_act("unlock", "job", "ann@laptop", NOW, why, "a1b2c3")
        assert read_act(act.key, act.to_node()) == act
        assert ("why" in act.to_node()) is (why is not None)
    assert act.to_json() == {
        "key": act.key,
        "act": "unlock",
        "name": "job",
        "who": "ann@laptop",
        "at": "2026-11-18T09:00:00Z",
        "why": None,
    }


@pytest.mark.parametrize("node", [None, 7, "x", ["a"], {"act": 1, "name": 2, "who": {}, "at": "now", "why": 3}])
def test_what_is_no_act_is_empty(node: object) -> None:
    """Whatever somebody has typed there can be read."""
    assert read_act("odd", node) == Act("odd", "", "", "", None)
    assert read_act("odd", node).to_json()["at"] is None


@pytest.mark.parametrize(
    ("why", "stored"),
    [
        ("x" * 501, "x" * 500),
        ("💥" * 251, "💥" * 250),
        ("x" + "💥" * 250, "x" + "💥" * 249),
        ("token=abc123", "token=[redacted]"),
        ("\udc80", "?"),
        ("", None),
        (None, None),
    ],
)
def test_a_reason_is_what_the_rules_take(why: str | None, stored: str | None) -> None:
    """At most 500 UTF-16 units, without secrets and lone surrogates."""
    assert make_act("run", "job", "me", NOW, why, "a1b2c3").why == stored


@pytest.mark.parametrize(("who", "stored"), [("x" * 201, "x" * 200), ("", "unknown"), ("a\ud800", "a?")])
def test_who_is_never_empty(who: str, stored: str) -> None:
    """At most 200 characters."""
    assert make_act("run", "job", who, NOW, None, "a1b2c3").who == stored


@pytest.mark.parametrize("there", [0, 1, KEPT - 1, KEPT, KEPT + 3])
def test_with_one_more_the_newest_are_kept(there: int) -> None:
    """Whatever goes is older than all that stays."""
    keys = [f"{number:03d}" for number in range(there)]
    old = surplus(reversed(keys))  # type: ignore[arg-type]  # in any order
    assert old == keys[: max(0, there + 1 - KEPT)]
    assert len(keys) - len(old) + 1 == min(there + 1, KEPT)
