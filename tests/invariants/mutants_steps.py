"""Every comparison of the steps, broken in turn: the list for `tests.mutations`."""

from __future__ import annotations

from tests.invariants.mutants import Mutant

RECORDS = "tests/unit/steps/test_protocol_writers.py"
EXCHANGES = "tests/unit/steps/test_protocol_writing.py"
STEPS = "tests/unit/steps/test_steps.py"
ASYNC = "tests/unit/steps/test_steps_async.py"
CANDIDATE = "tests/unit/leaders/test_candidate.py"
ONCE = "tests/unit/steps/test_once.py"
HISTORY = "tests/unit/runs/test_history.py"
RESUMING = "tests/unit/runs/test_claimer_resuming.py"


def _in(file: str, *changes: tuple[str, str, str]) -> tuple[Mutant, ...]:
    return tuple(Mutant(file, *change) for change in changes)


def _of(number: int, tests: str, *changes: tuple[str, str, str]) -> tuple[Mutant, ...]:
    return tuple(Mutant(*change, f"{tests} -k test_i{number:02}_") for change in changes)


STEP_MUTANTS = (
    *_in(
        "steps/protocol.py",
        ("if not isinstance(node, dict):", "if False:", RECORDS),
        ("if fence is None or started_at is None:", "if fence is None:", RECORDS),
        ("if fence is None or started_at is None:", "if started_at is None:", RECORDS),
        ('if (result is None) != (node.get("doneAt") is None) or (', "if (", RECORDS),
        ("(result is not None and done_at is None):", "False:", RECORDS),
        ("if result is not None and not isinstance(result, str):", "if False:", RECORDS),
        ("found.fence < own.fence:", "found.fence <= own.fence:", RECORDS),
        ("found.fence < own.fence:", "False:", RECORDS),
        (
            '    if found.fence > own.fence:\n        return "overtaken"\n    return "found"',
            '    return "found"',
            RECORDS,
        ),
        ('return "found" if found.is_done else "write"', 'return "write"', RECORDS),
        (
            '    if found.fence > own.fence:\n        return "overtaken"\n    if found.is_done:',
            "    if found.is_done:",
            RECORDS,
        ),
        ('    if found.is_done:\n        return "found"\n', "", RECORDS),
        ('    if found == own:\n        return "written"\n', "", RECORDS),
        ('return "write" if found == allowed else "in_doubt"', 'return "write"', RECORDS),
        ('return "write" if found == allowed else "in_doubt"', 'return "in_doubt"', RECORDS),
    ),
    *_in(
        "steps/protocol.py",
        ("known if known is not None else (yield from reading())", "known", EXCHANGES),
        ('        if verdict == "overtaken":\n', "        if False:\n", EXCHANGES),
        ('        if verdict != "write":\n', "        if False:\n", EXCHANGES),
        ("snapshot)\n        if not is_trusted():\n", "snapshot)\n        if False:\n", EXCHANGES),
        ("            snapshot = yield from reading()\n            continue\n", "            continue\n", EXCHANGES),
        ("if was_denied and snapshot == before:", "if was_denied:", EXCHANGES),
        ("if was_denied and snapshot == before:", "if snapshot == before:", EXCHANGES),
        ("            was_denied = True\n", "", EXCHANGES),
        ("        yield from overtaken(tries)\n", "", EXCHANGES),
    ),
    *_in(
        "lock/lease.py",
        ("                if lease.stands():\n                    raise\n", "                raise\n", STEPS),
        ("                if lease.stands():\n                    raise\n", "                pass\n", STEPS),
        ("                if lease.stands():\n", "                if lease.renew():\n", STEPS),
        ("        except Unavailable as error:\n", "        except ZeroDivisionError as error:\n", STEPS),
        ("back_off_within(left, error, failures, database.chance())", "0.05", STEPS),
        ("                case Lost(why):\n                    lease.lose(why)\n", "", STEPS),
        ("    while not lease.lost:\n", "    while True:\n", STEPS),
    ),
    *_in(
        "steps/protocol.py",
        ("        if step.in_doubt and not step.may_retry:\n", "        if step.in_doubt:\n", STEPS),
        ("        if step.in_doubt and not step.may_retry:\n", "        if False:\n", STEPS),
        ("        if at_most_once:\n", "        if False:\n", STEPS),
        ("        if at_most_once:\n", "        if True:\n", STEPS),
        ("    if step.returned is None:\n", "    if True:\n", STEPS),
        ("        step.may_retry = False\n        step.returned", "        step.returned", STEPS),
        ("    if step is None or not step.in_doubt:\n", "    if step is None:\n", STEPS),
    ),
    *_in(
        "steps/steps.py",
        ("if not self._is_async and is_async(function):", "if False:", STEPS),
        ("            if self._is_over:\n", "            if False:\n", STEPS),
        ('and not (again and self._uses[use.name].state == "over")', "and not again", ASYNC),
        ("            self._run.check()\n            self._read()\n", "            self._read()\n", STEPS),
        ("        if waiting:\n            self.left", "        if False:\n            self.left", ASYNC),
        ("        elif still:\n", "        elif False:\n", STEPS),
        ("{} if is_first else None", "{}", STEPS),
        ("{} if is_first else None", "None", STEPS),
        ("            answer, cancelled = await", "            answer, _ = await", ASYNC),
    ),
    *_in(
        "lock/fields.py",
        ("    if kind not in (LEADER, ONCE):\n", "    if False:\n", "tests/unit/lock/test_record_holding.py"),
        ("    if slot is not None:\n", "    if False:\n", "tests/unit/lock/test_record_holding.py"),
        ("if wanted is not None and slot is not None:", "if False:", ONCE),
        ("if kind is not None and kind != wanted:", "if False:", ONCE),
        ("kind is None and outcome is not None:", "False:", ONCE),
        ("kind is None and outcome is not None:", "outcome is not None:", CANDIDATE),
    ),
    *_in(
        "runs/history.py",
        ("if tick < kept[0]]", "if True]", HISTORY),
        ("for key in old if key != unfinished]", "for key in old]", HISTORY),
        ("for tick in ticks if tick != unfinished]", "for tick in ticks]", HISTORY),
    ),
    *_in(
        "runs/policy.py",
        ("    if entry is None and not is_unfinished:\n", "    if entry is None:\n", RESUMING),
        ("    if entry is None and not is_unfinished:\n", "    if False:\n", RESUMING),
        ('        if seen.outcome == "succeeded":\n', "        if False:\n", RESUMING),
        ('        if seen.outcome == "malformed":\n', "        if False:\n", RESUMING),
        ("return Resumed(key, last + 1)", "return Resumed(key, last)", RESUMING),
        ("last = attempt if is_unfinished else 0", "last = 0", RESUMING),
    ),
    *_of(46, STEPS, ("steps/protocol.py", "if step.record is not None and step.record.is_done:", "if False:")),
    *_of(47, STEPS, ("steps/protocol.py", "found.fence < own.fence:", "False:")),
    *_of(48, STEPS, ("steps/protocol.py", "if step.in_doubt and not step.may_retry:", "if False:")),
    *_of(49, STEPS, ("store.py", 'return f"{self.steps}/{name}/{tick}"', 'return f"{self.steps}/{name}/x"')),
    *_in(
        "steps/once.py",
        ("except (Malformed, ConfigurationError) as error:", "except Malformed as error:", ONCE),
        ("        except Malformed:\n            raise\n", "", ONCE),
    ),
    *_of(51, ONCE, ("steps/once.py", "return once.read() or once.record", "return once.record")),
)
