"""The verdict about a job: each word, when it begins, what comes before it, and what an operator reads."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.unit.lock.records import DAY, MARGIN, NOW, node, released_node, slot
from tests.unit.ops.declared import JOB, job

from firecron.base.instants import to_datetime, to_milliseconds, to_text
from firecron.cron.schedule import Schedule, known_exceptions
from firecron.jobs.catalogue import CatalogueEntry, Group, digest, read_declared
from firecron.ops.health import ALARMS, JobVerdict, evaluate

HOUR = 3_600_000
# Nine o'clock of the test is the job's tick. This is the first instant at which it is late: grace, a minute, and one.
LATE = NOW + 120_001
# A group that has the job, however it is named: one that doesn't say what it has.
ANY = (Group("0" * 16, None, None, 0, LATE + 1_000 * DAY),)
NOBODY: tuple[Group, ...] = ()


def group(jobs: str = "digest", seen_at: int = NOW, first_seen_at: int | None = 0, service: str = "api") -> Group:
    return Group("0" * 16, frozenset(jobs.split()), service, first_seen_at, seen_at)


def verdict(
    declared: CatalogueEntry, found: object, now: int = NOW, groups: tuple[Group, ...] | None = ANY
) -> JobVerdict:
    return evaluate(declared, found, groups, now, MARGIN)


def yesterday(**fields: object) -> dict[str, object]:
    """A lock whose tick of yesterday was run."""
    at = NOW - DAY + 5_000
    done = {"slot": slot(-86_400), "outcome": "succeeded", "acquiredAt": NOW - DAY, "expiresAt": at, "releasedAt": at}
    return node(**{**done, **fields})


def test_a_job_that_has_run_is_ok() -> None:
    """Until the next tick is late, a job whose last tick succeeded is as it should be."""
    assert verdict(JOB, yesterday(), LATE - 1) == JobVerdict(
        "digest", "ok", why=f"its last tick {slot(-86_400)} succeeded"
    )


def test_a_tick_is_late_after_its_grace_and_a_minute() -> None:
    """The first millisecond after both, and the verdict names the tick and since when it is late."""
    found = verdict(JOB, yesterday(), LATE)
    assert (found.word, found.due, found.since, found.is_alarm) == ("late", NOW, NOW + 120_000, True)
    assert found.why == (
        f"nobody has claimed its tick {slot()}, although its lock was free, and it was to start within 60 s"
    )


def test_a_schedule_that_has_ended_owes_nothing() -> None:
    """After the last tick no other is late, and nobody has to be there; the last one itself is late as any other."""
    last = to_datetime(NOW - DAY)
    ended = replace(JOB, schedule=Schedule("0 9 * * *", until=last))
    expected = JobVerdict("digest", "ok", why=f"its last tick {slot(-86_400)} succeeded; its schedule has ended")
    for now, groups in ((LATE, ANY), (LATE + 900 * DAY, ANY), (LATE + 900 * DAY, NOBODY)):
        assert verdict(ended, yesterday(), now, groups) == expected
    missed = verdict(ended, yesterday(slot=slot(-2 * 86_400), expiresAt=1, releasedAt=1, acquiredAt=1), LATE, NOBODY)
    assert (missed.word, missed.due) == ("late", NOW - DAY)
    to_come = replace(JOB, schedule=Schedule("0 9 * * *", starting=to_datetime(NOW + 1_000)))
    assert verdict(to_come, None, LATE).word == "ok"
    assert verdict(to_come, None, LATE, NOBODY).word == "unattended"


def test_a_tick_on_an_excluded_day_is_not_late() -> None:
    """A reader that knows the dates by the catalogue alone calls nothing late on them, and the day after as ever."""
    today = to_datetime(NOW).date()
    mine = Schedule("0 9 * * *", except_days={"holiday": [today, today + timedelta(days=1)]})
    told = replace(JOB, schedule=mine, excluded=known_exceptions(mine, today)).to_node()
    read = read_declared("digest", told)
    assert read is not None
    assert verdict(read, yesterday(), LATE + DAY) == verdict(JOB, yesterday(), LATE - 1)
    found = verdict(read, yesterday(), LATE + 2 * DAY)
    assert (found.word, found.due) == ("late", NOW + 2 * DAY)


def test_a_job_of_triggers_is_late_without_its_trigger() -> None:
    """A job that doesn't tick is judged by its schedule, too."""
    assert verdict(job(ticks=False), yesterday(), LATE, NOBODY).word == "late"


def test_a_longer_grace_is_late_later() -> None:
    """The grace of the job counts."""
    patient = job(grace=300_000)
    assert [verdict(patient, yesterday(), NOW + 360_000 + late).word for late in (0, 1)] == ["ok", "late"]


def test_the_first_of_many_late_ticks_is_named() -> None:
    """A job that nobody has run for hours is late since its first tick, however many came after it."""
    found = verdict(job("0 * * * *"), yesterday(), NOW + 5 * HOUR)
    assert found.due == NOW - DAY + HOUR


@pytest.mark.parametrize("found", [None, {"paused": False}, {"else": 1}])
def test_a_job_that_never_ran_is_late(found: object) -> None:
    """Without a record, the first tick since its declaration counts."""
    declared = job(since=NOW - 1)
    assert verdict(declared, found, LATE).due == NOW
    assert verdict(declared, found, LATE - 1) == JobVerdict(
        "digest", "ok", why="none of its ticks was claimed yet, and none is late"
    )


@pytest.mark.parametrize(
    "field", ["slot", "releasedAt", "expiresAt", "acquiredAt", "since", "resumedAt", "pausedUntil"]
)
@pytest.mark.parametrize("is_before", [True, False])
def test_what_a_tick_has_to_be_newer_than(field: str, is_before: bool) -> None:
    """A tick is late only if it came after the last slot, release or expiry, declaration and pause: not with it."""
    instant = NOW - is_before
    changed: dict[str, object] = {field: slot(-is_before) if field == "slot" else instant}
    if field == "pausedUntil":
        changed["paused"] = True
    declared = job(since=instant) if field == "since" else JOB
    found = verdict(declared, yesterday(**({} if field == "since" else changed)), LATE)
    assert found.word == ("late" if is_before else "ok"), found.why


def test_without_any_of_these_nothing_is_late() -> None:
    """Of a job that has no record, and no declared time, nobody knows which ticks it should have run."""
    assert verdict(job(since=None, declared_at=None), None, LATE).word == "ok"
    assert verdict(job(since=None, declared_at=NOW - 1), None, LATE).word == "late"


def test_a_resume_to_come_hides_no_late_tick() -> None:
    """An instant of the future, written by hand, doesn't make a tick old."""
    assert verdict(JOB, yesterday(resumedAt=LATE + 1), LATE).word == "late"
    assert verdict(JOB, yesterday(resumedAt=LATE), LATE).word == "ok"


def test_while_the_lock_is_held_only_stuck_is_said() -> None:
    """A tick that waits for its predecessor is not late, and failures before a run are not this run's."""
    running = node(slot=slot(-86_400), unfinished=slot(-86_400), acquiredAt=NOW - DAY, expiresAt=LATE, failures=9)
    found = verdict(JOB, running, LATE)
    assert found == JobVerdict(
        "digest", "running", NOW - DAY, why=f"rev-2/i2 runs its tick {slot(-86_400)}, since {slot(-86_400)}"
    )
    # To a margin after its expiry, as for a contender.
    assert [verdict(JOB, running, LATE + MARGIN + more).word for more in (-1, 0)] == ["running", "failing"]
    by_hand = verdict(JOB, {**running, "unfinished": None}, LATE)
    assert by_hand.why == f"rev-2/i2 runs without a tick, since {slot(-86_400)}"


def test_a_minimum_hold_is_no_run() -> None:
    """While a released lock is kept, no tick is late, and the run that has ended is judged."""
    kept = yesterday(expiresAt=LATE + 1, failures=1, outcome="failed")
    assert verdict(JOB, kept, LATE).word == "failing"
    assert verdict(JOB, kept, LATE + 1).word == "failing"
    assert verdict(JOB, yesterday(expiresAt=LATE + 1), LATE).word == "ok"


@pytest.mark.parametrize("over", [0, 1])
def test_a_run_that_takes_too_long_is_stuck(over: int) -> None:
    """A lock that is held longer than `expected_runtime` is stuck, since that time was over."""
    running = node(slot=slot(), unfinished=slot(), acquiredAt=NOW - 5_000 - over)
    found = verdict(job(expected_runtime=5_000), running)
    assert (found.word, found.since) == (("stuck", NOW - over) if over else ("running", NOW - 5_000))
    if over:
        assert found.why == (
            f"rev-2/i2 runs its tick {slot()}, since {slot(-6)}, longer than the 5 s that are expected"
        )


def test_a_lock_that_only_an_unlock_frees_is_stuck() -> None:
    """Held or kept: an expiry later than any lease can have blocks the job."""
    for found in (node(expiresAt=NOW + 10 * DAY), released_node(expiresAt=NOW + 10 * DAY)):
        stuck = verdict(JOB, found)
        assert stuck.word == "stuck"
        assert "its lock blocks it until" in stuck.why


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ("text", "it holds str 'text' instead of a lock record"),
        ({"expiresAt": "soon"}, "its field expiresAt is wrong"),
        (node(kind="leader"), "its `kind` is 'leader', so the name belongs to something else"),
        ({"kind": "once"}, "its `kind` is 'once'"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"once_per_tick": False}, {"overlap": "allow"}])
def test_a_node_that_nobody_can_claim_is_stuck(found: object, problem: str, options: dict[str, object]) -> None:
    """Whatever the job's options: its next tick will be refused."""
    said = verdict(job(**options), found)
    assert (said.word, said.since) == ("stuck", None)
    assert said.why.startswith(f"nobody can claim its node, so it doesn't run: {problem}")


@pytest.mark.parametrize(("failures", "word"), [(None, "ok"), (0, "ok"), (1, "ok"), (2, "failing"), (3, "failing")])
def test_a_job_fails_after_so_many_failures(failures: object, word: str) -> None:
    """As many runs of ticks as `alert_after` says, one after another."""
    found = verdict(job(alert_after=2), yesterday(outcome="failed", failures=failures, succeededSlot=slot(-DAY)))
    assert found.word == word
    if failures == 1:
        assert found.why == f"its last tick {slot(-86_400)} failed, 1 of 2 failures in a row that are reported"
    if word == "failing":
        assert found.why == (
            f"its last {failures} runs failed, were lost or died; its last tick {slot(-86_400)} failed, "
            f"and the last that succeeded was {slot(-DAY)}"
        )
        assert (found.since, found.failures) == (to_milliseconds(slot(-DAY)) + DAY, failures)


@pytest.mark.parametrize(
    ("fields", "since"),
    [
        ({}, -3),
        ({"succeededSlot": slot(-5 * 86_400)}, -4),
        ({"succeededSlot": slot(-5 * 86_400), "resumedAt": NOW - DAY - DAY // 2}, -1),
        ({"resumedAt": NOW - 2 * DAY - DAY // 2}, -2),
        ({"succeededSlot": slot(-86_400), "slot": slot(-86_400)}, -1),
    ],
    ids=["never", "once", "resumed since", "never, and resumed", "by an odd node"],
)
def test_a_job_fails_since_the_tick_after_its_last_success(fields: dict[str, object], since: int) -> None:
    """Not since before the last pause; without a success to go by, since as many ticks as have failed."""
    found = verdict(JOB, yesterday(outcome="failed", failures=3, **fields))
    assert (found.word, found.failures, found.since) == ("failing", 3, NOW + since * DAY)


@pytest.mark.parametrize("failures", [True, "7", -4, None, float("nan"), [], {}])
def test_an_odd_number_of_failures_counts_as_none(failures: object) -> None:
    """A node may hold anything: what is no number of failures is no alarm."""
    failed = yesterday(outcome="failed")
    assert verdict(JOB, {**failed, "failures": failures}) == verdict(JOB, failed)


def test_a_success_ends_the_failures_that_its_version_does_not_count() -> None:
    """An older version keeps the number as it is. Its successes are no alarm, and a run of it that dies is one."""
    kept = yesterday(failures=5)
    assert verdict(JOB, kept) == verdict(JOB, yesterday())
    died = {**kept, "unfinished": slot(-86_400), "releasedAt": None, "outcome": None}
    assert verdict(JOB, died).word == "failing"


def test_a_run_that_died_has_failed() -> None:
    """It counts before the next claim has counted it, but not if it was cancelled, or was interrupted in order."""
    died = yesterday(unfinished=slot(-86_400), releasedAt=None, outcome=None)
    found = verdict(JOB, died)
    assert (found.word, found.since, found.failures) == ("failing", NOW - DAY, 1)
    assert found.why == f"its last tick {slot(-86_400)} died with rev-2/i2"
    assert verdict(job(alert_after=2), died).word == "ok"
    assert verdict(job(alert_after=2), {**died, "failures": 1}).word == "failing"
    cancelled = verdict(JOB, {**died, "fence": 7, "cancel": 7})
    assert (cancelled.word, cancelled.why) == ("ok", f"its last tick {slot(-86_400)} was claimed")
    interrupted = yesterday(unfinished=slot(-86_400), outcome="interrupted")
    assert verdict(JOB, interrupted).why == f"its last tick {slot(-86_400)} interrupted"


def test_a_job_that_was_only_run_by_hand_has_no_last_tick() -> None:
    """What its node says is not of runs of ticks."""
    by_hand = yesterday(slot=None, outcome="failed", failures=1)
    assert verdict(JOB, by_hand).why == "none of its ticks was claimed yet, and none is late"


def test_late_comes_before_failing() -> None:
    """A job that has failed and now doesn't run at all is late."""
    assert verdict(JOB, yesterday(failures=3), LATE).word == "late"


def test_a_pause_says_who_when_and_why() -> None:
    """The words of the pause, whatever else there is to say; one by hand in the console has none."""
    fields = {"paused": True, "pausedBy": "ops@host", "pausedAt": NOW - 5_000, "pausedWhy": "a new\nbank"}
    found = verdict(JOB, yesterday(**fields, pausedUntil=LATE + 1, failures=5), LATE, NOBODY)
    assert found == JobVerdict(
        "digest",
        "paused",
        NOW - 5_000,
        why=f"paused by ops@host until {to_text(LATE + 1)} (a new ⏎ bank); since {slot(-5)}",
    )
    assert verdict(JOB, "text").word == "stuck"
    assert verdict(JOB, {"paused": "yes"}) == JobVerdict("digest", "paused", why="paused by an operator")


def test_a_pause_that_is_over_is_none() -> None:
    """From the very instant of its end the job is judged again."""
    fields = yesterday(paused=True, pausedUntil=LATE)
    assert [verdict(JOB, fields, LATE + more).word for more in (-1, 0)] == ["paused", "ok"]


def test_a_pause_of_more_than_a_day_is_a_warning() -> None:
    """Somebody may have forgotten it; it is no alarm."""
    pauses = [verdict(JOB, {"paused": True, "pausedAt": NOW - DAY - more}) for more in (0, 1)]
    assert [(one.word, one.is_warning, one.is_alarm) for one in pauses] == [
        ("paused", False, False),
        ("paused", True, False),
    ]


def test_a_disabled_job_is_paused_by_its_program() -> None:
    """Nothing else is said of a job that is declared disabled."""
    found = verdict(job(disabled=True), "text", LATE, NOBODY)
    assert found == JobVerdict("digest", "paused", why="declared disabled: jobs.digest (jobs.py:5)")


def test_a_dead_run_of_a_job_that_nobody_has_is_named() -> None:
    """Its lock keeps an instance that is started from running the job; one that is free, or only kept, does not."""
    held = node(instanceId="api-00042", instance="00bf", acquiredAt=NOW, expiresAt=LATE + 60_000)
    found = verdict(JOB, held, LATE, NOBODY)
    assert found.word == "unattended"
    assert found.why.endswith(f"; api-00042/00bf still holds its lock, until {to_text(LATE + 60_000)}")
    for free in ({**held, "expiresAt": NOW}, {**held, "releasedAt": LATE}):
        assert "holds" not in verdict(JOB, free, LATE, NOBODY).why


@pytest.mark.parametrize("found", [None, "text", node()])
def test_a_job_that_nobody_has_is_unattended(found: object) -> None:
    """If it ticks and no live group has it, whatever its node says; a job of triggers needs no group."""
    odd = (replace(group(seen_at=1), jobs=None), replace(group(), seen_at=None))
    seen = (group(seen_at=NOW - HOUR), group(seen_at=NOW - 2 * HOUR), group("other", LATE), *odd)
    unattended = verdict(JOB, found, LATE, seen)
    assert unattended == JobVerdict(
        "digest",
        "unattended",
        NOW - HOUR,
        why=f"no live instance has it, so nobody runs its ticks; one was last seen at {slot(-3_600)}",
    )
    never = verdict(JOB, found, LATE, NOBODY)
    assert (never.word, never.since) == ("unattended", None)
    assert never.why == "no live instance has it, so nobody runs its ticks"
    assert verdict(job(ticks=False, since=NOW), None, NOW, NOBODY).word == "ok"


def test_a_group_lives_for_three_heartbeats() -> None:
    """A job is attended until the last of its groups has been silent for longer; unreadable groups are no alarm."""
    silences = (90_000, 90_001)
    assert [verdict(JOB, yesterday(), NOW, (group(seen_at=NOW - silence),)).word for silence in silences] == [
        "ok",
        "unattended",
    ]
    assert verdict(JOB, yesterday(), NOW, None).word == "ok"


def test_a_job_that_was_taken_out_is_retired() -> None:
    """It is no alarm, whatever its node says."""
    gone = (group("other", LATE, first_seen_at=1),)
    for found in ("text", {"paused": True}, yesterday(failures=5)):
        assert verdict(JOB, found, LATE, gone) == JobVerdict(
            "digest", "retired", why="taken out: newer instances of api don't have it"
        )


def test_overlap_allow_is_judged_for_late_alone() -> None:
    """Its runs hold no lock, and nothing is known of how they end."""
    free = job(overlap="allow", expected_runtime=1)
    claimed = yesterday(expiresAt=NOW - DAY, releasedAt=NOW - DAY, failures=5)
    assert verdict(free, claimed, LATE).word == "late"
    assert verdict(free, claimed) == JobVerdict(
        "digest", "ok", why="no tick is late; of how its runs ended, overlap='allow' leaves no trace"
    )


def test_a_lock_that_does_not_say_since_when_it_is_held_is_running() -> None:
    """Somebody has removed that field: how long the run has taken isn't known."""
    found = verdict(job(expected_runtime=1), node(acquiredAt=None))
    assert (found.word, found.since, found.why) == ("running", None, "rev-2/i2 runs without a tick")


def test_without_once_per_tick_nothing_is_judged() -> None:
    """No tick is remembered, so neither late, stuck nor failing can be said; paused and unattended can."""
    plain = job(once_per_tick=False, expected_runtime=1)
    nothing = JobVerdict("digest", "ok", why="nothing is judged: with once_per_tick=False no tick is remembered")
    for found in (None, yesterday(failures=3), released_node()):
        assert verdict(plain, found, LATE) == nothing
    assert verdict(plain, node(acquiredAt=1)).word == "running"
    assert verdict(plain, {"paused": True}).word == "paused"
    assert verdict(plain, None, NOW, NOBODY).word == "unattended"


NINE, TEN = Schedule("0 9 * * *"), Schedule("0 10 * * *")


def others(schedule: Schedule = TEN, name: str = "f" * 16, service: str = "api") -> tuple[Group, ...]:
    """Live instances of two revisions: those of the declared schedule, and others."""
    fields = frozenset({"digest"}), service, 0, LATE
    declared = Group("0" * 16, *fields, digests={"digest": digest(NINE)})
    return declared, group("digest", LATE), Group(name, *fields, digests={"digest": digest(schedule)})


SAID = "live instances of api run it by another schedule than [0 9 * * *] (UTC), which api-00042-abc declared last"


@pytest.mark.parametrize(
    ("found", "now", "word"),
    [
        (yesterday(), NOW, "ok"),
        (node(acquiredAt=NOW - 9_000, slot=slot(), unfinished=slot()), NOW, "running"),
        ({"paused": True, "pausedAt": NOW}, NOW, "paused"),
    ],
)
def test_revisions_that_disagree_are_a_warning(found: object, now: int, word: str) -> None:
    """Its reason comes first; the verdict stays, and nobody has to be told."""
    alone, both = verdict(JOB, found, now, others(NINE)), verdict(JOB, found, now, others())
    assert (alone.word, alone.is_warning) == (word, False)
    assert both == replace(alone, is_warning=True, why=f"{SAID}; {alone.why}")
    assert not both.is_alarm


def test_an_alarm_says_that_revisions_disagree() -> None:
    """It may be the cause; an alarm is no warning, and its own reason comes first."""
    alone, both = verdict(JOB, yesterday(), LATE, others(NINE)), verdict(JOB, yesterday(), LATE, others())
    assert alone.word == "late"
    assert both == replace(alone, why=f"{alone.why}; {SAID}")


def test_a_disabled_job_that_somebody_runs_is_a_warning() -> None:
    """One revision has it declared disabled, and instances of another run it."""
    found = verdict(job(disabled=True), yesterday(), NOW, others(NINE)[:1])
    assert (found.word, found.is_warning) == ("paused", True)
    assert found.why.startswith("live instances of api run it, although api-00042-abc has declared it disabled; ")


def test_those_who_disagree_are_named() -> None:
    """The services of the instances, each once, and who has declared the job: by its service if it has no revision."""
    found = others(service="web") + others(name="e" * 16) + others(service="local") + others(service="web")
    assert "instances of api and its program and web run it" in verdict(JOB, yesterday(), groups=found).why
    assert verdict(job(revision=None), yesterday(), groups=found).why.endswith(
        f"(UTC), which api declared last; its last tick {slot(-86_400)} succeeded"
    )


def test_what_the_database_says_is_printed_safely() -> None:
    """A hostile name of an instance, a reason or an outcome can't move the cursor, nor fill the screen."""
    evil = "\x1b[2J\u202eab\n" + "x" * 2_000
    hostile = node(instance=evil, instanceId=evil, slot=slot(), unfinished=slot())
    sentences = [
        verdict(JOB, hostile).why,
        verdict(JOB, {"paused": True, "pausedBy": evil, "pausedWhy": evil}).why,
        verdict(JOB, yesterday(outcome=evil)).why,
        verdict(JOB, yesterday(failures=2, succeededSlot=slot(-DAY))).why,
        verdict(job(service=evil), None, LATE, NOBODY).why,
        verdict(job(where=evil, disabled=True), None).why,
        verdict(JOB, node(kind=evil)).why,
        verdict(job(name=evil), None).job,
        verdict(job(revision=evil), yesterday(), groups=others(service=evil)).why,
    ]
    assert [text for text in sentences if not text.isprintable() or len(text) > 1_600] == []


def test_the_alarms_are_the_five() -> None:
    """Somebody has to be told of these words, and of no other."""
    assert sorted(ALARMS) == ["failing", "late", "stuck", "unattended", "undeclared"]


def test_a_thousand_jobs_are_judged_from_few_ticks() -> None:
    """However long ago a job was claimed, a verdict takes one tick of the schedule, and none just after a claim."""
    asked = 0

    class Counting(Schedule):
        __slots__ = ()

        def next_after(self, instant):  # type: ignore[no-untyped-def]  # as its parent
            nonlocal asked
            asked += 1
            return super().next_after(instant)

    every_minute = Counting("* * * * *")
    declared = [job(schedule=every_minute, name=f"job-{number}") for number in range(1_000)]
    for one in declared:
        assert verdict(one, yesterday(), LATE + 300 * DAY).word == "late"
    assert asked == 1_000
    recent = node(slot=slot(60), acquiredAt=LATE - 1, expiresAt=LATE - 1, releasedAt=LATE - 1, outcome="succeeded")
    assert verdict(declared[0], recent, LATE).word == "ok"
    assert asked == 1_000
