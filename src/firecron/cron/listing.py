"""Lists of numbers in words: "0, 15 and 40 to 45". Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

_SHORTEST_RUN = 3
_SHORTEST_STEPS = 5
_SUFFIXES = {1: "st", 2: "nd", 3: "rd"}


def joined(parts: Sequence[str]) -> str:
    """Return the parts as one enumeration."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def listed(numbers: Iterable[int], said: Callable[[int], str] = str) -> list[str]:
    """Return the numbers, each as it is `said`, with three or more in a row as "40 to 45"."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    found: list[str] = []
    for run in runs:
        if len(run) >= _SHORTEST_RUN:
            found.append(f"{said(run[0])} to {said(run[-1])}")
        else:
            found.extend(map(said, run))
    return found


def steps(numbers: Iterable[int]) -> int | None:
    """Return the step from each of the numbers to the next; None if it differs, is 1, or if the numbers are few."""
    found = sorted(numbers)
    sizes = {later - number for number, later in pairwise(found)}
    return sizes.pop() if len(found) >= _SHORTEST_STEPS and len(sizes) == 1 and 1 not in sizes else None


def ordinal(number: int) -> str:
    """Return "1st", "2nd", "3rd", "4th" and so on."""
    is_teen = number // 10 % 10 == 1
    return f"{number}{'th' if is_teen else _SUFFIXES.get(number % 10, 'th')}"
