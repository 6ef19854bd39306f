"""What a node means to a person: every state of a lock, and whatever else somebody may have written."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.lock.records import MARGIN, NOW, at

from firecron.base.instants import to_text
from firecron.base.texts import plain
from firecron.lock.fields import PAUSE_FIELDS
from firecron.lock.record import LockRecord, Request, Take, decide, released, renewed
from firecron.lock.refusal import inspect_instances
from firecron.ops.views import LockState, LockView, Unfinished, inspect_lock, inspect_run, inspect_unfinished
from firecron.runs.entry import Entry

ACQUIRED = {"acquiredAt": NOW - 10_000, "holder": "h", "instanceId": "api-1", "instance": "0a"}
RELEASED = {**ACQUIRED, "releasedAt": NOW - 5000}
PATH = "cron-locks/job"
SLOT = "2026-11-18T09:00:00Z"


@pytest.mark.parametrize(
    ("node", "state"),
    [
        pytest.param(None, "absent", id="no node"),
        pytest.param({"paused": True}, "free", id="only paused"),
        pytest.param({**ACQUIRED, "expiresAt": NOW + 1}, "held", id="held"),
        pytest.param({**ACQUIRED, "expiresAt": NOW - 999}, "held", id="within the margin"),
        pytest.param({**ACQUIRED, "expiresAt": NOW - 1000}, "died", id="past the margin"),
        pytest.param({**ACQUIRED, "expiresAt": 0}, "unlocked", id="unlocked"),
        pytest.param({**ACQUIRED, "expiresAt": NOW - 10_001}, "unlocked", id="unlocked in the console"),
        pytest.param({**ACQUIRED, "expiresAt": NOW - 10_000}, "died", id="over as it began"),
        pytest.param({"expiresAt": 0}, "unlocked", id="unlocked, and nothing else"),
        pytest.param({"expiresAt": 1}, "died", id="expired, and nothing else"),
        pytest.param({**RELEASED, "expiresAt": NOW - 5000}, "free", id="released"),
        pytest.param({**RELEASED, "expiresAt": 0}, "free", id="released and unlocked"),
        pytest.param({**RELEASED, "expiresAt": NOW + 1}, "minimum_hold", id="minimum hold"),
        pytest.param({**RELEASED, "expiresAt": NOW}, "free", id="the end of a minimum hold"),
        pytest.param({"acquiredAt": NOW, "expiresAt": NOW + 1, "instanceId": "old"}, "held", id="foreign"),
        pytest.param("text", "malformed", id="no record"),
        pytest.param({**ACQUIRED, "expiresAt": "soon"}, "malformed", id="a wrong field"),
        pytest.param({"expiresAt": NOW, "slot": "2027-01-01T00:00:00Z"}, "malformed", id="a slot far ahead"),
        pytest.param({**RELEASED, "expiresAt": 1, "kind": "leader", "slot": SLOT}, "malformed", id="a kind and a slot"),
        pytest.param({**RELEASED, "expiresAt": 1, "kind": "junk"}, "malformed", id="a kind that is none"),
        pytest.param({"kind": "junk"}, "malformed", id="a kind that is none, and nothing else"),
        pytest.param({"kind": "leader"}, "free", id="a kind, and nothing else"),
    ],
)
def test_each_node_is_in_one_state(node: object, state: LockState) -> None:
    """A node's state is the one that a contender would find, and says why nobody has it."""
    view = inspect_lock("job", PATH, node, NOW, MARGIN)
    assert view.state == state
    assert (view.problem is not None) == (state == "malformed")
    assert view.is_taken == (state in ("held", "minimum_hold"))
    assert view.path == PATH
    assert view.to_json()["stuck"] is False


@pytest.mark.parametrize(
    ("paused", "is_paused"), [(True, True), ("yes", True), (0, True), (False, False), (None, False)]
)
def test_paused_is_anything_but_false(paused: object, is_paused: bool) -> None:
    """Whatever a contender takes for a pause is shown as one, beside a lock, without one and in a malformed node."""
    assert LockView("job", "free").to_json()["paused"] is False
    for node in ({"paused": paused}, {**ACQUIRED, "expiresAt": 1, "paused": paused}, {"slot": 1, "paused": paused}):
        assert inspect_lock("job", PATH, node, NOW, MARGIN).is_paused == is_paused


def test_a_pause_is_shown_with_all_that_it_says() -> None:
    """Who, when, why and until when, beside a lock, without one and in a malformed node; once it is over, as over."""
    pause = {"paused": True, "pausedBy": "a\nb", "pausedAt": NOW - 5, "pausedWhy": "w" * 600, "pausedUntil": NOW}
    for node in (pause, {**ACQUIRED, "expiresAt": 1, **pause}, {"slot": 1, **pause}):
        before, after = (inspect_lock("job", PATH, node, now, MARGIN) for now in (NOW - 1, NOW))
        assert (before.is_paused, after.is_paused) == (True, False)
        assert replace(before, is_paused=False) == after
        assert (after.paused_by, after.paused_why) == ("a ⏎ b", "w" * 500 + "…")
        shown = {key: value for key, value in after.to_json().items() if key.startswith("paused")}
        assert (shown["pausedAt"], shown["pausedUntil"]) == (to_text(NOW - 5), to_text(NOW))
        assert set(shown) == set(PAUSE_FIELDS) - {"pausedOver"}
        assert shown["pausedWith"] is None


def test_a_record_without_a_holder_is_the_originals() -> None:
    """A record that names no holder was written by the NestJS original, one with a token was not."""
    assert inspect_lock("job", PATH, {"expiresAt": NOW, "instanceId": "old"}, NOW, MARGIN).is_foreign
    assert not inspect_lock("job", PATH, {**ACQUIRED, "expiresAt": NOW}, NOW, MARGIN).is_foreign
    for other in (None, "text"):
        assert inspect_lock("job", PATH, other, NOW, MARGIN).to_json()["foreign"] is False


def test_what_the_library_writes_is_understood() -> None:
    """A claim is held with its slot unfinished, and its release is free with the outcome of the slot."""
    request = Request("h", 60_000, "api-1", "0a", MARGIN, fenced=True, slot=SLOT)
    taken = decide(None, request, at(), {})
    assert isinstance(taken, Take)
    view = inspect_lock("job", PATH, taken.record.to_json(), NOW, MARGIN)
    assert (view.state, view.owner, view.slot, view.unfinished) == ("held", "api-1/0a", SLOT, SLOT)
    assert (view.since, view.until, view.attempt, view.fence) == (NOW, NOW + 60_000, 1, NOW)
    later = renewed(taken.record.to_json(), "h", 90_000, at(), taken.trust, MARGIN, None)
    assert isinstance(later, Take)
    assert inspect_lock("job", PATH, later.record.to_json(), NOW, MARGIN).until == NOW + 90_000
    after = released(taken.record.to_json(), "h", NOW + 5, outcome="succeeded", finished=SLOT)
    assert isinstance(after, LockRecord)
    view = inspect_lock("job", PATH, after.to_json(), NOW + 5, MARGIN)
    assert (view.state, view.slot, view.unfinished, view.outcome) == ("free", SLOT, None, "succeeded")
    assert view.released_at == NOW + 5


@pytest.mark.parametrize("entry", [None, "text", 1, [], {}, {"outcome": "odd"}, {"outcome": {"a": 1}}, {"slot": SLOT}])
def test_an_entry_that_is_no_run_is_malformed(entry: object) -> None:
    """What is no entry of a history is shown as malformed, with what it holds."""
    run = inspect_run("key", entry)
    assert run == Entry("key", "malformed", error=run.error)
    assert repr(entry) in str(run.error)


def test_fields_that_make_no_sense_are_left_out() -> None:
    """A field of another type than it should have is as if it weren't there, and the rest is shown."""
    odd: dict[str, object] = dict.fromkeys(("slot", "instance", "error", "trigger"), 1)
    odd |= dict.fromkeys(("startedAt", "endedAt", "durationMs", "attempt", "fence", "count"), "1")
    run = inspect_run(
        "key", {**odd, "outcome": "failed", "durationMs": True, "attempt": float("inf"), "instanceId": "a"}
    )
    assert (run.outcome, run.owner, run.count) == ("failed", "a", 1)
    shown = {key for key, value in run.to_json().items() if value is not None}
    assert shown == {"key", "outcome", "count", "atLeast", "instanceId"}


def without_nulls(node: object) -> object:
    """The node as the database has it."""
    return {key: value for key, value in node.items() if value is not None} if isinstance(node, dict) else node


LIVE = {**ACQUIRED, "slot": SLOT, "unfinished": SLOT, "attempt": 2, "expiresAt": NOW + 1}
DEAD = {**LIVE, "expiresAt": NOW - 1000}
RUNS, DIED = (Unfinished(SLOT, is_live, NOW - 10_000, "api-1", "0a") for is_live in (True, False))
ABANDONED = {"outcome": "abandoned", "slot": SLOT, "attempt": 2}
RECORDS: dict[str, tuple[object, object, Unfinished | None]] = {
    "no node": (None, None, None),
    "malformed": ("text", None, None),
    "a run by hand": ({**ACQUIRED, "expiresAt": NOW + 1}, None, None),
    "under way": (LIVE, None, RUNS),
    "dead": (DEAD, None, DIED),
    "released by another": ({**LIVE, **RELEASED, "expiresAt": NOW - 5000}, None, Unfinished(SLOT, False)),
    "minimum hold of another": ({**LIVE, **RELEASED}, None, Unfinished(SLOT, False)),
    "an earlier claim is recorded": (LIVE, {"outcome": "interrupted", "slot": SLOT, "attempt": 1}, RUNS),
    "recorded": (DEAD, ABANDONED, None),
    "another tick is recorded": (DEAD, {**ABANDONED, "slot": "2026-11-18T08:00:00Z"}, DIED),
    "a first attempt is recorded, without its number": (DEAD, {**ABANDONED, "attempt": None}, DIED),
    "recorded, and the lock shows no number": ({**DEAD, "attempt": None}, {**ABANDONED, "attempt": 1}, None),
}


@pytest.mark.parametrize(("node", "entry", "found"), RECORDS.values(), ids=RECORDS)
def test_an_unfinished_tick_that_is_not_recorded(node: object, entry: object, found: Unfinished | None) -> None:
    """What is not at its end and not in the history is found, with its instance unless that was another's since."""
    runs = [] if entry is None else [inspect_run(SLOT, without_nulls(entry))]
    stored = without_nulls(node)
    assert inspect_unfinished(inspect_lock("job", PATH, stored, NOW, MARGIN), runs) == found


DAY = 86_400_000


@pytest.mark.parametrize("record", [ACQUIRED, RELEASED], ids=["held", "minimum hold"])
@pytest.mark.parametrize(("ahead", "is_stuck"), [(DAY + 60_000, False), (DAY + 60_001, True), (1e308, True)])
def test_a_lock_that_expires_too_late_is_a_problem(record: dict[str, object], ahead: float, is_stuck: bool) -> None:
    """A lock that expires later than any lease can is said to block, with the command that frees it."""
    view = inspect_lock("job", PATH, {**record, "expiresAt": NOW + ahead}, NOW, MARGIN)
    assert view.is_stuck is is_stuck
    assert (view.problem is not None) is is_stuck
    assert ("firecron unlock job" in str(view.remedy)) is is_stuck


SCHEDULED = {**ACQUIRED, "slot": SLOT, "unfinished": SLOT, "fence": NOW, "expiresAt": NOW + 60_000}
LONG_HELD = {**SCHEDULED, "acquiredAt": NOW - 300_000}
PLAIN = {**ACQUIRED, "acquiredAt": NOW - 300_000, "expiresAt": NOW + 60_000, "fence": NOW}


@pytest.mark.parametrize(
    ("node", "seen", "words"),
    [
        pytest.param(SCHEDULED, {"0a-1": NOW - 90_000}, None, id="seen three beats ago"),
        pytest.param(SCHEDULED, {"0a-1": NOW - 90_001}, "its instance was last seen at", id="silent"),
        pytest.param(SCHEDULED, {"0a-1": 1, "0a-2": NOW}, None, id="another process of it is alive"),
        pytest.param(SCHEDULED, {"0a1-1": 1}, None, id="another instance is silent"),
        pytest.param(PLAIN, {"0a-1": NOW - 90_001}, "its instance was last seen at", id="plain, and silent"),
        pytest.param(LONG_HELD, {}, "has no heartbeat", id="gone for ten beats"),
        pytest.param(LONG_HELD, {"clock": 1, "0a": 1}, "has no heartbeat", id="gone, beside the clock"),
        pytest.param({**LONG_HELD, "acquiredAt": NOW - 299_999}, {}, None, id="gone, and acquired a moment ago"),
        pytest.param(PLAIN, {}, None, id="a plain lock has no heartbeat"),
        pytest.param({**LONG_HELD, "unfinished": None}, {}, None, id="nor has a run by hand"),
        pytest.param({**LONG_HELD, "instance": None}, {}, None, id="nobody knows which instance"),
        pytest.param({**LONG_HELD, "releasedAt": NOW - 1}, {}, None, id="a minimum hold"),
        pytest.param({**LONG_HELD, "expiresAt": NOW - 1000}, {}, None, id="dead, and free"),
    ],
)
def test_a_holder_whose_instance_is_silent_is_a_problem(
    node: dict[str, object], seen: dict[str, int], words: str | None
) -> None:
    """A lock whose holder's instance has stopped its heartbeat is said to be so, where that can be told at all."""
    instances = inspect_instances({name: {"seenAt": at} for name, at in seen.items()}, 30)
    view = inspect_lock("job", PATH, without_nulls(node), NOW, MARGIN, instances)
    assert (view.problem is None) == (words is None)
    assert words is None or words in str(view.problem)
    assert ("firecron unlock job" in str(view.remedy)) == (words is not None)
    assert not view.is_stuck
    unfinished = inspect_unfinished(view, [])
    assert unfinished is None or unfinished.problem == view.problem


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"fence": NOW}, None),
        ({"fence": NOW + 1}, None),
        ({"fence": NOW - 1}, "would not notice"),  # an earlier holder's: this one has none
        ({}, "would not notice"),
        ({"fence": NOW, "renews": False}, "would not notice"),
        ({"fence": NOW, "renews": "x"}, None),
        ({"fence": NOW, "releasedAt": NOW}, "it is not held"),
        ({"fence": NOW, "expiresAt": 0}, "it is not held"),
        ({"fence": NOW, "expiresAt": NOW - MARGIN}, "it is not held"),
    ],
)
def test_who_would_notice_a_cancel(fields: dict[str, object], why: str | None) -> None:
    """A holder with a fence of its own that renews would. What nobody holds is not cancelled."""
    node = {"holder": "h", "acquiredAt": NOW, "expiresAt": NOW + 60_000, **fields}
    said = inspect_lock("job", PATH, node, NOW, MARGIN).why_not_cancelled
    assert (said is None) == (why is None)
    assert why is None or why in str(said)


@pytest.mark.parametrize(
    ("fields", "is_cancelled", "why"),
    [
        ({"fence": 7, "cancel": 7, "cancelWhy": "a\nb"}, True, "a ⏎ b"),
        ({"fence": 7, "cancel": 7, "cancelWhy": 7}, True, None),
        ({"fence": 7, "cancel": 7}, True, None),
        ({"fence": 8, "cancel": 7, "cancelWhy": "old"}, False, None),
    ],
)
def test_a_cancel_is_seen(fields: dict[str, object], is_cancelled: bool, why: str | None) -> None:
    """The view says whether the present acquisition is cancelled, and why; not what an earlier one was told."""
    view = inspect_lock("job", PATH, {**ACQUIRED, "expiresAt": NOW, **fields}, NOW, MARGIN)
    assert (view.is_cancelled, view.cancel_why) == (is_cancelled, why)
    assert (view.to_json()["cancelled"], view.to_json()["cancelWhy"]) == (is_cancelled, why)


def test_numbers_are_cut_to_what_is_exact() -> None:
    """A number beyond 2^53, which no clock and no counter of firecron's reaches, is shown as the greatest below it."""
    view = inspect_lock("job", PATH, {"expiresAt": 1e308, "holder": "h"}, NOW, MARGIN)
    assert view.until == 2**53 - 1
    run = inspect_run("key", {"outcome": "succeeded", "durationMs": 1e308, "count": 1e300, "startedAt": 1e300})
    assert (run.duration, run.count, run.started_at) == (2**53 - 1,) * 3
    assert max(len(str(value)) for value in (*view.to_json().values(), *run.to_json().values())) < 200


def test_nothing_from_the_database_commands_the_terminal() -> None:
    """Control characters are replaced, lines joined and long texts cut, whatever they come in."""
    evil = "a\x1b[31m\r\nb\u202e"
    node = {**ACQUIRED, "expiresAt": NOW + 1, "instanceId": evil, "outcome": evil}
    views = (inspect_lock(evil, evil, node, NOW, MARGIN), inspect_lock(evil, evil, evil, NOW, MARGIN))
    words = dict.fromkeys(Entry("key", "failed").to_json().keys() - {"outcome"}, evil)
    runs = (inspect_run(evil, {"outcome": "failed", **words}), inspect_run(evil, evil))
    assert "[31m" in str(runs[0].recorded_by)
    assert all(view.path.isprintable() for view in views)
    for value in (value for shown in (*views, *runs) for value in shown.to_json().values()):
        assert not isinstance(value, str) or value.isprintable()
    assert plain("a\nb\r\nc\rd") == "a ⏎ b ⏎ c\N{REPLACEMENT CHARACTER}d"
    assert plain("x" * 501) == "x" * 500 + "…"
    assert plain("x" * 500) == "x" * 500
