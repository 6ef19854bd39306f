"""The node of a stored schedule, each comparison broken in turn: a list for `tests.mutations`."""

from __future__ import annotations

from tests.invariants.mutants import in_file

STORED = "tests/unit/lock/test_stored.py"
LOOKED = "tests/unit/scheduler/test_lookers.py"
_JUDGED = "tests/stores/test_lock_conformance.py::TestInMemory::"
NEXT_LOOK = f"{_JUDGED}test_each_write_says_when_to_look"

NODE_MUTANTS = in_file(
    "lock/stored.py",
    # What a node says.
    ("    read_args(node)\n    return read_schedule", "    return read_schedule", STORED),
    ("if not isinstance(found, dict):\n        raise", "if False:\n        raise", STORED),
    ('return node.get("closed") not in (None, False)', "return False", STORED),
    ('return max(claimed, number(node.get("since")) or 0)', "return claimed", STORED),
    ('return max(claimed, number(node.get("since")) or 0)', 'return number(node.get("since")) or 0', STORED),
    ('return max(floor_of(node), number(node.get("passed")) or 0)', "return floor_of(node)", STORED),
    ("current.releasedAt is None and current.is_live(now, margin)", "current.is_live(now, margin)", STORED),
    ("current.releasedAt is None and current.is_live(now, margin)", "current.releasedAt is None", STORED),
    ("current.unfinished is not None and current.unfinished <= start", "False", STORED),
    ("current.unfinished <= start", "current.unfinished < start", STORED),
    ('slot=max(current.slot or "", start)', "slot=current.slot", STORED),
    ("    if is_closed(current.kept):\n", "    if False:\n", STORED),
    ("None if checked(current.kept) is not None else Refused", "None if True else Refused", STORED),
    # When to look.
    ("    if not is_closed(after):\n", "    if True:\n", STORED),
    ("is None and not _is_unended(after, options, now):", "is None:", STORED),
    ("is None and not _is_unended(after, options, now):", "is None and False:", STORED),
    ('    after["nextAt"] = next_at(after, options, now)\n    return after', "    return after", STORED),
    ("if record is not None and record.releasedAt is None else 0", "if record is not None else 0", STORED),
    (
        'return max((number(node.get("closedAt")) or 0) + options.keep_closed, held_until)',
        "return held_until or now",
        STORED,
    ),
    (" + options.keep_closed, held_until)", " + options.keep_closed, 0)", STORED),
    ("return _passed(node) + HOUR", "return now", STORED),
    ("if pause is not None and pause.holds(now):", "if pause is not None:", STORED),
    ("if pause is not None and pause.holds(now):", "if False:", STORED),
    ("(tick, pause.until) if", "(tick,) if", STORED),
    ("return max(min(ends, default=now + HOUR), free_at, 1)", "return max(min(ends, default=now + HOUR), 1)", STORED),
    ("if options.waits and tick is not None else free_at", "if tick is not None else free_at", STORED),
    ("if options.waits and tick is not None else free_at", "if False else free_at", STORED),
    ("return max(ceil(record.releasedAt), held_until)", "return max(now + HOUR, held_until)", STORED),
    ("return max(now if tick is None else tick, held_until)", "return now if tick is None else tick", STORED),
    ("open_slot is None or not options.reruns or int", "open_slot is None or int", STORED),
    (">= MOST_CLAIMS", "> MOST_CLAIMS", STORED),
    ("to_milliseconds(open_slot) > (number", "to_milliseconds(open_slot) >= (number", STORED),
    # Put and remove.
    ("    if wanted.if_absent and before", "    if before", STORED),
    ("since = now + 3 * options.margin", "since = now", STORED),
    ("elif was_closed or not is_same:", "elif was_closed:", STORED),
    ("elif was_closed or not is_same:", "elif not is_same:", STORED),
    ("elif was_closed or not is_same:", "else:", STORED),
    ("not in (*FIELDS, *_CLOSING)}", "not in FIELDS}", STORED),
    ('fields, ("until", "written"))', 'fields, ("until",))', STORED),
    ('fields, ("until", "written"))', 'fields, ("written",))', STORED),
    ('"written": fields.get("written"), "args"', '"args"', STORED),
    ("    if first is None and (", "    if False and (", STORED),
    ("if old is not None and not was_closed and is_busy(before, now, options.margin):", "if False:", STORED),
    ("asks = cancel and is_running(before, now, options.margin) and", "asks = cancel and", STORED),
    ("== REMOVED and (is_asked or not asks)", "== REMOVED", STORED),
    ('    if before.get("closed") != REMOVED:\n', "    if True:\n", STORED),
    ("if name not in DROPPED}", "if name not in FIELDS}", STORED),
    ("for name in FIELDS if name not in but)", "for name in FIELDS)", STORED),
)

# Each write of the lock of an entry, and the history that its job's entries share.
WRITE_MUTANTS = (
    *in_file(
        "lock/protocol.py",
        (
            "decision.before)\n        node = to_node(decision.record, look, now)",
            "decision.before)\n        node = decision.record.to_json()",
            NEXT_LOOK,
        ),
        (
            "            return decision\n        node = to_node(decision.record, look, now)",
            "            return decision\n        node = decision.record.to_json()",
            NEXT_LOOK,
        ),
        ("node = None if after is None else to_node(after, look, now)", "node = after and after.to_json()", NEXT_LOOK),
        (
            "finished(node, look, now.server)\n        try",
            "dict(node)\n        try",
            "tests/unit/ops/test_schedules.py",
        ),
    ),
    *in_file(
        "store.py",
        ('return f"{key}:{entry}" if entry else key', "return key", LOOKED),
        ('return f"{self.schedules_of(job)}/:{key}" if key', 'return f"{self.schedules_of(job)}/:" if key', LOOKED),
    ),
    *in_file(
        "runs/look.py",
        ("unclaimed(seen, options, start, passed, pause)", "unclaimed(seen, options, start, passed)", LOOKED),
    ),
    *in_file("scheduler/lookers.py", ("rank >= stored.lookers", "rank > stored.lookers", LOOKED)),
    *in_file(
        "scheduler/entry_writer.py",
        ('if tick != node.get("unfinished") and tick', "if tick", LOOKED),
        ("<= end:", "< end:", LOOKED),
        ("isinstance(left, str) and (unfinished", "(unfinished", LOOKED),
    ),
)

STORED_MUTANTS = NODE_MUTANTS + WRITE_MUTANTS
