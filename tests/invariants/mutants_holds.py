"""The rules of holds and mutes, each comparison broken in turn: a list for `tests.mutations`."""

from __future__ import annotations

from tests.invariants.mutants import in_file

HOLDS = "tests/unit/lock/test_holds.py"
SEEN = "tests/unit/ops/test_holds.py"
MUTES = "tests/unit/ops/test_mutes.py"
PAUSED = "tests/unit/lock/test_fields_pauses.py"
DECLARED = "tests/unit/scheduler/test_publishing_holds.py"
EXCHANGES = "tests/unit/lock/test_protocol_holding.py"
COMMANDS = "tests/cli/test_holds.py"
ORDERS = "tests/interleaving/test_interleavings_holds.py"

HOLD_MUTANTS = (
    *in_file(
        "lock/fields.py",
        ("hold if isinstance(hold, str) and vouches(hold, by, at) else None", "hold", HOLDS),
        ('f"{salt} {at} {by}"', 'f"{salt} {at}"', HOLDS),
        ('f"{salt} {at} {by}"', 'f"{salt} {by}"', HOLDS),
    ),
    *in_file(
        "lock/holds.py",
        ("return now < self.until", "return now <= self.until", HOLDS),
        ("self._matches(name) and self.service in (None, service)", "self.service in (None, service)", HOLDS),
        ("self._matches(name) and self.service in (None, service)", "self._matches(name)", HOLDS),
        ("self.leaders and self.service is None and", "self.leaders and", HOLDS),
        ("self.leaders and self.service is None and", "self.service is None and", HOLDS),
        ("until is None or not vouches(name, by, at)", "until is None", HOLDS),
        # What lies in a node.
        ("if force is None or not force.holds(now):", "if force is None:", HOLDS),
        ("pause is not None and pause.holds(now)]", "pause is not None]", HOLDS),
        ("    if not hold.stands(now):\n", "    if False:\n", HOLDS),
        ("    if _has(pauses, hold.name):\n", "    if False:\n", HOLDS),
        ("pauses[0].hold is None and end_of(pauses[0]) >= hold.until", "end_of(pauses[0]) >= hold.until", HOLDS),
        ("end_of(pauses[0]) >= hold.until", "end_of(pauses[0]) > hold.until", HOLDS),
        ("end_of(pauses[0]) >= hold.until", "False", HOLDS),
        ("after if _has(pauses_in(after, now), hold.name) else", "after if True else", HOLDS),
        ("(end_of(pause), pause.hold is None)", "end_of(pause)", HOLDS),
        ("if field not in PAUSE_FIELDS}", "}", HOLDS),
        ('return {**others, "resumedAt": now}', "return others", HOLDS),
        ("while _length(below) > LONGEST_OVER:", "while False:", HOLDS),
        ('("pausedWith" not in entry, ', "(", HOLDS),
        ("    if force.hold is None:\n", "    if False:\n", HOLDS),
        # Who was resumed since, and what is gone.
        ("hold.name != by_console and", "", HOLDS),
        ("and resumed_at <= hold.at:", "and resumed_at < hold.at:", HOLDS),
        ("and resumed_at <= hold.at:", "and True:", HOLDS),
        ("if pause.hold not in gone]", "if False]", HOLDS),
        ("Stays() if left == pauses else", "", HOLDS),
        # Declarations.
        ("    except Denied:\n        return  #", "    except ZeroDivisionError:\n        return  #", DECLARED),
        ("        if holds == before:\n            break\n", "        break\n", DECLARED),
        ("        gone |= {hold.name for hold in before if hold not in holds}\n", "", DECLARED),
        ("if hold.stands(now)]", "]", DECLARED),
        ("            raise edited\n", "            pass\n", DECLARED),
        ("if self._in_a_row >= AT_A_TIME:", "if False:", HOLDS),
    ),
    *in_file(
        "lock/protocol.py",
        (
            "            if is_fresh:\n                return snapshot, node\n",
            "            return snapshot, node\n",
            EXCHANGES,
        ),
        ("(known, False) if known is not None", "(known, True) if known is not None", EXCHANGES),
        (
            "denied, snapshot, is_fresh = snapshot, (yield from reading()), True",
            "denied, snapshot = snapshot, (yield from reading())",
            EXCHANGES,
        ),
        (
            "        tries += 1\n        snapshot, is_fresh = expect(answer, Snapshot), True",
            "        tries += 1\n        snapshot = expect(answer, Snapshot)",
            EXCHANGES,
        ),
    ),
    *in_file(
        "scheduler/publishing.py",
        ("                self._hold(term)\n", "                pass\n", DECLARED),
        ("            self._unheld = {**declared, **self._unheld}\n", "", DECLARED),
        ("is_news, self._has_not_held = not self._has_not_held, True", "is_news = True", DECLARED),
    ),
    *in_file(
        "ops/holds.py",
        ("if is_recorded and not self.still_stands(hold):", "if False:", COMMANDS),
        ("return recorded is not None and recorded.until > 0", "return recorded is not None", ORDERS),
        ("        if not failed and recorded is not None:", "        if recorded is not None:", COMMANDS),
        ("if not other.stands(now)]", "]", COMMANDS),
        ("            if hold.name not in (self.read() or {}):\n", "            if True:\n", COMMANDS),
        ("            if hold.name not in (self.read() or {}):\n", "            if False:\n", COMMANDS),
        ("tries[lock] < _TRIES and", "tries[lock] < 1 and", COMMANDS),
        ("if not (name in recorded and recorded[name].stands(now))}", "}", COMMANDS),
        ("_is_name(name) and hold.covers", "hold.covers", SEEN),
        ("_is_leaders(node) and hold.covers_leader(name)", "hold.covers_leader(name)", SEEN),
        ("pause.until is not None and pause.until < hold.until", "pause.until is not None", SEEN),
        ("pause.until is not None and pause.until < hold.until", "False", SEEN),
        ("hold.name in standing,\n", "True,\n", SEEN),
        ("if record is None or record.is_cancelled or not record.hears_cancel:", "if record is None:", COMMANDS),
    ),
    *in_file(
        "ops/mutes.py",
        ("if mute.until <= now]", "if mute.until < now]", MUTES),
        ("if mute.until <= now]", "]", MUTES),
        ("        if name not in self._read():\n            return False\n", "", MUTES),
    ),
)
