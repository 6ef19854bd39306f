"""What a POST does: each act changes what it names, if it is still what the visitor saw, and says who did it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from tests.cli import schemas
from tests.page.paging import ACTING, WHO, Page, Shell, attend, declare, declare_live, now, until
from tests.triggers.triggering import aside

from firecron import Run, distributed_cron
from firecron.base.instants import to_datetime, to_text
from firecron.lock.lease import Lease
from rtdb_emulator.pytest_plugin import Rtdb

SLOT = "2026-11-18T09:00:00Z"
DIGEST = "/api/jobs/digest"


def acts(page: Page) -> list[tuple[str, str, str, str | None]]:
    found = page.get("/api/acts").body["acts"]
    jsonschema.validate({"acts": found}, schemas.ACTS)
    return [(act["act"], act["name"], act["who"], act["why"]) for act in reversed(found)]


def jobs(bodies: list[Run], fails: bool = False) -> Callable[..., object]:
    @distributed_cron("digest", "0 9 * * *", lock_ttl=30)
    def digest(run: Run) -> None:
        bodies.append(run)
        if fails:
            raise RuntimeError("the feed is down, password=hunter2")

    return digest


# --- run


def test_a_run_is_answered_when_it_has_ended(rtdb: Rtdb, shell: Shell) -> None:
    """A run by hand runs here, under its lock; the reply has its outcome, and the audit log who it was."""
    runs: list[Run] = []
    page = Page(jobs(runs), shell=shell, **ACTING)
    reply = page.post(f"{DIGEST}/run", {"why": "to see"})
    [run] = runs
    said = {"job": "digest", "slot": None, "result": "succeeded", "message": '"digest" succeeded'}
    assert (reply.status, reply.body) == (200, {**said, "run": run.idempotency_key})
    assert run.trigger == "manual"
    until(lambda: bool(acts(Page())), "the act")
    assert acts(Page()) == [("run", "digest", WHO, "to see")]


def test_an_async_run_is_an_act_as_well(rtdb: Rtdb, shell: Shell) -> None:
    """Wherever the job's body runs, the run begins on the thread of the request, and is recorded once."""

    @distributed_cron("digest", "0 9 * * *", lock_ttl=30)
    async def digest() -> None: ...

    page = Page(digest, shell=shell, **ACTING)
    assert page.post(f"{DIGEST}/run").body["result"] == "succeeded"
    until(lambda: bool(acts(Page())), "the act")
    assert acts(Page()) == [("run", "digest", WHO, None)]


def test_a_run_that_fails_is_told_without_its_secrets(rtdb: Rtdb, shell: Shell) -> None:
    """The reply says why a run has failed, as the history does."""
    reply = Page(jobs([], fails=True), shell=shell, **ACTING).post(f"{DIGEST}/run")
    assert (reply.status, reply.body["result"]) == (200, "failed")
    assert "the feed is down" in reply.body["message"]
    assert "hunter2" not in reply.body["message"]


@pytest.mark.parametrize("error", [KeyboardInterrupt("no"), SystemExit(3)], ids=lambda error: type(error).__name__)
def test_a_job_that_wants_to_end_the_program_fails(rtdb: Rtdb, shell: Shell, error: BaseException) -> None:
    """What a job raises on a thread of the server's is its failure, and ends no server."""

    @distributed_cron("digest", "0 9 * * *", lock_ttl=30)
    def digest() -> None:
        raise error

    page = Page(digest, shell=shell, **ACTING)
    with aside(lambda: page.post(f"{DIGEST}/run")) as replies:
        pass
    assert (replies[0].status, replies[0].body["result"]) == (200, "failed")
    assert type(error).__name__ in replies[0].body["message"]


def test_a_tick_is_resumed(rtdb: Rtdb) -> None:
    """`resume` runs a tick once more, as its next attempt."""
    runs: list[Run] = []
    page = Page(jobs(runs, fails=True), **ACTING)
    page.crons.registry.trigger("digest", slot=to_datetime(SLOT))
    reply = page.post(f"{DIGEST}/run", {"resume": SLOT})
    assert (reply.status, reply.body["slot"], reply.body["result"]) == (200, SLOT, "failed")
    assert [(run.attempt, run.slot) for run in runs] == [(1, to_datetime(SLOT)), (2, to_datetime(SLOT))]
    later = page.post(f"{DIGEST}/run", {"resume": "2026-11-18T10:00:00Z"})
    assert later.said == (409, "slot_done")
    assert later.body["message"].startswith('"digest" is not resumed: the history has no run of 2026-11-18T10:00:00Z')


def test_a_tick_that_was_missed_is_claimed(rtdb: Rtdb, shell: Shell) -> None:
    """`slot` runs it as its own; who comes second is told so in the page's words, and nothing runs."""
    runs: list[Run] = []
    page = Page(jobs(runs), shell=shell, **ACTING)
    reply = page.post(f"{DIGEST}/run", {"slot": SLOT})
    assert (reply.status, reply.body["slot"], reply.body["result"]) == (200, SLOT, "succeeded")
    assert rtdb.get("/cron-locks/digest/slot") == SLOT
    late = page.post(f"{DIGEST}/run", {"slot": SLOT})
    assert late.said == (409, "slot_done")
    said = "digest was not run: somebody was faster: that tick, or a later one, is claimed already"
    assert late.body["message"] == said
    assert late.body["remedy"]["command"] == "firecron runs digest"
    assert [run.slot for run in runs] == [to_datetime(SLOT)]


@pytest.mark.parametrize("body", [{"slot": "2026-11-18T09:30:00Z"}, {"slot": "now"}, {"slot": SLOT, "resume": SLOT}])
def test_what_is_no_tick_is_not_claimed(rtdb: Rtdb, body: dict[str, str]) -> None:
    """A slot that the schedule doesn't have is refused, and a run is of one tick."""
    runs: list[Run] = []
    assert Page(jobs(runs), **ACTING).post(f"{DIGEST}/run", body).said == (400, "bad_request")
    assert (runs, rtdb.get("/cron-locks")) == ([], None)


HOLDING = {"expiresAt": 9_000_000_000_000, "holder": "other", "fence": 1, "unfinished": SLOT, "slot": SLOT}


@pytest.mark.parametrize(
    ("node", "reason", "why", "act"),
    [
        ({"paused": True}, "paused", "it is paused", "resume"),
        (
            {"acquiredAt": 1, **HOLDING, "instanceId": "api"},
            "held",
            f"the run of {SLOT} on api has not ended",
            "unlock",
        ),
        ("text", "malformed", "nobody can claim its node", "mend"),
    ],
)
def test_a_refused_run_says_why(rtdb: Rtdb, node: object, reason: str, why: str, act: str) -> None:
    """A job that is paused, held or malformed is not run, and the reply is 409 with the reason in the page's words, and
    with what to do. What was not done is no act.
    """
    runs: list[Run] = []
    rtdb.set("/cron-locks/digest", node)
    page = Page(jobs(runs), **ACTING)
    reply = page.post(f"{DIGEST}/run")
    assert (reply.status, reply.body["result"], runs) == (409, reason, [])
    assert reply.body["message"] == f"digest was not run: {why}"
    assert reply.body["remedy"]["act"] == act
    assert page.post(f"{DIGEST}/run", {"resume": "2026-11-18T09:00:00Z-manual-x"}).status == 400
    for thread in threading.enumerate():
        if thread.name == "firecron-act":
            thread.join(20)
    assert rtdb.get("/cron-acts") is None


@pytest.mark.parametrize("options", [{"role": "mailer"}, {"disabled": True}, None])
def test_what_this_process_cannot_run_is_asked_for(rtdb: Rtdb, options: dict[str, Any] | None) -> None:
    """Without the code, without the role, or disabled here: the instances that have the job are asked, and the page
    shows who has asked. Another one that asks is told so, and no run is offered meanwhile.
    """
    declare_live(rtdb, "digest")
    made = [] if options is None else [distributed_cron("digest", "0 9 * * *", **options)(lambda: None)]
    page = Page(*made, **ACTING)
    shown = page.get(DIGEST).body
    assert (shown["runnable"], shown["why_not_runnable"]) == (True, None)
    reply = page.post(f"{DIGEST}/run", {"why": "late feed"})
    assert reply.status == 202
    node = rtdb.get("/cron-asks/digest")
    assert isinstance(node, dict)
    assert {**node, "at": 0} == {"id": node["id"], "at": 0, "by": WHO, "why": "late feed", "kind": "run"}
    assert reply.body["ask"]["id"] == node["id"]
    assert reply.body["message"] == "a run of digest is asked for"
    [row] = [row for row in page.get("/api/jobs").body["jobs"] if row["job"] == "digest"]
    assert (row["ask"]["id"], row["ask"]["by"]) == (node["id"], WHO)
    assert "run" not in row["acts"]
    again = page.post(f"{DIGEST}/run", {})
    assert again.said == (409, "asked")
    assert WHO in again.body["message"]
    shown = page.get(DIGEST).body
    assert (shown["runnable"], WHO in shown["why_not_runnable"]) == (False, True)
    assert acts(page) == [("ask", "digest", WHO, "late feed")]


@pytest.mark.parametrize(
    ("fields", "node", "body", "word"),
    [
        ({"ticks": False}, None, {}, "no_ticks"),
        ({"disabled": True}, None, {}, "disabled"),
        ({}, {"paused": True}, {}, "paused"),
        ({}, "text", {}, "malformed"),
        ({"since": 1}, {"slot": SLOT, "expiresAt": 1, "releasedAt": 1}, {"slot": SLOT}, "slot_done"),
        ({}, None, {"slot": "2099-01-01T09:00:00Z"}, "slot_early"),
        ({}, None, {"slot": "2026-01-01T09:00:01Z"}, "bad_request"),
        ({}, None, {"resume": "2026-01-01T09:00:00Z-manual-x"}, "bad_request"),
        ({"once_per_tick": False}, None, {"resume": SLOT}, "no_steps"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_nobody_could_run_is_not_asked_for(
    rtdb: Rtdb, fields: dict[str, Any], node: object, body: dict[str, str], word: str
) -> None:
    """The reply says why, and nothing is written: no instance runs what only a trigger runs, or what is paused."""
    declare(rtdb, "digest", **fields)
    rtdb.set("/cron-locks/digest", node)
    page = Page(**ACTING)
    assert page.post(f"{DIGEST}/run", body).said == (400 if word == "bad_request" else 409, word)
    assert rtdb.get("/cron-asks") is None
    assert acts(page) == []


def test_an_ask_that_nobody_can_take_says_so(rtdb: Rtdb) -> None:
    """Without a live instance it is asked for nevertheless: one may come within five minutes."""
    declare(rtdb, "digest")
    reply = Page(**ACTING).post(f"{DIGEST}/run")
    assert reply.status == 202
    assert reply.body["message"] == "a run of digest is asked for; but no live instance has it now"
    assert Page(**ACTING).post("/api/jobs/nobody/run").status == 404


def test_a_run_goes_on_although_others_look(rtdb: Rtdb) -> None:
    """While a run is under way the page is served, and shows it at once; a second run of the job is refused."""
    begun, opened = threading.Event(), threading.Event()

    @distributed_cron("digest", "0 9 * * *", lock_ttl=30)
    def digest() -> None:
        begun.set()
        assert opened.wait(20)

    declare(rtdb, "digest")
    page = Page(digest, **ACTING)
    assert page.get("/api/jobs").body["jobs"][0]["lock"] is None
    assert page.get(DIGEST).body["lock"] is None
    with aside(lambda: page.post(f"{DIGEST}/run")) as replies:
        assert begun.wait(20)
        assert page.get("/api/jobs").body["jobs"][0]["lock"]["state"] == "held"
        assert page.get(DIGEST).body["lock"]["state"] == "held"
        assert page.post(f"{DIGEST}/run").body["result"] == "held"
        assert Page().get("/api/jobs").status == 200
        opened.set()
    assert replies[0].body["result"] == "succeeded"


# --- pause and resume


def test_a_pause_says_who_and_until_when(rtdb: Rtdb, shell: Shell) -> None:
    """The node has the pause with its reason and its end; a resume takes it away; both are in the audit log."""
    declare(rtdb, "digest")
    page = Page(shell=shell, **ACTING)
    later = to_text(now() + 3_600_000)
    reply = page.post(f"{DIGEST}/pause", {"why": "the feed is down", "until": later})
    assert (reply.status, later in reply.body["message"]) == (200, True)
    node: Any = rtdb.get("/cron-locks/digest")
    assert (node["paused"], node["pausedBy"], node["pausedWhy"]) == (True, WHO, "the feed is down")
    assert to_text(node["pausedUntil"]) == later
    shown = page.get(DIGEST).body["lock"]
    assert (shown["paused"], shown["pausedBy"], shown["pausedUntil"]) == (True, WHO, later)
    assert page.post(f"{DIGEST}/resume").status == 200
    assert rtdb.get("/cron-locks/digest/paused") is None
    assert "nothing was changed" in page.post(f"{DIGEST}/resume").body["message"]
    assert acts(page) == [("pause", "digest", WHO, "the feed is down"), ("resume", "digest", WHO, None)]


def test_a_pause_that_is_over_can_be_removed(rtdb: Rtdb) -> None:
    """Older versions and rules stay paused by what a pause has left behind, until it is resumed."""
    declare(rtdb, "digest")
    rtdb.set("/cron-locks/digest", {"paused": True, "pausedUntil": now() - 1000})
    assert Page(**ACTING).post(f"{DIGEST}/resume").body == {"message": "digest is resumed"}
    assert rtdb.get("/cron-locks/digest/paused") is None


@pytest.mark.parametrize(
    "body",
    [{"until": "2020-01-01T00:00:00Z"}, {"until": "tomorrow"}, {"until": 5}, {"why": ["a"]}, {"why": "x" * 501}],
    ids=lambda body: str(body)[:30],
)
def test_a_pause_that_means_nothing_changes_nothing(rtdb: Rtdb, body: dict[str, object]) -> None:
    """An end that is over or no instant, and a reason that is no text or too long, are 400."""
    declare(rtdb, "digest")
    page = Page(**ACTING)
    assert page.post(f"{DIGEST}/pause", body).said == (400, "bad_request")
    assert rtdb.get("/cron-locks/digest") is None
    assert acts(page) == []


# --- unlock and cancel


def hold(page: Page, **options: Any) -> Lease:
    lease = page.crons.locks.acquire("digest", 30, fenced=True, **options)
    assert isinstance(lease, Lease)
    return lease


def test_an_unlock_frees_what_was_seen(rtdb: Rtdb, shell: Shell) -> None:
    """The lock that the visitor saw is freed; one that was taken since is not."""
    page = Page(shell=shell, **ACTING)
    hold(page)
    node: Any = rtdb.get("/cron-locks/digest")
    stale = page.post(f"{DIGEST}/unlock", {"acquiredAt": to_text(node["acquiredAt"] - 60_000)})
    assert stale.said == (409, "changed")
    assert rtdb.get("/cron-locks/digest/expiresAt") != 0
    assert page.post(f"{DIGEST}/unlock", {"acquiredAt": to_text(node["acquiredAt"]), "why": "it is dead"}).status == 200
    assert rtdb.get("/cron-locks/digest/expiresAt") == 0
    assert "free already" in page.post(f"{DIGEST}/unlock").body["message"]
    assert acts(page) == [("unlock", "digest", WHO, "it is dead")]


def test_a_cancel_asks_the_run_that_was_seen(rtdb: Rtdb, shell: Shell) -> None:
    """The holder with the fence that the visitor saw is asked to end; a later one is not."""
    page = Page(shell=shell, **ACTING)
    lease = hold(page)
    node: Any = rtdb.get("/cron-locks/digest")
    rtdb.set("/cron-locks/digest/renews", None)  # as a lease that is renewed
    assert page.post(f"{DIGEST}/cancel", {"fence": (lease.fence or 0) + 1}).said == (409, "changed")
    assert "cancel" not in node
    reply = page.post(f"{DIGEST}/cancel", {"fence": lease.fence, "why": "wrong file"})
    assert reply.status == 200, reply.body
    node = rtdb.get("/cron-locks/digest")
    assert (node["cancel"], node["cancelWhy"]) == (lease.fence, "wrong file")
    assert "already" in page.post(f"{DIGEST}/cancel", {"fence": lease.fence}).body["message"]
    assert acts(page) == [("cancel", "digest", WHO, "wrong file")]


def test_a_leader_steps_down(rtdb: Rtdb) -> None:
    """The cancel of a leader's term is in the audit log as what it is."""
    at = now()
    term = {"kind": "leader", "acquiredAt": at, "expiresAt": at + 30_000, "fence": at, "holder": "somebody"}
    rtdb.set("/cron-locks/queue", term)
    page = Page(**ACTING)
    reply = page.post("/api/jobs/queue/cancel", {"fence": at})
    assert (reply.status, "the term" in reply.body["message"]) == (200, True)
    assert acts(page) == [("depose", "queue", WHO, None)]


def test_what_is_free_is_not_cancelled(rtdb: Rtdb) -> None:
    """A cancel of nothing is 409."""
    declare(rtdb, "digest")
    assert Page(**ACTING).post(f"{DIGEST}/cancel").said == (409, "not_cancelled")


# --- forget


def test_a_job_that_was_taken_out_is_forgotten(rtdb: Rtdb, shell: Shell) -> None:
    """Its entry is removed, and it is gone from the page at once; its lock and its history stay."""
    declare(rtdb, "digest")
    attend(rtdb, "other")
    rtdb.set("/cron-locks/digest", {"acquiredAt": 1, "expiresAt": 1, "releasedAt": 1, "slot": SLOT, "holder": "h"})
    rtdb.set(f"/cron-runs/digest/{SLOT}", {"outcome": "succeeded", "slot": SLOT})
    page = Page(shell=shell, **ACTING)
    [row] = page.get("/api/jobs").body["jobs"]
    assert (row["verdict"], row["acts"], row["remedy"]["act"]) == ("retired", ["forget"], "forget")
    reply = page.post(f"{DIGEST}/forget", {"why": "replaced by mails"})
    assert (reply.status, reply.body["message"]) == (200, "digest is forgotten; its lock and its history stay")
    assert page.get("/api/jobs").body["jobs"] == []
    assert rtdb.get("/cron-jobs") is None
    assert rtdb.get("/cron-locks/digest/slot") == rtdb.get(f"/cron-runs/digest/{SLOT}/slot") == SLOT
    assert acts(page) == [("forget", "digest", WHO, "replaced by mails")]


def test_a_job_that_lives_is_not_forgotten(rtdb: Rtdb) -> None:
    """Its program would declare it again; the reply names the program."""
    declare_live(rtdb, "digest")
    reply = Page(**ACTING).post(f"{DIGEST}/forget")
    assert reply.said == (409, "live")
    assert reply.body["message"].startswith("digest was not forgotten: live instances of shop have it")
    assert rtdb.get("/cron-jobs/digest/line") == "0 9 * * *"


def test_a_job_that_comes_back_is_not_forgotten(rtdb: Rtdb) -> None:
    """An entry that is written between the look and the deletion stays."""
    declare(rtdb, "digest")
    page = Page(**ACTING)
    with (
        rtdb.faults.hold(path="/cron-jobs/digest", method="DELETE") as deletion,
        aside(lambda: page.post(f"{DIGEST}/forget")) as replies,
    ):
        deletion.wait(20)
        rtdb.set("/cron-jobs/digest/grace", 5)
        deletion.release()
    assert replies[0].said == (409, "changed")
    assert rtdb.get("/cron-jobs/digest/grace") == 5


# --- mute


def test_a_mute_is_shown_and_taken_back(rtdb: Rtdb, shell: Shell) -> None:
    """The row says who has muted it until when and why, and offers the way back; `/health` is silent until then."""
    declare(rtdb, "digest", since=now())
    page = Page(shell=shell, **ACTING)
    end = to_text(now() + 3_600_000)
    assert (page.get("/health").status, page.get("/api/jobs").body["jobs"][0]["acts"][-1]) == (503, "mute")
    assert page.post(f"{DIGEST}/mute", {"until": end, "why": "known"}).status == 200
    row = page.get("/api/jobs").body["jobs"][0]
    assert (row["muted"], row["verdict"]) == ({"until": end, "by": WHO, "why": "known"}, "unattended")
    assert row["acts"][-1] == "unmute"
    assert Page(**ACTING).get("/health").body["jobs"] == []
    assert page.post(f"{DIGEST}/unmute").status == 200
    assert page.get("/api/jobs").body["jobs"][0]["muted"] is None
    assert "nothing was changed" in page.post(f"{DIGEST}/unmute").body["message"]
    assert [(act, why) for act, _, _, why in acts(page)] == [("mute", "known"), ("unmute", None)]


@pytest.mark.parametrize(
    "body",
    [
        {"why": "known"},
        {"until": SLOT, "why": "known"},
        {"until": "2100-01-01T00:00:00Z"},
        {"until": 5, "why": "known"},
    ],
)
def test_a_mute_needs_its_end_and_its_reason(rtdb: Rtdb, body: dict[str, object]) -> None:
    """Nobody is silent for ever, or for no reason."""
    declare(rtdb, "digest", since=now())
    assert Page(**ACTING).post(f"{DIGEST}/mute", body).said == (400, "bad_request")
    assert rtdb.get("/cron-mutes") is None


# --- what is offered

BEFORE = 1_700_000_000_000
OLD = "2023-11-14T09:00:00Z"
FREE = {"acquiredAt": BEFORE, "expiresAt": BEFORE, "releasedAt": BEFORE, "holder": "h", "fence": BEFORE, "slot": OLD}
HELD = {"acquiredAt": now(), "expiresAt": now() + 3_600_000, "holder": "h", "fence": now(), "slot": SLOT}


@pytest.mark.parametrize(
    ("verdict", "node"),
    [
        ("ok", FREE),
        ("late", FREE),
        ("failing", {**FREE, "outcome": "failed", "failures": 1}),
        ("paused", {**FREE, "paused": True}),
        ("paused", {**HELD, "paused": True}),
        ("running", HELD),
        ("running", {**HELD, "renews": False}),
        ("running", {**HELD, "cancel": HELD["fence"]}),
        ("unattended", FREE),
    ],
)
def test_what_is_offered_is_not_refused(rtdb: Rtdb, verdict: str, node: dict[str, Any]) -> None:
    """Each act that a row offers is done, by a page that has the code of the job."""
    page = Page(jobs([]), **ACTING)

    def seen() -> Any:
        """The row of the job in that state."""
        rtdb.set("/", {"cron-runs": {"digest": {OLD: {"outcome": "failed", "slot": OLD, "attempt": 1}}}})
        declare(rtdb, "digest", since=BEFORE if verdict == "late" else now())
        attend(rtdb, *([] if verdict == "unattended" else ["digest"]), service="other")
        rtdb.set("/cron-locks/digest", node)
        page.crons.board.done(of_many=True)
        return page.get("/api/jobs").body["jobs"][0]

    for act in seen()["acts"]:
        row = seen()
        assert row["verdict"] == verdict
        path = {"pause_until": "pause"}.get(act, act.partition("_")[0])
        field = {"run_missed": "slot", "run_again": "resume"}.get(act)
        given = {"until": to_text(now() + 3_600_000), "why": "known"} if act == "mute" else {}
        reply = page.post(f"{DIGEST}/{path}", given if field is None else {field: row["remedy"]["tick"]})
        assert (act, reply.status) == (act, 200), reply.body
        assert "nothing was changed" not in reply.body["message"]


# --- what is there, and what is not


@pytest.mark.parametrize("act", ["run", "pause", "resume", "unlock", "cancel", "mute", "unmute", "forget"])
def test_a_name_that_nobody_knows_is_404(rtdb: Rtdb, act: str) -> None:
    """A misspelt name runs and pauses nothing: neither the catalogue nor the locks have it."""
    given = {"until": to_text(now() + 3_600_000), "why": "known"} if act == "mute" else {}
    assert Page(**ACTING).post(f"/api/jobs/digst/{act}", given).said == (404, "unknown_job")
    assert rtdb.get("/cron-locks") is None


@pytest.mark.parametrize("act", ["pause", "resume", "unlock", "cancel"])
def test_a_malformed_node_is_left_alone(rtdb: Rtdb, act: str) -> None:
    """A node that can't be understood is mended in the console, and the reply says so."""
    rtdb.set("/cron-locks/digest", "text")
    reply = Page(**ACTING).post(f"{DIGEST}/{act}")
    assert reply.said == (409, "malformed")
    assert "cron-locks/digest in the Firebase console" in reply.body["remedy"]["words"]
    assert rtdb.get("/cron-locks/digest") == "text"


@pytest.mark.parametrize("act", ["pause", "resume", "unlock", "cancel"])
def test_without_the_database_nothing_is_done(rtdb: Rtdb, act: str) -> None:
    """An act that could not be done is 503, and says so."""
    declare(rtdb, "digest")
    page = Page(settings={"request_timeout": 0.5, "acquire_timeout": 1.0}, **ACTING)
    with rtdb.faults.answer(503, times=None):
        assert page.post(f"{DIGEST}/{act}").said == (503, "unavailable")


def test_an_act_is_seen_at_once(rtdb: Rtdb) -> None:
    """What a visitor has done is in the very next reply, although looks are shared."""
    declare(rtdb, "digest", since=now())
    page = Page(**ACTING)
    assert page.get("/api/jobs").body["jobs"][0]["verdict"] == "unattended"
    page.post(f"{DIGEST}/pause")
    assert page.get("/api/jobs").body["jobs"][0]["verdict"] == "paused"
    assert page.get(DIGEST).body["job"]["verdict"] == "paused"
