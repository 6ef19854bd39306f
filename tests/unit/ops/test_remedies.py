"""What to do in each state: the remedy, and the acts that are offered, of which none would be refused."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from tests.unit.lock.records import DAY, MARGIN, NOW, node, released_node, slot
from tests.unit.ops.declared import JOB, job

from firecron.jobs.catalogue import CatalogueEntry, Group, digest
from firecron.lock.fields import hold_name
from firecron.lock.record import Reason
from firecron.lock.refusal import Refusal
from firecron.ops.health import evaluate
from firecron.ops.remedies import (
    TABLE,
    State,
    acts_on,
    of_refusal,
    remedy_of,
    state_of,
    state_of_lock,
    why_refused,
)
from firecron.ops.remedy import ActWord, Remedy
from firecron.ops.views import LockView, inspect_lock

PATH = "cron-locks/digest"
LATE = NOW + 120_001
TICK = slot(-86_400)
LIVE = (Group("0" * 16, None, None, 0, NOW + DAY),)
NOBODY: tuple[Group, ...] = ()
GONE = (Group("0" * 16, frozenset(["other"]), "api", 1, NOW + DAY),)
OTHERS = (
    Group("0" * 16, frozenset(["digest"]), "api", 0, NOW + DAY, digests={"digest": digest(job("* * * * *").schedule)}),
)

BRIEF = job(expected_runtime=5_000)
HELD = node(slot=TICK, unfinished=TICK, fence=NOW)
DEAF = node(slot=TICK, unfinished=TICK, fence=NOW, renews=False)
DONE = released_node(slot=TICK, outcome="succeeded")
PAUSED = {"paused": True, "pausedAt": NOW}
# A hold is meant, and ends by itself.
WITH_OTHERS = {**PAUSED, "pausedBy": "ops@host", "pausedWith": hold_name("a1b2", "ops@host", NOW)}
RUN = "the run of 2026-11-17T09:00:00Z on rev-2/i2"


def seen(
    declared: CatalogueEntry, found: object, groups: tuple[Group, ...] | None = LIVE, now: int = NOW
) -> tuple[State, Remedy | None, LockView | None]:
    """The state of the job with this lock, what to do, and the lock."""
    verdict = evaluate(declared, found, groups, now, MARGIN)
    lock = None if found is None else inspect_lock("digest", PATH, found, now, MARGIN)
    return state_of(verdict, lock), remedy_of(verdict, declared, lock, now), lock


def unlocks(what: str = "its run") -> Remedy:
    return Remedy(f"make sure that {what} has ended, then unlock it", "unlock", "firecron unlock digest")


STOP = Remedy(f"stop {RUN}; it keeps its lock until it has ended", "cancel", "firecron cancel digest")
MEND = Remedy(
    f"mend the node {PATH} in the Firebase console: set a wrong expiresAt to 0, and remove any other wrong field; "
    "deleting the node forgets its last slot and fence",
    "mend",
    "firecron locks digest",
)
RESUME = Remedy("resume it", "resume", "firecron resume digest")
MISSED = Remedy(
    f"see whether its instances are alive, and what api logs; run the missed tick of {slot()}",
    "run_missed",
    f"firecron ask digest --slot {slot()}",
    slot(),
)
AGAIN = Remedy(
    f"see in its history why it fails; run the tick of {TICK} again",
    "run_again",
    f"firecron ask digest --resume {TICK}",
    TICK,
)
_START = "start api, whose revision api-00042-abc had it; if it runs, it has another database or prefix"
START = Remedy(f"{_START}; or forget the job if it was taken out", None, "firecron forget digest")
START_AND_FREE = Remedy(f"{_START}; make sure that {RUN} has ended, then unlock it", "unlock", "firecron unlock digest")
END = Remedy(f"nobody can stop {RUN} from here: end that instance, then unlock it", "unlock", "firecron unlock digest")
FORGET = Remedy("forget it, unless it comes back", "forget", "firecron forget digest")
WAIT = Remedy("wait until the other instances have ended, or end them")

# The job, its node and its groups; the state, the remedy, and the acts that are offered where the job can be run.
STATES: list[tuple[CatalogueEntry, object, tuple[Group, ...] | None, State, Remedy | None, str]] = [
    (JOB, DONE, LIVE, "ok", None, "run pause"),
    (job(since=NOW), None, None, "ok", None, "run pause"),
    (JOB, released_node(slot=TICK, expiresAt=NOW + 9_000), LIVE, "ok", None, "pause"),
    (JOB, HELD, LIVE, "running", None, "cancel pause"),
    (JOB, DEAF, LIVE, "running", None, "unlock pause"),
    (JOB, {**HELD, "cancel": NOW}, LIVE, "running", None, "unlock pause"),
    (BRIEF, HELD, LIVE, "stuck", STOP, "cancel pause"),
    (BRIEF, DEAF, LIVE, "stuck", END, "unlock pause"),
    (BRIEF, {**HELD, "cancel": NOW}, LIVE, "stuck", unlocks(RUN), "unlock pause"),
    (JOB, {**HELD, "expiresAt": NOW + 9 * DAY}, LIVE, "blocked", unlocks(), "unlock pause"),
    (JOB, {**DONE, "expiresAt": NOW + 9 * DAY}, LIVE, "blocked", unlocks(), "unlock pause"),
    (JOB, "text", LIVE, "unreadable", MEND, "mend"),
    (JOB, node(kind="leader", fence=NOW), LIVE, "unreadable", MEND, "mend"),
    (JOB, {**DONE, **PAUSED}, LIVE, "paused", RESUME, "resume"),
    (JOB, PAUSED, NOBODY, "paused", RESUME, "resume"),
    (JOB, {**DONE, **WITH_OTHERS}, LIVE, "paused", None, "resume"),
    (JOB, {**HELD, **PAUSED}, LIVE, "paused", RESUME, "resume cancel"),
    (job(disabled=True), HELD, LIVE, "disabled", None, "cancel"),
    (job(disabled=True), None, LIVE, "disabled", None, ""),
    (JOB, {**DONE, "outcome": "failed", "failures": 1}, LIVE, "failing", AGAIN, "run_again pause_until"),
    (JOB, {**HELD, "expiresAt": NOW - 9_000}, LIVE, "failing", AGAIN, "run_again pause_until"),
    (JOB, DONE, NOBODY, "unattended", START, "forget"),
    (JOB, HELD, NOBODY, "unattended", START_AND_FREE, "forget cancel unlock"),
    (JOB, {**HELD, "expiresAt": NOW - 9_000}, NOBODY, "unattended", START, "forget"),
    (JOB, "text", NOBODY, "unreadable", MEND, "mend"),
    (JOB, DONE, GONE, "retired", FORGET, "forget"),
    (JOB, DONE, OTHERS, "ok", WAIT, "run pause"),
]  # fmt: skip


@pytest.mark.parametrize(("declared", "found", "groups", "state", "remedy", "acts"), STATES)
def test_what_to_do(
    declared: CatalogueEntry,
    found: object,
    groups: tuple[Group, ...] | None,
    state: State,
    remedy: Remedy | None,
    acts: str,
) -> None:
    """Each state has its remedy, and its acts without those that would be refused; where nothing runs, none that runs
    it.
    """
    at, do, lock = seen(declared, found, groups)
    assert (at, do) == (state, remedy)
    assert " ".join(acts_on(at, lock, can_run=True)) == acts
    assert acts_on(at, lock, can_run=False) == [act for act in acts.split() if not act.startswith("run")]


@pytest.mark.parametrize(
    ("declared", "now", "missed"),
    [
        (JOB, LATE, slot()),
        (job("0 * * * *"), LATE + 2 * 3_600_000, slot(7_200)),
        # The one before is not tried for any more, and the newest still is.
        (job("0 * * * *"), NOW + 3_630_000, slot()),
        (job(ticks=False), LATE, slot()),
    ],
)
def test_the_newest_tick_that_was_missed_is_run(declared: CatalogueEntry, now: int, missed: str) -> None:
    """One act ends the lateness: that of the first of many ticks would leave the job late."""
    state, do, lock = seen(declared, DONE, LIVE, now)
    assert state == "late"
    assert do is not None
    run = "ask" if declared.ticks else "run APP"  # what only a trigger runs, nobody can be asked for
    assert (do.act, do.tick, do.command) == ("run_missed", missed, f"firecron {run} digest --slot {missed}")
    # A page without the code has no button for what nobody can be asked for: the words are what can be done.
    look, where = ("instances are", "") if declared.ticks else ("trigger is", "where its code is, ")
    assert do.words == f"see whether its {look} alive, and what api logs; {where}run the missed tick of {missed}"
    assert acts_on(state, lock, can_run=True) == ["run_missed", "run", "pause"]


def test_a_failed_tick_that_nobody_can_be_asked_for_is_run_where_the_code_is() -> None:
    """A page without the code has no button for it."""
    _, do, _ = seen(job(ticks=False), {**DONE, "outcome": "failed", "failures": 1})
    assert do is not None
    assert do.words == f"see in its history why it fails; where its code is, run the tick of {TICK} again"
    assert do.command == f"firecron run APP digest --resume {TICK}"


def test_of_what_needs_a_hand_somebody_may_be_told_no_more() -> None:
    """In each state that is an alarm. A mute can be taken back in whatever state the job is then; a lock has none."""
    alarms = {"stuck", "blocked", "unreadable", "late", "failing", "unattended"}
    of_locks = {"lock", "leader", "unknown"}
    for state in TABLE:
        offered = [{*acts_on(state, None, is_muted=is_muted)} & {"mute", "unmute"} for is_muted in (False, True, None)]
        assert offered == [{"mute"} if state in alarms else set(), set() if state in of_locks else {"unmute"}, set()]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"service": "local", "revision": None},
            "start its program; if it runs, it has another database or prefix",
        ),
        ({"service": "", "role": "mail"}, "give an instance its role 'mail' (FIRECRON_ROLES)"),
        ({"role": "mail", "revision": None}, "start api; if it runs, it has another database or prefix"),
        ({"service": "", "revision": None}, "start its program; if it runs, it has another database or prefix"),
    ],
)
def test_what_is_to_be_started_has_a_name_or_a_role(options: dict[str, object], words: str) -> None:
    """Outside of Cloud Run a service has no name; and a role that no instance has is what is missing."""
    _, do, _ = seen(job(**options), None, NOBODY)
    assert do is not None
    assert do.words == f"{words}; or forget the job if it was taken out"


def test_a_command_can_be_given_to_a_shell() -> None:
    """A key of the catalogue may be any text."""
    declared = replace(JOB, name="a b<b>")
    do = remedy_of(evaluate(declared, None, NOBODY, NOW, MARGIN), declared, None, NOW)
    assert do is not None
    assert do.command == "firecron forget 'a b<b>'"


@pytest.mark.parametrize(
    ("found", "state", "acts"),
    [
        (HELD, "lock", "cancel pause"),
        (DEAF, "lock", "unlock pause"),
        (DONE, "lock", "pause"),
        ({**DONE, **PAUSED}, "lock", "resume"),
        ({**DONE, **PAUSED, "pausedUntil": NOW - 1}, "lock", "pause"),
        (node(kind="leader", fence=NOW), "leader", "depose pause"),
        (node(kind="leader", fence=NOW, **PAUSED), "leader", "depose resume"),
        ("text", "unreadable", "mend"),
    ],
)
def test_the_acts_on_a_lock_of_no_job(found: object, state: State, acts: str) -> None:
    """A leader is deposed, what holds another lock is cancelled, and what would not hear it is unlocked."""
    lock = inspect_lock("digest", PATH, found, NOW, MARGIN)
    assert state_of_lock(lock) == state
    assert " ".join(acts_on(state, lock)) == acts


def test_each_state_and_each_act_is_in_the_table() -> None:
    """None is left out."""
    assert {*TABLE} == {*get_args(State)}
    assert {act for acts in TABLE.values() for act in acts} == {*get_args(ActWord)}


@pytest.mark.parametrize("reason", get_args(Reason))
def test_each_refusal_has_a_remedy_and_words_for_a_page(reason: Reason) -> None:
    """The words are not the log's, and name no command."""
    refusal = Refusal("digest", reason, 'Lock "digest" … firecron unlock digest', instance_id="rev-2", instance="i2")
    do = of_refusal(refusal)
    assert do is not None
    assert "firecron" not in f"{do.words} {why_refused(refusal)}"
    assert "Lock" not in why_refused(refusal)


def test_a_refusal_says_which_run_is_in_the_way() -> None:
    """By its tick and its instance, as far as they are known; one of a silent instance is unlocked."""
    held = Refusal("digest", "held", "…", instance_id="rev-2", instance="i2")
    assert why_refused(held) == "rev-2/i2 holds its lock"
    assert why_refused(replace(held, unfinished=TICK)) == f"the run of {TICK} on rev-2/i2 has not ended"
    assert why_refused(Refusal("digest", "held", "…")) == "a run of it on this instance has not ended"
    assert (of_refusal(held) or WAIT).act == "cancel"
    assert of_refusal(replace(held, problem="it died")) == unlocks()


def test_a_remedy_is_said_at_a_terminal_and_given_to_programs() -> None:
    """With its command, if it has one; programs get every field."""
    assert [str(one) for one in (RESUME, WAIT)] == ["resume it: firecron resume digest", WAIT.words]
    assert MISSED.to_json() == {
        "act": "run_missed",
        "words": MISSED.words,
        "command": MISSED.command,
        "tick": slot(),
    }
