"""The rules of asks, and of what a pause notes, each broken in turn: a list for `tests.mutations`."""

from __future__ import annotations

from tests.invariants.mutants import in_file

TAKERS = "tests/unit/scheduler/test_asks.py tests/unit/scheduler/test_asks_for_ticks.py"
ORDERS = "tests/interleaving/test_interleavings_asks.py"
DEAD = "tests/unit/scheduler/test_heartbeat_dead.py"
HOLDS = "tests/unit/lock/test_holds.py"
MISSING = "tests/unit/runs/test_policy_missing.py"
MISSED = "tests/invariants/test_missed.py"

ASK_MUTANTS = (
    *in_file(
        "lock/asks.py",
        ("return now >= self.at + VALID", "return now > self.at + 2 * VALID", TAKERS),
        ("    if other is not None and other.id == ask.id:\n        return None\n", "", TAKERS),
        ("if other is None or other.is_over(now) else Standing(other)", "if True else Standing(other)", TAKERS),
        ('return "mine" if found.taken_by == token else "taken"', 'return "mine"', ORDERS),
        ('return "mine" if found.taken_by == token else "taken"', 'return "taken"', TAKERS),
        ('return "over" if found.is_over(now) else {**node,', "return {**node,", TAKERS),
        ("if ends is None or self._database.timing.mono() < ends:", "if True:", ORDERS),
        ("editing(decide, once=True)", "editing(decide)", TAKERS),
        ("            is_sent = True\n", "", TAKERS),
        ("            asks.lapse(self.ask,", "            _ = (self.ask,", TAKERS),
        ("    if not has_lease:\n        return True\n", "", ORDERS),
        ("    return is_live and ", "    return ", TAKERS),
        ("    return is_live and refusal.unfinished == ask.tick\n", "    return is_live\n", TAKERS),
    ),
    *in_file(
        "scheduler/asks.py",
        ("self._is_first = rank is None or rank < _FIRST", "self._is_first = False", TAKERS),
        ("self._database.chance() < _LOOKS / size", "True", TAKERS),
        ("ask.taken_by in (None, known.token)", "True", TAKERS),
        ("            elif known.has_begun:\n", "            elif False:\n", TAKERS),
        ("        if result.refusal.reason not in _FINAL:\n", "        if True:\n", TAKERS),
        ("not known.is_others and ", "", TAKERS),
        ("            if known.is_gone:\n                continue\n", "", TAKERS),
        ("                if known.plan is not None:\n", "                if False:\n", TAKERS),
        ("            if known.plan is not plan:\n                return\n", "", TAKERS),
        ("            if self._known_of(ask).has_begun or self._is_in_history(ask):", "            if False:", TAKERS),
        ("started is not None and started >= ask.at - database.margin", "False", TAKERS),
        ("isinstance(claimed, str) and claimed >= str(ask.tick)", "str(claimed) >= str(ask.tick)", TAKERS),
    ),
    *in_file(
        "runs/runner.py",
        ("                self._resumer.give_back(job, claimed)\n", "                pass\n", TAKERS),
        ("run_id = secrets.token_hex(3) if taking is None else taking.ask.id", "run_id = secrets.token_hex(3)", TAKERS),
    ),
    *in_file(
        "scheduler/heartbeat.py",
        ("                    if _is_over(found.node, limit):\n", "                    if True:\n", DEAD),
        ('swap(f"{path}/{name}", found.etag, None, deadline)', 'merge(path, {name: None}, deadline)', DEAD),
        ("until is not None and until < limit", "until is not None and until <= limit", DEAD),
    ),
    *in_file(
        "lock/fields.py",
        ("start <= joined[-1][1] + _SECOND", "False", HOLDS),
        ("if end > slot]", "]", HOLDS),
        ("[-MOST_PAST:]", "", HOLDS),
        (
            "    if not isinstance(slot, str):\n        return None  #",
            '    slot = slot if isinstance(slot, str) else ""\n    if False:\n        return None  #',
            HOLDS,
        ),
    ),
    *in_file(
        "runs/policy.py",
        ("list(_within(unclaimed, _around(paused, end)))", "unclaimed", MISSING),
        ('("skipped", PAUSED, list(_within(unclaimed, paused))),\n', "", MISSED),
    ),
)  # fmt: skip
