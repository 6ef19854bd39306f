"""Stored schedules as a program sees them: put, get, list, remove and count, over a real database."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.stores.least_privilege import RULES, RUNNING

from firecron import ConfigurationError, FireCron, LockService, Run, distributed_cron, scheduled
from firecron.base.clocks import Deadline, SystemTiming
from firecron.base.instants import to_milliseconds
from firecron.cli.commands.status import row_line
from firecron.errors import Denied, NoIndex, Unavailable
from firecron.lock.database import Database
from firecron.ops.holds import Holds
from firecron.ops.operator import Operator
from firecron.ops.schedules import Schedules
from firecron.ops.status import Status
from firecron.settings import load
from firecron.store import Querying
from firecron.testing import FakeTiming, MemoryStore
from rtdb_emulator.pytest_plugin import Rtdb

SOON = datetime(2100, 12, 24, 18, tzinfo=UTC)
NODE = "cron-schedules/remind/:42"


class Reminders:
    @scheduled("remind", lock_ttl=60)
    def remind(self, run: Run, event: str, channel: str = "mail") -> None:
        """Remind somebody of an event."""

    @scheduled("loose")
    def loose(self, **anything: object) -> None: ...

    @distributed_cron("digest", "0 9 * * *")
    def digest(self) -> None: ...


@pytest.fixture
def crons(rtdb: Rtdb) -> FireCron:
    return FireCron(Reminders(), settings=load(database_url=rtdb.url), enabled=False)


def test_what_is_put_is_got(crons: FireCron, rtdb: Rtdb) -> None:
    """The entry stands in the database with its schedule, its arguments and its next tick, and says so."""
    assert crons.schedules.put("remind", "42", "0 9 * * *", timezone="Europe/Berlin", args={"event": "42"}, by="me")
    node: Any = rtdb.get(NODE)
    assert (node["line"], node["timezone"], node["args"]) == ("0 9 * * *", "Europe/Berlin", '{"event":"42"}')
    found = crons.schedules.get("remind", "42")
    assert found is not None
    assert (found.name, found.state, dict(found.args), found.by) == ("remind:42", "waiting", {"event": "42"}, "me")
    assert found.next_at == found.schedule.after(found.since) if found.schedule and found.since else False
    assert not crons.schedules.put("remind", "42", "0 9 * * *", timezone="Europe/Berlin", args={"event": "42"})


def test_a_removed_schedule_is_gone_and_its_lock_stays(crons: FireCron, rtdb: Rtdb) -> None:
    """`get` and `list` don't show it; `count` does, until it is deleted."""
    crons.schedules.put("remind", "42", at=SOON, args={"event": "42"})
    assert crons.schedules.remove("remind", "42") is False
    assert crons.schedules.get("remind", "42") is None
    assert crons.schedules.list("remind") == []
    assert crons.schedules.count("remind") == 1
    node: Any = rtdb.get(NODE)
    assert node["closed"] == "removed"
    rtdb.set("cron-schedules/digest/:1", node)  # of a job that was stored once
    assert [crons.schedules.remove(job, "1") for job in ("digest", "loose")] == [False, False]
    assert crons.schedules.mend("digest") == 0
    rtdb.set("cron-schedules/digest", None)
    assert crons.schedules.remove("remind", "nobody") is False
    assert rtdb.get("cron-schedules/remind/:nobody") is None


def test_keys_are_listed_by_prefix_and_page_by_page(crons: FireCron) -> None:
    """In the order of the keys, also of those that look like numbers."""
    for key in ("1", "10", "2", "a_b", "a-b", "b"):
        crons.schedules.put("loose", key, every=timedelta(hours=6))

    def keys(**asked: Any) -> list[str]:
        return [one.key for one in crons.schedules.list("loose", **asked)]

    assert keys() == ["1", "10", "2", "a-b", "a_b", "b"]
    assert keys(prefix="1") == ["1", "10"]
    assert keys(limit=2) == ["1", "10"]
    assert keys(limit=2, after="10") == ["2", "a-b"]
    assert keys(prefix="a", after="a-b") == ["a_b"]
    assert keys(prefix="a") == ["a-b", "a_b"]
    assert [one.key for one in crons.schedules.pages("loose", size=2)] == keys()
    assert crons.schedules.count("loose") == 6


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"line": "ever"}, "cron line"),
        ({}, "cron line"),
        ({"line": "0 9 * * *", "timezone": "Mars"}, "no time zone 'Mars'"),
        ({"line": "0 9 * * *", "every": 60}, "leave one of them out"),
        ({"line": "0 9 * * *", "at": SOON}, "leave .* out"),
        ({"at": datetime(2100, 1, 1)}, "aware datetime"),  # noqa: DTZ001  # that is what is wrong
        ({"at": SOON, "args": {}}, "needs the argument 'event'"),
        ({"at": SOON, "args": {"event": "1", "to": "x"}}, "no argument 'to': it takes channel, event"),
        ({"at": SOON, "args": {"event": {1}}}, "are no JSON"),
        ({"at": SOON, "args": {"event": (1, 2)}}, "come back from JSON"),
        ({"at": SOON, "args": {"event": "x" * 4_100}}, "4,096 are allowed"),
        ({"at": SOON, "args": ["event"]}, "must be a dict"),
        ({"at": SOON, "by": ""}, "by=''"),
        ({"at": SOON, "key": "a b"}, "can't be the key"),
        ({"at": SOON, "key": "manual"}, "can't be the key"),
        ({"at": SOON, "key": "k" * 61}, "can't be the key"),
        ({"at": SOON, "job": "1"}, "can't name a lock"),
        ({"at": SOON, "job": "digest"}, "'digest' has its schedule in its code"),
        ({"at": datetime(2020, 1, 1, tzinfo=UTC)}, "has no tick after"),
    ],
)
def test_what_could_not_run_is_refused_before_it_is_written(
    crons: FireCron, rtdb: Rtdb, asked: dict[str, Any], why: str
) -> None:
    """Each error is a ValueError that names what is wrong, and nothing is stored."""
    options = {"args": {"event": "42"}, **asked}
    with pytest.raises(ValueError, match=why):
        crons.schedules.put(
            options.pop("job", "remind"), options.pop("key", "42"), options.pop("line", None), **options
        )
    assert rtdb.get("cron-schedules") is None


def test_a_program_without_the_code_goes_by_the_catalogue(rtdb: Rtdb) -> None:
    """It refuses arguments that the function doesn't take, and a job that has its own schedule."""
    service = LockService(settings=load(database_url=rtdb.url))
    service.schedules.put("unknown", "1", at=SOON, args={"whatever": 1})
    rtdb.set("cron-jobs/remind", {"stored": True, "parameters": "event channel=", "keepClosed": 3600})
    rtdb.set("cron-jobs/digest", {"line": "0 9 * * *", "timezone": "UTC"})
    with pytest.raises(ConfigurationError, match="needs the argument 'event'"):
        service.schedules.put("remind", "42", at=SOON)
    with pytest.raises(ConfigurationError, match="has its schedule in its code"):
        service.schedules.put("digest", "42", at=SOON)
    assert service.schedules.put("remind", "42", at=SOON, args={"event": "42"})


def test_a_put_that_is_soon_due_rings(crons: FireCron, rtdb: Rtdb) -> None:
    """The bell has the server's time; a put that is due later doesn't ring."""
    crons.schedules.put("loose", "1", at=SOON)
    assert rtdb.get("cron-bell") is None
    crons.schedules.put("loose", "1", "* * * * * *")
    bell: Any = rtdb.get("cron-bell/loose")
    assert isinstance(bell, int)


def lose_a_reply(service: LockService, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the first write of this node reach the database, and its reply nobody."""
    swap, lost = service.store.swap, [path]

    def swap_and_lose(at: str, *rest: Any, **more: Any) -> Any:
        answer = swap(at, *rest, **more)
        if at in lost:
            lost.remove(at)
            raise Unavailable("the reply was lost")
        return answer

    monkeypatch.setattr(service.store, "swap", swap_and_lose)


def test_a_put_whose_reply_is_lost_rings(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says that it has written, and lookers hear of it."""
    service = LockService(settings=load(database_url=rtdb.url))
    lose_a_reply(service, NODE, monkeypatch)
    assert service.schedules.put("remind", "42", "* * * * * *", if_absent=True)
    assert rtdb.get(NODE) is not None
    assert isinstance(rtdb.get("cron-bell/remind"), int)


def test_a_put_that_comes_second_says_so(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two with `if_absent` one has written, also if the other one was about to."""
    service, other = (LockService(settings=load(database_url=rtdb.url)) for _ in range(2))
    swap = service.store.swap

    def second(*rest: Any, **more: Any) -> Any:
        if rtdb.get(NODE) is None:
            assert other.schedules.put("remind", "42", "0 9 * * *", by="other", if_absent=True)
        return swap(*rest, **more)

    monkeypatch.setattr(service.store, "swap", second)
    assert not service.schedules.put("remind", "42", "0 9 * * *", by="me", if_absent=True)
    node: Any = rtdb.get(NODE)
    assert node["by"] == "other"


def test_mending_goes_on_after_a_refusal(rtdb: Rtdb) -> None:
    """An entry without a `since` gets one; one that the rules refuse is named, and those after it are mended."""
    service = LockService(settings=load(database_url=rtdb.url, uid="firecron"))
    for key in ("a", "b", "c"):
        service.schedules.put("remind", key, "0 9 * * *")
    rtdb.set_rules(RULES)
    for key in ("a", "b", "c"):
        rtdb.set(f"cron-schedules/remind/:{key}/nextAt", None)
    rtdb.set("cron-schedules/remind/:a/since", None)
    rtdb.set("cron-schedules/remind/:b/holder", "a hand")
    with pytest.raises(Denied, match="2 mended, and 1 refused, the first of them remind:b"):
        service.schedules.mend("remind")
    nodes: Any = rtdb.get("cron-schedules/remind")
    assert {key: "nextAt" in node for key, node in nodes.items()} == {":a": True, ":b": False, ":c": True}
    assert isinstance(nodes[":a"]["since"], int)


@pytest.mark.parametrize("prefix", ["", "ops/cron"])
def test_a_pause_and_its_end_ring(rtdb: Rtdb, prefix: str) -> None:
    """Of a stored job and of one entry, so that lookers drop or take up what they have planned; of another job not."""
    above = f"{prefix}/" if prefix else ""
    rtdb.set(f"{above}cron-jobs/remind", {"stored": True, "parameters": "**"})
    rtdb.set(f"{above}cron-jobs/digest", {"line": "0 9 * * *", "timezone": "UTC"})
    database = Database(settings=load(database_url=rtdb.url, prefix=prefix))
    operator = Operator(database)
    Schedules(database).put("remind", "42", at=SOON)
    for act in (operator.pause, operator.resume):
        for name in ("remind", "remind:42", "digest"):
            rtdb.set(f"{above}cron-bell", None)
            act(name)
            rung: Any = rtdb.get(f"{above}cron-bell")
            assert list(rung or ()) == ([] if name == "digest" else ["remind"])


def test_a_hold_and_its_end_ring(rtdb: Rtdb) -> None:
    """For the stored jobs among those that it holds; a pause does too, under the shipped rules."""
    rtdb.set_rules(RULES)
    rtdb.set("cron-jobs/remind", {"stored": True, "parameters": "**"})
    rtdb.set("cron-jobs/digest", {"line": "0 9 * * *", "timezone": "UTC"})
    database = Database(settings=load(database_url=rtdb.url, uid="firecron"))
    holds = Holds(database)
    made = holds.hold(SOON, "a migration")
    assert made.held == ("digest", "remind")
    first: Any = rtdb.get("cron-bell")
    assert list(first) == ["remind"]
    rtdb.set("cron-bell", None)
    holds.unhold(made.hold.name)
    again: Any = rtdb.get("cron-bell")
    assert list(again) == ["remind"]
    rtdb.set("cron-bell", None)
    Operator(database).pause("remind")
    paused: Any = rtdb.get("cron-bell")
    assert list(paused) == ["remind"]


def test_an_entry_is_looked_at_at_the_end_of_its_pause(rtdb: Rtdb) -> None:
    """And once it is resumed, at its tick again."""
    database = Database(settings=load(database_url=rtdb.url))
    Schedules(database).put("remind", "42", at=SOON)
    tick: Any = rtdb.get(f"{NODE}/nextAt")
    until = datetime.now(UTC) + timedelta(minutes=1)
    Operator(database).pause("remind:42", until=until)
    assert rtdb.get(f"{NODE}/nextAt") == to_milliseconds(until)
    Operator(database).resume("remind:42")
    assert rtdb.get(f"{NODE}/nextAt") == tick


def test_an_entry_that_is_unlocked_rings(rtdb: Rtdb) -> None:
    """It is due at once."""
    database = Database(settings=load(database_url=rtdb.url))
    operator = Operator(database)
    Schedules(database).put("remind", "42", at=SOON)
    node: Any = rtdb.get(NODE)
    rtdb.set(NODE, {**RUNNING, **node})
    assert operator.unlock(operator.read("remind:42"))
    assert isinstance(rtdb.get("cron-bell/remind"), int)


def test_a_lock_that_can_not_be_read_is_malformed(crons: FireCron, rtdb: Rtdb) -> None:
    """No instance runs the schedule, although that can be read; once it is closed, it is as it was closed."""
    crons.schedules.put("remind", "42", "0 9 * * *", args={"event": "42"})
    rtdb.set("cron-schedules/remind/:42/expiresAt", "never")
    found = crons.schedules.get("remind", "42")
    assert found is not None
    assert (found.state, found.schedule is None) == ("malformed", False)
    assert "expiresAt" in str(found.why)
    rtdb.set("cron-schedules/remind/:42/closed", "over")
    over = crons.schedules.get("remind", "42")
    assert over is not None
    assert over.state == "over"


def test_the_async_forms_do_the_same(crons: FireCron) -> None:
    """Each off the event loop."""

    async def ask() -> list[object]:
        schedules = crons.schedules
        return [
            await schedules.put_async("loose", "1", at=SOON),
            (await schedules.get_async("loose", "1")) is not None,
            [one.key for one in await schedules.list_async("loose")],
            await schedules.count_async("loose"),
            await schedules.remove_async("loose", "1"),
            await schedules.get_async("loose", "1"),
        ]

    assert asyncio.run(ask()) == [True, True, ["1"], 1, False, None]


def test_the_stores_answer_ordered_queries_alike(rtdb: Rtdb) -> None:
    """By a number with a start, an end and a limit, and by the keys; the memory store as the database."""
    service = LockService(settings=load(database_url=rtdb.url))
    rtdb.set_rules({"rules": {"q": {".indexOn": ["nextAt"]}}})
    nodes = {":a": {"nextAt": 5}, ":b": {"nextAt": 1}, ":c": {"nextAt": 5}, ":d": {"nextAt": "x"}, ":e": {"y": 1}}
    memory = MemoryStore(lambda: 0)
    for store_set in (rtdb.set, memory.set):
        store_set("q", nodes)
    deadline = Deadline.after(SystemTiming(), 10)
    for store in (service.store, memory):
        assert isinstance(store, Querying)

        def names(store: Querying = store, **asked: Any) -> list[str]:
            return [name for name, _ in store.query("q", "nextAt", deadline, **asked)]

        assert names(most=9) == [":e", ":b", ":a", ":c", ":d"]
        assert names(start=1, end=5, most=9) == [":b", ":a", ":c"]
        assert names(start=2, most=9) == [":a", ":c", ":d"]
        assert names(start=(5, ":b"), end=5, most=9) == [":c"]
        assert names(end=0, most=9) == [":e"]
        assert names(start=1, end=5, most=2) == [":b", ":a"]
        assert [name for name, _ in store.query("q", "$key", deadline, start=":b", most=2)] == [":b", ":c"]
        assert store.query("none", "$key", deadline, most=2) == []
    with pytest.raises(NoIndex, match="firecron rules"):
        service.store.query("q", "other", deadline, most=1)  # type: ignore[attr-defined]  # it was looked at above


def test_a_failed_put_says_so(rtdb: Rtdb) -> None:
    """Without a database nothing is written, and the caller hears of it."""
    store = MemoryStore(lambda: 0)
    store.swap = lambda *rest, **more: (_ for _ in ()).throw(Unavailable("away"))  # type: ignore[method-assign]  # raises
    service = LockService(store=store, settings=load(), timing=FakeTiming(), has_threads=False)
    with pytest.raises(Unavailable, match="away"):
        service.schedules.put("loose", "1", at=SOON)


# --- the health of a stored job


@pytest.fixture
def declared(crons: FireCron, rtdb: Rtdb) -> Database:
    """A database in which the job is declared, and a live group has it."""
    rtdb.set_rules(RULES)
    now = crons.database.now(crons.database.deadline())
    entry = {"stored": True, "parameters": "**", "grace": 60, "alertAfter": 2, "since": now - 9, "declaredAt": now - 9}
    rtdb.set("cron-jobs/loose", {**entry, "service": "api", "ticks": True, "where": "jobs"})
    rtdb.set("cron-groups/0123456789abcdef", {"seenAt": now, "firstSeenAt": now, "jobs": "loose", "service": "api"})
    for key in ("1", "2", "3"):
        crons.schedules.put("loose", key, "0 0 1 1 *")
    return crons.database


def verdict_of(database: Database) -> tuple[str, str]:
    status = Status(database)
    (verdict,) = status.verdicts(status.read())
    return verdict.word, verdict.why


def test_a_stored_job_is_as_its_schedules_are(declared: Database, rtdb: Rtdb) -> None:
    """All right, then failing, then late: counted, with the first of them; what is closed or paused is neither."""
    assert verdict_of(declared)[0] == "ok"
    for key, failures in (("1", 1), ("2", 2), ("3", 3)):
        rtdb.set(f"cron-schedules/loose/:{key}/failures", failures)
    assert verdict_of(declared) == ("failing", "2 of its schedules (first: 2) are failing")
    now = declared.now(declared.deadline())
    for key in ("1", "2", "3"):
        rtdb.set(f"cron-schedules/loose/:{key}/nextAt", now - 121_000)
    rtdb.set("cron-schedules/loose/:1/paused", True)
    rtdb.set("cron-schedules/loose/:2/closed", "over")
    assert verdict_of(declared) == ("late", "1 of its schedules (first: 3) is late: no instance has run what was due")
    rtdb.set("cron-schedules/loose/:3/nextAt", now - 119_000)
    assert verdict_of(declared) == ("failing", "1 of its schedules (first: 3) is failing")


def test_an_instant_whose_run_has_failed_counts(declared: Database, rtdb: Rtdb) -> None:
    """Its run closes it; a removed one doesn't count."""
    run = {"acquiredAt": 1, "expiresAt": 2, "releasedAt": 2, "holder": "f3Qk", "outcome": "failed", "failures": 2}
    for key, closed in (("1", "over"), ("2", "removed")):
        node: Any = rtdb.get(f"cron-schedules/loose/:{key}")
        rtdb.set(f"cron-schedules/loose/:{key}", {**node, **run, "closed": closed})
    assert verdict_of(declared) == ("failing", "1 of its schedules (first: 1) is failing")


def test_closed_ones_hide_nothing_that_is_late(declared: Database, rtdb: Rtdb) -> None:
    """Also hundreds of them that are older, and one that is to come is found behind them."""
    now = declared.now(declared.deadline())
    nodes: Any = rtdb.get("cron-schedules/loose")
    gone = {"closed": "removed", "since": 1}
    nodes |= {f":a{n}": {**gone, "nextAt": now - 200_000} for n in range(250)}
    nodes |= {f":b{n}": {**gone, "nextAt": now + 60_000} for n in range(250)}
    nodes[":3"]["nextAt"] = now - 121_000
    rtdb.set("cron-schedules/loose", nodes)
    assert verdict_of(declared) == ("late", "1 of its schedules (first: 3) is late: no instance has run what was due")
    status = Status(declared)
    (row,) = status.evaluate(status.read()).rows
    assert row.next == nodes[":1"]["nextAt"]


def test_a_row_shows_which_schedule_is_due_next_and_when(declared: Database, rtdb: Rtdb) -> None:
    """The job has no tick of its own. In a line of the terminal the key goes before the time."""
    status = Status(declared)
    (row,) = status.evaluate(status.read()).rows
    node: Any = rtdb.get("cron-schedules/loose/:1")
    assert (row.next, row.next_key, row.to_json()["nextKey"]) == (node["nextAt"], "1", "1")
    assert row.words == "by stored schedules"
    for key, shown in (("1", "1"), ("a-very-long-key", "a-very-long-…")):
        assert f"; next {shown} in 3 s" in row_line(replace(row, next_key=key), node["nextAt"] - 3_000).plain


def test_a_job_that_is_added_later_keeps_its_own_history() -> None:
    """As many runs as it declares, over all of its schedules, where each run prunes."""

    @scheduled("late", lock_ttl=60, history=3)
    def late() -> None: ...

    crons = FireCron(settings=load(), chance=lambda: 0.0)
    crons.registry.add(late)
    with crons.testing("2026-11-18T08:58:00Z") as rehearsal:
        for key in ("1", "2"):
            rehearsal.schedules.put("late", key, "* * * * *")
        rehearsal.move_to("2026-11-18T09:05:30Z")
        runs: Any = rehearsal.store.get("cron-runs/late")
        assert len(runs) == 3
