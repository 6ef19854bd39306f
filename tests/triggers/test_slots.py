"""What a trigger runs, and what it answers: ticks, retries, runs by hand, and everything that stands in the way."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from tests.page.paging import Reply, Shell, asgi_call
from tests.simulation.instance import go_on
from tests.triggers.triggering import HEADER, NINE, TEN, Fleet, Gate, Instance, aside

from firecron import Run, Stopping
from firecron.base.instants import to_text
from rtdb_emulator.pytest_plugin import Rtdb

LOCK = "/cron-locks/digest"
RUNS = "/cron-runs/digest"

# For a database that is down: it needn't be waited for.
IMPATIENT: dict[str, Any] = {"acquire_timeout": 0.3, "request_timeout": 0.3, "release_timeout": 0.3}


def boom(run: Run) -> None:
    raise ValueError("no mail today")


def entries(rtdb: Rtdb) -> dict[str, Any]:
    found = rtdb.get(RUNS)
    return found if isinstance(found, dict) else {}


def test_a_tick_is_claimed_once(rtdb: Rtdb, shell: Shell) -> None:
    """The time in Cloud Scheduler's header is claimed as the slot; a retry, here or on another instance, is told that
    it is done, and runs nothing.
    """
    fleet = Fleet()
    one, two = fleet.instance(shell), fleet.instance(shell)
    first = one.post(NINE)
    assert first.said == (200, "succeeded")
    assert (first.body["slot"], first.body["run"], first.body["job"]) == (NINE, f"digest:{NINE}", "digest")
    assert first.headers["content-type"] == "application/json"
    assert [instance.post(NINE).said for instance in (one, two)] == [(200, "already_done")] * 2
    assert two.post(TEN).said == (200, "succeeded")
    assert fleet.slots() == [NINE, TEN]
    lock: Any = rtdb.get(LOCK)
    assert (lock["slot"], lock["outcome"]) == (TEN, "succeeded")
    assert [(entries(rtdb)[slot]["trigger"], entries(rtdb)[slot]["outcome"]) for slot in (NINE, TEN)] == [
        ("http", "succeeded"),
        ("http", "succeeded"),
    ]


def test_a_failed_tick_is_500_on_every_retry(rtdb: Rtdb, shell: Shell) -> None:
    """A failed job is 500, also on the retries for its slot, also when a later slot was claimed since or the history
    is gone; it isn't run again.
    """
    fleet = Fleet(body=boom)
    one, two = fleet.instance(shell), fleet.instance(shell)
    first = one.post(NINE)
    assert first.said == (500, "failed")
    assert "no mail today" in first.body["message"]
    assert two.post(NINE).said == (500, "failed")
    rtdb.set(RUNS, None)
    assert two.post(NINE).said == (500, "failed")
    fleet.body = lambda run: None
    assert one.post(TEN).said == (200, "succeeded")
    rtdb.set(f"{RUNS}/{NINE}", {"outcome": "failed", "attempt": 1})
    assert one.post(NINE).said == (500, "failed")
    assert fleet.slots() == [NINE, TEN]


def test_a_node_that_is_spoilt_after_the_refusal_leaves_the_history(rtdb: Rtdb, shell: Shell) -> None:
    """A hand that spoils the job's node while a retry is answered doesn't change what the history says."""
    one = Fleet(body=boom).instance(shell)
    one.post(NINE)
    one.crons.events.subscribe(lambda event: rtdb.set(LOCK, "spoilt") if event.slug == "lock.refused" else None)
    assert one.post(NINE).said == (500, "failed")
    assert rtdb.get(LOCK) == "spoilt"


@pytest.mark.parametrize("is_here", [True, False], ids=["same instance", "another"])
def test_a_retry_while_the_first_attempt_runs_is_told_so(rtdb: Rtdb, shell: Shell, is_here: bool) -> None:
    """The retry of a tick that still runs is 200, running; another tick of the job meanwhile is 200, held."""
    authenticator = Gate()
    fleet = Fleet(body=authenticator)
    one = fleet.instance(shell)
    other = one if is_here else fleet.instance(shell)
    with aside(lambda: one.post(NINE)) as first:
        authenticator.wait()
        during = [other.post(NINE), other.post(TEN), other.post()]
        authenticator.open()
    assert [reply.said for reply in during] == [(200, "running"), (200, "held"), (200, "held")]
    assert [reply.said for reply in first] == [(200, "succeeded")]
    assert fleet.slots() == [NINE]


@pytest.mark.parametrize("header", [None, "", "  ", "9999-01-01T00:00:00Z"], ids=["none", "empty", "blank", "future"])
def test_without_a_tick_that_has_come_it_is_a_run_by_hand(rtdb: Rtdb, shell: Shell, header: str | None) -> None:
    """A missing header, or a time that is still to come, is a manual run: each call runs, and no slot is claimed."""
    fleet = Fleet()
    one = fleet.instance(shell)
    replies = [one.post(header) for _ in range(2)]
    assert [(reply.said, reply.body["slot"]) for reply in replies] == [((200, "succeeded"), None)] * 2
    assert fleet.slots() == [None, None]
    lock: Any = rtdb.get(LOCK)
    assert "slot" not in lock
    assert [(entry["trigger"], "slot" in entry) for entry in entries(rtdb).values()] == [("http", False)] * 2
    assert {reply.body["run"] for reply in replies} == {run.idempotency_key for run in fleet.runs}


def test_a_failed_run_by_hand_is_500(rtdb: Rtdb, shell: Shell) -> None:
    """Without a tick, a job that fails is 500 too."""
    assert Fleet(body=boom).instance(shell).post().said == (500, "failed")


@pytest.mark.parametrize(
    ("header", "slot"),
    [("2020-01-05T09:00:00.123456789Z", NINE), ("2020-01-05T04:00:00-05:00", NINE), ("2020-01-05t09:00:00z", NINE)],
)
def test_the_header_is_rfc_3339(rtdb: Rtdb, shell: Shell, header: str, slot: str) -> None:
    """Fractions of up to nine digits are cut off, and offsets are understood."""
    fleet = Fleet()
    assert fleet.instance(shell).post(header).body["slot"] == slot
    assert fleet.slots() == [slot]


@pytest.mark.parametrize(
    "header", ["soon", "2020-01-05", "2020-01-05T09:00:00", "2020-13-05T09:00:00Z", "1578214800", "2020W017T090000Z"]
)
def test_a_header_that_is_no_time_is_refused(rtdb: Rtdb, shell: Shell, header: str) -> None:
    """It is 400 with a WARNING, and nothing runs: as a manual run it would come on top of the tick that was meant."""
    one = Fleet().instance(shell)
    reply = one.post(header)
    assert reply.said == (400, "bad_request")
    assert header in reply.body["message"]
    assert [event.level for event in one.said("trigger.unreadable")] == [logging.WARNING]
    assert rtdb.get() is None


def test_two_headers_are_none(rtdb: Rtdb) -> None:
    """A header that is there twice says two things, so it is 400."""
    one = Fleet().instance("asgi")
    assert asgi_call(one.app, "POST", "/digest", [(HEADER, NINE), (HEADER, TEN)]).status == 400
    assert rtdb.get() is None


@pytest.mark.parametrize(("slot", "warnings"), [(NINE, 0), ("2020-01-05T09:00:01Z", 1)])
@pytest.mark.parametrize(
    ("line", "options", "remedy"),
    [
        ("0 9 * * *", {}, "give Cloud Scheduler the same line and time zone"),
        (None, {"every": 1800}, "give Cloud Scheduler a line that has the same ticks"),
    ],
)
def test_a_tick_off_the_schedule_is_claimed_with_a_warning(
    rtdb: Rtdb, shell: Shell, line: str | None, options: dict[str, Any], remedy: str, slot: str, warnings: int
) -> None:
    """A slot that the job's schedule doesn't have, a line or `every`, is claimed all the same, and said."""
    fleet = Fleet(options, line)
    one = fleet.instance(shell)
    assert one.post(slot).said == (200, "succeeded")
    assert fleet.slots() == [slot]
    said = [(event.level, remedy in event.message) for event in one.said("trigger.off_schedule")]
    assert said == [(logging.WARNING, True)] * warnings


def server_now(instance: Instance) -> int:
    locks = instance.crons.locks
    return locks.clock.now(locks.deadline(5)).server


def test_a_tick_that_is_ahead_by_the_margin_is_a_tick(rtdb: Rtdb, shell: Shell) -> None:
    """For Cloud Scheduler a tick may have begun that for RTDB is to come in less than the margin: as a run by hand it
    would run once more by its own.
    """
    fleet = Fleet(line="* * * * * *")
    one = fleet.instance(shell, margin=5)
    due = to_text(server_now(one) + 2_000)
    assert one.post(due).body["slot"] == due
    assert one.post(due).said == (200, "already_done")
    assert fleet.slots() == [due]


@pytest.mark.parametrize("winner", ["tick", "trigger"])
def test_a_tick_and_a_trigger_at_the_same_instant_are_one_run(rtdb: Rtdb, shell: Shell, winner: str) -> None:
    """Whichever's write comes first runs the tick, and the other one, which saw the lock free, doesn't."""
    fleet = Fleet(line="* * * * * *")
    ticking, triggered = fleet.instance(shell), fleet.instance(shell)
    server_now(ticking)
    due = to_text(server_now(triggered))
    engine, job = ticking.crons.engine, ticking.crons.registry.get("digest")
    calls: dict[str, Callable[[], object]] = {
        "tick": lambda: go_on(engine, engine.lanes.attempt(job, due)) or "done",
        "trigger": lambda: triggered.post(due),
    }
    (loser,) = calls.keys() - {winner}
    hold = rtdb.faults.hold(method="PUT", path=LOCK)
    with aside(calls[loser]) as late:
        hold.wait()
        early = calls[winner]()
        hold.release()
    assert fleet.slots() == [due]
    assert [entry["trigger"] for entry in entries(rtdb).values()] == ["http" if winner == "trigger" else "schedule"]
    (reply,) = [reply for reply in [early, *late] if isinstance(reply, Reply)]
    assert reply.said == (200, "succeeded" if winner == "trigger" else "already_done")


def test_a_real_ticker_and_triggers_share_the_ticks(rtdb: Rtdb) -> None:
    """While one instance ticks every second and another is triggered for the same ticks, each runs once."""
    fleet = Fleet(line="* * * * * *")
    ticking, triggered = fleet.instance(enabled=True), fleet.instance()
    asked = threading.Event()
    ticking.crons.events.subscribe(lambda event: asked.set() if event.slug == "run.started" else None)
    with ticking.crons:
        replies = [triggered.post(to_text(server_now(triggered) + ahead * 1_000)) for ahead in (0, 1)]
        assert asked.wait(20)
        replies.append(triggered.post(to_text(server_now(triggered))))
    assert max(Counter(fleet.slots()).values()) == 1
    assert [reply.status for reply in replies] == [200] * 3


def pause_node(rtdb: Rtdb, one: Instance) -> None:
    rtdb.set(LOCK, {"paused": True})


def spoil_node(rtdb: Rtdb, one: Instance) -> None:
    rtdb.set(LOCK, {"expiresAt": "soon"})


def pause_here(rtdb: Rtdb, one: Instance) -> None:
    one.crons.registry.pause("digest")


def break_off(rtdb: Rtdb, one: Instance) -> None:
    rtdb.faults.answer(503, times=None)


def break_off_after_the_clock(rtdb: Rtdb, one: Instance) -> None:
    one.crons.locks.clock.synchronise(one.crons.locks.deadline(20))
    rtdb.faults.answer(503, times=None)


WAYS: dict[str, tuple[Callable[[Rtdb, Instance], None], int, str, int, str]] = {
    "paused by an operator": (pause_node, 200, "paused", 200, "paused"),
    "paused on this instance": (pause_here, 200, "paused", 200, "succeeded"),
    "malformed": (spoil_node, 500, "malformed", 500, "malformed"),
    "down": (break_off, 503, "unavailable", 503, "unavailable"),
    "down, with the time known": (break_off_after_the_clock, 503, "unavailable", 503, "unavailable"),
}


@pytest.mark.parametrize(("prepare", "status", "result", "by_hand", "result_by_hand"), WAYS.values(), ids=WAYS)
def test_what_stands_in_the_way_is_answered(
    rtdb: Rtdb,
    shell: Shell,
    prepare: Callable[[Rtdb, Instance], None],
    status: int,
    result: str,
    by_hand: int,
    result_by_hand: str,
) -> None:
    """A pause is 200, a database that is down 503 with a time to try again, a node that can't be read 500; an
    instance's own pause is for ticks, not for runs by hand.
    """
    fleet = Fleet()
    one = fleet.instance(shell, **(IMPATIENT if result == "unavailable" else {}))
    prepare(rtdb, one)
    reply = one.post(NINE)
    assert (reply.said, reply.body["slot"]) == ((status, result), NINE)
    assert ("retry-after" in reply.headers) == (status == 503)
    assert one.post().said == (by_hand, result_by_hand)
    assert fleet.slots() == ([None] if result_by_hand == "succeeded" else [])


def test_a_database_that_denies_is_500(rtdb: Rtdb, shell: Shell) -> None:
    """Rules or credentials that refuse are for a person to mend, and another try would be told the same."""
    one = Fleet().instance(shell)
    rtdb.faults.answer(401, body=b'{"error": "Permission denied"}', times=None)
    assert one.post(NINE).said == (500, "denied")
    assert one.post().said == (500, "denied")


@pytest.mark.parametrize(
    ("on_abandoned", "first", "retry"),
    [("skip", (500, "interrupted"), (500, "interrupted")), ("rerun", (503, "interrupted"), (200, "succeeded"))],
)
def test_a_run_that_a_shutdown_ended_is_tried_again_if_it_may_be(
    rtdb: Rtdb, shell: Shell, on_abandoned: str, first: tuple[int, str], retry: tuple[int, str]
) -> None:
    """With rerun it is 503, and the retry runs the tick on another instance; else it is 500, now and on the retry."""

    def stop(run: Run) -> None:
        raise Stopping

    fleet = Fleet({"on_abandoned": on_abandoned}, body=stop)
    one, two = fleet.instance(shell), fleet.instance(shell)
    assert one.post(NINE).said == first
    fleet.body = lambda run: None
    assert two.post(NINE).said == retry
    assert [run.attempt for run in fleet.runs] == ([1, 2] if on_abandoned == "rerun" else [1])


def test_an_instance_that_stops_serves_no_more(rtdb: Rtdb, shell: Shell) -> None:
    """Once the instance stops, a trigger is 503: another one may take it."""
    one = Fleet().instance(shell)
    one.crons.stop()
    assert one.post(NINE).said == (503, "stopping")
    assert one.post().said == (503, "stopping")
    assert rtdb.get(LOCK) is None


@pytest.mark.parametrize("options", [{"once_per_tick": False}, {"overlap": "allow"}])
def test_jobs_of_other_kinds_are_triggered(rtdb: Rtdb, shell: Shell, options: dict[str, Any]) -> None:
    """A job that claims no ticks runs at each call; one that may overlap claims its tick without a lease."""
    fleet = Fleet(options)
    one = fleet.instance(shell)
    assert one.post(NINE).said == (200, "succeeded")
    again = one.post(NINE).said
    assert again == (200, "succeeded" if "once_per_tick" in options else "already_done")
    assert one.post().said == (200, "succeeded")


@pytest.mark.parametrize(
    ("options", "method", "header", "said", "slot"),
    [
        ({"role": "mail"}, "POST", NINE, (404, "elsewhere"), None),
        ({"disabled": True}, "POST", NINE, (200, "disabled"), None),
        ({}, "POST", NINE, (200, "paused"), NINE),
        ({}, "POST", "soon", (400, "bad_request"), None),
        ({}, "PUT", NINE, (405, "method_not_allowed"), None),
    ],
)
def test_every_answer_names_its_job(
    rtdb: Rtdb, shell: Shell, options: dict[str, Any], method: str, header: str, said: tuple[int, str], slot: str | None
) -> None:
    """Whatever the answer about a job, its body names the job, and the tick where one was to run."""
    one = Fleet(options).instance(shell)
    one.crons.registry.pause("digest")
    reply = one.call(method, "/digest", {HEADER: header})
    assert (reply.said, reply.body["job"], reply.body["slot"]) == (said, "digest", slot)


def test_a_job_that_is_not_there_is_said_to_be(rtdb: Rtdb, shell: Shell) -> None:
    """The message names the job that was asked for."""
    reply = Fleet().instance(shell).call("POST", "/other", {HEADER: NINE})
    assert reply.said == (404, "unknown_job")
    assert "there is no job 'other'" in reply.body["message"]


def test_a_job_that_interrupts_itself_has_failed(rtdb: Rtdb) -> None:
    """A KeyboardInterrupt of the job's own, on a worker, is a failure of its tick and ends no server."""

    def interrupt(run: Run) -> None:
        raise KeyboardInterrupt

    reply = Fleet(body=interrupt).instance().post(NINE)
    assert (reply.said, reply.body["job"], reply.body["slot"]) == ((500, "failed"), "digest", NINE)
