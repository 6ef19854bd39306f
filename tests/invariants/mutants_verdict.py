"""Every comparison of the verdict about a job, broken in turn: the list for `tests.mutations`."""

from __future__ import annotations

from tests.invariants.mutants import Mutant

REMEDIES = "tests/unit/ops/test_remedies.py"
HEALTH = "tests/unit/ops/test_health.py"
DAEMON = "tests/unit/ops/test_health_daemon.py"
GROUPS = "tests/unit/jobs/test_catalogue_groups.py"
REPORT = "tests/unit/ops/test_board.py"
MUTES = "tests/unit/ops/test_mutes.py"
LATENESS = "tests/unit/scheduler/test_lateness.py"
TOLD = "tests/unit/ops/test_told.py"
NOTIFY = "tests/process/test_notify.py"
CHANNELS = "tests/process/test_notify_channels.py"
MESSAGES = "tests/process/test_notify_messages.py"
LATE = "tests/unit/ops/test_late.py"


def _in(file: str, *changes: tuple[str, str, str]) -> tuple[Mutant, ...]:
    return tuple(Mutant(file, *change) for change in changes)


VERDICT_MUTANTS = (
    *_in(
        "ops/health.py",
        ("return self.word in ALARMS", "return True", HEALTH),
        # The order of the words, and when each of them holds.
        ("groups is not None and retired(declared, groups, now)", "False", HEALTH),
        ("pause is not None and pause.holds(now)", "pause is not None", HEALTH),
        ("pause is not None and pause.holds(now)", "False", HEALTH),
        ("    if declared.disabled:\n        return Job", "    if False:\n        return Job", HEALTH),
        ("groups is not None and declared.ticks and not", "groups is not None and not", HEALTH),
        ("groups is not None and declared.ticks and not", "False and not", HEALTH),
        (
            "    except Malformed as error:\n        return _malformed(job, str(error))",
            "    finally:\n        pass",
            HEALTH,
        ),
        ('misfit(current.kept.get("kind"), None)', "None", HEALTH),
        ("record is not None and record.is_live(now, margin) and (held", "False and (held", HEALTH),
        ("record is not None and record.is_live(now, margin) and (held", "record is not None and (held", HEALTH),
        ("record.is_live(now, margin) and (held", "record.is_live(now, 0) and (held", HEALTH),
        ("    if not declared.once_per_tick:", "    if False:", HEALTH),
        ("limit = now - declared.grace - alert_margin", "limit = now - declared.grace", DAEMON),
        ("limit = now - declared.grace - alert_margin", "limit = now - alert_margin", DAEMON),
        ("    if due is not None:", "    if False:", DAEMON),
        ("    if not declared.has_lease:", "    if False:", HEALTH),
        # Paused, and unattended.
        ("is_warning = pause.at is not None and now - pause.at > DAY", "is_warning = False", HEALTH),
        ("now - pause.at > DAY", "now - pause.at >= DAY", HEALTH),
        ("group.jobs is not None and declared.name in group.jobs", "group.jobs is not None", HEALTH),
        # Held.
        ("    if record.is_stuck(now):", "    if False:", HEALTH),
        ("    if record.releasedAt is not None:\n        return None\n", "", HEALTH),
        ('if record.unfinished is None else f"runs its', 'if record.slot is None else f"runs its', HEALTH),
        ("now - since <= expected", "now - since < expected", HEALTH),
        ("now - since <= expected", "True", HEALTH),
        (
            ' or not declared.once_per_tick:\n        return JobVerdict(job, "running"',
            ':\n        return JobVerdict(job, "running"',
            HEALTH,
        ),
        ("since + expected, why=why", "since, why=why", HEALTH),
        # Late.
        ("default=limit)", "default=0)", HEALTH),
        ("int(due) if due < limit else None", "int(due) if due <= limit else None", DAEMON),
        ("int(due) if due < limit else None", "int(due)", DAEMON),
        ("        yield freed_at(record)\n", "", DAEMON),
        ("            yield to_milliseconds(record.slot)\n", "            pass\n", DAEMON),
        ("        yield since\n", "        pass\n", DAEMON),
        ("declared.since if declared.since is not None else declared.declared_at", "declared.since", HEALTH),
        ("declared.since if declared.since is not None else declared.declared_at", "declared.declared_at", DAEMON),
        ("    if resumed is not None:", "    if False:", DAEMON),
        # Failing.
        ("record is None or record.slot is None", "record is None", HEALTH),
        ("record.open_slot is not None and record.releasedAt is None", "record.releasedAt is None", HEALTH),
        ("record.open_slot is not None and record.releasedAt is None", "record.open_slot is not None", HEALTH),
        ("record.open_slot is not None and", "record.unfinished is not None and", HEALTH),
        ("failures < declared.alert_after", "failures <= declared.alert_after", HEALTH),
        ("failures < declared.alert_after", "False", HEALTH),
        ("max(0, number(counted)", "max(-9, number(counted)", HEALTH),
        (
            "after_claim(record.failures, record.open_slot, record.releasedAt, record.outcome)",
            "record.failures",
            HEALTH,
        ),
        ("if failures > 1 else", "if failures else", HEALTH),
        ("_since(declared) or 0, resumed or 0,", "_since(declared) or 0, 0,", HEALTH),
        ("newest(declared.schedule, after, newest_slot, failures)", "[last]", HEALTH),
    ),
    *_in(
        "ops/health.py",
        # Revisions that disagree.
        ("    if not others:\n        return found\n", "    return found\n", HEALTH),
        ("    if found.word in ALARMS:\n", "    if True:\n", HEALTH),
        ("    if found.word in ALARMS:\n", "    if False:\n", HEALTH),
        ("    if found.word in ALARMS:\n", "    if found.is_alarm:\n", MUTES),
        ("self.word in ALARMS and self.mute is None", "self.word in ALARMS", MUTES),
        ("mute is not None and now < mute.until", "mute is not None", MUTES),
        ("mute is not None and now < mute.until", "mute is not None and now <= mute.until", MUTES),
        ("    if declared.disabled:\n        return f", "    if False:\n        return f", HEALTH),
        (
            "sorted({service_in_words(group.service) for group in others})",
            "[service_in_words(group.service) for group in others]",
            HEALTH,
        ),
        (
            "plain(declared.revision) if declared.revision else service_in_words(declared.service)",
            "service_in_words(declared.service)",
            HEALTH,
        ),
    ),
    *_in(
        "ops/remedies.py",
        # What would be refused.
        ("return not can_run or (", "return (", REMEDIES),
        (" or (lock is not None and lock.is_taken)", "", REMEDIES),
        ("return is_paused\n", "return False\n", REMEDIES),
        ("return not is_paused\n", "return False\n", REMEDIES),
        ("return lock is None or not _would_hear(lock)\n", "return lock is None\n", REMEDIES),
        ("(is_alone or not _would_hear(lock))", "True", REMEDIES),
        ("(is_alone or not _would_hear(lock))", "(not _would_hear(lock))", REMEDIES),
        ("lock.why_not_cancelled is None and not lock.is_cancelled", "lock.why_not_cancelled is None", REMEDIES),
        # Which tick.
        ("due - 1, now - declared.grace, 1", "due - 1, now, 1", REMEDIES),
        ("due - 1, now - declared.grace, 1", "due - 1, due, 1", REMEDIES),
        ("'instances are' if declared.ticks else 'trigger is'", "'instances are'", REMEDIES),
        ("lock.unfinished or lock.slot", "lock.unfinished", REMEDIES),
    ),
    *_in(
        "jobs/catalogue.py",
        ("name in group.jobs and group.is_live(now)]", "name in group.jobs]", GROUPS),
        ("if (group.seen_at or 0) > since)", "if (group.seen_at or 0) >= since)", GROUPS),
        ("if (group.seen_at or 0) > since)", "if True)", GROUPS),
        ("    if declared.disabled or not others:", "    if not others:", GROUPS),
        ("group.digests.get(name, mine) != mine", "group.digests.get(name) != mine", GROUPS),
        ("group.digests.get(name, mine) != mine", "True", GROUPS),
        (" or len(value) != _LENGTH * len(names)", "", GROUPS),
        ("digest(schedules[name]) for name in names", "digest(schedules[name]) for name in schedules", GROUPS),
    ),
    *_in(
        "ops/board.py",
        ("self._timing.mono() - (value.read_at or 0) >= most", "True", REPORT),
        ("self._timing.mono() - (value.read_at or 0) >= most", "self._timing.mono() - value.read_at > most", REPORT),
        ("_CATALOGUE_AGE = 300.0", "_CATALOGUE_AGE = 0.0", REPORT),
        ("_CATALOGUE_AGE = 300.0", "_CATALOGUE_AGE = inf", REPORT),
        ("self._groups.get(age=groups_age)", "self._groups.get()", REPORT),
        ("if not names <= self._group_names:", "if False:", REPORT),
        ("if not names <= self._group_names:", "if names:", REPORT),
        ("if not names <= self._group_names:", "if names != self._group_names:", REPORT),
        ("error is not None and not self._is_away, ", "error is not None, ", REPORT),
        ("        self.note(None)\n", "", REPORT),
        ("if before not in (None, self._holds):", "if False:", REPORT),
        ("if before not in (None, self._holds):", "if before != self._holds:", REPORT),
    ),
    *_in(
        "scheduler/lateness.py",
        ("if evaluator is None or moment is None:", "if moment is None:", LATENESS),
        ("before not in (None, self._last)", "before != self._last", LATENESS),
        ("before not in (None, self._last)", "False", LATENESS),
        (" or (rank is not None and not self._had_rank)", "", LATENESS),
        ("(rank is not None and not self._had_rank)", "rank is not None", LATENESS),
        ("rank is None or rank < _FIRST", "rank is None", LATENESS),
        ("rank < _FIRST", "rank <= _FIRST", LATENESS),
        ("if is_due and (is_first or self._told):", "if is_due and is_first:", LATENESS),
        ("moment.mono < self._began + _KNOWN * self._interval", "False", LATENESS),
        ("moment.mono < self._began + _KNOWN * self._interval", "True", LATENESS),
        ("one.age < age)", "one.age <= age)", LATENESS),
        ("one.job in before or ", "", LATENESS),
        (" if self._registry.is_wanted(job)}", "}", LATENESS),
        (" or term is not self._term", "", LATENESS),
        ("if job in muted}", "if False}", LATENESS),
        ("if one.mark is not None and not one.is_muted and", "if one.mark is not None and", LATENESS),
        ("            if now != before.get(one.job):", "            if now:", LATENESS),
    ),
    *_in(
        "ops/told.py",
        ("or Told(WELL, now, sent_at=now, last=WELL)", "or Told(WELL, now, last=WELL)", TOLD),
        ("is_sure = told.token is None or told.sent_at is not None", "is_sure = True", TOLD),
        ("changes=told.changes + 1", "changes=told.changes", TOLD),
        ("        if word == last:\n", "        if False:\n", TOLD),
        ("max(now + patience, _earliest(told))", "now + patience", TOLD),
        ("max(now + patience, _earliest(told))", "_earliest(told)", TOLD),
        ("is_due = told.again_at <= now or", "is_due = told.again_at < now or", TOLD),
        ("or (patience == 0 and told.token is None)", "or patience == 0", TOLD),
        ("if is_due and _earliest(told) <= now", "if is_due", TOLD),
        ("0 if told.sent_to else", "0 if False else", TOLD),
        ("    if told is None:\n        return SILENCE  #", "    if False:\n        return SILENCE  #", TOLD),
        ("    if told.token != token:\n", "    if False:\n", TOLD),
        ("sent_at=now if by_all else None", "sent_at=now", TOLD),
        ("id=told.id or token", "id=token", TOLD),
        ("min(CLAIM * 2 ** min(told.unanswered, 10), SELDOM)", "CLAIM * 2 ** min(told.unanswered, 10)", TOLD),
        ("unanswered=told.unanswered + 1", "unanswered=1", TOLD),
        ("told is None or told.token != token or told.sent_at", "told is None or told.sent_at", TOLD),
        ("    if verdict.mute is not None:\n", "    if False:\n", TOLD),
        ("(failures or 0) >= declared.alert_after", "(failures or 0) > declared.alert_after", TOLD),
    ),
    *_in(
        "notify.py",
        ('word if word in ("failing", WELL) else None', "word", NOTIFY),
        ("        if may_speak(self._crons):\n", "        if True:\n", NOTIFY),
        (
            "            self._note(notice, message, by_all=not left)\n",
            "            self._note(notice, message, by_all=True)\n",
            CHANNELS,
        ),
        ('.replace("<", "&lt;")', "", MESSAGES),
        ("        if notice.may_be_there:\n", "        if False:\n", CHANNELS),
        ("            told.id or notice.token,\n", "            notice.token,\n", CHANNELS),
        ("        elif not self._is_current(notice):\n", "        elif False:\n", NOTIFY),
    ),
    *_in(
        "ops/late.py",
        ("is_overdue = began is not None and now - began >", "is_overdue = began is not None and now - began <", LATE),
        ("job.name in self._held or", "", LATE),
        ("newest > self._seen.get(job.name, 0)", "True", LATE),
    ),
)
