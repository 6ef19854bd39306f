"""`H` in a cron line: a number from the hash of a job's full name. Pure.

Many jobs with the line `0 3 * * *` begin at one instant. With `H 3 * * *` each begins at a minute of its own, which is
the same on every instance, in every version and after every deployment. The syntax is that of Jenkins:

    H          one number of the field; of the days of the month one up to the 28th, which each month has
    H(1-5)     one number of the range
    H/15       each 15th number, from one of the first 15 on
    H(0-29)/10 each 10th number of the range, from one of its first 10 on

`resolved` replaces each of these with plain numbers. Everything else reads the resolved line, so the ticks on the
nights when the clocks change are those of that line. What it gives for a name never changes, because ticks would move:
`tests/unit/cron/test_hashed_line.py` holds examples.
"""

from __future__ import annotations

import re
from hashlib import blake2b

from firecron.cron.line import FIELDS, HASHED, MONTH_DAY, Field, Odd

_TERM = re.compile(r"H(?:\(([0-9]+|[A-Z]+)-([0-9]+|[A-Z]+)\))?(?:/([0-9]+))?", re.ASCII)
_LAST_DAY_OF_EACH_MONTH = 28
# More than so many numbers in a row are written as a range with a step.
_MOST_LISTED = 4


def resolved(line: str, name: str | None) -> tuple[str, tuple[str, ...]]:
    """Return the line with plain numbers for each `H`, and what is odd about its steps.

    Raise a ValueError for an `H` that can't be read, or if there is no name.
    """
    if name is None:
        raise ValueError(
            f"the cron line {line!r} has an H, which stands for a number from the hash of a job's name: give the name "
            "as well, or a number instead of H"
        )
    texts = line.upper().split()
    if len(texts) not in (len(FIELDS) - 1, len(FIELDS)):
        return line, ()  # it is refused as any other line
    odd: list[Odd] = []
    fields = zip(FIELDS[-len(texts) :], texts, strict=True)
    found = [_resolved(field, text, name, line, odd) for field, text in fields]
    return " ".join(found), tuple(f"in the cron line {line!r} {one.said}" for one in odd)


def _resolved(field: Field, text: str, name: str, line: str, odd: list[Odd]) -> str:
    terms = text.split(",")
    try:
        return ",".join(
            _numbers(field, term, _hash(name, field), odd) if HASHED.match(term) else term for term in terms
        )
    except ValueError as error:
        raise ValueError(f"the cron line {line!r} can't be used: {error}") from None


def _hash(name: str, field: Field) -> int:
    """Return a number that looks random, and is the same for all terms of one field."""
    return int.from_bytes(blake2b(f"{field.name} of {name}".encode(), digest_size=8).digest())


def _numbers(field: Field, term: str, number: int, odd: list[Odd]) -> str:
    match = _TERM.fullmatch(term)
    if match is None:
        raise ValueError(f"{term!r} is not a valid {field.name}: an H is written as H, H(1-5), H/15 or H(1-30)/10")
    low, size = _range(field, term, match[1], match[2])
    step = int(match[3] or size)
    if step == 0:
        raise ValueError(f"the step of {term!r} must be 1 or more")
    values = [low + place for place in range(number % min(step, size), size, step)]
    numbers = [field.first + (value - field.first) % field.size for value in values]
    if match[3] and (len(numbers) == 1 or (match[1] is None and field.size % step)):
        odd.append(Odd(field, term, step, tuple(numbers)))
    if len(numbers) > _MOST_LISTED and numbers[-1] == values[-1]:
        return f"{numbers[0]}-{numbers[-1]}/{step}"
    return ",".join(map(str, numbers))


def _range(field: Field, term: str, first: str | None, last: str | None) -> tuple[int, int]:
    """Return the first number of the term's range, and how many numbers the range has."""
    most = _LAST_DAY_OF_EACH_MONTH if field is MONTH_DAY else field.size
    if first is None or last is None:
        return field.first, most
    low, high = field.number(first), field.number(last)
    if field is MONTH_DAY and max(low, high) > most:
        raise ValueError(f"{term!r} is not a valid {field.name}: not every month has a day after the {most}th")
    return low, high - low + 1 if low <= high else high - low + field.size + 1
