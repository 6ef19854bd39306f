"""The entries of a stored job: listed by pages, each shown and acted on as a job, and counted when somebody asks."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import jsonschema
import pytest
from tests.cli import schemas
from tests.page.paging import ACTING, WHO, Page, Shell, declare_live, now
from tests.stores.least_privilege import RULES

from firecron import Access, FireCron, Run, distributed_cron, scheduled
from firecron.base.instants import to_text
from firecron.ops.operator import Operator
from firecron.testing.clocks import FakeTiming
from rtdb_emulator.pytest_plugin import Rtdb

SOON = datetime(2100, 12, 24, 18, tzinfo=UTC)
REMIND = "/api/jobs/remind"
LISTED = f"{REMIND}/schedules"
NODE = "/cron-schedules/remind/:42"
SLOT = "2026-11-18T09:00:00Z"


REMEDY = schemas.exactly(schemas.of(schemas.NO_TEXT, "act words command tick"))
STORED = schemas.exactly(
    {
        name: schema
        for name, schema in schemas.STORED_SCHEDULE["properties"].items()  # type: ignore[attr-defined]  # any JSON
        if name not in schemas.ROW["required"]  # type: ignore[operator]  # any JSON
    }
)
ENTRY = schemas.exactly(
    schemas.ROW["properties"],  # type: ignore[arg-type]  # any JSON
    {"acts": schemas.each(schemas.TEXT), "entry": STORED},
)
ENTRIES = schemas.exactly(
    {"now": schemas.INSTANT, "job": schemas.TEXT, "after": schemas.NO_TEXT, "schedules": schemas.each(ENTRY)}
)


class Reminders:
    def __init__(self) -> None:
        self.events: list[str] = []

    @scheduled("remind", lock_ttl=60, expected_runtime=5)
    def remind(self, run: Run, event: str) -> None:
        self.events.append(event)
        if event == "bad":
            raise RuntimeError("nobody is there")

    @distributed_cron("digest", "0 9 * * *")
    def digest(self) -> None: ...


@pytest.fixture
def jobs() -> Reminders:
    return Reminders()


@pytest.fixture
def page(rtdb: Rtdb, shell: Shell, jobs: Reminders) -> Page:
    return stored(rtdb, jobs, shell)


def stored(rtdb: Rtdb, jobs: object, shell: Shell = "asgi", **options: Any) -> Page:
    """A page of an instance that has the job, which is in the catalogue and lives."""
    made = Page(jobs, shell=shell, **{**ACTING, **options})
    declare_live(rtdb, "remind", "digest")
    fields = {"stored": True, "parameters": "event", "line": None, "timezone": None, "expectedRuntime": 5}
    for field, value in fields.items():
        rtdb.set(f"/cron-jobs/remind/{field}", value)
    return made


def put(crons: FireCron, *keys: str, **options: Any) -> None:
    for key in keys:
        crons.schedules.put("remind", key, args={"event": key}, **{"line": "0 9 * * *", **options})


def listed(page: Page, query: str = "") -> list[dict[str, Any]]:
    reply = page.get(f"{LISTED}{query}")
    assert reply.status == 200, reply.body
    found: list[dict[str, Any]] = reply.body["schedules"]
    jsonschema.validate({**reply.body, "schedules": [whole(one) for one in found]}, ENTRIES)
    return found


def whole(row: dict[str, Any]) -> dict[str, Any]:
    """The row with the nulls that its parts are sent without."""
    parts = {"lock": schemas.LOCK, "last": schemas.RUN, "remedy": REMEDY, "entry": STORED}
    filled = {
        name: {**dict.fromkeys(schema["required"]), **row[name]}  # type: ignore[call-overload]  # a schema is any JSON
        for name, schema in parts.items()
        if row[name] is not None
    }
    return {**row, **filled}


def keys(page: Page, query: str = "") -> list[str]:
    return [one["entry"]["key"] for one in listed(page, query)]


def test_entries_are_listed_by_pages_and_by_the_beginning_of_their_keys(page: Page, rtdb: Rtdb) -> None:
    """Fifty at a time in the order of their keys, without removed ones; `after` is where the next page begins."""
    names = [f"k{number:02}" for number in range(60)]
    put(page.crons, *names, "other")
    page.crons.schedules.remove("remind", "k07")
    assert keys(page) == [name for name in names[:50] if name != "k07"]
    assert page.get(LISTED).body["after"] == "k49"
    assert keys(page, "?after=k49") == [*names[50:], "other"]
    assert page.get(f"{LISTED}?after=k49").body["after"] is None
    assert keys(page, "?prefix=k5") == names[50:]
    assert keys(page, "?prefix=o") == ["other"]
    for nothing in ("?prefix=p", "?prefix=k%20", "?prefix=" + "k" * 61, "?after=%0A"):
        assert keys(page, nothing) == []


def test_an_entry_says_what_it_is(rtdb: Rtdb, jobs: Reminders) -> None:
    """Its schedule in words, its next tick, its state and why, and what can be done to it."""
    page = stored(rtdb, jobs)
    put(page.crons, "line", timezone="America/New_York")
    put(page.crons, "once", line=None, at=SOON)
    put(page.crons, "paused")
    Operator(page.crons.board.database).pause("remind:paused", "the move")
    put(page.crons, "broken")
    rtdb.set("/cron-schedules/remind/:broken/line", "ever")
    put(page.crons, "missed", line=None, at=SOON)
    for field, value in {"closed": "missed", "closedAt": now(), "closedWhy": "nobody lived"}.items():
        rtdb.set(f"/cron-schedules/remind/:missed/{field}", value)
    put(page.crons, "held")
    at = now() - 20_000
    held = {"holder": "h", "acquiredAt": at, "expiresAt": at + 60_000, "fence": at, "renews": True, "unfinished": SLOT}
    for field, value in {**held, "slot": SLOT, "instanceId": "api-00042", "instance": "00bf4b"}.items():
        rtdb.set(f"/cron-schedules/remind/:held/{field}", value)
    put(page.crons, "late", "passed")
    for key in ("late", "passed"):
        rtdb.set(f"/cron-schedules/remind/:{key}/since", now() - 3 * 86_400_000)
    rtdb.set("/cron-schedules/remind/:passed/passed", now())  # a look has said what became of its ticks
    rows = {one["entry"]["key"]: one for one in listed(page)}
    said = {key: (row["entry"]["state"], row["verdict"], row["acts"]) for key, row in rows.items()}
    assert said == {
        "broken": ("malformed", "stuck", ["mend"]),
        "held": ("running", "stuck", ["cancel", "pause"]),
        "late": ("waiting", "late", ["run_missed", "run", "pause"]),
        "line": ("waiting", "ok", ["run", "pause"]),
        "missed": ("missed", "retired", []),
        "once": ("waiting", "ok", ["run", "pause"]),
        "passed": ("waiting", "ok", ["run", "pause"]),
        "paused": ("paused", "paused", ["resume"]),
    }
    assert (rows["line"]["words"], rows["line"]["timezone"]) == ("at 09:00 every day", "America/New_York")
    assert (rows["once"]["entry"]["at"], rows["once"]["next"]) == (to_text(SOON), to_text(SOON))
    assert rows["missed"]["next"] is None
    assert rows["missed"]["why"] == "its only tick was missed: nobody lived"
    assert "cron line" in rows["broken"]["why"]
    assert rows["paused"]["lock"]["pausedWhy"] == "the move"
    assert rows["late"]["remedy"]["command"].startswith("firecron run APP remind:late --slot ")


def test_an_entry_is_what_its_job_is(rtdb: Rtdb, jobs: Reminders) -> None:
    """While the job is paused, none of its entries runs, and each of them says so."""
    page = stored(rtdb, jobs)
    put(page.crons, "42")
    assert page.post(f"{REMIND}/pause", {"why": "the move"}).status == 200
    [row] = listed(page)
    assert (row["verdict"], row["acts"]) == ("paused", [])
    assert row["why"].startswith(f"with its job: paused by {WHO}")


def test_an_entry_has_a_page_of_its_runs(page: Page, rtdb: Rtdb, jobs: Reminders) -> None:
    """As a job has: its row with its acts, its runs alone, its ticks, its node and its traceback."""
    put(page.crons, "42", "43", "bad")
    for key in ("42", "43", "bad"):
        assert page.post(f"{REMIND}:{key}/run").status == 200
    assert sorted(jobs.events) == ["42", "43", "bad"]
    found = page.get(f"{REMIND}:bad").body
    assert (found["job"]["job"], found["job"]["acts"], found["stored"]) == ("remind:bad", ["run", "pause"], False)
    assert [run["outcome"] for run in found["runs"]] == ["failed"]
    [run] = found["runs"]
    assert ":bad" not in run["key"]
    assert found["node"]["line"] == "0 9 * * *"
    assert len(found["next"]) == 10
    assert (found["options"]["arguments"], found["options"]["grace"]) == ('{"event": "bad"}', 60)
    traced = page.get(f"{REMIND}:bad/tracebacks/{run['key']}").body["traceback"]
    assert "nobody is there" in traced
    of_job = page.get(REMIND).body
    assert of_job["stored"] is True
    assert sorted(run["key"].rpartition(":")[2] for run in of_job["runs"]) == ["42", "43", "bad"]
    failed = next(run for run in of_job["runs"] if run["outcome"] == "failed")
    assert page.get(f"{REMIND}/tracebacks/{failed['key']}").body["traceback"] == traced
    for nobody in ("remind:nobody", "digest:42", "nobody:42"):
        assert page.get(f"/api/jobs/{nobody}").said == (404, "unknown_job")


def test_each_run_of_a_stored_job_is_a_tick_of_its_strip(rtdb: Rtdb, jobs: Reminders) -> None:
    """Also of entries that tick at one instant; of an entry its own."""
    page = stored(rtdb, jobs)
    put(page.crons, "42", "43")
    for key, outcome in (("42", "succeeded"), ("43", "failed")):
        run = {"outcome": outcome, "slot": SLOT, "attempt": 1, "error": None if key == "42" else "no"}
        rtdb.set(f"/cron-runs/remind/{SLOT}:{key}", run)
    strips = page.get("/api/strips?names=remind,remind:43").body["strips"]
    said = {name: [(tick["outcome"], tick["why"]) for tick in ticks] for name, ticks in strips.items()}
    assert said == {"remind": [("succeeded", None), ("failed", "no")], "remind:43": [("failed", "no")]}


def test_a_stored_job_is_run_by_its_entries_alone(rtdb: Rtdb, jobs: Reminders) -> None:
    """So neither its row nor its page offers a run, and one that comes is refused."""
    page = stored(rtdb, jobs)
    [_, row] = page.get("/api/jobs").body["jobs"]
    assert (row["job"], row["acts"]) == ("remind", ["pause"])
    assert page.get(REMIND).body["runnable"] is False
    assert page.post(f"{REMIND}/run").said == (409, "stored")


def test_what_is_offered_of_an_entry_is_done(rtdb: Rtdb, jobs: Reminders) -> None:
    """Run, pause, resume, stop and unlock, by its name; each is in the acts."""
    page = stored(rtdb, jobs)
    put(page.crons, "42")
    entry = f"{REMIND}:42"
    for act, shown in (("run", "waiting"), ("pause", "paused"), ("resume", "waiting")):
        assert page.post(f"{entry}/{act}", {"why": "a test"}).status == 200
        assert [row["entry"]["state"] for row in listed(page)] == [shown]
    at = now()
    held = {"holder": "h", "acquiredAt": at, "expiresAt": at + 60_000, "fence": at, "renews": True, "unfinished": SLOT}
    for field, value in {**held, "slot": SLOT, "releasedAt": None, "outcome": None}.items():
        rtdb.set(f"{NODE}/{field}", value)
    page.crons.board.done()
    assert page.post(f"{entry}/cancel", {"fence": at}).status == 200
    assert [row["acts"] for row in listed(page)] == [["unlock", "pause"]]
    assert page.post(f"{entry}/unlock", {"acquiredAt": to_text(at)}).status == 200
    assert rtdb.get(f"{NODE}/expiresAt") == 0
    done = [(act["act"], act["name"], act["who"]) for act in page.get("/api/acts").body["acts"]]
    assert sorted(done) == sorted((act, "remind:42", WHO) for act in ("run", "pause", "resume", "cancel", "unlock"))


@pytest.mark.parametrize("act", ["run", "pause", "resume", "unlock", "cancel"])
def test_an_entry_that_is_not_there_is_404(rtdb: Rtdb, jobs: Reminders, act: str) -> None:
    """Nothing is written, and so none is made by a name that was misspelt."""
    assert stored(rtdb, jobs).post(f"{REMIND}:nobody/{act}").said == (404, "unknown_job")
    assert rtdb.get("/cron-schedules") is None


def test_a_missed_tick_of_an_entry_is_run(rtdb: Rtdb, jobs: Reminders) -> None:
    """By the tick that the row names; one that is none of its ticks is refused."""
    page = stored(rtdb, jobs)
    put(page.crons, "42")
    rtdb.set(f"{NODE}/since", now() - 3 * 86_400_000)
    [row] = listed(page)
    assert page.post(f"{REMIND}:42/run", {"slot": "2026-11-18T09:30:00Z"}).said == (400, "bad_request")
    reply = page.post(f"{REMIND}:42/run", {"slot": row["remedy"]["tick"]})
    assert (reply.status, reply.body["slot"]) == (200, row["remedy"]["tick"])


def test_without_the_code_no_entry_is_run(rtdb: Rtdb, jobs: Reminders) -> None:
    """Nobody is asked for such a run, so none is offered, and one that comes is refused."""
    put(stored(rtdb, jobs).crons, "42")
    page = Page(**ACTING)
    [row] = listed(page)
    assert row["acts"] == ["pause"]
    assert page.post(f"{REMIND}:42/run").said == (409, "no_code")
    assert rtdb.get("/cron-asks") is None


@pytest.mark.parametrize("act", ["mute", "unmute", "forget", "hold", "schedules"])
def test_an_entry_has_no_acts_of_the_catalogue(page: Page, act: str) -> None:
    """People are told of its job, and it is removed by who has put it."""
    assert page.post(f"{REMIND}:42/{act}").said == (404, "unknown_path")


@pytest.mark.parametrize("given", [{"read_only": True, "open_to_all": "read"}, {"access": lambda visitor: Access("x")}])
def test_who_may_only_look_acts_on_no_entry(rtdb: Rtdb, jobs: Reminders, given: Mapping[str, Any]) -> None:
    """The list is there, and each act is refused, as of a job."""
    put(stored(rtdb, jobs).crons, "42")
    page = Page(jobs, **given)
    assert [row["entry"]["key"] for row in listed(page)] == ["42"]
    assert page.post(f"{REMIND}:42/pause").status == (405 if "read_only" in given else 403)
    assert rtdb.get(f"{NODE}/paused") is None


def test_many_who_look_cost_as_much_as_one(rtdb: Rtdb, jobs: Reminders) -> None:
    """One query for a page of the list, one request for an entry, whoever asks within five seconds; idle, a stored job
    costs its three queries a minute.
    """
    rtdb.set_rules(RULES)  # they have the indexes
    clock = FakeTiming()
    put(stored(rtdb, jobs).crons, "42", "43", at=SOON, line=None)
    page = Page(jobs, timing=clock, **ACTING)
    page.get("/api/jobs")

    def asked() -> int:
        return rtdb.count(path="/cron-schedules/*")

    def count(path: str) -> int:
        before = asked()
        for _ in range(5):
            page.get(path)
        return asked() - before

    assert [count(LISTED), count(f"{REMIND}:42")] == [1, 1]
    clock.advance(4.9)
    assert [count("/api/jobs"), count(LISTED), count(f"{REMIND}:42")] == [0, 0, 0]
    clock.advance(0.2)
    assert [count("/api/jobs"), count(LISTED), count(f"{REMIND}:42")] == [0, 1, 1]
    clock.advance(56)
    assert count("/api/jobs") == 3


def test_entries_are_counted_when_somebody_asks(page: Page, rtdb: Rtdb) -> None:
    """With those that are closed and still there, as `count` does; a job without any is no stored job."""
    put(page.crons, "42", "43")
    page.crons.schedules.remove("remind", "43")
    assert page.get(f"{LISTED}/count").body == {"job": "remind", "count": 2}
    for path in ("schedules", "schedules/count"):
        assert page.get(f"/api/jobs/digest/{path}").said == (404, "unknown_job")
        assert page.get(f"/api/jobs/nobody/{path}").said == (404, "unknown_job")
