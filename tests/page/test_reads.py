"""What the page shows: the JSON of all jobs, one job, strips, instances, acts, health; whatever the database holds."""

from __future__ import annotations

import gzip
import json
from typing import Any, cast

import jsonschema
import pytest
from tests.cli import schemas
from tests.page.paging import Page, Shell, attend, declare, declare_live, now

from firecron.base.instants import to_text
from firecron.cron.schedule import Schedule
from firecron.jobs.catalogue import group_fields
from rtdb_emulator.pytest_plugin import Rtdb

MINUTE = 60_000
# What somebody may type into a console, or a program may write.
MARKUP = "<img src=x onerror=alert(1)> & \"quotes\" 'too' </script>"
CONTROL = "a\x00b\x1b[31mc\u0007d\r\ne"
RIGHT_TO_LEFT = "\u202eevil\u202c \u200f\u0627\u0644"


def run_node(slot: str, started: int, outcome: str = "succeeded", **fields: Any) -> dict[str, Any]:
    return {
        "outcome": outcome,
        "slot": slot,
        "trigger": "schedule",
        "startedAt": started,
        "endedAt": started + 900,
        "durationMs": 900,
        "attempt": 1,
        "fence": started,
        "instance": "00bf4b12aa01",
        "instanceId": "shop-00042",
        **fields,
    }


def lock_node(slot: str, acquired: int, **fields: Any) -> dict[str, Any]:
    return {
        "slot": slot,
        "acquiredAt": acquired,
        "releasedAt": acquired + 900,
        "expiresAt": acquired + 900,
        "fence": acquired,
        "instance": "00bf4b12aa01",
        "instanceId": "shop-00042",
        "outcome": "succeeded",
        "holder": "some-token",
        **fields,
    }


def test_all_jobs_are_shown(rtdb: Rtdb, shell: Shell) -> None:
    """Each job of the catalogue is a row as `firecron status --json` has it, without the nulls of its lock and its last
    run, and with the acts that are offered; locks without a job are apart, and those of leaders apart from them.
    """
    at = now()
    slot = to_text(at // MINUTE * MINUTE)
    declare(rtdb, "digest", "* * * * *")
    attend(rtdb, "digest")
    rtdb.set("/cron-locks/digest", lock_node(slot, at))
    rtdb.set(f"/cron-runs/digest/{slot}", run_node(slot, at))
    rtdb.set("/cron-locks/queue", {"kind": "leader", "acquiredAt": at, "expiresAt": at + 30_000, "fence": at})
    rtdb.set("/cron-locks/import", {"acquiredAt": at, "expiresAt": at + 30_000})
    reply = Page(shell=shell).get("/api/jobs")
    seen = reply.body
    assert reply.headers["content-type"] == "application/json"
    assert set(seen) == {"now", "visitor", "readOnly", "database", "jobs", "leaders", "locks", "holds"}
    [row] = seen["jobs"]
    assert not [part for part in ("lock", "last") if None in row[part].values()]
    assert row.pop("acts") == ["pause"]
    whole = {
        **row,
        "lock": {**dict.fromkeys(cast("list[str]", schemas.LOCK["required"])), **row["lock"]},
        "last": {**dict.fromkeys(cast("list[str]", schemas.RUN["required"])), **row["last"]},
    }
    jsonschema.validate({"now": seen["now"], "holds": seen["holds"], "jobs": [whole]}, schemas.STATUS)
    assert (row["job"], row["verdict"], row["words"], row["last"]["outcome"]) == (
        "digest",
        "ok",
        "every minute",
        "succeeded",
    )
    assert [view["name"] for view in seen["leaders"]] == ["queue"]
    assert [view["name"] for view in seen["locks"]] == ["import"]


PROPERTIES = cast("dict[str, schemas.Schema]", schemas.RUN["properties"])
JOB = schemas.exactly(
    {
        "now": schemas.INSTANT,
        "job": schemas.perhaps(schemas.ROW),
        "stored": schemas.TRUTH,
        "lock": schemas.perhaps(schemas.LOCK),
        "options": schemas.perhaps(
            schemas.exactly(
                {
                    "line": schemas.TEXT,
                    "timezone": schemas.TEXT,
                    "every": schemas.perhaps(schemas.NUMBER),
                    "starting": schemas.perhaps(schemas.INSTANT),
                    "until": schemas.perhaps(schemas.INSTANT),
                    "exceptDays": schemas.each(schemas.TEXT),
                    "grace": {"type": "number"},
                    "overlap": schemas.TEXT,
                    "catchUp": schemas.TEXT,
                    "oncePerTick": schemas.TRUTH,
                    "disabled": schemas.TRUTH,
                    "expectedRuntime": schemas.perhaps({"type": "number"}),
                    "alertAfter": schemas.NUMBER,
                    "role": schemas.perhaps(schemas.TEXT),
                    "onAbandoned": schemas.TEXT,
                    "retries": schemas.NUMBER,
                    **schemas.of({"type": "number"}, "catchUpWindow ttl maxRuntime holdAtLeast"),
                    "renew": schemas.TRUTH,
                    "where": schemas.TEXT,
                    "ticks": schemas.TRUTH,
                    "service": schemas.TEXT,
                    "revision": schemas.perhaps(schemas.TEXT),
                    "since": schemas.perhaps(schemas.INSTANT),
                    "declaredAt": schemas.perhaps(schemas.INSTANT),
                }
            )
        ),
        "defaults": schemas.each(schemas.TEXT),
        "next": schemas.each(schemas.exactly({"slot": schemas.INSTANT, "note": schemas.perhaps(schemas.TEXT)})),
        "running": schemas.perhaps(
            schemas.exactly(
                {
                    "key": schemas.perhaps(schemas.TEXT),
                    "slot": schemas.perhaps(schemas.INSTANT),
                    "started": schemas.perhaps(schemas.INSTANT),
                    "attempt": schemas.perhaps(schemas.NUMBER),
                    "fence": schemas.perhaps(schemas.NUMBER),
                    "instanceId": schemas.perhaps(schemas.TEXT),
                    "instance": schemas.perhaps(schemas.TEXT),
                    "steps": schemas.each(schemas.STEP),
                    "logs": schemas.perhaps(schemas.TEXT),
                }
            )
        ),
        "runs": schemas.perhaps(
            schemas.each(
                schemas.exactly(
                    {**PROPERTIES, "steps": schemas.each(schemas.STEP), "logs": schemas.perhaps(schemas.TEXT)}
                )
            )
        ),
        "node": {},
        "instances": schemas.perhaps(
            schemas.each(
                schemas.exactly(
                    {
                        **dict.fromkeys(("instance", "process"), schemas.TEXT),
                        **dict.fromkeys(("instanceId", "service", "logs"), schemas.perhaps(schemas.TEXT)),
                        **dict.fromkeys(("startedAt", "seenAt"), schemas.perhaps(schemas.INSTANT)),
                        "alive": schemas.TRUTH,
                        "jobs": schemas.perhaps(schemas.NUMBER),
                    }
                )
            )
        ),
        **schemas.of(schemas.TRUTH, "runnable resumable"),
        "why_not_runnable": schemas.perhaps(schemas.TEXT),
        "problems": {"type": "object", "additionalProperties": schemas.TEXT},
    }
)


def test_one_job_is_shown_with_everything(rtdb: Rtdb) -> None:
    """Its row, options, next ticks with the notes about clock changes, runs with steps and a link to their log, and the
    node as it is.
    """
    at = now()
    slot = to_text(at // MINUTE * MINUTE)
    declare(rtdb, "digest", "30 2 * * *", timezone="Europe/Berlin", expected_runtime=60_000, role="mailer")
    attend(rtdb, "digest")
    rtdb.set("/cron-locks/digest", lock_node(slot, at))
    rtdb.set(f"/cron-runs/digest/{slot}", run_node(slot, at))
    step = {"startedAt": at, "doneAt": at + 1, "attempt": 1, "fence": at, "instance": "00bf4b12aa01", "result": "{}"}
    rtdb.set(f"/cron-steps/digest/{slot}/send", step)
    seen = Page().get("/api/jobs/digest").body
    jsonschema.validate(seen, JOB)
    assert seen["job"]["verdict"] in ("ok", "late")
    assert (seen["options"]["expectedRuntime"], seen["options"]["role"]) == (60, "mailer")
    assert seen["options"]["ttl"] == 60
    assert {"grace", "ttl"} <= {*seen["defaults"]} <= {*seen["options"]} - {"expectedRuntime", "role"}
    assert len(seen["next"]) == 10
    [run] = seen["runs"]
    assert [one["name"] for one in run["steps"]] == ["send"]
    assert "result" not in run["steps"][0]
    assert "firecron_run" in run["logs"]
    assert seen["node"]["holder"] == "some-token"
    # Its lock is held, which an ask would wait for; there is no code of it here, and an instance is asked.
    assert (seen["runnable"], seen["why_not_runnable"]) == (True, None)


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_run_under_way_is_shown_with_its_steps(rtdb: Rtdb, by_hand: bool) -> None:
    """That of a tick by its slot; a run by hand, whose key nobody knows before its first step, by its start."""
    at = now()
    slot = to_text(at // MINUTE * MINUTE)
    declare(rtdb, "digest", "* * * * *")
    key = f"{to_text(at)}-manual-ab12cd" if by_hand else slot
    fields = {} if by_hand else {"slot": slot, "unfinished": slot}
    held = {"acquiredAt": at, "expiresAt": at + MINUTE, "fence": at, "instance": "00bf4b12aa01", "attempt": 2, **fields}
    rtdb.set("/cron-locks/digest", held)
    step = {"startedAt": at, "attempt": 2, "fence": at, "instance": "00bf4b12aa01"}
    rtdb.set(f"/cron-steps/digest/{key}/send", step)
    seen = Page().get("/api/jobs/digest").body
    jsonschema.validate(seen, JOB)
    running = seen["running"]
    assert (running["key"], running["slot"], running["started"]) == (key, None if by_hand else slot, to_text(at))
    assert (running["attempt"], running["instance"]) == (None if by_hand else 2, "00bf4b12aa01")
    assert [one["name"] for one in running["steps"]] == ["send"]
    assert "firecron_run" in running["logs"]


def test_a_lock_without_a_job_has_its_view(rtdb: Rtdb) -> None:
    """A lock or leader that is in no catalogue has no row, but its state and its node; a name that nobody knows is
    404.
    """
    at = now()
    rtdb.set("/cron-locks/queue", {"kind": "leader", "acquiredAt": at, "expiresAt": at + 30_000, "fence": at})
    page = Page()
    seen = page.get("/api/jobs/queue").body
    jsonschema.validate(seen, JOB)
    assert (seen["job"], seen["options"], seen["lock"]["state"]) == (None, None, "held")
    assert page.get("/api/jobs/nobody").said == (404, "unknown_job")


def test_what_has_not_changed_is_not_sent_again(rtdb: Rtdb, shell: Shell) -> None:
    """With the ETag of the last reply there is no body until a row changes; the time alone is no change."""
    declare_live(rtdb, "digest")
    page = Page(shell=shell)
    first = page.get("/api/jobs")
    for etag in (first.headers["etag"], f'"other", {first.headers["etag"]}'):
        again = page.get("/api/jobs", {"If-None-Match": etag})
        assert (again.status, again.raw, again.headers["etag"]) == (304, b"", first.headers["etag"])
        assert shell == "django" or "content-length" not in again.headers  # Django's middleware adds it to all
    assert page.get("/api/jobs", {"If-None-Match": '"other"'}).status == 200
    held = {"acquiredAt": now(), "expiresAt": now() + MINUTE, "fence": 1, "holder": "a"}
    rtdb.set("/cron-locks/digest", held)
    running = Page(shell=shell).get("/api/jobs").headers["etag"]
    rtdb.set("/cron-locks/digest", {**held, "expiresAt": now() + 2 * MINUTE})
    assert Page(shell=shell).get("/api/jobs", {"If-None-Match": running}).status == 304  # a renewal is no news
    rtdb.set("/cron-locks/digest", {"paused": True})
    other = Page(shell=shell).get("/api/jobs", {"If-None-Match": first.headers["etag"]})
    assert (other.status, other.body["jobs"][0]["verdict"]) == (200, "paused")


def test_a_long_reply_is_compressed_for_those_who_take_it(rtdb: Rtdb) -> None:
    """50 jobs are some kilobytes on their way to a browser."""
    for number in range(50):
        declare(rtdb, f"job-{number}")
    page = Page()
    plain, small = page.get("/api/jobs"), page.get("/api/jobs", {"Accept-Encoding": "br, gzip"})
    assert (small.headers["content-encoding"], small.headers["vary"]) == ("gzip", "Accept-Encoding")
    assert json.loads(gzip.decompress(small.raw))["jobs"] == plain.body["jobs"]
    assert len(small.raw) < 10_000
    for accepted in ("identity", "gzip;q=0", "br"):
        assert "content-encoding" not in page.get("/api/jobs", {"Accept-Encoding": accepted}).headers


# --- strips


def test_a_strip_has_every_tick_and_why_it_did_not_run(rtdb: Rtdb) -> None:
    """Ticks that ran have their outcome and duration; one that overlap skipped, nobody claimed or nobody recorded has
    its reason; one that runs now is `running`.
    """
    last = now() // MINUTE * MINUTE
    ticks = [last - back * MINUTE for back in range(6, -1, -1)]
    declare(rtdb, "digest", "* * * * *", since=ticks[0] - 1, grace=30_000)
    slots = [to_text(tick) for tick in ticks]
    runs = {
        slots[0]: run_node(slots[0], ticks[0]),
        slots[1]: run_node(slots[1], ticks[1], "failed", error="boom"),
        slots[3]: {"outcome": "skipped", "slot": slots[3], "count": 2, "recordedBy": "bookkeeper"},
        slots[4]: {"outcome": "missed", "slot": slots[4], "recordedBy": "bookkeeper"},
    }
    for slot, node in runs.items():
        rtdb.set(f"/cron-runs/digest/{slot}", node)
    held = {"releasedAt": None, "unfinished": slots[6], "expiresAt": now() + 30_000}
    rtdb.set("/cron-locks/digest", {key: value for key, value in lock_node(slots[6], now(), **held).items() if value})
    shown = Page().get("/api/jobs/digest/strip").body["ticks"][: len(slots)]
    assert [(tick["slot"], tick["outcome"], tick["durationMs"]) for tick in shown] == [
        (slots[0], "succeeded", 900),
        (slots[1], "failed", 900),
        (slots[2], "skipped", None),
        (slots[3], "skipped", None),
        (slots[4], "missed", None),
        (slots[5], None, None),
        (slots[6], "running", None),
    ]
    assert [(tick["hole"], tick["why"]) for tick in shown[1:6]] == [
        (None, "boom"),
        ("skipped", "the run before it had not ended"),
        ("skipped", "the run before it had not ended"),
        ("missed", "no instance claimed it in time"),
        ("unrecorded", "nothing is recorded of it"),
    ]


def test_a_tick_in_a_pause_that_is_over_says_so(rtdb: Rtdb) -> None:
    """Who resumed the job left no pause in the node, and the next claim has written the ticks as missed: the acts show
    the pause.
    """
    ticks = [now() // MINUTE * MINUTE - back * MINUTE for back in range(6, 1, -1)]
    slots = [to_text(tick) for tick in ticks]
    declare(rtdb, "digest", "* * * * *", since=ticks[0] - 1, grace=30_000)
    rtdb.set("/cron-locks/digest", lock_node(slots[4], ticks[4] + 100))
    rtdb.set("/cron-runs/digest", {
        **{slot: {"outcome": "missed", "slot": slot, "recordedBy": "bookkeeper"} for slot in slots[:4]},
        slots[4]: run_node(slots[4], ticks[4] + 100),
    })  # fmt: skip
    acts = (("a", "pause", ticks[1]), ("b", "resume", ticks[3]))
    rtdb.set("/cron-acts", {key: {"act": act, "name": "digest", "who": "ops", "at": at} for key, act, at in acts})
    shown = Page().get("/api/jobs/digest/strip").body["ticks"][:5]
    assert [(tick["outcome"], tick["hole"]) for tick in shown] == [
        ("missed", "missed"),
        ("missed", "paused"),
        ("missed", "paused"),
        ("missed", "missed"),
        ("succeeded", None),
    ]
    assert shown[1]["why"] == "the job was paused by ops"


def test_several_strips_come_at_once(rtdb: Rtdb) -> None:
    """`api/strips` has those that were asked for. One without a job is empty, and the database isn't asked about it."""
    declare(rtdb, "digest", "* * * * *", since=now() - 3 * MINUTE)
    page = Page()
    strips = page.get("/api/strips?names=digest,nobody").body["strips"]
    assert (set(strips), len(strips["digest"]) >= 3, strips["nobody"]) == ({"digest", "nobody"}, True, [])
    assert rtdb.count(path="/cron-runs/nobody") == 0
    assert page.get("/api/strips").body == {"strips": {}, "last": {}, "problems": {}}


def test_what_is_shown_is_read(rtdb: Rtdb) -> None:
    """Of a job whose strip is asked for, and of one whose page is opened: a run's note and duration."""
    at = now()
    slot = to_text(at)
    for name in ("digest", "import", "report"):
        declare(rtdb, name, since=at)
        lock = {"slot": slot, "acquiredAt": at, "releasedAt": at, "expiresAt": at, "fence": at, "outcome": "succeeded"}
        rtdb.set(f"/cron-locks/{name}", lock)
        rtdb.set(f"/cron-runs/{name}/{slot}", {**run_node(slot, at), "fence": at})
    attend(rtdb, "digest", "import", "report")
    page = Page()
    assert [job["last"].get("key") for job in page.get("/api/jobs").body["jobs"]] == [None] * 3
    assert rtdb.count(path="/cron-runs/*") == 0
    last = page.get("/api/strips?names=digest,nobody").body["last"]
    assert {name: one["key"] for name, one in last.items()} == {"digest": slot}
    assert page.get("/api/jobs/import").body["job"]["last"]["key"] == slot
    assert [job["last"].get("key") for job in page.get("/api/jobs").body["jobs"]] == [slot, slot, None]
    assert rtdb.count(path="/cron-runs/report") == 0


def test_a_malformed_history_takes_no_other_strip_away(rtdb: Rtdb) -> None:
    """It is null, with the reason, and so is the strip of a name that can be none."""
    for name in ("digest", "import"):
        declare(rtdb, name, "* * * * *", since=now() - 3 * MINUTE)
    rtdb.set("/cron-runs/import", "token=hunter2-hunter2")
    seen = Page().get("/api/strips?names=import,<b>,digest").body
    assert (len(seen["strips"].pop("digest")) >= 3, seen["strips"]) == (True, {"import": None, "<b>": None})
    assert set(seen["problems"]) == {"import", "<b>"}
    assert seen["problems"]["import"].startswith("cron-runs/import holds ")
    assert "hunter2" not in seen["problems"]["import"]


def test_a_job_is_shown_without_what_is_malformed(rtdb: Rtdb) -> None:
    """Neither a history nor the steps of a tick that are a value hide the rest of the job."""
    slot = to_text(now() // MINUTE * MINUTE)
    declare(rtdb, "digest", since=now())
    rtdb.set(f"/cron-runs/digest/{slot}", run_node(slot, now()))
    rtdb.set(f"/cron-steps/digest/{slot}", "text")
    seen = Page().get("/api/jobs/digest").body
    jsonschema.validate(seen, JOB)
    assert [(one["name"], one["state"]) for one in seen["runs"][0]["steps"]] == [("the node holds 'text'", "malformed")]
    rtdb.set("/cron-runs/digest", 5)
    seen = Page().get("/api/jobs/digest").body
    jsonschema.validate(seen, JOB)
    assert (seen["runs"], seen["job"]["verdict"], len(seen["next"])) == (None, "unattended", 10)
    assert seen["problems"]["runs"].startswith("cron-runs/digest holds 5, but must hold one node for each name")


@pytest.mark.parametrize(
    "key", ["2026-11-18T09:00:00Z", "2026-11-18T09:00:00Z-manual-a1b2c3", "2026-11-18T09:00:00Z-term-17"]
)
def test_a_traceback_is_read_when_somebody_asks(rtdb: Rtdb, key: str) -> None:
    """Line by line, in safe texts; null where none is kept, and where the rules are older."""
    rtdb.set(f"/cron-errors/digest/{key}", "Traceback\n  File \x1b[31m\nValueError: no")
    page = Page()
    shown = "Traceback\n  File \N{REPLACEMENT CHARACTER}[31m\nValueError: no"
    assert page.get(f"/api/jobs/digest/tracebacks/{key}").body == {"traceback": shown}
    assert page.get(f"/api/jobs/other/tracebacks/{key}").body == {"traceback": None}
    rtdb.set_rules({"rules": {".read": False, "cron-jobs": {".read": True}}})
    assert Page(settings={"uid": "nobody"}).get(f"/api/jobs/digest/tracebacks/{key}").body == {"traceback": None}


# --- instances, acts, health


def test_instances_and_groups_are_shown(rtdb: Rtdb) -> None:
    """Who is alive, what each runs, and which groups there are; the clock's node is no instance."""
    at = now()
    rtdb.set(
        "/cron-instances",
        {
            "clock": {"seenAt": at},
            "00bf4b12aa01-abc": {"seenAt": at, "startedAt": at - MINUTE, "instanceId": "shop-00042", "jobs": 3},
            "11bf4b12aa01-abc": {"seenAt": at - 60 * MINUTE, "startedAt": "yesterday", "instanceId": 5},
            "22bf4b12aa01-abc": {"seenAt": at, "instanceId": "shop-eu-00007"},
            "33bf4b12aa01-abc": {"seenAt": at, "instanceId": "shopping-00001"},
        },
    )
    declare(rtdb, "digest")
    rtdb.set("/cron-groups/group-2", {"service": "shop-eu", "seenAt": at})
    attend(rtdb, "digest", "other")
    rtdb.set("/cron-locks/digest", {"acquiredAt": at, "expiresAt": at + MINUTE, "instance": "00bf4b12aa01"})
    seen = Page().get("/api/instances").body
    dead, stranger, alive, other = seen["instances"]
    assert [one["service"] for one in (dead, stranger, alive, other)] == [None, None, "shop", "shop-eu"]
    assert (alive["instance"], alive["alive"], alive["jobs"], alive["running"]) == ("00bf4b12aa01", True, 3, ["digest"])
    assert (dead["alive"], dead["startedAt"], dead["instanceId"]) == (False, None, None)
    group, _ = seen["groups"]
    assert (group["service"], group["live"], group["jobs"]) == ("shop", True, ["digest", "other"])


def test_of_a_late_job_the_instances_are_shown_that_would_run_it(rtdb: Rtdb) -> None:
    """Those that live, of the services that have it, with their log lines of the last hour. Of another job, none."""
    at = now()
    declare(rtdb, "digest", "* * * * *")
    declare(rtdb, "report", "* * * * *", since=at)
    attend(rtdb, "digest", "report")
    rtdb.set("/cron-groups/group-2", {"service": "desk", "seenAt": at, "jobs": "other"})
    rtdb.set("/cron-instances", {
        "00bf4b12aa01-abc": {"seenAt": at, "startedAt": at - MINUTE, "instanceId": "shop-00042", "jobs": 3},
        "11bf4b12aa01-abc": {"seenAt": at - 60 * MINUTE, "instanceId": "shop-00042"},
        "22bf4b12aa01-abc": {"seenAt": at, "instanceId": "desk-00001"},
    })  # fmt: skip
    page = Page()
    seen = page.get("/api/jobs/digest").body
    jsonschema.validate(seen, JOB)
    [one] = seen["instances"]
    assert (seen["job"]["verdict"], one["instance"], one["service"]) == ("late", "00bf4b12aa01", "shop")
    assert "query=labels.instanceId%3A%2200bf4b12aa01%22;startTime=" in one["logs"]
    assert page.get("/api/jobs/report").body["instances"] is None


@pytest.mark.parametrize(("bad", "good"), [("groups", "instances"), ("instances", "groups")])
def test_instances_are_shown_without_malformed_groups_and_the_other_way_round(rtdb: Rtdb, bad: str, good: str) -> None:
    """What is a value instead of nodes is null, with the reason."""
    page = Page()
    page.get("/api/jobs")  # RTDB's time is asked for below the instances, and known from here on
    rtdb.set("/cron-instances", {"00bf4b12aa01-abc": {"seenAt": now()}})
    attend(rtdb, "digest")
    rtdb.set(f"/cron-{bad}", 5)
    seen = page.get("/api/instances").body
    assert (seen[bad], len(seen[good]), list(seen["problems"])) == (None, 1, [bad])
    assert seen["problems"][bad].startswith(f"cron-{bad} holds 5, but must hold one node for each name")


def test_a_row_warns_of_revisions_that_disagree(rtdb: Rtdb) -> None:
    """With the reason, and the verdict stays."""
    declare_live(rtdb, "digest")
    told = group_fields({"digest": Schedule("0 10 * * *")}, "shop", 30)
    rtdb.set("/cron-groups/group-2", {**told, "seenAt": now()})
    [row] = Page().get("/api/jobs").body["jobs"]
    assert (row["verdict"], row["warning"]) == ("ok", True)
    assert row["why"].startswith("live instances of shop run it by another schedule than ")


def test_acts_are_shown_newest_first(rtdb: Rtdb) -> None:
    """What operators have done, with who and why."""
    rtdb.set(
        "/cron-acts/2026-11-18T09:00:00Z-001-abc", {"act": "pause", "name": "digest", "who": "a", "at": 1, "why": "w"}
    )
    rtdb.set("/cron-acts/2026-11-18T09:00:00Z-002-abc", {"act": "resume", "name": "digest", "who": "b", "at": 2})
    acts = Page().get("/api/acts").body["acts"]
    jsonschema.validate({"acts": acts}, schemas.ACTS)
    assert [(act["act"], act["who"], act["why"]) for act in acts] == [("resume", "b", None), ("pause", "a", "w")]


def test_health_is_that_of_the_triggers(rtdb: Rtdb, shell: Shell) -> None:
    """200 while all jobs are as they should be, 503 with those that are not, and no more than verdicts."""
    declare_live(rtdb, "digest")
    good = Page(shell=shell).get("/health")
    assert (good.status, good.body) == (200, {"status": "ok", "jobs": []})
    rtdb.set("/cron-groups", None)
    bad = Page(shell=shell).get("/health")
    jsonschema.validate(bad.body, schemas.HEALTH)
    assert (bad.status, [one["verdict"] for one in bad.body["jobs"]]) == (503, ["unattended"])


# --- whatever the database holds


@pytest.mark.parametrize(
    "text", [MARKUP, CONTROL, RIGHT_TO_LEFT, "x" * 100_000], ids=["markup", "control", "rtl", "long"]
)
def test_any_text_is_sent_as_a_text(rtdb: Rtdb, text: str) -> None:
    """What somebody wrote comes as JSON that no browser takes for markup, without control characters, and cut."""
    at = now()
    slot = to_text(at // MINUTE * MINUTE)
    name = "a" * 100
    declare(rtdb, name, where=text, service=text, revision=text, role=text, overlap=text)
    rtdb.set(
        f"/cron-locks/{name}",
        lock_node(slot, at, instance=text, outcome=text, paused=True, pausedWhy=text, pausedBy=text),
    )
    rtdb.set(f"/cron-runs/{name}/{slot}", run_node(slot, at, error=text, instance=text, trigger=text, note=text))
    rtdb.set("/cron-acts/2026-11-18T09:00:00Z-001-abc", {"act": text, "name": text, "who": text, "at": at, "why": text})
    rtdb.set("/cron-instances/x-1", {"instanceId": text, "seenAt": at})
    rtdb.set("/cron-groups/x", {"service": text, "seenAt": at, "jobs": text})
    page = Page()
    for path in ("/api/jobs", f"/api/jobs/{name}", f"/api/jobs/{name}/strip", "/api/instances", "/api/acts", "/health"):
        reply = page.get(path)
        assert reply.status == (503 if path == "/health" and reply.body["jobs"] else 200), reply.raw
        assert (reply.headers["content-type"], reply.headers["x-content-type-options"]) == (
            "application/json",
            "nosniff",
        )
        found = {**reply.body}
        found.pop("node", None)  # the node is shown as it is
        shown = json.dumps(found, ensure_ascii=False)
        assert not [character for character in shown if ord(character) < 32]
        assert "\u202e" not in shown
        assert len(shown) < 60_000


@pytest.mark.parametrize("node", ["text", 5, True, [1, 2], {"a": "b"}, {"line": "never", "slot": 5, "seenAt": "x"}])
@pytest.mark.parametrize("root", ["cron-jobs", "cron-locks", "cron-runs", "cron-instances", "cron-groups", "cron-acts"])
def test_a_malformed_node_costs_its_own_row_alone(rtdb: Rtdb, root: str, node: object) -> None:
    """A node that can't be understood is shown as such; the other jobs are shown as ever."""
    declare_live(rtdb, "digest")
    at = now()
    rtdb.set(f"/cron-runs/digest/{to_text(at)}", run_node(to_text(at), at))
    rtdb.set(f"/{root}/broken", node)
    page = Page()
    seen = page.get("/api/jobs")
    assert seen.status == 200, seen.raw
    [row] = [row for row in seen.body["jobs"] if row["job"] == "digest"]
    assert (row["verdict"], row["last"]["outcome"]) == ("ok", "succeeded")
    if root == "cron-jobs":
        assert [row["verdict"] for row in seen.body["jobs"] if row["job"] == "broken"] == ["unknown"]
    for path in ("/api/jobs/digest", "/api/jobs/digest/strip", "/api/instances", "/api/acts"):
        assert page.get(path).status == 200, path
    broken = page.get("/api/jobs/broken")
    # A history that is none has no other place where it could be told.
    assert broken.status in (200, 404) or (root, broken.said) == ("cron-runs", (500, "malformed"))


@pytest.mark.parametrize(
    "entry",
    [
        {"line": "0 9 * * *", "expectedRuntime": 1e308, "grace": 1e308},
        {"every": 60, "starting": "9999-12-31T23:58:00Z"},
        {"every": 1, "starting": "9999-12-31T23:59:59Z"},
    ],
    ids=str,
)
def test_an_entry_at_the_limits_is_shown(rtdb: Rtdb, entry: object) -> None:
    """What somebody has typed by hand may be the largest number, or the last instant."""
    declare(rtdb, "report", since=now())
    rtdb.set("/cron-jobs/digest", entry)
    attend(rtdb, "digest", "report")
    page = Page()
    assert [row["job"] for row in page.get("/api/jobs").body["jobs"]] == ["digest", "report"]
    assert page.get("/health").body["status"] in ("ok", "failing")
    shown = page.get("/api/jobs/digest").body
    assert 1 <= len(shown["next"]) <= 10
    assert page.get("/api/jobs/digest/strip").status == 200


@pytest.mark.parametrize("root", ["cron-jobs", "cron-locks"])
def test_a_value_in_place_of_all_nodes_is_told(rtdb: Rtdb, root: str) -> None:
    """Where a text stands instead of the nodes, the reply says which node it is and what to do."""
    rtdb.set(f"/{root}", "text")
    reply = Page().get("/api/jobs")
    assert reply.said == (500, "malformed")
    assert root in reply.body["message"]


# --- a database that is away


def test_a_pause_that_the_database_asks_for_is_passed_on(rtdb: Rtdb) -> None:
    """A program that asks the page for its data can come back when the database wants to be asked again."""
    with rtdb.faults.answer(429, headers={"Retry-After": "40"}, times=None):
        reply = Page(settings={"request_timeout": 0.5, "acquire_timeout": 1.0}).get("/api/jobs")
    assert (reply.said, reply.headers["retry-after"]) == ((503, "unavailable"), "40")


@pytest.mark.parametrize(
    "path", ["/api/jobs", "/api/jobs/digest", "/api/jobs/digest/strip", "/api/instances", "/api/acts"]
)
def test_a_database_that_is_away_is_told_and_comes_back(rtdb: Rtdb, path: str) -> None:
    """Without the database a reply is 503, and says so; the page itself is served all the same."""
    declare(rtdb, "digest")
    page = Page(settings={"request_timeout": 0.5, "acquire_timeout": 1.0})
    with rtdb.faults.answer(503, times=None):
        reply = page.get(path)
        assert (reply.said, reply.headers["retry-after"]) == ((503, "unavailable"), "5")
        assert page.get("/").status == 200
        health = page.get("/health")
        assert (health.status, health.body["status"]) == (503, "unknown")
    assert Page().get(path).status == 200


def test_rules_that_refuse_are_told(rtdb: Rtdb) -> None:
    """Where the rules let this user read nothing, the reply says so."""
    rtdb.set_rules({"rules": {".read": False, ".write": False}})
    assert Page(settings={"uid": "nobody"}).get("/api/jobs").said == (500, "denied")
