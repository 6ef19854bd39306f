"""Push ids: 20 characters that sort by time, and by order within one millisecond."""

from __future__ import annotations

from collections.abc import Callable
from random import SystemRandom

ALPHABET = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
_TIME_LENGTH = 8
_TAIL_BITS = 72


class PushIds:
    """A source of push ids: 8 characters of time, then 12 random ones, which count up within one millisecond.

    If the clock steps back, the ids don't: they keep the last time until the clock has passed it.
    """

    def __init__(self, random_bits: Callable[[int], int] | None = None) -> None:
        self._random_bits = random_bits or SystemRandom().getrandbits
        self._time = -1
        self._tail = 0

    def next(self, now: int) -> str:
        if now > self._time:
            self._time = now
            self._tail = self._random_bits(_TAIL_BITS)
        else:
            self._tail += 1
            if self._tail >> _TAIL_BITS:  # the millisecond is used up
                self._time += 1
                self._tail = 0
        return _digits(self._time, _TIME_LENGTH) + _digits(self._tail, 12)


def _digits(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, 64)
        digits.append(ALPHABET[digit])
    return "".join(reversed(digits))
