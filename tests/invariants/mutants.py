"""Every comparison and every guard of a lock's record, broken in turn: a list for `tests.mutations`.

Each is one place in one file, what is put there instead, and the tests that have to notice. The old text has to be
there exactly once.
"""

from __future__ import annotations

from dataclasses import dataclass

DECIDE = "tests/unit/lock/test_record_decide.py"
PARSE = "tests/unit/lock/test_record_parse.py"
CLAIM = "tests/unit/lock/test_record_claim.py"
HOLDING = "tests/unit/lock/test_record_holding.py"
FAILED = "tests/unit/lock/test_record_failures.py"
RESUMED = "tests/unit/runs/test_claimer_resuming.py"
PAUSED = "tests/unit/lock/test_fields_pauses.py"


@dataclass(frozen=True)
class Mutant:
    """`new` in place of `old` in a file of src/firecron has to fail `tests`."""

    file: str
    old: str
    new: str
    tests: str

    def __str__(self) -> str:
        return f"{self.file}: {' '.join(self.old.split())[:60]} -> {' '.join(self.new.split())[:30] or 'nothing'}"


def in_file(file: str, *changes: tuple[str, str, str]) -> tuple[Mutant, ...]:
    """The mutants of one file: in each `old`, `new` and `tests`."""
    return tuple(Mutant(file, *change) for change in changes)


RECORD = in_file(
    "lock/record.py",
    # What a node says.
    ("if not isinstance(node, dict):", "if False:", PARSE),
    ("if not LOCK_FIELDS & node.keys():", "if False:", PARSE),
    ('if why := disorder(node.get("kind"), node.get("slot")):', 'if why := "":', HOLDING),
    ('if (self.unfinished or "") > (self.slot or ""):', "if False:", "tests/unit/runs/test_policy.py"),
    ('if (self.unfinished or "") > (self.slot or ""):', 'if (self.unfinished or "") >= (self.slot or ""):', DECIDE),
    ("                kept[name] = value\n", "                pass\n", CLAIM),
    ("                if problem is BEYOND:\n", "                if False:\n", PARSE),
    ('                if name == "expiresAt":\n', "                if False:\n", PARSE),
    ("elif (problem := wrong(value)) is not None:", "elif (problem := None) is not None:", PARSE),
    (' - {"cancel", "cancelWhy", "failures"}', "", PARSE),
    ('- {"cancel", "cancelWhy", "failures"}', '- {"cancelWhy", "failures"}', PARSE),
    (', "failures"}', "}", PARSE),
    ("> now + DAY:", ">= now + DAY:", PARSE),
    ("> now + DAY:", "> now + 2 * DAY:", DECIDE),
    ("now < self.free_at(", "now <= self.free_at(", DECIDE),
    ("self.expiresAt > now + _FURTHEST", "self.expiresAt >= now + _FURTHEST", PARSE),
    ("self.expiresAt > now + _FURTHEST", "self.expiresAt > now + DAY", PARSE),
    ("example = 1 if name ==", "example = 2 if name !=", PARSE),
    ("(margin if self.releasedAt is None else 0)", "0", DECIDE),
    ("(margin if self.releasedAt is None else 0)", "margin", DECIDE),
    # Mine.
    ("record.holder == request.holder and (", "(", DECIDE),
    ("trust = None if why else written", "trust = written", DECIDE),
    (
        "if record is not None and record.holder == request.holder and (",
        "if choose is None and record is not None and record.holder == request.holder and (",
        DECIDE,
    ),
    ("    if choose is not None:\n", "    if choose is not None and not why:\n", DECIDE),
    ("        request = chosen\n", "", DECIDE),
    ("(record.releasedAt is None or request.momentary)", "True", DECIDE),
    ("written.get(record.expiresAt)", "next(iter(written.values()), None)", DECIDE),
    (
        "if trust is not None and (request.momentary or trust.is_trusted(now.mono, request.margin)):",
        "if trust:",
        DECIDE,
    ),
    ("return Mine(record, trust)", "return Mine(record, Trust(trust.expires_at, now))", DECIDE),
    # Paused.
    ("if is_paused(current.kept, now.server):", "if False:", DECIDE),
    ("if is_paused(current.kept, now.server):", "if is_paused(current.kept, 0):", PAUSED),
    # The tick.
    ("request.slot <= record.slot:", "request.slot < record.slot:", DECIDE),
    ("request.slot <= record.slot:", "request.slot == record.slot:", DECIDE),
    ("rerun = request.rerun and ", "rerun = ", DECIDE),
    ("request.slot == record.open_slot and not live", "not live", DECIDE),
    ("record.open_slot and not live", "record.open_slot", DECIDE),
    ("if not rerun:", "if False:", DECIDE),
    ("    if live:\n", "    if False:\n", DECIDE),
    ("> now.server + request.margin:", ">= now.server + request.margin:", DECIDE),
    ("> now.server + request.margin:", "> now.server:", DECIDE),
    ("> now.server + request.margin:", "> now.server + 10**12:", DECIDE),
    # The claim.
    ("        **current.kept,\n", "", CLAIM),
    ("        **_claim(record, request),\n", "", CLAIM),
    ("if request.fenced:", "if True:", CLAIM),
    ("int(record.fence or 0) + 1 if", "int(record.fence or 0) if", CLAIM),
    ("else 0, now.server)", "else 0, 0)", CLAIM),
    ('fields["fence"] = fence', 'fields["fence"] = now.server', CLAIM),
    ("if record and fence >= TOO_HIGH:", "if record and fence > TOO_HIGH:", PARSE),
    ("if record and fence >= TOO_HIGH:", "if record and fence >= TOO_HIGH - 1:", PARSE),
    ('fields["fence"] = record.fence', "pass", CLAIM),
    ("if record is None or request.slot != record.open_slot:", "if True:", CLAIM),
    ('"unfinished": request.slot, **(request', "**(request", CLAIM),
    ('{**claim, "slot": max(record.slot or "", request.slot), "attempt"', '{**claim, "attempt"', CLAIM),
    ("**(request.missed or NONE_MISSED)}", "}", CLAIM),
    (", *NONE_MISSED)", ")", CLAIM),
    ("**(request.missed or {})}", "}", CLAIM),
    # What is cancelled, and what that ends.
    ("type(self.cancel) in (int, float) and ", "", HOLDING),
    ("and self.cancel == self.fence", "", HOLDING),
    ("and self.cancel == self.fence", "and self.cancel <= self.fence", HOLDING),
    ("and self.cancel == self.fence", "and self.cancel >= self.fence", HOLDING),
    ("return None if self.is_cancelled else self.unfinished", "return self.unfinished", DECIDE),
    ("request.slot == record.open_slot and not live", "request.slot == record.unfinished and not live", DECIDE),
    ('        "cancel": None,  # it was meant for the acquisition before\n', "", CLAIM),
    ('        "cancelWhy": None,\n', "", CLAIM),
    ('"renews": False if request.fenced and not request.renews else None', '"renews": None', CLAIM),
    ("request.fenced and not request.renews", "not request.renews", CLAIM),
    ("request.fenced and not request.renews", "request.fenced", CLAIM),
    ('"unfinished": record.open_slot', '"unfinished": record.unfinished', CLAIM),
    (
        "if record is None or request.slot != record.open_slot:",
        "if record is None or request.slot != record.unfinished:",
        CLAIM,
    ),
    ("    if record.fence != fence:\n", "    if False:\n", HOLDING),
    ("cancel=None if is_anothers else record.cancel", "cancel=record.cancel", HOLDING),
    ("cancel=None if is_anothers else record.cancel", "cancel=None", HOLDING),
    ("cancelWhy=None if is_anothers else record.cancelWhy", "cancelWhy=record.cancelWhy", HOLDING),
    ("is_anothers = unfinished is not None and unfinished != tick", "is_anothers = tick is None", RESUMED),
    ("unfinished is not None and unfinished != tick", "unfinished is not None", f"{RESUMED} {HOLDING}"),
    ("unfinished is not None and unfinished != tick", "unfinished != tick", f"{RESUMED} {HOLDING}"),
    (
        '        if request.slot is not None:\n            fields["unfinished"] = None',
        '        if True:\n            fields["unfinished"] = None',
        CLAIM,
    ),
    (
        '        if request.slot is not None:\n            fields["unfinished"] = None',
        "        if False:\n            pass",
        CLAIM,
    ),
    ("now.server if request.momentary else now.server + request.ttl", "now.server + request.ttl", CLAIM),
    ('        fields |= {"releasedAt": now.server}\n', "", CLAIM),
    ("(record.releasedAt is None or request.momentary)", "record.releasedAt is None", DECIDE),
    (
        "if trust is not None and (request.momentary or trust.is_trusted(now.mono, request.margin)):",
        "if trust is not None and trust.is_trusted(now.mono, request.margin):",
        DECIDE,
    ),
    ("int(record.attempt or 1) + 1", "int(record.attempt or 1)", CLAIM),
    # The holder.
    ("if record.holder != holder:", "if False:", HOLDING),
    ('return Lost("it was released")', "pass", HOLDING),
    ('if (found := record.kept.get("kind")) != kind:', "if False:", HOLDING),
    ("if not now.server < record.expiresAt - margin:", "if False:", HOLDING),
    ("now.server < record.expiresAt - margin:", "now.server < record.expiresAt:", HOLDING),
    ("now.server < record.expiresAt - margin:", "now.server <= record.expiresAt - margin:", HOLDING),
    ("if not trust.is_trusted(now.mono, margin):", "if False:", HOLDING),
    ("later = Trust(now.server + ttl, now)", "later = Trust(now.server + ttl, trust.reading)", HOLDING),
    ("max(now, int(record.acquiredAt or 0) + hold_at_least)", "now", HOLDING),
    ("max(now, int(record.acquiredAt or 0) + hold_at_least)", "int(record.acquiredAt or 0) + hold_at_least", HOLDING),
    ("finished is not None and record.unfinished == finished", "finished is not None", HOLDING),
    ("(record.slot, record.fence, unfinished)", "(record.fence, unfinished)", HOLDING),
    ("(record.slot, record.fence, unfinished)", "(record.slot, unfinished)", HOLDING),
    ("(record.slot, record.fence, unfinished)", "(record.slot, record.fence)", HOLDING),
    (" and not record.kept", "", HOLDING),
    (" and expires_at == now:", ":", HOLDING),
    ("        outcome=None if is_anothers and outcome in _CUT_SHORT else outcome,\n", "", HOLDING),
    ("None if is_anothers and outcome in _CUT_SHORT else outcome", "outcome", "tests/invariants/test_missed.py"),
    ("for word in _CUT_SHORT if self.releasedAt is not None and", "for word in _CUT_SHORT if", HOLDING),
    # The newest tick that succeeded.
    ('        "succeededSlot": record.succeededSlot if record else None,\n', "", CLAIM),
    ("(self.succeededSlot, also) if slot", "(also,) if slot", HOLDING),
    ("(self.succeededSlot, also) if slot", "(also or self.succeededSlot,) if slot", HOLDING),
    ('slot <= (self.slot or "")', 'slot < (self.slot or "")', HOLDING),
    ('if slot and slot <= (self.slot or "")', "if slot", HOLDING),
    ("return max((slot for slot in (self", "return min((slot for slot in (self", HOLDING),
    ("if finished and outcome", "if outcome", HOLDING),
    ('if finished and outcome == "succeeded"', "if finished", HOLDING),
    # The runs that failed.
    ('"failures": record and after_claim(', '"failures": None and after_claim(', FAILED),
    ("record.failures, record.open_slot, record", "record.failures, record.unfinished, record", FAILED),
    ("record.open_slot, record.releasedAt, record.outcome)", "record.open_slot, None, record.outcome)", FAILED),
    ("record.open_slot, record.releasedAt, record.outcome)", "record.open_slot, record.releasedAt, None)", FAILED),
    ("is_tick=record.slot is not None and tick is not None", "is_tick=True", FAILED),
    ("is_tick=record.slot is not None and tick is not None", "is_tick=record.slot is not None", FAILED),
    ("is_tick=record.slot is not None and tick is not None", "is_tick=tick is not None", FAILED),
)

FIELDS = in_file(
    "lock/fields.py",
    ("TOO_HIGH = 2**53 - 1", "TOO_HIGH = 2**53", PARSE),
    ("return None if least <= value < TOO_HIGH else BEYOND", "return None", PARSE),
    ("if least <= value < TOO_HIGH", "if least < value < TOO_HIGH", PARSE),
    ("least: int = 1 - TOO_HIGH", "least: int = -TOO_HIGH", PARSE),
    ("wrong_exact(value, 0)", "wrong_exact(value, -5)", PARSE),
    ("    if type(value) is int or", "    if isinstance(value, int) or", PARSE),
    ("return None if type(value) is int or", "return None if isinstance(value, int) or", PARSE),
)

COUNTS = in_file(
    "lock/record.py",
    ("open_slot is not None and released_at is None", "released_at is None", FAILED),
    ("open_slot is not None and released_at is None", "open_slot is not None", FAILED),
    ('None if outcome == "succeeded" else failures', "failures", FAILED),
    ('if outcome == "succeeded":', 'if outcome == "succeeded" and is_tick:', FAILED),
    ('if outcome == "succeeded":', "if False:", FAILED),
    ('if is_tick and outcome in ("failed", "lost")', 'if outcome in ("failed", "lost")', FAILED),
    ('is_tick and outcome in ("failed", "lost")', "is_tick", FAILED),
    ('in ("failed", "lost")', 'in ("failed",)', FAILED),
    ('in ("failed", "lost")', 'in ("lost",)', FAILED),
    ("isinstance(failures, bool) or ", "", FAILED),
    (" or failures < 0", "", FAILED),
    ("return failures + 1", "return 1", FAILED),
)

TERM = in_file(
    "lock/record.py",
    ("span - max(margin, wrong)", "span", DECIDE),
    ("span - max(margin, wrong)", "span - wrong", DECIDE),
    ("span - max(margin, wrong)", "span - margin", CLAIM),
    ("self.reading.uncertainty + self.reading.drift * span", "self.reading.uncertainty", CLAIM),
    ("self.reading.uncertainty + self.reading.drift * span", "self.reading.drift * span", CLAIM),
    ("return mono < self.ends(margin)", "return mono <= self.ends(margin)", DECIDE),
)

INSTANTS = in_file("base/instants.py", ("    to_milliseconds(text)\n", "", PARSE))

RECORD_MUTANTS = RECORD + FIELDS + COUNTS + TERM + INSTANTS
