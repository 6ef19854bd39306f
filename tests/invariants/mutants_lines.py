"""What a line may have besides numbers, each comparison broken in turn: `H`, `until` and `except_days`.

A list for `tests.mutations`.
"""

from __future__ import annotations

from tests.invariants.mutants import in_file

HASHED = "tests/unit/cron/test_hashed_line.py"
BOUNDS = "tests/unit/cron/test_bounds.py"
DAYS = "tests/unit/cron/test_except_days.py"
STORED = "tests/unit/lock/test_stored.py"

LINE_MUTANTS = (
    *in_file(
        "cron/hashed_line.py",
        ("    if name is None:\n", "    if False:\n", HASHED),
        ("if len(texts) not in (len(FIELDS) - 1, len(FIELDS)):", "if False:", HASHED),
        (
            "_numbers(field, term, _hash(name, field), odd)",
            "_numbers(field, term, _hash(name, MONTH_DAY), odd)",
            HASHED,
        ),
        ("_numbers(field, term, _hash(name, field), odd)", '_numbers(field, term, _hash("", field), odd)', HASHED),
        ("_numbers(field, term, _hash(name, field), odd)", "_numbers(field, term, 0, odd)", HASHED),
        ('f"{field.name} of {name}"', 'f"{name} of {field.name}"', HASHED),
        ("digest_size=8", "digest_size=4", HASHED),
        ("    if match is None:\n", "    if False:\n", HASHED),
        ("    if step == 0:\n", "    if False:\n", HASHED),
        ("int(match[3] or size)", "int(match[3] or 1)", HASHED),
        ("range(number % min(step, size), size, step)", "range(number % step, size, step)", HASHED),
        ("range(number % min(step, size), size, step)", "range(number % min(step, size), size + 1, step)", HASHED),
        ("range(number % min(step, size), size, step)", "range(0, size, step)", HASHED),
        ("(value - field.first) % field.size", "(value - field.first)", HASHED),
        ("if match[3] and (len(numbers) == 1 or", "if match[3] and (False or", HASHED),
        ("(match[1] is None and field.size % step)", "field.size % step", HASHED),
        ("(match[1] is None and field.size % step)", "False", HASHED),
        ("if len(numbers) > _MOST_LISTED and numbers[-1] == values[-1]:", "if len(numbers) > _MOST_LISTED:", HASHED),
        ("most = _LAST_DAY_OF_EACH_MONTH if field is MONTH_DAY else field.size", "most = field.size", HASHED),
        ("if field is MONTH_DAY and max(low, high) > most:", "if False:", HASHED),
        ("if field is MONTH_DAY and max(low, high) > most:", "if field is MONTH_DAY and low > most:", HASHED),
        ("max(low, high) > most:", "max(low, high) >= most:", HASHED),
        ("high - low + 1 if low <= high else", "high - low if low <= high else", HASHED),
        ("if low <= high else", "if low < high else", HASHED),
        ("high - low + field.size + 1", "high - low + field.size", HASHED),
    ),
    *in_file(
        "cron/schedule.py",
        ("resolved(self.written, name)", 'resolved(self.written, "x")', HASHED),
        ("return self if self.written is None else Schedule(name=name, **self._given())", "return self", HASHED),
        ("line = (self.written or self.line) if self.has_line else None", "line = self.line", HASHED),
        ("return self.until is not None and self.next_after(instant) is None", "return False", BOUNDS),
        ("return self.until is not None and self.next_after(instant) is None", "return self.until is not None", BOUNDS),
        ("if self.starting is not None and start < self.starting:\n", "if False:\n", BOUNDS),
        ("            start = self.starting - _SECOND\n", "            start = self.starting\n", BOUNDS),
        ("None if self.until is not None and tick > self.until else tick", "tick", BOUNDS),
        (
            "None if self.until is not None and tick > self.until else tick",
            "None if self.until is not None and tick >= self.until else tick",
            BOUNDS,
        ),
        ("            if self.until is not None and tick > self.until:\n", "            if False:\n", DAYS),
        (
            "            if self.until is not None and tick > self.until:\n",
            "            if self.until is not None and tick >= self.until:\n",
            DAYS,
        ),
        (
            "if self.starting is not None and self.until is not None and self.next_after",
            "if False and self.next_after",
            BOUNDS,
        ),
        (
            "if self.except_days is not None and self.until is None and self.next_after",
            "if False and self.next_after",
            DAYS,
        ),
        (
            "            if self.excluded(tick) is None:\n                return tick\n",
            "            return tick\n",
            DAYS,
        ),
        (
            "max(self.day_ends(tick) - _SECOND, tick))\n            if following",
            "self.day_ends(tick))\n            if following",
            DAYS,
        ),
        (
            "day = instant.astimezone(_zone(self.timezone)).date()\n        return None",
            "day = instant.date()\n        return None",
            DAYS,
        ),
        ("        if midnight <= instant:", "        if False:", DAYS),
        (
            "            return midnight\n        return min(midnight,",
            "            return midnight\n        return max(midnight,",
            DAYS,
        ),
        (
            "        while tick is not None and tick <= end:\n            name",
            "        while tick is not None and tick < end:\n            name",
            DAYS,
        ),
        ("return found if self.except_days is None else (*found, self.except_days.fingerprint)", "return found", DAYS),
        ('            yield f"until {in_utc(self.until)}"\n', "            pass\n", BOUNDS),
    ),
    *in_file(
        "cron/except_days.py",
        ("return self.read\n", 'return ""\n', DAYS),
        (
            "repr([(name, _printed(days)) for name, days in self.days])",
            "repr([_printed(days) for name, days in self.days])",
            DAYS,
        ),
        ("repr([(name, _printed(days)) for name, days in self.days])", "repr(self.names)", DAYS),
        ("if not isinstance(days, frozenset) and (failed := _evaluated(days)[1]):", "if failed := None:", DAYS),
        ("not _are_dates(given) else", "True else", DAYS),
        ("not _NAME.fullmatch(name)", "False", DAYS),
        ("    if inspect.iscoroutinefunction(days):", "    if False:", DAYS),
        ("if isinstance(days, str) or not isinstance(days, Iterable):", "if not isinstance(days, Iterable):", DAYS),
        ("not isinstance(day, date) or isinstance(day, datetime)", "not isinstance(day, date)", DAYS),
        ("return day in days\n", "return day not in days\n", DAYS),
        ("        return False  # `warnings` say so", "        return True", DAYS),
        ("    while day < last:\n", "    while day <= last:\n", DAYS),
        ("_FIRST, _YEARS = date(2025, 1, 1), 20", "_FIRST, _YEARS = date(2025, 1, 1), 2", DAYS),
        ("            failed = failed or (day", "            failed = (day", DAYS),
        ("        elif number > _AT_LEAST_BACK:\n            break\n", "", DAYS),
        ("        elif number > _AT_LEAST_BACK:\n", "        else:\n", DAYS),
        ("        if not has_ticks(day):\n            continue\n", "", DAYS),
        (" is not None and has_ticks(day):\n            yield", " is not None:\n            yield", DAYS),
        ("past[:_MOST_PAST]", "past[:1]", DAYS),
        ("islice(come, MOST_TO_COME)", "islice(come, 1)", DAYS),
        (
            "            except ValueError:\n                continue\n",
            "            except OSError:\n                continue\n",
            DAYS,
        ),
        ("return 2 * len(wanted & there) >= len(wanted)", "return 2 * len(wanted & there) > len(wanted)", DAYS),
        ("return 2 * len(wanted & there) >= len(wanted)", "return True", DAYS),
    ),
    *in_file(
        "cron/bounded.py",
        ("    if instant < at:\n", "    if instant <= at:\n", STORED),
        ("return second + _SECOND if at.microsecond else second", "return second", STORED),
        ("not isinstance(at, datetime) or at.utcoffset() is None", "not isinstance(at, datetime)", STORED),
        ("if timezone is not DEFAULT_ZONE:", "if False:", STORED),
        ("            if self.written is not None:\n", "            if False:\n", STORED),
        ("return None if tick is None else to_milliseconds(tick)", "return to_milliseconds(tick or EPOCH)", STORED),
        (
            '        if self.until is not None:\n            yield "until"',
            '        if False:\n            yield "until"',
            STORED,
        ),
        (
            '        if self.starting is not None:\n            yield "starting"',
            '        if False:\n            yield "starting"',
            STORED,
        ),
    ),
)
