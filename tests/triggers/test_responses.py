"""Triggers, what is decided without a request: statuses, what became of a tick, times, and who is let in."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from tests.simulation.world import NINE, START, slot
from tests.triggers.triggering import AUDIENCE, EMAIL

from firecron import ConfigurationError, FireCron, Run, Unavailable, distributed_cron
from firecron.base.events import Event, Events
from firecron.base.instants import to_datetime
from firecron.errors import Denied, Malformed, StoreError
from firecron.jobs.job import explore
from firecron.jobs.options import JobOptions
from firecron.jobs.run import Outcome
from firecron.lock.record import parse
from firecron.lock.refusal import Refusal
from firecron.testing import FakeTiming, MemoryStore
from firecron.triggers.access import CloudRunIam, OidcVerifier, choose_access
from firecron.triggers.handler import (
    Past,
    find_past,
    is_future,
    of_error,
    of_past,
    of_refusal,
    of_run,
    parse_schedule_time,
)

MARGIN = 1_000


def options(**given: Any) -> JobOptions:
    @distributed_cron("job", "* * * * *", **{"lock_ttl": 30, **given})
    def job() -> None: ...

    return explore(job)[0].options


@pytest.mark.parametrize(
    ("outcome", "skip", "rerun", "spent"),
    [
        ("succeeded", 200, 200, 200),
        ("failed", 500, 500, 500),
        ("lost", 500, 503, 500),
        ("interrupted", 500, 503, 500),
        ("cancelled", 200, 200, 200),
    ],
)
def test_a_run_is_answered_by_its_outcome(outcome: Outcome, skip: int, rerun: int, spent: int) -> None:
    """What was cut short is 503 if another try will run it again, which it won't without rerun or after the third."""

    def status(on_abandoned: str, attempt: int) -> int:
        run = Run("job", slot=to_datetime(START), attempt=attempt, fence=1, idempotency_key="k", trigger="http")
        answer = of_run(options(on_abandoned=on_abandoned), run, outcome, "said")
        assert (answer.body["result"], answer.body["run"], answer.body["slot"]) == (outcome, "k", NINE)
        assert ("Retry-After" in answer.headers) == (answer.status == 503)
        return answer.status

    assert (status("skip", 1), status("rerun", 2), status("rerun", 3)) == (skip, rerun, spent)


def test_a_run_by_hand_is_never_run_again() -> None:
    """A run without a slot that was cut short is 500: there is nothing to claim again."""
    run = Run("job", slot=None, attempt=1, fence=1, idempotency_key="k", trigger="http")
    assert of_run(options(on_abandoned="rerun"), run, "interrupted", "").status == 500


def record(**fields: object) -> dict[str, object]:
    """A job's record: claimed for nine, and live."""
    held = {"acquiredAt": START, "expiresAt": START + 30_000, "holder": "h", "attempt": 1, "slot": NINE}
    return {**held, "unfinished": NINE, **fields}


DONE = {"releasedAt": START, "expiresAt": START, "unfinished": None, "outcome": "succeeded"}

PASTS: dict[str, tuple[dict[str, object] | None, object, Past]] = {
    "runs": (record(), None, Past(None, is_running=True)),
    "runs, to the margin": (record(expiresAt=START - 999), None, Past(None, is_running=True)),
    "died": (record(expiresAt=START - 1_000), None, Past("abandoned", is_open=True)),
    "died for the third time": (record(expiresAt=0, attempt=3), None, Past("abandoned")),
    "was stopped": (record(releasedAt=START), None, Past("interrupted", is_open=True)),
    "was cancelled, and died": (record(expiresAt=0, fence=7, cancel=7), None, Past("cancelled")),
    "was cancelled, and runs": (record(fence=7, cancel=7), None, Past(None, is_running=True)),
    "was cancelled, and stopped": (
        record(releasedAt=START, fence=7, cancel=7),
        {"outcome": "interrupted", "attempt": 1},
        Past("interrupted"),
    ),
    "was cancelled, by its record": (record(**{**DONE, "outcome": "cancelled"}), None, Past("cancelled")),
    "lost its lock": (record(), {"outcome": "lost", "attempt": 1}, Past("lost", is_open=True)),
    "lost its lock, and nobody counted": (
        record(attempt=None),
        {"outcome": "lost", "attempt": 1},
        Past("lost", is_open=True),
    ),
    "an entry without its attempt": (record(), {"outcome": "lost"}, Past(None, is_running=True)),
    "the history knows better": (
        record(**{**DONE, "outcome": "failed"}),
        {"outcome": "succeeded", "attempt": 1},
        Past("succeeded"),
    ),
    "is run again": (record(attempt=2), {"outcome": "lost", "attempt": 1}, Past(None, is_running=True)),
    "an entry of nobody's": (record(), "text", Past(None, is_running=True)),
    "an entry of nobody's word": (record(), {"outcome": "fine", "attempt": 1}, Past(None, is_running=True)),
    "succeeded": (record(**DONE), {"outcome": "succeeded", "attempt": 1}, Past("succeeded")),
    "failed, by its record": (record(**{**DONE, "outcome": "failed"}), None, Past("failed")),
    "a later slot": (record(**{**DONE, "slot": slot(60)}), None, Past(None)),
    "a later slot that failed": (record(**{**DONE, "slot": slot(60), "outcome": "failed"}), None, Past(None)),
    "failed, and a later slot runs": (
        record(slot=slot(60), unfinished=slot(60)),
        {"outcome": "failed", "attempt": 1},
        Past("failed"),
    ),
    "was missed": (record(slot=slot(60), unfinished=slot(60)), {"outcome": "missed"}, Past("missed")),
    "no node": (None, {"outcome": "failed", "attempt": 1}, Past("failed")),
    "nothing": (None, None, Past(None)),
}


@pytest.mark.parametrize(("node", "entry", "past"), PASTS.values(), ids=PASTS)
def test_what_became_of_a_tick_is_found(node: dict[str, object] | None, entry: object, past: Past) -> None:
    """The record tells whether it runs, the history how it ended, and the record's own outcome stands in for it."""
    stored = node and {key: value for key, value in node.items() if value is not None}
    assert find_past(options(on_abandoned="rerun"), NINE, parse(stored, START), entry, START, MARGIN) == past


@pytest.mark.parametrize(
    ("past", "said"),
    [
        (Past(None, is_running=True), (200, "running")),
        (Past(None), (200, "already_done")),
        (Past("succeeded"), (200, "already_done")),
        (Past("failed"), (500, "failed")),
        (Past("failed", is_open=True), (500, "failed")),
        (Past("lost"), (500, "lost")),
        (Past("lost", is_open=True), (503, "lost")),
        (Past("interrupted"), (500, "interrupted")),
        (Past("abandoned"), (500, "abandoned")),
        (Past("abandoned", is_open=True), (503, "abandoned")),
        (Past("cancelled"), (200, "cancelled")),
        (Past("skipped"), (200, "skipped")),
        (Past("missed"), (200, "missed")),
    ],
)
def test_a_tick_of_the_past_is_answered(past: Past, said: tuple[int, str]) -> None:
    """What went wrong is 500, or 503 while it is to be run again; the rest is 200."""
    answer = of_past(options(), NINE, past)
    assert (answer.status, answer.body["result"]) == said
    assert answer.body["slot"] == NINE


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("held", (200, "held")),
        ("slot_done", (200, "already_done")),
        ("slot_early", (503, "slot_early")),
        ("paused", (200, "paused")),
        ("malformed", (500, "malformed")),
        ("unavailable", (503, "unavailable")),
        ("denied", (500, "denied")),
    ],
)
def test_every_refusal_has_an_answer(reason: Any, said: tuple[int, str]) -> None:
    """A refusal that lasts is no failure of the trigger; what a person has to mend is 500, what may pass 503."""
    answer = of_refusal(Refusal("job", reason, "why"), NINE)
    assert (answer.status, answer.body["result"], answer.body["message"]) == (*said, "why")


@pytest.mark.parametrize(
    ("error", "said", "retry_after"),
    [
        (Unavailable("x"), (503, "unavailable"), "5"),
        (Unavailable("x", retry_after=60.5), (503, "unavailable"), "61"),
        (Denied("x"), (500, "denied"), None),
        (Malformed("x"), (500, "malformed"), None),
        (StoreError("x"), (500, "error"), None),
    ],
)
def test_an_error_of_the_database_is_answered(
    error: StoreError, said: tuple[int, str], retry_after: str | None
) -> None:
    """Where the database asked to be left alone for longer, so is the caller."""
    answer = of_error(error)
    assert ((answer.status, answer.body["result"]), answer.headers.get("Retry-After")) == (said, retry_after)
    refusal = Refusal("job", "unavailable", "x", error=error)
    assert of_refusal(refusal, None).headers["Retry-After"] == (retry_after or "5")


def test_an_answer_has_no_secret() -> None:
    """What an error has quoted is left out of the answer, whatever the error is of."""
    error = Unavailable("RTDB can't be reached through http://me:pa55@proxy:3128")
    assert of_error(error).body["message"] == "RTDB can't be reached through http://[redacted]@proxy:3128"
    refusal = Refusal("job", "unavailable", f"could not be acquired: {error}", error=error)
    assert "pa55" not in str(of_refusal(refusal, None).body)


@pytest.mark.parametrize("text", ["2026-11-18T09:00:00Z", " 2026-11-18T10:00:00.999999999+01:00 "])
def test_a_schedule_time_is_cut_to_the_second(text: str) -> None:
    """Whatever the fraction and the offset, it is an instant in UTC."""
    assert parse_schedule_time(text) == to_datetime(START)


@pytest.mark.parametrize(
    "text", ["2026-11-18T09:00:00", "2026-11-18 09:00:00Z", "2026-11-18T24:30:00Z", "0001-01-01T00:00:00+23:00", "٢٠٢٦"]
)
def test_what_is_no_instant_is_an_error(text: str) -> None:
    """The error has the text and an example."""
    with pytest.raises(ValueError, match="is not a valid time: send one such as 2026-11-18T09:00:00Z"):
        parse_schedule_time(text)


@pytest.mark.parametrize(("ahead", "expected"), [(-1, False), (0, False), (MARGIN, False), (MARGIN + 1, True)])
def test_the_future_begins_after_the_margin(ahead: int, expected: bool) -> None:
    """A tick that is ahead by no more than the margin has come."""
    assert is_future(to_datetime(START), START - ahead, MARGIN) is expected


@pytest.mark.parametrize(
    ("wishes", "complaint"),
    [
        ({}, "the trigger doesn't say which callers it serves.*audience= and email=.*trust_cloud_run_iam=True"),
        ({"audience": AUDIENCE}, "email= is missing.*everybody with a Google account"),
        ({"email": EMAIL}, "audience= is missing.*another service"),
        ({"audience": AUDIENCE, "email": EMAIL, "trust_cloud_run_iam": True}, "more than one"),
        ({"audience": AUDIENCE, "trust_cloud_run_iam": True}, "more than one"),
        ({"verifier": OidcVerifier([AUDIENCE], [EMAIL]), "trust_cloud_run_iam": True}, "more than one"),
        ({"audience": "", "email": EMAIL}, "audience=''"),
        ({"audience": [AUDIENCE, " "], "email": EMAIL}, "audience="),
        ({"audience": AUDIENCE, "email": []}, r"email=\[\]"),
        ({"audience": AUDIENCE, "email": "scheduler"}, "email='scheduler' is not an e-mail address"),
        ({"trust_cloud_run_iam": True, "health_email": EMAIL}, "so it needs audience= and email="),
        ({"health_email": EMAIL}, "doesn't say which callers it serves"),
        ({"audience": AUDIENCE, "email": EMAIL, "health_email": "monitor"}, "health_email='monitor' is not an e-mail"),
        ({"audience": AUDIENCE, "email": EMAIL, "health_email": ()}, r"health_email=\(\) is empty"),
    ],
)
@pytest.mark.parametrize("make", ["trigger_app", "trigger_blueprint", "trigger_urls"])
def test_who_may_trigger_must_be_said(wishes: dict[str, Any], complaint: str, make: str) -> None:
    """Nothing is open by default: what isn't said in exactly one way is a ConfigurationError that says how. A
    monitoring account needs tokens that are verified, and an address.
    """
    timing = FakeTiming()
    crons = FireCron(store=MemoryStore(timing.now), timing=timing)
    trigger: Callable[..., object] = getattr(crons, make)
    with pytest.raises(ConfigurationError, match=complaint):
        trigger(**wishes)


def test_several_audiences_and_addresses_may_be_named() -> None:
    """One text or several do, for both."""
    events = Events()
    assert isinstance(choose_access(events, audience=AUDIENCE, email=EMAIL).all, OidcVerifier)
    assert isinstance(choose_access(events, audience=[AUDIENCE, "b"], email=(EMAIL, "b@c")).all, OidcVerifier)


@pytest.mark.parametrize(("service", "levels"), [("", [logging.WARNING]), ("api", [])])
def test_trusting_cloud_run_elsewhere_is_said_loudly(service: str, levels: list[int]) -> None:
    """Where K_SERVICE isn't set, nobody has asked IAM, and a WARNING says that the port is open."""
    events = Events()
    heard: list[Event] = []
    events.subscribe(heard.append)
    assert CloudRunIam(events, {"K_SERVICE": service}).check(None) is None
    assert [event.level for event in heard] == levels


def test_every_answer_says_what_it_is_about() -> None:
    """Whatever became of a tick, the body names the job and the slot."""
    run = Run("job", slot=to_datetime(START), attempt=1, fence=1, idempotency_key="k", trigger="http")
    answers = [
        of_run(options(), run, "succeeded", "said"),
        *(of_refusal(Refusal("job", reason, "said"), NINE) for reason in ("held", "paused", "denied", "slot_done")),
        *(of_error(error, "job", NINE) for error in (Unavailable("down"), Denied("no"), Malformed("odd"))),
        *(of_past(options(), NINE, past) for past in (Past(None), Past(None, is_running=True))),
        *(of_past(options(), NINE, Past(outcome)) for outcome in ("succeeded", "failed")),
    ]
    assert {(one.body["job"], one.body["slot"]) for one in answers} == {("job", NINE)}
