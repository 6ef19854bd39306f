"""The verdict about a job: as it should be, or not and why. Pure: decided from nodes that were read, and RTDB's time.

The first word that holds:

    unknown      the job's entry in the catalogue can't be read
    retired      taken out on purpose: no live group of instances has it, while a newer one of its service lives
    paused       somebody paused it, or it is declared disabled
    unattended   it has ticks to come, and no live group of instances has it
    stuck        its lock is held for longer than a run takes, or nobody can claim its node
    running      its lock is held
    late         its lock is free, and a tick that should have been claimed was not
    failing      its last runs of ticks failed, were lost or died
    ok           none of these

A caller may name the jobs that have to be there. One of them may be missing in the catalogue, or be `unknown` or
`retired`; then it is:

    undeclared   nothing is known of a job that somebody expects

A tick is late if it was due longer than the job's grace and a minute ago, and came when nothing spoke against its run:
after the slot that was claimed last, after the lock became free, after this schedule was declared, and after the last
pause. So what overlap skipped, a pause held back, or a new line had before its deployment is not late, and a job that
never ran is.

A job with overlap="allow" leaves no trace of its runs, so the node says of it only whether it is late. With
once_per_tick=False it remembers no ticks, so nothing is judged by it. A node that nobody can claim is stuck for both.

A job may be muted (`ops/mutes`). Its verdict is the same then, but it is no alarm.

Where live instances run the job by another schedule than the one that was declared last, as in a rolling deployment, or
although it is declared disabled, the verdict is a warning as well, whatever its word is. Ticks are judged by what was
declared.

Limit: after an unlock (`expiresAt = 0`) the node doesn't show when the lock was freed. So a tick that came while the
lock was held is late then, until the next claim.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from firecron.base.instants import number, to_datetime, to_milliseconds, to_text, whole
from firecron.base.texts import plain
from firecron.cron.schedule import due_after, newest
from firecron.errors import Malformed
from firecron.jobs.about import NOTHING, About
from firecron.jobs.catalogue import CatalogueEntry, Group, dissenting, live_groups_of, retired
from firecron.lock.fields import Pause, misfit, pause_in, resumed_at
from firecron.lock.record import DAY, LockRecord, after_claim, parse
from firecron.ops.mutes import Mute
from firecron.ops.remedy import UNDECLARED, Remedy, service_in_words
from firecron.runs.policy import freed_at

VerdictWord: TypeAlias = Literal[
    "unknown", "retired", "paused", "unattended", "stuck", "running", "late", "failing", "ok", "undeclared"
]

# The words that somebody has to be told.
ALARMS: frozenset[VerdictWord] = frozenset({"unattended", "stuck", "late", "failing", "undeclared"})

# The words of a job that was not judged: nothing says that it runs.
_NOT_JUDGED: frozenset[VerdictWord] = frozenset({"unknown", "retired", "undeclared"})

# How long after the end of its grace a tick is late. A claim, and its retries while RTDB is slow, take this at most.
ALERT_MARGIN = 60_000


@dataclass(frozen=True, slots=True)
class JobVerdict:
    """The verdict about one job. Instants are milliseconds of RTDB's clock.

    `since` is when this state began, `due` the first tick that is late; None where there is none, or it is not known.
    A job fails since the first tick after its last success. `failures` counts its runs since then that failed, were
    lost or died. `why` is one sentence for people. `is_warning` marks what is no alarm, but should be looked at, as a
    pause of more than a day, or instances that disagree. `about` is what the job's program says of it, and `remedy`
    what to do, where something is to be done. `hold` is the hold that pauses the job. While there is a `mute`, nobody
    is to be told of it.
    """

    job: str
    word: VerdictWord
    since: int | None = None
    due: int | None = None
    why: str = ""
    is_warning: bool = False
    about: About = NOTHING
    failures: int = 0
    hold: str | None = None
    mute: Mute | None = None
    remedy: Remedy | None = None

    @property
    def is_alarm(self) -> bool:
        """Whether somebody has to be told."""
        return self.word in ALARMS and self.mute is None

    @property
    def is_judged(self) -> bool:
        """Whether it says something about the job, and not only that it was taken out or can't be read."""
        return self.word not in _NOT_JUDGED

    def to_json(self) -> dict[str, object]:
        """Return the verdict for programs: it always has every field, and instants are texts."""
        return {
            **self.to_health(),
            "failures": self.failures,
            "warning": self.is_warning,
            **self.about.fields(),
            "remedy": self.remedy and self.remedy.to_json(),
        }

    def to_health(self) -> dict[str, object]:
        """Return what `/health` says: the verdict, and nothing more of the job."""
        return {
            "job": self.job,
            "verdict": self.word,
            "since": None if self.since is None else to_text(self.since),
            "due": None if self.due is None else to_text(self.due),
            "why": self.why,
        }


def split_names(texts: Iterable[str]) -> list[str]:
    """Return the expected names in texts such as `digest,import`, each once. None of them has to be valid."""
    return list(dict.fromkeys(name.strip() for text in texts for name in text.split(",") if name.strip()))


def undeclared(names: Iterable[str], verdicts: Iterable[JobVerdict]) -> list[JobVerdict]:
    """Return an alarm for each of these names, which somebody expects, that no job has which was judged."""
    known = {verdict.job: verdict for verdict in verdicts}
    absent = JobVerdict("", "undeclared", why="no job of this name is in the catalogue")
    found = ((name, known.get(name, absent)) for name in map(plain, dict.fromkeys(names)))
    return [
        JobVerdict(name, "undeclared", why=verdict.why, about=verdict.about, remedy=UNDECLARED)
        for name, verdict in found
        if not verdict.is_judged
    ]


def evaluate(
    declared: CatalogueEntry,
    node: object,
    groups: Collection[Group] | None,
    now: int,
    margin: int,
    alert_margin: int = ALERT_MARGIN,
    mute: Mute | None = None,
) -> JobVerdict:
    """Return the verdict about a job at the time `now` of RTDB's clock, given the node of its lock.

    Without `groups`, because they can't be read, no job is retired or unattended. Durations are milliseconds.
    """
    found = replace(_evaluate(declared, node, groups, now, margin, alert_margin), about=declared.about)
    if mute is not None and now < mute.until:
        found = replace(found, mute=mute)
    others = dissenting(declared, groups or (), now)
    if not others:
        return found
    said = _disagreement(declared, others)
    if found.word in ALARMS:
        return replace(found, why=f"{found.why}; {said}")
    return replace(found, why=f"{said}; {found.why}", is_warning=True)


def _evaluate(
    declared: CatalogueEntry, node: object, groups: Collection[Group] | None, now: int, margin: int, alert_margin: int
) -> JobVerdict:
    job, fields = plain(declared.name), node if isinstance(node, dict) else {}
    if groups is not None and retired(declared, groups, now):
        why = f"taken out: newer instances of {service_in_words(declared.service)} don't have it"
        return JobVerdict(job, "retired", why=why)
    pause = pause_in(fields)
    if pause is not None and pause.holds(now):
        return _paused(job, pause, now)
    if declared.disabled:
        return JobVerdict(job, "paused", why=f"declared disabled: {plain(declared.where)}")
    has_ended = declared.schedule.has_ended(to_datetime(now))
    if groups is not None and declared.ticks and not has_ended and not live_groups_of(declared.name, groups, now):
        return _unattended(job, declared, groups, _still_held(node, now, margin))
    try:
        current = parse(node, now)
    except Malformed as error:
        return _malformed(job, str(error))
    record = current if isinstance(current, LockRecord) else None
    if wrong := misfit(current.kept.get("kind"), None):
        return _malformed(job, wrong)
    if record is not None and record.is_live(now, margin) and (held := _held(job, declared, record, now)):
        return held
    if not declared.once_per_tick:
        return JobVerdict(job, "ok", why="nothing is judged: with once_per_tick=False no tick is remembered")
    limit = now - declared.grace - alert_margin
    due = _late_before(limit, declared, record, fields, now)
    if due is not None:
        return _late(job, declared, due, due + now - limit)
    if not declared.has_lease:
        return JobVerdict(job, "ok", why="no tick is late; of how its runs ended, overlap='allow' leaves no trace")
    found = _ended(job, declared, record, resumed_at(fields, now))
    return replace(found, why=f"{found.why}; its schedule has ended") if has_ended else found


def _paused(job: str, pause: Pause, now: int) -> JobVerdict:
    since = "" if pause.at is None else f"; since {to_text(pause.at)}"
    is_warning = pause.at is not None and now - pause.at > DAY
    return JobVerdict(job, "paused", pause.at, why=f"{pause}{since}", is_warning=is_warning, hold=pause.hold)


def _unattended(job: str, declared: CatalogueEntry, groups: Collection[Group], held: str) -> JobVerdict:
    named = (group for group in groups if group.jobs is not None and declared.name in group.jobs)
    last_seen = max((group.seen_at for group in named if group.seen_at is not None), default=None)
    seen = "" if last_seen is None else f"; one was last seen at {to_text(last_seen)}"
    why = f"no live instance has it, so nobody runs its ticks{seen}{held}"
    return JobVerdict(job, "unattended", last_seen, why=why)


def _still_held(node: object, now: int, margin: int) -> str:
    """Return who still holds the lock of a job that no live instance has: whoever is started can't claim a tick yet."""
    try:
        record = parse(node, now)
    except Malformed:
        return ""
    if not isinstance(record, LockRecord) or record.releasedAt is not None or not record.is_live(now, margin):
        return ""
    return f"; {plain(record.owner)} still holds its lock, until {to_text(whole(record.expiresAt))}"


def _malformed(job: str, problem: str) -> JobVerdict:
    return JobVerdict(job, "stuck", why=f"nobody can claim its node, so it doesn't run: {plain(problem)}")


def _held(job: str, declared: CatalogueEntry, record: LockRecord, now: int) -> JobVerdict | None:
    """Return the verdict about a job whose lock is not free; None if it is only kept for its minimum time."""
    since = None if record.acquiredAt is None else whole(record.acquiredAt)
    if record.is_stuck(now):
        until = to_text(whole(record.expiresAt))
        why = f"its lock blocks it until {until}, which is later than any lease can expire"
        return JobVerdict(job, "stuck", since, why=why)
    if record.releasedAt is not None:
        return None
    owner, expected = plain(record.owner), declared.expected_runtime
    what = "runs without a tick" if record.unfinished is None else f"runs its tick {record.unfinished}"
    said = f"{owner} {what}{'' if since is None else f', since {to_text(since)}'}"
    # By once_per_tick=False or overlap="allow", other holders of the lock count as its runs.
    if since is None or expected is None or now - since <= expected or not declared.once_per_tick:
        return JobVerdict(job, "running", since, why=said)
    why = f"{said}, longer than the {expected / 1000:g} s that are expected"
    return JobVerdict(job, "stuck", since + expected, why=why)


def _late_before(
    limit: int, declared: CatalogueEntry, record: LockRecord | None, fields: Mapping[str, object], now: int
) -> int | None:
    """Return the first tick that should have been claimed and was not, if it is from before this limit."""
    after = max(_since_when(declared, record, fields, now), default=limit)
    # Most jobs have been claimed since: they are decided without the schedule.
    if after >= limit:
        return None
    due = due_after(declared.schedule, after)
    return int(due) if due < limit else None


def _since_when(
    declared: CatalogueEntry, record: LockRecord | None, fields: Mapping[str, object], now: int
) -> Iterator[int]:
    """Yield the instants up to which something spoke against a run. A late tick is newer than each of them."""
    if record is not None:
        yield freed_at(record)
        if record.slot is not None:
            yield to_milliseconds(record.slot)
    since = _since(declared)
    if since is not None:
        yield since
    resumed = resumed_at(fields, now)
    if resumed is not None:
        yield resumed


def _late(job: str, declared: CatalogueEntry, due: int, since: int) -> JobVerdict:
    why = (
        f"nobody has claimed its tick {to_text(due)}, although its lock was free, and it was to start within "
        f"{declared.grace / 1000:g} s"
    )
    return JobVerdict(job, "late", since, due, why)


def _ended(job: str, declared: CatalogueEntry, record: LockRecord | None, resumed: int | None) -> JobVerdict:
    """Return the verdict about a job of which no tick is late, by how its last runs have ended."""
    if record is None or record.slot is None:
        return JobVerdict(job, "ok", why="none of its ticks was claimed yet, and none is late")
    died = record.open_slot is not None and record.releasedAt is None
    # As the next claim would count it.
    counted = after_claim(record.failures, record.open_slot, record.releasedAt, record.outcome)
    failures = max(0, number(counted) or 0)
    last = f"its last tick {record.slot} " + (
        f"died with {plain(record.owner)}" if died else plain(record.outcome or "was claimed")
    )
    if failures < declared.alert_after:
        some = f", {failures} of {declared.alert_after} failures in a row that are reported" if failures else ""
        return JobVerdict(job, "ok", why=f"{last}{some}", failures=failures)
    succeeded = record.newest_success()
    so_far = "" if succeeded is None else f", and the last that succeeded was {succeeded}"
    in_a_row = f"its last {failures} runs failed, were lost or died; " if failures > 1 else ""
    return JobVerdict(
        job,
        "failing",
        _failing_since(declared, succeeded, failures, resumed, record.slot),
        why=f"{in_a_row}{last}{so_far}",
        failures=failures,
    )


def _since(declared: CatalogueEntry) -> int | None:
    """Return since when the job has its schedule, as far as the catalogue tells."""
    return declared.since if declared.since is not None else declared.declared_at


def _failing_since(
    declared: CatalogueEntry, succeeded: str | None, failures: int, resumed: int | None, last: str
) -> int:
    """Return the tick with which the failures began: the first one after the last success.

    Without a success to go by, it is as many ticks back as there are failures, as if each of them had run.
    """
    newest_slot = to_milliseconds(last)
    after = max(_since(declared) or 0, resumed or 0, 0 if succeeded is None else to_milliseconds(succeeded))
    if succeeded is not None:
        return int(min(newest_slot, due_after(declared.schedule, after)))
    return to_milliseconds([*newest(declared.schedule, after, newest_slot, failures), last][0])


def _disagreement(declared: CatalogueEntry, others: Collection[Group]) -> str:
    where = " and ".join(sorted({service_in_words(group.service) for group in others}))
    last = plain(declared.revision) if declared.revision else service_in_words(declared.service)
    if declared.disabled:
        return f"live instances of {where} run it, although {last} has declared it disabled"
    schedule = plain(str(declared.schedule))
    return f"live instances of {where} run it by another schedule than {schedule}, which {last} declared last"
